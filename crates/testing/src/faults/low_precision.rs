//! Sums in too narrow a dtype: the op runs in f32 (or f64), but every partial sum is rounded.

use super::{array_of, write_array};
use crate::array::{Array, Keep, advance};
use crate::compare::round_to;
use ternion_core::dispatch::apply_on;
use ternion_core::ops::copy::Copy;
use ternion_core::ops::index::ScatterMode;
use ternion_core::ops::reduce::ReduceOp;
use ternion_core::{Backend, DType, Device, Meta, Op, Plan, Result, Tensor, Unsupported, View, no_grad};

/// Returns a dtype that is too narrow for the sums of a row in `dtype`.
pub(super) fn too_narrow_for(dtype: DType) -> DType {
    match dtype {
        DType::BF16 => DType::BF16,
        _ => DType::F16,
    }
}

/// Runs `op` on `inner` with every partial sum rounded to `sums` (f64: not at all), and writes the
/// results to `outputs`.
pub(super) fn run(
    inner: &Device,
    sums: DType,
    op: &Op,
    inputs: &[View<'_>],
    outputs: &[View<'_>],
) -> Result<()> {
    let narrow = Device::new(NarrowSums { inner: inner.clone(), sums });
    no_grad(|| {
        let mut tensors = Vec::with_capacity(inputs.len());
        for view in inputs {
            let tensor = Tensor::from_buffer(view.buffer.clone(), *view.layout, view.dtype, &narrow)?;
            // Half precision is computed in f32 and rounded once at the end: the sums are the only
            // difference from a correct run.
            tensors.push(if view.dtype.is_half() { tensor.to_dtype(DType::F32)? } else { tensor });
        }
        let inputs: Vec<&Tensor> = tensors.iter().collect();
        let results = apply_on(op.clone(), &narrow, &inputs)?;
        for (result, output) in results.iter().zip(outputs) {
            inner.backend().run(&Op::Copy(Copy { dtype: output.dtype }), &[result.view()], &[*output])?;
        }
        Ok(())
    })
}

/// A device that runs the primitives of `inner` and composes all other ops. Primitives that add
/// floats round every partial sum.
#[derive(Debug)]
struct NarrowSums {
    inner: Device,
    sums: DType,
}

impl NarrowSums {
    fn sum(&self, terms: impl Iterator<Item = f64>) -> f64 {
        terms.fold(0.0, |sum, term| round_to(self.sums, sum + term))
    }

    /// Returns the op's result with narrow sums, if it is an op that adds floats.
    fn narrow(&self, op: &Op, inputs: &[View<'_>]) -> Result<Option<Array>> {
        if !inputs.first().is_some_and(|view| view.dtype.is_float()) {
            return Ok(None);
        }
        let array = |position: usize| array_of(&self.inner, &inputs[position]);
        Ok(match op {
            Op::Reduce(reduce) if reduce.op == ReduceOp::Sum => {
                let axes: Vec<usize> = reduce.axes.iter().collect();
                let keep = if reduce.keep { Keep::Yes } else { Keep::No };
                Some(array(0)?.reduce(&axes, keep, |slice| self.sum(slice.iter().copied())))
            }
            Op::CumulativeSum(scan) => Some(array(0)?.map_slices(scan.axis, |slice| {
                (0..slice.len()).map(|end| self.sum(slice[..=end].iter().copied())).collect()
            })),
            Op::Matmul(matmul) if matmul.input_count() == 2 => Some(self.product(&array(0)?, &array(1)?)),
            Op::Scatter(scatter) if scatter.mode == ScatterMode::Add => {
                Some(self.scattered(scatter.axis, array(0)?, &array(1)?, &array(2)?))
            }
            _ => None,
        })
    }

    fn product(&self, a: &Array, b: &Array) -> Array {
        let (rank, [m, k, n]) =
            (a.rank(), [a.shape[a.rank() - 2], a.shape[a.rank() - 1], b.shape[b.rank() - 1]]);
        let mut shape = a.shape.clone();
        shape[rank - 1] = n;
        let mut data = Vec::with_capacity(shape.iter().product());
        for batch in 0..a.shape[..rank - 2].iter().product() {
            let (a, b) = (&a.data[batch * m * k..], &b.data[batch * k * n..]);
            for i in 0..m {
                data.extend((0..n).map(|j| self.sum((0..k).map(|l| a[i * k + l] * b[l * n + j]))));
            }
        }
        Array::new(&shape, data)
    }

    fn scattered(&self, axis: usize, mut base: Array, index: &Array, source: &Array) -> Array {
        let mut source_index = vec![0; index.rank()];
        for _ in 0..index.elements() {
            let mut target_index = source_index.clone();
            target_index[axis] = index.at(&source_index) as usize;
            if target_index[axis] < base.shape[axis] {
                let element = base.at_mut(&target_index);
                *element = round_to(self.sums, *element + source.at(&source_index));
            }
            advance(&mut source_index, &index.shape);
        }
        base
    }
}

impl Backend for NarrowSums {
    ternion_core::delegate_backend!(inner: alloc, upload, download, synchronize, memory);

    fn name(&self) -> &str {
        "narrow sums"
    }
    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        match op.is_primitive() {
            true => self.inner.backend().plan(op, inputs),
            false => Err(Unsupported::because("sums are narrowed primitive by primitive")),
        }
    }
    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        match self.narrow(op, inputs)? {
            Some(result) => write_array(&self.inner, &outputs[0], &result),
            None => self.inner.backend().run(op, inputs, outputs),
        }
    }
}
