//! Sums of functions of differences, which the loops of products compute.

use super::{kernel, ramp, wrong};
use crate::base::DType;
use crate::tensor::Tensor;

/// Distances of all pairs, by the sums and what follows them.
#[test]
fn distances_share_their_rows() {
    let (a, b) = (ramp(&[3, 37, 21]), ramp(&[3, 50, 21]));
    let differences = || a.unsqueeze(2) - b.unsqueeze(1);
    for (y, terms) in [
        (a.cdist(&b, 2.0), "squared"),
        (a.cdist(&b, 1.0), "absolute"),
        (differences().square().mean(-1), "squared"),
        ((-differences().square().sum(-1)).exp() * ramp(&[3, 37, 50]), "squared"),
        (a.transpose(1, 2).cdist(&ramp(&[3, 9, 37]), 1.0), "absolute"),
        ((a.exp().unsqueeze(2) - b.sin().unsqueeze(1)).abs().sum(-1), "absolute"),
    ] {
        let (kernel, text) = kernel(&y);
        assert!(text.contains(&format!("of {terms} differences")), "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
}

/// A result may lie where what it is combined with was.
#[test]
fn distances_are_written_over_what_follows_reads() {
    let (a, b) = (ramp(&[40, 21]), ramp(&[50, 21]));
    let y = a.cdist(&b, 1.0) * ramp(&[40, 50]);
    let (kernel, text) = kernel(&y);
    let read = kernel.inputs.iter().position(|input| input.numel == 40 * 50).expect("an input");
    assert!(text.contains("differences"), "{text}");
    assert_eq!(wrong(&kernel, Some(read as u32)), None, "{text}");
}

/// Other sums, and distances that share too little, are what they were.
#[test]
fn other_sums_are_loops() {
    let (a, b) = (ramp(&[37, 21]), ramp(&[50, 21]));
    let pairs = |a: &Tensor, b: &Tensor| a.unsqueeze(1) - b.unsqueeze(0);
    let few = ramp(&[3, 21]);
    for y in [
        pairs(&a, &b).square().max(-1),
        (pairs(&a, &b) * (pairs(&a, &b) + 1.0)).sum(-1),
        pairs(&a, &b).exp().sum(-1),
        pairs(&few, &b).square().sum(-1),
        pairs(&a.narrow(1, 0, 3), &b.narrow(1, 0, 3)).square().sum(-1),
        (&a - &ramp(&[37, 21])).square().sum(-1),
        pairs(&a.to_dtype(DType::F64), &b.to_dtype(DType::F64)).square().sum(-1),
        // Two sums, of which one is no distance.
        pairs(&a, &b).square().sum(-1) + pairs(&a, &b).exp().sum(-1),
    ] {
        let (kernel, text) = kernel(&y);
        assert!(!text.contains("differences"), "{text}");
        assert_eq!(wrong(&kernel, None), None, "{text}");
    }
}
