//! The facade: devices by name, the messages for devices that are not available, and the
//! environment.

use std::process::Command;
use ternion::prelude::*;

#[test]
fn one_cpu_device_for_the_whole_program() -> Result<()> {
    let device = ternion::cpu()?;
    assert!(device.is(&ternion::cpu()?));
    assert!(device.is(&ternion::device("cpu")?));
    assert!(device.is(&ternion::best()?), "no other backend is compiled in");
    assert!(device.is(&ternion::device("auto")?));
    let sum =
        Tensor::ones([2], DType::F32, &device)?.add(&Tensor::ones([2], DType::F32, &ternion::cpu()?)?)?;
    assert_eq!(sum.to_vec::<f32>()?, [2.0, 2.0]);
    Ok(())
}

#[test]
fn unavailable_devices_are_errors() {
    let message = |result: Result<Device>| result.expect_err("no such device").to_string();
    #[cfg(not(feature = "cuda"))]
    assert_eq!(
        message(ternion::cuda(1)),
        "device cuda:1: not compiled in: turn on the feature `cuda` of the package `ternion`"
    );
    #[cfg(feature = "cuda")]
    assert!(message(ternion::cuda(77)).starts_with("device cuda:77: no "), "no driver, or no such device");
    #[cfg(not(feature = "wgpu"))]
    assert_eq!(
        message(ternion::wgpu(0)),
        "device wgpu:0: not compiled in: turn on the feature `wgpu` of the package `ternion`"
    );
    #[cfg(feature = "wgpu")]
    assert!(message(ternion::wgpu(77)).starts_with("device wgpu:77: no "), "no adapter, or no such one");
    assert_eq!(message(ternion::device("cuda:77")), message(ternion::cuda(77)));
    assert_eq!(
        message(ternion::device("tpu")),
        "device tpu: no such device; expected auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER"
    );
    assert!(matches!(ternion::device("cuda:77"), Err(Error::Device { device, .. }) if device == "cuda:77"));
}

/// The derive macro finds its crate also through the facade only, and under an explicit name.
mod through_the_facade {
    use ternion::prelude::*;

    #[derive(Module)]
    #[module(crate = "ternion::nn")]
    struct Named {
        layer: Linear,
    }

    #[derive(Module)]
    struct Found {
        layers: Vec<Named>,
    }

    #[test]
    fn modules_are_derived() -> Result<()> {
        let device = ternion_cpu::device();
        let model = Found { layers: vec![Named { layer: Linear::new(2, 2, &device)? }] };
        assert_eq!(model.parameters()[1].name(), Some("layers.0.layer.bias"));
        Ok(())
    }
}

/// Only the names of the prelude are used.
#[test]
fn the_prelude_creates_every_layer_and_optimizer_with_settings() -> Result<()> {
    let device = ternion::cpu()?;
    let attention = MultiHeadAttentionConfig { bias: false, ..Default::default() };
    let block = TransformerBlockConfig { dropout: 0.1, ..Default::default() };
    let layers: Vec<Box<dyn Forward>> = vec![
        Box::new(MultiHeadAttention::with_config(4, 2, attention, &device)?),
        Box::new(FeedForward::new(4, FeedForwardConfig::default(), &device)?),
        Box::new(Dropout::with_config(DropoutConfig::default())?),
        Box::new(TransformerBlock::new(4, 2, block, &device)?),
    ];
    let mut x = Tensor::ones([1, 3, 4], DType::F32, &device)?;
    for layer in &layers {
        x = layer.forward(&x)?;
    }
    assert_eq!(x.dims(), [1, 3, 4]);
    let small = ResNetConfig { classes: 3, blocks: vec![1], width: 2, ..Default::default() };
    let params = || Ok::<_, Error>(ResNet::new(small.clone(), &device)?.parameters());
    let muon = Linear::new(2, 2, &device)?.weight;
    let optimizers: Vec<Box<dyn Optimizer>> = vec![
        Box::new(Muon::new(vec![muon], MuonConfig { lr: 0.5, ..Default::default() })?),
        Box::new(Lion::new(params()?, LionConfig { lr: 0.5, ..Default::default() })?),
        Box::new(RMSprop::new(params()?, RMSpropConfig { lr: 0.5, ..Default::default() })?),
        Box::new(Adagrad::new(params()?, AdagradConfig { lr: 0.5, ..Default::default() })?),
    ];
    assert!(optimizers.iter().all(|optimizer| optimizer.lr() == 0.5));
    let ema = Ema::new(params()?, EmaConfig { decay: 0.9, ..Default::default() })?;
    assert!(!ema.is_swapped_in());
    Ok(())
}

