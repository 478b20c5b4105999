//! The ALU rows, casts and ternary superinstructions.

use std::ptr::null;

use super::{LENGTHS, Register, Rng, equal, register_type, samples};
use crate::AluOp;
use crate::micro::isa::forced::each_level;
use crate::micro::{
    ChainSide, MAX_OPERANDS, MicroFn, OperandKind, OperandKinds, OperandPtrs, Operation, POLYNOMIAL_TERMS,
    RowBatch, Variants, alu, alu_variants, binary_chain, bitcast, cast, compare_select, nt_fence, polynomial,
    sum_of_products,
};
use crate::{DType, Scalar};

const OPERAND_KINDS: [OperandKinds; 8] = {
    use OperandKind::{Broadcast as S, Vector as V};
    [
        [V, V, V, V],
        [V, V, S, V],
        [V, S, V, V],
        [V, S, S, V],
        [S, V, V, V],
        [S, V, S, V],
        [S, S, V, V],
        [S, S, S, V],
    ]
};

/// The scalar an operand gives element `i`.
fn operand(register: &Register, kind: OperandKind, i: usize) -> Scalar {
    register.get(if kind == OperandKind::Vector { i } else { 0 })
}

fn pointers(x: &[Register; MAX_OPERANDS]) -> OperandPtrs {
    std::array::from_fn(|i| x[i].ptr())
}

/// Rows whose values are only close to the reference, and how close.
fn tolerance(op: AluOp, dtype: DType) -> Option<f64> {
    let row = matches!(
        op,
        AluOp::Exp2
            | AluOp::Log2
            | AluOp::Exp
            | AluOp::Log
            | AluOp::Sin
            | AluOp::Cos
            | AluOp::Tanh
            | AluOp::Erf
            | AluOp::Pow
    );
    match dtype {
        // A call of the C library.
        DType::F64 if op == AluOp::Pow => None,
        // The reference of error functions is ten units off.
        DType::F64 => row.then_some(11.0 * f64::EPSILON),
        _ => row.then_some(4.0 * 2f64.powi(-23)),
    }
}

fn close(got: Scalar, want: Scalar, tolerance: f64) -> bool {
    let (a, b) = (got.as_f64(), want.as_f64());
    equal(got, want) || (a - b).abs() <= tolerance * b.abs() + 3e-45
}

/// The batched and the non-temporal loop give the bits of the plain one over each row, and write
/// nothing else.
fn check_variants(
    op: AluOp,
    dtype: DType,
    kinds: OperandKinds,
    sources: &[Register; MAX_OPERANDS],
    n: usize,
) {
    let Some(variants) = alu_variants(op, dtype, kinds) else { return };
    check_loops(alu(op, dtype, kinds), variants, kinds, sources, n);
}

fn check_loops(one: MicroFn, other: Variants, kinds: OperandKinds, x: &[Register; MAX_OPERANDS], n: usize) {
    const ROWS: usize = 3;
    let len = n / ROWS;
    // The strides of the result are larger than those of the operands, broadcasts among them.
    let batch = RowBatch { rows: ROWS, dst_stride: 4 * (len + 2), src_strides: kinds.map(|_| 4 * len) };
    let mut dst = [0; 3].map(|_| Register::new(DType::F32, n + 2 * ROWS));
    let from = pointers(x);
    // SAFETY: `ROWS` rows of `len` elements each, in registers of the type.
    unsafe {
        (other.batched)(dst[0].ptr_mut(), from, len, &batch);
        for i in 0..ROWS {
            let from = from.map(|x| x.wrapping_add(i * 4 * len));
            one(dst[1].ptr_mut().add(i * batch.dst_stride), from, len, null());
            (other.non_temporal)(dst[2].ptr_mut().add(i * batch.dst_stride), from, len, null());
        }
    }
    nt_fence();
    for i in 0..n + 2 * ROWS {
        let same = |k: usize| equal(dst[k].get(i), dst[1].get(i));
        assert!(same(0) && same(2), "{kinds:?} {i} of {ROWS} rows of {len}");
    }
}

