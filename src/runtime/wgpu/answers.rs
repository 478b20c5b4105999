//! The device's answers as futures: what it read, and that it is done.

use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread::Builder;

use crate::base::Result;
use crate::base::system::THREADS_WAIT;
use crate::runtime::Download;
use crate::runtime::wgpu::gpu::{WgpuGpu, lock};
use crate::runtime::wgpu::memory;
use crate::runtime::wgpu::reports::{REPORT_BYTES, WgpuReports};

impl WgpuGpu {
    /// Reads bytes of several blocks, and the reports of launches before, through one block.
    ///
    /// # Errors
    /// A bad index that an earlier launch of this thread met; the driver's failure.
    pub async fn read_async(
        &self,
        reports: &WgpuReports,
        from: &[wgpu::Buffer],
        to: &mut [Download<'_>],
    ) -> Result<()> {
        let snapshot = reports.snapshot();
        let reported = REPORT_BYTES * snapshot.count as u64;
        let data: u64 = to.iter().map(Download::padded).sum();
        if reported + data == 0 {
            self.submit()?;
            self.done().await?;
            return reports.take();
        }
        let staging = memory::staging(self, reported + data)?;
        if reported > 0 {
            self.record_copy((&reports.status, 0), (&staging, 0), reported)?;
        }
        self.record_parts(from, to, (&staging, reported))?;
        self.submit()?;
        self.mapped(&staging, reported + data).await?;
        {
            let range = staging.slice(..reported + data);
            let view = range.get_mapped_range().map_err(|error| self.error("", error.to_string()))?;
            let words: Vec<u32> = bytemuck::pod_collect_to_vec(&view[..reported as usize]);
            self.settle(reports, &snapshot, &words);
            Download::fill(to, &view[reported as usize..]);
        }
        staging.unmap();
        memory::give_staging_back(self, staging);
        reports.take()
    }

    /// Maps the start of a block for reading, once what uses it is done.
    async fn mapped(&self, block: &wgpu::Buffer, bytes: u64) -> Result<()> {
        let (answer, answered) = answer();
        block.slice(..bytes).map_async(wgpu::MapMode::Read, answer);
        self.listen()?;
        let mapped = answered.await;
        self.check()?;
        mapped.map_err(|error| self.error("", format!("mapping memory: {error}")))
    }

    /// Waits for everything submitted.
    async fn done(&self) -> Result<()> {
        let (answer, answered) = answer();
        self.queue.on_submitted_work_done(move || answer(()));
        self.listen()?;
        answered.await;
        self.check()
    }

    /// Has the device's answers come. A browser brings them by itself; elsewhere a thread waits for them.
    fn listen(&self) -> Result<()> {
        if !THREADS_WAIT {
            return Ok(());
        }
        let device = self.device.clone();
        let wait = move || _ = device.poll(wgpu::PollType::wait_indefinitely());
        match Builder::new().name("kiln-wgpu".into()).spawn(wait) {
            Ok(_) => Ok(()),
            // The system refuses a thread.
            Err(_) => self.wait(),
        }
    }
}

/// An answer on its way, and who waits for it.
struct Awaited<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

/// What takes an answer, and the future that gives it.
fn answer<T>() -> (impl FnOnce(T), impl Future<Output = T>) {
    let slot = Arc::new(Mutex::new(Awaited { value: None, waker: None }));
    let own = slot.clone();
    let take = move |value| {
        let waker = {
            let mut slot = lock(&own);
            slot.value = Some(value);
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    };
    let give = std::future::poll_fn(move |polled| {
        let mut slot = lock(&slot);
        match slot.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.waker = Some(polled.waker().clone());
                Poll::Pending
            }
        }
    });
    (take, give)
}
