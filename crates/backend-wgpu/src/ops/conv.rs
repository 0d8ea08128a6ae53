//! Convolutions and their gradients as matrix products: the assignment of tensor axes to the rows,
//! the columns and the inner axis.

use super::GROUP;
use super::matmul::Tiling;
use crate::call::Call;
use crate::gpu::{Binding, Launch};
use crate::names::{
    Constant, ConvIndex, ConvOutput, ConvPixel, ConvValue, LeftKMajor, RightKMajor, SlotName, Tile,
};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use bytemuck::{Pod, Zeroable};
use ternion_core::backend::View;
use ternion_core::ops::conv::ConvConfig;
use ternion_core::{Error, Op, Result};

/// With at most this number of rows of a group, and at least this number of threads, each thread
/// computes rows of one column, because a tile would be mostly empty.
const FEW_ROWS: usize = 16;
const MANY_THREADS: usize = 1 << 14;
/// The number of rows that such a thread computes, if there is more than one row.
const ROWS: usize = 4;

/// Limit for the pixels along an axis, padding included.
const MAX_PIXELS: usize = 1 << 30;

/// The parameters of conv2d.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parameters {
    launched: u32,
    count: u32,
    m: u32,
    n: u32,
    k: u32,
    splits: u32,
    split_length: u32,
    with_bias: u32,
    columns: [u32; 4],
    inners: [u32; 4],
    image: [u32; 4],
    offsets: [u32; 4],
    groups: [u32; 4],
    y: [u32; 4],
    left: [u32; 4],
    right: [u32; 4],
}

/// How the right operand is read from an image.
#[derive(Clone, Copy, PartialEq)]
enum Right {
    /// The pixels of each patch.
    Patches,
    /// The reverse, for the gradient of the input: the windows that contain a pixel. With a stride,
    /// their pixels are spread apart, with zeros in between.
    Spread,
}

/// A convolution as a matrix product for each group of channels. Pairs are of the two spatial axes,
/// unless stated otherwise.
struct Product<'a> {
    y: View<'a>,
    left: View<'a>,
    right: View<'a>,
    bias: Option<View<'a>>,
    reads: Right,
    /// Whether neighbors along the inner axis are contiguous in the right operand.
    right_is_k_major: bool,
    groups: usize,
    /// Rows of a group.
    rows: usize,
    /// The sizes of the outer index of the columns, and of the outer index of the inner axis, in a
    /// group.
    outer: [usize; 2],
    /// The sizes of the two spatial indices of the columns, and their steps in the image.
    columns: [usize; 2],
    column_steps: [usize; 2],
    /// The same for the inner axis.
    inners: [usize; 2],
    inner_steps: [usize; 2],
    padding: [usize; 2],
    /// Height and width of the image from which the right operand is read.
    image: [usize; 2],
    /// Axes of y, left and right along which groups of channels are concatenated.
    group_axes: [usize; 3],
    /// Number of channels of a group along these axes.
    group_sizes: [usize; 3],
    /// Axes of y (rows, outer index of the columns) and of left (rows, outer index of the inner
    /// axis).
    y_axes: [usize; 2],
    left_axes: [usize; 2],
    /// Axes of right: the outer index of the columns, and that of the inner axis.
    right_axes: [usize; 2],
}

fn sizes(call: &Call<'_>, view: &View<'_>) -> Result<[usize; 4]> {
    view.layout.shape().to_array(call.name)
}

pub(crate) fn run_conv2d(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Conv2d(conv) = op else { return Err(call.wrong_op()) };
    let ConvConfig { window, groups, .. } = conv.config;
    let [x, weight, y] = [call.inputs[0], call.inputs[1], call.outputs[0]];
    let [batch, _, height, width] = sizes(call, &x)?;
    let [out, in_channels, _, _] = sizes(call, &weight)?;
    let [_, _, oh, ow] = sizes(call, &y)?;
    let out_channels = out / groups;
    launch(
        call,
        &Product {
            y,
            left: weight,
            right: x,
            bias: call.inputs.get(2).copied(),
            reads: Right::Patches,
            right_is_k_major: false,
            groups,
            rows: out_channels,
            outer: [batch, in_channels],
            columns: [oh, ow],
            column_steps: window.stride,
            inners: window.kernel,
            inner_steps: window.dilation,
            padding: window.padding,
            image: [height, width],
            group_axes: [1, 0, 1],
            group_sizes: [out_channels, out_channels, in_channels],
            y_axes: [1, 0],
            left_axes: [0, 1],
            right_axes: [0, 1],
        },
    )
}

