//! Bytes that come over the ring to a member of a group: any, by themselves and with a header that
//! lets them in, to the codec and to an engine that takes part in a group.
#![no_main]

use truechimer_group::{
    Action, Bound, Engine, Event, Group, Member, Own, Reading, Utc, check_wire,
};

const HEADER: usize = 51;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    check_wire(bytes);
    let members = [Member(1), Member(2), Member(3)];
    let group = Group::new("fuzz", &members);
    let digest = group.digest();
    let own = Own {
        stagger_ns: 0,
        buffer: 16,
        checkpoints: bytes.len() % 2 == 1,
        ..Own::new(Member(1), 1)
    };
    let Ok(mut engine) = Engine::new(group, own) else { panic!("the settings are good") };
    let mut physical = 1_000;
    let mut sent = Vec::new();
    deliver(
        &mut engine,
        &mut physical,
        Event::Configuration { members: &members, lost: &[] },
        &mut sent,
    );
    // Each part of the input is a message: who from, how long, and the message from its point on.
    let mut rest = bytes;
    while let [from, length, tail @ ..] = rest {
        let (body, tail) = tail.split_at((*length as usize).min(tail.len()));
        rest = tail;
        let from_member = Member(u32::from(*from % 4) + 1);
        if *from & 0x80 != 0 && !sent.is_empty() {
            // One of the engine's own comes back.
            let own: Vec<u8> = sent.remove(0);
            deliver(
                &mut engine,
                &mut physical,
                Event::Delivered { from: Member(1), bytes: &own },
                &mut sent,
            );
            continue;
        }
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend_from_slice(b"TCGR\x03\x00");
        message.extend_from_slice(&digest.to_le_bytes());
        message.extend_from_slice(&1u64.to_le_bytes());
        message.extend_from_slice(body);
        check_wire(&message);
        deliver(
            &mut engine,
            &mut physical,
            Event::Delivered { from: from_member, bytes: &message },
            &mut sent,
        );
        if *from & 0x40 != 0 {
            deliver(
                &mut engine,
                &mut physical,
                Event::Configuration { members: &members, lost: &[Member(3)] },
                &mut sent,
            );
        }
    }
});

fn deliver(engine: &mut Engine, physical: &mut i64, event: Event<'_>, sent: &mut Vec<Vec<u8>>) {
    *physical += 1_000_000;
    let best = 1_700_000_000_000_000_000 + *physical;
    let bound = Bound { earliest: best - 1_000, latest: best + 1_000 };
    let now = Reading { physical: *physical, utc: Some(Utc { best, bound }) };
    engine.handle(now, event);
    engine.flush(now);
    while let Some(action) = engine.next_action() {
        if let Action::Send(bytes) = action
            && sent.len() < 64
        {
            check_wire(&bytes);
            sent.push(bytes);
        }
    }
    engine.deadline();
    engine.status();
}
