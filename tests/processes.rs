//! Ranks that are processes: this program, started again, over TCP or by an MPI launcher.
//!
//! Where no MPI launcher is installed, its tests are skipped, unless `KILN_REQUIRE` asks for `mpi`.
#![cfg(unix)]

#[path = "processes/nccl.rs"]
mod nccl;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kiln::dist::{self, Backend, Ddp, Group, InitOpts, Reduce};
use kiln::nn::{Layer, Linear, ModuleExt, Sequential, Tanh};
use kiln::optim::{Adam, AdamOpts, Optimizer};
use kiln::prelude::*;
use kiln::{Context, Result, manual_seed, with_context};

/// What the child does.
const CHILD: &str = "KILN_TEST_CHILD";

/// What started the child.
const BACKEND: &str = "KILN_TEST_BACKEND";

/// Where it saves.
const FOLDER: &str = "KILN_TEST_FOLDER";

/// How ranks are started.
#[derive(Clone, Copy, Debug)]
enum Launcher {
    Tcp,
    /// A launcher and its library.
    Mpi(&'static str, &'static str),
}

/// All that there are here.
fn launchers() -> Vec<Launcher> {
    let mpi = mpi_launchers().into_iter().map(|(launcher, library)| Launcher::Mpi(launcher, library));
    std::iter::once(Launcher::Tcp).chain(mpi).collect()
}

/// MPI's launchers that are installed, each with its library.
fn mpi_launchers() -> Vec<(&'static str, &'static str)> {
    if !cfg!(feature = "mpi") {
        return Vec::new();
    }
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
fn launch(launcher: Launcher, ranks: usize, child: &str) -> (Vec<String>, Duration) {
    let start = Instant::now();
    let text = match launcher {
        Launcher::Tcp => {
            let port = free_port();
            let started = (0..ranks).map(|rank| start_rank(rank, ranks, port, child));
            printed(started.collect::<Vec<_>>())
        }
        Launcher::Mpi(launcher, library) => {
            return (launch_by_mpi("mpi", launcher, library, ranks, child), start.elapsed());
        }
    };
    (said(&text), start.elapsed())
}

fn launch_by_mpi(backend: &str, launcher: &str, library: &str, ranks: usize, child: &str) -> Vec<String> {
    let mut command = Command::new(launcher);
    if launcher.contains("openmpi") {
        command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
    }
    command.args(["-n", &ranks.to_string()]).arg(std::env::current_exe().expect("this program"));
    command.env("KILN_MPI", library).env(BACKEND, backend);
    let output = as_child(&mut command, child).output().expect("a launcher");
    said(&String::from_utf8_lossy(&output.stdout))
}

/// The command of a rank, or of a launcher of them.
fn as_child<'a>(command: &'a mut Command, child: &str) -> &'a mut Command {
    command.args(["--exact", "child", "--nocapture"]);
    // Ranks beside each other in one machine need no network.
    command.env(CHILD, child).env("KILN_THREADS", "1")
}

/// A port that nobody has, of those that systems give to nobody who does not name them.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 1000) as u16 * 10;
    let mut ports = std::iter::repeat_with(|| 20_000 + (first + NEXT.fetch_add(1, Relaxed)) % 10_000);
    ports.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).expect("a port")
}

/// A rank as torchrun would start it.
fn start_rank(rank: usize, ranks: usize, port: u16, child: &str) -> Child {
    let command = Command::new(std::env::current_exe().expect("this program"));
    start_rank_by(command, rank, ranks, port, child)
}

fn start_rank_by(command: Command, rank: usize, ranks: usize, port: u16, child: &str) -> Child {
    start_rank_with("tcp", command, rank, ranks, port, child)
}

fn start_rank_with(
    backend: &str,
    mut command: Command,
    rank: usize,
    ranks: usize,
    port: u16,
    child: &str,
) -> Child {
    let numbers = [("RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_RANK", rank), ("MASTER_PORT", port.into())];
    for (name, number) in numbers {
        command.env(name, number.to_string());
    }
    command.env("MASTER_ADDR", "127.0.0.1").env(BACKEND, backend).env_remove("TORCHELASTIC_USE_AGENT_STORE");
    as_child(&mut command, child).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a process")
}

/// What processes print until they end.
fn printed(started: Vec<Child>) -> String {
    let output = started.into_iter().map(|rank| rank.wait_with_output().expect("an end").stdout);
    output.map(|text| String::from_utf8_lossy(&text).into_owned()).collect()
}

fn said(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| Some(line.split_once("rank says ")?.1.to_string()));
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    if lines.is_empty() {
        println!("{text}");
    }
    lines
}

