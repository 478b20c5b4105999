// Functions that kernels call. A shader takes along those it needs, after the
// declaration of `uniforms`. `uniforms[0].x` is 0, which no compiler knows.

// A constant that compilers do not fold.
fn number_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits ^ uniforms[0].x);
}

// The same number; compilers see no relation.
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ uniforms[0].x);
}

fn nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn truth_f32(x: bool) -> f32 {
    return bitcast<f32>(select(0u, 0x3f800000u, x) ^ uniforms[0].x);
}

fn add_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x + y);
}

fn negate_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ (0x80000000u ^ uniforms[0].x));
}

fn subtract_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x + negate_f32(y));
}

fn multiply_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x * y);
}

fn divide_f32(x: f32, y: f32) -> f32 {
    return opaque_f32(x / y);
}

fn reciprocal_f32(x: f32) -> f32 {
    return opaque_f32(number_f32(0x3f800000u) / x);
}

fn root_f32(x: f32) -> f32 {
    return opaque_f32(sqrt(x));
}

fn magnitude_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu);
}

fn floor_f32(x: f32) -> f32 {
    return opaque_f32(floor(x));
}

fn trunc_f32(x: f32) -> f32 {
    return opaque_f32(trunc(x));
}

fn round_f32(x: f32) -> f32 {
    return opaque_f32(round(x));
}

// An integer ordered as the numbers are, both zeros 0; NaN is beyond infinity.
fn ordinal_f32(x: f32) -> i32 {
    let bits = bitcast<i32>(x);
    return select(bits, bitcast<i32>(0x80000000u) - bits, bits < 0);
}

fn less_f32(x: f32, y: f32) -> bool {
    let a = ordinal_f32(x);
    let b = ordinal_f32(y);
    return a < b && a >= -0x7f800000 && b <= 0x7f800000;
}

fn equal_f32(x: f32, y: f32) -> bool {
    return ordinal_f32(x) == ordinal_f32(y) && !nan_f32(x);
}

// An integer ordered as the numbers are, -0 below +0, NaN above all.
fn rank_max_f32(x: f32) -> i32 {
    let bits = select(bitcast<i32>(x), 0x7fc00000, nan_f32(x));
    return bits ^ ((bits >> 31u) & 0x7fffffff);
}

// As `rank_max_f32`, but NaN below all.
fn rank_min_f32(x: f32) -> i32 {
    let bits = select(bitcast<i32>(x), bitcast<i32>(0xffc00000u), nan_f32(x));
    return bits ^ ((bits >> 31u) & 0x7fffffff);
}

// The number of a rank.
fn unrank_f32(rank: i32) -> f32 {
    return bitcast<f32>(rank ^ ((rank >> 31u) & 0x7fffffff));
}

fn rank_argmax_f32(x: f32) -> i32 {
    return select(ordinal_f32(x), 0x7fffffff, nan_f32(x));
}

fn rank_argmin_f32(x: f32) -> i32 {
    return select(ordinal_f32(x), bitcast<i32>(0x80000000u), nan_f32(x));
}

fn maximum_f32(x: f32, y: f32) -> f32 {
    return unrank_f32(max(rank_max_f32(x), rank_max_f32(y)));
}

fn minimum_f32(x: f32, y: f32) -> f32 {
    return unrank_f32(min(rank_min_f32(x), rank_min_f32(y)));
}

// The remainder of long division of the significands: exact.
fn remainder_f32(x: f32, y: f32) -> f32 {
    let a = bitcast<u32>(x) & 0x7fffffffu;
    let b = bitcast<u32>(y) & 0x7fffffffu;
    if (a >= 0x7f800000u || b > 0x7f800000u || b == 0u) {
        return bitcast<f32>(0x7fc00000u ^ uniforms[0].x);
    }
    if (a < b) {
        return x;
    }
    var exponent = max(a >> 23u, 1u);
    let last = max(b >> 23u, 1u);
    var rest = (a & 0x7fffffu) | select(0u, 0x800000u, a >= 0x800000u);
    let divisor = (b & 0x7fffffu) | select(0u, 0x800000u, b >= 0x800000u);
    while (exponent > last) {
        if (rest >= divisor) {
            rest -= divisor;
        }
        rest <<= 1u;
        exponent -= 1u;
    }
    if (rest >= divisor) {
        rest -= divisor;
    }
    // The rest has its leading bit at the place of the exponent again.
    let shift = min(countLeadingZeros(rest | 1u) - 8u, last - 1u);
    let significand = rest << shift;
    let normal = ((last - shift) << 23u) | (significand & 0x7fffffu);
    let bits = select(select(significand, normal, significand >= 0x800000u), 0u, rest == 0u);
    return bitcast<f32>(bits | (bitcast<u32>(x) & 0x80000000u));
}

