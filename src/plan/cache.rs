//! The plan cache.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::Optimization;
use crate::plan::build::Plan;
use crate::plan::key::{KeyValues, Skeleton, shrink};

/// Plans kept before all are forgotten.
const MAX_PLANS: usize = 4096;

/// A plan for some values, and which scalars it takes as arguments.
#[derive(Clone, Debug)]
struct Specialisation {
    values: KeyValues,
    lifted: Vec<bool>,
    plan: Arc<Plan>,
}

/// The scalars that a graph had last, and which of them ever changed.
#[derive(Debug, Default)]
struct ChangingScalars {
    last: Vec<u64>,
    changed: Vec<bool>,
}

/// The plans of a context.
#[derive(Debug, Default)]
pub struct PlanCache {
    skeletons: HashMap<Skeleton, Vec<Specialisation>>,
    /// By graph, whatever memory its leaves are in.
    changing: HashMap<u64, ChangingScalars>,
    count: usize,
}

/// What the cache says about a key.
pub enum Lookup {
    /// A plan that applies.
    Hit(Arc<Plan>),
    /// None applies.
    Miss {
        /// The scalars that one built now should take as arguments.
        lifted: Vec<bool>,
        /// A plan for other sizes, whose decisions suit these.
        template: Option<Arc<Plan>>,
    },
}

impl PlanCache {
    /// A plan for a key.
    pub fn hit(&self, skeleton: &Skeleton, values: &KeyValues) -> Option<Arc<Plan>> {
        let hit = self.known(skeleton).iter().find(|known| known.applies(values));
        hit.map(|hit| hit.plan.clone())
    }

    fn known(&self, skeleton: &Skeleton) -> &[Specialisation] {
        self.skeletons.get(skeleton).map_or(&[], Vec::as_slice)
    }

    /// A plan for a key, or what to know for building one.
    pub fn look_up(&mut self, skeleton: &Skeleton, values: &KeyValues) -> Lookup {
        if let Some(plan) = self.hit(skeleton, values) {
            return Lookup::Hit(plan);
        }
        let suits = |known: &&Specialisation| Optimization::PlanReuse.is_on() && known.suits(values);
        let template = self.known(skeleton).iter().find(suits);
        let template = template.map(|known| known.plan.clone());
        let lifted = self.changing.entry(skeleton.graph()).or_default().update(values);
        Lookup::Miss { lifted, template }
    }

    /// Keeps a plan; the first of two that two threads built wins.
    pub fn keep(
        &mut self,
        mut skeleton: Skeleton,
        mut values: KeyValues,
        lifted: Vec<bool>,
        plan: Arc<Plan>,
    ) -> Arc<Plan> {
        shrink(&mut skeleton, &mut values);
        if self.count >= MAX_PLANS {
            *self = PlanCache::default();
        }
        let known = self.skeletons.entry(skeleton).or_default();
        if let Some(first) = known.iter().find(|known| known.applies(&values)) {
            return first.plan.clone();
        }
        // The newest lifts the most and so applies most often.
        known.insert(0, Specialisation { values, lifted, plan: plan.clone() });
        self.count += 1;
        plan
    }

    /// Plans there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.count
    }
}

impl ChangingScalars {
    /// Records a graph's scalars; gives those to take as arguments: what
    /// differed once will differ again.
    fn update(&mut self, values: &KeyValues) -> Vec<bool> {
        let KeyValues { scalars, arguments, .. } = values;
        if self.last.len() != scalars.len() {
            *self = ChangingScalars { last: scalars.clone(), changed: arguments.clone() };
        }
        let constants = self.changed.iter_mut().zip(&mut self.last).zip(scalars.iter().zip(arguments));
        for ((changed, last), (&bits, argument)) in constants {
            *changed |= *argument || *last != bits;
            *last = bits;
        }
        self.changed.clone()
    }
}

impl Specialisation {
    /// Whether decisions for these sizes suit others: they were searched for,
    /// and no size is many times another.
    fn suits(&self, values: &KeyValues) -> bool {
        const MOST: u64 = 16;
        let near = |mine: u64, theirs: u64| {
            let (low, high) = (mine.min(theirs), mine.max(theirs));
            low == high || (low > 1 && high <= low.saturating_mul(MOST))
        };
        !self.plan.schedule.from_template && self.values.fixed_agree(values, near)
    }

    fn applies(&self, values: &KeyValues) -> bool {
        self.values.fixed == values.fixed
            && self
                .lifted
                .iter()
                .zip(&self.values.scalars)
                .zip(&values.scalars)
                .all(|((&lifted, mine), theirs)| lifted || mine == theirs)
    }
}
