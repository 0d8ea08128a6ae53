//! The recorded graph in Graphviz format.

use super::gradients::TensorId;
use super::node::{Edge, Node};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

/// Options of [`Tensor::to_dot_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct DotOptions<'a> {
    /// Whether to show mean, standard deviation, min, max and counts of the values that are still
    /// in memory: those of the tensor itself, of leaves that are still referenced, and of every
    /// saved tensor. Tensors that an earlier backward pass freed are marked as freed. Intermediate
    /// results that no gradient rule needs are not saved, and not shown.
    pub statistics: bool,
    /// Names of tensors, such as the parameters of a model. They are shown at the leaf, or at the
    /// op that computed the tensor.
    pub names: &'a [(String, Tensor)],
}

impl Tensor {
    /// Returns the graph that computed this tensor, in Graphviz's DOT language: ops and leaves with
    /// shapes and dtypes.
    ///
    /// # Errors
    /// Returns an error if nothing was recorded.
    pub fn to_dot(&self) -> Result<String> {
        self.to_dot_with(DotOptions::default())
    }

    /// Same as [`to_dot`](Tensor::to_dot), with options.
    ///
    /// # Errors
    /// Returns an error if nothing was recorded, or if an earlier op failed on the device.
    pub fn to_dot_with(&self, options: DotOptions<'_>) -> Result<String> {
        let Some(Edge { node: root, index }) = &self.0.edge else {
            return Err(Error::autograd("to_dot: nothing was recorded for this tensor"));
        };
        let mut writer = DotWriter::new(options);
        let mut result = format!("result\\n{:?} {}", self.shape(), self.dtype());
        if options.statistics {
            result.push_str(&format!("\\nvalues: {}", self.detach().stats()?));
        }
        writer.write_line(format_args!("  result [label=\"{result}\", shape=ellipse];"));
        writer.write_line(format_args!("  n{} -> result;", root.id()));
        writer.outputs.insert((root.id(), *index), format!("{:?} {}", self.shape(), self.dtype()));
        let nodes = writer.write_edges(root);
        nodes.iter().try_for_each(|node| writer.describe(node))?;
        writer.source.push_str("}\n");
        Ok(writer.source)
    }
}

/// Writes the DOT source of a graph.
struct DotWriter<'a> {
    source: String,
    options: DotOptions<'a>,
    /// The names from the options, by tensor.
    names: HashMap<TensorId, &'a str>,
    /// Shape and dtype of each used output, as recorded by the nodes that use it.
    outputs: BTreeMap<(u64, u32), String>,
}

impl<'a> DotWriter<'a> {
    fn new(options: DotOptions<'a>) -> DotWriter<'a> {
        let named = |(name, tensor): &'a (String, Tensor)| Some((tensor.id()?, name.as_str()));
        DotWriter {
            source: "digraph ternion {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\"];\n".into(),
            options,
            names: options.names.iter().filter_map(named).collect(),
            outputs: BTreeMap::new(),
        }
    }

    /// Writes all edges of the graph of `root`, and returns the graph's nodes.
    fn write_edges(&mut self, root: &Arc<Node>) -> Vec<Arc<Node>> {
        let mut visited = HashSet::from([root.id()]);
        let (mut stack, mut nodes) = (vec![root.clone()], Vec::new());
        while let Some(node) = stack.pop() {
            for (index, edge) in node.edges().iter().enumerate() {
                let Some(edge) = edge else { continue };
                let (shape, dtype) = node.input_kind(index);
                let kind = format!("{shape:?} {dtype}");
                self.write_line(format_args!("  n{} -> n{} [label=\"{kind}\"];", edge.node.id(), node.id()));
                self.outputs.insert((edge.node.id(), edge.index), kind);
                if visited.insert(edge.node.id()) {
                    stack.push(edge.node.clone());
                }
            }
            nodes.push(node);
        }
        nodes
    }

    /// Writes a node with its label: its op, and its used outputs with their names.
    fn describe(&mut self, node: &Arc<Node>) -> Result<()> {
        let mut label = node.function().name().to_string();
        for ((_, index), kind) in self.outputs.range((node.id(), 0)..=(node.id(), u32::MAX)) {
            let id = TensorId { node: node.id(), index: *index };
            let name = self.names.get(&id).map_or(String::new(), |name| format!("{} ", escape_quotes(name)));
            label.push_str(&format!("\\n{name}{kind}"));
        }
        if self.options.statistics {
            for (what, tensor) in node.saved_tensors() {
                label.push_str(&format!("\\n{what}: {}", tensor.stats()?));
            }
            if node.is_freed() {
                label.push_str("\\nkept for backward: freed");
            }
        }
        let style = if node.is_leaf() { ", style=filled, fillcolor=lightblue" } else { "" };
        self.write_line(format_args!("  n{} [label=\"{label}\"{style}];", node.id()));
        Ok(())
    }

    fn write_line(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.source, "{arguments}");
    }
}

/// Escapes a name for a quoted string.
fn escape_quotes(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}
