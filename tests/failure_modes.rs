//! Typical faults of a training stack written from scratch (docs/gradients.md). Each test shows
//! that the fault cannot occur here, or that a tool names it.

use std::sync::Mutex;
use ternion::prelude::*;
use ternion_core::autograd::observe_backward;
use ternion_core::backend::{Backend, Buffer, View};
use ternion_core::{Error, GradOptions, Op, grad, no_grad};
use ternion_testing::{OpCase, gradcheck, suite};

fn matrix(values: &[f64], shape: [usize; 2], device: &Device) -> Result<Tensor> {
    Tensor::from_slice(values, shape, device)
}

fn leaf(values: &[f64], device: &Device) -> Result<Tensor> {
    Tensor::from_slice(values, [values.len()], device)?.requires_grad()
}

fn close(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= 1e-12 * want.abs().max(1.0), "element {index}: {got}, want {want}");
    }
}

/// 1. Gradient buffers are never zeroed: memory is read before it is written, or the gradient of an
///    earlier step is added to the current one.
#[test]
fn gradients_do_not_start_from_old_memory() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0, 2.0, 3.0, 4.0], &device)?;
    let mut first = None;
    for _ in 0..3 {
        // Leaves memory full of NaN in the pool, which the next allocations reuse.
        let poison: Vec<Tensor> =
            (0..8).map(|_| Tensor::full([4], f64::NAN, DType::F64, &device)).collect::<Result<_>>()?;
        drop(poison);
        let loss = x.narrow(0, 1, 2)?.square()?.sum_all()?;
        let got = loss.backward()?.remove(&x).expect("x is used").to_vec::<f64>()?;
        assert_eq!(got, [0.0, 4.0, 6.0, 0.0]);
        assert_eq!(*first.get_or_insert(got.clone()), got, "a later pass must not add to an earlier one");
    }
    Ok(())
}

/// 2. A node reached by two paths is propagated twice. 3. A gradient is set where it must be
///    accumulated.
#[test]
fn a_shared_node_gets_the_sum_and_passes_it_on_once() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[3.0], &device)?;
    let shared = x.square()?;
    let visits = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = visits.clone();
    let loss = shared.mul(&shared)?.add(&shared)?.sum_all()?;
    let watch = move |op: &'static str, _: &mut ternion_core::autograd::Grads| {
        count.set(count.get() + usize::from(op == "square"));
        Ok(())
    };
    let gradients = observe_backward(watch, || loss.backward())?;
    // x^4 + x^2: 4 x^3 + 2 x.
    assert_eq!(gradients.get(&x).expect("x").to_vec::<f64>()?, [114.0]);
    assert_eq!(visits.get(), 1);
    Ok(())
}

/// 4. A layer is missing from `parameters()`, or a parameter does not contribute to the loss: it
///    silently never changes.
#[test]
fn a_parameter_without_gradient_is_named() -> Result<()> {
    #[derive(Module)]
    struct TwoHeads {
        used: Linear,
        forgotten: Linear,
    }
    let device = ternion::cpu()?;
    let model = TwoHeads { used: Linear::new(2, 1, &device)?, forgotten: Linear::new(2, 1, &device)? };
    let names: Vec<String> = model.named_parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["used.weight", "used.bias", "forgotten.weight", "forgotten.bias"]);
    let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
    let x = Tensor::ones([4, 2], DType::F32, &device)?;
    let loss = model.used.forward(&x)?.square()?.mean_all()?;
    let text = adam.step(&loss.backward()?).expect_err("the second head has no gradient").to_string();
    assert!(
        text.starts_with("no gradient for ")
            && text.contains("forgotten.weight")
            && text.contains("forgotten.bias"),
        "{text}"
    );
    assert!(!text.contains("used."), "{text}");
    Ok(())
}

