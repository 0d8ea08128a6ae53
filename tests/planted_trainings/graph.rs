//! Faults of single ops: numbers that are none, what backward needs, gradients of one's own.

use crate::{batch, device, planted, regression, sgd, watched};
use ternion::anomaly::detect_anomaly;
use ternion::autograd::{Grads, with_gradient};
use ternion::decorators::NanCheck;
use ternion::op::Saves;
use ternion::prelude::*;
use ternion_testing::gradcheck;

/// Trains on a device that stops at the first op that makes a NaN, or an infinity, by a loss of what the model gives.
fn checked(loss: impl Fn(&Tensor) -> Result<Tensor>) -> Result<String> {
    let device = NanCheck::with_infinity(device());
    let model = Mlp::new([8, 16, 4], &device)?;
    let x = Tensor::randn([16, 8], DType::F32, &device)?;
    watched(&model, &mut sgd(&model, 1e-3)?, 1, || loss(&model.forward(&x)?))
}

/// The logarithm of a probability that is 0.
#[test]
fn the_logarithm_of_0() {
    let training = |zero: bool| {
        checked(|output| {
            let shares = output.mul_scalar(if zero { 1e3 } else { 1.0 })?.softmax(1)?;
            shares.log()?.mean_all()?.neg()
        })
    };
    planted(training, &["log: NaN or infinity in", "inputs had none"]);
}

/// The root of a variance that rounding made negative.
#[test]
fn the_root_of_a_negative_number() {
    let training = |negative: bool| {
        checked(|output| output.square()?.add_scalar(if negative { -10.0 } else { 1e-5 })?.sqrt()?.mean_all())
    };
    planted(training, &["sqrt: NaN or infinity in", "inputs had none"]);
}

/// Rows that are divided by their sum, which is 0.
#[test]
fn a_division_of_0_by_0() {
    let training = |zero: bool| {
        checked(|output| {
            let shifted = output.square()?.mul_scalar(if zero { 0.0 } else { 1.0 })?;
            shifted.div(&shifted.sum_keep(1)?)?.square()?.mean_all()
        })
    };
    planted(training, &["div: NaN or infinity in", "inputs had none"]);
}

/// A mask that hides all keys of a row from its softmax.
#[test]
fn a_mask_that_hides_a_whole_row() {
    let training = |whole: bool| {
        let device = NanCheck::new(device());
        let model = Mlp::new([8, 16, 4], &device)?;
        let x = Tensor::randn([4, 8], DType::F32, &device)?;
        let hidden =
            Tensor::ones([4, 4], DType::F32, &device)?.triu(if whole { 0 } else { 1 })?.gt_scalar(0.0)?;
        watched(&model, &mut sgd(&model, 1e-3)?, 1, || {
            model.forward(&x)?.masked_fill(&hidden, f64::NEG_INFINITY)?.softmax(1)?.square()?.mean_all()
        })
    };
    planted(training, &["softmax: NaN in 4 of 16 elements"]);
}

/// An exponential that is infinite, and with it the loss.
#[test]
fn a_loss_that_is_infinite() {
    let training =
        |large: bool| checked(|output| output.mul_scalar(if large { 1e4 } else { 1.0 })?.exp()?.mean_all());
    planted(training, &["exp: NaN or infinity in", "inputs had none"]);
}

/// A parameter is NaN.
#[test]
fn a_weight_that_is_not_finite() {
    let training = |broken: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let mut values = model.layers[1].weight.tensor().to_vec::<f32>()?;
        values[5] = if broken { f32::NAN } else { 0.1 };
        model.layers[1].weight.set(&Tensor::from_vec(values, [4, 16], &device)?)?;
        regression(&model, 0.01, 1, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(
        training,
        &["NotFinite layers.1: 16 of 64 outputs are NaN", "its layers.1.weight holds such numbers already"],
    );
}

/// The root of 0, whose derivative is infinite: all outputs are finite, the gradient is not.
#[test]
fn a_gradient_that_is_not_finite() {
    let training = |zero: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let [x, _] = batch(&[16, 8], &[1], &device)?;
        let (scale, floor) = if zero { (0.0, 0.0) } else { (1.0, 1e-3) };
        watched(&model, &mut sgd(&model, 1e-3)?, 1, || {
            model.forward(&x)?.square()?.mul_scalar(scale)?.add_scalar(floor)?.sqrt()?.mean_all()
        })
    };
    planted(training, &["NotFinite layers.1: ", "though all outputs are finite"]);
}

