//! Gradients by central differences of a float64 oracle: independent of every gradient rule.

use crate::array::Array;
use crate::values::Rng;

/// The maximum number of elements of an input whose gradient is computed element by element. Larger
/// inputs use random directions.
pub const FULL_LIMIT: usize = 512;
/// The number of random directions for a larger input.
pub const DIRECTIONS: usize = 4;
/// The step of first-order central differences: near the cube root of f64's precision, where
/// truncation and rounding errors balance.
const FIRST_ORDER_STEP: f64 = 1e-5;
/// The step of mixed second-order differences: near the fourth root of f64's precision.
const SECOND_ORDER_STEP: f64 = 2e-4;

/// A float64 function of arrays whose outputs are weighted by cotangents: `L(x) = sum_k
/// <cotangent_k, f(x)_k>`.
pub struct Weighted<'a> {
    /// The function.
    pub function: &'a dyn Fn(&[Array]) -> Vec<Array>,
    /// One for each output; `None` for an output that is ignored.
    pub cotangents: &'a [Option<Array>],
}

/// The gradient of one input, or derivatives along some directions if it is large.
#[derive(Clone, Debug, PartialEq)]
pub enum Gradient {
    /// Every partial derivative.
    Full(Array),
    /// Directional derivatives: each direction with the derivative along it.
    Along(Vec<(Array, f64)>),
}

impl Weighted<'_> {
    /// Returns `L(up) - L(down)`. Outputs are subtracted element by element before they are summed,
    /// so that large common terms do not cancel the digits of the difference.
    fn difference(&self, up: &[Array], down: &[Array]) -> f64 {
        let (up, down) = ((self.function)(up), (self.function)(down));
        self.cotangents
            .iter()
            .zip(up.iter().zip(&down))
            .filter_map(|(cotangent, (up, down))| Some((cotangent.as_ref()?, up, down)))
            .map(|(cotangent, up, down)| {
                let differences = up.data.iter().zip(&down.data).zip(&cotangent.data);
                differences.map(|((&u, &d), c)| minus(u, d) * c).sum::<f64>()
            })
            .sum()
    }

    /// Returns the derivative of `L` at `inputs` along `direction` of input `position`.
    pub fn along(&self, inputs: &[Array], position: usize, direction: &Array) -> f64 {
        let step = FIRST_ORDER_STEP;
        let moved = |sign: f64| {
            let mut inputs = inputs.to_vec();
            inputs[position] = inputs[position].zip(direction, |x, d| x + sign * step * d);
            inputs
        };
        self.difference(&moved(1.0), &moved(-1.0)) / (2.0 * step)
    }

    /// Returns the gradient of `L` at `inputs` for input `position`.
    pub fn gradient(&self, inputs: &[Array], position: usize, rng: &mut Rng) -> Gradient {
        let elements = inputs[position].elements();
        if elements > FULL_LIMIT {
            let shape = &inputs[position].shape;
            let directions = (0..DIRECTIONS).map(|_| {
                let direction = Array::from_fn(shape, |_| rng.uniform(-1.0, 1.0));
                let derivative = self.along(inputs, position, &direction);
                (direction, derivative)
            });
            return Gradient::Along(directions.collect());
        }
        let (mut up, mut down) = (inputs.to_vec(), inputs.to_vec());
        let mut gradient = Array::zeros(&inputs[position].shape);
        for at in 0..elements {
            let x = inputs[position].data[at];
            let step = FIRST_ORDER_STEP * x.abs().max(1.0);
            (up[position].data[at], down[position].data[at]) = (x + step, x - step);
            // The actual distance in floating point, not the nominal one.
            gradient.data[at] = self.difference(&up, &down) / ((x + step) - (x - step));
            (up[position].data[at], down[position].data[at]) = (x, x);
        }
        Gradient::Full(gradient)
    }

    /// Returns the gradient, for input `position`, of the derivative of `L` along `directions` (one
    /// for each input, `None` for inputs that are held constant), by mixed central differences. It
    /// is a product of the second derivative with `directions`.
    pub fn second(&self, inputs: &[Array], position: usize, directions: &[Option<Array>]) -> Array {
        let step = SECOND_ORDER_STEP;
        let move_along = |inputs: &[Array], sign: f64| -> Vec<Array> {
            inputs
                .iter()
                .zip(directions)
                .map(|(input, direction)| match direction {
                    Some(direction) => input.zip(direction, |x, d| x + sign * step * d),
                    None => input.clone(),
                })
                .collect()
        };
        let mut shifted = [inputs.to_vec(), inputs.to_vec()];
        let mut second = Array::zeros(&inputs[position].shape);
        for at in 0..inputs[position].elements() {
            let x = inputs[position].data[at];
            shifted[0][position].data[at] = x + step;
            shifted[1][position].data[at] = x - step;
            let [right, left] = &shifted;
            let derivative = |inputs: &[Array]| {
                self.difference(&move_along(inputs, 1.0), &move_along(inputs, -1.0)) / (2.0 * step)
            };
            second.data[at] = (derivative(right) - derivative(left)) / (2.0 * step);
            shifted[0][position].data[at] = x;
            shifted[1][position].data[at] = x;
        }
        second
    }
}

