//! Questions that people who train on GPUs ask, answered for kiln.
//!
//! # Why did my timing say nothing?
//!
//! Operations build a graph; `realize` (or reading a value) runs it. A stop
//! watch around operations times the building:
//!
//! ```
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! let x = Tensor::ones([512, 512], ());
//! let y = x.matmul(&x); // nothing has run
//! assert!(!y.is_realized());
//! let device = y.device();
//! let start = std::time::Instant::now();
//! y.realize()?; // started; on the CPU, done
//! device.synchronize()?; // done
//! println!("{:?}", start.elapsed());
//! # Ok(())
//! # }
//! ```
//!
//! # What does `synchronize` do, and what not?
//!
//! It waits until what was started on a device is done, and reports the first
//! failure since the last wait. It does not run what is still lazy, and
//! programs do not need it to be right: reading a value waits for that value.
//! It is for stop watches, and for finding a failure where it happened.
//! [`deny_sync`](crate::deny_sync) turns every wait of the host into an error,
//! to find those that slow a loop down:
//!
//! ```
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! let x = Tensor::ones([4], ()).to(Device::null());
//! let guard = kiln::deny_sync();
//! let y = &x + 1.0;
//! y.realize()?; // starts work, waits for nothing
//! assert!(y.device().synchronize().is_err());
//! drop(guard);
//! # Ok(())
//! # }
//! ```
//!
//! # Why do memory readings before and after my code agree?
//!
//! Lazy operations occupy nothing, so a difference of readings around them is
//! zero. Reports say how many operations are still lazy; the plan says what
//! they will need, before they run:
//!
//! ```
//! use kiln::MemoryTracker;
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! let tracker = MemoryTracker::new(Device::cpu())?;
//! let y = Tensor::randn([256, 256], ()).exp();
//! let report = tracker.report()?;
//! assert!(report.to_string().contains("not realized yet"), "{report}");
//! let planned = y.plan()?.peak_bytes();
//! y.realize()?;
//! assert_eq!(planned, 256 * 256 * 4);
//! # Ok(())
//! # }
//! ```
//!
//! # Allocated or reserved?
//!
//! *Allocated* is what tensors occupy. *Reserved* is what the pool has from the
//! driver: it keeps blocks that tensors have left, since asking the driver is
//! slow and, on the CPU, fresh pages cost more than most kernels. Reserved
//! memory that is not allocated is there for your next tensor, not lost;
//! [`Device::empty_cache`](crate::Device::empty_cache) gives it back to other
//! programs. [`Device::memory_summary`](crate::Device::memory_summary) shows
//! both beside what the driver sees.
//!
//! # Is my kernel slow because of bandwidth or because of arithmetic?
//!
//! A kernel moves bytes and does operations, and waits for whichever takes
//! longer. A device has a ceiling for each; the number of operations per byte
//! decides which ceiling a kernel meets (the *roofline*). The plan knows both
//! numbers, and the device's peak throughput is measured once:
//!
//! ```
//! use kiln::plan::roofline::{Bottleneck, PeakThroughput};
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! let x = Tensor::ones([2048, 2048], ()).to(Device::null());
//! x.realize()?;
//! // `plan.roofline(device)?` measures these; here they are given.
//! let peak_throughput = PeakThroughput {
//!     bytes: 8e11,
//!     flops: 2e13,
//!     elementwise_flops: 1e13,
//!     launches: 2e5,
//!     bytes_from_host: 1e10,
//!     bytes_to_host: 1e10,
//! };
//! let bound = |y: &Tensor| Ok::<_, kiln::Error>(y.plan()?.roofline_under(y.device(), peak_throughput).kernels[0].bound);
//! assert_eq!(bound(&x.exp())?, Bottleneck::Memory);
//! assert_eq!(bound(&x.matmul(&x))?, Bottleneck::Compute);
//! # Ok(())
//! # }
//! ```
//!
//! Memory-bound kernels gain from fusion and smaller types; compute-bound ones
//! from faster arithmetic. Fusion is why a chain of elementwise operations
//! costs one pass over memory however long it is.
//!
//! # Why is a tiny model slower on the GPU?
//!
//! Starting a kernel costs a few microseconds whatever it does. A kernel that
//! moves and computes less than that is *launch-bound*: the device is idle
//! most of the time, and its speed does not matter. The plan says so:
//!
//! ```
//! use kiln::plan::roofline::{Bottleneck, PeakThroughput};
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! # let peak_throughput = PeakThroughput {
//! #     bytes: 8e11,
//! #     flops: 2e13,
//! #     elementwise_flops: 1e13,
//! #     launches: 2e5,
//! #     bytes_from_host: 1e10,
//! #     bytes_to_host: 1e10,
//! # };
//! let x = Tensor::ones([32, 64], Device::null());
//! let w = Tensor::ones([64, 10], Device::null());
//! let roofline = x.matmul(&w).plan()?.roofline_under(x.device(), peak_throughput);
//! assert!(roofline.kernels.iter().all(|kernel| kernel.bound == Bottleneck::Launch));
//! assert!(roofline.to_string().contains("launch-bound"));
//! # Ok(())
//! # }
//! ```
//!
//! Larger batches help, and so does anything that makes fewer kernels of the
//! same work.
//!
//! # Why do GPUs suit products?
//!
//! A GPU has far more arithmetic than memory bandwidth, so it wins where each
//! byte is used many times. A product of two n x n matrices does 2n^3
//! operations on 3n^2 elements: what it does per byte grows with n. An
//! elementwise operation does one operation per element, however large it is:
//!
//! ```
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! let intensity = |y: &Tensor| Ok::<_, kiln::Error>(y.plan()?.flops() as f64 / y.plan()?.bytes_moved() as f64);
//! let x = Tensor::empty([4096, 4096], Device::meta());
//! assert!(intensity(&(&x + 1.0))? < 0.2);
//! assert!(intensity(&x.matmul(&x))? > 500.0);
//! # Ok(())
//! # }
//! ```
//!
//! # How much faster can my program get?
//!
//! Only the part that moves to the device gets faster. Amdahl's law: if a share
//! `p` of the time becomes `s` times faster, all of it becomes
//! `1 / ((1 - p) + p / s)` times faster, and never more than `1 / (1 - p)`.
//! Measure both parts before you buy a GPU:
//!
//! ```
//! use std::time::Instant;
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! let start = Instant::now();
//! let text: String = (0..20_000).map(|i| format!("{i} ")).collect();
//! let numbers: Vec<f32> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
//! let parsing = start.elapsed().as_secs_f64(); // stays on the host
//!
//! let x = Tensor::from_vec(numbers, [100, 200], ());
//! let start = Instant::now();
//! x.matmul(&x.t()).softmax(-1).realize()?;
//! let computing = start.elapsed().as_secs_f64(); // would move
//!
//! let share = computing / (parsing + computing);
//! let gain = |times: f64| 1.0 / ((1.0 - share) + share / times);
//! assert!(gain(50.0) < gain(f64::INFINITY) && gain(f64::INFINITY) <= 1.0001 / (1.0 - share));
//! # Ok(())
//! # }
//! ```
//!
//! # Will more GPUs help?
//!
//! Ranks that share the data do the same work each, and sum their gradients over a network. The plan of a
//! step knows the kernels, the bytes to send and which kernels hide their way. So it tells what a cluster
//! would do ([`scaling`](crate::plan::scaling)), from figures of its processors and links:
//!
//! ```
//! use kiln::dist::{self, Ddp};
//! use kiln::nn::{Layer, Linear, Relu, Sequential};
//! use kiln::plan::roofline::PeakThroughput;
//! use kiln::plan::scaling::{Link, Network};
//! use kiln::prelude::*;
//! // Two ranks, threads of this process, plan the step; nothing of it runs.
//! let plans = dist::spawn(2, |world| {
//!     let layers = Sequential::new().push(Linear::new(256, 256, ())).push(Relu).push(Linear::new(256, 256, ()));
//!     let model = Ddp::new(layers, &world, ())?;
//!     let loss = model.forward(&Tensor::ones([512, 256], ())).square().mean(..);
//!     loss.backward()?;
//!     loss.plan()
//! })?;
//! let gpu = PeakThroughput {
//!     bytes: 3e12,
//!     flops: 5e13,
//!     elementwise_flops: 3e13,
//!     launches: 2e5,
//!     bytes_from_host: 5e10,
//!     bytes_to_host: 5e10,
//! };
//! let within_a_machine = Link { bytes: 3e11, latency: 3e-6 };
//! let between_machines = Link { bytes: 2.5e10, latency: 1e-5 };
//! let scaling = plans[0].scaling(&Network::of(8, within_a_machine).times(8, between_machines), gpu);
//! let [one, .., all] = &scaling.steps[..] else { panic!("a row for 1, 2, 4 .. 64 ranks") };
//! // So small a model waits for its network most of the time.
//! assert!(one.efficiency() == 1.0 && all.ranks == 64 && all.efficiency() < 0.5, "{scaling}");
//! # Ok::<(), kiln::Error>(())
//! ```
//!
//! Larger batches on each rank, gradients of 16 bits and several batches a step move the balance.
//!
//! # When is a GPU the wrong choice?
//!
//! When the data is small (launches cost more than the work), when it crosses
//! more often than it is used (a bus is ten times slower than either memory),
//! when each step depends on a value that the host must look at, or when the
//! work is not arithmetic on arrays: parsing, hash tables, branches that
//! differ from element to element. The roofline weighs transfers against
//! kernels:
//!
//! ```
//! use kiln::plan::roofline::PeakThroughput;
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! # let peak_throughput = PeakThroughput {
//! #     bytes: 8e11,
//! #     flops: 2e13,
//! #     elementwise_flops: 1e13,
//! #     launches: 2e5,
//! #     bytes_from_host: 1e10,
//! #     bytes_to_host: 1e10,
//! # };
//! let x = Tensor::from_vec(vec![1f32; 1 << 20], [1 << 20], ());
//! let roofline = x.to(Device::null()).exp().plan()?.roofline_under(Device::null(), peak_throughput);
//! let kernels: f64 = roofline.kernels.iter().map(|kernel| kernel.seconds).sum();
//! assert!(roofline.transfers > 10.0 * kernels); // a CPU is done before the data is there
//! # Ok(())
//! # }
//! ```
//!
//! # Where do my transfers come from?
//!
//! From `.to(device)` and nowhere else. The plan lists each with its bytes, its
//! reason and your line, and [`deny_transfers`](crate::deny_transfers) makes
//! one that you did not expect an error:
//!
//! ```
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! let x = Tensor::from_vec(vec![0f32; 1024], [1024], ());
//! let y = x.to(Device::null()).exp();
//! let plan = y.plan()?;
//! assert_eq!(plan.transfers()[0].bytes, 4096);
//! assert!(kiln::deny_transfers(|| y.realize().map(|_| ())).is_err());
//! # Ok(())
//! # }
//! ```
//!
//! # Will my model fit?
//!
//! [`estimate`](crate::estimate()) builds it on the meta device and plans a
//! step of training, in no memory:
//!
//! ```
//! use kiln::nn::{Layer, Linear, Sequential};
//! use kiln::optim::AdamOpts;
//! use kiln::prelude::*;
//! # fn main() -> kiln::Result<()> {
//! let net = || Sequential::new().push(Linear::new(784, 4096, ())).then(Tensor::relu).push(Linear::new(4096, 10, ()));
//! let model = kiln::estimate(net)?;
//! let step = model.training(|net| net.forward(&Tensor::empty([64, 784], ())).logsumexp(-1).mean(..))?;
//! let total = step.peak() + model.optimizer_bytes(&AdamOpts::default());
//! assert!(total < 64 << 20);
//! # Ok(())
//! # }
//! ```
//!
//! If it does not, [`with_budget`](crate::with_budget()) makes plans that compute
//! values again instead of keeping them, and what is too large by itself in
//! chunks, and tells before anything runs if that is not enough. [`checkpoint`](crate::checkpoint()) does the same
//! for the part of a model that you choose.
