//! MNIST and Fashion-MNIST: from where, and loaded into two splits.

use crate::catalog::{Catalog, Subject};
use crate::download::download_missing;
use crate::error::{DataError, Result};
use crate::idx;
use crate::search::{Network, Search, files_in, folders_of};
use crate::split::{Provenance, Split};
use crate::synthetic;
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// `[rows, cols]` of the images of this family.
const IMAGE_SIZE: [usize; 2] = [28, 28];

/// From where a data set is taken.
///
/// As text (for a command line): `auto`, `synthetic`, or else a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DataSource {
    /// `$TERNION_DATA`, the user's cache directory, or a download into that: see
    /// [`Search::from_environment`].
    #[default]
    Auto,
    /// This directory, or its subfolder `mnist` or `fashion-mnist`, and nothing else.
    Directory(PathBuf),
    /// Digits drawn by this crate: see [`crate::synthetic_digits`].
    Synthetic {
        /// Examples of the training set; at least 1.
        train: usize,
        /// Examples of the test set; at least 1.
        test: usize,
        /// Another seed, other digits.
        seed: u64,
    },
}

impl DataSource {
    /// Synthetic digits in the numbers of MNIST: 60,000 and 10,000, seed 0.
    pub const SYNTHETIC: DataSource = DataSource::Synthetic { train: 60_000, test: 10_000, seed: 0 };
}

impl FromStr for DataSource {
    type Err = Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Infallible> {
        Ok(match text {
            "auto" => DataSource::Auto,
            "synthetic" => DataSource::SYNTHETIC,
            directory => DataSource::Directory(PathBuf::from(directory)),
        })
    }
}

impl fmt::Display for DataSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataSource::Auto => write!(formatter, "auto"),
            DataSource::Directory(directory) => write!(formatter, "{}", directory.display()),
            DataSource::Synthetic { .. } => write!(formatter, "synthetic"),
        }
    }
}

/// From where a loaded data set came. Its `Display` is one line for the user, loud where the data is not
/// real.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Files that were on this machine.
    Files {
        /// The folder that holds the four files.
        folder: PathBuf,
    },
    /// Files that were just downloaded and verified.
    Downloaded {
        /// The folder of the cache that holds them now.
        folder: PathBuf,
    },
    /// Synthetic digits, because they were asked for.
    Synthetic,
    /// Synthetic digits, because the real ones could not be had.
    Substitute {
        /// Why not, in words.
        reason: String,
    },
}

impl Origin {
    /// Whether the digits are drawn by this crate, so that no accuracy on them is one on MNIST.
    pub fn is_synthetic(&self) -> bool {
        matches!(self, Origin::Synthetic | Origin::Substitute { .. })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NOT_MNIST: &str =
            "THESE ARE SYNTHETIC DIGITS, NOT MNIST: accuracies do not compare with MNIST's.";
        match self {
            Origin::Files { folder } => write!(formatter, "data from {}", folder.display()),
            Origin::Downloaded { folder } => {
                write!(formatter, "data downloaded and verified, now in {}", folder.display())
            }
            Origin::Synthetic => write!(formatter, "{NOT_MNIST}"),
            Origin::Substitute { reason } => {
                write!(
                    formatter,
                    "{NOT_MNIST} They stand in because the real data could not be had: {reason}"
                )
            }
        }
    }
}

/// A data set of the MNIST family: a training and a test split of 28 x 28 grey images in ten classes.
#[derive(Debug, Clone)]
pub struct Mnist {
    train: Split,
    test: Split,
    class_names: [&'static str; 10],
    origin: Origin,
}

impl Mnist {
    /// Loads the MNIST digits.
    ///
    /// Files are taken as they are: any number of examples, packed or not. Downloads are verified by SHA-256.
    ///
    /// # Errors
    /// If the files cannot be found or downloaded (the message lists every place and reason), or are damaged.
    pub fn load(source: DataSource) -> Result<Mnist> {
        Mnist::load_catalog(&Catalog::mnist(), source)
    }

    /// Loads Fashion-MNIST: the same shapes, ten kinds of clothing.
    ///
    /// # Errors
    /// As [`Mnist::load`], and for [`DataSource::Synthetic`]: nobody draws synthetic clothes.
    pub fn fashion(source: DataSource) -> Result<Mnist> {
        Mnist::load_catalog(&Catalog::fashion_mnist(), source)
    }

    /// Loads the MNIST digits, or synthetic ones where [`DataSource::Auto`] finds none and cannot download.
    ///
    /// Show the user the [`Origin`]: it says loudly when the digits are synthetic, and why.
    ///
    /// # Errors
    /// If files are there but damaged, or a directory that was named lacks them: never covered up by a
    /// substitute.
    pub fn load_or_synthetic(source: DataSource) -> Result<(Mnist, Origin)> {
        let loaded = match source {
            DataSource::Auto => Mnist::find_or_synthetic(
                &Catalog::mnist(),
                &Search::from_environment(),
                DataSource::SYNTHETIC,
            ),
            other => Mnist::load(other),
        }?;
        let origin = loaded.origin.clone();
        Ok((loaded, origin))
    }

