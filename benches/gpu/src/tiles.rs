//! Products of random sizes with every tile, to fit the cost model that selects tiles
//! (`benches/peers/fit_tiles.py`).

mod fused;

use crate::clock::{Clock, ClockConfig, Measure, Pace, positive_milliseconds, print_lines};
use crate::device::{Kind, backend, hardware};
use clap::builder::PossibleValuesParser;
use serde_json::json;
use ternion::{DType, MatmulOptions, Result};
use ternion_cuda::CudaBackend;
use ternion_cuda::tiles::{self, LaunchedTile, Operands, TileCost, TileOverride, with_tile};

/// The arguments of the measurement.
#[derive(clap::Args)]
pub struct Arguments {
    /// Products of each kind of operands; each is measured with every tile, with and without
    /// split-K
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    products: u32,
    /// Seed of the sizes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Fraction of the products that have up to 64 rows
    #[arg(long, default_value_t = FEW_ROWS, allow_negative_numbers = true, value_parser = share)]
    few_rows: f64,
    /// Milliseconds to measure each tile of a product for
    #[arg(long, default_value_t = 3.0, allow_negative_numbers = true, value_parser = positive_milliseconds)]
    rep: f64,
    /// Kinds of operands
    #[arg(long, num_args = 1.., default_values = ["bf16", "f32", "tf32", "bf16x6"], value_parser = kinds())]
    kinds: Vec<String>,
    /// Only fused products whose names contain this
    #[arg(long, default_value = "", value_parser = part_of_fused)]
    only: String,
    /// Only tiles whose names contain this
    #[arg(long, default_value = "")]
    tile: String,
}

const KINDS: [(&str, Operands); 5] = [
    ("bf16", Operands::Of(DType::BF16)),
    ("f16", Operands::Of(DType::F16)),
    ("f32", Operands::Of(DType::F32)),
    ("tf32", Operands::Tf32),
    ("bf16x6", Operands::Bf16x6),
];

/// The products of GPT-2's layers with their fused epilogues.
const FUSED: &str = "fused";

fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(KINDS.map(|(name, _)| name).into_iter().chain([FUSED]))
}

fn share(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a fraction of 0 to 1".into()),
    }
}

fn part_of_fused(text: &str) -> std::result::Result<String, String> {
    among("a fused product's name", text, &fused::names())?;
    Ok(text.into())
}

/// Checks that `part` is contained in one of the existing names of `what`.
fn among(what: &str, part: &str, names: &[&str]) -> std::result::Result<(), String> {
    match names.iter().any(|name| name.contains(part)) {
        true => Ok(()),
        false => Err(format!("expected a part of {what} among {}, got {part}", names.join(", "))),
    }
}

/// The default fraction of products that have up to 64 rows.
const FEW_ROWS: f64 = 0.15;

/// The maximum multiplications and additions of a product.
const MAX_OPERATIONS: f64 = 2.0 * 8192.0 * 8192.0 * 8192.0;
/// The same for f32.
const MAX_F32_OPERATIONS: f64 = 2.0 * 4096.0 * 4096.0 * 4096.0;
/// The maximum elements of a tensor.
const MAX_ELEMENTS: usize = 1 << 28;

/// A product that takes this many times longer with a tile than with the fastest one is not worth
/// measuring.
const SKIP_FACTOR: f64 = 8.0;

/// How often every tile of a product is measured.
const PASSES: f64 = 2.0;

