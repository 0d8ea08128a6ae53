//! CIFAR-10: finds the data set and reads its binary records into two splits.

use crate::error::{DataError, Result};
use crate::file::read_bytes;
use crate::local::{LocalFiles, LocalSet};
use crate::mnist::{DataSource, Origin};
use crate::search::Search;
use crate::split::Split;
use std::path::{Path, PathBuf};

/// `[channels, rows, cols]`
const IMAGE_SIZE: [usize; 3] = [3, 32, 32];
const IMAGE_BYTES: usize = 3 * 32 * 32;
/// A label followed by an image.
const RECORD_BYTES: usize = 1 + IMAGE_BYTES;
const CLASSES: usize = 10;

/// In each layout the last file is the test set.
const CIFAR10: LocalSet = LocalSet {
    name: "CIFAR-10",
    folders: &["cifar10", "cifar-10-batches-bin"],
    layouts: &[
        &[
            "data_batch_1.bin",
            "data_batch_2.bin",
            "data_batch_3.bin",
            "data_batch_4.bin",
            "data_batch_5.bin",
            "test_batch.bin",
        ],
        &["cifar10-subset-train.bin", "cifar10-subset-test.bin"],
    ],
    published: "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
};

/// Reads a file of CIFAR-10's binary records: a label and 3,072 pixels, as a red, a green and a
/// blue plane, each in row-major order.
///
/// # Shapes
/// Pixels `[count, 3, 32, 32]` and labels `[count]`.
///
/// # Errors
/// Returns an error if the file cannot be read or is empty, its size is not a multiple of the
/// record size, or a label is above 9.
pub fn read_cifar10(file: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    let bytes = read_bytes(file)?;
    if bytes.is_empty() {
        return Err(DataError::Empty { file: file.to_path_buf() });
    }
    let records = bytes.chunks_exact(RECORD_BYTES);
    if !records.remainder().is_empty() {
        let (found_bytes, record_bytes) = (bytes.len() as u64, RECORD_BYTES as u64);
        return Err(DataError::RaggedRecords { file: file.to_path_buf(), found_bytes, record_bytes });
    }
    let labels: Vec<u8> = records.clone().map(|record| record[0]).collect();
    if let Some(index) = labels.iter().position(|&label| usize::from(label) >= CLASSES) {
        let (file, label) = (file.to_path_buf(), labels[index]);
        return Err(DataError::LabelOutOfRange { file, index, label, classes: CLASSES });
    }
    Ok((records.flat_map(|record| &record[1..]).copied().collect(), labels))
}

/// CIFAR-10: training and test splits of 32 x 32 color images in ten classes.
///
/// Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009).
#[derive(Debug, Clone)]
pub struct Cifar10 {
    train: Split,
    test: Split,
    origin: Origin,
    notices: Vec<String>,
}

