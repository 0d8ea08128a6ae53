//! Rows of random numbers. The device is seeded with 0 before each call: the words are those of
//! seed 0, starting at block 0.

use crate::oracle::random_word;
use crate::prelude::*;
use std::f64::consts::TAU;
use ternion_core::dispatch::apply_on;
use ternion_core::ops::random::{Dropout, Normal, RandomBits, Uniform as UniformOp};
use ternion_core::{Op, Shape};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [primitives(), floats(), integers(), dropouts()].into_iter().flatten().collect()
}

const NUMBERS: &str = "random numbers depend on nothing";
/// 2^24: uniform floats have 24 random bits.
const STEPS: f64 = 16_777_216.0;
/// A negative seed.
const SEED: i64 = -0x1234_5678_9abc_def1;
/// A first block just below the carry into the upper half of the block counter.
const BASE: i64 = 0xffff_fffe;

fn uniform(word: u32) -> f64 {
    f64::from(word >> 8) / STEPS
}

/// Returns a normal number from two words (Box and Muller 1958).
fn normal(first: u32, second: u32) -> f64 {
    let u = f64::from((first >> 8) + 1) / STEPS;
    (-2.0 * u.ln()).sqrt() * (TAU * uniform(second)).cos()
}

/// Returns the first words of the stream that starts at block `first`.
fn words(first: u64, count: usize) -> Vec<u32> {
    (0..count).map(|at| random_word(0, first, at)).collect()
}

/// Returns the number of blocks that contain this many words.
fn blocks(words: usize) -> u64 {
    words.div_ceil(4) as u64
}

/// Returns a function that runs an op on the state of [`SEED`] and [`BASE`].
fn run_on_state(op: fn(DType) -> Op) -> impl Fn(&[Tensor], &Device, DType) -> Result<Vec<Tensor>> {
    move |_, device, dtype| {
        let state = Tensor::from_slice(&[SEED, BASE], [2], device)?;
        Ok(apply_on(op(dtype), device, &[&state])?.into_vec())
    }
}

/// Returns word `at` of the stream of [`SEED`] and [`BASE`], from an offset of 3 blocks.
fn word_at(at: usize) -> u32 {
    random_word(SEED as u64, (BASE as u64).wrapping_add(3), at)
}

fn small_shape() -> Shape {
    Shape::new(&[3, 7]).expect("a small shape")
}

/// The ops on the state of [`SEED`] and [`BASE`] with an offset, so that every part of the counter
/// matters.
fn primitives() -> Vec<OpCase> {
    let mut cases = random_bits();
    cases.extend([
        OpCase::new("uniform", "op")
            .on([])
            .dtypes(&[F64, F32])
            .exact()
            .forward_only(NUMBERS)
            .run_on(run_on_state(|dtype| {
                UniformOp { shape: Shape::new(&[3, 7]).expect("small"), dtype, offset: 3 }.into()
            }))
            .oracle(move |_| Array::new(&[3, 7], (0..21).map(|at| uniform(word_at(at))).collect()))
            .rejects("uniform: output is bf16, expected f32 or f64", move |device| {
                let state = Tensor::zeros([2], I64, device)?;
                let op = UniformOp { shape: small_shape(), dtype: BF16, offset: 0 };
                Ok(apply_on(op, device, &[&state])?.into_vec())
            }),
        OpCase::new("normal", "op")
            .on([])
            .dtypes(&[F64, F32])
            .forward_only(NUMBERS)
            // Composed of f32 ops: the angle, up to 2 pi, is rounded to 2.4e-7, times a radius of
            // at most 5.8. Kernels of backends have stricter limits in normals.rs.
            .f32_limit(2e-6, 2e-6)
            .run_on(run_on_state(|dtype| {
                Normal { shape: Shape::new(&[3, 7]).expect("small"), dtype, offset: 3 }.into()
            }))
            .oracle(move |_| {
                Array::new(&[3, 7], (0..21).map(|at| normal(word_at(2 * at), word_at(2 * at + 1))).collect())
            })
            .rejects("normal: state has shape [3], expected [2]", move |device| {
                let state = Tensor::zeros([3], I64, device)?;
                let op = Normal { shape: small_shape(), dtype: F32, offset: 0 };
                Ok(apply_on(op, device, &[&state])?.into_vec())
            }),
    ]);
    cases
}

