//! Times the rows of the op table that are marked `perf`, on the CPU in f32, forward and backward:
//! `cargo bench --bench ops -- softmax`.
//!
//! These times track regressions; comparisons with other frameworks are in `bench/`.

use criterion::{BatchSize, Criterion};
use std::hint::black_box;
use ternion::prelude::*;
use ternion::{GradOptions, Result, grad};
use ternion_testing::Array;
use ternion_testing::case::{CaseInputs, InputKind};
use ternion_testing::memory_layout::{MemoryLayout, tensor_with_layout};
use ternion_testing::table::{Instance, OpCase, table};

/// Returns the row's inputs on `device`. Those that need a gradient are leaves.
fn inputs(row: &OpCase, instance: &Instance, device: &Device) -> Result<Vec<Tensor>> {
    let case_inputs = CaseInputs::new(row, instance, InputKind::of(DType::F32), MemoryLayout::Dense);
    let wanted = row.differentiable_inputs(DType::F32);
    let one = |(at, array): (usize, &Array)| {
        let tensor = tensor_with_layout(array, row.inputs[at].class.dtype(DType::F32), None, device)?;
        if row.forward_only.is_none() && wanted.contains(&at) { tensor.requires_grad() } else { Ok(tensor) }
    };
    case_inputs.inputs.iter().enumerate().map(one).collect()
}

fn time(criterion: &mut Criterion, row: &OpCase, instance: &Instance, device: &Device) -> Result<()> {
    let Some(run) = &row.run else { return Ok(()) };
    let inputs = inputs(row, instance, device)?;
    let key = row.key(instance);
    let mut group = criterion.benchmark_group(&key);
    group.sample_size(10);
    group.bench_function("forward", |bench| {
        bench.iter(|| no_grad(|| run(black_box(&inputs), device, DType::F32)).expect("the row runs"));
    });
    let leaves: Vec<Tensor> = inputs.iter().filter(|tensor| tensor.needs_grad()).cloned().collect();
    if !leaves.is_empty() {
        let options = GradOptions { allow_unused: true, ..GradOptions::default() };
        let record = || -> Result<(Vec<Tensor>, Vec<Tensor>)> {
            let outputs: Vec<Tensor> =
                run(&inputs, device, DType::F32)?.into_iter().filter(Tensor::needs_grad).collect();
            let ones = outputs.iter().map(Tensor::ones_like).collect::<Result<_>>()?;
            Ok((outputs, ones))
        };
        group.bench_function("backward", |bench| {
            bench.iter_batched(
                || record().expect("the row runs"),
                |(outputs, cotangents)| grad(&outputs, &leaves, &cotangents, options).expect("gradients"),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
    Ok(())
}

fn main() -> Result<()> {
    let device = ternion::cpu()?;
    let mut criterion = Criterion::default().configure_from_args();
    // Generating the inputs takes longer than timing a row, so rows are filtered by name first. All
    // other arguments are criterion's.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let only = match arguments.as_slice() {
        [name] if name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ' ') => name.as_str(),
        _ => "",
    };
    for row in table() {
        for instance in &row.perf {
            let key = row.key(instance);
            if key.contains(only) {
                time(&mut criterion, &row, instance, &device)?;
            }
        }
    }
    criterion.final_summary();
    Ok(())
}
