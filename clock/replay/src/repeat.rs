//! Repeats the same events: do they lead to the same decisions, or where would another estimator
//! have led?

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead};

use serde::Serialize;
use truechimer_engine::{Action, Engine, Event, Method, SourceId, Standard};
use truechimer_time::{Count, Span};
use truechimer_timehands::{Hand, Status};

use super::happened::{Before, said};
use super::read::{Lines, Writer, parse};
use super::{Beginning, FORMAT, Happened, Header, Line, OLDEST, ReplayError, TWO_SIDES, What};

/// Options for repeating a log.
#[derive(Debug, Default)]
pub struct Options {
    /// By another method than the daemon's. Its decisions are then its own, and are not compared
    /// with those in the log.
    pub method: Option<Box<dyn Method>>,
}

/// Contents of a log, once all of it has been found right.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Summary {
    /// The version of the program that wrote it.
    pub version: String,
    /// The estimator that was used instead of the log's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimator: Option<String>,
    /// Events in it.
    pub events: u64,
    /// Hands published: as logged, or by the other estimator.
    pub hands: u64,
    /// All that the engine wanted done, hands included; likewise.
    pub actions: u64,
    /// Replies that an estimator used.
    pub used: u64,
    /// Replies that were refused, by reason. This and the next four are counted only if somebody
    /// takes what happens.
    pub refused: BTreeMap<String, u64>,
    /// Number of times that the configuration was read again.
    pub reloads: u64,
    /// Number of times that the counter lost its continuity.
    pub disruptions: u64,
    /// Number of times that every server fell silent for long.
    pub holdovers: u64,
    /// Replies to requests that the engine with the other estimator would not have sent, and so
    /// refuses.
    pub unmatched: u64,
    /// True if it breaks off in the middle, as when the daemon was killed. All before is right.
    pub truncated: bool,
}

/// Repeats every decision of a daemon from its log.
///
/// # Errors
/// If the log cannot be read, or at the first decision that is not the same to the last bit.
pub fn verify(reader: impl BufRead) -> Result<Summary, ReplayError> {
    Repeat::new(reader, Options::default(), None).run()
}

/// Repeats a log and passes on what happens in it.
///
/// # Errors
/// If the log cannot be read or `each` fails; and, unless another estimator is asked for, at the
/// first decision that is not the same to the last bit.
pub fn repeat(
    reader: impl BufRead,
    options: Options,
    each: &mut dyn FnMut(&Happened) -> io::Result<()>,
) -> Result<Summary, ReplayError> {
    Repeat::new(reader, options, Some(each)).run()
}

type Each<'a> = &'a mut dyn FnMut(&Happened) -> io::Result<()>;

/// A repetition under way.
struct Repeat<'a, R> {
    lines: Lines<R>,
    /// The version of the log's format.
    format: u32,
    method: Option<Box<dyn Method>>,
    /// True if the decisions are compared with those in the log.
    compares: bool,
    each: Option<Each<'a>>,
    summary: Summary,
    requests: Requests,
    /// The newest hand in the log.
    logged: Option<Hand>,
    /// With another estimator: what has yet to be compared with the hands that the log has after
    /// the event.
    waiting: Vec<Happened>,
}

