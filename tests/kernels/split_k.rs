//! Products with split-K whose partial sums are added by the blocks of a cluster, with all
//! epilogues of such a product. Products of small integers are exact in every order.

use super::gemm::{OperandLayout, integers};
use super::{gpu, has_warpgroups, numbers, unless_short};
use crate::lock_shared;
use std::collections::BTreeSet;
use ternion::prelude::*;
use ternion_core::UnaryOp;
use ternion_core::dispatch::apply;
use ternion_core::ops::matmul::{Epilogue, Matmul};
use ternion_cuda::tiles::{TileOverride, with_tile};

/// The tiles, and the maximum number of rows of each.
const TILES: [(&str, usize); 3] =
    [("wgmmasplitk_16x64x64", 16), ("wgmmasplitk_32x64x64", 32), ("wgmmasplitk_64x64x64", usize::MAX)];
/// Sizes with edges of tiles in rows and columns, sums that end within a stage, and ring buffers
/// that wrap around several times.
const SIZES: [[usize; 3]; 7] = [
    [1, 8, 64],
    [5, 72, 520],
    [16, 264, 2056],
    [17, 136, 1032],
    [31, 64, 8],
    [33, 520, 4104],
    [64, 200, 6144],
];
/// The same for short tests.
const FEW: [[usize; 3]; 2] = [[5, 72, 520], [33, 520, 4104]];
/// The maximum number of splits. Short sums are split into fewer, in complete stages, so that every
/// rank of a cluster has a stage.
const MAX_SPLITS: [usize; 5] = [1, 2, 3, 5, 8];
const REPEATS: usize = 20;

/// A product with its epilogue: a bias and relu, or nothing.
#[derive(Clone, Copy, Debug)]
struct Case {
    sizes: [usize; 3],
    /// The memory layout of b.
    layout: OperandLayout,
    dtype: DType,
    out_dtype: DType,
    has_bias_and_relu: bool,
}

impl Case {
    fn all() -> impl Iterator<Item = Case> {
        let of_dtype = |dtype| [(dtype, dtype), (dtype, DType::F32)];
        let dtypes = [DType::BF16, DType::F16].into_iter().flat_map(of_dtype);
        dtypes.flat_map(|(dtype, out_dtype)| {
            unless_short(SIZES.to_vec(), FEW.to_vec()).into_iter().flat_map(move |sizes| {
                [OperandLayout::Rows, OperandLayout::Columns].into_iter().flat_map(move |layout| {
                    [false, true].map(|has_bias_and_relu| Case {
                        sizes,
                        layout,
                        dtype,
                        out_dtype,
                        has_bias_and_relu,
                    })
                })
            })
        })
    }

    /// Computes the product on a device: exactly in f64, rounded once in other dtypes.
    fn run(&self, device: &Device, dtype: DType) -> Result<Vec<f64>> {
        let Case { sizes: [m, n, k], layout, out_dtype, has_bias_and_relu, .. } = *self;
        let a = integers([m, k], OperandLayout::Rows, dtype, device, 1)?;
        let b = integers([k, n], layout, dtype, device, 2)?;
        let out_dtype = if dtype == DType::F64 { DType::F64 } else { out_dtype };
        let bias = integers([1, n], OperandLayout::Rows, out_dtype, device, 3)?.reshape([n])?;
        let epilogue = Epilogue {
            bias: has_bias_and_relu,
            activation: has_bias_and_relu.then_some(UnaryOp::Relu),
            out_dtype: Some(out_dtype),
            ..Epilogue::NONE
        };
        let inputs = [&a, &b, &bias];
        let inputs = if has_bias_and_relu { &inputs[..] } else { &inputs[..2] };
        apply(Matmul { epilogue, ..Matmul::PLAIN }, inputs)?[0].to_vec_f64()
    }

    fn expected(&self) -> Result<Vec<f64>> {
        let exact = self.run(&ternion::cpu()?, DType::F64)?;
        let length = exact.len();
        Tensor::from_vec(exact, [length], &ternion::cpu()?)?.to_dtype(self.out_dtype)?.to_vec_f64()
    }
}

