//! From the author's `impl Judge` to the component's exports.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::judge::{Trial, Verdict, bindings};
use crate::{Error, options};

/// A grader of trials.
pub trait Judge {
    /// What the eval may set. The host has checked it against the manifest's schema; where the
    /// two disagree the user is told in serde's words.
    type Options: DeserializeOwned;

    /// Grades one trial. An error is the instrument's, and never a failed trial.
    fn judge(trial: &Trial<'_>, options: Self::Options) -> Result<Verdict, Error>;
}

/// What [`export_judge!`](crate::export_judge) exports for a judge.
#[doc(hidden)]
pub struct Export<J>(PhantomData<J>);

impl<J: Judge> bindings::exports::mst::plugin::grading::Guest for Export<J> {
    fn judge(trial: &bindings::mst::plugin::evidence::Trial, options: String) -> Result<Verdict, Error> {
        J::judge(&Trial::from_host(trial), options::parse_options(&options)?)
    }
}

#[doc(hidden)]
pub fn is_judge<T: Judge>() {}

/// Makes a [`Judge`](crate::judge::Judge) the component's judge. Call it once in a crate.
#[macro_export]
macro_rules! export_judge {
    ($judge:ty) => {
        // A native linker takes no symbol like `mst:plugin/…`: there the type is only checked.
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() = $crate::judge::is_judge::<$judge>;
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Exported = $crate::judge::Export<$judge>;
    $crate::judge::bindings::export!(Exported with_types_in $crate::judge::bindings);
        };
    };
}
