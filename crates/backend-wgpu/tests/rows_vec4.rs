//! Compares rows that are read as vec4 and kept in registers with the CPU, if `TERNION_EXPECT`
//! names wgpu.
//!
//! Each test names the placeholder values of the shaders that it tests, and checks that the device
//! compiled a shader with these values.

use ternion_core::ops::loss::{CrossEntropyOptions, Reduction};
use ternion_core::{DType, Device, Result, Tensor};
use ternion_testing::{compare_devices, suite};
use ternion_wgpu::{Options, WgpuBackend};

const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Returns pairs of the first adapter, with and without subgroups, and the CPU, with seeds; empty
/// if wgpu is not expected.
fn devices() -> Vec<[Device; 2]> {
    if !suite::expects("wgpu") {
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

/// Returns whether `device` compiled a shader of this file with all of these placeholder values.
fn reached(device: &Device, file: &str, with: &[&str]) -> bool {
    let backend: &WgpuBackend = device.downcast().expect("not wrapped");
    let shaders = backend.shaders();
    shaders.iter().any(|shader| {
        let words: Vec<&str> = shader.split(' ').collect();
        words[0] == file && with.iter().all(|word| words.contains(word))
    })
}

/// Compares outputs and gradients of random inputs, and asserts that the shader was compiled with
/// each of these sets of values.
fn compare(shapes: &[&[usize]], file: &str, with: &[&[&str]], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    // Without subgroups, one dtype is enough: threads synchronize in the same way for all dtypes.
    for ([wgpu, cpu], dtypes) in devices().into_iter().zip([&DTYPES[..], &DTYPES[2..]]) {
        for &dtype in dtypes {
            let random = |shape: &&[usize]| Tensor::randn(*shape, DType::F32, &cpu)?.to_dtype(dtype);
            let inputs: Vec<Tensor> = shapes.iter().map(|shape| random(shape).expect("on the CPU")).collect();
            let compared = compare_devices(|x| Ok(vec![f(x)?]), &wgpu, &cpu, &inputs);
            assert!(compared.is_ok(), "{shapes:?} {dtype}: {}", compared.unwrap_err());
        }
        for with in with {
            assert!(reached(&wgpu, file, with), "{file} with {with:?} for {shapes:?}");
        }
    }
}

const EXPONENTIALS: &str = "rows/exponentials_vec4.wgsl";
const SUMS: &str = "rows/sums_vec4.wgsl";
const NORM_GRAD: &str = "rows/norm_grad_vec4.wgsl";

/// Teams of one thread, of a fraction of a subgroup and of several subgroups; rows of as many vec4
/// as the threads hold, and of fewer.
#[test]
fn softmax_of_whole_vec4() {
    for (shape, exact) in [
        ([4100, 4], "EXACT=true"),
        ([700, 64], "EXACT=true"),
        ([70, 1000], "EXACT=false"),
        ([20, 4096], "EXACT=true"),
    ] {
        let shapes: &[&[usize]] = &[&shape];
        compare(shapes, EXPONENTIALS, &[&[exact, "KEEP=1u", "EDGES=false"]], |x| {
            x[0].mul_scalar(3.0)?.softmax(1)
        });
        compare(shapes, SUMS, &[&[exact, "WITH_D=1u"]], |x| x[0].log_softmax(1));
    }
    // Rows of a larger tensor, which begin at multiples of four.
    let inner = |x: &[Tensor]| x[0].narrow(2, 8, 600)?.softmax(2);
    compare(&[&[5, 7, 640]], EXPONENTIALS, &[&["EDGES=false"]], inner);
}

/// Rows that begin and end in the middle of a vec4, and of a word, with the same alignment in both
/// tensors.
#[test]
fn softmax_of_rows_with_edges() {
    for shape in [[4100, 5], [130, 131], [31, 2050]] {
        let shapes: &[&[usize]] = &[&shape];
        compare(shapes, EXPONENTIALS, &[&["EDGES=true", "KEEP=1u"]], |x| x[0].mul_scalar(3.0)?.softmax(1));
        compare(shapes, EXPONENTIALS, &[&["EDGES=true", "KEEP=0u"]], |x| x[0].log_softmax(1));
    }
}

/// Rows that are longer than what their threads hold.
#[test]
fn long_rows() {
    let softmax: &[&str] = &["LONG=1u", "PREPARE=softmax_statistics"];
    for shape in [[128, 16_388], [130, 16_403]] {
        compare(&[&shape], EXPONENTIALS, &[softmax], |x| x[0].mul_scalar(3.0)?.softmax(1));
    }
    let (rows, classes) = (129, 16_401);
    let loss: [&[&str]; 2] =
        [&["LONG=1u", "PREPARE=loss_with_grad_state"], &["LONG=1u", "SKIPS=loss_update_skips"]];
    compare(&[&[rows, classes]], EXPONENTIALS, &loss, |x| {
        x[0].cross_entropy(&targets(rows, classes, x[0].device())?)?.mul_scalar(3.0)
    });
    let each = CrossEntropyOptions { reduction: Reduction::None, ..Default::default() };
    compare(
        &[&[rows, classes]],
        EXPONENTIALS,
        &[&["LONG=1u", "SUMS=0u"], &["LONG=1u", "ELEMENTS=0u"]],
        |x| x[0].cross_entropy_with(&targets(rows, classes, x[0].device())?, each),
    );
}

/// These shaders do not apply to rows that begin at another offset within a vec4 in x than in y.
#[test]
fn rows_of_different_alignment_are_read_by_element() {
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
        compare(all, SUMS, &[&["SQUARES=1u", "WEIGHTS=norm_weights"]], |x| {
            x[0].layer_norm(Some(&x[1]), Some(&x[2]), 1e-5)
        });
        compare(&all[..2], SUMS, &[&["SQUARES=0u", "WEIGHTS=norm_weights"]], |x| {
            x[0].rms_norm(Some(&x[1]), 1e-5)
        });
        compare(&all[..1], SUMS, &[&["SQUARES=1u", "WEIGHTS=norm_no_weights"]], |x| {
            x[0].layer_norm(None, None, 1e-5)
        });
    }
}

/// More rows than teams, so that each team loops over several rows; and fewer rows than teams.
#[test]
fn gradients_of_norms() {
    for (shape, exact) in
        [([1100, 512], "EXACT=true"), ([600, 1000], "EXACT=false"), ([40, 2048], "EXACT=true")]
    {
        let all: &[&[usize]] = &[&shape, &shape[1..], &shape[1..]];
        compare(all, NORM_GRAD, &[&[exact, "CENTER=norm_centered"]], |x| {
            x[0].layer_norm(Some(&x[1]), Some(&x[2]), 1e-5)
        });
        compare(&all[..2], NORM_GRAD, &[&[exact, "CENTER=norm_uncentered"]], |x| {
            x[0].rms_norm(Some(&x[1]), 1e-5)
        });
    }
}

fn targets(rows: usize, classes: usize, device: &Device) -> Result<Tensor> {
    let targets = (0..rows as i64).map(|row| row * 7919 % classes as i64).collect();
    Tensor::from_vec(targets, [rows], device)
}

/// Gradients that the forward pass computed in advance, which are kept or updated; and gradients of
/// losses that are not reduced.
#[test]
fn losses() {
    for ([rows, classes], edges) in [([300, 1000], "EDGES=false"), ([70, 4001], "EDGES=true")] {
        let shapes: &[&[usize]] = &[&[rows, classes]];
        let with_grad: [&[&str]; 2] =
            [&[edges, "ELEMENTS=1u", "SUMS=1u"], &[edges, "SKIPS=loss_update_skips"]];
        for scale in [1.0, 3.0] {
            compare(shapes, EXPONENTIALS, &with_grad, |x| {
                x[0].cross_entropy(&targets(rows, classes, x[0].device())?)?.mul_scalar(scale)
            });
        }
        let separate: [&[&str]; 2] = [&[edges, "ELEMENTS=1u", "SUMS=0u"], &[edges, "ELEMENTS=0u"]];
        for label_smoothing in [0.0, 0.1] {
            let options =
                CrossEntropyOptions { label_smoothing, reduction: Reduction::None, ..Default::default() };
            compare(shapes, EXPONENTIALS, &separate, |x| {
                x[0].cross_entropy_with(&targets(rows, classes, x[0].device())?, options)
            });
        }
    }
}

/// An op, applied to a matrix of rows.
type TensorFunction = fn(&Tensor) -> Result<Tensor>;

/// Rows of the largest finite numbers, such as an additive mask produces in a fully masked row.
#[test]
fn rows_of_the_largest_numbers() {
    for [wgpu, cpu] in devices() {
        for (dtype, largest) in [(DType::F32, 3.4e38), (DType::F16, 65504.0), (DType::BF16, 3.38e38)] {
            let rows = |classes: usize| -> Result<Tensor> {
                let signs = Tensor::from_slice(&[-1.0f64, 1.0], [2, 1], &cpu)?.mul_scalar(largest)?;
                signs.expand([2, classes])?.repeat(&[64, 1])?.to_dtype(dtype)
            };
            for classes in [1024, 1025, 16_401] {
                let x = rows(classes).unwrap();
                let f = |x: &Tensor| -> Result<Vec<Vec<f64>>> {
                    let loss = x.cross_entropy(&targets(128, classes, x.device())?)?;
                    [x.softmax(1)?, x.log_softmax(1)?, loss].iter().map(Tensor::to_vec_f64).collect()
                };
                let (got, want) = (f(&x.to_device(&wgpu).unwrap()).unwrap(), f(&x).unwrap());
                for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
                    assert!(
                        (got - want).abs() <= 4.0 * dtype.epsilon() * want.abs(),
                        "{got}, {want}: {dtype} {classes}"
                    );
                }
            }
        }
    }
}

