//! Planned peaks against peaks measured outside of kiln's own books: by the
//! program's allocator. Alone in its program, since the allocator is everybody's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln::nn::{BatchNorm, Conv2d, Layer, Linear, Lstm, Module, ModuleExt, Sequential};
use kiln::nn::{TransformerEncoderLayer, TransformerOpts, Visitor};
use kiln::prelude::*;

/// The system's allocator, counting bytes.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A model, and what it takes in.
struct Case {
    model: Box<dyn Layer>,
    input: Tensor,
}

fn case(model: impl Layer + 'static, input: Tensor) -> Case {
    Case { model: Box::new(model), input }
}

/// A block whose interior is computed again for gradients.
struct Checkpointed<L>(L);
impl<L: Layer> Module for Checkpointed<L> {
    fn visit(&self, visitor: &mut dyn Visitor) {
        self.0.visit(visitor);
    }
}
impl<L: Layer> Layer for Checkpointed<L> {
    fn forward(&self, x: &Tensor) -> Tensor {
        kiln::checkpoint(|x| self.0.forward(x), x)
    }
}

/// One block after another, checkpointed or not.
fn blocks<L: Layer + 'static>(checkpointed: bool, blocks: impl IntoIterator<Item = L>) -> Sequential {
    let blocks = blocks.into_iter();
    if checkpointed {
        blocks.fold(Sequential::new(), |model, block| model.push(Checkpointed(block)))
    } else {
        blocks.fold(Sequential::new(), Sequential::push)
    }
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

/// Bytes at most, as planned and as the allocator saw them.
fn peaks(make: &dyn Fn() -> Case, build: &Build) -> (u64, u64) {
    kiln::manual_seed(0);
    // Once to start threads and to compile; the second run is like any later one.
    let mut found = (0, 0);
    for _ in 0..2 {
        Device::cpu().empty_cache().unwrap();
        let before = HELD.load(Ordering::Relaxed);
        let case = make();
        let parts: Vec<Tensor> = case.model.parameters().iter().map(|p| p.get()).collect();
        kiln::realize(&parts.iter().chain([&case.input]).collect::<Vec<_>>()).unwrap();
        drop(parts);
        Device::cpu().empty_cache().unwrap();
        MOST.store(HELD.load(Ordering::Relaxed), Ordering::Relaxed);
        let wanted = build(&case);
        let wanted: Vec<&Tensor> = wanted.iter().collect();
        let planned = kiln::plan(&wanted).unwrap().peak_bytes();
        kiln::realize(&wanted).unwrap();
        found = (planned, (MOST.load(Ordering::Relaxed) - before) as u64);
    }
    found
}

type Make = fn(bool) -> Case;

#[test]
fn plans_know_the_peak_of_memory() {
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
            let (planned, measured) = peaks(&|| model(*checkpointed), *build);
            let error = planned as f64 / measured as f64 - 1.0;
            let line =
                format!("{name}, {way}: planned {planned}, measured {measured}, {:+.1} %", 100.0 * error);
            println!("{line}");
            if !(-0.01..=0.05).contains(&error) {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
