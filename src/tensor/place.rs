//! Where and as what a new tensor is created: the last argument of creation.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::base::{DType, Device, config};
use crate::tensor::Tensor;

/// A device and an element type, either of which may be left to the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The device; the scoped default if `None`.
    pub device: Option<Device>,
    /// The element type; the operation's default if `None`.
    pub dtype: Option<DType>,
}

impl Place {
    /// The device named, or the default one.
    pub fn device(self) -> Device {
        self.device.unwrap_or_else(default_device)
    }
    /// The type named, or `default`.
    pub fn dtype_or(self, default: DType) -> DType {
        self.dtype.unwrap_or(default)
    }
}

impl From<()> for Place {
    fn from((): ()) -> Place {
        Place::default()
    }
}
impl From<DType> for Place {
    fn from(dtype: DType) -> Place {
        Place { dtype: Some(dtype), ..Place::default() }
    }
}
impl From<Device> for Place {
    fn from(device: Device) -> Place {
        Place { device: Some(device), ..Place::default() }
    }
}
impl From<(Device, DType)> for Place {
    fn from((device, dtype): (Device, DType)) -> Place {
        Place { device: Some(device), dtype: Some(dtype) }
    }
}
impl From<&Tensor> for Place {
    /// Like that tensor: its device and its type.
    fn from(like: &Tensor) -> Place {
        Place { device: Some(like.device()), dtype: Some(like.dtype()) }
    }
}

thread_local! {
    static DEFAULT: Cell<Option<Device>> = const { Cell::new(None) };
}

/// The device that creation uses on this thread when none is named: the
/// innermost [`device_scope`], else `KILN_DEVICE`, else the CPU.
pub fn default_device() -> Device {
    let named = || config::config().device.as_deref().and_then(|name| name.parse().ok());
    DEFAULT.get().or_else(named).unwrap_or(Device::cpu())
}

/// Restores the previous default device when dropped.
#[must_use]
#[derive(Debug)]
pub struct DeviceScope {
    previous: Option<Device>,
    // The default is per thread, so the guard stays on its thread.
    not_send: PhantomData<*const ()>,
}

/// Makes `device` this thread's default until the guard is dropped.
pub fn device_scope(device: Device) -> DeviceScope {
    DeviceScope { previous: DEFAULT.replace(Some(device)), not_send: PhantomData }
}

/// Runs the closure with `device` as this thread's default.
pub fn with_device<R>(device: Device, body: impl FnOnce() -> R) -> R {
    let _scope = device_scope(device);
    body()
}

impl Drop for DeviceScope {
    fn drop(&mut self) {
        DEFAULT.set(self.previous);
    }
}
