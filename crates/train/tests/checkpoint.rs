//! A training run resumes as if it had never stopped, and a file from which it cannot resume is
//! rejected with a message.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use support::{Folder, Run};
use ternion_core::{DType, Device, Result, Tensor};
use ternion_nn::checkpoint::{read_host, write_host};
use ternion_nn::optim::{AdamW, AdamWConfig, Optimizer};
use ternion_nn::{Linear, Module};
use ternion_train::{Checkpoint, Stateful, TrainingState};

const ENTRY: &str = "ternion.checkpoint";

fn device() -> Device {
    ternion_cpu::device()
}

fn message<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error.to_string(),
    }
}

fn same_bytes(left: &Path, right: &Path) {
    let read = |path: &Path| fs::read(path).expect("it was written");
    assert!(read(left) == read(right), "{} and {} differ", left.display(), right.display());
}

#[test]
fn resumed_training_run_is_bit_identical_to_an_uninterrupted_one() -> Result<()> {
    let folder = Folder::new("through");
    let (half, through, resumed) = (folder.file("half"), folder.file("through"), folder.file("resumed"));
    let mut run = Run::new(&device())?;
    run.until(9)?;
    run.save(&half)?;
    run.until(20)?;
    run.save(&through)?;
    // A separate device, as in another process.
    let mut other = Run::new(&device())?;
    other.until(2)?;
    other.resume(&half)?;
    assert_eq!((other.step, other.losses.len()), (9, 9));
    other.until(20)?;
    other.save(&resumed)?;
    // The file contains weights, running statistics, moments, averages, losses and random states.
    same_bytes(&through, &resumed);
    same_bytes(&folder.file("through.json"), &folder.file("resumed.json"));
    let bits = |run: &Run| run.losses.iter().map(|loss| loss.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&run), bits(&other));
    // Shows that the result depends on the saved state, so that the test can fail.
    let mut without = Run::new(&device())?;
    without.step = 9;
    without.until(20)?;
    assert_ne!(without.losses.last(), run.losses.last());
    Ok(())
}

#[test]
fn the_json_file_describes_the_checkpoint_and_belongs_to_it() -> Result<()> {
    let folder = Folder::new("json");
    let file = folder.file("run");
    let mut run = Run::new(&device())?;
    run.until(3)?;
    run.save(&file)?;
    assert_eq!(folder.names(), ["run", "run.json"]);
    let text = fs::read_to_string(folder.file("run.json")).expect("it was written");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["step"], 3);
    assert_eq!(json["parts"]["adam"], "optimizer");
    assert_eq!(json["settings"]["batch"], 6);
    assert_eq!(json["values"]["best"].as_f64(), run.best);
    let (_, metadata) = read_host(&file)?;
    let (sum, _) = metadata[ENTRY].split_once(' ').expect("a checksum");
    assert_eq!(json["checksum"], sum);
    // A crash before the second file: the old one remains, and its checksum shows that it belongs
    // to another step.
    run.until(4)?;
    fs::write(folder.file("kept"), &text).expect("the folder can be written");
    run.save(&file)?;
    fs::rename(folder.file("kept"), folder.file("run.json")).expect("the folder can be written");
    let (_, metadata) = read_host(&file)?;
    assert!(!metadata[ENTRY].starts_with(sum));
    assert_eq!(Checkpoint::read(&file)?.step(), 4);
    Ok(())
}

#[test]
fn every_number_round_trips() -> Result<()> {
    let folder = Folder::new("numbers");
    let (device, file) = (device(), folder.file("run"));
    let special_values = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 5e-324, 0.1 + 0.2, f64::MAX];
    let mut losses = special_values.clone();
    let mut value =
        (u64::MAX, 0.1_f64 + 0.2, 1.0 / 3.0, String::from("é\n\"x\" \u{1F600}"), [-1_i64, i64::MIN]);
    let expected = value.clone();
    device.set_random_position((u64::MAX, u64::MAX - 1));
    TrainingState::new(&device).part("kept", &mut losses).value("value", &mut value).save(u64::MAX, &file)?;
    losses.clear();
    value = Default::default();
    device.seed(0);
    let step =
        TrainingState::new(&device).part("kept", &mut losses).value("value", &mut value).resume(&file)?;
    assert_eq!(step, u64::MAX);
    assert_eq!(device.random_position(), (u64::MAX, u64::MAX - 1));
    assert_eq!(value, expected);
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&losses), bits(&special_values));
    let mut empty: Vec<f64> = Vec::new();
    empty.restore(&Vec::new().state(&device)?)?;
    assert!(empty.is_empty());
    Ok(())
}

