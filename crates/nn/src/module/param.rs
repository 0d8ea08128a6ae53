//! The cells of a module: [`Param`], [`StateTensor`] and [`Mode`]. A clone is a handle to the same
//! cell.

use super::{Member, ModuleField, Visitor};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use ternion_core::autograd::Hooks;
use ternion_core::{DType, Device, Error, Gradients, Result, Shape, Tensor, no_grad};

/// A cell with a tensor. The lock guards a handle that is always replaced as a whole, so that a
/// panic elsewhere cannot leave it half changed.
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

/// Overwrites the values of `tensor` in place with those of `source`.
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

/// A trainable tensor: a leaf that receives gradients, unless it is frozen.
///
/// A clone is a handle to the same parameter: a layer, the optimizer, and a second layer that
/// shares the weight see each change.
///
/// Freezing, converting and moving a parameter replace its tensor by another one, which has another
/// identity in [`Gradients`]. Hooks that were registered on [`tensor`](Param::tensor) move to the
/// new tensor, and then receive gradients of its dtype on its device.
#[derive(Clone)]
pub struct Param {
    cell: Arc<Cell>,
    hooks: Hooks,
    name: Option<Arc<str>>,
}

impl Param {
    /// Creates a parameter with the values of `tensor`. It shares the buffer, but is detached from
    /// the graph.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating.
    pub fn new(tensor: &Tensor) -> Result<Param> {
        let leaf = tensor.detach().requires_grad()?;
        let hooks = leaf.hooks().ok_or_else(|| Error::invalid("param", "the tensor is not a leaf"))?;
        Ok(Param { cell: Cell::new(leaf), hooks, name: None })
    }

    /// Returns the current tensor, for use in a computation. Optimizer steps change its values in
    /// place.
    #[inline]
    pub fn tensor(&self) -> Tensor {
        self.cell.get()
    }

    /// Returns the key in the state dict of the module from which this handle was obtained.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns a handle to the same parameter with the name `name`.
    #[must_use]
    pub fn named(&self, name: &str) -> Param {
        Param { cell: self.cell.clone(), hooks: self.hooks.clone(), name: Some(name.into()) }
    }

    /// Returns the shape.
    pub fn shape(&self) -> Shape {
        *self.tensor().shape()
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.tensor().dtype()
    }

    /// Returns the device.
    pub fn device(&self) -> Device {
        self.tensor().device().clone()
    }

    /// Whether two handles refer to the same parameter.
    pub fn is(&self, other: &Param) -> bool {
        Arc::ptr_eq(&self.cell, &other.cell)
    }

    /// Returns the gradient of this parameter in `gradients`, if the loss depended on it.
    pub fn gradient<'g>(&self, gradients: &'g Gradients) -> Option<&'g Tensor> {
        gradients.get(&self.tensor())
    }

    /// Overwrites the values in place with those of `source`, cast and moved as needed.
    ///
    /// # Errors
    /// Returns an error if the shapes differ.
    pub fn set(&self, source: &Tensor) -> Result<()> {
        overwrite(&self.tensor(), source)
    }

    /// Returns a new leaf with the values of `tensor` and the hooks of this parameter.
    fn leaf(&self, tensor: &Tensor) -> Result<Tensor> {
        let leaf = tensor.detach().requires_grad()?;
        leaf.share_hooks(&self.hooks)?;
        Ok(leaf)
    }

    /// Replaces the tensor of the parameter; dtype, device or shape may differ. A frozen parameter
    /// stays frozen.
    ///
    /// # Errors
    /// Returns an error if the dtype is not floating.
    pub fn replace(&self, tensor: Tensor) -> Result<()> {
        let leaf = self.leaf(&tensor)?;
        self.cell.set(if self.is_frozen() { leaf.detach() } else { leaf });
        Ok(())
    }

    /// Restores a tensor that [`tensor`](Param::tensor) returned earlier: the same leaf, with the
    /// same identity in [`Gradients`], or frozen as it was.
    ///
    /// # Errors
    /// Returns an error if the tensor was computed from one that requires a gradient, or if the
    /// dtype is not floating.
    pub fn restore(&self, tensor: Tensor) -> Result<()> {
        if tensor.needs_grad() && !tensor.is_leaf() {
            return Err(Error::invalid(
                "restore",
                "expected a tensor that was a parameter's, got a computed one",
            ));
        }
        if !tensor.dtype().is_float() {
            return Err(Error::dtype("restore", "tensor", tensor.dtype(), "a floating dtype"));
        }
        self.cell.set(tensor);
        Ok(())
    }

    /// Excludes the parameter from training: it gets no gradient, and optimizers skip it.
    pub fn freeze(&self) {
        self.cell.set(self.tensor().detach());
    }

    /// Includes the parameter in training again.
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
    fn visit_field(&self, visitor: &mut Visitor<'_>) {
        visitor.visit_member(Member::Param(self));
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

/// A tensor that belongs to the state of a module but is not trained, such as running statistics.
/// PyTorch calls it a buffer.
///
/// A clone is a handle to the same tensor.
#[derive(Clone)]
pub struct StateTensor(Arc<Cell>);

impl StateTensor {
    /// Creates state with the values of `tensor`. It shares the buffer, but is detached from the
    /// graph.
    pub fn new(tensor: &Tensor) -> StateTensor {
        StateTensor(Cell::new(tensor.detach()))
    }

    /// Returns the current tensor.
    #[inline]
    pub fn tensor(&self) -> Tensor {
        self.0.get()
    }

    /// Overwrites the values in place with those of `source`, cast and moved as needed.
    ///
    /// # Errors
    /// Returns an error if the shapes differ.
    pub fn set(&self, source: &Tensor) -> Result<()> {
        overwrite(&self.tensor(), source)
    }

    /// Replaces the tensor; dtype, device or shape may differ.
    pub fn replace(&self, tensor: Tensor) {
        self.0.set(tensor.detach());
    }

    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl ModuleField for StateTensor {
    fn visit_field(&self, visitor: &mut Visitor<'_>) {
        visitor.visit_member(Member::State(self));
    }
}

impl fmt::Debug for StateTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tensor = self.tensor();
        write!(f, "StateTensor({:?} {})", tensor.shape(), tensor.dtype())
    }
}

/// Whether a layer is in training or evaluation mode: a field of layers that differ between the
/// two. Initially training.
#[derive(Clone)]
pub struct Mode(Arc<AtomicBool>);

impl Mode {
    /// Whether the layer is in training mode.
    #[inline]
    pub fn is_training(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Switches between training and evaluation mode.
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
    fn visit_field(&self, visitor: &mut Visitor<'_>) {
        visitor.visit_member(Member::Mode(self));
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_training() { "training" } else { "eval" })
    }
}
