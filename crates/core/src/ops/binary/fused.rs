//! Fused elementwise ops of two or three operands: multiply-add, scale-add, sum with an activation.

use crate::DType;
use crate::autograd::{Context, Grads, sum_to};
use crate::backend::Meta;
use crate::dispatch::{apply_into, apply_one};
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::ops::unary::{Unary, UnaryGrad, UnaryOp};
use crate::tensor::Tensor;

/// `y = a * b + c`, broadcast, rounded once or twice. Inputs: a, b, c of one numeric dtype. Output:
/// may reuse a's buffer.
#[derive(Clone, Debug)]
pub struct MultiplyAdd;

impl Rule for MultiplyAdd {
    fn name(&self) -> &'static str {
        "multiply_add"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = self.name();
        check::count(name, inputs, 3)?;
        check::same_dtype(name, &inputs[0], &inputs[1])?;
        check::same_dtype(name, &inputs[0], &inputs[2])?;
        check_numeric(name, &inputs[0])?;
        let shape =
            inputs[0].shape().broadcast(inputs[1].shape(), name)?.broadcast(inputs[2].shape(), name)?;
        Ok(Outputs::from_buf([Output::reuses(shape, inputs[0].dtype, 0)]))
    }
    fn broadcasts(&self) -> bool {
        true
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (a, b) = (inputs[0].to_accumulator()?, inputs[1].to_accumulator()?);
        let sum = a.mul(&b)?.add(&inputs[2].to_accumulator()?)?;
        Ok(vec![sum.to_dtype(inputs[0].dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves { inputs: 0b011, outputs: 0 })
    }
    /// `da = dy * b`, `db = dy * a`, `dc = dy`, each summed to its operand's shape.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::new()) };
        let mut grads = Grads::from_elem(None, 3);
        for (index, other) in [Some(1), Some(0), None].into_iter().enumerate() {
            if context.needs(index) {
                let grad = match other {
                    Some(other) => dy.mul(context.input(other)?)?,
                    None => dy.clone(),
                };
                grads[index] = Some(sum_to(&grad, context.shape(index))?);
            }
        }
        Ok(grads)
    }
}

/// `y = scale * a + b`, broadcast. Inputs: a, b of one floating dtype. Output: may reuse a's
/// buffer.
#[derive(Clone, Debug)]
pub struct ScaleAdd {
    /// The factor.
    pub scale: f64,
}

impl Rule for ScaleAdd {
    fn name(&self) -> &'static str {
        "scale_add"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        infer_float_pair("scale_add", inputs)
    }
    fn broadcasts(&self) -> bool {
        true
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let scaled = inputs[0].to_accumulator()?.mul_scalar(self.scale)?;
        let sum = scaled.add(&inputs[1].to_accumulator()?)?;
        Ok(vec![sum.to_dtype(inputs[0].dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::NOTHING)
    }
    /// `da = scale * dy`, `db = dy`, each summed to its operand's shape.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::new()) };
        let mut grads = Grads::from_elem(None, 2);
        if context.needs(0) {
            grads[0] = Some(sum_to(&dy.mul_scalar(self.scale)?, context.shape(0))?);
        }
        if context.needs(1) {
            grads[1] = Some(sum_to(dy, context.shape(1))?);
        }
        Ok(grads)
    }
}

/// `y = relu(a + b)`, broadcast. Inputs: a, b of one floating dtype. Output: may reuse a's buffer.
#[derive(Clone, Debug)]
pub struct AddRelu;

impl Rule for AddRelu {
    fn name(&self) -> &'static str {
        "add_relu"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        infer_float_pair("add_relu", inputs)
    }
    fn broadcasts(&self) -> bool {
        true
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].add(&inputs[1])?.relu()?])
    }
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::OUTPUTS)
    }
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::new()) };
        sum_gradients(context, &apply_one(UnaryGrad { op: UnaryOp::Relu }, &[context.output(0)?, dy])?)
    }
}

/// `y = activation(x + bias)`. Inputs: x `[.., features]`, bias `[features]`, of one floating
/// dtype. Output: x's shape and dtype.
#[derive(Clone, Debug)]
pub struct BiasActivation {
    /// The function applied to the sum.
    pub activation: UnaryOp,
}

