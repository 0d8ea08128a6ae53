//! The arithmetic of `kernels/gemm/split_bf16x3.cu` and of `wgmma.cu` with its bf16 terms, emulated
//! element by element on the host.

use crate::files::Program;
use half::bf16;

/// The values that can be split: zero, and magnitudes from `MIN_SPLITTABLE` to below
/// `SPLITTABLE_END`.
const MIN_SPLITTABLE: f32 = f32::from_bits((127 - 103) << 23);
const SPLITTABLE_END: f32 = f32::from_bits((127 + 48) << 23);

/// Terms of a and of b, in the order of the kernel.
const PAIRS: [(usize, usize); 6] = [(2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0)];
/// Elements along k of a stage, whose products the tensor cores add, and of an instruction.
const STAGE: usize = 32;
const INSTRUCTION: usize = 16;

fn is_splittable(x: f32) -> bool {
    x == 0.0 || (MIN_SPLITTABLE <= x.abs() && x.abs() < SPLITTABLE_END)
}

fn split(x: f32) -> [f32; 3] {
    let mut rest = x;
    [0; 3].map(|_| {
        let term = bf16::from_f32(rest).to_f32();
        rest -= term;
        term
    })
}

/// A generator of pseudorandom numbers.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 32) as u32
    }

    /// Returns a value with any exponent that can be split.
    fn splittable(&mut self) -> f32 {
        let exponent = 127 - 103 + self.bits() % (103 + 48);
        f32::from_bits((self.bits() & 0x807f_ffff) | (exponent << 23))
    }

    /// Returns a uniform value from (-1, 1).
    fn uniform(&mut self) -> f32 {
        self.bits() as f32 / (1u64 << 31) as f32 - 1.0
    }

    /// Returns an approximately normal value.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.uniform()).sum::<f32>() / 2.0
    }
}

#[test]
fn the_emulation_has_the_constants_of_the_kernels() {
    let text = |root: &str, file: &str| {
        let program = Program::new(&[root], std::iter::empty());
        let found = program.headers.iter().find(|(path, _)| *path == file);
        found.unwrap_or_else(|| panic!("no {file}")).1
    };
    let split = text("gemm/split_bf16x3.cu", "gemm/split_bf16x3.cu");
    assert!(split.contains("MIN_SPLITTABLE = (127 - 103) << 23, SPLITTABLE_END = (127 + 48) << 23"));
    let packed = |term: fn(&(usize, usize)) -> usize| {
        PAIRS.iter().enumerate().map(|(index, pair)| term(pair) << (4 * index)).sum::<usize>()
    };
    let (a, b) = (packed(|pair| pair.0), packed(|pair| pair.1));
    let stated = format!("TERMS_OF_A = {a:#08x}, TERMS_OF_B = {b:#08x}");
    assert!(text("gemm/wgmma.cu", "gemm/wgmma_bf16x6.cuh").contains(&stated), "{stated}");
    let stated = format!("TILE_K_BYTES = BF16X6 ? {} : LINE_BYTES", STAGE * 2);
    assert!(text("gemm/wgmma.cu", "gemm/wgmma_tile.cuh").contains(&stated), "{stated}");
}

#[test]
fn terms_are_normal_numbers_whose_sum_is_exact() {
    let mut random = Random(1);
    let below = f32::from_bits(SPLITTABLE_END.to_bits() - 1);
    let edges = [
        0.0,
        -0.0,
        MIN_SPLITTABLE,
        -MIN_SPLITTABLE,
        f32::from_bits(MIN_SPLITTABLE.to_bits() + 1),
        below,
        -below,
        1.0,
        0.1,
    ];
    for x in edges.into_iter().chain((0..1_000_000).map(|_| random.splittable())) {
        assert!(is_splittable(x), "{x:e}");
        let terms = split(x);
        assert_eq!(terms.iter().map(|&term| f64::from(term)).sum::<f64>(), f64::from(x), "{x:e}: {terms:?}");
        assert!(terms.iter().all(|term| *term == 0.0 || term.is_normal()), "{x:e}: {terms:?}");
        assert!(terms[1].abs() <= x.abs() * 2f32.powi(-8), "{x:e}: {terms:?}");
        assert!(terms[2].abs() <= x.abs() * 2f32.powi(-16), "{x:e}: {terms:?}");
    }
}

#[test]
fn numbers_outside_the_limits_are_not_splittable() {
    let outside =
        [f32::INFINITY, f32::NAN, f32::MAX, SPLITTABLE_END, 1e-40, f32::from_bits(1), MIN_SPLITTABLE / 2.0];
    for x in outside.into_iter().flat_map(|x| [x, -x]) {
        assert!(!is_splittable(x), "{x:e}");
    }
    // The reasons: the value rounds to infinity; a remainder is below all subnormal numbers; a term
    // is subnormal.
    assert!(split(f32::MAX)[0].is_infinite());
    let lossy = f32::from_bits(0x007f_ffff);
    assert_ne!(split(lossy).iter().sum::<f32>(), lossy);
    let small = f32::from_bits((MIN_SPLITTABLE / 2.0).to_bits() + 1);
    assert!(split(small).iter().any(|term| term.is_subnormal()), "{:?}", split(small));
    // Values inside the range never overflow in sums of as many products as there are indices.
    let largest = f64::from(bf16::from_f32(f32::from_bits(SPLITTABLE_END.to_bits() - 1)).to_f32());
    assert!(largest * largest * 2f64.powi(31) < f64::from(f32::MAX));
}

