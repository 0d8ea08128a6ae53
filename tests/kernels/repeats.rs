//! Results are bit-identical in every run, however long the parts of a kernel take: products,
//! attention, both ladders, norms, losses, sums by index and optimizer steps. With
//! `TERNION_REPEATS=1000` each runs a thousand times; with `TERNION_CUDA_DELAYS=1` threads wait for
//! random times at synchronization points. Each case prints a fingerprint of its bits, so that
//! processes with and without delays can be compared
//! (`run.sh check --only repeats repeats_delayed`).

mod attention;

use super::gemm::matrix;
use super::gemm_epilogues::{ACTIVATIONS, FUSED_TILES, GRADIENTS};
use super::tiles::{LAYOUTS, idle, options};
use super::{
    attention_ladder, forward_and_backward_with, gpu, has_tensor_maps, has_warpgroups, ladder, numbers,
    tensor,
};
use crate::lock_shared;
use ternion::prelude::*;
use ternion_core::dispatch::{apply, apply_one};
use ternion_core::ops::attention::{Attention, AttentionConfig};
use ternion_core::ops::loss::CrossEntropyWithGrad;
use ternion_core::ops::matmul::{Epilogue, Matmul, MatmulOptions};
use ternion_core::ops::random::Dropout;
use ternion_core::ops::step::{AdamStep, DecayMode};
use ternion_core::{Precision, total_norm, with_precision};
use ternion_cuda::tiles::{self, Operands, TileOverride, with_tile};
use ternion_cuda::{CudaBackend, with_attention_bf16x6};

const REPEATS: usize = 20;
const HALF_DTYPES: [DType; 2] = [DType::BF16, DType::F16];

fn repeats() -> usize {
    match std::env::var("TERNION_REPEATS") {
        Ok(text) => match text.parse() {
            Ok(count) if count > 1 => count,
            _ => panic!("TERNION_REPEATS: expected a number above 1, got {text:?}"),
        },
        Err(_) => REPEATS,
    }
}

/// Returns the bits of a tensor as integers that share its buffer. If they were compared as floats,
/// zeros of both signs would be equal and NaN would not.
fn bits(x: &Tensor) -> Result<Tensor> {
    let dtype = match x.dtype().size() {
        1 => DType::I8,
        2 => DType::I16,
        4 => DType::I32,
        _ => DType::I64,
    };
    Tensor::from_buffer(x.buffer().clone(), *x.layout(), dtype, x.device())
}

/// Returns a digest of the bits of these tensors.
fn fingerprint(tensors: &[Tensor]) -> Result<u64> {
    let mut hash = 0u64;
    for tensor in tensors {
        for bytes in tensor.to_bytes()?.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }
    Ok(hash)
}

/// Prints the fingerprint of the first run. If later runs have other bits, adds the number of such
/// elements to `faults`. The bits are compared on the device, so that runs follow each other
/// immediately.
fn compare_runs(faults: &mut Vec<String>, what: &str, run: impl Fn() -> Result<Vec<Tensor>>) -> Result<()> {
    let first = run()?;
    println!("{what}: fingerprint {:016x}", fingerprint(&first)?);
    let first = first.iter().map(bits).collect::<Result<Vec<_>>>()?;
    let mut differing: Vec<Option<Tensor>> = vec![None; first.len()];
    for _ in 1..repeats() {
        for ((first, other), differing) in first.iter().zip(run()?).zip(&mut differing) {
            let differs = first.ne(&bits(&other)?)?;
            *differing = Some(match differing.take() {
                Some(before) => before.logical_or(&differs)?,
                None => differs,
            });
        }
    }
    for (at, differing) in differing.iter().enumerate() {
        let Some(differing) = differing else { continue };
        let count = differing.to_bytes()?.iter().filter(|&&differs| differs != 0).count();
        if count > 0 {
            faults.push(format!("{what}, result {at}: {count} elements"));
        }
    }
    Ok(())
}

fn assert_no_faults(faults: &[String]) {
    assert!(faults.is_empty(), "not the same in every run:\n{}", faults.join("\n"));
}

/// The operand type of a product, and the dtype to which the product is rounded: that of the
/// operands, if `None`.
#[derive(Clone, Copy, Debug)]
struct ProductTypes {
    operands: Operands,
    out_dtype: Option<DType>,
}

