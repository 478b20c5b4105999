//! What is done with each bad input, and what must come of it.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

use kiln::Error;
use kiln::Tensor;

/// Something that may be an error, or carry one.
pub trait Verdict {
    fn verdict(self) -> Result<(), Error>;
}

impl Verdict for Tensor {
    fn verdict(self) -> Result<(), Error> {
        self.check().map(|_| ())
    }
}

impl Verdict for &Tensor {
    fn verdict(self) -> Result<(), Error> {
        self.check().map(|_| ())
    }
}

/// An error only where all are.
impl Verdict for Vec<Tensor> {
    fn verdict(self) -> Result<(), Error> {
        let verdicts: Vec<Result<(), Error>> = self.into_iter().map(Verdict::verdict).collect();
        let accepted = verdicts.iter().any(Result::is_ok);
        verdicts.into_iter().find(|verdict| verdict.is_ok() == accepted).unwrap_or(Ok(()))
    }
}

impl Verdict for (Tensor, Tensor) {
    fn verdict(self) -> Result<(), Error> {
        match (self.0.verdict(), self.1.verdict()) {
            (Err(error), Err(_)) => Err(error),
            (Ok(()), _) | (_, Ok(())) => Ok(()),
        }
    }
}

impl<T> Verdict for Result<T, Error> {
    fn verdict(self) -> Result<(), Error> {
        self.map(|_| ())
    }
}

/// An operation in a table, and its line.
pub struct Op<A> {
    name: &'static str,
    at: &'static Location<'static>,
    call: Box<dyn Fn(&A) -> Result<(), Error>>,
}

/// An operation of a table.
#[track_caller]
pub fn op<A, V: Verdict>(name: &'static str, call: impl Fn(&A) -> V + 'static) -> Op<A> {
    Op { name, at: Location::caller(), call: Box::new(move |input| call(input).verdict()) }
}

/// An operation on a tensor of a table.
#[track_caller]
pub fn on<V: Verdict>(name: &'static str, call: impl Fn(&Tensor) -> V + 'static) -> Op<Tensor> {
    op(name, call)
}

/// Lines of a call at most, as it is written in a table.
const LINES: u32 = 14;

/// What came of the bad inputs so far.
#[derive(Default)]
pub struct Tally {
    pub count: usize,
    wrong: Vec<String>,
}

impl Tally {
    /// One bad input.
    #[track_caller]
    pub fn row<V: Verdict>(&mut self, what: impl Display, call: impl FnOnce() -> V) {
        self.judge(what, Location::caller(), || call().verdict());
    }

    /// Every operation of a table on every input.
    pub fn all<A>(&mut self, ops: &[Op<A>], inputs: &[(&str, A)]) {
        for op in ops {
            for (kind, input) in inputs {
                self.judge(format!("{} of {kind}", op.name), op.at, || (op.call)(input));
            }
        }
    }

    fn judge(
        &mut self,
        what: impl Display,
        at: &'static Location<'static>,
        call: impl FnOnce() -> Result<(), Error>,
    ) {
        self.count += 1;
        let found = match catch_unwind(AssertUnwindSafe(call)) {
            Err(_) => "panicked".to_string(),
            Ok(Ok(())) => "was accepted".to_string(),
            Ok(Err(error)) if names(&error, at) => return,
            Ok(Err(error)) => format!("does not name its line: {error}"),
        };
        self.wrong.push(format!("{}:{}: {what} {found}", at.file(), at.line()));
    }

    /// Fails with all that went wrong.
    pub fn report(&self) {
        let wrong = self.wrong.len();
        assert!(wrong == 0, "{wrong} of {} bad inputs:\n{}", self.count, self.wrong.join("\n"));
        println!("{} bad inputs", self.count);
    }
}

/// Whether an error names a line of the call that begins there.
fn names(error: &Error, at: &Location<'_>) -> bool {
    let text = error.to_string();
    (at.line()..at.line() + LINES).any(|line| {
        let place = format!("{}:{line}", at.file());
        text.match_indices(&place)
            .any(|(start, _)| !text[start + place.len()..].starts_with(|next: char| next.is_ascii_digit()))
    })
}
