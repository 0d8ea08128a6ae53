//! Compares elementwise ops that have enough elements to be computed as vec4 with the CPU, if
//! `TERNION_EXPECT` names wgpu.

use ternion_core::dispatch::{apply, apply_one};
use ternion_core::ops::step::{AdamStep, DecayMode, SgdStep};
use ternion_core::ops::unary::{Unary, UnaryGrad};
use ternion_core::{DType, Device, Op, Result, Tensor, UnaryOp};
use ternion_testing::{compare_devices, suite};

/// Returns the first adapter and the CPU with the same seed, or `None` if wgpu is not expected.
fn devices() -> Option<[Device; 2]> {
    if !suite::expects("wgpu") {
        return None;
    }
    let devices = [ternion_wgpu::device(0).expect("an adapter"), ternion_cpu::device()];
    devices.iter().for_each(|device| device.seed(7));
    Some(devices)
}

/// Compares outputs and gradients of random inputs.
fn compare(dtypes: &[DType], shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let Some([wgpu, cpu]) = devices() else { return };
    for &dtype in dtypes {
        let random =
            |shape: &&[usize]| Tensor::randn(*shape, DType::F32, &cpu)?.mul_scalar(50.0)?.to_dtype(dtype);
        let inputs: Vec<Tensor> = shapes.iter().map(|shape| random(shape).expect("on the CPU")).collect();
        let compared = compare_devices(|x| Ok(vec![f(x)?]), &wgpu, &cpu, &inputs);
        assert!(compared.is_ok(), "{shapes:?} {dtype}: {}", compared.unwrap_err());
    }
}

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const ALL: [DType; 9] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U32,
    DType::U16,
    DType::U8,
];

#[test]
fn contiguous_tensors() {
    // The last vec4 is incomplete.
    for elements in [16_384, 16_385, 16_386, 20_003] {
        compare(&ALL, &[&[elements], &[elements]], |x| x[0].add(&x[1]));
    }
    compare(&FLOATS, &[&[129, 131]], |x| x[0].gelu());
    compare(&FLOATS, &[&[129, 131], &[129, 131], &[129, 131]], |x| x[0].mul(&x[1])?.add(&x[2])?.tanh());
    compare(&FLOATS, &[&[20_002]], |x| x[0].mul_scalar(0.5)?.clamp(-3.0, 4.0));
}

#[test]
fn broadcast_tensors() {
    compare(&ALL, &[&[140, 128], &[128]], |x| x[0].add(&x[1]));
    compare(&ALL, &[&[140, 128], &[140, 1]], |x| x[0].sub(&x[1]));
    compare(&ALL, &[&[3, 1, 80, 96], &[4, 80, 1]], |x| x[0].maximum(&x[1]));
    compare(&FLOATS, &[&[140, 1], &[1, 128]], |x| x[0].mul(&x[1])?.sigmoid());
    // Rows whose length is not a multiple of four.
    compare(&ALL, &[&[140, 130], &[130]], |x| x[0].add(&x[1]));
}

#[test]
fn slices_of_tensors() {
    compare(&ALL, &[&[150, 200], &[150, 128]], |x| x[0].narrow(1, 8, 128)?.add(&x[1]));
    compare(&ALL, &[&[150, 200], &[150, 128]], |x| x[0].narrow(1, 9, 128)?.add(&x[1]));
    compare(&ALL, &[&[200, 128]], |x| x[0].narrow(0, 33, 131)?.neg());
    // At most 25 in magnitude, because devices may flush subnormal f32 to 0.
    compare(&FLOATS, &[&[131, 129]], |x| x[0].t()?.clamp(-25.0, 25.0)?.exp()?.recip());
}

