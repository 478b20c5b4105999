//! Points in the order of kernels whose times are kept.

use cudarc::driver::{result, sys};

use super::{Driver, Failure, Outcome, StreamEvent};

impl Driver {
    /// Whether the driver tells the time between events by the call that is used here.
    pub fn tells_times(&self) -> bool {
        self.info.driver >= (12, 8)
    }

    /// An event after all that was enqueued so far, which keeps its time.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn timed_event(&self) -> Outcome<StreamEvent> {
        // SAFETY: the stream lives, the event is fresh.
        self.call(|| unsafe {
            let event = StreamEvent(result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)?);
            result::event::record(event.0, self.stream)?;
            Ok(event)
        })
    }

    /// Nanoseconds from one event to another, both of which keep their times and are through.
    ///
    /// # Errors
    /// The driver's failure; one that tells no times.
    pub fn nanoseconds_between(&self, start: &StreamEvent, end: &StreamEvent) -> Outcome<u64> {
        if !self.tells_times() {
            return Err(Failure::Other("this driver tells no times".into()));
        }
        // SAFETY: both events live, and the driver has the call.
        let milliseconds = self.call(|| unsafe { result::event::elapsed(start.0, end.0) })?;
        Ok((f64::from(milliseconds.max(0.0)) * 1e6) as u64)
    }
}
