//! An op outside of core: `swish_gate`, with a shape rule, a composition, an explicit gradient rule
//! and a CPU kernel.
//!
//! It passes the same table of checks as every op of the project. Decorators count, compare and
//! move it, and it is composed where there is no kernel.

use std::any::Any;
use std::sync::OnceLock;
use ternion::autograd::{Context, Grads};
use ternion::decorators::{Checked, Composed, Counting, Fallback};
use ternion::op::{Differentiability, Output, Outputs, Saves};
use ternion::ops::custom::{CustomOp, apply_custom};
use ternion::{DType, Device, Error, Meta, Result, Tensor, Unsupported};
use ternion_cpu::{CpuInput, CpuKernel, CpuOutput, register_custom_kernel};
use ternion_testing::prelude::{Array, OpCase, Uniform};
use ternion_testing::{Check, Filter, Target, check_row};

/// `y = a * sigmoid(a) * b` (Shazeer 2020, "GLU variants", eq. 6 without its matrices). Inputs: a
/// and b of the same shape and floating dtype. Output: the same.
#[derive(Debug)]
struct SwishGate;

impl CustomOp for SwishGate {
    fn name(&self) -> &'static str {
        "swish_gate"
    }

    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let [a, b] = inputs else {
            return Err(Error::invalid("swish_gate", format!("expected 2 inputs, got {}", inputs.len())));
        };
        if !a.dtype.is_float() {
            return Err(Error::dtype("swish_gate", "input", a.dtype, "a floating dtype"));
        }
        if a.dtype != b.dtype {
            return Err(Error::DTypeMismatch { op: "swish_gate", left: a.dtype, right: b.dtype });
        }
        if a.shape() != b.shape() {
            return Err(Error::Shape {
                op: "swish_gate",
                what: "gate",
                got: Box::new(*b.shape()),
                expected: Box::new(*a.shape()),
            });
        }
        Ok(Outputs::from_buf([Output::fresh(*a.shape(), a.dtype)]))
    }

    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].silu()?.mul(&inputs[1])?])
    }

    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::INPUTS)
    }

    /// `da = dy * b * s * (1 + a * (1 - s))` with `s = sigmoid(a)`, `db = dy * a * s`.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 2);
        let Some(dy) = &grad_outputs[0] else { return Ok(grads) };
        let (a, b) = (context.input(0)?, context.input(1)?);
        let s = a.sigmoid()?;
        if context.needs(0) {
            let derivative = s.mul(&a.mul(&s.rsub_scalar(1.0)?)?.add_scalar(1.0)?)?;
            grads[0] = Some(dy.mul(b)?.mul(&derivative)?);
        }
        if context.needs(1) {
            grads[1] = Some(dy.mul(&a.mul(&s)?)?);
        }
        Ok(grads)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A single-pass kernel in f32; other dtypes are composed.
struct SwishGateKernel;

impl CpuKernel for SwishGateKernel {
    type Op = SwishGate;

    fn supports(&self, _op: &SwishGate, inputs: &[Meta<'_>]) -> Result<(), Unsupported> {
        match inputs[0].dtype {
            DType::F32 => Ok(()),
            other => Err(Unsupported::because(format!("{other} is composed"))),
        }
    }

    fn run(&self, _op: &SwishGate, inputs: &[CpuInput<'_>], outputs: &mut [CpuOutput<'_>]) -> Result<()> {
        let (a, b) = (inputs[0].values::<f32>()?, inputs[1].values::<f32>()?);
        for ((y, &a), &b) in outputs[0].values_mut::<f32>()?.iter_mut().zip(&*a).zip(&*b) {
            *y = a / (1.0 + (-a).exp()) * b;
        }
        Ok(())
    }
}

/// Returns a CPU device with the kernel.
fn device() -> Device {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| register_custom_kernel(SwishGateKernel));
    ternion_cpu::device()
}

fn swish_gate(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(apply_custom(SwishGate, &[a, b])?.swap_remove(0))
}

fn inputs(device: &Device, dtype: DType) -> Result<(Tensor, Tensor)> {
    let a = Tensor::linspace(-3.0, 4.0, 12, dtype, device)?.reshape([3, 4])?;
    let b = Tensor::linspace(2.0, -1.0, 12, dtype, device)?.reshape([4, 3])?.t()?;
    Ok((a, b))
}

