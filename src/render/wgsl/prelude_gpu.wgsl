// Functions that take the place of those of the same name on GPUs, which multiply by a
// reciprocal where they divide, make zeros of numbers below 2^-126, and whose compilers
// make 1 of x / x.

// The reciprocal of 2^126 or more may be such a zero, so both operands are made smaller.
// What the quotient, which WGSL lets be off by 2.5 units, lacks is added: a multiple over its
// factor is whole. Where nothing of the kind is known (no number, infinity, a quotient
// that is a zero) the rest is no smaller than the dividend.
fn divide_f32(x: f32, y: f32) -> f32 {
    let large = (bitcast<u32>(y) & 0x7fffffffu) >= 0x7e800000u;
    let scale = select(1.0, 0.25, large);
    let a = x * scale;
    let b = opaque_f32(y * scale);
    let q = opaque_f32(a / b);
    let rest = fma(-q, b, a);
    let nearer = q + rest / b;
    let known = (bitcast<u32>(rest) & 0x7fffffffu) < (bitcast<u32>(a) & 0x7fffffffu);
    return opaque_f32(select(q, nearer, known));
}

fn divide_f64(x: f64, y: f64) -> f64 {
    return opaque_f64(x / opaque_f64(y));
}

// A number below 2^-126 is its bits times 2^-149: multiplied it might be 0.
fn log_parts_f32(x: f32) -> vec3<f32> {
    let own = bitcast<i32>(x);
    let tiny = own < 0x800000;
    let bits = bitcast<i32>(select(x, f32(own), tiny));
    let exponent = (bits - 0x3f3504f3) >> 23u;
    let f = bitcast<f32>(bits - (exponent << 23u)) - 1.0;
    let p = (((((((0.06746647 * f - 0.11675654) * f + 0.118881606) * f - 0.124055885) * f + 0.14219552) * f - 0.16667996) * f + 0.20002119) * f - 0.2500001) * f + 0.33333313;
    let z = f * f;
    return vec3<f32>(f32(exponent) - select(0.0, 149.0, tiny), f, (p * f) * z - 0.5 * z);
}
