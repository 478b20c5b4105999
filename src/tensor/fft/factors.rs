//! How a length is split into factors, each transformed by a product with its matrix.

/// The largest factor that others are multiplied into: the work of a factor grows with it, the number of
/// passes over memory falls.
const LARGEST: usize = 32;
/// The largest prime whose matrix costs less than its chirp.
const LARGEST_PRIME: usize = 128;
/// The longest transform that is one product.
const DIRECT: usize = 64;

/// Whether a transform of this length is a product with its matrix.
pub(super) fn is_direct(n: usize) -> bool {
    n <= DIRECT || n <= LARGEST_PRIME && smallest_prime(n) == n
}

/// The factors of a length, in the order in which they are transformed: few and of about one size. One that is
/// not direct is a prime.
pub(super) fn factors(n: usize) -> Vec<usize> {
    let mut rest = n;
    let mut found = Vec::new();
    while rest > 1 {
        let factor = next(rest);
        found.push(factor);
        rest /= factor;
    }
    found
}

/// The first factor of a length.
fn next(n: usize) -> usize {
    if is_direct(n) {
        return n;
    }
    let divisors: Vec<usize> = (2..=LARGEST).filter(|factor| n.is_multiple_of(*factor)).collect();
    let Some(&largest) = divisors.last() else { return smallest_prime(n) };
    // So many passes there will be: factors of one size make the least work of them.
    let passes = (n as f64).log(LARGEST as f64).ceil();
    let even = (n as f64).powf(1.0 / passes) - 0.5;
    divisors.into_iter().find(|&factor| factor as f64 >= even).unwrap_or(largest)
}

fn smallest_prime(n: usize) -> usize {
    let bound = n.isqrt();
    (2..=bound).find(|factor| n.is_multiple_of(*factor)).unwrap_or(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cpu::fourier::smooth;

    #[test]
    fn factors_multiply_to_the_length_and_are_few() {
        for n in 1..3000 {
            assert_eq!(factors(n).iter().product::<usize>(), n);
            assert!(
                factors(n).iter().all(|&f| is_direct(f) || smallest_prime(f) == f),
                "{n}: {:?}",
                factors(n)
            );
        }
        assert_eq!(factors(1 << 20), [32; 4]);
        assert_eq!(factors(1024), [32; 2]);
        assert_eq!(factors(400), [20; 2]);
        assert_eq!(factors(1_000_003), [1_000_003]);
    }

    #[test]
    fn smooth_lengths_are_near() {
        assert_eq!(smooth(17), 20);
        assert_eq!(smooth(2_000_005), 1 << 21);
        for n in 1..2000 {
            assert!(smooth(n) >= n && (n < 8 || smooth(n) * 2 < n * 3), "{n}: {}", smooth(n));
        }
    }
}
