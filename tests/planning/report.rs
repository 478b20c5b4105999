//! What a plan says of itself: transfers, lines, memory, why things stay apart.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use kiln::nn::{Layer, Linear, ModuleExt, Relu, Sequential};
use kiln::plan::report::BlockKind;
use kiln::prelude::*;
use kiln::unstable::render::{self, Unsupported};
use kiln::unstable::runtime::Capabilities;
use kiln::unstable::runtime::null::{CAPABILITIES, NullBackend};
use kiln::{
    Context, Device, FusionBlocker, GpuTarget, assert_kernels, assert_peak_bytes, context, with_context,
};

fn leaf<const N: usize>(dims: [usize; N], device: Device) -> Tensor {
    let x = Tensor::from_vec(vec![0.5f32; dims.iter().product()], dims, device);
    x.realize().expect("memory for a test");
    x
}

fn separation(report: &PlanReport, a: &Tensor, b: &Tensor) -> Option<FusionBlocker> {
    report.why_not_fused(a, b).expect("valid tensors")
}

#[test]
fn planning_runs_and_compiles_nothing() {
    with_context(&Context::new(), || {
        let x = leaf([8, 8], Device::cpu());
        let before = context().counters();
        let y = x.softmax(-1);
        assert_kernels!(y, 1);
        assert!(!y.is_realized());
        let after = context().counters();
        assert_eq!(after.kernels_compiled, before.kernels_compiled);
        assert_eq!(after.kernels_launched, before.kernels_launched);
        assert!(y.plan().unwrap().kernels[0].source().unwrap().len() > 20);
        y.realize().unwrap();
        assert_kernels!(y, 0);
        assert!(y.plan().unwrap().to_string().contains("nothing to run"));
    });
}

#[test]
fn meta_tensors_of_any_size_are_planned() {
    with_context(&Context::new(), || {
        let x = Tensor::empty([1_000_000, 1_000_000], Device::meta());
        let y = x.matmul(&x).relu();
        let report = y.plan().unwrap();
        assert_kernels!(report, 1);
        // The input and the result.
        assert_peak_bytes!(report, == 8_000_000_000_000);
        assert!(report.kernels[0].source().unwrap().contains("level 0"));
        assert!(report.flops() >= 2_000_000_000_000_000_000, "{report}");
        assert!(y.realize().is_err());
    });
}

#[test]
fn work_on_an_operand_of_a_product_counts_once_an_element() {
    with_context(&Context::new(), || {
        let [x, y] = [[8, 16], [16, 32]].map(|dims| leaf(dims, Device::cpu()));
        let product = 2 * 8 * 16 * 32;
        assert_eq!((&x * &x).matmul(&y).plan().unwrap().flops(), product + 8 * 16);
        let q = x.reshape([1, 8, 16]);
        let attention = |q: &Tensor| {
            q.scaled_dot_product_attention(
                &x.reshape([1, 8, 16]),
                &x.reshape([1, 8, 16]),
                AttentionOpts::default(),
            )
        };
        let [plain, turned] = [attention(&q), attention(&(&q * &q))].map(|y| y.plan().unwrap());
        assert_kernels!(turned, 1);
        assert_eq!(turned.flops(), plain.flops() + 8 * 16);
    });
}

#[test]
fn a_plan_is_checked_against_limits_without_a_device_of_that_kind() {
    with_context(&Context::new(), || {
        let cpu = Device::cpu();
        let check = |y: &Tensor, limits: &GpuTarget| y.plan().unwrap().check(limits);
        let (webgpu, downlevel) = (GpuTarget::webgpu_default(), GpuTarget::downlevel());
        let x = leaf([64, 64], cpu);
        assert_eq!(check(&(&x * 2.0).softmax(-1), &webgpu), [], "everywhere");

        let line = line!() + 1;
        let wide = x.to_dtype(DType::F64).sum(..);
        let [found] = &check(&wide, &webgpu)[..] else { panic!("one kernel has 64-bit floats") };
        assert!(matches!(found.reason, Unsupported::Type { dtype: DType::F64, instead: DType::F32, .. }));
        assert_eq!((found.kernel, found.at.map(|at| at.line())), (Some(0), Some(line)));
        assert!(found.to_string().contains("SHADER_F64"), "{found}");
        assert_eq!(check(&wide, &GpuTarget::software()), []);

        let sum = (0..5).fold(x.clone(), |sum, _| sum + leaf([64, 64], cpu));
        assert_eq!(check(&sum, &webgpu), []);
        let [found] = &check(&sum, &downlevel)[..] else { panic!("one kernel has seven buffers") };
        assert_eq!(found.reason, Unsupported::Bindings { found: 7, limit: 4 });

        let large = Tensor::zeros([100 << 20], cpu) + x.i((0, 0));
        let [found] = &check(&large, &webgpu)[..] else { panic!("400 MiB are too many") };
        assert_eq!(found.reason, Unsupported::Buffer { bytes: 400 << 20, limit: 256 << 20 });
    });
}