/// 4. The same by hand: a `visit` that forgets a layer, or an optimizer that gets only some of the
///    parameters.
#[test]
fn a_gradient_that_matches_no_parameter_is_reported() -> Result<()> {
    struct Forgetful {
        named: Linear,
        unnamed: Linear,
    }
    impl Module for Forgetful {
        fn visit(&self, visitor: &mut ternion::nn::Visitor<'_>) {
            visitor.field("named", &self.named);
        }
    }
    let device = ternion::cpu()?;
    let model = Forgetful { named: Linear::new(2, 3, &device)?, unnamed: Linear::new(3, 1, &device)? };
    let mut sgd = SGD::new(model.parameters(), SGDConfig::default())?;
    let before = model.named.weight.tensor().to_vec::<f32>()?;
    let run = |x: &Tensor| model.unnamed.forward(&model.named.forward(x)?)?.square()?.mean_all()?.backward();
    let x = Tensor::ones([4, 2], DType::F32, &device)?;
    let gradients = run(&x)?;
    let text = sgd.step_strict(&gradients).expect_err("unnamed is not trained").to_string();
    assert_eq!(
        text,
        "step: 2 of 4 gradients belong to no parameter of this optimizer, of shapes [1], [1, 3]: is a layer missing from parameters()?"
    );
    assert_eq!(model.named.weight.tensor().to_vec::<f32>()?, before, "nothing is changed");
    // With all parameters, no gradient is unmatched. An input that requires a gradient on purpose
    // is reported, but the ordinary step accepts it.
    let all = [model.named.parameters(), model.unnamed.parameters()].concat();
    let mut sgd = SGD::new(all.clone(), SGDConfig::default())?;
    sgd.step_strict(&gradients)?;
    let input = x.requires_grad()?;
    let gradients = run(&input)?;
    let tensors: Vec<Tensor> = all.iter().map(Param::tensor).collect();
    let unmatched: Vec<_> = gradients.unmatched(&tensors).into_iter().map(|(id, _)| Some(id)).collect();
    assert_eq!(unmatched, [input.id()]);
    assert!(sgd.step_strict(&gradients).is_err());
    sgd.step(&gradients)
}

/// 4. Gradients from before a cast belong to the parameters before the cast.
#[test]
fn gradients_older_than_a_cast_are_reported() -> Result<()> {
    let device = ternion::cpu()?;
    let model = Linear::new(2, 1, &device)?;
    let mut sgd = SGD::new(model.parameters(), SGDConfig::default())?;
    let x = Tensor::ones([4, 2], DType::F32, &device)?;
    let gradients = model.forward(&x)?.mean_all()?.backward()?;
    model.to_dtype(DType::F64)?;
    let text = sgd.step(&gradients).expect_err("old gradients").to_string();
    assert!(text.contains("the gradients are older than"), "{text}");
    Ok(())
}

/// 5. A byte-wise memset is used to fill with ones: 0x01010101 is 2.4e-38, not 1.
#[test]
fn ones_are_ones_in_every_dtype() -> Result<()> {
    let device = ternion::cpu()?;
    for dtype in DType::ALL {
        let ones = Tensor::ones([67], dtype, &device)?;
        assert_eq!(ones.to_vec_f64()?, [1.0; 67], "{dtype}");
        ones.fill_(0.0)?;
        assert_eq!(ones.to_vec_f64()?, [0.0; 67], "{dtype}");
    }
    Ok(())
}

/// 6. A one-dimensional tensor is read as two-dimensional: a bias that becomes a column, a product
///    along the wrong axis.
#[test]
fn ranks_are_checked_and_a_bias_is_a_row() -> Result<()> {
    let device = ternion::cpu()?;
    let x = matrix(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3], &device)?;
    let bias = Tensor::from_slice(&[10.0, 20.0, 30.0], [3], &device)?;
    assert_eq!(x.add(&bias)?.to_vec::<f64>()?, [11.0, 22.0, 33.0, 14.0, 25.0, 36.0]);
    let short = Tensor::from_slice(&[1.0, 2.0], [2], &device)?;
    assert_eq!(
        x.add(&short).expect_err("no broadcast").to_string(),
        "add: shapes [2, 3] and [2] do not broadcast"
    );
    let text = x.matmul(&x).expect_err("inner sizes").to_string();
    assert_eq!(text, "matmul: [2, 3] x [2, 3]: inner sizes 3 and 2 differ");
    assert_eq!(x.matmul(&bias)?.dims(), [2], "a vector on the right is a column that disappears again");
    let text = x.sizes::<1>().expect_err("two axes").to_string();
    assert_eq!(text, "sizes: expected 1 axes, got shape [2, 3]");
    Ok(())
}

/// 7. Host memory is freed, or reused, before an asynchronous copy from it has ended.
#[test]
fn host_memory_may_change_as_soon_as_a_tensor_exists() -> Result<()> {
    let device = ternion::cpu()?;
    let mut host = vec![1.0f32; 1 << 16];
    let tensors = (0..8)
        .map(|round| {
            host.fill(round as f32);
            let tensor = Tensor::from_slice(&host, [host.len()], &device);
            host.fill(f32::NAN);
            tensor
        })
        .collect::<Result<Vec<_>>>()?;
    drop(host);
    for (round, tensor) in tensors.iter().enumerate() {
        assert!(tensor.to_vec::<f32>()?.iter().all(|&value| value == round as f32), "round {round}");
    }
    Ok(())
}

