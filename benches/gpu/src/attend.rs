//! Attention of tensors in files, to compare results: `benches/peers/attention_errors.py` lets this
//! program and PyTorch compute the same attention of bit-identical inputs.
//!
//! Reads a request from each line of the input, a JSON object (see [`Request`]), and answers each
//! with a line: `{"done": true}` after the file of results is complete, or `{"error": TEXT}`. The
//! first line, `{"ready": DEVICE}`, is printed before the first request is read.

use crate::clock::{ended_by, print_lines};
use crate::device::hardware;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::BufRead;
use ternion::nn::checkpoint;
use ternion::{AttentionOptions, Causal, Device, Error, GradOptions, Result, Tensor, grad, no_grad};

const OP: &str = "attend";

/// The tensors of a file by name.
type Tensors = BTreeMap<String, Tensor>;

/// One attention: `{"inputs": FILE, "outputs": FILE}`, both safetensors, and the optional fields
/// below; numbers are JSON's.
///
/// Inputs are `q`, `k`, `v`, as in [`Tensor::scaled_dot_product_attention`], optionally `mask`, and
/// optionally `dy`, which requests the gradients. Outputs are `y`, and `dq`, `dk` and `dv`.
#[derive(Debug, PartialEq)]
struct Request {
    inputs: String,
    outputs: String,
    /// `"causal"`, false by default: the last query is aligned with the last key.
    causal: bool,
    window: Option<usize>,
    scale: Option<f64>,
    /// `"dropout"`, 0 by default.
    dropout: f64,
    /// `"seed"` of the random numbers, 0 by default: the same seed drops the same weights.
    seed: u64,
    /// `"batches"`: the number of results to write, beginning with the first; all by default.
    batches: Option<usize>,
}

impl Request {
    fn parse(text: &str) -> Result<Request> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| invalid(format!("request: {error}")))?;
        let fields = value.as_object().ok_or_else(|| invalid("request: expected an object"))?;
        const KNOWN: [&str; 8] =
            ["inputs", "outputs", "causal", "window", "scale", "dropout", "seed", "batches"];
        if let Some(unknown) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            return Err(invalid(format!("request: expected {}, got {unknown}", KNOWN.join(", "))));
        }
        let file = |key: &str| -> Result<String> {
            let path = value[key]
                .as_str()
                .ok_or_else(|| invalid(format!("request: {key} is not a path of a file")))?;
            Ok(path.to_string())
        };
        let unsigned = |key: &str| field(&value, key, Value::as_u64);
        let size = |key: &str| {
            let to_usize =
                |number| usize::try_from(number).map_err(|_| invalid(format!("request: {key} is too large")));
            unsigned(key)?.map(to_usize).transpose()
        };
        Ok(Request {
            inputs: file("inputs")?,
            outputs: file("outputs")?,
            causal: field(&value, "causal", Value::as_bool)?.unwrap_or(false),
            window: size("window")?,
            scale: field(&value, "scale", Value::as_f64)?,
            dropout: field(&value, "dropout", Value::as_f64)?.unwrap_or(0.0),
            seed: unsigned("seed")?.unwrap_or(0),
            batches: size("batches")?,
        })
    }
}

