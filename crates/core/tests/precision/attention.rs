//! The permissions of f32 attention: the same as those of matrix products.

use super::{device, leaf, ops_of};
use ternion_core::dispatch::apply_one;
use ternion_core::ops::attention::{Attention, AttentionConfig, CumulativeLengths};
use ternion_core::{AttentionOptions, Op, Precision, Result, Tensor, with_precision};

/// Returns the permissions of attention and its gradient: TF32 and bf16x6.
fn attention_permissions(run: &dyn Fn() -> Result<Tensor>) -> Result<Vec<[bool; 2]>> {
    let (_, ops) = ops_of(|| run()?.sum(..)?.backward())?;
    let permissions = |op: &Op| match op {
        Op::Attention(attention) => Some([attention.config.tf32, attention.config.bf16x6]),
        Op::AttentionGrad(attention) => Some([attention.config.tf32, attention.config.bf16x6]),
        _ => None,
    };
    Ok(ops.iter().filter_map(|(_, op)| permissions(op)).collect())
}

#[test]
fn attention_has_the_permissions_of_products() -> Result<()> {
    let device = device();
    let [q, k, v] = [[1, 2, 4, 3], [1, 1, 5, 3], [1, 1, 5, 2]].map(|shape| leaf(&shape, &device));
    let (q, k, v) = (q?, k?, v?);
    let function = || q.scaled_dot_product_attention(&k, &v, AttentionOptions::default());
    let with_log_sum = || {
        let [y, _] = q.scaled_dot_product_attention_lse(&k, &v, AttentionOptions::default())?;
        Ok(y)
    };
    let op = || apply_one(Attention { config: AttentionConfig::PLAIN }, &[&q, &k, &v]);
    let rows = |x: &Tensor| x.squeeze(0)?.transpose(0, 1);
    let ends = |end: i32| Tensor::from_slice(&[0, end], [2], &device);
    let (of_queries, of_keys) = (ends(4)?, ends(5)?);
    let varlen = || {
        let lengths = CumulativeLengths { queries: &of_queries, keys: &of_keys };
        rows(&q)?.scaled_dot_product_attention_varlen(
            &rows(&k)?,
            &rows(&v)?,
            lengths,
            AttentionOptions::default(),
        )
    };
    let forms: [&dyn Fn() -> Result<Tensor>; 4] = [&function, &with_log_sum, &op, &varlen];
    for run in forms {
        assert_eq!(attention_permissions(run)?, [[false, true]; 2], "outside");
        for scope in Precision::ALL {
            let found = attention_permissions(&|| with_precision(scope, run))?;
            let expected = [scope == Precision::Tf32, scope != Precision::Ieee];
            assert_eq!(found, [expected; 2], "{scope:?}");
        }
        let nested = || with_precision(Precision::Tf32, || with_precision(Precision::F32, run));
        assert_eq!(
            attention_permissions(&nested)?,
            [[false, true]; 2],
            "f32 is the exception within a scope"
        );
    }
    // A backend without such units computes the same as always.
    let plain = function()?.to_vec::<f32>()?;
    for scope in [Precision::F32, Precision::Ieee, Precision::Tf32] {
        assert_eq!(with_precision(scope, function)?.to_vec::<f32>()?, plain, "{scope:?}");
    }
    Ok(())
}
