//! The configuration file: any text is settings or a list of problems.
#![no_main]

use std::collections::BTreeSet;

use truechimer_daemon::config::parse;
use truechimer_engine::POLL_RANGE;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match parse(text, "truechimer.toml") {
        Ok(settings) => {
            let sources = &settings.engine.sources;
            let names: BTreeSet<_> = sources.iter().map(|s| (&s.host, s.port)).collect();
            assert_eq!(names.len(), sources.len(), "the same server twice");
            for source in sources {
                assert!(!source.host.is_empty() && POLL_RANGE.contains(&source.poll));
            }
            let refclocks = &settings.engine.refclocks;
            let paths: BTreeSet<_> = refclocks.iter().map(|p| (p.kind, &p.path)).collect();
            assert_eq!(paths.len(), refclocks.len(), "the same reference clock twice");
            for refclock in refclocks {
                assert!(
                    !refclock.path.is_empty() && !refclock.name.is_empty() && refclock.error.0 >= 0
                );
            }
            assert!(settings.engine.max_wander.0 > 0);
        }
        Err(error) => {
            assert!(!error.problems().is_empty());
            for problem in error.problems() {
                let shown = problem.to_string();
                assert!(shown.starts_with("truechimer.toml:"), "{shown}");
                assert!(!shown.chars().any(char::is_control), "{shown:?}");
            }
        }
    }
});
