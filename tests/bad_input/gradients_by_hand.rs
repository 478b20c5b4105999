//! Gradients that the user gives: to `custom_grad`, `vjp`, `backward_with` and `set_grad`.

use kiln::nn::Param;
use kiln::{DType, Device, Error};
use kiln::{Result, Tensor, custom_grad, vjp};

use crate::{adapter, floats, mistake, refused};

/// Asserts that a call was refused on a line of this file.
#[track_caller]
fn refused_at<T: std::fmt::Debug>(result: Result<T>, op: &str, line: u32) {
    match result {
        Err(Error::Op(error)) => {
            assert_eq!((error.op, error.span.file(), error.span.line()), (op, file!(), line), "{error}");
        }
        other => panic!("expected a refusal, found {other:?}"),
    }
}

fn elsewhere() -> Vec<Device> {
    [Some(Device::null()), adapter::adapter()].into_iter().flatten().collect()
}

#[test]
fn a_rule_gives_one_gradient_for_each_input_and_of_its_kind() {
    let (a, b) = (floats([3]).with_requires_grad(), floats([2]).with_requires_grad());
    let wrong = |rule: fn(&Tensor) -> Vec<Option<Tensor>>| {
        let y = custom_grad(&[&a, &b], |x| x[0].sum(..) * x[1].sum(..), move |_, _, g| rule(g));
        (y, line!() - 1)
    };
    let rules: [(fn(&Tensor) -> Vec<Option<Tensor>>, &str, &str); 7] = [
        (|_| vec![], "2 gradients from its rule, one or `None` for each input", "0"),
        (|_| vec![None], "2 gradients from its rule, one or `None` for each input", "1"),
        (|_| vec![None; 3], "2 gradients from its rule, one or `None` for each input", "3"),
        (|g| vec![Some(g.clone()), None], "a gradient of input 0 that is f32[3] on cpu", "f32[] on cpu"),
        (
            |_| vec![None, Some(Tensor::ones([2, 1], ()))],
            "a gradient of input 1 that is f32[2] on cpu",
            "f32[2, 1] on cpu",
        ),
        (
            |_| vec![Some(Tensor::ones([3], DType::F16)), None],
            "a gradient of input 0 that is f32[3] on cpu",
            "f16[3] on cpu",
        ),
        (
            |_| vec![Some(Tensor::ones([3], Device::null())), None],
            "a gradient of input 0 that is f32[3] on cpu",
            "f32[3] on null",
        ),
    ];
    for (rule, expected, found) in rules {
        let (y, line) = wrong(rule);
        let slopes = kiln::grad(&y, &[&a, &b]);
        for slope in slopes {
            refused((slope, (file!(), line)), "custom_grad", expected, found);
        }
        refused_at(y.backward(), "custom_grad", line);
        assert!(a.grad().is_none() && b.grad().is_none());
    }
    if let Some(device) = adapter::adapter() {
        let y = custom_grad(&[&a], |x| x[0].sum(..), move |x, _, _| vec![Some(x[0].to(device))]);
        let error = mistake(&kiln::grad(&y, &[&a]).remove(0));
        assert!(error.found.ends_with("on wgpu:0"), "{error}");
    }
    // What fits is taken, also for an input that has no gradient.
    let n = Tensor::from_slice(&[1i64, 2, 3], [3], ());
    let y =
        custom_grad(&[&a, &n], |x| (&x[0] * &x[1]).sum(..), |x, _, g| vec![Some(g * &x[1]), Some(g.clone())]);
    assert_eq!(kiln::grad(&y, &[&a]).remove(0).to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    // An invalid input stays the mistake that it was.
    let bad = floats([2]) + floats([3]);
    let y = custom_grad(&[&a, &bad], |x| x[0].clone(), |_, _, g| vec![Some(g.clone()), None]);
    assert_eq!(mistake(&y).op, "add");
}

#[test]
fn a_rule_that_is_never_asked_is_not_checked() {
    let a = floats([3]);
    let y = custom_grad(&[&a], |x| x[0].exp(), |_, _, _| vec![]);
    assert_eq!(y.to_vec::<f32>().unwrap(), a.exp().to_vec::<f32>().unwrap());
}

#[test]
fn a_cotangent_is_of_its_outputs_kind() {
    let x = floats([3]).with_requires_grad();
    let (y, constant) = (x.square(), floats([3]));
    let mut wrong = vec![
        floats([]),
        floats([4]),
        floats([3, 1]),
        floats([3]).to_dtype(DType::F64),
        floats([3]).to_dtype(DType::I64),
    ];
    wrong.extend(elsewhere().into_iter().map(|device| Tensor::ones([3], device)));
    for cotangent in &wrong {
        for output in [&y, &constant] {
            let slope = vjp(&[(output, cotangent)], &[&x]).remove(0);
            refused_at(slope.check(), "vjp", line!() - 1);
        }
        let slope = kiln::grad_with(&y, &[&x], kiln::GradOpts::default().cotangent(cotangent)).remove(0);
        refused_at(slope.check(), "grad", line!() - 1);
        let result = y.backward_with(kiln::GradOpts::default().cotangent(cotangent));
        refused_at(result, "grad", line!() - 1);
    }
    let bad = floats([2]) + floats([3]);
    for pair in [(&bad, &constant), (&constant, &bad), (&y, &bad)] {
        assert_eq!(mistake(&vjp(&[pair], &[&x]).remove(0)).op, "add");
    }
    assert!(x.grad().is_none());
    let slope = vjp(&[(&y, &floats([3])), (&constant, &floats([3]))], &[&x]).remove(0);
    assert_eq!(slope.to_vec::<f32>().unwrap(), [0.0, 2.0, 8.0]);
}

#[test]
fn a_gradient_that_is_set_is_of_its_parameters_kind() {
    let p = Param::new(floats([3]));
    p.set_grad(Some(&floats([3]))).expect("what fits");
    let mut wrong = vec![
        floats([]),
        floats([1]),
        floats([3, 1]),
        floats([3]).to_dtype(DType::F16),
        floats([3]).to_dtype(DType::I64),
    ];
    wrong.extend(elsewhere().into_iter().map(|device| Tensor::ones([3], device)));
    for gradient in &wrong {
        refused_at(p.set_grad(Some(gradient)), "set_grad", line!());
    }
    assert_eq!(p.grad().expect("what was set").to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
    p.set_grad(None).expect("none at all");
    assert!(p.grad().is_none());
}
