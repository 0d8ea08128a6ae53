//! Host time of an op, and launches of a step.

use crate::Case;
use crate::clock::{Clock, emit};
use ternion::{DType, Result, Tensor, no_grad};

/// Ops in a round: few enough that the device's queue does not fill.
const OPS: usize = 500;

/// Ops in a round that fills every queue between program and device.
const SUSTAINED_OPS: usize = 20_000;

/// Ops of a recorded step.
const OPS_OF_STEP: usize = 500;

/// Returns cases for the host time of one eager op on one element, and for consecutive ops in a
/// recorded step.
pub fn cases() -> Vec<Case> {
    let mut all = eager();
    all.extend(in_a_step());
    all
}

fn eager() -> Vec<Case> {
    vec![
        // A lower bound for the other cases.
        Case::new("host/launch", |clock, name| {
            if let Some(microseconds) = clock.microseconds_of_launch(OPS)? {
                emit(name, "driver", microseconds / 1e3, microseconds, "us/op");
            }
            Ok(())
        }),
        Case::new("host/add", |clock, name| {
            let x = Tensor::ones([1], DType::F32, &clock.device)?;
            time(clock, name, || x.add(&x).map(drop))
        }),
        Case::new("host/add_recorded", |clock, name| {
            let x = Tensor::ones([1], DType::F32, &clock.device)?.requires_grad()?;
            time(clock, name, || x.add(&x).map(drop))
        }),
        Case::new("host/relu_expanded", |clock, name| {
            let x = Tensor::ones([1], DType::F32, &clock.device)?.expand([4, 4])?;
            time(clock, name, || x.relu().map(drop))
        }),
        Case::new("host/sum", |clock, name| {
            let x = Tensor::ones([16], DType::F32, &clock.device)?;
            time(clock, name, || x.sum(0).map(drop))
        }),
        Case::new("host/matmul", |clock, name| {
            let x = Tensor::ones([16, 16], DType::F32, &clock.device)?;
            time(clock, name, || x.matmul(&x).map(drop))
        }),
        Case::new("host/softmax", |clock, name| {
            let x = Tensor::ones([4, 16], DType::F32, &clock.device)?;
            time(clock, name, || no_grad(|| x.softmax(1).map(drop)))
        }),
        // The same ops for so long that the time of every later stage of submission is included.
        Case::new("host/add_sustained", |clock, name| {
            let x = Tensor::ones([1], DType::F32, &clock.device)?;
            time_sustained(clock, name, || x.add(&x).map(drop))
        }),
        Case::new("host/sum_sustained", |clock, name| {
            let x = Tensor::ones([16], DType::F32, &clock.device)?;
            time_sustained(clock, name, || x.sum(0).map(drop))
        }),
        Case::new("host/matmul_sustained", |clock, name| {
            let x = Tensor::ones([16, 16], DType::F32, &clock.device)?;
            time_sustained(clock, name, || x.matmul(&x).map(drop))
        }),
        Case::new("host/softmax_sustained", |clock, name| {
            let x = Tensor::ones([4, 16], DType::F32, &clock.device)?;
            time_sustained(clock, name, || no_grad(|| x.softmax(1).map(drop)))
        }),
    ]
}

/// Each op uses the output of the previous one. So the cases show the time that a device takes from
/// one kernel to the next: with one block, with dozens and with thousands, for rows, and for
/// products.
fn in_a_step() -> Vec<Case> {
    let add = |elements: usize| {
        Case::new(format!("in_step/add/{elements}"), move |clock, name| {
            let x = Tensor::ones([elements], DType::F32, &clock.device)?;
            time_in_step(clock, name, || x.add_scalar_(1.0))
        })
    };
    let mut all: Vec<Case> = [1, 1 << 17, 1 << 23].into_iter().map(add).collect();
    all.push(Case::new("in_step/softmax", |clock, name| {
        let x = Tensor::ones([256, 1024], DType::F32, &clock.device)?;
        time_in_step(clock, name, || x.copy_(&x.softmax(1)?))
    }));
    all.push(Case::new("in_step/matmul", |clock, name| {
        let x = Tensor::ones([1024, 1024], DType::BF16, &clock.device)?.mul_scalar(1.0 / 1024.0)?;
        let y = x.copy()?;
        time_in_step(clock, name, || y.copy_(&y.matmul(&x)?))
    }));
    all
}

fn time_in_step(clock: &Clock, name: &str, mut op: impl FnMut() -> Result<()>) -> Result<()> {
    let mut step = clock.device.capture(|| no_grad(|| (0..OPS_OF_STEP).try_for_each(|_| op())))?;
    let seconds = clock.seconds_of_step(|| step.replay().map(drop))?;
    let microseconds = seconds * 1e6 / OPS_OF_STEP as f64;
    emit(name, clock.implementation(), microseconds / 1e3, microseconds, "us/op");
    Ok(())
}

fn time(clock: &Clock, name: &str, op: impl FnMut() -> Result<()>) -> Result<()> {
    let microseconds = clock.microseconds_of_op(OPS, op)?;
    emit(name, clock.implementation(), microseconds / 1e3, microseconds, "us/op");
    Ok(())
}

fn time_sustained(clock: &Clock, name: &str, op: impl FnMut() -> Result<()>) -> Result<()> {
    let microseconds = clock.sustained_microseconds_of_op(SUSTAINED_OPS, op)?;
    emit(name, clock.implementation(), microseconds / 1e3, microseconds, "us/op");
    Ok(())
}
