//! MNIST and Fashion-MNIST: from where, and loaded into two splits.

use crate::catalog::{Catalog, Subject};
#[cfg(feature = "download")]
use crate::download::download_missing;
use crate::error::{DataError, Result};
use crate::idx::{self, IdxImages};
use crate::search::{Copies, Network, Search, files_in, folders_of, torchvision_sets};
use crate::split::{Provenance, Split};
use crate::synthetic;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// From where a data set is taken.
///
/// As text (for a command line): `auto`, `synthetic`, or else a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DataSource {
    /// `$TERNION_DATA`, the user's cache directory, or, for the MNIST family, a download into that: see
    /// [`Search::from_environment`].
    #[default]
    Auto,
    /// This directory, or its subfolder for the data set (`mnist`, `cifar10`), and nothing else.
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
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "" => return Err(DataError::EmptyDirectoryName),
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
        /// The folder that holds the files.
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

/// A data set of the MNIST family: a training and a test split of grey images of one size. Files tell the size, and by their largest label how many classes there
/// are: 28 x 28 and 10 in the data sets themselves, 26, 47 or 62 classes in parts of EMNIST.
#[derive(Debug, Clone)]
pub struct Mnist {
    train: Split,
    test: Split,
    class_names: Vec<String>,
    origin: Origin,
    notices: Vec<String>,
}

impl Mnist {
    /// Loads the MNIST digits.
    ///
    /// Files are taken as they are: any number of examples, packed or not. Downloads are verified by SHA-256. Of a directory that holds, in a folder made by
    /// torchvision, one other data set of this form and no MNIST, that one is taken, which [`Mnist::notices`] tells.
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

    /// Loads another data set in MNIST's format from four IDX files of any names: training images and labels, test
    /// images and labels, plain or gzip. Its classes are named by their numbers.
    ///
    /// # Errors
    /// If a file cannot be read, is corrupt, or does not fit the others: with its name.
    pub fn from_idx(train: [&Path; 2], test: [&Path; 2]) -> Result<Mnist> {
        let copies = |file: &Path| Copies { first: file.to_path_buf(), other: None };
        let files = [train[0], train[1], test[0], test[1]].map(copies);
        let folder = test[0].parent().unwrap_or(Path::new("")).to_path_buf();
        Mnist::from_files(None, &files, Origin::Files { folder }, Vec::new())
    }

    /// Loads the MNIST digits, or synthetic ones where [`DataSource::Auto`] finds none and cannot download.
    ///
    /// Show the user the [`Origin`]: it says loudly when the digits are synthetic, and why.
    ///
    /// # Errors
    /// If files are there but damaged, or a directory that was named in `source` lacks them: never covered up
    /// by a substitute.
    pub fn load_or_synthetic(source: DataSource) -> Result<(Mnist, Origin)> {
        let loaded = match source {
            DataSource::Auto => Mnist::find_or_synthetic(
                &Catalog::mnist(),
                &Search::from_environment(),
                DataSource::SYNTHETIC,
            )
            .inspect(Mnist::warn),
            other => Mnist::load(other),
        }?;
        let origin = loaded.origin.clone();
        Ok((loaded, origin))
    }

    fn load_catalog(catalog: &Catalog, source: DataSource) -> Result<Mnist> {
        let loaded = match source {
            DataSource::Auto => Mnist::find(catalog, &Search::from_environment()),
            DataSource::Directory(directory) => Mnist::in_named(catalog, &directory),
            DataSource::Synthetic { train, test, seed } => Mnist::synthetic(catalog, train, test, seed),
        };
        loaded.inspect(Mnist::warn)
    }

    /// From a directory that was named for this data set, or, in the place of digits, the only other one that torchvision put there.
    fn in_named(catalog: &Catalog, directory: &Path) -> Result<Mnist> {
        let missing = match in_directory(catalog, directory) {
            Ok((folder, files)) => {
                return Mnist::from_files(Some(catalog), &files, Origin::Files { folder }, Vec::new());
            }
            Err(missing) => missing,
        };
        let sets = torchvision_sets(directory, catalog);
        let ([folder], Subject::Digits) = (&sets[..], catalog.subject) else { return Err(missing) };
        let Ok(files) = files_in(folder, catalog) else { return Err(missing) };
        let fashion = Catalog::fashion_mnist();
        let is_fashion = *folder == directory.join(fashion.torchvision_folder).join("raw");
        let notice = format!("no MNIST in {}: {} is taken", directory.display(), folder.display());
        let origin = Origin::Files { folder: folder.clone() };
        Mnist::from_files(Some(if is_fashion { &fashion } else { catalog }), &files, origin, vec![notice])
    }