pub(crate) fn run_grad_input(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Conv2dGradInput(grad) = op else { return Err(call.wrong_op()) };
    let ConvConfig { window, groups, .. } = grad.config;
    let [weight, dy, dx] = [call.inputs[0], call.inputs[1], call.outputs[0]];
    let [batch, _, oh, ow] = sizes(call, &dy)?;
    let [out, in_channels, _, _] = sizes(call, &weight)?;
    let out_channels = out / groups;
    launch(
        call,
        &Product {
            y: dx,
            left: weight,
            right: dy,
            bias: None,
            reads: Right::Spread,
            right_is_k_major: false,
            groups,
            rows: in_channels,
            outer: [batch, out_channels],
            columns: grad.size,
            column_steps: window.stride,
            inners: window.kernel,
            inner_steps: window.dilation,
            padding: window.padding,
            image: [oh, ow],
            group_axes: [1, 0, 1],
            group_sizes: [in_channels, out_channels, out_channels],
            y_axes: [1, 0],
            left_axes: [1, 0],
            right_axes: [0, 1],
        },
    )
}

pub(crate) fn run_grad_weight(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Conv2dGradWeight(grad) = op else { return Err(call.wrong_op()) };
    let ConvConfig { window, groups, .. } = grad.config;
    let [x, dy, dweight] = [call.inputs[0], call.inputs[1], call.outputs[0]];
    let [batch, _, height, width] = sizes(call, &x)?;
    let [out, in_channels, _, _] = sizes(call, &dweight)?;
    let [_, _, oh, ow] = sizes(call, &dy)?;
    let out_channels = out / groups;
    launch(
        call,
        &Product {
            y: dweight,
            left: dy,
            right: x,
            bias: None,
            reads: Right::Patches,
            right_is_k_major: true,
            groups,
            rows: out_channels,
            outer: [in_channels, batch],
            columns: window.kernel,
            column_steps: window.dilation,
            inners: [oh, ow],
            inner_steps: window.stride,
            padding: window.padding,
            image: [height, width],
            group_axes: [0, 1, 1],
            group_sizes: [out_channels, out_channels, in_channels],
            y_axes: [0, 1],
            left_axes: [1, 0],
            right_axes: [1, 0],
        },
    )
}

impl<'a> Product<'a> {
    /// Returns m, n, k and the number of products.
    fn sizes(&self) -> [usize; 4] {
        let [columns, inners] = [self.columns, self.inners].map(|sizes| sizes[0] * sizes[1]);
        [self.rows, self.outer[0] * columns, self.outer[1] * inners, self.groups]
    }

    /// Returns the number of rows that a thread computes with [`Tile::FewRows`].
    fn rows_of_thread(&self) -> usize {
        if self.rows == 1 { 1 } else { ROWS }
    }

    /// Chooses the tile: see [`FEW_ROWS`].
    fn tiling(&self) -> Tiling {
        let sizes @ [m, n, k, groups] = self.sizes();
        let teams = m.div_ceil(self.rows_of_thread()) * groups;
        match m <= FEW_ROWS && teams * n >= MANY_THREADS {
            true => Tiling::unsplit(Tile::FewRows, teams * n.div_ceil(GROUP), k),
            false => Tiling::of(Class::Float, sizes),
        }
    }

    fn parameters(&self, tiling: Tiling) -> Parameters {
        let [m, n, k, groups] = self.sizes();
        let stride = |view: &View<'_>, axis: usize| view.layout.strides()[axis] as u32;
        let spatial = |view: &View<'_>, axes: [usize; 2]| {
            [stride(view, axes[0]), stride(view, axes[1]), stride(view, 2), stride(view, 3)]
        };
        let four = |[a, b]: [usize; 2], [c, d]: [usize; 2]| [a as u32, b as u32, c as u32, d as u32];
        let views = [&self.y, &self.left, &self.right];
        let [y, left, right] = [0, 1, 2].map(|tensor| {
            stride(views[tensor], self.group_axes[tensor]).wrapping_mul(self.group_sizes[tensor] as u32)
        });
        let bias_stride = self.bias.map_or(0, |bias| stride(&bias, 0));
        Parameters {
            launched: 0,
            count: (m * n * groups) as u32,
            m: m as u32,
            n: n as u32,
            k: k as u32,
            splits: tiling.splits as u32,
            split_length: tiling.split_length as u32,
            with_bias: u32::from(self.bias.is_some()),
            columns: four(self.columns, self.column_steps),
            inners: four(self.inners, self.inner_steps),
            image: four(self.padding, self.image),
            offsets: [0; 4],
            groups: [y, left, right, bias_stride],
            y: spatial(&self.y, self.y_axes),
            left: spatial(&self.left, self.left_axes),
            right: spatial(&self.right, self.right_axes),
        }
    }

    /// Returns the shader with this tile. `y` and `a` are the element formats of these tensors. If
    /// the launch adds partial sums, they are bound as a.
    fn variant(&self, tile: Tile, output: ConvOutput, y: StorageFormat, a: StorageFormat) -> Variant {
        let operand = StorageFormat::of(self.right.dtype);
        let (index, value, pixel) = match self.reads {
            Right::Patches => (ConvIndex::Patch, ConvValue::Patch, ConvPixel::Patch),
            Right::Spread => (ConvIndex::Spread, ConvValue::Spread, ConvPixel::Spread),
        };
        Variant::new(Shader::Conv2d, Class::Float)
            .slot(SlotName::Y, y, Access::Scattered)
            .slot(SlotName::A, a, Access::Read)
            .slot(SlotName::B, operand, Access::Read)
            .slot(SlotName::Bias, operand, Access::Read)
            .fill(tile)
            .fill(output)
            .fill(index)
            .fill(value)
            .fill(pixel)
            .fill(Constant::Rows.is(if tile == Tile::FewRows { self.rows_of_thread() as u32 } else { 1 }))
            .fill(LeftKMajor::Yes)
            .fill(if self.right_is_k_major { RightKMajor::Yes } else { RightKMajor::No })
    }
}

