//! Compares attention of 16-bit floats with the CPU, if `TERNION_EXPECT` names wgpu. Adapters with
//! cooperative matrices compute it from scaled f16 values; other adapters must give the same
//! results.

use std::sync::OnceLock;
use ternion_core::{AttentionOptions, Causal, DType, Device, Result, Tensor};
use ternion_testing::{compare_devices, compare_tensors};

/// Returns the first adapter, if it is requested.
fn adapter() -> Option<&'static Device> {
    static ADAPTER: OnceLock<Option<Device>> = OnceLock::new();
    let open = || ternion_wgpu::device(0).expect("an adapter, as TERNION_EXPECT says");
    ADAPTER.get_or_init(|| ternion_testing::suite::expects("wgpu").then(open)).as_ref()
}

fn cpu() -> &'static Device {
    static CPU: OnceLock<Device> = OnceLock::new();
    CPU.get_or_init(ternion_cpu::device)
}

/// Returns normal numbers times `factor`, rounded to `dtype`, on the CPU.
fn random(shape: &[usize], factor: f64, dtype: DType) -> Result<Tensor> {
    Tensor::randn(shape, DType::F32, cpu())?.mul_scalar(factor)?.to_dtype(dtype)
}

/// Compares outputs and gradients.
fn compare(inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) {
    let Some(adapter) = adapter() else { return };
    let compared = compare_devices(f, adapter, cpu(), inputs);
    let shapes: Vec<_> = inputs.iter().map(Tensor::shape).collect();
    assert!(compared.is_ok(), "{shapes:?} {}: {}", inputs[0].dtype(), compared.unwrap_err());
}

fn attend(x: [&Tensor; 3], options: AttentionOptions<'_>) -> Result<Tensor> {
    x[0].scaled_dot_product_attention(x[1], x[2], options)
}

/// Compares in f16 and bf16, with every combination of causal mask and window.
fn compare_all(q: &[usize], k: &[usize], v: &[usize], windows: &[Option<usize>]) {
    compare_in(&[DType::F16, DType::BF16], [q, k, v], windows);
}

/// Compares in these dtypes, with every combination of causal mask and window.
fn compare_in(dtypes: &[DType], [q, k, v]: [&[usize]; 3], windows: &[Option<usize>]) {
    cpu().seed(11);
    for &dtype in dtypes {
        let inputs = [q, k, v].map(|shape| random(shape, 1.0, dtype).unwrap());
        for causal in [false, true] {
            for &window in windows {
                let options = AttentionOptions {
                    causal: Causal::lower_right(causal),
                    window,
                    ..AttentionOptions::default()
                };
                compare(&inputs, |x| Ok(vec![attend([&x[0], &x[1], &x[2]], options)?]));
            }
        }
    }
}

#[test]
fn shared_heads_of_any_length() {
    compare_all(&[1, 4, 150, 128], &[1, 2, 190, 128], &[1, 2, 190, 128], &[None, Some(50)]);
    compare_all(&[2, 6, 150, 64], &[2, 2, 190, 64], &[2, 2, 190, 64], &[None, Some(50)]);
    // More queries than keys: with a causal mask, the first queries are fully masked.
    compare_all(&[1, 2, 190, 64], &[1, 1, 65, 64], &[1, 1, 65, 64], &[None, Some(2)]);
}

#[test]
fn whole_tiles_and_one_more() {
    for length in [64, 65, 128, 129] {
        compare_all(&[1, 1, length, 64], &[1, 1, length, 64], &[1, 1, length, 64], &[None]);
        compare_all(&[1, 1, length, 128], &[1, 1, length, 128], &[1, 1, length, 128], &[None]);
    }
    compare_all(&[1, 1, 5, 64], &[1, 1, 300, 64], &[1, 1, 300, 64], &[None, Some(40)]);
}

/// Tensors that are flipped along an axis.
#[test]
fn flipped_rows() {
    cpu().seed(11);
    for dtype in [DType::F16, DType::BF16] {
        let inputs: [Tensor; 3] = std::array::from_fn(|_| random(&[1, 2, 70, 64], 1.0, dtype).unwrap());
        compare(&inputs, |x| {
            let flipped = [x[0].flip(2)?, x[1].flip(2)?, x[2].flip(1)?];
            Ok(vec![attend(flipped.each_ref(), AttentionOptions::default())?])
        });
    }
}

