//! The switches for choices by timing, on the simulated CUDA device if it is on the
//! library path, and on an adapter. What is compiled, or found fastest, is seen in the
//! folder of compiled kernels, which each process has for itself.

#![cfg(all(unix, feature = "cuda", feature = "wgpu"))]

use kiln::opts::AttentionOpts;
use kiln::opts::ConvTransposeOpts;
use kiln::prelude::*;
use kiln::{set_benchmark, set_deterministic};

/// Set in processes of this test's: the device, what is computed, `benchmark` or not,
/// `deterministic` or not.
const SWITCHES: &str = "KILN_TEST_SWITCHES";

/// What is computed, on a device.
type Computed = fn(Device) -> Tensor;

/// What templates compute in several ways: small things for the simulated device.
const SMALL: &[(&str, Computed)] = &[
    ("product", |d| small(&[128, 96], 1, d).matmul(&small(&[96, 128], 2, d))),
    ("attention", |d| attention([1, 1, 100, 16], d)),
    ("convolution", |d| {
        small(&[1, 5, 9, 9], 1, d).conv2d(&small(&[16, 5, 3, 3], 2, d), None, Default::default())
    }),
    ("transposed convolution", |d| transposed([1, 6, 5, 5], [6, 16, 3, 3], d)),
];

/// The same, large enough for a software driver.
const LARGE: &[(&str, Computed)] = &[
    ("product", |d| small(&[200, 200], 1, d).matmul(&small(&[200, 200], 2, d))),
    ("attention", |d| attention([1, 4, 160, 64], d)),
    ("convolution", |d| {
        small(&[1, 32, 30, 30], 1, d).conv2d(&small(&[32, 32, 3, 3], 2, d), None, Default::default())
    }),
    ("transposed convolution", |d| transposed([1, 32, 12, 12], [32, 32, 3, 3], d)),
];

/// A tensor of multiples of 1/8 from -1/4 to 1/4.
fn small(dims: &[usize], seed: usize, device: Device) -> Tensor {
    let count: usize = dims.iter().product();
    let value = |i: usize| (((i * 7 + i / 11 * 3 + seed) % 5) as f32 - 2.0) / 8.0;
    Tensor::from_vec((0..count).map(value).collect::<Vec<f32>>(), dims, Device::cpu()).to(device)
}

fn attention(dims: [usize; 4], device: Device) -> Tensor {
    let [q, k, v] = [1, 2, 3].map(|seed| small(&dims, seed, device));
    q.scaled_dot_product_attention(&k, &v, AttentionOpts::default())
}

fn transposed(x: [usize; 4], w: [usize; 4], device: Device) -> Tensor {
    small(&x, 1, device).conv_transpose2d(
        &small(&w, 2, device),
        None,
        ConvTransposeOpts::default().stride(2).dilation(2),
    )
}

/// Names, sizes and times of writing of what is in the folder after a process with
/// switches; a second one changes nothing.
fn files(test: &str, device: &str, computed: &str, switches: &str) -> usize {
    let name = format!("kiln-tuning-{}-{device}-{computed}-{switches}", std::process::id());
    let folder = std::env::temp_dir().join(name.replace(' ', "-"));
    let run = || {
        let program = std::env::current_exe().expect("this program");
        let mut run = std::process::Command::new(program);
        run.args(["--exact", test, "--nocapture"]).env("KILN_CACHE_DIR", &folder);
        let run = run.env(SWITCHES, format!("{device},{computed},{switches}")).output().expect("a process");
        let text = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() && text.contains("running 1 test"), "{switches}:\n{text}");
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let written = |entry: std::fs::DirEntry| {
            let about = entry.metadata().expect("a file");
            (entry.file_name(), about.len(), about.modified().expect("a time"))
        };
        let mut all: Vec<_> = entries.map(written).collect();
        all.sort();
        all
    };
    let first = run();
    assert_eq!(run(), first, "{computed}, {switches}: the second process makes nothing anew");
    let _ = std::fs::remove_dir_all(&folder);
    first.len()
}

/// What a process of the test's does.
fn inner(cases: &[(&str, Computed)], device: Device, computed: &str, switches: &str) {
    if switches.contains("benchmark") {
        set_benchmark(true);
    }
    set_deterministic(switches.contains("deterministic"));
    let (_, compute) = cases.iter().find(|(title, _)| *title == computed).expect("a case");
    let values = |device| compute(device).to_vec::<f32>().expect("values");
    let (want, have) = (values(Device::cpu()), values(device));
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * a.abs().max(1.0);
    assert!(want.iter().zip(&have).all(near), "{computed}: other values");
}

/// Holds the switches to what they say on a device; `least` files come of timing.
fn check(test: &str, cases: &[(&str, Computed)], device: Device, least: usize) {
    if let Ok(all) = std::env::var(SWITCHES) {
        let parts: Vec<&str> = all.split(',').collect();
        return inner(cases, device, parts[1], parts[2]);
    }
    let files = |computed: &str, switches: &str| files(test, &device.to_string(), computed, switches);
    for (computed, _) in cases {
        // One kernel and no choice, by default as well.
        let plain = files(computed, "");
        assert_eq!(files(computed, "deterministic benchmark"), plain, "{computed}");
        assert!(files(computed, "benchmark") >= plain + least, "{computed}: no choice is kept");
    }
}

#[test]
fn templates_are_timed_where_the_switches_say_so() {
    let device = Device::cuda(0);
    if !device.name().is_ok_and(|name| name == "simulated device") {
        println!("skipped: no simulated CUDA device");
        return;
    }
    // The choice, and the code of another way.
    check("templates_are_timed_where_the_switches_say_so", SMALL, device, 2);
}

#[test]
fn templates_of_an_adapter_are_timed_where_the_switches_say_so() {
    let device = Device::wgpu(0);
    if let Err(error) = device.name() {
        let required = std::env::var("KILN_REQUIRE").is_ok_and(|list| list.split(',').any(|it| it == "wgpu"));
        assert!(!required, "KILN_REQUIRE asks for wgpu: {error}");
        println!("skipped: {error}");
        return;
    }
    check("templates_of_an_adapter_are_timed_where_the_switches_say_so", LARGE, device, 1);
}
