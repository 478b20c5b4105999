//! Protocol Buffers' wire format, as much of it as events need
//! (<https://protobuf.dev/programming-guides/encoding>).

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

/// How a field's value is written.
#[derive(Clone, Copy, Debug)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

impl Message {
    pub fn new() -> Message {
        Message::default()
    }

    pub fn bytes(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn key(&mut self, field: u32, wire_type: WireType) {
        self.varint(u64::from(field) << 3 | wire_type as u64);
    }

    /// A field of type `int32`, `int64` or an enumeration.
    #[must_use]
    pub fn int(mut self, field: u32, value: i64) -> Message {
        self.key(field, WireType::Varint);
        self.varint(value as u64);
        self
    }

    #[must_use]
    pub fn float(mut self, field: u32, value: f32) -> Message {
        self.key(field, WireType::Fixed32);
        self.0.extend(value.to_le_bytes());
        self
    }

    #[must_use]
    pub fn double(mut self, field: u32, value: f64) -> Message {
        self.key(field, WireType::Fixed64);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// A field of type `bytes` or `string`.
    #[must_use]
    pub fn text(mut self, field: u32, value: &[u8]) -> Message {
        self.key(field, WireType::Bytes);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    #[must_use]
    pub fn message(self, field: u32, value: Message) -> Message {
        self.text(field, &value.0)
    }

    /// A packed field of repeated doubles.
    #[must_use]
    pub fn doubles(self, field: u32, values: &[f64]) -> Message {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.text(field, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_specification_shows() {
        assert_eq!(Message::new().int(1, 150).bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::new().text(2, b"testing").bytes(), *b"\x12\x07testing");
        assert_eq!(Message::new().message(3, Message::new().int(1, 150)).bytes(), *b"\x1a\x03\x08\x96\x01");
        assert_eq!(Message::new().int(1, -2).bytes().len(), 11, "ten bytes of two's complement");
        assert_eq!(Message::new().float(2, 1.0).bytes(), [0x15, 0, 0, 0x80, 0x3f]);
        assert_eq!(Message::new().doubles(6, &[0.0]).bytes(), [0x32, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
