//! File formats: safetensors, and the tensor names and layouts of GPT-2 in it. They depend on
//! layers and models, which do not depend on file formats.

pub(crate) mod atomic_write;
pub mod checkpoint;
pub mod huggingface;
