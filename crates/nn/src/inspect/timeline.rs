//! Timelines of layers, ops, backward passes and optimizer steps, as spans for trace viewers or for
//! `tracing`.

use crate::formats::atomic_write::write_atomic;
use crate::module::{Module, observe_layer_events};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;
use ternion_core::trace::{Span, SpanKind, SpanSink, with_sink};
use ternion_core::{Error, Result};
use tracing::span::EnteredSpan;

/// Runs `f`. `sink` receives the layers of `model`, with their keys, and all other spans of
/// [`with_sink`] on this thread.
///
/// ```
/// use std::rc::Rc;
/// use ternion_core::{DType, Result, Tensor};
/// use ternion_nn::{Forward, Mlp, Module, Timeline, trace};
///
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// # let path = std::env::temp_dir().join(format!("ternion-trace-{}.json", std::process::id()));
/// let model = Mlp::new([4, 8, 2], &device)?;
/// let timeline = Rc::new(Timeline::new());
/// let step = || model.forward(&Tensor::ones([3, 4], DType::F32, &device)?)?.sum_all()?.backward();
/// trace(&model, timeline.clone(), step)?;
/// timeline.write_chrome(&path)?; // for ui.perfetto.dev or chrome://tracing
/// # std::fs::remove_file(&path).ok();
/// # Ok(())
/// # }
/// ```
pub fn trace<M: Module + ?Sized, T>(model: &M, sink: Rc<dyn SpanSink>, f: impl FnOnce() -> T) -> T {
    observe_layer_events(model, |_| Ok(()), || with_sink(sink, f))
}

/// The beginning of a span, with the index of its name, or (`None`) the end of the last open span.
struct Event {
    at_ns: u64,
    name: Option<usize>,
}

/// A name that several spans can share.
struct SpanName {
    kind: SpanKind,
    name: String,
    key: String,
}

#[derive(Default)]
struct Events {
    names: Vec<SpanName>,
    indices: HashMap<(SpanKind, String, String), usize>,
    events: Vec<Event>,
}

/// Spans with their times, stored in memory: about 32 bytes for each. Times are the host's: see
/// [`SpanSink`].
pub struct Timeline {
    start: Instant,
    events: RefCell<Events>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { start: Instant::now(), events: RefCell::default() }
    }
}

/// How often spans of one name ran, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanTotal {
    /// What the spans represent.
    pub kind: SpanKind,
    /// The label, as in the timeline: `layers.0 (Linear)`, `matmul`, `matmul backward`.
    pub label: String,
    /// The number of spans that ended.
    pub count: usize,
    /// The time from beginning to end, in nanoseconds, summed over the spans.
    pub total_ns: u64,
    /// `total_ns` without the time in nested spans.
    pub own_ns: u64,
}

impl Timeline {
    /// Creates an empty timeline that starts now.
    pub fn new() -> Timeline {
        Timeline::default()
    }

    /// Returns the number of spans that have ended.
    pub fn len(&self) -> usize {
        self.events.borrow().events.iter().filter(|event| event.name.is_none()).count()
    }

    /// Whether no span has ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the times by name, in descending order of [`own_ns`](SpanTotal::own_ns).
    pub fn totals(&self) -> Vec<SpanTotal> {
        let Events { names, events, .. } = &*self.events.borrow();
        let total = |name: &SpanName| SpanTotal {
            kind: name.kind,
            label: name.span().to_string(),
            count: 0,
            total_ns: 0,
            own_ns: 0,
        };
        let mut totals: Vec<SpanTotal> = names.iter().map(total).collect();
        // For each open span: its name, its beginning, and the time in nested spans.
        let mut open: Vec<(usize, u64, u64)> = Vec::new();
        for event in events {
            if let Some(name) = event.name {
                open.push((name, event.at_ns, 0));
            } else if let Some((name, begin, nested)) = open.pop() {
                let duration = event.at_ns - begin;
                totals[name].count += 1;
                totals[name].total_ns += duration;
                totals[name].own_ns += duration - nested;
                open.last_mut().into_iter().for_each(|(.., nested)| *nested += duration);
            }
        }
        totals.retain(|total| total.count > 0);
        totals.sort_by(|one, other| other.own_ns.cmp(&one.own_ns).then_with(|| one.label.cmp(&other.label)));
        totals
    }

