//! Records of what a device without an adapter launched, for programs that inspect shaders.

/// A shader that was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The op.
    pub op: &'static str,
    /// The number of the call that launched it: an op may launch several shaders.
    pub call: u64,
    /// The path of the template below `shaders/`.
    pub path: &'static str,
    /// The whole linked text.
    pub text: String,
}
