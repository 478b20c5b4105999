//! A device whose calls are watched: before each, a closure is told its name,
//! and may fail it, or wait.

use std::fmt;
use std::sync::Arc;

use kiln::prelude::*;
use kiln::unstable::ir::DeviceBuffer;
use kiln::unstable::kernel::Workload;
use kiln::unstable::runtime::{Backend, Binding, Bindings, Capabilities, Ledger, MemoryStats, Program};

/// What is told of every call.
pub type Watch = Arc<dyn Fn(&str) -> kiln::Result<()> + Send + Sync>;

/// A device, and who watches it.
pub struct Watched {
    pub inner: Arc<dyn Backend>,
    pub watch: Watch,
}

struct WatchedProgram(Arc<dyn Program>, Watch);

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for WatchedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Program for WatchedProgram {
    fn source(&self) -> String {
        self.0.source()
    }
    fn launch(&self, bindings: &Bindings<'_>) -> kiln::Result<()> {
        (self.1)("launch")?;
        self.0.launch(bindings)
    }
}

impl Backend for Watched {
    fn device(&self) -> Device {
        self.inner.device()
    }
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }
    fn allocate(&self, bytes: usize) -> kiln::Result<DeviceBuffer> {
        (self.watch)("allocate")?;
        self.inner.allocate(bytes)
    }
    fn upload(&self, data: &[u8]) -> kiln::Result<DeviceBuffer> {
        (self.watch)("upload")?;
        self.inner.upload(data)
    }
    fn download(&self, buffer: &DeviceBuffer, start: usize, out: &mut [u8]) -> kiln::Result<()> {
        (self.watch)("download")?;
        self.inner.download(buffer, start, out)
    }
    fn copy(&self, from: Binding<'_>, to: Binding<'_>, bytes: usize) -> kiln::Result<()> {
        (self.watch)("copy")?;
        self.inner.copy(from, to, bytes)
    }
    fn write(&self, to: Binding<'_>, data: &[u8]) -> kiln::Result<()> {
        (self.watch)("write")?;
        self.inner.write(to, data)
    }
    fn compile(&self, work: &Workload) -> kiln::Result<Arc<dyn Program>> {
        (self.watch)("compile")?;
        Ok(Arc::new(WatchedProgram(self.inner.compile(work)?, self.watch.clone())))
    }
    fn flush(&self) -> kiln::Result<()> {
        (self.watch)("flush")?;
        self.inner.flush()
    }
    fn sync(&self) -> kiln::Result<()> {
        (self.watch)("sync")?;
        self.inner.sync()
    }
    fn memory(&self) -> MemoryStats {
        self.inner.memory()
    }
    fn with_ledger(&self, look: &mut dyn FnMut(&mut Ledger)) -> bool {
        self.inner.with_ledger(look)
    }
    fn set_memory_limit(&self, bytes: u64) {
        self.inner.set_memory_limit(bytes);
    }
    fn empty_cache(&self) {
        self.inner.empty_cache();
    }
}
