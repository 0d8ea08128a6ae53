//! Elementwise ops of so many elements that they are formed four at a time, against the CPU: where `TERNION_EXPECT` names wgpu.

use ternion_core::{DType, Device, Result, Tensor};
use ternion_testing::{compare_devices, suite};

/// The first adapter and the CPU, seeded alike; nothing where wgpu is not expected.
fn devices() -> Option<[Device; 2]> {
    let wanted = std::env::var(suite::EXPECT).unwrap_or_default();
    if !wanted.split(',').any(|name| name.trim() == "wgpu") {
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
const ALL: [DType; 5] = [DType::F32, DType::F16, DType::BF16, DType::I32, DType::U8];

#[test]
fn tensors_that_lie_dense() {
    // The last four is not whole.
    for elements in [16_384, 16_385, 16_386, 20_003] {
        compare(&ALL, &[&[elements], &[elements]], |x| x[0].add(&x[1]));
    }
    compare(&FLOATS, &[&[129, 131]], |x| x[0].gelu());
    compare(&FLOATS, &[&[129, 131], &[129, 131], &[129, 131]], |x| x[0].mul(&x[1])?.add(&x[2])?.tanh());
    compare(&FLOATS, &[&[20_002]], |x| x[0].mul_scalar(0.5)?.clamp(-3.0, 4.0));
}

#[test]
fn lines_and_single_elements_of_other_tensors() {
    compare(&ALL, &[&[140, 128], &[128]], |x| x[0].add(&x[1]));
    compare(&ALL, &[&[140, 128], &[140, 1]], |x| x[0].sub(&x[1]));
    compare(&ALL, &[&[3, 1, 80, 96], &[4, 80, 1]], |x| x[0].maximum(&x[1]));
    compare(&FLOATS, &[&[140, 1], &[1, 128]], |x| x[0].mul(&x[1])?.sigmoid());
    // Lines that are no multiples of four long.
    compare(&ALL, &[&[140, 130], &[130]], |x| x[0].add(&x[1]));
}

#[test]
fn parts_of_tensors() {
    compare(&ALL, &[&[150, 200], &[150, 128]], |x| x[0].narrow(1, 8, 128)?.add(&x[1]));
    compare(&ALL, &[&[150, 200], &[150, 128]], |x| x[0].narrow(1, 9, 128)?.add(&x[1]));
    compare(&ALL, &[&[200, 128]], |x| x[0].narrow(0, 33, 131)?.neg());
    compare(&FLOATS, &[&[131, 129]], |x| x[0].t()?.exp()?.recip());
}

#[test]
fn results_of_other_dtypes() {
    let Some([wgpu, cpu]) = devices() else { return };
    for elements in [16_384, 17_003] {
        let numbers = Tensor::randn([elements], DType::F32, &cpu).unwrap().mul_scalar(100.0).unwrap();
        for from in ALL {
            let x = numbers.to_dtype(from).unwrap();
            let on_wgpu = x.to_device(&wgpu).unwrap();
            for to in [DType::F32, DType::F16, DType::BF16, DType::I32, DType::I64, DType::U8, DType::Bool] {
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

/// What lies behind a part that is changed in place stays as it was.
#[test]
fn neighbours_of_a_part_stay() {
    let Some([wgpu, _]) = devices() else { return };
    for dtype in ALL {
        let x = Tensor::ones([40_000], dtype, &wgpu).unwrap();
        let part = x.narrow(0, 8, 20_001).unwrap();
        part.fill_(3.0).unwrap();
        part.add_(&part.detach()).unwrap();
        let values = x.to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap();
        for (at, value) in values.into_iter().enumerate() {
            let expected = if (8..20_009).contains(&at) { 6.0 } else { 1.0 };
            assert_eq!(value, expected, "element {at} of {dtype}");
        }
    }
}
