//! Observing the layers of a model: which layer runs, and its output, with the layer's key.

use super::{Member, Module, address_of, visit_members};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use ternion_core::autograd::set_layer_fusion_disabled;
use ternion_core::trace::{SpanKind, in_span};
use ternion_core::{Result, Tensor};

/// A call of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerCall {
    /// The key of the layer in the model, `layers.1`; empty for the model itself, or for a layer
    /// that does not belong to the model. If a layer has several keys, or cannot be distinguished
    /// from others (layers without fields may share an address), all are listed: `first or second`.
    pub key: String,
    /// The name of the layer's type.
    pub kind: &'static str,
    /// Whether the traversal of the model includes the layer.
    pub is_member: bool,
}

/// An event of a layer.
#[derive(Clone, Copy, Debug)]
pub enum LayerEvent<'a> {
    /// The layer starts to compute. Everything until its end happens within it.
    Entered(&'a LayerCall),
    /// The layer has computed this output.
    Left(&'a LayerCall, &'a Tensor),
    /// The layer has computed this output, and its start was not reported. It is unknown which of
    /// the earlier events happened within it.
    Output(&'a LayerCall, &'a Tensor),
}

/// An observer, and the keys of the model that it observes.
struct LayerObserver {
    keys: LayerKeys,
    callback: Box<dyn Fn(LayerEvent<'_>) -> Result<()>>,
}

thread_local! {
    static IS_OBSERVED: Cell<bool> = const { Cell::new(false) };
    static OBSERVERS: RefCell<Vec<Rc<LayerObserver>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `compute`. Whenever a layer of `model` has computed its output on this thread, `observer`
/// is called, in the order of computation.
///
/// It is called for the layers of this crate, and for custom layers whose forward is wrapped by
/// [`in_layer`] or whose output is passed to [`layer_output`]. An error of the observer becomes the
/// error of the layer. Several observers may be active at a time.
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

/// Like [`observe_layers`], and also calls the observer when a layer starts to compute.
pub fn observe_layer_events<M: Module + ?Sized, T>(
    model: &M,
    observer: impl Fn(LayerEvent<'_>) -> Result<()> + 'static,
    compute: impl FnOnce() -> T,
) -> T {
    struct CloseOnDrop;
    impl Drop for CloseOnDrop {
        fn drop(&mut self) {
            close_layer_observer();
        }
    }
    open_layer_observer(model, observer);
    let _guard = CloseOnDrop;
    compute()
}

/// Installs `observer` as in [`observe_layer_events`], until [`close_layer_observer`] is called:
/// for bindings that cannot pass a closure.
pub fn open_layer_observer<M: Module + ?Sized>(
    model: &M,
    observer: impl Fn(LayerEvent<'_>) -> Result<()> + 'static,
) {
    let observer = Rc::new(LayerObserver { keys: LayerKeys::of_model(model), callback: Box::new(observer) });
    OBSERVERS.with_borrow_mut(|observers| observers.push(observer));
    IS_OBSERVED.set(true);
    set_layer_fusion_disabled(true);
}

/// Removes the observer that [`open_layer_observer`] installed last on this thread.
pub fn close_layer_observer() {
    let remaining = OBSERVERS.with_borrow_mut(|observers| {
        observers.pop();
        observers.len()
    });
    IS_OBSERVED.set(remaining > 0);
    set_layer_fusion_disabled(remaining > 0);
}

/// Whether layers are observed on this thread.
#[inline]
pub fn are_layers_observed() -> bool {
    IS_OBSERVED.get()
}

/// Runs `compute`, the forward of a layer, and reports its start and its output to the observers.
///
/// # Errors
/// The errors of `compute` and of the observers.
#[inline]
pub fn in_layer<L: ?Sized>(
    layer: &L,
    kind: &'static str,
    compute: impl FnOnce() -> Result<Tensor>,
) -> Result<Tensor> {
    if IS_OBSERVED.get() { in_layer_at(kind, address_of(layer), compute, Clone::clone) } else { compute() }
}

/// Like [`in_layer`], for a layer that is not a Rust value. The traversal of its model has reported
/// `address` with [`Visitor::layer_at`](crate::Visitor::layer_at). `output` returns the tensor that
/// observers receive.
///
/// # Errors
/// Same as [`in_layer`].
#[cold]
pub fn in_layer_at<T>(
    kind: &'static str,
    address: usize,
    compute: impl FnOnce() -> Result<T>,
    output: impl FnOnce(&T) -> Tensor,
) -> Result<T> {
    let observers = OBSERVERS.with_borrow(Clone::clone);
    let calls: Vec<LayerCall> = observers.iter().map(|observer| observer.keys.call(kind, address)).collect();
    let observer_calls = || observers.iter().zip(&calls);
    observer_calls().try_for_each(|(observer, call)| (observer.callback)(LayerEvent::Entered(call)))?;
    let key = calls.iter().map(|call| call.key.as_str()).find(|key| !key.is_empty()).unwrap_or("");
    let computed = in_span(SpanKind::Layer, kind, key, compute)?;
    let output = output(&computed);
    observer_calls().try_for_each(|(observer, call)| (observer.callback)(LayerEvent::Left(call, &output)))?;
    Ok(computed)
}

/// Reports the output of a layer to the observers, and returns it. For layers that compute outside
/// of [`in_layer`].
///
/// # Errors
/// The errors of the observers.
#[inline]
pub fn layer_output<L: ?Sized>(layer: &L, kind: &'static str, output: Tensor) -> Result<Tensor> {
    if IS_OBSERVED.get() {
        for observer in OBSERVERS.with_borrow(Clone::clone) {
            (observer.callback)(LayerEvent::Output(&observer.keys.call(kind, address_of(layer)), &output))?;
        }
    }
    Ok(output)
}

/// Runs `compute`, the forward of member `position` of a container. The position distinguishes
/// layers without fields, which may share an address.
#[inline]
pub(crate) fn in_member<L: ?Sized, T>(
    container: &L,
    kind: &'static str,
    position: usize,
    compute: impl FnOnce() -> T,
) -> T {
    struct PopOnDrop(Vec<Rc<LayerObserver>>);
    impl Drop for PopOnDrop {
        fn drop(&mut self) {
            for observer in &self.0 {
                observer.keys.members.borrow_mut().pop();
            }
        }
    }
    if !IS_OBSERVED.get() {
        return compute();
    }
    let observers = OBSERVERS.with_borrow(Clone::clone);
    let join_key =
        |key: String| if key.is_empty() { position.to_string() } else { format!("{key}.{position}") };
    for observer in &observers {
        let keys = observer.keys.possible_keys(kind, address_of(container));
        observer.keys.members.borrow_mut().push(keys.into_iter().map(join_key).collect());
    }
    let _guard = PopOnDrop(observers);
    compute()
}

/// A map from kind and address to keys.
struct LayerKeys {
    by_layer: HashMap<(&'static str, usize), Vec<String>>,
    /// The members of containers that are computing, outermost first: the possible keys of each.
    members: RefCell<Vec<Vec<String>>>,
}

impl LayerKeys {
    fn of_model<M: Module + ?Sized>(model: &M) -> LayerKeys {
        let mut by_layer: HashMap<_, Vec<String>> = HashMap::new();
        visit_members(model, &mut |key, member| {
            if let Member::Layer { kind, address } = member {
                by_layer.entry((kind, address)).or_default().push(key.to_owned());
            }
        });
        LayerKeys { by_layer, members: RefCell::default() }
    }

    fn call(&self, kind: &'static str, address: usize) -> LayerCall {
        let keys = self.possible_keys(kind, address);
        LayerCall { key: keys.join(" or "), kind, is_member: !keys.is_empty() }
    }

    /// Returns the possible keys of a layer: those within the innermost container that is
    /// computing, if there are any.
    fn possible_keys(&self, kind: &'static str, address: usize) -> Vec<String> {
        let Some(keys) = self.by_layer.get(&(kind, address)) else { return Vec::new() };
        let inside = |key: &String, member: &String| {
            key.strip_prefix(member.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        for members in self.members.borrow().iter().rev() {
            let matching: Vec<String> =
                keys.iter().filter(|key| members.iter().any(|member| inside(key, member))).cloned().collect();
            if !matching.is_empty() {
                return matching;
            }
        }
        keys.clone()
    }
}
