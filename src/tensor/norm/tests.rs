use super::*;
use crate::tensor::testing::{assert_close, error_text, f32s, pattern, values};

/// Each run of `n` values less its mean, over its deviation.
fn standardized(v: &[f64], n: usize, eps: f64) -> Vec<f64> {
    v.chunks(n)
        .flat_map(|row| {
            let mean = row.iter().sum::<f64>() / n as f64;
            let var = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            row.iter().map(move |x| (x - mean) / (var + eps).sqrt())
        })
        .collect()
}

#[test]
fn rows_and_groups_are_standardized() {
    let x = pattern(&[2, 6, 4], 1);
    let v = values(&x);
    assert_close(&x.layer_norm([4], NormOpts::default()), &[2, 6, 4], &standardized(&v, 4, 1e-5));
    let whole = standardized(&v, 24, 0.5);
    assert_close(&x.layer_norm([6, 4], NormOpts::default().eps(0.5)), &[2, 6, 4], &whole);
    assert_close(&x.group_norm(3, NormOpts::default()), &[2, 6, 4], &standardized(&v, 8, 1e-5));
    assert_close(&x.instance_norm(RunningNormOpts::training()), &[2, 6, 4], &standardized(&v, 4, 1e-5));
    let rms: Vec<f64> = v
        .chunks(4)
        .flat_map(|row| {
            let square = row.iter().map(|x| x * x).sum::<f64>() / 4.0;
            row.iter().map(move |x| x / (square + 0.25).sqrt())
        })
        .collect();
    assert_close(&x.rms_norm([4], NormOpts::default().eps(0.25)), &[2, 6, 4], &rms);
}

#[test]
fn channels_are_standardized_scaled_and_shifted() {
    let x = pattern(&[3, 2, 4], 1);
    let site = CallSite::here("t");
    let (w, b) = (f32s(&[2], &[2.0, -1.0]), f32s(&[2], &[0.5, 3.0]));
    let v = values(&site.transpose(&x, 0, 1));
    let flat = standardized(&v, 12, 1e-5);
    let scaled: Vec<f64> =
        flat.iter().enumerate().map(|(i, x)| if i < 12 { 2.0 * x + 0.5 } else { 3.0 - x }).collect();
    let y = x.batch_norm(RunningNormOpts::training().weight(&w).bias(&b));
    assert_close(&site.transpose(&y, 0, 1), &[2, 3, 4], &scaled);
    let fixed = x.batch_norm(RunningNormOpts::running(&b, &f32s(&[2], &[3.0, 8.0])).eps(1.0));
    let expected: Vec<f64> =
        v.iter().enumerate().map(|(i, x)| if i < 12 { (x - 0.5) / 2.0 } else { (x - 3.0) / 3.0 }).collect();
    assert_close(&site.transpose(&fixed, 0, 1), &[2, 3, 4], &expected);
}

#[test]
fn running_statistics_move_by_the_momentum() {
    let x = f32s(&[4, 1], &[1.0, 2.0, 3.0, 6.0]);
    let (mean, var) = x.batch_norm_stats(&f32s(&[1], &[1.0]), &f32s(&[1], &[2.0]), 0.5);
    assert_close(&mean, &[1], &[2.0]);
    assert_close(&var, &[1], &[1.0 + 0.5 * 14.0 / 3.0]);
}

#[test]
fn lengths_divide() {
    assert_close(&f32s(&[2], &[3.0, -4.0]).normalize(2.0, 0, 1e-12), &[2], &[0.6, -0.8]);
    assert_close(&f32s(&[2], &[0.0, 0.0]).normalize(2.0, 0, 1e-12), &[2], &[0.0, 0.0]);
}

#[test]
fn errors_are_told() {
    let x = pattern(&[2, 7, 4], 1);
    assert!(error_text(&x.layer_norm((), NormOpts::default())).contains("at least one"));
    assert!(error_text(&x.layer_norm([7], NormOpts::default())).contains("last extents [7]"));
    let wrong = NormOpts::default().weight(&pattern(&[3], 0));
    assert!(error_text(&x.layer_norm([4], wrong)).contains("weight and bias of shape [4]"));
    assert!(error_text(&x.group_norm(2, NormOpts::default())).contains("divide 7"));
    assert!(
        error_text(&pattern(&[1, 3], 0).batch_norm(RunningNormOpts::training())).contains("more than one")
    );
}
