//! Ranks that are processes, over TCP: each has a connection to each other.
//!
//! A thread for each connection takes what comes in, so that sending never waits for a receiver who sends. The
//! connection of a process that ends is closed by its system, which tells the others at once.

mod frame;
mod meet;

use std::collections::HashMap;
use std::io::BufReader;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use crate::base::CollectiveProblem;
use crate::dist::launch::Launch;
use crate::dist::mail::Endpoint;
use crate::dist::post::{Message, PostOffice, Route, World};
use crate::dist::transport::{Moved, Transport};
use frame::Frame;

/// The connections to the other ranks.
#[derive(Debug)]
pub(crate) struct Sockets(HashMap<usize, Mutex<TcpStream>>);

impl Sockets {
    /// Sends a message to a rank of a group.
    pub fn send(&self, office: &PostOffice, route: Route, message: &Message, timeout: Duration) -> Moved<()> {
        let Some(stream) = self.0.get(&office.members[route.to]) else { return Ok(()) };
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        Frame::write(&mut *stream, office, route, message).map_err(|error| {
            let (missing, operation) = (vec![route.to], message.text.clone());
            office.give_up(match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                    CollectiveProblem::Late { missing, operation, after: timeout }
                }
                _ => CollectiveProblem::Gone { missing, operation },
            })
        })
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        // What was sent still arrives; the threads that take what comes in end.
        for stream in self.0.values() {
            let _ = stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
        }
    }
}

/// This process's end of the group of all processes.
///
/// # Errors
/// Variables that are missing, an address that nobody answers at or that is taken, ranks that do not come.
pub(crate) fn world(launch: &Launch, timeout: Duration) -> Result<Arc<dyn Transport>, String> {
    let streams = meet::meet(launch.rank, launch.size, &meet::Place::from_environment()?, timeout)?;
    let world = World::new(timeout);
    for (&rank, stream) in &streams {
        let own = stream.try_clone().map_err(|error| error.to_string())?;
        let world = world.clone();
        let thread = Builder::new().name(format!("kiln-rank-{rank}"));
        thread.spawn(move || listen(&own, rank, &world)).map_err(|error| error.to_string())?;
    }
    let sockets = Sockets(streams.into_iter().map(|(rank, stream)| (rank, Mutex::new(stream))).collect());
    let members = (0..launch.size).collect();
    Ok(Arc::new(Endpoint::new(world, members, launch.rank, launch.local_rank, Some(Arc::new(sockets)))))
}

/// Takes what a rank sends, until its connection ends.
fn listen(stream: &TcpStream, rank: usize, world: &World) {
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    while let Ok(Frame { members, number, route, message }) = Frame::read(&mut stream) {
        world.office(&members, number).put([(route, message)]);
    }
    world.leave(rank);
}
