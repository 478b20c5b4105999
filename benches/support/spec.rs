//! The work items' inputs: values that any language can make alike.

/// An input: shape, seed, scale and shift of its values.
pub struct Input {
    pub shape: &'static [usize],
    seed: u32,
    scale: f32,
    shift: f32,
}

/// An input.
pub const fn input(shape: &'static [usize], seed: u32, scale: f32, shift: f32) -> Input {
    Input { shape, seed, scale, shift }
}

impl Input {
    /// The values: a hash of the index and the seed, spread over
    /// `shift - scale .. shift + scale`.
    pub fn values(&self) -> Vec<f32> {
        let count = self.shape.iter().product::<usize>() as u32;
        (0..count).map(|i| unit(i, self.seed) * self.scale + self.shift).collect()
    }
}

/// A number in -1..1, in steps of 2^-23.
fn unit(index: u32, seed: u32) -> f32 {
    let mut x = index.wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(40_503));
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b);
    x ^= x >> 13;
    x = x.wrapping_mul(0xc2b2_ae35);
    x ^= x >> 16;
    (x >> 8) as f32 * (-23f32).exp2() - 1.0
}

/// The inputs of a work item.
pub fn inputs(item: &str) -> Vec<Input> {
    const N: usize = 1 << 24;
    match item {
        "1_elementwise" => (1..=3).map(|seed| input(&[N], seed, 1.0, 0.0)).collect(),
        "2_softmax" => vec![input(&[4096, 1024], 1, 4.0, 0.0)],
        "3_layernorm" => {
            vec![input(&[4096, 1024], 1, 1.0, 0.0), input(&[1024], 2, 0.1, 1.0), input(&[1024], 3, 0.1, 0.0)]
        }
        "4a_sum_axis0" | "4b_sum_axis1" => vec![input(&[4096, 4096], 1, 1.0, 0.0)],
        "5a_matmul_1024" => vec![input(&[1024, 1024], 1, 1.0, 0.0), input(&[1024, 1024], 2, 1.0, 0.0)],
        "5b_matmul_512x4096x4096" => {
            vec![input(&[512, 4096], 1, 1.0, 0.0), input(&[4096, 4096], 2, 1.0, 0.0)]
        }
        "5c_bmm_32x128x64x128" => {
            vec![input(&[32, 128, 64], 1, 1.0, 0.0), input(&[32, 64, 128], 2, 1.0, 0.0)]
        }
        "6_attention" => (1..=3).map(|seed| input(&[4, 8, 512, 64], seed, 1.0, 0.0)).collect(),
        "7_conv2d" => {
            vec![input(&[8, 64, 56, 56], 1, 1.0, 0.0), input(&[64, 64, 3, 3], 2, 1.0 / 24.0, 0.0)]
        }
        "8_mlp_train" => vec![
            input(&[256, 784], 1, 1.0, 0.0),
            input(&[784, 512], 2, 0.0625, 0.0),
            input(&[512], 3, 0.0625, 0.0),
            input(&[512, 512], 4, 0.0625, 0.0),
            input(&[512], 5, 0.0625, 0.0),
            input(&[512, 10], 6, 0.0625, 0.0),
            input(&[10], 7, 0.0625, 0.0),
        ],
        "9_block" | "10b_host_overhead" => block(),
        "10a_100_adds" => vec![input(&[1024], 1, 1.0, 0.0), input(&[1024], 2, 0.001, 0.0)],
        other => panic!("no work item is called {other}"),
    }
}

fn block() -> Vec<Input> {
    vec![
        input(&[4, 256, 512], 1, 1.0, 0.0),
        input(&[512], 2, 0.1, 1.0),
        input(&[512], 3, 0.1, 0.0),
        input(&[512, 1536], 4, 0.0625, 0.0),
        input(&[1536], 5, 0.1, 0.0),
        input(&[512, 512], 6, 0.0625, 0.0),
        input(&[512], 7, 0.1, 0.0),
        input(&[512], 8, 0.1, 1.0),
        input(&[512], 9, 0.1, 0.0),
        input(&[512, 2048], 10, 0.0625, 0.0),
        input(&[2048], 11, 0.1, 0.0),
        input(&[2048, 512], 12, 0.03125, 0.0),
        input(&[512], 13, 0.1, 0.0),
    ]
}

/// Checksums of a work item's result: the sum of magnitudes and a weighted
/// sum, which two right results share to a thousandth of the former.
pub fn checksums(item: &str) -> (f64, f64) {
    match item {
        "1_elementwise" => (5_347_308.052_509, -38.116_440),
        "2_softmax" => (4_095.999_995, -0.989_806),
        "3_layernorm" => (3_647_242.348_949, -1_140.643_907),
        "4a_sum_axis0" => (119_962.554_307, 1_674.046_169),
        "4b_sum_axis1" => (121_373.967_744, -756.711_499),
        "5a_matmul_1024" => (8_933_961.536_510, -1_579.762_708),
        "5b_matmul_512x4096x4096" => (35_704_955.156_684, 16_399.257_904),
        "5c_bmm_32x128x64x128" => (1_114_919.556_389, -2_201.257_319),
        "6_attention" => (22_469.126_368, -1.743_370),
        "7_conv2d" => (422_005.020_563, -223.925_213),
        "8_mlp_train" => (11.561_357, -11.099_444),
        "9_block" => (312_318.500_819, -241.454_624),
        "10a_100_adds" => (493.563_201, -10.096_668),
        other => panic!("no checksums for {other}"),
    }
}
