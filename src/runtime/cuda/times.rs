//! The device's times of launches that somebody records: an event before and one after each, whose times are
//! asked for when the host waits anyway.

use std::sync::Mutex;

use crate::base::Result;
use crate::runtime::cuda::driver::{Outcome, StreamEvent};
use crate::runtime::cuda::gpu::{CudaGpu, lock};
use crate::runtime::trace::{self, DeviceRecord, Record};

/// The times of one device.
#[derive(Debug, Default)]
pub struct LaunchTimes(Mutex<Option<TimesSince>>);

/// Launches since an event of which the host knows the time.
#[derive(Debug)]
struct TimesSince {
    event: StreamEvent,
    time: u64,
    launches: Vec<(u64, StreamEvent, StreamEvent)>,
}

impl LaunchTimes {
    /// Enqueues a launch, between events if it is recorded.
    ///
    /// # Errors
    /// That of the launch. Events that the driver refuses leave it without a time.
    pub fn around(&self, gpu: &CudaGpu, launch: impl FnOnce() -> Result<()>) -> Result<()> {
        let recorded = trace::current_launch();
        if recorded == 0 || !gpu.driver.tells_times() {
            return launch();
        }
        self.begin(gpu);
        let start = gpu.driver.timed_event();
        launch()?;
        if let (Ok(start), Ok(end), Some(times)) = (start, gpu.driver.timed_event(), &mut *lock(&self.0)) {
            times.launches.push((recorded, start, end));
        }
        Ok(())
    }

    /// Has a first event, for which the host waits, so that it knows when that is.
    fn begin(&self, gpu: &CudaGpu) {
        let mut since = lock(&self.0);
        if since.is_none() {
            let first = gpu.driver.wait().and_then(|()| {
                let event = gpu.driver.timed_event()?;
                gpu.driver.wait()?;
                Ok(TimesSince { event, time: trace::now(), launches: Vec::new() })
            });
            *since = first.ok();
        }
    }

    /// Records the times of launches that are through, now that the host has waited.
    pub fn settle(&self, gpu: &CudaGpu) {
        let mut since = lock(&self.0);
        let Some(times) = &mut *since else { return };
        let done = times.launches.iter().take_while(|(_, _, end)| gpu.driver.is_through(end)).count();
        let launches: Vec<_> = times.launches.drain(..done).collect();
        for (launch, start, end) in launches {
            let times = || -> Outcome<DeviceRecord> {
                let began = times.time + gpu.driver.nanoseconds_between(&times.event, &start)?;
                let ended = began + gpu.driver.nanoseconds_between(&start, &end)?;
                Ok(DeviceRecord { launch, start: began, end: ended })
            };
            if let Ok(record) = times() {
                trace::push(Record::Device(record));
            }
        }
        // The next one to record begins with an event of its own: clocks drift.
        if !trace::is_on() && times.launches.is_empty() {
            *since = None;
        }
    }
}
