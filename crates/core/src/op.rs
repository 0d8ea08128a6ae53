//! The list of every op, and what each must say of itself.

use crate::autograd::{Context, Grads};
use crate::backend::Meta;
use crate::error::{Error, Result};
use crate::ops::{
    assemble, attention, binary, compare, conv, copy, create, custom, index, indexing, loss, matmul,
    multi_tensor, norm, pool, random, reduce, softmax, step, unary,
};
use crate::{DType, Shape, Tensor};
use smallvec::SmallVec;

/// What an op says of itself: its name, its shape rule, its composition from smaller ops and its gradient.
pub trait Rule {
    /// The stem that names the op in every layer, in messages, and in `TERNION_FALLBACK`.
    fn name(&self) -> &'static str;

    /// Checks the inputs and tells shape, dtype and role of each output.
    ///
    /// # Errors
    /// A number, shape or dtype of inputs that the op does not take.
    fn infer(&self, inputs: &[Meta<'_>]) -> Result<Outputs>;

    /// The dtype of the op's one new output, if it takes such inputs, all of the same shape, and the output has that shape too; what
    /// [`infer`](Rule::infer) says of them at more length. Elementwise ops tell it for the sake of speed. Default: not told.
    fn elementwise(&self, inputs: &[Meta<'_>]) -> Option<DType> {
        let _ = inputs;
        None
    }

    /// Whether every backend must run the op itself. Default: no, it has a composition.
    fn is_primitive(&self) -> bool {
        false
    }

    /// Whether inputs are expanded to the first output's shape before a backend sees them. Default: no.
    fn broadcasts(&self) -> bool {
        false
    }

    /// The op in terms of smaller ops. Primitives have none.
    ///
    /// # Errors
    /// As the op itself; [`Error::Unsupported`] for a primitive.
    fn compose(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let _ = inputs;
        Err(Error::Unsupported {
            op: self.name(),
            device: "composition".into(),
            why: "it is a primitive".into(),
        })
    }

    /// Where the gradient comes from. Default: the composition's.
    fn differentiability(&self) -> Differentiability {
        Differentiability::Composition
    }

    /// Gradients of the inputs, given those of the outputs (`None` where an output has no influence on the loss).
    ///
    /// Called only when [`differentiability`](Rule::differentiability) is `Stated`. An input that
    /// [`Context::needs`] no gradient may get `None`.
    ///
    /// # Errors
    /// Those of the ops it is made of.
    fn backward(&self, context: &Context<'_>, grad_outputs: &[Option<Tensor>]) -> Result<Grads> {
        let _ = (context, grad_outputs);
        Err(Error::autograd(format!("{} states no gradient", self.name())))
    }
}

/// Where an op's gradient comes from: there is no silent third way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differentiability {
    /// [`Rule::backward`], which needs these tensors.
    Stated(Saves),
    /// That of the composition, formed anew from the saved inputs.
    Composition,
    /// Has none by its nature (comparisons, positions, random numbers).
    NonDifferentiable,
}

/// Which inputs and outputs the backward rule needs: a bit each. The last bit stands for all that have none of their own too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saves {
    /// Bit `i`: input `i`.
    pub inputs: u16,
    /// Bit `i`: output `i`.
    pub outputs: u16,
}

impl Saves {
    /// Only shapes and dtypes.
    pub const NOTHING: Saves = Saves { inputs: 0, outputs: 0 };
    /// Every input.
    pub const INPUTS: Saves = Saves { inputs: u16::MAX, outputs: 0 };
    /// Every output.
    pub const OUTPUTS: Saves = Saves { inputs: 0, outputs: u16::MAX };
    /// Every input and output.
    pub const ALL: Saves = Saves { inputs: u16::MAX, outputs: u16::MAX };

    /// Whether input `index` is needed.
    #[inline]
    pub const fn has_input(self, index: usize) -> bool {
        Saves::has(self.inputs, index)
    }

    /// Whether output `index` is needed.
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
    /// New memory, or a destination that shares nothing with the inputs.
    Fresh,
    /// New memory, or exactly the view of this input: the op has an in-place form.
    Reuses(usize),
    /// Always the memory of this input, which is overwritten.
    Aliases(usize),
    /// Always the memory of this input, which is added to.
    Accumulates(usize),
}

/// Shape, dtype and role of an output.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// The sizes.
    pub shape: Shape,
    /// The element type.
    pub dtype: DType,
    /// What happens to its memory.
    pub role: Role,
}

impl Output {
    /// An output in new memory.
    #[inline]
    pub fn fresh(shape: Shape, dtype: DType) -> Output {
        Output { shape, dtype, role: Role::Fresh }
    }

