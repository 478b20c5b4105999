//! Running the cases of one operation.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::pin;
use std::task::{Context as Polled, Poll};

use kiln::tensor::Tensor;

use super::arg::Arg;
use super::array::Array;
use super::call::{Call, Outcome, Stop};
use super::compare::{Bounds, compare};
use super::manifest::{Case, Manifest, Op, Recorded, Refusal, Tolerance};
use super::ops::{self, Entry, Run};
use super::report::{OpReport, Verdict};
use super::safetensors;
use super::target::Target;

/// Runs every case of `op`, of which a file has the `arrays`.
pub async fn run(
    op: &Op,
    manifest: &Manifest,
    arrays: Result<HashMap<String, Array>, String>,
    target: Target,
) -> OpReport {
    let mut report = OpReport { name: op.name.clone(), ..OpReport::default() };
    let arrays = match arrays {
        Ok(arrays) => arrays,
        Err(error) => {
            report.forward = op.cases.iter().map(|c| (c.number, Verdict::Failed(error.clone()))).collect();
            return report;
        }
    };
    let entry = ops::find(&op.call);
    for case in &op.cases {
        let context = Context { op, case, manifest, arrays: &arrays, target };
        let (results, slopes) = match case.convention {
            true => (&mut report.conventions, None),
            false => (&mut report.forward, Some(&mut report.gradients)),
        };
        results.push((case.number, guarded(forward(&context, entry)).await));
        if !case.gradients.is_empty() {
            slopes.unwrap_or(results).push((case.number, guarded(gradients(&context, entry)).await));
        }
    }
    for (number, refusal) in op.refusals.iter().enumerate() {
        report.refusals.push((number as u64, guarded(rejected(refusal, entry, target)).await));
    }
    report
}

/// The outputs of a case, unrealized, on what `change` makes of the recorded inputs.
#[allow(dead_code, reason = "asked for by one of the programs that share the runner")]
pub async fn outputs(
    op: &Op,
    case: &Case,
    folder: &Path,
    target: Target,
    change: impl Fn(Tensor) -> Tensor,
) -> Outcome {
    let arrays = safetensors::read(&folder.join(&op.file)).map_err(Stop::Unsupported)?;
    let array = |k: usize| arrays.get(&format!("c{}.i{k}", case.number));
    let inputs: Vec<Tensor> = (0..).map_while(|k| Some(change(target.input(array(k)?, None)))).collect();
    let entry = ops::find(&op.call).ok_or_else(|| Stop::Unsupported("no such operation".into()))?;
    called(entry, &case.args, &case.keywords, &inputs, target).await
}

struct Context<'a> {
    op: &'a Op,
    case: &'a Case,
    manifest: &'a Manifest,
    arrays: &'a HashMap<String, Array>,
    target: Target,
}

/// The verdict, or that kiln panicked.
async fn guarded(body: impl Future<Output = Verdict>) -> Verdict {
    let mut body = pin!(body);
    let step = |polled: &mut Polled| {
        catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(polled))).unwrap_or_else(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or(payload.downcast_ref::<&str>().copied());
            Poll::Ready(Verdict::Panicked(text.unwrap_or("a panic without text").to_string()))
        })
    };
    poll_fn(step).await
}

async fn evaluated(target: Target, outputs: Outcome<Vec<Tensor>>) -> Outcome<Vec<Array>> {
    Ok(target.evaluate(&outputs?).await?)
}

async fn forward(context: &Context<'_>, entry: Option<&Entry>) -> Verdict {
    let outputs = built(context, entry).await.map(|(_, outputs)| outputs);
    let found = evaluated(context.target, outputs).await;
    let expected: Vec<String> = (0..context.case.outputs).map(|k| format!("o{k}")).collect();
    judged(context, found, &expected, context.case.recorded)
}

/// Compares results with the arrays of a case that they are expected to equal.
fn judged(
    context: &Context,
    found: Outcome<Vec<Array>>,
    names: &[String],
    recorded: Option<Recorded>,
) -> Verdict {
    let found = match found {
        Ok(found) => found,
        Err(Stop::Unsupported(why) | Stop::Inexpressible(why)) => return Verdict::Unsupported(why),
        Err(Stop::Refused(error)) => return Verdict::Failed(format!("refused: {error}")),
    };
    if found.len() != names.len() {
        return Verdict::Failed(format!("{} results, expected {}", found.len(), names.len()));
    }
    for (name, found) in names.iter().zip(&found) {
        let Some(expected) = context.arrays.get(&format!("c{}.{name}", context.case.number)) else {
            return Verdict::Failed(format!("{name} is not in the file"));
        };
        if let Err(why) = compare(found, expected, &bounds(context, expected, recorded)) {
            return Verdict::Failed(format!("{name}: {why}"));
        }
    }
    Verdict::Passed
}

