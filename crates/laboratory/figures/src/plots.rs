//! Drawings of a figure: its records as curves or bars, or its points beside the paper's.

use std::collections::BTreeMap;

use farside_bench::plot::{Axis, BarChart, Chart, Group, Scale, Series, Unit};
use farside_bench::record::Record;

use crate::measure;
use crate::points::{self, Figure, Plot};
use crate::report::{Outcome, name_of};

/// Returns the drawings of a figure as SVG, each with something to see: its records if it says
/// which, and its points beside the paper's.
pub fn draw(figure: &Figure, outcome: &Outcome) -> Vec<String> {
    let records = figure.plot.as_ref().and_then(|plot| {
        let done = outcome.done(&plot.run)?;
        let wanted: Vec<&Record> = done
            .records
            .iter()
            .filter(|record| measure::matches(record, &plot.filter))
            .filter(|record| record.number(&plot.y).is_some())
            .collect();
        (!wanted.is_empty()).then(|| drawn(figure, plot, &wanted))
    });
    records.into_iter().chain(beside(figure, outcome)).collect()
}

fn drawn(figure: &Figure, plot: &Plot, records: &[&Record]) -> String {
    let title = format!("{}: {}", name_of(&figure.id), figure.title);
    let subtitle = match records[0].text("profile") {
        Some(profile) => format!("predicted for {profile}"),
        None => "real ranks on this machine".to_owned(),
    };
    let name = |record: &Record| {
        let parts = plot.series.iter().filter_map(|key| record.text(key));
        parts.filter(|part| part != "-").collect::<Vec<_>>().join(" ")
    };
    let y = Axis::new(label(&plot.y), scale(plot.linear), Unit::of(&plot.y));
    if records.iter().any(|record| record.number(&plot.x).is_none()) {
        let mut groups: Vec<Group> = Vec::new();
        for record in records {
            let label = record.text(&plot.x).unwrap_or_default();
            let at = groups.iter().position(|group| group.label == label).unwrap_or_else(|| {
                groups.push(Group { label, bars: Vec::new() });
                groups.len() - 1
            });
            let value = record.number(&plot.y).unwrap_or(f64::NAN);
            groups[at].bars.push((name(record), value));
        }
        return BarChart { title, subtitle, y, groups }.to_svg();
    }
    let mut curves: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for record in records {
        let (Some(x), Some(y)) = (record.number(&plot.x), record.number(&plot.y)) else { continue };
        let name = name(record);
        match curves.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push((x, y)),
            None => curves.push((name, vec![(x, y)])),
        }
    }
    let series = curves.into_iter().map(|(name, mut points)| {
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Series::new(name, points)
    });
    let x_scale = if plot.x == "writers_pct" { Scale::Linear } else { Scale::Log2 };
    let x = Axis::new(label(&plot.x), x_scale, Unit::of(&plot.x));
    Chart { title, subtitle, x, y, series: series.collect() }.to_svg()
}

fn scale(is_linear: bool) -> Scale {
    if is_linear { Scale::Linear } else { Scale::Log10 }
}

fn label(key: &str) -> String {
    let stem = ["_ns", "_per_s", "_pct"].iter().find_map(|suffix| key.strip_suffix(suffix));
    stem.unwrap_or(key).replace('_', " ")
}

/// How many points one chart shows.
const GROUPS: usize = 8;

/// The points of a figure, each as bars of the paper, the prediction and real ranks. Numbers of
/// several units stand on charts of their own.
fn beside(figure: &Figure, outcome: &Outcome) -> Vec<String> {
    let mut units: BTreeMap<String, (Unit, Vec<Group>)> = BTreeMap::new();
    let is_table = figure.point.len() > GROUPS;
    for point in &figure.point {
        let Some(judged) = outcome.judged(&point.id) else { continue };
        let Some(predicted) = judged.predicted else { continue };
        let mut bars = vec![("paper".to_owned(), point.paper), ("predicted".to_owned(), predicted)];
        bars.extend(judged.real.map(|real| ("real ranks here".to_owned(), real)));
        let (name, unit) = unit_of(point.unit);
        // Columns of a large table differ by orders of magnitude.
        let name = match point.id.rsplit_once('-') {
            Some((_, column)) if is_table => format!("{name}: {column}"),
            _ => name.to_owned(),
        };
        let label = point.id.split_once('-').map_or(point.id.as_str(), |(_, rest)| rest);
        let group = Group { label: label.to_owned(), bars };
        units.entry(name).or_insert((unit, Vec::new())).1.push(group);
    }
    let pieces = units.into_iter().flat_map(|(name, (unit, groups))| {
        let pieces: Vec<Vec<Group>> = groups.chunks(GROUPS).map(<[Group]>::to_vec).collect();
        pieces.into_iter().map(move |groups| (name.clone(), unit, groups))
    });
    let charts = pieces.map(|(name, unit, groups)| {
        let values: Vec<f64> =
            groups.iter().flat_map(|group| &group.bars).map(|(_, value)| *value).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        let is_linear = least <= 0.0 || most / least < 50.0;
        BarChart {
            title: format!("{}: paper and prediction", name_of(&figure.id)),
            subtitle: figure.title.clone(),
            y: Axis::new(name, scale(is_linear), unit),
            groups,
        }
        .to_svg()
    });
    charts.collect()
}

fn unit_of(unit: points::Unit) -> (&'static str, Unit) {
    match unit {
        points::Unit::Ns => ("time", Unit::Ns),
        points::Unit::Count => ("number", Unit::Count),
        points::Unit::Bytes => ("bytes", Unit::Bytes),
        points::Unit::Percent => ("percent", Unit::None),
        points::Unit::Ratio => ("ratio", Unit::None),
    }
}
