//! Quantized tensors: numbers of few bits that share a scale in blocks of 32, packed in memory.
//!
//! A [`QuantizedTensor`] is not computed with; what [`QuantizedTensor::dequantize`] makes of it is. That is an
//! ordinary expression over the packed numbers, so it fuses into whatever reads it: a product with a quantized
//! matrix reads the packed bytes and nothing else, on every device, and gradients flow through it to the other
//! operand. A parameter is quantized by [`Param::quantize`](crate::nn::Param::quantize), a module by
//! [`ModuleExt::quantize`](crate::nn::ModuleExt::quantize).

#[cfg(feature = "gguf")]
mod blocks;
mod rounding;

use crate::base::{DType, Device, Result, Scalar, Shape};
use crate::ir::{AluOp, BuiltIn};
use crate::tensor::Tensor;
use crate::tensor::compose::CallSite;
use crate::tensor::control::composite_at;
use crate::tensor::var::kept;

pub(crate) use rounding::round_to_bytes;

/// How many numbers share a scale.
pub(crate) const BLOCK: usize = kiln_simd::micro::QUANTIZED_BLOCK;

/// How numbers are quantized: a code of some bits for each, and a scale for each 32 along the last axis. Names
/// and values are those of ggml, the library of llama.cpp.
///
/// # Examples
/// ```
/// use kiln::Quantization;
/// assert_eq!(Quantization::Q4_0.bits_per_number(), 4.5); // a scale of 16 bits for 32 numbers
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantization {
    /// 8 bits, from -127 to 127 times the scale.
    Q8_0,
    /// 4 bits, from -8 to 7 times the scale.
    Q4_0,
    /// 4 bits, from 0 to 15 times the scale, and an offset for each block.
    Q4_1,
}

impl Quantization {
    /// All of them.
    pub const ALL: [Quantization; 3] = [Quantization::Q8_0, Quantization::Q4_0, Quantization::Q4_1];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Quantization::Q8_0 => "Q8_0",
            Quantization::Q4_0 => "Q4_0",
            Quantization::Q4_1 => "Q4_1",
        }
    }
    /// The one of a name, such as `"Q8_0"`.
    pub fn of(name: &str) -> Option<Quantization> {
        Quantization::ALL.into_iter().find(|known| known.name() == name)
    }
    /// How many bits a number takes, scales included.
    pub fn bits_per_number(self) -> f64 {
        (self.block_bytes() * 8) as f64 / BLOCK as f64
    }

    /// The bytes of a block's codes.
    const fn code_bytes(self) -> usize {
        match self {
            Quantization::Q8_0 => BLOCK,
            Quantization::Q4_0 | Quantization::Q4_1 => BLOCK / 2,
        }
    }
    /// The code of zero, where there is no offset.
    const fn zero(self) -> i32 {
        match self {
            Quantization::Q8_0 => 128,
            Quantization::Q4_0 => 8,
            Quantization::Q4_1 => 0,
        }
    }
    const fn has_offset(self) -> bool {
        matches!(self, Quantization::Q4_1)
    }
    /// The bytes of a block.
    pub(crate) const fn block_bytes(self) -> usize {
        self.code_bytes() + 2 + if self.has_offset() { 2 } else { 0 }
    }
}

/// A tensor of quantized numbers.
///
/// # Examples
/// ```
/// use kiln::prelude::*;
/// use kiln::{Quantization, QuantizedTensor};
/// let weight = Tensor::linspace(-1.0, 1.0, 64, ()).reshape([2, 32]);
/// let packed = QuantizedTensor::quantize(&weight, Quantization::Q8_0)?;
/// assert_eq!(packed.bytes(), 2 * 34); // of 256
///
/// let x = Tensor::ones([1, 32], ());
/// let y = x.matmul(&packed.dequantize().t()); // one kernel, which reads the packed bytes
/// let exact = x.matmul(&weight.t());
/// assert!((y - exact).abs().max(..).item::<f32>()? < 0.05);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct QuantizedTensor {
    quantization: Quantization,
    shape: Shape,
    /// The type of the numbers.
    dtype: DType,
    /// `U8`, `[.., blocks, 32]`, or `[.., blocks, 16]` with the codes of the block's first half in the lower
    /// four bits and those of the second in the upper.
    codes: Tensor,
    /// `F16`, `[.., blocks, 1]`.
    scales: Tensor,
    /// As the scales: what is added to each number of a block.
    offsets: Option<Tensor>,
}

