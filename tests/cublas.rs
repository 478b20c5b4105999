//! Plain products by cuBLASLt: on the simulated CUDA device, whose folder has a
//! simulated cuBLASLt beside it. Which libraries a process finds is settled once, so
//! each test runs in processes of its own.

#![cfg(all(unix, feature = "cuda"))]

use std::process::Command;

use kiln::prelude::*;
use kiln::{
    Context, Precision, set_benchmark, set_deterministic, set_float32_matmul_precision, with_context,
};

/// Set in the processes of a test's.
const INNER: &str = "KILN_TEST_CUBLAS";

/// How the library is called in a kernel's text.
const MARK: &str = "cuBLASLt: c = a b";

/// Whether this is a process that a test started.
fn is_inner() -> bool {
    std::env::var_os(INNER).is_some()
}

/// The folder of the simulated library. Without one tests are skipped, unless
/// `KILN_REQUIRE` asks for the simulated device.
fn folder() -> Option<std::path::PathBuf> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).map(|folder| folder.join("cublas"));
    let found = folders.find(|folder| folder.join("libcublasLt.so.13").exists());
    if found.is_none() {
        let required =
            std::env::var("KILN_REQUIRE").is_ok_and(|list| list.split(',').any(|it| it == "cudasim"));
        assert!(!required, "KILN_REQUIRE asks for the simulated CUDA device");
        println!("skipped: no simulated cuBLASLt on LD_LIBRARY_PATH");
    }
    found
}

/// Runs a test in a process of its own, with or without the library, and with variables.
fn run(test: &str, with_library: bool, variables: &[(&str, &str)]) {
    let Some(folder) = folder() else { return };
    let own = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = std::env::split_paths(&own).chain(with_library.then_some(folder));
    let path = std::env::join_paths(folders).expect("a path");
    let mut run = Command::new(std::env::current_exe().expect("this program"));
    run.args(["--exact", test, "--nocapture"]).env("LD_LIBRARY_PATH", path).env(INNER, "1");
    // Orders of threads are not what is tested here.
    run.env("KILN_CUDA_SIM_ORDERS", "1");
    let run = run.envs(variables.iter().copied()).output().expect("a process");
    let text = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && text.contains("1 passed"), "{test} with {variables:?}:\n{text}");
}

/// Integers from -2 to 2.
fn small<const N: usize>(dims: [usize; N], seed: usize, dtype: DType, device: Device) -> Tensor {
    let count: usize = dims.iter().product();
    let value = |i: usize| ((i * 7 + i / 11 * 3 + seed) % 5) as f32 - 2.0;
    let values: Vec<f32> = (0..count).map(value).collect();
    let x = Tensor::from_vec(values, dims, device).to_dtype(dtype);
    x.realize().expect("a leaf");
    x
}

fn brain<const N: usize>(dims: [usize; N], seed: usize, device: Device) -> Tensor {
    small(dims, seed, DType::BF16, device)
}

fn float<const N: usize>(dims: [usize; N], seed: usize, device: Device) -> Tensor {
    small(dims, seed, DType::F32, device)
}

fn sources(x: &Tensor) -> String {
    let report = x.plan().expect("a plan");
    report.kernels.iter().map(|kernel| kernel.source().expect("a text")).collect()
}

fn values(x: &Tensor) -> Vec<f32> {
    x.to_dtype(DType::F32).to_vec().expect("values")
}

