//! The trials of a run, from its plan and never from what lies on the disk.

use mst_model::eval::Eval;
use mst_model::{CaseId, TrialKey};

/// The planned trials of one case: variant by variant in the eval's order, each from index 0.
pub fn trials_of_case<'a>(eval: &'a Eval, case: &'a CaseId) -> impl Iterator<Item = TrialKey> + 'a {
    eval.variants.iter().flat_map(move |variant| {
        (0..eval.trials).map(move |index| TrialKey { case: case.clone(), variant: variant.id.clone(), index })
    })
}
