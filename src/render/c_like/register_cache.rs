//! Register caching of rows: what one loop over them loads or computes at
//! some cost, and a later loop needs, is kept if an invocation's rows are few.
//! A softmax so reads its input once.

use std::ops::Range;

use crate::kernel::{Expr, ExprId};
use crate::render::c_like::emit::{ElementIndex, Emitter};
use crate::render::c_like::unroll::unroll_count;

/// Values cached from one loop over the rows of level 1 for later ones.
#[derive(Debug)]
pub struct RegisterCache {
    /// Iterations of each such loop.
    pub iterations: usize,
    /// The values, and whether the loop that computes them was written.
    values: Vec<(ExprId, bool)>,
}

impl Emitter<'_> {
    /// Decides what to cache between loops with these targets, in their order.
    pub(super) fn plan_register_cache(&mut self, loops: &[Vec<ExprId>]) {
        let rows = self.kernel.level_points(1);
        if rows == 1 {
            // There is no loop.
            return;
        }
        // Few numbers of iterations, since each is a text of its own.
        let needed = rows.div_ceil(self.reduction_threads * self.coarsening_of(1));
        let iterations =
            if self.unrolls_cached_loops { unroll_count(needed) } else { Some(needed.next_power_of_two()) };
        let Some(iterations) = iterations else { return };
        let spans = self.spans(loops);
        let live = |gap: usize| {
            let alive = spans.iter().filter(|(_, span)| span.contains(&gap));
            alive.map(|(id, _)| self.registers(*id)).sum::<usize>()
        };
        let most = (0..loops.len()).map(live).max().unwrap_or(0);
        if most == 0 || most * iterations > self.cache_registers {
            return;
        }
        let mut values: Vec<(ExprId, bool)> = spans.into_iter().map(|(id, _)| (id, false)).collect();
        values.sort_unstable_by_key(|(id, _)| id.0);
        self.register_cache = Some(RegisterCache { iterations, values });
        self.declare_register_cache();
    }

    /// What later loops would find cached, each from the loop that computes it to
    /// before the last that needs it.
    fn spans(&mut self, loops: &[Vec<ExprId>]) -> Vec<(ExprId, Range<usize>)> {
        let mut spans: Vec<(ExprId, Range<usize>)> = Vec::new();
        // With the loop that computes each, operands first.
        let mut before: Vec<(ExprId, usize)> = Vec::new();
        for (number, targets) in loops.iter().enumerate() {
            let known: Vec<ExprId> = before.iter().map(|(id, _)| *id).collect();
            for id in self.cut(targets, &known) {
                let first = before.iter().find(|(other, _)| *other == id).map_or(number, |(_, at)| *at);
                spans.retain(|(other, _)| *other != id);
                spans.push((id, first..number));
            }
            let expensive = self.needed(targets).into_iter().filter(|&id| self.is_expensive(id));
            let new: Vec<_> = expensive.filter(|id| !known.contains(id)).map(|id| (id, number)).collect();
            before.extend(new);
            before.sort_unstable_by_key(|(id, _)| id.0);
        }
        spans
    }

    /// Whether computing a value again for every row costs more than a register.
    fn is_expensive(&self, id: ExprId) -> bool {
        let node = &self.kernel.exprs[id.index()];
        let costs = match &node.expr {
            Expr::Load(..) | Expr::Reduce(..) | Expr::Scan(..) => true,
            Expr::Alu(op, _) => op.flops() > 1,
            Expr::Const(_) | Expr::Arg(_) | Expr::Index(_) | Expr::Inside(_) => false,
            Expr::Cast(_) | Expr::Bitcast(_) | Expr::Checked(..) | Expr::Accumulator => false,
        };
        costs && node.level == 1
    }

    /// 32-bit registers that hold a value of all lanes.
    fn registers(&self, id: ExprId) -> usize {
        let size = self.kernel.exprs[id.index()].dtype.compute().size();
        self.elements(self.mask(id)).len() * size.div_ceil(4)
    }

    /// Those of some values, in order, that targets need when they are taken as they are.
    fn cut(&mut self, targets: &[ExprId], values: &[ExprId]) -> Vec<ExprId> {
        let mark = self.mark();
        let mut found = Vec::new();
        for &id in values.iter().rev() {
            if self.needed(targets).contains(&id) {
                self.assume(id);
                found.push(id);
            }
        }
        self.forget(mark);
        found
    }

    fn declare_register_cache(&mut self) {
        for (id, iterations) in self.cached_values() {
            let ty = self.dialect.register(self.kernel.exprs[id.index()].dtype);
            for elem in self.elements(self.mask(id)) {
                let line = self.dialect.array(&self.cache_array(id, elem), ty, iterations);
                self.out.line(line);
            }
        }
    }

    fn cached_values(&self) -> Vec<(ExprId, usize)> {
        let register_cache = self.register_cache.iter();
        register_cache
            .flat_map(|register_cache| {
                register_cache.values.iter().map(|(id, _)| (*id, register_cache.iterations))
            })
            .collect()
    }

    fn cache_array(&self, id: ExprId, elem: ElementIndex) -> String {
        format!("cached_{}", self.name(id, elem))
    }

    /// The values that a loop with these targets finds cached.
    pub(super) fn reloadable(&mut self, level: u8, targets: &[ExprId]) -> Vec<ExprId> {
        let cache_slot: Vec<ExprId> = match &self.register_cache {
            Some(register_cache) if level == 1 => register_cache
                .values
                .iter()
                .filter(|(_, cache_slot)| *cache_slot)
                .map(|(id, _)| *id)
                .collect(),
            Some(_) | None => return Vec::new(),
        };
        self.cut(targets, &cache_slot)
    }

    /// Reloads values cached for this iteration's row.
    pub(super) fn reload(&mut self, values: &[ExprId]) {
        for &id in values {
            for elem in self.elements(self.mask(id)) {
                let value = self.cache_slot(id, elem);
                self.definition(id, elem, &value);
            }
            self.set_defined(id);
        }
    }

    /// Where an element of this iteration is cached.
    fn cache_slot(&self, id: ExprId, elem: ElementIndex) -> String {
        let iteration =
            self.unrolled.as_ref().map_or("iteration".into(), |iterations| iterations.number.to_string());
        format!("{}[{iteration}]", self.cache_array(id, elem))
    }

    /// Caches what this iteration computed for the first time.
    pub(super) fn cache_values(&mut self, level: u8) {
        for id in self.uncached(level) {
            for elem in self.elements(self.mask(id)) {
                let line = format!("{} = {};", self.cache_slot(id, elem), self.name(id, elem));
                self.out.line(line);
            }
        }
    }

    /// What a loop has defined that is to be cached and was not yet.
    pub(super) fn uncached(&self, level: u8) -> Vec<ExprId> {
        let register_cache = self
            .register_cache
            .iter()
            .filter(|_| level == 1)
            .flat_map(|register_cache| &register_cache.values);
        register_cache
            .filter(|(id, cache_slot)| !cache_slot && self.is_defined(*id))
            .map(|(id, _)| *id)
            .collect()
    }

    /// These values are cached from here on.
    pub(super) fn mark_cached(&mut self, values: &[ExprId]) {
        for (id, cache_slot) in
            self.register_cache.iter_mut().flat_map(|register_cache| &mut register_cache.values)
        {
            *cache_slot |= values.contains(id);
        }
    }
}
