//! Running a row: moving its inputs to a device, the call under test, its gradients, and
//! second-order gradients.

use super::oracle_cache::OracleResults;
use crate::array::Array;
use crate::memory_layout::{MemoryLayout, tensor_with_layout};
use crate::phase::{self, Phase};
use crate::table::OpCase;
use ternion_core::{DType, Device, Error, GradOptions, Tensor, grad};

/// One gradient for each input.
type Gradients = Vec<Option<Tensor>>;

impl OpCase {
    /// Returns the oracle's outputs. A row without an oracle panics, which is reported as a failure
    /// of its case.
    pub(super) fn oracle_outputs(&self, dtype: DType, inputs: &[Array]) -> Vec<Array> {
        let oracle = self.oracle.as_ref().unwrap_or_else(|| panic!("{}: the row has no oracle", self.name()));
        oracle(dtype, inputs)
    }

    pub(super) fn rounded_outputs(&self, dtype: DType, inputs: &[Array]) -> Option<Vec<Array>> {
        let oracle = self.rounded_oracle.as_ref().filter(|_| dtype.is_half())?;
        Some(oracle(&|value| crate::compare::round_to(dtype, value), inputs))
    }

    /// Returns the row's reference gradients with the intermediate rounding of a kernel, for the
    /// leading inputs. The list is empty if the row defines none, or if `dtype` is not half
    /// precision.
    pub(super) fn rounded_gradients_of(
        &self,
        dtype: DType,
        inputs: &[Array],
        cotangents: &[Array],
    ) -> Vec<Array> {
        let Some(gradients) = self.rounded_gradients.as_ref().filter(|_| dtype.is_half()) else {
            return vec![];
        };
        gradients(&|value| crate::compare::round_to(dtype, value), inputs, cotangents)
    }

    /// Returns the cotangent of each output, or `None` for an output without a gradient.
    pub(super) fn weights(&self, cotangents: &[Array]) -> Vec<Option<Array>> {
        let if_differentiable = |(index, cotangent): (usize, &Array)| {
            (index < self.differentiable_outputs).then(|| cotangent.clone())
        };
        cotangents.iter().enumerate().map(if_differentiable).collect()
    }

    /// Moves the inputs to the device and calls the function under test.
    ///
    /// # Errors
    /// The errors of the call; a row without a function to call.
    pub fn call(
        &self,
        device: &Device,
        dtype: DType,
        memory_layout: MemoryLayout,
        inputs: &[Array],
    ) -> ternion_core::Result<Vec<Tensor>> {
        let inputs = self.create_inputs(device, dtype, memory_layout, inputs)?;
        self.call_on(device, dtype, &inputs)
    }

    fn call_on(&self, device: &Device, dtype: DType, inputs: &[Tensor]) -> ternion_core::Result<Vec<Tensor>> {
        let Some(run) = &self.run else {
            return Err(Error::invalid("op table", format!("{}: the row calls nothing", self.name())));
        };
        device.seed(0);
        phase::during(Phase::Forward, || run(inputs, device, dtype))
    }

    fn create_inputs(
        &self,
        device: &Device,
        dtype: DType,
        memory_layout: MemoryLayout,
        inputs: &[Array],
    ) -> ternion_core::Result<Vec<Tensor>> {
        let create_input = |(position, array): (usize, &Array)| {
            let is_repeatable =
                memory_layout != MemoryLayout::Broadcast || crate::case::can_repeat(self, position);
            let layout = if is_repeatable { memory_layout.layout(&array.shape, position) } else { None };
            tensor_with_layout(array, self.inputs[position].class.dtype(dtype), layout, device)
        };
        inputs.iter().enumerate().map(create_input).collect()
    }

