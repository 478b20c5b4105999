//! Columns against the definition, at each level.

use super::{COLUMNS, Job, LARGEST_PRIME, Source, Store, Transform, columns_f32, columns_f64, root};
use crate::micro::isa::forced::each_level;

/// What nothing is to touch.
const GUARD: f64 = 7e70;

fn noise(count: usize, seed: u64) -> Vec<f64> {
    let hash =
        |i: u64| (i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d);
    (0..count as u64).map(|i| (hash(i) >> 11) as f64 / (1u64 << 53) as f64 - 0.5).collect()
}

/// The largest error of the transforms of some columns, stored as rows or turned.
fn error(points: usize, columns: usize, turned: bool) -> f64 {
    let transform = Transform::<f64>::new(points).unwrap();
    let (re, im) = (noise(points * columns, 1), noise(points * columns, 2));
    let mut results = [vec![GUARD; points * columns + 1], vec![GUARD; points * columns + 1]];
    let mut scratch = vec![GUARD; transform.scratch()];
    let factors: Vec<f64> = (0..points).flat_map(|_| [[2.0; COLUMNS], [0.0; COLUMNS]].concat()).collect();
    let to = results.each_mut().map(|part| part.as_mut_ptr());
    let job = Job {
        transform: &transform,
        from: Source { re: re.as_ptr(), im: im.as_ptr(), step: columns },
        columns,
        to: match turned {
            true => Store::Turned { to, factors: factors.as_ptr() },
            false => Store::Rows { to, step: columns, scale: 2.0 },
        },
        scratch: scratch.as_mut_ptr(),
    };
    // SAFETY: vectors of as many points and columns.
    unsafe { columns_f64()(&job) }
    let mut worst = 0.0f64;
    for (k, c) in (0..points).flat_map(|k| (0..columns).map(move |c| (k, c))) {
        let (mut x, mut y) = (0.0, 0.0);
        for j in 0..points {
            let (cos, sin) = root(j * k % points, points);
            let (a, b) = (2.0 * re[j * columns + c], 2.0 * im[j * columns + c]);
            (x, y) = (x + a * cos + b * sin, y + b * cos - a * sin);
        }
        let at = if turned { c * points + k } else { k * columns + c };
        worst = worst.max((results[0][at] - x).hypot(results[1][at] - y));
    }
    assert!(results.iter().all(|part| part[points * columns] == GUARD));
    worst / (points as f64).sqrt()
}

#[test]
fn columns_are_transformed_by_every_factor() {
    each_level(|level| {
        for points in [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 22, 31, 32, 40, 64, 81, 105, 128] {
            for columns in [1, 5, 8, COLUMNS] {
                for turned in [false, true] {
                    let found = error(points, columns, turned);
                    assert!(found < 2e-14, "{points} points, {columns} columns, {level:?}: {found:e}");
                }
            }
        }
    });
}

#[test]
fn a_constant_column_has_one_frequency() {
    each_level(|level| {
        let transform = Transform::<f32>::new(24).unwrap();
        let (ones, mut scratch) = (vec![1.0f32; 24], vec![0.0; transform.scratch()]);
        let mut results = [vec![9.0f32; 24], vec![9.0; 24]];
        let job = Job {
            transform: &transform,
            from: Source { re: ones.as_ptr(), im: std::ptr::null(), step: 1 },
            columns: 1,
            to: Store::Rows { to: results.each_mut().map(|part| part.as_mut_ptr()), step: 1, scale: 0.5 },
            scratch: scratch.as_mut_ptr(),
        };
        // SAFETY: vectors of as many points.
        unsafe { columns_f32()(&job) }
        assert_eq!(results[0][0], 12.0, "{level:?}");
        assert!(results[0][1..].iter().chain(&results[1]).all(|x| x.abs() < 1e-6), "{level:?}");
    });
}

#[test]
fn larger_primes_are_refused() {
    assert!(Transform::<f32>::new(LARGEST_PRIME * 37).is_none());
    assert!(Transform::<f32>::new(LARGEST_PRIME * 29).is_some());
}

#[test]
fn roots_are_exact_at_quarters_and_lie_on_the_circle() {
    assert_eq!([0, 1, 2, 3].map(|k| root(k, 4)), [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)]);
    for n in [1, 2, 3, 7, 8, 12, 1000] {
        for k in 0..n {
            let angle = std::f64::consts::TAU * k as f64 / n as f64;
            let (re, im) = root(k, n);
            assert!((re - angle.cos()).abs() < 2e-15 && (im - angle.sin()).abs() < 2e-15, "{k} of {n}");
        }
    }
}
