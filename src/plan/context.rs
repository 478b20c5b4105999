//! Contexts: devices, caches and counters. There is one default; tests and
//! careful programs make their own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

use crate::base::error::Located;
use crate::base::scope::{Scope, Scopes};
use crate::base::{Device, DeviceKind, Direction, Error, Result, config, process};
use crate::kernel::Workload;
use crate::plan::build::Plan;
use crate::plan::cache::{Lookup, PlanCache};
use crate::plan::constants::Constants;
use crate::plan::key::{KeyValues, Skeleton};
use crate::plan::programs::Programs;
use crate::runtime::cpu::CpuBackend;
use crate::runtime::{Backend, MemoryStats, Program, null};

/// Devices, plan and kernel caches, counters.
#[derive(Debug, Default)]
pub struct Context {
    /// How many devices of a family are simulated.
    simulated: HashMap<DeviceKind, u16>,
    backends: Mutex<HashMap<Device, Arc<dyn Backend>>>,
    /// Read by every realize, so that threads may do so at once.
    plans: RwLock<PlanCache>,
    programs: Mutex<Programs>,
    pub(crate) constants: Constants,
    pub(crate) counts: AtomicCounters,
}

/// What a context has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Plans built (cache misses).
    pub plans_built: u64,
    /// Plans that reuse one built for other sizes: its fusion groups and step
    /// order, but not its kernels and memory.
    pub plans_resized: u64,
    /// Plans found in the cache.
    pub cache_hits: u64,
    /// Kernels compiled (not found in the kernel cache). One text that serves
    /// several sizes counts once; so does, on devices that interpret kernels
    /// (the CPU, the null device), what differs in sizes only.
    pub kernels_compiled: u64,
    /// Kernels launched.
    pub kernels_launched: u64,
    /// Times that kernels which follow each other were launched by one call of
    /// the driver's (CUDA graphs).
    pub graphs_launched: u64,
    /// Calls of the driver's that this saved.
    pub launches_saved: u64,
    /// Bytes that kernels loaded and stored.
    pub bytes_moved: u64,
    /// Bytes copied from the host's memory to devices.
    pub bytes_to_device: u64,
    /// Bytes copied from devices to the host's memory, to be read there.
    pub bytes_to_host: u64,
    /// Bytes copied from one device to another.
    pub bytes_between_devices: u64,
    /// Times the host waited for a device.
    pub host_waits: u64,
    /// Operations of groups of ranks ([`dist`](crate::dist)) that plans have run.
    pub collectives: u64,
}

/// On cache lines of their own: every realize writes some.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct AtomicCounters {
    pub plans_built: AtomicU64,
    pub plans_resized: AtomicU64,
    pub cache_hits: AtomicU64,
    pub kernels_compiled: AtomicU64,
    pub kernels_launched: AtomicU64,
    pub graphs_launched: AtomicU64,
    pub launches_saved: AtomicU64,
    pub bytes_moved: AtomicU64,
    pub bytes_to_device: AtomicU64,
    pub bytes_to_host: AtomicU64,
    pub bytes_between_devices: AtomicU64,
    pub host_waits: AtomicU64,
    pub collectives: AtomicU64,
}

impl Counters {
    /// Bytes copied between devices, or between a device and the host.
    pub fn bytes_transferred(&self) -> u64 {
        self.bytes_to_device + self.bytes_to_host + self.bytes_between_devices
    }
}

impl AtomicCounters {
    /// AtomicCounters a copy from one device to another.
    pub(crate) fn transferred(&self, from: Device, to: Device, bytes: usize) {
        let counter = match Direction::of(from, to) {
            Direction::ToDevice => &self.bytes_to_device,
            Direction::ToHost => &self.bytes_to_host,
            Direction::BetweenDevices => &self.bytes_between_devices,
        };
        add(counter, bytes as u64);
    }
}

pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

impl Context {
    /// A context with empty caches and its own devices' memory. Virtual
    /// devices are those of `KILN_VIRTUAL_DEVICES`.
    pub fn new() -> Arc<Context> {
        Context::with_virtual_devices(&config::config().virtual_devices)
    }

