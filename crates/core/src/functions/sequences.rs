//! Sequences of different lengths in one tensor.

use crate::error::{Error, Result};
use crate::{Scalar, Tensor};

/// Options of [`Tensor::pad_sequence`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PadSequenceOptions {
    /// Whether the batch is the first axis instead of the second. Default: false.
    pub batch_first: bool,
    /// Whether sequences are padded before their first element instead of after their last.
    /// Default: false.
    pub at_front: bool,
    /// The padding value. Default: 0.
    pub value: f64,
}

impl Tensor {
    /// Pads sequences to the length of the longest one.
    ///
    /// # Shapes
    /// `[length, ..]` each -> `[longest, batch, ..]`, with `batch_first` `[batch, longest, ..]`
    ///
    /// # Errors
    /// Returns an error if there are no sequences, if a sequence has no axes, if sizes after the
    /// first axis or dtypes differ, or if the dtype cannot represent `value`.
    pub fn pad_sequence(sequences: &[&Tensor], options: PadSequenceOptions) -> Result<Tensor> {
        let name = "pad_sequence";
        let fits_first =
            |sequence: &&Tensor| sequence.rank() > 0 && sequence.dims()[1..] == sequences[0].dims()[1..];
        if sequences.is_empty() || sequences[0].rank() == 0 || !sequences.iter().all(fits_first) {
            let shapes: Vec<_> = sequences.iter().map(|sequence| *sequence.shape()).collect();
            let detail =
                format!("sequences of shapes {shapes:?}, expected some that differ only in the first axis");
            return Err(Error::invalid(name, detail));
        }
        let longest = sequences.iter().map(|sequence| sequence.dims()[0]).max().unwrap_or(0);
        let padded = |sequence: &&Tensor| {
            let missing = longest - sequence.dims()[0];
            let mut amounts = vec![[0, 0]; sequence.rank()];
            amounts[0] = if options.at_front { [missing, 0] } else { [0, missing] };
            sequence.pad(&amounts, Scalar::from(options.value))
        };
        let padded = sequences.iter().map(padded).collect::<Result<Vec<_>>>()?;
        Tensor::stack(&padded.iter().collect::<Vec<_>>(), isize::from(!options.batch_first))
    }
}
