use truechimer_group::{Mode, Order};

use super::*;

fn membership(text: &str) -> Membership {
    parse(text, "t").unwrap().groups.remove(0)
}

#[test]
fn the_example_in_the_documentation_is_good_and_says_the_defaults() {
    let text: String = include_str!("../config.rs")
        .lines()
        .skip_while(|line| *line != "//! ```toml")
        .skip(1)
        .take_while(|line| *line != "//! ```")
        .map(|line| line.trim_start_matches("//!").trim_start().to_owned() + "\n")
        .collect();
    let settings = parse(&text, "example").unwrap();
    assert_eq!(settings.directory, Some("/run/truechimer/group".into()));
    assert_eq!(settings.state, Place::At("/var/lib/truechimer/group".into()));
    assert_eq!(settings.utc, Some(UtcSource::Page(Some("/run/truechimer/clock".into()))));
    let mut ledger = Membership::new("ledger");
    ledger.group.universe = vec![Member(1), Member(2), Member(3)];
    assert_eq!(settings.groups, [ledger]);
}

#[test]
fn a_name_is_enough_and_everything_can_be_said() {
    assert_eq!(membership("[[group]]\nname = \"a\""), Membership::new("a"));
    let full = membership(
        "[[group]]\nname = \"a\"\nlocal = 2\nmode = \"passive\"\norder = \"published\"\n\
         rotate = true\nsteering-cap-ppm = 12.5\nsteering-time = \"2s\"\nhorizon = \"1s\"\n\
         lease = \"5us\"\ncausal-horizon = \"3s\"\nstagger = \"1ms\"\ngather = \"2s\"\n\
         report-interval = \"2s\"\nbuffer = 2048\ncheckpoints = true\n",
    );
    let all = vec![Member(1), Member(2)];
    assert_eq!((full.carrier, &full.group.universe), (Carrier::Local(all.clone()), &all));
    assert_eq!((full.group.mode, full.group.order), (Mode::Passive, Order::Published));
    assert_eq!(full.group.steering_cap_ppb, 12_500);
    assert_eq!((full.group.lease_ns, full.stagger_ns, full.buffer), (5_000, 1_000_000, 2_048));
    assert!(full.checkpoints && full.group.rotate && full.gather_ns == 2_000_000_000);
    let link = |words: &str| membership(&format!("[[group]]\nname = \"a\"\nlink = {words}")).link;
    assert_eq!((link("{}"), link("{}").permissions()), (Link::default(), 0o600));
    let root = link("{ owner = \"root\", group = 12, mode = \"0640\" }");
    assert_eq!(root, Link { owner: Some(0), group: Some(12), mode: Some(0o640) });
    assert_eq!(link("{ group = \"root\" }").permissions(), 0o660);
    let wider = membership("[[group]]\nlocal = 2\nname = \"a\"\nmembers = [5, 1, 2]");
    assert_eq!(wider.group.universe, [Member(1), Member(2), Member(5)], "only two are here");
    assert_eq!(wider.carrier, Carrier::Local(all));
    assert_eq!(parse("[metrics]", "t").unwrap().metrics, None);
    let metrics = parse("[metrics]\nlisten = \"/run/m\"", "t").unwrap().metrics;
    assert_eq!(metrics, Some(Listen::Socket("/run/m".into())));
    let clock = parse("system-clock = \"10ms\"", "t").unwrap();
    assert_eq!(clock.utc, Some(UtcSource::SystemClock { bound_ns: 10_000_000 }));
    assert_eq!(parse("page = \"none\"", "t").unwrap().utc, Some(UtcSource::None));
}

