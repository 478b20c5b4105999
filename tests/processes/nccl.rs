//! Ranks as processes whose data go from device to device.
//!
//! Skipped where there are no two CUDA devices or no NCCL, unless `KILN_REQUIRE` asks for `nccl`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kiln::dist::{self, Group, Reduce, SpawnOpts};
use kiln::prelude::*;
use kiln::{Result, with_device};

use super::{BACKEND, as_child, free_port, launch_by_mpi, mpi_launchers, printed, said, start_rank_with};

/// Sums from device to device.
pub fn between_devices(group: &Group) -> Result<String> {
    with_device(Device::cuda(group.local_rank() as u16), || {
        let x = Tensor::full([1 << 20], (group.rank() + 1) as f32, ());
        let sum = |step: i32| group.all_reduce(&(&x + step), Reduce::Sum).max(..).item::<f32>();
        Ok(format!("{:?}", (0..3).map(sum).collect::<Result<Vec<_>>>()?))
    })
}

/// Whether two CUDA devices and NCCL are there.
fn has_nccl() -> bool {
    let missing = match Device::cuda(1).probe() {
        Ok(()) => dist::spawn_with(1, SpawnOpts::default().nccl(true), |_| Ok(())).err(),
        Err(error) => Some(error),
    };
    let required = std::env::var("KILN_REQUIRE").is_ok_and(|list| list.split(',').any(|it| it == "nccl"));
    assert!(!required || missing.is_none(), "KILN_REQUIRE asks for NCCL: {missing:?}");
    missing.map(|error| println!("skipped: {error}")).is_none()
}

/// What two ranks with a device each say, where the library fails on the second as told.
fn between_two_devices(fault: Option<&str>) -> Vec<String> {
    let port = free_port();
    let start = |rank: usize| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        if let Some(fault) = fault.filter(|_| rank == 1) {
            command.env("KILN_CUDA_SIM_FAULT", fault);
        }
        start_rank_with("nccl", command, rank, 2, port, "between devices")
    };
    said(&printed((0..2).map(start).collect()))
}

#[test]
fn data_of_processes_go_from_device_to_device() {
    if !has_nccl() {
        return;
    }
    let sums = ["0: [3.0, 5.0, 7.0]", "1: [3.0, 5.0, 7.0]"];
    assert_eq!(between_two_devices(None), sums);
    // They meet by MPI where that has started them.
    for (launcher, library) in mpi_launchers() {
        assert_eq!(launch_by_mpi("nccl", launcher, library, 2, "between devices"), sums, "{launcher}");
    }
}

#[test]
fn a_library_that_fails_or_never_returns_is_an_error_in_time() {
    if !has_nccl() {
        return;
    }
    // A code of the library's; -1: the process is killed in the call; -2: the call never returns.
    let faults = [
        ("join:1:3", 2),
        ("join:1:-1", 1),
        ("collective:2:3", 2),
        ("collective:2:-1", 1),
        ("collective:2:-2", 2),
    ];
    for (fault, survivors) in faults {
        let start = Instant::now();
        let found = between_two_devices(Some(fault));
        assert_eq!(found.len(), survivors, "{fault}: {found:?}");
        for said in &found {
            assert!(said.contains("all_reduce(sum) f32[1048576] between devices on rank"), "{fault}: {said}");
            assert!(said.contains("tests/processes/nccl.rs"), "{fault}: {said}");
        }
        if survivors == 1 {
            assert!(found[0].contains("rank 1 ended before"), "{fault}: {found:?}");
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{fault}: {:?}", start.elapsed());
    }
}

#[test]
fn without_nccl_the_error_says_so() {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env("KILN_NCCL", "libnone.so").env(BACKEND, "nccl").stdout(Stdio::piped());
    let child = as_child(&mut command, "alone").stderr(Stdio::null()).spawn().expect("a process");
    let found = said(&printed(vec![child]));
    let reason = if cfg!(feature = "nccl") { "libnone.so" } else { "without feature `nccl`" };
    assert!(found.len() == 1 && found[0].contains(reason), "{found:?}");
}
