/* ---- what uPlot does not draw ---- */
/* The line at zero. */
Plot.prototype.zero = function (u) {
  var y = u.scales.y;
  if (!(y.min < 0 && y.max > 0)) return;
  var at = Math.round(u.valToPos(0, 'y', true)), ctx = u.ctx;
  ctx.save();
  ctx.strokeStyle = ink.rule;
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(u.bbox.left, at);
  ctx.lineTo(u.bbox.left + u.bbox.width, at);
  ctx.stroke();
  ctx.restore();
};
/* Few values of a band are bars with caps, as a band between them would say what nobody measured. */
Plot.prototype.bars = function (u) {
  var ctx = u.ctx, r = devicePixelRatio, xs = this.xs;
  if (xs.length > FEW) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  ctx.clip();
  this.chart.series.forEach(function (s) {
    if (s.kind !== 'band' || !s.show) return;
    ctx.strokeStyle = colour(s);
    ctx.lineWidth = 1.5 * r;
    for (var i = 0; i < xs.length; i++) {
      var low = s.columns[0].out[i], high = s.columns[1].out[i];
      if (low == null || high == null || u.scales.y.distr === 3 && high <= 0) continue;
      /* On a logarithmic axis a bar from zero or below begins at the edge, without a cap. */
      var cut = u.scales.y.distr === 3 && low <= 0;
      if (cut) low = Math.min(high, u.scales.y.min);
      var x = u.valToPos(xs[i], 'x', true), a = u.valToPos(low, 'y', true), b = u.valToPos(high, 'y', true);
      ctx.beginPath();
      ctx.moveTo(x, a); ctx.lineTo(x, b);
      if (!cut) { ctx.moveTo(x - 4 * r, a); ctx.lineTo(x + 4 * r, a); }
      ctx.moveTo(x - 4 * r, b); ctx.lineTo(x + 4 * r, b);
      ctx.stroke();
    }
  });
  ctx.restore();
};
Plot.prototype.boxes = function (u) {
  var ctx = u.ctx, r = devicePixelRatio, xs = this.xs, self = this;
  var shown = this.chart.series.filter(function (s) { return s.kind === 'boxes' && s.show; });
  if (!shown.length) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  ctx.clip();
  /* Side by side at the same x. */
  var cell = Math.abs(u.valToPos(1, 'x', true) - u.valToPos(0, 'x', true));
  if (!this.places) cell = u.bbox.width / Math.max(2, xs.length + 1);
  var width = Math.max(3 * r, Math.min(36 * r, cell * 0.75 / shown.length));
  shown.forEach(function (s, n) {
    ctx.strokeStyle = colour(s);
    ctx.fillStyle = alpha(colour(s), 0.25);
    ctx.lineWidth = 1.5 * r;
    for (var i = 0; i < xs.length; i++) {
      var y = s.columns.map(function (col) {
        var v = col.out[i];
        if (v == null) return null;
        return u.scales.y.distr === 3 && v <= 0 ? u.bbox.top + u.bbox.height + 10 : u.valToPos(v, 'y', true);
      });
      if (y.some(function (v) { return v == null; })) continue;
      var x = u.valToPos(self.places ? Math.round(xs[i]) : xs[i], 'x', true) + (n - (shown.length - 1) / 2) * width * 1.15;
      ctx.beginPath();
      ctx.moveTo(x, y[0]); ctx.lineTo(x, y[1]);
      ctx.moveTo(x, y[3]); ctx.lineTo(x, y[4]);
      ctx.moveTo(x - width / 4, y[0]); ctx.lineTo(x + width / 4, y[0]);
      ctx.moveTo(x - width / 4, y[4]); ctx.lineTo(x + width / 4, y[4]);
      ctx.stroke();
      ctx.fillRect(x - width / 2, y[3], width, y[1] - y[3]);
      ctx.strokeRect(x - width / 2, y[3], width, y[1] - y[3]);
      ctx.beginPath();
      ctx.lineWidth = 3 * r;
      ctx.moveTo(x - width / 2, y[2]); ctx.lineTo(x + width / 2, y[2]);
      ctx.stroke();
      ctx.lineWidth = 1.5 * r;
    }
  });
  ctx.restore();
};
function toneColour(tone) {
  return tone === 'bad' ? ink.bad : tone === 'warning' ? ink.warning : tone === 'good' ? ink.good : ink.soft;
}
Plot.prototype.markers = function (u) {
  var ctx = u.ctx, r = devicePixelRatio, top = u.bbox.top, bottom = top + u.bbox.height, ends = [-1e9, -1e9, -1e9];
  var many = this.chart.markers.length > 60;
  ctx.save();
  ctx.font = 11 * r + 'px system-ui, "Noto Sans", "Liberation Sans", Arial, sans-serif';
  ctx.textBaseline = 'alphabetic';
  this.chart.markers.forEach(function (m) {
    if (m[0] < u.scales.x.min || m[0] > u.scales.x.max) return;
    var x = Math.round(u.valToPos(m[0], 'x', true)) + 0.5;
    ctx.strokeStyle = ctx.fillStyle = toneColour(m[3]);
    ctx.globalAlpha = many ? 0.3 : 0.7;
    ctx.lineWidth = r;
    ctx.setLineDash(m[3] === 'bad' || m[3] === 'warning' ? [] : [2 * r, 3 * r]);
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, bottom);
    ctx.stroke();
    ctx.globalAlpha = 1;
    if (!m[2]) {
      ctx.beginPath();
      ctx.moveTo(x - 4 * r, top);
      ctx.lineTo(x + 4 * r, top);
      ctx.lineTo(x, top + 6 * r);
      ctx.fill();
      return;
    }
    /* Labels go above the plot, in the lowest of three rows that has room. */
    var w = ctx.measureText(m[2]).width, left = Math.max(0, Math.min(x - w / 2, u.ctx.canvas.width - w));
    for (var row = 0; row < 3; row++) {
      if (left > ends[row]) {
        ends[row] = left + w + 6 * r;
        ctx.fillStyle = ink.ink;
        ctx.fillText(m[2], left, top - (4 + row * 13) * r);
        break;
      }
    }
  });
  ctx.restore();
};
