//! The switches for choices by timing, on the simulated CUDA device if it is on
//! the library path. What is compiled for a product is seen in the folder of
//! compiled kernels, which each process has for itself.

#![cfg(all(unix, feature = "cuda"))]

use kiln::prelude::*;
use kiln::{set_benchmark, set_deterministic};

/// Set in processes of this test's: `benchmark` or not, `deterministic` or not.
const SWITCHES: &str = "KILN_TEST_SWITCHES";

/// Files that a product leaves in the folder of compiled kernels, with switches.
fn files(switches: &str) -> usize {
    let folder = std::env::temp_dir().join(format!("kiln-tuning-{}-{switches}", std::process::id()));
    let run = || {
        let program = std::env::current_exe().expect("this program");
        let mut run = std::process::Command::new(program);
        run.args(["--exact", "products_are_timed_where_the_switches_say_so", "--nocapture"]);
        let run = run.env(SWITCHES, switches).env("KILN_CACHE_DIR", &folder).output().expect("a process");
        let text = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{switches}:\n{text}");
        std::fs::read_dir(&folder).expect("a folder").count()
    };
    let count = run();
    assert_eq!(run(), count, "{switches}: the second process makes nothing anew");
    std::fs::remove_dir_all(&folder).expect("a folder of its own");
    count
}

#[test]
fn products_are_timed_where_the_switches_say_so() {
    let device = Device::cuda(0);
    let Ok(switches) = std::env::var(SWITCHES) else {
        if !device.name().is_ok_and(|name| name == "simulated device") {
            println!("skipped: no simulated CUDA device");
            return;
        }
        // One kernel and no choice, by default as well.
        let plain = files("");
        assert_eq!(files("deterministic benchmark"), plain);
        assert!(files("benchmark") > plain + 1, "other tiles, and the choice");
        return;
    };
    if switches.contains("benchmark") {
        set_benchmark(true);
    }
    set_deterministic(switches.contains("deterministic"));
    let x = Tensor::from_vec((0..128 * 96).map(|i| (i % 7) as f32).collect(), [128, 96], Device::cpu());
    let y = x.to_dtype(DType::BF16);
    let product = |x: &Tensor| x.matmul(&x.t()).sum(..).item::<f64>().expect("a product");
    assert_eq!(product(&y.to(device)), product(&y));
}
