//! Half-precision copies of parameters that AdamW and SGD write in their step: values, gradients
//! and errors are those of casts, and no op reads an outdated copy.
//!
//! The reference is the same program without copies: it marks each parameter as changed before each
//! forward pass, so that its copies are outdated.

#[path = "half_copies/changes.rs"]
mod changes;
#[path = "half_copies/recorded.rs"]
mod recorded;
#[path = "support/cuda.rs"]
pub(crate) mod support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use ternion::backend::{Backend, Meta, Plan, Unsupported, View};
use ternion::dispatch::apply;
use ternion::nn::ScaledStep;
use ternion::nn::optim::LossScaleConfig;
use ternion::prelude::*;
use ternion::{Op, delegate_backend};
use ternion_testing::suite;

/// Returns the CPU, the first CUDA device if there is one, and wgpu if it is requested.
fn devices() -> Vec<Device> {
    let wgpu =
        suite::expects("wgpu").then(|| ternion_wgpu::device(0).expect("TERNION_EXPECT asks for an adapter"));
    [ternion_cpu::device()].into_iter().chain(support::cuda()).chain(wgpu).collect()
}

/// A device that counts casts of f32 tensors to half precision.
#[derive(Debug)]
struct Watched {
    inner: Device,
    casts: Casts,
}

/// The number of casts of the buffer at each address.
#[derive(Clone, Debug, Default)]
struct Casts(Arc<Mutex<HashMap<usize, usize>>>);

impl Casts {
    /// Returns the number of casts of these parameters since the last call.
    fn copies_used(&self, parameters: &[Param]) -> usize {
        let counts = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        parameters.iter().filter_map(|param| counts.get(&param.tensor().buffer().address())).sum()
    }
}

impl Backend for Watched {
    delegate_backend!(inner: alloc, upload, download, synchronize, memory, interop);

    fn name(&self) -> &str {
        "watched"
    }
    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> std::result::Result<Plan, Unsupported> {
        self.inner.backend().plan(op, inputs)
    }
    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        if matches!(op, Op::Copy(_)) && inputs[0].dtype == DType::F32 && outputs[0].dtype.is_half() {
            let mut casts = self.casts.0.lock().unwrap_or_else(PoisonError::into_inner);
            *casts.entry(inputs[0].buffer.address()).or_default() += 1;
        }
        self.inner.backend().run(op, inputs, outputs)
    }
}

fn watched(inner: Device) -> (Device, Casts) {
    let casts = Casts::default();
    (Device::new(Watched { inner, casts: casts.clone() }), casts)
}

/// Returns values that half precision cannot represent exactly.
fn numbers(shape: &[usize], device: &Device) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|at| ((at * 37 + 11) % 101) as f32 / 50.7 - 1.0).collect();
    Tensor::from_slice(&values, shape, device)
}

fn mlp(device: &Device) -> Result<Mlp> {
    device.seed(7);
    Mlp::new([6, 9, 4], device)
}

fn adamw(parameters: Vec<Param>) -> Result<AdamW> {
    AdamW::new(parameters, AdamWConfig { lr: 1e-2, ..Default::default() })
}

fn loss(model: &Mlp, x: &Tensor, precision: Precision) -> Result<Tensor> {
    with_precision(precision, || model.forward(x)?.square()?.mean(..))
}

fn bits(parameters: &[Param]) -> Result<Vec<Vec<u8>>> {
    parameters.iter().map(|param| param.tensor().detach().to_bytes()).collect()
}

/// Marks the half-precision copies of these parameters as outdated, without changing a parameter's
/// values.
fn mark_copies_outdated(parameters: &[Param]) {
    parameters.iter().for_each(|param| param.tensor().buffer().bump_version());
}

// ---- The op

