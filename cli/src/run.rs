//! `truechimer run`: the daemon, in the foreground.

use std::io::Write;

use truechimer_daemon::{Level, Options};

use crate::args;
use crate::failure::{Ended, Failure, Outcome};
use crate::{show, signals};

/// Runs the command.
pub fn run(args: args::Run, out: &mut dyn Write) -> Ended {
    let options = Options {
        config: args.config,
        servers: args.servers,
        pps: args.pps,
        poll: args.poll,
        counter: args.counter,
        page: args.page.page,
        control: args.control.control,
        replay_log: args.replay_log,
        fresh: args.fresh,
        ..Options::default()
    };
    if args.check {
        let (settings, warnings) = options.check().map_err(|why| Failure::Said(why.to_string()))?;
        let mut note = note(Level::Warning);
        warnings.iter().for_each(|text| note(Level::Warning, text));
        let good = what_is_followed(settings.engine.sources.len(), settings.engine.pps.len());
        writeln!(out, "the configuration is good: {good}")?;
        return Ok(Outcome::Good);
    }
    let (stop, reload) = (signals::stop()?, signals::reload()?);
    let mut note = note(if args.verbose { Level::Debug } else { Level::Info });
    truechimer_daemon::run(&options, &stop, &reload, &mut note)
        .map_err(|why| Failure::Said(why.to_string()))?;
    Ok(Outcome::Good)
}

/// Passes on what the daemon has to say, from this level on.
pub fn note(least: Level) -> impl FnMut(Level, &str) {
    move |level, text| {
        let name = match level {
            _ if level < least => return,
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warning => "warning",
        };
        // Nobody may be listening any more: the clock goes on.
        let _ = writeln!(std::io::stderr(), "truechimer: {name}: {}", show::plain(text));
    }
}

fn what_is_followed(servers: usize, pulses: usize) -> String {
    let some = |n: usize, what: &str| match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    match pulses {
        0 => some(servers, "server"),
        _ => format!("{} and {}", some(servers, "server"), some(pulses, "pulse")),
    }
}
