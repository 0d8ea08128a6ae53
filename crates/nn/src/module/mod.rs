//! [`Module`]: a tree of parameters that can be walked, and everything that follows from the walk. No layer is here.

mod fields;
mod observe;
mod param;
pub(crate) mod state;

pub(crate) use observe::in_member;
pub use observe::{
    LayerCall, LayerEvent, are_layers_observed, close_layer_observer, in_layer, in_layer_at, layer_output,
    observe_layer_events, observe_layers, open_layer_observer,
};
pub use param::{Mode, Param, StateTensor};
pub use state::{Matching, StateDict, Unmatched};

/// Implements [`Module`](trait@Module) for a type by walking its fields.
pub use ternion_derive::Module;

use std::fmt::Display;
use ternion_core::{DType, Device, Error, Result, Tensor};

/// A model or part of one: it owns parameters and can be walked.
///
/// `#[derive(Module)]` writes [`visit`](Module::visit), the only required method, from the fields. Everything else follows from it: keys of the
/// state dict are the names of the fields joined by dots (`layers.1.bias`), as in PyTorch. All methods take `&self`: parameters are shared
/// cells ([`Param`]), so an optimiser that was made before [`to_device`](Module::to_device) or
/// [`load_state_dict`](Module::load_state_dict) trains what the model uses after it.
///
/// How a model computes is [`Forward`], or any method of its own.
///
/// ```
/// use ternion_nn::{Dropout, Forward, Linear, Module};
/// # use ternion_core::{Result, Tensor};
///
/// #[derive(Module)]
/// struct Classifier {
///     hidden: Linear,
///     dropout: Dropout,
///     output: Linear,
///     classes: usize,
/// }
///
/// impl Forward for Classifier {
///     fn forward(&self, input: &Tensor) -> Result<Tensor> {
///         let hidden = self.hidden.forward(input)?.relu()?;
///         self.output.forward(&self.dropout.forward(&hidden)?)
///     }
/// }
///
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// let model = Classifier {
///     hidden: Linear::new(4, 8, &device)?,
///     dropout: Dropout::new(0.1)?,
///     output: Linear::new(8, 3, &device)?,
///     classes: 3,
/// };
/// let keys: Vec<String> = model.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(keys, ["hidden.weight", "hidden.bias", "output.weight", "output.bias"]);
/// # assert_eq!(model.classes, 3);
/// # Ok(())
/// # }
/// ```
///
/// A field whose type is neither a module nor plain data does not compile, so that a layer cannot be forgotten:
///
/// ```compile_fail
/// #[derive(ternion_nn::Module)]
/// struct Forgetful {
///     weight: ternion_core::Tensor, // a Param or a StateTensor?
/// }
/// ```
///
/// unless it says that it is no part of the module:
///
/// ```
/// #[derive(ternion_nn::Module)]
/// struct Deliberate {
///     #[module(skip)]
///     weight: ternion_core::Tensor,
/// }
/// ```
pub trait Module: Send + Sync {
    /// Shows every field to `walk`, in the order of declaration.
    fn visit(&self, walk: &mut Walk<'_>);

    /// Every parameter once, each knowing its name. A parameter that is shared by several layers comes under its first name.
    fn parameters(&self) -> Vec<Param> {
        let mut found: Vec<Param> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        walk_members(self, &mut |name, member| {
            if let Member::Param(param) = member
                && seen.insert(param.address())
            {
                found.push(param.named(name));
            }
        });
        found
    }

    /// Every parameter with its key in the state dict. A shared parameter comes under each of its names.
    fn named_parameters(&self) -> Vec<(String, Param)> {
        let mut found = Vec::new();
        walk_members(self, &mut |name, member| {
            if let Member::Param(param) = member {
                found.push((name.to_owned(), param.named(name)));
            }
        });
        found
    }

    /// Every tensor of the state that is not trained, such as running statistics, with its key in the state dict.
    fn named_buffers(&self) -> Vec<(String, StateTensor)> {
        let mut found = Vec::new();
        walk_members(self, &mut |name, member| {
            if let Member::State(state) = member {
                found.push((name.to_owned(), state.clone()));
            }
        });
        found
    }

    /// The number of elements of all parameters, shared ones counted once.
    fn parameter_count(&self) -> usize {
        self.parameters().iter().map(|param| param.tensor().elements()).sum()
    }

    /// Puts layers that differ between training and use (dropout, batch norm) into training, as they are when made.
    fn train(&self) {
        set_mode(self, true);
    }

    /// Puts layers that differ between training and use (dropout, batch norm) into use.
    fn eval(&self) {
        set_mode(self, false);
    }

    /// Whether any layer is in training. Always false for a model without a layer that differs between training and use.
    fn is_training(&self) -> bool {
        let mut training = false;
        walk_members(self, &mut |_, member| {
            if let Member::Mode(mode) = member {
                training |= mode.is_training();
            }
        });
        training
    }

    /// Excludes every parameter from training.
    fn freeze(&self) {
        self.parameters().iter().for_each(Param::freeze);
    }

    /// Takes every parameter back into training.
    fn unfreeze(&self) {
        self.parameters().iter().for_each(Param::unfreeze);
    }

    /// Converts floating parameters and floating state to `dtype`. Nothing is changed if anything fails.
    ///
    /// An optimiser's state keeps its own dtype: convert a model before its optimiser has made a step.
    ///
    /// # Errors
    /// If `dtype` is not floating, or there is no memory.
    fn to_dtype(&self, dtype: DType) -> Result<()> {
        if !dtype.is_float() {
            return Err(Error::dtype("to_dtype", "the requested dtype", dtype, "a floating dtype"));
        }
        replace_tensors(self, &|tensor| {
            if tensor.dtype().is_float() { tensor.to_dtype(dtype) } else { Ok(tensor.clone()) }
        })
    }

    /// Moves parameters and state to `device`. Nothing is changed if anything fails.
    ///
    /// # Errors
    /// If there is no memory, or an earlier op failed on either device.
    fn to_device(&self, device: &Device) -> Result<()> {
        replace_tensors(self, &|tensor| tensor.to_device(device))
    }

    /// A copy of parameters and state at this moment, by key. Later steps do not change it.
    ///
    /// # Errors
    /// If two tensors have the same key, or there is no memory.
    fn state_dict(&self) -> Result<StateDict> {
        state::copy_of(self)
    }

    /// Overwrites parameters and state with the tensors of `dict`, whose keys must be exactly this module's. Nothing is changed unless all fit.
    ///
    /// Floating tensors are cast to the module's floating dtype, as by PyTorch; the module keeps its dtype.
    ///
    /// # Errors
    /// If two tensors of the module have the same key. One error that lists every key that is missing, extra, misshapen, or of a dtype that is
    /// another and not floating as the module's is.
    fn load_state_dict(&self, dict: &StateDict) -> Result<()> {
        state::load(self, dict, Matching::Exact).map(|_| ())
    }

    /// As [`load_state_dict`](Module::load_state_dict), but with [`Matching::Partial`](crate::Matching::Partial) keys may be missing or extra; they are told.
    ///
    /// # Errors
    /// One error that lists every key that does not fit.
    fn load_state_dict_with(&self, dict: &StateDict, matching: Matching) -> Result<Unmatched> {
        state::load(self, dict, matching)
    }
}

/// A module that turns one tensor into another.
pub trait Forward: Module {
    /// The output for `input`.
    ///
    /// # Errors
    /// A shape, dtype or device that the layers do not take.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;

