//! Weights on disk: back as they were, whole or not at all, and an error in words for whatever a file can be.

use std::fs;
use std::path::{Path, PathBuf};
use ternion_core::{DType, Device, Result, Shape, Tensor};
use ternion_nn::checkpoint::{read, write};
use ternion_nn::optim::{AdamW, AdamWConfig, Optimizer};
use ternion_nn::{
    BatchNorm2d, Forward, Init, Linear, Matching, Mlp, Module, StateDict, load, load_with, save,
};

fn device() -> Device {
    ternion_cpu::device()
}

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ternion-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn same(left: &StateDict, right: &StateDict) -> Result<()> {
    assert_eq!(left.keys().collect::<Vec<_>>(), right.keys().collect::<Vec<_>>());
    for (key, tensor) in left {
        assert_eq!((tensor.dims(), tensor.dtype()), (right[key].dims(), right[key].dtype()), "{key}");
        assert_eq!(tensor.to_bytes()?, right[key].to_bytes()?, "{key}");
    }
    Ok(())
}

#[test]
fn a_model_comes_back_bit_for_bit() -> Result<()> {
    let (device, folder) = (device(), Folder::new("round-trip"));
    let file = folder.file("model.safetensors");
    let make = || -> Result<_> { Ok((Mlp::new([3, 4, 2], &device)?, BatchNorm2d::new(2, &device)?)) };
    let (first, second) = (make()?, make()?);
    first.1.forward(&Tensor::rand([2, 2, 3, 3], DType::F32, &device)?)?;
    save(&first, &file)?;
    load(&second, &file)?;
    same(&first.state_dict()?, &second.state_dict()?)?;
    save(&second, &file)?;
    assert_eq!(folder.names(), ["model.safetensors"], "an old file is replaced, nothing is left behind");
    Ok(())
}

#[test]
fn every_dtype_and_odd_shapes_come_back() -> Result<()> {
    let (device, folder) = (device(), Folder::new("dtypes"));
    let mut dict = StateDict::new();
    for dtype in DType::ALL {
        let bytes: Vec<u8> = (0..6 * dtype.size()).map(|byte| (byte * 37 + 1) as u8).collect();
        let bytes = if dtype == DType::Bool { bytes.iter().map(|byte| byte & 1).collect() } else { bytes };
        let buffer = device.backend().alloc(bytes.len())?;
        device.backend().upload(&bytes, &buffer, 0)?;
        let layout = ternion_core::Layout::row_major(Shape::new(&[2, 3])?);
        dict.insert(format!("dense.{dtype}"), Tensor::from_buffer(buffer, layout, dtype, &device)?);
        dict.insert(format!("empty.{dtype}"), Tensor::zeros([0, 4], dtype, &device)?);
        dict.insert(format!("single.{dtype}"), Tensor::ones((), dtype, &device)?);
    }
    dict.insert("transposed".into(), dict["dense.f32"].t()?);
    let file = folder.file("all.safetensors");
    write(&dict, &file)?;
    same(&dict, &read(&file, &device)?)
}

#[test]
fn one_error_lists_every_key_that_does_not_fit() -> Result<()> {
    let (device, folder) = (device(), Folder::new("misfits"));
    let file = folder.file("model.safetensors");
    let model = Mlp::new([3, 4, 2], &device)?;
    let mut dict = model.state_dict()?;
    dict.remove("layers.0.bias");
    dict.insert("layers.2.weight".into(), Tensor::zeros([2, 2], DType::F32, &device)?);
    dict.insert("layers.1.bias".into(), Tensor::zeros([3], DType::F32, &device)?);
    dict.insert("layers.1.weight".into(), Tensor::zeros([2, 4], DType::F16, &device)?);
    write(&dict, &file)?;
    let before = model.state_dict()?;
    let message = load(&model, &file).expect_err("four misfits").to_string();
    assert_eq!(
        message,
        format!(
            "{}: the state does not fit; missing: layers.0.bias; extra: layers.2.weight; \
             wrong shape: layers.1.bias [3], expected [2]; wrong dtype: layers.1.weight f16, expected f32",
            file.display()
        )
    );
    same(&before, &model.state_dict()?)?;

    dict.remove("layers.1.bias");
    dict.remove("layers.1.weight");
    write(&dict, &file)?;
    let unmatched = load_with(&model, &file, Matching::Partial)?;
    assert_eq!(unmatched.missing, ["layers.0.bias", "layers.1.bias", "layers.1.weight"]);
    assert_eq!(unmatched.extra, ["layers.2.weight"]);
    Ok(())
}

