//! The page in a real browser: every chart is drawn, nothing fails, both themes show something,
//! and the charts do what the page says they do.

/// The page with everything in it.
#[path = "../examples/showcase.rs"]
mod showcase;

#[path = "support/headless.rs"]
mod headless;

use headless::{Folder, attribute, browser, faults, looks_right, open};

/// Uses the first two charts as a reader would, and writes down what came of it.
const READER: &str = r"<script>
window.addEventListener('load', function () { setTimeout(function () {
  var root = document.documentElement, boxes = document.querySelectorAll('.plot');
  function on(box, type, x, y) {
    var over = box.querySelector('.u-over'), at = over.getBoundingClientRect();
    over.dispatchEvent(new MouseEvent(type, { bubbles: true, clientX: at.left + x, clientY: at.top + y, movementX: 5, movementY: 0, button: 0, view: window }));
  }
  function drag(box, a, b, y) {
    on(box, 'mousemove', a, y); on(box, 'mousedown', a, y); on(box, 'mousemove', b, y); on(box, 'mouseup', b, y);
  }
  function report(name, value) { root.setAttribute('data-seen-' + name, value); }
  drag(boxes[0], 100, 300, 100);
  report('zoomed', boxes[0].dataset.zoomed);
  report('zoomed-too', boxes[1].dataset.zoomed);
  on(boxes[0], 'mousemove', 200, 100);
  setTimeout(function () {
    report('tip', boxes[0].querySelector('.tip').textContent);
    report('tip-too', boxes[1].querySelector('.tip').textContent);
    on(boxes[0], 'dblclick', 200, 100);
    report('back', 'zoomed:' + boxes[0].dataset.zoomed + boxes[1].dataset.zoomed);
    document.querySelectorAll('.tools button').forEach(function (b) { b.click(); });
    document.querySelectorAll('.keys button').forEach(function (b) { b.click(); b.click(); });
    document.querySelector('button.at').click();
    report('led', boxes[1].dataset.zoomed);
    boxes.forEach(function (b) {
      ['ArrowLeft', 'ArrowRight', '+', '-', 'Escape'].forEach(function (key) {
        b.dispatchEvent(new KeyboardEvent('keydown', { key: key }));
      });
    });
    window.dispatchEvent(new Event('beforeprint'));
    /* Charts take their new size once this script has ended. */
    setTimeout(function () {
      var widest = 0;
      document.querySelectorAll('.wide table, .u-wrap').forEach(function (e) {
        widest = Math.max(widest, e.getBoundingClientRect().width);
      });
      report('paper', widest);
      window.dispatchEvent(new Event('afterprint'));
      document.getElementById('theme').click();
      report('theme', root.dataset.theme);
      report('done', 'yes');
    }, 300);
  }, 300);
}, 300); });
</script></body>";

#[test]
fn every_chart_is_drawn_and_can_be_used() {
    let Some(browser) = browser() else { return };
    let folder = Folder::new("drawn");
    let page = showcase::page(false);
    std::fs::write(folder.0.join("page.html"), &page).unwrap();
    // Three have nothing to show, and say so.
    looks_right(&browser, &folder, "page.html", 3);

    let used = page.replace("</body>", READER);
    std::fs::write(folder.0.join("used.html"), used).unwrap();
    let document = open(&browser, &folder, "used.html#light", 1200, &["--dump-dom"]);
    let seen = |name: &str| attribute(&document, &format!("data-seen-{name}")).unwrap_or("");
    assert_eq!(seen("done"), "yes");
    assert_eq!(attribute(&document, "data-error"), None);
    assert_eq!(attribute(&document, "data-errors"), Some("0"));
    let range: Vec<f64> = seen("zoomed").split(' ').map(|v| v.parse().unwrap()).collect();
    let share = (range[1] - range[0]) / (6.0 * 3600.0);
    assert!((0.15..0.25).contains(&share), "a drag over 200 pixels gave {range:?}");
    assert_eq!(seen("zoomed"), seen("zoomed-too"), "time charts zoom together");
    assert!(seen("tip").contains("µs") && seen("tip").contains("bound"), "{}", seen("tip"));
    assert!(seen("tip-too").contains("|error|"), "{}", seen("tip-too"));
    assert_eq!(seen("back"), "zoomed:");
    assert_eq!(seen("led").split(' ').count(), 2, "a time in the log leads to the charts");
    let widest: f64 = seen("paper").parse().unwrap();
    assert!((600.0..=718.0).contains(&widest), "{widest} pixels on paper");
    // A fifth of six hours after 21:30:00 UTC.
    assert!(seen("tip").starts_with("22:") || seen("tip").starts_with("23:"), "{}", seen("tip"));
    assert_eq!(seen("theme"), "dark");
}

