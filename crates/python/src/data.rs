//! The native part of `ternion.data`: data sets, and the batches that training reads from them.

use crate::arguments::Seed;
use crate::device::{DeviceArgument, or_default};
use crate::dtype::DTypeArgument;
use crate::error::{Outcome, RaisedError, os_error};
use crate::extract::of;
use crate::gil::{wait, wait_on_thread};
use crate::tensor::PyTensor;
use parking_lot::Mutex;
use pyo3::exceptions::PyFileNotFoundError;
use pyo3::prelude::*;
use std::path::PathBuf;
use ternion::data::{
    BatchIterator, Batches, CaliforniaHousing, Cifar10, CsvConfig, DataError, DataSource, LastBatch,
    MissingCells, Mnist, Split, StandardScaler, Table, Transform,
};
use ternion::{DType, Tensor};

/// The names of columns, and the rows of their values.
type NamedColumns = (Vec<String>, Vec<Vec<f64>>);

impl From<DataError> for RaisedError {
    fn from(error: DataError) -> RaisedError {
        let message = error.to_string();
        match error {
            DataError::NotFound { .. } | DataError::Missing { .. } => {
                PyFileNotFoundError::new_err(message).into()
            }
            DataError::Io { file, source } => {
                os_error(source.raw_os_error(), &file.display().to_string(), &source.to_string(), message)
                    .into()
            }
            DataError::Tensor(error) => RaisedError::from(*error),
            _ => RaisedError::value_error(message),
        }
    }
}

/// "auto", "synthetic", a directory, or the numbers of training and test examples to generate.
enum Source {
    Named(String),
    Synthetic(usize, usize),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Source {
    type Error = RaisedError;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Outcome<Self> {
        if let Ok((train, test)) = object.extract::<(usize, usize)>() {
            return Ok(Source::Synthetic(train, test));
        }
        match object.extract::<PathBuf>() {
            Ok(path) => Ok(Source::Named(path.display().to_string())),
            Err(_) => Err(RaisedError::type_error(
                "source: expected \"auto\", \"synthetic\", a directory, or two numbers of examples to draw",
            )),
        }
    }
}

impl Source {
    fn data(self) -> Outcome<DataSource> {
        Ok(match self {
            Source::Named(name) => name.parse()?,
            Source::Synthetic(train, test) => DataSource::Synthetic { train, test, seed: 0 },
        })
    }
}

/// Runs a function that reads files, with the GIL released.
fn read<T: Send>(py: Python<'_>, f: impl FnOnce() -> Result<T, DataError> + Send) -> Outcome<T> {
    Ok(wait(py, || Ok(f()))??)
}

/// Same as `read` for a function that may take long: Ctrl-C ends the wait.
fn load<T: Send + 'static>(
    py: Python<'_>,
    f: impl FnOnce() -> Result<T, DataError> + Send + 'static,
) -> Outcome<T> {
    Ok(wait_on_thread(py, || Ok(f()))??)
}

/// Images and the class index of each.
#[pyclass(name = "Split", module = "ternion.data", frozen)]
struct PySplit(Split);

#[pymethods]
impl PySplit {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The pixels as stored: uint8, [images, channels, rows, columns], on the CPU.
    #[getter]
    fn images(&self, py: Python<'_>) -> Outcome<PyTensor> {
        let cpu = or_default(py, Some(DeviceArgument::Named("cpu".into())))?;
        let split = &self.0;
        let shape = [split.len(), split.channels(), split.rows(), split.cols()];
        wait(py, || Tensor::from_slice(split.pixels(), shape, &cpu)).map(PyTensor::new)
    }

    /// The class indices, int64, [images], on the CPU.
    #[getter]
    fn labels(&self, py: Python<'_>) -> Outcome<PyTensor> {
        let cpu = or_default(py, Some(DeviceArgument::Named("cpu".into())))?;
        wait(py, || Tensor::from_slice(self.0.labels(), [self.0.len()], &cpu)?.to_dtype(DType::I64))
            .map(PyTensor::new)
    }

    /// Returns the first `count` images.
    fn first(&self, #[pyo3(from_py_with = of::first)] count: usize) -> PySplit {
        PySplit(self.0.first(count))
    }

