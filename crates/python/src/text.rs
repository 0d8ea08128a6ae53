//! Text as tokens, and windows of tokens for training: a native part of `ternion.data`.

use crate::arguments::Seed;
use crate::device::{DeviceArgument, or_default};
use crate::error::Outcome;
use crate::extract::of;
use crate::gil::{wait, wait_on_thread};
use crate::tensor::PyTensor;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::path::PathBuf;
use ternion::data::{
    BpeTokenizer, CharVocabulary, DataError, RandomWindows, SequentialWindows, Text, TokenBatch, Tokenizer,
    Tokens, Windows,
};
use ternion::{DType, Tensor};

fn run<T: Send>(py: Python<'_>, f: impl FnOnce() -> Result<T, DataError> + Send) -> Outcome<T> {
    Ok(wait(py, || Ok(f()))??)
}

/// Runs a function that reads files: Ctrl-C ends the wait.
fn read<T: Send + 'static>(
    py: Python<'_>,
    f: impl FnOnce() -> Result<T, DataError> + Send + 'static,
) -> Outcome<T> {
    Ok(wait_on_thread(py, || Ok(f()))??)
}

/// Reads a UTF-8 file unchanged, including line ends.
///
/// Raises:
///     FileNotFoundError, ValueError: the file does not exist, is not UTF-8 (with line and column),
///         or is empty.
#[pyfunction]
fn read_text(py: Python<'_>, file: PathBuf) -> Outcome<String> {
    read(py, move || Ok(Text::read(&file)?.as_str().to_owned()))
}

/// Splits the text into the first 90 % of the characters, for training, and the rest, for
/// validation.
///
/// Raises:
///     ValueError: fewer than two characters.
#[pyfunction]
fn train_validation(py: Python<'_>, text: String) -> Outcome<(String, String)> {
    run(py, || {
        let (train, validation) = Text::new(text)?.train_validation()?;
        Ok((train.as_str().to_owned(), validation.as_str().to_owned()))
    })
}

/// A token for each character of a text, in Unicode order.
#[pyclass(name = "CharVocabulary", module = "ternion.data", frozen)]
struct PyCharVocabulary(CharVocabulary);

#[pymethods]
impl PyCharVocabulary {
    /// Creates a vocabulary of the characters that occur in `text`.
    #[new]
    fn new(py: Python<'_>, text: String) -> Outcome<PyCharVocabulary> {
        Ok(PyCharVocabulary(run(py, || Ok(CharVocabulary::new(&Text::new(text)?)))?))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (String,)) {
        (slf.get_type().into_any(), (slf.get().characters(),))
    }

    fn __len__(&self) -> usize {
        self.0.vocabulary_size()
    }

    /// The characters in the order of their tokens: a vocabulary of this string is equal to this
    /// one.
    #[getter]
    fn characters(&self) -> String {
        self.0.characters().iter().collect()
    }

    /// Returns the tokens of a text: int64, [characters], on the CPU.
    ///
    /// Raises:
    ///     ValueError: a character that the vocabulary lacks, with its position.
    fn encode(&self, py: Python<'_>, text: &str) -> Outcome<PyTensor> {
        encode_text(py, &self.0, text)
    }

    /// Returns the text of tokens, which are a 1-D tensor or a list of numbers.
    ///
    /// Raises:
    ///     ValueError: a token that the vocabulary lacks, with its position.
    fn decode(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>) -> Outcome<String> {
        decode_tokens(py, &self.0, tokens)
    }
}

fn encode_text(py: Python<'_>, tokenizer: &(impl Tokenizer + Sync), text: &str) -> Outcome<PyTensor> {
    let cpu = or_default(py, Some(DeviceArgument::Named("cpu".into())))?;
    let tokens = run(py, || tokenizer.encode(text))?;
    let count = tokens.len();
    wait(py, || Tensor::from_vec(tokens, [count], &cpu)).map(PyTensor::new)
}

fn decode_tokens(
    py: Python<'_>,
    tokenizer: &(impl Tokenizer + Sync),
    tokens: &Bound<'_, PyAny>,
) -> Outcome<String> {
    let tokens = match tokens.cast::<PyTensor>() {
        Ok(tensor) => to_token_ids(py, &tensor.get().tensor())?,
        Err(_) => tokens.extract::<Vec<i64>>()?,
    };
    run(py, || tokenizer.decode(&tokens))
}

/// GPT-2's tokens: words and parts of words, merged from bytes, so that no text is unknown.
#[pyclass(name = "BpeTokenizer", module = "ternion.data", frozen)]
struct PyBpeTokenizer {
    tokenizer: BpeTokenizer,
    /// The files from which it was read, and from which a copy in another process is read.
    files: (PathBuf, PathBuf),
}

#[pymethods]
impl PyBpeTokenizer {
    /// Args:
    ///     vocabulary: a JSON file of tokens and their indices (`vocab.json`).
    ///     merges: a text file of the pairs that are merged, in order of priority (`merges.txt`).
    ///
    /// Raises:
    ///     FileNotFoundError, ValueError: a description of the error, with file and line.
    #[new]
    fn new(py: Python<'_>, vocabulary: PathBuf, merges: PathBuf) -> Outcome<PyBpeTokenizer> {
        let files = (vocabulary.clone(), merges.clone());
        let tokenizer = read(py, move || BpeTokenizer::read(&files.0, &files.1))?;
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        Ok(PyBpeTokenizer { tokenizer, files: (absolute(vocabulary), absolute(merges)) })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (PathBuf, PathBuf)) {
        (slf.get_type().into_any(), slf.get().files.clone())
    }

