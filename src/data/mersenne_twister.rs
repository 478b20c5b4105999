//! The Mersenne Twister MT19937, of which PyTorch's orders are made (Matsumoto and Nishimura 1998).

const WORDS: usize = 624;
const MIDDLE: usize = 397;

/// Random words of 32 bits.
#[derive(Clone, Debug)]
pub struct MersenneTwister {
    state: [u32; WORDS],
    next: usize,
}

impl MersenneTwister {
    pub fn new(seed: u32) -> MersenneTwister {
        let mut state = [seed; WORDS];
        for i in 1..WORDS {
            let before = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(before ^ before >> 30).wrapping_add(i as u32);
        }
        MersenneTwister { state, next: WORDS }
    }

    /// The next word.
    pub fn word(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    fn twist(&mut self) {
        for i in 0..WORDS {
            let joined = self.state[i] & 1 << 31 | self.state[(i + 1) % WORDS] & !(1 << 31);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + MIDDLE) % WORDS] ^ joined >> 1 ^ odd;
        }
        self.next = 0;
    }

    /// A random order of `0..len`: that of `torch.randperm` on the CPU.
    pub fn permutation(mut self, len: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..len).collect();
        // Below this PyTorch takes one word a place.
        let narrow = len < (u32::MAX / 20) as usize;
        for place in 0..len.saturating_sub(1) {
            let left = (len - place) as u64;
            let draw = if narrow { u64::from(self.word()) } else { self.two_words() };
            numbers.swap(place, place + (draw % left) as usize);
        }
        numbers
    }

    fn two_words(&mut self) -> u64 {
        let high = u64::from(self.word());
        high << 32 | u64::from(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the C++ standard says of `std::mt19937`.
    #[test]
    fn the_ten_thousandth_word_of_the_default_seed_is_known() {
        let mut words = MersenneTwister::new(5489);
        assert_eq!((0..10_000).map(|_| words.word()).last(), Some(4_123_659_995));
    }

    #[test]
    fn a_permutation_has_every_number_once() {
        for len in [0, 1, 2, 700] {
            let mut numbers = MersenneTwister::new(3).permutation(len);
            numbers.sort_unstable();
            assert_eq!(numbers, (0..len).collect::<Vec<_>>());
        }
    }
}
