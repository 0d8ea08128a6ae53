//! Rows of gathered and scattered elements and slices.

use crate::prelude::*;
use ternion_core::Axis;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [along(), vec![take()], puts(), slices()].concat()
}

/// Indices along an axis of an input, counted from the start or from the end.
fn signed_indices(size: impl Fn(&[usize]) -> usize + Send + Sync + 'static) -> Input {
    Input::index(Values::custom(move |shapes, position, rng| {
        let (count, size) = (shapes[position].iter().product::<usize>(), size(&shapes[0]) as i64);
        (0..count).map(|_| rng.integer(-size, size - 1) as f64).collect()
    }))
}

/// Like `signed_indices`, but without duplicates.
fn unique_indices(size: impl Fn(&[usize]) -> usize + Send + Sync + 'static) -> Input {
    Input::index(Values::custom(move |shapes, position, rng| {
        let (count, size) = (shapes[position].iter().product::<usize>(), size(&shapes[0]));
        let order = rng.permutation(size).into_iter().take(count);
        order.map(|at| at as f64 - if at % 2 == 0 { size as f64 } else { 0.0 }).collect()
    }))
}

fn elements(shape: &[usize]) -> usize {
    shape.iter().product()
}

fn from_front(index: f64, size: usize) -> usize {
    if index < 0.0 { (index + size as f64) as usize } else { index as usize }
}

/// Sums, whose rounding depends on their order.
fn summing(op: &'static str, parameters: impl Into<String>) -> OpCase {
    OpCase::new(op, parameters).input(Uniform(-4.0, 4.0)).also(INTEGERS).f32_limit(1e-6, 2e-6).double_backward()
}

fn row(op: &'static str, parameters: impl Into<String>) -> OpCase {
    // Elements that are taken twice have sums as gradients.
    summing(op, parameters).also(BOOL).exact()
}

fn along() -> Vec<OpCase> {
    let case = |axis: usize| {
        row("take_along_dim", format!("axis={axis}"))
            .input(signed_indices(move |shape| shape[axis]))
            .run(move |x| x[0].take_along_dim(&x[1], Some(Axis(axis as isize))))
            .oracle(move |x| {
                let mut shape: Vec<usize> = x[0].shape.clone();
                for (at, size) in shape.iter_mut().enumerate() {
                    let other = x[1].shape[at];
                    *size = if at == axis || *size == 1 { other } else { *size };
                }
                Array::from_fn(&shape, |at| {
                    let clamped_index = |x: &Array| -> Vec<usize> { at.iter().zip(&x.shape).map(|(&at, &size)| at.min(size - 1)).collect() };
                    let mut source_index = clamped_index(&x[0]);
                    let mut indices_index = clamped_index(&x[1]);
                    indices_index[axis] = at[axis];
                    source_index[axis] = from_front(x[1].at(&indices_index), x[0].shape[axis]);
                    x[0].at(&source_index)
                })
            })
    };
    vec![
        case(0).on([&[5], &[7]]).on([&[5, 3], &[2, 3]]).on([&[5, 3], &[2, 1]]).on([&[5, 1], &[2, 4]]).on([&[5, 3], &[0, 3]]),
        case(1)
            .on([&[2, 5], &[2, 3]])
            .on([&[2, 5, 3], &[1, 4, 3]])
            .rejects("take_along_dim: shapes [3] and [1, 2], expected as many axes", |device| {
                Tensor::zeros([3], F32, device)?.take_along_dim(&Tensor::zeros([1, 2], I64, device)?, Some(Axis(0)))
            })
            .rejects("take_along_dim: axis 1 on shape [3]", |device| {
                Tensor::zeros([3], F32, device)?.take_along_dim(&Tensor::zeros([2], I64, device)?, Some(Axis(1)))
            })
            .rejects("take_along_dim: indices is f32, expected i32 or i64", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.take_along_dim(&x, Some(Axis(0)))
            })
            .rejects("take_along_dim: index 3 is out of range for size 3", |device| {
                Tensor::zeros([3], F32, device)?.take_along_dim(&Tensor::full([2], 3, I64, device)?, Some(Axis(0)))
            })
            .rejects("take_along_dim: shapes [1, 2] and [1, 3] do not broadcast", |device| {
                Tensor::zeros([3, 2], F32, device)?
                    .take_along_dim(&Tensor::zeros([3, 3], I64, device)?, Some(Axis(0)))
            }),
        row("take_along_dim", "all")
            .input(signed_indices(elements))
            .on([&[2, 5], &[2, 3]])
            .on([&[3], &[2, 2]])
            .run(|x| x[0].take_along_dim(&x[1], None))
            .oracle(|x| taken(&x[0], &x[1]).reshape(&[x[1].elements()])),
    ]
}

