//! Mixed precision: the dtype in which the ops of a scope compute, while parameters stay f32. The
//! cached casts of a scope are in `casts`.
//!
//! Inside [`with_precision`] every op casts its inputs. The casts are recorded like any other, so
//! that gradients have the dtype of the tensors that were cast: f32 for parameters. A backward pass
//! uses the dtypes of its forward pass, independent of the current scope.
//!
//! ```
//! use ternion_core::{DType, Precision, Result, Tensor, with_precision};
//!
//! # fn main() -> Result<()> {
//! # let device = ternion_cpu::device();
//! let weight = Tensor::randn([4, 3], DType::F32, &device)?.requires_grad()?;
//! let x = Tensor::randn([8, 3], DType::F32, &device)?;
//! let loss = with_precision(Precision::Bf16, || {
//!     let y = x.linear(&weight, None)?;
//!     assert_eq!(y.dtype(), DType::BF16);
//!     y.square()?.mean(..) // sums are f32
//! })?;
//! assert_eq!(loss.dtype(), DType::F32);
//! let gradients = loss.backward()?;
//! assert_eq!(gradients.get(&weight).map(Tensor::dtype), Some(DType::F32));
//! # Ok(())
//! # }
//! ```
//!
//! # Dtypes of the ops
//!
//! | ops | dtype inside a scope |
//! |---|---|
//! | `matmul`, `linear`, `addmm`, `dot`, `einsum`, convolutions, attention | that of the scope |
//! | `softmax`, `log_softmax`, `logsumexp`, `layer_norm`, `rms_norm`, `group_norm` | f32 |
//! | sums, products, means, norms, variances and cumulative sums | f32 |
//! | `exp`, `expm1`, `log`, `log1p`, `recip`, `rsqrt`, `softplus`, `pow` | f32 |
//! | losses | f32, from inputs of any dtype |
//! | `batch_norm` | that of the input, with sums in f32 |
//! | `add`, `where_`, comparisons, other functions of several tensors | the widest of the inputs |
//! | `concat`, `stack`, `scatter`, `index_add`, assignment to slices | the widest of the inputs |
//! | all others | that of the input, as outside |
//!
//! Inputs in f32, f16 and bf16 are cast to the dtype in the table. `batch_norm` casts weight and
//! bias to the input's dtype. The widest of f16 and bf16 is f32.
//!
//! In-place ops (`add_`, `addmm_`, ..), optimizer steps, ops from other crates and f64 are not
//! affected. A scope of [`Precision::F32`] computes products in f32: inside another scope, it makes
//! an exception for layers that need it.
//!
//! This is PyTorch's `autocast`, with the lists for its CUDA devices, on every device. The
//! differences are:
//! - Means, variances and sums of squares are f32. In PyTorch they keep their input's dtype.
//! - An f32 `residual` makes the product to which it is added f32, as an addition would, but it is
//!   added to the accumulators before they are rounded. The bias of this product stays f32.
//! - `dot` is a product.
//! - The norms of transformer blocks output the scope's dtype if only products read them
//!   ([`Tensor::layer_norm_as`]).
//! - The casts of a weight that is used several times are one op, but their gradients are added in
//!   f32.
//!
//! # Half-precision copies by the optimizer
//!
//! If a scope has cast an f32 parameter since the last step of `SGD`, `Adam` or `AdamW`, the step
//! also writes the parameter in that half precision, which needs 2 bytes of memory per element. The
//! next scope then uses this copy instead of a cast ([`HalfCopy`]). Values, gradients and what
//! observers see are the same as with the cast. If other code changes the parameter in place, its
//! copy is stale, and the next scope casts. The step changes the copy in place. A backward pass
//! through it after the step (`retain_graph`) is an error, as it is without a scope.
//!
//! # Limitations
//!
//! The gradients of the weights and biases of convolutions are rounded once to half precision
//! before they are converted to f32 (those of products are not). Only casts of leaves are cached: a
//! frozen parameter is cast at each use. [`Precision::Ieee`] affects matrix products and attention;
//! f32 convolutions always use fused multiply-adds.

mod casts;
mod half_copy;

pub use half_copy::{HalfCopy, half_copy_wanted};
pub(crate) use half_copy::{HalfCopyOfLeaf, is_elided_cast};