/// Numbers of splits that are measured in addition to the chosen one.
const SPLITS: [usize; 5] = [1, 2, 4, 8, 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Product {
    m: usize,
    n: usize,
    k: usize,
    matrices: usize,
    /// Whether a and b are stored in column-major order.
    transposed: [bool; 2],
}

const fn matrices([m, n, k]: [usize; 3], transposed: [bool; 2]) -> Product {
    Product { m, n, k, matrices: 1, transposed }
}

/// The products of the benchmark and of GPT-2, which precede those of random sizes.
const FIXED: [Product; 14] = [
    matrices([512; 3], [false; 2]),
    matrices([1000; 3], [false; 2]),
    matrices([1024; 3], [false; 2]),
    matrices([2048; 3], [false; 2]),
    matrices([4096; 3], [false; 2]),
    matrices([4096; 3], [false, true]),
    matrices([4096; 3], [true, false]),
    matrices([4096; 3], [true; 2]),
    matrices([16, 4096, 4096], [false, true]),
    matrices([16384, 768, 3072], [false, true]),
    matrices([16384, 3072, 768], [false, true]),
    matrices([16384, 2304, 768], [false; 2]),
    matrices([3072, 768, 16384], [true, false]),
    matrices([16384, 50304, 768], [false, true]),
];

/// A generator of pseudorandom numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a size from `min_size` to `max_size`, log-uniformly distributed; a multiple of 8,
    /// and of 64 every other time.
    fn size(&mut self, min_size: f64, max_size: f64) -> usize {
        let size = min_size * (max_size / min_size).powf(self.next());
        let multiple = if self.next() < 0.5 { 8 } else { 64 };
        (size as usize).next_multiple_of(multiple).max(8)
    }

    fn product(&mut self, max_operations: f64, few_rows: f64) -> Product {
        loop {
            let is_batched = self.next() < 0.15;
            let is_skinny = self.next() < few_rows;
            let m = if is_skinny { self.size(1.0, 64.0) } else { self.size(64.0, 32768.0) };
            let (n, k) = (self.size(64.0, 32768.0), self.size(64.0, 32768.0));
            let matrices = if is_batched { 1 + (self.next() * 48.0) as usize } else { 1 };
            let transposed = [self.next() < 0.3, self.next() < 0.6];
            let operations = 2.0 * (m * n) as f64 * (k * matrices) as f64;
            let largest = matrices * (m * k).max(n * k).max(m * n);
            if operations <= max_operations && largest <= MAX_ELEMENTS {
                return Product { m, n, k, matrices, transposed };
            }
        }
    }
}

