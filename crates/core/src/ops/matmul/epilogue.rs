//! What follows a matrix product.

use crate::DType;
use crate::ops::unary::UnaryOp;

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
    /// Dtype of the output; that of the operands if none. f32 is possible for f16 and bf16.
    pub out_dtype: Option<DType>,
    /// Whether the sum of product and bias is a second output, of the shape and dtype of the first; the activation is then one of these rounded numbers. With an
    /// activation, and without residual and accumulator.
    pub pre_activation: bool,
    /// The gradient that an activation passes on: a pre-activation `z` of the output's shape and dtype follows the operands, and `y = f'(z) * (alpha * a b)`,
    /// where the product is rounded to the output's dtype first. With nothing else but a factor; for functions whose gradient is one of their input, and for relu, of
    /// which `z` may be the result as well.
    pub activation_grad: Option<UnaryOp>,
    /// Whether the sums of the columns of `y`, as it is rounded, are a second output, `[n]` in the accumulator dtype: the gradient of the bias of the layer whose pre-activation `z` is, for layers that do not get it by `row_sums_of_a`. With
    /// `activation_grad`, of two matrices.
    pub column_sums: bool,
    /// Whether the sums over k of the rows of `a` are a second output, `[m]` in the output's dtype: sums of f16 and bf16 are formed in f32 and rounded once, or not at all where the output is f32; the
    /// factor is not part of them. Where the product `dyT x` is the gradient of a layer's weight, they are that of its bias. With nothing else but a factor and a dtype, of two matrices of floats.
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

    /// What speaks against this combination.
    pub(super) fn problem(&self) -> Option<String> {
        let of_activation = |op: UnaryOp| op == UnaryOp::Relu || (!op.saves_output() && op.has_grad_op());
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
            let op = self.activation_grad.filter(|&op| !of_activation(op))?;
            let expected =
                "activation_grad: expected relu or a function whose gradient is computed from its input";
            return Some(format!("{expected}, got {}", op.name()));
        };
        Some(format!("{expected}, got {}", self.listed()))
    }

    /// What is set, by the names of the fields.
    fn listed(&self) -> String {
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
