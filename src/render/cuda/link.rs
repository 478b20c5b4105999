//! Several texts as one, whose blocks they share: each in a namespace, its function called
//! by a new one.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::render::cuda::{ENTRY, PRELUDE};
use crate::render::joint::LinkedPasses;
use crate::render::shader::{Pass, PassBuffer};
use crate::render::target::GpuTarget;

/// Before a function's bounds, and what makes it one that another calls.
const HEAD: &str = "extern \"C\" __global__ void __launch_bounds__(";

/// Passes as one; `None` where one wants something of a launch that another does not.
pub fn link(linked: &LinkedPasses<'_>, target: &GpuTarget) -> Option<Pass> {
    let first = linked.passes.first()?;
    let bindings: usize = linked.passes.iter().map(|pass| pass.bindings.len()).sum();
    let fits = |pass: &Pass| {
        pass.workgroup_size == first.workgroup_size
            && pass.dispatch_end == 0
            && pass.tensor_maps.is_empty()
            && pass.bindings.iter().all(|binding| binding.memory != PassBuffer::Status)
    };
    if bindings > target.max_buffers || !linked.passes.iter().all(fits) {
        return None;
    }
    let mut text = String::new();
    let (mut all, mut calls) = (Vec::new(), Vec::new());
    let mut start = 0;
    for (number, pass) in linked.passes.iter().enumerate() {
        let own = Function::of(pass)?;
        let block =
            if linked.are_independent() { format!("(blockIdx.x - {start}u)") } else { "blockIdx.x".into() };
        start += pass.workgroups;
        let body = own.called().replace("blockIdx.x", &block);
        let overloaded: String = overloaded(&body).map(|name| format!("using ::{name};\n")).collect();
        let _ = write!(text, "namespace part_{number} {{\n{overloaded}{body}}}\n");
        let (pointers, rest) = own.parameters.split_at(pass.bindings.len());
        let pointers: Vec<(&str, String)> =
            pointers.iter().map(|(ty, name)| (*ty, format!("{name}_{number}"))).collect();
        let names = pointers.iter().map(|(_, name)| name.as_str()).chain(rest.iter().map(|(_, name)| *name));
        calls.push(format!("part_{number}::part({});", names.collect::<Vec<_>>().join(", ")));
        all.extend(pointers);
        if number + 1 == linked.passes.len() {
            // What every launch gives, and the arguments of all kernels: the same for each.
            all.extend(rest.iter().map(|(ty, name)| (*ty, name.to_string())));
        }
    }
    let list = all.iter().map(|(ty, name)| format!("{ty} {name}")).collect::<Vec<_>>().join(", ");
    let body = if linked.are_independent() { one_of(linked, &calls) } else { all_of(&calls) };
    let _ = write!(text, "{HEAD}{}) {ENTRY}(\n    {list}\n) {{\n{body}}}\n", first.workgroup_size);
    Some(linked.pass(text))
}

/// The functions of the prelude to which a text adds others of the name, which would hide them in its namespace.
fn overloaded(text: &str) -> impl Iterator<Item = &str> {
    let is_in_prelude = |name: &&str| functions(PRELUDE).any(|known| known == *name);
    let names: BTreeSet<&str> = functions(text).filter(is_in_prelude).collect();
    names.into_iter()
}

/// The names of the functions that a text defines.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let definitions = text.split("KILN_FUNCTION ").skip(1);
    definitions.filter_map(|definition| definition.split_once('(')?.0.split_whitespace().last())
}

/// Calls one of the functions: as many blocks as it needs run each.
fn one_of(linked: &LinkedPasses<'_>, calls: &[String]) -> String {
    let mut end = 0;
    let calls = linked.passes.iter().zip(calls).map(|(pass, call)| {
        end += pass.workgroups;
        format!("    if (blockIdx.x < {end}u) {{\n        {call}\n        return;\n    }}\n")
    });
    calls.collect()
}

/// Calls all functions, one after the other: each thread finds what it has stored itself.
fn all_of(calls: &[String]) -> String {
    let calls: Vec<String> = calls.iter().map(|call| format!("    {call}\n")).collect();
    // They share memory of a block.
    calls.join("    __syncthreads();\n")
}

/// The function of a pass.
struct Function<'t> {
    /// What comes before it.
    before: &'t str,
    /// Types and names.
    parameters: Vec<(&'t str, &'t str)>,
    /// What comes after its parameters.
    body: &'t str,
}

impl<'t> Function<'t> {
    fn of(pass: &'t Pass) -> Option<Function<'t>> {
        let (before, rest) = pass.source.split_once(HEAD)?;
        let (_, rest) = rest.split_once(&format!("{ENTRY}(\n"))?;
        let (list, body) = rest.split_once("\n) {")?;
        let parameters = list.trim().split(", ").map(|parameter| parameter.rsplit_once(' '));
        Some(Function { before, parameters: parameters.collect::<Option<_>>()?, body })
    }

    /// As a function that another calls.
    fn called(&self) -> String {
        let list: Vec<String> = self.parameters.iter().map(|(ty, name)| format!("{ty} {name}")).collect();
        format!("{}KILN_FUNCTION void part(\n    {}\n) {{{}", self.before, list.join(", "), self.body)
    }
}
