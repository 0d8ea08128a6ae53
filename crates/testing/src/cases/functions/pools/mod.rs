//! Rows of pools over one, two and three axes.

mod adaptive;
mod windows;

use crate::prelude::*;
use ternion_core::PoolOptions;
pub(super) use windows::combinations;
use windows::{avg_pool, lp_pool, max_pool, text};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [maxima(), means(), divided(), powers(), huge_windows(), adaptive::rows()].concat()
}

const NEG_INFINITY: f64 = f64::NEG_INFINITY;

fn plain<const N: usize>(kernel: [usize; N]) -> PoolOptions<N> {
    PoolOptions::new(kernel)
}

/// Windows of one axis: adjacent, overlapping, padded, dilated, cut at the end.
fn options_1d() -> Vec<PoolOptions<1>> {
    vec![
        plain([2]),
        PoolOptions { stride: [1], padding: [1], ..plain([3]) },
        PoolOptions { stride: [2], padding: [1], dilation: [2], ..plain([3]) },
        PoolOptions { stride: [2], padding: [1], ceil_mode: true, ..plain([3]) },
        PoolOptions { stride: [3], ceil_mode: true, count_include_pad: false, padding: [2], ..plain([5]) },
    ]
}

fn options_3d() -> Vec<PoolOptions<3>> {
    vec![
        plain([2, 1, 2]),
        PoolOptions { stride: [1, 2, 1], padding: [1, 0, 1], ..plain([2, 3, 2]) },
        PoolOptions { stride: [2, 1, 2], padding: [1, 1, 0], ceil_mode: true, count_include_pad: false, ..plain([3, 2, 2]) },
    ]
}

fn undilated<const N: usize>(options: Vec<PoolOptions<N>>) -> Vec<PoolOptions<N>> {
    options.into_iter().map(|options| PoolOptions { dilation: [1; N], ..options }).collect()
}

/// A row of maxima and their indices.
fn max_row<const N: usize>(
    op: &'static str,
    options: PoolOptions<N>,
    run: fn(&Tensor, PoolOptions<N>) -> Result<(Tensor, Tensor)>,
) -> OpCase {
    OpCase::new(op, text(&options))
        .input(Distinct)
        .exact()
        .double_backward()
        .differentiable_outputs(1)
        .run(move |x| run(&x[0], options))
        .oracle(move |x| max_pool(&x[0], &options))
}

fn maxima() -> Vec<OpCase> {
    let mut rows = Vec::new();
    for options in options_1d() {
        rows.push(max_row("max_pool1d", options, Tensor::max_pool1d_with_positions).also(INTEGERS).on([&[2, 3, 7]]).on([&[1, 1, 9]]));
    }
    rows[1] = rejecting_1d(
        rows[1]
            .clone()
            .on([&[0, 2, 5]])
            .adversarial("only -infinity", [Array::full(&[1, 2, 4], NEG_INFINITY)])
            .adversarial("nan", [Array::new(&[1, 1, 6], vec![1.0, f64::NAN, 9.0, f64::INFINITY, f64::NAN, NEG_INFINITY])]),
    );
    for options in options_3d() {
        rows.push(
            max_row("max_pool3d", options, Tensor::max_pool3d_with_positions)
                .also(INTEGERS)
                .on([&[2, 1, 3, 4, 5]])
                .on([&[1, 2, 2, 3, 3]]),
        );
    }
    let last = rows.pop().expect("there are rows");
    let special = vec![1.0, f64::NAN, 9.0, NEG_INFINITY, 3.0, 2.0, f64::NAN, f64::INFINITY, NEG_INFINITY, NEG_INFINITY, NEG_INFINITY, 0.0];
    rows.push(
        rejecting_3d(last)
            .on([&[0, 2, 3, 3, 3]])
            .adversarial("only -infinity", [Array::full(&[1, 1, 3, 2, 2], NEG_INFINITY)])
            .adversarial("nan", [Array::new(&[1, 1, 3, 2, 2], special)]),
    );
    // The rows of the pooling ops test these options in floating dtypes.
    let options = [
        plain([2, 3]),
        PoolOptions { stride: [2, 1], padding: [1, 1], dilation: [2, 1], ..plain([2, 3]) },
        PoolOptions { stride: [2, 2], padding: [1, 1], ceil_mode: true, ..plain([3, 3]) },
    ];
    rows.extend(options.map(|options| {
        let row = max_row("max_pool2d", options, Tensor::max_pool2d_with_positions);
        OpCase { double_backward: false, ..row }.dtypes(INTEGERS).on([&[2, 3, 6, 5]]).on([&[1, 1, 4, 7]])
    }));
    rows
}

