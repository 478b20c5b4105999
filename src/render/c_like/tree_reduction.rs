//! Tree reductions: the states of the threads that share a row become one that all of them have.

use crate::render::c_like::emit::Emitter;
use crate::render::c_like::reduction_state::MonoidEmitter;

impl Emitter<'_> {
    /// Merges the states of a workgroup in a tree; all threads have the result then.
    pub(super) fn tree_reduce(&mut self, monoid: MonoidEmitter<'_>, names: &[String]) {
        let components = monoid.components();
        if self.warp > 1 && components.iter().all(|component| self.dialect.exchanges(component.dtype)) {
            return self.reduce_within_warps(monoid, names, self.warp);
        }
        let shared: Vec<String> = (components.iter().enumerate())
            .map(|(k, component)| self.shared(k, self.dialect.register(component.dtype)))
            .collect();
        let barrier = self.dialect.barrier();
        let put = |this: &mut Self| {
            for (array, name) in shared.iter().zip(names) {
                this.out.line(format!("{array}[lane] = {name};"));
            }
        };
        put(self);
        self.out.line(&barrier);
        let mut step = self.reduction_threads / 2;
        while step > 0 {
            self.out.open(format!("if (lane < {step})"));
            let other: Vec<String> = shared.iter().map(|array| format!("{array}[lane + {step}]")).collect();
            for line in monoid.merge(names, &other) {
                self.out.line(line);
            }
            put(self);
            self.out.close();
            self.out.line(&barrier);
            step /= 2;
        }
        for (array, name) in shared.iter().zip(names) {
            self.out.line(format!("{name} = {array}[0];"));
        }
        self.out.line(&barrier);
    }

    /// An array that the workgroup shares, with one element an invocation.
    fn shared(&mut self, component: usize, ty: &'static str) -> String {
        let name = format!("shared_{ty}_{component}");
        if !self.shared.iter().any(|(known, _)| *known == name) {
            self.shared.push((name.clone(), ty));
        }
        name
    }

    /// Merges by exchange within each warp, then the first lanes' results
    /// through shared memory.
    fn reduce_within_warps(&mut self, monoid: MonoidEmitter<'_>, names: &[String], warp: usize) {
        let lanes = self.reduction_threads.min(warp);
        let mut distance = lanes / 2;
        while distance > 0 {
            let other =
                self.exchange(&monoid, names, &|this, name| this.dialect.lane_above(lanes, name, distance));
            monoid.merge(names, &other).iter().for_each(|line| self.out.line(line));
            self.out.close();
            distance /= 2;
        }
        if self.reduction_threads > warp {
            self.reduce_across_warps(&monoid, names, warp);
        } else {
            for name in names {
                let first = self.dialect.first_lane(lanes, name);
                self.out.line(format!("{name} = {first};"));
            }
        }
    }

    /// Opens a block in which the values that others hold have names.
    fn exchange(
        &mut self,
        monoid: &MonoidEmitter<'_>,
        names: &[String],
        value: &dyn Fn(&Self, &str) -> String,
    ) -> Vec<String> {
        self.out.open("");
        let mut other = Vec::new();
        for (component, name) in monoid.components().iter().zip(names) {
            let (own, ty) = (format!("other_{name}"), self.dialect.register(component.dtype));
            let line = self.dialect.define(&own, ty, &value(self, name));
            self.out.line(line);
            other.push(own);
        }
        other
    }

    /// Every lane merges the results of all warps, in their order.
    fn reduce_across_warps(&mut self, monoid: &MonoidEmitter<'_>, names: &[String], warp: usize) {
        let shared: Vec<String> = (monoid.components().iter().enumerate())
            .map(|(k, component)| self.shared(k, self.dialect.register(component.dtype)))
            .collect();
        let barrier = self.dialect.barrier();
        self.out.open(format!("if (lane % {warp} == 0)"));
        for (array, name) in shared.iter().zip(names) {
            self.out.line(format!("{array}[lane / {warp}] = {name};"));
        }
        self.out.close();
        self.out.line(&barrier);
        for (array, name) in shared.iter().zip(names) {
            self.out.line(format!("{name} = {array}[0];"));
        }
        let head = self.dialect.for_loop("other", "1", &(self.reduction_threads / warp).to_string(), 1);
        self.out.open(head);
        let other: Vec<String> = shared.iter().map(|array| format!("{array}[other]")).collect();
        monoid.merge(names, &other).iter().for_each(|line| self.out.line(line));
        self.out.close();
        self.out.line(&barrier);
    }
}
