//! Collectives from device to device, by NCCL: two ranks with a CUDA device each.
//!
//! Skipped where there are no two devices or no library, unless `KILN_REQUIRE` asks for `nccl`.

use std::time::Duration;

use kiln::dist::{self, CollectiveProblem, Ddp, Group, Reduce, SpawnOpts};
use kiln::nn::{Layer, Linear, ModuleExt, Sequential, Tanh};
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::prelude::*;
use kiln::{Context, Error, Result, manual_seed, with_context, with_device};

/// What two ranks return, each with a device of its own for default; `None` where there are none.
fn try_ranks<R: Send>(body: impl Fn(&Group) -> Result<R> + Sync) -> Option<Result<Vec<R>>> {
    let opts = SpawnOpts::default().timeout(Duration::from_secs(20)).nccl(true);
    let missing = match Device::cuda(1).probe() {
        Ok(()) => dist::spawn_with(1, opts.clone(), |_| Ok(())).err(),
        Err(error) => Some(error),
    };
    if let Some(error) = missing {
        let required = std::env::var("KILN_REQUIRE").is_ok_and(|list| list.split(',').any(|it| it == "nccl"));
        assert!(!required, "KILN_REQUIRE asks for NCCL: {error}");
        println!("skipped: {error}");
        return None;
    }
    let run = |group: Group| with_device(Device::cuda(group.rank() as u16), || body(&group));
    Some(with_context(&Context::new(), || dist::spawn_with(2, opts, run)))
}

#[track_caller]
fn ranks<R: Send>(body: impl Fn(&Group) -> Result<R> + Sync) -> Option<Vec<R>> {
    try_ranks(body).map(|ranks| ranks.expect("ranks"))
}

/// Every operation on a tensor that differs from rank to rank, of a type.
fn operations(group: &Group, dtype: DType, device: Device) -> Result<Vec<Vec<f64>>> {
    let x = Tensor::from([[1.0f32, -2.0, 3.0, 0.5], [0.25, 4.0, -1.0, 2.0]]).to(device);
    let x = (x * (group.rank() * 2 + 1) as f32).to_dtype(dtype).realize()?.clone();
    let mut results = vec![
        group.all_reduce(&x, Reduce::Sum),
        group.all_reduce(&x, Reduce::Product),
        group.all_reduce(&x, Reduce::Max),
        group.all_gather(&x, 0),
        group.all_gather(&x, 1),
        group.reduce_scatter(&x, 1, Reduce::Sum),
        group.broadcast(&x, 1),
        group.all_to_all(&x, 0),
        // Neither dense nor at the start of its memory.
        group.all_reduce(&x.t().narrow(0, 1, 3), Reduce::Sum),
    ];
    if dtype.is_float() {
        results.push(group.all_reduce(&x, Reduce::Mean));
        results.push(group.reduce_scatter(&x, 0, Reduce::Mean));
    }
    results.iter().map(|result| result.to_dtype(DType::F64).to(Device::cpu()).to_vec()).collect()
}

#[test]
fn devices_compute_what_the_host_does() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I64, DType::I32] {
        let Some(found) = ranks(|group| operations(group, dtype, Device::cuda(group.rank() as u16))) else {
            return;
        };
        let expected = with_context(&Context::new(), || {
            dist::spawn(2, |group| operations(&group, dtype, Device::cpu()))
        });
        // Of two ranks no order of sums is another.
        assert_eq!(found, expected.expect("ranks"), "{dtype}");
    }
}

#[test]
fn data_do_not_pass_the_host() {
    ranks(|group| {
        let x = Tensor::full([1 << 16], (group.rank() + 1) as f32, ()).realize()?.clone();
        group.all_reduce(&x, Reduce::Sum).realize()?;
        let before = kiln::context().counters().host_waits;
        let sum = group.all_reduce(&x, Reduce::Sum);
        let gathered = group.all_gather(&x, 0);
        kiln::realize(&[&sum, &gathered])?;
        let waits = kiln::context().counters().host_waits - before;
        group.barrier()?;
        assert_eq!(waits, 0);
        assert_eq!(sum.max(..).item::<f32>()?, 3.0);
        Ok(())
    });
}

