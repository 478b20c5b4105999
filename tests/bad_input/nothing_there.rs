//! Tensors without elements, axes or operands.

use crate::{floats, here, ints, refused};
use kiln::opts::NormOpts;
use kiln::opts::QuantileOpts;
use kiln::prelude::{ConvOpts, TopkOpts};
use kiln::{DType, Error};
use kiln::{Tensor, einsum};

fn values(x: &Tensor) -> Vec<f64> {
    x.to_dtype(DType::F64).to_vec().expect("a value")
}

#[test]
fn sums_and_products_of_nothing_are_their_neutral_element() {
    let none = floats([0, 3]);
    assert_eq!(values(&none.sum(..)), [0.0]);
    assert_eq!(values(&none.prod(0)), [1.0; 3]);
    assert!(values(&none.sum(1)).is_empty());
    assert_eq!(values(&none.ne(0).any(..)), [0.0]);
    assert_eq!(values(&none.ne(0).all(..)), [1.0]);
    assert!(values(&none.mean(..))[0].is_nan());
    assert!(values(&none.var(..))[0].is_nan());
    assert_eq!(values(&none.logsumexp(0)), [f64::NEG_INFINITY; 3]);
    assert_eq!(values(&floats([2, 0]).matmul(&floats([0, 2]))), [0.0; 4]);
    assert_eq!(values(&einsum("ij->j", &[&none])), [0.0; 3]);
}

#[test]
fn operations_on_nothing_give_nothing() {
    let none = floats([0, 3]);
    let same = [
        &none + 1.0,
        none.exp(),
        none.softmax(0),
        none.softmax(1),
        none.cumsum(0),
        none.sort(0, false).0,
        none.flip([0]),
        none.layer_norm([3], NormOpts::default()),
        none.topk(0, TopkOpts::default().axis(0)).0,
        none.index_select(0, &ints([])),
        Tensor::cat(&[&none, &none], 0),
        none.matmul(&floats([3, 3])),
    ];
    for (i, tensor) in same.iter().enumerate() {
        let found = tensor.to_vec::<f32>().unwrap_or_else(|e| panic!("{i}: {e}"));
        assert!(found.is_empty(), "{i}");
        assert_eq!(tensor.shape()[..], [0, 3], "{i}");
    }
    assert_eq!(none.amax(1).shape()[..], [0]);
    assert_eq!(none.nonzero().unwrap().shape()[..], [0, 2]);
    let images = floats([0, 3, 8, 8]).conv2d(&floats([5, 3, 3, 3]), None, ConvOpts::default());
    assert!(images.to_vec::<f32>().unwrap().is_empty());
    assert_eq!(images.shape()[..], [0, 5, 6, 6]);
}

#[test]
fn extremes_of_nothing_do_not_exist() {
    let none = floats([0, 3]);
    refused(here!(none.amax(..)), "amax", "at least one element to choose from", "extent 0 on axis 0");
    refused(here!(none.amin(0)), "amin", "at least one element to choose from", "extent 0 on axis 0");
    refused(here!(none.argmax(0)), "argmax", "at least one element to choose from", "extent 0 on axis 0");
    refused(
        here!(none.max_with_index(0).0),
        "max_with_index",
        "at least one element to choose from",
        "extent 0 on axis 0",
    );
    refused(here!(none.median(0).0), "median", "at least one element", "extent 0 on axis 0");
    refused(here!(none.kthvalue(1, 0).0), "kthvalue", "a k in 1..=0", "1");
    refused(
        here!(none.quantile(0.5, .., QuantileOpts::default())),
        "quantile",
        "a floating type and at least one element",
        "f32 [0, 3]",
    );
    refused(here!(none.i(0)), "i", "no position on axis 0, whose extent is 0", "0");
    refused(
        here!(none.reshape([-1, 0])),
        "reshape",
        "a shape of 0 elements with one extent to work out",
        "[-1, 0]",
    );
    refused(here!(Tensor::cat::<Tensor>(&[], 0)), "cat", "at least one tensor", "none");
    let error = none.item::<f32>().unwrap_err();
    assert!(matches!(&error, Error::Op(error) if error.op == "item" && error.found == "shape [0, 3]"));
}