fn check_alu(op: AluOp, dtype: DType, kinds: OperandKinds, n: usize, rng: &mut Rng) {
    let mut sources = [dtype; MAX_OPERANDS].map(|dtype| Register::of(dtype, &samples(dtype, n.max(1), rng)));
    if op == AluOp::Where {
        sources[0] = Register::of(DType::Bool, &samples(DType::Bool, n.max(1), rng));
    }
    let result = op.result().of(dtype);
    let mut dst = Register::new(result, n);
    let (before, after) = (dst.get(n), n);
    let micro = alu(op, dtype, kinds);
    check_variants(op, dtype, kinds, &sources, n);
    // SAFETY: registers of the types and length asked for.
    unsafe { micro(dst.ptr_mut(), pointers(&sources), n, null()) };
    assert!(equal(dst.get(after), before), "{op:?} {dtype} wrote past the end");
    for i in 0..n {
        let unary = op.arity() == 1;
        let x =
            [0, 1, 2].map(|k| operand(&sources[k], if unary { OperandKind::Vector } else { kinds[k] }, i));
        let want = op.eval(register_type(dtype), &x[..op.arity()]);
        let got = dst.get(i);
        let fine = tolerance(op, dtype).map_or_else(|| equal(got, want), |most| close(got, want, most));
        assert!(fine, "{op:?} {dtype} {kinds:?} {i}/{n}: {x:?} gave {got}, not {want}");
    }
}

#[test]
fn alu_rows_agree_with_the_table() {
    each_level(|_| {
        let mut rng = Rng(7);
        for &op in AluOp::ALL {
            for dtype in DType::ALL {
                if !op.accepts().kind(dtype.kind()) {
                    continue;
                }
                for &kinds in &OPERAND_KINDS[..] {
                    for n in LENGTHS {
                        check_alu(op, dtype, kinds, n, &mut rng);
                    }
                }
            }
        }
    });
}

#[test]
fn casts_agree_with_scalars() {
    each_level(|_| {
        let mut rng = Rng(11);
        for from in DType::ALL {
            for to in DType::ALL {
                for n in LENGTHS {
                    let src = Register::of(from, &samples(from, n, &mut rng));
                    let mut dst = Register::new(to, n);
                    // SAFETY: registers of the types and length asked for.
                    unsafe { cast(from, to)(dst.ptr_mut(), [src.ptr(); MAX_OPERANDS], n, null()) };
                    for i in 0..n {
                        let want = reference_cast(src.get(i), to);
                        assert!(
                            equal(dst.get(i), want),
                            "{from} {} to {to}: {} {want}",
                            src.get(i),
                            dst.get(i)
                        );
                    }
                }
            }
        }
    });
}

/// As `Scalar::cast`, but to the 16-bit floats by way of `f32`, as registers go.
fn reference_cast(value: Scalar, to: DType) -> Scalar {
    match to {
        DType::F16 => Scalar::Float(half::f16::from_f32(value.as_f64() as f32).to_f64()),
        DType::BF16 => Scalar::Float(half::bf16::from_f32(value.as_f64() as f32).to_f64()),
        DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 | DType::F32 | DType::F64 => {
            value.cast(to)
        }
    }
}

#[test]
fn bitcasts_keep_the_bits() {
    let mut rng = Rng(3);
    for from in DType::ALL {
        for to in DType::ALL {
            let sixteen = |d| matches!(d, DType::F16 | DType::BF16);
            let Some(micro) = bitcast(from, to) else {
                assert!(sixteen(from) || sixteen(to) || from.size() != to.size());
                continue;
            };
            let src = Register::of(from, &samples(from, 40, &mut rng));
            let mut dst = Register::new(to, 40);
            // SAFETY: registers of the types and length asked for.
            unsafe { micro(dst.ptr_mut(), [src.ptr(); MAX_OPERANDS], 40, null()) };
            for i in 0..40 {
                let want = Scalar::from_bits(src.get(i).to_bits(from), to);
                assert!(dst.get(i).to_bits(to) == want.to_bits(to), "{from} to {to}");
            }
        }
    }
}

