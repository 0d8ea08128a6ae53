//! What gradient rules fuse: sums of gradients, the gradients of activations, and gradients of
//! parts of one tensor. The results match those of the unfused backward pass. Nothing is fused
//! where individual gradients are observed, or inside `without_fusion`.

mod unfused;

use ternion::prelude::*;
use ternion_core::autograd::observe_backward;
use ternion_core::ops::matmul::{LinearParameters, MatmulOptions};
use ternion_core::{Op, UnaryOp, observe_ops, without_fusion};

/// Returns the names of the ops that `f` applies.
fn applied<T>(f: impl FnOnce() -> Result<T>) -> Result<(T, Vec<&'static str>)> {
    let names = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = names.clone();
    let observer = move |call: &ternion_core::OpCall<'_>| {
        seen.borrow_mut().push(call.op.name());
        Ok(())
    };
    let found = observe_ops(observer, f)?;
    Ok((found, names.take()))
}

fn count(names: &[&str], name: &str) -> usize {
    names.iter().filter(|&&other| other == name).count()
}

fn normal(shape: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::randn(shape, DType::F32, device)?.requires_grad()
}

/// Returns the gradients of `loss` with fusion, the gradients of a backward pass in which an
/// observer sees each gradient, and the ops of the fused pass.
fn both(loss: impl Fn() -> Result<Tensor>) -> Result<(Gradients, Gradients, Vec<&'static str>)> {
    let value = loss()?;
    let (fused, names) = applied(|| value.backward())?;
    let value = loss()?;
    let unfused = observe_backward(|_, _| Ok(()), || value.backward())?;
    Ok((fused, unfused, names))
}

fn assert_close(found: &Tensor, expected: &Tensor, limit: f64) -> Result<()> {
    assert_eq!(found.dims(), expected.dims());
    for (found, expected) in found.to_vec_f64()?.iter().zip(expected.to_vec_f64()?) {
        assert!((found - expected).abs() <= limit * (1.0 + expected.abs()), "{found} instead of {expected}");
    }
    Ok(())
}

fn assert_same(fused: &Gradients, unfused: &Gradients, leaves: &[&Tensor], limit: f64) -> Result<()> {
    for leaf in leaves {
        let of = |gradients: &Gradients| gradients.get(leaf).cloned().expect("a gradient");
        assert_close(&of(fused), &of(unfused), limit)?;
    }
    Ok(())
}

#[test]
fn the_residuals_gradient_is_added_by_the_norm() -> Result<()> {
    let device = ternion::cpu()?;
    let x = normal(&[3, 4, 16], &device)?;
    let (weight, bias) = (normal(&[16], &device)?, normal(&[16], &device)?);
    for centered in [true, false] {
        let loss = || {
            let normal = match centered {
                true => x.layer_norm(Some(&weight), Some(&bias), 1e-5)?,
                false => x.rms_norm(Some(&weight), 1e-5)?,
            };
            x.add(&normal.tanh()?)?.square()?.sum_all()
        };
        let (fused, unfused, names) = both(loss)?;
        assert_eq!(count(&names, "add"), 0, "{names:?}");
        let leaves: &[&Tensor] = if centered { &[&x, &weight, &bias] } else { &[&x, &weight] };
        assert_same(&fused, &unfused, leaves, 0.0)?;
    }
    Ok(())
}

#[test]
fn an_embedding_adds_to_the_gradient_of_its_tied_head() -> Result<()> {
    let device = ternion::cpu()?;
    let table = normal(&[7, 5], &device)?;
    let tokens = Tensor::from_slice(&[3i64, 0, 3, 6], [4], &device)?;
    let loss = || table.index_select(0, &tokens)?.linear(&table, None)?.square()?.sum_all();
    let (fused, unfused, names) = both(loss)?;
    assert_eq!((count(&names, "add"), count(&names, "fill")), (0, 1), "one fill, of the loss: {names:?}");
    assert_same(&fused, &unfused, &[&table], 1e-6)
}