impl Cifar10 {
    /// The means of red, green and blue over the 50,000 training images, divided by 255.
    pub const MEANS: [f32; 3] = [0.4914, 0.4822, 0.4465];
    /// The corresponding standard deviations.
    pub const DEVIATIONS: [f32; 3] = [0.2470, 0.2435, 0.2616];
    /// The class names: `CLASS_NAMES[label]`.
    pub const CLASS_NAMES: [&'static str; CLASSES] =
        ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

    /// Loads the five training batches and the test batch of the binary version, or
    /// `cifar10-subset-train.bin` and `cifar10-subset-test.bin` with the same record format.
    ///
    /// The files are searched in the subfolder `cifar10` of a data directory (or
    /// `cifar-10-batches-bin`, the name in the published archive), then in the directory itself.
    /// Files with any number of records are accepted.
    ///
    /// # Errors
    /// Returns an error if the files are not found (there is no download and no synthetic data), or
    /// are corrupt.
    pub fn load(source: DataSource) -> Result<Cifar10> {
        Cifar10::read(CIFAR10.open(&source)?)
    }

    /// Like [`Cifar10::load`] with [`DataSource::Auto`], but with this search.
    ///
    /// # Errors
    /// As for [`Cifar10::load`].
    pub fn find(search: &Search) -> Result<Cifar10> {
        Cifar10::read(CIFAR10.find(search)?)
    }

    fn read(found: LocalFiles) -> Result<Cifar10> {
        let (train, test) = found.files.split_at(found.files.len() - 1);
        Ok(Cifar10 {
            train: read_split(train)?,
            test: read_split(test)?,
            origin: found.origin,
            notices: found.notices,
        })
    }

    /// Returns the training set, with images of `[3, 32, 32]`.
    pub fn train(&self) -> &Split {
        &self.train
    }

    /// Returns the test set.
    pub fn test(&self) -> &Split {
        &self.test
    }

    /// Returns where the data came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns messages for the user about how the data was found: see [`crate::Mnist::notices`].
    pub fn notices(&self) -> &[String] {
        &self.notices
    }
}

fn read_split(files: &[PathBuf]) -> Result<Split> {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for file in files {
        let (file_pixels, file_labels) = read_cifar10(file)?;
        pixels.extend(file_pixels);
        labels.extend(file_labels);
    }
    Split::with_channels(pixels, labels, IMAGE_SIZE, CLASSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one record for each label. Red equals the label, green is 100 and blue is 200. The
    /// first red pixel is 255.
    fn records(labels: &[u8]) -> Vec<u8> {
        let record = |&label: &u8| {
            let mut record = [vec![label], vec![label; 1024], vec![100; 1024], vec![200; 1024]].concat();
            record[1] = 255;
            record
        };
        labels.iter().flat_map(record).collect()
    }

    fn write(folder: &Path, files: &[(&str, Vec<u8>)]) {
        std::fs::create_dir_all(folder).unwrap();
        for (name, content) in files {
            std::fs::write(folder.join(name), content).unwrap();
        }
    }

    fn load(folder: &Path) -> Result<Cifar10> {
        Cifar10::load(DataSource::Directory(folder.to_path_buf()))
    }

    #[test]
    fn official_batches_are_concatenated() {
        let directory = tempfile::tempdir().unwrap();
        let names = CIFAR10.layouts[0].iter().zip(0..);
        let files: Vec<(&str, Vec<u8>)> = names.map(|(name, label)| (*name, records(&[label, 9]))).collect();
        write(&directory.path().join("cifar-10-batches-bin"), &files);
        let cifar = load(directory.path()).unwrap();
        assert_eq!(cifar.train().labels(), [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]);
        assert_eq!(cifar.test().labels(), [5, 9]);
        let image = cifar.train().image(4).unwrap();
        assert_eq!((image.len(), image[0], image[1], image[1024], image[3071]), (3072, 255, 2, 100, 200));
        assert_eq!((cifar.train().channels(), cifar.train().rows(), cifar.train().cols()), (3, 32, 32));
        assert_eq!(cifar.origin(), &Origin::Files { folder: directory.path().join("cifar-10-batches-bin") });
        assert_eq!(Cifar10::CLASS_NAMES[9], "truck");
    }

    #[test]
    fn subset_files_become_batches_of_three_channels() {
        let directory = tempfile::tempdir().unwrap();
        let files =
            [("cifar10-subset-train.bin", records(&[3, 1, 2])), ("cifar10-subset-test.bin", records(&[7]))];
        write(&directory.path().join("cifar10"), &files);
        let cifar = load(directory.path()).unwrap();
        let batches = cifar.train().batches(2, &ternion_cpu::device());
        let batches = batches.normalize_channels(&Cifar10::MEANS, &Cifar10::DEVIATIONS).unwrap();
        let batch = batches.into_iter().next().unwrap().unwrap();
        assert_eq!(batch.images.dims(), [2, 3, 32, 32]);
        assert_eq!(batch.labels.to_vec::<i64>().unwrap(), [3, 1]);
        let blue = batch.images.to_vec::<f32>().unwrap()[2048];
        assert!((blue - (200.0 / 255.0 - 0.4465) / 0.2616).abs() < 1e-6, "{blue}");
    }

    #[test]
    fn corrupt_and_missing_files_are_reported() {
        let message = |train: Vec<u8>| {
            let directory = tempfile::tempdir().unwrap();
            let files = [("cifar10-subset-train.bin", train), ("cifar10-subset-test.bin", records(&[0]))];
            write(directory.path(), &files);
            load(directory.path()).unwrap_err().to_string()
        };
        let cases = [
            (
                records(&[1, 2])[..6000].to_vec(),
                "6000 bytes are not an integer number of records of 3073 bytes",
            ),
            (records(&[1, 2, 10]), "label 10 at position 2 is out of range: there are 10 classes"),
            (Vec::new(), "holds 0 examples, expected at least 1"),
        ];
        for (train, expected) in cases {
            let message = message(train);
            assert!(message.ends_with(&format!("cifar10-subset-train.bin: {expected}")), "{message}");
        }
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &[("test_batch.bin", records(&[0]))]);
        let message = load(directory.path()).unwrap_err().to_string();
        assert!(
            message.contains("no complete CIFAR-10 here: missing data_batch_1.bin, data_batch_2.bin"),
            "{message}"
        );
        assert!(!message.contains("test_batch"), "{message}");
    }
}
