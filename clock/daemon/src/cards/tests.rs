use std::sync::{Arc, Mutex};

use truechimer_counter::Choice;
use truechimer_time::StampMethod;

use super::*;

const SECOND: i64 = 1_000_000_000;

/// A clock whose readings are made up: count, what it shows, width.
pub(crate) type Readings = Arc<Mutex<Vec<io::Result<(i64, i64, i64)>>>>;

/// Cards with one, of interface 3, that shows what is put there; by a counter of nanoseconds.
pub(crate) fn cards() -> (Cards, Readings) {
    let readings = Readings::default();
    let told = Arc::clone(&readings);
    let read = move || {
        let mut all = told.lock().unwrap();
        let (count, device_ns, width) = all.remove(0)?;
        let at = |count: i64| Count(count as u64);
        Ok(DevicePair { before: at(count - width), device_ns, after: at(count + width) })
    };
    let card = Card {
        report: CardReport { interface: "no-such-link".into(), ..CardReport::default() },
        index: 3,
        stamping: None,
        arrivals: Arrivals { ntp: true, ptp: true },
        read: Box::new(read),
        clock: Clock::Read(0),
        log: CardLog::new(Period::NANOSECOND, CountSpan(1)),
        link: Link(None),
        silent: [0; 2],
    };
    let counter = Counter::open(Choice::Raw).unwrap();
    let (nominal, cards, renewed) = (Period::NANOSECOND, vec![card], counter.read());
    let cards = Cards { counter, nominal, cards, notes: Vec::new(), renewed, unstamped: 0 };
    (cards, readings)
}

/// The card's clock is 100 s ahead of the counter, and 20 ppm fast.
fn shown(count: i64) -> i64 {
    100 * SECOND + count + count / 50_000
}

fn kernel(count: i64) -> Stamp {
    Stamp { count: Count(count as u64), error: CountSpan(500), method: StampMethod::Kernel }
}

fn wire(card_ns: Option<i64>) -> Wire {
    Wire { card_ns, interface: Some(3), frame: None }
}

/// An exchange that left at `at` and came back 1 ms later, with what the card stamped.
fn exchange(
    cards: &mut Cards,
    readings: &Readings,
    at: i64,
    stamps: [Option<i64>; 2],
    after: io::Result<(i64, i64, i64)>,
) -> [Stamp; 2] {
    readings.lock().unwrap().push(Ok((at - 50_000, shown(at - 50_000), 100)));
    cards.look(Of::Any);
    // What the card has not stamped needs no reading.
    if stamps.iter().any(Option::is_some) {
        readings.lock().unwrap().push(after);
    }
    let (sent, received) = (kernel(at - 2_000), kernel(at + SECOND / 1000 + 3_000));
    cards.exchange(stamps.map(wire), sent, received)
}

fn good(at: i64) -> io::Result<(i64, i64, i64)> {
    let after = at + SECOND / 1000 + 60_000;
    Ok((after, shown(after), 100))
}

fn both(at: i64) -> [Option<i64>; 2] {
    [Some(shown(at)), Some(shown(at + SECOND / 1000))]
}

#[test]
fn an_exchange_by_the_card() {
    let (mut cards, readings) = cards();
    let at = 5 * SECOND;
    let stamps = exchange(&mut cards, &readings, at, both(at), good(at));
    for (stamp, truth) in stamps.iter().zip([at, at + SECOND / 1000]) {
        assert_eq!(stamp.method, StampMethod::Hardware);
        let off = (stamp.count - Count(truth as u64)).abs();
        assert!(off <= stamp.error && stamp.error.0 < 1_000, "{stamp:?} of {truth}");
    }
    let report = &cards.reports()[0];
    assert_eq!((report.sent.hardware, report.received.hardware), (1, 1));
    assert_eq!(cards.notes(), []);
}

#[test]
fn a_reply_has_arrived_when_all_of_its_frame_has() {
    let (mut cards, readings) = cards();
    cards.cards[0].link = Link(parse_speed("100\n"));
    let at = 5 * SECOND;
    readings.lock().unwrap().push(Ok((at - 50_000, shown(at - 50_000), 100)));
    cards.look(Of::Any);
    readings.lock().unwrap().push(good(at));
    let whole = |ns| Wire { frame: Some(90), ..wire(Some(ns)) };
    let back = at + SECOND / 1000;
    let wires = [whole(shown(at)), whole(shown(back))];
    let stamps = cards.exchange(wires, kernel(at - 2_000), kernel(back + 10_000));
    // 94 bytes at 100 Mbit/s take 7.52 µs.
    let late = (stamps[1].count - Count(back as u64)).0 - 7_520;
    assert!(late.abs() <= stamps[1].error.0, "{late}");
    assert!((stamps[0].count - Count(at as u64)).abs() <= stamps[0].error);
    for (text, speed) in [("1000", Some(125_000_000)), ("-1\n", None), ("0", None), ("", None)] {
        assert_eq!(parse_speed(text), speed, "{text}");
    }
    assert_eq!(Link(None).takes(90), Span::ZERO);
}

