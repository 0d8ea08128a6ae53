//! Rows of activations that are compositions.

use crate::cases::binary::both_gradients;
use crate::cases::unary::around_bounds;
use crate::oracle::random_word;
use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let mut rows = vec![hardtanh()];
    rows.extend(prelu());
    rows.extend(elementwise());
    rows.extend(with_parameters());
    rows.extend(replaced());
    rows.extend([softmin(), glu(), rrelu(), rrelu_mean()]);
    rows.extend(gumbel_softmax());
    rows
}

/// Like `clamp`, except that the gradient at the bounds is 0 (`python/tests/test_edges.py`).
fn hardtanh() -> OpCase {
    let clamped = |x: f64| if x.is_nan() { x } else { x.clamp(-0.75, 1.25) };
    let edges = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.75, 1.25];
    OpCase::new("hardtanh", "low=-0.75 high=1.25")
        .input(around_bounds())
        .shapes([&[], &[0, 3], &[13], &[7, 33]])
        .run(|x| x[0].hardtanh(-0.75, 1.25))
        .oracle(move |x| x[0].map(clamped))
        .adversarial("bounds", [Array::new(&[5], edges)])
}

fn prelu() -> Vec<OpCase> {
    let row = |parameters: &str| OpCase::new("prelu", parameters).input(AwayFrom(0.25)).input(Uniform(-0.5, 0.75)).double_backward();
    let prelu_of = |x: f64, weight: f64| if x > 0.0 { x } else { weight * x };
    let infinity = f64::INFINITY;
    vec![
        row("")
            .on([&[], &[]])
            .on([&[7, 33], &[1]])
            .on([&[0, 3], &[1]])
            .run(|x| x[0].prelu(&x[1]))
            .oracle(move |x| {
                let weight = x[1].data[0];
                x[0].map(|x| prelu_of(x, weight))
            })
            .adversarial("special", [Array::new(&[5], vec![f64::NAN, infinity, -infinity, 0.0, -0.0]), Array::new(&[1], vec![0.5])])
            .rejects("prelu: weight of shape [2], expected [1] or [3]", |device| {
                Tensor::zeros([2, 3], F32, device)?.prelu(&Tensor::zeros([2], F32, device)?)
            })
            .rejects("prelu: input is i32, expected a floating dtype", |device| {
                let x = Tensor::zeros([1], I32, device)?;
                x.prelu(&x)
            }),
        row("channels")
            .on([&[5, 3], &[3]])
            .on([&[2, 3, 5], &[3]])
            .on([&[2, 3, 2, 3], &[3]])
            .run(|x| x[0].prelu(&x[1]))
            .oracle(move |x| Array::from_fn(&x[0].shape, |at| prelu_of(x[0].at(at), x[1].at(&[at[1]])))),
        // An infinite element above 0 does not contribute to the gradient of the weight.
        OpCase::new("prelu", "gradient next to infinities")
            .input(Fixed(vec![infinity, -2.0, 3.0, 0.0]))
            .input(Fixed(vec![0.5]))
            .on([&[4], &[1]])
            .forward_only("compares gradients themselves")
            .run(|x| both_gradients(x, |x, weight| x.prelu(weight)))
            .oracle(|_| (Array::new(&[4], vec![1.0, 0.5, 1.0, 0.5]), Array::new(&[1], vec![-2.0]))),
    ]
}

/// Numbers at which formulas branch, infinities and NaN.
fn specials() -> Array {
    let infinity = f64::INFINITY;
    let values = vec![f64::NAN, infinity, -infinity, 0.0, -0.0, 3.0, -3.0, 0.5, -0.5, 100.0, -100.0, 1e-30, 60000.0];
    Array::new(&[values.len()], values)
}

fn row(op: &'static str, parameters: &str, values: Values) -> OpCase {
    OpCase::new(op, parameters)
        .input(values)
        .shapes([&[], &[0, 3], &[13], &[7, 33]])
        .adversarial("special", [specials()])
        .perf([&[8192, 1024]])
}

/// Values at least a quarter away from two bounds, where central differences would mix two
/// formulas.
fn clear_of(bound: f64) -> Values {
    Values::custom(move |shapes, position, rng| {
        let value = |rng: &mut Rng| match rng.integer(0, 2) {
            0 => rng.uniform(-2.0 * bound, -bound - 0.25),
            1 => rng.uniform(0.25 - bound, bound - 0.25),
            _ => rng.uniform(bound + 0.25, 2.0 * bound),
        };
        (0..shapes[position].iter().product()).map(|_| value(rng)).collect()
    })
}

