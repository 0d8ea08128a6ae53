//! Compares ops over tensors larger than a binding with the CPU, if `TERNION_EXPECT` names wgpu.
//! Bindings have 1 KiB, so that the tensors are small.

use std::sync::OnceLock;
use ternion_core::dispatch::apply;
use ternion_core::ops::conv_methods::Conv2dOptions;
use ternion_core::ops::pool::PoolOptions;
use ternion_core::ops::step::{AdamStep, DecayMode};
use ternion_core::{AttentionOptions, Causal, DType, Device, Result, Tensor, total_norm};
use ternion_testing::compare_devices;
use ternion_wgpu::Options;

/// Returns the first adapter with bindings of `bytes` bytes, if it is requested.
fn with_bindings(bytes: u64) -> Option<Device> {
    let options = Options { binding_bytes: Some(bytes), small_products: true, ..Options::default() };
    let open = || ternion_wgpu::device_with(0, options).expect("an adapter, as TERNION_EXPECT says");
    ternion_testing::suite::expects("wgpu").then(open)
}

/// Returns the first adapter with bindings of 1 KiB, if it is requested.
fn narrow() -> Option<&'static Device> {
    static NARROW: OnceLock<Option<Device>> = OnceLock::new();
    NARROW.get_or_init(|| with_bindings(1024)).as_ref()
}

/// Compares outputs and gradients, in f32 and in a half-precision dtype.
fn compare(shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) {
    if let Some(narrow) = narrow() {
        compare_on(narrow, shapes, f);
    }
}

fn compare_on(narrow: &Device, shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) {
    let cpu = ternion_cpu::device();
    cpu.seed(7);
    for dtype in [DType::F32, DType::F16] {
        let inputs: Vec<Tensor> = shapes
            .iter()
            .map(|shape| Tensor::randn(*shape, DType::F32, &cpu).unwrap().to_dtype(dtype).unwrap())
            .collect();
        let compared = compare_devices(&f, narrow, &cpu, &inputs);
        assert!(compared.is_ok(), "{shapes:?} {dtype}: {}", compared.unwrap_err());
    }
}

/// Returns `count` unordered positions below `size`, on the device of the other tensor.
fn positions(count: usize, size: usize, like: &Tensor) -> Result<Tensor> {
    let numbers = (0..count).map(|index| ((index * 7919 + index * index) % size) as i64).collect();
    Tensor::from_vec(numbers, [count], like.device())
}

#[test]
fn elements_are_gathered_and_scattered() {
    compare(&[&[40, 30]], |x| Ok(vec![x[0].index_select(0, &positions(60, 40, &x[0])?)?]));
    compare(&[&[900]], |x| Ok(vec![x[0].gather(0, &positions(700, 900, &x[0])?)?]));
    compare(&[&[900], &[700]], |x| Ok(vec![x[0].scatter_add(0, &positions(700, 900, &x[0])?, &x[1])?]));
    compare(&[&[900], &[700]], |x| Ok(vec![x[0].scatter(0, &positions(700, 900, &x[0])?, &x[1])?]));
    compare(&[&[40, 30], &[50, 30]], |x| Ok(vec![x[0].index_add(0, &positions(50, 40, &x[0])?, &x[1])?]));
}

#[test]
fn rows_are_reduced() {
    let all = [0, 1];
    compare(&[&[40, 33]], |x| Ok(vec![x[0].sum(1)?, x[0].sum(0)?, x[0].sum(all)?]));
    compare(&[&[40, 33]], |x| Ok(vec![x[0].max(1)?, x[0].max(0)?, x[0].max(all)?]));
    compare(&[&[30, 40]], |x| Ok(vec![x[0].softmax(1)?, x[0].t()?.softmax(1)?, x[0].log_softmax(0)?]));
    compare(&[&[3, 900]], |x| Ok(vec![x[0].cumsum(1)?]));
}

#[test]
fn elements_are_moved() {
    // Both tensors together have more windows than a shader can bind.
    compare(&[&[160, 64]], |x| Ok(vec![x[0].t()?.contiguous()?]));
    compare(&[&[40, 33]], |x| Ok(vec![x[0].t()?.contiguous()?, x[0].pad(&[[1, 2], [3, 0]], 2.0)?]));
    compare(&[&[10, 33], &[20, 33]], |x| Ok(vec![Tensor::concat(&[&x[0], &x[1]], 0)?]));
    compare(&[&[3, 500], &[1, 1100]], |x| Ok(vec![x[0].sort(1, false)?.0, x[1].sort(1, true)?.0]));
}

#[test]
fn products_and_images() {
    compare(&[&[40, 30], &[30, 40]], |x| Ok(vec![x[0].matmul(&x[1])?]));
    // Both operands use the same windows.
    compare(&[&[40, 50]], |x| Ok(vec![x[0].matmul(&x[0].t()?)?]));
    compare(&[&[2, 2, 400], &[2, 400, 3]], |x| Ok(vec![x[0].matmul(&x[1])?]));
    let options = Conv2dOptions { padding: [1, 1], ..Conv2dOptions::default() };
    compare(&[&[2, 4, 13, 11], &[6, 4, 3, 3]], |x| Ok(vec![x[0].conv2d(&x[1], None, options)?]));
    let options = AttentionOptions { causal: Causal::LowerRight, ..AttentionOptions::default() };
    compare(&[&[1, 2, 36, 8], &[1, 2, 40, 8], &[1, 2, 40, 8]], |x| {
        Ok(vec![x[0].scaled_dot_product_attention(&x[1], &x[2], options)?])
    });
}

