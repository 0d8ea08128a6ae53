//! Epilogues of matrix products.

use super::{FUSED_TILES, LoadMode, ROW_SUM_TILES, Tile};
use crate::variant::elementwise::Activation;
use smallvec::{SmallVec, smallvec};
use ternion_core::ops::matmul::Epilogue;
use ternion_core::{DType, UnaryOp};

/// An epilogue that a kernel is compiled with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum EpilogueVariant {
    /// Adds a bias to each column and applies relu, each if the call requests it. The bias of a
    /// call may be null, and relu is selected by a constant at run time.
    BiasRelu,
    /// Stores the biased sum, rounded, and its activation.
    PreActivation(Activation),
    /// Multiplies by the gradient of the activation at a pre-activation; for relu, at its result.
    ActivationGrad(Activation),
    /// Adds the bias and an f32 residual, which may be the previous content of the result's memory:
    /// an accumulator.
    Residual,
    /// Also computes the row sums of a. The product is stored unchanged, with or without split-K.
    RowSumsOfA,
}

impl EpilogueVariant {
    /// Activations that are fused with products and also return the pre-activation, because their
    /// gradients are functions of it.
    const ACTIVATIONS: [Activation; 3] = [Activation::GeluErf, Activation::GeluTanh, Activation::Silu];

    /// Activations whose gradients are fused with products.
    const GRADIENTS: [Activation; 4] =
        [Activation::GeluErf, Activation::GeluTanh, Activation::Silu, Activation::Relu];

    /// Returns the fused epilogue of a half-precision product, if `epilogue` is more than bias and
    /// relu and there is a kernel for it.
    pub(crate) fn fused(epilogue: &Epilogue) -> Option<EpilogueVariant> {
        let Epilogue { bias, activation, residual, accumulate, pre_activation, activation_grad, .. } =
            *epilogue;
        if epilogue.row_sums_of_a {
            return Some(EpilogueVariant::RowSumsOfA);
        }
        let listed = |op: UnaryOp, all: &[Activation]| {
            Activation::of(op).filter(|activation| all.contains(activation))
        };
        match (activation, activation_grad) {
            (Some(op), None) if pre_activation => {
                listed(op, &EpilogueVariant::ACTIVATIONS).map(EpilogueVariant::PreActivation)
            }
            (None, Some(op)) if !bias => {
                listed(op, &EpilogueVariant::GRADIENTS).map(EpilogueVariant::ActivationGrad)
            }
            (None, None) if residual != accumulate => Some(EpilogueVariant::Residual),
            _ => None,
        }
    }

    /// Returns the number of buffers of each consumer warp for the strips of 16 rows that it loads
    /// or stores.
    pub(super) fn buffers(self) -> usize {
        match self {
            EpilogueVariant::BiasRelu | EpilogueVariant::RowSumsOfA => 0,
            EpilogueVariant::PreActivation(_) | EpilogueVariant::ActivationGrad(_) => 4,
            EpilogueVariant::Residual => 3,
        }
    }

    /// Returns the dtypes of the result, for products of `operands`.
    pub(super) fn outputs(self, operands: DType) -> SmallVec<[DType; 2]> {
        match self {
            EpilogueVariant::Residual => smallvec![DType::F32],
            EpilogueVariant::RowSumsOfA => smallvec![operands, DType::F32],
            EpilogueVariant::BiasRelu
            | EpilogueVariant::PreActivation(_)
            | EpilogueVariant::ActivationGrad(_) => smallvec![operands],
        }
    }

    /// Returns the tiles that have this epilogue.
    pub(super) fn tiles(self) -> &'static [&'static Tile] {
        if self == EpilogueVariant::RowSumsOfA { &ROW_SUM_TILES } else { &FUSED_TILES }
    }

    /// Returns whether the two consumer warpgroups store slabs of 64 rows, instead of strips of 16
    /// rows that each warp stores.
    pub(super) fn stores_slabs(self) -> bool {
        matches!(self, EpilogueVariant::BiasRelu | EpilogueVariant::RowSumsOfA)
    }

    /// Returns the load modes of the products that have this epilogue: those of linear layers and
    /// of their gradients.
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
