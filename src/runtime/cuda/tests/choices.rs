//! Each way in which a template computes a kernel on a device, and the choice of one.

use std::sync::Arc;

use super::device;
use crate::base::set_benchmark;
use crate::kernel::Kernel;
use crate::render::{GpuTarget, TemplateChoice, cuda};
use crate::runtime::Backend;
use crate::runtime::cpu::tests::choices::{Ways, agree_and_the_fastest_runs, own_folder};

fn opened(choice: Option<TemplateChoice>) -> Arc<dyn Backend> {
    let mut backend = device().expect("it was there");
    backend.target = GpuTarget { choice, ..backend.target.clone() };
    set_benchmark(false);
    Arc::new(backend)
}

#[test]
fn every_way_agrees_and_the_fastest_runs() {
    // In a process of its own, since the switch is the whole process's.
    const TEST: &str = "runtime::cuda::tests::choices::every_way_agrees_and_the_fastest_runs";
    let Some(there) = device() else { return };
    let Some(folder) = own_folder(TEST) else { return };
    let timing = || {
        let backend = opened(None);
        set_benchmark(true);
        backend
    };
    let choices = |kernel: &Kernel| cuda::choices(kernel, &there.target);
    agree_and_the_fastest_runs(&Ways { with: &opened, timing: &timing, choices: &choices }, &folder);
}
