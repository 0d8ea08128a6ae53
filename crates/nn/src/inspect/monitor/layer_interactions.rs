//! Faults between two layers, or between a model and its loss: outputs that are combined with
//! targets of another shape, rows that are not log-probabilities, and consecutive linear layers.

use super::input::log_sum_exp;
use super::report::Readings;
use super::setup::{LinearPair, Misuse};
use crate::module::LayerCall;
use ternion_core::{DeviceStats, Op, OpCall, Result, Tensor, UnaryOp};

/// A tensor that is kept until the pass ends, so that its memory is not reused for another tensor.
struct RetainedTensor {
    tensor: Tensor,
    version: u64,
    /// The layer that returned it: its key, and its name in messages.
    key: String,
    name: String,
}

impl RetainedTensor {
    fn new(tensor: &Tensor, key: &str, name: &str) -> RetainedTensor {
        let version = tensor.buffer().version();
        RetainedTensor { tensor: tensor.clone(), version, key: key.to_owned(), name: name.to_owned() }
    }

    /// Whether a tensor is a view of these values.
    fn is(&self, tensor: &Tensor) -> bool {
        self.tensor.buffer().is(tensor.buffer()) && tensor.buffer().version() == self.version
    }
}

/// The output of a linear layer.
struct LinearOutput {
    output: RetainedTensor,
    /// The number of ops that have read it.
    uses: usize,
    /// The key of the linear layer that has read it, if any.
    next: Option<String>,
}

/// One element of each row, gathered from rows that may be log-probabilities.
struct GatheredRows {
    output: RetainedTensor,
    rows: Tensor,
    is_negative: bool,
}

/// Whether an output contains one element of each row, and the rows have several elements and
/// require a gradient.
fn gathers_one_per_row(rows: &Tensor, output: &Tensor) -> bool {
    rows.rank() == 2 && rows.needs_grad() && rows.dims()[1] > 1 && output.dims() == [rows.dims()[0], 1]
}

/// The observations between layers.
#[derive(Default)]
pub(super) struct LayerInteractions {
    linear: Vec<LinearOutput>,
    latest: Option<RetainedTensor>,
    gathered: Vec<GatheredRows>,
    log_sum_exp: Vec<(DeviceStats, String, String)>,
    broadcast: Vec<Misuse>,
}

impl LayerInteractions {
    /// Records an op. `linear` is the key of the linear layer that contains it, if any; `is_inside`
    /// is whether it runs within the model.
    pub(super) fn op(&mut self, call: &OpCall<'_>, linear: Option<&str>, is_inside: bool) -> Result<()> {
        self.count_reads(call, linear);
        if is_inside {
            return Ok(());
        }
        self.record_gather(call)?;
        if let Some(misuse) = self.find_broadcast(call).filter(|misuse| !self.broadcast.contains(misuse)) {
            self.broadcast.push(misuse);
        }
        Ok(())
    }

    /// Records the end of a layer. A container and its last layer have the same output: the last
    /// layer is reported.
    pub(super) fn layer(&mut self, call: &LayerCall, output: &Tensor, is_leaf: bool) {
        if self.latest.as_ref().is_none_or(|latest| latest.key.is_empty() || !latest.is(output)) {
            let name = if call.key.is_empty() { call.kind } else { &call.key };
            self.latest = Some(RetainedTensor::new(output, &call.key, name));
        }
        if is_leaf && call.is_member && call.kind == "Linear" && output.needs_grad() {
            let retained = RetainedTensor::new(output, &call.key, &call.key);
            self.linear.push(LinearOutput { output: retained, uses: 0, next: None });
        }
    }

    /// Counts the ops that read the outputs of linear layers.
    fn count_reads(&mut self, call: &OpCall<'_>, linear: Option<&str>) {
        for (at, input) in call.inputs.iter().enumerate() {
            for known in self.linear.iter_mut().filter(|known| known.output.is(input)) {
                known.uses += 1;
                let has_same_rows = input.layout().is_contiguous()
                    && input.elements() == known.output.tensor.elements()
                    && input.dims().last() == known.output.tensor.dims().last();
                if at == 0 && has_same_rows && matches!(call.op, Op::Matmul(_)) {
                    known.next = linear.map(str::to_owned);
                }
            }
        }
    }

    /// Detects `nll_loss`: it gathers an element of each row, negates it, and masks ignored targets
    /// with a select.
    fn record_gather(&mut self, call: &OpCall<'_>) -> Result<()> {
        let (Some(input), Some(output)) = (call.inputs.first(), call.outputs.first()) else { return Ok(()) };
        match call.op {
            Op::Gather(gather) if gather.axis == 1 && gathers_one_per_row(input, output) => {
                let (key, name) =
                    self.latest.as_ref().map_or(("", "the model"), |last| (&last.key, &last.name));
                let retained = RetainedTensor::new(output, key, name);
                self.gathered.push(GatheredRows {
                    output: retained,
                    rows: (*input).clone(),
                    is_negative: false,
                });
            }
            Op::Unary(unary) if unary.op == UnaryOp::Neg => {
                let gathered = self.gathered.iter_mut().find(|gathered| gathered.output.is(input));
                gathered.into_iter().for_each(|gathered| {
                    gathered.output =
                        RetainedTensor::new(output, &gathered.output.key, &gathered.output.name);
                    gathered.is_negative = true;
                });
            }
            Op::Select(_) => {
                let is_read =
                    |gathered: &GatheredRows| call.inputs.iter().any(|input| gathered.output.is(input));
                let gathered =
                    self.gathered.iter().position(|gathered| gathered.is_negative && is_read(gathered));
                if let Some(GatheredRows { output, rows, .. }) =
                    gathered.map(|at| self.gathered.swap_remove(at))
                {
                    self.log_sum_exp.push((log_sum_exp(&rows)?, output.key, output.name));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns a fault if the last output, `[n, 1]` or `[n]`, is combined with a tensor of the
    /// other shape that does not require a gradient.
    fn find_broadcast(&self, call: &OpCall<'_>) -> Option<Misuse> {
        let Op::Binary(_) = call.op else { return None };
        let (one, other, result) = (call.inputs.first()?, call.inputs.get(1)?, call.outputs.first()?);
        let latest = self.latest.as_ref()?;
        let (prediction, target) = match (one.needs_grad(), other.needs_grad()) {
            (true, false) => (one, other),
            (false, true) => (other, one),
            _ => return None,
        };
        let count = prediction.elements();
        let is_column = |tensor: &Tensor| tensor.dims() == [count, 1];
        let is_row = |tensor: &Tensor| tensor.dims() == [count];
        let differ = (is_column(prediction) && is_row(target)) || (is_row(prediction) && is_column(target));
        (differ && count > 1 && latest.is(prediction)).then(|| {
            let message = format!(
                "{}: its outputs {:?} meet numbers of shape {:?} in {}, and are broadcast to {:?}: each is compared with each, and nothing is learned; give both one shape",
                latest.name,
                prediction.shape(),
                target.shape(),
                call.op.name(),
                result.shape()
            );
            Misuse { layer: latest.key.clone(), message }
        })
    }

    /// Passes the observations to a report.
    pub(super) fn report(self, readings: &mut Readings) {
        for (sums, layer, name) in self.log_sum_exp {
            readings.log_sum_exp(sums, layer, name);
        }
        readings.setup.broadcast = self.broadcast;
        let once = self.linear.into_iter().filter(|known| known.uses == 1);
        let pairs =
            once.filter_map(|known| Some(LinearPair { first: known.output.key, second: known.next? }));
        readings.setup.linear_pairs = pairs.collect();
    }
}