/// Rows with infinities and NaN give the same results as on the CPU, and do not affect adjacent
/// rows.
#[test]
fn rows_that_are_not_finite() {
    let functions: [(TensorFunction, &str, &[&str]); 5] = [
        (|x| x.softmax(1), EXPONENTIALS, &["KEEP=1u"]),
        (|x| x.log_softmax(1), EXPONENTIALS, &["KEEP=0u"]),
        (|x| x.layer_norm(None, None, 1e-5), SUMS, &["SQUARES=1u"]),
        (|x| loss_gradient(x, Reduction::Mean), EXPONENTIALS, &["NONFINITE=1u", "SUMS=1u"]),
        (|x| loss_gradient(x, Reduction::None), EXPONENTIALS, &["NONFINITE=1u", "SUMS=0u"]),
    ];
    for [wgpu, cpu] in devices() {
        for (f, file, with) in functions {
            // Norms support only whole vec4.
            let odd = if file == SUMS { 1004 } else { 1001 };
            for (classes, dtype) in DTYPES.into_iter().flat_map(|dtype| [(1000, dtype), (odd, dtype)]) {
                let values = |device: &Device| {
                    let y = f(&non_finite_rows(classes, dtype, device)?)?;
                    y.to_dtype(DType::F32)?.to_vec::<f32>()
                };
                let (ours, theirs) = (values(&wgpu).unwrap(), values(&cpu).unwrap());
                for (element, (ours, theirs)) in ours.into_iter().zip(theirs).enumerate() {
                    let near = ours == theirs || (ours - theirs).abs() <= 1e-2 * theirs.abs() + 1e-6;
                    let both_nan = ours.is_nan() && theirs.is_nan();
                    assert!(
                        near || both_nan,
                        "{with:?} {dtype}, element {element}: {ours}, expected {theirs}"
                    );
                }
            }
            assert!(reached(&wgpu, file, with), "{file} with {with:?}");
        }
    }
}