#[test]
fn the_op_passes_the_table() {
    let row = OpCase::new("swish_gate", "")
        .input(Uniform(-4.0, 4.0))
        .input(Uniform(-4.0, 4.0))
        .shapes([&[], &[7, 33], &[2, 3, 5], &[0, 4]])
        // Half precision is composed of two ops: rounded twice.
        .steps()
        .double_backward()
        .run(|x| swish_gate(&x[0], &x[1]))
        .oracle(|x| x[0].zip(&x[1], |a, b| a / (1.0 + (-a).exp()) * b))
        .adversarial(
            "extreme",
            [Array::new(&[3], vec![1e4, -1e4, f64::NAN]), Array::new(&[3], vec![1.0, 1.0, 1.0])],
        )
        .rejects("swish_gate: gate has shape [4], expected [3]", |device| {
            swish_gate(&Tensor::zeros([3], DType::F32, device)?, &Tensor::zeros([4], DType::F32, device)?)
        })
        .rejects("swish_gate: input is i32, expected a floating dtype", |device| {
            let x = Tensor::zeros([3], DType::I32, device)?;
            swish_gate(&x, &x)
        })
        .rejects("swish_gate: expected 2 inputs, got 1", |device| {
            apply_custom(SwishGate, &[&Tensor::zeros([3], DType::F32, device)?])
        });
    for check in Check::ALL {
        let outcome = check_row(&row, check, &Target::new(device()), &Filter::default());
        assert!(outcome.failures.is_empty(), "{check}: {}", outcome.failures[0]);
        assert!(outcome.cases > 0, "{check}: nothing was compared");
    }
}

#[test]
fn the_kernel_runs_where_it_can_and_the_composition_elsewhere() -> Result<()> {
    let (device, counter) = Counting::new(device());
    let (a, b) = inputs(&device, DType::F32)?;
    counter.reset();
    swish_gate(&a, &b)?;
    let counts = counter.counts();
    assert_eq!((counts.launches(), counts.launches_of("swish_gate")), (1, 1));
    let (a, b) = inputs(&device, DType::F64)?;
    counter.reset();
    swish_gate(&a, &b)?;
    assert_eq!(counter.counts().launches_of("swish_gate"), 0);
    assert_eq!(counter.counts().launches_of("mul"), 1);
    Ok(())
}

#[test]
fn decorators_treat_it_like_any_other_op() -> Result<()> {
    let (a, b) = inputs(&device(), DType::F32)?;
    let want = swish_gate(&a, &b)?.to_vec_f64()?;
    let (other, other_counts) = Counting::new(device());
    let devices = [
        Checked::new(device(), Composed::new(device())),
        Composed::new(device()),
        Fallback::new(device(), other, &["custom.swish_gate"])?,
    ];
    for device in devices {
        let (a, b) = inputs(&device, DType::F32)?;
        let got = swish_gate(&a, &b)?.to_vec_f64()?;
        let close = got.iter().zip(&want).all(|(got, want)| (got - want).abs() <= 1e-6 * (1.0 + want.abs()));
        assert!(close, "{device}: {got:?} {want:?}");
    }
    assert_eq!(other_counts.counts().launches(), 1);
    Ok(())
}

#[test]
fn second_order_gradients_go_through_it() -> Result<()> {
    let device = device();
    let a = Tensor::full((), 0.7f64, DType::F64, &device)?.requires_grad()?;
    let b = Tensor::full((), 1.3f64, DType::F64, &device)?;
    let options = ternion::GradOptions { create_graph: true, ..Default::default() };
    let one = Tensor::ones((), DType::F64, &device)?;
    let y = swish_gate(&a, &b)?;
    let first =
        ternion::grad(&[y], &[a.clone()], &[one.clone()], options)?.swap_remove(0).expect("it depends on a");
    let second =
        ternion::grad(&[first], &[a], &[one], Default::default())?.swap_remove(0).expect("it depends on a");
    let derivative = |a: f64| {
        let s = 1.0 / (1.0 + (-a).exp());
        1.3 * s * (1.0 + a * (1.0 - s))
    };
    let want = (derivative(0.7 + 1e-5) - derivative(0.7 - 1e-5)) / 2e-5;
    approx::assert_abs_diff_eq!(second.item_f64()?, want, epsilon = 1e-8);
    Ok(())
}

/// `y = x^3` with a gradient rule that returns too few or too many gradients.
#[derive(Debug)]
struct Cube {
    gradients: usize,
}

