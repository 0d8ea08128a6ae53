//! A summary as a text table.

use super::{LayerSummary, Summary};
use std::fmt;

/// Formats with a comma after every three digits.
fn format_grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats as `1.11 G`: thousands, millions and so on.
fn format_si(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["", " k", " M", " G", " T", " P"] {
        if value < 999.5 {
            return if unit.is_empty() {
                format!("{value:.0}")
            } else {
                format!("{value:.*}{unit}", digits(value))
            };
        }
        value /= 1000.0;
    }
    format!("{value:.0} E")
}

/// Returns the number of decimals that gives three digits in total.
fn digits(value: f64) -> usize {
    if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    }
}

/// Formats as `1.50 MiB`.
fn format_bytes(number: usize) -> String {
    let mut value = number as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1023.5 {
            return if unit == "B" {
                format!("{value:.0} B")
            } else {
                format!("{value:.*} {unit}", digits(value))
            };
        }
        value /= 1024.0;
    }
    format!("{value:.0} PiB")
}

/// A row of cells: the first three are left-aligned, numbers are right-aligned.
type Row = [String; 6];

fn row(layer: &LayerSummary) -> Row {
    let key = if layer.key.is_empty() { "(model)".to_owned() } else { layer.key.clone() };
    let output = match (&layer.output, layer.calls) {
        (_, 0) | (None, _) => "-".to_owned(),
        (Some(shape), 1) => format!("{shape:?}"),
        (Some(shape), calls) => format!("{shape:?} x{calls}"),
    };
    let or_dash = |number: usize, text: String| if number == 0 { "-".to_owned() } else { text };
    [
        key,
        layer.kind.to_owned(),
        output,
        or_dash(layer.parameters, format_grouped(layer.parameters)),
        or_dash(layer.flops as usize, format_si(layer.flops)),
        or_dash(layer.activation_bytes, format_bytes(layer.activation_bytes)),
    ]
}

impl Summary {
    fn rows(&self) -> Vec<Row> {
        let titles = ["layer", "kind", "output", "parameters", "FLOPs", "activations"];
        let mut rows: Vec<Row> = vec![titles.map(str::to_owned)];
        rows.extend(self.layers.iter().map(row));
        if self.outside.flops > 0 || self.outside.activation_bytes > 0 {
            let mut outside = row(&self.outside);
            outside[0] = "(outside of layers)".to_owned();
            rows.push(outside);
        }
        let total =
            [format_grouped(self.parameters), format_si(self.flops), format_bytes(self.activation_bytes)];
        let [parameters, flops, activations] = total;
        rows.push(["total".to_owned(), String::new(), String::new(), parameters, flops, activations]);
        rows
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3, 4, 5].map(width);
        for (index, row) in rows.iter().enumerate() {
            if index == 1 || index == rows.len() - 1 {
                writeln!(f, "{}", "-".repeat(widths.iter().sum::<usize>() + 2 * 5))?;
            }
            let [key, kind, output, parameters, flops, activations] = row;
            let [a, b, c, d, e, g] = widths;
            writeln!(
                f,
                "{key:a$}  {kind:b$}  {output:c$}  {parameters:>d$}  {flops:>e$}  {activations:>g$}"
            )?;
        }
        let trained = match self.parameters - self.trained_parameters {
            0 => String::new(),
            frozen => format!(", {} of them frozen", format_grouped(frozen)),
        };
        writeln!(
            f,
            "parameters: {}{trained}; other state: {}",
            format_bytes(self.parameter_bytes),
            format_bytes(self.state_bytes)
        )?;
        match self.backward_flops {
            None => write!(
                f,
                "forward: {} FLOPs, at most {}",
                format_si(self.flops),
                format_bytes(self.peak_bytes)
            )?,
            Some(backward) => write!(
                f,
                "forward: {} FLOPs; backward: {} FLOPs; at most {}",
                format_si(self.flops),
                format_si(backward),
                format_bytes(self.peak_bytes)
            )?,
        }
        f.write_str(" in addition to what was allocated before")
    }
}

#[cfg(test)]
mod tests {
    use super::{format_bytes, format_grouped, format_si};

    #[test]
    fn numbers_keep_three_digits() {
        let numbers = [0, 7, 999, 1000, 11_173_962].map(format_grouped);
        assert_eq!(numbers, ["0", "7", "999", "1,000", "11,173,962"]);
        let flops = [0, 999, 1000, 12_345, 999_499, 999_500, 1_113_000_000].map(format_si);
        assert_eq!(flops, ["0", "999", "1.00 k", "12.3 k", "999 k", "1.00 M", "1.11 G"]);
        assert_eq!(
            [0, 1023, 1024, 1_572_864, 44_695_848].map(format_bytes),
            ["0 B", "1023 B", "1.00 KiB", "1.50 MiB", "42.6 MiB"]
        );
    }
}
