//! Kernels of matrix products.

use super::{Source, TYPE, element};
use crate::variant::ACCESS;
use crate::variant::elementwise::Activation;
use crate::variant::gemm::{BlockShape, Engine, EpilogueVariant, GemmVariant, LoadMode, Part};

pub(super) fn source(variant: GemmVariant) -> Source {
    let GemmVariant { tile, a, b, operands, output, epilogue } = variant;
    let file = match tile.engine {
        Engine::Simt => "gemm/simt.cu",
        Engine::Mma => "gemm/mma.cu",
        Engine::Tf32 => "gemm/tf32.cu",
        Engine::WgmmaSplitK => "gemm/wgmma_split_k.cu",
        Engine::Wgmma | Engine::WgmmaTf32 | Engine::WgmmaBf16x6 => "gemm/wgmma.cu",
    };
    let BlockShape { m, n, k } = tile.block;
    let kernels: &[&str] = match epilogue {
        EpilogueVariant::RowSumsOfA => &["product", "sum_splits", "sum_parts"],
        _ => &["product", "sum_splits"],
    };
    let source = Source::new(file, kernels)
        .define_type(TYPE, operands)
        .define_type("TYPE_Y", output)
        .define_all([("TILE_M", m), ("TILE_N", n), ("STAGES", variant.stages())]);
    let source = with_epilogue(source, epilogue);
    let source = match tile.engine {
        Engine::WgmmaBf16x6 => source.define("BF16X6", 1),
        _ => source,
    };
    let source = match tile.part {
        // One block on a multiprocessor, 128 bytes along k.
        Part::Warpgroup { .. } => source,
        Part::SwappedWarpgroup { .. } => source.define_all([("BLOCKS_PER_SM", tile.resident)]),
        _ => source.define_all([("TILE_K", k), ("BLOCKS_PER_SM", tile.resident)]),
    };
    let source = match tile.part {
        Part::Warpgroup { .. } => {
            let [along_m, along_n] = tile.cluster_shape();
            let source = source.define_all([
                ("PINGPONG", usize::from(tile.is_ping_pong())),
                ("CLUSTER_DOWN", along_m),
                ("CLUSTER_ACROSS", along_n),
            ]);
            match variant.reads_registers() {
                true => source.define_all([
                    ("A_K_MAJOR", 0),
                    ("B_K_MAJOR", 1),
                    ("A_FROM_REGISTERS", 1),
                    ("TRANSPOSED", usize::from(variant.swaps_operands())),
                ]),
                false => source.define_all([
                    ("A_K_MAJOR", usize::from(a.is_k_major())),
                    ("B_K_MAJOR", usize::from(b.is_k_major())),
                ]),
            }
        }
        Part::SwappedWarpgroup { .. } => source.define_all([
            ("A_K_MAJOR", usize::from(a.is_k_major())),
            ("B_K_MAJOR", usize::from(b.is_k_major())),
        ]),
        Part::Thread { m, n, lanes_m } => source
            .define_all([("THREAD_M", m), ("THREAD_N", n), ("LANES_M", lanes_m)])
            .define("COPY_A", simt_copy(a))
            .define("COPY_B", simt_copy(b)),
        Part::Warp { m, n } => {
            let copy_elements =
                |load: LoadMode| if load.is_unaligned() { 1 } else { ACCESS / operands.size() };
            source.define_all([
                ("WARP_M", m),
                ("WARP_N", n),
                ("A_K_MAJOR", usize::from(a.is_k_major())),
                ("A_ALIGNMENT", copy_elements(a)),
                ("B_K_MAJOR", usize::from(b.is_k_major())),
                ("B_ALIGNMENT", copy_elements(b)),
            ])
        }
    };
    let types = format!("{} -> {}", element(operands), element(output));
    match epilogue {
        EpilogueVariant::BiasRelu => source.named(&format!("{tile:?} {a:?} {b:?}: {types}")),
        _ => source.named(&format!("{tile:?} {epilogue:?} {a:?} {b:?}: {types}")),
    }
}

/// Adds the epilogue.
fn with_epilogue(source: Source, epilogue: EpilogueVariant) -> Source {
    match epilogue {
        EpilogueVariant::BiasRelu => source.define("ACTIVATION", "(k.first ? unary_relu(x, k) : x)"),
        EpilogueVariant::PreActivation(activation) => source
            .define_all([("EPILOGUE", 1)])
            .define("ACTIVATED", format!("rounded_unary_{}(x)", activation.function().name())),
        EpilogueVariant::ActivationGrad(activation) => {
            let source = source
                .define_all([("EPILOGUE", 2)])
                .define("ACTIVATION_GRAD", format!("rounded_grad_{}(z, d)", activation.function().name()));
            // As gelu_bounded of lib/functions.cuh.
            match activation {
                Activation::GeluErf | Activation::GeluTanh => source.define_all([("BOUND", 40)]),
                _ => source,
            }
        }
        EpilogueVariant::Residual => source.define_all([("EPILOGUE", 3)]),
        EpilogueVariant::RowSumsOfA => source.define_all([("SUMS_OF_A", 1)]),
    }
}

/// Returns the SIMT kernel's name of a load mode. The modes of tensor cores, which no SIMT variant
/// has, get the name of the equivalent mode, so that every mode has a name and this function cannot
/// panic.
fn simt_copy(load: LoadMode) -> &'static str {
    match load {
        LoadMode::VectorMn | LoadMode::MnMajor => "VECTOR_MN",
        LoadMode::VectorK | LoadMode::KMajor => "VECTOR_K",
        LoadMode::ElementsK | LoadMode::KMajorElements => "ELEMENTS_K",
        LoadMode::Elements | LoadMode::MnMajorElements => "ELEMENTS",
    }
}
