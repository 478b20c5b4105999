//! Where loads and stores go.

use crate::base::DType;
use crate::kernel::{Access, Affine, BoundsCheck, ExprId, Guard, Within};
use crate::render::c_like::emit::{ElementIndex, Emitter, GROUPS};

impl Emitter<'_> {
    /// Whether a condition on the axes holds; `None` if it always does.
    pub(super) fn inside(&self, within: &Within, elem: ElementIndex) -> Option<String> {
        let (low, high) = within.value.range(&self.kernel.axes);
        let value = self.affine(&within.value, elem);
        let below = (low < within.low).then(|| format!("{value} >= {}", self.dialect.position(within.low)));
        let above =
            (high >= within.high).then(|| format!("{value} < {}", self.dialect.position(within.high)));
        match (below, above) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => Some(format!("({one})")),
            (Some(below), Some(above)) => Some(format!("({below} && {above})")),
        }
    }

    /// When a load may happen; `None` if always.
    pub fn open(&self, guard: &Guard, elem: ElementIndex) -> Option<String> {
        let mut parts: Vec<String> = guard.within.iter().filter_map(|w| self.inside(w, elem)).collect();
        parts.extend(guard.masks.iter().map(|&mask| self.name(mask, elem)));
        (!parts.is_empty()).then(|| parts.join(" && "))
    }

    /// Defines what a load gives.
    pub(super) fn load(&mut self, id: ExprId, slot: u32, access: &Access) {
        if self.vec4.0[slot as usize]
            && let Some(group) = self.vector_dim(&access.affine)
            && access.dynamic.is_empty()
        {
            return self.load_vector(id, slot, access, group);
        }
        for elem in self.elements(self.mask(id)) {
            let value = self.load_one(slot, access, elem);
            self.definition(id, elem, &value);
        }
    }

    /// The group whose lanes are neighbours in memory at this address.
    pub fn vector_dim(&self, address: &Affine) -> Option<usize> {
        (0..GROUPS).find(|&group| {
            self.coarsening.consecutive[group].is_some_and(|axis| address.coefficient(axis) == 1)
        })
    }

    fn load_one(&mut self, slot: u32, access: &Access, elem: ElementIndex) -> String {
        let dtype = self.kernel.inputs[slot as usize].dtype;
        let zero = self.dialect.constant(dtype, 0);
        if self.kernel.inputs[slot as usize].numel == 0 {
            return zero;
        }
        let open = self.open(&access.guard, elem).map(|condition| {
            let name = self.fresh("open");
            let line = self.dialect.define(&name, self.dialect.register(DType::Bool), &condition);
            self.out.line(line);
            name
        });
        let mut address = self.affine(&access.affine, elem);
        for part in &access.dynamic {
            let wide = self.name(part.index, elem);
            let index = if part.checked {
                self.checked(part.index, elem, part.extent, open.as_deref())
            } else {
                self.dialect.narrow(&wide, self.kernel.exprs[part.index.index()].dtype)
            };
            address = format!("{address} + {index} * {}", self.dialect.position(part.stride));
        }
        match open {
            None => self.dialect.load(slot, &address),
            Some(open) => {
                let safe = self.dialect.select(&open, &address, "0");
                let value = self.dialect.load(slot, &safe);
                self.dialect.select(&open, &value, &zero)
            }
        }
    }

    /// Defines a value beside whose computation an index is checked.
    pub(super) fn bounded(&mut self, id: ExprId, value: ExprId, bounded: &BoundsCheck) {
        for elem in self.elements(self.mask(bounded.index)) {
            self.checked(bounded.index, elem, bounded.extent, None);
        }
        for elem in self.elements(self.mask(id)) {
            let value = self.name(value, elem);
            self.definition(id, elem, &value);
        }
    }

    /// The name of an index clamped to its axis, reported if that changed it.
    fn checked(&mut self, index: ExprId, elem: ElementIndex, extent: usize, open: Option<&str>) -> String {
        let (given, of) = (self.name(index, elem), self.kernel.exprs[index.index()].dtype);
        let name = self.fresh("at");
        let position = self.dialect.position_type();
        let clamped = self.dialect.clamp(&given, of, extent);
        let line = self.dialect.define(&name, position, &clamped);
        self.out.line(line);
        let changed = self.dialect.differ(of, &given, &self.as_index(&name, of));
        let condition = open.map_or(changed.clone(), |open| format!("{open} && {changed}"));
        self.out.open(format!("if ({condition})"));
        let report = self.dialect.report(&given, of, extent);
        self.out.line(report);
        self.out.close();
        name
    }

    /// A position as an index of a type.
    pub fn as_index(&self, position: &str, of: DType) -> String {
        if of == DType::I32 { position.into() } else { self.dialect.widen(position) }
    }

    /// Loads neighbours by vec4 or vec8 accesses. The guard, if any, is the same for all of
    /// a group's lanes.
    fn load_vector(&mut self, id: ExprId, slot: u32, access: &Access, group: usize) {
        const EIGHT: [&str; 8] = ["low.x", "low.y", "low.z", "low.w", "high.x", "high.y", "high.z", "high.w"];
        let dtype = self.kernel.inputs[slot as usize].dtype;
        let zero = self.dialect.constant(dtype, 0);
        let vec8 = self.vec8.0[slot as usize];
        let parts: &[&str] = if vec8 { &EIGHT } else { &["x", "y", "z", "w"] };
        let firsts = self.elements(self.mask(id)).into_iter().filter(|elem| elem[group] % parts.len() == 0);
        let mut runs = Runs { group, count: parts.len(), begun: Vec::new() };
        for first in firsts.collect::<Vec<ElementIndex>>() {
            let open = self.open(&access.guard, first);
            let at = match &open {
                None => {
                    runs.at(self, &access.affine, first, &|this, run| this.dialect.vector_index(slot, &run))
                }
                Some(open) => {
                    let address = self.affine(&access.affine, first);
                    let safe = self.dialect.select(open, &address, "0");
                    self.dialect.vector_index(slot, &group_at(&safe, parts.len()))
                }
            };
            let (name, ty, value) = if vec8 {
                (self.fresh("vec8_"), self.dialect.register8(dtype), self.dialect.load8(slot, &at))
            } else {
                (self.fresh("vec4_"), self.dialect.register4(dtype), self.dialect.load4(slot, &at))
            };
            let line = self.dialect.define(&name, &ty, &value);
            self.out.line(line);
            for (offset, part) in parts.iter().enumerate() {
                let mut elem = first;
                elem[group] += offset;
                let value = format!("{name}.{part}");
                let value =
                    open.as_ref().map_or(value.clone(), |open| self.dialect.select(open, &value, &zero));
                self.definition(id, elem, &value);
            }
        }
    }

    /// Writes a store in all lanes, those for which `alive` gives a condition
    /// only where it holds.
    pub fn store(&mut self, number: usize, alive: &dyn Fn(ElementIndex) -> Option<String>) {
        let store = &self.kernel.stores[number];
        let mask = self.mask(store.value) | self.affine_mask(&store.address);
        let four = self.vec4.1[number].then(|| self.vector_dim(&store.address)).flatten();
        let count = if self.vec8.1[number] { 8 } else { 4 };
        let mut runs = Runs { group: four.unwrap_or(0), count, begun: Vec::new() };
        for elem in self.elements(mask) {
            let line = match four {
                Some(group) if elem[group] % count != 0 => continue,
                Some(group) => {
                    let at = runs.at(self, &store.address, elem, &|_, run| run);
                    let value = |offset: usize| {
                        let mut elem = elem;
                        elem[group] += offset;
                        self.name(store.value, elem)
                    };
                    match count {
                        8 => self.dialect.store8(number, &at, &std::array::from_fn(value)),
                        _ => self.dialect.store4(number, &at, &std::array::from_fn(value)),
                    }
                }
                None => {
                    let address = self.affine(&store.address, elem);
                    self.dialect.store(number, &address, &self.name(store.value, elem))
                }
            };
            match alive(elem) {
                None => self.out.line(line),
                Some(condition) => {
                    self.out.open(format!("if ({condition})"));
                    self.out.line(line);
                    self.out.close();
                }
            }
        }
    }
}

