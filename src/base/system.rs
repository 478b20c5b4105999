//! The system that kiln runs on: its clocks and the process. Here alone kiln tells a page of a browser, which
//! has neither, from an operating system.

use std::sync::OnceLock;
use std::time::Duration;

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
mod own {
    pub use std::time::Instant;

    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    pub const THREADS_WAIT: bool = true;

    pub fn l3_bytes() -> Option<usize> {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size").ok()?;
        let kib: usize = text.trim().strip_suffix('K')?.parse().ok()?;
        kib.checked_mul(1 << 10)
    }

    pub fn process_id() -> u32 {
        std::process::id()
    }

    pub fn since_epoch() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod own {
    use std::ops::{Add, Sub};
    use std::time::Duration;

    use wasm_bindgen::prelude::wasm_bindgen;

    #[wasm_bindgen]
    extern "C" {
        #[wasm_bindgen(js_namespace = performance, js_name = now)]
        fn milliseconds() -> f64;
        #[wasm_bindgen(js_namespace = Date, js_name = now)]
        fn milliseconds_since_epoch() -> f64;
    }

    /// A time of the page's clock, which starts with the page.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Instant(Duration);

    impl Instant {
        pub fn now() -> Instant {
            Instant(Duration::from_secs_f64(milliseconds() / 1e3))
        }
        pub fn elapsed(self) -> Duration {
            Instant::now() - self
        }
        pub fn duration_since(self, earlier: Instant) -> Duration {
            self - earlier
        }
    }

    impl Sub for Instant {
        type Output = Duration;
        fn sub(self, earlier: Instant) -> Duration {
            self.0.saturating_sub(earlier.0)
        }
    }

    impl Add<Duration> for Instant {
        type Output = Instant;
        fn add(self, further: Duration) -> Instant {
            Instant(self.0 + further)
        }
    }

    pub const THREADS_WAIT: bool = false;

    pub fn l3_bytes() -> Option<usize> {
        None
    }

    pub fn process_id() -> u32 {
        0
    }

    pub fn since_epoch() -> Duration {
        Duration::from_secs_f64(milliseconds_since_epoch() / 1e3)
    }
}

/// A clock that never goes back: [`std::time::Instant`], or a page's own.
pub use own::Instant;

/// Whether a thread may wait for a device. The one thread of a page may not: the device's answer comes once
/// it has returned to the browser.
pub const THREADS_WAIT: bool = own::THREADS_WAIT;

/// The number of the process; 0 in a page.
pub fn process_id() -> u32 {
    own::process_id()
}

/// The size of the first core's L3 cache; `None` where the system does not tell.
pub fn l3_bytes() -> Option<usize> {
    static BYTES: OnceLock<Option<usize>> = OnceLock::new();
    *BYTES.get_or_init(own::l3_bytes)
}

/// The time since 1970, by the system's calendar.
pub fn since_epoch() -> Duration {
    own::since_epoch()
}
