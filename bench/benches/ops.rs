//! Ternion, candle-core and a plain memory copy, in criterion's groups: `<case>/<who>`.

use candle_core as candle;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rayon::prelude::*;
use std::hint::black_box;
use ternion::prelude::*;

const ROWS: usize = 8192;
const COLUMNS: usize = 1024;

fn values(count: usize) -> Vec<f32> {
    // A multiplicative congruence: any spread of numbers between -2 and 2 will do.
    let mut state = 1u64;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1u64 << 22) as f32 - 2.0
        })
        .collect()
}

fn one_element(c: &mut Criterion) {
    let device = ternion::cpu().expect("the CPU");
    let a = Tensor::from_slice(&[1.5f32], [1], &device).expect("a tensor");
    let b = Tensor::from_slice(&[2.5f32], [1], &device).expect("a tensor");
    let tracked = a.requires_grad().expect("a leaf");
    let candle_a = candle::Tensor::new(&[1.5f32], &candle::Device::Cpu).expect("a tensor");
    let candle_b = candle::Tensor::new(&[2.5f32], &candle::Device::Cpu).expect("a tensor");
    let mut group = c.benchmark_group("add_1");
    group.bench_function("ternion", |bench| bench.iter(|| black_box(&a).add(black_box(&b)).expect("a sum")));
    group.bench_function("ternion_recorded", |bench| bench.iter(|| black_box(&tracked).add(black_box(&b)).expect("a sum")));
    group.bench_function("candle", |bench| bench.iter(|| black_box(&candle_a).add(black_box(&candle_b)).expect("a sum")));
    group.finish();
}

fn matmul(c: &mut Criterion) {
    let device = ternion::cpu().expect("the CPU");
    let size = 1024;
    let a = Tensor::from_vec(values(size * size), [size, size], &device).expect("a matrix");
    let b = Tensor::from_vec(values(size * size), [size, size], &device).expect("a matrix");
    let candle_a = candle::Tensor::from_vec(values(size * size), (size, size), &candle::Device::Cpu).expect("a matrix");
    let mut group = c.benchmark_group("matmul_1024");
    group.throughput(Throughput::Elements(2 * (size * size * size) as u64));
    group.bench_function("ternion", |bench| bench.iter(|| a.matmul(&b).expect("a product")));
    group.bench_function("candle", |bench| bench.iter(|| candle_a.matmul(&candle_a).expect("a product")));
    group.finish();
}

/// Copies `source` to `target` on all threads: what the same number of bytes costs at least.
fn copy(source: &[f32], target: &mut [f32]) {
    let piece = source.len().div_ceil(rayon::current_num_threads());
    target.par_chunks_mut(piece).zip(source.par_chunks(piece)).for_each(|(to, from)| to.copy_from_slice(from));
}

fn large(c: &mut Criterion) {
    let device = ternion::cpu().expect("the CPU");
    let source = values(ROWS * COLUMNS);
    let mut target = vec![0f32; ROWS * COLUMNS];
    let x = Tensor::from_slice(&source, [ROWS, COLUMNS], &device).expect("a matrix");
    let y = Tensor::from_slice(&source, [ROWS, COLUMNS], &device).expect("a matrix");
    let weight = Tensor::ones([COLUMNS], DType::F32, &device).expect("a vector");
    let bias = Tensor::zeros([COLUMNS], DType::F32, &device).expect("a vector");
    let mut group = c.benchmark_group("large");
    group.sample_size(20);
    group.bench_function("copy", |bench| bench.iter(|| copy(black_box(&source), black_box(&mut target))));
    group.bench_function("add", |bench| bench.iter(|| x.add(&y).expect("a sum")));
    group.bench_function("relu", |bench| bench.iter(|| x.relu().expect("a tensor")));
    group.bench_function("sum", |bench| bench.iter(|| x.sum(..).expect("a sum")));
    group.bench_function("softmax", |bench| bench.iter(|| x.softmax(1).expect("a tensor")));
    group.bench_function("gelu", |bench| bench.iter(|| x.gelu().expect("a tensor")));
    group.bench_function("gelu_tanh", |bench| bench.iter(|| x.gelu_tanh().expect("a tensor")));
    group.bench_function("layer_norm", |bench| bench.iter(|| x.layer_norm(Some(&weight), Some(&bias), 1e-5).expect("a tensor")));
    let leaf = x.requires_grad().expect("a leaf");
    let weight = weight.requires_grad().expect("a leaf");
    let bias = bias.requires_grad().expect("a leaf");
    let options = ternion_core::GradOptions { retain_graph: true, ..Default::default() };
    let mut backward = |name: &str, output: Tensor, inputs: &[Tensor]| {
        group.bench_function(name, |bench| {
            bench.iter(|| ternion_core::grad(std::slice::from_ref(&output), inputs, std::slice::from_ref(&y), options).expect("gradients"))
        });
    };
    let inputs = std::slice::from_ref(&leaf);
    backward("softmax_backward", leaf.softmax(1).expect("a tensor"), inputs);
    backward("gelu_backward", leaf.gelu().expect("a tensor"), inputs);
    backward("gelu_tanh_backward", leaf.gelu_tanh().expect("a tensor"), inputs);
    let normalised = leaf.layer_norm(Some(&weight), Some(&bias), 1e-5).expect("a tensor");
    backward("layer_norm_backward", normalised, &[leaf.clone(), weight, bias]);
    group.finish();
}

fn large_candle(c: &mut Criterion) {
    let x = candle::Tensor::from_vec(values(ROWS * COLUMNS), (ROWS, COLUMNS), &candle::Device::Cpu).expect("a matrix");
    let mut group = c.benchmark_group("large_candle");
    group.sample_size(20);
    group.bench_function("add", |bench| bench.iter(|| x.add(&x).expect("a sum")));
    group.bench_function("relu", |bench| bench.iter(|| x.relu().expect("a tensor")));
    group.bench_function("sum", |bench| bench.iter(|| x.sum_all().expect("a sum")));
    group.bench_function("softmax", |bench| bench.iter(|| candle_nn::ops::softmax_last_dim(&x).expect("a tensor")));
    group.bench_function("gelu", |bench| bench.iter(|| x.gelu_erf().expect("a tensor")));
    group.finish();
}

criterion_group!(benches, one_element, matmul, large, large_candle);
criterion_main!(benches);
