//! A graph without cycles as an SVG: one row of boxes for each level, importers above what they
//! import.

use super::graph::Graph;
use std::fmt::Write;

/// A box of the picture.
#[derive(Debug, Clone)]
pub struct Label {
    pub title: String,
    pub subtitle: String,
    pub group: Group,
}

/// The group of a box, which determines its color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Libraries that programs are written with.
    Library,
    /// Backends, which run ops and may use `unsafe`.
    Backend,
    /// Bindings to other languages, which may also use `unsafe`.
    Binding,
    /// Programs that test, measure and build.
    Tool,
}

impl Group {
    const ALL: [Group; 4] = [Group::Library, Group::Backend, Group::Binding, Group::Tool];

    fn fill(self) -> &'static str {
        match self {
            Group::Library => "#dbe9f8",
            Group::Backend => "#fde3c8",
            Group::Binding => "#e5dcf3",
            Group::Tool => "#e4e7ea",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Group::Library => "library",
            Group::Backend => "backend (may use unsafe)",
            Group::Binding => "language binding (may use unsafe)",
            Group::Tool => "tests, benchmarks, developer commands",
        }
    }
}

const BOX_WIDTH: f64 = 158.0;
const BOX_HEIGHT: f64 = 46.0;
/// The distance between two boxes of a row.
const GAP: f64 = 26.0;
/// The width of an arrow in a row that it passes.
const PASSAGE: f64 = 14.0;
/// The distance between two rows.
const ROW_GAP: f64 = 58.0;
const MARGIN: f64 = 24.0;
const LEGEND_HEIGHT: f64 = 44.0;
/// Rounds of ordering and of moving boxes toward their neighbors; a dozen crates settle in a few.
const ROUNDS: usize = 40;

/// Returns the picture of `graph`, whose node `i` is labeled `labels[i]`.
pub fn svg(graph: &Graph, labels: &[Label]) -> String {
    let mut layout = Layout::new(graph);
    layout.order_rows();
    layout.assign_positions();
    draw(&layout, graph, labels)
}

/// Boxes and passages of arrows, in rows.
struct Layout {
    /// From the bottom up, the nodes of each row from left to right.
    rows: Vec<Vec<usize>>,
    /// The nodes of the row above and of the row below to which each is connected.
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    /// The centers of all nodes.
    x: Vec<f64>,
    /// The number of nodes that are boxes; the others are passages.
    boxes: usize,
    /// The nodes along each arrow, from the importer down.
    chains: Vec<Vec<usize>>,
}

impl Layout {
    fn new(graph: &Graph) -> Layout {
        let levels = graph.levels();
        let boxes = levels.len();
        let mut rows = vec![Vec::new(); levels.iter().max().map_or(0, |top| top + 1)];
        levels.iter().enumerate().for_each(|(node, &level)| rows[level].push(node));
        let mut layout = Layout {
            rows,
            above: vec![Vec::new(); boxes],
            below: vec![Vec::new(); boxes],
            x: vec![0.0; boxes],
            boxes,
            chains: Vec::new(),
        };
        for (from, arrows) in graph.edges.iter().enumerate() {
            for &to in arrows {
                layout.add_chain(from, to, &levels);
            }
        }
        layout
    }

    /// Connects two boxes through a passage in each row between theirs.
    fn add_chain(&mut self, from: usize, to: usize, levels: &[usize]) {
        let mut chain = vec![from];
        for level in (levels[to] + 1..levels[from]).rev() {
            let passage = self.x.len();
            self.x.push(0.0);
            self.above.push(Vec::new());
            self.below.push(Vec::new());
            self.rows[level].push(passage);
            chain.push(passage);
        }
        chain.push(to);
        for pair in chain.windows(2) {
            self.below[pair[0]].push(pair[1]);
            self.above[pair[1]].push(pair[0]);
        }
        self.chains.push(chain);
    }

    fn width(&self, node: usize) -> f64 {
        if node < self.boxes { BOX_WIDTH } else { PASSAGE }
    }

