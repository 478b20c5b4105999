//! Verdicts, counted and printed.

use std::fmt;

/// What became of one case.
#[derive(Debug)]
pub enum Verdict {
    /// As expected.
    Passed,
    /// Not as expected, and how.
    Failed(String),
    /// kiln panicked, which it never may.
    Panicked(String),
    /// kiln has no such operation, or not in this form.
    Unsupported(String),
}

/// The verdicts on one operation's cases.
#[derive(Debug, Default)]
pub struct OpReport {
    /// The operation.
    pub name: String,
    /// The cases' numbers and verdicts, forward.
    pub forward: Vec<(u64, Verdict)>,
    /// The verdicts on the gradients of the cases that have some.
    pub gradients: Vec<(u64, Verdict)>,
    /// The verdicts on cases, and on gradients, where PyTorch's answer is one of several.
    pub conventions: Vec<(u64, Verdict)>,
    /// The calls that must be rejected: passed if they were.
    pub refusals: Vec<(u64, Verdict)>,
}

/// Verdicts, counted. Those that panicked are among the failed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// As expected.
    pub passed: usize,
    /// Not as expected.
    pub failed: usize,
    /// Not in kiln.
    pub unsupported: usize,
    /// Of the failed, those where kiln panicked.
    pub panicked: usize,
}

impl Tally {
    /// Counts verdicts.
    pub fn of<'a>(verdicts: impl IntoIterator<Item = &'a (u64, Verdict)>) -> Tally {
        let mut tally = Tally::default();
        for (_, verdict) in verdicts {
            match verdict {
                Verdict::Passed => tally.passed += 1,
                Verdict::Failed(_) => tally.failed += 1,
                Verdict::Panicked(_) => {
                    (tally.failed, tally.panicked) = (tally.failed + 1, tally.panicked + 1)
                }
                Verdict::Unsupported(_) => tally.unsupported += 1,
            }
        }
        tally
    }

    /// How many cases there are.
    pub fn total(self) -> usize {
        self.passed + self.failed + self.unsupported
    }

    /// The passed among those that kiln has an answer to; 1 if there are none.
    pub fn rate(self) -> f64 {
        match self.passed + self.failed {
            0 => 1.0,
            answered => self.passed as f64 / answered as f64,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} unsupported", self.passed, self.failed, self.unsupported)
    }
}

/// Prints one operation's counts and, if asked for, what did not pass.
pub fn print_op(report: &OpReport, verbose: bool) {
    let refused = Tally::of(&report.refusals);
    let refused = match refused.total() {
        0 => String::new(),
        total => format!("; rejected {} of {total}", refused.passed),
    };
    let gradients = match Tally::of(&report.gradients) {
        none if none.total() == 0 => String::new(),
        tally => format!("; gradients: {tally}"),
    };
    let conventions = match Tally::of(&report.conventions) {
        none if none.total() == 0 => String::new(),
        tally => format!("; conventions: {} of {}", tally.passed, tally.total()),
    };
    println!("{}: {}{gradients}{conventions}{refused}", report.name, Tally::of(&report.forward));
    if verbose {
        print_reasons("case", &report.forward);
        print_reasons("gradient of case", &report.gradients);
        print_reasons("convention of case", &report.conventions);
        print_reasons("rejected call", &report.refusals);
    }
}

fn print_reasons(what: &str, verdicts: &[(u64, Verdict)]) {
    for (number, verdict) in verdicts {
        match verdict {
            Verdict::Passed => {}
            Verdict::Failed(reason) => println!("    {what} {number} FAILED: {reason}"),
            Verdict::Panicked(reason) => println!("    {what} {number} PANICKED: {reason}"),
            Verdict::Unsupported(reason) => println!("    {what} {number} unsupported: {reason}"),
        }
    }
}
