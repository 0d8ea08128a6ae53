//! Muon: matrices are updated by their orthogonalized momentum.

use super::composed::{ParamTensors, blend, blend_, composed};
use super::group::ParamGroup;
use super::optimizer::optimizer;
use super::steps::{CommonConfig, StepRule, Steps};
use crate::module::Param;
use ternion_core::{Error, Result, Tensor};

/// Muon (Jordan et al. 2024, <https://kellerjordan.github.io/posts/muon/>), as PyTorch's `Muon`;
/// only for matrices:
///
/// `b = momentum * b + (1 - momentum) g`; `u = momentum * b + (1 - momentum) g` with Nesterov
/// momentum, otherwise `u = b`; `p *= 1 - lr * weight_decay`; `p -= lr * ratio * orthogonal(u)`.
/// Here `orthogonal` runs [`MuonConfig::ns_steps`] Newton-Schulz iterations toward the nearest
/// matrix with orthogonal rows or columns, and `ratio` depends on the shape.
///
/// Biases, gains, embeddings and the last layer need another optimizer, such as
/// [`AdamW`](super::AdamW), which makes its step with the same gradients:
///
/// ```
/// use ternion_nn::optim::{AdamW, AdamWConfig, Muon, MuonConfig, Optimizer};
/// # use ternion_nn::{Forward, Mlp, Module};
/// # use ternion_core::{DType, Result, Tensor};
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// let model = Mlp::new([3, 4, 2], &device)?;
/// let (matrices, others) = model.parameters().into_iter().partition(|parameter| parameter.shape().rank() == 2);
/// let mut muon = Muon::new(matrices, MuonConfig::default())?;
/// let mut adam = AdamW::new(others, AdamWConfig::default())?;
/// let gradients = model.forward(&Tensor::ones([5, 3], DType::F32, &device)?)?.square()?.mean(..)?.backward()?;
/// muon.step(&gradients)?;
/// adam.step(&gradients)?;
/// # Ok(())
/// # }
/// ```
///
/// PyTorch iterates in bf16; this implementation uses the accumulator dtype of the parameter (f32,
/// or f64 for f64). Not fused: a step takes about 40 ops for each parameter, 15 of them matrix
/// products.
pub struct Muon(Steps<MuonRule>);

/// How the step of a matrix `[rows, columns]` depends on its shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MuonLrAdjustment {
    /// `sqrt(max(1, rows / columns))`, as in Jordan's implementation.
    #[default]
    Original,
    /// `0.2 sqrt(max(rows, columns))`: gives the steps the root mean square of AdamW's steps (Liu
    /// et al. 2025, equation 4), so that AdamW's learning rate and weight decay can be used.
    MatchRmsAdamW,
}

impl MuonLrAdjustment {
    fn ratio(self, [rows, columns]: [usize; 2]) -> f64 {
        let (rows, columns) = (rows as f64, columns as f64);
        match self {
            MuonLrAdjustment::Original => (rows / columns).max(1.0).sqrt(),
            MuonLrAdjustment::MatchRmsAdamW => 0.2 * rows.max(columns).sqrt(),
        }
    }
}

/// Configuration of [`Muon`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MuonConfig {
    /// Learning rate; 1e-3 by default.
    pub lr: f64,
    /// A step multiplies the parameter by 1 minus this value times the learning rate; 0.1 by
    /// default.
    pub weight_decay: f64,
    /// Fraction of the old momentum that is kept; 0.95 by default.
    pub momentum: f64,
    /// Nesterov momentum; on by default.
    pub nesterov: bool,
    /// Coefficients `a`, `b` and `c` of an iteration `x = a x + (b x x^T + c (x x^T)^2) x`; 3.4445,
    /// -4.7750 and 2.0315 by default.
    pub ns_coefficients: [f64; 3],
    /// Lower limit of the norm by which the momentum is divided before the iterations; 1e-7 by
    /// default.
    pub eps: f64,
    /// Number of iterations, at most 99; 5 by default.
    pub ns_steps: u32,
    /// How the step depends on the shape; [`MuonLrAdjustment::Original`] by default.
    pub adjust_lr: MuonLrAdjustment,
    /// Clips the gradients so that the norm of all of them together is at most this value; off by
    /// default.
    pub max_grad_norm: Option<f64>,
    /// Skips parameters without a gradient instead of returning an error; off by default.
    pub allow_missing_gradients: bool,
}

impl Default for MuonConfig {
    fn default() -> Self {
        MuonConfig {
            lr: 1e-3,
            weight_decay: 0.1,
            momentum: 0.95,
            nesterov: true,
            ns_coefficients: [3.4445, -4.7750, 2.0315],
            eps: 1e-7,
            ns_steps: 5,
            adjust_lr: MuonLrAdjustment::Original,
            max_grad_norm: None,
            allow_missing_gradients: false,
        }
    }
}

