//! Random tensors.
//!
//! The numbers are a pure function of a key and of each element's position
//! (a counter-based generator, `threefry`), so they are the same on every
//! device and in every kernel they are fused into. Every draw takes a fresh
//! key from a [`Generator`]; keys are arguments of kernels, so that another
//! key or seed needs no new plan, and two draws are never taken for one.
//!
//! Each distribution exists twice: `Tensor::rand(...)` draws from this
//! thread's default generator, which [`manual_seed`] sets, and
//! `generator.rand(...)` from one of your own.

mod draw;
#[cfg(test)]
mod tests;
mod threefry;

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};

use crate::base::Shape;
use crate::tensor::compose::CallSite;
use crate::tensor::{Place, Tensor};
use draw::Draw;

/// A source of keys for random tensors.
///
/// Its state is a seed and the number of draws made: [`Generator::seed`] and
/// [`Generator::draws`] save it, [`Generator::resume`] restores it.
///
/// # Examples
/// ```
/// use kiln::Generator;
/// let (mut a, mut b) = (Generator::new(7), Generator::new(7));
/// assert_eq!(a.rand([3], ()).to_vec::<f32>()?, b.rand([3], ()).to_vec::<f32>()?);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    seed: u64,
    draws: u64,
}

impl Generator {
    /// A generator whose draws follow from `seed` alone.
    ///
    /// # Examples
    /// ```
    /// use kiln::Generator;
    /// assert_eq!(Generator::new(7).seed(), 7);
    /// ```
    pub const fn new(seed: u64) -> Generator {
        Generator::resume(seed, 0)
    }

    /// The generator that [`Generator::new`]`(seed)` is after `draws` draws.
    ///
    /// # Examples
    /// ```
    /// use kiln::Generator;
    /// let mut a = Generator::new(7);
    /// let _ = a.rand([3], ());
    /// assert_eq!(Generator::resume(a.seed(), a.draws()), a);
    /// ```
    pub const fn resume(seed: u64, draws: u64) -> Generator {
        Generator { seed, draws }
    }

    /// A generator that differs on every call and in every process.
    ///
    /// # Examples
    /// ```
    /// use kiln::Generator;
    /// assert_ne!(Generator::from_entropy().seed(), Generator::from_entropy().seed());
    /// ```
    pub fn from_entropy() -> Generator {
        Generator::new(RandomState::new().hash_one("kiln"))
    }

    /// The seed.
    ///
    /// # Examples
    /// ```
    /// assert_eq!(kiln::Generator::new(7).seed(), 7);
    /// ```
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of draws and splits so far.
    ///
    /// # Examples
    /// ```
    /// let mut a = kiln::Generator::new(7);
    /// let _ = a.rand([1000], ());
    /// assert_eq!(a.draws(), 1);
    /// ```
    pub const fn draws(&self) -> u64 {
        self.draws
    }

    /// A new generator, independent of the later draws of this one and of its other splits.
    ///
    /// Counts as one draw.
    ///
    /// # Examples
    /// ```
    /// let mut a = kiln::Generator::new(7);
    /// assert_ne!(a.split(), a.split());
    /// ```
    pub fn split(&mut self) -> Generator {
        let [high, low] = self.key();
        Generator::new(u64::from(high) << 32 | u64::from(low))
    }

    /// The key of the next draw.
    fn key(&mut self) -> [u32; 2] {
        let key = threefry::numbers(words(self.seed), words(self.draws));
        self.draws = self.draws.wrapping_add(1);
        key
    }

    fn draw(&mut self, site: CallSite, shape: impl Into<Shape>, place: impl Into<Place>) -> Draw {
        Draw { site, key: self.key(), shape: shape.into(), place: place.into() }
    }
}

