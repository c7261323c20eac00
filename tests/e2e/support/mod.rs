//! What all tests stand on: a closed place, evals, runs read back without mst's own code.

mod chance;
mod eval;
mod guests;
mod login;
mod needs;
mod output;
mod run;
mod running;
mod space;
pub(crate) mod wasm;

pub(crate) use chance::Chance;
pub(crate) use eval::{Eval, case, sh};
pub(crate) use guests::{example, guest, guests_dir};
pub(crate) use login::{Asked, Login, Proxy};
pub(crate) use needs::{human_eval, missing, python};
pub(crate) use output::Output;
pub(crate) use run::{Run, files_below, holds, sha256};
pub(crate) use running::{
    Running, Sampling, before_its_deadline, gone, processes_that_hold, processes_with, wait_at_most,
    wait_until,
};
pub(crate) use space::{Space, repository};

/// Leaves the test where what it needs is not there.
macro_rules! need {
    ($what:expr) => {
        match $what {
            Some(it) => it,
            None => return,
        }
    };
}
pub(crate) use need;
