//! Ranks that are processes: this program, started again by an MPI launcher.
//!
//! Where no launcher is installed, tests are skipped, unless `KILN_REQUIRE` asks for `mpi`.
#![cfg(all(feature = "mpi", unix))]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;
use std::time::{Duration, Instant};

use kiln::dist::{self, Backend, Ddp, Group, InitOpts, Reduce};
use kiln::nn::{Layer, Linear, ModuleExt, Sequential, Tanh};
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::prelude::*;
use kiln::{Context, Result, manual_seed, with_context};

/// What the child does.
const CHILD: &str = "KILN_MPI_CHILD";

/// The launchers that are installed, each with its library.
fn launchers() -> Vec<(&'static str, &'static str)> {
    let known = [("mpirun.openmpi", "libmpi.so.40"), ("mpirun.mpich", "libmpich.so.12")];
    let is_there = |launcher: &str| Command::new(launcher).arg("--version").output().is_ok();
    let found: Vec<_> = known.into_iter().filter(|(launcher, _)| is_there(launcher)).collect();
    let required = std::env::var("KILN_REQUIRE").is_ok_and(|list| list.split(',').any(|it| it == "mpi"));
    assert!(!required || !found.is_empty(), "KILN_REQUIRE asks for MPI");
    if found.is_empty() {
        println!("skipped: no mpirun");
    }
    found
}