fn scale_f32(x: f32, n: i32) -> f32 {
    let half = n >> 1u;
    let other = n - half;
    return x * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(other + 127) << 23u);
}

// e^r - 1, where c = n ln 2 + r: (e^r - 1 - r) / r^2 on +-0.3467.
fn rest_expm1_f32(c: f32, n: f32) -> f32 {
    let r = opaque_f32(c - n * 0.693359375) - n * -2.12194440e-4;
    let p = (((0.0013898227 * r + 0.008366046) * r + 0.041666854) * r + 0.16666548) * r + 0.5;
    return p * (r * r) + r;
}

fn exp_f32(x: f32) -> f32 {
    let c = min(max(x, -104.0), 89.0);
    let n = round(c * 1.4426950);
    let y = 1.0 + rest_expm1_f32(c, n);
    let value = opaque_f32(select(scale_f32(y, i32(n)), 0.0, c < -103.98));
    return select(value, x, nan_f32(x));
}

// (2^r - 1) / r on +-0.5.
fn exp2_f32(x: f32) -> f32 {
    let c = min(max(x, -151.0), 129.0);
    let n = round(c);
    let r = c - n;
    let p = ((((1.535334e-4 * r + 0.0013398901) * r + 0.009618438) * r + 0.055503324) * r + 0.24022648) * r + 0.6931472;
    let value = opaque_f32(scale_f32(1.0 + p * r, i32(n)));
    return select(value, x, nan_f32(x));
}

// Exponent, f and ln(1 + f) - f, where x = 2^exponent (1 + f).
fn log_parts_f32(x: f32) -> vec3<f32> {
    let tiny = bitcast<u32>(x) < 0x800000u;
    let bits = bitcast<i32>(select(x, x * 33554432.0, tiny));
    let exponent = (bits - 0x3f3504f3) >> 23u;
    let f = bitcast<f32>(bits - (exponent << 23u)) - 1.0;
    let p = (((((((0.06746647 * f - 0.11675654) * f + 0.118881606) * f - 0.124055885) * f + 0.14219552) * f - 0.16667996) * f + 0.20002119) * f - 0.2500001) * f + 0.33333313;
    let z = f * f;
    return vec3<f32>(f32(exponent) - select(0.0, 25.0, tiny), f, (p * f) * z - 0.5 * z);
}

// `y`, but the logarithm's value where x is not positive and finite.
fn log_edges_f32(x: f32, y: f32) -> f32 {
    let bits = bitcast<i32>(x);
    var value = bitcast<u32>(y);
    if (bits >= 0x7f800000) {
        value = u32(bits);
    }
    if (bits < 0) {
        value = 0x7fc00000u;
    }
    if ((bits & 0x7fffffff) == 0) {
        value = 0xff800000u;
    }
    return bitcast<f32>(value ^ uniforms[0].x);
}

fn log_f32(x: f32) -> f32 {
    let parts = log_parts_f32(x);
    let low = opaque_f32(parts.x * -2.12194440e-4 + parts.z) + parts.y;
    return log_edges_f32(x, parts.x * 0.693359375 + opaque_f32(low));
}

fn log2_f32(x: f32) -> f32 {
    let parts = log_parts_f32(x);
    let small = opaque_f32(parts.y * 0.44269504 + parts.z * 0.44269504) + parts.z;
    return log_edges_f32(x, parts.x + opaque_f32(parts.y + opaque_f32(small)));
}

// A number that is not negative, with the sign of another. Not chosen bit by bit: for processors with
// AVX-512, LLVM 15 keeps the wrong bits beside a minimum and a product.
fn with_sign_f32(x: f32, sign: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ (bitcast<u32>(sign) & 0x80000000u));
}

