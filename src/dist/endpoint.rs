//! Collectives as exchanges of bytes, for any engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use crate::base::{CollectiveError, CollectiveProblem, Error, Result, Span};
use crate::dist::device_engine::DeviceEngine;
use crate::dist::reduce::reduce;
use crate::dist::transport::{Header, Incoming, Moved, Outgoing, Transport};
use crate::dist::worker::Worker;
use crate::ir::Type;
use crate::ir::collective::{BuildOrder, Channel, CollectiveKind, Reduce};
use crate::ir::device_collective::DeviceCollective;

/// Bytes from which on each rank combines a part of the elements and gives it to the others: below, that
/// costs more time in waiting than it saves in work.
const SPLIT: usize = 64 << 10;

/// A rank of a group, over an engine.
#[derive(Debug)]
pub(crate) struct Endpoint {
    transport: Arc<dyn Transport>,
    /// Exchanges so far.
    exchanges: AtomicU64,
    /// By other rank: messages to it and from it so far.
    messages: Vec<[AtomicU64; 2]>,
    order: Arc<BuildOrder>,
    worker: Arc<Worker>,
    /// Where data go from device to device if they can.
    devices: Option<DeviceEngine>,
}

impl Endpoint {
    /// Over an engine; with `between_devices`, data on devices that can do so pass it by.
    pub fn new(transport: Arc<dyn Transport>, between_devices: bool) -> Endpoint {
        let devices = between_devices.then(DeviceEngine::default);
        let messages = (0..transport.size()).map(|_| Default::default()).collect();
        let (order, worker) = Default::default();
        Endpoint { transport, exchanges: AtomicU64::new(0), messages, order, worker, devices }
    }

    /// This rank's number among the ranks on its machine.
    pub fn local_rank(&self) -> usize {
        self.transport.local_rank()
    }

    /// The same rank in a group of some ranks, this one among them.
    pub fn subgroup(&self, members: &[usize]) -> Endpoint {
        let (order, worker) = (self.order.clone(), self.worker.clone());
        let group = Endpoint::new(self.transport.subgroup(members), self.devices.is_some());
        Endpoint { order, worker, ..group }
    }

    /// Sends a value to another rank.
    pub fn send(&self, to: usize, ty: &Type, span: Span, bytes: &[u8]) -> Result<()> {
        let header = self.message("send", &self.messages[to][0], ty, span);
        self.transport.send(to, &header, bytes).map_err(|problem| self.error(&header, problem))
    }

    /// Takes a value of another rank.
    pub fn receive(&self, from: usize, ty: &Type, span: Span) -> Result<Incoming> {
        let header = self.message("send", &self.messages[from][1], ty, span);
        self.transport.receive(from, &header).map_err(|problem| self.error(&header, problem))
    }

    fn message(&self, name: &str, count: &AtomicU64, ty: &Type, span: Span) -> Header {
        let number = count.fetch_add(1, Ordering::Relaxed);
        Header { number, operation: described(name, ty), span }
    }

    fn error(&self, header: &Header, problem: CollectiveProblem) -> Error {
        let group = self.transport.name().into();
        let (operation, span) = (header.operation.clone(), header.span);
        let error = CollectiveError { operation, group, rank: self.transport.rank(), problem, span };
        Error::Collective(Arc::new(error))
    }

    fn exchange(&self, header: &mut Header, outgoing: &Outgoing<'_>) -> Moved<Vec<Incoming>> {
        self.devices.as_ref().map_or(Ok(()), DeviceEngine::usable)?;
        header.number = self.exchanges.fetch_add(1, Ordering::Relaxed);
        self.transport.exchange(header, outgoing)
    }

    fn collective(&self, kind: CollectiveKind, ty: &Type, header: &mut Header, own: &[u8]) -> Moved<Vec<u8>> {
        let bytes = |incoming: Vec<Incoming>| incoming.concat();
        match kind {
            CollectiveKind::AllReduce(how) => self.all_reduce(how, ty, header, own),
            CollectiveKind::ReduceScatter(how) => {
                let incoming = self.exchange(header, &self.parts(own))?;
                Ok(combined(how, ty, &incoming))
            }
            CollectiveKind::AllGather => self.exchange(header, &Outgoing::Same(own)).map(bytes),
            CollectiveKind::AllToAll => self.exchange(header, &self.parts(own)).map(bytes),
            CollectiveKind::Broadcast { root } => {
                let given: &[u8] = if root == self.rank() { own } else { &[] };
                let incoming = self.exchange(header, &Outgoing::Same(given))?;
                Ok(incoming[root].to_vec())
            }
            CollectiveKind::SumTo { root } => {
                let to = |rank: usize| if rank == root { own } else { &[] };
                let outgoing = Outgoing::Each((0..self.size()).map(to).collect());
                let incoming = self.exchange(header, &outgoing)?;
                Ok(if root == self.rank() {
                    combined(Reduce::Sum, ty, &incoming)
                } else {
                    vec![0; own.len()]
                })
            }
            CollectiveKind::Barrier => self.exchange(header, &Outgoing::Same(&[])).map(|_| own.to_vec()),
        }
    }

