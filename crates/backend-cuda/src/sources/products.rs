//! Units of matrix products and of attention: their names carry how tiles are filled.

use super::*;
use crate::ops::attention::{backward_tiles, forward_tiles};
use crate::ops::matmul::{self, Factors, Form};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// Names by their three parts: each launch asks for one, and looking through them all takes longer than all else that is done for it.
type Names = LazyLock<FxHashMap<[&'static str; 3], &'static str>>;

fn by_parts(names: &[&'static str]) -> FxHashMap<[&'static str; 3], &'static str> {
    let parts = |name: &'static str| {
        let mut parts = name.split(' ');
        [(); 3].map(|()| parts.next().unwrap_or_default())
    };
    names.iter().map(|&name| (parts(name), name)).collect()
}

/// Names of attention's units: how products are formed, the width of the tiles, and which keys a query sees.
macro_rules! attention_names {
    ($($engine:literal: $($width:literal)*;)*) => {
        const ATTENTION_NAMES: &[&str] = &[$($(
            concat!($engine, " ", $width, " full"),
            concat!($engine, " ", $width, " band"),
            concat!($engine, " ", $width, " bool"),
            concat!($engine, " ", $width, " additive"),
            concat!($engine, " ", $width, " dropout"),
        )*)*];
    };
}
attention_names! {
    "mma": "32" "64" "128";
    "wgmma": "64" "128";
    "simt": "32" "64" "128";
    "rows": "0";
}

/// The name of attention's unit for an engine (`mma`, `wgmma`, `simt`; `rows`: the preparation of the gradient), a width, and a reach (`full`, `band`,
/// `bool`, `additive`; `dropout`: a band of which weights are dropped, as under a mask they may be).
pub(crate) fn attention_name(engine: &str, width: usize, reach: &str) -> &'static str {
    static NAMES: Names = LazyLock::new(|| by_parts(ATTENTION_NAMES));
    let width = match width {
        0 => "0",
        32 => "32",
        64 => "64",
        128 => "128",
        _ => "",
    };
    NAMES.get(&[engine, width, reach]).copied().unwrap_or_default()
}

impl Unit {
    pub(super) fn attention(&self) -> Source {
        let mut parts = self.name.split(' ');
        let (engine, width) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let reach = parts.next().unwrap_or_default();
        let mask = ["bool", "additive"].iter().position(|&kind| kind == reach).map_or(0, |at| at + 1);
        let band = engine != "rows" && reach != "full";
        let number = |value: usize| value.to_string();
        let mut defines = vec![
            ("TYPE", element(self.types[0]).to_string()),
            ("BAND", number(usize::from(band))),
            ("MASK", number(mask)),
            ("DROPOUT", number(usize::from(mask > 0 || reach == "dropout"))),
            ("ALIGNED", "1".to_string()),
        ];
        if engine != "rows" {
            defines.extend([("HEAD_DIM", width.to_string()), ("VALUE_DIM", width.to_string())]);
        }
        let width: usize = width.parse().unwrap_or(0);
        let forward = self.family == Family::Attention;
        if matches!(engine, "mma" | "wgmma") && forward {
            let tiles = forward_tiles(engine, width, mask > 0, reach == "dropout");
            defines.extend([
                ("ROW_TILES", number(tiles.row_tiles)),
                ("STEP", number(tiles.step)),
                ("WARPS", number(tiles.warps)),
                ("BLOCKS", number(tiles.blocks)),
            ]);
        } else if matches!(engine, "mma" | "wgmma") {
            let [queries, keys] = backward_tiles(engine, width, mask > 0, reach == "dropout");
            defines.extend([
                ("Q_ROW_TILES", number(queries.row_tiles)),
                ("Q_STEP", number(queries.step)),
                ("Q_WARPS", number(queries.warps)),
                ("Q_BLOCKS", number(queries.blocks)),
                ("K_ROW_TILES", number(keys.row_tiles)),
                ("K_STEP", number(keys.step)),
                ("K_WARPS", number(keys.warps)),
                ("K_BLOCKS", number(keys.blocks)),
            ]);
        }
        if engine == "wgmma" {
            defines.push(("WGMMA", "1".to_string()));
        }
        let file = match (engine, forward) {
            ("mma" | "wgmma", true) => "attention/forward.cu",
            ("mma" | "wgmma", false) => "attention/grad.cu",
            ("simt", true) => "attention/simt_forward.cu",
            ("simt", false) => "attention/simt_grad.cu",
            _ => "attention/grad_rows.cu",
        };
        let kernels: &'static [&'static str] = match self.family {
            Family::Attention => &["attention"],
            Family::AttentionGrad => &["attention_grad_queries", "attention_grad_keys"],
            _ => &["attention_grad_rows"],
        };
        let name = format!("{file} ({}: {})", self.name, element(self.types[0]));
        Source { name, defines, kernels, file }
    }

    /// Whether a device of this architecture (`sm_90a`) can ask for the unit.
    pub fn is_for(&self, architecture: &str) -> bool {
        !self.name.starts_with("wgmma") || architecture == "sm_90a"
    }
}

