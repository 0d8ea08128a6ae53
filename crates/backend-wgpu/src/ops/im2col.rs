//! Image patches as columns of a matrix, and the reverse.

use super::window::{WindowAxis, image, unmerged_space, window_axes};
use super::write::Writing;
use crate::call::Call;
use crate::gpu::Launch;
use crate::names::{ElementResult, SlotName};
use crate::pipelines::Variant;
use crate::shaders::Shader;
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::smallvec;
use ternion_core::backend::View;
use ternion_core::ops::conv::Window;
use ternion_core::{Error, Op, Result};

/// The parameters of im2col.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    channels: u32,
    offsets: [u32; 4],
    vertical: WindowAxis,
    horizontal: WindowAxis,
    space: Space,
}

pub(crate) fn run_im2col(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Im2col(patches) = op else { return Err(Error::invalid(call.name, "is not im2col")) };
    launch(call, &patches.window, &call.inputs[0], ElementResult::Im2col)
}

pub(crate) fn run_col2im(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Col2im(patches) = op else { return Err(Error::invalid(call.name, "is not col2im")) };
    launch(call, &patches.window, &call.outputs[0], ElementResult::Col2im)
}

/// Queues the shader from the call's input to its output. `pixels` is whichever of the two contains
/// the images.
fn launch(call: &Call<'_>, window: &Window, pixels: &View<'_>, result: ElementResult) -> Result<()> {
    let (gpu, op, x, y) = (call.gpu, call.name, &call.inputs[0], &call.outputs[0]);
    let count = y.layout.elements();
    if count == 0 {
        return Ok(());
    }
    let size = image(op, pixels)?;
    let [vertical, horizontal] = window_axes(op, window, size, window.output_size(op, size)?)?;
    let [(y_binding, y_offset), (x_binding, x_offset)] = [gpu.bind(op, y)?, gpu.bind(op, x)?];
    let parameters = Parameters {
        launched: 0,
        count: count as u32,
        rank: y.layout.shape().rank() as u32,
        channels: pixels.layout.shape().dim(1) as u32,
        offsets: [y_offset, x_offset, 0, 0],
        vertical,
        horizontal,
        space: unmerged_space(&[y, x]),
    };
    let store = StorageFormat::of(y.dtype);
    let writing = Writing::of(y, store);
    let variant = writing.slot(Variant::new(Shader::Im2col, store.class()).fill(result));
    let variant = variant.slot(SlotName::X, store, Access::Read);
    let launch = Launch { variant, bindings: smallvec![y_binding, x_binding], groups: writing.groups() };
    gpu.launch(op, launch, bytemuck::bytes_of(&parameters))
}
