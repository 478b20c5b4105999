//! Ranks that are processes which an MPI launcher has started: messages go by the library's point-to-point
//! calls.
//!
//! Its collectives are not used. They cannot be given up, so a rank that is late would keep the others for
//! ever, and each library adds in an order of its own.

mod library;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::base::CollectiveProblem;
use crate::dist::launch::Launch;
use crate::dist::transport::{Header, Incoming, Moved, Outgoing, Transport};
use library::{Mpi, Pending};

/// Bytes of a message that announces another one.
const HEAD: usize = 512;

/// Tags: every implementation has at least 32767.
const TAGS: u64 = 16000;

/// How often to look for messages before sleeping in between.
const POLLS: usize = 2000;

/// This process in the world that its launcher has started.
#[derive(Debug)]
struct Session {
    mpi: Arc<Mpi>,
    timeout: Duration,
    local_rank: usize,
    /// Something went wrong: the others may have ended, and waiting for them might not.
    failed: AtomicBool,
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.failed.load(Ordering::Relaxed) && !std::thread::panicking() {
            self.mpi.finalize();
        }
    }
}

/// This process's end of the group of all processes.
///
/// # Errors
/// No library; one that the launcher does not belong to, so that it sees this process alone; a second call.
pub(crate) fn world(launch: Option<&Launch>, timeout: Duration) -> Result<Arc<dyn Transport>, String> {
    static LOADED: OnceLock<()> = OnceLock::new();
    if LOADED.set(()).is_err() {
        return Err("it has been initialized before, and cannot be again".into());
    }
    let named = std::env::var("KILN_MPI").ok().filter(|name| !name.is_empty());
    let by_hydra = launch.is_some_and(|launch| launch.is_hydra());
    let mpi = Arc::new(Mpi::load(named.as_deref(), by_hydra)?);
    let session = Session {
        timeout,
        local_rank: launch.map_or(0, |launch| launch.local_rank),
        failed: AtomicBool::new(false),
        mpi: mpi.clone(),
    };
    if let Some(launch) = launch.filter(|launch| launch.size != mpi.size) {
        session.failed.store(true, Ordering::Relaxed);
        return Err(format!(
            "{launch}, and {} sees {} rank(s): start the program by that library's own mpirun, or name the launcher's library in KILN_MPI",
            mpi.version, mpi.size
        ));
    }
    let members = (0..mpi.size).collect();
    Ok(Arc::new(Endpoint::new(Arc::new(session), "world".into(), members, 0, Arc::default())))
}

/// A process's end of a group.
#[derive(Debug)]
struct Endpoint {
    session: Arc<Session>,
    name: String,
    /// The processes, by rank.
    members: Vec<usize>,
    rank: usize,
    /// Of exchanges; the next one is of messages between two ranks.
    tag: i32,
    /// How many groups of the same ranks this process has made.
    made: Arc<Mutex<HashMap<Vec<usize>, usize>>>,
    problem: Mutex<Option<CollectiveProblem>>,
}

/// What a rank has announced.
struct Announced {
    is_same: bool,
    text: String,
    bytes: usize,
}

impl Endpoint {
    fn new(
        session: Arc<Session>,
        name: String,
        members: Vec<usize>,
        number: usize,
        made: Arc<Mutex<HashMap<Vec<usize>, usize>>>,
    ) -> Endpoint {
        let rank = members.iter().position(|&member| member == session.mpi.rank).unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        (&members, number).hash(&mut hasher);
        let tag = 2 * (hasher.finish() % TAGS) as i32;
        Endpoint { session, name, members, rank, tag, made, problem: Mutex::default() }
    }

