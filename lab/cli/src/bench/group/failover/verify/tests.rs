//! Histories that are right, and the same doctored: each must be refused for what was done to it.

use truechimer_group::{Bound, GroupTime};

use super::*;

/// Records of each life.
type Lives = Vec<(u32, u32, Vec<Record>)>;

const MS: i64 = 1_000_000;

fn point(generation: u64, index: u64) -> Point {
    Point { generation, index }
}

fn agreed(generation: u64, index: u64, synchronizer: u32) -> Agreed {
    let time = 1_000_000_000 + index as i64 * MS;
    Agreed {
        time: GroupTime(time),
        utc: Some(Bound { earliest: time - 10, latest: time + 10 }),
        synchronizer: Member(synchronizer),
        point: point(generation, index),
    }
}

fn at(index: u64, what: What) -> Record {
    let done = index as i64 * MS + 500;
    Record { began: done - 400, done, what }
}

fn value(thread: u64, round: u64, generation: u64, index: u64) -> Record {
    let value = agreed(generation, index, 1 + (index % 3) as u32);
    at(index, What::Value { thread, round, value })
}

fn message(from: u32, content: u64, generation: u64, index: u64) -> Record {
    let value = agreed(generation, index, from);
    at(index, What::Message { from: Member(from), content, value })
}

/// Three nodes; two threads and a message in turn. Node 3 is cut off at 30, sees one orphan, is
/// outside, and comes back at 60 in a second life.
fn right() -> Lives {
    let record = |index: u64, generation: u64| match index % 3 {
        0 => value(16, index / 3, generation, index),
        1 => value(17, index / 3, generation, index),
        _ => message(1 + (index / 3 % 3) as u32, index, generation, index),
    };
    let generation = |index: u64| if index < 30 { 1 } else { 2 + u64::from(index >= 60) };
    let whole: Vec<Record> = (1..90).map(|index| record(index, generation(index))).collect();
    let mut first: Vec<Record> = (1..30).map(|index| record(index, 1)).collect();
    first.push(at(20, What::Committed { point: point(1, 20) }));
    // Nobody else got this message; the others have another one there.
    let mut orphan = value(16, 10, 1, 30);
    if let What::Value { value, .. } = &mut orphan.what {
        value.synchronizer = Member(3);
        value.time = GroupTime(value.time.0 + 7);
    }
    first.push(orphan);
    first.push(at(31, What::Phase(Phase::Outside)));
    first.push(at(31, What::Turn(Phase::Outside)));
    first.push(at(33, What::Refused { thread: 16, cause: Cause::Outside }));
    let second: Vec<Record> = (60..90).map(|index| record(index, 3)).collect();
    let mut other = whole.clone();
    other.push(at(89, What::Committed { point: point(3, 89) }));
    vec![(1, 0, whole), (2, 0, other), (3, 0, first), (3, 1, second)]
}

fn verdict(lives: &Lives) -> Verdict {
    let mut verifier = Verifier::default();
    verifier.allow(Window { from: 30 * MS, to: 61 * MS, node: Some(3) });
    for (node, number, records) in lives {
        let id = verifier.life(*node, *number);
        for record in records {
            verifier.record(id, record);
        }
    }
    verifier.finish()
}

