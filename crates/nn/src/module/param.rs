//! The cells that a module is made of: [`Param`], [`StateTensor`] and [`Mode`]. A clone is a handle on the same cell.

use super::{Member, ModuleField, Walk};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use ternion_core::autograd::Hooks;
use ternion_core::{DType, Device, Error, Gradients, Result, Shape, Tensor, no_grad};

/// A cell with a tensor. The lock guards a handle that is replaced whole, so a panic elsewhere cannot leave it half changed.
struct Cell(RwLock<Tensor>);

impl Cell {
    fn new(tensor: Tensor) -> Arc<Cell> {
        Arc::new(Cell(RwLock::new(tensor)))
    }

    fn get(&self) -> Tensor {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, tensor: Tensor) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tensor;
    }
}

/// Overwrites the values of `tensor`, in place, with those of `source`.
fn overwrite(tensor: &Tensor, source: &Tensor) -> Result<()> {
    if source.shape() != tensor.shape() {
        return Err(Error::Shape {
            op: "set",
            what: "source",
            got: Box::new(*source.shape()),
            expected: Box::new(*tensor.shape()),
        });
    }
    no_grad(|| tensor.copy_(&source.detach().to_device(tensor.device())?))
}

/// A tensor that is trained: a leaf to which gradients flow, unless it is frozen.
///
/// A clone is a handle on the same parameter: a layer, the optimiser and a second layer that shares the weight all see each change.
///
/// Freezing, converting and moving a parameter put another tensor in its place, with another name among gradients. Hooks that were registered on
/// [`tensor`](Param::tensor) go along; they get gradients of the new dtype on the new device.
#[derive(Clone)]
pub struct Param {
    cell: Arc<Cell>,
    hooks: Hooks,
    name: Option<Arc<str>>,
}

impl Param {
    /// A parameter with the values of `tensor`, whose memory it takes over and whose history it leaves behind.
    ///
    /// # Errors
    /// If the dtype is not floating.
    pub fn new(tensor: &Tensor) -> Result<Param> {
        let leaf = tensor.detach().requires_grad()?;
        let hooks = leaf.hooks().ok_or_else(|| Error::invalid("param", "the tensor is no leaf"))?;
        Ok(Param { cell: Cell::new(leaf), hooks, name: None })
    }

    /// The tensor as it is now, for use in a computation. Steps of an optimiser change its values in place.
    #[inline]
    pub fn tensor(&self) -> Tensor {
        self.cell.get()
    }

    /// The key in the state dict of the module that this handle was asked of.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The same parameter under `name`.
    #[must_use]
    pub fn named(&self, name: &str) -> Param {
        Param { cell: self.cell.clone(), hooks: self.hooks.clone(), name: Some(name.into()) }
    }

    /// The sizes.
    pub fn shape(&self) -> Shape {
        *self.tensor().shape()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.tensor().dtype()
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.tensor().device().clone()
    }

