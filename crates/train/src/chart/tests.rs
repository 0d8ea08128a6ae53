//! Tests of the contents of charts, and that they contain no NaN.

use super::*;

fn line(points: &[(f64, f64)]) -> Series {
    Series::new("loss", points.iter().copied())
}

fn one(panel: Panel) -> String {
    Chart::new("title", "steps").panel(panel).to_svg()
}

fn count(svg: &str, what: &str) -> usize {
    svg.matches(what).count()
}

#[test]
fn a_panel_has_its_curves_titles_and_legend() {
    let svg = one(Panel::new("nats")
        .series(line(&[(1.0, 2.0), (2.0, 1.0)]))
        .series(Series::new("other", [(1.0, 1.5), (2.0, 1.2)]).dots()));
    for words in [">title</text>", ">steps</text>", ">nats</text>", ">loss</text>", ">other</text>"] {
        assert_eq!(count(&svg, words), 1, "{words} in {svg}");
    }
    assert_eq!(count(&svg, "<polyline"), 2);
    // Two points, and the mark in the legend.
    assert_eq!(count(&svg, "<circle"), 3);
}

#[test]
fn curves_begin_and_end_at_the_edges() {
    let svg = one(Panel::new("").series(line(&[(100.0, 0.0), (200.0, 1.0)])));
    let points = svg.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a curve");
    let points: Vec<f64> =
        points.split([' ', ',']).map(|coordinate| coordinate.parse().expect("a number")).collect();
    assert_eq!((points[0], points[2]), (LEFT, WIDTH - RIGHT));
    assert!(points[1] > points[3], "upward is less in SVG");
}

#[test]
fn non_finite_values_leave_a_gap_and_a_remark() {
    let points = [(1.0, 3.0), (2.0, f64::NAN), (3.0, 2.0), (4.0, 1.0), (5.0, f64::INFINITY)];
    let svg = one(Panel::new("").series(line(&points)));
    assert!(svg.contains("2 of 5 values of loss are not numbers"), "{svg}");
    // The first point is isolated: a dot. The next two are a line.
    assert_eq!((count(&svg, "<circle"), count(&svg, "<polyline")), (1, 1));
    let svg = one(Panel::new("").scale(Scale::Logarithmic).series(line(&[
        (1.0, 0.0),
        (2.0, 0.1),
        (3.0, 1.0),
        (4.0, f64::NAN),
    ])));
    assert!(
        svg.contains(
            "1 of 4 values of loss are not numbers; 1 of 4 values of loss are 0: dots on the lower edge"
        ),
        "{svg}"
    );
    let below = one(Panel::new("").scale(Scale::Logarithmic).series(line(&[(1.0, -1.0), (2.0, 0.1)])));
    assert!(below.contains("1 of 2 values of loss are below 0"), "{below}");
    let empty = one(Panel::new("").series(line(&[(1.0, f64::NAN), (f64::NAN, 1.0)])));
    assert!(
        empty.contains("2 of 2 values of loss are not numbers") && count(&empty, "<polyline") == 0,
        "{empty}"
    );
}

/// Returns the positions of dots, in the order in which they were drawn.
fn dots(svg: &str) -> Vec<[f64; 2]> {
    let coordinate = |line: &str, name: &str| line.split(name).nth(1)?.split('"').next()?.parse().ok();
    let dots = svg.lines().filter(|line| line.starts_with("<circle"));
    dots.filter_map(|line| Some([coordinate(line, "cx=\"")?, coordinate(line, "cy=\"")?])).collect()
}

#[test]
fn zeros_of_a_logarithmic_axis_are_dots_on_its_lower_edge() {
    let panel = |points: &[(f64, f64)]| Panel::new("").scale(Scale::Logarithmic).series(line(points));
    let svg = one(panel(&[(0.0, 0.0), (1.0, 1e-8), (2.0, 1e-6), (4.0, 0.0)]));
    let dot_positions = dots(&svg);
    assert_eq!(dot_positions.iter().map(|dot| dot[0]).collect::<Vec<_>>(), [LEFT, WIDTH - RIGHT]);
    // Below the lowest number that has a position.
    let lowest =
        svg.split("points=\"").nth(1).and_then(|rest| rest.split([',', ' ']).nth(1)?.parse::<f64>().ok());
    assert!(lowest.is_some_and(|lowest| dot_positions.iter().all(|dot| dot[1] > lowest)), "{svg}");
    let zeros = one(panel(&[(0.0, 0.0), (10.0, 0.0)]));
    assert_eq!((dots(&zeros).len(), count(&zeros, "2 of 2 values of loss are 0")), (2, 1), "{zeros}");
    assert!(dots(&one(Panel::new("").series(line(&[(0.0, 0.0), (1.0, 1.0)])))).is_empty());
    let many = one(panel(&(0..100_000).map(|step| (f64::from(step), 0.0)).collect::<Vec<_>>()));
    assert!(dots(&many).len() < 1000, "{}", dots(&many).len());
}