/// The magnitude of the three products that are omitted: less than one ulp of the product.
#[test]
fn omitted_products_are_small() {
    let (mut random, mut largest) = (Random(2), 0f64);
    for _ in 0..1_000_000 {
        let (x, y) = (random.uniform(), random.uniform());
        let (p, q) = (split(x).map(f64::from), split(y).map(f64::from));
        let sum: f64 = PAIRS.iter().map(|&(i, j)| p[i] * q[j]).sum();
        let exact = f64::from(x) * f64::from(y);
        largest = largest.max((sum - exact).abs() / exact.abs().max(f64::MIN_POSITIVE));
    }
    assert!(largest < 2f64.powi(-23), "{largest:e}");
    assert!(largest > 2f64.powi(-26), "{largest:e}: nothing is omitted");
}

/// Returns a sum as a tensor core instruction computes it: all terms are truncated to 25 bits below
/// the highest bit among them, then the sum is truncated to f32.
fn instruction(sum: f32, a: &[f32], b: &[f32]) -> f32 {
    let products = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
    let terms: Vec<f64> = std::iter::once(f64::from(sum)).chain(products).collect();
    let largest = terms.iter().fold(0f64, |largest, term| largest.max(term.abs()));
    if largest == 0.0 {
        return 0.0;
    }
    let unit = 2f64.powi(largest.log2().floor() as i32 - 24);
    let total: f64 = terms.iter().map(|term| (term / unit).trunc() * unit).sum();
    let rounded = total as f32;
    match f64::from(rounded).abs() > total.abs() {
        true => f32::from_bits(rounded.to_bits() - 1),
        false => rounded,
    }
}

fn dot_bf16x6(a: &[f32], b: &[f32]) -> f32 {
    let of = |x: &[f32], term: usize| x.iter().map(|&x| split(x)[term]).collect::<Vec<_>>();
    let [a, b] = [a, b].map(|x| [0, 1, 2].map(|term| of(x, term)));
    let length = a[0].len();
    let mut sum = 0f32;
    for first in (0..length).step_by(STAGE) {
        let stage = first..length.min(first + STAGE);
        let mut products = 0f32;
        for (i, j) in PAIRS {
            let pairs = a[i][stage.clone()].chunks(INSTRUCTION).zip(b[j][stage.clone()].chunks(INSTRUCTION));
            for (a, b) in pairs {
                products = instruction(products, a, b);
            }
        }
        sum += products;
    }
    sum
}

fn dot_in_f32(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).fold(0f32, |sum, (&a, &b)| a.mul_add(b, sum))
}

/// Returns the root mean square of the errors of several sums, as bf16x6 and in f32, relative to
/// the sums of the terms' magnitudes. `number` returns the element of a with an index, and with
/// index 0 the elements of b.
fn errors(k: usize, number: impl Fn(&mut Random, usize) -> f32) -> [f64; 2] {
    const SUMS: usize = 24;
    let (mut random, mut squares) = (Random(3), [0f64; 2]);
    for _ in 0..SUMS {
        let a: Vec<f32> = (0..k).map(|index| number(&mut random, index)).collect();
        let b: Vec<f32> = (0..k).map(|_| number(&mut random, 0)).collect();
        let terms = || a.iter().zip(&b).map(|(&a, &b)| f64::from(a) * f64::from(b));
        let (exact, scale): (f64, f64) = (terms().sum(), terms().map(f64::abs).sum());
        for (square, found) in squares.iter_mut().zip([dot_bf16x6(&a, &b), dot_in_f32(&a, &b)]) {
            *square += ((f64::from(found) - exact) / scale).powi(2);
        }
    }
    squares.map(|square| (square / SUMS as f64).sqrt())
}

/// The error of bf16x6 sums is not larger than that of f32 sums by consecutive fused multiply-adds.
#[test]
fn bf16x6_sums_are_as_accurate_as_f32_sums() {
    let normal = |random: &mut Random, _| random.normal();
    let positive = |random: &mut Random, _| random.uniform().abs();
    let wide = |random: &mut Random, _| random.normal() * 2f32.powi((random.bits() % 41) as i32 - 20);
    // Each term is followed by one that cancels nearly all of it.
    let cancelling = |random: &mut Random, index: usize| {
        let sign = if index.is_multiple_of(2) { 1.0 } else { -1.0 };
        sign * (1.0 + random.uniform() * 2f32.powi(-12))
    };
    for (what, number) in [
        ("normal", &normal as &dyn Fn(&mut Random, usize) -> f32),
        ("positive", &positive),
        ("wide exponents", &wide),
        ("canceling", &cancelling),
    ] {
        for k in [64, 96, 128, 256, 1024, 4096, 65536] {
            let [in_bf16x6, in_f32] = errors(k, number);
            println!("{what}, k {k}: {in_bf16x6:.1e}, in f32 {in_f32:.1e}");
            assert!(in_bf16x6 <= in_f32, "{what}, k {k}: {in_bf16x6:e}, in f32 {in_f32:e}");
        }
    }
}
