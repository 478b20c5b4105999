//! The states of reductions and scans: variables, how they take an element
//! in, how two merge, and what they finish as.

use crate::base::{DType, Kind};
use crate::ir::monoid::int_range;
use crate::ir::{AluOp, Monoid};
use crate::kernel::{Expr, ExprId};
use crate::render::c_like::Dialect;
use crate::render::c_like::emit::{ElementIndex, Emitter};

/// One variable of a state: its type and what it is for no elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// The variable's type.
    pub dtype: DType,
    /// The bits, as that type, of the state of no elements.
    pub identity: u64,
}

/// A monoid over elements of a type, in a language.
#[derive(Clone, Copy)]
pub struct MonoidEmitter<'d> {
    /// The language.
    pub dialect: &'d dyn Dialect,
    /// What combines.
    pub monoid: Monoid,
    /// The elements' type.
    pub dtype: DType,
}

impl MonoidEmitter<'_> {
    /// The type that sums and products are kept in.
    fn accumulator(&self) -> DType {
        match self.dtype {
            DType::U8 => DType::U32,
            DType::Bool
            | DType::I32
            | DType::U32
            | DType::I64
            | DType::F16
            | DType::BF16
            | DType::F32
            | DType::F64 => self.dtype.compute(),
        }
    }

    /// The integers by whose order elements are compared.
    fn rank(&self) -> DType {
        match self.dtype {
            DType::F16 | DType::BF16 | DType::F32 => DType::I32,
            DType::F64 => DType::I64,
            DType::Bool | DType::U8 => DType::U32,
            DType::I32 | DType::U32 | DType::I64 => self.dtype,
        }
    }

    /// A state as a structure whose result is of this type.
    pub fn state_struct(&self, to: DType) -> StateStruct {
        let components = self.components();
        let fields = &FIELDS[..components.len()];
        let of = |state: &str| fields.iter().map(|field| format!("{state}.{field}")).collect::<Vec<_>>();
        let lines = |lines: Vec<String>| lines.iter().map(|line| format!("    {line}\n")).collect();
        let own = of("own");
        let types = components.iter().map(|one| self.dialect.register(one.dtype));
        let identities = components.iter().map(|one| self.dialect.constant(one.dtype, one.identity));
        // No monoid that scans asks where an element is.
        let index = self.dialect.constant(DType::I32, 0);
        StateStruct {
            fields: fields.iter().copied().zip(types).collect(),
            nothing: identities.collect::<Vec<_>>().join(", "),
            with_element: lines(self.update(&own, "x", &index)),
            merged: lines(self.merge(&own, &of("after"))),
            result: self.finish(&own, to),
            own,
        }
    }

    /// The variables of a state.
    pub fn components(&self) -> Vec<Component> {
        let float = |dtype: DType, x: f64| Component {
            dtype,
            identity: crate::base::Scalar::Float(x).to_bits(dtype),
        };
        let int = |dtype: DType, x: i64| Component { dtype, identity: x as u64 };
        let of = self.accumulator();
        match self.monoid {
            Monoid::Sum => vec![int(of, 0)],
            Monoid::Prod if of.is_float() => vec![float(of, 1.0)],
            Monoid::Prod => vec![int(of, 1)],
            Monoid::Max => vec![int(self.rank(), self.extreme(true))],
            Monoid::Min => vec![int(self.rank(), self.extreme(false))],
            Monoid::ArgMax | Monoid::ArgMin => vec![int(self.rank(), 0), int(DType::I32, -1)],
            Monoid::M2 => vec![float(of, 0.0); 4],
            Monoid::LogSumExp => vec![float(of, f64::NEG_INFINITY), float(of, 0.0)],
        }
    }

    /// The rank of the identity of the maximum (`least`) or the minimum.
    fn extreme(&self, least: bool) -> i64 {
        match self.dtype {
            // Ranks of infinities: their bits as integers, mirrored if negative.
            DType::F16 | DType::BF16 | DType::F32 => {
                if least {
                    i64::from(!0x7f80_0000i32)
                } else {
                    0x7f80_0000
                }
            }
            DType::F64 => {
                if least {
                    !0x7ff0_0000_0000_0000i64
                } else {
                    0x7ff0_0000_0000_0000
                }
            }
            DType::Bool | DType::U8 | DType::I32 | DType::U32 | DType::I64 => {
                let (low, high) = int_range(self.dtype);
                if least { low } else { high }
            }
        }
    }

    /// An element as what it is compared by. `Max` and `Min` tell zeros
    /// apart; the arguments of extremes do not.
    fn ranked(&self, x: &str) -> String {
        let function = match self.monoid {
            Monoid::Max => "rank_max",
            Monoid::Min => "rank_min",
            Monoid::ArgMax => "rank_argmax",
            Monoid::ArgMin => "rank_argmin",
            Monoid::Sum | Monoid::Prod | Monoid::M2 | Monoid::LogSumExp => {
                panic!("{} compares nothing", self.monoid.name())
            }
        };
        match self.dtype.kind() {
            Kind::Float => self.dialect.call(function, self.dtype, &[x]),
            Kind::Bool => self.dialect.cast(DType::Bool, DType::U32, x),
            Kind::Int => x.to_string(),
        }
    }

    /// Whether an element's rank comes before the best one's.
    fn better(&self, rank: &str, best: &str) -> String {
        let (low, high) = if self.monoid == Monoid::ArgMax { (best, rank) } else { (rank, best) };
        self.alu(AluOp::Lt, self.rank(), low, high)
    }

    fn alu(&self, op: AluOp, dtype: DType, a: &str, b: &str) -> String {
        self.dialect.alu(op, dtype, &[a.to_string(), b.to_string()])
    }

    /// Whether a count of elements is zero.
    fn is_empty(&self, count: &str) -> String {
        self.alu(AluOp::Eq, self.accumulator(), count, &self.dialect.constant(self.accumulator(), 0))
    }

    /// Whether the error of a state grows with the number of its elements, so that many are
    /// better taken in by blocks.
    pub fn rounds(&self) -> bool {
        self.accumulator().is_float() && matches!(self.monoid, Monoid::Sum | Monoid::M2)
    }

    /// The statements by which a state takes in the element `x`, which is at
    /// `index` in the row.
    pub fn update(&self, state: &[String], x: &str, index: &str) -> Vec<String> {
        let of = self.accumulator();
        let assign = |to: &str, value: String| format!("{to} = {value};");
        match self.monoid {
            Monoid::Sum | Monoid::Prod => {
                let op = if self.monoid == Monoid::Sum { AluOp::Add } else { AluOp::Mul };
                vec![assign(&state[0], self.alu(op, of, &state[0], x))]
            }
            Monoid::Max | Monoid::Min => {
                let op = if self.monoid == Monoid::Max { AluOp::Max } else { AluOp::Min };
                vec![assign(&state[0], self.alu(op, self.rank(), &state[0], &self.ranked(x)))]
            }
            Monoid::ArgMax | Monoid::ArgMin => {
                let (best, at, rank) = (&state[0], &state[1], self.ranked(x));
                let better = self.better(&rank, best);
                vec![format!("if ({at} < 0 || {better}) {{ {best} = {rank}; {at} = {index}; }}")]
            }
            Monoid::M2 => {
                let one = self.dialect.constant(of, crate::base::Scalar::Float(1.0).to_bits(of));
                // Welford's update of the elements less the first of them: a mean far from zero
                // would be rounded to more than the deviations.
                let [count, mean, squares, first] = [&state[0], &state[1], &state[2], &state[3]];
                let gap = self.alu(AluOp::Sub, of, &self.alu(AluOp::Sub, of, x, first), mean);
                let step = self.alu(AluOp::Div, of, &gap, count);
                // With the mean before, the squares grow by the gap before
                // and after; so the squares come first.
                let after = self.alu(AluOp::Sub, of, &gap, &step);
                let product = self.alu(AluOp::Mul, of, &gap, &after);
                vec![
                    format!("if ({}) {{ {first} = {x}; }}", self.is_empty(count)),
                    assign(count, self.alu(AluOp::Add, of, count, &one)),
                    assign(squares, self.alu(AluOp::Add, of, squares, &product)),
                    assign(mean, self.alu(AluOp::Add, of, mean, &step)),
                ]
            }
            Monoid::LogSumExp => {
                let one = self.dialect.constant(of, crate::base::Scalar::Float(1.0).to_bits(of));
                self.merge_exponentials(state, x, &one)
            }
        }
    }

    /// The sum or product of several elements, in pairs of pairs, so that they do not
    /// wait for each other; `None` for other monoids.
    pub fn together(&self, mut elements: Vec<String>) -> Option<String> {
        let op = match self.monoid {
            Monoid::Sum => AluOp::Add,
            Monoid::Prod => AluOp::Mul,
            Monoid::Max | Monoid::Min | Monoid::ArgMax | Monoid::ArgMin => return None,
            Monoid::M2 | Monoid::LogSumExp => return None,
        };
        let both = |pair: &[String]| match pair {
            [x, y] => self.alu(op, self.accumulator(), x, y),
            _ => pair.concat(),
        };
        while elements.len() > 1 {
            elements = elements.chunks(2).map(both).collect();
        }
        elements.pop()
    }

    fn merge_exponentials(&self, state: &[String], largest: &str, sum: &str) -> Vec<String> {
        let of = self.accumulator();
        let most = self.alu(AluOp::Max, of, &state[0], largest);
        let own = self.dialect.call("weight", of, &[&state[0], &most]);
        let other = self.dialect.call("weight", of, &[largest, &most]);
        let own = self.alu(AluOp::Mul, of, &state[1], &own);
        let other = self.alu(AluOp::Mul, of, sum, &other);
        vec![
            format!("{} = {};", state[1], self.alu(AluOp::Add, of, &own, &other)),
            format!("{} = {most};", state[0]),
        ]
    }

    /// The statements by which a state takes in another.
    pub fn merge(&self, state: &[String], other: &[String]) -> Vec<String> {
        let of = self.accumulator();
        match self.monoid {
            Monoid::Sum | Monoid::Prod => {
                let op = if self.monoid == Monoid::Sum { AluOp::Add } else { AluOp::Mul };
                vec![format!("{} = {};", state[0], self.alu(op, of, &state[0], &other[0]))]
            }
            Monoid::Max | Monoid::Min => {
                let op = if self.monoid == Monoid::Max { AluOp::Max } else { AluOp::Min };
                vec![format!("{} = {};", state[0], self.alu(op, self.rank(), &state[0], &other[0]))]
            }
            Monoid::ArgMax | Monoid::ArgMin => {
                let [best, at, rank, index] = [&state[0], &state[1], &other[0], &other[1]];
                let (better, tie) = (self.better(rank, best), self.alu(AluOp::Eq, self.rank(), rank, best));
                vec![format!(
                    "if ({index} >= 0 && ({at} < 0 || {better} || ({tie} && {index} < {at}))) {{ {best} = {rank}; {at} = {index}; }}"
                )]
            }
            Monoid::M2 => {
                // The other's mean, from the own first element.
                let between = self.alu(AluOp::Sub, of, &other[3], &state[3]);
                let mean = self.alu(AluOp::Add, of, &between, &other[1]);
                let parts = [&state[0], &state[1], &state[2], &other[0], &mean, &other[2]];
                let names = parts.map(String::as_str);
                let merged = |part: &str| self.dialect.call(part, of, &names);
                vec![
                    format!("if ({}) {{ {} = {}; }}", self.is_empty(&state[0]), state[3], other[3]),
                    format!("{} = {};", state[2], merged("merged_squares")),
                    format!("{} = {};", state[1], merged("merged_mean")),
                    format!("{} = {};", state[0], self.alu(AluOp::Add, of, &state[0], &other[0])),
                ]
            }
            Monoid::LogSumExp => self.merge_exponentials(state, &other[0], &other[1]),
        }
    }

    /// The result of a state, as elements of type `to`.
    pub fn finish(&self, state: &[String], to: DType) -> String {
        match self.monoid {
            Monoid::Sum | Monoid::Prod => self.dialect.cast(self.accumulator(), to.compute(), &state[0]),
            Monoid::Max | Monoid::Min => match self.dtype.kind() {
                Kind::Float => self.dialect.call("unrank", self.dtype, &[&state[0]]),
                Kind::Bool => self.dialect.cast(DType::U32, DType::Bool, &state[0]),
                Kind::Int => state[0].clone(),
            },
            Monoid::ArgMax | Monoid::ArgMin => {
                let first = self.alu(AluOp::Max, DType::I32, &state[1], "0");
                self.dialect.cast(DType::I32, to, &first)
            }
            Monoid::M2 => state[2].clone(),
            Monoid::LogSumExp => self.dialect.call("finish_logsumexp", self.dtype, &[&state[0], &state[1]]),
        }
    }
}

