//! Model comparison names the op that is wrong and the layer that contains it, never an op that is
//! correct or did not run.

mod broken;

use broken::{Wrong, broken};
use ternion_core::decorators::Composed;
use ternion_core::{DType, Device, Result, Tensor};
use ternion_nn::{
    BatchNorm2d, Conv2d, Dropout, Embedding, Flatten, Forward, GELU, Linear, MaxPool2d, Mlp, Module, Param,
    ReLU, Sequential, Tanh,
};
use ternion_testing::{compare_models, compare_models_with};

fn cpu() -> Device {
    ternion_cpu::device()
}

fn random(shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    let device = cpu();
    device.seed(seed);
    Tensor::randn(shape, DType::F32, &device).unwrap().to_dtype(dtype).unwrap()
}

fn labels(count: usize) -> Tensor {
    let labels: Vec<i64> = (0..count as i64).map(|at| at % 10).collect();
    Tensor::from_slice(&labels, [count], &cpu()).unwrap()
}

/// Builds a model on the CPU and moves it to `device`, so that its parameters are the same on every
/// device.
fn build_on_device<M: Module>(build: impl Fn(&Device) -> Result<M>, device: &Device) -> M {
    let model = build(&cpu()).unwrap();
    model.to_device(device).unwrap();
    model
}

/// Returns two messages: when `op` is wrong on the first device, and when it is wrong on the
/// second.
fn messages<M: Module + Forward>(
    op: &'static str,
    build: impl Fn(&Device) -> Result<M>,
    input: &Tensor,
) -> [String; 2] {
    let faulty = broken(&cpu(), op, Wrong::Times(5.0));
    [(faulty.clone(), cpu()), (cpu(), faulty)].map(|(a, b)| {
        compare_models(&build_on_device(&build, &a), &build_on_device(&build, &b), input)
            .expect_err(op)
            .to_string()
    })
}

fn assert_starts(message: &str, part: &str) {
    let expected = format!("compare_models: first (cpu) and second (cpu) differ: {part}");
    assert!(message.starts_with(&expected), "{expected}\n{message}");
    assert!(message.contains("first mean") && message.contains("second mean"), "{message}");
}

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
            let (first, second) = (build_on_device(convolutional, &a), build_on_device(convolutional, &b));
            let message = compare_models(&first, &second, &images).expect_err(op).to_string();
            let forward = op.strip_suffix("_grad").expect("a gradient");
            assert_starts(&message, &format!("backward of op {forward} (in {layer}): gradient of"));
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
    for (op, expected) in [
        ("tanh_grad", "backward of op tanh (in 1 (Tanh)): gradient of the output of layer 0 (ReLU)"),
        ("relu_grad", "backward of op relu (in 0 (ReLU)): gradient of the input"),
        ("tanh", "differ: op tanh (in 1 (Tanh)): output: "),
    ] {
        let faulty = broken(&cpu(), op, Wrong::Times(5.0));
        let message =
            compare_models(&build_on_device(build, &faulty), &build_on_device(build, &cpu()), &input)
                .expect_err(op);
        assert!(message.to_string().contains(expected), "{message}");
    }
}

