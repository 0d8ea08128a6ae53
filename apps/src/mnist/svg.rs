//! A picture of misclassified digits, as SVG.

use std::fmt::Write;

/// A misclassified digit.
pub struct Digit<'a> {
    /// `[rows, cols]`, row-major; 255 is ink.
    pub pixels: &'a [u8],
    /// The correct class.
    pub label: u8,
    /// The predicted class.
    pub predicted: u8,
}

/// Side of an image in the picture: 28 pixels of size 2 x 2.
const SIDE: f64 = 56.0;
const COLUMNS: usize = 12;
const MAX_DIGITS: usize = 120;
const CELL_WIDTH: f64 = 68.0;
const CELL_HEIGHT: f64 = 82.0;
const HEADING: f64 = 44.0;

/// Draws a table of images of `[rows, cols]` pixels, each with its label and the model's
/// prediction.
pub fn digits(wrong: &[Digit<'_>], tested: usize, size: [usize; 2]) -> String {
    let shown = &wrong[..wrong.len().min(MAX_DIGITS)];
    let rows = shown.len().div_ceil(COLUMNS).max(1);
    let mut svg = open(CELL_WIDTH * COLUMNS as f64 + 12.0, HEADING + CELL_HEIGHT * rows as f64);
    let more =
        if shown.len() < wrong.len() { format!(", the first {} here", shown.len()) } else { String::new() };
    let heading = format!("{} of {tested} digits taken for others{more} (is > taken for)", wrong.len());
    text(&mut svg, [12.0, 26.0], "start", "#222", 15, &heading);
    for (index, digit) in shown.iter().enumerate() {
        let x = 12.0 + (index % COLUMNS) as f64 * CELL_WIDTH;
        let y = HEADING + (index / COLUMNS) as f64 * CELL_HEIGHT;
        image(&mut svg, digit.pixels, size, [x, y]);
        let label = format!("{} > {}", digit.label, digit.predicted);
        text(&mut svg, [x + SIDE / 2.0, y + SIDE + 15.0], "middle", "#222", 12, &label);
    }
    svg + "</svg>\n"
}

/// Draws one path of runs of equal pixels for each of 16 gray levels.
fn image(svg: &mut String, pixels: &[u8], [rows, cols]: [usize; 2], [x, y]: [f64; 2]) {
    let zoom = SIDE / rows.max(cols) as f64;
    let _ = writeln!(
        svg,
        r#"<g transform="translate({x} {y}) scale({zoom})" shape-rendering="crispEdges"><rect width="{cols}" height="{rows}"/>"#
    );
    for grey in 1..16u8 {
        let runs = runs_of(pixels, cols, grey);
        if !runs.is_empty() {
            let _ = writeln!(svg, r##"<path fill="#{0:x}{0:x}{0:x}" d="{runs}"/>"##, grey);
        }
    }
    svg.push_str("</g>\n");
}

fn runs_of(pixels: &[u8], cols: usize, grey: u8) -> String {
    let mut path = String::new();
    for (row, line) in pixels.chunks(cols).enumerate() {
        let mut start = 0;
        for run in line.chunk_by(|left, right| left >> 4 == right >> 4) {
            if run[0] >> 4 == grey {
                let _ = write!(path, "M{start} {row}h{0}v1h-{0}z", run.len());
            }
            start += run.len();
        }
    }
    path
}

fn open(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    )
}

fn text(svg: &mut String, [x, y]: [f64; 2], anchor: &str, color: &str, size: u32, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" fill="{color}" font-size="{size}">{words}</text>"#
    );
}