/// Planned for a device with a template, and for one without: there its scores
/// are written, which must be possible.
#[test]
fn attention_is_checked_as_what_it_would_be_on_a_device() {
    let context = Context::new();
    let attention =
        render::attention::range(&GpuTarget { compile_bound_elements: 0, ..GpuTarget::software() });
    context.install(Arc::new(NullBackend::new(Capabilities { attention, ..CAPABILITIES })));
    with_context(&context, || {
        let q = leaf([8, 256, 16], Device::null());
        let report = q.scaled_dot_product_attention(&q, &q, AttentionOpts::default()).plan().unwrap();
        assert_kernels!(report, 1);
        let without = GpuTarget { subgroup: 0, ..GpuTarget::software() };
        for limits in [GpuTarget::webgpu_default(), GpuTarget::downlevel(), without.clone()] {
            assert_eq!(report.check(&limits), []);
        }
        let scores = 8 * 256 * 256 * 4;
        let [found] = &report.check(&GpuTarget { max_buffer: scores - 1, ..without })[..] else {
            panic!("its scores have no room")
        };
        assert_eq!(found.reason, Unsupported::Buffer { bytes: scores, limit: scores - 1 });
        let small = GpuTarget { max_buffer: scores - 1, ..GpuTarget::webgpu_default() };
        assert_eq!(report.check(&small), [], "they need no room");
    });
}

#[test]
fn a_device_that_is_not_there_is_planned_for_but_does_not_run() {
    with_context(&Context::new(), || {
        let x = leaf([16, 16], Device::cpu());
        let line = line!() + 1;
        let y = (x.to(Device::cuda(0)) * 2.0).exp().to(Device::cpu()) + 1.0;
        let report = y.plan().unwrap();
        let transfers: Vec<_> =
            report.transfers.iter().map(|t| (t.from, t.to, t.bytes, t.at.line())).collect();
        let (cpu, cuda) = (Device::cpu(), Device::cuda(0));
        assert_eq!(transfers, [(cpu, cuda, 1024, line), (cuda, cpu, 1024, line)]);
        assert_kernels!(report, 2);
        assert!(y.realize().is_err());
    });
}

#[test]
fn what_two_lines_ask_for_counts_for_the_first() {
    with_context(&Context::new(), || {
        let x = leaf([10], Device::cpu());
        let one = &x + 1.0;
        let other = &x + 1.0;
        let line = line!() - 2;
        let plan = (one * other).tanh().plan().unwrap();
        let lines: Vec<u32> = plan.kernels[0].lines.iter().map(|at| at.line()).collect();
        assert!(lines.contains(&line) && !lines.contains(&(line + 1)), "{line} in {lines:?}");
    });
}

#[test]
fn lines_are_those_of_the_graph_asked_about() {
    with_context(&Context::new(), || {
        let x = leaf([10], Device::cpu());
        let first = (&x + 1.0).tanh();
        let again = (&x + 1.0).tanh();
        let line = line!() - 2;
        let (a, b) = (first.plan().unwrap(), again.plan().unwrap());
        assert_eq!(context().counters().plans_built, 1);
        assert_eq!((a.kernels[0].at.line(), b.kernels[0].at.line()), (line, line + 1));
        assert!(a.kernels[0].at.file().ends_with("report.rs"));
    });
}

