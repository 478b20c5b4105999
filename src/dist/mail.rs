//! A rank's end of a group, over messages that come to its process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::dist::post::{Message, PostOffice, Route, World};
use crate::dist::tcp::Sockets;
use crate::dist::transport::{Header, Incoming, Moved, Outgoing, Transport};

/// A rank's end of a group.
#[derive(Debug)]
pub(crate) struct Endpoint {
    world: Arc<World>,
    office: Arc<PostOffice>,
    /// This rank in the group.
    rank: usize,
    /// Its number among the ranks on its machine.
    local_rank: usize,
    /// How many groups of the same ranks this one has made.
    made: Arc<Mutex<HashMap<Vec<usize>, usize>>>,
    /// To the processes of the other ranks; threads put messages where all see them.
    sockets: Option<Arc<Sockets>>,
}

impl Endpoint {
    /// Of the group of all ranks, which these are.
    pub fn new(
        world: Arc<World>,
        members: Vec<usize>,
        rank: usize,
        local_rank: usize,
        sockets: Option<Arc<Sockets>>,
    ) -> Endpoint {
        let office = world.office(&members, 0);
        Endpoint { world, office, rank, local_rank, made: Arc::default(), sockets }
    }

    fn take(&self, routes: &[Route], header: &Header) -> Moved<Vec<Incoming>> {
        let messages = self.office.await_all(routes, header, self.world.timeout)?;
        for (route, message) in routes.iter().zip(&messages) {
            self.office.compare(self.rank, header, route, message)?;
        }
        Ok(messages.into_iter().map(|message| message.bytes).collect())
    }

    fn post(&self, routes: &[Route], header: &Header, bytes: impl Fn(usize) -> Incoming) -> Moved<()> {
        let messages = routes.iter().map(|&route| (route, Message::new(header, bytes(route.to))));
        // Copied before a lock is taken.
        let messages: Vec<(Route, Message)> = messages.collect();
        self.office.usable()?;
        match &self.sockets {
            None => self.office.put(messages),
            Some(sockets) => {
                for (route, message) in &messages {
                    sockets.send(&self.office, *route, message, self.world.timeout)?;
                }
            }
        }
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
        self.local_rank
    }
    fn timeout(&self) -> Duration {
        self.world.timeout
    }
    fn gone(&self) -> Vec<usize> {
        self.office.gone()
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
        let own = self.office.members[self.rank];
        let rank = members.iter().position(|&member| member == own).unwrap_or_default();
        let number = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            let count = made.entry(members.clone()).or_insert(0);
            *count += 1;
            *count
        };
        let (office, made) = (self.world.office(&members, number), self.made.clone());
        let (world, sockets) = (self.world.clone(), self.sockets.clone());
        Arc::new(Endpoint { world, office, rank, local_rank: self.local_rank, made, sockets })
    }
}
