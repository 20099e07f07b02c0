//! Packet sockets with a shared ring (TPACKET_V3).