#[test]
fn a_product_accumulates_into_the_gradient_of_its_input() -> Result<()> {
    let device = ternion::cpu()?;
    let x = normal(&[6, 5], &device)?;
    let weights = [normal(&[4, 5], &device)?, normal(&[4, 5], &device)?, normal(&[4, 5], &device)?];
    let loss = || {
        let [q, k, v] = [0, 1, 2].map(|at: usize| x.linear(&weights[at], None));
        q?.mul(&k?)?.add(&v?)?.square()?.sum_all()
    };
    let (fused, unfused, names) = both(loss)?;
    assert_eq!(count(&names, "add"), 0, "{names:?}");
    assert_same(&fused, &unfused, &[&x, &weights[0], &weights[1], &weights[2]], 1e-5)?;
    // One tensor as both operands: each gradient is counted once.
    let square = normal(&[5, 5], &device)?;
    let (fused, unfused, _) = both(|| square.matmul(&square)?.add(&square)?.square()?.sum_all())?;
    assert_same(&fused, &unfused, &[&square], 1e-5)
}

struct Layers {
    x: Tensor,
    parameters: [Tensor; 4],
}

impl Layers {
    fn new(device: &Device) -> Result<Layers> {
        let parameters = [
            normal(&[12, 8], device)?,
            normal(&[12], device)?,
            normal(&[8, 12], device)?,
            normal(&[8], device)?,
        ];
        Ok(Layers { x: normal(&[2, 3, 8], device)?, parameters })
    }

    fn loss(&self, activation: UnaryOp) -> Result<Tensor> {
        let [w1, b1, w2, b2] = &self.parameters;
        let [first, second] =
            [(w1, b1), (w2, b2)].map(|(weight, bias)| LinearParameters { weight, bias: Some(bias) });
        self.x.feed_forward(first, activation, second, Some(&self.x))?.square()?.sum_all()
    }

    /// Computes the same with separate layers.
    fn plain_loss(&self, activation: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        let [w1, b1, w2, b2] = &self.parameters;
        let hidden = activation(&self.x.linear(w1, Some(b1))?)?;
        self.x.add(&hidden.linear(w2, Some(b2))?)?.square()?.sum_all()
    }

    fn leaves(&self) -> Vec<&Tensor> {
        [&self.x].into_iter().chain(&self.parameters).collect()
    }
}

#[test]
fn the_gradient_of_an_activation_is_fused_with_that_of_the_product() -> Result<()> {
    let layers = Layers::new(&ternion::cpu()?)?;
    for (op, name) in [
        (UnaryOp::GeluTanh, "gelu_tanh_grad"),
        (UnaryOp::GeluErf, "gelu_erf_grad"),
        (UnaryOp::Silu, "silu_grad"),
        (UnaryOp::Relu, "relu_grad"),
    ] {
        let (fused, unfused, names) = both(|| layers.loss(op))?;
        // The sums of both biases are outputs of the products for the gradients of their weights.
        assert_eq!((count(&names, name), count(&names, "sum")), (0, 0), "{names:?}");
        assert_same(&fused, &unfused, &layers.leaves(), 1e-5)?;
    }
    type Function = fn(&Tensor) -> Result<Tensor>;
    let plain: [(UnaryOp, Function); 5] = [
        (UnaryOp::GeluTanh, Tensor::gelu_tanh),
        (UnaryOp::GeluErf, Tensor::gelu),
        (UnaryOp::Silu, Tensor::silu),
        (UnaryOp::Relu, Tensor::relu),
        (UnaryOp::Tanh, Tensor::tanh),
    ];
    for (op, activation) in plain {
        let expected = layers.plain_loss(activation)?;
        let found = layers.loss(op)?;
        assert_close(&found, &expected, 1e-5)?;
        assert_same(&found.backward()?, &expected.backward()?, &layers.leaves(), 1e-4)?;
    }
    Ok(())
}

/// Returns how many products of the backward pass also compute sums of the rows of their left
/// operand, and how many compute sums of its columns.
fn products_with_sums(loss: &Tensor) -> Result<(Gradients, [usize; 2])> {
    let counts = std::rc::Rc::new(std::cell::Cell::new([0, 0]));
    let seen = counts.clone();
    let observer = move |call: &ternion_core::OpCall<'_>| {
        if let Op::Matmul(product) = call.op {
            let [rows, columns] = seen.get();
            let epilogue = product.epilogue;
            let [of_rows, of_columns] = [epilogue.row_sums_of_a, epilogue.column_sums].map(usize::from);
            seen.set([rows + of_rows, columns + of_columns]);
        }
        Ok(())
    };
    let gradients = observe_ops(observer, || loss.backward())?;
    Ok((gradients, counts.get()))
}

