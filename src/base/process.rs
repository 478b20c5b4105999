//! Detection of forked processes, which lack the threads and drivers of their parent.
//!
//! `fork` copies memory and the one thread that calls it. The copy has no
//! worker threads, no connection to a driver, and perhaps locks whose holders
//! are gone. What would wait for any of them asks [`whole`] first.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::{Device, Error, Result};

static FORKED: AtomicBool = AtomicBool::new(false);

/// Says that something was started that a forked process does not have.
pub fn started() {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        extern "C" fn in_child() {
            FORKED.store(true, Ordering::Relaxed);
        }
        static WATCHED: std::sync::Once = std::sync::Once::new();
        // SAFETY: the handler stores to an atomic, which a child may do before anything
        // else. Where there is no memory for the handler, forks go unnoticed.
        WATCHED.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
    }
}

/// Whether the process was forked from one in which something was [`started`]; noticed on
/// Linux.
#[inline]
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Whether a device can be used as far as the process goes.
///
/// # Errors
/// [`Error::DeviceUnavailable`] after a fork.
#[inline]
pub fn whole(device: Device) -> Result<()> {
    if is_forked() { Err(forked(device)) } else { Ok(()) }
}

#[cold]
fn forked(device: Device) -> Error {
    let reason = "this process was forked from one that used kiln, whose threads and drivers it does \
                  not have; fork before kiln is used, or start another program";
    Error::DeviceUnavailable { device, reason: reason.into(), span: None }
}
