//! Synthetic digits: pinned bits, independence of set size and threads, and a task that can be
//! learned but is not trivial.

use super::*;
use sha2::{Digest, Sha256};

fn digits(count: usize, seed: u64, split: SplitName) -> Split {
    synthetic_digits(count, seed, split).unwrap()
}

/// Classifies by the distance of an image to the mean image of each class.
fn nearest_mean_accuracy(train: &Split, test: &Split) -> f64 {
    let mut means = vec![[0.0_f64; PIXELS]; 10];
    for index in 0..train.len() {
        let mean = &mut means[usize::from(train.label(index).unwrap())];
        for (sum, &pixel) in mean.iter_mut().zip(train.image(index).unwrap()) {
            *sum += f64::from(pixel) * 10.0 / train.len() as f64;
        }
    }
    let distance = |image: &[u8], mean: &[f64; PIXELS]| -> f64 {
        image.iter().zip(mean).map(|(&pixel, mean)| (f64::from(pixel) - mean).powi(2)).sum()
    };
    let right = (0..test.len()).filter(|&index| {
        let distances = means.iter().map(|mean| distance(test.image(index).unwrap(), mean));
        let nearest = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0;
        nearest == usize::from(test.label(index).unwrap())
    });
    right.count() as f64 / test.len() as f64
}

/// The first 1000 images of seed 0, bit for bit. They must not change on any platform or in any
/// version.
#[test]
fn drawn_bits_are_pinned() {
    let hash = |name| {
        let split = digits(1_000, 0, name);
        let hash = Sha256::new().chain_update(split.pixels()).chain_update(split.labels()).finalize();
        hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(hash(SplitName::Train), "20680eb02dd0c6c6ded2425c39fbae0b0308bdc15386c641f1863549264b623b");
    assert_eq!(hash(SplitName::Test), "f4f306db9d2f2a673df57662c8af2e3a55d7ff8d3cef6c934430caeea3f6a97b");
}

#[test]
fn a_larger_set_begins_with_the_smaller_one() {
    let (small, large) = (digits(7, 3, SplitName::Train), digits(103, 3, SplitName::Train));
    assert_eq!(small.pixels(), &large.pixels()[..7 * PIXELS]);
    assert_eq!(small.labels(), &large.labels()[..7]);
    let mut one_by_one = vec![0; 103 * PIXELS];
    draw_chunk(&mut one_by_one, large.labels(), 0, 3, SplitName::Train);
    assert_eq!(one_by_one, large.pixels(), "the threads share the work wrongly");
}

#[test]
fn seeds_and_parts_draw_different_digits() {
    let base = digits(20, 1, SplitName::Train);
    for other in [digits(20, 2, SplitName::Train), digits(20, 1, SplitName::Test)] {
        assert_ne!(base.labels(), other.labels());
        let equal_images = (0..20).filter(|&index| base.image(index) == other.image(index)).count();
        assert_eq!(equal_images, 0);
    }
}

#[test]
fn every_ten_images_are_the_ten_digits() {
    let split = digits(45, 9, SplitName::Train);
    for ten in split.labels().chunks_exact(10) {
        let mut sorted = ten.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<u8>>());
        assert_ne!(ten, sorted);
    }
}

#[test]
fn every_image_has_foreground_and_background() {
    let split = digits(2_000, 4, SplitName::Train);
    for index in 0..split.len() {
        let image = split.image(index).unwrap();
        let ink = image.iter().filter(|&&pixel| pixel > 100).count();
        let paper = image.iter().filter(|&&pixel| pixel < 30).count();
        assert!((8..350).contains(&ink) && paper > 350, "image {index}: {ink} ink, {paper} paper");
    }
}

#[test]
fn the_digits_can_be_learned_but_not_by_their_mean_images() {
    let (train, test) = (digits(4_000, 0, SplitName::Train), digits(1_000, 0, SplitName::Test));
    let accuracy = nearest_mean_accuracy(&train, &test);
    assert!((0.45..0.85).contains(&accuracy), "{accuracy}");
}

#[test]
fn an_empty_set_is_an_error() {
    assert!(matches!(synthetic_digits(0, 0, SplitName::Train), Err(DataError::Empty { .. })));
}

#[test]
fn count_that_exceeds_memory_is_an_error() {
    let message = synthetic_digits(usize::MAX, 0, SplitName::Train).unwrap_err().to_string();
    assert_eq!(message, format!("synthetic images: {}, expected at most 16777216", usize::MAX));
}
