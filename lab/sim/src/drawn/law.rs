//! Laws of delays, exactly: sums of independent parts, by their Laplace transforms.

use core::f64::consts::PI;
use core::ops::{Add, Div, Mul};

use super::wifi::{SLOT, TRIES, WINDOWS};

/// Number of bins of a density; a power of two.
const LENGTH: usize = 1 << 14;
/// Number of bins before the least delay.
const BEFORE: f64 = 16.0;
/// Standard deviation by which each density is blurred, bins, so that nothing rings.
const BLUR: f64 = 1.5;
/// Logarithm of the factor by which a delay beyond the end is damped before it wraps around.
const DAMPING: f64 = 18.0;
/// Share of a density that is spread evenly, so that no delay is quite impossible.
const ANYWHERE: f64 = 1e-9;
/// Number of values of a delay that both directions share.
const COMMON: usize = 256;
/// Laws whose numbers differ by less than this share are taken for one.
const ALIKE: f64 = 0.05;

/// An independent part of a delay above its floor; times in s.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    /// Mean.
    Exponential(f64),
    /// Shape and scale.
    Gamma(f64, f64),
    /// Longest; as likely anywhere from 0 to there.
    Uniform(f64),
    /// Standard deviation about 0: noise of stamps.
    Normal(f64),
    /// Width and the two shapes.
    Beta(f64, f64, f64),
    /// Share of packets, and the scale of the Lomax law of shape 1.5 of their delay; rare.
    Burst(f64, f64),
    /// Share of packets, and the longest delay of these, evenly from 0; rare.
    Late(f64, f64),
    /// Contention for the air.
    Air(Contention),
}

/// Contention for the air: see [`super::wifi`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Contention {
    /// Share of the air that others use.
    pub(super) busy: f64,
    /// Length of their frames, s.
    pub(super) frames: f64,
    /// Time that each try takes beside waiting, s.
    pub(super) takes: f64,
    /// Share of tries that fail.
    pub(super) fails: f64,
}

/// Law of one packet's delay, which is told beforehand.
#[derive(Clone, Default, Debug)]
pub(super) struct Told {
    /// True if even what nobody could learn is told.
    pub(super) all: bool,
    /// Least delay, s.
    pub(super) floor: f64,
    /// Parts that come on top.
    pub(super) pieces: Vec<Piece>,
    /// True time at which a radio let the packet pass, s since the start of the day: floor and
    /// pieces are of the way from there.
    pub(super) released: Option<f64>,
    /// True if the packet waited for a radio and that was not told, so that it says nothing.
    pub(super) lost: bool,
    /// Delay of the same length in both directions.
    pub(super) common: Option<Common>,
    /// True time of the slot in which the packet was sent, s since the start of the day, and time
    /// between slots, s: pieces are of the way to there, and what comes later does not matter.
    pub(super) slot: Option<(f64, f64)>,
}

impl Told {
    /// Adds a part of the way.
    pub(super) fn add(&mut self, floor: f64, pieces: impl IntoIterator<Item = Piece>) {
        if self.slot.is_none() {
            self.floor += floor;
            self.pieces.extend(pieces);
        }
    }

    /// Starts anew from true time `at`, at which a radio let the packet pass.
    pub(super) fn release(&mut self, at: f64) {
        let lost = !self.all;
        *self = Told { released: Some(at), lost, all: self.all, ..Told::default() };
    }
}

/// Delay that both directions of an exchange share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    /// Longest at first, s; as likely anywhere from 0 to there.
    pub(super) spread: f64,
    /// Change since then, either way, s.
    pub(super) wobble: f64,
}

impl Common {
    /// Values and their probabilities.
    pub(super) fn prior(self) -> Vec<(f64, f64)> {
        let Common { spread, wobble } = self;
        let step = (spread + wobble) / COMMON as f64;
        let value = |i: usize| {
            let at = (i as f64 + 0.5) * step;
            let share = ((at + wobble).min(spread) - (at - wobble).max(0.0)).max(0.0);
            (at, share / (2.0 * wobble * spread) * step)
        };
        let least = (0.0, wobble / (4.0 * spread));
        core::iter::once(least).chain((0..COMMON).map(value)).collect()
    }
}

impl Piece {
    /// Adds the numbers of the law.
    fn numbers(&self, all: &mut Vec<f64>) {
        match self {
            Piece::Exponential(a) | Piece::Uniform(a) | Piece::Normal(a) => all.push(*a),
            Piece::Gamma(a, b) | Piece::Burst(a, b) | Piece::Late(a, b) => all.extend([*a, *b]),
            Piece::Beta(a, b, c) => all.extend([*a, *b, *c]),
            Piece::Air(air) => all.extend([air.busy, air.frames, air.takes, air.fails]),
        }
    }

