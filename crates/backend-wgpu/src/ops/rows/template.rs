//! The values that a family of ops sets for the placeholders of row templates. Every placeholder of
//! rows.wgsl and of the shaders that hold rows in registers is a field here, so that the compiler
//! detects one that is not set.

use crate::names::{
    Accumulate, AccumulatorFromLane, AccumulatorFromWords, AccumulatorType, AccumulatorWords, Bases, Fill,
    Finish, LossTarget, Merge, NormBias, NormBiases, NormCenter, NormParameterGrads, NormRowWeight,
    NormSaved, NormStatistics, NormWeight, NormWeights, PositionBetter, Prepare, ReduceEnter, ReduceLeave,
    RowAccumulator, RowIsFinite, RowResult, RowShiftedSum, RowSkips, RowTerms, RowValue, RowValues, SlotName,
    SoftmaxFactor, SoftmaxGradTerm, Start,
};
use smallvec::{SmallVec, smallvec};

/// Values for the placeholders of a part of a template.
pub(crate) type Fills = SmallVec<[Fill; 8]>;

/// What rows.wgsl does with each row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowKernel {
    pub(crate) accumulator: Accumulator,
    pub(crate) bases: Bases,
    pub(crate) family: RowFamily,
    /// How a thread accumulates its elements.
    pub(crate) accumulate: Accumulate,
    /// What is done with the row's accumulator.
    pub(crate) finish: RowFinish,
}

/// The functions of an accumulator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accumulator {
    pub(crate) dtype: AccumulatorType,
    pub(crate) start: Start,
    pub(crate) merge: Merge,
    pub(crate) words: AccumulatorWords,
    pub(crate) from_words: AccumulatorFromWords,
    pub(crate) from_lane: AccumulatorFromLane,
}

impl Accumulator {
    pub(crate) const SUMS: Accumulator = Accumulator::floats(Start::Sums, Merge::Sums);
    pub(crate) const EXPONENTIALS: Accumulator =
        Accumulator::floats(Start::Exponentials, Merge::Exponentials);
    pub(crate) const MOMENTS: Accumulator = Accumulator::floats(Start::Moments, Merge::Moments);
    /// Moments of values whose sums may overflow.
    pub(crate) const DEVIATIONS: Accumulator = Accumulator::floats(Start::Deviations, Merge::Deviations);
    /// A sum in the number type of the class.
    pub(crate) const SUM: Accumulator = Accumulator::number(Start::Zero, Merge::Sum);

    const fn floats(start: Start, merge: Merge) -> Accumulator {
        Accumulator {
            dtype: AccumulatorType::Vec4,
            start,
            merge,
            words: AccumulatorWords::Floats,
            from_words: AccumulatorFromWords::Floats,
            from_lane: AccumulatorFromLane::Plain,
        }
    }

    pub(crate) const fn number(start: Start, merge: Merge) -> Accumulator {
        Accumulator {
            dtype: AccumulatorType::Class,
            start,
            merge,
            words: AccumulatorWords::Plain,
            from_words: AccumulatorFromWords::Plain,
            from_lane: AccumulatorFromLane::Plain,
        }
    }

    pub(super) fn fills(self) -> Fills {
        let Accumulator { dtype, start, merge, words, from_words, from_lane } = self;
        smallvec![dtype.into(), start.into(), merge.into(), words.into(), from_words.into(), from_lane.into()]
    }
}

/// How the results of a row are written after the accumulation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowFinish {
    /// A result for each row, written by the first thread of the row.
    Row(Finish),
    /// Elements of y, written by the threads of each part.
    Elements { prepare: Prepare, value: RowValue },
    /// Like `Elements`, but a thread that has many elements computes several at a time. For values
    /// whose cost is mostly reads.
    ManyElements { prepare: Prepare, value: RowValue },
    /// Elements of y of some rows only: `finish` calls FINISH_ELEMENTS for these rows.
    SomeElements { finish: Finish, prepare: Prepare, value: RowValue },
}