    /// A collective by the device, once all ranks have announced it.
    fn run_between_devices(
        &self,
        kind: CollectiveKind,
        ty: &Type,
        span: Span,
        part: Box<dyn DeviceCollective>,
    ) -> Result<()> {
        let operation = format!("{} between devices", described(&kind.to_string(), ty));
        let mut header = Header { number: 0, operation, span };
        let invite = |own: &[u8]| {
            let mut header = Header { number: 0, operation: "meeting of devices".into(), span };
            let incoming = self.exchange(&mut header, &Outgoing::Same(own))?;
            Ok(incoming[0].to_vec())
        };
        let announced = self.exchange(&mut header, &Outgoing::Same(&[]));
        let passes_host =
            || CollectiveProblem::Transport { message: "its data pass through the host".into() };
        let done = announced
            .and_then(|_| self.devices.as_ref().ok_or_else(passes_host))
            .and_then(|devices| devices.run(&*self.transport, &header, part, &invite));
        done.map_err(|problem| self.error(&header, problem))
    }

    fn all_reduce(&self, how: Reduce, ty: &Type, header: &mut Header, own: &[u8]) -> Moved<Vec<u8>> {
        if own.len() < SPLIT || self.size() == 1 {
            let incoming = self.exchange(header, &Outgoing::Same(own))?;
            return Ok(combined(how, ty, &incoming));
        }
        let element = ty.dtype.size();
        let each = (own.len() / element).div_ceil(self.size()) * element;
        let end = |rank: usize| (each * rank).min(own.len());
        let parts = (0..self.size()).map(|rank| &own[end(rank)..end(rank + 1)]).collect();
        let incoming = self.exchange(header, &Outgoing::Each(parts))?;
        let part = combined(how, ty, &incoming);
        drop(incoming);
        self.exchange(header, &Outgoing::Same(&part)).map(|incoming| incoming.concat())
    }

    /// As many equal parts as there are ranks.
    fn parts<'a>(&self, own: &'a [u8]) -> Outgoing<'a> {
        let each = own.len() / self.size();
        Outgoing::Each((0..self.size()).map(|rank| &own[each * rank..each * (rank + 1)]).collect())
    }
}

fn combined(how: Reduce, ty: &Type, ranks: &[Incoming]) -> Vec<u8> {
    let ranks: Vec<&[u8]> = ranks.iter().map(|rank| &rank[..]).collect();
    reduce(how, ty.dtype, &ranks)
}

fn described(operation: &str, ty: &Type) -> String {
    format!("{operation} {}{}", ty.dtype, ty.shape)
}

/// Whether some device runs collectives of that kind by itself.
fn is_known_to_devices(kind: CollectiveKind) -> bool {
    #[cfg(feature = "nccl")]
    return crate::runtime::cuda::collective::is_known(kind);
    #[cfg(not(feature = "nccl"))]
    {
        let _ = kind;
        false
    }
}

impl Channel for Endpoint {
    fn name(&self) -> &str {
        self.transport.name()
    }
    fn rank(&self) -> usize {
        self.transport.rank()
    }
    fn size(&self) -> usize {
        self.transport.size()
    }
    fn order(&self) -> &BuildOrder {
        &self.order
    }

    fn start(
        self: Arc<Self>,
        kind: CollectiveKind,
        ty: &Type,
        span: Span,
        operand: Vec<u8>,
    ) -> Receiver<Result<Vec<u8>>> {
        let (ty, worker) = (ty.clone(), self.worker.clone());
        worker.run(move || self.run(kind, &ty, span, &operand))
    }

    fn goes_between_devices(&self, kind: CollectiveKind) -> bool {
        self.devices.is_some() && is_known_to_devices(kind)
    }

    fn start_between_devices(
        self: Arc<Self>,
        kind: CollectiveKind,
        ty: &Type,
        span: Span,
        part: Box<dyn DeviceCollective>,
    ) -> Receiver<Result<()>> {
        let (ty, worker) = (ty.clone(), self.worker.clone());
        worker.run(move || self.run_between_devices(kind, &ty, span, part))
    }

    fn run(&self, kind: CollectiveKind, ty: &Type, span: Span, operand: &[u8]) -> Result<Vec<u8>> {
        let operation = match kind {
            CollectiveKind::Barrier => kind.to_string(),
            _ => described(&kind.to_string(), ty),
        };
        let mut header = Header { number: 0, operation, span };
        let done = self.collective(kind, ty, &mut header, operand);
        done.map_err(|problem| self.error(&header, problem))
    }
}
