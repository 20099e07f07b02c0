//! The messages of the socket and the words of a slot: what goes in comes out, and nothing else
//! does.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::atomic::AtomicU64;

use proptest::prelude::*;
use truechimer_group_client::agent::News;
use truechimer_group_client::link::{Answer, Outside, Role, Together, Welcome, WhyRefused};
use truechimer_group_client::message::{self, Hello, ToAgent, limit_to_agent, limit_to_program};
use truechimer_group_client::packet::{Assembly, LONGEST};
use truechimer_group_client::slots::{Answered, Asked, Board, Found, Slot, State};
use truechimer_group_client::{
    Agreed, Bound, Call, GroupTime, Member, Mode, Order, Phase, Point, Post, Refusal, Rejection,
    Round, Thread, Unshifted,
};

const CHECKPOINT: usize = 1 << 20;

fn agreed() -> impl Strategy<Value = Agreed> {
    let utc = prop::option::of((any::<i64>(), any::<i64>()));
    (any::<i64>(), utc, 1..u32::MAX, any::<[u64; 2]>()).prop_map(|(time, utc, who, point)| Agreed {
        time: GroupTime(time),
        utc: utc.map(|(a, b)| Bound { earliest: a.min(b), latest: a.max(b) }),
        synchronizer: Member(who),
        point: Point { generation: point[0], index: point[1] },
    })
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), prop_oneof![0..100_usize, 32_000..34_000_usize, Just(256 << 10)])
        .prop_map(|(byte, length)| vec![byte; length])
}

fn position() -> impl Strategy<Value = Vec<(Thread, Round)>> {
    let entry = any::<[u64; 2]>().prop_map(|[thread, round]| (Thread(thread), Round(round)));
    prop::collection::vec(entry, 0..50)
}

fn to_agent() -> impl Strategy<Value = ToAgent> {
    prop_oneof![
        (any::<u64>(), payload())
            .prop_map(|(token, payload)| ToAgent::Multicast { token, payload }),
        (any::<u64>(), any::<i64>(), "[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,63}", payload()).prop_map(
            |(token, stamp, group, payload)| ToAgent::SendTo { token, stamp, group, payload }
        ),
        any::<[u64; 3]>().prop_map(|[token, generation, index]| ToAgent::Commit {
            token,
            point: Point { generation, index }
        }),
        (any::<u64>(), position(), payload())
            .prop_map(|(join, position, data)| ToAgent::Checkpoint { join, position, data }),
        any::<u64>().prop_map(|gap| ToAgent::Installed { gap }),
        any::<u64>().prop_map(|gap| ToAgent::Restarted { gap }),
        Just(ToAgent::Status),
        (any::<u32>(), 0..3_u8).prop_map(|(member, to)| ToAgent::Shift {
            member: Member(member),
            to: Post::of(to).unwrap(),
        }),
    ]
}

fn news() -> impl Strategy<Value = News> {
    let stamp = prop::option::of(any::<i64>());
    prop_oneof![
        (1..u32::MAX, any::<u64>(), payload(), agreed(), 0..i64::MAX, stamp).prop_map(
            |(from, token, payload, time, lease, stamp)| News::Deliver {
                from: Member(from),
                token,
                payload,
                time,
                lease_end: time.time.0.saturating_add(lease),
                stamp,
            }
        ),
        (any::<u64>(), 0..3_u8).prop_map(|(token, why)| News::Refused {
            token,
            why: match why {
                0 => Refusal::StampTooFarAhead,
                1 => Refusal::Outside,
                _ => Refusal::TooMuch,
            },
        }),
        any::<u64>().prop_map(|token| News::Committed { token }),
        (any::<u64>(), any::<bool>())
            .prop_map(|(token, missed)| News::Uncommitted { token, missed }),
        any::<u64>().prop_map(|gap| News::Missed { gap }),
        any::<u64>().prop_map(|join| News::TakeCheckpoint { join }),
        (any::<u64>(), payload(), position())
            .prop_map(|(gap, data, position)| News::InstallCheckpoint { gap, data, position }),
        prop_oneof![Just(Phase::Outside), Just(Phase::Joining), Just(Phase::Live)]
            .prop_map(News::Phase),
        ".{0,100}".prop_map(News::Status),
        (0..20_u8).prop_map(|why| News::Shifted(Unshifted::of(why).map_or(Ok(()), Err))),
    ]
}

