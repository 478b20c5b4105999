//! The text of tensors, as PyTorch prints the same values.

use super::*;
use crate::plan::context::{Context, with_context};
use crate::tensor::testing::{error_text, f32s, i64s, tensor};

fn shown_as(x: &Tensor) -> String {
    x.to_text().expect("values")
}

fn floats(values: &[f64]) -> String {
    shown_as(&f32s(&[values.len()], values))
}

#[test]
fn single_elements_stand_alone() {
    assert_eq!(shown_as(&f32s(&[], &[3.5])), "tensor(3.5000)");
    assert_eq!(shown_as(&f32s(&[], &[-0.0])), "tensor(-0.)");
    assert_eq!(shown_as(&i64s(&[], &[i64::from(i32::MIN)])), "tensor(-2147483648)");
    assert_eq!(shown_as(&f32s(&[], &[f64::NAN])), "tensor(nan)");
}

#[test]
fn all_numbers_share_one_notation() {
    assert_eq!(floats(&[1.0, -2.0, 30.0]), "tensor([ 1., -2., 30.])");
    assert_eq!(floats(&[1.5, f64::NAN, f64::NEG_INFINITY]), "tensor([1.5000,    nan,   -inf])");
    assert_eq!(floats(&[2.0, f64::INFINITY]), "tensor([2., inf])");
    assert_eq!(floats(&[0.0, 0.1]), "tensor([0.0000, 0.1000])");
}

#[test]
fn magnitudes_far_apart_are_scientific() {
    assert_eq!(floats(&[0.00001, 1.0]), "tensor([1.0000e-05, 1.0000e+00])");
    assert_eq!(floats(&[2e8, -0.0]), "tensor([2.0000e+08, -0.0000e+00])");
    assert_eq!(floats(&[1.0, 1000.0]), "tensor([   1., 1000.])");
    assert_eq!(floats(&[1.0, 1001.0]), "tensor([1.0000e+00, 1.0010e+03])");
    let large = tensor(&[1], DType::F64, &[1.25e-123]);
    assert_eq!(shown_as(&large), "tensor([1.2500e-123], dtype=f64)");
}

#[test]
fn rows_line_up_under_their_bracket() {
    assert_eq!(shown_as(&i64s(&[2, 2], &[1, 2, 30, -4])), "tensor([[ 1,  2],\n        [30, -4]])");
    let cube = i64s(&[2, 1, 2], &[1, 2, 3, 4]);
    assert_eq!(shown_as(&cube), "tensor([[[1, 2]],\n\n        [[3, 4]]])");
    let truth = tensor(&[2], DType::Bool, &[1.0, 0.0]);
    assert_eq!(shown_as(&truth), "tensor([ true, false])");
}

#[test]
fn long_rows_wrap_within_80_characters() {
    let text = shown_as(&i64s(&[30], &(0..30).collect::<Vec<_>>()));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("tensor([ 0,  1,") && lines[0].ends_with("16, 17,"));
    assert!(lines[1].starts_with("        18, 19,") && lines[1].ends_with("28, 29])"));
}

#[test]
fn large_tensors_show_their_edges() {
    let row = Tensor::arange(0, 1001, 1, ());
    assert_eq!(shown_as(&row), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
    let text = shown_as(&Tensor::arange(0, 2000, 1, ()).reshape([200, 10]));
    let expected = "tensor([[   0,    1,    2,  ...,    7,    8,    9],\n        \
        [  10,   11,   12,  ...,   17,   18,   19],\n        \
        [  20,   21,   22,  ...,   27,   28,   29],\n        \
        ...,\n        \
        [1970, 1971, 1972,  ..., 1977, 1978, 1979],\n        \
        [1980, 1981, 1982,  ..., 1987, 1988, 1989],\n        \
        [1990, 1991, 1992,  ..., 1997, 1998, 1999]])";
    assert_eq!(text, expected);
    // The notation follows what is shown: the one 0.5 is not.
    let half = Tensor::arange(0, 2000, 1, DType::F32).eq(500).to_dtype(DType::F32) * 0.5;
    assert_eq!(shown_as(&half), "tensor([0., 0., 0.,  ..., 0., 0., 0.])");
}

#[test]
fn what_the_values_do_not_say_follows_them() {
    assert_eq!(shown_as(&tensor(&[1], DType::F16, &[0.1])), "tensor([0.1000], dtype=f16)");
    assert_eq!(shown_as(&tensor(&[1], DType::U8, &[7.0])), "tensor([7], dtype=u8)");
    assert_eq!(shown_as(&f32s(&[0], &[])), "tensor([])");
    assert_eq!(shown_as(&i64s(&[0, 3], &[])), "tensor([], shape=[0, 3], dtype=i64)");
    let elsewhere = Type::new([1], DType::F16, Device::cuda(1));
    let text = text(&elsewhere, &mut |_| Scalar::Float(1.0), PrintOpts::default());
    assert_eq!(text, "tensor([1.], device=cuda:1, dtype=f16)");
}

#[test]
fn a_suffix_that_does_not_fit_takes_its_own_line() {
    let wide = tensor(&[9], DType::F64, &[1.5; 9]);
    let expected = format!("tensor([{}],\n       dtype=f64)", ["1.5000"; 9].join(", "));
    assert_eq!(shown_as(&wide), expected);
}

#[test]
fn options_change_digits_edges_and_lines() {
    let opts = PrintOpts::default().precision(2).threshold(3).edge_items(1).line_width(40);
    let x = f32s(&[4], &[0.125, 0.5, 0.25, 1.0]);
    assert_eq!(x.to_text_with(opts).expect("values"), "tensor([0.12,  ..., 1.00])");
    assert_eq!(format!("{x:.1}"), "tensor([0.1, 0.5, 0.2, 1.0])");
}

#[test]
fn formatting_runs_nothing() {
    let context = Context::new();
    with_context(&context, || {
        let x = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let y = &x + 1.0;
        assert_eq!(format!("{y}"), "tensor(shape [2, 2], f32, cpu, lazy)");
        assert_eq!(format!("{}", Tensor::ones([2, 3], Device::meta())), "tensor(shape [2, 3], f32, meta)");
        // A view of data in memory is data in memory.
        assert_eq!(format!("{}", x.t()), "tensor([[1., 3.],\n        [2., 4.]])");
        assert_eq!(context.counters(), Context::new().counters());
        y.realize().expect("values");
        assert_eq!(format!("{y}"), "tensor([[2., 3.],\n        [4., 5.]])");
        assert_eq!(context.counters().kernels_launched, 1);
    });
}

#[test]
fn errors_are_printed_or_returned() {
    let wrong = f32s(&[2], &[1.0, 2.0]).reshape([3]);
    assert!(format!("{wrong}").starts_with("tensor(invalid: reshape: expected "));
    assert_eq!(wrong.show().expect_err("an error").to_string(), error_text(&wrong));
    let meta = Tensor::ones(2, Device::meta());
    assert!(matches!(meta.show(), Err(Error::NoData { .. })));
}
