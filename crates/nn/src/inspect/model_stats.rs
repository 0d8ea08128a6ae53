//! Statistics of a whole model: one line for each parameter and each gradient.

use crate::module::Module;
use std::fmt;
use ternion_core::{Gradients, Result, Stats};

/// Statistics of one parameter and its gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamStats {
    /// The parameter's key in the state dict.
    pub name: String,
    /// Statistics of its values.
    pub values: Stats,
    /// Statistics of its gradient; `None` if there is none.
    pub gradient: Option<Stats>,
}

/// Statistics of every parameter of a model, created by [`model_stats`]. Prints one line for each
/// parameter and each gradient.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelStats {
    /// The parameters, in the order of [`Module::parameters`].
    pub parameters: Vec<ParamStats>,
    with_gradients: bool,
}

impl ModelStats {
    /// Returns the names of parameters whose values or gradients contain NaN or infinity.
    pub fn not_finite(&self) -> Vec<&str> {
        let non_finite = |stats: &Stats| stats.nan + stats.infinite > 0;
        self.parameters
            .iter()
            .filter(|param| non_finite(&param.values) || param.gradient.as_ref().is_some_and(non_finite))
            .map(|param| param.name.as_str())
            .collect()
    }
}

impl fmt::Display for ModelStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.parameters.iter().map(|param| param.name.len()).max().unwrap_or(0);
        for (index, param) in self.parameters.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{:width$}  value  {}", param.name, param.values)?;
            match &param.gradient {
                Some(gradient) => write!(f, "\n{:width$}  grad   {gradient}", param.name)?,
                None if self.with_gradients => write!(f, "\n{:width$}  grad   none", param.name)?,
                None => {}
            }
        }
        Ok(())
    }
}

/// Returns mean, standard deviation, min, max, and counts of special values of each parameter of
/// `model` and, if `gradients` is given, of each gradient.
///
/// # Errors
/// Returns an error if an earlier op failed on the device.
pub fn model_stats<M: Module + ?Sized>(model: &M, gradients: Option<&Gradients>) -> Result<ModelStats> {
    let mut stats = ModelStats { parameters: Vec::new(), with_gradients: gradients.is_some() };
    for param in model.parameters() {
        let gradient = gradients.and_then(|gradients| param.gradient(gradients));
        stats.parameters.push(ParamStats {
            name: param.name().unwrap_or_default().to_owned(),
            values: param.tensor().stats()?,
            gradient: gradient.map(|gradient| gradient.stats()).transpose()?,
        });
    }
    Ok(stats)
}
