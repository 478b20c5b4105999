//! The example `char_transformer` at a small size: runs that are stopped and
//! resumed, the model it compares itself with, and sampling.
#![cfg(feature = "safetensors")]

#[path = "support/adapter.rs"]
mod adapter;
#[path = "../examples/char_transformer/model.rs"]
mod model;
#[path = "../examples/char_transformer/text.rs"]
mod text;
#[path = "../examples/char_transformer/training.rs"]
mod training;
#[path = "../examples/char_transformer/trigram.rs"]
mod trigram;

use kiln::Generator;
use kiln::nn::{Layer, ModuleExt};
use kiln::prelude::*;

use model::{CharTransformer, Sizes};
use text::Text;
use training::{Schedule, Training};
use trigram::Trigram;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const SIZES: Sizes = Sizes { context: 8, width: 16, layers: 2, heads: 2, dropout: 0.1 };
const SCHEDULE: Schedule = Schedule { steps: 12, batch: 4, lr: 1e-2, seed: 5, amp: None };

/// A text with as much order as chance.
fn text() -> Text {
    let characters = |i: u32| b"abcde fgh.\n"[(i * i / 7 % 11) as usize];
    Text::new(&(0..600).map(characters).collect::<Vec<u8>>())
}

fn run(training: &mut Training, steps: usize) {
    (0..steps).for_each(|_| {
        training.step().unwrap();
    });
}

fn bits(training: &Training) -> Vec<u32> {
    training.losses.iter().map(|loss| loss.to_bits()).collect()
}

fn stopped_and_resumed(device: Device) {
    let path =
        std::env::temp_dir().join(format!("kiln-char-{:?}-{}.safetensors", device.kind, std::process::id()));
    let mut whole = Training::new(&text(), SIZES, SCHEDULE, device, None).unwrap();
    run(&mut whole, 12);
    let mut first = Training::new(&text(), SIZES, SCHEDULE, device, None).unwrap();
    run(&mut first, 5);
    first.save(&path).unwrap();
    drop(first);
    let mut second = Training::new(&text(), SIZES, SCHEDULE, device, Some(&path)).unwrap();
    run(&mut second, 7);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(bits(&whole), bits(&second));
    let validation = text().validation;
    let losses = [&whole, &second].map(|run| run.evaluate(&validation, 8).unwrap().to_bits());
    assert_eq!(losses[0], losses[1]);
    assert!(whole.losses[11] < whole.losses[0], "{:?}", whole.losses);
}

#[test]
fn a_run_that_was_stopped_goes_on_bit_by_bit() {
    stopped_and_resumed(Device::cpu());
}

/// Products in 16 bits lead to the same place, and plan nothing after the first steps.
#[test]
fn mixed_precision_ends_where_full_precision_does() {
    let ended = |device: Device, steps: usize, amp| {
        let schedule = Schedule { steps, amp, ..SCHEDULE };
        let mut training = Training::new(&text(), SIZES, schedule, device, None).unwrap();
        run(&mut training, 4);
        let before = kiln::context().counters();
        run(&mut training, steps - 4);
        let after = kiln::context().counters();
        assert_eq!(after.plans_built, before.plans_built);
        training.evaluate(&text().training, 8).unwrap()
    };
    let ended = |device, steps, amp| kiln::with_context(&kiln::Context::new(), || ended(device, steps, amp));
    let close = |device, steps, amp: &[DType]| {
        let full = ended(device, steps, None);
        for &amp in amp {
            let mixed = ended(device, steps, Some(amp));
            assert!((full - mixed).abs() < 0.02, "{device} {amp}: {full} {mixed}");
        }
    };
    close(Device::cpu(), 60, &[DType::BF16, DType::F16]);
    // A software driver takes minutes for as many.
    adapter::adapter().into_iter().for_each(|device| close(device, 8, &[DType::F16]));
}

#[test]
fn probabilities_after_any_context_sum_to_one() {
    let text = Text::new(b"abracadabra, abracadabra!");
    let trigram = Trigram::fitted(&text.training, text.alphabet.len());
    for before in [&[][..], &[2], &[2, 3], &[0, 0], &[1, 2, 5]] {
        let sum: f64 = (0..text.alphabet.len() as u8).map(|c| trigram.probability(before, c)).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{before:?}: {sum}");
    }
    // After "a" in "aab": a and b once each; before that, by counts 2 and 1.
    let small = Trigram::fitted(&[0, 0, 1], 3);
    let none = |count: f64| (count + 2.0 / 3.0) / 5.0;
    let one = |count: f64, shorter: f64| (count + 2.0 * shorter) / 4.0;
    assert!((small.probability(&[], 0) - none(2.0)).abs() < 1e-12);
    assert!((small.probability(&[2, 0], 1) - one(1.0, none(1.0))).abs() < 1e-12);
    assert!((small.probability(&[0, 0], 1) - (1.0 + one(1.0, none(1.0))) / 2.0).abs() < 1e-12);
}

