//! Fourier transforms: the work, and the threads that share it.
//!
//! A length `r m` lies as `r` rows of `m` points. All columns are transformed, multiplied by roots of unity
//! and turned, so that they lie as rows; then all columns of that are transformed, which puts the results in
//! order (Bailey, "FFTs in external or hierarchical memory", 1990). Both steps work on columns side by side,
//! so vectors hold neighbours in memory. A length with a large prime becomes a convolution with a chirp
//! (Bluestein, "A linear filtering approach to the computation of the discrete Fourier transform", 1970).

mod chirp;
mod split;

use std::collections::{HashMap, VecDeque};
use std::ops::{Add, Mul, Sub};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytemuck::Pod;
use kiln_simd::micro::fft::{Job, Point, columns_f32, columns_f64};

use crate::base::DType;
use crate::ir::{Custom, Type};
use crate::runtime::cpu::threads;

use chirp::Chirp;
use split::Split;

pub use split::smooth;

/// Transforms of rows `[.., n]`, given as real and imaginary parts, to `[.., 2, n]`, not scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fourier {
    /// Points of a row.
    pub points: usize,
    /// With `e^(2 pi i j k / n)` instead of the conjugate.
    pub inverse: bool,
    /// Whether there are imaginary parts.
    pub complex: bool,
    /// `F32` or `F64`.
    pub dtype: DType,
}

impl Fourier {
    /// The one kernel of this work: plans know kernels by their address.
    pub fn kernel(self) -> Arc<dyn Custom> {
        static KERNELS: LazyLock<Mutex<HashMap<Fourier, Arc<Fourier>>>> = LazyLock::new(Mutex::default);
        let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
        kernels.entry(self).or_insert_with(|| Arc::new(self)).clone()
    }

    fn run<T: Real>(&self, operands: &[&[u8]], result: &mut [u8]) {
        let result: &mut [T] = bytemuck::cast_slice_mut(result);
        let points = self.points;
        let (rows, start) = (result.len() / (2 * points), result.as_mut_ptr());
        let mut from = Parts::of(operands, points);
        let mut to = Parts { re: start, im: start.wrapping_add(points) };
        if self.inverse {
            // With the parts exchanged, a number is its conjugate times i.
            (from, to) = (from.exchanged(), to.exchanged());
        }
        let tables = T::tables(points);
        let alone = rows >= 4 * threads::count() || points < ROW_PER_THREAD;
        let row = |i: usize| {
            // SAFETY: row `i` of operands and of the result, which overlap nothing.
            unsafe { tables.run(from.at(i * points), to.at(i * 2 * points), !alone) }
        };
        if alone { threads::parallel_for(rows, row) } else { (0..rows).for_each(row) }
    }
}

/// The shortest row that several threads share.
const ROW_PER_THREAD: usize = 1 << 15;

impl Custom for Fourier {
    fn name(&self) -> &str {
        if self.inverse { "ifft" } else { "fft" }
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>, String> {
        let count = if self.complex { 2 } else { 1 };
        let fits = |ty: &&Type| ty.dtype == self.dtype && ty.shape.last() == Some(&self.points);
        match operands.first() {
            Some(&ty) if operands.len() == count && operands.iter().all(|x| fits(x) && *x == ty) => {
                let batch = &ty.shape[..ty.shape.rank() - 1];
                Ok(vec![ty.with_shape(&[batch, &[2, self.points]].concat()[..])])
            }
            _ => Err(format!("{count} operands of {} in rows of {}", self.dtype, self.points)),
        }
    }

    fn run_cpu(&self, operands: &[&[u8]], results: &mut [&mut [u8]]) -> Result<(), String> {
        match self.dtype {
            DType::F32 => self.run::<f32>(operands, results[0]),
            DType::F64 => self.run::<f64>(operands, results[0]),
            other => return Err(format!("{} of {other}", self.name())),
        }
        Ok(())
    }
}

/// Where real and imaginary parts are. Imaginary parts may be missing: null.
#[derive(Clone, Copy, Debug)]
struct Parts<T> {
    re: *mut T,
    im: *mut T,
}

// SAFETY: an address; those who use it say why they may.
unsafe impl<T> Sync for Parts<T> {}

impl<T: Pod> Parts<T> {
    fn of(operands: &[&[u8]], points: usize) -> Parts<T> {
        debug_assert!(operands.iter().all(|x| x.len().is_multiple_of(points * size_of::<T>())));
        let start = |x: Option<&&[u8]>| x.map_or(std::ptr::null_mut(), |x| x.as_ptr().cast_mut().cast::<T>());
        Parts { re: start(operands.first()), im: start(operands.get(1)) }
    }

