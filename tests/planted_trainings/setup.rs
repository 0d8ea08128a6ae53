//! Faults of how a model and its optimizer are set up.

use crate::{batch, classes, device, planted, regression, sgd, watched};
use std::sync::Arc;
use ternion::nn::Visitor;
use ternion::prelude::*;

/// Three layers, the second of which its `visit` may omit.
struct Handwritten {
    first: Linear,
    second: Linear,
    third: Linear,
    is_forgetful: bool,
}

impl Module for Handwritten {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("first", &self.first);
        if !self.is_forgetful {
            visitor.field("second", &self.second);
        }
        visitor.field("third", &self.third);
    }
}

impl Forward for Handwritten {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.third.forward(&self.second.forward(&self.first.forward(input)?.relu()?)?.tanh()?)
    }
}

/// A hand-written `visit` omits a layer: `parameters()` lacks it, and it never changes.
#[test]
fn a_layer_that_parameters_forgets() {
    let training = |is_forgetful| {
        let device = device();
        let linear = || Linear::new(8, 8, &device);
        let model = Handwritten { first: linear()?, second: linear()?, third: linear()?, is_forgetful };
        regression(&model, 0.01, 2, &batch(&[16, 8], &[16, 8], &device)?)
    };
    planted(training, &["UnvisitedLayer Linear after first: computes inside of the model", "[8], [8, 8]"]);
}

/// The optimizer gets one layer of two.
#[test]
fn an_optimizer_without_a_layer() {
    let training = |lacks: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let parameters = if lacks { model.layers[0].parameters() } else { model.parameters() };
        let mut sgd = SGD::new(parameters, SGDConfig { lr: 0.05, ..Default::default() })?;
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        watched(&model, &mut sgd, 2, || model.forward(&x)?.mse_loss(&target, Reduction::Mean))
    };
    planted(training, &["NotUpdated layers.1.weight: its gradient is not 0, but the step left it as it was"]);
}

/// A parameter is passed to an optimizer twice, and would be updated twice in a step.
#[test]
fn a_parameter_that_is_passed_twice() {
    let training = |twice: bool| {
        let model = Mlp::new([8, 4], &device())?;
        let mut parameters = model.parameters();
        parameters.extend(twice.then(|| parameters[0].clone()));
        AdamW::new(parameters, AdamWConfig::default()).map(|_| String::new())
    };
    planted(training, &["parameter 2 is given twice: it is layers.0.weight already"]);
}

/// A list that was meant to have three layers has one layer three times.
#[test]
fn a_layer_that_is_repeated() {
    let training = |repeated: bool| {
        let device = device();
        let one = Arc::new(Linear::new(8, 8, &device)?);
        let layer = || if repeated { Ok(one.clone()) } else { Linear::new(8, 8, &device).map(Arc::new) };
        let model = Sequential::new().with(layer()?).with(ReLU).with(layer()?).with(ReLU).with(layer()?);
        regression(&model, 0.01, 1, &batch(&[16, 8], &[16, 8], &device)?)
    };
    planted(training, &["RepeatedLayer 0: 0, 2 and 4 are one layer: its parameters are used 3 times"]);
}

#[derive(Module)]
struct Branches {
    one: Linear,
    other: Linear,
}

impl Branches {
    fn new(device: &Device) -> Result<Branches> {
        Ok(Branches { one: Linear::new(8, 4, device)?, other: Linear::new(8, 4, device)? })
    }

    /// Trains with the sum of one branch and the result of `join` for the other branch.
    fn trained(&self, join: impl Fn(&Tensor, &Linear) -> Result<Option<Tensor>>) -> Result<String> {
        let [x, target] = batch(&[16, 8], &[16, 4], &self.one.weight.device())?;
        let run = |model: &Branches| {
            let one = model.one.forward(&x)?;
            let sum = match join(&x, &model.other)? {
                Some(other) => one.add(&other)?,
                None => one,
            };
            sum.mse_loss(&target, Reduction::Mean)
        };
        let mut steps = Lenient(sgd(self, 0.01)?);
        watched(self, &mut steps, 2, || run(self))
    }
}

/// Ignores parameters without a gradient, like PyTorch's optimizers.
struct Lenient(SGD);