#[test]
fn a_half_copy_is_the_cast_of_the_parameter_bit_for_bit() -> Result<()> {
    use ternion::ops::step::{AdamStep, DecayMode, SgdStep};
    let _shared = support::lock_shared();
    for device in devices() {
        let special =
            [0.0f32, -0.0, f32::INFINITY, f32::NAN, 1e-41, 65519.9, 65520.0, 3.4e38, 1.003_906_3, 6e-8];
        // One within a chunk and a pack, one of several chunks, one at an odd offset in its buffer.
        for (count, first) in [(10usize, 0usize), (4099, 0), (2049, 1)] {
            let values: Vec<f32> = (0..count + first)
                .map(|at| special.get(at).copied().unwrap_or((at as f32 * 0.37).sin() * (at % 977) as f32))
                .collect();
            let vector = |values: &[f32]| Tensor::from_slice(values, values.len(), &device);
            let part = |tensor: Tensor| tensor.narrow(0, first, count);
            for half in [DType::F16, DType::BF16] {
                let parameter = part(vector(&values)?)?;
                let gradient = part(vector(&values.iter().map(|v| v * 0.5).collect::<Vec<_>>())?)?;
                let hyper = vector(&[0.01, 1.0, 0.5, 0.25])?;
                let [m, v] = [0.25f32, 0.5].map(|value| Tensor::full([count], value, DType::F32, &device));
                let copy = part(Tensor::zeros([count + first], half, &device)?)?;
                let op = AdamStep {
                    beta1: 0.9,
                    beta2: 0.999,
                    eps: 1e-8,
                    weight_decay: 0.1,
                    decay_mode: DecayMode::Decoupled,
                    half_copy: true,
                };
                apply(op, &[&parameter, &gradient, &hyper, &m?, &v?, &copy])?;
                let cast = parameter.to_dtype(half)?;
                assert_eq!(copy.to_bytes()?, cast.to_bytes()?, "{device}: {half} of {count}");
                let hyper = vector(&[0.01, 1.0, 0.0])?;
                for momentum in [0.0, 0.9] {
                    let (dampening, weight_decay, nesterov) = (0.0, 0.1, false);
                    let op = SgdStep { momentum, dampening, weight_decay, nesterov, half_copy: true };
                    let velocity = Tensor::full([count], 0.5, DType::F32, &device)?;
                    let mut inputs = vec![&parameter, &gradient, &hyper];
                    inputs.extend((momentum != 0.0).then_some(&velocity));
                    inputs.push(&copy);
                    apply(op, &inputs)?;
                    let cast = parameter.to_dtype(half)?;
                    assert_eq!(copy.to_bytes()?, cast.to_bytes()?, "{device}: sgd, {half} of {count}");
                }
            }
        }
    }
    Ok(())
}

// ---- Training

fn gpt(device: &Device) -> Result<GPT> {
    device.seed(4);
    let config =
        GPTConfig { vocabulary: 11, context: 8, layers: 2, heads: 2, width: 16, ..Default::default() };
    GPT::new(config, device)
}

type OptimizerOf = fn(Vec<Param>) -> Result<Box<dyn Optimizer>>;

/// Every kind of optimizer that writes copies.
const OPTIMIZERS: [OptimizerOf; 3] = [
    |parameters| Ok(Box::new(adamw(parameters)?)),
    |parameters| Ok(Box::new(SGD::new(parameters, SGDConfig { lr: 0.1, ..Default::default() })?)),
    |parameters| {
        let config = SGDConfig { lr: 0.1, momentum: 0.9, nesterov: true, ..Default::default() };
        Ok(Box::new(SGD::new(parameters, config)?))
    },
];

/// Losses, parameters at the end, and casts of parameters in each step.
type Trained = (Vec<f32>, Vec<Vec<u8>>, Vec<usize>);

