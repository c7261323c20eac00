//! Datasets: a source of cases.
//!
//! Implement [`Dataset`], call [`export_dataset!`](crate::export_dataset). An author gives an
//! iterator; the SDK pages it, so that nobody holds more than a page.
//!
//! ```
//! use mst_sdk::dataset::{Case, Dataset, Error};
//!
//! #[derive(serde::Deserialize)]
//! struct Options {
//!     up_to: u32,
//! }
//!
//! /// Additions.
//! struct Sums;
//!
//! impl Dataset for Sums {
//!     type Options = Options;
//!
//!     fn open(options: Options) -> Result<impl Iterator<Item = Result<Case, Error>> + 'static, Error> {
//!         Ok((0..options.up_to).map(|n| Ok(Case::new(format!("{n}+{n}"), format!("What is {n} + {n}?")).with_expected(2 * n))))
//!     }
//! }
//!
//! mst_sdk::export_dataset!(Sums);
//! ```

pub mod bindings;
mod export;
mod page;

pub use crate::{Case, Error, File, Message, Role};
pub use export::Dataset;
#[doc(hidden)]
pub use export::{Export, is_dataset};
