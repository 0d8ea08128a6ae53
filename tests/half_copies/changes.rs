//! No op uses an outdated copy after another change of a parameter, or after a replacement of its
//! tensor.

use super::{adamw, bits, loss, mark_copies_outdated, mlp, numbers, watched};
use ternion::checkpoint;
use ternion::nn::Mlp;
use ternion::prelude::*;

const BF16: Precision = Precision::Bf16;

/// Returns a model after two steps in bf16: its copies are current.
fn trained(device: &Device) -> Result<(Mlp, AdamW, Tensor)> {
    let (model, x) = (mlp(device)?, numbers(&[5, 6], device)?);
    let mut adam = adamw(model.parameters())?;
    for _ in 0..2 {
        adam.step(&loss(&model, &x, BF16)?.backward()?)?;
    }
    Ok((model, adam, x))
}

/// Checks that the model computes the same as a model that never had copies.
fn assert_equals_fresh(model: &Mlp, x: &Tensor, what: &str) -> Result<()> {
    let fresh = mlp(x.device())?;
    fresh.load_state_dict(&model.state_dict()?)?;
    let [got, want] = [model, &fresh].map(|model| loss(model, x, BF16));
    let (got, want) = (got?, want?);
    assert_eq!(got.to_bytes()?, want.to_bytes()?, "{what}");
    let (got, want) = (got.backward()?, want.backward()?);
    for (ours, theirs) in model.parameters().iter().zip(fresh.parameters()) {
        let bytes = |param: &Param, gradients: &Gradients| {
            param.gradient(gradients).map(Tensor::to_bytes).transpose()
        };
        assert_eq!(bytes(ours, &got)?, bytes(&theirs, &want)?, "{what}");
    }
    Ok(())
}

#[test]
fn a_change_outside_the_step_makes_copies_outdated() -> Result<()> {
    let (device, casts) = watched(ternion_cpu::device());
    let (model, mut adam, x) = trained(&device)?;
    let first = model.parameters().swap_remove(0);
    let start = mlp(&device)?.state_dict()?;
    type Change<'a> = (&'a str, usize, Box<dyn Fn() -> Result<()> + 'a>);
    let changes: [Change<'_>; 6] = [
        ("nothing", 0, Box::new(|| Ok(()))),
        ("an op in place", 1, Box::new(|| no_grad(|| first.tensor().mul_scalar_(0.5)))),
        ("a view", 1, Box::new(|| first.tensor().detach().narrow(0, 1, 1)?.fill_(3.0))),
        ("set", 1, Box::new(|| first.set(&first.tensor().detach().neg()?))),
        ("a state dict", 4, Box::new(|| model.load_state_dict(&start))),
        ("other memory", 1, Box::new(|| first.replace(first.tensor().detach().mul_scalar(2.0)?))),
    ];
    for (what, casts_wanted, change) in &changes {
        change()?;
        casts.copies_used(&model.parameters());
        let gradients = loss(&model, &x, BF16)?.backward()?;
        assert_eq!(casts.copies_used(&model.parameters()), *casts_wanted, "{what}");
        assert_equals_fresh(&model, &x, what)?;
        if *what != "other memory" {
            adam.step(&gradients)?;
            assert_equals_fresh(&model, &x, what)?;
        }
    }
    Ok(())
}

#[test]
fn models_that_are_moved_frozen_or_cast_keep_no_outdated_copy() -> Result<()> {
    let device = ternion_cpu::device();
    let (model, mut adam, x) = trained(&device)?;
    let parameters = model.parameters();
    parameters[0].freeze();
    let with_frozen = with_precision(BF16, || model.forward(&x))?;
    parameters[0].unfreeze();
    assert_eq!(with_frozen.to_bytes()?, with_precision(BF16, || model.forward(&x))?.to_bytes()?);
    assert_equals_fresh(&model, &x, "unfrozen")?;
    adam.step(&loss(&model, &x, BF16)?.backward()?)?;
    assert_equals_fresh(&model, &x, "a step after unfreezing")?;
    let other = ternion_cpu::device();
    model.to_device(&other)?;
    assert_equals_fresh(&model, &x.to_device(&other)?, "another device")
}

#[test]
fn averages_are_swapped_in_and_out_past_the_copies() -> Result<()> {
    let device = ternion_cpu::device();
    let (model, mut adam, x) = trained(&device)?;
    let mut ema = Ema::new(model.parameters(), EmaConfig { decay: 0.5, ..Default::default() })?;
    for _ in 0..2 {
        adam.step(&loss(&model, &x, BF16)?.backward()?)?;
        ema.update()?;
        let before_swap = loss(&model, &x, BF16)?.to_bytes()?;
        ema.swap_in()?;
        assert_equals_fresh(&model, &x, "averages")?;
        assert_ne!(loss(&model, &x, BF16)?.to_bytes()?, before_swap);
        ema.swap_out()?;
        assert_equals_fresh(&model, &x, "back")?;
        assert_eq!(loss(&model, &x, BF16)?.to_bytes()?, before_swap);
    }
    Ok(())
}

#[test]
fn two_optimizers_of_one_parameter_invalidate_each_others_copies() -> Result<()> {
    let device = ternion_cpu::device();
    let mut ended = Vec::new();
    for is_spoiled in [false, true] {
        let (model, x) = (mlp(&device)?, numbers(&[5, 6], &device)?);
        let parameters = model.parameters();
        let mut both = [adamw(parameters.clone())?, adamw(parameters[..2].to_vec())?];
        // Steps with the same gradients, one after another, and alternating.
        for order in [&[0usize, 1][..], &[0, 1], &[0], &[1], &[0], &[1, 0], &[1]] {
            if is_spoiled {
                mark_copies_outdated(&parameters);
            }
            let gradients = loss(&model, &x, BF16)?.backward()?;
            order.iter().try_for_each(|&one| both[one].step(&gradients))?;
        }
        ended.push(bits(&parameters)?);
    }
    assert_eq!(ended[0], ended[1]);
    Ok(())
}