/// 8. Bias correction is missing: the first steps of Adam are a thousand times too small or ten
///    times too large.
#[test]
fn the_first_step_of_adam_is_the_learning_rate() -> Result<()> {
    let device = ternion::cpu()?;
    for gradient in [1e-3f64, 1.0, -250.0] {
        let weight = Param::new(&Tensor::zeros([1], DType::F64, &device)?)?;
        let mut adam = Adam::new(vec![weight.clone()], AdamConfig { lr: 0.1, ..Default::default() })?;
        let loss = weight.tensor().mul_scalar(gradient)?.sum_all()?;
        adam.step(&loss.backward()?)?;
        let moved = weight.tensor().to_vec::<f64>()?[0];
        // lr * g / (|g| + eps): the learning rate itself, whatever the magnitude of the gradient.
        assert!((moved + 0.1 * gradient.signum()).abs() <= 1e-5, "{gradient}: {moved}");
    }
    Ok(())
}

/// 9. The wrong transposition in dX or dW. Square matrices hide it; here all sizes differ.
#[test]
fn the_gradients_of_a_product_have_the_right_transpositions() -> Result<()> {
    let device = ternion::cpu()?;
    let x = matrix(&[0.5, -1.0, 2.0, 1.5, 0.25, -0.75], [2, 3], &device)?.requires_grad()?;
    let w = matrix(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0], [3, 4], &device)?
        .requires_grad()?;
    let dy = [1.0, -2.0, 0.5, 3.0, 2.0, 1.0, -1.0, 0.25];
    let cotangent = matrix(&dy, [2, 4], &device)?;
    let found = grad(&[x.matmul(&w)?], &[x.clone(), w.clone()], &[cotangent], GradOptions::default())?;
    let (xs, ws) = (x.to_vec::<f64>()?, w.to_vec::<f64>()?);
    let dx: Vec<f64> = (0..6).map(|i| (0..4).map(|j| dy[i / 3 * 4 + j] * ws[i % 3 * 4 + j]).sum()).collect();
    let dw: Vec<f64> = (0..12).map(|i| (0..2).map(|r| xs[r * 3 + i / 4] * dy[r * 4 + i % 4]).sum()).collect();
    close(&found[0].as_ref().expect("dx").to_vec::<f64>()?, &dx);
    close(&found[1].as_ref().expect("dw").to_vec::<f64>()?, &dw);
    gradcheck(|inputs| inputs[0].matmul(&inputs[1]), &[x.detach(), w.detach()])?;
    Ok(())
}

/// Inputs that are square matrices by definition.
const SQUARE_MATRICES: [(&str, usize); 19] = [
    ("linalg.det", 0),
    ("linalg.slogdet", 0),
    ("logdet", 0),
    ("linalg.inv", 0),
    ("linalg.inv_ex", 0),
    ("linalg.solve_ex", 0),
    ("linalg.solve", 0),
    ("linalg.lu_solve", 0),
    ("linalg.solve_triangular", 0),
    ("cholesky_solve", 1),
    ("cholesky_inverse", 0),
    ("linalg.cholesky", 0),
    ("linalg.cholesky_ex", 0),
    ("linalg.eigh", 0),
    ("linalg.eigvalsh", 0),
    ("linalg.lu_factor_ex", 0),
    ("linalg.cond", 0),
    ("linalg.matrix_power", 0),
    ("linalg.matrix_exp", 0),
];

/// 9, for every op: matrix inputs are also tested with different numbers of rows and columns,
/// forward and backward.
#[test]
fn the_op_table_uses_no_square_shapes_alone() {
    let oblong =
        |shape: &[usize]| matches!(shape, [.., rows, columns] if rows != columns && !shape.contains(&0));
    let mut square = Vec::new();
    for (op, rows) in suite::rows_by_op() {
        for position in 0..rows.iter().map(|row| row.inputs.len()).max().unwrap_or(0) {
            let shapes = |of: &dyn Fn(&OpCase) -> bool| -> Vec<Vec<usize>> {
                let rows = rows.iter().filter(|row| of(row));
                let shapes =
                    rows.flat_map(|row| &row.instances).filter_map(|instance| instance.get(position));
                shapes.filter(|shape| shape.len() >= 2).cloned().collect()
            };
            let forward = shapes(&|_| true);
            let backward = shapes(&|row| row.forward_only.is_none() && row.has_gradient());
            let is_only =
                |shapes: &[Vec<usize>]| !shapes.is_empty() && !shapes.iter().any(|shape| oblong(shape));
            let is_square = SQUARE_MATRICES.contains(&(op, position));
            if !is_square && (is_only(&forward) || is_only(&backward)) {
                square.push(format!("{op}, input {position}"));
            }
        }
    }
    assert!(square.is_empty(), "only square: {square:#?}");
}

