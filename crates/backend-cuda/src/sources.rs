//! What is compiled: for each op and dtype the files, the macros and the names of the kernels that come out.

use crate::files::Program;
use crate::ops;
use crate::ops::softmax::Tile;
use crate::rows::{Hold, Packing, Rows, Team};
use ternion_core::ops::binary::BinaryOp;
use ternion_core::{DType, UnaryOp};

mod products;

pub(crate) use products::{attention_name, matmul_name};
use products::{attention_units, matmul_units};

/// One thing to compile: kernels of a family for an op and its dtypes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Unit {
    pub(crate) family: Family,
    /// The op within the family, or "".
    pub(crate) name: &'static str,
    /// Element types; those that a family does not have are like the first.
    pub(crate) types: [DType; 3],
}

/// What the kernels of a unit have in common: their file and the meaning of a unit's name and types.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Family {
    /// types: x.
    Unary,
    /// types: x.
    UnaryGrad,
    /// types: a, b, y.
    Binary,
    MultiplyAdd,
    ScaleAdd,
    AddRelu,
    BiasActivation,
    /// types: a.
    Compare,
    /// types: bits of b and c.
    Select,
    /// types: from, to.
    Cast,
    /// types: bits.
    Move,
    /// types: bits.
    Transpose,
    Iota,
    RandomBits,
    Random,
    /// types: x.
    Reduce,
    Cumulative,
    /// name: softmax or log_softmax; types: x.
    Softmax(Rows),
    /// As [`Family::Softmax`], a row in several blocks.
    SoftmaxStretches(Rows),
    /// As [`Family::Softmax`], along an axis that is not the last.
    SoftmaxColumns(Tile),
    /// name: layer or rms; types: x.
    Norm(Rows),
    NormGrad(Rows),
    NormSums,
    /// name: plain or smoothed; types: logits.
    CrossEntropy(Rows),
    CrossEntropyGrad(Rows),
    CrossEntropyWithGrad(Rows),
    CrossEntropyGradUpdate(Rows),
    /// Elements of a pack.
    BatchNorm(usize),
    /// types: bits, index.
    Gather,
    /// types: bits.
    ScatterSet,
    ScatterAdd,
    Sort,
    /// Sorting of (key, number) pairs.
    SortKeys,
    /// name: the policy; types: of the parameter.
    Step,
    /// The same with room for many tensors.
    StepMany,
    /// name: see [`attention_name`]; types: of the operands.
    Attention,
    AttentionGrad,
    AttentionGradRows,
    /// name: see [`matmul_name`]; types: of the operands, of y.
    Matmul,
    Pool,
    /// im2col and col2im.
    Patches,
    /// types: bits.
    Assemble,
}

/// The text of a unit.
pub struct Source {
    /// What messages call it: file and op and types.
    pub name: String,
    /// Macros and their values.
    pub defines: Vec<(&'static str, String)>,
    /// The kernels in it.
    pub kernels: &'static [&'static str],
    /// The root among the files of `kernels/`, which includes the others.
    pub file: &'static str,
}

impl Source {
    /// With a name that tells it from others of the same file: `softmax.cu (float, PACK 4)`.
    fn named_by_defines(self) -> Source {
        let told: Vec<String> = (self.defines.iter())
            .map(|(name, value)| if *name == "TYPE" { value.clone() } else { format!("{name} {value}") })
            .collect();
        Source { name: format!("{} ({})", self.file, told.join(", ")), ..self }
    }

    /// Whether any type is i16 or i8. The other units stay as they are compiled whatever becomes of those two.
    fn has_narrow_integers(&self) -> bool {
        let narrow = [DType::I16, DType::I8].map(element);
        self.defines.iter().any(|(_, value)| narrow.contains(&value.as_str()))
    }

    /// What the compiler gets.
    pub fn program(&self) -> Program {
        let narrow = self.has_narrow_integers().then_some(("NARROW_INTEGERS", "1"));
        let macros = self.defines.iter().map(|(name, value)| (*name, value.as_str()));
        Program::new(self.file, macros.chain(narrow))
    }
}

