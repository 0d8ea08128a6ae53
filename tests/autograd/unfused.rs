//! Forward and backward passes inside `without_fusion`, also when they run again later.

use super::*;
use ternion_core::checkpoint;
use ternion_core::decorators::NanCheck;
use ternion_core::precision::half_copy_wanted;

#[test]
fn without_fusion_every_function_is_a_separate_op() -> Result<()> {
    let layers = Layers::new(&ternion::cpu()?)?;
    for (op, name, grad_name) in [
        (UnaryOp::GeluTanh, "gelu_tanh", "gelu_tanh_grad"),
        (UnaryOp::Relu, "relu", "relu_grad"),
        (UnaryOp::Silu, "silu", "silu_grad"),
    ] {
        let step = || {
            let loss = layers.loss(op)?;
            Ok((loss.item_f64()?, loss.backward()?))
        };
        let (fused, fused_names) = applied(step)?;
        let (unfused, names) = applied(|| without_fusion(step))?;
        // The residual; and in the backward pass the sum of its gradient and that of the first
        // layer's input.
        assert_eq!((count(&names, name), count(&names, "add")), (1, 2), "{names:?}");
        assert_eq!((count(&fused_names, name), count(&fused_names, "add")), (0, 0), "{fused_names:?}");
        // The sums for both biases, and the sum of the loss.
        assert_eq!((count(&names, grad_name), count(&names, "sum")), (1, 3), "{names:?}");
        assert_eq!(count(&names, "matmul"), count(&fused_names, "matmul"));
        assert!((fused.0 - unfused.0).abs() <= 1e-5 * unfused.0, "{} and {}", fused.0, unfused.0);
        assert_same(&fused.1, &unfused.1, &layers.leaves(), 1e-4)?;
        let (_, again) = applied(step)?;
        assert_eq!(again, fused_names, "fused again behind the scope");
    }
    Ok(())
}

/// Only the backward pass is unfused: the recorded graph is the same.
#[test]
fn a_backward_pass_without_fusion_equals_an_observed_one() -> Result<()> {
    let layers = Layers::new(&ternion::cpu()?)?;
    let loss = layers.loss(UnaryOp::GeluTanh)?;
    let (unfused, names) = applied(|| without_fusion(|| loss.backward()))?;
    assert_eq!((count(&names, "gelu_tanh_grad"), count(&names, "add")), (1, 1), "{names:?}");
    let loss = layers.loss(UnaryOp::GeluTanh)?;
    let (observed, observed_names) = applied(|| observe_backward(|_, _| Ok(()), || loss.backward()))?;
    assert_eq!(names, observed_names);
    assert_same(&unfused, &observed, &layers.leaves(), 0.0)
}

/// Returns the loss and gradients of a step of a GPT in bf16, and whether AdamW would write bf16
/// copies.
fn gpt_step(model: &GPT, tokens: &Tensor) -> Result<(f64, Gradients, bool)> {
    let targets = tokens.reshape([tokens.elements()])?;
    let loss = with_precision(Precision::Bf16, || {
        let logits = model.logits(tokens)?;
        logits.reshape([targets.elements(), model.config().vocabulary])?.cross_entropy(&targets)
    })?;
    let weight = model.h[0].self_attn.in_proj_weight.tensor();
    Ok((loss.item_f64()?, loss.backward()?, half_copy_wanted(&weight, None).is_some()))
}

#[test]
fn a_transformer_in_half_precision_trains_without_fusion() -> Result<()> {
    let device = ternion::cpu()?;
    device.seed(3);
    let config =
        GPTConfig { vocabulary: 11, context: 6, layers: 2, heads: 2, width: 16, ..Default::default() };
    let model = GPT::new(config, &device)?;
    let tokens = Tensor::randint(0, 11, [2, 6], DType::I64, &device)?;
    let ((loss, gradients, is_copied), names) = applied(|| gpt_step(&model, &tokens))?;
    let ((unfused, plain, is_copied_unfused), plain_names) =
        applied(|| without_fusion(|| gpt_step(&model, &tokens)))?;
    for name in ["add", "gelu_tanh", "gelu_tanh_grad", "copy", "sum"] {
        let (fused, unfused) = (count(&names, name), count(&plain_names, name));
        assert!(fused < unfused, "{name}: {fused} fused, {unfused} not");
    }
    assert!(is_copied && !is_copied_unfused, "copies are asked for: {is_copied}, {is_copied_unfused}");
    assert!((loss - unfused).abs() <= 0.01 * unfused, "{loss} and {unfused}");
    for parameter in model.parameters() {
        let of = |gradients: &Gradients| gradients.get(&parameter.tensor()).cloned().expect("a gradient");
        let (fused, plain) = (of(&gradients), of(&plain));
        let length = |tensor: &Tensor| -> Result<f64> { Ok(tensor.square()?.sum_all()?.item_f64()?.sqrt()) };
        let (distance, norm) = (length(&fused.sub(&plain)?)?, length(&plain)?);
        // The limit allows for several roundings to 8 bits.
        assert!(distance <= 0.03 * norm + 1e-6, "{distance} of {norm}");
    }
    Ok(())
}

/// A recomputation or replay has the same fusion setting as the first run, wherever it happens.
#[test]
fn reruns_stay_unfused() -> Result<()> {
    let device = ternion::cpu()?;
    let layers = std::sync::Arc::new(Layers::new(&device)?);
    let segment = |layers: &std::sync::Arc<Layers>| {
        let (x, layers) = (layers.x.clone(), layers.clone());
        checkpoint(move |_| Ok(vec![layers.loss(UnaryOp::GeluTanh)?]), &[&x])
    };
    // A segment that runs other ops the second time is an error.
    let loss = without_fusion(|| segment(&layers))?.swap_remove(0);
    let (_, names) = applied(|| loss.backward())?;
    assert_eq!(count(&names, "gelu_tanh"), 1, "{names:?}");
    let loss = segment(&layers)?.swap_remove(0);
    let (_, names) = applied(|| without_fusion(|| loss.backward()))?;
    assert_eq!(count(&names, "gelu_tanh"), 0, "{names:?}");

    // A device that does not support recording.
    let plain = NanCheck::new(device);
    let layers = Layers::new(&plain)?;
    let mut step = without_fusion(|| plain.capture(|| layers.loss(UnaryOp::GeluTanh)))?;
    assert!(!step.is_recorded());
    let (_, names) = applied(|| step.replay().cloned())?;
    assert_eq!(count(&names, "gelu_tanh"), 1, "{names:?}");
    // A layer that was not fused because it was observed is not fused in a replay either.
    let (layer, x) = (Linear::new(8, 4, &plain)?, Tensor::ones([2, 8], DType::F32, &plain)?);
    let capture = || plain.capture(|| layer.forward_activation(&x, UnaryOp::Relu));
    let mut step = ternion_nn::observe_layers(&layer, |_, _| Ok(()), capture)?;
    assert_eq!(count(&applied(|| step.replay().cloned())?.1, "relu"), 1);
    Ok(())
}
