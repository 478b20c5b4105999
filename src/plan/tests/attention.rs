//! Attention as one kernel, on a device that names the template: the kernel's
//! plain meaning against the composite's body, by the oracle.

use std::sync::Arc;

use crate::base::{DType, Device, Result};
use crate::ir::DeviceBuffer;
use crate::kernel::lower::attention::AttentionLimits;
use crate::kernel::print::text;
use crate::kernel::{Kernel, Workload};
use crate::plan::context::{Context, with_context};
use crate::plan::debug::describe;
use crate::runtime::cpu::{CpuBackend, reference};
use crate::runtime::{Backend, Binding, Bindings, Capabilities, MemoryStats, Program};
use crate::tensor::Tensor;
use crate::tensor::attention::AttentionOpts;
use crate::tensor::testing::{pattern, tensor};

/// The CPU, but attention is a kernel, run point by point.
#[derive(Debug)]
struct Attending(CpuBackend, Capabilities);

#[derive(Debug)]
struct PointByPoint(Workload);

impl Program for PointByPoint {
    fn source(&self) -> String {
        self.0.kernel().map(text).unwrap_or_default()
    }
    fn launch(&self, bindings: &Bindings<'_>) -> Result<()> {
        self.0.kernel().into_iter().for_each(|kernel| reference::run(kernel, bindings));
        Ok(())
    }
}

impl Backend for Attending {
    fn device(&self) -> Device {
        self.0.device()
    }
    fn capabilities(&self) -> &Capabilities {
        &self.1
    }
    fn allocate(&self, bytes: usize) -> Result<DeviceBuffer> {
        self.0.allocate(bytes)
    }
    fn upload(&self, data: &[u8]) -> Result<DeviceBuffer> {
        self.0.upload(data)
    }
    fn download(&self, buffer: &DeviceBuffer, start: usize, out: &mut [u8]) -> Result<()> {
        self.0.download(buffer, start, out)
    }
    fn copy(&self, from: Binding<'_>, to: Binding<'_>, bytes: usize) -> Result<()> {
        self.0.copy(from, to, bytes)
    }
    fn compile(&self, work: &Workload) -> Result<Arc<dyn Program>> {
        match work.kernel() {
            Some(kernel) if kernel.attention().is_some() => Ok(Arc::new(PointByPoint(work.clone()))),
            Some(_) | None => self.0.compile(work),
        }
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
    fn memory(&self) -> MemoryStats {
        self.0.memory()
    }
    fn set_memory_limit(&self, bytes: u64) {
        self.0.set_memory_limit(bytes);
    }
    fn empty_cache(&self) {
        self.0.empty_cache();
    }
}

/// A context with such a device, which has templates for gradients or has not.
fn attending(backward: bool) -> Arc<Context> {
    let context = Context::new();
    let cpu = CpuBackend::new();
    let range = AttentionLimits {
        least_rows: 1,
        few: None,
        least_work: 0,
        most_keys: usize::MAX,
        columns: usize::MAX,
        backward,
    };
    let capabilities = Capabilities { attention: Some(range), ..cpu.capabilities().clone() };
    context.install(Arc::new(Attending(cpu, capabilities)));
    context
}

/// Computes what `y` gives and holds it against the oracle; the kernels it took.
#[track_caller]
fn kernels(y: &dyn Fn() -> Tensor, tolerance: f64) -> u64 {
    let expected = Tensor::oracle(&[&y()]).expect("the oracle runs")[0].to_f64();
    let context = attending(true);
    with_context(&context, || {
        let found: Vec<f64> = y().to_dtype(DType::F64).to_vec().expect("it runs");
        for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
            assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "element {i}: {a} for {b}");
        }
    });
    context.counters().kernels_launched
}

fn opts() -> AttentionOpts {
    AttentionOpts::default()
}

#[test]
fn attention_is_one_kernel() {
    for causal in [false, true] {
        let (q, k, v) = (pattern(&[2, 3, 5, 4], 1), pattern(&[2, 3, 7, 4], 2), pattern(&[2, 3, 7, 6], 3));
        let y = || q.scaled_dot_product_attention(&k, &v, opts().causal(causal));
        assert_eq!(kernels(&y, 1e-5), 1);
    }
}

