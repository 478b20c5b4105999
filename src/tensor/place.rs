//! Where and as what a new tensor is created: the last argument of creation.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::base::scope::{Scope, Scopes};
use crate::base::{DType, Device, DeviceKind, config};
use crate::tensor::Tensor;

/// A device and an element type, either of which may be left to the default.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::zeros([2], (Device::cpu(), DType::F64));
/// assert_eq!(Tensor::ones([3], &x).dtype(), DType::F64);
/// ```
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
    static SCOPES: Scopes<Device> = const { Scopes::told(|innermost| DEFAULT.set(innermost.copied())) };
    /// The innermost of them, which every creation asks for.
    static DEFAULT: Cell<Option<Device>> = const { Cell::new(None) };
}

/// The process's default plus one, as [`encode`] writes it; 0 for none.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn encode(device: Device) -> u32 {
    ((device.kind as u32) << 16 | u32::from(device.index)) + 1
}

fn decode(number: u32) -> Option<Device> {
    let number = number.checked_sub(1)?;
    Some(DeviceKind::ALL[(number >> 16) as usize].device(number as u16))
}

/// The device that creation uses on this thread when none is named.
///
/// It is that of the innermost [`device_scope`], else what [`Device::set_default`] set, else
/// `KILN_DEVICE`, else the CPU.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::{default_device, device_scope};
/// let _scope = device_scope(Device::meta());
/// assert_eq!(default_device(), Device::meta());
/// ```
pub fn default_device() -> Device {
    let process = || decode(PROCESS.load(Ordering::Relaxed));
    DEFAULT.get().or_else(process).or(config::config().device).unwrap_or(Device::cpu())
}

impl Device {
    /// Makes this the device that creation uses on every thread when none is
    /// named; a [`device_scope`] goes before it.
    pub fn set_default(self) {
        PROCESS.store(encode(self), Ordering::Relaxed);
    }
}

/// Ends a default device's scope when dropped.
#[must_use]
#[derive(Debug)]
pub struct DeviceScope(#[expect(dead_code, reason = "held to be dropped")] Scope<Device>);

/// Makes `device` this thread's default until the guard is dropped.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let scope = kiln::device_scope(Device::meta());
/// assert_eq!(Tensor::zeros([2], ()).device(), Device::meta());
/// drop(scope);
/// assert_ne!(Tensor::zeros([2], ()).device(), Device::meta());
/// ```
pub fn device_scope(device: Device) -> DeviceScope {
    DeviceScope(Scope::open(&SCOPES, device))
}

/// Runs the closure with `device` as this thread's default.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = with_device(Device::meta(), || Tensor::zeros([2], ()));
/// assert_eq!(x.device(), Device::meta());
/// ```
pub fn with_device<R>(device: Device, body: impl FnOnce() -> R) -> R {
    let _scope = device_scope(device);
    body()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_that_end_in_another_order_leave_no_device_behind() {
        let before = default_device();
        let (null, meta) = (device_scope(Device::null()), device_scope(Device::meta()));
        drop(null);
        assert_eq!(default_device(), Device::meta());
        drop(meta);
        assert_eq!(default_device(), before);
    }

    #[test]
    fn a_default_is_found_again() {
        for device in DeviceKind::ALL.into_iter().flat_map(|kind| [kind.device(0), kind.device(u16::MAX)]) {
            assert_eq!(decode(encode(device)), Some(device));
        }
        assert_eq!(decode(0), None);
    }
}