#[test]
fn what_does_not_fit_or_fails_is_found() {
    let Some(browser) = browser() else { return };
    let folder = Folder::new("faults");
    let page = showcase::page(false);
    let wide = "<div style='width:1000px'>wide</div></body>";
    let cut = "<div class=narrow style='width:50px;overflow:hidden;white-space:nowrap'>much too long a text</div></body>";
    let fails = "<script>nobody.knows();</script></body>";
    for (end, says) in [
        (wide, &["360 light: wider 6", "360 dark: wider 6", "900 light: wider 1"][..]),
        (cut, &["360 light: narrow cuts much too long a text", "1600 dark: narrow cuts"]),
        (fails, &["360 light: error", "1600 dark: error"]),
    ] {
        std::fs::write(folder.0.join("page.html"), page.replace("</body>", end)).unwrap();
        let found = faults(&browser, &folder, "page.html", 3);
        assert!(says.iter().all(|part| found.contains(part)), "{end}: {found}");
        assert!(!found.contains("1600 light: wider"), "{end}: {found}");
    }
    // A chart more or less than there is.
    let found = faults(&browser, &folder, "page.html", 2);
    assert!(
        found.contains("900 light: empty 3, not 2") && found.contains("900 light: drawn"),
        "{found}"
    );
}

#[test]
fn both_themes_show_something() {
    let Some(browser) = browser() else { return };
    let folder = Folder::new("shown");
    std::fs::write(folder.0.join("page.html"), showcase::page(false)).unwrap();
    let mut pictures = Vec::new();
    for theme in ["light", "dark"] {
        let file = folder.0.join(format!("{theme}.png"));
        let screenshot = format!("--screenshot={}", file.display());
        open(&browser, &folder, &format!("page.html#{theme}"), 1200, &[&screenshot]);
        let picture = std::fs::read(&file).unwrap();
        assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n"));
        let side = |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().unwrap());
        assert_eq!((side(16), side(20)), (1200, 1400));
        // A blank page of this size takes under 10 kB.
        assert!(picture.len() > 50_000, "{theme}: {} bytes", picture.len());
        pictures.push(picture);
    }
    assert_ne!(pictures[0], pictures[1]);
}

#[test]
fn a_day_and_more_is_a_small_page_and_the_same_every_time() {
    let page = showcase::page(true);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert_eq!(page, showcase::page(true));
    // Nothing is loaded from anywhere: no element has an address outside the page.
    let markup = page.split("<script").next().unwrap().replace("&lt;img src=x", "");
    for loads in ["src=", "url(", "@import", "<iframe"] {
        assert!(!markup.contains(loads), "{loads}");
    }
    assert!(page.contains("default-src 'none'"));
    assert_eq!(page.matches("</script>").count(), 3, "hostile names stay text");
    assert!(page.contains("<noscript>"));
    assert!(page.contains("<dt>host</dt><dd>nowhere &lt;b&gt;</dd>"));
    assert!(page.contains("<dt>made by</dt>") && !page.contains("<dt>not known</dt>"));
    // A log has the time of day as well.
    assert!(page.contains(">21:31:41.3"), "no time of day");
}
