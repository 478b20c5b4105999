//! The type rules: one function, one arm per primitive.
//!
//! Running it in the constructor of every node *is* the meta device: shape,
//! element type and device of a result are known before anything runs.

use smallvec::SmallVec;

use crate::base::{DType, Device, Dims, Shape};
use crate::ir::alu::AluOp;
use crate::ir::mismatch::Mismatch;
use crate::ir::op::{ContractDims, LoopSpec, Op, Packing, PadAxis, SliceAxis, WindowAxis};
use crate::ir::ty::Type;

/// What operations of several tensors ask of them.
pub const ON_ONE_DEVICE: &str = "all tensors on the same device";

type Inferred = Result<Type, Mismatch>;

/// The type of `op` applied to operands of these types.
///
/// # Errors
/// A [`Mismatch`] when the operands do not fit the operation, or the result
/// would have more than 255 axes, extents beyond `i64`, or more bytes than `i64` counts; on meta, where
/// nothing has a place, than `usize` does.
pub fn infer(op: &Op, operands: &[&Type]) -> Inferred {
    expect_arity(op, operands)?;
    // Apart, since the other rules are long and most nodes are scalar operations.
    let ty = match op {
        Op::Alu(op) => alu(*op, operands)?,
        op => rule(op, operands)?,
    };
    // An operand's own type is.
    if !operands.iter().any(|operand| operand.is(&ty)) {
        within_limits(&ty)?;
    }
    Ok(ty)
}

fn within_limits(ty: &Type) -> Result<(), Mismatch> {
    // Sizes saturate: the largest says that there is none.
    let (most, expected) = match ty.device.is_meta() {
        true => (usize::MAX - 1, "a tensor of less than 2^64 - 1 bytes"),
        false => (i64::MAX as usize, "a tensor of at most 2^63 - 1 bytes"),
    };
    if ty.bytes() > most {
        return Err(Mismatch::new(expected, format!("shape {}", ty.shape)));
    }
    if ty.shape.iter().any(|&extent| extent > i64::MAX as usize) {
        return Err(Mismatch::new("extents of at most 2^63 - 1", format!("shape {}", ty.shape)));
    }
    if ty.shape.rank() > Shape::MAX_RANK {
        let expected = format!("a tensor of at most {} axes", Shape::MAX_RANK);
        return Err(Mismatch::new(expected, format!("{} axes", ty.shape.rank())));
    }
    Ok(())
}

fn rule(op: &Op, operands: &[&Type]) -> Inferred {
    match op {
        Op::Const(_, dtype, device) | Op::Arg(_, dtype, device) => Ok(Type::scalar(*dtype, *device)),
        Op::Iota(extent, dtype, device) => iota(*extent, *dtype, *device),
        Op::Leaf(ty) | Op::Param(_, ty) => Ok(ty.clone()),
        Op::Alu(op) => alu(*op, operands),
        Op::Cast(dtype) => Ok(operands[0].with_dtype(*dtype)),
        Op::Bitcast(dtype) => bitcast(*dtype, operands[0]),
        Op::Reshape(shape) => reshape(shape, operands[0]),
        Op::Permute(order) => permute(order, operands[0]),
        Op::Expand(shape) => expand(shape, operands[0]),
        Op::Pad(axes) => pad(axes, operands),
        Op::Slice(axes) => slice(axes, operands[0]),
        Op::Flip(axes) => {
            distinct_axes(axes, operands[0])?;
            Ok(operands[0].clone())
        }
        Op::Window(window) => window_rule(window, operands[0]),
        Op::Unwindow(window, extent) => unwindow(window, *extent, operands[0]),
        Op::Reduce(monoid, axes) => {
            accepts(monoid.name(), monoid.accepts(operands[0].dtype.kind()), operands[0])?;
            let shape = without_axes(axes, operands[0])?;
            Ok(Type::new(shape, monoid.result(operands[0].dtype), operands[0].device))
        }
        Op::Scan(monoid, axis) => {
            let fits = monoid.scans() && monoid.accepts(operands[0].dtype.kind());
            accepts(monoid.name(), fits, operands[0])?;
            axis_of(*axis, operands[0])?;
            Ok(operands[0].clone())
        }
        Op::Contract(dims) => contract(dims, operands[0], operands[1]),
        Op::Gather(axis) => gather(*axis, operands[0], operands[1]),
        Op::Scatter(axis, _) => scatter(*axis, operands),
        Op::Sort { axis, count, .. } => {
            let axis = axis_of(*axis, operands[0])?;
            let mut shape = operands[0].shape.clone();
            if *count > shape[axis] {
                return Err(Mismatch::new(format!("at most {} positions", shape[axis]), count.to_string()));
            }
            shape.0[axis] = *count;
            Ok(Type::new(shape, DType::I64, operands[0].device))
        }
        Op::Copy(device) => Ok(operands[0].with_device(*device)),
        Op::Collective(collective) => match operands {
            [operand] | [operand, _] => collective.kind.infer(collective.size, operand),
            _ => Err(Mismatch::new("1 or 2 operands", operands.len().to_string())),
        },
        Op::After if operands[0].device != operands[1].device => {
            Err(Mismatch::new(ON_ONE_DEVICE, format!("{} and {}", operands[0].device, operands[1].device)))
        }
        Op::After => Ok(operands[0].clone()),
        Op::Pack(packing) => pack(packing, operands),
        Op::Loop(spec, out) => loop_rule(spec, *out, operands),
        Op::Composite(composite, out) => {
            matches_params(&composite.body.params, operands)?;
            result_type(&composite.body.results, *out)
        }
        Op::Custom(custom, out) => {
            let found = || operands.iter().map(|t| describe(t)).collect::<Vec<_>>().join(", ");
            let results = custom.infer(operands).map_err(|expected| Mismatch::new(expected, found()))?;
            let count = results.len();
            results
                .into_iter()
                .nth(*out as usize)
                .ok_or_else(|| Mismatch::new(format!("a result below {count}"), out.to_string()))
        }
    }
}

