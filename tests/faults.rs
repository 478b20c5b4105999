//! Faults at every call of a device: nothing panics, nothing that was there
//! is lost, and the same graph runs once the device is well again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kiln::ir::Buffer;
use kiln::kernel::Work;
use kiln::prelude::*;
use kiln::runtime::cpu::CpuBackend;
use kiln::runtime::{Backend, Binding, Bindings, Capabilities, Ledger, MemoryStats, Program};
use kiln::{Context, Error, Result, with_context};

const DEV: Device = Device::cuda(0);

/// Calls until one fails; below 0, none will.
#[derive(Debug, Default)]
struct Fuse(AtomicI64);

impl Fuse {
    fn burn(&self, call: &str) -> Result<()> {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 0 {
            let (kernel, message) = (call.into(), "the device is lost".into());
            return Err(Error::Kernel { kernel, device: DEV, message });
        }
        Ok(())
    }
    fn set(&self, calls: i64) {
        self.0.store(calls, Ordering::Relaxed);
    }
    /// Whether it has failed since it was set.
    fn is_burnt(&self) -> bool {
        self.0.load(Ordering::Relaxed) < 0
    }
}

/// A simulated GPU, one of whose calls fails.
#[derive(Debug)]
struct Faulty {
    cpu: CpuBackend,
    fuse: Arc<Fuse>,
}

#[derive(Debug)]
struct FaultyProgram(Arc<dyn Program>, Arc<Fuse>);

impl Program for FaultyProgram {
    fn source(&self) -> String {
        self.0.source()
    }
    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        self.1.burn("launch")?;
        self.0.launch(bindings)
    }
}

impl Backend for Faulty {
    fn device(&self) -> Device {
        DEV
    }
    fn capabilities(&self) -> &Capabilities {
        self.cpu.capabilities()
    }
    fn allocate(&self, bytes: usize) -> Result<Buffer> {
        self.fuse.burn("allocate")?;
        self.cpu.allocate(bytes)
    }
    fn upload(&self, data: &[u8]) -> Result<Buffer> {
        self.fuse.burn("upload")?;
        self.cpu.upload(data)
    }
    fn download(&self, buffer: &Buffer, start: usize, out: &mut [u8]) -> Result<()> {
        self.fuse.burn("download")?;
        self.cpu.download(buffer, start, out)
    }
    fn copy(&self, from: Binding<'_>, to: Binding<'_>, bytes: usize) -> Result<()> {
        self.fuse.burn("copy")?;
        self.cpu.copy(from, to, bytes)
    }
    fn write(&self, to: Binding<'_>, data: &[u8]) -> Result<()> {
        self.fuse.burn("write")?;
        self.cpu.write(to, data)
    }
    fn compile(&self, work: &Work) -> Result<Arc<dyn Program>> {
        self.fuse.burn("compile")?;
        Ok(Arc::new(FaultyProgram(self.cpu.compile(work)?, self.fuse.clone())))
    }
    fn flush(&self) -> Result<()> {
        self.fuse.burn("flush")
    }
    fn sync(&self) -> Result<()> {
        self.fuse.burn("sync")
    }
    fn memory(&self) -> MemoryStats {
        self.cpu.memory()
    }
    fn with_ledger(&self, look: &mut dyn FnMut(&mut Ledger)) -> bool {
        self.cpu.with_ledger(look)
    }
    fn set_memory_limit(&self, bytes: u64) {
        self.cpu.set_memory_limit(bytes);
    }
    fn empty_cache(&self) {
        self.cpu.empty_cache();
    }
}

/// Kernels, a scan, a sort, a repetition and transfers both ways.
fn work(x: &Tensor, w: &Tensor) -> Tensor {
    let there = x.to(DEV);
    let hidden = there.matmul(w).softmax(-1);
    let sorted = hidden.sort(-1, false).0.cumsum(0);
    let looped = kiln::fori_loop(3, std::slice::from_ref(&sorted), |_, carried| vec![&carried[0] * 0.5 + w]);
    (looped[0].cpu() + x).sum(0)
}

#[test]
fn any_call_may_fail_and_nothing_is_lost() {
    let fuse = Arc::new(Fuse::default());
    let context = Context::with_virtual_devices(&[]);
    context.install(Arc::new(Faulty { cpu: CpuBackend::named(DEV), fuse: fuse.clone() }));
    with_context(&context, || {
        fuse.set(-1);
        let x = Tensor::from_vec((0..64).map(|i| i as f32 / 8.0).collect(), [8, 8], Device::cpu());
        let w = (&x * 0.25).to(DEV);
        kiln::realize(&[&x, &w]).expect("nothing fails yet");
        let expected = work(&x, &w).to_vec::<f32>().expect("nothing fails yet");
        let (inputs, held) = (x.to_vec::<f32>().unwrap(), DEV.memory_allocated().unwrap());
        let mut failures = 0;
        for calls in 0.. {
            context.clear_caches();
            let y = work(&x, &w);
            fuse.set(calls);
            let outcome = y.to_vec::<f32>();
            let failed = fuse.is_burnt();
            fuse.set(-1);
            assert_eq!(outcome.is_err(), failed, "call {calls}: {outcome:?}");
            assert_eq!(x.to_vec::<f32>().unwrap(), inputs, "call {calls} lost the input");
            assert_eq!(y.to_vec::<f32>().unwrap(), expected, "call {calls}: the device is well again");
            drop(y);
            assert_eq!(DEV.memory_allocated().unwrap(), held, "call {calls} left memory behind");
            if !failed {
                break;
            }
            failures += 1;
        }
        assert!(failures > 15, "only {failures} calls could fail");
    });
}
