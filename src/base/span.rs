//! Where in the user's program something was written.

use std::fmt;
use std::panic::Location;

/// A line of the user's source, carried by every node and error.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span(&'static Location<'static>);

impl Span {
    /// The caller's line; functions between must be `#[track_caller]`.
    #[track_caller]
    #[inline]
    pub fn caller() -> Span {
        Span(Location::caller())
    }
    /// The source file.
    pub fn file(self) -> &'static str {
        self.0.file()
    }
    /// The line, from 1.
    pub fn line(self) -> u32 {
        self.0.line()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.file(), self.0.line())
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
