//! What Wireshark asks of a program that captures for it.
