//! What compares devices finds what is wrong, names it, and lets honest devices pass.

mod broken;

use broken::{Wrong, broken};
use ternion_core::decorators::Composed;
use ternion_core::{DType, Device, Result, Tensor};
use ternion_nn::{
    BatchNorm2d, Conv2d, Dropout, Embedding, Flatten, Forward, GELU, Linear, MaxPool2d, Module, ReLU,
    Sequential, Tanh,
};
use ternion_testing::{compare_devices, compare_models, compare_tensors};

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

/// The message when `wrong` is planted in `op` of the first device, and that when it is in the second.
fn planted(op: &'static str, wrong: Wrong, f: Function, inputs: &[Tensor]) -> [String; 2] {
    let faulty = broken(&cpu(), op, wrong);
    [compare_devices(f, &faulty, &cpu(), inputs), compare_devices(f, &cpu(), &faulty, inputs)]
        .map(|result| result.expect_err(op).to_string())
}

#[test]
fn a_gradient_of_zero_is_seen_however_small_the_gradients_are() {
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
fn a_gradient_five_times_too_large_is_seen_under_a_mean() {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let inputs = [random(&[100_000], dtype, 2)];
        for message in planted("tanh_grad", Wrong::Times(5.0), mean_of_tanh, &inputs) {
            assert!(message.contains("gradient of input 0"), "{message}");
        }
    }
}

#[test]
fn one_element_off_is_seen() {
    let inputs = [random(&[5, 4], DType::F32, 3)];
    for message in planted("exp", Wrong::LastElementOff, |x| Ok(vec![x[0].exp()?]), &inputs) {
        assert!(message.contains("output 0: 1 of 20 elements of [5, 4]; element [4, 3] is"), "{message}");
    }
}

#[test]
fn small_elements_beside_large_ones_are_compared() {
    let values: Vec<f64> = (0..1000).map(|at| if at % 2 == 0 { 1.0 } else { 1e-2 }).collect();
    let right = Tensor::from_slice(&values, [1000], &cpu()).unwrap().to_dtype(DType::F32).unwrap();
    let off: Vec<f64> = values.iter().map(|&v| if v < 0.5 { v * 1.01 } else { v }).collect();
    let left = Tensor::from_slice(&off, [1000], &cpu()).unwrap().to_dtype(DType::F32).unwrap();
    let message = compare_tensors("x", &left, &right).unwrap_err().to_string();
    assert!(message.contains("x: 500 of 1000 elements"), "{message}");
    assert_eq!(compare_tensors("x", &right, &right).unwrap(), 1000);
}

