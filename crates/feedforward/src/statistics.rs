#![allow(clippy::unwrap_used)]
//! The statistics in use: the panel of banks, or the model.

use truechimer_model::constants::Constants;
use truechimer_model::gaussian::{FLOORS, OFFSET, RATE};
use truechimer_model::{Known as ModelKnown, Model, Sample};

use crate::bank::{Belief, Seen};
use crate::filter::Known;
use crate::panel::Panel;
use crate::past::INTERVAL;

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) enum Statistics {
    Panel(Box<Panel>),
    Model(Box<Model>, Belief, Option<f64>),
}

/// For experiments: TRUECHIMER_MODEL="name=value,..."
fn constants() -> Constants {
    use std::sync::OnceLock;
    static ALL: OnceLock<Constants> = OnceLock::new();
    *ALL.get_or_init(|| {
        let mut all = Constants::DEFAULT;
        for one in std::env::var("TRUECHIMER_MODEL").unwrap_or_default().split(',') {
            if let Some((name, value)) = one.split_once('=') {
                all = all.with(name, value.parse().unwrap()).unwrap();
            }
        }
        all
    })
}

fn known(k: Known) -> ModelKnown {
    ModelKnown { mean: k.mean, deviation: k.deviation }
}

fn sample(seen: Seen) -> Sample {
    Sample { above: seen.late, duration: seen.duration }
}

fn belief(model: &Model) -> Belief {
    let law = model.now();
    let filter = &model.best().filter;
    let (mean_rate, mean_rate_var, ahead) = model.mean_rate();
    Belief {
        theta: law.x[OFFSET],
        rate: law.x[RATE],
        floors: FLOORS.map(|i| law.x[i]),
        theta_var: law.p[OFFSET][OFFSET],
        covariance: law.p[OFFSET][RATE],
        rate_var: law.p[RATE][RATE],
        walk: filter.walk(),
        mean_rate,
        mean_rate_var,
        ahead,
    }
}

impl Statistics {
    pub(crate) fn model(theta: Known, rate: Known, floor: Known, noise: [f64; 2]) -> Statistics {
        let model = Model::new(known(theta), known(rate), known(floor), noise, constants());
        let now = belief(&model);
        Statistics::Model(Box::new(model), now, None)
    }

    pub(crate) fn now(&self) -> &Belief {
        match self {
            Statistics::Panel(panel) => panel.now(),
            Statistics::Model(_, now, _) => now,
        }
    }

    pub(crate) fn hold_out(&mut self, by: Option<f64>) {
        match self {
            Statistics::Panel(panel) => panel.hold_out(by),
            Statistics::Model(_, _, strays) => *strays = by,
        }
    }

    fn change(&mut self, on_panel: impl FnOnce(&mut Panel), on_model: impl FnOnce(&mut Model)) {
        match self {
            Statistics::Panel(panel) => on_panel(panel),
            Statistics::Model(model, now, _) => {
                on_model(model);
                *now = belief(model);
            }
        }
    }

    pub(crate) fn predict(&mut self, dt: f64) {
        self.change(|p| p.predict(dt), |m| m.predict(dt));
    }

    pub(crate) fn take(&mut self, seen: Seen, slack: f64, excess: f64) -> Option<f64> {
        match self {
            Statistics::Panel(panel) => panel.take(seen, slack, excess),
            Statistics::Model(model, now, strays) => {
                let shift = model.take(sample(seen), strays.unwrap_or(slack).min(slack), strays.is_some());
                *now = belief(model);
                if std::env::var_os("DEBUG_MODEL").is_some() {
                    let b = model.best();
                    if std::env::var_os("DEBUG_ALL").is_some() || b.event != truechimer_model::hypothesis::Event::None || shift.is_some() {
                        for h in model.hypotheses() { let l = h.filter.now(); eprintln!("      {:?} age {} log {:.2} theta {:.1} s {:.1} floors {:.1} {:.1} weights {:.3?}", h.event, h.age, h.log, l.x[0]*1e6, l.x[4]*1e6, l.x[2]*1e6, l.x[3]*1e6, h.filter.weights); }
                        eprintln!("{:.0} {:?} age {} log {:.2} before {:.2} {:.2} floors {:.2} {:.2} theta {:.2} ± {:.2} late {:.2} {:.2} blurred {:.1} told {:?}", model.age(), b.event, b.age, b.log, b.before[0]*1e6, b.before[1]*1e6, now.floors[0]*1e6, now.floors[1]*1e6, now.theta*1e6, now.theta_var.sqrt()*1e6, seen.late[0]*1e6, seen.late[1]*1e6, b.filter.blurred(), shift.map(|s| s*1e6));
                    }
                }
                shift
            }
        }
    }

    pub(crate) fn ahead(&self) -> Option<f64> {
        match self {
            Statistics::Panel(panel) => panel.ahead(),
            Statistics::Model(model, _, strays) => strays.and_then(|_| model.ahead()),
        }
    }

    pub(crate) fn go_ahead(&mut self, by: f64) {
        self.change(|p| p.go_ahead(by), |m| m.go_ahead(by));
    }

    pub(crate) fn knows_past(&self) -> bool {
        match self {
            Statistics::Panel(panel) => panel.knows_past(),
            Statistics::Model(model, ..) => model.age() >= INTERVAL,
        }
    }

    pub(crate) fn refute(&mut self, by: f64, slack: f64) {
        self.change(|p| p.refute(by, slack), |m| m.refute(by, slack));
    }

    pub(crate) fn turn(&mut self, by: f64) {
        self.change(|p| p.turn(by), |m| m.turn(by));
    }

    pub(crate) fn begin_path(&mut self, seen: Seen, theta: Option<Known>) {
        self.change(
            |p| p.begin_path(seen, theta),
            |m| m.begin_path(sample(seen), theta.map(known)),
        );
    }

    pub(crate) fn confine(&mut self, low: f64, high: f64) {
        self.change(|p| p.confine(low, high), |m| m.confine(low, high));
    }

    pub(crate) fn lost(&self) -> bool {
        match self {
            Statistics::Panel(panel) => panel.lost(),
            Statistics::Model(_, now, _) => {
                ![now.theta, now.rate, now.theta_var, now.rate_var].iter().all(|x| x.is_finite())
            }
        }
    }
}
