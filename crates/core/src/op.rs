//! The list of all ops, and the trait that each implements.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::ops::{
    assemble, attention, binary, compare, conv, copy, create, custom, index, indexing, loss, matmul,
    multi_tensor, norm, pool, random, reduce, softmax, step, unary,
};
use crate::{DType, Shape, Tensor};
use smallvec::SmallVec;

/// The definition of an op: its name, its shape rule, its composition from smaller ops and its
/// gradient.
pub trait Rule {
    /// Returns the name of the op in every layer, in messages, and in `TERNION_FALLBACK`.
    fn name(&self) -> &'static str;

    /// Checks the inputs and returns shape, dtype and role of each output.
    ///
    /// # Errors
    /// Returns an error if the op does not accept the number, shapes or dtypes of the inputs.
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs>;

    /// Fast path of [`infer`](Rule::infer) for elementwise ops. `inputs` have one shape. If the op
    /// accepts them, and its only output is new and has the same shape, returns the dtype of the
    /// output. Default: `None`.
    fn elementwise(&self, inputs: &[Meta<'_>]) -> Option<DType> {
        let _ = inputs;
        None
    }

    /// Returns whether every backend must implement the op. Default: no, it has a composition.
    fn is_primitive(&self) -> bool {
        false
    }

    /// Returns whether inputs are expanded to the first output's shape before they are passed to a
    /// backend. Default: no.
    fn broadcasts(&self) -> bool {
        false
    }

    /// Computes the op in terms of smaller ops. Primitives have no composition.
    ///
    /// # Errors
    /// Returns the errors of the op; [`Error::Unsupported`] for a primitive.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let _ = inputs;
        Err(Error::Unsupported {
            op: self.name(),
            device: "composition".into(),
            why: "it is a primitive".into(),
        })
    }

    /// Returns how the gradient is computed. Default: from the composition.
    fn differentiability(&self) -> Differentiability {
        Differentiability::Composition
    }

    /// Computes the gradients of the inputs from those of the outputs (`None` for an output that
    /// does not affect the loss).
    ///
    /// Called only if [`differentiability`](Rule::differentiability) is `Stated`. The gradient may
    /// be `None` for inputs that do not [need](Context::needs) one.
    ///
    /// # Errors
    /// Returns the errors of the ops in the gradient rule.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let _ = (context, grad_outputs);
        Err(Error::autograd(format!("{} states no gradient", self.name())))
    }
}

/// How an op's gradient is computed. Each op must choose one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differentiability {
    /// By [`Rule::backward`], which needs these saved tensors.
    Stated(Saves),
    /// By differentiating the composition, which is recomputed from the saved inputs.
    Composition,
    /// Not differentiable (comparisons, indices, random numbers).
    NonDifferentiable,
}

/// The inputs and outputs that the gradient rule needs, one bit each. The last bit also represents
/// all inputs or outputs beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saves {
    /// Bit `i`: input `i` is saved.
    pub inputs: u16,
    /// Bit `i`: output `i` is saved.
    pub outputs: u16,
}

impl Saves {
    /// Saves only shapes and dtypes.
    pub const NOTHING: Saves = Saves { inputs: 0, outputs: 0 };
    /// Saves every input.
    pub const INPUTS: Saves = Saves { inputs: u16::MAX, outputs: 0 };
    /// Saves every output.
    pub const OUTPUTS: Saves = Saves { inputs: 0, outputs: u16::MAX };
    /// Saves every input and output.
    pub const ALL: Saves = Saves { inputs: u16::MAX, outputs: u16::MAX };

    /// Returns whether input `index` is saved.
    #[inline]
    pub const fn has_input(self, index: usize) -> bool {
        Saves::has(self.inputs, index)
    }

    /// Returns whether output `index` is saved.
    #[inline]
    pub const fn has_output(self, index: usize) -> bool {
        Saves::has(self.outputs, index)
    }

    const fn has(bits: u16, index: usize) -> bool {
        let last = u16::BITS as usize - 1;
        bits >> (if index < last { index } else { last }) & 1 == 1
    }
}

/// What an op does with the memory of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The output is new memory, or a destination that shares nothing with the inputs.
    Fresh,
    /// The output is new memory, or exactly the view of this input: the op can run in place.
    Reuses(usize),
    /// The output is always the memory of this input, which is overwritten.
    Aliases(usize),
    /// The output is always the memory of this input, to which the result is added.
    Accumulates(usize),
}

/// Shape, dtype and role of an output.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// The shape.
    pub shape: Shape,
    /// The element type.
    pub dtype: DType,
    /// What the op does with its memory.
    pub role: Role,
}

impl Output {
    /// Creates an output in new memory.
    #[inline]
    pub fn fresh(shape: Shape, dtype: DType) -> Output {
        Output { shape, dtype, role: Role::Fresh }
    }

    /// Creates an output that may reuse the buffer of input `index`.
    #[inline]
    pub fn reuses(shape: Shape, dtype: DType, index: usize) -> Output {
        Output { shape, dtype, role: Role::Reuses(index) }
    }
}

/// The outputs of an op.
pub type Outputs = SmallVec<[Output; 1]>;