/// Checks that positions in the image do not overflow the shader's arithmetic.
fn check(call: &Call<'_>, product: &Product<'_>) -> Result<()> {
    let extent = |axis: usize| {
        let span = |sizes: [usize; 2], steps: [usize; 2]| sizes[axis].saturating_mul(steps[axis]);
        span(product.columns, product.column_steps)
            .saturating_add(span(product.inners, product.inner_steps))
            .saturating_add(product.padding[axis].saturating_mul(2))
            .saturating_add(product.image[axis])
    };
    match extent(0).max(extent(1)) < MAX_PIXELS {
        true => Ok(()),
        false => Err(Error::invalid(call.name, format!("windows reach over more than {MAX_PIXELS} pixels"))),
    }
}

/// Queues the launches of a product.
fn launch<'a>(call: &Call<'a>, product: &Product<'a>) -> Result<()> {
    if product.y.layout.elements() == 0 {
        return Ok(());
    }
    check(call, product)?;
    let tiling = product.tiling();
    let mut parameters = product.parameters(tiling);
    let bind = |view: &View<'a>| call.gpu.bind(call.name, view);
    let bias = product.bias.unwrap_or(product.right);
    let bound = [bind(&product.y)?, bind(&product.left)?, bind(&product.right)?, bind(&bias)?];
    parameters.offsets = bound.map(|(_, offset)| offset);
    let bindings = bound.map(|(binding, _)| binding);
    if tiling.splits > 1 {
        return launch_parts(call, product, bindings, parameters, tiling);
    }
    let (y, a) = (StorageFormat::of(product.y.dtype), StorageFormat::of(product.left.dtype));
    let variant = product.variant(tiling.tile, ConvOutput::Whole, y, a);
    let launch = Launch { variant, bindings: bindings.into_iter().collect(), groups: tiling.groups };
    call.gpu.launch(call.name, launch, bytemuck::bytes_of(&parameters))
}

/// Queues a launch that writes partial sums, and one that adds them and the bias.
fn launch_parts<'a>(
    call: &Call<'a>,
    product: &Product<'a>,
    [y, a, b, bias]: [Binding<'_>; 4],
    parameters: Parameters,
    tiling: Tiling,
) -> Result<()> {
    let count = product.y.layout.elements();
    let workspace = call.gpu.alloc(tiling.splits * count * 4)?;
    let parts = call.gpu.workspace(call.name, &workspace)?;
    let first = Launch {
        variant: product.variant(
            tiling.tile,
            ConvOutput::Part,
            StorageFormat::F32,
            StorageFormat::of(product.left.dtype),
        ),
        bindings: smallvec::smallvec![parts, a, b, bias],
        groups: tiling.groups,
    };
    let without_bias = Parameters { with_bias: 0, ..parameters };
    call.gpu.launch(call.name, first, bytemuck::bytes_of(&without_bias))?;
    let second = Launch {
        variant: product.variant(
            Tile::SumParts,
            ConvOutput::Whole,
            StorageFormat::of(product.y.dtype),
            StorageFormat::F32,
        ),
        bindings: smallvec::smallvec![y, parts, b, bias],
        groups: count.div_ceil(GROUP),
    };
    call.gpu.launch(call.name, second, bytemuck::bytes_of(&parameters))
}
