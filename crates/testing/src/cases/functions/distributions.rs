//! Rows of random distributions other than the uniform and the standard normal one, and of alpha
//! dropout. The device is seeded with 0 before each call.

use crate::oracle::random_word;
use crate::prelude::*;
use std::f64::consts::{PI, TAU};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [floats(), vec![geometric(), normal()], dropouts(), counts()].concat()
}

const NUMBERS: &str = "random numbers depend on nothing";

/// Returns the first words of the stream that starts at block `first`.
fn words(first: u64, count: usize) -> Vec<u32> {
    (0..count).map(|at| random_word(0, first, at)).collect()
}

/// Uniform numbers between 0 and 1; in f64 they use two words each.
fn uniforms(dtype: DType, count: usize) -> Vec<f64> {
    let first = words(0, count);
    if dtype != F64 {
        return first.into_iter().map(|word| (f64::from(word >> 9) + 0.5) / 2f64.powi(23)).collect();
    }
    let second = words(count.div_ceil(4) as u64, count);
    let pairs = first.into_iter().zip(second);
    pairs.map(|(a, b)| (f64::from(a >> 6) * 2f64.powi(26) + f64::from(b >> 6) + 0.5) / 2f64.powi(52)).collect()
}

/// Returns normal numbers (Box and Muller 1958).
fn normals(count: usize) -> Vec<f64> {
    let uniform = |word: u32| f64::from(word >> 8) / 2f64.powi(24);
    let random_words = words(0, 2 * count);
    let pairs = random_words.chunks(2);
    pairs.map(|pair| (-2.0 * (uniform(pair[0]) + 2f64.powi(-24)).ln()).sqrt() * (TAU * uniform(pair[1])).cos()).collect()
}

fn floats() -> Vec<OpCase> {
    let numbers = |op: &'static str, parameters: &str| OpCase::new(op, parameters).on([]).forward_only(NUMBERS);
    let array = |shape: &[usize], values: Vec<f64>| Array::new(shape, values);
    vec![
        numbers("exponential", "rate=2")
            .run_on(|_, device, dtype| Tensor::exponential(2.0, [5, 33], dtype, device))
            .oracle_for(move |dtype, _| array(&[5, 33], uniforms(dtype, 165).into_iter().map(|u| -u.ln() / 2.0).collect()))
            .rejects("exponential: rate 0, expected a finite number above 0", |device| {
                Tensor::exponential(0.0, [2], F32, device)
            })
            .rejects("exponential: output is i32, expected a floating dtype", |device| {
                Tensor::exponential(1.0, [2], I32, device)
            }),
        // Near a right angle the tangent is only as exact as the angle's difference from it: one in
        // 165 numbers is above 50.
        numbers("cauchy", "median=1 scale=0.5")
            .f64_limit(1e-12, 1e-12)
            .f32_limit(2e-6, 2e-4)
            .run_on(|_, device, dtype| Tensor::cauchy(1.0, 0.5, [5, 33], dtype, device))
            .oracle_for(move |dtype, _| {
                array(&[5, 33], uniforms(dtype, 165).into_iter().map(|u| 1.0 + 0.5 * (PI * (u - 0.5)).tan()).collect())
            })
            .rejects("cauchy: scale -1, expected a finite number above 0", |device| {
                Tensor::cauchy(0.0, -1.0, [2], F32, device)
            })
            .rejects("cauchy: median NaN, expected a finite number", |device| {
                Tensor::cauchy(f64::NAN, 1.0, [2], F32, device)
            }),
        numbers("log_normal", "mean=0.5 std=0.25")
            .f32_limit(4e-6, 4e-6)
            .run_on(|_, device, dtype| Tensor::log_normal(0.5, 0.25, [5, 33], dtype, device))
            .oracle(move |_| array(&[5, 33], normals(165).into_iter().map(|x| (0.5 + 0.25 * x).exp()).collect()))
            .rejects("log_normal: std 0, expected a finite number above 0", |device| {
                Tensor::log_normal(0.0, 0.0, [2], F32, device)
            }),
    ]
}