#[test]
fn operands_are_read_where_they_lie() {
    let packed = pattern(&[2, 5, 3 * 12], 1);
    let head = |i: usize| packed.narrow(2, i * 12, 12).reshape([2, 5, 3, 4]).transpose(1, 2);
    let y = || {
        let y = head(0).scaled_dot_product_attention(&head(1), &head(2), opts());
        y.transpose(1, 2).reshape([2, 5, 12]) * 2.0
    };
    assert_eq!(kernels(&y, 1e-5), 1);
}

#[test]
fn heads_share_keys_and_batches_repeat() {
    let (q, k, v) = (pattern(&[2, 6, 3, 4], 1), pattern(&[1, 2, 5, 4], 2), pattern(&[1, 2, 5, 4], 3));
    let y = || q.scaled_dot_product_attention(&k, &v, opts().enable_gqa(true));
    assert_eq!(kernels(&y, 1e-5), 1);
}

#[test]
fn masks_hide_and_add() {
    let (q, k) = (pattern(&[2, 3, 4], 1), pattern(&[2, 5, 4], 2));
    let look: Vec<f64> = (0..15).map(|i| f64::from(u8::from(i / 5 != 1 && i % 2 == 0))).collect();
    let hidden = tensor(&[3, 5], DType::Bool, &look);
    let added = pattern(&[2, 1, 5], 4);
    for mask in [hidden, added] {
        let y = || q.scaled_dot_product_attention(&k, &k, opts().mask(&mask));
        assert_eq!(kernels(&y, 1e-5), 1);
    }
}

#[test]
fn narrow_floats_are_widened_as_they_are_read() {
    let q = pattern(&[3, 4], 1).to_dtype(DType::F16);
    q.realize().expect("it runs");
    let y = || q.scaled_dot_product_attention(&q, &q, opts());
    let context = attending(true);
    assert_eq!(with_context(&context, || y().plan().expect("a plan").kernels.len()), 1);
}

#[test]
fn no_keys_and_wide_floats_are_the_body() {
    let (q, none) = (pattern(&[3, 4], 1), pattern(&[0, 4], 1));
    let expanded = |y: &Tensor| y.plan().expect("a plan").to_string();
    let context = attending(true);
    with_context(&context, || {
        let y = q.scaled_dot_product_attention(&none, &none, opts());
        assert!(!expanded(&y).contains("attention["));
        let q = q.to_dtype(DType::F64);
        assert!(!expanded(&q.scaled_dot_product_attention(&q, &q, opts())).contains("attention["));
    });
}

#[test]
fn a_long_attention_holds_no_scores() {
    let context = attending(true);
    with_context(&context, || {
        let q = pattern(&[1, 2, 512, 4], 1);
        let plan = q.scaled_dot_product_attention(&q, &q, opts()).plan().expect("a plan");
        assert!(plan.peak_bytes() < 4 * 512 * 512, "{plan}");
        let products = 2 * 512 * 512 * 2 * (4 + 4);
        assert!(plan.flops() > products && plan.flops() < 8 * products, "{plan}");
    });
}

#[test]
fn scores_that_a_gradient_by_its_body_needs_are_computed_once() {
    let context = attending(false);
    with_context(&context, || {
        let q = pattern(&[2, 8, 4], 1).with_requires_grad();
        let y = q.scaled_dot_product_attention(&q, &q, opts().causal(true));
        let ones = pattern(&[2, 8, 4], 2);
        let gradient = crate::vjp(&[(&y, &ones)], &[&q]).remove(0);
        let both = crate::plan(&[&y, &gradient]).expect("a plan");
        let text = describe(&both, 3);
        assert!(text.contains("decomposed: attention") && text.contains("needed elsewhere"), "{text}");
        let alone = describe(&crate::plan(&[&y]).expect("a plan"), 3);
        assert!(!alone.contains("decomposed"), "{alone}");
    });
}

/// Queries, keys and values to the gradients of what `opts` make of them.
fn gradients(operands: &[Tensor; 3], opts: &AttentionOpts) -> Vec<Tensor> {
    let [q, k, v] = operands.clone().map(Tensor::with_requires_grad);
    let y = q.scaled_dot_product_attention(&k, &v, opts.clone());
    let dims: Vec<usize> = y.shape().to_vec();
    crate::vjp(&[(&y, &pattern(&dims, 9))], &[&q, &k, &v])
}

