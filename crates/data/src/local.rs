//! Data sets that are found on this machine but are not downloaded. The search is the same as for
//! MNIST, but without the download.

use crate::error::{DataError, Result};
use crate::mnist::{DataSource, Origin};
use crate::search::Search;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A data set that is published as an archive, or whose files have no fixed names.
pub(crate) struct LocalSet {
    /// The name in messages.
    pub name: &'static str,
    /// Subfolders of a data directory and of the cache, in order of preference. The directory
    /// itself is searched last.
    pub folders: &'static [&'static str],
    /// Lists of file names, each a complete data set. The first complete list is used.
    pub layouts: &'static [&'static [&'static str]],
    /// The URL where it is published, for messages.
    pub published: &'static str,
}

/// The files of a [`LocalSet`].
#[derive(Debug)]
pub(crate) struct LocalFiles {
    /// The index of the layout.
    pub layout: usize,
    /// One path for each name in the layout.
    pub files: Vec<PathBuf>,
    pub origin: Origin,
    /// The given directories that lack the data set, one line each.
    pub notices: Vec<String>,
}

impl LocalSet {
    /// Finds the files, and prints the notices to the standard error stream.
    ///
    /// # Errors
    /// Returns an error if the files are not found, or synthetic data is requested.
    pub(crate) fn open(&self, source: &DataSource) -> Result<LocalFiles> {
        let found = match source {
            DataSource::Auto => self.find(&Search::from_environment()),
            DataSource::Directory(directory) => self.in_directory(directory),
            DataSource::Synthetic { .. } => Err(DataError::NoSynthetic { data_set: self.name }),
        }?;
        for notice in &found.notices {
            // If the warning cannot be printed, the error is ignored.
            let _ = writeln!(std::io::stderr(), "warning: {notice}");
        }
        Ok(found)
    }

    /// Finds the files in the directories of `search`, then in its cache.
    ///
    /// # Errors
    /// Returns an error if the files are not found. The error lists every folder that was searched.
    pub(crate) fn find(&self, search: &Search) -> Result<LocalFiles> {
        let mut notices = Vec::new();
        for directory in &search.directories {
            match self.in_directory(directory) {
                Ok(found) => return Ok(LocalFiles { notices, ..found }),
                Err(missing) => notices.push(format!("skipped, though named by TERNION_DATA: {missing}")),
            }
        }
        let cached = search.cache.iter().flat_map(|cache| self.subfolders(cache));
        match cached.clone().find_map(|folder| self.in_folder(&folder)) {
            Some(found) => Ok(LocalFiles { notices, ..found }),
            None => Err(DataError::NotFound {
                data_set: self.name,
                searched: search
                    .directories
                    .iter()
                    .flat_map(|named| self.folders_of(named))
                    .chain(cached)
                    .collect(),
                skipped: notices,
                download: format!("not offered; it is published at {}", self.published),
                files: self.layouts[0].iter().map(|name| (*name).to_string()).collect(),
            }),
        }
    }

    fn in_directory(&self, directory: &Path) -> Result<LocalFiles> {
        if directory.as_os_str().is_empty() {
            return Err(DataError::EmptyDirectoryName);
        }
        let folders: Vec<PathBuf> = self.folders_of(directory).collect();
        folders.iter().find_map(|folder| self.in_folder(folder)).ok_or_else(|| DataError::Missing {
            directory: directory.to_path_buf(),
            data_set: self.name,
            missing: self.fewest_missing(&folders),
            others: Vec::new(),
        })
    }

    fn subfolders(&self, directory: &Path) -> impl Iterator<Item = PathBuf> + Clone + use<> {
        let directory = directory.to_path_buf();
        self.folders.iter().map(move |folder| directory.join(folder))
    }

    fn folders_of(&self, directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
        self.subfolders(directory).chain([directory.to_path_buf()])
    }

    fn in_folder(&self, folder: &Path) -> Option<LocalFiles> {
        let layout = self.layouts.iter().position(|names| missing_files(folder, names).is_empty())?;
        let files = self.layouts[layout].iter().map(|name| folder.join(name)).collect();
        let origin = Origin::Files { folder: folder.to_path_buf() };
        Some(LocalFiles { layout, files, origin, notices: Vec::new() })
    }

