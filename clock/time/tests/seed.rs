//! Property tests are repeatable.

use proptest::test_runner::{Config, RngSeed};

/// From `.cargo/config.toml`, or from who wants other cases.
#[test]
fn property_tests_begin_from_a_known_seed() {
    assert!(matches!(Config::default().rng_seed, RngSeed::Fixed(_)));
}