/// Another use of relu's result adds to a gradient that is already 0 where relu was: relu's rule is
/// then applied to the sum.
#[test]
fn gradients_of_several_uses_of_relu_go_through_it_once() -> Result<()> {
    let layers = Layers::new(&ternion::cpu()?)?;
    let [w1, b1, w2, b2] = &layers.parameters;
    let first = MatmulOptions { bias: Some(b1), activation: Some(UnaryOp::Relu), ..Default::default() };
    let rows = || layers.x.reshape([6, 8]);
    let hidden = || rows()?.matmul_with(&w1.t()?, first);
    let scale = normal(&[6, 12], &ternion::cpu()?)?;
    type Loss<'a> = &'a dyn Fn(&Tensor) -> Result<Tensor>;
    let product: Loss<'_> = &|y| y.linear(w2, Some(b2))?.square()?.sum_all();
    let with_scalar_path: Loss<'_> = &|y| product(y)?.add(&y.mul(&scale)?.sum_all()?);
    let two: Loss<'_> = &|y| product(y)?.add(&y.matmul(&w2.t()?)?.sum_all()?);
    let before: Loss<'_> = &|y| y.mul(&scale)?.sum_all()?.add(&product(y)?);
    for loss in [product, with_scalar_path, two, before] {
        let (fused, unfused, _) = both(|| loss(&hidden()?))?;
        assert_same(&fused, &unfused, &[&layers.x, w1, b1, w2], 1e-5)?;
        let plain = loss(&rows()?.linear(w1, Some(b1))?.relu()?)?.backward()?;
        assert_same(&fused, &plain, &[&layers.x, w1, b1, w2], 1e-5)?;
    }
    // A request for the gradient of relu's result returns the complete gradient.
    let y = hidden()?;
    let one = Tensor::ones((), DType::F32, y.device())?;
    let found = grad(&[product(&y)?], &[y.clone()], &[one], Default::default())?;
    let expected = y.detach().linear(w2, Some(b2))?.mul_scalar(2.0)?.matmul(w2)?;
    assert_close(found[0].as_ref().expect("the gradient of relu's result"), &expected.detach(), 1e-5)
}

#[test]
fn the_bias_before_an_activation_uses_sums_of_columns_without_the_gradient_of_its_weight() -> Result<()> {
    let cases = [(None, [2, 0]), (Some(0), [1, 1]), (Some(1), [1, 0])];
    for (op, (fixed, expected)) in
        [UnaryOp::GeluTanh, UnaryOp::Relu].into_iter().flat_map(|op| cases.map(|case| (op, case)))
    {
        let mut layers = Layers::new(&ternion::cpu()?)?;
        if let Some(fixed) = fixed {
            layers.parameters[fixed] = layers.parameters[fixed].detach();
        }
        let (fused, counts) = products_with_sums(&layers.loss(op)?)?;
        assert_eq!(counts, expected, "{op:?} without a gradient of parameter {fixed:?}");
        let loss = layers.loss(op)?;
        let unfused = observe_backward(|_, _| Ok(()), || loss.backward())?;
        let leaves: Vec<&Tensor> = layers.leaves().into_iter().filter(|leaf| leaf.needs_grad()).collect();
        assert_eq!(leaves.len(), 5 - usize::from(fixed.is_some()));
        assert_same(&fused, &unfused, &leaves, 1e-5)?;
    }
    Ok(())
}

/// The name of the product; its result for input, weight and bias; and the number of separate sums,
/// which are not fused with products.
type BiasCase<'a> = (&'a str, &'a dyn Fn(&[Tensor; 3]) -> Result<Tensor>, usize);