    /// About the longest delay, s, rare ones aside.
    fn span(&self) -> f64 {
        match self {
            Piece::Exponential(mean) => 12.0 * mean,
            Piece::Gamma(shape, scale) => (shape + 15.0) * scale,
            Piece::Uniform(a) | Piece::Beta(a, _, _) => *a,
            Piece::Normal(deviation) => 6.0 * deviation,
            Piece::Burst(..) | Piece::Late(..) => 0.0,
            Piece::Air(air) => 4e-3 + 3.0 * air.frames + 3.0 * air.takes,
        }
    }

    /// Density of a long delay that is rare, 1/s.
    fn tail(&self, delay: f64) -> f64 {
        match self {
            Piece::Burst(share, scale) => {
                1.5 * share / scale * libm::pow(1.0 + delay / scale, -2.5)
            }
            Piece::Late(share, longest) if delay < *longest => share / longest,
            _ => 0.0,
        }
    }

    /// Transforms at s = α + iω for all ω of a density.
    fn transform(&self, grid: &Grid, all: &mut [Complex]) {
        let each = |all: &mut [Complex], f: &dyn Fn(Complex) -> Complex| {
            for (k, value) in all.iter_mut().enumerate() {
                *value = *value * f(grid.s(k));
            }
        };
        match *self {
            Piece::Exponential(mean) => each(all, &|s| ONE / (ONE + s * mean)),
            Piece::Gamma(shape, scale) => each(all, &|s| (ONE + s * scale).power(-shape)),
            Piece::Uniform(a) => each(all, &|s| evenly(s, a)),
            Piece::Normal(deviation) => {
                each(all, &|s| (s * s * (0.5 * deviation * deviation)).exp());
            }
            Piece::Beta(width, low, high) => {
                let density = |x: f64| {
                    let x = x / width;
                    if x < 1.0 {
                        libm::pow(x, low - 1.0) * libm::pow(1.0 - x, high - 1.0)
                    } else {
                        0.0
                    }
                };
                grid.tabulated(&density, true, &mut |k, value| at_mut(all, k, value));
            }
            Piece::Burst(share, scale) => {
                let density = |x: f64| {
                    let bin = |x: f64| libm::pow(1.0 + x / scale, -1.5);
                    bin(x - 0.5 * grid.step) - bin(x + 0.5 * grid.step)
                };
                grid.tabulated(&density, false, &mut |k, value| {
                    at_mut(all, k, ONE * (1.0 - share) + value * share);
                });
            }
            Piece::Late(share, longest) => {
                each(all, &|s| ONE * (1.0 - share) + evenly(s, longest) * share);
            }
            Piece::Air(ref air) => each(all, &|s| air.transform(s)),
        }
    }
}

/// Transform of a delay that is as likely anywhere from 0 to `longest`, s.
fn evenly(s: Complex, longest: f64) -> Complex {
    if longest > 0.0 { (ONE + (s * -longest).exp() * -1.0) / (s * longest) } else { ONE }
}

/// Multiplies the value of this number.
fn at_mut(all: &mut [Complex], k: usize, by: Complex) {
    if let Some(value) = all.get_mut(k) {
        *value = *value * by;
    }
}

impl Contention {
    /// Transform of the time until a frame has arrived: the back-off is a number of slots that is as
    /// likely any below the window's, and frames of others that come meanwhile hold it up.
    fn transform(&self, s: Complex) -> Complex {
        let Contention { busy, frames, takes, fails } = *self;
        let each = (ONE * (1.0 - busy) + evenly(s, frames) * busy) * (s * -takes).exp();
        let stretch = busy / (1.0 - busy);
        let turn = |slots: f64| (s * (-slots * SLOT)).exp();
        let (one, eight) = (turn(1.0), turn(8.0));
        let (mut at, mut turned) = (0.0, ONE);
        let (mut window, mut sum, mut summed) = (WINDOWS.0, ZERO, 0);
        let (mut reached, mut arrived) = (ONE, ZERO);
        for _ in 0..TRIES {
            while summed < window {
                // Long windows are even enough to be looked at here and there.
                let by = if summed < 64 { 1 } else { 8 };
                sum = sum + turned / (ONE + s * (stretch * at * SLOT)) * f64::from(by);
                turned = turned * if by == 1 { one } else { eight };
                at += f64::from(by);
                summed += by;
            }
            reached = reached * each * sum * (1.0 / f64::from(window));
            arrived = arrived + reached * (1.0 - fails);
            reached = reached * fails;
            window = (2 * window).min(WINDOWS.1);
        }
        arrived
    }
}

