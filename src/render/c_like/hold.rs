//! Rows that stay in registers: what one loop over them loads or computes at
//! some cost, and a later loop needs, is kept if an invocation's rows are few.
//! A softmax so reads its input once.

use std::ops::Range;

use crate::kernel::{Expr, ExprId};
use crate::render::c_like::emit::{Emitter, Lane};
use crate::render::c_like::turns::written;

/// What is kept from one loop over the rows of level 1 for later ones.
#[derive(Debug)]
pub struct Held {
    /// Iterations of each such loop.
    pub turns: usize,
    /// The values, and whether the loop that computes them was written.
    values: Vec<(ExprId, bool)>,
}

impl Emitter<'_> {
    /// Decides what to keep between loops with these targets, in their order.
    pub(super) fn hold(&mut self, loops: &[Vec<ExprId>]) {
        let rows = self.kernel.level_points(1);
        if rows == 1 {
            // There is no loop.
            return;
        }
        // Few numbers of turns, since each is a text of its own.
        let needed = rows.div_ceil(self.team * self.lanes_of(1));
        let turns = if self.writes_turns { written(needed) } else { Some(needed.next_power_of_two()) };
        let Some(turns) = turns else { return };
        let spans = self.spans(loops);
        let live = |gap: usize| {
            let alive = spans.iter().filter(|(_, span)| span.contains(&gap));
            alive.map(|(id, _)| self.registers(*id)).sum::<usize>()
        };
        let most = (0..loops.len()).map(live).max().unwrap_or(0);
        if most == 0 || most * turns > self.registers_for_rows {
            return;
        }
        let mut values: Vec<(ExprId, bool)> = spans.into_iter().map(|(id, _)| (id, false)).collect();
        values.sort_unstable_by_key(|(id, _)| id.0);
        self.held = Some(Held { turns, values });
        self.declare_held();
    }

    /// What later loops would find kept, each from the loop that computes it to
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
            let dear = self.needed(targets).into_iter().filter(|&id| self.is_dear(id));
            let new: Vec<_> = dear.filter(|id| !known.contains(id)).map(|id| (id, number)).collect();
            before.extend(new);
            before.sort_unstable_by_key(|(id, _)| id.0);
        }
        spans
    }

    /// Whether computing a value again for every row costs more than a register.
    fn is_dear(&self, id: ExprId) -> bool {
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
        self.all_lanes(self.mask(id)).len() * size.div_ceil(4)
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

    fn declare_held(&mut self) {
        for (id, turns) in self.held_values() {
            let ty = self.dialect.register(self.kernel.exprs[id.index()].dtype);
            for lane in self.all_lanes(self.mask(id)) {
                let line = self.dialect.array(&self.held_name(id, lane), ty, turns);
                self.out.line(line);
            }
        }
    }

    fn held_values(&self) -> Vec<(ExprId, usize)> {
        let held = self.held.iter();
        held.flat_map(|held| held.values.iter().map(|(id, _)| (*id, held.turns))).collect()
    }

    fn held_name(&self, id: ExprId, lane: Lane) -> String {
        format!("held_{}", self.name(id, lane))
    }

    /// The values that a loop with these targets finds kept.
    pub(super) fn recalled(&mut self, level: u8, targets: &[ExprId]) -> Vec<ExprId> {
        let kept: Vec<ExprId> = match &self.held {
            Some(held) if level == 1 => {
                held.values.iter().filter(|(_, kept)| *kept).map(|(id, _)| *id).collect()
            }
            Some(_) | None => return Vec::new(),
        };
        self.cut(targets, &kept)
    }

    /// Defines values as what was kept of this turn's row.
    pub(super) fn recall(&mut self, values: &[ExprId]) {
        for &id in values {
            for lane in self.all_lanes(self.mask(id)) {
                let value = self.kept(id, lane);
                self.definition(id, lane, &value);
            }
            self.set_defined(id);
        }
    }

    /// Where a lane's value of this turn is kept.
    fn kept(&self, id: ExprId, lane: Lane) -> String {
        let turn = self.turns.as_ref().map_or("turn".into(), |turns| turns.number.to_string());
        format!("{}[{turn}]", self.held_name(id, lane))
    }

    /// Keeps what this turn computed for the first time.
    pub(super) fn keep(&mut self, level: u8) {
        for id in self.unkept(level) {
            for lane in self.all_lanes(self.mask(id)) {
                let line = format!("{} = {};", self.kept(id, lane), self.name(id, lane));
                self.out.line(line);
            }
        }
    }

    /// What a loop has defined that is to be kept and was not yet.
    pub(super) fn unkept(&self, level: u8) -> Vec<ExprId> {
        let held = self.held.iter().filter(|_| level == 1).flat_map(|held| &held.values);
        held.filter(|(id, kept)| !kept && self.is_defined(*id)).map(|(id, _)| *id).collect()
    }

    /// These values are kept from here on.
    pub(super) fn set_kept(&mut self, values: &[ExprId]) {
        for (id, kept) in self.held.iter_mut().flat_map(|held| &mut held.values) {
            *kept |= values.contains(id);
        }
    }
}
