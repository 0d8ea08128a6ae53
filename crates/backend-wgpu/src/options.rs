//! How a device is opened.

use ternion_core::{Error, Result};

/// How a device is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a binding, at most, where that is to be less than what the adapter allows: so that
    /// tests need no large tensors. At least [`Options::LEAST_BINDING_BYTES`].
    pub binding_bytes: Option<u64>,
    /// Whether compilers put checks of their own around every access to memory and every loop:
    /// slower, and needed only to find an error in a shader.
    pub checked: bool,
    /// Whether threads meet in work-group memory alone, also where the adapter has subgroups: so
    /// that tests reach both ways.
    pub without_subgroups: bool,
    /// Whether attention is made of whole products also where it is so small that they leave most
    /// of a GPU idle, as is done on software adapters: so that tests need no large tensors.
    pub small_products: bool,
    /// Bytes that tensors and what is kept for reuse may take in all, where that is to be less than
    /// the device has.
    pub memory_bytes: Option<u64>,
}

impl Options {
    /// What [`device`](crate::device) reads [`Options::binding_bytes`] from.
    pub const BINDING_BYTES: &str = "TERNION_WGPU_BINDING_BYTES";

    /// What [`device`](crate::device) reads [`Options::checked`] from: on where it is set and not
    /// 0.
    pub const CHECKED: &str = "TERNION_WGPU_CHECKED";

    /// The beginnings of bindings are multiples of this on every device.
    pub const LEAST_BINDING_BYTES: u64 = 256;

    /// As the environment says.
    ///
    /// # Errors
    /// A variable that is no number of bytes.
    pub fn from_env() -> Result<Options> {
        let checked = std::env::var(Options::CHECKED).is_ok_and(|text| !text.is_empty() && text != "0");
        let text = std::env::var(Options::BINDING_BYTES).unwrap_or_default();
        if text.is_empty() {
            return Ok(Options { checked, ..Options::default() });
        }
        match text.parse() {
            Ok(bytes) => Ok(Options { binding_bytes: Some(bytes), checked, ..Options::default() }),
            Err(_) => Err(Error::invalid(
                "wgpu",
                format!("{}={text} is no number of bytes", Options::BINDING_BYTES),
            )),
        }
    }
}