#[test]
fn the_gradient_of_a_bias_comes_with_that_of_the_weight() -> Result<()> {
    let device = ternion::cpu()?;
    let leaves = [normal(&[2, 9, 5], &device)?, normal(&[4, 5], &device)?, normal(&[4], &device)?];
    let linear = |[x, weight, bias]: &[Tensor; 3]| x.linear(weight, Some(bias));
    let rows = |[x, weight, bias]: &[Tensor; 3]| {
        // The right operand is row-major: the sums would be of its rows.
        let options = MatmulOptions { bias: Some(bias), ..Default::default() };
        x.matmul_with(&weight.t()?.contiguous()?, options)
    };
    let twice = |leaves: &[Tensor; 3]| linear(leaves)?.add(&linear(leaves)?.tanh()?);
    let fixed = |[x, weight, bias]: &[Tensor; 3]| x.linear(&weight.detach(), Some(bias));
    let residual = |[x, weight, bias]: &[Tensor; 3]| {
        let parameters = LinearParameters { weight, bias: Some(bias) };
        x.linear_add(parameters, &x.narrow(2, 0, 4)?)
    };
    let cases: [BiasCase<'_>; 5] = [
        ("linear", &linear, 0),
        ("by rows", &rows, 1),
        ("a weight twice", &twice, 0),
        ("no gradient of the weight", &fixed, 1),
        ("with a residual", &residual, 0),
    ];
    for (what, f, sums) in cases {
        for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
            let loss = || with_precision(precision, || f(&leaves))?.to_dtype(DType::F32)?.square()?.sum_all();
            let (fused, unfused, names) = both(loss)?;
            assert_eq!(count(&names, "sum"), sums, "{what} in {precision:?}: {names:?}");
            // Bit-identical, in the same dtypes.
            let of = |gradients: &Gradients| gradients.get(&leaves[2]).cloned().expect("a gradient");
            assert_eq!(of(&fused).dtype(), of(&unfused).dtype(), "{what} in {precision:?}");
            if sums == 0 {
                let (found, expected) = (of(&fused).to_vec_f64()?, of(&unfused).to_vec_f64()?);
                assert_eq!(found, expected, "{what} in {precision:?}");
                let weight = |gradients: &Gradients| gradients.get(&leaves[1]).cloned().expect("a gradient");
                assert_close(&weight(&fused), &weight(&unfused), 0.0)?;
            }
        }
    }
    // Both products use one view of the weight: the second gradient is added to the first, and has
    // no sums.
    let [x, weight, bias] = &leaves;
    let (fused, unfused, names) = both(|| {
        let columns = weight.t()?;
        let options = MatmulOptions { bias: Some(bias), ..Default::default() };
        x.matmul_with(&columns, options)?.add(&x.matmul_with(&columns, options)?.tanh()?)?.square()?.sum_all()
    })?;
    assert_eq!(count(&names, "sum"), 1, "{names:?}");
    assert_same(&fused, &unfused, &[weight, bias], 1e-5)
}

#[test]
fn a_norm_passes_a_rounded_gradient_to_the_product_before_it() -> Result<()> {
    let device = ternion::cpu()?;
    let (x, residual) = (normal(&[2, 3, 8], &device)?, normal(&[2, 3, 8], &device)?);
    let (w1, b1, w2) = (normal(&[8, 8], &device)?, normal(&[8], &device)?, normal(&[8, 8], &device)?);
    let loss = || {
        with_precision(Precision::Bf16, || {
            let h = x.linear_add(LinearParameters { weight: &w1, bias: Some(&b1) }, &residual)?;
            let normal = h.layer_norm_as(Some(DType::BF16), None, None, 1e-5)?;
            normal.linear_add(LinearParameters { weight: &w2, bias: None }, &h)?.square()?.sum_all()
        })
    };
    let (fused, unfused, names) = both(loss)?;
    assert_eq!(count(&names, "add"), 0, "{names:?}");
    assert_same(&fused, &unfused, &[&x, &residual, &w1, &b1, &w2], 0.0)
}

#[test]
fn a_linear_layer_has_its_activation_in_the_product() -> Result<()> {
    let device = ternion::cpu()?;
    let (x, layer) = (normal(&[2, 3, 8], &device)?, Linear::new(8, 5, &device)?);
    let (weight, bias) = (layer.weight.tensor(), layer.bias.as_ref().expect("a bias").tensor());
    for op in
        [UnaryOp::Relu, UnaryOp::GeluErf, UnaryOp::GeluTanh, UnaryOp::Silu, UnaryOp::Tanh, UnaryOp::Sigmoid]
    {
        let separate_ops = || {
            ternion_core::dispatch::apply_one(ternion_core::ops::unary::Unary { op }, &[&layer.forward(&x)?])
        };
        let (y, names) = applied(|| layer.forward_activation(&x, op))?;
        assert_eq!(
            (count(&names, "matmul"), names.iter().filter(|&&name| name == op.name()).count()),
            (1, 0),
            "{names:?}"
        );
        assert_close(&y, &separate_ops()?, 1e-6)?;
        assert_eq!(y.dims(), [2, 3, 5]);
        // No products other than those of the two gradients.
        let loss = y.square()?.sum_all()?;
        let (found, names) = applied(|| loss.backward())?;
        assert_eq!(count(&names, "matmul"), 2, "{op:?}: {names:?}");
        let expected = separate_ops()?.square()?.sum_all()?.backward()?;
        assert_same(&found, &expected, &[&x, &weight, &bias], 1e-5)?;
        let unfused = without_fusion(|| layer.forward_activation(&x, op))?;
        assert_close(&unfused, &separate_ops()?, 0.0)?;
        // The outputs of layers are observed.
        let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let (outputs, compute) = (seen.clone(), || layer.forward_activation(&x, op));
        let observer = move |_: &ternion_nn::LayerCall, y: &Tensor| {
            outputs.borrow_mut().push(y.clone());
            Ok(())
        };
        let observed = ternion_nn::observe_layers(&layer, observer, compute)?;
        assert_close(&seen.borrow()[0], &layer.forward(&x)?, 0.0)?;
        assert_close(&observed, &separate_ops()?, 0.0)?;
    }
    Ok(())
}