/// Number of operands of `op`; `None` where the operation itself knows.
fn arity(op: &Op) -> Option<usize> {
    match op {
        Op::Const(..) | Op::Arg(..) | Op::Iota(..) | Op::Leaf(_) | Op::Param(..) => Some(0),
        Op::Alu(op) => Some(op.arity()),
        Op::Cast(_) | Op::Bitcast(_) | Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) => Some(1),
        Op::Slice(_) | Op::Flip(_) | Op::Window(_) | Op::Unwindow(..) => Some(1),
        Op::Reduce(..) | Op::Scan(..) | Op::Sort { .. } | Op::Copy(_) => Some(1),
        Op::Pad(_) | Op::Contract(_) | Op::Gather(_) | Op::After => Some(2),
        Op::Scatter(..) => Some(3),
        Op::Loop(spec, _) => Some(spec.body.params.len().saturating_sub(1)),
        Op::Composite(composite, _) => Some(composite.body.params.len()),
        Op::Pack(packing) => Some(packing.starts.len()),
        Op::Custom(..) | Op::Collective(_) => None,
    }
}

/// Operands of one type and place, apart from each other.
fn pack(packing: &Packing, operands: &[&Type]) -> Inferred {
    let Some(first) = operands.first() else { return Err(Mismatch::new("something to pack", "nothing")) };
    let differs = |ty: &&&Type| ty.dtype != first.dtype || ty.device != first.device;
    if let Some(other) = operands.iter().find(differs) {
        let found = format!("{} and {}", describe(first), describe(other));
        return Err(Mismatch::new("operands of one type on one device", found));
    }
    let mut taken: Vec<(usize, usize)> =
        packing.starts.iter().zip(operands).map(|(&start, ty)| (start, ty.shape.numel())).collect();
    taken.sort_unstable();
    let mut end = 0;
    for (start, count) in taken {
        if start < end {
            return Err(Mismatch::new(format!("nothing before element {end}"), format!("element {start}")));
        }
        end = start.saturating_add(count);
    }
    let room = packing.shape.numel();
    if end > room {
        return Err(Mismatch::new(format!("{room} elements"), end.to_string()));
    }
    Ok(first.with_shape(&packing.shape))
}

fn expect_arity(op: &Op, operands: &[&Type]) -> Result<(), Mismatch> {
    match arity(op) {
        Some(n) if n != operands.len() => {
            Err(Mismatch::new(format!("{n} operands"), operands.len().to_string()))
        }
        Some(_) | None => Ok(()),
    }
}

fn describe(ty: &Type) -> String {
    format!("{} {} on {}", ty.dtype, ty.shape, ty.device)
}

fn accepts(name: &str, fits: bool, ty: &Type) -> Result<(), Mismatch> {
    if fits {
        Ok(())
    } else {
        Err(Mismatch::new(format!("a type that {name} combines"), ty.dtype.to_string()))
    }
}

fn axis_of(axis: u8, ty: &Type) -> Result<usize, Mismatch> {
    let axis = usize::from(axis);
    if axis < ty.shape.rank() {
        return Ok(axis);
    }
    let expected = format!("an axis below the rank {}", ty.shape.rank());
    Err(Mismatch::new(expected, format!("axis {axis}")))
}