fn geometric() -> OpCase {
    OpCase::new("geometric", "p=0.3")
        .on([])
        .forward_only(NUMBERS)
        .also(INTEGERS)
        .exact()
        .run_on(|_, device, dtype| Tensor::geometric(0.3, [5, 33], dtype, device))
        .oracle_for(|dtype, _| {
            Array::new(&[5, 33], uniforms(dtype, 165).into_iter().map(|u| (u.ln() / 0.7f64.ln()).ceil()).collect())
        })
        .rejects("geometric: probability 1, expected above 0 and below 1", |device| {
            Tensor::geometric(1.0, [2], F32, device)
        })
        .rejects("geometric: output is bool, expected a number", |device| {
            Tensor::geometric(0.5, [2], Bool, device)
        })
}

fn normal() -> OpCase {
    OpCase::new("normal", "of tensors")
        .input(Uniform(-3.0, 3.0))
        .input(Uniform(0.5, 2.0))
        .on([&[5, 7], &[7]])
        .on([&[], &[]])
        .forward_only("it has none")
        .f32_limit(4e-6, 4e-6)
        .run(|x| Tensor::normal(&x[0], &x[1]))
        .oracle(|x| {
            let spread = x[0].zip(&x[1], |_, std| std);
            let noise = Array::new(&spread.shape, normals(spread.elements()));
            x[0].zip(&spread.zip(&noise, |std, noise| std * noise), |mean, noise| mean + noise)
        })
        .rejects("normal: shapes [2] and [3] do not broadcast", |device| {
            Tensor::normal(&Tensor::zeros([2], F32, device)?, &Tensor::zeros([3], F32, device)?)
        })
}

/// 1.0507 times 1.6733, the constants of selu with all digits.
const SATURATION: f64 = 1.050_700_987_355_480_5 * 1.673_263_242_354_377_2;

/// Alpha dropout, where a random word for each element or channel decides.
fn dropped(x: &Array, p: f64, word_of: impl Fn(&[usize]) -> usize) -> Array {
    let scale = 1.0 / ((1.0 - p) * (1.0 + SATURATION * SATURATION * p)).sqrt();
    let threshold = ((1.0 - p) * 2f64.powi(24)).ceil() as u32;
    Array::from_fn(&x.shape, |at| {
        let is_kept = random_word(0, 0, word_of(at)) >> 8 < threshold;
        scale * ((if is_kept { x.at(at) } else { -SATURATION }) + SATURATION * p)
    })
}

fn dropouts() -> Vec<OpCase> {
    let elements = OpCase::new("alpha_dropout", "p=0.3")
        .input(Uniform(-2.0, 2.0))
        .shapes([&[], &[5, 33], &[0]])
        .double_backward()
        .run(|x| x[0].alpha_dropout(0.3))
        .oracle(|x| {
            let shape = x[0].shape.clone();
            dropped(&x[0], 0.3, move |at| at.iter().zip(&shape).fold(0, |position, (&at, &size)| position * size + at))
        })
        .rejects("alpha_dropout: probability 1.5, expected 0 to 1", |device| {
            Tensor::zeros([2], F32, device)?.alpha_dropout(1.5)
        });
    let channels = OpCase::new("feature_alpha_dropout", "p=0.5")
        .input(Uniform(-2.0, 2.0))
        .shapes([&[4, 5], &[2, 3, 2, 2]])
        .double_backward()
        .run(|x| x[0].feature_alpha_dropout(0.5))
        .oracle(|x| {
            let channels = x[0].shape[1];
            dropped(&x[0], 0.5, move |at| at[0] * channels + at[1])
        })
        .rejects("feature_alpha_dropout: expected at least 2 axes, got shape [3]", |device| {
            Tensor::zeros([3], F32, device)?.feature_alpha_dropout(0.5)
        });
    let all = OpCase::new("alpha_dropout", "p=1 and 0")
        .input(Uniform(-2.0, 2.0))
        .shapes([&[7]])
        .run(|x| Ok((x[0].alpha_dropout(1.0)?, x[0].alpha_dropout(0.0)?)))
        .oracle(|x| (Array::zeros(&[7]), x[0].clone()));
    vec![elements, channels, all]
}