/// Prints a line of JSON for each tile, and for each tile of each product.
pub fn run(arguments: &Arguments) -> std::result::Result<(), String> {
    check_only(arguments)?;
    let config = ClockConfig {
        kind: Kind::Cuda,
        name: "cuda",
        measure: Measure::Median,
        pace: Pace::SURVEY,
        milliseconds: arguments.rep / PASSES,
        steps: 1,
    };
    let clock = Clock::new(config).map_err(|error| error.to_string())?;
    check_tile(&clock, arguments)?;
    print_lines(about(&clock).map_err(|error| error.to_string())?);
    for name in &arguments.kinds {
        let measured = match operands_of(name) {
            Some(operands) => measure(&clock, arguments, name, operands),
            None => fused::measure(&clock, arguments),
        };
        measured.map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Returns the operands of a kind; `None` for fused products, which are measured separately.
fn operands_of(kind: &str) -> Option<Operands> {
    KINDS.iter().find(|(known, _)| *known == kind).map(|(_, operands)| *operands)
}

/// Checks that `--only`, which selects fused products, has products to select from.
fn check_only(arguments: &Arguments) -> std::result::Result<(), String> {
    match arguments.only.is_empty() || arguments.kinds.iter().any(|kind| kind == FUSED) {
        true => Ok(()),
        false => Err(format!(
            "--only {}: expected {FUSED} among the kinds, got {}",
            arguments.only,
            arguments.kinds.join(", ")
        )),
    }
}

/// Checks that a kind of operands has a tile with this name.
fn check_tile(clock: &Clock, arguments: &Arguments) -> std::result::Result<(), String> {
    if arguments.tile.is_empty() {
        return Ok(());
    }
    let cuda = backend::<CudaBackend>(&clock.device).map_err(|error| error.to_string())?;
    let mut names: Vec<&str> = arguments.kinds.iter().flat_map(|kind| names_of(cuda, kind)).collect();
    names.sort_unstable();
    names.dedup();
    among("a tile's name", &arguments.tile, &names).map_err(|error| format!("--tile: {error}"))
}

/// Returns the names of a kind's tiles.
fn names_of(cuda: &CudaBackend, kind: &str) -> Vec<&'static str> {
    let tiles = match operands_of(kind) {
        Some(operands) => tiles::of(cuda, operands),
        None => tiles::of(cuda, Operands::Of(DType::BF16)).into_iter().filter(is_of_fused).collect(),
    };
    tiles.iter().map(|tile| tile.name).collect()
}

/// Returns whether fused products can use the tile, or it is similar to the tiles that they can
/// use.
fn is_of_fused(tile: &TileCost) -> bool {
    tile.block[0] == 128 && tile.name.starts_with("wgmma")
}

/// Returns the line about the run.
fn about(clock: &Clock) -> Result<serde_json::Value> {
    let multiprocessors = tiles::multiprocessors(backend::<CudaBackend>(&clock.device)?);
    Ok(json!({"run": {"device": hardware(&clock.device), "multiprocessors": multiprocessors}}))
}

fn measure(clock: &Clock, arguments: &Arguments, kind: &str, operands: Operands) -> Result<()> {
    let mut tiles = tiles::of(backend::<CudaBackend>(&clock.device)?, operands);
    tiles.retain(|tile| tile.name.contains(&arguments.tile));
    for tile in &tiles {
        print_lines(describe(kind, tile));
    }
    let max_operations =
        if operands == Operands::Of(DType::F32) { MAX_F32_OPERATIONS } else { MAX_OPERATIONS };
    for product in FIXED {
        measure_tiles(clock, kind, operands, product, &tiles)?;
    }
    let mut random = Random(arguments.seed);
    for _ in 0..arguments.products {
        let product = random.product(max_operations, arguments.few_rows);
        measure_tiles(clock, kind, operands, product, &tiles)?;
    }
    Ok(())
}

fn describe(kind: &str, tile: &TileCost) -> serde_json::Value {
    let costs =
        [tile.nanoseconds_per_k, tile.start_microseconds, tile.lone_block_factor, tile.wave_microseconds];
    let TileCost { name, block, resident, cluster, .. } = tile;
    json!({"kind": kind, "tile": name, "block": block, "resident": resident, "cluster": cluster, "costs": costs})
}

/// Measures a product with every tile, and with the tile that the cost model selects.
fn measure_tiles(
    clock: &Clock,
    kind: &str,
    operands: Operands,
    product: Product,
    tiles: &[TileCost],
) -> Result<()> {
    let Product { m, n, k, matrices, transposed } = product;
    let dtype = if let Operands::Of(dtype) = operands { dtype } else { DType::F32 };
    let matrix = |rows: usize, columns: usize, is_transposed: bool| match is_transposed {
        true => clock.randn(&[matrices, columns, rows], dtype)?.transpose(1, 2),
        false => clock.randn(&[matrices, rows, columns], dtype),
    };
    let (a, b) = (matrix(m, k, transposed[0])?, matrix(k, n, transposed[1])?);
    let options = MatmulOptions {
        tf32: operands == Operands::Tf32,
        bf16x6: operands == Operands::Bf16x6,
        ..MatmulOptions::default()
    };
    let call = || a.matmul_with(&b, options).map(drop);
    let candidates = candidates(tiles, call)?;
    let tile_overrides: Vec<TileOverride> =
        candidates.iter().map(|candidate| candidate.tile_override).collect();
    for (Candidate { launched, is_chosen, .. }, time) in
        candidates.iter().zip(survey(clock, &tile_overrides, call)?)
    {
        let Some(milliseconds) = time else { continue };
        print_lines(json!({
            "kind": kind, "m": m, "n": n, "k": k, "matrices": matrices, "transposed": transposed, "tile": launched.tile,
            "splits": launched.splits, "copies": launched.copies, "chosen": is_chosen, "us": milliseconds * 1e3
        }));
    }
    Ok(())
}

/// A way to compute a product.
struct Candidate {
    tile_override: TileOverride,
    launched: LaunchedTile,
    is_chosen: bool,
}

/// Returns the tile and splits that the cost model selects, and every tile with each number of
/// splits that it supports, without duplicates.
fn candidates(tiles: &[TileCost], call: impl Fn() -> Result<()>) -> Result<Vec<Candidate>> {
    let chosen = TileOverride::default();
    let by_tile = tiles
        .iter()
        .flat_map(|tile| SPLITS.map(|splits| TileOverride { tile: Some(tile.name), splits: Some(splits) }));
    let mut candidates: Vec<Candidate> = Vec::new();
    for tile_override in std::iter::once(chosen).chain(by_tile) {
        let (result, Some(launched)) = with_tile(tile_override, &call) else { continue };
        result?;
        let is_chosen = tile_override == chosen;
        let is_known = candidates.iter().any(|known| known.launched == launched);
        if is_chosen || tile_override.tile == Some(launched.tile) && !is_known {
            candidates.push(Candidate { tile_override, launched, is_chosen });
        }
    }
    Ok(candidates)
}

/// Returns the milliseconds of each tile override, the lower one of two medians; `None` for
/// overrides that are too slow. The clock of a device that does not rest drops occasionally, for
/// longer than the calls of a median take. All of these calls are slow then, and more calls in a
/// row would not help, but calls at a later time do. The second pass runs in reverse order, so that
/// an override that followed slow calls in the first pass precedes them in the second.
fn survey(
    clock: &Clock,
    tile_overrides: &[TileOverride],
    call: impl Fn() -> Result<()>,
) -> Result<Vec<Option<f64>>> {
    let mut fastest = f64::INFINITY;
    let mut times = Vec::new();
    for &tile_override in tile_overrides {
        let time = time(clock, tile_override, &call, fastest)?;
        fastest = time.map_or(fastest, |time| fastest.min(time));
        times.push(time);
    }
    for (&tile_override, time) in tile_overrides.iter().zip(&mut times).rev() {
        if let Some(first) = time {
            let (second, _) = with_tile(tile_override, || clock.median(&call));
            *first = first.min(second?);
        }
    }
    Ok(times)
}

/// Returns the median milliseconds, or `None` if the first call shows that the override is too
/// slow.
fn time(
    clock: &Clock,
    tile_override: TileOverride,
    call: impl Fn() -> Result<()>,
    fastest: f64,
) -> Result<Option<f64>> {
    let (result, _) = with_tile(tile_override, || {
        let one_call = clock.one(&call)?;
        if one_call > SKIP_FACTOR * fastest {
            return Ok(None);
        }
        clock.median(&call).map(Some)
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parsed(line: &[&str]) -> std::result::Result<Arguments, String> {
        let line = Line::try_parse_from(std::iter::once("tiles").chain(line.iter().copied()));
        line.map(|line| line.arguments).map_err(|error| error.to_string())
    }

    fn rejected(line: &[&str]) -> String {
        parsed(line).err().unwrap_or_else(|| panic!("{line:?} was taken"))
    }

    #[test]
    fn kinds_are_known_before_anything_is_measured() {
        let message = rejected(&["--kinds", "bf16", "nothing"]);
        assert!(message.contains("invalid value 'nothing'"), "{message}");
        assert!(message.contains("[possible values: bf16, f16, f32, tf32, bf16x6, fused]"), "{message}");
        let every = parsed(&["--kinds", "bf16", "f16", "f32", "tf32", "bf16x6", "fused"]).expect("kinds");
        let fused: Vec<&String> = every.kinds.iter().filter(|kind| operands_of(kind).is_none()).collect();
        assert_eq!(fused, [FUSED]);
        let defaults = parsed(&[]).expect("all have defaults");
        assert!(defaults.kinds.iter().all(|kind| operands_of(kind).is_some()));
        assert_eq!((defaults.products, defaults.few_rows, defaults.rep), (100, FEW_ROWS, 3.0));
    }

    #[test]
    fn numbers_are_within_their_limits() {
        for text in ["2", "-0.1", "nan", "inf", "some"] {
            let message = rejected(&["--few-rows", text]);
            assert!(message.contains("expected a fraction of 0 to 1"), "{message}");
        }
        for (text, share) in [("0", 0.0), ("1", 1.0)] {
            assert_eq!(parsed(&["--few-rows", text]).map(|arguments| arguments.few_rows), Ok(share));
        }
        for text in ["-1", "0", "nan", "inf"] {
            let message = rejected(&["--rep", text]);
            assert!(message.contains("expected milliseconds, a finite number above 0"), "{message}");
        }
        assert!(rejected(&["--products", "0"]).contains("0 is not in 1.."));
    }

    #[test]
    fn what_is_picked_is_there() {
        let message = rejected(&["--kinds", "fused", "--only", "zzz"]);
        assert!(message.contains("expected a part of a fused product's name among bias, "), "{message}");
        for only in ["", "short", "gradient"] {
            let arguments = parsed(&["--kinds", "fused", "--only", only]).expect("products");
            assert_eq!(check_only(&arguments), Ok(()));
        }
        let unused = parsed(&["--kinds", "bf16", "f32", "--only", "short"]).expect("a product");
        let message = "--only short: expected fused among the kinds, got bf16, f32";
        assert_eq!(check_only(&unused), Err(message.into()));
        assert_eq!(among("a tile's name", "128", &["mma_64", "wgmma_128"]), Ok(()));
        let message = "expected a part of a tile's name among mma_64, wgmma_128, got zzz";
        assert_eq!(among("a tile's name", "zzz", &["mma_64", "wgmma_128"]), Err(message.into()));
    }

    #[test]
    fn products_are_within_their_limits_and_the_same_for_a_seed() {
        let products_of = |seed: u64| {
            let mut random = Random(seed);
            (0..500).map(|_| random.product(MAX_OPERATIONS, FEW_ROWS)).collect::<Vec<_>>()
        };
        assert_eq!(products_of(7), products_of(7));
        assert_ne!(products_of(7), products_of(8));
        for Product { m, n, k, matrices, .. } in products_of(1) {
            assert!([m, n, k].iter().all(|size| size % 8 == 0), "what tensor maps can describe");
            assert!(2.0 * (m * n) as f64 * (k * matrices) as f64 <= MAX_OPERATIONS);
            assert!(matrices * (m * k).max(n * k).max(m * n) <= MAX_ELEMENTS);
        }
        assert!(
            products_of(1).iter().any(|product| product.m <= 64)
                && products_of(1).iter().any(|p| p.matrices > 1)
        );
        let mut random = Random(3);
        assert!((0..100).all(|_| random.product(MAX_OPERATIONS, 1.0).m <= 64), "only few rows");
    }
}
