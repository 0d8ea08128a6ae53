//! Rows of unique elements and slices.

use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let name = |consecutive: bool| if consecutive { "unique_consecutive" } else { "unique" };
    let all = [false, true].map(|consecutive| {
        row(name(consecutive), "", consecutive, None)
            .shapes([&[], &[0, 3], &[1], &[40], &[3, 7], &[2, 3, 5]])
            .adversarial("special", [specials()])
    });
    let along = [(false, 0), (false, 1), (true, 0), (true, 1)].map(|(consecutive, axis)| {
        row(name(consecutive), &format!("axis={axis}"), consecutive, Some(axis))
            .shapes([&[23, 2], &[1, 1], &[2, 40], &[4, 3, 2]])
            .rejects(format!("{}: axis 2 on shape [3, 4]", name(consecutive)), move |device| {
                unique(&Tensor::zeros([3, 4], F32, device)?, consecutive, Some(2))
            })
            .rejects(
                format!("{}: slices along axis 0 of shape [3, 0] have no elements", name(consecutive)),
                move |device| unique(&Tensor::zeros([3, 0], F32, device)?, consecutive, Some(0)),
            )
    });
    let empty = [false, true].map(|consecutive| {
        row(name(consecutive), "axis=0, none", consecutive, Some(0)).shapes([&[0, 3], &[0]])
    });
    all.into_iter().chain(along).chain(empty).collect()
}

fn unique(x: &Tensor, consecutive: bool, axis: Option<usize>) -> Result<(Tensor, Tensor, Tensor)> {
    let axis = axis.map(|axis| axis as isize);
    if consecutive { x.unique_consecutive(axis) } else { x.unique(axis) }
}

fn row(op: &'static str, parameters: &str, consecutive: bool, axis: Option<usize>) -> OpCase {
    OpCase::new(op, parameters)
        .input(Integers(-1, 1))
        .also(INTEGERS)
        .also(BOOL)
        .exact()
        .forward_only("steps")
        .run(move |x| unique(&x[0], consecutive, axis))
        .oracle(move |x| groups(&x[0], consecutive, axis))
}

fn specials() -> Array {
    let values =
        [1.0, f64::NAN, f64::NAN, f64::INFINITY, 0.0, -0.0, 1.0, 1.0, f64::NEG_INFINITY, f64::INFINITY];
    Array::new(&[values.len()], values.to_vec())
}

/// NaN is last, as in sorting.
fn compare(a: &[f64], b: &[f64]) -> std::cmp::Ordering {
    let key = |x: f64| if x.is_nan() { (1, 0.0) } else { (0, x) };
    let pairs = a.iter().zip(b);
    let orders = pairs.map(|(&a, &b)| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
    orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
}

/// Returns the unique slices along an axis, or the unique elements; for each slice the index of its
/// unique slice; and the number of slices that are equal to each unique one.
fn groups(x: &Array, consecutive: bool, axis: Option<usize>) -> (Array, Array, Array) {
    let slice_axis = axis.unwrap_or(0);
    let flat = if axis.is_some() { x.clone() } else { x.reshape(&[x.elements()]) };
    let count = flat.shape[slice_axis];
    let slice = |number: usize| -> Vec<f64> { flat.map_slices(slice_axis, |slice| vec![slice[number]]).data };
    let slices: Vec<Vec<f64>> = (0..count).map(slice).collect();
    let mut order: Vec<usize> = (0..count).collect();
    if !consecutive {
        order.sort_by(|&a, &b| compare(&slices[a], &slices[b]));
    }
    let (mut firsts, mut counts, mut inverse) = (Vec::<usize>::new(), Vec::<f64>::new(), vec![0.0; count]);
    for (rank, &number) in order.iter().enumerate() {
        if rank == 0 || slices[order[rank - 1]] != slices[number] {
            firsts.push(number);
            counts.push(0.0);
        }
        inverse[number] = firsts.len() as f64 - 1.0;
        counts[firsts.len() - 1] += 1.0;
    }
    let values = flat.map_slices(slice_axis, |slice| firsts.iter().map(|&number| slice[number]).collect());
    let shape = if axis.is_some() { vec![count] } else { x.shape.clone() };
    let inverse = Array::new(&shape, inverse);
    (values, inverse, Array::new(&[counts.len()], counts))
}
