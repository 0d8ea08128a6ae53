//! Rows of optimizer steps and of gradient clipping. Steps change their inputs: the rows run them
//! on copies.

use crate::prelude::*;
use ternion_core::dispatch::apply;
use ternion_core::ops::step::{AdamStep, DecayMode, SgdStep};
use ternion_core::{clip_grad_norm, clip_grad_value, enable_grad};

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    [sgd(), sgd_with_half_copy(), adam(), adam_with_half_copy(), clipping()].into_iter().flatten().collect()
}

const PLAIN: SgdStep =
    SgdStep { momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false, half_copy: false };
const IN_PLACE: &str = "it changes its inputs";

/// Copies the inputs that a step changes, and runs the step. `width` inputs belong to each
/// parameter.
fn multi_tensor_step(op: impl Into<ternion_core::Op>, width: usize, x: &[Tensor]) -> Result<Vec<Tensor>> {
    let changed = || (0..x.len()).filter(|index| !matches!(index % width, 1 | 2));
    let mut inputs = x.to_vec();
    for index in changed() {
        inputs[index] = x[index].copy()?;
    }
    let outputs = apply(op, &inputs.iter().collect::<Vec<_>>())?;
    for (output, index) in outputs.iter().zip(changed()) {
        assert!(output.buffer().is(inputs[index].buffer()), "output {index} is in place");
    }
    Ok(outputs.into_vec())
}

/// Like [`multi_tensor_step`], with one parameter.
fn stepped(op: impl Into<ternion_core::Op>, x: &[Tensor]) -> Result<Vec<Tensor>> {
    multi_tensor_step(op, x.len(), x)
}

/// Shapes of the parameters in one step. One has several chunks, one ends within a pack.
const SHAPES: [&[usize]; 3] = [&[7, 5], &[2051], &[]];

/// Returns the shapes of all inputs: for each parameter its own, its gradient, `hyper` numbers and
/// its states.
fn grouped_shapes(hyper: usize, states: usize) -> Vec<Vec<usize>> {
    let one = |shape: &&[usize]| {
        let shape = shape.to_vec();
        let mut all = vec![shape.clone(), shape.clone(), vec![hyper]];
        all.extend(std::iter::repeat_n(shape, states));
        all
    };
    SHAPES.iter().flat_map(one).collect()
}