impl QuantizedTensor {
    /// The nearest quantized numbers to those of a tensor of floats, computed at once on its device. A block
    /// with an infinite number or a NaN is NaN.
    ///
    /// # Errors
    /// The error recorded in the tensor; a type that is no float; a last axis that is no multiple of 32; what
    /// computing it says.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::{Quantization, QuantizedTensor};
    /// let numbers = Tensor::arange(-8.0, 8.0, 0.5, ());
    /// let packed = QuantizedTensor::quantize(&numbers, Quantization::Q4_0)?;
    /// assert_eq!(packed.dequantize().to_vec::<f32>()?[..4], [-8.0, -7.0, -7.0, -6.0]);
    /// assert!(QuantizedTensor::quantize(&Tensor::ones([33], ()), Quantization::Q4_0).is_err());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn quantize(tensor: &Tensor, quantization: Quantization) -> Result<QuantizedTensor> {
        let site = CallSite::here("quantize");
        let _line = site.span.enter();
        tensor.check()?;
        let shape = tensor.shape();
        if !tensor.dtype().is_float() {
            return Err(site.error("a tensor of floats", tensor.dtype().to_string(), &[tensor]));
        }
        if !shape.last().is_some_and(|&row| row.is_multiple_of(BLOCK)) {
            return Err(site.error("a last axis of whole blocks of 32", format!("shape {shape}"), &[tensor]));
        }
        let wide = if tensor.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let blocks = site.reshape(&site.cast(&tensor.detach(), wide), &grouped(&shape, BLOCK));
        let (codes, scales, offsets) = rounding::round(site, &blocks, quantization);
        let dtype = tensor.dtype();
        QuantizedTensor { quantization, shape, dtype, codes, scales, offsets }.realized()
    }

    /// The numbers, as an expression over the packed ones: nothing is computed until something that reads them
    /// is. Gradients do not reach the packed numbers.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::{Quantization, QuantizedTensor};
    /// let packed = QuantizedTensor::quantize(&Tensor::zeros([4, 64], ()), Quantization::Q4_1)?;
    /// let numbers = packed.dequantize();
    /// assert_eq!((numbers.shape()[..].to_vec(), numbers.dtype()), (vec![4, 64], DType::F32));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn dequantize(&self) -> Tensor {
        let site = CallSite::here("dequantize");
        let code = |position: Option<usize>| Scalar::Int(position.map_or(-1, |position| position as i64));
        let quantization = Quantization::ALL.iter().position(|other| *other == self.quantization);
        let dtype = DType::ALL.iter().position(|other| *other == self.dtype);
        let attributes = [("quantization", code(quantization)), ("dtype", code(dtype))];
        let parts: Vec<Tensor> = self.parts().cloned().collect();
        let body = |parts: &[Tensor]| match parts {
            [codes, scales, offsets @ ..] => {
                let offsets = offsets.first().cloned();
                let packed =
                    QuantizedTensor { codes: codes.clone(), scales: scales.clone(), offsets, ..self.clone() };
                vec![packed.dequantized(site)]
            }
            [] | [_] => Vec::new(),
        };
        composite_at(site.span, BuiltIn::Dequantize, &attributes, &parts, body).remove(0)
    }

    fn dequantized(&self, site: CallSite) -> Tensor {
        let wide = |x: &Tensor| site.cast(x, if self.dtype == DType::F64 { DType::F64 } else { DType::F32 });
        let (codes, scales) = (wide(&self.unpacked(site)), wide(&self.scales));
        let blocks = match &self.offsets {
            None => site.mul(site.sub(&codes, self.quantization.zero()), &scales),
            Some(offsets) => site.add(site.mul(&codes, &scales), wide(offsets)),
        };
        site.cast(&site.reshape(&blocks, &self.shape), self.dtype)
    }

    /// A code a byte: `[.., blocks, 32]`.
    fn unpacked(&self, site: CallSite) -> Tensor {
        if self.quantization.code_bytes() == BLOCK {
            return self.codes.clone();
        }
        // Repeated before anything is computed, so that nothing is worth computing apart.
        let rank = self.codes.rank();
        let halves = &mut grouped(&self.shape, 2);
        halves.push(BLOCK / 2);
        let half = site.iota_along(2, rank - 1, rank + 1, DType::I32, self.codes.device());
        let half = site.expand(&half, halves);
        let pairs = site.expand(&site.unsqueeze(&self.codes, rank - 1), halves);
        let (lower, upper) = (site.binary(AluOp::And, &pairs, 15), site.binary(AluOp::Shr, &pairs, 4));
        let codes = site.select(&site.eq(&half, 0), &lower, &upper, DType::U8);
        site.reshape(&codes, &grouped(&self.shape, BLOCK))
    }

    /// How it is quantized.
    pub fn quantization(&self) -> Quantization {
        self.quantization
    }
    /// The extents of the axes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
    /// The type of the numbers: that of the tensor it was made of.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Where it is.
    pub fn device(&self) -> Device {
        self.codes.device()
    }
    /// How many bytes it takes.
    pub fn bytes(&self) -> usize {
        self.shape.numel() / BLOCK * self.quantization.block_bytes()
    }

    /// The same numbers on a device, sent packed by the first realize that reads them.
    #[must_use]
    #[track_caller]
    pub fn to(&self, device: Device) -> QuantizedTensor {
        let sent = |part: &Tensor| if part.device() == device { part.clone() } else { kept(part.to(device)) };
        let offsets = self.offsets.as_ref().map(sent);
        QuantizedTensor { codes: sent(&self.codes), scales: sent(&self.scales), offsets, ..self.clone() }
    }

    /// The same codes and scales, whose numbers are of this floating type.
    ///
    /// # Errors
    /// A type that is no float.
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> Result<QuantizedTensor> {
        if !dtype.is_float() {
            return Err(CallSite::here("to_dtype").error("a floating type", dtype.to_string(), &[]));
        }
        Ok(QuantizedTensor { dtype, ..self.clone() })
    }

    /// With all parts in memory.
    fn realized(self) -> Result<QuantizedTensor> {
        let parts: Vec<&Tensor> = self.parts().collect();
        crate::tensor::read::realize(&parts)?;
        Ok(self)
    }

    fn parts(&self) -> impl Iterator<Item = &Tensor> {
        [&self.codes, &self.scales].into_iter().chain(&self.offsets)
    }
}

/// A shape whose last axis is split into blocks, each of so many elements.
fn grouped(shape: &Shape, elements: usize) -> Vec<usize> {
    let (last, outer) = shape.split_last().unwrap_or((&BLOCK, &[]));
    [outer, &[last / BLOCK, elements]].concat()
}
