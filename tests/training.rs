//! Optimizers against PyTorch (tests/reference/nn.json, written by tests/reference/nn.py), and
//! small models that must learn.

#[path = "support/reference.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod pytorch;

use pytorch::{numbers, tensor_in};
use serde_json::Value;
use ternion::Gradients;
use ternion::prelude::*;

fn device() -> Device {
    ternion_cpu::device()
}

fn params(values: &Value, dtype: DType, device: &Device) -> Vec<Param> {
    let values = values.as_array().expect("a list of tensors");
    values.iter().map(|value| Param::new(&tensor_in(value, dtype, device)).expect("floating")).collect()
}

/// The gradients of `sum(parameter * target_grads)` are `target_grads`.
fn gradients_of(params: &[Param], target_grads: &[Tensor]) -> Result<Gradients> {
    let mut loss = Tensor::zeros((), params[0].dtype(), &params[0].device())?;
    for (param, target_grads) in params.iter().zip(target_grads) {
        loss = loss.add(&param.tensor().mul(target_grads)?.sum(..)?)?;
    }
    loss.backward()
}

// ---- Steps equal PyTorch's

/// Creates an optimizer of either kind, with or without clipping.
type CreateOptimizer = fn(Vec<Param>, Option<f64>) -> Result<Box<dyn Optimizer>>;

fn sgd(params: Vec<Param>, config: SGDConfig) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(SGD::new(params, config)?))
}

const OPTIMIZERS: [(&str, CreateOptimizer); 9] = [
    ("sgd", |params, max_grad_norm| sgd(params, SGDConfig { lr: 0.1, max_grad_norm, ..Default::default() })),
    ("sgd_weight_decay", |params, max_grad_norm| {
        sgd(params, SGDConfig { lr: 0.1, weight_decay: 0.2, max_grad_norm, ..Default::default() })
    }),
    ("sgd_momentum", |params, max_grad_norm| {
        sgd(params, SGDConfig { lr: 0.1, momentum: 0.9, max_grad_norm, ..Default::default() })
    }),
    ("sgd_dampening", |params, max_grad_norm| {
        let config = SGDConfig { lr: 0.1, momentum: 0.9, dampening: 0.5, ..Default::default() };
        sgd(params, SGDConfig { weight_decay: 0.1, max_grad_norm, ..config })
    }),
    ("sgd_nesterov", |params, max_grad_norm| {
        let config = SGDConfig { lr: 0.1, momentum: 0.8, nesterov: true, ..Default::default() };
        sgd(params, SGDConfig { weight_decay: 0.1, max_grad_norm, ..config })
    }),
    ("adam", |params, max_grad_norm| {
        Ok(Box::new(Adam::new(params, AdamConfig { lr: 0.01, max_grad_norm, ..Default::default() })?))
    }),
    ("adam_general", |params, max_grad_norm| {
        let config =
            AdamConfig { lr: 0.02, betas: [0.8, 0.95], eps: 1e-3, weight_decay: 0.3, ..Default::default() };
        Ok(Box::new(Adam::new(params, AdamConfig { max_grad_norm, ..config })?))
    }),
    ("adamw", |params, max_grad_norm| {
        Ok(Box::new(AdamW::new(params, AdamWConfig { lr: 0.01, max_grad_norm, ..Default::default() })?))
    }),
    ("adamw_general", |params, max_grad_norm| {
        let config =
            AdamWConfig { lr: 0.02, betas: [0.8, 0.95], eps: 1e-3, weight_decay: 0.3, ..Default::default() };
        Ok(Box::new(AdamW::new(params, AdamWConfig { max_grad_norm, ..config })?))
    }),
];

