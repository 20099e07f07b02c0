/* ---- data ---- */
var data = JSON.parse(document.getElementById('data').textContent);
var arrays = data.arrays.map(function (a) {
  if (a.v) {
    var scale = Number('1e' + a.e);
    return a.v.map(function (v) { return v === null ? null : v * scale; });
  }
  var out = new Float64Array(a.d.length), at = 0, q = Number('1e' + Math.abs(a.q));
  for (var i = 0; i < out.length; i++) { at += a.d[i]; out[i] = a.o + (a.q < 0 ? at / q : at * q); }
  return out;
});
/* One x for all series of a chart: rows with the same x share a place, and what a series does not
   have stays undefined, which is drawn over; null is a gap. */
function align(series, logX) {
  var tables = [], byX = {};
  series.forEach(function (s) {
    if (!byX[s.x]) { byX[s.x] = { x: arrays[s.x], columns: [], at: 0 }; tables.push(byX[s.x]); }
    s.y.forEach(function (y) { byX[s.x].columns.push({ y: arrays[y], out: [] }); });
    s.columns = byX[s.x].columns.slice(-s.y.length);
  });
  var xs = [];
  if (logX) tables.forEach(function (t) { while (t.at < t.x.length && !(t.x[t.at] > 0)) t.at += 1; });
  for (;;) {
    var least = Infinity;
    tables.forEach(function (t) { if (t.at < t.x.length && t.x[t.at] < least) least = t.x[t.at]; });
    if (least === Infinity) break;
    var n = xs.length;
    xs.push(least);
    tables.forEach(function (t) {
      if (t.at < t.x.length && t.x[t.at] === least) {
        t.columns.forEach(function (c) { c.out[n] = c.y[t.at]; });
        t.at += 1;
      }
    });
  }
  tables.forEach(function (t) { t.columns.forEach(function (c) { c.out.length = xs.length; }); });
  return xs;
}

/* ---- a chart ---- */
/* Up to so many places across a line has dots, and a band is bars. */
var FEW = 60;
var printing = false;
var plots = [];
function swatch(s, stroke) {
  var d = { line: '<path d="M0 6h24" stroke-width="2.5"/>', points: '<circle cx="12" cy="6" r="3.5" fill="' + stroke + '" stroke="none"/>',
    steps: '<path d="M2 11h6V3h8v5h6v3z" fill="' + stroke + '" fill-opacity=".3"/>',
    band: '<rect x="1" y="1" width="22" height="10" fill="' + stroke + '" fill-opacity=".25" stroke="none"/>',
    boxes: '<rect x="6" y="2" width="12" height="8" fill="none" stroke-width="2"/><path d="M12 2v8" stroke-width="2"/>' }[s.kind];
  return '<svg viewBox="0 0 24 12" aria-hidden="true" fill="none" stroke="' + stroke + '"' +
    (s.dashed ? ' stroke-dasharray="6 4"' : '') + '>' + d + '</svg>';
}
function element(tag, text, parent) {
  var e = document.createElement(tag);
  if (text != null) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
}
function alpha(hex, a) {
  var n = parseInt(hex.slice(1), 16);
  return 'rgba(' + (n >> 16) + ',' + ((n >> 8) & 255) + ',' + (n & 255) + ',' + a + ')';
}