#[test]
fn files_that_are_not_there_or_cannot_be_written_are_named() -> Result<()> {
    let (device, folder) = (device(), Folder::new("absent"));
    let model = Linear::new(2, 2, &device)?;
    let absent = folder.file("absent.safetensors");
    let message = load(&model, &absent).expect_err("no such file").to_string();
    assert!(message.starts_with(&format!("{}: cannot be read: ", absent.display())), "{message}");
    let nowhere = folder.file("no-folder").join("model.safetensors");
    let message = save(&model, &nowhere).expect_err("no such folder").to_string();
    assert!(message.starts_with(&format!("{}: cannot be written: ", nowhere.display())), "{message}");
    // A folder in the file's place: the renaming fails, and the temporary file is gone again.
    fs::create_dir(folder.file("occupied")).expect("the folder can be written");
    assert!(save(&model, folder.file("occupied")).is_err());
    assert!(save(&model, Path::new("/")).is_err());
    assert_eq!(folder.names(), ["occupied"]);
    Ok(())
}

/// Cut off anywhere, or with any byte of its header changed: read as it was promised, or an error, never a panic.
#[test]
fn damaged_files_are_errors() -> Result<()> {
    let (device, folder) = (device(), Folder::new("damaged"));
    let file = folder.file("model.safetensors");
    let model = Linear::new(3, 2, &device)?;
    save(&model, &file)?;
    let whole = fs::read(&file).expect("it was just written");
    for length in 0..whole.len() {
        fs::write(&file, &whole[..length]).expect("the folder can be written");
        assert!(load(&model, &file).is_err(), "cut off at {length} bytes");
    }
    let longer: Vec<u8> = whole.iter().copied().chain([0]).collect();
    fs::write(&file, longer).expect("the folder can be written");
    assert!(load(&model, &file).is_err(), "a byte too many");
    let header = whole.len() - model.parameter_count() * 4;
    for position in 0..header {
        for flip in [1, 0x10, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[position] ^= flip;
            fs::write(&file, damaged).expect("the folder can be written");
            // A changed name or an exchanged digit may still make sense; what counts is that it returns.
            let _ = read(&file, &device);
        }
    }
    Ok(())
}

fn with_header(file: &Path, header: &str, data: &[u8]) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    fs::write(file, bytes).expect("the folder can be written");
}

