//! Devices that wrap a device: what they observe and report, and that they change nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use ternion_core::decorators::{
    Checked, Composed, Counting, Fallback, NanCheck, from_settings, known_names, tolerance,
};
use ternion_core::{
    Backend, CheckConfig, DType, Device, Error, OnDifference, Op, Precision, Result, Tensor, View, check_ops,
    no_grad, with_precision,
};

/// A device that computes one op incorrectly: it changes the last element of the first output.
#[derive(Debug)]
struct Faulty {
    inner: Device,
    op: &'static str,
    fault: Fault,
    struck: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Adds(f64),
    BecomesNan,
}

impl Faulty {
    fn device(op: &'static str, fault: Fault) -> (Device, Arc<AtomicBool>) {
        let struck = Arc::new(AtomicBool::new(false));
        let faulty = Faulty { inner: ternion_cpu::device(), op, fault, struck: struck.clone() };
        (Device::new(faulty), struck)
    }

    fn spoil(&self, view: &View<'_>) -> Result<()> {
        let Some(position) = view.layout.positions().last() else { return Ok(()) };
        let mut bytes = vec![0; view.dtype.size()];
        let offset = position * bytes.len();
        self.inner.backend().download(view.buffer, offset, &mut bytes)?;
        let change = |value: f64| match self.fault {
            Fault::Adds(amount) => value + amount,
            Fault::BecomesNan => f64::NAN,
        };
        match view.dtype {
            DType::F32 => {
                let value = f32::from_ne_bytes(bytes[..].try_into().expect("4 bytes"));
                bytes.copy_from_slice(&(change(value.into()) as f32).to_ne_bytes());
            }
            DType::I32 => {
                let value = i32::from_ne_bytes(bytes[..].try_into().expect("4 bytes"));
                bytes.copy_from_slice(&(change(value.into()) as i32).to_ne_bytes());
            }
            _ => return Ok(()),
        }
        self.struck.store(true, Ordering::Relaxed);
        self.inner.backend().upload(&bytes, view.buffer, offset)
    }
}

impl Backend for Faulty {
    ternion_core::delegate_backend!(inner: alloc, upload, download, plan, synchronize, memory);

    fn name(&self) -> &str {
        "faulty"
    }
    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        self.inner.backend().run(op, inputs, outputs)?;
        if op.name() == self.op { self.spoil(&outputs[0]) } else { Ok(()) }
    }
}

/// A training step with views, broadcasting, random numbers, indices, in-place changes and a
/// backward pass.
fn program(device: &Device) -> Result<Vec<f64>> {
    device.seed(7);
    let x = Tensor::rand([5, 8], DType::F32, device)?;
    let weight = Tensor::randn([3, 8], DType::F32, device)?.requires_grad()?;
    let bias = Tensor::zeros([3], DType::F32, device)?.requires_grad()?;
    let logits = x.flip(0)?.matmul(&weight.t()?)?.add(&bias)?.dropout(0.25)?;
    let best = logits.detach().argmax(1)?;
    let loss = logits.log_softmax(1)?.gather(1, &best.unsqueeze(1)?)?.mean_all()?.neg()?;
    let gradients = loss.backward()?;
    let grad = gradients.get(&weight).expect("the loss depends on it");
    no_grad(|| {
        let state = Tensor::zeros([6, 8], DType::F32, device)?;
        state.narrow(0, 2, 3)?.copy_(grad)?;
        state.narrow(0, 2, 3)?.mul_scalar_(0.5)?;
        state.scatter_add_(0, &Tensor::zeros([1, 8], DType::I32, device)?, &x.narrow(0, 0, 1)?)?;
        state.to_vec_f64()
    })
}

