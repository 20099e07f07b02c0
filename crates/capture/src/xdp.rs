//! AF_XDP: packets taken before the network stack sees them.
