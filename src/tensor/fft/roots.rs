//! Roots of unity, computed in `f64` from integers and rounded once.

use std::f64::consts::TAU;

/// A complex number of the host.
pub(super) type Pair = (f64, f64);

/// `e^(2 pi i k / n)`, from an angle of at most an eighth of a turn.
pub(super) fn root(k: usize, n: usize) -> Pair {
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

/// The product of two complex numbers.
pub(super) fn product(a: Pair, b: Pair) -> Pair {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

/// The transform `X[k] = sum over j of x[j] e^(-2 pi i j k / n)`, factor by factor.
pub(super) fn host_dft(x: &[Pair]) -> Vec<Pair> {
    let n = x.len();
    let Some(factor) = (2..=n).find(|factor| n.is_multiple_of(*factor)) else { return x.to_vec() };
    let m = n / factor;
    let parts: Vec<Vec<Pair>> = (0..factor)
        .map(|first| host_dft(&x.iter().skip(first).step_by(factor).copied().collect::<Vec<_>>()))
        .collect();
    let roots: Vec<Pair> = (0..n).map(|k| root(n - k, n)).collect();
    let term = |k: usize, j: usize| product(parts[j][k % m], roots[j * k % n]);
    (0..n)
        .map(|k| {
            (0..factor).fold((0.0, 0.0), |sum, j| {
                let (re, im) = term(k, j);
                (sum.0 + re, sum.1 + im)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_exact_at_quarters_and_lie_on_the_circle() {
        assert_eq!([0, 1, 2, 3].map(|k| root(k, 4)), [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)]);
        for n in [1, 2, 3, 7, 8, 12, 1000] {
            for k in 0..n {
                let angle = TAU * k as f64 / n as f64;
                let (re, im) = root(k, n);
                assert!((re - angle.cos()).abs() < 2e-15 && (im - angle.sin()).abs() < 2e-15, "{k} of {n}");
            }
        }
    }

    #[test]
    fn the_transform_of_an_impulse_is_its_root() {
        let mut x = vec![(0.0, 0.0); 30];
        x[7] = (1.0, 0.0);
        for (k, (re, im)) in host_dft(&x).into_iter().enumerate() {
            let expected = root(30 * 30 - 7 * k, 30);
            assert!((re - expected.0).abs() < 1e-14 && (im - expected.1).abs() < 1e-14);
        }
    }
}