#[test]
fn chains_have_the_bits_of_one_operation_after_the_other() {
    let (firsts, seconds) =
        ([AluOp::Add, AluOp::Sub, AluOp::Mul], [AluOp::Add, AluOp::Sub, AluOp::Mul, AluOp::Max]);
    let mut found = 0;
    each_level(|_| {
        let mut rng = Rng(5);
        for (first, second, kinds) in firsts.into_iter().flat_map(|first| {
            seconds.into_iter().flat_map(move |second| OPERAND_KINDS.map(|kinds| (first, second, kinds)))
        }) {
            for side in [ChainSide::Left, ChainSide::Right] {
                let Some(chain) = binary_chain(first, second, side, DType::F32, kinds) else { continue };
                found += 1;
                check_superinstruction(&chain, kinds, &mut rng, &|[a, b, c, _]| {
                    let intermediate = rounded(first, a, b);
                    if side == ChainSide::Left {
                        rounded(second, intermediate, c)
                    } else {
                        rounded(second, c, intermediate)
                    }
                });
            }
        }
    });
    assert!(found > 0);
}

#[test]
fn sums_of_products_have_the_bits_of_one_operation_after_the_other() {
    each_level(|_| {
        let mut rng = Rng(6);
        for (difference, op) in [(false, AluOp::Add), (true, AluOp::Sub)] {
            for [b, d] in OPERAND_KINDS[..4].iter().map(|kinds| [kinds[1], kinds[2]]) {
                let kinds = [OperandKind::Vector, b, OperandKind::Vector, d];
                let both = sum_of_products(difference, DType::F32, kinds).expect("loops of every kind");
                check_superinstruction(&both, kinds, &mut rng, &|[a, b, c, d]| {
                    rounded(op, rounded(AluOp::Mul, a, b), rounded(AluOp::Mul, c, d))
                });
            }
        }
    });
}

#[test]
fn selects_on_a_comparison_follow_the_comparison() {
    each_level(|_| {
        let mut rng = Rng(7);
        for op in [AluOp::Lt, AluOp::Eq] {
            for (compared, values) in
                (0..3).flat_map(|i| (0..4).map(move |j| (OPERAND_KINDS[2 * i], OPERAND_KINDS[j])))
            {
                let kinds = [compared[0], compared[1], values[1], values[2]];
                let both = compare_select(op, DType::F32, kinds).expect("loops of every kind");
                check_superinstruction(&both, kinds, &mut rng, &|[a, b, c, d]| {
                    if op.eval_float(&[f64::from(a), f64::from(b)]) != 0.0 { c } else { d }
                });
            }
        }
    });
}

#[test]
fn polynomials_have_the_bits_of_one_operation_after_the_other() {
    each_level(|_| {
        let mut rng = Rng(8);
        for (dtype, terms) in
            [DType::F32, DType::F64].into_iter().flat_map(|dtype| POLYNOMIAL_TERMS.map(move |n| (dtype, n)))
        {
            let function = polynomial(terms, dtype).expect("a loop of as many terms");
            let mut number = || Scalar::Float(f64::from((rng.unit() * 3.0 - 1.5) as f32));
            let coefficients: Vec<Scalar> = (0..terms).map(|_| number()).collect();
            let bits: Vec<u64> = coefficients.iter().map(|c| c.to_bits(dtype)).collect();
            for n in LENGTHS {
                let x = Register::of(dtype, &(0..n.max(1)).map(|_| number()).collect::<Vec<_>>());
                let mut y = Register::new(dtype, n);
                let from = [x.ptr(), bits.as_ptr().cast(), null(), null()];
                // SAFETY: registers of the type and length asked for, and a coefficient for each term.
                unsafe { function(y.ptr_mut(), from, n, null()) };
                for i in 0..n {
                    let round = |x: f64| if dtype == DType::F32 { f64::from(x as f32) } else { x };
                    let step = |sum: f64, c: &Scalar| round(round(sum * x.get(i).as_f64()) + c.as_f64());
                    let want = coefficients[1..].iter().fold(coefficients[0].as_f64(), step);
                    assert_eq!(
                        y.get(i).as_f64().to_bits(),
                        want.to_bits(),
                        "{dtype}, {terms} terms, {i} of {n}"
                    );
                }
            }
        }
        assert!(polynomial(2, DType::F32).is_none() && polynomial(5, DType::I32).is_none());
    });
}

