//! Plans kept as files: those in `tests/plans` are of this crate itself. `KILN_LOCK=write` writes them anew;
//! read the changes before committing them.

use std::path::PathBuf;
use std::process::Command;

use kiln::nn::{Embedding, Layer, Linear, ModuleExt, Param, TransformerEncoderLayer, TransformerOpts};
use kiln::plan::report::PlanLock;
use kiln::prelude::*;
use kiln::{Context, assert_plan_locked, with_context};

fn meta<const N: usize>(dims: [usize; N]) -> Tensor {
    Tensor::empty(dims, Device::meta())
}

/// The plan of a training step of a transformer of two layers: the loss, and each parameter after a step of
/// gradient descent.
fn training_step(device: Device) -> PlanReport {
    with_context(&Context::new(), || {
        with_device(device, || {
            kiln::manual_seed(3);
            let (embedding, head) = (Embedding::new(11, 16, ()), Linear::new(16, 11, ()));
            let opts = || TransformerOpts::default().feed_forward(32).dropout(0.0);
            let layers = [(); 2].map(|()| TransformerEncoderLayer::new(16, 2, opts(), ()));
            let mut parameters = [embedding.parameters(), head.parameters()].concat();
            parameters.extend(layers.iter().flat_map(|layer| layer.parameters()));
            let tokens =
                |shift| Tensor::from_vec((0..12i64).map(|i| (i * 5 + shift) % 11).collect(), [2, 6], ());
            let inputs: Vec<Tensor> =
                parameters.iter().map(|param| param.get()).chain([tokens(0), tokens(1)]).collect();
            realize(&inputs.iter().collect::<Vec<_>>()).expect("inputs in memory");
            let [.., from, to] = &inputs[..] else { panic!("two inputs") };
            let x = layers.iter().fold(embedding.forward(from), |x, layer| layer.forward(&x));
            let loss =
                head.forward(&x).reshape([12, 11]).cross_entropy(&to.reshape([12]), Default::default());
            loss.backward().expect("gradients");
            let updated = |param: &Param| param.get() - param.grad().expect("a gradient") * 0.1;
            let updated: Vec<Tensor> = parameters.iter().map(updated).collect();
            kiln::plan(&[&loss].into_iter().chain(&updated).collect::<Vec<_>>()).expect("a plan")
        })
    })
}

#[test]
fn a_training_step_is_planned_as_it_was() {
    assert_plan_locked!(training_step(Device::null()), "tests/plans/transformer_step.plan");
    assert_plan_locked!(training_step(Device::cpu()), "tests/plans/transformer_step_cpu.plan");
}

#[test]
fn a_file_says_what_is_written() {
    let lock = training_step(Device::null()).lock();
    let read: PlanLock = lock.to_string().parse().expect("a plan");
    assert_eq!(read, lock);
    assert_eq!(lock, training_step(Device::null()).lock(), "each time the same");
    assert!(!lock.to_string().contains(".rs"), "no lines of the program");
}

#[test]
fn a_lost_fusion_is_told() {
    let (x, w) = (meta([64, 32]), meta([32, 16]));
    let before = x.matmul(&w).relu().plan().expect("a plan").lock();
    let product = x.matmul(&w);
    let after = kiln::plan(&[&product.relu(), &product.cumsum(0)]).expect("a plan").lock();
    let changes = after.changes_since(&before).expect("changes");
    println!("{changes}");
    for part in ["kernels: 1 -> ", "peak memory: ", "%)", "- matmul_relu[64, 16] on meta", "+ "] {
        assert!(changes.contains(part), "{part}:\n{changes}");
    }
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("kiln-{}-{name}", std::process::id()))
}

#[test]
fn a_missing_or_foreign_file_is_an_error() {
    let lock = meta([8]).exp().plan().expect("a plan").lock();
    let missing = lock.changes_since_file(file("missing.plan")).expect_err("no such file").to_string();
    assert!(missing.contains("KILN_LOCK=write makes it") && missing.contains("plan_lock.rs"), "{missing}");
    let foreign = file("foreign.plan");
    for text in ["", "kiln plan, format 0\n", "kiln plan, format 1\n\nkernels: many\n"] {
        std::fs::write(&foreign, text).expect("a file");
        let error = PlanLock::read(&foreign).expect_err("no plan").to_string();
        assert!(error.contains("cannot parse plan"), "{error}");
    }
    std::fs::remove_file(foreign).expect("the file");
}

/// What the assertion says of one plan, then another, in a process of its own.
fn assertion(path: &PathBuf, fused: &str, lock: &str) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "--ignored", "--nocapture", "asserts_for_another_test"]);
    let run =
        command.env("KILN_LOCK", lock).env("PLAN_FILE", path).env("FUSED", fused).output().expect("a run");
    (run.status.success(), String::from_utf8_lossy(&run.stderr).into_owned())
}

#[test]
#[ignore = "run by the test below"]
fn asserts_for_another_test() {
    let (Ok(path), Ok(fused)) = (std::env::var("PLAN_FILE"), std::env::var("FUSED")) else { return };
    let x = meta([64, 64]);
    let y = if fused == "yes" { (&x + 1.0).exp() } else { x.sum(0).cumsum(0) };
    assert_plan_locked!(y, path);
}

#[test]
fn the_environment_writes_files_and_differences_fail() {
    let path = file("folder").join("x.plan");
    let (passed, text) = assertion(&path, "yes", "");
    assert!(!passed && text.contains("KILN_LOCK=write makes it"), "{text}");
    assert!(assertion(&path, "yes", "write").0);
    assert!(assertion(&path, "yes", "").0);
    let (passed, text) = assertion(&path, "no", "");
    assert!(
        !passed && text.contains("- add_exp[64, 64] on meta") && text.contains("writes the file anew"),
        "{text}"
    );
    assert!(assertion(&path, "no", "write").0);
    assert!(assertion(&path, "no", "").0);
    std::fs::remove_dir_all(path.parent().expect("a folder")).expect("the folder");
}
