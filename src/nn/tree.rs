//! A module as text: a tree of its parts with their shapes and numbers of elements.

use std::fmt::{self, Display, Write as _};

use crate::nn::module::{Module, Visitor};
use crate::nn::param::{Buffer, Param, Training};
use crate::plan::report::grouped;

/// What [`ModuleExt::tree`](crate::nn::ModuleExt::tree) found; prints a line a module.
///
/// A parameter that is in two places counts once in the first line, and in each of the two.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The module's type, without path and parameters.
    pub kind: String,
    /// Parameters and buffers of its own, with shapes.
    pub tensors: Vec<String>,
    /// Elements of all parameters in it.
    pub params: usize,
    /// The modules inside, by name.
    pub children: Vec<(String, Tree)>,
}

/// The tree of a module.
pub(crate) fn tree<M: Module + ?Sized>(module: &M) -> Tree {
    grown(module).0
}

/// The tree of a module, and the parameters counted in it.
fn grown<M: Module + ?Sized>(module: &M) -> (Tree, Vec<Param>) {
    let tree = Tree { kind: short(module.kind()), tensors: Vec::new(), params: 0, children: Vec::new() };
    let mut grower = Grower { tree, seen: Vec::new() };
    module.visit(&mut grower);
    (grower.tree, grower.seen)
}

/// A type's name without its path and parameters.
fn short(name: &str) -> String {
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name).to_string()
}

struct Grower {
    tree: Tree,
    /// The parameters counted in this module.
    seen: Vec<Param>,
}

impl Grower {
    /// Counts a parameter, once.
    fn count(&mut self, param: &Param) {
        if !self.seen.iter().any(|known| known.ptr_eq(param)) {
            self.tree.params += param.shape().numel();
            self.seen.push(param.clone());
        }
    }
}

impl Visitor for Grower {
    fn param(&mut self, name: &str, param: &Param) {
        let packed =
            param.quantized().map_or(String::new(), |packed| format!(" {}", packed.quantization().name()));
        self.tree.tensors.push(format!("{name} {}{packed}", param.shape()));
        self.count(param);
    }
    fn buffer(&mut self, name: &str, buffer: &Buffer) {
        self.tree.tensors.push(format!("{name} {} (buffer)", buffer.get().shape()));
    }
    fn training(&mut self, _training: &Training) {}
    fn child(&mut self, name: &str, module: &dyn Module) {
        let (child, seen) = grown(module);
        seen.iter().for_each(|param| self.count(param));
        self.tree.children.push((name.to_string(), child));
    }
}

/// One line of the text: what stands left, and the number of parameters.
struct Row {
    left: String,
    params: usize,
    tensors: String,
}

impl Tree {
    fn lines(&self, label: String, indent: &str, lines: &mut Vec<Row>) {
        lines.push(Row { left: label, params: self.params, tensors: self.tensors.join(", ") });
        let runs = runs(&self.children);
        for (number, (name, child)) in runs.iter().enumerate() {
            let last = number + 1 == runs.len();
            let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let label = format!("{indent}{branch}{name}: {}", child.kind);
            child.lines(label, &format!("{indent}{below}"), lines);
        }
    }
}

/// The children, neighbours that are the same under one name: `0 to 11, each`.
fn runs(children: &[(String, Tree)]) -> Vec<(String, &Tree)> {
    let same = |a: &(String, Tree), b: &(String, Tree)| a.1 == b.1;
    let named = |run: &'_ [(String, Tree)]| match run {
        [one] => one.0.clone(),
        [first, .., last] => format!("{} to {}, each", first.0, last.0),
        [] => String::new(),
    };
    children.chunk_by(same).map(|run| (named(run), &run[0].1)).collect()
}

impl Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        self.lines(self.kind.clone(), "", &mut lines);
        let left = lines.iter().map(|line| line.left.chars().count()).max().unwrap_or(0);
        let counts: Vec<String> = lines.iter().map(|line| grouped(line.params as u64)).collect();
        let right = counts.iter().map(String::len).max().unwrap_or(0);
        let mut text = String::new();
        for (line, count) in lines.iter().zip(&counts) {
            let row = format!("{:<left$}  {count:>right$}  {}", line.left, line.tensors);
            writeln!(text, "{}", row.trim_end())?;
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use crate::nn::{Linear, ModuleExt, Relu, Sequential};

    struct Net {
        stem: Linear,
        blocks: Sequential,
        head: Linear,
    }
    crate::module!(Net { stem, blocks, head });

    #[test]
    fn a_tree_shows_shapes_and_counts_and_joins_what_repeats() {
        let block = || Sequential::new().push(Linear::new(32, 32, ())).push(Relu);
        let blocks = Sequential::new().push(block()).push(block()).push(block());
        let net = Net { stem: Linear::new(4, 32, ()), blocks, head: Linear::new(32, 1, ()) };
        let expected = "\
Net                             3,361
├─ stem: Linear                   160  weight [32, 4], bias [32]
├─ blocks: Sequential           3,168
│  └─ 0 to 2, each: Sequential  1,056
│     ├─ 0: Linear              1,056  weight [32, 32], bias [32]
│     └─ 1: Relu                    0
└─ head: Linear                    33  weight [1, 32], bias [1]
";
        assert_eq!(net.tree().to_string(), expected);
        assert_eq!(net.to_string(), expected);
    }

    #[test]
    fn a_shared_parameter_counts_once() {
        let (one, mut two) = (Linear::new(3, 3, ()), Linear::new(3, 3, ()));
        two.weight = one.weight.clone();
        let net = Sequential::new().push(one).push(two);
        assert_eq!((net.tree().params, net.num_params()), (15, 15));
        assert_eq!(net.tree().children[1].1.params, 12);
    }
}
