//! Emulates cooperative matrices with plain arithmetic, so that adapters without them, such as
//! Mesa's, can run the shaders that use them: slowly, for tests.
//!
//! The source of a shader is rewritten. A matrix that is only read is replaced with the array and
//! index from which it was loaded, and each product reads the array. An accumulator matrix is held
//! by 32 threads, 8 elements (half a row) each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The array in which an operand matrix is stored, the distance between its rows or columns in
/// vec4, and whether its rows are contiguous.
struct Operand<'a> {
    array: &'a str,
    stride: &'a str,
    by_rows: bool,
}

/// Returns the source without cooperative matrices.
pub(crate) fn emulate_matrices(text: &str) -> String {
    let mut output = String::with_capacity(2 * text.len());
    let mut operands = BTreeMap::new();
    let mut functions = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with("enable wgpu_cooperative_matrix") {
            continue;
        }
        let changed = rewrite_declaration(line)
            .or_else(|| rewrite_load(line, &mut operands))
            .or_else(|| rewrite_multiply(line, &operands, &mut functions))
            .or_else(|| rewrite_store(line, text, &mut functions));
        output.push_str(changed.as_deref().unwrap_or(line));
        output.push('\n');
    }
    for function in functions {
        output.push_str(&function);
    }
    output
}

/// `var sums: coop_mat16x16<f32, C>;`
fn rewrite_declaration(line: &str) -> Option<String> {
    let (name, kind) = line.trim().strip_prefix("var ")?.split_once(": ")?;
    kind.starts_with("coop_mat16x16<").then(|| format!("var {name}: array<f32, 8>;"))
}

/// Splits the arguments of a call.
fn arguments(call: &str) -> Vec<&str> {
    let inner = call.split_once('(').map_or("", |(_, rest)| rest);
    inner.trim_end_matches([')', ';']).split(", ").collect()
}

/// Returns the array and the index of `&array[index]`.
fn split_pointer(argument: &str) -> Option<(&str, &str)> {
    argument.strip_prefix('&')?.strip_suffix(']')?.split_once('[')
}

/// `let name = coopLoad<coop_mat16x16<f16, A>>(&array[index], stride);`
fn rewrite_load<'a>(line: &'a str, operands: &mut BTreeMap<&'a str, Operand<'a>>) -> Option<String> {
    let (name, call) = line.trim().strip_prefix("let ")?.split_once(" = ")?;
    let by_rows = call.starts_with("coopLoadT<");
    if !by_rows && !call.starts_with("coopLoad<") {
        return None;
    }
    let arguments = arguments(call);
    let (array, index) = split_pointer(arguments[0])?;
    operands.insert(name, Operand { array, stride: arguments[1], by_rows });
    Some(format!("let {name} = {index};"))
}

/// `sums = coopMultiplyAdd(left, right, sums);`
fn rewrite_multiply(
    line: &str,
    operands: &BTreeMap<&str, Operand<'_>>,
    functions: &mut BTreeSet<String>,
) -> Option<String> {
    let (sums, call) = line.trim().split_once(" = coopMultiplyAdd")?;
    let arguments = arguments(call);
    let [left, right] = [arguments[0], arguments[1]];
    let [a, b] = [operands.get(left)?, operands.get(right)?];
    let name = format!("multiplied_{}_{}_{}_{}", a.array, a.by_rows, b.array, b.by_rows);
    let element_index = |by_rows: bool, slow: &str, fast: &str, stride: &str| {
        let (line, index) = if by_rows { (slow, fast) } else { (fast, slow) };
        format!("{line} * {stride} * 4u + {index}")
    };
    let a_index = element_index(a.by_rows, "row", "inner", "a_stride");
    let b_index = element_index(b.by_rows, "inner", "(column + j)", "b_stride");
    let mut text = String::new();
    let _ = write!(
        text,
        "fn {name}(a: u32, a_stride: u32, b: u32, b_stride: u32, before: array<f32, 8>, lane: u32) -> array<f32, 8> {{
    var sums = before;
    let row = lane % 32u / 2u;
    let column = lane % 2u * 8u;
    for (var inner = 0u; inner < 16u; inner += 1u) {{
        let a_at = a * 4u + {a_index};
        let factor = f32({}[a_at / 4u][a_at % 4u]);
        for (var j = 0u; j < 8u; j += 1u) {{
            let b_at = b * 4u + {b_index};
            sums[j] += factor * f32({}[b_at / 4u][b_at % 4u]);
        }}
    }}
    return sums;
}}\n",
        a.array, b.array
    );
    functions.insert(text);
    Some(format!("{sums} = {name}({left}, {}, {right}, {}, {sums}, lane);", a.stride, b.stride))
}

