//! Charts of metrics over steps or epochs, as SVG.

mod axis;
mod svg;

use crate::record::Recorder;
use axis::{Axis, Ticks};
use std::path::Path;
use svg::{Anchor, Svg};
use ternion_core::Result;
use ternion_nn::checkpoint::write_file;

/// A chart of curves: one or more panels, stacked vertically, with the same horizontal axis.
///
/// ```
/// use ternion_train::{Chart, Panel, Scale, Series};
/// let training = [(1.0, 2.3), (2.0, 1.1), (3.0, 0.4)];
/// let validation = [(1.0, 2.0), (3.0, 0.6)];
/// let svg = Chart::new("learning to count", "steps")
///     .panel(
///         Panel::new("loss")
///             .scale(Scale::Logarithmic)
///             .series(Series::new("training", training))
///             .series(Series::new("validation", validation).dots()),
///     )
///     .to_svg();
/// assert!(svg.starts_with("<svg") && svg.contains("validation"));
/// ```
///
/// Numbers that cannot be drawn (NaN, infinity, and negative numbers on a logarithmic axis) leave a
/// gap in their curve, and the chart reports how many there are. A 0 on a logarithmic axis also
/// leaves a gap, and is drawn as a dot on the lower edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    title: String,
    x_title: String,
    panels: Vec<Panel>,
}

/// Curves over one vertical axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    y_title: String,
    scale: Scale,
    series: Vec<Series>,
}

/// The scale of the vertical axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences have equal distances.
    #[default]
    Linear,
    /// Equal ratios have equal distances.
    Logarithmic,
    /// Like `Linear`, with 1 labeled as 100 %.
    Percent,
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    has_dots: bool,
    is_dashed: bool,
}

impl Series {
    /// Creates a line through these points, `(x, y)`.
    pub fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        let points = points.into_iter().collect();
        Series { name: name.to_owned(), points, has_dots: false, is_dashed: false }
    }

    /// Creates a series from the values that a recorder recorded under `name`, over its steps.
    pub fn recorded(recorder: &Recorder, name: &str) -> Series {
        Series::new(name, recorder.series(name).iter().map(|&(step, value)| (step as f64, value)))
    }

    /// Draws the curve with a dashed stroke, through which a curve below is visible.
    pub fn dashed(mut self) -> Series {
        self.is_dashed = true;
        self
    }

    /// Draws a dot at every point, for series of few points.
    pub fn dots(mut self) -> Series {
        self.has_dots = true;
        self
    }
}

impl Panel {
    /// Creates a panel without curves, whose vertical axis has this title.
    pub fn new(y_title: &str) -> Panel {
        Panel { y_title: y_title.to_owned(), scale: Scale::default(), series: Vec::new() }
    }

    /// Sets the scale of the vertical axis; linear by default.
    pub fn scale(mut self, scale: Scale) -> Panel {
        self.scale = scale;
        self
    }

    /// Adds a curve. A curve without points appears only in the legend.
    pub fn series(mut self, series: Series) -> Panel {
        self.series.push(series);
        self
    }
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 24.0;
/// Space above the first panel, for the title.
const TOP: f64 = 44.0;
/// Height of a single panel.
const PLOT_HEIGHT: f64 = 320.0;
/// Height of each panel, if there are several.
const PLOT_HEIGHT_OF_SEVERAL: f64 = 220.0;
/// Height of a row of the legend, or of a remark.
const ROW: f64 = 20.0;
/// Space below a panel, for the tick labels of the horizontal axis.
const BELOW: f64 = 34.0;
/// Space below the last panel, for the title of the axis.
const BOTTOM: f64 = 24.0;
/// Width of a letter of the legend: an upper estimate, because SVG does not provide it.
const LETTER: f64 = 7.2;

const COLORS: [&str; 6] = ["#1f6feb", "#d1530b", "#1a7f37", "#8250df", "#bf3989", "#57606a"];
/// If there are more curves than colors, strokes distinguish them.
const DASHES: [&str; 3] = ["", "7 4", "2 3"];

impl Chart {
    /// Creates a chart without panels, with a title above and a title of the horizontal axis.
    pub fn new(title: &str, x_title: &str) -> Chart {
        Chart { title: title.to_owned(), x_title: x_title.to_owned(), panels: Vec::new() }
    }

    /// Adds a panel below the existing ones.
    pub fn panel(mut self, panel: Panel) -> Chart {
        self.panels.push(panel);
        self
    }

    /// Writes the chart to a file, atomically.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        write_file(path, self.to_svg().as_bytes())
    }

