//! Convolution and its gradients as matrix products of weights and image patches, one tile of
//! patches at a time. The entire patch matrix is never stored.
//!
//! ```text
//!                    positions (oh * ow)                    W  [out, patch]      patch = channels/groups * kh * kw
//!              +--------+--------+-----+                    C  [patch, positions] patches as columns
//!   patch      |  tile  |  tile  | ..  |  = C               y  = W C             dy as y
//!              +--------+--------+-----+                    dC = W^T dy          added back to the image
//!                                                           dW = sum over images of dy C^T
//! ```

mod columns;

use crate::access::Locked;
use crate::column_sums::add_pairwise;
use crate::dense::{DenseOutput, DisjointSlices, dense, with_workspace};
use crate::float::{Float, Matrix};
use crate::kernel::Variant;
use crate::threads::for_pieces;
use columns::{add_patch_row, channel_and_tap, col2im, im2col, patch_row};
use std::ops::Range;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::geometry::{SlidingWindow, sliding_windows};
use ternion_core::ops::conv::ConvConfig;
use ternion_core::{DType, Error, Op, Result};

/// Elements of a tile of columns: 256 KiB in f32, which fits the L2 cache.
const TILE: usize = 1 << 16;
/// The approximate number of rows of the patch matrix that a gradient processes at a time, rounded
/// up to entire channels.
const ROWS: usize = 64;
/// The number of pieces of work if the weight is small: its gradient is computed for ranges of
/// images, and the results are added pairwise.
const PIECES: usize = 16;

/// Supports the five ops and all floats.
pub(crate) fn select(_: &Op, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    let run = if inputs[0].dtype == DType::F64 { run::<f64> } else { run::<f32> };
    Ok(Variant { plan: Plan::ROW_MAJOR, run })
}

fn run<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    match op {
        Op::Im2col(_) => im2col::<T>(op, inputs, outputs),
        Op::Col2im(_) => col2im::<T>(op, inputs, outputs),
        Op::Conv2d(_) => forward::<T>(op, inputs, outputs),
        Op::Conv2dGradInput(_) => grad_input::<T>(op, inputs, outputs),
        Op::Conv2dGradWeight(_) => grad_weight::<T>(op, inputs, outputs),
        _ => Err(Error::invalid(op.name(), "is not a convolution")),
    }
}

/// All sizes of a convolution.
struct Geometry {
    batch: usize,
    groups: usize,
    /// Channels of a group.
    channels: usize,
    /// Output channels of a group.
    out_channels: usize,
    /// Pixels of an image plane.
    pixels: usize,
    windows: [SlidingWindow; 2],
}

impl Geometry {
    /// Returns the sizes from the views of the image side `[batch, channels, height, width]` and
    /// the output side `[batch, out, oh, ow]`.
    fn new(
        op: &'static str,
        config: &ConvConfig,
        image: &Locked<'_>,
        output: &Locked<'_>,
    ) -> Result<Geometry> {
        let [batch, channels, height, width] = image.layout.shape().to_array(op)?;
        let [_, out_channels, oh, ow] = output.layout.shape().to_array(op)?;
        let windows = sliding_windows(&config.window, [height, width], [oh, ow]);
        let (groups, pixels) = (config.groups, height * width);
        Ok(Geometry {
            batch,
            groups,
            channels: channels / groups,
            out_channels: out_channels / groups,
            pixels,
            windows,
        })
    }

    fn taps(&self) -> usize {
        self.windows[0].kernel * self.windows[1].kernel
    }

    /// Returns the number of rows of the patch matrix of a group.
    fn patch(&self) -> usize {
        self.channels * self.taps()
    }

    /// Returns the number of columns of the patch matrix.
    fn positions(&self) -> usize {
        self.windows[0].count * self.windows[1].count
    }

    /// Returns the number of columns of a tile with `rows` rows.
    fn tile(&self, rows: usize) -> usize {
        (TILE / rows.max(1)).clamp(16, self.positions().max(16))
    }

    /// Returns the number of channels that a gradient processes at a time.
    fn channel_block(&self) -> usize {
        ROWS.div_ceil(self.taps()).min(self.channels.max(1))
    }

    /// Returns the planes of `channels` of a group of an image.
    fn image(&self, image: usize, group: usize, channels: &Range<usize>) -> Range<usize> {
        let first = (image * self.groups + group) * self.channels;
        (first + channels.start) * self.pixels..(first + channels.end) * self.pixels
    }

    /// Returns the start of the outputs of a group of an image.
    fn outputs(&self, image: usize, group: usize) -> usize {
        (image * self.groups + group) * self.out_channels * self.positions()
    }

    /// Returns whether the patch matrix is the image itself: each patch is one pixel, in order.
    fn patches_are_pixels(&self) -> bool {
        self.taps() == 1
            && self.windows.iter().all(|window| {
                window.stride == 1 && window.count == window.size && window.index(0, 0) == Some(0)
            })
    }

