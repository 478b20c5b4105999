//! Source locations in the user's program.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;

use crate::base::scope::{Scope, Scopes};

/// A line of the user's source, carried by every node and error.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span(&'static Location<'static>);

/// What the path of every file of this library begins with.
const LIBRARY: &str = file!().split_at(file!().len() - "base/span.rs".len()).0;

thread_local! {
    static LINES: Scopes<Span> = const { Scopes::told(|innermost| USERS.set(innermost.copied())) };
    /// The innermost of them, which every operation asks for.
    static USERS: Cell<Option<Span>> = const { Cell::new(None) };
}

impl Span {
    /// The caller's line; functions between must be `#[track_caller]`. For a
    /// line of this library, the user's that [`Span::enter`] remembers.
    #[track_caller]
    #[inline]
    pub fn caller() -> Span {
        let own = Location::caller();
        match USERS.get() {
            Some(users) if own.file().starts_with(LIBRARY) => users,
            Some(_) | None => Span(own),
        }
    }

    /// Remembers this line as the user's until the guard is dropped: what the
    /// library builds meanwhile on the user's behalf, through layers, closures
    /// and operators, counts as written there.
    pub fn enter(self) -> UsersLine {
        UsersLine(Scope::open(&LINES, self))
    }

    /// Whether this is a line outside this library.
    pub(crate) fn is_users(self) -> bool {
        !self.file().starts_with(LIBRARY)
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

/// Until it is dropped, a line of the user's is remembered.
#[must_use = "the line is remembered until the guard is dropped"]
#[derive(Debug)]
pub struct UsersLine(#[expect(dead_code, reason = "held to be dropped")] Scope<Span>);

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
