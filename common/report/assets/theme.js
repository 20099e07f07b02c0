var root = document.documentElement;
var errors = 0;
root.dataset.charts = '0';
root.dataset.errors = '0';
window.addEventListener('error', function (e) {
  errors += 1;
  root.dataset.errors = String(errors);
  root.dataset.error = String(e.message);
});

/* ---- theme ---- */
var prefersDark = window.matchMedia('(prefers-color-scheme: dark)');
var ink = {};
function stored(value) {
  try {
    if (value === undefined) return localStorage.getItem('truechimer-theme');
    localStorage.setItem('truechimer-theme', value);
  } catch (e) { /* no storage for files here */ }
  return null;
}
function isDark() {
  var t = root.dataset.theme;
  return t === 'dark' || (t !== 'light' && prefersDark.matches);
}
function readColours() {
  var css = getComputedStyle(root);
  ['paper', 'panel', 'ink', 'soft', 'rule', 'grid', 'good', 'warning', 'bad',
    'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7'].forEach(function (name) {
    ink[name] = css.getPropertyValue('--' + name).trim();
  });
}
function colour(series) { return ink['c' + (series.colour % 8)]; }
function themed() {
  readColours();
  var b = document.getElementById('theme');
  b.textContent = isDark() ? 'light theme' : 'dark theme';
  plots.forEach(function (p) { p.keys(); if (p.u) p.u.redraw(false, true); });
}
function setTheme(t) { if (t) root.dataset.theme = t; else delete root.dataset.theme; }
