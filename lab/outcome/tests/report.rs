//! Reports of measurements, as a reader has them: head, headline, and in a browser at three widths, light and dark.

#[path = "../../../common/report/tests/support/headless.rs"]
mod headless;

use headless::{Folder, browser, headed, looks_right};
use truechimer_outcome::files::Files;
use truechimer_outcome::interval::Interval;
use truechimer_outcome::outcome::{Figure, Goal, Grid, Outcome};
use truechimer_outcome::plot::{Axis, Plot};
use truechimer_outcome::program;

/// With a table wider than any telephone, under a caption that is longer still, and eight lines in a picture.
fn outcome(name: &'static str) -> Outcome {
    let head =
        ["program", "64 bytes", "128 bytes", "256 bytes", "512 bytes", "1024 bytes", "1500 bytes"];
    let caption = "Loss at overload (unpaced generator): packets offered a second; lost, median (greatest); lost by its own word";
    let mut grid = Grid::new(caption, head);
    for n in 0..8 {
        let cells = (0..6).map(|size| format!("1.{n}{size} Mpps; 0.1 % (0.3 %); 0.1 %"));
        grid.row([format!("program {n}")].into_iter().chain(cells));
    }
    let lines = (0..8).map(|n| {
        let line = (1..40).map(|x| (f64::from(x), f64::from(x * (n + 1))));
        (format!("a program with the name of {n}"), line.collect())
    });
    let plot = Plot {
        title: "Loss (%) against the rate offered".to_owned(),
        x: Axis::log("packets a second"),
        y: Axis::log("loss"),
        lines: lines.collect(),
    };
    Outcome {
        name,
        title: "Loss, rate and jitter".to_owned(),
        about: vec!["Frames are made in the kernel. ".repeat(20)],
        goals: vec![
            Goal::at_least(
                "packet against tcpdump with the same ring",
                0.95,
                &Interval::of(&[1.0; 8]),
            ),
            Goal::at_least("xdp against tcpdump", 3.5, &Interval::of(&[3.2; 8])),
            Goal::at_most("loss", 1.0, &Interval::of(&[0.2, 3.0])),
        ],
        grids: vec![grid],
        figures: vec![Figure::Plot(plot)],
        ..Outcome::default()
    }
}

/// The page of these, looked at.
fn page(folder: &Folder, outcomes: &[Outcome]) -> String {
    let path = folder.0.join("page.html");
    let files = Files { html: Some(path.clone()), ..Files::default() };
    let met = files.finish(program::page("Packet capture"), outcomes).expect("a page");
    assert!(!met, "one goal was missed");
    let page = std::fs::read_to_string(path).expect("the page");
    headed(&page, &["host", "time", "machine"]);
    if let Some(browser) = browser() {
        looks_right(&browser, folder, "page.html", 0);
    }
    page
}

#[test]
fn they_have_a_headline_and_fit() {
    let folder = Folder::new("outcome");
    let of_goals = page(&folder, &[outcome("rate"), outcome("again")]);
    assert!(of_goals.contains("goals missed") && of_goals.contains("not to be judged here"));
    let named = |name: &str| (name.to_owned(), "5.71 Mpps".to_owned());
    let headline = ["xdp", "packet", "tcpdump"].map(named).to_vec();
    let own = page(&folder, &[Outcome { headline, ..outcome("rate") }]);
    assert!(own.contains("5.71 Mpps") && !own.contains("goals missed"));
}
