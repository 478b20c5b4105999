//! Ranks that are threads of one process: messages are in memory that all of them see.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::CollectiveProblem;
use crate::dist::transport::{Header, Incoming, Moved, Outgoing, Transport};

/// The threads that [`spawn`](crate::dist::spawn) runs.
#[derive(Debug)]
pub(crate) struct World {
    /// How long a rank waits for another.
    timeout: Duration,
    /// The groups, by the ranks of the world in them and how many of the same there were before.
    groups: Mutex<HashMap<(Vec<usize>, usize), Arc<PostOffice>>>,
}

impl World {
    /// A world of ranks that wait so long.
    pub fn new(timeout: Duration) -> Arc<World> {
        Arc::new(World { timeout, groups: Mutex::default() })
    }

    /// A rank's end of the group of all ranks.
    pub fn endpoint(self: &Arc<World>, rank: usize, size: usize) -> Endpoint {
        self.group("world".into(), (0..size).collect(), 0, rank, Arc::default())
    }

    /// A rank has ended: nobody need wait for it.
    pub fn leave(&self, rank: usize) {
        for office in lock(&self.groups).values() {
            if let Some(own) = office.members.iter().position(|&member| member == rank) {
                lock(&office.state).gone[own] = true;
                office.changed.notify_all();
            }
        }
    }

    fn group(
        self: &Arc<World>,
        name: String,
        members: Vec<usize>,
        number: usize,
        rank: usize,
        made: Arc<Mutex<HashMap<Vec<usize>, usize>>>,
    ) -> Endpoint {
        let mut groups = lock(&self.groups);
        let office =
            groups.entry((members.clone(), number)).or_insert_with(|| PostOffice::new(name, members));
        Endpoint { world: self.clone(), office: office.clone(), rank, made }
    }
}

/// The messages of a group that have been sent and not taken.
#[derive(Debug)]
struct PostOffice {
    name: String,
    /// The ranks of the world, by rank of the group.
    members: Vec<usize>,
    state: Mutex<PostState>,
    changed: Condvar,
}

#[derive(Debug)]
struct PostState {
    boxes: HashMap<Route, VecDeque<Message>>,
    /// By rank: whether it has ended.
    gone: Vec<bool>,
    /// What went wrong first; nothing works from then on.
    problem: Option<CollectiveProblem>,
}

/// From whom to whom, and whether in an exchange of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Route {
    from: usize,
    to: usize,
    among_all: bool,
}

#[derive(Debug)]
struct Message {
    header: Header,
    bytes: Incoming,
}

impl PostOffice {
    fn new(name: String, members: Vec<usize>) -> Arc<PostOffice> {
        let gone = vec![false; members.len()];
        let state = PostState { boxes: HashMap::new(), gone, problem: None };
        Arc::new(PostOffice { name, members, state: Mutex::new(state), changed: Condvar::new() })
    }

    fn fail(&self, state: &mut PostState, problem: CollectiveProblem) -> CollectiveProblem {
        let first = state.problem.get_or_insert(problem).clone();
        self.changed.notify_all();
        first
    }

