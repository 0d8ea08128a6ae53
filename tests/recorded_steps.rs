//! Recorded steps on the CPU: lists of ops that are replayed without graph and dispatch.

#[path = "support/recorded.rs"]
mod recorded;

use std::cell::RefCell;
use std::sync::mpsc::channel;
use ternion::{DType, Device, Result, Tensor};
use ternion_core::capture::is_recording_step;

#[test]
fn replays_train_exactly_as_steps_do() -> Result<()> {
    recorded::replays_train_exactly_as_steps_do(&ternion::cpu()?)
}

#[test]
fn a_step_that_adds_gradients_of_batches_is_recorded() -> Result<()> {
    recorded::a_step_that_adds_gradients_of_batches_is_recorded(&ternion::cpu()?)
}

#[test]
fn a_step_that_cannot_be_recorded_says_why() -> Result<()> {
    recorded::a_step_that_cannot_be_recorded_says_why(&ternion::cpu()?)
}

#[test]
fn a_step_that_reads_other_tensors_is_rejected() -> Result<()> {
    recorded::a_step_that_reads_other_tensors_is_rejected(&ternion::cpu()?)
}

#[test]
fn a_step_may_be_dropped_while_another_is_recorded() -> Result<()> {
    recorded::a_step_may_be_dropped_while_another_is_recorded(&ternion::cpu()?)
}

#[test]
fn other_threads_go_on_while_a_step_is_recorded() -> Result<()> {
    let device = ternion::cpu()?;
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &device)?;
    let received = RefCell::new(None);
    let mut step = device.capture(|| {
        if is_recording_step() {
            let other = x.clone();
            let sum = std::thread::spawn(move || other.sum(..)?.item::<f32>()).join().expect("no panic");
            received.replace(Some(sum));
        }
        x.mul_scalar(3.0)
    })?;
    assert_eq!(received.take().expect("it was asked")?, 6.0, "what another thread asks for is run at once");
    assert_eq!(step.replay()?.to_vec::<f32>()?, [3.0, 6.0, 9.0]);
    Ok(())
}

#[test]
fn a_step_is_replayed_by_another_thread() -> Result<()> {
    let device = ternion::cpu()?;
    let x = Tensor::ones([4], DType::F32, &device)?;
    let recorded = device.record(|| x.add_scalar(1.0))?;
    let mut recorded = recorded.expect("the CPU records");
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(recorded.replay().and_then(|output| output.to_vec::<f32>())));
    assert_eq!(receiver.recv().expect("an answer")?, [2.0; 4]);
    Ok(())
}

#[test]
fn outputs_are_zero_until_the_first_replay_and_their_own_afterwards() -> Result<()> {
    let device = ternion::cpu()?;
    let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &device)?;
    let recorded = device.record(|| {
        let doubled = x.mul_scalar(2.0)?;
        let inner = doubled.add_scalar(1.0)?.square()?;
        Ok((doubled, inner.sqrt()?))
    })?;
    let mut recorded = recorded.expect("the CPU records");
    let (doubled, odd) = recorded.output();
    assert_eq!((doubled.to_vec::<f32>()?, odd.to_vec::<f32>()?), (vec![0.0; 2], vec![0.0; 2]));
    let (doubled, odd) = recorded.replay()?;
    assert_eq!((doubled.to_vec::<f32>()?, odd.to_vec::<f32>()?), (vec![2.0, 4.0], vec![3.0, 5.0]));
    Ok(())
}

#[test]
fn an_error_in_a_replay_names_its_op() -> Result<()> {
    let device = ternion::cpu()?;
    let (x, index) = (Tensor::ones([4], DType::F32, &device)?, Tensor::zeros([2], DType::I64, &device)?);
    let mut step = device.capture(|| x.index_select(0, &index))?;
    assert_eq!(step.replay()?.to_vec::<f32>()?, [1.0; 2]);
    index.fill_(7)?;
    let message = step.replay().map(drop).expect_err("7 of 4").to_string();
    assert_eq!(message, "index_select: index 7 is out of range for size 4");
    index.fill_(3)?;
    assert_eq!(step.replay()?.to_vec::<f32>()?, [1.0; 2], "the step is as it was");
    Ok(())
}

/// Returns the bytes in use while `step` runs eagerly, and when it is recorded.
fn memory_of(device: &Device, step: impl Fn() -> Result<Tensor>) -> Result<[usize; 2]> {
    let before = device.memory().in_use;
    let (ran, peak) = device.peak_memory_of(&step);
    ran?;
    let eager = peak - before;
    let captured = device.capture(&step)?;
    Ok([eager, device.memory().in_use - before]).inspect(|_| drop(captured))
}

#[test]
fn a_recorded_step_holds_no_more_than_a_step_needs() -> Result<()> {
    let device = ternion::Device::new(ternion_cpu::CpuBackend::new());
    let x = Tensor::ones([256, 256], DType::F32, &device)?;
    let chain = || (0..20).try_fold(x.clone(), |y, _| y.add(&x)?.tanh());
    let [eager, captured] = memory_of(&device, chain)?;
    // Plus the seed and the position of random numbers.
    assert!(
        captured <= eager + 16,
        "{captured} bytes are held, {eager} at most are needed by a separate step"
    );
    Ok(())
}
