//! What depends on a body's parameter has a value inside that body and nowhere else.

use std::sync::Arc;
use std::sync::mpsc::channel;

use kiln::nn::{BatchNorm, Buffer, Layer, ModuleExt, Param};
use kiln::prelude::TopkOpts;
use kiln::unstable::ir::{Custom, Type};
use kiln::{DType, Device, Error};
use kiln::{Result, Tensor, Var, composite, custom_grad, fori_loop, scan, scan_reverse};

use crate::{adapter, floats};

/// Asserts that a value was refused on line `asked`, as one of a body built on line `built`.
#[track_caller]
fn inside<T: std::fmt::Debug>(result: Result<T>, asked: u32, built: u32) {
    match result {
        Err(Error::InsideBody { body, span, .. }) => {
            assert_eq!((body.file(), span.file()), (file!(), file!()));
            assert_eq!((span.line(), body.line()), (asked, built), "where it was asked, where it was built");
        }
        other => panic!("expected the refusal of a body's own, found {other:?}"),
    }
}

fn devices() -> Vec<Device> {
    [Some(Device::cpu()), adapter::adapter()].into_iter().flatten().collect()
}

fn on(device: Device) -> Tensor {
    Tensor::from_vec(vec![1.0f32, 2.0, 3.0], [3], device)
}

