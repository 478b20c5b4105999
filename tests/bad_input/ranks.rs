//! What the ranks of a group cannot do together. Mistakes that a rank sees by itself are invalid tensors; those that
//! only all see together are in `tests/ranks/dist.rs`.

use crate::{all_refused, floats, here, refused};
use kiln::dist::{self, Reduce};
use kiln::prelude::*;
use kiln::{Error, fori_loop};

#[test]
fn operands_that_ranks_cannot_combine() {
    let run = dist::spawn(1, |group| {
        let (flags, x) = (Tensor::from([true]), floats([2, 3]));
        refused(here!(group.all_reduce(&flags, Reduce::Sum)), "all_reduce", "numbers", "bool");
        let ints = Tensor::from([1i64]);
        refused(here!(group.all_reduce(&ints, Reduce::Mean)), "all_reduce", "floats, for the mean", "i64");
        refused(here!(group.broadcast(&x, 1)), "broadcast", "a root below 1, the number of ranks", "1");
        all_refused([
            ("an axis of none", group.all_gather(&Tensor::scalar(1.0, ()), 0)),
            ("an axis beyond", group.all_gather(&x, 2)),
            ("an axis beyond", group.reduce_scatter(&x, -3, Reduce::Sum)),
            ("an axis beyond", group.all_to_all(&x, 2)),
            ("an invalid tensor", group.all_reduce(&x.reshape([5]), Reduce::Sum)),
        ]);
        // None of them is waited for.
        assert_eq!(group.all_reduce(&x, Reduce::Sum).to_vec::<f32>()?, x.to_vec::<f32>()?);
        Ok(())
    });
    run.expect("a rank");
}

#[test]
fn parts_that_ranks_do_not_divide() {
    let run = dist::spawn(2, |group| {
        let x = floats([2, 3]);
        refused(
            here!(group.reduce_scatter(&x, 1, Reduce::Sum)),
            "reduce_scatter",
            "an axis that 2 ranks divide",
            "axis 1 of extent 3",
        );
        all_refused([("parts", group.all_to_all(&x, 1))]);
        Ok(())
    });
    run.expect("ranks");
}

#[test]
fn collectives_in_bodies() {
    let run = dist::spawn(1, |group| {
        let looped =
            fori_loop(2, &[floats([2])], |_, carries| vec![group.all_reduce(&carries[0], Reduce::Sum)]);
        all_refused([("a loop", looped[0].clone())]);
        Ok(())
    });
    run.expect("a rank");
}

#[test]
fn ranks_that_there_are_not() {
    let run = dist::spawn(2, |group| {
        let x = floats([2]);
        for rank in [group.rank(), 2, usize::MAX] {
            assert!(matches!(group.send(&x, rank), Err(Error::Argument { call: "send", .. })));
            assert!(group.receive(rank, [2], ()).check().is_err());
        }
        for wrong in [&[][..], &[2], &[1, 1]] {
            assert!(matches!(group.subgroup(wrong), Err(Error::Argument { call: "subgroup", .. })));
        }
        Ok(())
    });
    run.expect("ranks");
}