fn distinct_axes(axes: &[u8], ty: &Type) -> Result<(), Mismatch> {
    for (number, &axis) in axes.iter().enumerate() {
        axis_of(axis, ty)?;
        if axes[..number].contains(&axis) {
            return Err(Mismatch::new("distinct axes", format!("axis {axis} twice")));
        }
    }
    Ok(())
}

fn without_axes(axes: &[u8], ty: &Type) -> Result<Shape, Mismatch> {
    distinct_axes(axes, ty)?;
    let keep = |i: &usize| !axes.contains(&(*i as u8));
    Ok(Shape((0..ty.shape.rank()).filter(keep).map(|i| ty.shape[i]).collect()))
}

fn same_device(operands: &[&Type]) -> Result<Device, Mismatch> {
    let first = operands[0].device;
    match operands.iter().find(|t| t.device != first) {
        None => Ok(first),
        Some(other) => {
            let found = format!("{first} and {}", other.device);
            Err(Mismatch { devices_differ: true, ..Mismatch::new(ON_ONE_DEVICE, found) })
        }
    }
}

fn iota(extent: usize, dtype: DType, device: Device) -> Inferred {
    if dtype == DType::Bool {
        return Err(Mismatch::new("a number type", "bool"));
    }
    Ok(Type::new(Shape::from(extent), dtype, device))
}

fn alu(op: AluOp, operands: &[&Type]) -> Inferred {
    if op != AluOp::Where && operands[1..].iter().all(|ty| *ty == operands[0]) {
        return Ok(operands[0].with_dtype(alu_dtype(op, operands[0].dtype)?));
    }
    same_device(operands)?;
    let values = if op == AluOp::Where { &operands[1..] } else { operands };
    if op == AluOp::Where && operands[0].dtype != DType::Bool {
        return Err(Mismatch::new("a bool condition", operands[0].dtype.to_string()));
    }
    let dtype = values[0].dtype;
    if let Some(other) = values.iter().find(|t| t.dtype != dtype) {
        return Err(Mismatch::new("operands of one type", format!("{dtype} and {}", other.dtype)));
    }
    let result = alu_dtype(op, dtype)?;
    Ok(of_common_shape(operands)?.with_dtype(result))
}

/// [`infer`] of a scalar operation, not [`AluOp::Where`], whose operands all have this type, as most do, or
/// are single elements of it: none is this type once more.
///
/// # Errors
/// A [`Mismatch`] when the operation does not take elements of this type.
#[inline]
pub fn infer_alike(op: AluOp, operand: &Type) -> Result<Option<Type>, Mismatch> {
    let dtype = alu_dtype(op, operand.dtype)?;
    Ok((dtype != operand.dtype).then(|| operand.with_dtype(dtype)))
}

/// The type of the elements of a scalar operation's result, from its operands'.
#[inline]
fn alu_dtype(op: AluOp, dtype: DType) -> Result<DType, Mismatch> {
    if op.accepts().kind(dtype.kind()) { Ok(op.result().of(dtype)) } else { Err(not_taken(op, dtype)) }
}

#[cold]
fn not_taken(op: AluOp, dtype: DType) -> Mismatch {
    Mismatch::new(op.accepts().description(), dtype.to_string())
}

/// An operand of the shape that all extend to.
fn of_common_shape<'a>(operands: &[&'a Type]) -> Result<&'a Type, Mismatch> {
    let ranked = operands.iter().rfind(|t| t.shape.rank() > 0).unwrap_or(&operands[0]);
    match operands.iter().find(|t| t.shape.rank() > 0 && t.shape != ranked.shape) {
        None => Ok(ranked),
        Some(other) => {
            Err(Mismatch::new("operands of one shape", format!("{} and {}", other.shape, ranked.shape)))
        }
    }
}

fn bitcast(dtype: DType, ty: &Type) -> Inferred {
    let number = |d: DType| d != DType::Bool;
    if dtype.size() == ty.dtype.size() && number(dtype) && number(ty.dtype) {
        return Ok(ty.with_dtype(dtype));
    }
    let expected = format!("a number type of {} bytes", ty.dtype.size());
    Err(Mismatch::new(expected, format!("{dtype}, from {}", ty.dtype)))
}

fn reshape(shape: &Shape, ty: &Type) -> Inferred {
    let count = |s: &Shape| {
        if s.contains(&0) { Some(0) } else { s.iter().try_fold(1u128, |n, &d| n.checked_mul(d as u128)) }
    };
    if count(shape).is_some() && count(shape) == count(&ty.shape) {
        return Ok(ty.with_shape(shape));
    }
    let elements = count(&ty.shape).map_or_else(|| "as many".to_string(), |n| n.to_string());
    Err(Mismatch::new(format!("a shape of {elements} elements"), format!("{shape}")))
}

