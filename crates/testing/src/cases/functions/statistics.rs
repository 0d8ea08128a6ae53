//! Rows of ranks, running min and max, the most frequent elements, and norms limited by a maximum.

use crate::prelude::*;
use std::cmp::Ordering;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [running(), ranks(), modes(), medians_of_all(), norms()].concat()
}

type Pair = fn(&Tensor, usize) -> Result<(Tensor, Tensor)>;
/// An oracle that returns the selected element of a slice, and its index.
type Select = fn(&[f64]) -> (f64, usize);

fn specials() -> Array {
    let values = [0.0, -0.0, 1.0, f64::NAN, -1.0, f64::INFINITY, f64::NAN, f64::NEG_INFINITY, 1.0];
    Array::new(&[1, values.len()], values.to_vec())
}

/// Rows of a function that selects one element of each slice: of different elements with
/// gradients, and of equal elements in all dtypes.
fn selection_rows(op: &'static str, parameters: &str, run: Pair, select: Select, dtypes: &[DType]) -> Vec<OpCase> {
    let row = |parameters: String, values: Values, axis: usize| {
        OpCase::new(op, parameters)
            .input(values)
            .exact()
            .differentiable_outputs(1)
            .run(move |x| run(&x[0], axis))
            .oracle(move |x| {
                let reduced = |part: fn((f64, usize)) -> f64| {
                    x[0].reduce(&[axis], Keep::No, move |slice| part(select(slice)))
                };
                (reduced(|selected| selected.0), reduced(|selected| selected.1 as f64))
            })
    };
    vec![
        row(format!("{parameters}axis=0"), Distinct, 0).shapes([&[1], &[33], &[7, 3], &[4, 0]]).double_backward(),
        row(format!("{parameters}axis=1"), Distinct, 1)
            .shapes([&[3, 14], &[2, 5, 3]])
            .double_backward()
            .adversarial("special", [specials()])
            .rejects(format!("{op}: axis 2 on shape [3, 1]"), move |device| {
                run(&Tensor::zeros([3, 1], F32, device)?, 2)
            }),
        row(format!("{parameters}ties, axis=1"), Integers(-2, 2), 1)
            .shapes([&[3, 33], &[2, 5, 3]])
            .also(dtypes)
            .forward_only("ties have no gradient"),
    ]
}

/// Returns the indices in ascending order of the elements, NaN last; equal elements keep their
/// order.
fn order(slice: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..slice.len()).collect();
    order.sort_by(|&a, &b| match (slice[a].is_nan(), slice[b].is_nan()) {
        (false, false) => slice[a].partial_cmp(&slice[b]).unwrap_or(Ordering::Equal),
        (a, b) => a.cmp(&b),
    });
    order
}

/// Returns the min or max up to each element of a slice, with its index.
fn running_extremes(slice: &[f64], wins: fn(f64, f64) -> bool) -> Vec<(f64, usize)> {
    let mut best = (f64::NAN, 0);
    let mut all = Vec::new();
    for (at, &value) in slice.iter().enumerate() {
        if at == 0 || value.is_nan() || wins(value, best.0) {
            best = (value, at);
        }
        all.push(best);
    }
    all
}

