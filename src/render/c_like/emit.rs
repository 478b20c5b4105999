//! Expressions as definitions, once per element they vary along.
//!
//! A thread may compute several neighbouring points at once (thread coarsening): its
//! *elements*, in up to three groups (points or rows of a matrix tile; rows of a
//! loop or columns of the tile; steps of a contraction). An expression that
//! depends on no axis of a group is computed once for all elements of it.

use crate::base::DType;
use crate::ir::AluOp;
use crate::kernel::{Affine, AxisId, Expr, ExprId, Kernel};
use crate::render::c_like::Dialect;
use crate::render::c_like::register_cache::RegisterCache;
use crate::render::c_like::unroll::UnrolledLoop;
use crate::render::c_like::writer::Writer;

/// Groups of elements.
pub const GROUPS: usize = 3;

/// An element of a thread: a number in each group.
pub type ElementIndex = [usize; GROUPS];

/// The elements of a thread, and which axes differ between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coarsening {
    /// Coarsening factor: elements in each group.
    pub factors: ElementIndex,
    /// For each axis, the group in which its position differs.
    pub group: Vec<Option<u8>>,
    /// For each group, the axis along which its lanes are neighbours, and
    /// the first lane a multiple of four.
    pub consecutive: [Option<AxisId>; GROUPS],
}

impl Coarsening {
    /// One element.
    pub fn single(kernel: &Kernel) -> Coarsening {
        Coarsening { factors: [1; GROUPS], group: vec![None; kernel.axes.len()], consecutive: [None; GROUPS] }
    }
}

/// A kernel's program under construction.
pub struct Emitter<'k> {
    /// The language.
    pub dialect: &'k dyn Dialect,
    /// The kernel.
    pub kernel: &'k Kernel,
    /// The text.
    pub out: Writer,
    /// Elements per thread.
    pub coarsening: Coarsening,
    /// Threads that share a point's rows.
    pub reduction_threads: usize,
    /// Whether each of these takes neighbouring rows.
    pub blocked: bool,
    /// Invocations that exchange values without memory, neighbours among these; 1 if none do.
    pub warp: usize,
    /// Registers that an invocation has for what loops over its rows share.
    pub cache_registers: usize,
    /// Whether loops over such rows are unrolled.
    pub unrolls_cached_loops: bool,
    /// One, as an expression that no compiler knows to be one, where loops that could be
    /// counted are to stay loops.
    pub one: Option<&'static str>,
    /// What they cache, if anything.
    pub(super) register_cache: Option<RegisterCache>,
    /// The loop that is being unrolled.
    pub(super) unrolled: Option<UnrolledLoop>,
    /// For each input and each output, whether it is accessed by vec4 accesses.
    pub vec4: (Vec<bool>, Vec<bool>),
    /// Of those, which by vec8 accesses.
    pub vec8: (Vec<bool>, Vec<bool>),
    /// Which groups each expression's value differs in, as bits.
    masks: Vec<u8>,
    defined: Vec<bool>,
    scope: Vec<ExprId>,
    /// The running state of each scan in the open loops.
    pub(super) scans: Vec<Option<String>>,
    /// Arrays that the workgroup shares: name and type of the elements.
    pub shared: Vec<(String, &'static str)>,
    pub(super) counter: usize,
}

