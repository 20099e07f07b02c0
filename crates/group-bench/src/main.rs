//! What the group's clock costs and survives, on a real ring.

fn main() {}