// m / (m + 2), where m = e^2|x| - 1 is 2^n (e^r - 1) + (2^n - 1).
fn tanh_f32(x: f32) -> f32 {
    let c = 2.0 * min(magnitude_f32(x), 10.0);
    let n = round(c * 1.4426950);
    let power = bitcast<f32>(u32(i32(n) + 127) << 23u);
    let m = rest_expm1_f32(c, n) * power + opaque_f32(power - 1.0);
    return select(with_sign_f32(m / (m + 2.0), x), x, nan_f32(x));
}

// erf x / x - 1 in x^2 below 0.92; above 1 - erfc, whose logarithm is a polynomial.
fn erf_f32(x: f32) -> f32 {
    let a = magnitude_f32(x);
    let z = a * a;
    let p = ((((-5.976588e-4 * z + 0.0049904124) * z - 0.026764754) * z + 0.11281766) * z - 0.3761249) * z + 0.12837915;
    let near = p * a + a;
    let b = min(a, 3.95);
    let q = (((((1.9593717e-4 * b - 0.003043217) * b + 0.022226919) * b - 0.10393159) * b - 0.63718224) * b - 1.1276757) * b - 1.9567568e-4;
    let value = with_sign_f32(select(1.0 - exp_f32(q), near, a < 0.92), x);
    return select(value, x, nan_f32(x));
}

// The high 32 bits of a product.
fn high_product(x: u32, y: u32) -> u32 {
    let low = (x & 0xffffu) * (y & 0xffffu);
    let middle = (x >> 16u) * (y & 0xffffu) + (low >> 16u);
    let other = (x & 0xffffu) * (y >> 16u) + (middle & 0xffffu);
    return (x >> 16u) * (y >> 16u) + (middle >> 16u) + (other >> 16u);
}

// Four of the words of 1/(2 pi), which follow one word of zeros, from the `first` on (at most 4). By
// selects: drivers take time quadratic in the number of arrays that a kernel indexes.
fn turn_words(first: u32) -> vec4<u32> {
    let by_two = (first & 2u) != 0u;
    let near = vec4<u32>(0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u);
    let far = vec4<u32>(0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0u);
    let four = select(near, vec4<u32>(near.zw, far.xy), by_two);
    let fifth = select(far.x, far.z, by_two);
    let words = select(four, vec4<u32>(four.yzw, fifth), (first & 1u) != 0u);
    return select(words, far, (first & 4u) != 0u);
}

// The fraction of turns in x, and the quarter it lies nearest to: by
// multiplying the significand with the bits of 1/(2 pi) that matter (Payne
// and Hanek 1983). For 2^-9 <= |x|, finite.
fn quarter_far_f32(x: f32) -> vec2<f32> {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    let start = clamp(i32(bits >> 23u) - 118, 0, 138);
    let significand = (bits & 0x7fffffu) | 0x800000u;
    let words = turn_words(u32(start) >> 5u);
    let shift = u32(start) & 31u;
    let back = 31u - shift;
    let high = (words.x << shift) | ((words.y >> 1u) >> back);
    let middle = (words.y << shift) | ((words.z >> 1u) >> back);
    let low = (words.z << shift) | ((words.w >> 1u) >> back);
    // The lowest word of the product is dropped; whole turns overflow.
    let carried = high_product(significand, low);
    let second = significand * middle;
    let sum = second + carried;
    let carry = select(0u, 1u, sum < second);
    let turns = significand * high + high_product(significand, middle) + carry;
    let quarter = (turns + 0x20000000u) >> 30u;
    let rest = bitcast<i32>(turns - (quarter << 30u));
    let r = (f32(rest) * 2.3283064e-10 + f32(sum) * 5.421011e-20) * 6.2831855;
    return vec2<f32>(r, f32(quarter));
}

// (r, q) with |x| = q pi/2 + r.
fn quarter_f32(x: f32) -> vec2<f32> {
    let a = magnitude_f32(x);
    let n = round(min(a, 256.0) * 0.63661977);
    // pi/2 in parts of few bits, so that products with n are exact.
    let one = opaque_f32(a - n * 1.5703125);
    let two = opaque_f32(one - n * 4.837512969970703e-4);
    let near = vec2<f32>(opaque_f32(two - n * 7.549789954891882e-8), n);
    if (a < 200.0) {
        return near;
    }
    return quarter_far_f32(a);
}

