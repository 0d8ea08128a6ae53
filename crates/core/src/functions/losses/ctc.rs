//! Connectionist temporal classification.

use crate::error::{Error, Result, with_index_error_op};
use crate::functions::{float_tensor, index_tensor};
use crate::op::check;
use crate::ops::loss::Reduction;
use crate::{DType, Tensor};

/// Options of [`Tensor::ctc_loss`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CtcOptions {
    /// The class index of the blank. Default: 0.
    pub blank: usize,
    /// How the losses are reduced. Default: mean, where each loss is first divided by the length of
    /// its target.
    pub reduction: Reduction,
    /// Whether infinite losses, of targets that are too long for their input, are replaced by 0
    /// with gradient 0. Default: false.
    pub zero_infinity: bool,
}

impl Tensor {
    /// Returns the negative log-probability of each target, summed over all its alignments with the
    /// input, computed in log-space (Graves et al. 2006, Connectionist Temporal Classification,
    /// section 4.1). The gradient is exact with respect to these log-probabilities. PyTorch's
    /// gradient is correct only after a `log_softmax`, where both agree.
    ///
    /// # Shapes
    /// log-probabilities `[time, batch, classes]`, targets `[batch, length]` (i32 or i64), of which
    /// the first `target_lengths` of each row are used, or concatenated in
    /// `[sum of target_lengths]` -> `[batch]`, or `[]` if reduced; the batch axis is optional
    ///
    /// # Errors
    /// Returns an error if shapes or dtypes do not match, if a length exceeds its axis, if the
    /// number of lengths is not the batch size, or if a blank or a target is not a class.
    pub fn ctc_loss(
        &self,
        targets: &Tensor,
        input_lengths: &[usize],
        target_lengths: &[usize],
        options: CtcOptions,
    ) -> Result<Tensor> {
        let is_batched = self.rank() == 3;
        let lengths = Lengths { inputs: input_lengths, targets: target_lengths };
        let (log_probs, labels) = prepare(self, targets, lengths, options.blank)?;
        let mut losses = lengths.losses(&log_probs, &labels, options.blank)?;
        if options.zero_infinity {
            losses = losses.masked_fill(&losses.eq_scalar(f64::INFINITY)?, 0)?;
        }
        if !is_batched {
            losses = losses.squeeze(0)?;
        }
        if options.reduction == Reduction::Mean {
            let lengths: Vec<f64> = target_lengths.iter().map(|&length| length.max(1) as f64).collect();
            losses = losses.div(&float_tensor(lengths, *losses.shape(), losses.dtype(), self.device())?)?;
        }
        options.reduction.apply("ctc_loss", &losses)
    }
}

const NAME: &str = "ctc_loss";

/// The lengths of inputs and targets of each row of the batch.
#[derive(Clone, Copy)]
struct Lengths<'a> {
    inputs: &'a [usize],
    targets: &'a [usize],
}

/// Returns log-probabilities `[time, batch, classes]` in the accumulation dtype, and targets
/// `[batch, longest]`, padded with blanks.
fn prepare(x: &Tensor, targets: &Tensor, lengths: Lengths<'_>, blank: usize) -> Result<(Tensor, Tensor)> {
    check::float(NAME, "log_probs", &x.meta())?;
    check::index(NAME, "targets", &targets.meta())?;
    let (x, targets) = match (x.rank(), targets.rank()) {
        (2, 1) => (x.unsqueeze(1)?, targets.unsqueeze(0)?),
        (3, 1 | 2) => (x.clone(), targets.clone()),
        _ => {
            let detail = format!("log_probs of shape {:?} and targets of {:?}", x.shape(), targets.shape());
            return Err(Error::invalid(NAME, detail));
        }
    };
    let [time, batch, classes] = x.sizes()?;
    if blank >= classes {
        return Err(Error::invalid(NAME, format!("blank {blank} of {classes} classes")));
    }
    for (what, row_lengths) in [("input", lengths.inputs), ("target", lengths.targets)] {
        if row_lengths.len() != batch {
            return Err(Error::invalid(
                NAME,
                format!("{} {what} lengths for a batch of {batch}", row_lengths.len()),
            ));
        }
    }
    if let Some(length) = lengths.inputs.iter().find(|&&length| length > time) {
        return Err(Error::invalid(NAME, format!("an input length of {length} for {time} steps")));
    }
    let labels = lengths.labels(&targets, blank)?;
    Ok((x.to_dtype(x.dtype().accumulator())?, labels))
}

