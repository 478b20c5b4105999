//! The search for each tensor that is needed, and the loading of what was found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::progress::{self, Task};
use crate::base::{Error, Result, Shape, Span, StateProblem};
use crate::io::item::{StateItem, TensorData};
use crate::io::load::names::{Pattern, nearest};
use crate::io::load::opts::{LoadOpts, Pieces};
use crate::io::load::recipe::{Piece, Recipe};
use crate::io::load::report::{Conversion, LoadReport};
use crate::io::state_dict::{ExpectedTensor, StateDict};
use crate::ir::{Node, Op};
use crate::plan;
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::quantized::{BLOCK, Quantization, QuantizedTensor};

/// What is made at once, in bytes: more than that is not in memory twice.
const BATCH: usize = 256 << 20;
/// Of how many missing names near ones are looked for.
const MOST_NEAR: usize = 32;

/// A state, where it comes from, and what is known to be wrong with it.
pub(crate) struct Source<'a> {
    pub state: &'a StateDict,
    pub from: &'a str,
    pub problems: Vec<StateProblem>,
    /// Names of which nothing is known.
    pub unread: &'a BTreeSet<String>,
}

impl<'a> Source<'a> {
    /// A state in memory.
    pub fn of(state: &'a StateDict) -> Source<'a> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        Source { state, from: "the state", problems: Vec::new(), unread: &NONE }
    }
}

/// What a target gets.
#[derive(Clone, Debug)]
pub(crate) enum Loaded {
    Tensor(Tensor),
    Quantized(QuantizedTensor),
}

/// The search for the tensors of a module in a state.
struct Search<'a> {
    opts: &'a LoadOpts,
    /// What the state holds, by the names after renaming.
    named: BTreeMap<String, StateItem<'a>>,
    targets: BTreeMap<&'a str, &'a ExpectedTensor>,
    /// Names, after renaming, that nothing is known of.
    unread: BTreeSet<String>,
    /// Names of the state that are taken by something.
    used: BTreeSet<&'a str>,
    site: CallSite,
}

/// The tensors for the targets, each on its device, and what was found. There is none where the
/// state has none that fits, which is an error if the options are strict.
///
/// # Errors
/// Everything that does not fit, at once; or what making the tensors says.
pub(crate) fn load(
    source: Source<'_>,
    targets: &[ExpectedTensor],
    opts: &LoadOpts,
    span: Span,
) -> Result<(Vec<Option<Loaded>>, LoadReport)> {
    let site = CallSite { name: "load", span };
    opts.check(span)?;
    let mut damage = source.problems;
    let mut search = Search::new(source.state, source.unread, targets, opts, site, &mut damage);
    let mut report = LoadReport::default();
    let mut problems = Vec::new();
    let mut recipes = Vec::with_capacity(targets.len());
    for target in targets {
        let recipe = search.find(target);
        recipe.as_ref().map_or(Ok(()), |recipe| recipe.check(site))?;
        let problem = search.problem(target, recipe.as_ref(), &mut report);
        recipes.push(recipe.filter(|_| problem.is_none()));
        problems.extend(problem);
    }
    let surplus = search.surplus();
    report.unexpected = surplus.iter().map(|item| item.name.to_string()).collect();
    if opts.strict {
        add_near_names(&mut problems, &surplus);
        damage.extend(problems);
        damage.extend(unexpected(&surplus));
    }
    if !damage.is_empty() {
        return Err(Error::State { from: source.from.into(), problems: damage.into(), span });
    }
    Ok((made(&recipes, targets, opts, site)?, report))
}

