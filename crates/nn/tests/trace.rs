//! Spans are nested and balanced, and name their layer, op, node and step.

use serde_json::Value;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use ternion_core::trace::{Span, SpanKind, SpanSink, in_span, with_sink};
use ternion_core::{DType, Device, Reduction, Result, Tensor};
use ternion_nn::optim::{AdamW, AdamWConfig, Optimizer};
use ternion_nn::{
    Forward, Linear, Mlp, Module, ReLU, Sequential, Timeline, TracingSpans, observe_layers, trace,
};

fn device() -> Device {
    let device = ternion_cpu::device();
    device.seed(11);
    device
}

/// Spans as an indented tree.
#[derive(Default)]
struct Tree {
    depth: RefCell<usize>,
    lines: RefCell<Vec<String>>,
}

impl SpanSink for Tree {
    fn begin(&self, span: &Span<'_>) {
        let indent = " ".repeat(*self.depth.borrow());
        self.lines.borrow_mut().push(format!("{indent}{} {span}", span.kind.name()));
        *self.depth.borrow_mut() += 1;
    }

    fn end(&self) {
        *self.depth.borrow_mut() -= 1;
    }
}

fn model(device: &Device) -> Result<Sequential> {
    Ok(Sequential::new().with(Linear::new(3, 4, device)?).with(ReLU).with(Linear::new(4, 2, device)?))
}

fn step(model: &Sequential, adam: &mut AdamW, input: &Tensor) -> Result<()> {
    let loss = model.forward(input)?.mse_loss(&input.narrow(1, 0, 2)?, Reduction::Sum)?;
    adam.step(&loss.backward()?)
}

#[test]
fn a_training_step_is_reported_in_nested_spans() -> Result<()> {
    let device = device();
    let model = model(&device)?;
    let input = Tensor::randn([5, 3], DType::F32, &device)?;
    let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
    let tree = Rc::new(Tree::default());
    trace(&model, tree.clone(), || step(&model, &mut adam, &input))?;
    assert_eq!(*tree.depth.borrow(), 0);
    let lines = tree.lines.borrow().clone();
    let forward =
        ["layer 0 (Linear)", " op matmul", "layer 1 (ReLU)", " op relu", "layer 2 (Linear)", " op matmul"];
    assert_eq!(lines[..6], forward, "{lines:#?}");
    let at = |line: &str| {
        lines.iter().position(|other| other == line).unwrap_or_else(|| panic!("{line} in {lines:#?}"))
    };
    assert!(at("backward backward") < at(" node matmul backward"));
    assert!(at(" node matmul backward") < at(" node relu backward"));
    assert_eq!(lines.iter().filter(|line| *line == " node matmul backward").count(), 2);
    assert!(lines.iter().any(|line| line == "  op relu_grad"), "{lines:#?}");
    assert!(at(" node relu backward") < at("step adamw"));
    assert_eq!(lines[at("step adamw")..], ["step adamw", " op adam_step"], "{lines:#?}");
    // The sink is no longer installed.
    step(&model, &mut adam, &input)?;
    assert_eq!(tree.lines.borrow().len(), lines.len());
    Ok(())
}

