//! What captures and stamps cost, lose and are worth, beside tcpdump and dumpcap.

mod arrival;
mod overhead;
mod rate;

fn main() {}
