//! Windows of a long token sequence: random for training, sequential for evaluation.

use crate::error::{DataError, Result};
use crate::random::Philox;
use crate::token_file::TokenFile;
use std::sync::Arc;
use ternion_core::{Device, Tensor};

/// The maximum number of tokens in a batch: 4 GiB, far above any useful size.
const BATCH_LIMIT: usize = 1 << 29;

/// The tokens of a text, in order. Clones share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    tokens: Arc<Vec<i64>>,
}

impl Tokens {
    /// Creates the tokens of a text from the output of a [`Tokenizer`](crate::Tokenizer).
    pub fn new(tokens: Vec<i64>) -> Tokens {
        Tokens { tokens: Arc::new(tokens) }
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns all tokens.
    pub fn as_slice(&self) -> &[i64] {
        &self.tokens
    }

    /// Divides the tokens into windows of `context` tokens.
    ///
    /// # Errors
    /// Returns an error if `context` is 0, or there is no token after the first window: the last
    /// target needs it.
    pub fn windows(&self, context: usize) -> Result<Windows> {
        Windows::of(Source::Memory(self.clone()), context)
    }
}

impl TokenFile {
    /// Like [`Tokens::windows`], for tokens that stay in the file: each batch reads the tokens it
    /// needs.
    ///
    /// # Errors
    /// Same as [`Tokens::windows`].
    pub fn windows(&self, context: usize) -> Result<Windows> {
        Windows::of(Source::File(self.clone()), context)
    }
}

/// Where the tokens are stored.
#[derive(Debug, Clone)]
enum Source {
    Memory(Tokens),
    File(TokenFile),
}

impl Source {
    fn len(&self) -> usize {
        match self {
            Source::Memory(tokens) => tokens.len(),
            Source::File(file) => file.len(),
        }
    }

    fn read(&self, start: usize, count: usize) -> Result<Vec<i64>> {
        match self {
            Source::Memory(tokens) => Ok(tokens.as_slice()[start..start + count].to_vec()),
            Source::File(file) => file.read(start, count),
        }
    }
}

/// Windows of one length: see [`Tokens::windows`] and [`TokenFile::windows`].
#[derive(Debug, Clone)]
pub struct Windows {
    tokens: Source,
    /// At least 1, and less than the number of tokens.
    context: usize,
}

/// A batch of windows, on a device.
#[derive(Debug, Clone)]
pub struct TokenBatch {
    /// `[batch, context]`, i64.
    pub inputs: Tensor,
    /// `[batch, context]`, i64: for each input token, the token that follows it in the text.
    pub targets: Tensor,
    /// The number of windows.
    pub size: usize,
}

impl Windows {
    fn of(tokens: Source, context: usize) -> Result<Windows> {
        if context == 0 || context >= tokens.len() {
            return Err(DataError::Context { context, tokens: tokens.len() });
        }
        Ok(Windows { tokens, context })
    }

    /// Returns an infinite iterator over batches of windows with random starts, each start equally
    /// likely.
    ///
    /// A batch depends only on `seed`, its index, the batch size, the context and the number of
    /// tokens. It is the same on every platform.
    ///
    /// # Errors
    /// Returns an error if `batch_size` is 0, or so large that a batch would exhaust memory.
    pub fn random(&self, batch_size: usize, seed: u64, device: &Device) -> Result<RandomWindows> {
        let windows = self.batched(batch_size)?;
        let context = self.context;
        if batch_size.saturating_mul(context) > BATCH_LIMIT {
            return Err(DataError::LargeTokenBatch { batch_size, context, limit: BATCH_LIMIT });
        }
        Ok(RandomWindows { windows, batch_size, seed, position: 0, device: device.clone() })
    }

    /// Returns batches of consecutive, non-overlapping windows from the first token on. The last
    /// batch may be smaller.
    ///
    /// Tokens at the end that do not fill a window are dropped.
    ///
    /// # Errors
    /// Returns an error if `batch_size` is 0.
    pub fn sequential(&self, batch_size: usize, device: &Device) -> Result<SequentialWindows> {
        let windows = self.batched(batch_size)?;
        Ok(SequentialWindows { windows, batch_size, next_window: 0, device: device.clone() })
    }

    /// Returns the number of consecutive, non-overlapping windows.
    pub fn sequential_count(&self) -> usize {
        // Each window also needs the token after it.
        (self.tokens.len() - 1) / self.context
    }

    fn batched(&self, batch_size: usize) -> Result<Windows> {
        if batch_size == 0 { Err(DataError::ZeroBatchSize) } else { Ok(self.clone()) }
    }

