//! The epilogue of a matrix product.

use super::{Matmul, check_integer_factor};
use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::op::{Output, Outputs, Role, check};
use crate::ops::unary::UnaryOp;
use crate::{DType, Shape, text};

/// Operations on a product before it is stored: `y = activation(alpha * a b + bias) + residual`,
/// and `c += y` if accumulating.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epilogue {
    /// Whether a bias `[n]` follows the operands.
    pub bias: bool,
    /// Function that is applied to the sum of product and bias.
    pub activation: Option<UnaryOp>,
    /// Whether a tensor of the output's shape follows (after the bias), which is added after the
    /// activation.
    pub residual: bool,
    /// Factor of the product.
    pub alpha: f64,
    /// Whether the last input is a tensor of the output's shape and dtype, to which the result is
    /// added in place.
    pub accumulate: bool,
    /// Dtype of the output; `None`: that of the operands. f16 and bf16 operands also support f32.
    pub out_dtype: Option<DType>,
    /// Whether the sum of product and bias is a second output, of the shape and dtype of the first.
    /// The activation is then applied to these rounded values. Requires an activation; not
    /// supported with a residual or accumulator.
    pub pre_activation: bool,
    /// Multiplies the product by the derivative of an activation: a pre-activation `z` of the
    /// output's shape and dtype follows the operands, and `y = f'(z) * (alpha * a b)`, where the
    /// product is first rounded to the output's dtype. Can be combined only with `alpha`,
    /// `out_dtype` and `column_sums`. Supported for functions whose gradient is computed from their
    /// input, and for relu, for which `z` may also be the output of relu.
    pub activation_grad: Option<UnaryOp>,
    /// Whether the sums of the columns of the rounded `y` are a second output, `[n]` in the
    /// accumulator dtype: the gradient of the bias of the layer with pre-activation `z`, if that
    /// layer does not compute it with `row_sums_of_a`. Requires `activation_grad` and two matrices.
    pub column_sums: bool,
    /// Whether the sums over k of the rows of `a` are a second output, `[m]` in the output's dtype.
    /// Sums of f16 and bf16 are computed in f32 and rounded once, or not at all if the output is
    /// f32; `alpha` does not apply to them. If the product `dyT x` is the gradient of a layer's
    /// weight, they are the gradient of its bias. Can be combined only with `alpha` and
    /// `out_dtype`; requires two floating matrices.
    pub row_sums_of_a: bool,
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
        pre_activation: false,
        activation_grad: None,
        column_sums: false,
        row_sums_of_a: false,
    };

    /// Returns the reason why this combination is not supported, if it is not.
    pub(super) fn error_message(&self) -> Option<String> {
        let is_supported = |op: UnaryOp| op == UnaryOp::Relu || (!op.saves_output() && op.has_grad_op());
        let is_grad = self.activation_grad.is_some();
        let has_sum = self.bias || self.activation.is_some() || self.residual || self.accumulate;
        let expected = if self.pre_activation
            && (self.activation.is_none() || self.residual || self.accumulate)
        {
            "pre_activation: expected an activation, no residual, no accumulator"
        } else if is_grad && (has_sum || self.pre_activation) {
            "activation_grad: expected no bias, activation, pre-activation output, residual or accumulator"
        } else if self.column_sums && !is_grad {
            "column_sums: expected activation_grad"
        } else if self.row_sums_of_a && (has_sum || is_grad) {
            "row_sums_of_a: expected no bias, activation, activation_grad, residual or accumulator"
        } else {
            let op = self.activation_grad.filter(|&op| !is_supported(op))?;
            let expected =
                "activation_grad: expected relu or a function whose gradient is computed from its input";
            return Some(format!("{expected}, got {}", op.name()));
        };
        Some(format!("{expected}, got {}", self.field_names()))
    }

    /// Lists the fields that are set, by name.
    fn field_names(&self) -> String {
        let with_name = |field: &str, op: Option<UnaryOp>| op.map(|op| format!("{field} {}", op.name()));
        let flag = |field: &str, is_set: bool| is_set.then(|| field.to_string());
        let parts = [
            flag("bias", self.bias),
            with_name("activation", self.activation),
            flag("residual", self.residual),
            flag("accumulate", self.accumulate),
            flag("pre_activation", self.pre_activation),
            with_name("activation_grad", self.activation_grad),
            flag("column_sums", self.column_sums),
            flag("row_sums_of_a", self.row_sums_of_a),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl Matmul {
    /// Infers the outputs of a product of this shape with an epilogue. The operands are valid.
    pub(super) fn infer_with_epilogue(&self, inputs: &[Meta<'_>], shape: Shape) -> Result<Outputs> {
        let (name, dtype) = ("matmul", inputs[0].dtype);
        check_integer_factor(name, "alpha", self.epilogue.alpha, dtype)?;
        if let Some(error_message) = self.epilogue.error_message() {
            return Err(Error::invalid(name, error_message));
        }
        let out_dtype = self.epilogue.out_dtype.unwrap_or(dtype);
        if out_dtype != dtype && !(dtype.is_half() && out_dtype == DType::F32) {
            return Err(Error::dtype(
                name,
                "output",
                out_dtype,
                text!["the operands' dtype, or ", DType::F32, " for ", DType::F16, " and ", DType::BF16],
            ));
        }
        let mut role = Role::Fresh;
        for (position, meta) in inputs.iter().enumerate().skip(2) {
            let bias = self.epilogue.bias && position == 2;
            let accumulator = self.epilogue.accumulate && position == inputs.len() - 1;
            let pre_activation = self.epilogue.activation_grad.is_some();
            if meta.dtype != out_dtype && (accumulator || pre_activation || meta.dtype != dtype) {
                return Err(Error::DTypeMismatch { op: name, left: out_dtype, right: meta.dtype });
            }
            let n = shape.dim(shape.rank() - 1);
            match (bias, accumulator, pre_activation) {
                (true, ..) => check::shape(name, "bias", meta, Shape::unchecked(&[n]))?,
                (_, true, _) => check::shape(name, "accumulator", meta, shape)?,
                (_, _, true) => check::shape(name, "pre-activation", meta, shape)?,
                _ => check::shape(name, "residual", meta, shape)?,
            }
            if accumulator {
                role = Role::Accumulates(position);
            }
        }
        let mut outputs = Outputs::from_buf([Output { shape, dtype: out_dtype, role }]);
        if self.epilogue.pre_activation {
            outputs.push(Output::fresh(shape, out_dtype));
        }
        if self.epilogue.column_sums {
            let [_, columns] = shape.to_array(name)?;
            outputs.push(Output::fresh(Shape::unchecked(&[columns]), out_dtype.accumulator()));
        }
        if self.epilogue.row_sums_of_a {
            if !dtype.is_float() {
                return Err(Error::dtype(name, "operand with sums of its rows", dtype, "a floating dtype"));
            }
            let [rows, _] = shape.to_array(name)?;
            outputs.push(Output::fresh(Shape::unchecked(&[rows]), out_dtype));
        }
        Ok(outputs)
    }
}
