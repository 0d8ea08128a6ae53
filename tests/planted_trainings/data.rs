//! Faults of the training data: inputs, labels, shapes.

use crate::{batch, classes, device, planted, regression, sgd, watched};
use ternion::prelude::*;

/// An infinite number among the inputs.
#[test]
fn data_that_are_not_finite() {
    let training = |broken: bool| {
        let device = device();
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        let mut values = x.to_vec::<f32>()?;
        values[3] = if broken { f32::INFINITY } else { 0.0 };
        let x = Tensor::from_vec(values, [16, 8], &device)?;
        regression(&Mlp::new([8, 16, 4], &device)?, 0.01, 1, &[x, target])
    };
    planted(training, &["NotFinite input: 1 of 128 numbers are infinite; clean the data"]);
}

/// Images with values of 0 to 255, as stored in a file.
#[test]
fn images_that_are_not_normalized() {
    let training = |raw: bool| {
        let device = device();
        let model = Sequential::new()
            .with(Conv2d::new(1, 4, [3; 2], &device)?)
            .with(ReLU)
            .with(Flatten::default())
            .with(Linear::new(144, 4, &device)?);
        let bytes = Tensor::rand([8, 1, 8, 8], DType::F32, &device)?.mul_scalar(255.0)?;
        let x = if raw { bytes } else { bytes.div_scalar(255.0)? };
        regression(&model, 1e-9, 1, &[x, Tensor::randn([8, 4], DType::F32, &device)?])
    };
    planted(training, &["UnscaledInput input: its root mean square is 14", "divide bytes by 255"]);
}

/// A loader that returns the same number everywhere.
#[test]
fn an_input_that_is_constant() {
    let training = |constant: bool| {
        let device = device();
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        let x = if constant { x.ones_like()? } else { x };
        regression(&Mlp::new([8, 16, 4], &device)?, 0.01, 1, &[x, target])
    };
    planted(training, &["UnscaledInput input: all of its 128 numbers are 1e0"]);
}

/// Labels that start at 1, for classes that start at 0.
#[test]
fn labels_that_start_at_1() {
    let training = |shifted: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let [x, labels] = classes(&[16, 8], 4, &device)?;
        let labels = if shifted { labels.add_scalar(1)? } else { labels };
        watched(&model, &mut sgd(&model, 0.01)?, 1, || model.forward(&x)?.cross_entropy(&labels))
    };
    planted(training, &["cross_entropy: index 4 is out of range for size 4"]);
}

/// One-hot integer labels instead of class indices.
#[test]
fn one_hot_labels_as_indices() {
    let training = |one_hot: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let [x, labels] = classes(&[16, 8], 4, &device)?;
        let labels = if one_hot { labels.one_hot(4, DType::I64)? } else { labels };
        watched(&model, &mut sgd(&model, 0.01)?, 1, || model.forward(&x)?.cross_entropy(&labels))
    };
    planted(training, &["cross_entropy: target has shape [16, 4], expected [16]"]);
}

/// Predictions of shape [n, 1] with targets of shape [n], which would be broadcast.
#[test]
fn a_target_of_another_shape() {
    let training = |flat: bool| {
        let device = device();
        let [x, target] = batch(&[16, 8], &[16, 1], &device)?;
        let target = if flat { target.reshape([16])? } else { target };
        regression(&Mlp::new([8, 16, 1], &device)?, 0.01, 1, &[x, target])
    };
    planted(training, &["mse_loss", "[16]", "[16, 1]"]);
}

/// A token beyond the vocabulary.
#[test]
fn a_token_beyond_the_vocabulary() {
    let training = |beyond: bool| {
        let device = device();
        let model = Sequential::new().with(Embedding::new(10, 8, &device)?).with(Linear::new(8, 4, &device)?);
        let tokens = Tensor::from_slice(&[1i64, 9, if beyond { 10 } else { 0 }], [3], &device)?;
        regression(&model, 0.01, 1, &[tokens, Tensor::randn([3, 4], DType::F32, &device)?])
    };
    planted(training, &["embedding: index 10 is out of range for size 10"]);
}