use crate::error::{Error, Result};
use crate::op::Op;
use crate::ops::attention::{Attention, AttentionConfig};
use crate::ops::binary::BinaryOp;
use crate::ops::conv::ConvConfig;
use crate::ops::matmul::{Epilogue, Matmul};
use crate::ops::reduce::ReduceOp;
use crate::{DType, Tensor};
use casts::Casts;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::str::FromStr;

/// The dtype in which the products of a scope are computed. See [`with_precision`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// f32: the fastest of the device's algorithms for matrix products whose error is at most that
    /// of f32 accumulation ([`Matmul::bf16x6`]).
    #[default]
    F32,
    /// f32, with matrix products, including those of attention, computed by f32 fused
    /// multiply-adds, each rounded according to IEEE 754. On tensor cores this is slower than
    /// [`Precision::F32`] and not more accurate. Use it if the bits of such sums are needed.
    /// PyTorch calls it `fp32_precision = "ieee"`.
    Ieee,
    /// f32, with products, convolutions and attention (queries, keys, values and weights) that a
    /// device may round to TF32 (8 bits of exponent, 10 of fraction) if it has units for it. Sums
    /// stay f32. This is a permission, as in PyTorch: without such units the result is f32.
    Tf32,
    /// bf16: the exponent range of f32, with 7 bits of fraction. Needs no loss scale.
    Bf16,
    /// f16: 10 bits of fraction, but no values above 65504, and small gradients become 0: train
    /// with a loss scale.
    F16,
}

impl Precision {
    /// Every precision, the most accurate first.
    pub const ALL: [Precision; 5] =
        [Precision::F32, Precision::Ieee, Precision::Tf32, Precision::Bf16, Precision::F16];

    /// Returns the lower-case name: `f32`, `ieee`, `tf32`, `bf16` or `f16`.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Ieee => "ieee",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
            Precision::F16 => "f16",
        }
    }

    /// Returns the dtype of products.
    pub const fn dtype(self) -> DType {
        match self {
            Precision::F32 | Precision::Ieee | Precision::Tf32 => DType::F32,
            Precision::Bf16 => DType::BF16,
            Precision::F16 => DType::F16,
        }
    }

    /// Returns whether small gradients may underflow to 0, which a loss scale prevents.
    pub const fn needs_loss_scale(self) -> bool {
        matches!(self, Precision::F16)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = Error;

    /// Returns the precision with that name.
    fn from_str(name: &str) -> Result<Precision> {
        let precision = Precision::ALL.into_iter().find(|precision| precision.name() == name);
        precision.ok_or_else(|| {
            Error::invalid("precision", format!("{name:?}, expected one of f32, ieee, tf32, bf16 and f16"))
        })
    }
}

thread_local! {
    static SCOPE: Cell<Option<Precision>> = const { Cell::new(None) };
    static CASTS: RefCell<Casts> = RefCell::new(Casts::default());
    /// For each scope that `open_scope` opened, the state to restore when it is closed; the
    /// outermost scope first.
    static OPENED: RefCell<Vec<(Option<Precision>, Option<Casts>)>> = const { RefCell::new(Vec::new()) };
}

/// Restores the scope on drop, also after a panic.
struct Leave {
    scope: Option<Precision>,
    /// The casts of the outer scope, if this scope has separate casts.
    casts: Option<Casts>,
}

impl Drop for Leave {
    fn drop(&mut self) {
        SCOPE.set(self.scope);
        if let Some(casts) = self.casts.take() {
            drop(CASTS.replace(casts));
        }
    }
}

/// Runs `f` with the products of this thread in `precision`; the [module](self) lists the affected
/// ops. Scopes nest: the innermost one applies.
///
/// A parameter is cast once, however often the scope uses it, and again after it was changed in
/// place. The casts are freed when the outermost scope ends.
pub fn with_precision<T>(precision: Precision, f: impl FnOnce() -> T) -> T {
    let outermost = current().is_none();
    let casts = outermost.then(|| CASTS.take());
    let _leave = Leave { scope: SCOPE.replace(Some(precision)), casts };
    f()
}

/// Runs `f` outside of any scope: every op uses the dtypes of its inputs.
pub fn without_precision<T>(f: impl FnOnce() -> T) -> T {
    let _leave = Leave { scope: SCOPE.take(), casts: None };
    f()
}

