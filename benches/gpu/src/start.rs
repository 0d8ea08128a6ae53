//! What a process waits for before it is of use: a bare context, or a first result. Whoever spawned it takes the time to the line that it prints.

use clap::ValueEnum;
use cudarc::driver::CudaContext;
use ternion::{DType, Result, Tensor};

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// A CUDA context alone, without anything of Ternion
    Context,
    /// A small result of Ternion's, read back
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

/// The bindings panic where there is no driver; that is said in words.
fn context() -> std::result::Result<std::sync::Arc<CudaContext>, String> {
    std::panic::set_hook(Box::new(|_| ()));
    let made = std::panic::catch_unwind(|| CudaContext::new(0));
    drop(std::panic::take_hook());
    match made {
        Ok(made) => made.map_err(|error| format!("no context on device 0: {error}")),
        Err(_) => Err("no CUDA driver: the library libcuda.so.1 was not found".into()),
    }
}

fn result() -> Result<f32> {
    let device = ternion::cuda(0)?;
    let x = Tensor::ones([64, 64], DType::F32, &device)?;
    x.matmul(&x)?.softmax(1)?.narrow(0, 0, 1)?.narrow(1, 0, 1)?.item::<f32>()
}