    /// The output for `input` where nothing but products reads it: in the dtype in which those of the open scope of [precision](ternion_core::with_precision) compute, if the module rounds
    /// to it in the pass that forms the output; else as [`forward`](Forward::forward).
    ///
    /// # Errors
    /// As [`forward`](Forward::forward).
    fn forward_for_products(&self, input: &Tensor) -> Result<Tensor> {
        self.forward(input)
    }
}

/// What a field of a module may be: a parameter, a module, a container of those, or plain data.
///
/// For plain data of your own, say so: `impl ModuleField for MyConfig {}`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a module: it is neither a parameter, nor a module, nor plain data",
    label = "not a `ModuleField`",
    note = "a trained tensor is a `Param`, other state a `StateTensor`; a layer derives `Module`",
    note = "plain data is marked `#[module(skip)]`, or its type gets `impl ModuleField for {Self} {{}}`"
)]
pub trait ModuleField: Send + Sync {
    /// Shows the members of this field to `walk`. Default: plain data, which has none.
    fn visit_field(&self, walk: &mut Walk<'_>) {
        let _ = walk;
    }
}

impl<M: Module + ?Sized> ModuleField for M {
    fn visit_field(&self, walk: &mut Walk<'_>) {
        self.visit(walk);
    }
}

/// Something found on a walk.
pub enum Member<'a> {
    /// A trained tensor.
    Param(&'a Param),
    /// A tensor of the state that is not trained.
    State(&'a StateTensor),
    /// The switch of a layer that differs between training and use.
    Mode(&'a Mode),
    /// A layer is entered: its members follow.
    Layer {
        /// The name of its type.
        kind: &'static str,
        /// Where it lies in memory: tells layers of one kind apart.
        address: usize,
    },
}

/// A walk over the fields of a module: keeps the key and tells of each member.
pub struct Walk<'a> {
    key: String,
    found: &'a mut dyn FnMut(&str, Member<'_>),
}

