//! What bad input does, kind by kind: no operation panics; a mistake is a
//! value that names the operation, what it expected, what it found and the
//! user's line, and nothing that existed before is lost.

use kiln::base::{DType, Device, Dims, Error, OpError, Shape};
use kiln::plan::context::with_context;
use kiln::prelude::{AvgPoolOpts, ConvOpts, ConvTransposeOpts, MaxPoolOpts, RunningNormOpts, TopkOpts, r};
use kiln::tensor::diagonal::DiagonalOpts;
use kiln::tensor::im2col::Im2colOpts;
use kiln::tensor::increment::DiffOpts;
use kiln::tensor::interpolate::InterpolateOpts;
use kiln::tensor::multihead::HeadProjections;
use kiln::tensor::norm::NormOpts;
use kiln::tensor::pad::PadMode;
use kiln::tensor::statistics::QuantileOpts;
use kiln::{Context, Tensor, Var, context, einsum, realize};

/// A tensor and the line that made it.
macro_rules! here {
    ($tensor:expr) => {
        ($tensor, line!())
    };
}

#[track_caller]
fn floats<const N: usize>(dims: [usize; N]) -> Tensor {
    let count: usize = dims.iter().product();
    Tensor::from_vec((0..count).map(|i| i as f32).collect(), dims, ())
}

fn ints<const N: usize>(values: [i64; N]) -> Tensor {
    Tensor::from_slice(&values, [N], ())
}

/// The mistake that an invalid tensor records.
#[track_caller]
fn mistake(tensor: &Tensor) -> OpError {
    match tensor.check() {
        Err(Error::Op(error)) => (*error).clone(),
        other => panic!("expected the mistake of an operation, found {other:?}"),
    }
}

/// Asserts what a mistake says, and that it was made on that line of this file.
#[track_caller]
fn refused((tensor, line): (Tensor, u32), op: &str, expected: &str, found: &str) {
    let error = mistake(&tensor);
    assert_eq!((error.op, &error.expected[..], &error.found[..]), (op, expected, found), "{error}");
    assert_eq!((error.span.file(), error.span.line()), (file!(), line), "{error}");
}

/// Asserts that a range of calls is refused, whatever the words.
#[track_caller]
fn all_refused<const N: usize>(tensors: [(&str, Tensor); N]) {
    for (what, tensor) in tensors {
        match tensor.check() {
            Err(Error::Op(error)) => assert_eq!(error.span.file(), file!(), "{what}: {error}"),
            other => panic!("{what} was accepted: {tensor:?} {other:?}"),
        }
    }
}

mod wrong_shape {
    use super::*;

    #[test]
    fn operands_that_do_not_broadcast() {
        let (a, b) = (floats([2, 3]), floats([4]));
        refused(here!(&a + &b), "add", "shapes that broadcast together", "[2, 3] and [4]");
        assert_eq!(mistake(&(&a + &b)).shapes, [Shape::new(&[2, 3]), Shape::new(&[4])]);
        refused(here!(a.expand([3, 3])), "expand", "a shape that [2, 3] broadcasts to", "[3, 3]");
    }

    #[test]
    fn products_whose_inner_extents_differ() {
        let (a, b) = (floats([2, 3]), floats([4, 5]));
        refused(
            here!(a.matmul(&b)),
            "matmul",
            "axis 1 of the first and axis 0 of the second of one extent",
            "3 and 4",
        );
        refused(
            here!(einsum("ij,jk->ik", &[&a, &b])),
            "einsum",
            "one extent for each letter of \"ij,jk->ik\"",
            "shape [4, 5] beside [3, 5]",
        );
        refused(
            here!(a.linear(&b, None)),
            "linear",
            "axis 1 of the first and axis 1 of the second of one extent",
            "3 and 5",
        );
        let (image, filter) = (floats([1, 3, 4, 4]), floats([2, 4, 3, 3]));
        let conv = here!(image.conv2d(&filter, None, ConvOpts::default()));
        refused(conv, "conv2d", "an input of 4 channels", "3");
    }

    #[test]
    fn other_numbers_of_elements() {
        let x = floats([2, 3]);
        refused(here!(x.reshape([4])), "reshape", "a shape of 6 elements", "[4]");
        refused(here!(x.reshape([-1, -1])), "reshape", "at most one extent of -1", "[-1, -1]");
        refused(
            here!(x.view([0, -1])),
            "view",
            "a shape of 6 elements with one extent to work out",
            "[0, -1]",
        );
        refused(
            here!(Tensor::cat(&[&x, &floats([2, 2])], 0)),
            "cat",
            "tensors of one shape but for axis 0",
            "[2, 3], [2, 2]",
        );
        refused(
            here!(Tensor::stack(&[&x, &floats([2, 2])], 0)),
            "stack",
            "tensors of one shape",
            "[2, 3], [2, 2]",
        );
        refused(here!(x.split(vec![1, 3], 1)[0].clone()), "split", "sizes that add up to 3", "[1, 3]");
        refused(
            here!(x.layer_norm([4], NormOpts::default())),
            "layer_norm",
            "last extents [4]",
            "shape [2, 3]",
        );
    }