#[test]
fn spans_end_on_errors_and_several_sinks_are_notified() -> Result<()> {
    let device = device();
    let model = model(&device)?;
    let (outer, inner) = (Rc::new(Tree::default()), Rc::new(Tree::default()));
    let wrong = Tensor::ones([5, 7], DType::F32, &device)?;
    let failed = trace(&model, outer.clone(), || with_sink(inner.clone(), || model.forward(&wrong)));
    assert!(failed.is_err());
    assert_eq!((*outer.depth.borrow(), *inner.depth.borrow()), (0, 0));
    assert_eq!(*outer.lines.borrow(), ["layer 0 (Linear)"], "the op is rejected before it runs");
    assert_eq!(*outer.lines.borrow(), *inner.lines.borrow());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        with_sink(outer.clone(), || {
            in_span(SpanKind::Other, "mine", "", || assert!(wrong.rank() == 1, "no"))
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(*outer.depth.borrow(), 0);
    // A layer observer within a trace does not hide layers from the trace, nor the other way round.
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    let record = move |call: &ternion_nn::LayerCall, _: &Tensor| {
        log.borrow_mut().push(call.key.clone());
        Ok(())
    };
    let (tree, x) = (Rc::new(Tree::default()), Tensor::ones([1, 3], DType::F32, &device)?);
    trace(&model, tree.clone(), || observe_layers(&model, record, || model.forward(&x)))?;
    assert_eq!(*seen.borrow(), ["0", "1", "2"]);
    assert_eq!(tree.lines.borrow().iter().filter(|line| line.starts_with("layer")).count(), 3);
    Ok(())
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ternion-{name}-{}.json", std::process::id()))
}

/// Checks as a viewer reads it that every begin event has an end event, times do not decrease, and
/// each end event closes the last open span.
fn check_chrome(text: &str) -> (Vec<(String, String, usize)>, usize) {
    let trace: Value = serde_json::from_str(text).expect("JSON");
    let (mut open, mut last, mut spans, mut deepest) = (0, 0.0, Vec::new(), 0);
    for event in trace["traceEvents"].as_array().expect("a list of events") {
        let at = event["ts"].as_f64().expect("a time");
        assert!(at >= last, "{at} after {last}");
        last = at;
        assert!(event["pid"].is_u64() && event["tid"].is_u64());
        match event["ph"].as_str() {
            Some("B") => {
                let text = |value: &Value| value.as_str().expect("text").to_owned();
                spans.push((text(&event["cat"]), text(&event["name"]), open));
                open += 1;
                deepest = deepest.max(open);
            }
            Some("E") => open = usize::checked_sub(open, 1).expect("an end without a begin"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(open, 0, "a begin without an end");
    (spans, deepest)
}

#[test]
fn a_timeline_is_a_chrome_trace() -> Result<()> {
    let device = device();
    let model = model(&device)?;
    let input = Tensor::randn([5, 3], DType::F32, &device)?;
    let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
    let timeline = Rc::new(Timeline::new());
    assert!(timeline.is_empty());
    for _ in 0..3 {
        trace(&model, timeline.clone(), || step(&model, &mut adam, &input))?;
    }
    let path = file("trace");
    timeline.write_chrome(&path)?;
    let text = std::fs::read_to_string(&path).expect("the file exists");
    std::fs::remove_file(&path).expect("it is ours");
    let (spans, deepest) = check_chrome(&text);
    assert_eq!(spans.len(), timeline.len());
    assert!(deepest >= 3, "an op in a node in a backward pass");
    let count = |kind: &str, name: &str| spans.iter().filter(|span| span.0 == kind && span.1 == name).count();
    assert_eq!(count("layer", "0 (Linear)"), 3);
    assert_eq!(count("backward", "backward"), 3);
    assert_eq!(count("node", "matmul backward"), 6);
    assert_eq!(count("step", "adamw"), 3);
    assert!(text.contains(r#""key":"2""#) && text.contains(r#""kind":"Linear""#));
    // The same times, by name.
    let totals = timeline.totals();
    assert!(totals.windows(2).all(|pair| pair[0].own_ns >= pair[1].own_ns));
    assert_eq!(totals.iter().map(|total| total.count).sum::<usize>(), timeline.len());
    let backward = totals.iter().find(|total| total.label == "backward").expect("a total");
    assert!(backward.count == 3 && backward.own_ns < backward.total_ns);
    let outermost = ["layer", "backward", "step"];
    let outermost_ns: u64 = totals
        .iter()
        .filter(|total| outermost.contains(&total.kind.name()))
        .map(|total| total.total_ns)
        .sum();
    let own_ns: u64 = totals.iter().map(|total| total.own_ns).sum();
    assert!(own_ns >= outermost_ns, "all time belongs to a layer: {own_ns} of {outermost_ns}");
    Ok(())
}

#[test]
fn timeline_written_during_a_step_ends_its_spans() -> Result<()> {
    let (timeline, path) = (Rc::new(Timeline::new()), file("open"));
    with_sink(timeline.clone(), || {
        in_span(SpanKind::Other, "epoch \"1\"\n", "", || {
            in_span(SpanKind::Other, "load", "", || ());
            timeline.write_chrome(&path)
        })
    })?;
    let (spans, _) = check_chrome(&std::fs::read_to_string(&path).expect("the file exists"));
    std::fs::remove_file(&path).expect("it is ours");
    assert_eq!(spans, [("other".into(), "epoch \"1\"\n".into(), 0), ("other".into(), "load".into(), 1)]);
    let error = timeline.write_chrome("/no/such/folder/trace.json").expect_err("no folder").to_string();
    assert!(error.contains("/no/such/folder/trace.json") && error.contains("cannot be written"), "{error}");
    let empty = Timeline::new();
    empty.write_chrome(&path)?;
    assert_eq!(check_chrome(&std::fs::read_to_string(&path).expect("the file exists")).0, []);
    std::fs::remove_file(&path).expect("it is ours");
    Ok(())
}

/// Collects what reaches the `tracing` crate: a minimal subscriber.
#[derive(Clone, Default)]
struct SpanLog(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

impl SpanLog {
    fn push(&self, line: String) {
        self.0.lock().expect("one thread").push(line);
    }
}

impl tracing::Subscriber for SpanLog {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "ternion"
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        self.push(fields.0);
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {
        self.push("enter".into());
    }
    fn exit(&self, _: &tracing::span::Id) {
        self.push("exit".into());
    }
}

#[test]
fn spans_reach_the_subscriber_of_tracing() -> Result<()> {
    let device = device();
    let model = Mlp::new([3, 2], &device)?;
    let x = Tensor::ones([1, 3], DType::F32, &device)?;
    let log = SpanLog::default();
    tracing::subscriber::with_default(log.clone(), || {
        trace(&model, Rc::new(TracingSpans::default()), || model.forward(&x))
    })?;
    let lines = log.0.lock().expect("one thread").clone();
    let expected = [
        "layer name=\"Linear\" key=\"layers.0\"",
        "enter",
        "op name=\"matmul\" key=\"\"",
        "enter",
        "exit",
        "exit",
    ];
    assert_eq!(lines, expected);
    Ok(())
}
