//! The total norm of many tensors: more tensors than a launch of the CUDA backend accepts, tensors
//! of many chunks and of none, unaligned, permuted or with large strides, and numbers whose squares
//! overflow or underflow in only some chunks.

use super::{FLOATS, assert_no_faults, compare, tensor};
use ternion::prelude::*;
use ternion_core::total_norm;

fn norm(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(vec![total_norm(&tensors.iter().collect::<Vec<_>>())?])
}

/// Lengths around a chunk, which is 64 KiB, and around the packs at its end.
const LENGTHS: [usize; 12] = [0, 1, 7, 8, 255, 4099, 8191, 16384, 16385, 32769, 100_003, 1 << 20];

#[test]
fn norms_of_every_length() -> Result<()> {
    let mut faults = String::new();
    for dtype in FLOATS {
        for length in LENGTHS {
            compare(&mut faults, &format!("[{length}] {dtype:?}"), |device| {
                norm(&[tensor(&[length], dtype, device, 1)?])
            })?;
            compare(&mut faults, &format!("[{length}] {dtype:?} askew"), |device| {
                norm(&[tensor(&[length + 3], dtype, device, 1)?.narrow(0, 3, length)?])
            })?;
        }
        compare(&mut faults, &format!("all lengths {dtype:?}"), |device| {
            let of = |&length: &usize| tensor(&[length], dtype, device, length as u64);
            norm(&LENGTHS.iter().map(of).collect::<Result<Vec<_>>>()?)
        })?;
    }
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn norms_of_more_tensors_than_a_launch_takes() -> Result<()> {
    let mut faults = String::new();
    for dtype in FLOATS {
        for count in [191, 192, 193, 384, 1000] {
            compare(&mut faults, &format!("{count} tensors {dtype:?}"), |device| {
                let of = |at: usize| tensor(&[at % 5, at % 7 + 1], dtype, device, at as u64);
                norm(&(0..count).map(of).collect::<Result<Vec<_>>>()?)
            })?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn norms_of_views() -> Result<()> {
    let mut faults = String::new();
    for dtype in FLOATS {
        compare(&mut faults, &format!("views {dtype:?}"), |device| {
            let x = tensor(&[130, 257], dtype, device, 1)?;
            let row = x.select(0, 5)?;
            norm(&[
                x.transpose(0, 1)?,
                x.narrow(1, 1, 200)?,
                x.narrow(0, 3, 100)?,
                x.flip(1)?,
                row.expand([300, 257])?,
                x,
            ])
        })?;
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Each chunk is summed with or without scaling, depending on its own numbers, and the chunks of
/// both tensors are combined.
#[test]
fn norms_of_numbers_out_of_the_range_of_squares() -> Result<()> {
    let mut faults = String::new();
    for dtype in FLOATS {
        let (large, small) = match dtype {
            DType::F64 => (1e250, 1e-250),
            DType::F16 => (2e4, 1e-6),
            _ => (1e30, 1e-30),
        };
        for scales in [[large, large], [small, small], [1.0, large], [1.0, small], [large, small], [0.0, 1.0]]
        {
            compare(&mut faults, &format!("{scales:?} {dtype:?}"), |device| {
                let part = |scale: f64, seed| {
                    let x = tensor(&[40_000], dtype.accumulator(), device, seed)?;
                    x.mul_scalar(scale)?.to_dtype(dtype)
                };
                let norms = norm(&[part(scales[0], 1)?, part(scales[1], 2)?])?;
                // The norms are divided by their scale, so that the squares of the comparison are
                // in range.
                norms.iter().map(|norm| norm.div_scalar(scales[0].max(scales[1]))).collect()
            })?;
        }
        compare(&mut faults, &format!("not finite {dtype:?}"), |device| {
            let with = |value: f64| {
                let x = tensor(&[40_000], dtype, device, 3)?;
                x.narrow(0, 39_999, 1)?.fill_(value)?;
                norm(&[tensor(&[20_000], dtype, device, 4)?, x])
            };
            let (nan, infinite) = (with(f64::NAN)?, with(f64::NEG_INFINITY)?);
            let is_infinite = infinite[0].eq_scalar(f64::INFINITY)?.to_dtype(DType::F32)?;
            Ok(vec![nan[0].clone(), is_infinite])
        })?;
    }
    assert_no_faults(&faults);
    Ok(())
}