/// What so many ranks print, line by line, sorted, and how long they took.
fn launch(launcher: &str, library: &str, ranks: usize, child: &str) -> (Vec<String>, Duration) {
    let start = Instant::now();
    let mut command = Command::new(launcher);
    if launcher.contains("openmpi") {
        command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
    }
    let program = std::env::current_exe().expect("this program");
    command.args(["-n", &ranks.to_string()]).arg(program).args(["--exact", "child", "--nocapture"]);
    // Ranks beside each other in one machine need no network.
    command.env(CHILD, child).env("KILN_MPI", library).env("KILN_THREADS", "1");
    let output = command.output().expect("a launcher");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines: Vec<String> =
        text.lines().filter_map(|line| Some(line.split_once("rank says ")?.1.to_string())).collect();
    lines.sort();
    if lines.is_empty() {
        println!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    (lines, start.elapsed())
}

/// What a rank does whom a launcher has started: see `launch`.
#[test]
fn child() {
    let Ok(child) = std::env::var(CHILD) else { return };
    let opts = InitOpts::default().timeout(Duration::from_secs(if child == "late" { 1 } else { 60 }));
    let group = match dist::init_with(Backend::Mpi, opts) {
        Ok(group) => group,
        Err(error) => return println!("rank says {}", error.to_string().replace('\n', " ")),
    };
    let rank = group.rank();
    let said = match &child[..] {
        "train" => train(&group).map(|trained| format!("{trained:?}")),
        "late" => late(&group),
        "differ" => differ(&group),
        "meet" => meet(&group),
        other => panic!("no child {other}"),
    };
    let said = said.unwrap_or_else(|error| error.to_string()).replace('\n', " ");
    println!("rank says {rank}: {said}");
    if matches!(&child[..], "late" | "differ") {
        // The launcher ends all once one ends like this.
        std::thread::sleep(Duration::from_secs(2));
    }
}

/// Trains a model. Gives the losses of each step, and a digest of the parameters.
fn train(group: &Group) -> Result<(Vec<u32>, u64)> {
    manual_seed(7 + group.rank() as u64);
    let net = Sequential::new().push(Linear::new(6, 16, ())).push(Tanh).push(Linear::new(16, 3, ()));
    let model = Ddp::new(net, group, ())?;
    let mut optimizer = Adam::new(model.parameters(), AdamOpts::default().lr(0.01));
    let mut losses = Vec::new();
    for step in 0..50 {
        let x = |row: usize, i: usize| ((step * 31 + row * 7 + i * 3) % 17) as f32 / 8.0 - 1.0;
        let rows = group.rank() * 4..group.rank() * 4 + 4;
        let xs = rows.flat_map(|row| (0..6).map(move |i| x(row, i))).collect();
        optimizer.zero_grad();
        let loss = model.forward(&Tensor::from_vec(xs, [4, 6], ())).square().mean(..);
        loss.backward()?;
        optimizer.step()?;
        losses.push(group.all_reduce(&loss.detach(), Reduce::Mean).item::<f32>()?.to_bits());
    }
    let mut hasher = DefaultHasher::new();
    for param in model.parameters() {
        let bits: Vec<u32> = param.get().to_vec::<f32>()?.into_iter().map(f32::to_bits).collect();
        bits.hash(&mut hasher);
    }
    Ok((losses, hasher.finish()))
}

fn late(group: &Group) -> Result<String> {
    if group.rank() == 1 {
        std::thread::sleep(Duration::from_secs(4));
    }
    group.barrier().map(|()| "no error".into())
}

fn differ(group: &Group) -> Result<String> {
    let x = Tensor::zeros([group.rank() + 2], ());
    group.all_reduce(&x, Reduce::Sum).to_vec::<f32>().map(|_| "no error".into())
}

/// Every operation, large ones too.
fn meet(group: &Group) -> Result<String> {
    let (rank, size) = (group.rank(), group.size());
    let large = Tensor::full([1 << 18], (rank + 1) as f32, ());
    let sum = group.all_reduce(&large, Reduce::Sum).to_vec::<f32>()?;
    assert!(sum.iter().all(|&x| x == (size * (size + 1) / 2) as f32));
    let all = group.all_gather(&Tensor::from([rank as i64]), 0).to_vec::<i64>()?;
    group.send(&Tensor::from([rank as f32]), (rank + 1) % size)?;
    let before = group.receive((rank + size - 1) % size, [1], ()).item::<f32>()?;
    let pair = group.subgroup(&[rank / 2 * 2, rank / 2 * 2 + 1])?.expect("a member");
    let of_pair = pair.all_reduce(&Tensor::from([rank as f32]), Reduce::Sum).item::<f32>()?;
    Ok(format!("{all:?} {before} {of_pair} {} local {}", pair.name(), group.local_rank()))
}

#[test]
fn processes_compute_what_threads_compute() {
    for (launcher, library) in launchers() {
        for ranks in [2, 4] {
            let threads = with_context(&Context::new(), || dist::spawn(ranks, |group| train(&group)));
            let threads = threads.expect("ranks");
            let expected: Vec<String> =
                threads.iter().enumerate().map(|(rank, trained)| format!("{rank}: {trained:?}")).collect();
            let (said, _) = launch(launcher, library, ranks, "train");
            assert_eq!(said, expected, "{launcher}");
            assert!(threads.iter().all(|rank| *rank == threads[0]));
        }
    }
}

#[test]
fn all_operations_go_between_processes() {
    for (launcher, library) in launchers() {
        let (said, _) = launch(launcher, library, 4, "meet");
        assert_eq!(said.len(), 4, "{launcher}: {said:?}");
        assert_eq!(said[0], "0: [0, 1, 2, 3] 3 1 world[0, 1] local 0", "{launcher}");
        assert_eq!(said[3], "3: [0, 1, 2, 3] 2 5 world[2, 3] local 3", "{launcher}");
    }
}

#[test]
fn ranks_that_come_apart_are_errors_in_time() {
    for (launcher, library) in launchers() {
        let (said, took) = launch(launcher, library, 2, "late");
        assert!(
            said[0].starts_with("0: barrier on rank 0 of world: rank 1 did not come to barrier"),
            "{said:?}"
        );
        assert!(took < Duration::from_secs(30), "{took:?}");
        let (said, took) = launch(launcher, library, 2, "differ");
        assert_eq!(said.len(), 2, "{said:?}");
        for said in said {
            assert!(said.contains("rank 0 runs all_reduce(sum) f32[2] at"), "{said}");
            assert!(said.contains("rank 1 all_reduce(sum) f32[3] at"), "{said}");
        }
        assert!(took < Duration::from_secs(30), "{took:?}");
    }
}

#[test]
fn the_launcher_of_another_library_is_refused() {
    let [(launcher, _), (_, library)] = launchers()[..] else { return };
    let (said, _) = launch(launcher, library, 2, "meet");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[1].contains("Open MPI's mpirun has started rank 1 of 2, and MPICH"), "{said:?}");
    let (said, _) = launch(launcher, "libnone.so", 2, "meet");
    assert!(said.iter().all(|said| said.contains("libnone.so")) && said.len() == 2, "{said:?}");
}
