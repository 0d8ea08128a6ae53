//! GPT-2 under Hugging Face's names: a model of `transformers` computes here what it computes there (tests/reference/gpt2, made by tests/reference/gpt2.py), and comes back
//! with the same names and bytes. Then what a step of generation costs.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use ternion_core::decorators::{Counting, OpCounts};
use ternion_core::{DType, Device, Result, Tensor, no_grad};
use ternion_nn::checkpoint;
use ternion_nn::huggingface::{Gpt2Config, Gpt2Options, gpt2_from, gpt2_tensors, load_gpt2, save_gpt2};
use ternion_nn::position::RotaryConfig;
use ternion_nn::{FeedForwardForm, GPT, GPTConfig, GPTPositions, Module, NormForm, Sampling, StateDict};

fn device() -> Device {
    ternion_cpu::device()
}

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference/gpt2")
}

fn case() -> Value {
    let text = fs::read_to_string(reference().join("case.json")).expect("case.json is there");
    serde_json::from_str(&text).expect("case.json is JSON")
}

fn tokens(value: &Value) -> Vec<i64> {
    value.as_array().expect("tokens").iter().map(|token| token.as_i64().expect("a token")).collect()
}

fn stored(device: &Device) -> Result<GPT> {
    let model = load_gpt2(reference(), Gpt2Options::default(), device)?;
    model.eval();
    Ok(model)
}

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ternion-huggingface-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn assert_same(left: &StateDict, right: &StateDict) -> Result<()> {
    assert_eq!(left.keys().collect::<Vec<_>>(), right.keys().collect::<Vec<_>>());
    for (name, tensor) in left {
        assert_eq!((tensor.dims(), tensor.dtype()), (right[name].dims(), right[name].dtype()), "{name}");
        assert_eq!(tensor.to_bytes()?, right[name].to_bytes()?, "{name}");
    }
    Ok(())
}

#[test]
fn logits_equal_those_of_transformers() -> Result<()> {
    let (device, case) = (device(), case());
    let model = stored(&device)?;
    let rows = case["tokens"].as_array().expect("rows");
    let all: Vec<i64> = rows.iter().flat_map(tokens).collect();
    let logits = model.logits(&Tensor::from_vec(all, [rows.len(), 12], &device)?)?.to_vec_f64()?;
    let wanted = case["logits"].as_array().expect("logits");
    assert_eq!((logits.len(), wanted.len()), (2 * 12 * 96, 2 * 12 * 96));
    let far = logits.iter().zip(wanted).map(|(got, want)| (got - want.as_f64().expect("a number")).abs());
    let farthest = far.fold(0.0, f64::max);
    assert!(farthest <= 1e-4, "{farthest}");
    let largest = wanted.iter().filter_map(Value::as_f64).fold(0.0, f64::max);
    assert!(largest > 1.0, "logits that are all alike compare nothing: {largest}");
    Ok(())
}

#[test]
fn the_likeliest_tokens_equal_those_of_transformers_with_kept_keys_and_without() -> Result<()> {
    let (device, case) = (device(), case());
    let model = stored(&device)?;
    let (prompt, wanted) = (tokens(&case["prompt"]), tokens(&case["generated"]));
    let likeliest = Sampling { temperature: 0.0, ..Default::default() };
    assert_eq!(model.generate(&prompt, wanted.len(), likeliest, |_| Ok(()))?, wanted);
    let mut all = prompt.clone();
    for _ in &wanted {
        let logits = no_grad(|| model.logits(&Tensor::from_slice(&all, [1, all.len()], &device)?))?;
        let last = logits.narrow(1, all.len() - 1, 1)?.reshape([96])?.to_vec::<f32>()?;
        all.push(likeliest.choose(&last, 0.0)? as i64);
    }
    assert_eq!(all[prompt.len()..], wanted);
    Ok(())
}

#[test]
fn the_loss_of_a_text_in_windows_equals_that_by_pytorch() -> Result<()> {
    let (device, case) = (device(), case());
    let (model, text) = (stored(&device)?, tokens(&case["text"]));
    let mut losses = Vec::new();
    for stride in [32, 7] {
        let mut told = Vec::new();
        let found = model.text_loss(&text, stride, |predicted| {
            told.push(predicted);
            Ok(())
        })?;
        let wanted = case["text_loss"][stride.to_string()].as_f64().expect("a loss");
        assert!((found.loss - wanted).abs() <= 1e-5 * wanted, "{stride}: {} and {wanted}", found.loss);
        assert_eq!((found.tokens, told[0], *told.last().expect("windows")), (79, 32, 79));
        assert!((found.perplexity().ln() - found.loss).abs() < 1e-12);
        losses.push(found.loss);
    }
    assert_ne!(losses[0], losses[1]);
    let message = |tokens: &[i64], stride| {
        let result = model.text_loss(tokens, stride, |_| Ok(()));
        result.expect_err("nothing to compute").to_string()
    };
    assert_eq!(message(&text, 0), "text_loss: stride 0, expected 1 to the context, 32");
    assert_eq!(message(&text, 33), "text_loss: stride 33, expected 1 to the context, 32");
    assert_eq!(message(&text[..1], 8), "text_loss: 1 tokens, expected at least 2");
    Ok(())
}

