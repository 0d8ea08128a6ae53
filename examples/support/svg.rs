//! Pictures of a training run, as SVG: the curves of loss and accuracy, and digits that were taken for others.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 64.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 52.0;

const LOSS_COLOUR: &str = "#1f6feb";
const ACCURACY_COLOUR: &str = "#d1530b";

/// From numbers to places between two edges of the picture.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// About `count` round numbers within the scale.
    fn ticks(&self, count: f64) -> Ticks {
        let rough = (self.high - self.low) / count;
        let magnitude = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .map(|factor| factor * magnitude)
            .into_iter()
            .find(|&step| step >= rough);
        let step = step.unwrap_or(10.0 * magnitude);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        Ticks { values: (first..=last).map(|index| index as f64 * step).collect(), step }
    }
}

/// Round numbers along an axis.
struct Ticks {
    values: Vec<f64>,
    step: f64,
}

/// A number without the noise of binary fractions: to a hundredth of `step`.
fn round(value: f64, step: f64) -> String {
    let decimals = (2.0 - step.log10().floor()).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The curves of loss (left axis, blue) and test accuracy (right axis, orange) over epochs.
pub fn curves(title: &str, losses: &[(f64, f64)], accuracies: &[(f64, f64)]) -> String {
    let finite = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points.iter().copied().filter(|(_, value)| value.is_finite()).collect()
    };
    let readings = losses.len();
    let (losses, accuracies) = (finite(losses), finite(accuracies));
    let lost = readings - losses.len();
    let largest =
        |points: &[(f64, f64)], pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).fold(0.0, f64::max);
    let epochs = largest(&losses, |point| point.0).max(largest(&accuracies, |point| point.0)).max(1e-9);
    let x = Scale { low: 0.0, high: epochs, from: LEFT, to: WIDTH - RIGHT };
    let y = |low, high| Scale { low, high, from: HEIGHT - BOTTOM, to: TOP };
    // An axis from 0 to 1 where there is no loss to draw.
    let largest_loss = if losses.is_empty() { 1.0 } else { largest(&losses, |point| point.1).max(1e-9) };
    let loss = y(0.0, largest_loss * 1.05);
    let worst = accuracies.iter().map(|point| point.1).fold(1.0, f64::min);
    // Room below the worst accuracy, so that its point is off the axis.
    let accuracy = y((worst - 0.1 * (1.0 - worst) - 0.002).max(0.0), 1.0);

    let mut svg = open(WIDTH, HEIGHT);
    text(&mut svg, [WIDTH / 2.0, 26.0], "middle", "#222", 16, title);
    axes(&mut svg, &x, &loss);
    right_axis(&mut svg, &accuracy);
    line(&mut svg, &losses, &x, &loss, LOSS_COLOUR);
    line(&mut svg, &accuracies, &x, &accuracy, ACCURACY_COLOUR);
    dots(&mut svg, &accuracies, &x, &accuracy, ACCURACY_COLOUR);
    // A line needs two points.
    if losses.len() == 1 {
        dots(&mut svg, &losses, &x, &loss, LOSS_COLOUR);
    }
    if lost > 0 {
        let words = format!("{lost} of {readings} readings of the loss are no number");
        text(&mut svg, [WIDTH / 2.0, TOP + 18.0], "middle", LOSS_COLOUR, 13, &words);
    }
    svg + "</svg>\n"
}

fn open(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    )
}

fn text(svg: &mut String, [x, y]: [f64; 2], anchor: &str, colour: &str, size: u32, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // Writing into a string cannot fail.
    let _ = writeln!(
        svg,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{words}</text>"#
    );
}

