//! The WGSL that the wgpu backend links for an op: of the first call that the op table's row makes
//! on its smallest shape.

use std::collections::BTreeSet;
use ternion_core::ops::create::Fill;
use ternion_core::{DType, Device, Op, Scalar, Shape};
use ternion_testing::table::table;
use ternion_testing::{Check, Filter, OpCase, Target, check_row};
use ternion_wgpu::{Launched, WgpuBackend, noop_device};

/// Prints it.
pub fn run(name: &str, dtype: &str) -> Result<(), String> {
    let text = linked(name, dtype)?;
    print!("{text}");
    Ok(())
}

/// The texts of an op in a dtype, one behind the other where a call launches several shaders.
fn linked(name: &str, dtype: &str) -> Result<String, String> {
    let rows: Vec<OpCase> = table().into_iter().filter(|row| row.op == name).collect();
    if rows.is_empty() {
        return Err(format!("no op {name:?} in the op table; there are: {}", listed(names())));
    }
    let dtype = parsed(dtype)?;
    let taken: Vec<&OpCase> = rows.iter().filter(|row| row.dtypes.contains(&dtype)).collect();
    if taken.is_empty() {
        let all: BTreeSet<&str> = rows.iter().flat_map(|row| &row.dtypes).map(|dtype| dtype.name()).collect();
        return Err(format!("{name} is not for {dtype}; it is for: {}", listed(all)));
    }
    let device = noop_device();
    refusal(&device, dtype).map_or(Ok(()), |why| Err(format!("{name}: no shader in {dtype}: {why}")))?;
    taken
        .into_iter()
        .find_map(|row| first_call(row, dtype, &device))
        .map(|launched| described(&launched))
        .ok_or_else(|| format!("{name} launches no shader: it makes a view, or the host computes it"))
}

/// The names of all ops.
fn names() -> BTreeSet<&'static str> {
    table().iter().map(|row| row.op).collect()
}

fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn parsed(name: &str) -> Result<DType, String> {
    let found = DType::ALL.iter().find(|dtype| dtype.name() == name);
    found.copied().ok_or_else(|| {
        format!("no dtype {name:?}; there are: {}", listed(DType::ALL.iter().map(|dtype| dtype.name())))
    })
}

/// Why the backend has no shaders of a dtype, if it has none.
fn refusal(device: &Device, dtype: DType) -> Option<String> {
    let fill = Op::Fill(Fill { shape: Shape::new(&[1]).ok()?, dtype, value: Scalar::Int(0) });
    device.backend().plan(&fill, &[]).err().map(|unsupported| unsupported.why.into_owned())
}

/// What the first call of the op launches, by its own name where there is such a call.
fn first_call(row: &OpCase, dtype: DType, device: &Device) -> Option<Vec<Launched>> {
    let backend: &WgpuBackend = device.downcast()?;
    let target = Target::new(device.clone());
    // The smallest shape may have no elements.
    let launched = [row.smallest(), row.clone()].into_iter().find_map(|row| {
        backend.take_launched();
        check_row(&OpCase { dtypes: vec![dtype], ..row }, Check::Forward, &target, &Filter::default());
        Some(backend.take_launched()).filter(|launched| !launched.is_empty())
    })?;
    let own = launched.iter().find(|one| one.op == row.op).or(launched.first())?.call;
    Some(launched.into_iter().filter(|one| one.call == own).collect())
}

/// The texts, each below the path of its template; of equal ones the first.
fn described(launched: &[Launched]) -> String {
    let mut text = String::new();
    for (at, one) in launched.iter().enumerate() {
        if !launched[..at].contains(one) {
            text.push_str(&format!("// {}: shaders/{}\n\n", one.op, one.path));
            one.text.trim_end().split_inclusive('\n').for_each(|line| push_line(&mut text, line));
            text.push('\n');
        }
    }
    text
}

/// Adds a line, but for a blank one after another, where the linker left out items.
fn push_line(text: &mut String, line: &str) {
    if !(line.trim().is_empty() && text.ends_with("\n\n")) {
        text.push_str(if line.trim().is_empty() { "\n" } else { line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Methods without a shader: views, and what the host computes.
    const WITHOUT: &[&str] = &[
        "chunk",
        "expand",
        "flip",
        "narrow",
        "new",
        "permute",
        "select",
        "slice",
        "split",
        "split_sizes",
        "squeeze",
        "t",
        "transpose",
        "unfold",
        "unsqueeze",
    ];

    #[test]
    fn every_op_of_the_table_has_its_shader_printed() {
        let mut without = Vec::new();
        for name in names() {
            let dtypes: BTreeSet<&str> = table()
                .iter()
                .filter(|row| row.op == name)
                .flat_map(|row| row.dtypes.clone())
                .map(DType::name)
                .collect();
            let dtype = if dtypes.contains("f32") { "f32" } else { dtypes.first().expect("a dtype") };
            match linked(name, dtype) {
                Ok(text) => {
                    assert!(text.contains("fn main("), "{name}: {text}");
                    assert!(!text.contains("\n\n\n"), "{name}: blank lines in a row: {text}");
                }
                Err(_) => without.push(name),
            }
        }
        assert_eq!(without, WITHOUT);
    }

    #[test]
    fn what_does_not_exist_is_named() {
        let error = linked("soft_max", "f32").expect_err("no such op");
        assert!(error.contains("soft_max") && error.contains(" softmax,"), "{error}");
        let error = linked("softmax", "f23").expect_err("no such dtype");
        assert!(error.contains("f23") && error.contains("bf16"), "{error}");
        let error = linked("softmax", "i32").expect_err("floats only");
        assert!(error.contains("is not for i32; it is for: bf16, f16, f32, f64"), "{error}");
        let error = linked("softmax", "f64").expect_err("WGSL");
        assert!(error.contains("WGSL has no 64-bit floats"), "{error}");
    }

    /// The page shows the text in parts, with prose between them.
    #[test]
    fn the_expanded_shader_of_the_page_is_current() {
        let page = crate::root().join("docs/kernels/wgsl-expanded.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let blocks = page.split("```wgsl\n").skip(1).filter_map(|part| part.split("```").next());
        let lines = |text: &str| text.lines().filter(|line| !line.is_empty()).map(String::from).collect();
        let shown: Vec<String> = lines(&blocks.collect::<String>());
        let printed: Vec<String> = lines(&linked("softmax", "f32").expect("softmax has a shader"));
        assert_eq!(shown, printed, "cargo xtask shader softmax f32");
    }
}
