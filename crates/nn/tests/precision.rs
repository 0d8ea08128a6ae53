//! Training in mixed precision: modules with a separate precision, losses near those of f32, and
//! loss scales.

use ternion_core::decorators::Counting;
use ternion_core::{DType, Device, Gradients, Precision, Reduction, Result, Tensor, no_grad, with_precision};
use ternion_nn::optim::{
    Adagrad, AdagradConfig, Adam, AdamConfig, AdamW, AdamWConfig, Lion, LionConfig, Muon, MuonConfig,
    Optimizer, RMSprop, RMSpropConfig, SGD, SGDConfig, clip_grad_norm,
};
use ternion_nn::{
    Forward, GPT, GPTConfig, GRU, InPrecision, LSTM, Linear, LossScale, LossScaleConfig, Mlp, Module, Param,
    ReLU, ResNet, ResNetConfig, ScaledStep, Sequential, StateDict, TransformerBlock, TransformerBlockConfig,
};
use ternion_testing::recording;

fn device() -> Device {
    ternion_cpu::device()
}

fn bits(module: &(impl Module + ?Sized)) -> Result<Vec<Vec<u8>>> {
    module.parameters().iter().map(|param| param.tensor().detach().to_bytes()).collect()
}

fn message<T>(result: Result<T>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

// ---- Modules

#[test]
fn a_module_in_a_precision_keeps_its_keys_parameters_and_mode() -> Result<()> {
    let device = device();
    let layers = || -> Result<Sequential> {
        device.seed(1);
        Ok(Sequential::new().with(Linear::new(4, 6, &device)?).with(ReLU).with(Linear::new(6, 2, &device)?))
    };
    let (plain, wrapped) = (layers()?, InPrecision::new(Precision::Bf16, layers()?));
    assert_eq!(
        plain.state_dict()?.into_keys().collect::<Vec<_>>(),
        wrapped.state_dict()?.into_keys().collect::<Vec<_>>()
    );
    wrapped.load_state_dict(&plain.state_dict()?)?;
    let x = Tensor::randn([3, 4], DType::F32, &device)?;
    let expected = with_precision(Precision::Bf16, || plain.forward(&x))?;
    assert_eq!(wrapped.forward(&x)?.to_bytes()?, expected.to_bytes()?);
    assert_eq!(wrapped.run(|layers| layers.forward(&x))?.to_bytes()?, expected.to_bytes()?);
    assert_eq!(ternion_core::precision::current(), None);
    assert!(wrapped.parameters().iter().all(|param| param.dtype() == DType::F32));
    let gradients = wrapped.forward(&x)?.sum(..)?.backward()?;
    assert_eq!(gradients.len(), 4);
    assert!(gradients.iter().all(|(_, grad)| grad.dtype() == DType::F32));
    // As one of several layers: f32 inside bf16.
    let exact = InPrecision::new(Precision::F32, Linear::new(2, 2, &device)?);
    let model = Sequential::new().with(wrapped).with(exact);
    assert_eq!(model.named_parameters()[0].0, "0.0.weight");
    assert_eq!(with_precision(Precision::Bf16, || model.forward(&x))?.dtype(), DType::F32);
    Ok(())
}

#[test]
fn recurrent_layers_cast_each_weight_once_for_all_steps() -> Result<()> {
    let (device, counter) = Counting::new(device());
    let x = Tensor::randn([2, 9, 3], DType::F32, &device)?;
    let (lstm, gru) = (LSTM::new(3, 4, &device)?, GRU::new(3, 4, &device)?);
    let layers: [&dyn Forward; 2] = [&lstm, &gru];
    for layer in layers {
        let short = x.narrow(1, 0, 3)?;
        let mut copies = Vec::new();
        for input in [&short, &x] {
            counter.reset();
            let y = with_precision(Precision::Bf16, || layer.forward(input))?;
            copies.push(counter.counts().launches_of("copy"));
            let gradients = y.sum(..)?.backward()?;
            assert_eq!(gradients.len(), 4);
            assert!(gradients.iter().all(|(_, grad)| grad.dtype() == DType::F32));
        }
        // Each further element of the sequence casts the state and the three gates that are
        // combined with it in f32. Casts of weight and bias in every step would be two more.
        assert!(copies[1] - copies[0] <= 6 * 4, "{copies:?}");
        assert!(copies[0] >= 4 + 3 * 4, "{copies:?}");
    }
    Ok(())
}

#[test]
fn networks_of_every_kind_train_a_step_in_half_precision() -> Result<()> {
    let device = device();
    device.seed(3);
    let images = Tensor::randn([4, 3, 8, 8], DType::F32, &device)?;
    let resnet = ResNet::new(ResNetConfig { blocks: vec![1, 1], width: 4, ..Default::default() }, &device)?;
    let tokens = Tensor::from_slice(&[0i32, 3, 2, 1, 1, 2], [2, 3], &device)?;
    let gpt = GPT::new(
        GPTConfig { vocabulary: 5, context: 4, layers: 1, heads: 2, width: 8, ..Default::default() },
        &device,
    )?;
    let classes = Tensor::from_slice(&[0i32, 1, 2, 3], 4, &device)?;
    for precision in [Precision::Bf16, Precision::F16] {
        let loss = with_precision(precision, || resnet.forward(&images)?.cross_entropy(&classes))?;
        check_gradients(&resnet, &loss.backward()?)?;
        assert_eq!(resnet.state_dict()?["bn1.running_mean"].dtype(), DType::F32);
        let loss = with_precision(precision, || {
            let logits = gpt.forward(&tokens)?;
            logits.reshape([6, 5])?.cross_entropy(&tokens.reshape([6])?)
        })?;
        check_gradients(&gpt, &loss.backward()?)?;
    }
    Ok(())
}

fn check_gradients(module: &impl Module, gradients: &Gradients) -> Result<()> {
    for param in module.parameters() {
        let grad = param.gradient(gradients).expect("a gradient");
        assert_eq!(grad.dtype(), DType::F32);
        assert!(grad.to_vec::<f32>()?.iter().all(|x| x.is_finite()));
    }
    Ok(())
}

#[test]
fn optimizer_step_is_the_same_inside_a_scope() -> Result<()> {
    let device = device();
    let x = Tensor::randn([8, 4], DType::F32, &device)?;
    let mut ended = Vec::new();
    for inside in [false, true] {
        device.seed(5);
        let model = Linear::new(4, 3, &device)?;
        // Matrix products are part of its step.
        let mut muon = Muon::new(vec![model.weight.clone()], MuonConfig::default())?;
        let gradients = model.forward(&x)?.square()?.mean(..)?.backward()?;
        match inside {
            true => with_precision(Precision::Bf16, || muon.step(&gradients))?,
            false => muon.step(&gradients)?,
        }
        ended.push(bits(&model)?);
    }
    assert_eq!(ended[0], ended[1]);
    Ok(())
}

// ---- Training

/// Returns the mean loss of the last steps of training in `precision`, with a loss scale if it
/// needs one.
fn train(
    model: &impl Module,
    precision: Precision,
    steps: usize,
    loss: impl Fn() -> Result<Tensor>,
) -> Result<f64> {
    let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: 1e-2, ..Default::default() })?;
    let loss_scale = LossScale::default();
    let mut losses = Vec::new();
    for _ in 0..steps {
        let loss = with_precision(precision, &loss)?;
        assert_eq!(loss.dtype(), DType::F32);
        losses.push(loss.item_f64()?);
        if precision.needs_loss_scale() {
            loss_scale.step(&mut adam, &loss_scale.scale(&loss)?.backward()?)?;
        } else {
            adam.step(&loss.backward()?)?;
        }
    }
    assert!(loss_scale.skipped() <= 5, "{loss_scale}");
    let last = &losses[steps - 5..];
    let last = last.iter().sum::<f64>() / last.len() as f64;
    assert!(last < losses[0] / 4.0, "{precision}: from {} to {last}", losses[0]);
    Ok(last)
}

