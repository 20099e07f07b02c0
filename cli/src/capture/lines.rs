//! Packets as lines of text.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;

use serde_json::json;
use truechimer_capture::convert::Change;
use truechimer_capture::sink::{Mark, Sink, SinkError, Written};
use truechimer_capture::{Counted, Direction, Facts, Losses, Packet, Quality, Stamped};
use truechimer_qos::{Parsed, Tcp, Transport, parse};
use truechimer_time::Span;

use super::sink_error;

/// Form in which packets are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Text like tcpdump's, in brief.
    Text,
    /// An object a line.
    Json,
}

/// Writes a line for each packet.
pub struct Lines<W: Write> {
    out: BufWriter<W>,
    form: Form,
    link_type: u16,
    interface: String,
    quiet: bool,
    line: String,
    written: Written,
}

impl Lines<File> {
    /// To standard output. Nobody else holds that back, as this does not go by the lock.
    pub fn standard(facts: &Facts, form: Form, quiet: bool) -> Result<Lines<File>, SinkError> {
        let fd = io::stdout().as_fd().try_clone_to_owned().map_err(sink_error)?;
        Ok(Lines::new(File::from(fd), facts, form, quiet))
    }
}

impl<W: Write> Lines<W> {
    fn new(out: W, facts: &Facts, form: Form, quiet: bool) -> Lines<W> {
        Lines {
            out: BufWriter::new(out),
            form,
            link_type: facts.link_type,
            interface: facts.interface.clone(),
            quiet,
            line: String::new(),
            written: Written::default(),
        }
    }

    fn put(&mut self) -> Result<(), SinkError> {
        self.line.push('\n');
        self.written.bytes += self.line.len() as u64;
        self.out.write_all(self.line.as_bytes()).map_err(sink_error)
    }
}

impl<W: Write + Send> Sink for Lines<W> {
    fn packet(&mut self, packet: &Packet<'_>, stamped: &Stamped) -> Result<bool, SinkError> {
        let parsed = parse(self.link_type, packet.data);
        self.line.clear();
        match self.form {
            Form::Text => text(&mut self.line, packet, stamped, &parsed, self.link_type),
            Form::Json => self.line.push_str(&object(packet, stamped, &parsed)),
        }
        self.put()?;
        self.written.packets += 1;
        Ok(true)
    }

    fn change(&mut self, _change: &Change) -> Result<(), SinkError> {
        Ok(())
    }

    fn mark(&mut self, mark: Mark) -> Result<(), SinkError> {
        if self.quiet {
            return Ok(());
        }
        let what = match mark {
            Mark::Down => "down",
            Mark::Up => "up",
            Mark::Gone => "gone",
        };
        self.line.clear();
        match self.form {
            Form::Text => {
                let _ = write!(self.line, "-- {} is {what} --", self.interface);
            }
            Form::Json => {
                let object = json!({"type": "mark", "interface": self.interface, "state": what});
                self.line = object.to_string();
            }
        }
        self.put()
    }

    fn losses(&mut self, _losses: &Losses, _dropped: u64) {}

    fn flush(&mut self) -> Result<(), SinkError> {
        self.out.flush().map_err(sink_error)
    }

    fn written(&self) -> &Written {
        &self.written
    }

    fn finish(&mut self) -> Result<Written, SinkError> {
        self.flush()?;
        Ok(self.written.clone())
    }
}

fn text(
    line: &mut String,
    packet: &Packet<'_>,
    stamped: &Stamped,
    parsed: &Parsed<'_>,
    link_type: u16,
) {
    clock(line, stamped.unix_ns);
    let _ = match stamped.bound {
        Some(bound) => write!(line, " ±{}", brief(bound)),
        None if stamped.quality == Quality::Uncounted => write!(line, " ±?!"),
        None => write!(line, " ±?"),
    };
    line.push_str(match packet.direction {
        Direction::In => "  ",
        Direction::Out => "  Out ",
        Direction::Unknown => "  ",
    });
    if let Some([_, _, high, low]) = packet.tag {
        let _ = write!(line, "vlan {}, ", u16::from_be_bytes([high & 0x0f, low]));
    }
    let Some(ip) = parsed.ip else {
        ethernet(line, packet.data, link_type);
        let _ = write!(line, ", length {}", packet.length);
        return;
    };
    let (source, destination) = match parsed.transport {
        Transport::Udp { source, destination }
        | Transport::Tcp(Tcp { source, destination, .. }) => {
            (format!(".{source}"), format!(".{destination}"))
        }
        Transport::Echo { .. } | Transport::Other => (String::new(), String::new()),
    };
    let version = if ip.source.is_ipv4() { "IP" } else { "IP6" };
    let _ = write!(line, "{version} {}{source} > {}{destination}: ", ip.source, ip.destination);
    if let Some((offset, more)) = ip.fragment {
        let more = if more { "+" } else { "" };
        let _ = write!(line, "fragment {offset}{more}, ");
    }
    let _ = match parsed.transport {
        Transport::Udp { .. } => write!(line, "UDP"),
        Transport::Tcp(tcp) => write!(line, "TCP [{}]", flags(tcp)),
        Transport::Echo { request, identifier, sequence } => {
            let what = if request { "request" } else { "reply" };
            write!(line, "echo {what} {identifier}/{sequence}")
        }
        Transport::Other => write!(line, "protocol {}", ip.protocol),
    };
    let length = match parsed.transport {
        Transport::Tcp(tcp) => u64::from(tcp.data_length),
        _ => parsed.payload.len() as u64,
    };
    let cut = if parsed.cut { "+" } else { "" };
    let _ = write!(line, ", length {length}{cut}");
}

