//! A long training loop holds the same memory from beginning to end. Alone in
//! its program: the memory of the CPU and of the process are everybody's.

use std::sync::Arc;

use kiln::nn::{Layer, Linear, ModuleExt, Sequential};
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::prelude::*;
use kiln::{Context, Counters, with_context};

/// Runs a training loop; gives the counters and the bytes in use at the end of
/// each of two halves.
fn long_loop(steps: usize) -> [(Counters, u64, u64); 2] {
    let context = Context::new();
    with_context(&context, || {
        kiln::manual_seed(3);
        let model =
            Sequential::new().push(Linear::new(4, 4, ())).then(Tensor::tanh).push(Linear::new(4, 1, ()));
        let mut optimizer = Adam::new(model.parameters(), AdamOpts::default());
        let x = Tensor::linspace(-1.0, 1.0, 32, ()).reshape([8, 4]);
        let mut kept = Tensor::zeros((), ());
        let mut half = |optimizer: &mut Adam| {
            for _ in 0..steps / 2 {
                optimizer.zero_grad();
                let loss = (model.forward(&x) - 0.5).square().mean(..);
                loss.backward().unwrap();
                optimizer.step().unwrap();
                // A running mean of the loss, as programs keep it.
                kept = &kept * 0.9 + loss.detach() * 0.1;
                kept.realize().unwrap();
            }
            (context.counters(), resident(), live(&context))
        };
        [half(&mut optimizer), half(&mut optimizer)]
    })
}

/// Bytes of tensors alive on the CPU.
fn live(context: &Arc<Context>) -> u64 {
    context.memory(Device::cpu()).unwrap().allocated
}

/// Bytes of this process in memory, where the system says.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

#[test]
fn ten_thousand_steps_hold_constant_memory() {
    let [(middle, host, device), (end, host_end, device_end)] = long_loop(10_000);
    assert_eq!(end.plans_built, middle.plans_built);
    assert_eq!(end.kernels_compiled, middle.kernels_compiled);
    // Only the first step, which makes the parameters, launches other kernels.
    assert!(end.kernels_launched.abs_diff(2 * middle.kernels_launched) < 10);
    assert!(device_end <= device + (64 << 10), "{device} bytes of tensors became {device_end}");
    assert!(host_end <= host + (2 << 20), "{host} resident bytes became {host_end}");
}