/// The rows of `random_bits` among the primitives.
fn random_bits() -> Vec<OpCase> {
    vec![
        OpCase::new("random_bits", "bits=31")
            .on([])
            .dtypes(&[I32])
            .exact()
            .forward_only(NUMBERS)
            .run_on(run_on_state(|_| {
                RandomBits { shape: Shape::new(&[3, 7]).expect("small"), bits: 31, offset: 3 }.into()
            }))
            .oracle(move |_| Array::new(&[3, 7], (0..21).map(|at| f64::from(word_at(at) >> 1)).collect()))
            .rejects("random_bits: 32 bits, expected 1 to 31", move |device| {
                let state = Tensor::zeros([2], I64, device)?;
                let op = RandomBits { shape: small_shape(), bits: 32, offset: 0 };
                Ok(apply_on(op, device, &[&state])?.into_vec())
            })
            .rejects("random_bits: state is i32, expected i64", move |device| {
                let state = Tensor::zeros([2], I32, device)?;
                let op = RandomBits { shape: small_shape(), bits: 8, offset: 0 };
                Ok(apply_on(op, device, &[&state])?.into_vec())
            }),
        OpCase::new("random_bits", "bits=1")
            .on([])
            .dtypes(&[I32])
            .exact()
            .forward_only(NUMBERS)
            .run_on(run_on_state(|_| {
                RandomBits { shape: Shape::new(&[3, 7]).expect("small"), bits: 1, offset: 3 }.into()
            }))
            .oracle(move |_| Array::new(&[3, 7], (0..21).map(|at| f64::from(word_at(at) >> 31)).collect())),
        OpCase::new("random_bits", "empty")
            .on([])
            .dtypes(&[I32])
            .exact()
            .forward_only(NUMBERS)
            .run_on(run_on_state(|_| {
                RandomBits { shape: Shape::new(&[0, 7]).expect("small"), bits: 8, offset: 3 }.into()
            }))
            .oracle(|_| Array::zeros(&[0, 7])),
    ]
}

fn floats() -> Vec<OpCase> {
    let numbers =
        |op: &'static str, parameters: &str| OpCase::new(op, parameters).on([]).forward_only(NUMBERS);
    // Rounded to half precision, a number just below 1 would be 1.
    let below_one = |dtype: DType, value: f64| match dtype {
        F16 => value.min(1.0 - 1.0 / 2048.0),
        BF16 => value.min(1.0 - 1.0 / 256.0),
        _ => value,
    };
    vec![
        numbers("rand", "[5,33]")
            .exact()
            .run_on(|_, device, dtype| Tensor::rand([5, 33], dtype, device))
            .oracle_for(move |dtype, _| {
                let values = words(0, 165).into_iter().map(|word| below_one(dtype, uniform(word)));
                Array::new(&[5, 33], values.collect())
            })
            .rejects("rand: output is i32, expected a floating dtype", |device| {
                Tensor::rand([2], I32, device)
            }),
        // 65536 numbers: with bf16's 8 bits, one in 512 would round to 1.
        numbers("rand", "largest")
            .dtypes(&[F16, BF16])
            .exact()
            .run_on(|_, device, dtype| Tensor::rand([65536], dtype, device)?.max_all())
            .oracle_for(move |dtype, _| {
                let largest = words(0, 65536).into_iter().map(uniform).fold(0.0, f64::max);
                Array::scalar(below_one(dtype, largest))
            }),
        // The second call continues after the first, at the next block boundary.
        numbers("rand", "twice")
            .exact()
            .run_on(|_, device, dtype| {
                Ok((Tensor::rand([5], dtype, device)?, Tensor::rand([3], dtype, device)?))
            })
            .oracle_for(move |dtype, _| {
                let draw = |first, count| {
                    let values = words(first, count).into_iter().map(|word| below_one(dtype, uniform(word)));
                    Array::new(&[count], values.collect())
                };
                (draw(0, 5), draw(2, 3))
            }),
        numbers("randn", "[5,33]")
            .f32_limit(2e-6, 2e-6)
            .run_on(|_, device, dtype| Tensor::randn([5, 33], dtype, device))
            .oracle(|_| {
                let words = words(0, 330);
                Array::new(&[5, 33], words.chunks(2).map(|pair| normal(pair[0], pair[1])).collect())
            })
            .rejects("randn: output is bool, expected a floating dtype", |device| {
                Tensor::randn([2], Bool, device)
            }),
        OpCase::new("bernoulli", "")
            .input(Uniform(0.0, 1.0))
            .shapes([&[], &[7, 33], &[0]])
            .exact()
            .forward_only("it has none")
            .run(|x| x[0].bernoulli())
            .oracle(|x| {
                let words = words(0, x[0].elements());
                let data =
                    x[0].data.iter().zip(words).map(|(&p, word)| f64::from(u8::from(uniform(word) < p)));
                Array::new(&x[0].shape, data.collect())
            })
            .adversarial("certain", [Array::new(&[4], vec![0.0, 1.0, f64::NAN, 2.0])])
            .rejects("bernoulli: probability is i32, expected a floating dtype", |device| {
                Tensor::zeros([2], I32, device)?.bernoulli()
            }),
        numbers("bernoulli_scalar", "p=0.3")
            .also(&[I32, I16, I8, U8, Bool])
            .exact()
            .run_on(|_, device, dtype| Tensor::bernoulli_scalar(0.3, [5, 33], dtype, device))
            .oracle(|_| {
                let hits = words(0, 165).into_iter().map(|word| f64::from(u8::from(uniform(word) < 0.3)));
                Array::new(&[5, 33], hits.collect())
            })
            .rejects("bernoulli: probability 1.5, expected 0 to 1", |device| {
                Tensor::bernoulli_scalar(1.5, [2], F32, device)
            }),
    ]
}