function Plot(chart, id) {
  var self = this;
  this.chart = chart;
  this.figure = document.getElementById('chart-' + id);
  this.box = this.figure.querySelector('.plot');
  this.view = 0;
  this.xs = align(chart.series, chart.x.log);
  this.places = chart.x.names.length;
  this.extent = this.range();
  if (chart.since) chart.x.label = days(chart.since, this.extent[0], this.extent[1]);
  this.zoomed = null;
  this.yFixed = null;
  chart.series.forEach(function (s) { s.show = !s.hidden; });
  this.toolbar();
  var finite = chart.series.some(function (s) {
    return s.columns.some(function (c) { return c.out.some(function (v) { return v != null; }); });
  });
  if (!finite) {
    var p = element('p', 'Nothing was measured here.', this.box);
    p.className = 'empty';
    return;
  }
  this.tip = element('div', null, this.box);
  this.tip.className = 'tip';
  this.build();
  this.box.addEventListener('keydown', function (e) { self.key(e); });
  this.box.addEventListener('blur', function () { self.tip.style.display = 'none'; });
  new ResizeObserver(function () { self.fit(); }).observe(this.box);
}
Plot.prototype.range = function () {
  if (this.places) return [-0.6, this.places - 0.4];
  var n = this.xs.length;
  if (!n) return [0, 1];
  var lo = this.xs[0], hi = this.xs[n - 1], c = this.chart;
  c.markers.forEach(function (m) {
    if (c.x.log && !(m[0] > 0)) return;
    /* Markers beside the data are seen, if they are not far off. */
    if (m[0] < lo && m[0] > lo - (hi - lo) * 0.05) lo = m[0];
    if (m[0] > hi && m[0] < hi + (hi - lo) * 0.05) hi = m[0];
  });
  if (c.x.log) return lo < hi ? [lo / 1.1, hi * 1.1] : [lo / 2, hi * 2];
  if (lo === hi) { var d = c.x.time ? 0.5 : Math.abs(lo) * 1e-3 || 0.5; return [lo - d, hi + d]; }
  if (c.x.time && lo > 0 && lo < (hi - lo) * 0.02) lo = 0;
  var pad = c.x.time ? 0 : (hi - lo) * 0.02;
  return [lo - pad, hi + pad];
};
Plot.prototype.keys = function () {
  this.chart.series.forEach(function (s) {
    s.button.innerHTML = swatch(s, colour(s));
    element('span', s.name, s.button);
    s.button.setAttribute('aria-pressed', String(s.show));
  });
};
Plot.prototype.toolbar = function () {
  var self = this, tools = this.figure.querySelector('.tools');
  var keys = element('div', null, tools);
  keys.className = 'keys';
  keys.setAttribute('role', 'group');
  keys.setAttribute('aria-label', 'Series');
  this.chart.series.forEach(function (s) {
    s.button = element('button', null, keys);
    s.button.type = 'button';
    s.button.addEventListener('click', function () { s.show = !s.show; self.keys(); self.build(); });
  });
  this.keys();
  if (this.chart.views.length < 2) return;
  var views = element('div', null, tools);
  views.className = 'views';
  views.setAttribute('role', 'group');
  views.setAttribute('aria-label', 'Vertical axis');
  element('span', 'y:', views);
  var buttons = this.chart.views.map(function (v, i) {
    var b = element('button', v.name, views);
    b.type = 'button';
    b.setAttribute('aria-pressed', String(i === 0));
    b.addEventListener('click', function () {
      self.view = i;
      self.yFixed = null;
      buttons.forEach(function (o, j) { o.setAttribute('aria-pressed', String(i === j)); });
      self.build();
    });
    return b;
  });
};
/* The range of y: the view's own, or what the series in sight need. */
Plot.prototype.yRange = function (u, lo, hi) {
  if (this.yFixed) return this.yFixed;
  if (this.chart.y.names.length) return [-0.5, this.chart.y.names.length - 0.5];
  var v = this.chart.views[this.view], log = v.scale === 'log';
  if (v.low != null && !this.zoomed) return [v.low, v.high];
  var least = Infinity, most = -Infinity, xs = this.xs;
  /* Zoomed into a range view, what is wide stays behind as it did before. */
  function take(behind, shown) {
    this.chart.series.forEach(function (s) {
      if ((shown && !s.show) || (s.behind && !behind)) return;
      s.columns.forEach(function (c) {
        for (var i = 0; i < xs.length; i++) {
          var y = c.out[i];
          if (y == null || xs[i] < lo || xs[i] > hi || (log && y <= 0)) continue;
          if (y < least) least = y;
          if (y > most) most = y;
        }
      });
    });
  }
  take.call(this, false, true);
  if (least > most) take.call(this, true, true);
  if (least > most) return log ? [0.1, 10] : [-1, 1];
  if (log) {
    if (this.chart.series.some(function (s) { return s.kind === 'steps'; })) least /= 2;
    return [least / 1.3, most * 1.5];
  }
  if (v.scale === 'symlog') {
    var span = Math.max(Math.abs(least), Math.abs(most), v.threshold) * 1.6;
    return [least >= 0 ? 0 : -span, most <= 0 ? 0 : span];
  }
  if (this.chart.series.some(function (s) { return s.kind === 'steps'; })) least = Math.min(0, least);
  if (least === most) { var d = Math.abs(least) * 0.1 || 1e-9; least -= d; most += d; }
  var pad = (most - least) * 0.07;
  return [least === 0 ? 0 : least - pad, most + pad];
};
Plot.prototype.size = function () {
  var w = Math.max(200, this.box.clientWidth);
  return { width: w, height: (w < 600 ? 230 : 300) + (this.chart.x.label ? 20 : 0) + (this.places > 6 ? 40 : 0) };
};
Plot.prototype.fit = function () {
  if (!this.u || printing) return;
  var size = this.size();
  if (size.width === this.u.width) return;
  if (this.places) this.build();
  else this.u.setSize(size);
};
Plot.prototype.splits = function (axis, space) {
  var self = this;
  return function (u, i, lo, hi) {
    var most = Math.max(2, Math.floor((i === 0 ? u.bbox.width : u.bbox.height) / devicePixelRatio / space));
    if (i === 0) {
      if (self.places) return self.chart.x.names.map(function (_, n) { return n; });
      if (axis.log) return decades(lo, hi, most);
      var raw = (hi - lo) / most;
      /* Round times of day, where they are known. */
      var off = self.chart.since ? self.chart.since[1] : 0;
      return multiples(lo + off, hi + off, axis.time ? timeStep(raw) : niceStep(raw)).map(function (v) { return v - off; });
    }
    if (axis.names.length) return multiples(lo, hi, Math.max(1, Math.ceil((hi - lo) / most)));
    var v = self.chart.views[self.view];
    if (v.scale === 'log') return decades(lo, hi, most);
    if (v.scale === 'symlog') {
      var top = Math.max(Math.abs(lo), Math.abs(hi));
      if (top <= v.threshold * 3) return multiples(lo, hi, niceStep((hi - lo) / most));
      var d = [], k, first = Math.ceil(Math.log10(v.threshold) - 1e-9), last = Math.floor(Math.log10(top) + 1e-9);
      var every = Math.max(1, Math.ceil((last - first + 1) * 2 / most));
      for (k = last; k >= first; k -= every) d.push(Number('1e' + k));
      return d.map(function (x) { return -x; }).concat([0], d.reverse()).filter(function (x) { return x >= lo && x <= hi; });
    }
    return multiples(lo, hi, niceStep((hi - lo) / most));
  };
};
Plot.prototype.labels = function (axis) {
  var self = this;
  return function (u, splits, i) {
    if (axis.names.length) {
      return splits.map(function (n) {
        var t = axis.names[Math.round(n)] || '';
        return i === 1 && t.length > 20 ? t.slice(0, 19) + '\u2026' : t;
      });
    }
    var top = 0, least = Infinity, k;
    splits.forEach(function (v) { top = Math.max(top, Math.abs(v)); });
    for (k = 1; k < splits.length; k++) least = Math.min(least, splits[k] - splits[k - 1]);
    /* Differences of rounded sums: a day is 86400, not 86399.99999. */
    least = least === Infinity ? top || 1 : Number(least.toPrecision(6));
    if (self.chart.since && i === 0) return splits.map(function (v) { return timeOfDay(self.chart.since, v, least); });
    if (axis.time) return splits.map(function (v) { return clock(v, least, top); });
    var log = i === 0 ? axis.log : self.chart.views[self.view].scale !== 'linear';
    if (log) return splits.map(function (v) {
      var s = stepFor(axis.steps, v), n = v / s[0];
      var exp = n === 0 ? 0 : Math.floor(Math.log10(Math.abs(n)) + 1e-9), decimals = 0;
      if (exp >= 6 || exp <= -5) return withUnit(n.toExponential(0).replace(/-/g, MINUS).replace('+', ''), s);
      while (decimals < 12 && Math.abs(n - Number(n.toFixed(decimals))) > Math.abs(n) * 1e-7) decimals += 1;
      return withUnit(fixed(n, decimals), s);
    });
    var step = stepFor(axis.steps, top);
    var decimals = Math.ceil(-Math.log10(least / step[0]) - 1e-9);
    return splits.map(function (v) { return v === 0 ? withUnit('0', step) : withUnit(fixed(v / step[0], decimals), step); });
  };
};
/* The index of the value of series `si` nearest to the crosshair, within a few pixels. */
Plot.prototype.nearest = function (u, si, idx, xValue) {
  var ys = u.data[si], xs = u.data[0], reach = 24 / u.over.clientWidth;
  if (si === 0 || ys[idx] != null) return idx;
  var span = u.scales.x.max - u.scales.x.min, a = idx, b = idx, best = null;
  function far(i) {
    if (u.scales.x.distr === 3) return Math.abs(Math.log(xs[i] / xValue)) > reach * Math.log(u.scales.x.max / u.scales.x.min);
    return Math.abs(xs[i] - xValue) > reach * span;
  }
  for (var n = 0; n < 4000 && (a >= 0 || b < xs.length); n++) {
    if (a >= 0) { if (far(a)) a = -1; else if (ys[a] != null) { best = a; break; } else a -= 1; }
    if (b < xs.length) { if (far(b)) b = xs.length; else if (ys[b] != null) { best = b; break; } else b += 1; }
  }
  return best;
};
Plot.prototype.build = function () {
  var self = this, c = this.chart, v = c.views[this.view], logY = v.scale === 'log';
  if (!this.tip) return;
  if (this.u) this.u.destroy();
  var series = [{}], columns = [this.xs], bands = [];
  /* What is drawn later lies on top: bands at the bottom, then references, and of the rest the first
     named, the subject, last. */
  var rest = c.series.filter(function (s) { return s.kind !== 'band'; });
  var order = c.series.filter(function (s) { return s.kind === 'band'; })
    .concat(rest.filter(function (s) { return s.dashed; }), rest.filter(function (s) { return !s.dashed; }).reverse());
  var stepped = c.series.filter(function (s) { return s.kind === 'steps' && s.show; }).length;
  var few = this.xs.length <= FEW;
  order.forEach(function (s) {
    var first = series.length;
    s.first = first;
    s.columns.forEach(function (col) {
      var ys = col.out;
      if (logY) ys = ys.map(function (y) { return y == null || y > 0 ? y : s.kind === 'steps' ? 1e-300 : null; });
      columns.push(ys);
      var o = { show: s.show, scale: 'y', stroke: function () { return colour(s); }, width: 1.5, points: { show: false }, spanGaps: false };
      if (s.kind === 'line') {
        o.dash = s.dashed ? [6, 4] : undefined;
        /* A value alone between gaps is a dot. */
        o.points = { show: false };
        if (few) o.points = { show: true, size: 5, fill: o.stroke };
      } else if (s.kind === 'points') {
        var many = ys.length > 1500;
        o.paths = function () { return null; };
        o.points = { show: true, size: many ? 3 : 5, width: 0, fill: function () { return alpha(colour(s), many ? 0.65 : 0.85); }, stroke: 'rgba(0,0,0,0)' };
      } else if (s.kind === 'steps') {
        o.paths = uPlot.paths.stepped({ align: 1 });
        /* Fills of several on top of each other would be a colour of nobody's. */
        o.fill = stepped > 1 ? undefined : function () { return alpha(colour(s), 0.22); };
        o.fillTo = function (u) { return logY ? u.scales.y.min : 0; };
      } else if (s.kind === 'band') {
        o.width = few || ys.length > 500 ? 0 : 0.75;
        o.stroke = function () { return alpha(colour(s), o.width ? 0.5 : 0); };
      } else {
        o.paths = function () { return null; };
      }
      series.push(o);
    });
    if (s.kind === 'band' && !few) {
      bands.push({ series: [first + 1, first], fill: function () { return alpha(colour(s), isDark() ? 0.2 : 0.14); } });
    }
  });
  var small = this.box.clientWidth < 600;
  /* Names that would run into each other lean. */
  var longest = c.x.names.reduce(function (n, t) { return Math.max(n, t.length); }, 0) * 6.6 + 8;
  var lean = this.places > 1 && longest > (this.box.clientWidth - 90) / (this.places + 0.2);
  var font = (small ? 11 : 12) + 'px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif';
  /* Leaning names end to the right of their place: the last ones want room there. */
  var deep = Math.min(108, longest * 0.72), place = (this.box.clientWidth - 90) / (this.places + 0.2);
  var beside = !lean ? 0 : c.x.names.reduce(function (most, name, i) {
    return Math.max(most, Math.min(108, (name.length * 6.6 + 8) * 0.72) - (self.places - 1 - i + 0.4) * place);
  }, 0);
  function axis(a, i, space) {
    return {
      scale: i === 0 ? 'x' : 'y', stroke: function () { return ink.soft; }, font: font, labelFont: font,
      grid: { stroke: function () { return ink.grid; }, width: 1, show: i === 1 || !self.places },
      ticks: { stroke: function () { return ink.rule; }, width: 1, size: 5 },
      rotate: i === 0 && lean ? -45 : 0,
      splits: self.splits(a, space), values: self.labels(a), gap: 5, label: i === 0 && a.label ? a.label : undefined,
      labelSize: i === 0 && a.label ? 20 : 0, labelGap: 2, filter: function (u, s) { return s; },
      size: function (u, values) {
        if (i === 0) return lean ? 22 + deep : 28;
        var widest = small ? 52 : 74;
        u.ctx.font = font.replace(/^(\d+)px/, function (_, n) { return n * devicePixelRatio + 'px'; });
        (values || []).forEach(function (t) { widest = Math.max(widest, Math.ceil(u.ctx.measureText(t || '').width / devicePixelRatio) + 14); });
        return widest;
      }
    };
  }
  var size = this.size();
  this.u = new uPlot({
    width: size.width, height: size.height, legend: { show: false }, series: series, bands: bands,
    padding: [c.markers.some(function (m) { return m[2]; }) ? 44 : 10, Math.max(c.since ? 36 : 26, beside), 0, 0],
    scales: {
      x: { time: false, distr: c.x.log ? 3 : 1, range: function (u, lo, hi) { return self.zoomed || self.extent; } },
      y: {
        distr: logY ? 3 : v.scale === 'symlog' ? 4 : 1, asinh: v.threshold || 1,
        range: function (u) { var x = self.zoomed || self.extent; return self.yRange(u, x[0], x[1]); }
      }
    },
    axes: [axis(c.x, 0, self.places ? 1 : c.x.time ? (small ? 68 : 90) : 80), axis(c.y, 1, 36)],
    cursor: {
      drag: { x: true, y: true, uni: 40, setScale: false }, points: { size: 6 },
      dataIdx: function (u, si, idx, x) { return self.nearest(u, si, idx, x); },
      bind: { dblclick: function () { return function () { self.reset(); return null; }; } },
      sync: c.group == null ? undefined : { key: 'group-' + c.group, scales: ['x', null],
        filters: { pub: function (type) { return type === 'mousemove' || type === 'mouseleave'; } } }
    },
    hooks: {
      setSelect: [function (u) { self.select(u); }],
      setCursor: [function (u) { self.point(u); }],
      drawAxes: [function (u) { self.zero(u); }],
      draw: [function (u) { self.bars(u); self.boxes(u); self.markers(u); }]
    }
  }, columns, this.box);
};
Plot.prototype.select = function (u) {
  var s = u.select;
  if (s.width < 4 && s.height < 4) return;
  var byX = s.width >= 4 && s.width < u.over.clientWidth - 1 || s.height >= u.over.clientHeight - 1;
  var byY = s.height < u.over.clientHeight - 1;
  var lo = u.posToVal(s.left, 'x'), hi = u.posToVal(s.left + s.width, 'x');
  var y = byY ? [u.posToVal(s.top + s.height, 'y'), u.posToVal(s.top, 'y')] : null;
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  if (byX && hi > lo) this.zoom([lo, hi]);
  if (y && y[1] > y[0]) { this.yFixed = y; this.apply(); }
};
Plot.prototype.apply = function () {
  if (!this.u) return;
  var x = this.zoomed || this.extent;
  this.box.dataset.zoomed = this.zoomed ? x.join(' ') : '';
  this.u.setScale('x', { min: x[0], max: x[1] });
};
Plot.prototype.zoom = function (range) {
  var group = this.chart.group, self = this;
  plots.forEach(function (p) {
    if (p !== self && (group == null || p.chart.group !== group)) return;
    p.zoomed = range;
    p.yFixed = null;
    p.apply();
  });
};
Plot.prototype.reset = function () { this.zoom(null); };
Plot.prototype.key = function (e) {
  var u = this.u, x = this.zoomed || this.extent, w = u.over.clientWidth;
  var left = u.cursor.left == null || u.cursor.left < 0 ? w / 2 : u.cursor.left;
  if (e.key === 'ArrowLeft' || e.key === 'ArrowRight') {
    left = Math.max(0, Math.min(w, left + (e.key === 'ArrowLeft' ? -1 : 1) * (e.shiftKey ? 40 : 4)));
    u.setCursor({ left: left, top: 20 }, true, true);
  } else if (e.key === '+' || e.key === '=' || e.key === '-') {
    var at = left / w, f = e.key === '-' ? 2 : 0.5;
    if (this.chart.x.log) {
      var a = Math.log(x[0]), b = Math.log(x[1]), m = a + (b - a) * at, n = (b - a) * f;
      this.zoom([Math.exp(m - n * at), Math.exp(m + n * (1 - at))]);
    } else {
      var mid = x[0] + (x[1] - x[0]) * at, span = (x[1] - x[0]) * f;
      if (f > 1 && span >= this.extent[1] - this.extent[0]) this.reset();
      else this.zoom([mid - span * at, mid + span * (1 - at)]);
    }
  } else if (e.key === 'Escape') {
    this.reset();
  } else {
    return;
  }
  e.preventDefault();
};
/* A place on a time axis in words. */
Plot.prototype.when = function (v, incr) {
  return this.chart.since ? timeOfDay(this.chart.since, v, incr) : clock(v, incr, Math.abs(v));
};
/* The values at the crosshair, and what happened near it. */
Plot.prototype.point = function (u) {
  var self = this, c = this.chart, tip = this.tip, left = u.cursor.left, idx = u.cursor.idx;
  if (left == null || left < 0 || idx == null) { tip.style.display = 'none'; return; }
  var x = u.posToVal(left, 'x');
  tip.textContent = '';
  var where;
  if (this.places) where = c.x.names[Math.round(x)] || '';
  else where = c.x.time ? this.when(x, Math.min(1, Math.pow(10, Math.floor(Math.log10((u.scales.x.max - u.scales.x.min) / 1000))))) : exact(c.x, x);
  element('div', where, tip);
  c.series.forEach(function (s) {
    if (!s.show) return;
    var v = s.columns.map(function (_, k) {
      var i = u.cursor.idxs[s.first + k];
      return i == null ? null : s.columns[k].out[i];
    });
    if (v[0] == null) return;
    var row = element('div', null, tip);
    row.innerHTML = swatch(s, colour(s));
    element('span', s.name, row);
    element('b', s.kind === 'boxes' ? exact(c.y, v[2]) + ' (' + exact(c.y, v[1]) + ' to ' + exact(c.y, v[3]) + ')' :
      v.length !== 2 ? exact(c.y, v[0]) : v[0] === -v[1] && v[1] > 0 ? '\u00b1' + exact(c.y, v[1]) :
      exact(c.y, v[0]) + ' to ' + exact(c.y, v[1]), row);
  });
  var near = c.markers.filter(function (m) { return Math.abs(u.valToPos(m[0], 'x') - left) < 6; });
  near.slice(0, 6).forEach(function (m) {
    var p = element('p', (c.x.time ? self.when(m[0], 0.1) + ' ' : '') + m[1], tip);
    p.style.color = m[3] === 'plain' || m[3] === 'quiet' ? '' : toneColour(m[3]);
  });
  if (near.length > 6) element('p', '… and ' + (near.length - 6) + ' more', tip);
  tip.style.display = 'block';
  var at = u.over.offsetLeft + left, room = this.box.clientWidth, w = tip.offsetWidth;
  tip.style.left = (at + 14 + w < room ? at + 14 : Math.max(0, at - 14 - w)) + 'px';
};
