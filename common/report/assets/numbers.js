/* ---- numbers ---- */
var MINUS = '\u2212', NBSP = '\u00a0';
function fixed(v, decimals) {
  var s = Math.abs(v).toFixed(Math.max(0, Math.min(15, decimals)));
  var neg = v < 0 && Number(s) !== 0;
  var dot = s.indexOf('.'), whole = dot < 0 ? s : s.slice(0, dot), rest = dot < 0 ? '' : s.slice(dot);
  if (whole.length > 4) whole = whole.replace(/\B(?=(\d{3})+$)/g, '\u202f');
  return (neg ? MINUS : '') + whole + rest;
}
function stepFor(steps, v) {
  v = Math.abs(v);
  var best = steps[0];
  if (v === 0) { steps.forEach(function (s) { if (s[0] === 1) best = s; }); return best; }
  steps.forEach(function (s) { if (v >= s[0] * 0.99999999) best = s; });
  return best;
}
function withUnit(text, step) { return step[1] ? text + NBSP + step[1] : text; }
/* Four significant digits and the unit, for the crosshair. */
function exact(axis, v) {
  if (axis.names.length && v != null) return axis.names[Math.round(v)] || '\u2013';
  if (v == null || v !== v) return '\u2013';
  var s = stepFor(axis.steps, v), n = v / s[0];
  var digits = n === 0 ? 0 : 3 - Math.floor(Math.log10(Math.abs(n)));
  if (n === Math.round(n) && Math.abs(n) < 1e6) digits = 0;
  return withUnit(fixed(n, digits), s);
}
function pad2(n) { return (n < 10 ? '0' : '') + n; }
/* Seconds as 14h05m30.25s, as coarse as `incr` allows. */
function clock(v, incr, longest) {
  var neg = v < 0 ? MINUS : '';
  v = Math.abs(v);
  if (incr >= 86400) return neg + fixed(v / 86400, 0) + NBSP + 'd';
  if (incr >= 3600) return neg + fixed(v / 3600, 0) + NBSP + 'h';
  var decimals = incr >= 1 ? 0 : Math.min(9, Math.ceil(-Math.log10(incr) - 1e-9));
  var p = Math.pow(10, decimals);
  v = Math.round(v * p) / p;
  if (longest < 120) return neg + fixed(v, decimals) + NBSP + 's';
  var h = Math.floor(v / 3600), m = Math.floor((v - h * 3600) / 60), s = v - h * 3600 - m * 60;
  if (longest < 3600) {
    if (incr >= 60) return neg + m + NBSP + 'min';
    return neg + m + 'm' + (s < 10 ? '0' : '') + s.toFixed(decimals) + 's';
  }
  var hm = neg + h + 'h' + pad2(m);
  return incr >= 60 ? hm : hm + 'm' + (s < 10 ? '0' : '') + s.toFixed(decimals) + 's';
}
/* Time of day (UTC) `v` seconds after `since`, [day, second of that day], as coarse as `incr` allows. */
function timeOfDay(since, v, incr) {
  var decimals = incr >= 1 ? 0 : Math.min(9, Math.ceil(-Math.log10(incr) - 1e-9));
  var p = Math.pow(10, decimals), second = Math.round((since[1] + v) * p) / p;
  var day = since[0] + Math.floor(second / 86400);
  second -= (day - since[0]) * 86400;
  if (incr >= 86400) return date(day);
  var h = Math.floor(second / 3600), m = Math.floor((second - h * 3600) / 60), s = (second - h * 3600 - m * 60).toFixed(decimals);
  return pad2(h) + ':' + pad2(m) + (incr >= 60 ? '' : ':' + (s.indexOf('.') === 1 || s.length === 1 ? '0' : '') + s);
}
/* A day since 1970 as 2026-11-28. */
function date(day) { return new Date(day * 864e5).toISOString().slice(0, 10); }
/* The day or days of a stretch of seconds after `since`. */
function days(since, lo, hi) {
  var a = date(since[0] + Math.floor((since[1] + lo) / 86400)), b = date(since[0] + Math.floor((since[1] + hi) / 86400));
  return (a === b ? a : a + ' to ' + b) + ', UTC';
}
function niceStep(raw) {
  var unit = Math.pow(10, Math.floor(Math.log10(raw)));
  var n = raw / unit;
  return (n <= 1.0001 ? 1 : n <= 2.0001 ? 2 : n <= 5.0001 ? 5 : 10) * unit;
}
function multiples(lo, hi, step) {
  var out = [];
  for (var k = Math.ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9 && out.length < 200; k++) out.push(k * step);
  return out;
}
var TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, 86400];
function timeStep(raw) {
  if (raw <= 1) return niceStep(raw);
  for (var i = 0; i < TIMES.length; i++) if (TIMES[i] >= raw) return TIMES[i];
  return niceStep(raw / 86400) * 86400;
}
function decades(lo, hi, most) {
  var a = Math.ceil(Math.log10(lo) - 1e-9), b = Math.floor(Math.log10(hi) + 1e-9), out = [], k;
  var every = Math.max(1, Math.ceil((b - a + 1) / most));
  for (k = a; k <= b; k += every) out.push(Number('1e' + k));
  if (b - a < 2) {
    out = [];
    var wanted = b - a < 1 && hi / lo < 3 ? null : [1, 2, 5];
    if (!wanted) return multiples(lo, hi, niceStep((hi - lo) / Math.max(2, most)));
    for (k = a - 1; k <= b; k++) wanted.forEach(function (m) {
      var v = Number(m + 'e' + k);
      if (v >= lo * 0.9999 && v <= hi * 1.0001) out.push(v);
    });
  }
  return out;
}
