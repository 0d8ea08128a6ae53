//! The elements of a chart. Writing to a string cannot fail.

use std::fmt::Write;

/// A chart under construction; later elements are drawn above earlier ones.
#[derive(Default)]
pub struct Svg(String);

/// Which end of a text is at its position.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// Escapes text for XML: markup characters are replaced, and so are control characters, which XML
/// does not allow.
fn escaped(words: &str) -> String {
    let words: String = words.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

impl Svg {
    pub fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, color: &str, size: u32, words: &str) {
        let (anchor, words) = (anchor.name(), escaped(words));
        let _ = writeln!(
            self.0,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" fill="{color}" font-size="{size}">{words}</text>"#
        );
    }

    /// Draws text that is rotated to read upward, around its middle.
    pub fn upright(&mut self, [x, y]: [f64; 2], color: &str, size: u32, words: &str) {
        let words = escaped(words);
        let _ = writeln!(
            self.0,
            r#"<text transform="translate({x:.1} {y:.1}) rotate(-90)" text-anchor="middle" fill="{color}" font-size="{size}">{words}</text>"#
        );
    }

    pub fn line(&mut self, [x, y]: [f64; 2], [to_x, to_y]: [f64; 2], color: &str, dashes: &str) {
        let dashes = dash_attribute(dashes);
        let _ =
            writeln!(self.0, r#"<path d="M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}" stroke="{color}"{dashes}/>"#);
    }

    /// Draws a line through positions; nothing for fewer than two.
    pub fn curve(&mut self, points: &[[f64; 2]], color: &str, dashes: &str) {
        if points.len() < 2 {
            return;
        }
        let points: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let (points, dashes) = (points.join(" "), dash_attribute(dashes));
        let _ = writeln!(
            self.0,
            r#"<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.6" stroke-linejoin="round"{dashes}/>"#
        );
    }

    pub fn dot(&mut self, [x, y]: [f64; 2], color: &str) {
        let _ = writeln!(self.0, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" fill="{color}"/>"#);
    }

    /// Draws the left and the lower edge.
    pub fn frame(&mut self, [left, top]: [f64; 2], [right, bottom]: [f64; 2]) {
        let _ = writeln!(
            self.0,
            r##"<path d="M{left:.1} {top:.1}V{bottom:.1}H{right:.1}" fill="none" stroke="#444"/>"##
        );
    }

    /// Returns the whole file.
    pub fn finished(self, width: f64, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
            self.0
        )
    }
}

fn dash_attribute(dashes: &str) -> String {
    if dashes.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{dashes}""#) }
}
