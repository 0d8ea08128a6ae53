//! Compares products larger than one tile and products with split-K, for which the op table is too
//! small, with the CPU, if `TERNION_EXPECT` names wgpu.

use ternion_core::ops::conv_methods::Conv2dOptions;
use ternion_core::{AttentionOptions, Causal, DType, Device, GradOptions, Result, Tensor, grad};
use ternion_testing::compare_devices;
use ternion_wgpu::Options;

/// Returns the first adapter, if it is requested: a separate device for each test, which runs in
/// its own thread. So the device lists only shaders that this test compiled, and tests do not wait
/// for each other.
fn adapter() -> Option<Device> {
    thread_local!(static ADAPTER: Option<Device> = open());
    ADAPTER.with(Clone::clone)
}

fn open() -> Option<Device> {
    let options = || Options { small_products: true, ..Options::from_env().expect("valid variables") };
    let open = || ternion_wgpu::device_with(0, options()).expect("an adapter, as TERNION_EXPECT says");
    ternion_testing::suite::expects("wgpu").then(open)
}

/// Compares outputs and gradients, in f32 and in the half-precision dtypes.
fn compare(shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let Some(adapter) = adapter() else { return };
    let cpu = ternion_cpu::device();
    cpu.seed(7);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let inputs: Vec<Tensor> = shapes
            .iter()
            .map(|shape| Tensor::randn(*shape, DType::F32, &cpu).unwrap().to_dtype(dtype).unwrap())
            .collect();
        let compared = compare_devices(|x| Ok(vec![f(x)?]), &adapter, &cpu, &inputs);
        assert!(compared.is_ok(), "{shapes:?} {dtype}: {}", compared.unwrap_err());
    }
}

#[test]
fn products_of_all_layouts() {
    compare(&[&[130, 70], &[70, 90]], |x| x[0].matmul(&x[1]));
    compare(&[&[70, 130], &[70, 90]], |x| x[0].t()?.matmul(&x[1]));
    compare(&[&[130, 70], &[90, 70]], |x| x[0].matmul(&x[1].t()?));
    compare(&[&[70, 130], &[90, 70]], |x| x[0].t()?.matmul(&x[1].t()?));
    compare(&[&[3, 40, 33], &[33, 65]], |x| x[0].matmul(&x[1]));
    compare(&[&[2, 3, 40, 17], &[3, 17, 65]], |x| x[0].matmul(&x[1]));
}

/// Sizes and strides that are multiples of four, which are read as vec4, with edges inside a tile.
#[test]
fn products_of_vec4() {
    // Inner sizes that are whole steps of cooperative matrices, and others that are not.
    compare(&[&[132, 80], &[80, 200]], |x| x[0].matmul(&x[1]));
    compare(&[&[80, 132], &[80, 200]], |x| x[0].t()?.matmul(&x[1]));
    compare(&[&[132, 80], &[200, 80]], |x| x[0].matmul(&x[1].t()?));
    compare(&[&[80, 132], &[200, 80]], |x| x[0].t()?.matmul(&x[1].t()?));
    compare(&[&[132, 72], &[72, 200]], |x| x[0].matmul(&x[1]));
    compare(&[&[71, 132], &[200, 71]], |x| x[0].t()?.matmul(&x[1].t()?.contiguous()?));
    compare(&[&[2, 132, 36], &[36, 68]], |x| x[0].matmul(&x[1]));
    compare(&[&[3, 1, 68, 32], &[2, 32, 72]], |x| x[0].matmul(&x[1]));
    // A part of a matrix, and a part that begins in the middle of a vec4.
    compare(&[&[100, 80], &[80, 96]], |x| x[0].narrow(1, 8, 40)?.matmul(&x[1].narrow(0, 40, 40)?));
    compare(&[&[100, 80], &[80, 96]], |x| x[0].narrow(1, 9, 40)?.matmul(&x[1].narrow(0, 40, 40)?));
    // Flipped matrices.
    compare(&[&[128, 80], &[80, 128]], |x| x[0].flip(0)?.matmul(&x[1].flip(0)?));
    compare(&[&[80, 128], &[128, 80]], |x| x[0].flip(0)?.t()?.matmul(&x[1].flip(0)?.t()?));
    // Epilogues, and long sums, which are split (split-K).
    compare(&[&[132, 48], &[48, 72], &[72]], |x| x[0].matmul(&x[1])?.add(&x[2])?.gelu());
    compare(&[&[68, 1024], &[1024, 72]], |x| x[0].matmul(&x[1]));
}