fn running() -> Vec<OpCase> {
    let kinds: [(&'static str, Pair, fn(f64, f64) -> bool); 2] = [
        ("cummax", |x, axis| x.cummax(axis), |a, b| a >= b),
        ("cummin", |x, axis| x.cummin(axis), |a, b| a <= b),
    ];
    kinds
        .into_iter()
        .flat_map(|(op, run, wins)| {
            let row = move |parameters: &str, values: Values, axis: usize| {
                OpCase::new(op, parameters)
                    .input(values)
                    .exact()
                    .differentiable_outputs(1)
                    .run(move |x| run(&x[0], axis))
                    .oracle(move |x| {
                        let results = |part: fn(&(f64, usize)) -> f64| {
                            x[0].map_slices(axis, move |slice| {
                                running_extremes(slice, wins).iter().map(part).collect()
                            })
                        };
                        (results(|extreme| extreme.0), results(|extreme| extreme.1 as f64))
                    })
            };
            [
                row("axis=0", Distinct, 0)
                    .shapes([&[1], &[33], &[7, 3], &[0, 3]])
                    .double_backward()
                    .rejects(format!("{op}: axis 1 on shape [3]"), move |device| {
                        run(&Tensor::zeros([3], F32, device)?, 1)
                    }),
                row("axis=1", Distinct, 1)
                    .shapes([&[3, 16], &[2, 5, 3], &[2, 0]])
                    .double_backward()
                    .adversarial("special", [specials()]),
                row("ties, axis=1", Integers(-2, 2), 1)
                    .shapes([&[3, 33], &[2, 5, 3]])
                    .also(INTEGERS)
                    .also(BOOL)
                    .forward_only("ties have no gradient"),
            ]
        })
        .collect()
}

fn ranks() -> Vec<OpCase> {
    let kth = selection_rows(
        "kthvalue",
        "k=1 ",
        |x, axis| x.kthvalue(1, axis),
        |slice| {
            let at = order(slice)[0];
            (slice[at], at)
        },
        INTEGERS,
    );
    let last = OpCase::new("kthvalue", "k=3 axis=0")
        .input(Distinct)
        .shapes([&[3], &[5, 2]])
        .exact()
        .double_backward()
        .differentiable_outputs(1)
        .run(|x| x[0].kthvalue(3, 0))
        .oracle(|x| {
            let results = |part: fn(&[f64], usize) -> f64| {
                x[0].reduce(&[0], Keep::No, move |slice| part(slice, order(slice)[2]))
            };
            (results(|slice, at| slice[at]), results(|_, at| at as f64))
        })
        .rejects("kthvalue: k of 4, expected 1 to 3", |device| {
            Tensor::zeros([3], F32, device)?.kthvalue(4, 0)
        })
        .rejects("kthvalue: k of 0, expected 1 to 3", |device| {
            Tensor::zeros([3], F32, device)?.kthvalue(0, 0)
        });
    let median: Select = |slice| {
        let middle = order(slice)[(slice.len() - 1) / 2];
        let at = slice.iter().position(|value| value.is_nan()).unwrap_or(middle);
        (slice[at], at)
    };
    let nanmedian: Select = |slice| {
        let numbers = slice.iter().filter(|value| !value.is_nan()).count();
        let at = order(slice)[numbers.saturating_sub(1) / 2];
        (slice[at], at)
    };
    let mut rows = kth;
    rows.push(last);
    rows.extend(selection_rows("median", "", |x, axis| x.median(axis), median, INTEGERS));
    rows.extend(selection_rows("nanmedian", "", |x, axis| x.nanmedian(axis), nanmedian, INTEGERS));
    rows.push(
        OpCase::new("nanmedian", "axis=1, only NaN")
            .input(Fixed(vec![f64::NAN]))
            .shapes([&[2, 5]])
            .forward_only("NaN")
            .run(|x| x[0].nanmedian(1))
            .oracle(|_| (Array::full(&[2], f64::NAN), Array::zeros(&[2])))
            .rejects("nanmedian: no elements along axis 1 of shape [2, 0]", |device| {
                Tensor::zeros([2, 0], F32, device)?.nanmedian(1)
            })
            .rejects("median: no elements along axis 1 of shape [2, 0]", |device| {
                Tensor::zeros([2, 0], F32, device)?.median(1)
            }),
    );
    rows
}

fn modes() -> Vec<OpCase> {
    let mode: Select = |slice| {
        let count = |value: f64| slice.iter().filter(|&&other| other == value).count().max(1);
        let order = order(slice);
        let largest_count = order.iter().map(|&at| count(slice[at])).max().unwrap_or(1);
        let value = order.iter().map(|&at| slice[at]).find(|&value| count(value) == largest_count).unwrap_or(f64::NAN);
        let at = slice.iter().rposition(|&other| other == value);
        (value, at.unwrap_or(order[0]))
    };
    let mut rows = selection_rows("mode", "", |x, axis| x.mode(axis), mode, INTEGERS);
    let last = rows.pop().map(|row| {
        row.also(BOOL).rejects("mode: no elements along axis 1 of shape [2, 0]", |device| {
            Tensor::zeros([2, 0], F32, device)?.mode(1)
        })
    });
    rows.extend(last);
    rows
}

/// The median of all elements.
fn medians_of_all() -> Vec<OpCase> {
    let median = |x: &Array| {
        let middle =
            order(&x.data).get(x.elements().saturating_sub(1) / 2).map_or(f64::NAN, |&at| x.data[at]);
        Array::scalar(if x.data.iter().any(|value| value.is_nan()) { f64::NAN } else { middle })
    };
    let nanmedian = |x: &Array| {
        let numbers: Vec<f64> = x.data.iter().copied().filter(|value| !value.is_nan()).collect();
        let middle = order(&numbers).get(numbers.len().saturating_sub(1) / 2).map_or(f64::NAN, |&at| numbers[at]);
        Array::scalar(middle)
    };
    type All = (&'static str, fn(&Tensor) -> Result<Tensor>, fn(&Array) -> Array);
    let kinds: [All; 2] =
        [("median", |x| x.median_all(), median), ("nanmedian", |x| x.nanmedian_all(), nanmedian)];
    kinds
        .into_iter()
        .flat_map(|(op, run, oracle)| {
            let row = move |parameters: &str, values: Values| {
                OpCase::new(op, parameters)
                    .input(values)
                    .exact()
                    .run(move |x| run(&x[0]))
                    .oracle(move |x| oracle(&x[0]))
            };
            [
                row("all", Distinct)
                    .shapes([&[], &[0, 3], &[13], &[2, 5, 4]])
                    .double_backward()
                    .adversarial("special", [specials()])
                    .adversarial("NaN", [Array::full(&[3], f64::NAN)])
                    .rejects(format!("{op}: no elements in shape [0]"), move |device| {
                        run(&Tensor::zeros([0], I32, device)?)
                    }),
                row("all, ties", Integers(-2, 2))
                    .shapes([&[33], &[4, 7]])
                    .also(INTEGERS)
                    .forward_only("ties have no gradient"),
            ]
        })
        .collect()
}

/// Slices along axis 0 or 1 with norms clearly above 1 and below 1 alternately, without zeros.
fn large_and_small(axis: usize) -> Values {
    Values::custom(move |shapes, position, rng| {
        let shape = &shapes[position];
        let inner: usize = shape[axis + 1..].iter().product();
        let elements: usize = shape.iter().product();
        let scale = |at: usize| if ((at / inner.max(1)) % shape[axis].max(1)).is_multiple_of(2) { 1.0 } else { 0.02 };
        (0..elements).map(|at| rng.sign() * rng.uniform(1.0, 2.0) * scale(at)).collect()
    })
}

fn norm(slice: &[f64], p: f64) -> f64 {
    if p.is_infinite() {
        return slice.iter().fold(0.0, |largest, x| x.abs().max(largest));
    }
    slice.iter().map(|x| x.abs().powf(p)).sum::<f64>().powf(1.0 / p)
}

fn norms() -> Vec<OpCase> {
    let row = |p: f64, axis: usize| {
        OpCase::new("renorm", format!("p={p} axis={axis} max_norm=1"))
            .input(large_and_small(axis))
            .double_backward()
            .run(move |x| x[0].renorm(p, axis, 1.0))
            .oracle(move |x| {
                let others: Vec<usize> = (0..x[0].rank()).filter(|&other| other != axis).collect();
                let norms = x[0].reduce(&others, Keep::Yes, |slice| norm(slice, p)).expand(&x[0].shape);
                x[0].zip(&norms, |x, norm| if norm > 1.0 { x / (norm + 1e-7) } else { x })
            })
    };
    let zeros = [Array::new(&[2, 3], vec![0.0, -0.0, 0.0, 0.0, 3.0, 4.0])];
    vec![
        row(2.0, 0)
            .shapes([&[3, 5], &[4, 2, 3], &[1, 1], &[0, 3]])
            .adversarial("zeros", zeros.clone())
            .rejects("renorm: expected at least 2 axes, got shape [3]", |device| {
                Tensor::zeros([3], F32, device)?.renorm(2.0, 0, 1.0)
            })
            .rejects("renorm: input is i64, expected a floating dtype", |device| {
                Tensor::zeros([3, 2], I64, device)?.renorm(2.0, 0, 1.0)
            })
            .rejects("renorm: p of 0 and max_norm of 1, expected above 0 and at least 0", |device| {
                Tensor::zeros([3, 2], F32, device)?.renorm(0.0, 0, 1.0)
            })
            .rejects("renorm: axis 2 on shape [3, 2]", |device| {
                Tensor::zeros([3, 2], F32, device)?.renorm(2.0, 2, 1.0)
            }),
        row(1.0, 1).shapes([&[3, 5], &[2, 4, 3]]).adversarial("zeros", zeros.clone()),
        row(3.0, 1).shapes([&[3, 5], &[2, 4, 3]]).adversarial("zeros", zeros.clone()),
        row(0.5, 0).shapes([&[3, 5]]).adversarial("zeros", zeros.clone()),
        row(f64::INFINITY, 0).shapes([&[3, 5], &[2, 4, 3]]).adversarial("zeros", zeros),
    ]
}