#[test]
fn an_mlp_learns_in_half_precision_what_it_learns_in_f32() -> Result<()> {
    let device = device();
    device.seed(11);
    let x = Tensor::rand([64, 4], DType::F32, &device)?;
    let target = x.mul_scalar(3.0)?.sin()?.sum_keep(1)?;
    let mut losses = Vec::new();
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        device.seed(12);
        let model = Mlp::new([4, 32, 32, 1], &device)?;
        let loss = || model.forward(&x)?.mse_loss(&target, Reduction::Mean);
        losses.push(train(&model, precision, 120, loss)?);
    }
    // Outputs of about 2 are rounded to 8 bits in bf16, with an error of up to 2^-8 each, whose
    // square is 1.5e-5; to 11 bits in f16, 2.4e-7. The same is allowed again for the rounding in
    // hidden layers, and half of the loss for a different training path.
    assert!(losses[1] <= 1.5 * losses[0] + 2.0 * 1.6e-5, "{losses:?}");
    assert!(losses[2] <= 1.5 * losses[0] + 2.0 * 2.4e-7, "{losses:?}");
    Ok(())
}

#[test]
fn a_transformer_block_learns_in_half_precision_what_it_learns_in_f32() -> Result<()> {
    let device = device();
    device.seed(21);
    let x = Tensor::randn([8, 6, 16], DType::F32, &device)?;
    // The target is each token's neighbor: attention has to find it.
    let target = Tensor::concat(&[&x.narrow(1, 1, 5)?, &x.narrow(1, 0, 1)?], 1)?.mul_scalar(0.5)?;
    let position = Tensor::randn([6, 16], DType::F32, &device)?;
    let x = x.add(&position)?;
    let mut losses = Vec::new();
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        device.seed(22);
        let block = TransformerBlock::new(16, 2, TransformerBlockConfig::default(), &device)?;
        let loss = || block.forward(&x)?.mse_loss(&target, Reduction::Mean);
        losses.push(train(&block, precision, 100, loss)?);
    }
    // The loss is far above the rounding error (2^-8 of a number of about 1, squared: 1.5e-5): a
    // twentieth is allowed for a different training path.
    assert!(losses[0] > 1e-3, "{losses:?}");
    for loss in &losses[1..] {
        assert!((loss - losses[0]).abs() <= 0.05 * losses[0], "{losses:?}");
    }
    Ok(())
}

