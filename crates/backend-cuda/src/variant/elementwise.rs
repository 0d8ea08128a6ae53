//! Variants of kernels in which each output element depends only on the input elements at its
//! index.

use super::dtypes::{SIZES, UNSIGNED, arithmetic_dtypes, wrapping_like};
use ternion_core::ops::binary::BinaryOp;
use ternion_core::ops::compare::CompareOp;
pub(crate) use ternion_core::ops::unary::UnaryFunction;
use ternion_core::{DType, UnaryOp};

/// Activations of layers, which are fused with a bias.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Activation {
    Relu,
    GeluErf,
    GeluTanh,
    Silu,
    Sigmoid,
    Tanh,
}

impl Activation {
    pub(crate) const ALL: [Activation; 6] = [
        Activation::Relu,
        Activation::GeluErf,
        Activation::GeluTanh,
        Activation::Silu,
        Activation::Sigmoid,
        Activation::Tanh,
    ];

    /// Returns the activation that computes this function, if there is one.
    #[inline]
    pub(crate) fn of(op: UnaryOp) -> Option<Activation> {
        match op {
            UnaryOp::Relu => Some(Activation::Relu),
            UnaryOp::GeluErf => Some(Activation::GeluErf),
            UnaryOp::GeluTanh => Some(Activation::GeluTanh),
            UnaryOp::Silu => Some(Activation::Silu),
            UnaryOp::Sigmoid => Some(Activation::Sigmoid),
            UnaryOp::Tanh => Some(Activation::Tanh),
            _ => None,
        }
    }