/// `S` SYN, `F` FIN, `R` RST, `.` ACK.
fn flags(tcp: Tcp) -> String {
    let all = [(tcp.syn, 'S'), (tcp.fin, 'F'), (tcp.rst, 'R'), (tcp.ack, '.')];
    all.iter().filter(|(set, _)| *set).map(|(_, flag)| *flag).collect()
}

/// Frame that is not IP.
fn ethernet(line: &mut String, data: &[u8], link_type: u16) {
    let Some(header) = data.get(..14).filter(|_| link_type == truechimer_qos::link::ETHERNET)
    else {
        let _ = write!(line, "link type {link_type}");
        return;
    };
    let address = |bytes: &[u8]| {
        let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.join(":")
    };
    let (to, rest) = header.split_at(6);
    let (from, kind) = rest.split_at(6);
    let kind = kind.iter().fold(0_u16, |kind, byte| kind << 8 | u16::from(*byte));
    let name = match kind {
        0x0806 => "ARP".to_owned(),
        0x0800 | 0x86dd => "broken IP".to_owned(),
        0x8100 | 0x88a8 => "VLAN".to_owned(),
        0x88f7 => "PTP".to_owned(),
        0x88cc => "LLDP".to_owned(),
        0..0x0600 => "802.3".to_owned(),
        _ => format!("ethertype 0x{kind:04x}"),
    };
    let _ = write!(line, "{name} {} > {}", address(from), address(to));
}

/// UTC within the day, to the nanosecond.
fn clock(line: &mut String, unix_ns: i64) {
    let (seconds, ns) = (unix_ns.div_euclid(1_000_000_000), unix_ns.rem_euclid(1_000_000_000));
    let second = seconds.rem_euclid(86_400);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    let _ = write!(line, "{h:02}:{m:02}:{s:02}.{ns:09}");
}

