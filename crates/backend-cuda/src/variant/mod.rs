//! What kernels are compiled for: one [`Variant`] for each compilation.
//!
//! A variant consists of types: dtypes, tiles, load modes and supported architectures. Its source
//! (see `source`) contains them as macros. Ops choose one for each launch. `modules` looks up its
//! kernels by it, so it is small and its hash is cheap.
//!
//! To add matrix products or attention for another architecture, add an arm to their engine here
//! ([`gemm::Engine`], [`attention::Engine`]), whose [`Architectures`] say where it runs, and a file
//! in `kernels/`. For another op, add an arm to its family; its launch code then calls
//! [`Variant::is_for`].

mod architecture;
pub(crate) mod attention;
pub(crate) mod attention_ladder;
mod dtypes;
pub(crate) mod elementwise;
pub(crate) mod gemm;
pub(crate) mod index;
pub(crate) mod ladder;
pub(crate) mod loss;
pub(crate) mod norm;
pub(crate) mod reduction;
pub(crate) mod rows;
pub(crate) mod softmax;
pub(crate) mod step;

pub use architecture::Architecture;
pub(crate) use architecture::{Architectures, Capability};
pub(crate) use dtypes::{ACCESS, bits_like, pack_of, wrapping_like};

use attention::AttentionVariant;
use attention_ladder::AttentionLadderVariant;
use dtypes::{SIZES, arithmetic_dtypes};
use elementwise::ElementwiseVariant;
use gemm::GemmVariant;
use index::IndexVariant;
use ladder::LadderVariant;
use loss::LossVariant;
use norm::{BatchNormVariant, NormVariant};
use reduction::ReductionVariant;
use softmax::SoftmaxVariant;
use step::StepVariant;
use ternion_core::ops::{binary::BinaryOp, compare::CompareOp};
use ternion_core::{DType, UnaryOp};

/// The unit of compilation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Variant(pub(crate) KernelFamily);

/// A function in core's lists of functions, which a variant computes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ListedFunction {
    /// A function of one operand.
    Unary(UnaryOp),
    /// Its gradient.
    UnaryGrad(UnaryOp),
    /// A function of two operands.
    Binary(BinaryOp),
    /// A comparison.
    Compare(CompareOp),
}

/// A family of kernels, with the parameters of a variant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum KernelFamily {
    Elementwise(ElementwiseVariant),
    /// Tiled copies, for elements of the size of this dtype.
    Transpose(DType),
    /// Padding and concatenation, for elements of the size of this dtype.
    Assemble(DType),
    Iota(DType),
    RandomBits,
    Random(DType),
    Reduction(ReductionVariant),
    Softmax(SoftmaxVariant),
    Norm(NormVariant),
    BatchNorm(BatchNormVariant),
    Loss(LossVariant),
    Index(IndexVariant),
    Step(StepVariant),
    Attention(AttentionVariant),
    Gemm(GemmVariant),
    Pool(DType),
    /// im2col and col2im.
    Patches(DType),
    MultiTensorNorm(DType),
    /// The split of f32 operands into three bf16 terms, for the products of
    /// [`gemm::Engine::WgmmaBf16x6`].
    SplitBf16x3,
    /// Tests of the launch path; no op uses it.
    Probe,
    /// A product for study; no op uses it.
    Ladder(LadderVariant),
    /// Attention for study; no op uses it.
    AttentionLadder(AttentionLadderVariant),
}

macro_rules! families {
    ($($family:ident($variant:ident)),* $(,)?) => {
        $(impl From<$variant> for Variant {
            #[inline]
            fn from(variant: $variant) -> Variant {
                Variant(KernelFamily::$family(variant))
            }
        })*
    };
}
families! {
    Elementwise(ElementwiseVariant), Reduction(ReductionVariant), Softmax(SoftmaxVariant), Norm(NormVariant),
    BatchNorm(BatchNormVariant), Loss(LossVariant), Index(IndexVariant), Step(StepVariant),
    Attention(AttentionVariant), Gemm(GemmVariant), Ladder(LadderVariant),
    AttentionLadder(AttentionLadderVariant),
}

impl From<KernelFamily> for Variant {
    #[inline]
    fn from(family: KernelFamily) -> Variant {
        Variant(family)
    }
}

impl Variant {
    /// The variant that tests of the launch path use. It is not one of [`variants`].
    pub const PROBE: Variant = Variant(KernelFamily::Probe);

    /// Returns whether it supports this architecture.
    pub fn is_for(&self, architecture: Architecture) -> bool {
        self.architectures().contain(architecture)
    }

    /// Returns whether its kernels may begin before the previous launch has ended. Each of these
    /// kernels waits for the previous launch itself, because its source is compiled with DEPENDENT
    /// (`kernels/lib/launch.cuh`). Only this function decides which kernels are launched with the
    /// attribute of a dependent launch.
    #[inline]
    pub fn is_dependent(&self) -> bool {
        match self.0 {
            // These kernels are for study, and are measured individually.
            KernelFamily::Ladder(_) | KernelFamily::AttentionLadder(_) => false,
            KernelFamily::Elementwise(_)
            | KernelFamily::Transpose(_)
            | KernelFamily::Assemble(_)
            | KernelFamily::Iota(_)
            | KernelFamily::RandomBits
            | KernelFamily::Random(_)
            | KernelFamily::Reduction(_)
            | KernelFamily::Softmax(_)
            | KernelFamily::Norm(_)
            | KernelFamily::BatchNorm(_)
            | KernelFamily::Loss(_)
            | KernelFamily::Index(_)
            | KernelFamily::Step(_)
            | KernelFamily::Attention(_)
            | KernelFamily::Gemm(_)
            | KernelFamily::Pool(_)
            | KernelFamily::Patches(_)
            | KernelFamily::MultiTensorNorm(_)
            | KernelFamily::SplitBf16x3
            | KernelFamily::Probe => true,
        }
    }

