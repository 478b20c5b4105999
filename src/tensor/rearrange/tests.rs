use crate::tensor::testing::{assert_close, error_text, f32s, pattern, values};

#[test]
fn repeat_lays_copies_side_by_side() {
    let x = f32s(&[2], &[1.0, 2.0]);
    assert_close(&x.repeat([2, 2]), &[2, 4], &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    assert_close(&x.repeat_interleave(2, ..), &[4], &[1.0, 1.0, 2.0, 2.0]);
    assert_eq!(pattern(&[2, 3], 0).tile(2).shape()[..], [2, 6]);
    assert!(error_text(&pattern(&[2, 3], 0).repeat(2)).contains("a count for each of 2 axes"));
    assert!(x.repeat(-1).check().is_err());
}

#[test]
fn roll_wraps_in_both_directions() {
    let x = f32s(&[4], &[0.0, 1.0, 2.0, 3.0]);
    assert_close(&x.roll(1, 0), &[4], &[3.0, 0.0, 1.0, 2.0]);
    assert_close(&x.roll(-5, 0), &[4], &[1.0, 2.0, 3.0, 0.0]);
    let y = f32s(&[2, 2], &[0.0, 1.0, 2.0, 3.0]);
    assert_close(&y.roll(1, ..), &[2, 2], &[3.0, 0.0, 1.0, 2.0]);
}

#[test]
fn shifting_to_the_centre_and_back_changes_nothing() {
    let x = pattern(&[5, 4], 1);
    assert_eq!(values(&x.fftshift(..).ifftshift(..)), values(&x));
    assert_close(&f32s(&[3], &[0.0, 1.0, -1.0]).fftshift(0), &[3], &[-1.0, 0.0, 1.0]);
}

#[test]
fn four_quarter_turns_change_nothing() {
    let x = pattern(&[2, 3], 2);
    let turned = (0..4).fold(x.clone(), |x, _| x.rot90(1, [0, 1]));
    assert_eq!(values(&turned), values(&x));
    assert_eq!(values(&x.rot90(-1, [0, 1])), values(&x.rot90(3, [0, 1])));
}

#[test]
fn as_strided_stays_within_the_elements() {
    let x = f32s(&[4], &[0.0, 1.0, 2.0, 3.0]);
    assert_close(&x.as_strided([2, 2], [1, 1], 1), &[2, 2], &[1.0, 2.0, 2.0, 3.0]);
    assert!(error_text(&x.as_strided([2, 2], [2, 1], 1)).contains("positions below 4, found position 4"));
}

#[test]
fn pixel_shuffles_invert_each_other() {
    let x = pattern(&[2, 8, 3, 2], 3);
    let y = x.pixel_shuffle(2);
    assert_eq!(y.shape()[..], [2, 2, 6, 4]);
    assert_eq!(values(&y.pixel_unshuffle(2)), values(&x));
}
