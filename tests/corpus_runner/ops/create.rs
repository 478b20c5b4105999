//! Creation and casts.

use kiln::tensor::{Place, Tensor};
use kiln::{DType, Scalar, Shape};

use super::super::call::{Call, Outcome};
use super::{Entry, entry, one};

/// New tensors.
pub const CREATION: &[Entry] = &[
    entry("arange", "start end step dtype", |c| {
        let place = c.place()?;
        let first = c.scalar("start")?;
        let (start, end) = c.opt_scalar("end")?.map_or((Scalar::Int(0), first), |end| (first, end));
        one(Tensor::arange(start, end, c.opt_scalar("step")?.unwrap_or(Scalar::Int(1)), place))
    }),
    entry("linspace", "start end steps dtype", |c| {
        one(Tensor::linspace(c.scalar("start")?, c.scalar("end")?, c.size("steps")?, c.place()?))
    }),
    entry("logspace", "start end steps base dtype", |c| {
        let (start, end, steps) = (c.scalar("start")?, c.scalar("end")?, c.size("steps")?);
        one(Tensor::logspace(start, end, steps, c.opt_float("base")?.unwrap_or(10.0), c.place()?))
    }),
    entry("tril_indices", "row col offset dtype", |c| {
        let (rows, columns) = (c.size("row")?, c.size("col")?);
        one(Tensor::tril_indices(rows, columns, c.opt_int("offset")?.unwrap_or(0), c.place()?))
    }),
    entry("triu_indices", "row col offset dtype", |c| {
        let (rows, columns) = (c.size("row")?, c.size("col")?);
        one(Tensor::triu_indices(rows, columns, c.opt_int("offset")?.unwrap_or(0), c.place()?))
    }),
    entry("eye", "n m dtype", |c| {
        let rows = c.size("n")?;
        let columns = if c.has("m") { c.size("m")? } else { rows };
        one(Tensor::eye(rows, columns, c.place()?))
    }),
    entry("full", "size fill_value dtype", |c| {
        one(Tensor::full(shape(c)?, c.scalar("fill_value")?, c.place()?))
    }),
    entry("zeros", "size dtype", |c| one(Tensor::zeros(shape(c)?, c.place()?))),
    entry("ones", "size dtype", |c| one(Tensor::ones(shape(c)?, c.place()?))),
    entry("zeros_like", "self dtype", |c| filled_like(c, Scalar::Int(0))),
    entry("ones_like", "self dtype", |c| filled_like(c, Scalar::Int(1))),
    entry("full_like", "self fill_value dtype", |c| filled_like(c, c.scalar("fill_value")?)),
    entry("new_full", "self size fill_value dtype", |c| {
        let place = like(c, &c.tensor("self")?)?;
        one(Tensor::full(shape(c)?, c.scalar("fill_value")?, place))
    }),
];

/// The place of `own`, unless the call says otherwise.
fn like(c: &Call, own: &Tensor) -> Outcome<Place> {
    let place = c.place()?;
    Ok(Place { dtype: Some(place.dtype_or(own.dtype())), ..place })
}

fn filled_like(c: &Call, value: Scalar) -> Outcome {
    let own = c.tensor("self")?;
    one(Tensor::full(own.shape(), value, like(c, &own)?))
}

fn shape(c: &Call) -> Outcome<Shape> {
    Ok(Shape::new(&c.sizes("size")?))
}

/// Casts.
pub const CASTS: &[Entry] = &[
    entry("bfloat16", "self", |c| one(c.tensor("self")?.to_dtype(DType::BF16))),
    entry("half", "self", |c| one(c.tensor("self")?.to_dtype(DType::F16))),
    entry("float", "self", |c| one(c.tensor("self")?.to_dtype(DType::F32))),
    entry("double", "self", |c| one(c.tensor("self")?.to_dtype(DType::F64))),
    entry("int", "self", |c| one(c.tensor("self")?.to_dtype(DType::I32))),
    entry("long", "self", |c| one(c.tensor("self")?.to_dtype(DType::I64))),
    entry("byte", "self", |c| one(c.tensor("self")?.to_dtype(DType::U8))),
    entry("bool", "self", |c| one(c.tensor("self")?.to_dtype(DType::Bool))),
];
