//! Rows of reductions that ignore NaN, counts, pairs of reductions, running products, and
//! differences of neighbors.

use crate::cases::unary::wrap;
use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = Vec::new();
    for axes in [&[0][..], &[1], &[0, 2], &[0, 1, 2]] {
        rows.extend([nansum(axes), nanmean(axes), count_nonzero(axes), aminmax(axes)]);
        rows.extend(spreads(axes));
    }
    rows.push(sums_of_integers());
    rows.extend(cumprod());
    rows.extend(diff());
    rows.extend(msort());
    rows
}

fn isizes(axes: &[usize]) -> Vec<isize> {
    axes.iter().map(|&axis| axis as isize).collect()
}

fn mean(slice: &[f64]) -> f64 {
    slice.iter().sum::<f64>() / slice.len() as f64
}

fn variance(slice: &[f64], correction: f64) -> f64 {
    let mean = mean(slice);
    slice.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (slice.len() as f64 - correction)
}

fn without_nan(slice: &[f64]) -> Vec<f64> {
    slice.iter().copied().filter(|x| !x.is_nan()).collect()
}

fn with_nan() -> Array {
    let nan = f64::NAN;
    Array::new(&[2, 3, 2], vec![1.0, nan, -2.0, 0.5, nan, nan, 3.0, nan, nan, -1.0, nan, nan])
}

fn nansum(axes: &'static [usize]) -> OpCase {
    OpCase::new("nansum", format!("axes={axes:?}"))
        .input(Uniform(-4.0, 4.0))
        .shapes([&[1, 1, 1], &[3, 5, 7], &[2, 0, 3]])
        .double_backward()
        .run(move |x| x[0].nansum(&isizes(axes)[..], false))
        .oracle(move |x| x[0].reduce(axes, Keep::No, |slice| without_nan(slice).iter().sum()))
        .adversarial("NaN", [with_nan()])
}

fn nanmean(axes: &'static [usize]) -> OpCase {
    OpCase::new("nanmean", format!("axes={axes:?}"))
        .input(Uniform(-4.0, 4.0))
        .shapes([&[1, 1, 1], &[3, 5, 7]])
        .double_backward()
        .run(move |x| x[0].nanmean(&isizes(axes)[..], true))
        .oracle(move |x| x[0].reduce(axes, Keep::Yes, |slice| mean(&without_nan(slice))))
        .adversarial("NaN", [with_nan()])
        .rejects("nanmean: input is i32, expected a floating dtype", |device| {
            Tensor::zeros([2], I32, device)?.nanmean(0, false)
        })
}

fn count_nonzero(axes: &'static [usize]) -> OpCase {
    OpCase::new("count_nonzero", format!("axes={axes:?}"))
        .input(Integers(-1, 1))
        .shapes([&[1, 1, 1], &[3, 5, 7], &[2, 0, 3]])
        .also(INTEGERS)
        .also(BOOL)
        .forward_only("gives counts")
        .run(move |x| x[0].count_nonzero(&isizes(axes)[..], false))
        .oracle(move |x| {
            x[0].reduce(axes, Keep::No, |slice| slice.iter().filter(|&&x| x != 0.0).count() as f64)
        })
        .adversarial("NaN", [with_nan()])
}

fn aminmax(axes: &'static [usize]) -> OpCase {
    let extreme = |slice: &[f64], choose: fn(f64, f64) -> f64| match slice.iter().any(|x| x.is_nan()) {
        true => f64::NAN,
        false => slice.iter().copied().reduce(choose).unwrap_or(f64::NAN),
    };
    OpCase::new("aminmax", format!("axes={axes:?}"))
        .input(Distinct)
        .shapes([&[1, 1, 1], &[3, 5, 7]])
        .also(INTEGERS)
        .exact()
        .double_backward()
        .run(move |x| x[0].aminmax(&isizes(axes)[..], false))
        .oracle(move |x| {
            let reduced = |choose: fn(f64, f64) -> f64| x[0].reduce(axes, Keep::No, |slice| extreme(slice, choose));
            (reduced(f64::min), reduced(f64::max))
        })
        .adversarial("NaN", [with_nan()])
}

fn spreads(axes: &'static [usize]) -> [OpCase; 2] {
    type Run = fn(&Tensor, &[isize], bool) -> Result<(Tensor, Tensor)>;
    let row = |op: &'static str, run: Run, from_variance: fn(f64) -> f64| {
        OpCase::new(op, format!("axes={axes:?}"))
            .input(Uniform(-4.0, 4.0))
            .shapes([&[3, 5, 7], &[2, 3, 2]])
            .double_backward()
            .run(move |x| run(&x[0], &isizes(axes), axes.len() == 1))
            .oracle(move |x| {
                let keep = if axes.len() == 1 { Keep::Yes } else { Keep::No };
                (x[0].reduce(axes, keep, |slice| from_variance(variance(slice, 1.0))), x[0].reduce(axes, keep, mean))
            })
            .rejects(format!("{}: input is i32, expected a floating dtype", &op[..3]), move |device| {
                run(&Tensor::zeros([2], I32, device)?, &[0], false)
            })
    };
    [
        row("var_mean", |x, axes, keep| x.var_mean(axes, 1.0, keep), |variance| variance),
        row("std_mean", |x, axes, keep| x.std_mean(axes, 1.0, keep), f64::sqrt),
    ]
}

