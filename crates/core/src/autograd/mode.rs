//! Thread-local switches that control whether ops are recorded, and whether they are fused.

use crate::tensor::Tensor;
use std::cell::{Cell, RefCell};

/// Ops on tensors that need a gradient are recorded.
const RECORDING: u8 = 1;
/// A checkpointed segment runs: the tensors that it uses and that need a gradient are collected.
const CAPTURING: u8 = 2;
/// Epilogues of products run as separate ops.
const UNFUSED: u8 = 4;
/// Each layer computes its own output separately, because layers are observed.
const LAYER_FUSION_DISABLED: u8 = 8;

thread_local! {
    /// One cell for all switches, so that recording an op reads only one.
    static MODE: Cell<u8> = const { Cell::new(RECORDING) };
    /// The tensors that the innermost running segment has used so far.
    static CAPTURED: RefCell<Option<Captured>> = const { RefCell::new(None) };
}

/// Restores one bit of the mode on drop.
struct Restore {
    bit: u8,
    before: u8,
}

impl Restore {
    fn after_setting(bit: u8, on: bool) -> Restore {
        let before = MODE.get();
        MODE.set(if on { before | bit } else { before & !bit });
        Restore { bit, before }
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        MODE.set(MODE.get() & !self.bit | self.before & self.bit);
    }
}

fn with_mode<T>(recording: bool, f: impl FnOnce() -> T) -> T {
    let _restore = Restore::after_setting(RECORDING, recording);
    f()
}

/// Returns whether ops on this thread are recorded if an input needs a gradient.
#[inline]
pub fn is_recording() -> bool {
    MODE.get() & RECORDING != 0
}

/// Switches recording on or off for this thread and returns the previous value, for bindings to
/// languages whose scopes are not closures. In Rust use [`no_grad`] and [`enable_grad`], which
/// always restore the previous value.
pub fn set_recording(on: bool) -> bool {
    let before = is_recording();
    MODE.set(if on { MODE.get() | RECORDING } else { MODE.get() & !RECORDING });
    before
}

/// Runs `f` without recording. In-place changes of parameters are allowed in it.
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    with_mode(false, f)
}

/// Runs `f` with recording, also inside [`no_grad`].
pub fn enable_grad<T>(f: impl FnOnce() -> T) -> T {
    with_mode(true, f)
}

/// Runs `f` without the fusion that layers and gradient rules apply to matrix products and norms:
/// every function of the forward and backward pass is a separate op.
///
/// - [`linear_add`](Tensor::linear_add) and [`feed_forward`](Tensor::feed_forward), and therefore
///   transformer layers, run product, activation and addition separately. Norms output f32 even if
///   only half-precision products read them.
/// - A backward pass sums the gradients of several uses by additions, and computes the gradients of
///   activations, their rounded copies and their column sums separately.
/// - Casts of parameters are recomputed even if the optimizer has written half-precision copies.
///
/// The results differ from fused ones by roundings to half precision that fusion omits, and by the
/// order of sums. A single op stays one op: a linear layer with its bias, attention, a loss, a
/// norm, and the activation or residual that [`MatmulOptions`](crate::MatmulOptions) explicitly
/// request. A graph is not changed after recording, so both forward and backward must run inside
/// `f`. A step that is [captured](crate::Device::capture) inside, or a segment that is
/// [checkpointed](crate::checkpoint), stays unfused when it runs again.
///
/// Use it to measure the effect of fusion, and to compare fused with unfused training.
///
/// ```
/// use ternion_core::ops::matmul::LinearParameters;
/// use ternion_core::{DType, Result, Tensor, without_fusion};
///
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// let weight = Tensor::randn([4, 4], DType::F32, &device)?.requires_grad()?;
/// let x = Tensor::randn([2, 4], DType::F32, &device)?;
/// let layer = LinearParameters { weight: &weight, bias: None };
/// let step = || x.linear_add(layer, &x)?.square()?.sum_all()?.backward();
/// let (fused, unfused) = (step()?, without_fusion(step)?);
/// # let values = |gradients: &ternion_core::Gradients| gradients.get(&weight).expect("a gradient").to_vec_f64();
/// # let (fused, unfused) = (values(&fused)?, values(&unfused)?);
/// # assert!(fused.iter().zip(&unfused).all(|(one, other)| (one - other).abs() <= 1e-4 * (1.0 + other.abs())));
/// # Ok(())
/// # }
/// ```
pub fn without_fusion<T>(f: impl FnOnce() -> T) -> T {
    let _restore = Restore::after_setting(UNFUSED, true);
    f()
}

