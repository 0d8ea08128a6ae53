//! Tools that inspect a model without changing it: its layers and their cost, statistics of a
//! training run, and a timeline.

mod flops;
mod model_stats;
mod monitor;
mod summary;
mod timeline;

pub use flops::op_flops;
pub use model_stats::{ModelStats, ParamStats, model_stats};
pub use monitor::{Fault, LayerStats, StatsConfig, StatsMonitor, StatsReport, StatsWarning, WeightStats};
pub use summary::{LayerSummary, Summary, SummaryPass, summary, summary_of_shape, summary_with};
pub use timeline::{SpanTotal, Timeline, TracingSpans, trace};