#[test]
fn honest_devices_agree() {
    let functions: [(&str, Function, usize); 7] = [
        ("cross_entropy", cross_entropy, 2),
        ("mean of tanh", mean_of_tanh, 1),
        ("layer norm", |x| Ok(vec![x[0].layer_norm(None, None, 1e-5)?.square()?.mean_all()?]), 1),
        ("softmax of a product", |x| Ok(vec![x[0].matmul(&x[0].transpose(0, 1)?)?.softmax(1)?]), 1),
        (
            "sum of cancelling terms",
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
fn a_function_that_does_not_repeat_itself_is_told_from_a_wrong_one() {
    let random = |x: &[Tensor]| Ok(vec![x[0].mul(&Tensor::randn([40], DType::F32, x[0].device())?)?]);
    let device = cpu();
    let message = compare_devices(random, &device, &device, &[labels(40).to_dtype(DType::F32).unwrap()]);
    let message = message.unwrap_err().to_string();
    assert!(message.contains("differs again when the second (cpu) repeats it"), "{message}");
}

// ---- Models

fn convolutional(device: &Device) -> Result<Sequential> {
    device.seed(7);
    Ok(Sequential::new()
        .with(Conv2d::new(1, 4, [3, 3], device)?)
        .with(BatchNorm2d::new(4, device)?)
        .with(ReLU)
        .with(MaxPool2d::new(2))
        .with(Flatten::default())
        .with(Linear::new(4 * 3 * 3, 8, device)?)
        .with(Tanh)
        .with(Linear::new(8, 8, device)?)
        .with(GELU::default())
        .with(Linear::new(8, 3, device)?))
}

/// The same model on `device`.
fn moved(build: impl Fn(&Device) -> Result<Sequential>, device: &Device) -> Sequential {
    let model = build(&cpu()).unwrap();
    model.to_device(device).unwrap();
    model
}

#[test]
fn the_faulty_layer_is_named() {
    let images = random(&[6, 1, 8, 8], DType::F32, 8);
    let faults = [
        ("relu_grad", 5.0, "2 (ReLU)"),
        ("max_pool2d_grad", 5.0, "3 (MaxPool2d)"),
        ("tanh_grad", 5.0, "6 (Tanh)"),
        ("gelu_erf_grad", 0.0, "8 (GELU)"),
        ("batch_norm_grad", 5.0, "1 (BatchNorm2d)"),
    ];
    for (op, factor, layer) in faults {
        let faulty = broken(&cpu(), op, Wrong::Times(factor));
        for (a, b) in [(faulty.clone(), cpu()), (cpu(), faulty)] {
            let (first, second) = (moved(convolutional, &a), moved(convolutional, &b));
            let message = compare_models(&first, &second, &images).expect_err(op).to_string();
            let wanted = format!(
                "compare_models: first (cpu) and second (cpu) differ: backward of layer {layer}: gradient of"
            );
            assert!(message.starts_with(&wanted), "{op}: {message}");
            assert!(message.contains("first mean") && message.contains("second mean"), "{message}");
        }
    }
}

#[test]
fn the_first_layer_and_a_wrong_forward_are_named() {
    let build = |device: &Device| {
        device.seed(9);
        Ok(Sequential::new().with(ReLU).with(Tanh).with(Linear::new(5, 2, device)?))
    };
    let input = random(&[4, 5], DType::F32, 10);
    for (op, wanted) in [
        ("tanh_grad", "backward of layer 1 (Tanh): gradient of the output of layer 0 (ReLU)"),
        ("relu_grad", "backward of layer 0 (ReLU): gradient of the input"),
        ("tanh", "differ: output of layer 1 (Tanh)"),
    ] {
        let faulty = broken(&cpu(), op, Wrong::Times(5.0));
        let message = compare_models(&moved(build, &faulty), &moved(build, &cpu()), &input).expect_err(op);
        assert!(message.to_string().contains(wanted), "{message}");
    }
}

#[test]
fn honest_models_agree_and_are_left_as_they_were() {
    let images = random(&[6, 1, 8, 8], DType::F32, 8);
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        for training in [true, false] {
            let models = [moved(convolutional, &cpu()), moved(convolutional, &Composed::new(cpu()))];
            models.iter().for_each(|model| model.to_dtype(dtype).unwrap());
            if !training {
                models.iter().for_each(Module::eval);
            }
            let before = models[0].state_dict().unwrap();
            let images = images.to_dtype(dtype).unwrap();
            for (first, second) in [(&models[0], &models[1]), (&models[1], &models[0])] {
                let result = compare_models(first, second, &images);
                assert!(result.is_ok(), "{dtype} training {training}: {}", result.unwrap_err());
            }
            for (key, tensor) in models[0].state_dict().unwrap() {
                assert_eq!(tensor.to_bytes().unwrap(), before[&key].to_bytes().unwrap(), "{key}");
            }
        }
    }
}

#[test]
fn integers_buffers_and_models_without_parameters() {
    let build = |device: &Device| {
        device.seed(11);
        Ok(Sequential::new().with(Embedding::new(10, 4, device)?).with(Tanh))
    };
    let tokens = labels(6);
    assert!(compare_models(&moved(build, &cpu()), &moved(build, &Composed::new(cpu())), &tokens).is_ok());
    let faulty = broken(&cpu(), "tanh_grad", Wrong::Times(5.0));
    let message =
        compare_models(&moved(build, &faulty), &moved(build, &cpu()), &tokens).unwrap_err().to_string();
    assert!(message.contains("backward of layer 1 (Tanh)"), "{message}");

    let (first, second) = (moved(convolutional, &cpu()), moved(convolutional, &cpu()));
    first.named_buffers()[0].1.tensor().fill_(0.5).unwrap();
    let message =
        compare_models(&first, &second, &random(&[2, 1, 8, 8], DType::F32, 1)).unwrap_err().to_string();
    assert!(message.contains("differ: buffer 1.running_"), "{message}");

    let plain = || Sequential::new().with(ReLU).with(Tanh);
    assert_eq!(compare_models(&plain(), &plain(), &random(&[2, 3], DType::F32, 1)).unwrap(), 6 * 6);
    let message =
        compare_models(&plain(), &Sequential::new().with(ReLU), &tokens.to_dtype(DType::F32).unwrap());
    assert!(message.unwrap_err().to_string().starts_with("compare_models: "));
}

#[test]
fn dropout_in_training_is_not_blamed_on_a_layer() {
    let model = || Sequential::new().with(Dropout::new(0.5).unwrap());
    let message = compare_models(&model(), &model(), &random(&[50], DType::F32, 1)).unwrap_err().to_string();
    assert!(message.starts_with("compare_models: ") && message.contains("switch dropout off"), "{message}");
    assert!(model().forward(&random(&[2], DType::F32, 1)).is_ok());
}
