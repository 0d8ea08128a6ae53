//! Matrix products: the op with its epilogue, and the methods that are based on it.

use crate::anomaly::in_function;
use crate::autograd::{Context, Grads, is_recording};
use crate::backend::Meta;
use crate::dispatch::apply_one;
use crate::error::{Error, Result};
use crate::op::{Differentiability, Output, Outputs, Rule, Saves, check};
use crate::ops::unary::{Unary, UnaryGrad};
use crate::precision::{self, Precision, without_precision};
use crate::shape::AxisSet;
use crate::{DType, Shape, Tensor, text};
use smallvec::SmallVec;

mod epilogue;
mod fused;
mod gradient;
mod options;
mod shapes;

pub use epilogue::Epilogue;
pub use fused::LinearParameters;
pub use options::MatmulOptions;

pub(crate) use gradient::computes_row_sums;
use gradient::sum_over_rows;
use shapes::{as_matrices, one_matrix, with_matrix_of};

/// `y[.., i, j] = sum_k a[.., i, k] * b[.., k, j]`, followed by the [`Epilogue`].
///
/// Inputs: a `[.., m, k]`, b `[.., k, n]` of one numeric dtype, with equal leading axes
/// (`Tensor::matmul` expands them); then, depending on the epilogue, bias `[n]`, residual and
/// accumulator (bias and residual in the output's or the operands' dtype), or the pre-activation.
/// Outputs `[.., m, n]`: y, and the pre-activation if requested. f16 and bf16 accumulate in f32,
/// integers wrap. The plain product is a primitive.
#[derive(Clone, Debug)]
pub struct Matmul {
    /// What is applied to the product before it is stored.
    pub epilogue: Epilogue,
    /// Whether a backend may round f32 operands to TF32 (10 bits of mantissa) before they are
    /// multiplied; sums stay f32. This is a permission: a backend may ignore it, and it has no
    /// effect on other dtypes. It also applies to the products of the gradient.
    pub tf32: bool,
    /// Whether a backend may compute an f32 product on bf16 tensor cores, from three bf16 terms of
    /// each operand and six products of terms ("bf16x6"), where that is at least as accurate as f32
    /// accumulation (`docs/kernels/matmul.md` has the errors). The rounding is different. True by
    /// default, and ignored if [`tf32`](Matmul::tf32) is true. Infinities, NaN, and the largest and
    /// smallest numbers give the same results as without it. It also applies to the products of the
    /// gradient.
    pub bf16x6: bool,
}

impl Matmul {
    /// The plain product, as accurate as f32.
    pub const PLAIN: Matmul = Matmul { epilogue: Epilogue::NONE, tf32: false, bf16x6: true };

