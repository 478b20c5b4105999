//! Shaders of several kernels as one launch's.
//!
//! Passes whose texts a language can link become one pass, whose workgroups they share:
//! the first so many are the first text's. Others run one after the other.

use crate::kernel::{Expr, JointAlias, JointPart, JointWork, Kernel};
use crate::render::shader::{Pass, PassBuffer, Shader};
use crate::render::split::KernelSequence;
use crate::render::target::GpuTarget;

/// Passes of different kernels that become one.
#[derive(Clone, Copy, Debug)]
pub struct LinkedPasses<'a> {
    /// Each of another kernel, in the kernels' order.
    pub passes: &'a [Pass],
    /// The memory that they share, at the elements that an invocation stores itself. With any, every workgroup is one
    /// of all passes.
    pub aliases: &'a [JointAlias],
}

impl LinkedPasses<'_> {
    /// Whether each workgroup runs one pass only.
    pub fn are_independent(&self) -> bool {
        self.aliases.is_empty()
    }

    /// Workgroups of all.
    pub fn workgroups(&self) -> u64 {
        let counts = self.passes.iter().map(|pass| pass.workgroups);
        if self.are_independent() { counts.sum() } else { counts.max().unwrap_or(0) }
    }

    /// One pass with a text that does what all do.
    pub fn pass(&self, source: String) -> Pass {
        let all = |inputs: fn(&Pass) -> &Vec<usize>| self.passes.iter().flat_map(inputs).copied().collect();
        let bindings = self.passes.iter().flat_map(|pass| &pass.bindings).copied().collect();
        let workgroup_size = self.passes.iter().map(|pass| pass.workgroup_size).max().unwrap_or(1);
        Pass {
            uniform_words: self.passes.iter().map(|pass| pass.uniform_words).max().unwrap_or(0),
            vec4_inputs: all(|pass| &pass.vec4_inputs),
            vec8_inputs: all(|pass| &pass.vec8_inputs),
            inputs_aligned_to_16: all(|pass| &pass.inputs_aligned_to_16),
            shared_bytes: self.passes.iter().map(|pass| pass.shared_bytes).max().unwrap_or(0),
            ..Pass::new(source, self.workgroups(), workgroup_size, bindings)
        }
    }
}

/// A kernel of several with all kernels' arguments, of which its own are where they are among all.
pub fn with_arguments_of(work: &JointWork, part: &JointPart<'_>) -> Kernel {
    let mut kernel = part.kernel.clone();
    kernel.args = work.kernels().map(|kernel| kernel.args).sum();
    for node in kernel.exprs.iter_mut() {
        if let Expr::Arg(number) = &mut node.expr {
            *number += part.argument as u32;
        }
    }
    kernel
}

