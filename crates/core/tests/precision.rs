//! Precision scopes: which op computes in which dtype, how often tensors are cast, and that a scope
//! leaves nothing behind.

#[path = "precision/attention.rs"]
mod attention;
#[path = "precision/gradients.rs"]
mod gradients;

use DType::{BF16, F16, F32, F64};
use std::cell::RefCell;
use std::rc::Rc;
use ternion_core::decorators::Counting;
use ternion_core::{
    AttentionOptions, Conv1dOptions, Conv2dOptions, ConvTranspose2dOptions, DType, Device, GradOptions,
    MatmulOptions, Op, Precision, Reduction, Result, Tensor, UnaryOp, checkpoint, einsum, grad, no_grad,
    observe_ops, precision, with_precision, without_precision,
};
use ternion_testing::recording;

fn device() -> Device {
    ternion_cpu::device()
}

/// Numbers between -1 and 1 that half precision cannot represent exactly.
fn numbers(shape: &[usize], device: &Device) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|at| ((at * 37 + 11) % 101) as f32 / 50.7 - 1.0).collect();
    Tensor::from_slice(&values, shape, device).expect("numbers")
}

fn leaf(shape: &[usize], device: &Device) -> Result<Tensor> {
    numbers(shape, device).requires_grad()
}

/// Returns the bytes of the values.
fn bits(tensor: &Tensor) -> Result<Vec<u8>> {
    tensor.to_bytes()
}

/// Returns the ops that `f` applies, in order, with their names.
fn ops_of<T>(f: impl FnOnce() -> Result<T>) -> Result<(T, Vec<(String, Op)>)> {
    let ops = Rc::new(RefCell::new(Vec::new()));
    let log = ops.clone();
    let result = observe_ops(
        move |call| {
            log.borrow_mut().push((call.op.name().to_owned(), call.op.clone()));
            Ok(())
        },
        f,
    )?;
    Ok((result, ops.take()))
}

#[test]
fn products_compute_in_the_dtype_of_the_scope() -> Result<()> {
    let device = device();
    let (a, b) = (numbers(&[3, 4], &device), numbers(&[4, 2], &device));
    let (half, row) = (a.to_dtype(F16)?, numbers(&[4], &device));
    let (images, weight) = (numbers(&[2, 3, 5, 5], &device), numbers(&[4, 3, 3, 3], &device));
    let (rows, kernel) = (numbers(&[2, 3, 6], &device), numbers(&[4, 3, 2], &device));
    let heads = numbers(&[1, 2, 3, 4], &device);
    let mask = numbers(&[3, 3], &device);
    let masked = AttentionOptions { mask: Some(&mask), ..Default::default() };
    let dropping = AttentionOptions { dropout: 0.5, ..Default::default() };
    for precision in Precision::ALL {
        let outputs = with_precision(precision, || -> Result<Vec<(&str, Tensor)>> {
            Ok(vec![
                ("matmul", a.matmul(&b)?),
                ("matmul of f16 and f32", half.matmul(&b)?),
                ("a stack by a matrix", numbers(&[2, 3, 4], &device).matmul(&b)?),
                ("linear", a.linear(&numbers(&[2, 4], &device), Some(&numbers(&[2], &device)))?),
                ("linear of f16", half.linear(&numbers(&[2, 4], &device), None)?),
                ("addmm", numbers(&[3, 2], &device).addmm(&half, &b, 0.5, 2.0)?),
                ("dot", row.dot(&row.to_dtype(BF16)?)?),
                ("einsum", einsum("ij,jk->k", &[&half, &b])?),
                ("einsum of one", einsum("ij->j", &[&a])?),
                ("conv2d", images.conv2d(&weight, Some(&row), Conv2dOptions::default())?),
                ("conv1d", rows.conv1d(&kernel, Some(&row), Conv1dOptions::default())?),
                ("conv1d of f16", rows.to_dtype(F16)?.conv1d(&kernel, None, Conv1dOptions::default())?),
                (
                    "conv_transpose2d",
                    images.conv_transpose2d(
                        &numbers(&[3, 4, 2, 2], &device),
                        Some(&row),
                        ConvTranspose2dOptions::default(),
                    )?,
                ),
                ("attention", heads.scaled_dot_product_attention(&heads.to_dtype(BF16)?, &heads, masked)?),
                ("attention with dropout", heads.scaled_dot_product_attention(&heads, &heads, dropping)?),
            ])
        })?;
        for (name, output) in outputs {
            assert_eq!(output.dtype(), precision.dtype(), "{name} in {precision}");
        }
    }
    assert_eq!(a.matmul(&b)?.dtype(), F32, "outside");
    assert!(half.matmul(&b).is_err(), "outside");
    Ok(())
}

