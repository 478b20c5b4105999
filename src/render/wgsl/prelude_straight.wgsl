// Functions of software drivers in kernels that call them often: without the loops of `prelude.wgsl`.

// The significand of a number of 24 bits, and the exponent that it has then.
fn normalized_f32(bits: u32) -> vec2<u32> {
    let significand = (bits & 0x7fffffu) | select(0u, 0x800000u, bits >= 0x800000u);
    let shift = countLeadingZeros(significand | 1u) - 8u;
    return vec2<u32>(significand << shift, max(bits >> 23u, 1u) + 32u - shift);
}

// Up to 21 bits of a long division: the quotient is at most one off. What is left, and the bits to come.
fn remainder_step(state: vec2<u32>, divisor: u32, inverse: f32) -> vec2<u32> {
    let bits = min(state.y, 21u);
    let quotient = f32(state.x) * bitcast<f32>((bits + 127u) << 23u) * inverse;
    let near = (state.x << bits) - (bitcast<u32>(quotient + 8388608.0) - 0x4b000000u) * divisor;
    let above = select(near, near + divisor, near >= 0x80000000u);
    return vec2<u32>(select(above, above - divisor, above >= divisor), state.y - bits);
}

// The remainder of long division of the significands: exact. At most 276 bits of the quotient are to come.
fn remainder_f32(x: f32, y: f32) -> f32 {
    let a = bitcast<u32>(x) & 0x7fffffffu;
    let b = bitcast<u32>(y) & 0x7fffffffu;
    let n = normalized_f32(a);
    let d = normalized_f32(b);
    let inverse = 1.0 / f32(d.x);
    var state = vec2<u32>(select(n.x, n.x - d.x, n.x >= d.x), n.y - min(n.y, d.y));
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    state = remainder_step(state, d.x, inverse);
    // As a multiple of the least number, or with the divisor's exponent.
    let last = max(b >> 23u, 1u);
    let rest = state.x >> (last + 32u - d.y);
    let shift = min(countLeadingZeros(rest | 1u) - 8u, last - 1u);
    let significand = rest << shift;
    let normal = ((last - shift) << 23u) | (significand & 0x7fffffu);
    let bits = select(select(significand, normal, significand >= 0x800000u), 0u, rest == 0u);
    let value = select(bits ^ (bitcast<u32>(x) & 0x80000000u), bitcast<u32>(x), a < b);
    let undefined = a >= 0x7f800000u || b > 0x7f800000u || b == 0u;
    return bitcast<f32>(select(value, 0x7fc00000u ^ uniforms[0].x, undefined));
}
