//! Watching a model compute: which layer runs, and its output, with the layer's key.

use super::{Member, Module, address_of, walk_members};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use ternion_core::autograd::set_layers_apart;
use ternion_core::trace::{SpanKind, in_span};
use ternion_core::{Result, Tensor};

/// A layer that computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerCall {
    /// The key of the layer in the model, `layers.1`; empty for the model itself, or for a layer that is not the model's. A layer that has several keys, or that cannot be told
    /// from others (layers without fields may share an address), has all of them: `first or second`.
    pub key: String,
    /// The name of the layer's type.
    pub kind: &'static str,
    /// Whether the model's walk shows the layer.
    pub is_member: bool,
}

/// What is told of a layer.
#[derive(Clone, Copy, Debug)]
pub enum LayerEvent<'a> {
    /// It starts to compute: what happens until its end happens inside.
    Entered(&'a LayerCall),
    /// It has computed this.
    Left(&'a LayerCall, &'a Tensor),
    /// It has computed this, and nothing was told of its start: of what happened before, nobody knows what happened inside.
    Output(&'a LayerCall, &'a Tensor),
}

/// Who watches, and what of.
struct Watch {
    keys: Keys,
    observer: Box<dyn Fn(LayerEvent<'_>) -> Result<()>>,
}

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static WATCHES: RefCell<Vec<Rc<Watch>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `compute`; whenever a layer of `model` has computed its output on this thread, `observer` is told, in the order of computation.
///
/// Told are the layers of this crate, and layers of your own whose forward is wrapped by [`in_layer`], or whose output by [`layer_output`]. What the observer returns as an error
/// becomes the error of the layer. Several observers may watch at a time.
pub fn observe_layers<M: Module + ?Sized, T>(
    model: &M,
    observer: impl Fn(&LayerCall, &Tensor) -> Result<()> + 'static,
    compute: impl FnOnce() -> T,
) -> T {
    let outputs = move |event: LayerEvent<'_>| match event {
        LayerEvent::Entered(_) => Ok(()),
        LayerEvent::Left(call, output) | LayerEvent::Output(call, output) => observer(call, output),
    };
    observe_layer_events(model, outputs, compute)
}

/// As [`observe_layers`], told also when a layer starts to compute.
pub fn observe_layer_events<M: Module + ?Sized, T>(
    model: &M,
    observer: impl Fn(LayerEvent<'_>) -> Result<()> + 'static,
    compute: impl FnOnce() -> T,
) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            close_layer_observer();
        }
    }
    open_layer_observer(model, observer);
    let _leave = Leave;
    compute()
}