#[test]
fn correct_models_agree_and_are_not_changed() {
    let images = random(&[6, 1, 8, 8], DType::F32, 8);
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        for training in [true, false] {
            let models = [
                build_on_device(convolutional, &cpu()),
                build_on_device(convolutional, &Composed::new(cpu())),
            ];
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
    assert!(
        compare_models(
            &build_on_device(build, &cpu()),
            &build_on_device(build, &Composed::new(cpu())),
            &tokens
        )
        .is_ok()
    );
    let faulty = broken(&cpu(), "tanh_grad", Wrong::Times(5.0));
    let message = compare_models(&build_on_device(build, &faulty), &build_on_device(build, &cpu()), &tokens)
        .unwrap_err()
        .to_string();
    assert!(message.contains("backward of op tanh (in 1 (Tanh))"), "{message}");

    let (first, second) = (build_on_device(convolutional, &cpu()), build_on_device(convolutional, &cpu()));
    first.named_buffers()[0].1.tensor().fill_(0.5).unwrap();
    let message =
        compare_models(&first, &second, &random(&[2, 1, 8, 8], DType::F32, 1)).unwrap_err().to_string();
    assert!(message.contains("differ: buffer 1.running_"), "{message}");

    let plain = || Sequential::new().with(ReLU).with(Tanh);
    // Two ops, two layers and the model; in the backward pass, the output and input gradients of
    // each op, and the input's gradient.
    assert_eq!(compare_models(&plain(), &plain(), &random(&[2, 3], DType::F32, 1)).unwrap(), (5 + 5) * 6);
    let message =
        compare_models(&plain(), &Sequential::new().with(ReLU), &tokens.to_dtype(DType::F32).unwrap());
    assert!(message.unwrap_err().to_string().starts_with("compare_models: "));
}

#[test]
fn dropout_in_training_mode_is_not_attributed_to_a_layer() {
    let model = || Sequential::new().with(Dropout::new(0.5).unwrap());
    let message = compare_models(&model(), &model(), &random(&[50], DType::F32, 1)).unwrap_err().to_string();
    assert!(message.starts_with("compare_models: ") && message.contains("switch dropout off"), "{message}");
    assert!(model().forward(&random(&[2], DType::F32, 1)).is_ok());
}

#[test]
fn an_op_between_layers_is_named_with_its_location() {
    let build = |device: &Device| {
        device.seed(12);
        Mlp::new([5, 6, 4, 3], device)
    };
    let input = random(&[4, 5], DType::F32, 10);
    let location = "between layers.0 (Linear) and layers.1 (Linear)";
    for message in messages("relu", build, &input) {
        assert_starts(&message, &format!("op relu ({location}): output: "));
    }
    for message in messages("relu_grad", build, &input) {
        let location = location.replace("layers.1", "layers.2").replace("layers.0", "layers.1");
        assert_starts(
            &message,
            &format!("backward of op relu ({location}): gradient of the output of layer layers.1 (Linear)"),
        );
    }
}

/// `x + linear(x)`, a layer that does not report its start.
#[derive(Module)]
struct Block {
    a: Linear,
}

impl Forward for Block {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.add(&self.a.forward(input)?)
    }
}

#[derive(Module)]
struct Blocks {
    blocks: Vec<Block>,
}

impl Forward for Blocks {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.blocks.iter().try_fold(input.clone(), |value, block| block.forward(&value))
    }
}

#[test]
fn a_wrong_sum_of_a_residual_block_is_not_attributed_to_the_layer_before() {
    let build = |device: &Device| {
        device.seed(13);
        Ok(Blocks {
            blocks: (0..2).map(|_| Ok(Block { a: Linear::new(4, 4, device)? })).collect::<Result<_>>()?,
        })
    };
    for message in messages("add", build, &random(&[3, 4], DType::F32, 10)) {
        assert_starts(&message, "op add (between blocks.0.a (Linear) and blocks.1.a (Linear)): output: ");
    }
}

/// `tanh(x) * scale`, a custom layer that does not report its start.
#[derive(Module)]
struct CustomLayer {
    scale: Param,
}

impl Forward for CustomLayer {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.tanh()?.mul(&self.scale.tensor())
    }
}

#[test]
fn a_custom_layer_is_not_skipped() {
    let build = |device: &Device| {
        device.seed(14);
        let custom = CustomLayer { scale: Param::new(&Tensor::full([4], 2.0, DType::F32, device)?)? };
        Ok(Sequential::new().with(Linear::new(4, 4, device)?).with(custom).with(Linear::new(4, 2, device)?))
    };
    let (input, location) = (random(&[3, 4], DType::F32, 10), "between 0 (Linear) and 2 (Linear)");
    for message in messages("tanh", build, &input) {
        assert_starts(&message, &format!("op tanh ({location}): output: "));
    }
    for message in messages("mul", build, &input) {
        assert_starts(&message, &format!("op mul ({location}): output: "));
    }
    for message in messages("tanh_grad", build, &input) {
        assert_starts(
            &message,
            &format!("backward of op tanh ({location}): gradient of the output of layer 0 (Linear)"),
        );
    }
}

