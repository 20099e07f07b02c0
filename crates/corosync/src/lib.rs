//! Corosync's closed process groups (CPG) and quorum, by its libraries loaded at run time.
