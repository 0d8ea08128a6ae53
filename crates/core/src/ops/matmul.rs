//! Matrix products.

use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Output, Outputs, Role, Rule, check};
use crate::ops::unary::UnaryOp;
use crate::{DType, Shape};

/// What happens to a product before it is stored: `y = activation(alpha * a b + bias) + residual`, and `c += y` if accumulating.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epilogue {
    /// Whether a bias `[n]` follows the operands.
    pub bias: bool,
    /// The function applied to the sum of product and bias.
    pub activation: Option<UnaryOp>,
    /// Whether a tensor of the output's shape follows (after the bias), added after the activation.
    pub residual: bool,
    /// Factor of the product.
    pub alpha: f64,
    /// Whether the last input is a tensor of the output's shape and dtype that the result is added to, in place.
    pub accumulate: bool,
    /// Dtype of the output; that of the operands if none. f32 is possible for halves.
    pub out_dtype: Option<DType>,
}

impl Epilogue {
    /// The plain product.
    pub const NONE: Epilogue = Epilogue {
        bias: false,
        activation: None,
        residual: false,
        alpha: 1.0,
        accumulate: false,
        out_dtype: None,
    };
}

/// `y[.., i, j] = sum_k a[.., i, k] * b[.., k, j]`, then the [`Epilogue`].
///
/// Inputs: a `[.., m, k]`, b `[.., k, n]` of one numeric dtype, with equal leading axes (`Tensor::matmul` expands them); then bias `[n]`, residual and accumulator
/// as the epilogue says (bias and residual in the output's dtype or the operands'). Output `[.., m, n]`. Halves accumulate in
/// f32, integers wrap. The plain product is a primitive.
#[derive(Clone, Debug)]
pub struct Matmul {
    /// What follows the product.
    pub epilogue: Epilogue,
}

impl Matmul {
    /// Number of inputs.
    pub fn input_count(&self) -> usize {
        2 + usize::from(self.epilogue.bias)
            + usize::from(self.epilogue.residual)
            + usize::from(self.epilogue.accumulate)
    }
}

impl Rule for Matmul {
    fn name(&self) -> &'static str {
        "matmul"
    }
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs> {
        let name = "matmul";
        check::count(name, inputs, self.input_count())?;
        check::same_dtype(name, &inputs[0], &inputs[1])?;
        let dtype = inputs[0].dtype;
        if dtype == DType::Bool {
            return Err(Error::DType { op: name, what: "operand", got: dtype, expected: "a number" });
        }
        let shape = product_shape(inputs[0].shape(), inputs[1].shape())?;
        let leading = |meta: &Meta<'_>| Shape::unchecked(&meta.shape().dims()[..meta.shape().rank() - 2]);
        if leading(&inputs[0]) != leading(&inputs[1]) {
            let detail = format!(
                "{:?} x {:?}: leading axes differ; expand them first",
                inputs[0].shape(),
                inputs[1].shape()
            );
            return Err(Error::invalid(name, detail));
        }
        let out_dtype = self.epilogue.out_dtype.unwrap_or(dtype);
        if out_dtype != dtype && !(dtype.is_half() && out_dtype == DType::F32) {
            return Err(Error::DType {
                op: name,
                what: "output",
                got: out_dtype,
                expected: "the operands' dtype, or f32 for f16 and bf16",
            });
        }
        let mut role = Role::Fresh;
        for (position, meta) in inputs.iter().enumerate().skip(2) {
            let bias = self.epilogue.bias && position == 2;
            let accumulator = self.epilogue.accumulate && position == inputs.len() - 1;
            if meta.dtype != out_dtype && (accumulator || meta.dtype != dtype) {
                return Err(Error::DTypeMismatch { op: name, left: out_dtype, right: meta.dtype });
            }
            let n = shape.dim(shape.rank() - 1);
            match bias {
                true => check::shape(name, "bias", meta, Shape::unchecked(&[n]))?,
                false => {
                    check::shape(name, if accumulator { "accumulator" } else { "residual" }, meta, shape)?
                }
            }
            if accumulator {
                role = Role::Accumulates(position);
            }
        }
        Ok(Outputs::from_buf([Output { shape, dtype: out_dtype, role }]))
    }
    fn is_primitive(&self) -> bool {
        self.epilogue == Epilogue::NONE
    }
}

/// `[.., m, k] x [.., k, n] -> [.., m, n]`.
pub(crate) fn product_shape(left: &Shape, right: &Shape) -> Result<Shape> {
    let fail = |detail: String| Err(Error::invalid("matmul", format!("{left:?} x {right:?}: {detail}")));
    if left.rank() < 2 || right.rank() < 2 {
        return fail("operands need at least 2 axes".into());
    }
    let (ldims, rdims) = (left.dims(), right.dims());
    let (lbatch, lmat) = ldims.split_at(ldims.len() - 2);
    let (rbatch, rmat) = rdims.split_at(rdims.len() - 2);
    if lmat[1] != rmat[0] {
        return fail(format!("inner sizes {} and {} differ", lmat[1], rmat[0]));
    }
    let batch = match Shape::unchecked(lbatch).broadcast(&Shape::unchecked(rbatch), "matmul") {
        Ok(batch) => batch,
        Err(_) => return fail("leading axes do not broadcast".into()),
    };
    let mut dims: smallvec::SmallVec<[usize; 10]> = batch.dims().into();
    dims.push(lmat[0]);
    dims.push(rmat[1]);
    Shape::new(&dims)
}
