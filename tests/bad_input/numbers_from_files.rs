//! Shapes and numbers that come from files.

use crate::{all_refused, floats};
use kiln::Tensor;
use kiln::opts::InterpolateOpts;
use kiln::opts::NormOpts;
use kiln::opts::QuantileOpts;
use kiln::prelude::{AvgPoolOpts, ConvOpts, MaxPoolOpts};
use kiln::{DType, Error, Shape};

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
    let error = Error::from("float128".parse::<DType>().unwrap_err());
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
