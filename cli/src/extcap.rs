//! Answers to Wireshark, as a program that captures for it: `truechimer extcap`, or any name that
//! begins with `truechimer-extcap` for the program itself.
//!
//! Wireshark runs every program in its extcap directory: once to ask which interfaces it has, then
//! for their link types and settings, then to capture into a pipe. The conversation is that of
//! Wireshark's `extcap(4)`.

use std::ffi::OsString;
use std::io::{self, Read, Write};
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
/// The dissector, and the name that it is installed by.
const DISSECTOR: &str = include_str!("../../contrib/wireshark/truechimer.lua");
const SCRIPT: &str = "truechimer.lua";
/// Beginning of every version of the dissector.
const OURS: &str = "-- Truechimer: dissector";
/// At most so many bytes of a packet are kept, unless somebody says less.
const SNAP_LENGTH: u32 = 262_144;

/// Options of `truechimer extcap`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
'truechimer extcap --install' puts a link to this program where Wireshark looks for such programs;
'Truechimer: eth0' and the like then stand in its list of interfaces. With it comes a dissector for
Wireshark and tshark, in the user's folder of plugins, which makes fields for filters and columns of
what is known of each packet's time:
  truechimer.bound     true time is within so many ns of the packet's
  truechimer.quality   bounded, unsynchronised (the system clock's time), uncounted
  truechimer.status    of the clock then: synchronised, holdover, unknown, disrupted, none
  truechimer.method    packet, hw, xdp, xdp-copy; .stamped: by which clock
  truechimer.count     the raw count; with .count_error and .epoch
as in  tshark -r day.pcapng -Y 'truechimer.bound > 10000'.  They are in captures by these interfaces,
in those of 'truechimer capture --comments', and in what 'truechimer restamp --comments' writes.
With a DIR of its own the link is put there, and no dissector. Capturing takes rights:
a copy of the program that has them for a group, and how to make it, is in 'truechimer capture
--help'; then 'truechimer-capture extcap --install', as each of the group's members. Nothing that
Wireshark starts in this way takes packets away from the host.

Exit status: 0, or 2 on an error.")]
pub struct Extcap {
    /// Make a link to this program in Wireshark's extcap directory, and lay the dissector; or make
    /// the link in DIR
    #[arg(long, value_name = "DIR", num_args = 0..=1, exclusive = true)]
    install: Option<Option<PathBuf>>,
    /// Take back what --install laid
    #[arg(long, value_name = "DIR", num_args = 0..=1, exclusive = true)]
    uninstall: Option<Option<PathBuf>>,
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
    /// Way in which packets are taken, as of 'truechimer capture'
    #[arg(long, value_name = "HOW", help_heading = SETTINGS)]
    method: Option<String>,
    /// Memory for packets that wait, as of 'truechimer capture'
    #[arg(long, value_name = "MIB", help_heading = SETTINGS)]
    ring: Option<String>,
    /// Bytes to keep of each packet, as of 'truechimer capture'
    #[arg(long, value_name = "BYTES", help_heading = SETTINGS)]
    snap_length: Option<String>,
    /// Leave the interface out of promiscuous mode, as of 'truechimer capture'
    #[arg(long, help_heading = SETTINGS)]
    no_promiscuous: bool,
    /// Leave out the comments that the dissector reads
    #[arg(long, help_heading = SETTINGS)]
    no_comments: bool,
    /// Clock page, as of 'truechimer capture'
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
        for path in install(&Places::of(directory.as_deref())?)? {
            writeln!(out, "{} is in place; Wireshark takes it when it is started", path.display())?;
        }
        return Ok(Outcome::Good);
    }
    if let Some(directory) = &args.uninstall {
        let gone = uninstall(&Places::of(directory.as_deref())?)?;
        for path in &gone {
            writeln!(out, "{} is removed", path.display())?;
        }
        if gone.is_empty() {
            writeln!(out, "nothing of ours was there")?;
        }
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

/// Places of what is installed.
struct Places {
    /// Link to this program.
    link: PathBuf,
    /// Dissector; `None` to do without.
    script: Option<PathBuf>,
}

impl Places {
    /// Those of one user, or the link in another directory.
    fn of(directory: Option<&Path>) -> Result<Places, Failure> {
        if let Some(directory) = directory {
            return Ok(Places { link: directory.join(NAME), script: None });
        }
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let home = set("HOME").ok_or_else(|| {
            Failure::Said("HOME is not set; name a directory for the link".to_owned())
        })?;
        let settings = set("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let link = settings.join("wireshark/extcap").join(NAME);
        let script = home.join(".local/lib/wireshark/plugins").join(SCRIPT);
        Ok(Places { link, script: Some(script) })
    }
}

fn failed(path: &Path, why: io::Error) -> Failure {
    Failure::new(path.display(), why)
}

/// Makes the link, lays the dissector; their paths.
fn install(places: &Places) -> Result<Vec<PathBuf>, Failure> {
    let program = std::env::current_exe().map_err(|why| Failure::new("this program", why))?;
    let folder = |path: &Path| match path.parent() {
        Some(folder) => truechimer_files::make_folder(folder, 0o755)
            .map(drop)
            .map_err(|why| failed(folder, why)),
        None => Ok(()),
    };
    let mut laid = vec![places.link.clone()];
    if let Some(script) = &places.script {
        if is_ours(script)? == Some(false) {
            let why = "is somebody else's: move it away";
            return Err(Failure::new(script.display(), why));
        }
        folder(script)?;
        truechimer_files::write(script, DISSECTOR).map_err(|why| failed(script, why))?;
        laid.push(script.clone());
    }
    folder(&places.link)?;
    // An old link is replaced, anything else is somebody else's.
    truechimer_files::link(&places.link, &program).map_err(|why| failed(&places.link, why))?;
    Ok(laid)
}

/// Removes what is ours; the paths of that.
fn uninstall(places: &Places) -> Result<Vec<PathBuf>, Failure> {
    let mut ours = Vec::new();
    if places.link.is_symlink() {
        ours.push(&places.link);
    }
    if let Some(script) = &places.script
        && is_ours(script)? == Some(true)
    {
        ours.push(script);
    }
    for path in &ours {
        truechimer_files::remove(path).map_err(|why| failed(path, why))?;
    }
    Ok(ours.into_iter().cloned().collect())
}

/// True if a file is a dissector that was laid by us; `None` if there is none.
fn is_ours(path: &Path) -> Result<Option<bool>, Failure> {
    match std::fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(data) if !data.is_file() => return Ok(Some(false)),
        Ok(_) => {}
        Err(why) => return Err(failed(path, why)),
    }
    let mut front = Vec::new();
    let file = std::fs::File::open(path).map_err(|why| failed(path, why))?;
    let read = file.take(OURS.len() as u64).read_to_end(&mut front);
    read.map_err(|why| failed(path, why))?;
    Ok(Some(front == OURS.as_bytes()))
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
        "{number=4}{call=--no-comments}{display=No comments}{type=boolflag}{default=false}\
         {tooltip=Leave out the comments that bounds are read from}",
        "{number=5}{call=--page}{display=Clock page}{type=fileselect}{mustexist=false}\
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
    if !args.no_comments {
        words.push("--comments".into());
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
        assert_eq!(config.lines().filter(|line| line.starts_with("arg {number=")).count(), 6);
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
    fn what_is_laid_is_laid_again_and_taken_back() {
        let scratch = truechimer_command::scratch::Scratch::new().unwrap();
        let script = scratch.path().join("c/d").join(SCRIPT);
        let places = Places { link: scratch.path().join("a/b").join(NAME), script: Some(script) };
        let script = places.script.as_ref().unwrap();
        let program = std::env::current_exe().unwrap();
        assert!(DISSECTOR.starts_with(OURS));
        for _ in 0..2 {
            assert_eq!(install(&places).unwrap(), [places.link.clone(), script.clone()]);
            assert_eq!(std::fs::read_link(&places.link).unwrap(), program);
            assert_eq!(std::fs::read_to_string(script).unwrap(), DISSECTOR);
        }
        assert_eq!(uninstall(&places).unwrap(), [places.link.clone(), script.clone()]);
        assert!(!places.link.is_symlink() && !script.exists());
        assert!(uninstall(&places).unwrap().is_empty());
    }

    #[test]
    fn what_others_put_there_stays() {
        let scratch = truechimer_command::scratch::Scratch::new().unwrap();
        let (link, script) = (scratch.path().join(NAME), scratch.path().join(SCRIPT));
        let places = Places { link: link.clone(), script: Some(script.clone()) };
        std::fs::write(&link, "mine").unwrap();
        assert!(install(&places).is_err());
        std::fs::write(&script, "-- mine").unwrap();
        assert!(install(&places).is_err());
        assert!(uninstall(&places).unwrap().is_empty());
        for (path, text) in [(link, "mine"), (script, "-- mine")] {
            assert_eq!(std::fs::read_to_string(path).unwrap(), text);
        }
    }
}
