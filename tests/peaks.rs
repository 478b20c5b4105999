//! Planned peaks against peaks measured outside of kiln's own books: by the
//! program's allocator. Alone in its program, since the allocator is everybody's, and
//! without regions, of which it sees no blocks.

use std::process::Command;

use kiln::nn::{BatchNorm, Conv2d, Layer, Linear, Lstm, Module, ModuleExt, Sequential};
use kiln::nn::{TransformerEncoderLayer, TransformerOpts, Visitor};
use kiln::prelude::*;
use kiln::{Budget, with_budget};

#[path = "support/blocks.rs"]
mod blocks;
#[path = "support/heap.rs"]
mod heap;

use blocks::blocks;

/// A model, and what it takes in.
struct Case {
    model: Box<dyn Layer>,
    input: Tensor,
}

fn case(model: impl Layer + 'static, input: Tensor) -> Case {
    Case { model: Box::new(model), input }
}

fn mlp(checkpointed: bool) -> Case {
    let block = |(from, to)| {
        let wide = Sequential::new().push(Linear::new(from, 1024, ())).then(Tensor::gelu);
        wide.push(Linear::new(1024, to, ())).then(Tensor::tanh)
    };
    let model = blocks(checkpointed, [(512, 512), (512, 512), (512, 256)].map(block));
    case(model, Tensor::randn([4096, 512], ()))
}

fn cnn(checkpointed: bool) -> Case {
    let opts = || ConvOpts::default().padding(1);
    let block = |(from, to)| {
        let conv = Sequential::new().push(Conv2d::new(from, to, [3, 3], opts(), ()));
        conv.push(BatchNorm::new(to, ())).then(Tensor::relu)
    };
    let model = blocks(checkpointed, [(3, 16), (16, 32), (32, 32)].map(block));
    case(model, Tensor::randn([16, 3, 64, 64], ()))
}

/// Many blocks of one width: no single value is most of the memory.
fn deep_cnn(_: bool) -> Case {
    let opts = || ConvOpts::default().padding(1);
    let block = |from| {
        let conv = Sequential::new().push(Conv2d::new(from, 8, [3, 3], opts(), ()));
        conv.push(BatchNorm::new(8, ())).then(Tensor::relu)
    };
    let blocks = (0..10).map(|number| block(if number == 0 { 3 } else { 8 }));
    case(blocks.fold(Sequential::new(), Sequential::push), Tensor::randn([96, 3, 48, 48], ()))
}

fn transformer(checkpointed: bool) -> Case {
    let opts = TransformerOpts::default().feed_forward(512).dropout(0.0);
    let block = |_| TransformerEncoderLayer::new(128, 4, opts.clone(), ());
    case(blocks(checkpointed, (0..3).map(block)), Tensor::randn([64, 128, 128], ()))
}

/// All outputs of an LSTM.
struct Reader(Lstm);
impl Module for Reader {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.0.visit(visitor);
    }
}
impl Layer for Reader {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.0.forward(x, None).0
    }
}

fn lstm(_: bool) -> Case {
    case(Reader(Lstm::new(128, 256, 1, ())), Tensor::randn([32, 256, 128], ()))
}

/// What is to be computed together.
type Build = dyn Fn(&Case) -> Vec<Tensor>;

fn inference(case: &Case) -> Vec<Tensor> {
    case.model.eval();
    let _guard = kiln::no_grad();
    vec![case.model.forward(&case.input)]
}

fn training(case: &Case) -> Vec<Tensor> {
    case.model.train();
    let loss = case.model.forward(&case.input).square().mean(..);
    let parameters: Vec<Tensor> = case.model.parameters().iter().map(|p| p.get()).collect();
    let gradients = kiln::grad(&loss, &parameters.iter().collect::<Vec<_>>());
    std::iter::once(loss).chain(gradients).collect()
}

