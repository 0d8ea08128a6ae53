//! A small model in bf16 against PyTorch's autocast on the CPU: tests/reference/precision.json, made by tests/reference/precision.py.

use serde_json::Value;
use ternion_core::{AttentionOptions, DType, Device, Precision, Result, Tensor, with_precision};
use ternion_nn::optim::{Optimizer, SGD, SGDConfig};
use ternion_nn::{Forward, LayerNorm, Linear, Module};

fn reference() -> Value {
    let text = include_str!("../../../tests/reference/precision.json");
    serde_json::from_str(text).expect("precision.json is JSON")
}

fn values(value: &Value) -> Vec<f64> {
    value["values"].as_array().expect("values").iter().map(|x| x.as_f64().expect("a number")).collect()
}

fn shape(value: &Value) -> Vec<usize> {
    value["shape"].as_array().expect("shape").iter().map(|x| x.as_u64().expect("a size") as usize).collect()
}

fn tensor_of(value: &Value, device: &Device) -> Result<Tensor> {
    Tensor::from_vec(values(value), shape(value), device)?.to_dtype(DType::F32)
}

/// The model of precision.py, under its names.
#[derive(Module)]
struct Model {
    query: Linear,
    value: Linear,
    norm: LayerNorm,
    hidden: Linear,
    output: Linear,
}

impl Model {
    fn new(device: &Device) -> Result<Model> {
        Ok(Model {
            query: Linear::new(8, 8, device)?,
            value: Linear::new(8, 8, device)?,
            norm: LayerNorm::new(8, device)?,
            hidden: Linear::new(8, 12, device)?,
            output: Linear::new(12, 4, device)?,
        })
    }

    /// Every intermediate result by its name; the logits last.
    fn outputs(&self, x: &Tensor) -> Result<Vec<(&'static str, Tensor)>> {
        let [batch, length, width] = x.sizes()?;
        let (query, value) = (self.query.forward(x)?, self.value.forward(x)?);
        let heads = |tensor: &Tensor| tensor.reshape([batch, length, 2, width / 2])?.transpose(1, 2);
        let (q, v) = (heads(&query)?, heads(&value)?);
        let attended = q.scaled_dot_product_attention(&q, &v, AttentionOptions::default())?;
        let attended = attended.transpose(1, 2)?.reshape([batch, length, width])?;
        let summed = x.add(&attended)?;
        let hidden = self.hidden.forward(&self.norm.forward(&summed)?)?.gelu()?;
        let logits = self.output.forward(&hidden)?;
        Ok(vec![
            ("query", query),
            ("attended", attended),
            ("summed", summed),
            ("hidden", hidden),
            ("logits", logits),
        ])
    }
}

/// The norm of the differences, relative to that of `exact`.
fn distance(found: &[f64], exact: &[f64]) -> f64 {
    assert_eq!(found.len(), exact.len());
    let squares = |of: &mut dyn Iterator<Item = f64>| of.map(|x| x * x).sum::<f64>().sqrt();
    squares(&mut found.iter().zip(exact).map(|(found, exact)| found - exact))
        / squares(&mut exact.iter().copied())
}

#[test]
fn a_model_in_bf16_computes_as_in_pytorch() -> Result<()> {
    let (all, device) = (reference(), ternion_cpu::device());
    let (torch, exact) = (&all["bfloat16"], &all["exact"]);
    let model = Model::new(&device)?;
    for (name, param) in model.named_parameters() {
        param.set(&tensor_of(&all["parameters"][&name], &device)?)?;
    }
    let x = tensor_of(&all["x"], &device)?;
    let target: Vec<i32> = values(&all["target"]).into_iter().map(|class| class as i32).collect();
    let target = Tensor::from_vec(target, 6, &device)?;
    let lr = all["lr"].as_f64().expect("a number");
    let mut sgd = SGD::new(model.parameters(), SGDConfig { lr, ..Default::default() })?;
    for (step, loss_of_torch) in torch["losses"].as_array().expect("losses").iter().enumerate() {
        let (outputs, loss) = with_precision(Precision::Bf16, || {
            let outputs = model.outputs(&x)?;
            let logits = outputs[outputs.len() - 1].1.reshape([6, 4])?;
            Ok::<_, ternion_core::Error>((outputs, logits.cross_entropy(&target)?))
        })?;
        assert_eq!((loss.dtype(), torch["loss_dtype"].as_str()), (DType::F32, Some("float32")));
        let gradients = loss.backward()?;
        // Rounded at the same places, in another order of sums: a unit in the last place of a logit or two.
        let (ours, theirs) = (loss.item_f64()?, loss_of_torch.as_f64().expect("a loss"));
        assert!((ours - theirs).abs() <= 4e-3 * theirs, "step {step}: {ours}, PyTorch has {theirs}");
        if step == 0 {
            check_outputs(&outputs, &torch["outputs"])?;
            check_gradients(&model, &gradients, &torch["gradients"], &exact["gradients"])?;
        }
        sgd.step(&gradients)?;
    }
    Ok(())
}

fn check_outputs(outputs: &[(&str, Tensor)], torch: &Value) -> Result<()> {
    assert_eq!(outputs.len(), torch.as_object().expect("outputs").len());
    for (name, output) in outputs {
        let dtype = if output.dtype() == DType::BF16 { "bfloat16" } else { "float32" };
        assert_eq!(torch[name]["dtype"].as_str(), Some(dtype), "{name}");
        let (ours, theirs) = (output.to_vec_f64()?, values(&torch[name]));
        let largest = theirs.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            // Two units in the last place of the largest element: sums in another order, rounded to 8 bits, and what follows from it.
            assert!((ours - theirs).abs() <= 2.0 / 128.0 * largest, "{name}: {ours}, PyTorch has {theirs}");
        }
    }
    Ok(())
}

/// All gradients are f32, and no further from those of float64 than PyTorch's are.
fn check_gradients(
    model: &Model,
    gradients: &ternion_core::Gradients,
    torch: &Value,
    exact: &Value,
) -> Result<()> {
    let (mut all_ours, mut all_theirs, mut all_exact) = (Vec::new(), Vec::new(), Vec::new());
    for (name, param) in model.named_parameters() {
        let grad = param.gradient(gradients).expect("a gradient");
        assert_eq!(grad.dtype(), DType::F32, "{name}");
        assert_eq!(torch[&name]["dtype"].as_str(), Some("float32"), "{name}");
        let (ours, theirs, exact) = (grad.to_vec_f64()?, values(&torch[&name]), values(&exact[&name]));
        let [our_error, their_error] = [distance(&ours, &exact), distance(&theirs, &exact)];
        // Most where the gradient passes attention twice: there it is PyTorch that sets the measure. Half as much again, and half a unit in the last place, for another order of sums.
        assert!(our_error <= 1.5 * their_error + 1.0 / 512.0, "{name}: {our_error}, PyTorch {their_error}");
        all_ours.extend(ours);
        all_theirs.extend(theirs);
        all_exact.extend(exact);
    }
    let (ours, theirs) = (distance(&all_ours, &all_exact), distance(&all_theirs, &all_exact));
    // Weights' gradients are rounded less here; a fifth more is left to chance.
    assert!(ours <= 1.2 * theirs, "{ours} from float64, PyTorch {theirs}");
    Ok(())
}
