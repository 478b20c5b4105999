//! Complex numbers and Fourier transforms.

use kiln::fft::{FftOpts, FftnOpts, StftOpts};
use kiln::prelude::*;

use super::{Input, Row, all, any};

const X: Input = any(&[2, 5]);
const PAIR: &[Input] = &[X, X];
const TWO_PAIRS: &[Input] = &[X, X, X, X];

pub const NUMBERS: &[Row] = &[
    ("new", PAIR, |x| both(&z(x))),
    ("from_real", &[X], |x| both(&Complex::from_real(&x[0]))),
    ("polar", PAIR, |x| both(&Complex::polar(&x[0], &x[1]))),
    ("from_pairs", &[any(&[3, 2])], |x| both(&Complex::from_pairs(&x[0]))),
    ("to_pairs", PAIR, |x| z(x).to_pairs()),
    ("abs of complex numbers", PAIR, |x| z(x).abs()),
    ("abs_squared", PAIR, |x| z(x).abs_squared()),
    ("angle", PAIR, |x| z(x).angle()),
    ("conj", PAIR, |x| both(&z(x).conj())),
    ("exp of complex numbers", PAIR, |x| both(&z(x).exp())),
    ("add of complex numbers", TWO_PAIRS, |x| both(&(z(x) + z(&x[2..])))),
    ("sub of complex numbers", TWO_PAIRS, |x| both(&(z(x) - z(&x[2..])))),
    ("mul of complex numbers", TWO_PAIRS, |x| both(&(z(x) * z(&x[2..])))),
    ("div of complex numbers", TWO_PAIRS, |x| both(&(z(x) / z(&x[2..])))),
    ("matmul of complex numbers", TWO_PAIRS, |x| both(&z(x).matmul(&z(&x[2..]).transpose(0, 1)))),
    ("reshape of complex numbers", PAIR, |x| both(&z(x).reshape([5, 2]))),
    ("permute of complex numbers", PAIR, |x| both(&z(x).permute([1, 0]))),
    ("slice of complex numbers", PAIR, |x| both(&z(x).slice(1, r(1, 4)))),
    ("select_index of complex numbers", PAIR, |x| both(&z(x).select_index(0, 1))),
    ("squeeze of complex numbers", PAIR, |x| both(&z(x).unsqueeze(0).squeeze(0))),
    ("expand of complex numbers", PAIR, |x| both(&z(x).expand([2, 2, 5]))),
    ("flip of complex numbers", PAIR, |x| both(&z(x).flip(1))),
    ("sum of complex numbers", PAIR, |x| both(&z(x).sum(0))),
    ("cat of complex numbers", TWO_PAIRS, |x| both(&Complex::cat(&[z(x), z(&x[2..])], 0))),
    ("stack of complex numbers", TWO_PAIRS, |x| both(&Complex::stack(&[z(x), z(&x[2..])], 0))),
];

pub const TRANSFORMS: &[Row] = &[
    ("fft", &[X], |x| both(&x[0].fft(FftOpts::default()))),
    ("fft of complex numbers", PAIR, |x| both(&z(x).fft(FftOpts::default().n(7).axis(0)))),
    ("ifft", &[X], |x| both(&x[0].ifft(FftOpts::default().n(4)))),
    ("ifft of complex numbers", PAIR, |x| both(&z(x).ifft(FftOpts::default()))),
    ("rfft", &[X], |x| both(&x[0].rfft(FftOpts::default()))),
    ("rfft of an even number", &[any(&[2, 6])], |x| both(&x[0].rfft(FftOpts::default()))),
    ("ihfft", &[X], |x| both(&x[0].ihfft(FftOpts::default()))),
    ("irfft", PAIR, |x| z(x).irfft(FftOpts::default())),
    ("irfft of an odd number", PAIR, |x| z(x).irfft(FftOpts::default().n(7))),
    ("irfft of real numbers", &[X], |x| x[0].irfft(FftOpts::default())),
    ("hfft", PAIR, |x| z(x).hfft(FftOpts::default())),
    ("hfft of real numbers", &[X], |x| x[0].hfft(FftOpts::default().n(6))),
    ("fft2", &[X], |x| both(&x[0].fft2(FftnOpts::default()))),
    ("ifft2", PAIR, |x| both(&z(x).ifft2(FftnOpts::default()))),
    ("rfft2", &[X], |x| both(&x[0].rfft2(FftnOpts::default()))),
    ("irfft2", PAIR, |x| z(x).irfft2(FftnOpts::default())),
    ("fftn", &[any(&[2, 3, 2])], |x| both(&x[0].fftn(FftnOpts::default()))),
    ("ifftn", PAIR, |x| both(&z(x).ifftn(FftnOpts::default()))),
    ("rfftn", &[any(&[2, 3, 2])], |x| both(&x[0].rfftn(FftnOpts::default()))),
    ("irfftn", PAIR, |x| z(x).irfftn(FftnOpts::default())),
    ("fftshift of complex numbers", PAIR, |x| both(&z(x).fftshift(1))),
    ("ifftshift of complex numbers", PAIR, |x| both(&z(x).ifftshift(1))),
    ("stft", &[any(&[12])], |x| both(&x[0].stft(4, StftOpts::default()))),
    ("istft", &[any(&[3, 4]), any(&[3, 4])], |x| z(x).istft(4, StftOpts::default())),
];

fn z(x: &[Tensor]) -> Complex {
    Complex::new(&x[0], &x[1])
}

fn both(z: &Complex) -> Tensor {
    all(&[z.re.clone(), z.im.clone()])
}