/// Sums of integers are accumulated in i64.
fn sums_of_integers() -> OpCase {
    OpCase::new("nansum", "integers")
        .input(Integers(-100, 100))
        .shapes([&[5, 7], &[0, 3]])
        .dtypes(INTEGERS)
        .also(BOOL)
        .run(|x| x[0].nansum(0, false))
        .oracle(|x| x[0].reduce(&[0], Keep::No, |slice| slice.iter().sum()))
}

fn cumulative_product(slice: &[f64]) -> Vec<f64> {
    let mut product = 1.0;
    slice
        .iter()
        .map(|x| {
            product *= x;
            product
        })
        .collect()
}

fn cumprod() -> Vec<OpCase> {
    let row = |parameters: &str, values: Values, axis: usize| {
        OpCase::new("cumprod", parameters)
            .input(values)
            .f32_limit(2e-6, 4e-6)
            .run(move |x| x[0].cumprod(axis))
            .oracle(move |x| x[0].map_slices(axis, cumulative_product))
    };
    // Many zeros: no gradient is divided by them.
    let few = || Fixed(vec![1.25, 0.0, -0.75, 2.0, 0.5, 0.0, -1.5]);
    vec![
        row("axis=0", Uniform(0.5, 1.5), 0).shapes([&[1], &[33], &[7, 3], &[0, 3]]).double_backward().rejects(
            "cumprod: axis 1 on shape [3]",
            |device| Tensor::zeros([3], F32, device)?.cumprod(1),
        ),
        row("axis=1", few(), 1).shapes([&[3, 16], &[2, 5, 3], &[2, 0]]).double_backward(),
        OpCase::new("cumprod", "integers")
            .input(Integers(-3, 3))
            .shapes([&[5, 7], &[1, 3]])
            .dtypes(INTEGERS)
            .also(BOOL)
            .run(|x| x[0].cumprod(0))
            .oracle(|x| x[0].map_slices(0, |slice| cumulative_product(slice).into_iter().map(|x| wrap(I64, x)).collect())),
    ]
}

fn differences(slice: &[f64], count: usize) -> Vec<f64> {
    (0..count).fold(slice.to_vec(), |slice, _| slice.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

fn diff() -> Vec<OpCase> {
    let row = |parameters: &str, count: usize, axis: usize| {
        OpCase::new("diff", parameters)
            .input(Fixed((-20..20).map(|k| f64::from(k * k % 37) / 8.0).collect()))
            .run(move |x| x[0].diff(count, axis, None, None))
            .oracle(move |x| x[0].map_slices(axis, move |slice| differences(slice, count)))
    };
    vec![
        row("count=1 axis=0", 1, 0).shapes([&[1], &[33], &[7, 3], &[0, 3]]).double_backward().rejects(
            "diff: axis 1 on shape [3]",
            |device| Tensor::zeros([3], F32, device)?.diff(1, 1, None, None),
        ),
        row("count=3 axis=1", 3, 1).shapes([&[2, 9, 3], &[2, 2]]).double_backward(),
        row("count=0 axis=0", 0, 0).shapes([&[3]]).double_backward(),
        OpCase::new("diff", "between ends")
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            .on([&[3, 5], &[3, 2], &[3, 1]])
            .double_backward()
            .run(|x| x[0].diff(1, 1, Some(&x[1]), Some(&x[2])))
            .oracle(|x| {
                let all = Array::from_fn(&[3, 8], |at| match at[1] {
                    0 | 1 => x[1].at(at),
                    7 => x[2].at(&[at[0], 0]),
                    middle => x[0].at(&[at[0], middle - 2]),
                });
                all.map_slices(1, |slice| differences(slice, 1))
            }),
        OpCase::new("diff", "integers")
            .input(Integers(-100, 100))
            .shapes([&[7, 3]])
            .dtypes(INTEGERS)
            .run(|x| x[0].diff(1, 0, None, None))
            .oracle_for(|dtype, x| {
                x[0].map_slices(0, |slice| differences(slice, 1).into_iter().map(|x| wrap(dtype, x)).collect())
            }),
        OpCase::new("diff", "bools")
            .input(Bools)
            .shapes([&[7, 3]])
            .dtypes(BOOL)
            .run(|x| x[0].diff(1, 0, None, None))
            .oracle(|x| x[0].map_slices(0, |slice| differences(slice, 1).into_iter().map(f64::abs).collect())),
    ]
}

fn msort() -> [OpCase; 2] {
    let ordered = |x: &Array| match x.rank() {
        0 => x.clone(),
        _ => x.map_slices(0, |slice| {
            let mut slice = slice.to_vec();
            slice.sort_by(|a, b| a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal)));
            slice
        }),
    };
    [
        OpCase::new("msort", "")
            .input(Distinct)
            .shapes([&[], &[33], &[7, 3], &[0, 3]])
            .exact()
            .double_backward()
            .run(|x| x[0].msort())
            .oracle(move |x| ordered(&x[0]))
            .adversarial("NaN", [with_nan()]),
        OpCase::new("msort", "integers")
            .input(Integers(-9, 9))
            .shapes([&[7, 3]])
            .dtypes(INTEGERS)
            .run(|x| x[0].msort())
            .oracle(move |x| ordered(&x[0])),
    ]
}