#[test]
fn every_changed_byte_and_truncation_is_detected() -> Result<()> {
    let folder = Folder::new("damage");
    let (device, file) = (device(), folder.file("run"));
    let model = Linear::new(2, 1, &device)?;
    let mut step = 1_u64;
    TrainingState::new(&device).model("model", &model).value("at", &mut step).save(1, &file)?;
    let whole = fs::read(&file).expect("it was written");
    for at in 0..whole.len() {
        let mut corrupt = whole.clone();
        corrupt[at] ^= if at % 2 == 0 { 1 } else { 0x80 };
        fs::write(&file, &corrupt).expect("the folder can be written");
        let text = message(Checkpoint::read(&file));
        assert!(text.starts_with(&file.display().to_string()), "{text}");
        fs::write(&file, &whole[..at]).expect("the folder can be written");
        message(Checkpoint::read(&file));
    }
    let mut corrupt = whole.clone();
    *corrupt.last_mut().expect("it is not empty") ^= 1;
    fs::write(&file, &corrupt).expect("the folder can be written");
    let text = message(Checkpoint::read(&file));
    assert!(text.contains("corrupt: tensor model.") && text.ends_with("is not as it was written"), "{text}");
    fs::write(&file, &whole).expect("the folder can be written");
    assert_eq!(Checkpoint::read(&file)?.step(), 1);
    Ok(())
}

/// Writes the same file with another document and a valid checksum.
fn with_document(file: &Path, change: impl Fn(&mut serde_json::Value)) -> Result<()> {
    let (tensors, mut metadata) = read_host(file)?;
    let mut json =
        serde_json::from_str(metadata[ENTRY].split_once(' ').expect("a checksum").1).expect("JSON");
    change(&mut json);
    let text = json.to_string();
    metadata.insert(ENTRY.into(), format!("{:08x} {text}", crc32c::crc32c(text.as_bytes())));
    write_host(&tensors, &metadata, file)
}

#[test]
fn files_of_other_kinds_and_versions_are_errors() -> Result<()> {
    let folder = Folder::new("foreign");
    let (device, file) = (device(), folder.file("run"));
    let model = Linear::new(2, 1, &device)?;
    assert!(message(Checkpoint::read(folder.file("absent"))).contains("absent: cannot be read: "));
    fs::write(&file, "").expect("the folder can be written");
    assert!(message(Checkpoint::read(&file)).contains("no safetensors file: only 0 bytes long"));
    fs::write(&file, "PK\u{3}\u{4} some archive of another program").expect("the folder can be written");
    assert!(message(Checkpoint::read(&file)).contains("no safetensors file"));
    ternion_nn::save(&model, &file)?;
    assert!(!Checkpoint::is_at(&file)?);
    let text = message(Checkpoint::read(&file));
    assert!(
        text.contains("not a checkpoint but only 2 tensors, such as weights that nn::save wrote"),
        "{text}"
    );
    write_host(&BTreeMap::new(), &BTreeMap::from([("format".into(), "pt".into())]), &file)?;
    assert!(message(Checkpoint::read(&file)).contains("not a checkpoint but only 0 tensors"));

    let save = || TrainingState::new(&device).model("model", &model).save(7, &file);
    for (version, advice) in [(0, "an older version of Ternion"), (2, "a newer version of Ternion")] {
        save()?;
        with_document(&file, |json| json["version"] = version.into())?;
        let text = message(Checkpoint::read(&file));
        assert!(text.contains(&format!("format version {version}, expected 1: {advice}")), "{text}");
    }
    save()?;
    with_document(&file, |json| json["step"] = "seven".into())?;
    assert!(message(Checkpoint::read(&file)).contains("seven"));
    save()?;
    with_document(&file, |json| json["tensors"].as_object_mut().expect("an object").clear())?;
    assert!(message(Checkpoint::read(&file)).contains("tensor model."));
    save()?;
    with_document(&file, |json| json["tensors"]["model.extra"] = "00000000".into())?;
    assert!(message(Checkpoint::read(&file)).contains("corrupt: tensor model.extra is missing"));
    Ok(())
}

