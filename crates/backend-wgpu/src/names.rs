//! The names that the host and the shaders share, each declared once: the values of the
//! placeholders of a template, its constants, and the tensors of shaders.
//!
//! A template is a source of `shaders/` with placeholders: identifiers in capitals that are
//! replaced with a function or type of the library, or a number. Each enum of [`fillings`] is one
//! placeholder with all its possible values, so that Rust code selects a variant by a value and
//! never by a WGSL name.

use std::borrow::Cow;
use ternion_core::UnaryOp;
use ternion_core::ops::binary::BinaryOp;
use ternion_core::ops::compare::CompareOp;
use ternion_core::ops::unary::UnaryFunction;

impl Constant {
    /// Sets the constant to this number.
    pub(crate) const fn is(self, number: u32) -> Fill {
        Fill::Constant(self, number)
    }

    /// Sets the constant to 1 or 0. The lines of a `#repeat` with this count are kept if the
    /// condition holds, and removed otherwise.
    pub(crate) const fn is_one_if(self, holds: bool) -> Fill {
        self.is(holds as u32)
    }
}

impl Switch {
    /// Sets the switch to this value.
    pub(crate) const fn is(self, flag: bool) -> Fill {
        Fill::Switch(self, flag)
    }
}

/// Declares a list of WGSL names as an enum.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $wgsl:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum $name {
            $($variant,)+
        }

        impl $name {
            /// Returns the name in WGSL.
            pub(crate) const fn wgsl(self) -> &'static str {
                match self {
                    $($name::$variant => $wgsl,)+
                }
            }
        }
    };
}

/// Declares placeholders, each with the names that may replace it.
macro_rules! fillings {
    ($($(#[$doc:meta])* $placeholder:literal => $name:ident { $($variant:ident = $wgsl:literal,)+ })+) => {
        $(
            names! {
                $(#[$doc])*
                $name { $($variant = $wgsl,)+ }
            }

            impl From<$name> for Fill {
                #[inline]
                fn from(filling: $name) -> Fill {
                    Fill::$name(filling)
                }
            }
        )+

        /// A placeholder and its value: a name, a function, a number or a bool. Values are compared
        /// and hashed as numbers; only the linker uses the WGSL names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Fill {
            $($name($name),)+
            Function(Function),
            Constant(Constant, u32),
            Switch(Switch, bool),
        }

        impl Fill {
            /// Returns the identifier that is replaced in the template.
            pub(crate) const fn placeholder(self) -> &'static str {
                match self {
                    $(Fill::$name(_) => $placeholder,)+
                    Fill::Function(_) => FUNCTION,
                    Fill::Constant(constant, _) => constant.wgsl(),
                    Fill::Switch(switch, _) => switch.wgsl(),
                }
            }

            /// Returns the replacement in WGSL.
            pub(crate) fn wgsl(self) -> Cow<'static, str> {
                match self {
                    $(Fill::$name(filling) => filling.wgsl().into(),)+
                    Fill::Function(function) => function.wgsl().into(),
                    Fill::Constant(_, number) => format!("{number}u").into(),
                    Fill::Switch(_, flag) => if flag { "true" } else { "false" }.into(),
                }
            }
        }

        impl Fill {
            /// Returns the value if it is a number.
            pub(crate) const fn number(self) -> Option<u32> {
                match self {
                    Fill::Constant(_, number) => Some(number),
                    _ => None,
                }
            }
        }

        /// Every placeholder that is replaced with a name or a function.
        const PLACEHOLDERS: &[&str] = &[$($placeholder,)+ FUNCTION];
    };
}

/// The placeholder of a [`Function`].
const FUNCTION: &str = "FUNCTION";

/// Returns whether templates have a placeholder of this name.
pub(crate) fn is_placeholder(name: &str) -> bool {
    PLACEHOLDERS.contains(&name) || CONSTANTS.contains(&name)
}

// ---- Elementwise ops and ops that store elements in the same way

