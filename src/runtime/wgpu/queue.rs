//! The recorder: launches and copies go into one encoder, submitted when
//! a plan has been run, when the host reads, or when the block of launch words
//! is full.

use std::sync::{Mutex, MutexGuard};

use crate::base::system::THREADS_WAIT;
use crate::base::{Error, Result};
use crate::runtime::wgpu::gpu::{WgpuGpu, buffer, lock};
use crate::runtime::wgpu::memory;
use crate::runtime::wgpu::pipeline::Pipeline;
use crate::runtime::wgpu::reports::{REPORT_BYTES, ReportSlot, SITES, Snapshot, WgpuReports};
use crate::runtime::wgpu::staging;
use crate::runtime::wgpu::timestamps::{self, Timestamps};
use crate::runtime::{Download, IndexSite, trace};

/// Bytes of launch words in one submission.
const BLOCK: u64 = 256 << 10;
/// Launches of one submission.
const MOST_LAUNCHES: usize = 512;
/// Staging blocks of one submission.
const STAGED: usize = 8;
/// Uploads up to this size travel with the launch words.
const SMALL_UPLOAD: usize = 4096;

/// Commands not yet submitted.
pub struct Recorder {
    encoder: Option<wgpu::CommandEncoder>,
    pass: Option<wgpu::ComputePass<'static>>,
    /// What the block holds at the next submission.
    words: Vec<u8>,
    block: wgpu::Buffer,
    alignment: usize,
    launches: usize,
    /// Blocks that what is recorded copies from.
    staged: Vec<wgpu::Buffer>,
    /// Where the times of launches go while somebody records them.
    times: Option<Box<Timestamps>>,
}

impl Recorder {
    /// Nothing recorded.
    pub fn new(device: &wgpu::Device) -> Recorder {
        let copies = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        Recorder {
            encoder: None,
            pass: None,
            words: Vec::new(),
            block: buffer(device, BLOCK, wgpu::BufferUsages::UNIFORM | copies),
            alignment: device.limits().min_uniform_buffer_offset_alignment.max(16) as usize,
            launches: 0,
            staged: Vec::new(),
            times: None,
        }
    }

    /// Puts bytes into the block; gives where.
    fn put(&mut self, bytes: &[u8]) -> u64 {
        self.words.resize(self.words.len().next_multiple_of(self.alignment), 0);
        let at = self.words.len() as u64;
        self.words.extend_from_slice(bytes);
        at
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.launches < MOST_LAUNCHES
            && self.words.len().next_multiple_of(self.alignment) + bytes <= BLOCK as usize
    }

    /// The encoder, outside any pass.
    fn encoder(&mut self, device: &wgpu::Device) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        self.encoder.get_or_insert_with(|| {
            device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: None })
        })
    }

    /// The pass; one of its own for a launch whose time is recorded.
    fn pass(&mut self, device: &wgpu::Device, recorded: u64) -> &mut wgpu::ComputePass<'static> {
        if self.pass.is_none() || recorded > 0 {
            self.encoder(device);
            let Recorder { encoder: Some(encoder), times, .. } = self else { unreachable!("just begun") };
            let times = times.as_mut().filter(|_| recorded > 0);
            let timestamp_writes = times.and_then(|times| times.of_pass(recorded));
            let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
            let pass = encoder.begin_compute_pass(&descriptor).forget_lifetime();
            return self.pass.insert(pass);
        }
        match &mut self.pass {
            Some(pass) => pass,
            None => unreachable!("just begun"),
        }
    }

    /// Records commands that are in no pass, which may be a launch whose time is recorded.
    fn outside_passes(
        &mut self,
        device: &wgpu::Device,
        recorded: u64,
        commands: impl FnOnce(&mut wgpu::CommandEncoder),
    ) {
        self.launches += 1;
        self.encoder(device);
        match self {
            Recorder { encoder: Some(encoder), times: Some(times), .. } if recorded > 0 => {
                times.around(recorded, encoder, commands);
            }
            _ => commands(self.encoder(device)),
        }
    }
}

/// A launch ready to be recorded.
pub struct RecordedLaunch<'a> {
    /// The shader.
    pub pipeline: &'a Pipeline,
    /// The launch words.
    pub words: Vec<u32>,
    /// The storage buffers: block, start and size in bytes.
    pub storage: Vec<(wgpu::Buffer, u64, u64)>,
    /// Workgroups in two dimensions.
    pub groups: (u32, u32),
}

