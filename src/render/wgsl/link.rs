//! Several texts as one, whose workgroups they share.
//!
//! Declarations that are equal in two texts stay one; of the others, names of the later
//! texts get a suffix. Each entry point becomes a function, which a new one calls.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use crate::kernel::{JointAlias, JointSlot};
use crate::render::joint::LinkedPasses;
use crate::render::shader::{Pass, PassBuffer};
use crate::render::target::GpuTarget;
use crate::render::wgsl::item::{Item, items, renamed};
use crate::render::wgsl::sized;

/// The binding of the uniforms.
const UNIFORMS: usize = 0;

/// Passes as one; `None` where one wants something of a launch that another does not, or the device cannot bind all
/// that they bind.
pub fn link(linked: &LinkedPasses<'_>, target: &GpuTarget) -> Option<Pass> {
    let (first, passes) = (linked.passes.first()?, linked.passes);
    let fits = |pass: &Pass| {
        pass.workgroup_size == first.workgroup_size
            && pass.dispatch_end == 0
            && pass.bindings.iter().all(|binding| binding.memory != PassBuffer::Status)
    };
    let bindings: usize = passes.iter().map(|pass| pass.bindings.len()).sum();
    if target.separate_buffers || bindings > target.max_buffers || !passes.iter().all(fits) {
        return None;
    }
    let mut module = LinkedModule::default();
    for pass in passes {
        module.add(pass, linked.aliases)?;
    }
    let main = module.main(linked)?;
    Some(linked.pass(format!("{}{}{main}", module.directives, module.text)))
}

/// A module under construction.
#[derive(Default)]
struct LinkedModule {
    /// What a module begins with.
    directives: String,
    text: String,
    /// The declarations.
    known: HashSet<String>,
    /// The names and types of the variables that stand for outputs.
    stored: HashMap<PassBuffer, (String, String)>,
    bindings: usize,
    /// By pass, what its function takes.
    parameters: Vec<Vec<Parameter>>,
}

/// A parameter of an entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parameter {
    builtin: String,
    name: String,
    ty: String,
}

impl LinkedModule {
    /// Adds a text.
    fn add(&mut self, pass: &Pass, aliases: &[JointAlias]) -> Option<()> {
        let number = self.parameters.len();
        let mut own: Vec<Item<'_>> = Vec::new();
        for item in items(&pass.source) {
            match item.name {
                None => self.add_directive(item.text),
                Some(_) => own.push(item),
            }
        }
        let mut names = self.names(&own, number);
        for alias in aliases {
            self.share(alias, pass, &mut own, &mut names)?;
        }
        for item in own {
            let name = item.name?;
            match (name, names.get(name)) {
                ("main", _) => self.add_entry(number, &item, &names)?,
                // All have the launch's uniforms.
                (_, None) if number > 0 => {}
                (_, _) => self.add_declaration(&item, &names, pass),
            }
        }
        self.bindings += pass.bindings.len();
        Some(())
    }

    fn add_directive(&mut self, text: &str) {
        if !self.directives.contains(text) {
            self.directives += &format!("{text}\n");
        }
    }

    /// New names of what a text declares otherwise than those before, or by what they declare otherwise.
    fn names(&self, items: &[Item<'_>], number: usize) -> HashMap<String, String> {
        let mut names = HashMap::new();
        if number == 0 {
            return names;
        }
        loop {
            let is_own = |item: &&Item<'_>| match item.binding() {
                Some(UNIFORMS) => false,
                Some(_) => true,
                None => {
                    let refers = || item.references().any(|word| names.contains_key(word));
                    !self.known.contains(item.text) || refers()
                }
            };
            let found: Vec<&str> = items.iter().filter(is_own).filter_map(|item| item.name).collect();
            let before = names.len();
            names.extend(found.into_iter().map(|name| (name.to_string(), format!("{name}_of_{number}"))));
            if names.len() == before {
                return names;
            }
        }
    }

