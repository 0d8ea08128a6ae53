//! A custom op with its own shape rule and gradient: `softsign(x) = x / (1 + |x|)`.
//!
//!     cargo run --release -p examples --example custom_op
//!
//! The op runs on every backend, because it states how it is composed of existing ops.
//! `tests/custom_op.rs` adds a CPU kernel and a row in the op table, which checks the op like every
//! op of Ternion.

use std::any::Any;
use ternion::autograd::{Context, Grads};
use ternion::op::{Differentiability, Output, Outputs, Saves};
use ternion::ops::custom::{CustomOp, apply_custom};
use ternion::prelude::*;
use ternion::{Error, Meta};

/// `y = x / (1 + |x|)`, elementwise.
#[derive(Debug)]
struct Softsign;

impl CustomOp for Softsign {
    fn name(&self) -> &'static str {
        "softsign"
    }

    /// The output has the input's shape and dtype. Wrong inputs are errors that name the op.
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let [x] = inputs else {
            return Err(Error::invalid("softsign", format!("expected 1 input, got {}", inputs.len())));
        };
        if !x.dtype.is_float() {
            return Err(Error::dtype("softsign", "input", x.dtype, "a floating dtype"));
        }
        Ok(Outputs::from_buf([Output::fresh(*x.shape(), x.dtype)]))
    }

    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let x = &inputs[0];
        Ok(vec![x.div(&x.abs()?.add_scalar(1.0)?)?])
    }

    /// The gradient is computed from the saved input.
    fn differentiability(&self) -> Differentiability {
        Differentiability::Stated(Saves::INPUTS)
    }

    /// `dx = dy / (1 + |x|)^2`.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, 1);
        if let Some(dy) = &grad_outputs[0] {
            let denominator = context.input(0)?.abs()?.add_scalar(1.0)?.square()?;
            grads[0] = Some(dy.div(&denominator)?);
        }
        Ok(grads)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn softsign(x: &Tensor) -> Result<Tensor> {
    Ok(apply_custom(Softsign, &[x])?.swap_remove(0))
}

fn main() -> Result<()> {
    let device = ternion::device("cpu")?;
    let x = Tensor::new([-2.0f64, -0.5, 0.5, 2.0], &device)?.requires_grad()?;
    let y = softsign(&x)?;
    let gradient = y.sum(..)?.backward()?.get(&x).expect("y depends on x").to_vec::<f64>()?;
    let difference =
        (softsign(&(&x + 1e-6)?)? - softsign(&(&x - 1e-6)?)?)?.div_scalar(2e-6)?.to_vec::<f64>()?;
    println!("softsign(x)          {:.4?}", y.to_vec::<f64>()?);
    println!("gradient             {gradient:.4?}");
    println!("central difference   {difference:.4?}");
    println!("error: {}", softsign(&Tensor::new([1i32], &device)?).expect_err("an integer tensor"));
    Ok(())
}