#[test]
fn a_linear_layer_with_an_activation_reports_what_does_not_fit() -> Result<()> {
    let device = ternion::cpu()?;
    let layer = Linear::new(8, 5, &device)?;
    let rejection =
        |x: &Tensor| layer.forward_activation(x, UnaryOp::Relu).expect_err("rejected").to_string();
    let message = rejection(&Tensor::ones((), DType::F32, &device)?);
    assert!(message.contains("linear_activation") && message.contains("at least 1"), "{message}");
    let message = rejection(&Tensor::ones([2, 7], DType::F32, &device)?);
    assert!(message.contains('7') && message.contains('8'), "{message}");
    let message = rejection(&Tensor::ones([2, 8], DType::F64, &device)?);
    assert!(message.contains("f64") && message.contains("f32"), "{message}");
    Ok(())
}

#[test]
fn causal_attention_of_fewer_queries_than_keys_needs_no_mask() -> Result<()> {
    let device = ternion::cpu()?;
    let (q, k, v) =
        (normal(&[2, 4, 3, 8], &device)?, normal(&[2, 2, 7, 8], &device)?, normal(&[2, 2, 7, 5], &device)?);
    let mask = normal(&[4, 3, 7], &device)?;
    let column = normal(&[4, 3, 1], &device)?;
    let below = Tensor::ones([3, 7], DType::F32, &device)?.tril(0)?.gt_scalar(0.5)?;
    for (mask, seen) in [(None, &below), (Some(&below), &below)] {
        let attend = |causal, mask| {
            let options = ternion_core::AttentionOptions { mask, causal, ..Default::default() };
            q.scaled_dot_product_attention(&k, &v, options)
        };
        let (y, names) = applied(|| attend(ternion_core::Causal::UpperLeft, mask))?;
        assert_eq!((count(&names, "iota"), count(&names, "attention")), (0, 1), "{names:?}");
        let expected = attend(ternion_core::Causal::Off, Some(seen))?;
        assert_close(&y, &expected, 1e-6)?;
        let (found, expected) =
            (y.square()?.sum_all()?.backward()?, expected.square()?.sum_all()?.backward()?);
        assert_same(&found, &expected, &[&q, &k, &v], 1e-5)?;
    }
    // Masks that are added to the scores: one with an element for each key, one with the same
    // element for all keys.
    for added in [&mask, &column] {
        let options = |causal, mask| ternion_core::AttentionOptions { mask, causal, ..Default::default() };
        let hidden = added.expand([4, 3, 7])?.masked_fill(&below.logical_not()?, f64::NEG_INFINITY)?;
        let found =
            q.scaled_dot_product_attention(&k, &v, options(ternion_core::Causal::UpperLeft, Some(added)))?;
        let expected =
            q.scaled_dot_product_attention(&k, &v, options(ternion_core::Causal::Off, Some(&hidden)))?;
        assert_close(&found, &expected, 1e-6)?;
        let (found, expected) =
            (found.square()?.sum_all()?.backward()?, expected.square()?.sum_all()?.backward()?);
        assert_same(&found, &expected, &[&q, &k, &v, added], 1e-5)?;
    }
    // If there are more or fewer values than keys, the error names the shape of all values.
    let options =
        ternion_core::AttentionOptions { causal: ternion_core::Causal::UpperLeft, ..Default::default() };
    let error =
        q.scaled_dot_product_attention(&k, &v.narrow(2, 0, 6)?, options).expect_err("6 values of 7 keys");
    assert!(error.to_string().contains("[2, 2, 6, 5]"), "{error}");
    Ok(())
}

