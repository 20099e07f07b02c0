//! Words of the program about itself.

use crate::support::{Dir, lab};

#[test]
fn every_command_has_help_and_a_manual_page() {
    let help = lab(&["--help"]);
    assert_eq!((help.code, help.err.as_str()), (0, ""));
    for command in [
        &["simulate"][..],
        &["replay"],
        &["compare"],
        &["bench", "read"],
        &["bench", "daemon"],
        &["bench", "capture"],
        &["bench", "group"],
    ] {
        assert!(help.out.contains(&format!("\n  {} ", command[0])), "{}", help.out);
        let own = lab(&[command, &["--help"]].concat());
        assert!(own.out.contains("Usage: truechimer-lab "), "{}", own.out);
        assert!(own.out.lines().all(|line| line.chars().count() <= 100), "{}", own.out);
        assert!(own.out.contains("Exit status: 0"), "{command:?} does not say: {}", own.out);
    }
    let dir = Dir::new();
    assert_eq!(lab(&["man", &dir.join("man")]).code, 0);
    for name in
        ["", "-simulate", "-replay", "-compare", "-bench-read", "-bench-capture", "-bench-group"]
    {
        let page = dir.join(&format!("man/truechimer-lab{name}.1"));
        assert!(std::fs::read_to_string(page).unwrap().contains(".TH"), "{name}");
    }
}
