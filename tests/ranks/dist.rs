//! Several ranks: collectives in the graph, their gradients and order, and what goes wrong between ranks.

use std::time::Duration;

use kiln::dist::{self, CollectiveProblem, Group, Reduce, SpawnOpts};
use kiln::prelude::*;
use kiln::unstable::ir::oracle::Data;
use kiln::{Context, Error, Result, with_context};

/// What each rank returns, in a context of their own.
#[track_caller]
fn ranks<R: Send>(count: usize, body: impl Fn(&Group) -> Result<R> + Sync) -> Vec<R> {
    let opts = SpawnOpts::default().timeout(Duration::from_secs(60));
    with_context(&Context::new(), || dist::spawn_with(count, opts, |group| body(&group))).expect("ranks")
}

/// A tensor that differs from rank to rank.
fn own(group: &Group) -> Tensor {
    Tensor::from([[1.0f32, -2.0, 3.0, 0.5], [0.25, 4.0, -1.0, 2.0]]) * (group.rank() + 1) as f32
}

#[test]
fn a_collective_runs_once_whoever_asks_for_it() {
    let runs = || kiln::context().counters().collectives;
    ranks(2, |group| {
        let sum = group.all_reduce(&own(group), Reduce::Sum);
        let (doubled, halved) = (&sum * 2.0, &sum / 2.0);
        let doubled = doubled.to_vec::<f32>()?;
        drop(sum);
        group.barrier()?;
        let before = runs();
        // Nobody held the sum but a tensor that is computed only now.
        let halved = halved.to_vec::<f32>()?;
        assert_eq!(doubled[0], 4.0 * halved[0]);
        group.barrier()?;
        assert_eq!(runs(), before);
        Ok(())
    });
}

#[test]
fn ranks_may_read_in_different_orders() {
    let found = ranks(3, |group| {
        let x = own(group);
        let parts = [
            group.all_reduce(&x, Reduce::Sum),
            group.all_gather(&x, 0).narrow(0, 0, 2),
            group.broadcast(&x, 2),
        ];
        let mut read: Vec<Vec<f32>> = vec![Vec::new(); 3];
        for step in 0..3 {
            let which = (step + group.rank()) % 3;
            read[which] = parts[which].to_vec()?;
        }
        Ok(read)
    });
    assert!(found.iter().all(|read| *read == found[0]));
    assert_eq!(found[0][0][0], 6.0);
    assert_eq!(found[0][2][1], -6.0);
}

#[test]
fn plans_are_shared_between_steps_and_list_what_ranks_do() {
    ranks(2, |group| {
        for step in 0..4 {
            let x = own(group) + step as f32;
            let mean = group.all_reduce(&(&x * &x), Reduce::Mean);
            let report = kiln::plan(&[&(&mean + 1.0)])?;
            let [one] = &report.collectives[..] else { panic!("{report}") };
            assert_eq!(
                (&one.name[..], &one.group[..], one.ranks, one.bytes),
                ("all_reduce(mean)", "world", 2, 32)
            );
            assert!(one.at.file().ends_with("dist.rs"));
            assert!(
                report.to_string().contains("all_reduce(mean) among 2 ranks of world: 32 B at"),
                "{report}"
            );
            (&mean + 1.0).to_vec::<f32>()?;
        }
        group.barrier()?;
        // Both ranks may have planned the first two of them.
        let counters = kiln::context().counters();
        assert!(counters.plans_built + counters.plans_resized <= 4, "{counters:?}");
        Ok(())
    });
}

/// The gradient of a rank's operand by differences: of the sum of all ranks' weighted results.
fn agrees(count: usize, f: impl Fn(&Group, &Tensor) -> Tensor + Sync) {
    let losses = |moved: Option<(usize, usize, f64)>| -> f64 {
        let losses = ranks(count, |group| {
            let mut x: Vec<f64> = own(group).to_vec::<f32>()?.into_iter().map(f64::from).collect();
            if let Some((rank, element, by)) = moved {
                x[element] += if rank == group.rank() { by } else { 0.0 };
            }
            let y = f(group, &Tensor::from_vec(x, [2, 4], ()));
            weighted(group, &y).item::<f64>()
        });
        losses.iter().sum()
    };
    let gradients = ranks(count, |group| {
        let x = own(group).to_dtype(DType::F64).with_requires_grad();
        weighted(group, &f(group, &x)).backward()?;
        x.grad().expect("a gradient").to_vec::<f64>()
    });
    for (rank, gradient) in gradients.iter().enumerate() {
        for element in [0, 3, 6] {
            let step = 1e-4;
            let [above, below] = [step, -step].map(|by| losses(Some((rank, element, by))));
            let (slope, found) = ((above - below) / (2.0 * step), gradient[element]);
            assert!((slope - found).abs() < 1e-6 * (1.0 + slope.abs()), "rank {rank}: {found}, not {slope}");
        }
    }
}

