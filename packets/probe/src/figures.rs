//! Figures of a session.

use serde::Serialize;
use truechimer_qos::{
    Bounds, Codec, Density, Distribution, IN_TIME, Jitter, LossReport, Losses, Measured, Quantile,
    ReorderReport, Reordering, Spread, VoiceReport,
};

use crate::keeper::Source;
use crate::session::{Departure, Echo, Probe, Refused, Session};
use crate::shares::Shares;

/// Delays of a direction, if both clocks promise a bound.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Delay {
    /// One-way delay (RFC 7679).
    pub spread: Spread,
    /// Quantiles, at 95 % confidence if packets are independent of each other.
    pub quantiles: Vec<Quantile>,
    /// The least bound of one: that of both clocks, and of the stamps, ns.
    pub bound_min_ns: u64,
    /// The mean bound, ns.
    pub bound_mean_ns: f64,
    /// The greatest bound, ns.
    pub bound_max_ns: u64,
    /// Delays below zero by more than their bound: one of the clocks is not what it claims.
    pub negative: u64,
}

/// Figures of the way there, or of the way back.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Direction {
    /// Delays; `None`: a clock promises nothing.
    pub delay: Option<Delay>,
    /// Packets whose delay has no bound, which `delay` leaves out.
    pub unbounded: u64,
    /// Delay less the least (PDV, RFC 5481 section 4.2): needs no clock that is right, only two that run alike. Where the
    /// time of either end comes from something else from one packet on, the least is that of the stretch.
    pub pdv: Spread,
    /// Differences between the delays of packets sent one right after the other (IPDV, RFC 5481 section 4.1, RFC 3393).
    pub ipdv: Spread,
    /// Jitter (RFC 3550) after the last packet, ns.
    pub jitter_ns: Option<f64>,
    /// Losses; `None`: the reflector does not count its replies.
    pub loss: Option<LossReport>,
    /// Copies beyond those that were sent; `None` likewise.
    pub duplicates: Option<u64>,
    /// Reordering.
    pub reordering: ReorderReport,
    /// Voice this way.
    pub voice: Option<VoiceReport>,
}

/// Figures of both ways together.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RoundTrip {
    /// From departure to arrival, less what the reflector says that it has kept the packet.
    pub time: Spread,
    /// Quantiles, at 95 % confidence if packets are independent of each other.
    pub quantiles: Vec<Quantile>,
    /// The greatest bound of one, ns; `None`: for some packet the reflector's clock promises nothing, or our counter did
    /// not run on.
    pub bound_max_ns: Option<u64>,
    /// Between the round trips of packets sent one right after the other.
    pub ipdv: Spread,
    /// Losses there and back, up to the last packet that was answered.
    pub loss: LossReport,
    /// Time for which the reflector keeps packets, by its own word.
    pub kept: Spread,
}

/// All figures of a session. Spans are in ns, positive: later.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// The version of this form.
    pub version: u32,
    /// Packets sent.
    pub sent: u64,
    /// Of them those sent at the end, to learn of losses on which way.
    pub closing: u64,
    /// Packets that the system did not take, which are not among those sent.
    pub unsent: u64,
    /// Packets whose departure is the call that sent them, as the kernel did not say when they left.
    pub by_call: u64,
    /// Packets with an answer.
    pub answered: u64,
    /// Packets without one after the last with one: nobody knows how far they came.
    pub undetermined: u64,
    /// The reflector counts its replies, so that losses have a direction.
    pub counted_by_reflector: bool,
    /// There.
    pub forward: Direction,
    /// Back.
    pub backward: Direction,
    /// Both.
    pub round_trip: RoundTrip,
    /// The greatest bound of our clock, ns; `None`: it promised none for some packet.
    pub own_bound_max_ns: Option<u64>,
    /// The greatest bound of the reflector's clock.
    pub far_bound_max_ns: Option<u64>,
    /// Hop limits with which requests arrived there: least and greatest.
    pub hop_limits: Option<[u8; 2]>,
    /// Datagrams that were no replies, by reason.
    pub refused: std::collections::BTreeMap<&'static str, u64>,
    /// Notes on the numbers.
    pub notes: Vec<String>,
}

