//! Options for opening a device.

use ternion_core::{Error, Result};

/// Options for opening a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum size of a binding in bytes, if it should be less than the adapter allows, so that
    /// tests need no large tensors. At least [`Options::MIN_BINDING_BYTES`].
    pub binding_bytes: Option<u64>,
    /// Whether compilers add their own checks around every memory access and every loop. This is
    /// slower, and needed only to find an error in a shader.
    pub checked: bool,
    /// Whether threads exchange values only through workgroup memory, even if the adapter has
    /// subgroups, so that tests cover both paths.
    pub without_subgroups: bool,
    /// Whether attention is computed as separate matrix products (unfused) even if they are so
    /// small that they leave most of a GPU idle. This is always so on software adapters. With this
    /// option, tests need no large tensors.
    pub small_products: bool,
    /// Maximum number of bytes of tensors and cached memory together, if it should be less than the
    /// device has.
    pub memory_bytes: Option<u64>,
}

impl Options {
    /// The environment variable from which [`device`](crate::device) reads
    /// [`Options::binding_bytes`].
    pub const BINDING_BYTES: &str = "TERNION_WGPU_BINDING_BYTES";

    /// The environment variable from which [`device`](crate::device) reads [`Options::checked`]: on
    /// if it is set and neither empty nor 0.
    pub const CHECKED: &str = "TERNION_WGPU_CHECKED";

    /// The minimum of [`Options::binding_bytes`]. On every device, the start of a binding may be
    /// any multiple of this.
    pub const MIN_BINDING_BYTES: u64 = 256;

    /// Reads the options from the environment.
    ///
    /// # Errors
    /// A variable is not a number of bytes.
    pub fn from_env() -> Result<Options> {
        let checked = std::env::var(Options::CHECKED).is_ok_and(|value| !value.is_empty() && value != "0");
        let value = std::env::var(Options::BINDING_BYTES).unwrap_or_default();
        if value.is_empty() {
            return Ok(Options { checked, ..Options::default() });
        }
        match value.parse() {
            Ok(bytes) => Ok(Options { binding_bytes: Some(bytes), checked, ..Options::default() }),
            Err(_) => Err(Error::invalid(
                "wgpu",
                format!("{}={value} is not a number of bytes", Options::BINDING_BYTES),
            )),
        }
    }
}
