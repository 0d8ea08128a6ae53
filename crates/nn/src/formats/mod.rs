//! Formats of files: safetensors, and the names and layouts that GPT-2 has in it. They stand above
//! layers and models, which know no file.

pub mod checkpoint;
pub mod huggingface;
pub(crate) mod whole_file;