    /// Writes the spans as a Chrome trace (Google, "Trace Event Format": a begin and an end event
    /// for each), which ui.perfetto.dev and chrome://tracing display. Spans that are still open end
    /// with the last event. The file is written under a temporary name and renamed when it is
    /// complete.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write_chrome(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let text = self.chrome().to_string();
        write_atomic(path, text.as_bytes())
            .map_err(|error| Error::file_system(path, "cannot be written", &error))
    }

    fn chrome(&self) -> Value {
        let Events { names, events, .. } = &*self.events.borrow();
        let microseconds = |at_ns: u64| at_ns as f64 / 1000.0;
        let end = |at_ns: u64| json!({ "ph": "E", "ts": microseconds(at_ns), "pid": 1, "tid": 1 });
        let mut lines: Vec<Value> = Vec::with_capacity(events.len());
        let (mut open, mut last) = (0, 0);
        for event in events {
            last = event.at_ns;
            lines.push(match event.name.map(|name| &names[name]) {
                Some(name) => {
                    open += 1;
                    json!({
                        "ph": "B", "ts": microseconds(event.at_ns), "pid": 1, "tid": 1,
                        "name": name.span().to_string(), "cat": name.kind.name(),
                        "args": { "key": name.key, "kind": name.name },
                    })
                }
                None => {
                    open -= 1;
                    end(event.at_ns)
                }
            });
        }
        lines.extend((0..open).map(|_| end(last)));
        json!({ "traceEvents": lines, "displayTimeUnit": "ns" })
    }

    fn record(&self, name_index: impl FnOnce(&mut Events) -> Option<usize>) {
        let mut events = self.events.borrow_mut();
        let name = name_index(&mut events);
        // Read the clock last, so that the time for recording the beginning is not part of the
        // span.
        let at_ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        events.events.push(Event { at_ns, name });
    }
}

impl SpanName {
    fn span(&self) -> Span<'_> {
        Span { kind: self.kind, name: &self.name, key: &self.key }
    }
}

impl Events {
    fn name_index(&mut self, span: &Span<'_>) -> usize {
        let key = (span.kind, span.name.to_owned(), span.key.to_owned());
        *self.indices.entry(key).or_insert_with(|| {
            self.names.push(SpanName {
                kind: span.kind,
                name: span.name.to_owned(),
                key: span.key.to_owned(),
            });
            self.names.len() - 1
        })
    }
}

impl SpanSink for Timeline {
    fn begin(&self, span: &Span<'_>) {
        self.record(|events| Some(events.name_index(span)));
    }

    fn end(&self) {
        self.record(|_| None);
    }
}

/// Passes spans on to the subscriber of the `tracing` crate: the target is `ternion`, the span name
/// is their kind, and the fields are `name` and `key`. Ops and nodes have the level TRACE, all
/// others DEBUG.
#[derive(Default)]
pub struct TracingSpans(RefCell<Vec<EnteredSpan>>);

impl SpanSink for TracingSpans {
    fn begin(&self, span: &Span<'_>) {
        let Span { name, key, .. } = *span;
        let span = match span.kind {
            SpanKind::Layer => tracing::debug_span!(target: "ternion", "layer", name, key),
            SpanKind::Backward => tracing::debug_span!(target: "ternion", "backward", name, key),
            SpanKind::Step => tracing::debug_span!(target: "ternion", "step", name, key),
            SpanKind::Other => tracing::debug_span!(target: "ternion", "other", name, key),
            SpanKind::Op => tracing::trace_span!(target: "ternion", "op", name, key),
            SpanKind::Node => tracing::trace_span!(target: "ternion", "node", name, key),
        };
        self.0.borrow_mut().push(span.entered());
    }

    fn end(&self) {
        let ended = self.0.borrow_mut().pop();
        drop(ended);
    }
}
