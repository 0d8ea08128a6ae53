//! Layers, losses, initialization and state dicts against PyTorch: tests/reference/nn.json, written
//! by tests/reference/nn.py.

#[path = "support/reference.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod pytorch;

#[path = "layers/defaults.rs"]
mod defaults;
#[path = "support/layer.rs"]
mod layer;

use approx::assert_relative_eq;
use layer::{LayerCase, on_each_device};
use pytorch::{assert_close, tensor_of};
use serde_json::Value;
use ternion::Conv2dOptions;
use ternion::nn::{
    self, BatchNormConfig, Conv2dConfig, GeluApproximation, LayerNormConfig, LinearConfig, Matching,
    init::{Fan, Nonlinearity},
    observe_layers,
};
use ternion::prelude::*;

fn reference() -> Value {
    serde_json::from_str(include_str!("reference/nn.json")).expect("nn.json is JSON")
}

fn device() -> Device {
    ternion_cpu::device()
}

fn check_layer(name: &str, layer: &impl Forward, device: &Device) -> Result<()> {
    let values = &reference()["layers"][name];
    let case = LayerCase { name, values, gradient_error: 1e-6, device };
    case.check(layer, |x| layer.forward(&x[0]))
}

#[test]
fn linear_layers_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        check_layer("linear", &Linear::new(3, 2, device)?, device)?;
        check_layer("linear_rank_3", &Linear::new(3, 2, device)?, device)
    })
}

#[test]
fn convolutions_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        check_layer("conv2d", &Conv2d::new(2, 3, [3, 3], device)?, device)?;
        let options = Conv2dOptions { stride: [2, 1], padding: [1, 2], dilation: [1, 2], groups: 2 };
        let config = Conv2dConfig { options, ..Default::default() };
        check_layer("conv2d_general", &Conv2d::with_config([4, 6], [3, 2], config, device)?, device)
    })
}

#[test]
fn pooling_equals_pytorch() -> Result<()> {
    on_each_device(|device| {
        check_layer("max_pool2d", &MaxPool2d::new(2), device)?;
        check_layer("avg_pool2d", &AvgPool2d::new(2), device)
    })
}

#[test]
fn norms_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        check_layer("layer_norm", &LayerNorm::new(5, device)?, device)?;
        check_layer("batch_norm2d", &BatchNorm2d::new(2, device)?, device)
    })
}

#[test]
fn activations_equal_pytorch() -> Result<()> {
    on_each_device(|device| {
        check_layer("relu", &ReLU, device)?;
        check_layer("leaky_relu", &LeakyReLU::default(), device)?;
        check_layer("elu", &ELU::default(), device)?;
        check_layer("gelu", &GELU::default(), device)?;
        check_layer("gelu_tanh", &GELU { approximate: GeluApproximation::Tanh }, device)?;
        check_layer("silu", &SiLU, device)?;
        check_layer("softplus", &Softplus::default(), device)?;
        check_layer("tanh", &Tanh, device)?;
        check_layer("sigmoid", &Sigmoid, device)?;
        check_layer("softmax", &Softmax { axis: -1 }, device)?;
        check_layer("log_softmax", &LogSoftmax { axis: 0 }, device)?;
        check_layer("flatten", &Flatten::default(), device)
    })
}

/// Compares the running statistics after two batches, and the output for another batch in
/// evaluation mode.
fn check_statistics(name: &str, config: BatchNormConfig, device: &Device) -> Result<()> {
    let all = reference();
    let case = &all[name];
    let norm = BatchNorm2d::with_config(2, config, device)?;
    for batch in case["batches"].as_array().expect("batches") {
        norm.forward(&tensor_of(batch, device))?;
    }
    let state = norm.state_dict()?;
    let expected_state = case["state"].as_object().expect("a state");
    assert_eq!(state.keys().collect::<Vec<_>>(), expected_state.keys().collect::<Vec<_>>(), "{name}");
    for (key, tensor) in &state {
        assert_close(&format!("{name} {key}"), tensor, &expected_state[key]);
    }
    norm.eval();
    let output = norm.forward(&tensor_of(&case["input"], device))?;
    assert_close(&format!("{name} output"), &output, &case["output"]);
    for (key, tensor) in norm.state_dict()? {
        assert_close(&format!("{name} {key}, unchanged in use"), &tensor, &expected_state[&key]);
    }
    Ok(())
}

