//! Answers to Wireshark, as a program that captures for it: `truechimer extcap`, or any name that
//! begins with `truechimer-extcap` for the program itself.
//!
//! Wireshark runs every program in its extcap directory: once to ask which interfaces it has, then
//! for their link types and settings, then to capture into a pipe. The conversation is that of
//! Wireshark's `extcap(4)`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use truechimer_capture::{filter, packet};

use truechimer_command::parse;

use crate::capture::interfaces::interfaces;
use crate::capture::{self, Capture};
use truechimer_command::{Ended, Failure, Outcome};

/// The name that the program is installed by.
const NAME: &str = "truechimer-extcap";
/// Beginning of our interfaces' names.
const PREFIX: &str = "truechimer-";
/// At most so many bytes of a packet are kept, unless somebody says less.
const SNAP_LENGTH: u32 = 262_144;

/// Options of `truechimer extcap`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
'truechimer extcap --install' puts a link to this program where Wireshark looks for such programs;
'Truechimer: eth0' and the like then stand in its list of interfaces. Capturing takes rights:
a copy of the program that has them for a group, and how to make it, is in 'truechimer capture
--help'; then 'truechimer-capture extcap --install', as each of the group's members. Nothing that
Wireshark starts in this way takes packets away from the host.

Exit status: 0, or 2 on an error.")]
pub struct Extcap {
    /// Make a link to this program in Wireshark's extcap directory, or in DIR
    #[arg(long, value_name = "DIR", num_args = 0..=1, exclusive = true)]
    install: Option<Option<PathBuf>>,
    /// Name the interfaces
    #[arg(long, help_heading = ASKED)]
    extcap_interfaces: bool,
    /// Wireshark's version
    #[arg(long, value_name = "VERSION", help_heading = ASKED)]
    extcap_version: Option<String>,
    /// The interface that is meant
    #[arg(long, value_name = "NAME", help_heading = ASKED)]
    extcap_interface: Option<String>,
    /// Name its link types
    #[arg(long, help_heading = ASKED)]
    extcap_dlts: bool,
    /// Name its settings
    #[arg(long, help_heading = ASKED)]
    extcap_config: bool,
    /// The capture filter; without --capture, say what is wrong with it
    #[arg(long, value_name = "FILTER", help_heading = ASKED)]
    extcap_capture_filter: Option<String>,
    /// Capture
    #[arg(long, help_heading = ASKED, requires = "fifo", requires = "extcap_interface")]
    capture: bool,
    /// Into this pipe
    #[arg(long, value_name = "PATH", help_heading = ASKED)]
    fifo: Option<PathBuf>,
    /// As of 'truechimer capture'
    #[arg(long, value_name = "HOW", help_heading = SETTINGS)]
    method: Option<String>,
    /// As of 'truechimer capture'
    #[arg(long, value_name = "MIB", help_heading = SETTINGS)]
    ring: Option<String>,
    /// As of 'truechimer capture'
    #[arg(long, value_name = "BYTES", help_heading = SETTINGS)]
    snap_length: Option<String>,
    /// As of 'truechimer capture'
    #[arg(long, help_heading = SETTINGS)]
    no_promiscuous: bool,
    /// As of 'truechimer capture'
    #[arg(long, value_name = "PATH", help_heading = SETTINGS)]
    page: Option<PathBuf>,
}

const ASKED: &str = "What Wireshark asks";
const SETTINGS: &str = "Settings";

/// The command line with `extcap` put in where the program was called by the name that says so.
pub fn line(mut given: Vec<OsString>) -> Vec<OsString> {
    let name = given.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name.to_string_lossy().starts_with(NAME)) {
        given.insert(1, "extcap".into());
    }
    given
}

