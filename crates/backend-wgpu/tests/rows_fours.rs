//! Rows that lie in fours and stay in registers, against the CPU: where `TERNION_EXPECT` names wgpu.
//!
//! Each test names what the shaders that it means were compiled with, and asks the device whether there was one such: so it knows that it reached them.

use ternion_core::ops::loss::{CrossEntropyOptions, Reduction};
use ternion_core::{DType, Device, Result, Tensor};
use ternion_testing::{compare_devices, suite};
use ternion_wgpu::{Options, WgpuBackend};

const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// The first adapter, by subgroups and without, and the CPU, seeded; nothing where wgpu is not expected.
fn devices() -> Vec<[Device; 2]> {
    let wanted = std::env::var(suite::EXPECT).unwrap_or_default();
    if !wanted.split(',').any(|name| name.trim() == "wgpu") {
        return Vec::new();
    }
    let open = |without_subgroups| {
        let options = Options { without_subgroups, ..Options::default() };
        let devices = [ternion_wgpu::device_with(0, options).expect("an adapter"), ternion_cpu::device()];
        devices.iter().for_each(|device| device.seed(7));
        devices
    };
    vec![open(false), open(true)]
}

/// Whether `device` compiled a shader of this file with all of these.
fn reached(device: &Device, file: &str, with: &[&str]) -> bool {
    let backend: &WgpuBackend = device.downcast().expect("not wrapped");
    let shaders = backend.shaders();
    shaders.iter().any(|shader| {
        let words: Vec<&str> = shader.split(' ').collect();
        words[0] == file && with.iter().all(|word| words.contains(word))
    })
}

/// Compares outputs and gradients of random inputs, and tells that the shader was reached.
fn compare(shapes: &[&[usize]], (file, with): (&str, &[&str]), f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    for [wgpu, cpu] in devices() {
        for dtype in DTYPES {
            let random = |shape: &&[usize]| Tensor::randn(*shape, DType::F32, &cpu)?.to_dtype(dtype);
            let inputs: Vec<Tensor> = shapes.iter().map(|shape| random(shape).expect("on the CPU")).collect();
            let compared = compare_devices(|x| Ok(vec![f(x)?]), &wgpu, &cpu, &inputs);
            assert!(compared.is_ok(), "{shapes:?} {dtype}: {}", compared.unwrap_err());
        }
        assert!(reached(&wgpu, file, with), "{file} with {with:?} for {shapes:?}");
    }
}

const EXPONENTIALS: &str = "exponentials_fours.wgsl";
const SUMS: &str = "sums_fours.wgsl";

/// Teams of one thread, of a part of a subgroup, of several subgroups; as many fours as threads hold, and fewer.
#[test]
fn softmax_of_whole_fours() {
    for (shape, exact) in [([4100, 4], true), ([700, 64], true), ([70, 1000], false), ([20, 4096], true)] {
        let exact = if exact { "EXACT=true" } else { "EXACT=false" };
        let shapes: &[&[usize]] = &[&shape];
        compare(shapes, (EXPONENTIALS, &[exact, "KEEP=1u", "EDGES=false"]), |x| {
            x[0].mul_scalar(3.0)?.softmax(1)
        });
        compare(shapes, (SUMS, &[exact, "WITH_D=1u"]), |x| x[0].mul_scalar(3.0)?.softmax(1));
        compare(shapes, (EXPONENTIALS, &[exact, "KEEP=0u", "EDGES=false"]), |x| x[0].log_softmax(1));
    }
    // Rows of a larger tensor, which begin at multiples of four.
    let inner = |x: &[Tensor]| x[0].narrow(2, 8, 600)?.softmax(2);
    compare(&[&[5, 7, 640]], (EXPONENTIALS, &["EDGES=false"]), inner);
}

/// Rows that begin and end in the middle of fours, and of words, in both tensors alike.
#[test]
fn softmax_of_rows_with_edges() {
    for shape in [[4100, 5], [130, 131], [31, 2050], [9, 8191]] {
        let shapes: &[&[usize]] = &[&shape];
        compare(shapes, (EXPONENTIALS, &["EDGES=true", "KEEP=1u"]), |x| x[0].mul_scalar(3.0)?.softmax(1));
        compare(shapes, (EXPONENTIALS, &["EDGES=true", "KEEP=0u"]), |x| x[0].log_softmax(1));
    }
}

/// Rows that are longer than what their threads hold.
#[test]
fn long_rows() {
    const LENGTH: usize = 17_001;
    let shapes: &[&[usize]] = &[&[130, LENGTH]];
    compare(shapes, (EXPONENTIALS, &["LONG=1u", "PREPARE=softmax_statistics"]), |x| {
        x[0].mul_scalar(3.0)?.softmax(1)
    });
    compare(shapes, (EXPONENTIALS, &["LONG=1u", "PREPARE=loss_with_grad_state"]), |x| {
        x[0].cross_entropy(&targets(130, LENGTH, x[0].device())?)
    });
    compare(shapes, (EXPONENTIALS, &["LONG=1u", "SKIPS=loss_update_skips"]), |x| {
        x[0].cross_entropy(&targets(130, LENGTH, x[0].device())?)?.mul_scalar(3.0)
    });
}

/// What lies beside rows that end in the middle of a word stays; rows that begin elsewhere in x than in y are none of these shaders' rows.
#[test]
fn rows_that_begin_apart_are_read_one_by_one() {
    for [wgpu, cpu] in devices() {
        for dtype in DTYPES {
            let x = Tensor::randn([30, 2100], DType::F32, &cpu).and_then(|x| x.to_dtype(dtype)).unwrap();
            let f = |x: &[Tensor]| Ok(vec![x[0].narrow(1, 1, 2091)?.softmax(1)?]);
            let compared = compare_devices(f, &wgpu, &cpu, &[x]);
            assert!(compared.is_ok(), "{dtype}: {}", compared.unwrap_err());
        }
        assert!(!reached(&wgpu, EXPONENTIALS, &[]));
    }
}

