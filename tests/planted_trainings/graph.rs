//! Faults of single ops: NaN and infinity, tensors that backward needs, custom gradients.

use crate::{batch, device, planted, regression, sgd, watched};
use ternion::anomaly::detect_anomaly;
use ternion::autograd::{Grads, with_gradient};
use ternion::decorators::NanCheck;
use ternion::op::Saves;
use ternion::prelude::*;
use ternion_testing::gradcheck;

/// Trains with a loss of the model's output on a device that stops at the first op that produces a
/// NaN or an infinity.
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

/// A mask that excludes all keys of a row from its softmax.
#[test]
fn a_mask_that_excludes_a_whole_row() {
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

/// An exponential that is infinite, and therefore an infinite loss.
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

/// 0 times that derivative is NaN: the report names the op whose gradient it is.
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

/// Two layers, and the function between them.
#[derive(Module)]
struct Between {
    a: Linear,
    b: Linear,
    #[module(skip)]
    op: fn(&Tensor) -> Result<Tensor>,
}

impl Forward for Between {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.b.forward(&(self.op)(&self.a.forward(input)?)?)
    }
}

fn between(op: fn(&Tensor) -> Result<Tensor>) -> Result<String> {
    let device = device();
    let model = Between { a: Linear::new(8, 8, &device)?, b: Linear::new(8, 4, &device)?, op };
    regression(&model, 1e-3, 1, &batch(&[16, 8], &[16, 4], &device)?)
}

