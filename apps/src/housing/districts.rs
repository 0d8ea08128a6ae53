//! California's districts, or a synthetic table with the same columns if they are not available.

use crate::support::program::Outcome;
use std::path::Path;
use ternion::data::{CaliforniaHousing, DataError, DataSource, Philox, Table};

/// Rows of the synthetic table.
const SYNTHETIC_ROWS: usize = 4000;

/// Latitude and longitude of the town in the synthetic table.
const TOWN: [f64; 2] = [34.05, -118.25];

/// A table, and a line about its source for the user.
pub struct Districts {
    pub table: Table,
    pub origin: String,
    pub is_artificial: bool,
}

impl Districts {
    /// Loads the table that `--data` names: `auto`, `artificial`, a directory with California
    /// housing, or any CSV file of numbers.
    pub fn load(data: &str) -> Outcome<Districts> {
        match data {
            "" => Err(DataError::EmptyDirectoryName.into()),
            "artificial" => Districts::synthetic("they were asked for"),
            "auto" => match CaliforniaHousing::load(DataSource::Auto) {
                Ok(housing) => Ok(Districts::california(&housing)),
                Err(missing @ DataError::NotFound { .. }) => Districts::synthetic(&missing.to_string()),
                Err(error) => Err(error.into()),
            },
            path => Districts::from_path(Path::new(path)),
        }
    }

    fn from_path(path: &Path) -> Outcome<Districts> {
        // The published file has no header: the columns are known from its folder.
        let folder = match path.file_name().is_some_and(|name| name == "cal_housing.data") {
            true => path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            false => path,
        };
        if folder.is_dir() {
            let housing = CaliforniaHousing::load(DataSource::Directory(folder.to_path_buf()))?;
            return Ok(Districts::california(&housing));
        }
        let origin = format!("data from {}", path.display());
        Ok(Districts { table: Table::read(path)?, origin, is_artificial: false })
    }

    fn california(housing: &CaliforniaHousing) -> Districts {
        let origin = format!("California housing, {}", housing.origin());
        Districts { table: housing.table().clone(), origin, is_artificial: false }
    }

    fn synthetic(reason: &str) -> Outcome<Districts> {
        let origin = format!("THESE DISTRICTS ARE ARTIFICIAL, drawn by a formula, because {reason}");
        Ok(Districts { table: generate(SYNTHETIC_ROWS)?, origin, is_artificial: true })
    }
}

/// Draws districts whose houses are worth, in 100,000 dollars,
///
/// `0.45 income + 1.5 exp(-(distance / 2)^2) - 0.3 (people - 3) + 0.01 (age - 28) + noise`
///
/// where distance is that to one town in degrees, people those in a household, and the noise is
/// uniform in -0.25..0.25. Rooms, bedrooms and population have no influence.
fn generate(rows: usize) -> ternion::data::Result<Table> {
    let mut random = Philox::new(1990, 0);
    let mut between = |low, high| random.between(low, high);
    let mut cells = Vec::with_capacity(rows * 9);
    for _ in 0..rows {
        let (income, age) = (between(0.5, 8.0), between(1.0, 52.0));
        let (rooms, bedrooms) = (between(3.0, 8.0), between(0.8, 1.3));
        let (population, people) = (between(100.0, 3000.0), between(1.5, 4.5));
        let (latitude, longitude) = (between(32.5, 42.0), between(-124.3, -114.3));
        let distance = (latitude - TOWN[0]).hypot(longitude - TOWN[1]);
        let location = 1.5 * (-(distance / 2.0).powi(2)).exp();
        let value = 0.45 * income + location - 0.3 * (people - 3.0) + 0.01 * (age - 28.0);
        let noise = between(-0.25, 0.25);
        cells.extend([income, age, rooms, bedrooms, population, people, latitude, longitude, value + noise]);
    }
    Table::new(&CaliforniaHousing::COLUMNS, cells)
}
