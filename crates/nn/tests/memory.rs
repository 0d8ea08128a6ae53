//! Memory of a training run: its peak is reported and does not grow, and the backward pass frees
//! the saved tensors of the forward pass as it proceeds.

use std::sync::{Arc, Mutex};
use ternion_core::decorators::Counting;
use ternion_core::{DType, Device, Gradients, MemoryStats, Reduction, Result, Tensor, no_grad};
use ternion_nn::optim::{AdamW, AdamWConfig, Optimizer};
use ternion_nn::{
    BatchNorm2d, Conv2d, Conv2dConfig, Flatten, Forward, GPT, GPTConfig, Linear, MaxPool2d, Mlp, Module,
    Param, ReLU, Sequential,
};

fn device() -> Device {
    let device = ternion_cpu::device();
    device.seed(3);
    device
}

/// Returns the peak memory of each of 50 steps of AdamW.
fn peaks<M: Module>(model: &M, device: &Device, loss: impl Fn(&M) -> Result<Tensor>) -> Result<Vec<usize>> {
    let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
    let mut peaks = Vec::new();
    for _ in 0..50 {
        let (stepped, peak) = device.peak_memory_of(|| adam.step(&loss(model)?.backward()?));
        stepped?;
        peaks.push(peak);
    }
    Ok(peaks)
}

/// Checks that all steps but the first, which creates the states, have the peak of the second, and
/// that this is more than the memory in use between steps.
fn constant(peaks: &[usize], between: usize) {
    assert!(peaks[1] > between, "{} over {between}", peaks[1]);
    for (step, &peak) in peaks.iter().enumerate().skip(2) {
        assert_eq!(peak, peaks[1], "step {}", step + 1);
    }
}

#[test]
fn the_peak_of_a_step_of_an_mlp_is_reported_and_does_not_grow() -> Result<()> {
    let device = device();
    let model = Mlp::new([20, 64, 64, 5], &device)?;
    let input = Tensor::randn([128, 20], DType::F32, &device)?;
    let target = Tensor::randn([128, 5], DType::F32, &device)?;
    let peaks = peaks(&model, &device, |model| model.forward(&input)?.mse_loss(&target, Reduction::Mean))?;
    let between = device.memory().in_use;
    constant(&peaks, between);
    // Both ReLUs save their output, 128 x 64 numbers of 4 bytes.
    assert!(peaks[1] >= between + 2 * 128 * 64 * 4, "{} over {between}", peaks[1]);
    Ok(())
}

#[test]
fn the_peak_of_a_step_of_a_cnn_does_not_grow() -> Result<()> {
    let device = device();
    let model = Sequential::new()
        .with(Conv2d::with_config([1, 8], [3; 2], Conv2dConfig::padded(1), &device)?)
        .with(BatchNorm2d::new(8, &device)?)
        .with(ReLU)
        .with(MaxPool2d::new(2))
        .with(Flatten::default())
        .with(Linear::new(8 * 16, 10, &device)?);
    let input = Tensor::randn([16, 1, 8, 8], DType::F32, &device)?;
    let labels = Tensor::from_vec((0..16).map(|label| label % 10).collect::<Vec<i64>>(), [16], &device)?;
    let peaks = peaks(&model, &device, |model| model.forward(&input)?.cross_entropy(&labels))?;
    constant(&peaks, device.memory().in_use);
    Ok(())
}

#[test]
fn the_peak_of_a_step_of_a_gpt_does_not_grow() -> Result<()> {
    let device = device();
    let config = GPTConfig {
        vocabulary: 32,
        context: 16,
        layers: 2,
        heads: 2,
        width: 32,
        dropout: 0.1,
        ..Default::default()
    };
    let model = GPT::new(config, &device)?;
    let tokens = Tensor::from_vec((0..32i64).collect(), [2, 16], &device)?;
    let next = Tensor::from_vec((0..32i64).map(|token| (token + 1) % 32).collect(), [32], &device)?;
    let loss = |model: &GPT| model.logits(&tokens)?.reshape([32, 32])?.cross_entropy(&next);
    let peaks = peaks(&model, &device, loss)?;
    constant(&peaks, device.memory().in_use);
    Ok(())
}

fn bytes(tensor: &Tensor) -> usize {
    tensor.buffer().bytes()
}

