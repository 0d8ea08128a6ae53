//! Faults between two layers, or between a model and its loss: outputs that are combined with
//! targets of another shape, rows that are not log-probabilities, and consecutive linear layers.

use super::input::log_sums;
use super::report::Readings;
use super::setup::{InARow, Misuse};
use crate::module::LayerCall;
use ternion_core::{DeviceStats, Op, OpCall, Result, Tensor, UnaryOp};

/// A tensor that is kept until the pass ends, so that its memory is not reused for another tensor.
struct Kept {
    output: Tensor,
    version: u64,
    /// The layer that returned it: its key, and its name in messages.
    key: String,
    name: String,
}

impl Kept {
    fn new(output: &Tensor, key: &str, name: &str) -> Kept {
        let version = output.buffer().version();
        Kept { output: output.clone(), version, key: key.to_owned(), name: name.to_owned() }
    }

    /// Whether a tensor is a view of these values.
    fn is(&self, tensor: &Tensor) -> bool {
        self.output.buffer().is(tensor.buffer()) && tensor.buffer().version() == self.version
    }
}

/// The output of a linear layer.
struct LinearOutput {
    kept: Kept,
    /// The number of ops that have read it, and the key of the linear layer among them.
    uses: usize,
    next: Option<String>,
}

/// One number of each row, gathered from rows that may be log-probabilities.
struct Picked {
    kept: Kept,
    rows: Tensor,
    is_negative: bool,
}

/// Whether an output contains one number of each row, from rows that have several and require a
/// gradient.
fn is_one_of_each_row(rows: &Tensor, output: &Tensor) -> bool {
    rows.rank() == 2 && rows.needs_grad() && rows.dims()[1] > 1 && output.dims() == [rows.dims()[0], 1]
}

/// The observations between layers.
#[derive(Default)]
pub(super) struct Joints {
    linear: Vec<LinearOutput>,
    latest: Option<Kept>,
    picked: Vec<Picked>,
    log_sums: Vec<(DeviceStats, String, String)>,
    broadcast: Vec<Misuse>,
}

impl Joints {
    /// Records an op. `linear` is the key of the linear layer that contains it, if any; `is_inside`
    /// is whether it runs within the model.
    pub(super) fn op(&mut self, call: &OpCall<'_>, linear: Option<&str>, is_inside: bool) -> Result<()> {
        self.read(call, linear);
        if is_inside {
            return Ok(());
        }
        self.pick(call)?;
        if let Some(misuse) = self.meets(call).filter(|misuse| !self.broadcast.contains(misuse)) {
            self.broadcast.push(misuse);
        }
        Ok(())
    }

    /// Records the end of a layer. The output of a container is that of its last layer, which is
    /// the one to report.
    pub(super) fn layer(&mut self, call: &LayerCall, output: &Tensor, is_leaf: bool) {
        if self.latest.as_ref().is_none_or(|latest| latest.key.is_empty() || !latest.is(output)) {
            let name = if call.key.is_empty() { call.kind } else { &call.key };
            self.latest = Some(Kept::new(output, &call.key, name));
        }
        if is_leaf && call.is_member && call.kind == "Linear" && output.needs_grad() {
            let kept = Kept::new(output, &call.key, &call.key);
            self.linear.push(LinearOutput { kept, uses: 0, next: None });
        }
    }

    /// Counts the ops that read the outputs of linear layers.
    fn read(&mut self, call: &OpCall<'_>, linear: Option<&str>) {
        for (at, input) in call.inputs.iter().enumerate() {
            for known in self.linear.iter_mut().filter(|known| known.kept.is(input)) {
                known.uses += 1;
                let has_same_rows = input.layout().is_contiguous()
                    && input.elements() == known.kept.output.elements()
                    && input.dims().last() == known.kept.output.dims().last();
                if at == 0 && has_same_rows && matches!(call.op, Op::Matmul(_)) {
                    known.next = linear.map(str::to_owned);
                }
            }
        }
    }

    /// Detects `nll_loss`: it gathers a number of each row, negates it, and masks ignored targets
    /// with a select.
    fn pick(&mut self, call: &OpCall<'_>) -> Result<()> {
        let (Some(input), Some(output)) = (call.inputs.first(), call.outputs.first()) else { return Ok(()) };
        match call.op {
            Op::Gather(gather) if gather.axis == 1 && is_one_of_each_row(input, output) => {
                let (key, name) =
                    self.latest.as_ref().map_or(("", "the model"), |last| (&last.key, &last.name));
                let kept = Kept::new(output, key, name);
                self.picked.push(Picked { kept, rows: (*input).clone(), is_negative: false });
            }
            Op::Unary(unary) if unary.op == UnaryOp::Neg => {
                let picked = self.picked.iter_mut().find(|picked| picked.kept.is(input));
                picked.into_iter().for_each(|picked| {
                    picked.kept = Kept::new(output, &picked.kept.key, &picked.kept.name);
                    picked.is_negative = true;
                });
            }
            Op::Select(_) => {
                let is_read = |picked: &Picked| call.inputs.iter().any(|input| picked.kept.is(input));
                let picked = self.picked.iter().position(|picked| picked.is_negative && is_read(picked));
                if let Some(Picked { kept, rows, .. }) = picked.map(|at| self.picked.swap_remove(at)) {
                    self.log_sums.push((log_sums(&rows)?, kept.key, kept.name));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns a fault if the last output, `[n, 1]` or `[n]`, is combined with a tensor of the
    /// other shape that does not require a gradient.
    fn meets(&self, call: &OpCall<'_>) -> Option<Misuse> {
        let Op::Binary(_) = call.op else { return None };
        let (one, other, result) = (call.inputs.first()?, call.inputs.get(1)?, call.outputs.first()?);
        let latest = self.latest.as_ref()?;
        let (ours, theirs) = match (one.needs_grad(), other.needs_grad()) {
            (true, false) => (one, other),
            (false, true) => (other, one),
            _ => return None,
        };
        let count = ours.elements();
        let is_column = |tensor: &Tensor| tensor.dims() == [count, 1];
        let is_row = |tensor: &Tensor| tensor.dims() == [count];
        let differ = (is_column(ours) && is_row(theirs)) || (is_row(ours) && is_column(theirs));
        (differ && count > 1 && latest.is(ours)).then(|| {
            let text = format!(
                "{}: its outputs {:?} meet numbers of shape {:?} in {}, and are broadcast to {:?}: each is compared with each, and nothing is learned; give both one shape",
                latest.name,
                ours.shape(),
                theirs.shape(),
                call.op.name(),
                result.shape()
            );
            Misuse { layer: latest.key.clone(), text }
        })
    }

    /// Passes the observations to a report.
    pub(super) fn tell(self, readings: &mut Readings) {
        for (sums, layer, name) in self.log_sums {
            readings.log_sums(sums, layer, name);
        }
        readings.setup.broadcast = self.broadcast;
        let once = self.linear.into_iter().filter(|known| known.uses == 1);
        let in_a_row = once.filter_map(|known| Some(InARow { first: known.kept.key, second: known.next? }));
        readings.setup.in_a_row = in_a_row.collect();
    }
}
