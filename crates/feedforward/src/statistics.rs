//! Statistics in use: the panel of banks, or the model that is to replace it.

use alloc::boxed::Box;

use truechimer_model::{Constants, Known as ModelKnown, Model, Sample};

use crate::bank::{Belief, Seen};
use crate::filter::Known;
use crate::panel::Panel;
use crate::past::INTERVAL;

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) enum Statistics {
    Panel(Box<Panel>),
    /// The model, what it knows now, and how far our rate may stray, if steps of the server are to
    /// be told from that.
    Model(Box<Model>, Belief, Option<f64>),
}

fn known(k: Known) -> ModelKnown {
    ModelKnown { mean: k.mean, deviation: k.deviation }
}

fn sample(seen: Seen) -> Sample {
    Sample { above: seen.late, duration: seen.duration }
}

fn belief(model: &Model) -> Belief {
    let now = model.now();
    Belief {
        theta: now.offset,
        rate: now.rate,
        floors: now.floors,
        theta_var: now.offset_variance,
        covariance: now.covariance,
        rate_var: now.rate_variance,
        walk: now.walk,
        mean_rate: now.mean_rate,
        mean_rate_var: now.mean_rate_variance,
        ahead: now.ahead,
    }
}

impl Statistics {
    pub(crate) fn model(
        theta: Known,
        rate: Known,
        floor: Known,
        noise: [f64; 2],
        constants: Constants,
    ) -> Statistics {
        let model = Model::new(known(theta), known(rate), known(floor), noise, constants);
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
                let shift =
                    model.take(sample(seen), strays.unwrap_or(slack).min(slack), strays.is_some());
                *now = belief(model);
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

    /// Whether it is beyond doubt that the server is ahead.
    pub(crate) fn has_moved(&self) -> bool {
        match self {
            Statistics::Panel(panel) => panel.ahead().is_some(),
            Statistics::Model(model, _, strays) => strays.is_some() && model.has_moved(),
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