    /// Returns the number of inputs.
    pub fn input_count(&self) -> usize {
        2 + usize::from(self.epilogue.bias)
            + usize::from(self.epilogue.residual)
            + usize::from(self.epilogue.accumulate)
            + usize::from(self.epilogue.activation_grad.is_some())
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
            return Err(Error::dtype(name, "operand", dtype, "a number"));
        }
        let shape = product_shape(name, inputs[0].shape(), inputs[1].shape())?;
        let [left, right] = [0, 1].map(|operand: usize| inputs[operand].shape().dims());
        if left[..left.len() - 2] != right[..right.len() - 2] {
            let detail = format!(
                "{:?} x {:?}: leading axes differ; expand them first",
                inputs[0].shape(),
                inputs[1].shape()
            );
            return Err(Error::invalid(name, detail));
        }
        match self.is_primitive() {
            true => Ok(Outputs::from_buf([Output::fresh(shape, dtype)])),
            false => self.infer_with_epilogue(inputs, shape),
        }
    }
    fn is_primitive(&self) -> bool {
        self.epilogue == Epilogue::NONE
    }

    /// Computes in the accumulator dtype and rounds once at the end. Options that come after bias
    /// and activation are separated into ops first.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let Epilogue { bias, activation, residual, alpha, accumulate, out_dtype, .. } = self.epilogue;
        let dtype = inputs[0].dtype();
        let wide = dtype.accumulator();
        if self.epilogue.row_sums_of_a {
            let epilogue = Epilogue { row_sums_of_a: false, ..self.epilogue };
            let y = apply_one(Matmul { epilogue, ..*self }, &[&inputs[0], &inputs[1]])?;
            let sums = inputs[0].t()?.to_dtype(y.dtype())?.sum(AxisSet::first(1))?;
            return Ok(vec![y, sums]);
        }
        if let Some(op) = self.epilogue.activation_grad {
            let epilogue = Epilogue { activation_grad: None, column_sums: false, ..self.epilogue };
            let y = apply_one(UnaryGrad { op }, &[&inputs[2], &self.without_last(inputs, epilogue)?])?;
            let sums = self.epilogue.column_sums.then(|| y.to_dtype(wide)?.sum(AxisSet::first(1)));
            return Ok([y].into_iter().chain(sums.transpose()?).collect());
        }
        if let (true, Some(op)) = (self.epilogue.pre_activation, activation) {
            let epilogue = Epilogue { activation: None, pre_activation: false, ..self.epilogue };
            let z = apply_one(Matmul { epilogue, ..*self }, &inputs.iter().collect::<Vec<_>>())?;
            return Ok(vec![apply_one(Unary { op }, &[&z])?, z]);
        }
        let unrounded = (wide != dtype).then_some(wide);
        if accumulate {
            let epilogue = Epilogue { accumulate: false, out_dtype: unrounded, ..self.epilogue };
            let y = self.without_last(inputs, epilogue)?;
            let accumulator = &inputs[inputs.len() - 1];
            accumulator.copy_(&accumulator.to_dtype(wide)?.add(&y)?)?;
            return Ok(vec![accumulator.clone()]);
        }
        if residual {
            let epilogue = Epilogue { residual: false, out_dtype: unrounded, ..self.epilogue };
            let y = self.without_last(inputs, epilogue)?;
            let y = y.add(&inputs[inputs.len() - 1].to_dtype(wide)?)?;
            return Ok(vec![y.to_dtype(out_dtype.unwrap_or(dtype))?]);
        }
        let product = Matmul { epilogue: Epilogue::NONE, ..*self };
        let mut y = apply_one(product, &[&inputs[0].to_dtype(wide)?, &inputs[1].to_dtype(wide)?])?;
        if alpha != 1.0 {
            y = y.mul_scalar(alpha)?;
        }
        if bias {
            y = y.add(&inputs[2].to_dtype(wide)?)?;
        }
        if let Some(op) = activation {
            y = apply_one(Unary { op }, &[&y])?;
        }
        Ok(vec![y.to_dtype(out_dtype.unwrap_or(dtype))?])
    }

    fn differentiability(&self) -> Differentiability {
        let Epilogue { activation, residual, pre_activation, activation_grad, row_sums_of_a, .. } =
            self.epilogue;
        let saves = |outputs| Differentiability::Stated(Saves { inputs: 0b11, outputs });
        match activation {
            _ if activation_grad.is_some() || row_sums_of_a => Differentiability::Composition,
            None => saves(0),
            // With a residual, the activation's result is not an output.
            Some(op) if op.saves_output() && !residual => saves(0b1),
            Some(op) if op.has_grad_op() && !op.saves_output() && pre_activation => saves(0b10),
            Some(_) => Differentiability::Composition,
        }
    }

    /// `dz = f'(z) dy` of an activation; `da = alpha * dz bT`, `db = alpha * aT dz`, in the
    /// operands' dtype, or in f32 if they were cast from it; `dbias = sum(dz)` over rows, not
    /// rounded to half precision if the bias is f32 or was cast from it; `dresidual = dy`. The
    /// gradient of a column-major operand, such as the transposed weight of a linear layer, is
    /// column-major too.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let mut grads = Grads::from_elem(None, context.inputs());
        let Some(grad) = self.grad_of_sum(context, grad_outputs)? else { return Ok(grads) };
        let dtype = context.dtype(0);
        let operand_grad = || context.half_grad(dtype).map_or_else(|| grad.to_dtype(dtype), Ok);
        let shared_grad = (context.needs(0) || context.needs(1)).then(operand_grad).transpose()?;
        let mut bias_grad = self.received_bias_grad(context)?;
        if let (true, Some(grad)) = (context.needs(0), &shared_grad) {
            grads[0] = Some(self.grad_of(context, 0, grad, &context.input(1)?.t()?)?);
        }
        if let (true, Some(grad)) = (context.needs(1), &shared_grad) {
            grads[1] = Some(self.grad_of_weight(context, grad, &mut bias_grad)?);
        }
        if self.needs_bias(context) {
            let sums = || sum_over_rows(context, shared_grad.as_ref().unwrap_or(&grad));
            grads[2] = Some(bias_grad.map_or_else(sums, Ok)?);
        }
        let residual = 2 + usize::from(self.epilogue.bias);
        if self.epilogue.residual && context.needs(residual) {
            grads[residual] = Some(grad.to_dtype(context.dtype(residual))?);
        }
        Ok(grads)
    }
}