    /// Returns whether its kernels may let the next one begin before they end. This excludes
    /// kernels whose blocks end at very different times: the blocks of the next kernel would
    /// accumulate on the multiprocessors whose blocks end first.
    pub(crate) fn may_trigger(&self) -> bool {
        self.is_dependent()
            && !matches!(self.0, KernelFamily::Gemm(_) | KernelFamily::Attention(_) | KernelFamily::Probe)
    }

    /// Returns the function of core's lists that it computes, if there is one.
    pub fn listed_function(&self) -> Option<ListedFunction> {
        match self.0 {
            KernelFamily::Elementwise(ElementwiseVariant::Unary { function, .. }) => {
                Some(ListedFunction::Unary(function.0))
            }
            KernelFamily::Elementwise(ElementwiseVariant::UnaryGrad { function, .. }) => {
                Some(ListedFunction::UnaryGrad(function.0))
            }
            KernelFamily::Elementwise(ElementwiseVariant::Binary { op, .. }) => {
                Some(ListedFunction::Binary(op))
            }
            KernelFamily::Elementwise(ElementwiseVariant::Compare { op, .. }) => {
                Some(ListedFunction::Compare(op))
            }
            _ => None,
        }
    }

    fn architectures(&self) -> Architectures {
        match self.0 {
            KernelFamily::Gemm(gemm) => gemm.tile.engine.architectures(),
            KernelFamily::Attention(attention) => attention.architectures(),
            KernelFamily::SplitBf16x3 => gemm::Engine::WgmmaBf16x6.architectures(),
            KernelFamily::Probe => Architectures::Minimum((9, 0)),
            KernelFamily::Ladder(ladder) => ladder.rung.architectures(),
            KernelFamily::AttentionLadder(ladder) => ladder.rung.architectures(),
            KernelFamily::Elementwise(_)
            | KernelFamily::Transpose(_)
            | KernelFamily::Assemble(_)
            | KernelFamily::Iota(_)
            | KernelFamily::RandomBits
            | KernelFamily::Random(_)
            | KernelFamily::Reduction(_)
            | KernelFamily::Softmax(_)
            | KernelFamily::Norm(_)
            | KernelFamily::BatchNorm(_)
            | KernelFamily::Loss(_)
            | KernelFamily::Index(_)
            | KernelFamily::Step(_)
            | KernelFamily::Pool(_)
            | KernelFamily::Patches(_)
            | KernelFamily::MultiTensorNorm(_) => Architectures::ALL,
        }
    }
}

/// Returns every variant that an op can use.
pub fn variants() -> Vec<Variant> {
    let mut all: Vec<Variant> = Vec::new();
    all.extend(elementwise::variants().into_iter().map(Variant::from));
    all.extend(reduction::variants().into_iter().map(Variant::from));
    all.extend(index::variants().into_iter().map(Variant::from));
    all.extend(step::variants().into_iter().map(Variant::from));
    all.extend(softmax::variants().into_iter().map(Variant::from));
    all.extend(norm::variants().into_iter().map(Variant::from));
    all.extend(norm::batch_norm_variants().into_iter().map(Variant::from));
    all.extend(loss::variants().into_iter().map(Variant::from));
    all.extend(attention::variants().into_iter().map(Variant::from));
    all.extend(gemm::variants().into_iter().map(Variant::from));
    all.extend(variants_by_dtype().into_iter().map(Variant::from));
    all
}

/// Returns every variant that no op uses: [`Variant::PROBE`], and those of the
/// [ladder](crate::ladder), of the [attention ladder](crate::attention_ladder) and of the
/// [study](crate::attention_study) of attention.
pub fn study_variants() -> Vec<Variant> {
    let ladders = ladder::variants().map(Variant::from);
    let attention_ladder_variants = attention_ladder::variants().map(Variant::from);
    let attention_study_variants = attention::study_variants().into_iter().map(Variant::from);
    std::iter::once(Variant::PROBE)
        .chain(ladders)
        .chain(attention_ladder_variants)
        .chain(attention_study_variants)
        .collect()
}

/// Returns the variants of families that have no parameter or only a dtype.
fn variants_by_dtype() -> Vec<KernelFamily> {
    let mut all = vec![KernelFamily::RandomBits, KernelFamily::SplitBf16x3];
    all.extend(
        SIZES.into_iter().flat_map(|size| [KernelFamily::Transpose(size), KernelFamily::Assemble(size)]),
    );
    all.extend(arithmetic_dtypes().map(KernelFamily::Iota));
    let of_floats =
        [KernelFamily::Random, KernelFamily::Pool, KernelFamily::Patches, KernelFamily::MultiTensorNorm];
    all.extend(of_floats.into_iter().flat_map(|family| DType::FLOATS.map(family)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_small() {
        assert!(
            size_of::<Variant>() <= 32,
            "{} bytes: each launch copies and hashes one",
            size_of::<Variant>()
        );
    }
}
