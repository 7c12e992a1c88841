//! Charts are read back as XML: what a reader must find is there and lies where it should.

use roxmltree::{Document, Node};

use super::*;

const SCALES: [Scale; 3] = [Scale::Linear, Scale::Log2, Scale::Log10];

fn chart(x: Scale, y: Scale, series: Vec<Series>) -> Chart {
    Chart {
        title: "put <latency> & more".into(),
        subtitle: "shm, 2 ranks, \"quoted\"".into(),
        x: Axis::new("message size", x, Unit::Bytes),
        y: Axis::new("median latency", y, Unit::Ns),
        series,
    }
}

fn bars(scale: Scale, groups: &[(&str, &[(&str, f64)])]) -> BarChart {
    let group = |(label, bars): &(&str, &[(&str, f64)])| Group {
        label: (*label).into(),
        bars: bars.iter().map(|(name, value)| ((*name).into(), *value)).collect(),
    };
    BarChart {
        title: "Locks".into(),
        subtitle: String::new(),
        y: Axis::new("throughput", scale, Unit::PerS),
        groups: groups.iter().map(group).collect(),
    }
}

fn parsed(svg: &str) -> Document<'_> {
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    Document::parse(svg).unwrap_or_else(|error| panic!("{error}\n{svg}"))
}

fn of_class<'a>(document: &'a Document<'_>, class: &str) -> Vec<Node<'a, 'a>> {
    let has_class = |node: &Node<'_, '_>| node.attribute("class") == Some(class);
    document.root().descendants().filter(has_class).collect()
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).unwrap_or("0").parse().expect("a number")
}

/// Left, top, right and bottom of the plot area.
fn area(document: &Document<'_>) -> [f64; 4] {
    let area = of_class(document, "plot-area")[0];
    let (x, y) = (number(area, "x"), number(area, "y"));
    [x, y, x + number(area, "width"), y + number(area, "height")]
}

fn markers(document: &Document<'_>) -> Vec<(f64, f64)> {
    let place = |node: Node<'_, '_>| {
        let inner = node.attribute("transform")?.strip_prefix("translate(")?.strip_suffix(')')?;
        let (x, y) = inner.split_once(' ')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    };
    let nodes = of_class(document, "marker");
    nodes.into_iter().map(|node| place(node).expect("a place")).collect()
}

fn texts(document: &Document<'_>) -> String {
    let texts = document.root().descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.text()).collect::<Vec<_>>().join("\n")
}

#[test]
fn names_and_labels_are_written_escaped() {
    let names = ["farside", "openmpi-sm computing", "a<b>&'c'"];
    let series = names.map(|name| Series::new(name, vec![(8.0, 3.0), (64.0, 30.0)]));
    let svg = chart(Scale::Log2, Scale::Log10, series.into()).to_svg();
    let document = parsed(&svg);
    let texts = texts(&document);
    for wanted in names.into_iter().chain(["put <latency> & more", "8 B", "10 ns"]) {
        assert!(texts.contains(wanted), "{wanted} is not in {texts}");
    }
}

#[test]
fn extremes_lie_inside_the_plot_area() {
    let points = vec![(1.0, 0.5), (8.0, 3.0), (4_194_304.0, 9.9e6)];
    for (x, y) in SCALES.into_iter().flat_map(|x| SCALES.map(|y| (x, y))) {
        let svg = chart(x, y, vec![Series::new("a", points.clone())]).to_svg();
        let document = parsed(&svg);
        let [left, top, right, bottom] = area(&document);
        let places = markers(&document);
        assert_eq!(places.len(), points.len());
        for (x, y) in places {
            assert!((left..=right).contains(&x) && (top..=bottom).contains(&y), "{x} {y}");
        }
    }
}

#[test]
fn what_cannot_be_drawn_leaves_a_gap() {
    let points = vec![
        (1.0, 1.0),
        (2.0, 2.0),
        (3.0, f64::NAN),
        (4.0, f64::INFINITY),
        (f64::NAN, 1.0),
        (5.0, 0.0),
        (-1.0, 5.0),
        (f64::MAX, f64::MIN_POSITIVE),
        (6.0, 4.0),
        (7.0, 5.0),
    ];
    let svg = chart(Scale::Log10, Scale::Log10, vec![Series::new("a", points)]).to_svg();
    let document = parsed(&svg);
    assert_eq!(markers(&document).len(), 4);
    let lines = document.root().descendants().filter(|node| node.has_tag_name("polyline"));
    assert_eq!(lines.count(), 2 + 1, "two runs and the sample in the legend");
}