impl Optimizer for Lenient {
    fn step(&mut self, gradients: &Gradients) -> Result<()> {
        match self.0.step(gradients) {
            Err(Error::MissingGradient { .. }) => Ok(()),
            outcome => outcome,
        }
    }
    fn lr(&self) -> f64 {
        self.0.lr()
    }
    fn set_lr(&mut self, lr: f64) -> Result<()> {
        self.0.set_lr(lr)
    }
    fn parameters(&self) -> Vec<Param> {
        self.0.parameters()
    }
    fn state_dict(&self) -> Result<ternion::nn::StateDict> {
        self.0.state_dict()
    }
    fn load_state_dict(&mut self, dict: &ternion::nn::StateDict) -> Result<()> {
        self.0.load_state_dict(dict)
    }
}

/// A branch is detached: its layer runs and gets no gradient.
#[test]
fn a_branch_that_is_detached() {
    let training = |cut: bool| {
        Branches::new(&device())?.trained(|x, layer| {
            let other = layer.forward(x)?;
            Ok(Some(if cut { other.detach() } else { other }))
        })
    };
    planted(
        training,
        &["MissingGradient other: no gradient came to other.weight and other.bias: the layer was computed"],
    );
}

/// A layer is created and not used.
#[test]
fn a_layer_that_is_not_used() {
    let training = |unused: bool| {
        let used = |x: &Tensor, layer: &Linear| (!unused).then(|| layer.forward(x)).transpose();
        Branches::new(&device())?.trained(used)
    };
    planted(training, &["MissingGradient other: ", "the loss does not depend on this layer"]);
}

/// The same at the first step, without a monitor: the optimizer rejects it.
#[test]
fn a_parameter_without_a_gradient_at_the_first_step() {
    let training = |unused: bool| {
        let device = device();
        let model = Branches::new(&device)?;
        let x = Tensor::randn([16, 8], DType::F32, &device)?;
        let other = if unused { model.one.forward(&x)? } else { model.other.forward(&x)? };
        let loss = model.one.forward(&x)?.mul(&other)?.mean_all()?;
        sgd(&model, 0.01)?.step(&loss.backward()?).map(|()| String::new())
    };
    planted(training, &["no gradient for ", "other.weight", "other.bias"]);
}

/// All layers are frozen, including those that should be trained.
#[test]
fn a_model_that_is_frozen_as_a_whole() {
    let training = |frozen: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        model.layers[0].freeze();
        if frozen {
            model.freeze();
        }
        regression(&model, 0.01, 1, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(training, &["backward: nothing was recorded: no input of the loss requires a gradient"]);
}

/// Training continues in evaluation mode after a validation: dropout drops nothing, batch norm does
/// not update its statistics.
#[test]
fn training_in_evaluation_mode() {
    let training = |evaluated: bool| {
        let device = device();
        let model = Sequential::new()
            .with(Linear::new(8, 16, &device)?)
            .with(BatchNorm1d::new(16, &device)?)
            .with(ReLU)
            .with(Dropout::new(0.2)?)
            .with(Linear::new(16, 4, &device)?);
        if evaluated {
            model.eval();
        }
        regression(&model, 0.01, 2, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(training, &["EvaluationMode 1 and 3: in evaluation mode during a training step"]);
}

/// A softmax before the cross-entropy, which applies one itself.
#[test]
fn a_softmax_before_the_cross_entropy() {
    let training = |doubled: bool| {
        let device = device();
        let mut model = Sequential::new().with(Linear::new(8, 16, &device)?).with(ReLU);
        model.push(Linear::new(16, 4, &device)?);
        if doubled {
            model.push(Softmax { axis: 1 });
        }
        let [x, labels] = classes(&[16, 8], 4, &device)?;
        watched(&model, &mut sgd(&model, 0.01)?, 2, || model.forward(&x)?.cross_entropy(&labels))
    };
    planted(training, &["DoubleActivation 3: its output goes into cross_entropy", "give them the logits"]);
}

/// A sigmoid, as a function, before the loss of logits.
#[test]
fn a_sigmoid_before_the_loss_of_logits() {
    let training = |doubled: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 1], &device)?;
        let [x, _] = batch(&[16, 8], &[1], &device)?;
        let target = x.narrow(1, 0, 1)?.gt_scalar(0.0)?.to_dtype(DType::F32)?;
        watched(&model, &mut sgd(&model, 0.01)?, 2, || {
            let logits = model.forward(&x)?;
            let outputs = if doubled { logits.sigmoid()? } else { logits };
            outputs.bce_with_logits(&target, Reduction::Mean)
        })
    };
    planted(
        training,
        &["DoubleActivation sigmoid after layers.1", "the cross-entropy of logits applies sigmoid itself"],
    );
}

