//! Reductions of short rows.

use super::reduce::{KINDS, data, near, reference, truth};
use super::{Register, Rng};
use crate::micro::isa::forced::each_level;
use crate::micro::*;
use crate::thresholds::SHORT_REDUCED_ROW;
use crate::{DType, Scalar};

fn check_rows(kind: ReduceKind, dtype: DType, (rows, n): (usize, usize), wild: bool, rng: &mut Rng) -> bool {
    let Some(short) = reduce(kind, dtype).and_then(|reducer| reducer.short_rows) else { return false };
    let x: Vec<Vec<Scalar>> = (0..rows).map(|_| data(kind, dtype, n, wild, rng)).collect();
    let (register, mut results) = (Register::of(dtype, &x.concat()), Register::new(dtype, rows));
    // SAFETY: registers of the types and lengths asked for.
    unsafe { short(results.ptr_mut(), register.ptr(), n, rows) };
    for (row, x) in x.iter().enumerate() {
        let want = reference(truth(kind, dtype), dtype, x)[0];
        let got = results.get(row).as_f64();
        assert!(near(got, want, dtype), "{kind:?} {dtype} {row} of {rows} x {n}: {got} {want}");
    }
    true
}

#[test]
fn short_lines_agree_with_the_definition() {
    each_level(|_| {
        let mut rng = Rng(53);
        let mut found = 0;
        for (kind, dtype) in KINDS.into_iter().flat_map(|kind| DType::ALL.map(|dtype| (kind, dtype))) {
            for shape in [(16, 1), (17, 3), (40, 8), (31, 16), (32, 17), (16, 49), (20, SHORT_REDUCED_ROW)] {
                let wild = [false, true].map(|wild| check_rows(kind, dtype, shape, wild, &mut rng));
                found += usize::from(wild[0] && wild[1]);
            }
        }
        assert_eq!(found, 3 * 5 * 7, "sums, maxima and minima of what has four bytes in a register");
    });
}