/// Opens a scope on this thread as [`with_precision`] does, or as [`without_precision`] for `None`,
/// until [`close_scope`] is called, for bindings to languages whose scopes are not closures. In
/// Rust use those two functions, which always close the scope.
pub fn open_scope(precision: Option<Precision>) {
    let casts = (precision.is_some() && current().is_none()).then(|| CASTS.take());
    let before = (SCOPE.replace(precision), casts);
    OPENED.with_borrow_mut(|opened| opened.push(before));
}

/// Closes the most recent scope of this thread that [`open_scope`] opened. Returns false if none is
/// open.
pub fn close_scope() -> bool {
    let Some((scope, casts)) = OPENED.with_borrow_mut(Vec::pop) else { return false };
    drop(Leave { scope, casts });
    true
}

/// Runs `f` in `scope` (`None`: outside of any scope) with a separate cache of casts, so that code
/// that is rerun later does not depend on which casts are cached then.
pub(crate) fn with_separate_casts<T>(scope: Option<Precision>, f: impl FnOnce() -> T) -> T {
    let casts = Some(CASTS.take());
    let _leave = Leave { scope: SCOPE.replace(scope), casts };
    f()
}

/// Returns the precision of the innermost scope of this thread, if one is open. This check is the
/// only cost of an op without a scope.
#[inline(always)]
pub fn current() -> Option<Precision> {
    SCOPE.get()
}

/// Returns whether a scope casts tensors of this dtype.
fn is_cast(dtype: DType) -> bool {
    dtype == DType::F32 || dtype.is_half()
}

/// Casts `tensor` to `dtype`, if scopes cast between these dtypes.
pub(crate) fn cast(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    match tensor.dtype() == dtype || !is_cast(tensor.dtype()) || !is_cast(dtype) {
        true => Ok(tensor.clone()),
        false => casts::cast(&CASTS, tensor, dtype),
    }
}

/// Casts `tensor` as for sums: to f32 if a scope is open.
pub(crate) fn cast_to_f32(tensor: &Tensor) -> Result<Tensor> {
    match current() {
        Some(_) => cast(tensor, DType::F32),
        None => Ok(tensor.clone()),
    }
}

/// Casts `tensors` to the widest dtype among them if a scope is open.
pub(crate) fn widened(tensors: &[&Tensor]) -> Result<SmallVec<[Tensor; 4]>> {
    let dtype = current().and_then(|_| widest(tensors));
    let wide = |tensor: &&Tensor| dtype.map_or_else(|| Ok((*tensor).clone()), |dtype| cast(tensor, dtype));
    tensors.iter().map(wide).collect()
}

/// Returns the widest of the dtypes that a scope casts; `None` if there are none.
fn widest(tensors: &[&Tensor]) -> Option<DType> {
    let mut dtypes = tensors.iter().map(|tensor| tensor.dtype()).filter(|&dtype| is_cast(dtype));
    let first = dtypes.next()?;
    Some(if dtypes.all(|dtype| dtype == first) { first } else { DType::F32 })
}

impl Precision {
    /// Casts `tensor` to the dtype of the operands of a product.
    pub(crate) fn operand(self, tensor: &Tensor) -> Result<Tensor> {
        cast(tensor, self.dtype())
    }

    /// Same as [`operand`](Precision::operand), in memory that is not shared with other uses.
    pub(crate) fn separate_operand(self, tensor: &Tensor) -> Result<Tensor> {
        if is_cast(tensor.dtype()) { tensor.to_dtype(self.dtype()) } else { Ok(tensor.clone()) }
    }

    /// Same as [`operand`](Precision::operand), for an optional tensor.
    pub(crate) fn optional(self, tensor: Option<&Tensor>) -> Result<Option<Tensor>> {
        tensor.map(|tensor| self.operand(tensor)).transpose()
    }

    /// Casts the bias of a product. It stays f32 if a residual makes the product f32.
    pub(crate) fn bias(self, bias: Option<&Tensor>, residual: Option<&Tensor>) -> Result<Option<Tensor>> {
        match residual {
            Some(residual) if self.makes_f32(residual) => bias.map(|bias| cast(bias, DType::F32)).transpose(),
            _ => self.optional(bias),
        }
    }

