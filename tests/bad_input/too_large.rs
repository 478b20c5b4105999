//! Sizes beyond what memory or numbers can hold.

use crate::{all_refused, floats, here, ints, refused};
use kiln::opts::DiagonalOpts;
use kiln::opts::DiffOpts;
use kiln::opts::Im2colOpts;
use kiln::opts::InterpolateOpts;
use kiln::opts::NormOpts;
use kiln::opts::PadMode;
use kiln::plan::context::with_context;
use kiln::prelude::{AvgPoolOpts, ConvOpts, ConvTransposeOpts, MaxPoolOpts, RunningNormOpts, TopkOpts, r};
use kiln::{Context, Tensor, context, realize};
use kiln::{DType, Device, Error};

#[test]
fn more_bytes_than_memory_can_address() {
    let limit = "a tensor of at most 2^63 - 1 bytes";
    let side = 1usize << 40;
    refused(here!(Tensor::zeros([side, side], ())), "zeros", limit, "shape [1099511627776, 1099511627776]");
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
    let huge = Tensor::ones([1 << 31, 1 << 30], Device::meta());
    huge.check().expect("more bytes than memory can address");
    assert_eq!(huge.numel(), 1 << 61);
    huge.reshape([1usize << 20, 1 << 41]).check().expect("as many elements");
    refused(
        here!(huge.reshape([1usize << 41, 1 << 40])),
        "reshape",
        "a shape of 2305843009213693952 elements",
        "[2199023255552, 1099511627776]",
    );
    let whole = Tensor::ones([i64::MAX as usize], (Device::meta(), DType::U8));
    whole.check().expect("the largest extent");
    let (side, limit) = (1usize << 33, "a tensor of less than 2^64 - 1 bytes");
    let beyond = here!(Tensor::zeros([side, side], Device::meta()));
    refused(beyond, "zeros", limit, "shape [8589934592, 8589934592]");
    let column = Tensor::ones([side, 1], Device::meta());
    let product = here!(column.matmul(&column.t()));
    refused(product, "matmul", limit, "shape [8589934592, 8589934592]");
    all_refused([
        ("an extent beyond i64", Tensor::ones([usize::MAX], Device::meta())),
        ("cat", Tensor::cat(&[&whole, &whole], 0)),
        ("repeat", whole.repeat([2])),
        ("repeat_interleave", whole.repeat_interleave(2, 0)),
        ("pad", whole.pad(&[1, 0], PadMode::Constant(0.into()))),
    ]);
}

#[test]
fn counts_of_operations_do_not_wrap() {
    let x = Tensor::empty([1 << 31, 1 << 31], (Device::meta(), DType::F16));
    let plan = x.matmul(&x).plan().unwrap();
    assert_eq!(plan.flops(), u64::MAX);
    assert!(plan.to_string().contains("over 18.4 Eflop"), "{plan}");
    let q = Tensor::empty([1 << 20, 1 << 4, 1 << 16, 1 << 6], (Device::meta(), DType::F16));
    assert_eq!(q.scaled_dot_product_attention(&q, &q, Default::default()).plan().unwrap().flops(), u64::MAX);
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
    let Error::OutOfMemory { device, requested, in_use, limit: set, .. } = error else { panic!("{error}") };
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
        let Error::OutOfMemory { device, requested, in_use, limit, .. } = error else { panic!("{error}") };
        assert_eq!((device, requested, in_use, limit), (null, 1200, 0, 1000));
        let error = context().set_memory_limit(Device::meta(), 1).unwrap_err();
        assert!(matches!(error, Error::DeviceUnavailable { device, .. } if device == Device::meta()));
    });
}

#[test]
fn a_view_of_more_elements_than_there_is_memory_is_not_read() {
    let one = Tensor::ones([1], kiln::DType::U8);
    one.realize().unwrap();
    for elements in [1i64 << 62, i64::MAX] {
        let view = one.expand([elements]);
        let Err(Error::OutOfMemory { requested, .. }) = view.to_vec::<u8>() else {
            panic!("{elements} were read")
        };
        assert_eq!(requested, elements as u64);
    }
}
