//! What kiln itself costs: building nodes, realizing a cached plan, planning.
//! Arguments name the parts to run: `nodes`, `realize`, `growth`, `sizes`.

use std::time::Instant;

use kiln::Device;
use kiln::plan::context::{Context, with_context};
use kiln::tensor::Tensor;

/// Nanoseconds per repetition.
fn nanoseconds(repetitions: usize, mut body: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..repetitions).for_each(|_| body());
    start.elapsed().as_nanos() as f64 / repetitions as f64
}

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    if wanted("nodes") {
        build_nodes();
    }
    if wanted("realize") {
        [1, 10, 100].into_iter().for_each(cached_realize);
    }
    if wanted("growth") {
        growth();
    }
    if wanted("sizes") {
        sizes(Device::cpu());
    }
}

/// Time per node of building chains of elementwise operations and of dropping
/// them: one after the other in the same memory, and all at once in memory
/// that is fresh from the system.
fn build_nodes() {
    let (a, b) = (Tensor::ones([64, 64], ()), Tensor::ones([64, 64], ()));
    let chain = |with_scalar: bool| {
        let mut x = a.clone();
        for _ in 0..500 {
            x = if with_scalar { x * 2.0 } else { x + &b };
        }
        x
    };
    for (operands, with_scalar, nodes) in [("tensor", false, 500.0), ("scalar", true, 1000.0)] {
        for (memory, chains) in [("warm", 1), ("fresh", 1000)] {
            let (mut building, mut dropping) = (0.0, 0.0);
            let rounds = 2000 / chains;
            for _ in 0..rounds {
                let mut built = Vec::with_capacity(chains);
                building += nanoseconds(chains, || built.push(chain(with_scalar)));
                dropping += nanoseconds(1, || built.clear()) / chains as f64;
            }
            let count = rounds as f64 * nodes;
            println!(
                "a node with {operands} operands, {memory} memory: building {:.0} ns, dropping {:.0} ns",
                building / count,
                dropping / count
            );
        }
    }
}

/// Time of a realize whose plan is cached, and its parts.
fn cached_realize(adds: usize) {
    let context = Context::new();
    with_context(&context, || {
        let one = Tensor::from_vec(vec![1f32; 16], [16], ());
        let build = || (0..adds).fold(one.clone(), |x, _| x + &one);
        (0..3).for_each(|_| drop(build().realize().map(|_| ())));
        let building = nanoseconds(2000, || drop(build()));
        let whole = nanoseconds(2000, || drop(build().realize().map(|_| ())));
        println!(
            "cached realize of {adds} adds: {whole:.0} ns, of which building and dropping {building:.0}"
        );
    });
    println!("  {:?}", context.counters());
}

/// Time to plan chains of growing length.
fn growth() {
    for nodes in [1000, 10_000, 100_000] {
        let context = Context::new();
        with_context(&context, || {
            let one = Tensor::from_vec(vec![1f32; 16], [16], ());
            let x = (0..nodes).fold(one.clone(), |x, i| if i % 7 == 0 { x * &one } else { x + &one });
            let start = Instant::now();
            let done = x.realize().map(|_| ());
            println!("plan and run {nodes} nodes: {:.1} ms {done:?}", start.elapsed().as_secs_f64() * 1e3);
        });
    }
}

/// A step of attention over what came before and a new position.
struct Decoder {
    cache: [Tensor; 2],
    weight: Tensor,
    device: Device,
}

impl Decoder {
    const HEADS: usize = 8;
    const WIDTH: usize = 64;

    fn new(device: Device, length: usize) -> Decoder {
        let zeros = |dims| Tensor::zeros(dims, device);
        let cache = [0, 1].map(|_| zeros([Self::HEADS, length, Self::WIDTH]));
        Decoder { cache, weight: zeros([1, Self::WIDTH, Self::WIDTH].map(|n| n)), device }
    }

    fn step(&mut self) -> Tensor {
        let x = Tensor::ones([Self::HEADS, 1, Self::WIDTH], self.device);
        let next = x.matmul(&self.weight);
        let [keys, values] = &self.cache;
        let (keys, values) = (Tensor::cat(&[keys, &next], 1), Tensor::cat(&[values, &x], 1));
        let y = (next.matmul(&keys.transpose(-1, -2)) * 0.125).softmax(-1).matmul(&values);
        kiln::realize(&[&y, &keys, &values]).expect("a step");
        self.cache = [keys, values];
        y
    }
}

/// Time of a step whose sizes no step before had, and again when they have
/// been seen, for a sequence that grows from 1 to 512.
fn sizes(device: Device) {
    let context = Context::new();
    with_context(&context, || {
        for pass in ["sizes not seen before", "sizes seen before"] {
            let mut decoder = Decoder::new(device, 1);
            for quarter in 0..4 {
                let each = nanoseconds(128, || drop(decoder.step().to_vec::<f32>()));
                let before = context.counters();
                println!(
                    "{device}, lengths from {}, {pass}: {:.0} us a step, {} kernels compiled",
                    quarter * 128,
                    each / 1e3,
                    before.kernels_compiled
                );
            }
        }
    });
}
