//! What a device without an adapter launched, for whoever wants to read shaders.

/// A shader that was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The op.
    pub op: &'static str,
    /// The number of the call that launched it: an op may launch several.
    pub call: u64,
    /// The template, below `shaders/`.
    pub path: &'static str,
    /// The whole linked text.
    pub text: String,
}
