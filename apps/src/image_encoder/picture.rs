//! A picture that needs no file: a sky with a sun over hills and water, drawn by formulas, with
//! soft and sharp edges.

use ternion::prelude::*;

/// Draws the picture: `[3, side, side]`, f32 from 0 to 1; red, green and blue.
pub fn draw(side: usize, device: &Device) -> Result<Tensor> {
    let pixels: Vec<[f64; 3]> = (0..side * side)
        .map(|index| {
            // Coordinates of the pixel's center, from 0 to 1; y points down.
            let [x, y] = [index % side, index / side].map(|at| (at as f64 + 0.5) / side as f64);
            colour(x, y)
        })
        .collect();
    let values: Vec<f32> =
        (0..3).flat_map(|channel| pixels.iter().map(move |pixel| pixel[channel] as f32)).collect();
    Tensor::from_vec(values, [3, side, side], device)
}

fn colour(x: f64, y: f64) -> [f64; 3] {
    let hills = 0.62 + 0.06 * (7.0 * x).sin() + 0.03 * (19.0 * x + 1.0).sin();
    if y > 0.8 {
        let wave = 0.5 + 0.5 * (60.0 * y + 6.0 * (9.0 * x).sin()).sin();
        return mix([0.05, 0.15, 0.35], [0.35, 0.55, 0.7], 0.6 * wave);
    }
    if y > hills {
        // Square fields, darker toward the bottom.
        let field = ((12.0 * x).floor() + (20.0 * y).floor()).rem_euclid(2.0);
        return mix([0.1, 0.3, 0.12], [0.45, 0.5, 0.15], 0.35 + 0.4 * field - (y - hills));
    }
    let sky = mix([0.25, 0.45, 0.8], [0.95, 0.75, 0.55], y / hills);
    let distance = (x - 0.7).hypot(y - 0.25);
    let glow = (-distance * 9.0).exp();
    if distance < 0.1 { [1.0, 0.92, 0.6] } else { mix(sky, [1.0, 0.92, 0.6], glow) }
}

/// Interpolates linearly from `from` (fraction 0) to `to` (fraction 1).
fn mix(from: [f64; 3], to: [f64; 3], fraction: f64) -> [f64; 3] {
    let fraction = fraction.clamp(0.0, 1.0);
    std::array::from_fn(|channel| from[channel] + (to[channel] - from[channel]) * fraction)
}