/// The inputs and the outputs of a case, unrealized.
async fn built(context: &Context<'_>, entry: Option<&Entry>) -> Outcome<(Vec<Tensor>, Vec<Tensor>)> {
    let entry = entry.ok_or_else(|| Stop::Unsupported("no such operation".into()))?;
    if context.case.complex && !entry.complex {
        return Err(Stop::Unsupported("complex numbers".into()));
    }
    let mut inputs = inputs(context);
    for &j in &context.case.gradients {
        inputs[j] = inputs[j].clone().with_requires_grad();
    }
    let outputs = called(entry, &context.case.args, &context.case.keywords, &inputs, context.target).await?;
    Ok((inputs, outputs))
}

/// The inputs `c<n>.i0`, `c<n>.i1`, ... as far as there are any.
fn inputs(context: &Context) -> Vec<Tensor> {
    let array = |k: usize| context.arrays.get(&format!("c{}.i{k}", context.case.number));
    let strides = |k: usize| context.case.strides.get(&k).map(Vec::as_slice);
    let present = (0..).map_while(|k| Some((k, array(k)?)));
    present.map(|(k, array)| context.target.input(array, strides(k))).collect()
}

async fn called(
    entry: &Entry,
    args: &[Arg],
    keywords: &[(String, Arg)],
    inputs: &[Tensor],
    target: Target,
) -> Outcome {
    let call = Call::bind(entry.parameters, args, keywords, inputs, target)?;
    let outputs = match entry.run {
        Run::Built(run) => run(&call)?,
        Run::Awaited(run) => run(&call).await?,
    };
    call.finish()?;
    Ok(outputs)
}

/// Cases whose elements are sums that cancel: by how much the sum of the terms' magnitudes rounds.
/// PyTorch's own error in them is no bound, for it came out smaller than one such rounding by chance.
const CANCELLING: [(&str, u64, f64); 1] = [
    // The gradient of the window: magnitudes of 701 leave 1.9.
    ("stft", 5, 701.0 / (1 << 24) as f64),
];

fn bounds(context: &Context, expected: &Array, recorded: Option<Recorded>) -> Bounds {
    let usual = context.manifest.tolerances.get(&expected.dtype).copied();
    let exception = context.case.dtype.and_then(|dtype| context.op.tolerances.get(&dtype)).copied();
    let case = (context.op.name.as_str(), context.case.number);
    let cancelling = CANCELLING.iter().find(|stated| (stated.0, stated.1) == case);
    let rounded = cancelling.and_then(|stated| Some(Tolerance { absolute: stated.2, ..usual? }));
    Bounds { tolerances: [usual, exception, rounded].into_iter().flatten().collect(), recorded }
}

async fn gradients(context: &Context<'_>, entry: Option<&Entry>) -> Verdict {
    let wanted = built(context, entry).await.map(|(inputs, outputs)| {
        let place = context.target;
        let cotangents =
            outputs.iter().enumerate().map(|(k, output)| place.input(&cotangent(k, output), None));
        let cotangents: Vec<Tensor> = cotangents.collect();
        let wanted: Vec<&Tensor> = context.case.gradients.iter().filter_map(|&j| inputs.get(j)).collect();
        pulled_back(&outputs, &cotangents, &wanted)
    });
    let found = evaluated(context.target, wanted).await;
    let expected: Vec<String> = context.case.gradients.iter().map(|j| format!("g{j}")).collect();
    judged(context, found, &expected, context.case.recorded_gradients)
}

/// What the recorded gradients of output `k` start from.
fn cotangent(k: usize, output: &Tensor) -> Array {
    let value = |i: usize| ((7 * (i + 5 * k)) % 13) as f64 - 6.0;
    Array::from_fn(output.dtype(), &output.shape(), |i| value(i) / 8.0)
}

/// The gradients of `inputs`, given those of `outputs`.
fn pulled_back(outputs: &[Tensor], cotangents: &[Tensor], inputs: &[&Tensor]) -> Vec<Tensor> {
    let pairs: Vec<(&Tensor, &Tensor)> = outputs.iter().zip(cotangents).collect();
    kiln::vjp(&pairs, inputs)
}

/// Whether a call that must be rejected is: by an error when it is built or
/// computed, or because Rust's types do not let it be written.
async fn rejected(refusal: &Refusal, entry: Option<&Entry>, target: Target) -> Verdict {
    let Some(entry) = entry else { return Verdict::Unsupported("no such operation".into()) };
    let mut inputs = Vec::new();
    for (dtype, shape) in &refusal.inputs {
        let Some(dtype) = *dtype else { return Verdict::Unsupported("a dtype kiln has not".into()) };
        let values = Array::from_fn(dtype, shape, |i| ((7 * i) % 13) as f64 - 6.0);
        inputs.push(target.input(&values, None));
    }
    let outcome = called(entry, &refusal.args, &refusal.keywords, &inputs, target).await;
    match evaluated(target, outcome).await {
        Err(Stop::Refused(_) | Stop::Inexpressible(_)) => Verdict::Passed,
        Err(Stop::Unsupported(why)) => Verdict::Unsupported(why),
        Ok(_) => Verdict::Failed(format!("accepted; PyTorch says: {}", refusal.message)),
    }
}
