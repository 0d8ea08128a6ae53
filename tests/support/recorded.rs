//! Properties of recorded steps on every device that supports recording: each function takes the
//! device.

use std::cell::RefCell;
use ternion::nn::optim::{AdamW, AdamWConfig, Optimizer, SGD, SGDConfig};
use ternion::nn::{Dropout, Forward, Linear, MaxPool2d, Mlp, Module, Param};
use ternion::{DType, Device, Error, Gradients, Result, Tensor};
use ternion_core::capture::is_recording_step;

/// A step of a small network with dropout, on fixed tensors.
pub struct Training {
    model: Mlp,
    dropout: Dropout,
    head: Linear,
    optimizer: Box<dyn Optimizer>,
    images: Tensor,
    labels: Tensor,
}

impl Training {
    pub fn new(device: &Device, adam: bool) -> Result<Training> {
        device.seed(3);
        let model = Mlp::new([20, 33, 16], device)?;
        let head = Linear::new(16, 5, device)?;
        let parameters = [model.parameters(), head.parameters()].concat();
        let optimizer: Box<dyn Optimizer> = match adam {
            true => Box::new(AdamW::new(
                parameters,
                AdamWConfig { lr: 1e-2, max_grad_norm: Some(0.5), ..Default::default() },
            )?),
            false => {
                Box::new(SGD::new(parameters, SGDConfig { lr: 0.1, momentum: 0.9, ..Default::default() })?)
            }
        };
        let images = Tensor::randn([12, 20], DType::F32, device)?;
        let labels = Tensor::randint(0, 5, [12], DType::I64, device)?;
        Ok(Training { model, dropout: Dropout::new(0.25)?, head, optimizer, images, labels })
    }

    pub fn step(&mut self) -> Result<Tensor> {
        let hidden = self.dropout.forward(&self.model.forward(&self.images)?.relu()?)?;
        let loss = self.head.forward(&hidden)?.cross_entropy(&self.labels)?;
        self.optimizer.step(&loss.backward()?)?;
        Ok(loss.detach())
    }

    pub fn parameters(&self) -> Result<Vec<f32>> {
        let all = [self.model.parameters(), self.head.parameters()].concat();
        let values =
            all.iter().map(|parameter| parameter.tensor().to_vec::<f32>()).collect::<Result<Vec<_>>>()?;
        Ok(values.concat())
    }
}

/// Runs twelve eager steps, with a change of the batch and of the learning rate in between, and
/// returns the losses and the final parameters.
fn eager(device: &Device, adam: bool, batches: &[Tensor]) -> Result<(Vec<f32>, Vec<f32>)> {
    let mut training = Training::new(device, adam)?;
    let mut losses = Vec::new();
    for (number, batch) in batches.iter().enumerate() {
        training.images.copy_(batch)?;
        if number == 6 {
            training.optimizer.set_lr(3e-3)?;
        }
        losses.push(training.step()?.item::<f32>()?);
    }
    Ok((losses, training.parameters()?))
}

pub fn replays_train_exactly_as_steps_do(device: &Device) -> Result<()> {
    for adam in [true, false] {
        device.seed(11);
        let batches: Vec<Tensor> =
            (0..12).map(|_| Tensor::randn([12, 20], DType::F32, device)).collect::<Result<_>>()?;
        let (losses, parameters) = eager(device, adam, &batches)?;
        let training = RefCell::new(Training::new(device, adam)?);
        let images = training.borrow().images.clone();
        images.copy_(&batches[0])?;
        let mut first = Vec::new();
        let mut step = device.capture(|| {
            let loss = training.borrow_mut().step()?;
            first.push(loss.clone());
            Ok(loss)
        })?;
        assert!(step.is_recorded());
        let mut replayed = vec![];
        for (number, batch) in batches.iter().enumerate().skip(1) {
            images.copy_(batch)?;
            if number == 6 {
                training.borrow_mut().optimizer.set_lr(3e-3)?;
            }
            replayed.push(step.replay()?.item::<f32>()?);
        }
        drop(step);
        assert_eq!(first[0].item::<f32>()?, losses[0]);
        assert_eq!(replayed, losses[1..], "adam: {adam}");
        assert_eq!(training.borrow().parameters()?, parameters, "adam: {adam}");
        let untrained = Training::new(device, adam)?.parameters()?;
        assert!(
            parameters.iter().zip(&untrained).any(|(trained, fresh)| trained != fresh),
            "nothing was trained"
        );
    }
    Ok(())
}

/// The model has many parameters, whose gradients have no inherent order.
pub fn a_step_that_adds_gradients_of_batches_is_recorded(device: &Device) -> Result<()> {
    device.seed(5);
    let layers: Vec<Linear> =
        (1..9).map(|size| Linear::new(size, size + 1, device)).collect::<Result<_>>()?;
    let batches = [1.0, -2.0, 0.5]
        .map(|value| Tensor::full([3, 1], value, DType::F32, device).expect("there is memory"));
    let step = || {
        let mut sum = Gradients::default();
        for batch in &batches {
            let output = layers.iter().try_fold(batch.clone(), |input, layer| layer.forward(&input))?;
            sum.accumulate(output.square()?.mean(..)?.backward()?)?;
        }
        let of = |parameter: Param| sum.get(&parameter.tensor()).expect("a gradient").clone();
        Ok(layers.iter().flat_map(Module::parameters).map(of).collect::<Vec<_>>())
    };
    let values = |grads: &[Tensor]| grads.iter().map(Tensor::to_vec::<f32>).collect::<Result<Vec<_>>>();
    let eager = values(&step()?)?;
    let mut recorded = device.capture(step)?;
    assert!(recorded.is_recorded());
    assert_eq!(values(recorded.replay()?)?, eager);
    assert!(eager.iter().flatten().any(|value| *value != 0.0));
    Ok(())
}

