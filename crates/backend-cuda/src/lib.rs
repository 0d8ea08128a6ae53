//! The CUDA backend.
mod cache;
mod driver;
pub mod nvrtc;
mod pool;
mod space;