#[test]
fn products_of_many_tiles() {
    compare(&[&[30, 130, 20], &[30, 20, 150]], |x| x[0].matmul(&x[1]));
    compare(&[&[30, 20, 130], &[30, 150, 20]], |x| x[0].transpose(1, 2)?.matmul(&x[1].transpose(1, 2)?));
}

#[test]
fn long_sums_are_split() {
    compare(&[&[40, 1500], &[1500, 50]], |x| x[0].matmul(&x[1]));
    compare(&[&[2, 3, 1100], &[2, 1100, 5]], |x| x[0].matmul(&x[1]));
    compare(&[&[1, 900], &[900, 300]], |x| x[0].matmul(&x[1]));
}

#[test]
fn convolutions_of_many_channels() {
    let options = Conv2dOptions { padding: [1, 1], ..Conv2dOptions::default() };
    compare(&[&[3, 40, 9, 11], &[48, 40, 3, 3]], |x| x[0].conv2d(&x[1], None, options));
    let options = Conv2dOptions { stride: [2, 1], dilation: [1, 2], groups: 2, ..options };
    compare(&[&[2, 80, 12, 9], &[84, 40, 3, 2]], |x| x[0].conv2d(&x[1], None, options));
}

/// Products of few rows and many columns, in the forward pass or in the gradient of the image.
#[test]
fn convolutions_of_few_rows() {
    let Some(adapter) = adapter() else { return };
    let padded = |stride, dilation, groups| Conv2dOptions {
        stride: [stride, 1],
        padding: [2, 1],
        dilation: [1, dilation],
        groups,
    };
    // The gradient of three channels; a result of three channels, with a bias.
    compare(&[&[3, 3, 79, 90], &[18, 3, 5, 3]], |x| x[0].conv2d(&x[1], None, padded(2, 1, 1)));
    compare(&[&[2, 18, 81, 110], &[3, 18, 3, 3], &[3]], |x| x[0].conv2d(&x[1], Some(&x[2]), padded(1, 2, 1)));
    // One channel per group, and two results per channel.
    compare(&[&[2, 6, 40, 41], &[6, 1, 3, 3], &[6]], |x| x[0].conv2d(&x[1], Some(&x[2]), padded(1, 1, 6)));
    compare(&[&[2, 6, 70, 41], &[12, 1, 3, 2]], |x| x[0].conv2d(&x[1], None, padded(3, 2, 6)));
    let backend: &ternion_wgpu::WgpuBackend = adapter.downcast().expect("not wrapped");
    for value in ["ROWS=1u", "ROWS=4u", "PIXEL=patch_pixel", "PIXEL=spread_pixel"] {
        let reached = |shader: &String| shader.contains("TILE=tile_few_rows") && shader.contains(value);
        assert!(backend.shaders().iter().any(reached), "{value} was not reached");
    }
}

/// Compares attention of these shapes, with every combination of causal mask and window.
fn compare_attention(shapes: [&[usize]; 3]) {
    for causal in [false, true] {
        for window in [None, Some(50)] {
            let options = AttentionOptions {
                causal: Causal::lower_right(causal),
                window,
                ..AttentionOptions::default()
            };
            compare(&shapes, |x| x[0].scaled_dot_product_attention(&x[1], &x[2], options));
        }
    }
}