/// A sum with other weights on each rank.
fn weighted(group: &Group, y: &Tensor) -> Tensor {
    let weights = Tensor::arange(0, y.numel() as i64, 1, DType::F64).reshape(y.shape()) + group.rank() as f64;
    (y * weights).sum(..)
}

#[test]
fn gradients_agree_with_differences() {
    for reduce in [Reduce::Sum, Reduce::Mean, Reduce::Min, Reduce::Max, Reduce::Product] {
        agrees(2, |group, x| group.all_reduce(x, reduce).square());
        agrees(2, |group, x| group.reduce_scatter(x, 1, reduce));
    }
    agrees(3, |group, x| group.all_gather(x, 1).square());
    agrees(2, |group, x| group.all_to_all(x, 0).square());
    agrees(2, |group, x| group.broadcast(x, 1).square());
}

#[test]
fn sixteen_bit_floats_and_integers_pass() {
    let found = ranks(2, |group| {
        let x = Tensor::from([1.0f32, 2.0]).to_dtype(DType::BF16) * (group.rank() + 1) as f32;
        let i = Tensor::from([3i64, -4]) * (group.rank() as i64 + 1);
        let flag = Tensor::from([group.rank() == 1, false]);
        let sum = group.all_reduce(&x, Reduce::Sum);
        assert_eq!(sum.dtype(), DType::BF16);
        let all = (
            sum.to_dtype(DType::F32).to_vec::<f32>()?,
            group.all_reduce(&i, Reduce::Product).to_vec::<i64>()?,
            group.all_reduce(&flag, Reduce::Max).to_vec::<bool>()?,
            group.all_reduce(&Tensor::zeros([0, 3], ()), Reduce::Sum).to_vec::<f32>()?,
        );
        Ok(all)
    });
    assert_eq!(found[1], (vec![3.0, 6.0], vec![18, 32], vec![true, false], vec![]));
    assert_eq!(found[0], found[1]);
}

#[test]
fn the_oracle_meets_the_other_ranks_oracles() {
    ranks(2, |group| {
        let y = group.all_reduce(&own(group), Reduce::Product) + 1.0;
        let expected = Tensor::oracle(&[&y])?.remove(0);
        // The oracle has left nothing computed.
        let found: Vec<f64> = y.to_vec::<f32>()?.into_iter().map(f64::from).collect();
        assert_eq!(expected.data, Data::Float(found));
        Ok(())
    });
}

#[test]
fn ranks_of_other_shapes_are_an_error_on_all_of_them() {
    let said = ranks(2, |group| {
        let x = Tensor::zeros([group.rank() + 2], ());
        let y = group.all_reduce(&x, Reduce::Sum) + 1.0;
        let first = y.to_vec::<f32>().unwrap_err();
        // And stays one.
        let again = group.barrier().unwrap_err();
        Ok((first, again))
    });
    for (first, again) in said {
        let Error::Collective(error) = &first else { panic!("{first}") };
        assert!(error.span.file().ends_with("dist.rs"));
        assert!(matches!(&error.problem, CollectiveProblem::Differ { .. }));
        assert!(first.to_string().contains("rank 0 runs all_reduce(sum) f32[2] at"), "{first}");
        assert!(again.to_string().contains("rank 1 all_reduce(sum) f32[3] at"), "{again}");
    }
}

#[test]
fn a_failed_step_changes_no_parameter() {
    let said = ranks(2, |group| {
        let w = Var::new(Tensor::from([1.0f32, 2.0]).with_requires_grad());
        let before = w.get().to_vec::<f32>()?;
        let operand = if group.rank() == 0 { w.get() } else { w.get().to_dtype(DType::F64) };
        let gradient = group.all_reduce(&operand.detach(), Reduce::Sum).to_dtype(DType::F32);
        w.set(w.get() - gradient)?;
        assert!(w.get().to_vec::<f32>().is_err());
        Ok((before, w.get().to_vec::<f32>()))
    });
    for (before, after) in said {
        // What cannot be computed is given up.
        assert_eq!(after.expect("the value before"), before);
    }
}

