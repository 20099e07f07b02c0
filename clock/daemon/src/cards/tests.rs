use std::sync::{Arc, Mutex};

use truechimer_counter::Choice;
use truechimer_time::StampMethod;

use super::*;

const SECOND: i64 = 1_000_000_000;

/// A clock whose readings are made up: count, what it shows, width.
type Readings = Arc<Mutex<Vec<io::Result<(i64, i64, i64)>>>>;

/// Cards with one, of interface 3, that shows what is put there; by a counter of nanoseconds.
fn cards() -> (Cards, Readings) {
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
        is_gone: false,
        log: CardLog::new(Period::NANOSECOND, CountSpan(1)),
        link: Link { speed: None, asked: Count(0) },
        silent: 0,
    };
    let counter = Counter::open(Choice::Raw).unwrap();
    let cards =
        Cards { counter, nominal: Period::NANOSECOND, cards: vec![card], notes: Vec::new() };
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
    cards.look(None);
    readings.lock().unwrap().push(after);
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
    cards.cards[0].link = Link { speed: parse_speed("100\n"), asked: cards.counter.read() };
    let at = 5 * SECOND;
    readings.lock().unwrap().push(Ok((at - 50_000, shown(at - 50_000), 100)));
    cards.look(None);
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
    assert_eq!(Link { speed: None, asked: Count(0) }.takes(90), Span::ZERO);
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
    cards.look(None);
    assert_eq!(cards.notes(), []);
}

#[test]
fn another_row_of_counts_begins_anew() {
    let (mut cards, readings) = cards();
    let at = 5 * SECOND;
    readings.lock().unwrap().push(Ok((at - 50_000, shown(at - 50_000), 100)));
    cards.look(None);
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
    cards.cards[0].link = Link { speed: parse_speed("100"), asked: cards.counter.read() };
    assert!(cards.has(Some(3)) && !cards.has(Some(4)) && !cards.has(None));
    // The counter of the test runs on; what is made up is of before that.
    let at = 5 * SECOND;
    for early in [40_000_000, 20_000_000] {
        readings.lock().unwrap().push(Ok((at - early, shown(at - early), 100)));
        cards.look(None);
    }
    let mut message = |ns, after: i64| {
        readings.lock().unwrap().push(Ok((at + after, shown(at + after), 100)));
        let whole = Wire { frame: Some(90), ..wire(ns) };
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
    readings.lock().unwrap().push(Ok((now - 100_000, shown(now - 100_000), 100)));
    cards.look(None);
    let later = now + 3600 * SECOND;
    readings.lock().unwrap().push(Ok((later, shown(later), 100)));
    let stamp = cards.departure(wire(Some(shown(now))), kernel(now - 5_000));
    assert_eq!(stamp.method, StampMethod::Hardware);
    assert!((stamp.count - Count(now as u64)).abs() <= stamp.error, "{stamp:?}");
    readings.lock().unwrap().push(Ok((later + 1_000, shown(later + 1_000), 100)));
    assert_eq!(cards.departure(wire(None), kernel(now)), kernel(now));
    assert_eq!((cards.reports()[0].sent.hardware, cards.reports()[0].sent.missing), (1, 1));
}
