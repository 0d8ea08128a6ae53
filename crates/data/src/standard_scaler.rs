//! Standardizes columns by their means and standard deviations, and converts back.

use crate::error::{DataError, Result};
use crate::table::Table;
use ternion_core::{DType, Tensor};

/// `(x - mean) / std` for each column, and its inverse.
///
/// Compute it from the training part only, so that no information about the held-out part is used
/// in training.
///
/// ```
/// # use ternion_data::{StandardScaler, Table};
/// # fn main() -> ternion_data::Result<()> {
/// let train = Table::new(&["price"], vec![100.0, 300.0])?;
/// let scale = StandardScaler::of(&train)?;
/// assert_eq!(scale.apply(&train)?.cells(), [-1.0, 1.0]);
/// assert_eq!(scale.restore(&scale.apply(&train)?)?, train);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct StandardScaler {
    columns: Vec<String>,
    means: Vec<f64>,
    stds: Vec<f64>,
}

impl StandardScaler {
    /// Computes the mean and the population standard deviation (ddof = 0) of each column.
    ///
    /// A constant column gets the standard deviation 1: its values become 0 up to rounding of the
    /// mean, and [`restore`](StandardScaler::restore) recovers them.
    ///
    /// # Errors
    /// Returns an error if a cell is not finite.
    pub fn of(table: &Table) -> Result<StandardScaler> {
        let (mut means, mut stds) = (Vec::new(), Vec::new());
        for name in table.columns() {
            let column = table.column(name)?;
            let mean = mean(&column);
            // Because of rounding, the mean of equal values can differ slightly from them.
            let constant = column.iter().all(|value| *value == column[0]);
            means.push(mean);
            stds.push(if constant { 1.0 } else { standard_deviation(&column, mean) });
        }
        StandardScaler::new(table.columns(), means, stds)
    }

    /// Creates a scaler from stored means and standard deviations.
    ///
    /// # Errors
    /// Returns an error if the number of means or standard deviations is not the number of columns,
    /// a number is not finite, or a standard deviation is not positive.
    pub fn new(columns: &[String], means: Vec<f64>, stds: Vec<f64>) -> Result<StandardScaler> {
        if means.len() != columns.len() || stds.len() != columns.len() {
            let (expected, means, stds) = (columns.len(), means.len(), stds.len());
            return Err(DataError::ScaleCount { expected, means, stds });
        }
        for (&mean, &std) in means.iter().zip(&stds) {
            if !(mean.is_finite() && std.is_finite() && std > 0.0) {
                return Err(DataError::Normalization { mean: mean as f32, std: std as f32 });
            }
        }
        Ok(StandardScaler { columns: columns.to_vec(), means, stds })
    }

    /// Returns the names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the mean of each column.
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// Returns the standard deviation of each column.
    pub fn stds(&self) -> &[f64] {
        &self.stds
    }

    /// Computes `(x - mean) / std`.
    ///
    /// # Errors
    /// Returns an error if the table does not have the columns of this scaler in the same order.
    pub fn apply(&self, table: &Table) -> Result<Table> {
        self.map_cells(table, |value, mean, std| match value - mean {
            difference if difference.is_finite() => difference / std,
            // The difference overflows: compute it from halved numbers.
            _ => (value / 2.0 - mean / 2.0) / std * 2.0,
        })
    }

    /// Computes `x * std + mean`.
    ///
    /// # Errors
    /// Same as [`StandardScaler::apply`].
    pub fn restore(&self, table: &Table) -> Result<Table> {
        self.map_cells(table, |value, mean, std| value * std + mean)
    }

    /// Like [`restore`](StandardScaler::restore), for predictions on a device: `[.., columns]` f32
    /// or f64. Autograd records it.
    ///
    /// # Errors
    /// Returns an error if the size of the last axis is not the number of columns, or the tensor is
    /// neither f32 nor f64. For f32, also if the standard deviation of a column is smaller than the
    /// spacing of f32 numbers near its mean, as for timestamps in seconds: all values would become
    /// equal.
    pub fn restore_tensor(&self, values: &Tensor) -> Result<Tensor> {
        if values.dtype() != DType::F64 {
            self.check_distinct_in_f32()?;
        }
        let shape = [self.columns.len()];
        let on_device = |numbers: &[f64]| match values.dtype() {
            DType::F64 => Tensor::from_slice(numbers, shape, values.device()),
            _ => {
                let numbers: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
                Tensor::from_vec(numbers, shape, values.device())
            }
        };
        let width = values.dims().last().copied().unwrap_or(0);
        if width != self.columns.len() {
            let expected = self.columns.len();
            let detail = format!("shape {:?}, expected a last axis of {expected} columns", values.shape());
            return Err(ternion_core::Error::invalid("restore_tensor", detail).into());
        }
        Ok(((values * on_device(&self.stds)?)? + on_device(&self.means)?)?)
    }

    /// Checks that, for each column, f32 can distinguish numbers whose distance from the mean is
    /// the standard deviation.
    fn check_distinct_in_f32(&self) -> Result<()> {
        let scales = self.columns.iter().zip(self.means.iter().zip(&self.stds));
        for (name, (&mean, &std)) in scales {
            if mean.abs() * f64::from(f32::EPSILON) > std {
                let detail = format!(
                    "column {name} of mean {mean} and std {std}: f32 does not distinguish its values, expected values in f64 (float64)"
                );
                return Err(ternion_core::Error::invalid("restore_tensor", detail).into());
            }
        }
        Ok(())
    }

