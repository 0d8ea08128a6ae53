//! The checks of core when a step is recorded, on a device that simulates recording: ops run while
//! it records, and replays do nothing.

use ternion_core::{DType, Result, Tensor};
use ternion_testing::recording;

#[test]
fn a_replay_changes_what_autograd_has_saved() -> Result<()> {
    let device = recording(ternion_cpu::device());
    let w = Tensor::from_slice(&[1.0f32, 2.0], 2, &device)?;
    let untouched = Tensor::from_slice(&[3.0f32, 4.0], 2, &device)?.requires_grad()?;
    let mut step = device.capture(|| {
        w.mul_scalar_(0.5)?;
        w.sum(..)
    })?;
    let product = |other: &Tensor| untouched.mul(other)?.sum(..);
    let (before, unaffected) = (product(&w)?, product(&untouched.detach())?);
    let of_output = product(&step.replay()?.expand([2])?)?;
    assert!(unaffected.backward().is_ok(), "the step does not write this");
    let message = before.backward().map(drop).expect_err("w was changed").to_string();
    assert!(message.contains("in place"), "{message}");
    assert!(of_output.backward().is_ok(), "since the replay");
    let of_output = product(&step.replay()?.expand([2])?)?;
    step.replay()?;
    assert!(of_output.backward().is_err(), "a replay fills its outputs again");
    Ok(())
}

#[test]
fn a_step_on_two_devices_is_rejected() -> Result<()> {
    let (device, other) = (recording(ternion_cpu::device()), ternion_cpu::device());
    let (x, y) = (Tensor::ones([2], DType::F32, &device)?, Tensor::ones([2], DType::F32, &other)?);
    let message = device.capture(|| {
        y.add_scalar(1.0)?;
        x.add_scalar(1.0)
    });
    assert_eq!(
        message.err().map(|error| error.to_string()).as_deref(),
        Some(
            "capture: add_scalar runs on cpu, but the step is recorded on recording: all tensors of a recorded step must be on one device"
        )
    );
    assert!(device.capture(|| x.add_scalar(1.0)).is_ok());
    Ok(())
}

#[test]
fn another_thread_draws_nothing_while_a_step_is_recorded() -> Result<()> {
    let device = recording(ternion_cpu::device());
    let mut runs = 0;
    let mut message = None;
    let at = device.random_position();
    device.capture(|| {
        runs += 1;
        let drawn = Tensor::rand([8], DType::F32, &device)?;
        if runs == 2 {
            let shared = device.clone();
            let elsewhere = std::thread::spawn(move || Tensor::rand([8], DType::F32, &shared).map(drop));
            message = elsewhere.join().expect("no panic").err().map(|error| error.to_string());
        }
        Ok(drawn)
    })?;
    assert_eq!(message.as_deref(), Some("random numbers: another thread records a step on this device"));
    assert_eq!(
        device.random_position().1 - at.1,
        2,
        "the first run's blocks: those of the recording are drawn by replays"
    );
    std::thread::scope(|scope| {
        scope.spawn(|| Tensor::rand([8], DType::F32, &device).map(drop)).join().expect("no panic")
    })
}