impl<'a> Search<'a> {
    /// Renames what there is; names that two tensors get are problems.
    fn new(
        state: &'a StateDict,
        unread: &BTreeSet<String>,
        targets: &'a [ExpectedTensor],
        opts: &'a LoadOpts,
        site: CallSite,
        problems: &mut Vec<StateProblem>,
    ) -> Search<'a> {
        let mut named: BTreeMap<String, StateItem> = BTreeMap::new();
        for item in StateItem::all(state) {
            let name = opts.renamed(item.name);
            match named.get(&name) {
                None => drop(named.insert(name, item)),
                Some(other) => {
                    let sources = [other.name.to_string(), item.name.to_string()];
                    problems.push(StateProblem::Renamed { name, sources });
                }
            }
        }
        let targets = targets.iter().map(|target| (target.name.as_str(), target)).collect();
        let unread = unread.iter().map(|name| opts.renamed(name)).collect();
        Search { opts, named, targets, unread, used: BTreeSet::new(), site }
    }

    /// What a target is made of. Its own name goes before others that it has in the module, those before
    /// rules.
    fn find(&mut self, target: &ExpectedTensor) -> Option<Recipe<'a>> {
        let names = || std::iter::once(&target.name).chain(&target.aliases);
        let found = names().find_map(|name| self.named_so(name));
        let found = found.or_else(|| names().find_map(|name| self.tied(name)));
        let others = target.aliases.iter().filter_map(|alias| self.named.get(alias));
        self.used.extend(others.map(|item| item.name));
        self.used.extend(found.iter().flat_map(Recipe::pieces).map(|piece| piece.item.name));
        found
    }

    fn named_so(&self, name: &str) -> Option<Recipe<'a>> {
        let whole = self.piece(name).map(Recipe::Whole);
        whole.or_else(|| self.part(name)).or_else(|| self.joined(name))
    }

    fn piece(&self, name: &str) -> Option<Piece<'a>> {
        let item = *self.named.get(name)?;
        let transposed = self.opts.transposed.iter().any(|pattern| pattern.fit(name).is_some());
        let mut transforms = self.opts.transforms.iter();
        let transform = transforms.find(|(pattern, _)| pattern.fit(name).is_some());
        Some(Piece { item, transposed, transform: transform.map(|(_, transform)| transform) })
    }

    /// A part of a tensor that the state has whole.
    fn part(&self, name: &str) -> Option<Recipe<'a>> {
        self.opts.split.iter().find_map(|Pieces { whole, axis, parts }| {
            let (number, fit) = parts.iter().enumerate().find_map(|(i, part)| Some((i, part.fit(name)?)))?;
            let of = self.piece(&whole.fill(&fit))?;
            let extent = of.shape(self.site).get(*axis).copied().unwrap_or(0);
            let needed = |part: &Pattern| Some(*self.targets.get(&part.fill(&fit)[..])?.shape.get(*axis)?);
            let lengths: Option<Vec<usize>> = parts.iter().map(needed).collect();
            let lengths = lengths.filter(|lengths| lengths.iter().sum::<usize>() == extent);
            let lengths = lengths.unwrap_or_else(|| vec![extent / parts.len(); parts.len()]);
            let (start, len) = (lengths[..number].iter().sum(), lengths[number]);
            Some(Recipe::Part { of, axis: *axis, start, len })
        })
    }

    /// A tensor whose parts the state has, all of them.
    fn joined(&self, name: &str) -> Option<Recipe<'a>> {
        self.opts.joined.iter().find_map(|Pieces { whole, axis, parts }| {
            let fit = whole.fit(name)?;
            let parts = parts.iter().map(|part| self.piece(&part.fill(&fit)));
            Some(Recipe::Joined { parts: parts.collect::<Option<Vec<_>>>()?, axis: *axis })
        })
    }

    fn tied(&self, name: &str) -> Option<Recipe<'a>> {
        let rule = |(from, same): &(Pattern, Pattern)| self.named_so(&same.fill(&from.fit(name)?));
        self.opts.tied.iter().find_map(rule)
    }

    /// What is wrong with what was found for a target; tells the report of it.
    fn problem(
        &self,
        target: &ExpectedTensor,
        recipe: Option<&Recipe<'a>>,
        report: &mut LoadReport,
    ) -> Option<StateProblem> {
        let name = target.name.clone();
        let Some(recipe) = recipe else {
            if self.unread.contains(&name) {
                return None;
            }
            report.missing.push(name.clone());
            return Some(StateProblem::Missing { name, expected: target.ty(), near: None });
        };
        let shape = recipe.shape(self.site);
        let packed = packing(target, recipe, self.opts).is_some();
        let fits = packed || recipe.fits(target.dtype, self.opts.convert);
        if shape.as_ref() == Ok(&target.shape) && fits {
            let from = recipe.pieces()[0].item.dtype();
            if !packed && crate::io::format::name_of(target.dtype) != from {
                report.converted.push(Conversion { name: name.clone(), from: from.into(), to: target.dtype });
            }
            report.loaded.push(name);
            return None;
        }
        let problem = mismatch(target, recipe, shape.unwrap_or_else(|shape| shape));
        report.mismatched.push(problem.clone());
        Some(problem)
    }

    /// What nothing takes.
    fn surplus(&self) -> Vec<StateItem<'a>> {
        let ignored = |name: &str| self.opts.ignored.iter().any(|pattern| pattern.fit(name).is_some());
        let all = self.named.iter();
        let left = all.filter(|(name, item)| !self.used.contains(item.name) && !ignored(name));
        left.map(|(_, item)| *item).collect()
    }
}

