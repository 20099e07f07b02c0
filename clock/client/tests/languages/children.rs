//! Children of a program that has the clock open, in every language: by a fork where the language can go on after one,
//! otherwise by another program.

use super::*;

impl Language {
    /// True where its child is a fork, which goes on with the handle. The machines of the others have threads, of which a
    /// fork would have one.
    fn forks(self) -> bool {
        matches!(self, Language::Python)
    }
}

pub(super) fn a_child_reads_too_and_inherits_no_file(language: Language) {
    let mut daemon = Daemon::synchronised();
    let Some(mut speaker) = Speaker::of(language, &daemon) else { return };
    let clock = daemon.clock();
    let parent = tended(&mut daemon, || speaker.told("now"));
    let said = tended(&mut daemon, || speaker.numbers("child"));
    // Files and mappings of its that are the page: as it began, and with a handle.
    let (began, open, child) = (said[0], said[1], Told::of(&said[2..]));
    assert!(open >= 1, "what is looked for is found where there is one: {said:?}");
    assert_eq!(began, if language.forks() { open } else { 0 }, "{said:?}");
    assert_eq!(child.status, 1, "{child:?}");
    assert!(child.count > parent.count && same(&child, &again(&clock, &child)), "{child:?}");
    // And the parent goes on.
    let later = tended(&mut daemon, || speaker.told("now"));
    assert!(later.count > child.count && same(&later, &again(&clock, &later)), "{later:?}");
}

pub(super) fn a_child_that_cannot_read_says_so(language: Language) {
    let mut daemon = Daemon::synchronised();
    let Some(mut speaker) = Speaker::of(language, &daemon) else { return };
    daemon.publish(|hand, _| hand.counter.boot = BootId([7; 16]));
    let said = tended(&mut daemon, || speaker.ask("child"));
    assert!(said.starts_with("error the clock is not set yet"), "{said}");
    if language.forks() {
        // Over, and not another one that answers what its parent is asked.
        let parent = speaker.child.id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        assert_eq!(children.unwrap(), "");
    }
    // And the parent goes on.
    daemon.publish(|_, _| ());
    let later = tended(&mut daemon, || speaker.told("now"));
    assert!(later.status == 1 && same(&later, &again(&daemon.clock(), &later)), "{later:?}");
}