#[test]
fn many_tiles() {
    compare_all(&[1, 1, 1024, 64], &[1, 1, 1024, 64], &[1, 1, 1024, 64], &[Some(300)]);
    compare_all(&[1, 1, 512, 128], &[1, 1, 640, 128], &[1, 1, 640, 128], &[None]);
}

/// Widths that are padded, with different ones for queries and values.
#[test]
fn widths_between() {
    compare_all(&[1, 2, 70, 48], &[1, 1, 90, 48], &[1, 1, 90, 64], &[None]);
    compare_all(&[1, 2, 70, 64], &[1, 1, 90, 64], &[1, 1, 90, 36], &[None]);
    compare_all(&[1, 2, 70, 104], &[1, 1, 90, 104], &[1, 1, 90, 52], &[None]);
    compare_all(&[1, 2, 70, 40], &[1, 1, 90, 40], &[1, 1, 90, 128], &[None]);
}

/// Heads wider than 128, whose outputs need several tiles. Attention is then unfused matrix
/// products, also with few queries and with split-KV or, if rows are not whole vec4, is computed
/// element by element.
#[test]
fn wide_heads() {
    let dtypes = [DType::F32, DType::F16, DType::BF16];
    let compare_wide = |q: [usize; 4], kv: [usize; 3], widths: [usize; 2], windows: &[Option<usize>]| {
        let [k, v] = widths.map(|width| [kv[0], kv[1], kv[2], width]);
        compare_in(&dtypes, [&q, &k, &v], windows);
    };
    compare_wide([1, 4, 150, 256], [1, 2, 190], [256, 256], &[None, Some(50)]);
    compare_wide([2, 2, 70, 160], [2, 1, 90], [160, 200], &[None]);
    compare_wide([1, 2, 130, 64], [1, 2, 130], [64, 260], &[None]);
    compare_wide([1, 2, 130, 132], [1, 2, 130], [132, 32], &[None]);
    compare_wide([1, 3, 1, 256], [1, 3, 700], [256, 256], &[None]);
    compare_wide([1, 1, 700, 256], [1, 1, 3], [256, 192], &[None]);
    compare_wide([1, 2, 40, 130], [1, 2, 50], [130, 129], &[None, Some(9)]);
}

/// Heads wider than 128 with masks, of which the additive one has a gradient.
#[test]
fn wide_heads_with_masks() {
    cpu().seed(12);
    for dtype in [DType::F32, DType::BF16] {
        let inputs: [Tensor; 4] = [[1, 2, 70, 256], [1, 2, 90, 256], [1, 2, 90, 192], [1, 1, 70, 90]]
            .map(|shape| random(&shape, 1.0, dtype).unwrap());
        compare(&inputs, |x| {
            let added = AttentionOptions { mask: Some(&x[3]), ..AttentionOptions::default() };
            let is_used = x[3].detach().ge_scalar(-0.5)?;
            let bool_mask = AttentionOptions { mask: Some(&is_used), ..AttentionOptions::default() };
            Ok(vec![attend([&x[0], &x[1], &x[2]], added)?, attend([&x[0], &x[1], &x[2]], bool_mask)?])
        });
    }
}

/// Queries, keys and values that are slices of one tensor.
#[test]
fn slices_of_one_tensor() {
    cpu().seed(12);
    for dtype in [DType::F16, DType::BF16] {
        compare(&[random(&[2, 70, 3, 2, 64], 1.0, dtype).unwrap()], |x| {
            let part = |index| x[0].select(2, index)?.transpose(1, 2);
            Ok(vec![attend([&part(0)?, &part(1)?, &part(2)?], AttentionOptions::default())?])
        });
    }
}