    #[test]
    fn data_that_do_not_fill_the_shape() {
        let short = here!(Tensor::from_slice(&[1f32; 5], [2, 3], ()));
        refused(short, "from_slice", "6 values for shape [2, 3]", "5 values");
        let long = here!(Tensor::from_vec(vec![1u8; 7], [2, 3], ()));
        refused(long, "from_vec", "6 values for shape [2, 3]", "7 values");
        let ragged = here!(Tensor::from(vec![vec![1f32, 2.0], vec![3.0]]));
        refused(ragged, "from", "rows of one length, [2, 2]", "rows of different lengths");
        let deep = here!(Tensor::new(vec![vec![vec![1i64]], vec![vec![1, 2]]], ()));
        refused(deep, "new", "rows of one length, [2, 1, 1]", "rows of different lengths");
    }
}

mod wrong_type {
    use super::*;

    #[test]
    fn operations_name_the_types_they_take() {
        let (x, n) = (floats([2]), ints([1, 2]));
        refused(here!(x.bitwise_and(1)), "bitwise_and", "a bool or integer type", "f32");
        refused(here!(n.eq(1).neg()), "neg", "an integer or floating type", "bool");
        refused(here!(x.select(1, 2)), "select", "a bool condition", "f32");
        refused(here!(x.masked_fill(&n, 0)), "masked_fill", "a bool condition", "i64");
        refused(here!(x.gather(0, &x)), "gather", "an integer index", "f32");
        refused(here!(x.embedding(&floats([3, 2]))), "embedding", "an integer index", "f32");
        refused(here!(x.bitcast(DType::F64)), "bitcast", "a number type of 4 bytes", "f64, from f32");
        refused(here!(n.dropout(0.5)), "dropout", "a floating-point type", "i64");
        refused(here!(n.matmul(&x)), "matmul", "operands of one number type", "i64 and f32");
    }

    #[test]
    fn reading_with_another_type_names_the_cast() {
        let x = floats([3]) * 2.0;
        let (error, line) = (x.to_vec::<f64>().unwrap_err(), line!());
        let Error::ReadType { call, expected, found, span } = &error else { panic!("{error}") };
        assert_eq!((*call, *expected, *found), ("to_vec", DType::F64, DType::F32));
        assert_eq!((span.file(), span.line()), (file!(), line));
        assert!(error.to_string().contains("write `.to_dtype(DType::F64)` before it"), "{error}");
        assert!(error.to_string().contains("read it as f32"), "{error}");
        assert_eq!(x.to_dtype(DType::F64).to_vec::<f64>().unwrap(), [0.0, 2.0, 4.0]);
    }

    #[test]
    fn an_item_widens_but_never_narrows() {
        let n = ints([7]);
        assert_eq!(n.item::<f64>().unwrap(), 7.0);
        let error = Tensor::scalar(1.5, DType::F64).item::<f32>().unwrap_err();
        let Error::ReadType { call: "item", expected, found, .. } = error else { panic!("{error}") };
        assert_eq!((expected, found), (DType::F32, DType::F64));
        let error = ints([1, 2]).item::<i64>().unwrap_err();
        let Error::Argument { call: "item", expected, found } = error else { panic!("{error}") };
        assert_eq!((&expected[..], &found[..]), ("a tensor of one element", "shape [2]"));
    }
}

mod wrong_device {
    use super::*;

    #[test]
    fn tensors_on_two_devices_do_not_mix() {
        let (a, made) = here!(floats([2, 2]));
        let b = Tensor::ones([2, 2], Device::null());
        let expected = "all tensors on the same device";
        let found = format!("cpu (made at {0}:{made}) and null (made at {0}:{1})", file!(), made + 1);
        refused(here!(&a + &b), "add", expected, &found);
        refused(here!(a.matmul(&b)), "matmul", expected, &found);
        refused(here!(Tensor::cat(&[&a, &b], 0)), "cat", expected, &found);
        let (index, cast) = here!(b.to_dtype(DType::I64));
        let found = found.replace(&format!(":{})", made + 1), &format!(":{cast})"));
        refused(here!(a.gather(0, &index)), "gather", expected, &found);
        (&a.to(Device::null()) + &b).check().expect("moved, they mix");
        (&b + 1).check().expect("numbers have no device");
    }

