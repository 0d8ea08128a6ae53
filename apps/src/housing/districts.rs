//! California's districts, or a table drawn by code with the same columns where they are not at hand.

use crate::support::program::Outcome;
use std::path::Path;
use ternion::data::{CaliforniaHousing, DataError, DataSource, Philox, Table};

/// Rows of the drawn table.
const DRAWN_ROWS: usize = 4000;

/// Latitude and longitude of the town of the drawn table.
const TOWN: [f64; 2] = [34.05, -118.25];

/// A table, and from where it came, in a line for the user.
pub struct Districts {
    pub table: Table,
    pub origin: String,
    pub is_artificial: bool,
}

impl Districts {
    /// The table that `--data` names: `auto`, `artificial`, a directory with California housing, or any CSV file of numbers.
    pub fn load(data: &str) -> Outcome<Districts> {
        match data {
            "" => Err(DataError::EmptyDirectoryName.into()),
            "artificial" => Districts::drawn("they were asked for"),
            "auto" => match CaliforniaHousing::load(DataSource::Auto) {
                Ok(found) => Ok(Districts::found(&found)),
                Err(missing @ DataError::NotFound { .. }) => Districts::drawn(&missing.to_string()),
                Err(damaged) => Err(damaged.into()),
            },
            place => Districts::named(Path::new(place)),
        }
    }

    fn named(place: &Path) -> Outcome<Districts> {
        // The published file has no header: its folder says what it is.
        let folder = match place.file_name().is_some_and(|name| name == "cal_housing.data") {
            true => place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            false => place,
        };
        if folder.is_dir() {
            let found = CaliforniaHousing::load(DataSource::Directory(folder.to_path_buf()))?;
            return Ok(Districts::found(&found));
        }
        let origin = format!("data from {}", place.display());
        Ok(Districts { table: Table::read(place)?, origin, is_artificial: false })
    }

    fn found(housing: &CaliforniaHousing) -> Districts {
        let origin = format!("California housing, {}", housing.origin());
        Districts { table: housing.table().clone(), origin, is_artificial: false }
    }

    fn drawn(reason: &str) -> Outcome<Districts> {
        let origin = format!("THESE DISTRICTS ARE ARTIFICIAL, drawn by a formula, because {reason}");
        Ok(Districts { table: draw(DRAWN_ROWS)?, origin, is_artificial: true })
    }
}

/// Districts whose houses are worth, in 100,000 dollars,
///
/// `0.45 income + 1.5 exp(-(distance / 2)^2) - 0.3 (people - 3) + 0.01 (age - 28) + noise`
///
/// with the distance to one town in degrees, the people in a household, and a noise even over -0.25..0.25. Rooms, bedrooms and population say nothing.
fn draw(rows: usize) -> ternion::data::Result<Table> {
    let mut random = Philox::new(1990, 0);
    let mut between = |low, high| random.between(low, high);
    let mut cells = Vec::with_capacity(rows * 9);
    for _ in 0..rows {
        let (income, age) = (between(0.5, 8.0), between(1.0, 52.0));
        let (rooms, bedrooms) = (between(3.0, 8.0), between(0.8, 1.3));
        let (population, people) = (between(100.0, 3000.0), between(1.5, 4.5));
        let (latitude, longitude) = (between(32.5, 42.0), between(-124.3, -114.3));
        let distance = (latitude - TOWN[0]).hypot(longitude - TOWN[1]);
        let place = 1.5 * (-(distance / 2.0).powi(2)).exp();
        let value = 0.45 * income + place - 0.3 * (people - 3.0) + 0.01 * (age - 28.0);
        let noise = between(-0.25, 0.25);
        cells.extend([income, age, rooms, bedrooms, population, people, latitude, longitude, value + noise]);
    }
    Table::new(&CaliforniaHousing::COLUMNS, cells)
}
