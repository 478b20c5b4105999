//! Threads that share the work of a launch and stay awake for the next one.
//!
//! Launches of a model follow each other within microseconds, and a thread that sleeps takes some thirty to wake in
//! a virtual machine, about as long as a small kernel runs. Rayon's threads sleep sooner than that, and so does
//! whoever waits for them. Members of a team spin for a while before they sleep, and so does its leader, the thread
//! that has the work.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::runtime::cpu::thresholds::{IDLE_SPIN, WAIT_SPIN};

/// Some threads, which work for one leader at a time.
pub struct Team {
    members: Vec<(Thread, Arc<Member>)>,
    shared: Arc<Shared>,
    /// Held by the leader.
    lead: Mutex<()>,
}

/// One thread's part.
#[derive(Default)]
struct Member {
    /// How often it was called.
    calls: AtomicUsize,
    asleep: AtomicBool,
}

/// What the leader tells the members that it calls, and they tell it.
struct Shared {
    work: UnsafeCell<Option<Work>>,
    /// Members that are not done.
    busy: AtomicUsize,
    leader_asleep: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The work of a launch: a function of the number of a worker, of which the leader is 0.
#[derive(Clone)]
struct Work {
    function: *const (dyn Fn(usize) + Sync),
    leader: Thread,
}

// SAFETY: the leader writes `work` while no member is busy, and only members that are busy read it; both sides pass
// `calls` and `busy` in between. The function is Sync.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn panic(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Team {
    /// A team of so many threads besides the leader; of fewer where the system refuses.
    pub fn new(threads: usize) -> Team {
        let shared = Arc::new(Shared {
            work: UnsafeCell::new(None),
            busy: AtomicUsize::new(0),
            leader_asleep: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let start = |number: usize| {
            let member = Arc::new(Member::default());
            let (own, shared) = (member.clone(), shared.clone());
            let builder = thread::Builder::new().name(format!("cpu worker {number}"));
            let handle = builder.spawn(move || own.work(number, &shared)).ok()?;
            Some((handle.thread().clone(), member))
        };
        let members = (1..=threads).map_while(start).collect();
        Team { members, shared, lead: Mutex::new(()) }
    }

    /// How many threads there are besides the leader.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Calls `work` with each of `0..workers`, 0 on the calling thread; `false`, and calls nothing, if the team has
    /// another leader or too few threads. A panic of any of them goes on here, once all are done.
    pub fn run(&self, workers: usize, work: &(impl Fn(usize) + Sync)) -> bool {
        let _lead = match self.lead.try_lock() {
            Ok(lead) => lead,
            // A leader panicked, and had waited for all.
            Err(TryLockError::Poisoned(lead)) => lead.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let Some(called) = self.members.get(..workers - 1) else { return false };
        let function: &(dyn Fn(usize) + Sync) = work;
        // SAFETY: only the lifetime changes, and members forget the function before `Wait` is dropped.
        let function: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(function) };
        // SAFETY: the leader alone is here, and no member is busy.
        unsafe { *self.shared.work.get() = Some(Work { function, leader: thread::current() }) };
        self.shared.busy.store(called.len(), Ordering::Relaxed);
        // One that is left was of a launch whose leader panicked too.
        *self.shared.panic() = None;
        for (thread, member) in called {
            member.call(thread);
        }
        let wait = Wait(&self.shared);
        work(0);
        drop(wait);
        let panic = self.shared.panic().take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        true
    }
}

/// Waits for all members when it is dropped, however that comes.
struct Wait<'s>(&'s Shared);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let done = || self.0.busy.load(Ordering::SeqCst) == 0;
        if spins_until(WAIT_SPIN, done) {
            return;
        }
        self.0.leader_asleep.store(true, Ordering::SeqCst);
        while !done() {
            thread::park();
        }
        self.0.leader_asleep.store(false, Ordering::SeqCst);
    }
}

