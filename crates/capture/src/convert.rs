//! Raw stamps turned into counts, and counts into time.