/// Runs steps of two parameters that share one buffer. Returns the bytes of both parameters, and
/// the number of casts of that buffer in the last step.
fn flat(ranges: [(usize, usize); 2], is_spoiled: bool) -> Result<(Vec<Vec<u8>>, usize)> {
    let (device, casts) = watched(ternion_cpu::device());
    let memory = numbers(&[64], &device)?;
    let part = |(first, count): (usize, usize)| {
        Param::new(&memory.narrow(0, first, count)?.reshape([count / 4, 4])?)
    };
    let params = ranges.map(part).into_iter().collect::<Result<Vec<_>>>()?;
    // The parameters are in separate groups: there are two changes, and each increments the version
    // of both parameters.
    let groups = params.iter().map(|param| ParamGroup::new(vec![param.clone()])).collect();
    let mut adam = AdamW::with_groups(groups, AdamWConfig { lr: 1e-2, ..Default::default() })?;
    let x = numbers(&[3, 4], &device)?;
    let mut last = 0;
    for _ in 0..4 {
        if is_spoiled {
            mark_copies_outdated(&params);
        }
        casts.copies_used(&[]);
        let output = |param: &Param| x.linear(&param.tensor(), None)?.square()?.mean(..);
        let loss = with_precision(BF16, || output(&params[0])?.add(&output(&params[1])?))?;
        last = casts.copies_used(&params[..1]);
        adam.step(&loss.backward()?)?;
    }
    Ok((bits(&params)?, last))
}

#[test]
fn parameters_in_one_buffer_have_copies_unless_they_overlap() -> Result<()> {
    for (ranges, casts_wanted) in [([(0, 32), (32, 32)], 0), ([(0, 32), (16, 32)], 2)] {
        let (with_copies, casts) = flat(ranges, false)?;
        assert_eq!(casts, casts_wanted, "{ranges:?}");
        assert_eq!(with_copies, flat(ranges, true)?.0, "{ranges:?}");
    }
    Ok(())
}

#[test]
fn memory_that_others_may_write_to_has_no_copies() -> Result<()> {
    let (device, casts) = watched(ternion_cpu::device());
    let (model, mut adam, x) = trained(&device)?;
    let parameters = model.parameters();
    let interop = device.backend().interop().expect("the CPU shares its memory");
    assert!(interop.address(parameters[0].tensor().buffer()).is_some());
    for _ in 0..2 {
        casts.copies_used(&parameters);
        adam.step(&loss(&model, &x, BF16)?.backward()?)?;
        assert_eq!(casts.copies_used(&parameters), 1);
    }
    assert_equals_fresh(&model, &x, "shared memory")
}

#[test]
fn a_view_that_einsum_gives_is_not_the_copy() -> Result<()> {
    let device = ternion_cpu::device();
    let (model, mut adam, x) = trained(&device)?;
    let weight = model.parameters()[0].tensor();
    let transposed = with_precision(BF16, || einsum("ij->ji", &[&weight]))?.detach();
    let before = transposed.to_bytes()?;
    let gradients = loss(&model, &x, BF16)?.backward()?;
    adam.step(&gradients)?;
    assert_eq!(transposed.to_bytes()?, before, "the step left it unchanged");
    let transposed = with_precision(BF16, || einsum("ij->ji", &[&weight]))?.detach();
    transposed.fill_(5.0)?;
    assert_equals_fresh(&model, &x, "a view was written to")
}

#[test]
fn a_checkpointed_segment_may_find_a_copy_once() -> Result<()> {
    let device = ternion_cpu::device();
    for is_dropped in [false, true] {
        let (model, adam, x) = trained(&device)?;
        let weight = model.parameters()[0].tensor();
        let segment = |x: &Tensor, w: &Tensor| x.linear(w, None)?.gelu()?.square();
        let plain = with_precision(BF16, || segment(&x, &weight)?.sum(..))?.backward()?;
        let (original, input) = (weight.clone(), x.requires_grad()?);
        let loss = with_precision(BF16, || {
            checkpoint(move |inputs| Ok(vec![segment(&inputs[0], &original)?]), &[&input])?[0].sum(..)
        })?;
        // After its optimizer is dropped, the parameter has no copy when the segment is recomputed.
        let _kept = (!is_dropped).then_some(adam);
        let gradients = loss.backward()?;
        let bytes = |gradients: &Gradients| gradients.get(&weight).map(Tensor::to_bytes).transpose();
        assert!(bytes(&plain)?.is_some());
        assert_eq!(bytes(&gradients)?, bytes(&plain)?, "dropped: {is_dropped}");
    }
    Ok(())
}

#[test]
fn state_dicts_hold_no_copies_and_resume_the_same() -> Result<()> {
    let device = ternion_cpu::device();
    let (model, mut adam, x) = trained(&device)?;
    let (kept, state) = (model.state_dict()?, adam.state_dict()?);
    assert!(state.values().all(|tensor| !tensor.dtype().is_half()));
    let resumed = mlp(&device)?;
    let mut resumed_adam = adamw(resumed.parameters())?;
    resumed.load_state_dict(&kept)?;
    resumed_adam.load_state_dict(&state)?;
    for _ in 0..2 {
        adam.step(&loss(&model, &x, BF16)?.backward()?)?;
        resumed_adam.step(&loss(&resumed, &x, BF16)?.backward()?)?;
    }
    assert_eq!(bits(&model.parameters())?, bits(&resumed.parameters())?);
    Ok(())
}
