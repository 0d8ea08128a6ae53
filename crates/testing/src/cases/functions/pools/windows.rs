//! The definitions of pools, in loops over the image.

use crate::prelude::*;
use ternion_core::PoolOptions;

/// Returns the options as they appear in the name of a row.
pub(super) fn text<const N: usize>(options: &PoolOptions<N>) -> String {
    let PoolOptions { kernel, stride, padding, dilation, ceil_mode, .. } = options;
    format!("kernel={kernel:?} stride={stride:?} padding={padding:?} dilation={dilation:?} ceil_mode={ceil_mode}")
}

/// Returns the number of windows along `axis` (PyTorch's `pooling_output_shape`): in ceil mode
/// including one that extends too far, if it starts before the padding after the image.
fn output_size<const N: usize>(options: &PoolOptions<N>, axis: usize, size: usize) -> usize {
    let (stride, padding) = (options.stride[axis] as i64, options.padding[axis] as i64);
    let (size, span) = (size as i64, (options.dilation[axis] * (options.kernel[axis] - 1) + 1) as i64);
    let rounding_up = if options.ceil_mode { stride - 1 } else { 0 };
    let count = (size + 2 * padding - span + rounding_up).div_euclid(stride) + 1;
    let starts_past_input = options.ceil_mode && (count - 1) * stride >= size + padding;
    (count - i64::from(starts_past_input)) as usize
}

/// Returns the elements along `axis` in window `output_index`.
fn window_indices<const N: usize>(options: &PoolOptions<N>, axis: usize, output_index: usize, size: usize) -> Vec<usize> {
    let first = output_index as i64 * options.stride[axis] as i64 - options.padding[axis] as i64;
    let (dilation, kernel) = (options.dilation[axis] as i64, options.kernel[axis] as i64);
    let is_inside = |&at: &usize| {
        let distance = at as i64 - first;
        distance >= 0 && distance % dilation == 0 && distance / dilation < kernel
    };
    (0..size).filter(is_inside).collect()
}

/// Returns the divisor of the sum of window `output_index` along `axis`.
fn axis_divisor<const N: usize>(options: &PoolOptions<N>, axis: usize, output_index: usize, size: usize) -> f64 {
    let first = output_index as i64 * options.stride[axis] as i64 - options.padding[axis] as i64;
    match options.count_include_pad {
        true => {
            let end = (first + options.kernel[axis] as i64).min((size + options.padding[axis]) as i64);
            (end - first) as f64
        }
        false => window_indices(options, axis, output_index, size).len() as f64,
    }
}

/// Returns all combinations of one element of each list; the last list varies fastest.
pub(in crate::cases::functions) fn combinations(lists: &[Vec<usize>]) -> Vec<Vec<usize>> {
    lists.iter().fold(vec![Vec::new()], |all, list| {
        all.into_iter()
            .flat_map(|start| list.iter().map(move |&item| [&start[..], &[item]].concat()))
            .collect()
    })
}

/// Returns the position of an element of an image of these sizes.
pub(super) fn position(at: &[usize], sizes: &[usize]) -> usize {
    at.iter().zip(sizes).fold(0, |position, (&at, &size)| position * size + at)
}

/// Returns the first maximum of elements with their positions, or the first NaN.
pub(super) fn first_maximum(elements: impl Iterator<Item = (usize, f64)>) -> (usize, f64) {
    elements
        .reduce(|best, next| match !best.1.is_nan() && (next.1.is_nan() || next.1 > best.1) {
            true => next,
            false => best,
        })
        .expect("a window has an element")
}

/// For each of `outputs` windows, takes the elements that `lists` returns for it along each axis,
/// and calls `f(index of the window, position and value of each)`.
pub(super) fn each_window(
    x: &Array,
    outputs: &[usize],
    lists: impl Fn(usize, usize) -> Vec<usize>,
    f: impl Fn(&[usize], Vec<(usize, f64)>) -> f64,
) -> Array {
    let sizes = &x.shape[2..];
    Array::from_fn(&[&x.shape[..2], outputs].concat(), |at| {
        let window_indices: Vec<Vec<usize>> = (0..sizes.len()).map(|axis| lists(axis, at[2 + axis])).collect();
        let elements = combinations(&window_indices)
            .into_iter()
            .map(|inner| (position(&inner, sizes), x.at(&[&at[..2], &inner[..]].concat())))
            .collect();
        f(&at[2..], elements)
    })
}

fn output_sizes<const N: usize>(x: &Array, options: &PoolOptions<N>) -> Vec<usize> {
    (0..N).map(|axis| output_size(options, axis, x.shape[2 + axis])).collect()
}

pub(super) fn max_pool<const N: usize>(x: &Array, options: &PoolOptions<N>) -> (Array, Array) {
    let result = |f: fn((usize, f64)) -> f64| {
        let lists = |axis: usize, output_index: usize| window_indices(options, axis, output_index, x.shape[2 + axis]);
        each_window(x, &output_sizes(x, options), lists, |_, elements| f(first_maximum(elements.into_iter())))
    };
    (result(|maximum| maximum.1), result(|maximum| maximum.0 as f64))
}

pub(super) fn avg_pool<const N: usize>(x: &Array, options: &PoolOptions<N>) -> Array {
    let lists = |axis: usize, output_index: usize| window_indices(options, axis, output_index, x.shape[2 + axis]);
    each_window(x, &output_sizes(x, options), lists, |at, elements| {
        let count: f64 = (0..N).map(|axis| axis_divisor(options, axis, at[axis], x.shape[2 + axis])).product();
        let divisor = options.divisor_override.map_or(count, |divisor| divisor as f64);
        elements.iter().map(|element| element.1).sum::<f64>() / divisor
    })
}

pub(super) fn lp_pool<const N: usize>(x: &Array, p: f64, options: &PoolOptions<N>) -> Array {
    let kernel_size: f64 = options.kernel.iter().map(|&size| size as f64).product();
    avg_pool(&x.map(|x| x.powf(p)), options).map(|mean| (mean * kernel_size).powf(1.0 / p))
}
