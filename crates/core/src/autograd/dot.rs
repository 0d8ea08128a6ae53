//! The recorded graph as a drawing for Graphviz.

use super::gradients::TensorId;
use super::node::{Edge, Node};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

/// What [`Tensor::to_dot_with`] shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct DotOptions<'a> {
    /// Mean, standard deviation, extremes and counts of the values that are still there: those of the tensor itself, of the leaves that are
    /// still held by somebody, and of every tensor kept for backward. What an earlier backward has freed is marked so; results that no
    /// gradient needs are not kept, and not shown.
    pub statistics: bool,
    /// Names of tensors, such as the parameters of a model: shown at the leaf, or the op that computed it.
    pub names: &'a [(String, Tensor)],
}

impl Tensor {
    /// The graph that computed this tensor, in Graphviz's language: ops and leaves with shapes and dtypes.
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
    pub fn to_dot_with(&self, options: DotOptions<'_>) -> Result<String> {
        let Some(Edge { node: root, index }) = &self.0.edge else {
            return Err(Error::autograd("to_dot: nothing was recorded for this tensor"));
        };
        let mut drawing = Drawing::new(options);
        let mut result = format!("result\\n{:?} {}", self.shape(), self.dtype());
        if options.statistics {
            result.push_str(&format!("\\nvalues: {}", self.detach().stats()?));
        }
        drawing.line(format_args!("  result [label=\"{result}\", shape=ellipse];"));
        drawing.line(format_args!("  n{} -> result;", root.id()));
        drawing.outputs.insert((root.id(), *index), format!("{:?} {}", self.shape(), self.dtype()));
        let nodes = drawing.edges(root);
        nodes.iter().try_for_each(|node| drawing.describe(node))?;
        drawing.text.push_str("}\n");
        Ok(drawing.text)
    }
}

/// A drawing as far as it is written.
struct Drawing<'a> {
    text: String,
    options: DotOptions<'a>,
    names: HashMap<TensorId, &'a str>,
    /// Shape and dtype of each output that is used, as its users know it.
    outputs: BTreeMap<(u64, u32), String>,
}

impl<'a> Drawing<'a> {
    fn new(options: DotOptions<'a>) -> Drawing<'a> {
        let named = |(name, tensor): &'a (String, Tensor)| Some((tensor.id()?, name.as_str()));
        Drawing {
            text: "digraph ternion {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\"];\n".into(),
            options,
            names: options.names.iter().filter_map(named).collect(),
            outputs: BTreeMap::new(),
        }
    }

    /// Writes every edge that leads to `root`; the nodes.
    fn edges(&mut self, root: &Arc<Node>) -> Vec<Arc<Node>> {
        let mut seen = HashSet::from([root.id()]);
        let (mut stack, mut nodes) = (vec![root.clone()], Vec::new());
        while let Some(node) = stack.pop() {
            for (index, edge) in node.edges().iter().enumerate() {
                let Some(edge) = edge else { continue };
                let (shape, dtype) = node.input_kind(index);
                let kind = format!("{shape:?} {dtype}");
                self.line(format_args!("  n{} -> n{} [label=\"{kind}\"];", edge.node.id(), node.id()));
                self.outputs.insert((edge.node.id(), edge.index), kind);
                if seen.insert(edge.node.id()) {
                    stack.push(edge.node.clone());
                }
            }
            nodes.push(node);
        }
        nodes
    }

    /// Writes what a node is: its op, and the outputs that are used with their names.
    fn describe(&mut self, node: &Arc<Node>) -> Result<()> {
        let mut label = node.function().name().to_string();
        for ((_, index), kind) in self.outputs.range((node.id(), 0)..=(node.id(), u32::MAX)) {
            let id = TensorId { node: node.id(), index: *index };
            let name = self.names.get(&id).map_or(String::new(), |name| format!("{} ", escaped(name)));
            label.push_str(&format!("\\n{name}{kind}"));
        }
        if self.options.statistics {
            for (what, tensor) in node.kept() {
                label.push_str(&format!("\\n{what}: {}", tensor.stats()?));
            }
            if node.is_freed() {
                label.push_str("\\nkept for backward: freed");
            }
        }
        let style = if node.is_leaf() { ", style=filled, fillcolor=lightblue" } else { "" };
        self.line(format_args!("  n{} [label=\"{label}\"{style}];", node.id()));
        Ok(())
    }

    fn line(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{arguments}");
    }
}

/// As it stands between quotes.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}