/// Names of a state's components.
const FIELDS: [&str; 4] = ["a", "b", "c", "d"];

/// The text of a state as a structure `own`, and of what is done to it, line by line.
pub struct StateStruct {
    /// Names and types of the fields.
    pub fields: Vec<(&'static str, &'static str)>,
    /// The fields of `own`.
    pub own: Vec<String>,
    /// The fields of the state of no elements.
    pub nothing: String,
    /// Takes the element `x` in.
    pub with_element: String,
    /// Takes the state `after` in.
    pub merged: String,
    /// The result.
    pub result: String,
}

impl<'k> Emitter<'k> {
    /// The monoid of a reduction or scan over `x`.
    pub(super) fn monoid_emitter(&self, monoid: Monoid, x: ExprId) -> MonoidEmitter<'k> {
        MonoidEmitter { dialect: self.dialect, monoid, dtype: self.kernel.exprs[x.index()].dtype }
    }

    /// Declares a state's variables for all elements of a mask; gives the
    /// prefix of their names.
    pub(super) fn declare_state(&mut self, monoid: MonoidEmitter<'k>, mask: u8) -> String {
        let prefix = self.fresh("s");
        for elem in self.elements(mask) {
            let names = self.state_names(monoid, &prefix, mask, elem);
            for (component, name) in monoid.components().iter().zip(names) {
                let ty = self.dialect.register(component.dtype);
                let value = self.dialect.constant(component.dtype, component.identity);
                let line = self.dialect.variable(&name, ty, &value);
                self.out.line(line);
            }
        }
        prefix
    }

    /// The names of a state's variables in a lane.
    pub(super) fn state_names(
        &self,
        monoid: MonoidEmitter<'k>,
        prefix: &str,
        mask: u8,
        elem: ElementIndex,
    ) -> Vec<String> {
        let suffix = super::emit::suffix(mask, elem);
        (0..monoid.components().len()).map(|k| format!("{prefix}{}{suffix}", FIELDS[k])).collect()
    }

    /// One step of a scan: takes the element in and defines the running result.
    pub(super) fn scan_step(&mut self, id: ExprId, monoid: Monoid, x: ExprId) {
        let monoid = self.monoid_emitter(monoid, x);
        let Some(prefix) = self.scans[id.index()].clone() else { panic!("%{} scans outside its rows", id.0) };
        let level = self.kernel.exprs[id.index()].level;
        let state_mask = self.mask(id) & !self.level_mask(level);
        let to = self.kernel.exprs[id.index()].dtype;
        for elem in self.elements(self.mask(id)) {
            let names = self.state_names(monoid, &prefix, state_mask, elem);
            let index = self.row_index(level, elem);
            for line in monoid.update(&names, &self.name(x, elem), &index) {
                self.out.line(line);
            }
            let value = monoid.finish(&names, to);
            self.definition(id, elem, &value);
        }
    }

    /// The operand and monoid of a reduction.
    pub(super) fn reduction(&self, id: ExprId) -> (Monoid, ExprId) {
        let Expr::Reduce(monoid, x) = self.kernel.expr(id) else { panic!("%{} is no reduction", id.0) };
        (*monoid, *x)
    }
}
