//! Device comparison detects a wrong op, names it, and accepts devices that are correct.

mod broken;

use broken::{Wrong, broken};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use ternion_core::decorators::Composed;
use ternion_core::{DType, Device, Result, Tensor};
use ternion_testing::{compare_devices, compare_tensors};

fn cpu() -> Device {
    ternion_cpu::device()
}

fn random(shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    let device = cpu();
    device.seed(seed);
    Tensor::randn(shape, DType::F32, &device).unwrap().to_dtype(dtype).unwrap()
}

type Function = fn(&[Tensor]) -> Result<Vec<Tensor>>;

fn cross_entropy(x: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(vec![x[0].cross_entropy(&x[1])?])
}

fn mean_of_tanh(x: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(vec![x[0].tanh()?.mean_all()?])
}

fn labels(count: usize) -> Tensor {
    let labels: Vec<i64> = (0..count as i64).map(|at| at % 10).collect();
    Tensor::from_slice(&labels, [count], &cpu()).unwrap()
}

/// Returns two messages: when `wrong` is planted in `op` of the first device, and when it is
/// planted in `op` of the second.
fn planted(op: &'static str, wrong: Wrong, f: Function, inputs: &[Tensor]) -> [String; 2] {
    let faulty = broken(&cpu(), op, wrong);
    [compare_devices(f, &faulty, &cpu(), inputs), compare_devices(f, &cpu(), &faulty, inputs)]
        .map(|result| result.expect_err(op).to_string())
}

#[test]
fn a_zero_gradient_is_detected_whatever_the_gradient_scale() {
    let inputs = [random(&[20000, 10], DType::F32, 1), labels(20000)];
    for message in planted("cross_entropy_grad", Wrong::Times(0.0), cross_entropy, &inputs) {
        assert!(
            message.starts_with("compare_devices: first (cpu) and second (cpu) differ: gradient of input 0:"),
            "{message}"
        );
        assert!(message.contains("first mean") && message.contains("second mean"), "{message}");
    }
}

#[test]
fn gradients_are_numbered_by_input_where_the_first_is_of_integers() {
    let labels_first: Function = |x| cross_entropy(&[x[1].clone(), x[0].clone()]);
    let inputs = [labels(500), random(&[500, 10], DType::F32, 1)];
    for message in planted("cross_entropy_grad", Wrong::Times(0.0), labels_first, &inputs) {
        assert!(message.contains("differ: gradient of input 1:"), "{message}");
    }
}

#[test]
fn different_numbers_of_outputs_are_an_error() {
    let calls = AtomicUsize::new(0);
    let fewer = |x: &[Tensor]| {
        let outputs = if calls.fetch_add(1, Relaxed) == 0 { 2 } else { 1 };
        Ok(vec![x[0].clone(); outputs])
    };
    let inputs = [labels(4), labels(4), labels(4)];
    let message = compare_devices(fewer, &cpu(), &cpu(), &inputs).unwrap_err().to_string();
    assert!(message.ends_with("2 outputs and 1 outputs"), "{message}");
}

#[test]
fn a_gradient_five_times_too_large_is_detected_below_a_mean() {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let inputs = [random(&[100_000], dtype, 2)];
        for message in planted("tanh_grad", Wrong::Times(5.0), mean_of_tanh, &inputs) {
            assert!(message.contains("gradient of input 0"), "{message}");
        }
    }
}

#[test]
fn one_wrong_element_is_detected() {
    let inputs = [random(&[5, 4], DType::F32, 3)];
    for message in planted("exp", Wrong::LastElementOff, |x| Ok(vec![x[0].exp()?]), &inputs) {
        assert!(message.contains("output 0: 1 of 20 elements of [5, 4]; element [4, 3] is"), "{message}");
    }
}

#[test]
fn small_elements_next_to_large_ones_are_compared() {
    let values: Vec<f64> = (0..1000).map(|at| if at % 2 == 0 { 1.0 } else { 1e-2 }).collect();
    let right = Tensor::from_slice(&values, [1000], &cpu()).unwrap().to_dtype(DType::F32).unwrap();
    let off: Vec<f64> = values.iter().map(|&v| if v < 0.5 { v * 1.01 } else { v }).collect();
    let left = Tensor::from_slice(&off, [1000], &cpu()).unwrap().to_dtype(DType::F32).unwrap();
    let message = compare_tensors("x", &left, &right).unwrap_err().to_string();
    assert!(message.contains("x: 500 of 1000 elements"), "{message}");
    assert_eq!(compare_tensors("x", &right, &right).unwrap(), 1000);
}