    /// Operations of several tensors, one of them on another device.
    #[test]
    fn one_operand_elsewhere_is_refused_by_all() {
        let (x, y) = (floats([4, 4]), Tensor::ones([4, 4], Device::null()));
        let (image, filter) = (floats([1, 4, 4, 4]), Tensor::ones([4, 4, 1, 1], Device::null()));
        let (row, away) = (ints([0, 1, 2, 3]), Tensor::zeros([4], (Device::null(), DType::I64)));
        let row_away = Tensor::ones([4], Device::null());
        let projections = HeadProjections {
            input_weight: Tensor::ones([12, 4], Device::null()),
            input_bias: None,
            output_weight: Tensor::ones([4, 4], Device::null()),
            output_bias: None,
        };
        all_refused([
            ("linear", x.linear(&y, None)),
            ("bilinear", x.bilinear(&y, &floats([2, 4, 4]), None)),
            ("addmm", x.addmm(&x, &y, Default::default())),
            ("tensordot", x.tensordot(&y, 1)),
            ("solve", x.solve(&y)),
            ("cdist", x.cdist(&y, 2.0)),
            ("cosine similarity", x.cosine_similarity(&y, 1, 1e-8)),
            ("dist", x.dist(&y, 2.0)),
            ("conv2d", image.conv2d(&filter, None, ConvOpts::default())),
            ("transposed", image.conv_transpose2d(&filter, None, ConvTransposeOpts::default())),
            ("a bias", image.conv2d(&filter.to(Device::cpu()), Some(&row_away), ConvOpts::default())),
            (
                "grid_sample",
                image.grid_sample(&Tensor::ones([1, 2, 2, 2], Device::null()), Default::default()),
            ),
            ("layer_norm", x.layer_norm([4], NormOpts::default().weight(&row_away))),
            ("batch_norm", x.batch_norm(RunningNormOpts::training().weight(&row_away))),
            (
                "attention",
                image.scaled_dot_product_attention(
                    &image,
                    &Tensor::ones([1, 4, 4, 4], Device::null()),
                    Default::default(),
                ),
            ),
            ("multi-head", x.multi_head_attention_forward(&x, &x, 2, &projections, Default::default()).0),
            ("cross entropy", x.cross_entropy(&away, Default::default())),
            ("nll", x.nll_loss(&away, Default::default())),
            ("embedding", away.embedding(&x)),
            ("embedding_bag", away.reshape([1, 4]).embedding_bag(&x, Default::default())),
            ("index", x.i(&away)),
            ("index_put", x.index_put(&[Some(&row)], &y, false)),
            ("index_add", x.index_add(0, &away, &x, 1)),
            ("scatter", x.scatter(0, &away.reshape([4, 1]), 1.0)),
            ("scatter_add", x.scatter_add(0, &row.reshape([4, 1]), &y)),
            ("take_along_dim", x.take_along_dim(&away.reshape([4, 1]), 1)),
            ("searchsorted", row.searchsorted(&away, Default::default())),
            ("isin", row.isin(&away)),
            ("bincount", row.bincount(Some(&row_away), 4)),
            ("masked_fill", x.masked_fill(&y.gt(0), 1.0)),
            ("masked_scatter", x.masked_scatter(&y.gt(0), &x)),
            ("select", x.gt(0).select(&y, &x)),
            ("lerp", x.lerp(&x, &y)),
            ("quantile", x.quantile(&row_away, 0, QuantileOpts::default())),
            ("block_diag", Tensor::block_diag(&[&x, &y])),
            (
                "meshgrid",
                Tensor::meshgrid(&[&row, &away], Default::default()).pop().unwrap_or_else(|| &row + &away),
            ),
            (
                "scan",
                kiln::scan(&[x.clone()], &[y.clone()], |c, s| (vec![&c[0] + &s[0]], vec![])).0[0].clone(),
            ),
        ]);
    }

    #[test]
    fn devices_that_are_not_there() {
        let away = Tensor::ones([2], Device::cuda(7)) + 1.0;
        let error = away.realize().unwrap_err();
        let Error::DeviceUnavailable { device, reason } = &error else { panic!("{error}") };
        assert_eq!(*device, Device::cuda(7));
        assert!(!reason.is_empty());
        let error = "cuda:x".parse::<Device>().unwrap_err();
        let Error::Parse { what: "device", expected, found } = &error else { panic!("{error}") };
        assert_eq!((&expected[..], &found[..]), ("cpu, wgpu:N, cuda:N, mps, meta or null", "cuda:x"));
    }

    #[test]
    fn meta_tensors_have_no_data() {
        let x = Tensor::ones([1 << 40, 1 << 30], Device::meta()) * 2.0;
        let (error, line) = (x.to_vec::<f32>().unwrap_err(), line!());
        let Error::NoData { call, shape, span } = &error else { panic!("{error}") };
        assert_eq!((*call, &shape[..]), ("to_vec", &[1 << 40, 1 << 30][..]));
        assert_eq!((span.file(), span.line()), (file!(), line));
        let one = x.sum(..);
        let calls = [
            ("realize", one.realize().map(|_| ()).unwrap_err()),
            ("realize", realize(&[&floats([1]), &one]).unwrap_err()),
            ("item", one.item::<f32>().unwrap_err()),
            ("nonzero", x.nonzero().map(|_| ()).unwrap_err()),
            ("to_text", one.to_text().map(|_| ()).unwrap_err()),
        ];
        for (name, error) in calls {
            let Error::NoData { call, .. } = &error else { panic!("{name}: {error}") };
            assert_eq!(*call, name);
        }
    }
}

mod out_of_range {
    use super::*;

    #[test]
    fn axes() {
        let x = floats([2, 3]);
        refused(here!(x.sum(2)), "sum", "an axis in -2..=1", "axis 2");
        refused(here!(x.softmax(-3)), "softmax", "an axis in -2..=1", "axis -3");
        refused(here!(x.transpose(0, 5)), "transpose", "an axis in -2..=1", "axis 5");
        refused(here!(x.unsqueeze(4)), "unsqueeze", "a new axis in -3..=2", "axis 4");
        refused(here!(x.squeeze(i64::MIN)), "squeeze", "an axis in -2..=1", "axis -9223372036854775808");
        refused(here!(x.cumsum(i64::MAX)), "cumsum", "an axis in -2..=1", "axis 9223372036854775807");
        refused(here!(Tensor::cat(&[&x, &x], 2)), "cat", "an axis in -2..=1", "axis 2");
        refused(here!(x.sum([0, -2])), "sum", "distinct axes", "axis 0 twice");
        refused(here!(x.permute([0, 0])), "permute", "distinct axes", "axis 0 twice");
        refused(here!(Tensor::scalar(1.0, ()).sum(1)), "sum", "an axis in -1..=0", "axis 1");
        let error = x.dim(2).unwrap_err();
        let Error::Op(error) = &error else { panic!("{error}") };
        assert_eq!((error.op, &error.expected[..], &error.found[..]), ("dim", "an axis in -2..=1", "axis 2"));
        let error = x.dims::<3>().unwrap_err();
        let Error::Op(error) = &error else { panic!("{error}") };
        assert_eq!((error.op, &error.expected[..], &error.found[..]), ("dims", "rank 3", "rank 2"));
    }