/// Runs the command.
pub fn run(args: &Extcap, out: &mut dyn Write) -> Ended {
    if let Some(directory) = &args.install {
        let link = install(directory.as_deref())?;
        writeln!(out, "{} is in place; Wireshark shows it when it is started", link.display())?;
        return Ok(Outcome::Good);
    }
    if args.extcap_interfaces {
        return list(out);
    }
    let Some(interface) = &args.extcap_interface else {
        let why = "name what is asked: --extcap-interfaces, or --extcap-interface with one of \
                   --extcap-dlts, --extcap-config, --capture; this is for Wireshark to call";
        return Err(Failure::Said(why.to_owned()));
    };
    let interface = interface.strip_prefix(PREFIX).unwrap_or(interface);
    if args.capture {
        capture(args, interface, out)
    } else if args.extcap_dlts {
        link_type(interface, out)
    } else if args.extcap_config {
        settings(out)
    } else {
        check(interface, args.extcap_capture_filter.as_deref(), out)
    }
}

/// Makes the link that Wireshark finds, in its directory for one user or in another one.
pub fn install(directory: Option<&Path>) -> Result<PathBuf, Failure> {
    let directory = match directory {
        Some(directory) => directory.to_owned(),
        None => personal().ok_or_else(|| {
            Failure::Said("neither HOME nor XDG_CONFIG_HOME is set; name a directory".to_owned())
        })?,
    };
    let program = std::env::current_exe().map_err(|why| Failure::new("this program", why))?;
    let failed = |path: &Path, why| Failure::new(path.display(), why);
    truechimer_files::make_folder(&directory, 0o755).map_err(|why| failed(&directory, why))?;
    let link = directory.join(NAME);
    // An old link is replaced, anything else is somebody else's.
    truechimer_files::link(&link, &program).map_err(|why| failed(&link, why))?;
    Ok(link)
}

/// Wireshark's directory for programs of one user.
fn personal() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(home.join("wireshark/extcap"))
}

fn list(out: &mut dyn Write) -> Ended {
    writeln!(
        out,
        "extcap {{version={}}}{{display=Truechimer: packets with true time and its bound}}",
        env!("CARGO_PKG_VERSION")
    )?;
    for interface in interfaces()? {
        let name = sentence(&interface.name);
        writeln!(out, "interface {{value={PREFIX}{name}}}{{display=Truechimer: {name}}}")?;
    }
    Ok(Outcome::Good)
}

fn link_type(interface: &str, out: &mut dyn Write) -> Ended {
    let number = packet::link_type(interface).map_err(|why| Failure::Said(why.to_string()))?;
    // Wireshark goes by the number, and shows the words.
    let (name, words) = match number {
        1 => ("EN10MB", "Ethernet"),
        filter::LINKTYPE_RAW => ("RAW", "Raw IP"),
        filter::LINKTYPE_LINUX_SLL2 => ("LINUX_SLL2", "Linux cooked, version 2"),
        _ => ("USER", "as the interface has it"),
    };
    writeln!(out, "dlt {{number={number}}}{{name={name}}}{{display={words}}}")?;
    Ok(Outcome::Good)
}

fn settings(out: &mut dyn Write) -> Ended {
    let methods = [
        ("auto", "What fits"),
        ("packet", "Packet socket"),
        ("hw", "Stamps of the network card"),
        ("xdp-copy", "Copies by XDP"),
    ];
    writeln!(
        out,
        "arg {{number=0}}{{call=--method}}{{display=Method}}{{type=selector}}\
         {{tooltip=How packets are taken}}"
    )?;
    for (value, words) in methods {
        let default = value == "auto";
        writeln!(out, "value {{arg=0}}{{value={value}}}{{display={words}}}{{default={default}}}")?;
    }
    for line in [
        "{number=1}{call=--ring}{display=Ring, MiB}{type=unsigned}{range=1,65536}{default=64}\
         {tooltip=Memory for packets that wait}",
        "{number=2}{call=--snap-length}{display=Bytes of each packet}{type=unsigned}\
         {range=0,262144}{default=0}{tooltip=0 is all}",
        "{number=3}{call=--no-promiscuous}{display=Only packets for this host}{type=boolflag}\
         {default=false}{tooltip=Leave the interface out of promiscuous mode}",
        "{number=4}{call=--page}{display=Clock page}{type=fileselect}{mustexist=false}\
         {required=false}{tooltip=Where the clock is, if not at the usual place}",
    ] {
        writeln!(out, "arg {line}")?;
    }
    Ok(Outcome::Good)
}

