//! What can go wrong between the ranks of a group.

use std::fmt;
use std::time::Duration;

use crate::base::span::Span;

/// An operation of a group of ranks that did not come about. Every rank gets one, and the group cannot be used
/// any more: which operations its ranks have run is not known.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveError {
    /// The operation, with its type: `all_reduce(sum) f32[4]`.
    pub operation: String,
    /// The group's name.
    pub group: String,
    /// The rank that asked for the operation, in the group.
    pub rank: usize,
    /// What happened, on whichever rank found it.
    pub problem: CollectiveProblem,
    /// The user's line that asked for the operation.
    pub span: Span,
}

/// What keeps the ranks of a group apart. Ranks are numbered in the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectiveProblem {
    /// Ranks that did not come in time.
    Late {
        /// Who is missing.
        missing: Vec<usize>,
        /// The operation that they were waited for in, with its line.
        operation: String,
        /// How long.
        after: Duration,
    },
    /// Ranks that have ended, by returning, by an error or by a panic.
    Gone {
        /// Who is missing.
        missing: Vec<usize>,
        /// The operation that they were waited for in, with its line.
        operation: String,
    },
    /// Two ranks that run different operations.
    Differ {
        /// One rank and its operation, with its line.
        one: (usize, String),
        /// The other.
        other: (usize, String),
    },
    /// What the library that moves the data says.
    Transport {
        /// The text.
        message: String,
    },
}

/// `rank 2` or `ranks 1, 2`.
fn ranks(ranks: &[usize]) -> String {
    let numbers: Vec<String> = ranks.iter().map(usize::to_string).collect();
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

impl fmt::Display for CollectiveProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CollectiveProblem::Late { missing, operation, after } => {
                write!(f, "{} did not come to {operation} within {after:?}", ranks(missing))
            }
            CollectiveProblem::Gone { missing, operation } => {
                write!(f, "{} ended before {operation}", ranks(missing))
            }
            CollectiveProblem::Differ { one, other } => write!(
                f,
                "all ranks must run the same operations in the same order, and rank {} runs {}, rank {} {}",
                one.0, one.1, other.0, other.1
            ),
            CollectiveProblem::Transport { message } => f.write_str(message),
        }
    }
}

impl fmt::Display for CollectiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CollectiveError { operation, group, rank, problem, span } = self;
        write!(f, "{operation} on rank {rank} of {group}: {problem}\n  at {span}")
    }
}
