// Functions on 64-bit types, for adapters that have them.

fn wide_u64(low: u32, high: u32) -> u64 {
    return (u64(high) << 32u) | u64(low);
}

fn wide_i64(low: u32, high: u32) -> i64 {
    return bitcast<i64>(wide_u64(low, high));
}

// Four words of memory that lies in long ones, and the other way round.
fn words_of(x: vec2<u64>) -> vec4<u32> {
    return vec4<u32>(u32(x.x), u32(x.x >> 32u), u32(x.y), u32(x.y >> 32u));
}

fn long_words(x: vec4<u32>) -> vec2<u64> {
    return vec2<u64>(wide_u64(x.x, x.y), wide_u64(x.z, x.w));
}

fn report_i64(index: i64, extent: u32) {
    let bits = bitcast<u64>(index);
    report(u32(bits & 0xfffffffflu), u32(bits >> 32u), extent);
}

// The whole part; the least integer where it fits none.
fn integer64_f32(x: f32) -> i64 {
    let bits = bitcast<u32>(x);
    let shift = i32((bits >> 23u) & 0xffu) - 150;
    let significand = u64((bits & 0x7fffffu) | 0x800000u);
    let right = select(0lu, significand >> u32(clamp(-shift, 0, 63)), shift > -24);
    let left = significand << u32(clamp(shift, 0, 63));
    let magnitude = bitcast<i64>(select(left, right, shift < 0));
    let value = select(magnitude, 0li - magnitude, bits >= 0x80000000u);
    let fits = (bits & 0x7fffffffu) < 0x5f000000u;
    return select(bitcast<i64>(0x8000000000000000lu), value, fits);
}

fn quotient_i64(x: i64, y: i64) -> i64 {
    let safe = select(y, 1li, bitcast<u64>(y + 1li) < 2lu);
    return select(select(x / safe, 0li - x, y == -1li), 0li, y == 0li);
}

fn remainder_i64(x: i64, y: i64) -> i64 {
    let safe = select(y, 1li, bitcast<u64>(y + 1li) < 2lu);
    return x - (x / safe) * safe;
}

fn power_i64(x: i64, y: i64) -> i64 {
    if (y < 0li) {
        let sign = select(1li, -1li, (y & 1li) == 1li);
        return select(select(0li, sign, x == -1li), 1li, x == 1li);
    }
    var result = 1li;
    var square = x;
    var left = y;
    while (left != 0li) {
        result = select(result, result * square, (left & 1li) == 1li);
        square = square * square;
        left = left >> 1u;
    }
    return result;
}

// Not as two comparisons: lavapipe 22.3 compiles those of a widened number wrongly.
fn shift_left_i64(x: i64, y: i64) -> i64 {
    return select(x << u32(y & 63li), 0li, bitcast<u64>(y) > 63lu);
}

fn shift_right_i64(x: i64, y: i64) -> i64 {
    return x >> select(u32(y & 63li), 63u, bitcast<u64>(y) > 63lu);
}

fn number_f64(bits: u64) -> f64 {
    return bitcast<f64>(bits ^ u64(uniforms[0].x));
}

fn opaque_f64(x: f64) -> f64 {
    return bitcast<f64>(bitcast<u64>(x) ^ u64(uniforms[0].x));
}

fn nan_f64(x: f64) -> bool {
    return (bitcast<u64>(x) & 0x7ffffffffffffffflu) > 0x7ff0000000000000lu;
}

fn truth_f64(x: bool) -> f64 {
    return number_f64(select(0lu, 0x3ff0000000000000lu, x));
}

fn widen_f64(x: f32) -> f64 {
    return opaque_f64(f64(x));
}

fn add_f64(x: f64, y: f64) -> f64 {
    return opaque_f64(x + y);
}

fn negate_f64(x: f64) -> f64 {
    return number_f64(bitcast<u64>(x) ^ 0x8000000000000000lu);
}

