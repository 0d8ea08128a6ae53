//! Synthetic digits: random handwriting drawn from the strokes of `glyphs`, for use when no real
//! data is available.
//!
//! Only integers and `+ - * / sqrt` on f64 are used. All of them are exactly specified, so that
//! every platform draws the same bits.

use crate::error::{DataError, Result};
use crate::glyphs::{Point, STYLES, Stroke};
use crate::random::Philox;
use crate::split::Split;
use std::path::Path;

/// Rows and columns of an image.
const SIDE: usize = 28;
const PIXELS: usize = SIDE * SIDE;
/// The height in pixels of an unscaled digit, as in MNIST.
const HEIGHT_PIXELS: f64 = 19.0;
const WIDTH_PIXELS: f64 = 16.0;
/// The number of straight segments between two points of a curve.
const PIECES: usize = 6;
/// The width in pixels over which an outline fades.
const FADE_PIXELS: f64 = 1.0;

/// Which of the two splits of a seed. The splits share no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitName {
    /// The training set.
    Train,
    /// The test set.
    Test,
}

/// More images than fit in memory on any machine that trains on digits.
const LARGEST: usize = 1 << 24;

/// Draws `count` labeled digits of 28 x 28 pixels: strokes in several styles, with random bending,
/// affine transformation, thickness and noise.
///
/// Image `i` depends only on `seed`, `split` and `i`, so that a larger set starts with the smaller
/// one. Each group of ten consecutive images contains the ten digits in random order.
///
/// # Errors
/// Returns an error if `count` is 0, or more than 2^24 (13 GB).
pub fn synthetic_digits(count: usize, seed: u64, split: SplitName) -> Result<Split> {
    if count == 0 {
        return Err(DataError::Empty { file: Path::new("synthetic digits").to_path_buf() });
    }
    if count > LARGEST {
        return Err(DataError::LargeCount { count, limit: LARGEST });
    }
    let labels = draw_labels(count, seed, split);
    let mut pixels = vec![0; count * PIXELS];
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let chunk_len = count.div_ceil(threads);
    std::thread::scope(|scope| {
        let chunks = pixels.chunks_mut(chunk_len * PIXELS).zip(labels.chunks(chunk_len)).enumerate();
        for (index, (pixels, labels)) in chunks {
            scope.spawn(move || draw_chunk(pixels, labels, index * chunk_len, seed, split));
        }
    });
    Split::new(pixels, labels, [SIDE, SIDE], 10)
}

/// Returns a separate random stream for each purpose, split and index.
pub(crate) fn stream(seed: u64, split: SplitName, purpose: u64, index: usize) -> Philox {
    // The top byte avoids the streams of shuffled orders, which use the epoch as stream.
    let tag = match split {
        SplitName::Train => 0x7400,
        SplitName::Test => 0x7500,
    };
    Philox::new(seed, (tag | purpose) << 48 | index as u64)
}

pub(crate) fn draw_labels(count: usize, seed: u64, split: SplitName) -> Vec<u8> {
    let tens = (0..count.div_ceil(10)).flat_map(|ten| {
        let mut digits: [u8; 10] = std::array::from_fn(|digit| digit as u8);
        stream(seed, split, 0, ten).shuffle(&mut digits);
        digits
    });
    tens.take(count).collect()
}

fn draw_chunk(pixels: &mut [u8], labels: &[u8], first_index: usize, seed: u64, split: SplitName) {
    for (position, (image, &label)) in pixels.chunks_exact_mut(PIXELS).zip(labels).enumerate() {
        draw_digit(image, usize::from(label), &mut stream(seed, split, 1, first_index + position));
    }
}

/// Draws one digit into a black image of `[28, 28]`.
fn draw_digit(image: &mut [u8], digit: usize, random: &mut Philox) {
    let styles = STYLES[digit];
    let style = styles[random.below(styles.len() as u64) as usize];
    let hand = Hand::random(random);
    let wobble = random.between(0.015, 0.065);
    let mut canvas = Canvas::new(random.between(0.5, 1.5) + FADE_PIXELS / 2.0);
    for stroke in style {
        let path: Vec<Point> =
            flatten(stroke, wobble, random).into_iter().map(|at| hand.transform(at)).collect();
        for pair in path.windows(2) {
            canvas.draw_segment(pair[0], pair[1]);
        }
    }
    if random.below(4) == 0 {
        canvas.draw_stray_mark(random);
    }
    canvas.ink(image, random);
}

/// The distortion of a digit by its writer: maps `x, y` of the unit box to pixels.
struct Hand {
    /// The rows of the matrix.
    matrix: [Point; 2],
    /// The quadratic bending of each coordinate as a function of the other.
    bend: Point,
    center: Point,
}

impl Hand {
    fn random(random: &mut Philox) -> Self {
        // With t = tan(angle / 2), cosine and sine are rational functions of t, so that no library
        // function is needed. The angle is at most 18 degrees.
        let t = random.between(-0.16, 0.16);
        let (cosine, sine) = ((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t));
        let shear = random.between(-0.4, 0.25);
        let width = WIDTH_PIXELS * random.between(0.65, 1.2);
        let height = HEIGHT_PIXELS * random.between(0.75, 1.1);
        Hand {
            // rotation * shear * scale
            matrix: [
                [cosine * width, (cosine * shear - sine) * height],
                [sine * width, (sine * shear + cosine) * height],
            ],
            bend: [random.between(-0.35, 0.35), random.between(-0.3, 0.3)],
            center: [14.0 + random.between(-2.0, 2.0), 14.0 + random.between(-2.0, 2.0)],
        }
    }