/// The update that has all it needs would overwrite its parameter before the other's exchange fails.
#[test]
fn a_step_of_which_a_part_fails_changes_no_parameter_either() {
    let said = ranks(2, |group| {
        let [first, second] = [1.0f32, 5.0].map(|x| Var::new(Tensor::full([64], x, ())));
        kiln::realize(&[&first.get(), &second.get()])?;
        let other = if group.rank() == 0 { second.get() } else { second.get().to_dtype(DType::F64) };
        let sum = |x: &Tensor| group.all_reduce(x, Reduce::Sum).to_dtype(DType::F32);
        let gradients = [sum(&first.get()), sum(&other)];
        first.set(first.get() - &gradients[0])?;
        second.set(second.get() - &gradients[1])?;
        drop((gradients, other));
        assert!(kiln::realize(&[&first.get(), &second.get()]).is_err());
        Ok([first.get().to_vec::<f32>(), second.get().to_vec::<f32>()])
    });
    for [first, second] in said {
        assert_eq!(first.expect("the value before"), [1.0; 64]);
        assert_eq!(second.expect("the value before"), [5.0; 64]);
    }
}

#[test]
fn two_groups_of_one_rank_share_an_order() {
    let found = ranks(4, |world| {
        let rank = world.rank();
        let row = world.subgroup(&[rank / 2 * 2, rank / 2 * 2 + 1])?.expect("a member");
        let column = world.subgroup(&[rank % 2, rank % 2 + 2])?.expect("a member");
        let x = Tensor::from([(rank + 1) as f32]);
        let (a, b) = (row.all_reduce(&x, Reduce::Sum), column.all_reduce(&x, Reduce::Sum));
        // Each rank begins with another one.
        let (a, b) = if rank == 0 || rank == 3 {
            let a = a.item::<f32>()?;
            (a, b.item::<f32>()?)
        } else {
            let b = b.item::<f32>()?;
            (a.item::<f32>()?, b)
        };
        Ok([a, b])
    });
    assert_eq!(found, [[3.0, 4.0], [3.0, 6.0], [7.0, 4.0], [7.0, 6.0]]);
}

#[test]
fn steps_of_a_model_are_planned_for_all_ranks_at_once() {
    let context = Context::new();
    let step = |group: &Group| -> Result<f32> {
        let w = Tensor::ones([4, 4], ()).with_requires_grad();
        let y = own(group).matmul(&w).tanh().sum(..);
        y.backward()?;
        let gradient = w.grad().expect("a gradient");
        (group.all_reduce(&gradient, Reduce::Mean) * 0.5).sum(..).item::<f32>()
    };
    let alone = with_context(&context, || dist::spawn(1, |group| step(&group))).expect("a rank");
    let before = context.counters();
    let again = with_context(&context, || dist::spawn(1, |group| step(&group))).expect("a rank");
    // The plan refers to no group: another one runs it.
    assert_eq!(context.counters().plans_built, before.plans_built);
    assert_eq!(alone, again);
}

#[test]
fn what_needs_no_result_runs_meanwhile() {
    let found = ranks(2, |group| {
        let x = own(group);
        let sum = group.all_reduce(&x, Reduce::Sum);
        // Products that nothing fuses with.
        let y = x.t().matmul(&x).tanh().matmul(&x.t()).matmul(&x).sum(..);
        let z = (&sum * 2.0).sum(..);
        let report = kiln::plan(&[&y, &z])?;
        let overlapped = report.collectives[0].overlapped;
        kiln::realize(&[&y, &z])?;
        Ok((overlapped, z.item::<f32>()?))
    });
    assert!(found[0].0 > 0, "{found:?}");
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0].1, 2.0 * 3.0 * 7.75);
}

