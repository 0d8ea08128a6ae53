//! Data sets and loaders of Ternion: from files, a download or a drawing hand to batches of tensors.
//!
//! [`Mnist`] loads the MNIST digits or Fashion-MNIST into two [`Split`]s, [`synthetic_digits`] draws such a
//! split without any file, and [`Batches`] shuffles, cuts, normalises and prefetches. The same seed gives the
//! same digits and the same order of examples on every platform.
//!
//! ```no_run
//! use ternion_data::{DataSource, Mnist};
//!
//! # fn main() -> ternion_data::Result<()> {
//! # let device = ternion_cpu::device();
//! let mnist = Mnist::load(DataSource::Auto)?;
//! let batches = mnist.train().shuffled(1).batches(64, &device).prefetch(4);
//! for epoch in 0..5 {
//!     for batch in batches.epoch(epoch) {
//!         let batch = batch?; // images [64, 1, 28, 28] f32, labels [64] i64
//!         println!("{}", batch.size);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod batch;
mod catalog;
mod download;
mod error;
mod glyphs;
mod idx;
mod mnist;
mod order;
mod prefetch;
mod random;
mod search;
mod split;
mod synthetic;

pub use batch::{Batch, BatchIterator, Batches, Shuffled};
pub use catalog::{Catalog, RemoteFile, Subject};
pub use download::download_missing;
pub use error::{DataError, Result};
pub use idx::{IdxImages, read_images, read_labels};
pub use mnist::{DataSource, Mnist, Origin};
pub use order::LastBatch;
pub use random::Philox;
pub use search::{Network, Search};
pub use split::Split;
pub use synthetic::{Part, synthetic_digits};
