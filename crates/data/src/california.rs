//! California housing: finds the data set and reads it in either of its published formats.

use crate::error::{CellError, Result};
use crate::local::{LocalFiles, LocalSet};
use crate::mnist::{DataSource, Origin};
use crate::regression::Regression;
use crate::search::Search;
use crate::table::{CsvConfig, Table};
use std::path::Path;

const CALIFORNIA_HOUSING: LocalSet = LocalSet {
    name: "California housing",
    folders: &["california-housing", "CaliforniaHousing"],
    layouts: &[&["cal_housing.data"], &["california_housing.csv"]],
    published: "https://www.dcc.fc.up.pt/~ltorgo/Regression/cal_housing.tgz",
};

/// The columns of `cal_housing.data`, which has no header.
const ORIGINAL_COLUMNS: [&str; 9] = [
    "longitude",
    "latitude",
    "housingMedianAge",
    "totalRooms",
    "totalBedrooms",
    "population",
    "households",
    "medianIncome",
    "medianHouseValue",
];
/// The unit of the target column, in dollars.
const TARGET_UNIT: f64 = 100_000.0;

/// Districts of California in the census of 1990: eight features and the median house value of
/// each.
///
/// Pace and Barry, "Sparse Spatial Autoregressions" (1997). The data set has 20,640 rows, with the
/// columns and units of scikit-learn's `fetch_california_housing`: `MedInc`, `HouseAge`,
/// `AveRooms`, `AveBedrms`, `Population`, `AveOccup`, `Latitude`, `Longitude`, and the target
/// `MedHouseVal` in 100,000 dollars.
#[derive(Debug, Clone)]
pub struct CaliforniaHousing {
    table: Table,
    origin: Origin,
    notices: Vec<String>,
}

impl CaliforniaHousing {
    /// The target column: the median value of a house, in units of 100,000 dollars.
    pub const TARGET: &'static str = "MedHouseVal";

    /// The features in order, followed by the target.
    pub const COLUMNS: [&'static str; 9] = [
        "MedInc",
        "HouseAge",
        "AveRooms",
        "AveBedrms",
        "Population",
        "AveOccup",
        "Latitude",
        "Longitude",
        CaliforniaHousing::TARGET,
    ];

    /// Loads `cal_housing.data` as published, or `california_housing.csv` with scikit-learn's
    /// columns.
    ///
    /// The files are searched in the subfolder `california-housing` of a data directory (or
    /// `CaliforniaHousing`, the name in the published archive), then in the directory itself. Files
    /// with any number of rows are accepted.
    ///
    /// # Errors
    /// Returns an error if neither file is found (there is no download and no synthetic data), or a
    /// cell is invalid. The error then names file, line and column.
    pub fn load(source: DataSource) -> Result<CaliforniaHousing> {
        CaliforniaHousing::read(CALIFORNIA_HOUSING.open(&source)?)
    }

    /// Like [`CaliforniaHousing::load`] with [`DataSource::Auto`], but with this search.
    ///
    /// # Errors
    /// Same as [`CaliforniaHousing::load`].
    pub fn find(search: &Search) -> Result<CaliforniaHousing> {
        CaliforniaHousing::read(CALIFORNIA_HOUSING.find(search)?)
    }

    fn read(found: LocalFiles) -> Result<CaliforniaHousing> {
        let table = match found.layout {
            0 => read_original(&found.files[0]),
            _ => read_derived(&found.files[0]),
        }?;
        Ok(CaliforniaHousing { table, origin: found.origin, notices: found.notices })
    }

    /// Returns the table of eight features and the target.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Splits the districts into four fifths for training and one fifth held out, all standardized.
    ///
    /// # Errors
    /// Returns an error if there are fewer than two districts.
    pub fn regression(&self, seed: u64) -> Result<Regression> {
        Regression::new(&self.table, &[CaliforniaHousing::TARGET], seed)
    }

    /// Returns where the data came from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns messages for the user about how the data was found: see [`crate::Mnist::notices`].
    pub fn notices(&self) -> &[String] {
        &self.notices
    }
}

fn owned(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_string()).collect())
}

fn read_derived(file: &Path) -> Result<Table> {
    Table::read_with(file, &CsvConfig { columns: owned(&CaliforniaHousing::COLUMNS), ..CsvConfig::default() })
}

