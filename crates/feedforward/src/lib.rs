//! feedforward