fn rejecting_1d(row: OpCase) -> OpCase {
    row.rejects("max_pool1d: expected 3 axes, got shape [4, 4]", |device| {
        Tensor::zeros([4, 4], F32, device)?.max_pool1d(plain([2]))
    })
    .rejects("max_pool1d: input is bool, expected a number", |device| {
        Tensor::zeros([1, 1, 4], Bool, device)?.max_pool1d(plain([2]))
    })
    .rejects("max_pool1d: an input of shape [2, 0, 4] without channels", |device| {
        Tensor::zeros([2, 0, 4], F32, device)?.max_pool1d(plain([2]))
    })
    .rejects("max_pool1d: window [5] with dilation [1] is larger than image [4] with padding [0]", |device| {
        Tensor::zeros([1, 1, 4], F32, device)?.max_pool1d(plain([5]))
    })
    .rejects("max_pool1d: padding [2] is more than half of kernel [3]", |device| {
        Tensor::zeros([1, 1, 4], F32, device)?.max_pool1d(PoolOptions { padding: [2], ..plain([3]) })
    })
    .rejects("max_pool1d: kernel [2], stride [0] and dilation [1] must be at least 1", |device| {
        Tensor::zeros([1, 1, 4], F32, device)?.max_pool1d(PoolOptions { stride: [0], ..plain([2]) })
    })
    .rejects(
        "max_pool1d: a window (kernel [2], stride [2], padding [1], dilation [5]) on an image of [4] is entirely in the padding",
        |device| {
            let options = PoolOptions { padding: [1], dilation: [5], ..plain([2]) };
            Tensor::zeros([1, 1, 4], F32, device)?.max_pool1d(options)
        },
    )
}

fn rejecting_3d(row: OpCase) -> OpCase {
    row.rejects("max_pool3d: expected 5 axes, got shape [1, 4, 4, 4]", |device| {
        Tensor::zeros([1, 4, 4, 4], F32, device)?.max_pool3d(plain([2, 2, 2]))
    })
    .rejects(
        "max_pool3d: window [5, 1, 1] with dilation [1, 1, 1] is larger than image [4, 4, 4] with padding [0, 0, 0]",
        |device| Tensor::zeros([1, 1, 4, 4, 4], F32, device)?.max_pool3d(plain([5, 1, 1])),
    )
}

/// A row of means: linear, so that central differences are exact except for rounding. The sum of
/// elements of magnitude 4 may cancel.
fn mean_row<const N: usize>(
    op: &'static str,
    options: PoolOptions<N>,
    run: fn(&Tensor, PoolOptions<N>) -> Result<Tensor>,
) -> OpCase {
    let loose = Tolerance { abs: 2e-6, rel: 2e-6 };
    let kind = format!(
        "{} count_include_pad={} divisor={:?}",
        text(&options),
        options.count_include_pad,
        options.divisor_override
    );
    OpCase::new(op, kind)
        .input(Uniform(-4.0, 4.0))
        .f32_limit(loose.abs, loose.rel)
        .grad_tolerances(Tolerance { abs: 2e-9, rel: 2e-9 }, loose.times(10.0))
        .double_backward()
        .run(move |x| run(&x[0], options))
        .oracle(move |x| avg_pool(&x[0], &options))
}

fn means() -> Vec<OpCase> {
    let mut rows = Vec::new();
    for options in undilated(options_1d()) {
        rows.push(mean_row("avg_pool1d", options, Tensor::avg_pool1d).on([&[2, 3, 7]]).on([&[1, 1, 9]]));
    }
    rows[1] = rows[1]
        .clone()
        .on([&[0, 2, 5]])
        .adversarial("special", [Array::new(&[1, 1, 7], vec![1.0, f64::NAN, 9.0, NEG_INFINITY, 2.0, f64::INFINITY, 3.0])])
        .rejects("avg_pool1d: dilation [2], expected [1]", |device| {
            Tensor::zeros([1, 1, 4], F32, device)?.avg_pool1d(PoolOptions { dilation: [2], ..plain([2]) })
        })
        .rejects("avg_pool1d: input is i32, expected a floating dtype or i64", |device| {
            Tensor::zeros([1, 1, 4], I32, device)?.avg_pool1d(plain([2]))
        });
    for options in undilated(options_3d()) {
        rows.push(
            mean_row("avg_pool3d", options, Tensor::avg_pool3d).on([&[2, 1, 3, 4, 5]]).on([&[1, 2, 2, 3, 3]]),
        );
    }
    let last = rows.pop().expect("there are rows");
    rows.push(last.rejects("avg_pool3d: a divisor of 0", |device| {
        let options = PoolOptions { divisor_override: Some(0), ..plain([2, 2, 2]) };
        Tensor::zeros([1, 1, 4, 4, 4], F32, device)?.avg_pool3d(options)
    }));
    rows
}