/// Returns `up - down`; 0 if both are the same infinity.
fn minus(up: f64, down: f64) -> f64 {
    if up == down { 0.0 } else { up - down }
}

/// Returns the directional derivative of each output along `directions`, without weights. It is the
/// gradient of the derivative of `L` with respect to the output's cotangent.
pub fn directional(
    function: &dyn Fn(&[Array]) -> Vec<Array>,
    inputs: &[Array],
    directions: &[Option<Array>],
) -> Vec<Array> {
    let step = FIRST_ORDER_STEP;
    let moved = |sign: f64| -> Vec<Array> {
        inputs
            .iter()
            .zip(directions)
            .map(|(input, direction)| match direction {
                Some(direction) => input.zip(direction, |x, d| x + sign * step * d),
                None => input.clone(),
            })
            .collect()
    };
    let (up, down) = (function(&moved(1.0)), function(&moved(-1.0)));
    up.iter().zip(&down).map(|(up, down)| up.zip(down, |u, d| minus(u, d) / (2.0 * step))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cubes(x: &[Array]) -> Vec<Array> {
        vec![x[0].zip(&x[1], |a, b| a * a * a * b)]
    }

    fn inputs() -> Vec<Array> {
        vec![Array::new(&[3], vec![0.5, -1.25, 2.0]), Array::new(&[3], vec![1.5, 0.25, -3.0])]
    }

    #[test]
    fn gradients_of_a_polynomial() {
        let cotangents = [Some(Array::new(&[3], vec![1.0, -2.0, 0.5]))];
        let weighted = Weighted { function: &cubes, cotangents: &cotangents };
        let (x, mut rng) = (inputs(), Rng::seeded("cubes"));
        let Gradient::Full(gradient) = weighted.gradient(&x, 0, &mut rng) else { panic!("few elements") };
        for at in 0..3 {
            let want = 3.0 * x[0].data[at].powi(2) * x[1].data[at] * cotangents[0].as_ref().unwrap().data[at];
            assert!((gradient.data[at] - want).abs() <= 1e-8, "{} {want}", gradient.data[at]);
        }
        let direction = Array::new(&[3], vec![1.0, 2.0, 3.0]);
        assert!((weighted.along(&x, 0, &direction) - gradient.dot(&direction)).abs() <= 1e-7);
    }

    #[test]
    fn second_derivatives_of_a_polynomial() {
        let cotangents = [Some(Array::new(&[3], vec![1.0, -2.0, 0.5]))];
        let weighted = Weighted { function: &cubes, cotangents: &cotangents };
        let x = inputs();
        let directions =
            [Some(Array::new(&[3], vec![1.0, -1.0, 2.0])), Some(Array::new(&[3], vec![0.5, 3.0, -1.0]))];
        let second = weighted.second(&x, 0, &directions);
        for at in 0..3 {
            let (a, b, c) = (x[0].data[at], x[1].data[at], cotangents[0].as_ref().unwrap().data[at]);
            let (da, db) =
                (directions[0].as_ref().unwrap().data[at], directions[1].as_ref().unwrap().data[at]);
            let want = c * (6.0 * a * b * da + 3.0 * a * a * db);
            assert!((second.data[at] - want).abs() <= 1e-6, "{} {want}", second.data[at]);
        }
    }

    #[test]
    fn large_inputs_are_differentiated_along_directions() {
        let square = |x: &[Array]| vec![x[0].map(|v| v * v)];
        let cotangents = [Some(Array::full(&[600], 0.5))];
        let weighted = Weighted { function: &square, cotangents: &cotangents };
        let x = [Array::from_fn(&[600], |index| index[0] as f64 / 600.0)];
        let Gradient::Along(directions) = weighted.gradient(&x, 0, &mut Rng::seeded("large")) else {
            panic!("many elements")
        };
        assert_eq!(directions.len(), DIRECTIONS);
        for (direction, derivative) in directions {
            assert!((direction.dot(&x[0]) - derivative).abs() <= 1e-7);
        }
    }
}
