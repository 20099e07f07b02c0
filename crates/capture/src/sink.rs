//! Where packets go: capture files.
