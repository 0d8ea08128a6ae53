//! Configuration by environment variables.

use crate::source::CompileConfig;

/// The configuration given by the environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvConfig {
    /// `TERNION_CUDA_SYNC=1`: waits after each kernel, so that a fault of the device names the op
    /// that caused it.
    pub(crate) is_synchronous: bool,
    /// `TERNION_CUDA_POISON=1`: fresh memory is filled with NaN.
    pub(crate) poisons_memory: bool,
    /// `TERNION_CUDA_POOL=0`: every buffer is allocated by the driver, so that tools detect
    /// accesses outside of it.
    pub(crate) uses_pool: bool,
    /// `TERNION_CUDA_TENSOR_MAPS=0`: matrix products use the kernels without tensor maps, which are
    /// otherwise only for devices or operands that do not support tensor maps.
    pub(crate) uses_tensor_maps: bool,
    /// `TERNION_CUDA_DEPENDENT_LAUNCHES`: whether kernels may begin before the previous ones have
    /// ended.
    pub(crate) dependent_launches: DependentLaunches,
    /// `TERNION_CUDA_DELAYS=1`, for tests: threads of kernels pause for random times where they
    /// wait for each other. These kernels are compiled separately.
    pub(crate) has_delays: bool,
}

/// The value of `TERNION_CUDA_DEPENDENT_LAUNCHES`, if the device and its driver support it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DependentLaunches {
    /// `0`: a kernel begins when the previous one has ended and its memory operations are complete.
    Off,
    /// `1`, the default: a kernel may begin when the last block of the previous one has ended,
    /// before its memory operations are complete.
    AtEnd,
    /// `2`, for measurements: small kernels allow the next one to begin at once. They are compiled
    /// separately.
    AtBegin,
}

impl DependentLaunches {
    fn of(value: Option<&str>) -> DependentLaunches {
        match value {
            Some("0") => DependentLaunches::Off,
            Some("2") => DependentLaunches::AtBegin,
            _ => DependentLaunches::AtEnd,
        }
    }
}

impl EnvConfig {
    pub(crate) fn from_environment() -> EnvConfig {
        let is_on =
            |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        let is_on_by_default = |name: &str| std::env::var_os(name).is_none_or(|value| value != "0");
        EnvConfig {
            is_synchronous: is_on("TERNION_CUDA_SYNC"),
            poisons_memory: is_on("TERNION_CUDA_POISON"),
            uses_pool: is_on_by_default("TERNION_CUDA_POOL"),
            uses_tensor_maps: is_on_by_default("TERNION_CUDA_TENSOR_MAPS"),
            dependent_launches: DependentLaunches::of(
                std::env::var("TERNION_CUDA_DEPENDENT_LAUNCHES").ok().as_deref(),
            ),
            has_delays: is_on("TERNION_CUDA_DELAYS"),
        }
    }

    /// Returns how kernels are compiled.
    pub(crate) fn compile_config(&self) -> CompileConfig {
        CompileConfig {
            triggers: self.dependent_launches == DependentLaunches::AtBegin,
            has_delays: self.has_delays,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DependentLaunches::{self, *};

    #[test]
    fn kernels_overlap_unless_0_says_otherwise() {
        let read = [None, Some(""), Some("1"), Some("0"), Some("2")].map(DependentLaunches::of);
        assert_eq!(read, [AtEnd, AtEnd, AtEnd, Off, AtBegin]);
    }
}
