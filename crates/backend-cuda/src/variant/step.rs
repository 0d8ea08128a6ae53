//! Variants of optimizer steps.

use ternion_core::DType;

/// The rule by which parameters are updated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum UpdateRule {
    Sgd,
    SgdMomentum,
    Adam,
}

/// The number of tensors that a launch has room for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Capacity {
    Few,
    /// For drivers that support 32 KiB of kernel parameters. For few tensors, it costs more to copy
    /// that many bytes than to launch the kernel.
    Many,
}

impl Capacity {
    /// As many tensors as fit into the 4 KiB of parameters that every driver supports.
    pub(crate) const FEW: usize = 64;
    pub(crate) const MANY: usize = 512;

    pub(crate) fn tensors(self) -> usize {
        match self {
            Capacity::Few => Capacity::FEW,
            Capacity::Many => Capacity::MANY,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StepVariant {
    pub(crate) rule: UpdateRule,
    pub(crate) capacity: Capacity,
    /// The dtype of the parameters.
    pub(crate) dtype: DType,
    /// The dtype of their half-precision copies, if they have any.
    pub(crate) half_copy: Option<DType>,
}

pub(super) fn variants() -> Vec<StepVariant> {
    let rules = [UpdateRule::Sgd, UpdateRule::SgdMomentum, UpdateRule::Adam];
    let mut all = Vec::new();
    for capacity in [Capacity::Few, Capacity::Many] {
        for dtype in DType::FLOATS {
            all.extend(rules.map(|rule| StepVariant { rule, capacity, dtype, half_copy: None }));
        }
        for half_copy in [DType::F16, DType::BF16].map(Some) {
            all.extend(rules.map(|rule| StepVariant { rule, capacity, dtype: DType::F32, half_copy }));
        }
    }
    all
}
