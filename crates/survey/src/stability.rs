//! How stable a counter is against a reference.
