//! Rows of random integers with the shape of another tensor, and of samples of categories by
//! probability. The device is seeded with 0 before each call.

use crate::oracle::random_word;
use crate::prelude::*;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    vec![integers(-4, 100), integers(3, 4), repeatedly(), without_replacement(), certain()]
}

/// Returns the first words of the stream that starts at block `first`.
fn words(first: u64, count: usize) -> Vec<u32> {
    (0..count).map(|at| random_word(0, first, at)).collect()
}

/// Returns uniform numbers in [0, 1).
fn uniforms(count: usize) -> Vec<f64> {
    words(0, count).into_iter().map(|word| f64::from(word >> 8) / 2f64.powi(24)).collect()
}

fn integers(low: i64, high: i64) -> OpCase {
    OpCase::new("randint_like", format!("{low}..{high}"))
        .input(Uniform(0.0, 1.0))
        .shapes([&[], &[5, 7], &[0, 3]])
        .also(SIGNED)
        .exact()
        .forward_only("random numbers depend on nothing")
        .run(move |x| x[0].randint_like(low, high))
        .oracle(move |x| {
            let count = x[0].elements();
            // 31 bits of a first word, extended by 16 bits of a second one.
            let pairs = words(0, count).into_iter().zip(words(count.div_ceil(4) as u64, count));
            let values = pairs.map(|(first, rest)| {
                let number = (u64::from(first >> 1) << 16) + u64::from(rest >> 16);
                (low + (number % (high - low) as u64) as i64) as f64
            });
            Array::new(&x[0].shape, values.collect())
        })
        .rejects("randint: no integer from 3 up to, not including, 3", |device| {
            Tensor::zeros([2], I64, device)?.randint_like(3, 3)
        })
        .rejects("randint: 0..300 does not fit u8", |device| Tensor::zeros([2], U8, device)?.randint_like(0, 300))
}

fn row(parameters: &str) -> OpCase {
    OpCase::new("multinomial", parameters).forward_only("they are steps").exact()
}

/// Returns the rows of a matrix, or the vector as a single row.
fn rows_of(x: &Array) -> Vec<&[f64]> {
    x.data.chunks(x.shape[x.rank() - 1]).collect()
}

/// Probabilities, a third of which are 0.
fn some_zero() -> Values {
    Values::custom(|shapes, position, rng| {
        let count: usize = shapes[position].iter().product();
        (0..count).map(|at| if at % 3 == 0 { 0.0 } else { rng.uniform(0.25, 4.0) }).collect()
    })
}

fn repeatedly() -> OpCase {
    let draw = |weights: &[f64], numbers: &[f64]| -> Vec<f64> {
        let sums: Vec<f64> = weights.iter().scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        }).collect();
        let total = sums[sums.len() - 1];
        numbers.iter().map(|uniform| sums.iter().filter(|&&sum| sum <= uniform * total).count() as f64).collect()
    };
    row("9 replacement=true")
        .input(some_zero())
        .shapes([&[5], &[2, 7], &[3, 2]])
        .run(|x| x[0].multinomial(9, true))
        .oracle(move |x| {
            let mut shape = x[0].shape.clone();
            shape[x[0].rank() - 1] = 9;
            let numbers = uniforms(shape.iter().product());
            let indices = rows_of(&x[0]).into_iter().zip(numbers.chunks(9)).flat_map(|(weights, numbers)| draw(weights, numbers));
            Array::new(&shape, indices.collect())
        })
        .rejects("multinomial: input is i32, expected a floating dtype", |device| {
            Tensor::ones([2], I32, device)?.multinomial(1, true)
        })
        .rejects("multinomial: 0 samples of shape [2], expected at least 1 of one or two axes", |device| {
            Tensor::ones([2], F32, device)?.multinomial(0, true)
        })
        .rejects("multinomial: 1 samples of shape [], expected at least 1 of one or two axes", |device| {
            Tensor::ones((), F32, device)?.multinomial(1, true)
        })
        .rejects(
            "multinomial: 1 samples of 0 categories with a probability above 0, replacement=true",
            |device| Tensor::zeros([2, 3], F32, device)?.multinomial(1, true),
        )
        .rejects("multinomial: a probability that is below 0, infinite or NaN", |device| {
            Tensor::full([2], -1.0, F32, device)?.multinomial(1, true)
        })
        .rejects("multinomial: a probability that is below 0, infinite or NaN", |device| {
            Tensor::full([2], f64::NAN, F32, device)?.multinomial(1, true)
        })
        .rejects("multinomial: a probability that is below 0, infinite or NaN", |device| {
            Tensor::full([2], f64::INFINITY, F32, device)?.multinomial(1, true)
        })
}

fn without_replacement() -> OpCase {
    row("3 replacement=false")
        .input(some_zero())
        .shapes([&[5], &[3, 9]])
        .run(|x| x[0].multinomial(3, false))
        .oracle(|x| {
            let mut shape = x[0].shape.clone();
            let categories = std::mem::replace(&mut shape[x[0].rank() - 1], 3);
            let numbers = uniforms(x[0].elements());
            let indices = rows_of(&x[0]).into_iter().zip(numbers.chunks(categories)).flat_map(|(weights, numbers)| {
                let rates: Vec<f64> = weights.iter().zip(numbers).map(|(weight, uniform)| weight / -(-uniform).ln_1p()).collect();
                let mut order: Vec<usize> = (0..categories).collect();
                order.sort_by(|&a, &b| rates[b].total_cmp(&rates[a]));
                order.into_iter().take(3).map(|at| at as f64).collect::<Vec<_>>()
            });
            Array::new(&shape, indices.collect())
        })
        .rejects(
            "multinomial: 3 samples of 2 categories with a probability above 0, replacement=false",
            |device| Tensor::ones([2], F32, device)?.multinomial(3, false),
        )
}

/// A single category with nonzero probability in each row.
fn certain() -> OpCase {
    row("one category")
        .input(Values::custom(|shapes, position, rng| {
            let (rows, categories) = (shapes[position][0], shapes[position][1]);
            let chosen: Vec<usize> = (0..rows).map(|_| rng.integer(0, categories as i64 - 1) as usize).collect();
            (0..rows * categories).map(|at| if at % categories == chosen[at / categories] { 0.5 } else { 0.0 }).collect()
        }))
        .shapes([&[1, 1], &[4, 5]])
        .run(|x| Ok((x[0].multinomial(1, false)?, x[0].multinomial(2, true)?)))
        .oracle(|x| {
            let samples = |count: usize| {
                let rows = rows_of(&x[0]).into_iter();
                let indices = rows.flat_map(|row| vec![row.iter().position(|&p| p > 0.0).unwrap_or(0) as f64; count]);
                Array::new(&[x[0].shape[0], count], indices.collect())
            };
            (samples(1), samples(2))
        })
}