    /// Returns the indices of the images in the order of an epoch, shuffled by `seed`: int64,
    /// [images], on the CPU. For programs that keep the images on a device and select batches
    /// there.
    fn order(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::order)] epoch: u64,
        #[pyo3(from_py_with = of::order)] seed: Seed,
    ) -> Outcome<PyTensor> {
        let cpu = or_default(py, Some(DeviceArgument::Named("cpu".into())))?;
        let order = wait(py, || {
            let order = self.0.shuffled(seed.0).order(epoch).into_iter().map(|index| index as i64).collect();
            Tensor::from_vec(order, [self.0.len()], &cpu)
        })?;
        Ok(PyTensor::new(order))
    }

    /// Returns batches of images (float32, [batch, channels, rows, columns], from 0 to 1) and
    /// labels (int64, [batch]), one pass over all of them.
    ///
    /// Args:
    ///     batch_size: images in a batch.
    ///     shuffle: a seed that determines the order, which differs in each epoch; None for the
    ///         stored order.
    ///     drop_last: whether to omit a last batch that is not full.
    ///     mean, std: a number for each channel, with which the images are normalized.
    ///     padding, flip: random crops of the images padded with this many black pixels on each
    ///         side, and random horizontal flips, for training.
    ///     prefetch: the number of batches that a thread prepares ahead.
    #[pyo3(signature = (batch_size, shuffle=None, device=None, drop_last=false, mean=None, std=None, padding=0, flip=false, prefetch=0))]
    #[allow(clippy::too_many_arguments, reason = "all by name")]
    fn batches(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::batches)] batch_size: usize,
        #[pyo3(from_py_with = of::batches)] shuffle: Option<Seed>,
        device: Option<DeviceArgument>,
        drop_last: bool,
        mean: Option<Vec<f32>>,
        std: Option<Vec<f32>>,
        #[pyo3(from_py_with = of::batches)] padding: usize,
        flip: bool,
        #[pyo3(from_py_with = of::batches)] prefetch: usize,
    ) -> Outcome<PyBatches> {
        let device = or_default(py, device)?;
        if batch_size == 0 {
            return Err(RaisedError::value_error("batches: a batch size of 0"));
        }
        let shuffle = shuffle.map(|Seed(seed)| seed);
        let mut batches = match shuffle {
            Some(seed) => self.0.shuffled(seed).batches(batch_size, &device),
            None => self.0.batches(batch_size, &device),
        };
        if drop_last {
            batches = batches.last_batch(LastBatch::Drop);
        }
        match (&mean, &std) {
            (Some(mean), Some(std)) => batches = batches.normalize_channels(mean, std)?,
            (None, None) => {}
            (Some(_), None) => {
                return Err(RaisedError::value_error("batches: mean without std, expected both or none"));
            }
            (None, Some(_)) => {
                return Err(RaisedError::value_error("batches: std without mean, expected both or none"));
            }
        }
        let mut transforms = Vec::new();
        if padding > 0 {
            transforms.push(Transform::RandomCrop { size: [self.0.rows(), self.0.cols()], padding });
        }
        if flip {
            transforms.push(Transform::RandomHorizontalFlip { probability: 0.5 });
        }
        if !transforms.is_empty() {
            batches = batches.transforms(&transforms, shuffle.unwrap_or_default())?;
        }
        Ok(PyBatches { batches: batches.prefetch(prefetch), epoch: Mutex::new(0) })
    }
}

/// Batches of a split. Each `for` loop over them is a new epoch, in another order if they are
/// shuffled.
#[pyclass(name = "Batches", module = "ternion.data", frozen)]
struct PyBatches {
    batches: Batches,
    epoch: Mutex<u64>,
}

#[pymethods]
impl PyBatches {
    fn __len__(&self) -> usize {
        self.batches.len()
    }

    fn __iter__(&self) -> PyBatchIterator {
        let mut epoch = self.epoch.lock();
        let batches = self.batches.epoch(*epoch);
        *epoch += 1;
        PyBatchIterator(Mutex::new(batches.into_iter()))
    }

    /// Returns the batches of the epoch with this number.
    fn epoch(&self, #[pyo3(from_py_with = of::epoch)] number: u64) -> PyBatchIterator {
        PyBatchIterator(Mutex::new(self.batches.epoch(number).into_iter()))
    }
}

/// The batches of one epoch.
#[pyclass(name = "BatchIterator", module = "ternion.data", frozen)]
struct PyBatchIterator(Mutex<BatchIterator>);

#[pymethods]
impl PyBatchIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Outcome<Option<(PyTensor, PyTensor)>> {
        let next = wait(py, || Ok(self.0.lock().next()))?;
        Ok(match next {
            Some(batch) => {
                let batch = batch?;
                Some((PyTensor::new(batch.images), PyTensor::new(batch.labels)))
            }
            None => None,
        })
    }
}

/// Two splits, the names of the classes, and a line that says where the images came from.
type ImageSplits = (PySplit, PySplit, Vec<String>, String);