/// After each step the parameters equal PyTorch's. The third step halves the learning rate and has
/// clipped gradients.
fn check_optimizer(name: &str, create: CreateOptimizer, dtype: DType, limit: f64) -> Result<()> {
    let device = device();
    let all: Value = serde_json::from_str(include_str!("reference/nn.json")).expect("nn.json is JSON");
    let case = &all["optimizers"];
    let params = params(&case["start"], dtype, &device);
    let mut plain = create(params.clone(), None)?;
    for (number, step) in case["gradients"].as_array().expect("steps").iter().enumerate() {
        let target_grads: Vec<Tensor> = step
            .as_array()
            .expect("gradients")
            .iter()
            .map(|value| tensor_in(value, dtype, &device))
            .collect();
        let mut gradients = gradients_of(&params, &target_grads)?;
        if number == 2 {
            plain.set_lr(plain.lr() / 2.0)?;
            let norm = clip_grad_norm(&mut gradients, &params, 0.5)?.item_f64()?;
            assert!(norm > 0.5, "nothing was clipped");
        }
        plain.step(&gradients)?;
        for (index, param) in params.iter().enumerate() {
            let want = numbers(&case["runs"][name][number][index]);
            for (got, want) in param.tensor().to_vec_f64()?.into_iter().zip(want) {
                let close = (got - want).abs() <= limit * want.abs().max(1.0);
                assert!(
                    close,
                    "{name} in {dtype}, step {number}, parameter {index}: got {got}, PyTorch has {want}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn steps_equal_pytorchs() -> Result<()> {
    for (name, create) in OPTIMIZERS {
        check_optimizer(name, create, DType::F32, 2e-6)?;
        // The numbers of a step are passed as f32, so the learning rate is rounded to 2^-24.
        check_optimizer(name, create, DType::F64, 1e-7)?;
        check_optimizer(name, create, DType::BF16, 0.04)?;
    }
    Ok(())
}

#[test]
fn clipping_within_the_step_equals_clipping_before_it() -> Result<()> {
    let device = device();
    for (name, create) in OPTIMIZERS {
        let start = |value: f32| Param::new(&Tensor::full([3], f64::from(value), DType::F32, &device)?);
        let (before, within) = ([start(1.0)?, start(2.0)?], [start(1.0)?, start(2.0)?]);
        let (mut first, mut second) = (create(before.to_vec(), None)?, create(within.to_vec(), Some(0.5))?);
        for size in [0.01f32, 3.0] {
            let target_grads = [
                Tensor::from_slice(&[size, -size, 0.0], [3], &device)?,
                Tensor::from_slice(&[0.0, size, 2.0 * size], [3], &device)?,
            ];
            let mut gradients = gradients_of(&before, &target_grads)?;
            clip_grad_norm(&mut gradients, &before, 0.5)?;
            first.step(&gradients)?;
            second.step(&gradients_of(&within, &target_grads)?)?;
            for (left, right) in before.iter().zip(&within) {
                let (left, right) = (left.tensor().to_vec_f64()?, right.tensor().to_vec_f64()?);
                for (left, right) in left.iter().zip(&right) {
                    assert!((left - right).abs() <= 1e-6, "{name} at size {size}: {left} and {right}");
                }
            }
        }
    }
    Ok(())
}

// ---- What an optimizer rejects

#[test]
fn a_parameter_without_gradient_is_named() -> Result<()> {
    let device = device();
    let model = Mlp::new([2, 3, 2, 1], &device)?;
    let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
    let input = Tensor::ones([4, 2], DType::F32, &device)?;
    let partial = model.layers[0].forward(&input)?.square()?.mean(..)?;
    let before = model.state_dict()?;
    let message = adam.step(&partial.backward()?).expect_err("four are missing").to_string();
    assert_eq!(
        message,
        "no gradient for layers.1.weight, layers.1.bias, layers.2.weight, layers.2.bias: the loss does not depend on it \
         (freeze it, or allow missing gradients in the optimizer's configuration), or the gradients are older than the last change of its \
         dtype, device or freezing (run backward again)"
    );
    for (key, tensor) in model.state_dict()? {
        assert_eq!(tensor.to_vec_f64()?, before[&key].to_vec_f64()?, "{key} was changed by a rejected step");
    }

    model.layers[1].freeze();
    model.layers[2].freeze();
    adam.step(&model.layers[0].forward(&input)?.square()?.mean(..)?.backward()?)?;
    assert_ne!(model.layers[0].weight.tensor().to_vec_f64()?, before["layers.0.weight"].to_vec_f64()?);
    assert_eq!(model.layers[1].weight.tensor().to_vec_f64()?, before["layers.1.weight"].to_vec_f64()?);
    Ok(())
}

/// Bias corrections count the steps of each parameter, as in PyTorch: late parameters start at
/// step 1.
#[test]
fn parameters_that_join_late_are_corrected_by_their_own_steps() -> Result<()> {
    let device = device();
    let one = || Param::new(&Tensor::full([1], 1.0, DType::F32, &device)?);
    let (early, late) = (one()?.named("early"), one()?.named("late"));
    let config = AdamConfig { lr: 0.1, allow_missing_gradients: true, ..Default::default() };
    let mut adam = Adam::new(vec![early.clone(), late.clone()], config)?;
    for step in 0..4 {
        let mut loss = early.tensor().sum(..)?;
        if step >= 2 {
            loss = loss.add(&late.tensor().sum(..)?)?;
        }
        adam.step(&loss.backward()?)?;
    }
    // With a gradient of 1 in every step, every corrected step of Adam is lr.
    approx::assert_abs_diff_eq!(early.tensor().item_f64()?, 0.6, epsilon = 1e-5);
    approx::assert_abs_diff_eq!(late.tensor().item_f64()?, 0.8, epsilon = 1e-5);
    let state = adam.state_dict()?;
    assert_eq!((state["early.step"].item::<i64>()?, state["late.step"].item::<i64>()?), (4, 2));
    Ok(())
}

#[test]
fn invalid_configurations_are_errors() -> Result<()> {
    let device = device();
    let params = || Ok::<_, Error>(Linear::new(2, 2, &device)?.parameters());
    let sgd = |config| Ok::<_, Error>(SGD::new(params()?, config).err().map(|error| error.to_string()));
    let adam = |config| Ok::<_, Error>(Adam::new(params()?, config).err().map(|error| error.to_string()));
    let base = SGDConfig::default();
    assert_eq!(sgd(base)?, None);
    let nesterov = Some("sgd: nesterov needs a momentum above 0 and no dampening".to_owned());
    assert_eq!(sgd(SGDConfig { nesterov: true, ..base })?, nesterov);
    let expected = |what: &str| Some(format!("{what}, expected a finite number of at least 0"));
    assert_eq!(sgd(SGDConfig { lr: -1.0, ..base })?, expected("sgd: lr -1"));
    assert_eq!(sgd(SGDConfig { lr: f64::NAN, ..base })?, expected("sgd: lr NaN"));
    assert_eq!(sgd(SGDConfig { momentum: -0.1, ..base })?, expected("sgd: momentum -0.1"));
    let betas = Some("adam: betas [0.9, 1.0], expected at least 0 and below 1".to_owned());
    assert_eq!(adam(AdamConfig { betas: [0.9, 1.0], ..Default::default() })?, betas);
    assert_eq!(adam(AdamConfig { eps: f64::INFINITY, ..Default::default() })?, expected("adam: eps inf"));
    assert!(SGD::new(Vec::new(), base).is_err());
    let twice = [params()?, params()?].concat();
    assert!(SGD::new(twice, base).is_ok(), "equal names of two models are distinguished");
    let model = Linear::new(2, 2, &device)?;
    let message = SGD::new([model.parameters(), model.parameters()].concat(), base)
        .err()
        .map(|error| error.to_string());
    assert_eq!(message.as_deref(), Some("sgd: parameter 2 is given twice: it is weight already"));
    let mut good = SGD::new(params()?, base)?;
    assert!(good.set_lr(f64::NAN).is_err() && good.lr() == base.lr);
    Ok(())
}

#[test]
fn a_model_that_was_cast_under_its_optimizer_is_reported() -> Result<()> {
    let device = device();
    let model = Linear::new(2, 1, &device)?;
    let mut adam = Adam::new(model.parameters(), AdamConfig::default())?;
    let step = |adam: &mut Adam, dtype| {
        let input = Tensor::ones([3, 2], dtype, &device)?;
        adam.step(&model.forward(&input)?.sum(..)?.backward()?)
    };
    step(&mut adam, DType::F32)?;
    model.to_dtype(DType::F64)?;
    let message = step(&mut adam, DType::F64).expect_err("the moments are f32").to_string();
    assert!(
        message.starts_with("adam: weight is [1, 2] f64 on cpu now, but its state [1, 2] f32 on cpu"),
        "{message}"
    );
    Ok(())
}

// ---- Learning

#[test]
fn xor_is_learned() -> Result<()> {
    let device = device();
    device.seed(3);
    let inputs = Tensor::from_slice(&[0f32, 0., 0., 1., 1., 0., 1., 1.], [4, 2], &device)?;
    let targets = Tensor::from_slice(&[0f32, 1., 1., 0.], [4, 1], &device)?;
    let model =
        Sequential::new().with(Linear::new(2, 8, &device)?).with(Tanh).with(Linear::new(8, 1, &device)?);
    let mut adam = Adam::new(model.parameters(), AdamConfig { lr: 0.05, ..Default::default() })?;
    for _ in 0..300 {
        let loss = model.forward(&inputs)?.bce_with_logits(&targets, Reduction::Mean)?;
        adam.step(&loss.backward()?)?;
    }
    let outputs = model.forward(&inputs)?.sigmoid()?.to_vec::<f32>()?;
    for (output, target) in outputs.iter().zip([0f32, 1., 1., 0.]) {
        assert!((output - target).abs() < 0.1, "{outputs:?}");
    }
    let stats = model_stats(&model, None)?;
    assert!(stats.not_finite().is_empty());
    assert_eq!(stats.to_string().lines().count(), 4, "one line for each parameter");
    Ok(())
}

/// Returns the accuracy on data that the model was not trained on.
fn test_accuracy(model: &dyn Forward, split: &Split, device: &Device) -> Result<f64> {
    let batch = split.batches(split.len(), device).into_iter().next().expect("one batch")?;
    no_grad(|| model.forward(&batch.images)?.accuracy(&batch.labels)?.item_f64())
}

fn train(model: &dyn Forward, split: &Split, epochs: u64, lr: f64, device: &Device) -> Result<Vec<f64>> {
    let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr, ..Default::default() })?;
    let batches = split.shuffled(1).batches(50, device);
    let mut losses = Vec::new();
    for epoch in 0..epochs {
        for batch in batches.epoch(epoch) {
            let batch = batch?;
            let loss = model.forward(&batch.images)?.cross_entropy(&batch.labels)?;
            adam.step(&loss.backward()?)?;
            losses.push(loss.item_f64()?);
        }
    }
    Ok(losses)
}

#[test]
fn synthetic_digits_are_learned_by_an_mlp_and_the_same_seed_gives_the_same_run() -> Result<()> {
    let digits = Mnist::load(DataSource::Synthetic { train: 2000, test: 500, seed: 3 })?;
    let run = |seed| -> Result<(Vec<f64>, f64)> {
        let device = device();
        device.seed(seed);
        let model = Mlp::new([784, 64, 10], &device)?;
        let losses = train(&model, digits.train(), 8, 3e-3, &device)?;
        Ok((losses, test_accuracy(&model, digits.test(), &device)?))
    };
    let (losses, accuracy) = run(1)?;
    assert!(
        (losses[0] - 10f64.ln()).abs() < 0.3,
        "an untrained classifier of ten starts near ln 10: {}",
        losses[0]
    );
    assert!(accuracy > 0.8, "accuracy {accuracy}");
    let (again, same) = run(1)?;
    assert!(losses == again && accuracy == same, "the same seed gives the same bits");
    assert_ne!(losses, run(2)?.0, "another seed, another run");
    Ok(())
}

#[test]
fn synthetic_digits_are_learned_by_a_cnn() -> Result<()> {
    let digits = Mnist::load(DataSource::Synthetic { train: 1000, test: 200, seed: 3 })?;
    let device = device();
    device.seed(1);
    let model = Sequential::new()
        .with(Conv2d::with_config([1, 8], [5, 5], Conv2dConfig::padded(2), &device)?)
        .with(BatchNorm2d::new(8, &device)?)
        .with(ReLU)
        .with(MaxPool2d::new(4))
        .with(Flatten::default())
        .with(Dropout::new(0.1)?)
        .with(Linear::new(8 * 7 * 7, 10, &device)?);
    train(&model, digits.train(), 4, 3e-3, &device)?;
    model.eval();
    let accuracy = test_accuracy(&model, digits.test(), &device)?;
    assert!(accuracy > 0.8, "accuracy {accuracy}");
    Ok(())
}

#[test]
fn model_stats_print_a_line_for_each_parameter_and_gradient() -> Result<()> {
    let device = device();
    let model = Mlp::new([3, 2, 1], &device)?;
    let input = Tensor::from_slice(&[1f32, f32::NAN, 2.0], [1, 3], &device)?;
    let gradients = model.layers[0].forward(&input)?.sum(..)?.backward()?;
    let stats = model_stats(&model, Some(&gradients))?;
    let text = stats.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 8);
    assert!(lines[0].starts_with("layers.0.weight  value  mean "), "{text}");
    assert!(lines[1].starts_with("layers.0.weight  grad   mean ") && lines[1].contains(" nan 2 "), "{text}");
    assert_eq!(lines[7], "layers.1.bias    grad   none");
    assert_eq!(stats.not_finite(), ["layers.0.weight"]);
    Ok(())
}

/// A learning rate of 0.1 is not representable in f32: with f32 the step would be -0.10000000149.
#[test]
fn a_model_of_f64_steps_by_f64_numbers() -> Result<()> {
    let device = device();
    let zero = |dtype| Param::new(&Tensor::zeros([1], dtype, &device)?);
    let (double, single) = (zero(DType::F64)?, zero(DType::F32)?);
    let mut sgd =
        SGD::new(vec![double.clone(), single.clone()], SGDConfig { lr: 0.1, ..Default::default() })?;
    let loss = double.tensor().add(&single.tensor().to_dtype(DType::F64)?)?.sum_all()?;
    sgd.step(&loss.backward()?)?;
    assert_eq!(double.tensor().item::<f64>()?, -0.1);
    assert_eq!(single.tensor().item::<f32>()?, -0.1);
    // The second step of Adam with a gradient of 1: both corrections cancel.
    let parameter = zero(DType::F64)?;
    let mut adam =
        Adam::new(vec![parameter.clone()], AdamConfig { lr: 0.1, eps: 0.0, ..Default::default() })?;
    for _ in 0..2 {
        adam.step(&parameter.tensor().sum_all()?.backward()?)?;
    }
    let got = parameter.tensor().item::<f64>()?;
    assert!((got + 0.2).abs() < 1e-15, "{got}");
    Ok(())
}

/// The clip factor is applied in every dtype.
#[test]
fn gradients_of_two_dtypes_are_clipped_together() -> Result<()> {
    let device = device();
    let double = Param::new(&Tensor::zeros([1], DType::F64, &device)?)?;
    let single = Param::new(&Tensor::zeros([1], DType::F32, &device)?)?;
    let config = SGDConfig { lr: 1.0, max_grad_norm: Some(1.0), ..Default::default() };
    let mut sgd = SGD::new(vec![double.clone(), single.clone()], config)?;
    let loss =
        double.tensor().mul_scalar(3.0)?.add(&single.tensor().to_dtype(DType::F64)?.mul_scalar(4.0)?)?;
    sgd.step(&loss.sum_all()?.backward()?)?;
    for (param, want) in [(double, -0.6), (single, -0.8)] {
        let got = param.tensor().item_f64()?;
        assert!((got - want).abs() < 1e-5, "{got}, want {want}");
    }
    Ok(())
}
