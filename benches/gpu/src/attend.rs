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
use ternion::{
    AttentionOptions, Causal, CumulativeLengths, Device, Error, GradOptions, Result, Tensor, grad, no_grad,
};

const OP: &str = "attend";

/// The tensors of a file by name.
type Tensors = BTreeMap<String, Tensor>;

/// One attention: `{"inputs": FILE, "outputs": FILE}`, both safetensors, and the optional fields
/// below; numbers are JSON's.
///
/// Inputs are `q`, `k`, `v`, as in [`Tensor::scaled_dot_product_attention`], optionally `mask`, and
/// optionally `dy`, which requests the gradients. With `cu_seqlens_q` and `cu_seqlens_k`, operands
/// are as in [`Tensor::scaled_dot_product_attention_varlen`]. Outputs are `y`, and `dq`, `dk` and
/// `dv`.
#[derive(Debug, PartialEq)]
struct Request {
    inputs: String,
    outputs: String,
    /// `"causal"`, false by default: the last query is aligned with the last key.
    causal: bool,
    /// `"upper_left"`, false by default: with `causal`, the first query is aligned with the first
    /// key.
    upper_left: bool,
    /// `"mask_gradient"`, false by default: with `dy`, the gradient of the mask, `dmask`, is an
    /// output, too.
    mask_gradient: bool,
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
        const KNOWN: [&str; 10] = [
            "inputs",
            "outputs",
            "causal",
            "upper_left",
            "mask_gradient",
            "window",
            "scale",
            "dropout",
            "seed",
            "batches",
        ];
        if let Some(unknown) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            return Err(invalid(format!("request: expected {}, got {unknown}", KNOWN.join(", "))));
        }
        let file = |key: &str| -> Result<String> {
            let path = value[key]
                .as_str()
                .ok_or_else(|| invalid(format!("request: {key} is not a path of a file")))?;
            Ok(path.to_string())
        };
        let flag = |key: &str| field(&value, key, Value::as_bool).map(|is_set| is_set.unwrap_or(false));
        let unsigned = |key: &str| field(&value, key, Value::as_u64);
        let size = |key: &str| {
            let to_usize =
                |number| usize::try_from(number).map_err(|_| invalid(format!("request: {key} is too large")));
            unsigned(key)?.map(to_usize).transpose()
        };
        Ok(Request {
            inputs: file("inputs")?,
            outputs: file("outputs")?,
            causal: flag("causal")?,
            upper_left: flag("upper_left")?,
            mask_gradient: flag("mask_gradient")?,
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

/// The tensors of a request.
struct Operands {
    leaves: Vec<Tensor>,
    mask: Option<Tensor>,
    dy: Option<Tensor>,
    /// The cumulative lengths of queries and of keys.
    lengths: Option<[Tensor; 2]>,
}

impl Operands {
    fn read(request: &Request, device: &Device) -> Result<Operands> {
        let mut tensors = checkpoint::read(&request.inputs, device)?;
        let mut take = |name: &str| tensors.remove(name);
        let missing = |name: &str| invalid(format!("{} has no {name}", request.inputs));
        let mut needed = |name: &str| take(name).ok_or_else(|| missing(name));
        let leaves = vec![needed("q")?, needed("k")?, needed("v")?];
        let (mask, dy) = (take("mask"), take("dy"));
        let lengths = match (take("cu_seqlens_q"), take("cu_seqlens_k")) {
            (Some(queries), Some(keys)) => Some([queries, keys]),
            (None, None) => None,
            (queries, _) => {
                return Err(missing(if queries.is_some() { "cu_seqlens_k" } else { "cu_seqlens_q" }));
            }
        };
        if request.mask_gradient && (mask.is_none() || dy.is_none()) {
            return Err(missing(if mask.is_none() { "mask" } else { "dy" }));
        }
        Ok(Operands { leaves, mask, dy, lengths })
    }

    /// Makes the operands whose gradients are requested leaves. Returns the names of the gradients.
    fn require_gradients(&mut self, request: &Request) -> Result<Vec<&'static str>> {
        if request.mask_gradient {
            self.leaves.extend(self.mask.take());
        }
        self.leaves = self.leaves.iter().map(Tensor::requires_grad).collect::<Result<_>>()?;
        Ok(["dq", "dk", "dv", "dmask"].into_iter().take(self.leaves.len()).collect())
    }

    fn attend(&self, request: &Request) -> Result<Tensor> {
        let causal = match request.causal {
            true if request.upper_left => Causal::UpperLeft,
            is_causal => Causal::lower_right(is_causal),
        };
        let options = AttentionOptions {
            mask: self.leaves.get(3).or(self.mask.as_ref()),
            causal,
            window: request.window,
            scale: request.scale,
            dropout: request.dropout,
        };
        let [q, k, v] = [&self.leaves[0], &self.leaves[1], &self.leaves[2]];
        match &self.lengths {
            None => q.scaled_dot_product_attention(k, v, options),
            Some([queries, keys]) => {
                q.scaled_dot_product_attention_varlen(k, v, CumulativeLengths { queries, keys }, options)
            }
        }
    }
}

fn compute_attention(request: &Request, device: &Device) -> Result<Tensors> {
    let mut operands = Operands::read(request, device)?;
    device.seed(request.seed);
    let Some(dy) = operands.dy.take() else {
        let y = no_grad(|| operands.attend(request))?;
        return Ok([("y".to_string(), y)].into());
    };
    let names = operands.require_gradients(request)?;
    let y = operands.attend(request)?;
    let gradients = grad(&[y.clone()], &operands.leaves, &[dy], GradOptions::default())?;
    let mut results = Tensors::from([("y".to_string(), y.detach())]);
    for (name, gradient) in names.into_iter().zip(gradients) {
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

    #[test]
    fn the_gradient_of_the_mask_is_an_output_if_requested() -> Result<()> {
        let (files, device) = (Files::new("attend-mask"), ternion_cpu::device());
        let (q, k, dy) =
            (random([2, 2, 5, 8], &device)?, random([2, 2, 3, 8], &device)?, random([2, 2, 5, 8], &device)?);
        let mask = random([1, 2, 5, 3], &device)?;
        let inputs = [("q", &q), ("k", &k), ("v", &k), ("mask", &mask), ("dy", &dy)];
        let requested = r#", "causal": true, "upper_left": true, "scale": 0.5, "mask_gradient": true"#;
        let found = files.outputs_of(&inputs, requested, &device)?;
        let leaves = [q.requires_grad()?, k.requires_grad()?, k.requires_grad()?, mask.requires_grad()?];
        let options = AttentionOptions {
            mask: Some(&leaves[3]),
            causal: Causal::UpperLeft,
            scale: Some(0.5),
            ..AttentionOptions::default()
        };
        let y = leaves[0].scaled_dot_product_attention(&leaves[1], &leaves[2], options)?;
        let expected = grad(&[y.clone()], &leaves, &[dy.clone()], GradOptions::default())?;
        let expected = expected[3].as_ref().expect("a gradient").to_vec_f64()?;
        assert_eq!(found["y"].to_vec_f64()?, y.to_vec_f64()?);
        assert_eq!((found["dmask"].dims(), found["dmask"].to_vec_f64()?), (mask.dims(), expected));
        let without = files.outputs_of(&inputs, r#", "scale": 0.5"#, &device)?;
        assert!(!without.contains_key("dmask") && without.contains_key("dv"));
        let error = files.outputs_of(&inputs[..3], requested, &device).expect_err("no mask").to_string();
        assert!(error.ends_with("has no mask"), "{error}");
        Ok(())
    }

    #[test]
    fn sequences_of_different_lengths_are_attended_to_one_by_one() -> Result<()> {
        let (files, device) = (Files::new("attend-varlen"), ternion_cpu::device());
        let rows = |count: usize| Tensor::randn([count, 2, 8], DType::F32, &device)?.to_dtype(DType::BF16);
        let (q, k, v, dy) = (rows(6)?, rows(7)?, rows(7)?, rows(6)?);
        let ends = |ends: [i32; 3]| Tensor::from_slice(&ends, [3], &device);
        let (queries, keys) = (ends([0, 2, 6])?, ends([0, 3, 7])?);
        let inputs = [
            ("q", &q),
            ("k", &k),
            ("v", &v),
            ("dy", &dy),
            ("cu_seqlens_q", &queries),
            ("cu_seqlens_k", &keys),
        ];
        let found = files.outputs_of(&inputs, r#", "causal": true"#, &device)?;
        let leaves = [q.requires_grad()?, k.requires_grad()?, v.requires_grad()?];
        let lengths = CumulativeLengths { queries: &queries, keys: &keys };
        let options = AttentionOptions { causal: Causal::LowerRight, ..AttentionOptions::default() };
        let y = leaves[0].scaled_dot_product_attention_varlen(&leaves[1], &leaves[2], lengths, options)?;
        let expected = grad(&[y.clone()], &leaves, &[dy.clone()], GradOptions::default())?;
        assert_eq!(found["y"].to_vec_f64()?, y.to_vec_f64()?);
        for (name, expected) in ["dq", "dk", "dv"].into_iter().zip(expected) {
            let expected = expected.expect("a gradient");
            assert_eq!(
                (found[name].dims(), found[name].to_vec_f64()?),
                (expected.dims(), expected.to_vec_f64()?)
            );
        }
        let error = files.outputs_of(&inputs[..5], "", &device).expect_err("no lengths of keys").to_string();
        assert!(error.ends_with("has no cu_seqlens_k"), "{error}");
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
            upper_left: false,
            mask_gradient: false,
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