    fn transform(&self, [x, y]: Point) -> Point {
        let (x, y) = (x - 0.5, y - 0.5);
        let (bent_x, bent_y) = (x + self.bend[0] * (y * y - 0.1), y + self.bend[1] * (x * x - 0.1));
        let [row_x, row_y] = self.matrix;
        [
            self.center[0] + row_x[0] * bent_x + row_x[1] * bent_y,
            self.center[1] + row_y[0] * bent_x + row_y[1] * bent_y,
        ]
    }
}

/// Returns the path of a stroke, with each point moved by up to `wobble`.
fn flatten(stroke: &Stroke, wobble: f64, random: &mut Philox) -> Vec<Point> {
    let mut moved = |points: &[Point]| -> Vec<Point> {
        let mut shift = |coordinate: f64| coordinate + random.between(-wobble, wobble);
        points.iter().map(|&[x, y]| [shift(x), shift(y)]).collect()
    };
    match stroke {
        Stroke::Line(points) => moved(points),
        Stroke::Curve(points) => {
            let points = moved(points);
            let last = points.len() - 1;
            spline(last, |index| points[index.saturating_sub(1).min(last)])
        }
        Stroke::Loop(points) => {
            let points = moved(points);
            let count = points.len();
            spline(count, |index| points[(index + count - 1) % count])
        }
    }
}

/// Returns a Catmull-Rom spline with `spans` spans. Span `i` goes from `control(i + 1)` to
/// `control(i + 2)`.
fn spline(spans: usize, control: impl Fn(usize) -> Point) -> Vec<Point> {
    let mut path = vec![control(1)];
    for span in 0..spans {
        let [before, from, to, after] = std::array::from_fn(|offset| control(span + offset));
        for piece in 1..=PIECES {
            let t = piece as f64 / PIECES as f64;
            path.push(std::array::from_fn(|axis| {
                let slope = to[axis] - before[axis];
                let square = 2.0 * before[axis] - 5.0 * from[axis] + 4.0 * to[axis] - after[axis];
                let cube = 3.0 * (from[axis] - to[axis]) + after[axis] - before[axis];
                from[axis] + 0.5 * t * (slope + t * (square + t * cube))
            }));
        }
    }
    path
}

/// The squared distance of every pixel center to the path of the pen, limited to the square of
/// `reach`.
struct Canvas {
    reach: f64,
    squared_distance: [f64; PIXELS],
}

impl Canvas {
    fn new(reach: f64) -> Self {
        Canvas { reach, squared_distance: [reach * reach; PIXELS] }
    }

    fn draw_segment(&mut self, from: Point, to: Point) {
        let along = [to[0] - from[0], to[1] - from[1]];
        let length_squared = along[0] * along[0] + along[1] * along[1];
        for row in self.covered(from[1], to[1]) {
            for col in self.covered(from[0], to[0]) {
                let offset = [col as f64 + 0.5 - from[0], row as f64 + 0.5 - from[1]];
                let projection = offset[0] * along[0] + offset[1] * along[1];
                // A segment of length 0 is a dot.
                let t =
                    if length_squared > 0.0 { (projection / length_squared).clamp(0.0, 1.0) } else { 0.0 };
                let [x, y] = [offset[0] - t * along[0], offset[1] - t * along[1]];
                let nearest = &mut self.squared_distance[row * SIDE + col];
                *nearest = nearest.min(x * x + y * y);
            }
        }
    }

    /// Draws a short stroke that is not part of the digit, as from an adjacent character.
    fn draw_stray_mark(&mut self, random: &mut Philox) {
        let mut anywhere = || random.between(0.0, SIDE as f64);
        let from = [anywhere(), anywhere()];
        let mut nearby = |coordinate: f64| coordinate + random.between(-6.0, 6.0);
        self.draw_segment(from, [nearby(from[0]), nearby(from[1])]);
    }

    /// Returns the rows or columns that the pen can touch between two coordinates.
    fn covered(&self, from: f64, to: f64) -> std::ops::Range<usize> {
        // Casts from float saturate, so values outside the image are clamped.
        let first = (from.min(to) - self.reach) as usize;
        let end = (from.max(to) + self.reach + 1.0) as usize;
        first.min(SIDE)..end.min(SIDE)
    }

    /// Adds ink where the pen was, unevenly, and some noise everywhere.
    fn ink(&self, image: &mut [u8], random: &mut Philox) {
        let (darkness, grain) = (random.between(150.0, 255.0), random.between(0.0, 100.0));
        let dirt_one_in = 6 + random.below(100);
        for (pixel, &squared_distance) in image.iter_mut().zip(&self.squared_distance) {
            let coverage = ((self.reach - squared_distance.sqrt()) / FADE_PIXELS).clamp(0.0, 1.0);
            let dirt = if random.below(dirt_one_in) == 0 { random.between(0.0, 120.0) } else { 0.0 };
            let ink = coverage * (darkness - random.between(0.0, grain));
            *pixel = (ink + dirt + 0.5).clamp(0.0, 255.0) as u8;
        }
    }
}

#[cfg(test)]
mod tests;
