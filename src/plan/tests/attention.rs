//! Attention as one kernel, on a device that names the template: the kernel's
//! plain meaning against the composite's body, by the oracle.

use std::sync::Arc;

use crate::base::{DType, Device, Result};
use crate::ir::Buffer;
use crate::kernel::Work;
use crate::kernel::lower::attention::Range;
use crate::kernel::print::text;
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
struct PointByPoint(Work);

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
    fn allocate(&self, bytes: usize) -> Result<Buffer> {
        self.0.allocate(bytes)
    }
    fn upload(&self, data: &[u8]) -> Result<Buffer> {
        self.0.upload(data)
    }
    fn download(&self, buffer: &Buffer, start: usize, out: &mut [u8]) -> Result<()> {
        self.0.download(buffer, start, out)
    }
    fn copy(&self, from: Binding<'_>, to: Binding<'_>, bytes: usize) -> Result<()> {
        self.0.copy(from, to, bytes)
    }
    fn compile(&self, work: &Work) -> Result<Arc<dyn Program>> {
        match work.kernel() {
            Some(kernel) if kernel.attention.is_some() => Ok(Arc::new(PointByPoint(work.clone()))),
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

fn attending() -> Arc<Context> {
    let context = Context::new();
    let cpu = CpuBackend::new();
    let capabilities = Capabilities {
        attention: Some(Range { least_rows: 1, least_work: 0, most_keys: usize::MAX, columns: usize::MAX }),
        ..cpu.capabilities().clone()
    };
    context.install(Arc::new(Attending(cpu, capabilities)));
    context
}

/// Computes what `y` gives and holds it against the oracle; the kernels it took.
#[track_caller]
fn kernels(y: &dyn Fn() -> Tensor, tolerance: f64) -> u64 {
    let expected = Tensor::oracle(&[&y()]).expect("the oracle runs")[0].to_f64();
    let context = attending();
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
    let context = attending();
    assert_eq!(with_context(&context, || y().plan().expect("a plan").kernels.len()), 1);
}

#[test]
fn no_keys_and_wide_floats_are_the_body() {
    let (q, none) = (pattern(&[3, 4], 1), pattern(&[0, 4], 1));
    let expanded = |y: &Tensor| y.plan().expect("a plan").to_string();
    let context = attending();
    with_context(&context, || {
        let y = q.scaled_dot_product_attention(&none, &none, opts());
        assert!(!expanded(&y).contains("attention["));
        let q = q.to_dtype(DType::F64);
        assert!(!expanded(&q.scaled_dot_product_attention(&q, &q, opts())).contains("attention["));
    });
}

#[test]
fn a_long_attention_holds_no_scores() {
    let context = attending();
    with_context(&context, || {
        let q = pattern(&[1, 2, 512, 4], 1);
        let plan = q.scaled_dot_product_attention(&q, &q, opts()).plan().expect("a plan");
        assert!(plan.peak_bytes() < 4 * 512 * 512, "{plan}");
        let products = 2 * 512 * 512 * 2 * (4 + 4);
        assert!(plan.flops() > products && plan.flops() < 8 * products, "{plan}");
    });
}

#[test]
fn scores_that_a_gradient_needs_are_computed_once() {
    let context = attending();
    with_context(&context, || {
        let q = pattern(&[2, 8, 4], 1).requires_grad();
        let y = q.scaled_dot_product_attention(&q, &q, opts().causal(true));
        let ones = pattern(&[2, 8, 4], 2);
        let gradient = crate::vjp(&[(&y, &ones)], &[&q]).remove(0);
        let both = crate::plan(&[&y, &gradient]).expect("a plan");
        let text = describe(&both, 3);
        assert!(text.contains("by its body: attention") && text.contains("needed elsewhere"), "{text}");
        let alone = describe(&crate::plan(&[&y]).expect("a plan"), 3);
        assert!(!alone.contains("by its body"), "{alone}");
    });
}