    /// Waits until there is a message in each box.
    fn await_all(&self, routes: &[Route], header: &Header, timeout: Duration) -> Moved<Vec<Message>> {
        let deadline = Instant::now() + timeout;
        let mut state = lock(&self.state);
        loop {
            if let Some(problem) = &state.problem {
                return Err(problem.clone());
            }
            let is_empty = |route: &&Route| state.boxes.get(route).is_none_or(VecDeque::is_empty);
            let missing: Vec<usize> = routes.iter().filter(is_empty).map(|route| route.from).collect();
            if missing.is_empty() {
                let take = |route| state.boxes.get_mut(route).and_then(VecDeque::pop_front);
                return Ok(routes.iter().filter_map(take).collect());
            }
            let gone: Vec<usize> = missing.iter().copied().filter(|&rank| state.gone[rank]).collect();
            if !gone.is_empty() {
                let problem = CollectiveProblem::Gone { missing: gone, operation: header.text() };
                return Err(self.fail(&mut state, problem));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let operation = header.text();
                let problem = CollectiveProblem::Late { missing, operation, after: timeout };
                return Err(self.fail(&mut state, problem));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Fails if a message belongs to another operation than this rank's.
    fn compare(&self, rank: usize, header: &Header, from: &Route, message: &Message) -> Moved<()> {
        let theirs = &message.header;
        if theirs.number == header.number && theirs.operation == header.operation {
            return Ok(());
        }
        let (one, other) = ((rank, header.text()), (from.from, theirs.text()));
        let (one, other) = if one.0 < other.0 { (one, other) } else { (other, one) };
        Err(self.fail(&mut lock(&self.state), CollectiveProblem::Differ { one, other }))
    }
}

/// A thread's end of a group.
#[derive(Debug)]
pub(crate) struct Endpoint {
    world: Arc<World>,
    office: Arc<PostOffice>,
    /// This thread's rank in the group.
    rank: usize,
    /// How many groups of the same ranks this thread has made.
    made: Arc<Mutex<HashMap<Vec<usize>, usize>>>,
}

impl Endpoint {
    fn take(&self, routes: &[Route], header: &Header) -> Moved<Vec<Incoming>> {
        let messages = self.office.await_all(routes, header, self.world.timeout)?;
        for (route, message) in routes.iter().zip(&messages) {
            self.office.compare(self.rank, header, route, message)?;
        }
        Ok(messages.into_iter().map(|message| message.bytes).collect())
    }

    fn post(&self, routes: &[Route], header: &Header, bytes: impl Fn(usize) -> Incoming) -> Moved<()> {
        // Copied before the lock is taken.
        let messages = routes.iter().map(|route| Message { header: header.clone(), bytes: bytes(route.to) });
        let messages: Vec<Message> = messages.collect();
        let mut state = lock(&self.office.state);
        if let Some(problem) = &state.problem {
            return Err(problem.clone());
        }
        for (&route, message) in routes.iter().zip(messages) {
            state.boxes.entry(route).or_default().push_back(message);
        }
        self.office.changed.notify_all();
        Ok(())
    }
}

impl Transport for Endpoint {
    fn name(&self) -> &str {
        &self.office.name
    }
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.office.members.len()
    }
    fn local_rank(&self) -> usize {
        self.office.members[self.rank]
    }

    fn exchange(&self, header: &Header, outgoing: &Outgoing<'_>) -> Moved<Vec<Incoming>> {
        let others = (0..self.size()).filter(|&rank| rank != self.rank);
        let to: Vec<Route> =
            others.clone().map(|to| Route { from: self.rank, to, among_all: true }).collect();
        let from: Vec<Route> = others.map(|from| Route { from, to: self.rank, among_all: true }).collect();
        let own: Incoming = outgoing.to(self.rank).into();
        let bytes = |to: usize| match outgoing {
            Outgoing::Same(_) => own.clone(),
            Outgoing::Each(parts) => parts[to].into(),
        };
        self.post(&to, header, bytes)?;
        let mut incoming = self.take(&from, header)?;
        incoming.insert(self.rank, own.clone());
        Ok(incoming)
    }

    fn send(&self, to: usize, header: &Header, bytes: &[u8]) -> Moved<()> {
        self.post(&[Route { from: self.rank, to, among_all: false }], header, |_| bytes.into())
    }

    fn receive(&self, from: usize, header: &Header) -> Moved<Incoming> {
        let mut incoming = self.take(&[Route { from, to: self.rank, among_all: false }], header)?;
        Ok(incoming.remove(0))
    }

    fn subgroup(&self, members: &[usize]) -> Arc<dyn Transport> {
        let members: Vec<usize> = members.iter().map(|&member| self.office.members[member]).collect();
        let name = format!("world{members:?}");
        let own = self.office.members[self.rank];
        let rank = members.iter().position(|&member| member == own).unwrap_or_default();
        let number = {
            let mut made = lock(&self.made);
            let count = made.entry(members.clone()).or_insert(0);
            *count += 1;
            *count
        };
        Arc::new(self.world.group(name, members, number, rank, self.made.clone()))
    }
}

/// Nothing that can panic runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
