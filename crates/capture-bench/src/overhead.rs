//! What a stamp costs in the kernel, and how that varies.