fillings! {
    /// The function that computes the bits of an element of y.
    "RESULT" => ElementResult {
        Unary = "unary_result",
        Binary = "binary_result",
        ScalarRight = "scalar_right_result",
        ScalarLeft = "scalar_left_result",
        MultiplyAdd = "multiply_add_result",
        ScaleAdd = "scale_add_result",
        AddRelu = "add_relu_result",
        BiasActivation = "bias_activation_result",
        Compare = "compare_result",
        CompareScalar = "compare_scalar_result",
        Select = "select_result",
        Bits = "bits_result",
        Same = "same_result",
        CastBits = "cast_bits_result",
        Cast = "cast_result",
        Fill = "fill_result",
        FillWide = "fill_wide_result",
        MaxPool = "max_of_window",
        MaxPoolGrad = "max_of_window_grad",
        AvgPool = "mean_of_window",
        AvgPoolGrad = "mean_of_window_grad",
        MaxPoolPlaneGrad = "max_of_plane_grad",
        Im2col = "im2col",
        Col2im = "col2im",
        Gather = "gathered",
        Pad = "padded",
        Concat = "concatenated",
        StatelessStep = "stateless_result",
        OneStateStep = "one_state_result",
        TwoStatesStep = "two_states_result",
    }

    /// How y is stored.
    "WRITE" => Write {
        Anywhere = "write_anywhere",
        Single = "write_single",
        Packed = "write_packed",
        Vec4 = "write_vec4",
        Vec4Twice = "write_vec4_twice",
        RandomPairs = "write_pairs",
        RandomElements = "write_elements",
    }

    /// The index of an input's element.
    "ELEMENT_INDEX" => ElementIndex {
        Contiguous = "contiguous_index",
        Strided = "strided_index",
        Vec4 = "index_in_vec4",
    }

    /// The value of padding elements.
    "VALUE" => PadValue {
        Narrow = "narrow_value",
        Wide = "wide_value",
    }

    /// The copy of a transposed tile.
    "COPY_TILE" => CopyTile {
        Words = "copy_words",
        Pairs = "copy_pairs",
    }

    /// Which planes a pooling shader processes.
    "CONDITION" => PoolCondition {
        Always = "always",
        IfOutOfWindow = "has_out_of_window",
    }

    /// The conversion of random words to an element.
    "NUMBER" => RandomNumber {
        Bits = "bits_number",
        Uniform = "uniform_number",
        Normal = "normal_number",
        Dropout = "dropout_number",
    }

    /// The update rule of an optimizer step.
    "RULE" => StepRule {
        Sgd = "sgd_rule",
        Momentum = "momentum_rule",
        Adam = "adam_rule",
    }

    // ---- Indices and sorting

    /// The position of an element of an index tensor.
    "POSITION" => IndexPosition {
        I32 = "position_of_i32",
        I64 = "position_of_i64",
    }

    /// Whether an index out of range is recorded.
    "RECORD" => RecordIndexError {
        Record = "record_index_error",
        Nothing = "record_nothing",
    }

    /// A stage of scattering.
    "STAGE" => ScatterStage {
        MarkWinners = "mark_winners",
        PutWinners = "put_winners",
        MakeKeys = "make_indices",
        AddRuns = "add_runs",
        AddRows = "add_rows",
    }

    /// A stage of radix sort.
    "STAGE" => RadixStage {
        CountDigits = "count_digits",
        SumDigits = "sum_digits",
        MoveDigits = "move_digits",
        MakeKeys = "make_keys",
        RecomputeKeys = "recompute_keys",
        GatherSorted = "gather_sorted",
    }

    /// The word of a key by which elements are sorted: keys of two words are sorted twice.
    "KEY_PART" => KeyPart {
        Whole = "whole_key",
        Lower = "lower_key",
        Upper = "upper_key",
    }

    /// The function that computes a key from an element's bits.
    "ORDER" => SortOrder {
        F32 = "key_f32",
        F16 = "key_f16",
        BF16 = "key_bf16",
        I32 = "key_i32",
        I64 = "key_i64",
        I16 = "key_i16",
        U64 = "key_u64",
        I8 = "key_i8",
        U8 = "key_u8",
    }

    /// The type of a key.
    "KEY" => SortKey {
        Word = "u32",
        DoubleWord = "vec2<u32>",
    }

    /// The comparison of keys.
    "ABOVE" => KeyAbove {
        Word = "key_above",
        DoubleWord = "wide_key_above",
    }

    // ---- Rows

    /// The type of an accumulator.
    "ACC" => AccumulatorType {
        Vec4 = "vec4<f32>",
        Class = "C",
        Position = "Position",
        Vec2 = "vec2<f32>",
    }

    /// The initial accumulator.
    "START" => Start {
        Sums = "sums_start",
        Exponentials = "exponentials_start",
        Moments = "moments_start",
        Deviations = "deviations_start",
        Zero = "zero",
        One = "one",
        Lowest = "lowest",
        Highest = "highest",
        Position = "position_start",
        Pair = "pair_start",
    }

    /// Merges the accumulators of two adjacent parts of a row; the first argument is of the first
    /// part.
    "MERGE" => Merge {
        Sums = "sums_merge",
        Exponentials = "exponentials_merge",
        Moments = "moments_merge",
        Deviations = "deviations_merge",
        Loss = "loss_merge",
        Sum = "sum_of",
        Product = "product_of",
        Larger = "larger",
        Smaller = "smaller",
        Position = "position_merge",
        Pair = "pair_merge",
    }

    /// Converts an accumulator to words of memory.
    "WORDS_FROM" => AccumulatorWords {
        Floats = "floats_words",
        Plain = "plain_words",
        Position = "position_words",
        Pair = "pair_words",
    }

    /// Converts words of memory to an accumulator.
    "ACC_FROM" => AccumulatorFromWords {
        Floats = "floats_from",
        Plain = "plain_from",
        Position = "position_from",
        Pair = "pair_from",
    }

    /// Reads the accumulator of another lane of the subgroup.
    "ACC_FROM_LANE" => AccumulatorFromLane {
        Plain = "plain_from_lane",
        Position = "position_from_lane",
    }

    /// How the threads of a team, which share a row, merge their accumulators.
    "OF_TEAM" => TeamMerge {
        Subgroups = "team_of_subgroups",
        Memory = "team_in_memory",
    }

    /// Converts a number of the class to words.
    "NUMBER_WORDS" => NumberWords {
        Float = "words_of_float",
        Int = "words_of_int",
        Byte = "words_of_byte",
        Wide = "words_of_wide",
    }

    /// The exponential function with the accuracy that the result's dtype needs.
    "EXPONENTIAL" => Exponential {
        F32 = "exponential",
        Half = "exponential_of_half",
    }

    /// Accumulates the elements of a thread.
    "ACCUMULATE" => Accumulate {
        Reduce = "reduce_accumulate",
        ReduceVec4 = "reduce_vec4_accumulate",
        Exponentials = "exponentials_accumulate",
        Moments = "moments_accumulate",
        Deviations = "deviations_accumulate",
        SoftmaxGrad = "softmax_grad_accumulate",
        NormSquares = "norm_squares_accumulate",
        NormGrad = "norm_grad_accumulate",
        NormTeams = "norm_teams_accumulate",
        NormColumns = "norm_columns_accumulate",
        Loss = "loss_accumulate",
        LossMax = "loss_max_accumulate",
        LossUpdate = "loss_update_accumulate",
        Parts = "accumulate_parts",
        RunningFromZero = "running_from_zero",
        RunningFromParts = "running_from_parts",
    }

    /// The function that writes the results of a row, given its accumulator.
    "FINISH" => Finish {
        Part = "finish_part",
        Elements = "finish_elements",
        FourElements = "finish_four_elements",
        Words = "finish_words",
        Pairs = "finish_pairs",
        Reduce = "reduce_finish",
        Loss = "loss_finish",
        LossUpdate = "loss_update_finish",
        NormColumns = "norm_columns_finish",
    }

    /// The function that writes the elements of a row, called by a [`Finish`] function that skips
    /// some rows.
    "FINISH_ELEMENTS" => FinishElements {
        Elements = "finish_elements",
        FourElements = "finish_four_elements",
        Words = "finish_words",
        Pairs = "finish_pairs",
    }

    /// Computes, from the accumulator of a row, the state that the elements of the row need.
    "PREPARE" => Prepare {
        Softmax = "softmax_statistics",
        SoftmaxGrad = "softmax_grad_state",
        Norm = "norm_state",
        NormGrad = "norm_grad_state",
        BatchNormGrad = "norm_batch_grad_state",
        Loss = "loss_with_grad_state",
        LossGrad = "loss_grad_state",
    }

    /// Computes an element of y.
    "VALUE" => RowValue {
        Softmax = "softmax_value",
        LogSoftmax = "log_softmax_value",
        SoftmaxGrad = "softmax_grad_value",
        LogSoftmaxGrad = "log_softmax_grad_value",
        Norm = "norm_value",
        NormGrad = "norm_grad_value",
        BatchNormGrad = "norm_batch_grad_value",
        LossGrad = "loss_grad_value",
    }

    /// The index of a row's first element in each tensor.
    "BASES" => Bases {
        None = "no_bases",
        Two = "two_bases",
        Three = "three_bases",
        Four = "four_bases",
    }

    /// The function that softmax applies to the sum of exponentials.
    "FACTOR" => SoftmaxFactor {
        Reciprocal = "softmax_factor",
        Logarithm = "log_of",
    }

    /// The term of the sum in the gradient of softmax.
    "GRAD_TERM" => SoftmaxGradTerm {
        Softmax = "softmax_grad_term",
        LogSoftmax = "log_softmax_grad_term",
    }

    /// The function that a reduction applies to each element before it accumulates it.
    "ENTER" => ReduceEnter {
        Plain = "reduce_plain",
        Square = "reduce_square",
        Abs = "reduce_abs",
        Position = "position_enter",
        Pair = "pair_enter",
    }

    /// The function that a reduction applies to its result.
    "LEAVE" => ReduceLeave {
        Plain = "reduce_identity",
        Mean = "reduce_mean",
        LogSumExp = "reduce_log_sum",
        Variance = "reduce_variance",
        Position = "position_leave",
        Pair = "pair_leave",
    }

    /// Which of two values is better: argmax or argmin.
    "BETTER" => PositionBetter {
        Larger = "position_larger",
        Smaller = "position_smaller",
    }

    /// The statistics of a normalized row.
    "STATISTICS" => NormStatistics {
        Layer = "norm_layer_statistics",
        Rms = "norm_rms_statistics",
        Batch = "norm_batch_statistics",
    }

    /// The statistics that a gradient reads.
    "SAVED" => NormSaved {
        Layer = "norm_layer_saved",
        Rms = "norm_rms_saved",
        Batch = "norm_batch_saved",
    }

    /// Whether the gradient of x is centered, as the gradient of layer normalization is.
    "CENTER" => NormCenter {
        Centered = "norm_centered",
        Uncentered = "norm_uncentered",
    }

    /// The weight of an element.
    "WEIGHT" => NormWeight {
        Element = "norm_weight_of_element",
        Row = "norm_weight_of_row",
        None = "norm_no_weight",
    }

    /// The weight of a channel, in a gradient.
    "ROW_WEIGHT" => NormRowWeight {
        Row = "norm_weight_of_row",
        None = "norm_no_weight",
    }

    /// The bias of an element.
    "BIAS" => NormBias {
        Element = "norm_bias_of_element",
        Row = "norm_bias_of_row",
        None = "norm_no_bias",
    }

    /// The weights of a vec4 of elements.
    "WEIGHTS" => NormWeights {
        Elements = "norm_weights",
        None = "norm_no_weights",
    }

    /// The biases of a vec4 of elements.
    "BIASES" => NormBiases {
        Elements = "norm_biases",
        None = "norm_no_biases",
    }

    /// Which parameter gradients are written.
    "PARAMETER_GRADS" => NormParameterGrads {
        Both = "norm_put_both",
        Weight = "norm_put_weight",
        Bias = "norm_put_bias",
        Channel = "norm_put_channel",
        None = "norm_put_nothing",
    }

    /// How a thread stores two adjacent elements.
    "STORE_TWO" => NormStoreTwo {
        Pair = "norm_store_pair",
        Each = "norm_store_each",
    }

    /// Converts a target to 64 bits.
    "WIDEN" => LossTarget {
        I64 = "loss_wide",
        I32 = "loss_wide_from_int",
    }

    // ---- Rows that are kept in registers

    /// Whether a row is skipped.
    "SKIPS" => RowSkips {
        Nothing = "skip_nothing",
        LossUpdate = "loss_update_skips",
    }

    /// The sum of `x - shift` of a row, if the loss needs it.
    "SHIFTED_SUM" => RowShiftedSum {
        Nothing = "no_shifted_sum",
        Loss = "loss_shifted_sum_of_row",
    }

    /// Whether a row's values are finite.
    "IS_FINITE" => RowIsFinite {
        Loss = "loss_is_finite",
    }

    /// The function that writes the result of a row whose elements are not written.
    "RESULT" => RowResult {
        Loss = "loss_finish",
    }

    /// The terms of a row's sum for a vec4 of its elements.
    "TERM" => RowTerms {
        SoftmaxGrad = "softmax_grad_terms",
        LogSoftmaxGrad = "log_softmax_grad_terms",
        Norm = "norm_terms",
        NormSquares = "norm_square_terms",
    }

    /// The accumulator of a row's sums.
    "ACCUMULATOR" => RowAccumulator {
        SoftmaxGrad = "softmax_grad_sum",
        LayerNorm = "norm_layer_moments",
        RmsNorm = "norm_rms_moments",
    }

    /// Computes a vec4 of y.
    "VALUES" => RowValues {
        Softmax = "softmax_values",
        SoftmaxKept = "softmax_kept_values",
        LogSoftmax = "log_softmax_values",
        SoftmaxGrad = "softmax_grad_values",
        LogSoftmaxGrad = "log_softmax_grad_values",
        Norm = "norm_values",
        LossGrad = "loss_grad_values",
    }

    /// How a vec4 of y is stored: whole, or only its elements that belong to the row.
    "PUT" => PutVec4 {
        Whole = "put_vec4",
        Within = "put_vec4_within",
    }

    /// Converts words to a vec4 of numbers.
    "VEC4_OF" => Vec4OfWords {
        F32 = "vec4_of_f32",
        F16 = "vec4_of_f16",
        BF16 = "vec4_of_bf16",
    }

    /// Converts a vec4 of numbers, or a single number, to words.
    "WORDS_OF" => WordsOfVec4 {
        F32 = "words_of_f32",
        F16 = "words_of_f16",
        BF16 = "words_of_bf16",
        OneBF16 = "words_of_number_bf16",
    }

    /// The padding of a row: negative infinity or 0.
    "PADDING" => RowPadding {
        LowestF32 = "vec4<u32>(0xff800000u)",
        LowestF16 = "vec2<u32>(0xfc00fc00u)",
        LowestBF16 = "vec2<u32>(0xff80ff80u)",
        ZeroF32 = "vec4<u32>()",
        ZeroHalf = "vec2<u32>()",
    }

    /// Packs the bits of four elements into the words of a vec4.
    "JOINED" => JoinedWords {
        F32 = "joined_words",
        Half = "joined_half",
    }

    /// Hides words from the optimizer, so that it keeps them packed in registers.
    "HIDDEN" => HiddenWords {
        F32 = "hidden_words",
        Half = "hidden_half",
    }

    /// Computes the exponentials of a vec4.
    "EXPONENTIALS" => Exponentials {
        F32 = "exponentials_of_f32",
        Half = "exponentials_of_half",
    }

    /// Computes the softmax of a vec4.
    "SOFTMAX" => SoftmaxVec4 {
        F32 = "softmax_of_f32",
        Half = "softmax_of_half",
    }

    /// Computes the exponentials of a vec4 of numbers of any magnitude.
    "EXPONENTIALS_OF_ANY" => ExponentialsOfAny {
        F32 = "exponentials_of_any",
        Half = "exponentials_of_any_half",
    }

    /// Computes the maximum over a team of threads.
    "TEAM_MAX" => TeamMax {
        Subgroups = "team_max_of_subgroups",
        Memory = "team_max_in_memory",
    }

    /// Computes the sum over a team of threads.
    "TEAM_SUM" => TeamSum {
        Subgroups = "team_sum_of_subgroups",
        Memory = "team_sum_in_memory",
    }

    /// Computes two sums over a team of threads.
    "TEAM_SUMS" => TeamSums {
        Subgroups = "team_sums_of_subgroups",
        Memory = "team_sums_in_memory",
    }

    // ---- Products

    /// The function that computes a tile of a product, or adds its partial sums.
    "TILE" => Tile {
        Tile128 = "tile_128",
        Tile64 = "tile_64",
        Tile16 = "tile_16",
        Vec4Tile128 = "tile_vec4_128",
        FewRows = "tile_few_rows",
        SumParts = "sum_parts",
        SumPaddedParts = "sum_padded_parts",
    }

    /// Whether neighbors along the inner axis are contiguous in the left operand.
    "LEFT_K_MAJOR" => LeftKMajor {
        Yes = "true",
        No = "false",
        AsParameters = "(params.left_layout != 0u)",
    }

    /// Whether neighbors along the inner axis are contiguous in the right operand.
    "RIGHT_K_MAJOR" => RightKMajor {
        Yes = "true",
        No = "false",
        AsParameters = "(params.right_layout != 0u)",
    }

    /// Reads a vec4 of the left operand.
    "LEFT_VEC4" => LeftVec4 {
        A = "a_vec4",
        Left = "left_vec4",
    }

    /// Reads a vec4 of the right operand.
    "RIGHT_VEC4" => RightVec4 {
        B = "b_vec4",
        Right = "right_vec4",
    }

    /// Reads ahead what the factor of the next inner indices of the left operand is computed from.
    "LEFT_PREFETCH" => LeftPrefetch {
        Nothing = "no_prefetch",
        MaxOfPart = "max_of_part",
    }

    /// The factor of a range of inner indices of the left operand.
    "LEFT_FACTOR" => LeftFactor {
        None = "no_factor",
        FactorOfPart = "factor_of_part",
    }

    /// How a cooperative matrix of the left operand is loaded.
    "LOAD_LEFT" => LoadLeft {
        ByRows = "coopLoadT",
        ByColumns = "coopLoad",
    }

    /// How a cooperative matrix of the right operand is loaded.
    "LOAD_RIGHT" => LoadRight {
        ByRows = "coopLoadT",
        ByColumns = "coopLoad",
    }

    /// The number type, in shaders where `C` is the role of a matrix.
    "C" => CooperativeNumber {
        F32 = "f32",
    }

    /// The role of an accumulator matrix.
    "SUM" => CooperativeSum {
        C = "C",
    }

    /// Whether a convolution writes its output or a partial sum.
    "OUTPUT" => ConvOutput {
        Whole = "index_of_whole",
        Part = "index_of_part",
    }

    /// Returns the pixel from which a column of the right operand of a convolution is read.
    "ELEMENT_INDEX" => ConvIndex {
        Patch = "patch_index",
        Spread = "spread_index",
    }

    /// Reads an element of the right operand of a convolution.
    "RIGHT" => ConvValue {
        Patch = "patch_value",
        Spread = "spread_value",
    }

    /// Computes the image pixel of an element of the right operand of a convolution.
    "PIXEL" => ConvPixel {
        Patch = "patch_pixel",
        Spread = "spread_pixel",
    }

    // ---- Attention

    /// Reads elements of the left operand of scores.
    "LEFT" => LeftElement {
        Query = "query_element",
        Key = "key_element",
    }

    /// Reads elements of the right operand of scores.
    "RIGHT" => RightElement {
        Query = "query_element",
        Key = "key_element",
    }

    /// Reads elements of the matrix by which weights are multiplied.
    "MATRIX" => MatrixElement {
        Value = "value_element",
        Key = "key_matrix",
        Query = "query_matrix",
    }

    /// Returns the index of the first vec4 of a row of the left operand of scores.
    "LEFT_ROW" => LeftRow {
        Query = "query_row",
        Key = "key_row",
    }

    /// Reads a vec4 of the left operand of scores, as words.
    "LEFT_WORDS" => LeftWords {
        Query = "query_words",
        Key = "key_words",
    }

    /// Returns the index of the first vec4 of a row of the right operand of scores.
    "RIGHT_ROW" => RightRow {
        Query = "query_row",
        Key = "key_row",
    }

    /// Reads a vec4 of the right operand of scores, as words.
    "RIGHT_WORDS" => RightWords {
        Query = "query_words",
        Key = "key_words",
    }

    /// Returns the index of a vec4 of the matrix by which weights are multiplied.
    "MATRIX_INDEX" => MatrixIndex {
        Value = "value_index",
        Key = "key_index",
        Query = "query_index",
    }

    /// Reads a vec4 of the matrix by which weights are multiplied, as words.
    "MATRIX_WORDS" => MatrixWords {
        Value = "value_words",
        Key = "key_words",
        Query = "query_words",
    }

    /// How a mask changes a score.
    "APPLY_MASK" => MaskMode {
        None = "no_mask",
        Bool = "apply_bool_mask",
        Additive = "apply_additive_mask",
    }

    /// Stores the rounding error of the log-sum-exp, if the mask is additive.
    "STORE_LSE_ERROR" => StoreLseError {
        None = "skip_lse_error",
        Error = "lse_error_put",
    }

    /// Stores an element of dv (`other`), if the launch computes dv.
    "STORE_OTHER" => StoreOther {
        Out = "out_put",
        Other = "other_put",
    }

    /// Stores two elements of dv, if the launch computes dv.
    "STORE_OTHER_PAIR" => StoreOtherPair {
        Out = "out_put_pair",
        Other = "other_put_pair",
    }

    /// Stores a vec4 of dv, if the launch computes dv.
    "STORE_OTHER_VEC4" => StoreOtherVec4 {
        Out = "out_put_vec4",
        Other = "other_put_vec4",
    }

    /// A step of unfused attention, which consists of matrix products.
    "STEP" => AttentionStep {
        Weights = "tile_of_weights",
        Probabilities = "tile_of_probabilities",
        ScoreGrads = "tile_of_score_grads",
        Output = "tile_of_output",
        KeyOutput = "tile_of_key_output",
        AddParts = "add_parts",
    }

    /// Computes the factors by which the parts of a row's weights are rescaled.
    "FIND_FACTORS" => FindFactors {
        OfParts = "find_factors",
        None = "skip_factors",
    }

    /// Returns the elements of an output to store: those of fully masked rows are set to 0, if
    /// there may be such rows.
    "OUTPUT" => AttentionOutput {
        UnmaskedRows = "unmasked_rows",
        AllRows = "all_rows",
    }

    /// The packed left operand of scores.
    "LEFT" => PackedLeft {
        Q = "packed_q",
        K = "packed_k",
    }

    /// The packed right operand of scores.
    "RIGHT_F16" => PackedRight {
        Q = "packed_q_f16",
        K = "packed_k_f16",
    }

    /// The packed left operand of the gradients of scores.
    "GRAD_LEFT" => PackedGradLeft {
        V = "packed_v",
        Dy = "packed_dy",
    }

    /// The packed right operand of the gradients of scores.
    "GRAD_RIGHT_F16" => PackedGradRight {
        V = "packed_v_f16",
        Dy = "packed_dy_f16",
    }
}