#[test]
fn norms() {
    for shape in [[4100, 4], [700, 64], [70, 1000], [20, 4096]] {
        let all: &[&[usize]] = &[&shape, &shape[1..], &shape[1..]];
        compare(all, (SUMS, &["SQUARES=1u", "WEIGHTS=norm_weights"]), |x| {
            x[0].layer_norm(Some(&x[1]), Some(&x[2]), 1e-5)
        });
        compare(&all[..2], (SUMS, &["SQUARES=0u", "WEIGHTS=norm_weights"]), |x| {
            x[0].rms_norm(Some(&x[1]), 1e-5)
        });
        compare(&all[..1], (SUMS, &["SQUARES=1u", "WEIGHTS=norm_no_weights"]), |x| {
            x[0].layer_norm(None, None, 1e-5)
        });
    }
}

/// More rows than teams, so that each walks over several; and fewer.
#[test]
fn gradients_of_norms() {
    const GRAD: &str = "norm_grad_fours.wgsl";
    for (shape, exact) in
        [([1100, 512], "EXACT=true"), ([900, 1000], "EXACT=false"), ([40, 2048], "EXACT=true")]
    {
        let all: &[&[usize]] = &[&shape, &shape[1..], &shape[1..]];
        compare(all, (GRAD, &[exact, "CENTRE=norm_centred"]), |x| {
            x[0].layer_norm(Some(&x[1]), Some(&x[2]), 1e-5)
        });
        compare(&all[..2], (GRAD, &[exact, "CENTRE=norm_uncentred"]), |x| x[0].rms_norm(Some(&x[1]), 1e-5));
    }
}

fn targets(rows: usize, classes: usize, device: &Device) -> Result<Tensor> {
    let targets = (0..rows as i64).map(|row| row * 7919 % classes as i64).collect();
    Tensor::from_vec(targets, [rows], device)
}

/// Gradients that were foreseen stay, others are formed anew; and those of losses that are not reduced.
#[test]
fn losses() {
    for ([rows, classes], edges) in [([300, 1000], "EDGES=false"), ([70, 4001], "EDGES=true")] {
        let shapes: &[&[usize]] = &[&[rows, classes]];
        let forward = |x: &[Tensor]| x[0].cross_entropy(&targets(rows, classes, x[0].device())?);
        for scale in [1.0, 3.0] {
            compare(shapes, (EXPONENTIALS, &[edges, "ELEMENTS=1u", "SUMS=1u"]), |x| {
                forward(x)?.mul_scalar(scale)
            });
            compare(shapes, (EXPONENTIALS, &[edges, "SKIPS=loss_update_skips"]), |x| {
                forward(x)?.mul_scalar(scale)
            });
        }
        let each = CrossEntropyOptions { reduction: Reduction::None, ..Default::default() };
        let smoothed = CrossEntropyOptions { label_smoothing: 0.1, ..each };
        for options in [each, smoothed] {
            compare(shapes, (EXPONENTIALS, &[edges, "ELEMENTS=1u", "SUMS=0u"]), |x| {
                x[0].cross_entropy_with(&targets(rows, classes, x[0].device())?, options)
            });
            compare(shapes, (EXPONENTIALS, &[edges, "ELEMENTS=0u"]), |x| {
                x[0].cross_entropy_with(&targets(rows, classes, x[0].device())?, options)
            });
        }
    }
}

/// Rows with infinities and NaN have the gradients that they have elsewhere; their neighbours are as without them.
#[test]
fn losses_of_rows_that_are_not_finite() {
    for classes in [1000, 1001] {
        for [wgpu, cpu] in devices() {
            for dtype in DTYPES {
                let gradient = |device: &Device| strange_gradient(classes, dtype, device).unwrap();
                for (at, (ours, theirs)) in gradient(&wgpu).into_iter().zip(gradient(&cpu)).enumerate() {
                    let near = ours == theirs || (ours - theirs).abs() <= 1e-2 * theirs.abs() + 1e-6;
                    let both_nan = ours.is_nan() && theirs.is_nan();
                    assert!(near || both_nan, "{dtype}, element {at}: {ours}, expected {theirs}");
                }
            }
            assert!(reached(&wgpu, EXPONENTIALS, &["STRANGE=1u"]));
        }
    }
}

/// Of the logits, with one row that holds NaN, one with an infinity, one of nothing but -infinity, and one with some.
fn strange_gradient(classes: usize, dtype: DType, device: &Device) -> Result<Vec<f32>> {
    let rows = 270;
    let mut numbers: Vec<f32> = (0..rows * classes).map(|at| ((at * 37) % 101) as f32 / 16.0).collect();
    numbers[2 * classes + 77] = f32::NAN;
    numbers[5 * classes + 78] = f32::INFINITY;
    numbers[8 * classes..9 * classes].fill(f32::NEG_INFINITY);
    numbers[11 * classes..11 * classes + 50].fill(f32::NEG_INFINITY);
    let x = Tensor::from_vec(numbers, [rows, classes], device)?.to_dtype(dtype)?.requires_grad()?;
    let target = Tensor::full([rows], 60i64, DType::I64, device)?;
    let gradients = x.cross_entropy(&target)?.backward()?;
    gradients.get(&x).expect("asked for").to_dtype(DType::F32)?.to_vec()
}
