//! Random transforms of images in training: crop, flip, cutout. This module works on the host and
//! does not use tensors.

use crate::error::{DataError, Result};
use crate::random::Philox;

/// Separates the random numbers of transforms from those of shuffled orders with the same seed.
const TRANSFORM_KEY: u64 = 0x7472_616e_7366_6f72;

/// A random transform of an image, different for each example and epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Transform {
    /// Pads the image with `padding` black pixels on each side, and then crops a part of this size.
    /// Each position is equally likely.
    RandomCrop {
        /// `[rows, cols]` of the crop.
        size: [usize; 2],
        /// Pixels on each side; at most the longer side of the image.
        padding: usize,
    },
    /// Swaps left and right.
    RandomHorizontalFlip {
        /// The probability of a flip, from 0 to 1.
        probability: f64,
    },
    /// Sets a square to 0 (after normalization: to the mean). Its center is anywhere in the image,
    /// and the square is clipped at the edge of the image: DeVries and Taylor, arXiv 1708.04552.
    Cutout {
        /// Rows and columns of the square; at least 1.
        side: usize,
    },
}

impl Transform {
    /// Returns the output size for input images of `size`, both `[rows, cols]`.
    ///
    /// # Errors
    /// Returns an error if the transform is not possible with images of that size.
    fn output_size(self, size: [usize; 2]) -> Result<[usize; 2]> {
        match self {
            Transform::RandomCrop { size: crop, padding } => check_crop(size, crop, padding),
            Transform::RandomHorizontalFlip { probability } if !(0.0..=1.0).contains(&probability) => {
                reject("random horizontal flip", format!("probability {probability}, expected 0 to 1"))
            }
            Transform::Cutout { side: 0 } => reject("cutout", "side 0, expected at least 1".to_string()),
            Transform::RandomHorizontalFlip { .. } | Transform::Cutout { .. } => Ok(size),
        }
    }

    fn apply(self, image: Image, black: &[f32], random: &mut Philox) -> Image {
        match self {
            Transform::RandomCrop { size, padding } => random_crop(image, size, padding, black, random),
            Transform::RandomHorizontalFlip { probability } if random.uniform() < probability => flip(image),
            Transform::RandomHorizontalFlip { .. } => image,
            Transform::Cutout { side } => cutout(image, side, random),
        }
    }
}

fn reject<T>(transform: &'static str, reason: String) -> Result<T> {
    Err(DataError::Transform { transform, reason })
}

/// Checks that padded images of `[rows, cols]` are at least as large as the crop. Returns the size
/// of the crop.
fn check_crop([rows, cols]: [usize; 2], crop: [usize; 2], padding: usize) -> Result<[usize; 2]> {
    let [crop_rows, crop_cols] = crop;
    let images = format!("images of {rows} x {cols}");
    if padding > rows.max(cols) {
        return reject(
            "random crop",
            format!("padding {padding} for {images}, expected no more than a side"),
        );
    }
    let fits = |crop: usize, side: usize| (1..=side + 2 * padding).contains(&crop);
    if !fits(crop_rows, rows) || !fits(crop_cols, cols) {
        return reject(
            "random crop",
            format!("{crop_rows} x {crop_cols} pixels of {images} with padding {padding}"),
        );
    }
    Ok(crop)
}

/// An image as floats.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Image {
    /// `[channels, rows, cols]`
    pub values: Vec<f32>,
    /// `[rows, cols]`
    pub size: [usize; 2],
}

/// Transforms in the order in which they are applied, with the seed of their random numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transforms {
    list: Vec<Transform>,
    seed: u64,
    /// `[rows, cols]` of the output; `None` if nothing changes.
    output_size: Option<[usize; 2]>,
}

impl Transforms {
    /// # Errors
    /// Returns an error if one of the transforms is not possible with images of `size`.
    pub(crate) fn new(list: &[Transform], seed: u64, size: [usize; 2]) -> Result<Transforms> {
        let output = list.iter().try_fold(size, |size, transform| transform.output_size(size))?;
        Ok(Transforms { list: list.to_vec(), seed, output_size: Some(output) })
    }