/// Direction of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    There,
    Back,
}

/// First reply to each packet that has one, with that packet, in the order of sending.
fn firsts(session: &Session) -> impl Iterator<Item = (&Probe, Option<&Echo>)> {
    session.probes().iter().map(|probe| (probe, probe.echoes.first()))
}

/// Sources of the two times that a delay is between: where one changes the delay may jump by anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Scale {
    near: Source,
    far_promises: bool,
    bounded: bool,
}

impl Scale {
    fn of(way: Way, probe: &Probe, echo: &Echo) -> Scale {
        let (near, measured) = match way {
            Way::There => (probe.sent.source, echo.forward),
            Way::Back => (echo.source, echo.backward),
        };
        let far_promises = echo.far_bound_ns.is_some();
        Scale { near, far_promises, bounded: measured.bound_ns.is_some() }
    }
}

/// Tells whether the source of a time changed during a session.
fn changed(session: &Session) -> bool {
    let scales =
        |way| firsts(session).filter_map(move |(probe, echo)| Some(Scale::of(way, probe, echo?)));
    [Way::There, Way::Back]
        .into_iter()
        .any(|way| scales(way).zip(scales(way).skip(1)).any(|(a, b)| a != b))
}

impl Report {
    /// Report of a session of which the last `closing` packets were sent to learn of losses, and voice by this codec.
    #[must_use]
    pub fn of(session: &Session, closing: u64, codec: Codec) -> Report {
        let numbers: Vec<(u32, Vec<u32>)> = session
            .probes()
            .iter()
            .map(|probe| (probe.sequence, probe.echoes.iter().map(|echo| echo.number).collect()))
            .collect();
        let shares = Shares::of(numbers.iter().map(|(sequence, all)| (*sequence, all.as_slice())));
        let round_trip = RoundTrip::of(session, &shares);
        let numbered = shares.numbered;
        let direction = |way, losses: &Losses, copies: u64| {
            let loss = numbered.then_some(losses);
            Direction::of(session, way, (loss, numbered.then_some(copies)), &round_trip, codec)
        };
        let mut bounds = [Bounds::default(), Bounds::default()];
        let [own, far] = &mut bounds;
        for (probe, echo) in firsts(session) {
            own.add(probe.sent.bound.map(|bound| bound.as_nanos_up().unsigned_abs()));
            echo.into_iter().for_each(|echo| far.add(echo.far_bound_ns));
        }
        let limits = || firsts(session).filter_map(|(_, echo)| echo.map(|echo| echo.hop_limit));
        let known = || limits().filter(|limit| *limit > 0);
        let mut report = Report {
            version: 1,
            sent: session.probes().len() as u64,
            closing,
            unsent: session.unsent(),
            by_call: session
                .probes()
                .iter()
                .filter(|probe| probe.departure == Departure::Call)
                .count() as u64,
            answered: session.answered() as u64,
            undetermined: shares.undetermined,
            counted_by_reflector: numbered,
            forward: direction(Way::There, &shares.forward, shares.forward_copies),
            backward: direction(Way::Back, &shares.backward, shares.backward_copies),
            round_trip,
            own_bound_max_ns: own.greatest(),
            far_bound_max_ns: far.greatest(),
            hop_limits: known().min().zip(known().max()).map(|(least, most)| [least, most]),
            refused: session.refused().iter().map(|(why, n)| (why.name(), *n)).collect(),
            notes: Vec::new(),
        };
        report.notes = report.noted(changed(session));
        report
    }

