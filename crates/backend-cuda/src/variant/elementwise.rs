//! Variants of which each element depends on the elements at its index alone.

use super::dtypes::{SIZES, numbers};
use ternion_core::ops::binary::BinaryOp;
use ternion_core::ops::compare::CompareOp;
pub(crate) use ternion_core::ops::unary::UnaryFunction;
use ternion_core::{DType, UnaryOp};

/// Functions that are fused with a bias: those that layers have.
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

    /// The activation that this function is.
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
    /// Of a number and a tensor, the number is in the type that the op is computed in.
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
    /// Strided copies, and one number everywhere, for elements of the size of this dtype.
    Move(DType),
}

impl ElementwiseVariant {
    #[inline]
    pub(crate) fn unary(op: UnaryOp, dtype: DType) -> ElementwiseVariant {
        ElementwiseVariant::Unary { function: UnaryFunction(op), dtype }
    }

    #[inline]
    pub(crate) fn unary_grad(op: UnaryOp, dtype: DType) -> ElementwiseVariant {
        ElementwiseVariant::UnaryGrad { function: UnaryFunction(op), dtype }
    }

    /// Of two tensors.
    #[inline]
    pub(crate) fn binary(op: BinaryOp, dtype: DType) -> ElementwiseVariant {
        ElementwiseVariant::Binary { op, a: dtype, b: dtype, y: dtype }
    }
}

pub(super) fn variants() -> Vec<ElementwiseVariant> {
    let mut all = unary_variants();
    all.extend(binary_variants());
    for dtype in DType::ALL {
        all.extend(CompareOp::ALL.map(|op| ElementwiseVariant::Compare { op, dtype }));
        let others = DType::ALL.into_iter().filter(|&other| other != dtype);
        all.extend(others.map(|to| ElementwiseVariant::Cast { from: dtype, to }));
    }
    all.extend(numbers().map(ElementwiseVariant::MultiplyAdd));
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
            op if op.takes_integers() => numbers().collect(),
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
        for dtype in DType::ALL.into_iter().filter(|&dtype| op.takes(dtype)) {
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
