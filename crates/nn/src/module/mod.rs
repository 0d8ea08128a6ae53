//! [`Module`]: a tree of parameters that can be traversed, and the methods that are based on the
//! traversal. Layers are defined elsewhere.

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

/// Implements [`Module`](trait@Module) for a type by visiting its fields.
pub use ternion_derive::Module;

use std::fmt::Display;
use ternion_core::{DType, Device, Error, Result, Tensor};

/// A model or a part of one, which owns parameters and can be traversed.
///
/// `#[derive(Module)]` implements [`visit`](Module::visit), the only required method, from the
/// fields. All other methods are based on it. The keys of the state dict are the names of the
/// fields joined by dots (`layers.1.bias`), as in PyTorch. All methods take `&self`, because
/// parameters are shared cells ([`Param`]): an optimizer that was created before
/// [`to_device`](Module::to_device) or [`load_state_dict`](Module::load_state_dict) trains the
/// tensors that the model uses afterward.
///
/// A model defines its computation with [`Forward`], or with any other method.
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
/// A field whose type is neither a module nor plain data does not compile, so that a layer cannot
/// be forgotten:
///
/// ```compile_fail
/// #[derive(ternion_nn::Module)]
/// struct Forgetful {
///     weight: ternion_core::Tensor, // a Param or a StateTensor?
/// }
/// ```
///
/// To exclude a field from the module, mark it:
///
/// ```
/// #[derive(ternion_nn::Module)]
/// struct Deliberate {
///     #[module(skip)]
///     weight: ternion_core::Tensor,
/// }
/// ```
pub trait Module: Send + Sync {
    /// Visits every field with `visitor`, in the order of declaration.
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// Returns every parameter once, each with its name. A parameter that several layers share is
    /// returned with its first name.
    fn parameters(&self) -> Vec<Param> {
        let mut parameters: Vec<Param> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        visit_members(self, &mut |name, member| {
            if let Member::Param(param) = member
                && seen.insert(param.address())
            {
                parameters.push(param.named(name));
            }
        });
        parameters
    }

    /// Returns every parameter with its key in the state dict. A shared parameter is returned once
    /// for each of its names.
    fn named_parameters(&self) -> Vec<(String, Param)> {
        let mut parameters = Vec::new();
        visit_members(self, &mut |name, member| {
            if let Member::Param(param) = member {
                parameters.push((name.to_owned(), param.named(name)));
            }
        });
        parameters
    }

    /// Returns every state tensor that is not trained, such as running statistics, with its key in
    /// the state dict.
    fn named_buffers(&self) -> Vec<(String, StateTensor)> {
        let mut buffers = Vec::new();
        visit_members(self, &mut |name, member| {
            if let Member::State(state) = member {
                buffers.push((name.to_owned(), state.clone()));
            }
        });
        buffers
    }

    /// Returns the number of elements of all parameters; shared ones are counted once.
    fn parameter_count(&self) -> usize {
        self.parameters().iter().map(|param| param.tensor().elements()).sum()
    }

    /// Switches layers with a mode (dropout, batch norm) to training mode, which is the mode of new
    /// layers.
    fn train(&self) {
        set_mode(self, true);
    }

    /// Switches layers with a mode (dropout, batch norm) to evaluation mode.
    fn eval(&self) {
        set_mode(self, false);
    }

    /// Whether any layer is in training mode. Always false for a model without layers that have a
    /// mode.
    fn is_training(&self) -> bool {
        let mut training = false;
        visit_members(self, &mut |_, member| {
            if let Member::Mode(mode) = member {
                training |= mode.is_training();
            }
        });
        training
    }

    /// Freezes every parameter.
    fn freeze(&self) {
        self.parameters().iter().for_each(Param::freeze);
    }

    /// Unfreezes every parameter.
    fn unfreeze(&self) {
        self.parameters().iter().for_each(Param::unfreeze);
    }

    /// Converts floating parameters and floating state to `dtype`. Nothing is changed if any
    /// conversion fails.
    ///
    /// The state of an optimizer keeps its dtype: convert a model before its optimizer makes the
    /// first step.
    ///
    /// # Errors
    /// Returns an error if `dtype` is not floating, or if memory is exhausted.
    fn to_dtype(&self, dtype: DType) -> Result<()> {
        if !dtype.is_float() {
            return Err(Error::dtype("to_dtype", "the requested dtype", dtype, "a floating dtype"));
        }
        replace_tensors(self, &|tensor| {
            if tensor.dtype().is_float() { tensor.to_dtype(dtype) } else { Ok(tensor.clone()) }
        })
    }

    /// Moves parameters and state to `device`. Nothing is changed if any copy fails.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted, or if an earlier op failed on either device.
    fn to_device(&self, device: &Device) -> Result<()> {
        replace_tensors(self, &|tensor| tensor.to_device(device))
    }

    /// Returns a copy of the current parameters and state, by key. Later steps do not change it.
    ///
    /// # Errors
    /// Returns an error if two tensors have the same key, or if memory is exhausted.
    fn state_dict(&self) -> Result<StateDict> {
        state::copy_state_dict(self)
    }