/// Runs a test in a process where blocks are the allocator's. Returns whether this is that process.
fn is_without_regions(test: &str) -> bool {
    const WITHOUT: (&str, &str) = ("KILN_DISABLE", "regions");
    if std::env::var(WITHOUT.0).is_ok_and(|disabled| disabled == WITHOUT.1) {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let output = command.args(["--exact", test, "--nocapture"]).env(WITHOUT.0, WITHOUT.1).output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    false
}

/// A run of a model.
#[derive(Default)]
struct Run {
    /// Bytes at most, as planned and as the allocator saw them.
    planned: u64,
    measured: u64,
    /// The bits of all that was computed.
    results: Vec<Vec<u32>>,
}

fn run(make: &dyn Fn() -> Case, build: &Build, budget: Budget) -> Run {
    // Once to start threads and to compile; the second run is like any later one, unless a thread then does for
    // the first time what needs memory of its own.
    let mut found = Run::default();
    heap::count();
    for run in 0..4 {
        if run > 1 && found.is_as_planned() {
            break;
        }
        kiln::manual_seed(0);
        Device::cpu().empty_cache().unwrap();
        let before = heap::held();
        let case = make();
        let parts: Vec<Tensor> = case.model.parameters().iter().map(|p| p.get()).collect();
        kiln::realize(&parts.iter().chain([&case.input]).collect::<Vec<_>>()).unwrap();
        drop(parts);
        Device::cpu().empty_cache().unwrap();
        heap::forget_most();
        let wanted = build(&case);
        let wanted: Vec<&Tensor> = wanted.iter().collect();
        found.planned = kiln::plan_with(&wanted, budget).unwrap().peak_bytes();
        with_budget(budget, || kiln::realize(&wanted)).unwrap();
        found.measured = (heap::most() - before) as u64;
        let bits = |x: &&Tensor| x.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
        found.results = wanted.iter().map(bits).collect();
    }
    found
}

const UNLIMITED: Budget = Budget::bytes(u64::MAX);

impl Run {
    /// How far the plan is off, as a part of what was measured.
    fn error(&self) -> f64 {
        self.planned as f64 / self.measured as f64 - 1.0
    }
    fn is_as_planned(&self) -> bool {
        (-0.01..=0.05).contains(&self.error())
    }
}

type Make = fn(bool) -> Case;

#[test]
fn plans_know_the_peak_of_memory() {
    if !is_without_regions("plans_know_the_peak_of_memory") {
        return;
    }
    let models: [(&str, Make); 4] =
        [("mlp", mlp), ("cnn", cnn), ("transformer", transformer), ("lstm", lstm)];
    let ways: [(&str, bool, &Build); 3] = [
        ("inference", false, &inference),
        ("training", false, &training),
        ("checkpointed training", true, &training),
    ];
    let mut wrong = Vec::new();
    for (name, model) in models {
        for (way, checkpointed, build) in &ways {
            if name == "lstm" && *checkpointed {
                continue;
            }
            let run = run(&|| model(*checkpointed), *build, UNLIMITED);
            let (planned, measured, error) = (run.planned, run.measured, 100.0 * run.error());
            let line = format!("{name}, {way}: planned {planned}, measured {measured}, {error:+.1} %");
            println!("{line}");
            if !run.is_as_planned() {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_budget_is_kept_and_changes_no_bit() {
    if !is_without_regions("a_budget_is_kept_and_changes_no_bit") {
        return;
    }
    let models: [(&str, Make); 3] = [("mlp", mlp), ("cnn", deep_cnn), ("transformer", transformer)];
    for (name, model) in models {
        let make = || model(false);
        let free = run(&make, &training, UNLIMITED);
        let bytes = free.planned * 6 / 10;
        let kept = run(&make, &training, Budget::bytes(bytes));
        let (planned, measured) = (kept.planned, kept.measured);
        println!(
            "{name}: {} without a budget; {bytes} allowed, planned {planned}, measured {measured}",
            free.planned
        );
        assert!(planned <= bytes, "{name}: planned {planned} of {bytes}");
        assert!(kept.is_as_planned(), "{name}: planned {planned}, measured {measured}");
        assert!(kept.results == free.results, "{name}: other results");
    }
}
