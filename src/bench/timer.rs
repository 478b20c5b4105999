//! Timing a closure.

use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::base::config::config;
use crate::base::system::Instant;
use crate::base::{Device, Error, Result, Span};
use crate::bench::machine::{Disturbance, Machine};
use crate::bench::measurement::Measurement;
use crate::bench::output::Output;
use crate::plan::context;
use crate::plan::report::PlanReport;
use crate::runtime::cpu::threads;
use crate::tensor::Tensor;
use crate::tensor::place::{default_device, with_device};
use crate::tensor::plan::plan;
use crate::tensor::read::realize;

/// A block takes at least so many of the clock's steps, so that reading it changes a time by 0.1 % at most.
const CLOCK_STEPS: u32 = 1000;

/// Blocks that a measurement has at least, for its quartiles to mean something.
const MIN_BLOCKS: usize = 5;

/// Times a closure that builds tensors: it is called, what it returns is realized, and at the end of a block
/// of such runs its devices are waited for.
///
/// The closure must build the expression anew, for a tensor in memory is not computed again; its inputs
/// should be realized before. The first two runs are not measured: they plan, compile and fill the pools.
///
/// PyTorch: `torch.utils.benchmark.Timer`.
///
/// # Examples
/// ```
/// use kiln::bench::Timer;
/// use kiln::prelude::*;
/// let (x, w) = (Tensor::ones([32, 16], ()), Tensor::ones([16, 8], ()));
/// realize(&[&x, &w])?;
/// let found = Timer::new(|| x.matmul(&w).relu()).label("layer").timeit(10)?;
/// assert_eq!((found.flops, found.runs_per_block), (2 * 32 * 16 * 8 + 32 * 8, 10));
/// println!("{found}"); // median, spread, GB/s, GFLOP/s, and warnings if something disturbed it
/// # Ok::<(), kiln::Error>(())
/// ```
pub struct Timer<F> {
    run: F,
    /// How a block is run: here, or by threads of a pool.
    block: fn(&mut F, &Setting, u64) -> Result<Duration>,
    label: String,
    sub_label: String,
    description: String,
    device: Option<Device>,
    threads: Option<usize>,
}

/// What all blocks of a measurement have in common.
struct Setting {
    devices: Vec<Device>,
    pool: Option<ThreadPool>,
}

impl<O: Output, F: FnMut() -> O> Timer<F> {
    /// A timer of a closure, see [`Output`] for what it may return.
    pub fn new(run: F) -> Timer<F> {
        let name = String::new;
        Timer {
            run,
            block: run_block,
            label: name(),
            sub_label: name(),
            description: name(),
            device: None,
            threads: None,
        }
    }