#[test]
fn what_is_written_has_the_names_and_values_that_were_read() -> Result<()> {
    let (device, folder) = (device(), Folder::new("round-trip"));
    let model = load_gpt2(reference(), Gpt2Options { dtype: DType::F16, ..Default::default() }, &device)?;
    let out = folder.0.join("new").join("folder");
    save_gpt2(&model, &out)?;
    let read = |folder: &Path| checkpoint::read(folder.join("model.safetensors"), &device);
    assert_same(&read(&out)?, &read(&reference())?)?;
    let config = |folder: &Path| {
        Gpt2Config::parse(&fs::read_to_string(folder.join("config.json")).expect("config.json"))
    };
    assert_eq!(config(&out)?, Gpt2Config { dtype: None, ..Gpt2Config::of(&model)? });
    let again = load_gpt2(&out, Gpt2Options { dtype: DType::F16, ..Default::default() }, &device)?;
    assert_eq!(again.config(), model.config());
    assert_same(&again.state_dict()?, &model.state_dict()?)?;
    // A file alone, beside which the configuration stands.
    load_gpt2(out.join("model.safetensors"), Gpt2Options::default(), &device).map(drop)
}

/// Reads with `transformers` what was written here, where `TERNION_PYTHON` names a Python that has it.
#[test]
fn transformers_reads_what_is_written() -> Result<()> {
    let Some(python) = std::env::var_os("TERNION_PYTHON") else { return Ok(()) };
    let (device, folder) = (device(), Folder::new("transformers"));
    let model = stored(&device)?;
    // Other values than those of the stored file.
    for param in model.parameters() {
        param.set(&param.tensor().detach().mul_scalar(0.75)?)?;
    }
    save_gpt2(&model, &folder.0)?;
    let prompt = tokens(&case()["prompt"]);
    let program = "import json, sys, torch, transformers\n\
        model, told = transformers.GPT2LMHeadModel.from_pretrained(sys.argv[1], output_loading_info=True)\n\
        assert not any(told.values()), told\n\
        print(json.dumps(model.eval()(torch.tensor([json.loads(sys.argv[2])])).logits.flatten().tolist()))";
    let output = Command::new(python)
        .args(["-c", program])
        .arg(&folder.0)
        .arg(format!("{prompt:?}"))
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let wanted: Vec<f64> = serde_json::from_slice(&output.stdout).expect("JSON");
    let logits = model.logits(&Tensor::from_slice(&prompt, [1, prompt.len()], &device)?)?.to_vec_f64()?;
    assert_eq!(logits.len(), wanted.len());
    let far = logits.iter().zip(&wanted).map(|(got, want)| (got - want).abs()).fold(0.0, f64::max);
    assert!(far <= 1e-4, "{far}");
    Ok(())
}

/// A model of two blocks, its tensors and its configuration.
fn small(tied: bool) -> Result<(GPT, StateDict, Gpt2Config)> {
    let config =
        GPTConfig { vocabulary: 9, context: 6, layers: 2, heads: 2, width: 4, tied, ..Default::default() };
    let model = GPT::new(config, &device())?;
    let (tensors, told) = (gpt2_tensors(&model)?, Gpt2Config::of(&model)?);
    Ok((model, tensors, told))
}