    fn noted(&self, changed: bool) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |wanted: bool, text: &str| {
            if wanted {
                notes.push(text.to_owned());
            }
        };
        let any = self.answered > 0;
        note(
            !any && self.sent > 0,
            "no answer: the reflector does not run, has another key, or a firewall is between",
        );
        note(
            self.by_call > 0,
            &format!(
                "packets of which the kernel did not say when they left: {}; their way there begins at the call that sent them, \
                 and has what they waited for in this host's queues",
                self.by_call
            ),
        );
        note(
            self.own_bound_max_ns.is_none() && self.sent > 0,
            "the clock here promised no bound for some packets, which have no one-way delay: see 'truechimer status'",
        );
        note(
            any && self.far_bound_max_ns.is_none(),
            "the reflector's clock is not synchronised, or says nothing of its error, for some packets, which have no \
             one-way delay",
        );
        note(
            any && !self.counted_by_reflector,
            "the reflector does not count its replies: losses have no direction",
        );
        let refused = |why: Refused| self.refused.get(why.name()).copied().unwrap_or(0);
        for (why, what) in [
            (
                Refused::Unauthentic,
                "datagrams without a code by this key, so of another key or forged",
            ),
            (Refused::Foreign, "datagrams that answer no packet of this session"),
            (Refused::Short, "datagrams that are too short for a reply"),
            (
                Refused::Repeated,
                "copies of replies that had come eight times, which no count of copies has",
            ),
        ] {
            note(refused(why) > 0, &format!("{what}: {}", refused(why)));
        }
        note(
            self.undetermined > 0 && any,
            "after the last answer some packets had none: how far they came is not known",
        );
        note(
            changed,
            "a clock was found, lost or began to promise in the meantime: how delays vary is told of each stretch for itself",
        );
        let negative =
            [&self.forward, &self.backward].into_iter().filter_map(|way| way.delay.as_ref());
        note(
            negative.map(|delay| delay.negative).sum::<u64>() > 0,
            "delays below zero by more than their bound: one of the clocks is not what it claims",
        );
        let voices =
            [&self.forward, &self.backward].into_iter().filter_map(|way| way.voice.as_ref());
        note(
            voices.into_iter().any(|voice| voice.assumed),
            "voice: the delay one way is assumed to be half of the least round trip, and what varies that way",
        );
        notes
    }
}

/// Values in the order of sending, and differences between neighbours.
#[derive(Default)]
struct Series {
    values: Distribution,
    differences: Distribution,
    before: Option<i64>,
}

/// Series whose scale may change: each stretch by one scale stands for itself.
#[derive(Default)]
struct Stretches {
    scale: Option<Scale>,
    stretch: Series,
    /// Values less the least of their stretch, of the stretches that have ended.
    varies: Distribution,
}

impl Stretches {
    fn add(&mut self, value: Option<(Scale, i64)>) {
        if let Some((scale, _)) = value
            && self.scale.replace(scale).is_some_and(|before| before != scale)
        {
            self.end();
        }
        self.stretch.add(value.map(|(_, value)| value));
    }

    fn end(&mut self) {
        let values = std::mem::take(&mut self.stretch.values);
        self.varies.merge_less(&values, values.min().unwrap_or(0));
        self.stretch.before = None;
    }

    /// Values less the least of their stretch, and differences between neighbours of one stretch.
    fn done(mut self) -> (Distribution, Distribution) {
        self.end();
        (self.varies, self.stretch.differences)
    }
}

impl Series {
    fn add(&mut self, value: Option<i64>) {
        let before = std::mem::replace(&mut self.before, value);
        let Some(value) = value else { return };
        self.values.add(value);
        before.into_iter().for_each(|before| self.differences.add(value.saturating_sub(before)));
    }
}

impl RoundTrip {
    fn of(session: &Session, shares: &Shares) -> RoundTrip {
        let (mut times, mut kept, mut bounds) =
            (Series::default(), Distribution::default(), Bounds::default());
        for (_, echo) in firsts(session) {
            let round_trip = echo.and_then(|echo| echo.round_trip);
            times.add(round_trip.map(|measured| measured.ns));
            echo.into_iter().for_each(|echo| {
                bounds.add(round_trip.and_then(|measured| measured.bound_ns));
                kept.add(echo.kept_ns);
            });
        }
        RoundTrip {
            time: Spread::of(&times.values),
            quantiles: Quantile::of(&times.values),
            bound_max_ns: bounds.greatest(),
            ipdv: Spread::of(&times.differences),
            loss: LossReport::of(&shares.whole),
            kept: Spread::of(&kept),
        }
    }
}