    /// Overwrites parameters and state with the tensors of `dict`, whose keys must be exactly those
    /// of this module. Nothing is changed unless all entries fit.
    ///
    /// Floating tensors are cast to the module's floating dtype, as in PyTorch; the module keeps
    /// its dtype.
    ///
    /// # Errors
    /// Returns an error if two tensors of the module have the same key. A single error lists every
    /// key that is missing, unexpected or of another shape, or whose dtype differs from the
    /// module's without both being floating.
    fn load_state_dict(&self, dict: &StateDict) -> Result<()> {
        state::load(self, dict, Matching::Exact).map(|_| ())
    }

    /// Like [`load_state_dict`](Module::load_state_dict). With
    /// [`Matching::Partial`](crate::Matching::Partial), keys may be missing or unexpected, and are
    /// returned.
    ///
    /// # Errors
    /// Returns a single error that lists every key that does not fit.
    fn load_state_dict_with(&self, dict: &StateDict, matching: Matching) -> Result<Unmatched> {
        state::load(self, dict, matching)
    }
}

/// A module that maps one tensor to another.
pub trait Forward: Module {
    /// Returns the output for `input`.
    ///
    /// # Errors
    /// Returns an error if the layers do not accept the shape, dtype or device.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;

    /// Returns the output for `input` if only matrix products read it. The output has the dtype in
    /// which the products of the current [precision scope](ternion_core::with_precision) compute,
    /// if the module can round the output without an additional pass. Otherwise it is the same as
    /// [`forward`](Forward::forward).
    ///
    /// # Errors
    /// Same as [`forward`](Forward::forward).
    fn forward_for_products(&self, input: &Tensor) -> Result<Tensor> {
        self.forward(input)
    }
}

/// A possible field of a module: a parameter, a module, a container of those, or plain data.
///
/// Implement it for custom types of plain data: `impl ModuleField for MyConfig {}`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a module: it is neither a parameter, nor a module, nor plain data",
    label = "not a `ModuleField`",
    note = "a trained tensor is a `Param`, other state a `StateTensor`; a layer derives `Module`",
    note = "plain data is marked `#[module(skip)]`, or its type gets `impl ModuleField for {Self} {{}}`"
)]
pub trait ModuleField: Send + Sync {
    /// Visits the members of this field with `visitor`. The default is for plain data, which has no
    /// members.
    fn visit_field(&self, visitor: &mut Visitor<'_>) {
        let _ = visitor;
    }
}

impl<M: Module + ?Sized> ModuleField for M {
    fn visit_field(&self, visitor: &mut Visitor<'_>) {
        self.visit(visitor);
    }
}

/// A member of a module that a traversal visits.
pub enum Member<'a> {
    /// A trained tensor.
    Param(&'a Param),
    /// A state tensor that is not trained.
    State(&'a StateTensor),
    /// The mode of a layer that behaves differently in training and evaluation.
    Mode(&'a Mode),
    /// The start of a layer: its members follow.
    Layer {
        /// The name of its type.
        kind: &'static str,
        /// The address of the layer in memory, which distinguishes layers of the same kind.
        address: usize,
    },
}

/// A traversal of the fields of a module, which tracks the key and reports each member.
pub struct Visitor<'a> {
    key: String,
    callback: &'a mut dyn FnMut(&str, Member<'_>),
}

impl<'a> Visitor<'a> {
    /// Creates a traversal that calls `callback` with every member and its key.
    pub fn new(callback: &'a mut dyn FnMut(&str, Member<'_>)) -> Visitor<'a> {
        Visitor { key: String::new(), callback }
    }

    /// Visits `field` under `name`.
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

    /// Reports that the members of `layer` follow.
    pub fn layer<L: ?Sized>(&mut self, kind: &'static str, layer: &L) {
        self.layer_at(kind, address_of(layer));
    }

    /// Like [`layer`](Visitor::layer), for a layer that is not a Rust value. `address`
    /// distinguishes it from others of its kind, also in [`in_layer_at`](crate::in_layer_at).
    pub fn layer_at(&mut self, kind: &'static str, address: usize) {
        self.visit_member(Member::Layer { kind, address });
    }

    pub(crate) fn visit_member(&mut self, member: Member<'_>) {
        (self.callback)(&self.key, member);
    }
}

/// Returns the address of a layer in memory.
pub(crate) fn address_of<L: ?Sized>(layer: &L) -> usize {
    std::ptr::from_ref(layer).cast::<()>().addr()
}

/// Calls `callback` with every member of `module` and its key.
pub(crate) fn visit_members<M: Module + ?Sized>(module: &M, callback: &mut dyn FnMut(&str, Member<'_>)) {
    module.visit(&mut Visitor::new(callback));
}

fn set_mode<M: Module + ?Sized>(module: &M, training: bool) {
    visit_members(module, &mut |_, member| {
        if let Member::Mode(mode) = member {
            mode.set_training(training);
        }
    });
}

/// Returns every parameter and every state tensor once, even if it is shared.
pub(crate) fn distinct_tensors<M: Module + ?Sized>(module: &M) -> (Vec<Param>, Vec<StateTensor>) {
    let (params, mut states) = (module.parameters(), Vec::new());
    let mut seen = std::collections::HashSet::new();
    for (_, state) in module.named_buffers() {
        if seen.insert(state.address()) {
            states.push(state);
        }
    }
    (params, states)
}

/// Replaces each tensor by the result of `change`, after all results have been computed.
fn replace_tensors<M: Module + ?Sized>(module: &M, change: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
    let (params, states) = distinct_tensors(module);
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
