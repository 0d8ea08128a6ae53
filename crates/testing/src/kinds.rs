//! Every op there is, by variant and name: the kinds of an op that carries a choice, each.

use std::fmt;
use ternion_core::Op;
use ternion_core::ops::binary::{Binary, BinaryOp, BinaryScalar, Side};
use ternion_core::ops::compare::{Compare, CompareOp, CompareScalar};
use ternion_core::ops::index::{Scatter, ScatterMode};
use ternion_core::ops::reduce::{Reduce, ReduceOp};
use ternion_core::ops::unary::{Unary, UnaryGrad, UnaryOp};
use ternion_core::{Scalar, shape::AxisSet};

/// An op as messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpName {
    /// The variant of [`Op`].
    pub variant: &'static str,
    /// The name that the op gives itself; empty if all of the variant share one.
    pub name: &'static str,
}

impl OpName {
    /// Whether `asked` is this op: of the same variant and, where names tell kinds apart, of the same name.
    pub fn matches(&self, asked: &OpName) -> bool {
        self.variant == asked.variant && (self.name.is_empty() || self.name == asked.name)
    }
}

impl fmt::Display for OpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            "" => f.write_str(self.variant),
            name => write!(f, "{name} ({})", self.variant),
        }
    }
}

/// Every op of the list but those of other crates.
pub fn every_op() -> Vec<OpName> {
    let mut all = Vec::new();
    let mut add = |op: Op| all.push(OpName { variant: op.variant(), name: op.name() });
    for op in UnaryOp::ALL {
        add(Op::Unary(Unary { op }));
        if op.has_grad_op() {
            add(Op::UnaryGrad(UnaryGrad { op }));
        }
    }
    for op in BinaryOp::ALL {
        add(Op::Binary(Binary { op }));
        if !op.is_logical() && op != BinaryOp::Atan2 {
            add(Op::BinaryScalar(BinaryScalar { op, scalar: Scalar::Float(0.0), side: Side::Left }));
        }
    }
    for op in CompareOp::ALL {
        add(Op::Compare(Compare { op }));
        add(Op::CompareScalar(CompareScalar { op, scalar: Scalar::Float(0.0) }));
    }
    for op in ReduceOp::ALL {
        add(Op::Reduce(Reduce { op, axes: AxisSet::EMPTY, keep: false }));
    }
    for mode in ScatterMode::ALL {
        add(Op::Scatter(Scatter { axis: 0, mode }));
    }
    let listed: Vec<&str> = all.iter().map(|op| op.variant).collect();
    // The remaining variants have one name each: that of their stem.
    let others = Op::VARIANTS.iter().filter(|variant| **variant != "Custom" && !listed.contains(variant));
    all.extend(others.map(|&variant| OpName { variant, name: "" }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_of_the_op_list_is_there() {
        let all = every_op();
        for &variant in Op::VARIANTS.iter().filter(|variant| **variant != "Custom") {
            assert!(all.iter().any(|op| op.variant == variant), "{variant}");
        }
    }
}