#[test]
fn batch_norm_keeps_pytorchs_running_statistics() -> Result<()> {
    on_each_device(|device| {
        check_statistics("batch_norm", BatchNormConfig::default(), device)?;
        let cumulative = BatchNormConfig { momentum: None, ..Default::default() };
        check_statistics("batch_norm_cumulative", cumulative, device)?;
        let untracked = BatchNormConfig { track_running_stats: false, ..Default::default() };
        check_statistics("batch_norm_untracked", untracked, device)?;

        let state_of = |norm: &BatchNorm2d| {
            let one = Tensor::zeros([1, 2, 1, 1], DType::F32, device)?;
            Ok::<_, Error>(norm.forward(&one).expect_err("one value has no variance").to_string())
        };
        let message = "batch_norm: training on shape [1, 2, 1, 1]: a channel of 1 value has no variance";
        assert_eq!(state_of(&BatchNorm2d::new(2, device)?)?, message);
        let norm = BatchNorm2d::with_config(2, untracked, device)?;
        norm.eval();
        assert_eq!(state_of(&norm)?, message.replace("training", "batch statistics"));
        Ok(())
    })
}

#[test]
fn batch_norm_rejects_inputs_of_other_channels_and_is_not_changed() -> Result<()> {
    on_each_device(|device| {
        for momentum in [Some(0.1), None] {
            let config = BatchNormConfig { affine: false, momentum, ..Default::default() };
            let (sequences, images) =
                (BatchNorm1d::with_config(3, config, device)?, BatchNorm2d::with_config(3, config, device)?);
            for channels in [1, 2] {
                let dims = [4, channels, 5, 5];
                let x = Tensor::ones(dims, DType::F32, device)?;
                for training in [true, false] {
                    let (result, state) = if training {
                        images.train();
                        (images.forward(&x), images.state_dict()?)
                    } else {
                        sequences.eval();
                        (sequences.forward(&x.select(-1, 0)?), sequences.state_dict()?)
                    };
                    let message = result.expect_err("statistics of another size").to_string();
                    let expected = format!("batch_norm: running_mean has shape [3], expected [{channels}]");
                    assert!(message.contains(&expected), "{message}");
                    assert_eq!(state["running_mean"].to_vec::<f32>()?, [0.0; 3]);
                    assert_eq!(state["running_var"].to_vec::<f32>()?, [1.0; 3]);
                    assert_eq!(state["num_batches_tracked"].item_f64()?, 0.0);
                }
            }
        }
        Ok(())
    })
}

#[test]
fn losses_equal_pytorch() -> Result<()> {
    on_each_device(losses_equal_pytorch_on)
}

fn losses_equal_pytorch_on(device: &Device) -> Result<()> {
    let all = reference();
    let input = |name: &str| tensor_of(&all["losses"]["inputs"][name], device);
    let check = |name: &str, got: Result<Tensor>| {
        assert_close(name, &got.expect(name), &all["losses"]["values"][name]);
    };
    let (x, target, log_x) = (input("x"), input("target"), input("log_x"));
    let (probabilities, shares) = (input("probabilities"), input("shares"));
    let classes = Tensor::from_slice(&[2i64, 0, 3], [3], device)?;
    let ignoring = Tensor::from_slice(&[2i64, -100, 3], [3], device)?;
    let cross_entropy = |reduction| CrossEntropyLoss { reduction, ..Default::default() };
    let weight = || Some(StateTensor::new(&input("class_weights")));

    check("cross_entropy", CrossEntropyLoss::default().forward(&x, &classes));
    check("cross_entropy_ignoring", CrossEntropyLoss::default().forward(&x, &ignoring));
    let smoothed = CrossEntropyLoss { label_smoothing: 0.1, ..Default::default() };
    check("cross_entropy_smoothed", smoothed.forward(&x, &classes));
    check("cross_entropy_sum", cross_entropy(Reduction::Sum).forward(&x, &classes));
    check("cross_entropy_each", cross_entropy(Reduction::None).forward(&x, &classes));
    let weighted = CrossEntropyLoss { weight: weight(), ..Default::default() };
    check("cross_entropy_weighted", weighted.forward(&x, &ignoring));
    assert_eq!(weighted.state_dict()?.into_keys().collect::<Vec<_>>(), ["weight"]);
    let smoothed = CrossEntropyLoss { label_smoothing: 0.1, ..weighted };
    check("cross_entropy_weighted_smoothed", smoothed.forward(&x, &ignoring));
    check("cross_entropy_weighted_probabilities", smoothed.forward(&x, &probabilities));
    check("nll_weighted", NLLLoss { weight: weight(), ..Default::default() }.forward(&log_x, &ignoring));
    check("cross_entropy_probabilities", CrossEntropyLoss::default().forward(&x, &probabilities));
    check("nll", NLLLoss::default().forward(&log_x, &classes));
    check("mse", MSELoss::default().forward(&x, &target));
    check("l1", L1Loss::default().forward(&x, &target));
    check("huber", HuberLoss::default().forward(&x, &target));
    check("huber_half", HuberLoss { delta: 0.5, reduction: Reduction::Sum }.forward(&x, &target));
    check("bce_with_logits", BCEWithLogitsLoss::default().forward(&x, &shares));
    check("kl_div", KLDivLoss::default().forward(&log_x, &probabilities));
    let log = KLDivLoss { log_target: true, reduction: Reduction::Sum };
    check("kl_div_log", log.forward(&log_x, &probabilities.log()?));
    Ok(())
}