/// Holds gradients against the oracle and looks at their plan: the parts of attention
/// in it, and that nothing of the scores' size is written.
#[track_caller]
fn parts(operands: &[Tensor; 3], opts: &AttentionOpts, tolerance: f64) -> Vec<&'static str> {
    let found = gradients(operands, opts);
    let expected = Tensor::oracle(&found.iter().collect::<Vec<_>>()).expect("the oracle runs");
    with_context(&attending(true), || {
        let found = gradients(operands, opts);
        let report = crate::plan(&found.iter().collect::<Vec<_>>()).expect("a plan");
        let keys = operands[1].shape()[operands[1].rank() - 2];
        let scores = operands[0].shape().numel() / operands[0].shape()[operands[0].rank() - 1] * keys;
        let kernels: Vec<&Kernel> =
            report.kernels.iter().filter_map(|kernel| kernel.work().kernel()).collect();
        let stored = kernels.iter().flat_map(|kernel| &kernel.stores).map(|store| store.numel);
        assert!(stored.max() < Some(scores), "{report}");
        for (x, expected) in found.iter().zip(&expected) {
            let x: Vec<f64> = x.to_dtype(DType::F64).to_vec().expect("it runs");
            for (i, (a, b)) in x.iter().zip(expected.to_f64()).enumerate() {
                assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "element {i}: {a} for {b}");
            }
        }
        kernels.iter().filter_map(|kernel| Some(kernel.attention()?.part.name())).collect()
    })
}

/// The kernels of a gradient; the result is one of them, for its products with the
/// gradient.
const ALL: [&str; 5] = [
    "attention log_sum",
    "attention",
    "attention gradient of q",
    "attention gradient of k",
    "attention gradient of v",
];

#[track_caller]
fn all_parts(operands: &[Tensor; 3], opts: &AttentionOpts) {
    let mut found = parts(operands, opts, 2e-5);
    let mut all = ALL;
    found.sort_unstable();
    all.sort_unstable();
    assert_eq!(found, all);
}

#[test]
fn gradients_hold_no_scores() {
    for causal in [false, true] {
        let operands = [pattern(&[2, 3, 9, 4], 1), pattern(&[2, 3, 11, 4], 2), pattern(&[2, 3, 11, 6], 3)];
        all_parts(&operands, &opts().causal(causal));
        let fewer = [pattern(&[14, 4], 1), pattern(&[11, 4], 2), pattern(&[11, 3], 3)];
        all_parts(&fewer, &opts().causal(causal).scale(0.7));
    }
}

#[test]
fn gradients_of_what_heads_and_batches_share_are_summed() {
    let q = pattern(&[2, 6, 9, 4], 1);
    for causal in [false, true] {
        let opts = opts().enable_gqa(true).causal(causal);
        for [batch, heads] in [[2, 2], [1, 2], [2, 1], [1, 1]] {
            let operands = [q.clone(), pattern(&[batch, heads, 9, 4], 2), pattern(&[2, heads, 9, 3], 3)];
            all_parts(&operands, &opts);
        }
        // Queries of fewer attentions than values, and operands of fewer axes.
        let opts = AttentionOpts::default().causal(causal);
        let q = pattern(&[1, 3, 9, 4], 1);
        all_parts(&[q, pattern(&[3, 9, 4], 2), pattern(&[2, 3, 9, 3], 3)], &opts);
    }
}

#[test]
fn gradients_of_hidden_and_shifted_scores() {
    let operands = [pattern(&[2, 6, 9, 4], 1), pattern(&[2, 2, 10, 4], 2), pattern(&[2, 2, 10, 4], 3)];
    // The second query looks nowhere.
    let look: Vec<f64> = (0..90).map(|i| f64::from(u8::from(i / 10 != 1 && i % 7 < 4))).collect();
    let hidden = tensor(&[9, 10], DType::Bool, &look);
    let added: Vec<f64> = look.iter().map(|&x| if x == 1.0 { 0.5 } else { f64::NEG_INFINITY }).collect();
    let masks = [hidden, tensor(&[9, 10], DType::F32, &added), pattern(&[2, 6, 1, 10], 4)];
    for mask in masks {
        all_parts(&operands, &opts().mask(&mask).enable_gqa(true));
    }
}