/// Says what is wrong with a filter; nothing if it is good.
fn check(interface: &str, text: Option<&str>, out: &mut dyn Write) -> Ended {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(Outcome::Good) };
    let number = packet::link_type(interface).map_err(|why| Failure::Said(why.to_string()))?;
    if let Err(why) = filter::Filter::compile(text, None, number, SNAP_LENGTH) {
        writeln!(out, "{why}")?;
    }
    Ok(Outcome::Good)
}

/// Captures as `truechimer capture` does.
fn capture(args: &Extcap, interface: &str, out: &mut dyn Write) -> Ended {
    let mut words: Vec<OsString> =
        ["--quiet", "--errors-only", "--interface", interface].map(OsString::from).into();
    let mut add = |name: &str, value: Option<OsString>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            words.push(word);
        }
    };
    add("write", args.fifo.clone().map(OsString::from));
    add("filter", args.extcap_capture_filter.clone().map(OsString::from));
    add("method", args.method.clone().map(OsString::from));
    add("ring", args.ring.clone().map(OsString::from));
    add("snap-length", args.snap_length.clone().map(OsString::from));
    add("page", args.page.clone().map(OsString::from));
    if args.no_promiscuous {
        words.push("--no-promiscuous".into());
    }
    match parse::options::<Capture>(words) {
        Ok(args) => capture::run(&args, out),
        Err(why) => {
            let text = why.render().to_string();
            Err(Failure::Said(text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned()))
        }
    }
}

/// A name within Wireshark's braces.
fn sentence(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '{' | '}') && !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> String {
        let mut out = Vec::new();
        run(&parse::options(words).unwrap(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_name_says_what_is_meant() {
        let words = |words: &[&str]| line(words.iter().map(OsString::from).collect());
        assert_eq!(words(&["/a/truechimer", "now"]), ["/a/truechimer", "now"]);
        assert_eq!(
            words(&["/a/truechimer-extcap", "--extcap-interfaces"]),
            ["/a/truechimer-extcap", "extcap", "--extcap-interfaces"]
        );
        assert!(words(&[]).is_empty());
    }

    #[test]
    fn wireshark_is_answered() {
        let list = asked(&["--extcap-interfaces", "--extcap-version=4.0"]);
        assert!(list.starts_with("extcap {version="), "{list}");
        assert!(list.contains("interface {value=truechimer-lo}{display=Truechimer: lo}\n"));
        let dlts = asked(&["--extcap-interface", "truechimer-lo", "--extcap-dlts"]);
        assert_eq!(dlts, "dlt {number=1}{name=EN10MB}{display=Ethernet}\n");
        let config = asked(&["--extcap-interface=truechimer-lo", "--extcap-config"]);
        assert_eq!(config.lines().filter(|line| line.starts_with("arg {number=")).count(), 5);
        // What it may be told there is what the capture takes.
        for line in config.lines().filter(|line| line.starts_with("value ")) {
            let value = line.split_once("{value=").unwrap().1.split_once('}').unwrap().0;
            let words = ["-i", "lo", "--method", value];
            assert!(parse::options::<Capture>(words).is_ok(), "{value}");
        }
    }

    #[test]
    fn no_filter_is_a_good_filter() {
        assert_eq!(asked(&["--extcap-interface=truechimer-lo", "--extcap-capture-filter="]), "");
    }

    #[test]
    fn a_link_is_made_and_made_again() {
        let scratch = truechimer_command::scratch::Scratch::new().unwrap();
        let directory = scratch.path().join("a/b");
        for _ in 0..2 {
            let link = install(Some(&directory)).unwrap();
            assert_eq!(std::fs::read_link(&link).unwrap(), std::env::current_exe().unwrap());
        }
        let link = directory.join(NAME);
        std::fs::remove_file(&link).unwrap();
        std::fs::write(&link, "mine").unwrap();
        assert!(install(Some(&directory)).is_err());
        assert_eq!(std::fs::read_to_string(&link).unwrap(), "mine");
    }
}