/// Second-order gradients go through the same ops.
#[test]
fn feed_forward_layers_have_second_derivatives() -> Result<()> {
    let layers = Layers::new(&ternion::cpu()?)?;
    let twice = |loss: Tensor| -> Result<Tensor> {
        let options = ternion_core::autograd::GradOptions { create_graph: true, ..Default::default() };
        let first = grad(
            &[loss],
            std::slice::from_ref(&layers.x),
            &[Tensor::ones((), DType::F32, layers.x.device())?],
            options,
        )?;
        let first = first.into_iter().flatten().next().expect("a gradient");
        let second = first.square()?.sum_all()?.backward()?;
        Ok(second.get(&layers.x).cloned().expect("a gradient"))
    };
    assert_close(
        &twice(layers.loss(UnaryOp::GeluTanh)?)?,
        &twice(layers.plain_loss(Tensor::gelu_tanh)?)?,
        1e-3,
    )
}

/// The gradient of an activation is computed if it is requested, or observed by a hook.
#[test]
fn observed_gradients_are_computed() -> Result<()> {
    let device = ternion::cpu()?;
    let layers = Layers::new(&device)?;
    let rows = layers.x.reshape([6, 8])?;
    let [w1, b1, w2, _] = &layers.parameters;
    let hidden = |x: &Tensor| -> Result<[Tensor; 2]> {
        use ternion_core::ops::matmul::{Epilogue, Matmul};
        let epilogue = Epilogue {
            bias: true,
            activation: Some(UnaryOp::GeluTanh),
            pre_activation: true,
            ..Epilogue::NONE
        };
        let both = ternion_core::dispatch::apply(Matmul { epilogue, ..Matmul::PLAIN }, &[x, &w1.t()?, b1])?;
        let [y, z] = <[Tensor; 2]>::try_from(both.into_vec()).expect("two outputs");
        Ok([y, z])
    };
    let [y, z] = hidden(&rows)?;
    let loss = y.linear(w2, None)?.square()?.sum_all()?;
    let one = Tensor::ones((), DType::F32, &device)?;
    let options = ternion_core::autograd::GradOptions { allow_unused: true, ..Default::default() };
    let found = grad(&[loss], &[y.clone(), z.clone()], &[one.clone()], options)?;
    let [dy, dz] = [0, 1].map(|at: usize| found[at].clone());
    let expected = y.detach().linear(w2, None)?.mul_scalar(2.0)?.matmul(w2)?;
    assert_close(&dy.expect("the activation's gradient"), &expected.detach(), 1e-5)?;
    // The pre-activation is an output of the product too, but the loss depends on it only through
    // the activation.
    assert!(dz.is_none(), "no gradient comes to the pre-activation itself");

    let [y, _] = hidden(&rows)?;
    let seen = std::sync::Arc::new(std::sync::Mutex::new(None));
    let log = seen.clone();
    let _handle = y.register_hook(move |grad| {
        *log.lock().expect("no panic elsewhere") = Some(grad.clone());
        Ok(None)
    })?;
    y.linear(w2, None)?.square()?.sum_all()?.backward()?;
    let seen = seen.lock().expect("no panic elsewhere").take().expect("the hook was called");
    assert_close(&seen, &expected.detach(), 1e-5)
}

#[test]
fn gradients_that_are_parts_of_one_tensor_are_joined_without_a_copy() -> Result<()> {
    let device = ternion::cpu()?;
    let x = normal(&[3, 6], &device)?;
    let full = Tensor::randn([3, 6], DType::F32, &device)?;
    let parts = x.split_sizes(1, &[1, 3, 2])?;
    let mut loss = Tensor::zeros((), DType::F32, &device)?;
    for (part, (start, size)) in parts.iter().zip([(0, 1), (1, 3), (4, 2)]) {
        let gradient = full.narrow(1, start, size)?;
        let _handle = part.register_hook(move |_| Ok(Some(gradient.clone())))?;
        loss = loss.add(&part.sum_all()?)?;
    }
    let (gradients, names) = applied(|| loss.backward())?;
    assert_eq!(count(&names, "concat"), 0, "{names:?}");
    assert_close(gradients.get(&x).expect("a gradient"), &full, 0.0)
}