/// The distributions, from this generator; the methods of [`Tensor`] of the
/// same names document them.
impl Generator {
    /// Uniform in `[0, 1)`; see [`Tensor::rand`].
    ///
    /// # Examples
    /// ```
    /// let mut generator = kiln::Generator::new(7);
    /// assert_eq!(generator.rand([2, 3], ()).dims()?, [2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn rand(&mut self, shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        self.draw(CallSite::here("rand"), shape, place).uniform(0.0, 1.0)
    }
    /// Uniform in `[low, high)`; see [`Tensor::uniform`].
    ///
    /// # Examples
    /// ```
    /// let mut generator = kiln::Generator::new(7);
    /// let x = generator.uniform(1.0, 2.0, [100], ());
    /// assert!(x.ge(1.0).all(..).item::<bool>()?);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn uniform(
        &mut self,
        low: f64,
        high: f64,
        shape: impl Into<Shape>,
        place: impl Into<Place>,
    ) -> Tensor {
        self.draw(CallSite::here("uniform"), shape, place).uniform(low, high)
    }
    /// Normal with mean 0 and variance 1; see [`Tensor::randn`].
    ///
    /// # Examples
    /// ```
    /// let mut generator = kiln::Generator::new(7);
    /// assert_eq!(generator.randn([2, 3], ()).dims()?, [2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn randn(&mut self, shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        self.draw(CallSite::here("randn"), shape, place).normal(0.0, 1.0)
    }
    /// Normal with this mean and standard deviation; see [`Tensor::normal`].
    ///
    /// # Examples
    /// ```
    /// let mut generator = kiln::Generator::new(7);
    /// assert_eq!(generator.normal(5.0, 0.0, [2], ()).to_vec::<f32>()?, [5.0, 5.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn normal(
        &mut self,
        mean: f64,
        std: f64,
        shape: impl Into<Shape>,
        place: impl Into<Place>,
    ) -> Tensor {
        self.draw(CallSite::here("normal"), shape, place).normal(mean, std)
    }
    /// Integers in `low..high`; see [`Tensor::randint`].
    ///
    /// # Examples
    /// ```
    /// let mut generator = kiln::Generator::new(7);
    /// let x = generator.randint(0, 6, [100], ());
    /// assert!(x.lt(6).all(..).item::<bool>()?);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn randint(
        &mut self,
        low: i64,
        high: i64,
        shape: impl Into<Shape>,
        place: impl Into<Place>,
    ) -> Tensor {
        self.draw(CallSite::here("randint"), shape, place).integers(low, high)
    }
    /// The numbers `0..n` in random order; see [`Tensor::randperm`].
    ///
    /// # Examples
    /// ```
    /// let mut generator = kiln::Generator::new(7);
    /// assert_eq!(generator.randperm(3, ()).sort(0, false).0.to_vec::<i64>()?, [0, 1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn randperm(&mut self, n: usize, place: impl Into<Place>) -> Tensor {
        self.draw(CallSite::here("randperm"), n, place).permutation()
    }
    /// 1 with the probability that the element gives, else 0; see [`Tensor::bernoulli`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let mut generator = kiln::Generator::new(7);
    /// assert_eq!(generator.bernoulli(&Tensor::from([0.0f32, 1.0])).to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn bernoulli(&mut self, probability: &Tensor) -> Tensor {
        self.draw(CallSite::here("bernoulli"), probability.shape(), probability).bernoulli(probability)
    }
    /// Each element 0 with probability `p`, else over `1 - p`; see [`Tensor::dropout`].
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let mut generator = kiln::Generator::new(7);
    /// assert_eq!(generator.dropout(&Tensor::ones([2], ()), 0.0).to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn dropout(&mut self, x: &Tensor, p: f64) -> Tensor {
        self.draw(CallSite::here("dropout"), x.shape(), x).dropout(x, p)
    }
}

thread_local! {
    static DEFAULT: RefCell<Generator> = RefCell::new(Generator::from_entropy());
}

/// Makes this thread's draws follow from `seed`.
///
/// Until it is called they differ from run to run and from thread to thread. PyTorch:
/// `torch.manual_seed`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// kiln::manual_seed(7);
/// let x = Tensor::rand([3], ()).to_vec::<f32>()?;
/// kiln::manual_seed(7);
/// assert_eq!(Tensor::rand([3], ()).to_vec::<f32>()?, x);
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn manual_seed(seed: u64) {
    set_generator(Generator::new(seed));
}

/// A copy of this thread's default generator, to restore it later.
///
/// PyTorch: `torch.get_rng_state`.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// let before = kiln::generator();
/// let x = Tensor::rand([3], ()).to_vec::<f32>()?;
/// kiln::set_generator(before);
/// assert_eq!(Tensor::rand([3], ()).to_vec::<f32>()?, x);
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn generator() -> Generator {
    DEFAULT.with_borrow(Generator::clone)
}

/// Replaces this thread's default generator; returns the previous one.
///
/// PyTorch: `torch.set_rng_state`.
///
/// # Examples
/// ```
/// use kiln::{Generator, set_generator};
/// let previous = set_generator(Generator::new(7));
/// assert_eq!(set_generator(previous), Generator::new(7));
/// ```
pub fn set_generator(generator: Generator) -> Generator {
    DEFAULT.replace(generator)
}

fn draw(site: CallSite, shape: impl Into<Shape>, place: impl Into<Place>) -> Draw {
    DEFAULT.with_borrow_mut(|generator| generator.draw(site, shape, place))
}

