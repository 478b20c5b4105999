//! Peak throughput of devices, measured.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::base::system::Instant;
use crate::base::{Device, DeviceKind, Error, Result};
use crate::plan::report::PlanReport;
use crate::plan::roofline::{PeakThroughput, Roofline};
use crate::tensor::Tensor;

/// A measurement lasts this long or is repeated at a larger size.
const LONG_ENOUGH: f64 = 5e-3;
/// It is repeated at a larger size too if that may be faster, unless it lasts this long.
const TOO_LONG: f64 = 10e-3;
/// By how much the rate grew with the size where a larger size may be faster.
const GROWS: f64 = 1.2;

/// Pairs of operations with each element that make memory play no part.
const CHAIN: usize = 24;

static KNOWN: LazyLock<Mutex<HashMap<Device, PeakThroughput>>> = LazyLock::new(Mutex::default);

impl Device {
    /// This device's peak throughput, measured by running kernels on it for
    /// about a tenth of a second, once in a process.
    ///
    /// # Errors
    /// A device that computes nothing (meta, null) or is absent, and whatever
    /// running says.
    #[track_caller]
    pub fn peak_throughput(self) -> Result<PeakThroughput> {
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&found) = known().get(&self) {
            return Ok(found);
        }
        // Measured without the lock: two threads at once measure twice.
        let found = measure(self)?;
        known().insert(self, found);
        Ok(found)
    }
}

impl PlanReport {
    /// The plan's kernels against the peak throughput of `device`
    /// ([`Device::peak_throughput`]): each kernel's bottleneck, and the least time of
    /// the plan. The plan may be for another device.
    ///
    /// # Errors
    /// Those of [`Device::peak_throughput`].
    #[track_caller]
    pub fn roofline(&self, device: Device) -> Result<Roofline> {
        Ok(self.roofline_under(device, device.peak_throughput()?))
    }
}

#[track_caller]
fn measure(device: Device) -> Result<PeakThroughput> {
    if matches!(device.kind, DeviceKind::Null | DeviceKind::Meta) {
        let reason = "it computes nothing, so there is nothing to measure".into();
        return Err(Error::DeviceUnavailable { device, reason, span: None });
    }
    let elements = |n: usize| Tensor::ones([n], device);
    let bytes = rate(device, 1 << 18, 1 << 28, &|n| (elements(n), 8.0 * n as f64), &|x| x + 1.0)?;
    let square = |n: usize| (Tensor::ones([n, n], device), 2.0 * (n as f64).powi(3));
    let flops = rate(device, 128, 1 << 13, &square, &|x| x.matmul(x))?;
    let chain = |n: usize| (elements(n), 2.0 * CHAIN as f64 * n as f64);
    let elementwise_flops =
        rate(device, 1 << 16, 1 << 26, &chain, &|x| (0..CHAIN).fold(x.clone(), |y, _| (y * 0.5).maximum(x)))?;
    let (mut bytes_from_host, mut bytes_to_host) = (f64::INFINITY, f64::INFINITY);
    if device != Device::cpu() {
        let host = |n: usize| (Tensor::ones([n], Device::cpu()), 4.0 * n as f64);
        bytes_from_host = rate(device, 1 << 18, 1 << 26, &host, &|x| x.to(device))?;
        bytes_to_host = rate(device, 1 << 18, 1 << 26, &|n| (elements(n), 4.0 * n as f64), &|x| x.cpu())?;
    }
    let launches = launches(device)?;
    Ok(PeakThroughput { bytes, flops, elementwise_flops, launches, bytes_from_host, bytes_to_host })
}

/// Work per second of `run` on what `make` gives for a size: an input, and the
/// work that running on it is. The size doubles until running lasts and is no faster than before.
#[track_caller]
fn rate(
    device: Device,
    least: usize,
    most: usize,
    make: &dyn Fn(usize) -> (Tensor, f64),
    run: &dyn Fn(&Tensor) -> Tensor,
) -> Result<f64> {
    let (mut size, mut best) = (least, 0.0f64);
    loop {
        let (input, work) = make(size);
        // A kernel may take over its input's memory only if nobody holds it.
        input.realize()?;
        let seconds = best_of(3, device, &|| run(&input).realize().map(|_| ()))?;
        let found = work / seconds;
        let settled = seconds >= LONG_ENOUGH && found < GROWS * best;
        best = best.max(found);
        if settled || seconds >= TOO_LONG || 2 * size > most {
            return Ok(best);
        }
        size *= 2;
    }
}

/// Kernels started per second, one after the other in one plan.
#[track_caller]
fn launches(device: Device) -> Result<f64> {
    let start = Tensor::ones([4, 4], device);
    start.realize()?;
    // Scans of two axes in turn: no two are one kernel.
    let chain = |length: usize| (0..length).fold(start.clone(), |x, i| x.cumsum((i % 2) as i64));
    let time = |length: usize| -> Result<(f64, f64)> {
        let launches = chain(length).plan()?.launches();
        let seconds = best_of(20, device, &|| chain(length).realize().map(|_| ()))?;
        Ok((launches as f64, seconds))
    };
    let (few, many) = (time(8)?, time(72)?);
    Ok((many.0 - few.0) / (many.1 - few.1).max(1e-9))
}

/// The least time of some runs, the first of which does not count: it compiles.
#[track_caller]
fn best_of(runs: usize, device: Device, body: &dyn Fn() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for run in 0..=runs {
        let start = Instant::now();
        body()?;
        device.synchronize()?;
        if run > 0 {
            best = best.min(start.elapsed().as_secs_f64());
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_measured_once() {
        let found = Device::cpu().peak_throughput().unwrap();
        let PeakThroughput { bytes, flops, elementwise_flops, launches, bytes_from_host, bytes_to_host } =
            found;
        let rates = [bytes, flops, elementwise_flops, launches];
        assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 1e3), "{found:?}");
        assert!(bytes_from_host.is_infinite() && bytes_to_host.is_infinite(), "{found:?}");
        assert_eq!(Device::cpu().peak_throughput().unwrap(), found);
    }

    #[test]
    fn what_computes_nothing_has_no_peak_throughput() {
        for device in [Device::null(), Device::meta()] {
            assert!(device.peak_throughput().unwrap_err().to_string().contains("computes nothing"));
        }
    }
}