#[test]
fn prefix_and_masks_may_be_there_or_not_and_an_equal_output_layer_is_tied() -> Result<()> {
    let device = device();
    let (model, tensors, told) = small(true)?;
    let wanted = model.state_dict()?;
    let load =
        |tensors: &StateDict, told: &Gpt2Config| gpt2_from(tensors, told, Gpt2Options::default(), &device);
    let bare: StateDict = tensors
        .iter()
        .map(|(name, tensor)| (name.trim_start_matches("transformer.").to_owned(), tensor.clone()))
        .collect();
    let mut masked = bare.clone();
    for layer in 0..2 {
        masked.insert(format!("h.{layer}.attn.bias"), Tensor::ones([1, 1, 6, 6], DType::Bool, &device)?);
        masked.insert(format!("h.{layer}.attn.masked_bias"), Tensor::full((), -1e4, DType::F32, &device)?);
    }
    let mut tied = tensors.clone();
    tied.insert("lm_head.weight".into(), tensors["transformer.wte.weight"].copy()?);
    for tensors in [&tensors, &bare, &masked, &tied] {
        let again = load(tensors, &told)?;
        assert_eq!(again.config(), model.config());
        assert_same(&again.state_dict()?, &wanted)?;
        // Without a word of the configuration but the heads, which shapes do not tell.
        let heads = Gpt2Config { n_head: Some(2), ..Default::default() };
        assert_eq!(load(tensors, &heads)?.config(), model.config());
    }
    let (model, tensors, told) = small(false)?;
    for told in [told, Gpt2Config { tied: None, ..told }] {
        let again = load(&tensors, &told)?;
        assert!(again.lm_head.is_some());
        assert_same(&again.state_dict()?, &model.state_dict()?)?;
    }
    let message = load(&tensors, &Gpt2Config { tied: Some(true), ..told })
        .map(drop)
        .expect_err("it differs")
        .to_string();
    assert_eq!(message, "gpt2: lm_head.weight differs from wte.weight, to which the configuration ties it");
    Ok(())
}

#[test]
fn tensors_that_do_not_fit_are_told_by_the_names_in_the_file() -> Result<()> {
    let device = device();
    let (_, mut tensors, told) = small(true)?;
    let message = |tensors: &StateDict, told: &Gpt2Config, options| {
        gpt2_from(tensors, told, options, &device).map(drop).expect_err("it does not fit").to_string()
    };
    let heads = |heads| Gpt2Options { heads: Some(heads), ..Default::default() };
    let untold = Gpt2Config::default();
    assert_eq!(
        message(&tensors, &untold, Gpt2Options::default()),
        "gpt2: no configuration, and width 4 is no multiple of 64: expected a number of heads"
    );
    assert_eq!(message(&tensors, &told, heads(4)), "gpt2: 4 heads, the configuration says 2");
    assert!(message(&tensors, &untold, heads(3)).ends_with("width 4 does not divide into 3 heads"));
    assert_eq!(
        message(&tensors, &Gpt2Config { n_layer: Some(3), ..told }, Gpt2Options::default()),
        "gpt2: the configuration says n_layer 3, the tensors are of 2"
    );
    let untied = Gpt2Config { tied: Some(false), ..told };
    assert_eq!(message(&tensors, &untied, heads(2)), "gpt2: this is no GPT-2; missing: lm_head.weight");

    tensors.remove("transformer.h.1.ln_2.bias");
    tensors.insert("transformer.h.0.attn.c_attn.weight".into(), Tensor::zeros([12, 4], DType::F32, &device)?);
    tensors.insert("score.weight".into(), Tensor::zeros([1], DType::F32, &device)?);
    assert_eq!(
        message(&tensors, &told, Gpt2Options::default()),
        "gpt2: this is no GPT-2; missing: h.1.ln_2.bias; unknown: score.weight; \
         wrong shape: h.0.attn.c_attn.weight [12, 4], expected [4, 12]"
    );
    tensors.insert("wte.weight".into(), Tensor::zeros([9, 4], DType::F32, &device)?);
    assert_eq!(
        message(&tensors, &told, Gpt2Options::default()),
        "gpt2: two tensors wte.weight, with and without transformer. before it"
    );
    assert_eq!(message(&StateDict::new(), &told, Gpt2Options::default()), "gpt2: no tensor wte.weight");
    Ok(())
}