#[test]
fn what_the_card_lacks_the_kernel_has() {
    let (mut cards, readings) = cards();
    let at = 5 * SECOND;
    let [sent, received] = exchange(&mut cards, &readings, at, [None, both(at)[1]], good(at));
    assert_eq!((sent.method, received.method), (StampMethod::Kernel, StampMethod::Hardware));
    assert_eq!(sent, kernel(at - 2_000));
    assert_eq!(
        cards.reports()[0].sent.named(),
        [("hardware", 0), ("missing", 1), ("stepped", 0), ("unfit", 0)]
    );
    // By another interface: none of ours is asked, and none is missed.
    let elsewhere = Wire { interface: Some(4), ..wire(Some(shown(at))) };
    let stamps = cards.exchange([elsewhere, Wire::default()], sent, kernel(at));
    assert_eq!(stamps, [sent, kernel(at)]);
    assert_eq!(cards.reports()[0].sent.missing, 1);
}

#[test]
fn a_step_of_the_card_s_clock_and_a_stamp_of_another_packet_are_refused() {
    let (mut cards, readings) = cards();
    let at = 5 * SECOND;
    let by = 3 * SECOND;
    let after = at + SECOND / 1000 + 60_000;
    let stepped = [Some(shown(at)), Some(shown(at + SECOND / 1000) + by)];
    let after = Ok((after, shown(after) + by, 100));
    let stamps = exchange(&mut cards, &readings, at, stepped, after);
    assert!(stamps.iter().all(|stamp| stamp.method == StampMethod::Kernel));
    let CardReport { sent, received, .. } = cards.reports()[0].clone();
    assert_eq!((sent.stepped, received.stepped), (1, 1));

    // From before the request, and from after the kernel saw the reply.
    let (mut cards, readings) = self::cards();
    let foreign = [Some(shown(at - 40_000)), Some(shown(at + SECOND / 1000 + 30_000))];
    let stamps = exchange(&mut cards, &readings, at, foreign, good(at));
    assert!(stamps.iter().all(|stamp| stamp.method == StampMethod::Kernel));
    let CardReport { sent, received, .. } = cards.reports()[0].clone();
    assert_eq!((sent.unfit, received.unfit), (1, 1));
}

#[test]
fn a_stamp_that_is_known_badly_is_none() {
    let (mut cards, readings) = cards();
    let at = 5 * SECOND;
    // Reading the clock took 40 µs.
    let after = at + SECOND / 1000 + 60_000;
    let vague = Ok((after, shown(after), 20_000));
    let stamps = exchange(&mut cards, &readings, at, both(at), vague);
    assert!(stamps.iter().all(|stamp| stamp.method == StampMethod::Kernel));
    assert_eq!(cards.reports()[0].received.unfit, 1);
}

#[test]
fn silence_is_told_once_and_its_end_too() {
    let (mut cards, readings) = cards();
    let mut notes = Vec::new();
    for number in 1..=9 {
        let at = number * 5 * SECOND;
        let stamps = if number <= 7 { [None, None] } else { both(at) };
        exchange(&mut cards, &readings, at, stamps, good(at));
        notes.extend(cards.notes().into_iter().map(|(level, text)| (number, level, text)));
    }
    let [(4, Level::Warning, lacking), (8, Level::Info, again)] = notes.as_slice() else {
        panic!("{notes:?}");
    };
    assert!(lacking.contains("4 times in a row") && again.contains("again"), "{notes:?}");
    // One that stamps no arrivals is not missed.
    cards.cards[0].arrivals = Arrivals::default();
    for number in 10..=19 {
        let at = number * 5 * SECOND;
        exchange(&mut cards, &readings, at, [both(at)[0], None], good(at));
    }
    assert_eq!(cards.notes(), []);
}

#[test]
fn a_clock_that_is_gone_is_told_and_left_alone() {
    let (mut cards, readings) = cards();
    let at = 5 * SECOND;
    let gone = Err(io::Error::from_raw_os_error(libc::ENODEV));
    let stamps = exchange(&mut cards, &readings, at, both(at), gone);
    assert!(stamps.iter().all(|stamp| stamp.method == StampMethod::Kernel));
    let notes = cards.notes();
    assert!(
        matches!(notes.as_slice(), [(Level::Warning, text)] if text.contains("No such device"))
    );
    // It is not read again: nothing is there to be read.
    cards.look(Of::Any);
    assert_eq!(cards.notes(), []);
}

