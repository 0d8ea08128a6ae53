//! All ops by kind and name. An op with a parameter that selects a function has one entry for each
//! function.

use std::fmt;
use ternion_core::op::{Op, OpKind};
use ternion_core::ops::binary::{Binary, BinaryOp, BinaryScalar, Side};
use ternion_core::ops::compare::{Compare, CompareOp, CompareScalar};
use ternion_core::ops::index::{Scatter, ScatterMode};
use ternion_core::ops::reduce::{Reduce, ReduceOp};
use ternion_core::ops::unary::{Unary, UnaryGrad, UnaryOp};
use ternion_core::{Scalar, shape::AxisSet};

/// An op as messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpName {
    /// Its entry in the list of ops.
    pub kind: OpKind,
    /// The op's name; empty if all ops of the kind share one.
    pub name: &'static str,
}

impl OpName {
    /// Returns whether `requested` is this op: of the same kind and, if names distinguish its
    /// variants, of the same name.
    pub fn matches(&self, requested: &OpName) -> bool {
        self.kind == requested.kind && (self.name.is_empty() || self.name == requested.name)
    }
}

impl fmt::Display for OpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            "" => f.write_str(self.kind.name()),
            name => write!(f, "{name} ({})", self.kind.name()),
        }
    }
}

/// Returns every op of the list except those of other crates.
pub fn every_op() -> Vec<OpName> {
    let mut all = Vec::new();
    let mut add = |op: Op| all.push(OpName { kind: op.kind(), name: op.name() });
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
    let listed: Vec<OpKind> = all.iter().map(|op| op.kind).collect();
    // The remaining kinds have one name each, which is their stem.
    let others = OpKind::ALL.iter().filter(|kind| **kind != OpKind::Custom && !listed.contains(kind));
    all.extend(others.map(|&kind| OpName { kind, name: "" }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_of_the_op_list_is_listed() {
        let all = every_op();
        for &kind in OpKind::ALL.iter().filter(|kind| **kind != OpKind::Custom) {
            assert!(all.iter().any(|op| op.kind == kind), "{kind:?}");
        }
    }
}
