//! Where the operands of a product come from, and what gives a product its elements.

use crate::runtime::Bindings;
use crate::runtime::cpu::contraction::quantized_rows::QuantizedRows;
use crate::runtime::cpu::contraction::{BlockWriter, Strides, element};
use crate::runtime::cpu::gemm::{self, DotRequest, GemmOperand, PackOrder, PackRequest};
use crate::runtime::cpu::tile::product::StridedBlock;

/// Where an operand comes from.
#[derive(Debug)]
pub enum OperandSource {
    /// An input, read in place.
    Strided { input: u32, strides: Strides },
    /// Something that writes blocks.
    Packed { writer: BlockWriter, order: PackOrder },
}

impl OperandSource {
    pub fn source(&self) -> String {
        match self {
            OperandSource::Strided { input, strides } => format!("in{input} in place, {}\n", strides.text()),
            OperandSource::Packed { writer, order } => format!("packed by {order:?}\n{}\n", writer.source()),
        }
    }

    /// Elements from where the operand begins to a batch's first.
    pub fn offsets(&self) -> impl Fn(usize) -> isize + Sync + '_ {
        move |batch| match self {
            OperandSource::Strided { strides, .. } => strides.batch(batch),
            OperandSource::Packed { .. } => 0,
        }
    }

    /// What writes blocks of the operand, if anything does.
    pub fn filler<'a, T: gemm::GemmElement>(
        &'a self,
        bindings: &Bindings<'a>,
    ) -> Option<Box<dyn Fn(PackRequest<T>) + Sync + 'a>> {
        let OperandSource::Packed { writer, order } = self else { return None };
        let (write, order) = (writer.on(bindings), *order);
        Some(Box::new(move |fill: PackRequest<T>| {
            let to = StridedBlock { start: fill.to.cast(), row_stride: fill.ld, lane: size_of::<T>() };
            match order {
                PackOrder::KContiguous => write(fill.batch, fill.rows, fill.k, to),
                PackOrder::RowContiguous => write(fill.batch, fill.k, fill.rows, to),
            }
        }))
    }

    /// Whether a row's elements follow each other, in memory or as they are written.
    pub fn is_along_depth(&self) -> bool {
        match self {
            OperandSource::Strided { strides, .. } => strides.contiguous(),
            OperandSource::Packed { order, .. } => *order == PackOrder::KContiguous,
        }
    }

    /// The quantized rows that may be multiplied without being written, if that is what it is.
    pub fn quantized(&self) -> Option<&QuantizedRows> {
        match self {
            OperandSource::Packed { writer: BlockWriter::Quantized(rows), order: PackOrder::KContiguous } => {
                Some(rows)
            }
            OperandSource::Packed { .. } | OperandSource::Strided { .. } => None,
        }
    }

    /// What multiplies rows of depth `k` with a vector without writing them, if anything does.
    pub fn dots<'a, T: gemm::GemmElement>(
        &'a self,
        bindings: &Bindings<'a>,
        k: usize,
    ) -> Option<Box<dyn Fn(DotRequest<T>) + Sync + 'a>> {
        let rows = self.quantized()?;
        rows.dot()?;
        let memory = rows.on(bindings);
        Some(Box::new(move |request: DotRequest<T>| {
            // The values are of f32, so the product is.
            let DotRequest { batch, rows, vector, to } = request;
            // SAFETY: the kernel's accesses lie inside its buffers, and the results are the caller's.
            unsafe { memory.dots(batch, rows, vector.cast(), k, to.cast()) }
        }))
    }

    /// The operand, given the functions of [`OperandSource::offsets`] and [`OperandSource::filler`].
    pub fn operand<'a, T>(
        &self,
        bindings: &Bindings<'_>,
        batch: &'a (dyn Fn(usize) -> isize + Sync),
        fill: Option<&'a (dyn Fn(PackRequest<T>) + Sync)>,
    ) -> GemmOperand<'a, T> {
        match (self, fill) {
            (OperandSource::Strided { input, strides }, _) => GemmOperand::Strided {
                ptr: element::<T>(&bindings.inputs[*input as usize], strides.offset),
                row_stride: strides.row as isize,
                k_stride: strides.col as isize,
                batch,
            },
            (OperandSource::Packed { order, .. }, Some(fill)) => {
                GemmOperand::Packed { order: *order, fill, dots: None }
            }
            (OperandSource::Packed { .. }, None) => panic!("a packed operand has a program"),
        }
    }
}