#[test]
fn few_or_equal_points_are_drawn_and_none_says_so() {
    let cases = [
        vec![],
        vec![(8.0, 5.0)],
        vec![(0.0, 0.0)],
        vec![(8.0, 5.0), (8.0, 5.0)],
        vec![(1.0, 7.0), (2.0, 7.0), (3.0, 7.0)],
        vec![(1.0, 1e9), (2.0, 1e9 + 1e-3)],
        vec![(-1.0, -5.0), (1.0, -5.0)],
        vec![(1e-90, 1e90)],
    ];
    for (x, y) in SCALES.into_iter().flat_map(|x| SCALES.map(|y| (x, y))) {
        assert!(texts(&parsed(&chart(x, y, vec![]).to_svg())).contains("no data"));
        for points in &cases {
            let svg = chart(x, y, vec![Series::new("a", points.clone()).dashed()]).to_svg();
            let document = parsed(&svg);
            let [left, top, right, bottom] = area(&document);
            for (x, y) in markers(&document) {
                assert!((left..=right).contains(&x) && (top..=bottom).contains(&y), "{points:?}");
            }
        }
    }
    parsed(&Chart::default().to_svg());
}

#[test]
fn bars_stand_inside_the_plot_area() {
    let groups: &[(&str, &[(&str, f64)])] = &[
        ("d-mcs", &[("farside", 2.5e6), ("openmpi", 3e5)]),
        ("rma-rw with a long label that needs room", &[("farside", 4e6), ("mpich", f64::NAN)]),
        ("none", &[]),
    ];
    for scale in SCALES {
        let svg = bars(scale, groups).to_svg();
        let document = parsed(&svg);
        let [left, top, right, bottom] = area(&document);
        let drawn = of_class(&document, "bar");
        assert_eq!(drawn.len(), 3);
        for bar in drawn {
            let (x, y) = (number(bar, "x"), number(bar, "y"));
            assert!(x >= left && x + number(bar, "width") <= right);
            assert!(y >= top && y + number(bar, "height") <= bottom + 0.02);
        }
        let texts = texts(&document);
        for name in ["farside", "openmpi", "mpich"] {
            assert!(texts.contains(name), "{name}");
        }
    }
}

#[test]
fn bars_may_be_missing_equal_negative_or_many() {
    let many: Vec<_> = (0..20).map(|n| (format!("system {n}"), f64::from(n))).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    for scale in SCALES {
        parsed(&bars(scale, &[]).to_svg());
        parsed(&bars(scale, &[("", &[])]).to_svg());
        parsed(&bars(scale, &[("a", &[("x", 0.0)])]).to_svg());
        parsed(&bars(scale, &[("a", &[("x", -5.0), ("y", -7.0)])]).to_svg());
        parsed(&bars(scale, &[("a", &[("x", -5.0), ("y", 7.0)])]).to_svg());
        parsed(&bars(scale, &[("a", &many), ("b", &many)]).to_svg());
    }
    parsed(&BarChart::default().to_svg());
}

#[test]
fn the_page_lists_every_plot() {
    let about = [("command", "farside bench <ops>".to_owned())];
    let plots = [("put <8 B>", "put #1.svg"), ("locks", "locks.svg")];
    let page = index_html("Runs & more", &about, &plots);
    assert!(page.contains("<dt>command</dt><dd>farside bench &lt;ops&gt;</dd>"));
    assert!(page.contains("width=device-width") && page.contains("overflow-x: auto"));
    assert!(page.contains("Runs &amp; more") && page.contains("put &lt;8 B&gt;"));
    assert!(page.contains("src=\"put%20%231.svg\"") && page.contains("src=\"locks.svg\""));
    let none: [(&str, &str); 0] = [];
    assert!(index_html("none", &[], &none).contains("No plots"));
}