// ---- Loss scales

/// A small model and its input, with a loss in a given precision that is multiplied by `factor`.
struct Small {
    model: Mlp,
    x: Tensor,
}

impl Small {
    fn new(device: &Device) -> Result<Small> {
        device.seed(31);
        Ok(Small { model: Mlp::new([4, 8, 2], device)?, x: Tensor::randn([16, 4], DType::F32, device)? })
    }

    fn loss(&self, precision: Precision, factor: f64) -> Result<Tensor> {
        with_precision(precision, || self.model.forward(&self.x)?.square()?.mean(..))?.mul_scalar(factor)
    }

    fn gradients(&self, precision: Precision, factor: f64) -> Result<Gradients> {
        self.loss(precision, factor)?.backward()
    }

    /// Returns the gradients, concatenated.
    fn gradient_values(&self, gradients: &Gradients) -> Result<Vec<f64>> {
        let mut values = Vec::new();
        for param in self.model.parameters() {
            values.extend(param.gradient(gradients).expect("a gradient").to_vec_f64()?);
        }
        Ok(values)
    }
}

#[test]
fn gradients_that_underflow_in_f16_are_preserved_by_a_scale() -> Result<()> {
    let small = Small::new(&device())?;
    // The smallest f16 is 6e-8: gradients of the outputs are about 3e-2 * 1e-7.
    let factor = 1e-7;
    let exact = small.gradient_values(&small.gradients(Precision::F32, factor)?)?;
    let unscaled_grad = small.gradient_values(&small.gradients(Precision::F16, factor)?)?;
    assert!(unscaled_grad.iter().all(|&x| x == 0.0), "{unscaled_grad:?}");
    let loss_scale = LossScale::new(LossScaleConfig { init_scale: 2f64.powi(24), ..Default::default() })?;
    let scaled = loss_scale.scale(&small.loss(Precision::F16, factor)?)?.backward()?;
    let scaled_grad = small.gradient_values(&loss_scale.unscale(&scaled)?.expect("finite"))?;
    let largest = exact.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    assert!(largest > 0.0);
    for (scaled_grad, exact) in scaled_grad.iter().zip(&exact) {
        // Eight consecutive roundings, of up to half an ulp of 11 bits each; as much again for sums
        // with cancellation.
        assert!((scaled_grad - exact).abs() <= 8.0 / 2048.0 * largest, "{scaled_grad} {exact}");
    }
    Ok(())
}