/// The element type of `dtype` in the kernels.
pub(crate) fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "double",
        DType::F32 => "float",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::I64 => "i64",
        DType::I32 => "i32",
        DType::I16 => "i16",
        DType::I8 => "i8",
        DType::U8 => "u8",
        DType::Bool => "Truth",
    }
}

/// A dtype that stands for all of its size, where only bits move.
#[inline]
pub(crate) fn bits_like(dtype: DType) -> DType {
    match dtype.size() {
        8 => DType::I64,
        4 => DType::I32,
        2 => DType::F16,
        _ => DType::U8,
    }
}

/// The type of bits that `dtype` stands for.
fn bits(dtype: DType) -> &'static str {
    match dtype.size() {
        8 => "u64",
        4 => "u32",
        2 => "u16",
        _ => "u8",
    }
}

/// Bytes of the widest access.
pub(crate) const ACCESS: usize = 16;

/// Elements of one access where the widest of these types fills it.
#[inline]
pub(crate) fn pack_of(dtypes: &[DType]) -> usize {
    ACCESS / dtypes.iter().map(|dtype| dtype.size()).max().unwrap_or(1)
}

/// The parts of an elementwise unit: which macro holds the expression, the expression, and the types of the inputs and the output.
struct Elementwise {
    expression: (&'static str, String),
    inputs: Vec<&'static str>,
    output: &'static str,
    pack: usize,
}

impl Unit {
    /// A unit of one type.
    #[inline]
    pub(crate) const fn of(family: Family, name: &'static str, dtype: DType) -> Unit {
        Unit { family, name, types: [dtype; 3] }
    }