/// Two branches of layers without fields, of which one runs.
#[derive(Module)]
struct Skip {
    first: Sequential,
    second: Sequential,
}

impl Forward for Skip {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let _ = &self.first;
        self.second.forward(input)
    }
}

#[test]
fn a_layer_that_did_not_run_is_not_named() {
    let branch = || Sequential::new().with(Tanh).with(ReLU).with(Tanh).with(ReLU);
    let build = || Skip { first: branch(), second: branch() };
    let on = |device: &Device| random(&[3, 4], DType::F32, 10).to_device(device).unwrap();
    let faulty = broken(&cpu(), "relu", Wrong::Times(5.0));
    let message = compare_models_with(&build(), &build(), |model, _| {
        let device = if WRONG.replace(false) { &faulty } else { &cpu() };
        Ok(vec![model.forward(&on(device))?])
    });
    assert_starts(&message.unwrap_err().to_string(), "op relu (in second.1 (ReLU)): output: ");
}

thread_local! {
    /// The first run is on the wrong device.
    static WRONG: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

#[test]
fn a_wrong_sum_of_gradients_is_not_attributed_to_an_op() {
    // The gradients of x are added in the backward pass; the forward pass has no addition.
    #[derive(Module)]
    struct Twice {
        gain: Param,
    }
    impl Forward for Twice {
        fn forward(&self, input: &Tensor) -> Result<Tensor> {
            let x = input.mul(&self.gain.tensor())?;
            x.exp()?.mul(&x.sin()?)
        }
    }
    let build = |device: &Device| Ok(Twice { gain: Param::new(&Tensor::ones([4], DType::F32, device)?)? });
    for message in messages("add", build, &random(&[3, 4], DType::F32, 10)) {
        assert_starts(
            &message,
            "sum of the gradients that come to op mul (in no layer): gradient of output 0: ",
        );
    }
}

#[test]
fn comparison_restores_the_tensors_of_the_models() {
    let images = random(&[6, 1, 8, 8], DType::F32, 8);
    // bf16 results differ by more than the limits, so that the second model runs again with moved
    // parameters.
    let models =
        [build_on_device(convolutional, &cpu()), build_on_device(convolutional, &Composed::new(cpu()))];
    models.iter().for_each(|model| model.to_dtype(DType::BF16).unwrap());
    models.iter().for_each(|model| model.parameters()[0].freeze());
    let state = || -> Vec<_> {
        let state_of = |model: &Sequential| {
            let parameters =
                model.parameters().into_iter().map(|p| (p.tensor().id(), p.tensor().to_bytes().unwrap()));
            parameters
                .chain(model.named_buffers().into_iter().map(|(_, b)| (None, b.tensor().to_bytes().unwrap())))
                .collect::<Vec<_>>()
        };
        models.iter().map(state_of).collect()
    };
    let before = state();
    let faulty = broken(&cpu(), "relu", Wrong::Times(5.0));
    compare_models(&models[0], &models[1], &images.to_dtype(DType::BF16).unwrap()).unwrap();
    assert!(before == state());
    let wrong = build_on_device(convolutional, &faulty);
    wrong.to_dtype(DType::BF16).unwrap();
    wrong.parameters()[0].freeze();
    compare_models(&wrong, &models[1], &images.to_dtype(DType::BF16).unwrap())
        .expect_err("relu, after reruns");
    assert!(before == state(), "also after a difference");
}

#[test]
fn models_behind_a_trait_object_of_half_precision_and_of_tied_parameters() {
    let build = |device: &Device| -> Result<Sequential> {
        device.seed(15);
        let first = Linear::new(4, 4, device)?;
        let second = Linear { weight: first.weight.clone(), ..Linear::new(4, 4, device)? };
        Ok(Sequential::new().with(first).with(Tanh).with(second))
    };
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let models = [build_on_device(build, &cpu()), build_on_device(build, &Composed::new(cpu()))];
        models.iter().for_each(|model| model.to_dtype(dtype).unwrap());
        let input = random(&[30, 4], dtype, 3);
        let (first, second): (&dyn Forward, &dyn Forward) = (&models[0], &models[1]);
        compare_models(first, second, &input).unwrap();
        let faulty = build_on_device(build, &broken(&cpu(), "tanh_grad", Wrong::Times(1.1)));
        faulty.to_dtype(dtype).unwrap();
        let message = compare_models(&faulty as &dyn Forward, second, &input).unwrap_err().to_string();
        let expected =
            "differ: backward of op tanh (in 1 (Tanh)): gradient of the output of layer 0 (Linear): ";
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn several_inputs_and_outputs() {
    let build = |device: &Device| {
        device.seed(16);
        Ok(Blocks {
            blocks: vec![Block { a: Linear::new(4, 4, device)? }, Block { a: Linear::new(4, 4, device)? }],
        })
    };
    let run = |model: &Blocks, device: &Device| {
        let inputs = [1, 2].map(|seed| random(&[3, 4], DType::F32, seed).to_device(device));
        let [a, b] = inputs;
        Ok(vec![model.blocks[0].forward(&a?)?, model.blocks[1].forward(&b?)?.sigmoid()?])
    };
    let good = build_on_device(build, &cpu());
    assert!(compare_models_with(&good, &build_on_device(build, &Composed::new(cpu())), run).is_ok());
    let faulty = build_on_device(build, &broken(&cpu(), "sigmoid_grad", Wrong::Times(5.0)));
    let message = compare_models_with(&faulty, &good, run).unwrap_err().to_string();
    assert_starts(&message, "backward of op sigmoid (after blocks.1.a (Linear)): gradient of input 0: ");
}

#[test]
fn only_nan_on_both_sides_is_an_error() {
    let build = |device: &Device| -> Result<Sequential> {
        device.seed(17);
        let layer = Linear::new(3, 2, device)?;
        layer.weight.set(&Tensor::full([2, 3], f64::NAN, DType::F32, device)?)?;
        Ok(Sequential::new().with(Tanh).with(layer).with(Tanh))
    };
    let message =
        compare_models(&build(&cpu()).unwrap(), &build(&cpu()).unwrap(), &random(&[2, 3], DType::F32, 1));
    let message = message.unwrap_err().to_string();
    assert!(message.contains("every element of the outputs of the model is NaN on both sides"), "{message}");
    assert!(
        message.contains("the first NaN is in the output of op") && message.contains("(in 1 (Linear))"),
        "{message}"
    );
}

#[test]
fn a_parameter_frozen_in_one_model_is_named() {
    let (first, second) = (build_on_device(convolutional, &cpu()), build_on_device(convolutional, &cpu()));
    second.parameters()[0].freeze();
    let message =
        compare_models(&first, &second, &random(&[2, 1, 8, 8], DType::F32, 1)).unwrap_err().to_string();
    assert_eq!(message, "compare_models: parameter 0.weight is frozen in the second model only");
}

/// A tanh that saves nothing for its gradient.
#[derive(Module)]
struct Frugal;

impl Forward for Frugal {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        Ok(ternion_core::checkpoint(|x| Ok(vec![x[0].tanh()?]), &[input])?.swap_remove(0))
    }
}

#[test]
fn an_op_inside_a_checkpoint_is_named_with_the_location_of_the_checkpoint() {
    let build = |device: &Device| {
        device.seed(18);
        Ok(Sequential::new().with(Linear::new(4, 4, device)?).with(Frugal).with(Linear::new(4, 2, device)?))
    };
    let (input, location) = (random(&[3, 4], DType::F32, 10), "between 0 (Linear) and 2 (Linear)");
    for message in messages("tanh", build, &input) {
        assert_starts(&message, &format!("op tanh ({location}): output: "));
    }
    for message in messages("tanh_grad", build, &input) {
        assert_starts(&message, &format!("backward of op tanh ({location}): gradient of input 0: "));
    }
}