    /// Lets the variable of an earlier output stand for the one of a text that is the same memory. Two would be aliases:
    /// compilers may change the order in which they are read and written.
    fn share(
        &self,
        alias: &JointAlias,
        pass: &Pass,
        items: &mut Vec<Item<'_>>,
        names: &mut HashMap<String, String>,
    ) -> Option<()> {
        let memory = match alias.slot {
            JointSlot::Input(number) => PassBuffer::Input(number),
            JointSlot::Output(number) => PassBuffer::Output(number),
        };
        let is_it = |item: &Item<'_>| {
            let binding = item.binding().filter(|&binding| binding != UNIFORMS);
            binding.is_some_and(|binding| pass.bindings[binding - 1].memory == memory)
        };
        let Some(at) = items.iter().position(is_it) else { return Some(()) };
        let (name, ty) = self.stored.get(&PassBuffer::Output(alias.output))?;
        let item = items.remove(at);
        // Of memory in pieces, only one would be replaced.
        if item.element()? != ty || items.iter().any(is_it) {
            return None;
        }
        names.insert(item.name?.to_string(), name.clone());
        Some(())
    }

    fn add_declaration(&mut self, item: &Item<'_>, names: &HashMap<String, String>, pass: &Pass) {
        let mut text = renamed(item, names);
        if let Some(binding) = item.binding().filter(|&binding| binding != UNIFORMS) {
            let (old, new) =
                (format!("@binding({binding})"), format!("@binding({})", binding + self.bindings));
            text = text.replace(&old, &new);
            self.note_output(item, names, pass.bindings.get(binding - 1).map(|bound| bound.memory));
        }
        self.text += &format!("{text}\n");
        self.known.insert(text);
    }

    /// Keeps the variable of an output for who reads it; that of its first piece is that of all of small ones.
    fn note_output(&mut self, item: &Item<'_>, names: &HashMap<String, String>, memory: Option<PassBuffer>) {
        let (Some(name), Some(ty), Some(memory)) = (item.name, item.element(), memory) else { return };
        let name = names.get(name).cloned().unwrap_or_else(|| name.to_string());
        self.stored.entry(memory).or_insert((name, ty.to_string()));
    }

    /// Adds an entry point as a function.
    fn add_entry(&mut self, number: usize, item: &Item<'_>, names: &HashMap<String, String>) -> Option<()> {
        let text = renamed(item, names);
        let (_, rest) = text.split_once("(\n")?;
        let (list, body) = rest.split_once("\n) {")?;
        let parameters = list.lines().map(parameter).collect::<Option<Vec<_>>>()?;
        let named = parameters.iter().map(|p| format!("{}: {}", p.name, p.ty)).collect::<Vec<_>>().join(", ");
        self.text += &format!("fn part_{number}({named}) {{{body}\n");
        self.parameters.push(parameters);
        Some(())
    }

    /// The entry point.
    fn main(&self, linked: &LinkedPasses<'_>) -> Option<String> {
        let size = linked.passes.first()?.workgroup_size;
        let mut builtins: Vec<&Parameter> = Vec::new();
        for parameter in self.parameters.iter().flatten() {
            if !builtins.iter().any(|known| known.builtin == parameter.builtin) {
                builtins.push(parameter);
            }
        }
        let mut text = format!("@compute @workgroup_size({size})\nfn main(\n");
        for Parameter { builtin, ty, .. } in builtins {
            let _ = writeln!(text, "    @builtin({builtin}) {builtin}: {ty},");
        }
        text += ") {\n";
        text += &if linked.are_independent() { self.one_of(linked) } else { self.all_of() };
        Some(text + "}\n")
    }

    /// Calls one of the functions: as many workgroups as it needs run each.
    fn one_of(&self, linked: &LinkedPasses<'_>) -> String {
        let mut text =
            String::from("    let number = workgroup_id.y * num_workgroups.x + workgroup_id.x;\n    ");
        let mut first = 0;
        for (number, pass) in linked.passes.iter().enumerate() {
            let count = sized::unsigned(pass.workgroups as usize);
            let group = match number {
                0 => "number".to_string(),
                _ => format!("number - {}", sized::unsigned(first)),
            };
            first += pass.workgroups as usize;
            let head = match number + 1 == linked.passes.len() {
                true => "{".to_string(),
                false => format!("if (number < {}) {{", sized::unsigned(first)),
            };
            let group = format!("vec3<u32>({group}, 0u, 0u)");
            let groups = format!("vec3<u32>({count}, num_workgroups.y, 1u)");
            let call = self.call(number, &group, &groups);
            let _ = write!(text, "{head}\n        {call}\n    }}");
            text += if number + 1 == linked.passes.len() { "\n" } else { " else " };
        }
        text
    }

    /// Calls all functions, one after the other: each invocation finds what it has stored itself.
    fn all_of(&self) -> String {
        let calls = (0..self.parameters.len())
            .map(|number| format!("    {}\n", self.call(number, "workgroup_id", "num_workgroups")));
        let between = if self.text.contains("var<workgroup>") { "    workgroupBarrier();\n" } else { "" };
        calls.collect::<Vec<_>>().join(between)
    }

    fn call(&self, number: usize, group: &str, groups: &str) -> String {
        let given = self.parameters[number].iter().map(|parameter| match &*parameter.builtin {
            "workgroup_id" => group,
            "num_workgroups" => groups,
            other => other,
        });
        format!("part_{number}({});", given.collect::<Vec<_>>().join(", "))
    }
}

/// A parameter's line.
fn parameter(line: &str) -> Option<Parameter> {
    let rest = line.trim().trim_end_matches(',').strip_prefix("@builtin(")?;
    let (builtin, rest) = rest.split_once(") ")?;
    let (name, ty) = rest.split_once(": ")?;
    Some(Parameter { builtin: builtin.into(), name: name.into(), ty: ty.into() })
}