impl Member {
    fn call(&self, thread: &Thread) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            thread.unpark();
        }
    }

    /// Works whenever it is called, for as long as the process lives.
    fn work(&self, number: usize, shared: &Shared) {
        for calls in 0.. {
            self.wait_for_call(calls);
            // SAFETY: the leader wrote it before the call and waits for this member.
            let work = unsafe { (*shared.work.get()).clone() };
            let Some(Work { function, leader }) = work else { continue };
            // SAFETY: the leader keeps the function until this member is done.
            let ended = catch_unwind(AssertUnwindSafe(|| unsafe { (*function)(number) }));
            if let Err(panic) = ended {
                *shared.panic() = Some(panic);
            }
            if shared.busy.fetch_sub(1, Ordering::SeqCst) == 1 && shared.leader_asleep.load(Ordering::SeqCst)
            {
                leader.unpark();
            }
        }
    }

    /// Waits until it was called more than so many times.
    fn wait_for_call(&self, calls: usize) {
        let called = || self.calls.load(Ordering::SeqCst) != calls;
        if spins_until(IDLE_SPIN, called) {
            return;
        }
        self.asleep.store(true, Ordering::SeqCst);
        while !called() {
            thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

/// Spins until something holds, but no longer than `limit`. Returns whether it does.
fn spins_until(limit: Duration, holds: impl Fn() -> bool) -> bool {
    /// Spins between looks at the clock, which take as long as some of them.
    const SPINS: usize = 16;
    let start = Instant::now();
    loop {
        for _ in 0..SPINS {
            if holds() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() > limit {
            return holds();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_runs_once_however_long_the_pauses_are() {
        let team = Team::new(3);
        for round in 0..if cfg!(miri) { 20 } else { 2000 } {
            let workers = round % 4 + 1;
            let runs: [AtomicUsize; 4] = Default::default();
            assert!(team.run(workers, &|worker| {
                runs[worker].fetch_add(1, Ordering::Relaxed);
                if round % 100 == worker {
                    thread::sleep(2 * WAIT_SPIN);
                }
            }));
            let runs = runs.map(AtomicUsize::into_inner);
            assert!(
                runs.iter().enumerate().all(|(worker, &runs)| runs == usize::from(worker < workers)),
                "{runs:?}"
            );
            if round % 90 == 0 {
                thread::sleep(2 * IDLE_SPIN);
            }
        }
    }

    #[test]
    fn a_team_has_one_leader() {
        let team = Team::new(1);
        let inside = AtomicUsize::new(0);
        assert!(team.run(2, &|_| {
            let led = team.run(2, &|_| unreachable!("the team has a leader"));
            inside.fetch_add(usize::from(!led), Ordering::Relaxed);
        }));
        assert_eq!(inside.into_inner(), 2);
        assert!(!team.run(3, &|_| unreachable!("it has not so many threads")));
    }

    #[test]
    fn threads_that_lead_in_turn_all_get_their_work_done() {
        let team = Team::new(1);
        let done = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..if cfg!(miri) { 5 } else { 500 } {
                        let parts = AtomicUsize::new(0);
                        while !team.run(2, &|_| {
                            parts.fetch_add(1, Ordering::Relaxed);
                        }) {
                            thread::yield_now();
                        }
                        done.fetch_add(parts.into_inner(), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), if cfg!(miri) { 30 } else { 3000 });
    }

    #[test]
    fn a_panic_waits_for_the_others_and_goes_on() {
        let team = Team::new(2);
        for bad in [vec![0], vec![1], vec![2], vec![0, 2]] {
            let done = AtomicUsize::new(0);
            let ended = catch_unwind(AssertUnwindSafe(|| {
                team.run(3, &|worker| {
                    assert!(!bad.contains(&worker), "a bad worker");
                    thread::sleep(2 * WAIT_SPIN);
                    done.fetch_add(1, Ordering::Relaxed);
                })
            }));
            assert!(ended.is_err());
            assert_eq!(done.into_inner(), 3 - bad.len());
        }
        assert!(team.run(3, &|_| {}), "it serves again");
    }
}