#[test]
fn the_result_is_that_of_the_cast_operands() -> Result<()> {
    let device = device();
    let (x, w, bias) = (numbers(&[5, 8], &device), numbers(&[6, 8], &device), numbers(&[6], &device));
    for precision in [Precision::Bf16, Precision::F16] {
        let cast = |tensor: &Tensor| tensor.to_dtype(precision.dtype());
        let by_hand = cast(&x)?.linear(&cast(&w)?, Some(&cast(&bias)?))?;
        let scoped = with_precision(precision, || x.linear(&w, Some(&bias)))?;
        assert_eq!(bits(&scoped)?, bits(&by_hand)?);
        assert_ne!(scoped.to_dtype(F32)?.to_vec::<f32>()?, x.linear(&w, Some(&bias))?.to_vec::<f32>()?);
    }
    Ok(())
}

#[test]
fn sums_norms_and_exponentials_are_f32() -> Result<()> {
    let device = device();
    let wide = numbers(&[3, 4], &device).abs()?.add_scalar(0.5)?;
    let (weight, images) = (numbers(&[4], &device), numbers(&[2, 4, 3], &device));
    for (precision, dtype) in [(Precision::Bf16, BF16), (Precision::F16, F16), (Precision::F32, BF16)] {
        let (x, images) = (wide.to_dtype(dtype)?, images.to_dtype(dtype)?);
        let outputs = with_precision(precision, || -> Result<Vec<(&str, Tensor)>> {
            Ok(vec![
                ("softmax", x.softmax(1)?),
                ("log_softmax", x.log_softmax(1)?),
                ("layer_norm", x.layer_norm(Some(&weight), Some(&weight), 1e-5)?),
                ("rms_norm", x.rms_norm(Some(&weight), 1e-5)?),
                ("group_norm", images.group_norm(2, Some(&weight), None, 1e-5)?),
                ("sum", x.sum(..)?),
                ("prod", x.prod(1)?),
                ("mean", x.mean_keep(0)?),
                ("sum_squares", x.sum_squares(..)?),
                ("norm", x.norm(..)?),
                ("logsumexp", x.logsumexp(1)?),
                ("var", x.var(.., 1.0)?),
                ("std", x.std(.., 1.0)?),
                ("cumsum", x.cumsum(0)?),
                ("exp", x.exp()?),
                ("expm1", x.expm1()?),
                ("log", x.log()?),
                ("log1p", x.log1p()?),
                ("recip", x.recip()?),
                ("rsqrt", x.rsqrt()?),
                ("softplus", x.softplus()?),
                ("softplus_with", x.softplus_with(2.0, 20.0)?),
                ("pow", x.pow(&x)?),
                ("pow_scalar", x.pow_scalar(3.0)?),
                ("cross_entropy", x.cross_entropy(&Tensor::from_slice(&[0i32, 1, 2], 3, &device)?)?),
                ("mse_loss", x.mse_loss(&wide, Reduction::Mean)?),
                ("bce_with_logits", x.bce_with_logits(&wide, Reduction::Sum)?),
            ])
        })?;
        for (name, output) in outputs {
            assert_eq!(output.dtype(), F32, "{name} in {precision}");
        }
    }
    Ok(())
}

