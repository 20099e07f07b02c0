//! Which processors do what: threads, receive interrupts and queues, put back in the end.