/// Names of matmul's units: the tile, and the forms in which a and b are copied into it.
macro_rules! matmul_names {
    ($($tile:literal)*; $($tensor:literal)*; $($elements:literal)*) => {
        const MATMUL_NAMES: &[&str] = &[
            $(
                concat!($tile, " packs packs"), concat!($tile, " packs run_packs"), concat!($tile, " packs runs"),
                concat!($tile, " packs elements"), concat!($tile, " run_packs packs"),
                concat!($tile, " run_packs run_packs"), concat!($tile, " run_packs runs"),
                concat!($tile, " run_packs elements"), concat!($tile, " runs packs"),
                concat!($tile, " runs run_packs"), concat!($tile, " runs runs"), concat!($tile, " runs elements"),
                concat!($tile, " elements packs"), concat!($tile, " elements run_packs"),
                concat!($tile, " elements runs"), concat!($tile, " elements elements"),
            )*
            $(
                concat!($tensor, " inner inner"), concat!($tensor, " inner outer"),
                concat!($tensor, " outer inner"), concat!($tensor, " outer outer"),
            )*
            $(
                concat!($elements, " inner inner_elements"), concat!($elements, " inner outer_elements"),
                concat!($elements, " outer inner_elements"), concat!($elements, " outer outer_elements"),
                concat!($elements, " inner_elements inner"), concat!($elements, " inner_elements outer"),
                concat!($elements, " inner_elements inner_elements"), concat!($elements, " inner_elements outer_elements"),
                concat!($elements, " outer_elements inner"), concat!($elements, " outer_elements outer"),
                concat!($elements, " outer_elements inner_elements"), concat!($elements, " outer_elements outer_elements"),
            )*
        ];
    };
}
matmul_names!("C8" "M8" "S32" "V8" "W8" "W16"; "T2" "T10" "T8" "T12" "T11" "F2" "F10" "F8" "F12" "F11"; "E12" "G12");

/// The name of matmul's unit for a tile and the forms of its operands.
pub(crate) fn matmul_name(tile: &str, [a, b]: [Form; 2]) -> &'static str {
    static NAMES: Names = LazyLock::new(|| by_parts(MATMUL_NAMES));
    NAMES.get(&[tile, a.name(), b.name()]).copied().unwrap_or_default()
}

