//! Whether ops are recorded, and whether they are fused: switches of each thread.

use crate::tensor::Tensor;
use std::cell::{Cell, RefCell};

/// Ops on tensors that need a gradient are recorded.
const RECORDING: u8 = 1;
/// The tensors that need a gradient and are used are noted: a checkpointed segment runs.
const CAPTURING: u8 = 2;
/// What lies around products runs as ops of its own.
const UNFUSED: u8 = 4;
/// Each layer computes what it gives by itself: somebody observes layers.
const LAYERS_APART: u8 = 8;

thread_local! {
    /// One cell for both, so that an op that is recorded reads one.
    static MODE: Cell<u8> = const { Cell::new(RECORDING) };
    static CAPTURED: RefCell<Option<Captured>> = const { RefCell::new(None) };
}

/// Sets one bit of the mode back on drop.
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

/// Whether ops on this thread are recorded when an input needs a gradient.
#[inline]
pub fn is_recording() -> bool {
    MODE.get() & RECORDING != 0
}

/// Switches recording for this thread, until it is switched again, and tells what it was: for bindings to languages whose scopes are no closures. Rust
/// has [`no_grad`] and [`enable_grad`], which cannot be left open.
pub fn set_recording(on: bool) -> bool {
    let before = is_recording();
    MODE.set(if on { MODE.get() | RECORDING } else { MODE.get() & !RECORDING });
    before
}

/// Runs `f` without recording; in-place changes of parameters are allowed inside.
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    with_mode(false, f)
}

/// Runs `f` with recording, also inside [`no_grad`].
pub fn enable_grad<T>(f: impl FnOnce() -> T) -> T {
    with_mode(true, f)
}

/// Runs `f` with every function of forward and backward as an op of its own: what layers and gradient rules otherwise fuse with matrix products and norms.
///
/// - [`linear_add`](Tensor::linear_add) and [`feed_forward`](Tensor::feed_forward), and so the layers of transformers, run product, activation and addition apart; norms give f32 also where only products in half
///   precision read them.
/// - A backward pass sums the gradients of several uses by additions, and forms the gradients of activations, their rounded copies and the sums of their columns by themselves.
/// - Casts of parameters that an optimizer has written along with them are done again.
///
/// The numbers differ by roundings in half precision that fusing leaves out and by the order of sums. What a single op computes stays one op: a linear layer with its bias, attention, a loss, a norm, and the
/// activation or residual that [`MatmulOptions`](crate::MatmulOptions) ask for by name. A graph keeps the form in which it was recorded, so forward and backward both belong inside. A step that is
/// [captured](crate::Device::capture) inside, or a segment that is [checkpointed](crate::checkpoint), stays unfused when it runs again.
///
/// For measuring what fusing brings, and for holding fused training against unfused.
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

/// How layers and gradient rules form what they compute on this thread. What runs again later has the form of the first time.
#[derive(Clone, Copy)]
pub(crate) struct Forming(u8);

impl Forming {
    pub(crate) fn current() -> Forming {
        Forming(MODE.get())
    }

    /// Runs `f` in this form.
    pub(crate) fn apply<T>(self, f: impl FnOnce() -> T) -> T {
        let _fusion = Restore::after_setting(UNFUSED, self.0 & UNFUSED != 0);
        let _layers = Restore::after_setting(LAYERS_APART, self.0 & LAYERS_APART != 0);
        f()
    }
}

/// Whether layers compute what each gives by itself, rather than with what follows it: for those who observe layers. A segment that is
/// [checkpointed](crate::checkpoint) and a step that is [captured](crate::Device::capture) run again as they ran the first time.
#[inline]
pub fn are_layers_apart() -> bool {
    MODE.get() & LAYERS_APART != 0
}

/// Switches [`are_layers_apart`] for this thread.
pub fn set_layers_apart(on: bool) {
    MODE.set(if on { MODE.get() | LAYERS_APART } else { MODE.get() & !LAYERS_APART });
}

/// Whether layers and gradient rules on this thread may fuse ops: not inside [`without_fusion`].
#[inline]
pub fn is_fusing() -> bool {
    MODE.get() & UNFUSED == 0
}

/// The tensors that need a gradient and were there before the node of this number.
struct Captured {
    before: u64,
    tensors: Vec<Tensor>,
}

impl Captured {
    fn note<'t>(&mut self, tensors: impl Iterator<Item = &'t Tensor>) {
        let older = |tensor: &&Tensor| tensor.node().is_some_and(|node| node.id() < self.before);
        self.tensors.extend(tensors.filter(older).cloned());
    }
}

/// Runs `f` and tells which tensors that need a gradient it used, of those that were there before the node numbered `before`.
pub(super) fn capture_inputs<T>(before: u64, f: impl FnOnce() -> T) -> (T, Vec<Tensor>) {
    struct Reset(Option<Captured>);
    impl Drop for Reset {
        fn drop(&mut self) {
            CAPTURED.replace(self.0.take());
        }
    }
    let own = Captured { before, tensors: Vec::new() };
    let mut reset = Reset(CAPTURED.replace(Some(own)));
    let result = {
        let _restore = Restore::after_setting(CAPTURING, true);
        f()
    };
    let captured = CAPTURED.take().map(|captured| captured.tensors).unwrap_or_default();
    // A segment inside a segment: what the inner one uses, the outer one uses too.
    if let Some(outer) = &mut reset.0 {
        outer.note(captured.iter());
    }
    (result, captured)
}

/// Whether an op on `inputs`, some of which need a gradient, is recorded. They are noted for [`capture_inputs`].
#[inline]
pub(super) fn records(inputs: &[&Tensor]) -> bool {
    let mode = MODE.get();
    if mode & CAPTURING != 0 {
        note_inputs(inputs);
    }
    mode & RECORDING != 0
}

#[cold]
fn note_inputs(inputs: &[&Tensor]) {
    CAPTURED.with_borrow_mut(|captured| {
        if let Some(captured) = captured {
            captured.note(inputs.iter().copied());
        }
    });
}