/// Trains for several steps of two batches each. The token embedding is also the weight of the
/// head.
fn train(inner: &Device, precision: Precision, optimizer: OptimizerOf, is_spoiled: bool) -> Result<Trained> {
    let (device, casts) = watched(inner.clone());
    let model = gpt(&device)?;
    let parameters = model.parameters();
    let mut optimizer = optimizer(parameters.clone())?;
    let scale = LossScale::new(LossScaleConfig { init_scale: 1024.0, ..Default::default() })?;
    let tokens = Tensor::from_slice(&[0i32, 3, 2, 1, 10, 2, 7, 7], [2, 4], &device)?;
    let (mut losses, mut counts) = (Vec::new(), Vec::new());
    casts.copies_used(&parameters);
    for _ in 0..4 {
        let mut sum = Gradients::default();
        for _ in 0..2 {
            if is_spoiled {
                mark_copies_outdated(&parameters);
            }
            let loss = with_precision(precision, || {
                model.forward(&tokens)?.reshape([8, 11])?.cross_entropy(&tokens.reshape([8])?)
            })?;
            losses.push(loss.item::<f32>()?);
            sum.accumulate(scale.scale(&loss)?.backward()?)?;
        }
        assert!(matches!(scale.step(optimizer.as_mut(), &sum)?, ScaledStep::Taken));
        counts.push(casts.copies_used(&parameters));
    }
    Ok((losses, bits(&parameters)?, counts))
}

#[test]
fn a_transformer_learns_the_same_without_a_cast_of_a_parameter() -> Result<()> {
    let _shared = support::lock_shared();
    for device in devices() {
        for (precision, optimizer) in
            [Precision::Bf16, Precision::F16].into_iter().flat_map(|one| OPTIMIZERS.map(|of| (one, of)))
        {
            let (losses, parameters, casts) = train(&device, precision, optimizer, false)?;
            let (cast_losses, cast_parameters, all) = train(&device, precision, optimizer, true)?;
            assert_eq!(losses, cast_losses, "{device}: {precision}");
            assert_eq!(parameters, cast_parameters, "{device}: {precision}");
            assert!(all.iter().all(|&count| count == all[0]) && all[0] > 20, "{all:?}");
            // In the first step each of the two batches casts every parameter. The parameters do
            // not change in between, but each batch has a separate precision scope.
            assert_eq!(casts, [all[0], 0, 0, 0], "{device}: {precision}");
        }
    }
    Ok(())
}

#[test]
fn a_step_that_a_loss_scale_skips_does_not_change_copies() -> Result<()> {
    let (device, casts) = watched(ternion_cpu::device());
    let (model, x) = (mlp(&device)?, numbers(&[5, 6], &device)?);
    let parameters = model.parameters();
    let mut adam = adamw(parameters.clone())?;
    let scale = LossScale::default();
    let run = |factor: f32| scale.scale(&loss(&model, &x, Precision::F16)?.mul_scalar(factor)?)?.backward();
    for (factor, casts_wanted) in [(1e-6, 4), (f32::INFINITY, 0), (1e-6, 0), (1e-6, 0)] {
        let before = bits(&parameters)?;
        casts.copies_used(&parameters);
        let stepped = scale.step(&mut adam, &run(factor)?)?;
        assert_eq!(matches!(stepped, ScaledStep::Taken), factor.is_finite());
        assert_eq!(bits(&parameters)? == before, !factor.is_finite());
        assert_eq!(casts.copies_used(&parameters), casts_wanted, "{factor}");
    }
    Ok(())
}

#[test]
fn a_backward_pass_after_the_step_is_an_error() -> Result<()> {
    let _shared = support::lock_shared();
    for device in devices() {
        let (model, x) = (mlp(&device)?, numbers(&[5, 6], &device)?);
        let mut adam = adamw(model.parameters())?;
        adam.step(&loss(&model, &x, Precision::Bf16)?.backward()?)?;
        let retained = loss(&model, &x, Precision::Bf16)?;
        let retain = ternion::GradOptions { retain_graph: true, ..Default::default() };
        let first = retained.backward_with(retain)?;
        let second = retained.backward_with(retain)?;
        for param in model.parameters() {
            let bytes = |gradients: &Gradients| param.gradient(gradients).map(Tensor::to_bytes).transpose();
            assert_eq!(bytes(&first)?, bytes(&second)?);
        }
        adam.step(&first)?;
        let message = retained.backward().map(drop).expect_err("the copy was changed").to_string();
        let expected = "backward of matmul: input 1 with shape [9, 4] was changed in place after it was saved (version 1, now 2)";
        assert_eq!(message, expected, "{device}");
    }
    Ok(())
}

