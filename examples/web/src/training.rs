//! A network that learns to read handwritten digits.

use kiln::data::{Batch, DataLoader, Dataset, LoadError, LoaderOpts};
use kiln::nn::{Layer, Linear, ModuleExt, Sequential};
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::prelude::*;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::Result;

/// Pixels of an image, 8 x 8.
const PIXELS: usize = 64;
/// Images to learn from; the others test what was learned.
const TRAINING: usize = 1000;
/// Images of a step.
const BATCH: usize = 100;

/// Images, of numbers between 0 and 1, with the digits they show.
#[derive(Clone)]
struct Digits {
    images: Vec<f32>,
    labels: Vec<i64>,
}

impl Digits {
    /// Reads lines of 64 pixels from 0 to 16 and a digit.
    fn parse(text: &str) -> Result<Digits> {
        let mut digits = Digits { images: Vec::new(), labels: Vec::new() };
        for line in text.lines() {
            let numbers = line.split(',').map(str::parse).collect::<std::result::Result<Vec<f32>, _>>()?;
            let (pixels, label) = numbers.split_at(PIXELS.min(numbers.len()));
            digits.images.extend(pixels.iter().map(|pixel| pixel / 16.0));
            digits.labels.push(label.first().copied().unwrap_or_default() as i64);
        }
        Ok(digits)
    }
}

/// The first of them.
struct FirstDigits(Digits);

impl Dataset for FirstDigits {
    type Batch = (Tensor, Tensor);
    fn len(&self) -> usize {
        TRAINING
    }
    fn batch(&self, indices: &[usize]) -> std::result::Result<(Tensor, Tensor), LoadError> {
        let Digits { images, labels } = &self.0;
        let pixels = indices.iter().flat_map(|&i| &images[PIXELS * i..PIXELS * (i + 1)]).copied().collect();
        let digits = indices.iter().map(|&i| labels[i]).collect();
        Ok((
            Tensor::from_vec::<f32>(pixels, [indices.len(), PIXELS], Device::cpu()),
            Tensor::from_vec::<i64>(digits, [indices.len()], Device::cpu()),
        ))
    }
}

/// A network, 64-128-10, and what it learns from.
#[wasm_bindgen]
pub struct Training {
    device: Device,
    digits: Digits,
    loader: DataLoader<FirstDigits>,
    model: Sequential,
    optimizer: Adam,
    epochs: u64,
    plan: String,
}

#[wasm_bindgen]
impl Training {
    /// A network that has learned nothing, on a device that is open. `digits` has a line for each image.
    ///
    /// # Errors
    /// The device is not open; the text is not of digits.
    #[wasm_bindgen(constructor)]
    pub fn new(device: String, digits: &str) -> Result<Training> {
        kiln::manual_seed(0);
        let (device, digits): (Device, _) = (device.parse()?, Digits::parse(digits)?);
        let model = Sequential::new()
            .push(Linear::new(PIXELS, 128, device))
            .then(Tensor::relu)
            .push(Linear::new(128, 10, device));
        let optimizer = Adam::new(model.parameters(), AdamOpts::default());
        let opts = LoaderOpts::default().batch_size(BATCH).shuffle(true);
        let loader = DataLoader::new(FirstDigits(digits.clone()), opts)?;
        Ok(Training { device, digits, loader, model, optimizer, epochs: 0, plan: String::new() })
    }

    /// Learns from every image once; gives the mean loss.
    ///
    /// # Errors
    /// kiln's.
    pub async fn epoch(&mut self) -> Result<f64> {
        let mut sum = Tensor::zeros((), self.device);
        for (step, batch) in self.loader.epoch(self.epochs).enumerate() {
            let (images, labels) = batch?.to(self.device);
            self.optimizer.zero_grad();
            let loss = self.model.forward(&images).cross_entropy(&labels, Default::default());
            loss.backward()?;
            // The first step makes the weights too.
            if step == 1 && self.plan.is_empty() {
                self.plan = described(&loss.plan()?);
            }
            self.optimizer.step()?;
            sum = sum + loss.detach();
        }
        self.epochs += 1;
        Ok(sum.item_async::<f64>().await? / self.loader.len() as f64)
    }

    /// The share of the other images that the network reads right.
    ///
    /// # Errors
    /// kiln's.
    pub async fn accuracy(&self) -> Result<f64> {
        let (images, labels) = (&self.digits.images[PIXELS * TRAINING..], &self.digits.labels[TRAINING..]);
        let images = Tensor::from_slice(images, [labels.len(), PIXELS], self.device);
        let scores = self.model.forward(&images).to_vec_async::<f32>().await?;
        let right =
            scores.chunks(10).zip(labels).filter(|(scores, label)| largest(scores) == **label as usize);
        Ok(right.count() as f64 / labels.len() as f64)
    }

    /// How likely an image of 64 pixels shows each digit.
    ///
    /// # Errors
    /// kiln's.
    pub async fn classify(&self, pixels: Vec<f32>) -> Result<Vec<f32>> {
        let image = Tensor::from_vec(pixels, [1, PIXELS], self.device);
        Ok(self.model.forward(&image).softmax(1).to_vec_async::<f32>().await?)
    }

    /// The kernels of a step, once there was one: a line for each with tabs between name, shape, bytes moved and
    /// text, whose line ends are form feeds.
    pub fn plan(&self) -> String {
        self.plan.clone()
    }
}

fn described(plan: &kiln::PlanReport) -> String {
    let line = |kernel: &kiln::plan::report::KernelReport| {
        let text = kernel.source().unwrap_or_default().replace('\n', "\u{c}").replace('\t', "    ");
        let moved = kernel.loaded + kernel.stored;
        format!("{}\t{}\t{moved}\t{text}\n", kernel.name, kernel.shape)
    };
    plan.kernels.iter().map(line).collect()
}

fn largest(scores: &[f32]) -> usize {
    (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0)
}
