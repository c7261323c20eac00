//! Runs on a disk: what is written, what a cut-off writer leaves, who may write.

mod cut_off;
mod fixture;
mod layout;
mod ledger;
mod lock;