/// Reads the published file and computes scikit-learn's columns from it.
fn read_original(file: &Path) -> Result<Table> {
    let original =
        Table::read_with(file, &CsvConfig { names: owned(&ORIGINAL_COLUMNS), ..CsvConfig::default() })?;
    let households_column = original.index_of("households")?;
    let households = original.column("households")?;
    if let Some(row) = households.iter().position(|&count| count <= 0.0) {
        return Err(original.cell_error(row, households_column, CellError::NotPositive(households[row])));
    }
    let derived = |row: &[f64; 9]| {
        let [longitude, latitude, age, rooms, bedrooms, population, households, income, value] = *row;
        let [rooms, bedrooms, occupation] = [rooms, bedrooms, population].map(|total| total / households);
        [income, age, rooms, bedrooms, population, occupation, latitude, longitude, value / TARGET_UNIT]
    };
    let cells = original.cells().as_chunks().0.iter().flat_map(derived).collect();
    original.with_cells(&CaliforniaHousing::COLUMNS, cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DataError;

    /// The first two rows in each format.
    const ORIGINAL: &str = "-122.230000,37.880000,41.000000,880.000000,129.000000,322.000000,126.000000,8.325200,452600.000000\n\
        -122.220000,37.860000,21.000000,7099.000000,1106.000000,2401.000000,1138.000000,8.301400,358500.000000\n";
    const DERIVED: &str = "MedInc,HouseAge,AveRooms,AveBedrms,Population,AveOccup,Latitude,Longitude,MedHouseVal\n\
        8.3252,41.0,6.984126984126984,1.0238095238095237,322.0,2.5555555555555554,37.88,-122.23,4.526\n\
        8.3014,21.0,6.238137082601054,0.9718804920913884,2401.0,2.109841827768014,37.86,-122.22,3.585\n";

    fn load(name: &str, content: &str) -> Result<CaliforniaHousing> {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("california-housing");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(name), content).unwrap();
        CaliforniaHousing::load(DataSource::Directory(directory.path().to_path_buf()))
    }

    fn message(name: &str, content: &str) -> String {
        load(name, content).unwrap_err().to_string()
    }

    #[test]
    fn both_formats_give_the_same_values() {
        let original = load("cal_housing.data", ORIGINAL).unwrap();
        let derived = load("california_housing.csv", DERIVED).unwrap();
        assert_eq!(original.table().columns(), CaliforniaHousing::COLUMNS);
        assert_eq!(derived.table().columns(), CaliforniaHousing::COLUMNS);
        assert_eq!(original.table().cells(), derived.table().cells());
        assert_eq!(original.table().column("MedHouseVal").unwrap(), [4.526, 3.585]);
        let regression = original.regression(0).unwrap();
        assert_eq!((regression.train.len(), regression.held_out.len()), (1, 1));
        assert_eq!(regression.train.features().columns(), &CaliforniaHousing::COLUMNS[..8]);
    }

    #[test]
    fn corrupt_files_are_reported_with_line_and_column() {
        let cases = [
            (
                "cal_housing.data",
                ORIGINAL.replace("1138.000000", "0"),
                "line 2, column 7 (households): expected a number above 0, found 0",
            ),
            (
                "cal_housing.data",
                ORIGINAL.replace("7099.000000", "many"),
                "line 2, column 4 (totalRooms): expected a number, found \"many\"",
            ),
            (
                "cal_housing.data",
                ORIGINAL.replace(",358500.000000", ""),
                "line 2, column 9 (medianHouseValue): missing: expected 9 cells, found 8",
            ),
            (
                "california_housing.csv",
                DERIVED.replace("AveOccup", "Occupation"),
                "line 1: no column AveOccup; there are MedInc",
            ),
            (
                "california_housing.csv",
                DERIVED.replace("37.86", ""),
                "line 3, column 7 (Latitude): expected a number, found an empty cell",
            ),
            ("cal_housing.data", String::new(), "holds 0 examples, expected at least 1"),
        ];
        for (name, content, expected) in cases {
            let message = message(name, &content);
            assert!(message.contains(&format!("{name}: {expected}")), "{message}");
        }
    }

    #[test]
    fn directory_without_the_data_set_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let source = DataSource::Directory(directory.path().to_path_buf());
        let message = CaliforniaHousing::load(source).unwrap_err().to_string();
        assert!(
            message.ends_with(": no complete California housing here: missing cal_housing.data, or instead california_housing.csv"),
            "{message}"
        );
        assert!(matches!(CaliforniaHousing::load(DataSource::SYNTHETIC), Err(DataError::NoSynthetic { .. })));
    }
}