#[test]
fn the_loss_is_the_mean_surprise() {
    let trigram = Trigram::fitted(&[0, 1, 0, 1, 0, 2], 3);
    let surprises = [-trigram.probability(&[0], 1).ln(), -trigram.probability(&[0, 1], 0).ln()];
    let expected = (surprises[0] + surprises[1]) / 2.0;
    assert!((trigram.loss(&[0, 1, 0]) - expected).abs() < 1e-12);
}

#[test]
fn the_example_carries_its_text() {
    let text = Text::load().unwrap();
    assert_eq!((text.training.len(), text.validation.len(), text.alphabet.len()), (359_876, 39_986, 63));
    assert!(text.characters(&text.training).starts_with("First Citizen:\nBefore we proceed"));
    let prompt = text.numbers("ROMEO:").unwrap();
    assert_eq!(text.characters(&prompt), "ROMEO:");
    assert!(text.numbers("0").unwrap_err().to_string().contains("not in the text"));
}

#[test]
fn sampling_through_caches_draws_what_whole_passes_do() {
    kiln::manual_seed(1);
    let model = CharTransformer::new(11, SIZES);
    let written = model.sample(&[3, 1], 6, &mut Generator::new(2)).unwrap();
    assert_eq!((written.len(), &written[..2]), (8, &[3, 1][..]));
    // The probabilities of the caches' passes are those of one pass over all.
    let numbers: Vec<i64> = written.iter().map(|&n| i64::from(n)).collect();
    let characters = Tensor::from_slice(&numbers, [1, 8], ());
    let whole = model.forward(&characters).to_vec::<f32>().unwrap();
    let caches = model.caches();
    for at in 0..8 {
        let one = model.forward_cached(&characters.i((.., r(at, at + 1))), &caches);
        for (a, b) in one.to_vec::<f32>().unwrap().iter().zip(&whole[at as usize * 11..]) {
            assert!((a - b).abs() < 1e-4, "{at}: {a} {b}");
        }
    }
    // Longer than the caches, and always the same.
    let long = model.sample(&[3], 30, &mut Generator::new(2)).unwrap();
    assert_eq!(long.len(), 31);
    assert_eq!(long, model.sample(&[3], 30, &mut Generator::new(2)).unwrap());
    assert!(model.parameters().iter().all(|param| param.grad().is_none()));
}

#[test]
fn a_run_on_a_graphics_device_goes_on_bit_by_bit_too() {
    let device = Device::wgpu(0);
    match device.probe() {
        Ok(_) => stopped_and_resumed(device),
        Err(error) => {
            let required =
                std::env::var("KILN_REQUIRE").is_ok_and(|list| list.split(',').any(|it| it == "wgpu"));
            assert!(!required, "KILN_REQUIRE asks for wgpu: {error}");
            println!("skipped: {error}");
        }
    }
}

const PLANNED: Sizes = Sizes { context: 64, width: 128, layers: 2, heads: 4, dropout: 0.0 };

/// What passes from the forward to the backward pass is in 16 bits, but for sums and what is added up. Nothing runs;
/// the meta device is planned for as GPUs are.
#[test]
fn mixed_precision_plans_at_most_six_tenths_of_the_memory_for_activations() {
    let model = kiln::estimate(|| CharTransformer::new(63, PLANNED)).unwrap();
    let activations = |amp: Option<DType>| {
        let needs = model.training(|model| {
            let _mixed = amp.map(kiln::autocast);
            let ids = Tensor::empty([16, 64], DType::I64);
            model.loss(&ids, &ids)
        });
        needs.unwrap().activations
    };
    let full = activations(None);
    for amp in [DType::BF16, DType::F16] {
        let mixed = activations(Some(amp));
        assert!(10 * mixed <= 6 * full, "{full} bytes, {mixed} in {amp}");
    }
}

#[test]
fn mixed_precision_plans_at_most_six_tenths_of_the_memory_on_the_cpu() {
    let model = CharTransformer::new(63, PLANNED);
    let parameters: Vec<Tensor> = model.parameters().iter().map(|parameter| parameter.get()).collect();
    let ids = Tensor::zeros([16, 64], (Device::cpu(), DType::I64));
    kiln::tensor::read::realize(&parameters.iter().chain([&ids]).collect::<Vec<_>>()).unwrap();
    let intermediates = |amp: Option<DType>| {
        let loss = {
            let _mixed = amp.map(kiln::autocast);
            model.loss(&ids, &ids)
        };
        let gradients = kiln::grad(&loss, &parameters.iter().collect::<Vec<_>>());
        let plan = kiln::plan(&std::iter::once(&loss).chain(&gradients).collect::<Vec<_>>()).unwrap();
        plan.memory[0].intermediates
    };
    let (full, mixed) = (intermediates(None), intermediates(Some(DType::BF16)));
    assert!(10 * mixed <= 6 * full, "{full} bytes, {mixed} in mixed precision");
}
