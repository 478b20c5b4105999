//! Works are compiled side by side where a device's compiler serves several threads.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::base::{Device, Result};
use crate::ir::DeviceBuffer;
use crate::kernel::Workload;
use crate::plan::context::{Context, with_context};
use crate::runtime::null::{CAPABILITIES, NullBackend};
use crate::runtime::{Backend, Binding, Capabilities, MemoryStats, Program};
use crate::tensor::Tensor;

/// A null device whose compiler is done with a work when another thread compiles too, or
/// after a while.
#[derive(Debug)]
struct Meeting {
    null: NullBackend,
    /// Compilations under way, and the most there were.
    compiling: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Backend for Meeting {
    fn device(&self) -> Device {
        self.null.device()
    }
    fn capabilities(&self) -> &Capabilities {
        self.null.capabilities()
    }
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer> {
        self.null.allocate(bytes)
    }
    fn upload(&self, data: &[u8]) -> Result<DeviceBuffer> {
        self.null.upload(data)
    }
    fn download(&self, buffer: &DeviceBuffer, start: usize, out: &mut [u8]) -> Result<()> {
        self.null.download(buffer, start, out)
    }
    fn copy(&self, from: Binding<'_>, to: Binding<'_>, bytes: usize) -> Result<()> {
        self.null.copy(from, to, bytes)
    }
    fn compile(&self, work: &Workload) -> Result<Arc<dyn Program>> {
        let mut compiling = self.compiling.lock().expect("no panic before");
        compiling.0 += 1;
        compiling.1 = compiling.1.max(compiling.0);
        self.changed.notify_all();
        let alone = |state: &mut (usize, usize)| state.1 < 2;
        let wait = self.changed.wait_timeout_while(compiling, Duration::from_secs(5), alone);
        wait.expect("no panic before").0.0 -= 1;
        self.null.compile(work)
    }
    fn compiles_in_parallel(&self) -> bool {
        true
    }
    fn sync(&self) -> Result<()> {
        self.null.sync()
    }
    fn memory(&self) -> MemoryStats {
        self.null.memory()
    }
    fn set_memory_limit(&self, bytes: u64) {
        self.null.set_memory_limit(bytes);
    }
    fn empty_cache(&self) {
        self.null.empty_cache();
    }
}

#[test]
fn works_of_a_plan_are_compiled_side_by_side() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return println!("skipped: one thread is all there is");
    }
    let context = Context::new();
    let null = NullBackend::new(CAPABILITIES);
    let meeting = Arc::new(Meeting { null, compiling: Mutex::default(), changed: Condvar::new() });
    context.install(meeting.clone());
    with_context(&context, || {
        let x = Tensor::zeros([64, 64], Device::null());
        crate::realize(&[&x.matmul(&x), &x.sum(0)]).expect("it runs");
    });
    assert_eq!(*meeting.compiling.lock().expect("no panic before"), (0, 2));
}