fn detail(result: Result<impl Sized>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

// ---- Checked

#[test]
fn checked_lets_a_right_device_pass() {
    let cpu = ternion_cpu::device();
    let want = program(&cpu).unwrap();
    let checked = Checked::new(ternion_cpu::device(), ternion_cpu::device());
    assert_eq!(checked.name(), "checked(cpu, cpu)");
    assert_eq!(program(&checked).unwrap(), want);
    let against_compositions = Checked::new(ternion_cpu::device(), Composed::new(ternion_cpu::device()));
    assert_eq!(program(&against_compositions).unwrap(), want);
}

#[test]
fn checked_names_the_first_op_that_differs() {
    let (faulty, struck) = Faulty::device("exp", Fault::Adds(0.01));
    let device = Checked::new(faulty, ternion_cpu::device());
    let x = Tensor::full([2, 3], 0.5f32, DType::F32, &device).unwrap();
    let error = x.mul_scalar(2.0).unwrap().exp().expect_err("exp is wrong");
    assert!(struck.load(Ordering::Relaxed));
    let Error::Mismatch { op, left, right, detail } = error else { panic!("{error}") };
    assert_eq!((op, left.as_str(), right.as_str()), ("exp", "faulty", "cpu"));
    for part in [
        "output 0 from [2, 3] f32: 1 of 6 elements of [2, 3] f32; first at [1, 2]: got 2.72",
        "want 2.71",
        "got mean",
        "want mean",
    ] {
        assert!(detail.to_string().contains(part), "{part:?} in {detail:?}");
    }
}

#[test]
fn checked_sees_what_an_op_in_place_made_of_its_input() {
    let right = Checked::new(ternion_cpu::device(), ternion_cpu::device());
    let x = Tensor::full([4], 1.5f32, DType::F32, &right).unwrap();
    x.mul_scalar_(3.0).unwrap();
    x.narrow(0, 1, 2).unwrap().add_(&x.narrow(0, 0, 2).unwrap()).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [4.5, 9.0, 9.0, 4.5]);
    let (faulty, _) = Faulty::device("add", Fault::Adds(1.0));
    let wrong = Checked::new(faulty, ternion_cpu::device());
    let y = Tensor::full([4], 1.5f32, DType::F32, &wrong).unwrap();
    assert!(
        detail(y.add_(&y)).starts_with("add: faulty and cpu differ: output 0 from [4] f32, [4] f32: 1 of 4")
    );
}

#[test]
fn checked_tells_nan_from_numbers_and_integers_from_their_neighbours() {
    let (faulty, _) = Faulty::device("add", Fault::BecomesNan);
    let device = Checked::new(faulty, ternion_cpu::device());
    let x = Tensor::full([3], 1.0f32, DType::F32, &device).unwrap();
    assert!(detail(x.add(&x)).contains("got NaN, want 2e0"));
    // NaN on both devices agrees.
    x.neg().unwrap().log().unwrap();
    let (faulty, _) = Faulty::device("add", Fault::Adds(1.0));
    let device = Checked::new(faulty, ternion_cpu::device());
    let large = Tensor::full([2], 1 << 30, DType::I32, &device).unwrap();
    assert!(detail(large.add(&large.mul_scalar(0).unwrap())).contains("1 of 2 elements of [2] i32"));
}

#[test]
fn checked_forgives_what_rounding_explains_and_nothing_more() {
    // A sum that cancels to almost nothing: its error is relative to its terms.
    let cpu = ternion_cpu::device();
    let terms: Vec<f32> = (0..3000).map(|at| ((at * 7919 % 3001) as f32).sin() * 1000.0).collect();
    let mut balanced = terms.clone();
    balanced.extend(terms.iter().map(|term| -term));
    let sum_on = |device: &Device| Tensor::from_slice(&balanced, [6000], device).unwrap().sum_all();
    let backwards = Checked::new(cpu, Composed::new(ternion_cpu::device()));
    sum_on(&backwards).unwrap();
    let (faulty, _) = Faulty::device("sum", Fault::Adds(1.0));
    assert!(detail(sum_on(&Checked::new(faulty, ternion_cpu::device()))).starts_with("sum:"));
    assert_eq!(tolerance(DType::I64), 0.0);
    for half in [DType::F16, DType::BF16] {
        assert_eq!(tolerance(half), 2.0 * half.epsilon(), "each device right to one unit of rounding");
    }
}

#[test]
fn checked_passes_errors_on() {
    let device = Checked::new(ternion_cpu::device(), ternion_cpu::device());
    let x = Tensor::zeros([3], DType::F32, &device).unwrap();
    let beyond = Tensor::full([1], 3, DType::I32, &device).unwrap();
    assert_eq!(detail(x.index_select(0, &beyond)), "index_select: index 3 is out of range for size 3");
}