/// The initial weights of a hidden layer are all 0.1: its units stay equal.
#[test]
fn initial_weights_that_are_all_equal() {
    let training = |same: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        if same {
            model.layers[0].weight.set(&Tensor::full([16, 8], 0.1, DType::F32, &device)?)?;
        }
        regression(&model, 0.01, 2, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(training, &["EqualWeights layers.0.weight: all of its numbers are 1", "stay the same"]);
}

/// All initial weights are 0: outputs and gradients are 0.
#[test]
fn initial_weights_that_are_all_zero() {
    let training = |zero: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        for layer in model.layers.iter().filter(|_| zero) {
            layer.weight.set(&layer.weight.tensor().zeros_like()?)?;
        }
        regression(&model, 0.01, 2, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(training, &["EqualWeights layers.0.weight: all of its numbers are 0", "layers.1.weight: all of"]);
}

/// A checkpoint of another model.
#[test]
fn a_state_that_does_not_belong_to_the_model() {
    let training = |other: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let state = Mlp::new(if other { [8, 32, 4] } else { [8, 16, 4] }, &device)?.state_dict()?;
        model.load_state_dict(&state)?;
        regression(&model, 0.01, 1, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(training, &["layers.0.weight", "layers.0.bias", "layers.1.weight"]);
}

/// Gradients that were computed before the model was converted belong to parameters that no longer
/// exist.
#[test]
fn a_model_that_is_converted_between_backward_and_step() {
    let training = |converted: bool| {
        let device = device();
        let model = Mlp::new([8, 4], &device)?;
        let mut sgd = sgd(&model, 0.01)?;
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        let gradients = model.forward(&x)?.mse_loss(&target, Reduction::Mean)?.backward()?;
        if converted {
            model.to_dtype(DType::F64)?;
        }
        sgd.step(&gradients).map(|()| String::new())
    };
    planted(training, &["layers.0.weight", "the gradients are older than"]);
}

/// A layer that is created in each call, so that it is never trained.
struct Forgets {
    first: Linear,
    last: Linear,
    is_fresh: bool,
}

impl Module for Forgets {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("first", &self.first);
        visitor.field("last", &self.last);
    }
}

impl Forward for Forgets {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let hidden = self.first.forward(input)?.relu()?;
        let hidden = match self.is_fresh {
            true => Linear::new(8, 8, input.device())?.forward(&hidden)?.relu()?,
            false => hidden,
        };
        self.last.forward(&hidden)
    }
}

#[test]
fn a_layer_that_is_created_in_each_call() {
    let training = |is_fresh| {
        let device = device();
        let linear = || Linear::new(8, 8, &device);
        let model = Forgets { first: linear()?, last: linear()?, is_fresh };
        regression(&model, 0.01, 1, &batch(&[16, 8], &[16, 8], &device)?)
    };
    planted(
        training,
        &["UnvisitedLayer Linear after first: computes inside", "create layers once, not at each call"],
    );
}

/// A layer whose weight is a bare tensor that requires a gradient, and that `visit` does not show.
struct Bare {
    first: Linear,
    last: Linear,
    weight: Tensor,
}

impl Module for Bare {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("first", &self.first);
        visitor.field("last", &self.last);
    }
}

impl Forward for Bare {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.last.forward(&self.first.forward(input)?.relu()?.matmul(&self.weight)?.relu()?)
    }
}

/// A tensor that requires a gradient instead of a parameter: it is never updated.
#[test]
fn a_bare_tensor_that_requires_a_gradient() {
    let training = |requires_grad: bool| {
        let device = device();
        let linear = || Linear::new(8, 8, &device);
        let weight = Tensor::randn([8, 8], DType::F32, &device)?;
        let weight = if requires_grad { weight.requires_grad()? } else { weight };
        let model = Bare { first: linear()?, last: linear()?, weight };
        regression(&model, 0.01, 2, &batch(&[16, 8], &[16, 8], &device)?)
    };
    let words = [
        "UnvisitedLayer a tensor [8, 8] in matmul after first: computes inside of the model",
        "shapes [8, 8] belong",
    ];
    planted(training, &words);
}

/// Two linear layers without an activation between them are one.
#[test]
fn an_activation_that_is_missing() {
    let training = |missing: bool| {
        let device = device();
        let mut model = Sequential::new().with(Linear::new(8, 16, &device)?);
        if !missing {
            model.push(ReLU);
        }
        model.push(Linear::new(16, 4, &device)?);
        regression(&model, 0.01, 1, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(
        training,
        &["MissingActivation 1: a linear layer that takes the output of the linear layer 0 unchanged"],
    );
}