    /// Returns the chart as SVG.
    pub fn to_svg(&self) -> String {
        let plot_height = if self.panels.len() > 1 { PLOT_HEIGHT_OF_SEVERAL } else { PLOT_HEIGHT };
        let x = self.x_axis();
        let mut svg = Svg::default();
        let mut top = TOP;
        for panel in &self.panels {
            let heading = panel.heading(&mut svg, top);
            let y = panel.y_axis(heading + plot_height, heading);
            panel.plot(&mut svg, &x, &y);
            top = heading + plot_height + BELOW;
        }
        svg.text([(LEFT + WIDTH - RIGHT) / 2.0, top + 8.0], Anchor::Middle, "#444", 13, &self.x_title);
        svg.text([WIDTH / 2.0, 26.0], Anchor::Middle, "#222", 16, &self.title);
        svg.finished(WIDTH, top + BOTTOM)
    }

    /// Returns the horizontal axis, which all panels share.
    fn x_axis(&self) -> Axis {
        let x_values = |panel: &Panel, series: &Series| -> Vec<f64> {
            panel.drawable(series).flatten().map(|(x, _)| x).chain(panel.zeros(series)).collect()
        };
        let points =
            self.panels.iter().flat_map(|panel| panel.series.iter().map(move |series| (panel, series)));
        let points = points.flat_map(|(panel, series)| x_values(panel, series));
        Axis::around(Scale::Linear, points, Padding::None, [LEFT, WIDTH - RIGHT])
    }
}

/// Whether an axis extends beyond its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Padding {
    None,
    Some,
}

impl Panel {
    /// Returns the points of a series; `None` for a point that cannot be drawn.
    fn drawable<'s>(&self, series: &'s Series) -> impl Iterator<Item = Option<(f64, f64)>> + use<'s> {
        let scale = self.scale;
        series.points.iter().map(move |&(x, y)| {
            (axis::can_show(Scale::Linear, x) && axis::can_show(scale, y)).then_some((x, y))
        })
    }

    /// Returns the `x` of the points that are 0, if the axis is logarithmic and has no 0.
    fn zeros<'s>(&self, series: &'s Series) -> impl Iterator<Item = f64> + use<'s> {
        let is_logarithmic = self.scale == Scale::Logarithmic;
        let is_zero =
            move |&&(x, y): &&(f64, f64)| is_logarithmic && y == 0.0 && axis::can_show(Scale::Linear, x);
        series.points.iter().filter(is_zero).map(|&(x, _)| x)
    }

    /// Draws legend and remarks, starting at `top`, and returns the position at which the plot
    /// begins.
    fn heading(&self, svg: &mut Svg, top: f64) -> f64 {
        // A single curve with the same name as the axis needs no legend.
        let is_named = matches!(&self.series[..], [series] if series.name == self.y_title);
        let mut row = if is_named { top - ROW } else { self.legend(svg, top) };
        for (index, series) in self.series.iter().enumerate() {
            if let Some(remark) = self.remark(series) {
                row += ROW;
                svg.text([LEFT, row + 12.0], Anchor::Start, Style::of(index, series).color, 12, &remark);
            }
        }
        row + ROW + 4.0
    }

    /// Draws the names of the series with their strokes, and returns the position of the last row.
    fn legend(&self, svg: &mut Svg, top: f64) -> f64 {
        let (mut left, mut row) = (LEFT, top);
        for (index, series) in self.series.iter().enumerate() {
            let width = 34.0 + LETTER * series.name.chars().count() as f64;
            if left + width > WIDTH - RIGHT && left > LEFT {
                (left, row) = (LEFT, row + ROW);
            }
            let style = Style::of(index, series);
            svg.line([left, row + 8.0], [left + 22.0, row + 8.0], style.color, style.dashes);
            if series.has_dots {
                svg.dot([left + 11.0, row + 8.0], style.color);
            }
            svg.text([left + 28.0, row + 12.0], Anchor::Start, "#222", 12, &series.name);
            left += width + 14.0;
        }
        row
    }

    /// Describes the points of a series that are not part of its curve.
    fn remark(&self, series: &Series) -> Option<String> {
        let count = series.points.len();
        let count_if =
            |why: fn(f64) -> bool| series.points.iter().filter(|&&(x, y)| why(y) || why(x)).count();
        let not_finite = count_if(|value| !axis::can_show(Scale::Linear, value));
        let zeros = self.zeros(series).count();
        let not_shown = self.drawable(series).filter(Option::is_none).count() - not_finite - zeros;
        let mut remarks = Vec::new();
        if not_finite > 0 {
            remarks.push(format!("{not_finite} of {count} values of {} are not numbers", series.name));
        }
        if zeros > 0 {
            remarks
                .push(format!("{zeros} of {count} values of {} are 0: dots on the lower edge", series.name));
        }
        if not_shown > 0 {
            remarks.push(format!(
                "{not_shown} of {count} values of {} are below 0 or nearly 0, which this axis does not have",
                series.name
            ));
        }
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }

    fn y_axis(&self, bottom: f64, top: f64) -> Axis {
        let points = self.series.iter().flat_map(|series| self.drawable(series)).flatten();
        Axis::around(self.scale, points.map(|(_, y)| y), Padding::Some, [bottom, top])
    }

    /// Draws the axes and the curves between them.
    fn plot(&self, svg: &mut Svg, x: &Axis, y: &Axis) {
        self.grid(svg, x, y);
        for (index, series) in self.series.iter().enumerate() {
            let style = Style::of(index, series);
            let mut zeros: Vec<f64> =
                self.zeros(series).map(|position| x.position(position).round()).collect();
            // Dots at the same position are merged.
            zeros.dedup();
            zeros.iter().for_each(|&position| svg.dot([position, y.low_edge()], style.color));
            for piece in split_at_gaps(self.drawable(series)) {
                let positions: Vec<[f64; 2]> =
                    downsampled(&piece, x).iter().map(|&(px, py)| [x.position(px), y.position(py)]).collect();
                // A line needs two points.
                if series.has_dots || positions.len() == 1 {
                    positions.iter().for_each(|&position| svg.dot(position, style.color));
                }
                svg.curve(&positions, style.color, style.dashes);
            }
        }
    }

    /// Draws horizontal lines at the ticks, both axes with their tick labels, and the title of the
    /// vertical axis.
    fn grid(&self, svg: &mut Svg, x: &Axis, y: &Axis) {
        let (bottom, top) = (y.low_edge(), y.high_edge());
        let Ticks { labeled, unlabeled } = y.ticks(6.0);
        for position in unlabeled {
            svg.line([LEFT, position], [WIDTH - RIGHT, position], "#f2f2f2", "");
        }
        for (position, label) in labeled {
            svg.line([LEFT, position], [WIDTH - RIGHT, position], "#e0e0e0", "");
            svg.text([LEFT - 8.0, position + 4.0], Anchor::End, "#444", 12, &label);
        }
        for (position, label) in x.ticks(8.0).labeled {
            svg.line([position, bottom], [position, bottom + 5.0], "#444", "");
            svg.text([position, bottom + 19.0], Anchor::Middle, "#444", 12, &label);
        }
        svg.frame([LEFT, top], [WIDTH - RIGHT, bottom]);
        svg.upright([16.0, (top + bottom) / 2.0], "#444", 13, &self.y_title);
    }
}

