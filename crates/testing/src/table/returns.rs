//! The return types of calls under test and of oracles.

use crate::array::Array;
use ternion_core::Tensor;

/// The return types of a call under test.
pub trait IntoOutputs {
    /// Returns the outputs as a list.
    fn into_outputs(self) -> Vec<Tensor>;
}

impl IntoOutputs for Tensor {
    fn into_outputs(self) -> Vec<Tensor> {
        vec![self]
    }
}
impl IntoOutputs for Vec<Tensor> {
    fn into_outputs(self) -> Vec<Tensor> {
        self
    }
}
impl IntoOutputs for (Tensor, Tensor) {
    fn into_outputs(self) -> Vec<Tensor> {
        vec![self.0, self.1]
    }
}
impl IntoOutputs for (Tensor, Tensor, Tensor) {
    fn into_outputs(self) -> Vec<Tensor> {
        vec![self.0, self.1, self.2]
    }
}
impl IntoOutputs for () {
    fn into_outputs(self) -> Vec<Tensor> {
        Vec::new()
    }
}

/// The return types of an oracle.
pub trait IntoArrays {
    /// Returns the arrays as a list.
    fn into_arrays(self) -> Vec<Array>;
}

impl IntoArrays for Array {
    fn into_arrays(self) -> Vec<Array> {
        vec![self]
    }
}
impl IntoArrays for Vec<Array> {
    fn into_arrays(self) -> Vec<Array> {
        self
    }
}
impl IntoArrays for (Array, Array) {
    fn into_arrays(self) -> Vec<Array> {
        vec![self.0, self.1]
    }
}
impl IntoArrays for (Array, Array, Array) {
    fn into_arrays(self) -> Vec<Array> {
        vec![self.0, self.1, self.2]
    }
}
