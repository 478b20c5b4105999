//! Memory of parameters and state.

use super::*;
use crate::dist;
use crate::nn::{Layer, Linear, ModuleExt, Sequential};
use crate::optim::{Adam, AdamOpts};
use crate::plan::context::{Context, with_context};
use crate::plan::report::report;

#[test]
fn parameters_and_state_are_written_over_the_old_ones() {
    with_context(&Context::new(), || {
        let model =
            Sequential::new().push(Linear::new(24, 32, ())).then(Tensor::relu).push(Linear::new(32, 8, ()));
        let mut optimizer = Adam::new(model.parameters(), AdamOpts::default());
        let x = Tensor::linspace(-1.0, 1.0, 16 * 24, ()).reshape([16, 24]);
        x.realize().unwrap();
        for step in 0..3 {
            optimizer.zero_grad();
            let loss = model.forward(&x).square().mean(..);
            loss.backward().unwrap();
            let (targets, mut advance) = optimizer.advance(CallSite::here("step"), None).unwrap();
            advance.begin().unwrap();
            let report = report(&targets, Span::caller()).expect("no budget");
            assert!(report.kernels.iter().all(|kernel| !kernel.at.file().contains("adam.rs")), "{report}");
            if step > 0 {
                // New memory: the gradients and the loss.
                let bytes = 4 * (model.num_params() + 1) as u64;
                assert_eq!(report.memory[0].results, bytes, "{report}");
            }
            plan::realize(&targets, Span::caller()).unwrap();
        }
    });
}

#[test]
fn steps_take_over_the_memory_of_parameters() {
    with_context(&Context::new(), || {
        let model = Sequential::new().push(Linear::new(24, 32, ())).push(Linear::new(32, 8, ()));
        let mut optimizer = Adam::new(model.parameters(), AdamOpts::default());
        let x = Tensor::linspace(-1.0, 1.0, 16 * 24, ()).reshape([16, 24]);
        x.realize().unwrap();
        let mut memory = Vec::new();
        for _ in 0..4 {
            optimizer.zero_grad();
            model.forward(&x).square().mean(..).backward().unwrap();
            optimizer.step().unwrap();
            let weight = model.parameters()[0].get();
            let value = weight.node().unwrap().value().expect("a step computes what cells hold").clone();
            memory.push(Arc::as_ptr(&value.buffer));
        }
        // The first step packs them.
        assert!(memory[1..].iter().all(|buffer| *buffer == memory[1]), "{memory:?}");
    });
}

#[test]
fn each_rank_remembers_a_part() {
    let held = dist::spawn(3, |group| {
        let model = Sequential::new().push(Linear::new(24, 32, ())).push(Linear::new(32, 16, ()));
        let model = dist::Ddp::new(model, &group, ())?;
        let mut optimizer = Adam::new(model.parameters(), AdamOpts::default()).divided_among(&group);
        for _ in 0..2 {
            optimizer.zero_grad();
            model.forward(&Tensor::ones([3, 24], ())).square().mean(..).backward()?;
            optimizer.step()?;
        }
        // Not among ranks in another order: what others remember is not here.
        let others = group.subgroup(&[2, 1, 0])?.expect("every rank is in it");
        let optimizer = optimizer.divided_among(&others);
        Ok(optimizer.groups[0].slots.iter().map(|slot| slot.state.len()).collect::<Vec<usize>>())
    });
    // The weights to two ranks, both biases to the third: 768, 512, 32 and 16 numbers.
    assert_eq!(held.unwrap(), [[2, 0, 0, 0], [0, 0, 2, 0], [0, 2, 0, 2]]);
}