fn permute(order: &[u8], ty: &Type) -> Inferred {
    distinct_axes(order, ty)?;
    if order.len() != ty.shape.rank() {
        return Err(Mismatch::new(format!("each of {} axes once", ty.shape.rank()), format!("{order:?}")));
    }
    let dims: Dims = order.iter().map(|&axis| ty.shape[usize::from(axis)]).collect();
    Ok(ty.with_shape(Shape(dims)))
}

fn expand(shape: &Shape, ty: &Type) -> Inferred {
    let lead = shape.rank().checked_sub(ty.shape.rank());
    let fits = lead
        .is_some_and(|lead| ty.shape.iter().zip(&shape[lead..]).all(|(&from, &to)| from == to || from == 1));
    if fits {
        return Ok(ty.with_shape(shape));
    }
    Err(Mismatch::new(format!("a shape that {} broadcasts to", ty.shape), shape.to_string()))
}

fn pad(axes: &[PadAxis], operands: &[&Type]) -> Inferred {
    let (ty, fill) = (operands[0], operands[1]);
    one_entry_per_axis(axes.len(), ty)?;
    if fill.shape.rank() != 0 || fill.dtype != ty.dtype {
        return Err(Mismatch::new(format!("a fill of type {} and rank 0", ty.dtype), describe(fill)));
    }
    same_device(operands)?;
    let mut dims = Dims::new();
    for (&extent, axis) in ty.shape.iter().zip(axes) {
        let gaps = (extent as i128 - 1).max(0) * axis.interior as i128;
        let padded = extent as i128 + gaps + i128::from(axis.lo) + i128::from(axis.hi);
        if !(0..=i128::from(i64::MAX)).contains(&padded) {
            let found = format!("{padded} from {extent} with {} before and {} after", axis.lo, axis.hi);
            return Err(Mismatch::new("a padded extent from 0 to 2^63 - 1", found));
        }
        dims.push(padded as usize);
    }
    Ok(ty.with_shape(Shape(dims)))
}

fn one_entry_per_axis(entries: usize, ty: &Type) -> Result<(), Mismatch> {
    if entries == ty.shape.rank() {
        return Ok(());
    }
    Err(Mismatch::new(format!("one entry for each of {} axes", ty.shape.rank()), entries.to_string()))
}

fn slice(axes: &[SliceAxis], ty: &Type) -> Inferred {
    one_entry_per_axis(axes.len(), ty)?;
    let mut dims = Dims::new();
    for (&extent, axis) in ty.shape.iter().zip(axes) {
        if axis.step == 0 || axis.start > axis.stop || axis.stop > extent {
            let found = format!("{}..{} by {}", axis.start, axis.stop, axis.step);
            return Err(Mismatch::new(format!("a range within 0..{extent} with a positive step"), found));
        }
        dims.push((axis.stop - axis.start).div_ceil(axis.step));
    }
    Ok(ty.with_shape(Shape(dims)))
}

fn check_window(window: &WindowAxis) -> Result<(), Mismatch> {
    if window.size > 0 && window.stride > 0 && window.dilation > 0 {
        return Ok(());
    }
    let found = format!("{}, {} and {}", window.size, window.stride, window.dilation);
    Err(Mismatch::new("a window size, stride and dilation of at least 1", found))
}

fn window_rule(window: &WindowAxis, ty: &Type) -> Inferred {
    let axis = axis_of(window.axis, ty)?;
    check_window(window)?;
    let mut dims = ty.shape.0.clone();
    dims[axis] = window.count(dims[axis]);
    dims.push(window.size);
    Ok(ty.with_shape(Shape(dims)))
}

fn unwindow(window: &WindowAxis, extent: usize, ty: &Type) -> Inferred {
    let axis = axis_of(window.axis, ty)?;
    check_window(window)?;
    accepts("sum", ty.dtype != DType::Bool, ty)?;
    let last = ty.shape.rank() - 1;
    if axis == last || ty.shape[last] != window.size || ty.shape[axis] != window.count(extent) {
        let expected = format!(
            "{} windows of {} on axis {axis}, their elements on the last",
            window.count(extent),
            window.size
        );
        return Err(Mismatch::new(expected, ty.shape.to_string()));
    }
    let mut dims = ty.shape.0.clone();
    dims.pop();
    dims[axis] = extent;
    Ok(ty.with_shape(Shape(dims)))
}