/// Rows that are read element by element, and rows that are too wide for vec4 tiles.
#[test]
fn attention_over_many_tiles() {
    compare_attention([&[1, 4, 150, 70], &[1, 2, 190, 70], &[1, 2, 190, 98]]);
    compare(&[&[1, 1, 70, 132], &[1, 1, 90, 132], &[1, 1, 90, 136]], |x| {
        x[0].scaled_dot_product_attention(&x[1], &x[2], AttentionOptions::default())
    });
}

/// Rows that are read as vec4.
#[test]
fn attention_of_vec4() {
    let Some(adapter) = adapter() else { return };
    compare_attention([&[1, 4, 150, 128], &[1, 2, 190, 128], &[1, 2, 190, 128]]);
    compare_attention([&[2, 2, 65, 64], &[2, 1, 65, 64], &[2, 1, 65, 64]]);
    compare_attention([&[1, 2, 190, 40], &[1, 2, 150, 40], &[1, 2, 150, 100]]);
    // More queries than keys and the reverse, by more than a tile.
    compare_attention([&[1, 1, 300, 36], &[1, 1, 130, 36], &[1, 1, 130, 36]]);
    compare_attention([&[1, 1, 70, 36], &[1, 1, 300, 36], &[1, 1, 300, 36]]);
    let backend: &ternion_wgpu::WgpuBackend = adapter.downcast().expect("not wrapped");
    for step in ["weights", "output", "probabilities", "score_grads", "key_output", "add_parts"] {
        let step = if step == "add_parts" { format!("STEP={step}") } else { format!("STEP=tile_of_{step}") };
        assert!(backend.shaders().iter().any(|shader| shader.contains(&step)), "{step} was not reached");
    }
}

/// Bool and additive masks, and queries, keys and values that are slices of one tensor.
#[test]
fn attention_of_vec4_of_all_layouts() {
    let mask = |device: &Device, dtype: DType| {
        let mask = Tensor::iota(130 * 140, DType::I32, 0, 1, device)?.remainder_scalar(3)?.gt_scalar(0)?;
        let mask = mask.reshape([130, 140])?;
        if dtype == DType::Bool { Ok(mask) } else { mask.to_dtype(dtype)?.mul_scalar(-3.0) }
    };
    for is_bool in [true, false] {
        compare(&[&[1, 2, 130, 48], &[1, 2, 140, 48], &[1, 2, 140, 64]], |x| {
            let mask = mask(x[0].device(), if is_bool { DType::Bool } else { x[0].dtype() })?;
            let options = AttentionOptions {
                mask: Some(&mask),
                causal: Causal::lower_right(is_bool),
                ..Default::default()
            };
            x[0].scaled_dot_product_attention(&x[1], &x[2], options)
        });
    }
    compare(&[&[2, 70, 3, 2, 64]], |x| {
        let part = |index| x[0].select(2, index)?.transpose(1, 2);
        part(0)?.scaled_dot_product_attention(&part(1)?, &part(2)?, AttentionOptions::default())
    });
}

