//! The attention ladder: `y = softmax(scale q k^T) v` by seven rungs, from three naive kernels to
//! ping-pong scheduling of two consumer warpgroups. Each adds one idea to the previous one
//! (`kernels/attention_ladder`, `docs/kernels/attention-ladder.md`). The ladder is for study and
//! measurement only:
//! [`Tensor::scaled_dot_product_attention`](ternion_core::Tensor::scaled_dot_product_attention)
//! never uses these kernels.

use crate::backend::CudaBackend;
use crate::driver::tensor_map::{ALIGNMENT, Axes, Swizzle, TensorMap, TensorMapSpec};
use crate::launch::Launch;
use crate::variant::attention_ladder::AttentionLadderVariant;
use smallvec::smallvec;
use ternion_core::backend::View;
use ternion_core::{DType, Error, Result};

pub use crate::variant::attention_ladder::{Mask, Rung, WIDTHS};

const OP: &str = "attention_ladder";

/// Columns of a TMA box of an operand: 64 elements of 16 bits are the 128 bytes that the swizzle
/// permits.
const BOX_COLUMNS: usize = 64;
/// Rows of a TMA box of q.
const BOX_QUERIES: usize = 64;
/// The maximum number of blocks of a grid along its second and third axes.
const MAX_GRID: usize = 65535;
/// Rows and columns of a block's tile of scores in the tiled rung, and queries of a block of its
/// second product.
const TILE: usize = 128;
/// Rows that a block of the softmax kernel normalizes, one for each warp.
const ROWS_OF_SOFTMAX: usize = 8;
/// Keys of a block of the naive rung's scores.
const SCORE_KEYS: usize = 32;
/// Queries of a block of the naive rung's scores.
const SCORE_QUERIES: usize = 8;

/// The parameters, like `Attention` in the kernels.
#[repr(C)]
struct Attention {
    y: u64,
    q: u64,
    k: u64,
    v: u64,
    scores: u64,
    tokens: u32,
    pitch: u32,
    scale: f32,
}

/// The parameters, like `MappedAttention` in the kernels.
#[repr(C)]
struct MappedAttention {
    q: TensorMap,
    k: TensorMap,
    v: TensorMap,
    y: u64,
    tokens: u32,
    scale: f32,
}

/// Options of a rung, which computes `y = softmax(scale q k^T) v`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// The factor of the products; greater than 0.
    pub scale: f32,
    /// Which keys a query attends to.
    pub mask: Mask,
}

/// The tensors that a rung reads and writes. All but the workspace are `[heads, tokens, width]`,
/// where `heads` is the batch size times the heads of a sequence.
#[derive(Clone, Copy)]
pub struct Operands<'a> {
    /// Queries.
    pub q: &'a View<'a>,
    /// Keys.
    pub k: &'a View<'a>,
    /// Values.
    pub v: &'a View<'a>,
    /// The output.
    pub y: &'a View<'a>,
    /// For rungs that store scores, at least
    /// [`workspace_elements`](Rung::workspace_elements) elements of f32.
    pub workspace: Option<&'a View<'a>>,
}

/// Returns whether the backend's device has the instructions of this rung.
pub fn runs(backend: &CudaBackend, rung: Rung) -> bool {
    rung.architectures().contain(backend.gpu.architecture())
}