/// Places at which a density and its transform are taken.
struct Grid {
    /// Width of a bin, s.
    step: f64,
    /// Real part of each s, 1/s: what wraps around is damped.
    alpha: f64,
    /// Step of the imaginary part, 1/s.
    omega: f64,
}

impl Grid {
    /// Argument of this number.
    fn s(&self, k: usize) -> Complex {
        Complex(self.alpha, self.omega * k as f64)
    }

    /// Transform of a density that has none in closed form; `set` gets it at each place.
    fn tabulated(
        &self,
        density: &dyn Fn(f64) -> f64,
        norm: bool,
        set: &mut dyn FnMut(usize, Complex),
    ) {
        let place = |j: usize| (j as f64 + 0.5) * self.step;
        let values: Vec<f64> = (0..LENGTH).map(|j| density(place(j))).collect();
        let sum = if norm { values.iter().sum() } else { 1.0 };
        let damped = |(j, value): (usize, &f64)| {
            Complex(value / sum * libm::exp(-self.alpha * place(j)), 0.0)
        };
        let mut all: Vec<Complex> = values.iter().enumerate().map(damped).collect();
        fourier(&mut all, -1.0);
        for (k, value) in all.iter().take(LENGTH / 2 + 1).enumerate() {
            set(k, *value * Complex(0.0, -0.5 * self.step * self.omega * k as f64).exp());
        }
    }
}

/// Sum of the widths of bounded delays, s: their ceiling may be sharp, so that a law that is only
/// alike has to be stretched to it.
fn width(pieces: &[Piece]) -> f64 {
    let width = |piece: &Piece| if let Piece::Beta(width, ..) = piece { *width } else { 0.0 };
    pieces.iter().map(width).sum()
}

/// Numbers of the pieces, one after the other.
fn key(pieces: &[Piece]) -> Vec<f64> {
    let mut key = Vec::new();
    pieces.iter().for_each(|piece| piece.numbers(&mut key));
    key
}

/// Density of a delay above its floor, and its integral.
#[derive(Clone, Debug)]
pub(super) struct Density {
    /// Numbers of the pieces.
    key: Vec<f64>,
    /// See [`width`].
    width: f64,
    /// Rare long delays, which alone reach beyond the last bin.
    tails: Vec<Piece>,
    /// Delay of the first bin, s; below 0.
    begin: f64,
    /// Width of a bin, s.
    step: f64,
    /// Density in each bin, 1/s.
    values: Vec<f64>,
    /// Probability of that bin and all before.
    sums: Vec<f64>,
}

impl Density {
    pub(super) fn of(pieces: &[Piece]) -> Density {
        let span = pieces.iter().map(Piece::span).sum::<f64>().max(1e-7);
        let step = span / (LENGTH as f64 - 2.0 * BEFORE);
        let period = step * LENGTH as f64;
        let grid = Grid { step, alpha: DAMPING / period, omega: 2.0 * PI / period };
        let begin = -BEFORE * step;
        let mut half = vec![ONE; LENGTH / 2 + 1];
        pieces.iter().for_each(|piece| piece.transform(&grid, &mut half));
        Piece::Normal(BLUR * step).transform(&grid, &mut half);
        let mut all = vec![ZERO; LENGTH];
        for (k, value) in half.into_iter().enumerate() {
            let value = value * (grid.s(k) * begin).exp() * (1.0 / period);
            if let Some(mirrored) = all.get_mut((LENGTH - k) % LENGTH) {
                *mirrored = Complex(value.0, -value.1);
            }
            if let Some(place) = all.get_mut(k) {
                *place = value;
            }
        }
        fourier(&mut all, 1.0);
        let undamped = |(j, value): (usize, &Complex)| {
            let value = value.0 * libm::exp(grid.alpha * j as f64 * step);
            value.max(ANYWHERE / period)
        };
        let values: Vec<f64> = all.iter().enumerate().map(undamped).collect();
        let mut sum = 0.0;
        let add = |value: &f64| {
            sum += value * step;
            sum
        };
        let sums = values.iter().map(add).collect();
        let tails = pieces.iter().filter(|piece| piece.tail(0.0) > 0.0).copied().collect();
        Density { key: key(pieces), width: width(pieces), tails, begin, step, values, sums }
    }

    /// True if these pieces have about this density.
    pub(super) fn is_of(&self, pieces: &[Piece]) -> bool {
        let key = key(pieces);
        let alike = |(a, b): (&f64, &f64)| (a - b).abs() <= ALIKE * a.abs().max(b.abs());
        key.len() == self.key.len() && key.iter().zip(&self.key).all(alike)
    }

    /// Factor by which the delays of these pieces, whose density is about this one, are longer.
    pub(super) fn stretch(&self, pieces: &[Piece]) -> f64 {
        let width = width(pieces);
        if width > 0.0 { width / self.width } else { 1.0 }
    }

