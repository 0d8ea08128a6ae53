//! Tensors, ops and gradients. This crate contains no device and no `unsafe` code: devices
//! implement [`Backend`].
//!
//! Reading order: [`Shape`] and [`Layout`] describe the positions of elements in memory; a
//! [`Tensor`] is a layout on a device's buffer; [`op`] lists every op; [`dispatch`] runs an op, on
//! the backend or by composition; [`autograd`] records it and computes gradients; [`decorators`]
//! are devices that observe or replace others. [`geometry`] is host code that backends share.

pub mod anomaly;
pub mod autograd;
pub mod backend;
pub mod capture;
pub mod check;
pub mod decorators;
mod device;
pub mod dispatch;
mod display;
mod dtype;
pub mod error;
mod functions;
pub mod geometry;
pub mod interrupt;
mod layout;
mod nested;
mod observe;
pub mod op;
mod operators;
pub mod ops;
pub mod philox;
pub mod precision;
pub mod shape;
mod stats;
mod tensor;
pub mod trace;

pub use autograd::{
    GradOptions, GradientSink, Gradients, checkpoint, enable_grad, grad, no_grad, without_fusion,
};
pub use backend::{Backend, Buffer, MemoryStats, Meta, Plan, Unsupported, View};
pub use capture::{CapturedStep, RecordedStep};
pub use check::{CheckConfig, CheckReport, OnDifference, check_ops};
pub use device::Device;
pub use dtype::{DType, Element, Scalar};
pub use error::{Error, Result};
pub use functions::closeness::Closeness;
pub use functions::convolutions::{Conv3dOptions, ConvTranspose1dOptions, ConvTranspose3dOptions};
pub use functions::distances::CdistMode;
pub use functions::embedding::EmbeddingOptions;
pub use functions::embedding_bag::{BagMode, EmbeddingBagOptions, EmbeddingBagParts};
pub use functions::gradient::Spacing;
pub use functions::grid::{GridMode, GridPadding};
pub use functions::indexing::ScatterReduction;
pub use functions::joining::{MeshgridIndexing, broadcast_shapes};
pub use functions::losses::{
    CtcOptions, GaussianNllOptions, MultiMarginOptions, PoissonNllOptions, TripletOptions,
};
pub use functions::permute::Repeats;
pub use functions::quantiles::{HistogramBins, Interpolation};
pub use functions::resize::{InterpolateMode, InterpolateSize};
pub use functions::running::RunningStatistics;
pub use functions::sequences::PadSequenceOptions;
pub use functions::splitting::Sections;
pub use functions::windows::SignalWindow;
pub use layout::Layout;
pub use nested::NestedValues;
pub use observe::{OpCall, close_op_observer, observe_ops, open_op_observer, unobserved};
pub use op::Op;
pub use ops::attention::{AttentionOptions, Causal, CumulativeLengths, positions_in_sequences};
pub use ops::clip::{clip_grad_norm, clip_grad_value, grad_norm};
pub use ops::conv::Window;
pub use ops::conv_methods::{Conv1dOptions, Conv2dOptions, ConvTranspose2dOptions};
pub use ops::einsum::einsum;
pub use ops::indexing::{Ellipsis, IndexItem, NewAxis, Slice};
pub use ops::loss::{BceOptions, CrossEntropyOptions, LinearCrossEntropyOptions, NllOptions, Reduction};
pub use ops::matmul::MatmulOptions;
pub use ops::multi_tensor::total_norm;
pub use ops::pool::PoolOptions;
pub use ops::unary::UnaryOp;
pub use precision::{Precision, with_precision, without_precision};
pub use shape::{Axes, Axis, AxisSet, IntoShape, MAX_RANK, Shape};
pub use stats::{DeviceStats, Stats};
pub use tensor::{Tensor, host_values};
