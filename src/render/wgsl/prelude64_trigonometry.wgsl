// Sines and cosines of 64-bit floats, at any argument.

// Words of 1/(2 pi), after one word of zeros. One array for the kernel: drivers take time quadratic in
// the number of arrays that functions index.
var<private> long_turns: array<u64, 20> = array<u64, 20>(
    0lu, 0x28be60db9391054alu, 0x7f09d5f47d4d3770lu, 0x36d8a5664f10e410lu, 0x7f9458eaf7aef158lu,
    0x6dc91b8e909374b8lu, 0x01924bba82746487lu, 0x3f877ac72c4a69cflu, 0xba208d7d4baed121lu,
    0x3a671c09ad17df90lu, 0x4e64758e60d4ce7dlu, 0x272117e2ef7e4a0elu, 0xc7fe25fff7816603lu,
    0xfbcbc462d6829b47lu, 0xdb4d9fb3c9f2c26dlu, 0xd3d18fd9a797fa8blu, 0x5d49eeb1faf97c5elu,
    0xcf41ce7de294a4balu, 0x9afed7ec47e35742lu, 0x1580cc11bf1edaealu
);
fn long_turn(number: u32) -> u64 {
    return long_turns[number];
}

// The high 64 bits of a product.
fn high_product_u64(x: u64, y: u64) -> u64 {
    let low = (x & 0xfffffffflu) * (y & 0xfffffffflu);
    let middle = (x >> 32u) * (y & 0xfffffffflu) + (low >> 32u);
    let other = (x & 0xfffffffflu) * (y >> 32u) + (middle & 0xfffffffflu);
    return (x >> 32u) * (y >> 32u) + (middle >> 32u) + (other >> 32u);
}

// 128 bits of a fraction of a turn, the first 64 not all 0, in radians, and what those lack: the
// product with the first part of 2 pi is exact.
fn radians_f64(high: u64, low: u64) -> vec2<f64> {
    let upper = u32(high >> 32u);
    let zeros = select(63u - firstLeadingBit(u32(high) | 1u), 31u - firstLeadingBit(upper | 1u), upper != 0u);
    let first = (high << zeros) | ((low >> 1u) >> (63u - zeros));
    let a = f64(u32(first >> 38u)) * 1.4901161193847656e-8lf;
    let b = f64(u32(first >> 6u)) * 3.469446951953614e-18lf + f64(u32((low << zeros) >> 38u)) * 8.077935669463161e-28lf;
    let exact = opaque_f64(a * 6.283185243606567lf);
    let other = a * 6.357301909411278e-8lf + b * 6.283185307179586lf;
    let whole = opaque_f64(exact + other);
    let scale = bitcast<f64>(u64(1023u - zeros) << 52u);
    return vec2<f64>(whole, opaque_f64(exact - whole) + other) * scale;
}

// (r, its rest, q) with x = q pi/2 + r, far from 0: the significand times those bits of 1/(2 pi) that matter
// (Payne and Hanek 1983). For 2^10 <= x, finite.
fn quarter_far_f64(x: f64) -> vec3<f64> {
    let bits = bitcast<u64>(x);
    let start = u32(clamp(i32(u32(bits >> 52u)) - 1011, 0, 1035));
    let significand = (bits & 0xffffffffffffflu) | 0x10000000000000lu;
    let word = start >> 6u;
    let shift = start & 63u;
    let back = 63u - shift;
    let b = long_turn(word + 1u);
    let c = long_turn(word + 2u);
    let high = (long_turn(word) << shift) | ((b >> 1u) >> back);
    let middle = (b << shift) | ((c >> 1u) >> back);
    let low = (c << shift) | ((long_turn(word + 3u) >> 1u) >> back);
    // The lowest word of the product is dropped; whole turns overflow.
    let product = significand * middle;
    let second = product + high_product_u64(significand, low);
    let carry = select(0lu, 1lu, second < product);
    let turns = significand * high + high_product_u64(significand, middle) + carry;
    let quarter = (turns + 0x2000000000000000lu) >> 62u;
    let rest = turns - (quarter << 62u);
    let below = (rest >> 63u) != 0lu;
    let upper = select(rest, ~rest + select(0lu, 1lu, second == 0lu), below);
    let r = radians_f64(upper, select(second, ~second + 1lu, below));
    return vec3<f64>(select(r, -r, below), f64(u32(quarter)));
}

// (r, its rest, q) with x = q pi/2 + r, for x of at least 0: less the nearest multiple of pi/2, in
// three parts of 33 bits, where their products are exact.
fn quarter_f64(x: f64) -> vec3<f64> {
    let n = nearest_f64(min(x, 1048576.0lf) * 0.6366197723675814lf);
    let one = opaque_f64(x - n * 1.5707963267341256lf);
    let part = n * 6.077100506303966e-11lf;
    let two = opaque_f64(one - part);
    let last = n * 2.0222662487959506e-21lf - (opaque_f64(one - two) - part);
    let r = opaque_f64(two - last);
    if (x < 1048576.0lf) {
        return vec3<f64>(r, opaque_f64(two - r) - last, n);
    }
    return quarter_far_f64(x);
}

// The sine of r and its rest, so many quarters on, by series whose last terms are added apart: the
// roundings of the others weigh little.
fn sine_in_quarter_f64(r: f64, rest: f64, quarter: u32) -> f64 {
    let z = r * r;
    var sine = 1.0lf;
    var cosine = 1.0lf;
    for (var k = 9; k > 1; k -= 1) {
        sine = 1.0lf - sine * z / f64(2 * k * (2 * k + 1));
        cosine = 1.0lf - cosine * z / f64(2 * k * (2 * k - 1));
    }
    let half = 0.5lf * z;
    let one = opaque_f64(1.0lf - half);
    let lost = opaque_f64(1.0lf - one) - half;
    let near_one = one + (lost + (half * (1.0lf - cosine) - r * rest));
    let near_r = r + (rest * one - r * (sine * z / 6.0lf));
    let y = select(near_one, near_r, (quarter & 1u) == 0u);
    return bitcast<f64>(bitcast<u64>(y) ^ (u64(quarter & 2u) << 62u));
}

fn sin_f64(x: f64) -> f64 {
    let a = magnitude_f64(x);
    let parts = quarter_f64(a);
    let value = sine_in_quarter_f64(parts.x, parts.y, u32(parts.z));
    let signed = bitcast<u64>(value) ^ (bitcast<u64>(x) & 0x8000000000000000lu);
    let finite = bitcast<u64>(a) < 0x7ff0000000000000lu;
    return number_f64(select(0x7ff8000000000000lu, signed, finite));
}

fn cos_f64(x: f64) -> f64 {
    let a = magnitude_f64(x);
    let parts = quarter_f64(a);
    let value = sine_in_quarter_f64(parts.x, parts.y, u32(parts.z) + 1u);
    let finite = bitcast<u64>(a) < 0x7ff0000000000000lu;
    return number_f64(select(0x7ff8000000000000lu, bitcast<u64>(value), finite));
}
