//! Invalid tensors flow on and are reported once.

use crate::{floats, here, mistake};
use kiln::opts::NormOpts;
use kiln::prelude::{ConvOpts, MaxPoolOpts, TopkOpts};
use kiln::{DType, Device, Dims, Error, Shape};
use kiln::{Tensor, Var, einsum, realize};

#[test]
fn the_first_mistake_flows_to_whatever_asks() {
    let (bad, (_, line)) = here!(floats([2, 3]).matmul(&floats([2, 3])));
    let mask = floats([3]).gt(1.0);
    let flows = [
        &bad + 1.0,
        floats([2]) * &bad,
        bad.exp().sum(0).softmax(-1).reshape([7, -1]),
        Tensor::cat(&[&floats([2]), &bad], 0),
        bad.i((0, ..)),
        bad.conv2d(&bad, None, ConvOpts::default()).max_pool2d(2, MaxPoolOpts::default()),
        floats([3]).layer_norm([3], NormOpts::default().weight(&bad)),
        mask.select(&bad, 0.0),
        floats([3]).masked_fill(&bad, 0.0),
        floats([3]).index_select(0, &bad),
        bad.sort(0, true).1,
        bad.topk(2, TopkOpts::default()).0,
        bad.split(1, 0)[0].clone(),
        einsum("ij,jk", &[&floats([2, 2]), &bad]),
        kiln::fori_loop(3, &[floats([2])], |_, c| vec![&c[0] + &bad])[0].clone(),
        bad.to(Device::null()).to_dtype(DType::F16),
        &(&bad + &floats([9])) - &(floats([2]) + floats([3])),
    ];
    for (i, tensor) in flows.iter().enumerate() {
        let error = mistake(tensor);
        assert_eq!((i, error.op, error.span.line()), (i, "matmul", line), "{error}");
        assert_eq!(&error.found[..], "3 and 2", "{error}");
    }
    let last = &flows[2];
    let asked = [
        last.realize().map(|_| ()),
        realize(&[&floats([1]), last]),
        last.to_vec::<f32>().map(|_| ()),
        last.item::<f32>().map(|_| ()),
        last.plan().map(|_| ()),
        last.to_text().map(|_| ()),
        last.dims::<2>().map(|_| ()),
        last.dim(0).map(|_| ()),
        last.nonzero().map(|_| ()),
        last.unique(..).map(|_| ()),
        floats([2]).masked_select(last).map(|_| ()),
    ];
    for (i, result) in asked.into_iter().enumerate() {
        match result {
            Err(Error::Op(error)) => assert_eq!((error.op, error.span.line()), ("matmul", line), "{i}"),
            other => panic!("{i}: {other:?}"),
        }
    }
    assert!(format!("{last:?}").contains("matmul"));
}

#[test]
fn an_invalid_tensor_has_no_extents() {
    let bad = floats([2]) + floats([3]);
    assert_eq!((bad.shape(), bad.rank(), bad.numel()), (Shape(Dims::new()), 0, 0));
    assert!(!bad.is_realized());
    mistake(&bad);
}

#[test]
fn a_cell_keeps_what_it_holds() {
    let cell = Var::new(floats([3]));
    let (bad, (_, line)) = here!(floats([2]) + floats([3]));
    let Err(Error::Op(error)) = cell.set(bad) else { panic!("an invalid tensor was set") };
    assert_eq!((error.op, error.span.line()), ("add", line), "the mistake, not the call of set");
    let (other, line) = (cell.set(floats([4])), line!());
    let Err(Error::Op(error)) = other else { panic!("another shape was set") };
    assert_eq!((error.op, error.span.line()), ("set", line));
    assert_eq!((&error.expected[..], &error.found[..]), ("f32[3]", "f32[4]"));
    assert!(cell.set(floats([3]).to_dtype(DType::I64)).is_err(), "another type");
    assert!(cell.set(Tensor::ones([3], Device::null())).is_err(), "another device");
    assert_eq!(cell.get().to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
    cell.set(cell.get() + 1.0).expect("what fits");
    assert_eq!(cell.get().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
}
