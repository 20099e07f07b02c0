//! Loss and rate, beside tcpdump and dumpcap.