#[test]
fn a_clock_that_fails_for_once_is_read_again() {
    let (mut cards, readings) = cards();
    let busy = || Err(io::Error::from_raw_os_error(libc::EBUSY));
    let mut number = 0;
    let mut next = |cards: &mut Cards, after| {
        number += 1;
        exchange(cards, &readings, number * 5 * SECOND, both(number * 5 * SECOND), after)
    };
    // The kernel's stamps for one exchange, without a word.
    assert_eq!(next(&mut cards, good(5 * SECOND))[0].method, StampMethod::Hardware);
    assert_eq!(next(&mut cards, busy())[0].method, StampMethod::Kernel);
    assert_eq!(next(&mut cards, good(15 * SECOND))[0].method, StampMethod::Hardware);
    assert_eq!((cards.notes(), cards.cards[0].clock), (vec![], Clock::Read(0)));
    // Four in a row: it is let be for a minute.
    let wires = both(SECOND).map(wire);
    readings.lock().unwrap().extend((0..5).map(|_| busy()));
    (0..FAILED).for_each(|_| cards.look(Of::Stamped(&wires)));
    let Clock::Resting(since) = cards.cards[0].clock else { panic!("read on") };
    let notes = cards.notes();
    assert!(
        matches!(notes.as_slice(), [(Level::Warning, text)] if text.contains("every minute")),
        "{notes:?}"
    );
    assert!(!cards.has(Some(3)));
    cards.look(Of::Any);
    assert_eq!(readings.lock().unwrap().len(), 1, "let be");
    // Still busy after that minute, and well after the next.
    for (state, note) in [(None, None), (Some(Clock::Read(0)), Some("again"))] {
        cards.cards[0].clock = Clock::Resting(since - Period::NANOSECOND.counts(REST));
        cards.look(Of::Number(3));
        let notes = cards.notes();
        assert_eq!(notes.len(), usize::from(note.is_some()), "{notes:?}");
        assert!(note.is_none_or(|note| notes[0].1.contains(note)), "{notes:?}");
        assert!(state.is_none_or(|state| cards.cards[0].clock == state));
        readings.lock().unwrap().push(good(40 * SECOND));
    }
    assert!(cards.has(Some(3)));
}

#[test]
fn clocks_are_read_of_those_alone_that_a_packet_goes_by() {
    let (mut cards, readings) = cards();
    let stamped = wire(Some(1));
    for of in [
        Of::Name("eth7"),
        Of::Number(4),
        Of::Stamped(&[wire(None), Wire { interface: Some(4), ..stamped }]),
    ] {
        cards.look(of);
    }
    for of in [Of::Any, Of::Name("no-such-link"), Of::Number(3), Of::Stamped(&[stamped, stamped])] {
        readings.lock().unwrap().push(good(5 * SECOND));
        cards.look(of);
        assert!(readings.lock().unwrap().is_empty(), "{of:?}");
    }
}

#[test]
fn requests_that_nobody_stamps_are_sent_without_asking_cards() {
    let (mut cards, _) = cards();
    let user = |count| Stamp { method: StampMethod::User, ..kernel(count) };
    let at = 5 * SECOND;
    let exchange = |cards: &mut Cards, sent| {
        cards.exchange([Wire::default(); 2], sent, kernel(at + 1_000));
        cards.are_asked()
    };
    for _ in 0..2 {
        for _ in 1..SILENT {
            assert!(exchange(&mut cards, user(at)));
        }
        assert!(exchange(&mut cards, kernel(at)), "it is stamped after all");
    }
    for number in 1..=2 * SILENT {
        assert_eq!(exchange(&mut cards, user(at)), number < SILENT);
    }
    let notes = cards.notes();
    assert!(
        matches!(notes.as_slice(), [(Level::Warning, text)] if text.contains("tstamp_allow_data")),
        "{notes:?}"
    );
}

#[test]
fn an_interface_on_top_of_another_is_none_of_a_card() {
    let classes = std::env::temp_dir().join(format!("truechimer-lower-{}", std::process::id()));
    for path in ["eth0/queues", "eth0.5/lower_eth0", "bond0/lower_eth1", "bond0/lower_eth0"] {
        std::fs::create_dir_all(classes.join(path)).unwrap();
    }
    let names = ["eth0", "eth0.5", "bond0", "no-such-link"].map(|name| lower(&classes, name));
    std::fs::remove_dir_all(&classes).unwrap();
    assert_eq!(names, [None, Some("eth0".into()), Some("eth0".into()), None]);
}

