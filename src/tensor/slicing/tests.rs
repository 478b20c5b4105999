use std::ops::RangeInclusive;

use super::{Ellipsis, IntoIndex, NewAxis, r};
use crate::base::DType;
use crate::tensor::Tensor;
use crate::tensor::testing::{assert_close, error_text, f32s, i64s, tensor, values};

fn counting(dims: &[usize]) -> Tensor {
    let numel: usize = dims.iter().product();
    f32s(dims, &(0..numel).map(|i| i as f64).collect::<Vec<_>>())
}

#[test]
fn ranges_cut_off_at_the_ends_as_in_python() {
    let x = counting(&[5]);
    assert_close(&x.i(1..3), &[2], &[1.0, 2.0]);
    assert_close(&x.i(r(1, -1)), &[3], &[1.0, 2.0, 3.0]);
    assert_close(&x.i(-2..), &[2], &[3.0, 4.0]);
    assert_close(&x.i(..=-2), &[4], &[0.0, 1.0, 2.0, 3.0]);
    assert_close(&x.i(RangeInclusive::new(1, -1)), &[4], &[1.0, 2.0, 3.0, 4.0]);
    assert_close(&x.i(3..99), &[2], &[3.0, 4.0]);
    assert_close(&x.i(r(4, 2)), &[0], &[]);
    assert_close(&x.i(-99..1), &[1], &[0.0]);
}

#[test]
fn every_step_agrees_with_python() {
    let extent = 5i64;
    let bounds: Vec<Option<i64>> = std::iter::once(None).chain((-7..=7).map(Some)).collect();
    for step in [-6, -3, -2, -1, 1, 2, 3, 6] {
        for &start in &bounds {
            for &stop in &bounds {
                let range = super::SliceRange { start, stop, step };
                assert_eq!(values(&counting(&[5]).i(range)), python(extent, start, stop, step), "{range:?}");
            }
        }
    }
}

/// The positions that Python's `range(*slice.indices(extent))` gives.
fn python(extent: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<f64> {
    let (low, high) = if step > 0 { (0, extent) } else { (-1, extent - 1) };
    let settle = |bound: i64| (if bound < 0 { bound + extent } else { bound }).clamp(low, high);
    let mut at = start.map_or(if step > 0 { low } else { high }, settle);
    let stop = stop.map_or(if step > 0 { high } else { low }, settle);
    let mut taken = Vec::new();
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        taken.push(at as f64);
        at += step;
    }
    taken
}

#[test]
fn tuples_take_axis_by_axis() {
    let x = counting(&[2, 3, 4]);
    assert_close(&x.i((.., r(1, -1), 0)), &[2, 1], &[4.0, 16.0]);
    assert_eq!(x.i((Ellipsis, -1)).shape()[..], [2, 3]);
    assert_eq!(x.i((0, Ellipsis, NewAxis)).shape()[..], [3, 4, 1]);
    assert_eq!(x.i((NewAxis, 1usize)).shape()[..], [1, 3, 4]);
    assert_close(&x.i((1, 2, (..).step(-2))), &[2], &[23.0, 21.0]);
}

#[test]
fn tensors_of_positions_replace_their_axes() {
    let x = counting(&[2, 3, 4]);
    let (rows, columns) = (i64s(&[2], &[1, -2]), i64s(&[2], &[0, -1]));
    assert_close(&x.i((&rows, &columns, 0)), &[2], &[12.0, 8.0]);
    // Neighbours stay where they were; apart, they go to the front.
    assert_eq!(x.i((.., &rows, &columns)).shape()[..], [2, 2]);
    assert_eq!(x.i((&rows, .., &columns)).shape()[..], [2, 3]);
    let square = i64s(&[2, 2], &[0, 1, 1, 0]);
    assert_eq!(x.i((.., .., &square)).shape()[..], [2, 3, 2, 2]);
}

#[test]
fn a_position_outside_one_axis_does_not_pass_for_another() {
    let x = counting(&[2, 3]);
    let y = x.i((i64s(&[1], &[0]), i64s(&[1], &[3])));
    assert!(Tensor::oracle(&[&y]).is_err());
}

#[test]
fn errors_say_what_would_do() {
    let x = counting(&[2, 3]);
    let text = error_text(&x.i((.., 3)));
    assert!(text.contains("a position in -3..=2 on axis 1 of extent 3, found 3"), "{text}");
    assert!(error_text(&x.i((0, 0, 0))).contains("one index for each of 2 axes at most"));
    assert!(error_text(&x.i((..).step(0))).contains("a step other than 0"));
    let mask = tensor(&[2], DType::Bool, &[1.0, 0.0]);
    assert!(error_text(&x.i(mask)).contains("a bool mask, which takes as many elements as it has true"));
    assert!(error_text(&x.i(f32s(&[1], &[0.0]))).contains("an integer index"));
}