fn sgd() -> Vec<OpCase> {
    let row = |parameters: &str, op: SgdStep, hyper: [f64; 3]| {
        let mut case = OpCase::new("sgd_step", parameters)
            .input(Uniform(-2.0, 2.0))
            .input(Uniform(-1.0, 1.0))
            .input(Input::accumulator(Fixed(hyper.to_vec())).constant());
        let with_velocity = op.momentum != 0.0;
        if with_velocity {
            case = case.input(Input::accumulator(Uniform(-1.0, 1.0)));
        }
        for shape in [&[7usize, 5][..], &[33], &[], &[0]] {
            let mut instance = vec![shape.to_vec(), shape.to_vec(), vec![3]];
            instance.extend(with_velocity.then(|| shape.to_vec()));
            case.instances.push(instance);
        }
        let definition = op.clone();
        case.forward_only(IN_PLACE)
            .run(move |x| stepped(op.clone(), x))
            .oracle(move |x| sgd_step(&definition, x))
    };
    let momentum = SgdStep { momentum: 0.9, ..PLAIN };
    let several = |op: SgdStep| {
        let mut case = OpCase::new("sgd_step", "three parameters");
        for hyper in [[0.1, 1.0, 0.0], [0.2, 0.5, 1.0], [0.3, 0.25, 0.0]] {
            case = case.input(Uniform(-2.0, 2.0)).input(Uniform(-1.0, 1.0));
            case = case.input(Input::accumulator(Fixed(hyper.to_vec())).constant());
            case = case.input(Input::accumulator(Uniform(-1.0, 1.0)));
        }
        case.instances.push(grouped_shapes(3, 1));
        let definition = op.clone();
        case.forward_only(IN_PLACE)
            .run(move |x| multi_tensor_step(op.clone(), 4, x))
            .oracle(move |x| x.chunks(4).flat_map(|one| sgd_step(&definition, one)).collect::<Vec<_>>())
            .rejects("sgd_step: expected 3 inputs for each parameter, got 4", |device| {
                let (x, hyper) = (Tensor::zeros([2], F32, device)?, Tensor::zeros([3], F32, device)?);
                stepped(PLAIN, &[x.clone(), x.clone(), hyper, x])
            })
            .rejects("sgd_step: dtypes f32 and f16 differ; cast one of them with to_dtype", |device| {
                let hyper = Tensor::zeros([3], F32, device)?;
                let pair = |dtype| Ok::<_, Error>([Tensor::zeros([2], dtype, device)?, Tensor::ones([2], dtype, device)?]);
                let ([a, b], [c, d]) = (pair(F32)?, pair(F16)?);
                multi_tensor_step(PLAIN, 3, &[a, b, hyper.clone(), c, d, hyper])
            })
    };
    vec![
        several(momentum.clone()),
        row("", PLAIN, [0.1, 1.0, 0.0])
            .adversarial(
                "infinite",
                [
                    Array::new(&[3], vec![f64::INFINITY, f64::NEG_INFINITY, 1.0]),
                    Array::new(&[3], vec![1.0, 0.0, f64::INFINITY]),
                    Array::new(&[3], vec![0.1, 1.0, 0.0]),
                ],
            )
            .rejects("sgd_step: nesterov needs a momentum above 0 and no dampening", |device| {
                let x = Tensor::zeros([2], F32, device)?;
                stepped(
                    SgdStep { nesterov: true, ..PLAIN },
                    &[x.clone(), x, Tensor::zeros([3], F32, device)?],
                )
            })
            .rejects("sgd_step: gradient has shape [3], expected [2]", |device| {
                let (x, hyper) = (Tensor::zeros([2], F32, device)?, Tensor::zeros([3], F32, device)?);
                stepped(PLAIN, &[x, hyper.clone(), hyper])
            })
            .rejects("backward: sgd_step changes its input 0 in place: run it in no_grad", |device| {
                let (x, hyper) = (Tensor::zeros([2], F32, device)?, Tensor::zeros([3], F32, device)?);
                let parameter = x.requires_grad()?;
                enable_grad(|| Ok(apply(PLAIN, &[&parameter, &x, &hyper])?.into_vec()))
            }),
        row("weight_decay clip", SgdStep { weight_decay: 0.01, ..PLAIN }, [0.1, 0.25, 0.0]),
        row("momentum first", momentum.clone(), [0.1, 1.0, 1.0]),
        row("momentum", momentum.clone(), [0.1, 0.5, 0.0]),
        row("momentum dampening", SgdStep { dampening: 0.25, ..momentum.clone() }, [0.1, 1.0, 0.0]),
        row("momentum dampening first", SgdStep { dampening: 0.25, ..momentum.clone() }, [0.1, 1.0, 1.0]),
        row(
            "nesterov weight_decay",
            SgdStep { nesterov: true, weight_decay: 0.1, ..momentum },
            [0.1, 1.0, 0.0],
        ),
    ]
}

/// PyTorch's variant of Sutskever et al. 2013, one element at a time. `x` is the parameter, its
/// gradient, `[learning rate, clip factor, 1 for the first step]`, and the velocity.
fn sgd_step(op: &SgdStep, x: &[Array]) -> Vec<Array> {
    let [rate, clip, first] = [0, 1, 2].map(|at| x[2].data[at]);
    let mut outputs = vec![x[0].clone()];
    outputs.extend(x.get(3).filter(|_| op.momentum != 0.0).cloned());
    for at in 0..x[0].elements() {
        let parameter = x[0].data[at];
        let mut gradient = x[1].data[at] * clip;
        // Without decay, an infinite parameter does not contribute.
        if op.weight_decay != 0.0 {
            gradient += op.weight_decay * parameter;
        }
        if let Some(velocity) = x.get(3).filter(|_| op.momentum != 0.0) {
            let new_velocity = match first == 1.0 {
                true => gradient,
                false => op.momentum * velocity.data[at] + (1.0 - op.dampening) * gradient,
            };
            outputs[1].data[at] = new_velocity;
            gradient = if op.nesterov { gradient + op.momentum * new_velocity } else { new_velocity };
        }
        outputs[0].data[at] = parameter - rate * gradient;
    }
    outputs
}

