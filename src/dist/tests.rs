//! Threads as ranks: what they compute together, and that none waits for ever.

use std::time::{Duration, Instant};

use crate::base::{CollectiveProblem, DType, Device, Error, Result, Span};
use crate::dist::endpoint::Endpoint;
use crate::dist::post::World;
use crate::dist::{Group, Reduce, SpawnOpts, spawn, spawn_with};
use crate::ir::Type;
use crate::ir::collective::{Channel, CollectiveKind};

fn floats(values: &[f32]) -> (Type, Vec<u8>) {
    (Type::new([values.len()], DType::F32, Device::cpu()), bytemuck::cast_slice(values).to_vec())
}

/// What each rank gets of a collective of its values.
fn results(ranks: usize, kind: CollectiveKind, values: impl Fn(usize) -> Vec<f32> + Sync) -> Vec<Vec<f32>> {
    let world = World::new(Duration::from_secs(60));
    let run = |rank: usize| {
        let endpoint = Endpoint::new(std::sync::Arc::new(world.endpoint(rank, ranks)), false);
        let (ty, bytes) = floats(&values(rank));
        let result = endpoint.run(kind, &ty, Span::caller(), &bytes).expect("a result");
        bytemuck::pod_collect_to_vec(&result)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || run(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

#[test]
fn collectives_give_what_their_names_say() {
    let values = |rank: usize| (0..4).map(|i| (10 * rank + i) as f32).collect::<Vec<f32>>();
    let ranks = |kind| results(2, kind, values);
    assert_eq!(ranks(CollectiveKind::AllReduce(Reduce::Sum)), vec![[10.0, 12.0, 14.0, 16.0]; 2]);
    assert_eq!(ranks(CollectiveKind::AllReduce(Reduce::Mean)), vec![[5.0, 6.0, 7.0, 8.0]; 2]);
    assert_eq!(ranks(CollectiveKind::ReduceScatter(Reduce::Sum)), [[10.0, 12.0], [14.0, 16.0]]);
    let gathered = vec![[0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]; 2];
    assert_eq!(ranks(CollectiveKind::AllGather), gathered);
    assert_eq!(ranks(CollectiveKind::AllToAll), [[0.0, 1.0, 10.0, 11.0], [2.0, 3.0, 12.0, 13.0]]);
    assert_eq!(ranks(CollectiveKind::Broadcast { root: 1 }), vec![[10.0, 11.0, 12.0, 13.0]; 2]);
}

#[test]
fn large_sums_are_the_same_bits_on_every_rank() {
    // More than one part takes, and not divisible by the ranks.
    let count = (1 << 17) + 5;
    let value = |rank: usize, i: usize| ((i * 7 + rank * 13) % 101) as f32 / 3.0 - 11.0;
    let found = results(3, CollectiveKind::AllReduce(Reduce::Sum), |rank| {
        (0..count).map(|i| value(rank, i)).collect()
    });
    let expected: Vec<f32> = (0..count).map(|i| value(0, i) + value(1, i) + value(2, i)).collect();
    assert!(found.iter().all(|rank| *rank == expected));
}

/// What each of three ranks says, and how long all of them took.
fn failures(
    timeout: Duration,
    body: impl Fn(&Group) -> Result<()> + Sync,
) -> (Vec<CollectiveProblem>, Duration) {
    let start = Instant::now();
    let said = spawn_with(3, SpawnOpts::default().timeout(timeout), |group| {
        let problem = |error| match error {
            Error::Collective(error) => error.problem.clone(),
            other => panic!("{other}"),
        };
        Ok(body(&group).err().map(problem))
    });
    (said.expect("ranks").into_iter().flatten().collect(), start.elapsed())
}

#[test]
fn a_late_rank_is_named_on_all_ranks() {
    let timeout = Duration::from_millis(100);
    let (problems, took) = failures(timeout, |group| {
        if group.rank() == 2 {
            std::thread::sleep(4 * timeout);
        }
        group.barrier()
    });
    assert_eq!(problems.len(), 3);
    for problem in problems {
        let CollectiveProblem::Late { missing, operation, after } = problem else { panic!("{problem:?}") };
        assert_eq!((missing, after), (vec![2], timeout));
        assert!(operation.starts_with("barrier at src/dist/tests.rs:"), "{operation}");
    }
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_rank_that_has_ended_is_not_waited_for() {
    let (problems, took) = failures(Duration::from_secs(600), |group| {
        group.barrier()?;
        if group.rank() == 1 { Ok(()) } else { group.barrier() }
    });
    assert_eq!(problems.len(), 2);
    assert!(problems.iter().all(|p| matches!(p, CollectiveProblem::Gone { missing, .. } if *missing == [1])));
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
fn ranks_that_differ_learn_how() {
    let shape = |rank: usize| if rank == 2 { vec![1.0; 5] } else { vec![1.0; 4] };
    let (problems, _) = failures(Duration::from_secs(600), |group| {
        let (ty, bytes) = floats(&shape(group.rank()));
        let sum = CollectiveKind::AllReduce(Reduce::Sum);
        group.channel().run(sum, &ty, Span::caller(), &bytes).map(drop)
    });
    assert_eq!(problems.len(), 3);
    for problem in problems {
        let CollectiveProblem::Differ { one, other } = problem else { panic!("{problem:?}") };
        assert!(one.1.starts_with("all_reduce(sum) f32[4]") && one.0 < 2, "{one:?}");
        assert!(other.1.starts_with("all_reduce(sum) f32[5]") && other.0 == 2, "{other:?}");
    }
}

#[test]
fn what_has_failed_fails_again() {
    let (problems, _) = failures(Duration::from_millis(50), |group| {
        if group.rank() == 0 {
            std::thread::sleep(Duration::from_millis(200));
        }
        let _late = group.barrier();
        group.barrier()
    });
    assert!(problems.len() == 3 && problems.iter().all(|p| matches!(p, CollectiveProblem::Late { .. })));
}

#[test]
fn a_panic_of_a_rank_goes_on_in_the_caller_and_ends_the_others() {
    let panicked = std::panic::catch_unwind(|| {
        spawn(2, |group| {
            assert_eq!(group.rank(), 0, "rank 1 stops here");
            group.barrier()
        })
    });
    let text = panicked.expect_err("a panic");
    assert!(text.downcast_ref::<String>().expect("a text").contains("rank 1 stops here"));
}

#[test]
fn the_first_cause_is_given() {
    let failed = spawn(3, |group| match group.rank() {
        1 => Err(Error::Argument {
            call: "load",
            expected: "a file".into(),
            found: "none".into(),
            span: Span::caller(),
        }),
        _ => group.barrier(),
    });
    assert!(failed.unwrap_err().to_string().starts_with("load: expected a file"));
    assert!(spawn(0, |_| Ok(())).is_err());
}

#[test]
fn groups_of_some_ranks_do_not_meet_the_others() {
    let names = spawn(4, |world| {
        let pairs: Vec<Group> = [[0, 1], [2, 3], [3, 0]]
            .iter()
            .filter_map(|pair| world.subgroup(pair).transpose())
            .collect::<Result<_>>()?;
        // The same ranks again are another group.
        let again = world.subgroup(&[world.rank()])?.expect("this rank");
        again.barrier()?;
        pairs.iter().try_for_each(|pair| pair.barrier())?;
        for wrong in [&[][..], &[4], &[0, 0]] {
            assert!(world.subgroup(wrong).is_err());
        }
        Ok(pairs.iter().map(|pair| (pair.name().to_string(), pair.rank())).collect::<Vec<_>>())
    });
    assert_eq!(names.expect("ranks")[3], [("world[2, 3]".to_string(), 1), ("world[3, 0]".to_string(), 0)]);
}
