//! What the host spends: time of an op, launches of a step.

use crate::Case;
use crate::clock::{Clock, emit};
use ternion::{DType, Result, Tensor, no_grad};

/// Ops in a round: few enough that the device's queue does not fill.
const OPS: usize = 500;

/// Ops in a round that fills every queue on the way.
const SUSTAINED_OPS: usize = 20_000;

/// Host time of one eager op on one element.
pub fn cases() -> Vec<Case> {
    vec![
        // What none of the others can be below.
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
        // The same, one after another for so long that whatever takes them from the program is in it too.
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
