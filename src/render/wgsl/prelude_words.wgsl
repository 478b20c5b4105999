// 64-bit integers as pairs of words, the low one first, for adapters without others.

// The lower of two products' words, and the upper.
fn product_words(x: u32, y: u32) -> Words {
    let low = (x & 0xffffu) * (y & 0xffffu);
    let middle = (x >> 16u) * (y & 0xffffu) + (low >> 16u);
    let other = (x & 0xffffu) * (y >> 16u) + (middle & 0xffffu);
    return Words(x * y, (x >> 16u) * (y >> 16u) + (middle >> 16u) + (other >> 16u));
}

fn unsigned_words(x: u32) -> Words {
    return Words(x, 0u);
}

fn signed_words(x: i32) -> Words {
    return Words(bitcast<u32>(x), bitcast<u32>(x >> 31u));
}

fn low_words(x: Words) -> u32 {
    return x.x;
}

fn add_words(x: Words, y: Words) -> Words {
    let low = x.x + y.x;
    return Words(low, x.y + y.y + select(0u, 1u, low < x.x));
}

fn negate_words(x: Words) -> Words {
    return Words(0u - x.x, select(~x.y, 0u - x.y, x.x == 0u));
}

fn subtract_words(x: Words, y: Words) -> Words {
    return Words(x.x - y.x, x.y - y.y - select(0u, 1u, x.x < y.x));
}

fn multiply_words(x: Words, y: Words) -> Words {
    let low = product_words(x.x, y.x);
    return Words(low.x, low.y + x.x * y.y + x.y * y.x);
}

fn below_words(x: Words, y: Words) -> bool {
    return x.y < y.y || (x.y == y.y && x.x < y.x);
}

fn less_words(x: Words, y: Words) -> bool {
    let sign = Words(0u, 0x80000000u);
    return below_words(x ^ sign, y ^ sign);
}

fn maximum_words(x: Words, y: Words) -> Words {
    return select(x, y, less_words(x, y));
}

fn minimum_words(x: Words, y: Words) -> Words {
    return select(x, y, less_words(y, x));
}

fn magnitude_words(x: Words) -> Words {
    return select(x, negate_words(x), x.y >= 0x80000000u);
}

// By fewer than 64 digits.
fn left_words(x: Words, digits: u32) -> Words {
    let by = digits & 31u;
    let carried = (x.x >> 1u) >> (31u - by);
    return select(Words(x.x << by, (x.y << by) | carried), Words(0u, x.x << by), digits > 31u);
}

fn shift_left_words(x: Words, y: Words) -> Words {
    return select(left_words(x, y.x & 63u), Words(0u, 0u), y.y != 0u || y.x > 63u);
}

fn shift_right_words(x: Words, y: Words) -> Words {
    let digits = select(y.x, 63u, y.y != 0u || y.x > 63u);
    let by = digits & 31u;
    let high = bitcast<i32>(x.y);
    let carried = (x.y << 1u) << (31u - by);
    let near = Words((x.x >> by) | carried, bitcast<u32>(high >> by));
    return select(near, signed_words(high >> by), digits > 31u);
}

// Of unsigned numbers, the second of which is not zero: bit by bit where a word does not hold both.
fn divide_words(x: Words, y: Words) -> Words {
    if (x.y == 0u && y.y == 0u) { return Words(x.x / y.x, 0u); }
    var quotient = Words(0u, 0u);
    var rest = Words(0u, 0u);
    var left = x;
    for (var digit = 0; digit < 64; digit += 1) {
        // What is shifted out of the rest makes it no less than any divisor.
        let carries = rest.y >= 0x80000000u;
        rest = left_words(rest, 1u) | Words(left.y >> 31u, 0u);
        left = left_words(left, 1u);
        let fits = carries || !below_words(rest, y);
        rest = select(rest, subtract_words(rest, y), fits);
        quotient = left_words(quotient, 1u) | Words(select(0u, 1u, fits), 0u);
    }
    return quotient;
}

fn quotient_words(x: Words, y: Words) -> Words {
    let none = (y.x | y.y) == 0u;
    let magnitude = divide_words(magnitude_words(x), select(magnitude_words(y), Words(1u, 0u), none));
    let quotient = select(magnitude, negate_words(magnitude), ((x.y ^ y.y) & 0x80000000u) != 0u);
    return select(quotient, Words(0u, 0u), none);
}

fn remainder_words(x: Words, y: Words) -> Words {
    let none = (y.x | y.y) == 0u;
    return select(subtract_words(x, multiply_words(quotient_words(x, y), y)), Words(0u, 0u), none);
}

fn power_words(x: Words, y: Words) -> Words {
    let one = Words(1u, 0u);
    if (y.y >= 0x80000000u) {
        let sign = select(one, Words(0xffffffffu, 0xffffffffu), (y.x & 1u) == 1u);
        let negative = (x.x & x.y) == 0xffffffffu;
        return select(select(Words(0u, 0u), sign, negative), one, all(x == one));
    }
    var result = one;
    var square = x;
    var left = y;
    while ((left.x | left.y) != 0u) {
        result = select(result, multiply_words(result, square), (left.x & 1u) == 1u);
        square = multiply_words(square, square);
        left = shift_right_words(left, one);
    }
    return result;
}

// The nearest number, of two as near the even one.
fn float_words(x: Words) -> f32 {
    let magnitude = magnitude_words(x);
    let zeros = select(countLeadingZeros(magnitude.y), 32u + countLeadingZeros(magnitude.x), magnitude.y == 0u);
    let digits = left_words(magnitude, min(zeros, 63u));
    let significand = digits.y >> 8u;
    let rest = Words(digits.x, digits.y & 0xffu);
    let half = Words(0u, 0x80u);
    let up = below_words(half, rest) || (all(rest == half) && (significand & 1u) == 1u);
    // A significand that is rounded to the next power of two adds one to the exponent.
    let bits = ((189u - zeros) << 23u) + significand + select(0u, 1u, up);
    return bitcast<f32>(select(bits, 0u, zeros > 63u) | (x.y & 0x80000000u));
}

// The whole part; the least integer where it fits none.
fn integer_words(x: f32) -> Words {
    let bits = bitcast<u32>(x);
    let shift = i32((bits >> 23u) & 0xffu) - 150;
    let significand = (bits & 0x7fffffu) | 0x800000u;
    let right = select(0u, significand >> u32(clamp(-shift, 0, 31)), shift > -24);
    let left = left_words(Words(significand, 0u), u32(clamp(shift, 0, 63)));
    let magnitude = select(left, Words(right, 0u), shift < 0);
    let value = select(magnitude, negate_words(magnitude), bits >= 0x80000000u);
    let fits = (bits & 0x7fffffffu) < 0x5f000000u;
    return select(Words(0u, 0x80000000u), value, fits);
}

// The nearest of the positions up to the last.
fn position_words(x: Words, last: i32) -> i32 {
    let nearest = select(min(x.x, u32(last)), u32(last), x.y != 0u);
    return i32(select(nearest, 0u, x.y >= 0x80000000u));
}

fn report_words(index: Words, extent: u32) {
    report(index.x, index.y, extent);
}