/// Returns a field, which may be absent or null, and must have its type otherwise.
fn field<T>(value: &Value, key: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>> {
    match &value[key] {
        Value::Null => Ok(None),
        other => match read(other) {
            Some(read) => Ok(Some(read)),
            None => Err(invalid(format!("request: {key} is {other}"))),
        },
    }
}

fn invalid(detail: impl Into<String>) -> Error {
    Error::invalid(OP, detail.into())
}

/// Answers requests until the input ends.
pub fn run() -> std::result::Result<(), String> {
    let device = ternion::device("cuda").map_err(|error| error.to_string())?;
    print_lines(json!({"ready": hardware(&device)}));
    for line in std::io::stdin().lock().lines() {
        let line = match line {
            Ok(line) => line,
            Err(error) => return ended_by("requests", &error),
        };
        if line.trim().is_empty() {
            continue;
        }
        let outcome = Request::parse(&line).and_then(|request| answer(&request, &device));
        print_lines(match outcome {
            Ok(()) => json!({"done": true}),
            Err(error) => json!({"error": error.to_string()}),
        });
    }
    Ok(())
}

/// Computes the attention and writes its results, then releases the device's memory, so that
/// another program may use it.
fn answer(request: &Request, device: &Device) -> Result<()> {
    let mut results = compute_attention(request, device)?;
    if let Some(batches) = request.batches {
        for result in results.values_mut() {
            *result = no_grad(|| result.narrow(0, 0, batches))?;
        }
    }
    checkpoint::write(&results, &request.outputs)?;
    drop(results);
    device.synchronize()?;
    device.release_cached()
}

fn compute_attention(request: &Request, device: &Device) -> Result<Tensors> {
    let mut tensors = checkpoint::read(&request.inputs, device)?;
    let mut take_tensor = |name: &str| tensors.remove(name);
    let mut needed =
        |name: &str| take_tensor(name).ok_or_else(|| invalid(format!("{} has no {name}", request.inputs)));
    let [q, k, v] = [needed("q")?, needed("k")?, needed("v")?];
    let (mask, dy) = (take_tensor("mask"), take_tensor("dy"));
    let options = AttentionOptions {
        mask: mask.as_ref(),
        causal: Causal::lower_right(request.causal),
        window: request.window,
        scale: request.scale,
        dropout: request.dropout,
    };
    device.seed(request.seed);
    let Some(dy) = dy else {
        let y = no_grad(|| q.scaled_dot_product_attention(&k, &v, options))?;
        return Ok([("y".to_string(), y)].into());
    };
    let leaves = [q.requires_grad()?, k.requires_grad()?, v.requires_grad()?];
    let y = leaves[0].scaled_dot_product_attention(&leaves[1], &leaves[2], options)?;
    let gradients = grad(&[y.clone()], &leaves, &[dy], GradOptions::default())?;
    let mut results = Tensors::from([("y".to_string(), y.detach())]);
    for (name, gradient) in ["dq", "dk", "dv"].into_iter().zip(gradients) {
        results.insert(name.into(), gradient.ok_or_else(|| invalid(format!("no {name}")))?);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ternion::DType;

    /// Files of a test, which are removed when it ends.
    struct Files(std::path::PathBuf);

    impl Files {
        fn new(name: &str) -> Files {
            let folder = crate::temporary(name);
            std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
            Files(folder)
        }

        fn path(&self, name: &str) -> String {
            self.0.join(name).display().to_string()
        }

        /// Returns the results of a request with these inputs.
        fn outputs_of(&self, inputs: &[(&str, &Tensor)], more: &str, device: &Device) -> Result<Tensors> {
            let inputs = inputs.iter().map(|(name, tensor)| (name.to_string(), (*tensor).clone())).collect();
            let [from, to] = [self.path("inputs"), self.path("outputs")];
            checkpoint::write(&inputs, &from)?;
            let text = format!("{{\"inputs\": {}, \"outputs\": {}{more}}}", json!(from), json!(to));
            answer(&Request::parse(&text)?, device)?;
            checkpoint::read(&to, device)
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            // A folder that is not removed does not affect other tests.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn random(shape: [usize; 4], device: &Device) -> Result<Tensor> {
        Tensor::randn(shape, DType::F32, device)?.to_dtype(DType::BF16)
    }

    #[test]
    fn results_are_those_of_tensors() -> Result<()> {
        let (files, device) = (Files::new("attend"), ternion_cpu::device());
        let (q, k, v, dy) = (
            random([2, 2, 5, 8], &device)?,
            random([2, 1, 7, 8], &device)?,
            random([2, 1, 7, 8], &device)?,
            random([2, 2, 5, 8], &device)?,
        );
        let inputs = [("q", &q), ("k", &k), ("v", &v), ("dy", &dy)];
        let found = files.outputs_of(&inputs, r#", "causal": true, "window": 3, "scale": 0.5"#, &device)?;
        let leaves = [q.requires_grad()?, k.requires_grad()?, v.requires_grad()?];
        let options = AttentionOptions {
            causal: Causal::LowerRight,
            window: Some(3),
            scale: Some(0.5),
            ..AttentionOptions::default()
        };
        let y = leaves[0].scaled_dot_product_attention(&leaves[1], &leaves[2], options)?;
        let expected = grad(&[y.clone()], &leaves, &[dy.clone()], GradOptions::default())?;
        assert_eq!(found["y"].to_vec_f64()?, y.to_vec_f64()?);
        for (name, expected) in ["dq", "dk", "dv"].into_iter().zip(expected) {
            let expected = expected.expect("a gradient");
            assert_eq!((found[name].dtype(), found[name].dims()), (DType::BF16, expected.dims()));
            assert_eq!(found[name].to_vec_f64()?, expected.to_vec_f64()?, "{name}");
        }
        let first = files.outputs_of(&inputs[..3], r#", "batches": 1"#, &device)?;
        assert_eq!((first.len(), first["y"].dims()), (1, &[1, 2, 5, 8][..]));
        Ok(())
    }

    /// The script relies on this to find out which weights were dropped.
    #[test]
    fn a_seed_drops_the_same_weights_whatever_the_operands() -> Result<()> {
        let (files, device) = (Files::new("attend-dropout"), ternion_cpu::device());
        let (q, k, v) =
            (random([1, 2, 8, 8], &device)?, random([1, 2, 8, 8], &device)?, random([1, 2, 8, 8], &device)?);
        let dropping = r#", "dropout": 0.5, "seed": 7"#;
        let found = files.outputs_of(&[("q", &q), ("k", &k), ("v", &v)], dropping, &device)?;
        // With equal scores, and values that are columns of the identity, results are the weights.
        let (zeros, one) = (q.zeros_like()?, Tensor::eye(8, DType::BF16, &device)?);
        let one = one.expand([1, 2, 8, 8])?.contiguous()?;
        let weights = files.outputs_of(&[("q", &zeros), ("k", &zeros), ("v", &one)], dropping, &device)?;
        let kept = weights["y"].ne_scalar(0.0)?.to_dtype(DType::F32)?;
        let [q, k, v] = [&q, &k, &v].map(|x| x.to_dtype(DType::F32));
        let plain = q?.matmul(&k?.t()?)?.div_scalar(8f64.sqrt())?.softmax(-1)?;
        let expected = plain.mul(&kept)?.mul_scalar(2.0)?.matmul(&v?)?;
        let difference = found["y"].to_dtype(DType::F32)?.sub(&expected)?.abs()?.max(..)?.item::<f32>()?;
        let share = kept.mean(..)?.item::<f32>()?;
        assert!(difference < 0.05 && (0.3..0.7).contains(&share), "{difference} apart, {share} kept");
        Ok(())
    }

    #[test]
    fn requests_are_read_whole_or_refused() {
        let parsed = |text: &str| Request::parse(text).map_err(|error| error.to_string());
        let usual = parsed(r#"{"inputs": "a", "outputs": "b", "window": null, "dropout": 0.1, "seed": 3}"#);
        let expected = Request {
            inputs: "a".into(),
            outputs: "b".into(),
            causal: false,
            window: None,
            scale: None,
            dropout: 0.1,
            seed: 3,
            batches: None,
        };
        assert_eq!(usual, Ok(expected));
        for (text, expected) in [
            ("[]", "attend: request: expected an object"),
            ("{", "attend: request: "),
            (r#"{"inputs": "a"}"#, "attend: request: outputs is not a path of a file"),
            (r#"{"inputs": "a", "outputs": "b", "seed": -1}"#, "attend: request: seed is -1"),
            (r#"{"inputs": "a", "outputs": "b", "casual": true}"#, "batches, got casual"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }
}
