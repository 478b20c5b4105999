//! What moves bytes between ranks: the part of a group that engines differ in.
//!
//! Every collective is an exchange, in which each rank gives some bytes to each other, and arithmetic of each
//! rank on what it got. So an engine knows neither types nor reductions, and all engines give the same bits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{CollectiveProblem, Span};

/// What an engine does of its own accord fails so.
pub(crate) type Moved<T> = Result<T, CollectiveProblem>;

/// What a rank announces with its bytes, so that ranks that have come apart find out.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    /// The number of the exchange in its group.
    pub number: u64,
    /// The operation with its type.
    pub operation: String,
    /// The user's line.
    pub span: Span,
}

impl Header {
    /// The operation and its line, as errors show them.
    pub fn text(&self) -> String {
        format!("{} at {}", self.operation, self.span)
    }
}

/// The bytes that a rank gives.
pub(crate) enum Outgoing<'a> {
    /// All others get these.
    Same(&'a [u8]),
    /// By rank, this one's own among them.
    Each(Vec<&'a [u8]>),
}

impl Outgoing<'_> {
    /// The bytes for a rank.
    pub fn to(&self, rank: usize) -> &[u8] {
        match self {
            Outgoing::Same(bytes) => bytes,
            Outgoing::Each(parts) => parts[rank],
        }
    }
}

/// The bytes that a rank gets.
pub(crate) type Incoming = Arc<[u8]>;

/// A rank's end of an engine.
///
/// An operation that has failed on one rank fails on all of them, and so does every later one. None waits
/// longer than the engine's timeout.
pub(crate) trait Transport: fmt::Debug + Send + Sync {
    /// The group's name.
    fn name(&self) -> &str;
    /// This rank's number in the group.
    fn rank(&self) -> usize;
    /// The number of ranks.
    fn size(&self) -> usize;
    /// This rank's number among the ranks on its machine, of the whole world.
    fn local_rank(&self) -> usize;
    /// How long a rank waits for another.
    fn timeout(&self) -> Duration;
    /// The ranks that are known to have ended.
    fn gone(&self) -> Vec<usize>;
    /// Gives bytes to all other ranks and takes theirs: by rank, this one's own among them.
    ///
    /// # Errors
    /// Ranks that are late or gone, or that announce another operation.
    fn exchange(&self, header: &Header, outgoing: &Outgoing<'_>) -> Moved<Vec<Incoming>>;
    /// Gives bytes to one rank, and does not wait until it takes them.
    ///
    /// # Errors
    /// As [`Transport::exchange`].
    fn send(&self, to: usize, header: &Header, bytes: &[u8]) -> Moved<()>;
    /// Takes the bytes that a rank gives to this one.
    ///
    /// # Errors
    /// As [`Transport::exchange`].
    fn receive(&self, from: usize, header: &Header) -> Moved<Incoming>;
    /// This rank's end of a group of some of the ranks, this one among them. All of these call it in the same
    /// order.
    fn subgroup(&self, members: &[usize]) -> Arc<dyn Transport>;
}