    pub(crate) fn function(self) -> UnaryOp {
        match self {
            Activation::Relu => UnaryOp::Relu,
            Activation::GeluErf => UnaryOp::GeluErf,
            Activation::GeluTanh => UnaryOp::GeluTanh,
            Activation::Silu => UnaryOp::Silu,
            Activation::Sigmoid => UnaryOp::Sigmoid,
            Activation::Tanh => UnaryOp::Tanh,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ElementwiseVariant {
    Unary {
        function: UnaryFunction,
        dtype: DType,
    },
    UnaryGrad {
        function: UnaryFunction,
        dtype: DType,
    },
    /// If one operand is a scalar, it has the dtype that the op is computed in.
    Binary {
        op: BinaryOp,
        a: DType,
        b: DType,
        y: DType,
    },
    /// `a * b + c`.
    MultiplyAdd(DType),
    /// `scale * a + b`.
    ScaleAdd(DType),
    AddRelu(DType),
    BiasActivation {
        activation: Activation,
        dtype: DType,
    },
    Compare {
        op: CompareOp,
        dtype: DType,
    },
    /// For elements of the size of this dtype.
    Select(DType),
    Cast {
        from: DType,
        to: DType,
    },
    /// Strided copies, and fills with one value, for elements of the size of this dtype.
    Move(DType),
}

impl ElementwiseVariant {
    #[inline]
    pub(crate) fn unary(op: UnaryOp, dtype: DType) -> ElementwiseVariant {
        let dtype = match op {
            UnaryOp::Neg | UnaryOp::Square => wrapping_like(dtype),
            _ => dtype,
        };
        ElementwiseVariant::Unary { function: UnaryFunction(op), dtype }
    }

    #[inline]
    pub(crate) fn unary_grad(op: UnaryOp, dtype: DType) -> ElementwiseVariant {
        ElementwiseVariant::UnaryGrad { function: UnaryFunction(op), dtype }
    }

    /// Returns the variant for two tensors.
    #[inline]
    pub(crate) fn binary(op: BinaryOp, dtype: DType) -> ElementwiseVariant {
        ElementwiseVariant::binary_of(op, [dtype; 2], dtype)
    }

    /// Returns the variant for a tensor and a scalar in either order. The scalar has the dtype that
    /// the op is computed in.
    #[inline]
    pub(crate) fn binary_of(op: BinaryOp, operands: [DType; 2], y: DType) -> ElementwiseVariant {
        let compiled = |dtype| match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul => wrapping_like(dtype),
            _ => dtype,
        };
        let [a, b] = operands.map(compiled);
        ElementwiseVariant::Binary { op, a, b, y: compiled(y) }
    }

    #[inline]
    pub(crate) fn compare(op: CompareOp, dtype: DType) -> ElementwiseVariant {
        let dtype = match op {
            CompareOp::Eq | CompareOp::Ne => wrapping_like(dtype),
            _ => dtype,
        };
        ElementwiseVariant::Compare { op, dtype }
    }

    /// Returns the variant of a cast, or `None` if the bits do not change.
    #[inline]
    pub(crate) fn cast(from: DType, to: DType) -> Option<ElementwiseVariant> {
        // Integers keep their low bits; floats saturate at the limits of the target dtype.
        let to = if from.is_float() { to } else { wrapping_like(to) };
        let truncates = to == DType::Bool || (to.is_int() && to.size() <= from.size());
        let from = if truncates { wrapping_like(from) } else { from };
        (from != to).then_some(ElementwiseVariant::Cast { from, to })
    }
}

pub(super) fn variants() -> Vec<ElementwiseVariant> {
    let mut all = unary_variants();
    all.extend(binary_variants());
    for dtype in DType::ALL {
        let compared = CompareOp::ALL.map(|op| ElementwiseVariant::Compare { op, dtype });
        all.extend(compared.into_iter().filter(|&variant| match variant {
            ElementwiseVariant::Compare { op, dtype } => ElementwiseVariant::compare(op, dtype) == variant,
            _ => false,
        }));
        all.extend(DType::ALL.into_iter().filter_map(|to| {
            let unchanged = ElementwiseVariant::Cast { from: dtype, to };
            ElementwiseVariant::cast(dtype, to).filter(|&variant| variant == unchanged)
        }));
    }
    all.extend(arithmetic_dtypes().map(ElementwiseVariant::MultiplyAdd));
    for dtype in DType::FLOATS {
        all.extend([ElementwiseVariant::ScaleAdd(dtype), ElementwiseVariant::AddRelu(dtype)]);
        all.extend(
            Activation::ALL.map(|activation| ElementwiseVariant::BiasActivation { activation, dtype }),
        );
    }
    all.extend(
        SIZES.into_iter().flat_map(|size| [ElementwiseVariant::Select(size), ElementwiseVariant::Move(size)]),
    );
    all
}

fn unary_variants() -> Vec<ElementwiseVariant> {
    let mut all = Vec::new();
    for op in UnaryOp::ALL {
        let dtypes: Vec<DType> = match op {
            UnaryOp::Not => vec![DType::Bool],
            // Negation and squares have no separate kernels for unsigned integers.
            UnaryOp::Neg | UnaryOp::Square => arithmetic_dtypes().collect(),
            op if op.takes_integers() => arithmetic_dtypes().chain(UNSIGNED).collect(),
            _ => DType::FLOATS.to_vec(),
        };
        all.extend(dtypes.iter().map(|&dtype| ElementwiseVariant::unary(op, dtype)));
        if op != UnaryOp::Not {
            all.extend(DType::FLOATS.map(|dtype| ElementwiseVariant::unary_grad(op, dtype)));
        }
    }
    all
}

fn binary_variants() -> Vec<ElementwiseVariant> {
    let mut all = Vec::new();
    for op in BinaryOp::ALL {
        let is_compiled = |dtype| {
            op.takes(dtype)
                && ElementwiseVariant::binary(op, dtype)
                    == ElementwiseVariant::Binary { op, a: dtype, b: dtype, y: dtype }
        };
        for dtype in DType::ALL.into_iter().filter(|&dtype| is_compiled(dtype)) {
            let wide = dtype.accumulator();
            all.push(ElementwiseVariant::binary(op, dtype));
            if wide != dtype {
                all.push(ElementwiseVariant::Binary { op, a: dtype, b: wide, y: dtype });
                all.push(ElementwiseVariant::Binary { op, a: wide, b: dtype, y: dtype });
            }
        }
    }
    all
}