/// Steps that also write each parameter in half precision, with and without momentum; three
/// parameters together.
fn sgd_with_half_copy() -> Vec<OpCase> {
    let row = |parameters: &str, op: SgdStep, half: DType, count: usize| {
        let (states, width) = (op.states(), op.width());
        let mut case =
            OpCase::new("sgd_step", format!("half_copy={half}{parameters}")).dtypes(&[F32]).casts();
        for rate in [0.1, 0.2, 0.3].into_iter().take(count) {
            case = case.input(Uniform(-2.0, 2.0)).input(Uniform(-1.0, 1.0));
            case = case.input(Input::accumulator(Fixed(vec![rate, 0.5, 0.0])).constant());
            if states > 0 {
                case = case.input(Input::accumulator(Uniform(-1.0, 1.0)));
            }
            case = case.input(Input::of(half, Uniform(-2.0, 2.0)).constant());
        }
        let instance = |shape: &[usize]| {
            let mut all = vec![shape.to_vec(), shape.to_vec(), vec![3]];
            all.extend(std::iter::repeat_n(shape.to_vec(), states + 1));
            all
        };
        match count {
            1 => case.instances.extend([&[7usize, 5][..], &[2051], &[], &[0]].map(instance)),
            _ => case.instances.push(grouped_shapes(3, states + 1)),
        }
        let definition = op.clone();
        // The copy equals the parameter: the table rounds it to its dtype.
        let oracle = move |one: &[Array]| {
            let mut outputs = sgd_step(&definition, one);
            outputs.push(outputs[0].clone());
            outputs
        };
        case.forward_only(IN_PLACE)
            .run(move |x| multi_tensor_step(op.clone(), width, x))
            .oracle(move |x| x.chunks(width).flat_map(&oracle).collect::<Vec<_>>())
    };
    let plain = SgdStep { half_copy: true, ..PLAIN };
    let momentum = SgdStep { momentum: 0.9, weight_decay: 0.01, ..plain.clone() };
    vec![
        row("", plain.clone(), F16, 1),
        row(" momentum", momentum.clone(), BF16, 1),
        row(", three parameters", plain.clone(), BF16, 3),
        row(" momentum, three parameters", momentum, F16, 3).rejects(
            "sgd_step: half copy is f32, expected f16 or bf16",
            move |device| {
                let (x, hyper) = (Tensor::zeros([2], F32, device)?, Tensor::zeros([3], F32, device)?);
                stepped(plain.clone(), &[x.clone(), x.clone(), hyper, x])
            },
        ),
    ]
}

const ADAM: AdamStep = AdamStep {
    beta1: 0.9,
    beta2: 0.999,
    eps: 1e-8,
    weight_decay: 0.0,
    decay_mode: DecayMode::Coupled,
    half_copy: false,
};

/// The hyperparameters of the tenth step: its bias corrections are 1 - 0.9^10 and
/// sqrt(1 - 0.999^10).
fn tenth(rate: f64, clip: f64) -> [f64; 4] {
    [rate, clip, 0.6513215599, 0.0997753]
}