impl Tensor {
    /// Uniform in `[0, 1)`, `F32` unless the place names another floating type.
    ///
    /// Multiples of 2^-24 (`F64`: 2^-53, `F16`: 2^-11, `BF16`: 2^-8), so that 1 never occurs.
    ///
    /// Inside a loop's body, which is built once, a draw has the same key in every iteration.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::rand([100], ()).to_vec::<f32>()?;
    /// assert!(x.iter().all(|x| (0.0..1.0).contains(x)));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn rand(shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        draw(CallSite::here("rand"), shape, place).uniform(0.0, 1.0)
    }

    /// Uniform in `[low, high)`, of a floating type as [`Tensor::rand`].
    ///
    /// Invalid unless both bounds are finite and `low <= high`. PyTorch: `Tensor.uniform_`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::uniform(-1.0, 1.0, [100], ()).to_vec::<f32>()?;
    /// assert!(x.iter().all(|x| (-1.0..1.0).contains(x)));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn uniform(low: f64, high: f64, shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        draw(CallSite::here("uniform"), shape, place).uniform(low, high)
    }

    /// Normal with mean 0 and variance 1, `F32` unless the place names another floating type.
    ///
    /// By the transform of Box and Muller (1958) of 64 random bits an element, so that no number
    /// exceeds 6.8.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::randn([1000], ());
    /// assert!(x.mean(..).item::<f32>()?.abs() < 0.3);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn randn(shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        draw(CallSite::here("randn"), shape, place).normal(0.0, 1.0)
    }

    /// Normal with this mean and standard deviation, as [`Tensor::randn`].
    ///
    /// Invalid for a standard deviation that is negative or NaN.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::normal(5.0, 0.0, [3], ());
    /// assert_eq!(x.to_vec::<f32>()?, [5.0; 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn normal(mean: f64, std: f64, shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        draw(CallSite::here("normal"), shape, place).normal(mean, std)
    }

    /// Integers in `low..high`, all equally likely, `I64` unless the place names a type.
    ///
    /// With `n = high - low`, a number's probability differs from `1/n` by
    /// at most 2^-64 for `n` up to 2^31 and 2^-63 above. Invalid for an
    /// empty range, one of more than 2^63 - 1 numbers, or one the type does
    /// not hold exactly.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::randint(0, 6, [100], ()).to_vec::<i64>()?;
    /// assert!(x.iter().all(|x| (0..6).contains(x)));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn randint(low: i64, high: i64, shape: impl Into<Shape>, place: impl Into<Place>) -> Tensor {
        draw(CallSite::here("randint"), shape, place).integers(low, high)
    }

    /// The numbers `0..n` in random order, `I64` unless the place names a type.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::randperm(4, ());
    /// assert_eq!(x.sort(0, false).0.to_vec::<i64>()?, [0, 1, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn randperm(n: usize, place: impl Into<Place>) -> Tensor {
        draw(CallSite::here("randperm"), n, place).permutation()
    }

    /// [`Tensor::rand`] with this tensor's shape, type and device.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::F64).rand_like();
    /// assert_eq!((x.dims()?, x.dtype()), ([2, 3], DType::F64));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn rand_like(&self) -> Tensor {
        let site = CallSite::here("rand_like");
        site.build(&[self], || Ok(draw(site, self.shape(), self).uniform(0.0, 1.0)))
    }

    /// [`Tensor::randn`] with this tensor's shape, type and device.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::F64).randn_like();
    /// assert_eq!((x.dims()?, x.dtype()), ([2, 3], DType::F64));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn randn_like(&self) -> Tensor {
        let site = CallSite::here("randn_like");
        site.build(&[self], || Ok(draw(site, self.shape(), self).normal(0.0, 1.0)))
    }

    /// [`Tensor::randint`] with this tensor's shape, type and device.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::I64).randint_like(0, 6);
    /// assert!(x.max(..).item::<i64>()? < 6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn randint_like(&self, low: i64, high: i64) -> Tensor {
        let site = CallSite::here("randint_like");
        site.build(&[self], || Ok(draw(site, self.shape(), self).integers(low, high)))
    }

    /// 1 with the probability that the element gives, else 0, in this tensor's floating type.
    ///
    /// A probability above 1 counts as 1; one below 0 or NaN as 0.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([0.0f32, 1.0]).bernoulli().to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn bernoulli(&self) -> Tensor {
        draw(CallSite::here("bernoulli"), self.shape(), self).bernoulli(self)
    }

    /// Each element 0 with probability `p`, else over `1 - p` (Srivastava et al. 2014).
    ///
    /// The mean stays. What training does; in inference leave it out. Invalid for a `p` outside
    /// `[0, 1]`.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::ones([100], ()).dropout(0.5).to_vec::<f32>()?;
    /// assert!(x.iter().all(|&x| x == 0.0 || x == 2.0));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn dropout(&self, p: f64) -> Tensor {
        draw(CallSite::here("dropout"), self.shape(), self).dropout(self, p)
    }
}

/// The upper and the lower half of a number.
const fn words(number: u64) -> [u32; 2] {
    [(number >> 32) as u32, number as u32]
}