#[test]
fn dashed_curve_does_not_hide_the_curve_below() {
    let both = Panel::new("").series(line(&[(0.0, 1.0), (1.0, 2.0)]));
    let svg = one(both.series(Series::new("same", [(0.0, 1.0), (1.0, 2.0)]).dashed()));
    let strokes: Vec<bool> = svg
        .lines()
        .filter(|line| line.starts_with("<polyline"))
        .map(|line| line.contains("dasharray"))
        .collect();
    assert_eq!(strokes, [false, true], "{svg}");
}

#[test]
fn no_chart_has_a_nan_position() {
    let extreme_values = [f64::NAN, f64::INFINITY, -1e308, 1e308, 0.0, -0.0, 5e-324, 1.0, -1.0, 1e99, 1e-99];
    for scale in [Scale::Linear, Scale::Logarithmic, Scale::Percent] {
        for &first in &extreme_values {
            for &second in &extreme_values {
                let points = [(first, second), (second, first), (1.0, 1.0)];
                for points in [&points[..], &points[..1], &[]] {
                    let svg = one(Panel::new("").scale(scale).series(line(points)));
                    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{scale:?} {points:?}: {svg}");
                }
            }
        }
    }
    assert!(Chart::new("", "").to_svg().ends_with("</svg>\n"));
}

#[test]
fn markup_and_control_characters_are_escaped() {
    let svg = Chart::new("a<b & \"c\"\u{7}", "x>y")
        .panel(Panel::new("]]>").series(Series::new("<svg>", [(0.0, 1.0)])))
        .to_svg();
    for words in [">a&lt;b &amp; \"c\" </text>", ">x&gt;y</text>", ">]]&gt;</text>", ">&lt;svg&gt;</text>"] {
        assert!(svg.contains(words), "{words} in {svg}");
    }
}

#[test]
fn panels_are_stacked_above_one_axis() {
    let chart = Chart::new("", "steps")
        .panel(Panel::new("upper").series(line(&[(0.0, 1.0), (10.0, 2.0)])))
        .panel(Panel::new("lower").series(line(&[(5.0, 1.0), (20.0, 2.0)])));
    let svg = chart.to_svg();
    // Both axes end at 20.
    assert_eq!(count(&svg, ">20</text>"), 2, "{svg}");
    assert_eq!(count(&svg, ">steps</text>"), 1);
    let height = |svg: &str| {
        svg.split("height=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse::<f64>().ok())
    };
    assert!(height(&svg) > height(&one(Panel::new("").series(line(&[(0.0, 1.0)])))));
}

#[test]
fn many_points_are_downsampled_to_visible_extremes() {
    let points =
        (0..200_000).map(|step| (f64::from(step), if step == 70_001 { 9.0 } else { f64::from(step % 7) }));
    let series = Series::new("loss", points);
    let svg = one(Panel::new("").series(series));
    assert!(svg.len() < 40_000, "{}", svg.len());
    let points = svg.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a curve");
    let heights: Vec<f64> =
        points.split(' ').filter_map(|coordinate| coordinate.split_once(',')?.1.parse().ok()).collect();
    let highest = heights.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(heights.iter().filter(|&&height| height == highest).count(), 1, "the only peak is kept");
}

#[test]
fn a_long_legend_has_several_rows() {
    let mut panel = Panel::new("");
    for index in 0..20 {
        panel = panel.series(Series::new(
            &format!("a series of number {index}"),
            [(0.0, f64::from(index)), (1.0, 0.0)],
        ));
    }
    let svg = one(panel);
    let mut rows: Vec<&str> = svg
        .lines()
        .filter(|line| line.contains("a series of"))
        .filter_map(|line| line.split("y=\"").nth(1)?.split('"').next())
        .collect();
    rows.dedup();
    assert!((5..=8).contains(&rows.len()), "{rows:?}");
    assert!(svg.contains("stroke-dasharray=\"7 4\""));
}
