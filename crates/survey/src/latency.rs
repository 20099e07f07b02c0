//! How long a reading takes, as a distribution.
