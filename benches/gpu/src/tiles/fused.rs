//! The products of GPT-2's layers with and without fused epilogues, with every tile that supports
//! them.

use super::{Arguments, TileCost, is_of_fused, survey, tiles, with_tile};
use crate::clock::{Clock, print_lines};
use crate::device::backend;
use serde_json::json;
use ternion::{DType, Result, Tensor};
use ternion_core::UnaryOp;
use ternion_core::dispatch::apply;
use ternion_core::ops::matmul::{Epilogue, Matmul};
use ternion_cuda::CudaBackend;
use ternion_cuda::tiles::{Operands, TileOverride};

const ROWS: usize = 16384;
const WIDTH: usize = 768;
const HIDDEN: usize = 3072;

/// A product: its name, n and k, its epilogue, and whether b is the transpose of a weight.
struct Product {
    name: &'static str,
    n: usize,
    k: usize,
    epilogue: Epilogue,
    is_forward: bool,
}

fn products() -> [Product; 7] {
    let gelu = Some(UnaryOp::GeluTanh);
    let bias = Epilogue { bias: true, ..Epilogue::NONE };
    let activation = Epilogue { activation: gelu, pre_activation: true, ..bias };
    let gradient = Epilogue { activation_grad: gelu, column_sums: true, ..Epilogue::NONE };
    let residual = Epilogue { residual: true, out_dtype: Some(DType::F32), ..bias };
    let product = |name, n, k, epilogue, is_forward| Product { name, n, k, epilogue, is_forward };
    [
        product("bias", HIDDEN, WIDTH, bias, true),
        product("pre-activation", HIDDEN, WIDTH, activation, true),
        product("plain gradient", HIDDEN, WIDTH, Epilogue::NONE, false),
        product("gradient of activation", HIDDEN, WIDTH, gradient, false),
        product("short bias", WIDTH, WIDTH, bias, true),
        product("short residual", WIDTH, WIDTH, residual, true),
        product("residual", WIDTH, HIDDEN, residual, true),
    ]
}

/// Returns the names of the products.
pub fn names() -> [&'static str; 7] {
    products().map(|product| product.name)
}

/// Prints a line for each product and tile.
pub fn measure(clock: &Clock, arguments: &Arguments) -> Result<()> {
    let operands = Operands::Of(DType::BF16);
    let tiles: Vec<TileCost> = tiles::of(backend::<CudaBackend>(&clock.device)?, operands);
    for product in products().into_iter().filter(|product| product.name.contains(&arguments.only)) {
        let inputs = inputs(clock, &product)?;
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let call = || apply(Matmul { epilogue: product.epilogue, ..Matmul::PLAIN }, &inputs).map(drop);
        let of_tile = |tile: &TileCost| TileOverride { tile: Some(tile.name), splits: Some(1) };
        let mut tile_overrides = Vec::new();
        for one in tiles.iter().filter(|tile| is_measured(tile, arguments)).map(of_tile) {
            let (result, launched) = with_tile(one, call);
            result?;
            if launched.is_some_and(|launched| one.tile == Some(launched.tile)) {
                tile_overrides.push(one);
            }
        }
        let Product { name, n, k, .. } = product;
        for (tile_override, time) in tile_overrides.iter().zip(survey(clock, &tile_overrides, call)?) {
            let Some(milliseconds) = time else { continue };
            print_lines(json!({
                "kind": super::FUSED, "product": name, "m": ROWS, "n": n, "k": k, "tile": tile_override.tile,
                "us": milliseconds * 1e3
            }));
        }
    }
    Ok(())
}

/// Returns whether the tile is [comparable](is_of_fused) with those of fused products and has a
/// requested name.
fn is_measured(tile: &TileCost, arguments: &Arguments) -> bool {
    is_of_fused(tile) && tile.name.contains(&arguments.tile)
}

fn inputs(clock: &Clock, product: &Product) -> Result<Vec<Tensor>> {
    let Product { n, k, epilogue, is_forward, .. } = *product;
    let a = clock.randn(&[ROWS, k], DType::BF16)?;
    let b = match is_forward {
        true => clock.randn(&[n, k], DType::BF16)?.t()?,
        false => clock.randn(&[k, n], DType::BF16)?,
    };
    let mut inputs = vec![a, b];
    let out = epilogue.out_dtype.unwrap_or(DType::BF16);
    if epilogue.bias {
        inputs.push(clock.randn(&[n], out)?);
    }
    if epilogue.residual || epilogue.activation_grad.is_some() {
        inputs.push(clock.randn(&[ROWS, n], out)?);
    }
    Ok(inputs)
}
