//! Tests over the project as a whole: the arrows between its rooms, and its benches.
//!
//! End-to-end tests lie beside this, in `e2e/`; they are a target of the package `mst`, whose
//! executable they run.