// ---- Fallback

#[test]
fn fallback_runs_the_named_ops_elsewhere() {
    let (other, other_counts) = Counting::new(ternion_cpu::device());
    let (inner, inner_counts) = Counting::new(ternion_cpu::device());
    let device = Fallback::new(inner, other, &["exp", "matmul", "copy"]).unwrap();
    let x = Tensor::from_slice(&[0.0f32, 1.0, 2.0, 3.0], [2, 2], &device).unwrap();
    let y = x.t().unwrap().exp().unwrap().matmul(&x).unwrap();
    let want: Vec<f64> = {
        let cpu = ternion_cpu::device();
        let x = Tensor::from_slice(&[0.0f32, 1.0, 2.0, 3.0], [2, 2], &cpu).unwrap();
        x.t().unwrap().exp().unwrap().matmul(&x).unwrap().to_vec_f64().unwrap()
    };
    assert_eq!(y.to_vec_f64().unwrap(), want);
    assert_eq!((other_counts.counts().launches_of("exp"), inner_counts.counts().launches_of("exp")), (1, 0));
    assert_eq!(
        (other_counts.counts().launches_of("matmul"), inner_counts.counts().launches_of("matmul")),
        (1, 0)
    );
    // A copy to a slice: the elements around it are unchanged.
    let wide = Tensor::zeros([4, 4], DType::F32, &device).unwrap();
    wide.narrow(0, 1, 2).unwrap().narrow(1, 1, 2).unwrap().copy_(&x).unwrap();
    let sum: f64 = wide.to_vec_f64().unwrap().iter().sum();
    assert_eq!((sum, wide.to_vec::<f32>().unwrap()[10]), (6.0, 3.0));
}

#[test]
fn fallback_takes_the_gradients_of_an_op_along() {
    let (other, other_counts) = Counting::new(ternion_cpu::device());
    let device = Fallback::new(ternion_cpu::device(), other, &["softmax"]).unwrap();
    let x = Tensor::rand([3, 4], DType::F32, &device).unwrap().requires_grad().unwrap();
    x.softmax(1).unwrap().square().unwrap().sum_all().unwrap().backward().unwrap();
    assert!(other_counts.counts().launches() > 0);
    assert_eq!(other_counts.counts().launches_of("square"), 0);
    let names: Vec<&str> = other_counts.counts().ops.keys().copied().collect();
    // Whether softmax was fused or composed there, log_softmax was not used.
    assert!(!names.contains(&"log_softmax"), "{names:?}");
}

#[test]
fn fallback_rejects_names_that_no_op_has() {
    let cpu = ternion_cpu::device;
    let rejected = |name: &str| detail(Fallback::new(cpu(), cpu(), &[name]));
    for (method, ops) in
        [("gelu", "gelu_erf, or gelu_tanh"), ("embedding", "index_select"), ("linear", "matmul")]
    {
        assert_eq!(rejected(method), format!("fallback: {method} is a method, not an op; it runs as {ops}"));
    }
    assert!(rejected("softmx").starts_with("fallback: no op is called \"softmx\"; near it are softmax"));
    assert!(rejected("conv").contains("conv2d"));
    assert!(rejected("").contains("known are"));
    assert!(Fallback::new(cpu(), cpu(), &["custom.swish_gate"]).is_ok());
}

#[test]
fn names_are_those_of_ops() {
    let names = known_names();
    for name in [
        "where",
        "cumsum",
        "var",
        "max_pool2d_grad",
        "conv2d_grad_input",
        "slice_assign",
        "gelu_erf_grad",
        "le_scalar",
        "rms_norm",
    ] {
        assert!(names.iter().any(|known| known == name), "{name}");
    }
}

// ---- Composed

