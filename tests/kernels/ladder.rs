//! The GEMM ladder: every rung with each of its tiles is compared with f64 products on the CPU,
//! with guarded edges. Also what it rejects.

use super::{gpu, lock_shared, numbers, unless_short};
use ternion::prelude::*;
use ternion_cuda::CudaBackend;
use ternion_cuda::ladder::{self, Rung, Tile};

/// Rows, columns and inner size; the last two in units of the multiple that the rung requires. They
/// cover single elements, edges in all three axes, complete tiles, more tiles than a persistent
/// grid has blocks, and sums of many stages.
const SIZES: [[usize; 3]; 9] = [
    [1, 1, 1],
    [33, 9, 5],
    [129, 17, 9],
    [65, 33, 63],
    [256, 64, 16],
    [300, 65, 25],
    [384, 96, 130],
    [1000, 97, 125],
    [2056, 385, 9],
];
/// The same for short tests.
const FEW: [[usize; 3]; 3] = [[33, 9, 5], [129, 17, 9], [300, 65, 25]];
/// The value of the rows around y, which must not be written.
const MARK: f64 = -4096.0;

pub(super) fn backend(device: &Device) -> &CudaBackend {
    device.downcast().expect("the CUDA backend itself")
}

/// Returns m, n and k of the rung.
pub(super) fn sizes(rung: Rung, [m, n, k]: [usize; 3]) -> [usize; 3] {
    [m, n * rung.multiple(), k * rung.multiple()]
}

/// Returns integers from -3 to 3: sums of their products are exact in f32, in any order.
fn integers(count: usize, seed: u64) -> Vec<f32> {
    numbers(count, seed).into_iter().map(f32::round).collect()
}

/// Returns a and b of a rung on the CPU.
pub(super) fn operands(
    rung: Rung,
    [m, n, k]: [usize; 3],
    values: impl Fn(usize, u64) -> Vec<f32>,
) -> Result<[Tensor; 2]> {
    let cpu = ternion::cpu()?;
    let matrix = |rows: usize, columns: usize, seed: u64| {
        Tensor::from_vec(values(rows * columns, seed), [rows, columns], &cpu)?.to_dtype(rung.dtype())
    };
    Ok([matrix(m, k, 1)?, matrix(k, n, 2)?])
}

/// Returns the product by the rung as f64. Checks that nothing is written around it.
fn product(device: &Device, rung: Rung, tile: &'static Tile, [a, b]: [&Tensor; 2]) -> Result<Vec<f64>> {
    let (m, n) = (a.dims()[0], b.dims()[1]);
    let (a, b) = (a.to_device(device)?, b.to_device(device)?);
    let around = Tensor::full([m + 2, n], MARK, rung.dtype(), device)?;
    let y = around.narrow(0, 1, m)?;
    // Elements that are not written stay NaN.
    y.fill_(f64::NAN)?;
    ladder::product(backend(device), rung, tile, [&a.view(), &b.view(), &y.view()])?;
    let mut all = around.to_vec_f64()?;
    let end = all.split_off((m + 1) * n);
    let y = all.split_off(n);
    assert!(all.iter().chain(&end).all(|&value| value == MARK), "{rung:?} {tile}: written around y");
    Ok(y)
}

/// Returns every rung that the device supports with each of its tiles.
pub(super) fn every_tile(device: &Device) -> impl Iterator<Item = (Rung, &'static Tile)> {
    let runs = |rung: &Rung| {
        let runs = ladder::runs(backend(device), *rung);
        if !runs {
            println!("not tested: the device lacks the instructions of {}", rung.name());
        }
        runs
    };
    Rung::ALL.into_iter().filter(runs).flat_map(|rung| rung.tiles().iter().map(move |tile| (rung, tile)))
}

#[test]
fn products_of_integers_are_exact_and_bit_identical_in_two_runs() -> Result<()> {
    let Some(device) = gpu() else { return Ok(()) };
    let _shared = lock_shared();
    for (rung, tile) in every_tile(device) {
        for &size in unless_short(&SIZES[..], &FEW[..]) {
            let sizes = sizes(rung, size);
            let [a, b] = operands(rung, sizes, integers)?;
            let exact = a.to_dtype(DType::F64)?.matmul(&b.to_dtype(DType::F64)?)?;
            let expected = exact.to_dtype(rung.dtype())?.to_vec_f64()?;
            let found = product(device, rung, tile, [&a, &b])?;
            let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            if let Some(at) = wrong {
                let (row, column) = (at / sizes[1], at % sizes[1]);
                panic!(
                    "{rung:?} {tile} {sizes:?}: {} instead of {} at [{row}, {column}]",
                    found[at], expected[at]
                );
            }
            assert_eq!(found.len(), expected.len(), "{rung:?} {tile} {sizes:?}");
            assert!(product(device, rung, tile, [&a, &b])? == found, "{rung:?} {tile} {sizes:?}: twice");
        }
    }
    Ok(())
}