#[test]
fn every_mistake_is_named_with_its_line_and_its_mend() {
    for (text, message) in [
        ("\n[[group]]\nnam = \"a\"", "t:3: unknown key `nam`; did you mean `name`?"),
        ("mode = \"active\"", "t:1: unknown key `mode`; it belongs into [[group]]"),
        ("[[group]]\nstate = \"/x\"", "t:2: unknown key `state`; it belongs into the top"),
        ("stratum = 1", "t:1: unknown key `stratum`; known in the top of the file: directory,"),
        ("[[group]]\nmode = \"active\"", "t:1: this group has no `name`: add name ="),
        ("[[group]]\nname = \"a/b\"", "t:2: `name` = \"a/b\": must be 1 to 64 of"),
        ("metrics = 7", "t:1: `metrics` must be a table: write [metrics]"),
        ("[metrics]\nport = 7", "t:2: unknown key `port`; known in [metrics]: listen"),
        (
            "[metrics]\nlisten = \"9926\"",
            "t:2: `listen` = \"9926\": must be an address with a port",
        ),
        ("[[group]]\nlink = 3", "t:2: `link` must be a table: write link = { group = \"…\" }"),
        ("[[group]]\nlink = { user = 3 }", "t:2: unknown key `user`; known in `link` of a group:"),
        ("[[group]]\nlink = { owner = -1 }", "t:2: `owner` = -1: must be 0 to 4294967294"),
        ("[[group]]\nlink = { group = \"no one\" }", "no group 'no one' in /etc/group: give its"),
        ("[[group]]\nlink = { mode = \"0777\" }", "must be permissions in octal, 0600 to 0666"),
        ("[[group]]\nname = 7", "t:2: `name` must be a string in quotes, not integer"),
        (
            "[[group]]\nname = \"a\"\n[[group]]\nname = \"a\"",
            "t:3: group `a` is there twice: remove one",
        ),
        ("[group]\nname = \"a\"", "t:1: `group` must be a list of tables: write [[group]]"),
        ("group = [1]", "t:1: each `group` must be a table"),
        ("[[group]]\nmembers = 3", "t:2: `members` must be a list of node ids, as in [1, 2, 3]"),
        ("[[group]]\nmembers = [1, \"2\"]", "t:2: `members` must be a list of node ids"),
        ("[[group]]\nmembers = [0]", "t:2: `members` = [0]: 0 is no node id"),
        ("[[group]]\nmembers = [2, 2]", "node 2 is there twice"),
        ("[[group]]\nmembers = []", "must be 1 to 64 node ids"),
        ("[[group]]\nlocal = 0", "t:2: `local` = 0: must be 1 to 64 members"),
        ("[[group]]\nlocal = true", "t:2: `local` must be a number of members, as in 3"),
        ("[[group]]\nmode = \"lazy\"", "`mode` = \"lazy\": must be active, semi-active or passive"),
        ("[[group]]\norder = \"any\"", "must be monotone or published"),
        ("[[group]]\nrotate = 1", "`rotate` must be true or false, not integer"),
        ("[[group]]\nsteering-cap-ppm = 0", "must be 1 to 100000 ppm"),
        ("[[group]]\nsteering-cap-ppm = true", "must be a number of ppm, as in 500"),
        ("[[group]]\nstagger = 400", "`stagger` must be a string in quotes, not integer"),
        ("[[group]]\nstagger = \"2s\"", "must be 0 to 1s"),
        ("[[group]]\nhorizon = \"5\"", "t:2: `horizon` = \"5\": "),
        ("[[group]]\nbuffer = 1", "must be 1024 to 67108864"),
        ("realtime = 100", "t:1: `realtime` = 100: must be 1 to 99"),
        ("realtime = \"high\"", "t:1: `realtime` must be a priority, as in 10, not string"),
        ("page = \"/p\"\nsystem-clock = \"1s\"", "t:2: `page` and `system-clock` exclude each"),
        ("directory = \"\"", "t:1: `directory` = \"\": must be a path"),
        ("state = \"/a\"\nstate = \"/b\"", "t:2: duplicate key"),
        ("\u{1b}[31m", "t:1: "),
    ] {
        let found = parse(text, "t").unwrap_err().to_string();
        assert!(found.contains(message), "{text:?}:\n  {found}\n  {message}");
        assert!(!found.contains('\u{1b}'), "{found}");
    }
}

#[test]
fn all_mistakes_are_named_at_once_in_order() {
    let text = "zeal = 1\n[[group]]\nname = \"\"\nmode = 3\n";
    let error = parse(text, "t").unwrap_err();
    let lines: Vec<_> = error.problems().iter().map(|p| p.line()).collect();
    assert_eq!(lines, [Some(1), Some(3), Some(4)], "{error}");
}

#[test]
fn options_come_on_top_of_the_file() {
    let path = std::env::temp_dir().join(format!("truechimer-group-{}.toml", std::process::id()));
    std::fs::write(&path, "state = \"/s\"\ndirectory = \"/d\"\n[[group]]\nname = \"a\"\n").unwrap();
    let mut options = Options { config: Some(path.clone()), ..Options::default() };
    assert_eq!(options.settings().unwrap().state, Place::At("/s".into()));
    options.group = Some(Membership::new("b"));
    options.state = Some("none".into());
    options.utc = Some(UtcSource::None);
    options.real_time = Some(7);
    let both = options.settings().unwrap();
    let names: Vec<_> = both.groups.iter().map(|g| g.group.name.as_str()).collect();
    assert_eq!((names, both.state, both.real_time), (vec!["a", "b"], Place::None, Some(7)));
    assert_eq!((both.directory, both.utc), (Some("/d".into()), Some(UtcSource::None)));
    options.group = Some(Membership::new("a"));
    options.real_time = Some(0);
    let wrong = options.settings().unwrap_err().to_string();
    assert!(wrong.contains("--group: 'a' is in the configuration file already"), "{wrong}");
    assert!(wrong.contains("--realtime: must be 1 to 99"), "{wrong}");
    std::fs::write(&path, "").unwrap();
    options.group = None;
    options.real_time = None;
    assert!(options.settings().unwrap_err().to_string().contains("add a [[group]]"));
    std::fs::remove_file(&path).unwrap();
    assert!(options.settings().unwrap_err().to_string().contains("cannot be read"));
    let nothing = Options::default().settings().unwrap_err().to_string();
    assert!(
        nothing.starts_with("--group: no group: use --group NAME, or --config FILE"),
        "{nothing}"
    );
}