/// The fusion switches of this thread. Code that is rerun later uses the switches of its first run.
#[derive(Clone, Copy)]
pub(crate) struct FusionMode(u8);

impl FusionMode {
    pub(crate) fn current() -> FusionMode {
        FusionMode(MODE.get())
    }

    /// Runs `f` with these switches.
    pub(crate) fn apply<T>(self, f: impl FnOnce() -> T) -> T {
        let _fusion = Restore::after_setting(UNFUSED, self.0 & UNFUSED != 0);
        let _layers = Restore::after_setting(LAYER_FUSION_DISABLED, self.0 & LAYER_FUSION_DISABLED != 0);
        f()
    }
}

/// Returns whether each layer computes its own output separately instead of fusing it with the next
/// one, for observers of layers. A [checkpointed](crate::checkpoint) segment and a
/// [captured](crate::Device::capture) step use the value of their first run when they run again.
#[inline]
pub fn is_layer_fusion_disabled() -> bool {
    MODE.get() & LAYER_FUSION_DISABLED != 0
}

/// Switches [`is_layer_fusion_disabled`] for this thread.
pub fn set_layer_fusion_disabled(on: bool) {
    MODE.set(if on { MODE.get() | LAYER_FUSION_DISABLED } else { MODE.get() & !LAYER_FUSION_DISABLED });
}

/// Returns whether layers and gradient rules on this thread may fuse ops: false in
/// [`without_fusion`].
#[inline]
pub fn is_fusing() -> bool {
    MODE.get() & UNFUSED == 0
}

/// The tensors that a segment used, that need a gradient, and that are older than the node with id
/// `before`.
struct Captured {
    before: u64,
    tensors: Vec<Tensor>,
}

impl Captured {
    fn add<'t>(&mut self, tensors: impl Iterator<Item = &'t Tensor>) {
        let is_older = |tensor: &&Tensor| tensor.node().is_some_and(|node| node.id() < self.before);
        self.tensors.extend(tensors.filter(is_older).cloned());
    }
}

/// Runs `f`. Returns its result and the tensors that it used, if they need a gradient and are older
/// than the node with id `before`.
pub(super) fn capture_inputs<T>(before: u64, f: impl FnOnce() -> T) -> (T, Vec<Tensor>) {
    /// Restores the outer segment's tensors, also if `f` panics.
    struct Reset(Option<Captured>);
    impl Drop for Reset {
        fn drop(&mut self) {
            CAPTURED.replace(self.0.take());
        }
    }
    let captured_here = Captured { before, tensors: Vec::new() };
    let mut reset = Reset(CAPTURED.replace(Some(captured_here)));
    let result = {
        let _restore = Restore::after_setting(CAPTURING, true);
        f()
    };
    let captured = CAPTURED.take().map(|captured| captured.tensors).unwrap_or_default();
    // In a nested segment, the outer segment also uses the tensors that the inner one uses.
    if let Some(outer) = &mut reset.0 {
        outer.add(captured.iter());
    }
    (result, captured)
}

/// Returns whether ops are recorded. `inputs` are those of an op, and at least one needs a
/// gradient. Inside [`capture_inputs`] they are also collected.
#[inline]
pub(super) fn records(inputs: &[&Tensor]) -> bool {
    let mode = MODE.get();
    if mode & CAPTURING != 0 {
        record_inputs(inputs);
    }
    mode & RECORDING != 0
}

/// Collects inputs for the running segment.
#[cold]
fn record_inputs(inputs: &[&Tensor]) {
    CAPTURED.with_borrow_mut(|captured| {
        if let Some(captured) = captured {
            captured.add(inputs.iter().copied());
        }
    });
}