    /// A context where some families have this many devices, simulated by the
    /// host processor: programs for several devices run and are tested
    /// without them. The null family's run nothing as ever; the first of the
    /// CPU's is the CPU.
    pub fn with_virtual_devices(devices: &[(DeviceKind, u16)]) -> Arc<Context> {
        Arc::new(Context { simulated: devices.iter().copied().collect(), ..Context::default() })
    }

    /// How many devices of a family there are, numbered from 0: what drivers
    /// list, what is simulated, what was installed. Opens none, so a listed
    /// device may still turn out to be unusable.
    pub fn device_count(&self, kind: DeviceKind) -> usize {
        let listed = match (kind, self.simulated.get(&kind)) {
            (DeviceKind::Meta, _) => 1,
            // The first of these is always there.
            (DeviceKind::Cpu | DeviceKind::Null, count) => {
                count.map_or(1, |&count| usize::from(count).max(1))
            }
            (DeviceKind::Wgpu | DeviceKind::Cuda, Some(&count)) => usize::from(count),
            (DeviceKind::Wgpu | DeviceKind::Cuda, None) => listed(kind),
        };
        if process::is_forked() {
            return listed;
        }
        let backends = lock(&self.backends);
        let installed = |index: &usize| {
            u16::try_from(*index).is_ok_and(|index| backends.contains_key(&kind.device(index)))
        };
        listed + (listed..).take_while(installed).count()
    }

    /// Whether the host processor simulates a family's devices.
    pub fn simulates(&self, kind: DeviceKind) -> bool {
        self.simulated.contains_key(&kind)
    }

    /// What the context has done.
    pub fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        Counters {
            plans_built: read(&counts.plans_built),
            plans_resized: read(&counts.plans_resized),
            cache_hits: read(&counts.cache_hits),
            kernels_compiled: read(&counts.kernels_compiled),
            kernels_launched: read(&counts.kernels_launched),
            graphs_launched: read(&counts.graphs_launched),
            launches_saved: read(&counts.launches_saved),
            bytes_moved: read(&counts.bytes_moved),
            bytes_to_device: read(&counts.bytes_to_device),
            bytes_to_host: read(&counts.bytes_to_host),
            bytes_between_devices: read(&counts.bytes_between_devices),
            host_waits: read(&counts.host_waits),
            collectives: read(&counts.collectives),
        }
    }

    /// Forgets all plans and compiled kernels.
    pub fn clear_caches(&self) {
        *self.plans.write().unwrap_or_else(PoisonError::into_inner) = PlanCache::default();
        *lock(&self.programs) = Programs::default();
    }

    /// The backend of a device.
    ///
    /// # Errors
    /// [`Error::DeviceUnavailable`], saying what is missing.
    pub fn backend(&self, device: Device) -> Result<Arc<dyn Backend>> {
        process::whole(device)?;
        if let Some(backend) = lock(&self.backends).get(&device) {
            return Ok(backend.clone());
        }
        let backend = self.open(device)?;
        Ok(lock(&self.backends).entry(device).or_insert(backend).clone())
    }

    fn open(&self, device: Device) -> Result<Arc<dyn Backend>> {
        let simulated = self.simulated.get(&device.kind).copied();
        let unavailable = |reason: String| Err(Error::DeviceUnavailable { device, reason, span: None });
        match (device.kind, simulated) {
            (DeviceKind::Wgpu, _) if device.is_absent_metal() => {
                unavailable("this system has no Metal; wgpu:0 is its first adapter".into())
            }
            (DeviceKind::Wgpu | DeviceKind::Cuda, Some(count)) if device.index < count => {
                Ok(Arc::new(CpuBackend::named(device)))
            }
            (DeviceKind::Wgpu | DeviceKind::Cuda, None) | (DeviceKind::Meta, _) => open(device),
            (DeviceKind::Cpu | DeviceKind::Null, _) if device.index == 0 => open(device),
            (DeviceKind::Cpu, Some(count)) if device.index < count => Ok(Arc::new(CpuBackend::named(device))),
            (DeviceKind::Null, Some(count)) if device.index < count => {
                Ok(Arc::new(null::NullBackend::named(device, null::CAPABILITIES)))
            }
            (kind, count) => {
                let count = count.unwrap_or(1);
                unavailable(format!(
                    "there are {count} {kind} devices; KILN_VIRTUAL_DEVICES={kind}={} makes it one",
                    u32::from(device.index) + 1
                ))
            }
        }
    }

    /// Uses `backend` for its device from now on: a simulator, say, or a
    /// device under test. Forgets all plans and compiled kernels.
    pub fn install(&self, backend: Arc<dyn Backend>) {
        lock(&self.backends).insert(backend.device(), backend);
        self.clear_caches();
    }

    /// The devices that have been used, in the order of their names.
    pub(crate) fn used_devices(&self) -> Vec<Device> {
        let mut devices: Vec<Device> = lock(&self.backends).keys().copied().collect();
        devices.sort_unstable();
        devices
    }

    /// How much memory a device holds. The CPU's is the process's: all
    /// contexts share it.
    ///
    /// # Errors
    /// As [`Context::backend`].
    #[track_caller]
    pub fn memory(&self, device: Device) -> Result<MemoryStats> {
        Ok(self.backend(device).located()?.memory())
    }

    /// Sets the most bytes that a device may hold at once. What would exceed
    /// them is [`Error::OutOfMemory`]; everything that was there stays.
    ///
    /// # Errors
    /// As [`Context::backend`].
    #[track_caller]
    pub fn set_memory_limit(&self, device: Device, bytes: u64) -> Result<()> {
        self.backend(device).located()?.set_memory_limit(bytes);
        Ok(())
    }

    pub(crate) fn look_up(&self, skeleton: &Skeleton, values: &KeyValues) -> Lookup {
        let hit = self.plans.read().unwrap_or_else(PoisonError::into_inner).hit(skeleton, values);
        if let Some(plan) = hit {
            return Lookup::Hit(plan);
        }
        self.plans.write().unwrap_or_else(PoisonError::into_inner).look_up(skeleton, values)
    }

    /// Keeps a plan; the first of two that two threads built wins.
    pub(crate) fn keep(
        &self,
        skeleton: Skeleton,
        values: KeyValues,
        lifted: Vec<bool>,
        plan: Arc<Plan>,
    ) -> Arc<Plan> {
        self.plans.write().unwrap_or_else(PoisonError::into_inner).keep(skeleton, values, lifted, plan)
    }

    /// The program of a work, from the cache or compiled now.
    pub(crate) fn program(
        &self,
        device: Device,
        work: &Arc<Workload>,
        compile: impl FnOnce() -> Result<Arc<dyn Program>>,
    ) -> Result<Arc<dyn Program>> {
        let key = (device, work.clone());
        if let Some(known) = lock(&self.programs).get(&key) {
            return Ok(known);
        }
        // Outside the call below, whose lock would block other threads that compile.
        let program = compile()?;
        let (program, compiled) = lock(&self.programs).keep(key, program);
        add(&self.counts.kernels_compiled, compiled);
        Ok(program)
    }
}

