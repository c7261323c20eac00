//! Data in flight: mst.shard/v1, what a shard's worker and the coordinator say to each other.
//!
//! One JSON object a line, UTF-8, at most 1 MiB. Unknown fields are ignored, so that a message
//! may grow; unknown types are refused, so that nothing is silently not done. The worker's
//! messages are numbered from 1. `PROTOCOL.md` beside this crate is the whole of it, for somebody
//! who writes a worker in another language.
//!
//! For: the messages, their codec, and the rules that hold for one line.
//! Not for: reading or writing streams (both ends do that), or the order in which messages come
//! (the state machines of `mst-worker` and `mst-coordinator` hold that).
//! Must never know: a socket, a file, a clock.

mod codec;
mod message;
mod secret;

pub use codec::{FrameError, Lines, MAX_LINE_BYTES, MAX_NOISE_LINES, decode, encode};
pub use message::{
    FromCoordinator, FromWorker, InFlight, Need, Numbered, PROTOCOL, Token, TrialDone, Uses, Work,
};
pub use secret::Secret;