fn image_splits(mnist: &Mnist) -> ImageSplits {
    let names = mnist.class_names().to_vec();
    (PySplit(mnist.train().clone()), PySplit(mnist.test().clone()), names, mnist.origin().to_string())
}

#[pyfunction]
#[pyo3(signature = (source, fashion, classes=None))]
fn _mnist(py: Python<'_>, source: Source, fashion: bool, classes: Option<usize>) -> Outcome<ImageSplits> {
    let source = source.data()?;
    let mnist = load(py, move || {
        let mnist = match (source, fashion) {
            (source, true) => Mnist::fashion(source),
            (DataSource::Auto, false) => Mnist::load_or_synthetic(DataSource::Auto).map(|(mnist, _)| mnist),
            (source, false) => Mnist::load(source),
        }?;
        match classes {
            Some(classes) => mnist.with_classes(classes),
            None => Ok(mnist),
        }
    })?;
    Ok(image_splits(&mnist))
}

#[pyfunction]
fn _cifar10(py: Python<'_>, source: Source) -> Outcome<ImageSplits> {
    let source = source.data()?;
    let cifar = load(py, move || Cifar10::load(source))?;
    let names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Ok((PySplit(cifar.train().clone()), PySplit(cifar.test().clone()), names, cifar.origin().to_string()))
}

/// A table of numbers with named columns.
#[pyclass(name = "Table", module = "ternion.data", frozen)]
struct PyTable(Table);

#[pymethods]
impl PyTable {
    /// Creates a table from rows, each with one number per column.
    ///
    /// Raises:
    ///     ValueError: a row of another length, no rows, an empty or duplicate name, or a number
    ///         that is not finite.
    #[new]
    fn new(columns: Vec<String>, rows: Vec<Vec<f64>>) -> Outcome<PyTable> {
        if let Some(at) = rows.iter().position(|row| row.len() != columns.len()) {
            let (count, expected) = (rows[at].len(), columns.len());
            return Err(RaisedError::value_error(format!(
                "table: row {at} has {count} numbers, expected {expected}"
            )));
        }
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        Ok(PyTable(Table::new(&names, rows.concat())?))
    }

    fn __len__(&self) -> usize {
        self.0.rows()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.columns().to_vec()
    }

