//! Long sums by blocks: an invocation that takes many elements in one after the other begins a
//! new state every so many, and joins those in a second level.

use crate::kernel::ExprId;
use crate::render::c_like::emit::Emitter;
use crate::render::c_like::reduction_state::MonoidEmitter;

/// Iterations of a loop that are summed one after the other: those of more are summed in blocks of
/// so many, and the blocks in a second level, so that the error grows with neither number alone.
const BLOCK_ITERATIONS: usize = 32;

/// What a long loop joins its blocks to.
pub(super) struct BlockTotals {
    /// Of each reduction, the prefix of the total's names; `None` where nothing is rounded.
    prefixes: Vec<Option<String>>,
    /// The iterations in the current block.
    taken: String,
}

impl<'k> Emitter<'k> {
    /// Declares states for the blocks of a long loop, where an error would grow with its length,
    /// and the number of iterations of the current one; gives the prefixes of all their names.
    pub(super) fn open_totals(&mut self, level: u8, reductions: &[ExprId]) -> Option<BlockTotals> {
        let sharing = if level == 1 { self.reduction_threads } else { 1 };
        let iterations = self.kernel.level_points(level).div_ceil(sharing * self.coarsening_of(level));
        let rounds = reductions.iter().any(|&id| self.rounding_monoid(id).is_some());
        if iterations <= 2 * BLOCK_ITERATIONS || !rounds {
            return None;
        }
        let declare = |this: &mut Self, id: &ExprId| {
            this.rounding_monoid(*id).map(|monoid| this.declare_state(monoid, this.mask(*id)))
        };
        let prefixes = reductions.iter().map(|id| declare(self, id)).collect();
        let taken = self.fresh("taken");
        let line = self.dialect.variable(&taken, self.dialect.position_type(), "0");
        self.out.line(line);
        Some(BlockTotals { prefixes, taken })
    }

    fn rounding_monoid(&self, id: ExprId) -> Option<MonoidEmitter<'k>> {
        let (monoid, x) = self.reduction(id);
        Some(self.monoid_emitter(monoid, x)).filter(MonoidEmitter::rounds)
    }

    /// At the end of an iteration: joins a full block to the total and begins the next.
    pub(super) fn close_block(
        &mut self,
        reductions: &[ExprId],
        states: &[String],
        totals: Option<&BlockTotals>,
    ) {
        let Some(totals) = totals else { return };
        let taken = &totals.taken;
        self.out.line(format!("{taken} = {taken} + 1;"));
        self.out.open(format!("if ({taken} == {BLOCK_ITERATIONS})"));
        self.out.line(format!("{taken} = 0;"));
        self.each_total(reductions, states, totals, |this, monoid, own, total| {
            monoid.merge(total, own).iter().for_each(|line| this.out.line(line));
            for (component, name) in monoid.components().iter().zip(own) {
                let nothing = this.dialect.constant(component.dtype, component.identity);
                this.out.line(format!("{name} = {nothing};"));
            }
        });
        self.out.close();
    }

    /// After the loop: joins the last block and the total.
    pub(super) fn join_blocks(&mut self, reductions: &[ExprId], states: &[String], totals: &BlockTotals) {
        self.each_total(reductions, states, totals, |this, monoid, own, total| {
            monoid.merge(total, own).iter().for_each(|line| this.out.line(line));
            for (own, total) in own.iter().zip(total) {
                this.out.line(format!("{own} = {total};"));
            }
        });
    }

    /// Calls `join` with the names of each state and of its total.
    fn each_total(
        &mut self,
        reductions: &[ExprId],
        states: &[String],
        totals: &BlockTotals,
        join: impl Fn(&mut Self, MonoidEmitter<'k>, &[String], &[String]),
    ) {
        for ((&id, own), total) in reductions.iter().zip(states).zip(&totals.prefixes) {
            let (Some(monoid), Some(total)) = (self.rounding_monoid(id), total) else { continue };
            let mask = self.mask(id);
            for elem in self.elements(mask) {
                let own = self.state_names(monoid, own, mask, elem);
                let total = self.state_names(monoid, total, mask, elem);
                join(self, monoid, &own, &total);
            }
        }
    }
}
