//! Records of what a device without an adapter launched, for programs that inspect shaders.

/// A shader that was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The op.
    pub op: &'static str,
    /// The index of the op's call, counted from 1: an op may launch several shaders.
    pub call: u64,
    /// The path of the template below `shaders/`.
    pub path: &'static str,
    /// The complete linked source.
    pub source: String,
}
