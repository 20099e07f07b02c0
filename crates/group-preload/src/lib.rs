//! A preloaded library through which unmodified programs read the group's clock.
