//! Functions whose graph is built once for each signature.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::{
    DType, Device, DeviceKind, Float16Rounding, Precision, Region, Scalar, Span, float16_rounding,
    float32_matmul_precision,
};
use crate::ir::history::tracking;
use crate::ir::{Composite, Node, Op, Type};
use crate::runtime::trace;
use crate::tensor::Tensor;
use crate::tensor::autocast::conversions;
use crate::tensor::compose::{CallSite, Checked};
use crate::tensor::control::{close, deeper, parameters, type_of, unwrap_all};
use crate::tensor::function_scope::{Assumption, CellInput, Dependencies, OpenScope};
use crate::tensor::place::default_device;
use crate::tensor::recent_composites::bits;

/// Graphs that a function remembers: the latest.
const REMEMBERED: usize = 8;

/// A function whose body is built once for each signature, the types of its inputs and its attributes, and is one
/// operation wherever it is called again. A graph of many equal parts, or one that is built over and over, is then
/// built in a fraction of the time. What is computed stays the same, and so do plans: the operation is replaced by
/// its body when a plan is made.
///
/// [`Var`](crate::Var)s and [`Param`](crate::nn::Param)s that the body reads are read anew on each call. Any other
/// tensor that it needs must be an input, and any number that its graph depends on an attribute: a body that
/// captures a tensor is built on each call, and one that depends on a number which is no attribute is not built
/// again when that changes. TensorFlow: `tf.function`; JAX: `jit`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::Function;
/// let (weight, double) = (Var::new(Tensor::ones([2], ())), Function::new("double"));
/// let mut built = 0;
/// let mut call = |x: &Tensor| {
///     let results = double.call(&[], &[x.clone()], |inputs| {
///         built += 1;
///         vec![&inputs[0] * weight.get() * 2.0]
///     });
///     results[0].to_vec::<f32>()
/// };
/// assert_eq!(call(&Tensor::from([1.0f32, 2.0]))?, [2.0, 4.0]);
/// weight.set(Tensor::from([3.0f32, 4.0]))?;
/// assert_eq!(call(&Tensor::from([1.0f32, 2.0]))?, [6.0, 16.0]);
/// assert_eq!(call(&Tensor::from([[1.0f32, 2.0]]))?, [6.0, 16.0]); // another type
/// assert_eq!(built, 2);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct Function {
    name: &'static str,
    built: Mutex<VecDeque<Arc<BuiltFunction>>>,
}

/// A body for a signature.
#[derive(Debug)]
struct BuiltFunction {
    site: Span,
    modes: Modes,
    composite: Arc<Composite>,
    inputs: usize,
    cells: Vec<CellInput>,
    assumptions: Vec<Assumption>,
}

/// What holds on a thread or in the process, and changes what operations build.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Modes {
    region: Region,
    observed: bool,
    tracking: bool,
    precision: Precision,
    rounding: Float16Rounding,
    conversions: Option<[Option<DType>; DeviceKind::ALL.len()]>,
    device: Device,
}

impl Modes {
    fn now() -> Modes {
        Modes {
            region: Region::current(),
            observed: trace::is_on(),
            tracking: tracking(),
            precision: float32_matmul_precision(),
            rounding: float16_rounding(),
            conversions: conversions(),
            device: default_device(),
        }
    }
}

impl Function {
    /// A function of this name, which shows in graphs.
    pub fn new(name: &'static str) -> Function {
        Function { name, built: Mutex::default() }
    }