#[test]
fn an_index_out_of_range_names_the_line_that_used_it() {
    with_context(&Context::new(), || {
        let x = leaf([4], Device::cpu());
        let pick = |i: i64| Tensor::from_vec(vec![i], [1], ());
        let good = x.gather(0, &pick(2));
        let bad = x.gather(0, &pick(9));
        let line = line!() - 1;
        good.realize().unwrap();
        let error = bad.realize().unwrap_err().to_string();
        assert_eq!(context().counters().plans_built, 1);
        assert!(error.contains(&format!("report.rs:{line}")) && error.contains("index 9"), "{error}");
    });
}

#[test]
fn peak_memory_is_what_the_device_sees() {
    for shape in [[64usize, 64], [100, 30]] {
        with_context(&Context::new(), || {
            let x = leaf(shape, Device::null());
            let y = x.matmul(&x.t()).softmax(0).matmul(&x).sum(0);
            let report = y.plan().unwrap();
            y.realize().unwrap();
            let seen = context().backend(Device::null()).unwrap().memory().peak;
            assert_peak_bytes!(report, == seen);
        });
    }
}

#[test]
fn an_update_needs_no_memory_where_nobody_holds_the_old_value() {
    with_context(&Context::new(), || {
        let n = 1000u64;
        let (w, g) = (Var::new(leaf([1000], Device::null())), leaf([1000], Device::null()));
        context().backend(Device::null()).unwrap().set_memory_limit(2 * 4 * n);
        for _ in 0..3 {
            w.set(w.get() * 0.9 + &g).unwrap();
            assert_peak_bytes!(w, == 2 * 4 * n);
            w.realize().unwrap();
        }
        let held = w.get();
        w.set(w.get() * 0.9 + &g).unwrap();
        assert_peak_bytes!(w, == 3 * 4 * n);
        let error = w.realize().unwrap_err().to_string();
        assert!(held.is_realized() && error.contains("out of memory"), "{error}");
    });
}

#[test]
fn blockers_are_named() {
    with_context(&Context::new(), || {
        let (x, w) = (leaf([64, 64], Device::cpu()), leaf([64, 64], Device::cpu()));
        let product = x.matmul(&w);
        let squared = product.matmul(&w);
        let (sorted, shifted) = (squared.sort(-1, false).0, &squared + 1.0);
        let unrelated = leaf([7], Device::cpu()).exp();
        let report = kiln::plan(&[&sorted, &shifted, &unrelated]).unwrap();
        assert_eq!(separation(&report, &shifted, &sorted), None);
        let shared = separation(&report, &squared, &shifted).unwrap().to_string();
        assert!(shared.contains("read by 2 kernels"), "{shared}\n{report}");
        let blocked = separation(&report, &product, &squared).unwrap().to_string();
        assert!(blocked.contains("contraction"), "{blocked}");
        let blocked = separation(&report, &product, &sorted).unwrap().to_string();
        assert!(blocked.contains("contraction"), "{blocked}\n{report}");
        assert_eq!(separation(&report, &unrelated, &shifted), Some(FusionBlocker::Unrelated));
        assert_eq!(separation(&report, &x, &shifted), Some(FusionBlocker::InMemory));
        let stranger = &x + 3.0;
        assert_eq!(separation(&report, &stranger, &shifted), Some(FusionBlocker::NotPlanned));
    });
}

#[test]
fn an_operand_stored_by_the_kernel_before_a_product_says_so() {
    with_context(&Context::new(), || {
        let (x, w) = (leaf([64, 64], Device::cpu()), leaf([64, 64], Device::cpu()));
        let active = x.matmul(&w).relu();
        let product = active.matmul(&w);
        let report = product.plan().unwrap();
        let apart = separation(&report, &active, &product).unwrap().to_string();
        assert!(apart.contains("kernel before it computes it once"), "{apart}\n{report}");
    });
}

#[test]
fn a_value_computed_in_several_kernels_is_listed() {
    with_context(&Context::new(), || {
        let x = leaf([32, 48], Device::cpu());
        let y = &x + 1.0;
        let both = [&y.sum(0), &y.sum(1)];
        let report = kiln::plan(&both).unwrap();
        let twice = report.recomputed.iter().find(|value| value.name == "add");
        assert_eq!(twice.map(|value| value.times), Some(2), "{report}");
    });
}

