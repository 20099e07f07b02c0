//! The plot of `--plot`: reads a second as bars, a group for each clock.

use std::fmt::Write;

use super::clocks::ALL;
use super::contest::{CALM, Turn, Who};
use super::figures::Figures;

const WIDTH: f64 = 720.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 46.0;
const BAR: f64 = 13.0;
const GAP: f64 = 10.0;
/// From light to dark, the more readers the darker.
const DARKEST: f64 = 32.0;
const LIGHTEST: f64 = 78.0;

/// The plot.
pub fn svg(figures: &Figures) -> String {
    let groups: Vec<(&str, Vec<(u16, f64)>)> = ALL
        .into_iter()
        .map(|clock| {
            let who = Who::Threads;
            let turn = |readers| Turn { clock, dummy: false, who, readers, writer_hz: CALM };
            let rates = figures.readers.iter().filter_map(|readers| {
                Some((*readers, figures.find(turn(*readers))?.reads_per_second))
            });
            (clock.name(), rates.filter(|(_, rate)| *rate > 0.0).collect())
        })
        .collect();
    let most = groups.iter().flat_map(|(_, bars)| bars.iter().map(|(_, rate)| *rate));
    let most = most.fold(1.0, f64::max);
    let x = |rate: f64| LEFT + rate / most * (WIDTH - LEFT - RIGHT);
    let bars: usize = groups.iter().map(|(_, bars)| bars.len()).sum();
    let bottom = TOP + bars as f64 * BAR + groups.len() as f64 * GAP;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"16\" font-weight=\"bold\">Reads a second by {} threads \
         ({} processors, counter {})</text>\n",
        bottom + 12.0,
        figures.readers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        figures.processors,
        figures.counter,
    );
    let mut line = |line: std::fmt::Arguments<'_>| {
        // Nothing fails in memory.
        let _ = text.write_fmt(line);
    };
    let step = step(most);
    for mark in (0..).map(|n| f64::from(n) * step).take_while(|mark| *mark <= most) {
        let at = x(mark);
        line(format_args!(
            "<path d=\"M{at:.1} {:.0}V{bottom:.0}\" stroke=\"#ccc\"/>\n\
             <text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"#555\">{} M</text>\n",
            TOP - 8.0,
            TOP - 12.0,
            mark / 1e6,
        ));
    }
    let mut y = TOP;
    for (name, bars) in &groups {
        let middle = y + bars.len() as f64 * BAR / 2.0 + 4.0;
        line(format_args!(
            "<text x=\"{:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{name}</text>\n",
            LEFT - 8.0
        ));
        for (at, (readers, rate)) in bars.iter().enumerate() {
            let part = at as f64 / (bars.len().max(2) - 1) as f64;
            let light = LIGHTEST + (DARKEST - LIGHTEST) * part;
            line(format_args!(
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.0}\" \
                 fill=\"hsl(210,60%,{light:.0}%)\"/>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" fill=\"#333\">{:.1} M × \
                 {readers}</text>\n",
                x(*rate) - LEFT,
                BAR - 2.0,
                x(*rate) + 4.0,
                y + BAR - 4.0,
                rate / 1e6 / f64::from(*readers),
            ));
            y += BAR;
        }
        y += GAP;
    }
    text.push_str("</svg>\n");
    text
}

/// Between two marks on a scale to `most`: 1, 2 or 5 times a power of ten, six to fifteen of them.
fn step(most: f64) -> f64 {
    let power = 10_f64.powf(most.log10().floor() - 1.0);
    match most / power {
        0.0..15.0 => power,
        15.0..30.0 => 2.0 * power,
        30.0..75.0 => 5.0 * power,
        _ => 10.0 * power,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_few() {
        for (most, wanted) in [(100.0, 10.0), (149.0, 10.0), (208e6, 20e6), (60.0, 5.0), (9.0, 1.0)]
        {
            assert!((step(most) - wanted).abs() < 1e-6 * wanted, "{most}: {}", step(most));
        }
    }
}
