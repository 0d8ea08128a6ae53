//! A scope in which every op that is called runs on a second device too, and is compared: [`check_ops`]. For tensors that are there already, where
//! [`Checked`](crate::decorators::Checked) wants them to be made on a device of its own.

use crate::decorators::{Comparison, Snapshot};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::observe::{Restore, watched};
use crate::op::Op;
use crate::tensor::Tensor;
use crate::{no_grad, without_precision};
use std::cell::RefCell;

/// What an op that differs becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDifference {
    /// The op's error.
    Fail,
    /// An entry of the [`CheckReport`]: the op's own result is used.
    Collect,
}

/// With what ops are compared, and how closely.
#[derive(Clone, Debug)]
pub struct CheckConfig {
    /// The reference. Ops on this device itself are not compared.
    pub against: Device,
    /// What the differences that [`Checked`](crate::decorators::Checked) allows are multiplied by: 1 for those themselves, 0 for equal bits of finite numbers.
    pub factor: f64,
    /// What becomes of a difference.
    pub on_difference: OnDifference,
}

/// What a scope of [`check_ops`] saw.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Ops that were compared.
    pub compared: usize,
    /// The differences that were collected, each an [`Error::Mismatch`].
    pub differences: Vec<Error>,
}

struct Opened {
    config: CheckConfig,
    report: CheckReport,
    _watched: Restore,
}

thread_local! {
    static OPENED: RefCell<Vec<Opened>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f`; every op that is called on this thread inside it runs on `config.against` too, with the same inputs (as they were before it, for ops in place), forward and backward. Of scopes
/// inside each other, the innermost compares.
///
/// Compared is what a program calls, not what a device composes it of. What an op reads and writes is copied to the host: slow, for finding out where numbers go wrong. A step that is
/// recorded for its replay ([`Device::capture`]) cannot be read, which is the error of its first op.
///
/// # Errors
/// A factor that is negative or not finite.
pub fn check_ops<T>(config: CheckConfig, f: impl FnOnce() -> T) -> Result<(T, CheckReport)> {
    /// Closes the scope also where `f` panics.
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

/// Opens a scope of [`check_ops`] that [`close_check`] ends: for bindings to languages whose scopes are no closures.
///
/// # Errors
/// As [`check_ops`].
pub fn open_check(config: CheckConfig) -> Result<()> {
    if !(config.factor.is_finite() && config.factor >= 0.0) {
        let detail = format!("factor {}, expected a finite number of at least 0", config.factor);
        return Err(Error::invalid("check", detail));
    }
    let opened = Opened { config, report: CheckReport::default(), _watched: watched() };
    OPENED.with_borrow_mut(|all| all.push(opened));
    Ok(())
}

/// Ends the scope of this thread that [`open_check`] opened last; `None` if none is open.
pub fn close_check() -> Option<CheckReport> {
    OPENED.with_borrow_mut(Vec::pop).map(|opened| opened.report)
}

/// The inputs of an op before it runs, and with what it will be compared.
pub(crate) struct Before {
    config: CheckConfig,
    inputs: Vec<Snapshot>,
}

/// To be called before an op of this thread runs; `None` while no scope is open.
pub(crate) fn before(inputs: &[&Tensor]) -> Result<Option<Before>> {
    let config = OPENED.with_borrow(|all| all.last().map(|opened| opened.config.clone()));
    let Some(config) = config else { return Ok(None) };
    if inputs.iter().any(|input| input.device().is(&config.against)) {
        return Ok(None);
    }
    let read = |input: &&Tensor| Snapshot::of(input.device().backend(), &input.view());
    Ok(Some(Before { inputs: inputs.iter().map(read).collect::<Result<_>>()?, config }))
}

/// To be called with what came of it.
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
    OPENED.with_borrow_mut(|all| {
        let Some(opened) = all.last_mut() else { return compared };
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