impl WgpuGpu {
    /// The recorder, with room for more words.
    fn room(&self, bytes: usize) -> Result<MutexGuard<'_, Recorder>> {
        loop {
            let recorder = lock(&self.recorder);
            if recorder.has_room(bytes) {
                return Ok(recorder);
            }
            drop(recorder);
            self.submit()?;
        }
    }

    /// Records a launch.
    ///
    /// # Errors
    /// The driver's failure in submitting what came before.
    pub fn launch(&self, launch: &RecordedLaunch<'_>) -> Result<()> {
        self.check()?;
        let bytes: &[u8] = bytemuck::cast_slice(&launch.words);
        let recorded = self.recorded_launch()?;
        let mut recorder = self.room(bytes.len())?;
        let at = recorder.put(bytes);
        let binding = |buffer, offset: u64, size: u64| {
            wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer,
                offset,
                size: std::num::NonZeroU64::new(size),
            })
        };
        let mut entries = vec![wgpu::BindGroupEntry {
            binding: 0,
            resource: binding(&recorder.block, at, bytes.len() as u64),
        }];
        for (number, (buffer, offset, size)) in launch.storage.iter().enumerate() {
            let resource = binding(buffer, *offset, *size);
            entries.push(wgpu::BindGroupEntry { binding: number as u32 + 1, resource });
        }
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &launch.pipeline.layout.group,
            entries: &entries,
        });
        let pass = recorder.pass(&self.device, recorded);
        pass.set_pipeline(&launch.pipeline.pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(launch.groups.0, launch.groups.1, 1);
        if recorded > 0 {
            recorder.pass = None;
        }
        recorder.launches += 1;
        Ok(())
    }

    /// Records a copy; offsets and size are multiples of 4, the blocks differ.
    ///
    /// # Errors
    /// That the device is lost.
    pub fn record_copy(
        &self,
        from: (&wgpu::Buffer, u64),
        to: (&wgpu::Buffer, u64),
        bytes: u64,
    ) -> Result<()> {
        self.check()?;
        let recorded = self.recorded_launch()?;
        lock(&self.recorder).outside_passes(&self.device, recorded, |encoder| {
            encoder.copy_buffer_to_buffer(from.0, from.1, to.0, to.1, bytes);
        });
        Ok(())
    }

    /// Records zeros; offset and size are multiples of 4.
    ///
    /// # Errors
    /// That the device is lost.
    pub fn record_clear(&self, to: (&wgpu::Buffer, u64), bytes: u64) -> Result<()> {
        self.check()?;
        let recorded = self.recorded_launch()?;
        lock(&self.recorder)
            .outside_passes(&self.device, recorded, |encoder| encoder.clear_buffer(to.0, to.1, Some(bytes)));
        Ok(())
    }

    /// The number of the launch that this thread is making, if its time is recorded; then there is room for it.
    fn recorded_launch(&self) -> Result<u64> {
        let launch = trace::current_launch();
        if launch > 0 && timestamps::are_there(self) && lock(&self.recorder).times.is_none() {
            let times = Timestamps::new(self)?;
            lock(&self.recorder).times.get_or_insert(Box::new(times));
        }
        Ok(launch)
    }

    /// Writes bytes to a block, from a multiple of 8 on, after everything
    /// recorded. Up to three bytes after them are lost.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn write(&self, (to, start): (&wgpu::Buffer, u64), data: &[u8]) -> Result<()> {
        let padded = data.len().next_multiple_of(4);
        if data.len() <= SMALL_UPLOAD {
            let mut recorder = self.room(padded)?;
            let at = recorder.put(data);
            recorder.words.resize(at as usize + padded, 0);
            let block = recorder.block.clone();
            recorder.encoder(&self.device).copy_buffer_to_buffer(&block, at, to, start, padded as u64);
            recorder.launches += 1;
            return Ok(());
        }
        if to.usage().contains(wgpu::BufferUsages::MAP_WRITE) {
            self.submit()?;
            return self.map(to, (start, padded as u64), wgpu::MapMode::Write, |range| {
                let mut view = range.get_mapped_range_mut()?;
                view.slice(..data.len()).copy_from_slice(data);
                Ok(())
            });
        }
        for (number, piece) in data.chunks(staging::CHUNK).enumerate() {
            let block = self.staging.filled(self, piece)?;
            let at = start + (number * staging::CHUNK) as u64;
            let bytes = piece.len().next_multiple_of(4) as u64;
            let mut recorder = self.room(0)?;
            recorder.encoder(&self.device).copy_buffer_to_buffer(&block, 0, to, at, bytes);
            recorder.launches += 1;
            recorder.staged.push(block);
            let many = recorder.staged.len() >= STAGED;
            drop(recorder);
            if many {
                self.submit()?;
            }
            if THREADS_WAIT && self.staging.is_full() {
                self.submit()?;
                self.wait()?;
            }
        }
        Ok(())
    }

    /// Submits what is recorded.
    ///
    /// # Errors
    /// The driver's failure.
    pub fn submit(&self) -> Result<()> {
        // What was recorded first is submitted first.
        let _order = lock(&self.submission);
        let (words, staged, block, commands, times) = {
            let mut recorder = lock(&self.recorder);
            recorder.pass = None;
            recorder.launches = 0;
            let (words, staged) = (std::mem::take(&mut recorder.words), std::mem::take(&mut recorder.staged));
            let mut encoder = recorder.encoder.take();
            let resolve = |encoder| recorder.times.as_mut()?.resolve(self, encoder);
            let times = encoder.as_mut().and_then(resolve);
            if !trace::is_on() {
                recorder.times = None;
            }
            (words, staged, recorder.block.clone(), encoder, times)
        };
        let Some(encoder) = commands else { return self.check() };
        self.scoped("", || {
            if !words.is_empty() {
                let mut words = words;
                words.resize(words.len().next_multiple_of(4), 0);
                self.queue.write_buffer(&block, 0, &words);
            }
            self.queue.submit([encoder.finish()]);
            if let Some(times) = times {
                times.read();
            }
            #[cfg(test)]
            self.submissions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if !staged.is_empty() {
                self.staging.give_back(staged);
                // What is through is free again. A failure shows at the next call.
                let _ = self.device.poll(wgpu::PollType::Poll);
            }
        })
    }

    /// Keeps the line of a launch that may report a bad index.
    ///
    /// # Errors
    /// The driver's failure, where the words have to be emptied first.
    pub fn site<'a>(&self, reports: &'a WgpuReports, site: Option<IndexSite>) -> Result<ReportSlot<'a>> {
        loop {
            let mut state = lock(&reports.state);
            if state.sites.len() < SITES {
                state.sites.push(Some((std::thread::current().id(), site)));
                state.open += 1;
                return Ok(ReportSlot { reports, number: state.sites.len() as u32 - 1 });
            }
            if !THREADS_WAIT {
                // Nothing may wait for room: the launches from here on share words, and their error has no line.
                state.sites[SITES - 1] = Some((std::thread::current().id(), None));
                state.open += 1;
                return Ok(ReportSlot { reports, number: SITES as u32 - 1 });
            }
            drop(state);
            self.gather(reports)?;
        }
    }

    /// Reads bytes of a block.
    ///
    /// # Errors
    /// A bad index that an earlier launch of this thread met; the driver's failure.
    pub fn read(&self, reports: &WgpuReports, from: &wgpu::Buffer, start: u64, out: &mut [u8]) -> Result<()> {
        if reports.launches() > 0 {
            self.gather(reports)?;
        }
        reports.take()?;
        // Mappings start at multiples of 8.
        let first = start / 8 * 8;
        let end = (start + out.len() as u64).next_multiple_of(4);
        let skip = (start - first) as usize;
        self.show(from, first, end - first, &mut |bytes| out.copy_from_slice(&bytes[skip..skip + out.len()]))
    }

    /// Reads bytes of several blocks through one, waiting once.
    ///
    /// # Errors
    /// As [`WgpuGpu::read`].
    pub fn read_all(&self, reports: &WgpuReports, from: &[wgpu::Buffer], to: &mut [Download]) -> Result<()> {
        if reports.launches() > 0 {
            self.gather(reports)?;
        }
        reports.take()?;
        let all: u64 = to.iter().map(Download::padded).sum();
        if all == 0 {
            return Ok(());
        }
        let staging = memory::staging(self, all)?;
        self.record_parts(from, to, (&staging, 0))?;
        self.submit()?;
        self.map(&staging, (0, all), wgpu::MapMode::Read, |range| {
            Download::fill(to, &range.get_mapped_range()?);
            Ok(())
        })?;
        memory::give_staging_back(self, staging);
        Ok(())
    }

    /// Records copies of parts of blocks to one, behind each other.
    ///
    /// # Errors
    /// That the device is lost.
    pub(super) fn record_parts(
        &self,
        from: &[wgpu::Buffer],
        parts: &[Download<'_>],
        (to, mut at): (&wgpu::Buffer, u64),
    ) -> Result<()> {
        for (block, part) in from.iter().zip(parts).filter(|(_, part)| !part.out.is_empty()) {
            self.record_copy((block, part.first()), (to, at), part.padded())?;
            at += part.padded();
        }
        Ok(())
    }

    /// Waits for everything, and reports bad indices.
    ///
    /// # Errors
    /// A bad index that a launch of this thread met; the driver's failure.
    pub fn finish(&self, reports: &WgpuReports) -> Result<()> {
        if reports.launches() > 0 {
            self.gather(reports)?;
        } else {
            self.submit()?;
            self.wait()?;
        }
        reports.take()
    }

    /// Shows a block's bytes to the host, after everything recorded.
    fn show(&self, from: &wgpu::Buffer, start: u64, bytes: u64, show: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut read = |range: wgpu::BufferSlice<'_>| {
            show(&range.get_mapped_range()?);
            Ok(())
        };
        if from.usage().contains(wgpu::BufferUsages::MAP_READ) {
            self.submit()?;
            return self.map(from, (start, bytes), wgpu::MapMode::Read, read);
        }
        let staging = memory::staging(self, bytes)?;
        self.record_copy((from, start), (&staging, 0), bytes)?;
        self.submit()?;
        self.map(&staging, (0, bytes), wgpu::MapMode::Read, &mut read)?;
        memory::give_staging_back(self, staging);
        Ok(())
    }

    /// Maps bytes of a block once what uses it is done, for as long as `body`
    /// runs.
    fn map(
        &self,
        block: &wgpu::Buffer,
        (start, bytes): (u64, u64),
        mode: wgpu::MapMode,
        body: impl FnOnce(wgpu::BufferSlice<'_>) -> std::result::Result<(), wgpu::MapRangeError>,
    ) -> Result<()> {
        // No thread may submit work with a block that is mapped.
        let _order = lock(&self.submission);
        let failed = std::sync::Arc::new(Mutex::new(None));
        let slot = failed.clone();
        let range = block.slice(start..start + bytes);
        self.scoped("", || range.map_async(mode, move |result| *lock(&slot) = result.err()))?;
        self.wait()?;
        if let Some(error) = lock(&failed).take() {
            return Err(self.error("", format!("mapping memory: {error}")));
        }
        let done = body(range).map_err(|error| self.error("", error.to_string()));
        block.unmap();
        done
    }

    /// Moves the reports of finished launches to the host; their words are
    /// free again if nothing was launched meanwhile.
    fn gather(&self, reports: &WgpuReports) -> Result<()> {
        let snapshot = reports.snapshot();
        if snapshot.count == 0 {
            return Ok(());
        }
        let mut words = vec![0u32; 4 * snapshot.count];
        self.show(&reports.status, 0, REPORT_BYTES * snapshot.count as u64, &mut |bytes| {
            bytemuck::cast_slice_mut::<u32, u8>(&mut words).copy_from_slice(bytes);
        })?;
        self.settle(reports, &snapshot, &words);
        Ok(())
    }

    /// Keeps what launches have reported for their threads.
    pub(super) fn settle(&self, reports: &WgpuReports, snapshot: &Snapshot, words: &[u32]) {
        let &Snapshot { count, open, freed } = snapshot;
        let mut state = lock(&reports.state);
        if state.freed != freed {
            return;
        }
        let mut any = false;
        for (number, report) in words.chunks_exact(4).enumerate().filter(|(_, report)| report[0] != 0) {
            any = true;
            let Some((thread, site)) = state.sites.get_mut(number).and_then(Option::take) else { continue };
            state.errors.push((thread, self.bad_index(site, report)));
        }
        // A launch that was being recorded may report after its words were copied.
        if state.sites.len() == count && open == 0 {
            state.sites.clear();
            state.freed += 1;
            if any {
                let mut recorder = lock(&self.recorder);
                recorder.encoder(&self.device).clear_buffer(&reports.status, 0, None);
            }
        }
    }

    fn bad_index(&self, site: Option<IndexSite>, report: &[u32]) -> Error {
        let index = (u64::from(report[2]) << 32 | u64::from(report[1])) as i64;
        match site {
            Some(site) => site.error(index, report[3] as usize),
            None => self.error("", format!("index {index} out of range for an axis of {}", report[3])),
        }
    }
}
