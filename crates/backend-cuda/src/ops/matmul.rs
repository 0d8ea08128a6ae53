//! Matrix products.

use crate::gpu::Launch;
use crate::select::{Call, Variant};
use crate::sources::{Family, Unit};
use crate::space::Space;
use smallvec::SmallVec;
use ternion_core::backend::{Meta, Unsupported};
use ternion_core::ops::matmul::Matmul;
use ternion_core::{MAX_RANK, Op, Result};

#[repr(C)]
struct Parameters {
    y: u64,
    a: u64,
    b: u64,
    sizes: [u64; 4],
    strides: [i64; 6],
    batch: Space<3>,
}

pub(crate) fn select(payload: &Matmul, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    match payload.epilogue == ternion_core::ops::matmul::Epilogue::NONE {
        true => Ok(Variant::row_major(run)),
        false => Err(Unsupported::because("composed")),
    }
}

fn run(_: &Op, call: &Call<'_>) -> Result<()> {
    let (gpu, op) = (call.gpu, call.name);
    let views = [&call.outputs[0], &call.inputs[0], &call.inputs[1]];
    let rank = views[0].layout.shape().rank();
    let stride = |view: usize, axis: usize| views[view].layout.strides()[axis] as i64;
    let axes: SmallVec<[(usize, [i64; 3]); MAX_RANK]> = (0..rank - 2)
        .map(|axis| (views[0].layout.shape().dim(axis), [0, 1, 2].map(|view| stride(view, axis))))
        .collect();
    let (m, n) = (views[0].layout.shape().dim(rank - 2), views[0].layout.shape().dim(rank - 1));
    let k = views[1].layout.shape().dim(rank - 1);
    let batches: usize = axes.iter().map(|(size, _)| size).product();
    let pairs = |view: usize| [stride(view, rank - 2), stride(view, rank - 1)];
    let [[a, b], [c, d], [e, f]] = [pairs(0), pairs(1), pairs(2)];
    let parameters = Parameters {
        y: gpu.address(op, views[0])?,
        a: gpu.address(op, views[1])?,
        b: gpu.address(op, views[2])?,
        sizes: [m, n, k, batches].map(|size| size as u64),
        strides: [a, b, c, d, e, f],
        batch: Space::in_order(&axes),
    };
    let blocks = (m * n * batches).div_ceil(256);
    let unit = Unit::of(Family::Product, "", views[0].dtype);
    gpu.launch(op, Launch::new(unit, 0, blocks as u32, 256), &parameters)
}
