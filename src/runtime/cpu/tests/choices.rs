//! The ways in which a device's templates compute kernels: each gives the result, and the
//! one that was found fastest is the one that runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::attention::{heads, numbers, opts};
use crate::base::Device;
use crate::kernel::Kernel;
use crate::plan::context::{Context, with_context};
use crate::render::TemplateChoice;
use crate::runtime::Backend;
use crate::runtime::disk_cache::{entries, put};
use crate::runtime::tune::CANDIDATES;
use crate::tensor::Tensor;
use crate::tensor::conv::ConvTransposeOpts;

/// What is computed, and whether it reads at positions that are not affine.
type Case = (&'static str, bool, fn(Device) -> Tensor);

/// Kernels that run by templates, in several blocks of any size.
const CASES: &[Case] = &[
    ("attention", false, |d| {
        let [q, k, v] = heads([1, 2], [150, 130, 12, 20], d);
        q.scaled_dot_product_attention(&k, &v, opts().causal(true))
    }),
    ("transposed convolution", true, |d| {
        let opts = ConvTransposeOpts::default().padding(1).stride(2).dilation(2);
        numbers([2, 8, 7, 9], 1, d).conv_transpose2d(&numbers([8, 24, 3, 3], 2, d), None, opts)
    }),
];

/// A device that computes by templates.
pub struct Ways<'a> {
    /// It, timing nothing, with a choice made.
    pub with: &'a dyn Fn(Option<TemplateChoice>) -> Arc<dyn Backend>,
    /// It, timing, as another process would open it.
    pub timing: &'a dyn Fn() -> Arc<dyn Backend>,
    /// The ways in which a kernel runs there.
    pub choices: &'a dyn Fn(&Kernel) -> Vec<TemplateChoice>,
}

/// A kernel by a template, in a text, and what it gave.
struct Ran {
    kernel: Kernel,
    text: String,
    values: Vec<f32>,
}

fn run(backend: Arc<dyn Backend>, &(title, is_computed, computed): &Case) -> Ran {
    let (name, context) = (backend.device(), Context::new());
    context.install(backend);
    with_context(&context, || {
        let y = computed(name);
        let report = y.plan().expect("a plan");
        let of_template = |kernel: &&Kernel| kernel.contraction().is_some() || kernel.attention().is_some();
        let kernels = report.kernels.iter().filter_map(|kernel| kernel.work().kernel());
        let kernel = kernels.clone().find(of_template).expect("a kernel for a template").clone();
        let is_dynamic = kernel.exprs.iter().filter_map(|node| node.expr.load());
        let is_dynamic = is_dynamic.into_iter().any(|(_, access)| !access.dynamic.is_empty());
        assert_eq!(is_dynamic, is_computed, "{title}: {}", crate::kernel::print::text(&kernel));
        let text = report.kernels.iter().map(|kernel| kernel.source().expect("a text")).collect();
        Ran { kernel, text, values: y.to_vec().expect("the device's values") }
    })
}

/// Holds a kernel in each of its ways against the CPU's; gives the texts, all different,
/// of which the first is what runs by itself.
fn texts(ways: &Ways<'_>, case: &Case) -> Vec<String> {
    let (title, _, computed) = case;
    let want = computed(Device::cpu()).to_vec::<f32>().expect("the CPU's values");
    let plain = run((ways.with)(None), case);
    let choices = (ways.choices)(&plain.kernel);
    assert!(choices.len() > 1, "{title}: {choices:?}");
    let mut texts: Vec<String> = Vec::new();
    for choice in choices {
        let Ran { text, values, .. } = run((ways.with)(Some(choice)), case);
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 2e-5 * a.abs().max(1.0);
        let wrong = want.iter().zip(&values).position(|pair| !near(pair));
        assert_eq!(wrong.map(|at| (at, want[at], values[at])), None, "{title}: {choice:?}\n{text}");
        assert!(!texts.contains(&text), "{title}: {choice:?} is like another:\n{text}");
        texts.push(text);
    }
    assert_eq!(texts[0], plain.text, "{title}");
    texts
}

/// Each way gives what the CPU does. The one found fastest is kept in the folder of
/// compiled kernels, which a process of its own has; and what is kept there runs, and is
/// not timed again.
pub fn agree_and_the_fastest_runs(ways: &Ways<'_>, folder: &Path) {
    for case in CASES {
        let (title, _, _) = case;
        let mut texts = texts(ways, case);
        texts.truncate(CANDIDATES);
        let _ = std::fs::remove_dir_all(folder);
        let first = run((ways.timing)(), case).text;
        let choices: Vec<(String, Vec<u8>)> =
            entries(folder).into_iter().filter(|(key, _)| key.starts_with("one of ")).collect();
        let [(key, found)] = &choices[..] else { panic!("{title}: {choices:?}") };
        assert_eq!(first, texts[usize::from(found[0])], "{title}");
        let other = (usize::from(found[0]) + 1) % texts.len();
        put(folder, key, &[other as u8]);
        assert_eq!(run((ways.timing)(), case).text, texts[other], "{title}: it was timed again");
    }
}

/// The folder that this process, which is for one test, has for itself; outside of it
/// `None`, when the test has passed there.
pub fn own_folder(test: &str) -> Option<PathBuf> {
    const VARIABLE: &str = "KILN_TEST_OF_CHOICES";
    let folder = std::env::temp_dir().join(format!("kiln-choices-{}", std::process::id()));
    if let Some(folder) = std::env::var_os(VARIABLE) {
        return Some(folder.into());
    }
    let mut run = Command::new(std::env::current_exe().expect("this program"));
    run.args(["--exact", test, "--nocapture"]).env(VARIABLE, &folder).env("KILN_CACHE_DIR", &folder);
    let run = run.output().expect("this program");
    let _ = std::fs::remove_dir_all(&folder);
    let text = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && text.contains("running 1 test"), "{text}");
    None
}