#[test]
fn observers_see_the_casts_that_were_found_done() -> Result<()> {
    let device = ternion_cpu::device();
    let (model, x) = (mlp(&device)?, numbers(&[5, 6], &device)?);
    let mut adam = adamw(model.parameters())?;
    let mut step = || -> Result<Vec<String>> {
        let ops: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = ops.clone();
        let observer = move |call: &ternion::OpCall<'_>| {
            let shapes = call.inputs.iter().map(|tensor| format!("{:?}", tensor.shape())).collect::<Vec<_>>();
            let text = format!("{:?} of {shapes:?}: {}", call.op, call.outputs[0].dtype());
            log.lock().unwrap_or_else(PoisonError::into_inner).push(text);
            Ok(())
        };
        let loss = ternion::observe_ops(observer, || loss(&model, &x, Precision::Bf16))?;
        adam.step(&loss.backward()?)?;
        Ok(std::mem::take(&mut *ops.lock().unwrap_or_else(PoisonError::into_inner)))
    };
    let (first, second, third) = (step()?, step()?, step()?);
    assert!(first.iter().filter(|call| call.starts_with("Copy")).count() >= 4, "{first:#?}");
    assert_eq!((&second, &third), (&first, &first));
    Ok(())
}

#[test]
fn copies_cost_two_bytes_an_element_as_long_as_they_are_used() -> Result<()> {
    let device = Device::new(ternion_cpu::CpuBackend::new());
    let (model, x) = (mlp(&device)?, numbers(&[5, 6], &device)?);
    let parameters = model.parameters();
    let elements: usize = parameters.iter().map(|param| param.tensor().elements()).sum();
    let before = device.memory().in_use;
    let mut adam = adamw(parameters.clone())?;
    let mut step = |precision: Precision| -> Result<usize> {
        adam.step(&loss(&model, &x, precision)?.backward()?)?;
        Ok(device.memory().in_use - before)
    };
    let plain = step(Precision::F32)?;
    let with_copies = step(Precision::Bf16)?;
    assert!(
        with_copies > plain && with_copies - plain <= 2 * elements + 64 * parameters.len(),
        "{with_copies}"
    );
    assert_eq!((step(Precision::Bf16)?, step(Precision::F16)?), (with_copies, with_copies));
    assert_eq!(step(Precision::F32)?, plain, "not used since the last step");
    step(Precision::Bf16)?;
    drop(adam);
    assert_eq!(device.memory().in_use, before, "they go with the optimizer");
    Ok(())
}

#[test]
fn other_steps_write_no_copies() -> Result<()> {
    let (device, casts) = watched(ternion_cpu::device());
    let x = numbers(&[5, 6], &device)?;
    for form in 0..2 {
        let model = mlp(&device)?;
        let parameters = model.parameters();
        let mut optimizer: Box<dyn Optimizer> = match form {
            0 => {
                Box::new(AdamW::new(parameters.clone(), AdamWConfig { amsgrad: true, ..Default::default() })?)
            }
            _ => Box::new(RMSprop::new(parameters.clone(), RMSpropConfig::default())?),
        };
        for _ in 0..3 {
            casts.copies_used(&parameters);
            optimizer.step(&loss(&model, &x, Precision::Bf16)?.backward()?)?;
            assert_eq!(casts.copies_used(&parameters), 4, "form {form}");
        }
    }
    Ok(())
}