fn elementwise() -> Vec<OpCase> {
    type Method = fn(&Tensor) -> Result<Tensor>;
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    let hardsigmoid_of = |x: f64| if x.is_nan() { x } else { (x + 3.0).clamp(0.0, 6.0) / 6.0 };
    let selu = |x: f64| {
        let (alpha, scale) = (1.673_263_242_354_377_2, 1.050_700_987_355_480_5);
        if x <= 0.0 { scale * alpha * x.exp_m1() } else { scale * x }
    };
    let functions: [(&'static str, Values, Method, Box<dyn Fn(f64) -> f64 + Send + Sync>); 7] = [
        ("selu", AwayFrom(0.25), Tensor::selu, Box::new(selu)),
        ("mish", Uniform(-4.0, 4.0), Tensor::mish, Box::new(move |x| x * softplus(x).tanh())),
        ("softsign", AwayFrom(0.25), Tensor::softsign, Box::new(|x| x / (1.0 + x.abs()))),
        ("tanhshrink", Uniform(-4.0, 4.0), Tensor::tanhshrink, Box::new(|x| x - x.tanh())),
        ("logsigmoid", Uniform(-8.0, 8.0), Tensor::logsigmoid, Box::new(move |x| -softplus(-x))),
        ("hardsigmoid", clear_of(3.0), Tensor::hardsigmoid, Box::new(hardsigmoid_of)),
        ("hardswish", clear_of(3.0), Tensor::hardswish, Box::new(move |x| x * hardsigmoid_of(x))),
    ];
    let with = |(op, values, run, definition): (&'static str, Values, Method, Box<dyn Fn(f64) -> f64 + Send + Sync>)| {
        row(op, "", values)
            .double_backward()
            .run(move |x| run(&x[0]))
            .oracle(move |x| x[0].map(&definition))
            .rejects(format!("{op}: input is i64, expected a floating dtype"), move |device| {
                run(&Tensor::zeros([2], I64, device)?)
            })
    };
    functions.into_iter().map(with).collect()
}

fn with_parameters() -> [OpCase; 3] {
    let celu = |alpha: f64| {
        row("celu", &format!("alpha={alpha}"), AwayFrom(0.25))
            .double_backward()
            .run(move |x| x[0].celu(alpha))
            .oracle(move |x| x[0].map(|x| if x <= 0.0 { alpha * (x / alpha).exp_m1() } else { x }))
            .rejects("celu: alpha 0, expected another number", |device| Tensor::zeros([2], F32, device)?.celu(0.0))
            .rejects("celu: input is i64, expected a floating dtype", |device| {
                Tensor::zeros([2], I64, device)?.celu(1.0)
            })
    };
    let softshrink = row("softshrink", "lambda=0.75", clear_of(0.75))
        .double_backward()
        .run(|x| x[0].softshrink(0.75))
        .oracle(|x| x[0].map(|x| if x > 0.75 { x - 0.75 } else if x < -0.75 { x + 0.75 } else { x * 0.0 }))
        .rejects("softshrink: lambda -1, expected at least 0", |device| {
            Tensor::zeros([2], F32, device)?.softshrink(-1.0)
        })
        .rejects("softshrink: input is i64, expected a floating dtype", |device| {
            Tensor::zeros([2], I64, device)?.softshrink(0.5)
        });
    [celu(1.0), celu(2.5), softshrink]
}

/// Activations that replace a range of values by a constant, also for integers.
fn replaced() -> Vec<OpCase> {
    let shrunk = |x: f64, lambda: f64| if (-lambda..=lambda).contains(&x) { 0.0 } else { x };
    let above = |x: f64, bound: f64, value: f64| if x <= bound { value } else { x };
    let integers = |op: &'static str, parameters: &str| {
        OpCase::new(op, parameters).input(Integers(-5, 5)).shapes([&[], &[7, 33]]).dtypes(SIGNED).exact()
    };
    vec![
        row("hardshrink", "lambda=0.75", clear_of(0.75))
            .double_backward()
            .exact()
            .run(|x| x[0].hardshrink(0.75))
            .oracle(move |x| x[0].map(|x| shrunk(x, 0.75)))
            .rejects("hardshrink: input is bool, expected a number", |device| {
                Tensor::zeros([2], Bool, device)?.hardshrink(0.5)
            }),
        integers("hardshrink", "integers").run(|x| x[0].hardshrink(2.0)).oracle(move |x| x[0].map(|x| shrunk(x, 2.0))),
        row("threshold", "0.75 and -2", around_bounds())
            .double_backward()
            .exact()
            .run(|x| x[0].threshold(-0.75, -2.0))
            .oracle(move |x| x[0].map(|x| above(x, -0.75, -2.0)))
            .rejects("threshold: input is bool, expected a number", |device| {
                Tensor::zeros([2], Bool, device)?.threshold(0.5, 0.0)
            }),
        integers("threshold", "integers").run(|x| x[0].threshold(1.0, -3.0)).oracle(move |x| x[0].map(|x| above(x, 1.0, -3.0))),
    ]
}

/// Returns `e^(x - max) / sum(e^(x - max))` of numbers.
fn softmax(x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = x.iter().map(|x| (x - max).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / total).collect()
}