/// The style that distinguishes a curve from the others.
struct Style {
    color: &'static str,
    dashes: &'static str,
}

impl Style {
    fn of(index: usize, series: &Series) -> Style {
        let round = index / COLORS.len() + usize::from(series.is_dashed);
        Style { color: COLORS[index % COLORS.len()], dashes: DASHES[round % DASHES.len()] }
    }
}

/// Splits points into consecutive runs without a gap.
fn split_at_gaps(points: impl Iterator<Item = Option<(f64, f64)>>) -> Vec<Vec<(f64, f64)>> {
    let mut split_at_gaps = vec![Vec::new()];
    for point in points {
        match (point, split_at_gaps.last_mut()) {
            (Some(point), Some(piece)) => piece.push(point),
            (_, Some(piece)) if piece.is_empty() => {}
            _ => split_at_gaps.push(Vec::new()),
        }
    }
    split_at_gaps.retain(|piece| !piece.is_empty());
    split_at_gaps
}

/// Curves with more points are downsampled.
const MAX_POINTS: usize = 2000;

/// Reduces many points to the lowest and the highest of each pixel column: the curve looks the
/// same, and the file stays small.
fn downsampled(points: &[(f64, f64)], x: &Axis) -> Vec<(f64, f64)> {
    if points.len() <= MAX_POINTS {
        return points.to_vec();
    }
    let mut extremes = Vec::new();
    for column in points.chunk_by(|left, right| x.position(left.0).floor() == x.position(right.0).floor()) {
        let positions = 0..column.len();
        let by_height = |&left: &usize, &right: &usize| column[left].1.total_cmp(&column[right].1);
        let lowest = positions.clone().min_by(by_height).unwrap_or(0);
        let highest = positions.max_by(by_height).unwrap_or(0);
        extremes.push(column[lowest.min(highest)]);
        if lowest != highest {
            extremes.push(column[lowest.max(highest)]);
        }
    }
    extremes
}

#[cfg(test)]
mod tests;