/// Packets through an assembly: the messages that come out.
fn assembled(mut assembly: Assembly, packets: &[Vec<u8>]) -> Vec<(u16, Vec<u8>)> {
    packets.iter().filter_map(|packet| assembly.take(packet).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_programs_say_arrives(messages in prop::collection::vec(to_agent(), 1..5)) {
        let packets: Vec<_> = messages.iter().flat_map(ToAgent::packets).collect();
        prop_assert!(packets.iter().all(|packet| packet.len() <= LONGEST));
        let came = assembled(Assembly::new(limit_to_agent, CHECKPOINT), &packets);
        let came: Vec<_> = came.iter().map(|(kind, body)| ToAgent::of(*kind, body).unwrap()).collect();
        prop_assert_eq!(came, messages);
    }

    #[test]
    fn what_agents_say_arrives(messages in prop::collection::vec(news(), 1..5)) {
        let packets: Vec<_> = messages.iter().flat_map(News::packets).collect();
        prop_assert!(packets.iter().all(|packet| packet.len() <= LONGEST));
        let came = assembled(Assembly::new(limit_to_program, CHECKPOINT), &packets);
        let came: Vec<_> = came.iter().map(|(kind, body)| News::of(*kind, body).unwrap()).collect();
        prop_assert_eq!(came, messages);
    }

    /// Damaged packets are taken for another message or for none, and nothing grows beyond limits.
    #[test]
    fn damage_does_no_harm(
        message in to_agent(),
        news in news(),
        damage in prop::collection::vec((any::<u16>(), any::<u8>()), 1..4),
    ) {
        for (limit, packets) in [
            (limit_to_agent as fn(u16, usize) -> Option<usize>, message.packets()),
            (limit_to_program, news.packets()),
        ] {
            let mut assembly = Assembly::new(limit, CHECKPOINT);
            for mut packet in packets {
                for (at, byte) in &damage {
                    let at = usize::from(*at) % packet.len().min(128);
                    packet[at] = *byte;
                }
                let Ok(complete) = assembly.take(&packet) else { break };
                if let Some((kind, body)) = complete {
                    prop_assert!(body.len() <= limit(kind, CHECKPOINT).unwrap());
                    if let Ok(message) = ToAgent::of(kind, &body) {
                        let again = assembled(Assembly::new(limit, CHECKPOINT), &message.packets());
                        prop_assert_eq!(again, vec![(kind, body.clone())]);
                    }
                    if let Ok(news) = News::of(kind, &body) {
                        let again = assembled(Assembly::new(limit, CHECKPOINT), &news.packets());
                        prop_assert_eq!(again, vec![(kind, body)]);
                    }
                }
            }
        }
    }

    #[test]
    fn slots_hold_requests_and_answers(
        thread in 16..u64::MAX,
        call in 0..8_usize,
        outside in 0..3_usize,
        value in agreed(),
        round in any::<u64>(),
        words in any::<[u64; 8]>(),
    ) {
        let calls = [
            Call::Group, Call::ClockGettime, Call::Gettimeofday, Call::Time, Call::Ftime,
            Call::TimespecGet, Call::Monotonic, Call::Deadline,
        ];
        let outside = [Outside::Wait, Outside::Fail, Outside::Resume][outside];
        let request = (Thread(thread), calls[call], outside);
        let there = message::request_words(request.0, request.1, request.2);
        prop_assert_eq!(message::request(&there), Ok(request));
        let answer = Ok(Answer { value, round: Round(round) });
        prop_assert_eq!(message::answer(&message::answer_words(&answer)), Ok(answer));
        // Any words are an answer that has these words, or none.
        if let Ok(answer) = message::answer(&words) {
            prop_assert_eq!(message::answer(&message::answer_words(&answer)), Ok(answer));
        }
    }

    #[test]
    fn greetings_arrive(
        family in any::<u64>(),
        role in 0..4_u8,
        count in 0..=255_u8,
        member in 1..u32::MAX,
        m in 0..6_u8,
    ) {
        let role =
            [Role::Program, Role::Reader, Role::Watcher, Role::Passing][usize::from(role)];
        let together = match count {
            0 => Together::All,
            255 => Together::Apart,
            count => Together::Count(count),
        };
        let hello = Hello { version: 5, role, family, together };
        prop_assert_eq!(Hello::of(&hello.packet()), Ok(hello));
        let mode = [Mode::Active, Mode::SemiActive, Mode::Passive][usize::from(m % 3)];
        let order = [Order::Monotone, Order::Published][usize::from(m / 3)];
        let welcome = Welcome { member: Member(member), family, mode, order };
        prop_assert_eq!(message::greeting(&message::welcome_packet(&welcome)), Ok(Ok(welcome)));
        let refusal = message::unwelcome_packet(WhyRefused::Taken, member);
        prop_assert_eq!(message::greeting(&refusal), Ok(Err((WhyRefused::Taken, 5, member))));
    }
}

#[test]
fn rejections_arrive() {
    for why in [
        Rejection::Outside,
        Rejection::Behind,
        Rejection::Busy,
        Rejection::TooManyThreads,
        Rejection::Observer,
        Rejection::Missed,
        Rejection::Full,
    ] {
        assert_eq!(message::answer(&message::answer_words(&Err(why))), Ok(Err(why)));
    }
}

#[test]
fn whoever_has_lost_a_slot_finds_out() {
    let slot = Slot::<AtomicU64>::new();
    let ours = slot.submit(slot.claim(7).unwrap(), &[9; 7]);
    assert_eq!((ours.owner(), ours.serial(), ours.state()), (7, 1, Some(State::Pending)));
    assert!(slot.claim(8).is_none());
    let Asked::Request(seen, words) = slot.asked() else { panic!() };
    assert_eq!((seen, words), (ours, [9; 7]));
    assert_eq!(slot.look(ours), Found::Nothing);
    // The agent takes it for a dead process's.
    assert!(slot.free(seen));
    assert_eq!(slot.look(ours), Found::Lost);
    assert_eq!(slot.answer(seen, &[0; 8]), Answered::Void);
    let next = slot.submit(slot.claim(8).unwrap(), &[1; 7]);
    assert_eq!(slot.look(ours), Found::Lost);
    assert!(!slot.abandon(ours) && slot.sleep(ours).is_none());
    assert_eq!(slot.answer(seen, &[0; 8]), Answered::Void);
    assert_eq!(slot.sleep(next).unwrap().state(), Some(State::Asleep));
    assert_eq!(slot.answer(next, &[5; 8]), Answered::Wake);
    assert_eq!(slot.look(next), Found::Answer([5; 8]));
    // The copy of the thread that a fork has made finds out as well.
    assert_eq!(slot.look(next), Found::Lost);
}

#[test]
fn the_agent_finds_what_was_announced() {
    let board = Board::<AtomicU64, 16>::new();
    assert!(!board.rung() && board.sleep());
    assert!(board.announce(1023) && board.announce(64));
    assert!(!board.sleep(), "it sleeps on");
    assert!(!board.announce(65), "it is awake");
    let found: Vec<_> = board.take().collect();
    assert_eq!(found, [(64, 3), (960, 1 << 63)]);
    assert!(!board.rung());
}
