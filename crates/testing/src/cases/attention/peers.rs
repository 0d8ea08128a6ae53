//! The data that `benches/peers/attention_errors.py` reads to compute the same attention with
//! Ternion and with PyTorch: `benches/peers/attention_rows.jsonl`.

use serde_json::{Value, json};
use ternion_core::ops::attention::AttentionConfig;

/// Returns the configuration of a row, except for the kind of its mask.
pub(super) fn configuration(config: &AttentionConfig) -> Value {
    json!({
        "causal": config.causal,
        "window": config.window,
        "scale": config.scale,
        "dropout": config.dropout.map_or(0.0, |dropout| dropout.p),
    })
}

/// Returns the configuration of a causal row aligned at the upper left.
pub(super) fn upper_left(config: &AttentionConfig) -> Value {
    let mut options = configuration(config);
    options["causal"] = json!(true);
    options["upper_left"] = json!(true);
    options
}

/// Returns the configuration of a row whose mask of `[1, 1, queries, keys]` is not an input, but
/// has this value everywhere.
pub(super) fn filled_mask(config: &AttentionConfig, value: f64, has_gradient: bool) -> Value {
    let mut options = configuration(config);
    options["mask_value"] = json!(value);
    options["mask_gradient"] = json!(has_gradient);
    options
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;
    use crate::table::Class;
    use serde_json::{Value, json};
    use std::fmt::Write;
    use std::path::Path;

    /// Returns a row as a line of JSON; `None` if the row does not run in half precision.
    fn line(row: &OpCase) -> Option<Value> {
        let mut options = row.configuration.clone()?;
        let dtypes: Vec<&str> =
            row.dtypes.iter().filter(|dtype| [F16, BF16].contains(dtype)).map(|dtype| dtype.name()).collect();
        let filled = options.as_object_mut()?.remove("mask_value");
        let has_gradient = options.as_object_mut()?.remove("mask_gradient");
        let mask = row.inputs.get(mask_index(row)).filter(|_| filled.is_none());
        let kind = match mask {
            Some(mask) => Some(if mask.class == Class::Fixed(Bool) { "bool" } else { "additive" }),
            None => filled.is_some().then_some("additive"),
        };
        let mut line = json!({
            "parameters": name(row),
            "options": options,
            "mask": kind,
            "dtypes": dtypes,
            "shapes": row.instances.iter().map(|shapes| shapes_of(row, shapes, filled.is_some())).collect::<Vec<_>>(),
        });
        if has_gradient == Some(json!(true)) || mask.is_some_and(|mask| mask.differentiable) {
            line["mask_gradient"] = json!(true);
        }
        if let Some(value) = filled {
            line["mask_value"] = value;
        }
        if is_varlen(row) {
            line["ends"] = json!(row.instances.iter().map(|shapes| ends(shapes)).collect::<Vec<_>>());
        }
        // The only input serves as queries, keys and values.
        if row.inputs.len() == 1 {
            line["tied"] = json!(true);
        }
        (!dtypes.is_empty()).then_some(line)
    }

    /// Returns the parameters of a row, after the name of its op if it is a gradient.
    fn name(row: &OpCase) -> String {
        match row.op {
            "attention" => row.parameters.clone(),
            op => format!("{op} {}", row.parameters),
        }
    }

    /// The gradients have three more inputs before the mask: y, the log-sum-exp and dy.
    fn mask_index(row: &OpCase) -> usize {
        if row.op == "attention" { 3 } else { 6 }
    }

    fn is_varlen(row: &OpCase) -> bool {
        row.parameters.contains("varlen")
    }

    /// Returns the shapes of queries, keys, values and the mask. The script computes y and the
    /// log-sum-exp from them.
    fn shapes_of(row: &OpCase, shapes: &[Vec<usize>], is_filled: bool) -> Vec<Vec<usize>> {
        // The ops have sequences as `[1, heads, rows, columns]`, the script as `[rows, heads,
        // columns]`.
        let operand = |index: usize| match shapes[if row.inputs.len() == 1 { 0 } else { index }][..] {
            [_, heads, rows, columns] if is_varlen(row) => vec![rows, heads, columns],
            ref shape => shape.to_vec(),
        };
        let mask = match is_filled {
            true => Some(vec![1, 1, shapes[0][2], shapes[1][2]]),
            false => shapes.get(mask_index(row)).cloned(),
        };
        (0..3).map(operand).chain(mask).collect()
    }

    /// Returns the cumulative lengths of the sequences of queries and of keys.
    fn ends(shapes: &[Vec<usize>]) -> [&'static [usize]; 2] {
        let rows = |shape: &Vec<usize>| if shape.len() == 3 { shape[0] } else { shape[2] };
        super::super::varlen::ends_of([rows(&shapes[0]), rows(&shapes[1])])
    }

    /// Writes the file if TERNION_WRITE_ROWS=1.
    #[test]
    fn the_rows_that_are_compared_with_pytorch_are_those_of_the_table() {
        let mut expected = String::new();
        for line in super::super::rows().iter().filter_map(line) {
            let _ = writeln!(expected, "{line}");
        }
        assert!(expected.lines().count() > 40, "{expected}");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/peers/attention_rows.jsonl");
        if std::env::var("TERNION_WRITE_ROWS").is_ok_and(|value| value == "1") {
            std::fs::write(&path, &expected).expect("the file can be written");
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stored == expected,
            "{}: not the rows of the table; TERNION_WRITE_ROWS=1 has this test write them",
            path.display()
        );
    }
}
