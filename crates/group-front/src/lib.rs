//! Replicates a program that serves TCP: requests in one order, one time for each.
