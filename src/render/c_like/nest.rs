//! Loops over rows: reductions in stages, scans, and stores of rows.
//!
//! Inside a point of levels up to `l`, the reductions that give values of
//! level `l` run in stages, since one may depend on another (the sum of a
//! softmax on its maximum). Each stage is one loop over the rows of level
//! `l + 1`, whose body is again a scope, of level `l + 1`. Stores of rows
//! happen in the last loop: nothing is read again after it, so that an output
//! may lie in the memory of an input read exactly where it is written.

use crate::kernel::{Affine, AxisId, Expr, ExprId};
use crate::render::c_like::emit::{ElementIndex, Emitter};
use crate::render::c_like::reduction_state::MonoidEmitter;

impl Emitter<'_> {
    /// The program of one grid point: all stores, from the outermost inwards.
    pub fn point(&mut self, alive: &dyn Fn(ElementIndex) -> Option<String>) {
        let outer: Vec<usize> = self.stores_at(0);
        let targets: Vec<ExprId> = outer.iter().map(|&s| self.kernel.stores[s].value).collect();
        self.scope(0, &targets, true);
        self.define_all(&targets);
        if outer.is_empty() {
            return;
        }
        if self.reduction_threads > 1 {
            self.out.open("if (lane == 0)");
        }
        outer.iter().for_each(|&store| self.store(store, alive));
        if self.reduction_threads > 1 {
            self.out.close();
        }
    }

    fn stores_at(&self, level: u8) -> Vec<usize> {
        (0..self.kernel.stores.len()).filter(|&s| self.kernel.stores[s].level == level).collect()
    }

    /// Runs the loops that reductions to `level` need for the targets, and
    /// with `stores` those of the stores deeper than that.
    fn scope(&mut self, level: u8, targets: &[ExprId], stores: bool) {
        let deep: Vec<ExprId> = match stores {
            true => self.kernel.stores.iter().filter(|s| s.level > level).map(|s| s.value).collect(),
            false => Vec::new(),
        };
        let stages = self.stages(level, &[targets, &deep].concat());
        let count = stages.iter().map(|(_, stage)| stage + 1).max().unwrap_or(0);
        let stored = self.stages(level, &deep).iter().map(|(_, stage)| stage + 1).max().unwrap_or(0);
        let loops = if deep.is_empty() { count } else { count.max(stored + 1) };
        let of_stage = |stage: usize| -> Vec<ExprId> {
            stages.iter().filter(|(_, at)| *at == stage).map(|(id, _)| *id).collect()
        };
        let with_stores = |stage: usize| !deep.is_empty() && stage + 1 == loops;
        if level == 0 && loops > 1 {
            let targets: Vec<Vec<ExprId>> =
                (0..loops).map(|stage| self.loop_targets(1, &of_stage(stage), with_stores(stage))).collect();
            self.plan_register_cache(&targets);
        }
        (0..loops).for_each(|stage| self.rows(level + 1, &of_stage(stage), with_stores(stage)));
    }

    /// What a loop over the rows of a level must define: the elements of its
    /// reductions and the values of its stores.
    fn loop_targets(&self, level: u8, reductions: &[ExprId], stores: bool) -> Vec<ExprId> {
        let deep = self.kernel.stores.iter().filter(|store| stores && store.level >= level);
        let elements = reductions.iter().map(|&id| self.reduction(id).1);
        elements.chain(deep.map(|store| store.value)).collect()
    }

    /// The reductions to a level that targets need, each with its stage.
    fn stages(&self, level: u8, targets: &[ExprId]) -> Vec<(ExprId, usize)> {
        let mut stages: Vec<(ExprId, usize)> = Vec::new();
        let is_own = |id: &ExprId| {
            let node = &self.kernel.exprs[id.index()];
            node.level == level && matches!(node.expr, Expr::Reduce(..))
        };
        // Operands have lower numbers, so those a reduction needs come first.
        for id in self.needed(targets).into_iter().filter(is_own) {
            let behind = self.needed(&[id]);
            let before = stages.iter().filter(|(other, _)| behind.contains(other));
            let stage = before.map(|(_, stage)| stage + 1).max().unwrap_or(0);
            stages.push((id, stage));
        }
        stages
    }

    /// The groups in which axes of a level differ.
    pub(super) fn level_mask(&self, level: u8) -> u8 {
        self.kernel.level_axes(level).fold(0, |mask, axis| mask | self.affine_mask(&Affine::axis(axis)))
    }

    /// The position in row-major order among the rows of a level.
    pub(super) fn row_index(&self, level: u8, elem: ElementIndex) -> String {
        let mut index = Affine::default();
        let mut stride = 1;
        for axis in self.wide_axes(level).into_iter().rev() {
            index = index.plus(&Affine::axis(axis).times(stride));
            stride *= self.kernel.axes[axis.index()].extent as i64;
        }
        self.affine(&index, elem)
    }

    fn wide_axes(&self, level: u8) -> Vec<AxisId> {
        self.kernel.level_axes(level).filter(|axis| self.kernel.axes[axis.index()].extent != 1).collect()
    }

    /// One loop over the rows of a level.
    fn rows(&mut self, level: u8, reductions: &[ExprId], stores: bool) {
        let mut targets: Vec<ExprId> = reductions.iter().map(|&id| self.reduction(id).1).collect();
        let all = self.loop_targets(level, reductions, stores);
        let own = if stores { self.stores_at(level) } else { Vec::new() };
        targets.extend(own.iter().map(|&s| self.kernel.stores[s].value));
        let reloadable = self.reloadable(level, &all);
        let needed = self.needed_besides(&all, &reloadable);
        self.hoist(level, &needed);
        let states = self.open_states(level, reductions, &needed);
        let totals = self.open_totals(level, reductions);
        let mut cache_slot = Vec::new();
        let iterations = self.unrolled_iterations(level);
        for iteration in 0..iterations.unwrap_or(1) {
            let blocks = match iterations {
                Some(iterations) => self.open_iteration(
                    iteration,
                    iterations,
                    &self.wide_axes(level),
                    self.coarsening_of(level),
                ),
                None => self.open_rows(level),
            };
            let mark = self.mark();
            self.reload(&reloadable);
            self.scope(level, &targets, stores);
            self.define_all(&targets);
            self.cache_values(level);
            cache_slot = self.uncached(level);
            self.take_in(level, reductions, &states);
            self.close_block(reductions, &states, totals.as_ref());
            own.iter().for_each(|&store| self.store(store, &|_| None));
            self.forget(mark);
            (0..blocks).for_each(|_| self.out.close());
        }
        if let Some(totals) = &totals {
            self.join_blocks(reductions, &states, totals);
        }
        self.mark_cached(&cache_slot);
        if iterations.is_some() {
            self.close_unrolled();
        }
        self.finish(level, reductions, &states);
    }

    /// Opens the block around the iterations of a loop that is written iteration by iteration; gives
    /// their number.
    fn unrolled_iterations(&mut self, level: u8) -> Option<usize> {
        let register_cache =
            self.register_cache.as_ref().filter(|_| level == 1 && self.unrolls_cached_loops)?;
        let iterations = register_cache.iterations;
        self.open_unrolled(&self.wide_axes(level), self.coarsening_of(level));
        Some(iterations)
    }

    /// What must be defined for targets, where some values are there.
    fn needed_besides(&mut self, targets: &[ExprId], there: &[ExprId]) -> Vec<ExprId> {
        let mark = self.mark();
        there.iter().for_each(|&id| self.assume(id));
        let needed = self.needed(targets);
        self.forget(mark);
        needed
    }

    /// Defines what a loop needs that does not vary in it.
    fn hoist(&mut self, level: u8, needed: &[ExprId]) {
        for &id in needed {
            if self.kernel.exprs[id.index()].level < level {
                self.define(id);
            }
        }
    }

    /// Declares the states of a loop's reductions and scans.
    fn open_states(&mut self, level: u8, reductions: &[ExprId], needed: &[ExprId]) -> Vec<String> {
        for &id in needed.iter().filter(|id| self.kernel.exprs[id.index()].level == level) {
            if let Expr::Scan(monoid, x, _) = self.kernel.expr(id) {
                let mask = self.mask(id) & !self.level_mask(level);
                self.scans[id.index()] = Some(self.declare_state(self.monoid_emitter(*monoid, *x), mask));
            }
        }
        let declare = |this: &mut Self, id: &ExprId| {
            let (monoid, x) = this.reduction(*id);
            this.declare_state(this.monoid_emitter(monoid, x), this.mask(*id))
        };
        reductions.iter().map(|id| declare(self, id)).collect()
    }

    /// Updates the states of reductions with the rows of all lanes.
    fn take_in(&mut self, level: u8, reductions: &[ExprId], states: &[String]) {
        for (&id, prefix) in reductions.iter().zip(states) {
            let (monoid, x) = self.reduction(id);
            let (monoid, mask) = (self.monoid_emitter(monoid, x), self.mask(id));
            // Without the groups that the rows' own lanes are in: one state.
            for own in self.elements(mask) {
                let names = self.state_names(monoid, prefix, mask, own);
                let rows = self.elements(self.level_mask(level) & !mask).into_iter();
                let coarsening: Vec<ElementIndex> =
                    rows.map(|row| std::array::from_fn(|group| own[group] + row[group])).collect();
                let together = monoid.together(coarsening.iter().map(|&elem| self.name(x, elem)).collect());
                let lines = match together {
                    Some(value) => monoid.update(&names, &value, ""),
                    None => coarsening
                        .iter()
                        .flat_map(|&elem| self.taken(monoid, &names, level, x, elem))
                        .collect(),
                };
                lines.iter().for_each(|line| self.out.line(line));
            }
        }
    }

    /// The statements by which a state takes in the row of one lane.
    fn taken(
        &self,
        monoid: MonoidEmitter<'_>,
        names: &[String],
        level: u8,
        x: ExprId,
        elem: ElementIndex,
    ) -> Vec<String> {
        monoid.update(names, &self.name(x, elem), &self.row_index(level, elem))
    }

    /// Defines the results of a loop's reductions.
    fn finish(&mut self, level: u8, reductions: &[ExprId], states: &[String]) {
        for (&id, prefix) in reductions.iter().zip(states) {
            let (monoid, x) = self.reduction(id);
            let (monoid, mask) = (self.monoid_emitter(monoid, x), self.mask(id));
            let to = self.kernel.exprs[id.index()].dtype;
            for elem in self.elements(mask) {
                let names = self.state_names(monoid, prefix, mask, elem);
                if level == 1 && self.reduction_threads > 1 {
                    self.tree_reduce(monoid, &names);
                }
                let value = monoid.finish(&names, to);
                self.definition(id, elem, &value);
            }
            self.set_defined(id);
        }
    }

    /// Opens the loops over the rows of a level and defines the axes'
    /// positions; gives the number of blocks opened.
    fn open_rows(&mut self, level: u8) -> usize {
        let axes = self.wide_axes(level);
        if axes.is_empty() {
            self.out.open(if self.reduction_threads > 1 && level == 1 { "if (lane == 0)" } else { "" });
            return 1;
        }
        let coarsening: usize = self.coarsening_of(level);
        if let Some(iterations) = self
            .register_cache
            .as_ref()
            .map(|register_cache| register_cache.iterations)
            .filter(|_| level == 1)
        {
            return self.open_cached_rows(&axes, coarsening, iterations);
        }
        if level == 1 && (self.reduction_threads > 1 || coarsening > 1) {
            self.open_linear(level, &axes, coarsening);
            return 1;
        }
        for &axis in &axes {
            let end = self.end(self.kernel.axes[axis.index()].extent);
            let head = self.dialect.for_loop(&format!("i{}", axis.0), "0", &end, 1);
            self.out.open(head);
        }
        axes.len()
    }

    /// Where a loop over so many ends.
    pub fn end(&self, extent: usize) -> String {
        let extent = self.dialect.position(extent as i64);
        self.one.map_or(extent.clone(), |one| format!("{extent} * {one}"))
    }

    /// Lanes along the rows of a level.
    pub(super) fn coarsening_of(&self, level: u8) -> usize {
        let axes = self.wide_axes(level);
        let group = axes.last().and_then(|axis| self.coarsening.group[axis.index()]);
        group.map_or(1, |group| self.coarsening.factors[group as usize])
    }

    /// One loop over the rows of level 1 in row-major order, shared by its threads.
    fn open_linear(&mut self, level: u8, axes: &[AxisId], coarsening: usize) {
        let rows = self.kernel.level_points(level);
        let end = self.end(rows);
        let head = if self.reduction_threads > 1 && self.blocked {
            let each = rows.div_ceil(self.reduction_threads).next_multiple_of(coarsening);
            let each = self.dialect.position(each as i64);
            let ends = self.fresh("end");
            let end = format!("min(lane * {each} + {each}, {end})");
            let line = self.dialect.define(&ends, self.dialect.position_type(), &end);
            self.out.line(line);
            self.dialect.for_loop("row", &format!("lane * {each}"), &ends, coarsening)
        } else if self.reduction_threads > 1 {
            self.dialect.for_loop(
                "row",
                &format!("lane * {coarsening}"),
                &end,
                self.reduction_threads * coarsening,
            )
        } else {
            self.dialect.for_loop("row", "0", &end, coarsening)
        };
        self.out.open(head);
        self.positions("row", axes, coarsening);
    }

    /// The same as a loop over numbered iterations, in each of which the threads take
    /// neighbouring rows; gives the number of blocks opened.
    fn open_cached_rows(&mut self, axes: &[AxisId], coarsening: usize, iterations: usize) -> usize {
        let rows = self.kernel.level_points(1);
        let head = self.dialect.for_loop("iteration", "0", &iterations.to_string(), 1);
        self.out.open(self.dialect.unrolled(head));
        let first = match self.reduction_threads {
            1 => format!("iteration * {coarsening}"),
            reduction_threads => format!("(iteration * {reduction_threads} + lane) * {coarsening}"),
        };
        let line = self.dialect.define("row", self.dialect.position_type(), &first);
        self.out.line(line);
        let partial = iterations * self.reduction_threads * coarsening > rows;
        if partial {
            self.out.open(format!("if (row < {})", self.dialect.position(rows as i64)));
        }
        self.positions("row", axes, coarsening);
        1 + usize::from(partial)
    }

    /// The positions of axes in terms of their row-major index `linear`: a division
    /// for each axis but the first, of what the one before left.
    pub fn coordinates(&mut self, linear: &str, axes: &[AxisId]) -> Vec<String> {
        let mut rest = linear.to_string();
        let mut coordinates = Vec::with_capacity(axes.len());
        for axis in axes.iter().skip(1).rev() {
            let extent = self.kernel.axes[axis.index()].extent;
            let above = self.quotient(&rest, extent);
            coordinates.push(self.remainder(&rest, &above, extent));
            rest = above;
        }
        coordinates.extend(axes.first().map(|_| rest));
        coordinates.reverse();
        coordinates
    }

    /// Defines `column`, `row` and `batch` from their row-major index.
    pub fn tile(&mut self, index: &str, rows: usize, columns: usize) {
        let rest = self.quotient(index, columns);
        let batch = self.quotient(&rest, rows);
        let values = [self.remainder(index, &rest, columns), self.remainder(&rest, &batch, rows), batch];
        for (name, value) in ["column", "row", "batch"].into_iter().zip(values) {
            let line = self.dialect.define(name, self.dialect.position_type(), &value);
            self.out.line(line);
        }
    }

    /// Defines the quotient of a position and a constant; gives its name.
    fn quotient(&mut self, position: &str, by: usize) -> String {
        let name = self.fresh("over");
        let value = self.dialect.quotient(position, by.max(1));
        let line = self.dialect.define(&name, self.dialect.position_type(), &value);
        self.out.line(line);
        name
    }

    /// What a division with this quotient leaves.
    fn remainder(&self, position: &str, quotient: &str, by: usize) -> String {
        format!("{position} - {quotient} * {}", self.dialect.position(by as i64))
    }

    /// Defines the positions of axes from their row-major index `linear`; the
    /// innermost axis differs in the lanes.
    pub fn positions(&mut self, linear: &str, axes: &[AxisId], coarsening: usize) {
        let ty = self.dialect.position_type();
        let last = axes.last().copied().filter(|_| coarsening > 1);
        for (&axis, value) in axes.iter().zip(self.coordinates(linear, axes)) {
            let mut elem: ElementIndex = Default::default();
            let has_lanes = last == Some(axis);
            let first = if has_lanes { self.axis(axis, elem) } else { format!("i{}", axis.0) };
            self.out.line(self.dialect.define(&first, ty, &value));
            for number in 1..if has_lanes { coarsening } else { 1 } {
                let Some(group) = self.coarsening.group[axis.index()] else {
                    panic!("i{} has no lanes", axis.0)
                };
                elem[group as usize] = number;
                let line = self.dialect.define(&self.axis(axis, elem), ty, &format!("{first} + {number}"));
                self.out.line(line);
            }
        }
    }
}
