//! Tests with the published files, if `$TERNION_DATA` names a directory that contains them. Missing
//! files are skipped with a message.

use std::path::{Path, PathBuf};
use ternion_data::{
    CaliforniaHousing, CharVocabulary, Cifar10, DataError, DataSource, Table, Text, Tokenizer, Tokens,
};

fn data_directory() -> Option<PathBuf> {
    std::env::var_os("TERNION_DATA").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Loads a data set from the data directory. A corrupt file fails the test.
fn loaded<T>(load: impl Fn(DataSource) -> Result<T, DataError>) -> Option<T> {
    match load(DataSource::Directory(data_directory()?)) {
        Ok(found) => Some(found),
        Err(missing @ DataError::Missing { .. }) => {
            eprintln!("skipped: {missing}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn file(path: impl AsRef<Path>) -> Option<PathBuf> {
    data_directory().map(|directory| directory.join(path)).filter(|path| path.is_file())
}

/// The numbers stated in nanoGPT's `data/shakespeare_char`.
#[test]
fn tiny_shakespeare_by_characters() {
    let Some(text) = loaded(Text::tiny_shakespeare) else { return };
    let vocabulary = CharVocabulary::new(&text);
    assert_eq!((text.as_str().chars().count(), vocabulary.vocabulary_size()), (1_115_394, 65));
    let (train, validation) = text.train_validation().unwrap();
    let tokens = |text: &Text| Tokens::new(vocabulary.encode(text.as_str()).unwrap());
    assert_eq!((tokens(&train).len(), tokens(&validation).len()), (1_003_854, 111_540));
    assert_eq!(vocabulary.decode(tokens(&validation).as_slice()).unwrap(), validation.as_str());
    let mut batches = tokens(&train).windows(256).unwrap().random(64, 1, &ternion_cpu::device()).unwrap();
    assert_eq!(batches.batch().unwrap().inputs.dims(), [64, 256]);
}

/// The numbers stated in nanoGPT's `data/shakespeare`, and tokens from OpenAI's encoder.
#[cfg(feature = "tokenizers")]
#[test]
fn gpt2_tokens() {
    let Some(tokenizer) = loaded(ternion_data::BpeTokenizer::gpt2) else { return };
    assert_eq!((tokenizer.vocabulary_size(), tokenizer.end_of_text()), (50_257, Some(50_256)));
    assert_eq!(tokenizer.encode("Hello, world!").unwrap(), [15496, 11, 995, 0]);
    assert_eq!(tokenizer.decode(&[15496, 995]).unwrap(), "Hello world");
    let Some(text) = loaded(Text::tiny_shakespeare) else { return };
    let (train, validation) = text.train_validation().unwrap();
    let [train_tokens, validation_tokens] =
        [&train, &validation].map(|part| tokenizer.encode(part.as_str()).unwrap());
    assert_eq!((train_tokens.len(), validation_tokens.len()), (301_966, 36_059));
    assert_eq!(tokenizer.decode(&validation_tokens).unwrap(), validation.as_str());
}

#[test]
fn california_housing_in_both_formats() {
    let Some(housing) = loaded(CaliforniaHousing::load) else { return };
    assert_eq!(housing.table().rows(), 20_640);
    let values = housing.table().column(CaliforniaHousing::TARGET).unwrap();
    // The value in scikit-learn's description.
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    assert!((mean - 2.068_558_169).abs() < 1e-8, "{mean}");
    let regression = housing.regression(0).unwrap();
    assert_eq!((regression.train.len(), regression.held_out.len()), (16_512, 4_128));
    let Some(derived) = file("california-housing/california_housing.csv") else { return };
    assert_eq!(Table::read(derived).unwrap().cells(), housing.table().cells());
}

#[test]
fn cifar10_has_equally_many_examples_of_each_class() {
    let Some(cifar) = loaded(Cifar10::load) else { return };
    for split in [cifar.train(), cifar.test()] {
        let counts = (0..10).map(|class| split.labels().iter().filter(|&&label| label == class).count());
        assert!(counts.clone().all(|count| count * 10 == split.len()), "{:?}", counts.collect::<Vec<_>>());
    }
    for (channel, expected) in Cifar10::MEANS.into_iter().enumerate() {
        let pixels = cifar.train().pixels().chunks(1024).skip(channel).step_by(3);
        let sum: f64 = pixels.flatten().map(|&pixel| f64::from(pixel)).sum();
        let mean = sum / (cifar.train().len() * 1024) as f64 / 255.0;
        assert!((mean - f64::from(expected)).abs() < 0.01, "channel {channel}: {mean}");
    }
}

#[cfg(feature = "image")]
#[test]
fn a_photograph_is_read() {
    let Some(file) = file("images/baboon.png") else { return };
    let image = ternion_data::read_image(file, &ternion_cpu::device()).unwrap();
    assert_eq!(image.dims(), [3, 512, 512]);
    let values: Vec<f32> = image.to_vec().unwrap();
    assert!(values.iter().all(|value| (0.0..=1.0).contains(value)));
    assert!(values.iter().any(|&value| value > 0.9) && values.iter().any(|&value| value < 0.1));
}
