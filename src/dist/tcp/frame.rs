//! Messages as bytes on a connection.

use std::io::{self, Read, Write};

use crate::dist::post::{Message, PostOffice, Route};

/// The longest description of a message: more is no message.
const MOST: usize = 1 << 20;
/// Bytes for which there is room before they come.
const MOST_AHEAD: usize = 64 << 20;

/// A message with its group.
pub struct Frame {
    pub members: Vec<usize>,
    /// How many groups of the same ranks there were before.
    pub number: usize,
    pub route: Route,
    pub message: Message,
}

/// Writes numbers and texts.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }
    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend(text.as_bytes());
    }
}

/// Reads what a [`Writer`] has written.
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    pub fn number(&mut self) -> io::Result<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>().ok_or_else(not_a_message)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }
    pub fn size(&mut self) -> io::Result<usize> {
        usize::try_from(self.number()?).map_err(|_| not_a_message())
    }
    pub fn text(&mut self) -> io::Result<String> {
        let len = self.size()?;
        let (text, rest) = self.0.split_at_checked(len).ok_or_else(not_a_message)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| not_a_message())
    }
}

fn not_a_message() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a message of kiln")
}

/// Writes a description, its length first.
pub fn write_described(stream: &mut impl Write, description: &[u8]) -> io::Result<()> {
    stream.write_all(&(description.len() as u64).to_le_bytes())?;
    stream.write_all(description)
}

/// Reads a description.
pub fn read_described(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 8];
    stream.read_exact(&mut len)?;
    let len = usize::try_from(u64::from_le_bytes(len)).ok().filter(|&len| len <= MOST);
    let mut description = vec![0; len.ok_or_else(not_a_message)?];
    stream.read_exact(&mut description)?;
    Ok(description)
}

impl Frame {
    /// Writes a message of a group.
    pub fn write(
        stream: &mut impl Write,
        office: &PostOffice,
        route: Route,
        message: &Message,
    ) -> io::Result<()> {
        let mut head = Writer::default();
        head.number(office.members.len() as u64);
        office.members.iter().for_each(|&member| head.number(member as u64));
        let Route { from, to, among_all } = route;
        for number in [office.number as u64, from as u64, to as u64, u64::from(among_all), message.number] {
            head.number(number);
        }
        head.text(&message.operation);
        head.text(&message.text);
        head.number(message.bytes.len() as u64);
        write_described(stream, &head.0)?;
        stream.write_all(&message.bytes)?;
        stream.flush()
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Those of the connection, its end included; what is no message.
    pub fn read(stream: &mut impl Read) -> io::Result<Frame> {
        let head = read_described(stream)?;
        let mut head = Reader(&head);
        let count = head.size()?;
        let members = (0..count).map(|_| head.size()).collect::<io::Result<Vec<usize>>>()?;
        let (number, from, to, among_all) = (head.size()?, head.size()?, head.size()?, head.number()? != 0);
        if from >= count || to >= count {
            return Err(not_a_message());
        }
        let (exchange, operation, text, len) = (head.number()?, head.text()?, head.text()?, head.size()?);
        // Memory grows with what comes in, whatever the length says.
        let mut bytes = Vec::with_capacity(len.min(MOST_AHEAD));
        if stream.take(len as u64).read_to_end(&mut bytes)? < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let message = Message { number: exchange, operation, text, bytes: bytes.into() };
        Ok(Frame { members, number, route: Route { from, to, among_all }, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::post::World;

    #[test]
    fn a_message_is_read_as_it_was_written_and_nothing_else_is_one() {
        let office = World::new(std::time::Duration::from_secs(1)).office(&[4, 7], 3);
        let bytes = [1, 2, 3].into();
        let (operation, text) = ("barrier".to_string(), "barrier at x.rs:1".to_string());
        let message = Message { number: 9, operation, text, bytes };
        let route = Route { from: 1, to: 0, among_all: true };
        let mut written = Vec::new();
        Frame::write(&mut written, &office, route, &message).unwrap();
        let found = Frame::read(&mut &written[..]).unwrap();
        assert_eq!((&found.members[..], found.number, found.route), (&[4, 7][..], 3, route));
        assert_eq!((found.message.number, &found.message.bytes[..]), (9, &[1, 2, 3][..]));
        assert_eq!((&found.message.operation[..], &found.message.text[..]), ("barrier", "barrier at x.rs:1"));
        for end in 0..written.len() {
            assert!(Frame::read(&mut &written[..end]).is_err(), "{end}");
        }
        assert!(Frame::read(&mut &b"GET / HTTP/1.1\r\n\r\n"[..]).is_err());
    }
}
