//! The startup time of a process: until there is a bare context, or a first result. The parent
//! process measures the time until the printed line.

use clap::ValueEnum;
use cudarc::driver::CudaContext;
use ternion::{DType, Result, Tensor};

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Only a CUDA context, without any part of Ternion
    Context,
    /// A small result of Ternion, copied to the host
    Result,
}

pub fn run(what: What) -> std::result::Result<(), String> {
    match what {
        What::Context => {
            let context = context()?;
            println!("{}", serde_json::json!({"context": context.ordinal()}));
        }
        What::Result => {
            let first = result().map_err(|error| error.to_string())?;
            println!("{}", serde_json::json!({"first": first}));
        }
    }
    Ok(())
}

/// Creates a context. The bindings panic if there is no driver; this returns an error message
/// instead.
fn context() -> std::result::Result<std::sync::Arc<CudaContext>, String> {
    std::panic::set_hook(Box::new(|_| ()));
    let created = std::panic::catch_unwind(|| CudaContext::new(0));
    drop(std::panic::take_hook());
    match created {
        Ok(created) => created.map_err(|error| format!("no context on device 0: {error}")),
        Err(_) => Err("no CUDA driver: the library libcuda.so.1 was not found".into()),
    }
}

fn result() -> Result<f32> {
    let device = ternion::cuda(0)?;
    let x = Tensor::ones([64, 64], DType::F32, &device)?;
    x.matmul(&x)?.softmax(1)?.narrow(0, 0, 1)?.narrow(1, 0, 1)?.item::<f32>()
}
