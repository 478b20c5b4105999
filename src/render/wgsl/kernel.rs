//! The shaders of kernels.

use std::fmt::Write;

use crate::base::DType;
use crate::ir::AluOp;
use crate::kernel::{Affine, AxisId, Contraction, ExprId, Kernel, ScatterStore};
use crate::render::TemplateChoice;
use crate::render::c_like::emit::ElementIndex;
use crate::render::c_like::{Dialect, Emitter, wide};
use crate::render::iterations;
use crate::render::shader::{DISPATCH_START, Pass, StoredTile, Unsupported, uniform_words};
use crate::render::split::BoundKernel;
use crate::render::target::{Adapter, GpuTarget};
use crate::render::thread_mapping::{self, ThreadMapping};
use crate::render::thresholds::{GPU_CACHE_REGISTERS, SOFTWARE_CACHE_REGISTERS};
use crate::render::wgsl::dialect::{Wgsl, word};
use crate::render::wgsl::hook::Vec4Accesses;
use crate::render::wgsl::memory::{AccessMode, BindingDeclarations, BufferView, accessed_extents};
use crate::render::wgsl::{Main, ModuleParts, module};

/// What a part's shader is made from.
#[derive(Clone, Copy, Debug)]
pub struct KernelShader<'k> {
    /// The part.
    pub part: &'k BoundKernel,
    /// The device.
    pub target: &'k GpuTarget,
    /// Inputs of the launch.
    pub inputs: usize,
}