/// Computed by hand from PyTorch's definitions.
#[test]
fn positive_weights_batch_means_and_betas_are_applied() -> Result<()> {
    let device = ternion::cpu()?;
    let tensor = |values: [[f64; 2]; 2]| Tensor::new(values, &device);
    let (x, target) = (tensor([[0.5, -1.0], [2.0, 0.0]])?, tensor([[1.0, 0.0], [0.25, 1.0]])?);
    let pos_weight = StateTensor::new(&Tensor::new([3.0f64, 0.5], &device)?);
    let loss = BCEWithLogitsLoss { pos_weight: Some(pos_weight), reduction: Reduction::BatchMean };
    let log_sigmoid = |x: f64| -(-x).exp().ln_1p();
    let each = |x: f64, t: f64, w: f64| -(w * t * log_sigmoid(x) + (1.0 - t) * log_sigmoid(-x));
    let expected = each(0.5, 1.0, 3.0) + each(-1.0, 0.0, 0.5) + each(2.0, 0.25, 3.0) + each(0.0, 1.0, 0.5);
    assert_relative_eq!(loss.forward(&x, &target)?.item::<f64>()?, expected / 2.0, max_relative = 1e-14);
    assert_eq!(loss.state_dict()?.into_keys().collect::<Vec<_>>(), ["pos_weight"]);

    let divergence = KLDivLoss { reduction: Reduction::BatchMean, ..Default::default() };
    let sum = KLDivLoss { reduction: Reduction::Sum, ..Default::default() };
    let [mean, sum] =
        [divergence, sum].map(|loss| loss.forward(&x, &target).and_then(|loss| loss.item::<f64>()));
    assert_eq!(mean?, sum? / 2.0);

    let values = Softplus { beta: 4.0 }.forward(&x)?.to_vec::<f64>()?;
    for (value, x) in values.into_iter().zip([0.5f64, -1.0, 2.0, 0.0]) {
        assert_relative_eq!(value, (4.0 * x).exp().ln_1p() / 4.0, max_relative = 1e-14);
    }
    Ok(())
}

// ---- Initialization

