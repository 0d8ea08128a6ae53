//! Convolutions whose patches are not all in memory at once. In a separate file, because the
//! maximum number of patches is global to the process.

use std::sync::atomic::Ordering;
use ternion_core::ops::conv::MAX_PATCHES;
use ternion_core::{Conv2dOptions, DType, Result, Tensor, decorators::Composed};

/// Computes the convolution and its gradients, only with im2col and matrix products.
fn all(dtype: DType) -> Result<Vec<Vec<f64>>> {
    let device = Composed::new(ternion_cpu::device());
    let numbers = |count: usize, seed: usize| {
        (0..count).map(|i| ((i * 37 + seed) % 19) as f32 / 8.0 - 1.0).collect::<Vec<_>>()
    };
    let tensor = |shape: &[usize], seed: usize| {
        Tensor::from_vec(numbers(shape.iter().product(), seed), shape, &device)?
            .to_dtype(dtype)?
            .requires_grad()
    };
    let (x, weight, bias) = (tensor(&[7, 4, 6, 5], 1)?, tensor(&[6, 2, 3, 3], 2)?, tensor(&[6], 3)?);
    let options = Conv2dOptions { padding: [1, 1], stride: [2, 1], groups: 2, ..Conv2dOptions::default() };
    let y = x.conv2d(&weight, Some(&bias), options)?;
    let dy = tensor(y.dims(), 4)?.detach();
    let gradients = y.mul(&dy)?.sum(..)?.backward()?;
    let mut found = vec![y.to_vec_f64()?];
    for leaf in [&x, &weight, &bias] {
        found.push(gradients.get(leaf).expect("a gradient").to_vec_f64()?);
    }
    Ok(found)
}

#[test]
fn parts_of_the_images_give_what_all_of_them_give() -> Result<()> {
    for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-5), (DType::BF16, 1e-2)] {
        MAX_PATCHES.store(usize::MAX, Ordering::Relaxed);
        let whole = all(dtype)?;
        // An image has 4 * 9 * 3 * 5 patch elements: parts of one, two and three images.
        for most in [1, 2 * 540 + 100, 3 * 540] {
            MAX_PATCHES.store(most, Ordering::Relaxed);
            for (at, (parts, whole)) in all(dtype)?.iter().zip(&whole).enumerate() {
                assert_eq!(parts.len(), whole.len());
                for (part, whole) in parts.iter().zip(whole) {
                    let off = (part - whole).abs();
                    assert!(
                        off <= tolerance * (1.0 + whole.abs()),
                        "{dtype}, {most}, result {at}: {part} instead of {whole}"
                    );
                }
            }
        }
    }
    Ok(())
}
