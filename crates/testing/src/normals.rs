//! Comparison of the random numbers of two devices with the same seed: uniforms, integers and
//! permutations bit by bit; normals within one ulp, nearly all bit-identical.

use ternion_core::dispatch::apply_on;
use ternion_core::ops::random::{Normal, RandomBits, Uniform};
use ternion_core::{DType, Device, Op, Result, Shape, Tensor, philox};

/// One of this many normals may differ from the reference in its bits. A device that computes in
/// f64 gets all except a few in 10^9 right, one that computes in pairs of f32 all except one in a
/// million.
const NORMALS_PER_DIFFERENCE: usize = 20_000;

/// The seed of [`EXTREMES`].
const SEED: u64 = 16;

/// Words of the random stream of [`SEED`] with extreme upper 24 bits: block index, word index in
/// the block, and these bits. A normal is `sqrt(-2 ln u) cos(2 pi v)` of an even and the next odd
/// word: the bits are `2^24 u - 1` for even words, and `2^24 v` for odd words.
const EXTREMES: [(u64, usize, u32); 16] = [
    // u is 2^-24 and 2^-23: the largest radii.
    (487_624, 0, 0x000000),
    (6_084_887, 0, 0x000001),
    // u is 1 - 2^-24 and 1: the smallest radii.
    (505_053, 0, 0xfffffe),
    (6_171_857, 0, 0xffffff),
    // v around 0, around the cosine's first zero, its minimum, its second zero, and a full period.
    (36_262_176, 3, 0x000000),
    (235_316, 1, 0x000001),
    (15_100_448, 1, 0x3fffff),
    (1_689_294, 3, 0x400000),
    (10_669_131, 1, 0x400001),
    (407_642, 1, 0x7fffff),
    (5_620_902, 1, 0x800000),
    (769_096, 1, 0x800001),
    (12_086_375, 3, 0xbfffff),
    (9_159_626, 1, 0xc00000),
    (5_777_287, 1, 0xc00001),
    (13_237_238, 3, 0xffffff),
];

/// Maps the bits of an f32 to an integer in the order of the numbers, so that neighbors differ
/// by 1.
fn order(value: f32) -> i64 {
    let size = i64::from(value.to_bits() & 0x7fff_ffff);
    if value.is_sign_negative() { -1 - size } else { size }
}

/// Compares f32 normals of several seeds and counts.
///
/// # Errors
/// Any error of a device.
///
/// # Panics
/// If a normal is more than one ulp from the reference, or more than one in 20,000 of them differ.
pub fn normals_agree(device: &Device, reference: &Device) -> Result<()> {
    let (mut compared, mut differing) = (0, 0);
    for (seed, count) in [(0, 200_001), (7, 65_537), (u64::MAX, 131_071), (42, 1), (3, 2), (1 << 40, 1023)] {
        let sample = |device: &Device| -> Result<Vec<f32>> {
            device.seed(seed);
            Tensor::randn([count], DType::F32, device)?.to_vec::<f32>()
        };
        let (actual, expected) = (sample(device)?, sample(reference)?);
        for (index, (actual, expected)) in actual.into_iter().zip(expected).enumerate() {
            let distance = (order(actual) - order(expected)).abs();
            assert!(distance <= 1, "seed {seed}, number {index}: {actual:e} instead of {expected:e}");
            differing += usize::from(distance != 0);
        }
        compared += count;
    }
    let summary = format!("{differing} of {compared} normals have other bits than the reference");
    assert!(differing * NORMALS_PER_DIFFERENCE <= compared, "{summary}");
    println!("{summary}");
    Ok(())
}

/// Compares normals of the smallest and largest `u` and of `v` around the zeros and turning points
/// of the cosine: they must be bit-identical, including zeros.
///
/// # Errors
/// Any error of a device.
///
/// # Panics
/// If any bits differ.
pub fn extreme_normals_agree(device: &Device, reference: &Device) -> Result<()> {
    for (block, word, upper) in EXTREMES {
        assert_eq!(philox::block(SEED, block)[word] >> 8, upper, "word {word} of block {block}");
        let sample = |device: &Device| -> Result<f32> {
            let state = Tensor::from_slice(&[SEED as i64, block as i64], [2], device)?;
            let op = Normal { shape: Shape::new(&[2])?, dtype: DType::F32, offset: 0 };
            Ok(apply_on(op, device, &[&state])?.into_vec()[0].to_vec::<f32>()?[word / 2])
        };
        let (actual, expected) = (sample(device)?, sample(reference)?);
        assert_eq!(
            actual.to_bits(),
            expected.to_bits(),
            "block {block}, word {word} = {upper:#x}: {actual:e} instead of {expected:e}"
        );
    }
    Ok(())
}

/// Compares uniforms of every dtype, bits, integers and permutations: they must be bit-identical.
///
/// # Errors
/// Any error of a device.
///
/// # Panics
/// If any bits differ.
pub fn uniforms_and_bits_agree(device: &Device, reference: &Device) -> Result<()> {
    for count in [1, 3, 1025, 100_003] {
        let uniforms = |device: &Device| -> Result<Vec<Vec<f64>>> {
            device.seed(count as u64);
            let dtypes = [DType::F32, DType::F16, DType::BF16].into_iter();
            dtypes.map(|dtype| Tensor::rand([count], dtype, device)?.to_vec_f64()).collect()
        };
        assert!(uniforms(device)? == uniforms(reference)?, "{count} uniforms");
        let words = |device: &Device| -> Result<[Vec<f64>; 4]> {
            device.seed(count as u64);
            let state = Tensor::from_slice(&[-5i64, 0xffff_fff0], [2], device)?;
            let shape = Shape::new(&[count])?;
            let run = |op: Op| apply_on(op, device, &[&state])?.into_vec()[0].to_vec_f64();
            Ok([
                run(RandomBits { shape, bits: 31, offset: 1 }.into())?,
                run(Uniform { shape, dtype: DType::F32, offset: 1 }.into())?,
                Tensor::randint(-700, 60_000, [count], DType::I32, device)?.to_vec_f64()?,
                Tensor::permutation(count, device)?.to_vec_f64()?,
            ])
        };
        assert!(words(device)? == words(reference)?, "{count} bits, uniforms, integers or a permutation");
    }
    Ok(())
}
