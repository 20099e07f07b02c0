//! The page and its sections.

use crate::assets;
use crate::chart::Chart;
use crate::escape::{html, push_html, push_json};
use crate::log::{Entry, push_log};
use crate::pool::Pool;
use crate::table::{Cell, Table};
use serde_json::Value;

/// Points of one line, unless [`Page::detail`] says otherwise: some for every pixel.
const DETAIL: usize = 6000;

/// More sections than this, and a table of contents stands before them.
const CONTENTS_FROM: usize = 4;

#[derive(Clone, PartialEq, Debug)]
enum Block {
    Text(String),
    Code(String),
    Table(Table),
    Chart(Box<Chart>),
    Log(String, Vec<Entry>),
}

/// A part of a page under one heading.
#[derive(Clone, PartialEq, Debug)]
pub struct Section {
    title: String,
    blocks: Vec<Block>,
    continues: bool,
    since: Option<i64>,
}

impl Section {
    /// An empty one.
    #[must_use]
    pub fn new(title: &str) -> Section {
        Section { title: title.to_owned(), blocks: Vec::new(), continues: false, since: None }
    }

    /// Says that its time charts and logs are about the same time as those of the section before:
    /// they zoom together.
    #[must_use]
    pub fn continues(mut self) -> Section {
        self.continues = true;
        self
    }

    /// Unix time (UTC), ns, at which its time charts and logs have their 0: they show the time of
    /// day. Without it they show how long it was since then.
    #[must_use]
    pub fn since(mut self, unix_ns: i64) -> Section {
        self.since = Some(unix_ns);
        self
    }

    fn add(mut self, block: Block) -> Section {
        self.blocks.push(block);
        self
    }

    /// Adds a paragraph; an empty one is left out.
    #[must_use]
    pub fn text(self, text: &str) -> Section {
        if text.trim().is_empty() { self } else { self.add(Block::Text(text.to_owned())) }
    }

    /// Adds lines that keep their spaces.
    #[must_use]
    pub fn code(self, text: &str) -> Section {
        self.add(Block::Code(text.to_owned()))
    }

    /// Adds a table; one without rows is left out.
    #[must_use]
    pub fn table(self, table: Table) -> Section {
        if table.is_empty() { self } else { self.add(Block::Table(table)) }
    }

    /// Adds a chart, even an empty one: that nothing was measured is worth seeing.
    #[must_use]
    pub fn chart(self, chart: Chart) -> Section {
        self.add(Block::Chart(Box::new(chart)))
    }

    /// Adds a log with a title; one without lines is left out.
    #[must_use]
    pub fn log(self, title: &str, entries: Vec<Entry>) -> Section {
        if entries.is_empty() { self } else { self.add(Block::Log(title.to_owned(), entries)) }
    }
}

/// A report.
#[derive(Clone, PartialEq, Debug)]
pub struct Page {
    title: String,
    about: String,
    version: String,
    command: String,
    facts: Vec<(String, String)>,
    highlights: Vec<(String, Cell)>,
    sections: Vec<Section>,
    detail: usize,
    since: Option<i64>,
}

impl Page {
    /// An empty one.
    #[must_use]
    pub fn new(title: &str) -> Page {
        Page {
            title: title.to_owned(),
            about: String::new(),
            version: String::new(),
            command: String::new(),
            facts: Vec::new(),
            highlights: Vec::new(),
            sections: Vec::new(),
            detail: DETAIL,
            since: None,
        }
    }

    /// A sentence or two below the title.
    #[must_use]
    pub fn about(mut self, text: &str) -> Page {
        text.clone_into(&mut self.about);
        self
    }

    /// Names the program that made it, and its version.
    #[must_use]
    pub fn version(mut self, version: &str) -> Page {
        version.clone_into(&mut self.version);
        self
    }

    /// The command that makes the same page again.
    #[must_use]
    pub fn command(mut self, command: &str) -> Page {
        command.clone_into(&mut self.command);
        self
    }

    /// Circumstance under which the figures came about, such as host, interface, time and clock:
    /// below the title, in the order given, and the command after them. An empty one is left out.
    #[must_use]
    pub fn fact(mut self, name: &str, text: &str) -> Page {
        if !text.is_empty() {
            self.facts.push((name.to_owned(), text.to_owned()));
        }
        self
    }

    /// [`Section::since`] for all sections that have none of their own.
    #[must_use]
    pub fn since(mut self, unix_ns: i64) -> Page {
        self.since = Some(unix_ns);
        self
    }

    /// A number that the reader should see first. Three of them stand side by side.
    #[must_use]
    pub fn highlight(mut self, name: &str, value: impl Into<Cell>) -> Page {
        self.highlights.push((name.to_owned(), value.into()));
        self
    }