/// A layer whose input width differs from the output width of the layer before.
#[test]
fn layers_that_do_not_fit() {
    let training = |wrong: bool| {
        let device = device();
        let model = Sequential::new().with(Linear::new(8, 16, &device)?).with(ReLU).with(Linear::new(
            if wrong { 12 } else { 16 },
            4,
            &device,
        )?);
        regression(&model, 0.01, 1, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(training, &["linear: [16, 16] with weight [4, 12]: inner sizes 16 and 12 differ"]);
}

/// Inputs that are a million times too small: the output of the first layer is its bias.
#[test]
fn inputs_that_are_too_small() {
    let training = |small: bool| {
        let device = device();
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        let x = x.mul_scalar(if small { 1e-6 } else { 1.0 })?;
        let reported = regression(&Mlp::new([8, 16, 4], &device)?, 0.01, 1, &[x, target])?;
        assert!(!reported.contains("Exploding"), "{reported}");
        Ok(reported)
    };
    planted(training, &["UnscaledInput input: its root mean square is 1.2e-6", "where about 1 is"]);
}

/// The same before a batch norm, whose eps is much larger than their variance.
#[test]
fn inputs_that_are_too_small_for_a_norm() {
    let training = |small: bool| {
        let device = device();
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        let x = x.mul_scalar(if small { 1e-6 } else { 0.01 })?;
        let model = Sequential::new().with(BatchNorm1d::new(8, &device)?).with(Linear::new(8, 4, &device)?);
        let reported = regression(&model, 0.01, 1, &[x, target])?;
        assert!(!reported.contains("Exploding"), "{reported}");
        Ok(reported)
    };
    planted(
        training,
        &["UnscaledInput input: its root mean square is 1.2e-6", "the eps of the norm that takes it, 1e-5"],
    );
}

/// Images with values of 0 to 255 that the model casts, but does not scale.
#[test]
fn bytes_that_the_model_casts() {
    let training = |raw: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        let bytes = x.abs()?.mul_scalar(60.0)?.to_dtype(DType::U8)?;
        watched(&model, &mut sgd(&model, 1e-9)?, 1, || {
            let x = bytes.to_dtype(DType::F32)?;
            let x = if raw { x } else { x.div_scalar(255.0)? };
            model.forward(&x)?.mse_loss(&target, Reduction::Mean)
        })
    };
    planted(training, &["UnscaledInput input: its root mean square is ", "divide bytes by 255"]);
}

/// A loader that returns the same example over and over.
#[test]
fn examples_that_are_all_the_same() {
    let training = |same: bool| {
        let device = device();
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        let x = if same { x.narrow(0, 0, 1)?.expand([16, 8])?.contiguous()? } else { x };
        regression(&Mlp::new([8, 16, 4], &device)?, 0.01, 5, &[x, target])
    };
    planted(
        training,
        &["UnscaledInput input: all of its 16 examples were the same in each of the last 5 readings"],
    );
}

/// Predictions `[n, 1]` minus targets `[n]`, written by hand: they are broadcast.
#[test]
fn a_target_that_is_broadcast() {
    let training = |flat: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 1], &device)?;
        let [x, target] = batch(&[16, 8], &[16, 1], &device)?;
        let target = if flat { target.reshape([16])? } else { target };
        watched(&model, &mut sgd(&model, 0.01)?, 1, || model.forward(&x)?.sub(&target)?.square()?.mean_all())
    };
    planted(
        training,
        &["BroadcastTarget layers.1: its outputs [16, 1] meet numbers of shape [16] in sub", "[16, 16]"],
    );
}

/// Probabilities, logits, or a log-softmax over the batch, where a loss expects log-probabilities.
#[test]
fn outputs_that_are_not_log_probabilities() {
    let wrong_outputs: [fn(&Tensor) -> Result<Tensor>; 3] =
        [|logits| logits.softmax(1), |logits| logits.mul_scalar(2.0), |logits| logits.log_softmax(0)];
    for wrong in wrong_outputs {
        let training = |is_wrong: bool| {
            let device = device();
            let model = Mlp::new([8, 16, 4], &device)?;
            let [x, labels] = classes(&[16, 8], 4, &device)?;
            watched(&model, &mut sgd(&model, 0.01)?, 1, || {
                let logits = model.forward(&x)?;
                let log_probabilities = if is_wrong { wrong(&logits)? } else { logits.log_softmax(1)? };
                log_probabilities.nll_loss(&labels)
            })
        };
        planted(
            training,
            &["NoLogProbabilities layers.1: its output is taken for log-probabilities by nll_loss"],
        );
    }
}