impl Direction {
    fn of(
        session: &Session,
        way: Way,
        (loss, duplicates): (Option<&Losses>, Option<u64>),
        round_trip: &RoundTrip,
        codec: Codec,
    ) -> Direction {
        let measured = |echo: &Echo| match way {
            Way::There => echo.forward,
            Way::Back => echo.backward,
        };
        let mut raw = Stretches::default();
        let (mut delays, mut bounds) = (Distribution::default(), Bounds::default());
        let mut negative = 0;
        for (probe, echo) in firsts(session) {
            let delay = echo.map(measured);
            raw.add(echo.map(|echo| (Scale::of(way, probe, echo), measured(echo).ns)));
            let Some(delay) = delay else { continue };
            bounds.add(delay.bound_ns);
            if delay.bound_ns.is_some() {
                delays.add(delay.ns);
                negative += u64::from(delay.is_negative());
            }
        }
        let delay = bounds.mean().map(|bound_mean_ns| Delay {
            spread: Spread::of(&delays),
            quantiles: Quantile::of(&delays),
            bound_min_ns: bounds.least,
            bound_mean_ns,
            bound_max_ns: bounds.greatest,
            negative,
        });
        let (reordering, jitter) = order(session, way, duplicates.is_some(), measured);
        let (varies, differences) = raw.done();
        let voice = Conditions { delays: &delays, varies: &varies, loss, round_trip }.voice(codec);
        Direction {
            delay,
            unbounded: bounds.unbounded,
            pdv: Spread::of(&varies),
            ipdv: Spread::of(&differences),
            jitter_ns: jitter.last(),
            loss: loss.map(LossReport::of),
            duplicates,
            reordering,
            voice,
        }
    }
}

/// Reordering one way, and jitter in the order of arrival there.
fn order(
    session: &Session,
    way: Way,
    numbered: bool,
    measured: impl Fn(&Echo) -> Measured,
) -> (ReorderReport, Jitter) {
    let mut arrivals: Vec<(i64, u64, Scale, &Echo)> = firsts(session)
        .filter_map(|(probe, echo)| {
            let echo = echo?;
            let (sequence, scale) = (u64::from(probe.sequence), Scale::of(way, probe, echo));
            Some(match way {
                // The reflector's numbers are the order of arrival there, even where its clock goes back.
                Way::There if numbered => (echo.number.into(), sequence, scale, echo),
                Way::There => (echo.received_ns, sequence, scale, echo),
                Way::Back => (echo.order.into(), echo.number.into(), scale, echo),
            })
        })
        .collect();
    arrivals.sort_by_key(|(at, order, ..)| (*at, *order));
    let (mut reordering, mut density, mut jitter) =
        (Reordering::default(), Density::default(), Jitter::default());
    let mut before = None;
    for (_, order, scale, echo) in arrivals {
        if before.replace(scale).is_some_and(|before| before != scale) {
            jitter.interrupted();
        }
        let at = if way == Way::There { echo.received_ns } else { echo.arrived_ns };
        reordering.arrived(order, at);
        density.arrived(order);
        jitter.arrived(measured(echo).ns.into());
    }
    (ReorderReport::of(&reordering, density.densities()), jitter)
}

/// Conditions for voice one way.
struct Conditions<'a> {
    /// Delays with a bound, ns.
    delays: &'a Distribution,
    /// Delays less the least, ns.
    varies: &'a Distribution,
    loss: Option<&'a Losses>,
    round_trip: &'a RoundTrip,
}

impl Conditions<'_> {
    fn voice(&self, codec: Codec) -> Option<VoiceReport> {
        let assumed = self.delays.len() < self.varies.len();
        let network_ns = if assumed {
            let half = self.round_trip.time.min_ns? / 2;
            half.saturating_add(self.varies.quantile(IN_TIME)?)
        } else {
            self.delays.quantile(IN_TIME)?
        };
        // Of a reflector that does not count, the losses of both ways are taken.
        let (lost, mean_run) = match self.loss {
            Some(losses) => (losses.ratio()?, losses.runs().mean()),
            None => (self.round_trip.loss.ratio?, self.round_trip.loss.mean_run),
        };
        Some(VoiceReport { assumed, ..VoiceReport::of(codec, network_ns, lost, mean_run) })
    }
}
