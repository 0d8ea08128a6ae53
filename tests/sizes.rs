//! Sizes beyond any memory: what cannot be addressed or allocated is an error with a message, never
//! a wrapped count, a hang or an abort.

use ternion::prelude::*;
use ternion_core::Conv2dOptions;
use ternion_core::ops::conv::Window;
use ternion_core::ops::pool::PoolOptions;
use ternion_core::{AttentionOptions, Error, einsum};

const LONG: usize = 1 << 40;

fn unaddressable<T>(what: &str, result: Result<T>) {
    let text = result.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains("has more elements than can be addressed"), "{what}: {text:?}");
}

fn no_memory<T>(what: &str, result: Result<T>) {
    let error = result.err();
    assert!(matches!(error, Some(Error::OutOfMemory { .. })), "{what}: {error:?}");
}

/// Returns a column and a row of this many equal numbers, which need the memory of one.
fn column_and_row(dtype: DType, rows: usize, columns: usize) -> Result<(Tensor, Tensor)> {
    let one = Tensor::ones([1, 1], dtype, &ternion::cpu()?)?;
    Ok((one.expand([rows, 1])?, one.expand([1, columns])?))
}

/// 2^40 x 2^40 elements would wrap to 0, the other pair to 16.
#[test]
fn a_broadcast_that_cannot_be_addressed_is_an_error() -> Result<()> {
    for (rows, columns) in [(LONG, LONG), (72_996_552_976, 252_707_057)] {
        let (column, row) = column_and_row(DType::F32, rows, columns)?;
        let (mask, _) = column_and_row(DType::Bool, rows, columns)?;
        unaddressable("add", column.add(&row));
        unaddressable("mul", column.mul(&row));
        unaddressable("eq", column.eq(&row));
        unaddressable("where", mask.where_(&row, &row));
        unaddressable("masked_select", row.masked_select(&mask));
        unaddressable("outer", column.squeeze(1)?.outer(&row.squeeze(0)?));
        unaddressable("matmul", column.matmul(&row));
        unaddressable("linear", column.linear(&row.t()?, None));
        unaddressable("einsum", einsum("ik,kj->ij", &[&column, &row]));
        unaddressable("einsum", einsum("i,j->ij", &[&column.squeeze(1)?, &row.squeeze(0)?]));
        unaddressable("expand", row.expand([rows, columns]));
    }
    Ok(())
}

#[test]
fn shapes_made_from_sizes_are_counted() -> Result<()> {
    let (column, row) = column_and_row(DType::F32, LONG, LONG)?;
    let (index, _) = column_and_row(DType::I32, LONG, LONG)?;
    let index = index.squeeze(1)?;
    unaddressable("index_select", row.index_select(0, &index));
    unaddressable("index_add", row.index_add(0, &index, &row));
    unaddressable("one_hot", index.one_hot(LONG, DType::F32));
    unaddressable("repeat", column.repeat(&[1, LONG]));
    unaddressable("concat", Tensor::concat(&[&column.expand([LONG, 1 << 19])?; 4], 1));
    unaddressable("unfold", row.unfold(1, LONG / 2, 1));
    unaddressable("pad", row.pad(&[[0, LONG], [0, 0]], 0.0));
    let image = row.reshape([1, 1, 1, LONG])?;
    let window = Window { kernel: [1, 1], stride: [1, 1], padding: [LONG, 0], dilation: [1, 1] };
    unaddressable("im2col", image.im2col(window));
    let queries = image.transpose(2, 3)?;
    unaddressable(
        "attention",
        queries.scaled_dot_product_attention(&queries, &queries, AttentionOptions::default()),
    );
    Ok(())
}

/// 2^50 elements can be addressed, and a view of them needs no memory.
#[test]
fn a_huge_view_is_shown_and_not_copied() -> Result<()> {
    let (column, _) = column_and_row(DType::F32, 1 << 50, 1)?;
    assert!(column.to_string().contains("..."), "{column}");
    no_memory("to_vec", column.to_vec::<f32>());
    no_memory("add_scalar", column.add_scalar(1.0));
    no_memory("nonzero", column.nonzero());
    no_memory("contiguous", column.contiguous());
    no_memory("split", column.split(0, 1));
    no_memory("chunk", column.chunk(0, 1 << 50));
    Ok(())
}