#[test]
fn results_of_other_dtypes() {
    let Some([wgpu, cpu]) = devices() else { return };
    for elements in [16_384, 17_003] {
        let numbers = Tensor::randn([elements], DType::F32, &cpu).unwrap().mul_scalar(100.0).unwrap();
        for from in ALL {
            let x = numbers.to_dtype(from).unwrap();
            let on_wgpu = x.to_device(&wgpu).unwrap();
            for to in DType::ALL.into_iter().filter(|&to| to != DType::F64) {
                let f = |x: &Tensor| {
                    x.to_dtype(to).unwrap().to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap()
                };
                assert_eq!(f(&on_wgpu), f(&x), "{from} to {to}");
            }
            let f = |x: &Tensor| {
                let larger = x.gt_scalar(3).unwrap();
                let chosen = x.masked_fill(&larger, 7).unwrap();
                (
                    larger.to_vec::<bool>().unwrap(),
                    chosen.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap(),
                )
            };
            assert_eq!(f(&on_wgpu), f(&x), "{from}");
        }
    }
}

/// If a slice is changed in place, the memory before and after it is unchanged.
#[test]
fn memory_around_a_slice_is_unchanged() {
    let Some([wgpu, _]) = devices() else { return };
    for dtype in ALL {
        let x = Tensor::ones([40_000], dtype, &wgpu).unwrap();
        let slice = x.narrow(0, 8, 20_001).unwrap();
        slice.fill_(3.0).unwrap();
        slice.add_(&slice.detach()).unwrap();
        let values = x.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap();
        for (element, value) in values.into_iter().enumerate() {
            let expected = if (8..20_009).contains(&element) { 6.0 } else { 1.0 };
            assert_eq!(value, expected, "element {element} of {dtype}");
        }
    }
}

/// Copies of transposed tensors, in tiles if there are enough rows and columns, have the same bits
/// as on the CPU.
#[test]
fn transposed_tensors() {
    let Some([wgpu, cpu]) = devices() else { return };
    // Rows and columns that are whole tiles and whole words, and others that are not.
    let shapes: [&[usize]; 6] = [&[64, 128], &[33, 70], &[130, 66], &[17, 200], &[16, 15], &[131, 65]];
    for dtype in ALL {
        for shape in shapes {
            let x = Tensor::randn([2, 3, shape[0], shape[1]], DType::F32, &cpu).unwrap();
            let x = x.mul_scalar(50.0).unwrap().to_dtype(dtype).unwrap();
            let f = |x: &Tensor| -> Result<Vec<Vec<f32>>> {
                let whole = x.reshape([6 * shape[0], shape[1]])?;
                let parts = whole.narrow(0, 2, 32)?.narrow(1, 2, shape[1] - 3)?;
                let copies = [
                    x.transpose(2, 3)?,
                    x.permute([3, 0, 2, 1])?,
                    x.permute([1, 3, 2, 0])?,
                    whole.t()?,
                    parts.t()?,
                    // Overlapping windows are contiguous along two axes.
                    whole
                        .narrow(1, 0, 64.min(shape[1]))?
                        .unfold(1, 16.min(shape[1]), 1)?
                        .permute([1, 2, 0])?,
                ];
                copies.iter().map(|copy| copy.contiguous()?.to_dtype(DType::F32)?.to_vec()).collect()
            };
            assert_eq!(f(&x.to_device(&wgpu).unwrap()).unwrap(), f(&x).unwrap(), "{shape:?} {dtype}");
        }
    }
}

/// Steps of large parameters, several at a time, equal those of the CPU up to rounding, and do not
/// change adjacent memory.
#[test]
fn steps_of_large_parameters() {
    let Some([wgpu, cpu]) = devices() else { return };
    let adam = |decay_mode| AdamStep {
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-6,
        weight_decay: 0.1,
        decay_mode,
        half_copy: false,
    };
    let sgd = |momentum, nesterov| SgdStep {
        momentum,
        dampening: 0.0,
        weight_decay: 0.1,
        nesterov,
        half_copy: false,
    };
    let steps: [(Op, &[f32], usize); 6] = [
        (sgd(0.0, false).into(), &[0.1, 0.5, 0.0], 0),
        (sgd(0.9, true).into(), &[0.1, 0.5, 0.0], 1),
        (sgd(0.9, false).into(), &[0.1, 0.5, 1.0], 1),
        (adam(DecayMode::Decoupled).into(), &[0.1, 0.5, 0.3, 0.4], 2),
        (adam(DecayMode::Coupled).into(), &[0.1, 0.5, 0.3, 0.4], 2),
        (adam(DecayMode::Decoupled).into(), &[0.1, 1.0, 1.0, 1.0], 2),
    ];
    for (op, hyper, states) in &steps {
        step_and_compare(&wgpu, &cpu, DType::F32, op, hyper, *states);
    }
    let (op, hyper, states) = &steps[5];
    step_and_compare(&wgpu, &cpu, DType::BF16, op, hyper, *states);
}

