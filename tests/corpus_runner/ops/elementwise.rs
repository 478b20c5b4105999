//! Functions of each element: one, two or three operands.

use super::{Entry, entry, one};

macro_rules! binary {
    ($($name:literal $other:literal |$x:ident, $y:ident| $body:expr;)*) => {
        &[$(entry($name, concat!("self ", $other), |c| {
            let ($x, $y) = (c.tensor("self")?, c.operand($other)?);
            one($body)
        })),*]
    };
}
/// Operators.
pub const OPERATORS: &[Entry] = binary! {
    "mul" "other" |x, y| x * y;
    "true_divide" "other" |x, y| x / y;
    "remainder" "other" |x, y| x % y;
    "bitwise_and" "other" |x, y| x & y;
    "bitwise_or" "other" |x, y| x | y;
    "bitwise_xor" "other" |x, y| x ^ y;
    "bitwise_left_shift" "other" |x, y| x << y;
    "bitwise_right_shift" "other" |x, y| x >> y;
};