/// 0 times that derivative is NaN: named is the op whose gradient it is.
#[test]
fn a_gradient_that_is_nan() {
    let training = |zero: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let [x, _] = batch(&[16, 8], &[1], &device)?;
        let (scale, floor) = if zero { (0.0, 0.0) } else { (1.0, 1e-3) };
        detect_anomaly(|| {
            watched(&model, &mut sgd(&model, 1e-3)?, 1, || {
                let root = model.forward(&x)?.mul_scalar(scale)?.square()?.add_scalar(floor)?.sqrt()?;
                root.mul(&root)?.mean_all()
            })
        })
    };
    planted(training, &["sqrt: NaN in 64 of 64 elements of the gradient of its input 0", "had none"]);
}

/// Numbers beyond what half precision holds.
#[test]
fn an_overflow_of_half_precision() {
    let training = |large: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        model.to_dtype(DType::F16)?;
        let weight = &model.layers[1].weight;
        weight.set(&weight.tensor().detach().mul_scalar(if large { 6e4 } else { 1.0 })?)?;
        let x = Tensor::randn([16, 8], DType::F16, &device)?.mul_scalar(if large { 20.0 } else { 1.0 })?;
        regression(&model, 1e-3, 1, &[x, Tensor::randn([16, 4], DType::F16, &device)?])
    };
    planted(training, &["NotFinite layers.1: ", "numbers too large for the dtype"]);
}

/// A tensor that backward needs is overwritten in between.
#[test]
fn a_tensor_that_is_changed_after_it_was_saved() {
    let training = |changed: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let [x, _] = batch(&[16, 8], &[1], &device)?;
        watched(&model, &mut sgd(&model, 1e-3)?, 1, || {
            let output = model.forward(&x)?;
            let loss = output.square()?.mean_all()?;
            if changed {
                no_grad(|| output.fill_(0.0))?;
            }
            Ok(loss)
        })
    };
    planted(training, &["square", "was changed in place after it was saved"]);
}

/// A loss for each example, which has no gradient of its own.
#[test]
fn a_loss_that_is_not_reduced() {
    let training = |whole: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        let reduction = if whole { Reduction::None } else { Reduction::Mean };
        watched(&model, &mut sgd(&model, 1e-3)?, 1, || model.forward(&x)?.mse_loss(&target, reduction))
    };
    planted(training, &["backward", "[16, 4]"]);
}

/// `x^2`, by a gradient of one's own that lacks the factor 2, if it is wrong.
fn own_square(x: &Tensor, is_wrong: bool) -> Result<Tensor> {
    let y = no_grad(|| x.square())?;
    let factor = if is_wrong { 1.0 } else { 2.0 };
    let slope = move |context: &ternion::autograd::Context<'_>, grads: &[Option<Tensor>]| {
        let twice = context.input(0)?.mul_scalar(factor)?;
        Ok(Grads::from_elem(grads[0].as_ref().map(|grad| grad.mul(&twice)).transpose()?, 1))
    };
    Ok(with_gradient("own_square", &[x], vec![y], Saves::INPUTS, slope)?.remove(0))
}

/// A function with a wrong gradient of its own: the training "works" at another learning rate.
#[test]
fn a_gradient_of_ones_own_that_is_wrong() {
    let training = |is_wrong: bool| {
        let x = Tensor::from_slice(&[0.5, -1.0, 2.0], [3], &device())?;
        gradcheck(|inputs| own_square(&inputs[0].tanh()?, is_wrong)?.sum_all(), &[x]).map(|_| String::new())
    };
    planted(training, &["gradcheck: gradient of input 0, element 0", "own_square"]);
}