fn mismatch(target: &ExpectedTensor, recipe: &Recipe, found: Shape) -> StateProblem {
    let (name, expected) = (target.name.clone(), target.ty());
    match recipe.pieces()[0].item.value {
        TensorData::Tensor(tensor) => {
            StateProblem::Mismatch { name, expected, found: (tensor.dtype(), found) }
        }
        TensorData::Raw(raw) => {
            StateProblem::Raw { name, expected: Some(expected), found: (raw.dtype().into(), found) }
        }
    }
}

/// Tensors that nothing takes are problems.
fn unexpected(surplus: &[StateItem]) -> Vec<StateProblem> {
    let (tensors, raw): (Vec<&StateItem>, Vec<&StateItem>) =
        surplus.iter().partition(|item| matches!(item.value, TensorData::Tensor(_)));
    let tell = |item: &StateItem| match item.value {
        TensorData::Tensor(tensor) => {
            StateProblem::Unexpected { name: item.name.into(), found: (tensor.dtype(), tensor.shape()) }
        }
        TensorData::Raw(raw) => StateProblem::Raw {
            name: item.name.into(),
            expected: None,
            found: (raw.dtype().into(), raw.shape().clone()),
        },
    };
    tensors.into_iter().chain(raw).map(tell).collect()
}

/// Tells of names that nothing takes where they are much like those that are missing.
fn add_near_names(problems: &mut [StateProblem], surplus: &[StateItem]) {
    let missing = problems.iter_mut().filter_map(|problem| match problem {
        StateProblem::Missing { name, expected, near } => Some((name, expected, near)),
        _ => None,
    });
    for (name, (_, shape), near) in missing.take(MOST_NEAR) {
        let alike = surplus.iter().filter(|item| item.shape() == *shape).map(|item| item.name);
        *near = nearest(name, alike).map(str::to_string);
    }
}

/// Makes the tensors, as many at once as are small together.
fn made(
    recipes: &[Option<Recipe>],
    targets: &[ExpectedTensor],
    opts: &LoadOpts,
    site: CallSite,
) -> Result<Vec<Option<Loaded>>> {
    let span = site.span;
    let mut tensors = Vec::with_capacity(targets.len());
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for (recipe, target) in recipes.iter().zip(targets) {
        progress::report(Task::Load, tensors.len(), targets.len());
        let Some(recipe) = recipe else {
            tensors.push(None);
            continue;
        };
        if let Some(quantization) = packing(target, recipe, opts) {
            let packed = recipe.packed(quantization, site)?.to_dtype(target.dtype)?;
            tensors.push(Some(Loaded::Quantized(packed.to(target.device))));
            continue;
        }
        let tensor = place(recipe, target, opts, site);
        batch.push(tensor.node()?.clone());
        bytes += target.shape.numel() * target.dtype.size();
        tensors.push(Some(Loaded::Tensor(tensor)));
        if bytes >= BATCH {
            plan::realize(&std::mem::take(&mut batch), span)?;
            bytes = 0;
        }
    }
    let rest: Vec<Arc<Node>> = batch;
    plan::realize(&rest, span)?;
    progress::report(Task::Load, targets.len(), targets.len());
    Ok(tensors)
}

/// How a target's tensor stays packed, if it does.
fn packing(target: &ExpectedTensor, recipe: &Recipe, opts: &LoadOpts) -> Option<Quantization> {
    let takes = opts.quantized && target.packs && target.dtype.is_float();
    // Rows of whole blocks, whatever a rule made of the state's.
    let rows = target.shape.last().is_some_and(|row| row.is_multiple_of(BLOCK));
    recipe.quantization().filter(|_| takes && rows)
}

/// The tensor for a target, not computed yet.
fn place(recipe: &Recipe, target: &ExpectedTensor, opts: &LoadOpts, site: CallSite) -> Tensor {
    let tensor = recipe.tensor(site);
    let there = tensor.device() == target.device;
    if there && !opts.copy && tensor.dtype() == target.dtype && recipe.is_as_stored() {
        return tensor;
    }
    site.apply(Op::Copy(target.device), &[&site.cast(&tensor, target.dtype)])
}
