//! A saved model of a table, used on rows that it has not seen: the columns that it knows, and their means and deviations, are in its checkpoint.

use crate::support::program::Outcome;
use serde_json::{Value, json};
use ternion::data::{StandardScaler, Table};
use ternion::prelude::*;

/// Names of the two settings of a checkpoint.
pub const FEATURES: &str = "features";
pub const TARGETS: &str = "targets";

/// What a checkpoint says of columns: their names, means and deviations.
pub fn scale_told(scale: &StandardScaler) -> Value {
    json!({ "columns": scale.columns(), "means": scale.means(), "deviations": scale.deviations() })
}

fn scale_of(checkpoint: &Checkpoint, name: &str) -> Outcome<StandardScaler> {
    let told: Value = checkpoint.value(name)?;
    let numbers = |key: &str| serde_json::from_value::<Vec<f64>>(told[key].clone());
    let columns: Vec<String> = serde_json::from_value(told["columns"].clone())?;
    Ok(StandardScaler::new(&columns, numbers("means")?, numbers("deviations")?)?)
}

/// A model with the scales of what it takes and gives.
pub struct Predictor {
    model: Mlp,
    features: StandardScaler,
    targets: StandardScaler,
}

impl Predictor {
    /// The model whose training `checkpoint` holds.
    pub fn of(checkpoint: &Checkpoint, device: &Device) -> Outcome<Predictor> {
        let (features, targets) = (scale_of(checkpoint, FEATURES)?, scale_of(checkpoint, TARGETS)?);
        let hidden: usize = checkpoint.value("hidden")?;
        let model = Mlp::new([features.columns().len(), hidden, hidden, targets.columns().len()], device)?;
        model.load_state_dict(&checkpoint.state_dict("model", device)?)?;
        Ok(Predictor { model, features, targets })
    }

    /// The column that is predicted.
    pub fn target(&self) -> &str {
        self.targets.columns().first().map_or("", String::as_str)
    }

    /// The target of each row in real units. Columns that the model does not know are passed over; `held` is what the training made of standardised features.
    pub fn predict(&self, table: &Table, held: impl Fn(&Tensor) -> Result<Tensor>) -> Outcome<Vec<f64>> {
        let names: Vec<&str> = self.features.columns().iter().map(String::as_str).collect();
        let rows = self.features.apply(&table.select(&names)?)?;
        let inputs = rows.to_tensor(&self.model.parameters()[0].device())?;
        let outputs = no_grad(|| self.model.forward(&held(&inputs)?))?;
        Ok(self.targets.restore_tensor(&outputs)?.to_vec_f64()?)
    }
}
