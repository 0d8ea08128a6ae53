//! Every op there is, by kind and name: those of an op that carries a choice, each.

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
    /// Which entry of the list of ops it is.
    pub kind: OpKind,
    /// The name that the op gives itself; empty if all of the kind share one.
    pub name: &'static str,
}

impl OpName {
    /// Whether `asked` is this op: of the same kind and, where names tell its choices apart, of the same name.
    pub fn matches(&self, asked: &OpName) -> bool {
        self.kind == asked.kind && (self.name.is_empty() || self.name == asked.name)
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

/// Every op of the list but those of other crates.
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
    // The remaining kinds have one name each: that of their stem.
    let others = OpKind::ALL.iter().filter(|kind| **kind != OpKind::Custom && !listed.contains(kind));
    all.extend(others.map(|&kind| OpName { kind, name: "" }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_of_the_op_list_is_there() {
        let all = every_op();
        for &kind in OpKind::ALL.iter().filter(|kind| **kind != OpKind::Custom) {
            assert!(all.iter().any(|op| op.kind == kind), "{kind:?}");
        }
    }
}
