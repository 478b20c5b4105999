//! Where the operands of a product come from, and what gives a product its elements.

use crate::base::Precision;
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

    /// The quantized rows that may be multiplied with a vector without being written, if that is what it is.
    fn quantized(&self) -> Option<&QuantizedRows> {
        match self {
            OperandSource::Packed { writer: BlockWriter::Quantized(rows), order: PackOrder::KContiguous } => {
                Some(rows)
            }
            OperandSource::Packed { .. } | OperandSource::Strided { .. } => None,
        }
    }

    /// Whether a vector is rounded to 8 bits to be multiplied with its rows, at this precision.
    pub fn rounds_vectors(&self, precision: Precision) -> bool {
        precision == Precision::Medium && self.quantized().is_some_and(|rows| rows.integer_dot().is_some())
    }

    /// What multiplies rows of depth `k` with a vector without writing them, if anything does.
    pub fn dots<'a, T: gemm::GemmElement>(
        &'a self,
        bindings: &Bindings<'a>,
        k: usize,
        precision: Precision,
    ) -> Option<Box<dyn Fn(DotRequest<T>) + Sync + 'a>> {
        let (rows, rounds) = (self.quantized()?, self.rounds_vectors(precision));
        let memory = rows.on(bindings);
        rows.dot()?;
        Some(Box::new(move |request: DotRequest<T>| {
            // The values are of f32, so the product is.
            let DotRequest { batch, rows, vector, to } = request;
            // SAFETY: the kernel's accesses lie inside its buffers, and the results are the caller's.
            unsafe {
                match rounds {
                    true => memory.integer_dots(batch, rows, vector.cast(), k, to.cast()),
                    false => memory.dots(batch, rows, vector.cast(), k, to.cast()),
                }
            }
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
