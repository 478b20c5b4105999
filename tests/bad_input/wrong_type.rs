//! Element types that do not fit.

use crate::{floats, here, ints, refused};
use kiln::Tensor;
use kiln::{DType, Error};

#[test]
fn operations_name_the_types_they_take() {
    let (x, n) = (floats([2]), ints([1, 2]));
    refused(here!(x.bitwise_and(1)), "bitwise_and", "a bool or integer type", "f32");
    refused(here!(n.eq(1).neg()), "neg", "an integer or floating type", "bool");
    refused(here!(x.select(1, 2)), "select", "a bool condition", "f32");
    refused(here!(x.masked_fill(&n, 0)), "masked_fill", "a bool condition", "i64");
    refused(here!(x.gather(0, &x)), "gather", "an integer index", "f32");
    refused(here!(x.embedding(&floats([3, 2]))), "embedding", "an integer index", "f32");
    refused(here!(x.bitcast(DType::F64)), "bitcast", "a number type of 4 bytes", "f64, from f32");
    refused(here!(n.dropout(0.5)), "dropout", "a floating-point type", "i64");
    refused(here!(n.matmul(&x)), "matmul", "operands of one number type", "i64 and f32");
}

#[test]
fn reading_with_another_type_names_the_cast() {
    let x = floats([3]) * 2.0;
    let (error, line) = (x.to_vec::<f64>().unwrap_err(), line!());
    let Error::ReadType { call, expected, found, span } = &error else { panic!("{error}") };
    assert_eq!((*call, *expected, *found), ("to_vec", DType::F64, DType::F32));
    assert_eq!((span.file(), span.line()), (file!(), line));
    assert!(error.to_string().contains("write `.to_dtype(DType::F64)` before it"), "{error}");
    assert!(error.to_string().contains("read it as f32"), "{error}");
    assert_eq!(x.to_dtype(DType::F64).to_vec::<f64>().unwrap(), [0.0, 2.0, 4.0]);
}

#[test]
fn an_item_widens_but_never_narrows() {
    let n = ints([7]);
    assert_eq!(n.item::<f64>().unwrap(), 7.0);
    let error = Tensor::scalar(1.5, DType::F64).item::<f32>().unwrap_err();
    let Error::ReadType { call: "item", expected, found, .. } = error else { panic!("{error}") };
    assert_eq!((expected, found), (DType::F32, DType::F64));
    let (error, line) = (ints([1, 2]).item::<i64>().unwrap_err(), line!());
    let Error::Op(error) = error else { panic!("{error}") };
    assert_eq!(
        (error.op, &error.expected[..], &error.found[..]),
        ("item", "a tensor of one element", "shape [2]")
    );
    assert_eq!((error.span.file(), error.span.line()), (file!(), line));
}