fn sine_in_quarter_f32(r: f32, quarter: u32) -> f32 {
    let z = r * r;
    let s = (-1.951697e-4 * z + 0.008332176) * z - 0.16666655;
    let sine = s * z * r + r;
    let c = (2.443278e-5 * z - 0.0013887313) * z + 0.041666646;
    let cosine = c * (z * z) + (1.0 - 0.5 * z);
    let y = select(cosine, sine, (quarter & 1u) == 0u);
    return bitcast<f32>(bitcast<u32>(y) ^ ((quarter & 2u) << 30u));
}

fn sin_f32(x: f32) -> f32 {
    let parts = quarter_f32(x);
    let value = sine_in_quarter_f32(parts.x, u32(parts.y));
    let signed = bitcast<u32>(value) ^ (bitcast<u32>(x) & 0x80000000u);
    let finite = (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u;
    return bitcast<f32>(select(0x7fc00000u, signed, finite) ^ uniforms[0].x);
}

fn cos_f32(x: f32) -> f32 {
    let parts = quarter_f32(x);
    let value = bitcast<u32>(sine_in_quarter_f32(parts.x, u32(parts.y) + 1u));
    let finite = (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u;
    return bitcast<f32>(select(0x7fc00000u, value, finite) ^ uniforms[0].x);
}

// A product as the rounded one and what it lacks (Dekker 1971).
fn two_product_f32(x: f32, y: f32) -> vec2<f32> {
    let p = opaque_f32(x * y);
    let a = bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
    let b = bitcast<f32>(bitcast<u32>(y) & 0xfffff000u);
    let c = opaque_f32(x - a);
    let d = opaque_f32(y - b);
    let first = opaque_f32(opaque_f32(a * b) - p);
    let e = opaque_f32(opaque_f32(first + opaque_f32(a * d)) + opaque_f32(c * b)) + c * d;
    return vec2<f32>(p, opaque_f32(e));
}

// A sum as the rounded one and what it lacks (Knuth's two-sum).
fn two_sum_f32(x: f32, y: f32) -> vec2<f32> {
    let s = opaque_f32(x + y);
    let other = opaque_f32(s - x);
    let own = opaque_f32(s - other);
    return vec2<f32>(s, opaque_f32(opaque_f32(x - own) + opaque_f32(y - other)));
}

// log2 of a positive finite number, as the sum of two.
fn log2_pair_f32(x: f32) -> vec2<f32> {
    // A number below 2^-126 is its bits times 2^-149: multiplied it might be 0.
    let own = bitcast<i32>(x);
    let tiny = own < 0x800000;
    let bits = bitcast<i32>(select(x, f32(own), tiny));
    let exponent = (bits - 0x3f3504f3) >> 23u;
    let m = bitcast<f32>(bits - (exponent << 23u));
    // s = (m - 1) / (m + 1) as a pair; ln m = 2 (s + s^3/3 + s^5/5 + ...).
    let below = opaque_f32(m - 1.0);
    let above = two_sum_f32(m, 1.0);
    let s = opaque_f32(below / above.x);
    let back = two_product_f32(s, above.x);
    let gap = opaque_f32(opaque_f32(below - back.x) - back.y) - s * above.y;
    let t = opaque_f32(gap / above.x);
    let z = s * s;
    let tail = z * s * (0.33333334 + z * (0.2 + z * (0.14285715 + z * 0.11111111)));
    // 2 / ln 2 as a pair.
    let lead = two_product_f32(s, 2.8853900);
    let low = lead.y + s * 3.851926e-8 + opaque_f32(t + tail) * 2.8853900;
    let whole = f32(exponent) - select(0.0, 149.0, tiny);
    let first = two_sum_f32(whole, lead.x);
    let second = two_sum_f32(first.x, opaque_f32(low));
    return vec2<f32>(second.x, opaque_f32(second.y + first.y));
}

fn power_f32(x: f32, y: f32) -> f32 {
    let one = 0x3f800000u;
    let xs = bitcast<u32>(x);
    let ys = bitcast<u32>(y);
    let a = xs & 0x7fffffffu;
    let b = ys & 0x7fffffffu;
    if (b == 0u || xs == one) {
        return number_f32(one);
    }
    if (a > 0x7f800000u || b > 0x7f800000u) {
        return number_f32(0x7fc00000u);
    }
    let up = ys < 0x80000000u;
    if (b == 0x7f800000u) {
        let grows = (a > one) == up;
        return number_f32(select(select(0u, 0x7f800000u, grows), one, a == one));
    }
    // From 2^24 on all numbers are even.
    let whole = b >= 0x4b800000u || floor(y) == y;
    let odd = b < 0x4b800000u && whole && (i32(magnitude_f32(y)) & 1) == 1;
    let sign = select(0u, 0x80000000u, odd) & xs;
    if (a == 0u || a == 0x7f800000u) {
        let large = (a != 0u) == up;
        return number_f32(select(0u, 0x7f800000u, large) | sign);
    }
    if (xs >= 0x80000000u && !whole) {
        return number_f32(0x7fc00000u);
    }
    let l = log2_pair_f32(bitcast<f32>(a));
    let c = clamp(y, -1.0e38, 1.0e38);
    let p = two_product_f32(c, l.x);
    if (magnitude_f32(p.x) > 200.0 || nan_f32(p.x) || nan_f32(p.y)) {
        let large = (a > one) == up;
        return number_f32(select(0u, 0x7f800000u, large) | sign);
    }
    let low = p.y + c * l.y;
    let n = round(p.x);
    let r = opaque_f32(opaque_f32(p.x - n) + low);
    let q = ((((1.535334e-4 * r + 0.0013398901) * r + 0.009618438) * r + 0.055503324) * r + 0.24022648) * r + 0.6931472;
    let value = bitcast<u32>(opaque_f32(scale_f32(1.0 + q * r, i32(clamp(n, -160.0, 160.0)))));
    return number_f32(value | sign);
}

// The factor by which a sum of exponentials relative to x counts relative to
// the maximum.
fn weight_f32(x: f32, maximum: f32) -> f32 {
    return select(exp_f32(subtract_f32(x, maximum)), number_f32(0x3f800000u), equal_f32(x, maximum));
}

fn finish_logsumexp_f32(maximum: f32, sum: f32) -> f32 {
    let infinite = (bitcast<u32>(maximum) & 0x7fffffffu) == 0x7f800000u;
    return select(add_f32(maximum, log_f32(sum)), maximum, infinite);
}

// Moments of two parts from those of each: count, mean, sum of squared
// deviations (Chan, Golub and LeVeque 1983).
fn merged_mean_f32(n: f32, mean: f32, squares: f32, m: f32, other: f32, others: f32) -> f32 {
    let gap = subtract_f32(other, mean);
    let both = select(add_f32(mean, multiply_f32(gap, divide_f32(m, n + m))), other, n == 0.0);
    return select(both, mean, m == 0.0);
}

fn merged_squares_f32(n: f32, mean: f32, squares: f32, m: f32, other: f32, others: f32) -> f32 {
    let gap = subtract_f32(other, mean);
    let between = multiply_f32(multiply_f32(gap, gap), divide_f32(multiply_f32(n, m), n + m));
    let both = select(add_f32(add_f32(squares, others), between), others, n == 0.0);
    return select(both, squares, m == 0.0);
}

// The low 32 bits of the whole part as a 64-bit integer; 0 where it fits none.
fn whole_f32(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let shift = i32((bits >> 23u) & 0xffu) - 150;
    let significand = (bits & 0x7fffffu) | 0x800000u;
    let right = select(0u, significand >> u32(clamp(-shift, 0, 31)), shift > -24);
    let left = select(0u, significand << u32(clamp(shift, 0, 31)), shift < 32);
    let magnitude = select(left, right, shift < 0);
    return select(magnitude, 0u - magnitude, bits >= 0x80000000u);
}

// The whole part; the least integer where it fits none.
fn integer_f32(x: f32) -> i32 {
    let fits = (bitcast<u32>(x) & 0x7fffffffu) < 0x4f000000u;
    return bitcast<i32>(select(0x80000000u, whole_f32(x), fits));
}

fn widen_f16(half: u32) -> f32 {
    let magnitude = half & 0x7fffu;
    let normal = (magnitude << 13u) + select(0x38000000u, 0x70000000u, magnitude >= 0x7c00u);
    let small = bitcast<u32>(f32(magnitude) * 5.9604645e-8);
    let bits = select(normal, small, magnitude < 0x400u);
    return bitcast<f32>(bits | ((half & 0x8000u) << 16u));
}

fn narrow_f16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    let normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13u) & 1u)) >> 13u;
    let shift = clamp(126u - (magnitude >> 23u), 1u, 31u);
    let significand = (magnitude & 0x7fffffu) | 0x800000u;
    let nearest = (significand + (1u << (shift - 1u)) - 1u + ((significand >> shift) & 1u)) >> shift;
    let small = select(nearest, 0u, magnitude < 0x33000000u);
    var half = select(normal, small, magnitude < 0x38800000u);
    half = select(half, 0x7c00u, magnitude >= 0x47800000u);
    half = select(half, 0x7e00u, magnitude > 0x7f800000u);
    return half | ((bits >> 16u) & 0x8000u);
}