/// `config.weight_decay` is the weight decay of the group.
#[derive(Clone)]
struct MuonRule {
    config: MuonConfig,
}

impl MuonRule {
    fn update(&self, tensors: &ParamTensors<'_>) -> Result<Tensor> {
        let MuonConfig { weight_decay, momentum, nesterov, adjust_lr, .. } = self.config;
        let buffer = tensors.states[0];
        blend_(buffer, momentum, &tensors.gradient)?;
        let direction = match nesterov {
            true => blend(buffer, momentum, &tensors.gradient)?,
            false => buffer.clone(),
        };
        let ratio = adjust_lr.ratio(direction.sizes()?);
        let direction = self.orthogonal(&direction)?.mul_scalar(ratio)?;
        tensors.decayed_parameter(weight_decay)?.sub(&direction.mul(&tensors.lr)?)
    }

    /// Approximates `U V^T` of the singular value decomposition `U S V^T` of a matrix `[rows,
    /// columns]`: the singular values of the result are between 0.68 and 1.13.
    fn orthogonal(&self, matrix: &Tensor) -> Result<Tensor> {
        let [a, b, c] = self.config.ns_coefficients;
        let [rows, columns] = matrix.sizes()?;
        // Products with the smaller of the two Gram matrices are cheaper.
        let wide = if rows > columns { matrix.t()? } else { matrix.clone() };
        // The iteration needs singular values of at most 1.
        let norm = wide.norm(..)?.maximum_scalar(self.config.eps)?;
        let mut x = wide.div(&norm)?;
        for _ in 0..self.config.ns_steps {
            let gram = x.matmul(&x.t()?)?;
            let polynomial = gram.addmm(&gram, &gram, b, c)?;
            x = x.addmm(&polynomial, &x, a, 1.0)?;
        }
        if rows > columns { x.t() } else { Ok(x) }
    }
}

impl StepRule for MuonRule {
    fn momentum(&mut self) -> Option<&mut f64> {
        Some(&mut self.config.momentum)
    }
    fn apply(&self, inputs: &[&Tensor], _: bool) -> Result<()> {
        composed(inputs, 1, |tensors| self.update(tensors))
    }
    fn state_names(&self) -> &'static [&'static str] {
        &["momentum_buffer"]
    }
    fn step_scalars(&self, lr: f64, _: u64) -> Vec<f64> {
        vec![lr, 1.0]
    }
}

impl Muon {
    /// Creates an optimizer of `parameters`, all of which must be matrices. A step skips those that
    /// are frozen at that time.
    ///
    /// # Errors
    /// Returns an error if there are no parameters, one occurs twice or one is not a matrix; if a
    /// number is negative or not finite; if the momentum is above 1; or for 100 iterations or more.
    pub fn new(parameters: Vec<Param>, config: MuonConfig) -> Result<Muon> {
        Muon::with_groups(vec![ParamGroup::new(parameters)], config)
    }

    /// Like [`new`](Muon::new), with settings for each group.
    ///
    /// # Errors
    /// The errors of [`new`](Muon::new), also for the numbers of the groups.
    pub fn with_groups(groups: Vec<ParamGroup>, config: MuonConfig) -> Result<Muon> {
        let MuonConfig { lr, weight_decay, max_grad_norm, allow_missing_gradients, .. } = config;
        let common = CommonConfig { lr, weight_decay, max_grad_norm, allow_missing_gradients };
        common.check("muon", &[("eps", config.eps)])?;
        check(&config)?;
        groups.iter().flat_map(|group| &group.parameters).enumerate().try_for_each(check_matrix)?;
        let rule = |weight_decay| MuonRule { config: MuonConfig { weight_decay, ..config } };
        Ok(Muon(Steps::new("muon", common, groups, rule)?))
    }
}

fn check(config: &MuonConfig) -> Result<()> {
    let MuonConfig { momentum, ns_coefficients, ns_steps, .. } = config;
    let detail = if !(0.0..=1.0).contains(momentum) {
        format!("momentum {momentum}, expected 0 to 1")
    } else if !ns_coefficients.iter().all(|value| value.is_finite()) {
        format!("ns_coefficients {ns_coefficients:?}, expected finite numbers")
    } else if *ns_steps >= 100 {
        format!("ns_steps {ns_steps}, expected fewer than 100")
    } else {
        return Ok(());
    };
    Err(Error::invalid("muon", detail))
}

fn check_matrix((position, parameter): (usize, &Param)) -> Result<()> {
    let shape = parameter.shape();
    if shape.rank() == 2 {
        return Ok(());
    }
    let name = parameter.name().map_or_else(|| format!("parameter {position}"), str::to_owned);
    let detail = format!("{name} has the shape {shape:?}, expected a matrix: give it to another optimizer");
    Err(Error::invalid("muon", detail))
}

optimizer!(Muon);