    /// What is measured.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Timer<F> {
        self.label = label.into();
        self
    }

    /// Its size, or other input.
    #[must_use]
    pub fn sub_label(mut self, sub_label: impl Into<String>) -> Timer<F> {
        self.sub_label = sub_label.into();
        self
    }

    /// The way it is done.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Timer<F> {
        self.description = description.into();
        self
    }

    /// The default device of the closure, which is waited for besides those of the tensors it returns.
    #[must_use]
    pub fn device(mut self, device: Device) -> Timer<F> {
        self.device = Some(device);
        self
    }

    /// One block of so many runs, of which only the mean is known.
    ///
    /// # Errors
    /// The first error of a run; no runs; threads that cannot be had.
    #[track_caller]
    pub fn timeit(&mut self, runs: u64) -> Result<Measurement> {
        let span = Span::caller();
        if runs == 0 {
            return Err(argument("timeit", "at least one run", "0", span));
        }
        let mut session = self.start(span)?;
        session.runs = runs;
        let seconds = vec![self.block(&session)?];
        Ok(self.measured(session, seconds))
    }

    /// Blocks until they took a time in all, at least five; each long enough for the clock's resolution not
    /// to matter, and a thousandth of that time.
    ///
    /// # Errors
    /// The first error of a run; threads that cannot be had.
    #[track_caller]
    pub fn blocked_autorange(&mut self, min_run_time: Duration) -> Result<Measurement> {
        let mut session = self.start(Span::caller())?;
        self.choose_runs(&mut session, min_run_time)?;
        let mut seconds = Vec::new();
        self.blocks(&session, &mut seconds, min_run_time)?;
        Ok(self.measured(session, seconds))
    }

    /// Blocks until the interquartile range is at most a part of the median (0.1 say), for at least
    /// `min_run_time`, at most about `max_run_time`.
    ///
    /// # Errors
    /// As [`Timer::blocked_autorange`].
    #[track_caller]
    pub fn adaptive_autorange(
        &mut self,
        threshold: f64,
        min_run_time: Duration,
        max_run_time: Duration,
    ) -> Result<Measurement> {
        let mut session = self.start(Span::caller())?;
        self.choose_runs(&mut session, min_run_time)?;
        let (start, mut seconds) = (Instant::now(), Vec::new());
        loop {
            self.blocks(&session, &mut seconds, min_run_time)?;
            let found = self.entry(&session, seconds.clone());
            if found.iqr() <= threshold * found.median() || start.elapsed() >= max_run_time {
                return Ok(self.measured(session, seconds));
            }
        }
    }

    /// Warms up, and looks at what a run computes.
    fn start(&mut self, span: Span) -> Result<Session> {
        let mut setting = Setting { devices: self.device.into_iter().collect(), pool: self.pool(span)? };
        let mut tensors = Vec::new();
        self.output(&mut tensors)?;
        let refs: Vec<&Tensor> = tensors.iter().collect();
        let nothing_run = !refs.is_empty() && refs.iter().all(|x| x.is_realized());
        let report = if refs.is_empty() { PlanReport::default() } else { plan(&refs)? };
        setting.devices.extend(tensors.iter().map(Tensor::device));
        setting.devices.sort_unstable();
        setting.devices.dedup();
        if setting.devices.is_empty() {
            setting.devices.push(default_device());
        }
        realize(&refs)?;
        drop(tensors);
        (self.block)(&mut self.run, &setting, 1)?;
        Ok(Session { setting, report, nothing_run, runs: 1, machine: Machine::now() })
    }

    fn output(&mut self, tensors: &mut Vec<Tensor>) -> Result<()> {
        match self.device {
            Some(device) => with_device(device, || (self.run)()).tensors(tensors),
            None => (self.run)().tensors(tensors),
        }
    }

    fn pool(&self, span: Span) -> Result<Option<ThreadPool>> {
        let Some(threads) = self.threads else { return Ok(None) };
        if threads == 0 || config().threads > 0 {
            let expected = "at least one thread, in a process without KILN_THREADS";
            return Err(argument("threads", expected, &threads.to_string(), span));
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        pool.map(Some)
            .map_err(|error| argument("threads", "threads the system gives", &error.to_string(), span))
    }

    /// Runs for a block so long that the clock does not matter.
    fn choose_runs(&mut self, session: &mut Session, min_run_time: Duration) -> Result<()> {
        let enough = (min_run_time / 1000).max(clock_step() * CLOCK_STEPS).as_secs_f64();
        loop {
            let block = self.block(session)? * session.runs as f64;
            if block >= enough {
                return Ok(());
            }
            let factor = (1.2 * enough / block.max(1e-9)).clamp(2.0, 10.0);
            session.runs = (session.runs as f64 * factor).ceil() as u64;
        }
    }

    /// Blocks for some time.
    fn blocks(&mut self, session: &Session, seconds: &mut Vec<f64>, time: Duration) -> Result<()> {
        let (start, before) = (Instant::now(), seconds.len());
        while seconds.len() < before + MIN_BLOCKS || start.elapsed() < time {
            seconds.push(self.block(session)?);
        }
        Ok(())
    }

    /// Seconds of a run in one block.
    fn block(&mut self, session: &Session) -> Result<f64> {
        let (run, setting, runs) = (&mut self.run, &session.setting, session.runs);
        let block = self.block;
        let took = match self.device {
            Some(device) => with_device(device, || block(run, setting, runs))?,
            None => block(run, setting, runs)?,
        };
        Ok(took.as_secs_f64() / runs as f64)
    }

    fn entry(&self, session: &Session, seconds: Vec<f64>) -> Measurement {
        Measurement {
            label: self.label.clone(),
            sub_label: self.sub_label.clone(),
            description: self.description.clone(),
            device: session.setting.devices[0],
            threads: self.threads.unwrap_or_else(threads::count),
            runs_per_block: session.runs,
            seconds,
            bytes: session.report.bytes_moved(),
            flops: session.report.flops(),
            disturbances: Vec::new(),
        }
    }

    fn measured(&self, session: Session, seconds: Vec<f64>) -> Measurement {
        let mut found = self.entry(&session, seconds);
        if session.nothing_run {
            found.disturbances.push(Disturbance::NothingRun);
        }
        if !found.is_steady() {
            found.disturbances.push(Disturbance::Spread(found.iqr() / found.median()));
        }
        found.disturbances.extend(session.machine.disturbances());
        found
    }
}

impl<O: Output, F: FnMut() -> O + Send> Timer<F> {
    /// How many threads the CPU device uses: the closure runs on a thread of a pool of so many, in this
    /// thread's context and with its default device. Other settings of the thread belong into the closure, as
    /// [`no_grad`](crate::no_grad).
    ///
    /// A process with `KILN_THREADS` has that many whatever is set here, and measuring is an error.
    ///
    /// # Examples
    /// ```
    /// use kiln::bench::Timer;
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([64, 64], ());
    /// assert_eq!(Timer::new(|| x.exp()).threads(2).timeit(5)?.threads, 2);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Timer<F> {
        self.threads = Some(threads);
        self.block = |run, setting, runs| {
            let (context, device) = (context::current(), default_device());
            let mut block =
                || context::with_context(&context, || with_device(device, || run_block(run, setting, runs)));
            match &setting.pool {
                Some(pool) => pool.install(block),
                None => block(),
            }
        };
        self
    }
}

/// A measurement under way.
struct Session {
    setting: Setting,
    /// What a run computes.
    report: PlanReport,
    /// The closure returned what was in memory.
    nothing_run: bool,
    runs: u64,
    machine: Machine,
}

/// So many runs, and a wait for the devices.
fn run_block<O: Output, F: FnMut() -> O>(run: &mut F, setting: &Setting, runs: u64) -> Result<Duration> {
    let mut tensors = Vec::new();
    let start = Instant::now();
    for _ in 0..runs {
        run().tensors(&mut tensors)?;
        realize(&tensors.iter().collect::<Vec<_>>())?;
        tensors.clear();
    }
    setting.devices.iter().try_for_each(|device| device.synchronize())?;
    Ok(start.elapsed())
}

/// The least time between two different readings of the clock.
fn clock_step() -> Duration {
    let step = || {
        let start = Instant::now();
        loop {
            let step = start.elapsed();
            if !step.is_zero() {
                return step;
            }
        }
    };
    (0..16).map(|_| step()).min().unwrap_or_default()
}

fn argument(call: &'static str, expected: &str, found: &str, span: Span) -> Error {
    Error::Argument { call, expected: expected.into(), found: found.into(), span }
}