    /// Fills `columns` with columns `positions` of the patch matrix of these planes.
    fn fill<T: Float>(&self, planes: &[T], positions: &Range<usize>, columns: &mut [T]) {
        for (row, target) in columns.chunks_exact_mut(positions.len()).enumerate() {
            let (channel, tap) = channel_and_tap(row, self.windows);
            let plane = &planes[channel * self.pixels..(channel + 1) * self.pixels];
            patch_row(plane, self.windows, tap, positions.clone(), target);
        }
    }
}

/// Splits `0..length` into ranges of `step`.
fn ranges(length: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length).step_by(step.max(1)).map(move |start| start..length.min(start + step))
}

fn forward<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Conv2d(conv) = op else { return Err(Error::invalid(op.name(), "is not conv2d")) };
    let name = op.name();
    let geometry = Geometry::new(name, &conv.config, &inputs[0], &outputs[0])?;
    let (x, weight) = (dense::<T>(name, &inputs[0])?, dense::<T>(name, &inputs[1])?);
    let bias = conv.bias.then(|| dense::<T>(name, &inputs[2])).transpose()?;
    let mut y = DenseOutput::<T>::new(name, &outputs[0])?;
    let slices = y.disjoint_slices();
    let tile = geometry.tile(geometry.patch());
    let tiles = geometry.positions().div_ceil(tile);
    for_pieces(geometry.batch * geometry.groups * tiles, |piece| {
        let (image, group) = (piece / tiles / geometry.groups, piece / tiles % geometry.groups);
        let positions = piece % tiles * tile..geometry.positions().min((piece % tiles + 1) * tile);
        let first = geometry.outputs(image, group) + positions.start;
        if let Some(bias) = &bias {
            for (out, &bias) in
                bias[group * geometry.out_channels..(group + 1) * geometry.out_channels].iter().enumerate()
            {
                let start = first + out * geometry.positions();
                // SAFETY: the tile is used only by this piece.
                unsafe { slices.slice_mut(start..start + positions.len()) }.fill(bias);
            }
        }
        let planes = &x[geometry.image(image, group, &(0..geometry.channels))];
        let weight = &weight[group * geometry.out_channels * geometry.patch()
            ..(group + 1) * geometry.out_channels * geometry.patch()];
        let beta = if bias.is_some() { T::ONE } else { T::ZERO };
        let target = Matrix::rows(slices.at(first), geometry.positions());
        forward_tile(&geometry, planes, weight, positions, (beta, target));
    });
    y.finish();
    Ok(())
}

/// Computes `target = weight patches + beta target` for a tile of positions.
fn forward_tile<T: Float>(
    geometry: &Geometry,
    planes: &[T],
    weight: &[T],
    positions: Range<usize>,
    (beta, target): (T, Matrix<*mut T>),
) {
    let sizes = [geometry.out_channels, geometry.patch(), positions.len()];
    let weight = Matrix::rows(weight.as_ptr(), geometry.patch());
    let multiply = |columns: Matrix<*const T>| {
        // SAFETY: sizes match the slices; the tile of the target is used only by this piece.
        unsafe { T::gemm(sizes, T::ONE, weight, columns, beta, target) };
    };
    if geometry.patches_are_pixels() {
        return multiply(Matrix::rows(planes.as_ptr().wrapping_add(positions.start), geometry.pixels));
    }
    with_workspace(geometry.patch() * positions.len(), |columns| {
        geometry.fill(planes, &positions, columns);
        multiply(Matrix::rows(columns.as_ptr(), positions.len()));
    });
}

fn grad_input<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Conv2dGradInput(conv) = op else {
        return Err(Error::invalid(op.name(), "is not conv2d_grad_input"));
    };
    let geometry = Geometry::new(op.name(), &conv.config, &outputs[0], &inputs[1])?;
    let (weight, dy) = (dense::<T>(op.name(), &inputs[0])?, dense::<T>(op.name(), &inputs[1])?);
    let mut dx = DenseOutput::<T>::new(op.name(), &outputs[0])?;
    let slices = dx.disjoint_slices();
    let blocks: Vec<Range<usize>> = ranges(geometry.channels, geometry.channel_block()).collect();
    for_pieces(geometry.batch * geometry.groups * blocks.len(), |piece| {
        let (image, group) = (piece / blocks.len() / geometry.groups, piece / blocks.len() % geometry.groups);
        let channels = &blocks[piece % blocks.len()];
        // SAFETY: the planes of these channels are used only by this piece.
        let planes = unsafe { slices.slice_mut(geometry.image(image, group, channels)) };
        planes.fill(T::ZERO);
        let dy = &dy[geometry.outputs(image, group)
            ..geometry.outputs(image, group) + geometry.out_channels * geometry.positions()];
        let weight = &weight[group * geometry.out_channels * geometry.patch()
            ..(group + 1) * geometry.out_channels * geometry.patch()];
        grad_planes(&geometry, weight, dy, channels, planes);
    });
    dx.finish();
    Ok(())
}

