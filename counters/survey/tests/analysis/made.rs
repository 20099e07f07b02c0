//! Numbers to test with, the same every time.

/// The generator of SP 1065, section 12.4: numbers in (0, 1).
pub fn lehmer() -> impl Iterator<Item = f64> {
    let mut n = 1_234_567_890_u64;
    std::iter::repeat_with(move || {
        let number = n as f64 / 2_147_483_647.0;
        n = 16_807 * n % 2_147_483_647;
        number
    })
}

/// Normal noise of variance 1, nearly: sums of twelve numbers (SplitMix64; the generator above is
/// too poor for that).
pub fn white(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut uniform = move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut n = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((n ^ (n >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..count).map(|_| (0..12).map(|_| uniform()).sum::<f64>() - 6.0).collect()
}

/// Running sums.
pub fn summed(values: Vec<f64>) -> Vec<f64> {
    let mut sum = 0.0;
    values
        .into_iter()
        .map(|value| {
            sum += value;
            sum
        })
        .collect()
}

/// Half a running sum: white noise becomes flicker (Kasdin and Walter, 1992: the impulse response
/// of (1 − B)^(−1/2)).
pub fn half_summed(values: &[f64]) -> Vec<f64> {
    let mut response = vec![1.0];
    for k in 1..values.len() {
        response.push(response[k - 1] * (k as f64 - 0.5) / k as f64);
    }
    (0..values.len()).map(|i| (0..=i).map(|k| response[k] * values[i - k]).sum()).collect()
}

/// Phase noise with S_y(f) ∝ f^`alpha`, 2 to −2.
pub fn power_law(alpha: i32, seed: u64, count: usize) -> Vec<f64> {
    let white = white(seed, count);
    match alpha {
        2 => white,
        1 => half_summed(&white),
        0 => summed(white),
        -1 => summed(half_summed(&white)),
        -2 => summed(summed(white)),
        _ => panic!("{alpha}"),
    }
}