impl Lengths<'_> {
    /// Returns targets `[batch, longest]`, padded with blanks.
    fn labels(self, targets: &Tensor, blank: usize) -> Result<Tensor> {
        let longest = self.targets.iter().copied().max().unwrap_or(0);
        let rows = match *targets.dims() {
            [_, width] if longest > width => {
                let detail =
                    format!("a target length of {longest} for targets of shape {:?}", targets.shape());
                return Err(Error::invalid(NAME, detail));
            }
            [_, _] => targets.narrow(1, 0, longest)?,
            [count] => {
                let sum = self.targets.iter().fold(0usize, |sum, &length| sum.saturating_add(length));
                if sum != count {
                    return Err(Error::invalid(
                        NAME,
                        format!("target lengths of {sum} together for {count} targets"),
                    ));
                }
                self.rows_of(targets, longest)?
            }
            _ => {
                return Err(Error::Rank {
                    op: NAME,
                    expected: "1 or 2".into(),
                    shape: Box::new(*targets.shape()),
                });
            }
        };
        if *rows.dims() != [self.targets.len(), longest] {
            let detail =
                format!("targets of shape {:?} for a batch of {}", targets.shape(), self.targets.len());
            return Err(Error::invalid(NAME, detail));
        }
        let lengths = to_column(self.targets, targets)?;
        let position = Tensor::iota(longest, lengths.dtype(), 0, 1, targets.device())?;
        let counts = position.lt(&lengths)?;
        counts.where_(&rows, &rows.scalar_like(blank as i64)?)
    }

    /// Splits concatenated targets into rows.
    fn rows_of(self, targets: &Tensor, longest: usize) -> Result<Tensor> {
        let batch = self.targets.len();
        if longest == 0 {
            return Tensor::zeros([batch, 0], targets.dtype(), targets.device());
        }
        let mut indices = Vec::with_capacity(batch * longest);
        let mut start = 0;
        for &length in self.targets {
            indices.extend((0..longest).map(|at| if at < length { start + at } else { 0 }));
            start += length;
        }
        let indices = index_tensor(indices, [batch * longest], targets.device())?;
        targets.index_select(0, &indices)?.reshape([batch, longest])
    }

    /// Computes the forward variables of Graves et al.: the log-probabilities of all alignments of
    /// a prefix of the input with a prefix of the target, whose labels are separated by blanks.
    fn losses(self, log_probs: &Tensor, labels: &Tensor, blank: usize) -> Result<Tensor> {
        let [time, batch, _] = log_probs.sizes()?;
        let [_, longest] = labels.sizes()?;
        let width = 2 * longest + 1;
        if time == 0 || batch == 0 {
            return self.empty_input_losses(log_probs);
        }
        let blanks = labels.full_like(blank as i64)?;
        let pairs = Tensor::stack(&[&blanks, labels], 2)?.reshape([batch, 2 * longest])?;
        let last = Tensor::full([batch, 1], blank as i64, labels.dtype(), labels.device())?;
        let symbols = Tensor::concat(&[&pairs, &last], 1)?;
        let expanded = symbols.unsqueeze(0)?.expand([time, batch, width])?;
        let steps = with_index_error_op(NAME, || log_probs.gather(2, &expanded))?;
        let lengths = to_column(self.inputs, labels)?;
        // Elements after the end of an input must not enter the computation: they may be NaN.
        let times = Tensor::iota(time, lengths.dtype(), 0, 1, labels.device())?.reshape([time, 1, 1])?;
        let is_inside = times.lt(&lengths.unsqueeze(0)?)?;
        let steps = is_inside.where_(&steps, &steps.scalar_like(0)?)?;
        let impossible = steps.scalar_like(f64::NEG_INFINITY)?;
        let is_skip = skip_mask(&symbols, blank)?;
        let is_start = Tensor::iota(width, DType::I32, 0, 1, labels.device())?.lt_scalar(2)?;
        let mut state = is_start.where_(&steps.select(0, 0)?, &impossible)?;
        for time_step in 1..time {
            let next = next_states(&state, &is_skip)?.add(&steps.select(0, time_step)?)?;
            state = is_inside.select(0, time_step)?.where_(&next, &state)?;
        }
        self.total_losses(&state)
    }

    /// Returns the negative log-sum-exp of the last two states of each target.
    fn total_losses(self, state: &Tensor) -> Result<Tensor> {
        let ends: Vec<usize> = self.targets.iter().map(|&length| 2 * length).collect();
        let before: Vec<usize> = ends.iter().map(|&end| end.saturating_sub(1)).collect();
        let ends = to_column(&ends, state)?;
        let end = state.gather(1, &ends)?;
        let label = state.gather(1, &to_column(&before, state)?)?;
        let label = label.masked_fill(&ends.eq_scalar(0)?, f64::NEG_INFINITY)?;
        let losses = Tensor::concat(&[&end, &label], 1)?.logsumexp(1)?.neg()?;
        match self.inputs.contains(&0) {
            false => Ok(losses),
            true => {
                let is_empty_input = to_column(self.inputs, state)?.eq_scalar(0)?.squeeze(1)?;
                is_empty_input.where_(&self.empty_input_losses(state)?, &losses)
            }
        }
    }

    /// Returns the losses of inputs without time steps: an empty target has probability 1, all
    /// others 0.
    fn empty_input_losses(self, like: &Tensor) -> Result<Tensor> {
        let losses: Vec<f64> =
            self.targets.iter().map(|&length| if length == 0 { 0.0 } else { f64::INFINITY }).collect();
        let count = losses.len();
        float_tensor(losses, [count], like.dtype(), like.device())
    }
}