fn contract(dims: &ContractDims, a: &Type, b: &Type) -> Inferred {
    let device = same_device(&[a, b])?;
    if a.dtype != b.dtype || a.dtype == DType::Bool {
        return Err(Mismatch::new("operands of one number type", format!("{} and {}", a.dtype, b.dtype)));
    }
    let pairs: SmallVec<[(u8, u8); 8]> = dims.batch.iter().chain(&dims.contract).copied().collect();
    distinct_axes(&pairs.iter().map(|p| p.0).collect::<Vec<u8>>(), a)?;
    distinct_axes(&pairs.iter().map(|p| p.1).collect::<Vec<u8>>(), b)?;
    for &(i, j) in &pairs {
        let (m, n) = (a.shape[usize::from(i)], b.shape[usize::from(j)]);
        if m != n {
            let expected = format!("axis {i} of the first and axis {j} of the second of one extent");
            return Err(Mismatch::new(expected, format!("{m} and {n}")));
        }
    }
    let mut shape: Dims = dims.batch.iter().map(|p| a.shape[usize::from(p.0)]).collect();
    let free = |ty: &Type, used: &dyn Fn(u8) -> bool| -> Dims {
        (0..ty.shape.rank()).filter(|&i| !used(i as u8)).map(|i| ty.shape[i]).collect()
    };
    shape.extend(free(a, &|i| pairs.iter().any(|p| p.0 == i)));
    shape.extend(free(b, &|i| pairs.iter().any(|p| p.1 == i)));
    Ok(Type::new(Shape(shape), a.dtype, device))
}

fn index_type(index: &Type) -> Result<(), Mismatch> {
    if index.dtype == DType::I64 {
        Ok(())
    } else {
        Err(Mismatch::new("an i64 index", index.dtype.to_string()))
    }
}

fn agree_but_on(axis: usize, a: &Type, b: &Type) -> Result<(), Mismatch> {
    let agree = a.shape.rank() == b.shape.rank()
        && (0..a.shape.rank()).all(|i| i == axis || a.shape[i] == b.shape[i]);
    if agree {
        return Ok(());
    }
    let expected = format!("an index that agrees with {} on all axes but {axis}", a.shape);
    Err(Mismatch::new(expected, b.shape.to_string()))
}

fn gather(axis: u8, data: &Type, index: &Type) -> Inferred {
    same_device(&[data, index])?;
    index_type(index)?;
    agree_but_on(axis_of(axis, data)?, data, index)?;
    Ok(data.with_shape(&index.shape))
}

fn scatter(axis: u8, operands: &[&Type]) -> Inferred {
    let (base, index, updates) = (operands[0], operands[1], operands[2]);
    same_device(operands)?;
    index_type(index)?;
    agree_but_on(axis_of(axis, base)?, base, index)?;
    if updates.shape != index.shape || updates.dtype != base.dtype {
        let expected = format!("updates of type {} and shape {}", base.dtype, index.shape);
        return Err(Mismatch::new(expected, format!("{} {}", updates.dtype, updates.shape)));
    }
    Ok(base.clone())
}

fn matches_params<'a>(
    params: impl IntoIterator<Item = &'a Type>,
    operands: &[&Type],
) -> Result<(), Mismatch> {
    for (i, (param, operand)) in params.into_iter().zip(operands).enumerate() {
        if param != *operand {
            return Err(Mismatch::new(format!("{} for operand {i}", describe(param)), describe(operand)));
        }
    }
    Ok(())
}

fn result_type(results: &[std::sync::Arc<crate::ir::node::Node>], out: u32) -> Inferred {
    let result = results.get(out as usize);
    let missing = || Mismatch::new(format!("a result below {}", results.len()), out.to_string());
    result.map(|node| node.ty().clone()).ok_or_else(missing)
}

fn loop_rule(spec: &LoopSpec, out: u32, operands: &[&Type]) -> Inferred {
    let slices = spec.carries..spec.carries + spec.stacked;
    for (i, (param, operand)) in spec.body.params.iter().skip(1).zip(operands).enumerate() {
        let expected = if slices.contains(&i) { stacked(param, spec.trips) } else { param.clone() };
        matches_params([&expected], &[operand])?;
    }
    for (i, carry) in spec.body.results.iter().take(spec.carries).enumerate() {
        matches_params([&spec.body.params[i + 1]], &[carry.ty()])?;
    }
    let ty = result_type(&spec.body.results, out)?;
    Ok(if (out as usize) < spec.carries { ty } else { stacked(&ty, spec.trips) })
}

fn stacked(slice: &Type, trips: usize) -> Type {
    let dims: Dims = std::iter::once(trips).chain(slice.shape.iter().copied()).collect();
    slice.with_shape(Shape(dims))
}