/// 10. A mean loss has the gradient of a sum: the step grows with the batch.
#[test]
fn a_mean_loss_has_a_mean_gradient() -> Result<()> {
    let device = ternion::cpu()?;
    let weight = leaf(&[0.5], &device)?;
    let gradient_for = |batch: usize| -> Result<f64> {
        let x = Tensor::full([batch], 2.0, DType::F64, &device)?;
        let target = Tensor::full([batch], 3.0, DType::F64, &device)?;
        let loss = x.mul(&weight)?.mse_loss(&target, Reduction::Mean)?;
        loss.backward()?.get(&weight).expect("weight").item_f64()
    };
    close(&[gradient_for(1)?, gradient_for(8)?, gradient_for(100)?], &[-8.0, -8.0, -8.0]);
    Ok(())
}

/// 11. An output is held by a weak reference, and dropped before the backward pass reaches it.
#[test]
fn intermediate_results_may_be_dropped_before_backward() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[0.3, -0.2], &device)?;
    let loss = {
        let hidden = x.tanh()?;
        let output = hidden.exp()?;
        output.sum_all()?
    };
    // New tensors reuse the memory that a wrong implementation would have freed.
    let _others: Vec<Tensor> =
        (0..16).map(|_| Tensor::full([2], f64::NAN, DType::F64, &device)).collect::<Result<_>>()?;
    let got = loss.backward()?.get(&x).expect("x").to_vec::<f64>()?;
    let want = [0.3f64, -0.2].map(|x| x.tanh().exp() * (1.0 - x.tanh().powi(2)));
    close(&got, &want);
    Ok(())
}

/// 12. A launch error is not checked: the program continues with garbage.
#[test]
fn what_a_device_cannot_do_is_an_error_not_garbage() -> Result<()> {
    let device = ternion::cpu()?;
    let table = Tensor::ones([10, 4], DType::F32, &device)?;
    let index = Tensor::from_slice(&[3i64, 10], [2], &device)?;
    let outcome = table.embedding(&index).and_then(|rows| device.synchronize().map(|()| rows));
    let text = outcome.expect_err("there is no row 10").to_string();
    assert!(text.ends_with("index 10 is out of range for size 10"), "{text}");
    let logits = Tensor::ones([1, 3], DType::F32, &device)?;
    let target = Tensor::from_slice(&[-1i64], [1], &device)?;
    let text = logits.cross_entropy(&target).expect_err("there is no class -1").to_string();
    assert!(text.contains("index -1 is out of range for size 3"), "{text}");
    assert!(Tensor::zeros([usize::MAX / 16], DType::F64, &device).is_err(), "more memory than there is");
    Ok(())
}

/// A device that runs ops like a stream of a GPU: `run` queues the op and succeeds, and an error is
/// known only at the next synchronization.
#[derive(Debug)]
struct Deferred {
    inner: Device,
    /// The op whose launch fails.
    failing: &'static str,
    fault: Mutex<Option<Error>>,
}

impl Deferred {
    fn device(failing: &'static str) -> Result<Device> {
        Ok(Device::new(Deferred { inner: ternion::cpu()?, failing, fault: Mutex::new(None) }))
    }

    /// Synchronizes the queue and returns the error of an earlier op once.
    fn wait(&self) -> Result<()> {
        self.fault.lock().expect("no test panics in here").take().map_or(Ok(()), Err)
    }
}

impl Backend for Deferred {
    ternion_core::delegate_backend!(inner: alloc, upload, plan, memory);

    fn name(&self) -> &str {
        "deferred"
    }
    fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()> {
        self.wait()?;
        self.inner.backend().download(from, offset_bytes, host)
    }
    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        if op.name() == self.failing {
            let fault = Error::invalid(op.name(), "the launch failed");
            self.fault.lock().expect("no test panics in here").get_or_insert(fault);
            return Ok(());
        }
        self.inner.backend().run(op, inputs, outputs)
    }
    fn synchronize(&self) -> Result<()> {
        self.wait()
    }
}