/// Ops that would run for days, or allocate a copy, are rejected before they start.
#[test]
fn ops_on_more_elements_than_memory_are_rejected() -> Result<()> {
    const HUGE: usize = 1 << 46;
    let check_rejected = |what: &str, result: Result<Tensor>| {
        let text = result.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("has more elements than an op can read"), "{what}: {text:?}");
    };
    let (column, row) = column_and_row(DType::F32, HUGE, HUGE)?;
    let (index, _) = column_and_row(DType::I64, HUGE, HUGE)?;
    check_rejected("sum", column.sum(0));
    check_rejected("mean", column.mean_all());
    check_rejected("var", column.var(0, 1.0));
    check_rejected("max", column.max(0));
    check_rejected("logsumexp", column.logsumexp(0));
    check_rejected("matmul", row.matmul(&column));
    check_rejected("dot", column.squeeze(1)?.dot(&column.squeeze(1)?));
    check_rejected("cross_entropy", row.cross_entropy(&Tensor::zeros([1], DType::I64, row.device())?));
    check_rejected(
        "index_add",
        Tensor::zeros([3, 1], DType::F32, row.device())?.index_add(0, &index.squeeze(1)?, &column),
    );
    let image = row.reshape([1, 1, 1, HUGE])?;
    check_rejected("conv2d", image.conv2d(&image, None, Conv2dOptions::default()));
    check_rejected("avg_pool2d", image.avg_pool2d(PoolOptions::new([1, HUGE])));
    let queries = Tensor::ones([1, 1, 2, 4], DType::F32, row.device())?;
    let keys = queries.narrow(2, 0, 1)?.expand([1, 1, HUGE, 4])?;
    check_rejected(
        "attention",
        queries.scaled_dot_product_attention(&keys, &keys, AttentionOptions::default()),
    );
    Ok(())
}

/// Views that an op could read, but not copy.
#[test]
fn a_kernel_that_copies_its_input_reports_out_of_memory() -> Result<()> {
    const HUGE: usize = 1 << 43;
    for dtype in [DType::F32, DType::F16, DType::F64] {
        let (column, row) = column_and_row(dtype, HUGE, HUGE)?;
        let target = Tensor::zeros([1], DType::I64, row.device())?;
        no_memory("cross_entropy", row.cross_entropy(&target));
        let image = row.reshape([1, 1, 1, HUGE])?;
        no_memory("conv2d", image.conv2d(&image, None, Conv2dOptions::default()));
        no_memory("avg_pool2d", image.avg_pool2d(PoolOptions::new([1, HUGE])));
        no_memory("max_pool2d", image.max_pool2d(PoolOptions::new([1, HUGE])));
        no_memory("layer_norm", row.layer_norm(None, None, 1e-5));
        let queries = Tensor::ones([1, 1, 2, 4], dtype, row.device())?;
        let keys = queries.narrow(2, 0, 1)?.expand([1, 1, HUGE / 8, 4])?;
        no_memory(
            "attention",
            queries.scaled_dot_product_attention(&keys, &keys, AttentionOptions::default()),
        );
        if dtype == DType::F16 {
            no_memory("matmul", row.matmul(&column));
        }
    }
    Ok(())
}

#[test]
fn adaptive_pooling_to_a_huge_size_is_an_error() -> Result<()> {
    let device = ternion::cpu()?;
    let image = Tensor::ones([1, 1, 4, 4], DType::F32, &device)?;
    no_memory("adaptive_avg_pool2d", image.adaptive_avg_pool2d([LONG, 3]));
    unaddressable("adaptive_avg_pool2d", image.adaptive_avg_pool2d([LONG, LONG]));
    let wide = image.adaptive_avg_pool2d([3, 100_000])?;
    assert_eq!(wide.dims(), [1, 1, 3, 100_000]);
    assert_eq!(wide.min_all()?.item::<f32>()?, 1.0);
    Ok(())
}

#[test]
fn pooling_visits_only_necessary_windows() -> Result<()> {
    let (_, row) = column_and_row(DType::F32, 1, 1 << 50)?;
    no_memory("max_pool2d", row.reshape([1usize, 1, 1, 1 << 50])?.max_pool2d(PoolOptions::new([1, 1])));
    Ok(())
}

