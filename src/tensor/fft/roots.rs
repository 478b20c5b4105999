//! Complex numbers of the host, computed in `f64`.

pub(super) use kiln_simd::micro::fft::root;

/// A complex number of the host.
pub(super) type Pair = (f64, f64);

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
    fn the_transform_of_an_impulse_is_its_root() {
        let mut x = vec![(0.0, 0.0); 30];
        x[7] = (1.0, 0.0);
        for (k, (re, im)) in host_dft(&x).into_iter().enumerate() {
            let expected = root(30 * 30 - 7 * k, 30);
            assert!((re - expected.0).abs() < 1e-14 && (im - expected.1).abs() < 1e-14);
        }
    }
}
