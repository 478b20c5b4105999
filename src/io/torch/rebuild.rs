//! The functions and classes that state dicts refer to, and what calls of them give.

use crate::io::torch::pickle::{Object, Storage, TensorRecord, Value};

/// PyTorch's types of storages and elements, and their names in safetensors files.
const TYPES: [(&str, &str, &str); 17] = [
    ("torch.FloatStorage", "torch.float32", "F32"),
    ("torch.DoubleStorage", "torch.float64", "F64"),
    ("torch.HalfStorage", "torch.float16", "F16"),
    ("torch.BFloat16Storage", "torch.bfloat16", "BF16"),
    ("torch.LongStorage", "torch.int64", "I64"),
    ("torch.IntStorage", "torch.int32", "I32"),
    ("torch.ShortStorage", "torch.int16", "I16"),
    ("torch.CharStorage", "torch.int8", "I8"),
    ("torch.ByteStorage", "torch.uint8", "U8"),
    ("torch.BoolStorage", "torch.bool", "BOOL"),
    ("torch.ComplexFloatStorage", "torch.complex64", "C64"),
    // Of types without a storage of their own, bytes are stored.
    ("torch.storage.UntypedStorage", "torch.uint16", "U16"),
    ("torch.UntypedStorage", "torch.uint32", "U32"),
    ("", "torch.uint64", "U64"),
    ("", "torch.float8_e4m3fn", "F8_E4M3"),
    ("", "torch.float8_e5m2", "F8_E5M2"),
    ("", "torch.float8_e8m0fnu", "F8_E8M0"),
];

/// Functions and classes that are called.
const FUNCTIONS: [&str; 8] = [
    "collections.OrderedDict",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch.Size",
    "torch.device",
];

type Read<T> = Result<T, String>;

/// The value that a name stands for.
///
/// # Errors
/// A name that is not known, which nothing is executed for.
pub fn known(name: &str) -> Read<Value> {
    let types = TYPES.iter().flat_map(|(storage, dtype, _)| [*storage, *dtype]);
    if types.chain(FUNCTIONS).any(|known| known == name) {
        return Ok(Value::Global(name.into()));
    }
    Err(format!("it refers to {name}, which is not known, and nothing is executed: save a state dict"))
}

fn dtype_of(value: &Value) -> Option<&'static str> {
    let Value::Global(name) = value else { return None };
    let untyped = name.ends_with("UntypedStorage").then_some("U8");
    let find = |(storage, dtype, name_of): &(&str, &str, &'static str)| {
        (**name == **storage || **name == **dtype).then_some(*name_of)
    };
    untyped.or_else(|| TYPES.iter().find_map(find))
}

/// The storage of an identifier: a word, a type, the name of its file, a device, a number of elements.
///
/// # Errors
/// Another identifier.
pub fn storage(id: &[Value]) -> Read<Storage> {
    let [Value::Text(_), class, Value::Text(key), ..] = id else {
        return Err("the pickle identifies something that is no storage".into());
    };
    let dtype = dtype_of(class).ok_or("the pickle has a storage of a type that is not known")?;
    Ok(Storage { dtype, key: key.clone() })
}

/// What a call gives: a new object, or as `Err` one of its arguments.
///
/// # Errors
/// Arguments that the function does not take.
pub fn call(function: &Value, arguments: &[Value], objects: &[Object]) -> Read<Result<Object, Value>> {
    let Value::Global(name) = function else { return Err("the pickle calls what is no function".into()) };
    let wrong = || format!("{name} is called with arguments that it does not take");
    match (&**name, arguments) {
        ("collections.OrderedDict", []) => Ok(Ok(Object::Dict(Vec::new()))),
        ("collections.OrderedDict", [pairs]) => Ok(Ok(Object::Dict(dict(pairs, objects).ok_or_else(wrong)?))),
        ("torch.device", _) => Ok(Err(Value::None)),
        ("torch.Size", [sizes]) => Ok(Err(sizes.clone())),
        ("torch._utils._rebuild_parameter" | "torch._utils._rebuild_parameter_with_state", [tensor, ..]) => {
            Ok(Err(tensor.clone()))
        }
        ("torch._utils._rebuild_tensor_v3", [storage, offset, dims, strides, _, _, dtype, ..]) => {
            let dtype = dtype_of(dtype).ok_or_else(wrong)?;
            let record = tensor(objects, [storage, offset, dims, strides], Some(dtype));
            record.map(|record| Ok(Object::Tensor(record))).ok_or_else(wrong)
        }
        (
            "torch._utils._rebuild_tensor" | "torch._utils._rebuild_tensor_v2",
            [storage, offset, dims, strides, ..],
        ) => {
            let record = tensor(objects, [storage, offset, dims, strides], None);
            record.map(|record| Ok(Object::Tensor(record))).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// The entries of a list of pairs.
fn dict(pairs: &Value, objects: &[Object]) -> Option<Vec<(Value, Value)>> {
    let pair = |value: &Value| match list(value, objects)? {
        [key, value] => Some((key.clone(), value.clone())),
        _ => None,
    };
    list(pairs, objects)?.iter().map(pair).collect()
}

fn list<'a>(value: &Value, objects: &'a [Object]) -> Option<&'a [Value]> {
    let Value::Object(number) = value else { return None };
    if let Object::List(list) = &objects[*number] { Some(list) } else { None }
}

fn size(value: &Value) -> Option<usize> {
    if let Value::Int(number) = value { usize::try_from(*number).ok() } else { None }
}

fn tensor(
    objects: &[Object],
    [storage, offset, dims, strides]: [&Value; 4],
    dtype: Option<&'static str>,
) -> Option<TensorRecord> {
    let Value::Object(number) = storage else { return None };
    let Object::Storage(storage) = &objects[*number] else { return None };
    let sizes = |value| list(value, objects)?.iter().map(size).collect::<Option<Vec<usize>>>();
    let (dims, strides) = (sizes(dims)?, sizes(strides)?);
    let fits = dims.len() == strides.len();
    let dtype = dtype.unwrap_or(storage.dtype);
    let record = TensorRecord { dtype, key: storage.key.clone(), offset: size(offset)?, dims, strides };
    fits.then_some(record)
}