fn round_f16(x: f32) -> f32 {
    return widen_f16(narrow_f16(x));
}

fn widen_bf16(half: u32) -> f32 {
    return bitcast<f32>(half << 16u);
}

fn narrow_bf16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
    return select(rounded, (bits >> 16u) | 0x40u, (bits & 0x7fffffffu) > 0x7f800000u);
}

fn round_bf16(x: f32) -> f32 {
    return widen_bf16(narrow_bf16(x));
}

fn quotient_u32(x: u32, y: u32) -> u32 {
    return select(x / select(y, 1u, y == 0u), 0u, y == 0u);
}

fn remainder_u32(x: u32, y: u32) -> u32 {
    return select(x % select(y, 1u, y == 0u), 0u, y == 0u);
}

fn power_u32(x: u32, y: u32) -> u32 {
    var result = 1u;
    var square = x;
    var left = y;
    while (left != 0u) {
        result = select(result, result * square, (left & 1u) == 1u);
        square = square * square;
        left = left >> 1u;
    }
    return result;
}

fn shift_left_u32(x: u32, y: u32) -> u32 {
    return select(x << (y & 31u), 0u, y > 31u);
}

fn shift_right_u32(x: u32, y: u32) -> u32 {
    return select(x >> (y & 31u), 0u, y > 31u);
}