#[test]
fn mismatched_training_run_is_an_error_and_left_unchanged() -> Result<()> {
    let folder = Folder::new("misfit");
    let (file, before, after) = (folder.file("run"), folder.file("before"), folder.file("after"));
    let mut run = Run::new(&device())?;
    run.until(5)?;
    run.save(&file)?;

    // A wider model.
    let mut wide = Run::wide(&device(), 9)?;
    wide.until(3)?;
    wide.save(&before)?;
    let text = message(wide.resume(&file));
    assert!(
        text.contains(
            "run: model: load_state_dict: the state does not fit; wrong shape: 0.bias [8], expected [9]"
        ),
        "{text}"
    );
    wide.save(&after)?;
    same_bytes(&before, &after);

    // The model matches, a later part does not: the model's own weights are restored.
    let mut other = Run::new(&device())?;
    other.until(3)?;
    other.save(&before)?;
    let mut part = vec![0.5];
    let saved = Checkpoint::of(
        5,
        &TrainingState::new(&other.device).model("model", &run.model).part("ema", &mut part),
    )?;
    let mut state =
        TrainingState::new(&other.device).model("model", &other.model).part("ema", &mut other.ema);
    let text = message(saved.resume(&mut state));
    assert!(text.contains("checkpoint: ema: ema: the state does not fit; missing: n_averaged"), "{text}");
    other.save(&after)?;
    same_bytes(&before, &after);

    // Parts that only one of the two has, or that have another kind.
    let mut epoch = 3_u64;
    let mut state =
        TrainingState::new(&other.device).model("model", &other.model).value("losses", &mut epoch);
    let text = message(state.resume(&file));
    assert!(text.contains("it is of a training run with other parts; not in the checkpoint: losses (value); only in the checkpoint: adam (optimizer), "), "{text}");
    other.save(&after)?;
    same_bytes(&before, &after);
    Ok(())
}

#[test]
fn mismatched_settings_and_values_are_reported() -> Result<()> {
    let folder = Folder::new("settings");
    let (device, file) = (device(), folder.file("run"));
    let mut text_value = String::from("some text");
    TrainingState::new(&device)
        .setting("batch", 6)
        .setting("lr", 1e-3)
        .value("note", &mut text_value)
        .save(1, &file)?;
    let mut same = String::new();
    let resumed = TrainingState::new(&device)
        .setting("batch", 6)
        .setting("lr", 1e-3)
        .value("note", &mut same)
        .resume(&file)?;
    assert_eq!((resumed, same.as_str()), (1, "some text"));
    let text = message(
        TrainingState::new(&device)
            .setting("batch", 8)
            .setting("lr", 2e-3)
            .value("note", &mut same)
            .resume(&file),
    );
    assert!(text.ends_with("run: other settings: batch was 6, is 8; lr was 0.001, is 0.002"), "{text}");
    let mut number = 4_u64;
    let text = message(
        TrainingState::new(&device)
            .setting("batch", 6)
            .setting("lr", 1e-3)
            .value("note", &mut number)
            .resume(&file),
    );
    assert!(
        text.contains("run: value note: invalid type: string \"some text\", expected u64") && number == 4,
        "{text}"
    );

    let checkpoint = Checkpoint::read(&file)?;
    assert_eq!(checkpoint.value::<u64>("batch")?, 6);
    assert_eq!(checkpoint.value::<String>("note")?, "some text");
    assert!(
        message(checkpoint.value::<u64>("epoch"))
            .ends_with("no value \"epoch\", expected one of note, batch, lr")
    );
    assert!(
        message(checkpoint.value::<u64>("lr"))
            .contains("value lr: invalid type: floating point `0.001`, expected u64")
    );

    let mut nan = f64::NAN;
    let text = message(Checkpoint::of(1, &TrainingState::new(&device).value("loss", &mut nan)));
    assert!(text.contains("checkpoint: loss: ") && text.contains("JSON has no NaN"), "{text}");
    let (mut first, mut second) = (1, 2);
    let twice = TrainingState::new(&device).value("a", &mut first).value("a", &mut second);
    assert!(message(Checkpoint::of(1, &twice)).contains("two parts have the name \"a\""));
    for name in ["", "a.b"] {
        let text = message(Checkpoint::of(1, &TrainingState::new(&device).setting(name, 1)));
        assert!(
            text.contains(&format!("the name {name:?}, expected one that is not empty and has no dot")),
            "{text}"
        );
    }
    Ok(())
}