#[test]
fn initialization_follows_pytorchs_formulas() -> Result<()> {
    let all = reference();
    let case = &all["initialization"];
    let shape = Shape::new(&[32, 16, 3, 5])?;
    let number = |key: &str| case[key].as_f64().expect(key);
    let near = |what: &str, got: f64, want: f64| {
        assert!((got - want).abs() <= 1e-12 * want.abs(), "{what}: got {got}, PyTorch has {want}");
    };
    let bound = |init: Init| match init.distribution(&shape) {
        Ok(Init::Uniform { low, high }) if low == -high => high,
        Ok(Init::Normal { mean: 0.0, std }) => std,
        other => panic!("{init:?} became {other:?}"),
    };
    let fans: Vec<u64> = case["fans"].as_array().expect("fans").iter().filter_map(Value::as_u64).collect();
    assert_eq!(nn::init::fans(&shape)?.map(|fan| fan as u64).as_slice(), fans);
    for (name, nonlinearity) in [
        ("linear", Nonlinearity::Linear),
        ("tanh", Nonlinearity::Tanh),
        ("relu", Nonlinearity::ReLU),
        ("leaky_relu_0.2", Nonlinearity::LeakyReLU(0.2)),
        ("selu", Nonlinearity::SELU),
    ] {
        near(name, nonlinearity.gain(), case["gains"][name].as_f64().expect(name));
    }
    near("default", bound(Init::layer_default()), number("kaiming_uniform_default_bound"));
    let fan_out = Init::KaimingUniform { fan: Fan::Out, nonlinearity: Nonlinearity::ReLU };
    near("kaiming uniform", bound(fan_out), number("kaiming_uniform_fan_out_relu_bound"));
    let normal = Init::KaimingNormal { fan: Fan::In, nonlinearity: Nonlinearity::ReLU };
    near("kaiming normal", bound(normal), number("kaiming_normal_relu_std"));
    let tanh = Nonlinearity::Tanh.gain();
    near("xavier uniform", bound(Init::XavierUniform { gain: tanh }), number("xavier_uniform_tanh_bound"));
    near("xavier normal", bound(Init::XavierNormal { gain: 1.0 }), number("xavier_normal_std"));
    Ok(())
}

/// Mean and standard deviation of 20,000 samples are within four standard errors, and no sample is
/// outside of the bounds.
#[test]
fn initial_values_have_their_distribution() -> Result<()> {
    let device = device();
    device.seed(5);
    let shape = [200, 100];
    let truncated = Init::TruncatedNormal { mean: 1.0, std: 2.0, low: -1.0, high: 3.0 };
    // The standard deviation of a normal distribution truncated at one standard deviation on both
    // sides is 0.539560 of the original one.
    for (init, mean, std, low, high) in [
        (Init::Constant(0.25), 0.25, 0.0, 0.25, 0.25),
        (Init::Uniform { low: -1.0, high: 3.0 }, 1.0, 4.0 / 12f64.sqrt(), -1.0, 3.0),
        (Init::Normal { mean: 0.5, std: 0.1 }, 0.5, 0.1, -0.2, 1.2),
        (truncated, 1.0, 2.0 * 0.539_560, -1.0, 3.0),
        (Init::layer_default(), 0.0, 0.1 / 3f64.sqrt(), -0.1, 0.1),
    ] {
        let stats = init.tensor(shape, DType::F32, &device)?.stats()?;
        let error = 4.0 * std / (stats.elements as f64).sqrt() + 1e-6;
        assert!((stats.mean - mean).abs() <= error, "{init:?}: {stats}");
        assert!((stats.std - std).abs() <= error, "{init:?}: {stats}");
        assert!(stats.min >= low - 1e-6 && stats.max <= high + 1e-6, "{init:?}: {stats}");
        if std > 0.0 {
            assert!(stats.max - stats.min > 1.5 * std, "{init:?}: {stats}");
        }
    }
    let bias = Linear::new(100, 5000, &device)?.bias.expect("a bias by default").tensor().stats()?;
    assert!(bias.max <= 0.1 && bias.min >= -0.1 && bias.max > 0.099, "{bias}");
    let bad = Init::TruncatedNormal { mean: 0.0, std: 1.0, low: 1.0, high: 1.0 };
    assert!(bad.tensor(shape, DType::F32, &device).is_err());
    assert!(Init::Constant(1.0).tensor(shape, DType::I64, &device).is_err());
    Ok(())
}

// ---- A model by its keys

#[derive(Module)]
struct Block {
    conv: Conv2d,
    norm: BatchNorm2d,
}

/// The fields of `Network` in tests/reference/nn.py.
#[derive(Module)]
struct Network {
    stem: Block,
    layers: Vec<Linear>,
    head: Sequential,
}

impl Network {
    fn new(device: &Device) -> Result<Network> {
        let no_bias = LinearConfig { bias: false, ..Default::default() };
        Ok(Network {
            stem: Block {
                conv: Conv2d::with_config([1, 2], [3, 3], Conv2dConfig::padded(1), device)?,
                norm: BatchNorm2d::new(2, device)?,
            },
            layers: vec![Linear::new(32, 4, device)?, Linear::new(4, 3, device)?],
            head: Sequential::new()
                .with(LayerNorm::with_config(3, LayerNormConfig::default(), device)?)
                .with(ReLU)
                .with(Linear::with_config(3, 2, no_bias, device)?),
        })
    }
}