#[test]
fn functions_of_several_elements_take_the_widest_dtype() -> Result<()> {
    let device = device();
    let x = numbers(&[2, 3], &device);
    let (bf16, f16) = (x.to_dtype(BF16)?, x.to_dtype(F16)?);
    let index = Tensor::from_slice(&[0i32, 1], [2, 1], &device)?;
    with_precision(Precision::Bf16, || -> Result<()> {
        for (left, right, widest) in
            [(&bf16, &bf16, BF16), (&f16, &f16, F16), (&bf16, &x, F32), (&x, &f16, F32), (&bf16, &f16, F32)]
        {
            let column = right.narrow(1, 0, 1)?;
            let outputs = [
                ("add", left.add(right)?),
                ("mul", left.mul(right)?),
                ("maximum", left.maximum(right)?),
                ("multiply_add", left.multiply_add(right, left)?),
                ("scale_add", left.scale_add(0.5, right)?),
                ("add_relu", left.add_relu(right)?),
                ("bias_activation", left.bias_activation(&right.select(0, 0)?, UnaryOp::GeluErf)?),
                ("where_", left.gt_scalar(0.0)?.where_(left, right)?),
                ("concat", Tensor::concat(&[left, right], 0)?),
                ("stack", Tensor::stack(&[left, right], 0)?),
                ("outer", left.select(0, 0)?.outer(&right.select(0, 1)?)?),
                ("scatter", left.scatter(1, &index, &column)?),
                ("masked_scatter", left.masked_scatter(&left.gt_scalar(0.0)?, right)?),
                ("slice_assign", left.slice_assign(..1, &right.narrow(0, 1, 1)?)?),
            ];
            for (name, output) in outputs {
                assert_eq!(output.dtype(), widest, "{name} of {} and {}", left.dtype(), right.dtype());
            }
            assert_eq!(left.gt(right)?.dtype(), DType::Bool);
        }
        Ok(())
    })?;
    assert!(bf16.add(&x).is_err(), "outside");
    Ok(())
}

#[test]
fn other_ops_and_dtypes_are_left_alone() -> Result<()> {
    let device = device();
    let x = numbers(&[2, 4, 3, 3], &device);
    let half = x.to_dtype(BF16)?;
    let (weight, double) = (numbers(&[4], &device), numbers(&[3, 3], &device).to_dtype(F64)?);
    with_precision(Precision::Bf16, || -> Result<()> {
        for input in [&x, &half] {
            let outputs = [
                ("relu", input.relu()?),
                ("gelu", input.gelu()?),
                ("max", input.max(..)?),
                ("mul_scalar", input.mul_scalar(0.3)?),
                ("batch_norm", input.batch_norm_train(Some(&weight), Some(&weight), 1e-5)?.0),
                (
                    "batch_norm_eval",
                    input.batch_norm_eval(&weight, &weight.exp()?, Some(&weight), None, 1e-5)?,
                ),
            ];
            for (name, output) in outputs {
                assert_eq!(output.dtype(), input.dtype(), "{name}");
            }
        }
        assert_eq!(double.matmul(&double)?.dtype(), F64);
        assert_eq!(double.softmax(0)?.dtype(), F64);
        let channels = x.to_dtype(F64)?;
        assert!(channels.batch_norm_train(Some(&weight), None, 1e-5).is_err(), "f64 is not cast, nor to it");
        assert!(double.matmul(&double.to_dtype(F32)?).is_err(), "f64 is not cast, nor to it");
        assert!(double.add(&double.to_dtype(F32)?).is_err(), "f64 is not cast, nor to it");
        let whole = Tensor::iota(4, DType::I32, 0, 1, &device)?;
        assert_eq!(whole.dot(&whole)?.dtype(), DType::I32);
        assert_eq!(whole.sum(..)?.dtype(), DType::I64);
        let sum = numbers(&[2], &device);
        sum.add_(&numbers(&[2], &device))?;
        assert_eq!(sum.dtype(), F32);
        assert!(sum.add_(&numbers(&[2], &device).to_dtype(BF16)?).is_err(), "in place nothing is cast");
        Ok(())
    })
}

#[test]
fn what_is_added_in_place_is_computed_in_its_own_dtype() -> Result<()> {
    let device = device();
    let (a, b) = (numbers(&[4, 5], &device), numbers(&[5, 3], &device));
    for beta in [1.0, 0.5, 0.0] {
        let (outside, inside) = (numbers(&[4, 3], &device), numbers(&[4, 3], &device));
        outside.addmm_(&a, &b, beta, 2.0)?;
        with_precision(Precision::Bf16, || inside.addmm_(&a, &b, beta, 2.0))?;
        assert_eq!(bits(&inside)?, bits(&outside)?, "beta {beta}");
    }
    Ok(())
}