fn subtract_f64(x: f64, y: f64) -> f64 {
    return opaque_f64(x + negate_f64(y));
}

fn multiply_f64(x: f64, y: f64) -> f64 {
    return opaque_f64(x * y);
}

fn divide_f64(x: f64, y: f64) -> f64 {
    return opaque_f64(x / y);
}

fn reciprocal_f64(x: f64) -> f64 {
    return opaque_f64(number_f64(0x3ff0000000000000lu) / x);
}

fn root_f64(x: f64) -> f64 {
    return opaque_f64(sqrt(x));
}

fn magnitude_f64(x: f64) -> f64 {
    return bitcast<f64>(bitcast<u64>(x) & 0x7ffffffffffffffflu);
}

// Clears the bits below the point.
fn trunc_f64(x: f64) -> f64 {
    let bits = bitcast<u64>(x);
    let exponent = i32(u32((bits >> 52u) & 0x7fflu)) - 1023;
    let low = (1lu << u32(clamp(52 - exponent, 0, 63))) - 1lu;
    return number_f64(select(bits & ~low, bits & 0x8000000000000000lu, exponent < 0));
}

// Halves to the even number.
fn round_f64(x: f64) -> f64 {
    let t = trunc_f64(x);
    let rest = magnitude_f64(subtract_f64(x, t));
    let odd = !equal_f64(trunc_f64(multiply_f64(t, 0.5lf)), multiply_f64(t, 0.5lf));
    let away = less_f64(0.5lf, rest) || (odd && equal_f64(rest, 0.5lf));
    let one = bitcast<f64>(0x3ff0000000000000lu | (bitcast<u64>(x) & 0x8000000000000000lu));
    return select(t, add_f64(t, one), away);
}

fn floor_f64(x: f64) -> f64 {
    let t = trunc_f64(x);
    return select(t, subtract_f64(t, 1.0lf), less_f64(x, t));
}

// The whole part; the least integer where it fits none.
fn integer64_f64(x: f64) -> i64 {
    let bits = bitcast<u64>(x);
    let shift = i32(u32((bits >> 52u) & 0x7fflu)) - 1075;
    let significand = (bits & 0xffffffffffffflu) | 0x10000000000000lu;
    let right = select(0lu, significand >> u32(clamp(-shift, 0, 63)), shift > -53);
    let left = significand << u32(clamp(shift, 0, 63));
    let magnitude = bitcast<i64>(select(left, right, shift < 0));
    let value = select(magnitude, 0li - magnitude, (bits >> 63u) != 0lu);
    let fits = (bits & 0x7ffffffffffffffflu) < 0x43e0000000000000lu;
    return select(bitcast<i64>(0x8000000000000000lu), value, fits);
}

fn integer_f64(x: f64) -> i32 {
    let whole = integer64_f64(x);
    let narrow = i32(whole);
    return select(bitcast<i32>(0x80000000u), narrow, i64(narrow) == whole);
}

fn ordinal_f64(x: f64) -> i64 {
    let bits = bitcast<i64>(x);
    return select(bits, bitcast<i64>(0x8000000000000000lu) - bits, bits < 0li);
}

fn less_f64(x: f64, y: f64) -> bool {
    let a = ordinal_f64(x);
    let b = ordinal_f64(y);
    return a < b && a >= -0x7ff0000000000000li && b <= 0x7ff0000000000000li;
}

fn equal_f64(x: f64, y: f64) -> bool {
    return ordinal_f64(x) == ordinal_f64(y) && !nan_f64(x);
}

fn rank_max_f64(x: f64) -> i64 {
    let bits = select(bitcast<i64>(x), 0x7ff8000000000000li, nan_f64(x));
    return bits ^ ((bits >> 63u) & 0x7fffffffffffffffli);
}

fn rank_min_f64(x: f64) -> i64 {
    let bits = select(bitcast<i64>(x), bitcast<i64>(0xfff8000000000000lu), nan_f64(x));
    return bits ^ ((bits >> 63u) & 0x7fffffffffffffffli);
}

