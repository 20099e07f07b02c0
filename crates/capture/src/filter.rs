//! Filters in tcpdump's language, by libpcap.
