//! Kernels as text: for goldens, for people, and as the key of the kernel
//! cache. The text determines the kernel.

use std::fmt::Write;

use crate::base::Precision;
use crate::kernel::affine::AxisId;
use crate::kernel::expr::{Access, Expr, ExprId, Guard, Within};
use crate::kernel::nest::Kernel;

/// The kernel's text.
pub fn text(kernel: &Kernel) -> String {
    let mut out = String::new();
    write(kernel, &mut out).unwrap_or_else(|_| panic!("writing to a string failed"));
    out
}

fn write(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    writeln!(out, "kernel {}", kernel.name)?;
    for (i, axis) in kernel.axes.iter().enumerate() {
        writeln!(out, "  i{i}: {} level {}", axis.extent, axis.level)?;
    }
    for (i, input) in kernel.inputs.iter().enumerate() {
        writeln!(out, "  in{i}: {}[{}]", input.dtype, input.numel)?;
    }
    for (i, node) in kernel.exprs.iter().enumerate() {
        writeln!(out, "  %{i} = {} : {} @{}", expression(&node.expr), node.dtype, node.level)?;
    }
    if let Some(c) = kernel.contraction() {
        let [batch, m, n, k] = [&c.batch, &c.m, &c.n, &c.k].map(|list| axes(list));
        let (a, b) = (c.a.0, c.b.0);
        let precision = match c.precision {
            Precision::Strict => ", strict precision",
            Precision::Highest => "",
            Precision::High => ", high precision",
            Precision::Medium => ", medium precision",
        };
        writeln!(out, "  acc {} = %{a} * %{b}, batch [{batch}] m [{m}] n [{n}] k [{k}]{precision}", c.dtype)?;
    }
    if let Some(a) = kernel.attention() {
        let [batch, rows, columns, keys, depth] =
            [&a.batch, &a.rows, &a.columns, &a.keys, &a.depth].map(|list| axes(list));
        let named = |name: &str, operand: Option<ExprId>| {
            operand.map(|operand| format!("{name} %{}", operand.0)).unwrap_or_default()
        };
        let operands =
            [("", a.v), (" g", a.g), (" log_sum", a.log_sum), (" product", a.product), (" mask", a.mask)];
        let operands = operands.map(|(name, operand)| named(name, operand)).concat();
        let causal = if a.causal { " causal" } else { "" };
        let (name, q, k, scale) = (a.part.name(), a.q.0, a.k.0, f64::from_bits(a.scale));
        writeln!(out, "  {name} %{q} %{k}{operands}{causal} scale {scale:?}")?;
        write!(out, "    batch [{batch}] rows [{rows}] columns [{columns}] keys [{keys}] depth [{depth}]")?;
        if a.part.is_gradient() {
            write!(out, " summed [{}] width [{}]", axes(&a.summed), axes(&a.width))?;
        }
        writeln!(out)?;
    }
    if let Some(s) = kernel.scatter() {
        writeln!(
            out,
            "  scatter {:?} {}[{}][{} + %{}/{} * {}] %{} along [{}]",
            s.mode,
            s.dtype,
            s.numel,
            s.address,
            s.index.0,
            s.extent,
            s.stride,
            s.value.0,
            axes(&s.axes)
        )?;
    }
    for (i, s) in kernel.stores.iter().enumerate() {
        writeln!(out, "  out{i} {}[{}][{}] = %{} @{}", s.dtype, s.numel, s.address, s.value.0, s.level)?;
    }
    Ok(())
}

fn axes(list: &[AxisId]) -> String {
    list.iter().map(|axis| format!("i{}", axis.0)).collect::<Vec<_>>().join(", ")
}

fn expression(expr: &Expr) -> String {
    let list = |ids: &[ExprId]| ids.iter().map(|id| format!("%{}", id.0)).collect::<Vec<_>>().join(", ");
    match expr {
        Expr::Const(bits) => format!("const {bits:#x}"),
        Expr::Arg(n) => format!("arg {n}"),
        Expr::Index(affine) => format!("index {affine}"),
        Expr::Inside(within) => format!("inside {}", condition(within)),
        Expr::Load(slot, access) => format!("in{slot}[{}]{}", address(access), conditions(&access.guard)),
        Expr::Alu(op, x) => format!("{} {}", op.name(), list(&x[..op.arity()])),
        Expr::Cast(x) => format!("cast %{}", x.0),
        Expr::Bitcast(x) => format!("bitcast %{}", x.0),
        Expr::Reduce(monoid, x) => format!("reduce {} %{}", monoid.name(), x.0),
        Expr::Scan(monoid, x, axis) => format!("scan {} %{} along i{}", monoid.name(), x.0, axis.0),
        Expr::Checked(x, bounded) => format!("%{}, checked %{}!<{}", x.0, bounded.index.0, bounded.extent),
        Expr::Accumulator => "acc".into(),
    }
}

fn address(access: &Access) -> String {
    let mut text = access.affine.to_string();
    for part in &access.dynamic {
        let check = if part.checked { "!" } else { "" };
        let _ = write!(text, " + {}*%{}{check}<{}", part.stride, part.index.0, part.extent);
    }
    text
}

fn condition(within: &Within) -> String {
    format!("{} <= {} < {}", within.low, within.value, within.high)
}

fn conditions(guard: &Guard) -> String {
    let mut parts: Vec<String> = guard.within.iter().map(condition).collect();
    parts.extend(guard.masks.iter().map(|mask| format!("%{}", mask.0)));
    if parts.is_empty() { String::new() } else { format!(" if {}", parts.join(" and ")) }
}