/// Declares the numbers that are substituted in templates.
macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $wgsl:literal,)+ })+) => {
        $(names! {
            $(#[$doc])*
            $name { $($variant = $wgsl,)+ }
        })+

        const CONSTANTS: &[&str] = &[$($($wgsl,)+)+];
    };
}

constants! {
    /// A number in a template, which describes it. Numbers that are 0 or 1 are repeat counts of
    /// conditional lines.
    Constant {
        Batch = "BATCH",
        ByKeys = "BY_KEYS",
        ByQueries = "BY_QUERIES",
        Depths = "DEPTHS",
        Elements = "ELEMENTS",
        Vec4s = "VEC4S",
        Vec4sAcross = "VEC4S_ACROSS",
        Vec4Columns = "VEC4S_COLUMNS",
        Gradient = "GRADIENT",
        PerThread = "PER_THREAD",
        Keep = "KEEP",
        LeftAcross = "LEFT_ACROSS",
        LeftStride = "LEFT_STRIDE",
        LeftUnit = "LEFT_UNIT",
        Leftover = "LEFTOVER",
        Lines = "LINES",
        Loads = "LOADS",
        Long = "LONG",
        MatrixAt = "MATRIX_AT",
        Members = "MEMBERS",
        OperandsAt = "OPERANDS_AT",
        OperandsStride = "OPERANDS_STRIDE",
        Packs = "PACKS",
        Ranges = "RANGES",
        Rank = "RANK",
        RightAcross = "RIGHT_ACROSS",
        RightStride = "RIGHT_STRIDE",
        RightUnit = "RIGHT_UNIT",
        Rows = "ROWS",
        Vec4Mask = "VEC4_MASK",
        ScoreVec4s = "SCORE_VEC4S",
        ScoreGrads = "SCORE_GRADS",
        Squares = "SQUARES",
        States = "STATES",
        NonFinite = "NONFINITE",
        Stride = "STRIDE",
        Subgroup = "SUBGROUP",
        Sums = "SUMS",
        TeamMemory = "TEAM_MEMORY",
        Tensors = "TENSORS",
        Threads = "THREADS",
        TileVec4s = "TILE_VEC4S",
        TileMemory = "TILE_MEMORY",
        WeightVec4s = "WEIGHT_VEC4S",
        Weights = "WEIGHTS",
        WithD = "WITH_D",
    }

    /// A bool in a template.
    Switch {
        ByKeys = "BY_KEYS",
        Dense = "DENSE",
        Edges = "EDGES",
        Exact = "EXACT",
        HasMask = "HAS_MASK",
        LeftScaled = "LEFT_SCALED",
        Plain = "PLAIN",
        Wide = "WIDE",
    }
}

