//! Mapping of values to positions, and ticks at round numbers.

use super::{Padding, Scale};

/// Larger values are not shown: their differences would overflow.
const LARGEST: f64 = 1e100;

/// Returns whether an axis can show a number.
pub fn can_show(scale: Scale, value: f64) -> bool {
    match scale {
        Scale::Linear | Scale::Percent => value.abs() <= LARGEST,
        Scale::Logarithmic => (1.0 / LARGEST..=LARGEST).contains(&value),
    }
}

/// A range of numbers between two edges of the chart.
pub struct Axis {
    scale: Scale,
    /// Ends of the range; their logarithms (to base 10) on a logarithmic axis.
    low: f64,
    high: f64,
    edges: [f64; 2],
}

/// Ticks along an axis, by their positions.
pub struct Ticks {
    pub labeled: Vec<(f64, String)>,
    pub unlabeled: Vec<f64>,
}

impl Axis {
    /// Creates an axis that contains all `values`; from 0 to 1 if there are none.
    pub fn around(
        scale: Scale,
        values: impl Iterator<Item = f64>,
        padding: Padding,
        edges: [f64; 2],
    ) -> Axis {
        let measure = |value: f64| if scale == Scale::Logarithmic { value.log10() } else { value };
        let (low, high) = values
            .map(measure)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = match low <= high {
            true => widened(scale, low, high, padding),
            false => (0.0, 1.0),
        };
        Axis { scale, low, high, edges }
    }

    /// Returns the position of a number.
    pub fn position(&self, value: f64) -> f64 {
        self.interpolate(if self.scale == Scale::Logarithmic { value.log10() } else { value })
    }

    fn interpolate(&self, measure: f64) -> f64 {
        let [start, end] = self.edges;
        start + (measure - self.low) / (self.high - self.low) * (end - start)
    }

    /// Returns the position of the lower end.
    pub fn low_edge(&self) -> f64 {
        self.edges[0]
    }

    /// Returns the position of the upper end.
    pub fn high_edge(&self) -> f64 {
        self.edges[1]
    }

    /// Returns about `count` ticks at round numbers.
    pub fn ticks(&self, count: f64) -> Ticks {
        match self.scale {
            Scale::Logarithmic if self.high - self.low >= 1.0 => self.decades(count),
            Scale::Logarithmic => self.between_decades(count),
            Scale::Linear | Scale::Percent => self.steps(count),
        }
    }

    fn steps(&self, count: f64) -> Ticks {
        let step = round_step((self.high - self.low) / count);
        let values = multiples(self.low, self.high, step);
        let label = |value: f64| match self.scale {
            Scale::Percent => format!("{} %", format_number(value * 100.0, step * 100.0)),
            Scale::Linear | Scale::Logarithmic => format_number(value, step),
        };
        let labeled = values.into_iter().map(|value| (self.interpolate(value), label(value))).collect();
        Ticks { labeled, unlabeled: Vec::new() }
    }

    /// Returns ticks at every power of 10 or every n-th; if there are few, also at the multiples
    /// between them.
    fn decades(&self, count: f64) -> Ticks {
        let between = ((self.high - self.low) / count).ceil().max(1.0);
        let powers = multiples(self.low, self.high, between);
        let labeled = powers.iter().map(|&power| (self.interpolate(power), power_of_ten(power))).collect();
        let mut unlabeled = Vec::new();
        if between == 1.0 {
            for power in multiples(self.low.floor(), self.high, 1.0) {
                let within = |measure: &f64| (self.low..=self.high).contains(measure);
                let multiples = (2..10).map(|factor| power + f64::from(factor).log10());
                unlabeled.extend(multiples.filter(within).map(|measure| self.interpolate(measure)));
            }
        }
        Ticks { labeled, unlabeled }
    }

    /// Returns ticks at round numbers, for a range that does not contain two powers of 10.
    fn between_decades(&self, count: f64) -> Ticks {
        let (low, high) = (10f64.powf(self.low), 10f64.powf(self.high));
        let step = round_step((high - low) / count);
        let values = multiples(low, high, step).into_iter().filter(|&value| value > 0.0);
        let labeled = values.map(|value| (self.position(value), format_number(value, step))).collect();
        Ticks { labeled, unlabeled: Vec::new() }
    }
}

/// Extends a range so that it is not empty, with `padding` at its ends.
fn widened(scale: Scale, low: f64, high: f64, padding: Padding) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    let (mut low, mut high) = (low, high);
    // A wider range is large enough, relative to its values, for f64 to distinguish the ticks.
    let is_point = high - low <= size * 1e-9 || high - low < 1e-100;
    if padding == Padding::None && low > 0.0 && (is_point || low <= high * 0.25) && high > 1e-90 {
        low = 0.0;
    } else if is_point {
        let half = if size < 1e-90 || scale == Scale::Logarithmic { 0.5 } else { size * 0.1 };
        (low, high) = (low - half, high + half);
    } else if padding == Padding::Some {
        let margin = (high - low) * 0.05;
        // If the lower end is close to 0, the axis starts at 0.
        low = if scale != Scale::Logarithmic && low >= 0.0 && low <= high * 0.5 { 0.0 } else { low - margin };
        high += margin;
    }
    (low, high)
}