    fn __len__(&self) -> usize {
        self.tokenizer.vocabulary_size()
    }

    /// The token that separates two documents; None if the vocabulary has none.
    #[getter]
    fn end_of_text(&self) -> Option<i64> {
        self.tokenizer.end_of_text()
    }

    /// Returns the tokens of a text: int64, [tokens], on the CPU.
    fn encode(&self, py: Python<'_>, text: &str) -> Outcome<PyTensor> {
        encode_text(py, &self.tokenizer, text)
    }

    /// Returns the text of tokens, which are a 1-D tensor or a list of numbers. Bytes that are not
    /// valid UTF-8 become U+FFFD.
    ///
    /// Raises:
    ///     ValueError: a token that the vocabulary lacks, with its position.
    fn decode(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>) -> Outcome<String> {
        decode_tokens(py, &self.tokenizer, tokens)
    }
}

fn to_token_ids(py: Python<'_>, tensor: &Tensor) -> Outcome<Vec<i64>> {
    wait(py, || tensor.reshape([tensor.elements()])?.to_dtype(DType::I64)?.to_vec::<i64>())
}

/// Windows of `context` tokens of a text, with the next token of each position as target:
/// `Windows(tokens, context)`.
#[pyclass(name = "Windows", module = "ternion.data", frozen)]
struct PyWindows(Windows);

#[pymethods]
impl PyWindows {
    /// Args:
    ///     tokens: int64, [tokens].
    ///     context: the number of tokens in a window.
    ///
    /// Raises:
    ///     ValueError: a context of 0, or too few tokens for one window and the token after it.
    #[new]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = of::Windows)] tokens: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::Windows)] context: usize,
    ) -> Outcome<PyWindows> {
        let tokens = to_token_ids(py, &tokens.get().tensor())?;
        Ok(PyWindows(run(py, || Tokens::new(tokens).windows(context))?))
    }

    /// The number of consecutive windows without overlap.
    fn __len__(&self) -> usize {
        self.0.sequential_count()
    }

    /// Returns an endless iterator over batches of windows that start at random tokens: inputs and
    /// targets, each int64, [batch_size, context].
    ///
    /// Args:
    ///     seed: determines, together with the index of a batch, its windows: the same on all
    ///         devices, and the same as in Rust.
    #[pyo3(signature = (batch_size, seed, device=None))]
    fn random(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::random)] batch_size: usize,
        #[pyo3(from_py_with = of::random)] seed: Seed,
        device: Option<DeviceArgument>,
    ) -> Outcome<PyRandomWindows> {
        let device = or_default(py, device)?;
        Ok(PyRandomWindows(Mutex::new(self.0.random(batch_size, seed.0, &device)?)))
    }

    /// Returns an iterator over batches of consecutive windows without overlap, from the first
    /// token on; the last batch may be smaller.
    #[pyo3(signature = (batch_size, device=None))]
    fn sequential(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::sequential)] batch_size: usize,
        device: Option<DeviceArgument>,
    ) -> Outcome<PySequentialWindows> {
        let device = or_default(py, device)?;
        Ok(PySequentialWindows(Mutex::new(self.0.sequential(batch_size, &device)?)))
    }
}

type BatchPair = (PyTensor, PyTensor);

fn wrap_batch(batch: TokenBatch) -> BatchPair {
    (PyTensor::new(batch.inputs), PyTensor::new(batch.targets))
}

/// Endless batches of random windows.
#[pyclass(name = "RandomWindows", module = "ternion.data", frozen)]
struct PyRandomWindows(Mutex<RandomWindows>);

#[pymethods]
impl PyRandomWindows {
    /// The index of the next batch. Set it to continue from there.
    #[getter]
    fn position(&self) -> u64 {
        self.0.lock().position()
    }

    #[setter]
    fn set_position(&self, #[pyo3(from_py_with = of::position)] position: u64) {
        let mut windows = self.0.lock();
        *windows = windows.clone().at(position);
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Outcome<BatchPair> {
        run(py, || self.0.lock().batch()).map(wrap_batch)
    }
}

/// Batches of consecutive windows.
#[pyclass(name = "SequentialWindows", module = "ternion.data", frozen)]
struct PySequentialWindows(Mutex<SequentialWindows>);

#[pymethods]
impl PySequentialWindows {
    fn __len__(&self) -> usize {
        self.0.lock().len()
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Outcome<Option<BatchPair>> {
        Ok(run(py, || self.0.lock().next().transpose())?.map(wrap_batch))
    }
}

/// Adds classes and functions to a module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCharVocabulary>()?;
    module.add_class::<PyBpeTokenizer>()?;
    module.add_class::<PyWindows>()?;
    module.add_class::<PyRandomWindows>()?;
    module.add_class::<PySequentialWindows>()?;
    module.add_function(wrap_pyfunction!(read_text, module)?)?;
    module.add_function(wrap_pyfunction!(train_validation, module)?)
}