fn integers() -> Vec<OpCase> {
    let randint = |parameters: &str, low: i64, high: i64| {
        OpCase::new("randint", parameters)
            .on([])
            .dtypes(&[I64, I32])
            .exact()
            .forward_only(NUMBERS)
            .run_on(move |_, device, dtype| Tensor::randint(low, high, [7, 9], dtype, device))
    };
    // Two times 63 words: the upper 31 bits of each number, then `bits` lower bits.
    let expected = |low: i64, high: i64, bits: u32| {
        let values = (high - low) as u64;
        let (first, rest) = (words(0, 63), words(blocks(63), 63));
        let numbers = first.into_iter().zip(rest).map(move |(first, rest)| {
            let number = (u64::from(first >> 1) << bits) + u64::from(rest >> (32 - bits));
            (low + (number % values) as i64) as f64
        });
        Array::new(&[7, 9], numbers.collect())
    };
    vec![
        randint("0..10", 0, 10)
            .oracle(move |_| expected(0, 10, 16))
            .rejects("randint: no integer from 3 up to, not including, 3", |device| {
                Tensor::randint(3, 3, [2], I64, device)
            })
            .rejects("randint: output is f32, expected an integer dtype", |device| {
                Tensor::randint(0, 3, [2], F32, device)
            })
            .rejects("randint: 0..2147483649 does not fit i32", |device| {
                Tensor::randint(0, 1 << 31 | 1, [2], I32, device)
            })
            .rejects("randint: 0..2199023255552 has more than 2^40 values", |device| {
                Tensor::randint(0, 1 << 41, [2], I64, device)
            }),
        randint("bytes", 3, 120).dtypes(&[I16, I8, U64, U32, U16, U8]).oracle(move |_| expected(3, 120, 16)),
        randint("all of i8", -128, 128)
            .dtypes(&[I16, I8])
            .oracle(move |_| expected(-128, 128, 16))
            .rejects("randint: 0..129 does not fit i8", |device| Tensor::randint(0, 129, [2], I8, device)),
        randint("all of u8", 0, 256)
            .dtypes(&[I16, U8])
            .oracle(move |_| expected(0, 256, 16))
            .rejects("randint: -1..5 does not fit u8", |device| Tensor::randint(-1, 5, [2], U8, device)),
        randint("all of i16", -32768, 32768).dtypes(&[I16]).oracle(move |_| expected(-32768, 32768, 15)),
        randint("all of u16", 0, 65536)
            .dtypes(&[U32, U16])
            .oracle(move |_| expected(0, 65536, 15))
            .rejects("randint: 0..65537 does not fit u16", |device| Tensor::randint(0, 65537, [2], U16, device))
            .rejects("randint: -1..5 does not fit u64", |device| Tensor::randint(-1, 5, [2], U64, device)),
        randint("-5..-4", -5, -4).oracle(move |_| expected(-5, -4, 16)),
        randint("-700..60000", -700, 60000).oracle(move |_| expected(-700, 60000, 15)),
        randint("0..2^20", 0, 1 << 20).oracle(move |_| expected(0, 1 << 20, 11)),
        randint("all of i32", i32::MIN.into(), 1 << 31).oracle(move |_| expected(i32::MIN.into(), 1 << 31, 31)),
        randint("large", -3, 3_000_000_000).dtypes(&[I64]).oracle(move |_| expected(-3, 3_000_000_000, 31)),
        OpCase::new("permutation", "17")
            .on([])
            .dtypes(&[I32])
            .exact()
            .forward_only(NUMBERS)
            .run_on(|_, device, _| Tensor::permutation(17, device))
            .oracle(|_| {
                let sorted = |first: u64| {
                    let keys = words(first, 17);
                    let mut order: Vec<usize> = (0..17).collect();
                    order.sort_by_key(|&at| keys[at] >> 1);
                    order
                };
                let (first, second) = (sorted(0), sorted(blocks(17)));
                Array::new(&[17], second.into_iter().map(|at| first[at] as f64).collect())
            }),
        OpCase::new("permutation", "nothing")
            .on([])
            .dtypes(&[I32])
            .exact()
            .forward_only(NUMBERS)
            .run_on(|_, device, _| Tensor::permutation(0, device))
            .oracle(|_| Array::zeros(&[0])),
    ]
}