impl<'k> KernelShader<'k> {
    fn kernel(&self) -> &'k Kernel {
        &self.part.kernel
    }

    /// A kernel of points and rows.
    ///
    /// # Errors
    /// What the device lacks.
    pub fn rows(&self) -> Result<Pass, Unsupported> {
        let (kernel, target) = (self.kernel(), self.target);
        if let Some(mapping) = thread_mapping::cached_rows(kernel, target) {
            let dialect = Wgsl::new(self.inputs, self.target);
            let mut emitter = emitter(&dialect, kernel, &mapping);
            emitter.cache_registers = SOFTWARE_CACHE_REGISTERS;
            emitter.unrolls_cached_loops = true;
            self.emit_rows(&mapping, &mut emitter);
            if emitter.caches_rows() {
                return self.finish_rows(&mapping, &emitter);
            }
        }
        let mapping = thread_mapping::rows(kernel, target)?;
        let dialect = Wgsl::new(self.inputs, self.target);
        let mut emitter = emitter(&dialect, kernel, &mapping);
        // Software drivers are kept from unrolling the loops.
        if target.adapter != Adapter::Software {
            emitter.cache_registers = GPU_CACHE_REGISTERS;
        } else if kernel.depth() > 0 {
            keep_loops(&mut emitter);
        }
        self.emit_rows(&mapping, &mut emitter);
        self.finish_rows(&mapping, &emitter)
    }

    /// The body of a kernel of points and rows.
    fn emit_rows(&self, mapping: &ThreadMapping, emitter: &mut Emitter<'_>) {
        let kernel = self.kernel();
        if mapping.reduction_threads > 1 {
            emitter.warp = self.target.subgroup.max(1) as usize;
            emitter.out.line("let point = i32(group.y * groups.x + group.x);");
            let lane = if emitter.warp > 1 { "own_subgroup * subgroup_size + own_lane" } else { "local" };
            emitter.out.line(format!("let lane = i32({lane});"));
        } else {
            emitter.out.line(format!(
                "let point = i32((group.y * groups.x + group.x) * {}u + local);",
                mapping.workgroup
            ));
        }
        let points = kernel.level_points(0) / mapping.coarsening.factors[0];
        let all = emitter.dialect.position(points as i64);
        emitter.out.line(format!("if (point >= {all}) {{ return; }}"));
        let axes = wide(kernel, kernel.level_axes(0));
        grid(emitter, "point", &axes, mapping.coarsening.factors[0]);
        emitter.point(&|_| None);
    }

    fn finish_rows(&self, mapping: &ThreadMapping, emitter: &Emitter<'_>) -> Result<Pass, Unsupported> {
        let points = self.kernel().level_points(0) / mapping.coarsening.factors[0];
        let per_group = if mapping.reduction_threads > 1 { 1 } else { u64::from(mapping.workgroup) };
        let pass = self.finish(mapping, emitter, (points as u64).div_ceil(per_group))?;
        let stored_tile =
            StoredTile::of_points(self.kernel(), mapping.coarsening.factors[0], mapping.reduction_threads);
        Ok(Pass { stored_tile, ..pass })
    }

    /// Puts a shader together around an emitted body.
    fn finish(
        &self,
        mapping: &ThreadMapping,
        emitter: &Emitter<'_>,
        groups: u64,
    ) -> Result<Pass, Unsupported> {
        let bindings = self.bind_runs(&mapping.vec4, &mapping.vec8)?;
        let mut pass = self.pass(bindings, emitter, mapping.workgroup, groups);
        pass.vec4_inputs = self.marked_inputs(&mapping.vec4.0);
        pass.vec8_inputs = self.marked_inputs(&mapping.vec8.0);
        Ok(pass)
    }

    /// The launch's inputs of those that are accessed by vec4 accesses, or by vec8 accesses.
    pub(super) fn marked_inputs(&self, accessed: &[bool]) -> Vec<usize> {
        let slots = (0..accessed.len()).filter(|&slot| accessed[slot]);
        slots.filter_map(|slot| self.part.inputs[slot].input()).collect()
    }

    /// The bindings, where inputs and outputs are accessed by vec4 accesses as said.
    pub(super) fn bind(&self, vec4: &Vec4Accesses) -> Result<BindingDeclarations, Unsupported> {
        let kernel = self.kernel();
        self.bind_runs(vec4, &(vec![false; kernel.inputs.len()], vec![false; kernel.stores.len()]))
    }

    /// The bindings, where inputs and outputs are accessed by vec4 and vec8 accesses as said.
    fn bind_runs(
        &self,
        vec4: &Vec4Accesses,
        vec8: &Vec4Accesses,
    ) -> Result<BindingDeclarations, Unsupported> {
        let kernel = self.kernel();
        let mut bindings = BindingDeclarations::new(self.target);
        if kernel.reports() {
            bindings.status();
        }
        self.bind_inputs(&vec4.0, &vec8.0, &mut bindings)?;
        for (number, store) in kernel.stores.iter().enumerate() {
            if store.numel > i32::MAX as usize {
                return Err(Unsupported::Elements(store.numel));
            }
            bindings.view(&BufferView {
                name: format!("out{number}"),
                memory: self.part.outputs[number],
                dtype: store.dtype,
                elements: store.numel as u64,
                run: run(vec4.1[number], vec8.1[number]),
                access: AccessMode::Write,
            });
        }
        Ok(bindings)
    }

    fn bind_inputs(
        &self,
        vec4: &[bool],
        vec8: &[bool],
        bindings: &mut BindingDeclarations,
    ) -> Result<(), Unsupported> {
        let kernel = self.kernel();
        for (slot, (input, reach)) in kernel.inputs.iter().zip(accessed_extents(kernel)?).enumerate() {
            bindings.view(&BufferView {
                name: format!("in{slot}"),
                memory: self.part.inputs[slot],
                dtype: input.dtype,
                elements: reach,
                run: run(vec4[slot], vec8[slot]),
                access: AccessMode::Read,
            });
        }
        Ok(())
    }

    fn pass(
        &self,
        bindings: BindingDeclarations,
        emitter: &Emitter<'_>,
        workgroup: u32,
        groups: u64,
    ) -> Pass {
        let kernel = self.kernel();
        let mut declarations = String::new();
        for (name, ty) in &emitter.shared {
            let _ =
                writeln!(declarations, "var<workgroup> {name}: array<{ty}, {}>;", emitter.reduction_threads);
        }
        let source = module(&ModuleParts {
            title: &kernel.name,
            adapter: self.target.adapter,
            inputs: self.inputs,
            arguments: kernel.args,
            bindings: &bindings,
            sizes_in_words: false,
            declarations,
            main: Main::Body { workgroup, subgroups: emitter.warp > 1, text: emitter.out.text() },
        });
        Pass {
            uniform_words: uniform_words(self.inputs, kernel.args),
            ..Pass::new(source, groups, workgroup, bindings.slots)
        }
    }

    /// A contraction: a tile of the product per invocation, in registers.
    ///
    /// # Errors
    /// What the device lacks.
    pub fn contraction(&self, c: &Contraction) -> Result<Pass, Unsupported> {
        let (kernel, target) = (self.kernel(), self.target);
        let mapping = thread_mapping::contraction(kernel, c, target);
        let count = mapping.coarsening.factors;
        let size =
            |axes: &[AxisId]| -> usize { axes.iter().map(|axis| kernel.axes[axis.index()].extent).product() };
        let (rows, columns) = (size(&c.m) / count[0], size(&c.n) / count[1]);
        let tiles = size(&c.batch) * rows * columns;
        let dialect = Wgsl::new(self.inputs, self.target);
        let mut emitter = emitter(&dialect, kernel, &mapping);
        emitter.out.line(format!(
            "let tile = i32((group.y * groups.x + group.x) * {}u + local);",
            mapping.workgroup
        ));
        emitter.out.line(format!("if (tile >= {}) {{ return; }}", dialect.position(tiles as i64)));
        if target.adapter == Adapter::Software {
            keep_loops(&mut emitter);
        }
        emitter.tile("tile", rows, columns);
        emitter.positions("batch", &wide(kernel, c.batch.iter().copied()), 1);
        grid(&mut emitter, "row", &wide(kernel, c.m.iter().copied()), count[0]);
        grid(&mut emitter, "column", &wide(kernel, c.n.iter().copied()), count[1]);
        product(&mut emitter, c);
        let groups = (tiles as u64).div_ceil(u64::from(mapping.workgroup));
        let stored_tile =
            Some(StoredTile::of_product(kernel, c, TemplateChoice::Invocation([count[0], count[1]])));
        Ok(Pass { stored_tile, ..self.finish(&mapping, &emitter, groups)? })
    }

    /// A scatter: updates that may meet are made by one invocation, in order, in
    /// several launches if there are many.
    ///
    /// # Errors
    /// What the device lacks.
    pub fn scatter(&self, scatter: &ScatterStore) -> Result<Pass, Unsupported> {
        let (kernel, target) = (self.kernel(), self.target);
        let dialect = Wgsl::new(self.inputs, self.target);
        let mut mapping = thread_mapping::rows(kernel, target)?;
        mapping.coarsening = crate::render::c_like::Coarsening::single(kernel);
        mapping.vec4 = (vec![false; kernel.inputs.len()], Vec::new());
        mapping.vec8 = mapping.vec4.clone();
        let mut emitter = emitter(&dialect, kernel, &mapping);
        let all = wide(kernel, kernel.level_axes(0));
        let (meeting, apart): (Vec<AxisId>, Vec<AxisId>) =
            all.into_iter().partition(|axis| scatter.axes.contains(axis));
        let size =
            |axes: &[AxisId]| -> usize { axes.iter().map(|axis| kernel.axes[axis.index()].extent).product() };
        let (updates, points) = (size(&meeting), size(&apart));
        let most = (target.max_iterations / iterations::of_body(kernel, 0, 1)).min(1 << 30) as usize;
        emitter.out.line(format!(
            "let point = i32((group.y * groups.x + group.x) * {}u + local);",
            mapping.workgroup
        ));
        emitter.out.line(format!("if (point >= {}) {{ return; }}", dialect.position(points as i64)));
        emitter.positions("point", &apart, 1);
        if meeting.is_empty() {
            update(&mut emitter, scatter);
        } else {
            emitter.out.line(format!("let first = i32({});", word(DISPATCH_START)));
            let end = format!("min(first + {most}, {})", dialect.position(updates as i64));
            let head = dialect.for_loop("step", "first", &end, 1);
            emitter.out.open(head);
            emitter.positions("step", &meeting, 1);
            update(&mut emitter, scatter);
            emitter.out.close();
        }
        let mut bindings = BindingDeclarations::new(target);
        bindings.status();
        self.bind_inputs(&mapping.vec4.0, &mapping.vec8.0, &mut bindings)?;
        bindings.view(&BufferView {
            name: "out0".into(),
            memory: self.part.outputs[0],
            dtype: scatter.dtype,
            elements: scatter.numel as u64,
            run: 1,
            access: AccessMode::Update,
        });
        let groups = (points as u64).div_ceil(u64::from(mapping.workgroup));
        let mut pass = self.pass(bindings, &emitter, mapping.workgroup, groups);
        if updates > most {
            (pass.dispatch_stride, pass.dispatch_end) = (most as u32, updates as u32);
        }
        Ok(pass)
    }
}