impl Matmul {
    /// Applies this product to all inputs but the last one, with another epilogue.
    fn without_last(&self, inputs: &[Tensor], epilogue: Epilogue) -> Result<Tensor> {
        let inputs: SmallVec<[&Tensor; 4]> = inputs[..inputs.len() - 1].iter().collect();
        apply_one(Matmul { epilogue, ..*self }, &inputs)
    }
}

/// Checks that a factor of integers is an integer: rounding it silently would give another product.
pub(crate) fn check_integer_factor(op: &'static str, what: &str, factor: f64, dtype: DType) -> Result<()> {
    if dtype.is_float() || factor.fract() == 0.0 {
        return Ok(());
    }
    let prefix = format!("{what} {factor} for operands of ");
    Err(Error::invalid(op, text![prefix, dtype, ", expected an integer"]))
}

/// Returns the shape of `[.., m, k] x [.., k, n]`: `[.., m, n]`.
#[inline]
pub(crate) fn product_shape(op: &'static str, left: &Shape, right: &Shape) -> Result<Shape> {
    // Fast path for two matrices, the most frequent case.
    match (left.dims(), right.dims()) {
        (&[rows, inner], &[other_inner, columns]) if inner == other_inner => Shape::new(&[rows, columns]),
        _ => batched_product_shape(op, left, right),
    }
}

fn batched_product_shape(op: &'static str, left: &Shape, right: &Shape) -> Result<Shape> {
    let fail = |detail: String| Err(Error::invalid(op, format!("{left:?} x {right:?}: {detail}")));
    if left.rank() < 2 || right.rank() < 2 {
        return fail("operands need at least 2 axes".into());
    }
    let (ldims, rdims) = (left.dims(), right.dims());
    let (lbatch, lmat) = ldims.split_at(ldims.len() - 2);
    let (rbatch, rmat) = rdims.split_at(rdims.len() - 2);
    if lmat[1] != rmat[0] {
        return fail(format!("inner sizes {} and {} differ", lmat[1], rmat[0]));
    }
    let batch = match Shape::unchecked(lbatch).broadcast(&Shape::unchecked(rbatch), op) {
        Ok(batch) => batch,
        Err(Error::Broadcast { .. }) => return fail("leading axes do not broadcast".into()),
        Err(too_large) => return Err(too_large),
    };
    let mut dims: smallvec::SmallVec<[usize; 10]> = batch.dims().into();
    dims.push(lmat[0]);
    dims.push(rmat[1]);
    Shape::new(&dims)
}

