//! Bad inputs by the hundred: each public operation with each kind of operand
//! that it does not take. All are errors that name the caller's line.

mod axes;
#[cfg(feature = "linalg")]
mod decompositions;
mod devices;
mod judge;
mod layers;
mod nothing;
mod optimizers;
mod options;
mod reads;
mod shapes;
mod sizes;
mod types;

use judge::{Op, Tally, on, op};

#[test]
fn every_bad_input_is_an_error_of_the_callers_line() {
    let mut tally = Tally::default();
    axes::run(&mut tally);
    #[cfg(feature = "linalg")]
    decompositions::run(&mut tally);
    devices::run(&mut tally);
    layers::run(&mut tally);
    nothing::run(&mut tally);
    options::run(&mut tally);
    optimizers::run(&mut tally);
    reads::run(&mut tally);
    shapes::run(&mut tally);
    sizes::run(&mut tally);
    types::run(&mut tally);
    tally.report();
    assert!(tally.count >= 1500, "{} bad inputs", tally.count);
}