impl Rule for BiasActivation {
    fn name(&self) -> &'static str {
        "bias_activation"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = self.name();
        check::count(name, inputs, 2)?;
        check::float(name, "input", &inputs[0])?;
        check::same_dtype(name, &inputs[0], &inputs[1])?;
        let shape = *inputs[0].shape();
        let Some(&features) = shape.dims().last() else {
            return Err(Error::Rank { op: name, expected: "at least 1".into(), shape: Box::new(shape) });
        };
        // Decorator devices pass a bias that is already broadcast to x's shape.
        if *inputs[1].shape() != shape {
            check::shape(name, "bias", &inputs[1], crate::Shape::unchecked(&[features]))?;
        }
        Unary { op: self.activation }.infer(&inputs[..1])?;
        Ok(Outputs::from_buf([Output::reuses(shape, inputs[0].dtype, 0)]))
    }
    fn broadcasts(&self) -> bool {
        true
    }
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let sum = inputs[0].to_accumulator()?.add(&inputs[1].to_accumulator()?)?;
        let output = apply_one(Unary { op: self.activation }, &[&sum])?;
        Ok(vec![output.to_dtype(inputs[0].dtype())?])
    }
    fn differentiability(&self) -> Differentiability {
        if self.activation.saves_output() {
            Differentiability::Stated(Saves::OUTPUTS)
        } else {
            Differentiability::Stated(Saves::INPUTS)
        }
    }
    /// `dx = activation'(x + bias) * dy`. The gradient of the bias is dx, summed to its shape.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let Some(dy) = &grad_outputs[0] else { return Ok(Grads::new()) };
        let op = UnaryGrad { op: self.activation };
        if self.activation.saves_output() {
            return sum_gradients(context, &apply_one(op, &[context.output(0)?, dy])?);
        }
        let sum = context.input(0)?.to_accumulator()?.add(&context.input(1)?.to_accumulator()?)?;
        sum_gradients(context, &apply_one(op, &[&sum, &dy.to_accumulator()?])?)
    }
}

fn check_numeric(op: &'static str, meta: &Meta<'_>) -> Result<()> {
    if meta.dtype == DType::Bool {
        return Err(Error::dtype(op, "operand", meta.dtype, "a number"));
    }
    Ok(())
}

fn infer_float_pair(op: &'static str, inputs: &[Meta<'_>]) -> Result<Outputs> {
    check::count(op, inputs, 2)?;
    check::same_dtype(op, &inputs[0], &inputs[1])?;
    check::float(op, "operand", &inputs[0])?;
    let shape = inputs[0].shape().broadcast(inputs[1].shape(), op)?;
    Ok(Outputs::from_buf([Output::reuses(shape, inputs[0].dtype, 0)]))
}

/// Returns the gradients of two summands. `grad` is the gradient of their sum.
fn sum_gradients(context: &Context<'_>, grad: &Tensor) -> Result<Grads> {
    let operand_grad = |index: usize| match context.needs(index) {
        true => sum_to(grad, context.shape(index))?.to_dtype(context.dtype(index)).map(Some),
        false => Ok(None),
    };
    Ok([operand_grad(0)?, operand_grad(1)?].into_iter().collect())
}

impl Tensor {
    /// Computes `self * factor + summand` with broadcasting.
    ///
    /// # Errors
    /// Returns an error if shapes do not broadcast, if dtypes differ, or for bool.
    pub fn multiply_add(&self, factor: &Tensor, summand: &Tensor) -> Result<Tensor> {
        apply_one(MultiplyAdd, &[self, factor, summand])
    }

    /// In-place version of [`multiply_add`](Tensor::multiply_add).
    ///
    /// # Errors
    /// Same as [`multiply_add`](Tensor::multiply_add) and [`apply_into`].
    pub fn multiply_add_(&self, factor: &Tensor, summand: &Tensor) -> Result<()> {
        apply_into(MultiplyAdd, &[self, factor, summand], self)
    }

    /// Computes `scale * self + summand` with broadcasting.
    ///
    /// # Errors
    /// Returns an error if shapes do not broadcast, or if dtypes differ or are not floating.
    pub fn scale_add(&self, scale: f64, summand: &Tensor) -> Result<Tensor> {
        apply_one(ScaleAdd { scale }, &[self, summand])
    }

    /// In-place version of [`scale_add`](Tensor::scale_add).
    ///
    /// # Errors
    /// Same as [`scale_add`](Tensor::scale_add) and [`apply_into`].
    pub fn scale_add_(&self, scale: f64, summand: &Tensor) -> Result<()> {
        apply_into(ScaleAdd { scale }, &[self, summand], self)
    }

    /// Computes `relu(self + other)` with broadcasting.
    ///
    /// # Errors
    /// Returns an error if shapes do not broadcast, or if dtypes differ or are not floating.
    pub fn add_relu(&self, other: &Tensor) -> Result<Tensor> {
        apply_one(AddRelu, &[self, other])
    }

    /// Computes `activation(self + bias)`.
    ///
    /// # Shapes
    /// `[.., features]` and bias `[features]` -> `[.., features]`
    ///
    /// # Errors
    /// Returns an error if the bias has another shape, if dtypes differ or are not floating, or if
    /// the activation takes bool.
    pub fn bias_activation(&self, bias: &Tensor, activation: UnaryOp) -> Result<Tensor> {
        apply_one(BiasActivation { activation }, &[self, bias])
    }
}
