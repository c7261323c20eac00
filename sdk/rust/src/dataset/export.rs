//! From the author's `impl Dataset` to the component's exports.

use std::cell::RefCell;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::dataset::bindings::exports::mst::plugin::cases as wire;
use crate::dataset::page::Pages;
use crate::{Case, Error, options};

/// A source of cases.
pub trait Dataset: 'static {
    /// What the eval may set. The host has checked it against the manifest's schema; where the
    /// two disagree the user is told in serde's words.
    type Options: DeserializeOwned;

    /// Opens the dataset that the options name: its cases in a stable order, read once from
    /// first to last. Options that the manifest calls a path hold the path in the sandbox.
    fn open(options: Self::Options) -> Result<impl Iterator<Item = Result<Case, Error>> + 'static, Error>;
}

/// What [`export_dataset!`](crate::export_dataset) exports for a dataset.
#[doc(hidden)]
pub struct Export<D>(PhantomData<D>);

/// Any dataset's cases: an author's iterator may be a type without a name.
type Cases = Box<dyn Iterator<Item = Result<Case, Error>>>;

/// A reader of pages.
#[doc(hidden)]
pub struct Cursor(RefCell<Pages<Cases>>);

impl<D: Dataset> wire::Guest for Export<D> {
    type Cursor = Cursor;

    fn open(options: String) -> Result<wire::Cursor, Error> {
        let cases: Cases = Box::new(D::open(options::parse_options(&options)?)?);
        Ok(wire::Cursor::new(Cursor(RefCell::new(Pages::new(cases)))))
    }
}

impl wire::GuestCursor for Cursor {
    fn next(&self, limit: u32) -> Result<Vec<wire::EvalCase>, Error> {
        self.0.borrow_mut().next(limit)
    }
}

#[doc(hidden)]
pub fn is_dataset<T: Dataset>() {}

/// Makes a [`Dataset`](crate::dataset::Dataset) the component's dataset. Call it once in a
/// crate.
#[macro_export]
macro_rules! export_dataset {
    ($dataset:ty) => {
        // A native linker takes no symbol like `mst:plugin/…`: there the type is only checked.
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() = $crate::dataset::is_dataset::<$dataset>;
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Exported = $crate::dataset::Export<$dataset>;
    $crate::dataset::bindings::export!(Exported with_types_in $crate::dataset::bindings);
        };
    };
}