macro_rules! ops {
    ($($(#[$doc:meta])* $variant:ident($payload:path)),* $(,)?) => {
        /// All ops. The documentation of the payload describes inputs, outputs and semantics.
        #[derive(Clone, Debug)]
        pub enum Op { $($(#[$doc])* $variant($payload)),* }

        impl Op {
            /// Returns the definition of the op.
            #[inline]
            pub fn rule(&self) -> &dyn Rule {
                match self { $(Op::$variant(payload) => payload),* }
            }

            /// Returns the op's entry in the list of ops.
            pub fn kind(&self) -> OpKind {
                match self { $(Op::$variant(_) => OpKind::$variant),* }
            }
        }

        /// The entries of the list of ops, without payload.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum OpKind { $($(#[$doc])* $variant),* }

        impl OpKind {
            /// All entries, in the order of the list.
            pub const ALL: &'static [OpKind] = &[$(OpKind::$variant),*];

            /// Returns the name in the list, such as `LayerNormGrad`.
            pub const fn name(self) -> &'static str {
                match self { $(OpKind::$variant => stringify!($variant)),* }
            }
        }

        $(impl From<$payload> for Op {
            #[inline]
            fn from(payload: $payload) -> Op { Op::$variant(payload) }
        })*
    };
}

ops! {
    /// A tensor filled with one value.
    Fill(create::Fill),
    /// Evenly spaced numbers.
    Iota(create::Iota),
    /// Strided copy with conversion of the dtype.
    Copy(copy::Copy),
    /// A unary elementwise function.
    Unary(unary::Unary),
    /// The gradient of a unary elementwise function.
    UnaryGrad(unary::UnaryGrad),
    /// A binary elementwise function, broadcast.
    Binary(binary::Binary),
    /// A function of a tensor and a scalar.
    BinaryScalar(binary::BinaryScalar),
    /// `a * b + c`.
    MultiplyAdd(binary::MultiplyAdd),
    /// `scale * a + b`.
    ScaleAdd(binary::ScaleAdd),
    /// `relu(a + b)`.
    AddRelu(binary::AddRelu),
    /// `activation(x + bias)`.
    BiasActivation(binary::BiasActivation),
    /// Elementwise comparison of two tensors, broadcast.
    Compare(compare::Compare),
    /// Comparison of a tensor and a scalar.
    CompareScalar(compare::CompareScalar),
    /// Elementwise selection between two tensors by a condition.
    Select(compare::Select),
    /// Sums, products, min, max, argmin and argmax over axes.
    Reduce(reduce::Reduce),
    /// Variance over axes.
    Variance(reduce::Variance),
    /// Cumulative sum along an axis.
    CumulativeSum(reduce::CumulativeSum),
    /// Matrix product with an epilogue.
    Matmul(matmul::Matmul),
    /// Gather of elements along an axis.
    Gather(index::Gather),
    /// Scatter of elements along an axis.
    Scatter(index::Scatter),
    /// Selection of slices along an axis.
    IndexSelect(index::IndexSelect),
    /// Addition of slices along an axis.
    IndexAdd(index::IndexAdd),
    /// Sorted values and their indices.
    Sort(index::Sort),
    /// Softmax: positive weights that sum to 1.
    Softmax(softmax::Softmax),
    /// Gradient of softmax.
    SoftmaxGrad(softmax::SoftmaxGrad),
    /// Logarithm of softmax.
    LogSoftmax(softmax::LogSoftmax),
    /// Gradient of log-softmax.
    LogSoftmaxGrad(softmax::LogSoftmaxGrad),
    /// Cross-entropy of logits and class indices.
    CrossEntropy(loss::CrossEntropy),
    /// Gradient of cross-entropy.
    CrossEntropyGrad(loss::CrossEntropyGrad),
    /// Cross-entropy that computes its gradient in the forward pass.
    CrossEntropyWithGrad(loss::CrossEntropyWithGrad),
    /// Update of the gradient of cross-entropy where it is not yet correct.
    CrossEntropyGradUpdate(loss::CrossEntropyGradUpdate),
    /// Normalization of each row.
    LayerNorm(norm::LayerNorm),
    /// Gradient of layer normalization.
    LayerNormGrad(norm::LayerNormGrad),
    /// Scaling of each row by its root mean square.
    RmsNorm(norm::RmsNorm),
    /// Gradient of RMS normalization.
    RmsNormGrad(norm::RmsNormGrad),
    /// Normalization of each channel over batch and spatial axes.
    BatchNorm(norm::BatchNorm),
    /// Gradient of batch normalization.
    BatchNormGrad(norm::BatchNormGrad),
    /// Scaled dot-product attention.
    Attention(attention::Attention),
    /// Gradient of attention.
    AttentionGrad(attention::AttentionGrad),
    /// Gradient of the additive mask of attention.
    AttentionGradMask(attention::AttentionGradMask),
    /// Image patches as columns.
    Im2col(conv::Im2col),
    /// Columns summed into an image.
    Col2im(conv::Col2im),
    /// Convolution over two axes.
    Conv2d(conv::Conv2d),
    /// Gradient of a convolution with respect to its input.
    Conv2dGradInput(conv::Conv2dGradInput),
    /// Gradient of a convolution with respect to its weight.
    Conv2dGradWeight(conv::Conv2dGradWeight),
    /// Largest element of each window.
    MaxPool2d(pool::MaxPool2d),
    /// Gradient of max pooling.
    MaxPool2dGrad(pool::MaxPool2dGrad),
    /// Mean of each window.
    AvgPool2d(pool::AvgPool2d),
    /// Gradient of average pooling.
    AvgPool2dGrad(pool::AvgPool2dGrad),
    /// Padding with a constant border.
    Pad(assemble::Pad),
    /// Concatenation of tensors along an axis.
    Concat(assemble::Concat),
    /// Assignment to a slice.
    SliceAssign(indexing::SliceAssign),
    /// Random integers with a given number of bits.
    RandomBits(random::RandomBits),
    /// Random numbers, uniform over [0, 1).
    Uniform(random::Uniform),
    /// Random numbers from the standard normal distribution.
    Normal(random::Normal),
    /// Dropout: random zeros.
    Dropout(random::Dropout),
    /// An SGD step.
    SgdStep(step::SgdStep),
    /// An Adam or AdamW step.
    AdamStep(step::AdamStep),
    /// The norm of all elements of several tensors.
    MultiTensorNorm(multi_tensor::MultiTensorNorm),
    /// An op from another crate.
    Custom(custom::Custom),
}

impl Op {
    /// Returns the name of the op in every layer.
    #[inline]
    pub fn name(&self) -> &'static str {
        self.rule().name()
    }

    /// Returns whether every backend must implement this op.
    #[inline]
    pub fn is_primitive(&self) -> bool {
        self.rule().is_primitive()
    }
}

/// Checks used by the shape rules.
pub(crate) mod check {
    use super::{DType, Error, Meta, Result, Shape};

    /// Checks that there are exactly `count` inputs.
    #[inline]
    pub fn count(op: &'static str, inputs: &[Meta<'_>], count: usize) -> Result<()> {
        if inputs.len() == count {
            Ok(())
        } else {
            Err(Error::invalid(op, format!("expected {count} inputs, got {}", inputs.len())))
        }
    }

    /// Checks that indices below `size` fit i32, the dtype in which they are returned.
    #[inline]
    pub fn positions(op: &'static str, size: usize) -> Result<()> {
        const MAX_ELEMENTS: u64 = 1 << 31;
        if size as u64 <= MAX_ELEMENTS {
            Ok(())
        } else {
            Err(Error::invalid(
                op,
                crate::text![
                    format!("{size} elements, expected at most {MAX_ELEMENTS}: positions are "),
                    DType::I32
                ],
            ))
        }
    }

    /// Checks that `meta` is floating.
    #[inline]
    pub fn float(op: &'static str, what: &'static str, meta: &Meta<'_>) -> Result<()> {
        if meta.dtype.is_float() {
            Ok(())
        } else {
            Err(Error::dtype(op, what, meta.dtype, "a floating dtype"))
        }
    }

    /// Checks that `meta` is half precision.
    #[inline]
    pub fn half(op: &'static str, what: &'static str, meta: &Meta<'_>) -> Result<()> {
        if meta.dtype.is_half() {
            Ok(())
        } else {
            Err(Error::dtype(op, what, meta.dtype, crate::text![DType::F16, " or ", DType::BF16]))
        }
    }

    /// Checks that `meta` is an index dtype.
    #[inline]
    pub fn index(op: &'static str, what: &'static str, meta: &Meta<'_>) -> Result<()> {
        if meta.dtype.is_index() {
            Ok(())
        } else {
            Err(Error::dtype(op, what, meta.dtype, crate::text![DType::I32, " or ", DType::I64]))
        }
    }

    /// Checks that `meta` has this dtype.
    #[inline]
    pub fn dtype(op: &'static str, what: &'static str, meta: &Meta<'_>, dtype: DType) -> Result<()> {
        if meta.dtype == dtype { Ok(()) } else { Err(Error::dtype(op, what, meta.dtype, dtype)) }
    }

    /// Checks that both have the same dtype.
    #[inline]
    pub fn same_dtype(op: &'static str, left: &Meta<'_>, right: &Meta<'_>) -> Result<()> {
        if left.dtype == right.dtype {
            Ok(())
        } else {
            Err(Error::DTypeMismatch { op, left: left.dtype, right: right.dtype })
        }
    }

    /// Checks that `meta` has this shape.
    #[inline]
    pub fn shape(op: &'static str, what: &'static str, meta: &Meta<'_>, expected: Shape) -> Result<()> {
        if *meta.shape() == expected {
            Ok(())
        } else {
            Err(Error::Shape { op, what, got: Box::new(*meta.shape()), expected: Box::new(expected) })
        }
    }

    /// Checks that `axis` exists.
    #[inline]
    pub fn axis(op: &'static str, axis: usize, shape: &Shape) -> Result<()> {
        if axis < shape.rank() {
            Ok(())
        } else {
            Err(Error::Axis { op, axis: axis as isize, shape: Box::new(*shape) })
        }
    }
}