/// Queues attention with a rung. q, k, v and y have the rung's [dtype](Rung::dtype) and a width of
/// [`WIDTHS`]. All tensors are contiguous and aligned to 16 bytes.
///
/// # Errors
/// The dtypes, shapes, layouts or addresses differ from these; there are no heads or no tokens; q,
/// k, v or y has 2^31 elements or more; there are more heads or tokens than a grid has blocks for;
/// the scale is not positive and finite; the workspace is missing, too small, or passed to a rung
/// that does not use it; or the device lacks the rung's instructions.
pub fn forward(backend: &CudaBackend, rung: Rung, options: Options, operands: Operands<'_>) -> Result<()> {
    let Operands { q, k, v, y, workspace } = operands;
    let sizes = sizes(rung, [q, k, v, y])?;
    check_scale(rung, options.scale)?;
    check_workspace(rung, sizes, workspace)?;
    let launches = launches(rung, options.mask, sizes)?;
    let gpu = &backend.gpu;
    let mut addresses = [0; 5];
    let names = ["q", "k", "v", "y", "workspace"];
    let views = [q, k, v, y].into_iter().chain(workspace);
    for (address, (name, view)) in addresses.iter_mut().zip(names.into_iter().zip(views)) {
        *address = gpu.address(OP, view)?;
        if !address.is_multiple_of(ALIGNMENT) {
            let detail = format!("{name} that begins at a multiple of {ALIGNMENT} bytes, got {address:#x}");
            return Err(rejected(rung, detail));
        }
    }
    let _guard = gpu.submission_guard();
    gpu.retain([q, k, v, y].into_iter().chain(workspace).map(|view| view.buffer))?;
    if rung.warpgroups().is_some() {
        let parameters = mapped_params(rung, sizes, addresses, options.scale)?;
        return launches.into_iter().try_for_each(|launch| gpu.launch(OP, launch, &parameters));
    }
    let [q, k, v, y, scores] = addresses;
    let pitch = rung.pitch(sizes[1]) as u32;
    let parameters = Attention { y, q, k, v, scores, tokens: sizes[1] as u32, pitch, scale: options.scale };
    launches.into_iter().try_for_each(|launch| gpu.launch(OP, launch, &parameters))
}

fn rejected(rung: Rung, detail: String) -> Error {
    Error::invalid(OP, format!("{}: expected {detail}", rung.name()))
}