    /// Returns whether a residual makes the product to which it is added f32.
    fn makes_f32(self, residual: &Tensor) -> bool {
        self.dtype().is_half() && residual.dtype() == DType::F32
    }

    /// Returns whether products may round operands of this dtype to TF32.
    fn may_round_to_tf32(self, tensor: &Tensor) -> bool {
        self == Precision::Tf32 && tensor.dtype() == DType::F32
    }

    /// Returns the matrix product for operands like this one, which the scope has cast.
    pub(crate) fn product_of(self, operand: &Tensor) -> Matmul {
        Matmul { tf32: self.may_round_to_tf32(operand), bf16x6: self != Precision::Ieee, ..Matmul::PLAIN }
    }
}

/// How a scope casts the inputs of an op.
enum InputCast {
    /// Casts them to the scope's dtype.
    Product,
    /// Casts them to f32.
    Full,
    /// Casts them to the widest dtype among them.
    Widest,
    /// Does not cast them.
    Unchanged,
}

/// The table of ops. The match is exhaustive, so that a new op needs an entry.
fn input_cast(op: &Op) -> InputCast {
    match op {
        Op::Matmul(_) | Op::Conv2d(_) | Op::Conv2dGradInput(_) | Op::Attention(_) => InputCast::Product,
        Op::Softmax(_)
        | Op::LogSoftmax(_)
        | Op::LayerNorm(_)
        | Op::RmsNorm(_)
        | Op::Variance(_)
        | Op::CumulativeSum(_) => InputCast::Full,
        Op::Reduce(reduce) => match reduce.op {
            ReduceOp::Sum
            | ReduceOp::Prod
            | ReduceOp::Mean
            | ReduceOp::SumSquares
            | ReduceOp::Norm
            | ReduceOp::LogSumExp => InputCast::Full,
            ReduceOp::Max | ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin | ReduceOp::MaxAbs => {
                InputCast::Unchanged
            }
        },
        Op::Unary(unary) if unary.op.autocasts_to_f32() => InputCast::Full,
        Op::Unary(_) => InputCast::Unchanged,
        Op::BinaryScalar(binary) if binary.op == BinaryOp::Pow => InputCast::Full,
        Op::Binary(binary) if binary.op == BinaryOp::Pow => InputCast::Full,
        Op::Binary(_)
        | Op::MultiplyAdd(_)
        | Op::ScaleAdd(_)
        | Op::AddRelu(_)
        | Op::BiasActivation(_)
        | Op::Compare(_)
        | Op::Select(_)
        | Op::Scatter(_)
        | Op::IndexAdd(_)
        | Op::SliceAssign(_)
        | Op::Concat(_) => InputCast::Widest,
        Op::Fill(_)
        | Op::Iota(_)
        | Op::Copy(_)
        | Op::UnaryGrad(_)
        | Op::BinaryScalar(_)
        | Op::CompareScalar(_)
        | Op::Gather(_)
        | Op::IndexSelect(_)
        | Op::Sort(_)
        | Op::SoftmaxGrad(_)
        | Op::LogSoftmaxGrad(_)
        | Op::CrossEntropy(_)
        | Op::CrossEntropyGrad(_)
        | Op::CrossEntropyWithGrad(_)
        | Op::CrossEntropyGradUpdate(_)
        | Op::LayerNormGrad(_)
        | Op::RmsNormGrad(_)
        | Op::BatchNorm(_)
        | Op::BatchNormGrad(_)
        | Op::AttentionGrad(_)
        | Op::AttentionGradMask(_)
        | Op::Im2col(_)
        | Op::Col2im(_)
        | Op::Conv2dGradWeight(_)
        | Op::MaxPool2d(_)
        | Op::MaxPool2dGrad(_)
        | Op::AvgPool2d(_)
        | Op::AvgPool2dGrad(_)
        | Op::Pad(_)
        | Op::RandomBits(_)
        | Op::Uniform(_)
        | Op::Normal(_)
        | Op::Dropout(_)
        | Op::SgdStep(_)
        | Op::AdamStep(_)
        | Op::MultiTensorNorm(_)
        | Op::Custom(_) => InputCast::Unchanged,
    }
}

