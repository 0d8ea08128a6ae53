//! Where a data set is searched on this machine. This module reads no file and downloads nothing.

use crate::catalog::{Catalog, dotted_name, plain_name};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The locations of a search, in order, and whether a download is allowed if nothing is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// Directories that are searched first. Nothing is written to them.
    pub directories: Vec<PathBuf>,
    /// The cache directory, which is searched last. Downloads go to its subfolder for the data set.
    pub cache: Option<PathBuf>,
    /// Whether the network may be used.
    pub network: Network,
}

/// Whether a search may download files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Missing files are downloaded into the cache.
    Allowed,
    /// Only files on this machine are used.
    Forbidden,
}

impl Search {
    /// Returns the search of [`crate::DataSource::Auto`], from the environment variables of the
    /// process.
    ///
    /// The order is `$TERNION_DATA`, then the user's cache directory (`$XDG_CACHE_HOME` or
    /// `~/.cache`, on macOS `~/Library/Caches`, on Windows `%LOCALAPPDATA%`, each with `/ternion`
    /// appended), then a download into the cache, unless `$TERNION_OFFLINE` is set and not empty.
    pub fn from_environment() -> Self {
        Search::from_variables(|name| std::env::var_os(name), Platform::current())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>, platform: Platform) -> Self {
        let non_empty = |name: &str| variable(name).filter(|value| !value.is_empty());
        Search {
            directories: non_empty("TERNION_DATA").map(PathBuf::from).into_iter().collect(),
            cache: cache_directory(non_empty, platform).map(|cache| cache.join("ternion")),
            network: match non_empty("TERNION_OFFLINE") {
                Some(_) => Network::Forbidden,
                None => Network::Allowed,
            },
        }
    }

    /// Returns every folder that may contain the files, in order of preference.
    pub(crate) fn candidates(&self, catalog: &Catalog) -> Vec<PathBuf> {
        let named = self.directories.iter().flat_map(|directory| folders_of(directory, catalog));
        named.chain(self.cache_folder(catalog)).collect()
    }

    /// Returns the folder in the cache for this data set.
    pub(crate) fn cache_folder(&self, catalog: &Catalog) -> Option<PathBuf> {
        self.cache.as_ref().map(|cache| cache.join(catalog.folder))
    }
}

/// Returns the folders of a data directory that may contain files of this data set.
///
/// The data set's subfolder comes first, because the data sets of this family use the same file
/// names.
pub(crate) fn folders_of(directory: &Path, catalog: &Catalog) -> [PathBuf; 4] {
    let raw = Path::new("raw");
    let by_torchvision = directory.join(catalog.torchvision_folder).join(raw);
    [directory.join(catalog.folder), directory.to_path_buf(), by_torchvision, directory.join(raw)]
}

/// Returns the folders in `directory` that torchvision created for data sets of this format, sorted
/// by name. Only folders with all four files are included.
pub(crate) fn torchvision_sets(directory: &Path, catalog: &Catalog) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let raw = entries.flatten().map(|entry| entry.path().join("raw"));
    let mut sets: Vec<PathBuf> = raw.filter(|folder| files_in(folder, catalog).is_ok()).collect();
    sets.sort();
    sets
}

/// A file of a data set in a folder: compressed, uncompressed, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileVariants {
    /// The file that is read first: the compressed one if it exists.
    pub preferred: PathBuf,
    /// The uncompressed file, if both exist.
    pub alternative: Option<PathBuf>,
}