fn unrank_f64(rank: i64) -> f64 {
    return bitcast<f64>(rank ^ ((rank >> 63u) & 0x7fffffffffffffffli));
}

fn rank_argmax_f64(x: f64) -> i64 {
    return select(ordinal_f64(x), 0x7fffffffffffffffli, nan_f64(x));
}

fn rank_argmin_f64(x: f64) -> i64 {
    return select(ordinal_f64(x), bitcast<i64>(0x8000000000000000lu), nan_f64(x));
}

fn maximum_f64(x: f64, y: f64) -> f64 {
    return unrank_f64(max(rank_max_f64(x), rank_max_f64(y)));
}

fn minimum_f64(x: f64, y: f64) -> f64 {
    return unrank_f64(min(rank_min_f64(x), rank_min_f64(y)));
}

// The remainder of long division of the significands: exact.
fn remainder_f64(x: f64, y: f64) -> f64 {
    let a = bitcast<u64>(x) & 0x7ffffffffffffffflu;
    let b = bitcast<u64>(y) & 0x7ffffffffffffffflu;
    if (a >= 0x7ff0000000000000lu || b > 0x7ff0000000000000lu || b == 0lu) {
        return number_f64(0x7ff8000000000000lu);
    }
    if (a < b) {
        return x;
    }
    let hidden = 0x10000000000000lu;
    var exponent = max(u32(a >> 52u), 1u);
    let last = max(u32(b >> 52u), 1u);
    var rest = (a & 0xffffffffffffflu) | select(0lu, hidden, a >= hidden);
    let divisor = (b & 0xffffffffffffflu) | select(0lu, hidden, b >= hidden);
    while (exponent > last) {
        if (rest >= divisor) {
            rest -= divisor;
        }
        rest = rest << 1u;
        exponent -= 1u;
    }
    if (rest >= divisor) {
        rest -= divisor;
    }
    var at = last;
    while (rest != 0lu && rest < hidden && at > 1u) {
        rest = rest << 1u;
        at -= 1u;
    }
    let normal = (u64(at) << 52u) | (rest & 0xffffffffffffflu);
    let bits = select(rest, normal, rest >= hidden);
    return number_f64(bits | (bitcast<u64>(x) & 0x8000000000000000lu));
}

fn scale_f64(x: f64, n: i32) -> f64 {
    let half = n >> 1u;
    let other = n - half;
    return x * bitcast<f64>(u64(u32(half + 1023)) << 52u) * bitcast<f64>(u64(u32(other + 1023)) << 52u);
}

fn nearest_f64(x: f64) -> f64 {
    return floor_f64(x + 0.5lf);
}

// e^r for |r| <= 0.35, by its series.
fn exp_series_f64(r: f64) -> f64 {
    var sum = 1.0lf;
    for (var k = 16; k > 0; k -= 1) {
        sum = 1.0lf + sum * r / f64(k);
    }
    return sum;
}

fn exp_f64(x: f64) -> f64 {
    let c = select(select(x, -750.0lf, less_f64(x, -750.0lf)), 720.0lf, less_f64(720.0lf, x));
    let safe = select(c, 0.0lf, nan_f64(x));
    let n = nearest_f64(safe * 1.4426950408889634lf);
    // ln 2 in two parts, the first of 33 bits.
    let r = opaque_f64(safe - n * 0.6931471803691238lf) - n * 1.9082149292705877e-10lf;
    let value = opaque_f64(scale_f64(exp_series_f64(r), i32(integer64_f64(n))));
    return select(value, x, nan_f64(x));
}

fn exp2_f64(x: f64) -> f64 {
    let c = select(select(x, -1080.0lf, less_f64(x, -1080.0lf)), 1030.0lf, less_f64(1030.0lf, x));
    let safe = select(c, 0.0lf, nan_f64(x));
    let n = nearest_f64(safe);
    let r = (safe - n) * 0.6931471805599453lf;
    let value = opaque_f64(scale_f64(exp_series_f64(r), i32(integer64_f64(n))));
    return select(value, x, nan_f64(x));
}

