//! Lists of mostly small integers, as in keys of plans, in a variable-length encoding.

/// Varints (LEB128): seven bits a byte, the lowest first; a set high bit continues. Plans of
/// many kernels have long keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VarintList(Vec<u8>);

impl VarintList {
    /// Adds a number.
    pub fn push(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Makes room for so many small numbers.
    pub fn reserve(&mut self, count: usize) {
        self.0.reserve(count);
    }

    /// Frees spare capacity.
    pub fn shrink_to_fit(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Adds the numbers of another list, by its encoding.
    pub fn append(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The encoding alone.
    pub fn into_bytes(self) -> Box<[u8]> {
        self.0.into()
    }

    /// The encoding: equal for equal lists.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut bytes = self.0.iter();
        std::iter::from_fn(move || {
            let mut number = 0;
            for shift in (0..).step_by(7) {
                let byte = *bytes.next()?;
                number |= u64::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            Some(number)
        })
    }
}

impl Extend<u64> for VarintList {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, numbers: I) {
        numbers.into_iter().for_each(|number| self.push(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_out_as_they_went_in() {
        let numbers = [0, 1, 127, 128, 300, 1 << 35, u64::MAX, -1024i64 as u64, 7];
        let mut list = VarintList::default();
        list.extend(numbers);
        assert_eq!(list.iter().collect::<Vec<_>>(), numbers);
        assert_eq!(list.bytes()[..3], [0, 1, 127]);
        list.append(&list.clone().into_bytes()[1..5]);
        assert_eq!(list.iter().skip(numbers.len()).collect::<Vec<_>>(), numbers[1..4]);
    }
}
