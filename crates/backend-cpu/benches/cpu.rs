//! Times of the CPU backend compared with a plain copy of the same number of bytes: `cargo bench -p
//! ternion-cpu -- [words of names]`.

use std::hint::black_box;
use std::time::Instant;
use ternion_core::ops::binary::{Binary, BinaryOp};
use ternion_core::ops::matmul::Matmul;
use ternion_core::ops::reduce::{Reduce, ReduceOp};
use ternion_core::ops::unary::{Unary, UnaryOp};
use ternion_core::{AxisSet, DType, Device, Op, Result, Tensor};

const ROWS: usize = 8192;
const COLUMNS: usize = 1024;

/// Returns the shortest of several runs, in seconds.
fn shortest(mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    run()?;
    let begin = Instant::now();
    let mut rounds = 0;
    while rounds < 5 || begin.elapsed().as_secs_f64() < 0.5 {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed().as_secs_f64());
        rounds += 1;
    }
    Ok(best)
}

/// Returns the time of one call in seconds, measured over many calls.
fn each(calls: usize, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    shortest(|| {
        for _ in 0..calls {
            run()?;
        }
        Ok(())
    })
    .map(|seconds| seconds / calls as f64)
}

fn apply(op: impl Into<Op>, inputs: &[&Tensor]) -> Result<()> {
    black_box(ternion_core::dispatch::apply(op, inputs)?);
    Ok(())
}

/// Returns the time in seconds of a copy on all threads that reads and writes `bytes` in total.
fn copy(bytes: usize) -> Result<f64> {
    let from = vec![1u8; bytes / 2];
    let mut to = vec![0u8; bytes / 2];
    shortest(|| {
        let part = to.len().div_ceil(rayon::current_num_threads());
        rayon::scope(|scope| {
            for (to, from) in to.chunks_mut(part).zip(from.chunks(part)) {
                scope.spawn(move |_| to.copy_from_slice(from));
            }
        });
        black_box(&mut to);
        Ok(())
    })
}

fn is_selected(name: &str) -> bool {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    words.is_empty() || words.iter().any(|word| name.contains(word.as_str()))
}

fn tiny(device: &Device) -> Result<()> {
    let (a, b) = (Tensor::full([1], 1.5, DType::F32, device)?, Tensor::full([1], 2.5, DType::F32, device)?);
    let add = || Binary { op: BinaryOp::Add };
    let plain = each(10_000, || apply(add(), &[&a, &b]))?;
    let leaf = a.requires_grad()?;
    let recorded = each(10_000, || apply(add(), &[&leaf, &b]))?;
    let (plain_ns, recorded_ns) = (plain * 1e9, recorded * 1e9);
    println!(
        "tiny add                 {plain_ns:8.1} ns, recorded {recorded_ns:8.1} ns ({:.2})",
        recorded / plain
    );
    Ok(())
}

fn memory_bound(device: &Device) -> Result<()> {
    let shape = [ROWS, COLUMNS];
    let (a, b) =
        (Tensor::full(shape, 1.5, DType::F32, device)?, Tensor::full(shape, 2.5, DType::F32, device)?);
    let bytes = ROWS * COLUMNS * 4;
    let copies = [copy(bytes)?, copy(2 * bytes)?, copy(3 * bytes)?];
    let row = |name: &str, touched: usize, op: Op, inputs: &[&Tensor]| -> Result<()> {
        if !is_selected(name) {
            return Ok(());
        }
        let seconds = shortest(|| apply(op.clone(), inputs))?;
        let copy = copies[touched - 1];
        println!("{name:<24} {:8.3} ms, {:.2} of a copy", seconds * 1e3, seconds / copy);
        Ok(())
    };
    row("add", 3, Binary { op: BinaryOp::Add }.into(), &[&a, &b])?;
    let unary = [
        UnaryOp::Relu,
        UnaryOp::Exp,
        UnaryOp::GeluErf,
        UnaryOp::GeluTanh,
        UnaryOp::Tanh,
        UnaryOp::Sigmoid,
        UnaryOp::Log,
        UnaryOp::Sin,
    ];
    for op in unary {
        row(op.name(), 2, Unary { op }.into(), &[&a])?;
    }
    let reduce = |op, axes| Op::from(Reduce { op, axes, keep: false });
    for (name, axes) in [("all", AxisSet::first(2)), ("rows", AxisSet::one(1)), ("columns", AxisSet::one(0))]
    {
        row(&format!("sum {name}"), 1, reduce(ReduceOp::Sum, axes), &[&a])?;
        row(&format!("max {name}"), 1, reduce(ReduceOp::Max, axes), &[&a])?;
        row(&format!("argmax {name}"), 1, reduce(ReduceOp::ArgMax, axes), &[&a])?;
        row(&format!("logsumexp {name}"), 1, reduce(ReduceOp::LogSumExp, axes), &[&a])?;
    }
    let bias = Tensor::full([COLUMNS], 1.0, DType::F32, device)?;
    row("add bias", 2, Binary { op: BinaryOp::Add }.into(), &[&a, &bias])?;
    row("transposed copy", 2, ternion_core::ops::copy::Copy { dtype: DType::F32 }.into(), &[&a.t()?])?;
    row("cast to bf16", 2, ternion_core::ops::copy::Copy { dtype: DType::BF16 }.into(), &[&a])?;
    row("cast to f16", 2, ternion_core::ops::copy::Copy { dtype: DType::F16 }.into(), &[&a])?;
    Ok(())
}

fn products(device: &Device) -> Result<()> {
    let sizes: [[usize; 3]; 8] = [
        [64, 784, 128],
        [64, 128, 10],
        [784, 64, 128],
        [256, 256, 256],
        [512, 512, 512],
        [1024, 1024, 1024],
        [2048, 2048, 2048],
        [8192, 64, 64],
    ];
    for [m, k, n] in sizes {
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
            let name = format!("matmul {dtype} {m}x{k}x{n}");
            if !is_selected(&name) || (dtype != DType::F32 && m * k * n > 1 << 30) {
                continue;
            }
            let (a, b) = (Tensor::full([m, k], 1, dtype, device)?, Tensor::full([k, n], 1, dtype, device)?);
            let seconds = shortest(|| apply(Matmul::PLAIN, &[&a, &b]))?;
            println!(
                "{name:<28} {:8.3} ms, {:6.1} GFLOP/s",
                seconds * 1e3,
                2e-9 * (m * k * n) as f64 / seconds
            );
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let device = ternion_cpu::device();
    if is_selected("tiny add") {
        tiny(&device)?;
    }
    if !std::env::args().any(|word| word == "tiny") {
        memory_bound(&device)?;
    }
    products(&device)
}