/// Has `observer` told as [`observe_layer_events`] does, until [`close_layer_observer`]: for bindings to languages whose scopes are no closures.
pub fn open_layer_observer<M: Module + ?Sized>(
    model: &M,
    observer: impl Fn(LayerEvent<'_>) -> Result<()> + 'static,
) {
    let watch = Rc::new(Watch { keys: Keys::of_model(model), observer: Box::new(observer) });
    WATCHES.with_borrow_mut(|watches| watches.push(watch));
    WATCHED.set(true);
    set_layers_apart(true);
}

/// Ends what [`open_layer_observer`] began last on this thread.
pub fn close_layer_observer() {
    let left = WATCHES.with_borrow_mut(|watches| {
        watches.pop();
        watches.len()
    });
    WATCHED.set(left > 0);
    set_layers_apart(left > 0);
}

/// Whether anybody observes layers on this thread.
#[inline]
pub fn are_layers_observed() -> bool {
    WATCHED.get()
}

/// Runs `compute`, the forward of a layer, telling of its start and its output whoever observes it.
///
/// # Errors
/// What `compute` and the observer say.
#[inline]
pub fn in_layer<L: ?Sized>(
    layer: &L,
    kind: &'static str,
    compute: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    if WATCHED.get() { in_layer_at(kind, address_of(layer), compute, Clone::clone) } else { compute() }
}

/// As [`in_layer`], of a layer that is no value of Rust: its model's walk told `address` of it by [`Walk::layer_at`](crate::Walk::layer_at). `output` is what is told of what it gives.
///
/// # Errors
/// As [`in_layer`].
#[cold]
pub fn in_layer_at<T>(
    kind: &'static str,
    address: usize,
    compute: impl FnOnce() -> Result<T>,
    output: impl FnOnce(&T) -> Tensor,
) -> Result<T> {
    let watches = WATCHES.with_borrow(Clone::clone);
    let calls: Vec<LayerCall> = watches.iter().map(|watch| watch.keys.call(kind, address)).collect();
    let told = || watches.iter().zip(&calls);
    told().try_for_each(|(watch, call)| (watch.observer)(LayerEvent::Entered(call)))?;
    let key = calls.iter().map(|call| call.key.as_str()).find(|key| !key.is_empty()).unwrap_or("");
    let computed = in_span(SpanKind::Layer, kind, key, compute)?;
    let output = output(&computed);
    told().try_for_each(|(watch, call)| (watch.observer)(LayerEvent::Left(call, &output)))?;
    Ok(computed)
}

/// The output of a layer, after telling whoever observes it. For layers that compute outside of [`in_layer`].
///
/// # Errors
/// What the observer says.
#[inline]
pub fn layer_output<L: ?Sized>(layer: &L, kind: &'static str, output: Tensor) -> Result<Tensor> {
    if WATCHED.get() {
        for watch in WATCHES.with_borrow(Clone::clone) {
            (watch.observer)(LayerEvent::Output(&watch.keys.call(kind, address_of(layer)), &output))?;
        }
    }
    Ok(output)
}

/// Runs `compute`, the forward of member `position` of a container: what tells layers without fields apart inside.
#[inline]
pub(crate) fn in_member<L: ?Sized, T>(
    container: &L,
    kind: &'static str,
    position: usize,
    compute: impl FnOnce() -> T,
) -> T {
    struct Leave(Vec<Rc<Watch>>);
    impl Drop for Leave {
        fn drop(&mut self) {
            for watch in &self.0 {
                watch.keys.members.borrow_mut().pop();
            }
        }
    }
    if !WATCHED.get() {
        return compute();
    }
    let watches = WATCHES.with_borrow(Clone::clone);
    let dot = |key: String| if key.is_empty() { position.to_string() } else { format!("{key}.{position}") };
    for watch in &watches {
        let keys = watch.keys.keys(kind, address_of(container));
        watch.keys.members.borrow_mut().push(keys.into_iter().map(dot).collect());
    }
    let _leave = Leave(watches);
    compute()
}

/// From kind and address to keys.
struct Keys {
    of: HashMap<(&'static str, usize), Vec<String>>,
    /// The members of containers that are computing, outermost first: the keys that each may have.
    members: RefCell<Vec<Vec<String>>>,
}

impl Keys {
    fn of_model<M: Module + ?Sized>(model: &M) -> Keys {
        let mut of: HashMap<_, Vec<String>> = HashMap::new();
        walk_members(model, &mut |key, member| {
            if let Member::Layer { kind, address } = member {
                of.entry((kind, address)).or_default().push(key.to_owned());
            }
        });
        Keys { of, members: RefCell::default() }
    }

    fn call(&self, kind: &'static str, address: usize) -> LayerCall {
        let keys = self.keys(kind, address);
        LayerCall { key: keys.join(" or "), kind, is_member: !keys.is_empty() }
    }

    /// The keys that a layer may have: inside the innermost container that computes, if any is there.
    fn keys(&self, kind: &'static str, address: usize) -> Vec<String> {
        let Some(keys) = self.of.get(&(kind, address)) else { return Vec::new() };
        let inside = |key: &String, member: &String| {
            key.strip_prefix(member.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        for members in self.members.borrow().iter().rev() {
            let found: Vec<String> =
                keys.iter().filter(|key| members.iter().any(|member| inside(key, member))).cloned().collect();
            if !found.is_empty() {
                return found;
            }
        }
        keys.clone()
    }
}