/// The placeholders that only one family of ops has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowFamily {
    Softmax {
        factor: SoftmaxFactor,
    },
    SoftmaxGrad {
        term: SoftmaxGradTerm,
    },
    Reduction {
        enter: ReduceEnter,
        leave: ReduceLeave,
        better: Option<PositionBetter>,
    },
    Loss {
        target: LossTarget,
    },
    Norm {
        statistics: NormStatistics,
        weight: NormWeight,
        bias: NormBias,
    },
    NormGrad {
        saved: NormSaved,
        center: NormCenter,
        weight: NormWeight,
    },
    /// Sums for each column: of the partial sums of teams (`saved` is `None`), or of the tensors.
    NormColumns {
        saved: Option<NormSaved>,
        grads: NormParameterGrads,
    },
    BatchNormGrad {
        weight: NormRowWeight,
        grads: NormParameterGrads,
    },
}

impl RowFamily {
    pub(super) fn fills(self) -> Fills {
        match self {
            RowFamily::Softmax { factor } => smallvec![factor.into()],
            RowFamily::SoftmaxGrad { term } => smallvec![term.into()],
            RowFamily::Reduction { enter, leave, better } => {
                let mut fills: Fills = smallvec![enter.into(), leave.into()];
                fills.extend(better.map(Fill::from));
                fills
            }
            RowFamily::Loss { target } => smallvec![target.into()],
            RowFamily::Norm { statistics, weight, bias } => {
                let biases = match bias {
                    NormBias::Element => NormBiases::Elements,
                    _ => NormBiases::None,
                };
                smallvec![
                    statistics.into(),
                    weight.into(),
                    bias.into(),
                    weights_of(weight).into(),
                    biases.into()
                ]
            }
            RowFamily::NormGrad { saved, center, weight } => {
                smallvec![saved.into(), center.into(), weight.into(), weights_of(weight).into()]
            }
            RowFamily::NormColumns { saved, grads } => {
                let mut fills: Fills = smallvec![grads.into()];
                fills.extend(saved.map(Fill::from));
                fills
            }
            RowFamily::BatchNormGrad { weight, grads } => {
                smallvec![NormSaved::Batch.into(), NormWeight::None.into(), weight.into(), grads.into()]
            }
        }
    }
}

/// Returns the function for the weights of a vec4.
fn weights_of(weight: NormWeight) -> NormWeights {
    match weight {
        NormWeight::Element => NormWeights::Elements,
        _ => NormWeights::None,
    }
}

/// A shader that holds rows in registers as vec4, and the values that a family sets in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisterRows {
    /// The tensors that the shader accesses as vec4: y, if it is written, x and others.
    pub(crate) vec4: &'static [SlotName],
    /// Whether rows may be longer than what their threads hold, or begin in the middle of a vec4.
    pub(crate) any_length: bool,
    /// Maximum number of threads of a row.
    pub(crate) max_threads: u32,
    pub(crate) template: RegisterTemplate,
    pub(crate) output: RegisterOutput,
}

/// The template of a shader that holds rows in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RegisterTemplate {
    /// exponentials_vec4.wgsl: the maximum and, with `sums`, the sum of exponentials.
    Exponentials { skips: RowSkips, sums: Option<RowShiftedSum> },
    /// sums_vec4.wgsl: sums of x, with `with_d` also of d, and with `squares` also sums of squares
    /// around the mean.
    Sums { terms: RowTerms, accumulator: RowAccumulator, with_d: bool, squares: bool },
}

/// The output of a shader that holds rows in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RegisterOutput {
    /// A result for each row.
    Row(RowResult),
    /// Elements of y. `kept` computes them from exponentials in registers.
    Elements { prepare: Prepare, values: RowValues, kept: Option<RowValues>, single: Option<SingleElements> },
}

/// How elements are computed one by one if a row is not finite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SingleElements {
    pub(crate) is_finite: RowIsFinite,
    pub(crate) value: RowValue,
}