    /// Adds a section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Page {
        self.sections.push(section);
        self
    }

    /// Adds sections.
    #[must_use]
    pub fn sections(mut self, sections: impl IntoIterator<Item = Section>) -> Page {
        self.sections.extend(sections);
        self
    }

    /// Draws each line with at most about this many points (extremes stay): fewer make a smaller
    /// page, more show more when one zooms in. 6000 unless said.
    #[must_use]
    pub fn detail(mut self, points: usize) -> Page {
        self.detail = points.clamp(100, 100_000);
        self
    }

    /// Number of charts.
    #[must_use]
    pub fn charts(&self) -> usize {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.filter(|block| matches!(block, Block::Chart(_))).count()
    }

    /// The page as HTML. Written to a file it is complete.
    #[must_use]
    pub fn render(&self) -> String {
        let mut pool = Pool::default();
        let mut charts = Vec::new();
        let mut body = String::new();
        self.push_header(&mut body);
        body.push_str("<main>\n");
        self.push_contents(&mut body);
        let mut group = 0;
        for (n, section) in self.sections.iter().enumerate() {
            let id = n + 1;
            let since = section.since.or(self.since);
            if !section.continues {
                group = n;
            }
            body.push_str(&format!(
                "<section id=\"section-{id}\" data-group={group} aria-labelledby=\"section-{id}-title\">\n"
            ));
            body.push_str(&format!(
                "<h2 id=\"section-{id}-title\">{}</h2>\n",
                html(&section.title)
            ));
            for block in &section.blocks {
                match block {
                    Block::Text(text) => body.push_str(&format!("<p>{}</p>\n", html(text))),
                    Block::Code(text) => {
                        body.push_str(&format!(
                            "<pre tabindex=0><code>{}</code></pre>\n",
                            html(text)
                        ));
                    }
                    Block::Table(table) => table.push(&mut body),
                    Block::Log(title, entries) => push_log(&mut body, title, entries, since),
                    Block::Chart(chart) => {
                        chart.push(&mut body, charts.len());
                        charts.push(chart.to_json(group, since, self.detail, &mut pool));
                    }
                }
            }
            body.push_str("</section>\n");
        }
        body.push_str("</main>\n");
        self.push_footer(&mut body);
        let mut data = String::new();
        let charts = Value::Array(charts).to_string();
        push_json(&mut data, &format!("{{\"arrays\":{},\"charts\":{charts}}}", pool.into_json()));
        self.document(&body, &data)
    }

    fn document(&self, body: &str, data: &str) -> String {
        let title = html(&self.title);
        let style = assets::style();
        let (licence, uplot, script) = (assets::LICENCE, assets::UPLOT, assets::SCRIPT);
        format!(
            "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
             <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
             <meta name=referrer content=no-referrer>\n\
             <link rel=icon href=\"data:,\">\n\
             <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\
             <script type=\"application/json\" id=data>{data}</script>\n\
             <script>\n/*!\n{licence}*/\n{uplot}</script>\n<script>\n{script}</script>\n</body>\n</html>\n"
        )
    }

    fn push_header(&self, out: &mut String) {
        out.push_str("<header>\n<div class=bar><h1>");
        push_html(out, &self.title);
        out.push_str("</h1><button type=button id=theme hidden>theme</button></div>\n");
        if !self.about.is_empty() {
            out.push_str(&format!("<p>{}</p>\n", html(&self.about)));
        }
        self.push_facts(out);
        if !self.highlights.is_empty() {
            out.push_str("<dl class=highlights>\n");
            for (name, cell) in &self.highlights {
                out.push_str(&format!("<div><dt>{}</dt>", html(name)));
                cell.push(out, "dd", None);
                out.push_str("</div>\n");
            }
            out.push_str("</dl>\n");
        }
        if self.charts() > 0 {
            out.push_str(
                "<noscript><p class=notice>The charts need JavaScript, which is off or not \
                 supported here. Everything else is below: the tables, the logs, and for each \
                 chart its title and its numbers in figures.</p></noscript>\n\
                 <p class=hint id=hint hidden>Drag across a chart to zoom, double-click to go \
                 back; the time charts of a section move together. Click a name to hide or show \
                 it. With the keyboard: arrows move the crosshair, + and − zoom, Escape goes \
                 back.</p>\n",
            );
        }
        out.push_str("</header>\n");
    }

    fn push_facts(&self, out: &mut String) {
        if self.facts.is_empty() && self.command.is_empty() {
            return;
        }
        out.push_str("<dl class=facts>\n");
        for (name, text) in &self.facts {
            out.push_str(&format!("<div><dt>{}</dt><dd>{}</dd></div>\n", html(name), html(text)));
        }
        if !self.command.is_empty() {
            let command = html(&self.command);
            out.push_str(&format!("<div><dt>made by</dt><dd><code>{command}</code></dd></div>\n"));
        }
        out.push_str("</dl>\n");
    }

    fn push_contents(&self, out: &mut String) {
        if self.sections.len() <= CONTENTS_FROM {
            return;
        }
        out.push_str("<nav aria-label=Contents>\n<ol>\n");
        for (n, section) in self.sections.iter().enumerate() {
            out.push_str(&format!(
                "<li><a href=\"#section-{}\">{}</a></li>\n",
                n + 1,
                html(&section.title)
            ));
        }
        out.push_str("</ol>\n</nav>\n");
    }

    fn push_footer(&self, out: &mut String) {
        out.push_str("<footer>\n");
        if !self.version.is_empty() {
            out.push_str(&format!("<p>{}</p>\n", html(&self.version)));
        }
        if self.charts() > 0 {
            out.push_str(
                "<p>Plots drawn with uPlot 1.6.32, © 2022 Leon Sorokin, MIT licence.</p>\n",
            );
        }
        out.push_str("</footer>\n");
    }
}
