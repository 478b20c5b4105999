//! A user's composite under the name of one of the library's.

use kiln::{Device, Scalar};
use kiln::{Tensor, composite};

use crate::{adapter, all_refused, floats, refused};

const PLAIN: [(&str, Scalar); 3] =
    [("scale", Scalar::Float(0.5)), ("causal", Scalar::Bool(false)), ("gqa", Scalar::Bool(false))];

fn named(name: &'static str, attributes: &[(&'static str, Scalar)], inputs: &[Tensor]) -> Tensor {
    composite(name, attributes, inputs, |i| vec![i[0].clone()]).remove(0)
}

#[test]
fn wrong_operands_or_attributes_are_refused() {
    let (q, k) = (floats([4, 8]), floats([6, 8]));
    let good = [q.clone(), k.clone(), k.clone()];
    let (bad, line) = (composite("attention", &[], &good, |i| vec![i[0].clone()]).remove(0), line!());
    let expected = "the attributes `scale`, a number, and `causal` and `gqa`, truth values, in this order";
    refused((bad, (file!(), line)), "attention", expected, "[]");
    let with = |at: usize, value: (&'static str, Scalar)| {
        let mut attributes = PLAIN;
        attributes[at] = value;
        named("attention", &attributes, &good)
    };
    let three =
        |a: &Tensor, b: &Tensor, c: &Tensor| named("attention", &PLAIN, &[a.clone(), b.clone(), c.clone()]);
    all_refused([
        ("a scale that is a truth value", with(0, ("scale", Scalar::Bool(true)))),
        ("no scale", with(0, ("factor", Scalar::Float(1.0)))),
        ("a number for causal", with(1, ("causal", Scalar::Int(1)))),
        ("shared heads without heads", with(2, ("gqa", Scalar::Bool(true)))),
        ("one attribute", named("attention", &PLAIN[..1], &good)),
        ("no operands", named("attention", &PLAIN, &[])),
        ("two operands", named("attention", &PLAIN, &good[..2])),
        ("a number", three(&floats([]), &k, &k)),
        ("a vector", three(&floats([8]), &k, &k)),
        ("other depths", three(&floats([4, 7]), &k, &k)),
        ("other keys", three(&q, &k, &floats([5, 8]))),
        ("another type", three(&q, &k, &k.to_dtype(kiln::DType::F64))),
        ("integers", three(&q.to_dtype(kiln::DType::I64), &k, &k)),
        ("a mask of another shape", {
            named("attention", &PLAIN, &[q.clone(), k.clone(), k.clone(), floats([3, 3])])
        }),
        ("sums of a number", named("attention_log_sum", &PLAIN, &[floats([]), floats([])])),
        ("a gradient of nothing", named("attention_backward", &PLAIN, &[])),
        ("a gradient of three", named("attention_backward_values", &PLAIN, &good)),
    ]);
}

/// Long enough for templates, short enough for the masks to matter.
#[test]
fn a_body_under_such_a_name_is_what_runs() {
    for device in [Some(Device::cpu()), adapter::adapter()].into_iter().flatten() {
        let x = |seed: f64| {
            let x = Tensor::arange(0, 2 * 64 * 16, 1, device).to_dtype(kiln::DType::F32);
            (x * seed).sin().reshape([2, 64, 16])
        };
        let inputs = [x(0.1), x(0.2).with_requires_grad(), x(0.3)];
        for (causal, shared) in [(false, false), (true, false), (false, true), (true, true)] {
            let attributes = [
                ("scale", Scalar::Float(0.25)),
                ("causal", Scalar::Bool(causal)),
                ("gqa", Scalar::Bool(shared)),
            ];
            // Neither scaled nor masked, and in a type of its own.
            let body = |i: &[Tensor]| {
                let scores = i[0].matmul(&i[1].transpose(-1, -2));
                vec![scores.softmax(-1).matmul(&i[2]) + 1.0]
            };
            let (y, plain) =
                (composite("attention", &attributes, &inputs, body).remove(0), body(&inputs).remove(0));
            let close = |a: &Tensor, b: &Tensor| {
                let worst = (a - b).abs().amax(..).item::<f32>().expect("a value");
                assert!(worst < 1e-5, "{worst} on {device}, causal {causal}, shared heads {shared}");
            };
            close(&y, &plain);
            let slope = |y: &Tensor| kiln::grad(&y.square().sum(..), &[&inputs[1]]).remove(0);
            close(&slope(&y), &slope(&plain));
        }
    }
}