fn adam() -> Vec<OpCase> {
    let row = |parameters: &str, weight_decay: f64, decay_mode: DecayMode, hyper: [f64; 4]| {
        let op = AdamStep { weight_decay, decay_mode, ..ADAM };
        let definition = op.clone();
        OpCase::new("adam_step", parameters)
            .input(Uniform(-2.0, 2.0))
            .input(AwayFrom(0.01))
            .input(Input::accumulator(Fixed(hyper.to_vec())).constant())
            .input(Input::accumulator(Uniform(-1.0, 1.0)))
            .input(Input::accumulator(Uniform(0.0, 1.0)))
            .on([&[7, 5], &[7, 5], &[4], &[7, 5], &[7, 5]])
            .on([&[33], &[33], &[4], &[33], &[33]])
            .on([&[], &[], &[4], &[], &[]])
            .on([&[0], &[0], &[4], &[0], &[0]])
            .forward_only(IN_PLACE)
            .run(move |x| stepped(op.clone(), x))
            .oracle(move |x| adam_step(&definition, x))
    };
    let infinite = || {
        [
            Array::new(&[2], vec![f64::INFINITY, f64::NEG_INFINITY]),
            Array::new(&[2], vec![1.0, -0.5]),
            Array::new(&[4], vec![0.01, 1.0, 0.6513215599, 0.0997753]),
            Array::new(&[2], vec![0.5, -0.25]),
            Array::new(&[2], vec![0.25, 0.0]),
        ]
    };
    let several = || {
        let op = AdamStep { weight_decay: 0.1, decay_mode: DecayMode::Decoupled, ..ADAM };
        let mut case = OpCase::new("adam_step", "three parameters");
        for rate in [0.01, 0.02, 0.03] {
            case = case.input(Uniform(-2.0, 2.0)).input(AwayFrom(0.01));
            case = case.input(Input::accumulator(Fixed(tenth(rate, 1.0).to_vec())).constant());
            case = case.input(Input::accumulator(Uniform(-1.0, 1.0))).input(Input::accumulator(Uniform(0.0, 1.0)));
        }
        case.instances.push(grouped_shapes(4, 2));
        let definition = op.clone();
        case.forward_only(IN_PLACE)
            .run(move |x| multi_tensor_step(op.clone(), 5, x))
            .oracle(move |x| x.chunks(5).flat_map(|one| adam_step(&definition, one)).collect::<Vec<_>>())
    };
    vec![
        several(),
        row("", 0.0, DecayMode::Coupled, tenth(0.01, 1.0)).adversarial("infinite", infinite()).rejects(
            "adam_step: state has shape [3], expected [2]",
            |device| {
                let zeros = |size: usize| Tensor::zeros([size], F32, device);
                stepped(ADAM, &[zeros(2)?, zeros(2)?, zeros(4)?, zeros(3)?, zeros(2)?])
            },
        ),
        row("coupled clip", 0.1, DecayMode::Coupled, tenth(0.01, 0.5)),
        row("decoupled, no decay", 0.0, DecayMode::Decoupled, tenth(0.01, 1.0)).adversarial("infinite", infinite()),
        row("decoupled", 0.1, DecayMode::Decoupled, tenth(0.01, 1.0)),
    ]
}

const WITH_COPY: AdamStep = AdamStep { decay_mode: DecayMode::Decoupled, half_copy: true, ..ADAM };

/// A step of parameters with these learning rates that also writes each in dtype `half`.
fn with_half_copy(parameters: &str, op: AdamStep, half: DType, rates: &[f64]) -> OpCase {
    let mut case = OpCase::new("adam_step", format!("half_copy={half}{parameters}")).dtypes(&[F32]).casts();
    for &rate in rates {
        case = case.input(Uniform(-2.0, 2.0)).input(AwayFrom(0.01));
        case = case.input(Input::accumulator(Fixed(tenth(rate, 0.5).to_vec())).constant());
        case = case.input(Input::accumulator(Uniform(-1.0, 1.0))).input(Input::accumulator(Uniform(0.0, 1.0)));
        case = case.input(Input::of(half, Uniform(-2.0, 2.0)).constant());
    }
    let definition = op.clone();
    // The copy equals the parameter: the table rounds it to its dtype.
    let oracle = move |one: &[Array]| {
        let mut outputs = adam_step(&definition, one);
        outputs.push(outputs[0].clone());
        outputs
    };
    case.forward_only(IN_PLACE)
        .run(move |x| multi_tensor_step(op.clone(), 6, x))
        .oracle(move |x| x.chunks(6).flat_map(&oracle).collect::<Vec<_>>())
}