fn taken(x: &Array, index: &Array) -> Array {
    index.map(|index| x.data[from_front(index, x.elements())])
}

fn take() -> OpCase {
    row("take", "")
        .input(signed_indices(elements))
        .on([&[2, 5], &[4]])
        .on([&[], &[3]])
        .on([&[2, 3, 2], &[]])
        .on([&[4], &[2, 3]])
        .on([&[4], &[0, 3]])
        .run(|x| x[0].take(&x[1]))
        .oracle(|x| taken(&x[0], &x[1]))
        .rejects("take: index is f32, expected i32 or i64", |device| {
            let x = Tensor::zeros([3], F32, device)?;
            x.take(&x)
        })
        .rejects("take: index 6 is out of range for size 6", |device| {
            Tensor::zeros([2, 3], F32, device)?.take(&Tensor::full([2], 6, I32, device)?)
        })
}

fn puts() -> Vec<OpCase> {
    let put = |accumulate: bool| {
        let row = if accumulate { summing("put", "accumulate=true") } else { row("put", "accumulate=false") };
        row.input(if accumulate { signed_indices(elements) } else { unique_indices(elements) })
            .input(Uniform(-4.0, 4.0))
            .on([&[2, 5], &[4], &[2, 2]])
            .on([&[7], &[], &[1]])
            .on([&[3, 4], &[3, 2], &[6]])
            .on([&[3, 4], &[6], &[2, 3]])
            .on([&[3], &[0], &[2, 0]])
            .run(move |x| x[0].put(&x[1], &x[2], accumulate))
            .oracle_for(move |dtype, x| {
                let mut result = x[0].clone();
                for (&index, &value) in x[1].data.iter().zip(&x[2].data) {
                    let element = &mut result.data[from_front(index, x[0].elements())];
                    *element = if accumulate { crate::cases::unary::wrap(dtype, *element + value) } else { value };
                }
                result
            })
    };
    let indexed = |accumulate: bool| {
        let row = match accumulate {
            true => summing("index_put", "[index, 1..] accumulate=true"),
            false => row("index_put", "[index, 1..] accumulate=false"),
        };
        row.input(if accumulate { signed_indices(|shape| shape[0]) } else { unique_indices(|shape| shape[0]) })
            .input(Uniform(-4.0, 4.0))
            .on([&[5, 4], &[3], &[3, 3]])
            .on([&[5, 4], &[2], &[3]])
            .on([&[5, 3], &[3], &[3, 2]])
            .on([&[5, 3], &[2], &[]])
            .run(move |x| x[0].index_put((&x[1], 1..), &x[2], accumulate))
            .oracle_for(move |dtype, x| {
                let mut result = x[0].clone();
                let shape = [x[1].elements(), x[0].shape[1] - 1];
                let source = x[2].expand(&shape);
                Array::from_fn(&shape, |at| {
                    let element = result.at_mut(&[from_front(x[1].data[at[0]], x[0].shape[0]), at[1] + 1]);
                    let sum = crate::cases::unary::wrap(dtype, *element + source.at(at));
                    *element = if accumulate { sum } else { source.at(at) };
                    0.0
                });
                result
            })
    };
    vec![
        put(false)
            .rejects("put: 3 elements for 2 positions", |device| {
                Tensor::zeros([3], F32, device)?.put(
                    &Tensor::zeros([2], I64, device)?,
                    &Tensor::zeros([3], F32, device)?,
                    false,
                )
            })
            .rejects("put: index 3 is out of range for size 3", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.put(&Tensor::full([3], 3, I64, device)?, &x, false)
            })
            .rejects("put: dtypes f32 and f64 differ; cast one of them with to_dtype", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.put(&Tensor::zeros([3], I64, device)?, &x.to_dtype(F64)?, false)
            }),
        put(true).rejects("put: index is f32, expected i32 or i64", |device| {
            let x = Tensor::zeros([3], F32, device)?;
            x.put(&x, &x, true)
        }),
        indexed(false).rejects("index_put: a source of shape [2] into [3]", |device| {
            Tensor::zeros([4], F32, device)?.index_put(
                &Tensor::zeros([3], I64, device)?,
                &Tensor::zeros([2], F32, device)?,
                false,
            )
        }),
        indexed(true),
        masked_put(),
    ]
    .into_iter()
    .chain(put_bools())
    .collect()
}

