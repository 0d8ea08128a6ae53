//! A saved model of a table, which predicts new rows: its checkpoint contains the names of its
//! columns, and their means and standard deviations.

use crate::support::program::Outcome;
use serde_json::{Value, json};
use ternion::data::{StandardScaler, Table};
use ternion::prelude::*;

/// Names of two settings in a checkpoint.
pub const FEATURES: &str = "features";
pub const TARGETS: &str = "targets";

/// Returns what a checkpoint stores of columns: their names, means and standard deviations.
pub fn describe_scaler(scale: &StandardScaler) -> Value {
    json!({ "columns": scale.columns(), "means": scale.means(), "deviations": scale.stds() })
}

fn load_scaler(checkpoint: &Checkpoint, name: &str) -> Outcome<StandardScaler> {
    let stored: Value = checkpoint.value(name)?;
    let numbers = |key: &str| serde_json::from_value::<Vec<f64>>(stored[key].clone());
    let columns: Vec<String> = serde_json::from_value(stored["columns"].clone())?;
    Ok(StandardScaler::new(&columns, numbers("means")?, numbers("deviations")?)?)
}

/// A model with the scalers of its features and targets.
pub struct Predictor {
    model: Mlp,
    features: StandardScaler,
    targets: StandardScaler,
}

impl Predictor {
    /// Loads the model that `checkpoint` contains.
    pub fn load(checkpoint: &Checkpoint, device: &Device) -> Outcome<Predictor> {
        let (features, targets) = (load_scaler(checkpoint, FEATURES)?, load_scaler(checkpoint, TARGETS)?);
        let hidden: usize = checkpoint.value("hidden")?;
        let model = Mlp::new([features.columns().len(), hidden, hidden, targets.columns().len()], device)?;
        model.load_state_dict(&checkpoint.state_dict("model", device)?)?;
        Ok(Predictor { model, features, targets })
    }

    /// Returns the column that is predicted.
    pub fn target(&self) -> &str {
        self.targets.columns().first().map_or("", String::as_str)
    }

    /// Returns the target of each row in real units. Columns that the model does not know are
    /// ignored; `transform` is the function that was applied to standardized features in training.
    pub fn predict(&self, table: &Table, transform: impl Fn(&Tensor) -> Result<Tensor>) -> Outcome<Vec<f64>> {
        let names: Vec<&str> = self.features.columns().iter().map(String::as_str).collect();
        let rows = self.features.apply(&table.select(&names)?)?;
        let inputs = rows.to_tensor(&self.model.parameters()[0].device())?;
        let outputs = no_grad(|| self.model.forward(&transform(&inputs)?))?;
        Ok(self.targets.restore_tensor(&outputs)?.to_vec_f64()?)
    }
}
