//! A device with everything that goes with it, and its errors.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::system::THREADS_WAIT;
use crate::base::{Device, Error, Optimization, Result};
use crate::render::{Adapter, GpuTarget};
use crate::runtime::wgpu::adapter::{self, Opened};
use crate::runtime::wgpu::memory::DeviceBlocks;
use crate::runtime::wgpu::pipeline::{Pipelines, Placeholder};
use crate::runtime::wgpu::queue::Recorder;
use crate::runtime::wgpu::staging::Staging;

/// An opened device.
pub struct WgpuGpu {
    /// kiln's name for it.
    pub name: Device,
    /// wgpu's device.
    pub device: wgpu::Device,
    /// Its queue.
    pub queue: wgpu::Queue,
    /// What the adapter is.
    pub info: wgpu::AdapterInfo,
    /// What kernels may use.
    pub target: GpuTarget,
    /// Whether templates run in the sizes found fastest by timing, not the tables'.
    pub times_choices: bool,
    /// Compiled shaders.
    pub pipelines: Pipelines,
    /// On software drivers, what new shaders are first launched on.
    pub placeholder: Option<Placeholder>,
    /// Memory. Locked before the recorder where both are.
    pub blocks: Mutex<DeviceBlocks>,
    /// What is recorded but not submitted.
    pub recorder: Mutex<Recorder>,
    /// Held while submitting.
    pub submission: Mutex<()>,
    /// Submissions so far.
    #[cfg(test)]
    pub submissions: std::sync::atomic::AtomicUsize,
    /// What the host writes through.
    pub staging: Staging,
    faults: Arc<Faults>,
    /// What a test has compiled in the place of a shader's text.
    #[cfg(test)]
    pub rewrite: Option<fn(&str) -> String>,
}

/// What went wrong outside any call.
#[derive(Debug, Default)]
struct Faults {
    /// Why the device is lost, once it is.
    lost: Mutex<Option<String>>,
    /// The first error that no scope caught.
    stray: Mutex<Option<StrayError>>,
}

/// An error that no scope caught: in a page, any.
#[derive(Debug)]
struct StrayError {
    message: String,
    /// The label of what was being made, a shader's being its kernel's name.
    label: Option<String>,
    out_of_memory: bool,
}

impl StrayError {
    fn of(error: &wgpu::Error) -> StrayError {
        let message = error.to_string();
        let label = message.rsplit_once("Module \"").or_else(|| message.rsplit_once("Pipeline \""));
        let label = label.and_then(|(_, rest)| Some(rest.split_once('"')?.0.to_string()));
        StrayError { label, message, out_of_memory: matches!(error, wgpu::Error::OutOfMemory { .. }) }
    }
}

impl WgpuGpu {
    /// Opens the adapter of that number.
    ///
    /// # Errors
    /// No such adapter, or its driver refuses.
    pub fn open(name: Device) -> Result<Arc<WgpuGpu>> {
        let all = Optimization::OptionalFeatures.is_on();
        WgpuGpu::open_with(name, if all { adapter::WANTED } else { adapter::WANTED_IN_PAGES })
    }

    /// Opens the adapter of that number with those of these features that it has.
    ///
    /// # Errors
    /// No such adapter, or its driver refuses.
    pub fn open_with(name: Device, features: wgpu::Features) -> Result<Arc<WgpuGpu>> {
        let Opened { device, queue, info, target } = adapter::open(name, features)?;
        let faults = Arc::new(Faults::default());
        let own = faults.clone();
        device.set_device_lost_callback(move |reason, message| {
            lock(&own.lost).get_or_insert(format!("the device is lost ({reason:?}): {message}"));
        });
        let own = faults.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            lock(&own.stray).get_or_insert(StrayError::of(&error));
        }));
        let recorder = Recorder::new(&device);
        let blocks = DeviceBlocks::new(name, &device, &info);
        let pipelines = Pipelines::default();
        let early = target.adapter == Adapter::Software && !target.separate_buffers;
        let placeholder = early.then(|| Placeholder::new(&device));
        Ok(Arc::new(WgpuGpu {
            name,
            device,
            queue,
            info,
            times_choices: THREADS_WAIT && target.adapter != Adapter::Software,
            target,
            pipelines,
            placeholder,
            blocks: Mutex::new(blocks),
            recorder: Mutex::new(recorder),
            submission: Mutex::new(()),
            #[cfg(test)]
            submissions: Default::default(),
            staging: Staging::default(),
            faults,
            #[cfg(test)]
            rewrite: None,
        }))
    }

    /// Whether the device can no longer be used.
    pub fn is_lost(&self) -> bool {
        lock(&self.faults.lost).is_some()
    }

    /// Fails if the device is lost or an error went unnoticed.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<()> {
        if let Some(reason) = &*lock(&self.faults.lost) {
            return Err(Error::DeviceUnavailable { device: self.name, reason: reason.clone(), span: None });
        }
        match lock(&self.faults.stray).take() {
            Some(StrayError { out_of_memory: true, .. }) => Err(Error::OutOfMemory {
                device: self.name,
                requested: 0,
                in_use: 0,
                limit: u64::MAX,
                largest: Arc::new([]),
                span: None,
            }),
            Some(StrayError { message, label, .. }) => {
                Err(self.error(label.as_deref().unwrap_or_default(), message))
            }
            None => Ok(()),
        }
    }

    /// A driver's failure in a kernel, or in none.
    pub fn error(&self, kernel: &str, message: String) -> Error {
        let kernel = if kernel.is_empty() { "(none)" } else { kernel };
        Error::Kernel { kernel: kernel.into(), device: self.name, message, span: None }
    }

    /// Runs calls of the driver, and gives their error if there is one.
    ///
    /// # Errors
    /// What the driver reported, or that the device is lost.
    pub fn scoped<T>(&self, what: &str, calls: impl FnOnce() -> T) -> Result<T> {
        self.check()?;
        if !THREADS_WAIT {
            // What a scope caught would be known later: errors are taken where no scope catches them.
            let result = calls();
            return self.check().map(|()| result);
        }
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let result = calls();
        let validation = pollster::block_on(validation.pop());
        let memory = pollster::block_on(memory.pop());
        let internal = pollster::block_on(internal.pop());
        let error = validation.or(internal).or(memory);
        if error.is_some() {
            // A lost device says so only when it is polled.
            let _ = self.device.poll(wgpu::PollType::Poll);
            self.check()?;
        }
        match error {
            None => self.check().map(|()| result),
            Some(wgpu::Error::OutOfMemory { .. }) => Err(lock(&self.blocks).refused(self, 0)),
            Some(error) => Err(self.error(what, error.to_string())),
        }
    }

    /// Waits for everything submitted.
    ///
    /// # Errors
    /// The driver's failure, or that the device is lost.
    pub fn wait(&self) -> Result<()> {
        if !THREADS_WAIT {
            return Err(
                self.error("", "the thread of a page cannot wait for a device; await the call".into())
            );
        }
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        self.check()?;
        polled.map(|_| ()).map_err(|error| self.error("", error.to_string()))
    }
}

impl std::fmt::Debug for WgpuGpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WgpuGpu({}, {})", self.name, adapter::describe(&self.info))
    }
}

/// Locks; what is behind is consistent between statements, so that a poisoned
/// lock is usable.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A buffer of so many zero bytes.
pub fn buffer(device: &wgpu::Device, size: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
}