impl<'k> Emitter<'k> {
    /// An emitter that has written nothing.
    pub fn new(dialect: &'k dyn Dialect, kernel: &'k Kernel, coarsening: Coarsening) -> Emitter<'k> {
        let masks = masks(kernel, &coarsening);
        let count = kernel.exprs.len();
        Emitter {
            dialect,
            kernel,
            out: Writer::default(),
            coarsening,
            reduction_threads: 1,
            blocked: false,
            warp: 1,
            cache_registers: 0,
            unrolls_cached_loops: false,
            one: None,
            register_cache: None,
            unrolled: None,
            vec4: (vec![false; kernel.inputs.len()], vec![false; kernel.stores.len()]),
            vec8: (vec![false; kernel.inputs.len()], vec![false; kernel.stores.len()]),
            masks,
            defined: vec![false; count],
            scope: Vec::new(),
            scans: vec![None; count],
            shared: Vec::new(),
            counter: 0,
        }
    }

    /// The groups in which an expression differs.
    pub fn mask(&self, id: ExprId) -> u8 {
        self.masks[id.index()]
    }

    /// The groups in which an affine combination differs.
    pub fn affine_mask(&self, affine: &Affine) -> u8 {
        affine_mask(&self.coarsening, affine)
    }

    /// All lanes of the groups in a mask; 0 in the others.
    pub fn elements(&self, mask: u8) -> Vec<ElementIndex> {
        let count = |group: usize| if mask >> group & 1 == 1 { self.coarsening.factors[group] } else { 1 };
        let mut all = Vec::new();
        for x in 0..count(0) {
            for y in 0..count(1) {
                all.extend((0..count(2)).map(|z| [x, y, z]));
            }
        }
        all
    }

    /// The name of an expression's value in a lane.
    pub fn name(&self, id: ExprId, elem: ElementIndex) -> String {
        format!("v{}{}", id.0, suffix(self.mask(id), elem))
    }

    /// The name of an axis's position in a lane.
    pub fn axis(&self, axis: AxisId, elem: ElementIndex) -> String {
        match self.coarsening.group[axis.index()] {
            Some(group) if self.coarsening.factors[group as usize] > 1 => {
                format!("i{}_{}", axis.0, elem[group as usize])
            }
            Some(_) | None => format!("i{}", axis.0),
        }
    }

    /// Whether rows stay in registers between loops.
    pub fn caches_rows(&self) -> bool {
        self.register_cache.is_some()
    }

    /// A name nothing else has.
    pub(super) fn fresh(&mut self, prefix: &str) -> String {
        self.counter += 1;
        format!("{prefix}{}", self.counter)
    }

    /// An affine combination of positions, as a signed 32-bit expression.
    pub fn affine(&self, affine: &Affine, elem: ElementIndex) -> String {
        let mut parts: Vec<String> = Vec::new();
        for &(axis, c) in &affine.terms {
            let name = self.axis(axis, elem);
            parts.push(if c == 1 { name } else { format!("{name} * {}", self.dialect.position(c)) });
        }
        if affine.offset != 0 || parts.is_empty() {
            parts.push(self.dialect.position(affine.offset));
        }
        parts.join(" + ")
    }

    /// Whether a value was defined and is in scope.
    pub fn is_defined(&self, id: ExprId) -> bool {
        self.defined[id.index()]
    }

    /// A mark to which [`Emitter::forget`] goes back.
    pub fn mark(&self) -> usize {
        self.scope.len()
    }

    /// What was defined since the mark is out of scope.
    pub fn forget(&mut self, mark: usize) {
        for id in self.scope.drain(mark..) {
            self.defined[id.index()] = false;
        }
    }

    /// Takes an expression as defined: its definition was written by other means.
    pub fn assume(&mut self, id: ExprId) {
        self.set_defined(id);
    }

    pub(super) fn set_defined(&mut self, id: ExprId) {
        self.defined[id.index()] = true;
        self.scope.push(id);
    }

    /// What must be defined for some values to be, operands first: without
    /// what is defined already and what lies behind it.
    pub fn needed(&self, targets: &[ExprId]) -> Vec<ExprId> {
        let mut wanted = vec![false; self.kernel.exprs.len()];
        targets.iter().for_each(|id| wanted[id.index()] = true);
        for i in (0..wanted.len()).rev() {
            if self.defined[i] {
                wanted[i] = false;
            }
            if wanted[i] {
                self.operands(ExprId(i as u32), &mut |x| wanted[x.index()] = true);
            }
        }
        (0..wanted.len()).filter(|&i| wanted[i]).map(|i| ExprId(i as u32)).collect()
    }

    /// The operands whose definitions an expression's own refers to: a cast
    /// and a comparison of positions do without the positions as `I64`.
    fn operands(&self, id: ExprId, visit: &mut dyn FnMut(ExprId)) {
        if self.cast_position(id).is_none() && self.compared_positions(id).is_none() {
            self.kernel.expr(id).operands(visit);
        }
    }

    /// The position of which an expression is a cast to 32 bits.
    fn cast_position(&self, id: ExprId) -> Option<&'k Affine> {
        let node = &self.kernel.exprs[id.index()];
        let Expr::Cast(x) = node.expr else { return None };
        let narrow = matches!(node.dtype, DType::I32 | DType::U32 | DType::F32);
        match &self.kernel.exprs[x.index()].expr {
            Expr::Index(affine) if narrow && self.is_position(affine) => Some(affine),
            _ => None,
        }
    }

    /// The positions that an expression compares, perhaps with a number.
    fn compared_positions(&self, id: ExprId) -> Option<[Affine; 2]> {
        let Expr::Alu(AluOp::Lt | AluOp::Eq, [x, y, _]) = self.kernel.expr(id) else { return None };
        let position = |x: &ExprId| {
            let node = &self.kernel.exprs[x.index()];
            let affine = match &node.expr {
                Expr::Index(affine) => Affine::clone(affine),
                Expr::Const(bits) if node.dtype == DType::I64 => Affine::constant(*bits as i64),
                Expr::Const(_) | Expr::Arg(_) | Expr::Inside(_) | Expr::Load(..) | Expr::Alu(..) => {
                    return None;
                }
                Expr::Cast(_) | Expr::Bitcast(_) | Expr::Reduce(..) | Expr::Scan(..) => return None,
                Expr::Checked(..) | Expr::Accumulator => return None,
            };
            self.is_position(&affine).then_some(affine)
        };
        Some([position(x)?, position(y)?])
    }

    /// Whether all values of an affine combination fit 32 bits.
    pub fn is_position(&self, affine: &Affine) -> bool {
        let (low, high) = affine.range(&self.kernel.axes);
        low >= i64::from(i32::MIN) && high <= i64::from(i32::MAX)
    }

    /// Defines what is needed for some values, in order.
    pub fn define_all(&mut self, targets: &[ExprId]) {
        for id in self.needed(targets) {
            self.define(id);
        }
    }

    /// Defines one expression, whose operands are.
    pub(super) fn define(&mut self, id: ExprId) {
        match &self.kernel.expr(id) {
            Expr::Load(slot, access) => self.load(id, *slot, access),
            Expr::Scan(monoid, x, _) => self.scan_step(id, *monoid, *x),
            Expr::Checked(x, bounded) => self.bounded(id, *x, bounded),
            Expr::Reduce(..) => panic!("reduction %{} is used before its rows are combined", id.0),
            Expr::Accumulator => panic!("the accumulator is used before it is finished"),
            Expr::Const(_)
            | Expr::Arg(_)
            | Expr::Index(_)
            | Expr::Inside(_)
            | Expr::Alu(..)
            | Expr::Cast(_)
            | Expr::Bitcast(_) => {
                for elem in self.elements(self.mask(id)) {
                    let value = self.value(id, elem);
                    self.definition(id, elem, &value);
                }
            }
        }
        self.set_defined(id);
    }

    /// Writes the definition of a value in a lane.
    pub(super) fn definition(&mut self, id: ExprId, elem: ElementIndex, value: &str) {
        let ty = self.dialect.register(self.kernel.exprs[id.index()].dtype);
        let line = self.dialect.define(&self.name(id, elem), ty, value);
        self.out.line(line);
    }

    /// The right side of a definition.
    fn value(&self, id: ExprId, elem: ElementIndex) -> String {
        let node = &self.kernel.exprs[id.index()];
        let dtype_of = |x: ExprId| self.kernel.exprs[x.index()].dtype;
        let dialect = self.dialect;
        if let Some(affine) = self.cast_position(id) {
            let position = self.affine(affine, elem);
            return dialect.cast(DType::I32, node.dtype, &format!("({position})"));
        }
        if let (Some(positions), Expr::Alu(op, _)) = (self.compared_positions(id), &node.expr) {
            let operands = positions.map(|affine| format!("({})", self.affine(&affine, elem)));
            return dialect.alu(*op, DType::I32, &operands);
        }
        match &node.expr {
            Expr::Const(bits) => dialect.constant(node.dtype, *bits),
            Expr::Arg(slot) => dialect.argument(*slot, node.dtype),
            Expr::Index(affine) if node.dtype == DType::I32 => self.affine(affine, elem),
            Expr::Index(affine) => self.wide(affine, elem),
            Expr::Inside(within) => self.inside(within, elem).unwrap_or_else(|| "true".into()),
            Expr::Alu(op, x) => {
                let operands: Vec<String> = x[..op.arity()].iter().map(|&x| self.name(x, elem)).collect();
                dialect.alu(*op, dtype_of(values_operand(*op, x)), &operands)
            }
            Expr::Cast(x) => dialect.cast(dtype_of(*x), node.dtype, &self.name(*x, elem)),
            Expr::Bitcast(x) => dialect.bitcast(dtype_of(*x), node.dtype, &self.name(*x, elem)),
            Expr::Load(..) | Expr::Reduce(..) | Expr::Scan(..) | Expr::Checked(..) | Expr::Accumulator => {
                panic!("%{} has no spelling of its own", id.0)
            }
        }
    }

    /// An affine combination as `I64`.
    fn wide(&self, affine: &Affine, elem: ElementIndex) -> String {
        if self.is_position(affine) {
            return self.dialect.widen(&self.affine(affine, elem));
        }
        let mut sum = self.dialect.constant(DType::I64, affine.offset as u64);
        for &(axis, c) in &affine.terms {
            let step = self.dialect.constant(DType::I64, c as u64);
            let position = self.dialect.widen(&self.axis(axis, elem));
            let product = self.dialect.alu(AluOp::Mul, DType::I64, &[position, step]);
            sum = self.dialect.alu(AluOp::Add, DType::I64, &[sum, product]);
        }
        sum
    }
}

