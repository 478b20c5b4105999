//! Elementwise operations at zeros, saturation, overflow, ties and NaN: values and gradients, which are
//! finite where the limit is. On the CPU and, where an adapter is present, on wgpu.

use kiln::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Every device at hand.
fn devices() -> Vec<Device> {
    let wgpu = Device::wgpu(0);
    [Device::cpu()].into_iter().chain(wgpu.name().is_ok().then_some(wgpu)).collect()
}

/// A column of values of a type on a device, which gradients reach.
fn column(x: &[f64], dtype: DType, device: Device) -> Tensor {
    Tensor::from_slice(x, [x.len()], ()).to_dtype(dtype).to(device).with_requires_grad()
}

fn values(x: &Tensor) -> Vec<f64> {
    x.to_dtype(DType::F64).to(Device::cpu()).to_vec::<f64>().expect("values")
}

/// The gradient of a sum.
fn slope(y: &Tensor, x: &Tensor) -> Tensor {
    kiln::grad(&y.sum(..), &[x]).remove(0)
}

/// Adapters may take what is below the least normal number of `f32` for 0.
fn assert_near(what: &str, found: &[f64], expected: &[f64], relative: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let near = found == expected
            || (found.is_nan() && expected.is_nan())
            || (found - expected).abs() <= relative * expected.abs() + 1.2e-38;
        assert!(near, "{what}: element {i} is {found:e}, not {expected:e}");
    }
}

