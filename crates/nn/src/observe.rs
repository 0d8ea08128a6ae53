//! Watching a model compute: the output of each layer, with the layer's key.

use crate::module::{Member, Module, address_of, walk_members};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use ternion_core::{Result, Tensor};

/// A layer that has just computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerCall {
    /// The key of the layer in the model, `layers.1`; empty for the model itself, or for a layer that is not the model's.
    pub key: String,
    /// The name of the layer's type.
    pub kind: &'static str,
}

type Observer = Rc<dyn Fn(&'static str, usize, &Tensor) -> Result<()>>;

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
}

/// Runs `compute`; whenever a layer of `model` has computed its output on this thread, `observer` is told, in the order of computation.
///
/// Told are the layers of this crate, and layers of your own whose forward is wrapped by [`layer_output`]. What the observer returns as an error
/// becomes the error of the layer.
pub fn observe_layers<M: Module + ?Sized, T>(
    model: &M,
    observer: impl Fn(&LayerCall, &Tensor) -> Result<()> + 'static,
    compute: impl FnOnce() -> T,
) -> T {
    let keys = Keys::of(model);
    with_observer(
        Rc::new(move |kind, address, output| {
            observer(&LayerCall { key: keys.next(kind, address), kind }, output)
        }),
        compute,
    )
}

/// The output of a layer, after telling whoever observes it. To be called at the end of a layer's forward.
///
/// # Errors
/// What the observer says.
#[inline]
pub fn layer_output<L: ?Sized>(layer: &L, kind: &'static str, output: Tensor) -> Result<Tensor> {
    if WATCHED.get() {
        let observer = OBSERVER.with_borrow(Clone::clone);
        if let Some(observer) = observer {
            observer(kind, address_of(layer), &output)?;
        }
    }
    Ok(output)
}

fn with_observer<T>(observer: Observer, compute: impl FnOnce() -> T) -> T {
    struct Restore(bool, Option<Observer>);
    impl Drop for Restore {
        fn drop(&mut self) {
            WATCHED.set(self.0);
            OBSERVER.replace(self.1.take());
        }
    }
    let _restore = Restore(WATCHED.replace(true), OBSERVER.replace(Some(observer)));
    compute()
}

/// From kind and address to keys. Layers without fields may share an address: they take turns, in the order of the model.
struct Keys {
    of: HashMap<(&'static str, usize), Turns>,
}

#[derive(Default)]
struct Turns {
    keys: Vec<String>,
    next: Cell<usize>,
}

impl Keys {
    fn of<M: Module + ?Sized>(model: &M) -> Keys {
        let mut of: HashMap<_, Turns> = HashMap::new();
        walk_members(model, &mut |key, member| {
            if let Member::Layer { kind, address } = member {
                of.entry((kind, address)).or_default().keys.push(key.to_owned());
            }
        });
        Keys { of }
    }

    fn next(&self, kind: &'static str, address: usize) -> String {
        let Some(turns) = self.of.get(&(kind, address)) else { return String::new() };
        let turn = turns.next.replace(turns.next.get() + 1);
        turns.keys[turn % turns.keys.len()].clone()
    }
}