    /// What the unit is compiled from.
    pub fn source(&self) -> Source {
        let [first, second, _] = self.types;
        match self.family {
            Family::Transpose => {
                self.plain("ops/copy.cu", &["tiles", "tiles_packed"], vec![("TYPE", bits(first).into())])
            }
            Family::Iota => self.plain("ops/create.cu", &["iota"], self.typed(first)),
            Family::RandomBits => {
                let defines = vec![("TYPE", "i32".to_string()), ("BITS", "1".to_string())];
                self.plain("ops/random.cu", &["bits"], defines)
            }
            Family::Random => self.plain(
                "ops/random.cu",
                &["uniform", "normal", "dropout", "dropout_line"],
                self.typed(first),
            ),
            Family::Reduce => {
                let mut defines = self.typed(first);
                let output = if self.name.starts_with("Arg") { DType::I32 } else { first };
                defines.extend([("TYPE_Y", element(output).to_string()), ("REDUCER", self.name.to_string())]);
                let kernels = &["rows", "rows_in_parts", "warps", "columns", "columns_packed"];
                let mut source = self.plain("ops/reduce.cu", kernels, defines);
                if first == DType::I16 {
                    source.defines.push(("BOUNDS_OF_ROWS", "THREADS, 1".to_string()));
                }
                source
            }
            Family::Cumulative => self.plain("ops/cumulative.cu", &["scan", "walk"], self.typed(first)),
            Family::Softmax(rows) => self.of_rows(
                rows,
                "ops/softmax.cu",
                &["softmax", "softmax_grad"],
                &[("LOG", self.is_log()), ("FORM", 0)],
            ),
            Family::SoftmaxStretches(rows) => self.of_rows(
                rows,
                "ops/softmax.cu",
                &["softmax_parts", "softmax_from_parts", "softmax_grad_parts", "softmax_grad_from_parts"],
                &[("LOG", self.is_log()), ("FORM", 1)],
            ),
            Family::SoftmaxColumns(Tile { pack, across }) => self.numbered(
                "ops/softmax.cu",
                &["softmax_columns", "softmax_grad_columns"],
                &[
                    ("LOG", self.is_log()),
                    ("FORM", 2),
                    ("PACK", pack),
                    ("MASKED", 0),
                    ("TEAM", 32),
                    ("HOLD", 0),
                    ("ACROSS", across),
                ],
            ),
            Family::Norm(rows) => {
                let own = [("FORM", 0), ("CENTRED", self.is_layer())];
                self.of_rows(rows, "ops/norm.cu", &["norm_rows"], &own)
            }
            Family::NormGrad(rows) => {
                let walks = usize::from(rows.team.hold == Hold::Registers);
                let centred = self.is_layer();
                let own = [
                    ("FORM", 1),
                    ("CENTRED", centred),
                    ("DWEIGHT", walks),
                    ("DBIAS", walks * centred),
                    ("TOGETHER", ops::norm::rows_together(&rows, first)),
                ];
                self.of_rows(rows, "ops/norm.cu", &["norm_rows_grad"], &own)
            }
            Family::NormSums => {
                let rows = Rows { packing: Packing::Single, team: Team::LONGEST };
                let kernels = &["norm_rows_parameter_grad", "column_sums"];
                self.of_rows(rows, "ops/norm.cu", kernels, &[("FORM", 2)])
            }
            Family::CrossEntropy(rows) => {
                let own = [("FORM", 0), ("SMOOTHED", usize::from(self.name == "smoothed"))];
                self.of_rows(rows, "ops/loss.cu", &["cross_entropy"], &own)
            }
            Family::CrossEntropyGrad(rows) => {
                self.of_rows(rows, "ops/loss.cu", &["cross_entropy_grad"], &[("FORM", 1)])
            }
            Family::CrossEntropyWithGrad(rows) => {
                let own = [("FORM", 2), ("SMOOTHED", usize::from(self.name == "smoothed"))];
                self.of_rows(rows, "ops/loss.cu", &["cross_entropy_with_grad"], &own)
            }
            Family::CrossEntropyGradUpdate(rows) => {
                self.of_rows(rows, "ops/loss.cu", &["cross_entropy_grad_update"], &[("FORM", 3)])
            }
            Family::BatchNorm(pack) => self.numbered(
                "ops/batch_norm.cu",
                &[
                    "channel_parts_of_planes",
                    "channel_parts_of_columns",
                    "channel_statistics",
                    "channel_gradients",
                    "batch_norm",
                    "batch_norm_grad",
                    "batch_norm_columns",
                    "batch_norm_grad_columns",
                ],
                &[("PACK", pack), ("MASKED", 0), ("TEAM", 32), ("HOLD", 0)],
            ),
            Family::Gather => {
                let defines = vec![("TYPE", bits(first).to_string()), ("INDEX", element(second).to_string())];
                self.plain("ops/index.cu", &["gather", "gather_rows", "scatter_keys"], defines)
            }
            Family::ScatterSet => {
                self.plain("ops/scatter.cu", &["scatter"], vec![("TYPE", bits(first).into())])
            }
            Family::ScatterAdd => {
                let mut defines = self.typed(first);
                defines.push(("ADDS", "1".into()));
                self.plain("ops/scatter.cu", &["scatter", "add_rows", "add_rows_packed"], defines)
            }
            Family::Sort => self.plain(
                "ops/sort.cu",
                &["block", "make_keys", "count", "offsets", "place", "take"],
                self.typed(first),
            ),
            Family::SortKeys => {
                self.plain("ops/sort.cu", &["count", "offsets", "place"], vec![("TYPE", "u32".to_string())])
            }
            Family::Step => self.step(ops::step::MOST),
            Family::StepMany => self.step(ops::step::MOST_MANY),
            Family::Attention | Family::AttentionGrad | Family::AttentionGradRows => self.attention(),
            Family::Matmul => self.matmul(),
            Family::Pool => self.plain(
                "ops/pool.cu",
                &[
                    "max_pool",
                    "max_pool_2x2",
                    "max_pool_3x3",
                    "avg_pool",
                    "avg_pool_2x2",
                    "avg_pool_3x3",
                    "max_pool_grad",
                    "max_pool_grad_strays",
                    "avg_pool_grad",
                ],
                self.typed(first),
            ),
            Family::Patches => {
                let kernels = &["im2col", "im2col_line", "col2im", "col2im_line"];
                self.plain("conv/im2col.cu", kernels, self.typed(first))
            }
            Family::Assemble => {
                let kernels = &["pad", "pad_line", "concat", "concat_packed"];
                self.plain("ops/assemble.cu", kernels, vec![("TYPE", bits(first).into())])
            }
            _ => self.elementwise(),
        }
    }

    fn is_log(&self) -> usize {
        usize::from(self.name == "log_softmax")
    }