/// Elements that are accessed together.
fn run(vec4: bool, vec8: bool) -> usize {
    match (vec4, vec8) {
        (_, true) => 8,
        (true, false) => 4,
        (false, false) => 1,
    }
}

fn emitter<'k>(dialect: &'k Wgsl, kernel: &'k Kernel, mapping: &ThreadMapping) -> Emitter<'k> {
    let mut emitter = Emitter::new(dialect, kernel, mapping.coarsening.clone());
    emitter.reduction_threads = mapping.reduction_threads;
    emitter.blocked = mapping.blocked;
    emitter.vec4 = mapping.vec4.clone();
    emitter.vec8 = mapping.vec8.clone();
    // The body of a function.
    emitter.out = crate::render::c_like::writer::Writer::inside(1);
    emitter
}

/// Keeps loops as they are: software drivers write out those that they can count, and compile
/// each iteration's accesses for two to ten milliseconds, which launches do not win back.
fn keep_loops(emitter: &mut Emitter<'_>) {
    emitter.out.line("let one = i32(min(groups.y, 1u));");
    emitter.one = Some("one");
}

/// Defines the positions of axes from an index of groups of `lanes` points.
fn grid(emitter: &mut Emitter<'_>, index: &str, axes: &[AxisId], coarsening: usize) {
    if coarsening == 1 {
        return emitter.positions(index, axes, 1);
    }
    let first = format!("{index}_first");
    emitter.out.line(format!("let {first} = {index} * {coarsening};"));
    emitter.positions(&first, axes, coarsening);
}

