//! Tools for whoever debugs a kernel, which the environment switches on: each test runs this
//! program again with the variables set.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kiln::prelude::*;
use kiln::unstable::base::Optimization;

#[path = "support/adapter.rs"]
mod adapter;

/// Which program a process of its own runs.
const PROGRAM: &str = "KILN_TEST_PROGRAM";

fn run(program: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "the_program", "--nocapture"]).env(PROGRAM, program);
    command.envs(variables.iter().copied()).output().expect("a process")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Steps of many kinds: elementwise, rows, products, scatters, sorts, loops and transfers.
fn various(device: Device) -> kiln::Result<Vec<f32>> {
    let x = Tensor::from_vec((0..24).map(|i| i as f32 * 0.25 - 2.0).collect(), [4, 6], device);
    let w = Tensor::from_vec((0..18).map(|i| (i as f32).sin()).collect(), [6, 3], device);
    let index = Tensor::from_vec(vec![2i64, 0, 3], [3], device);
    let hidden = x.matmul(&w).gelu();
    let picked = hidden.index_select(0, &index).softmax(1).to(Device::cpu()).to(device);
    let sorted = x.sort(1, true).0.cumsum(1).narrow(1, 0, 3);
    let image = x.reshape([1, 2, 3, 4]).pad(&[9, 7, 9, 8], 0.5);
    let filter = w.reshape([1, 2, 3, 3]).tile([4, 1, 1, 1]);
    let convolved = image.conv2d(&filter, None, ConvOpts::default()).mean([0, 2, 3]);
    let depthwise = image.conv2d(&w.reshape([2, 1, 3, 3]), None, ConvOpts::default().groups(2)).sum(..);
    let long = Tensor::linspace(0.0, 1.0, 1 << 14, device).sum(..);
    let apart = long + x.cdist(&(&x + 1.0), 2.0).sum(..) + depthwise + convolved.sum(0);
    let placed = Tensor::zeros([4, 3], device).index_add(0, &index, &picked, 1.0);
    (placed + sorted.layer_norm([3], NormOpts::default()) * hidden.sum(0) + apart).to_vec()
}

/// Adds two tensors of small whole numbers, and then the sums of rows.
fn added(device: Device) -> kiln::Result<Vec<f32>> {
    let a = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [4], device);
    (&a + a.flip(0) * 2.0).to_vec()
}

/// What a process of its own does; nothing in the test run.
#[test]
fn the_program() {
    let Ok(program) = std::env::var(PROGRAM) else { return };
    let device = if program.ends_with("wgpu") { Device::wgpu(0) } else { Device::cpu() };
    let values = if program.starts_with("various") { various(device) } else { added(device) };
    match values {
        Ok(values) => println!("values {values:?}"),
        Err(error) => println!("error: {error}"),
    }
}

fn values(text: &str) -> &str {
    text.lines().find(|line| line.contains("values ")).unwrap_or_else(|| panic!("no values in {text}"))
}

#[test]
fn steps_that_are_right_pass_the_check() {
    let gpu = adapter::adapter().map(|_| "various wgpu");
    for program in ["various cpu"].into_iter().chain(gpu) {
        let (plain, checked) = (run(program, &[]), run(program, &[("KILN_CHECK", "1")]));
        assert_eq!(values(&said(&plain)), values(&said(&checked)), "{program}");
    }
}

#[test]
fn each_optimization_can_be_switched_off() {
    let gpu = adapter::adapter().map(|_| "various wgpu");
    for program in ["various cpu"].into_iter().chain(gpu) {
        let names = Optimization::ALL.iter().map(|(name, _)| *name);
        let each: Vec<&str> = names.chain(["templates,simplification,fusion,donation"]).collect();
        for name in each {
            let text = said(&run(program, &[("KILN_DISABLE", name), ("KILN_CHECK", "1")]));
            assert!(
                text.contains("values ") && !text.contains("going on without"),
                "{program}, {name}: {text}"
            );
        }
    }
}

#[test]
fn a_name_that_is_no_optimization_is_told() {
    let text = said(&run("added cpu", &[("KILN_DISABLE", "fusing")]));
    assert!(
        text.contains("KILN_DISABLE") && text.contains("horizontal-fusion") && text.contains("values "),
        "{text}"
    );
}

#[test]
fn without_fusion_each_operation_is_a_kernel() {
    let kernels = |variables: &[(&str, &str)]| {
        let text = said(&run("added cpu", &[variables, &[("KILN_DEBUG", "2")]].concat()));
        text.lines().filter(|line| line.contains(" GB/s ")).count()
    };
    assert_eq!((kernels(&[]), kernels(&[("KILN_DISABLE", "fusion")])), (1, 2));
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("kiln-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Folder(folder)
    }
    fn sources(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).expect("the folder of sources");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes the shader add one to what it stores.
fn plant(path: &Path) {
    let text = std::fs::read_to_string(path).expect("a shader");
    let right = "out0_0[e] = x;";
    assert!(text.contains(right), "{text}");
    std::fs::write(path, text.replace(right, "out0_0[e] = x + 1.0;")).expect("an edited shader");
}

#[test]
fn an_edited_shader_runs_and_the_check_names_it() {
    if adapter::adapter().is_none() {
        return;
    }
    let folder = Folder::new("edited");
    let saved = ("KILN_SOURCES", folder.0.to_str().expect("a path"));
    let first = said(&run("added wgpu", &[saved]));
    assert!(values(&first).ends_with("values [9.0, 8.0, 7.0, 6.0]"), "{first}");
    let named =
        |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("mul_add"));
    let sources = folder.sources();
    plant(sources.iter().find(named).unwrap_or_else(|| panic!("no shader of the sum among {sources:?}")));
    let edited = said(&run("added wgpu", &[saved]));
    assert!(
        values(&edited).ends_with("values [10.0, 9.0, 8.0, 7.0]") && edited.contains("was edited"),
        "{edited}"
    );
    let checked = said(&run("added wgpu", &[saved, ("KILN_CHECK", "1")]));
    let parts = ["wgpu:0 computed 10, not 9,", "at [0] of [4]", "input 0: f32[4]", "tests/debugging.rs:"];
    assert!(parts.iter().all(|part| checked.contains(part)), "{checked}");
}