fn softmin() -> OpCase {
    OpCase::new("softmin", "axis=1")
        .input(Uniform(-3.0, 3.0))
        .shapes([&[3, 5], &[2, 4, 3], &[0, 3], &[3, 1]])
        .double_backward()
        .run(|x| x[0].softmin(1))
        .oracle(|x| {
            Array::from_fn(&x[0].shape, |at| {
                let mut other = at.to_vec();
                let all = (0..x[0].shape[1]).map(|index| {
                    other[1] = index;
                    -x[0].at(&other)
                });
                softmax(&all.collect::<Vec<_>>())[at[1]]
            })
        })
        .rejects("softmin: input is i64, expected a floating dtype", |device| {
            Tensor::zeros([2], I64, device)?.softmin(0)
        })
}

fn glu() -> OpCase {
    OpCase::new("glu", "axis=1")
        .input(Uniform(-3.0, 3.0))
        .shapes([&[3, 6], &[2, 4, 3], &[0, 2], &[3, 0]])
        .double_backward()
        .run(|x| x[0].glu(1))
        .oracle(|x| {
            let mut shape = x[0].shape.clone();
            shape[1] /= 2;
            Array::from_fn(&shape, |at| {
                let mut gate = at.to_vec();
                gate[1] += shape[1];
                x[0].at(at) / (1.0 + (-x[0].at(&gate)).exp())
            })
        })
        .rejects("glu: size 3 along axis 0, expected an even one", |device| Tensor::zeros([3], F32, device)?.glu(0))
        .rejects("glu: axis 1 on shape [2]", |device| Tensor::zeros([2], F32, device)?.glu(1))
        .rejects("glu: input is i64, expected a floating dtype", |device| Tensor::zeros([2], I64, device)?.glu(0))
}

/// Returns the random number for the element at an index, uniform between 0 and 1; the device is
/// seeded with 0 before each call.
fn uniform_at(index: usize) -> f64 {
    f64::from(random_word(0, 0, index) >> 8) / 2f64.powi(24)
}

fn rrelu() -> OpCase {
    OpCase::new("rrelu", "training, 0.25 to 0.5")
        .input(AwayFrom(0.25))
        .shapes([&[], &[0, 3], &[7, 33]])
        .double_backward()
        .run(|x| x[0].rrelu(0.25, 0.5, true))
        .oracle(|x| {
            let sloped = |(index, &x): (usize, &f64)| if x > 0.0 { x } else { x * (0.25 + 0.25 * uniform_at(index)) };
            Array::new(&x[0].shape, x[0].data.iter().enumerate().map(sloped).collect())
        })
        .rejects("rrelu: slopes from 0.5 to 0.25, expected finite ones, the lower first", |device| {
            Tensor::zeros([2], F32, device)?.rrelu(0.5, 0.25, true)
        })
        .rejects("rrelu: input is i64, expected a floating dtype", |device| {
            Tensor::zeros([2], I64, device)?.rrelu(0.25, 0.5, false)
        })
}

fn rrelu_mean() -> OpCase {
    row("rrelu", "evaluation, 0.25 to 0.5", AwayFrom(0.25))
        .double_backward()
        .run(|x| x[0].rrelu(0.25, 0.5, false))
        .oracle(|x| x[0].map(|x| if x > 0.0 || x.is_nan() { x } else { 0.375 * x }))
}

/// The softmax of logits plus Gumbel noise, which is `-ln(-ln(u))` for the numbers `u` of
/// [`uniform_at`].
fn gumbel_softmax() -> [OpCase; 2] {
    let soft = |x: &Array, temperature: f64| {
        let columns = *x.shape.last().expect("an axis");
        let noisy = x.data.iter().enumerate().map(|(index, x)| (x - (-uniform_at(index).max(1e-38).ln()).max(1e-38).ln()) / temperature);
        let noisy: Vec<f64> = noisy.collect();
        Array::new(&x.shape, noisy.chunks(columns).flat_map(softmax).collect())
    };
    let row = |parameters: &str| OpCase::new("gumbel_softmax", parameters).input(Uniform(-2.0, 2.0)).shapes([&[3, 5], &[7]]);
    [
        row("temperature=0.75")
            .double_backward()
            .run(|x| x[0].gumbel_softmax(0.75, false, -1))
            .oracle(move |x| soft(&x[0], 0.75))
            .rejects("gumbel_softmax: temperature 0, expected above 0", |device| {
                Tensor::zeros([2], F32, device)?.gumbel_softmax(0.0, false, 0)
            })
            .rejects("gumbel_softmax: input is i64, expected a floating dtype", |device| {
                Tensor::zeros([2], I64, device)?.gumbel_softmax(1.0, false, 0)
            }),
        row("hard")
            .forward_only("its gradients are those of the soft choice (`python/tests/test_layers.py`)")
            .run(|x| x[0].gumbel_softmax(0.75, true, -1))
            .oracle(move |x| {
                let soft = soft(&x[0], 0.75);
                let columns = *soft.shape.last().expect("an axis");
                let hard = |row: &[f64]| {
                    let max = row.iter().copied().fold(0.0, f64::max);
                    row.iter().map(|&x| f64::from(x == max)).collect::<Vec<_>>()
                };
                Array::new(&soft.shape, soft.data.chunks(columns).flat_map(hard).collect())
            }),
    ]
}
