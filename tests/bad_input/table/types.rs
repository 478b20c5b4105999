//! Element types that operations do not take.

use kiln::DType;
use kiln::Tensor;
use kiln::prelude::*;

use super::{Op, Tally, on};
use crate::{floats, ints};

pub fn run(tally: &mut Tally) {
    let of = |dtype: DType| Tensor::ones([4, 4], dtype);
    let whole =
        [("u8", of(DType::U8)), ("i32", of(DType::I32)), ("i64", of(DType::I64)), ("bool", of(DType::Bool))];
    tally.all(&of_floats(), &whole);
    let broken = [
        ("f32", of(DType::F32)),
        ("f64", of(DType::F64)),
        ("f16", of(DType::F16)),
        ("bf16", of(DType::BF16)),
    ];
    tally.all(&of_integers(), &broken);
    tally.all(&as_index(), &broken);
    tally.all(&as_index(), &[("bool", of(DType::Bool))]);
    tally.all(&as_condition(), &broken);
    tally.all(&as_condition(), &whole[..3]);
    tally.all(&of_numbers(), &[("bool", of(DType::Bool))]);
    let mixed = [
        ("f64", of(DType::F64)),
        ("f16", of(DType::F16)),
        ("i64", of(DType::I64)),
        ("bool", of(DType::Bool)),
    ];
    tally.all(&of_one_type(), &mixed);
}

fn x() -> Tensor {
    floats([4, 4])
}

fn of_floats() -> Vec<Op<Tensor>> {
    vec![
        on("dropout", |x| x.dropout(0.5)),
        on("bernoulli", |x| x.bernoulli()),
        on("rand", |x| Tensor::rand([2], x.dtype())),
        on("randn", |x| Tensor::randn([2], x.dtype())),
        on("uniform", |x| Tensor::uniform(0.0, 1.0, [2], x.dtype())),
        on("normal", |x| Tensor::normal(0.0, 1.0, [2], x.dtype())),
        on("rand_like", |x| x.rand_like()),
        on("layer_norm", |x| x.layer_norm([4], NormOpts::default())),
        on("inv", |x| x.inv()),
        on("det", |x| x.det()),
        on("cholesky", |x| x.cholesky(false)),
        on("matrix_exp", |x| x.matrix_exp()),
        on("quantile", |x| x.quantile(0.5, .., Default::default())),
        on("nextafter", |x| x.nextafter(x)),
        on("backward", |x| x.sum(..).backward()),
    ]
}

fn of_integers() -> Vec<Op<Tensor>> {
    vec![
        on("bitwise_and", |x| x.bitwise_and(x)),
        on("bitwise_or", |x| x.bitwise_or(x)),
        on("bitwise_xor", |x| x.bitwise_xor(1)),
        on("bitwise_not", |x| x.bitwise_not()),
        on("gcd", |x| x.gcd(x)),
        on("lcm", |x| x.lcm(x)),
        on("one_hot", |x| x.one_hot(3)),
        on("bincount", |x| x.i(0).bincount(None, 3)),
    ]
}

fn as_index() -> Vec<Op<Tensor>> {
    vec![
        on("gather", |i| x().gather(0, i)),
        on("index_select", |i| x().index_select(0, &i.i(0))),
        on("take", |i| x().take(i)),
        on("take_along_dim", |i| x().take_along_dim(i, 0)),
        on("embedding", |i| i.embedding(&x())),
        on("scatter", |i| x().scatter(0, i, 1.0)),
        on("scatter_add", |i| x().scatter_add(0, i, x())),
        on("index_add", |i| x().index_add(0, &i.i(0), &x(), 1)),
        on("index_copy", |i| x().index_copy(0, &i.i(0), &x())),
        on("index_fill", |i| x().index_fill(0, &i.i(0), 1.0)),
        on("put", |i| x().put(i, &x(), false)),
        on("nll_loss", |i| x().nll_loss(&i.i(0), Default::default())),
        on("cross_entropy", |i| x().cross_entropy(&i.i(0), Default::default())),
        on("repeat_interleave_by", |i| x().repeat_interleave_by(&i.i(0), 0, 4)),
        on("lengths", |i| kiln::nn::Rnn::new(4, 2, 1, ()).forward_padded(&floats([4, 4, 4]), &i.i(0), None)),
    ]
}

fn as_condition() -> Vec<Op<Tensor>> {
    vec![
        on("select", |c| c.select(x(), 0.0)),
        on("masked_fill", |c| x().masked_fill(c, 0.0)),
        on("masked_select", |c| x().masked_select(c)),
        on("masked_scatter", |c| x().masked_scatter(c, &x())),
    ]
}

fn of_numbers() -> Vec<Op<Tensor>> {
    vec![
        on("neg", |x| x.neg()),
        on("-", |x| -x),
        on("-", |x| x - true),
        on("matmul", |x| x.matmul(x)),
        on("cumsum to nothing", |x| x.bitcast(DType::U8)),
        on("var", |x| x.var(..)),
        on("arange", |x| Tensor::arange(0, 5, 1, x.dtype())),
        on("bitcast", |_| ints([1]).bitcast(DType::Bool)),
    ]
}

fn of_one_type() -> Vec<Op<Tensor>> {
    vec![
        on("matmul", |y| x().matmul(y)),
        on("linear", |y| x().linear(y, None)),
        on("Var::set", |y| Var::new(x()).set(y.clone())),
        on("Param::set", |y| kiln::nn::Param::new(x()).set(y)),
        on("Buffer::set", |y| kiln::nn::Buffer::new(x()).set(y)),
        on("a loop's carry", |y| {
            let y = y.clone();
            kiln::fori_loop(2, &[x()], move |_, _| vec![y])
        }),
        on("bitcast", |y| x().bitcast(if y.dtype() == DType::Bool { DType::U8 } else { y.dtype() })),
        on("conv2d", |y| floats([1, 4, 4, 4]).conv2d(&y.reshape([4, 4, 1, 1]), None, ConvOpts::default())),
    ]
}
