//! Mixed precision: the dtype in which the ops of a scope compute, while parameters stay f32. The casts that a scope keeps are in `casts`.
//!
//! Inside [`with_precision`] every op casts its inputs, recorded as any cast is, so that gradients come back in the dtype of what was cast: f32 for parameters.
//! A backward pass runs in the dtypes of its forward pass, whatever scope is open around it.
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
//! # What computes in which dtype
//!
//! | ops | inside a scope |
//! |---|---|
//! | `matmul`, `linear`, `addmm`, `dot`, `einsum`, convolutions, attention | the scope's dtype: f32, f16 and bf16 are cast to it |
//! | `softmax`, `log_softmax`, `logsumexp`, `layer_norm`, `rms_norm`, `group_norm`; sums, products, means, norms, variances and running sums; `exp`, `expm1`, `log`, `log1p`, `recip`, `rsqrt`, `softplus`, `pow` | f32: f16 and bf16 are cast to it |
//! | losses | f32, from inputs of any dtype |
//! | `batch_norm` | in the input's dtype, with sums in f32; weight and bias are cast to it |
//! | functions of several elements (`add`, `where_`, comparisons, ..), `concat`, `stack`, `scatter`, `index_add`, slices that are put | the widest of f32 and the halves among their inputs; f32 for f16 with bf16 |
//! | all others | the dtype of their input, as outside |
//!
//! Forms in place (`add_`, `addmm_`, ..), optimiser steps, ops of other crates and f64 are left alone everywhere. The scope of [`Precision::F32`] computes products in f32: inside another
//! it is the exception for layers that need it.
//!
//! This is PyTorch's `autocast` with the lists of its CUDA devices, on every device. Where it differs: means, variances and sums of squares are f32, which PyTorch leaves in their input's dtype; a `residual` of
//! f32 makes the product that it is added to f32, as an addition would, but adds to sums that were not rounded before; its bias stays f32; `dot` is a product; the norms of transformer blocks give the scope's dtype where only products read them
//! ([`Tensor::layer_norm_as`]); the casts of a weight that is used several times are one op, but their gradients are added in f32.
//!
//! # Casts that an optimizer has done
//!
//! A step of `SGD`, `Adam` or `AdamW` writes a parameter of f32 that a scope has cast since the last step in that half precision too, for 2 bytes of memory an element: the next scope finds the cast done ([`HalfCopy`]). Numbers,
//! gradients and what observers see are those of the cast. Whoever else changes the parameter in place makes its copy a stale one, and the next scope casts. The copy is changed in place by the step: a
//! backward pass through it after the step (`retain_graph`) is the error that it is without a scope.
//!
//! # What is not covered
//!
//! The gradients of convolutions' weights and of biases are rounded to the half once, before they become f32 (products' are not). Casts are kept of leaves alone:
//! a frozen parameter is cast at each use. [`Precision::Ieee`] matters to products of matrices and to attention: convolutions in f32 compute by fused multiply-adds in any case.

mod casts;
mod half_copy;

pub use half_copy::{HalfCopy, half_copy_wanted};
pub(crate) use half_copy::{HalfCopyOfLeaf, is_found};

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

/// In which dtype the products of a scope are computed. See [`with_precision`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// f32, accurately: of the ways in which a device can compute a product of matrices the fastest one whose error is at most that of sums in f32 ([`Matmul::bf16x6`]).
    #[default]
    F32,
    /// f32 whose products of matrices, those of attention too, are fused multiply-adds of f32, each rounded as IEEE 754 says: slower than [`Precision::F32`] on tensor cores, and no more accurate.
    /// For who needs the bits of such sums. PyTorch calls it `fp32_precision = "ieee"`.
    Ieee,
    /// f32 whose products, convolutions and attention a device may round to TF32 (8 bits of exponent, 10 of fraction) where it has units for it: of attention queries, keys, values and weights.
    /// Sums stay f32. A permission, as in PyTorch: where there is no such unit it is f32.
    Tf32,
    /// bf16: the exponents of f32 with 7 bits of fraction. Needs no loss scale.
    Bf16,
    /// f16: 10 bits of fraction, but nothing above 65504, and small gradients become 0: train with a loss scale.
    F16,
}

impl Precision {
    /// Every precision, the most accurate first.
    pub const ALL: [Precision; 5] =
        [Precision::F32, Precision::Ieee, Precision::Tf32, Precision::Bf16, Precision::F16];

    /// The lower-case name: `f32`, `ieee`, `tf32`, `bf16` or `f16`.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Ieee => "ieee",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
            Precision::F16 => "f16",
        }
    }

    /// The dtype of products.
    pub const fn dtype(self) -> DType {
        match self {
            Precision::F32 | Precision::Ieee | Precision::Tf32 => DType::F32,
            Precision::Bf16 => DType::BF16,
            Precision::F16 => DType::F16,
        }
    }

    /// Whether gradients may become 0 for being small, which a loss scale prevents.
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

    /// The precision of that name.
    fn from_str(name: &str) -> Result<Precision> {
        let found = Precision::ALL.into_iter().find(|precision| precision.name() == name);
        found.ok_or_else(|| {
            Error::invalid("precision", format!("{name:?}, expected one of f32, ieee, tf32, bf16 and f16"))
        })
    }
}

