//! Where the cases run: a device, or the interpreter of the unfused graph.

use kiln::tensor::read::{realize, realize_async};
use kiln::tensor::slicing::SliceRange;
use kiln::tensor::{Place, Tensor};
use kiln::{DType, Device, Error};

use super::array::Array;

/// Whether the runner is in a page of a browser, where no call waits for a device.
const IN_PAGE: bool = cfg!(target_family = "wasm");

/// What evaluates the graphs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// The interpreter: f64, rounded to the type at casts and at the end. It
    /// checks the compositions, independently of any kernel.
    Oracle,
    /// A device.
    Device(Device),
}

impl Target {
    /// Reads `oracle` or a device's name.
    ///
    /// # Errors
    /// A name of neither.
    pub fn parse(name: &str) -> Result<Target, Error> {
        if name == "oracle" { Ok(Target::Oracle) } else { name.parse().map(Target::Device) }
    }

    /// Where inputs are made.
    pub fn place(self) -> Place {
        match self {
            Target::Oracle => Place::from(Device::cpu()),
            Target::Device(device) => Place::from(device),
        }
    }

    /// The values of `tensors`.
    ///
    /// # Errors
    /// kiln's.
    pub async fn evaluate(self, tensors: &[Tensor]) -> Result<Vec<Array>, Error> {
        if self == Target::Oracle {
            return oracle(tensors);
        }
        let all: Vec<&Tensor> = tensors.iter().collect();
        if IN_PAGE {
            realize_async(&all).await?
        } else {
            realize(&all)?
        }
        let mut arrays = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            arrays.push(read(tensor).await?);
        }
        Ok(arrays)
    }

    /// An input. With `strides` (in elements), a view that has them.
    pub fn input(self, array: &Array, strides: Option<&[usize]>) -> Tensor {
        match strides {
            None => self.leaf(array),
            Some(strides) => self.strided(array, strides),
        }
    }

    fn leaf(self, array: &Array) -> Tensor {
        let (shape, place) = (array.shape.clone(), self.place());
        match array.dtype {
            DType::F64 => Tensor::from_slice(&array.elements(f64::from_le_bytes), shape, place),
            DType::F32 => Tensor::from_slice(&array.elements(f32::from_le_bytes), shape, place),
            DType::F16 => Tensor::from_slice(&array.elements(half::f16::from_le_bytes), shape, place),
            DType::BF16 => Tensor::from_slice(&array.elements(half::bf16::from_le_bytes), shape, place),
            DType::I64 => Tensor::from_slice(&array.elements(i64::from_le_bytes), shape, place),
            DType::I32 => Tensor::from_slice(&array.elements(i32::from_le_bytes), shape, place),
            DType::U32 => Tensor::from_slice(&array.elements(u32::from_le_bytes), shape, place),
            DType::U8 => Tensor::from_slice(&array.elements(u8::from_le_bytes), shape, place),
            DType::Bool => Tensor::from_slice(&array.elements(|[b]| b != 0), shape, place),
        }
    }

    /// A leaf holding the elements in the order of their strides, and above
    /// it the movement that gives the array back.
    fn strided(self, array: &Array, strides: &[usize]) -> Tensor {
        let layout = Layout::of(&array.shape, strides);
        let mut view = self.leaf(&layout.spread(array));
        if layout.step > 1 {
            let last = layout.order.len() as i64 - 1;
            let every = SliceRange { start: None, stop: None, step: layout.step as i64 };
            view = view.slice(last, every);
        }
        let mut back = vec![0i64; layout.order.len()];
        for (place, &axis) in layout.order.iter().enumerate() {
            back[axis] = place as i64;
        }
        view.permute(back)
    }
}

/// The elements of a computed tensor.
async fn read(tensor: &Tensor) -> Result<Array, Error> {
    macro_rules! values {
        ($t:ty) => {
            if IN_PAGE { tensor.to_vec_async::<$t>().await? } else { tensor.to_vec::<$t>()? }
        };
    }
    macro_rules! bytes {
        ($t:ty) => {
            values!($t).iter().flat_map(|x| x.to_le_bytes()).collect()
        };
    }
    let dtype = tensor.dtype();
    let bytes = match dtype {
        DType::F64 => bytes!(f64),
        DType::F32 => bytes!(f32),
        DType::F16 => bytes!(half::f16),
        DType::BF16 => bytes!(half::bf16),
        DType::I64 => bytes!(i64),
        DType::I32 => bytes!(i32),
        DType::U32 => bytes!(u32),
        DType::U8 => bytes!(u8),
        DType::Bool => values!(bool).into_iter().map(u8::from).collect(),
    };
    Ok(Array { dtype, shape: tensor.shape().to_vec(), bytes })
}

fn oracle(tensors: &[Tensor]) -> Result<Vec<Array>, Error> {
    let values = Tensor::oracle(&tensors.iter().collect::<Vec<_>>())?;
    let array = |value: kiln::unstable::ir::oracle::Value| {
        let bytes = value.to_bytes();
        Array { dtype: value.ty.dtype, shape: value.ty.shape.to_vec(), bytes }
    };
    Ok(values.into_iter().map(array).collect())
}

/// How strided elements lie in memory: the axes from the widest stride to the
/// narrowest, and the narrowest.
struct Layout {
    order: Vec<usize>,
    step: usize,
}

impl Layout {
    fn of(shape: &[usize], strides: &[usize]) -> Layout {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));
        let step = order.last().map_or(1, |&axis| strides[axis].max(1));
        Layout { order, step }
    }

    /// The block of memory: the array's elements at their places, and between
    /// them bytes that would be noticed in a result.
    fn spread(&self, array: &Array) -> Array {
        let mut shape: Vec<usize> = self.order.iter().map(|&axis| array.shape[axis]).collect();
        let width = array.dtype.size();
        let mut bytes = Vec::new();
        for position in 0..array.shape.iter().product() {
            let at = self.source(position, &shape, &array.shape) * width;
            bytes.extend_from_slice(&array.bytes[at..at + width]);
            bytes.extend(std::iter::repeat_n(0x55, (self.step - 1) * width));
        }
        if let Some(last) = shape.last_mut() {
            *last *= self.step;
        }
        Array { dtype: array.dtype, shape, bytes }
    }

    /// The row-major number, in the array, of the element at `position` of
    /// the block.
    fn source(&self, mut position: usize, block: &[usize], shape: &[usize]) -> usize {
        let mut index = vec![0; shape.len()];
        for (place, &axis) in self.order.iter().enumerate().rev() {
            index[axis] = position % block[place];
            position /= block[place];
        }
        index.iter().zip(shape).fold(0, |at, (&i, &extent)| at * extent + i)
    }
}
