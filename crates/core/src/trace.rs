//! Spans: time intervals in which an op, a node of a backward pass or an optimizer step runs. They
//! are reported to the installed [`SpanSink`]s.

use crate::observe;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpanKind {
    /// The forward pass of a layer.
    Layer,
    /// An op that is called, whether the device runs or composes it.
    Op,
    /// A whole backward pass.
    Backward,
    /// The gradient of one node, inside a backward pass.
    Node,
    /// An optimizer step.
    Step,
    /// A section of a program, with a name that the program chooses.
    Other,
}

impl SpanKind {
    /// Returns the name in one word.
    pub const fn name(self) -> &'static str {
        match self {
            SpanKind::Layer => "layer",
            SpanKind::Op => "op",
            SpanKind::Backward => "backward",
            SpanKind::Node => "node",
            SpanKind::Step => "step",
            SpanKind::Other => "other",
        }
    }
}

/// A span that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<'a> {
    /// The kind of the span.
    pub kind: SpanKind,
    /// The type of the layer, or the name of the op or optimizer.
    pub name: &'a str,
    /// The key of the layer in its model; empty for other spans.
    pub key: &'a str,
}

impl fmt::Display for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.key, self.kind) {
            ("", SpanKind::Node) => write!(f, "{} backward", self.name),
            ("", _) => f.write_str(self.name),
            (key, _) => write!(f, "{key} ({})", self.name),
        }
    }
}

/// A receiver of spans. Spans nest: each `end` belongs to the most recent span that began and has
/// not ended, also after an error.
///
/// A span measures time on the host, which submits work to a GPU and continues. When the GPU runs
/// the work is recorded by the GPU's profiler; a sink can pass the spans to it.
pub trait SpanSink {
    /// Called when a span begins.
    fn begin(&self, span: &Span<'_>);

    /// Called when the most recent span ends.
    fn end(&self);
}

thread_local! {
    static TRACED: Cell<bool> = const { Cell::new(false) };
    static SINKS: RefCell<Vec<Rc<dyn SpanSink>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f`. During it, `sink` is notified of the ops, backward passes and optimizer steps of this
/// thread. There can be several sinks at a time.
///
/// Layers are reported by `ternion_nn::trace`, which knows their keys. Without a sink, spans add no
/// cost to an op, and one check of a flag to a node or an optimizer step.
pub fn with_sink<T>(sink: Rc<dyn SpanSink>, f: impl FnOnce() -> T) -> T {
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            SINKS.with_borrow_mut(Vec::pop);
            TRACED.set(self.0);
        }
    }
    SINKS.with_borrow_mut(|sinks| sinks.push(sink));
    let _leave = Leave(TRACED.replace(true));
    let _restore = observe::observe_scope();
    f()
}

/// Returns whether there is a sink on this thread.
#[inline]
pub fn is_traced() -> bool {
    TRACED.get()
}

/// Runs `f` as a span, if there is a sink.
#[inline]
pub fn in_span<T>(kind: SpanKind, name: &str, key: &str, f: impl FnOnce() -> T) -> T {
    if is_traced() { with_span(&Span { kind, name, key }, f) } else { f() }
}

#[cold]
fn with_span<T>(span: &Span<'_>, f: impl FnOnce() -> T) -> T {
    /// Ends the span, also if `f` panics.
    struct End(Vec<Rc<dyn SpanSink>>);
    impl Drop for End {
        fn drop(&mut self) {
            self.0.iter().rev().for_each(|sink| sink.end());
        }
    }
    let sinks = SINKS.with_borrow(Clone::clone);
    sinks.iter().for_each(|sink| sink.begin(span));
    let _end = End(sinks);
    f()
}
