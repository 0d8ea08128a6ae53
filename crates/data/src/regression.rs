//! Tables as regression examples: features and targets, standardized, in batches.

use crate::error::{DataError, Result};
use crate::order::Order;
use crate::standard_scaler::StandardScaler;
use crate::table::Table;
use ternion_core::{Device, Tensor};

/// Training rows and held-out rows, both standardized by the means and standard deviations of the
/// training part.
#[derive(Debug, Clone)]
pub struct Regression {
    /// About four fifths of the rows.
    pub train: RegressionSplit,
    /// The remaining rows.
    pub held_out: RegressionSplit,
    /// The scaler of the features.
    pub feature_scale: StandardScaler,
    /// The scaler of the targets. It converts predictions back to the original units.
    pub target_scale: StandardScaler,
}

impl Regression {
    /// Splits and standardizes a table. All columns that are not targets are features.
    ///
    /// # Errors
    /// Returns an error if there are fewer than two rows, a target is not a column, or no column is
    /// left for the features.
    pub fn new(table: &Table, targets: &[&str], seed: u64) -> Result<Regression> {
        let (train, held_out) = table.train_test_split(seed)?;
        let parts = |table: &Table| Ok::<_, DataError>((table.without(targets)?, table.select(targets)?));
        let (train_features, train_targets) = parts(&train)?;
        let (held_out_features, held_out_targets) = parts(&held_out)?;
        let feature_scale = StandardScaler::of(&train_features)?;
        let target_scale = StandardScaler::of(&train_targets)?;
        let split = |features: &Table, targets: &Table| {
            let (features, targets) = (feature_scale.apply(features)?, target_scale.apply(targets)?);
            Ok::<_, DataError>(RegressionSplit { features, targets })
        };
        Ok(Regression {
            train: split(&train_features, &train_targets)?,
            held_out: split(&held_out_features, &held_out_targets)?,
            feature_scale,
            target_scale,
        })
    }
}

/// Features and targets of the same rows; at least one row. Clones share the tables.
#[derive(Debug, Clone)]
pub struct RegressionSplit {
    features: Table,
    targets: Table,
}

/// A batch of rows, on a device.
#[derive(Debug, Clone)]
pub struct RegressionBatch {
    /// `[batch, features]`, f32.
    pub features: Tensor,
    /// `[batch, targets]`, f32.
    pub targets: Tensor,
    /// The number of rows.
    pub size: usize,
}

impl RegressionSplit {
    /// Returns the number of rows; at least 1.
    pub fn len(&self) -> usize {
        self.features.rows()
    }

    /// Always returns false: a table has at least one row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the features.
    pub fn features(&self) -> &Table {
        &self.features
    }

    /// Returns the targets.
    pub fn targets(&self) -> &Table {
        &self.targets
    }

    /// Returns all rows as one batch, in stored order.
    ///
    /// # Errors
    /// Returns an error if the tensors cannot be created.
    pub fn to_batch(&self, device: &Device) -> Result<RegressionBatch> {
        let (features, targets) = (self.features.to_tensor(device)?, self.targets.to_tensor(device)?);
        Ok(RegressionBatch { features, targets, size: self.len() })
    }

    /// Returns batches of all rows in stored order. The last batch may be smaller.
    ///
    /// # Errors
    /// Returns an error if `batch_size` is 0.
    pub fn batches(&self, batch_size: usize, device: &Device) -> Result<RegressionBatches> {
        RegressionBatches::new(self, Order::AsStored.positions(self.len(), 0), batch_size, device)
    }

    /// Returns batches of all rows in random order. Each `epoch` of a [`RegressionOrder`] is a
    /// different order.
    ///
    /// # Errors
    /// Returns an error if `batch_size` is 0.
    pub fn shuffled_batches(
        &self,
        order: RegressionOrder,
        batch_size: usize,
        device: &Device,
    ) -> Result<RegressionBatches> {
        let RegressionOrder { seed, epoch } = order;
        RegressionBatches::new(
            self,
            Order::Shuffled { seed }.positions(self.len(), epoch),
            batch_size,
            device,
        )
    }
}

/// Determines the order of shuffled rows, which is the same on every platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegressionOrder {
    /// The seed of all orders.
    pub seed: u64,
    /// The epoch. Each one has a different order.
    pub epoch: u64,
}

/// An iterator over the batches of one epoch.
#[derive(Debug, Clone)]
pub struct RegressionBatches {
    split: RegressionSplit,
    positions: Vec<usize>,
    next_position: usize,
    batch_size: usize,
    device: Device,
}