    fn map_cells(&self, table: &Table, number: impl Fn(f64, f64, f64) -> f64) -> Result<Table> {
        if table.columns() != self.columns {
            let found = table.columns().to_vec();
            return Err(DataError::OtherColumns { expected: self.columns.clone(), found });
        }
        let scales = self.means.iter().zip(&self.stds).cycle();
        let cells = table.cells().iter().zip(scales);
        let cells = cells.map(|(&value, (&mean, &std))| number(value, mean, std)).collect();
        let columns: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        table.with_cells(&columns, cells)
    }
}

/// Computes the mean, even if the sum would overflow.
fn mean(column: &[f64]) -> f64 {
    let count = column.len() as f64;
    match column.iter().sum::<f64>() / count {
        mean if mean.is_finite() => mean,
        _ => column.iter().map(|value| value / count).sum(),
    }
}

/// Computes the standard deviation, even if squares would overflow or underflow: it halves the
/// differences from the mean and scales them by the largest one.
fn standard_deviation(column: &[f64], mean: f64) -> f64 {
    let differences = || column.iter().map(|value| value / 2.0 - mean / 2.0);
    let unit = differences().fold(0.0, |largest: f64, difference| largest.max(difference.abs()));
    let squares: f64 = differences().map(|difference| (difference / unit).powi(2)).sum();
    2.0 * (unit * (squares / column.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::new(&["a", "b", "c"], vec![1.0, 10.0, 0.1, 2.0, 20.0, 0.1, 6.0, 60.0, 0.1]).unwrap()
    }

    #[test]
    fn standardized_columns_have_mean_0_and_std_1() {
        let standardized = StandardScaler::of(&table()).unwrap().apply(&table()).unwrap();
        for name in ["a", "b"] {
            let column = standardized.column(name).unwrap();
            let square: f64 = column.iter().map(|value| value * value).sum();
            assert!(column.iter().sum::<f64>().abs() < 1e-12 && (square - 3.0).abs() < 1e-12, "{column:?}");
        }
        assert!(standardized.column("c").unwrap().iter().all(|value| value.abs() < 1e-15));
    }

    #[test]
    fn original_units_are_restored_in_tables_and_tensors() {
        let scale = StandardScaler::of(&table()).unwrap();
        let standardized = scale.apply(&table()).unwrap();
        let restored = scale.restore(&standardized).unwrap();
        assert!(
            restored
                .cells()
                .iter()
                .zip(table().cells())
                .all(|(restored, cell)| (restored - cell).abs() < 1e-12)
        );
        let tensor = standardized.to_tensor(&ternion_cpu::device()).unwrap();
        let restored: Vec<f32> = scale.restore_tensor(&tensor).unwrap().to_vec().unwrap();
        assert!(
            restored
                .iter()
                .zip(table().cells())
                .all(|(&restored, cell)| (f64::from(restored) - cell).abs() < 1e-5)
        );
        let recreated = StandardScaler::new(scale.columns(), scale.means().to_vec(), scale.stds().to_vec());
        assert_eq!(recreated.unwrap(), scale);
    }

    #[test]
    fn values_whose_squares_overflow_or_underflow_are_standardized() {
        for size in [1e-300, 1e-200, 1e200, 1.7e308] {
            let table = Table::new(&["a"], vec![size, -size, size, -size]).unwrap();
            let scale = StandardScaler::of(&table).unwrap();
            assert!(scale.means()[0].abs() <= size * 1e-15, "{size}: mean {}", scale.means()[0]);
            assert!((scale.stds()[0] / size - 1.0).abs() < 1e-15, "{size}: {:?}", scale.stds());
            assert_eq!(scale.apply(&table).unwrap().cells(), [1.0, -1.0, 1.0, -1.0]);
            assert_eq!(scale.restore(&scale.apply(&table).unwrap()).unwrap(), table);
        }
        let table = Table::new(&["a"], vec![1.7e308, 1.7e308, 1.6e308, 1.6e308]).unwrap();
        let scale = StandardScaler::of(&table).unwrap();
        assert!((scale.means()[0] / 1.65e308 - 1.0).abs() < 1e-15, "{:?}", scale.means());
        assert!((scale.stds()[0] / 5e306 - 1.0).abs() < 1e-12, "{:?}", scale.stds());
    }

    #[test]
    fn other_columns_and_invalid_scales_are_errors() {
        let scale = StandardScaler::of(&table()).unwrap();
        let message = scale.apply(&table().select(&["b", "a", "c"]).unwrap()).unwrap_err().to_string();
        assert_eq!(message, "standardize: columns b, a, c, expected a, b, c");
        let device = ternion_cpu::device();
        let narrow = Tensor::from_vec(vec![0.0_f32; 2], [1, 2], &device).unwrap();
        assert!(scale.restore_tensor(&narrow).unwrap_err().to_string().contains("last axis of 3 columns"));
        let columns = ["a".to_string()];
        for (means, stds) in [(vec![0.0], vec![0.0]), (vec![f64::NAN], vec![1.0]), (vec![], vec![1.0])] {
            assert!(StandardScaler::new(&columns, means, stds).is_err());
        }
    }
}