#[test]
fn what_comes_next_does_not_disturb_what_is_on_its_way() {
    let found = ranks(|group| {
        let x = Tensor::full([1000], (group.rank() + 1) as f32, ());
        // The operands' memory is free at once, and taken by what follows.
        let mut sums = Vec::new();
        let mut own = &x * 2.0;
        for step in 0..6 {
            sums.push(group.all_reduce(&(&own + step as f32), Reduce::Sum));
            own = (&own * 0.5).sin();
        }
        let all = sums.iter().skip(1).fold(sums[0].clone(), |all, sum| all + sum) + own;
        all.narrow(0, 0, 3).to_vec::<f32>()
    });
    let Some(found) = found else { return };
    let own = |rank: usize| {
        let start = (rank + 1) as f32 * 2.0;
        std::iter::successors(Some(start), |x| Some((x * 0.5).sin())).take(7).collect::<Vec<f32>>()
    };
    let [first, second] = [own(0), own(1)];
    for (rank, (found, last)) in found.iter().zip([first[6], second[6]]).enumerate() {
        let expected: f32 =
            (0..6).map(|step| first[step] + second[step] + 2.0 * step as f32).sum::<f32>() + last;
        assert!(!found.iter().any(|x| !((x - expected).abs() <= 1e-4)), "rank {rank}: {found:?}, {expected}");
    }
}

/// The losses of some steps, and the parameters after them.
fn train(group: &Group, device: Device) -> Result<(Vec<f32>, Vec<f32>)> {
    with_device(device, || {
        manual_seed(7 + group.rank() as u64);
        let net = Sequential::new().push(Linear::new(6, 16, ())).push(Tanh).push(Linear::new(16, 3, ()));
        let model = Ddp::new(net, group, ())?;
        let mut optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(0.01));
        let mut losses = Vec::new();
        for step in 0..8 {
            let x = |i: usize| ((step * 31 + group.rank() * 28 + i * 3) % 17) as f32 / 8.0 - 1.0;
            optimizer.zero_grad();
            let xs = Tensor::from_vec((0..24).map(x).collect(), [4, 6], ());
            let loss = model.forward(&xs).square().mean(..);
            loss.backward()?;
            optimizer.step()?;
            losses.push(group.all_reduce(&loss.detach(), Reduce::Mean).item()?);
        }
        let parameters = model.parameters().into_iter().map(|p| p.get().to_vec::<f32>());
        Ok((losses, parameters.collect::<Result<Vec<_>>>()?.concat()))
    })
}

#[test]
fn a_model_trains_as_on_the_host() {
    let Some(found) = ranks(|group| train(group, Device::cuda(group.rank() as u16))) else { return };
    assert_eq!(found[0], found[1]);
    let host = with_context(&Context::new(), || dist::spawn(2, |group| train(&group, Device::cpu())));
    let host = host.expect("ranks");
    for (found, host) in [(&found[0].0, &host[0].0), (&found[0].1, &host[0].1)] {
        assert!(found.iter().zip(host).all(|(a, b)| (a - b).abs() <= 1e-5), "{found:?}\n{host:?}");
    }
}

#[test]
fn groups_of_some_ranks_meet_apart() {
    let Some(found) = ranks(|group| {
        let own = group.subgroup(&[group.rank()])?.expect("a member");
        let other = group.subgroup(&[1, 0])?.expect("a member");
        let x = Tensor::full([5], (group.rank() + 1) as f32, ());
        let alone = own.all_reduce(&x, Reduce::Sum);
        let turned = other.all_gather(&x, 0);
        kiln::realize(&[&alone, &turned])?;
        Ok([alone.max(..).item::<f32>()?, turned.narrow(0, 0, 1).item::<f32>()?])
    }) else {
        return;
    };
    assert_eq!(found, [[1.0, 2.0], [2.0, 2.0]]);
}

#[test]
fn ranks_that_differ_are_errors_before_the_library_hears_of_it() {
    let shapes =
        |group: &Group| group.all_reduce(&Tensor::ones([group.rank() + 2], ()), Reduce::Sum).to_vec::<f32>();
    let Some(error) = try_ranks(shapes) else { return };
    let Err(Error::Collective(error)) = error else { panic!("{error:?}") };
    assert!(
        matches!(&error.problem, CollectiveProblem::Differ { one, .. } if one.1.contains("f32[2]")),
        "{error}"
    );

    // The host's memory on one rank, a device's on the other.
    let devices = |group: &Group| {
        let device = if group.rank() == 0 { Device::cpu() } else { Device::cuda(1) };
        group.all_reduce(&Tensor::ones([2], device), Reduce::Sum).to_vec::<f32>()
    };
    let Some(Err(Error::Collective(error))) = try_ranks(devices) else { panic!("no error") };
    let text = error.to_string();
    assert!(text.contains("rank 1 all_reduce(sum) f32[2] between devices"), "{text}");
}
