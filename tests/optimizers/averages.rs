//! Exponential moving averages of weights: PyTorch's numbers, copying to and from the model, their
//! state, and what they reject.

use super::{device, gradients_of, list, message_of, reference, start, steps, tensors, values};
use serde_json::Value;
use ternion::nn::{Ema, EmaConfig, checkpoint};
use ternion::prelude::*;

fn assert_averages(ema: &Ema, want: &Value, limit: f64) -> Result<()> {
    let state = ema.state_dict()?;
    for (index, want) in want.as_array().expect("averages").iter().enumerate() {
        let got = state[&format!("average.p{index}")].to_vec_f64()?;
        for (got, want) in got.into_iter().zip(list(&want["values"])) {
            assert!(
                (got - want).abs() <= limit * want.abs().max(1.0),
                "p{index}: got {got}, PyTorch has {want}"
            );
        }
    }
    Ok(())
}

#[test]
fn averages_equal_pytorchs() -> Result<()> {
    let (device, all) = (device(), reference());
    for (dtype, limit) in [(DType::F32, 1e-6), (DType::F64, 1e-8)] {
        let params = start(dtype, &device)?;
        let mut ema = Ema::new(params.clone(), EmaConfig { decay: 0.9, warmup: false })?;
        let mut sgd = SGD::new(params.clone(), SGDConfig { lr: 0.1, ..Default::default() })?;
        for (number, target_grads) in steps(dtype, &device)?.iter().enumerate() {
            sgd.step(&gradients_of(&params, target_grads)?)?;
            ema.update()?;
            assert_averages(&ema, &all["averages"][number], limit)?;
        }
    }
    Ok(())
}

#[test]
fn averages_of_buffers_equal_pytorchs() -> Result<()> {
    let (device, all) = (device(), reference());
    let case = &all["averages_of_buffers"];
    let norm = BatchNorm1d::new(2, &device)?;
    let config = EmaConfig { decay: 0.9, warmup: false };
    let mut ema = Ema::new(norm.parameters(), config)?.with_buffers(norm.named_buffers())?;
    let batches = tensors(&case["batches"], DType::F32, &device)?;
    for (batch, want) in batches.iter().zip(case["steps"].as_array().expect("steps")) {
        norm.forward(batch)?;
        ema.update()?;
        let state = ema.state_dict()?;
        let mut keys: Vec<&str> = state.keys().map(String::as_str).collect();
        keys.retain(|key| key.contains("running") || key.contains("batches"));
        assert_eq!(keys, ["average.running_mean", "average.running_var"], "no average of a count");
        for name in ["running_mean", "running_var"] {
            assert_near(&state[&format!("average.{name}")], &want[name])?;
        }
    }
    let model_state = norm.state_dict()?;
    norm.eval();
    let averaged = ema.averaged(|| norm.forward(&batches[3]))?;
    assert_near(&averaged, &case["output"])?;
    assert_ne!(averaged.to_vec::<f32>()?, norm.forward(&batches[3])?.to_vec::<f32>()?);
    for (key, tensor) in norm.state_dict()? {
        assert_eq!(tensor.to_vec_f64()?, model_state[&key].to_vec_f64()?, "{key} is the model's own again");
    }
    let twice = message_of(ema.with_buffers(norm.named_buffers()));
    assert_eq!(twice, "ema: buffer running_mean is given twice: it is running_mean already");
    Ok(())
}

fn assert_near(got: &Tensor, want: &Value) -> Result<()> {
    for (got, want) in got.to_vec_f64()?.into_iter().zip(list(&want["values"])) {
        assert!((got - want).abs() <= 1e-6 * want.abs().max(1.0), "got {got}, PyTorch has {want}");
    }
    Ok(())
}

/// Each update of an average from 0 toward 1 leaves a fraction `decay` of the distance. With
/// warm-up the decay is 2/11, 3/12, .. until that exceeds `decay`.
#[test]
fn early_averages_follow_quickly_with_warmup() -> Result<()> {
    let device = device();
    let param = Param::new(&Tensor::zeros([1], DType::F64, &device)?)?.named("w");
    let mut ema = Ema::new(vec![param.clone()], EmaConfig { decay: 0.3, warmup: true })?;
    param.set(&Tensor::ones([1], DType::F64, &device)?)?;
    let mut left = 1.0;
    for decay in [2.0 / 11.0, 3.0 / 12.0, 0.3, 0.3] {
        ema.update()?;
        left *= decay;
        approx::assert_abs_diff_eq!(ema.state_dict()?["average.w"].item_f64()?, 1.0 - left, epsilon = 1e-14);
    }
    Ok(())
}