fn open(device: Device) -> Result<Arc<dyn Backend>> {
    let unavailable =
        |reason: &str| Err(Error::DeviceUnavailable { device, reason: reason.into(), span: None });
    if matches!(device.kind, DeviceKind::Wgpu | DeviceKind::Cuda) {
        process::started();
    }
    match device.kind {
        DeviceKind::Cpu => Ok(Arc::new(CpuBackend::new())),
        DeviceKind::Null => Ok(Arc::new(null::NullBackend::new(null::CAPABILITIES))),
        DeviceKind::Meta => unavailable("the meta device has no memory and runs nothing"),
        #[cfg(feature = "wgpu")]
        DeviceKind::Wgpu => Ok(Arc::new(crate::runtime::wgpu::WgpuBackend::open(device)?)),
        #[cfg(not(feature = "wgpu"))]
        DeviceKind::Wgpu => unavailable("this build of kiln is without the feature wgpu"),
        #[cfg(feature = "cuda")]
        DeviceKind::Cuda => Ok(Arc::new(crate::runtime::cuda::CudaBackend::open(device)?)),
        #[cfg(not(feature = "cuda"))]
        DeviceKind::Cuda => unavailable("this build of kiln is without the feature cuda"),
    }
}

/// How many devices of a family the driver lists.
fn listed(kind: DeviceKind) -> usize {
    if matches!(kind, DeviceKind::Wgpu | DeviceKind::Cuda) {
        if process::is_forked() {
            return 0;
        }
        process::started();
    }
    match kind {
        DeviceKind::Cpu | DeviceKind::Null | DeviceKind::Meta => 1,
        #[cfg(feature = "wgpu")]
        DeviceKind::Wgpu => crate::runtime::wgpu::adapter::adapters().len(),
        #[cfg(not(feature = "wgpu"))]
        DeviceKind::Wgpu => 0,
        #[cfg(feature = "cuda")]
        DeviceKind::Cuda => crate::runtime::cuda::driver::start().unwrap_or(0),
        #[cfg(not(feature = "cuda"))]
        DeviceKind::Cuda => 0,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The maps are consistent between statements, so a poisoned lock is usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

static DEFAULT: LazyLock<Arc<Context>> = LazyLock::new(Context::new);

thread_local! {
    static CURRENT: Scopes<Arc<Context>> = const { Scopes::new() };
}

/// The context that realize uses on this thread: the innermost
/// [`context_scope`], else the process's default.
pub fn current() -> Arc<Context> {
    CURRENT.with(Scopes::innermost).unwrap_or_else(|| DEFAULT.clone())
}

/// Ends a context's scope when dropped.
#[must_use]
#[derive(Debug)]
pub struct ContextScope(#[expect(dead_code, reason = "held to be dropped")] Scope<Arc<Context>>);

/// Makes `context` this thread's current one until the guard is dropped.
pub fn context_scope(context: Arc<Context>) -> ContextScope {
    ContextScope(Scope::open(&CURRENT, context))
}

/// Runs the closure with `context` as this thread's current one.
pub fn with_context<R>(context: &Arc<Context>, body: impl FnOnce() -> R) -> R {
    let _scope = context_scope(context.clone());
    body()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::realize::planned;
    use crate::tensor::Tensor;

    #[test]
    fn scopes_that_end_in_another_order_leave_no_context_behind() {
        let (before, one, other) = (current(), Context::new(), Context::new());
        let (outer, inner) = (context_scope(one), context_scope(other.clone()));
        drop(outer);
        assert!(Arc::ptr_eq(&current(), &other));
        drop(inner);
        assert!(Arc::ptr_eq(&current(), &before));
    }

    #[test]
    fn counting_devices_opens_none() {
        let simulated = [(DeviceKind::Cpu, 3), (DeviceKind::Cuda, 2)];
        let context = Context::with_virtual_devices(&simulated);
        let kinds = [DeviceKind::Cpu, DeviceKind::Cuda, DeviceKind::Wgpu, DeviceKind::Null, DeviceKind::Meta];
        let counts = kinds.map(|kind| context.device_count(kind));
        assert_eq!([counts[0], counts[1], counts[3], counts[4]], [3, 2, 1, 1]);
        assert!(lock(&context.backends).is_empty(), "counting opened a device");
        // What is installed counts as far as numbers follow each other.
        for (index, count) in [(3, 2), (2, 4)] {
            context.install(Arc::new(CpuBackend::named(Device::cuda(index))));
            assert_eq!(context.device_count(DeviceKind::Cuda), count);
        }
    }

    /// Threads that want the same plan get the same one, whoever built it.
    #[test]
    fn threads_share_the_plan_cache() {
        let context = Context::new();
        let rounds = if cfg!(miri) { 2 } else { 50 };
        let plan = &|steps: usize| {
            let x = Tensor::empty([4, 4], Device::meta());
            let y = (0..steps).fold(x, |y, _| (&y + 1.0).sum_keepdim(0) * &y);
            planned(&context, std::slice::from_ref(y.node().expect("no error")))
        };
        let plans: Vec<Vec<Arc<Plan>>> = std::thread::scope(|scope| {
            let work = move |seed: usize| (0..rounds).map(|round| plan(1 + (seed + round) % 3)).collect();
            let threads: Vec<_> = (0..8).map(|seed| scope.spawn(move || work(seed))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        for (seed, of_thread) in plans.iter().enumerate() {
            for (round, found) in of_thread.iter().enumerate() {
                assert!(Arc::ptr_eq(found, &plan(1 + (seed + round) % 3)), "thread {seed}, round {round}");
            }
        }
        assert_eq!(context.plans.read().expect("no panic").count(), 3);
    }
}