    #[test]
    fn indices_known_when_the_graph_is_built() {
        let x = floats([4]);
        refused(here!(x.i(4)), "i", "a position in -4..=3 on axis 0 of extent 4", "4");
        refused(here!(x.i(-5)), "i", "a position in -4..=3 on axis 0 of extent 4", "-5");
        refused(here!(x.i((0, 0))), "i", "one index for each of 1 axes at most, and one ellipsis", "2 and 0");
        refused(here!(x.i(r(0, 4).step(0))), "i", "a step other than 0", "0 on axis 0");
        refused(
            here!(x.select_index(0, 4)),
            "select_index",
            "a position in -4..=3 on axis 0 of extent 4",
            "4",
        );
        refused(here!(x.narrow(0, 3, 2)), "narrow", "a start in -4..=2", "3");
        refused(here!(x.topk(5, TopkOpts::default()).0), "topk", "at most 4 elements", "5");
        refused(here!(x.kthvalue(0, 0).1), "kthvalue", "a k in 1..=4", "0");
        refused(
            here!(x.unfold(0, 5, 1)),
            "unfold",
            "windows of at most 4 elements and a step of at least 1",
            "size 5, step 1",
        );
    }

    /// The error of an index that was computed, and that the rest goes on.
    #[track_caller]
    fn at_run_time((tensor, line): (Tensor, u32), index: i64, extent: usize) {
        let error = tensor.realize().unwrap_err();
        let Error::IndexOutOfRange { index: i, extent: n, span, .. } = &error else { panic!("{error}") };
        assert_eq!((*i, *n), (index, extent), "{error}");
        assert_eq!((span.file(), span.line()), (file!(), line), "{error}");
        assert!(!tensor.is_realized(), "a value that is wrong");
        assert_eq!(tensor.realize().unwrap_err().to_string(), error.to_string(), "the second time");
    }

    #[test]
    fn indices_computed_on_the_device() {
        let (x, n) = (floats([3, 2]) + 0.5, ints([2]) + 1);
        at_run_time(here!(x.index_select(0, &n)), 3, 3);
        at_run_time(here!(x.gather(0, &(ints([-1, 0]) * 1).reshape([1, 2]))), -1, 3);
        at_run_time(here!(n.embedding(&x)), 3, 3);
        at_run_time(here!(x.scatter(0, &n.reshape([1, 1]), 1.0)), 3, 3);
        at_run_time(here!(x.i(&n)), 3, 3);
        let target = ints([0, 2, 1]);
        at_run_time(here!(x.nll_loss(&target, Default::default())), 2, 2);
        assert_eq!(x.index_select(0, &(n - 1)).to_vec::<f32>().unwrap(), [4.5, 5.5]);
    }
}

mod too_large {
    use super::*;

    #[test]
    fn more_bytes_than_memory_can_address() {
        let limit = "a tensor of at most 2^63 - 1 bytes";
        let side = 1usize << 40;
        refused(
            here!(Tensor::zeros([side, side], ())),
            "zeros",
            limit,
            "shape [1099511627776, 1099511627776]",
        );
        let column = Tensor::ones([1 << 31, 1], ());
        let row = Tensor::ones([1, 1 << 31], ());
        refused(here!(&column + &row), "add", limit, "shape [2147483648, 2147483648]");
        all_refused([
            ("matmul", column.matmul(&row)),
            ("repeat", column.repeat([1, 1i64 << 40])),
            ("repeat beyond usize", column.repeat([i64::MAX, i64::MAX])),
            ("tile", column.tile([1i64 << 40, 1])),
            (
                "stack",
                Tensor::stack(&[&column.expand([1 << 31, 1 << 29]), &column.expand([1 << 31, 1 << 29])], 0),
            ),
            ("pad", column.pad(&[0, i64::MAX], PadMode::Constant(0.into()))),
            ("pad on both sides", column.pad(&[i64::MAX, i64::MAX], PadMode::Constant(0.into()))),
            ("circular", floats([3]).reshape([1, 3]).pad(&[i64::MAX, i64::MAX], PadMode::Circular)),
            ("eye", Tensor::eye(side, side, ())),
            ("arange", Tensor::arange(0, i64::MAX, 1, ())),
            ("arange of floats", Tensor::arange(0.0, 1e30, 1.0, ())),
            ("linspace", Tensor::linspace(0.0, 1.0, usize::MAX, ())),
            ("rand", Tensor::rand([usize::MAX, 2], ())),
            ("one_hot", ints([1, 2]).one_hot(usize::MAX)),
            ("repeat_interleave", column.repeat_interleave(usize::MAX, 0)),
            ("diag_embed", row.diag_embed(Default::default())),
            ("from_slice", Tensor::from_slice(&[1f32], [usize::MAX, usize::MAX], ())),
            ("reshape", floats([4]).reshape([usize::MAX, 4])),
        ]);
    }

