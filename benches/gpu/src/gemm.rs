//! Matrix products.

use crate::Case;
use crate::clock::{Clock, emit};
use ternion::{DType, MatmulOptions, Result};

/// The type of the operands, and whether TF32 or bf16x6 is permitted.
#[derive(Clone, Copy)]
struct InputType {
    name: &'static str,
    dtype: DType,
    tf32: bool,
    bf16x6: bool,
}

const F32: InputType = InputType { name: "f32", dtype: DType::F32, tf32: false, bf16x6: true };
const IEEE: InputType = InputType { name: "ieee", bf16x6: false, ..F32 };
const TF32: InputType = InputType { name: "tf32", tf32: true, ..F32 };
const BF16: InputType = InputType { name: "bf16", dtype: DType::BF16, ..F32 };
const F16: InputType = InputType { name: "f16", dtype: DType::F16, ..F32 };

/// Returns cases with the sizes and layouts of the PyTorch script. `t` in a name means that the
/// operand is transposed.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for size in [512, 1024, 2048, 4096, 8192] {
        for input in [F32, IEEE, TF32, BF16, F16] {
            cases.push(product(&size.to_string(), input, "nn", [size; 3]));
        }
    }
    for layouts in ["nt", "tn", "tt"] {
        for input in [BF16, F32, IEEE, TF32] {
            cases.push(product("4096", input, layouts, [4096; 3]));
        }
    }
    for [m, n, k] in [[16, 4096, 4096], [16384, 768, 3072], [16384, 3072, 768], [16384, 50304, 768]] {
        cases.push(product(&format!("{m}x{n}x{k}"), BF16, "nt", [m, n, k]));
    }
    for [m, n, k] in [[16, 4096, 4096], [16384, 768, 3072]] {
        cases.push(product(&format!("{m}x{n}x{k}"), TF32, "nt", [m, n, k]));
    }
    for [m, n, k] in [[16384, 768, 3072], [768, 3072, 16384]] {
        for input in [F32, IEEE] {
            cases.push(product(&format!("{m}x{n}x{k}"), input, "nt", [m, n, k]));
        }
    }
    for input in [F32, TF32, BF16] {
        cases.push(product("1000x1000x1000", input, "nn", [1000; 3]));
    }
    for size in [255, 1023, 4095] {
        cases.push(product(&size.to_string(), TF32, "nn", [size; 3]));
    }
    cases
}

fn product(name: &str, input: InputType, layouts: &'static str, sizes: [usize; 3]) -> Case {
    Case::new(format!("gemm/{}/{layouts}/{name}", input.name), move |clock, name| {
        run(clock, name, input, layouts, sizes)
    })
}

fn run(clock: &Clock, name: &str, input: InputType, layouts: &str, [m, n, k]: [usize; 3]) -> Result<()> {
    let InputType { dtype, tf32, bf16x6, .. } = input;
    let operand = |transposed: bool, rows: usize, columns: usize| match transposed {
        true => clock.randn(&[columns, rows], dtype)?.t(),
        false => clock.randn(&[rows, columns], dtype),
    };
    let a = operand(layouts.starts_with('t'), m, k)?;
    let b = operand(layouts.ends_with('t'), k, n)?;
    let options = MatmulOptions { tf32, bf16x6, ..MatmulOptions::default() };
    let milliseconds = clock.median(|| a.matmul_with(&b, options).map(drop))?;
    emit(
        name,
        clock.implementation(),
        milliseconds,
        2.0 * (m * n * k) as f64 / milliseconds / 1e9,
        "TFLOP/s",
    );
    Ok(())
}
