//! A scope in which every op also runs on a second device, and the results are compared:
//! [`check_ops`]. It works with existing tensors, whereas [`Checked`](crate::decorators::Checked)
//! requires tensors on its own device.

use crate::decorators::{Comparison, Snapshot};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::observe::{Restore, observe_scope};
use crate::op::Op;
use crate::tensor::Tensor;
use crate::{no_grad, without_precision};
use std::cell::RefCell;

/// What an op does if its results differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDifference {
    /// The op returns an error.
    Fail,
    /// The difference is added to the [`CheckReport`], and the op's own result is used.
    Collect,
}

/// The device with which ops are compared, and the tolerance.
#[derive(Clone, Debug)]
pub struct CheckConfig {
    /// The reference. Ops on this device are not compared.
    pub against: Device,
    /// Factor of the tolerances of [`Checked`](crate::decorators::Checked): 1 for the same
    /// tolerances, 0 to require equal bits of finite numbers.
    pub factor: f64,
    /// What an op does if its results differ.
    pub on_difference: OnDifference,
}

/// The result of a scope of [`check_ops`].
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Number of ops that were compared.
    pub compared: usize,
    /// The differences that were collected, each an [`Error::Mismatch`].
    pub differences: Vec<Error>,
}

/// An open scope of [`check_ops`].
struct Opened {
    config: CheckConfig,
    report: CheckReport,
    _observing: Restore,
}

thread_local! {
    /// The open scopes of this thread, the innermost last.
    static OPENED: RefCell<Vec<Opened>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f`. Every op that is called on this thread inside it also runs on `config.against` with
/// the same inputs (for in-place ops, as they were before), in the forward and the backward pass.
/// If scopes are nested, the innermost one compares.
///
/// The ops that a program calls are compared, not the ops that a composition calls. All inputs and
/// outputs are copied to the host. This is slow, and intended for debugging. It cannot read the
/// tensors of a step that is captured for replay ([`Device::capture`]): the first op of the step
/// returns an error.
///
/// # Errors
/// Returns an error if the factor is negative or not finite.
pub fn check_ops<T>(config: CheckConfig, f: impl FnOnce() -> T) -> Result<(T, CheckReport)> {
    /// Closes the scope, also if `f` panics.
    struct Close;
    impl Drop for Close {
        fn drop(&mut self) {
            close_check();
        }
    }
    open_check(config)?;
    let close = Close;
    let result = f();
    std::mem::forget(close);
    Ok((result, close_check().unwrap_or_default()))
}

/// Opens a scope of [`check_ops`] that [`close_check`] ends, for bindings to languages whose scopes
/// are not closures.
///
/// # Errors
/// Same as [`check_ops`].
pub fn open_check(config: CheckConfig) -> Result<()> {
    if !(config.factor.is_finite() && config.factor >= 0.0) {
        let detail = format!("factor {}, expected a finite number of at least 0", config.factor);
        return Err(Error::invalid("check", detail));
    }
    let opened = Opened { config, report: CheckReport::default(), _observing: observe_scope() };
    OPENED.with_borrow_mut(|scopes| scopes.push(opened));
    Ok(())
}

/// Ends the most recent scope of this thread that [`open_check`] opened; `None` if none is open.
pub fn close_check() -> Option<CheckReport> {
    OPENED.with_borrow_mut(Vec::pop).map(|opened| opened.report)
}

/// The inputs of an op before it runs, and the configuration of the comparison.
pub(crate) struct Before {
    config: CheckConfig,
    inputs: Vec<Snapshot>,
}

/// Reads the inputs before an op of this thread runs; `None` if no scope is open.
pub(crate) fn before(inputs: &[&Tensor]) -> Result<Option<Before>> {
    let config = OPENED.with_borrow(|scopes| scopes.last().map(|opened| opened.config.clone()));
    let Some(config) = config else { return Ok(None) };
    if inputs.iter().any(|input| input.device().is(&config.against)) {
        return Ok(None);
    }
    let read = |input: &&Tensor| Snapshot::of(input.device().backend(), &input.view());
    Ok(Some(Before { inputs: inputs.iter().map(read).collect::<Result<_>>()?, config }))
}

/// Compares the outputs of the op.
pub(crate) fn after(op: &Op, mut before: Before, outputs: &[Tensor]) -> Result<()> {
    let Before { config, inputs } = &mut before;
    let Some(device) = outputs.first().map(Tensor::device).filter(|device| !device.is(&config.against))
    else {
        return Ok(());
    };
    // A copy may broadcast into its destination.
    if let (Op::Copy(_), [input], [output]) = (op, inputs.as_mut_slice(), outputs) {
        input.shape = *output.shape();
    }
    let comparison = Comparison { device, oracle: &config.against, factor: config.factor };
    let views: Vec<_> = outputs.iter().map(Tensor::view).collect();
    let compared = without_precision(|| no_grad(|| comparison.compare(op, inputs, &views)));
    OPENED.with_borrow_mut(|scopes| {
        let Some(opened) = scopes.last_mut() else { return compared };
        opened.report.compared += 1;
        match compared {
            Err(difference @ Error::Mismatch { .. }) if config.on_difference == OnDifference::Collect => {
                opened.report.differences.push(difference);
                Ok(())
            }
            other => other,
        }
    })
}