    fn batch(&self, starts: &[usize], device: &Device) -> Result<TokenBatch> {
        let shape = [starts.len(), self.context];
        // A window and the token after it.
        let windows = starts.iter().map(|&start| self.tokens.read(start, self.context + 1));
        let windows = windows.collect::<Result<Vec<_>>>()?;
        let shifted = |by: usize| {
            let values = windows.iter().flat_map(|window| &window[by..by + self.context]);
            Tensor::from_vec(values.copied().collect::<Vec<i64>>(), shape, device)
        };
        Ok(TokenBatch { inputs: shifted(0)?, targets: shifted(1)?, size: starts.len() })
    }
}

/// An infinite iterator over batches of random windows: see [`Windows::random`].
///
/// ```
/// # use ternion_data::{ByteTokenizer, Tokenizer, Tokens};
/// # fn main() -> ternion_data::Result<()> {
/// # let device = ternion_cpu::device();
/// let tokens = Tokens::new(ByteTokenizer.encode("a text that is long enough")?);
/// let mut batches = tokens.windows(8)?.random(4, 1, &device)?;
/// for _step in 0..10 {
///     let batch = batches.batch()?; // inputs and targets [4, 8] i64
///     assert_eq!(batch.size, 4);
/// }
/// let saved = batches.position(); // 10
/// let resumed = tokens.windows(8)?.random(4, 1, &device)?.at(saved);
/// # assert_eq!(saved, 10);
/// # drop(resumed);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RandomWindows {
    windows: Windows,
    batch_size: usize,
    seed: u64,
    position: u64,
    device: Device,
}

impl RandomWindows {
    /// Returns the index of the next batch, from 0. A checkpoint stores it.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Continues with batch `position`, as if all batches before it had been taken.
    pub fn at(mut self, position: u64) -> Self {
        self.position = position;
        self
    }

    /// Returns the next batch. After an error the position is unchanged.
    ///
    /// # Errors
    /// Returns an error if the tensors cannot be created.
    pub fn batch(&mut self) -> Result<TokenBatch> {
        let batch = self.windows.batch(&self.starts(), &self.device)?;
        self.position = self.position.wrapping_add(1);
        Ok(batch)
    }

    fn starts(&self) -> Vec<usize> {
        let mut random = Philox::new(self.seed, self.position);
        let start_count = (self.windows.tokens.len() - self.windows.context) as u64;
        (0..self.batch_size).map(|_| random.below(start_count) as usize).collect()
    }
}

impl Iterator for RandomWindows {
    type Item = Result<TokenBatch>;

    fn next(&mut self) -> Option<Result<TokenBatch>> {
        Some(self.batch())
    }
}

/// An iterator over batches of consecutive windows: see [`Windows::sequential`].
#[derive(Debug, Clone)]
pub struct SequentialWindows {
    windows: Windows,
    batch_size: usize,
    next_window: usize,
    device: Device,
}

impl Iterator for SequentialWindows {
    type Item = Result<TokenBatch>;

    fn next(&mut self) -> Option<Result<TokenBatch>> {
        let end = self.next_window.saturating_add(self.batch_size).min(self.windows.sequential_count());
        let starts: Vec<usize> =
            (self.next_window..end).map(|window| window * self.windows.context).collect();
        self.next_window = end;
        (!starts.is_empty()).then(|| self.windows.batch(&starts, &self.device))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let batches = (self.windows.sequential_count() - self.next_window).div_ceil(self.batch_size);
        (batches, Some(batches))
    }
}