/// The operand whose type says what an operation works on.
fn values_operand(op: AluOp, x: &[ExprId; 3]) -> ExprId {
    x[op.arity() - 1]
}

/// A position as a literal; those that 32 bits do not hold wrap, as sums of
/// addresses do.
pub fn position(value: i64) -> String {
    match value as i32 {
        i32::MIN => "(-2147483647 - 1)".into(),
        value if value < 0 => format!("({value})"),
        value => value.to_string(),
    }
}

/// What distinguishes the names of a value's lanes.
pub(super) fn suffix(mask: u8, elem: ElementIndex) -> String {
    (0..GROUPS).filter(|group| mask >> group & 1 == 1).map(|group| format!("_{}", elem[group])).collect()
}

fn affine_mask(coarsening: &Coarsening, affine: &Affine) -> u8 {
    affine.terms.iter().fold(0, |mask, term| mask | axis_mask(coarsening, term.0))
}

fn axis_mask(coarsening: &Coarsening, axis: AxisId) -> u8 {
    match coarsening.group[axis.index()] {
        Some(group) if coarsening.factors[group as usize] > 1 => 1 << group,
        Some(_) | None => 0,
    }
}

/// The groups each expression differs in. A reduction or scan combines the
/// lanes of its rows.
fn masks(kernel: &Kernel, coarsening: &Coarsening) -> Vec<u8> {
    let mut masks: Vec<u8> = Vec::with_capacity(kernel.exprs.len());
    let of_level = |level: u8| {
        let axes = kernel.level_axes(level);
        axes.fold(0u8, |mask, axis| mask | axis_mask(coarsening, axis))
    };
    for node in &kernel.exprs {
        let mut mask = 0;
        node.expr.operands(|x| mask |= masks[x.index()]);
        mask |= match &node.expr {
            Expr::Index(affine) => affine_mask(coarsening, affine),
            Expr::Inside(within) => affine_mask(coarsening, &within.value),
            Expr::Load(_, access) => {
                let within = access.guard.within.iter().map(|w| affine_mask(coarsening, &w.value));
                within.fold(affine_mask(coarsening, &access.affine), |mask, w| mask | w)
            }
            Expr::Accumulator => of_level(node.level),
            Expr::Scan(_, _, axis) => axis_mask(coarsening, *axis),
            Expr::Const(_)
            | Expr::Arg(_)
            | Expr::Alu(..)
            | Expr::Cast(_)
            | Expr::Bitcast(_)
            | Expr::Reduce(..)
            | Expr::Checked(..) => 0,
        };
        if let Expr::Reduce(..) = node.expr {
            mask &= !of_level(node.level + 1);
        }
        masks.push(mask);
    }
    masks
}
