//! Pooling over two-dimensional windows.

use super::create::fill;
use super::window::{WindowAxis, image, unmerged_space, window_axes};
use super::write::Writing;
use crate::call::Call;
use crate::gpu::{Binding, Launch};
use crate::names::{ElementResult, PoolCondition, SlotName};
use crate::pipelines::Variant;
use crate::shaders::Shader;
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::smallvec;
use ternion_core::backend::View;
use ternion_core::ops::conv::Window;
use ternion_core::{DType, Error, Layout, Op, Result, Shape};

/// The parameters of pool.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    index_check: u32,
    offsets: [u32; 4],
    vertical: WindowAxis,
    horizontal: WindowAxis,
    divisor: f32,
    windows: u32,
    _padding: [u32; 2],
    space: Space,
}

/// The tensors and functions of a launch.
struct Pooling<'a> {
    /// A function of pool_window.wgsl.
    result: ElementResult,
    window: &'a Window,
    /// The view of the images and the view with one element for each window. One of them is the
    /// output `to`, the other the input `x`.
    images: View<'a>,
    windows: View<'a>,
    to: View<'a>,
    x: View<'a>,
    positions: Option<View<'a>>,
    divisor: f32,
}

/// A slot in addition to y, x and positions, and its binding.
type Bound<'a> = (SlotName, StorageFormat, Access, Binding<'a>);

fn launch(
    call: &Call<'_>,
    pooling: &Pooling<'_>,
    condition: PoolCondition,
    extra_slots: &[Bound<'_>],
) -> Result<()> {
    let (gpu, op, to, x) = (call.gpu, call.name, &pooling.to, &pooling.x);
    let positions = pooling.positions.as_ref().unwrap_or(x);
    let size = image(op, &pooling.images)?;
    let [vertical, horizontal] = window_axes(op, pooling.window, size, image(op, &pooling.windows)?)?;
    if i32::try_from(size[0].saturating_mul(size[1])).is_err() {
        return Err(Error::invalid(
            op,
            format!("planes of {size:?}, of which positions count up to 2^31 - 1 elements"),
        ));
    }
    let [(y_memory, y_offset), (x_memory, x_offset), (positions_memory, positions_offset)] =
        [gpu.bind(op, to)?, gpu.bind(op, x)?, gpu.bind(op, positions)?];
    let checks = extra_slots.iter().any(|(name, ..)| *name == SlotName::IndexErrors);
    let parameters = Parameters {
        launched: 0,
        count: to.layout.elements() as u32,
        rank: 4,
        index_check: if checks { gpu.index_check_id(op, size[0] * size[1]) } else { 0 },
        offsets: [y_offset, x_offset, positions_offset, 0],
        vertical,
        horizontal,
        divisor: pooling.divisor,
        windows: pooling.windows.layout.elements() as u32,
        _padding: [0; 2],
        space: unmerged_space(&[to, x, positions]),
    };
    let store = StorageFormat::of(to.dtype);
    let writing = Writing::of(to, store);
    let variant = Variant::new(Shader::Pool, store.class()).fill(pooling.result).fill(condition);
    let mut variant = writing.slot(variant).slot(SlotName::X, store, Access::Read);
    let mut bindings = smallvec![y_memory, x_memory];
    if pooling.positions.is_some() {
        let access = if pooling.result == ElementResult::MaxPool { Access::Scattered } else { Access::Read };
        variant = variant.slot(SlotName::Positions, StorageFormat::RawWord, access);
        bindings.push(positions_memory);
    }
    for (name, store, access, binding) in extra_slots {
        variant = variant.slot(*name, *store, *access);
        bindings.push(*binding);
    }
    gpu.launch(op, Launch { variant, bindings, groups: writing.groups() }, bytemuck::bytes_of(&parameters))
}

/// Returns the divisor of the sum of a window, or 0 if it differs between windows.
fn divisor(window: &Window, count_include_pad: bool) -> f32 {
    match count_include_pad || window.padding == [0, 0] {
        true => (window.kernel[0] as f64 * window.kernel[1] as f64) as f32,
        false => 0.0,
    }
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let (first, to) = (call.inputs[0], call.outputs[0]);
    if to.layout.elements() == 0 {
        return Ok(());
    }
    let forward = |window, result, positions, divisor| Pooling {
        result,
        window,
        images: first,
        windows: to,
        to,
        x: first,
        positions,
        divisor,
    };
    match op {
        Op::MaxPool2d(pool) => launch(
            call,
            &forward(&pool.window, ElementResult::MaxPool, Some(call.outputs[1]), 0.0),
            PoolCondition::Always,
            &[],
        ),
        Op::AvgPool2d(pool) => {
            let divisor = divisor(&pool.window, pool.count_include_pad);
            launch(
                call,
                &forward(&pool.window, ElementResult::AvgPool, None, divisor),
                PoolCondition::Always,
                &[],
            )
        }
        Op::AvgPool2dGrad(pool) => {
            let divisor = divisor(&pool.window, pool.count_include_pad);
            let forward = forward(&pool.window, ElementResult::AvgPoolGrad, None, divisor);
            launch(call, &Pooling { images: to, windows: first, ..forward }, PoolCondition::Always, &[])
        }
        Op::MaxPool2dGrad(pool) => max_grad(call, &pool.window),
        _ => Err(Error::invalid(call.name, "is not a pooling")),
    }
}

/// Computes the gradient of each pixel from the windows that contain it, or from all windows of the
/// plane if a position is outside its window.
fn max_grad(call: &Call<'_>, window: &Window) -> Result<()> {
    let (gpu, op, to) = (call.gpu, call.name, call.outputs[0]);
    let (positions, windows) = (call.inputs[0], call.inputs[1]);
    let flag = gpu.alloc(size_of::<u32>())?;
    let layout = Layout::row_major(Shape::new(&[1])?);
    fill(gpu, op, &View { buffer: &flag, dtype: DType::I32, layout: &layout }, 0)?;
    let flag_binding = gpu.workspace(op, &flag)?;
    let pooling = Pooling {
        result: ElementResult::MaxPoolGrad,
        window,
        images: to,
        windows,
        to,
        x: windows,
        positions: Some(positions),
        divisor: 0.0,
    };
    let extra_slots = [
        (SlotName::OutOfWindow, StorageFormat::Atomic, Access::Scattered, flag_binding),
        (SlotName::IndexErrors, StorageFormat::Atomic, Access::Scattered, gpu.index_error_record()),
    ];
    launch(call, &pooling, PoolCondition::Always, &extra_slots)?;
    let plane_grad = Pooling { result: ElementResult::MaxPoolPlaneGrad, ..pooling };
    launch(
        call,
        &plane_grad,
        PoolCondition::IfOutOfWindow,
        &[(SlotName::OutOfWindow, StorageFormat::RawWord, Access::Read, flag_binding)],
    )
}
