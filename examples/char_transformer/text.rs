//! The text: characters as numbers, and windows of them as training data.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use kiln::data::{Dataset, LoadError};
use kiln::prelude::*;

use super::Failure;

/// A text as numbers of its alphabet. The last tenth is for validation.
#[derive(Clone, Debug)]
pub struct Text {
    /// The characters that occur, in order; a character's number is its place.
    pub alphabet: Vec<u8>,
    pub training: Vec<u8>,
    pub validation: Vec<u8>,
}

impl Text {
    /// The plays that the example carries.
    pub fn load() -> Result<Text, Failure> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/shakespeare.txt.gz");
        let mut text = Vec::new();
        GzDecoder::new(std::fs::File::open(path)?).read_to_end(&mut text)?;
        Ok(Text::new(&text))
    }

    pub fn new(text: &[u8]) -> Text {
        let mut alphabet = text.to_vec();
        alphabet.sort_unstable();
        alphabet.dedup();
        let mut numbers = [0; 256];
        for (number, &character) in alphabet.iter().enumerate() {
            numbers[usize::from(character)] = number as u8;
        }
        let mut training: Vec<u8> = text.iter().map(|&character| numbers[usize::from(character)]).collect();
        let validation = training.split_off(training.len() - training.len() / 10);
        Text { alphabet, training, validation }
    }

    /// The numbers of characters, which must occur in the text.
    pub fn numbers(&self, characters: &str) -> Result<Vec<u8>, Failure> {
        let number = |character: u8| {
            let found = self.alphabet.binary_search(&character);
            found
                .map(|number| number as u8)
                .map_err(|_| format!("{:?} is not in the text", character as char))
        };
        Ok(characters.bytes().map(number).collect::<Result<_, _>>()?)
    }

    /// The characters of numbers.
    pub fn characters(&self, numbers: &[u8]) -> String {
        numbers.iter().map(|&number| char::from(self.alphabet[usize::from(number)])).collect()
    }
}

/// Windows of consecutive characters, each with the characters that follow.
#[derive(Debug)]
pub struct Windows {
    pub text: Vec<u8>,
    /// Characters in a window.
    pub context: usize,
    /// Distance between the starts of two windows.
    pub stride: usize,
}

impl Dataset for Windows {
    type Batch = (Tensor, Tensor);

    fn len(&self) -> usize {
        self.text.len().saturating_sub(self.context).div_ceil(self.stride.max(1))
    }

    /// Characters and those that follow them, both `[n, context]`.
    fn batch(&self, numbers: &[usize]) -> Result<(Tensor, Tensor), LoadError> {
        let shifted = |by: usize| {
            let window = |&number: &usize| {
                let start = number * self.stride + by;
                self.text[start..start + self.context].iter().map(|&character| i64::from(character))
            };
            let values: Vec<i64> = numbers.iter().flat_map(window).collect();
            Tensor::from_vec(values, [numbers.len(), self.context], Device::cpu())
        };
        Ok((shifted(0), shifted(1)))
    }
}