    /// Orders each row by the mean position of its neighbors, alternately upward and downward, and
    /// keeps the order with the fewest crossings.
    fn order_rows(&mut self) {
        let mut best = (self.crossings(), self.rows.clone());
        for round in 0..ROUNDS {
            let downwards = round % 2 == 0;
            let count = self.rows.len();
            for step in 1..count {
                let row = if downwards { count - 1 - step } else { step };
                self.order_row(row, downwards);
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.rows.clone());
            }
        }
        self.rows = best.1;
    }

    fn order_row(&mut self, row: usize, by_above: bool) {
        let positions = self.positions();
        let mean = |node: usize| {
            let neighbors = if by_above { &self.above[node] } else { &self.below[node] };
            match neighbors.len() {
                0 => positions[node] as f64,
                count => neighbors.iter().map(|&node| positions[node] as f64).sum::<f64>() / count as f64,
            }
        };
        let mut nodes: Vec<(f64, usize)> = self.rows[row].iter().map(|&node| (mean(node), node)).collect();
        nodes.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.rows[row] = nodes.into_iter().map(|(_, node)| node).collect();
    }

    /// Returns the position of each node in its row.
    fn positions(&self) -> Vec<usize> {
        let mut positions = vec![0; self.x.len()];
        for row in &self.rows {
            row.iter().enumerate().for_each(|(position, &node)| positions[node] = position);
        }
        positions
    }

    fn crossings(&self) -> usize {
        let positions = self.positions();
        let mut crossings = 0;
        for row in &self.rows {
            let arrows: Vec<(usize, usize)> = row
                .iter()
                .flat_map(|&from| self.below[from].iter().map(move |&to| (from, to)))
                .map(|(from, to)| (positions[from], positions[to]))
                .collect();
            for (index, a) in arrows.iter().enumerate() {
                crossings += arrows[index + 1..]
                    .iter()
                    .filter(|b| (a.0 < b.0 && a.1 > b.1) || (a.0 > b.0 && a.1 < b.1))
                    .count();
            }
        }
        crossings
    }

    /// Moves every row as near to its neighbors as the widths of its nodes allow.
    fn assign_positions(&mut self) {
        for row in 0..self.rows.len() {
            let targets = vec![0.0; self.rows[row].len()];
            self.position_row(row, &targets);
        }
        for round in 0..ROUNDS {
            for step in 0..self.rows.len() {
                let row = if round % 2 == 0 { self.rows.len() - 1 - step } else { step };
                let targets: Vec<f64> =
                    self.rows[row].iter().map(|&node| self.target_position(node)).collect();
                self.position_row(row, &targets);
            }
        }
        let left = (0..self.x.len()).map(|node| self.x[node] - self.width(node) / 2.0);
        let shift = MARGIN - left.fold(f64::INFINITY, f64::min);
        self.x.iter_mut().for_each(|x| *x += shift);
    }

    /// Returns the mean position of a node's neighbors.
    fn target_position(&self, node: usize) -> f64 {
        let neighbors: Vec<usize> = self.above[node].iter().chain(&self.below[node]).copied().collect();
        match neighbors.len() {
            0 => self.x[node],
            count => neighbors.iter().map(|&node| self.x[node]).sum::<f64>() / count as f64,
        }
    }

    /// Minimizes the squared distances to `targets`, subject to the minimum distances between
    /// nodes: after each node's offset is subtracted, this is a non-decreasing sequence, computed
    /// by pooling adjacent violators.
    fn position_row(&mut self, row: usize, targets: &[f64]) {
        let nodes = self.rows[row].clone();
        let mut offsets = vec![0.0];
        for pair in nodes.windows(2) {
            let last = offsets.last().copied().unwrap_or(0.0);
            offsets.push(last + (self.width(pair[0]) + self.width(pair[1])) / 2.0 + GAP);
        }
        let mut pools: Vec<(f64, usize)> = Vec::new();
        for (target, offset) in targets.iter().zip(&offsets) {
            pools.push((target - offset, 1));
            while let [.., (mean_a, count_a), (mean_b, count_b)] = pools[..]
                && mean_a > mean_b
            {
                let count = count_a + count_b;
                let mean = (mean_a * count_a as f64 + mean_b * count_b as f64) / count as f64;
                pools.truncate(pools.len() - 2);
                pools.push((mean, count));
            }
        }
        let positions = pools.iter().flat_map(|&(mean, count)| std::iter::repeat_n(mean, count));
        for ((&node, offset), position) in nodes.iter().zip(&offsets).zip(positions) {
            self.x[node] = position + offset;
        }
    }

    /// Returns where an arrow between adjacent rows touches `node`: arrows share a box's edge
    /// evenly.
    fn port(&self, node: usize, other: usize, neighbors: &[usize]) -> f64 {
        if node >= self.boxes {
            return self.x[node];
        }
        let mut sorted = neighbors.to_vec();
        sorted.sort_by(|&a, &b| self.x[a].total_cmp(&self.x[b]));
        let index = sorted.iter().position(|&neighbor| neighbor == other).unwrap_or(0);
        let share = (index as f64 + 0.5) / sorted.len() as f64 - 0.5;
        self.x[node] + share * (BOX_WIDTH - 30.0)
    }
}