/// Fully masked queries, by a mask or by their position, have outputs of 0 for any values, and do
/// not contribute to gradients.
#[test]
fn attention_of_fully_masked_queries() -> Result<()> {
    let Some(adapter) = adapter() else { return Ok(()) };
    let mask = |device: &Device| {
        let row = Tensor::iota(130, DType::I32, 0, 1, device)?.remainder_scalar(7)?.gt_scalar(0)?;
        row.reshape([130, 1])?.expand([130, 140])?.contiguous()
    };
    for width in [64, 100] {
        let shapes: [&[usize]; 3] = [&[1, 2, 130, width], &[1, 2, 140, width], &[1, 2, 140, width]];
        compare(&shapes, |x| {
            let mask = mask(x[0].device())?;
            let options = AttentionOptions { mask: Some(&mask), ..Default::default() };
            x[0].scaled_dot_product_attention(&x[1], &x[2], options)
        });
        compare_attention([&[1, 2, 300, width], &[1, 2, 140, width], &[1, 2, 140, width]]);
        for value in [f32::INFINITY, f32::NAN] {
            let values = Tensor::full([1, 1, 140, width], value, DType::F32, &adapter)?;
            let zeros = |lines: usize| Tensor::zeros([1, 1, lines, width], DType::F32, &adapter);
            let masked = AttentionOptions { mask: Some(&mask(&adapter)?), ..Default::default() };
            let causal = AttentionOptions { causal: Causal::LowerRight, ..Default::default() };
            for (lines, options) in [(130, masked), (300, causal)] {
                let y = zeros(lines)?.scaled_dot_product_attention(&zeros(140)?, &values, options)?;
                let y = y.to_vec::<f32>()?;
                for (line, row) in y.chunks(width).enumerate() {
                    let fully_masked = if options.causal != Causal::Off { line < 160 } else { line % 7 == 0 };
                    // For other queries, masked keys have a weight of 0 that is still multiplied by
                    // their values.
                    let right =
                        |actual: &f32| if fully_masked { *actual == 0.0 } else { !actual.is_finite() };
                    assert!(
                        row.iter().all(right),
                        "line {line} of {lines}, fully masked: {fully_masked}: {row:?}"
                    );
                }
            }
        }
    }
    Ok(())
}

/// If there is no memory for weights, or for other intermediate results, attention and its gradient
/// use other shaders.
#[test]
fn attention_without_memory_for_weights() -> Result<()> {
    if adapter().is_none() {
        return Ok(());
    }
    let options = Options {
        small_products: true,
        memory_bytes: Some(16 << 20),
        ..Options::from_env().expect("valid variables")
    };
    let (device, cpu) = (ternion_wgpu::device_with(0, options)?, ternion_cpu::device());
    let host = [0, 1, 2].map(|_| Tensor::randn([1, 1, 200, 16], DType::F32, &cpu));
    let host: Vec<Tensor> = host.into_iter().collect::<Result<_>>()?;
    let attended = |device: &Device| {
        let leaf = |x: &Tensor| x.to_device(device)?.requires_grad();
        let x: Vec<Tensor> = host.iter().map(leaf).collect::<Result<_>>()?;
        let y = x[0].scaled_dot_product_attention(&x[1], &x[2], AttentionOptions::default())?;
        let dx = grad(std::slice::from_ref(&y), &x, &[y.detach()], GradOptions::default())?;
        [y].into_iter()
            .chain(dx.into_iter().flatten())
            .map(|actual| actual.to_vec::<f32>())
            .collect::<Result<Vec<_>>>()
    };
    let expected = attended(&cpu)?;
    let backend: &ternion_wgpu::WgpuBackend = device.downcast().expect("not wrapped");
    let reached = |what: &str| backend.shaders().iter().any(|shader| shader.contains(what));
    let fill = || Tensor::zeros([2 << 10], DType::F32, &device);
    let mut ballast: Vec<Tensor> = std::iter::from_fn(|| fill().ok()).collect();
    assert!(ballast.len() > 1000, "{} blocks", ballast.len());
    // The number of remaining blocks: tensors use up to 14 of them, the weights 32, other
    // intermediate results up to 4.
    ballast.truncate(ballast.len() - 16);
    for blocks in (16..64).step_by(3) {
        let actual = attended(&device)?;
        let pairs = actual.iter().flatten().zip(expected.iter().flatten());
        let worst = pairs.map(|(actual, expected)| (actual - expected).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-4, "{blocks} blocks left: {worst}");
        assert!(blocks > 16 || !reached("attention/gemm.wgsl"), "by products in {blocks} blocks");
        ballast.truncate(ballast.len() - 3);
    }
    assert!(reached("attention/grad_vec4.wgsl"), "not by tiles");
    assert!(reached("STEP=tile_of_output") && reached("STEP=tile_of_score_grads"), "not by products");
    Ok(())
}
