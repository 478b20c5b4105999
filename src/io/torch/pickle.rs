//! A reader of pickles that executes nothing: it builds the values that state dicts are made of, and
//! refuses every function and class that it does not know.
//!
//! A pickle is a program for a stack machine. Whatever holds other values is in one list of objects, and
//! values refer to it by number, so that nothing here recurses, however deep a pickle nests.

use std::rc::Rc;

use crate::io::torch::rebuild;

/// A value on the stack.
#[derive(Clone, Debug)]
pub enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Rc<str>),
    /// A function or class that is known.
    Global(Rc<str>),
    /// The number of an object.
    Object(usize),
    /// Where a sequence of values begins.
    Mark,
}

/// What holds values.
#[derive(Clone, Debug)]
pub enum Object {
    /// A tuple, a list or a set.
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    Storage(Storage),
    Tensor(TensorRecord),
}

/// The memory that tensors are views of.
#[derive(Clone, Debug)]
pub struct Storage {
    /// The safetensors format's name of its type.
    pub dtype: &'static str,
    /// The name of its file.
    pub key: Rc<str>,
}

/// A view of a storage, in elements.
#[derive(Clone, Debug)]
pub struct TensorRecord {
    pub dtype: &'static str,
    pub key: Rc<str>,
    pub offset: usize,
    pub dims: Vec<usize>,
    pub strides: Vec<usize>,
}

/// The value of a pickle and the objects it refers to.
#[derive(Debug)]
pub struct Pickle {
    pub value: Value,
    pub objects: Vec<Object>,
}

type Read<T> = Result<T, String>;

const SHORT: &str = "the pickle is cut short";
const EMPTY: &str = "the pickle takes more from its stack than is there";

struct Machine<'a> {
    left: &'a [u8],
    stack: Vec<Value>,
    memo: Vec<Option<Value>>,
    /// How large the memo may become: a pickle has fewer values than bytes.
    most: usize,
    objects: Vec<Object>,
}

/// Reads a pickle.
///
/// # Errors
/// What is wrong with it, or what it refers to that is not known.
pub fn read(bytes: &[u8]) -> Read<Pickle> {
    let mut machine =
        Machine { left: bytes, stack: Vec::new(), memo: Vec::new(), most: bytes.len(), objects: Vec::new() };
    loop {
        let code = machine.take(1)?[0];
        if code == b'.' {
            let value = machine.pop()?;
            return Ok(Pickle { value, objects: machine.objects });
        }
        machine.step(code)?;
    }
}