fn draw(layout: &Layout, graph: &Graph, labels: &[Label]) -> String {
    let levels = graph.levels();
    let rows = layout.rows.len() as f64;
    let right = (0..layout.x.len()).map(|node| layout.x[node] + layout.width(node) / 2.0);
    let width = right.fold(0.0, f64::max) + MARGIN;
    let bottom = MARGIN + rows * BOX_HEIGHT + (rows - 1.0) * ROW_GAP;
    let height = bottom + LEGEND_HEIGHT;
    let top = |level: usize| bottom - (level as f64 + 1.0) * BOX_HEIGHT - level as f64 * ROW_GAP;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"Helvetica, Arial, sans-serif\">\n<!-- written by cargo xtask imports -->\n\
         <defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7.5\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\"><path d=\"M0 0.8L8 4L0 7.2z\" fill=\"#57606a\"/></marker></defs>\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n"
    );
    for chain in &layout.chains {
        let path = arrow(layout, chain, top(levels[chain[0]]));
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"#57606a\" stroke-width=\"1.3\" marker-end=\"url(#head)\"/>"
        );
    }
    for (node, label) in labels.iter().enumerate() {
        write_box(&mut out, [layout.x[node], top(levels[node])], label);
    }
    write_legend(&mut out, bottom + 20.0, labels);
    out.push_str("</svg>\n");
    out
}

/// Draws a curve between rows, and a straight line past each row between.
fn arrow(layout: &Layout, chain: &[usize], mut top: f64) -> String {
    let mut path = String::new();
    for (step, pair) in chain.windows(2).enumerate() {
        let from_x = layout.port(pair[0], pair[1], &layout.below[pair[0]]);
        let to_x = layout.port(pair[1], pair[0], &layout.above[pair[1]]);
        let (from_y, to_y) = (top + BOX_HEIGHT, top + BOX_HEIGHT + ROW_GAP);
        let middle = (from_y + to_y) / 2.0;
        let command = if step == 0 { 'M' } else { 'L' };
        let _ = write!(
            path,
            "{command}{from_x:.1} {from_y:.1}C{from_x:.1} {middle:.1} {to_x:.1} {middle:.1} {to_x:.1} {to_y:.1}"
        );
        top += BOX_HEIGHT + ROW_GAP;
    }
    path
}

fn write_box(out: &mut String, [x, top]: [f64; 2], label: &Label) {
    let (left, fill) = (x - BOX_WIDTH / 2.0, label.group.fill());
    let (title_y, subtitle_y) = (top + 20.0, top + 36.0);
    let (title, subtitle) = (&label.title, &label.subtitle);
    let _ = write!(
        out,
        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"6\" fill=\"{fill}\" \
         stroke=\"#57606a\"/>\n\
         <text x=\"{x:.1}\" y=\"{title_y:.1}\" text-anchor=\"middle\" font-size=\"14\" font-weight=\"bold\" \
         fill=\"#1f2328\">{title}</text>\n\
         <text x=\"{x:.1}\" y=\"{subtitle_y:.1}\" text-anchor=\"middle\" font-size=\"12\" fill=\"#57606a\">{subtitle}\
         </text>\n"
    );
}

fn write_legend(out: &mut String, top: f64, labels: &[Label]) {
    let mut left = MARGIN;
    for group in Group::ALL {
        if labels.iter().any(|label| label.group == group) {
            let (fill, name) = (group.fill(), group.name());
            let (text_x, text_y) = (left + 20.0, top + 11.0);
            let _ = write!(
                out,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"14\" height=\"14\" rx=\"3\" fill=\"{fill}\" \
                 stroke=\"#57606a\"/>\n\
                 <text x=\"{text_x:.1}\" y=\"{text_y:.1}\" font-size=\"12\" fill=\"#1f2328\">{name}</text>\n"
            );
            // Seven units per letter are enough for any of the fonts above.
            left += 40.0 + 7.0 * name.len() as f64;
        }
    }
}
