//! What the CPU's other threads do for a kernel.

use super::*;

#[test]
fn threads_that_help_with_a_kernel_are_beside_the_one_that_launched_it() {
    let _alone = alone();
    if std::thread::available_parallelism().map_or(1, usize::from) == 1 {
        return;
    }
    let x = ones(1024);
    let profiler = Profiler::builder().predict(false).start();
    let product = x.matmul(&x);
    product.realize().expect("a product");
    let profile = profiler.stop().expect("a profile");
    let launched = profile.kernels().next().expect("a kernel").clone();
    let parts: Vec<_> = profile.host_events().filter(|event| event.activity == Activity::Work).collect();
    assert!(!parts.is_empty());
    for part in parts {
        assert_eq!(part.name.as_deref(), Some(launched.kernel.name.as_str()));
        assert!(part.thread != launched.thread && part.at == Some(launched.kernel.at), "{part:?}");
        assert!(launched.start <= part.start && part.end <= launched.end, "{part:?} in {launched:?}");
    }
    // Its time is the kernel's, and nobody's code ran there.
    let averages = profile.key_averages();
    assert!(
        averages.sorted(SortBy::HostTime).iter().all(|row| !row.name.contains("part of a kernel")),
        "{averages:?}"
    );
}
