//! Axes, indices and ranges out of bounds.

use crate::{Line, floats, here, ints, refused};
use kiln::Error;
use kiln::Tensor;
use kiln::prelude::{TopkOpts, r};

#[test]
fn axes() {
    let x = floats([2, 3]);
    refused(here!(x.sum(2)), "sum", "an axis in -2..=1", "axis 2");
    refused(here!(x.softmax(-3)), "softmax", "an axis in -2..=1", "axis -3");
    refused(here!(x.transpose(0, 5)), "transpose", "an axis in -2..=1", "axis 5");
    refused(here!(x.unsqueeze(4)), "unsqueeze", "a new axis in -3..=2", "axis 4");
    refused(here!(x.squeeze(i64::MIN)), "squeeze", "an axis in -2..=1", "axis -9223372036854775808");
    refused(here!(x.cumsum(i64::MAX)), "cumsum", "an axis in -2..=1", "axis 9223372036854775807");
    refused(here!(Tensor::cat(&[&x, &x], 2)), "cat", "an axis in -2..=1", "axis 2");
    refused(here!(x.sum([0, -2])), "sum", "distinct axes", "axis 0 twice");
    refused(here!(x.permute([0, 0])), "permute", "distinct axes", "axis 0 twice");
    refused(here!(Tensor::scalar(1.0, ()).sum(1)), "sum", "an axis in -1..=0", "axis 1");
    let error = x.dim(2).unwrap_err();
    let Error::Op(error) = &error else { panic!("{error}") };
    assert_eq!((error.op, &error.expected[..], &error.found[..]), ("dim", "an axis in -2..=1", "axis 2"));
    let error = x.dims::<3>().unwrap_err();
    let Error::Op(error) = &error else { panic!("{error}") };
    assert_eq!((error.op, &error.expected[..], &error.found[..]), ("dims", "rank 3", "rank 2"));
}

#[test]
fn indices_known_when_the_graph_is_built() {
    let x = floats([4]);
    refused(here!(x.i(4)), "i", "a position in -4..=3 on axis 0 of extent 4", "4");
    refused(here!(x.i(-5)), "i", "a position in -4..=3 on axis 0 of extent 4", "-5");
    refused(here!(x.i((0, 0))), "i", "one index for each of 1 axes at most, and one ellipsis", "2 and 0");
    refused(here!(x.i(r(0, 4).step(0))), "i", "a step other than 0", "0 on axis 0");
    refused(here!(x.select_index(0, 4)), "select_index", "a position in -4..=3 on axis 0 of extent 4", "4");
    refused(here!(x.narrow(0, 3, 2)), "narrow", "a start in -4..=2", "3");
    refused(here!(x.topk(5, TopkOpts::default()).0), "topk", "at most 4 elements", "5");
    refused(here!(x.kthvalue(0, 0).1), "kthvalue", "a k in 1..=4", "0");
    refused(
        here!(x.unfold(0, 5, 1)),
        "unfold",
        "windows of at most 4 elements and a step of at least 1",
        "size 5, step 1",
    );
}

/// The error of an index that was computed, and that the rest goes on.
#[track_caller]
fn at_run_time((tensor, line): (Tensor, Line), index: i64, extent: usize) {
    let error = tensor.realize().unwrap_err();
    let Error::IndexOutOfRange { index: i, extent: n, span, .. } = &error else { panic!("{error}") };
    assert_eq!((*i, *n), (index, extent), "{error}");
    assert_eq!((span.file(), span.line()), line, "{error}");
    assert!(!tensor.is_realized(), "a value that is wrong");
    assert_eq!(tensor.realize().unwrap_err().to_string(), error.to_string(), "the second time");
}

#[test]
fn indices_computed_on_the_device() {
    let (x, n) = (floats([3, 2]) + 0.5, ints([2]) + 1);
    at_run_time(here!(x.index_select(0, &n)), 3, 3);
    at_run_time(here!(x.gather(0, &(ints([-1, 0]) * 1).reshape([1, 2]))), -1, 3);
    at_run_time(here!(n.embedding(&x)), 3, 3);
    at_run_time(here!(x.scatter(0, &n.reshape([1, 1]), 1.0)), 3, 3);
    at_run_time(here!(x.i(&n)), 3, 3);
    at_run_time(here!(x.take(&(&n + 4))), 7, 6);
    let target = ints([0, 2, 1]);
    at_run_time(here!(x.nll_loss(&target, Default::default())), 2, 2);
    assert_eq!(x.index_select(0, &(n - 1)).to_vec::<f32>().unwrap(), [4.5, 5.5]);
}