#[test]
fn overflowing_steps_are_skipped_and_counted() -> Result<()> {
    let device = device();
    let small = Small::new(&device)?;
    let mut adam = AdamW::new(small.model.parameters(), AdamWConfig::default())?;
    adam.step(&small.gradients(Precision::F32, 1.0)?)?;
    let loss_scale = LossScale::new(LossScaleConfig { init_scale: 2f64.powi(40), ..Default::default() })?;
    let mut skipped = 0;
    for step in 1..=40u64 {
        let (weights, states) = (bits(&small.model)?, dict_bits(&adam.state_dict()?)?);
        let scale = loss_scale.value();
        let gradients = loss_scale.scale(&small.loss(Precision::F16, 1.0)?)?.backward()?;
        match loss_scale.step(&mut adam, &gradients)? {
            ScaledStep::Skipped => {
                skipped += 1;
                assert_eq!(bits(&small.model)?, weights, "step {step}");
                assert_eq!(dict_bits(&adam.state_dict()?)?, states, "step {step}");
                assert_eq!(loss_scale.value(), scale / 2.0);
            }
            ScaledStep::Taken => {
                assert_ne!(bits(&small.model)?, weights, "step {step}");
                assert_eq!(loss_scale.value(), scale);
            }
        }
        assert_eq!((loss_scale.steps(), loss_scale.skipped()), (step, skipped));
    }
    assert!(
        (15..30).contains(&skipped),
        "{skipped}: an output's gradient of about 2^-6 fits f16, up to 2^16, below a scale of 2^22"
    );
    let text = format!("scale {}, {skipped} of 40 steps skipped", 2f64.powi(40 - skipped as i32));
    assert_eq!(loss_scale.to_string(), text);
    assert_eq!(format!("{loss_scale:?}"), format!("LossScale({text})"));
    Ok(())
}

fn dict_bits(dict: &StateDict) -> Result<Vec<(String, Vec<u8>)>> {
    dict.iter().map(|(key, tensor)| Ok((key.clone(), tensor.to_bytes()?))).collect()
}

#[test]
fn single_infinite_or_nan_gradient_element_is_detected() -> Result<()> {
    let small = Small::new(&device())?;
    for param in small.model.parameters() {
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let mut gradients = small.gradients(Precision::F32, 1.0)?;
            let tensor = param.tensor();
            let mut values = gradients.get(&tensor).expect("a gradient").to_vec::<f32>()?;
            let last = values.len() - 1;
            values[last] = bad;
            gradients.insert(&tensor, Tensor::from_vec(values, *tensor.shape(), tensor.device())?)?;
            let loss_scale = LossScale::default();
            assert!(loss_scale.unscale(&gradients)?.is_none(), "{bad}");
            assert_eq!((loss_scale.value(), loss_scale.skipped()), (32768.0, 1));
        }
    }
    Ok(())
}

#[test]
fn scale_rises_after_consecutive_successful_steps() -> Result<()> {
    let small = Small::new(&device())?;
    let config = LossScaleConfig {
        init_scale: 8.0,
        growth_factor: 4.0,
        backoff_factor: 0.25,
        growth_interval: 3,
        ..Default::default()
    };
    let loss_scale = LossScale::new(config)?;
    let (good, bad) = (1.0, f64::INFINITY);
    let mut scales = Vec::new();
    for factor in [good, good, bad, good, good, good, good, good, good] {
        loss_scale.unscale(&small.gradients(Precision::F32, factor)?)?;
        scales.push(loss_scale.value());
    }
    assert_eq!(scales, [8.0, 8.0, 2.0, 2.0, 2.0, 8.0, 8.0, 8.0, 32.0]);
    // The scale does not exceed the range in which f32 can divide by it.
    let largest =
        LossScale::new(LossScaleConfig { init_scale: 2f64.powi(125), growth_interval: 1, ..config })?;
    for _ in 0..3 {
        largest.unscale(&small.gradients(Precision::F32, 1.0)?)?;
    }
    assert!(largest.value() <= 2f64.powi(126), "{largest}");
    Ok(())
}

#[test]
fn non_finite_gradients_at_the_smallest_scale_are_an_error() -> Result<()> {
    let small = Small::new(&device())?;
    let loss_scale = LossScale::new(LossScaleConfig { min_scale: 16384.0, ..Default::default() })?;
    let gradients = small.gradients(Precision::F32, f64::NAN)?;
    assert!(loss_scale.unscale(&gradients)?.is_none());
    assert!(loss_scale.unscale(&gradients)?.is_none());
    let text = message(loss_scale.unscale(&gradients));
    assert!(text.contains("not finite at scale 16384"), "{text}");
    assert_eq!((loss_scale.value(), loss_scale.skipped()), (16384.0, 3));
    Ok(())
}

type Make = fn(Vec<Param>) -> Result<Box<dyn Optimizer>>;