impl Unit {
    pub(super) fn matmul(&self) -> Source {
        let mut parts = self.name.split(' ');
        let tile_name = parts.next().unwrap_or_default();
        let forms = [parts.next().unwrap_or_default(), parts.next().unwrap_or_default()];
        let [operands, output, _] = self.types;
        let of = |factors| matmul::tiles(factors).iter().find(|tile| tile.name == tile_name);
        let (tile, rounds) = match of(Factors::Of(operands)) {
            None if operands == DType::F32 => (of(Factors::Tf32), true),
            tile => (tile, false),
        };
        let mut defines = vec![
            ("TYPE", element(operands).to_string()),
            ("TYPE_Y", element(output).to_string()),
            ("BIAS", "BIAS_OF_COLUMNS".to_string()),
            ("ACTIVATION", "(k.first ? unary_relu(x, k) : x)".to_string()),
        ];
        let tensor = rounds || operands.is_half();
        if let Some(tile) = tile {
            let number = |value: usize| value.to_string();
            let parts = if tensor { ["WARP_M", "WARP_N"] } else { ["THREAD_M", "THREAD_N"] };
            defines.extend(["TILE_M", "TILE_N", "TILE_K"].into_iter().zip(tile.block.map(number)));
            defines.extend(parts.into_iter().zip(tile.part.map(number)));
            defines.extend([("STAGES", number(tile.stages)), ("RESIDENT", number(tile.resident))]);
            if !tensor {
                defines.push(("LANES_M", number(tile.lanes)));
            }
        }
        for (at, form) in forms.into_iter().enumerate() {
            if tensor {
                let names = [("A_INNER", "A_COPY"), ("B_INNER", "B_COPY")][at];
                let copied = if form.ends_with("elements") { 1 } else { ACCESS / operands.size() };
                defines.extend([
                    (names.0, u8::from(form.starts_with("inner")).to_string()),
                    (names.1, copied.to_string()),
                ]);
            } else {
                defines.push((["COPY_A", "COPY_B"][at], form.to_uppercase()));
            }
        }
        let file = match (tensor, rounds) {
            (false, _) => "gemm/simt.cu",
            (true, false) => "gemm/mma.cu",
            (true, true) => "gemm/tf32.cu",
        };
        let name = format!("{file} ({}: {} -> {})", self.name, element(operands), element(output));
        Source { name, defines, kernels: &["product", "sum_splits"], file }
    }
}

pub(super) fn matmul_units() -> Vec<Unit> {
    let mut units = Vec::new();
    for factors in Factors::all() {
        let dtype = factors.dtype();
        let forms: &[Form] = if factors.on_tensor_cores() { &Form::TENSOR } else { &Form::SIMT };
        for tile in matmul::tiles(factors) {
            let pairs = forms.iter().flat_map(|&a| forms.iter().map(move |&b| [a, b]));
            for pair in pairs.filter(|&pair| matmul::has_unit(tile, dtype, pair)) {
                let unit = |output: DType| Unit {
                    family: Family::Matmul,
                    name: matmul_name(tile.name, pair),
                    types: [dtype, output, dtype],
                };
                units.push(unit(dtype));
                units.extend(dtype.is_half().then(|| unit(DType::F32)));
            }
        }
    }
    units
}

pub(super) fn attention_units() -> Vec<Unit> {
    let mut units = Vec::new();
    for name in ATTENTION_NAMES {
        let halves = [DType::F16, DType::BF16];
        let of = |family: Family, dtypes: &[DType]| -> Vec<Unit> {
            dtypes.iter().map(|&dtype| Unit::of(family, name, dtype)).collect()
        };
        match name.split(' ').next() {
            Some("rows") if name.ends_with("band") || name.ends_with("dropout") => {}
            Some("rows") => {
                units.extend(of(Family::AttentionGradRows, &[DType::F32, DType::F16, DType::BF16]))
            }
            Some("simt") => {
                units.extend(of(Family::Attention, &[DType::F32]));
                units.extend(of(Family::AttentionGrad, &[DType::F32]));
            }
            _ => {
                units.extend(of(Family::Attention, &halves));
                units.extend(of(Family::AttentionGrad, &halves));
            }
        }
    }
    units.extend(ops::softmax::units());
    units.extend(ops::norm::units());
    units.extend(ops::loss::units());
    units.extend(ops::batch_norm::units());
    units
}