/// Returns heads, tokens and width, if the rung supports these tensors.
fn sizes(rung: Rung, views: [&View<'_>; 4]) -> Result<[usize; 3]> {
    for (name, view) in ["q", "k", "v", "y"].into_iter().zip(views) {
        check_view(rung, name, view, rung.dtype())?;
        if view.layout.elements() >= 1 << 31 {
            let count = view.layout.elements();
            return Err(rejected(rung, format!("{name} of fewer than 2^31 elements, got {count}")));
        }
    }
    let [q, k, v, y] = views.map(|view| view.layout.shape());
    let sizes @ [heads, tokens, width] = q.to_array(OP)?;
    for (name, shape) in [("k", k), ("v", v), ("y", y)] {
        if shape.dims() != q.dims() {
            let detail = format!("{name} of the shape of q, {:?}, got {:?}", q.dims(), shape.dims());
            return Err(rejected(rung, detail));
        }
    }
    if WIDTHS.iter().all(|&known| known != width) {
        return Err(rejected(rung, format!("a width of {} or {}, got {width}", WIDTHS[0], WIDTHS[1])));
    }
    if heads.min(tokens) == 0 {
        return Err(rejected(rung, format!("at least a head and a token, got {heads} and {tokens}")));
    }
    Ok(sizes)
}

fn check_view(rung: Rung, name: &str, view: &View<'_>, dtype: DType) -> Result<()> {
    if view.dtype != dtype {
        return Err(rejected(rung, format!("{name} of {dtype}, got {}", view.dtype)));
    }
    if !view.layout.is_contiguous() {
        let strides = view.layout.strides();
        return Err(rejected(rung, format!("{name} row-major without gaps, got strides {strides:?}")));
    }
    Ok(())
}

fn check_scale(rung: Rung, scale: f32) -> Result<()> {
    if scale > 0.0 && scale.is_finite() {
        return Ok(());
    }
    Err(rejected(rung, format!("a finite scale above 0, got {scale}")))
}

fn check_workspace(rung: Rung, [heads, tokens, _]: [usize; 3], workspace: Option<&View<'_>>) -> Result<()> {
    let needed = rung.workspace_elements(heads, tokens);
    match workspace {
        None if needed == 0 => Ok(()),
        None => Err(rejected(rung, format!("a workspace of {needed} elements of f32, got none"))),
        Some(view) if needed == 0 => {
            Err(rejected(rung, format!("no workspace, got {} elements", view.layout.elements())))
        }
        Some(view) => {
            check_view(rung, "workspace", view, DType::F32)?;
            let count = view.layout.elements();
            match count < needed {
                true => Err(rejected(rung, format!("a workspace of {needed} elements of f32, got {count}"))),
                false => Ok(()),
            }
        }
    }
}

/// Returns the launches of the rung, in order.
fn launches(rung: Rung, mask: Mask, [heads, tokens, width]: [usize; 3]) -> Result<Vec<Launch>> {
    if heads > MAX_GRID {
        return Err(rejected(rung, format!("at most {MAX_GRID} heads, got {heads}")));
    }
    if rung == Rung::Tiled && tokens * rung.pitch(tokens) >= 1 << 32 {
        return Err(rejected(rung, format!("fewer than 2^32 scores of a head, got {tokens} tokens")));
    }
    let rows_grid = |rows: usize| [tokens.div_ceil(rows), heads, 1];
    let grids = match rung {
        Rung::Naive => vec![
            [tokens.div_ceil(SCORE_KEYS), tokens.div_ceil(SCORE_QUERIES), heads],
            rows_grid(ROWS_OF_SOFTMAX),
            rows_grid(rung.threads() / width),
        ],
        Rung::Tiled => vec![
            [tokens.div_ceil(TILE), tokens.div_ceil(TILE), heads],
            rows_grid(ROWS_OF_SOFTMAX),
            rows_grid(TILE),
        ],
        _ => vec![rows_grid(rung.queries())],
    };
    if let Some([_, blocks, _]) = grids.iter().find(|[_, blocks, _]| *blocks > MAX_GRID) {
        return Err(rejected(rung, format!("at most {MAX_GRID} blocks of queries, got {blocks}")));
    }
    let variant = AttentionLadderVariant { rung, width: width as u16, mask };
    let shared_bytes = rung.shared_bytes(width) as u32;
    let launch = |(kernel, grid): (usize, [usize; 3])| Launch {
        grid: grid.map(|blocks| blocks as u32),
        shared_bytes,
        ..Launch::new(variant, kernel, 1, rung.threads() as u32)
    };
    Ok(grids.into_iter().enumerate().map(launch).collect())
}

/// Returns the parameters of the rungs with warpgroups: tensor maps of q, k and v.
fn mapped_params(rung: Rung, sizes: [usize; 3], addresses: [u64; 5], scale: f32) -> Result<MappedAttention> {
    let [q, k, v, y, _] = addresses;
    let keys = rung.warpgroups().map_or(0, |warpgroups| warpgroups.step);
    Ok(MappedAttention {
        q: map(q, sizes, BOX_QUERIES)?,
        k: map(k, sizes, keys)?,
        v: map(v, sizes, keys)?,
        y,
        tokens: sizes[1] as u32,
        scale,
    })
}

/// Returns the tensor map of an operand, with boxes of `rows` rows. Its axes are columns, tokens,
/// heads, and one of a single element. Elements after a head's last token are read as 0, not from
/// the next head.
fn map(address: u64, [heads, tokens, width]: [usize; 3], rows: usize) -> Result<TensorMap> {
    let (mut axes, columns) = Axes::beginning(DType::BF16, width, BOX_COLUMNS);
    let row = width as i64;
    let tokens_axis = axes.next(tokens, row, rows);
    let heads_axis = axes.next(heads, row * tokens as i64, 1);
    let single = axes.next(1, 0, 1);
    TensorMapSpec {
        address,
        dtype: DType::BF16,
        rounds_to_tf32: false,
        swizzle: Swizzle::Bytes128,
        axes: smallvec![columns, tokens_axis, heads_axis, single],
    }
    .map(OP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    fn grids(rung: Rung, sizes: [usize; 3]) -> Vec<[u32; 3]> {
        let launches = launches(rung, Mask::Causal, sizes).expect("supported sizes");
        launches.iter().map(|launch| launch.grid).collect()
    }

    #[test]
    fn parameters_are_laid_out_as_in_the_kernels() {
        assert_eq!((size_of::<Attention>(), offset_of!(Attention, scores)), (56, 32));
        assert_eq!((offset_of!(Attention, tokens), offset_of!(Attention, scale)), (40, 48));
        assert_eq!((size_of::<MappedAttention>(), offset_of!(MappedAttention, v)), (448, 256));
        assert_eq!((offset_of!(MappedAttention, y), offset_of!(MappedAttention, tokens)), (384, 392));
        assert_eq!(offset_of!(MappedAttention, scale), 396);
    }

    #[test]
    fn grids_cover_all_rows_of_all_heads() {
        assert_eq!(grids(Rung::Naive, [3, 65, 64]), [[3, 9, 3], [9, 3, 1], [17, 3, 1]]);
        assert_eq!(grids(Rung::Naive, [3, 65, 128]), [[3, 9, 3], [9, 3, 1], [33, 3, 1]]);
        assert_eq!(grids(Rung::Tiled, [2, 129, 64]), [[2, 2, 2], [17, 2, 1], [2, 2, 1]]);
        assert_eq!(grids(Rung::OnlineSoftmax, [2, 129, 64]), [[3, 2, 1]]);
        assert_eq!(grids(Rung::Mma, [1, 64, 128]), [[1, 1, 1]]);
        assert_eq!(grids(Rung::Wgmma, [5, 65, 128]), [[2, 5, 1]]);
        assert_eq!(grids(Rung::WarpSpecialized, [5, 129, 128]), [[2, 5, 1]]);
        assert_eq!(grids(Rung::PingPong, [5, 1, 128]), [[1, 5, 1]]);
    }

    #[test]
    fn kernels_are_launched_in_their_order() {
        for rung in Rung::ALL {
            let launches = launches(rung, Mask::Full, [1, 100, 64]).expect("supported sizes");
            let kernels: Vec<usize> = launches.iter().map(|launch| launch.kernel).collect();
            assert_eq!(kernels, (0..rung.kernels().len()).collect::<Vec<_>>(), "{rung:?}");
        }
    }

    #[test]
    fn what_no_grid_covers_is_an_error() {
        let message = |rung, sizes| launches(rung, Mask::Full, sizes).expect_err("too much").to_string();
        assert_eq!(
            message(Rung::PingPong, [65536, 1, 64]),
            "attention_ladder: ping_pong: expected at most 65535 heads, got 65536"
        );
        assert_eq!(
            message(Rung::Naive, [1, 65535 * 8 + 1, 64]),
            "attention_ladder: naive: expected at most 65535 blocks of queries, got 65536"
        );
        let text = message(Rung::Tiled, [1, 65536, 64]);
        assert!(
            text.contains("tiled: expected fewer than 2^32 scores of a head, got 65536 tokens"),
            "{text}"
        );
    }

    #[test]
    fn scales_are_above_zero_and_finite() {
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let text = check_scale(Rung::Mma, scale).expect_err("rejected").to_string();
            assert!(text.contains("mma: expected a finite scale above 0, got "), "{text}");
        }
        assert!(check_scale(Rung::Mma, 0.125).is_ok());
    }

    #[test]
    fn a_workspace_is_required_where_scores_are_stored() {
        let text = check_workspace(Rung::Naive, [2, 3, 64], None).expect_err("none").to_string();
        assert_eq!(text, "attention_ladder: naive: expected a workspace of 24 elements of f32, got none");
        assert!(check_workspace(Rung::OnlineSoftmax, [2, 3, 64], None).is_ok());
    }

    #[test]
    fn no_kernel_of_the_ladder_is_a_variant_of_an_op() {
        let (op_variants, study_variants) = (crate::variants(), crate::study_variants());
        for variant in crate::variant::attention_ladder::variants().map(crate::Variant::from) {
            assert!(study_variants.contains(&variant) && !op_variants.contains(&variant), "{variant:?}");
        }
    }
}