#[test]
fn averages_are_swapped_in_and_out_bit_by_bit() -> Result<()> {
    let device = device();
    for dtype in [DType::F32, DType::BF16] {
        let params = start(dtype, &device)?;
        params[2].freeze();
        let mut ema = Ema::new(params.clone(), EmaConfig { decay: 0.7, warmup: false })?;
        for param in &params[..2] {
            param.set(&param.tensor().detach().mul_scalar(1.5)?)?;
        }
        ema.update()?;
        let (own, average) = (values(&params)?, ema.state_dict()?);
        let within = ema.averaged(|| values(&params))?;
        for (index, within) in within.iter().enumerate() {
            // In the parameter's dtype.
            let want = average[&format!("average.p{index}")].to_dtype(dtype)?.to_vec_f64()?;
            assert_eq!(*within, want);
        }
        assert_ne!(within[0], own[0]);
        assert_eq!(values(&params)?, own);
        let failed = ema.averaged(|| Err::<(), _>(Error::autograd("evaluation failed")));
        assert!(message_of(failed).contains("evaluation failed"));
        assert_eq!(values(&params)?, own, "also where it fails");

        ema.swap_in()?;
        assert!(ema.is_swapped_in() && params[2].is_frozen());
        assert_eq!(
            message_of(ema.update()),
            "ema: update while the averages are in the model: swap_out first"
        );
        assert_eq!(
            message_of(ema.swap_in()),
            "ema: swap_in while the averages are in the model: swap_out first"
        );
        ema.swap_out()?;
        let message = message_of(ema.swap_out());
        assert_eq!(message, "ema: swap_out, but the averages are not in the model: swap_in first");
        assert_eq!(values(&params)?, own);
        for (key, tensor) in ema.state_dict()? {
            assert_eq!(tensor.to_vec_f64()?, average[&key].to_vec_f64()?, "{key} stays as it was");
        }
    }
    Ok(())
}

#[test]
fn averages_of_half_precision_are_more_precise() -> Result<()> {
    let device = device();
    let param = Param::new(&Tensor::ones([1], DType::BF16, &device)?)?.named("w");
    let mut ema = Ema::new(vec![param.clone()], EmaConfig { decay: 0.999, warmup: false })?;
    param.set(&Tensor::full([1], 1.0625, DType::BF16, &device)?)?;
    (0..10).try_for_each(|_| ema.update())?;
    // A change of 6e-5 is below the resolution of bf16 at 1.
    let want = 1.0 + 0.0625 * (1.0 - 0.999f64.powi(10));
    approx::assert_abs_diff_eq!(ema.state_dict()?["average.w"].item_f64()?, want, epsilon = 1e-6);
    Ok(())
}

#[test]
fn averages_resume_from_a_file() -> Result<()> {
    let device = device();
    let (first, second) = (start(DType::F32, &device)?, start(DType::F32, &device)?);
    let config = EmaConfig { decay: 0.9, warmup: true };
    let (mut ema, mut resumed) = (Ema::new(first.clone(), config)?, Ema::new(second.clone(), config)?);
    let change = |params: &[Param], by: f64| {
        params.iter().try_for_each(|param| param.set(&param.tensor().detach().add_scalar(by)?))
    };
    change(&first, 1.0)?;
    ema.update()?;
    let folder = std::env::temp_dir().join(format!("ternion-ema-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let path = folder.join("ema.safetensors");
    checkpoint::write(&ema.state_dict()?, &path)?;
    resumed.load_state_dict(&checkpoint::read(&path, &device)?)?;
    std::fs::remove_dir_all(&folder).expect("the test's own folder");
    second.iter().zip(&first).try_for_each(|(second, first)| second.set(&first.tensor()))?;
    for (ema, params) in [(&mut ema, &first), (&mut resumed, &second)] {
        change(params, -0.5)?;
        ema.update()?;
    }
    let (left, right) = (ema.state_dict()?, resumed.state_dict()?);
    assert_eq!(right["n_averaged"].item::<i64>()?, 2);
    for (key, tensor) in &left {
        assert_eq!(tensor.to_vec_f64()?, right[key].to_vec_f64()?, "{key}");
    }

    let mut short = left.clone();
    short.remove("average.p1");
    short.insert("average.p9".to_owned(), left["average.p1"].clone());
    let message = message_of(resumed.load_state_dict(&short));
    assert_eq!(message, "ema: the state does not fit; missing: average.p1; extra: average.p9");
    let mut uncounted = left;
    uncounted.insert("n_averaged".to_owned(), Tensor::from_slice(&[-1i64], (), &device)?);
    assert_eq!(message_of(resumed.load_state_dict(&uncounted)), "ema: n_averaged -1, expected at least 0");
    uncounted.remove("n_averaged");
    assert_eq!(
        message_of(resumed.load_state_dict(&uncounted)),
        "ema: the state does not fit; missing: n_averaged"
    );
    Ok(())
}

#[test]
fn averages_reject_mismatched_states_and_models() -> Result<()> {
    let device = device();
    let params = start(DType::F32, &device)?;
    let config = EmaConfig { decay: 1.5, warmup: false };
    assert_eq!(message_of(Ema::new(params.clone(), config)), "ema: decay 1.5, expected 0 to 1");
    assert_eq!(message_of(Ema::new(Vec::new(), EmaConfig::default())), "ema: no parameters to average");
    let twice = [params.clone(), params.clone()].concat();
    let message = message_of(Ema::new(twice, EmaConfig::default()));
    assert_eq!(message, "ema: parameter 3 is given twice: it is p0 already");
    let mut ema = Ema::new(params.clone(), EmaConfig::default())?;
    params[1].replace(params[1].tensor().detach().to_dtype(DType::F64)?)?;
    let message = message_of(ema.update());
    let start = "ema: p1 is [4, 2] f64 on cpu now, but its average [4, 2] f32 on cpu";
    assert!(message.starts_with(start), "{message}");
    assert!(message_of(ema.swap_in()).starts_with(start) && !ema.is_swapped_in());
    Ok(())
}
