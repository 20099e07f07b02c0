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
        poll: args.poll,
        counter: args.counter,
        page: args.page.page,
        control: args.control.control,
        replay_log: args.replay_log,
        ..Options::default()
    };
    if args.check {
        let settings = options.settings().map_err(|why| Failure::Said(why.to_string()))?;
        writeln!(out, "the configuration is good: {}", servers(&settings.engine.sources))?;
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

fn servers(sources: &[truechimer_engine::SourceConfig]) -> String {
    match sources.len() {
        1 => "1 server".into(),
        n => format!("{n} servers"),
    }
}
