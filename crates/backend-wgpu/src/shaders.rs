//! The WGSL sources of `shaders/`, each by its path: the shaders themselves, and the libraries
//! whose declarations they reference.

/// The arithmetic of a shader. It determines which library files define the number type and its
/// functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// f32, and 16-bit floats, which are widened.
    Float,
    /// i32, and i16 and i8, which are widened.
    Int,
    /// u8 and bool, as numbers from 0 to 255.
    Byte,
    /// i64, as two words.
    Wide,
    /// u32, and u16, which is widened.
    Unsigned,
    /// u64, as two words.
    WideUnsigned,
}

/// The source of a file of `shaders/`.
macro_rules! source {
    ($path:literal) => {
        include_str!(concat!("../shaders/", $path))
    };
}

/// Declares the shaders, each with its path.
macro_rules! shaders {
    ($($name:ident = $path:literal,)+) => {
        /// A file with an entry point: the template of all shaders that are generated from it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Shader {
            $($name,)+
        }

        impl Shader {
            /// Returns the path of its file in `shaders/`.
            pub(crate) const fn path(self) -> &'static str {
                match self {
                    $(Shader::$name => $path,)+
                }
            }

            pub(crate) const fn source(self) -> &'static str {
                match self {
                    $(Shader::$name => source!($path),)+
                }
            }
        }

        #[cfg(test)]
        const SHADERS: &[Shader] = &[$(Shader::$name,)+];
    };
}

shaders! {
    Attention = "attention/attention.wgsl",
    AttentionCooperative = "attention/cooperative.wgsl",
    AttentionCooperativeGrad = "attention/cooperative_grad.wgsl",
    AttentionGemm = "attention/gemm.wgsl",
    AttentionGrad = "attention/grad.wgsl",
    AttentionGradRows = "attention/grad_rows.wgsl",
    AttentionGradVec4 = "attention/grad_vec4.wgsl",
    AttentionPackF16 = "attention/pack_f16.wgsl",
    AttentionVec4 = "attention/attention_vec4.wgsl",
    Concat = "ops/concat.wgsl",
    Conv2d = "gemm/conv2d.wgsl",
    Cumulative = "rows/cumulative.wgsl",
    Elementwise = "ops/elementwise.wgsl",
    ExponentialsVec4 = "rows/exponentials_vec4.wgsl",
    Gather = "ops/gather.wgsl",
    Im2col = "ops/im2col.wgsl",
    Matmul = "gemm/matmul.wgsl",
    MatmulCooperative = "gemm/matmul_cooperative.wgsl",
    MultiTensor = "ops/multi_tensor.wgsl",
    MultiTensorRoot = "ops/multi_tensor_root.wgsl",
    NormGrad = "rows/norm_grad.wgsl",
    NormGradVec4 = "rows/norm_grad_vec4.wgsl",
    Pad = "ops/pad.wgsl",
    Pool = "ops/pool.wgsl",
    Radix = "ops/radix.wgsl",
    Random = "ops/random.wgsl",
    Rows = "rows/rows.wgsl",
    Scatter = "ops/scatter.wgsl",
    Sort = "ops/sort.wgsl",
    Step = "ops/step.wgsl",
    StepVec4 = "ops/step_vec4.wgsl",
    SumsVec4 = "rows/sums_vec4.wgsl",
    Transpose = "ops/transpose.wgsl",
}

/// Returns the sources that define the number type of a class and its functions. All classes use
/// the same names.
pub(crate) const fn class_sources(class: Class) -> &'static [&'static str] {
    match class {
        Class::Float => &[
            source!("lib/float.wgsl"),
            source!("lib/half_functions.wgsl"),
            source!("lib/elementary.wgsl"),
            source!("lib/power.wgsl"),
            source!("lib/trigonometry.wgsl"),
            source!("lib/normal.wgsl"),
        ],
        Class::Int => &[source!("lib/int.wgsl")],
        Class::Byte => &[source!("lib/byte.wgsl")],
        Class::Wide => &[WIDE],
        // Definitions of a file replace those of the files before it.
        Class::Unsigned => &[source!("lib/byte.wgsl"), source!("lib/unsigned.wgsl")],
        Class::WideUnsigned => &[WIDE, source!("lib/wide_unsigned.wgsl")],
    }
}

/// The functions of 64-bit numbers are also used by other classes, for indices and casts.
const WIDE: &str = source!("lib/wide.wgsl");

/// Declarations that shaders of every class may reference.
pub(crate) const COMMON: &[&str] = &[
    source!("lib/half_bits.wgsl"),
    source!("lib/cast.wgsl"),
    source!("lib/index.wgsl"),
    source!("lib/write.wgsl"),
    source!("lib/philox.wgsl"),
    source!("lib/window.wgsl"),
    source!("rows/row.wgsl"),
    source!("rows/row_vec4.wgsl"),
    source!("rows/reduce.wgsl"),
    source!("rows/softmax.wgsl"),
    source!("rows/norm.wgsl"),
    source!("rows/loss.wgsl"),
    source!("ops/element_result.wgsl"),
    source!("ops/pool_window.wgsl"),
    source!("ops/radix_digits.wgsl"),
    source!("ops/scatter_index.wgsl"),
    source!("ops/sort_key.wgsl"),
    source!("ops/squares.wgsl"),
    source!("ops/step_rule.wgsl"),
    source!("gemm/tile.wgsl"),
    source!("gemm/tile_vec4.wgsl"),
    source!("attention/tile.wgsl"),
    source!("attention/tile_vec4.wgsl"),
    source!("attention/power_of_two.wgsl"),
    source!("attention/gemm_tile.wgsl"),
    WIDE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Collects the contents of all files below a folder.
    fn files(folder: &Path, sources: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => files(&path, sources),
                false => sources.push(std::fs::read_to_string(&path).expect("a text")),
            }
        }
    }

    #[test]
    fn every_file_is_in_the_table() {
        let mut sources = Vec::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders"), &mut sources);
        let classes =
            [Class::Float, Class::Int, Class::Byte, Class::Wide, Class::Unsigned, Class::WideUnsigned];
        let mut known: Vec<&str> = SHADERS.iter().map(|shader| shader.source()).collect();
        known.extend(COMMON);
        known.extend(classes.into_iter().flat_map(class_sources));
        let missing: Vec<&str> = sources
            .iter()
            .filter(|text| !known.contains(&text.as_str()))
            .map(|text| text.lines().next().unwrap_or_default())
            .collect();
        assert!(missing.is_empty(), "not in the table: {missing:?}");
    }
}