pub fn a_step_that_cannot_be_recorded_says_why(device: &Device) -> Result<()> {
    let x = Tensor::ones([4], DType::F32, device)?;
    let rejected = |error: Option<Error>| error.expect("rejected").to_string();
    let read = device.capture(|| x.add(&x)?.to_vec::<f32>()).err();
    assert!(rejected(read).contains("download: the step that is being recorded waits for the device"));
    let written = device.capture(|| Tensor::from_slice(&[1.0f32], 1, device)).err();
    assert!(rejected(written).contains("upload: the step that is being recorded waits"));
    let mut size = 4;
    let changing = device.capture(|| {
        size -= 1;
        x.narrow(0, 0, size)?.add_scalar(1.0)
    });
    let message = rejected(changing.err());
    assert!(
        message.contains(
            "op 0 was add_scalar of [3] f32 in the first run and add_scalar of [2] f32 in the recorded run"
        ),
        "{message}"
    );
    let mut factor = 1.0;
    let scaled = device.capture(|| {
        factor *= 0.5;
        x.mul_scalar(factor)
    });
    let message = rejected(scaled.err());
    assert!(
        message.contains("op 0, mul_scalar of [4] f32, had different settings in the recorded run"),
        "{message}"
    );
    // The device is still usable.
    assert_eq!(x.add(&x)?.to_vec::<f32>()?, [2.0; 4]);
    let mut doubled = device.capture(|| x.add(&x))?;
    assert_eq!(doubled.replay()?.to_vec::<f32>()?, [2.0; 4]);
    Ok(())
}

pub fn a_step_that_reads_other_tensors_is_rejected(device: &Device) -> Result<()> {
    let message_of = |result: Result<()>| result.expect_err("rejected").to_string();
    // A step that selects its own batch.
    let w = Tensor::ones([2], DType::F32, device)?;
    let mut batches =
        (1..9).map(|number| Tensor::full([2], number, DType::F32, device)).collect::<Result<Vec<_>>>()?;
    let message = message_of(device.capture(|| w.mul(&batches.pop().expect("a batch"))).map(drop));
    assert_eq!(
        message,
        "capture: op 0, mul of [2] f32, [2] f32, read a different tensor as input 1 in the recorded run than in the first run; a recorded step uses the \
         same memory each time: copy new values into the same tensor (copy_)"
    );
    // A step that replaces a tensor that it read by its result.
    let mut state = Tensor::ones([2], DType::F32, device)?;
    let mut next = || {
        state = state.add(&w)?;
        Ok(())
    };
    assert!(
        message_of(device.capture(&mut next).map(drop))
            .contains("op 0, add of [2] f32, [2] f32, read a different tensor as input 0")
    );
    // A step that takes its batch from a larger tensor, and one that writes to another part of it.
    let rows = Tensor::zeros([8, 2], DType::F32, device)?;
    let mut row = 0;
    let mut next = || {
        row += 1;
        rows.narrow(0, row, 1)?.mul(&w)
    };
    assert!(
        message_of(device.capture(&mut next).map(drop))
            .contains("op 0, mul of [1, 2] f32, [2] f32, accessed a different part of a tensor in")
    );
    let mut row = 0;
    let mut next = || {
        row += 1;
        rows.select(0, row)?.copy_(&w)
    };
    assert!(
        message_of(device.capture(&mut next).map(drop)).contains("accessed a different part of a tensor")
    );
    // Tensors that an op saves for its gradient belong to the step, too.
    let images = Tensor::ones([2, 1, 4, 4], DType::F32, device)?.requires_grad()?;
    let pool = MaxPool2d::new(2);
    let mut pooled = device
        .capture(|| pool.forward(&images)?.sum(..)?.backward()?.get(&images).expect("a gradient").sum(..))?;
    assert_eq!(pooled.replay()?.item::<f32>()?, 8.0);
    // In-place changes accumulate.
    let state = Tensor::ones([2], DType::F32, device)?;
    let mut step = device.capture(|| state.add_(&w))?;
    step.replay()?;
    step.replay()?;
    drop(step);
    assert_eq!(state.to_vec::<f32>()?, [4.0; 2], "one run and two replays");
    Ok(())
}

pub fn a_step_may_be_dropped_while_another_is_recorded(device: &Device) -> Result<()> {
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, device)?;
    let mut ended = Some(device.capture(|| x.add_scalar(1.0))?);
    let mut step = device.capture(|| {
        if is_recording_step() {
            drop(ended.take());
        }
        x.mul_scalar(3.0)
    })?;
    assert_eq!(step.replay()?.to_vec::<f32>()?, [3.0, 6.0, 9.0]);
    device.synchronize()
}