// ---- The environment: each case runs this program again with a variable set.

/// The test that `in_environment` runs in a child process.
#[test]
fn child() {
    if std::env::var_os("TERNION_FACADE_CHILD").is_none() {
        return;
    }
    let outcome = ternion::best().and_then(|device| {
        println!("said: device {}", device.name());
        let zero = Tensor::zeros([1], DType::F32, &device)?;
        println!("said: result {:?}", zero.div(&zero)?.to_vec::<f32>()?);
        Ok(())
    });
    if let Err(error) = outcome {
        println!("said: error {error}");
    }
}

fn in_environment(variables: &[(&str, &str)]) -> String {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args(["--exact", "child", "--nocapture"])
        .env("TERNION_FACADE_CHILD", "1")
        .envs(variables.iter().copied())
        .output()
        .expect("this program can be started again");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| line.split_once("said: ")).map(|(_, said)| format!("{said}\n")).collect()
}

#[test]
fn the_environment_wraps_the_device() {
    assert_eq!(in_environment(&[]), "device cpu\nresult [NaN]\n");
    let nan = in_environment(&[("TERNION_NAN", "error")]);
    assert!(nan.contains("error div"), "{nan}");
    let checked = in_environment(&[("TERNION_CHECK", "cpu")]);
    assert!(checked.contains("result [NaN]"), "{checked}");
    assert_ne!(checked, in_environment(&[]), "the name mentions the check");
    let fallback = in_environment(&[("TERNION_FALLBACK", "cpu:div")]);
    assert!(fallback.contains("result [NaN]"), "{fallback}");
}

#[test]
fn devices_are_listed() {
    let devices = ternion::devices();
    let processor = devices.iter().find(|device| device.name == "cpu").expect("the CPU");
    assert_eq!(processor.dtypes, ternion::DType::ALL);
    assert!(processor.memory.is_none_or(|bytes| bytes > 1 << 26), "{processor:?}");
    for device in &devices {
        assert!(!device.hardware.is_empty() && device.dtypes.contains(&ternion::DType::F32), "{device:?}");
        // A listed device is found by its name, unless it cannot be opened.
        let opened = ternion::device(&device.name).map(|opened| opened.name().to_string());
        assert!(opened.as_ref().map_or(true, |name| name.contains(&device.name)), "{opened:?}");
    }
}

#[test]
fn an_invalid_variable_is_an_error() {
    // An invalid variable is reported first, before the devices that are not available.
    assert!(in_environment(&[("TERNION_NAN", "maybe")]).contains("error TERNION_NAN: \"maybe\""));
    assert!(in_environment(&[("TERNION_CHECK", "tpu")]).contains("error device tpu: no such device"));
    assert!(in_environment(&[("TERNION_CHECK", "wgpu:77")]).contains("error device wgpu:77: no"));
    assert!(in_environment(&[("TERNION_FALLBACK", "cpu:no_such_op")]).contains("no_such_op"));
}

#[test]
fn cached_memory_can_be_freed() -> Result<()> {
    // Separate devices: other tests use memory of the shared ones.
    let mut devices = vec![ternion_cpu::device()];
    devices.extend(ternion_testing::suite::expects("wgpu").then(|| ternion_wgpu::device(0)).transpose()?);
    for device in devices {
        let retained = Tensor::ones([1 << 18], DType::F32, &device)?;
        drop(retained.exp()?);
        let before = device.memory();
        assert!(before.cached >= 1 << 20, "{device}: {before:?}");
        device.release_cached()?;
        let after = device.memory();
        assert!(after.cached == 0 && after.in_use == before.in_use, "{device}: {before:?}, then {after:?}");
        assert_eq!(retained.to_vec::<f32>()?, vec![1.0; 1 << 18]);
    }
    Ok(())
}
