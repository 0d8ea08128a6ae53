//! Ternion, candle-core and a plain memory copy, in criterion's groups: `<case>/<implementation>`.

use candle_core as candle;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use rayon::prelude::*;
use std::hint::black_box;
use ternion::prelude::*;

const ROWS: usize = 8192;
const COLUMNS: usize = 1024;

fn values(count: usize) -> Vec<f32> {
    // A linear congruential generator: any values between -2 and 2 are suitable.
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

/// Copies `source` to `target` on all threads, which is a lower bound for moving the same number of
/// bytes.
fn copy(source: &[f32], target: &mut [f32]) {
    let piece = source.len().div_ceil(rayon::current_num_threads());
    target.par_chunks_mut(piece).zip(source.par_chunks(piece)).for_each(|(to, from)| to.copy_from_slice(from));
}

/// The number of tensors that are used in rotation, and of results that are kept. Together they are
/// larger than any cache, so that every iteration accesses cold memory.
const IN_TURN: usize = 8;

/// Times `f(0), f(1), .. f(IN_TURN - 1), f(0), ..`. Each result lives for a whole rotation.
fn cold<T>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, f: impl Fn(usize) -> T) {
    let mut kept: [Option<T>; IN_TURN] = std::array::from_fn(|_| None);
    let mut turn = 0;
    group.bench_function(name, |bench| {
        bench.iter(|| {
            turn = (turn + 1) % IN_TURN;
            kept[turn] = Some(f(turn));
        })
    });
}

fn large(c: &mut Criterion) {
    let device = ternion::cpu().expect("the CPU");
    let source = values(ROWS * COLUMNS);
    let matrix = |_| Tensor::from_slice(&source, [ROWS, COLUMNS], &device).expect("a matrix");
    let x: [Tensor; IN_TURN] = std::array::from_fn(matrix);
    let y = matrix(0);
    let weight = Tensor::ones([COLUMNS], DType::F32, &device).expect("a vector");
    let bias = Tensor::zeros([COLUMNS], DType::F32, &device).expect("a vector");
    let mut group = c.benchmark_group("large");
    group.sample_size(20);
    {
        let sources: Vec<Vec<f32>> = vec![source.clone(); IN_TURN];
        let mut targets = vec![vec![0f32; ROWS * COLUMNS]; IN_TURN];
        let mut turn = 0;
        group.bench_function("copy", |bench| {
            bench.iter(|| {
                turn = (turn + 1) % IN_TURN;
                copy(black_box(&sources[turn]), black_box(&mut targets[turn]));
            })
        });
    }
    cold(&mut group, "add", |turn| x[turn].add(&x[(turn + 1) % IN_TURN]).expect("a sum"));
    cold(&mut group, "relu", |turn| x[turn].relu().expect("a tensor"));
    cold(&mut group, "sum", |turn| x[turn].sum(..).expect("a sum"));
    cold(&mut group, "softmax", |turn| x[turn].softmax(1).expect("a tensor"));
    cold(&mut group, "gelu", |turn| x[turn].gelu().expect("a tensor"));
    cold(&mut group, "gelu_tanh", |turn| x[turn].gelu_tanh().expect("a tensor"));
    cold(&mut group, "layer_norm", |turn| {
        x[turn].layer_norm(Some(&weight), Some(&bias), 1e-5).expect("a tensor")
    });
    let weight = weight.requires_grad().expect("a leaf");
    let bias = bias.requires_grad().expect("a leaf");
    let options = ternion_core::GradOptions { retain_graph: true, ..Default::default() };
    let mut backward = |name: &str, f: &dyn Fn(&Tensor) -> Tensor, parameters: &[Tensor]| {
        let recorded: Vec<(Tensor, Vec<Tensor>)> = x
            .iter()
            .map(|x| {
                let leaf = x.requires_grad().expect("a leaf");
                let output = f(&leaf);
                (output, [std::slice::from_ref(&leaf), parameters].concat())
            })
            .collect();
        cold(&mut group, name, |turn| {
            let (output, inputs) = &recorded[turn];
            ternion_core::grad(std::slice::from_ref(output), inputs, std::slice::from_ref(&y), options).expect("gradients")
        });
    };
    backward("softmax_backward", &|x| x.softmax(1).expect("a tensor"), &[]);
    backward("gelu_backward", &|x| x.gelu().expect("a tensor"), &[]);
    backward("gelu_tanh_backward", &|x| x.gelu_tanh().expect("a tensor"), &[]);
    let layer_norm = |x: &Tensor| x.layer_norm(Some(&weight), Some(&bias), 1e-5).expect("a tensor");
    backward("layer_norm_backward", &layer_norm, &[weight.clone(), bias.clone()]);
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

/// Attention by its kernels, and composed of a product, a softmax and a product. Its kernels must
/// not be slower than the composition, at any width.
fn attention(c: &mut Criterion) {
    let device = ternion::cpu().expect("the CPU");
    let composed = ternion_core::decorators::Composed::new(device.clone());
    let options = ternion_core::GradOptions { retain_graph: true, ..Default::default() };
    let mut group = c.benchmark_group("attention");
    group.sample_size(10);
    for dtype in [DType::F32, DType::BF16] {
        for width in [64, 128, 192, 256] {
            for (who, device) in [("ternion", &device), ("composed", &composed)] {
                let shape = [1, 8, 512, width];
                let tensor = || {
                    let x = Tensor::from_vec(values(shape.iter().product()), shape, device).expect("a tensor");
                    x.to_dtype(dtype).and_then(|x| x.requires_grad()).expect("a leaf")
                };
                let (q, k, v) = (tensor(), tensor(), tensor());
                let attend = || q.scaled_dot_product_attention(&k, &v, Default::default()).expect("a tensor");
                group.bench_function(format!("{dtype}_{width}_{who}"), |bench| bench.iter(|| no_grad(|| black_box(attend()))));
                let (y, inputs) = (attend(), [q.clone(), k.clone(), v.clone()]);
                let dy = y.detach();
                let backward = || ternion_core::grad(std::slice::from_ref(&y), &inputs, std::slice::from_ref(&dy), options).expect("gradients");
                group.bench_function(format!("{dtype}_{width}_backward_{who}"), |bench| bench.iter(backward));
            }
        }
    }
    group.finish();
}

criterion_group!(benches, one_element, matmul, large, large_candle, attention);
criterion_main!(benches);
