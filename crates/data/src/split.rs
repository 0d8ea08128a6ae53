//! Images with their labels, on the host.

use crate::error::{DataError, Result};
use std::path::Path;
use std::sync::Arc;

/// Labeled images of one size, with one or more channels, such as the training or test set of a
/// data set.
///
/// Clones share the pixels.
#[derive(Debug, Clone)]
pub struct Split {
    examples: Arc<Examples>,
}

#[derive(Debug)]
struct Examples {
    pixels: Vec<u8>,
    labels: Vec<u8>,
    channels: usize,
    rows: usize,
    cols: usize,
}

/// The source files of a split, for messages.
pub(crate) struct Provenance<'a> {
    pub images: &'a Path,
    pub labels: &'a Path,
}

impl Split {
    /// Creates a split from grayscale images and labels.
    ///
    /// # Shapes
    /// `pixels` is `[count, rows, cols]` in row-major order, `labels` is `[count]`.
    ///
    /// # Errors
    /// Returns an error if there are no examples, the number of pixels is not a multiple of the
    /// image size, the number of labels is not the number of images, or a label is not below
    /// `classes`.
    pub fn new(pixels: Vec<u8>, labels: Vec<u8>, [rows, cols]: [usize; 2], classes: usize) -> Result<Self> {
        Split::with_channels(pixels, labels, [1, rows, cols], classes)
    }

    /// Like [`Split::new`], for images with several channels.
    ///
    /// # Shapes
    /// `pixels` is `[count, channels, rows, cols]`: the channels of an image are stored one after
    /// another.
    ///
    /// # Errors
    /// Same as [`Split::new`].
    pub fn with_channels(
        pixels: Vec<u8>,
        labels: Vec<u8>,
        [channels, rows, cols]: [usize; 3],
        classes: usize,
    ) -> Result<Self> {
        let named = Provenance { images: Path::new("images"), labels: Path::new("labels") };
        Split::from_files(pixels, labels, [channels, rows, cols], classes, &named)
    }

    pub(crate) fn from_files(
        pixels: Vec<u8>,
        labels: Vec<u8>,
        [channels, rows, cols]: [usize; 3],
        classes: usize,
        files: &Provenance<'_>,
    ) -> Result<Self> {
        let image_bytes = channels.saturating_mul(rows).saturating_mul(cols);
        if pixels.is_empty() {
            return Err(DataError::Empty { file: files.images.to_path_buf() });
        }
        if image_bytes == 0 || !pixels.len().is_multiple_of(image_bytes) {
            return Err(DataError::RaggedImages { pixels: pixels.len(), channels, rows, cols });
        }
        let images = pixels.len() / image_bytes;
        if images != labels.len() {
            return Err(DataError::LengthMismatch {
                images_file: files.images.to_path_buf(),
                images,
                labels_file: files.labels.to_path_buf(),
                labels: labels.len(),
            });
        }
        if let Some(index) = labels.iter().position(|&label| usize::from(label) >= classes) {
            let (file, label) = (files.labels.to_path_buf(), labels[index]);
            return Err(DataError::LabelOutOfRange { file, index, label, classes });
        }
        Ok(Split { examples: Arc::new(Examples { pixels, labels, channels, rows, cols }) })
    }

    /// Returns the number of examples; at least 1.
    pub fn len(&self) -> usize {
        self.examples.labels.len()
    }

    /// Always returns false: a split has at least one example.
    pub fn is_empty(&self) -> bool {
        self.examples.labels.is_empty()
    }

    /// Returns the number of channels of an image: 1 for grayscale, 3 for red, green and blue.
    pub fn channels(&self) -> usize {
        self.examples.channels
    }

    /// Returns the number of rows of an image.
    pub fn rows(&self) -> usize {
        self.examples.rows
    }

    /// Returns the number of columns of an image.
    pub fn cols(&self) -> usize {
        self.examples.cols
    }

    /// Returns all pixels, `[count, channels, rows, cols]`. 0 is black.
    pub fn pixels(&self) -> &[u8] {
        &self.examples.pixels
    }

    /// Returns all labels, `[count]`.
    pub fn labels(&self) -> &[u8] {
        &self.examples.labels
    }

    /// Returns the number of bytes of an image, over all channels; at least 1.
    pub(crate) fn image_bytes(&self) -> usize {
        self.channels() * self.rows() * self.cols()
    }

    /// Returns the pixels of one image, `[channels, rows, cols]`, or `None` if `index` is out of
    /// range.
    pub fn image(&self, index: usize) -> Option<&[u8]> {
        let image_bytes = self.image_bytes();
        self.examples.pixels.chunks_exact(image_bytes).nth(index)
    }

    /// Returns the label of one image, or `None` if `index` is out of range.
    pub fn label(&self, index: usize) -> Option<u8> {
        self.examples.labels.get(index).copied()
    }

    /// Returns the first `count` examples, or all if there are fewer; at least one.
    pub fn first(&self, count: usize) -> Split {
        let count = count.clamp(1, self.len());
        let Examples { pixels, labels, channels, rows, cols } = &*self.examples;
        let pixels = pixels[..count * self.image_bytes()].to_vec();
        let labels = labels[..count].to_vec();
        let (channels, rows, cols) = (*channels, *rows, *cols);
        Split { examples: Arc::new(Examples { pixels, labels, channels, rows, cols }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(pixels: usize, labels: &[u8]) -> String {
        Split::new(vec![0; pixels], labels.to_vec(), [2, 3], 10).unwrap_err().to_string()
    }

    #[test]
    fn examples_are_read_back_by_position() {
        let split = Split::new((0..18).collect(), vec![4, 9, 0], [2, 3], 10).unwrap();
        assert_eq!((split.len(), split.rows(), split.cols()), (3, 2, 3));
        assert_eq!(split.image(1), Some(&[6, 7, 8, 9, 10, 11][..]));
        assert_eq!(split.label(1), Some(9));
        assert_eq!((split.image(3), split.label(3)), (None, None));
        let first = split.first(2);
        assert_eq!((first.len(), first.image(1), first.label(2)), (2, split.image(1), None));
    }

    #[test]
    fn images_are_stored_channel_by_channel() {
        let split = Split::with_channels((0..24).collect(), vec![1, 0], [3, 2, 2], 2).unwrap();
        assert_eq!((split.len(), split.channels(), split.rows(), split.cols()), (2, 3, 2, 2));
        assert_eq!(split.image(1).map(|image| image[..5].to_vec()), Some(vec![12, 13, 14, 15, 16]));
        let first = split.first(1);
        assert_eq!((first.channels(), first.pixels().len()), (3, 12));
        assert!(Split::with_channels(vec![0; 12], vec![0], [0, 2, 2], 2).is_err());
    }

    #[test]
    fn images_and_labels_must_have_the_same_count() {
        assert_eq!(message(18, &[0, 1]), "images holds 3 images, but labels holds 2 labels");
    }

    #[test]
    fn labels_must_be_below_the_number_of_classes() {
        let expected = "labels: label 10 at position 1 is out of range: there are 10 classes";
        assert_eq!(message(18, &[9, 10, 11]), expected);
    }

    #[test]
    fn ragged_and_empty_sets_are_errors() {
        assert_eq!(message(17, &[0, 1, 2]), "17 pixels are not an integer number of images of 1 x 2 x 3");
        assert_eq!(message(0, &[]), "images: holds 0 examples, expected at least 1");
        assert!(Split::new(vec![1], vec![0], [0, 5], 10).is_err());
        assert!(Split::new(vec![1], vec![0], [usize::MAX, 5], 10).is_err());
    }
}