/// Bottom and left axis with ticks, and lines across at the ticks of the left one.
fn axes(svg: &mut String, x: &Scale, y: &Scale) {
    let ticks = y.ticks(6.0);
    for &tick in &ticks.values {
        let height = y.at(tick);
        let _ = writeln!(svg, r##"<path d="M{LEFT} {height:.1}H{}" stroke="#e4e4e4"/>"##, WIDTH - RIGHT);
        text(svg, [LEFT - 8.0, height + 4.0], "end", LOSS_COLOUR, 12, &round(tick, ticks.step));
    }
    let ticks = x.ticks(8.0);
    for &tick in &ticks.values {
        let _ = writeln!(svg, r##"<path d="M{:.1} {}v5" stroke="#444"/>"##, x.at(tick), HEIGHT - BOTTOM);
        text(svg, [x.at(tick), HEIGHT - BOTTOM + 19.0], "middle", "#444", 12, &round(tick, ticks.step));
    }
    let _ = writeln!(
        svg,
        r##"<path d="M{LEFT} {TOP}V{}H{}V{TOP}" fill="none" stroke="#444"/>"##,
        HEIGHT - BOTTOM,
        WIDTH - RIGHT
    );
    text(svg, [WIDTH / 2.0, HEIGHT - 12.0], "middle", "#444", 13, "epochs");
    text(svg, [LEFT, TOP - 10.0], "middle", LOSS_COLOUR, 13, "training loss");
}

fn right_axis(svg: &mut String, y: &Scale) {
    let ticks = y.ticks(6.0);
    for &tick in &ticks.values {
        let label = format!("{} %", round(tick * 100.0, ticks.step * 100.0));
        text(svg, [WIDTH - RIGHT + 8.0, y.at(tick) + 4.0], "start", ACCURACY_COLOUR, 12, &label);
    }
    text(svg, [WIDTH - RIGHT, TOP - 10.0], "middle", ACCURACY_COLOUR, 13, "test accuracy");
}

fn line(svg: &mut String, points: &[(f64, f64)], x: &Scale, y: &Scale, colour: &str) {
    let places: Vec<String> =
        points.iter().map(|&(position, value)| format!("{:.1},{:.1}", x.at(position), y.at(value))).collect();
    let _ = writeln!(
        svg,
        r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="1.8"/>"#,
        places.join(" ")
    );
}

fn dots(svg: &mut String, points: &[(f64, f64)], x: &Scale, y: &Scale, colour: &str) {
    for &(position, value) in points {
        let (x, y) = (x.at(position), y.at(value));
        let _ = writeln!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="{colour}"/>"#);
    }
}

/// A digit that was taken for another.
pub struct Digit<'a> {
    /// 28 x 28, row by row; 255 is ink.
    pub pixels: &'a [u8],
    /// What it is.
    pub label: u8,
    /// What it was taken for.
    pub found: u8,
}

/// Side of a digit's image in pixels.
const SIDE: usize = 28;
const COLUMNS: usize = 12;
const MOST_DIGITS: usize = 120;
/// Size of a pixel in the picture.
const ZOOM: f64 = 2.0;
const CELL_WIDTH: f64 = 68.0;
const CELL_HEIGHT: f64 = 82.0;
const HEADING: f64 = 44.0;

/// A table of digits, each with what it is and what it was taken for.
pub fn digits(wrong: &[Digit<'_>], tested: usize) -> String {
    let shown = &wrong[..wrong.len().min(MOST_DIGITS)];
    let rows = shown.len().div_ceil(COLUMNS).max(1);
    let mut svg = open(CELL_WIDTH * COLUMNS as f64 + 12.0, HEADING + CELL_HEIGHT * rows as f64);
    let more =
        if shown.len() < wrong.len() { format!(", the first {} here", shown.len()) } else { String::new() };
    let heading = format!("{} of {tested} digits taken for others{more} (is > taken for)", wrong.len());
    text(&mut svg, [12.0, 26.0], "start", "#222", 15, &heading);
    for (index, digit) in shown.iter().enumerate() {
        let x = 12.0 + (index % COLUMNS) as f64 * CELL_WIDTH;
        let y = HEADING + (index / COLUMNS) as f64 * CELL_HEIGHT;
        image(&mut svg, digit.pixels, x, y);
        let label = format!("{} > {}", digit.label, digit.found);
        text(
            &mut svg,
            [x + SIDE as f64 * ZOOM / 2.0, y + SIDE as f64 * ZOOM + 15.0],
            "middle",
            "#222",
            12,
            &label,
        );
    }
    svg + "</svg>\n"
}

/// One path for each of 16 greys, of runs of equal pixels.
fn image(svg: &mut String, pixels: &[u8], x: f64, y: f64) {
    let size = SIDE as f64;
    let _ = writeln!(
        svg,
        r#"<g transform="translate({x} {y}) scale({ZOOM})" shape-rendering="crispEdges"><rect width="{size}" height="{size}"/>"#
    );
    for grey in 1..16u8 {
        let runs = runs_of(pixels, grey);
        if !runs.is_empty() {
            let _ = writeln!(svg, r##"<path fill="#{0:x}{0:x}{0:x}" d="{runs}"/>"##, grey);
        }
    }
    svg.push_str("</g>\n");
}

fn runs_of(pixels: &[u8], grey: u8) -> String {
    let mut path = String::new();
    for (row, line) in pixels.chunks(SIDE).enumerate() {
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