/// A chain whose outputs are much larger than its weights: memory decreases from each layer to the
/// previous one, and at the end nothing of the forward pass is left.
#[test]
fn memory_decreases_during_the_backward_pass_of_a_chain() -> Result<()> {
    const LAYERS: usize = 40;
    let device = device();
    let layers: Vec<Linear> = (0..LAYERS).map(|_| Linear::new(16, 16, &device)).collect::<Result<_>>()?;
    let parameters: Vec<Param> = layers.iter().flat_map(|layer| layer.parameters()).collect();
    let mut adam = AdamW::new(parameters.clone(), AdamWConfig::default())?;
    let input = Tensor::randn([256, 16], DType::F32, &device)?;
    let tensor_bytes = |gradients: Option<&Gradients>| -> usize {
        let optimizer_bytes = |param: &Param| {
            let gradient = gradients.and_then(|gradients| param.gradient(gradients)).map_or(0, bytes);
            bytes(&param.tensor()) + gradient
        };
        bytes(&input) + parameters.iter().map(optimizer_bytes).sum::<usize>()
    };
    // `Device::seed` and the weight initialization leave the state of the random number generator,
    // 16 bytes.
    let random = device.memory().in_use - tensor_bytes(None);
    assert_eq!(random, 16);
    let readings: Arc<Mutex<Vec<usize>>> = Arc::default();
    let loss = {
        let mut x = input.clone();
        for layer in &layers {
            x = layer.forward(&x)?.relu()?;
            let (device, readings) = (device.clone(), readings.clone());
            x.register_hook(move |_| {
                readings.lock().expect("one thread").push(device.memory().in_use);
                Ok(None)
            })?;
        }
        x.square()?.mean_all()?
    };
    let mut gradients = loss.backward()?;
    drop(loss);
    let readings = readings.lock().expect("one thread").clone();
    assert_eq!(readings.len(), LAYERS);
    // Each ReLU saves its output, 256 x 16 numbers of 4 bytes; a layer leaves the gradients of 16 x
    // 16 weights and 16 biases.
    let (output, gradient) = (256 * 16 * 4, (16 * 16 + 16) * 4);
    for (step, pair) in readings.windows(2).enumerate() {
        assert!(pair[1] < pair[0], "step {step}: {} after {}", pair[1], pair[0]);
        assert_eq!(pair[0] - pair[1], output - gradient, "step {step}");
    }
    assert_eq!(
        device.memory().in_use,
        tensor_bytes(Some(&gradients)) + random,
        "only parameters and gradients"
    );
    adam.step(&gradients)?;
    // Two moments for each parameter, and four numbers of the step.
    let states = 2 * parameters.iter().map(|param| bytes(&param.tensor())).sum::<usize>() + 16;
    assert_eq!(
        device.memory().in_use,
        tensor_bytes(Some(&gradients)) + states + random,
        "and states of the optimizer"
    );
    for param in &parameters {
        gradients.remove(&param.tensor());
    }
    assert_eq!(device.memory().in_use, tensor_bytes(None) + states + random);
    Ok(())
}

#[test]
fn nested_peak_does_not_change_the_outer_peak() -> Result<()> {
    let (device, _) = Counting::new(ternion_cpu::device());
    let bytes = |count: usize| Tensor::zeros([count], DType::U8, &device);
    let kept = bytes(1000)?;
    drop(bytes(30_000)?);
    assert_eq!(device.memory(), MemoryStats { in_use: 1000, cached: 0, peak: 31_000 });
    let ((inner, of_inner), of_outer) = device.peak_memory_of(|| {
        drop(bytes(5000));
        device.peak_memory_of(|| bytes(2000).map(drop))
    });
    inner?;
    assert_eq!((of_inner, of_outer), (3000, 6000));
    assert_eq!(device.memory().peak, 31_000, "what it would be without the question");
    let (_, peak) = device.peak_memory_of(|| drop(bytes(40_000)));
    assert_eq!((peak, device.memory().peak), (41_000, 41_000));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        device.peak_memory_of(|| {
            assert!(bytes(10).is_err(), "it is not");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(device.memory().peak, 41_000);
    device.reset_peak_memory();
    assert_eq!(device.memory().peak, 1000);
    drop(kept);
    assert_eq!(device.memory(), MemoryStats { in_use: 0, cached: 0, peak: 1000 });
    Ok(())
}

/// A forward pass under `no_grad` needs less memory than a recorded one.
#[test]
fn recording_needs_more_memory_than_no_grad() -> Result<()> {
    let device = device();
    let model = Mlp::new([32; 12], &device)?;
    let input = Tensor::randn([256, 32], DType::F32, &device)?;
    let (recorded, with) = device.peak_memory_of(|| model.forward(&input));
    drop(recorded?);
    let (plain, without) = device.peak_memory_of(|| no_grad(|| model.forward(&input)));
    drop(plain?);
    assert!(with >= without + 9 * 256 * 32 * 4, "{with} and {without}");
    Ok(())
}
