//! Eight threads read, realize, overwrite, move, train and drop graphs that overlap. What each tensor is was found
//! by one thread on plain vectors when it was built.
//!
//! `KILN_STRESS` says how many programs run on each device.

use std::sync::{Arc, Mutex};

use kiln::nn::Param;
use kiln::optim::{Optimizer, Sgd, SgdOpts};
use kiln::prelude::*;
use kiln::{Context, DeviceKind, Var, with_context};

#[path = "support/adapter.rs"]
mod adapter;

const THREADS: usize = 8;
/// Tensors that all threads get at.
const SLOTS: usize = 24;

/// A tensor and what it is.
#[derive(Clone)]
struct Known {
    tensor: Tensor,
    values: Vec<f32>,
}

/// Numbers of a seed (xorshift; Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n
    }
}

/// What the threads share on one device.
struct Board {
    device: Device,
    /// Where else tensors may go for a while.
    away: Device,
    extent: usize,
    slots: Vec<Mutex<Known>>,
    param: Param,
    counter: Var,
}

impl Board {
    fn new(device: Device, away: Device, extent: usize) -> Board {
        let slot = |number| Mutex::new(known(device, extent, number));
        let param = Param::new(Tensor::zeros([extent], device).materialize());
        let counter = Var::new(Tensor::zeros([extent], device).materialize());
        Board { device, away, extent, slots: (0..SLOTS).map(slot).collect(), param, counter }
    }

    /// A tensor of the board, which keeps it.
    fn look(&self, random: &mut Random) -> Known {
        self.slots[random.below(SLOTS)].lock().unwrap().clone()
    }

    /// A tensor of the board, in whose place comes a new one.
    fn take(&self, random: &mut Random) -> Known {
        let new = known(self.device, self.extent, random.below(9));
        std::mem::replace(&mut *self.slots[random.below(SLOTS)].lock().unwrap(), new)
    }

    fn put(&self, known: Known, random: &mut Random) {
        let old = std::mem::replace(&mut *self.slots[random.below(SLOTS)].lock().unwrap(), known);
        drop(old);
    }
}

/// Small numbers in memory.
fn known(device: Device, extent: usize, seed: usize) -> Known {
    let values: Vec<f32> = (0..extent).map(|i| ((i * 5 + seed * 3) % 11) as f32 - 5.0).collect();
    let tensor = Tensor::from_vec(values.clone(), [extent], device);
    tensor.realize().expect("memory");
    Known { tensor, values }
}

/// Another tensor made of two; all numbers stay small, so they are exact.
fn combined(a: Known, b: &Known, random: &mut Random) -> Known {
    let each = |f: &dyn Fn(f32, f32) -> f32| -> Vec<f32> {
        a.values.iter().zip(&b.values).map(|(&a, &b)| f(a, b).clamp(-64.0, 64.0)).collect()
    };
    let (tensor, values) = match random.below(5) {
        0 => (&a.tensor + &b.tensor, each(&|a, b| a + b)),
        1 => (&a.tensor - &b.tensor * 2.0, each(&|a, b| a - b * 2.0)),
        2 => (a.tensor.maximum(&b.tensor) + 1.0, each(&|a, b| a.max(b) + 1.0)),
        3 => {
            let reversed = Known { values: b.values.iter().rev().copied().collect(), ..b.clone() };
            let values = a.values.iter().zip(&reversed.values).map(|(a, b)| (a - b).clamp(-64.0, 64.0));
            (&a.tensor - b.tensor.flip(0), values.collect())
        }
        _ => {
            let most = b.values.iter().copied().fold(f32::MIN, f32::max);
            (&a.tensor - b.tensor.max(0), each(&|a, _| a - most))
        }
    };
    Known { tensor: tensor.clamp(-64.0, 64.0), values }
}

fn check(known: &Known, what: &str) {
    assert_eq!(known.tensor.to_vec::<f32>().expect("values"), known.values, "{what}");
}

/// One program; says whether it added to the shared gradient.
fn program(board: &Board, random: &mut Random) -> bool {
    match random.below(8) {
        0 => {
            let (a, b) = (board.look(random), board.look(random));
            board.put(combined(a, &b, random), random);
        }
        1 => check(&board.look(random), "looked at"),
        2 => _ = board.look(random).tensor.realize().expect("memory"),
        3 => {
            // Nobody else may hold what is overwritten, or somebody may: a thread cannot know.
            let (a, b) = (board.take(random), board.take(random));
            check(&combined(a, &b, random), "taken");
        }
        4 => {
            let a = board.look(random);
            let back = a.tensor.to(board.away).to(board.device);
            board.put(Known { tensor: back + 0.0, values: a.values }, random);
        }
        5 => {
            let a = board.look(random);
            (board.param.get() * &a.tensor.detach() * 0.0 + board.param.get())
                .sum(..)
                .backward()
                .expect("a gradient");
            return true;
        }
        6 => trained(&board.look(random), random),
        _ => {
            board.counter.set(board.counter.get() + 1.0).expect("the same type");
            let values = board.counter.get().to_vec::<f32>().expect("values");
            assert!(values.iter().all(|&v| v == values[0]), "torn: {values:?}");
        }
    }
    false
}

/// A few steps of a parameter of the thread's own along a shared tensor.
fn trained(along: &Known, random: &mut Random) {
    let device = along.tensor.device();
    let param = Param::new(Tensor::zeros([along.values.len()], device));
    let mut optimizer = Sgd::new([param.clone()], SgdOpts::default().lr(0.5));
    let steps = 1 + random.below(3);
    for _ in 0..steps {
        optimizer.zero_grad();
        (param.get() * &along.tensor).sum(..).backward().expect("a gradient");
        optimizer.step().expect("a step");
    }
    let expected: Vec<f32> = along.values.iter().map(|v| -0.5 * v * steps as f32).collect();
    assert_eq!(param.get().to_vec::<f32>().expect("values"), expected, "trained");
}

fn stress(context: &Arc<Context>, device: Device, away: Device, programs: usize) {
    for (round, extent) in [7, 300, 5000].into_iter().enumerate() {
        let board = with_context(context, || Board::new(device, away, extent));
        let added = Mutex::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (board, added) = (&board, &added);
                scope.spawn(move || {
                    with_context(context, || {
                        let mut random = Random(0x9e37_79b9 + (thread + THREADS * round) as u64 * 7919);
                        let own = (0..programs / 3 / THREADS).filter(|_| program(board, &mut random)).count();
                        *added.lock().unwrap() += own;
                    });
                });
            }
        });
        with_context(context, || {
            board.slots.iter().for_each(|slot| check(&slot.lock().unwrap(), "left"));
            let count = added.into_inner().unwrap() as f32;
            let sum = board.param.grad().map(|grad| grad.to_vec::<f32>().expect("values"));
            assert!(sum.is_none_or(|sum| sum.iter().all(|&v| v == count)), "gradients are lost");
        });
    }
}

#[test]
fn eight_threads_share_graphs() {
    let context = Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)]);
    let programs = |usual| std::env::var("KILN_STRESS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    stress(&context, Device::cpu(), DeviceKind::Cpu.device(1), programs(6000));
    let gpus =
        adapter::adapter().into_iter().chain((Device::cuda(0).probe().is_ok()).then_some(Device::cuda(0)));
    for device in gpus {
        stress(&context, device, Device::cpu(), programs(600));
    }
}