#[test]
fn other_dtypes_are_cast_or_errors() -> Result<()> {
    let folder = Folder::new("dtypes");
    let (device, file) = (device(), folder.file("run"));
    let make = |dtype: DType| -> Result<(Linear, AdamW)> {
        let model = Linear::new(2, 1, &device)?;
        model.to_dtype(dtype)?;
        let adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
        Ok((model, adam))
    };
    let step = |model: &Linear, adam: &mut AdamW, dtype: DType| -> Result<()> {
        let loss =
            ternion_nn::Forward::forward(model, &Tensor::ones([3, 2], dtype, &device)?)?.square()?.sum(..)?;
        adam.step(&loss.backward()?)
    };
    let (model, mut adam) = make(DType::F32)?;
    step(&model, &mut adam, DType::F32)?;
    TrainingState::new(&device).model("model", &model).optimizer("adam", &mut adam).save(1, &file)?;
    // Moments of half-precision parameters are f32 too: only the weights are cast.
    let (half, mut half_adam) = make(DType::BF16)?;
    TrainingState::new(&device).model("model", &half).optimizer("adam", &mut half_adam).resume(&file)?;
    let weight = |model: &Linear| model.weight.tensor().to_dtype(DType::F32)?.to_vec::<f32>();
    assert_eq!(half.weight.dtype(), DType::BF16);
    assert_eq!(
        weight(&half)?,
        model.weight.tensor().to_dtype(DType::BF16)?.to_dtype(DType::F32)?.to_vec::<f32>()?
    );
    step(&half, &mut half_adam, DType::BF16)?;
    // Moments of f64 parameters are f64.
    let (double, mut double_adam) = make(DType::F64)?;
    let before = double.weight.tensor().to_vec::<f64>()?;
    let resumed =
        TrainingState::new(&device).model("model", &double).optimizer("adam", &mut double_adam).resume(&file);
    let text = message(resumed);
    assert!(
        text.contains("run: adam: adamw: the state does not fit; wrong dtype: ")
            && text.contains("f32, expected f64"),
        "{text}"
    );
    assert_eq!(double.weight.tensor().to_vec::<f64>()?, before);
    Ok(())
}

#[test]
fn weights_can_be_loaded_separately_from_a_checkpoint() -> Result<()> {
    let folder = Folder::new("weights");
    let (device, file) = (device(), folder.file("run"));
    let mut run = Run::new(&device)?;
    run.until(2)?;
    run.save(&file)?;
    let other = Run::new(&device)?;
    assert!(Checkpoint::is_at(&file)? && Checkpoint::is_at(folder.file("none")).is_err());
    let checkpoint = Checkpoint::read(&file)?;
    other.model.load_state_dict(&checkpoint.state_dict("model", &device)?)?;
    for (key, tensor) in run.model.state_dict()? {
        assert_eq!(tensor.to_bytes()?, other.model.state_dict()?[&key].to_bytes()?, "{key}");
    }
    let text = message(checkpoint.state_dict("modle", &device));
    assert!(text.ends_with("no part \"modle\", expected one of adam, ema, losses, model, plateau"), "{text}");
    Ok(())
}

#[test]
fn random_state_of_further_devices_is_restored() -> Result<()> {
    let folder = Folder::new("devices");
    let (first, second, file) = (device(), device(), folder.file("run"));
    first.seed(1);
    second.seed(2);
    let draw = |device: &Device| Tensor::rand([5], DType::F32, device)?.to_vec::<f32>();
    draw(&first)?;
    draw(&second)?;
    TrainingState::new(&first).random("second", &second).save(1, &file)?;
    let expected = (draw(&first)?, draw(&second)?);
    first.seed(3);
    second.seed(4);
    TrainingState::new(&first).random("second", &second).resume(&file)?;
    assert_eq!((draw(&first)?, draw(&second)?), expected);
    Ok(())
}