/// Attention whose weights need several bindings: they are computed for a few heads at a time.
#[test]
fn attention_of_a_few_heads_at_a_time() {
    let Some(narrow) = with_bindings(512 << 10) else { return };
    for causal in [false, true] {
        let options = AttentionOptions { causal: Causal::lower_right(causal), ..AttentionOptions::default() };
        // Two heads that share one key head, in two batches; then two heads and one more; then
        // tensors that need several bindings, too.
        compare_on(&narrow, &[&[2, 4, 150, 64], &[2, 2, 190, 64], &[2, 2, 190, 36]], |x| {
            Ok(vec![x[0].scaled_dot_product_attention(&x[1], &x[2], options)?])
        });
        compare_on(&narrow, &[&[1, 3, 150, 36], &[1, 3, 190, 36], &[1, 3, 190, 68]], |x| {
            Ok(vec![x[0].scaled_dot_product_attention(&x[1], &x[2], options)?])
        });
        compare_on(&narrow, &[&[6, 4, 150, 64], &[6, 2, 190, 64], &[6, 2, 190, 68]], |x| {
            Ok(vec![x[0].scaled_dot_product_attention(&x[1], &x[2], options)?])
        });
    }
    let backend: &ternion_wgpu::WgpuBackend = narrow.downcast().expect("not wrapped");
    assert!(
        backend.shaders().iter().any(|shader| shader.contains("STEP=tile_of_score_grads")),
        "attention is fused"
    );
}

#[test]
fn norms_and_losses() {
    compare(&[&[40, 20], &[20], &[20]], |x| {
        Ok(vec![x[0].layer_norm(Some(&x[1]), Some(&x[2]), 1e-5)?, x[0].rms_norm(Some(&x[1]), 1e-5)?])
    });
    compare(&[&[5, 6, 7, 6], &[6], &[6]], |x| {
        let (y, mean, var) = x[0].batch_norm_train(Some(&x[1]), Some(&x[2]), 1e-5)?;
        Ok(vec![y, mean, var])
    });
    compare(&[&[40, 33]], |x| Ok(vec![x[0].cross_entropy(&positions(40, 33, &x[0])?)?]));
}

#[test]
fn pools() {
    let options = PoolOptions::new([2, 2]);
    compare(&[&[2, 3, 16, 14]], |x| Ok(vec![x[0].max_pool2d(options)?]));
    compare(&[&[2, 3, 16, 14]], |x| Ok(vec![x[0].avg_pool2d(options)?]));
}

/// Each tensor with several windows has a separate launch; the tensors between them share launches.
#[test]
fn norms_of_many_tensors() {
    let shapes: [&[usize]; 6] = [&[33], &[7, 5], &[5000], &[40, 33], &[3], &[0]];
    compare(&shapes, |x| Ok(vec![total_norm(&x.iter().collect::<Vec<_>>())?]));
}

/// Returns a parameter after a step of AdamW.
fn stepped(device: &Device) -> Result<Vec<f32>> {
    let numbers = |scale: f32| {
        let values = (0..1500).map(|index| ((index % 37) as f32 - 18.5) * scale).collect();
        Tensor::from_vec(values, [1500], device)
    };
    let hyper = Tensor::from_vec(vec![0.1f32, 1.0, 0.1, 0.03], [4], device)?;
    let (parameter, gradient) = (numbers(1.0)?, numbers(0.5)?);
    let (first, second) = (numbers(0.0)?, numbers(0.0)?);
    let step = AdamStep {
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.01,
        decay_mode: DecayMode::Decoupled,
        half_copy: false,
    };
    apply(step, &[&parameter, &gradient, &hyper, &first, &second])?;
    parameter.to_vec()
}

#[test]
fn steps_and_random_numbers() -> Result<()> {
    let Some(narrow) = narrow() else { return Ok(()) };
    let cpu = ternion_cpu::device();
    for (ours, theirs) in stepped(narrow)?.into_iter().zip(stepped(&cpu)?) {
        assert!((ours - theirs).abs() <= 2e-6 * (1.0 + theirs.abs()), "{ours}, expected {theirs}");
    }
    let words = |device: &Device| -> Result<Vec<f32>> {
        device.seed(7);
        Tensor::rand([1500], DType::F32, device)?.to_vec()
    };
    assert_eq!(words(narrow)?, words(&cpu)?);
    device_normal(narrow, &cpu)
}

/// Normal numbers equal those of the CPU up to rounding.
fn device_normal(narrow: &Device, cpu: &Device) -> Result<()> {
    let numbers = |device: &Device| -> Result<Vec<f32>> {
        device.seed(9);
        Tensor::randn([1500], DType::F32, device)?.to_vec()
    };
    for (ours, theirs) in numbers(narrow)?.into_iter().zip(numbers(cpu)?) {
        assert!((ours - theirs).abs() <= 1e-5, "{ours}, expected {theirs}");
    }
    Ok(())
}

/// A shader has a limited number of bindings. If an op needs more, the error names the op and the
/// limit.
#[test]
fn more_windows_than_bindings_are_an_error() -> Result<()> {
    if narrow().is_none() {
        return Ok(());
    }
    let least = Options { binding_bytes: Some(Options::MIN_BINDING_BYTES), ..Options::default() };
    let device = ternion_wgpu::device_with(0, least)?;
    // More windows than a bind group has bindings on any adapter.
    let x = Tensor::zeros([1 << 20], DType::F32, &device)?;
    let error = x.sum(0).expect_err("4 MiB in windows of 256 bytes").to_string();
    assert!(error.contains("bindings of 256 bytes"), "{error}");
    let error = ternion_wgpu::device_with(0, Options { binding_bytes: Some(100), ..Options::default() })
        .expect_err("too few");
    assert!(error.to_string().contains("256 at least"), "{error}");
    Ok(())
}
