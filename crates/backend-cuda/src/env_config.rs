//! What environment variables configure.

/// The configuration that the environment asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvConfig {
    /// `TERNION_CUDA_SYNC=1`: waits after each kernel, so that a fault of the device names the op
    /// that made it.
    pub(crate) synchronous: bool,
    /// `TERNION_CUDA_POISON=1`: fresh memory is filled with NaN.
    pub(crate) poison: bool,
    /// `TERNION_CUDA_POOL=0`: every buffer is the driver's own, so that tools see accesses beyond
    /// it.
    pub(crate) pool: bool,
    /// `TERNION_CUDA_TENSOR_MAPS=0`: matrix products run as on devices without tensor maps, by
    /// kernels that else take what those cannot describe.
    pub(crate) tensor_maps: bool,
}

impl EnvConfig {
    pub(crate) fn from_environment() -> EnvConfig {
        let is_on =
            |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        let is_not_off = |name: &str| std::env::var_os(name).is_none_or(|value| value != "0");
        EnvConfig {
            synchronous: is_on("TERNION_CUDA_SYNC"),
            poison: is_on("TERNION_CUDA_POISON"),
            pool: is_not_off("TERNION_CUDA_POOL"),
            tensor_maps: is_not_off("TERNION_CUDA_TENSOR_MAPS"),
        }
    }
}
