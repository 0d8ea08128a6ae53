//! The native part of the Python package `ternion`; the rest is written in Python (python/ternion).
//!
//! Names and semantics are PyTorch's; `docs/python.md` lists the differences. Errors are raised as
//! the corresponding exceptions (`error`), and no panic reaches Python (`gil`).

mod arguments;
mod autograd;
mod buffer;
mod create;
mod data;
mod device;
mod diagnostics;
mod dialect;
mod dlpack;
mod dtype;
mod error;
mod external_memory;
mod extract;
mod gil;
mod methods;
mod nn;
mod numpy;
mod nvrtc;
mod nvtx;
mod operators;
mod optim;
mod promote;
mod random;
mod scopes;
mod shared;
mod state;
mod streams;
mod tensor;
mod text;
mod train;
mod transformer;

use pyo3::prelude::*;

#[pymodule]
fn _ternion(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<tensor::PyTensor>()?;
    module.add_class::<autograd::PyHook>()?;
    dtype::register(module)?;
    device::register(module)?;
    arguments::register(module)?;
    create::register(module)?;
    methods::register(module)?;
    module.add(
        "_ELEMENTWISE_METHODS",
        [methods::elementwise::NUMBER_METHODS, methods::elementwise::FLOAT_METHODS].concat(),
    )?;
    nn::register(module)?;
    optim::register(module)?;
    numpy::register(module)?;
    nvrtc::register(module)?;
    nvtx::register(module)?;
    dlpack::register(module)?;
    scopes::register(module)?;
    random::register(module)?;
    promote::register(module)?;
    autograd::register(module)?;
    state::register(module)?;
    transformer::register(module)?;
    let functional = PyModule::new(module.py(), "_functional")?;
    methods::functional::register(&functional)?;
    methods::embeddings::register(&functional)?;
    methods::loss::register(&functional)?;
    methods::activations::register(&functional)?;
    methods::margins::register(&functional)?;
    methods::attention::register(&functional)?;
    methods::images::register(&functional)?;
    methods::windows::register(&functional)?;
    module.add_submodule(&functional)?;
    let linalg = PyModule::new(module.py(), "_linalg")?;
    methods::linalg::register(&linalg)?;
    module.add_submodule(&linalg)?;
    let diagnostics = PyModule::new(module.py(), "_trust")?;
    diagnostics::register(&diagnostics)?;
    module.add_submodule(&diagnostics)?;
    let data = PyModule::new(module.py(), "_data")?;
    data::register(&data)?;
    text::register(&data)?;
    module.add_submodule(&data)?;
    let train = PyModule::new(module.py(), "_train")?;
    train::register(&train)?;
    module.add_submodule(&train)
}