/// Returns the smallest round number that is at least `rough`.
fn round_step(rough: f64) -> f64 {
    let magnitude = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0].map(|factor| factor * magnitude);
    steps.into_iter().find(|&step| step >= rough * (1.0 - 1e-9)).unwrap_or(10.0 * magnitude)
}

/// Returns the multiples of `step` from `low` to `high`.
fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let count = (last - first + 1.0).clamp(0.0, 100.0) as usize;
    (0..count).map(|index| (first + index as f64) * step).collect()
}

/// Formats a number, rounded to a hundredth of `step` to remove the noise of binary fractions.
fn format_number(value: f64, step: f64) -> String {
    // This multiple of the step is 0 except for rounding errors.
    if value.abs() < step * 1e-6 {
        return "0".to_owned();
    }
    if value.abs() >= 1e6 || step < 1e-5 {
        let digits = (value.abs().log10().floor() - step.log10().floor() + 1.0).clamp(0.0, 12.0) as usize;
        let text = format!("{value:.digits$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{exponent}", without_zeros(mantissa));
    }
    let decimals = (2.0 - step.log10().floor()).clamp(0.0, 12.0) as usize;
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

fn power_of_ten(power: f64) -> String {
    match power as i32 {
        power @ 0..=5 => 10_i64.pow(power as u32).to_string(),
        power @ -4..=-1 => format!("{:.*}", power.unsigned_abs() as usize, 10f64.powi(power)),
        power => format!("1e{power}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, low: f64, high: f64) -> Vec<String> {
        let axis = Axis::around(scale, [low, high].into_iter(), Padding::None, [0.0, 100.0]);
        axis.ticks(6.0).labeled.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(Scale::Linear, 0.0, 1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(Scale::Linear, 0.0, 5000.0), ["0", "1000", "2000", "3000", "4000", "5000"]);
        assert_eq!(labels(Scale::Linear, -0.3, 0.3), ["-0.3", "-0.2", "-0.1", "0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(Scale::Percent, 0.9, 1.0), ["90 %", "92 %", "94 %", "96 %", "98 %", "100 %"]);
        assert_eq!(labels(Scale::Linear, 0.0, 5e7), ["0", "1e7", "2e7", "3e7", "4e7", "5e7"]);
        assert_eq!(labels(Scale::Linear, 0.0, 2.5e-6), ["0", "5e-7", "1e-6", "1.5e-6", "2e-6", "2.5e-6"]);
        assert_eq!(labels(Scale::Logarithmic, 1e-3, 10.0), ["0.001", "0.01", "0.1", "1", "10"]);
        assert_eq!(
            labels(Scale::Logarithmic, 1e-12, 1.0),
            ["1e-12", "1e-10", "1e-8", "1e-6", "0.0001", "0.01", "1"]
        );
        assert_eq!(labels(Scale::Logarithmic, 2.0, 5.0), ["2", "2.5", "3", "3.5", "4", "4.5", "5"]);
    }

    /// For every range, positions are within the chart and ticks are few.
    #[test]
    fn every_range_has_positions_and_ticks() {
        let values = [
            -LARGEST,
            -1.0,
            -1e-300,
            0.0,
            5e-324,
            1e-100,
            1e-5,
            1.0,
            1.0 + 1e-15,
            2.0,
            1e15,
            1e15 + 1.0,
            LARGEST,
        ];
        for scale in [Scale::Linear, Scale::Logarithmic, Scale::Percent] {
            let shown: Vec<f64> = values.into_iter().filter(|&value| can_show(scale, value)).collect();
            for (&low, &high) in shown.iter().flat_map(|low| shown.iter().map(move |high| (low, high))) {
                for padding in [Padding::None, Padding::Some] {
                    let axis = Axis::around(scale, [low, high].into_iter(), padding, [10.0, 90.0]);
                    let Ticks { labeled, unlabeled } = axis.ticks(6.0);
                    let positions = labeled.iter().map(|(position, _)| *position).chain(unlabeled);
                    for position in positions.chain([axis.position(low), axis.position(high)]) {
                        assert!((9.9..=90.1).contains(&position), "{scale:?} {low} {high}: {position}");
                    }
                    assert!((1..=12).contains(&labeled.len()), "{scale:?} {low} {high}: {labeled:?}");
                }
            }
        }
        assert!(![f64::NAN, f64::INFINITY, 2e100].into_iter().any(|value| can_show(Scale::Linear, value)));
        assert!(![0.0, -1.0, f64::NAN].into_iter().any(|value| can_show(Scale::Logarithmic, value)));
    }
}
