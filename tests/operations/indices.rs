//! An index out of range is an error wherever the elements come from, memory or a
//! computation, and names the operation's line; one in range finds the same elements.

use std::panic::Location;

use kiln::nn::Embedding;
use kiln::prelude::*;
use kiln::{Error, Result, composite, fori_loop, grad};

/// Elements of shape `[10, 4]`.
type Source = (&'static str, fn(Device) -> Tensor);

/// What uses the three elements of an index along ten positions, and the line where it does.
type Use = (&'static str, fn(&Tensor, &Tensor) -> Tensor, &'static Location<'static>);

#[track_caller]
fn at(name: &'static str, apply: fn(&Tensor, &Tensor) -> Tensor) -> Use {
    (name, apply, Location::caller())
}

fn in_memory<const N: usize>(dims: [usize; N], d: Device) -> Tensor {
    let count: usize = dims.iter().product();
    let x = Tensor::from_vec((0..count).map(|i| (i % 7) as f32).collect(), dims, d);
    x.realize().expect("a leaf");
    x
}

/// Memory as it is and rearranged, numbers that no memory holds, and both.
const SOURCES: &[Source] = &[
    ("memory", |d| in_memory([10, 4], d)),
    ("memory divided anew", |d| in_memory([8, 5], d).t().reshape([10, 4])),
    ("memory amid zeros", |d| in_memory([8, 4], d).pad(&[0, 0, 1, 1], 0.0)),
    ("memory beside numbers", |d| Tensor::cat(&[&in_memory([5, 4], d), &Tensor::ones([5, 4], d)], 0)),
    ("memory and numbers", |d| in_memory([10, 4], d) + Tensor::arange(0.0, 4.0, 1.0, d)),
    ("one row", |d| in_memory([1, 4], d).expand([10, 4])),
    ("one column", |d| in_memory([10, 1], d).expand([10, 4])),
    ("ones", |d| Tensor::ones([10, 4], d)),
    ("arange", |d| Tensor::arange(0.0, 40.0, 1.0, d).reshape([10, 4])),
    ("linspace", |d| Tensor::linspace(0.0, 1.0, 10, d).unsqueeze(1).expand([10, 4])),
    ("eye", |d| Tensor::eye(10, 4, d)),
    ("windows of numbers", |d| Tensor::arange(0.0, 13.0, 1.0, d).unfold(0, 4, 1)),
    ("rand", |d| Tensor::rand([10, 4], d)),
    ("randn", |d| Tensor::randn([10, 4], d)),
    ("a fresh embedding", |d| Embedding::new(10, 4, d).weight.get()),
];

fn ones(x: &Tensor) -> Tensor {
    Tensor::ones([3, 4], x.device())
}

/// The index, once for each column.
fn wide(i: &Tensor) -> Tensor {
    i.reshape([3, 1]).expand([3, 4])
}

/// Gathers, and scatters into what is given.
#[rustfmt::skip]
fn uses() -> Vec<Use> {
    vec![
        at("index_select", |x, i| x.index_select(0, i)),
        at("gather", |x, i| x.gather(0, &i.reshape([3, 1]))),
        at("take", |x, i| x.narrow(1, 0, 1).reshape([10]).take(i)),
        at("take_along_dim", |x, i| x.take_along_dim(&wide(i), 0)),
        at("i", |x, i| x.i(i)),
        at("embedding", |x, i| i.embedding(x)),
        at("embedding_bag", |x, i| i.reshape([1, 3]).embedding_bag(x, Default::default())),
        at("nll_loss", |x, i| x.t().narrow(0, 0, 3).nll_loss(i, Default::default())),
        at("cross_entropy", |x, i| x.t().narrow(0, 0, 3).cross_entropy(i, Default::default())),
        at("a sum of rows", |x, i| x.index_select(0, i).sum(0)),
        at("running sums", |x, i| x.index_select(0, i).cumsum(0)),
        at("a product of rows", |x, i| x.index_select(0, i).matmul(&Tensor::ones([4, 3], x.device()))),
        at("rows amid zeros", |x, i| x.index_select(0, i).pad(&[0, 0, 2, 2], 0.0)),
        at("rows of rows", |x, i| x.index_select(0, i).index_select(0, &Tensor::arange(0, 3, 1, i.device()))),
        at("a loop", |x, i| fori_loop(3, &[x.clone(), i.clone()], |_, c| vec![&c[0] + c[0].index_select(0, &c[1]).sum(0), c[1].clone()])[0].clone()),
        at("a composite", |x, i| composite("rows", &[], &[x.clone(), i.clone()], |c| vec![c[0].index_select(0, &c[1])])[0].clone()),
        at("scatter", |x, i| x.scatter(0, &wide(i), 2.0)),
        at("scatter_add", |x, i| x.scatter_add(0, &wide(i), ones(x))),
        at("scatter_reduce", |x, i| x.scatter_reduce(0, &wide(i), ones(x), ScatterReduce::Amax, true)),
        at("index_add", |x, i| x.index_add(0, i, &ones(x), 1.0)),
        at("index_copy", |x, i| x.index_copy(0, i, &ones(x))),
        at("index_fill", |x, i| x.index_fill(0, i, 5.0)),
        at("index_put", |x, i| x.index_put(&[Some(i)], &ones(x), true)),
        at("put", |x, i| x.narrow(1, 0, 1).reshape([10]).put(i, &ones(x).narrow(1, 0, 1).reshape([3]), true)),
        at("a gradient", |x, i| { let x = x.clone().with_requires_grad(); grad(&x.index_select(0, i).sum(..), &[&x])[0].clone() }),
    ]
}

fn devices() -> Vec<Device> {
    let all = [Device::cpu(), Device::wgpu(0), Device::cuda(0)];
    all.into_iter().filter(|device| device.name().is_ok()).collect()
}

/// Indices in range but for the last, from memory and computed.
fn bad_indices(last: i64, d: Device) -> [Tensor; 2] {
    let there = Tensor::from_slice(&[3i64, 0, last], [3], d);
    there.realize().expect("a leaf");
    [there, Tensor::arange(0, 3, 1, d) * (last / 2) + last % 2]
}

/// Asserts that a tensor cannot be read, since an index is not below ten; the CPU computes none either. Other
/// devices say so once, to whoever waits for them first.
fn refused(what: &str, y: &Tensor, line: &Location<'_>) {
    let on_cpu = y.device() == Device::cpu();
    let read = y.to_vec::<f32>().map(drop);
    for outcome in [read].into_iter().chain(on_cpu.then(|| y.realize().map(drop))) {
        let error = outcome.expect_err(what);
        let Error::IndexOutOfRange { index, extent: 10, span, .. } = &error else {
            panic!("{what}: {error}")
        };
        assert!(!(0..10i64).contains(index), "{what}: {error}");
        assert_eq!((span.file(), span.line()), (line.file(), line.line()), "{what}: {error}");
    }
    assert!(!on_cpu || !y.is_realized(), "{what}: a value that is wrong");
    // Whatever launches met it, it is told once.
    assert!(y.device().synchronize().is_ok(), "{what}: told again");
}

/// Each source and use that a device is tried with: on those that compile kernels, each
/// source with one use and each use with one source.
fn programs(d: Device) -> Vec<(Source, Use)> {
    let (uses, all) = (uses(), d == Device::cpu());
    let mut programs = Vec::new();
    for source in SOURCES {
        let tried = |use_: &&Use| all || source.0 == "ones" || use_.0 == "index_select";
        programs.extend(uses.iter().filter(tried).map(|use_| (*source, *use_)));
    }
    programs
}

#[test]
fn indices_out_of_range_are_errors_whatever_they_find() {
    for d in devices() {
        for ((from, source), (name, apply, line)) in programs(d) {
            for (i, index) in [bad_indices(99, d), bad_indices(-21, d)].concat().iter().enumerate() {
                refused(&format!("{name} of {from}, index {i}, on {d}"), &apply(&source(d), index), line);
            }
        }
    }
}

#[test]
fn indices_in_range_find_what_memory_would_hold() -> Result<()> {
    for d in devices() {
        let index = Tensor::from_slice(&[3i64, 0, 9], [3], d);
        for ((from, source), (name, apply, _)) in programs(d) {
            let (x, computed) = (source(d), apply(&source(d), &index));
            if !["rand", "randn", "a fresh embedding"].contains(&from) {
                x.realize()?;
                let expected = apply(&x, &index).to_vec::<f32>()?;
                assert_eq!(computed.to_vec::<f32>()?, expected, "{name} of {from} on {d}");
            }
        }
    }
    Ok(())
}

#[test]
fn an_index_that_nothing_asks_for_is_not_checked() -> Result<()> {
    for d in devices() {
        let ones = Tensor::ones([10], d);
        // Positions before and after the gather are out of range, and padded.
        let index = Tensor::arange(8, 11, 1, d);
        let found = ones.index_select(0, &index).narrow(0, 0, 2).pad(&[3, 3], 7.0);
        assert_eq!(found.to_vec::<f32>()?, [7., 7., 7., 1., 1., 7., 7., 7.], "on {d}");
        let ignored = Tensor::from_slice(&[1i64, -100, 2], [3], d);
        let loss = (Tensor::ones([3, 4], d) * 2.0).cross_entropy(&ignored, Default::default());
        assert!((loss.item::<f32>()? - 4f32.ln()).abs() < 1e-5, "on {d}");
    }
    Ok(())
}

#[test]
fn an_error_names_the_operation_that_was_called() {
    for d in devices() {
        let far = Tensor::from_slice(&[0i64, 9], [2], d);
        let x = Tensor::arange(0.0, 6.0, 1.0, d).reshape([2, 3]);
        let all = Tensor::from_slice(&[true; 6], [2, 3], d);
        let wide = Tensor::from_slice(&[0i64, 9, 1], [3], d);
        let (logs, four) = (Tensor::zeros([4, 1, 3], d), Tensor::from_slice(&[4i64], [1], d));
        let programs = [
            ("quantile", x.quantile(Tensor::from_slice(&[0.5f32, 2.0], [2], d), .., Default::default())),
            ("masked_scatter", x.masked_scatter(&all, &Tensor::ones([2], d))),
            ("cross_entropy", x.cross_entropy(&far, Default::default())),
            ("nll_loss", x.nll_loss(&far, Default::default())),
            ("multi_margin_loss", x.multi_margin_loss(&far, Default::default())),
            ("embedding", far.embedding(&x)),
            ("index_select", x.index_select(1, &far)),
            ("take", x.take(&far)),
            ("scatter_add", x.scatter_add(1, &far.unsqueeze(0), Tensor::ones([1, 2], d))),
            ("index_add", x.index_add(1, &far, &Tensor::ones([2, 2], d), 1.0)),
            ("ctc_loss", logs.ctc_loss(&wide.unsqueeze(0), &four, &(&four - 1), Default::default())),
            ("index_select", fori_loop(2, &[x.clone()], |_, c| vec![c[0].index_select(1, &wide)]).remove(0)),
        ];
        for (name, y) in programs {
            let error = y.to_vec::<f32>().map(drop).expect_err(name);
            let Error::IndexOutOfRange { op, .. } = &error else { panic!("{name} on {d}: {error}") };
            assert_eq!(*op, name, "on {d}: {error}");
        }
    }
}

/// Loops of one body share a plan, whichever was first.
#[test]
fn an_index_inside_of_a_loop_names_the_line_of_its_own() {
    let (x, far) = (Tensor::arange(0.0, 3.0, 1.0, ()), Tensor::from([0i64, 9, 1]));
    let first = fori_loop(2, &[x.clone()], |_, c| vec![c[0].index_select(0, &far)]).remove(0);
    let (second, line) = (fori_loop(3, &[x], |_, c| vec![c[0].index_select(0, &far)]).remove(0), line!());
    for (y, line) in [(first, line - 1), (second, line)] {
        let error = y.to_vec::<f32>().expect_err("an index out of range");
        let Error::IndexOutOfRange { op: "index_select", span, .. } = &error else { panic!("{error}") };
        assert_eq!((span.file(), span.line()), (file!(), line), "{error}");
    }
}
