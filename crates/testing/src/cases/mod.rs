//! The rows of the table, one file per op family (with the same file stems as in core and in the
//! backends).
//!
//! In all files `x` are the inputs of a row, and `at` in an oracle is the index of the element that
//! it computes.

use crate::table::OpCase;

macro_rules! families {
    ($($family:ident),* $(,)?) => {
        $(pub mod $family;)*

        /// Returns every row.
        pub(crate) fn all() -> Vec<OpCase> {
            let mut rows = Vec::new();
            $(rows.extend($family::rows());)*
            rows
        }
    };
}

/// Marks rows as functions composed of ops.
fn compositions(rows: impl IntoIterator<Item = OpCase>) -> Vec<OpCase> {
    rows.into_iter().map(|row| OpCase { composition: true, ..row }).collect()
}

families! {
    create, copy, unary, binary, compare, reduce, matmul, product_permissions, fused_products, softmax, loss, norm, attention, random, step, multi_tensor, index, conv, pool,
    assemble, view, indexing, functions, linalg, large, unsigned,
}
