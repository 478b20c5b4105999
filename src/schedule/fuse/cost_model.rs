//! The cost model: when fusion pays, and what a device's kernels can hold.

use smallvec::SmallVec;

use crate::base::DType;
use crate::ir::{NodeId, Op};
use crate::kernel::{Blocker, Expr, ExprNode, Kernel};
use crate::schedule::fuse::{FusionGroup, FusionState, GroupId, GroupReaders};
use crate::schedule::fusion_class::{FusionClass, is_product, read_operands};

/// Scalar operations worth one byte of memory traffic.
const FLOPS_PER_BYTE: u64 = 8;
/// Scalar operations that unpack a number: shifts, masks, casts, a scale and an offset.
const MOST_UNPACKING: u64 = 16;
/// Below this many points, occupancy does not matter.
const SMALL: usize = 1 << 16;

impl FusionState<'_> {
    pub(super) fn fed_by_contraction(&self, id: NodeId) -> bool {
        let mut pending: SmallVec<[(NodeId, u32); 8]> = smallvec::smallvec![(id, 0)];
        while let Some((node, depth)) = pending.pop() {
            if is_product(&self.graph.node(node).op) {
                return true;
            }
            let through =
                matches!(self.classes[node.index()], FusionClass::Pointwise | FusionClass::Movement);
            let own = node == id || self.uses[node.index()] == 1;
            if through && own && depth < 8 {
                let below = read_operands(self.graph.node(node)).iter();
                pending.extend(below.map(|&operand| (operand, depth + 1)));
            }
        }
        false
    }

    /// Whether computing the value in each kernel that reads it moves no
    /// more bytes than storing it once.
    pub(super) fn cheap_to_repeat(&self, id: NodeId, readers: &GroupReaders) -> bool {
        let node = self.graph.node(id);
        let (Op::Alu(_) | Op::Cast(_) | Op::Bitcast(_)) = node.op else { return false };
        if readers.len() < 2 {
            return false;
        }
        // A product would repeat the work on its operands once more, per block; unpacking is reading.
        if self.before_product[id.index()] {
            if let Some((loads, flops)) = self.unpacking(id) {
                return self.repeats(id, readers, flops, (loads, 0));
            }
            if !self.widens(id) {
                return false;
            }
        }
        let flops = if let Op::Alu(op) = node.op { op.flops() } else { 1 };
        let mut loads = 0u64;
        let mut newly_stored = 0u64;
        for &operand in &node.operands {
            let bytes = self.source_bytes(operand);
            loads += bytes;
            let computed =
                matches!(self.classes[operand.index()], FusionClass::Structural | FusionClass::Opaque);
            if computed && self.uses[operand.index()] == 1 {
                newly_stored += 2 * bytes;
            }
        }
        self.repeats(id, readers, flops, (loads, newly_stored))
    }

    /// Whether so many scalar operations an element in each reader, on bytes that are loaded and others
    /// that are stored for it alone, cost no more than storing the value once.
    fn repeats(&self, id: NodeId, readers: &GroupReaders, flops: u64, (loads, stored): (u64, u64)) -> bool {
        let (ty, readers) = (self.graph.ty(id), readers.len() as u64);
        let work = (readers - 1) * ty.shape.numel() as u64 * flops / FLOPS_PER_BYTE;
        readers * loads + stored + work <= loads + readers * ty.bytes() as u64
    }

    /// Whether the value is one of 16 bits as a wider float.
    fn widens(&self, id: NodeId) -> bool {
        let narrow = |&operand: &NodeId| matches!(self.graph.ty(operand).dtype, DType::F16 | DType::BF16);
        let node = self.graph.node(id);
        matches!(node.op, Op::Cast(DType::F32 | DType::F64)) && node.operands.iter().all(narrow)
    }

    /// The bytes loaded and the operations an element of a value that is little work on as many numbers
    /// packed in at most half the bytes, such as a dequantization, or on positions alone. A product repeats it
    /// as if it read the value.
    fn unpacking(&self, id: NodeId) -> Option<(u64, u64)> {
        let ty = self.graph.ty(id);
        let mut visited: SmallVec<[NodeId; 32]> = smallvec::smallvec![id];
        let (mut next, mut work, mut bytes, mut packed) = (0, 0, 0, false);
        while let Some(&node) = visited.get(next) {
            next += 1;
            let (op, own) = (&self.graph.node(node).op, self.graph.ty(node));
            match self.classes[node.index()] {
                FusionClass::Source => continue,
                FusionClass::Movement if !self.stored[node.index()] => {}
                FusionClass::Pointwise if !self.stored[node.index()] => {
                    work += if let Op::Alu(op) = op { op.flops() } else { 1 };
                }
                _ => {
                    bytes += own.bytes();
                    packed |= 2 * own.shape.numel() >= ty.shape.numel();
                    continue;
                }
            }
            if work > MOST_UNPACKING || visited.len() > 32 {
                return None;
            }
            for &below in read_operands(self.graph.node(node)) {
                if !visited.contains(&below) {
                    visited.push(below);
                }
            }
        }
        (bytes == 0 || packed && 2 * bytes <= ty.bytes()).then_some((bytes as u64, work))
    }

    /// Bytes read to have a value: nothing for sources; for movement, no
    /// more than what it moves.
    pub(super) fn source_bytes(&self, id: NodeId) -> u64 {
        let mut node = id;
        let mut bytes = self.graph.ty(id).bytes() as u64;
        while self.classes[node.index()] == FusionClass::Movement && !self.stored[node.index()] {
            node = self.graph.node(node).operands[0];
            bytes = bytes.min(self.graph.ty(node).bytes() as u64);
        }
        if self.classes[node.index()] == FusionClass::Source { 0 } else { bytes }
    }

    /// Whether lowering cannot fail: an elementwise node with one use.
    pub(super) fn joins_freely(&self, number: GroupId, id: NodeId, store: bool) -> bool {
        let pointwise = self.classes[id.index()] == FusionClass::Pointwise;
        let group = self.group(number);
        let free = pointwise && !store && self.uses[id.index()] == 1 && !group.contraction;
        free && !(group.structural && self.reads_padding(id))
    }

    /// Whether the node is computed from a padded value, as what concatenates is, on a device where reads
    /// under conditions are slow.
    fn reads_padding(&self, id: NodeId) -> bool {
        let padded = |&operand: &NodeId| {
            let mut node = operand;
            while self.classes[node.index()] == FusionClass::Movement && !self.stored[node.index()] {
                if matches!(self.graph.node(node).op, Op::Pad(_)) {
                    return true;
                }
                node = self.graph.node(node).operands[0];
            }
            false
        };
        let pointwise = self.classes[id.index()] == FusionClass::Pointwise;
        let slow = !(self.context.capabilities)(self.graph.ty(id).device).cheap_guards;
        pointwise && slow && self.graph.node(id).operands.iter().any(padded)
    }

    /// Refuses what a kernel would read under conditions in each of several passes over its rows.
    pub(super) fn check_guarded_rows(&self, id: NodeId, kernel: &Kernel) -> Result<(), Blocker> {
        let rows = self.reads_padding(id) && has_guarded_rows(kernel);
        if rows { Err(Blocker::GuardedRows) } else { Ok(()) }
    }

    /// Refuses expensive work that the kernel would repeat for every element of an
    /// expansion. Row kernels hoist such work out of their rows.
    pub(super) fn check_recomputation(&self, group: &FusionGroup, id: NodeId) -> Result<(), Blocker> {
        let node = self.graph.node(id);
        let Op::Alu(op) = &node.op else { return Ok(()) };
        let widest = group.roots.iter().map(|&root| self.graph.ty(root).shape.numel()).max().unwrap_or(0);
        let own = node.ty.shape.numel().max(1);
        let rows = group.structural && !group.contraction;
        if op.flops() >= 10 && widest / own >= 4 && widest > SMALL && !rows {
            return Err(Blocker::Expanded { times: widest / own });
        }
        Ok(())
    }

    pub(super) fn check_limits(&self, kernel: &Kernel, roots: &[NodeId]) -> Result<(), Blocker> {
        let capabilities = (self.context.capabilities)(self.graph.ty(roots[0]).device);
        let found = kernel.inputs.len() + kernel.stores.len();
        if found > capabilities.max_bindings {
            return Err(Blocker::Bindings { found, limit: capabilities.max_bindings });
        }
        if !capabilities.cheap_guards && has_guarded_epilogue(kernel) {
            return Err(Blocker::GuardedEpilogue);
        }
        let (rows, extent) = (kernel.level_points(0), kernel.level_points(1));
        let stores_rows = kernel.is_elementwise() && kernel.stores.iter().any(|s| s.level > 0);
        if stores_rows && rows < 2 * capabilities.workers && rows.saturating_mul(extent) > SMALL {
            return Err(Blocker::TooFewRows { rows, extent });
        }
        Ok(())
    }
}

/// Whether a large contraction's kernel reads under conditions beside its result, such as what a stride's gradient
/// puts zeros between.
fn has_guarded_epilogue(kernel: &Kernel) -> bool {
    let guarded = |node: &ExprNode| {
        node.level == 0 && node.expr.load().is_some_and(|(_, access)| !access.guard.is_always())
    };
    kernel.contraction().is_some() && kernel.level_points(0) > SMALL && kernel.exprs.iter().any(guarded)
}

/// Whether a large kernel goes over rows several times and reads under conditions that differ along them.
fn has_guarded_rows(kernel: &Kernel) -> bool {
    let guarded = |node: &ExprNode| {
        node.level > 0 && node.expr.load().is_some_and(|(_, access)| !access.guard.is_always())
    };
    let along_rows = |node: &&ExprNode| matches!(node.expr, Expr::Reduce(..)) && node.level == 0;
    let passes =
        kernel.exprs.iter().filter(along_rows).count() + kernel.stores.iter().filter(|s| s.level > 0).count();
    kernel.is_elementwise() && kernel.points(1) > SMALL && passes > 1 && kernel.exprs.iter().any(guarded)
}
