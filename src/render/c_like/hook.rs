//! Bodies of the functions in a template's header: parts of a kernel, emitted
//! from its expressions, four positions at a time in two directions. So a
//! template's operands may be any loads and arithmetic (a convolution's window, a
//! mask, a cast), and the rest of a fused kernel follows its result.

use crate::base::DType;
use crate::kernel::{AxisId, Expr, ExprId, Kernel};
use crate::render::c_like::emit::ElementIndex;
use crate::render::c_like::writer::Writer;
use crate::render::c_like::{Coarsening, Dialect, Emitter, wide};
use crate::render::coalesce::coalesce;
use crate::render::target::GpuTarget;
use crate::render::thread_mapping::{coarsen, vec4};

/// The line that parts a template from the example before it.
const MARK: &str = "// TEMPLATE\n";

/// A template's text after the example header.
pub fn template(text: &'static str) -> &'static str {
    text.split_once(MARK).map_or_else(|| panic!("a template without its mark"), |(_, own)| own)
}

/// For each input and each output, whether it is accessed by vec4 accesses.
pub type Vec4Accesses = (Vec<bool>, Vec<bool>);

/// A direction: its axes, and a function's parameter along it.
#[derive(Clone, Copy)]
pub struct HookAxis<'a> {
    /// The parameter's name.
    pub parameter: &'static str,
    /// Row-major.
    pub axes: &'a [AxisId],
    /// The lane group of four neighbours; the other side's is another.
    pub group: u8,
    /// Positions of the axes together.
    pub extent: usize,
}

/// What a function is emitted with.
#[derive(Clone, Copy)]
pub struct HookContext<'a> {
    /// How things are spelled.
    pub dialect: &'a dyn Dialect,
    /// The axes behind the parameter `batch`.
    pub batch: &'a [AxisId],
    /// For all functions of the header, since one reads an input for all.
    pub vec4_accesses: &'a Vec4Accesses,
}

/// A function: the part of the kernel that it computes, four positions at a
/// time along both sides.
pub struct Hook<'a> {
    kernel: Kernel,
    coarsening: Coarsening,
    vec4: Vec4Accesses,
    sides: [HookAxis<'a>; 2],
}

