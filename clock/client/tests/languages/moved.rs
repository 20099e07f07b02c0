//! The hypervisor's word that the machine was migrated or restored, in every language.

use std::process::Stdio;

use truechimer::Epoch;
use truechimer_timehands::Marker;

use super::common::vmclock::Device;
use super::*;

/// A program that has the daemon's page open, and is told where the device is.
fn speaker(language: Language, daemon: &Daemon, device: &Device) -> Option<Speaker> {
    let mut command = language.answering()?;
    command.env("TRUECHIMER_VMCLOCK", device.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut speaker = Speaker { child, to, from: BufReader::new(from) };
    assert_eq!(speaker.open(&daemon.path()), "ok");
    Some(speaker)
}

pub(super) fn a_marker_that_moves_ends_the_hand_at_once(language: Language) {
    // Whatever its name for the daemon, the user says where it is. Both values of old are tried: that
    // of a device that nothing ever happened to, and any.
    for (choice, number, first) in [(Choice::Auto, 0, 0), (Choice::Raw, Marker::ELSEWHERE, 1 << 63)]
    {
        let mut daemon = Daemon::new(choice);
        let device = Device::new(&daemon.directory, first);
        let publish = |daemon: &mut Daemon, value, change: &dyn Fn(&mut Hand)| {
            daemon.writer().mark(Some(Marker { device: number, value }));
            daemon.publish(|hand, _| change(hand));
        };
        publish(&mut daemon, first, &|_| ());
        let Some(mut speaker) = speaker(language, &daemon, &device) else { return };
        tended(&mut daemon, || {
            // The second time by the short way.
            for _ in 0..2 {
                assert_eq!(speaker.ask("status"), "synchronised");
            }
        });
        let before = speaker.moment();
        device.mark(first + 1);
        let told = speaker.told("now");
        assert_eq!((told.status, told.bound), (3, -1), "{told:?}");
        assert_eq!((told.earliest, told.latest), (i64::MIN.into(), i64::MAX.into()));
        assert_eq!(speaker.told("mono").status, 3);
        for question in ["count".to_owned(), format!("elapsed {0} {0}", as_words(before))] {
            let text = speaker.ask(&question);
            assert!(
                text.starts_with("error the counter lost its continuity"),
                "{question}: {text}"
            );
        }
        assert_eq!(speaker.told(&format!("timeof {}", as_words(before))).status, 3);
        // A hand that does not know yet; then the daemon does.
        publish(&mut daemon, first, &|_| ());
        assert_eq!(speaker.ask("status"), "disrupted");
        publish(&mut daemon, first + 1, &|hand| hand.counter.epoch = Epoch(2));
        let told = tended(&mut daemon, || speaker.told("now"));
        assert_eq!(told.status, 1, "{told:?}");
        assert!(same(&told, &again(&daemon.clock(), &told)), "{told:?}");
        assert_eq!(speaker.moment().epoch, Epoch(2));
        // One that says nothing of a device is as without one.
        daemon.writer().mark(None);
        daemon.publish(|_, _| ());
        device.mark(first);
        for _ in 0..2 {
            assert_eq!(tended(&mut daemon, || speaker.ask("status")), "synchronised");
        }
        // Nor does the end of the daemon hide it.
        publish(&mut daemon, first, &|_| ());
        daemon.writer = None;
        assert_eq!(speaker.ask("status"), "holdover");
        device.mark(first + 2);
        assert_eq!(speaker.ask("status"), "disrupted");
    }
}
