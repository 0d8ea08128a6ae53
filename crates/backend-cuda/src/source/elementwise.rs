//! Elementwise kernels: the expression that each applies, and the types of its operands.

use super::{Source, bits, element};
use crate::variant::elementwise::{ElementwiseVariant, UnaryFunction};
use crate::variant::pack_of;
use ternion_core::{DType, UnaryOp};

/// The expression of a kernel.
enum Expression {
    /// An expression of values in the compute type.
    Computed(String),
    /// An expression of elements in their storage type.
    Stored(&'static str),
}

/// The type of an operand.
#[derive(Clone, Copy)]
enum Operand {
    Element(DType),
    /// The unsigned integer type with the size of the dtype.
    Bits(DType),
}

/// The parts of a kernel.
struct KernelParts {
    expression: Expression,
    inputs: Vec<Operand>,
    output: Operand,
    /// Elements of a pack.
    pack: usize,
}

impl KernelParts {
    /// A kernel of tensors, whose pack is one access of the widest elements.
    fn computed(expression: impl Into<String>, inputs: &[DType], output: DType) -> KernelParts {
        KernelParts {
            expression: Expression::Computed(expression.into()),
            inputs: inputs.iter().map(|&dtype| Operand::Element(dtype)).collect(),
            output: Operand::Element(output),
            pack: pack_of(&[inputs, &[output]].concat()),
        }
    }

    fn of(variant: ElementwiseVariant) -> KernelParts {
        match variant {
            ElementwiseVariant::Unary { function, dtype } => {
                KernelParts::computed(format!("unary_{function:?}(a, k)"), &[dtype], dtype)
            }
            ElementwiseVariant::UnaryGrad { function, dtype } => {
                KernelParts::computed(format!("grad_{function:?}(a, b, k)"), &[dtype; 2], dtype)
            }
            // The scalar operand has the wider type, and is not read from memory.
            ElementwiseVariant::Binary { op, a, b, y } => KernelParts {
                pack: pack_of(&[y]),
                ..KernelParts::computed(format!("binary_{}(a, b)", op.name()), &[a, b], y)
            },
            ElementwiseVariant::MultiplyAdd(dtype) => {
                KernelParts::computed("sum_of(product_of(a, b), c)", &[dtype; 3], dtype)
            }
            ElementwiseVariant::ScaleAdd(dtype) => {
                KernelParts::computed("constant<Compute<Y>>(k.first) * a + b", &[dtype; 2], dtype)
            }
            ElementwiseVariant::AddRelu(dtype) => {
                KernelParts::computed("unary_relu(a + b, k)", &[dtype; 2], dtype)
            }
            ElementwiseVariant::BiasActivation { activation, dtype } => {
                let name = activation.function().name();
                KernelParts::computed(format!("unary_{name}(a + b, k)"), &[dtype; 2], dtype)
            }
            ElementwiseVariant::Compare { op, dtype } => {
                KernelParts::computed(format!("compare_{}(a, b)", op.name()), &[dtype; 2], DType::Bool)
            }
            ElementwiseVariant::Select(size) => KernelParts {
                expression: Expression::Stored("a ? b_stored : c_stored"),
                inputs: vec![Operand::Element(DType::Bool), Operand::Bits(size), Operand::Bits(size)],
                output: Operand::Bits(size),
                pack: pack_of(&[size]),
            },
            ElementwiseVariant::Cast { from, to } => KernelParts {
                expression: Expression::Stored("Cast<Y>::of(a)"),
                ..KernelParts::computed("", &[from], to)
            },
            ElementwiseVariant::Move(size) => KernelParts {
                expression: Expression::Stored("a_stored"),
                inputs: vec![Operand::Bits(size)],
                output: Operand::Bits(size),
                pack: pack_of(&[size]),
            },
        }
    }
}

pub(super) fn source(variant: ElementwiseVariant) -> Source {
    let KernelParts { expression, inputs, output, pack } = KernelParts::of(variant);
    let (name, expression) = match expression {
        Expression::Computed(expression) => ("EXPRESSION", expression),
        Expression::Stored(expression) => ("STORED", expression.to_string()),
    };
    let types: Vec<&str> = inputs.iter().map(|&operand| type_of(operand)).collect();
    let description = format!("{expression}: {} -> {}", types.join(", "), type_of(output));
    // Operands that a kernel does not have get an arbitrary type.
    let input = |index: usize| inputs.get(index).copied().unwrap_or(Operand::Bits(DType::U8));
    let operands = [("TYPE_A", input(0)), ("TYPE_B", input(1)), ("TYPE_C", input(2)), ("TYPE_Y", output)];
    let source = Source::new("ops/elementwise.cu", &["line", "rows", "strided", "strided_long"])
        .define(name, expression)
        .define_all([("MIN_BLOCKS", min_blocks(variant)), ("ARITY", inputs.len()), ("PACK_OF", pack)]);
    let source = operands.into_iter().fold(source, |source, (name, operand)| match operand {
        Operand::Element(dtype) => source.define_type(name, dtype),
        Operand::Bits(dtype) => source.define(name, bits(dtype)),
    });
    source.named(&description)
}

fn type_of(operand: Operand) -> &'static str {
    match operand {
        Operand::Element(dtype) => element(dtype),
        Operand::Bits(dtype) => bits(dtype),
    }
}

/// Returns the minimum number of blocks on a multiprocessor for which the compiler limits
/// registers. With more than one, long functions spill. But half-precision functions that fit into
/// fewer registers become faster by a tenth, because more accesses are in flight: arithmetic is
/// half of their time.
fn min_blocks(variant: ElementwiseVariant) -> usize {
    match variant {
        ElementwiseVariant::Unary { function: UnaryFunction(op), dtype } if dtype.is_half() => match op {
            UnaryOp::GeluTanh | UnaryOp::Tanh | UnaryOp::Silu | UnaryOp::Sigmoid => 6,
            UnaryOp::GeluErf => 5,
            _ => 1,
        },
        _ => 1,
    }
}