impl Tensor {
    /// Computes the matrix product over the last axis of `self` and the second-to-last axis of
    /// `other`, as NumPy's `matmul`.
    ///
    /// # Shapes
    /// `[.., m, k] x [.., k, n] -> [.., m, n]`, leading axes broadcast. A vector is treated as a
    /// row on the left and as a column on the right, and its axis is removed from the result:
    /// `[k] x [k] -> []`.
    ///
    /// # Errors
    /// Returns an error if inner sizes differ, if leading axes do not broadcast, if an operand has
    /// rank 0, if dtypes differ, or for bool.
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        self.matmul_with(other, MatmulOptions::default())
    }

    /// Computes [`matmul`](Tensor::matmul) with an epilogue in the same kernel.
    ///
    /// # Errors
    /// Same as [`matmul`](Tensor::matmul), and an error if a bias, residual or output dtype is
    /// incompatible.
    pub fn matmul_with(&self, other: &Tensor, options: MatmulOptions<'_>) -> Result<Tensor> {
        match precision::current() {
            None => self.product(other, options),
            // Cast before the operands are expanded: a cast of an expanded view would materialize
            // it.
            Some(scope) => {
                let bias = scope.bias(options.bias, options.residual)?;
                let options = MatmulOptions { bias: bias.as_ref(), ..options };
                scope.operand(self)?.product(&scope.operand(other)?, options)
            }
        }
    }

    fn product(&self, other: &Tensor, options: MatmulOptions<'_>) -> Result<Tensor> {
        // Fast path for two matrices, the most frequent case: no operand needs to be reshaped.
        if let (&[rows, inner], &[other_inner, columns]) = (self.dims(), other.dims())
            && inner == other_inner
            && options.residual.is_none_or(|residual| *residual.dims() == [rows, columns])
        {
            return run(self, other, options.residual, Shape::unchecked(&[rows, columns]), options);
        }
        let (left, right) = as_matrices(self, other)?;
        let shape = product_shape("matmul", left.shape(), right.shape())?;
        let mut result: SmallVec<[usize; 10]> = shape.dims().into();
        if other.rank() == 1 {
            result.pop();
        }
        if self.rank() == 1 {
            result.remove(shape.rank() - 2);
        }
        let result = Shape::unchecked(&result);
        let residual = match options.residual {
            Some(residual) if !residual.shape().broadcasts_to(&result) => {
                let got = *residual.shape();
                return Err(Error::Shape {
                    op: "matmul",
                    what: "residual",
                    got: Box::new(got),
                    expected: Box::new(result),
                });
            }
            residual => residual.map(|residual| residual.expand(result)).transpose()?,
        };
        let y = match one_matrix(&left, &right) {
            Some(rows) => {
                let flat = Shape::unchecked(&[rows.dim(0), shape.dim(shape.rank() - 1)]);
                run(&left.reshape(rows)?, &right, residual.as_ref(), flat, options)?
            }
            None => {
                let left = left.expand(with_matrix_of(&shape, &left)?)?;
                let right = right.expand(with_matrix_of(&shape, &right)?)?;
                run(&left, &right, residual.as_ref(), shape, options)?
            }
        };
        if *y.shape() == result { Ok(y) } else { y.reshape(result) }
    }

    /// Computes `y = x weightT + bias`, as PyTorch's `linear`. All leading axes are flattened to
    /// the rows of one matrix, so that the weight's gradient is one product.
    ///
    /// # Shapes
    /// self `[.., in]`, weight `[out, in]`, bias `[out]` -> `[.., out]`;
    /// weight `[in]`, bias `[]` -> `[..]`
    ///
    /// # Errors
    /// Returns an error if shapes are incompatible, or if dtypes differ.
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        match precision::current() {
            None => self.linear_uncast(weight, bias),
            // Cast before the weight is transposed: the cast of a parameter is cached, that of its
            // view is not.
            Some(scope) => {
                let bias = scope.optional(bias)?;
                scope.operand(self)?.linear_uncast(&scope.operand(weight)?, bias.as_ref())
            }
        }
    }

    fn linear_uncast(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        self.linear_with_residual(weight, bias, None)
    }

    /// Computes `x weightT + bias`, plus a residual of the result's shape.
    fn linear_with_residual(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        if weight.rank() == 1 && bias.is_none_or(|bias| bias.rank() == 0) {
            let bias = bias.map(|bias| bias.reshape([1])).transpose()?;
            let residual = residual.map(|residual| residual.unsqueeze(-1)).transpose()?;
            let y = self.linear_with_residual(&weight.unsqueeze(0)?, bias.as_ref(), residual.as_ref())?;
            return y.squeeze(y.rank() - 1);
        }
        let [outputs, inputs] = weight.shape().to_array("linear")?;
        let Some((&width, leading)) = self.dims().split_last() else {
            return Err(Error::Rank {
                op: "linear",
                expected: "at least 1".into(),
                shape: Box::new(*self.shape()),
            });
        };
        if width != inputs {
            let detail = format!(
                "{:?} with weight {:?}: inner sizes {width} and {inputs} differ",
                self.shape(),
                weight.shape()
            );
            return Err(Error::invalid("linear", detail));
        }
        check_same_numeric_dtype("linear", &[self, weight])?;
        if let Some(bias) = bias {
            // If the residual is wider than the operands, the bias may have its dtype.
            let is_wide = residual.is_some_and(|residual| residual.dtype() == bias.dtype());
            check_same_numeric_dtype("linear", &[if is_wide { bias } else { self }, bias])?;
            check::shape("linear", "bias", &bias.meta(), Shape::unchecked(&[outputs]))?;
        }
        let rows: usize = leading.iter().product();
        let flat = |residual: &Tensor| match residual.rank() {
            2 => Ok(residual.clone()),
            _ => residual.reshape([rows, outputs]),
        };
        let residual = residual.map(flat).transpose()?;
        let options = MatmulOptions { bias, residual: residual.as_ref(), ..Default::default() };
        // No view is created if there is nothing to flatten, because gradient rules inspect the op
        // that computed their input.
        let x = if self.rank() == 2 { self.clone() } else { self.reshape([rows, width])? };
        let y = x.matmul_with(&weight.t()?, options)?;
        if self.rank() == 2 {
            return Ok(y);
        }
        y.reshape(self.shape().resized(leading.len(), outputs, "linear")?)
    }

    /// Computes `beta * self + alpha * a b`, as PyTorch's `addmm`. With `beta` 0, the values of
    /// `self` are ignored.
    ///
    /// # Shapes
    /// self `[m, n]` or broadcast to it, a `[m, k]`, b `[k, n]` -> `[m, n]`
    ///
    /// # Errors
    /// Returns an error if shapes are incompatible, or if dtypes differ.
    pub fn addmm(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Result<Tensor> {
        match precision::current() {
            None => self.addmm_uncast(a, b, beta, alpha),
            Some(scope) => {
                let [summand, a, b] = [scope.operand(self)?, scope.operand(a)?, scope.operand(b)?];
                summand.addmm_uncast(&a, &b, beta, alpha)
            }
        }
    }

    fn addmm_uncast(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Result<Tensor> {
        let shape = self.addmm_shape(a, b, beta, alpha)?;
        if !self.shape().broadcasts_to(&shape) {
            return Err(Error::Shape {
                op: "addmm",
                what: "summand",
                got: Box::new(*self.shape()),
                expected: Box::new(shape),
            });
        }
        add_scaled(self, a, b, [beta, alpha])
    }

    /// Computes `self = beta * self + alpha * a b`, in place. With `beta` 0, the values of `self`
    /// are ignored.
    ///
    /// # Shapes
    /// self `[m, n]`, a `[m, k]`, b `[k, n]`
    ///
    /// # Errors
    /// Returns an error if shapes are incompatible, if dtypes differ, if a gradient would be lost,
    /// or if `self` shares memory with an operand.
    pub fn addmm_(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Result<()> {
        check::shape("addmm", "accumulator", &self.meta(), self.addmm_shape(a, b, beta, alpha)?)?;
        if is_recording() && [self, a, b].iter().any(|tensor| tensor.needs_grad()) {
            return Err(Error::invalid(
                "addmm",
                "in place: a gradient would be lost; use the form that returns a new tensor, detach, or no_grad",
            ));
        }
        if beta != 1.0 {
            return self.copy_(&without_precision(|| self.addmm(a, b, beta, alpha))?);
        }
        let epilogue = Epilogue { alpha, accumulate: true, ..Epilogue::NONE };
        // A scope does not change the dtypes of in-place ops, but it can forbid bf16x6.
        let bf16x6 = precision::current() != Some(Precision::Ieee);
        apply_one(Matmul { epilogue, bf16x6, ..Matmul::PLAIN }, &[a, b, self]).map(drop)
    }

    /// Computes the outer product: `y[i, j] = self[i] * other[j]`.
    ///
    /// # Shapes
    /// `[m], [n] -> [m, n]`
    ///
    /// # Errors
    /// Returns an error if an operand is not a vector, if dtypes differ, or for bool.
    pub fn outer(&self, other: &Tensor) -> Result<Tensor> {
        let ([_], [_]) = (self.shape().to_array::<1>("outer")?, other.shape().to_array::<1>("outer")?);
        let pair = precision::widened(&[self, other])?;
        check_same_numeric_dtype("outer", &[&pair[0], &pair[1]])?;
        Shape::unchecked(&[self.elements(), 1]).resized(1, other.elements(), "outer")?;
        in_function("outer", &[&pair[0], &pair[1]], || pair[0].unsqueeze(1)?.mul(&pair[1].unsqueeze(0)?))
    }

    /// Computes the dot product of two vectors.
    ///
    /// # Shapes
    /// `[k], [k] -> []`
    ///
    /// # Errors
    /// Returns an error if an operand is not a vector, if lengths or dtypes differ, or for bool.
    pub fn dot(&self, other: &Tensor) -> Result<Tensor> {
        let ([_], [_]) = (self.shape().to_array::<1>("dot")?, other.shape().to_array::<1>("dot")?);
        if precision::current().is_none() {
            check_same_numeric_dtype("dot", &[self, other])?;
        }
        check::shape("dot", "right operand", &other.meta(), *self.shape())?;
        self.matmul(other)
    }

    /// Returns the shape `[m, n]` of the product that is added to this tensor.
    fn addmm_shape(&self, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Result<Shape> {
        let (_, _): ([usize; 2], [usize; 2]) = (a.shape().to_array("addmm")?, b.shape().to_array("addmm")?);
        check_same_numeric_dtype("addmm", &[a, b, self])?;
        check_integer_factor("addmm", "beta", beta, self.dtype())?;
        check_integer_factor("addmm", "alpha", alpha, self.dtype())?;
        product_shape("addmm", a.shape(), b.shape())
    }
}

/// Computes `factors[0] * summand + factors[1] * a b`, where the summand broadcasts to the product.
/// The scaled summand is not rounded to half precision before the addition.
pub(crate) fn add_scaled(summand: &Tensor, a: &Tensor, b: &Tensor, factors: [f64; 2]) -> Result<Tensor> {
    let [beta, alpha] = factors;
    let dtype = summand.dtype();
    let wide = if beta == 0.0 || beta == 1.0 { dtype } else { dtype.accumulator() };
    let residual = match beta {
        // A summand that requires a gradient is replaced by zeros: its values are not read, but it
        // stays in the graph.
        0.0 if summand.needs_grad() => {
            let everywhere = Tensor::ones([], DType::Bool, summand.device())?.expand(*summand.shape())?;
            Some(summand.masked_fill(&everywhere, 0)?)
        }
        0.0 => None,
        1.0 => Some(summand.clone()),
        beta => Some(summand.to_dtype(wide)?.mul_scalar(beta)?),
    };
    let out_dtype = (wide != dtype).then_some(wide);
    a.matmul_with(b, MatmulOptions { residual: residual.as_ref(), alpha, out_dtype, ..Default::default() })?
        .to_dtype(dtype)
}

/// Checks that all tensors have one numeric dtype. The error contains the name of the method that
/// the user called, not of the product in it.
pub(crate) fn check_same_numeric_dtype(op: &'static str, tensors: &[&Tensor]) -> Result<()> {
    for tensor in tensors {
        check::same_dtype(op, &tensors[0].meta(), &tensor.meta())?;
        if tensor.dtype() == DType::Bool {
            return Err(Error::dtype(op, "operand", DType::Bool, "a number"));
        }
    }
    Ok(())
}

fn run(
    left: &Tensor,
    right: &Tensor,
    residual: Option<&Tensor>,
    shape: Shape,
    options: MatmulOptions<'_>,
) -> Result<Tensor> {
    // The most frequent case, which is faster without lists.
    if let MatmulOptions { bias: None, activation: None, alpha: 1.0, out_dtype: None, tf32, bf16x6, .. } =
        options
        && residual.is_none()
    {
        return apply_one(Matmul { epilogue: Epilogue::NONE, tf32, bf16x6 }, &[left, right]);
    }
    let residual = residual.map(|residual| residual.reshape(shape)).transpose()?;
    let epilogue = Epilogue {
        bias: options.bias.is_some(),
        activation: options.activation,
        residual: residual.is_some(),
        alpha: options.alpha,
        out_dtype: options.out_dtype.filter(|&dtype| dtype != left.dtype()),
        ..Epilogue::NONE
    };
    let mut inputs: SmallVec<[&Tensor; 4]> = SmallVec::from_slice(&[left, right]);
    inputs.extend(options.bias);
    inputs.extend(&residual);
    apply_one(Matmul { epilogue, tf32: options.tf32, bf16x6: options.bf16x6 }, &inputs)
}
