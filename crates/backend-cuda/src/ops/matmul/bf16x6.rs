//! f32 products as bf16x6: the operands are split into bf16 terms, and tensor cores multiply pairs
//! of terms. If an operand contains a value that is not the sum of its terms, which only the device
//! can determine, the ordinary product computes instead.

use super::choice::Choice;
use super::operand::Operand;
use super::tensor_maps::{self, BATCH_AXES, OperandMap};
use super::{Condition, Sizes, batch_space, launch as launch_product, stride};
use crate::call::Call;
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::memory::workspace::Workspace;
use crate::variant::KernelFamily;
use crate::variant::gemm::{LoadMode, Tile};
use std::sync::Arc;
use ternion_core::ops::matmul::Epilogue;
use ternion_core::{DType, Result};

/// bf16 terms of an operand.
const TERMS: usize = 3;
/// Elements of a term that a thread stores at a time.
const PACK: usize = 8;
/// Threads of a block.
const THREADS: usize = 256;
/// The value that the kernel stores if an element is not the sum of its terms.
const NOT_SPLITTABLE: u64 = 1;

/// The parameters, like `Split` in the kernel.
#[repr(C)]
struct Parameters {
    terms: u64,
    x: u64,
    not_splittable: u64,
    /// Strides of x within a contiguous run of terms, between runs (lines), and of the batch axes.
    run_stride: i64,
    line_stride: i64,
    inner_stride: i64,
    outer_stride: i64,
    /// The length of a line.
    run: u32,
    lines: u32,
    inner: u32,
    outer: u32,
    /// Elements from line to line of a term.
    pitch: u32,
    /// 1 if x is read 16 bytes at a time.
    in_packs: u32,
}

/// The bf16 terms of an operand: `[TERMS, outer, inner, lines, pitch]`, where lines are contiguous
/// along k or across it. Matrices that are broadcast along a batch axis are stored once.
pub(super) struct Bf16Terms<'a> {
    operand: &'a Operand<'a>,
    load: LoadMode,
    /// The address of the first term.
    address: u64,
    run: usize,
    run_stride: i64,
    lines: usize,
    line_stride: i64,
    pitch: usize,
    /// Size and stride of the axes of the batch, the inner one first.
    batch: [(usize, i64); BATCH_AXES],
}

impl<'a> Bf16Terms<'a> {
    fn of(operand: &'a Operand<'a>, load: LoadMode, batch: [(usize, i64); BATCH_AXES]) -> Bf16Terms<'a> {
        let (run_axis, line_axis) = match load.is_k_major() {
            true => (operand.inner_axis, operand.line_axis),
            false => (operand.line_axis, operand.inner_axis),
        };
        let shape = operand.view.layout.shape();
        let run = shape.dim(run_axis);
        Bf16Terms {
            operand,
            load,
            address: 0,
            run,
            run_stride: stride(&operand.view, run_axis),
            lines: shape.dim(line_axis),
            line_stride: stride(&operand.view, line_axis),
            pitch: run.next_multiple_of(PACK),
            batch: batch.map(|(size, stride)| if stride == 0 { (1, 0) } else { (size, stride) }),
        }
    }

    /// Returns the elements of a term.
    fn elements(&self) -> usize {
        self.batch[0].0 * self.batch[1].0 * self.lines * self.pitch
    }

    fn bytes(&self) -> usize {
        TERMS * self.elements() * DType::BF16.size()
    }

    /// Returns whether the operand is read 16 bytes at a time.
    fn is_read_in_packs(&self) -> bool {
        let strides = [self.line_stride, self.batch[0].1, self.batch[1].1];
        self.run_stride == 1 && self.operand.is_aligned() && strides.into_iter().all(|stride| stride % 4 == 0)
    }

    /// Splits the operand.
    fn split_operand(&self, gpu: &Arc<Gpu>, op: &'static str, not_splittable: u64) -> Result<()> {
        let packs = self.elements() / PACK;
        crate::ops::check_fits(op, &[packs + THREADS])?;
        let [(inner, inner_stride), (outer, outer_stride)] = self.batch;
        let parameters = Parameters {
            terms: self.address,
            x: self.operand.address,
            not_splittable,
            run_stride: self.run_stride,
            line_stride: self.line_stride,
            inner_stride,
            outer_stride,
            run: self.run as u32,
            lines: self.lines as u32,
            inner: inner as u32,
            outer: outer as u32,
            pitch: self.pitch as u32,
            in_packs: u32::from(self.is_read_in_packs()),
        };
        let blocks = packs.div_ceil(THREADS) as u32;
        gpu.launch(op, Launch::new(KernelFamily::SplitBf16x3, 0, blocks, THREADS as u32), &parameters)
    }

    /// Returns the map of all terms, which are concatenated along the outer axis of the batch.
    pub(super) fn map(&self, tile: &Tile, lines: usize, op: &'static str) -> Result<OperandMap> {
        let [(inner, _), (outer, _)] = self.batch;
        let matrix_elements = (self.lines * self.pitch) as i64;
        let mapped = tensor_maps::MappedTensor {
            address: self.address,
            dtype: DType::BF16,
            rounds_to_tf32: false,
            run: self.run,
            lines: self.lines,
            line_stride: self.pitch as i64,
            extents: tensor_maps::operand_extents(self.load, tile, lines, DType::BF16.size()),
            batch: [(inner, matrix_elements), (TERMS * outer, matrix_elements * inner as i64)],
        };
        Ok(OperandMap {
            map: mapped.map(op)?,
            axes: tensor_maps::axes_bits(self.batch),
            term_stride: outer as u32,
        })
    }
}

/// Splits the operands and launches both products. Only one of them computes, the other one returns
/// at once: `bf16x6_choice` computes unless an operand contains a value that is not the sum of its
/// terms; then `exact` does.
#[cold]
pub(super) fn launch(
    call: &Call<'_>,
    epilogue: &Epilogue,
    sizes: &Sizes,
    [bf16x6_choice, exact]: [&Choice; 2],
    [a, b]: [&Operand<'_>; 2],
) -> Result<()> {
    let (gpu, op) = (call.gpu, call.name);
    let batch = batch_space([&call.outputs[0], &a.view, &b.view]);
    let mut terms = [(a, 1), (b, 2)].map(|(operand, tensor)| {
        Bf16Terms::of(operand, bf16x6_choice.loads[tensor - 1], tensor_maps::batch_axes(&batch, tensor))
    });
    // The memory lives until the kernels have been queued.
    let not_splittable = gpu.zeroed_workspace(4)?;
    let memory: [Workspace; 2] = [gpu.workspace(terms[0].bytes())?, gpu.workspace(terms[1].bytes())?];
    for (operand_terms, memory) in terms.iter_mut().zip(&memory) {
        operand_terms.address = memory.address();
        operand_terms.split_operand(gpu, op, not_splittable.address())?;
    }
    let condition = |value| Condition { address: not_splittable.address(), value };
    launch_product(call, epilogue, sizes, bf16x6_choice, [a, b], Some(&terms), condition(0))?;
    launch_product(call, epilogue, sizes, exact, [a, b], None, condition(NOT_SPLITTABLE))
}

#[cfg(test)]
mod tests;