/// The kernels' shaders by `render`, with tiles of one kind where there are such: those of the largest kernel, or of a
/// pair's second, which has more to do. Workgroups are of one size then.
///
/// # Errors
/// What `render` says.
pub fn shaders<E>(
    work: &JointWork,
    targets: &[GpuTarget],
    render: &dyn Fn(&JointPart<'_>, &GpuTarget) -> Result<Shader, E>,
) -> Result<Vec<Shader>, E> {
    let parts: Vec<JointPart<'_>> = work.parts().collect();
    let each = parts.iter().zip(targets).map(|(part, target)| render(part, target));
    let mut shaders = each.collect::<Result<Vec<_>, E>>()?;
    let leads = |number: &usize| match work.aliases.is_empty() {
        true => parts[*number].kernel.level_points(0),
        false => *number,
    };
    let tile = |shader: &Shader| Some(shader.passes.last()?.stored_tile.as_ref()?.tile);
    let Some(wanted) = (0..parts.len()).max_by_key(leads).and_then(|leader| tile(&shaders[leader])) else {
        return Ok(shaders);
    };
    for (number, shader) in shaders.iter_mut().enumerate().filter(|(_, shader)| tile(shader) != Some(wanted))
    {
        *shader = render(&parts[number], &GpuTarget { choice: Some(wanted), ..targets[number].clone() })?;
    }
    Ok(shaders)
}

/// Gives a kernel's parts the inputs and outputs that are the kernel's among all kernels'.
pub fn place(sequence: &mut KernelSequence, part: &JointPart<'_>) {
    let placed = |buffer: &mut PassBuffer| match buffer {
        PassBuffer::Input(number) => *number += part.input,
        PassBuffer::Output(number) => *number += part.output,
        PassBuffer::Scratch(_) | PassBuffer::Status => {}
    };
    for own in &mut sequence.parts {
        own.inputs.iter_mut().chain(&mut own.outputs).for_each(placed);
    }
}

/// One shader of several, whose passes are linked where `link` can.
pub fn join(
    shaders: Vec<Shader>,
    work: &JointWork,
    link: &dyn Fn(&LinkedPasses<'_>) -> Option<Pass>,
) -> Shader {
    let name = work.name();
    let (sequences, scratch) = with_own_scratch(shaders);
    let passes = match work.aliases.is_empty() {
        true => independent(sequences, link),
        false => elementwise(sequences, &work.aliases, link),
    };
    Shader { name, passes, scratch }
}

/// The passes of each, with scratch memory of their own.
fn with_own_scratch(shaders: Vec<Shader>) -> (Vec<Vec<Pass>>, Vec<usize>) {
    let mut scratch = Vec::new();
    let mut sequences = Vec::with_capacity(shaders.len());
    for mut shader in shaders {
        let first = scratch.len();
        for binding in shader.passes.iter_mut().flat_map(|pass| &mut pass.bindings) {
            if let PassBuffer::Scratch(number) = &mut binding.memory {
                *number += first;
            }
        }
        scratch.extend(shader.scratch);
        sequences.push(shader.passes);
    }
    (sequences, scratch)
}

/// The first passes of all, the second, and so on.
fn independent(sequences: Vec<Vec<Pass>>, link: &dyn Fn(&LinkedPasses<'_>) -> Option<Pass>) -> Vec<Pass> {
    let mut rest: Vec<_> = sequences.into_iter().map(Vec::into_iter).collect();
    let mut passes = Vec::new();
    loop {
        let next: Vec<Pass> = rest.iter_mut().filter_map(Iterator::next).collect();
        if next.is_empty() {
            return passes;
        }
        passes.extend(linked(next, link));
    }
}

/// Passes as few as can be, in any order: each with those it can be linked with, as many at a time as can be.
fn linked(mut passes: Vec<Pass>, link: &dyn Fn(&LinkedPasses<'_>) -> Option<Pass>) -> Vec<Pass> {
    let link = |passes: &[Pass]| link(&LinkedPasses { passes, aliases: &[] });
    let mut found = Vec::new();
    while !passes.is_empty() {
        let first = passes.remove(0);
        let (alike, others): (Vec<Pass>, Vec<Pass>) =
            passes.into_iter().partition(|pass| link(&[first.clone(), pass.clone()]).is_some());
        passes = others;
        let alike = [vec![first], alike].concat();
        let mut rest = &alike[..];
        while let Some(first) = rest.first() {
            let of = |count: usize| Some((count, link(&rest[..count])?));
            let (count, pass) = (2..=rest.len()).rev().find_map(of).unwrap_or_else(|| (1, first.clone()));
            found.push(pass);
            rest = &rest[count..];
        }
    }
    found
}

/// All passes of each after those of the one before; the last ones linked if each invocation stores the same elements
/// in both.
fn elementwise(
    sequences: Vec<Vec<Pass>>,
    aliases: &[JointAlias],
    link: &dyn Fn(&LinkedPasses<'_>) -> Option<Pass>,
) -> Vec<Pass> {
    let lasts: Vec<Pass> = sequences.iter().filter_map(|passes| passes.last().cloned()).collect();
    let tile = lasts.first().and_then(|pass| pass.stored_tile.as_ref());
    let is_alike = tile.is_some() && lasts.iter().all(|pass| pass.stored_tile.as_ref() == tile);
    let pass = if is_alike { link(&LinkedPasses { passes: &lasts, aliases }) } else { None };
    let Some(pass) = pass else { return sequences.concat() };
    let before = sequences.into_iter().map(|mut passes| {
        passes.pop();
        passes
    });
    // What comes before the last pass of a later kernel reads nothing of an earlier one's.
    independent(before.collect(), link).into_iter().chain([pass]).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kernel::{JointSlot, Workload};
    use crate::plan;
    use crate::render::shader::StoredTile;
    use crate::render::{Adapter, GpuTarget, TemplateChoice, cuda, wgsl};
    use crate::tensor::Tensor;
    use crate::tensor::testing::pattern;

    /// The kernels of products of a row, or of a pair of which the second reads the first.
    fn works(pair: Option<fn(&Tensor, &Tensor) -> Tensor>) -> Vec<Arc<Workload>> {
        let x = pattern(&[1, 256], 1);
        let [a, b, c] = [512, 512, 64].map(|n| x.matmul(&pattern(&[256, n], n)));
        let report = match pair {
            Some(of) => plan(&[&of(&a, &b)]),
            None => plan(&[&a, &b, &c]),
        };
        let kernels = report.unwrap().kernels;
        kernels.iter().map(|kernel| Arc::new(kernel.work().clone())).filter(|work| is_product(work)).collect()
    }

    fn is_product(work: &Workload) -> bool {
        work.kernel().is_some_and(|kernel| kernel.contraction().is_some())
    }

    fn rendered(work: &Workload, target: &GpuTarget) -> Vec<Pass> {
        let shader = match target.cuda.is_some() {
            true => cuda::render_work(work, target),
            false => wgsl::render_work(work, target),
        };
        shader.unwrap().unwrap().passes
    }

    fn passes(work: &Workload, target: &GpuTarget) -> usize {
        rendered(work, target).len()
    }

    fn targets() -> Vec<GpuTarget> {
        let plenty = GpuTarget { max_buffers: 16, ..GpuTarget::webgpu_default() };
        let software = GpuTarget { adapter: Adapter::Software, ..plenty.clone() };
        vec![plenty, software, GpuTarget::cuda_device((9, 0), 132), GpuTarget::cuda_device((7, 5), 30)]
    }

    #[test]
    fn products_that_need_nothing_of_each_other_share_every_pass() {
        let works = works(None);
        assert_eq!(works.len(), 3);
        for target in targets() {
            let most = works.iter().map(|work| passes(work, &target)).max().unwrap();
            let joint = Workload::Joint(JointWork::new(works.clone(), Vec::new()));
            assert_eq!(passes(&joint, &target), most, "{target:?}");
        }
    }

    #[test]
    fn a_pair_shares_its_last_pass() {
        // What follows the second sum may be so long that its tiles are smaller.
        let pairs: [fn(&Tensor, &Tensor) -> Tensor; 2] = [|a, b| a.tanh() * b, |a, b| a.silu() * b];
        let targets = targets();
        for (works, target) in
            pairs.map(|pair| works(Some(pair))).iter().flat_map(|w| targets.iter().map(move |t| (w, t)))
        {
            let [one, other] = [0, 1].map(|i| works[i].kernel().unwrap());
            let read = other.inputs.iter().position(|input| input.numel == 512).unwrap();
            let slot = JointSlot::Input(one.inputs.len() + read);
            let before = works.iter().map(|work| passes(work, target) - 1).max().unwrap();
            let aliases = vec![JointAlias { slot, output: 0 }];
            let work = Workload::Joint(JointWork::new(works.clone(), aliases));
            let joint = rendered(&work, target);
            assert_eq!(joint.len(), before + 1, "{target:?}");
            // What is one memory is one variable: two would be aliases.
            let last = joint.last().unwrap();
            let variables = last.source.matches("var<storage").count();
            assert!(target.cuda.is_some() || variables + 1 == last.bindings.len(), "{}", last.text());
        }
    }

    #[test]
    fn a_pair_of_other_tiles_shares_no_pass() {
        let pass = |points: usize| {
            let tile = TemplateChoice::Invocation([1, points]);
            let stored_tile = Some(StoredTile { extents: [1, 1, 64], tile });
            vec![Pass { stored_tile, ..Pass::new(String::new(), 1, 32, Vec::new()) }]
        };
        let aliases = [JointAlias { slot: JointSlot::Input(0), output: 0 }];
        let link = |linked: &LinkedPasses<'_>| Some(linked.pass(String::new()));
        let count = |points: [usize; 2]| elementwise(points.map(pass).to_vec(), &aliases, &link).len();
        assert_eq!([count([4, 4]), count([4, 8])], [1, 2]);
    }

    #[test]
    fn what_a_device_cannot_bind_at_once_is_several_passes() {
        let target = GpuTarget::webgpu_default();
        let joint = Workload::Joint(JointWork::new(works(None), Vec::new()));
        assert!(passes(&joint, &target) > passes(&joint, &targets()[0]));
    }
}