/// One parameter. The previous contents of its copy are ignored, even NaN.
fn one_with_half_copy(half: DType) -> OpCase {
    let infinite = [
        Array::new(&[4], vec![f64::INFINITY, f64::NEG_INFINITY, 3e38, 1.0]),
        Array::new(&[4], vec![1.0, -0.5, 0.5, f64::NAN]),
        Array::new(&[4], tenth(0.01, 1.0).to_vec()),
        Array::new(&[4], vec![0.5, -0.25, 0.0, 0.5]),
        Array::new(&[4], vec![0.25, 0.0, 0.0, 0.25]),
        Array::new(&[4], vec![f64::NAN, f64::INFINITY, f64::NAN, 1.0]),
    ];
    let mut case = with_half_copy("", WITH_COPY, half, &[0.01]).adversarial("infinite", infinite);
    for shape in [&[7usize, 5][..], &[33], &[2051], &[], &[0]] {
        let like = || shape.to_vec();
        case.instances.push(vec![like(), like(), vec![4], like(), like(), like()]);
    }
    case
}

/// Returns the inputs of one parameter with a half-precision copy: the parameter and its gradient
/// in the first dtype, the copy in the second.
fn zeros(sizes: [usize; 6], [dtype, half]: [DType; 2], device: &Device) -> Result<Vec<Tensor>> {
    let dtypes = [dtype, dtype, F32, F32, F32, half];
    sizes.into_iter().zip(dtypes).map(|(size, dtype)| Tensor::zeros([size], dtype, device)).collect()
}

fn adam_with_half_copy() -> Vec<OpCase> {
    let several = AdamStep { weight_decay: 0.1, ..WITH_COPY };
    let mut several = with_half_copy(", three parameters", several, BF16, &[0.01, 0.02, 0.03]);
    several.instances.push(grouped_shapes(4, 3));
    const SIZES: [usize; 6] = [2, 2, 4, 2, 2, 2];
    vec![
        one_with_half_copy(F16),
        one_with_half_copy(BF16)
            .rejects("adam_step: expected 6 inputs for each parameter, got 5", |device| {
                stepped(WITH_COPY, &zeros(SIZES, [F32, BF16], device)?[..5])
            })
            .rejects("adam_step: half copy has shape [3], expected [2]", |device| {
                stepped(WITH_COPY, &zeros([2, 2, 4, 2, 2, 3], [F32, BF16], device)?)
            })
            .rejects("adam_step: half copy is f32, expected f16 or bf16", |device| {
                stepped(WITH_COPY, &zeros(SIZES, [F32, F32], device)?)
            })
            .rejects("adam_step: parameter with a half copy is f16, expected f32", |device| {
                stepped(WITH_COPY, &zeros(SIZES, [F16, BF16], device)?)
            }),
        several.rejects("adam_step: dtypes bf16 and f16 differ; cast one of them with to_dtype", |device| {
            let both = [zeros(SIZES, [F32, BF16], device)?, zeros(SIZES, [F32, F16], device)?];
            multi_tensor_step(WITH_COPY, 6, &both.concat())
        }),
    ]
}

/// Kingma and Ba 2015, algorithm 1, and Loshchilov and Hutter 2019, algorithm 2, one element at a
/// time. `x` is the parameter, its gradient, `[learning rate, clip factor, bias correction 1, root
/// of bias correction 2]`, and both moments.
fn adam_step(op: &AdamStep, x: &[Array]) -> Vec<Array> {
    let [rate, clip, correction1, root_correction2] = [0, 1, 2, 3].map(|at| x[2].data[at]);
    let mut outputs = vec![x[0].clone(), x[3].clone(), x[4].clone()];
    for at in 0..x[0].elements() {
        let mut parameter = x[0].data[at];
        let mut gradient = x[1].data[at] * clip;
        match op.decay_mode {
            _ if op.weight_decay == 0.0 => {}
            DecayMode::Coupled => gradient += op.weight_decay * parameter,
            DecayMode::Decoupled => parameter -= rate * op.weight_decay * parameter,
        }
        let m = op.beta1 * x[3].data[at] + (1.0 - op.beta1) * gradient;
        let v = op.beta2 * x[4].data[at] + (1.0 - op.beta2) * gradient * gradient;
        parameter -= rate * (m / correction1) / (v.sqrt() / root_correction2 + op.eps);
        (outputs[0].data[at], outputs[1].data[at], outputs[2].data[at]) = (parameter, m, v);
    }
    outputs
}

