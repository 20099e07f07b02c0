//! Load, in phases: quiet, processor, network.