    /// Returns the files that the most complete layout lacks, or the files of all layouts if no
    /// file of any layout exists.
    fn fewest_missing(&self, folders: &[PathBuf]) -> Vec<String> {
        let pairs = folders.iter().flat_map(|folder| self.layouts.iter().map(move |names| (folder, *names)));
        let missing = pairs.map(|(folder, names)| (missing_files(folder, names), names.len()));
        let partial = missing.filter(|(missing, total)| missing.len() < *total).map(|(missing, _)| missing);
        let fewest = partial.min_by_key(Vec::len);
        fewest.unwrap_or_else(|| {
            let [first, others @ ..] = self.layouts else { return Vec::new() };
            let mut names: Vec<String> = first.iter().map(|name| (*name).to_string()).collect();
            if let Some(last) = names.last_mut() {
                others.iter().for_each(|names| *last += &format!(", or instead {}", names.join(", ")));
            }
            names
        })
    }
}

/// Returns the names that are not files in `folder`.
fn missing_files(folder: &Path, names: &[&str]) -> Vec<String> {
    names.iter().filter(|name| !folder.join(name).is_file()).map(|name| (*name).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Network;

    const PAIRS: LocalSet = LocalSet {
        name: "Pairs",
        folders: &["pairs", "pairs-original"],
        layouts: &[&["a.bin", "b.bin"], &["both.bin"]],
        published: "https://example.org/",
    };

    fn write(folder: &Path, name: &str) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join(name), "x").unwrap();
    }

    fn search(directories: &[&Path], cache: &Path) -> Search {
        let directories = directories.iter().map(|directory| directory.to_path_buf()).collect();
        Search { directories, cache: Some(cache.to_path_buf()), network: Network::Forbidden }
    }

    #[test]
    fn a_directory_is_searched_after_its_subfolders_and_layouts_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let open = || PAIRS.open(&DataSource::Directory(root.to_path_buf())).unwrap();
        write(root, "both.bin");
        assert_eq!((open().layout, open().files), (1, vec![root.join("both.bin")]));
        write(&root.join("pairs-original"), "both.bin");
        assert_eq!(open().files, [root.join("pairs-original").join("both.bin")]);
        for name in ["a.bin", "b.bin", "both.bin"] {
            write(&root.join("pairs"), name);
        }
        let found = open();
        assert_eq!((found.layout, found.files.len()), (0, 2));
        assert_eq!(found.origin, Origin::Files { folder: root.join("pairs") });
    }

    #[test]
    fn missing_files_are_those_of_the_most_complete_layout() {
        let directory = tempfile::tempdir().unwrap();
        let message = || {
            let source = DataSource::Directory(directory.path().to_path_buf());
            PAIRS.open(&source).unwrap_err().to_string()
        };
        assert!(
            message().ends_with(": no complete Pairs here: missing a.bin, b.bin, or instead both.bin"),
            "{}",
            message()
        );
        write(&directory.path().join("pairs"), "a.bin");
        assert!(message().ends_with(": no complete Pairs here: missing b.bin"), "{}", message());
    }

    #[test]
    fn directories_are_searched_before_the_cache_and_reported_if_skipped() {
        let (named, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let search = search(&[named.path()], cache.path());
        let message = PAIRS.find(&search).unwrap_err().to_string();
        assert!(message.starts_with("Pairs is nowhere to be found."), "{message}");
        for text in ["pairs-original", "skipped", "not offered; it is published at https://example.org/"] {
            assert!(message.contains(text), "{text}: {message}");
        }
        write(&cache.path().join("pairs"), "both.bin");
        let found = PAIRS.find(&search).unwrap();
        assert_eq!(
            (found.notices.len(), found.files),
            (1, vec![cache.path().join("pairs").join("both.bin")])
        );
        write(named.path(), "both.bin");
        let found = PAIRS.find(&search).unwrap();
        assert_eq!((found.notices.len(), found.files), (0, vec![named.path().join("both.bin")]));
    }

    #[test]
    fn synthetic_data_and_an_empty_directory_name_are_errors() {
        let message = PAIRS.open(&DataSource::SYNTHETIC).unwrap_err().to_string();
        assert_eq!(
            message,
            "Pairs: no synthetic data replaces it, expected a directory or \"auto\" and not \"synthetic\""
        );
        let unnamed = DataSource::Directory(PathBuf::new());
        assert!(matches!(PAIRS.open(&unnamed), Err(DataError::EmptyDirectoryName)));
    }
}
