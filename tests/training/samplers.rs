//! Samplers: which samples an epoch has, held to PyTorch's where there is an order to hold to.

use std::path::Path;

use kiln::Error;
use kiln::data::{
    DataLoader, Dataset, DistributedSampler, Items, LoadError, LoaderOpts, Sampler, SubsetSampler,
    WeightedSampler,
};
use kiln::prelude::*;

fn loader(samples: usize, opts: LoaderOpts) -> DataLoader<impl Dataset<Batch = Tensor> + 'static> {
    DataLoader::new(Items::new(samples, |i| Ok(i as i64)), opts).unwrap()
}

fn epoch<D: Dataset<Batch = Tensor> + 'static>(loader: &DataLoader<D>, epoch: u64) -> Vec<i64> {
    loader.epoch(epoch).flat_map(|batch| batch.unwrap().to_vec::<i64>().unwrap()).collect()
}

#[test]
fn ranks_have_the_samples_that_pytorch_gives_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/training/sampler/recorded.json");
    let recorded: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cases = recorded["cases"].as_array().unwrap();
    assert!(cases.len() >= 200);
    for case in cases {
        let number = |at: usize| case[at].as_u64().unwrap();
        let flag = |at: usize| case[at].as_bool().unwrap();
        let sampler = DistributedSampler::new(number(1) as usize, number(2) as usize).unwrap();
        let sampler = sampler.shuffle(flag(3)).drop_last(flag(4)).seed(number(5));
        let expected: Vec<usize> = serde_json::from_value(case[7].clone()).unwrap();
        assert_eq!(sampler.count(number(0) as usize), expected.len(), "{case}");
        assert_eq!(sampler.numbers(number(0) as usize, number(6)).unwrap(), expected, "{case}");
    }
}

#[test]
fn a_loader_goes_through_what_its_sampler_says() {
    let sampler = DistributedSampler::new(3, 1).unwrap().seed(5);
    for workers in [0, 2] {
        let opts = LoaderOpts::default().batch_size(3).workers(workers).sampler(sampler);
        let loader = loader(10, opts.clone());
        assert_eq!(loader.len(), 2);
        let expected: Vec<i64> = sampler.numbers(10, 4).unwrap().into_iter().map(|n| n as i64).collect();
        assert_eq!(epoch(&loader, 4), expected);
        assert_ne!(epoch(&loader, 4), epoch(&loader, 5));
        // In the middle of an epoch, too.
        let rest: Vec<Tensor> = loader.epoch_from(4, 1).map(Result::unwrap).collect();
        assert_eq!(rest.len(), 1);
        assert_eq!(rest[0].to_vec::<i64>().unwrap(), expected[3..]);
    }
}

#[test]
fn subsets_are_shuffled_each_epoch_anew() {
    let loader = loader(
        30,
        LoaderOpts::default().batch_size(4).sampler(SubsetSampler::new((10..30).collect::<Vec<_>>())),
    );
    let (first, second) = (epoch(&loader, 0), epoch(&loader, 1));
    assert_ne!(first, second);
    for mut numbers in [first, second] {
        numbers.sort_unstable();
        assert_eq!(numbers, (10..30).collect::<Vec<_>>());
    }
}

#[test]
fn weights_are_shares_and_each_sample_is_drawn_once_without_replacement() {
    let weights = [1.0, 0.0, 2.0, 5.0];
    let draws = 8000;
    let numbers = WeightedSampler::new(weights, draws).unwrap().numbers(4, 0).unwrap();
    for (sample, weight) in weights.into_iter().enumerate() {
        let count = numbers.iter().filter(|&&number| number == sample).count() as f64;
        // The largest standard deviation is 43.
        assert!((count - draws as f64 * weight / 8.0).abs() < 200.0, "{sample}: {count}");
    }
    // Of the first of three draws without replacement, too.
    let once = WeightedSampler::new(weights, 3).unwrap().without_replacement().unwrap();
    let mut first = 0;
    for epoch in 0..2000 {
        let mut numbers = once.numbers(4, epoch).unwrap();
        first += usize::from(numbers[0] == 3);
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 2, 3]);
    }
    assert!((1150..1350).contains(&first), "{first} of 1,250");
}

#[test]
fn what_makes_no_sense_is_an_error_with_the_line() {
    let says = |error: Error, parts: &[&str]| {
        let text = error.to_string();
        assert!(
            parts.iter().chain(&["tests/training/samplers.rs:"]).all(|part| text.contains(part)),
            "{text}"
        );
    };
    for (ranks, rank) in [(0, 0), (2, 2)] {
        says(DistributedSampler::new(ranks, rank).unwrap_err(), &["a rank below"]);
    }
    for weights in [vec![1.0, -1.0], vec![f64::NAN], vec![f64::INFINITY], vec![0.0], vec![]] {
        says(WeightedSampler::new(weights, 1).unwrap_err(), &["finite weights"]);
    }
    let few = WeightedSampler::new([1.0, 0.0], 2).unwrap().without_replacement();
    says(few.unwrap_err(), &["at most 1 draws"]);
    let both = LoaderOpts::default().shuffle(true).sampler(SubsetSampler::new([0]));
    says(DataLoader::new(Items::new(1, |i| Ok(i as f32)), both).unwrap_err(), &["a sampler or shuffle"]);
}

/// One that says more than it gives.
#[derive(Debug)]
struct Short;
impl Sampler for Short {
    fn count(&self, samples: usize) -> usize {
        samples
    }
    fn numbers(&self, _samples: usize, _epoch: u64) -> Result<Vec<usize>, LoadError> {
        Ok(vec![0])
    }
}

#[test]
fn a_sampler_that_errs_makes_errors_of_batches() {
    let of = |opts: LoaderOpts| {
        let batch = loader(3, opts).epoch(0).next().unwrap();
        batch.unwrap_err().to_string()
    };
    for workers in [0, 1] {
        let opts = || LoaderOpts::default().workers(workers);
        assert!(of(opts().sampler(SubsetSampler::new([3]))).contains("gave sample 3 of a dataset of 3"));
        assert!(of(opts().sampler(Short)).contains("Short gave 1 samples where it says 3"));
        let weights = WeightedSampler::new([1.0], 2).unwrap();
        assert!(of(opts().sampler(weights)).contains("1 weights for a dataset of 3"));
    }
}