impl<'a> Walk<'a> {
    /// A walk that tells `found` of every member with its key.
    pub fn new(found: &'a mut dyn FnMut(&str, Member<'_>)) -> Walk<'a> {
        Walk { key: String::new(), found }
    }

    /// Walks `field` under `name`.
    pub fn field<F: ModuleField + ?Sized>(&mut self, name: impl Display, field: &F) {
        use std::fmt::Write;
        let length = self.key.len();
        if length > 0 {
            self.key.push('.');
        }
        // Writing into a string cannot fail.
        let _ = write!(self.key, "{name}");
        field.visit_field(self);
        self.key.truncate(length);
    }

    /// Tells that the members of `layer` follow.
    pub fn layer<L: ?Sized>(&mut self, kind: &'static str, layer: &L) {
        self.layer_at(kind, address_of(layer));
    }

    /// As [`layer`](Walk::layer), of a layer that is no value of Rust: `address` tells it from others of its kind, also for [`in_layer_at`](crate::in_layer_at).
    pub fn layer_at(&mut self, kind: &'static str, address: usize) {
        self.tell(Member::Layer { kind, address });
    }

    pub(crate) fn tell(&mut self, member: Member<'_>) {
        (self.found)(&self.key, member);
    }
}

/// Where a layer lies in memory.
pub(crate) fn address_of<L: ?Sized>(layer: &L) -> usize {
    std::ptr::from_ref(layer).cast::<()>().addr()
}

/// Tells `found` of every member of `module` with its key.
pub(crate) fn walk_members<M: Module + ?Sized>(module: &M, found: &mut dyn FnMut(&str, Member<'_>)) {
    module.visit(&mut Walk::new(found));
}

fn set_mode<M: Module + ?Sized>(module: &M, training: bool) {
    walk_members(module, &mut |_, member| {
        if let Member::Mode(mode) = member {
            mode.set_training(training);
        }
    });
}

/// Every parameter and every state tensor once, however often it is shared.
pub(crate) fn distinct_cells<M: Module + ?Sized>(module: &M) -> (Vec<Param>, Vec<StateTensor>) {
    let (params, mut states) = (module.parameters(), Vec::new());
    let mut seen = std::collections::HashSet::new();
    for (_, state) in module.named_buffers() {
        if seen.insert(state.address()) {
            states.push(state);
        }
    }
    (params, states)
}

/// Puts `change` of each tensor in its place, once all of them are there.
fn replace_tensors<M: Module + ?Sized>(module: &M, change: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
    let (params, states) = distinct_cells(module);
    ternion_core::no_grad(|| {
        let new_params =
            params.iter().map(|param| change(&param.tensor().detach())).collect::<Result<Vec<_>>>()?;
        let new_states = states.iter().map(|state| change(&state.tensor())).collect::<Result<Vec<_>>>()?;
        for (param, tensor) in params.iter().zip(new_params) {
            param.replace(tensor)?;
        }
        for (state, tensor) in states.iter().zip(new_states) {
            state.replace(tensor);
        }
        Ok(())
    })
}