    /// Runs forward with recording, then backward from `cotangents`. Returns the outputs, and the
    /// gradient of each input that has one.
    ///
    /// # Errors
    /// The errors of the call, or if no gradient was recorded.
    pub fn run_backward(
        &self,
        device: &Device,
        dtype: DType,
        memory_layout: MemoryLayout,
        inputs: &[Array],
        cotangents: &[Array],
    ) -> ternion_core::Result<(Vec<Tensor>, Gradients)> {
        let differentiable = self.differentiable_inputs(dtype);
        let mut inputs = self.create_inputs(device, dtype, memory_layout, inputs)?;
        for &position in &differentiable {
            inputs[position] = inputs[position].requires_grad()?;
        }
        let outputs = self.call_on(device, dtype, &inputs)?;
        let (sources, cotangents) = self.sources(device, memory_layout, &outputs, cotangents)?;
        let mut gradients = vec![None; inputs.len()];
        if sources.is_empty() {
            return match self.forward_only {
                Some(_) => Ok((outputs, gradients)),
                None => {
                    Err(ternion_core::Error::autograd("no output has a gradient; say forward_only, and why"))
                }
            };
        }
        let targets: Vec<Tensor> = differentiable.iter().map(|&position| inputs[position].clone()).collect();
        let options = GradOptions { allow_unused: true, ..GradOptions::default() };
        let gradients_found =
            phase::during(Phase::Backward, || grad(&sources, &targets, &cotangents, options))?;
        for (position, gradient) in differentiable.into_iter().zip(gradients_found) {
            gradients[position] = gradient;
        }
        Ok((outputs, gradients))
    }

    /// Returns the outputs that gradients flow from, with their cotangents in the same memory
    /// layout as the inputs.
    fn sources(
        &self,
        device: &Device,
        memory_layout: MemoryLayout,
        outputs: &[Tensor],
        cotangents: &[Array],
    ) -> ternion_core::Result<(Vec<Tensor>, Vec<Tensor>)> {
        let (mut sources, mut weights) = (Vec::new(), Vec::new());
        for (index, output) in outputs.iter().enumerate().take(self.differentiable_outputs) {
            let Some(cotangent) = cotangents.get(index).filter(|_| output.needs_grad()) else { continue };
            if output.dims() != cotangent.shape {
                let detail = format!(
                    "output {index} has shape {:?}, the oracle's has {:?}",
                    output.dims(),
                    cotangent.shape
                );
                return Err(ternion_core::Error::autograd(detail));
            }
            let layout = match memory_layout {
                MemoryLayout::Broadcast => None,
                other => other.layout(&cotangent.shape, index),
            };
            sources.push(output.clone());
            weights.push(tensor_with_layout(cotangent, output.dtype(), layout, device)?);
        }
        Ok((sources, weights))
    }
}

/// Returns the gradients of `<directions, first-order gradients>` with respect to the inputs and
/// the cotangents.
pub(super) fn run_double_backward(
    row: &OpCase,
    device: &Device,
    dtype: DType,
    memory_layout: MemoryLayout,
    expected: &OracleResults,
    directions: &[Array],
) -> ternion_core::Result<(Gradients, Gradients)> {
    let differentiable = row.differentiable_inputs(dtype);
    let mut inputs = row.create_inputs(device, dtype, memory_layout, &expected.case.inputs)?;
    for &position in &differentiable {
        inputs[position] = inputs[position].requires_grad()?;
    }
    let outputs = row.call_on(device, dtype, &inputs)?;
    let (sources, cotangents) = row.sources(device, memory_layout, &outputs, &expected.cotangents)?;
    let cotangents =
        cotangents.iter().map(Tensor::requires_grad).collect::<ternion_core::Result<Vec<_>>>()?;
    let targets: Vec<Tensor> = differentiable.iter().map(|&position| inputs[position].clone()).collect();
    let options = GradOptions { create_graph: true, allow_unused: true, ..GradOptions::default() };
    let first = phase::during(Phase::Backward, || grad(&sources, &targets, &cotangents, options))?;
    let (mut gradients, mut weights) = (Vec::new(), Vec::new());
    for (&position, gradient) in differentiable.iter().zip(&first) {
        if let Some(gradient) = gradient.as_ref().filter(|gradient| gradient.needs_grad()) {
            weights.push(tensor_with_layout(&directions[position], gradient.dtype(), None, device)?);
            gradients.push(gradient.clone());
        }
    }
    let leaves: Vec<Tensor> = targets.iter().chain(&cotangents).cloned().collect();
    let options = GradOptions { allow_unused: true, ..GradOptions::default() };
    let mut second = phase::during(Phase::Backward, || grad(&gradients, &leaves, &weights, options))?;
    let cotangent_gradients = second.split_off(targets.len());
    Ok((second, cotangent_gradients))
}