/// All optimizers.
const OPTIMIZERS: [Make; 7] = [
    |params| Ok(Box::new(SGD::new(params, SGDConfig { momentum: 0.9, ..Default::default() })?)),
    |params| Ok(Box::new(Adam::new(params, AdamConfig::default())?)),
    |params| {
        Ok(Box::new(AdamW::new(params, AdamWConfig { max_grad_norm: Some(0.1), ..Default::default() })?))
    },
    |params| Ok(Box::new(Adagrad::new(params, AdagradConfig::default())?)),
    |params| Ok(Box::new(RMSprop::new(params, RMSpropConfig::default())?)),
    |params| Ok(Box::new(Lion::new(params, LionConfig::default())?)),
    |params| Ok(Box::new(Muon::new(params, MuonConfig::default())?)),
];

#[test]
fn scale_does_not_change_the_step_of_any_optimizer() -> Result<()> {
    let device = device();
    for make in OPTIMIZERS {
        let mut ended = Vec::new();
        for scaled in [false, true] {
            let small = Small::new(&device)?;
            // Muon supports only matrices.
            let matrices: Vec<Param> =
                small.model.parameters().into_iter().filter(|param| param.shape().rank() == 2).collect();
            let mut optimizer = make(matrices)?;
            let loss_scale = LossScale::default();
            for _ in 0..3 {
                let loss = small.loss(Precision::F32, 1.0)?;
                match scaled {
                    true => {
                        let scaled = loss_scale.scale(&loss)?.backward()?;
                        assert_eq!(loss_scale.step(&mut *optimizer, &scaled)?, ScaledStep::Taken);
                    }
                    false => optimizer.step(&loss.backward()?)?,
                }
            }
            ended.push(bits(&small.model)?);
        }
        // A power of two: the results are bit-identical.
        assert_eq!(ended[0], ended[1]);
    }
    Ok(())
}

#[test]
fn scaled_gradients_are_accumulated_then_unscaled_and_clipped() -> Result<()> {
    let device = device();
    let small = Small::new(&device)?;
    let loss_scale = LossScale::default();
    let (mut scaled, mut plain) = (Gradients::default(), Gradients::default());
    for factor in [0.25, 0.75] {
        scaled.accumulate(loss_scale.scale(&small.loss(Precision::F32, factor)?)?.backward()?)?;
        plain.accumulate(small.gradients(Precision::F32, factor)?)?;
    }
    let mut unscaled = loss_scale.unscale(&scaled)?.expect("finite");
    assert_eq!(small.gradient_values(&unscaled)?, small.gradient_values(&plain)?);
    let parameters = small.model.parameters();
    let norm = clip_grad_norm(&mut unscaled, &parameters, 1e-3)?.item_f64()?;
    assert_eq!(norm, clip_grad_norm(&mut plain, &parameters, 1e-3)?.item_f64()?);
    assert_eq!(small.gradient_values(&unscaled)?, small.gradient_values(&plain)?);
    assert_eq!(loss_scale.steps(), 1);
    Ok(())
}

#[test]
fn a_captured_forward_and_backward_follows_the_scale() -> Result<()> {
    let device = device();
    let small = Small::new(&device)?;
    let config = LossScaleConfig { growth_interval: 2, ..Default::default() };
    let loss_scale = LossScale::new(config)?;
    let mut sgd = SGD::new(small.model.parameters(), SGDConfig::default())?;
    let mut step = device.capture(|| loss_scale.scale(&small.loss(Precision::F16, 1.0)?)?.backward())?;
    let mut scales = Vec::new();
    for _ in 0..5 {
        let exact = small.gradient_values(&small.gradients(Precision::F32, 1.0)?)?;
        let gradients = loss_scale.unscale(step.replay()?)?.expect("finite");
        let largest = exact.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
        for (found, exact) in small.gradient_values(&gradients)?.iter().zip(&exact) {
            assert!((found - exact).abs() <= 8.0 / 2048.0 * largest, "{found} {exact}");
        }
        sgd.step(&gradients)?;
        scales.push(loss_scale.value());
    }
    assert_eq!(scales, [65536.0, 131072.0, 131072.0, 262144.0, 262144.0]);
    Ok(())
}

#[test]
fn a_recorded_step_scales_and_leaves_unscaling_to_the_host() -> Result<()> {
    let device = recording(device());
    let small = Small::new(&device)?;
    let loss_scale = LossScale::default();
    let scaled = || loss_scale.scale(&small.loss(Precision::F16, 1.0)?)?.backward();
    let text = message(device.capture(|| loss_scale.unscale(&scaled()?)));
    assert!(text.contains("unscale reads from the device"), "{text}");
    assert_eq!(loss_scale.steps(), 1, "the run before the recording");
    let mut step = device.capture(scaled)?;
    assert!(step.is_recorded());
    assert!(loss_scale.unscale(step.replay()?)?.is_some());
    Ok(())
}