/// What a rank does whom a launcher has started: see `launch`.
#[test]
fn child() {
    let Ok(child) = std::env::var(CHILD) else { return };
    let timeout = match &child[..] {
        "late" => 1,
        "between devices" => 5,
        _ => 60,
    };
    let backend = std::env::var(BACKEND).unwrap_or_default();
    let is_mpi = backend == "mpi";
    let backend = match &backend[..] {
        "mpi" => Backend::Mpi,
        "nccl" => Backend::Nccl,
        _ => Backend::Tcp,
    };
    let group = match dist::init_with(backend, InitOpts::default().timeout(Duration::from_secs(timeout))) {
        Ok(group) => group,
        Err(error) => return println!("rank says {}", error.to_string().replace('\n', " ")),
    };
    let rank = group.rank();
    let said = match &child[..] {
        "train" => train(&group).map(|trained| format!("{trained:?}")),
        "late" => late(&group),
        "differ" => differ(&group),
        "meet" => meet(&group),
        "alone" => Ok("no error".into()),
        "between devices" => nccl::between_devices(&group),
        #[cfg(feature = "safetensors")]
        "full" => saves_twice(&group),
        killed if killed.starts_with("killed") => ends(&group, killed),
        other => panic!("no child {other}"),
    };
    let said = said.unwrap_or_else(|error| error.to_string()).replace('\n', " ");
    println!("rank says {rank}: {said}");
    if is_mpi && matches!(&child[..], "late" | "differ") {
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

/// The last rank dies at some point of the program; the others say what they see, and how many seconds after.
fn ends(group: &Group, at: &str) -> Result<String> {
    let (dies, start) = (group.rank() + 1 == group.size(), Instant::now());
    let large = Tensor::ones([8 << 20], ()).realize()?.clone();
    let step = |number: usize| {
        if dies && at == format!("killed at step {number}") {
            std::process::abort();
        }
        train(group).map(drop)
    };
    let last = || -> Result<()> {
        match at {
            "killed at once" if dies => std::process::abort(),
            "killed while it sends" => {
                if dies {
                    std::thread::spawn(|| {
                        std::thread::sleep(Duration::from_millis(30));
                        std::process::abort()
                    });
                }
                loop {
                    group.all_reduce(&large, Reduce::Sum).realize()?;
                }
            }
            "killed in a group of its own" => {
                let rest: Vec<usize> = (1..group.size()).collect();
                let own = group.subgroup(&rest)?;
                if dies {
                    std::process::abort();
                }
                own.map_or(Ok(()), |own| own.barrier())?;
                group.barrier()
            }
            _ => (0..3).try_for_each(step).and_then(|()| group.barrier()),
        }
    };
    let error = last().expect_err("a rank has died").to_string();
    assert!(start.elapsed() < Duration::from_secs(30), "{error}");
    Ok(error)
}

/// Saves a small state, and then a large one.
#[cfg(feature = "safetensors")]
fn saves_twice(group: &Group) -> Result<String> {
    let path = std::path::Path::new(&std::env::var(FOLDER).expect("a folder")).join("m.safetensors");
    let save = |elements: usize, version: f32| {
        let mut state = kiln::StateDict::new();
        let name = format!("rank.{}", group.rank());
        state.insert(name, &Tensor::full([elements], version, ()))?;
        group.save_sharded(&state, &path)
    };
    save(100, 1.0)?;
    save(100_000, 2.0).map(|()| "no error".into())
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
    for launcher in launchers() {
        for ranks in [2, 4] {
            let threads = with_context(&Context::new(), || dist::spawn(ranks, |group| train(&group)));
            let threads = threads.expect("ranks");
            let expected: Vec<String> =
                threads.iter().enumerate().map(|(rank, trained)| format!("{rank}: {trained:?}")).collect();
            let (said, _) = launch(launcher, ranks, "train");
            assert_eq!(said, expected, "{launcher:?}");
            assert!(threads.iter().all(|rank| *rank == threads[0]));
        }
    }
}

#[test]
fn all_operations_go_between_processes() {
    for launcher in launchers() {
        let (said, _) = launch(launcher, 4, "meet");
        assert_eq!(said.len(), 4, "{launcher:?}: {said:?}");
        assert_eq!(said[0], "0: [0, 1, 2, 3] 3 1 world[0, 1] local 0", "{launcher:?}");
        assert_eq!(said[3], "3: [0, 1, 2, 3] 2 5 world[2, 3] local 3", "{launcher:?}");
    }
}

#[test]
fn ranks_that_come_apart_are_errors_in_time() {
    for launcher in launchers() {
        let (said, took) = launch(launcher, 2, "late");
        assert!(
            said[0].starts_with("0: barrier on rank 0 of world: rank 1 did not come to barrier"),
            "{said:?}"
        );
        assert!(took < Duration::from_secs(30), "{took:?}");
        let (said, took) = launch(launcher, 2, "differ");
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
    let [(launcher, _), (_, library)] = mpi_launchers()[..] else { return };
    let (said, _) = launch(Launcher::Mpi(launcher, library), 2, "meet");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[1].contains("Open MPI's mpirun has started rank 1 of 2, and MPICH"), "{said:?}");
    let (said, _) = launch(Launcher::Mpi(launcher, "libnone.so"), 2, "meet");
    assert!(said.iter().all(|said| said.contains("libnone.so")) && said.len() == 2, "{said:?}");
}

#[test]
fn a_process_that_dies_is_noticed_at_once() {
    let phases =
        ["at once", "at step 0", "at step 1", "at step 2", "while it sends", "in a group of its own"];
    for phase in phases {
        // Ranks wait for a minute otherwise.
        let (said, took) = launch(Launcher::Tcp, 3, &format!("killed {phase}"));
        assert_eq!(said.len(), 2, "{phase}: {said:?}");
        for said in &said {
            assert!(said.contains("ended before"), "{phase}: {said}");
        }
        assert!(took < Duration::from_secs(30), "{phase}: {took:?}");
    }
}

#[test]
fn ranks_that_do_not_meet_are_errors_in_time() {
    let start = Instant::now();
    // One of three is never started: a minute is not waited where the timeout is a second.
    let port = free_port();
    let started = vec![start_rank(0, 3, port, "late"), start_rank(1, 3, port, "late")];
    let found = said(&printed(started));
    assert!(found.iter().any(|said| said.contains("ranks {2} did not come in time")), "{found:?}");
    assert_eq!(found.len(), 2, "{found:?}");
    // Two of one number.
    let port = free_port();
    let numbers = [0, 1, 1];
    let found = said(&printed(numbers.map(|rank| start_rank(rank, 3, port, "late")).into()));
    assert!(found.iter().any(|said| said.contains("two processes of rank 1")), "{found:?}");
    // Of different worlds.
    let port = free_port();
    let found = said(&printed(vec![start_rank(0, 2, port, "late"), start_rank(1, 3, port, "late")]));
    assert!(
        found.iter().any(|said| said.contains("rank 1 says that there are 3 ranks, and not 2")),
        "{found:?}"
    );
    // Who speaks another language does not keep ranks apart.
    let port = free_port();
    let first = start_rank(0, 2, port, "alone");
    let stranger = std::iter::repeat_with(|| TcpStream::connect(("127.0.0.1", port))).take(2000);
    let stranger =
        stranger.inspect(|it| std::thread::sleep(Duration::from_millis(u64::from(it.is_err()) * 5)));
    let mut stranger = stranger.flatten().next().expect("a connection");
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: kiln\r\n\r\n").expect("a write");
    let found = said(&printed(vec![first, start_rank(1, 2, port, "alone")]));
    assert_eq!(found, ["0: no error", "1: no error"]);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn without_an_address_the_error_names_the_variable() {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env("RANK", "0").env("WORLD_SIZE", "2").env_remove("MASTER_ADDR").stdout(Stdio::piped());
    let child = as_child(&mut command, "alone").stderr(Stdio::null()).spawn().expect("a process");
    let found = said(&printed(vec![child]));
    assert!(found.len() == 1 && found[0].contains("MASTER_ADDR is not set"), "{found:?}");
}

/// One of three has a file that may not grow, as on a disk that is full: all are told, and the old state stays.
#[cfg(feature = "safetensors")]
#[test]
fn a_disk_that_fills_on_one_rank_is_an_error_on_all() {
    let folder = std::env::temp_dir().join(format!("kiln-full-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let port = free_port();
    let start = |rank: usize| {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(if rank == 1 { "sh".as_ref() } else { program.as_os_str() });
        if rank == 1 {
            command.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\""]).arg(&program);
        }
        command.env(FOLDER, &folder);
        start_rank_by(command, rank, 3, port, "full")
    };
    let begun = Instant::now();
    let found = said(&printed((0..3).map(start).collect()));
    assert_eq!(found.len(), 3, "{found:?}");
    for (rank, said) in found.iter().enumerate() {
        assert_eq!(said.contains("rank 1 could not save"), rank != 1, "{said}");
        assert!(said.contains("m.safetensors") && said.contains("tests/processes.rs"), "{said}");
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let old = kiln::StateDict::open(folder.join("m.safetensors.index.json")).expect("the old state");
    let is_old = |tensor: &Tensor| tensor.to_vec::<f32>().is_ok_and(|values| values == [1.0; 100]);
    assert!(old.len() == 3 && old.iter().all(|(_, tensor)| is_old(tensor)));
    let files = std::fs::read_dir(&folder).expect("the folder").count();
    assert_eq!(files, 4, "an index and three files");
    drop(old);
    std::fs::remove_dir_all(&folder).expect("the folder is mine");
}