impl<'a, R: BufRead> Repeat<'a, R> {
    fn new(reader: R, options: Options, each: Option<Each<'a>>) -> Repeat<'a, R> {
        let estimator = options.method.as_ref().map(|method| method.name().to_owned());
        Repeat {
            lines: Lines::new(reader),
            format: FORMAT,
            compares: estimator.is_none(),
            method: options.method,
            each,
            summary: Summary { estimator, ..Summary::default() },
            requests: Requests::default(),
            logged: None,
            waiting: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Summary, ReplayError> {
        let done = self.lines();
        // What was found out before an error stands.
        let told = if let Err(ReplayError::Output(_)) = done { Ok(()) } else { self.tell() };
        done.and(told).map(|()| self.summary)
    }

    fn lines(&mut self) -> Result<(), ReplayError> {
        let header: Header = self
            .lines
            .next()?
            .ok_or_else(|| ReplayError::NotALog("it is empty".into()))
            .and_then(|text| {
                parse(&text).map_err(|(column, why)| match column {
                    Some(column) => ReplayError::NotALog(format!("line 1, column {column}: {why}")),
                    None => ReplayError::NotALog(format!("line 1: {why}")),
                })
            })?;
        if !(OLDEST..=FORMAT).contains(&header.format) {
            let why = format!(
                "its format is {}, known are {OLDEST} to {FORMAT}: repeat it with version {:?}, which \
                 wrote it",
                header.format, header.version
            );
            return Err(ReplayError::NotALog(why));
        }
        self.format = header.format;
        self.summary.version = header.version;
        let one_width = header.format < TWO_SIDES;
        let Some(text) = self.lines.next()? else {
            self.summary.truncated = true;
            return Ok(());
        };
        let Beginning { start, config } = self.lines.parse(&text)?;
        let at = start.at;
        let method = self.method.take().unwrap_or_else(|| Box::new(Standard));
        let (mut engine, actions) = Engine::with_method(config, start, method);
        if self.each.is_some() {
            let first = said(self.lines.number, at, Status::Unknown, engine.hand(), &actions);
            self.pass(&first)?;
        }
        let mut decided = VecDeque::new();
        self.decide(actions, &mut decided);
        while let Some(text) = self.lines.next()? {
            let logged = match self.lines.parse(&text)? {
                Line { at: Some(at), event: Some(event), hand: None, action: None } => {
                    if let Some(action) = decided.pop_front() {
                        return Err(self.differs(None, Some(&action)));
                    }
                    self.tell()?;
                    let actions = self.event(&mut engine, at, event)?;
                    self.decide(actions, &mut decided);
                    continue;
                }
                Line { at: None, event: None, hand: Some(hand), action: None } => {
                    Action::Publish(hand)
                }
                Line { at: None, event: None, hand: None, action: Some(action) } => action,
                _ => return Err(self.lines.error("neither an event nor a decision".into())),
            };
            if !self.compares {
                self.requests.logged(&logged);
                if let Action::Publish(hand) = logged {
                    self.logged = Some(hand);
                }
                continue;
            }
            self.count(&logged);
            match decided.pop_front() {
                Some(action) if is_same(&action, &logged, one_width) => {}
                decided => return Err(self.differs(Some(&logged), decided.as_ref())),
            }
        }
        self.summary.truncated = self.lines.truncated || !decided.is_empty();
        Ok(())
    }

    fn differs(&self, logged: Option<&Action>, decided: Option<&Action>) -> ReplayError {
        let writer = Writer { version: self.summary.version.clone(), format: self.format };
        self.lines.differs(logged, decided, &writer)
    }

    /// The engine's decisions wait to be compared, or stand for themselves.
    fn decide(&mut self, actions: Vec<Action>, decided: &mut VecDeque<Action>) {
        if self.compares {
            return decided.extend(actions);
        }
        for action in &actions {
            self.count(action);
            self.requests.sent(action);
        }
    }

    fn count(&mut self, action: &Action) {
        self.summary.actions += 1;
        self.summary.hands += u64::from(matches!(action, Action::Publish(_)));
    }

    fn event(
        &mut self,
        engine: &mut Engine,
        at: Count,
        event: Event,
    ) -> Result<Vec<Action>, ReplayError> {
        self.summary.events += 1;
        if let Event::Reply { source, .. } = &event
            && !self.compares
        {
            self.summary.unmatched += u64::from(self.requests.differ(*source));
        }
        if self.each.is_none() {
            return Ok(engine.handle(at, event));
        }
        let before = Before::new(engine, at, &event);
        let actions = engine.handle(at, event);
        let happened = before.then(engine, self.lines.number, at, &actions);
        self.pass(&happened)?;
        Ok(actions)
    }

    fn pass(&mut self, happened: &[Happened]) -> Result<(), ReplayError> {
        for one in happened {
            let summary = &mut self.summary;
            match &one.what {
                What::Reply(heard) => match &heard.refused {
                    None => summary.used += 1,
                    Some(reason) => {
                        *summary.refused.entry(reason.clone()).or_insert(0) += 1;
                    }
                },
                What::Reload { .. } => summary.reloads += 1,
                What::Disruption => summary.disruptions += 1,
                What::Status { .. } => {
                    summary.holdovers += u64::from(one.status == Status::Holdover);
                }
                What::Note { .. } => {}
            }
        }
        self.waiting.extend_from_slice(happened);
        if self.compares { self.tell() } else { Ok(()) }
    }

    /// Passes on what has waited for the logged hands.
    fn tell(&mut self) -> Result<(), ReplayError> {
        let Some(each) = &mut self.each else { return Ok(()) };
        for mut one in self.waiting.drain(..) {
            if let Some(logged) = &self.logged {
                one.compare(logged);
            }
            each(&one).map_err(ReplayError::Output)?;
        }
        Ok(())
    }
}

/// The newest request to each source: the log's, and the engine's with the other estimator. A
/// reply in the log answers the former.
#[derive(Default)]
struct Requests(BTreeMap<SourceId, Request>);

#[derive(Default)]
struct Request {
    ours: Vec<u8>,
    logged: Option<Vec<u8>>,
}

impl Requests {
    fn sent(&mut self, action: &Action) {
        match action {
            Action::Send { source, packet, .. } => {
                self.0.entry(*source).or_default().ours = packet.to_vec();
            }
            Action::Close { source } => {
                self.0.remove(source);
            }
            _ => {}
        }
    }

    /// A source that our engine does not know has nothing to compare with.
    fn logged(&mut self, action: &Action) {
        if let Action::Send { source, packet, .. } = action
            && let Some(request) = self.0.get_mut(source)
        {
            request.logged = Some(packet.to_vec());
        }
    }

    fn differ(&self, source: SourceId) -> bool {
        self.0.get(&source).is_none_or(|request| request.logged.as_ref() != Some(&request.ours))
    }
}

/// True if two decisions are the same. How a note is worded is none, and may change with a version.
/// Where the log's hands have `one_width`, only that counts.
fn is_same(one: &Action, other: &Action, one_width: bool) -> bool {
    let plain = |hand: &Hand| Hand { imbalance: Span::ZERO, likely: None, ..*hand };
    match (one, other) {
        (Action::Note { level: one, .. }, Action::Note { level: other, .. }) => one == other,
        (Action::Publish(one), Action::Publish(other)) if one_width => plain(one) == plain(other),
        _ => one == other,
    }
}
