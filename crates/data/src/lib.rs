//! Data sets and data loaders of Ternion: from files, downloads or synthetic data to batches of
//! tensors.
//!
//! - Labeled images: [`Mnist`] (MNIST and Fashion-MNIST), [`Cifar10`], [`synthetic_digits`] and
//!   [`synthetic_shapes`]. Each consists of one or more [`Split`]s, which [`Batches`] divides into
//!   batches.
//! - Data augmentation of images: [`Transform`] (crop, flip, cutout).
//! - Text: [`Text`], a [`Tokenizer`] ([`CharVocabulary`], [`ByteTokenizer`], [`BpeTokenizer`]),
//!   [`Tokens`] or a [`TokenFile`], and their [`Windows`].
//! - Numeric tables: [`Table`] from CSV files, [`StandardScaler`], [`Regression`],
//!   [`CaliforniaHousing`].
//! - Single images: [`read_image`] (PNG and JPEG), [`write_png`].
//!
//! Every data set takes a [`DataSource`]: a directory, or a [`Search`] of `$TERNION_DATA` and the
//! user's cache. MNIST and Fashion-MNIST are downloaded if they are not found. The others are not
//! downloaded; their error names the URL where they are published.
//!
//! Four features, all on by default, can be disabled to reduce compile time: `download` for
//! [`download_missing`] and the downloads of [`DataSource::Auto`], `progress` for their progress
//! bars, `image` for image files, and `tokenizers` for `BpeTokenizer`.
//!
//! The same seed gives the same digits, orders, windows, splits and transforms on every platform.
//! Each depends only on a seed and an integer (an epoch or a position). A checkpoint needs to store
//! only these two.
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
#[cfg(feature = "tokenizers")]
mod bpe;
mod california;
mod catalog;
mod cifar;
#[cfg(feature = "download")]
mod download;
mod error;
mod file;
mod glyphs;
mod idx;
#[cfg(feature = "image")]
mod image_file;
mod local;
mod mnist;
mod order;
mod prefetch;
mod random;
mod regression;
mod search;
mod split;
mod standard_scaler;
mod synthetic;
mod synthetic_shapes;
mod table;
mod text;
mod token_file;
mod transform;
mod windows;

pub use batch::{Batch, BatchIterator, Batches, Shuffled};
#[cfg(feature = "tokenizers")]
pub use bpe::BpeTokenizer;
pub use california::CaliforniaHousing;
pub use catalog::{Catalog, RemoteFile, Subject};
pub use cifar::{Cifar10, read_cifar10};
#[cfg(feature = "download")]
pub use download::download_missing;
pub use error::{CellError, DataError, Result};
pub use idx::{IdxImages, read_images, read_labels};
#[cfg(feature = "image")]
pub use image_file::{read_image, write_png};
pub use mnist::{DataSource, Mnist, Origin};
pub use order::LastBatch;
pub use random::Philox;
pub use regression::{Regression, RegressionBatch, RegressionBatches, RegressionOrder, RegressionSplit};
pub use search::{Network, Search};
pub use split::Split;
pub use standard_scaler::StandardScaler;
pub use synthetic::{SplitName, synthetic_digits};
pub use synthetic_shapes::{SHAPE_NAMES, synthetic_shapes};
pub use table::{CsvConfig, MissingCells, Table};
pub use text::{ByteTokenizer, CharVocabulary, Text, Tokenizer};
pub use token_file::{TokenFile, tokenize_file};
pub use transform::Transform;
pub use windows::{RandomWindows, SequentialWindows, TokenBatch, Tokens, Windows};