/// Returns one value for each row of the batch, `[batch, 1]`.
fn to_column(values: &[usize], like: &Tensor) -> Result<Tensor> {
    index_tensor(values.to_vec(), [values.len(), 1], like.device())
}

/// Returns which symbols may follow the symbol two positions before: labels that differ from it.
fn skip_mask(symbols: &Tensor, blank: usize) -> Result<Tensor> {
    let earlier = shift_right(symbols, 2, blank as i64)?;
    symbols.ne_scalar(blank as i64)?.logical_and(&symbols.ne(&earlier)?)
}

/// Returns rows shifted right by `count` elements and padded with `fill`.
fn shift_right(x: &Tensor, count: usize, fill: impl Into<crate::Scalar>) -> Result<Tensor> {
    let width = x.dims()[1];
    x.pad(&[[0, 0], [count, 0]], fill)?.narrow(1, 0, width)
}

/// Returns the states of the next time step before its log-probabilities are added: each symbol
/// follows itself, the previous symbol, or, where allowed, the symbol two positions before.
fn next_states(state: &Tensor, is_skip: &Tensor) -> Result<Tensor> {
    let one = shift_right(state, 1, f64::NEG_INFINITY)?;
    let two = shift_right(state, 2, f64::NEG_INFINITY)?;
    let two = is_skip.where_(&two, &two.scalar_like(f64::NEG_INFINITY)?)?;
    Tensor::stack(&[state, &one, &two], 0)?.logsumexp(0)
}
