//! The run directory: where a run's plan, cases, trials and grades lie, and how they get there
//! whole or not at all.
//!
//! For: the layout, atomic writes, the lock, the ledger of machines, and reading back with the
//! checks that tell a whole file from a damaged, foreign or newer one.
//! Not for: deciding what runs or what counts (`mst-coordinator`, `mst-report`).
//! Must never know: a clock, an environment, a terminal, wasm, the protocol.
//!
//! # Layout
//!
//! ```text
//! RUNS/RUN/run.json                          the plan and the state; replaced atomically
//! RUNS/RUN/cases.jsonl                       the cases, written once
//! RUNS/RUN/trials/CASE/VARIANT/N/            transcript.json, report, stderr, files/…
//! RUNS/RUN/trials/CASE/VARIANT/N.K/          attempt K at the same trial
//! RUNS/RUN/grades/JUDGE/CASE.VARIANT.N.json  verdicts
//! RUNS/RUN/machines.jsonl                    the ledger of machines, appended to; where there are any
//! RUNS/RUN/audit.jsonl                       what plugins called, appended to
//! RUNS/RUN/lock                              held by the one writer; names its process
//! RUNS/RUN/tmp/                              staging
//! ```
//!
//! CASE, VARIANT and JUDGE are names escaped by [`name`]. Nothing is found by listing these
//! directories: who wants all trials goes by the plan ([`RunDir::trials`]), so that a stray
//! directory is never a trial and a lost one is always missing.
//!
//! # What survives what
//!
//! Everything is made in `tmp/` (on the same file system), its contents are synced, and then it
//! is renamed to its place: a file, or a trial's directory as a whole. A process killed at any
//! instruction therefore leaves leftovers in `tmp/` and nowhere else; they are read by nobody and
//! removed when the run is next opened for writing. After a power cut too, what is in its place
//! is whole, grades apart, for its bytes reached the disk before its name. Directories are *not* synced: a
//! rename of the last seconds may be lost, and what is lost so is a missing trial or grade, which
//! `--resume` collects again. A sync of every directory would double the cost of a trial to save
//! that.
//!
//! The ledger is the exception, since a machine that nobody knows of is worse than a trial that is
//! missing: each line is synced before what it announces is done, and so are the directories that
//! lead to it. A line that was cut off is as good as not written, for nothing was done about it;
//! readers pass over it and the next writer removes it.
//!
//! Grades are synced many at a time, after they are in their place, for one can be made again: what a
//! power cut leaves empty is no grade, and the next grading makes it.
//!
//! The audit is appended to as well, and never synced: each append is with the system when it
//! returns, so that it outlives the process. What only read is kept, and written before anything that
//! came of it has its place in the run: no trial and no grade stands there without its calls.
//!
//! A trial that is in its place is never replaced. One writer a run: [`RunWriter`] holds the
//! lock, [`RunDir`] can't write. Reading takes no lock and sees each file either old or new.
//!
//! # Modes
//!
//! Files and directories get the modes that the user's umask gives to any other program's, not
//! the 0600 of temporary files: a run is there to be read by colleagues and by CI, secrets never
//! enter it, and whoever wants it private has a umask for that.

pub mod atomic;
mod audit;
mod cases;
mod error;
mod json;
mod layout;
mod ledger;
mod lock;
pub mod name;
mod plan;
mod run_dir;
mod run_id;
mod run_writer;
mod stage;
mod tree;
mod trial;
mod unsynced;
mod whole_lines;

pub use audit::{AuditLines, AuditLog};
pub use cases::{CaseHead, CaseLines, CasesWriter, StoredCase};
pub use error::{StoreError, no_room};
pub use ledger::Ledger;
pub use plan::trials_of_case;
pub use run_dir::RunDir;
pub use run_id::new_run_id;
pub use run_writer::{Expected, RunWriter};
pub use stage::{Committed, ResultsDir, TrialStage};
pub use trial::{read_transcript, verify_trial};

/// What this crate's functions return.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
