//! Writes a page with every element that there is: `cargo run -p truechimer-report --example
//! showcase > showcase.html`. With `--long`, a day and more of numbers, one a second.

use std::io::Write;
use truechimer_report::{
    Cell, Chart, Entry, Histogram, Marker, Page, Section, Series, Share, Table, Tone, Unit, View,
};

/// Numbers that look random, and are the same every time: 0 to 1.
fn noise(n: u64) -> f64 {
    let mut x = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// The sum of twelve of them, less six: a bell.
fn bell(n: u64) -> f64 {
    (0..12).map(|k| noise(n * 12 + k)).sum::<f64>() - 6.0
}

struct Data {
    seconds: u64,
    errors: Vec<(f64, f64)>,
    bounds: Vec<(f64, f64, f64)>,
    trips: Vec<(f64, f64)>,
}

fn data(seconds: u64) -> Data {
    let mut errors = Vec::new();
    let mut bounds = Vec::new();
    let mut wander = 0.0;
    for n in 0..seconds {
        let t = n as f64;
        wander = wander * 0.9995 + bell(n) * 40e-9;
        let start = 0.8 / (1.0 + t * t * 400.0);
        let outage = (seconds / 2..seconds / 2 + seconds / 20).contains(&n);
        let error = if outage { f64::NAN } else { wander + start + bell(n + 7) * 0.4e-6 };
        errors.push((t, error));
        let bound = 25e-6 + 1.2 / (1.0 + t * t * 300.0) + (n % 64) as f64 * 0.05e-6;
        bounds.push((t, -bound, bound));
    }
    let trips = (0..seconds / 16)
        .map(|n| {
            let queue = noise(n * 3) * noise(n * 5 + 1);
            (n as f64 * 16.0, 300e-6 + 40e-6 * queue + if n % 50 == 0 { 4e-3 * queue } else { 0.0 })
        })
        .collect();
    Data { seconds, errors, bounds, trips }
}

fn events(seconds: u64) -> Vec<Entry> {
    let at = |share: f64| seconds as f64 * share;
    let entry = |share, tone, text: &str| Entry { at: at(share), tone, text: text.to_owned() };
    vec![
        entry(0.001, Tone::Good, "synchronised to ntp-a.example"),
        entry(0.30, Tone::Plain, "selected ntp-b.example </script><script>alert(1)</script>"),
        entry(0.5, Tone::Warning, "no reply for 5 polls: \"holdover\" & waiting"),
        entry(0.55, Tone::Plain, "replies again"),
        entry(0.70, Tone::Bad, "shift of the path: +0.9 ms forward"),
        entry(0.705, Tone::Quiet, "floor raised"),
    ]
}

fn markers(seconds: u64) -> Vec<Marker> {
    events(seconds).iter().map(|e| Marker::new(e.at, &e.text).tone(e.tone)).collect()
}

fn clock(data: &Data) -> Section {
    let settled = View::range("bound", -40e-6, 40e-6);
    let close = View::range("error", -8e-6, 8e-6);
    let error = Chart::time("Error within its bound")
        .about("Clock less truth: positive is ahead.")
        .unit(Unit::Seconds)
        .view(settled)
        .view(close)
        .view(View::all("all"))
        .view(View::symmetric_log("log", 1e-6))
        .with(Series::band("bound", data.bounds.iter().copied()).colour(7))
        .with(Series::line("error", data.errors.iter().copied()).colour(0))
        .markers(markers(data.seconds));
    let sizes = Chart::time("Size of the error, and its bound")
        .unit(Unit::Seconds)
        .log_y()
        .line("|error|", data.errors.iter().map(|&(t, e)| (t, e.abs())))
        .with(Series::line("bound", data.bounds.iter().map(|b| (b.0, b.2))).dashed())
        .markers(markers(data.seconds));
    let trips = Chart::time("Round trips")
        .unit(Unit::Seconds)
        .view(View::range("floor", 295e-6, 345e-6))
        .view(View::all("all"))
        .points("round trip", data.trips.iter().copied())
        .with(Series::line("floor", data.trips.iter().map(|&(t, _)| (t, 300e-6))).dashed());
    let rate = Chart::time("Rate").y("", Unit::Rate).line(
        "rate error",
        data.errors.iter().step_by(64).map(|&(t, _)| (t, 1.5e-9 * bell(t as u64))),
    );
    Section::new("A clock")
        .text("The clock starts half a second wrong, is quickly right, and loses its server once.")
        .chart(error)
        .chart(sizes)
        .chart(
            Histogram::new("How often which error", Unit::Seconds)
                .values("error", data.errors.iter().skip(600).map(|e| e.1))
                .chart()
                .view(View::all("linear"))
                .view(View::log("log")),
        )
        .chart(trips)
        .chart(rate)
        .chart(
            Chart::time("Source followed")
                .y_names([
                    "ntp-a.example",
                    "ntp-b.example",
                    "a server with a very long name indeed",
                ])
                .points(
                    "followed",
                    data.trips.iter().map(|&(t, _)| (t, (noise(t as u64 / 2000) * 3.0).floor())),
                ),
        )
        .log("What the clock said", events(data.seconds))
}

fn comparison() -> Section {
    let names =
        ["near, 16 s", "near, 256 s", "city, 16 s", "city, 256 s", "far, 16 s", "far, 256 s"];
    let spread = |k: f64| {
        (0..names.len()).map(move |n| {
            let size = k * (1.0 + n as f64);
            (n as f64, [-3.0, -0.8, 0.1, 0.9, 3.5].map(|q| q * size * 1e-6))
        })
    };
    let time = |v| Cell::number(v, Unit::Seconds);
    Section::new("Two of them")
        .chart(
            Chart::places("Percentiles 1, 25, 50, 75 and 99 of the error", names)
                .unit(Unit::Seconds)
                .with(Series::boxes("feed-forward", spread(0.7)))
                .with(Series::boxes("feedback", spread(2.0))),
        )
        .chart(
            Histogram::new("Errors side by side", Unit::Seconds)
                .values("feed-forward", (0..5000).map(|n| bell(n) * 1.2e-6))
                .values("feedback", (0..5000).map(|n| bell(n + 9) * 4e-6 + 2e-6))
                .chart(),
        )
        .table(
            Table::new("Statistics after the first four hours")
                .head(["", "feed-forward", "feedback"])
                .row("median", [time(0.98e-6), time(2.31e-6)])
                .row("99 %", [time(3.5e-6), time(14.2e-6)])
                .row("greatest", [time(9.12e-6), time(1.25e-3).tone(Tone::Warning)])
                .row(
                    "inside the bound",
                    [
                        Cell::number(1.0, Unit::Share).digits(5).tone(Tone::Good),
                        Cell::number(0.98765, Unit::Share).digits(5).tone(Tone::Bad),
                    ],
                )
                .row("replies", [Cell::count(5400), Cell::count(5399)])
                .row("never measured", [Cell::missing(), Cell::text("not by this one")])
                .share(Share::Rows),
        )
}

fn few() -> Section {
    let at = |n: u32| f64::from(n) * 2.0;
    let value = |n: u32| 4e-6 + bell(u64::from(n)) * 0.5e-6;
    let head = (0..16).map(|n| format!("a column with number {n}"));
    let cells = (0..15).map(|n| Cell::number(f64::from(n) * 1.234_567e-6, Unit::Seconds).digits(6));
    Section::new("Few values")
        .chart(
            Chart::time("Seven values with their bounds")
                .unit(Unit::Seconds)
                .with(Series::band(
                    "± bound",
                    (0..7).map(|n| (at(n), value(n) - 2e-6, value(n) + 2e-6)),
                ))
                .with(Series::line("value", (0..7).map(|n| (at(n), value(n)))).colour(0)),
        )
        .chart(Histogram::new("Seven values", Unit::Seconds).values("v", (0..7).map(value)).chart())
        .table(Table::new("Wider than paper").head(head).row("one", cells))
}

fn oscillator() -> Section {
    let taus = || (0..16).map(|k| f64::from(1 << k));
    Section::new("An oscillator")
        .chart(
            Chart::xy("Allan deviation")
                .about("White phase noise, then a random walk of the frequency.")
                .x("averaging time", Unit::Seconds)
                .unit(Unit::Rate)
                .log_x()
                .log_y()
                .with(Series::line("measured", taus().map(|t| (t, 1e-7 / t + 2e-11 * t))))
                .with(Series::line("white phase noise", taus().map(|t| (t, 1e-7 / t))).dashed()),
        )
        .chart(
            Chart::xy("Offset against round trip")
                .x("round trip", Unit::Seconds)
                .y("offset", Unit::Seconds)
                .points(
                    "exchanges",
                    (0..3000).map(|n| {
                        let queue = noise(n) * noise(n + 50_000) * 200e-6;
                        (300e-6 + queue, (noise(n * 7) - 0.5) * queue)
                    }),
                ),
        )
}

/// The page, of six hours or of 28.
pub fn page(long: bool) -> String {
    let seconds = if long { 28 * 3600 } else { 6 * 3600 };
    let data = data(seconds);
    let nothing = Section::new("Nothing at all")
        .text("What was not measured is said, and breaks nothing.")
        .chart(Chart::time("No values").unit(Unit::Seconds).line("none", []))
        .chart(Chart::time("No numbers").line("gaps", (0..9).map(|n| (f64::from(n), f64::NAN))))
        .chart(Chart::time("One value").unit(Unit::Seconds).line("one", [(5.0, 3e-6)]))
        .chart(Chart::xy("All the same").unit(Unit::Hertz).line("flat", [(0.0, 1e9), (9.0, 1e9)]))
        .chart(
            Chart::places("Long names", (0..14).map(|n| format!("a place with number {n}")))
                .unit(Unit::Seconds)
                .with(Series::boxes(
                    "boxes",
                    (0..14).map(|n| (f64::from(n), [1e-9, 1e-8, 1e-7, 1e-6, 1e-5])),
                ))
                .log_y(),
        )
        .chart(Histogram::new("No distribution", Unit::None).values("none", []).chart());
    let hostile = Section::new("Names from elsewhere <b>&amp;\"'")
        .text("</p></main><script>document.documentElement.dataset.errors = 'broken'</script>")
        .code("indented\n    code --with=\"quotes\" </code>")
        .chart(
            Chart::time("</h3></script><!-- \"title\"")
                .line("</button><img src=x onerror=alert(1)>", [(0.0, 1.0), (1.0, 2.0)]),
        );
    Page::new("Every element of a report")
        .about("None of these numbers was measured: the page shows what a report can hold.")
        .version("truechimer-report, showcase")
        .command("cargo run -p truechimer-report --example showcase")
        .highlight("median error", Cell::number(0.98e-6, Unit::Seconds))
        .fact("host", "nowhere <b>")
        .fact("clock", "synchronised, ± 26.3 µs")
        .fact("not known", "")
        // 2026-11-28 21:30:00.5 UTC
        .since(1_795_901_400_500_000_000)
        .highlight("99 % within", Cell::number(3.5e-6, Unit::Seconds))
        .highlight("inside the bound", Cell::number(1.0, Unit::Share).tone(Tone::Good))
        .section(clock(&data))
        .section(comparison())
        .section(oscillator())
        .section(few())
        .section(nothing)
        .section(hostile)
        .render()
}

#[allow(dead_code, reason = "the tests take the page and write no file")]
fn main() -> std::io::Result<()> {
    let long = std::env::args().any(|argument| argument == "--long");
    std::io::stdout().lock().write_all(page(long).as_bytes())
}
