//! A thread that meets other ranks while this one computes.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

type Job = Box<dyn FnOnce() + Send>;

/// A rank's thread for collectives, of all its groups, one after the other. It starts with the first, and
/// ends when nobody can ask for another.
#[derive(Debug, Default)]
pub(crate) struct Worker(Mutex<Option<Sender<Job>>>);

impl Worker {
    /// Runs a job after those before it; at once, on this thread, where the system gives no other.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
        let (sender, receiver) = mpsc::channel();
        let job: Job = Box::new(move || {
            // Nobody may be interested any more, after an error.
            let _ = sender.send(job());
        });
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.is_none() {
            *jobs = start();
        }
        match jobs.as_ref() {
            Some(jobs) => {
                if let Err(mpsc::SendError(job)) = jobs.send(job) {
                    job();
                }
            }
            None => job(),
        }
        receiver
    }
}

fn start() -> Option<Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let run = move || jobs.into_iter().for_each(|job| job());
    Builder::new().name("kiln-collectives".into()).spawn(run).ok().map(|_| sender)
}
