//! The recorded graph as a drawing for Graphviz.

use super::node::{Edge, Node};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

/// What [`Tensor::to_dot_with`] shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct DotOptions {
    /// Mean, standard deviation, extremes and counts of the values that are still there: those of the tensor itself, of the leaves that are
    /// still held by somebody, and of every tensor kept for backward. What an earlier backward has freed is marked so; results that no
    /// gradient needs are not kept, and not shown.
    pub statistics: bool,
}

impl Tensor {
    /// The graph that computed this tensor, in Graphviz's language: ops, shapes and dtypes.
    ///
    /// # Errors
    /// If nothing was recorded.
    pub fn to_dot(&self) -> Result<String> {
        self.to_dot_with(DotOptions::default())
    }

    /// As [`to_dot`](Tensor::to_dot), with options.
    ///
    /// # Errors
    /// If nothing was recorded, or an earlier op failed on the device.
    pub fn to_dot_with(&self, options: DotOptions) -> Result<String> {
        let Some(Edge { node: root, .. }) = &self.0.edge else {
            return Err(Error::Autograd("to_dot: nothing was recorded for this tensor".into()));
        };
        let mut text =
            String::from("digraph ternion {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\"];\n");
        let mut result = format!("result\\n{:?} {}", self.shape(), self.dtype());
        if options.statistics {
            result.push_str(&format!("\\nvalues: {}", self.detach().stats()?));
        }
        line(&mut text, format_args!("  result [label=\"{result}\", shape=ellipse];"));
        line(&mut text, format_args!("  n{} -> result;", root.id()));
        let mut seen = HashSet::from([root.id()]);
        let mut stack = vec![root.clone()];
        while let Some(node) = stack.pop() {
            describe(&mut text, &node, options)?;
            for (index, edge) in node.edges().iter().enumerate() {
                let Some(edge) = edge else { continue };
                let (shape, dtype) = node.input_kind(index);
                line(
                    &mut text,
                    format_args!("  n{} -> n{} [label=\"{shape:?} {dtype}\"];", edge.node.id(), node.id()),
                );
                if seen.insert(edge.node.id()) {
                    stack.push(edge.node.clone());
                }
            }
        }
        text.push_str("}\n");
        Ok(text)
    }
}

fn describe(text: &mut String, node: &Arc<Node>, options: DotOptions) -> Result<()> {
    let mut label = node.function().name().to_string();
    for index in 0..node.edges().len() {
        let (shape, dtype) = node.input_kind(index);
        label.push_str(&format!("\\n{shape:?} {dtype}"));
    }
    if options.statistics {
        for (what, tensor) in node.kept() {
            label.push_str(&format!("\\n{what}: {}", tensor.stats()?));
        }
        if node.is_freed() {
            label.push_str("\\nkept for backward: freed");
        }
    }
    let style = if node.is_leaf() { ", style=filled, fillcolor=lightblue" } else { "" };
    line(text, format_args!("  n{} [label=\"{label}\"{style}];", node.id()));
    Ok(())
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{arguments}");
}
