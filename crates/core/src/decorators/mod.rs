//! Devices that wrap a device: they observe it, compare it with another one, or hide some of its
//! ops. Programs run on them unchanged.
//!
//! Buffers are those of the wrapped device, so views are passed through unchanged.
//! [`from_environment`] wraps a device according to environment variables.

mod checked;
mod composed;
mod counting;
mod fallback;
mod nan_check;
mod snapshot;

pub(crate) use checked::Comparison;
pub use checked::{Checked, tolerance};
pub use composed::Composed;
pub use counting::{Counter, Counting, Counts, OpCounts};
pub use fallback::{Fallback, known_names};
pub use nan_check::NanCheck;
pub(crate) use nan_check::scalar_argument;
pub(crate) use snapshot::Snapshot;

use crate::device::Device;
use crate::error::{Error, Result};

/// Wraps `device` according to the environment:
///
/// | variable | effect |
/// |---|---|
/// | `TERNION_FALLBACK=cpu:softmax,matmul` | [`Fallback`]: runs these ops on that device |
/// | `TERNION_CHECK=cpu` | [`Checked`]: every op is compared with that device |
/// | `TERNION_NAN=error` | [`NanCheck`]: stops at the first NaN; `infinite`: also at an infinity |
///
/// An empty variable counts as unset. `resolve` returns the unwrapped device for a name.
///
/// # Errors
/// Returns an error if a value is invalid or an op does not exist, and the errors of `resolve`.
pub fn from_environment(device: Device, resolve: &dyn Fn(&str) -> Result<Device>) -> Result<Device> {
    from_settings(device, &|name| std::env::var(name).ok(), resolve)
}

/// Same as [`from_environment`], with the settings from `lookup` instead of the environment.
///
/// # Errors
/// Same as [`from_environment`].
pub fn from_settings(
    mut device: Device,
    lookup: &dyn Fn(&str) -> Option<String>,
    resolve: &dyn Fn(&str) -> Result<Device>,
) -> Result<Device> {
    let setting = |name: &str| lookup(name).filter(|value| !value.is_empty());
    if let Some(value) = setting("TERNION_FALLBACK") {
        let (other, ops) = value.rsplit_once(':').ok_or_else(|| {
            Error::invalid(
                "TERNION_FALLBACK",
                format!("{value:?}, expected a device and ops, such as cpu:softmax,matmul"),
            )
        })?;
        let ops: Vec<&str> = ops.split(',').map(str::trim).collect();
        if ops.contains(&"") {
            let detail =
                format!("{value:?}, expected ops with commas between them, such as cpu:softmax,matmul");
            return Err(Error::invalid("TERNION_FALLBACK", detail));
        }
        device = Fallback::new(device, resolve(other)?, &ops).map_err(|error| match error {
            Error::Invalid { detail, .. } => Error::invalid("TERNION_FALLBACK", detail),
            other => other,
        })?;
    }
    if let Some(oracle) = setting("TERNION_CHECK") {
        device = Checked::new(device, resolve(&oracle)?);
    }
    match setting("TERNION_NAN").as_deref() {
        None => Ok(device),
        Some("error") => Ok(NanCheck::new(device)),
        Some("infinite") => Ok(NanCheck::with_infinity(device)),
        Some(other) => {
            Err(Error::invalid("TERNION_NAN", format!("{other:?}, expected \"error\" or \"infinite\"")))
        }
    }
}
