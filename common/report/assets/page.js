/* ---- all of it ---- */
var hash = location.hash.slice(1);
setTheme(hash === 'dark' || hash === 'light' ? hash : stored());
readColours();
data.charts.forEach(function (chart, id) {
  try {
    plots.push(new Plot(chart, id));
    root.dataset.charts = String(plots.length);
  } catch (e) {
    errors += 1;
    root.dataset.errors = String(errors);
    root.dataset.error = String(e && e.stack || e);
  }
});
var toggle = document.getElementById('theme');
toggle.hidden = false;
toggle.addEventListener('click', function () {
  var t = isDark() ? 'light' : 'dark';
  setTheme(t);
  stored(t);
  themed();
});
prefersDark.addEventListener('change', themed);
themed();
var hint = document.getElementById('hint');
if (hint) hint.hidden = false;
/* The times of a log lead to the place in the charts of the same time. */
document.querySelectorAll('.at').forEach(function (span) {
  var group = Number(span.closest('section').dataset.group);
  var plot = plots.filter(function (p) { return p.u && p.chart.group === group; })[0];
  if (!plot) return;
  var b = element('button', span.textContent);
  b.className = 'at';
  b.type = 'button';
  b.title = 'Show in the charts';
  b.addEventListener('click', function () {
    var at = Number(span.dataset.at), half = (plot.extent[1] - plot.extent[0]) / 40;
    plot.zoom([at - half, at + half]);
    plot.figure.scrollIntoView({ behavior: 'smooth', block: 'center' });
  });
  span.replaceChildren(b);
});
document.querySelectorAll('.log, .wide').forEach(function (box) {
  if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight) box.tabIndex = 0;
});
/* On paper: dark on white, as wide as the paper. */
var before = null;
/* Pixels across; a sheet of A4 less margins of 1 cm has 718, and a table that is made smaller may be some
   wider than reckoned. */
var PAPER = 680;
window.addEventListener('beforeprint', function () {
  before = root.dataset.theme || '';
  printing = true;
  setTheme('light');
  themed();
  plots.forEach(function (p) { if (p.u) p.u.setSize({ width: Math.min(p.u.width, PAPER), height: 260 }); });
  document.querySelectorAll('.wide table, .log table').forEach(function (t) { t.style.zoom = Math.min(1, PAPER / t.offsetWidth); });
});
window.addEventListener('afterprint', function () {
  printing = false;
  setTheme(before);
  themed();
  plots.forEach(function (p) { if (p.u) p.u.setSize(p.size()); });
  document.querySelectorAll('.wide table, .log table').forEach(function (t) { t.style.zoom = ''; });
});
root.dataset.ready = 'yes';
