//! Spans of time: which op, which node of a backward pass, which step of an optimiser runs from when to when. They are told to a [`SpanSink`] while one listens.

use crate::observe;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpanKind {
    /// The forward of a layer.
    Layer,
    /// An op that is called, whether the device runs or composes it.
    Op,
    /// A whole backward pass.
    Backward,
    /// The gradient of one node, inside a backward pass.
    Node,
    /// A step of an optimiser.
    Step,
    /// A part of a program that names itself.
    Other,
}

impl SpanKind {
    /// One word for it.
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
    /// What it is of.
    pub kind: SpanKind,
    /// The type of the layer, the name of the op or of the optimiser.
    pub name: &'a str,
    /// The key of the layer in its model; empty where there is none.
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

/// Who is told of spans. They nest: each `end` is that of the last span that began and has not ended, also where something fails.
///
/// Times are those of the host, which queues work for a GPU and goes on. What the GPU does when is told by its profiler, to which a sink can pass the spans on.
pub trait SpanSink {
    /// A span begins.
    fn begin(&self, span: &Span<'_>);

    /// The last span that began ends.
    fn end(&self);
}

thread_local! {
    static TRACED: Cell<bool> = const { Cell::new(false) };
    static SINKS: RefCell<Vec<Rc<dyn SpanSink>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f`; `sink` is told of the ops, backward passes and steps of optimisers of this thread inside it. Several sinks may listen at a time.
///
/// Layers are told by `ternion_nn::trace`, which knows their keys. While no sink listens, an op costs what it cost without spans, a node and a step one flag read more.
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
    let _restore = observe::watched();
    f()
}

/// Whether a sink listens on this thread.
#[inline]
pub fn is_traced() -> bool {
    TRACED.get()
}

/// Runs `f` as a span, if a sink listens.
#[inline]
pub fn in_span<T>(kind: SpanKind, name: &str, key: &str, f: impl FnOnce() -> T) -> T {
    if is_traced() { told(&Span { kind, name, key }, f) } else { f() }
}

#[cold]
fn told<T>(span: &Span<'_>, f: impl FnOnce() -> T) -> T {
    /// Ends the span where a panic leaves `f`, too.
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