/// Runs of groups of neighbours, each with a name for its first group's number
/// ([`Emitter::start`]).
struct Runs {
    /// The lane group along which neighbours lie.
    group: usize,
    /// Neighbours in a group of them.
    count: usize,
    /// The lanes that runs start with, and their names.
    begun: Vec<(ElementIndex, String)>,
}

impl Runs {
    /// The number of the group of neighbours that starts with a lane.
    fn at(
        &mut self,
        emitter: &mut Emitter<'_>,
        address: &Affine,
        elem: ElementIndex,
        begun: &dyn Fn(&Emitter<'_>, String) -> String,
    ) -> String {
        let mut first = elem;
        first[self.group] = 0;
        let known = self.begun.iter().find(|(other, _)| *other == first);
        let name = match known {
            Some((_, name)) => name.clone(),
            None => {
                let value = begun(emitter, group_at(&emitter.affine(address, first), self.count));
                let name = emitter.start(address, value, self.count);
                self.begun.push((first, name.clone()));
                name
            }
        };
        match elem[self.group] / self.count {
            0 => name,
            number => format!("{name} + {number}"),
        }
    }
}

/// The number of the group of `count` neighbours, 4 or 8, that starts at an address. A
/// shift, since compilers do not know that addresses are no less than 0, and
/// division of what may be less takes several operations.
fn group_at(address: &str, count: usize) -> String {
    format!("({address}) >> {}u", count.trailing_zeros())
}