    /// Remembers what went wrong first; nothing works from then on.
    fn fail(&self, problem: CollectiveProblem) -> CollectiveProblem {
        self.session.failed.store(true, Ordering::Relaxed);
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem).clone()
    }

    fn usable(&self) -> Moved<()> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
    }

    fn failed(&self, message: String) -> CollectiveProblem {
        self.fail(CollectiveProblem::Transport { message })
    }

    /// Sends what announces bytes, and the bytes.
    fn post(&self, to: usize, tag: i32, header: &Header, bytes: &Incoming) -> Moved<Vec<Pending>> {
        let head = announcement(&self.name, header, bytes.len());
        let process = self.members[to];
        let send = |bytes: Incoming| self.session.mpi.send(bytes, process, tag);
        let sent = send(head.into()).and_then(|head| Ok(vec![head, send(bytes.clone())?]));
        sent.map_err(|message| self.failed(message))
    }

    /// Receives so many bytes from each rank, and waits until they and what is sent are through.
    fn receive_all(
        &self,
        from: &[(usize, usize)],
        tag: i32,
        sent: &mut Vec<Pending>,
        header: &Header,
        deadline: Instant,
    ) -> Moved<Vec<Vec<u8>>> {
        let receive =
            |&(rank, count): &(usize, usize)| self.session.mpi.receive(count, self.members[rank], tag);
        let received = from.iter().map(receive).collect::<Result<Vec<Pending>, String>>();
        let mut received = received.map_err(|message| self.failed(message))?;
        for poll in 0.. {
            let mut missing = Vec::new();
            for (pending, (rank, _)) in received.iter_mut().zip(from) {
                if !pending.is_done().map_err(|message| self.failed(message))? {
                    missing.push(*rank);
                }
            }
            let mut still = Vec::new();
            for mut pending in std::mem::take(sent) {
                if !pending.is_done().map_err(|message| self.failed(message))? {
                    still.push(pending);
                }
            }
            *sent = still;
            if missing.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                let (operation, after) = (header.text(), self.session.timeout);
                return Err(self.fail(CollectiveProblem::Late { missing, operation, after }));
            }
            if poll < POLLS {
                std::thread::yield_now()
            } else {
                std::thread::sleep(Duration::from_micros(50))
            }
        }
        Ok(received.into_iter().map(Pending::into_received).collect())
    }

    /// Takes the bytes that ranks announce for this operation.
    fn take(
        &self,
        from: &[usize],
        tag: i32,
        header: &Header,
        mut sent: Vec<Pending>,
    ) -> Moved<Vec<Incoming>> {
        let deadline = Instant::now() + self.session.timeout;
        let heads: Vec<(usize, usize)> = from.iter().map(|&rank| (rank, HEAD)).collect();
        let heads = self.receive_all(&heads, tag, &mut sent, header, deadline)?;
        let announced: Vec<Announced> = heads.iter().map(|head| read(head, &self.name, header)).collect();
        if let Some((&rank, other)) = from.iter().zip(&announced).find(|(_, other)| !other.is_same) {
            let (one, other) = ((self.rank, header.text()), (rank, other.text.clone()));
            let (one, other) = if one.0 < other.0 { (one, other) } else { (other, one) };
            return Err(self.fail(CollectiveProblem::Differ { one, other }));
        }
        let bodies: Vec<(usize, usize)> =
            from.iter().copied().zip(announced.iter().map(|a| a.bytes)).collect();
        let bodies = self.receive_all(&bodies, tag, &mut sent, header, deadline)?;
        self.finish(sent, header, deadline)?;
        Ok(bodies.into_iter().map(Incoming::from).collect())
    }

    /// Waits until what is sent is through.
    fn finish(&self, mut sent: Vec<Pending>, header: &Header, deadline: Instant) -> Moved<()> {
        while !sent.is_empty() {
            self.receive_all(&[], 0, &mut sent, header, deadline)?;
            if Instant::now() > deadline {
                let (operation, after) = (header.text(), self.session.timeout);
                let missing = (0..self.size()).filter(|&rank| rank != self.rank).collect();
                return Err(self.fail(CollectiveProblem::Late { missing, operation, after }));
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// A message that says what another one belongs to.
fn announcement(group: &str, header: &Header, bytes: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD);
    head.extend(header.number.to_le_bytes());
    head.extend((bytes as u64).to_le_bytes());
    head.extend(digest(group, header).to_le_bytes());
    let text = header.text();
    let room = HEAD - head.len();
    let end = (0..=room.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    head.extend(&text.as_bytes()[..end]);
    head.resize(HEAD, 0);
    head
}

/// What ranks that run the same operation agree on.
fn digest(group: &str, header: &Header) -> u64 {
    let mut hasher = DefaultHasher::new();
    (group, header.number, &header.operation).hash(&mut hasher);
    hasher.finish()
}

fn read(head: &[u8], group: &str, header: &Header) -> Announced {
    let number = |at: usize| head[at..at + 8].iter().rev().fold(0u64, |n, &byte| n << 8 | u64::from(byte));
    let text = head[24..].split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text).into_owned();
    Announced { is_same: number(16) == digest(group, header), text, bytes: number(8) as usize }
}

impl Transport for Endpoint {
    fn name(&self) -> &str {
        &self.name
    }
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.members.len()
    }
    fn local_rank(&self) -> usize {
        self.session.local_rank
    }
    fn timeout(&self) -> Duration {
        self.session.timeout
    }
    fn gone(&self) -> Vec<usize> {
        // The library does not tell.
        Vec::new()
    }

    fn exchange(&self, header: &Header, outgoing: &Outgoing<'_>) -> Moved<Vec<Incoming>> {
        self.usable()?;
        let others: Vec<usize> = (0..self.size()).filter(|&rank| rank != self.rank).collect();
        let own: Incoming = outgoing.to(self.rank).into();
        let mut sent = Vec::new();
        for &to in &others {
            let bytes: Incoming = match outgoing {
                Outgoing::Same(_) => own.clone(),
                Outgoing::Each(parts) => parts[to].into(),
            };
            sent.extend(self.post(to, self.tag, header, &bytes)?);
        }
        let mut incoming = self.take(&others, self.tag, header, sent)?;
        incoming.insert(self.rank, own);
        Ok(incoming)
    }

    fn send(&self, to: usize, header: &Header, bytes: &[u8]) -> Moved<()> {
        self.usable()?;
        let sent = self.post(to, self.tag + 1, header, &bytes.into())?;
        self.finish(sent, header, Instant::now() + self.session.timeout)
    }

    fn receive(&self, from: usize, header: &Header) -> Moved<Incoming> {
        self.usable()?;
        let mut incoming = self.take(&[from], self.tag + 1, header, Vec::new())?;
        Ok(incoming.remove(0))
    }

    fn subgroup(&self, members: &[usize]) -> Arc<dyn Transport> {
        let members: Vec<usize> = members.iter().map(|&member| self.members[member]).collect();
        let number = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            let count = made.entry(members.clone()).or_insert(0);
            *count += 1;
            *count
        };
        let name = format!("world{members:?}");
        Arc::new(Endpoint::new(self.session.clone(), name, members, number, self.made.clone()))
    }
}