    /// Returns a table with only these columns, in this order.
    ///
    /// Raises:
    ///     ValueError: a name that no column has.
    fn select(&self, names: Vec<String>) -> Outcome<PyTable> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(PyTable(self.0.select(&names)?))
    }

    /// Returns a table with all columns except these.
    ///
    /// Raises:
    ///     ValueError: a name that no column has.
    fn without(&self, names: Vec<String>) -> Outcome<PyTable> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(PyTable(self.0.without(&names)?))
    }

    /// Splits the rows by a seed into four fifths for training and one fifth for testing.
    fn train_test_split(
        &self,
        #[pyo3(from_py_with = of::train_test_split)] seed: Seed,
    ) -> Outcome<(PyTable, PyTable)> {
        let (train, test) = self.0.train_test_split(seed.0)?;
        Ok((PyTable(train), PyTable(test)))
    }

    /// Returns the numbers as a tensor, [rows, columns].
    ///
    /// Args:
    ///     dtype: a floating dtype; float32 by default.
    ///
    /// Raises:
    ///     ValueError: in this dtype a number becomes infinite, or equal to a different number of
    ///         its column; float64 represents all numbers exactly.
    ///     TypeError: the dtype is not floating.
    #[pyo3(signature = (device=None, dtype=None))]
    fn tensor(
        &self,
        py: Python<'_>,
        device: Option<DeviceArgument>,
        dtype: Option<DTypeArgument>,
    ) -> Outcome<PyTensor> {
        let (device, dtype) = (or_default(py, device)?, dtype.map_or(DType::F32, |dtype| dtype.0));
        Ok(PyTensor::new(read(py, || self.0.to_tensor_of(dtype, &device))?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, NamedColumns) {
        let table = &slf.get().0;
        let rows = table.cells().chunks_exact(table.columns().len()).map(<[f64]>::to_vec).collect();
        (slf.get_type().into_any(), (table.columns().to_vec(), rows))
    }

    fn __repr__(&self) -> String {
        format!("Table({} rows: {})", self.0.rows(), self.0.columns().join(", "))
    }
}

/// Means and standard deviations of columns, with which tables are standardized.
#[pyclass(name = "StandardScaler", module = "ternion.data", frozen)]
struct PyStandardScaler(StandardScaler);

#[pymethods]
impl PyStandardScaler {
    /// Computes the statistics of the columns of a table.
    #[new]
    fn new(table: &Bound<'_, PyTable>) -> Outcome<PyStandardScaler> {
        Ok(PyStandardScaler(StandardScaler::of(&table.get().0)?))
    }

    /// The mean of each column.
    #[getter]
    fn means(&self) -> Vec<f64> {
        self.0.means().to_vec()
    }

    /// The standard deviation of each column.
    #[getter]
    fn stds(&self) -> Vec<f64> {
        self.0.stds().to_vec()
    }

    /// Returns the table with mean 0 and standard deviation 1 in each column.
    fn apply(&self, table: &Bound<'_, PyTable>) -> Outcome<PyTable> {
        Ok(PyTable(self.0.apply(&table.get().0)?))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Moments)> {
        let constructor = py.import("ternion._ternion")?.getattr("_data")?.getattr("_standard_scaler")?;
        Ok((constructor, (self.0.columns().to_vec(), self.0.means().to_vec(), self.0.stds().to_vec())))
    }

    /// Converts standardized numbers, [rows, columns], float32 or float64, back to their original
    /// units.
    ///
    /// Raises:
    ///     ValueError: other columns, or float32 if it cannot distinguish the numbers of a column.
    fn restore(&self, py: Python<'_>, values: &Bound<'_, PyTensor>) -> Outcome<PyTensor> {
        let values = values.get().tensor();
        Ok(PyTensor::new(read(py, || self.0.restore_tensor(&values))?))
    }
}

/// Columns, means and standard deviations.
type Moments = (Vec<String>, Vec<f64>, Vec<f64>);

/// Restores a pickled `StandardScaler`.
#[pyfunction]
fn _standard_scaler(columns: Vec<String>, means: Vec<f64>, stds: Vec<f64>) -> Outcome<PyStandardScaler> {
    Ok(PyStandardScaler(StandardScaler::new(&columns, means, stds)?))
}

/// Converts the value for empty cells: None, a number, or "drop".
fn missing_cells(missing: Option<&Bound<'_, PyAny>>) -> Outcome<MissingCells> {
    let Some(missing) = missing.filter(|missing| !missing.is_none()) else {
        return Ok(MissingCells::Error);
    };
    if missing.extract::<String>().is_ok_and(|text| text == "drop") {
        return Ok(MissingCells::DropRow);
    }
    match missing.extract::<f64>() {
        Ok(fill) if fill.is_finite() => Ok(MissingCells::Fill(fill)),
        _ => Err(RaisedError::value_error(format!(
            "read_csv: missing {}, expected a finite number, or \"drop\"",
            missing.repr()?
        ))),
    }
}

/// Reads a table of numbers from a CSV file.
///
/// Args:
///     delimiter: the character between the cells of a line.
///     names: the names of the columns of a file without a header; by default they are in its first
///         line.
///     columns: the columns to read, in this order; all by default. The others may contain text.
///     missing: the value of an empty cell: None for an error (the default), a number, or "drop" to
///         omit its line.
///
/// Raises:
///     FileNotFoundError, ValueError: a description of the error with file, line and column; also
///         if the first line contains numbers and no names are given.
#[pyfunction]
#[pyo3(signature = (file, delimiter=',', names=None, columns=None, missing=None))]
fn read_csv(
    py: Python<'_>,
    file: PathBuf,
    delimiter: char,
    names: Option<Vec<String>>,
    columns: Option<Vec<String>>,
    missing: Option<&Bound<'_, PyAny>>,
) -> Outcome<PyTable> {
    let config = CsvConfig { delimiter, names, columns, missing: missing_cells(missing)? };
    Ok(PyTable(load(py, move || Table::read_with(&file, &config))?))
}

/// Returns California's house prices of 1990 (Pace and Barry 1997), and a line that says where they
/// came from.
#[pyfunction]
fn _california_housing(py: Python<'_>, source: Source) -> Outcome<(PyTable, String)> {
    let source = source.data()?;
    let housing = load(py, move || CaliforniaHousing::load(source))?;
    Ok((PyTable(housing.table().clone()), housing.origin().to_string()))
}

/// Adds classes and functions to a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PySplit>()?;
    module.add_class::<PyBatches>()?;
    module.add_class::<PyTable>()?;
    module.add_class::<PyStandardScaler>()?;
    module.add_function(wrap_pyfunction!(_mnist, module)?)?;
    module.add_function(wrap_pyfunction!(_cifar10, module)?)?;
    module.add_function(wrap_pyfunction!(read_csv, module)?)?;
    module.add_function(wrap_pyfunction!(_standard_scaler, module)?)?;
    module.add_function(wrap_pyfunction!(_california_housing, module)?)
}