#[test]
fn configurations_of_other_models_are_refused() {
    let parse = |text: &str| Gpt2Config::parse(text).map_err(|error| error.to_string());
    let told = parse(
        r#"{"n_ctx": 8, "n_inner": null, "activation_function": "relu", "vocab_size": 5, "summary_type": "x"}"#,
    );
    let wanted = Gpt2Config {
        n_positions: Some(8),
        vocab_size: Some(5),
        activation: Some(FeedForwardForm::ReLU),
        ..Default::default()
    };
    assert_eq!(told, Ok(wanted));
    for (text, expected) in [
        (r#"{"model_type": "llama"}"#, r#"gpt2: model_type is "llama", expected "gpt2""#),
        (r#"{"n_head": 2.5}"#, "gpt2: n_head is 2.5, expected a whole number"),
        (r#"{"layer_norm_epsilon": 1e-6}"#, "gpt2: layer_norm_epsilon is 1e-6, expected 1e-5"),
        (
            r#"{"activation_function": "silu"}"#,
            r#"gpt2: activation_function is "silu", expected gelu_new, gelu_pytorch_tanh, gelu or relu"#,
        ),
        (
            r#"{"scale_attn_by_inverse_layer_idx": true}"#,
            "gpt2: scale_attn_by_inverse_layer_idx is true, expected false",
        ),
    ] {
        assert_eq!(parse(text), Err(expected.to_owned()));
    }
    assert!(parse("[]").is_err_and(|message| message.starts_with("gpt2: expected a JSON object")));
}

#[test]
fn models_that_are_no_gpt2_are_not_written_as_one() -> Result<()> {
    let (device, folder) = (device(), Folder::new("refused"));
    let plain = GPTConfig { vocabulary: 5, context: 4, layers: 1, heads: 2, width: 8, ..Default::default() };
    for (config, expected) in [
        (GPTConfig { bias: false, ..plain }, "layers without bias"),
        (GPTConfig { kv_heads: Some(1), ..plain }, "fewer heads of keys than of queries"),
        (GPTConfig { form: FeedForwardForm::SwiGLU, ..plain }, "SwiGLU"),
        (GPTConfig { norm: NormForm::RMSNorm, ..plain }, "norms that are no layer norms"),
        (
            GPTConfig { positions: GPTPositions::Rotary(RotaryConfig::default()), ..plain },
            "positions that are not learned",
        ),
    ] {
        let message = save_gpt2(&GPT::new(config, &device)?, &folder.0).expect_err(expected).to_string();
        assert_eq!(message, format!("gpt2: a model with {expected}, which GPT-2's names cannot tell"));
    }
    assert_eq!(fs::read_dir(&folder.0).expect("the folder").count(), 0, "nothing was written");
    Ok(())
}

#[test]
fn files_that_are_no_gpt2_are_named() -> Result<()> {
    let (device, folder) = (device(), Folder::new("files"));
    let message =
        || load_gpt2(&folder.0, Gpt2Options::default(), &device).map(drop).expect_err("no model").to_string();
    let weights = folder.0.join("model.safetensors");
    assert!(message().starts_with(&format!("{}: cannot be read: ", weights.display())), "{}", message());
    let write =
        |name: &str, text: &str| fs::write(folder.0.join(name), text).expect("the folder can be written");
    write("model.safetensors.index.json", "{}");
    assert!(message().contains("the weights are in several files, expected one"), "{}", message());
    checkpoint::write(&small(true)?.1, &weights)?;
    assert!(message().starts_with(&format!("{}: no configuration", weights.display())), "{}", message());
    write("config.json", "{\"n_layer\": -1}");
    let config = folder.0.join("config.json");
    assert_eq!(message(), format!("{}: n_layer is -1, expected a whole number", config.display()));
    Ok(())
}

/// The ops of one step of generation behind `prefix` tokens, by their names.
fn step_counts(prefix: usize, keep: bool) -> Result<std::collections::BTreeMap<&'static str, OpCounts>> {
    let (device, counter) = Counting::new(device());
    let config =
        GPTConfig { vocabulary: 50, context: 256, layers: 2, heads: 2, width: 16, ..Default::default() };
    let model = GPT::new(config, &device)?;
    model.eval();
    let tokens: Vec<i64> = (0..=prefix as i64).map(|token| token % 50).collect();
    no_grad(|| {
        let mut caches = model.caches();
        if keep {
            model.next_logits(&Tensor::from_slice(&tokens[..prefix], [1, prefix], &device)?, &mut caches)?;
        }
        let new = if keep { &tokens[prefix..] } else { &tokens[..] };
        let new = Tensor::from_slice(new, [1, new.len()], &device)?;
        counter.reset();
        model.next_logits(&new, &mut caches)?;
        Ok(counter.counts().ops)
    })
}

/// Beside attention itself a step runs the same ops on as many bytes, however many tokens are kept; attention reads the keys and values of all.
#[test]
fn a_step_costs_the_same_behind_8_tokens_and_behind_200_but_for_attention() -> Result<()> {
    let (mut short, mut long) = (step_counts(8, true)?, step_counts(200, true)?);
    let attention = |counts: &mut std::collections::BTreeMap<&str, OpCounts>| {
        counts.remove("attention").expect("attention runs")
    };
    let (near, far) = (attention(&mut short), attention(&mut long));
    assert!(short.len() > 4, "{short:?}");
    assert_eq!(short, long);
    assert_eq!((near.launches, far.launches), (2, 2));
    // 192 more keys and values of 16 numbers each, in 2 blocks.
    assert_eq!(far.bytes_read - near.bytes_read, 2 * 2 * 192 * 16 * 4);
    let (mut short, mut long) = (step_counts(8, false)?, step_counts(200, false)?);
    for counts in [&mut short, &mut long] {
        attention(counts);
    }
    assert_ne!(short, long, "without kept keys every op grows");
    Ok(())
}
