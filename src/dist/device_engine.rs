//! Collectives whose data go from device to device, by a library such as NCCL: what a group does about them.
//!
//! Such a library waits for ever for a rank that does not come, and mixes up the data of ranks that differ. So
//! ranks announce a collective over the group's transport first, as they do those whose data it moves. The
//! library's calls run on a thread of their own, which is given up when they take too long.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::{CollectiveProblem, Device};
use crate::dist::transport::{Header, Moved, Transport};
use crate::dist::worker::Worker;
use crate::ir::device_collective::{Communicator, DeviceCollective, Said};

/// How often to look whether ranks have ended.
const LOOK: Duration = Duration::from_millis(50);

/// How long the library has to end by itself once a rank has: that one may just have been sooner done.
const GRACE: Duration = Duration::from_secs(5);

/// A rank's devices among those of the other ranks of a group.
#[derive(Debug, Default)]
pub(crate) struct DeviceEngine {
    communicators: Mutex<HashMap<Device, Arc<dyn Communicator>>>,
    /// The library's calls.
    calls: Worker,
    /// What went wrong first; nothing works from then on.
    problem: Mutex<Option<CollectiveProblem>>,
}

/// What tells an invitation of one rank, where there is one, to all.
pub(crate) type Invite<'a> = &'a dyn Fn(&[u8]) -> Moved<Vec<u8>>;

impl DeviceEngine {
    /// What went wrong before, if something has.
    pub fn usable(&self) -> Moved<()> {
        lock(&self.problem).clone().map_or(Ok(()), Err)
    }

    /// Takes part in a collective that all ranks have announced.
    pub fn run(
        &self,
        transport: &dyn Transport,
        header: &Header,
        part: Box<dyn DeviceCollective>,
        invite: Invite<'_>,
    ) -> Moved<()> {
        let device = part.device();
        let ran = self.joined(transport, header, part, invite).and_then(|(part, communicator)| {
            let used = communicator.clone();
            let done = self.calls.run(move || part.run(&*used));
            answer(&done, transport, header).inspect_err(|_| communicator.abort())
        });
        ran.map_err(|problem| {
            lock(&self.communicators).remove(&device);
            lock(&self.problem).get_or_insert(problem).clone()
        })
    }

    /// The device's communicator. The first time, the ranks meet for it.
    fn joined(
        &self,
        transport: &dyn Transport,
        header: &Header,
        part: Box<dyn DeviceCollective>,
        invite: Invite<'_>,
    ) -> Moved<(Box<dyn DeviceCollective>, Arc<dyn Communicator>)> {
        let device = part.device();
        if let Some(known) = lock(&self.communicators).get(&device) {
            return Ok((part, known.clone()));
        }
        let (rank, size) = (transport.rank(), transport.size());
        // The others hear of a failure too, by an empty invitation.
        let own = if rank == 0 { part.invitation() } else { Ok(Vec::new()) };
        let invitation = invite(own.as_deref().unwrap_or_default())?;
        own.map_err(said)?;
        if invitation.is_empty() {
            return Err(said("rank 0 could not begin".into()));
        }
        let joined = self.calls.run(move || {
            let joined = part.join(&invitation, rank, size);
            joined.map(|communicator| (part, communicator))
        });
        let (part, communicator) = answer(&joined, transport, header)?;
        lock(&self.communicators).insert(device, communicator.clone());
        Ok((part, communicator))
    }
}

/// What the library answers, in time.
fn answer<T>(answer: &Receiver<Said<T>>, transport: &dyn Transport, header: &Header) -> Moved<T> {
    let after = transport.timeout();
    let mut deadline = Instant::now() + after;
    loop {
        match answer.recv_timeout(LOOK.min(after)) {
            Ok(answer) => return answer.map_err(said),
            Err(RecvTimeoutError::Disconnected) => return Err(said("the thread of its calls ended".into())),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let gone = transport.gone();
        if !gone.is_empty() {
            deadline = deadline.min(Instant::now() + GRACE);
        }
        if Instant::now() < deadline {
            continue;
        }
        let operation = header.text();
        return Err(if gone.is_empty() {
            // Which of the others it waits for, the library does not say.
            let missing = (0..transport.size()).filter(|&rank| rank != transport.rank()).collect();
            CollectiveProblem::Late { missing, operation, after }
        } else {
            CollectiveProblem::Gone { missing: gone, operation }
        });
    }
}

fn said(message: String) -> CollectiveProblem {
    CollectiveProblem::Transport { message }
}

/// Nothing that can panic runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