#[test]
fn cards_are_to_stamp_what_their_interfaces_are_for() {
    let ptp = [
        ("eth0", Transport::Udp6),
        ("eth1", Transport::Ethernet),
        ("eth2", Transport::Ethernet),
        ("eth2", Transport::Udp4),
    ];
    let wishes = ["eth0", "eth1", "eth2", "eth3"].map(|name| wish(name, &ptp));
    assert_eq!(wishes, [Wish::PtpUdp, Wish::PtpEthernet, Wish::Ptp, Wish::Ntp]);
}

#[test]
fn another_row_of_counts_begins_anew() {
    let (mut cards, readings) = cards();
    let at = 5 * SECOND;
    readings.lock().unwrap().push(Ok((at - 50_000, shown(at - 50_000), 100)));
    cards.look(Of::Any);
    cards.forget();
    readings.lock().unwrap().push(good(at));
    let stamps =
        cards.exchange(both(at).map(wire), kernel(at - 2_000), kernel(at + SECOND / 1000 + 3_000));
    assert!(stamps.iter().all(|stamp| stamp.method == StampMethod::Kernel));
}

#[test]
fn what_cannot_be_had_is_told() {
    let counter = Counter::open(Choice::Raw).unwrap();
    let open = |wanted| {
        let mut cards = Cards::open(&wanted, &[], counter, Period::NANOSECOND, CountSpan(1));
        assert!(cards.is_empty() && !cards.restores() && cards.reports().is_empty());
        cards.notes()
    };
    assert_eq!(open(HardwareStamps::None), []);
    let named = |name: &str| open(HardwareStamps::Of(vec![name.to_owned()]));
    let lo = named("lo");
    assert!(
        matches!(lo.as_slice(), [(Level::Warning, text)] if text.contains("ethtool -T lo")),
        "{lo:?}"
    );
    let none = named("no-such-link");
    assert!(
        matches!(none.as_slice(), [(Level::Warning, text)] if text.contains("ip link")),
        "{none:?}"
    );
}

#[test]
fn messages_of_ptp_are_stamped_at_the_beginning_of_their_frames() {
    let (mut cards, readings) = cards();
    cards.cards[0].link = Link(parse_speed("100"));
    assert!(cards.has(Some(3)) && !cards.has(Some(4)) && !cards.has(None));
    // The counter of the test runs on; what is made up is of before that.
    let at = 5 * SECOND;
    for early in [40_000_000, 20_000_000] {
        readings.lock().unwrap().push(Ok((at - early, shown(at - early), 100)));
        cards.look(Of::Any);
    }
    let mut message = |ns: Option<i64>, after: i64| {
        let whole = Wire { frame: Some(90), ..wire(ns) };
        if ns.is_some() {
            readings.lock().unwrap().push(Ok((at + after, shown(at + after), 100)));
        }
        cards.look(Of::Stamped(&[whole]));
        cards.arrival(whole, kernel(at + after - 20_000))
    };
    let stamp = message(Some(shown(at)), 60_000);
    assert_eq!(stamp.method, StampMethod::Hardware);
    assert!((stamp.count - Count(at as u64)).abs() <= stamp.error, "{stamp:?}");
    // Of long before the kernel's, and of none.
    assert_eq!(message(Some(shown(at - 19_000_000)), 200_000).method, StampMethod::Kernel);
    assert_eq!(message(None, 300_000), kernel(at + 280_000));
    let report = &cards.reports()[0];
    assert_eq!(
        (report.received.hardware, report.received.unfit, report.received.missing),
        (1, 1, 1)
    );
    // On an interface without a card nothing is read or counted.
    let elsewhere = Wire { interface: Some(4), ..wire(Some(1)) };
    assert_eq!(cards.arrival(elsewhere, kernel(at)), kernel(at));
}

#[test]
fn a_question_of_ptp_left_when_the_card_says() {
    let (mut cards, readings) = cards();
    // By the counter's own counts, as the departure is looked at now.
    let now = i64::try_from(cards.counter.read().0).unwrap();
    for early in [5 * SECOND, 3 * SECOND, SECOND, 100_000] {
        readings.lock().unwrap().push(Ok((now - early, shown(now - early), 100)));
        cards.look(Of::Any);
    }
    // Then as the counter has it, so that a reading is of when it is taken.
    let counter = cards.counter;
    cards.cards[0].read = Box::new(move || {
        let count = counter.read();
        let device_ns = shown(i64::try_from(count.0).unwrap());
        Ok(DevicePair { before: count, device_ns, after: count })
    });
    let stamp = cards.departure(wire(Some(shown(now))), kernel(now - 5_000));
    assert_eq!(stamp.method, StampMethod::Hardware);
    assert!((stamp.count - Count(now as u64)).abs() <= stamp.error, "{stamp:?}");
    // Nothing is read for what the card has not stamped.
    assert_eq!(cards.departure(wire(None), kernel(now)), kernel(now));
    assert_eq!((cards.reports()[0].sent.hardware, cards.reports()[0].sent.missing), (1, 1));
}