impl ExactSizeIterator for SequentialWindows {}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(count: i64) -> Tokens {
        Tokens::new((0..count).collect())
    }

    fn values(tensor: &Tensor) -> Vec<i64> {
        tensor.to_vec().unwrap()
    }

    /// These starts must not change: the same seed gives the same training run on every platform
    /// and in every version.
    #[test]
    fn random_starts_are_pinned() {
        let device = ternion_cpu::device();
        let windows = counting(1_000).windows(4).unwrap();
        let starts = |seed, position| windows.random(4, seed, &device).unwrap().at(position).starts();
        assert_eq!(starts(0, 0), [909, 84, 760, 127]);
        assert_eq!(starts(0, 1), [205, 727, 398, 316]);
        assert_eq!(starts(7, 1 << 40), [466, 149, 982, 735]);
    }

    #[test]
    fn targets_are_the_inputs_one_token_later() {
        let mut batches = counting(50).windows(6).unwrap().random(3, 5, &ternion_cpu::device()).unwrap();
        for _ in 0..20 {
            let batch = batches.batch().unwrap();
            assert_eq!((batch.inputs.dims(), batch.targets.dims()), (&[3, 6][..], &[3, 6][..]));
            let (inputs, targets) = (values(&batch.inputs), values(&batch.targets));
            assert!(inputs.iter().zip(&targets).all(|(input, target)| target - input == 1), "{inputs:?}");
            assert!(inputs.chunks(6).all(|window| window[5] - window[0] == 5), "{inputs:?}");
        }
    }

    #[test]
    fn every_start_occurs_and_none_beyond_the_last() {
        let mut batches = counting(8).windows(5).unwrap().random(600, 1, &ternion_cpu::device()).unwrap();
        let firsts: Vec<i64> =
            values(&batches.batch().unwrap().inputs).chunks(5).map(|window| window[0]).collect();
        let counts: Vec<usize> =
            (0..4).map(|start| firsts.iter().filter(|&&first| first == start).count()).collect();
        // 200 of each of three expected, with standard deviation 12: five standard deviations.
        assert!(counts[..3].iter().all(|count| (140..=260).contains(count)), "{counts:?}");
        assert_eq!(counts[3], 0);
    }

    #[test]
    fn resumed_sampler_continues_from_its_position() {
        let make = || counting(100).windows(7).unwrap().random(2, 3, &ternion_cpu::device()).unwrap();
        let mut uninterrupted = make();
        let batches: Vec<Vec<i64>> =
            uninterrupted.by_ref().take(6).map(|batch| values(&batch.unwrap().inputs)).collect();
        assert_eq!(uninterrupted.position(), 6);
        let resumed: Vec<Vec<i64>> =
            make().at(4).take(2).map(|batch| values(&batch.unwrap().inputs)).collect();
        assert_eq!(resumed, batches[4..]);
        assert_ne!(batches[0], batches[1]);
    }

    #[test]
    fn sequential_windows_cover_the_text_once() {
        let windows = counting(24).windows(5).unwrap();
        let batches = windows.sequential(3, &ternion_cpu::device()).unwrap();
        assert_eq!((windows.sequential_count(), batches.len()), (4, 2));
        let batches: Vec<TokenBatch> = batches.map(|batch| batch.unwrap()).collect();
        assert_eq!(batches.iter().map(|batch| batch.size).collect::<Vec<_>>(), [3, 1]);
        let tokens =
            |part: fn(&TokenBatch) -> &Tensor| batches.iter().flat_map(move |batch| values(part(batch)));
        assert!(tokens(|batch| &batch.inputs).eq(0..20));
        assert!(tokens(|batch| &batch.targets).eq(1..21));
        // The last window's target is the last token: it is used, and no token beyond it is read.
        assert_eq!(counting(26).windows(5).unwrap().sequential_count(), 5);
        assert_eq!(counting(25).windows(5).unwrap().sequential_count(), 4);
    }

    #[test]
    fn windows_of_a_file_are_those_of_its_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.bin");
        let bytes: Vec<u8> = (0..40u16).flat_map(|token| (token * 7).to_le_bytes()).collect();
        std::fs::write(&path, bytes).unwrap();
        let device = ternion_cpu::device();
        let memory = Tokens::new((0..40).map(|token| token * 7).collect()).windows(6).unwrap();
        let file = TokenFile::open(&path, 300).unwrap().windows(6).unwrap();
        let first_batch = |windows: &Windows| {
            let random = windows.random(3, 2, &device).unwrap().take(4);
            let batches = random.chain(windows.sequential(4, &device).unwrap());
            batches
                .map(|batch| batch.unwrap())
                .map(|batch| (values(&batch.inputs), values(&batch.targets)))
                .collect::<Vec<_>>()
        };
        assert_eq!(first_batch(&file), first_batch(&memory));
        assert!(TokenFile::open(&path, 300).unwrap().windows(40).is_err());
        let small = TokenFile::open(&path, 273).unwrap().windows(39).unwrap();
        let message = small.random(1, 0, &device).unwrap().batch().unwrap_err().to_string();
        assert!(message.ends_with("token 273 at position 39, expected 0 to 272"), "{message}");
    }

    #[test]
    fn invalid_windows_and_batches_are_errors() {
        let message = |context| counting(8).windows(context).unwrap_err().to_string();
        assert!(message(0).starts_with("windows: context 0 of 8 tokens"), "{}", message(0));
        assert!(message(8).starts_with("windows: context 8 of 8 tokens"), "{}", message(8));
        assert!(Tokens::new(Vec::new()).windows(1).is_err());
        let windows = counting(8).windows(7).unwrap();
        let device = ternion_cpu::device();
        assert!(matches!(windows.random(0, 0, &device), Err(DataError::ZeroBatchSize)));
        assert!(matches!(windows.sequential(0, &device), Err(DataError::ZeroBatchSize)));
        let message = windows.random(usize::MAX, 0, &device).unwrap_err().to_string();
        assert!(message.ends_with("windows of 7 tokens, expected at most 536870912 tokens"), "{message}");
        assert_eq!(windows.sequential(usize::MAX, &device).unwrap().count(), 1);
    }
}
