//! Roots of unity, computed in `f64` from integers and rounded once.

use std::f64::consts::TAU;

/// The real and imaginary part of `e^(2 pi i k / n)`, from an angle of at most an eighth of a turn.
pub fn root(k: usize, n: usize) -> (f64, f64) {
    // In u128, for eight times k may overflow.
    let (k, n) = ((k % n) as u128, n as u128);
    let octant = (8 * k + n) / (2 * n) % 4;
    // The angle from the nearest quarter turn, in turns of n.
    let offset = (4 * k) as f64 - ((8 * k + n) / (2 * n) * n) as f64;
    let (sin, cos) = (TAU * (offset / (4 * n) as f64)).sin_cos();
    match octant {
        0 => (cos, sin),
        1 => (-sin, cos),
        2 => (-cos, -sin),
        _ => (sin, -cos),
    }
}