fn kinds(lives: &Lives) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = verdict(lives).violations.iter().map(|found| found.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// The record of a life whose kind and place fit.
fn find(records: &mut [Record], wanted: impl Fn(&What) -> bool) -> &mut Record {
    records.iter_mut().find(|record| wanted(&record.what)).unwrap()
}

fn change(lives: &mut Lives, life: usize, thread: u64, round: u64, to: impl Fn(&mut Agreed)) {
    let record = find(
        &mut lives[life].2,
        |what| matches!(what, What::Value { thread: t, round: r, .. } if (*t, *r) == (thread, round)),
    );
    if let What::Value { value, .. } = &mut record.what {
        to(value);
    }
}

fn remove(lives: &mut Lives, life: usize, wanted: impl Fn(&What) -> bool) {
    let place = lives[life].2.iter().position(|record| wanted(&record.what)).unwrap();
    lives[life].2.remove(place);
}

#[test]
fn what_is_right_passes_and_orphans_are_counted() {
    let verdict = verdict(&right());
    assert_eq!(verdict.violations, []);
    assert_eq!(verdict.tally.orphans, 1);
    assert_eq!(verdict.tally.refused_outside, 1);
    assert_eq!(verdict.tally.lives, 4);
    assert!(verdict.tally.rounds > 50 && verdict.tally.messages > 25);
}

#[test]
fn another_value_for_a_round_is_a_disagreement() {
    for life in 0..4 {
        let mut lives = right();
        change(&mut lives, life, 16, if life == 3 { 25 } else { 5 }, |v| v.time.0 += 1);
        assert_eq!(kinds(&lives), [Kind::Disagreement], "life {life}");
    }
}

#[test]
fn another_synchronizer_bound_or_place_for_a_round_is_a_disagreement() {
    let mut lives = right();
    change(&mut lives, 1, 17, 4, |v| v.synchronizer = Member(9));
    assert_eq!(kinds(&lives), [Kind::Disagreement]);
    let mut lives = right();
    change(&mut lives, 1, 17, 4, |v| v.utc = None);
    assert_eq!(kinds(&lives), [Kind::Disagreement]);
    let mut lives = right();
    change(&mut lives, 1, 17, 4, |v| v.point.index += 1);
    assert!(kinds(&lives).contains(&Kind::Disagreement));
}

#[test]
fn an_orphan_must_not_have_been_committed() {
    let mut lives = right();
    lives[2].2.push(at(34, What::Committed { point: point(1, 30) }));
    assert_eq!(kinds(&lives), [Kind::CommitLost]);
}

#[test]
fn nobody_goes_on_after_an_orphan() {
    let mut lives = right();
    lives[2].2.push(value(16, 11, 2, 33));
    let kinds = kinds(&lives);
    // It was outside by then, too.
    assert_eq!(kinds, [Kind::Disagreement, Kind::WhileOutside]);
}

#[test]
fn the_history_does_not_go_on_in_a_life_after_an_orphan() {
    let mut lives = right();
    // The orphan now comes before what all saw in that generation.
    change(&mut lives, 2, 16, 10, |v| v.point = point(1, 21));
    assert!(kinds(&lives).contains(&Kind::Disagreement));
}

#[test]
fn a_thread_that_goes_back_is_a_roll_back() {
    let mut lives = right();
    for life in 0..3 {
        change(&mut lives, life, 16, 6, |v| v.time.0 -= 3 * MS);
    }
    assert_eq!(kinds(&lives), [Kind::RollBack, Kind::RealTime]);
}

#[test]
fn a_value_of_one_thread_before_that_of_another_is_a_roll_back() {
    let mut lives = right();
    for life in 0..3 {
        // Still greater than its own thread's last, but not than the message between.
        change(&mut lives, life, 16, 6, |v| v.time.0 -= 2 * MS);
    }
    assert_eq!(kinds(&lives), [Kind::RollBack, Kind::RealTime]);
}

#[test]
fn two_equal_values_are_a_roll_back() {
    let mut lives = right();
    for life in 0..3 {
        change(&mut lives, life, 17, 6, |v| v.time.0 -= MS);
    }
    assert_eq!(kinds(&lives), [Kind::RollBack, Kind::RealTime]);
}

#[test]
fn going_back_over_a_restart_is_a_roll_back() {
    let mut lives = right();
    // The orphan was far ahead: the next life must not be behind it.
    change(&mut lives, 2, 16, 10, |v| v.time.0 += 40 * MS);
    assert_eq!(kinds(&lives), [Kind::RollBack]);
}

#[test]
fn a_round_that_is_missing_or_doubled_is_seen() {
    let wanted = |what: &What| matches!(what, What::Value { thread: 17, round: 12, .. });
    let mut lives = right();
    remove(&mut lives, 0, wanted);
    assert_eq!(kinds(&lives), [Kind::LostRound]);
    let mut lives = right();
    let twice = *find(&mut lives[1].2, wanted);
    let place = lives[1].2.iter().position(|record| *record == twice).unwrap();
    lives[1].2.insert(place, twice);
    assert_eq!(kinds(&lives), [Kind::LostRound]);
}

#[test]
fn a_program_that_was_outside_has_not_missed_anything_either() {
    let mut lives = right();
    let gap = |r: &Record| (31 * MS..50 * MS).contains(&r.done);
    lives[1].2.retain(|record| !gap(record));
    assert_eq!(kinds(&lives), [Kind::LostRound, Kind::MessageLost]);
    // It was told, but goes on all the same.
    let place = lives[1].2.iter().position(|record| record.done >= 50 * MS).unwrap();
    lives[1].2.insert(place, at(50, What::Turn(Phase::Live)));
    lives[1].2.insert(place, at(50, What::Turn(Phase::Outside)));
    assert_eq!(kinds(&lives), [Kind::LostRound, Kind::MessageLost]);
}

#[test]
fn a_reading_that_was_refused_may_have_been_a_round() {
    let mut verifier = Verifier::default();
    verifier.allow(Window { from: 0, to: 100 * MS, node: None });
    let id = verifier.life(1, 0);
    let refused = at(2, What::Refused { thread: 16, cause: Cause::Outside });
    let other = at(2, What::Refused { thread: 17, cause: Cause::Outside });
    let rounds = [Ok(value(16, 1, 1, 1)), Err(refused), Ok(value(16, 3, 1, 3)), Err(refused)];
    for record in rounds.into_iter().chain([Ok(value(16, 4, 1, 4))]) {
        verifier.record(id, &record.unwrap_or_else(|refused| refused));
    }
    assert_eq!(verifier.tally().violations, 0);
    // One, and of this thread, and no reading goes back.
    verifier.record(id, &refused);
    verifier.record(id, &value(16, 7, 1, 7));
    assert_eq!(verifier.tally().violations, 1);
    verifier.record(id, &other);
    verifier.record(id, &value(16, 9, 1, 9));
    assert_eq!(verifier.tally().violations, 2);
    verifier.record(id, &refused);
    verifier.record(id, &value(16, 9, 1, 10));
    assert_eq!(verifier.tally().violations, 3);
}

#[test]
fn messages_that_are_missing_doubled_disordered_or_different_are_seen() {
    let wanted = |what: &What| matches!(what, What::Message { content: 41, .. });
    let mut lives = right();
    remove(&mut lives, 1, wanted);
    assert_eq!(kinds(&lives), [Kind::MessageLost]);
    let mut lives = right();
    let twice = *find(&mut lives[1].2, wanted);
    let place = lives[1].2.iter().position(|record| *record == twice).unwrap();
    lives[1].2.insert(place, twice);
    assert_eq!(kinds(&lives), [Kind::MessageOrder, Kind::MessageTwice]);
    let mut lives = right();
    let place = lives[1].2.iter().position(|record| wanted(&record.what)).unwrap();
    lives[1].2.swap(place, place + 3);
    assert_eq!(kinds(&lives), [Kind::MessageOrder]);
    let mut lives = right();
    let record = find(&mut lives[1].2, wanted);
    if let What::Message { value, .. } = &mut record.what {
        value.time.0 += 1;
    }
    // At its place there is none for the others.
    assert_eq!(kinds(&lives), [Kind::Disagreement, Kind::MessageLost]);
}

#[test]
fn messages_that_come_together_differ_in_time() {
    let mut lives = right();
    let is = |what: &What| matches!(what, What::Message { content: 23, .. });
    for (_, _, records) in lives.iter_mut().take(3) {
        // One more comes with it, a little later.
        let place = records.iter().position(|record| is(&record.what)).unwrap();
        let mut second = records[place];
        if let What::Message { content, value, .. } = &mut second.what {
            *content = 1000;
            value.time.0 += 1;
        }
        records.insert(place + 1, second);
    }
    assert_eq!(kinds(&lives), []);
    let place = lives[1].2.iter().position(|record| is(&record.what)).unwrap();
    lives[1].2.swap(place, place + 1);
    assert_eq!(kinds(&lives), [Kind::MessageOrder]);
}

#[test]
fn values_while_outside_are_seen() {
    let mut lives = right();
    // The true value, but asked for while outside.
    let mut value = value(17, 10, 2, 31);
    value.began = 32 * MS;
    value.done = 33 * MS;
    lives[2].2.retain(|r| !matches!(r.what, What::Value { thread: 16, round: 10, .. }));
    lives[2].2.push(value);
    assert_eq!(kinds(&lives), [Kind::WhileOutside]);
    // Asked for before, and only given late: nothing is wrong with that.
    let last = lives[2].2.last_mut().unwrap();
    last.began = 30 * MS;
    assert_eq!(kinds(&lives), []);
}

#[test]
fn messages_while_outside_are_seen() {
    let mut lives = right();
    lives[2].2.push(message(2, 32, 2, 32));
    assert_eq!(kinds(&lives), [Kind::Disagreement, Kind::WhileOutside]);
}

#[test]
fn losses_must_have_a_cause() {
    for node in [0, 1] {
        let mut lives = right();
        lives[node].2.push(at(40, What::Refused { thread: 16, cause: Cause::Outside }));
        assert_eq!(kinds(&lives), [Kind::SurvivorLost]);
    }
    let mut lives = right();
    lives[2].2.push(at(80, What::Refused { thread: 16, cause: Cause::Late }));
    assert_eq!(kinds(&lives), [Kind::SurvivorLost]);
    let mut verifier = Verifier::default();
    let id = verifier.life(1, 0);
    verifier.ended(id, 5);
    let verdict = verifier.finish();
    assert_eq!(verdict.violations.first().map(|v| v.kind), Some(Kind::SurvivorLost));
}

#[test]
fn a_clock_that_runs_ahead_is_seen() {
    let mut lives = right();
    for life in [0, 1, 3] {
        change(&mut lives, life, 17, 29, |v| v.time.0 += 600 * MS);
    }
    // The message after it is behind it now.
    assert_eq!(kinds(&lives), [Kind::RollBack, Kind::Ahead]);
}

#[test]
fn many_violations_are_counted_and_some_kept() {
    let mut verifier = Verifier::default();
    let id = verifier.life(1, 0);
    for index in 0..1000 {
        verifier.record(id, &value(16, index * 2, 1, index + 1));
    }
    let verdict = verifier.finish();
    assert_eq!(verdict.tally.violations, 999);
    assert_eq!(verdict.violations.len(), MOST_KEPT);
    assert!(verdict.violations[0].to_string().contains("lost round: thread 16 round 2"));
}

fn present(index: u64, began: u64, time_of: u64) -> Record {
    let mut value = agreed(2, index, 1);
    value.time = GroupTime(1_000_000_000 + time_of as i64 * MS + 500_000);
    Record {
        began: began as i64 * MS,
        done: index as i64 * MS + 700,
        what: What::Present { value },
    }
}

#[test]
fn the_time_at_present_is_later_than_what_was_read_before_it_began() {
    let mut lives = right();
    // Begun after the value of 40 was there, and between it and the next.
    lives[0].2.insert(42, present(41, 41, 40));
    assert_eq!(kinds(&lives), []);
    assert_eq!(verdict(&lives).tally.present, 1);
    // At another node, no later than that.
    lives[1].2.push(present(43, 42, 40));
    assert_eq!(kinds(&lives), [Kind::RealTime]);
    // Begun before: either may be the earlier.
    lives[1].2.pop();
    lives[1].2.push(present(43, 39, 40));
    assert_eq!(kinds(&lives), []);
}

#[test]
fn a_round_is_later_than_what_was_read_before_the_first_asked_for_it() {
    let late = |lives: &mut Lives, nodes: usize| {
        for (_, _, records) in lives.iter_mut().take(nodes) {
            let of_42 = |what: &What| matches!(what, What::Value { thread: 16, round: 14, .. });
            find(records, of_42).began = 50 * MS;
        }
    };
    // One who comes to it late gets what was agreed on then.
    let mut lives = right();
    late(&mut lives, 1);
    assert_eq!(kinds(&lives), []);
    let mut lives = right();
    late(&mut lives, 2);
    assert_eq!(kinds(&lives), [Kind::RealTime]);
    // It may have been asked for by one that was killed: by a life of the proposer's node.
    let proposer = agreed(2, 42, 1).synchronizer.0;
    for (node, found) in [(proposer, vec![]), (proposer % 3 + 1, vec![Kind::RealTime])] {
        let before = (1..42).filter(|index| index % 3 == 0);
        let killed = before.map(|index| value(16, index / 3, 1 + u64::from(index >= 30), index));
        lives.push((node, 9, killed.collect()));
        assert_eq!(
            kinds(&lives).into_iter().filter(|it| *it == Kind::RealTime).collect::<Vec<_>>(),
            found
        );
        lives.pop();
    }
}