#[test]
fn a_wide_residual_makes_the_product_wide() -> Result<()> {
    let device = device();
    let (a, b, residual) = (leaf(&[4, 5], &device)?, leaf(&[5, 3], &device)?, leaf(&[4, 3], &device)?);
    let fused = with_precision(Precision::Bf16, || {
        a.matmul_with(&b, MatmulOptions { residual: Some(&residual), ..Default::default() })
    })?;
    assert_eq!(fused.dtype(), F32);
    let wide = MatmulOptions { out_dtype: Some(F32), ..Default::default() };
    let expected = a.to_dtype(BF16)?.matmul_with(&b.to_dtype(BF16)?, wide)?.add(&residual)?;
    assert_eq!(fused.to_vec::<f32>()?, expected.to_vec::<f32>()?);
    let gradients = fused.sum(..)?.backward()?;
    assert_eq!(gradients.get(&residual).map(Tensor::dtype), Some(F32));
    let half = with_precision(Precision::Bf16, || {
        let residual = residual.to_dtype(BF16)?;
        a.matmul_with(&b, MatmulOptions { residual: Some(&residual), ..Default::default() })
    })?;
    assert_eq!(half.dtype(), BF16);
    Ok(())
}

#[test]
fn a_parameter_is_cast_once_for_each_version() -> Result<()> {
    let (device, counter) = Counting::new(device());
    let (x, w) = (numbers(&[4, 3], &device), leaf(&[3, 3], &device)?);
    let casts = || counter.counts().launches_of("copy");
    with_precision(Precision::Bf16, || -> Result<()> {
        let x = x.to_dtype(BF16)?;
        counter.reset();
        for _ in 0..3 {
            x.linear(&w, None)?;
            no_grad(|| x.matmul(&w))?;
        }
        assert_eq!(casts(), 1, "the same values");
        no_grad(|| w.mul_scalar_(0.5))?;
        let changed = x.linear(&w, None)?;
        assert_eq!(casts(), 2, "changed in place");
        x.linear(&w, None)?;
        with_precision(Precision::Bf16, || x.linear(&w, None))?;
        assert_eq!(casts(), 2, "also in a scope inside");
        assert_eq!(bits(&changed)?, bits(&x.linear(&w.detach().to_dtype(BF16)?, None)?)?);
        with_precision(Precision::F16, || x.to_dtype(F16)?.linear(&w, None))?;
        assert_eq!(casts(), 5, "the one by hand, x, and the weight in f16");
        Ok(())
    })?;
    counter.reset();
    with_precision(Precision::Bf16, || x.to_dtype(BF16)?.linear(&w, None))?;
    assert_eq!(casts(), 2, "another scope casts again");
    Ok(())
}

#[test]
fn a_cast_made_without_a_record_still_leads_to_its_parameter() -> Result<()> {
    let device = device();
    let (x, w) = (numbers(&[4, 3], &device), leaf(&[2, 3], &device)?);
    let loss = with_precision(Precision::Bf16, || {
        no_grad(|| x.linear(&w, None))?;
        x.linear(&w, None)?.sum(..)
    })?;
    assert!(loss.backward()?.get(&w).is_some());
    Ok(())
}

#[test]
fn casts_are_given_back_when_the_outermost_scope_ends() -> Result<()> {
    let device = device();
    let (x, w) = (numbers(&[2, 64], &device), leaf(&[64, 64], &device)?);
    let before = device.memory().in_use;
    with_precision(Precision::F32, || -> Result<()> {
        with_precision(Precision::Bf16, || x.linear(&w, None).map(drop))?;
        assert!(device.memory().in_use >= before + 64 * 64 * 2, "kept for the next use");
        without_precision(|| with_precision(Precision::Bf16, || x.linear(&w, None)).map(drop))
    })?;
    assert_eq!(device.memory().in_use, before);
    // Casts of parameters that no longer exist do not accumulate.
    with_precision(Precision::Bf16, || -> Result<()> {
        for _ in 0..1000 {
            x.linear(&leaf(&[64, 64], &device)?, None)?;
        }
        assert!(device.memory().in_use <= before + 200 * 64 * 64 * 2, "{}", device.memory().in_use);
        Ok(())
    })?;
    assert_eq!(device.memory().in_use, before);
    Ok(())
}

