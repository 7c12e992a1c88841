//! Results as one page, without scripts or outside resources.

use farside_bench::plot::escape;

use crate::plots;
use crate::points::{Catalogue, Figure, Paper};
use crate::report::{Outcome, name_of, published, show};
use crate::session::Done;
use crate::verdict::Verdict;

/// Returns the page: the summary, then every figure with its plots, points, data and commands.
pub fn page(catalogue: &Catalogue, outcome: &Outcome) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>The published figures, judged</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>The published figures, judged</h1>\n<p class=\"summary\">{}</p>\n",
        escape(&outcome.summary())
    );
    page.push_str(&tally(outcome));
    page.push_str("<dl>\n");
    for (key, value) in &outcome.about {
        page += &format!("<dt>{}</dt><dd>{}</dd>\n", escape(key), escape(value));
    }
    page.push_str("</dl>\n<nav>\n<ul>\n");
    for paper in &catalogue.papers {
        let figures = paper.figure.iter().map(|figure| {
            let anchor = anchor(paper, figure);
            format!("<a href=\"#{anchor}\">{}</a>", escape(&figure.id))
        });
        let figures = figures.collect::<Vec<_>>().join(" ");
        page += &format!("<li><b>{}</b> {figures}</li>\n", escape(&paper.paper));
    }
    page.push_str("</ul>\n</nav>\n<main>\n");
    for paper in &catalogue.papers {
        let (key, title) = (escape(&paper.paper), escape(&paper.title));
        page += &format!("<h2>[{key}] {title}</h2>\n");
        for figure in &paper.figure {
            section(&mut page, paper, figure, outcome);
        }
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// How many points have each verdict, as a row of numbers.
fn tally(outcome: &Outcome) -> String {
    let mut text = "<p class=\"tally\">\n".to_owned();
    for (verdict, count) in outcome.counts() {
        let (class, name) = (class(verdict), verdict.name());
        text += &format!("<span class=\"{class}\">{name}: <b>{count}</b></span>\n");
    }
    text.push_str("</p>\n");
    text
}

fn section(page: &mut String, paper: &Paper, figure: &Figure, outcome: &Outcome) {
    let (anchor, name) = (anchor(paper, figure), escape(&name_of(&figure.id)));
    let title = escape(&figure.title);
    *page += &format!("<section id=\"{anchor}\">\n<h3>{name}: {title}</h3>\n");
    let drawings = plots::draw(figure, outcome);
    if !drawings.is_empty() {
        page.push_str("<div class=\"plots\">\n");
        for drawing in drawings {
            *page += &format!("<figure class=\"plot\">\n{drawing}\n</figure>\n");
        }
        page.push_str("</div>\n");
    }
    points(page, figure, outcome);
    if let Some(cause) = &figure.cause {
        *page += &format!("<p>{}</p>\n", escape(cause));
    }
    for command in outcome.commands(figure) {
        *page += &format!("<pre>{}</pre>\n", escape(&command));
    }
    if let Some(done) = figure.plot.as_ref().and_then(|plot| outcome.done(&plot.run)) {
        data(page, figure, done);
    }
    page.push_str("</section>\n");
}

fn points(page: &mut String, figure: &Figure, outcome: &Outcome) {
    page.push_str(
        "<div class=\"table\">\n<table class=\"points\">\n<tr><th>what</th><th>paper</th>\
         <th>predicted</th><th>real ranks here</th><th>verdict</th></tr>\n",
    );
    for point in &figure.point {
        let Some(judged) = outcome.judged(&point.id) else { continue };
        let value = |value: Option<f64>| value.map_or("-".into(), |value| show(point.unit, value));
        let note = judged
            .note
            .as_ref()
            .map_or(String::new(), |note| format!("<br><small>{}</small>", escape(note)));
        *page += &format!(
            "<tr id=\"{}\"><td>{}<br><small>{}: {}</small></td><td data-is=\"paper\">{}</td>\
             <td data-is=\"predicted\">{}</td><td data-is=\"real ranks here\">{}</td>\
             <td data-is=\"verdict\" class=\"{}\">{}{note}</td></tr>\n",
            point.id,
            escape(&point.what),
            escape(&point.at),
            escape(&point.says),
            escape(&published(point)),
            value(judged.predicted),
            value(judged.real),
            class(judged.verdict),
            judged.verdict.name(),
        );
    }
    page.push_str("</table>\n</div>\n");
}

/// The records that are drawn, as a table that opens.
fn data(page: &mut String, figure: &Figure, done: &Done) {
    let Some(plot) = &figure.plot else { return };
    let keys: Vec<&String> = std::iter::once(&plot.x).chain(&plot.series).collect();
    page.push_str("<details>\n<summary>the data</summary>\n<div class=\"table\">\n<table>\n<tr>");
    for key in keys.iter().copied().chain([&plot.y]) {
        *page += &format!("<th>{}</th>", escape(key));
    }
    page.push_str("</tr>\n");
    let wanted = |record: &&farside_bench::record::Record| {
        crate::measure::matches(record, &plot.filter) && record.number(&plot.y).is_some()
    };
    for record in done.records.iter().filter(wanted) {
        page.push_str("<tr>");
        for key in keys.iter().copied().chain([&plot.y]) {
            let text = record.text(key).unwrap_or("-".into());
            *page += &format!("<td>{}</td>", escape(&text));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n</div>\n</details>\n");
}

fn anchor(paper: &Paper, figure: &Figure) -> String {
    format!("{}-{}", paper.paper.to_lowercase(), figure.id)
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Agrees => "agrees",
        Verdict::Misses => "misses",
        _ => "neither",
    }
}

const STYLE: &str = "\
:root { --ground: #f6f7f9; --sheet: #ffffff; --ink: #1a1a1a; --faint: #55595f; --line: #dfe3e8;
  --link: #0a5c99; --agrees: #0b6b3a; --misses: #a3261b; --neither: #5a5f66; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171b; --sheet: #1d2126; --ink: #e6e8ea; --faint: #a9b0b8; --line: #353b43;
    --link: #7cb8ee; --agrees: #6fcf97; --misses: #ff9c8f; --neither: #a9b0b8; }
  .plot svg { filter: invert(0.88) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 100rem; padding: 1rem; background: var(--ground);
  color: var(--ink); line-height: 1.45;
  font-family: Inter, 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif; }
h1 { font-size: 1.6rem; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 0.6rem; }
h3 { font-size: 1.05rem; margin: 0 0 0.6rem; }
a { color: var(--link); }
.summary { font-size: 1.05rem; }
.tally { display: flex; flex-wrap: wrap; gap: 0.5rem 1.5rem; }
.tally b { font-size: 1.5rem; }
.agrees { color: var(--agrees); }
.misses { color: var(--misses); }
.neither { color: var(--neither); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; font-size: 0.9rem; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
nav ul { list-style: none; padding: 0; }
nav a { display: inline-block; padding: 0.15rem 0.35rem; }
section { background: var(--sheet); border: 1px solid var(--line); border-radius: 6px;
  padding: 1rem; margin: 0 0 1rem; }
.plots { display: grid; gap: 1rem; margin-bottom: 0.8rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
.plot { margin: 0; overflow-x: auto; max-width: 56rem; }
.plot svg { display: block; width: 100%; min-width: 26rem; height: auto; background: #ffffff; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.6rem;
  border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; }
td:nth-child(n+2) { white-space: nowrap; }
td:last-child { white-space: normal; min-width: 8rem; }
td:first-child { min-width: 14rem; }
small { color: var(--faint); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.8rem; margin: 0.5rem 0;
  color: var(--faint); }
@media (max-width: 44rem) {
  .points, .points tbody, .points tr, .points td { display: block; }
  .points th { display: none; }
  .points td { border: none; padding: 0.1rem 0; white-space: normal; }
  .points tr { border-bottom: 1px solid var(--line); padding: 0.5rem 0; }
  .points td[data-is]::before { content: attr(data-is) ': '; color: var(--faint); }
}
@media print {
  body { background: #ffffff; color: #000000; max-width: none; }
  nav { display: none; }
  section { break-inside: avoid; border: none; padding: 0; }
  .plots { grid-template-columns: 1fr; }
}
";
