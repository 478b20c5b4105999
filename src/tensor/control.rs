//! Structure inside the graph: loops, named operations with a body, and
//! users' own kernels.
//!
//! The closures run once, while the graph is built, on tensors that stand for
//! the parameters of a body. What they capture from outside becomes a further
//! operand (see [`crate::ir::lift`]).

use std::cell::Cell;
use std::sync::Arc;

use crate::base::depth::Deeper;
use crate::base::{DType, Device, Scalar, Shape, Span};
use crate::ir::lift::{Lifted, lift};
use crate::ir::{Body, BuiltIn, Composite, Custom, LoopSpec, Node, Op, Type};
use crate::tensor::attention::check_named;
use crate::tensor::compose::{CallSite, Checked};
use crate::tensor::{Tensor, place};

/// Bodies within each other at most, as passes and gradients go through one within the one around it.
const NESTED: usize = 64;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// One body deeper, if that is not too deep.
pub(super) fn deeper(site: CallSite) -> Checked<Deeper> {
    let too_deep = || {
        let expected = format!("loops and composites at most {NESTED} deep within each other");
        Tensor::invalid(site.error(expected, "one more", &[]))
    };
    Deeper::within(&DEPTH, NESTED).ok_or_else(too_deep)
}

/// Runs `body` for the iterations `0..trips`, inside the graph.
///
/// It maps the iteration number (rank-0 `I64`) and the carries to the next carries. The result is
/// the last carries; with no trips, the given ones.
///
/// The length is a number of one node, not a chain of nodes. Invalid when the body changes the
/// number of the carries, or a carry's shape, type or device.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::scalar(1.0, ());
/// let powers = kiln::fori_loop(5, &[x], |_, carries| vec![&carries[0] * 2.0]);
/// assert_eq!(powers[0].to_vec::<f32>()?, [32.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn fori_loop(
    trips: usize,
    carries: &[Tensor],
    body: impl FnOnce(&Tensor, &[Tensor]) -> Vec<Tensor>,
) -> Vec<Tensor> {
    loop_at(CallSite::here("fori_loop"), trips, carries, body)
}

/// Walks the leading axis of the stacked inputs `xs`, inside the graph.
///
/// `body` maps the carries and one slice of each input to the next carries and one slice of each
/// output. The results are the last carries and the stacked outputs.
///
/// Invalid when the inputs' leading extents differ or there is none, or the body changes the number
/// of the carries, or a carry's shape, type or device.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let (sum, xs) = (Tensor::scalar(0.0, ()), Tensor::from([1.0f32, 2.0, 3.0]));
/// let (last, sums) = kiln::scan(&[sum], &[xs], |carries, x| {
///     let sum = &carries[0] + &x[0];
///     (vec![sum.clone()], vec![sum])
/// });
/// assert_eq!(last[0].to_vec::<f32>()?, [6.0]);
/// assert_eq!(sums[0].to_vec::<f32>()?, [1.0, 3.0, 6.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn scan(
    carries: &[Tensor],
    xs: &[Tensor],
    body: impl FnOnce(&[Tensor], &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>),
) -> (Vec<Tensor>, Vec<Tensor>) {
    scan_at(CallSite::here("scan"), carries, xs, false, body)
}

/// [`scan`] from the last slice to the first; outputs keep their slices' places.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let (sum, xs) = (Tensor::scalar(0.0, ()), Tensor::from([1.0f32, 2.0, 3.0]));
/// let (_, sums) = kiln::scan_reverse(&[sum], &[xs], |carries, x| {
///     let sum = &carries[0] + &x[0];
///     (vec![sum.clone()], vec![sum])
/// });
/// assert_eq!(sums[0].to_vec::<f32>()?, [6.0, 5.0, 3.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn scan_reverse(
    carries: &[Tensor],
    xs: &[Tensor],
    body: impl FnOnce(&[Tensor], &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>),
) -> (Vec<Tensor>, Vec<Tensor>) {
    scan_at(CallSite::here("scan_reverse"), carries, xs, true, body)
}