    /// The results for some inputs. `body` is the same on each call, but for what the attributes say.
    ///
    /// Invalid where an input is, or what the body makes.
    #[track_caller]
    pub fn call(
        &self,
        attributes: &[(&'static str, Scalar)],
        inputs: &[Tensor],
        body: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
    ) -> Vec<Tensor> {
        let (site, modes) = (CallSite::here(self.name), Modes::now());
        let known = self.known(site.span, modes, attributes, inputs);
        if let Some(results) = known.and_then(|known| known.apply(inputs)) {
            return results;
        }
        let mut count = 1;
        let built = self.build(site, modes, attributes, inputs, |inputs| {
            let results = body(inputs);
            count = results.len().max(1);
            results
        });
        unwrap_all(built, count)
    }

    fn known(
        &self,
        span: Span,
        modes: Modes,
        attributes: &[(&'static str, Scalar)],
        inputs: &[Tensor],
    ) -> Option<Arc<BuiltFunction>> {
        let is_wanted = |built: &&Arc<BuiltFunction>| {
            let params = &built.composite.body.params[..built.inputs];
            (built.site, built.modes) == (span, modes)
                && params.iter().map(Some).eq(inputs.iter().map(Tensor::ty))
                && built.composite.attributes.iter().map(bits).eq(attributes.iter().map(bits))
        };
        let built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        built.iter().find(is_wanted).cloned()
    }

    fn build(
        &self,
        site: CallSite,
        modes: Modes,
        attributes: &[(&'static str, Scalar)],
        inputs: &[Tensor],
        body: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
    ) -> Checked<Vec<Tensor>> {
        let mut params = parameters(site, inputs.iter().map(type_of).collect::<Checked<Vec<Type>>>()?);
        let within = deeper(site)?;
        let scope = OpenScope::new(site, inputs.len());
        let results = body(&params);
        let Dependencies { cells, assumptions } = scope.close();
        drop(within);
        params.extend(cells.iter().map(|cell| cell.parameter().clone()));
        let (body, captures) = close(&params, &results)?;
        let built = Arc::new(BuiltFunction {
            site: site.span,
            modes,
            composite: Arc::new(Composite::new(self.name, None, attributes.to_vec(), body)),
            inputs: inputs.len(),
            cells,
            assumptions,
        });
        let results = built.results(&[built.operands(inputs), captures.clone()].concat());
        if captures.is_empty() {
            self.remember(built);
        }
        Ok(results)
    }

    fn remember(&self, built: Arc<BuiltFunction>) {
        let mut all = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_front(built);
        all.truncate(REMEMBERED);
    }
}

impl BuiltFunction {
    /// The results for inputs of the signature; `None` where cells or switches have changed.
    fn apply(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let operands = self.operands(inputs);
        let fits = operands.iter().map(Tensor::ty).eq(self.composite.body.params.iter().map(Some));
        (fits && self.assumptions.iter().all(Assumption::holds)).then(|| self.results(&operands))
    }

    fn operands(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        inputs.iter().cloned().chain(self.cells.iter().map(CellInput::now)).collect()
    }

    /// Results go by the names of what computes them.
    fn results(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let operands: Vec<&Tensor> = operands.iter().collect();
        let result = |(number, node): (u32, &Arc<Node>)| {
            let op = Op::Composite(self.composite.clone(), number);
            Tensor::apply(node.name().unwrap_or(self.composite.name), node.span(), op, &operands)
        };
        (0..).zip(&self.composite.body.results).map(result).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::nn::{Dropout, Layer, Linear, LoraOpts, ModuleExt, Sequential, add_lora};
    use crate::tensor::testing::{assert_close, f32s, pattern, values};
    use crate::tensor::var::Var;
    use crate::{Quantization, autocast, no_grad};

    /// A layer's forward pass as a function, and how often its body was built.
    fn pass(function: &Function, built: &Cell<usize>, layer: &impl Layer, x: &Tensor) -> Tensor {
        let body = |inputs: &[Tensor]| {
            built.set(built.get() + 1);
            vec![layer.forward(&inputs[0])]
        };
        function.call(&[], std::slice::from_ref(x), body).remove(0)
    }

    #[test]
    fn a_body_is_built_once_for_each_signature() {
        let (function, built) = (Function::new("sum"), Cell::new(0));
        let call = |scale: i64, x: &Tensor| {
            function.call(&[("scale", scale.into())], std::slice::from_ref(x), |inputs| {
                built.set(built.get() + 1);
                vec![&inputs[0] * scale, inputs[0].sum(..)]
            })
        };
        for x in [f32s(&[2], &[1.0, 2.0]), f32s(&[2], &[3.0, 4.0])] {
            let results = call(2, &x);
            assert_close(&results[0], &[2], &values(&(&x * 2)));
            assert_close(&results[1], &[], &values(&x.sum(..)));
        }
        assert_eq!(built.get(), 1);
        assert_close(&call(3, &f32s(&[2], &[1.0, 2.0]))[0], &[2], &[3.0, 6.0]);
        assert_eq!(built.get(), 2, "another attribute");
        assert_close(&call(3, &f32s(&[1], &[5.0]))[0], &[1], &[15.0]);
        assert_eq!(built.get(), 3, "another type");
    }

    #[test]
    fn cells_are_read_on_each_call_and_get_gradients() {
        let (layer, function, built) = (Linear::new(3, 2, ()), Function::new("linear"), Cell::new(0));
        let x = pattern(&[4, 3], 1);
        for round in 0..3 {
            layer.weight.set(&pattern(&[2, 3], round)).unwrap();
            layer.zero_grad();
            pass(&function, &built, &layer, &x).square().sum(..).backward().unwrap();
            let by_function = layer.weight.grad().unwrap();
            layer.zero_grad();
            layer.forward(&x).square().sum(..).backward().unwrap();
            assert_close(&by_function, &[2, 3], &values(&layer.weight.grad().unwrap()));
        }
        assert_eq!(built.get(), 1);
    }

    #[test]
    fn what_changes_the_graph_has_it_built_again() {
        let layer = Sequential::new().push(Linear::new(32, 32, ()));
        let (function, built) = (Function::new("linear"), Cell::new(0));
        let x = pattern(&[2, 32], 1);
        let expect = |count: usize, why: &str| {
            let (by_function, plain) = (pass(&function, &built, &layer, &x), layer.forward(&x));
            assert_eq!(by_function.dtype(), plain.dtype(), "{why}");
            assert_close(&by_function.float(), &[2, 32], &values(&plain.float()));
            assert_eq!(built.get(), count, "{why}");
        };
        expect(1, "first");
        {
            let _no_grad = no_grad();
            expect(2, "without gradients");
            let _autocast = autocast(DType::BF16);
            expect(3, "in mixed precision");
        }
        expect(3, "as before");
        layer.parameters()[0].quantize(Quantization::Q8_0).unwrap();
        expect(3, "packed numbers of the same type");
        add_lora(&layer, LoraOpts::default(), &["0"]).unwrap();
        expect(4, "an adapter beside it");
    }

    #[test]
    fn switches_are_looked_at() {
        let (layer, function, built) = (Dropout::new(0.5), Function::new("dropout"), Cell::new(0));
        let x = pattern(&[8], 1);
        layer.eval();
        assert_close(&pass(&function, &built, &layer, &x), &[8], &values(&x));
        layer.train();
        let dropped = |y: Tensor| values(&y).iter().filter(|&&y| y == 0.0).count();
        assert!((0..8).any(|_| dropped(pass(&function, &built, &layer, &x)) > 0));
        // A random key is a tensor that the body captures.
        assert!(built.get() > 1);
        layer.eval();
        assert_close(&pass(&function, &built, &layer, &x), &[8], &values(&x));
    }

    #[test]
    fn a_body_that_captures_is_right_and_built_each_time() {
        let (function, built) = (Function::new("add"), Cell::new(0));
        for number in [1.0, 2.0] {
            let captured = f32s(&[2], &[number, number]);
            let y = function.call(&[], &[f32s(&[2], &[0.0, 1.0])], |inputs| {
                built.set(built.get() + 1);
                vec![&inputs[0] + &captured]
            });
            assert_close(&y[0], &[2], &[number, number + 1.0]);
        }
        assert_eq!(built.get(), 2);
    }

    #[test]
    fn a_function_within_another_sees_the_cells_of_the_moment() {
        let (outer, inner) = (Function::new("outer"), Function::new("inner"));
        let (w, x) = (Var::new(f32s(&[2], &[1.0, 1.0])), f32s(&[2], &[1.0, 2.0]));
        let call = || {
            outer.call(&[], std::slice::from_ref(&x), |inputs| {
                let once = inner.call(&[], inputs, |inputs| vec![&inputs[0] * w.get()]);
                inner.call(&[], &once, |inputs| vec![&inputs[0] * w.get()])
            })
        };
        assert_close(&call()[0], &[2], &[1.0, 2.0]);
        w.set(f32s(&[2], &[2.0, 3.0])).unwrap();
        assert_close(&call()[0], &[2], &[4.0, 18.0]);
    }

    #[test]
    fn a_body_that_ends_early_leaves_cells_as_they_are() {
        let (function, w) = (Function::new("broken"), Var::new(f32s(&[1], &[1.0])));
        let x = f32s(&[1], &[1.0]);
        let panics = || {
            function.call(&[], std::slice::from_ref(&x), |_| {
                let _seen = w.get();
                panic!("a body's")
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_close(&w.get(), &[1], &[1.0]);
        let set = function.call(&[], std::slice::from_ref(&x), |inputs| {
            let error = w.set(&inputs[0] * 2.0).unwrap_err().to_string();
            assert!(error.starts_with("set: expected a tensor with a value"), "{error}");
            vec![w.get()]
        });
        assert_close(&set[0], &[1], &[1.0]);
        let invalid = function.call(&[], &[x], |inputs| vec![inputs[0].reshape([7])]);
        assert!(invalid[0].check().unwrap_err().to_string().contains("reshape"));
    }

    #[test]
    fn kernels_go_by_what_the_body_calls() {
        let function = Function::new("opaque");
        let y = function.call(&[], &[pattern(&[4, 8], 1)], |inputs| vec![inputs[0].softmax(-1).sqrt()]);
        let report = y[0].plan().unwrap();
        let names: Vec<&str> = report.kernels.iter().map(|kernel| &*kernel.name).collect();
        assert_eq!(names, ["softmax_sqrt"], "{report}");
        assert!(report.to_string().contains("src/tensor/function.rs"), "{report}");
    }
}