/// Creates parameters with the inputs as gradients: the gradients of `sum(parameter * input)`.
fn with_gradients<T>(
    x: &[Tensor],
    f: impl FnOnce(&mut ternion_core::Gradients, &[&Tensor]) -> Result<T>,
) -> Result<(T, Vec<Tensor>)> {
    let (parameters, mut gradients) = enable_grad(|| {
        let mut parameters = Vec::new();
        let dtype = x[0].dtype().accumulator();
        let mut loss = Tensor::zeros((), dtype, x[0].device())?;
        for gradient in x {
            let parameter = gradient.detach().zeros_like()?.requires_grad()?;
            loss = loss.add(&parameter.mul(&gradient.detach())?.to_dtype(dtype)?.sum(..)?)?;
            parameters.push(parameter);
        }
        Ok::<_, Error>((parameters, loss.backward()?))
    })?;
    let result = f(&mut gradients, &parameters.iter().collect::<Vec<_>>())?;
    let changed = parameters.iter().filter_map(|parameter| gradients.get(parameter).cloned()).collect();
    Ok((result, changed))
}

fn clipping() -> Vec<OpCase> {
    let row = |op: &'static str, parameters: &str| {
        OpCase::new(op, parameters)
            .input(Uniform(-2.0, 2.0))
            .input(Uniform(-2.0, 2.0))
            .on([&[7, 5], &[33]])
            .on([&[], &[0]])
            .casts()
            .forward_only("it works on gradients")
    };
    let norm_row = |parameters: &str, max_norm: f64| {
        row("clip_grad_norm", parameters)
            .run(move |x| {
                // The second parameter occurs twice, like a tied weight: it counts once.
                let clip = |gradients: &mut ternion_core::Gradients, parameters: &[&Tensor]| {
                    let tied = [parameters[0], parameters[1], parameters[1]];
                    clip_grad_norm(gradients, &tied, max_norm)
                };
                let (norm, clipped) = with_gradients(x, clip)?;
                Ok([vec![norm], clipped].concat())
            })
            .oracle(move |x| {
                let norm = x.iter().map(|g| g.data.iter().map(|v| v * v).sum::<f64>()).sum::<f64>().sqrt();
                let factor = (max_norm / (norm + 1e-6)).min(1.0);
                vec![Array::scalar(norm), x[0].map(|g| g * factor), x[1].map(|g| g * factor)]
            })
    };
    vec![
        norm_row("max_norm=1.5", 1.5)
            .rejects("clip_grad_norm: largest norm -1, expected 0 or more", |device| {
                let x = [Tensor::zeros([2], F32, device)?];
                Ok(with_gradients(&x, |gradients, parameters| clip_grad_norm(gradients, parameters, -1.0))?.1)
            })
            .rejects("grad_norm: expected at least 1 parameter", |device| {
                let x = [Tensor::zeros([2], F32, device)?];
                Ok(with_gradients(&x, |gradients, _| clip_grad_norm(gradients, &[], 1.0))?.1)
            }),
        norm_row("max_norm=1000", 1000.0),
        row("clip_grad_value", "limit=0.75")
            .run(|x| Ok(with_gradients(x, |gradients, all| clip_grad_value(gradients, all, 0.75))?.1))
            .oracle(|x| vec![x[0].map(|g| g.clamp(-0.75, 0.75)), x[1].map(|g| g.clamp(-0.75, 0.75))])
            .rejects("clip_grad_value: largest value NaN, expected 0 or more", |device| {
                let x = [Tensor::zeros([2], F32, device)?];
                Ok(with_gradients(&x, |gradients, all| clip_grad_value(gradients, all, f64::NAN))?.1)
            }),
    ]
}