#[test]
fn padding_beyond_all_numbers_is_an_error() -> Result<()> {
    let image = Tensor::ones([1, 1, 4, 4], DType::F32, &ternion::cpu()?)?;
    for padding in [1 << 63, usize::MAX] {
        let options = PoolOptions { padding: [padding, 0], ..PoolOptions::new([3, 1]) };
        for result in [image.max_pool2d(options), image.avg_pool2d(options)] {
            let text = result.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(text.contains("is more than half of kernel [3, 1]"), "{text}");
        }
        let options = Conv2dOptions { padding: [padding, 0], ..Default::default() };
        assert!(image.conv2d(&image, None, options).is_err());
    }
    Ok(())
}

#[test]
fn identities_are_rejected_before_they_are_allocated() -> Result<()> {
    let device = ternion_cpu::device();
    no_memory("eye", Tensor::eye(1 << 24, DType::F64, &device));
    let text =
        Tensor::eye(1 << 31, DType::F32, &device).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(text, "eye: [2147483648, 2147483648] has more elements than can be addressed");
    assert!(device.memory().peak < 1 << 20, "{:?}", device.memory());
    Ok(())
}

#[test]
fn layouts_know_their_axes() -> Result<()> {
    let layout = ternion_core::Layout::row_major(Shape::new(&[2, 3])?);
    let text = layout.unfold(5, 1, 1).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(text, "unfold: axis 5 on shape [2, 3]");
    Ok(())
}

#[test]
fn evenly_spaced_numbers_reach_from_end_to_end() -> Result<()> {
    let line = Tensor::linspace(-1.7e308, 1.7e308, 3, DType::F64, &ternion::cpu()?)?;
    assert_eq!(line.to_vec::<f64>()?, [-1.7e308, 0.0, 1.7e308]);
    Ok(())
}

#[test]
fn triangles_of_matrices_of_any_size_are_computed_or_rejected_immediately() -> Result<()> {
    let cpu = ternion::cpu()?;
    let corner = Tensor::triu_indices(1 << 62, 3, 0, &cpu)?;
    assert_eq!(corner.to_vec_f64()?, [0, 0, 0, 1, 1, 2, 0, 1, 2, 1, 2, 2].map(f64::from));
    assert_eq!(Tensor::triu_indices(1 << 62, 3, 3, &cpu)?.dims(), [2, 0]);
    assert_eq!(Tensor::tril_indices(1 << 62, 0, 0, &cpu)?.dims(), [2, 0]);
    let last = Tensor::tril_indices(1 << 62, 3, -(1 << 62) + 1, &cpu)?;
    assert_eq!(last.dims(), [2, 1]);
    for result in
        [Tensor::tril_indices(1 << 45, 1 << 45, 0, &cpu), Tensor::triu_indices(1 << 45, 1 << 45, 0, &cpu)]
    {
        assert!(matches!(result.expect_err("no memory"), ternion::Error::OutOfMemory { .. }));
    }
    let few = Tensor::ones([3], ternion::DType::F64, &cpu)?;
    assert_eq!(
        few.mvlgamma(1 << 40).expect_err("as many sums").to_string(),
        "mvlgamma: size 1099511627776, expected 1 to 1048576"
    );
    Ok(())
}

#[test]
fn positions_beyond_i32_are_rejected() -> Result<()> {
    let (_, row) = column_and_row(DType::F32, 1, (1 << 31) + 1)?;
    let check_rejected = |what: &str, result: Result<Tensor>| {
        let text = result.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(
            text.ends_with("2147483649 elements, expected at most 2147483648: positions are i32"),
            "{what}: {text:?}"
        );
    };
    check_rejected("sort", row.sort(1, false).map(|(values, _)| values));
    check_rejected("argsort", row.argsort(1, false));
    check_rejected("topk", row.topk(2, 1, true).map(|(values, _)| values));
    check_rejected("argmax", row.argmax(1));
    check_rejected("argmin", row.argmin(..));
    let huge = row.narrow(1, 0, 1)?.expand([1, 1 << 46])?.argmax(1);
    assert!(
        huge.is_err_and(|error| error.to_string().starts_with("argmax: 70368744177664 elements, expected"))
    );
    Ok(())
}
