//! Times worked out anew from counts.