    fn exchanged(self) -> Parts<T> {
        Parts { re: self.im, im: self.re }
    }

    /// What lies so many elements further.
    fn at(self, offset: usize) -> Parts<T> {
        let further = |part: *mut T| if part.is_null() { part } else { part.wrapping_add(offset) };
        Parts { re: further(self.re), im: further(self.im) }
    }
}

impl<T: Real> Parts<T> {
    /// Number `i`; a part that is missing is 0.
    ///
    /// # Safety
    /// It is readable.
    unsafe fn read(self, i: usize) -> (T, T) {
        // SAFETY: the caller's promise.
        let part = |x: *mut T| if x.is_null() { T::zeroed() } else { unsafe { x.add(i).read() } };
        (part(self.re), part(self.im))
    }

    /// # Safety
    /// Number `i` is writable.
    unsafe fn write(self, i: usize, re: T, im: T) {
        // SAFETY: the caller's promise.
        unsafe {
            self.re.add(i).write(re);
            self.im.add(i).write(im);
        }
    }
}

/// What a length needs.
#[derive(Debug)]
enum Tables<T> {
    Split(Split<T>),
    Chirp(Chirp<T>),
}

impl<T: Real> Tables<T> {
    fn new(points: usize) -> Tables<T> {
        match Split::new(points) {
            Some(split) => Tables::Split(split),
            None => Tables::Chirp(Chirp::new(points)),
        }
    }

    /// Transforms one row, on several threads if `shared`.
    ///
    /// # Safety
    /// Both are rows of as many points; nothing else writes one or accesses the other meanwhile.
    unsafe fn run(&self, from: Parts<T>, to: Parts<T>, shared: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Tables::Split(split) => split.run(from, to, shared),
                Tables::Chirp(chirp) => chirp.run(from, to, shared),
            }
        }
    }
}

/// Tables of the lengths used last.
type Recent<T> = Mutex<VecDeque<(usize, Arc<Tables<T>>)>>;

/// How many lengths of a type are remembered.
const REMEMBERED: usize = 8;

/// A type of transforms.
trait Real: Point + Pod + Send + Sync + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    fn recent() -> &'static Recent<Self>;
    /// The vector loop.
    fn columns() -> unsafe fn(&Job<'_, Self>);

    /// The tables of a length.
    fn tables(points: usize) -> Arc<Tables<Self>> {
        let recent = || Self::recent().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tables)) = recent().iter().find(|(known, _)| *known == points) {
            return tables.clone();
        }
        let tables = Arc::new(Tables::new(points));
        let mut recent = recent();
        recent.push_front((points, tables.clone()));
        recent.truncate(REMEMBERED);
        tables
    }
}

macro_rules! real {
    ($($t:ty: $columns:ident;)*) => {$(
        impl Real for $t {
            fn recent() -> &'static Recent<$t> {
                static RECENT: Recent<$t> = Mutex::new(VecDeque::new());
                &RECENT
            }
            fn columns() -> unsafe fn(&Job<'_, $t>) {
                $columns()
            }
        }
    )*};
}
real! {
    f32: columns_f32;
    f64: columns_f64;
}

#[cfg(test)]
mod tests;
