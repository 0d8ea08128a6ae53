//! Synthetic color images: ten simple shapes in random colors, for use when no real photographs are
//! available.
//!
//! As for synthetic digits, only integers and `+ - * /` on f64 are used, so that every platform
//! draws the same bits.

use crate::error::{DataError, Result};
use crate::random::Philox;
use crate::split::Split;
use crate::synthetic::{SplitName, draw_labels, stream};
use std::path::Path;

/// Rows and columns of an image, as in CIFAR-10.
const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;
const CHANNELS: usize = 3;
/// The number of sample points along each axis of a pixel.
const SAMPLES: usize = 2;
/// More images than fit in memory on any machine that trains on shapes.
const LARGEST: usize = 1 << 22;
/// The images use other random streams than the digits.
const PURPOSE: u64 = 2;

/// The class names of [`synthetic_shapes`]: `SHAPE_NAMES[label]`.
pub const SHAPE_NAMES: [&str; 10] = [
    "disc",
    "ring",
    "square",
    "frame",
    "triangle",
    "cross",
    "plus",
    "horizontal stripes",
    "vertical stripes",
    "checkers",
];

/// Draws `count` labeled color images of 32 x 32 pixels. Each contains one of ten shapes with
/// random size, position, rotation and colors, and noise.
///
/// Image `i` depends only on `seed`, `split` and `i`, so that a larger set starts with the smaller
/// one. Each group of ten consecutive images contains the ten shapes in random order.
///
/// # Errors
/// Returns an error if `count` is 0, or more than 2^22 (13 GB).
pub fn synthetic_shapes(count: usize, seed: u64, split: SplitName) -> Result<Split> {
    if count == 0 {
        return Err(DataError::Empty { file: Path::new("synthetic shapes").to_path_buf() });
    }
    if count > LARGEST {
        return Err(DataError::LargeCount { count, limit: LARGEST });
    }
    let labels = draw_labels(count, seed, split);
    let mut pixels = vec![0; count * CHANNELS * PLANE];
    for (index, (image, &label)) in pixels.chunks_exact_mut(CHANNELS * PLANE).zip(&labels).enumerate() {
        draw(image, usize::from(label), &mut stream(seed, split, PURPOSE, index));
    }
    Split::with_channels(pixels, labels, [CHANNELS, SIDE, SIDE], SHAPE_NAMES.len())
}

/// The placement of a shape: maps pixels to the square from -1 to 1 in which the shape is defined.
struct Placement {
    center: [f64; 2],
    /// Cosine and sine of the rotation angle, divided by half of the shape's side in pixels.
    rotation: [f64; 2],
}

impl Placement {
    fn random(random: &mut Philox) -> Placement {
        let middle = SIDE as f64 / 2.0;
        let half_side = random.between(7.0, 12.0);
        let slack = middle - half_side;
        // With t = tan(angle / 2), cosine and sine are rational functions of t. The angle is at
        // most 14 degrees.
        let t = random.between(-0.12, 0.12);
        let (cosine, sine) = ((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t));
        let mut shifted = || middle + random.between(-slack, slack);
        Placement { center: [shifted(), shifted()], rotation: [cosine / half_side, sine / half_side] }
    }

    fn to_shape_coordinates(&self, x: f64, y: f64) -> [f64; 2] {
        let (x, y) = (x - self.center[0], y - self.center[1]);
        let [cosine, sine] = self.rotation;
        [cosine * x + sine * y, cosine * y - sine * x]
    }
}

/// Returns whether the shape covers a point of the square from -1 to 1.
fn covers(shape: usize, [x, y]: [f64; 2]) -> bool {
    let (far, square) = (x * x + y * y, x.abs().max(y.abs()));
    // The quarter of the square, from the left or the top: 0 to 3.
    let quarter = |at: f64| ((at + 1.0) * 2.0) as i64;
    match shape {
        0 => far <= 1.0,
        1 => (0.3..=1.0).contains(&far),
        2 => square <= 0.85,
        3 => (0.5..=0.9).contains(&square),
        4 => y <= 0.8 && 2.0 * x.abs() <= y + 1.0,
        5 => square <= 0.95 && (x.abs() - y.abs()).abs() <= 0.35,
        6 => square <= 1.0 && x.abs().min(y.abs()) <= 0.28,
        7 => square <= 1.0 && quarter(y) % 2 == 0,
        8 => square <= 1.0 && quarter(x) % 2 == 0,
        _ => square <= 1.0 && (quarter(x) + quarter(y)) % 2 == 0,
    }
}

