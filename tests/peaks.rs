//! Planned peaks against peaks measured outside of kiln's own books: by the
//! program's allocator. Alone in its program, since the allocator is everybody's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln::nn::{BatchNorm, Conv2d, Layer, Linear, ModuleExt, Sequential};
use kiln::nn::{TransformerEncoderLayer, TransformerOpts};
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
    name: &'static str,
    model: Box<dyn Layer>,
    input: Tensor,
}

fn case(name: &'static str, model: impl Layer + 'static, input: Tensor) -> Case {
    Case { name, model: Box::new(model), input }
}

/// Deep enough that activations outweigh what planning and threads hold.
fn mlp() -> Case {
    let layer = |from, to| Sequential::new().push(Linear::new(from, to, ())).then(Tensor::gelu);
    let model = Sequential::new().push(layer(512, 1024)).push(layer(1024, 1024)).push(layer(1024, 512));
    case("mlp", model, Tensor::randn([4096, 512], ()))
}

fn cnn() -> Case {
    let opts = || ConvOpts::default().padding(1);
    let block = |from, to| {
        Sequential::new()
            .push(Conv2d::new(from, to, [3, 3], opts(), ()))
            .push(BatchNorm::new(to, ()))
            .then(Tensor::relu)
    };
    let model = Sequential::new().push(block(3, 16)).push(block(16, 32)).push(block(32, 32));
    case("cnn", model, Tensor::randn([16, 3, 64, 64], ()))
}

fn transformer() -> Case {
    let opts = TransformerOpts::default().feed_forward(512).dropout(0.0);
    let layer = || TransformerEncoderLayer::new(128, 4, opts.clone(), ());
    case(
        "transformer",
        Sequential::new().push(layer()).push(layer()).push(layer()),
        Tensor::randn([64, 128, 128], ()),
    )
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
fn peaks(make: fn() -> Case, build: &Build) -> (u64, u64) {
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

#[test]
fn plans_know_the_peak_of_memory() {
    let models: [fn() -> Case; 3] = [mlp, cnn, transformer];
    let builds: [(&str, &Build); 2] = [("inference", &inference), ("training", &training)];
    let mut wrong = Vec::new();
    for model in models {
        for (what, build) in &builds {
            let (planned, measured) = peaks(model, *build);
            let error = planned as f64 / measured as f64 - 1.0;
            let line = format!(
                "{} {what}: planned {planned}, measured {measured}, {:+.1} %",
                model().name,
                100.0 * error
            );
            println!("{line}");
            if !(-0.01..=0.05).contains(&error) {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