thread_local! {
    static SCOPE: Cell<Option<Precision>> = const { Cell::new(None) };
    static CASTS: RefCell<Casts> = RefCell::new(Casts::default());
    /// What the scopes of `open_scope` that are open go back to, the outermost first.
    static OPENED: RefCell<Vec<(Option<Precision>, Option<Casts>)>> = const { RefCell::new(Vec::new()) };
}

/// Sets the scope back on drop, also when a panic ends it.
struct Leave {
    scope: Option<Precision>,
    /// The casts of the scope outside, if those of this one are kept apart.
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

/// Runs `f` with the products of this thread in `precision`; the [module](self) says which ops that concerns. Scopes nest: the inner one holds inside it.
///
/// A parameter is cast once, however often the scope uses it, and again after it was changed in place. The casts are given back when the outermost scope ends.
pub fn with_precision<T>(precision: Precision, f: impl FnOnce() -> T) -> T {
    let outermost = current().is_none();
    let casts = outermost.then(|| CASTS.take());
    let _leave = Leave { scope: SCOPE.replace(Some(precision)), casts };
    f()
}

/// Runs `f` as outside of any scope: every op in the dtypes of its inputs.
pub fn without_precision<T>(f: impl FnOnce() -> T) -> T {
    let _leave = Leave { scope: SCOPE.take(), casts: None };
    f()
}

/// Opens a scope on this thread as [`with_precision`] does, or as [`without_precision`] for `None`, until [`close_scope`]: for bindings to languages whose scopes are
/// no closures. Rust has those two, which cannot be left open.
pub fn open_scope(precision: Option<Precision>) {
    let casts = (precision.is_some() && current().is_none()).then(|| CASTS.take());
    let before = (SCOPE.replace(precision), casts);
    OPENED.with_borrow_mut(|opened| opened.push(before));
}

/// Ends the scope of this thread that [`open_scope`] opened last; false if none is open.
pub fn close_scope() -> bool {
    let Some((scope, casts)) = OPENED.with_borrow_mut(Vec::pop) else { return false };
    drop(Leave { scope, casts });
    true
}

/// Runs `f` in a scope (or none) that casts for itself: what runs again later must not depend on casts that are there by then or not.
pub(crate) fn apart<T>(scope: Option<Precision>, f: impl FnOnce() -> T) -> T {
    let casts = Some(CASTS.take());
    let _leave = Leave { scope: SCOPE.replace(scope), casts };
    f()
}

/// The precision of the innermost scope of this thread, if one is open. All that an op costs where none is.
#[inline(always)]
pub fn current() -> Option<Precision> {
    SCOPE.get()
}

/// Whether a scope casts tensors of this dtype.
fn is_cast(dtype: DType) -> bool {
    dtype == DType::F32 || dtype.is_half()
}

/// `tensor` in `dtype`, if a scope casts such to such.
pub(crate) fn cast(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    match tensor.dtype() == dtype || !is_cast(tensor.dtype()) || !is_cast(dtype) {
        true => Ok(tensor.clone()),
        false => casts::cast(&CASTS, tensor, dtype),
    }
}

/// `tensor` as sums and the like take it: in f32 where a scope is open.
pub(crate) fn full(tensor: &Tensor) -> Result<Tensor> {
    match current() {
        Some(_) => cast(tensor, DType::F32),
        None => Ok(tensor.clone()),
    }
}

/// `tensors` in the widest dtype among them where a scope is open.
pub(crate) fn widened(tensors: &[&Tensor]) -> Result<SmallVec<[Tensor; 4]>> {
    let dtype = current().and_then(|_| widest(tensors));
    let wide = |tensor: &&Tensor| dtype.map_or_else(|| Ok((*tensor).clone()), |dtype| cast(tensor, dtype));
    tensors.iter().map(wide).collect()
}

/// The dtype that holds all of these, as far as a scope casts them; none if there is nothing to choose.
fn widest(tensors: &[&Tensor]) -> Option<DType> {
    let mut dtypes = tensors.iter().map(|tensor| tensor.dtype()).filter(|&dtype| is_cast(dtype));
    let first = dtypes.next()?;
    Some(if dtypes.all(|dtype| dtype == first) { first } else { DType::F32 })
}

impl Precision {
    /// `tensor` as an operand of a product.
    pub(crate) fn operand(self, tensor: &Tensor) -> Result<Tensor> {
        cast(tensor, self.dtype())
    }

    /// As [`operand`](Precision::operand), in memory that no other use shares.
    pub(crate) fn own_operand(self, tensor: &Tensor) -> Result<Tensor> {
        if is_cast(tensor.dtype()) { tensor.to_dtype(self.dtype()) } else { Ok(tensor.clone()) }
    }

