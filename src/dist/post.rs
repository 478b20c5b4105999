//! Messages that have come to a process and that nobody has taken yet: of all its ranks, if these are threads, or
//! of the one that it is.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::CollectiveProblem;
use crate::dist::mail::Endpoint;
use crate::dist::transport::{Header, Incoming, Moved};

/// All ranks, as far as this process has to do with them.
#[derive(Debug)]
pub(crate) struct World {
    /// How long a rank waits for another.
    pub timeout: Duration,
    groups: Mutex<Groups>,
}

/// The groups, and who has ended.
#[derive(Debug, Default)]
struct Groups {
    /// By the ranks of the world in them and how many of the same there were before.
    offices: HashMap<(Vec<usize>, usize), Arc<PostOffice>>,
    gone: BTreeSet<usize>,
}

impl World {
    /// A world of ranks that wait so long.
    pub fn new(timeout: Duration) -> Arc<World> {
        Arc::new(World { timeout, groups: Mutex::default() })
    }

    /// A thread's end of the group of all ranks.
    pub fn endpoint(self: &Arc<World>, rank: usize, size: usize) -> Endpoint {
        Endpoint::new(self.clone(), (0..size).collect(), rank, rank, None)
    }

    /// A rank has ended: nobody need wait for it.
    pub fn leave(&self, rank: usize) {
        let mut groups = lock(&self.groups);
        groups.gone.insert(rank);
        groups.offices.values().for_each(|office| office.leave(rank));
    }

    /// The messages of a group: of the ranks of the world in it, and the how many-th of these.
    pub fn office(&self, members: &[usize], number: usize) -> Arc<PostOffice> {
        let mut groups = lock(&self.groups);
        if let Some(office) = groups.offices.get(&(members.to_vec(), number)) {
            return office.clone();
        }
        let office = PostOffice::new(members.to_vec(), number);
        groups.gone.iter().for_each(|&rank| office.leave(rank));
        groups.offices.insert((members.to_vec(), number), office.clone());
        office
    }
}

/// The messages of a group that have been sent and not taken.
#[derive(Debug)]
pub(crate) struct PostOffice {
    pub name: String,
    /// The ranks of the world, by rank of the group.
    pub members: Vec<usize>,
    /// How many groups of the same ranks there were before; of the world 0.
    pub number: usize,
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
pub(crate) struct Route {
    pub from: usize,
    pub to: usize,
    pub among_all: bool,
}

/// Bytes, and what they were announced as.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub number: u64,
    pub operation: String,
    /// The operation with the line of who sent it.
    pub text: String,
    pub bytes: Incoming,
}

impl Message {
    pub fn new(header: &Header, bytes: Incoming) -> Message {
        let (number, operation, text) = (header.number, header.operation.clone(), header.text());
        Message { number, operation, text, bytes }
    }
}

impl PostOffice {
    fn new(members: Vec<usize>, number: usize) -> Arc<PostOffice> {
        let name = if number == 0 { "world".into() } else { format!("world{members:?}") };
        let gone = vec![false; members.len()];
        let state = Mutex::new(PostState { boxes: HashMap::new(), gone, problem: None });
        Arc::new(PostOffice { name, members, number, state, changed: Condvar::new() })
    }

    /// A rank of the world has ended.
    fn leave(&self, rank: usize) {
        if let Some(own) = self.members.iter().position(|&member| member == rank) {
            lock(&self.state).gone[own] = true;
            self.changed.notify_all();
        }
    }

    /// The ranks that have ended.
    pub fn gone(&self) -> Vec<usize> {
        let state = lock(&self.state);
        (0..state.gone.len()).filter(|&rank| state.gone[rank]).collect()
    }

    /// What went wrong before, if something has.
    pub fn usable(&self) -> Moved<()> {
        lock(&self.state).problem.clone().map_or(Ok(()), Err)
    }

    /// Nothing works from now on. What went wrong first.
    pub fn give_up(&self, problem: CollectiveProblem) -> CollectiveProblem {
        self.fail(&mut lock(&self.state), problem)
    }

    /// Puts messages where their receivers look for them.
    pub fn put(&self, messages: impl IntoIterator<Item = (Route, Message)>) {
        let mut state = lock(&self.state);
        for (route, message) in messages {
            state.boxes.entry(route).or_default().push_back(message);
        }
        self.changed.notify_all();
    }

    fn fail(&self, state: &mut PostState, problem: CollectiveProblem) -> CollectiveProblem {
        let first = state.problem.get_or_insert(problem).clone();
        self.changed.notify_all();
        first
    }

    /// Waits until there is a message in each box.
    pub fn await_all(&self, routes: &[Route], header: &Header, timeout: Duration) -> Moved<Vec<Message>> {
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
    pub fn compare(&self, rank: usize, header: &Header, from: &Route, message: &Message) -> Moved<()> {
        if message.number == header.number && message.operation == header.operation {
            return Ok(());
        }
        let (one, other) = ((rank, header.text()), (from.from, message.text.clone()));
        let (one, other) = if one.0 < other.0 { (one, other) } else { (other, one) };
        Err(self.give_up(CollectiveProblem::Differ { one, other }))
    }
}

/// Nothing that can panic runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