/// An operation's result as an `f32`, which that of wider numbers rounds to once.
fn rounded(op: AluOp, x: f32, y: f32) -> f32 {
    op.eval_float(&[f64::from(x), f64::from(y)]) as f32
}

/// The loops of a superinstruction give the bits of `want`.
fn check_superinstruction(
    operation: &Operation,
    kinds: OperandKinds,
    rng: &mut Rng,
    want: &dyn Fn([f32; MAX_OPERANDS]) -> f32,
) {
    let Operation { function, name, variants } = *operation;
    for n in LENGTHS {
        let x: [Register; MAX_OPERANDS] = [0; MAX_OPERANDS].map(|_| {
            // Of two operands some elements are equal.
            let mut unit = || if rng.unit() < 0.3 { 0.5 } else { f64::from(rng.unit() as f32) };
            let values: Vec<Scalar> = (0..n.max(1)).map(|_| Scalar::Float(unit())).collect();
            Register::of(DType::F32, &values)
        });
        check_loops(function, variants.expect("superinstructions have them"), kinds, &x, n);
        let mut dst = Register::new(DType::F32, n);
        // SAFETY: registers of the types and length asked for.
        unsafe { function(dst.ptr_mut(), pointers(&x), n, null()) };
        for i in 0..n {
            let own = std::array::from_fn(|k| operand(&x[k], kinds[k], i).as_f64() as f32);
            let got = dst.get(i).as_f64() as f32;
            assert_eq!(got.to_bits(), want(own).to_bits(), "{name} {kinds:?}");
        }
    }
}

#[test]
fn quotients_of_integers_are_exact_beside_multiples() {
    let mut rng = Rng(11);
    each_level(|level| {
        for dtype in [DType::U8, DType::I32, DType::U32, DType::I64] {
            let divisors = samples(dtype, 600, &mut rng);
            let near = |y: &Scalar| {
                let times = (rng.next() >> (rng.next() % 64)) as i64;
                Scalar::Int(y.as_i64().wrapping_mul(times).wrapping_add(times % 3 - 1)).cast(dtype)
            };
            let dividends: Vec<Scalar> = divisors.iter().map(near).collect();
            let (x, y) = (Register::of(dtype, &dividends), Register::of(dtype, &divisors));
            for op in [AluOp::Div, AluOp::Rem] {
                let mut to = Register::new(dtype, dividends.len());
                let from = [x.ptr(), y.ptr(), x.ptr(), x.ptr()];
                // SAFETY: registers of the type, of as many elements.
                unsafe {
                    alu(op, dtype, [OperandKind::Vector; 4])(to.ptr_mut(), from, dividends.len(), x.ptr())
                };
                for (i, (&x, &y)) in dividends.iter().zip(&divisors).enumerate() {
                    let (got, want) = (to.get(i), op.eval(dtype, &[x, y]));
                    assert!(equal(got, want), "{level:?} {dtype}: {x:?} {} {y:?} is {got:?}", op.name());
                }
            }
        }
    });
}