/// `coopStoreT(sums, &array[index], stride);`
fn rewrite_store(line: &str, text: &str, functions: &mut BTreeSet<String>) -> Option<String> {
    let call = line.trim().strip_prefix("coopStoreT")?;
    let arguments = arguments(call);
    let (array, index) = split_pointer(arguments[1])?;
    let (unit, put) = match text.contains(&format!("{array}: array<f32>;")) {
        true => (1, format!("{array}[at] = sums[j];")),
        false => (4, format!("{array}[at / 4u][at % 4u] = sums[j];")),
    };
    functions.insert(format!(
        "fn stored_{array}(sums: array<f32, 8>, offset: u32, stride: u32, lane: u32) {{
    let first = (offset + lane % 32u / 2u * stride) * {unit}u + lane % 2u * 8u;
    var own = sums;
    for (var j = 0u; j < 8u; j += 1u) {{
        let at = first + j;
        {}
    }}
}}\n",
        put.replace("sums[j]", "own[j]")
    ));
    Some(format!("stored_{array}({}, {index}, {}, lane);", arguments[0], arguments[2]))
}

/// These tests run if `TERNION_EXPECT` names wgpu, and compare with the CPU.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::WgpuBackend;
    use crate::gpu::Gpu;
    use crate::options::Options;
    use std::cell::OnceCell;
    use std::sync::Arc;
    use ternion_core::{AttentionOptions, Causal, DType, Device, Result, Tensor};
    use ternion_testing::{Check, Filter, OpCase, Outcome, Target, cases, check_row, compare_devices, suite};

    #[test]
    fn every_line_of_matrices_is_changed() {
        let text = "enable f16;\nenable wgpu_cooperative_matrix;\n    var sums: coop_mat16x16<f32, C>;\n\
            let a = coopLoadT<coop_mat16x16<f16, A>>(&tile[start], 6u);\n\
            let b = coopLoad<coop_mat16x16<f16, B>>(&tile[other], 6u);\n\
            sums = coopMultiplyAdd(a, b, sums);\ncoopStoreT(sums, &scores[first], 9u);\n";
        let text = emulate_matrices(text);
        assert!(!text.contains("coop"), "{text}");
        for line in [
            "var sums: array<f32, 8>;",
            "let a = start;",
            "let b = other;",
            "sums = multiplied_tile_true_tile_false(a, 6u, b, 6u, sums, lane);",
            "stored_scores(sums, first, 9u, lane);",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    /// Returns the first adapter, with emulated matrices.
    fn adapter() -> Option<(Arc<Gpu>, Device)> {
        // One for each test, because it keeps what the test compiled.
        thread_local!(static ADAPTER: OnceCell<Arc<Gpu>> = const { OnceCell::new() });
        if !suite::expects("wgpu") {
            return None;
        }
        let open = || {
            let gpu = Gpu::open(0, Options::default()).expect("TERNION_EXPECT names wgpu");
            gpu.emulate_matrices();
            gpu
        };
        let gpu = ADAPTER.with(|adapter| adapter.get_or_init(open).clone());
        Some((gpu.clone(), Device::new(WgpuBackend { gpu })))
    }

    /// Compares outputs and gradients in these dtypes. Returns how many shaders were launched.
    fn compare(dtypes: &[DType], shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Result<Tensor>) -> u64 {
        let Some((gpu, device)) = adapter() else { return 0 };
        let before = gpu.launches();
        let cpu = ternion_cpu::device();
        cpu.seed(17);
        for &dtype in dtypes {
            let random = |shape: &&[usize]| Tensor::randn(*shape, DType::F32, &cpu)?.to_dtype(dtype);
            let inputs = shapes.iter().map(random).collect::<Result<Vec<_>>>().expect("random numbers");
            let compared = compare_devices(|x| Ok(vec![f(x)?]), &device, &cpu, &inputs);
            assert!(compared.is_ok(), "{shapes:?} {dtype}: {}", compared.unwrap_err());
        }
        gpu.launches() - before
    }

    fn compare_attention(dtype: DType, shapes: [&[usize]; 3], options: &[AttentionOptions<'_>]) {
        for &options in options {
            let launches =
                compare(&[dtype], &shapes, |x| x[0].scaled_dot_product_attention(&x[1], &x[2], options));
            assert!(launches == 0 || launches >= 4 + 7, "{launches} launches: no matrices");
        }
    }

    /// Returns every combination of causal mask and window.
    fn all_windows() -> [AttentionOptions<'static>; 4] {
        [(false, None), (true, None), (false, Some(50)), (true, Some(50))].map(|(causal, window)| {
            AttentionOptions { causal: Causal::lower_right(causal), window, ..AttentionOptions::default() }
        })
    }

    #[test]
    fn attention_of_rows_of_64() {
        let (bf16, all) = (DType::BF16, all_windows());
        compare_attention(bf16, [&[2, 4, 70, 64], &[2, 2, 90, 64], &[2, 2, 90, 64]], &all);
        compare_attention(bf16, [&[1, 2, 150, 48], &[1, 1, 65, 48], &[1, 1, 65, 36]], &all);
    }

    #[test]
    fn attention_of_rows_of_128() {
        let (f16, all) = (DType::F16, all_windows());
        compare_attention(f16, [&[1, 2, 150, 128], &[1, 1, 190, 128], &[1, 1, 190, 128]], &all[2..]);
        compare_attention(f16, [&[1, 2, 65, 104], &[1, 1, 129, 104], &[1, 1, 129, 72]], &all[..2]);
    }

    /// The op table's rows of attention with the widths that cooperative matrices support.
    #[test]
    fn rows_of_the_op_table() {
        let Some((gpu, device)) = adapter() else { return };
        let target = Target::new(device);
        let is_supported =
            |row: &OpCase| row.parameters.starts_with("wide") && !row.parameters.contains("mask");
        let rows = cases::attention::rows().into_iter().filter(is_supported);
        let mut all = Outcome::default();
        for row in rows.map(|row| OpCase { dtypes: vec![DType::BF16], ..row }) {
            for check in [Check::Forward, Check::Backward] {
                all.merge(check_row(&row, check, &target, &Filter::default()));
            }
        }
        assert!(all.failures.is_empty(), "{} cases, the first: {:?}", all.failures.len(), all.failures[0]);
        assert!(all.compared > 1000 && gpu.launches() > all.cases as u64, "{} elements", all.compared);
    }

    #[test]
    fn products() {
        for transposed in [0, 3] {
            let [a, b] = [1, 2].map(|bit| transposed & bit != 0);
            let shapes: [&[usize]; 2] =
                [if a { &[80, 132] } else { &[132, 80] }, if b { &[200, 80] } else { &[80, 200] }];
            let launches = compare(&[DType::F16], &shapes, |x| {
                let left = if a { x[0].t()? } else { x[0].clone() };
                left.matmul(&if b { x[1].t()? } else { x[1].clone() })
            });
            assert!(launches == 0 || launches >= 2, "{launches} launches: no matrices");
        }
    }
}
