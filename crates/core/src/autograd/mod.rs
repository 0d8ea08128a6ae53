//! The autograd graph and the backward pass.
//!
//! A [`Node`] is created for each op through which a gradient must flow. It contains edges to the
//! nodes of its inputs and only those tensors that its gradient rule needs. The backward pass
//! visits each node once, from outputs to leaves. Neither the backward pass nor dropping the graph
//! is recursive.

mod backward;
mod checkpoint;
mod context;
mod custom;
mod dot;
mod fusion;
mod gradients;
mod mode;
mod node;
mod observe;
mod record;
mod view_op;

pub use backward::{GradOptions, grad};
pub use checkpoint::checkpoint;
pub use context::{Context, PreActivation};
pub use custom::{custom_gradient_names, with_gradient};
pub use dot::DotOptions;
pub use gradients::{GradientSink, Gradients, TensorId};
pub use mode::{
    enable_grad, is_fusing, is_layer_fusion_disabled, is_recording, no_grad, set_layer_fusion_disabled,
    set_recording, without_fusion,
};
pub use node::{Edge, Function, Grads, Node, next_node_id};
pub use observe::{BackwardCall, observe_backward, observe_backward_calls};

pub(crate) use mode::FusionMode;
pub(crate) use node::sum_to;
pub use record::{HookHandle, Hooks};
pub(crate) use record::{
    OutputParts, edge, record, record_copy, record_transfer, record_view, record_views, wants_record,
};
pub(crate) use view_op::ViewOp;