#[test]
fn composed_runs_primitives_only() {
    let (inner, counter) = Counting::new(ternion_cpu::device());
    let device = Composed::new(inner);
    let want = program(&ternion_cpu::device()).unwrap();
    for (got, want) in program(&device).unwrap().into_iter().zip(want) {
        assert!((got - want).abs() <= 1e-5 * (1.0 + want.abs()), "{got} {want}");
    }
    let composite = [
        "log_softmax",
        "log_softmax_grad",
        "mean",
        "dropout",
        "uniform",
        "normal",
        "mul_scalar",
        "index_select",
    ];
    for name in composite {
        assert_eq!(counter.counts().launches_of(name), 0, "{name}");
    }
    assert!(counter.counts().launches_of("matmul") > 0);
}

// ---- Counting

#[test]
fn counting_knows_launches_and_bytes() {
    let (device, counter) = Counting::new(ternion_cpu::device());
    let x = Tensor::zeros([10, 3], DType::F32, &device).unwrap();
    let row = Tensor::from_slice(&[1.0f32, 2.0, 3.0], [3], &device).unwrap();
    assert_eq!(counter.counts().bytes_uploaded, 12);
    counter.reset();
    let sum = x.t().unwrap().t().unwrap().add(&row).unwrap();
    let counts = counter.counts();
    assert_eq!((counts.launches(), counts.launches_of("add"), counts.allocations), (1, 1, 1));
    // The row is read once, although it is broadcast.
    assert_eq!((counts.bytes_read(), counts.bytes_written()), (120 + 12, 120));
    sum.to_vec::<f32>().unwrap();
    assert_eq!(counter.counts().bytes_downloaded, 120);
}

#[test]
fn counting_counts_every_thread() {
    let (device, counter) = Counting::new(ternion_cpu::device());
    let x = Tensor::zeros([4], DType::F32, &device).unwrap();
    counter.reset();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| drop(x.neg().unwrap())));
        }
    });
    assert_eq!(counter.counts().launches_of("neg"), 200);
}

// ---- NanCheck

#[test]
fn nan_check_names_the_op_that_made_the_first_nan() {
    let device = NanCheck::new(ternion_cpu::device());
    let x = Tensor::from_slice(&[4.0f32, 1.0, -2.0, 9.0, 0.0, -1.0], [2, 3], &device).unwrap();
    let error =
        x.add_scalar(1.0).unwrap().sub_scalar(1.0).unwrap().sqrt().expect_err("there are negative numbers");
    let Error::NotFinite { op: "sqrt", detail } = error else { panic!("{error}") };
    for part in [
        "NaN in 2 of 6 elements of output 0 ([2, 3] f32), first at [0, 2], on cpu",
        "input 0 ([2, 3] f32): mean",
        "min -2",
    ] {
        assert!(detail.to_string().contains(part), "{part:?} in {detail:?}");
    }
}

#[test]
fn nan_check_blames_only_who_made_it() {
    let device = NanCheck::new(ternion_cpu::device());
    // Written by the program: not the fault of an op, also not of later and in-place ops.
    let nan = Tensor::full([3], f64::NAN, DType::F32, &device).unwrap();
    nan.exp().unwrap().add_(&nan).unwrap();
    nan.mul_scalar_(2.0).unwrap();
    Tensor::ones([2], DType::F32, &device).unwrap().mul_scalar(f64::NAN).unwrap();
    // In place, the input is overwritten when the output is checked: it was read before.
    let x = Tensor::from_slice(&[-1.0f32, 1.0], [2], &device).unwrap();
    assert!(detail(x.log_()).starts_with("log: NaN in 1 of 2 elements"));
    // Infinity is checked only if requested.
    let large = Tensor::full([2], 1000.0f32, DType::F32, &device).unwrap();
    assert_eq!(large.exp().unwrap().to_vec::<f32>().unwrap(), [f32::INFINITY; 2]);
    let strict = NanCheck::with_infinity(ternion_cpu::device());
    let large = Tensor::full([2], 1000.0f32, DType::F32, &strict).unwrap();
    assert!(detail(large.exp()).starts_with("exp: NaN or infinity in 2 of 2 elements"));
    let masked = large.masked_fill(&large.gt_scalar(0.0).unwrap(), f64::NEG_INFINITY).unwrap();
    assert_eq!(masked.exp().unwrap().to_vec::<f32>().unwrap(), [0.0; 2]);
}