#[test]
fn an_operand_is_cast_before_it_is_expanded() -> Result<()> {
    let (device, counter) = Counting::new(device());
    let (stack, one) = (numbers(&[16, 4, 4], &device), numbers(&[4, 4], &device).unsqueeze(0)?);
    counter.reset();
    with_precision(Precision::Bf16, || one.matmul(&stack))?;
    let written = counter.counts().ops["copy"].bytes_written;
    assert_eq!(written, (16 * 16 + 16) * 2, "the stack and one matrix");
    Ok(())
}

#[test]
fn scopes_nest_and_end() {
    assert_eq!(precision::current(), None);
    with_precision(Precision::Bf16, || {
        assert_eq!(precision::current(), Some(Precision::Bf16));
        with_precision(Precision::F32, || assert_eq!(precision::current(), Some(Precision::F32)));
        without_precision(|| assert_eq!(precision::current(), None));
        let panicked = std::panic::catch_unwind(|| {
            with_precision(Precision::F16, || -> () { std::panic::panic_any("inside") });
        });
        assert!(panicked.is_err());
        assert_eq!(precision::current(), Some(Precision::Bf16), "after a panic");
        std::thread::scope(|threads| {
            threads.spawn(|| assert_eq!(precision::current(), None, "another thread"));
        });
    });
    assert_eq!(precision::current(), None);
}

#[test]
fn the_inner_scope_holds_inside_it() -> Result<()> {
    let device = device();
    let (x, w) = (numbers(&[4, 3], &device), numbers(&[3, 3], &device));
    with_precision(Precision::Bf16, || -> Result<()> {
        let low = x.matmul(&w)?;
        let exact = with_precision(Precision::F32, || low.matmul(&w))?;
        assert_eq!(exact.dtype(), F32);
        assert_eq!(bits(&exact)?, bits(&without_precision(|| low.to_dtype(F32)?.matmul(&w))?)?);
        assert_eq!(exact.matmul(&w)?.dtype(), BF16);
        assert!(without_precision(|| low.matmul(&w)).is_err(), "bf16 with f32");
        Ok(())
    })
}