impl CustomOp for Cube {
    fn name(&self) -> &'static str {
        "cube"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        Ok(Outputs::from_buf([Output::fresh(*inputs[0].shape(), inputs[0].dtype)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].square()?.mul(&inputs[0])?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::INPUTS)
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let derivative = context.input(0)?.square()?.mul_scalar(3.0)?;
        let grad = grad_outputs[0].as_ref().map(|dy| dy.mul(&derivative)).transpose()?;
        Ok(Grads::from_elem(grad, self.gradients))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn a_gradient_rule_returns_one_gradient_for_each_input() -> Result<()> {
    let x = Tensor::from_slice(&[2.0], [1], &device())?.requires_grad()?;
    let backward = |gradients| apply_custom(Cube { gradients }, &[&x])?[0].sum_all()?.backward();
    assert_eq!(backward(1)?.get(&x).expect("x").to_vec::<f64>()?, [12.0]);
    for (gradients, expected) in
        [(0, "cube returned 0 gradients for 1 input"), (2, "cube returned 2 gradients for 1 input")]
    {
        let text = backward(gradients).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(text, format!("backward: {expected}"));
    }
    Ok(())
}

/// The sum of products of each input with itself, whose gradient needs the inputs that `saves`
/// names.
#[derive(Debug)]
struct SumOfSquares {
    saves: Saves,
}

impl CustomOp for SumOfSquares {
    fn name(&self) -> &'static str {
        "sum_of_squares"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        Ok(Outputs::from_buf([Output::fresh(*inputs[0].shape(), inputs[0].dtype)]))
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let sum = inputs.iter().skip(1).try_fold(inputs[0].square()?, |sum, x| sum.add(&x.square()?))?;
        Ok(vec![sum])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(self.saves)
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::from_elem(None, 24)) };
        (0..24).map(|at| Ok(Some(dy.mul(context.input(at)?)?.mul_scalar(2.0)?))).collect()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn inputs_without_a_separate_bit_use_the_last_bit() -> Result<()> {
    let device = device();
    let leaf = |value: i32| Tensor::from_slice(&[f64::from(value)], [1], &device)?.requires_grad();
    let leaves = (1..=24).map(leaf).collect::<Result<Vec<_>>>()?;
    let inputs: Vec<&Tensor> = leaves.iter().collect();
    let backward = |saves| apply_custom(SumOfSquares { saves }, &inputs)?[0].sum_all()?.backward();
    let gradients = backward(Saves::INPUTS)?;
    for (at, leaf) in leaves.iter().enumerate() {
        let gradient = gradients.get(leaf).expect("every input has one").to_vec::<f64>()?;
        assert_eq!(gradient, [2.0 * (at + 1) as f64], "input {at}");
    }
    // Only the first fifteen inputs are saved: input 16 must not share the bit of input 0.
    let first = Saves { inputs: u16::MAX >> 1, ..Saves::NOTHING };
    assert!(backward(first).is_err());
    let named = |saves: Saves| (0..24).filter(|&at| saves.has_input(at)).collect::<Vec<_>>();
    assert_eq!(named(first), (0..15).collect::<Vec<_>>());
    assert_eq!(named(Saves { inputs: 1 << 15, ..Saves::NOTHING }), (15..24).collect::<Vec<_>>());
    assert!(Saves::OUTPUTS.has_output(40) && !Saves::INPUTS.has_output(40));
    Ok(())
}

/// Softsign with a wrong gradient: the square is missing.
#[derive(Debug)]
struct WrongSoftsign;

impl CustomOp for WrongSoftsign {
    fn name(&self) -> &'static str {
        "softsign"
    }

    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        Ok(Outputs::from_buf([Output::fresh(*inputs[0].shape(), inputs[0].dtype)]))
    }

    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].div(&inputs[0].abs()?.add_scalar(1.0)?)?])
    }

    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::INPUTS)
    }

    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let denominator = context.input(0)?.abs()?.add_scalar(1.0)?;
        let grad = grad_outputs[0].as_ref().map(|dy| dy.div(&denominator)).transpose()?;
        Ok(Grads::from_elem(grad, 1))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The report that README.md shows.
#[test]
fn a_wrong_gradient_is_reported_as_the_readme_shows() {
    let row = OpCase::new("softsign", "")
        .input(Uniform(-4.0, 4.0))
        .shapes([&[2, 3]])
        .run(|x| Ok(apply_custom(WrongSoftsign, &[&x[0]])?.swap_remove(0)))
        .oracle(|x| x[0].map(|x| x / (1.0 + x.abs())));
    let outcome = check_row(&row, Check::Backward, &Target::new(device()), &Filter::default());
    let report = outcome.failures.first().expect("the gradient is wrong").to_string();
    let readme = include_str!("../README.md");
    for line in report.lines() {
        assert!(readme.contains(line.trim()), "README.md lacks {line:?} of\n{report}");
    }
}
