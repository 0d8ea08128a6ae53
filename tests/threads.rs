//! Results do not depend on the number of threads: the partition of work depends only on shapes.
//! Each op is large enough to run in parallel, forward and backward.

use ternion::prelude::*;
use ternion_core::{AttentionOptions, Causal, Conv2dOptions, PoolOptions};

type Program = fn(&Device, DType) -> Result<Vec<Tensor>>;

fn random(device: &Device, dtype: DType, shape: &[usize]) -> Result<Tensor> {
    Tensor::randn(shape, DType::F32, device)?.to_dtype(dtype)
}

/// Returns `f` of a random tensor of this shape, and its gradient.
fn with_gradient(
    device: &Device,
    dtype: DType,
    shape: &[usize],
    f: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    let x = random(device, dtype, shape)?.requires_grad()?;
    let y = f(&x)?;
    let weight = random(device, y.dtype(), y.dims())?;
    let gradient = y.mul(&weight)?.sum_all()?.backward()?.remove(&x);
    Ok([y, gradient.ok_or_else(|| Error::autograd("no gradient"))?].into())
}

const PROGRAMS: &[(&str, Program)] = &[
    ("sum", |d, t| with_gradient(d, t, &[300_000], |x| x.sum_all())),
    ("sum of columns", |d, t| with_gradient(d, t, &[3000, 70], |x| x.sum(0))),
    ("var", |d, t| with_gradient(d, t, &[500, 700], |x| x.var(1, 1.0))),
    ("argmax", |d, t| Ok(vec![random(d, t, &[300_000])?.argmax(0)?])),
    ("cumsum", |d, t| with_gradient(d, t, &[7, 50_000], |x| x.cumsum(1))),
    ("gelu", |d, t| with_gradient(d, t, &[90_000], |x| x.gelu())),
    ("matmul", |d, t| {
        let b = random(d, t, &[300, 1100])?;
        with_gradient(d, t, &[600, 300], move |x| x.matmul(&b))
    }),
    ("softmax", |d, t| with_gradient(d, t, &[400, 500], |x| x.softmax(1))),
    ("log_softmax of columns", |d, t| with_gradient(d, t, &[400, 500], |x| x.log_softmax(0))),
    ("layer_norm", |d, t| {
        let weight = random(d, t, &[500])?.requires_grad()?;
        let x = random(d, t, &[900, 500])?.requires_grad()?;
        let y = x.layer_norm(Some(&weight), None, 1e-5)?;
        let gradients = y.square()?.sum_all()?.backward()?;
        Ok([&x, &weight].iter().filter_map(|tensor| gradients.get(tensor).cloned()).collect())
    }),
    ("cross_entropy", |d, t| {
        let target = Tensor::iota(5000, DType::I64, 0, 1, d)?.remainder_scalar(30)?;
        with_gradient(d, t, &[5000, 30], move |x| x.cross_entropy(&target))
    }),
    ("conv2d", |d, t| {
        let weight = random(d, t, &[8, 4, 3, 3])?.requires_grad()?;
        let x = random(d, t, &[6, 4, 60, 60])?.requires_grad()?;
        let y = x.conv2d(&weight, None, Conv2dOptions { padding: [1, 1], ..Default::default() })?;
        let gradients = y.square()?.sum_all()?.backward()?;
        Ok([&x, &weight].iter().filter_map(|tensor| gradients.get(tensor).cloned()).collect())
    }),
    ("max_pool2d", |d, t| with_gradient(d, t, &[8, 8, 64, 64], |x| x.max_pool2d(PoolOptions::new([2, 2])))),
    ("avg_pool2d", |d, t| with_gradient(d, t, &[8, 8, 64, 64], |x| x.avg_pool2d(PoolOptions::new([3, 3])))),
    ("attention", |d, t| {
        let (k, v) = (random(d, t, &[2, 4, 300, 16])?, random(d, t, &[2, 4, 300, 16])?);
        with_gradient(d, t, &[2, 4, 200, 16], move |q| {
            q.scaled_dot_product_attention(
                &k,
                &v,
                AttentionOptions { causal: Causal::LowerRight, ..Default::default() },
            )
        })
    }),
    ("index_add", |d, t| {
        let index = Tensor::iota(4000, DType::I32, 0, 1, d)?.remainder_scalar(7)?;
        Ok(vec![Tensor::zeros([7, 40], t, d)?.index_add(0, &index, &random(d, t, &[4000, 40])?)?])
    }),
    ("scatter_add", |d, t| {
        let index =
            Tensor::iota(4000, DType::I32, 0, 1, d)?.remainder_scalar(7)?.unsqueeze(1)?.expand([4000, 40])?;
        Ok(vec![Tensor::zeros([7, 40], t, d)?.scatter_add(0, &index, &random(d, t, &[4000, 40])?)?])
    }),
    ("sort", |d, t| {
        let (values, positions) = random(d, t, &[300, 400])?.sort(1, false)?;
        Ok(vec![values, positions])
    }),
    ("dropout", |d, t| with_gradient(d, t, &[100_000], |x| x.dropout(0.5))),
];

/// Returns the bytes of every output, from the same random numbers, with this many threads.
fn outputs(program: Program, dtype: DType, threads: usize) -> Result<Vec<Vec<u8>>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    pool.install(|| {
        let device = ternion_cpu::device();
        device.seed(7);
        let bits = |tensor: &Tensor| match tensor.dtype() {
            DType::I32 => Ok(tensor.to_vec::<i32>()?.iter().flat_map(|value| value.to_le_bytes()).collect()),
            _ => Ok(tensor
                .to_dtype(DType::F64)?
                .to_vec::<f64>()?
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect()),
        };
        program(&device, dtype)?.iter().map(bits).collect()
    })
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() -> Result<()> {
    for dtype in [DType::F32, DType::BF16, DType::F64] {
        for (name, program) in PROGRAMS {
            let single_threaded = outputs(*program, dtype, 1)?;
            assert!(
                single_threaded.iter().all(|bytes| bytes.iter().any(|&byte| byte != 0)),
                "{name} {dtype}: nothing but 0"
            );
            for threads in [2, 3, 7] {
                assert!(
                    outputs(*program, dtype, threads)? == single_threaded,
                    "{name} {dtype} on {threads} threads"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn custom_random_numbers_are_drawn_separately() -> Result<()> {
    let device = ternion_cpu::device();
    device.seed(7);
    let expected = Tensor::rand([9], DType::F32, &device)?.to_vec::<f32>()?;
    device.seed(1);
    let before = device.random_position();
    let mut position = (7, 0);
    let (first, inner) = device.with_random(&mut position, || -> Result<_> {
        let shared = device.clone();
        // Meanwhile another thread uses the device's generator.
        let other = std::thread::spawn(move || Tensor::rand([4], DType::F32, &shared).map(|_| ()));
        other.join().expect("no panic")?;
        let mut inner = (9, 0);
        device.with_random(&mut inner, || Tensor::rand([1], DType::F32, &device)).map(drop)?;
        Ok((Tensor::rand([5], DType::F32, &device)?.to_vec::<f32>()?, inner))
    })?;
    assert_eq!(first, expected[..5]);
    assert_eq!(inner, (9, 1));
    assert_eq!(position, (7, 2), "five words are two blocks");
    assert_eq!(
        device.random_position(),
        (before.0, before.1 + 1),
        "only the other thread drew from the device"
    );
    let rest = device.with_random(&mut position, || Tensor::rand([1], DType::F32, &device))?;
    assert_eq!(rest.to_vec::<f32>()?, expected[8..]);
    Ok(())
}