fn exponent_f64(x: f64) -> i32 {
    let tiny = bitcast<u64>(x) < 0x10000000000000lu;
    let bits = bitcast<i64>(select(x, x * 18014398509481984.0lf, tiny));
    return i32((bits - 0x3fe6a09e667f3bcdli) >> 52u) - select(0, 54, tiny);
}

// The significand in sqrt(1/2)..sqrt(2).
fn significand_f64(x: f64) -> f64 {
    let tiny = bitcast<u64>(x) < 0x10000000000000lu;
    let bits = bitcast<i64>(select(x, x * 18014398509481984.0lf, tiny));
    let exponent = (bits - 0x3fe6a09e667f3bcdli) >> 52u;
    return bitcast<f64>(bits - (exponent << 52u));
}

// ln m = 2 artanh((m - 1) / (m + 1)), by its series.
fn log_series_f64(m: f64) -> f64 {
    let s = (m - 1.0lf) / (m + 1.0lf);
    let z = s * s;
    var sum = 0.0lf;
    for (var k = 23; k > 1; k -= 2) {
        sum = z * (sum + 1.0lf / f64(k));
    }
    return 2.0lf * (s + s * sum);
}

fn log_edges_f64(x: f64, y: f64) -> f64 {
    let bits = bitcast<i64>(x);
    var value = bitcast<u64>(y);
    if (bits >= 0x7ff0000000000000li) {
        value = bitcast<u64>(bits);
    }
    if (bits < 0li) {
        value = 0x7ff8000000000000lu;
    }
    if ((bits & 0x7fffffffffffffffli) == 0li) {
        value = 0xfff0000000000000lu;
    }
    return number_f64(value);
}

fn log_f64(x: f64) -> f64 {
    let e = f64(exponent_f64(x));
    let low = opaque_f64(e * 1.9082149292705877e-10lf) + log_series_f64(significand_f64(x));
    return log_edges_f64(x, e * 0.6931471803691238lf + opaque_f64(low));
}

fn log2_f64(x: f64) -> f64 {
    let e = f64(exponent_f64(x));
    return log_edges_f64(x, e + log_series_f64(significand_f64(x)) * 1.4426950408889634lf);
}

// A number that is not negative, with the sign of another.
fn with_sign_f64(x: f64, sign: f64) -> f64 {
    return bitcast<f64>(bitcast<u64>(x) ^ (bitcast<u64>(sign) & 0x8000000000000000lu));
}

// Below 0.3 by the quotient of e^2x - 1's series, above through e^2x.
fn tanh_f64(x: f64) -> f64 {
    let a = magnitude_f64(x);
    let b = select(a, 20.0lf, less_f64(20.0lf, a));
    let far = 1.0lf - 2.0lf / (exp_f64(2.0lf * b) + 1.0lf);
    let t = 2.0lf * select(b, 0.3lf, less_f64(0.3lf, b));
    var less_one = 1.0lf;
    for (var k = 18; k > 1; k -= 1) {
        less_one = 1.0lf + less_one * t / f64(k);
    }
    let grown = t * less_one;
    let near = grown / (grown + 2.0lf);
    let value = with_sign_f64(select(far, near, less_f64(a, 0.3lf)), x);
    return select(value, x, nan_f64(x));
}