#[test]
fn nan_check_finds_the_op_within_a_composition() {
    let device = NanCheck::new(Composed::new(ternion_cpu::device()));
    let x = Tensor::full([2, 3], f64::NEG_INFINITY, DType::F32, &device).unwrap();
    // -infinity minus -infinity: the first step of softmax.
    assert!(detail(x.softmax(1)).starts_with("sub: NaN in 6 of 6"));
}

// ---- The environment

fn settings(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
    move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
}

fn resolve(name: &str) -> Result<Device> {
    match name {
        "cpu" | "cpu:0" => Ok(ternion_cpu::device()),
        other => Err(Error::Device { device: other.into(), detail: "is not available".into() }),
    }
}

#[test]
fn settings_wrap_a_device() {
    let wrapped = |pairs| from_settings(ternion_cpu::device(), &settings(pairs), &resolve);
    let name = |pairs| wrapped(pairs).unwrap().name().to_string();
    assert_eq!(name(&[]), "cpu");
    assert_eq!(name(&[("TERNION_CHECK", ""), ("TERNION_NAN", "")]), "cpu");
    assert_eq!(name(&[("TERNION_CHECK", "cpu")]), "checked(cpu, cpu)");
    assert_eq!(name(&[("TERNION_NAN", "error")]), "nan_check(cpu)");
    assert_eq!(name(&[("TERNION_NAN", "infinite")]), "finite_check(cpu)");
    assert_eq!(name(&[("TERNION_FALLBACK", "cpu:0:softmax, matmul")]), "fallback(cpu, cpu: softmax,matmul)");
    let all: &[(&str, &str)] =
        &[("TERNION_FALLBACK", "cpu:exp"), ("TERNION_CHECK", "cpu"), ("TERNION_NAN", "error")];
    assert_eq!(name(all), "nan_check(checked(fallback(cpu, cpu: exp), cpu))");
    let device = wrapped(all).unwrap();
    assert_eq!(program(&device).unwrap(), program(&ternion_cpu::device()).unwrap());
}

#[test]
fn settings_that_mean_nothing_are_errors() {
    let rejected = |pairs| detail(from_settings(ternion_cpu::device(), &settings(pairs), &resolve));
    assert_eq!(
        rejected(&[("TERNION_NAN", "stop")]),
        "TERNION_NAN: \"stop\", expected \"error\" or \"infinite\""
    );
    assert_eq!(rejected(&[("TERNION_CHECK", "tpu")]), "device tpu: is not available");
    assert_eq!(
        rejected(&[("TERNION_FALLBACK", "cpu")]),
        "TERNION_FALLBACK: \"cpu\", expected a device and ops, such as cpu:softmax,matmul"
    );
    for text in
        [rejected(&[("TERNION_FALLBACK", "cpu:")]), rejected(&[("TERNION_FALLBACK", "cpu:dropout,,exp")])]
    {
        assert!(text.contains("expected ops with commas between them"), "{text}");
    }
    let text = rejected(&[("TERNION_FALLBACK", "cpu:sofmax")]);
    assert!(text.starts_with("TERNION_FALLBACK: ") && text.contains("near it are softmax"), "{text}");
    assert_eq!(rejected(&[("TERNION_FALLBACK", "tpu:softmax")]), "device tpu: is not available");
}

// ---- A scope in which ops are compared

fn against_cpu(on_difference: OnDifference) -> CheckConfig {
    CheckConfig { against: ternion_cpu::device(), factor: 1.0, on_difference }
}

#[test]
fn a_scope_lets_a_right_device_pass() -> Result<()> {
    // Composed ops round differently from kernels, but in the scope the values are the same as
    // without it.
    let device = Composed::new(ternion_cpu::device());
    let want = program(&device)?;
    let (got, report) = check_ops(against_cpu(OnDifference::Fail), || program(&device))?;
    assert_eq!(got?, want);
    // The ops of the program and of its gradients.
    assert!(report.compared > 20 && report.differences.is_empty(), "{report:?}");
    let half = || with_precision(Precision::Bf16, || program(&device));
    check_ops(against_cpu(OnDifference::Fail), half)?.0?;
    Ok(())
}

