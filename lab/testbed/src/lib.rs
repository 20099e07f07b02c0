//! The test bed: real servers, networks and clocks for tests of the whole stack, without touching
//! the host's.
//!
//! * [`namespace`]: two hosts joined by a wire, as network namespaces; root is not needed.
//! * [`certificates`]: an authority and a server's certificate by it.
//! * [`chrony`]: chronyd serving the host's time on one of them.
//! * [`ptp4l`]: linuxptp's ptp4l as a PTP master of the host's time.
//! * [`postgresql`]: a cluster of PostgreSQL, and sessions with its server.
//! * [`ring`]: a Corosync ring of several nodes on this machine.
//! * [`exchange`]: one question to an NTP server, judged by the host's clock.
//! * [`receiver`]: a receiver's sentences, for gpsd.
//! * [`relay`]: a path between client and server that delays, loses and duplicates.
//! * [`daemon`]: the daemon under test and the commands that ask it.
//! * [`truth`], [`watch`]: what the time is, around each reading of the clock under test.
//! * [`scale`], [`figures`]: times of a guest machine by name; what a watch comes to.
//! * [`process`], [`udp`], [`temp`], [`binary`], [`lacking`]: what these stand on.
//!
//! A step that fails is a failed test, so this crate panics where it cannot go on.
//!
//! Not here: simulation (`truechimer-sim`). Programs and packets are real, and so is the time that passes.
#![forbid(unsafe_code)]

pub mod binary;
pub mod certificates;
pub mod chrony;
pub mod daemon;
pub mod exchange;
pub mod figures;
pub mod lacking;
pub mod namespace;
pub mod ports;
pub mod postgresql;
pub mod process;
pub mod ptp4l;
pub mod receiver;
pub mod relay;
pub mod ring;
pub mod scale;
pub mod temp;

pub mod truth;
pub mod udp;
pub mod watch;