/// Returns two colors that differ clearly in at least one channel.
fn random_colors(random: &mut Philox) -> [[f64; CHANNELS]; 2] {
    loop {
        let pair: [[f64; CHANNELS]; 2] =
            std::array::from_fn(|_| std::array::from_fn(|_| random.between(10.0, 245.0)));
        let differ = pair[0].iter().zip(&pair[1]).any(|(one, other)| (one - other).abs() > 90.0);
        if differ {
            return pair;
        }
    }
}

/// Draws one shape into `[3, 32, 32]`.
fn draw(image: &mut [u8], shape: usize, random: &mut Philox) {
    let placement = Placement::random(random);
    let [front, back] = random_colors(random);
    // The background becomes lighter or darker from left to right and from top to bottom.
    let slope = [random.between(-1.5, 1.5), random.between(-1.5, 1.5)];
    let noise = random.between(0.0, 30.0);
    let step = 1.0 / SAMPLES as f64;
    for row in 0..SIDE {
        for col in 0..SIDE {
            let at = |cell: usize, sample: usize| cell as f64 + (sample as f64 + 0.5) * step;
            let hits = (0..SAMPLES * SAMPLES).filter(|sample| {
                covers(
                    shape,
                    placement.to_shape_coordinates(at(col, sample % SAMPLES), at(row, sample / SAMPLES)),
                )
            });
            let coverage = hits.count() as f64 / (SAMPLES * SAMPLES) as f64;
            let shade = slope[0] * (col as f64 - 16.0) + slope[1] * (row as f64 - 16.0);
            for channel in 0..CHANNELS {
                let value = coverage * front[channel] + (1.0 - coverage) * (back[channel] + shade);
                let value = value + random.between(-noise, noise);
                image[channel * PLANE + row * SIDE + col] = (value + 0.5).clamp(0.0, 255.0) as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_set_begins_with_the_smaller_one_and_has_all_shapes() {
        let (small, large) = (
            synthetic_shapes(15, 3, SplitName::Train).unwrap(),
            synthetic_shapes(30, 3, SplitName::Train).unwrap(),
        );
        assert_eq!(large.first(15).pixels(), small.pixels());
        let mut labels = large.labels()[..10].to_vec();
        labels.sort_unstable();
        assert_eq!(labels, (0..10).collect::<Vec<u8>>());
        assert_eq!((large.channels(), large.rows(), large.cols()), (3, 32, 32));
        for other in [synthetic_shapes(15, 4, SplitName::Train), synthetic_shapes(15, 3, SplitName::Test)] {
            assert_ne!(other.unwrap().pixels(), small.pixels());
        }
    }

    /// These pixels must not change, as for every seed.
    #[test]
    fn pixels_are_pinned() {
        let split = synthetic_shapes(20, 1, SplitName::Test).unwrap();
        let sum: u64 = split
            .pixels()
            .iter()
            .enumerate()
            .map(|(at, &pixel)| (at as u64 % 251 + 1) * u64::from(pixel))
            .sum();
        assert_eq!((split.labels()[..4].to_vec(), sum), (vec![9, 3, 1, 4], 992_068_598));
    }

    #[test]
    fn each_shape_covers_a_different_area() {
        let points = (0..400).map(|at| [(at % 20) as f64 / 10.0 - 0.95, (at / 20) as f64 / 10.0 - 0.95]);
        let points: Vec<[f64; 2]> = points.collect();
        let covered = |shape| points.iter().map(|&point| covers(shape, point)).collect::<Vec<bool>>();
        for shape in 0..10 {
            let count = covered(shape).iter().filter(|&&covered| covered).count();
            assert!((80..=360).contains(&count), "{}: {count} of 400", SHAPE_NAMES[shape]);
            for other in 0..shape {
                let differ =
                    covered(shape).iter().zip(covered(other)).filter(|(one, other)| *one != other).count();
                assert!(differ >= 40, "{} and {}: {differ}", SHAPE_NAMES[shape], SHAPE_NAMES[other]);
            }
        }
    }

    #[test]
    fn no_images_and_too_many_are_errors() {
        let message = |count| synthetic_shapes(count, 0, SplitName::Train).unwrap_err().to_string();
        assert_eq!(message(0), "synthetic shapes: holds 0 examples, expected at least 1");
        assert!(message(usize::MAX).contains("expected at most 4194304"), "{}", message(usize::MAX));
    }
}
