use crate::base::DType;
use crate::tensor::moments::VarOpts;
use crate::tensor::testing::{assert_close, error_text, f32s, i64s, pattern, tensor};

#[test]
fn integers_are_summed_wide() {
    let x = tensor(&[2], DType::U8, &[200.0, 100.0]);
    assert_eq!(x.sum(..).dtype(), DType::I64);
    assert_close(&x.sum(..), &[], &[300.0]);
    assert!(error_text(&x.mean(..)).contains("a floating type, found u8"));
    assert_eq!(x.any(..).dtype(), DType::U8);
}

#[test]
fn no_axes_are_all_axes() {
    let x = pattern(&[2, 3, 4], 0);
    let none: [i64; 0] = [];
    assert_eq!(x.sum(none).rank(), 0);
    assert_eq!(x.sum_keepdim(..).shape()[..], [1, 1, 1]);
    assert_eq!(x.sum([-1, 0]).shape()[..], [3]);
    assert!(error_text(&x.sum([0, -3])).contains("axis 0 twice"));
    assert!(error_text(&x.sum(3)).contains("an axis in -3..=2"));
}

#[test]
fn a_mean_of_many_half_floats_does_not_overflow() {
    let x = tensor(&[1], DType::F16, &[2.0]).expand([70_000]);
    assert_close(&x.mean(..), &[], &[2.0]);
}

#[test]
fn extremes_need_elements_and_spread_nan() {
    let x = f32s(&[3], &[1.0, f64::NAN, 2.0]);
    assert_close(&x.max(..), &[], &[f64::NAN]);
    assert_close(&x.argmax(..), &[], &[1.0]);
    assert!(error_text(&f32s(&[2, 0], &[]).max(1)).contains("extent 0 on axis 1"));
    assert_eq!(f32s(&[0, 2], &[]).max(1).shape()[..], [0]);
}

#[test]
fn positions_are_of_the_first_of_equals() {
    let x = f32s(&[2, 3], &[1.0, 5.0, 5.0, 5.0, 0.0, 0.0]);
    assert_close(&x.argmax(..), &[], &[1.0]);
    let (value, index) = x.min_with_index(1);
    assert_close(&value, &[2], &[1.0, 0.0]);
    assert_close(&index, &[2], &[0.0, 1.0]);
    assert_eq!(x.argmax_keepdim(..).shape()[..], [1, 1]);
}

#[test]
fn a_variance_divides_by_what_the_correction_leaves() {
    let x = f32s(&[4], &[1.0, 2.0, 3.0, 4.0]);
    assert_close(&x.var(..), &[], &[5.0 / 3.0]);
    let (var, mean) = x.var_mean(0, VarOpts::default().correction(0.0).keepdim(true));
    assert_close(&var, &[1], &[1.25]);
    assert_close(&mean, &[1], &[2.5]);
    assert_close(&x.var_with(.., VarOpts::default().correction(9.0)), &[], &[f64::INFINITY]);
    assert_close(&f32s(&[], &[3.0]).var_with(.., VarOpts::default().correction(0.0)), &[], &[0.0]);
    assert!(i64s(&[2], &[1, 2]).var(..).check().is_err());
}

#[test]
fn summing_to_a_size_undoes_expansion() {
    let x = f32s(&[2, 1], &[1.0, 2.0]).expand([3, 2, 4]);
    assert_close(&x.sum_to_size([2, 1]), &[2, 1], &[12.0, 24.0]);
    assert!(error_text(&x.sum_to_size([3, 1])).contains("a shape that broadcasts to [3, 2, 4]"));
}