/// A named operation whose meaning is what `body` computes from the inputs.
///
/// The name and the attributes show in plans and graphs. Invalid if the name is one of the
/// library's own (`"attention"`) and inputs or attributes are not what that takes.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let x = Tensor::from([1.0f32, 2.0]);
/// let y = kiln::composite("doubled", &[], &[x], |inputs| vec![&inputs[0] * 2.0]);
/// assert_eq!(y[0].to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn composite(
    name: &'static str,
    attributes: &[(&'static str, Scalar)],
    inputs: &[Tensor],
    body: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
) -> Vec<Tensor> {
    let site = CallSite::here(name);
    let checked = BuiltIn::named(name).map_or(Ok(()), |own| check_named(site, own, attributes, inputs));
    match checked {
        Ok(()) => compose(site, None, attributes, inputs, body),
        Err(invalid) => vec![invalid],
    }
}

/// A user's own kernel applied to the inputs; its `infer` says how many
/// results there are.
///
/// # Examples
/// ```
/// use kiln::unstable::ir::{Custom, Type};
/// use kiln::prelude::*;
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct Reverse;
/// impl Custom for Reverse {
///     fn name(&self) -> &str {
///         "reverse"
///     }
///     fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>, String> {
///         Ok(vec![operands[0].clone()])
///     }
///     fn run_cpu(&self, operands: &[&[u8]], results: &mut [&mut [u8]]) -> Result<(), String> {
///         let elements = operands[0].chunks_exact(4).rev();
///         results[0].chunks_exact_mut(4).zip(elements).for_each(|(to, from)| to.copy_from_slice(from));
///         Ok(())
///     }
/// }
/// let y = kiln::custom(Arc::new(Reverse), &[Tensor::from([1.0f32, 2.0])]);
/// assert_eq!(y[0].to_vec::<f32>()?, [2.0, 1.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn custom(kernel: Arc<dyn Custom>, inputs: &[Tensor]) -> Vec<Tensor> {
    let site = CallSite::here("custom");
    let operands: Vec<&Tensor> = inputs.iter().collect();
    let types: Vec<&Type> = inputs.iter().filter_map(Tensor::ty).collect();
    // Where there is no count of results, one result carries the error.
    let count = if types.len() == inputs.len() { kernel.infer(&types).map_or(1, |t| t.len()) } else { 1 };
    let apply = |n| Tensor::apply(site.name, site.span, Op::Custom(kernel.clone(), n), &operands);
    (0..count as u32).map(apply).collect()
}

/// [`fori_loop`] on behalf of an operation that knows its own site.
pub(crate) fn loop_at(
    site: CallSite,
    trips: usize,
    carries: &[Tensor],
    body: impl FnOnce(&Tensor, &[Tensor]) -> Vec<Tensor>,
) -> Vec<Tensor> {
    let repeated = repeat(site, trips, carries, &[], false, |i, carries, _| (body(i, carries), Vec::new()));
    unwrap_all(repeated.map(|(carries, _)| carries), carries.len())
}