#[test]
fn axes_of_a_mesh_are_groups() {
    ranks(6, |world| {
        let mesh = dist::Mesh::new(world, &[("data", 3), ("model", 2)])?;
        let place = |axis: &str| mesh.group(axis).map(Group::rank);
        assert_eq!((place("data")?, place("model")?), (world.rank() / 2, world.rank() % 2));
        assert_eq!(mesh.group("data")?.size(), 3);
        let wrong = [&[("data", 4)][..], &[("a", 2), ("a", 3)], &[]].map(|axes| dist::Mesh::new(world, axes));
        assert!(wrong.iter().all(Result::is_err));
        let unknown = mesh.group("pipeline").unwrap_err().to_string();
        assert!(unknown.contains("expected one of the axes data, model, found pipeline"), "{unknown}");
        mesh.group("data")?.barrier()
    });
}

#[test]
fn a_checkpoint_meets_the_other_ranks_again() {
    let run = |checkpointed: bool| {
        ranks(2, |group| {
            let w = own(group).with_requires_grad();
            let block = |x: &Tensor| group.all_reduce(&x.tanh(), Reduce::Mean).square();
            let first = if checkpointed { kiln::checkpoint(block, &w) } else { block(&w) };
            let second = if checkpointed { kiln::checkpoint(block, &first) } else { block(&first) };
            let before = kiln::context().counters().collectives;
            second.sum(..).backward()?;
            let gradient = w.grad().expect("a gradient").to_vec::<f32>()?;
            group.barrier()?;
            Ok((gradient, kiln::context().counters().collectives - before))
        })
    };
    let (kept, again) = (run(false), run(true));
    for (kept, again) in kept.iter().zip(&again) {
        let close = kept.0.iter().zip(&again.0).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close, "{kept:?} and {again:?}");
    }
    // Forward and backward of two blocks on two ranks; then forward once more.
    assert_eq!((kept[0].1.max(kept[1].1), again[0].1.max(again[1].1)), (8, 12));
}

#[test]
fn ranks_have_devices_of_their_own() {
    let context = Context::with_virtual_devices(&[(DeviceKind::Cpu, 2)]);
    let found = with_context(&context, || {
        dist::spawn(2, |group| {
            let device = DeviceKind::Cpu.device(group.local_rank() as u16);
            let x = Tensor::full([3], (group.rank() + 1) as f32, device);
            let sum = group.all_reduce(&x, Reduce::Sum);
            assert_eq!(sum.device(), device);
            sum.to_vec::<f32>()
        })
    });
    assert_eq!(found.expect("ranks"), vec![[3.0; 3]; 2]);
}

#[test]
fn ranks_save_one_state_together_or_leave_the_old_one() {
    let folder = std::env::temp_dir().join(format!("kiln-dist-parts-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model.safetensors");
    // What each rank is told.
    let save = |count: usize, value: f32, same_name: bool| {
        ranks(count, |group| {
            let mut state = kiln::StateDict::new();
            // Each has its own part; that of the last rank is empty.
            if group.rank() + 1 < count {
                let part = group.rank() * usize::from(!same_name);
                let own = Tensor::full([3], value + group.rank() as f32, ());
                state.insert(format!("part.{part}"), &own)?;
            }
            Ok(group.save_sharded(&state, &path).map_err(|error| error.to_string()))
        })
    };
    let read = || {
        let state = kiln::StateDict::open(folder.join("model.safetensors.index.json")).unwrap();
        let first = |(_, x): (&str, &Tensor)| x.to_vec::<f32>().unwrap()[0];
        state.iter().map(first).collect::<Vec<f32>>()
    };
    let files = || std::fs::read_dir(&folder).unwrap().count();
    assert!(save(4, 1.0, false).iter().all(Result::is_ok));
    assert_eq!(read(), [1.0, 2.0, 3.0]);
    assert!(save(3, 10.0, false).iter().all(Result::is_ok));
    assert_eq!(read(), [10.0, 11.0]);
    let before = files();
    for told in save(3, 20.0, true) {
        let error = told.unwrap_err();
        assert!(error.contains("part.0 on two ranks"), "{error}");
    }
    assert_eq!((read(), files()), (vec![10.0, 11.0], before), "the old state");
    // A folder that is not there, which rank 0 finds first and tells the others.
    let nowhere = folder.join("nowhere/model.safetensors");
    let told =
        ranks(2, |group| Ok(group.save_sharded(&kiln::StateDict::new(), &nowhere).unwrap_err().to_string()));
    assert!(told[1].contains("rank 0 could not save") && told[1].contains("tests/ranks/dist.rs"), "{told:?}");
    std::fs::remove_dir_all(folder).unwrap();
}
