//! Short programs that teach Ternion. Each is a file next to `Cargo.toml`; start with `tensors.rs`.
