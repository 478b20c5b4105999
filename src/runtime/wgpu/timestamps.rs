//! The adapter's times of launches that somebody records.
//!
//! A launch that is recorded is a pass of its own, before and after which the adapter writes its time. The
//! times of a submission are copied to a buffer that the host maps once the submission is through, whenever
//! it next looks: nothing waits for them.

use std::sync::Arc;

use crate::base::Result;
use crate::runtime::trace::{self, DeviceRecord, Record};
use crate::runtime::wgpu::gpu::{WgpuGpu, buffer};

/// Launches of one submission whose times are kept.
const MOST: u32 = 1024;
/// Bytes of a time.
const TIME_BYTES: u64 = 8;

/// Where the adapter writes the times of what is recorded.
pub struct Timestamps {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    clock: AdapterClock,
    /// The launches of which times are written, in order.
    launches: Vec<u64>,
}

/// What turns the adapter's times into the host's.
#[derive(Clone, Copy, Debug)]
struct AdapterClock {
    /// Nanoseconds of a tick.
    period: f64,
    /// A tick, and the host's time then.
    tick: u64,
    time: u64,
}

impl AdapterClock {
    fn time(self, tick: u64) -> u64 {
        let since = tick.wrapping_sub(self.tick) as i64 as f64 * self.period;
        self.time.saturating_add_signed(since as i64)
    }
}

/// Whether an adapter tells times.
pub fn are_there(gpu: &WgpuGpu) -> bool {
    gpu.device.features().contains(wgpu::Features::TIMESTAMP_QUERY)
}

impl Timestamps {
    /// Compares the adapter's clock with the host's, for which the host waits.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn new(gpu: &WgpuGpu) -> Result<Timestamps> {
        gpu.submit()?;
        gpu.wait()?;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let queries = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2 * MOST,
        });
        let resolved = buffer(&gpu.device, u64::from(2 * MOST) * TIME_BYTES, usage);
        let clock = AdapterClock { period: f64::from(gpu.queue.get_timestamp_period()), tick: 0, time: 0 };
        let mut times = Timestamps { queries, resolved, clock, launches: Vec::new() };
        // The shortest way there and back says most.
        let mut shortest = u64::MAX;
        for _ in 0..3 {
            let start = trace::now();
            let tick = times.tick(gpu)?;
            let took = trace::now() - start;
            if took < shortest {
                shortest = took;
                (times.clock.tick, times.clock.time) = (tick, start + took / 2);
            }
        }
        Ok(times)
    }

    /// The adapter's time now.
    fn tick(&self, gpu: &WgpuGpu) -> Result<u64> {
        let host =
            buffer(&gpu.device, TIME_BYTES, wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ);
        gpu.scoped("", || {
            let mut encoder = gpu.device.create_command_encoder(&Default::default());
            self.mark(&mut encoder, 0);
            encoder.resolve_query_set(&self.queries, 0..1, &self.resolved, 0);
            encoder.copy_buffer_to_buffer(&self.resolved, 0, &host, 0, TIME_BYTES);
            gpu.queue.submit([encoder.finish()]);
            host.slice(..).map_async(wgpu::MapMode::Read, |_| ());
        })?;
        gpu.wait()?;
        let view = host.slice(..).get_mapped_range().map_err(|error| gpu.error("", error.to_string()))?;
        Ok(view.first_chunk().copied().map_or(0, u64::from_le_bytes))
    }

    /// Writes the time between passes.
    fn mark(&self, encoder: &mut wgpu::CommandEncoder, query: u32) {
        let timestamp_writes = Some(wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(query),
            end_of_pass_write_index: None,
        });
        encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes });
    }

    /// Where the times of one more launch go: the first of two queries, if there are any left.
    fn next(&mut self, launch: u64) -> Option<u32> {
        let number = u32::try_from(self.launches.len()).ok().filter(|number| *number < MOST)?;
        self.launches.push(launch);
        Some(2 * number)
    }

    /// What a pass of its own for a launch writes.
    pub fn of_pass(&mut self, launch: u64) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let query = self.next(launch)?;
        Some(wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(query),
            end_of_pass_write_index: Some(query + 1),
        })
    }

    /// Writes the time before and after commands that are in no pass.
    pub fn around(
        &mut self,
        launch: u64,
        encoder: &mut wgpu::CommandEncoder,
        commands: impl FnOnce(&mut wgpu::CommandEncoder),
    ) {
        let query = self.next(launch);
        if let Some(query) = query {
            self.mark(encoder, query);
        }
        commands(encoder);
        if let Some(query) = query {
            self.mark(encoder, query + 1);
        }
    }

    /// Ends a submission; what it gives reads the times once that is submitted.
    pub fn resolve(&mut self, gpu: &WgpuGpu, encoder: &mut wgpu::CommandEncoder) -> Option<WrittenTimes> {
        let launches = std::mem::take(&mut self.launches);
        let queries = 2 * launches.len() as u32;
        if queries == 0 {
            return None;
        }
        let bytes = u64::from(queries) * TIME_BYTES;
        let host = buffer(&gpu.device, bytes, wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ);
        encoder.resolve_query_set(&self.queries, 0..queries, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &host, 0, bytes);
        Some(WrittenTimes { host, launches, clock: self.clock })
    }
}

/// The times of a submission.
pub struct WrittenTimes {
    host: wgpu::Buffer,
    launches: Vec<u64>,
    clock: AdapterClock,
}

impl WrittenTimes {
    /// Has them recorded once the submission is through.
    pub fn read(self) {
        let WrittenTimes { host, launches, clock } = self;
        let mapped = Arc::new(host);
        let own = mapped.clone();
        mapped.slice(..).map_async(wgpu::MapMode::Read, move |result| {
            // A device that is lost has no times.
            let Some(view) = result.ok().and_then(|()| own.slice(..).get_mapped_range().ok()) else { return };
            let (ticks, _) = view.as_chunks::<{ TIME_BYTES as usize }>();
            let time = |tick: &[u8; 8]| clock.time(u64::from_le_bytes(*tick));
            let last = ticks.iter().map(time).max().unwrap_or(0);
            // It cannot have ended after now: the clocks have drifted by so much.
            let late = last.saturating_sub(trace::now());
            for (&launch, ticks) in launches.iter().zip(ticks.chunks_exact(2)) {
                let [start, end] = [&ticks[0], &ticks[1]].map(|tick| time(tick).saturating_sub(late));
                trace::push(Record::Device(DeviceRecord { launch, start, end: end.max(start) }));
            }
        });
    }
}
