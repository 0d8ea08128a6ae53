//! The source of a variant: its root file in `kernels/`, its macros, and the names of its kernels.
//!
//! The macros are generated here from the types of `variant`; no code parses them.

mod attention;
mod attention_ladder;
mod elementwise;
mod gemm;
mod ladder;
mod rows;

use crate::files::Program;
use crate::variant::index::IndexVariant;
use crate::variant::reduction::ReductionVariant;
use crate::variant::step::{StepVariant, UpdateRule};
use crate::variant::{KernelFamily, Variant};
use ternion_core::DType;
use ternion_core::ops::reduce::ReduceOp;

/// The input of the compiler for a variant.
pub struct Source {
    /// The name in messages: the file and what distinguishes the variant from other variants of
    /// that file.
    pub name: String,
    /// Macros and their values.
    pub defines: Vec<(&'static str, String)>,
    /// The names of its kernels.
    pub kernels: &'static [&'static str],
    /// Its root file in `kernels/`, which includes the other files.
    pub file: &'static str,
    /// Whether a type of the variant is declared in `lib/narrow.cuh`. Changes of that file do not
    /// affect the code of other variants.
    has_narrow_integers: bool,
    /// As [`Variant::is_dependent`].
    is_dependent: bool,
    /// Whether the kernels let the next one begin before they end
    /// (`griddepcontrol.launch_dependents`).
    triggers: bool,
    /// Whether threads pause for random times where they wait for each other.
    has_delays: bool,
}

impl Source {
    fn new(file: &'static str, kernels: &'static [&'static str]) -> Source {
        Source {
            name: String::new(),
            defines: Vec::new(),
            kernels,
            file,
            has_narrow_integers: false,
            is_dependent: false,
            triggers: false,
            has_delays: false,
        }
    }

    /// Adds a macro.
    fn define(mut self, name: &'static str, value: impl ToString) -> Source {
        self.defines.push((name, value.to_string()));
        self
    }

    /// Adds macros whose values are integers.
    fn define_all<const N: usize>(self, macros: [(&'static str, usize); N]) -> Source {
        macros.into_iter().fold(self, |source, (name, value)| source.define(name, value))
    }

    /// Adds a macro whose value is an element type.
    fn define_type(mut self, name: &'static str, dtype: DType) -> Source {
        self.has_narrow_integers |=
            matches!(dtype, DType::I16 | DType::I8 | DType::U64 | DType::U32 | DType::U16);
        self.define(name, element(dtype))
    }

    /// Adds the element type, and whether it is a floating type.
    fn elements_of(self, dtype: DType) -> Source {
        let source = self.define_type("TYPE", dtype);
        if dtype.is_float() { source.define("REAL_NUMBERS", 1) } else { source }
    }

    /// Adds the unsigned integer type that has the size of `dtype`.
    fn bits_of(self, dtype: DType) -> Source {
        self.define("TYPE", bits(dtype))
    }

    fn named(mut self, description: &str) -> Source {
        self.name = format!("{} ({description})", self.file);
        self
    }

    /// Sets a name that lists all macros: `ops/softmax.cu (TYPE float, PACK 4)`.
    fn named_by_defines(self) -> Source {
        let describe = |(name, value): &(&'static str, String)| format!("{name} {value}");
        let description: Vec<String> = self.defines.iter().map(describe).collect();
        self.named(&description.join(", "))
    }

    /// Returns the program for the compiler.
    pub fn program(&self) -> Program {
        let narrow = self.has_narrow_integers.then_some(("NARROW_INTEGERS", "1"));
        let dependent = self.is_dependent.then_some(("DEPENDENT", "1"));
        let triggers = self.triggers.then_some(("TRIGGERS", "1"));
        let delays = self.has_delays.then_some(("DELAYS", "1"));
        let macros = self.defines.iter().map(|(name, value)| (*name, value.as_str()));
        let roots = self.has_delays.then_some(DELAYED_BARRIERS).into_iter().chain([self.file]);
        let macros = macros.chain(narrow).chain(dependent).chain(triggers).chain(delays);
        Program::new(&roots.collect::<Vec<_>>(), macros)
    }
}

/// The file with which the barriers of a block and of a warp first pause for a random time.
const DELAYED_BARRIERS: &str = "ptx/delayed_barriers.cuh";

/// The macro of the element type.
const TYPE: &str = "TYPE";

/// Returns the element type of `dtype` in the kernels.
fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "double",
        DType::F32 => "float",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::I64 => "i64",
        DType::I32 => "i32",
        DType::I16 => "i16",
        DType::I8 => "i8",
        DType::U64 => "u64",
        DType::U32 => "u32",
        DType::U16 => "u16",
        DType::U8 => "u8",
        DType::Bool => "Bool",
    }
}

/// Returns the unsigned integer type with the size of `dtype`.
fn bits(dtype: DType) -> &'static str {
    match dtype.size() {
        8 => "u64",
        4 => "u32",
        2 => "u16",
        _ => "u8",
    }
}

/// Options that change how kernels are compiled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompileConfig {
    /// Whether the kernels of variants that [may do so](Variant::may_trigger) let the next one
    /// begin early.
    pub(crate) triggers: bool,
    /// Whether threads pause for random times where they wait for each other.
    pub(crate) has_delays: bool,
}