names! {
    /// The name of a tensor in shaders.
    SlotName {
        A = "a",
        B = "b",
        Bias = "bias",
        C = "c",
        Counts = "counts",
        D = "d",
        DBias = "dbias",
        DParameters = "dparameters",
        DWeight = "dweight",
        Dy = "dy",
        Edges = "edges",
        IndexErrors = "index_errors",
        FirstState = "first_state",
        SavedDLoss = "saved_dloss",
        G = "g",
        Index = "index",
        K = "k",
        Keys = "keys",
        Left = "left",
        LogSum = "log_sum",
        LogSumExp = "lse",
        LogSumExpError = "lse_error",
        LseAndDelta = "lse_and_delta",
        Loss = "loss",
        Mask = "mask",
        Mean = "mean",
        Numbers = "numbers",
        Other = "other",
        Out = "out",
        PackedDy = "packed_dy",
        PackedK = "packed_k",
        PackedQ = "packed_q",
        PackedV = "packed_v",
        Part0 = "part_0",
        Part1 = "part_1",
        Part2 = "part_2",
        Part3 = "part_3",
        Part4 = "part_4",
        Part5 = "part_5",
        Part6 = "part_6",
        Parts = "parts",
        Positions = "positions",
        Q = "q",
        Ranges = "ranges",
        Reciprocal = "reciprocal",
        Records = "records",
        Residual = "residual",
        Right = "right",
        SecondState = "second_state",
        SortedKeys = "sorted_keys",
        SortedNumbers = "sorted_numbers",
        Source = "source",
        State = "state",
        StepG0 = "g_0",
        StepG1 = "g_1",
        StepG2 = "g_2",
        StepG3 = "g_3",
        StepState00 = "state_0_0",
        StepState01 = "state_0_1",
        StepState02 = "state_0_2",
        StepState03 = "state_0_3",
        StepState10 = "state_1_0",
        StepState11 = "state_1_1",
        StepState12 = "state_1_2",
        StepState13 = "state_1_3",
        StepY0 = "y_0",
        StepY1 = "y_1",
        StepY2 = "y_2",
        StepY3 = "y_3",
        OutOfWindow = "out_of_window",
        Teams = "teams",
        V = "v",
        Values = "values",
        Targets = "targets",
        Weight = "weight",
        Weights = "weights",
        Winners = "winners",
        X = "x",
        Y = "y",
    }
}