#[test]
fn a_checkpointed_segment_runs_again_in_its_precision() -> Result<()> {
    let device = device();
    let (x, w) = (leaf(&[4, 3], &device)?, leaf(&[3, 3], &device)?);
    let segment = |x: &Tensor, w: &Tensor| x.linear(w, None)?.gelu()?.linear(w, None)?.softmax(1);
    for precision in Precision::ALL {
        let plain = with_precision(precision, || segment(&x, &w)?.square()?.sum(..))?.backward()?;
        for warm in [false, true] {
            let loss = with_precision(precision, || {
                if warm {
                    // The weight's cast is cached when the segment runs first, and is not when it
                    // runs again.
                    x.linear(&w, None)?;
                }
                let weight = w.clone();
                let outputs = checkpoint(move |inputs| Ok(vec![segment(&inputs[0], &weight)?]), &[&x])?;
                outputs[0].square()?.sum(..)
            })?;
            let checkpointed = loss.backward()?;
            for tensor in [&x, &w] {
                assert_eq!(
                    checkpointed.get(tensor).map(bits).transpose()?,
                    plain.get(tensor).map(bits).transpose()?,
                    "{precision}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_recorded_step_casts_for_itself() -> Result<()> {
    let (counting, counter) = Counting::new(device());
    let device = recording(counting);
    let (x, w) = (numbers(&[4, 3], &device).to_dtype(BF16)?, leaf(&[2, 3], &device)?);
    let in_use = device.memory().in_use;
    for outside in [true, false] {
        let mut runs = Vec::new();
        let step = |runs: &mut Vec<u64>| -> Result<DType> {
            counter.reset();
            let y = x.linear(&w, None)?;
            x.linear(&w, None)?;
            runs.push(counter.counts().launches_of("copy"));
            no_grad(|| w.mul_scalar_(0.5))?;
            Ok(y.dtype())
        };
        let dtype = match outside {
            true => with_precision(Precision::Bf16, || {
                x.linear(&w, None)?; // cast before the step
                device.capture(|| step(&mut runs)).and_then(|mut step| step.replay().copied())
            })?,
            false => *device.capture(|| with_precision(Precision::Bf16, || step(&mut runs)))?.replay()?,
        };
        assert_eq!(dtype, BF16);
        assert_eq!(runs, [1, 1], "a cast in the first run, and one that is recorded");
    }
    assert_eq!(device.memory().in_use, in_use);
    Ok(())
}

#[test]
fn a_step_that_is_not_recorded_keeps_its_precision() -> Result<()> {
    let device = device();
    let (x, w) = (numbers(&[4, 3], &device), leaf(&[2, 3], &device)?);
    let mut low = with_precision(Precision::Bf16, || device.capture(|| x.linear(&w, None)))?;
    assert_eq!(low.replay()?.dtype(), BF16);
    let mut plain = device.capture(|| x.linear(&w, None))?;
    assert_eq!(with_precision(Precision::F16, || plain.replay().map(Tensor::dtype))?, F32);
    Ok(())
}

/// Returns for each product among `ops` whether it may be rounded to TF32.
fn tf32_of(ops: &[(String, Op)]) -> Vec<(&str, bool)> {
    let tf32 = |(name, op): &'_ (String, Op)| match op {
        Op::Matmul(matmul) => Some(matmul.tf32),
        Op::Conv2d(conv) => Some(conv.config.tf32),
        Op::Conv2dGradInput(conv) => Some(conv.config.tf32),
        Op::Conv2dGradWeight(conv) => Some(conv.config.tf32),
        Op::Attention(attention) => Some(attention.config.tf32),
        Op::AttentionGrad(attention) => Some(attention.config.tf32),
        _ => {
            assert!(["conv", "matmul", "attention"].iter().all(|product| !name.contains(product)));
            None
        }
    };
    ops.iter().filter_map(|one| Some((one.0.as_str(), tf32(one)?))).collect()
}

#[test]
fn tf32_is_allowed_by_its_scope_alone_and_in_gradients_too() -> Result<()> {
    let device = device();
    let (x, w) = (leaf(&[4, 3], &device)?, leaf(&[3, 3], &device)?);
    let (images, kernel) = (leaf(&[1, 2, 4, 4], &device)?, leaf(&[2, 2, 3, 3], &device)?);
    let forward = || -> Result<Tensor> {
        let products = x.matmul(&w)?.linear(&w, None)?.add(&einsum("ij,jk->ik", &[&x, &w])?)?;
        let conv = images.conv2d(&kernel, None, Conv2dOptions::default())?;
        let options = ConvTranspose2dOptions::default();
        products.sum(..)?.add(&conv.conv_transpose2d(&kernel, None, options)?.sum(..)?)
    };
    for (scope, allowed) in [
        (None, false),
        (Some(Precision::F32), false),
        (Some(Precision::Ieee), false),
        (Some(Precision::Tf32), true),
        (Some(Precision::Bf16), false),
    ] {
        let loss = || scope.map_or_else(forward, |scope| with_precision(scope, forward));
        let (_, ops) = ops_of(|| loss()?.backward())?;
        let products = tf32_of(&ops);
        // 3 products and their 6 gradients, 2 convolutions and their 4 gradients.
        assert_eq!(products.len(), 15, "{products:?}");
        assert!(products.iter().all(|&(_, tf32)| tf32 == allowed), "{scope:?}: {products:?}");
    }
    let nested = || with_precision(Precision::Tf32, || with_precision(Precision::F32, forward));
    let (_, ops) = ops_of(nested)?;
    assert!(tf32_of(&ops).iter().all(|&(_, tf32)| !tf32));
    let asked = MatmulOptions { tf32: true, ..Default::default() };
    let (_, ops) = ops_of(|| x.matmul_with(&w, asked)?.sum(..)?.backward())?;
    assert_eq!(tf32_of(&ops), [("matmul", true); 3], "asked for by the product itself");
    Ok(())
}

#[test]
fn parts_of_bf16_are_allowed_unless_a_scope_or_the_product_forbids_them() -> Result<()> {
    let device = device();
    let (x, w) = (leaf(&[4, 3], &device)?, leaf(&[3, 3], &device)?);
    let forward = || x.matmul(&w)?.linear(&w, None)?.add(&einsum("ij,jk->ik", &[&x, &w])?)?.sum(..);
    let allowed = |run: &dyn Fn() -> Result<Tensor>| -> Result<Vec<bool>> {
        let (_, ops) = ops_of(|| run()?.backward())?;
        let permission = |op: &Op| if let Op::Matmul(product) = op { Some(product.bf16x6) } else { None };
        Ok(ops.iter().filter_map(|(_, op)| permission(op)).collect())
    };
    assert_eq!(allowed(&forward)?, [true; 9], "3 products and their 6 gradients");
    for scope in Precision::ALL {
        let found = allowed(&|| with_precision(scope, forward))?;
        assert_eq!(found, [scope != Precision::Ieee; 9], "{scope:?}");
    }
    let nested = || with_precision(Precision::Ieee, || with_precision(Precision::F32, forward));
    assert_eq!(allowed(&nested)?, [true; 9], "f32 is the exception within a scope");
    let forbidden = || MatmulOptions { bf16x6: false, ..Default::default() };
    let product = || x.matmul_with(&w, forbidden())?.sum(..);
    assert_eq!(allowed(&product)?, [false; 3], "forbidden by the product itself");
    let inside = || with_precision(Precision::F32, product);
    assert_eq!(allowed(&inside)?, [false; 3], "a scope permits what the product does");
    let sum = numbers(&[4, 3], &device);
    let in_place = |scope| -> Result<Option<bool>> {
        let add = || sum.addmm_(&x.detach(), &w.detach(), 1.0, 1.0);
        let (_, ops) = ops_of(|| with_precision(scope, add))?;
        Ok(ops
            .iter()
            .find_map(|(_, op)| if let Op::Matmul(product) = op { Some(product.bf16x6) } else { None }))
    };
    assert_eq!([in_place(Precision::F32)?, in_place(Precision::Ieee)?], [Some(true), Some(false)]);
    // A backend without such units computes the same as always.
    let plain: Vec<f32> = x.matmul(&w)?.to_vec()?;
    assert_eq!(x.matmul_with(&w, forbidden())?.to_vec::<f32>()?, plain);
    Ok(())
}

#[test]
fn a_wrong_call_is_reported_as_outside() -> Result<()> {
    let device = device();
    let (x, w) = (numbers(&[4, 3], &device), numbers(&[4, 3], &device));
    let wrong = || -> Result<Vec<Option<String>>> {
        let transposed = w.t()?;
        let results = [x.matmul(&w), x.add(&transposed), x.linear(&transposed, None), x.softmax(5)];
        Ok(results.into_iter().map(|result| result.err().map(|error| error.to_string())).collect())
    };
    let outside = wrong()?;
    assert!(outside.iter().all(Option::is_some), "{outside:?}");
    assert_eq!(with_precision(Precision::Bf16, wrong)?, outside);
    Ok(())
}

#[test]
fn precisions_have_names() {
    for precision in Precision::ALL {
        assert_eq!(precision.name().parse::<Precision>().ok(), Some(precision));
        assert_eq!(precision.to_string(), precision.name());
    }
    let message = "half".parse::<Precision>().expect_err("no such precision").to_string();
    assert_eq!(message, "precision: \"half\", expected one of f32, ieee, tf32, bf16 and f16");
    assert_eq!(Precision::default(), Precision::F32);
    assert_eq!(Precision::ALL.map(Precision::needs_loss_scale), [false, false, false, false, true]);
}

#[test]
fn scopes_that_are_opened_and_closed_are_those_of_closures() -> Result<()> {
    use ternion_core::precision::{close_scope, current, open_scope};
    let device = device();
    let (a, b) = (leaf(&[3, 4], &device)?, leaf(&[4, 2], &device)?);
    assert!(!close_scope());
    open_scope(Some(Precision::Bf16));
    let (found, ops) = ops_of(|| a.matmul(&b).and_then(|_| a.matmul(&b)))?;
    open_scope(None);
    assert_eq!((current(), a.matmul(&b)?.dtype()), (None, DType::F32));
    assert!(close_scope());
    assert_eq!(current(), Some(Precision::Bf16));
    assert!(close_scope() && !close_scope());
    assert_eq!((current(), a.matmul(&b)?.dtype()), (None, DType::F32));
    let (want, ops_of_closure) =
        ops_of(|| with_precision(Precision::Bf16, || a.matmul(&b).and_then(|_| a.matmul(&b))))?;
    assert_eq!(bits(&found)?, bits(&want)?);
    let names =
        |ops: Vec<(String, ternion_core::Op)>| ops.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(ops), names(ops_of_closure));
    Ok(())
}