/// The sum over k, and the stores that see it.
fn product(emitter: &mut Emitter<'_>, c: &Contraction) {
    let kernel = emitter.kernel;
    let dialect = emitter.dialect;
    let count = emitter.coarsening.factors;
    let sum = |i: usize, j: usize| format!("sum_{i}_{j}");
    let (ty, zero) = (dialect.register(c.dtype), dialect.constant(c.dtype, 0));
    for (i, j) in pairs(count) {
        let line = dialect.variable(&sum(i, j), ty, &zero);
        emitter.out.line(line);
    }
    let needed = emitter.needed(&[c.a, c.b]);
    for id in needed.into_iter().filter(|id| kernel.exprs[id.index()].level == 0) {
        emitter.define_all(&[id]);
    }
    let axes = wide(kernel, c.k.iter().copied());
    let steps: usize = axes.iter().map(|axis| kernel.axes[axis.index()].extent).product();
    let head = dialect.for_loop("step", "0", &emitter.end(steps), count[2]);
    emitter.out.open(head);
    emitter.positions("step", &axes, count[2]);
    let mark = emitter.mark();
    emitter.define_all(&[c.a, c.b]);
    for k in 0..count[2] {
        for (i, j) in pairs(count) {
            let elem: ElementIndex = [i, j, k];
            let (a, b) = (emitter.name(c.a, elem), emitter.name(c.b, elem));
            let value = if c.dtype == DType::I64 {
                let product = dialect.alu(AluOp::Mul, c.dtype, &[a, b]);
                dialect.alu(AluOp::Add, c.dtype, &[sum(i, j), product])
            } else {
                // The order of rounding is free here, so nothing hides the sum
                // from the compiler, which may fuse it with the product.
                format!("{} + {a} * {b}", sum(i, j))
            };
            emitter.out.line(format!("{} = {value};", sum(i, j)));
        }
    }
    emitter.forget(mark);
    emitter.out.close();
    finish_product(emitter, &sum);
}

fn finish_product(emitter: &mut Emitter<'_>, sum: &dyn Fn(usize, usize) -> String) {
    let count = emitter.coarsening.factors;
    let kernel = emitter.kernel;
    let accumulators =
        (0..kernel.exprs.len()).filter(|&i| kernel.exprs[i].expr == crate::kernel::Expr::Accumulator);
    for id in accumulators.map(|i| ExprId(i as u32)) {
        for (i, j) in pairs(count) {
            let masked = kernel.exprs[id.index()].dtype == DType::U8;
            let value = if masked { format!("({} & 0xffu)", sum(i, j)) } else { sum(i, j) };
            emitter.out.line(format!("let {} = {value};", emitter.name(id, [i, j, 0])));
        }
        emitter.assume(id);
    }
    let values: Vec<ExprId> = kernel.stores.iter().map(|store| store.value).collect();
    emitter.define_all(&values);
    for store in 0..kernel.stores.len() {
        emitter.store(store, &|_| None);
    }
}

/// The elements of a thread's tile.
fn pairs(factors: ElementIndex) -> impl Iterator<Item = (usize, usize)> {
    (0..factors[0]).flat_map(move |i| (0..factors[1]).map(move |j| (i, j)))
}

fn update(emitter: &mut Emitter<'_>, scatter: &ScatterStore) {
    let dialect = emitter.dialect;
    emitter.define_all(&[scatter.index, scatter.value]);
    let elem = ElementIndex::default();
    let (index, value) = (emitter.name(scatter.index, elem), emitter.name(scatter.value, elem));
    // Not as two comparisons: lavapipe 22.3 compiles those of a widened
    // position wrongly.
    let of = emitter.kernel.exprs[scatter.index.index()].dtype;
    emitter.out.line(format!("let inside = {};", dialect.clamp(&index, of, scatter.extent)));
    emitter.out.open(format!("if ({})", dialect.differ(of, &index, &emitter.as_index("inside", of))));
    if scatter.checked {
        emitter.out.line(dialect.report(&index, of, scatter.extent));
    }
    emitter.out.close();
    emitter.out.open("else");
    let base: &Affine = &scatter.address;
    let stride = crate::render::c_like::emit::position(scatter.stride);
    emitter.out.line(format!("let target_at = {} + inside * {stride};", emitter.affine(base, elem)));
    let merged = match scatter.mode.op() {
        None => value,
        Some(op) => {
            let dtype: DType = scatter.dtype.compute();
            dialect.alu(op, dtype, &["old_out0(target_at)".to_string(), value])
        }
    };
    emitter.out.line(format!("out0(target_at, {merged});"));
    emitter.out.close();
}