/// A function of the numbers of a class, or a cast from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// No function; the placeholder is not referenced.
    None,
    /// The identity, for an absent activation.
    Unchanged,
    Unary(UnaryFunction),
    /// A version for results that are rounded to 16 bits.
    UnaryHalf(UnaryFunction),
    UnaryGrad(UnaryFunction),
    UnaryGradHalf(UnaryFunction),
    Binary(BinaryOp),
    Compare(CompareOp),
    Cast(Cast),
}

impl Function {
    /// Returns the function of a unary op. `half`: the result is rounded to half precision.
    pub(crate) fn unary(op: UnaryOp, half: bool) -> Function {
        let function = UnaryFunction(op);
        if half { Function::UnaryHalf(function) } else { Function::Unary(function) }
    }

    /// Returns the gradient of the function of a unary op. `half`: the result is rounded to half
    /// precision.
    pub(crate) fn unary_grad(op: UnaryOp, half: bool) -> Function {
        let function = UnaryFunction(op);
        if half { Function::UnaryGradHalf(function) } else { Function::UnaryGrad(function) }
    }

    pub(crate) fn binary(op: BinaryOp) -> Function {
        Function::Binary(op)
    }

    pub(crate) fn compare(op: CompareOp) -> Function {
        Function::Compare(op)
    }