impl Variant {
    /// Returns the source that this variant is compiled from.
    pub fn source(&self) -> Source {
        Source { is_dependent: self.is_dependent(), ..self.source_of_family() }
    }

    /// As `source`, with threads that pause for random times where they wait for each other, as
    /// with `TERNION_CUDA_DELAYS=1`.
    pub fn source_with_delays(&self) -> Source {
        self.source_as(CompileConfig { has_delays: true, ..CompileConfig::default() })
    }

    /// As `source`, with these options.
    pub(crate) fn source_as(&self, config: CompileConfig) -> Source {
        Source {
            triggers: config.triggers && self.may_trigger(),
            has_delays: config.has_delays,
            ..self.source()
        }
    }

    fn source_of_family(&self) -> Source {
        let source = match self.0 {
            KernelFamily::Elementwise(variant) => return elementwise::source(variant),
            KernelFamily::Attention(variant) => return attention::source(variant),
            KernelFamily::AttentionLadder(variant) => return attention_ladder::source(variant),
            KernelFamily::Gemm(variant) => return gemm::source(variant),
            KernelFamily::Ladder(variant) => return ladder::source(variant),
            KernelFamily::Softmax(variant) => rows::softmax(variant),
            KernelFamily::Norm(variant) => rows::norm(variant),
            KernelFamily::BatchNorm(variant) => rows::batch_norm(variant),
            KernelFamily::Loss(variant) => rows::loss(variant),
            KernelFamily::Reduction(variant) => reduction(variant),
            KernelFamily::Index(variant) => index(variant),
            KernelFamily::Step(variant) => step(variant),
            KernelFamily::Transpose(size) => {
                Source::new("ops/copy.cu", &["tiles", "tiles_packed"]).bits_of(size)
            }
            KernelFamily::Assemble(size) => {
                Source::new("ops/assemble.cu", &["pad", "pad_line", "concat", "concat_packed"]).bits_of(size)
            }
            KernelFamily::Iota(dtype) => Source::new("ops/create.cu", &["iota"]).elements_of(dtype),
            KernelFamily::RandomBits => {
                Source::new("ops/random.cu", &["bits"]).define_type(TYPE, DType::I32).define("BITS", 1)
            }
            KernelFamily::Random(dtype) => {
                Source::new("ops/random.cu", &["uniform", "normal", "dropout", "dropout_line"])
                    .elements_of(dtype)
            }
            KernelFamily::Pool(dtype) => Source::new("ops/pool.cu", POOL).elements_of(dtype),
            KernelFamily::Patches(dtype) => {
                Source::new("conv/im2col.cu", &["im2col", "im2col_line", "col2im", "col2im_line"])
                    .elements_of(dtype)
            }
            KernelFamily::MultiTensorNorm(dtype) => {
                Source::new("ops/multi_tensor.cu", &["squares", "root_of_sum"]).elements_of(dtype)
            }
            KernelFamily::SplitBf16x3 => Source::new("gemm/split_bf16x3.cu", &["split"]),
            KernelFamily::Probe => Source::new("probe/launch.cu", PROBE),
        };
        source.named_by_defines()
    }
}

const POOL: &[&str] = &[
    "max_pool",
    "max_pool_2x2",
    "max_pool_3x3",
    "avg_pool",
    "avg_pool_2x2",
    "avg_pool_3x3",
    "max_pool_grad",
    "max_pool_grad_strays",
    "avg_pool_grad",
];

const PROBE: &[&str] = &["probe_tensor_map", "probe_cluster", "probe_dependent_launch"];

fn reduction(variant: ReductionVariant) -> Source {
    match variant {
        ReductionVariant::CumulativeSum(dtype) => {
            Source::new("ops/cumulative.cu", &["scan", "scan_serial"]).elements_of(dtype)
        }
        ReductionVariant::Reduce { op, dtype, output } => {
            let kernels = &["rows", "rows_in_parts", "warps", "columns", "columns_packed"];
            let source = Source::new("ops/reduce.cu", kernels)
                .elements_of(dtype)
                .define_type("TYPE_Y", output)
                .define("REDUCER", reducer(op));
            if matches!(dtype, DType::I16 | DType::U16) {
                source.define("ROWS_LAUNCH_BOUNDS", "THREADS, 1")
            } else {
                source
            }
        }
    }
}

