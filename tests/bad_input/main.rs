//! What bad input does, kind by kind: no operation panics; a mistake is a
//! value that names the operation, what it expected, what it found and the
//! user's line, and nothing that existed before is lost.

mod bodies;
mod built_in_names;
mod gradients_by_hand;
mod invalid_tensors;
mod lines;
mod nothing_there;
mod numbers_from_files;
mod out_of_range;
mod ranks;
mod spectra;
mod table;
mod too_large;
mod wrong_device;
mod wrong_shape;

mod wrong_type;

#[path = "../support/adapter.rs"]
mod adapter;

use kiln::Tensor;
use kiln::{Error, OpError};

/// A file and a line of it.
type Line = (&'static str, u32);

/// A tensor and the line that made it.
macro_rules! here {
    ($tensor:expr) => {
        ($tensor, (file!(), line!()))
    };
}
use here;

#[track_caller]
fn floats<const N: usize>(dims: [usize; N]) -> Tensor {
    let count: usize = dims.iter().product();
    Tensor::from_vec((0..count).map(|i| i as f32).collect(), dims, ())
}

fn ints<const N: usize>(values: [i64; N]) -> Tensor {
    Tensor::from_slice(&values, [N], ())
}

/// The mistake that an invalid tensor records.
#[track_caller]
fn mistake(tensor: &Tensor) -> OpError {
    match tensor.check() {
        Err(Error::Op(error)) => (*error).clone(),
        other => panic!("expected the mistake of an operation, found {other:?}"),
    }
}

/// Asserts what a mistake says, and that it was made on that line.
#[track_caller]
fn refused((tensor, line): (Tensor, Line), op: &str, expected: &str, found: &str) {
    let error = mistake(&tensor);
    assert_eq!((error.op, &error.expected[..], &error.found[..]), (op, expected, found), "{error}");
    assert_eq!((error.span.file(), error.span.line()), line, "{error}");
}

/// Asserts that a range of calls is refused, whatever the words.
#[track_caller]
fn all_refused<const N: usize>(tensors: [(&str, Tensor); N]) {
    let caller = std::panic::Location::caller();
    for (what, tensor) in tensors {
        match tensor.check() {
            Err(Error::Op(error)) => assert_eq!(error.span.file(), caller.file(), "{what}: {error}"),
            other => panic!("{what} was accepted: {tensor:?} {other:?}"),
        }
    }
}