    /// Returns whether images stay unchanged.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns `[rows, cols]` of the output images for input images of `size`.
    pub(crate) fn output_size(&self, size: [usize; 2]) -> [usize; 2] {
        self.output_size.unwrap_or(size)
    }

    /// Transforms the example at index `position` in `epoch`. The result depends only on the seed
    /// and these two values, not on the batch.
    pub(crate) fn apply(&self, image: Image, black: &[f32], epoch: u64, position: usize) -> Image {
        let epoch_seed = Philox::new(self.seed ^ TRANSFORM_KEY, epoch).next_u64();
        let mut random = Philox::new(epoch_seed, position as u64);
        self.list.iter().fold(image, |image, transform| transform.apply(image, black, &mut random))
    }
}

/// `black` is the value of black in each channel.
fn random_crop(image: Image, crop: [usize; 2], padding: usize, black: &[f32], random: &mut Philox) -> Image {
    let [rows, cols] = image.size;
    let mut offset = |side: usize, crop: usize| random.below((side + 2 * padding - crop + 1) as u64) as usize;
    let (top, left) = (offset(rows, crop[0]), offset(cols, crop[1]));
    let mut values = Vec::with_capacity(black.len() * crop[0] * crop[1]);
    for (channel, &black) in image.values.chunks_exact(rows * cols).zip(black) {
        for padded_row in top..top + crop[0] {
            let row = padded_row.checked_sub(padding).filter(|&row| row < rows);
            let pixel = |padded_col: usize| {
                let col = padded_col.checked_sub(padding).filter(|&col| col < cols);
                row.zip(col).map_or(black, |(row, col)| channel[row * cols + col])
            };
            values.extend((left..left + crop[1]).map(pixel));
        }
    }
    Image { values, size: crop }
}

fn flip(mut image: Image) -> Image {
    image.values.chunks_exact_mut(image.size[1]).for_each(<[f32]>::reverse);
    image
}