/// 12, on a device that reports it later: no number can be read without the error.
#[test]
fn a_launch_error_that_comes_late_surfaces_before_any_number_is_read() -> Result<()> {
    const FAULT: &str = "exp: the launch failed";
    let device = Deferred::device("exp")?;
    let queued = || Tensor::ones([3], DType::F32, &device)?.exp()?.add_scalar(1.0);
    let waits: [(&str, fn(&Tensor) -> Result<()>); 6] = [
        ("synchronize", |tensor| tensor.device().synchronize()),
        ("to_vec", |tensor| tensor.to_vec::<f32>().map(drop)),
        ("item", |tensor| tensor.sum_all()?.item_f64().map(drop)),
        ("to_device", |tensor| tensor.to_device(&ternion::cpu()?).map(drop)),
        ("stats", |tensor| tensor.stats().map(drop)),
        ("to_bytes", |tensor| tensor.to_bytes().map(drop)),
    ];
    for (name, wait) in waits {
        let text = wait(&queued()?).expect_err(name).to_string();
        assert_eq!(text, FAULT, "{name}");
    }
    // During a whole step: forward, backward and the optimizer are queued, and reading the loss
    // returns the error.
    let weight = Param::new(&Tensor::ones([3], DType::F32, &device)?)?;
    let mut sgd = SGD::new(vec![weight.clone()], SGDConfig::default())?;
    let loss = weight.tensor().exp()?.sum_all()?;
    sgd.step(&loss.backward()?)?;
    assert_eq!(loss.item::<f32>().expect_err("the loss is garbage").to_string(), FAULT);
    // Displaying a tensor cannot fail: it shows the error instead of numbers.
    let text = queued()?.to_string();
    assert!(text.contains(FAULT), "{text}");
    Ok(())
}

/// 13. A learning rate that hides a wrong gradient scale: training "works" at 1e-5 because every
///     gradient is a thousand times too large.
#[test]
fn a_wrong_gradient_scale_is_found_without_training() -> Result<()> {
    let device = ternion::cpu()?;
    let x = matrix(&[0.5, -1.0, 2.0, 1.5, 0.25, -0.75], [2, 3], &device)?;
    let inputs = [x];
    let check = || gradcheck(|inputs| inputs[0].tanh(), &inputs);
    check()?;
    for factor in [1000.0, 1.01, 0.0, -1.0] {
        let scale = move |_: &'static str, grads: &mut ternion_core::autograd::Grads| {
            for grad in grads.iter_mut().flatten() {
                *grad = no_grad(|| grad.mul_scalar(factor))?;
            }
            Ok(())
        };
        let outcome = observe_backward(scale, check);
        assert!(outcome.is_err(), "a gradient times {factor} went unseen");
    }
    Ok(())
}

/// 14. The gradient of a broadcast operand is not summed: it has the wrong shape, or only the last
///     row's value.
#[test]
fn the_gradient_of_a_bias_is_summed_over_the_batch() -> Result<()> {
    let device = ternion::cpu()?;
    let bias = leaf(&[0.0, 0.0], &device)?;
    let x = matrix(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2], &device)?;
    let gradients = x.mul(&x.add(&bias)?)?.sum_all()?.backward()?;
    assert_eq!(gradients.get(&bias).expect("bias").to_vec::<f64>()?, [9.0, 12.0]);
    Ok(())
}

/// 15. A tensor that backward needs is overwritten in between.
#[test]
fn overwriting_what_backward_needs_is_an_error() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[2.0], &device)?;
    let loss = x.square()?.sum_all()?;
    no_grad(|| x.fill_(7.0))?;
    let text = loss.backward().err().expect("square needs its input").to_string();
    assert!(text.contains("was changed in place after it was saved"), "{text}");
    Ok(())
}

/// 16. An op produces a NaN, which is visible only as a loss of NaN, hundreds of ops later.
#[test]
fn the_first_nan_is_named() -> Result<()> {
    let device = ternion_core::decorators::NanCheck::new(ternion::cpu()?);
    let x = Tensor::from_slice(&[1.0, -1.0], [2], &device)?;
    let text = x.exp()?.neg()?.log().expect_err("the logarithm of a negative number").to_string();
    assert!(text.starts_with("log: "), "{text}");
    Ok(())
}

/// 17. A kernel is wrong on one device only.
#[test]
fn a_wrong_kernel_is_named_by_a_checked_device() -> Result<()> {
    use ternion_testing::faults::{Fault, Faulty};
    use ternion_testing::phase::Phase;
    let (wrong, _) = Faulty::device(&ternion::cpu()?, Fault::LastElementOff, "tanh", Phase::Idle, DType::F32);
    let device = ternion_core::decorators::Checked::new(wrong, ternion::cpu()?);
    let x = Tensor::from_slice(&[0.1f32, 0.2, 0.3], [3], &device)?;
    let text = x.exp()?.tanh().expect_err("tanh is wrong").to_string();
    assert!(text.starts_with("tanh: "), "{text}");
    Ok(())
}