type Case = (&'static str, fn(Device) -> Tensor);

/// What the library computes: large, and nothing but a product.
const PLAIN: &[Case] = &[
    ("32-bit floats", |d| float([256, 256], 1, d).matmul(&float([256, 264], 2, d))),
    ("16-bit floats", |d| brain([264, 272], 1, d).matmul(&brain([272, 240], 2, d))),
    ("halves", |d| small([256, 256], 1, DType::F16, d).matmul(&small([256, 256], 2, DType::F16, d))),
    ("odd", |d| brain([259, 261], 1, d).matmul(&brain([261, 263], 2, d))),
    ("first turned", |d| float([256, 260], 1, d).t().matmul(&float([256, 264], 2, d))),
    ("second turned", |d| brain([256, 256], 1, d).matmul(&brain([264, 256], 2, d).t())),
    ("both turned", |d| brain([256, 264], 1, d).t().matmul(&brain([272, 256], 2, d).t())),
    ("result turned", |d| float([256, 260], 1, d).matmul(&float([260, 264], 2, d)).t().contiguous()),
    ("batched", |d| brain([3, 200, 196], 1, d).matmul(&brain([3, 196, 208], 2, d))),
    ("batched and turned", |d| {
        float([3, 200, 196], 1, d).matmul(&float([3, 208, 196], 2, d).transpose(1, 2))
    }),
    ("one factor for all", |d| float([4, 160, 168], 1, d).transpose(1, 2).matmul(&float([160, 176], 2, d))),
    ("wide sums of 16-bit floats", |d| {
        let wide = |x: Tensor| x.to_dtype(DType::F32);
        wide(brain([256, 256], 1, d)).matmul(&wide(brain([256, 256], 2, d)))
    }),
    ("views", |d| brain([300, 280], 1, d).i((7..267, 3..273)).matmul(&brain([270, 264], 2, d))),
    ("aligned to elements only", |d| {
        let stretch = brain([256 * 256 + 1], 1, d).i(1..);
        stretch.realize().expect("a leaf within another");
        stretch.reshape([256, 256]).matmul(&brain([256, 256], 2, d))
    }),
];

/// What it does not.
const OTHERS: &[Case] = &[
    ("small", |d| float([64, 64], 1, d).matmul(&float([64, 64], 2, d))),
    ("flat", |d| float([16, 1024], 1, d).matmul(&float([1024, 1024], 2, d))),
    ("bias", |d| brain([256, 256], 1, d).matmul(&brain([256, 256], 2, d)) + brain([256], 3, d)),
    ("computed factor", |d| brain([256, 256], 1, d).relu().matmul(&brain([256, 256], 2, d))),
    ("rounded and widened", |d| {
        brain([256, 256], 1, d).matmul(&brain([256, 256], 2, d)).to_dtype(DType::F32)
    }),
    ("integers", |d| small([256, 256], 1, DType::I32, d).matmul(&small([256, 256], 2, DType::I32, d))),
    ("overlapping lines", |d| float([1024], 1, d).unfold(0, 256, 2).matmul(&float([256, 256], 2, d))),
];

/// Computes cases on the device and on the host processor; says which went by the
/// library.
fn check(cases: &[Case], by_library: bool) {
    for (title, product) in cases {
        let text = sources(&product(Device::cuda(0)));
        assert_eq!(text.contains(MARK), by_library, "{title}:\n{text}");
        assert!(
            values(&product(Device::cuda(0))) == values(&product(Device::cpu())),
            "{title}: other numbers"
        );
    }
}

#[test]
fn plain_products_go_by_the_library_and_others_do_not() {
    if !is_inner() {
        return run("plain_products_go_by_the_library_and_others_do_not", true, &[]);
    }
    check(PLAIN, true);
    check(OTHERS, false);
}

#[test]
fn without_the_library_kernels_of_ours_compute_products() {
    const TEST: &str = "without_the_library_kernels_of_ours_compute_products";
    if !is_inner() {
        run(TEST, false, &[]);
        run(TEST, true, &[("KILN_CUBLAS", "0")]);
        // Both ways that the first product is asked for are refused.
        return run(TEST, true, &[("KILN_CUDA_SIM_FAULT", "heuristic:1:15"), ("KILN_TEST_CASES", "1")]);
    }
    let count = std::env::var("KILN_TEST_CASES").map_or(2, |count| count.parse().expect("a number"));
    check(&PLAIN[..count], false);
}

#[test]
fn results_that_must_repeat_in_every_process_go_by_kernels_of_ours() {
    if !is_inner() {
        return run("results_that_must_repeat_in_every_process_go_by_kernels_of_ours", true, &[]);
    }
    set_deterministic(true);
    set_benchmark(true);
    check(&PLAIN[..4], false);
}

/// The simulated library is faster than the simulated kernels.
#[test]
fn timed_products_go_by_the_library_where_it_is_faster() {
    if !is_inner() {
        return run("timed_products_go_by_the_library_where_it_is_faster", true, &[]);
    }
    set_benchmark(true);
    let small = |d: Device| brain([96, 80], 1, d).matmul(&brain([80, 104], 2, d));
    check(&[("small", small)], true);
    check(&OTHERS[2..4], false);
}

#[test]
fn the_precision_of_32_bit_factors_is_what_the_process_says() {
    if !is_inner() {
        return run("the_precision_of_32_bit_factors_is_what_the_process_says", true, &[]);
    }
    let device = Device::cuda(0);
    let full = |x: f32| {
        let leaf = Tensor::from_vec(vec![x; 256 * 256], [256, 256], device);
        leaf.realize().expect("a leaf");
        leaf
    };
    // One more than what 11, and what 8 significant bits hold.
    let (beyond_tf32, beyond_bf16) = (1.0 + f32::powi(2.0, -12), 1.0 + f32::powi(2.0, -9));
    let settings = [
        (Precision::Highest, [256.0 * beyond_tf32, 256.0 * beyond_bf16]),
        (Precision::High, [256.0, 256.0 * beyond_bf16]),
        (Precision::Medium, [256.0, 256.0]),
    ];
    for (precision, wanted) in settings {
        set_float32_matmul_precision(precision);
        for (number, want) in [beyond_tf32, beyond_bf16].into_iter().zip(wanted) {
            let product = full(number).matmul(&full(1.0));
            assert!(sources(&product).contains(MARK), "{precision:?}");
            assert!(values(&product).iter().all(|&have| have == want), "{precision:?}: {number}");
        }
    }
}

/// A product by the library between kernels of ours.
fn chain(rows: usize, seed: usize, scale: f64, device: Device) -> (Tensor, Vec<Tensor>) {
    let (x, w) = (float([rows, 256], seed, device), float([256, 256], seed + 1, device));
    let y = ((x.matmul(&w) * scale).relu().sum(-1).reshape([rows, 1]) + &x).matmul(&w);
    (y, vec![x, w])
}

fn check_chain(seed: usize, scale: f64) -> Vec<Tensor> {
    let (want, _) = chain(256, seed, scale, Device::cpu());
    let (have, mut held) = chain(256, seed, scale, Device::cuda(0));
    assert!(values(&have) == values(&want), "run {seed}");
    held.push(have);
    held
}

#[test]
fn plans_with_library_calls_replay_as_graphs() {
    const TEST: &str = "plans_with_library_calls_replay_as_graphs";
    if !is_inner() {
        run(TEST, true, &[]);
        // A recording that fails costs the graph, a change that does the next one.
        run(TEST, true, &[("KILN_CUDA_SIM_FAULT", "product:2:14")]);
        return run(TEST, true, &[("KILN_CUDA_SIM_FAULT", "change:1:1")]);
    }
    let context = Context::new();
    with_context(&context, || {
        assert!(sources(&chain(256, 0, 1.0, Device::cuda(0)).0).contains(MARK));
        // Whatever is held has its memory for itself, so that addresses change.
        let mut held = Vec::new();
        (0..6).for_each(|seed| held.push(check_chain(seed, seed as f64 * 0.5)));
        held.clear();
        (6..9).for_each(|seed| drop(check_chain(seed, 2.0)));
        assert!(context.counters().graphs_launched >= 5, "{:?}", context.counters());
    });
}

#[test]
fn a_failing_call_is_an_error_with_the_kernels_name() {
    if !is_inner() {
        let fault = [("KILN_CUDA_SIM_FAULT", "product:1:13")];
        return run("a_failing_call_is_an_error_with_the_kernels_name", true, &fault);
    }
    let product = PLAIN[0].1(Device::cuda(0));
    let refusal = product.realize().expect_err("the library refuses").to_string();
    assert!(refusal.contains("contract") && refusal.contains("CUBLAS_STATUS_EXECUTION_FAILED"), "{refusal}");
    // What failed once may go well.
    assert!(values(&product) == values(&PLAIN[0].1(Device::cpu())), "the second time");
}