    /// Whether two handles name the same parameter.
    pub fn is(&self, other: &Param) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }

    /// The gradient of this parameter among `gradients`, if the loss depended on it.
    pub fn gradient<'g>(&self, gradients: &'g Gradients) -> Option<&'g Tensor> {
        gradients.get(&self.tensor())
    }

    /// Overwrites the values, in place, with those of `source`, cast and moved as needed.
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn set(&self, source: &Tensor) -> Result<()> {
        overwrite(&self.tensor(), source)
    }

    /// A new leaf with the values of `tensor`, and with the hooks of this parameter.
    fn leaf(&self, tensor: &Tensor) -> Result<Tensor> {
        let leaf = tensor.detach().requires_grad()?;
        leaf.share_hooks(&self.hooks)?;
        Ok(leaf)
    }

    /// Puts another tensor in the place of the parameter's: another dtype, device or shape. A frozen parameter stays frozen.
    ///
    /// # Errors
    /// If the dtype is not floating.
    pub fn replace(&self, tensor: Tensor) -> Result<()> {
        let leaf = self.leaf(&tensor)?;
        self.cell.set(if self.is_frozen() { leaf.detach() } else { leaf });
        Ok(())
    }

    /// Puts back a tensor that [`tensor`](Param::tensor) gave earlier: the same leaf, under the same name among gradients, or frozen as it was.
    ///
    /// # Errors
    /// If the tensor was computed from one that needs a gradient, or the dtype is not floating.
    pub fn put_back(&self, tensor: Tensor) -> Result<()> {
        if tensor.needs_grad() && !tensor.is_leaf() {
            return Err(Error::invalid(
                "put_back",
                "expected a tensor that was a parameter's, got a computed one",
            ));
        }
        if !tensor.dtype().is_float() {
            return Err(Error::dtype("put_back", "tensor", tensor.dtype(), "a floating dtype"));
        }
        self.cell.set(tensor);
        Ok(())
    }

    /// Excludes the parameter from training: no gradient flows to it, and optimisers pass it over.
    pub fn freeze(&self) {
        self.cell.set(self.tensor().detach());
    }

    /// Takes the parameter back into training.
    pub fn unfreeze(&self) {
        if self.is_frozen() {
            let leaf = self.leaf(&self.tensor()).expect("the dtype was checked when the parameter was made");
            self.cell.set(leaf);
        }
    }

    /// Whether the parameter is excluded from training.
    pub fn is_frozen(&self) -> bool {
        !self.tensor().needs_grad()
    }

    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.cell).addr()
    }
}

impl ModuleField for Param {
    fn visit_field(&self, walk: &mut Walk<'_>) {
        walk.tell(Member::Param(self));
    }
}

impl fmt::Debug for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tensor = self.tensor();
        write!(
            f,
            "Param({}{:?} {}",
            self.name().map_or(String::new(), |name| format!("{name} ")),
            tensor.shape(),
            tensor.dtype()
        )?;
        f.write_str(if self.is_frozen() { ", frozen)" } else { ")" })
    }
}

/// A tensor that belongs to the state of a module but is not trained, such as running statistics. PyTorch calls it a buffer.
///
/// A clone is a handle on the same tensor.
#[derive(Clone)]
pub struct StateTensor(Arc<Cell>);

impl StateTensor {
    /// State with the values of `tensor`, whose memory it takes over and whose history it leaves behind.
    pub fn new(tensor: &Tensor) -> StateTensor {
        StateTensor(Cell::new(tensor.detach()))
    }

    /// The tensor as it is now.
    #[inline]
    pub fn tensor(&self) -> Tensor {
        self.0.get()
    }

    /// Overwrites the values, in place, with those of `source`, cast and moved as needed.
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn set(&self, source: &Tensor) -> Result<()> {
        overwrite(&self.tensor(), source)
    }

    /// Puts another tensor in the place of this one: another dtype, device or shape.
    pub fn replace(&self, tensor: Tensor) {
        self.0.set(tensor.detach());
    }

    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl ModuleField for StateTensor {
    fn visit_field(&self, walk: &mut Walk<'_>) {
        walk.tell(Member::State(self));
    }
}

impl fmt::Debug for StateTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tensor = self.tensor();
        write!(f, "StateTensor({:?} {})", tensor.shape(), tensor.dtype())
    }
}

/// Whether a layer is being trained or used: a field of layers that differ between the two. Training, when made.
#[derive(Clone)]
pub struct Mode(Arc<AtomicBool>);

impl Mode {
    /// Whether the layer is being trained.
    #[inline]
    pub fn is_training(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets whether the layer is being trained.
    pub fn set_training(&self, training: bool) {
        self.0.store(training, Ordering::Relaxed);
    }
}

impl Default for Mode {
    fn default() -> Mode {
        Mode(Arc::new(AtomicBool::new(true)))
    }
}

impl ModuleField for Mode {
    fn visit_field(&self, walk: &mut Walk<'_>) {
        walk.tell(Member::Mode(self));
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_training() { "training" } else { "eval" })
    }
}
