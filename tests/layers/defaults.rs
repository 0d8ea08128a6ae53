//! The defaults of layers, losses and optimizers are PyTorch's, except for the transformer block.

use super::reference;
use serde_json::{Value, json};
use ternion::prelude::*;
use ternion::{Conv1dOptions, Conv2dOptions, ConvTranspose2dOptions, PoolOptions};

/// Returns whether the values are equal, where `0` equals `0.0`. A pair of equal numbers equals
/// PyTorch's single number for both axes.
fn is_same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) => ours.as_f64() == theirs.as_f64(),
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| is_same(ours, theirs))
        }
        (Value::Array(ours), theirs) => ours.iter().all(|ours| is_same(ours, theirs)),
        _ => ours == theirs,
    }
}

/// Compares settings by PyTorch's names of classes and settings.
fn check(ours: &[(&str, Value)]) {
    let all = reference();
    for (class, settings) in ours {
        for (name, ours) in settings.as_object().expect("settings") {
            let theirs = all["defaults"][class].get(name);
            let theirs = theirs.unwrap_or_else(|| panic!("PyTorch's {class} has no setting {name}"));
            assert!(is_same(ours, theirs), "{name} of {class}: {ours}, PyTorch has {theirs}");
        }
    }
}

#[test]
fn layers_have_pytorchs_defaults() {
    let Conv1dOptions { stride, padding, dilation, groups } = Conv1dConfig::default().options;
    let conv1d = json!({ "stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "bias": Conv1dConfig::default().bias });
    let Conv2dOptions { stride, padding, dilation, groups } = Conv2dConfig::default().options;
    let conv2d = json!({ "stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "bias": Conv2dConfig::default().bias });
    let transposed = ConvTranspose2dConfig::default();
    let ConvTranspose2dOptions { stride, padding, output_padding, dilation, groups } = transposed.options;
    let transposed = json!({
        "stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation, "groups": groups, "bias": transposed.bias
    });
    let PoolOptions { kernel, stride, padding, dilation, count_include_pad, ceil_mode, divisor_override } =
        MaxPool2d::new(3).options;
    assert_eq!(stride, kernel, "PyTorch's stride None");
    assert_eq!(AvgPool2d::new(3).options, MaxPool2d::new(3).options);
    let Flatten { start, end } = Flatten::default();
    check(&[
        ("Linear", json!({ "bias": LinearConfig::default().bias })),
        ("Conv1d", conv1d),
        ("Conv2d", conv2d),
        ("ConvTranspose2d", transposed),
        ("MaxPool2d", json!({ "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode })),
        (
            "AvgPool2d",
            json!({ "padding": padding, "count_include_pad": count_include_pad, "ceil_mode": ceil_mode, "divisor_override": divisor_override }),
        ),
        ("Upsample", json!({ "mode": format!("{:?}", Upsample::times(2.0).mode).to_lowercase() })),
        ("Embedding", json!({ "padding_idx": EmbeddingConfig::default().padding_idx })),
        ("Dropout", json!({ "p": DropoutConfig::default().p })),
        ("Flatten", json!({ "start_dim": start, "end_dim": end })),
        ("LeakyReLU", json!({ "negative_slope": LeakyReLU::default().slope })),
        ("ELU", json!({ "alpha": ELU::default().alpha })),
        ("Softplus", json!({ "beta": Softplus::default().beta })),
    ]);
}

#[test]
fn norms_and_sequences_have_pytorchs_defaults() {
    let LayerNormConfig { eps, weight, bias, .. } = LayerNormConfig::default();
    let layer_norm = json!({ "eps": eps, "elementwise_affine": weight, "bias": bias });
    let RMSNormConfig { eps, weight, .. } = RMSNormConfig::default();
    let rms_norm = json!({ "eps": eps, "elementwise_affine": weight });
    let GroupNormConfig { eps, affine, .. } = GroupNormConfig::default();
    let group_norm = json!({ "eps": eps, "affine": affine });
    let BatchNormConfig { eps, momentum, affine, track_running_stats, .. } = BatchNormConfig::default();
    let batch_norm = json!({ "eps": eps, "momentum": momentum, "affine": affine, "track_running_stats": track_running_stats });
    let RecurrentConfig { layers, bias, dropout, bidirectional, .. } = RecurrentConfig::default();
    let recurrent =
        json!({ "num_layers": layers, "bias": bias, "dropout": dropout, "bidirectional": bidirectional });
    let MultiHeadAttentionConfig { bias, dropout, .. } = MultiHeadAttentionConfig::default();
    // Settings specific to TransformerBlockConfig are documented there.
    let block = TransformerBlockConfig::default();
    check(&[
        ("LayerNorm", layer_norm),
        ("RMSNorm", rms_norm),
        ("GroupNorm", group_norm),
        ("BatchNorm1d", batch_norm.clone()),
        ("BatchNorm2d", batch_norm),
        ("RNNBase", recurrent),
        ("MultiheadAttention", json!({ "bias": bias, "dropout": dropout })),
        ("TransformerEncoderLayer", json!({ "layer_norm_eps": block.eps, "bias": block.bias })),
    ]);
}

#[test]
fn losses_have_pytorchs_defaults() {
    let name = |reduction: Reduction| format!("{reduction:?}").to_lowercase();
    let CrossEntropyLoss { weight, ignore_index, label_smoothing, reduction } = CrossEntropyLoss::default();
    let NLLLoss { weight: nll_weight, ignore_index: of_nll, reduction: nll } = NLLLoss::default();
    assert!(weight.is_none() && nll_weight.is_none());
    let HuberLoss { delta, reduction: huber } = HuberLoss::default();
    let KLDivLoss { log_target, reduction: divergence } = KLDivLoss::default();
    let BCEWithLogitsLoss { pos_weight, reduction: binary } = BCEWithLogitsLoss::default();
    assert!(pos_weight.is_none());
    check(&[
        (
            "CrossEntropyLoss",
            json!({ "weight": null, "ignore_index": ignore_index, "label_smoothing": label_smoothing, "reduction": name(reduction) }),
        ),
        ("NLLLoss", json!({ "weight": null, "ignore_index": of_nll, "reduction": name(nll) })),
        ("MSELoss", json!({ "reduction": name(MSELoss::default().reduction) })),
        ("HuberLoss", json!({ "delta": delta, "reduction": name(huber) })),
        ("BCEWithLogitsLoss", json!({ "reduction": name(binary), "pos_weight": null })),
        ("KLDivLoss", json!({ "log_target": log_target, "reduction": name(divergence) })),
    ]);
}

#[test]
fn optimizers_have_pytorchs_defaults() {
    let SGDConfig { lr, momentum, dampening, weight_decay, nesterov, .. } = SGDConfig::default();
    let sgd = json!({ "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov });
    let AdamConfig { lr, betas, eps, weight_decay, .. } = AdamConfig::default();
    let adam = json!({ "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay });
    let AdamWConfig { lr, betas, eps, weight_decay, .. } = AdamWConfig::default();
    let adamw = json!({ "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay });
    let RMSpropConfig { lr, alpha, eps, weight_decay, momentum, centered, .. } = RMSpropConfig::default();
    let rmsprop = json!({
        "lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum, "centered": centered
    });
    let AdagradConfig { lr, lr_decay, weight_decay, initial_accumulator_value, eps, .. } =
        AdagradConfig::default();
    let adagrad = json!({
        "lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "initial_accumulator_value": initial_accumulator_value, "eps": eps
    });
    let MuonConfig { lr, weight_decay, momentum, nesterov, ns_coefficients, eps, ns_steps, .. } =
        MuonConfig::default();
    let muon = json!({
        "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov, "ns_coefficients": ns_coefficients, "eps": eps,
        "ns_steps": ns_steps
    });
    check(&[
        ("SGD", sgd),
        ("Adam", adam),
        ("AdamW", adamw),
        ("RMSprop", rmsprop),
        ("Adagrad", adagrad),
        ("Muon", muon),
    ]);
}
