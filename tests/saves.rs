//! Saves that are killed, or have no room: what opens then is wholly the old state or wholly
//! the new one, and the next save works and takes away what was left.
//!
//! The test starts itself as a process that saves one state after the other,
//! and kills it at a random moment. `KILN_KILLS` says how often. Another may write files of 50 kB only.
#![cfg(all(feature = "safetensors", not(target_family = "wasm")))]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kiln::prelude::*;
use kiln::{RawTensor, StateDict};

/// Elements of each of the tensors.
const ELEMENTS: usize = 4096;
const TENSORS: usize = 6;

/// What the process that saves is told.
const FOLDER: &str = "KILN_SAVES_FOLDER";
const SHARDED: &str = "KILN_SAVES_SHARDED";
const NO_ROOM: &str = "KILN_SAVES_NO_ROOM";

/// A state that says everywhere which one it is.
fn state(version: i64) -> StateDict {
    let mut state = StateDict::new();
    for number in 0..TENSORS {
        state.insert(format!("t{number}"), &Tensor::full([ELEMENTS], version, ())).unwrap();
    }
    let bytes = version.to_le_bytes().repeat(ELEMENTS);
    state.insert_raw("raw", &RawTensor::new("U64", [ELEMENTS], bytes).unwrap()).unwrap();
    state.metadata_mut().insert("version".into(), version.to_string());
    state
}

/// Which state a file holds, all of it.
fn version(path: &Path) -> i64 {
    let mut state = StateDict::open(path).unwrap();
    state.convert().unwrap();
    assert_eq!(state.len(), TENSORS + 1);
    let version = state.metadata()["version"].parse().unwrap();
    for (name, tensor) in state.iter() {
        let values = tensor.to_vec::<i64>().unwrap();
        assert!(
            values.len() == ELEMENTS && values.iter().all(|value| *value == version),
            "{name} of {version}"
        );
    }
    version
}

fn save(folder: &Path, sharded: bool, version: i64) {
    let path = folder.join("m.safetensors");
    // Each state has another number of files.
    let most = ELEMENTS * 8 * (1 + version as usize % 3);
    let saved = if sharded { state(version).save_sharded(path, most) } else { state(version).save(path) };
    saved.unwrap();
}

fn opened(folder: &Path, sharded: bool) -> i64 {
    version(&folder.join(if sharded { "m.safetensors.index.json" } else { "m.safetensors" }))
}

/// The process that is killed: saves one state after the other.
#[test]
fn saver() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (folder, sharded) = (PathBuf::from(folder), std::env::var(SHARDED).is_ok());
    let first = opened(&folder, sharded) + 1;
    println!("ready");
    // Longer than it lives.
    (first..first + 10_000).for_each(|version| save(&folder, sharded, version));
}

/// The process that finds no room: every save is an error that says where.
#[test]
fn saver_without_room() {
    let Ok(folder) = std::env::var(NO_ROOM) else { return };
    let path = PathBuf::from(folder).join("m.safetensors");
    let single = state(2).save(&path).unwrap_err().to_string();
    let sharded = state(2).save_sharded(&path, ELEMENTS * 8 * 2).unwrap_err().to_string();
    for error in [single, sharded] {
        assert!(error.contains("m.safetensors") && error.contains("tests/saves.rs"), "{error}");
    }
    println!("both failed");
}

/// Starts the process, and kills it after a while.
fn kill_a_save(folder: &Path, sharded: bool, after: Duration) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "saver", "--nocapture"]).env(FOLDER, folder).stdout(Stdio::piped());
    if sharded {
        command.env(SHARDED, "1");
    }
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("ready")), "the process has ended");
    std::thread::sleep(after);
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
}

/// How often saves were killed in the middle, of so many.
fn killed(name: &str, sharded: bool, kills: u32) -> u32 {
    let folder = std::env::temp_dir().join(format!("kiln-saves-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let names = || fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    let (mut last, mut halves) = (1, 0);
    save(&folder, sharded, last);
    let mut random = 1u32;
    for _ in 0..kills {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        kill_a_save(&folder, sharded, Duration::from_micros(u64::from(random >> 17)));
        let found = opened(&folder, sharded);
        assert!(found >= last, "{found} after {last}");
        let whole = if sharded { 1 + 7usize.div_ceil(1 + found as usize % 3) } else { 1 };
        halves += u32::from(names().len() > whole);
        last = found + 1;
        save(&folder, sharded, last);
        assert_eq!(opened(&folder, sharded), last);
        let whole = if sharded { 1 + 7usize.div_ceil(1 + last as usize % 3) } else { 1 };
        assert_eq!(names().len(), whole, "{:?}", names());
    }
    fs::remove_dir_all(&folder).unwrap();
    halves
}

fn kills(usual: u32) -> u32 {
    std::env::var("KILN_KILLS").map_or(usual, |text| text.parse().unwrap())
}

#[test]
fn a_file_is_the_old_or_the_new_one_after_every_kill() {
    let halves = killed("single", false, kills(30));
    println!("{halves} saves were killed in the middle");
    assert!(halves > 0);
}

#[test]
fn several_files_are_the_old_or_the_new_state_after_every_kill() {
    let halves = killed("sharded", true, kills(20));
    println!("{halves} saves were killed in the middle");
    assert!(halves > 0);
}

/// A file that may not grow fails as one does on a disk that is full.
#[cfg(unix)]
#[test]
fn a_disk_that_fills_leaves_the_old_state_and_nothing_else() {
    let folder = std::env::temp_dir().join(format!("kiln-saves-room-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    save(&folder, false, 1);
    save(&folder, true, 1);
    let before = names();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" --exact saver_without_room --nocapture"]);
    let output = command.arg(std::env::current_exe().unwrap()).env(NO_ROOM, &folder).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("both failed"), "{output:?}");
    assert_eq!(names(), before);
    assert_eq!([opened(&folder, false), opened(&folder, true)], [1, 1]);
    save(&folder, true, 2);
    assert_eq!(opened(&folder, true), 2);
    fs::remove_dir_all(&folder).unwrap();
}