/// Returns rows of numbers, one with a NaN, one with an infinity, one with only -infinity, and one
/// with some -infinity.
fn non_finite_rows(classes: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    let rows = 270;
    let mut numbers: Vec<f32> = (0..rows * classes).map(|index| ((index * 37) % 101) as f32 / 16.0).collect();
    numbers[2 * classes + 77] = f32::NAN;
    numbers[5 * classes + 78] = f32::INFINITY;
    numbers[8 * classes..9 * classes].fill(f32::NEG_INFINITY);
    numbers[11 * classes..11 * classes + 50].fill(f32::NEG_INFINITY);
    Tensor::from_vec(numbers, [rows, classes], device)?.to_dtype(dtype)
}

fn loss_gradient(x: &Tensor, reduction: Reduction) -> Result<Tensor> {
    let x = x.requires_grad()?;
    let target = Tensor::full([x.dims()[0]], 60i64, DType::I64, x.device())?;
    let loss = x.cross_entropy_with(&target, CrossEntropyOptions { reduction, ..Default::default() })?;
    let gradients = loss.sum_all()?.backward()?;
    Ok(gradients.get(&x).expect("requested").clone())
}

/// Reductions that read vec4: of rows of one thread, of a fraction of a subgroup and of several
/// subgroups, and of one row that is split into parts.
#[test]
fn reductions_of_vec4() {
    let by_vec4: &[&[&str]] = &[&["ACCUMULATE=reduce_vec4_accumulate"]];
    for shape in [[4100, 4], [700, 64], [70, 1000], [20, 4096], [1, 100_000]] {
        let shapes: &[&[usize]] = &[&shape];
        compare(shapes, "rows/rows.wgsl", by_vec4, |x| x[0].sum(1));
        compare(shapes, "rows/rows.wgsl", by_vec4, |x| x[0].max(1));
        compare(shapes, "rows/rows.wgsl", by_vec4, |x| x[0].square()?.mean(1));
        compare(shapes, "rows/rows.wgsl", by_vec4, |x| x[0].detach().argmax(1)?.to_dtype(DType::F32));
    }
    // Rows of a larger tensor, and rows that cannot be read as vec4.
    compare(&[&[5, 7, 640]], "rows/rows.wgsl", by_vec4, |x| x[0].narrow(2, 8, 600)?.sum(2));
    compare(&[&[31, 2050]], "rows/rows.wgsl", &[], |x| x[0].sum(1));
    compare(&[&[31, 2048]], "rows/rows.wgsl", &[], |x| x[0].narrow(1, 2, 2044)?.sum(1));
}