    /// As [`operand`](Precision::operand), of what may not be there.
    pub(crate) fn optional(self, tensor: Option<&Tensor>) -> Result<Option<Tensor>> {
        tensor.map(|tensor| self.operand(tensor)).transpose()
    }

    /// The bias of a product, which stays f32 where a residual makes the sum that it is added to f32.
    pub(crate) fn bias(self, bias: Option<&Tensor>, residual: Option<&Tensor>) -> Result<Option<Tensor>> {
        match residual {
            Some(residual) if self.widens(residual) => bias.map(|bias| cast(bias, DType::F32)).transpose(),
            _ => self.optional(bias),
        }
    }

    /// Whether a residual makes the product that it is added to f32.
    fn widens(self, residual: &Tensor) -> bool {
        self.dtype().is_half() && residual.dtype() == DType::F32
    }

    /// Whether products of this dtype may be rounded to TF32.
    fn rounds(self, tensor: &Tensor) -> bool {
        self == Precision::Tf32 && tensor.dtype() == DType::F32
    }

    /// The product of operands such as this one, which the scope has cast.
    pub(crate) fn product_of(self, operand: &Tensor) -> Matmul {
        Matmul { tf32: self.rounds(operand), bf16x6: self != Precision::Ieee, ..Matmul::PLAIN }
    }
}

/// What a scope does with the inputs of an op.
enum Kind {
    /// Casts them to its dtype.
    Product,
    /// Casts them to f32.
    Full,
    /// Casts them to the widest dtype among them.
    Widest,
    /// Leaves them.
    AsTheyAre,
}

/// The table: the compiler asks for a row when an op is added.
fn kind(op: &Op) -> Kind {
    match op {
        Op::Matmul(_) | Op::Conv2d(_) | Op::Conv2dGradInput(_) | Op::Attention(_) => Kind::Product,
        Op::Softmax(_)
        | Op::LogSoftmax(_)
        | Op::LayerNorm(_)
        | Op::RmsNorm(_)
        | Op::Variance(_)
        | Op::CumulativeSum(_) => Kind::Full,
        Op::Reduce(reduce) => match reduce.op {
            ReduceOp::Sum
            | ReduceOp::Prod
            | ReduceOp::Mean
            | ReduceOp::SumSquares
            | ReduceOp::Norm
            | ReduceOp::LogSumExp => Kind::Full,
            ReduceOp::Max | ReduceOp::Min | ReduceOp::ArgMax | ReduceOp::ArgMin | ReduceOp::MaxAbs => {
                Kind::AsTheyAre
            }
        },
        Op::Unary(unary) if unary.op.autocasts_to_f32() => Kind::Full,
        Op::Unary(_) => Kind::AsTheyAre,
        Op::BinaryScalar(binary) if binary.op == BinaryOp::Pow => Kind::Full,
        Op::Binary(binary) if binary.op == BinaryOp::Pow => Kind::Full,
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
        | Op::Concat(_) => Kind::Widest,
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
        | Op::Custom(_) => Kind::AsTheyAre,
    }
}

/// An op as a scope runs it: on other inputs, or with other settings.
pub(crate) struct Prepared {
    pub(crate) op: Op,
    pub(crate) inputs: SmallVec<[Tensor; 4]>,
}

/// `op` as `scope` runs it; `None` if that is as it is.
pub(crate) fn prepared(scope: Precision, op: &Op, inputs: &[&Tensor]) -> Result<Option<Prepared>> {
    if let Op::Matmul(matmul) = op {
        return prepared_product(scope, matmul, inputs);
    }
    let dtype = match kind(op) {
        Kind::Product => Some(scope.dtype()),
        Kind::Full => Some(DType::F32),
        Kind::Widest => widest(inputs),
        Kind::AsTheyAre => None,
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

/// A convolution or attention with the permissions of `scope`, if it is one and has others.
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
    let rounded = |config: &ConvConfig| (!config.tf32).then_some(ConvConfig { tf32: true, ..*config });
    match op {
        Op::Conv2d(conv) => {
            rounded(&conv.config).map(|config| crate::ops::conv::Conv2d { config, ..conv.clone() }.into())
        }
        Op::Conv2dGradInput(conv) => rounded(&conv.config)
            .map(|config| crate::ops::conv::Conv2dGradInput { config, ..conv.clone() }.into()),
        _ => None,
    }
}

/// A matrix product. What is added to it in place stays as it is; a residual of f32 is no operand, and makes the result f32.
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
    let tf32 = matmul.tf32 || scope.rounds(&cast_inputs[0]);
    let bf16x6 = matmul.bf16x6 && scope != Precision::Ieee;
    let same = cast_inputs.iter().zip(inputs).all(|(cast, tensor)| cast.dtype() == tensor.dtype());
    if same && epilogue == matmul.epilogue && (tf32, bf16x6) == (matmul.tf32, matmul.bf16x6) {
        return Ok(None);
    }
    Ok(Some(Prepared { op: Matmul { epilogue, tf32, bf16x6 }.into(), inputs: cast_inputs }))
}