impl Forward for Network {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let stem = self.stem.norm.forward(&self.stem.conv.forward(input)?)?.relu()?;
        let mut value = stem.flatten(1, -1)?;
        for layer in &self.layers {
            value = layer.forward(&value)?.tanh()?;
        }
        self.head.forward(&value)
    }
}

#[test]
fn state_dict_keys_equal_pytorchs() -> Result<()> {
    let model = Network::new(&device())?;
    let all = reference();
    let case = &all["network"];
    let strings = |key: &str| -> Vec<String> {
        let list = case[key].as_array().expect(key);
        list.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
    };
    let names: Vec<String> = model.named_parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, strings("parameters"), "in the order of declaration");
    let buffers: Vec<String> = model.named_buffers().into_iter().map(|(name, _)| name).collect();
    assert_eq!(buffers, strings("buffers"));
    let state = model.state_dict()?;
    let keys = case["keys"].as_object().expect("keys");
    assert_eq!(state.keys().collect::<Vec<_>>(), keys.keys().collect::<Vec<_>>());
    for (key, tensor) in &state {
        assert_eq!(serde_json::json!(tensor.dims()), keys[key], "{key}");
    }
    let by_handle: Vec<String> =
        model.parameters().iter().map(|param| param.name().expect("a name").to_owned()).collect();
    assert_eq!(by_handle, names);
    Ok(())
}

#[test]
fn weights_written_by_pytorch_load_as_they_are() -> Result<()> {
    on_each_device(|device| {
        let model = Network::new(device)?;
        nn::load(&model, concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference/pytorch.safetensors"))?;
        model.eval();
        assert!(!model.is_training());
        let all = reference();
        let output = model.forward(&tensor_of(&all["network"]["input"], device))?;
        assert_close("output", &output, &all["network"]["output"]);
        Ok(())
    })
}

#[test]
fn layers_are_observed_by_key_in_the_order_of_computation() -> Result<()> {
    let device = device();
    let model = Network::new(&device)?;
    let messages = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = messages.clone();
    let observer = move |call: &nn::LayerCall, output: &Tensor| {
        log.lock().expect("one thread").push(format!("{} {} {:?}", call.key, call.kind, output.shape()));
        Ok(())
    };
    let input = Tensor::ones([2, 1, 4, 4], DType::F32, &device)?;
    observe_layers(&model, observer, || model.forward(&input))?;
    model.forward(&input)?;
    let expected = [
        "stem.conv Conv2d [2, 2, 4, 4]",
        "stem.norm BatchNorm2d [2, 2, 4, 4]",
        "layers.0 Linear [2, 4]",
        "layers.1 Linear [2, 3]",
        "head.0 LayerNorm [2, 3]",
        "head.1 ReLU [2, 3]",
        "head.2 Linear [2, 2]",
    ];
    assert_eq!(*messages.lock().expect("one thread"), expected);
    Ok(())
}

#[test]
fn layers_without_fields_are_distinguished_by_where_they_run() -> Result<()> {
    #[derive(Module)]
    struct Skip {
        first: Sequential,
        second: Sequential,
        one: nn::ReLU,
        other: nn::ReLU,
    }
    let branch = || Sequential::new().with(nn::ReLU).with(Sequential::new().with(nn::Tanh).with(nn::ReLU));
    let model = Skip { first: branch(), second: branch(), one: nn::ReLU, other: nn::ReLU };
    let messages = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = messages.clone();
    let observer = move |call: &nn::LayerCall, _: &Tensor| {
        log.lock().expect("one thread").push(call.key.clone());
        Ok(())
    };
    let input = Tensor::ones([2], DType::F32, &device())?;
    observe_layers(&model, observer, || model.second.forward(&model.other.forward(&input)?))?;
    let messages = messages.lock().expect("one thread");
    assert!(
        messages[0].split(" or ").any(|key| key == "other"),
        "may be any of the existing ones: {}",
        messages[0]
    );
    assert_eq!(messages[1..], ["second.0", "second.1.0", "second.1.1"]);
    let _ = (&model.first, &model.one);
    Ok(())
}

#[test]
fn hooks_stay_with_a_parameter_whose_tensor_is_replaced() -> Result<()> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let device = device();
    let layer = Linear::new(2, 1, &device)?;
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let handle = layer.weight.tensor().register_hook(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    })?;
    let called = |dtype| -> Result<usize> {
        let before = calls.load(Ordering::Relaxed);
        layer.forward(&Tensor::ones([1, 2], dtype, &device)?)?.sum_all()?.backward()?;
        Ok(calls.load(Ordering::Relaxed) - before)
    };
    assert_eq!(called(DType::F32)?, 1);
    layer.to_dtype(DType::F64)?;
    assert_eq!(called(DType::F64)?, 1, "after a conversion");
    layer.weight.freeze();
    assert_eq!(called(DType::F64)?, 0, "no gradient flows to it");
    layer.weight.unfreeze();
    assert_eq!(called(DType::F64)?, 1, "back in training");
    handle.remove();
    assert_eq!(called(DType::F64)?, 0);
    Ok(())
}

