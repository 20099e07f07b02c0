//! Which flows are RTP.

use super::{Observation, RtpChoice};
use crate::flow::Flow;
use crate::rtp::{Clocks, Header, Stream, header};
use crate::rtt::Kind;
use crate::{Parsed, Transport};

/// The header, if the packet is to be looked at as RTP.
pub(super) fn rtp_header(choice: &RtpChoice, parsed: &Parsed<'_>) -> Option<Header> {
    let Transport::Udp { source, destination } = parsed.transport else { return None };
    if parsed.ip.is_none_or(|ip| ip.fragment.is_some_and(|(offset, _)| offset > 0)) {
        return None;
    }
    let wanted = match choice {
        RtpChoice::Never => false,
        // Well-known ports carry no RTP.
        RtpChoice::Auto => source >= 1024 && destination >= 1024,
        RtpChoice::Ports(ports) => ports.contains(&source) || ports.contains(&destination),
    };
    if wanted { header(parsed.payload, parsed.cut) } else { None }
}

/// Takes a packet into the stream of RTP that the flow is, or may turn out to be.
pub(super) fn follow_rtp(
    flow: &mut Flow,
    packet: &Observation<'_>,
    header: &Header,
    sure: bool,
    clocks: &Clocks,
) {
    let at_ns = packet.at.leap_free_ns.unwrap_or(packet.at.unix_ns);
    if flow.rtp.is_none() && sure {
        flow.rtp = Some(header.ssrc);
    }
    if flow.rtp == Some(header.ssrc) {
        if let Some(seen) = flow.seen_mut(packet.point) {
            let stream = seen.rtp.get_or_insert_with(|| Stream::new(header.ssrc));
            stream.arrived(header, at_ns, clocks);
        }
        return;
    }
    // Each packet counts once, whether one point saw it or two.
    let detector = flow.detector.get_or_insert_default();
    detector.look(packet.point, *header, at_ns);
    if !detector.is_sure() {
        return;
    }
    flow.rtp = Some(header.ssrc);
    // Media is nobody's answer.
    for seen in flow.seen.iter_mut().flatten() {
        seen.rtts.remove(&Kind::FirstAnswer);
    }
    for (point, header, at_ns) in flow.detector.take().map(|d| d.seen).unwrap_or_default() {
        if let Some(seen) = flow.seen_mut(point) {
            let stream = seen.rtp.get_or_insert_with(|| Stream::new(header.ssrc));
            stream.arrived(&header, at_ns, clocks);
        }
    }
}