    fn load_catalog(catalog: &Catalog, source: DataSource) -> Result<Mnist> {
        match source {
            DataSource::Auto => Mnist::find(catalog, &Search::from_environment()),
            DataSource::Directory(directory) => Mnist::from_directory(catalog, &directory),
            DataSource::Synthetic { train, test, seed } => Mnist::synthetic(catalog, train, test, seed),
        }
    }

    /// Searches, and downloads if nothing is found and the search allows it.
    ///
    /// # Errors
    /// As [`Mnist::load`].
    pub fn find(catalog: &Catalog, search: &Search) -> Result<Mnist> {
        for folder in search.candidates(catalog) {
            if let Ok(files) = files_in(&folder, catalog) {
                return Mnist::from_files(catalog, &files, Origin::Files { folder });
            }
        }
        let not_found = |download: String| DataError::NotFound {
            data_set: catalog.name,
            searched: search.candidates(catalog),
            download,
            files: catalog.plain_names(),
        };
        if search.network == Network::Forbidden {
            return Err(not_found("not allowed (TERNION_OFFLINE)".to_string()));
        }
        let Some(folder) = search.cache_folder(catalog) else {
            return Err(not_found(
                "no cache directory is known (neither XDG_CACHE_HOME nor HOME)".to_string(),
            ));
        };
        download_missing(catalog, &folder).map_err(|error| not_found(error.to_string()))?;
        let files = files_in(&folder, catalog).map_err(|missing| not_found(missing.join(", ")))?;
        Mnist::from_files(catalog, &files, Origin::Downloaded { folder })
    }

    /// [`Mnist::find`], but with `substitute` where nothing is found: the rule of
    /// [`Mnist::load_or_synthetic`].
    ///
    /// # Errors
    /// As [`Mnist::load_or_synthetic`].
    pub fn find_or_synthetic(catalog: &Catalog, search: &Search, substitute: DataSource) -> Result<Mnist> {
        match Mnist::find(catalog, search) {
            Err(error @ DataError::NotFound { .. }) if catalog.subject == Subject::Digits => {
                let mut drawn = Mnist::load_catalog(catalog, substitute)?;
                drawn.origin = Origin::Substitute { reason: error.to_string() };
                Ok(drawn)
            }
            outcome => outcome,
        }
    }

    /// The files of `directory`, or of its subfolder for this data set.
    fn from_directory(catalog: &Catalog, directory: &Path) -> Result<Mnist> {
        let mut missing = catalog.plain_names();
        for folder in folders_of(directory, catalog) {
            match files_in(&folder, catalog) {
                Ok(files) => return Mnist::from_files(catalog, &files, Origin::Files { folder }),
                Err(absent) if absent.len() < missing.len() => missing = absent,
                Err(_) => {}
            }
        }
        Err(DataError::Missing { directory: directory.to_path_buf(), data_set: catalog.name, missing })
    }

    fn from_files(catalog: &Catalog, files: &[PathBuf; 4], origin: Origin) -> Result<Mnist> {
        let [train_images, train_labels, test_images, test_labels] = files;
        let test = read_split(test_images, test_labels)?;
        refuse_other_data_set(catalog, test.labels(), test_labels)?;
        let train = read_split(train_images, train_labels)?;
        Ok(Mnist { train, test, class_names: catalog.class_names, origin })
    }

    fn synthetic(catalog: &Catalog, train: usize, test: usize, seed: u64) -> Result<Mnist> {
        if catalog.subject != Subject::Digits {
            return Err(DataError::NoSynthetic { data_set: catalog.name });
        }
        Ok(Mnist {
            train: synthetic::synthetic_digits(train, seed, synthetic::Part::Train)?,
            test: synthetic::synthetic_digits(test, seed, synthetic::Part::Test)?,
            class_names: catalog.class_names,
            origin: Origin::Synthetic,
        })
    }

    /// The training set.
    pub fn train(&self) -> &Split {
        &self.train
    }

    /// The test set.
    pub fn test(&self) -> &Split {
        &self.test
    }

    /// What the labels mean: `class_names()[label]`.
    pub fn class_names(&self) -> &[&'static str; 10] {
        &self.class_names
    }

    /// From where the data came.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

fn read_split(images_file: &Path, labels_file: &Path) -> Result<Split> {
    let images = idx::read_images(images_file)?;
    let found = [images.rows, images.cols];
    if found != IMAGE_SIZE {
        return Err(DataError::ImageSize { file: images_file.to_path_buf(), expected: IMAGE_SIZE, found });
    }
    let labels = idx::read_labels(labels_file)?;
    let files = Provenance { images: images_file, labels: labels_file };
    Split::from_files(images.pixels, labels, IMAGE_SIZE, 10, files)
}

/// MNIST and Fashion-MNIST use the same file names; a folder of the one must not pass for the other.
fn refuse_other_data_set(catalog: &Catalog, test_labels: &[u8], file: &Path) -> Result<()> {
    let others = [Catalog::mnist(), Catalog::fashion_mnist()];
    let other = others
        .into_iter()
        .filter(|other| other.name != catalog.name)
        .find(|other| test_labels.starts_with(&other.first_test_labels));
    match other {
        Some(Catalog { name: found, .. }) => {
            Err(DataError::OtherDataSet { file: file.to_path_buf(), expected: catalog.name, found })
        }
        None => Ok(()),
    }
}