/// A NaN that is produced between two layers: the report names the op, not the layer with the NaN
/// as input.
#[test]
fn a_nan_that_is_produced_between_layers() {
    type Case = (fn(&Tensor) -> Result<Tensor>, &'static str);
    let cases: [Case; 7] = [
        (|x| x.log(), "log after a: it made the first NaN in the order of computation, of finite numbers"),
        (|x| x.sqrt(), "sqrt after a: it made the first NaN"),
        (|x| x.div(&x.mul_scalar(0.0)?), "div after a: it made the first infinite number"),
        (|x| x.mul_scalar(9.0)?.acos(), "acos after a: it made the first NaN"),
        (|x| x.mul_scalar(1e4)?.exp(), "exp after a: it made the first infinite number"),
        (|x| x.relu()?.log(), "log after a: it made the first infinite number"),
        (
            |x| x.log()?.sigmoid(),
            "log after a: it made the first NaN in the order of computation, of finite numbers (sigmoid after a: ",
        ),
    ];
    for (op, words) in cases {
        planted(|broken| between(if broken { op } else { Tensor::relu }), &["NotFinite ", words]);
    }
}

/// Numbers that are infinite on purpose, as in masks, are not a fault, and a NaN that results from
/// them is attributed to the softmax.
#[test]
fn a_mask_that_excludes_a_whole_row_between_layers() {
    let hidden =
        |x: &Tensor| x.add(&Tensor::full([8], f64::NEG_INFINITY, DType::F32, x.device())?)?.softmax(1);
    let seen = |x: &Tensor| {
        let first = Tensor::arange(0, 8, 1, DType::I64, x.device())?.lt_scalar(1)?;
        x.masked_fill(&first, f64::NEG_INFINITY)?.softmax(1)
    };
    planted(
        |whole| between(if whole { hidden } else { seen }),
        &["NotFinite softmax after a: 128 of 128 outputs are NaN", "look for a mask that hides a whole row"],
    );
}

/// A parameter that belongs to no layer is NaN: the report names it, not the op that reads it.
#[test]
fn a_weight_between_layers_that_is_not_finite() {
    #[derive(Module)]
    struct Scales {
        layer: Linear,
        scale: Param,
        last: Linear,
    }
    impl Forward for Scales {
        fn forward(&self, input: &Tensor) -> Result<Tensor> {
            self.last.forward(&self.layer.forward(input)?.mul(&self.scale.tensor())?)
        }
    }
    let training = |broken: bool| {
        let device = device();
        let value = if broken { f64::NAN } else { 1.0 };
        let scale = Param::new(&Tensor::full([8], value, DType::F32, &device)?)?;
        let model = Scales { layer: Linear::new(8, 8, &device)?, scale, last: Linear::new(8, 4, &device)? };
        regression(&model, 1e-3, 1, &batch(&[16, 8], &[16, 4], &device)?)
    };
    planted(training, &["NotFinite scale: it holds such numbers already (last: 64 of 64 outputs are NaN)"]);
}

/// Functions that are composed of ops are reported by their own names if they produce a NaN, by
/// both tools that detect it.
#[test]
fn functions_that_are_composed_are_named_as_they_are_called() {
    type Case = (fn(&Tensor) -> Result<Tensor>, &'static str, f32);
    let cases: [Case; 13] = [
        (Tensor::acos, "acos", 2.0),
        (Tensor::asin, "asin", 2.0),
        (Tensor::acosh, "acosh", 0.5),
        (Tensor::atanh, "atanh", 2.0),
        (|x| x.logit(None), "logit", 2.0),
        (Tensor::log2, "log2", -1.0),
        (Tensor::log10, "log10", -1.0),
        (Tensor::erfinv, "erfinv", 2.0),
        (|x| x.fmod(&x.zeros_like()?), "fmod", 1.0),
        (|x| x.floor_divide(&x.zeros_like()?), "floor_divide", 0.0),
        (|x| x.std(0, 1.0), "std", 1.0),
        (|x| x.mse_loss(x, Reduction::Mean), "mse_loss", f32::INFINITY),
        (|x| x.huber_loss(x, 1.0, Reduction::Mean), "huber_loss", f32::INFINITY),
    ];
    for (function, name, value) in cases {
        let x = Tensor::from_slice(&[value], [1], &device()).expect("a number");
        let reported = detect_anomaly(|| function(&x)).expect_err(name).to_string();
        assert!(reported.starts_with(&format!("{name}: NaN in 1 of 1 elements")), "{reported}");
        let x = Tensor::from_slice(&[value], [1], &NanCheck::new(device())).expect("a number");
        let reported = function(&x).expect_err(name).to_string();
        assert!(reported.starts_with(&format!("{name}: NaN in 1 of 1 elements")), "{reported}");
    }
}

/// A NaN inside a function is not a fault if the output of the function has none. A gradient is
/// reported by the name of the function.
#[test]
fn functions_are_checked_as_a_whole() {
    let x = Tensor::from_slice(&[f32::INFINITY, 1.0], [2], &device()).expect("numbers");
    let near = detect_anomaly(|| x.isclose(&x, Default::default())).expect("no NaN is given");
    assert_eq!(near.to_vec::<bool>().expect("bools"), [true, true]);
    // The gradient of the exponent is 0 times infinity.
    let device = device();
    let numbers = |value: f32| Tensor::from_slice(&[value], [1], &device);
    let training = || {
        let (x, exponent) = (numbers(0.0)?, numbers(f32::INFINITY)?.requires_grad()?);
        x.ldexp(&exponent)?.sum_all()?.backward()
    };
    let reported = detect_anomaly(training).err().expect("a NaN").to_string();
    assert!(reported.starts_with("ldexp: NaN in 1 of 1"), "{reported}");
    let training = || {
        let values = Tensor::from_slice(&[f32::INFINITY, 200.0], [2], &device)?.requires_grad()?;
        values.glu(0)?.sum_all()?.backward()
    };
    let reported = detect_anomaly(training).err().expect("a NaN").to_string();
    assert!(
        reported.starts_with("glu: NaN in 1 of 1 elements of a gradient inside of it, that of its "),
        "{reported}"
    );
}

/// An exponential that overflows. A product makes a NaN of the infinity, and the report names the
/// exponential too.
#[test]
fn a_nan_that_results_from_infinity() {
    let training = |large: bool| {
        let device = device();
        let model = Mlp::new([8, 16, 4], &device)?;
        let [x, target] = batch(&[16, 8], &[16, 4], &device)?;
        detect_anomaly(|| {
            let spread = x.mul_scalar(if large { 1e4 } else { 1.0 })?.exp()?;
            watched(&model, &mut sgd(&model, 1e-9)?, 1, || {
                model.forward(&spread)?.mse_loss(&target, Reduction::Mean)
            })
        })
    };
    planted(
        training,
        &["NaN in ", "its inputs had none, but ", " of 128 elements of its input 0 are infinite"],
    );
}

/// Numbers beyond the range of half precision.
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
    planted(training, &["NotFinite layers.1: ", "its matmul made them", "numbers too large for the dtype"]);
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

/// A loss for each example, without a reduction to a scalar.
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

/// `x^2`, with a custom gradient that lacks the factor 2 if it is wrong.
fn own_square(x: &Tensor, is_wrong: bool) -> Result<Tensor> {
    let y = no_grad(|| x.square())?;
    let factor = if is_wrong { 1.0 } else { 2.0 };
    let gradient_rule = move |context: &ternion::autograd::Context<'_>, grads: &[Option<Tensor>]| {
        let twice = context.input(0)?.mul_scalar(factor)?;
        Ok(Grads::from_elem(grads[0].as_ref().map(|grad| grad.mul(&twice)).transpose()?, 1))
    };
    Ok(with_gradient("own_square", &[x], vec![y], Saves::INPUTS, gradient_rule)?.remove(0))
}

/// A function with a wrong custom gradient: training "works" at another learning rate.
#[test]
fn a_custom_gradient_that_is_wrong() {
    let training = |is_wrong: bool| {
        let x = Tensor::from_slice(&[0.5, -1.0, 2.0], [3], &device())?;
        gradcheck(|inputs| own_square(&inputs[0].tanh()?, is_wrong)?.sum_all(), &[x]).map(|_| String::new())
    };
    planted(training, &["gradcheck: gradient of input 0, element 0", "own_square"]);
}