/// An op as a scope runs it: with cast inputs, or with other options.
pub(crate) struct Prepared {
    pub(crate) op: Op,
    pub(crate) inputs: SmallVec<[Tensor; 4]>,
}

/// Returns `op` as `scope` runs it; `None` if it is unchanged.
pub(crate) fn prepared(scope: Precision, op: &Op, inputs: &[&Tensor]) -> Result<Option<Prepared>> {
    if let Op::Matmul(matmul) = op {
        return prepared_product(scope, matmul, inputs);
    }
    let dtype = match input_cast(op) {
        InputCast::Product => Some(scope.dtype()),
        InputCast::Full => Some(DType::F32),
        InputCast::Widest => widest(inputs),
        InputCast::Unchanged => None,
    };
    let Some(dtype) = dtype else { return Ok(None) };
    let permitted = with_permissions(scope, op);
    if permitted.is_none() && inputs.iter().all(|tensor| tensor.dtype() == dtype || !is_cast(tensor.dtype()))
    {
        return Ok(None);
    }
    let inputs = inputs.iter().map(|tensor| cast(tensor, dtype)).collect::<Result<_>>()?;
    Ok(Some(Prepared { op: permitted.unwrap_or_else(|| op.clone()), inputs }))
}

/// Returns a convolution or attention with the permissions of `scope`, if they differ from its own.
fn with_permissions(scope: Precision, op: &Op) -> Option<Op> {
    if let Op::Attention(attention) = op {
        let AttentionConfig { tf32, bf16x6, .. } = attention.config;
        let config = AttentionConfig {
            tf32: tf32 || scope == Precision::Tf32,
            bf16x6: bf16x6 && scope != Precision::Ieee,
            ..attention.config
        };
        return (config != attention.config).then(|| Attention { config }.into());
    }
    if scope != Precision::Tf32 {
        return None;
    }
    let with_tf32 = |config: &ConvConfig| (!config.tf32).then_some(ConvConfig { tf32: true, ..*config });
    match op {
        Op::Conv2d(conv) => {
            with_tf32(&conv.config).map(|config| crate::ops::conv::Conv2d { config, ..conv.clone() }.into())
        }
        Op::Conv2dGradInput(conv) => with_tf32(&conv.config)
            .map(|config| crate::ops::conv::Conv2dGradInput { config, ..conv.clone() }.into()),
        _ => None,
    }
}

/// Prepares a matrix product. A product that adds to an accumulator is not changed. An f32 residual
/// is not cast, and makes the result f32.
fn prepared_product(scope: Precision, matmul: &Matmul, inputs: &[&Tensor]) -> Result<Option<Prepared>> {
    let Matmul { mut epilogue, .. } = *matmul;
    let operands = 2 + usize::from(epilogue.bias);
    if epilogue.accumulate || epilogue.activation_grad.is_some() || inputs.len() < operands {
        return Ok(None);
    }
    let mut cast_inputs: SmallVec<[Tensor; 4]> = SmallVec::new();
    for tensor in &inputs[..2] {
        cast_inputs.push(scope.operand(tensor)?);
    }
    let bias = epilogue.bias.then(|| inputs[2]);
    cast_inputs.extend(scope.bias(bias, inputs.get(operands).copied())?);
    for residual in &inputs[operands..] {
        let wide = residual.dtype() == DType::F32 && cast_inputs[0].dtype().is_half();
        if wide && epilogue.out_dtype.is_none() {
            epilogue = Epilogue { out_dtype: Some(DType::F32), ..epilogue };
        }
        cast_inputs.push(if wide { (*residual).clone() } else { scope.operand(residual)? });
    }
    let tf32 = matmul.tf32 || scope.may_round_to_tf32(&cast_inputs[0]);
    let bf16x6 = matmul.bf16x6 && scope != Precision::Ieee;
    let same = cast_inputs.iter().zip(inputs).all(|(cast, tensor)| cast.dtype() == tensor.dtype());
    if same && epilogue == matmul.epilogue && (tf32, bf16x6) == (matmul.tf32, matmul.bf16x6) {
        return Ok(None);
    }
    Ok(Some(Prepared { op: Matmul { epilogue, tf32, bf16x6 }.into(), inputs: cast_inputs }))
}
