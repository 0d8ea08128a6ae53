//! Statistics that are computed on a device equal those of the values on the host.

use ternion_core::decorators::{Counting, NanCheck};
use ternion_core::{DType, DeviceStats, Result, Stats, Tensor};

fn close(got: &Stats, want: &Stats, relative: f64) {
    let counts = |stats: &Stats| (stats.elements, stats.nan, stats.infinite, stats.zeros);
    assert_eq!(counts(got), counts(want));
    let largest = want.min.abs().max(want.max.abs());
    for (got, want) in [(got.mean, want.mean), (got.std, want.std), (got.min, want.min), (got.max, want.max)]
    {
        let near = (got - want).abs() <= relative * largest || (got.is_nan() && want.is_nan());
        assert!(near, "{got}, want {want}");
    }
}

fn both(tensor: &Tensor) -> Result<(Stats, Stats)> {
    Ok((DeviceStats::read(&[tensor.device_stats()?])?[0], tensor.stats()?))
}

#[test]
fn those_of_the_device_equal_those_of_the_values() -> Result<()> {
    let device = ternion_cpu::device();
    let (nan, infinity) = (f64::NAN, f64::INFINITY);
    let cases: [&[f64]; 8] = [
        &[1.0, -2.0, 0.0, 3.5, 0.0],
        &[nan, 1.0, infinity, -infinity, 2.0, nan, 0.0],
        &[nan, infinity],
        &[-5.0],
        &[0.0, -0.0],
        &[1e30, -1e30, 3e30],
        &[1e-30, 2e-30, 0.0],
        &[],
    ];
    for values in cases {
        for dtype in [DType::F64, DType::F32] {
            let tensor = Tensor::from_slice(values, [values.len()], &device)?.to_dtype(dtype)?;
            let (got, want) = both(&tensor)?;
            close(&got, &want, if dtype == DType::F64 { 1e-14 } else { 1e-6 });
        }
    }
    let spread = Tensor::randn([37, 53], DType::F32, &device)?;
    for dtype in
        [DType::F32, DType::F16, DType::BF16, DType::I32, DType::I16, DType::I64, DType::U8, DType::Bool]
    {
        let tensor = spread.mul_scalar(3.0)?.abs()?.to_dtype(dtype)?;
        let (got, want) = both(&tensor.t()?)?;
        close(&got, &want, 1e-5);
    }
    Ok(())
}

#[test]
fn one_read_serves_tensors_of_all_sizes_dtypes_and_devices() -> Result<()> {
    let (first, counter) = Counting::new(ternion_cpu::device());
    let (second, other) = Counting::new(ternion_cpu::device());
    let mut tensors = Vec::new();
    for (size, device) in [(1000, &first), (0, &first), (3, &second), (7, &first), (5, &second)] {
        tensors.push(Tensor::rand([size], DType::F32, device)?);
    }
    tensors.push(Tensor::from_slice(&[1e100f64, -1e100], [2], &first)?);
    let stats = tensors.iter().map(Tensor::device_stats).collect::<Result<Vec<_>>>()?;
    let downloaded = || (counter.counts().bytes_downloaded, other.counts().bytes_downloaded);
    assert_eq!(downloaded(), (0, 0), "nothing is read before");
    let read = DeviceStats::read(&stats)?;
    // Seven numbers per tensor, in f64 on the device that has an f64 tensor; nothing for the empty
    // one.
    assert_eq!(downloaded(), (3 * 7 * 8, 2 * 7 * 4));
    for (tensor, read) in tensors.iter().zip(&read) {
        close(read, &tensor.stats()?, 1e-6);
    }
    assert_eq!(read.len(), tensors.len());
    assert!(DeviceStats::read(&[])?.is_empty());
    Ok(())
}

/// The counts of NaN do not mislead a search for the first NaN.
#[test]
fn they_make_no_infinity_or_nan_of_their_own() -> Result<()> {
    let device = NanCheck::with_infinity(ternion_cpu::device());
    let broken = Tensor::from_slice(&[f32::NAN, f32::INFINITY], [2], &device)?;
    let (got, want) = both(&broken)?;
    close(&got, &want, 0.0);
    Ok(())
}

#[test]
fn merged_statistics_are_those_of_all_values() {
    let sets: [&[f64]; 5] =
        [&[1.0, 2.0, 4.0], &[-7.0, 0.0], &[f64::NAN, f64::INFINITY], &[f64::NAN, 3.0], &[]];
    for one in sets {
        for other in sets {
            let all: Vec<f64> = one.iter().chain(other).copied().collect();
            close(&Stats::of(one).merged(&Stats::of(other)), &Stats::of(&all), 1e-14);
        }
    }
    let stats = Stats::of(&[3.0, -4.0, 0.0, 0.0]);
    assert!((stats.norm() - 5.0).abs() < 1e-14 && (stats.rms() - 2.5).abs() < 1e-14);
    assert_eq!((stats.zero_fraction(), stats.finite(), stats.has_non_finite()), (0.5, 4, false));
    assert_eq!(Stats::of(&[]).norm(), 0.0);
}