fn cutout(mut image: Image, side: usize, random: &mut Philox) -> Image {
    let [rows, cols] = image.size;
    let mut covered = |length: usize| {
        let center = random.below(length as u64) as usize;
        // The range starts at 0 if the square begins before the edge.
        center.saturating_sub(side / 2)..center.saturating_add(side - side / 2).min(length)
    };
    let (covered_rows, covered_cols) = (covered(rows), covered(cols));
    for channel in image.values.chunks_exact_mut(rows * cols) {
        for row in covered_rows.clone() {
            channel[row * cols..(row + 1) * cols][covered_cols.clone()].fill(0.0);
        }
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two channels of 3 x 4 pixels: 1 to 12 and 101 to 112.
    fn image() -> Image {
        let values = [0, 100].iter().flat_map(|channel| (1..=12).map(move |pixel| (channel + pixel) as f32));
        Image { values: values.collect(), size: [3, 4] }
    }

    fn outcomes(transform: Transform) -> Vec<Image> {
        let transforms = Transforms::new(&[transform], 1, [3, 4]).unwrap();
        (0..400).map(|position| transforms.apply(image(), &[-1.0, -2.0], 0, position)).collect()
    }

    fn distinct(images: &[Image]) -> usize {
        let mut unique: Vec<&Image> = Vec::new();
        images.iter().for_each(|image| {
            if !unique.contains(&image) {
                unique.push(image);
            }
        });
        unique.len()
    }

    #[test]
    fn crops_are_at_every_position_with_black_padding() {
        let crops = outcomes(Transform::RandomCrop { size: [3, 4], padding: 1 });
        assert_eq!(distinct(&crops), 9);
        let corner = [-1., -1., -1., -1., -1., 1., 2., 3., -1., 5., 6., 7.];
        let other = [-2., -2., -2., -2., -2., 101., 102., 103., -2., 105., 106., 107.];
        assert!(crops.iter().any(|crop| crop.values == [corner, other].concat()));
        assert!(crops.contains(&image()));
        let small = outcomes(Transform::RandomCrop { size: [2, 2], padding: 0 });
        assert_eq!((distinct(&small), small[0].size), (6, [2, 2]));
        let first = Image { values: vec![1., 2., 5., 6., 101., 102., 105., 106.], size: [2, 2] };
        assert!(small.contains(&first));
    }

    #[test]
    fn flips_swap_left_and_right_with_the_requested_probability() {
        let flipped = flip(image());
        assert_eq!(flipped.values[..8], [4., 3., 2., 1., 8., 7., 6., 5.]);
        assert_eq!(flipped.values[12..16], [104., 103., 102., 101.]);
        for (probability, expected) in [(0.0, 0..=0), (1.0, 400..=400), (0.25, 57..=143)] {
            let images = outcomes(Transform::RandomHorizontalFlip { probability });
            assert!(images.iter().all(|outcome| *outcome == image() || *outcome == flipped));
            let count = images.iter().filter(|outcome| **outcome == flipped).count();
            // 0.25: 100 expected, with standard deviation 8.7: five standard deviations.
            assert!(expected.contains(&count), "{probability}: {count}");
        }
    }

    #[test]
    fn cutouts_are_squares_of_zeros_clipped_at_the_edge() {
        let images = outcomes(Transform::Cutout { side: 3 });
        assert_eq!(distinct(&images), 12);
        let zeros = |image: &Image| image.values.iter().filter(|&&value| value == 0.0).count();
        let mut counts: Vec<usize> = images.iter().map(zeros).collect();
        counts.sort_unstable();
        counts.dedup();
        // 2 x 2 in a corner, 2 x 3 at an edge, 3 x 3 inside, each in both channels.
        assert_eq!(counts, [8, 12, 18]);
        let middle = images.iter().find(|image| zeros(image) == 18 && image.values[3] == 4.0).unwrap();
        assert_eq!(middle.values[..12], [0., 0., 0., 4., 0., 0., 0., 8., 0., 0., 0., 12.]);
        let images = outcomes(Transform::Cutout { side: usize::MAX });
        assert!(images.iter().any(|image| zeros(image) > 0));
    }

    #[test]
    fn transform_depends_only_on_seed_epoch_and_example() {
        let list = [Transform::RandomCrop { size: [3, 4], padding: 3 }, Transform::Cutout { side: 2 }];
        let outcome = |seed, epoch, position| {
            Transforms::new(&list, seed, [3, 4]).unwrap().apply(image(), &[0.0, 0.0], epoch, position)
        };
        let epochs = |seed, epoch| (0..8).map(|position| outcome(seed, epoch, position)).collect::<Vec<_>>();
        assert_eq!(epochs(1, 2), epochs(1, 2));
        assert_ne!(epochs(1, 2), epochs(2, 2));
        assert_ne!(epochs(1, 2), epochs(1, 3));
        assert!(distinct(&epochs(1, 2)) > 4);
    }

    #[test]
    fn transforms_that_do_not_fit_the_image_size_are_errors() {
        let message = |list: &[Transform]| Transforms::new(list, 0, [3, 4]).unwrap_err().to_string();
        let crop = |size, padding| Transform::RandomCrop { size, padding };
        assert_eq!(
            message(&[crop([3, 7], 1)]),
            "random crop: 3 x 7 pixels of images of 3 x 4 with padding 1"
        );
        assert_eq!(
            message(&[crop([2, 2], 0), crop([3, 3], 0)]),
            "random crop: 3 x 3 pixels of images of 2 x 2 with padding 0"
        );
        assert!(message(&[crop([0, 2], 0)]).contains("0 x 2"));
        assert!(message(&[crop([1, 1], usize::MAX)]).contains("expected no more than a side"));
        assert_eq!(message(&[Transform::Cutout { side: 0 }]), "cutout: side 0, expected at least 1");
        for probability in [-0.1, 1.1, f64::NAN] {
            assert!(message(&[Transform::RandomHorizontalFlip { probability }]).ends_with("expected 0 to 1"));
        }
    }
}
