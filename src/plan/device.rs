//! Which devices there are.

use crate::base::error::Located;
use crate::base::{Device, DeviceKind, Result, Span};
use crate::plan::context::{self, add};
use crate::plan::guard;
use crate::runtime::trace::{self, Activity};
use crate::runtime::{Properties, Waiting};

/// The families of GPUs, the ones preferred first.
const GPUS: [DeviceKind; 2] = [DeviceKind::Cuda, DeviceKind::Wgpu];

impl DeviceKind {
    /// How many devices of the family there are, numbered from 0. Opens
    /// none: whether one can be used, [`Device::probe`] says.
    pub fn count(self) -> usize {
        context::current().device_count(self)
    }

    /// Whether the family's first device can be used.
    pub fn is_available(self) -> bool {
        self.device(0).probe().is_ok()
    }

    /// Makes a device the one that the family's name alone (`"cuda"`) means
    /// on this thread.
    ///
    /// # Errors
    /// [`crate::Error::DeviceUnavailable`]; the current device then stays.
    #[track_caller]
    pub fn set_current(self, index: u16) -> Result<()> {
        self.device(index).probe()?;
        self.make_current(index);
        Ok(())
    }
}

impl Device {
    /// The fastest device there is: [`Device::try_gpu`]'s first GPU, a simulated one where
    /// GPUs are simulated, never a software adapter; else the CPU.
    pub fn best() -> Device {
        Device::try_gpu(0)
    }

    /// Every device of a family that is there.
    pub fn all(kind: DeviceKind) -> Vec<Device> {
        (0..kind.count() as u16).map(|index| kind.device(index)).collect()
    }

    /// Every device of a family that is there; the CPU alone if there is none.
    pub fn all_or_cpu(kind: DeviceKind) -> Vec<Device> {
        let all = Device::all(kind);
        if all.is_empty() { vec![Device::cpu()] } else { all }
    }

    /// The `index`-th GPU, CUDA's before wgpu's, never a software adapter;
    /// the CPU if there is none of that number.
    pub fn try_gpu(index: u16) -> Device {
        let family = GPUS.into_iter().find(|kind| kind.device(0).is_gpu());
        let gpu = family.map(|kind| kind.device(index));
        gpu.filter(|gpu| gpu.is_gpu()).unwrap_or(Device::cpu())
    }

    /// Whether the device is there, and hardware or a virtual GPU.
    fn is_gpu(self) -> bool {
        self.probe().is_ok() && (context::current().simulates(self.kind) || !is_software(self))
    }

    /// Whether the device can be used.
    ///
    /// # Errors
    /// What is missing, and what mends it.
    #[track_caller]
    pub fn probe(self) -> Result<()> {
        if self.is_meta() { Ok(()) } else { context::current().backend(self).map(|_| ()).located() }
    }

    /// Waits until everything started on the device is done.
    ///
    /// `realize` returns when the work is started; on the CPU, when it is
    /// done. Reading values waits by itself, so this is for measuring time
    /// and for finding a failure where it happened. It does not run what is
    /// still lazy.
    ///
    /// # Errors
    /// The first failure since the last wait; an absent device;
    /// [`crate::Error::SyncDenied`].
    #[track_caller]
    pub fn synchronize(self) -> Result<()> {
        guard::may_wait("synchronize", self, Span::caller(), Waiting::Block)?;
        let context = context::current();
        let backend = context.backend(self).located()?;
        add(&context.counts.host_waits, 1);
        let _span = trace::span(Activity::Wait).on(self).at(Span::caller());
        backend.flush().and_then(|()| backend.sync()).located()
    }

    /// [`Device::synchronize`] as a future. In a page of a browser, where no thread can wait for a GPU, it is
    /// the only form.
    ///
    /// # Errors
    /// As [`Device::synchronize`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// pollster::block_on(Device::cpu().synchronize_async())?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn synchronize_async(self) -> impl Future<Output = Result<()>> {
        let (span, context) = (Span::caller(), context::current());
        async move {
            guard::may_wait("synchronize_async", self, span, Waiting::Yield)?;
            let backend = context.backend(self).map_err(|error| error.at(span))?;
            add(&context.counts.host_waits, 1);
            let done = match backend.flush() {
                Ok(()) => backend.sync_async().await,
                Err(error) => Err(error),
            };
            done.map_err(|error| error.at(span))
        }
    }

    /// Opens the device, asking the browser for it where a page has none yet: other calls find only devices
    /// that this has opened there. Elsewhere every call opens devices by itself, and this does what
    /// [`Device::probe`] does.
    ///
    /// # Errors
    /// What is missing, and what mends it.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let device = pollster::block_on(Device::cpu().open_async())?;
    /// assert_eq!(device, Device::cpu());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn open_async(self) -> impl Future<Output = Result<Device>> {
        let (span, context) = (Span::caller(), context::current());
        async move {
            #[cfg(feature = "wgpu")]
            if self.kind == DeviceKind::Wgpu && !context.simulates(self.kind) {
                crate::runtime::wgpu::adapter::ask(self).await.map_err(|error| error.at(span))?;
            }
            context.backend(self).map_err(|error| error.at(span))?;
            Ok(self)
        }
    }

    /// What the device is: its name, memory, workers, driver, limits, types.
    ///
    /// # Errors
    /// [`crate::Error::DeviceUnavailable`].
    #[track_caller]
    pub fn properties(self) -> Result<Properties> {
        Ok(context::current().backend(self).located()?.properties())
    }

    /// The product's name.
    ///
    /// # Errors
    /// [`crate::Error::DeviceUnavailable`].
    #[track_caller]
    pub fn name(self) -> Result<String> {
        Ok(self.properties()?.name)
    }
}

/// Whether a device is an adapter that the host processor emulates.
fn is_software(device: Device) -> bool {
    #[cfg(feature = "wgpu")]
    if device.kind == DeviceKind::Wgpu {
        return crate::runtime::wgpu::adapter::is_software(device.index) == Some(true);
    }
    let _ = device;
    false
}