/// Sums with an explicit divisor, and integers, whose means are rounded toward zero.
fn divided() -> Vec<OpCase> {
    let ceiling = PoolOptions { stride: [2, 2], padding: [1, 1], ceil_mode: true, ..plain([3, 2]) };
    let divided_by = |divisor: i64| PoolOptions { divisor_override: Some(divisor), ..ceiling };
    let row = |options: PoolOptions| mean_row("avg_pool2d", options, Tensor::avg_pool2d).on([&[2, 3, 6, 5]]);
    vec![
        row(divided_by(3)),
        row(divided_by(-2)).on([&[0, 2, 3, 3]]),
        row(ceiling).adversarial("special", [Array::new(&[1, 1, 2, 3], vec![1.0, f64::NAN, 9.0, NEG_INFINITY, 2.0, f64::INFINITY])]),
        integers(row(ceiling)),
        integers(row(divided_by(3))),
        integers(row(PoolOptions { count_include_pad: false, ..ceiling })),
        integers(mean_row("avg_pool1d", plain([3]), Tensor::avg_pool1d).on([&[2, 2, 7]])),
        integers(mean_row("avg_pool3d", options_3d()[1], Tensor::avg_pool3d).on([&[1, 2, 2, 3, 3]])),
    ]
}

fn integers(mut row: OpCase) -> OpCase {
    row.parameters += " integers";
    row.double_backward = false;
    row.inputs = vec![Integers(-90, 90).into()];
    let means = row.oracle.take().expect("an oracle");
    let rounded = move |dtype: DType, x: &[Array]| {
        let means = means(dtype, x);
        means.into_iter().map(|mean| mean.map(f64::trunc)).collect::<Vec<_>>()
    };
    row.dtypes(&[I64]).exact().oracle_for(rounded)
}

/// Roots of sums of powers.
fn powers() -> Vec<OpCase> {
    let positive = || Values::custom(|shapes, position, rng| {
        (0..shapes[position].iter().product()).map(|_| rng.uniform(0.5, 2.5)).collect()
    });
    let options_1d = PoolOptions { stride: [2], ceil_mode: true, ..plain([3]) };
    let options_2d = plain([2, 3]);
    let options_3d = PoolOptions { stride: [1, 1, 2], ..plain([2, 1, 2]) };
    let named = |op, p: f64, kind: String, values: Values| {
        OpCase::new(op, format!("p={p} {kind}")).input(values).f32_limit(3e-6, 4e-6).double_backward()
    };
    let mut rows = Vec::new();
    for (p, values) in [(2.0, AwayFrom(0.5)), (1.5, positive()), (-1.0, positive())] {
        rows.push(
            named("lp_pool1d", p, text(&options_1d), values.clone())
                .on([&[2, 2, 6]])
                .run(move |x| x[0].lp_pool1d(p, options_1d))
                .oracle(move |x| lp_pool(&x[0], p, &options_1d)),
        );
        rows.push(
            named("lp_pool2d", p, text(&options_2d), values.clone())
                .on([&[2, 1, 4, 3]])
                .run(move |x| x[0].lp_pool2d(p, options_2d))
                .oracle(move |x| lp_pool(&x[0], p, &options_2d)),
        );
        rows.push(
            named("lp_pool3d", p, text(&options_3d), values)
                .on([&[1, 2, 2, 2, 4]])
                .run(move |x| x[0].lp_pool3d(p, options_3d))
                .oracle(move |x| lp_pool(&x[0], p, &options_3d)),
        );
    }
    rows[0] = rows[0]
        .clone()
        .adversarial("zeros", [Array::zeros(&[1, 1, 5])])
        .adversarial("special", [Array::new(&[1, 1, 5], vec![f64::NAN, 1.0, NEG_INFINITY, 3.0, f64::INFINITY])])
        .rejects("lp_pool1d: p of 0, expected another number than 0", |device| {
            Tensor::zeros([1, 1, 4], F32, device)?.lp_pool1d(0.0, plain([2]))
        })
        .rejects("lp_pool1d: input is i64, expected a floating dtype", |device| {
            Tensor::zeros([1, 1, 4], I64, device)?.lp_pool1d(2.0, plain([2]))
        });
    rows
}

/// Windows of 2^32 elements on small images use only as much memory as the image.
fn huge_windows() -> Vec<OpCase> {
    let length = 1usize << 32;
    let wide = PoolOptions { ceil_mode: true, ..plain([length]) };
    let bordered = PoolOptions { padding: [length / 2], stride: [1], ..plain([length]) };
    let flat = PoolOptions { padding: [0, length / 2], stride: [1, 2], ..plain([1, length]) };
    vec![
        max_row("max_pool1d", wide, Tensor::max_pool1d_with_positions).on([&[3, 4, 1]]).on([&[1, 1, 5]]),
        max_row("max_pool1d", bordered, Tensor::max_pool1d_with_positions).on([&[1, 2, 5]]),
        mean_row("avg_pool1d", wide, Tensor::avg_pool1d).on([&[3, 4, 1]]).on([&[1, 1, 5]]),
        mean_row("avg_pool1d", PoolOptions { count_include_pad: false, ..bordered }, Tensor::avg_pool1d).on([&[1, 2, 5]]),
        max_row("max_pool2d", flat, Tensor::max_pool2d_with_positions).on([&[1, 2, 2, 3]]),
    ]
}
