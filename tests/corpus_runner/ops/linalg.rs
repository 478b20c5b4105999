//! Products, decompositions and distances of matrices.

use kiln::Scalar;
use kiln::opts::AddmmOpts;
use kiln::opts::SolveTriangularOpts;
use kiln::opts::TensordotAxes;
use kiln::tensor::Tensor;
use kiln::tensor::einsum::einsum;
use kiln::tensor::matmul::multi_dot;

use super::super::arg::Arg;
use super::super::call::{Call, Outcome, integer, unsupported};
use super::{Entry, entry, one, pair, with};

/// Products of two tensors.
pub const PRODUCTS: &[Entry] = &[
    entry("matmul", "self other", |c| one(c.tensor("self")?.matmul(&c.tensor("other")?))),
    entry("__rmatmul__", "self other", |c| {
        let (x, other) = (c.tensor("self")?, c.tensor("other")?);
        one(other.matmul(&x))
    }),
    entry("mm", "self mat2", |c| one(c.tensor("self")?.mm(&c.tensor("mat2")?))),
    entry("bmm", "self mat2", |c| one(c.tensor("self")?.bmm(&c.tensor("mat2")?))),
    entry("mv", "self vec", |c| one(c.tensor("self")?.mv(&c.tensor("vec")?))),
    entry("dot", "self tensor", |c| one(c.tensor("self")?.dot(&c.tensor("tensor")?))),
    entry("vdot", "self other", |c| one(c.tensor("self")?.vdot(&c.tensor("other")?))),
    entry("inner", "self other", |c| one(c.tensor("self")?.inner(&c.tensor("other")?))),
    entry("outer", "self vec2", |c| one(c.tensor("self")?.outer(&c.tensor("vec2")?))),
    entry("addmm", "self mat1 mat2 beta alpha", |c| blend(c, "mat1", "mat2", Tensor::addmm)),
    entry("addmv", "self mat vec beta alpha", |c| blend(c, "mat", "vec", Tensor::addmv)),
    entry("addbmm", "self batch1 batch2 beta alpha", |c| blend(c, "batch1", "batch2", Tensor::addbmm)),
    entry("baddbmm", "self batch1 batch2 beta alpha", |c| blend(c, "batch1", "batch2", Tensor::baddbmm)),
    entry("addr", "self vec1 vec2 beta alpha", |c| blend(c, "vec1", "vec2", Tensor::addr)),
    entry("tensordot", "self other dims", tensordot),
    entry("einsum", "operands equation", |c| {
        let operands = c.tensors("operands")?;
        one(einsum(&c.text("equation")?, &operands.iter().collect::<Vec<_>>()))
    }),
    entry("linalg.multi_dot", "tensors", |c| {
        one(multi_dot(&c.tensors("tensors")?.iter().collect::<Vec<_>>()))
    }),
    entry("linalg.vecdot", "x y dim", |c| {
        one(c.tensor("x")?.vecdot(&c.tensor("y")?, c.opt_int("dim")?.unwrap_or(-1)))
    }),
    entry("cross", "self other dim", |c| {
        one(c.tensor("self")?.cross(&c.tensor("other")?, c.opt_int("dim")?))
    }),
    entry("linalg.cross", "self other dim", |c| {
        one(c.tensor("self")?.linalg_cross(&c.tensor("other")?, c.opt_int("dim")?.unwrap_or(-1)))
    }),
    entry("nn.functional.linear", "input weight bias", |c| {
        one(c.tensor("input")?.linear(&c.tensor("weight")?, c.opt_tensor("bias")?.as_ref()))
    }),
    entry("nn.functional.bilinear", "input1 input2 weight bias", |c| {
        let (x, y) = (c.tensor("input1")?, c.tensor("input2")?);
        one(x.bilinear(&y, &c.tensor("weight")?, c.opt_tensor("bias")?.as_ref()))
    }),
];

/// `beta * self + alpha * product`.
fn blend(c: &Call, a: &str, b: &str, f: fn(&Tensor, &Tensor, &Tensor, AddmmOpts) -> Tensor) -> Outcome {
    let mut opts = AddmmOpts::default();
    opts = with(opts, c.opt_scalar("beta")?, |opts, beta| opts.beta(beta));
    opts = with(opts, c.opt_scalar("alpha")?, |opts, alpha| opts.alpha(alpha));
    one(f(&c.tensor("self")?, &c.tensor(a)?, &c.tensor(b)?, opts))
}

fn tensordot(c: &Call) -> Outcome {
    let (x, other) = (c.tensor("self")?, c.tensor("other")?);
    let pair = |arg: &Arg| match arg {
        Arg::List(items) => items.iter().map(integer).collect::<Option<Vec<i64>>>(),
        other => integer(other).map(|axis| vec![axis]),
    };
    let axes = match c.take("dims") {
        Some(Arg::List(sides)) => match sides.iter().map(pair).collect::<Option<Vec<_>>>().as_deref() {
            Some([a, b]) => TensordotAxes::Pairs(a.clone(), b.clone()),
            _ => return unsupported("dims", format!("{sides:?}")),
        },
        Some(other) => match integer(&other).map(usize::try_from) {
            Some(Ok(count)) => TensordotAxes::Count(count),
            _ => return unsupported("dims", format!("{other:?}")),
        },
        None => TensordotAxes::Count(2),
    };
    one(x.tensordot(&other, axes))
}

/// Linear systems, determinants and functions of matrices.
pub const SYSTEMS: &[Entry] = &[
    entry("linalg.det", "self", |c| one(c.tensor("self")?.det())),
    entry("linalg.slogdet", "self", |c| pair(c.tensor("self")?.slogdet())),
    entry("linalg.inv", "self", |c| one(c.tensor("self")?.inv())),
    entry("linalg.solve", "self other left", |c| {
        c.ignore("left", |arg| matches!(arg, Arg::Number(Scalar::Bool(true))))?;
        one(c.tensor("self")?.solve(&c.tensor("other")?))
    }),
    entry("linalg.solve_triangular", "self other upper left unitriangular", |c| {
        let opts = SolveTriangularOpts::default().upper(c.is("upper")?);
        let opts = with(opts, c.opt_flag("left")?, SolveTriangularOpts::left);
        let opts = opts.unitriangular(c.is("unitriangular")?);
        one(c.tensor("self")?.solve_triangular(&c.tensor("other")?, opts))
    }),
    entry("linalg.cholesky", "self upper", |c| one(c.tensor("self")?.cholesky(c.is("upper")?))),
    entry("linalg.matrix_power", "self n", |c| one(c.tensor("self")?.matrix_power(c.int("n")?))),
    entry("matrix_exp", "self", |c| one(c.tensor("self")?.matrix_exp())),
];
