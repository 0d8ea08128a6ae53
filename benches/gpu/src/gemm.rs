//! Matrix products.

use crate::Case;
use crate::clock::{Clock, emit};
use ternion::{DType, Result};

/// Sizes and layouts as in the PyTorch script; `t` in a name means that operand is transposed.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for size in [512, 1024, 2048, 4096, 8192] {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            cases.push(product(&size.to_string(), dtype, "nn", [size; 3]));
        }
    }
    for layouts in ["nt", "tn"] {
        for dtype in [DType::BF16, DType::F32] {
            cases.push(product("4096", dtype, layouts, [4096; 3]));
        }
    }
    for [m, n, k] in [[16, 4096, 4096], [16384, 768, 3072], [16384, 3072, 768], [16384, 50304, 768]] {
        cases.push(product(&format!("{m}x{n}x{k}"), DType::BF16, "nt", [m, n, k]));
    }
    for dtype in [DType::F32, DType::BF16] {
        cases.push(product("1000x1000x1000", dtype, "nn", [1000; 3]));
    }
    cases
}

fn product(name: &str, dtype: DType, layouts: &'static str, sizes: [usize; 3]) -> Case {
    Case::new(format!("gemm/{dtype}/{layouts}/{name}"), move |clock, name| {
        run(clock, name, dtype, layouts, sizes)
    })
}

fn run(clock: &Clock, name: &str, dtype: DType, layouts: &str, [m, n, k]: [usize; 3]) -> Result<()> {
    let operand = |transposed: bool, rows: usize, columns: usize| match transposed {
        true => clock.randn(&[columns, rows], dtype)?.t(),
        false => clock.randn(&[rows, columns], dtype),
    };
    let a = operand(layouts.starts_with('t'), m, k)?;
    let b = operand(layouts.ends_with('t'), k, n)?;
    let milliseconds = clock.median(|| a.matmul(&b).map(drop))?;
    emit(
        name,
        clock.implementation(),
        milliseconds,
        2.0 * (m * n * k) as f64 / milliseconds / 1e9,
        "TFLOP/s",
    );
    Ok(())
}