    /// Searches, and downloads if nothing is found, or what is in the cache is damaged, and the search allows it.
    ///
    /// A directory of the search that does not hold the data is passed over and told by [`Mnist::notices`].
    ///
    /// # Errors
    /// As [`Mnist::load`].
    pub fn find(catalog: &Catalog, search: &Search) -> Result<Mnist> {
        let mut notices = Vec::new();
        for directory in &search.directories {
            match in_directory(catalog, directory) {
                Ok((folder, files)) => {
                    return Mnist::from_files(Some(catalog), &files, Origin::Files { folder }, notices);
                }
                Err(missing) => notices.push(format!("passed over, though named by TERNION_DATA: {missing}")),
            }
        }
        let damage = match in_cache(catalog, search) {
            None => None,
            Some((folder, files)) => {
                let origin = Origin::Files { folder: folder.clone() };
                match Mnist::from_files(Some(catalog), &files, origin, notices.clone()) {
                    Ok(mnist) => return Ok(mnist),
                    Err(damage) => Some((folder, damage)),
                }
            }
        };
        Mnist::download(catalog, search, notices, damage)
    }

    /// Downloads what the cache lacks or has damaged. Without a download, the damage is the error that counts.
    fn download(
        catalog: &Catalog,
        search: &Search,
        mut notices: Vec<String>,
        damage: Option<(PathBuf, DataError)>,
    ) -> Result<Mnist> {
        match (download_to_cache(catalog, search), damage) {
            (Ok((folder, files)), damage) => {
                notices.extend(
                    damage.map(|(_, error)| format!("damaged in the cache, downloaded again: {error}")),
                );
                Mnist::from_files(Some(catalog), &files, Origin::Downloaded { folder }, notices)
            }
            (Err(download), Some((folder, damage))) => {
                Err(DataError::DamagedCache { folder, damage: Box::new(damage), download })
            }
            (Err(download), None) => Err(DataError::NotFound {
                data_set: catalog.name,
                searched: search.candidates(catalog),
                passed_over: notices,
                download,
                files: catalog.plain_names(),
            }),
        }
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
                if let DataError::NotFound { passed_over, .. } = &error {
                    drawn.notices.clone_from(passed_over);
                }
                drawn.origin = Origin::Substitute { reason: error.to_string() };
                Ok(drawn)
            }
            outcome => outcome,
        }
    }

    /// Reads the files of a data set of the catalog, or of none.
    fn from_files(
        catalog: Option<&Catalog>,
        files: &[Copies; 4],
        origin: Origin,
        mut notices: Vec<String>,
    ) -> Result<Mnist> {
        let [train_images, train_labels, test_images, test_labels] = files;
        let (test, files) = read_split(test_images, test_labels, &mut notices)?;
        catalog.map_or(Ok(()), |catalog| refuse_other_data_set(catalog, test.labels(), files.labels))?;
        let (train, _) = read_split(train_images, train_labels, &mut notices)?;
        let [expected, found] = [&train, &test].map(|split| [split.rows(), split.cols()]);
        if found != expected {
            return Err(DataError::ImageSize { file: files.images.to_path_buf(), expected, found });
        }
        let largest = train.labels().iter().chain(test.labels()).max();
        let classes = largest.map_or(0, |&label| usize::from(label) + 1);
        Ok(Mnist { train, test, class_names: names(catalog, classes), origin, notices })
    }

    /// The same with this many classes, of which some have no example: what files do not tell.
    ///
    /// # Errors
    /// If a label is not below `classes`, or there would be more than bytes tell apart.
    pub fn with_classes(mut self, classes: usize) -> Result<Mnist> {
        const BYTES: usize = 1 << u8::BITS;
        if classes > BYTES {
            return Err(DataError::ClassCount { classes, most: BYTES });
        }
        for (split, name) in [(&self.train, "training labels"), (&self.test, "test labels")] {
            let beyond = split.labels().iter().zip(0..).find(|&(&label, _)| usize::from(label) >= classes);
            if let Some((&label, index)) = beyond {
                return Err(DataError::LabelOutOfRange { file: PathBuf::from(name), index, label, classes });
            }
        }
        self.class_names.truncate(classes);
        let begun = self.class_names.len();
        self.class_names.extend((begun..classes).map(|class| class.to_string()));
        Ok(self)
    }

    fn synthetic(catalog: &Catalog, train: usize, test: usize, seed: u64) -> Result<Mnist> {
        if catalog.subject != Subject::Digits {
            return Err(DataError::NoSynthetic { data_set: catalog.name });
        }
        Ok(Mnist {
            train: synthetic::synthetic_digits(train, seed, synthetic::Part::Train)?,
            test: synthetic::synthetic_digits(test, seed, synthetic::Part::Test)?,
            class_names: names(Some(catalog), catalog.class_names.len()),
            origin: Origin::Synthetic,
            notices: Vec::new(),
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
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// From where the data came.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What the user should know of the way to the data, one line each: directories that were named and lack it,
    /// damaged files in whose place others were taken.
    ///
    /// Loading from a [`DataSource`] prints them to the standard error stream.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    fn warn(&self) {
        for notice in &self.notices {
            // Where a warning cannot be printed there is no one to read it.
            let _ = writeln!(std::io::stderr(), "warning: {notice}");
        }
    }
}

/// A folder and what it holds of a data set.
type Place = (PathBuf, [Copies; 4]);

/// The files of `directory`, or of its subfolder for this data set.
fn in_directory(catalog: &Catalog, directory: &Path) -> Result<Place> {
    if directory.as_os_str().is_empty() {
        return Err(DataError::EmptyDirectoryName);
    }
    let mut missing = catalog.plain_names();
    for folder in folders_of(directory, catalog) {
        match files_in(&folder, catalog) {
            Ok(files) => return Ok((folder, files)),
            Err(absent) if absent.len() < missing.len() => missing = absent,
            Err(_) => {}
        }
    }
    let (directory, data_set) = (directory.to_path_buf(), catalog.name);
    Err(DataError::Missing { others: torchvision_sets(&directory, catalog), directory, data_set, missing })
}

/// What labels below `classes` mean: the catalog's names where it has as many, else their numbers.
fn names(catalog: Option<&Catalog>, classes: usize) -> Vec<String> {
    match catalog.and_then(|catalog| catalog.class_names.get(..classes)) {
        Some(names) => names.iter().map(|&name| name.to_owned()).collect(),
        None => (0..classes).map(|class| class.to_string()).collect(),
    }
}

fn in_cache(catalog: &Catalog, search: &Search) -> Option<Place> {
    let folder = search.cache_folder(catalog)?;
    let files = files_in(&folder, catalog).ok()?;
    Some((folder, files))
}

/// Fetches what is wanting; the reason in words where that cannot be.
fn download_to_cache(catalog: &Catalog, search: &Search) -> std::result::Result<Place, String> {
    if search.network == Network::Forbidden {
        return Err("not allowed (TERNION_OFFLINE)".to_string());
    }
    if cfg!(not(feature = "download")) {
        return Err("not compiled in (feature `download` of ternion-data)".to_string());
    }
    let folder = search
        .cache_folder(catalog)
        .ok_or("no cache directory is known (neither XDG_CACHE_HOME nor HOME)".to_string())?;
    #[cfg(feature = "download")]
    download_missing(catalog, &folder).map_err(|error| error.to_string())?;
    let files = files_in(&folder, catalog).map_err(|missing| missing.join(", "))?;
    Ok((folder, files))
}

/// A split, and the files that it is from.
fn read_split<'a>(
    images: &'a Copies,
    labels: &'a Copies,
    notices: &mut Vec<String>,
) -> Result<(Split, Provenance<'a>)> {
    let (IdxImages { pixels, rows, cols }, images) = read_sound(images, idx::read_images, notices)?;
    let (labels_read, labels) = read_sound(labels, idx::read_labels, notices)?;
    let files = Provenance { images, labels };
    // Every byte names a class until both splits tell how many there are.
    Ok((Split::from_files(pixels, labels_read, [1, rows, cols], 1 << u8::BITS, &files)?, files))
}

/// What the first sound copy holds, and which that is. If none is sound, the error is the first one's.
fn read_sound<'a, T>(
    copies: &'a Copies,
    read: fn(&Path) -> Result<T>,
    notices: &mut Vec<String>,
) -> Result<(T, &'a Path)> {
    let error = match read(&copies.first) {
        Ok(content) => return Ok((content, &copies.first)),
        Err(error) => error,
    };
    match copies.other.as_ref().map(|other| (read(other), other)) {
        Some((Ok(content), other)) => {
            notices.push(format!("{error}; {} is taken instead", other.display()));
            Ok((content, other))
        }
        _ => Err(error),
    }
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