#[test]
fn products_are_exact_with_any_number_of_splits() -> Result<()> {
    let Some(device) = gpu() else { return Ok(()) };
    let _shared = lock_shared();
    let (mut faults, mut ran, mut cuts) = (Vec::new(), [0; TILES.len()], BTreeSet::new());
    for case in Case::all() {
        let expected = case.expected()?;
        for (at, (name, most)) in TILES.into_iter().enumerate() {
            for parts in MAX_SPLITS {
                let tile_override = TileOverride { tile: Some(name), splits: Some(parts) };
                let (found, launched) = with_tile(tile_override, || case.run(device, case.dtype));
                let is_by_tile = launched.is_some_and(|launched| launched.tile == name);
                assert!(!is_by_tile || case.sizes[0] <= most, "{case:?} by {name}");
                ran[at] += usize::from(is_by_tile);
                cuts.extend(launched.filter(|_| is_by_tile).map(|launched| launched.splits));
                if found? != expected {
                    faults.push(format!("{case:?} by {launched:?}, {parts} parts"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    if has_warpgroups(device) {
        assert!(ran.iter().all(|&count| count > 0), "cases by each tile: {ran:?}");
        assert!(MAX_SPLITS.iter().all(|parts| cuts.contains(parts)), "parts: {cuts:?}");
    }
    Ok(())
}

/// Batches of two axes, of which b has one.
#[test]
fn batches_are_exact_with_any_number_of_splits() -> Result<()> {
    let Some(device) = gpu() else { return Ok(()) };
    let _shared = lock_shared();
    let cpu = ternion::cpu()?;
    let [m, n, k] = [20, 72, 1160];
    let run = |device: &Device, dtype: DType, seed: u64| -> Result<Vec<f64>> {
        let a = integers([4 * 3 * m, k], OperandLayout::Rows, dtype, device, seed)?.reshape([4, 3, m, k])?;
        let b = integers([3 * k, n], OperandLayout::Rows, dtype, device, seed + 1)?.reshape([3, k, n])?;
        a.matmul(&b)?.to_dtype(DType::BF16)?.to_vec_f64()
    };
    let expected = run(&cpu, DType::F64, 7)?;
    for (name, _) in TILES.into_iter().filter(|&(_, most)| m <= most) {
        for parts in MAX_SPLITS {
            let tile_override = TileOverride { tile: Some(name), splits: Some(parts) };
            let (found, launched) = with_tile(tile_override, || run(device, DType::BF16, 7));
            assert_eq!(found?, expected, "{launched:?}, {parts} parts");
        }
    }
    Ok(())
}

/// For numbers that are not integers, sums have the same bits in every run.
#[test]
fn products_in_clusters_have_the_same_bits_in_every_run() -> Result<()> {
    let Some(device) = gpu() else { return Ok(()) };
    let _shared = lock_shared();
    let (cpu, repeats) = (ternion::cpu()?, unless_short(REPEATS, 2));
    for [m, n, k] in [[16, 4096, 4096], [50, 1032, 3080]] {
        let random = |shape: [usize; 2], seed| {
            let numbers = Tensor::from_vec(numbers(shape[0] * shape[1], seed), shape, &cpu)?;
            numbers.to_dtype(DType::BF16)?.to_device(device)
        };
        let (a, b) = (random([m, k], 1)?, random([n, k], 2)?.t()?);
        for (name, _) in TILES.into_iter().filter(|&(_, most)| m <= most) {
            for parts in MAX_SPLITS {
                let tile_override = TileOverride { tile: Some(name), splits: Some(parts) };
                let run = || a.matmul(&b)?.to_bytes();
                let (results, _) =
                    with_tile(tile_override, || (0..repeats).map(|_| run()).collect::<Result<Vec<_>>>());
                let results = results?;
                assert!(results.iter().all(|result| *result == results[0]), "{name} in {parts}");
            }
        }
    }
    Ok(())
}