/// Returns whether the frequencies of many samples match the probabilities: Pearson's test, with a
/// limit of five standard deviations above the mean of chi squared.
fn is_fair(counts: &[f64], probability: impl Fn(f64) -> f64) -> bool {
    let total = counts.len() as f64;
    let (mut chi_squared, mut degrees_of_freedom, mut remaining_probability, mut observed_in_bins) = (0.0f64, -1.0f64, 1.0, 0.0);
    let largest = counts.iter().copied().fold(0.0, f64::max) as usize;
    // Counts that are expected fewer than 8 times share the last bin.
    for count in 0..=largest {
        let expected = probability(count as f64);
        if expected * total < 8.0 {
            continue;
        }
        let observed = counts.iter().filter(|&&value| value == count as f64).count() as f64;
        chi_squared += (observed - expected * total).powi(2) / (expected * total);
        (degrees_of_freedom, remaining_probability, observed_in_bins) = (degrees_of_freedom + 1.0, remaining_probability - expected, observed_in_bins + observed);
    }
    if remaining_probability * total >= 8.0 {
        chi_squared += (total - observed_in_bins - remaining_probability * total).powi(2) / (remaining_probability * total);
        degrees_of_freedom += 1.0;
    }
    degrees_of_freedom >= 3.0 && chi_squared < degrees_of_freedom + 5.0 * (2.0 * degrees_of_freedom).sqrt()
}

fn log_factorial(n: f64) -> f64 {
    (1..=n as u64).map(|k| (k as f64).ln()).sum()
}

fn counts() -> Vec<OpCase> {
    let verdict = |is_fair: bool, device: &Device| Tensor::full((), i64::from(is_fair), I32, device);
    let row = |op: &'static str, parameters: &str| {
        OpCase::new(op, parameters).on([]).dtypes(&[F32]).exact().forward_only(NUMBERS)
    };
    vec![
        row("poisson", "frequencies of rates 0.75, 9.5 and 40")
            .run_on(move |_, device, dtype| {
                let fair = |rate: f64| -> Result<bool> {
                    let counts = Tensor::full([20000], rate, dtype, device)?.poisson()?.to_vec_f64()?;
                    Ok(is_fair(&counts, |n| (n * rate.ln() - rate - log_factorial(n)).exp()))
                };
                verdict(fair(0.75)? && fair(9.5)? && fair(40.0)?, device)
            })
            .oracle(|_| Array::scalar(1.0))
            .rejects("poisson: a rate of -1, expected a finite number of at least 0", |device| {
                Tensor::full([2], -1.0, F32, device)?.poisson()
            })
            .rejects("poisson: input is i64, expected a floating dtype", |device| {
                Tensor::zeros([2], I64, device)?.poisson()
            }),
        row("binomial", "frequencies of 12 * 0.25, 90 * 0.5 and 60 * 0.75")
            .run_on(move |_, device, dtype| {
                let fair = |trials: f64, p: f64| -> Result<bool> {
                    let probabilities = Tensor::full([20000], p, dtype, device)?;
                    let counts = Tensor::full([20000], trials, dtype, device)?.binomial(&probabilities)?.to_vec_f64()?;
                    let choices = |n: f64| log_factorial(trials) - log_factorial(n) - log_factorial(trials - n);
                    Ok(is_fair(&counts, |n| (choices(n) + n * p.ln() + (trials - n) * (1.0 - p).ln()).exp()))
                };
                verdict(fair(12.0, 0.25)? && fair(90.0, 0.5)? && fair(60.0, 0.75)?, device)
            })
            .oracle(|_| Array::scalar(1.0))
            .rejects("binomial: probability 1.5, expected 0 to 1", |device| {
                Tensor::ones([2], F32, device)?.binomial(&Tensor::full([2], 1.5, F32, device)?)
            })
            .rejects("binomial: 0.5 trials, expected an integer of at least 0", |device| {
                let half = Tensor::full([2], 0.5, F32, device)?;
                half.binomial(&half)
            }),
        OpCase::new("binomial", "certain, and poisson of 0")
            .on([])
            .exact()
            .forward_only(NUMBERS)
            .run_on(|_, device, dtype| {
                let trials = Tensor::full([3], 50, dtype, device)?;
                let [never, always] = [0, 1].map(|p| Tensor::full([3], p, dtype, device));
                Ok((trials.binomial(&never?)?, trials.binomial(&always?)?, Tensor::zeros([0, 2], dtype, device)?.poisson()?))
            })
            .oracle(|_| (Array::zeros(&[3]), Array::full(&[3], 50.0), Array::zeros(&[0, 2]))),
    ]
}