#[test]
fn a_gradient_of_the_mask_takes_the_scores() {
    let [q, k] = [pattern(&[9, 4], 1), pattern(&[9, 4], 2)];
    let made = || {
        let mask = pattern(&[9, 9], 3).with_requires_grad();
        let y = q.scaled_dot_product_attention(&k, &k, opts().mask(&mask));
        crate::vjp(&[(&y, &pattern(&[9, 4], 9))], &[&mask]).remove(0)
    };
    assert!(kernels(&made, 1e-5) > 1);
    with_context(&attending(true), || {
        let report = made().plan().expect("a plan");
        let mut kernels = report.kernels.iter().filter_map(|kernel| kernel.work().kernel());
        assert!(kernels.all(|kernel| kernel.attention().is_none()), "{report}");
    });
}

#[test]
fn a_gradient_has_a_gradient() {
    let [k, v] = [pattern(&[9, 4], 2), pattern(&[9, 3], 3)];
    let made = || {
        let q = pattern(&[9, 4], 1).with_requires_grad();
        let first = gradients(&[q.clone(), k.clone(), v.clone()], &opts().causal(true)).remove(0);
        crate::vjp(&[(&first, &pattern(&[9, 4], 5))], &[&q]).remove(0)
    };
    assert!(kernels(&made, 1e-5) > 1);
}

#[test]
fn gradients_of_narrow_floats_are_computed_in_wide_ones() {
    for dtype in [DType::F16, DType::BF16] {
        let operands = [1, 2, 3].map(|seed| {
            let x = pattern(&[9, 4], seed).to_dtype(dtype);
            x.realize().expect("it runs");
            x
        });
        with_context(&attending(true), || {
            let [q, k, v] = operands.clone().map(Tensor::with_requires_grad);
            let y = q.scaled_dot_product_attention(&k, &v, opts());
            let g = pattern(&[9, 4], 9).to_dtype(dtype);
            let found = crate::vjp(&[(&y, &g)], &[&q, &k, &v]);
            let text = crate::plan(&[&found[0]]).expect("a plan").to_string();
            assert!(text.contains("attention_backward"), "{text}");
            let wide: Vec<f64> = found[0].to_dtype(DType::F64).to_vec().expect("it runs");
            let plain = Tensor::oracle(&[&found[0]]).expect("the oracle runs")[0].to_f64();
            assert!(wide.iter().zip(&plain).all(|(a, b)| (a - b).abs() < 2e-2), "{wide:?} {plain:?}");
        });
    }
}

#[test]
fn a_training_step_of_long_attention_needs_memory_for_no_scores() {
    let peak = |backward: bool| {
        with_context(&attending(backward), || {
            let operands = [1, 2, 3].map(|seed| pattern(&[1, 2, 512, 4], seed).with_requires_grad());
            let y = operands[0].scaled_dot_product_attention(&operands[1], &operands[2], opts());
            y.sum(..).backward().expect("a gradient");
            let found: Vec<Tensor> = operands.iter().map(|x| x.grad().expect("a gradient")).collect();
            crate::plan(&found.iter().collect::<Vec<_>>()).expect("a plan").peak_bytes()
        })
    };
    let scores = 4 * 2 * 512 * 512;
    let (with, without) = (peak(true), peak(false));
    assert!(with < scores / 8 && without > scores, "{with} and {without} bytes");
}

#[test]
fn layers_that_share_a_body_have_the_plan_of_those_that_do_not() {
    let context = Context::new();
    with_context(&context, || {
        let [a, b] = [1, 2].map(|seed| pattern(&[2, 3, 4], seed));
        let at_one_line = |x: &Tensor, causal: bool| {
            x.scaled_dot_product_attention(x, x, AttentionOpts::default().causal(causal))
        };
        let at_another = |x: &Tensor| x.scaled_dot_product_attention(x, x, AttentionOpts::default());
        let built = |y: Tensor| {
            y.realize().expect("a sum of two attentions");
            context.counters().plans_built
        };
        assert_eq!(built(at_one_line(&a, false) + at_one_line(&b, false)), 1);
        assert_eq!(built(at_one_line(&a, false) + at_another(&b)), 1);
        assert_eq!(built(at_one_line(&a, false) + at_one_line(&b, true)), 2, "other bodies");
    });
}
