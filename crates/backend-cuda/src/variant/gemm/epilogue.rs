//! What kernels of products do to their sums.

use super::{FUSED_TILES, LoadMode, ROW_SUM_TILES, Tile};
use crate::variant::elementwise::Activation;
use smallvec::{SmallVec, smallvec};
use ternion_core::ops::matmul::Epilogue;
use ternion_core::{DType, UnaryOp};

/// What is done to a product before it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum EpilogueVariant {
    /// Adds a bias to each column, then applies relu: each if the call asks for it. The bias of a call may be null,
    /// and relu is switched by a constant at run time.
    BiasRelu,
    /// Stores the biased sum, rounded, and its activation.
    PreActivation(Activation),
    /// Multiplies by the gradient of the activation at a pre-activation; of relu, at its result.
    ActivationGrad(Activation),
    /// Adds the bias and a residual of f32, which may be what the result's memory held: an accumulator.
    Residual,
    /// Adds up the rows of a beside the product, which is stored as it is, in one part or several.
    RowSumsOfA,
}

impl EpilogueVariant {
    /// The activations that are fused with products and give the pre-activation, too: their gradients are functions of it.
    const ACTIVATIONS: [Activation; 3] = [Activation::GeluErf, Activation::GeluTanh, Activation::Silu];

    /// Those whose gradients are fused with products.
    const GRADIENTS: [Activation; 4] =
        [Activation::GeluErf, Activation::GeluTanh, Activation::Silu, Activation::Relu];

    /// What a product of half precision is fused with for an epilogue that is more than bias and relu.
    pub(crate) fn fused(epilogue: &Epilogue) -> Option<EpilogueVariant> {
        let Epilogue { bias, activation, residual, accumulate, pre_activation, activation_grad, .. } =
            *epilogue;
        if epilogue.row_sums_of_a {
            return Some(EpilogueVariant::RowSumsOfA);
        }
        let of = |op: UnaryOp, all: &[Activation]| {
            Activation::of(op).filter(|activation| all.contains(activation))
        };
        match (activation, activation_grad) {
            (Some(op), None) if pre_activation => {
                of(op, &EpilogueVariant::ACTIVATIONS).map(EpilogueVariant::PreActivation)
            }
            (None, Some(op)) if !bias => {
                of(op, &EpilogueVariant::GRADIENTS).map(EpilogueVariant::ActivationGrad)
            }
            (None, None) if residual != accumulate => Some(EpilogueVariant::Residual),
            _ => None,
        }
    }

    /// Buffers of a warp's strips.
    pub(super) fn buffers(self) -> usize {
        match self {
            EpilogueVariant::BiasRelu | EpilogueVariant::RowSumsOfA => 0,
            EpilogueVariant::PreActivation(_) | EpilogueVariant::ActivationGrad(_) => 4,
            EpilogueVariant::Residual => 3,
        }
    }

    /// The dtypes of what is stored, of products of `operands`.
    pub(super) fn outputs(self, operands: DType) -> SmallVec<[DType; 2]> {
        match self {
            EpilogueVariant::Residual => smallvec![DType::F32],
            EpilogueVariant::RowSumsOfA => smallvec![operands, DType::F32],
            EpilogueVariant::BiasRelu
            | EpilogueVariant::PreActivation(_)
            | EpilogueVariant::ActivationGrad(_) => smallvec![operands],
        }
    }

    /// The tiles that have it.
    pub(super) fn tiles(self) -> &'static [&'static Tile] {
        if self == EpilogueVariant::RowSumsOfA { &ROW_SUM_TILES } else { &FUSED_TILES }
    }

    /// Whether slabs of two consumers are stored as they are, and not strips of their warps.
    pub(super) fn stores_slabs(self) -> bool {
        matches!(self, EpilogueVariant::BiasRelu | EpilogueVariant::RowSumsOfA)
    }

    /// How operands come in the products that have this epilogue: those of linear layers and of their gradients.
    pub(super) fn loads(self) -> &'static [[LoadMode; 2]] {
        const FORWARD: [LoadMode; 2] = [LoadMode::KMajor, LoadMode::KMajor];
        const INPUT_GRAD: [LoadMode; 2] = [LoadMode::KMajor, LoadMode::MnMajor];
        const WEIGHT_GRAD: [LoadMode; 2] = [LoadMode::MnMajor, LoadMode::MnMajor];
        match self {
            EpilogueVariant::BiasRelu => &[],
            EpilogueVariant::PreActivation(_) => &[FORWARD],
            EpilogueVariant::ActivationGrad(_) => &[INPUT_GRAD],
            EpilogueVariant::Residual => &[FORWARD, INPUT_GRAD, WEIGHT_GRAD],
            EpilogueVariant::RowSumsOfA => &[WEIGHT_GRAD],
        }
    }

    pub(super) fn all_fused() -> impl Iterator<Item = EpilogueVariant> {
        let activations = EpilogueVariant::ACTIVATIONS.into_iter().map(EpilogueVariant::PreActivation);
        activations
            .chain(EpilogueVariant::GRADIENTS.into_iter().map(EpilogueVariant::ActivationGrad))
            .chain([EpilogueVariant::Residual, EpilogueVariant::RowSumsOfA])
    }
}
