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

#[cfg(test)]
mod tests {
    use crate::prelude::*;
    use crate::table::Class;
    use serde_json::{Value, json};
    use std::fmt::Write;
    use std::path::Path;

    /// Returns a row as a line of JSON; `None` if the row does not run in half precision, or cannot
    /// be computed by another program.
    fn line(row: &OpCase) -> Option<Value> {
        let options = row.configuration.as_ref()?;
        let dtypes: Vec<&str> =
            row.dtypes.iter().filter(|dtype| [F16, BF16].contains(dtype)).map(|dtype| dtype.name()).collect();
        let mask = row.inputs.get(3).map(|mask| match mask.class {
            Class::Fixed(Bool) => "bool",
            _ => "additive",
        });
        (!dtypes.is_empty()).then(|| {
            json!({
                "parameters": row.parameters,
                "options": options,
                "mask": mask,
                "dtypes": dtypes,
                "shapes": row.instances,
            })
        })
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
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == expected,
            "{}: not the rows of the table; TERNION_WRITE_ROWS=1 has this test write them",
            path.display()
        );
    }
}