impl<'a> Machine<'a> {
    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(count).ok_or(SHORT)?;
        self.left = left;
        Ok(taken)
    }
    /// An unsigned number of so many bytes.
    fn number(&mut self, bytes: usize) -> Read<usize> {
        let bytes = self.take(bytes)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    }
    fn line(&mut self) -> Read<String> {
        let end = self.left.iter().position(|&byte| byte == b'\n').ok_or(SHORT)?;
        let line = self.take(end + 1)?;
        Ok(String::from_utf8_lossy(&line[..end]).into_owned())
    }
    fn text(&mut self, length: usize) -> Read<Value> {
        let length = self.number(length)?;
        Ok(Value::Text(String::from_utf8_lossy(self.take(length)?).into()))
    }
    fn pop(&mut self) -> Read<Value> {
        self.stack.pop().ok_or_else(|| EMPTY.into())
    }
    fn add(&mut self, object: Object) -> Value {
        self.objects.push(object);
        Value::Object(self.objects.len() - 1)
    }
    fn push(&mut self, value: Value) {
        self.stack.push(value);
    }
    /// The values above the last mark, which goes with them.
    fn marked(&mut self) -> Read<Vec<Value>> {
        let mark = self.stack.iter().rposition(|value| matches!(value, Value::Mark)).ok_or(EMPTY)?;
        let values = self.stack.split_off(mark + 1);
        self.stack.pop();
        Ok(values)
    }

    fn step(&mut self, code: u8) -> Read<()> {
        match code {
            0x80 => drop(self.take(1)?), // PROTO
            0x95 => drop(self.take(8)?), // FRAME
            b'(' => self.push(Value::Mark),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.marked()?),
            b'N' | 0x88 | 0x89 | b'K' | b'M' | b'J' | b'G' | 0x8a => {
                let value = self.scalar(code)?;
                self.push(value);
            }
            b'X' | b'T' | b'U' | 0x8c | 0x8d => {
                let value = self.text(match code {
                    b'U' | 0x8c => 1,
                    0x8d => 8,
                    _ => 4,
                })?;
                self.push(value);
            }
            b'}' | b']' | b')' | 0x8f | b't' | b'l' | b'd' | 0x85..=0x87 => self.collect(code)?,
            b'q' | b'r' | 0x94 | b'h' | b'j' => self.remember(code)?,
            b'a' | b'e' | b's' | b'u' | 0x90 => self.fill(code)?,
            b'c' | 0x93 | b'R' | b'Q' | b'b' => self.refer(code)?,
            _ => return Err(format!("the pickle has the instruction {code:#04x}, which state dicts do not")),
        }
        Ok(())
    }

    fn scalar(&mut self, code: u8) -> Read<Value> {
        Ok(match code {
            0x88 | 0x89 => Value::Bool(code == 0x88),
            b'K' => Value::Int(self.number(1)? as i64),
            b'M' => Value::Int(self.number(2)? as i64),
            b'J' => Value::Int(i64::from(self.number(4)? as u32 as i32)),
            b'G' => Value::Float(f64::from_bits((self.number(8)? as u64).swap_bytes())),
            0x8a => {
                let length = self.number(1)?;
                let bytes = self.take(length)?;
                let sign = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { -1i64 } else { 0 };
                if bytes.len() > 8 {
                    return Err("the pickle has an integer of more than 64 bits".into());
                }
                Value::Int(bytes.iter().rev().fold(sign, |number, &byte| number << 8 | i64::from(byte)))
            }
            _ => Value::None,
        })
    }

    /// Puts a container on the stack, of values that are there.
    fn collect(&mut self, code: u8) -> Read<()> {
        let object = match code {
            b'}' => Object::Dict(Vec::new()),
            b']' | b')' | 0x8f => Object::List(Vec::new()),
            b't' | b'l' => Object::List(self.marked()?),
            b'd' => Object::Dict(pairs(self.marked()?)?),
            _ => {
                let from = self.stack.len().checked_sub(usize::from(code - 0x84)).ok_or(EMPTY)?;
                Object::List(self.stack.split_off(from))
            }
        };
        let value = self.add(object);
        self.push(value);
        Ok(())
    }

    /// Puts the top of the stack in the memo, or gets a value from there.
    fn remember(&mut self, code: u8) -> Read<()> {
        let number = match code {
            0x94 => self.memo.len(),
            b'q' | b'h' => self.number(1)?,
            _ => self.number(4)?,
        };
        if matches!(code, b'h' | b'j') {
            let value =
                self.memo.get(number).cloned().flatten().ok_or("the pickle gets what it never put")?;
            self.push(value);
            return Ok(());
        }
        if number >= self.most {
            return Err("the pickle counts further than it is long".into());
        }
        if self.memo.len() <= number {
            self.memo.resize(number + 1, None);
        }
        self.memo[number] = Some(self.stack.last().ok_or(EMPTY)?.clone());
        Ok(())
    }

    /// Adds values to the container below them.
    fn fill(&mut self, code: u8) -> Read<()> {
        let values = match code {
            b'a' => vec![self.pop()?],
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.marked()?,
        };
        let Some(Value::Object(number)) = self.stack.last() else { return Err(EMPTY.into()) };
        match (&mut self.objects[*number], code) {
            (Object::List(list), b'a' | b'e' | 0x90) => list.extend(values),
            (Object::Dict(dict), b's' | b'u') => dict.extend(pairs(values)?),
            _ => return Err("the pickle adds to what holds nothing".into()),
        }
        Ok(())
    }

    /// Functions and classes, calls of them, storages, and attributes of objects, which mean nothing here.
    fn refer(&mut self, code: u8) -> Read<()> {
        let value = match code {
            b'c' => {
                let module = self.line()?;
                let name = self.line()?;
                rebuild::known(&format!("{module}.{name}"))?
            }
            0x93 => match (self.pop()?, self.pop()?) {
                (Value::Text(name), Value::Text(module)) => rebuild::known(&format!("{module}.{name}"))?,
                _ => return Err("the pickle names something by what is no text".into()),
            },
            b'R' => {
                let arguments = self.pop()?;
                let function = self.pop()?;
                let made = rebuild::call(&function, &self.list(&arguments)?, &self.objects)?;
                made.map_or_else(Ok, |object| Ok::<Value, String>(self.add(object)))?
            }
            b'Q' => {
                let id = self.pop()?;
                let storage = rebuild::storage(&self.list(&id)?)?;
                self.add(Object::Storage(storage))
            }
            _ => {
                self.pop()?;
                self.pop()?
            }
        };
        self.push(value);
        Ok(())
    }

    fn list(&self, value: &Value) -> Read<Vec<Value>> {
        match value {
            Value::Object(number) => match &self.objects[*number] {
                Object::List(list) => Ok(list.clone()),
                _ => Err("the pickle calls with what is no tuple".into()),
            },
            _ => Err("the pickle calls with what is no tuple".into()),
        }
    }
}

/// Keys and values that follow each other.
fn pairs(values: Vec<Value>) -> Read<Vec<(Value, Value)>> {
    if !values.len().is_multiple_of(2) {
        return Err("the pickle has a key without a value".into());
    }
    let mut values = values.into_iter();
    let mut pairs = Vec::new();
    while let Some(pair) = values.next().zip(values.next()) {
        pairs.push(pair);
    }
    Ok(pairs)
}