/// A function, arguments and the slopes there.
type Slopes = (&'static str, fn(&Tensor) -> Tensor, &'static [f64], &'static [f64]);

/// In `f32`; half and double follow by their own ranges.
const SLOPES: &[Slopes] = &[
    ("sigmoid", |x| x.sigmoid(), &[-89.0, -55.0, 0.0, -1e30, INF], &[0.0, 1.299_581_4e-24, 0.25, 0.0, 0.0]),
    (
        "silu",
        |x| x.silu(),
        &[-80.0, -30.0, 0.0, 100.0, -1e30],
        &[-1.425_832_6e-33, -2.713_710_7e-12, 0.5, 1.0, 0.0],
    ),
    ("softplus", |x| x.softplus(1.0, 20.0), &[-100.0, 0.0, 50.0], &[3.720076e-44, 0.5, 1.0]),
    ("logsigmoid", |x| x.logsigmoid(), &[-100.0, 0.0, 50.0], &[1.0, 0.5, 1.9287498e-22]),
    ("elu", |x| x.elu(1.0), &[-10.0, 0.0, 2.0], &[4.539993e-5, 1.0, 1.0]),
    ("celu", |x| x.celu(2.0), &[-20.0, 1.0], &[4.539993e-5, 1.0]),
    ("selu", |x| x.selu(), &[-10.0], &[7.981767e-5]),
    ("hardswish", |x| x.hardswish(), &[INF, 4.0, 0.0, -4.0], &[1.0, 1.0, 0.5, 0.0]),
    ("asinh", |x| x.asinh(), &[1e5, -1e30, 0.0, INF], &[1e-5, 1e-30, 1.0, 0.0]),
    ("acosh", |x| x.acosh(), &[1.0, 1e20], &[INF, 1e-20]),
    ("atanh", |x| x.atanh(), &[0.0, 1.0, -1.0], &[1.0, INF, INF]),
    ("sinh", |x| x.sinh(), &[89.0, 0.0, -89.0], &[2.2448061e38, 1.0, 2.2448061e38]),
    ("cosh", |x| x.cosh(), &[89.0, 0.0, -89.0], &[2.2448061e38, 0.0, -2.2448061e38]),
    ("expm1", |x| x.expm1(), &[-INF, 0.0, 200.0], &[0.0, 1.0, INF]),
    ("log_ndtr", |x| x.log_ndtr(), &[-6.0, -10.0, -20.0, 40.0], &[6.158_482_6, 10.098_093, 20.049_753, 0.0]),
    ("i0", |x| x.i0(), &[89.0, 0.0, INF], &[1.890_530_4e37, 0.0, INF]),
    ("i1", |x| x.i1(), &[0.0, 1e-40], &[0.5, 0.5]),
    ("sinc", |x| x.sinc(), &[0.0, 1e-4, 1e-45, 1.0], &[0.0, -3.2898681e-4, 0.0, -1.0]),
    ("erfcx", |x| x.erfcx(), &[0.0, -5.0], &[-1.128_379_2, -1.4400979e12]),
    ("erfcx", |x| x.erfcx(), &[10.5, 1e3, 1e30, INF], &[-5.049_272_4e-3, -5.641_887e-7, 0.0, 0.0]),
    ("gelu_tanh", |x| x.gelu_tanh(), &[-1e13, 0.0, 1e13], &[0.0, 0.5, 1.0]),
    ("erfinv", |x| x.erfinv(), &[0.0, 1.0, -1.0], &[0.886_226_9, INF, INF]),
    ("logit", |x| x.logit(), &[0.5, 0.0, 1.0], &[4.0, INF, INF]),
    ("ndtri", |x| x.ndtri(), &[0.5, 0.0, 1.0], &[2.506_628_3, INF, INF]),
    ("digamma", |x| x.digamma(), &[1.0, 0.0], &[1.644_934_1, INF]),
    ("lgamma", |x| x.lgamma(), &[1.0, 2.0], &[-0.577_215_7, 0.422_784_3]),
    ("entr", |x| x.entr(), &[1.0, 0.0, 1e-45], &[-1.0, INF, 102.278_93]),
    ("sign", |x| x.sign(), &[-1.0, 0.0, 3.0], &[0.0; 3]),
    ("heaviside", |x| x.heaviside(&Tensor::full([2], 0.5, (x.device(), x.dtype()))), &[0.0, 1.0], &[0.0; 2]),
    ("floor_divide", |x| x.floor_divide(0.0), &[1.0, -2.0], &[0.0; 2]),
    ("clamp", |x| x.clamp(-1.0, 2.0), &[-2.0, -1.0, 0.5, 2.0, NAN], &[0.0, 0.0, 1.0, 0.0, 0.0]),
    ("clamp_min", |x| x.clamp_min(1.0), &[1.0, 1.5], &[0.0, 1.0]),
    (
        "clamp to tensors",
        |x| x.clamp_max(Tensor::full([2], 1.0, (x.device(), x.dtype()))),
        &[1.0, 0.5],
        &[0.5, 1.0],
    ),
];

#[test]
fn slopes_are_finite_where_the_limit_is() {
    for device in devices() {
        for (name, function, at, expected) in SLOPES {
            let x = column(at, DType::F32, device);
            let found = values(&slope(&function(&x), &x));
            assert_near(&format!("{name} on {device}"), &found, expected, 3e-6);
        }
    }
}

#[test]
fn slopes_in_every_float_type_are_finite_where_the_limit_is() {
    for (dtype, far) in [(DType::F16, 6e4), (DType::BF16, 1e38), (DType::F64, 1e300)] {
        for device in devices().into_iter().filter(|device| dtype != DType::F64 || *device == Device::cpu()) {
            let x = column(&[-far, far, 0.0], dtype, device);
            let functions: [(&str, fn(&Tensor) -> Tensor, [f64; 3]); 6] = [
                ("sigmoid", |x| x.sigmoid(), [0.0, 0.0, 0.25]),
                ("silu", |x| x.silu(), [0.0, 1.0, 0.5]),
                ("gelu", |x| x.gelu(), [0.0, 1.0, 0.5]),
                ("mish", |x| x.mish(), [0.0, 1.0, 0.6]),
                ("softplus", |x| x.softplus(1.0, 20.0), [0.0, 1.0, 0.5]),
                ("tanh", |x| x.tanh(), [0.0, 0.0, 1.0]),
            ];
            for (name, function, expected) in functions {
                let found = values(&slope(&function(&x), &x));
                assert_near(&format!("{name} of {dtype} on {device}"), &found, &expected, 4e-3);
            }
        }
    }
}

/// The gradients by both operands at a pair.
fn both_slopes(f: fn(&Tensor, &Tensor) -> Tensor, a: f64, b: f64, device: Device) -> [f64; 2] {
    let (a, b) = (column(&[a], DType::F32, device), column(&[b], DType::F32, device));
    let found = kiln::grad(&f(&a, &b).sum(..), &[&a, &b]);
    [values(&found[0])[0], values(&found[1])[0]]
}

#[test]
fn slopes_of_two_operands_are_pytorchs_at_the_edges() {
    let cases: [(&str, fn(&Tensor, &Tensor) -> Tensor, f64, f64, [f64; 2]); 14] = [
        ("atan2", |a, b| a.atan2(b), 0.0, 0.0, [0.0, 0.0]),
        ("atan2", |a, b| a.atan2(b), 1e30, 1e30, [5e-31, -5e-31]),
        ("atan2", |a, b| a.atan2(b), INF, 1.0, [0.0, 0.0]),
        ("hypot", |a, b| a.hypot(b), 1.0, INF, [0.0, NAN]),
        ("hypot", |a, b| a.hypot(b), 3e30, 4e30, [0.6, 0.8]),
        ("xlogy", |a, b| a.xlogy(b), 0.0, INF, [INF, 0.0]),
        ("xlogy", |a, b| a.xlogy(b), 0.0, 2.0, [std::f64::consts::LN_2, 0.0]),
        ("xlog1py", |a, b| a.xlog1py(b), 0.0, INF, [INF, 0.0]),
        ("logaddexp", |a, b| a.logaddexp(b), 500.0, -500.0, [1.0, 0.0]),
        ("floor_divide", |a, b| a.floor_divide(b), 7.0, 2.0, [0.0, 0.0]),
        ("pow", |a, b| a.pow(b), 0.5, INF, [0.0, 0.0]),
        ("pow", |a, b| a.pow(b), 2.0, -INF, [0.0, 0.0]),
        ("pow", |a, b| a.pow(b), INF, -1.0, [0.0, 0.0]),
        ("prelu", |a, b| a.prelu(b), 2.0, INF, [1.0, 0.0]),
    ];
    for device in devices() {
        for (name, function, a, b, expected) in cases {
            let found = both_slopes(function, a, b, device);
            assert_near(&format!("{name}({a}, {b}) on {device}"), &found, &expected, 3e-6);
        }
    }
}

#[test]
fn a_number_beside_a_tensor_gets_the_sum_of_its_slopes() {
    let x = column(&[1.0, 3.0], DType::F64, Device::cpu());
    let one = Tensor::from_slice(&[2.0f64], [1], ()).reshape(()).with_requires_grad();
    let functions: [fn(&Tensor, &Tensor) -> Tensor; 4] =
        [|a, b| a.atan2(b), |a, b| a.hypot(b), |a, b| a.xlogy(b), |a, b| a.xlog1py(b)];
    for function in functions {
        let alone = |i: i64| {
            let (x, one) = (x.i(i).detach(), column(&[2.0], DType::F64, Device::cpu()));
            values(&slope(&function(&x, &one), &one))[0]
        };
        assert_near("the sum", &values(&slope(&function(&x, &one), &one)), &[alone(0) + alone(1)], 1e-12);
    }
    let truth = Tensor::from([true, false]);
    assert_eq!(truth.clamp_min(true).to_vec::<bool>().unwrap(), [true, true]);
    assert_eq!(truth.clamp_max(false).to_vec::<bool>().unwrap(), [false, false]);
}

#[test]
fn values_are_right_where_formulas_round_or_overflow() {
    let x = |value: f64| column(&[value], DType::F32, Device::cpu()).detach();
    let cases = [
        ("log1p", x(1e-45).log1p(), 1.401_298_5e-45),
        ("lgamma", x(1e-45).lgamma(), 103.278_93),
        ("log_ndtr", x(-1.9e19).log_ndtr(), -1.805e38),
        ("addcdiv", x(1.0).addcdiv(&x(3e38), &x(2.0), 0.0), 1.0),
    ];
    for (name, found, expected) in cases {
        assert_near(name, &values(&found), &[expected], 1e-6);
    }
    for device in devices() {
        let zero =
            values(&column(&[-0.0], DType::F32, device).floor_divide(column(&[3.0], DType::F32, device)));
        assert!(zero[0] == 0.0 && zero[0].is_sign_negative(), "{device}: {zero:?}");
        for dtype in [DType::F16, DType::F32, DType::F64] {
            let (one, nan) = (column(&[1.0], dtype, device), column(&[NAN], dtype, device));
            assert!(values(&one.atan2(&nan))[0].is_nan() && values(&nan.atan2(&one))[0].is_nan(), "{dtype}");
        }
    }
}

/// Drivers' compilers have merged the sign of a bounded, scaled number with its other bits.
#[test]
fn odd_functions_saturate_whatever_comes_before() {
    for device in devices() {
        let x = || column(&[-40.0, -9.0, 0.0, 30.0], DType::F32, device).clamp(-30.0, 30.0) * 7.0;
        for (name, found) in [("tanh", x().tanh()), ("erf", x().erf())] {
            assert_near(&format!("{name} on {device}"), &values(&found), &[-1.0, -1.0, 0.0, 1.0], 1e-6);
        }
    }
}

/// Adapters divide bit by bit where a kernel has few remainders, and by the word where it has many.
#[test]
fn remainders_are_exact_of_any_numbers() {
    let special =
        [0, 1, 3, 0x40_0001, 0x7f_ffff, 0x80_0000, 0x3dcc_cccd, 0x3f80_0000, 0x7f7f_ffff, 0x7f80_0000];
    let drawn = |i: u32, odd: u32| (i.wrapping_mul(odd).rotate_left(i % 31) & 0x7fff_ffff).min(0x7f80_0000);
    let pairs = special.iter().flat_map(|&a| special.map(|b| (a, b)));
    let pairs = pairs.chain((0..6000).map(|i| (drawn(i, 0x9e37_79b1), drawn(i, 0x7feb_352d))));
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.map(|(a, b)| (f32::from_bits(a), f32::from_bits(b))).unzip();
    for device in devices() {
        let on = |x: &[f32]| Tensor::from_slice(x, [x.len()], device);
        let (x, y) = (on(&a), on(&b));
        let several = [x.fmod(&y), (-&x).fmod(&y), x.fmod(-&y), (-&x).fmod(-&y)];
        let (one, four) = (values(&x.fmod(&y)), values(&Tensor::stack(&several, 1)));
        for (i, (a, b)) in a.iter().zip(&b).enumerate() {
            let (what, exact) = (format!("{a:e} by {b:e} on {device}"), f64::from(a % b));
            assert_near(&what, &one[i..i + 1], &[exact], 0.0);
            assert_near(&what, &four[4 * i..4 * i + 4], &[exact, -exact, exact, -exact], 0.0);
        }
    }
}