#[test]
fn a_scope_names_the_op_that_is_wrong_forward_and_backward() -> Result<()> {
    // A fault in an op that the program calls, in one that only its backward pass calls, and in one
    // that changes its input.
    for op in ["matmul", "log_softmax_grad", "copy", "scatter_add"] {
        let (faulty, struck) = Faulty::device(op, Fault::Adds(0.01));
        let (result, report) = check_ops(against_cpu(OnDifference::Fail), || program(&faulty))?;
        assert!(struck.load(Ordering::Relaxed), "{op} was not called");
        let Err(Error::Mismatch { op: named, left, right, detail }) = result else {
            panic!("{op}: no error")
        };
        assert_eq!((named, left.as_str(), right.as_str()), (op, "faulty", "cpu"));
        assert!(detail.to_string().contains("first at ["), "{detail}");
        assert!(report.differences.is_empty());
    }
    Ok(())
}

#[test]
fn a_scope_collects_and_the_program_goes_on() -> Result<()> {
    let (faulty, _) = Faulty::device("exp", Fault::Adds(0.5));
    let x = Tensor::full([2, 3], 0.5f32, DType::F32, &faulty)?;
    let ((first, second), report) = check_ops(against_cpu(OnDifference::Collect), || {
        Ok::<_, Error>((x.exp()?.to_vec::<f32>()?, x.exp()?.mul_scalar(2.0)?.to_vec::<f32>()?))
    })
    .and_then(|(result, report)| Ok((result?, report)))?;
    assert!((first[5] - first[4] - 0.5).abs() < 1e-6 && (second[5] - second[4] - 1.0).abs() < 1e-6);
    assert_eq!((report.compared, report.differences.len()), (3, 2));
    assert!(report.differences[0].to_string().starts_with("exp: faulty and cpu differ"), "{report:?}");
    // There is no scope any more.
    assert_eq!(x.exp()?.to_vec::<f32>()?, first);
    Ok(())
}

#[test]
fn a_scope_allows_what_it_is_configured_to() -> Result<()> {
    let cpu = ternion_cpu::device();
    let (faulty, _) = Faulty::device("sin", Fault::Adds(1e-6));
    let x = Tensor::full([4], 0.5f32, DType::F32, &faulty)?;
    let checked = |factor| {
        let config = CheckConfig { against: cpu.clone(), factor, on_difference: OnDifference::Fail };
        check_ops(config, || x.sin()).map(|(result, _)| result)
    };
    assert!(checked(1.0)?.is_ok());
    assert!(matches!(checked(0.0)?, Err(Error::Mismatch { op: "sin", .. })));
    assert!(detail(checked(-1.0)).contains("factor -1, expected a finite number of at least 0"));
    // On the reference itself there is nothing to compare. If scopes are nested, the inner one
    // compares.
    let own = Tensor::full([4], 0.5f32, DType::F32, &cpu)?;
    assert_eq!(check_ops(against_cpu(OnDifference::Fail), || own.sin())?.1.compared, 1);
    let on_itself = CheckConfig { against: cpu.clone(), ..against_cpu(OnDifference::Fail) };
    assert_eq!(check_ops(on_itself, || own.sin())?.1.compared, 0);
    let inner = || check_ops(against_cpu(OnDifference::Collect), || x.sin());
    let (inner, outer) = check_ops(against_cpu(OnDifference::Fail), inner)?;
    assert_eq!((inner?.1.compared, outer.compared), (1, 0));
    Ok(())
}

#[test]
fn a_copy_that_broadcasts_is_compared_in_its_layout() -> Result<()> {
    let (faulty, _) = Faulty::device("copy", Fault::Adds(1.0));
    let ones = |device: &Device| Tensor::ones([3], DType::F32, device);
    let right = Composed::new(ternion_cpu::device());
    let put = |device: &Device| Tensor::zeros([2, 3], DType::F32, device)?.copy_(&ones(device)?);
    check_ops(against_cpu(OnDifference::Fail), || put(&right))?.0?;
    let wrong = check_ops(against_cpu(OnDifference::Fail), || put(&faulty))?.0;
    assert!(detail(wrong).contains("copy: faulty and cpu differ: output 0 from [2, 3] f32"));
    Ok(())
}