/// Sums of bools: whether any of the elements at an index is true.
fn put_bools() -> Vec<OpCase> {
    let logical_or = |result: &mut f64, value: f64| *result = result.max(value);
    vec![
        OpCase::new("put", "accumulate=true, bools")
            .input(Bools)
            .dtypes(BOOL)
            .exact()
            .input(signed_indices(elements))
            .input(Bools)
            .on([&[2, 5], &[4], &[2, 2]])
            .on([&[3], &[300], &[300]])
            .run(|x| x[0].put(&x[1], &x[2], true))
            .oracle(move |x| {
                let mut result = x[0].clone();
                for (&index, &value) in x[1].data.iter().zip(&x[2].data) {
                    logical_or(&mut result.data[from_front(index, x[0].elements())], value);
                }
                result
            }),
        OpCase::new("index_put", "[index, 1..] accumulate=true, bools")
            .input(Bools)
            .dtypes(BOOL)
            .exact()
            .input(signed_indices(|shape| shape[0]))
            .input(Bools)
            .on([&[5, 4], &[3], &[3, 3]])
            .on([&[5, 4], &[40], &[40, 3]])
            .run(|x| x[0].index_put((&x[1], 1..), &x[2], true))
            .oracle(move |x| {
                let mut result = x[0].clone();
                Array::from_fn(&x[2].shape, |at| {
                    let element_index = [from_front(x[1].data[at[0]], x[0].shape[0]), at[1] + 1];
                    logical_or(result.at_mut(&element_index), x[2].at(at));
                    0.0
                });
                result
            }),
    ]
}

fn masked_put() -> OpCase {
    row("index_put", "mask")
        .input(Input::bool())
        .input(Uniform(-4.0, 4.0))
        .on([&[5, 4], &[5, 4], &[]])
        .run(|x| x[0].index_put(&x[1], &x[2], false))
        .oracle(|x| {
            let replacements = x[1].map(|mask| if mask == 0.0 { f64::NAN } else { x[2].data[0] });
            x[0].zip(&replacements, |value, new| if new.is_nan() { value } else { new })
        })
}

fn slices() -> Vec<OpCase> {
    // If an index occurs twice, the last source is kept, and only it has a gradient.
    let copy = |axis: usize| {
        row("index_copy", format!("axis={axis}"))
            .input(Input::index(Values::Index { input: 0, axis }))
            .input(Uniform(-4.0, 4.0))
            .run(move |x| x[0].index_copy(axis, &x[1], &x[2]))
            .oracle(move |x| {
                let mut result = x[0].clone();
                Array::from_fn(&x[2].shape, |at| {
                    let mut source_index = at.to_vec();
                    source_index[axis] = x[1].data[at[axis]] as usize;
                    *result.at_mut(&source_index) = x[2].at(at);
                    0.0
                });
                result
            })
    };
    let fill = |axis: usize| {
        row("index_fill", format!("axis={axis}"))
            .input(signed_indices(move |shape| shape[axis]))
            .input(Uniform(-4.0, 4.0))
            .run(move |x| x[0].index_fill(axis, &x[1], &x[2]))
            .oracle(move |x| {
                let indices: Vec<usize> = x[1].data.iter().map(|&at| from_front(at, x[0].shape[axis])).collect();
                Array::from_fn(&x[0].shape, |at| if indices.contains(&at[axis]) { x[2].data[0] } else { x[0].at(at) })
            })
    };
    vec![
        copy(0)
            .on([&[5], &[3], &[3]])
            .on([&[5, 3], &[7], &[7, 3]])
            .on([&[5, 3], &[0], &[0, 3]])
            .rejects("index_copy: source has shape [3], expected [2]", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.index_copy(0, &Tensor::zeros([2], I64, device)?, &x)
            })
            .rejects("index_copy: index -1 is out of range for size 3", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.index_copy(0, &Tensor::full([3], -1, I64, device)?, &x)
            })
            .rejects("index_copy: expected 1 axes, got shape [1, 3]", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.index_copy(0, &Tensor::zeros([1, 3], I64, device)?, &x)
            }),
        copy(1).on([&[2, 5], &[3], &[2, 3]]).on([&[2, 5, 3], &[4], &[2, 4, 3]]),
        fill(0)
            .on([&[5], &[3], &[]])
            .on([&[5, 3], &[2], &[]])
            .on([&[5], &[0], &[]])
            .rejects("index_fill: index 3 is out of range for size 3", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.index_fill(0, &Tensor::full([1], 3, I64, device)?, &x.select(0, 0)?)
            })
            .rejects("index_fill: expected 0 axes, got shape [3]", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.index_fill(0, &Tensor::zeros([1], I64, device)?, &x)
            })
            .rejects("index_fill: axis 1 on shape [3]", |device| {
                let x = Tensor::zeros([3], F32, device)?;
                x.index_fill(1, &Tensor::zeros([1], I64, device)?, &x.select(0, 0)?)
            }),
        fill(1).on([&[2, 5], &[3], &[]]).on([&[2, 5, 2], &[2], &[]]),
    ]
}
