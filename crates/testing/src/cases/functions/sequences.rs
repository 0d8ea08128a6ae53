//! Rows of sequences of different lengths.

use crate::prelude::*;
use ternion_core::PadSequenceOptions;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    let row = |parameters: &str, options: PadSequenceOptions| {
        OpCase::new("pad_sequence", parameters)
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            .input(Uniform(-4.0, 4.0))
            .on([&[2, 3], &[4, 3], &[1, 3]])
            .on([&[3], &[0], &[5]])
            .on([&[1, 2, 2], &[3, 2, 2], &[3, 2, 2]])
            .on([&[0, 2], &[0, 2], &[0, 2]])
            .also(INTEGERS)
            .exact()
            .double_backward()
            .run(move |x| Tensor::pad_sequence(&x.iter().collect::<Vec<_>>(), options))
            .oracle(move |x| padded(x, options))
    };
    let plain = PadSequenceOptions::default();
    vec![
        row("", plain)
            .rejects("pad_sequence: sequences of shapes [], expected some that differ only in the first axis", move |_| {
                Tensor::pad_sequence(&[], plain)
            })
            .rejects(
                "pad_sequence: sequences of shapes [[2, 3], [2, 4]], expected some that differ only in the first axis",
                move |device| {
                    let [a, b] = [[2, 3], [2, 4]].map(|shape| Tensor::zeros(shape, F32, device));
                    Tensor::pad_sequence(&[&a?, &b?], plain)
                },
            )
            .rejects("pad_sequence: sequences of shapes [[]], expected some that differ only in the first axis", move |device| {
                Tensor::pad_sequence(&[&Tensor::zeros((), F32, device)?], plain)
            }),
        row("batch_first value=2", PadSequenceOptions { batch_first: true, value: 2.0, ..plain }),
        row("at_front value=3", PadSequenceOptions { at_front: true, value: 3.0, ..plain }),
    ]
}

fn padded(sequences: &[Array], options: PadSequenceOptions) -> Array {
    let longest = sequences.iter().map(|sequence| sequence.shape[0]).max().unwrap_or(0);
    let inner = &sequences[0].shape[1..];
    let (time, batch) = if options.batch_first { (1, 0) } else { (0, 1) };
    let mut shape = vec![0; 2];
    (shape[time], shape[batch]) = (longest, sequences.len());
    shape.extend(inner);
    Array::from_fn(&shape, |at| {
        let sequence = &sequences[at[batch]];
        let length = sequence.shape[0];
        let first = if options.at_front { longest - length } else { 0 };
        match at[time].checked_sub(first).filter(|&step| step < length) {
            Some(step) => sequence.at(&[&[step], &at[2..]].concat()),
            None => options.value,
        }
    })
}