/// Returns the type of a reducer in the kernels.
fn reducer(op: ReduceOp) -> &'static str {
    match op {
        ReduceOp::Sum => "Sum",
        ReduceOp::Prod => "Prod",
        ReduceOp::Max => "Max",
        ReduceOp::Min => "Min",
        ReduceOp::ArgMax => "ArgMax",
        ReduceOp::ArgMin => "ArgMin",
        ReduceOp::Mean => "Mean",
        ReduceOp::SumSquares => "SumSquares",
        ReduceOp::MaxAbs => "MaxAbs",
        ReduceOp::Norm => "Norm",
        ReduceOp::LogSumExp => "LogSumExp",
    }
}

fn index(variant: IndexVariant) -> Source {
    match variant {
        IndexVariant::Gather { bits, index } => {
            Source::new("ops/index.cu", &["gather", "gather_rows", "scatter_keys"])
                .bits_of(bits)
                .define_type("INDEX", index)
        }
        IndexVariant::ScatterSet(size) => Source::new("ops/scatter.cu", &["scatter"]).bits_of(size),
        IndexVariant::ScatterAdd(dtype) => {
            Source::new("ops/scatter.cu", &["scatter", "add_rows", "add_rows_packed"])
                .elements_of(dtype)
                .define("SCATTER_ADD", 1)
        }
        IndexVariant::Sort(dtype) => {
            Source::new("ops/sort.cu", &["block", "make_keys", "count", "offsets", "scatter_sorted", "take"])
                .elements_of(dtype)
        }
        IndexVariant::SortKeys => {
            Source::new("ops/sort.cu", &["count", "offsets", "scatter_sorted"]).define(TYPE, "u32")
        }
    }
}

fn step(variant: StepVariant) -> Source {
    let rule = match variant.rule {
        UpdateRule::Sgd => "Sgd",
        UpdateRule::SgdMomentum => "SgdMomentum",
        UpdateRule::Adam => "Adam",
    };
    let source = Source::new("ops/step.cu", &["step"])
        .elements_of(variant.dtype)
        .define("STEP", rule)
        .define("MAX_TENSORS", variant.capacity.tensors());
    match variant.half_copy {
        Some(half) => source.define_type("HALF_COPY", half),
        None => source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::{study_variants, variants};

    /// Kernels that initialize barriers in shared memory and prefetch tensor maps before they wait,
    /// and the one that lets the next kernel begin.
    const WAIT_LATER: [(&str, &str); 6] = [
        ("gemm/wgmma.cu", "product"),
        ("gemm/wgmma_split_k.cu", "product"),
        ("attention/grad_by_keys.cu", "attention_grad_by_keys"),
        ("attention/grad_by_keys_wide.cu", "attention_grad_by_keys"),
        ("attention/forward_tma.cu", "attention_tma"),
        ("probe/launch.cu", "probe_dependent_launch"),
    ];

    /// Returns the source of a kernel's body.
    fn body<'a>(program: &Program, kernel: &str) -> Option<&'a str> {
        let head = format!(" {kernel}(const __grid_constant__ ");
        let parameters = program.headers.iter().find_map(|&(_, text)| Some(text.split_once(&head)?.1))?;
        parameters.split_once(") {")?.1.split_once("\n}\n").map(|(body, _)| body)
    }

    /// Checks in the source that kernels that may begin early first wait; `cargo xtask kernels`
    /// checks the machine code.
    #[test]
    fn kernels_of_dependent_launches_wait_first() {
        const WAIT: &str = "wait_for_earlier_launches();";
        let mut waiting = std::collections::BTreeSet::new();
        for variant in variants().into_iter().chain(study_variants()) {
            let (source, is_dependent) = (variant.source(), variant.is_dependent());
            let program = source.program();
            assert_eq!(program.source.contains("#define DEPENDENT 1\n"), is_dependent, "{}", source.name);
            let config = CompileConfig { triggers: true, has_delays: true };
            let text = variant.source_as(config).program().source;
            assert_eq!(text.contains("#define TRIGGERS 1\n"), variant.may_trigger(), "{}", source.name);
            assert!(
                text.contains("#define DELAYS 1\n") && !program.source.contains("DELAYS"),
                "{}",
                source.name
            );
            assert!(
                text.contains("#include \"ptx/delayed_barriers.cuh\"\n") && !program.source.contains("delay"),
                "{}",
                source.name
            );
            for kernel in source.kernels.iter().filter(|_| is_dependent) {
                let name = format!("{}: {kernel}", source.file);
                let body = body(&program, kernel).unwrap_or_else(|| panic!("no text of {name}"));
                let waits = match WAIT_LATER.contains(&(source.file, *kernel)) {
                    true => body.contains(WAIT),
                    false => body.trim_start().starts_with(WAIT),
                };
                assert!(waits, "{name} does not begin by {WAIT}");
                waiting.insert(name);
            }
        }
        assert!(waiting.len() > 80, "{} kernels wait: {waiting:?}", waiting.len());
    }
}