/// The number of elements of each parameter of a step. One parameter is small, and one does not
/// consist of whole vec4.
const PARAMETER_ELEMENTS: [usize; 12] =
    [16_384, 20_004, 16_388, 30_000, 16_384, 16_384, 16_400, 17_000, 16_384, 100, 20_001, 18_000];

fn step_and_compare(wgpu: &Device, cpu: &Device, dtype: DType, op: &Op, hyper: &[f32], states: usize) {
    let random = |elements: usize, dtype| Tensor::randn([elements + 8], DType::F32, cpu)?.to_dtype(dtype);
    let hyper = Tensor::from_slice(hyper, hyper.len(), cpu).unwrap();
    let mut tensors = Vec::new();
    for elements in PARAMETER_ELEMENTS {
        tensors.extend([random(elements, dtype).unwrap(), random(elements, dtype).unwrap()]);
        tensors.extend((0..states).map(|_| random(elements, DType::F32).unwrap().square().unwrap()));
    }
    let run = |device: &Device| -> Result<Vec<Vec<f64>>> {
        let hyper = hyper.to_device(device)?;
        let whole: Vec<Tensor> =
            tensors.iter().map(|tensor| tensor.to_device(device)?.copy()).collect::<Result<_>>()?;
        let mut parts: Vec<Tensor> =
            whole.iter().map(|tensor| tensor.narrow(0, 4, tensor.elements() - 8)).collect::<Result<_>>()?;
        for parameter in (0..PARAMETER_ELEMENTS.len()).rev() {
            parts.insert(parameter * (2 + states) + 2, hyper.clone());
        }
        apply(op.clone(), &parts.iter().collect::<Vec<_>>())?;
        whole.iter().map(Tensor::to_vec_f64).collect()
    };
    let (got, want) = (run(wgpu).unwrap(), run(cpu).unwrap());
    for (tensor, (got, want)) in got.iter().zip(&want).enumerate() {
        let limit = if tensors[tensor].dtype().is_half() { dtype.epsilon() } else { 1e-5 };
        for (element, (got, want)) in got.iter().zip(want).enumerate() {
            let close = (got - want).abs() <= limit * want.abs().max(0.1);
            assert!(
                close,
                "{op:?} {dtype}: element {element} of tensor {tensor} is {got}, on the CPU {want}"
            );
        }
        let changes = tensor % (2 + states) != 1;
        assert_eq!(*want != tensors[tensor].to_vec_f64().unwrap(), changes, "{op:?}: tensor {tensor}");
    }
}

/// Conversions of every 16-bit float, and of f32 values between them and near the midpoints where
/// rounding changes.
#[test]
fn conversions_of_16_bits() {
    let Some([wgpu, cpu]) = devices() else { return };
    let equal = |x: &Tensor, dtype: DType| {
        let bits = |x: &Tensor| -> Vec<u32> {
            let values = x.to_dtype(dtype).unwrap().to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap();
            values.into_iter().map(|value| if value.is_nan() { u32::MAX } else { value.to_bits() }).collect()
        };
        let (got, want) = (bits(&x.to_device(&wgpu).unwrap()), bits(x));
        let wrong = got.iter().zip(&want).position(|(got, want)| got != want);
        assert_eq!(
            wrong,
            None,
            "{} to {dtype}: {:?}",
            x.dtype(),
            wrong.map(|index| (got[index], want[index]))
        );
    };
    let all = (0..=u16::MAX).map(half::f16::from_bits).collect::<Vec<_>>();
    equal(&Tensor::from_vec(all, 1 << 16, &cpu).unwrap(), DType::F32);
    let all = (0..=u16::MAX).map(half::bf16::from_bits).collect::<Vec<_>>();
    equal(&Tensor::from_vec(all, 1 << 16, &cpu).unwrap(), DType::F32);
    // All upper bits, with lower bits at, just off and far from half an ulp of the result; no
    // subnormals of f32, which devices may flush.
    let lower = [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff];
    let patterns = (0..1u32 << 16)
        .filter(|upper| upper & 0x7f80 != 0)
        .flat_map(|upper| lower.map(|lower| upper << 16 | lower));
    let numbers: Vec<f32> = patterns.map(f32::from_bits).collect();
    let numbers = Tensor::from_vec(numbers.clone(), numbers.len(), &cpu).unwrap();
    equal(&numbers, DType::F16);
    equal(&numbers, DType::BF16);
}

