//! Weights on disk: they are restored exactly, files are written atomically, and every invalid file
//! gives an error with a message.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use ternion_core::{DType, Device, Result, Shape, Tensor};
use ternion_nn::checkpoint::{read, write};
use ternion_nn::optim::{AdamW, AdamWConfig, Optimizer};
use ternion_nn::{
    BatchNorm2d, Forward, Init, Linear, Matching, Mlp, Module, Param, ReLU, StateDict, StateTensor, load,
    load_with, save,
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
        let entries = fs::read_dir(&self.0).expect("the folder exists");
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
fn model_round_trips_bit_identically() -> Result<()> {
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
fn every_dtype_and_odd_shapes_round_trip() -> Result<()> {
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
    dict.insert("layers.1.weight".into(), Tensor::zeros([2, 4], DType::I64, &device)?);
    write(&dict, &file)?;
    let before = model.state_dict()?;
    let message = load(&model, &file).expect_err("four misfits").to_string();
    assert_eq!(
        message,
        format!(
            "{}: the state does not fit; missing: layers.0.bias; extra: layers.2.weight; \
             wrong shape: layers.1.bias [3], expected [2]; wrong dtype: layers.1.weight i64, expected f32",
            file.display()
        )
    );
    same(&before, &model.state_dict()?)?;

    dict.remove("layers.1.bias");
    dict.remove("layers.1.weight");
    write(&dict, &file)?;
    let unmatched = load_with(&model, &file, Matching::Partial)?;
    assert_eq!(unmatched.missing, ["layers.0.bias", "layers.1.bias", "layers.1.weight"]);
    assert_eq!(unmatched.unexpected, ["layers.2.weight"]);
    Ok(())
}

#[test]
fn missing_and_unwritable_files_are_reported() -> Result<()> {
    let (device, folder) = (device(), Folder::new("absent"));
    let model = Linear::new(2, 2, &device)?;
    let absent = folder.file("absent.safetensors");
    let message = load(&model, &absent).expect_err("no such file").to_string();
    assert!(message.starts_with(&format!("{}: cannot be read: ", absent.display())), "{message}");
    let nowhere = folder.file("no-folder").join("model.safetensors");
    let message = save(&model, &nowhere).expect_err("no such folder").to_string();
    assert!(message.starts_with(&format!("{}: cannot be written: ", nowhere.display())), "{message}");
    // A folder has the name of the file: renaming fails, and the temporary file is removed.
    fs::create_dir(folder.file("occupied")).expect("the folder can be written");
    assert!(save(&model, folder.file("occupied")).is_err());
    assert!(save(&model, Path::new("/")).is_err());
    assert_eq!(folder.names(), ["occupied"]);
    Ok(())
}

/// Files truncated at any length, or with any byte of the header changed: they are read as the
/// header says, or give an error, but never panic.
#[test]
fn corrupt_files_are_errors() -> Result<()> {
    let (device, folder) = (device(), Folder::new("corrupt"));
    let file = folder.file("model.safetensors");
    let model = Linear::new(3, 2, &device)?;
    save(&model, &file)?;
    let complete = fs::read(&file).expect("it was just written");
    for length in 0..complete.len() {
        fs::write(&file, &complete[..length]).expect("the folder can be written");
        assert!(load(&model, &file).is_err(), "cut off at {length} bytes");
    }
    let longer: Vec<u8> = complete.iter().copied().chain([0]).collect();
    fs::write(&file, longer).expect("the folder can be written");
    assert!(load(&model, &file).is_err(), "a byte too many");
    let header = complete.len() - model.parameter_count() * 4;
    for position in 0..header {
        for flip in [1, 0x10, 0x80, 0xff] {
            let mut corrupt = complete.clone();
            corrupt[position] ^= flip;
            fs::write(&file, corrupt).expect("the folder can be written");
            // A changed name or digit may still be valid. The test only requires that the call
            // returns.
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
fn inconsistent_headers_are_errors() {
    let (device, folder) = (device(), Folder::new("header"));
    let file = folder.file("model.safetensors");
    let check = |header: &str, data: &[u8], expected: &str| {
        with_header(&file, header, data);
        let message = read(&file, &device).expect_err(header).to_string();
        assert!(message.contains(expected), "{header}: {message}");
    };
    check("not json", &[], "corrupt safetensors header");
    check("[]", &[], "corrupt safetensors header");
    check(
        r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
        &[0; 3],
        "promises 4 bytes of tensors, the file holds 3",
    );
    check(r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, &[0; 4], "corrupt");
    check(r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, &[0; 8], "corrupt");
    check(r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#, &[0; 4], "corrupt");
    check(
        r#"{"w":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}"#,
        &[0; 2],
        "dtypes that tensors do not have: w F8_E4M3",
    );
    let shape = "1,".repeat(8) + "1";
    check(
        &format!(r#"{{"w":{{"dtype":"U8","shape":[{shape}],"data_offsets":[0,1]}}}}"#),
        &[0],
        "tensor w: shape:",
    );
    // Sizes whose product, and offsets whose sum with the header's length, overflow.
    check(
        r#"{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}"#,
        &[0; 4],
        "corrupt",
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
    check(
        r#"{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
        &[0],
        "corrupt safetensors header: the key w occurs twice",
    );
    fs::write(&file, u64::MAX.to_le_bytes()).expect("the folder can be written");
    let message = read(&file, &device).expect_err("a header longer than the file").to_string();
    assert!(message.contains("no safetensors file"), "{message}");
}

#[test]
fn optimizer_after_a_step_uses_the_loaded_state() -> Result<()> {
    let device = device();
    let model = Linear::new(3, 2, &device)?;
    let input = Init::Uniform { low: -1.0, high: 1.0 }.tensor([4, 3], DType::F32, &device)?;
    let mut adam = AdamW::new(model.parameters(), AdamWConfig { lr: 0.05, ..Default::default() })?;
    let train = |adam: &mut AdamW, steps: usize| -> Result<StateDict> {
        for _ in 0..steps {
            adam.step(&model.forward(&input)?.square()?.mean(..)?.backward()?)?;
        }
        model.state_dict()
    };
    let (start, unused) = (model.state_dict()?, adam.state_dict()?);
    let (once, state) = (train(&mut adam, 1)?, adam.state_dict()?);
    let thrice = train(&mut adam, 2)?;
    // Resume from the state after the first step, then from the one before it: moments and step
    // counts are those that were loaded.
    model.load_state_dict(&once)?;
    adam.load_state_dict(&state)?;
    same(&train(&mut adam, 2)?, &thrice)?;
    model.load_state_dict(&start)?;
    adam.load_state_dict(&unused)?;
    same(&train(&mut adam, 3)?, &thrice)
}

#[test]
fn optimizer_resumes_from_a_file_bit_identically() -> Result<()> {
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

/// A module with a parameter and a buffer.
#[derive(Module)]
struct Scaled {
    weight: Param,
    mean: StateTensor,
}

fn scaled(values: [f64; 2], dtype: DType, buffer: DType) -> Result<Scaled> {
    let tensor = Tensor::new(values, &device())?;
    Ok(Scaled {
        weight: Param::new(&tensor.to_dtype(dtype)?)?,
        mean: StateTensor::new(&tensor.to_dtype(buffer)?),
    })
}

#[test]
fn floating_dtypes_are_cast_to_those_of_the_model_in_both_directions() -> Result<()> {
    let (device, folder) = (device(), Folder::new("cast"));
    let file = folder.file("model.safetensors");
    let floats = [DType::F64, DType::F32, DType::F16, DType::BF16];
    for (from, to) in floats.into_iter().flat_map(|from| floats.map(|to| (from, to))) {
        save(&scaled([1.5, -0.25], from, from)?, &file)?;
        let model = scaled([0.0, 0.0], to, to)?;
        load(&model, &file)?;
        for tensor in [model.weight.tensor().detach(), model.mean.tensor()] {
            assert_eq!(tensor.dtype(), to, "a model keeps its dtype");
            assert_eq!(tensor.to_dtype(DType::F64)?.to_vec::<f64>()?, [1.5, -0.25], "{from} to {to}");
        }
        model.load_state_dict(&read(&file, &device)?)?;
    }
    // Rounded to nearest, ties to even, as in any other cast: 1 + 2^-11 is halfway between two f16
    // numbers.
    let model = scaled([0.0, 0.0], DType::F16, DType::F16)?;
    save(&scaled([1.0 + 2f64.powi(-11), 3.0], DType::F64, DType::F64)?, &file)?;
    load(&model, &file)?;
    assert_eq!(model.mean.tensor().to_dtype(DType::F64)?.to_vec::<f64>()?, [1.0, 3.0]);
    Ok(())
}

#[test]
fn integers_and_bools_are_not_cast_to_floats_or_back() -> Result<()> {
    let folder = Folder::new("no-cast");
    let file = folder.file("model.safetensors");
    for (from, to) in [
        (DType::I64, DType::F32),
        (DType::Bool, DType::F32),
        (DType::F32, DType::I64),
        (DType::I64, DType::I32),
    ] {
        save(&scaled([1.0, 0.0], DType::F32, from)?, &file)?;
        let model = scaled([0.0, 1.0], DType::F32, to)?;
        let message = load(&model, &file).expect_err("no cast").to_string();
        assert!(message.ends_with(&format!("wrong dtype: mean {from}, expected {to}")), "{message}");
        let weight = model.weight.tensor().detach().to_vec::<f32>()?;
        assert_eq!(weight, [0.0, 1.0], "nothing is changed unless all fit");
    }
    Ok(())
}

#[derive(Module)]
struct Flat {
    #[module(flatten)]
    first: Linear,
    #[module(flatten)]
    second: Linear,
}

#[test]
fn duplicate_key_is_an_error_that_names_it() -> Result<()> {
    let (device, folder) = (device(), Folder::new("same-key"));
    let file = folder.file("model.safetensors");
    let model = Flat { first: Linear::new(2, 2, &device)?, second: Linear::new(2, 2, &device)? };
    let dict = model.first.state_dict()?;
    write(&dict, &file)?;
    let outcomes = [
        ("state_dict", model.state_dict().map(drop)),
        ("load_state_dict", model.load_state_dict(&dict)),
        ("save", save(&model, folder.file("other.safetensors"))),
        ("load", load(&model, &file)),
    ];
    for (op, outcome) in outcomes {
        let message = outcome.expect_err(op).to_string();
        assert!(
            message.starts_with(&format!("{op}: two tensors of the module have the key weight: ")),
            "{message}"
        );
    }
    assert_eq!(folder.names(), ["model.safetensors"]);

    // A tensor that occurs twice under the same key is stored once, without loss.
    let shared = Flat {
        first: Linear { weight: model.first.weight.clone(), bias: None },
        second: Linear { weight: model.first.weight.clone(), bias: None },
    };
    assert_eq!(shared.state_dict()?.len(), 1);

    // An optimizer knows parameters, not modules. It distinguishes parameters of the same name,
    // whatever names they have.
    let mut params = model.parameters();
    params.push(params[0].clone().named("weight#2"));
    params.swap_remove(0);
    let input = Tensor::ones([1, 2], DType::F32, &device)?;
    let other_layer = Linear::new(2, 2, &device)?;
    params.push(other_layer.weight.named("weight"));
    let sum = |layer: &Linear| layer.forward(&input)?.sum(..);
    let loss = sum(&model.first)?.add(&sum(&model.second)?)?.add(&sum(&other_layer)?)?;
    let mut adam = AdamW::new(params, AdamWConfig::default())?;
    adam.step(&loss.backward()?)?;
    let steps = adam.state_dict()?.into_keys().filter(|key| key.ends_with(".step")).count();
    assert_eq!(steps, 5, "a parameter's state is missing");
    Ok(())
}

#[test]
fn a_key_with_an_empty_part_is_an_error() -> Result<()> {
    #[derive(Module)]
    struct Named {
        children: BTreeMap<String, Linear>,
    }
    let model = Named { children: BTreeMap::from([(String::new(), Linear::new(1, 1, &device())?)]) };
    let message = model.state_dict().expect_err("no name").to_string();
    assert!(message.starts_with("state_dict: the key children..weight has an empty part"), "{message}");
    Ok(())
}

#[test]
fn model_without_tensors_round_trips_and_rejects_other_tensors() -> Result<()> {
    let folder = Folder::new("empty");
    let file = folder.file("model.safetensors");
    save(&ReLU, &file)?;
    load(&ReLU, &file)?;
    save(&Linear::new(1, 1, &device())?, &file)?;
    let message = load(&ReLU, &file).expect_err("two tensors too many").to_string();
    assert!(message.ends_with("the state does not fit; extra: bias, weight"), "{message}");
    assert_eq!(load_with(&ReLU, &file, Matching::Partial)?.unexpected, ["bias", "weight"]);
    fs::write(&file, "no header").expect("the folder can be written");
    assert!(load(&ReLU, &file).is_err());
    Ok(())
}

#[test]
fn empty_file_name_is_quoted_in_the_error() -> Result<()> {
    let model = Linear::new(1, 1, &device())?;
    let message = save(&model, "").expect_err("no name").to_string();
    assert_eq!(message, "\"\": cannot be written: this is not a file name");
    let message = load(&model, "").expect_err("no name").to_string();
    assert!(message.starts_with("\"\": cannot be read: "), "{message}");
    Ok(())
}

/// If a file replaced a pipe, the pipe would be lost and its reader would wait forever.
#[test]
#[cfg(unix)]
fn pipe_is_not_replaced_and_its_reader_receives_everything() -> Result<()> {
    let folder = Folder::new("pipe");
    let model = Linear::new(2, 2, &device())?;
    save(&model, folder.file("file"))?;
    let status = std::process::Command::new("mkfifo").arg(folder.file("pipe")).status();
    assert!(status.expect("mkfifo is a program").success());
    let pipe = folder.file("pipe");
    let reader = std::thread::spawn(move || fs::read(pipe));
    save(&model, folder.file("pipe"))?;
    let read = reader.join().expect("it ends").expect("a pipe can be read");
    assert_eq!(read, fs::read(folder.file("file")).expect("it was written"));
    assert_eq!(folder.names(), ["file", "pipe"]);
    assert!(!folder.file("pipe").is_file());
    Ok(())
}

#[test]
#[cfg(unix)]
fn symbolic_link_is_kept_and_its_target_is_replaced() -> Result<()> {
    use std::os::unix::fs::symlink;
    let folder = Folder::new("links");
    let model = Linear::new(2, 2, &device())?;
    fs::create_dir(folder.file("versions")).expect("the folder can be written");
    symlink("versions/one", folder.file("latest")).expect("a link");
    symlink("latest", folder.file("link to link")).expect("a link");
    // First the target does not exist, then it does.
    for _ in 0..2 {
        save(&model, folder.file("link to link"))?;
        load(&model, folder.file("versions").join("one"))?;
        assert_eq!(folder.names(), ["latest", "link to link", "versions"]);
        for link in ["latest", "link to link"] {
            assert!(folder.file(link).is_symlink(), "{link} was replaced");
        }
    }
    symlink("circle", folder.file("circle")).expect("a link");
    let message = save(&model, folder.file("circle")).expect_err("no end").to_string();
    assert!(message.ends_with("more than 40 symbolic links"), "{message}");
    Ok(())
}

#[test]
fn invalid_step_counts_are_errors_with_key_and_value() -> Result<()> {
    let device = device();
    let model = Linear::new(2, 1, &device)?;
    let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
    let loss = model.forward(&Tensor::ones([1, 2], DType::F32, &device)?)?.sum(..)?;
    adam.step(&loss.backward()?)?;
    let before = adam.state_dict()?;
    for steps in [-5i64, 0] {
        let mut dict = adam.state_dict()?;
        dict.insert("weight.step".into(), Tensor::new(steps, &device)?);
        let message = adam.load_state_dict(&dict).expect_err("no step count").to_string();
        assert_eq!(
            message,
            format!(
                "adamw: the state does not fit; weight.step: {steps}, expected a step count of at least 1"
            )
        );
        same(&before, &adam.state_dict()?)?;
    }
    Ok(())
}

#[test]
fn batch_norm_loads_without_num_batches_tracked() -> Result<()> {
    let device = device();
    let model = BatchNorm2d::new(2, &device)?;
    let mut state = StateDict::new();
    for key in ["weight", "bias", "running_mean", "running_var"] {
        state.insert(key.into(), Tensor::full([2], 3.0, DType::F32, &device)?);
    }
    model.load_state_dict(&state)?;
    let loaded = model.state_dict()?;
    assert_eq!(loaded["running_mean"].to_vec::<f32>()?, [3.0, 3.0]);
    assert_eq!(loaded["num_batches_tracked"].to_vec::<i64>()?, [0]);
    state.remove("running_var");
    let error = model.load_state_dict(&state).expect_err("running_var is not a count").to_string();
    assert!(error.contains("missing: running_var"), "{error}");
    Ok(())
}