/// Adds `weight^T dy` to the planes of these channels, at the pixels of the patches.
fn grad_planes<T: Float>(
    geometry: &Geometry,
    weight: &[T],
    dy: &[T],
    channels: &Range<usize>,
    planes: &mut [T],
) {
    let rows = channels.len() * geometry.taps();
    let transposed = Matrix::columns(weight[channels.start * geometry.taps()..].as_ptr(), geometry.patch());
    for positions in ranges(geometry.positions(), geometry.tile(rows)) {
        if geometry.out_channels == 0 {
            return;
        }
        let dy = Matrix::rows(dy[positions.start..].as_ptr(), geometry.positions());
        with_workspace(rows * positions.len(), |columns| {
            let target = Matrix::rows(columns.as_mut_ptr(), positions.len());
            // SAFETY: sizes match the slices; the workspace is used only by this call.
            unsafe {
                T::gemm(
                    [rows, geometry.out_channels, positions.len()],
                    T::ONE,
                    transposed,
                    dy,
                    T::ZERO,
                    target,
                )
            };
            for (row, source) in columns.chunks_exact(positions.len()).enumerate() {
                let (channel, tap) = channel_and_tap(row, geometry.windows);
                let plane = &mut planes[channel * geometry.pixels..(channel + 1) * geometry.pixels];
                add_patch_row(source, geometry.windows, tap, positions.clone(), plane);
            }
        });
    }
}

fn grad_weight<T: Float>(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Conv2dGradWeight(conv) = op else {
        return Err(Error::invalid(op.name(), "is not conv2d_grad_weight"));
    };
    let geometry = Geometry::new(op.name(), &conv.config, &inputs[0], &inputs[1])?;
    let (x, dy) = (dense::<T>(op.name(), &inputs[0])?, dense::<T>(op.name(), &inputs[1])?);
    let blocks: Vec<Range<usize>> = ranges(geometry.channels, geometry.channel_block()).collect();
    let length = geometry.groups * geometry.out_channels * geometry.patch();
    let splits = PIECES.div_ceil((geometry.groups * blocks.len()).max(1)).min(geometry.batch).max(1);
    let images: Vec<Range<usize>> = ranges(geometry.batch, geometry.batch.div_ceil(splits)).collect();
    let mut sums = vec![T::ZERO; length * images.len().max(1)];
    let slices = DisjointSlices::of(&mut sums);
    for_pieces(images.len() * geometry.groups * blocks.len(), |piece| {
        let (split, rest) =
            (piece / (geometry.groups * blocks.len()), piece % (geometry.groups * blocks.len()));
        let (group, channels) = (rest / blocks.len(), &blocks[rest % blocks.len()]);
        let first = split * length
            + group * geometry.out_channels * geometry.patch()
            + channels.start * geometry.taps();
        let target = Matrix::rows(slices.at(first), geometry.patch());
        for image in images[split].clone() {
            let planes = &x[geometry.image(image, group, channels)];
            let start = geometry.outputs(image, group);
            let dy = &dy[start..start + geometry.out_channels * geometry.positions()];
            add_weight_gradient(&geometry, planes, dy, channels.len() * geometry.taps(), target);
        }
    });
    add_pairwise(&mut sums, length);
    let mut dweight = DenseOutput::<T>::new(op.name(), &outputs[0])?;
    // SAFETY: no other thread writes the output.
    unsafe { dweight.disjoint_slices().slice_mut(0..length) }.copy_from_slice(&sums[..length]);
    dweight.finish();
    Ok(())
}

/// Computes `target += dy patches^T` for one group of one image, and `rows` rows of its patch
/// matrix.
fn add_weight_gradient<T: Float>(
    geometry: &Geometry,
    planes: &[T],
    dy: &[T],
    rows: usize,
    target: Matrix<*mut T>,
) {
    if geometry.out_channels == 0 {
        return;
    }
    for positions in ranges(geometry.positions(), geometry.tile(rows)) {
        let dy = Matrix::rows(dy[positions.start..].as_ptr(), geometry.positions());
        with_workspace(rows * positions.len(), |columns| {
            geometry.fill(planes, &positions, columns);
            let patches = Matrix::columns(columns.as_ptr(), positions.len());
            // SAFETY: sizes match the slices; these columns of the target are used only by this
            // piece.
            unsafe {
                T::gemm([geometry.out_channels, positions.len(), rows], T::ONE, dy, patches, T::ONE, target)
            };
        });
    }
}

#[cfg(test)]
mod tests;