    fn is_layer(&self) -> usize {
        usize::from(self.name == "layer")
    }

    /// Kernels of rows, with macros of their own beside those of all.
    fn of_rows(
        &self,
        rows: Rows,
        file: &'static str,
        kernels: &'static [&'static str],
        own: &[(&'static str, usize)],
    ) -> Source {
        let mut source = self.numbered(file, kernels, own);
        source.defines.extend(rows.defines(self.types[0]));
        source.named_by_defines()
    }

    /// Kernels of one type, whose other macros are numbers.
    fn numbered(
        &self,
        file: &'static str,
        kernels: &'static [&'static str],
        own: &[(&'static str, usize)],
    ) -> Source {
        let mut defines = vec![("TYPE", element(self.types[0]).to_string())];
        defines.extend(own.iter().map(|&(name, value)| (name, value.to_string())));
        Source { name: String::new(), defines, kernels, file }.named_by_defines()
    }

    /// The element type, and whether it has fractions.
    fn typed(&self, dtype: DType) -> Vec<(&'static str, String)> {
        let mut defines = vec![("TYPE", element(dtype).to_string())];
        if dtype.is_float() {
            defines.push(("REAL_NUMBERS", "1".to_string()));
        }
        defines
    }

    fn plain(
        &self,
        file: &'static str,
        kernels: &'static [&'static str],
        defines: Vec<(&'static str, String)>,
    ) -> Source {
        let types: Vec<String> = defines.iter().map(|(_, value)| value.clone()).collect();
        Source { name: format!("{file} ({})", types.join(", ")), defines, kernels, file }
    }

    fn step(&self, most: usize) -> Source {
        let mut defines = self.typed(self.types[0]);
        defines.extend([("STEP", self.name.to_string()), ("MOST", most.to_string())]);
        self.plain("ops/step.cu", &["step"], defines)
    }

    fn elementwise(&self) -> Source {
        let Elementwise { expression, inputs, output, pack } = self.expression();
        let input = |at: usize| inputs.get(at).unwrap_or(&"u8").to_string();
        let name = format!("ops/elementwise.cu ({}: {} -> {output})", expression.1, inputs.join(", "));
        let defines = vec![
            expression,
            ("LEAST_BLOCKS", self.least_blocks().to_string()),
            ("ARITY", inputs.len().to_string()),
            ("PACK_OF", pack.to_string()),
            ("TYPE_A", input(0)),
            ("TYPE_B", input(1)),
            ("TYPE_C", input(2)),
            ("TYPE_Y", output.to_string()),
        ];
        Source {
            name,
            defines,
            kernels: &["line", "rows", "strided", "strided_long"],
            file: "ops/elementwise.cu",
        }
    }

    /// Blocks that the compiler is to keep room for on a multiprocessor. Aiming at more than one it spills where functions are long; but those of
    /// halves that it does hold in fewer registers are faster by a tenth, since more accesses are under way: arithmetic is half of their time.
    fn least_blocks(&self) -> usize {
        match self.name {
            _ if self.family != Family::Unary || !self.types[0].is_half() => 1,
            "gelu_tanh" | "tanh" | "silu" | "sigmoid" => 6,
            "gelu_erf" => 5,
            _ => 1,
        }
    }

    fn expression(&self) -> Elementwise {
        let (name, [first, second, third]) = (self.name, self.types);
        let form = |expression: String, inputs: &[DType], output: DType| Elementwise {
            expression: ("EXPRESSION", expression),
            inputs: inputs.iter().map(|&dtype| element(dtype)).collect(),
            output: element(output),
            pack: pack_of(&[inputs, &[output]].concat()),
        };
        let moved = |stored: &str, inputs: &[&'static str], output: &'static str, pack: usize| Elementwise {
            expression: ("STORED", stored.to_string()),
            inputs: inputs.to_vec(),
            output,
            pack,
        };
        match self.family {
            Family::Unary => form(format!("unary_{name}(a, k)"), &[first], first),
            Family::UnaryGrad => form(format!("slope_{name}(a, b, k)"), &[first, first], first),
            // The number of a scalar form is in the wider type, and is not read from memory.
            Family::Binary => Elementwise {
                pack: pack_of(&[third]),
                ..form(format!("binary_{name}(a, b)"), &[first, second], third)
            },
            Family::MultiplyAdd => form("sum_of(product_of(a, b), c)".into(), &[first; 3], first),
            Family::ScaleAdd => form("constant<Compute<Y>>(k.first) * a + b".into(), &[first; 2], first),
            Family::AddRelu => form("unary_relu(a + b, k)".into(), &[first; 2], first),
            Family::BiasActivation => form(format!("unary_{name}(a + b, k)"), &[first; 2], first),
            Family::Compare => form(format!("compare_{name}(a, b)"), &[first; 2], DType::Bool),
            Family::Select => moved(
                "a ? b_stored : c_stored",
                &["Truth", bits(first), bits(first)],
                bits(first),
                pack_of(&[first]),
            ),
            Family::Cast => {
                let pack = pack_of(&[first, second]);
                moved("Cast<Y>::of(a)", &[element(first)], element(second), pack)
            }
            _ => moved("a_stored", &[bits(first)], bits(first), pack_of(&[first])),
        }
    }
}

/// Every function of one element, with numbers in place of the constants that come at run time.
const UNARY: [UnaryOp; 28] = [
    UnaryOp::Neg,
    UnaryOp::Abs,
    UnaryOp::Sign,
    UnaryOp::Exp,
    UnaryOp::Log,
    UnaryOp::Log1p,
    UnaryOp::Expm1,
    UnaryOp::Sqrt,
    UnaryOp::Rsqrt,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Tanh,
    UnaryOp::Sigmoid,
    UnaryOp::Relu,
    UnaryOp::Erf,
    UnaryOp::Square,
    UnaryOp::Recip,
    UnaryOp::Floor,
    UnaryOp::Ceil,
    UnaryOp::Round,
    UnaryOp::Not,
    UnaryOp::LeakyRelu { slope: 0.0 },
    UnaryOp::Elu { alpha: 0.0 },
    UnaryOp::GeluErf,
    UnaryOp::GeluTanh,
    UnaryOp::Silu,
    UnaryOp::Softplus,
    UnaryOp::Clamp { low: 0.0, high: 0.0 },
];

/// Whether there are units of this function; what constants it has does not matter.
#[inline]
pub(crate) fn has_unary(op: UnaryOp) -> bool {
    UNARY.iter().any(|listed| std::mem::discriminant(listed) == std::mem::discriminant(&op))
}

const BINARY: [BinaryOp; 12] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Pow,
    BinaryOp::Max,
    BinaryOp::Min,
    BinaryOp::Atan2,
    BinaryOp::Remainder,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
];

/// Functions that are fused with a bias: those that layers have.
pub(crate) const ACTIVATIONS: [&str; 6] = ["relu", "gelu_erf", "gelu_tanh", "silu", "sigmoid", "tanh"];

const COMPARE: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];

/// Reducers for every dtype that has an order.
const REDUCERS: [&str; 6] = ["Sum", "Prod", "Max", "Min", "ArgMax", "ArgMin"];
const REAL_REDUCERS: [&str; 5] = ["Mean", "SumSquares", "MaxAbs", "Norm", "LogSumExp"];

/// Policies of optimiser steps.
const STEPS: [&str; 3] = ["Sgd", "SgdMomentum", "Adam"];

/// Dtypes that stand for all of their size.
const SIZES: [DType; 4] = [DType::I64, DType::I32, DType::F16, DType::U8];

/// Numbers that are no floats.
const INTEGERS: [DType; 5] = [DType::I64, DType::I32, DType::I16, DType::I8, DType::U8];

/// Everything that `select` can ask for.
pub fn units() -> Vec<Unit> {
    let mut units = elementwise_units();
    units.extend(reduction_units());
    units.extend(moving_units());
    units.extend(attention_units());
    units.extend(matmul_units());
    units
}

fn elementwise_units() -> Vec<Unit> {
    let mut units = Vec::new();
    for op in UNARY {
        let dtypes: Vec<DType> = match op {
            UnaryOp::Not => vec![DType::Bool],
            op if op.takes_integers() => [&DType::FLOATS[..], &INTEGERS].concat(),
            _ => DType::FLOATS.to_vec(),
        };
        units.extend(dtypes.iter().map(|&dtype| Unit::of(Family::Unary, op.name(), dtype)));
        if op != UnaryOp::Not {
            let floats = DType::FLOATS.into_iter();
            units.extend(floats.map(|dtype| Unit::of(Family::UnaryGrad, op.name(), dtype)));
        }
    }
    for op in BINARY {
        let dtypes = DType::ALL.into_iter().filter(|&dtype| match op {
            op if op.is_logical() => dtype == DType::Bool,
            BinaryOp::Atan2 => dtype.is_float(),
            BinaryOp::Max | BinaryOp::Min => true,
            _ => dtype != DType::Bool,
        });
        for dtype in dtypes {
            let wide = dtype.accumulator();
            units.push(Unit::of(Family::Binary, op.name(), dtype));
            if wide != dtype {
                units.push(Unit { family: Family::Binary, name: op.name(), types: [dtype, wide, dtype] });
                units.push(Unit { family: Family::Binary, name: op.name(), types: [wide, dtype, dtype] });
            }
        }
    }
    for dtype in DType::ALL {
        units.extend(COMPARE.map(|name| Unit::of(Family::Compare, name, dtype)));
        let others = DType::ALL.into_iter().filter(|&other| other != dtype);
        units.extend(others.map(|other| Unit {
            family: Family::Cast,
            name: "",
            types: [dtype, other, dtype],
        }));
        if dtype != DType::Bool {
            units.push(Unit::of(Family::MultiplyAdd, "", dtype));
        }
    }
    units.extend(
        ACTIVATIONS
            .iter()
            .flat_map(|name| DType::FLOATS.map(|dtype| Unit::of(Family::BiasActivation, name, dtype))),
    );
    let fused = [Family::ScaleAdd, Family::AddRelu];
    units.extend(fused.iter().flat_map(|&family| DType::FLOATS.map(|dtype| Unit::of(family, "", dtype))));
    units.extend(
        SIZES
            .iter()
            .flat_map(|&size| [Family::Select, Family::Move].map(|family| Unit::of(family, "", size))),
    );
    units
}

fn reduction_units() -> Vec<Unit> {
    let numbers = [&DType::FLOATS[..], &INTEGERS].concat();
    let mut units: Vec<Unit> = numbers
        .iter()
        .flat_map(|&dtype| REDUCERS.map(|name| Unit::of(Family::Reduce, name, dtype)))
        .collect();
    units.extend(["Max", "Min"].map(|name| Unit::of(Family::Reduce, name, DType::Bool)));
    units.extend(
        DType::FLOATS
            .iter()
            .flat_map(|&dtype| REAL_REDUCERS.map(|name| Unit::of(Family::Reduce, name, dtype))),
    );
    units.extend(numbers.iter().flat_map(|&dtype| {
        [Family::Cumulative, Family::ScatterAdd, Family::Iota].map(|family| Unit::of(family, "", dtype))
    }));
    units
}

fn moving_units() -> Vec<Unit> {
    let mut units = Vec::new();
    for size in SIZES {
        units.extend(
            [Family::Transpose, Family::ScatterSet, Family::Assemble]
                .map(|family| Unit::of(family, "", size)),
        );
        units.extend([DType::I32, DType::I64].map(|index| Unit {
            family: Family::Gather,
            name: "",
            types: [size, index, size],
        }));
    }
    units.extend(DType::ALL.map(|dtype| Unit::of(Family::Sort, "", dtype)));
    units.extend(
        [Family::Random, Family::Pool, Family::Patches]
            .iter()
            .flat_map(|&family| DType::FLOATS.map(|dtype| Unit::of(family, "", dtype))),
    );
    units.extend([Family::Step, Family::StepMany].iter().flat_map(|&family| {
        let policies = move |dtype| STEPS.map(|name| Unit::of(family, name, dtype));
        DType::FLOATS.into_iter().flat_map(policies)
    }));
    units.extend([Family::RandomBits, Family::SortKeys].map(|family| Unit::of(family, "", DType::I32)));
    units
}
