//! Losses whose gradient is formed before it is known which one is wanted.

use ternion::prelude::*;
use ternion_core::dispatch::apply;
use ternion_core::ops::loss::{CrossEntropy, CrossEntropyWithGrad};
use ternion_core::{Error, GradOptions, grad};

/// Cross-entropy that forms its gradient beforehand gives what cross-entropy gives, whatever gradient its loss gets, and however often it is asked.
#[test]
fn a_gradient_formed_beforehand_is_right_when_it_was_not_foreseen() -> Result<()> {
    let device = ternion::cpu()?;
    device.seed(4);
    let logits = Tensor::randn([5, 7], DType::F64, &device)?;
    let target = Tensor::from_slice(&[0i64, 6, -100, 3, 3], [5], &device)?;
    let foreseen = Tensor::full([5], 0.25, DType::F64, &device)?;
    let (ignore_index, label_smoothing) = (-100, 0.1);
    let losses = |x: &Tensor, beforehand: bool| {
        let mut outputs = match beforehand {
            true => apply(CrossEntropyWithGrad { ignore_index, label_smoothing }, &[x, &target, &foreseen])?,
            false => apply(CrossEntropy { ignore_index, label_smoothing }, &[x, &target])?,
        };
        Ok::<_, Error>(outputs.swap_remove(0))
    };
    let found = |beforehand: bool| -> Result<Vec<Vec<f64>>> {
        let x = logits.requires_grad()?;
        let losses = losses(&x, beforehand)?;
        let gradient = |scale: [f64; 5], create_graph: bool| {
            let seed = Tensor::from_slice(&scale, [5], &device)?;
            let options = GradOptions { retain_graph: true, create_graph, ..Default::default() };
            Ok::<_, Error>(
                grad(&[losses.clone()], &[x.clone()], &[seed], options)?.swap_remove(0).expect("a gradient"),
            )
        };
        let mut all = Vec::new();
        // As foreseen in all rows but one, which another walk then finds given away; then as in no row; then one with a graph of its own.
        for scale in [[0.25, 0.25, 0.25, 2.0, 0.25], [0.25; 5], [1.0, 2.0, 3.0, 4.0, 5.0]] {
            all.push(gradient(scale, false)?.to_vec::<f64>()?);
        }
        let slope = gradient([0.25; 5], true)?;
        let curvature = slope.square()?.sum_all()?.backward()?;
        all.push(slope.to_vec::<f64>()?);
        all.push(curvature.get(&x).expect("a second gradient").to_vec::<f64>()?);
        Ok(all)
    };
    for (at, (formed, plain)) in found(true)?.iter().zip(&found(false)?).enumerate() {
        for (formed, plain) in formed.iter().zip(plain) {
            assert!((formed - plain).abs() <= 1e-14, "gradient {at}: {formed} instead of {plain}");
        }
    }
    Ok(())
}
