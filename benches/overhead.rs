//! What kiln itself costs: building nodes, realizing a cached plan, planning.
//! Arguments name the parts to run: `nodes`, `realize`, `small`, `threads`,
//! `growth`, `sizes`; with `wgpu`, `small` and `sizes` run on an adapter too.

use std::time::Instant;

use kiln::Device;
use kiln::plan::context::{Context, with_context};
use kiln::prelude::NormOpts;
use kiln::tensor::Tensor;

#[path = "../tests/support/heap.rs"]
mod heap;

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
    let gpus = named.iter().any(|name| name == "wgpu").then(|| Device::wgpu(0));
    let devices = || [Device::cpu()].into_iter().chain(gpus);
    if wanted("small") {
        devices().for_each(small);
    }
    if wanted("threads") {
        threads();
    }
    if wanted("growth") {
        growth();
        kernels();
    }
    if wanted("sizes") {
        devices().for_each(sizes);
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

/// Realizes of a plan of three small kernels, timed together.
const REALIZES: usize = 100_000;

/// Three products of square matrices, none of which can be part of another's kernel.
fn three_products(device: Device, side: usize) -> impl Fn() -> Tensor {
    let x = Tensor::from_vec(vec![0.125f32; side * side], [side, side], device);
    x.realize().expect("memory");
    move || x.matmul(&x).matmul(&x).matmul(&x)
}

/// The parts of a realize: building the graph; finding the plan and what it
/// needs, which the null device shows, since it runs nothing; the rest, running
/// it.
fn small(device: Device) {
    with_context(&Context::new(), || {
        let realize = |device: Device| {
            let build = three_products(device, 8);
            (0..3).for_each(|_| drop(build().realize().map(|_| ())));
            let nanoseconds = nanoseconds(REALIZES, || drop(build().realize().map(|_| ())));
            device.synchronize().expect("the device is well");
            nanoseconds
        };
        let build = three_products(device, 8);
        let building = nanoseconds(REALIZES, || drop(build()));
        let (planned, whole) = (realize(Device::null()), realize(device));
        println!(
            "a realize of 3 cached kernels on {device}: {whole:.0} ns; graph {building:.0}, plan {:.0}, run {:.0}",
            planned - building,
            whole - planned
        );
    });
}

/// The same on several threads at once, which share a plan or have one each. Best of
/// some rounds: on a machine with other work threads may not run at once.
fn threads() {
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let each = |threads: usize, own: usize| {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for number in 0..threads {
                scope.spawn(move || {
                    let build = three_products(Device::cpu(), 8 + own * number);
                    (0..REALIZES / 5).for_each(|_| drop(build().realize().map(|_| ())));
                });
            }
        });
        start.elapsed().as_nanos() as f64 * 5.0 / REALIZES as f64
    };
    for (name, own) in [("a shared plan", 0), ("plans of their own", 1)] {
        // In turn, so that what others do to the machine befalls both.
        let (mut one, mut all) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..10 {
            (one, all) = (each(1, own).min(one), each(most, own).min(all));
        }
        println!(
            "3 kernels, {name}, 1 thread: {one:.0} ns a realize; {most} threads: {all:.0} ns, {:.2} times as many a second",
            most as f64 * one / all
        );
    }
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

/// A link of a chain of kernels, by its number.
type Link<'a> = &'a dyn Fn(&Tensor, usize) -> Tensor;

/// What a plan of many kernels takes: time of planning, and bytes of the plan with
/// its key. A product each, with the same activation; with a number of its own, with a
/// slice of its own, or with a function of many nodes; or a product and a layer norm.
fn kernels() {
    heap::count();
    let device = Device::null();
    let matrix = |rows: usize| Tensor::ones([rows, 4], device);
    let (x, w, all) = (matrix(4), matrix(4), matrix(10_004));
    kiln::realize(&[&x, &w, &all]).expect("memory");
    let own = |number: usize| if number > 0 { number as f64 } else { 0.5 };
    let links: [(&str, Link<'_>); 5] = [
        ("alike", &|x, _| (x.matmul(&w) + 0.5).relu()),
        ("that differ in a number", &|x, i| (x.matmul(&w) + own(i)).relu()),
        ("that differ in a slice", &|x, i| (x.matmul(&all.narrow(0, i, 4)) + 0.5).relu()),
        ("of many nodes", &|x, _| x.matmul(&w).gelu()),
        ("of rows", &|x, _| x.matmul(&w).layer_norm(4, NormOpts::default())),
    ];
    for (name, link) in links {
        for count in [1000, 10_000] {
            let context = Context::new();
            with_context(&context, || {
                let y = (0..count).fold(x.clone(), |x, i| link(&x, i));
                let (before, start) = (heap::held(), cpu_nanoseconds());
                let launches = y.plan().map(|report| report.launches());
                let milliseconds = (cpu_nanoseconds() - start) / 1e6;
                let launches = launches.expect("a plan");
                let bytes = (heap::held() - before) as u64 / launches;
                println!("plan {launches} kernels {name}: {milliseconds:.1} CPU ms, {bytes} bytes each");
                let start = cpu_nanoseconds();
                let done = y.realize().map(|_| ());
                println!("  compile and launch: {:.1} CPU ms {done:?}", (cpu_nanoseconds() - start) / 1e6);
            });
        }
    }
}

/// CPU time of this thread; 0 where the system does not say.
fn cpu_nanoseconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
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

    /// Time of a step that is repeated without growing: the best of some rounds.
    fn nanoseconds_at(device: Device, length: usize) -> f64 {
        let mut decoder = Decoder::new(device, length - 1);
        let _ = decoder.step();
        let cache = decoder.cache.clone();
        let mut again = || {
            decoder.cache = cache.clone();
            drop(decoder.step().to_vec::<f32>());
        };
        (0..10).map(|_| nanoseconds(50, &mut again)).fold(f64::INFINITY, f64::min)
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
        for length in [15, 100, 250, 500] {
            let [lifted, baked] = [&context, &Context::new()]
                .map(|context| with_context(context, || Decoder::nanoseconds_at(device, length)));
            println!(
                "{device}, length {length}: {:.1} us a step, {:.1} where no other length was seen: {:.2}",
                lifted / 1e3,
                baked / 1e3,
                lifted / baked
            );
        }
    });
}