    /// An output that may take the place of input `index`.
    #[inline]
    pub fn reuses(shape: Shape, dtype: DType, index: usize) -> Output {
        Output { shape, dtype, role: Role::Reuses(index) }
    }
}

/// The outputs of an op.
pub type Outputs = SmallVec<[Output; 1]>;

macro_rules! ops {
    ($($(#[$doc:meta])* $variant:ident($payload:path)),* $(,)?) => {
        /// Every op there is. Inputs, outputs and semantics are told by the payload's documentation.
        #[derive(Clone, Debug)]
        pub enum Op { $($(#[$doc])* $variant($payload)),* }

        impl Op {
            /// What the op says of itself.
            #[inline]
            pub fn rule(&self) -> &dyn Rule {
                match self { $(Op::$variant(payload) => payload),* }
            }

            /// Which entry of the list of ops this is.
            pub fn kind(&self) -> OpKind {
                match self { $(Op::$variant(_) => OpKind::$variant),* }
            }
        }

        /// The entries of the list of ops, without what an op is given.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum OpKind { $($(#[$doc])* $variant),* }

        impl OpKind {
            /// All of them, in the order of the list.
            pub const ALL: &'static [OpKind] = &[$(OpKind::$variant),*];

            /// Its name in the list, such as `LayerNormGrad`.
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
    /// One value everywhere.
    Fill(create::Fill),
    /// Evenly spaced numbers.
    Iota(create::Iota),
    /// Strided copy with a change of dtype.
    Copy(copy::Copy),
    /// A function of one element.
    Unary(unary::Unary),
    /// The gradient of a function of one element.
    UnaryGrad(unary::UnaryGrad),
    /// A function of two elements, broadcast.
    Binary(binary::Binary),
    /// A function of an element and a number.
    BinaryScalar(binary::BinaryScalar),
    /// `a * b + c`.
    MultiplyAdd(binary::MultiplyAdd),
    /// `scale * a + b`.
    ScaleAdd(binary::ScaleAdd),
    /// `relu(a + b)`.
    AddRelu(binary::AddRelu),
    /// `activation(x + bias)`.
    BiasActivation(binary::BiasActivation),
    /// Comparison of two elements, broadcast.
    Compare(compare::Compare),
    /// Comparison of an element and a number.
    CompareScalar(compare::CompareScalar),
    /// One of two elements by a condition.
    Select(compare::Select),
    /// Sums, products, extremes and their positions over axes.
    Reduce(reduce::Reduce),
    /// Variance over axes.
    Variance(reduce::Variance),
    /// Running sum along an axis.
    CumulativeSum(reduce::CumulativeSum),
    /// Matrix product with an epilogue.
    Matmul(matmul::Matmul),
    /// Elements picked along an axis.
    Gather(index::Gather),
    /// Elements put along an axis.
    Scatter(index::Scatter),
    /// Slices picked along an axis.
    IndexSelect(index::IndexSelect),
    /// Slices added along an axis.
    IndexAdd(index::IndexAdd),
    /// Sorted values and their positions.
    Sort(index::Sort),
    /// Positive weights that sum to 1.
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
    /// Cross-entropy that forms its gradient on the way.
    CrossEntropyWithGrad(loss::CrossEntropyWithGrad),
    /// The gradient of cross-entropy, where it is not there yet.
    CrossEntropyGradUpdate(loss::CrossEntropyGradUpdate),
    /// Normalisation of each row.
    LayerNorm(norm::LayerNorm),
    /// Gradient of layer normalisation.
    LayerNormGrad(norm::LayerNormGrad),
    /// Scaling of each row by its root mean square.
    RmsNorm(norm::RmsNorm),
    /// Gradient of RMS normalisation.
    RmsNormGrad(norm::RmsNormGrad),
    /// Normalisation of each channel over batch and space.
    BatchNorm(norm::BatchNorm),
    /// Gradient of batch normalisation.
    BatchNormGrad(norm::BatchNormGrad),
    /// Scaled dot-product attention.
    Attention(attention::Attention),
    /// Gradient of attention.
    AttentionGrad(attention::AttentionGrad),
    /// Gradient of a mask that attention adds to its scores.
    AttentionGradMask(attention::AttentionGradMask),
    /// Image patches as columns.
    Im2col(conv::Im2col),
    /// Columns added back to an image.
    Col2im(conv::Col2im),
    /// Convolution over two axes.
    Conv2d(conv::Conv2d),
    /// Gradient of a convolution's input.
    Conv2dGradInput(conv::Conv2dGradInput),
    /// Gradient of a convolution's weight.
    Conv2dGradWeight(conv::Conv2dGradWeight),
    /// Largest element of each window.
    MaxPool2d(pool::MaxPool2d),
    /// Gradient of max pooling.
    MaxPool2dGrad(pool::MaxPool2dGrad),
    /// Mean of each window.
    AvgPool2d(pool::AvgPool2d),
    /// Gradient of average pooling.
    AvgPool2dGrad(pool::AvgPool2dGrad),
    /// A constant border.
    Pad(assemble::Pad),
    /// Tensors one after the other along an axis.
    Concat(assemble::Concat),
    /// A slice overwritten.
    SliceAssign(indexing::SliceAssign),
    /// Random integers of a given width.
    RandomBits(random::RandomBits),
    /// Random numbers between 0 and 1.
    Uniform(random::Uniform),
    /// Random numbers of the standard normal distribution.
    Normal(random::Normal),
    /// Random zeros.
    Dropout(random::Dropout),
    /// A step of stochastic gradient descent.
    SgdStep(step::SgdStep),
    /// A step of Adam or AdamW.
    AdamStep(step::AdamStep),
    /// The norm of all elements of many tensors.
    MultiTensorNorm(multi_tensor::MultiTensorNorm),
    /// An op of another crate.
    Custom(custom::Custom),
}

impl Op {
    /// The stem that names the op in every layer.
    #[inline]
    pub fn name(&self) -> &'static str {
        self.rule().name()
    }

    /// Whether every backend must run this op itself.
    #[inline]
    pub fn is_primitive(&self) -> bool {
        self.rule().is_primitive()
    }
}

/// Checks used by the shape rules.
pub(crate) mod check {
    use super::{DType, Error, Meta, Result, Shape};

    /// Exactly `count` inputs came.
    #[inline]
    pub fn count(op: &'static str, inputs: &[Meta<'_>], count: usize) -> Result<()> {
        if inputs.len() == count {
            Ok(())
        } else {
            Err(Error::invalid(op, format!("expected {count} inputs, got {}", inputs.len())))
        }
    }

    /// Positions below `size` fit i32, in which they are returned.
    #[inline]
    pub fn positions(op: &'static str, size: usize) -> Result<()> {
        const MOST: u64 = 1 << 31;
        if size as u64 <= MOST {
            Ok(())
        } else {
            Err(Error::invalid(
                op,
                crate::text![format!("{size} elements, expected at most {MOST}: positions are "), DType::I32],
            ))
        }
    }

    /// `meta` is floating.
    #[inline]
    pub fn float(op: &'static str, what: &'static str, meta: &Meta<'_>) -> Result<()> {
        if meta.dtype.is_float() {
            Ok(())
        } else {
            Err(Error::dtype(op, what, meta.dtype, "a floating dtype"))
        }
    }

    /// `meta` is in half precision.
    #[inline]
    pub fn half(op: &'static str, what: &'static str, meta: &Meta<'_>) -> Result<()> {
        if meta.dtype.is_half() {
            Ok(())
        } else {
            Err(Error::dtype(op, what, meta.dtype, crate::text![DType::F16, " or ", DType::BF16]))
        }
    }

    /// `meta` holds positions.
    #[inline]
    pub fn index(op: &'static str, what: &'static str, meta: &Meta<'_>) -> Result<()> {
        if meta.dtype.is_index() {
            Ok(())
        } else {
            Err(Error::dtype(op, what, meta.dtype, crate::text![DType::I32, " or ", DType::I64]))
        }
    }

    /// `meta` has this dtype.
    #[inline]
    pub fn dtype(op: &'static str, what: &'static str, meta: &Meta<'_>, dtype: DType) -> Result<()> {
        if meta.dtype == dtype { Ok(()) } else { Err(Error::dtype(op, what, meta.dtype, dtype)) }
    }

    /// Both have the same dtype.
    #[inline]
    pub fn same_dtype(op: &'static str, left: &Meta<'_>, right: &Meta<'_>) -> Result<()> {
        if left.dtype == right.dtype {
            Ok(())
        } else {
            Err(Error::DTypeMismatch { op, left: left.dtype, right: right.dtype })
        }
    }

    /// `meta` has this shape.
    #[inline]
    pub fn shape(op: &'static str, what: &'static str, meta: &Meta<'_>, expected: Shape) -> Result<()> {
        if *meta.shape() == expected {
            Ok(())
        } else {
            Err(Error::Shape { op, what, got: Box::new(*meta.shape()), expected: Box::new(expected) })
        }
    }

    /// `axis` exists.
    #[inline]
    pub fn axis(op: &'static str, axis: usize, shape: &Shape) -> Result<()> {
        if axis < shape.rank() {
            Ok(())
        } else {
            Err(Error::Axis { op, axis: axis as isize, shape: Box::new(*shape) })
        }
    }
}