type Escape = (&'static str, Tensor, u32);

/// What escapes from bodies of every kind, with the line that built each.
#[rustfmt::skip]
fn escaped(x: &Tensor) -> Vec<Escape> {
    let xs = Tensor::stack(&[x, x], 0);
    let (mut found, one) = (Vec::new(), std::slice::from_ref(x));
    let mut keep = |name: &'static str, x: Tensor, line: u32| found.push((name, x, line));
    let _ = composite("m", &[], one, |i| { keep("a parameter", i[0].clone(), line!()); vec![i[0].clone()] });
    let _ = composite("m", &[], one, |i| { keep("a composite's", &i[0] * 2.0, line!()); vec![i[0].clone()] });
    let _ = fori_loop(2, one, |_, c| { keep("a loop's", &c[0] * 2.0, line!()); vec![c[0].clone()] });
    let _ = fori_loop(2, one, |i, c| { keep("a number", x + i, line!()); vec![c[0].clone()] });
    let _ = scan(one, &[xs.clone()], |c, y| { keep("a scan's", &y[0] + 1.0, line!()); (c.to_vec(), vec![]) });
    let _ = scan_reverse(one, &[xs], |c, y| { keep("a reverse scan's", &y[0] - &c[0], line!()); (c.to_vec(), vec![]) });
    let _ = fori_loop(2, one, |_, c| fori_loop(2, c, |_, d| { keep("a nested", &d[0] * 2.0, line!()); vec![d[0].clone()] }));
    found
}

#[test]
fn what_escapes_from_a_body_is_refused_where_it_is_asked_for() {
    for device in devices() {
        let (x, y) = (on(device), on(device) * 10.0);
        // A plan for the same operations on a tensor that is there.
        assert_eq!((&x * 2.0 + &y).to_vec::<f32>().unwrap(), [12.0, 24.0, 36.0]);
        for (name, out, built) in escaped(&x) {
            println!("{name} on {device}");
            inside(out.to_vec::<f32>(), line!(), built);
            inside((&out + &y).to_vec::<f32>(), line!(), built);
            let total = &y + out.sum(..);
            inside(total.to_vec::<f32>(), line!(), built);
            inside(out.sum(..).item::<f32>(), line!(), built);
            inside(out.realize().map(|_| ()), line!(), built);
            inside(kiln::realize(&[&y, &out]), line!(), built);
            inside(out.to_text(), line!(), built);
            inside(out.nonzero(), line!(), built);
            inside(out.plan().map(|_| ()), line!(), built);
            inside(kiln::plan(&[&y, &out]).map(|_| ()), line!(), built);
            inside(out.to(Device::cpu()).to_vec::<f32>(), line!(), built);
            // In another body, and in the gradient of one.
            let again = composite("n", &[], &[y.clone()], |i| vec![&i[0] + &out]).remove(0);
            inside(again.to_vec::<f32>(), line!(), built);
            let w = y.clone().detach().with_requires_grad();
            let slope = kiln::grad(&fori_loop(2, &[w.clone()], |_, c| vec![&c[0] * &out])[0].sum(..), &[&w])
                .remove(0);
            inside(slope.to_vec::<f32>(), line!(), built);
        }
        assert_eq!(y.to_vec::<f32>().unwrap(), [10.0, 20.0, 30.0]);
    }
}

#[test]
fn a_large_escape_reads_nobody_elses_memory() {
    for device in devices() {
        let (mut out, large) = (None, Tensor::zeros([100_000], device));
        let _ = composite("m", &[], &[large], |i| {
            out = Some(&i[0] * 2.0);
            vec![i[0].clone()]
        });
        let built = line!() - 4;
        let sum = out.expect("the body ran") + on(device).sum(..);
        inside(sum.to_vec::<f32>(), line!(), built);
    }
}

#[test]
fn an_escape_through_a_thread_a_cell_or_an_outer_body_is_refused() {
    let x = on(Device::cpu());
    let (send, receive) = channel();
    let _ = composite("m", &[], &[x.clone()], |i| {
        send.send(&i[0] + 1.0).expect("somebody listens");
        vec![i[0].clone()]
    });
    let built = line!() - 4;
    let read = std::thread::spawn(move || receive.recv().expect("a tensor").to_vec::<f32>()).join();
    inside(read.expect("no panic"), line!() - 1, built);

    let held = Var::new(x.clone());
    let _ = composite("m", &[], &[x.clone()], |i| {
        inside(held.set(&i[0] + 1.0), line!(), line!() - 1);
        vec![i[0].clone()]
    });
    assert_eq!(held.get().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    let made = composite("m", &[], &[x.clone()], |i| {
        let cell = Var::new(i[0].clone());
        vec![cell.get() * 2.0]
    });
    assert_eq!(made[0].to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);

    // An inner body's own is no outer body's.
    let outer = composite("outer", &[], &[x.clone()], |i| {
        let mut inner = None;
        let _ = fori_loop(2, i, |_, c| {
            inner = Some(&c[0] * 2.0);
            vec![c[0].clone()]
        });
        vec![inner.expect("the body ran") + &i[0]]
    });
    inside(outer[0].to_vec::<f32>(), line!(), line!() - 6);
}

#[test]
fn what_is_asked_for_while_a_body_is_built_is_refused() {
    for device in devices() {
        let (x, w) = (on(device), Param::new(on(device)));
        let buffer = Buffer::new(x.clone());
        let out = fori_loop(3, &[x.clone()], |i, c| {
            let built = line!() - 1;
            let y = &c[0] * 2.0;
            inside(y.to_vec::<f32>(), line!(), built);
            inside(c[0].to_vec::<f32>(), line!(), built);
            inside(i.item::<i64>(), line!(), built);
            inside(y.to_text(), line!(), built);
            inside(y.nonzero(), line!(), built);
            inside(y.masked_select(&y.gt(1.0)), line!(), built);
            inside(y.realize().map(|_| ()), line!(), built);
            inside(buffer.set(&y), line!(), built);
            inside(w.set(&y), line!(), built);
            inside(w.set_grad(Some(&y)), line!(), built);
            inside((w.get() * &y).sum(..).backward(), line!(), built);
            // What does not depend on the body may be read.
            let outside = &x + 1.0;
            assert_eq!(outside.to_vec::<f32>().unwrap(), [2.0, 3.0, 4.0]);
            assert_eq!(buffer.get().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
            vec![y + outside]
        });
        assert_eq!(out[0].to_vec::<f32>().unwrap(), [22.0, 37.0, 52.0]);
        assert!(w.grad().is_none());
    }
}

#[test]
fn a_batch_norm_in_training_inside_a_body_is_refused() {
    let (norm, x) = (BatchNorm::new(2, ()), floats([4, 2]));
    let built = line!() + 1;
    let out = composite("block", &[], &[x.clone()], |i| vec![norm.forward(&i[0])]);
    inside(out[0].to_vec::<f32>(), built, built);
    inside(out[0].check(), built, built);
    assert_eq!(norm.running_mean.get().to_vec::<f32>().unwrap(), [0.0, 0.0]);
    norm.eval();
    let out = composite("block", &[], &[x.clone()], |i| vec![norm.forward(&i[0])]);
    assert_eq!(out[0].to_vec::<f32>().unwrap(), norm.forward(&x).to_vec::<f32>().unwrap());
}

/// A checkpoint has no body: its function runs on the tensors themselves.
#[test]
fn what_is_taken_out_of_a_checkpoint_is_an_ordinary_tensor() {
    let x = floats([3]).with_requires_grad();
    let mut out = None;
    let y = kiln::checkpoint(
        |x| {
            assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
            out = Some(x * 2.0);
            x.square()
        },
        &x,
    );
    let out = out.expect("the function ran");
    assert_eq!(out.to_vec::<f32>().unwrap(), [0.0, 2.0, 4.0]);
    let slope = kiln::grad(&(y + out).sum(..), &[&x]).remove(0);
    assert_eq!(slope.to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
}

/// Bodies may use what is outside, gradients go through all of it.
#[test]
fn bodies_inside_bodies_and_their_gradients_work() {
    let w = Tensor::from_vec(vec![2.0f32, 3.0, 1.0], [3], ()).with_requires_grad();
    let y = fori_loop(2, &[floats([3])], |_, outer| {
        composite("inner", &[], &[&outer[0] + 1.0], |i| {
            let step = |x: &Tensor| fori_loop(2, &[x.clone()], |_, c| vec![&c[0] * &w + &outer[0]]).remove(0);
            vec![kiln::checkpoint(step, &i[0])]
        })
    });
    // x -> (x + 1) w^2 + x w + x, twice.
    let once = |x: &Tensor| (x + 1.0) * w.square() + x * &w + x;
    let plain = once(&once(&floats([3])));
    let slopes = [&y[0], &plain].map(|y| kiln::grad(&y.sum(..), &[&w]).remove(0).to_vec::<f32>().unwrap());
    assert_eq!(slopes[0], slopes[1]);
    assert_eq!(y[0].to_vec::<f32>().unwrap(), plain.to_vec::<f32>().unwrap());
}

/// The places of the largest are the body's own too.
#[test]
fn gradients_of_places_found_inside_a_body() {
    let x = Tensor::from_vec(vec![1.0f32, 5.0, 2.0, 7.0, 0.0, 3.0], [2, 3], ()).with_requires_grad();
    let step =
        |x: &Tensor| x * x.max_with_index_keepdim(1).0 + x.topk(2, TopkOpts::default()).0.sum_keepdim(1);
    let y = fori_loop(2, &[x.clone()], |_, c| vec![step(&c[0])]).remove(0);
    let plain = step(&step(&x));
    let slopes = [&y, &plain].map(|y| kiln::grad(&y.sum(..), &[&x]).remove(0).to_vec::<f32>().unwrap());
    assert_eq!(slopes[0], slopes[1]);
}

/// A rule's inputs are captured with the node that has it, also where the node reads the body's own alone.
#[test]
fn gradients_by_hand_of_what_a_body_captures() {
    let w = floats([3]).with_requires_grad();
    let y = composite("m", &[], &[floats([3]) + 1.0], |i| {
        vec![custom_grad(&[&i[0], &w], |x| x[0].exp(), |x, _, g| vec![None, Some(g * &x[1] * 5.0)])]
    });
    let slope = kiln::grad(&y[0].sum(..), &[&w]).remove(0);
    assert_eq!(slope.to_vec::<f32>().unwrap(), [0.0, 5.0, 10.0]);
}

/// A rule that keeps a body's own is asked outside of the body.
#[test]
fn a_rule_may_not_keep_what_is_a_bodys() {
    let x = floats([3]).with_requires_grad();
    let built = line!() + 1;
    let y = composite("m", &[], &[x.clone()], |i| {
        let kept = i[0].exp();
        vec![custom_grad(&[&i[0]], |x| x[0].exp(), move |_, _, g| vec![Some(g * &kept)])]
    });
    let slope = kiln::grad(&y[0].sum(..), &[&x]).remove(0);
    inside(slope.to_vec::<f32>(), line!(), built);
    inside(y[0].sum(..).backward(), line!(), built);
    assert!(x.grad().is_none());
}

#[derive(Debug)]
struct Same;

impl Custom for Same {
    fn name(&self) -> &str {
        "same"
    }
    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>, String> {
        Ok(vec![operands[0].clone()])
    }
    fn run_cpu(&self, operands: &[&[u8]], results: &mut [&mut [u8]]) -> Result<(), String> {
        results[0].copy_from_slice(operands[0]);
        Ok(())
    }
}

#[test]
fn a_kernel_of_a_bodys_own_is_the_bodys() {
    let mut out = None;
    let built = line!() + 1;
    let y = composite("m", &[], &[floats([3])], |i| {
        let same = kiln::custom(Arc::new(Same), i).remove(0);
        out = Some(same.to_dtype(DType::F64));
        vec![same]
    });
    assert_eq!(y[0].to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
    inside(out.expect("the body ran").to_vec::<f64>(), line!(), built);
}