#[test]
fn the_drawing_has_a_cluster_for_each_step() {
    with_context(&Context::new(), || {
        let x = leaf([8, 8], Device::cpu());
        let report = x.matmul(&x).softmax(-1).plan().unwrap();
        let dot = report.to_dot();
        assert_eq!(dot.matches("subgraph cluster_").count(), report.kernels.len());
        assert_eq!(dot.matches('{').count(), dot.matches('}').count());
        assert!(dot.contains("exp") && dot.contains("in_0"), "{dot}");
    });
}

#[test]
fn a_failing_assertion_prints_the_plan() {
    let x = leaf([8], Device::cpu());
    let fails = std::panic::catch_unwind(AssertUnwindSafe(|| assert_kernels!(x.exp(), 2)));
    let text = *fails.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("expected 2 kernels, found 1") && text.contains("reads"), "{text}");
}

#[test]
fn mistakes_come_out_of_planning() {
    let wrong = leaf([3], Device::cpu()) + leaf([4], Device::cpu());
    assert!(wrong.plan().unwrap_err().to_string().contains("report.rs"));
}

#[test]
fn equal_layers_are_listed_once() {
    let w = Tensor::ones([64, 64], Device::null());
    let x = Tensor::ones([8, 64], Device::null());
    kiln::realize(&[&w, &x]).expect("memory");
    let y = (0..12).fold(x, |x, _| x.matmul(&w).tanh());
    let text = y.plan().expect("a plan").to_string();
    assert!(text.contains(".. and this kernel 11 times more") && text.contains("12 kernels"), "{text}");
}

#[test]
fn kernels_are_named_by_what_the_user_called() {
    let x = Tensor::ones([4, 8], Device::null());
    x.realize().expect("memory");
    let names = |y: &Tensor| -> Vec<String> {
        y.plan().expect("a plan").kernels.iter().map(|kernel| kernel.name.clone()).collect()
    };
    assert_eq!(names(&((&x * 2.0 + 1.0).gelu().softmax(-1))), ["mul_add_gelu_softmax"]);
    assert_eq!(names(&Tensor::randn([4], Device::null())), ["randn"]);
    assert_eq!(names(&x.layer_norm([8], NormOpts::default()).relu()), ["layer_norm_relu"]);
    let w = Tensor::from_vec(vec![1.0f32, 2.0], [2], ()).with_requires_grad();
    let gradient = kiln::grad(&(&w * &w).sum(..), &[&w]).remove(0);
    assert_eq!(names(&gradient), ["grad_add"]);
}

#[test]
fn blocks_have_the_names_by_which_the_outermost_model_knows_its_parameters() -> kiln::Result<()> {
    let net = Sequential::new().push(Linear::new(4, 8, ())).push(Relu).push(Linear::new(8, 2, ()));
    let whole = Sequential::new().push(net);
    let names = || -> kiln::Result<Vec<String>> {
        let x = Tensor::ones([1, 4], ()).realize()?.clone();
        let blocks = whole.forward(&x).plan()?.memory_blocks();
        let parameters = blocks.into_iter().filter(|block| block.kind == BlockKind::Parameter);
        let mut names: Vec<String> = parameters.map(|block| block.name).collect();
        names.sort();
        Ok(names)
    };
    whole.parameters().iter().try_for_each(|param| param.get().realize().map(|_| ()))?;
    let expected = ["0.0.bias", "0.0.weight", "0.2.bias", "0.2.weight"];
    assert_eq!(names()?, expected);
    // Who looks at a part of it changes nothing.
    assert_eq!(whole.get::<Sequential>(0).map(|part| part.named_parameters().len()), Some(4));
    assert_eq!(names()?, expected);
    let loss = whole.forward(&Tensor::ones([3, 4], ())).square().sum(..);
    loss.backward()?;
    let blocks = loss.plan()?.memory_blocks();
    let gradients = blocks.iter().filter(|block| block.kind == BlockKind::Gradient);
    let inside = gradients.flat_map(|block| std::iter::once(block).chain(block.parts()));
    let inside: Vec<&str> = inside.map(|block| block.name.as_str()).collect();
    for name in expected {
        assert!(inside.contains(&&*format!("gradient of {name}")), "{name}: {inside:?}");
    }
    Ok(())
}