#[test]
fn correct_devices_agree() {
    let functions: [(&str, Function, usize); 7] = [
        ("cross_entropy", cross_entropy, 2),
        ("mean of tanh", mean_of_tanh, 1),
        ("layer norm", |x| Ok(vec![x[0].layer_norm(None, None, 1e-5)?.square()?.mean_all()?]), 1),
        ("softmax of a product", |x| Ok(vec![x[0].matmul(&x[0].transpose(0, 1)?)?.softmax(1)?]), 1),
        (
            "sum of canceling terms",
            |x| Ok(vec![x[0].softmax(1)?.sum_all()?, x[0].sub(&x[0].mul_scalar(0.999)?)?.sum_all()?]),
            1,
        ),
        ("gelu, silu", |x| Ok(vec![x[0].gelu()?.mul(&x[0].silu()?)?.var(0, 1.0)?]), 1),
        ("log of sum", |x| Ok(vec![x[0].logsumexp(1)?.mean_all()?]), 1),
    ];
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let inputs = [random(&[300, 10], dtype, 4), labels(300)];
        for (name, function, count) in &functions {
            for (a, b) in [(cpu(), Composed::new(cpu())), (Composed::new(cpu()), cpu())] {
                let result = compare_devices(function, &a, &b, &inputs[..*count]);
                assert!(result.is_ok(), "{name} {dtype}: {}", result.unwrap_err());
            }
        }
    }
    let large = [random(&[20000, 10], DType::F32, 5), labels(20000)];
    assert_eq!(compare_devices(cross_entropy, &Composed::new(cpu()), &cpu(), &large).unwrap(), 200_001);
}

#[test]
fn a_function_that_is_not_reproducible_is_distinguished_from_a_wrong_one() {
    let random = |x: &[Tensor]| Ok(vec![x[0].mul(&Tensor::randn([40], DType::F32, x[0].device())?)?]);
    let device = cpu();
    let message = compare_devices(random, &device, &device, &[labels(40).to_dtype(DType::F32).unwrap()]);
    let message = message.unwrap_err().to_string();
    assert!(message.contains("differs again when the second (cpu) repeats it"), "{message}");
}

#[test]
fn a_wrong_scale_is_detected_in_half_precision() {
    let exp: Function = |x| Ok(vec![x[0].exp()?]);
    for (op, f, dtype, factor) in [
        ("exp", exp, DType::F16, 1.01),
        ("tanh_grad", mean_of_tanh, DType::F16, 1.01),
        ("tanh_grad", mean_of_tanh, DType::BF16, 1.06),
    ] {
        for count in [40, 1000, 20_000] {
            let inputs = [random(&[count], dtype, 6)];
            for message in planted(op, Wrong::Times(factor), f, &inputs) {
                assert!(message.starts_with("compare_devices: first (cpu)"), "{op} {dtype}: {message}");
            }
        }
    }
}

#[test]
fn correct_devices_agree_in_half_precision() {
    let functions: [(&str, Function); 6] = [
        ("exp", |x| Ok(vec![x[0].exp()?])),
        ("layer norm", |x| Ok(vec![x[0].layer_norm(None, None, 1e-5)?])),
        ("softmax", |x| Ok(vec![x[0].softmax(1)?])),
        ("log softmax", |x| Ok(vec![x[0].log_softmax(1)?])),
        ("gelu, silu", |x| Ok(vec![x[0].gelu()?.mul(&x[0].silu()?)?])),
        ("standard deviation", |x| Ok(vec![x[0].var(0, 1.0)?.sqrt()?])),
    ];
    for dtype in [DType::F16, DType::BF16] {
        for shape in [[2, 3], [7, 5], [300, 10], [4, 1000]] {
            let inputs = [random(&shape, dtype, 4)];
            for (name, function) in &functions {
                for (a, b) in [(cpu(), Composed::new(cpu())), (Composed::new(cpu()), cpu())] {
                    let result = compare_devices(function, &a, &b, &inputs);
                    assert!(result.is_ok(), "{name} {dtype} {shape:?}: {}", result.unwrap_err());
                }
            }
        }
    }
}

#[test]
fn only_nan_on_both_sides_is_an_error() {
    let log: Function = |x| Ok(vec![x[0].neg()?.log()?]);
    let inputs = [random(&[5], DType::F32, 3).abs().unwrap()];
    let message = compare_devices(log, &cpu(), &cpu(), &inputs);
    assert!(message.is_ok(), "its gradient is a number: {}", message.unwrap_err());
    let nan: Function = |x| Ok(vec![x[0].neg()?.sqrt()?]);
    let message = compare_devices(nan, &cpu(), &cpu(), &inputs).unwrap_err().to_string();
    assert!(message.contains("is NaN on both sides: nothing was compared"), "{message}");
}