/// A bound to two or three digits, rounded up.
fn brief(bound: Span) -> String {
    let ns = bound.as_nanos().max(0) + 1;
    let (unit, name) = match ns {
        ..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let tenths = (ns * 10 + unit - 1) / unit;
    if tenths < 1000 {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    } else {
        format!("{} {name}", (tenths + 9) / 10)
    }
}

fn object(packet: &Packet<'_>, stamped: &Stamped, parsed: &Parsed<'_>) -> String {
    let ports = match parsed.transport {
        Transport::Udp { source, destination }
        | Transport::Tcp(Tcp { source, destination, .. }) => Some((source, destination)),
        Transport::Echo { .. } | Transport::Other => None,
    };
    let epoch = stamped.counted.map(|counted| counted.epoch);
    let epoch = epoch.filter(|epoch| *epoch != Counted::NO_EPOCH);
    let object = json!({
        "type": "packet",
        "unix_ns": stamped.unix_ns,
        "bound_ns": stamped.bound.map(Span::as_nanos_i64),
        "quality": match stamped.quality {
            Quality::Bounded => "bounded",
            Quality::Unsynchronised => "unsynchronised",
            Quality::Uncounted => "uncounted",
        },
        "count": stamped.counted.map(|counted| counted.count.0),
        "count_error": stamped.counted.map(|counted| counted.error.0),
        "epoch": epoch.map(|epoch| epoch.0),
        "direction": match packet.direction {
            Direction::In => Some("in"),
            Direction::Out => Some("out"),
            Direction::Unknown => None,
        },
        "length": packet.length,
        "captured": packet.data.len(),
        "vlan": packet.tag.map(|[_, _, high, low]| u16::from_be_bytes([high & 0x0f, low])),
        "source": parsed.ip.map(|ip| ip.source),
        "destination": parsed.ip.map(|ip| ip.destination),
        "protocol": parsed.ip.map(|ip| ip.protocol),
        "source_port": ports.map(|ports| ports.0),
        "destination_port": ports.map(|ports| ports.1),
    });
    object.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_capture::{Method, RawStamp};
    use truechimer_time::{Count, CountSpan, Epoch};

    fn facts() -> Facts {
        Facts {
            interface: "eth0".into(),
            method: Method::Packet,
            detail: String::new(),
            link_type: 1,
            snap_length: 100,
            stamped_by: "the kernel".into(),
            ring_bytes: 0,
            stamp_error: CountSpan(0),
        }
    }

    fn stamped(bound: Option<i64>) -> Stamped {
        Stamped {
            counted: Some(Counted { count: Count(77), error: CountSpan(3), epoch: Epoch(5) }),
            unix_ns: 86_400_000_000_000 * 20_000 + 3_661_000_000_042,
            instant: None,
            bound: bound.map(Span::from_nanos),
            quality: if bound.is_some() { Quality::Bounded } else { Quality::Unsynchronised },
            generation: 0,
        }
    }

    /// A UDP datagram of four bytes from 192.0.2.1:123 to 192.0.2.2:9.
    const UDP: &str = "0200000000020200000000010800\
        45000020000040004011b6cac0000201c0000202007b0009000c000061626364";

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    fn line(form: Form, data: &[u8], tag: Option<[u8; 4]>, stamped: &Stamped) -> String {
        let mut lines = Lines::new(Vec::new(), &facts(), form, false);
        let packet = Packet {
            stamp: RawStamp::Missing,
            data,
            tag,
            length: data.len() as u32,
            direction: Direction::Out,
            queue: 0,
        };
        lines.packet(&packet, stamped).unwrap();
        lines.finish().unwrap();
        String::from_utf8(lines.out.into_inner().unwrap()).unwrap()
    }

    #[test]
    fn a_datagram_in_a_line() {
        assert_eq!(
            line(Form::Text, &bytes(UDP), Some([0x81, 0, 0xe0, 7]), &stamped(Some(12_345))),
            "01:01:01.000000042 ±12.4 µs  Out vlan 7, IP 192.0.2.1.123 > 192.0.2.2.9: UDP, \
             length 4\n"
        );
        let unknown = line(Form::Text, &bytes(UDP), None, &stamped(None));
        assert!(unknown.contains(" ±?  Out IP "), "{unknown}");
    }

    #[test]
    fn a_datagram_as_an_object() {
        let line = line(Form::Json, &bytes(UDP), None, &stamped(Some(12_345)));
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        for (name, value) in [
            ("bound_ns", json!(12_345)),
            ("count", json!(77)),
            ("epoch", json!(5)),
            ("source", json!("192.0.2.1")),
            ("destination_port", json!(9)),
            ("vlan", json!(null)),
            ("quality", json!("bounded")),
        ] {
            assert_eq!(object[name], value, "{name}: {line}");
        }
    }

    #[test]
    fn an_epoch_that_nobody_knows_is_not_a_number() {
        let mut unknown = stamped(None);
        unknown.counted = unknown.counted.map(|c| Counted { epoch: Counted::NO_EPOCH, ..c });
        let line = line(Form::Json, &bytes(UDP), None, &unknown);
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&object["count"], &object["epoch"]), (&json!(77), &json!(null)), "{line}");
    }

    #[test]
    fn what_is_not_ip_has_a_line_too() {
        let mut arp = bytes(UDP);
        arp[12..14].copy_from_slice(&[8, 6]);
        let shown = line(Form::Text, &arp, None, &stamped(None));
        assert!(shown.contains("ARP 02:00:00:00:00:01 > 02:00:00:00:00:02, length"), "{shown}");
        for length in 0..bytes(UDP).len() {
            let shown = line(Form::Text, &bytes(UDP)[..length], None, &stamped(None));
            assert!(shown.ends_with('\n') && shown.lines().count() == 1, "{shown}");
        }
    }

    #[test]
    fn bounds_in_brief_are_never_too_small() {
        for (ns, text) in [
            (0, "1 ns"),
            (998, "999 ns"),
            (999, "1.0 µs"),
            (12_345, "12.4 µs"),
            (99_900, "100 µs"),
            (123_456, "124 µs"),
            (1_500_000, "1.6 ms"),
            (2_000_000_000, "2.1 s"),
        ] {
            assert_eq!(brief(Span::from_nanos(ns)), text);
        }
    }
}
