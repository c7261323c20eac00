//! Child processes: started in a group of their own, bounded, captured, and gone at the end.
//!
//! For: running one program to its end, or to its deadline, with all that it starts; starting one
//! that is talked with while it runs; and finding the program that a name means.
//! Not for: deciding what may run, or what is said.
//! Must never know: trials, plugins, judges, or anything else of mst.
//!
//! This is no jail. What a program starts is found by its process group and, where it left that,
//! by [`adopt_orphans`]; a program that sets out to hide from both needs a container around it.

mod capture;
mod error;
mod living;
mod orphans;
mod resolve;
mod run;
mod running;
mod see_out;
mod spawn;
mod spec;
mod streams;
mod tail;
mod tree;
mod watch;

pub use error::{Left, RunError};
pub use living::kill_all;
pub use orphans::{MARKER, adopt_orphans};
pub use resolve::{NotFound, resolve_program};
pub use run::run;
pub use running::{Running, start};
pub use spec::{Cause, Ended, Exit, Finished, Spec, Stdin, Stream};
pub use streams::{ChildStdin, ChildStdout};
pub use tail::{STDERR_TAIL_BYTES, StderrTail};
pub use tree::settle;