impl ProductTypes {
    fn all() -> Vec<ProductTypes> {
        let of = |operands, out_dtype| ProductTypes { operands, out_dtype };
        let half_precision = HALF_DTYPES
            .into_iter()
            .flat_map(|dtype| [None, Some(DType::F32)].map(|out_dtype| of(Operands::Of(dtype), out_dtype)));
        half_precision.chain([of(Operands::Tf32, None), of(Operands::Bf16x6, None)]).collect()
    }

    fn dtype(self) -> DType {
        if let Operands::Of(dtype) = self.operands { dtype } else { DType::F32 }
    }

    /// Computes the product of a and b by every tile that supports it, with and without split-K;
    /// adds tiles that ran to `ran`.
    fn by_every_tile(
        self,
        faults: &mut Vec<String>,
        ran: &mut Vec<&'static str>,
        what: &str,
        [a, b]: [&Tensor; 2],
    ) -> Result<()> {
        let backend: &CudaBackend = a.device().downcast().expect("the CUDA backend itself");
        let options = MatmulOptions { out_dtype: self.out_dtype, ..options(self.operands) };
        for tile in tiles::of(backend, self.operands) {
            for splits in [1, 3] {
                let tile_override = TileOverride { tile: Some(tile.name), splits: Some(splits) };
                let run = || -> Result<Vec<Tensor>> { Ok(vec![a.matmul_with(b, options)?]) };
                let (one, launched) = with_tile(tile_override, run);
                one?;
                // If a tile does not support a product, another tile computes it.
                if launched.is_some_and(|launched| launched.tile == tile.name) {
                    ran.push(tile.name);
                    let what = format!("{self:?} {what} by {} in {splits}", tile.name);
                    with_tile(tile_override, || compare_runs(faults, &what, run)).0?;
                }
            }
        }
        Ok(())
    }
}

/// One output with several tiles for each block, one with a tile for each block, and one with few
/// rows. A thousand runs of all of them take half a minute.
const LARGE: [usize; 3] = [1288, 1544, 520];
const SIZES: [[usize; 3]; 2] = [[264, 520, 2056], [16, 1032, 1032]];