#[test]
fn state_of_a_scale_round_trips() -> Result<()> {
    let device = device();
    let small = Small::new(&device)?;
    let config = LossScaleConfig { growth_interval: 2, ..Default::default() };
    let (one, two) = (LossScale::new(config)?, LossScale::new(config)?);
    for factor in [f64::NAN, 1.0] {
        one.unscale(&small.gradients(Precision::F32, factor)?)?;
    }
    // A tensor with the old scale is already on the device.
    two.scale(&small.loss(Precision::F32, 1.0)?)?;
    let dict = one.state_dict(&device)?;
    two.load_state_dict(&dict)?;
    assert_eq!(two.to_string(), "scale 32768, 1 of 2 steps skipped");
    let loss = small.loss(Precision::F32, 1.0)?;
    assert_eq!(two.scale(&loss)?.item::<f32>()?, 32768.0 * loss.item::<f32>()?);
    two.unscale(&small.gradients(Precision::F32, 1.0)?)?;
    assert_eq!(two.value(), 65536.0, "the second step that went well in a row");
    let with = |key: &str, tensor: Option<Tensor>| {
        let mut dict = dict.clone();
        match tensor {
            Some(tensor) => dict.insert(key.to_owned(), tensor),
            None => dict.remove(key),
        };
        dict
    };
    let wrong = [
        (with("steps", None), "missing: steps"),
        (with("step", Some(Tensor::from_slice(&[1i64], (), &device)?)), "extra: step"),
        (with("scale", Some(Tensor::from_slice(&[0.0f64], (), &device)?)), "scale 0, expected"),
        (with("scale", Some(Tensor::from_slice(&[f64::NAN], (), &device)?)), "scale NaN, expected"),
        (with("scale", Some(Tensor::from_slice(&[2.0f32], (), &device)?)), "f64"),
        (with("skipped", Some(Tensor::from_slice(&[-1i64], (), &device)?)), "skipped -1"),
        (with("skipped", Some(Tensor::from_slice(&[9i64], (), &device)?)), "9 of 2 steps skipped"),
    ];
    for (dict, expected) in wrong {
        let text = message(two.load_state_dict(&dict));
        assert!(text.contains(expected), "{text}, expected {expected}");
        assert_eq!(two.value(), 65536.0, "nothing changed");
    }
    Ok(())
}

#[test]
fn invalid_uses_of_a_scale_are_errors() -> Result<()> {
    let device = device();
    type Change = fn(&mut LossScaleConfig);
    let changes: [(Change, &str); 8] = [
        (|config| config.init_scale = 0.0, "init_scale 0"),
        (|config| config.init_scale = f64::INFINITY, "init_scale inf"),
        (|config| config.init_scale = f64::NAN, "init_scale NaN"),
        (|config| config.growth_factor = 1.0, "growth_factor 1"),
        (|config| config.backoff_factor = 1.0, "backoff_factor 1"),
        (|config| config.growth_interval = 0, "growth_interval 0"),
        (|config| config.min_scale = -1.0, "min_scale -1"),
        (|config| config.min_scale = 1e6, "min_scale 1000000, expected at most init_scale 65536"),
    ];
    for (change, expected) in changes {
        let mut config = LossScaleConfig::default();
        change(&mut config);
        let text = message(LossScale::new(config));
        assert!(text.starts_with(&format!("loss_scale: {expected}")), "{text}");
    }
    let loss_scale = LossScale::default();
    let integer = Tensor::from_slice(&[1i32], (), &device)?;
    assert!(message(loss_scale.scale(&integer)).contains("i32"));
    // Gradients of f16 parameters would lose the values that the scale has preserved.
    let model = Linear::new(3, 1, &device)?;
    model.to_dtype(DType::F16)?;
    let x = Tensor::ones([2, 3], DType::F16, &device)?;
    let gradients = loss_scale.scale(&model.forward(&x)?.mean(..)?)?.backward()?;
    let text = message(loss_scale.unscale(&gradients));
    assert!(text.contains("in f16, expected f32"), "{text}");
    // A loss in f16 is scaled in f32: 65536 is above the f16 range.
    let loss = no_grad(|| model.forward(&x)?.mean(..))?;
    let scaled = loss_scale.scale(&loss)?;
    assert_eq!(scaled.item::<f32>()?, 65536.0 * loss.to_dtype(DType::F32)?.item::<f32>()?);
    Ok(())
}