fn dropouts() -> Vec<OpCase> {
    let row = |parameters: &str, p: f64| {
        OpCase::new("dropout", parameters)
            .input(Uniform(-2.0, 2.0))
            .shapes([&[], &[7, 33], &[0]])
            .double_backward()
            .run(move |x| x[0].dropout(p))
            .oracle(move |x| {
                let words = words(0, x[0].elements());
                let kept = x[0].data.iter().zip(words).map(|(&x, word)| match uniform(word) >= p {
                    true => x / (1.0 - p),
                    false => 0.0,
                });
                Array::new(&x[0].shape, kept.collect())
            })
    };
    vec![
        row("p=0.3", 0.3)
            .adversarial("not finite", [Array::new(&[3], vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY])])
            .rejects("dropout: probability -0.5, expected 0 to 1", |device| {
                Tensor::zeros([2], F32, device)?.dropout(-0.5)
            })
            .rejects("dropout: probability NaN, expected 0 to 1", |device| {
                Tensor::zeros([2], F32, device)?.dropout(f64::NAN)
            })
            .rejects("dropout: input is i32, expected a floating dtype", |device| {
                Tensor::zeros([2], I32, device)?.dropout(0.5)
            })
            .perf([&[8192, 1024]]),
        row("p=0", 0.0),
        row("p=1", 1.0),
        OpCase::new("dropout", "op offset=5")
            .input(Uniform(-2.0, 2.0))
            // The second shape has more elements than one thread processes.
            .shapes([&[3, 7], &[16500]])
            .run_on(|x, device, _| {
                let state = Tensor::from_slice(&[SEED, BASE], [2], device)?;
                Ok(apply_on(Dropout { p: 0.5, offset: 5 }, device, &[&x[0], &state])?.into_vec())
            })
            .oracle(|x| {
                let word = |at| random_word(SEED as u64, (BASE as u64).wrapping_add(5), at);
                let data = x[0].data.iter().enumerate();
                let kept = data.map(|(at, &x)| if uniform(word(at)) >= 0.5 { 2.0 * x } else { 0.0 });
                Array::new(&x[0].shape, kept.collect())
            }),
    ]
}