/// A [`composite`] that is what its name says, by construction of its body.
pub(crate) fn composite_at(
    span: Span,
    built_in: BuiltIn,
    attributes: &[(&'static str, Scalar)],
    inputs: &[Tensor],
    body: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
) -> Vec<Tensor> {
    compose(CallSite { name: built_in.name(), span }, Some(built_in), attributes, inputs, body)
}

fn compose(
    site: CallSite,
    built_in: Option<BuiltIn>,
    attributes: &[(&'static str, Scalar)],
    inputs: &[Tensor],
    body: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
) -> Vec<Tensor> {
    let mut count = 1;
    let build = || -> Checked<Vec<Tensor>> {
        let params = parameters(site, inputs.iter().map(type_of).collect::<Checked<Vec<Type>>>()?);
        let within = deeper(site)?;
        let results = body(&params);
        drop(within);
        count = results.len().max(1);
        let (body, captures) = close(&params, &results)?;
        let composite = Arc::new(Composite::new(site.name, built_in, attributes.to_vec(), body));
        let operands: Vec<&Tensor> = inputs.iter().chain(&captures).collect();
        let apply = |n| Tensor::apply(site.name, site.span, Op::Composite(composite.clone(), n), &operands);
        Ok((0..results.len() as u32).map(apply).collect())
    };
    let built = build();
    unwrap_all(built, count)
}

/// The tensors, or the error in place of each of them.
pub(super) fn unwrap_all(result: Checked<Vec<Tensor>>, count: usize) -> Vec<Tensor> {
    result.unwrap_or_else(|invalid| vec![invalid; count])
}

/// [`scan`] on behalf of an operation that knows its own site.
pub(crate) fn scan_at(
    site: CallSite,
    carries: &[Tensor],
    xs: &[Tensor],
    reverse: bool,
    body: impl FnOnce(&[Tensor], &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>),
) -> (Vec<Tensor>, Vec<Tensor>) {
    let mut outputs = 0;
    let counted = |_: &Tensor, carries: &[Tensor], slices: &[Tensor]| {
        let (carries, ys) = body(carries, slices);
        outputs = ys.len();
        (carries, ys)
    };
    let result = trips(site, xs).and_then(|trips| repeat(site, trips, carries, xs, reverse, counted));
    result.unwrap_or_else(|invalid| (vec![invalid.clone(); carries.len()], vec![invalid; outputs]))
}

/// The common leading extent of the stacked inputs.
fn trips(site: CallSite, xs: &[Tensor]) -> Checked<usize> {
    let all: Vec<&Tensor> = xs.iter().collect();
    let first = xs.first().and_then(|x| x.shape().first().copied());
    let agree = first.is_some() && xs.iter().all(|x| x.shape().first().copied() == first);
    site.require(agree, &all, || {
        let shapes: Vec<String> = xs.iter().map(|x| x.shape().to_string()).collect();
        ("stacked inputs with one leading extent".into(), format!("[{}]", shapes.join(", ")))
    })?;
    Ok(first.unwrap_or(0))
}

pub(super) fn type_of(x: &Tensor) -> Checked<Type> {
    x.ty().cloned().ok_or_else(|| x.clone())
}

fn slice_type(x: &Tensor) -> Checked<Type> {
    let ty = type_of(x)?;
    Ok(ty.with_shape(&ty.shape[1..]))
}

pub(super) fn parameters(site: CallSite, types: Vec<Type>) -> Vec<Tensor> {
    let param = |(i, ty)| {
        let op = Op::Param(i as u32, ty);
        Tensor::apply(site.name, site.span, op, &[])
    };
    types.into_iter().enumerate().map(param).collect()
}

/// The closed body, and the tensors it captured.
pub(super) fn close(params: &[Tensor], results: &[Tensor]) -> Checked<(Body, Vec<Tensor>)> {
    let nodes = |tensors: &[Tensor]| -> Checked<Vec<Arc<Node>>> {
        tensors.iter().map(|t| t.node().cloned().map_err(|_| t.clone())).collect()
    };
    let Lifted { body, captures } = lift(&nodes(params)?, &nodes(results)?);
    Ok((body, captures.into_iter().map(Tensor::from_node).collect()))
}

/// The carries and the stacked outputs of a loop.
type Repeated = (Vec<Tensor>, Vec<Tensor>);

fn repeat(
    site: CallSite,
    trips: usize,
    carries: &[Tensor],
    xs: &[Tensor],
    reverse: bool,
    body: impl FnOnce(&Tensor, &[Tensor], &[Tensor]) -> Repeated,
) -> Checked<Repeated> {
    let device = carries.iter().chain(xs).map(Tensor::device).next().unwrap_or_else(place::default_device);
    let mut types = vec![iteration_type(device)];
    for carry in carries {
        types.push(type_of(carry)?);
    }
    for x in xs {
        types.push(slice_type(x)?);
    }
    let params = parameters(site, types);
    let (given, slices) = params[1..].split_at(carries.len());
    let within = deeper(site)?;
    let (next, ys) = body(&params[0], given, slices);
    drop(within);
    check_carries(site, carries, &next)?;
    let results: Vec<Tensor> = next.into_iter().chain(ys).collect();
    let (mut body, invariants) = close(&params, &results)?;
    let operands: Vec<&Tensor> = carries.iter().chain(xs).chain(&invariants).collect();
    if operands.iter().any(|x| x.peek().is_some_and(|node| node.is_tracked())) {
        // Gradients ask for every carry that an iteration began with. Nobody
        // else does, and a result that nobody asks for costs nothing.
        body.results.extend(given.iter().filter_map(|carry| carry.peek().cloned()));
    }
    let spec = Arc::new(LoopSpec { body, trips, carries: carries.len(), stacked: xs.len(), reverse });
    let apply = |n| Tensor::apply(site.name, site.span, Op::Loop(spec.clone(), n as u32), &operands);
    let mut all: Vec<Tensor> = (0..results.len()).map(apply).collect();
    let ys = all.split_off(carries.len());
    Ok((all, ys))
}

fn iteration_type(device: Device) -> Type {
    Type::new(Shape::scalar(), DType::I64, device)
}

fn check_carries(site: CallSite, given: &[Tensor], next: &[Tensor]) -> Checked<()> {
    let all: Vec<&Tensor> = next.iter().collect();
    site.require(next.len() == given.len(), &all, || {
        (format!("{} carries from the body", given.len()), next.len().to_string())
    })?;
    for (i, (given, next)) in given.iter().zip(next).enumerate() {
        site.require(given.ty() == next.ty(), &[given, next], || {
            (format!("carry {i} to stay {}", describe(given)), describe(next))
        })?;
    }
    Ok(())
}

fn describe(x: &Tensor) -> String {
    format!("{} {} on {}", x.dtype(), x.shape(), x.device())
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::base::Span;
    use crate::tensor::testing::{assert_close, error_text, f32s, i64s, pattern, values};

    #[test]
    fn a_loop_repeats_its_body() {
        let (x, step) = (f32s(&[2], &[1.0, 2.0]), f32s(&[2], &[0.5, 1.0]));
        let twice = |trips| {
            fori_loop(trips, slice::from_ref(&x), |i, carries| vec![&carries[0] * 2.0 + &step * i]).remove(0)
        };
        assert_close(&twice(3), &[2], &[1.0 * 8.0 + 0.5 * 4.0, 2.0 * 8.0 + 1.0 * 4.0]);
        assert_close(&twice(0), &[2], &[1.0, 2.0]);
    }

    #[test]
    fn a_scan_stacks_outputs_and_may_go_backwards() {
        let (zero, xs) = (f32s(&[], &[0.0]), f32s(&[4], &[1.0, 2.0, 3.0, 4.0]));
        let running = |c: &[Tensor], x: &[Tensor]| {
            let sum = &c[0] + &x[0];
            (vec![sum.clone()], vec![sum])
        };
        let (last, sums) = scan(slice::from_ref(&zero), slice::from_ref(&xs), running);
        assert_close(&last[0], &[], &[10.0]);
        assert_close(&sums[0], &[4], &[1.0, 3.0, 6.0, 10.0]);
        let (_, sums) = scan_reverse(&[zero], &[xs], running);
        assert_close(&sums[0], &[4], &[10.0, 9.0, 7.0, 4.0]);
    }

    #[test]
    fn captures_become_operands_and_index_arithmetic_does_not() {
        let (x, w, scale) = (pattern(&[3, 3], 1), pattern(&[3, 3], 2), f32s(&[], &[2.0]));
        let site = CallSite::here("test");
        let weight = site.transpose(&w, 0, 1);
        let rows = site.iota_along(3, 0, 2, DType::I64, Device::cpu());
        let columns = site.iota_along(3, 1, 2, DType::I64, Device::cpu());
        let mask = site.lt(&columns, &rows);
        let out = composite("masked", &[], slice::from_ref(&x), |inputs| {
            let y = inputs[0].matmul(&weight);
            vec![site.select(&mask, y, &scale, DType::F32)]
        });
        let Op::Composite(composite, 0) = out[0].node().unwrap().op().clone() else { panic!() };
        // The leaf below the view and the single element; not the mask.
        assert_eq!(composite.body.params.len(), 3);
        let plain = site.select(&mask, x.matmul(&weight), &scale, DType::F32);
        assert_close(&out[0], &[3, 3], &values(&plain));
    }

    #[test]
    fn random_keys_stay_run_time_arguments() {
        let key = Op::Arg(Scalar::Int(7), DType::I64, Device::cpu());
        let key = Tensor::apply("key", Span::caller(), key, &[]);
        let out = composite("keyed", &[], &[i64s(&[2], &[1, 2])], |inputs| vec![&inputs[0] + &(&key * 2)]);
        let operands = out[0].node().unwrap().operands().clone();
        assert!(matches!(operands[1].op(), Op::Arg(..)));
        assert_close(&out[0], &[2], &[15.0, 16.0]);
    }

    #[test]
    fn bodies_nest() {
        let x = f32s(&[2], &[1.0, 3.0]);
        let out = fori_loop(2, slice::from_ref(&x), |i, outer| {
            fori_loop(3, outer, |j, inner| vec![&inner[0] + &x + &(i * 10 + j)])
        });
        let rounds: f64 = (0..2).flat_map(|i| (0..3).map(move |j| f64::from(10 * i + j))).sum();
        assert_close(&out[0], &[2], &[1.0 + 6.0 + rounds, 3.0 + 18.0 + rounds]);
    }

    #[test]
    fn a_deep_captured_graph_does_not_overflow_the_stack() {
        let mut x = f32s(&[1], &[0.0]);
        for _ in 0..200_000 {
            x = x + 1.0;
        }
        let out = fori_loop(2, &[f32s(&[1], &[0.0])], |_, c| vec![&c[0] + &x]);
        let Op::Loop(spec, 0) = out[0].node().unwrap().op().clone() else { panic!() };
        assert_eq!(spec.body.params.len(), 3);
    }

    #[test]
    fn errors_flow_out_of_the_body() {
        let x = f32s(&[2], &[1.0, 2.0]);
        let bad = fori_loop(2, slice::from_ref(&x), |_, c| vec![c[0].matmul(&pattern(&[3, 3], 0))]);
        assert!(error_text(&bad[0]).starts_with("matmul:"));
        let bad = fori_loop(2, slice::from_ref(&x), |i, _| vec![i.clone()]);
        assert!(error_text(&bad[0]).contains("carry 0 to stay f32 [2] on cpu, found i64 []"));
        let bad = fori_loop(2, slice::from_ref(&x), |_, _| vec![]);
        assert!(error_text(&bad[0]).contains("1 carries"));
        let (bad, ys) = scan(&[], &[x.clone(), pattern(&[3], 0)], |_, s| (vec![], s.to_vec()));
        assert!(bad.is_empty() && ys.is_empty());
        let (bad, _) = scan(slice::from_ref(&x), &[x.clone(), pattern(&[3], 0)], |c, _| (c.to_vec(), vec![]));
        assert!(error_text(&bad[0]).contains("one leading extent"));
    }

    #[derive(Debug)]
    struct Doubler;

    impl Custom for Doubler {
        fn name(&self) -> &str {
            "doubler"
        }
        fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>, String> {
            match operands {
                [ty] if ty.dtype == DType::U8 => Ok(vec![(*ty).clone()]),
                _ => Err("one u8 tensor".into()),
            }
        }
        fn run_cpu(&self, operands: &[&[u8]], results: &mut [&mut [u8]]) -> Result<(), String> {
            for (y, x) in results[0].iter_mut().zip(operands[0]) {
                *y = 2 * x;
            }
            Ok(())
        }
    }

    #[test]
    fn a_custom_kernel_infers_and_runs() {
        let x = crate::tensor::testing::tensor(&[3], DType::U8, &[1.0, 2.0, 3.0]);
        assert_close(&custom(Arc::new(Doubler), &[x])[0], &[3], &[2.0, 4.0, 6.0]);
        assert!(error_text(&custom(Arc::new(Doubler), &[f32s(&[1], &[1.0])])[0]).contains("one u8 tensor"));
    }
}