    #[test]
    fn meta_tensors_may_be_larger_but_count_exactly() {
        let huge = Tensor::ones([1 << 40, 1 << 40], Device::meta());
        huge.check().expect("any size");
        huge.reshape([1usize << 30, 1 << 50]).check().expect("as many elements");
        refused(
            here!(huge.reshape([1usize << 41, 1 << 40])),
            "reshape",
            "a shape of 1208925819614629174706176 elements",
            "[2199023255552, 1099511627776]",
        );
        let whole = Tensor::ones([i64::MAX as usize], Device::meta());
        all_refused([
            ("an extent beyond i64", Tensor::ones([usize::MAX], Device::meta())),
            ("cat", Tensor::cat(&[&whole, &whole], 0)),
            ("repeat", whole.repeat([2])),
            ("repeat_interleave", whole.repeat_interleave(2, 0)),
            ("pad", whole.pad(&[1, 0], PadMode::Constant(0.into()))),
        ]);
    }

    /// Numbers at the ends of their types: whatever is built from them, or
    /// refused, nothing panics and no arithmetic wraps.
    #[test]
    fn extreme_arguments_never_panic() {
        let devices = [Device::cpu(), Device::meta()];
        for (device, least, most, all) in devices.map(|d| (d, i64::MIN, i64::MAX, usize::MAX)) {
            let x = floats([1, 4, 4, 4]).to(device);
            let rows = x.reshape([4, 16]);
            let weight = floats([4, 4, 1, 1]).to(device);
            let pooling = || MaxPoolOpts::default();
            let conv = || ConvOpts::default();
            let turned = || ConvTransposeOpts::default();
            let sampling = || InterpolateOpts::default();
            let diagonal = |offset| DiagonalOpts::default().offset(offset);
            let windows = |of: Im2colOpts| x.im2col(2, of);
            let built = vec![
                x.roll([most, least], [0, 1]),
                rows.tril(least),
                rows.triu(most),
                rows.diagonal(diagonal(least)),
                rows.diagonal(diagonal(most)),
                rows.diag_embed(diagonal(most)),
                rows.diag_embed(diagonal(least)),
                rows.rot90(least, [0, 1]),
                rows.i(r(least, most).step(least)),
                rows.i(r(most, least).step(most)),
                rows.narrow(1, most, all),
                rows.narrow(1, least, all),
                rows.unfold(1, all, all),
                rows.as_strided([4, 4], [most, most], all),
                rows.as_strided([most, most], [0, 0], 0),
                rows.unflatten(1, [-1, most]),
                rows.topk(all, TopkOpts::default()).0,
                rows.kthvalue(all, 1).0,
                rows.diff(DiffOpts::default().order(all)),
                rows.pad(&[least, least], PadMode::Constant(0.into())),
                rows.pad(&[most, least], PadMode::Reflect),
                rows.pad(&[least, most], PadMode::Replicate),
                x.pixel_shuffle(all),
                x.pixel_unshuffle(all),
                x.channel_shuffle(all),
                x.conv2d(&weight, None, conv().padding(most)),
                x.conv2d(&weight, None, conv().stride(most).dilation(most)),
                x.conv2d(&weight, None, conv().groups(all)),
                x.conv_transpose2d(&weight, None, turned().stride(most)),
                x.conv_transpose2d(&weight, None, turned().dilation(most).padding(most)),
                x.conv_transpose2d(&weight, None, turned().output_padding(most)),
                x.conv_transpose2d(&weight, None, turned().groups(all)),
                x.max_pool2d(most, pooling()),
                x.max_pool2d(2, pooling().dilation(most)),
                x.max_pool2d(2, pooling().stride(most).padding(most)),
                x.avg_pool2d(2, AvgPoolOpts::default().padding(most).ceil_mode(true)),
                x.adaptive_avg_pool2d(most),
                x.adaptive_max_pool2d(least),
                windows(Im2colOpts::default().padding(most)),
                windows(Im2colOpts::default().dilation(most).stride(most)),
                x.interpolate(sampling().size(vec![most, most])),
                x.interpolate(sampling().scale_factor([1e300])),
                x.interpolate(sampling().scale_factor([1e-300])),
                x.local_response_norm(all, Default::default()),
                rows.histc(all, 0.0, 1.0),
                Tensor::tril_indices(all, all, most, device),
                Tensor::triu_indices(all, 2, least, device),
                Tensor::arange(least, most, most, device),
                Tensor::arange(most, least, -1, device),
                Tensor::randint(least, most, [2], device),
                Tensor::linspace(-f64::MAX, f64::MAX, 3, device),
                ints([least, most]).to(device).one_hot(3),
                rows.repeat([most, most, most]),
                rows.chunk(all, 0)[0].clone(),
                rows.split(most, 0)[0].clone(),
                rows.reshape([most, least]),
                rows.expand([most, 4, 16]).flatten(0, -1),
                rows.expand([most, 4, 16]).mean(..),
                rows.expand([most, 4, 16]).var([0, 1]),
                rows.expand([most, 4, 16]).group_norm(2, NormOpts::default()),
                rows.expand([most, 4, 16]).batch_norm(RunningNormOpts::training()),
                rows.expand([most, 4, 16]).take(&ints([0]).to(device)),
                Tensor::block_diag(&[&rows.i(0).expand([4, 16]), &rows.i((.., 0)).expand([4, 4])]),
            ];
            for tensor in &built {
                match tensor.check() {
                    Ok(()) => assert!(device.is_meta() || tensor.numel() <= all / 2),
                    Err(Error::Op(error)) => assert_eq!(error.span.file(), file!(), "{error}"),
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }

    #[test]
    fn ranks_beyond_what_axis_numbers_hold() {
        let dims = vec![1usize; 256];
        refused(here!(Tensor::ones(dims.clone(), ())), "ones", "a tensor of at most 255 axes", "256 axes");
        refused(here!(floats([1]).reshape(dims)), "reshape", "a tensor of at most 255 axes", "256 axes");
    }

    #[test]
    fn memory_above_a_set_limit() {
        // The CPU's memory is shared by the process, other tests' included;
        // they hold far less than a mebibyte.
        const MIB: u64 = 1 << 20;
        let cpu = Device::cpu();
        let held = (floats([1 << 18]) * 2.0).realize().unwrap().clone();
        let limit = context().memory(cpu).unwrap().allocated + 8 * MIB;
        context().set_memory_limit(cpu, limit).unwrap();
        let large = Tensor::ones([4 << 20], ()) + &held.i(0);
        let error = large.realize().unwrap_err();
        let Error::OutOfMemory { device, requested, in_use, limit: set, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((device, requested, set), (cpu, 16 * MIB, limit));
        assert!((MIB..=limit).contains(&in_use), "{in_use}");
        let data = Tensor::from_vec(vec![0u8; 16 << 20], [16 << 20], ());
        assert!(matches!(data.check(), Err(Error::OutOfMemory { requested, .. }) if requested == 16 * MIB));
        // What was there still is, and what fits still runs.
        assert_eq!(held.i(3).item::<f32>().unwrap(), 6.0);
        let first = (&held + 1.0).realize().unwrap().clone();
        let rest: Vec<Tensor> = (0..6).map(|i| &held + f64::from(i)).collect();
        realize(&rest.iter().collect::<Vec<_>>()).unwrap();
        let more = &held - 1.0;
        let another = Tensor::ones([1 << 19], ()) * &held.i(1);
        assert!(matches!(another.realize(), Err(Error::OutOfMemory { .. })), "seven of eight are taken");
        // Freeing makes room, for that very tensor.
        drop((rest, first));
        assert_eq!(another.realize().unwrap().i(-1).item::<f32>().unwrap(), 2.0);
        assert_eq!(more.i(0).item::<f32>().unwrap(), -1.0);
        context().set_memory_limit(cpu, u64::MAX).unwrap();
        assert_eq!(large.realize().unwrap().i(-1).item::<f32>().unwrap(), 1.0);
    }

    #[test]
    fn memory_of_a_device_of_ones_own() {
        with_context(&Context::new(), || {
            let null = Device::null();
            context().set_memory_limit(null, 1000).unwrap();
            let error = (Tensor::ones([300], null) * 2.0).realize().unwrap_err();
            let Error::OutOfMemory { device, requested, in_use, limit, .. } = error else {
                panic!("{error}")
            };
            assert_eq!((device, requested, in_use, limit), (null, 1200, 0, 1000));
            let error = context().set_memory_limit(Device::meta(), 1).unwrap_err();
            assert!(matches!(error, Error::DeviceUnavailable { device, .. } if device == Device::meta()));
        });
    }
}

mod nothing_there {
    use super::*;

    fn values(x: &Tensor) -> Vec<f64> {
        x.to_dtype(DType::F64).to_vec().expect("a value")
    }

    #[test]
    fn sums_and_products_of_nothing_are_their_neutral_element() {
        let none = floats([0, 3]);
        assert_eq!(values(&none.sum(..)), [0.0]);
        assert_eq!(values(&none.prod(0)), [1.0; 3]);
        assert_eq!(values(&none.sum(1)), []);
        assert_eq!(values(&none.ne(0).any(..)), [0.0]);
        assert_eq!(values(&none.ne(0).all(..)), [1.0]);
        assert!(values(&none.mean(..))[0].is_nan());
        assert!(values(&none.var(..))[0].is_nan());
        assert_eq!(values(&none.logsumexp(0)), [f64::NEG_INFINITY; 3]);
        assert_eq!(values(&floats([2, 0]).matmul(&floats([0, 2]))), [0.0; 4]);
        assert_eq!(values(&einsum("ij->j", &[&none])), [0.0; 3]);
    }

    #[test]
    fn operations_on_nothing_give_nothing() {
        let none = floats([0, 3]);
        let same = [
            &none + 1.0,
            none.exp(),
            none.softmax(0),
            none.softmax(1),
            none.cumsum(0),
            none.sort(0, false).0,
            none.flip([0]),
            none.layer_norm([3], NormOpts::default()),
            none.topk(0, TopkOpts::default().axis(0)).0,
            none.index_select(0, &ints([])),
            Tensor::cat(&[&none, &none], 0),
            none.matmul(&floats([3, 3])),
        ];
        for (i, tensor) in same.iter().enumerate() {
            assert_eq!(tensor.to_vec::<f32>().unwrap_or_else(|e| panic!("{i}: {e}")), [], "{i}");
            assert_eq!(tensor.shape()[..], [0, 3], "{i}");
        }
        assert_eq!(none.amax(1).shape()[..], [0]);
        assert_eq!(none.nonzero().unwrap().shape()[..], [0, 2]);
        let images = floats([0, 3, 8, 8]).conv2d(&floats([5, 3, 3, 3]), None, ConvOpts::default());
        assert_eq!(images.to_vec::<f32>().unwrap(), []);
        assert_eq!(images.shape()[..], [0, 5, 6, 6]);
    }

    #[test]
    fn extremes_of_nothing_do_not_exist() {
        let none = floats([0, 3]);
        refused(here!(none.amax(..)), "amax", "at least one element to choose from", "extent 0 on axis 0");
        refused(here!(none.amin(0)), "amin", "at least one element to choose from", "extent 0 on axis 0");
        refused(here!(none.argmax(0)), "argmax", "at least one element to choose from", "extent 0 on axis 0");
        refused(
            here!(none.max_with_index(0).0),
            "max_with_index",
            "at least one element to choose from",
            "extent 0 on axis 0",
        );
        refused(here!(none.median(0).0), "median", "at least one element", "extent 0 on axis 0");
        refused(here!(none.kthvalue(1, 0).0), "kthvalue", "a k in 1..=0", "1");
        refused(
            here!(none.quantile(0.5, .., QuantileOpts::default())),
            "quantile",
            "a floating type and at least one element",
            "f32 [0, 3]",
        );
        refused(here!(none.i(0)), "i", "no position on axis 0, whose extent is 0", "0");
        refused(
            here!(none.reshape([-1, 0])),
            "reshape",
            "a shape of 0 elements with one extent to work out",
            "[-1, 0]",
        );
        refused(here!(Tensor::cat::<Tensor>(&[], 0)), "cat", "at least one tensor", "none");
        let error = none.item::<f32>().unwrap_err();
        assert!(matches!(&error, Error::Argument { call: "item", found, .. } if found == "shape [0, 3]"));
    }
}

mod numbers_from_files {
    use super::*;

    /// What a file's line gives as a shape.
    fn read(line: &str) -> Result<Shape, Error> {
        let path = std::env::temp_dir().join(format!("kiln-bad-input-{}-{:p}", std::process::id(), line));
        std::fs::write(&path, line).expect("a file for a test");
        let text = std::fs::read_to_string(&path).expect("the file just written");
        std::fs::remove_file(&path).expect("the file just written");
        text.parse()
    }

    #[test]
    fn shapes_are_read_as_they_are_printed() {
        for dims in [&[][..], &[0], &[2, 3], &[usize::MAX, 1]] {
            assert_eq!(read(&Shape::new(dims).to_string()).unwrap()[..], *dims);
        }
        assert_eq!(read(" 2, 3\n").unwrap()[..], [2, 3]);
        assert_eq!(Tensor::zeros(read("[2, 3]").unwrap(), ()).numel(), 6);
    }

    #[test]
    fn extents_that_are_none() {
        for text in
            ["NaN", "[2, NaN]", "[-1, 3]", "[2.5]", "1e3", "inf", "[2,, 3]", "[2", "[18446744073709551616]"]
        {
            let error = read(text).unwrap_err();
            let Error::Parse { what, expected, found } = &error else { panic!("{error}") };
            assert_eq!((*what, &expected[..]), ("shape", "extents of at least 0 such as [2, 3]"));
            assert_eq!(found, text);
        }
        let error = "float128".parse::<DType>().unwrap_err();
        assert!(matches!(&error, Error::Parse { what: "dtype", found, .. } if found == "float128"));
    }

    #[test]
    fn numbers_that_are_none_are_refused_as_sizes() {
        let x = floats([1, 2, 8, 8]);
        let nan = "NaN".parse::<f64>().unwrap();
        all_refused([
            ("arange to NaN", Tensor::arange(0.0, nan, 1.0, ())),
            ("arange by NaN", Tensor::arange(0.0, 1.0, nan, ())),
            ("arange by 0", Tensor::arange(0, 1, 0, ())),
            ("arange to infinity", Tensor::arange(0.0, f64::INFINITY, 1.0, ())),
            ("a quantile", x.quantile(nan, .., QuantileOpts::default())),
            ("dropout", x.dropout(nan)),
            ("dropout beyond 1", x.dropout(1.5)),
            ("interpolate", x.interpolate(InterpolateOpts::default().scale_factor([nan]))),
            ("reshape to a negative extent", x.reshape([-2, 64])),
            ("a negative size", x.expand([-7, 2, 8, 8])),
            ("a negative repeat", x.repeat([-1, 1, 1, 1])),
            ("a stride of 0", x.conv2d(&floats([1, 2, 3, 3]), None, ConvOpts::default().stride(0))),
            ("a negative dilation", x.conv2d(&floats([1, 2, 3, 3]), None, ConvOpts::default().dilation(-1))),
            ("no groups", x.conv2d(&floats([1, 2, 3, 3]), None, ConvOpts::default().groups(0))),
            ("a negative padding", x.conv2d(&floats([1, 2, 3, 3]), None, ConvOpts::default().padding(-1))),
            ("a window of 0", x.max_pool2d(0, MaxPoolOpts::default())),
            ("a window wider than the image", x.avg_pool2d(9, AvgPoolOpts::default())),
            ("a divisor of 0", x.avg_pool2d(2, AvgPoolOpts::default().divisor_override(0))),
            ("groups that do not divide", x.group_norm(3, NormOpts::default())),
            ("chunks of none", x.chunk(0, 0)[0].clone()),
            ("split by 0", x.split(0, 2)[0].clone()),
            ("split by less", x.split(-1, 2)[0].clone()),
            ("randint of an empty range", Tensor::randint(3, 3, [2], ())),
        ]);
    }

    #[test]
    fn a_number_that_fits_no_integer_is_the_least() {
        let x = Tensor::from_slice(&[f64::NAN, f64::INFINITY, -1e300, -2.9], [4], ());
        assert_eq!(x.to_dtype(DType::I64).to_vec::<i64>().unwrap(), [i64::MIN, i64::MIN, i64::MIN, -2]);
        assert_eq!(x.to_dtype(DType::I32).to_vec::<i32>().unwrap(), [i32::MIN, i32::MIN, i32::MIN, -2]);
        assert_eq!(x.to_dtype(DType::U8).to_vec::<u8>().unwrap(), [0, 0, 0, 254]);
        assert_eq!(Tensor::full([1], f64::NAN, DType::I32).to_vec::<i32>().unwrap(), [i32::MIN]);
    }
}

mod invalid_tensors {
    use super::*;

    #[test]
    fn the_first_mistake_flows_to_whatever_asks() {
        let (bad, line) = here!(floats([2, 3]).matmul(&floats([2, 3])));
        let mask = floats([3]).gt(1.0);
        let flows = [
            &bad + 1.0,
            floats([2]) * &bad,
            bad.exp().sum(0).softmax(-1).reshape([7, -1]),
            Tensor::cat(&[&floats([2]), &bad], 0),
            bad.i((0, ..)),
            bad.conv2d(&bad, None, ConvOpts::default()).max_pool2d(2, MaxPoolOpts::default()),
            floats([3]).layer_norm([3], NormOpts::default().weight(&bad)),
            mask.select(&bad, 0.0),
            floats([3]).masked_fill(&bad, 0.0),
            floats([3]).index_select(0, &bad),
            bad.sort(0, true).1,
            bad.topk(2, TopkOpts::default()).0,
            bad.split(1, 0)[0].clone(),
            einsum("ij,jk", &[&floats([2, 2]), &bad]),
            kiln::fori_loop(3, &[floats([2])], |_, c| vec![&c[0] + &bad])[0].clone(),
            bad.to(Device::null()).to_dtype(DType::F16),
            &(&bad + &floats([9])) - &(floats([2]) + floats([3])),
        ];
        for (i, tensor) in flows.iter().enumerate() {
            let error = mistake(tensor);
            assert_eq!((i, error.op, error.span.line()), (i, "matmul", line), "{error}");
            assert_eq!(&error.found[..], "3 and 2", "{error}");
        }
        let last = &flows[2];
        let asked = [
            last.realize().map(|_| ()),
            realize(&[&floats([1]), last]),
            last.to_vec::<f32>().map(|_| ()),
            last.item::<f32>().map(|_| ()),
            last.plan().map(|_| ()),
            last.to_text().map(|_| ()),
            last.dims::<2>().map(|_| ()),
            last.dim(0).map(|_| ()),
            last.nonzero().map(|_| ()),
            last.unique(..).map(|_| ()),
            floats([2]).masked_select(last).map(|_| ()),
        ];
        for (i, result) in asked.into_iter().enumerate() {
            match result {
                Err(Error::Op(error)) => assert_eq!((error.op, error.span.line()), ("matmul", line), "{i}"),
                other => panic!("{i}: {other:?}"),
            }
        }
        assert!(format!("{last:?}").contains("matmul"));
    }

    #[test]
    fn an_invalid_tensor_has_no_extents() {
        let bad = floats([2]) + floats([3]);
        assert_eq!((bad.shape(), bad.rank(), bad.numel()), (Shape(Dims::new()), 0, 0));
        assert!(!bad.is_realized());
        mistake(&bad);
    }

    #[test]
    fn a_cell_keeps_what_it_holds() {
        let cell = Var::new(floats([3]));
        let (bad, line) = here!(floats([2]) + floats([3]));
        let Err(Error::Op(error)) = cell.set(bad) else { panic!("an invalid tensor was set") };
        assert_eq!((error.op, error.span.line()), ("add", line), "the mistake, not the call of set");
        let (other, line) = (cell.set(floats([4])), line!());
        let Err(Error::Op(error)) = other else { panic!("another shape was set") };
        assert_eq!((error.op, error.span.line()), ("set", line));
        assert_eq!((&error.expected[..], &error.found[..]), ("f32[3]", "f32[4]"));
        assert!(cell.set(floats([3]).to_dtype(DType::I64)).is_err(), "another type");
        assert!(cell.set(Tensor::ones([3], Device::null())).is_err(), "another device");
        assert_eq!(cell.get().to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
        cell.set(cell.get() + 1.0).expect("what fits");
        assert_eq!(cell.get().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    }
}