impl RegressionBatches {
    fn new(
        split: &RegressionSplit,
        positions: Vec<usize>,
        batch_size: usize,
        device: &Device,
    ) -> Result<Self> {
        if batch_size == 0 {
            return Err(DataError::ZeroBatchSize);
        }
        Ok(RegressionBatches {
            split: split.clone(),
            positions,
            next_position: 0,
            batch_size,
            device: device.clone(),
        })
    }
}

impl Iterator for RegressionBatches {
    type Item = Result<RegressionBatch>;

    fn next(&mut self) -> Option<Result<RegressionBatch>> {
        let start = self.next_position;
        self.next_position = start.saturating_add(self.batch_size).min(self.positions.len());
        let positions = &self.positions[start..self.next_position];
        let part = |table: &Table| table.take(positions)?.to_tensor(&self.device);
        let batch = || {
            let (features, targets) = (part(&self.split.features)?, part(&self.split.targets)?);
            Ok(RegressionBatch { features, targets, size: positions.len() })
        };
        (!positions.is_empty()).then(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let batches = (self.positions.len() - self.next_position).div_ceil(self.batch_size);
        (batches, Some(batches))
    }
}

impl ExactSizeIterator for RegressionBatches {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fifty rows. The target is three times the first feature plus 7.
    fn regression(seed: u64) -> Regression {
        let cells = (0..50).flat_map(|row| [f64::from(row), 3.0 * f64::from(row) + 7.0, f64::from(row % 5)]);
        let table = Table::new(&["x", "y", "z"], cells.collect()).unwrap();
        Regression::new(&table, &["y"], seed).unwrap()
    }

    fn targets(batches: RegressionBatches) -> Vec<f32> {
        batches.flat_map(|batch| batch.unwrap().targets.to_vec::<f32>().unwrap()).collect()
    }

    #[test]
    fn both_splits_are_standardized_by_the_training_split() {
        let regression = regression(3);
        assert_eq!((regression.train.len(), regression.held_out.len()), (40, 10));
        assert_eq!(regression.train.features().columns(), ["x", "z"]);
        let mean = |table: &Table| table.column("y").unwrap().iter().sum::<f64>() / table.rows() as f64;
        assert!(mean(regression.train.targets()).abs() < 1e-12);
        assert!(mean(regression.held_out.targets()).abs() > 1e-6);
        let x =
            regression.feature_scale.restore(regression.held_out.features()).unwrap().column("x").unwrap();
        let y = regression.target_scale.restore(regression.held_out.targets()).unwrap().column("y").unwrap();
        assert!(x.iter().zip(&y).all(|(x, y)| (3.0 * x + 7.0 - y).abs() < 1e-9), "{x:?} {y:?}");
    }

    #[test]
    fn batches_hold_every_row_once_with_its_target() {
        let (device, split) = (ternion_cpu::device(), regression(1).train);
        let all_targets: Vec<f32> = split.to_batch(&device).unwrap().targets.to_vec().unwrap();
        let stored = split.batches(16, &device).unwrap();
        assert_eq!(stored.len(), 3);
        let sizes: Vec<usize> = stored.clone().map(|batch| batch.unwrap().size).collect();
        assert_eq!((sizes, targets(stored)), (vec![16, 16, 8], all_targets.clone()));
        let epoch = |epoch| split.shuffled_batches(RegressionOrder { seed: 1, epoch }, 16, &device).unwrap();
        let (first, second) = (targets(epoch(0)), targets(epoch(1)));
        assert!(first != second && first != all_targets && first == targets(epoch(0)));
        let sorted = |mut values: Vec<f32>| {
            values.sort_by(f32::total_cmp);
            values
        };
        assert_eq!(sorted(first), sorted(all_targets.clone()));
        assert_eq!(sorted(second), sorted(all_targets));
        let batch = epoch(5).next().unwrap().unwrap();
        assert_eq!((batch.features.dims(), batch.targets.dims()), (&[16, 2][..], &[16, 1][..]));
        // x and y are linearly related with a positive factor, so their standardized values are
        // equal.
        let x = batch.features.to_vec::<f32>().unwrap();
        let y = batch.targets.to_vec::<f32>().unwrap();
        assert!(x.chunks(2).zip(&y).all(|(row, y)| (row[0] - y).abs() < 1e-5), "{x:?} {y:?}");
    }

    #[test]
    fn invalid_requests_are_errors() {
        let table = Table::new(&["x", "y"], vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!(matches!(Regression::new(&table, &["z"], 0), Err(DataError::NoColumn { .. })));
        assert!(Regression::new(&table, &["x", "y"], 0).is_err());
        assert!(Regression::new(&table, &[], 0).is_err());
        let split = regression(0).train;
        assert!(matches!(split.batches(0, &ternion_cpu::device()), Err(DataError::ZeroBatchSize)));
    }
}