/// Finds the four files of a data set in `folder`, with or without `.gz`. The error is the list of
/// missing names.
pub(crate) fn files_in(folder: &Path, catalog: &Catalog) -> Result<[FileVariants; 4], Vec<String>> {
    let found = catalog.files.each_ref().map(|file| {
        let dotted = dotted_name(&file.name);
        let packed = format!("{dotted}.gz");
        let names = [file.name.as_str(), plain_name(&file.name), &packed, &dotted];
        let mut existing = names.map(|name| folder.join(name)).into_iter().filter(|path| path.is_file());
        Some(FileVariants { preferred: existing.next()?, alternative: existing.next() })
    });
    let missing: Vec<String> = catalog
        .plain_names()
        .into_iter()
        .zip(&found)
        .filter(|(_, path)| path.is_none())
        .map(|(n, _)| n)
        .collect();
    match found {
        [Some(train_images), Some(train_labels), Some(test_images), Some(test_labels)] => {
            Ok([train_images, train_labels, test_images, test_labels])
        }
        _ => Err(missing),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Platform {
    Windows,
    MacOs,
    Other,
}

impl Platform {
    fn current() -> Self {
        match std::env::consts::OS {
            "windows" => Platform::Windows,
            "macos" => Platform::MacOs,
            _ => Platform::Other,
        }
    }
}

/// Returns the user's cache directory. `$XDG_CACHE_HOME` has priority on every platform if it is
/// absolute, as its specification requires.
fn cache_directory(variable: impl Fn(&str) -> Option<OsString>, platform: Platform) -> Option<PathBuf> {
    let explicit = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || variable("HOME").map(PathBuf::from);
    explicit.or_else(|| match platform {
        Platform::Windows => variable("LOCALAPPDATA").map(PathBuf::from),
        Platform::MacOs => home().map(|home| home.join("Library").join("Caches")),
        Platform::Other => home().map(|home| home.join(".cache")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(variables: &[(&str, &str)], platform: Platform) -> Search {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        Search::from_variables(lookup, platform)
    }

    #[test]
    fn cache_directory_follows_the_platform_convention() {
        let home = ("HOME", "/home/ada");
        let cases = [
            (Platform::Other, vec![home], Some("/home/ada/.cache/ternion")),
            (Platform::MacOs, vec![home], Some("/home/ada/Library/Caches/ternion")),
            (Platform::Windows, vec![home, ("LOCALAPPDATA", "/local")], Some("/local/ternion")),
            (Platform::Other, vec![home, ("XDG_CACHE_HOME", "/cache")], Some("/cache/ternion")),
            (Platform::Other, vec![home, ("XDG_CACHE_HOME", "relative")], Some("/home/ada/.cache/ternion")),
            (Platform::Other, vec![home, ("XDG_CACHE_HOME", "")], Some("/home/ada/.cache/ternion")),
            (Platform::Other, vec![], None),
        ];
        for (platform, variables, expected) in cases {
            assert_eq!(search(&variables, platform).cache, expected.map(PathBuf::from), "{variables:?}");
        }
    }

    #[test]
    fn directory_is_searched_before_the_cache_and_its_subfolder_first() {
        let search = search(&[("TERNION_DATA", "/data"), ("HOME", "/home/ada")], Platform::Other);
        let expected = [
            "/data/fashion-mnist",
            "/data",
            "/data/FashionMNIST/raw",
            "/data/raw",
            "/home/ada/.cache/ternion/fashion-mnist",
        ];
        assert_eq!(search.candidates(&Catalog::fashion_mnist()), expected.map(PathBuf::from));
    }

    #[test]
    fn the_network_can_be_forbidden() {
        assert_eq!(search(&[], Platform::Other).network, Network::Allowed);
        assert_eq!(search(&[("TERNION_OFFLINE", "")], Platform::Other).network, Network::Allowed);
        assert_eq!(search(&[("TERNION_OFFLINE", "1")], Platform::Other).network, Network::Forbidden);
    }

    #[test]
    fn files_are_found_with_and_without_gz_and_missing_ones_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::mnist();
        for name in ["train-images-idx3-ubyte", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(files_in(folder.path(), &catalog).unwrap_err(), ["t10k-labels-idx1-ubyte"]);
        std::fs::write(folder.path().join("t10k-labels-idx1-ubyte"), "").unwrap();
        let files = files_in(folder.path(), &catalog).unwrap();
        assert!(files[0].preferred.ends_with("train-images-idx3-ubyte"));
        assert!(files[1].preferred.ends_with("train-labels-idx1-ubyte.gz"));
        assert_eq!(files[1].alternative, None);
        std::fs::write(folder.path().join("train-labels-idx1-ubyte"), "").unwrap();
        let files = files_in(folder.path(), &catalog).unwrap();
        assert!(files[1].preferred.ends_with("train-labels-idx1-ubyte.gz"));
        assert_eq!(files[1].alternative, Some(folder.path().join("train-labels-idx1-ubyte")));
        std::fs::rename(
            folder.path().join("train-images-idx3-ubyte"),
            folder.path().join("train-images.idx3-ubyte"),
        )
        .unwrap();
        assert!(files_in(folder.path(), &catalog).unwrap()[0].preferred.ends_with("train-images.idx3-ubyte"));
    }
}