// ---- State in and out

#[test]
fn state_dicts_are_snapshots_and_load_completely_or_not_at_all() -> Result<()> {
    let device = device();
    let (first, second) = (Network::new(&device)?, Network::new(&device)?);
    let snapshot = first.state_dict()?;
    let before = snapshot["layers.0.weight"].to_vec::<f32>()?;
    first.layers[0].weight.set(&Tensor::zeros([4, 32], DType::F32, &device)?)?;
    assert_eq!(snapshot["layers.0.weight"].to_vec::<f32>()?, before, "a later change leaves it unchanged");

    second.load_state_dict(&snapshot)?;
    assert_eq!(second.layers[0].weight.tensor().to_vec::<f32>()?, before);

    let mut bad = snapshot.clone();
    let weight = bad.remove("layers.1.weight").expect("it exists");
    bad.insert("layers.9.weight".into(), weight);
    bad.insert("stem.norm.bias".into(), Tensor::zeros([5], DType::F32, &device)?);
    bad.insert("stem.norm.weight".into(), Tensor::zeros([2], DType::I64, &device)?);
    let untouched = first.state_dict()?;
    let message = first.load_state_dict(&bad).expect_err("four misfits").to_string();
    assert_eq!(
        message,
        "load_state_dict: the state does not fit; missing: layers.1.weight; extra: layers.9.weight; \
         wrong shape: stem.norm.bias [5], expected [2]; wrong dtype: stem.norm.weight i64, expected f32"
    );
    for (key, tensor) in first.state_dict()? {
        assert_eq!(tensor.to_vec_f64()?, untouched[&key].to_vec_f64()?, "{key} was changed by a failed load");
    }

    bad.remove("stem.norm.bias");
    bad.remove("stem.norm.weight");
    let unmatched = first.load_state_dict_with(&bad, Matching::Partial)?;
    assert_eq!(unmatched.missing, ["layers.1.weight", "stem.norm.bias", "stem.norm.weight"]);
    assert_eq!(unmatched.unexpected, ["layers.9.weight"]);
    assert_eq!(first.layers[0].weight.tensor().to_vec::<f32>()?, before);
    Ok(())
}

#[test]
fn models_are_cast_and_moved_with_their_optimizer() -> Result<()> {
    let (device, other) = (device(), device());
    let model = Network::new(&device)?;
    let mut sgd = SGD::new(model.parameters(), SGDConfig { lr: 0.5, ..Default::default() })?;
    model.to_device(&other)?;
    for (key, tensor) in model.state_dict()? {
        assert!(tensor.device().is(&other), "{key}");
    }
    let before = model.layers[1].bias.as_ref().expect("a bias").tensor().to_vec::<f32>()?;
    let input = Tensor::rand([3, 1, 4, 4], DType::F32, &other)?;
    sgd.step(&model.forward(&input)?.square()?.sum(..)?.backward()?)?;
    let after = model.layers[1].bias.as_ref().expect("a bias").tensor().to_vec::<f32>()?;
    assert_ne!(before, after, "the optimizer, made before the move, trains the moved parameters");

    model.to_dtype(DType::F64)?;
    let state = model.state_dict()?;
    assert!(state.iter().all(
        |(key, tensor)| tensor.dtype() == if key.ends_with("tracked") { DType::I64 } else { DType::F64 }
    ));
    assert_eq!(model.forward(&input.to_dtype(DType::F64)?)?.dtype(), DType::F64);
    let message = model.to_dtype(DType::I32).expect_err("no dtype for parameters").to_string();
    assert_eq!(message, "to_dtype: the requested dtype is i32, expected a floating dtype");
    Ok(())
}