/// Each of the k additions of a sum may be off by one f32 rounding unit of the sum of the absolute
/// products; tensor cores truncate where an fmaf rounds.
#[test]
fn products_of_fractions_are_within_the_bound_of_f32_sums() -> Result<()> {
    let Some(device) = gpu() else { return Ok(()) };
    let _shared = lock_shared();
    for (rung, tile) in every_tile(device) {
        let sizes = sizes(rung, [257, 66, 129]);
        let [a, b] = operands(rung, sizes, numbers)?;
        let wide = [a.to_dtype(DType::F64)?, b.to_dtype(DType::F64)?];
        let expected = wide[0].matmul(&wide[1])?.to_vec_f64()?;
        let absolute = wide[0].abs()?.matmul(&wide[1].abs()?)?.to_vec_f64()?;
        let (unit, rounding) = match rung.dtype() {
            DType::BF16 => (2f64.powi(-22), 2f64.powi(-8)),
            _ => (2f64.powi(-24), 0.0),
        };
        let found = product(device, rung, tile, [&a, &b])?;
        for (at, value) in found.into_iter().enumerate() {
            let sum = (sizes[2] + 1) as f64 * unit * absolute[at];
            let limit = sum + rounding * (expected[at].abs() + sum);
            let error = (value - expected[at]).abs();
            assert!(error <= limit, "{rung:?} {tile}, at {at}: {value} instead of {}", expected[at]);
        }
    }
    Ok(())
}

#[test]
fn invalid_arguments_of_a_rung_are_errors() -> Result<()> {
    let Some(device) = gpu() else { return Ok(()) };
    let _shared = lock_shared();
    let zeros = |shape: [usize; 2], dtype| Tensor::zeros(shape, dtype, device);
    let check_rejected = |rung: Rung, a: &Tensor, b: &Tensor, y: &Tensor, expected: &str| {
        let views = [&a.view(), &b.view(), &y.view()];
        let error = ladder::product(backend(device), rung, &rung.tiles()[0], views).expect_err(expected);
        let text = error.to_string();
        assert!(text.starts_with("ladder: ") && text.contains(expected), "{text}");
    };
    let square = |dtype| zeros([8, 8], dtype);
    let (single, half) = (square(DType::F32)?, square(DType::BF16)?);
    check_rejected(Rung::Naive, &single, &half, &single, "naive: expected b of f32, got bf16");
    check_rejected(Rung::MmaSync, &half, &half, &single, "mma_sync: expected y of bf16, got f32");
    let wide = zeros([8, 9], DType::F32)?;
    check_rejected(Rung::Naive, &single, &wide, &single, "y [m, n], got [8, 8], [8, 9] and [8, 8]");
    check_rejected(Rung::Naive, &wide, &single, &single, "got [8, 9], [8, 8] and [8, 8]");
    check_rejected(
        Rung::Naive,
        &single.t()?,
        &single,
        &single,
        "a row-major without gaps, got strides [1, 8]",
    );
    let none = zeros([8, 0], DType::F32)?;
    check_rejected(
        Rung::Coalesced,
        &none,
        &none.t()?.contiguous()?,
        &single,
        "sizes of at least 1, got m 8, n 8, k 0",
    );
    check_rejected(Rung::Vectorized, &single, &wide, &wide, "n and k that 4 divides, got n 9, k 8");
    let (tall, narrow) = (zeros([12, 8], DType::BF16)?, zeros([8, 12], DType::BF16)?);
    check_rejected(Rung::MmaSync, &narrow, &tall, &half, "n and k that 8 divides, got n 8, k 12");
    let all = zeros([1, 72], DType::F32)?.flatten(0, 1)?;
    let shifted = all.narrow(0, 1, 64)?.reshape([8, 8])?;
    check_rejected(
        Rung::WarpTile,
        &single,
        &shifted,
        &single,
        "b that begins at a multiple of 16 bytes, got 0x",
    );
    // This rung accesses single elements.
    ladder::product(
        backend(device),
        Rung::BlockTile2d,
        &Rung::BlockTile2d.tiles()[0],
        [&single.view(), &shifted.view(), &square(DType::F32)?.view()],
    )?;
    device.synchronize()
}