    /// Value at a place between two bins.
    fn between(values: &[f64], place: f64) -> f64 {
        let place = place.clamp(0.0, (LENGTH - 2) as f64);
        let (j, share) = (place as usize, place - libm::floor(place));
        let value = |j: usize| values.get(j).copied().unwrap_or(0.0);
        value(j) + share * (value(j + 1) - value(j))
    }

    /// Density at this delay above the floor, 1/s.
    pub(super) fn at(&self, delay: f64) -> f64 {
        let place = (delay - self.begin) / self.step;
        if place > (LENGTH - 2) as f64 {
            let tail: f64 = self.tails.iter().map(|piece| piece.tail(delay)).sum();
            return tail + ANYWHERE / (self.step * LENGTH as f64);
        }
        Density::between(&self.values, place)
    }

    /// Probability of at most this delay above the floor.
    pub(super) fn below(&self, delay: f64) -> f64 {
        let place = (delay - self.begin) / self.step - 0.5;
        if place < 0.0 { 0.0 } else { Density::between(&self.sums, place) }
    }
}

/// A complex number.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Complex(f64, f64);

const ZERO: Complex = Complex(0.0, 0.0);
const ONE: Complex = Complex(1.0, 0.0);

impl Complex {
    /// e to the power of this.
    fn exp(self) -> Complex {
        let size = libm::exp(self.0);
        let (sine, cosine) = libm::sincos(self.1);
        Complex(size * cosine, size * sine)
    }

    /// Power with a real exponent.
    fn power(self, exponent: f64) -> Complex {
        let size = 0.5 * libm::log(self.0 * self.0 + self.1 * self.1);
        (Complex(size, libm::atan2(self.1, self.0)) * exponent).exp()
    }
}

impl Add for Complex {
    type Output = Complex;
    fn add(self, other: Complex) -> Complex {
        Complex(self.0 + other.0, self.1 + other.1)
    }
}

impl Mul for Complex {
    type Output = Complex;
    fn mul(self, other: Complex) -> Complex {
        Complex(self.0 * other.0 - self.1 * other.1, self.0 * other.1 + self.1 * other.0)
    }
}

impl Mul<f64> for Complex {
    type Output = Complex;
    fn mul(self, by: f64) -> Complex {
        Complex(self.0 * by, self.1 * by)
    }
}

impl Div for Complex {
    type Output = Complex;
    fn div(self, by: Complex) -> Complex {
        let size = by.0 * by.0 + by.1 * by.1;
        self * Complex(by.0 / size, -by.1 / size)
    }
}

/// Sum over j of all[j] e^(±2πi jk ÷ n), in place; n is a power of two.
fn fourier(all: &mut [Complex], sign: f64) {
    let n = all.len();
    let bits = n.trailing_zeros();
    for i in 0..n {
        let j = i.reverse_bits() >> (usize::BITS - bits);
        if i < j {
            all.swap(i, j);
        }
    }
    let mut half = 1;
    while half < n {
        let turn = sign * PI / half as f64;
        let turns: Vec<Complex> = (0..half).map(|k| Complex(0.0, turn * k as f64).exp()).collect();
        for block in all.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), turn) in low.iter_mut().zip(high).zip(&turns) {
                let turned = *b * *turn;
                (*a, *b) = (*a + turned, *a + turned * -1.0);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn densities_are_those_of_the_laws() {
        let d = Density::of(&[Piece::Exponential(1e-3)]);
        for x in [1e-4, 1e-3, 5e-3] {
            let expected = 1e3 * libm::exp(-x * 1e3);
            assert!((d.at(x) / expected - 1.0).abs() < 1e-3, "{x}: {} {expected}", d.at(x));
            let below = 1.0 - libm::exp(-x * 1e3);
            assert!((d.below(x) / below - 1.0).abs() < 1e-2, "{x}: {} {below}", d.below(x));
        }
        let d = Density::of(&[Piece::Gamma(0.7, 1e-4), Piece::Gamma(1.3, 1e-4)]);
        let x = 1.5e-4;
        assert!((d.at(x) / (1e8 * x * libm::exp(-x * 1e4)) - 1.0).abs() < 1e-3, "{}", d.at(x));
        let d = Density::of(&[Piece::Beta(1e-3, 2.0, 2.0)]);
        assert!((d.at(4e-4) / (6e3 * 0.4 * 0.6) - 1.0).abs() < 1e-3, "{}", d.at(4e-4));
        let d = Density::of(&[Piece::Uniform(1e-3), Piece::Burst(0.1, 1e-4)]);
        let all: f64 = d.below(1.0);
        assert!((0.98..1.001).contains(&all), "{all}");
    }
}
