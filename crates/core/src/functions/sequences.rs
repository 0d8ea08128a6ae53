//! Sequences of several lengths in one tensor.

use crate::error::{Error, Result};
use crate::{Scalar, Tensor};

/// How [`Tensor::pad_sequence`] pads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PadSequenceOptions {
    /// Whether the batch is the first axis, and not the second; off by default.
    pub batch_first: bool,
    /// Whether sequences are padded in front of their first element, and not behind their last; off by default.
    pub at_front: bool,
    /// What pads; 0 by default.
    pub value: f64,
}

impl Tensor {
    /// Sequences padded to the longest of them.
    ///
    /// # Shapes
    /// `[length, ..]` each -> `[longest, batch, ..]`, with `batch_first` `[batch, longest, ..]`
    ///
    /// # Errors
    /// No sequences, none without axes, sizes behind the first axis that differ, dtypes that differ, a `value` that the dtype does not hold.
    pub fn pad_sequence(sequences: &[&Tensor], options: PadSequenceOptions) -> Result<Tensor> {
        let name = "pad_sequence";
        let alike =
            |sequence: &&Tensor| sequence.rank() > 0 && sequence.dims()[1..] == sequences[0].dims()[1..];
        if sequences.is_empty() || sequences[0].rank() == 0 || !sequences.iter().all(alike) {
            let shapes: Vec<_> = sequences.iter().map(|sequence| *sequence.shape()).collect();
            let detail =
                format!("sequences of shapes {shapes:?}, expected some that differ in the first axis alone");
            return Err(Error::invalid(name, detail));
        }
        let longest = sequences.iter().map(|sequence| sequence.dims()[0]).max().unwrap_or(0);
        let padded = |sequence: &&Tensor| {
            let more = longest - sequence.dims()[0];
            let mut amounts = vec![[0, 0]; sequence.rank()];
            amounts[0] = if options.at_front { [more, 0] } else { [0, more] };
            sequence.pad(&amounts, Scalar::from(options.value))
        };
        let padded = sequences.iter().map(padded).collect::<Result<Vec<_>>>()?;
        Tensor::stack(&padded.iter().collect::<Vec<_>>(), isize::from(!options.batch_first))
    }
}