/// Whole tensors with magnitudes far from 1, also beyond the range of the f16 scaling, and scores
/// whose exponentials are negligible except one.
#[test]
fn magnitudes_of_whole_tensors() {
    cpu().seed(13);
    let shape = [1, 2, 70, 64];
    for [q, k, v] in [[1e-15, 1e15, 1e10], [1e-25, 1e25, 1e-20], [1e-12, 1.0, 1e25], [1.0, 30.0, 1.0]] {
        let inputs = [q, k, v].map(|factor| random(&shape, factor, DType::BF16).unwrap());
        let options = AttentionOptions { causal: Causal::LowerRight, ..AttentionOptions::default() };
        compare(&inputs, |x| Ok(vec![attend([&x[0], &x[1], &x[2]], options)?]));
    }
    for factor in [5e-4, 1e-2, 200.0] {
        let inputs = [1.0 / factor, factor, 0.01].map(|factor| random(&shape, factor, DType::F16).unwrap());
        compare(&inputs, |x| Ok(vec![attend([&x[0], &x[1], &x[2]], AttentionOptions::default())?]));
    }
}

/// The first rows are small relative to those that follow. Queries that attend only to the first
/// rows must give results of their magnitude, and each group of rows is compared at its own scale.
#[test]
fn magnitudes_of_rows() {
    cpu().seed(14);
    for [small, large] in [[1e-20, 1e20], [1e-20, 1.0], [1e-3, 1e3], [1e-8, 1.0]] {
        let inputs = [
            random(&[1, 2, 96, 64], 1.0, DType::BF16).unwrap(),
            random(&[1, 2, 96, 64], 1.0, DType::BF16).unwrap(),
            random(&[1, 2, 40, 64], small, DType::BF16).unwrap(),
            random(&[1, 2, 56, 64], large, DType::BF16).unwrap(),
        ];
        let options = AttentionOptions { causal: Causal::LowerRight, ..AttentionOptions::default() };
        compare(&inputs, |x| {
            let v = Tensor::concat(&[&x[2], &x[3]], 2)?;
            let y = attend([&x[0], &x[1], &v], options)?;
            Ok(vec![y.narrow(2, 0, 40)?, y.narrow(2, 40, 56)?])
        });
    }
}

/// Some columns of v are much smaller than the others: f16 numbers that share a power of two with
/// the others would lose them.
#[test]
fn magnitudes_of_columns() {
    cpu().seed(15);
    for [small, large] in [[1e-3, 1e30], [1e-9, 1.0], [1.0, 1e3]] {
        let inputs = [
            random(&[1, 2, 70, 64], 1.0, DType::BF16).unwrap(),
            random(&[1, 2, 70, 64], 1.0, DType::BF16).unwrap(),
            random(&[1, 2, 70, 32], small, DType::BF16).unwrap(),
            random(&[1, 2, 70, 32], large, DType::BF16).unwrap(),
        ];
        compare(&inputs, |x| {
            let v = Tensor::concat(&[&x[2], &x[3]], 3)?;
            let y = attend([&x[0], &x[1], &v], AttentionOptions::default())?;
            Ok(vec![y.narrow(3, 0, 32)?, y.narrow(3, 32, 32)?])
        });
    }
}

/// Infinities and NaN in one of three heads do not affect the other heads; the results of this head
/// equal those of the CPU.
#[test]
fn non_finite_values() {
    let Some(adapter) = adapter() else { return };
    cpu().seed(16);
    for (dtype, value, tensor) in [
        (DType::F16, f64::NAN, 1),
        (DType::BF16, f64::NAN, 0),
        (DType::BF16, f64::INFINITY, 2),
        (DType::F16, f64::NEG_INFINITY, 2),
    ] {
        let mut heads = [(); 3].map(|()| random(&[1, 3, 70, 64], 1.0, dtype).unwrap());
        let marked = Tensor::iota(3 * 70 * 64, DType::I32, 0, 1, cpu()).unwrap();
        // The first element of head 1.
        let marked = marked.eq_scalar((70 * 64) as f64).unwrap().reshape([1, 3, 70, 64]).unwrap();
        heads[tensor] = heads[tensor].masked_fill(&marked, value).unwrap();
        let on = |device: &Device| {
            let moved = heads.clone().map(|head| head.to_device(device).unwrap());
            attend([&moved[0], &moved[1], &moved[2]], AttentionOptions::default()).unwrap()
        };
        let (found, expected) = (on(adapter), on(cpu()));
        for head in 0..3 {
            let of = |y: &Tensor| y.narrow(1, head, 1).and_then(|head| head.contiguous()).unwrap();
            let compared = compare_tensors("y", &of(&found), &of(&expected));
            assert!(compared.is_ok(), "{dtype} {value} head {head}: {}", compared.unwrap_err());
        }
    }
}