impl<'a> Hook<'a> {
    /// What computes `roots`. Stores stay where their value is one of them.
    pub fn new(kernel: &Kernel, roots: &[ExprId], sides: [HookAxis<'a>; 2], target: &GpuTarget) -> Hook<'a> {
        let kernel = coalesce(&part(kernel, roots));
        let mut coarsening = Coarsening::single(&kernel);
        for side in sides {
            let axes = wide(&kernel, side.axes.iter().copied());
            coarsening.factors[side.group as usize] = 4;
            match axes.last() {
                Some(&last) if is_vec4_aligned(&kernel, &axes) => {
                    coarsen(&mut coarsening, side.group, last, 4)
                }
                _ => axes.iter().for_each(|axis| coarsening.group[axis.index()] = Some(side.group)),
            }
        }
        let vec4 = vec4(&kernel, &coarsening, target);
        Hook { kernel, coarsening, vec4, sides }
    }

    /// The accesses of several hooks: inputs by vec4 accesses where all of them can,
    /// outputs where the last can.
    pub fn vec4_accesses(hooks: &[&Hook<'_>]) -> Vec4Accesses {
        let Some(last) = hooks.last() else { panic!("a template without functions") };
        let inputs = (0..last.kernel.inputs.len()).map(|slot| hooks.iter().all(|hook| hook.vec4.0[slot]));
        (inputs.collect(), last.vec4.1.clone())
    }

    /// What the function computes, its axes as few as possible.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    fn emitter<'k>(&'k self, context: &HookContext<'k>) -> Emitter<'k> {
        let mut emitter = Emitter::new(context.dialect, &self.kernel, self.coarsening.clone());
        emitter.vec4 = context.vec4_accesses.clone();
        emitter.out = Writer::inside(1);
        emitter.positions("batch", &wide(&self.kernel, context.batch.iter().copied()), 1);
        emitter
    }

    /// Defines the positions of four neighbours along a side; those beyond its
    /// end are its last ones again.
    fn neighbours(&self, emitter: &mut Emitter<'_>, side: &HookAxis<'_>) {
        let axes = wide(&self.kernel, side.axes.iter().copied());
        let (name, extent) = (side.parameter, side.extent);
        let (dialect, ty) = (emitter.dialect, emitter.dialect.position_type());
        if is_vec4_aligned(&self.kernel, &axes) {
            let first = format!("{name}_first");
            let value = dialect.lesser(name, &dialect.position(extent as i64 - 4));
            emitter.out.line(dialect.define(&first, ty, &value));
            return emitter.positions(&first, &axes, 4);
        }
        let end = dialect.position(extent as i64 - 1);
        for number in 0..4 {
            let mut elem = ElementIndex::default();
            elem[side.group as usize] = number;
            let own = format!("{name}_{number}");
            let value = dialect.lesser(&format!("{name} + {number}"), &end);
            emitter.out.line(dialect.define(&own, ty, &value));
            let coordinates = emitter.coordinates(&own, &axes);
            for (&axis, value) in axes.iter().zip(coordinates) {
                let line = dialect.define(&emitter.axis(axis, elem), ty, &value);
                emitter.out.line(line);
            }
        }
    }

    /// Four by four elements, the first side's in rows: what `element` makes of a
    /// value's name and its two places. Beyond the end of the side of `whole`
    /// they are `zero`, unless that many positions divide it, and so none are
    /// asked for; beyond another side's they are anything.
    pub fn block(
        &self,
        value: ExprId,
        whole: Option<(u8, usize)>,
        context: &HookContext<'_>,
        zero: &str,
        element: &dyn Fn(&str, usize, usize) -> String,
    ) -> ElementBlock {
        let mut emitter = self.emitter(context);
        self.sides.iter().for_each(|side| self.neighbours(&mut emitter, side));
        emitter.define_all(&[value]);
        let [outer, inner] = self.sides;
        let ends = |side: &&HookAxis<'_>| {
            whole.is_some_and(|(group, step)| side.group == group && !side.extent.is_multiple_of(step))
        };
        let ragged = self.sides.iter().find(ends);
        let dialect = emitter.dialect;
        if let Some(side) = ragged {
            let end = dialect.position(side.extent as i64);
            for number in 0..4 {
                let value = format!("{} + {number} < {end}", side.parameter);
                let name = format!("inside_{number}");
                emitter.out.line(dialect.define(&name, dialect.register(DType::Bool), &value));
            }
        }
        let at = |i: usize, j: usize| {
            let mut elem = ElementIndex::default();
            (elem[outer.group as usize], elem[inner.group as usize]) = (i, j);
            let given = element(&emitter.name(value, elem), i, j);
            match ragged {
                Some(side) => {
                    let place = if side.group == outer.group { i } else { j };
                    dialect.select(&format!("inside_{place}"), &given, zero)
                }
                None => given,
            }
        };
        let elements = std::array::from_fn(|i| std::array::from_fn(|j| at(i, j)));
        ElementBlock { lines: emitter.out.text().into(), elements }
    }

    /// Four neighbours along the first side, after the lines that they refer to;
    /// beyond its end they are anything.
    pub fn line(&self, value: ExprId, context: &HookContext<'_>) -> (String, [String; 4]) {
        let mut emitter = self.emitter(context);
        let [side, _] = self.sides;
        self.neighbours(&mut emitter, &side);
        emitter.define_all(&[value]);
        let element = |number: usize| {
            let mut elem = ElementIndex::default();
            elem[side.group as usize] = number;
            emitter.name(value, elem)
        };
        (emitter.out.text().into(), std::array::from_fn(element))
    }

    /// Lines that store what becomes of `x`, four neighbours along the first side,
    /// perhaps in a row; `result` says what the kernel sees of each.
    pub fn after(
        &self,
        rows: Option<HookAxis<'_>>,
        context: &HookContext<'_>,
        result: &dyn Fn(String) -> String,
    ) -> String {
        let mut emitter = self.emitter(context);
        let columns = self.sides[0];
        let place = columns.group as usize;
        if let Some(rows) = rows {
            emitter.positions(rows.parameter, &wide(&self.kernel, rows.axes.iter().copied()), 1);
        }
        self.neighbours(&mut emitter, &columns);
        let exprs = (0..self.kernel.exprs.len() as u32).map(ExprId);
        for id in exprs.filter(|id| *self.kernel.expr(*id) == Expr::Accumulator) {
            let ty = emitter.dialect.register(self.kernel.exprs[id.index()].dtype);
            for elem in emitter.elements(emitter.mask(id)) {
                let value = result(format!("x[{}]", elem[place]));
                let line = emitter.dialect.define(&emitter.name(id, elem), ty, &value);
                emitter.out.line(line);
            }
            emitter.assume(id);
        }
        let values: Vec<ExprId> = self.kernel.stores.iter().map(|store| store.value).collect();
        emitter.define_all(&values);
        let whole = is_vec4_aligned(&self.kernel, &wide(&self.kernel, columns.axes.iter().copied()));
        let (parameter, end) = (columns.parameter, context.dialect.position(columns.extent as i64));
        for store in 0..self.kernel.stores.len() {
            emitter.store(store, &|elem: ElementIndex| {
                let number = elem[place];
                (!whole && number > 0).then(|| format!("{parameter} + {number} < {end}"))
            });
        }
        emitter.out.text().into()
    }
}

/// Four by four elements.
#[derive(Clone, Debug)]
pub struct ElementBlock {
    /// What the elements refer to.
    pub lines: String,
    /// The first side's in rows.
    pub elements: [[String; 4]; 4],
}

/// Whether vec4s of a side's positions differ along its last axis only.
fn is_vec4_aligned(kernel: &Kernel, axes: &[AxisId]) -> bool {
    axes.last().is_some_and(|axis| kernel.axes[axis.index()].extent.is_multiple_of(4))
}

/// The kernel with only what some values depend on; the numbers of expressions
/// stay. Stores stay if the values are theirs.
fn part(kernel: &Kernel, roots: &[ExprId]) -> Kernel {
    let mut part = kernel.clone();
    part.stores.retain(|store| roots.contains(&store.value));
    let mut wanted = vec![false; part.exprs.len()];
    roots.iter().for_each(|root| wanted[root.index()] = true);
    for i in (0..wanted.len()).rev() {
        if wanted[i] {
            part.exprs[i].expr.operands(|x| wanted[x.index()] = true);
        } else {
            part.exprs[i].expr = Expr::Const(0);
        }
    }
    part
}
