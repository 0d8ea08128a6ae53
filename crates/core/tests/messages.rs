//! Every kind of error with the names of Rust, and with those of another language.

use ternion_core::error::{Dialect, Term};
use ternion_core::{DType, Error, GradOptions, Shape, Tensor, grad, text};

/// Names as in a binding: PyTorch's.
struct Binding;

impl Dialect for Binding {
    fn op<'a>(&self, op: &'a str) -> &'a str {
        if op == "concat" { "cat" } else { op }
    }
    fn dtype(&self, dtype: DType) -> &'static str {
        match dtype {
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::I32 => "int32",
            DType::I64 => "int64",
            other => other.name(),
        }
    }
    fn term(&self, term: Term) -> &'static str {
        match term {
            Term::ToDType => ".to(dtype)",
            Term::ToDevice => ".to(device)",
            Term::RequiresGrad => "requires_grad_()",
            Term::AllowUnused => "allow_unused=True",
            Term::Cotangent => "gradient",
            Term::Cotangents => "gradients",
            Term::OutputsAgainst => "outputs for",
            Term::WeighOutputs => "give backward() a gradient",
        }
    }
}

/// Checks the text of `error` in Rust, and in the binding.
fn reads(error: &Error, in_rust: &str, in_binding: &str) {
    assert_eq!(error.to_string(), in_rust);
    assert_eq!(format!("{error:?}"), in_rust);
    assert_eq!(error.in_dialect(&Binding).to_string(), in_binding);
}

/// Checks an error that has the same text in both.
fn reads_alike(error: &Error, text: &str) {
    reads(error, text, text);
}

fn shape(dims: &[usize]) -> Box<Shape> {
    Box::new(Shape::new(dims).unwrap())
}

#[test]
fn what_a_call_cannot_take() {
    let op = "concat";
    let detail = text!["0.5 is not an integer, tensor is ", DType::I64];
    reads(
        &Error::invalid(op, detail),
        "concat: 0.5 is not an integer, tensor is i64",
        "cat: 0.5 is not an integer, tensor is int64",
    );
    reads(
        &Error::invalid(op, "the name \"i64\" is taken"),
        "concat: the name \"i64\" is taken",
        "cat: the name \"i64\" is taken",
    );
    reads(
        &Error::Broadcast { op, left: shape(&[2]), right: shape(&[3]) },
        "concat: shapes [2] and [3] do not broadcast",
        "cat: shapes [2] and [3] do not broadcast",
    );
    reads(
        &Error::Shape { op, what: "weight", got: shape(&[2]), expected: shape(&[3, 4]) },
        "concat: weight has shape [2], expected [3, 4]",
        "cat: weight has shape [2], expected [3, 4]",
    );
    reads(
        &Error::Rank { op, expected: "at least 2".into(), shape: shape(&[2]) },
        "concat: expected at least 2 axes, got shape [2]",
        "cat: expected at least 2 axes, got shape [2]",
    );
    reads(
        &Error::Axis { op, axis: -4, shape: shape(&[2]) },
        "concat: axis -4 on shape [2]",
        "cat: axis -4 on shape [2]",
    );
    reads(
        &Error::dtype(op, "mask", DType::F32, text![DType::I32, " or ", DType::I64]),
        "concat: mask is f32, expected i32 or i64",
        "cat: mask is float32, expected int32 or int64",
    );
    reads(
        &Error::DTypeMismatch { op, left: DType::F32, right: DType::F64 },
        "concat: dtypes f32 and f64 differ; cast one of them with to_dtype",
        "cat: dtypes float32 and float64 differ; cast one of them with .to(dtype)",
    );
    reads(
        &Error::DeviceMismatch { op, left: "cpu".into(), right: "cuda:0".into() },
        "concat: tensors on cpu and cuda:0; move one of them with to_device",
        "cat: tensors on cpu and cuda:0; move one of them with .to(device)",
    );
    reads(
        &Error::IndexOutOfRange { op, index: 7, size: 4 },
        "concat: index 7 is out of range for size 4",
        "cat: index 7 is out of range for size 4",
    );
    reads(
        &Error::Unsupported { op, device: "wgpu:0".into(), why: "WGSL has no 64-bit floats".into() },
        "concat: wgpu:0 does not support it: WGSL has no 64-bit floats",
        "cat: wgpu:0 does not support it: WGSL has no 64-bit floats",
    );
}

