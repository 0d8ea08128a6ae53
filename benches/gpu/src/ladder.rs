//! The ladder of matrix products, beginning with the naive kernel, compared with the matmul op
//! (`docs/kernels/gemm-ladder.md`). Only for CUDA.

use crate::Case;
use crate::clock::{Calls, Clock, emit, emit_error, emit_with};
use crate::device::{Kind, backend};
use serde_json::{Value, json};
use ternion::{DType, Result, Tensor};
use ternion_cuda::CudaBackend;
use ternion_cuda::ladder::{self, Rung, Tile};

const SIZES: [usize; 6] = [256, 512, 1024, 2048, 4096, 8192];

/// Milliseconds above which only one call is measured: the naive product of 8192 takes seconds.
const LIMIT: f64 = 100.0;

/// Returns a case for every rung and size, `ladder/f32/naive/256`, and among them
/// `ladder/f32/ternion/256` for the matmul op.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::BF16] {
        for rung in Rung::ALL.into_iter().filter(|rung| rung.dtype() == dtype) {
            cases.extend(SIZES.map(|size| {
                Case::new(format!("ladder/{dtype}/{}/{size}", rung.name()), move |clock, name| {
                    run(clock, name, rung, size)
                })
            }));
        }
        cases.extend(SIZES.map(|size| {
            Case::new(format!("ladder/{dtype}/ternion/{size}"), move |clock, name| {
                product(clock, name, dtype, size)
            })
        }));
    }
    cases
}

/// Returns the TFLOP/s of a product of square matrices.
fn rate(size: usize, milliseconds: f64) -> f64 {
    2.0 * (size as f64).powi(3) / milliseconds / 1e9
}

/// A tile, its milliseconds, and how many calls they are computed from.
type Time = (&'static Tile, f64, Calls);

/// Prints the time of the fastest tile of a rung, with the milliseconds of all tiles if it has
/// several.
fn run(clock: &Clock, name: &str, rung: Rung, size: usize) -> Result<()> {
    if clock.kind != Kind::Cuda {
        return Ok(());
    }
    if !ladder::runs(backend::<CudaBackend>(&clock.device)?, rung) {
        emit_error(name, clock.implementation(), &"the device lacks the form's instructions");
        return Ok(());
    }
    let times = tile_times(clock, rung, size)?;
    let fastest = times.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let Some((tile, milliseconds, calls)) = fastest else { return Ok(()) };
    let mut extras = vec![("tile", json!(tile.to_string()))];
    if times.len() > 1 {
        let all = times.iter().map(|(tile, milliseconds, _)| (tile.to_string(), json!(milliseconds)));
        extras.push(("tiles", Value::Object(all.collect())));
    }
    if *calls == Calls::One {
        extras.push(("calls", json!(1)));
    }
    emit_with(name, clock.implementation(), *milliseconds, rate(size, *milliseconds), "TFLOP/s", &extras);
    Ok(())
}

/// Returns the times of each tile of a rung.
fn tile_times(clock: &Clock, rung: Rung, size: usize) -> Result<Vec<Time>> {
    let backend = backend::<CudaBackend>(&clock.device)?;
    let random = || clock.randn(&[size; 2], rung.dtype());
    let (a, b) = (random()?, random()?);
    let y = Tensor::zeros([size; 2], rung.dtype(), &clock.device)?;
    let time = |tile: &'static Tile| {
        let call = || ladder::product(backend, rung, tile, [&a.view(), &b.view(), &y.view()]);
        let (milliseconds, calls) = clock.median_or_one(LIMIT, call)?;
        Ok((tile, milliseconds, calls))
    };
    rung.tiles().iter().map(time).collect()
}

fn product(clock: &Clock, name: &str, dtype: DType, size: usize) -> Result<()> {
    if clock.kind != Kind::Cuda {
        return Ok(());
    }
    let random = || clock.randn(&[size; 2], dtype);
    let (a, b) = (random()?, random()?);
    let milliseconds = clock.median(|| a.matmul(&b).map(drop))?;
    emit(name, clock.implementation(), milliseconds, rate(size, milliseconds), "TFLOP/s");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_measured_at_every_size() {
        let cases = cases();
        assert_eq!(cases.len(), (Rung::ALL.len() + 2) * SIZES.len());
        for name in ["ladder/f32/naive/256", "ladder/f32/ternion/8192", "ladder/bf16/multicast/8192"] {
            assert!(cases.iter().any(|case| case.name == name), "{name}");
        }
    }

    #[test]
    fn rates_are_those_of_multiplications_and_additions() {
        assert_eq!(rate(1000, 2.0), 1.0);
    }
}
