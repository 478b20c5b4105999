//! Operands on different devices, and devices that are not there.

use crate::{all_refused, floats, here, ints, refused};
use kiln::opts::HeadProjections;
use kiln::opts::NormOpts;
use kiln::opts::QuantileOpts;
use kiln::prelude::{ConvOpts, ConvTransposeOpts, RunningNormOpts};
use kiln::{DType, Device, Error};
use kiln::{Tensor, realize};

#[test]
fn tensors_on_two_devices_do_not_mix() {
    let (a, (_, made)) = here!(floats([2, 2]));
    let b = Tensor::ones([2, 2], Device::null());
    let expected = "all tensors on the same device";
    let found = format!("cpu (made at {0}:{made}) and null (made at {0}:{1})", file!(), made + 1);
    refused(here!(&a + &b), "add", expected, &found);
    refused(here!(a.matmul(&b)), "matmul", expected, &found);
    refused(here!(Tensor::cat(&[&a, &b], 0)), "cat", expected, &found);
    let (index, (_, cast)) = here!(b.to_dtype(DType::I64));
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
        ("grid_sample", image.grid_sample(&Tensor::ones([1, 2, 2, 2], Device::null()), Default::default())),
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
        ("scan", kiln::scan(&[x.clone()], &[y.clone()], |c, s| (vec![&c[0] + &s[0]], vec![])).0[0].clone()),
    ]);
}

#[test]
fn devices_that_are_not_there() {
    let away = Tensor::ones([2], Device::cuda(7)) + 1.0;
    let error = away.realize().unwrap_err();
    let Error::DeviceUnavailable { device, reason, .. } = &error else { panic!("{error}") };
    assert_eq!(*device, Device::cuda(7));
    assert!(!reason.is_empty());
    let error = "cuda:x".parse::<Device>().unwrap_err();
    let Error::Parse { what: "device", expected, found } = &error else { panic!("{error}") };
    assert_eq!((&expected[..], &found[..]), ("cpu, wgpu:N, cuda:N, mps, meta or null", "cuda:x"));
}

#[test]
fn meta_tensors_have_no_data() {
    let x = Tensor::ones([1 << 31, 1 << 30], Device::meta()) * 2.0;
    let (error, line) = (x.to_vec::<f32>().unwrap_err(), line!());
    let Error::NoData { call, shape, span } = &error else { panic!("{error}") };
    assert_eq!((*call, &shape[..]), ("to_vec", &[1 << 31, 1 << 30][..]));
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
