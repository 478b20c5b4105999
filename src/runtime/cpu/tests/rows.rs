//! Kernels whose tiles are whole rows.

use super::{difference, kernel, ramp, values, wrong};
use crate::base::{DType, Device};
use crate::ir::DeviceBuffer;
use crate::tensor::Tensor;
use crate::tensor::interpolate::{InterpolateMode, InterpolateOpts};
use crate::tensor::norm::NormOpts;
use crate::tensor::rounding::Rounding;

/// The exponentials of a softmax prefetch the whole of the next row, and nothing else does.
#[test]
fn exponentials_of_rows_prefetch_the_next_row() {
    let text = ramp(&[40, 1024]).softmax(1).plan().expect("a plan").kernels[0].source().expect("a text");
    let asks: Vec<&str> = text.lines().filter(|line| line.contains("prefetches the next")).collect();
    assert!(matches!(asks[..], [one] if one.contains("exp_below_sum")), "{text}");
}

/// They do also where what they read has been made of the row.
#[test]
fn exponentials_of_masked_rows_prefetch_the_next_row() {
    for (rows, cols) in [(40, 1024), (40, 100), (37, 3000)] {
        let x = ramp(&[rows, cols]);
        let (kernel, text) = kernel(&x.masked_fill(&x.lt(0.0), -1e9).softmax(1));
        let exponentials = text.lines().find(|line| line.contains("exp_below_sum")).expect("exponentials");
        let row = text.lines().find_map(|line| line.trim().strip_suffix(" = load in0[1024*i0 + i1]"));
        assert!(exponentials.contains("prefetches the next"), "{text}");
        assert!(
            row.is_none_or(|row| exponentials.ends_with(&format!("prefetches the next {row}"))),
            "{text}"
        );
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
}

/// What all rows have in common is found once, before the first.
#[test]
fn row_invariant_vectors_are_loaded_before_the_rows() {
    let (x, weight, bias) = (ramp(&[40, 1024]), ramp(&[1024]), ramp(&[1024]));
    let opts = NormOpts { weight: Some(weight), bias: Some(bias), ..NormOpts::default() };
    let y = x.layer_norm([1024], opts);
    let report = y.plan().expect("a plan");
    let text = report.kernels[0].source().expect("a text");
    let (before, rows) = text.split_once("for i0").expect("a loop over rows");
    assert_eq!((before.matches("= load").count(), rows.matches("= load").count()), (2, 1), "{text}");
    let kernel = report.kernels[0].work().kernel().expect("a kernel");
    let inputs: Vec<DeviceBuffer> =
        kernel.inputs.iter().map(|input| values(input.numel, input.dtype)).collect();
    assert_eq!(difference(kernel, &inputs, None, 1e-5), None);
}

/// Where columns are found is computed before the rows, and never for each element: a load adds
/// it to where its line begins.
#[test]
fn indices_of_columns_are_found_once() {
    let opts = InterpolateOpts::default().scale_factor(vec![2.0]).mode(InterpolateMode::Linear);
    let (kernel, text) = kernel(&ramp(&[2, 3, 8, 40]).interpolate(opts));
    let (_, rows) = text.split_once("for i0").expect("a loop over rows");
    assert!(text.contains(":i64[c] = bitwise_right_shift") && !rows.contains("i64[c] ="), "{text}");
    assert!(!rows.contains("i64[r,c] = add"), "{text}");
    assert_eq!(wrong(&kernel, None), None, "{text}");
}

/// The same where the caller says in one index where rows and columns are.
#[test]
fn indices_of_rows_and_columns_are_never_added() {
    let to = |end, least, most| Tensor::arange(0, end, 1, Device::cpu()).clamp(least, most);
    let at = (to(12, 3, 7) * 40).reshape([12, 1]) + to(50, 5, 39);
    let y = ramp(&[6, 320]).index_select(1, &at.reshape([600])).reshape([6, 12, 50]);
    let (kernel, text) = kernel(&y);
    assert!(!text.contains("i64[r,c] = add"), "{text}");
    assert_eq!(wrong(&kernel, None), None, "{text}");
}

/// Quotients and remainders by a number are products and shifts, where what is divided is small
/// enough, or the number a power of two.
#[test]
fn positions_are_not_divided_by_numbers() {
    let at = Tensor::arange(0, 300, 1, Device::cpu());
    for index in [
        (&at * 17).remainder(40),
        (&at * 1_000_000).div_rounded(7_500_000, Rounding::Trunc),
        (&at * 1_000_000 * 1_000).remainder(32),
    ] {
        let (kernel, text) = kernel(&ramp(&[6, 40]).index_select(1, &index));
        assert!(!text.contains("= div") && !text.contains("= fmod") && kernel.args == 0, "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
    let below = Tensor::arange(-5, 295, 1, Device::cpu());
    for index in [(&at * &at * 1_000_000).remainder(30), below.remainder(40)] {
        let (kernel, text) = kernel(&ramp(&[6, 300]).index_select(1, &index));
        assert!(text.contains("= fmod") && kernel.args == 0, "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
}

/// What runs over several axes is taken in lines of the innermost one, which are reduced at the
/// end: where these are short or long, lie one after another or apart.
#[test]
fn reductions_over_several_axes_reduce_lines_last() {
    let x = ramp(&[6, 24, 40]);
    for y in [
        ramp(&[2, 3, 24, 40]).adaptive_avg_pool2d([3, 5]),
        x.amax([0, 2]),
        (&x * ramp(&[24, 40])).sum([0, 2]),
        x.reshape([6, 4, 6, 40]).prod(1).sum([0, 2]),
    ] {
        let (kernel, text) = kernel(&y);
        assert!(text.contains(" down") && text.contains(" along"), "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
    // Long lines, few of them, and what more than one pass needs.
    for y in [
        ramp(&[4, 6, 640]).sum([0, 2]),
        ramp(&[3, 6, 40]).sum([0, 2]),
        x.var([0, 2]),
        (&x - x.mean([0, 2]).reshape([1, 24, 1])).abs().sum([0, 2]),
        x.softmax(-1).sum([0, 2]),
    ] {
        let (kernel, text) = kernel(&y);
        assert!(!text.contains(" down"), "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
}

/// Rows of a tile with gaps between them are taken in from memory, each with its own state.
#[test]
fn reductions_across_rows_of_several_lines_agree() {
    for rows in [3, 8, 29, 300] {
        let x = ramp(&[5, rows, 40]);
        for y in [x.sum(1), x.amax(1), x.logsumexp(1), x.argmin(1)] {
            let (kernel, text) = kernel(&y);
            assert!(text.contains(" down"), "{text}");
            assert_eq!(wrong(&kernel, None), None, "{text}");
        }
    }
}

/// A reduction that has all of its elements in one row begins and ends there.
#[test]
fn reductions_of_lines_take_one_step() {
    for rows in [40, 37] {
        for cols in [1024, 100, 16] {
            let (kernel, text) = kernel(&ramp(&[rows, cols]).softmax(1));
            assert!(!text.contains("pass"), "{text}");
            assert_eq!(text.matches(" along").count(), 2, "{text}");
            assert_eq!(wrong(&kernel, None), None, "{text}");
        }
    }
}

/// Rows written by non-temporal stores may begin inside of cache lines, and lie wherever the loops around put them.
#[test]
fn rows_by_non_temporal_stores_begin_anywhere() {
    let large = ramp(&[4, 20, 1024]);
    let each = [[80, 1024], [80, 1000], [50, 1999], [12, 12000]].map(|shape| ramp(&shape).softmax(1));
    let computed = (&large * &large).sin().softmax(-1);
    let several = [large.permute([1, 0, 2]).softmax(-1), large.narrow(1, 1, 19).softmax(-1), computed];
    for y in each.into_iter().chain(several) {
        let (kernel, text) = kernel(&y);
        assert!(text.contains("store non-temporal"), "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
    let (kernel, text) = kernel(&large.softmax(-1));
    assert_eq!(wrong(&kernel, Some(0)), None, "over its input: {text}");
}

/// Exponentials of what is no greater than nothing are those of elements less the greatest of
/// them, and of no others.
#[test]
fn exponentials_below_one_are_those_of_a_softmax() {
    let x = ramp(&[40, 1024]);
    let other = x.amax_keepdim(1) - 0.5;
    let e = (&x - &other).exp();
    for (y, below) in [(x.softmax(1), true), (&e / &e.sum_keepdim(1), false)] {
        let (kernel, text) = kernel(&y);
        assert_eq!(text.matches("exp_below_sum").count(), usize::from(below), "{text}");
        assert_eq!(text.matches("exp_sub_sum").count(), usize::from(!below), "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
}

/// The sum or difference of two products is one loop, whatever is a number, and of a product that
/// is used twice so is either use.
#[test]
fn sums_of_two_products_are_one_loop() {
    let (x, row, column) = (ramp(&[40, 128]), ramp(&[128]), ramp(&[40, 1]));
    let (a, b) = (x.narrow(1, 0, 64), x.narrow(1, 64, 64));
    let (cos, sin) = (ramp(&[40, 64]), ramp(&[64]));
    let turned = [&a * &cos - &b * &sin, &b * &cos + &a * &sin];
    let square = &x * &row;
    let cases = [
        (Tensor::cat(&[&turned[0], &turned[1]], 1), 1, 1),
        (&x * 0.9 + &row * &column, 0, 1),
        (&x * &row - &x.exp() * 0.5, 1, 0),
        (&x.to_dtype(DType::F16) * 0.9 + &row.to_dtype(DType::F16) * &column.to_dtype(DType::F16), 0, 1),
        ((&square + &x * &column).tanh() + (&square - &x.exp() * &row).tanh(), 1, 1),
    ];
    for (y, differences, sums) in cases {
        let (kernel, text) = kernel(&y);
        let count = |name: &str| text.matches(name).count();
        assert_eq!((count("= products_sub"), count("= products_add")), (differences, sums), "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
}

/// A comparison that nothing but choices asks for is made by their loops, in any form; one that is
/// stored, that a third uses or that is of a row alone stays by itself.
#[test]
fn choices_by_a_comparison_are_one_loop() {
    let (x, row, column) = (ramp(&[40, 128]), ramp(&[128]), ramp(&[40, 1]));
    let (low, lower) = (x.lt(0.25), row.lt(&column));
    let bounded = x.lt(-0.5).select(-0.5, &x);
    let cases = [
        (bounded.gt(0.75).select(0.75, &bounded), 2, 0),
        (x.gt(&row).select(&x * 2.0, &column), 1, 0),
        (lower.select(&x, 3.0) + lower.select(1.0, &x), 2, 0),
        (x.to_dtype(DType::F16).eq(row.to_dtype(DType::F16)).select(0.0, &x), 1, 0),
        (low.select(&x, 1.0) + low.select(2.0, &x) * low.to_dtype(DType::F32), 0, 2),
        (row.lt(0.0).select(0.0, &x), 0, 1),
        ((&x * 100.0).to_dtype(DType::I32).lt(7).select(&x, &row), 0, 1),
    ];
    for (y, joined, alone) in cases {
        let (kernel, text) = kernel(&y);
        let count = |name: &str| text.matches(name).count();
        assert_eq!((count("= where_lt") + count("= where_eq"), count("= where ")), (joined, alone), "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
}

/// A polynomial with numbers for coefficients is one loop; another's sums, or one that something else asks for on
/// the way, are loops of pairs.
#[test]
fn polynomials_with_constant_coefficients_are_one_loop() {
    let (x, row) = (ramp(&[40, 128]), ramp(&[128]));
    let series = |x: &Tensor, coefficients: &[f64]| {
        let (last, rest) = coefficients.split_last().expect("coefficients");
        let last = Tensor::full([1; 2], *last, x.device()).to_dtype(x.dtype());
        rest.iter().rev().fold(last, |sum, &c| sum * x + c)
    };
    let c = [0.5, -0.25, 3.0, 0.125, -2.0, 0.75];
    let between = series(&x, &c[1..]);
    let cases = [
        (series(&x, &c), 1),
        (series(&(&x * &row), &c), 1),
        (series(&x.to_dtype(DType::F64), &c), 1),
        (series(&x, &c) + series(&row, &c), 2),
        (series(&x, &c[..2]), 0),
        (series(&x, &c[..3]) * &x + &row, 1),
        (&between * &x + 0.5 + &between * &row, 1),
        (((&x * 0.5 + &row) * &x + 0.25) * &x + 0.5, 0),
        (((&x * 0.5 + 0.25) * &row + 0.25) * &x + 0.5, 0),
    ];
    for (i, (y, loops)) in cases.into_iter().enumerate() {
        let (kernel, text) = kernel(&y);
        assert_eq!(text.matches("= polynomial").count(), loops, "{i}: {text}");
        assert_eq!(wrong(&kernel, None), None, "{i}: {text}");
    }
}

/// Threads that share a scatter take whole tiles of it.
#[test]
fn scatters_are_shared_in_whole_tiles() {
    for (rows, cols) in [(1100, 256), (1100, 200), (500, 1000), (300, 1500), (4500, 64), (9000, 40)] {
        let updates = ramp(&[rows, cols]);
        let index = (Tensor::arange(0, rows as i64, 1, updates.device()) * 7).remainder(10);
        let y = Tensor::zeros([10, cols], updates.device()).index_add(0, &index, &updates, 1.0);
        let report = y.plan().expect("a plan");
        let scatter = report.kernels.last().expect("a scatter").work().kernel().expect("a kernel");
        assert!(scatter.scatter().is_some());
        assert_eq!(wrong(scatter, None), None, "{rows} x {cols}");
    }
}

/// Along the axis of the memory's rows, tiles go along it too.
#[test]
fn scatters_along_rows_take_rows() {
    let index = (Tensor::arange(0, 40 * 300, 1, Device::cpu()) * 7919).remainder(500).reshape([40, 300]);
    let y = Tensor::zeros([40, 500], Device::cpu()).scatter_add(1, &index, ramp(&[40, 300]));
    let report = y.plan().expect("a plan");
    let work = |i: usize| report.kernels[i].work().kernel().filter(|kernel| kernel.scatter().is_some());
    let i = (0..report.kernels.len()).find(|&i| work(i).is_some()).expect("a scatter");
    let text = report.kernels[i].source().expect("a text");
    assert!(text.contains(" x 300 of") && !text.contains("transposed"), "{text}");
    assert_eq!(wrong(work(i).expect("a kernel"), None), None, "{text}");
}

/// Of rows that lie across memory's a tile has as many as a cache line has elements,
/// however long they are.
#[test]
fn rows_across_memory_are_taken_by_lines_of_the_cache() {
    for (length, rows, tile) in [(1024, 100, "16 x 1024"), (3000, 40, "16 x 3000"), (200, 7, "7 x 200")] {
        let (kernel, text) = kernel(&ramp(&[length, rows]).t().softmax(-1));
        assert!(text.contains(tile) && text.contains("load transposed"), "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
    let halves = ramp(&[1024, 100]).to_dtype(DType::F16).realize().expect("halves").t();
    let (kernel, text) = kernel(&halves.softmax(-1));
    assert!(text.contains("16 x 1024"), "{text}");
    assert_eq!(difference(&kernel, &[values(102_400, DType::F16)], None, 1e-3), None, "{text}");
}

/// Lines too short to be reduced one by one lie in a tile of several, whose exponentials are not
/// summed as they are computed.
#[test]
fn short_lines_are_reduced_together() {
    for (rows, cols) in [(300, 8), (300, 16), (37, 49), (16, 63), (15, 16)] {
        for y in [ramp(&[rows, cols]).softmax(-1), (ramp(&[rows, cols]) * 2.0).amax(-1)] {
            let (kernel, text) = kernel(&y);
            assert!(text.contains(" along") && !text.contains("exp_below_sum"), "{text}");
            assert_eq!(wrong(&kernel, None), None, "{text}");
        }
    }
    for (rows, cols, tile) in [(300, 16, "64 x 16"), (37, 49, "20 x 49")] {
        let (_, text) = kernel(&(ramp(&[rows, cols]) * 2.0).softmax(-1));
        assert!(text.contains(tile), "{text}");
    }
}

/// What depends on the place in a row alone is computed before all rows.
#[test]
fn positions_in_rows_are_computed_once() {
    let place = Tensor::arange(0, 512, 1, Device::cpu());
    let hidden = ((&place * 3).remainder(7)).lt(2);
    for x in [ramp(&[40, 512]), ramp(&[3, 20, 512])] {
        let (kernel, text) = kernel(&hidden.select(f64::NEG_INFINITY, &x).softmax(-1));
        let (before, within) = text.split_once("for i0").expect("rows");
        assert!(before.contains("= i1") || before.contains("= i2"), "{text}");
        assert!(before.contains("lt") && !within.contains("lt") && within.contains("where"), "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
}

/// Where most of what columns compute is the same in all rows, several rows have it in common.
#[test]
fn positions_that_rows_share_are_found_for_several() {
    let x = ramp(&[60, 1500]);
    let turned = (Tensor::arange(0, 1500, 1, x.device()) * 7).remainder(1500).expand([60, 1500]);
    let (row, other) = (ramp(&[1500]), ramp(&[1500]));
    let polynomial = (&row * &other + &row) * &other - &row;
    for (y, several) in [
        (x.gather(1, &turned), true),
        (&x * &polynomial, true),
        ((&x * &polynomial).tanh(), false),
        (&x * &row + &other, false),
    ] {
        let (kernel, text) = kernel(&y);
        assert_eq!(text.contains(" of i0 x i1"), several, "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
}

/// A number that a reshape takes apart is whole again where memory holds its digits in a row.
#[test]
fn indices_of_joined_axes_are_not_taken_apart() {
    let index = (Tensor::arange(0, 600, 1, Device::cpu()) * 77).remainder(2040);
    let across = ramp(&[34, 60]).realize().expect("a tensor").t();
    for (x, indices) in [
        (ramp(&[12, 34, 5]), 1),
        (ramp(&[12, 1, 170]), 1),
        (ramp(&[12, 34, 5]).tanh(), 1),
        (across, 2),
        (ramp(&[12, 34, 10]).realize().expect("a tensor").narrow(2, 0, 5), 3),
    ] {
        let (kernel, text) = kernel(&x.take(&index));
        let gather = text.lines().find(|line| line.contains("= gather")).expect("a gather");
        assert_eq!(gather.matches("[c] * ").count(), indices, "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
}