/// Functions that have a version with fewer terms for 16-bit results: for every 16-bit float, they
/// are within one ulp of their values in double precision.
#[test]
fn every_number_of_16_bits() {
    let Some([wgpu, cpu]) = devices() else { return };
    let functions =
        [UnaryOp::Tanh, UnaryOp::Sigmoid, UnaryOp::Erf, UnaryOp::GeluErf, UnaryOp::GeluTanh, UnaryOp::Silu];
    let slopes = [UnaryOp::Erf, UnaryOp::GeluErf, UnaryOp::GeluTanh, UnaryOp::Silu, UnaryOp::Softplus];
    for dtype in [DType::F16, DType::BF16] {
        let bits = (0..=u16::MAX).map(|bits| match dtype {
            DType::F16 => half::f16::from_bits(bits).to_f64(),
            _ => half::bf16::from_bits(bits).to_f64(),
        });
        let wide = Tensor::from_vec(bits.collect::<Vec<f64>>(), 1 << 16, &cpu).unwrap();
        let x = wide.to_dtype(dtype).unwrap().to_device(&wgpu).unwrap();
        let (dy, wide_dy) = (x.ones_like().unwrap(), wide.ones_like().unwrap());
        for op in functions {
            let got = apply_one(Unary { op }, &[&x]).unwrap();
            let want = apply_one(Unary { op }, &[&wide]).unwrap();
            // Far below 0, the expected value is itself computed as a difference from 1.
            let rest = if op == UnaryOp::GeluTanh { 1e-14 } else { 0.0 };
            within_an_ulp(op.name(), &got, &want, &wide, rest);
        }
        for op in slopes {
            let got = apply_one(UnaryGrad { op }, &[&x, &dy]).unwrap();
            let want = apply_one(UnaryGrad { op }, &[&wide, &wide_dy]).unwrap();
            // Near their zeros, gradients are only as accurate as the terms that cancel.
            within_an_ulp(op.grad_name(), &got, &want, &wide, 1e-4);
        }
    }
}

/// Asserts that errors are at most one ulp plus the larger of `rest` and 1e-35, because results of
/// exponentials below e^-87 are 0.
fn within_an_ulp(op: &str, got: &Tensor, want: &Tensor, x: &Tensor, rest: f64) {
    let dtype = got.dtype();
    let [got, want, x] = [got, want, x].map(|tensor| tensor.to_vec_f64().unwrap());
    // The largest value, and the smallest normal one.
    let [largest, smallest] = match dtype {
        DType::F16 => [half::f16::MAX, half::f16::MIN_POSITIVE].map(f64::from),
        _ => [half::bf16::MAX, half::bf16::MIN_POSITIVE].map(f64::from),
    };
    for ((got, want), x) in got.into_iter().zip(want).zip(x) {
        let unit = want.abs().max(smallest).log2().floor().exp2() * dtype.epsilon();
        let limit = unit + rest.max(1e-35);
        let both_not_finite = got.is_nan() && want.is_nan()
            || got == want
            || got * want.signum() > largest && want.abs() > largest;
        assert!(
            both_not_finite || (got - want).abs() <= limit,
            "{op} of {x} in {dtype} is {got}, should be {want}"
        );
    }
}