/// Names from users, and of primitives that a device ran, are not translated.
#[test]
fn what_failed() {
    reads_alike(
        &Error::Device { device: "i64".into(), detail: "no such device".into() },
        "device i64: no such device",
    );
    reads_alike(
        &Error::OutOfMemory { device: "cpu".into(), requested: 5, in_use: 4, cached: 3, peak: 6 },
        "cpu: out of memory: requested 5 bytes, in use 4, cached 3, peak 6",
    );
    let what = "output".to_owned();
    reads_alike(
        &Error::ChangedInPlace { op: "concat", what, shape: shape(&[2]), saved: 0, now: 1 },
        "backward of concat: output with shape [2] was changed in place after it was saved (version 0, now 1)",
    );
    reads_alike(
        &Error::MissingGradient { names: "f32.weight".into() },
        "no gradient for f32.weight: the loss does not depend on it (freeze it, or allow missing gradients in the \
         optimizer's configuration), or the gradients are older than the last change of its dtype, device or \
         freezing (run backward again)",
    );
    let detail = text!["output 0 from ", &*shape(&[3]), " ", DType::F32];
    reads(
        &Error::Mismatch { op: "concat", left: "faulty".into(), right: "cpu".into(), detail },
        "concat: faulty and cpu differ: output 0 from [3] f32",
        "concat: faulty and cpu differ: output 0 from [3] float32",
    );
    reads(
        &Error::NotFinite { op: "sqrt", detail: text!["NaN in an output of ", DType::F64] },
        "sqrt: NaN in an output of f64",
        "sqrt: NaN in an output of float64",
    );
    reads_alike(
        &Error::file("f32.safetensors".as_ref(), "cannot be read"),
        "f32.safetensors: cannot be read",
    );
    reads_alike(&Error::callback("a hook", std::fmt::Error), &format!("a hook raised {}", std::fmt::Error));
}

#[test]
fn what_a_backward_walk_rejects() -> Result<(), Error> {
    let device = ternion_cpu::device();
    let x = Tensor::ones([2], DType::F32, &device)?.requires_grad()?;
    let other = Tensor::ones([2], DType::F32, &device)?.requires_grad()?;
    let plain = Tensor::ones([2], DType::F32, &device)?;
    let wide = Tensor::ones([2], DType::F64, &device)?;
    let y = x.square()?;
    let rejected = |outputs: &[Tensor], inputs: &[Tensor], cotangents: &[Tensor]| {
        grad(outputs, inputs, cotangents, GradOptions::default()).expect_err("it does not fit")
    };
    reads(
        &y.backward().map(drop).expect_err("several elements"),
        "backward: of shape [2]: only a single element has a gradient by itself; reduce it, or use grad with \
         cotangents",
        "backward: of shape [2]: only a single element has a gradient by itself; reduce it, or give backward() a \
         gradient",
    );
    let [outputs, inputs] = [std::slice::from_ref(&y), std::slice::from_ref(&x)];
    reads(
        &rejected(outputs, inputs, &[]),
        "backward: 1 outputs but 0 cotangents",
        "backward: 1 outputs for 0 gradients",
    );
    reads(
        &rejected(outputs, std::slice::from_ref(&plain), std::slice::from_ref(&plain)),
        "backward: no gradient flows to input 0: call requires_grad on it before it is used",
        "backward: no gradient flows to input 0: call requires_grad_() on it before it is used",
    );
    reads(
        &rejected(outputs, &[other], &[plain]),
        "backward: the outputs do not depend on input 0 of shape [2]; allow_unused gives None for it",
        "backward: the outputs do not depend on input 0 of shape [2]; allow_unused=True gives None for it",
    );
    reads(
        &rejected(outputs, inputs, &[wide]),
        "backward: cotangent 0 is [2] f64, its output [2] f32",
        "backward: gradient 0 is [2] float64, its output [2] float32",
    );
    Ok(())
}

#[test]
fn every_term_has_a_name() {
    for (index, term) in Term::ALL.iter().enumerate() {
        assert!(!term.in_rust().is_empty());
        assert!(Term::ALL[..index].iter().all(|other| other.in_rust() != term.in_rust()), "{term:?}");
    }
}

#[test]
fn errors_say_which_op_they_are_of() {
    assert_eq!(Error::invalid("concat", "expected at least 1 input, got 0").op(), Some("concat"));
    assert_eq!(Error::Axis { op: "softmax", axis: 3, shape: shape(&[2]) }.op(), Some("softmax"));
    assert_eq!(Error::autograd("no graph").op(), None);
    assert_eq!(Error::file("weights".as_ref(), "cannot be read").op(), None);
}
