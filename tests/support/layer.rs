//! Comparison of a layer with PyTorch's: output, gradients, and three optimizer steps; and the
//! devices on which it runs.

use crate::pytorch::{assert_close, assert_within, tensor_of};
use serde_json::Value;
use ternion::GradOptions;
use ternion::prelude::*;
use ternion_testing::suite;

/// Runs `test` on the CPU, and on the first device of each other kind that `TERNION_EXPECT` names.
pub fn on_each_device(test: impl Fn(&Device) -> Result<()>) -> Result<()> {
    test(&ternion_cpu::device())?;
    if suite::expects("wgpu") {
        test(&ternion_wgpu::device(0)?)?;
    }
    if suite::expects("cuda") { test(&ternion_cuda::device(0)?) } else { Ok(()) }
}

/// The values of a layer from tests/reference/layer.py.
pub struct LayerCase<'a> {
    pub name: &'a str,
    pub values: &'a Value,
    /// The allowed error of gradients, in addition to their rounding.
    pub gradient_error: f64,
    pub device: &'a Device,
}

impl LayerCase<'_> {
    /// Checks that output, gradients and parameters after three steps equal PyTorch's, for a layer
    /// with PyTorch's parameters.
    pub fn check(&self, layer: &impl Module, compute: impl Fn(&[Tensor]) -> Result<Tensor>) -> Result<()> {
        let LayerCase { name, values, device, .. } = self;
        assert!(values.is_object(), "there are no values of layer {name}");
        let parameters = layer.named_parameters();
        let mut keys: Vec<&str> = parameters.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        let stored = values["parameters"].as_object().expect("parameters");
        assert_eq!(keys, stored.keys().map(String::as_str).collect::<Vec<_>>(), "{name}");
        for (key, param) in &parameters {
            param.set(&tensor_of(&stored[key], device))?;
        }
        let inputs = values["inputs"].as_array().expect("inputs").iter();
        let inputs = inputs.map(|input| Param::new(&tensor_of(input, device))).collect::<Result<Vec<_>>>()?;
        let compute = || compute(&inputs.iter().map(Param::tensor).collect::<Vec<_>>());
        self.check_gradients(&inputs, &parameters, &compute()?)?;
        let of_inputs = inputs.iter().enumerate().map(|(at, input)| (at.to_string(), input.clone()));
        self.check_steps(if parameters.is_empty() { of_inputs.collect() } else { parameters }, compute)
    }

    fn check_gradients(
        &self,
        inputs: &[Param],
        parameters: &[(String, Param)],
        output: &Tensor,
    ) -> Result<()> {
        let LayerCase { name, values, gradient_error, device } = *self;
        assert_close(&format!("{name} output"), output, &values["output"]);
        let of_parameters = parameters.iter().map(|(_, param)| param.tensor());
        let leaves: Vec<Tensor> = inputs.iter().map(Param::tensor).chain(of_parameters).collect();
        let cotangent = tensor_of(&values["cotangent"], device);
        let found = ternion::grad(&[output.clone()], &leaves, &[cotangent], GradOptions::default())?;
        let found: Vec<Tensor> = found.into_iter().map(|grad| grad.expect("all have gradients")).collect();
        let (of_inputs, of_parameters) = found.split_at(inputs.len());
        for (at, grad) in of_inputs.iter().enumerate() {
            let what = format!("{name} gradient of input {at}");
            assert_within(&what, grad, &values["grad_inputs"][at], gradient_error);
        }
        for ((key, _), grad) in parameters.iter().zip(of_parameters) {
            let what = format!("{name} gradient of {key}");
            assert_within(&what, grad, &values["grad_parameters"][key], gradient_error);
        }
        Ok(())
    }

    /// For a layer without parameters the steps change the inputs.
    fn check_steps(&self, trained: Vec<(String, Param)>, compute: impl Fn() -> Result<Tensor>) -> Result<()> {
        let config = AdamWConfig { lr: 0.01, eps: 1e-2, ..Default::default() };
        let mut adam = AdamW::new(trained.iter().map(|(_, param)| param.clone()).collect(), config)?;
        for _ in 0..3 {
            adam.step(&compute()?.square()?.mean(..)?.backward()?)?;
        }
        for (key, param) in trained {
            let what = format!("{}: {key} after 3 steps", self.name);
            assert_within(&what, &param.tensor(), &self.values["stepped"][&key], 1e-5);
        }
        Ok(())
    }
}