#[test]
fn products_by_every_tile() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    for form in ProductTypes::all() {
        let mut ran = Vec::new();
        let large = form.out_dtype.is_none().then_some(LARGE);
        for [m, n, k] in SIZES.into_iter().chain(large) {
            for layouts in LAYOUTS {
                let a = matrix([m, k], layouts[0], form.dtype(), device, 1)?;
                let b = matrix([k, n], layouts[1], form.dtype(), device, 2)?;
                let what = format!("{m} x {n} x {k} {layouts:?}");
                form.by_every_tile(&mut faults, &mut ran, &what, [&a, &b])?;
            }
        }
        let idle = idle(device, form.operands, &ran);
        assert!(idle.is_empty() || !has_tensor_maps(), "{form:?}: no product ran by {idle:?}");
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Two batch axes, of which b has only one.
#[test]
fn products_of_a_batch_by_every_tile() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    let [slow, fast, m, n, k] = [2, 3, 136, 264, 584];
    for form in ProductTypes::all() {
        let a = tensor(&[slow, fast, m, k], form.dtype(), device, 1)?;
        let b = tensor(&[fast, k, n], form.dtype(), device, 2)?;
        let what = format!("[{slow}, {fast}] {m} x {n} x {k}");
        form.by_every_tile(&mut faults, &mut Vec::new(), &what, [&a, &b])?;
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Returns products whose epilogues contain more than bias and relu, with their inputs.
fn fused(dtype: DType, device: &Device) -> Result<Vec<(String, Epilogue, Vec<Tensor>)>> {
    let [m, n, k] = LARGE;
    let half = |shape: &[usize], seed| tensor(shape, dtype, device, seed);
    let (a, b, wide) = (half(&[m, k], 1)?, half(&[n, k], 2)?.t()?, half(&[k, n], 7)?);
    let (bias, z, across) = (half(&[n], 3)?, half(&[m, n], 4)?, half(&[k, m], 5)?.t()?);
    let residual = tensor(&[m, n], DType::F32, device, 6)?;
    let scaled = Epilogue { alpha: 0.02, ..Epilogue::NONE };
    let mut all = Vec::new();
    for op in ACTIVATIONS {
        let epilogue = Epilogue { bias: true, activation: Some(op), pre_activation: true, ..scaled };
        all.push((format!("pre-activation of {op:?}"), epilogue, vec![a.clone(), b.clone(), bias.clone()]));
    }
    for (op, column_sums) in GRADIENTS.into_iter().flat_map(|op| [(op, true), (op, false)]) {
        let epilogue = Epilogue { activation_grad: Some(op), column_sums, ..scaled };
        let what = format!("gradient of {op:?}, sums: {column_sums}");
        all.push((what, epilogue, vec![a.clone(), wide.clone(), z.clone()]));
    }
    let sum = Epilogue { residual: true, out_dtype: Some(DType::F32), ..scaled };
    all.push(("residual".into(), sum, vec![a.clone(), b.clone(), residual.clone()]));
    let in_place = Epilogue { accumulate: true, out_dtype: Some(DType::F32), ..scaled };
    all.push(("added in place".into(), in_place, vec![a, b, residual]));
    let row_sums = Epilogue { row_sums_of_a: true, ..Epilogue::NONE };
    all.push(("sums of rows".into(), row_sums, vec![across, wide]));
    Ok(all)
}

/// Runs a fused product. An in-place sum overwrites a copy of the last input.
fn run_fused(epilogue: Epilogue, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let op = Matmul { epilogue, ..Matmul::PLAIN };
    match inputs.split_last() {
        Some((sum, others)) if epilogue.accumulate => {
            let sum = sum.copy()?;
            Ok(apply(op, &[others, &[&sum]].concat())?.into_vec())
        }
        _ => Ok(apply(op, inputs)?.into_vec()),
    }
}

#[test]
fn fused_products() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    for dtype in HALF_DTYPES {
        for (name, epilogue, inputs) in fused(dtype, device)? {
            let inputs: Vec<&Tensor> = inputs.iter().collect();
            // With split-K only products with row sums are fused.
            let splits: &[usize] = if epilogue.row_sums_of_a { &[1, 3] } else { &[1] };
            for tile in FUSED_TILES {
                for &splits in splits {
                    let tile_override = TileOverride { tile: Some(tile), splits: Some(splits) };
                    let what = format!("{name}, {dtype:?} by {tile} in {splits}");
                    let run = || run_fused(epilogue, &inputs);
                    let (compared, launched) =
                        with_tile(tile_override, || compare_runs(&mut faults, &what, run));
                    compared?;
                    let is_fused =
                        launched.is_some_and(|launched| launched.tile == tile && launched.is_fused);
                    assert!(is_fused || !has_warpgroups(device), "{what}: {launched:?}");
                }
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Edges in all axes, and more tiles than a persistent grid has blocks.
const LADDER_SIZES: [[usize; 3]; 2] = [[520, 49, 33], [2056, 385, 9]];

#[test]
fn products_of_the_ladder() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    for (form, tile) in ladder::every_tile(device) {
        for sizes in LADDER_SIZES.map(|sizes| ladder::sizes(form, sizes)) {
            let [a, b] = ladder::operands(form, sizes, numbers)?;
            let (a, b) = (a.to_device(device)?, b.to_device(device)?);
            let run = || {
                let y = Tensor::full([sizes[0], sizes[1]], f64::NAN, form.dtype(), device)?;
                let views = [&a.view(), &b.view(), &y.view()];
                ternion_cuda::ladder::product(ladder::backend(device), form, tile, views)?;
                Ok(vec![y])
            };
            compare_runs(&mut faults, &format!("ladder, {form:?} by {tile} {sizes:?}"), run)?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Layer norm in a residual block, whose gradient is added to that of the norm. The gradients of
/// weight and bias are sums over all rows.
#[test]
fn layer_norms() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    let rounded = (DType::F32, Some(DType::BF16));
    for (dtype, out_dtype) in [(DType::F32, None), (DType::BF16, None), (DType::F16, None), rounded] {
        for [rows, columns] in [[700, 768], [70, 4100]] {
            let output = out_dtype.unwrap_or(dtype);
            let vector = |seed| tensor(&[columns], dtype, device, seed);
            let inputs = [tensor(&[rows, columns], dtype, device, 1)?, vector(2)?, vector(3)?];
            let dy = tensor(&[rows, columns], output, device, 4)?;
            let normalize = |x: &[Tensor]| {
                let normal = x[0].layer_norm_as(out_dtype, Some(&x[1]), Some(&x[2]), 1e-5)?;
                x[0].add(&normal.mul_scalar(0.5)?.to_dtype(dtype)?)?.to_dtype(output)
            };
            let what = format!("layer_norm, {dtype:?} [{rows}, {columns}] as {output:?}");
            compare_runs(&mut faults, &what, || {
                forward_and_backward_with(&inputs, normalize, |_| Ok(dy.clone()))
            })?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

#[test]
fn cross_entropies() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        for [rows, columns] in [[300, 1024], [68, 33001], [3, 50257]] {
            let classes: Vec<i64> = (0..rows).map(|row| (row * 7919 % columns) as i64).collect();
            let target = Tensor::from_vec(classes, [rows], device)?;
            let logits = tensor(&[rows, columns], dtype, device, 1)?;
            let dloss = tensor(&[rows], dtype.accumulator(), device, 2)?;
            for in_place in [false, true] {
                let run = || {
                    let op = CrossEntropyWithGrad { ignore_index: 0, label_smoothing: 0.1, in_place };
                    let logits = if in_place { logits.copy()? } else { logits.clone() };
                    Ok(apply(op, &[&logits, &target, &dloss])?.into_vec())
                };
                let suffix = if in_place { ", in place" } else { "" };
                let what = format!("cross_entropy, {dtype:?} [{rows}, {columns}]{suffix}");
                compare_runs(&mut faults, &what, run)?;
            }
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Sums of rows by index, many of them at the same index: into a tensor, and as the gradient of an
/// embedding.
#[test]
fn sums_by_index() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        for [table, rows, columns] in [[5003, 4096, 768], [100, 5000, 64], [7, 300, 33]] {
            let indices: Vec<i64> = (0..rows).map(|row| (row * row % table) as i64).collect();
            let indices = Tensor::from_vec(indices, [rows], device)?;
            let sums = tensor(&[table, columns], dtype, device, 1)?;
            let source = tensor(&[rows, columns], dtype, device, 2)?;
            let what = format!("{dtype:?} [{rows}, {columns}] into {table} rows");
            let add = || Ok(vec![sums.index_add(0, &indices, &source)?]);
            compare_runs(&mut faults, &format!("index_add, {what}"), add)?;
            let embed = |x: &[Tensor]| x[0].embedding(&indices);
            let gradient =
                || forward_and_backward_with(std::slice::from_ref(&sums), embed, |_| Ok(source.clone()));
            compare_runs(&mut faults, &format!("embedding, {what}"), gradient)?;
        }
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Less than a pack, several chunks, and many of them.
const LENGTHS: [usize; 3] = [7, 4099, 300_001];

#[test]
fn norms_of_many_tensors() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let of = |&length: &usize| tensor(&[length], dtype, device, length as u64);
        let tensors = LENGTHS.iter().map(of).collect::<Result<Vec<_>>>()?;
        let all: Vec<&Tensor> = tensors.iter().collect();
        compare_runs(&mut faults, &format!("norm of {dtype:?}"), || Ok(vec![total_norm(&all)?]))?;
    }
    assert_no_faults(&faults);
    Ok(())
}

/// Steps of AdamW that also write half-precision copies, each from the same parameters and states.
#[test]
fn steps_of_adamw() -> Result<()> {
    let _shared = lock_shared();
    let Some(device) = gpu() else { return Ok(()) };
    let mut faults = Vec::new();
    let hyper = Tensor::from_slice(&[0.01f32, 1.0, 0.5, 0.25], 4, device)?;
    let random = |length: usize, seed| tensor(&[length], DType::F32, device, seed);
    let of = |&length: &usize| -> Result<[Tensor; 4]> {
        Ok([random(length, 1)?, random(length, 2)?, random(length, 3)?, random(length, 4)?.abs()?])
    };
    let states = LENGTHS.iter().map(of).collect::<Result<Vec<_>>>()?;
    for half in HALF_DTYPES {
        let run = || {
            let mut inputs = Vec::new();
            for [parameter, gradient, m, v] in &states {
                let copy = Tensor::zeros([parameter.elements()], half, device)?;
                let (parameter, m, v) = (parameter.copy()?, m.copy()?, v.copy()?);
                inputs.extend([parameter, gradient.clone(), hyper.clone(), m, v, copy]);
            }
            let (beta1, beta2, eps, weight_decay) = (0.9, 0.999, 1e-8, 0.1);
            let decay_mode = DecayMode::Decoupled;
            let op = AdamStep { beta1, beta2, eps, weight_decay, decay_mode, half_copy: true };
            apply(op, &inputs.iter().collect::<Vec<_>>())?;
            Ok(inputs)
        };
        compare_runs(&mut faults, &format!("AdamW with copies in {half:?}"), run)?;
    }
    assert_no_faults(&faults);
    Ok(())
}