#[test]
fn headers_that_lie_are_errors() {
    let (device, folder) = (device(), Folder::new("lies"));
    let file = folder.file("model.safetensors");
    let check = |header: &str, data: &[u8], expected: &str| {
        with_header(&file, header, data);
        let message = read(&file, &device).expect_err(header).to_string();
        assert!(message.contains(expected), "{header}: {message}");
    };
    check("not json", &[], "damaged safetensors header");
    check("[]", &[], "damaged safetensors header");
    check(
        r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
        &[0; 3],
        "promises 4 bytes of tensors, the file holds 3",
    );
    check(r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, &[0; 4], "damaged");
    check(r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, &[0; 8], "damaged");
    check(r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#, &[0; 4], "damaged");
    check(
        r#"{"w":{"dtype":"U16","shape":[1],"data_offsets":[0,2]}}"#,
        &[0; 2],
        "dtypes that tensors do not have: w U16",
    );
    let shape = "1,".repeat(8) + "1";
    check(
        &format!(r#"{{"w":{{"dtype":"U8","shape":[{shape}],"data_offsets":[0,1]}}}}"#),
        &[0],
        "tensor w: shape:",
    );
    // Sizes whose product, and offsets whose sum with the header's length, exceed what can be counted.
    check(
        r#"{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}"#,
        &[0; 4],
        "damaged",
    );
    let huge = "2305843009213693951";
    let ends: Vec<u64> = (0..=8).map(|count| count * 2_305_843_009_213_693_951).collect();
    let tensors: Vec<String> = (0..8)
        .map(|index| {
            format!(
                r#""{index}":{{"dtype":"U8","shape":[{huge}],"data_offsets":[{},{}]}}"#,
                ends[index],
                ends[index + 1]
            )
        })
        .collect();
    check(&format!("{{{}}}", tensors.join(",")), &[0; 4], "promises");
    fs::write(&file, u64::MAX.to_le_bytes()).expect("the folder can be written");
    let message = read(&file, &device).expect_err("a header longer than the file").to_string();
    assert!(message.contains("no safetensors file"), "{message}");
}

#[test]
fn an_optimiser_goes_on_from_a_file_as_if_it_had_never_stopped() -> Result<()> {
    let (device, folder) = (device(), Folder::new("resume"));
    let file = folder.file("adam.safetensors");
    let train = |model: &Linear, adam: &mut AdamW, steps: usize| -> Result<()> {
        let input =
            Init::Uniform { low: -1.0, high: 1.0 }.tensor([4, 3], DType::F32, &ternion_cpu::device())?;
        for _ in 0..steps {
            let loss = model.forward(&input.to_device(&device)?)?.square()?.mean(..)?;
            adam.step(&loss.backward()?)?;
        }
        Ok(())
    };
    let config = AdamWConfig { lr: 0.05, max_grad_norm: Some(0.5), ..Default::default() };
    let straight = Linear::new(3, 2, &device)?;
    let resumed = Linear::new(3, 2, &device)?;
    resumed.load_state_dict(&straight.state_dict()?)?;
    let mut adam = AdamW::new(straight.parameters(), config)?;
    train(&straight, &mut adam, 5)?;

    let mut before = AdamW::new(resumed.parameters(), config)?;
    train(&resumed, &mut before, 2)?;
    write(&before.state_dict()?, &file)?;
    let mut after = AdamW::new(resumed.parameters(), AdamWConfig::default())?;
    after.load_state_dict(&read(&file, &device)?)?;
    assert_eq!(after.lr(), 0.05);
    let mut after = AdamW::new(resumed.parameters(), AdamWConfig { lr: 9.0, ..config })?;
    after.load_state_dict(&read(&file, &device)?)?;
    train(&resumed, &mut after, 3)?;
    same(&straight.state_dict()?, &resumed.state_dict()?)?;

    let mut dict = after.state_dict()?;
    let names: Vec<&str> = dict.keys().map(String::as_str).collect();
    let expected = [
        "bias.exp_avg",
        "bias.exp_avg_sq",
        "bias.step",
        "lr",
        "weight.exp_avg",
        "weight.exp_avg_sq",
        "weight.step",
    ];
    assert_eq!(names, expected);
    dict.remove("bias.exp_avg");
    dict.insert("other.step".into(), dict["bias.step"].clone());
    dict.insert("weight.exp_avg".into(), Tensor::zeros([1], DType::F32, &device)?);
    dict.insert("weight.exp_avg_sq".into(), Tensor::zeros([2, 3], DType::F64, &device)?);
    let message = after.load_state_dict(&dict).expect_err("four misfits").to_string();
    assert_eq!(
        message,
        "adamw: the state does not fit; wrong shape: weight.exp_avg [1], expected [2, 3]; wrong dtype: weight.exp_avg_sq f64, expected f32; \
         missing: bias.exp_avg; extra: other.step"
    );
    Ok(())
}
