//! ntp