#[test]
fn steps_and_silence_are_told_of_ptp_as_well() {
    let (mut cards, readings) = cards();
    let mut notes = Vec::new();
    let (mut count, mut by) = (5 * SECOND, 0);
    let mut message = |cards: &mut Cards, stamped: bool, step: i64| {
        // A pair and a stamp each 10 ms; the step is between the two.
        count += SECOND / 100;
        let ns = shown(count) + by;
        by += step;
        let after = count + 50_000;
        let wire = wire(stamped.then_some(ns));
        if stamped {
            readings.lock().unwrap().push(Ok((after, shown(after) + by, 100)));
        }
        cards.look(Of::Stamped(&[wire]));
        let stamp = cards.arrival(wire, kernel(count + 3_000));
        notes.extend(cards.notes());
        stamp.method
    };
    message(&mut cards, true, 0);
    message(&mut cards, true, 0);
    assert_eq!(message(&mut cards, true, 0), StampMethod::Hardware);
    assert_eq!(message(&mut cards, true, SECOND), StampMethod::Kernel);
    for _ in 0..2 * SILENT {
        assert_eq!(message(&mut cards, false, 0), StampMethod::Kernel);
    }
    // The pair after the silence is long after the one before.
    message(&mut cards, true, 0);
    assert_eq!(message(&mut cards, true, 0), StampMethod::Hardware);
    let received = cards.reports()[0].received;
    assert_eq!((received.stepped, received.missing), (1, u64::from(2 * SILENT)));
    let told: Vec<bool> = notes.iter().map(|(level, _)| *level == Level::Warning).collect();
    assert_eq!(told, [true, false], "{notes:?}");
    assert!(notes[0].1.contains("4 times in a row") && notes[1].1.contains("again"), "{notes:?}");
}

#[test]
fn what_a_card_cannot_tell_before_its_rate_is_known_is_no_fault_of_its() {
    let (mut cards, readings) = cards();
    for number in 1..=i64::from(2 * SILENT) {
        let at = 5 * SECOND + number * SECOND / 10;
        let wire = wire(Some(shown(at)));
        readings.lock().unwrap().push(Ok((at + 50_000, shown(at + 50_000), 100)));
        cards.look(Of::Stamped(&[wire]));
        // 200 ppm of 0.1 s.
        assert_eq!(cards.arrival(wire, kernel(at + 3_000)).method, StampMethod::Kernel);
    }
    assert_eq!(cards.notes(), []);
}

#[test]
fn a_card_that_stamps_one_direction_alone_is_told_of() {
    let (mut cards, readings) = cards();
    let mut told = Vec::new();
    for number in 1..=i64::from(2 * SILENT) {
        let at = 5 * SECOND + number * SECOND / 100;
        // No question is stamped, and each message that comes is.
        cards.departure(wire(None), kernel(at - 1_000_000));
        readings.lock().unwrap().push(Ok((at + 50_000, shown(at + 50_000), 100)));
        let stamped = wire(Some(shown(at)));
        cards.look(Of::Stamped(&[stamped]));
        cards.arrival(stamped, kernel(at + 3_000));
        told.extend(cards.notes());
    }
    assert!(
        matches!(told.as_slice(), [(Level::Warning, text)] if text.contains("in a row")),
        "{told:?}"
    );
}

#[test]
fn below_a_vlan_is_a_card_that_no_name_tells() {
    let (mut cards, _) = cards();
    assert!(matches!(cards.below(Some("no-such-link")), Of::Name("no-such-link")));
    for other in [None, Some("no-such-link.5")] {
        assert!(matches!(cards.below(other), Of::Any), "{other:?}");
    }
    assert!(cards.may_have(Some(3)) && !cards.may_have(Some(4)) && !cards.may_have(None));
    // While it rests a port that is opened may count on it; once it is gone none may.
    cards.cards[0].clock = Clock::Resting(Count(0));
    assert!(cards.may_have(Some(3)) && !cards.has(Some(3)));
    cards.cards[0].clock = Clock::Gone;
    assert!(!cards.may_have(Some(3)));
}