    fn wgsl(self) -> String {
        match self {
            Function::None => String::new(),
            Function::Unchanged => "unchanged".into(),
            Function::Unary(function) => format!("unary_{}", function.0.name()),
            Function::UnaryHalf(function) => format!("unary_half_{}", function.0.name()),
            Function::UnaryGrad(function) => format!("grad_{}", function.0.name()),
            Function::UnaryGradHalf(function) => format!("grad_half_{}", function.0.name()),
            Function::Binary(op) => format!("binary_{}", op.name()),
            Function::Compare(op) => format!("compare_{}", op.name()),
            Function::Cast(cast) => cast.wgsl().into(),
        }
    }
}

impl From<Function> for Fill {
    #[inline]
    fn from(function: Function) -> Fill {
        Fill::Function(function)
    }
}

names! {
    /// A cast from the numbers of a class to a dtype.
    Cast {
        F32ToF16 = "cast_f32_f16",
        F32ToBF16 = "cast_f32_bf16",
        F32ToI32 = "cast_f32_i32",
        F32ToI64 = "cast_f32_i64",
        F32ToI16 = "cast_f32_i16",
        F32ToI8 = "cast_f32_i8",
        F32ToU64 = "cast_f32_u64",
        F32ToU32 = "cast_f32_u32",
        F32ToU16 = "cast_f32_u16",
        F32ToU8 = "cast_f32_u8",
        F32ToBool = "cast_f32_bool",
        I32ToF32 = "cast_i32_f32",
        I32ToF16 = "cast_i32_f16",
        I32ToBF16 = "cast_i32_bf16",
        I32ToI64 = "cast_i32_i64",
        I32ToU32 = "cast_i32_u32",
        I32ToU8 = "cast_i32_u8",
        I32ToBool = "cast_i32_bool",
        I64ToF32 = "cast_i64_f32",
        I64ToF16 = "cast_i64_f16",
        I64ToBF16 = "cast_i64_bf16",
        I64ToI32 = "cast_i64_i32",
        I64ToU32 = "cast_i64_u32",
        I64ToU8 = "cast_i64_u8",
        I64ToBool = "cast_i64_bool",
        U64ToF32 = "cast_u64_f32",
        U64ToF16 = "cast_u64_f16",
        U64ToBF16 = "cast_u64_bf16",
        U32ToF32 = "cast_u32_f32",
        U32ToF16 = "cast_u32_f16",
        U32ToBF16 = "cast_u32_bf16",
        U32ToU8 = "cast_u32_u8",
        U8ToF32 = "cast_u8_f32",
        U8ToF16 = "cast_u8_f16",
        U8ToBF16 = "cast_u8_bf16",
        U8ToI32 = "cast_u8_i32",
        U8ToI64 = "cast_u8_i64",
        U8ToBool = "cast_u8_bool",
    }
}
