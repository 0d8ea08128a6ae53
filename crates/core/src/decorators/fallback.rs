//! A device that runs some ops on another device.

use super::snapshot::{Snapshot, run_on, write_back};
use crate::backend::{Backend, Meta, Plan, Unsupported, View};
use crate::delegate_backend;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::op::{Op, OpKind};
use crate::ops::binary::BinaryOp;
use crate::ops::compare::CompareOp;
use crate::ops::index::ScatterMode;
use crate::ops::reduce::ReduceOp;
use crate::ops::unary::UnaryOp;

/// Runs the named ops on another device, to continue in spite of a broken kernel, or to find out
/// which kernel is broken.
///
/// A name selects the op of that [`name`](Op::name) and its gradients: `softmax` selects `softmax`
/// and `softmax_grad`, `conv2d` selects `conv2d`, `conv2d_grad_input` and `conv2d_grad_weight`. The
/// name of an op from another crate has the prefix `custom.`. Inputs and outputs are copied through
/// the host. All other parts of an op (composition, allocation) are as on any device.
#[derive(Debug)]
pub struct Fallback {
    name: String,
    inner: Device,
    /// The device that runs `ops`.
    other: Device,
    /// The names of the ops, as the program or the environment variable lists them.
    ops: Vec<String>,
}

impl Fallback {
    /// Wraps `device` so that `ops` run on `other`.
    ///
    /// # Errors
    /// Returns an error if no op has one of the names. The message lists similar names.
    #[allow(clippy::new_ret_no_self, reason = "a decorator is used as the device that it makes")]
    pub fn new(device: Device, other: Device, ops: &[&str]) -> Result<Device> {
        for name in ops {
            check_name(name)?;
        }
        Ok(Device::new(Fallback {
            name: format!("fallback({device}, {other}: {})", ops.join(",")),
            inner: device,
            other,
            ops: ops.iter().map(ToString::to_string).collect(),
        }))
    }

    /// Returns whether `op` runs on the other device.
    fn falls_back(&self, op: &Op) -> bool {
        let name = op.name();
        self.ops.iter().any(|listed| match (op, listed.strip_prefix("custom.")) {
            (Op::Custom(_), listed) => listed == Some(name),
            (_, Some(_)) => false,
            (_, None) => name
                .strip_prefix(listed.as_str())
                .is_some_and(|rest| rest.is_empty() || rest == "_grad" || rest.starts_with("_grad_")),
        })
    }
}

impl Backend for Fallback {
    delegate_backend!(inner: alloc, upload, download, synchronize, memory, interop);

    fn name(&self) -> &str {
        &self.name
    }

    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        if !self.falls_back(op) {
            return self.inner.backend().plan(op, inputs);
        }
        // The other device composes ops without a kernel, so only a primitive can be unsupported
        // there.
        match self.other.backend().plan(op, inputs) {
            Err(unsupported) if op.is_primitive() => Err(unsupported),
            _ => Ok(Plan::ROW_MAJOR),
        }
    }

    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        if !self.falls_back(op) {
            return self.inner.backend().run(op, inputs, outputs);
        }
        let snapshots = Snapshot::of_all(self.inner.backend(), inputs)?;
        let results = run_on(op, &snapshots, &self.other)?;
        for (result, output) in results.iter().zip(outputs) {
            write_back(result, &self.inner, output)?;
        }
        Ok(())
    }
}

/// Names of methods that users may look for, with the names of the ops that they run.
const METHODS: &[(&str, &str)] = &[
    ("gelu", "gelu_erf, or gelu_tanh"),
    ("linear", "matmul"),
    ("addmm", "matmul"),
    ("einsum", "matmul"),
    ("embedding", "index_select"),
    ("scaled_dot_product_attention", "attention"),
    ("conv1d", "conv2d"),
    ("conv_transpose2d", "conv2d_grad_input"),
    ("scatter", "scatter_set"),
    ("masked_fill", "where"),
    ("to_dtype", "copy"),
    ("contiguous", "copy"),
    ("std", "var and sqrt"),
    ("arange", "iota"),
];

/// Returns the names of all ops of this crate, as in messages and `TERNION_FALLBACK`.
pub fn known_names() -> Vec<String> {
    let names_of = |&kind: &OpKind| match kind {
        OpKind::Unary => to_strings(UnaryOp::ALL.map(UnaryOp::name)),
        OpKind::UnaryGrad => to_strings(UnaryOp::ALL.map(UnaryOp::grad_name)),
        OpKind::Binary => to_strings(BinaryOp::ALL.map(BinaryOp::name)),
        OpKind::BinaryScalar => to_strings(BinaryOp::ALL.map(BinaryOp::scalar_name)),
        OpKind::Compare => to_strings(CompareOp::ALL.map(CompareOp::name)),
        OpKind::CompareScalar => to_strings(CompareOp::ALL.map(CompareOp::scalar_name)),
        OpKind::Reduce => to_strings(ReduceOp::ALL.map(ReduceOp::name)),
        OpKind::Scatter => to_strings(ScatterMode::ALL.map(ScatterMode::name)),
        OpKind::Select => to_strings(["where"]),
        OpKind::Variance => to_strings(["var"]),
        OpKind::CumulativeSum => to_strings(["cumsum"]),
        OpKind::Custom => Vec::new(),
        other => vec![snake_case(other.name())],
    };
    OpKind::ALL.iter().flat_map(names_of).collect()
}

fn to_strings<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_string).to_vec()
}

/// Converts `LayerNormGrad` to `layer_norm_grad`.
fn snake_case(name_in_list: &str) -> String {
    let mut name = String::new();
    for letter in name_in_list.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Returns an error, with similar names, if no op is called `name`.
fn check_name(name: &str) -> Result<()> {
    let known = known_names();
    if name.starts_with("custom.") || known.iter().any(|other| other == name) {
        return Ok(());
    }
    if let Some((_, ops)) = METHODS.iter().find(|(method, _)| *method == name) {
        return Err(Error::invalid("fallback", format!("{name} is a method, not an op; it runs as {ops}")));
    }
    let is_similar = |other: &&String| {
        let edits = distance(name, other);
        (edits <= 2 && edits < name.len())
            || (name.len() > 2 && (other.contains(name) || name.contains(other.as_str())))
    };
    let mut similar: Vec<&String> = known.iter().filter(is_similar).collect();
    similar.sort_by_key(|other| distance(name, other));
    similar.truncate(5);
    let hint = match similar.as_slice() {
        [] => "known are ".to_string() + &known.join(" "),
        similar => {
            format!("near it are {}", similar.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" "))
        }
    };
    Err(Error::invalid("fallback", format!("no op is called {name:?}; {hint}")))
}

/// Returns the number of letters to insert, delete or replace to turn one word into the other
/// (Levenshtein 1966).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}