// By -1 it is a negation, since the smallest number over -1 traps.
fn quotient_i32(x: i32, y: i32) -> i32 {
    let safe = select(y, 1, y == 0 || y == -1);
    return select(select(x / safe, 0 - x, y == -1), 0, y == 0);
}

fn remainder_i32(x: i32, y: i32) -> i32 {
    let safe = select(y, 1, y == 0 || y == -1);
    return x - (x / safe) * safe;
}

fn power_i32(x: i32, y: i32) -> i32 {
    if (y < 0) {
        let sign = select(1, -1, (y & 1) == 1);
        return select(select(0, sign, x == -1), 1, x == 1);
    }
    return bitcast<i32>(power_u32(bitcast<u32>(x), bitcast<u32>(y)));
}

fn shift_left_i32(x: i32, y: i32) -> i32 {
    return select(x << (u32(y) & 31u), 0, u32(y) > 31u);
}

fn shift_right_i32(x: i32, y: i32) -> i32 {
    return x >> min(u32(y), 31u);
}

// Keeps the launch's first index out of range and the axis's extent, in the
// launch's own words.
fn report(low: u32, high: u32, extent: u32) {
    let own = uniforms[0].y * 4u;
    if (atomicOr(&status[own], 1u) == 0u) {
        atomicStore(&status[own + 1u], low);
        atomicStore(&status[own + 2u], high);
        atomicStore(&status[own + 3u], extent);
    }
}

fn report_i32(index: i32, extent: u32) {
    report(bitcast<u32>(index), bitcast<u32>(index >> 31u), extent);
}