// Below 2.5 the series of erf(x) e^(x^2) (Abramowitz and Stegun 7.1.6), above
// the continued fraction of the complement (7.1.14).
fn erf_f64(x: f64) -> f64 {
    let all = magnitude_f64(x);
    let a = select(all, 6.0lf, !less_f64(all, 6.0lf));
    let gauss = exp_f64(-(a * a));
    var term = a;
    var sum = a;
    var tail = 0.0lf;
    // One loop for both: drivers take time cubic in the number of loops of a kernel.
    for (var k = 1; k < 61; k += 1) {
        term = term * 2.0lf * a * a / (2.0lf * f64(k) + 1.0lf);
        sum = sum + term;
        tail = f64(61 - k) * 0.5lf / (a + tail);
    }
    let near = 1.1283791670955126lf * gauss * sum;
    let far = 1.0lf - gauss / (1.772453850905516lf * (a + tail));
    let value = with_sign_f64(select(far, near, less_f64(a, 2.5lf)), x);
    return select(value, x, nan_f64(x));
}

// By squaring where the exponent is a small integer, else through logarithms. One way through, whose
// edges are selected: drivers take time cubic in the branches around the loops of a kernel.
fn power_f64(x: f64, y: f64) -> f64 {
    let one = 0x3ff0000000000000lu;
    let infinity = 0x7ff0000000000000lu;
    let xs = bitcast<u64>(x);
    let ys = bitcast<u64>(y);
    let a = xs & 0x7ffffffffffffffflu;
    let b = ys & 0x7ffffffffffffffflu;
    let up = ys < 0x8000000000000000lu;
    let whole = b >= 0x4340000000000000lu || equal_f64(floor_f64(y), y);
    let few = whole && b <= 0x4050000000000000lu;
    let exponent = select(0lu, b, b < 0x4340000000000000lu);
    let digits = u32(integer64_f64(bitcast<f64>(exponent)) & 0x7fli);
    let odd = whole && b < 0x4340000000000000lu && (integer64_f64(bitcast<f64>(exponent)) & 1li) == 1li;
    var result = 1.0lf;
    var square = bitcast<f64>(a);
    var left = select(0u, digits, few);
    while (left != 0u) {
        result = select(result, result * square, (left & 1u) == 1u);
        square = square * square;
        left = left >> 1u;
    }
    let squared = bitcast<u64>(select(1.0lf / result, result, up));
    let general = bitcast<u64>(exp_f64(multiply_f64(y, log_f64(bitcast<f64>(a)))));
    var value = select(general, squared, few);
    value = select(value, select(0lu, infinity, (a != 0lu) == up), a == 0lu || a == infinity);
    value = value | (select(0lu, 0x8000000000000000lu, odd) & xs);
    value = select(value, 0x7ff8000000000000lu, xs >= 0x8000000000000000lu && !whole && a != 0lu && a != infinity);
    value = select(value, select(select(0lu, infinity, (a > one) == up), one, a == one), b == infinity);
    value = select(value, 0x7ff8000000000000lu, a > infinity || b > infinity);
    return number_f64(select(value, one, b == 0lu || xs == one));
}

fn weight_f64(x: f64, maximum: f64) -> f64 {
    return select(exp_f64(subtract_f64(x, maximum)), number_f64(0x3ff0000000000000lu), equal_f64(x, maximum));
}

fn finish_logsumexp_f64(maximum: f64, sum: f64) -> f64 {
    let infinite = (bitcast<u64>(maximum) & 0x7ffffffffffffffflu) == 0x7ff0000000000000lu;
    return select(add_f64(maximum, log_f64(sum)), maximum, infinite);
}

fn merged_mean_f64(n: f64, mean: f64, squares: f64, m: f64, other: f64, others: f64) -> f64 {
    let gap = subtract_f64(other, mean);
    let both = select(add_f64(mean, multiply_f64(gap, divide_f64(m, n + m))), other, n == 0.0lf);
    return select(both, mean, m == 0.0lf);
}

fn merged_squares_f64(n: f64, mean: f64, squares: f64, m: f64, other: f64, others: f64) -> f64 {
    let gap = subtract_f64(other, mean);
    let between = multiply_f64(multiply_f64(gap, gap), divide_f64(multiply_f64(n, m), n + m));
    let both = select(add_f64(add_f64(squares, others), between), others, n == 0.0lf);
    return select(both, squares, m == 0.0lf);
}
