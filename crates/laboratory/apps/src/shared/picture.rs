//! Pictures of what has come out, as SVG.

use crate::svg::{Document, Number};

/// How many squares a field is drawn with in each direction at most.
const SQUARES: usize = 120;
const WIDTH: f64 = 600.0;

/// A field of so many columns, as squares from dark (least) to bright (most).
pub(crate) fn field(title: &str, values: &[f64], columns: usize) -> String {
    let rows = values.len() / columns.max(1);
    let (across, down) = (columns.min(SQUARES), rows.min(SQUARES));
    let step = WIDTH / across.max(1) as f64;
    let height = step * down as f64;
    let at = |x: usize, y: usize| values[(y * rows / down) * columns + x * columns / across];
    let (least, most) =
        values.iter().fold((f64::MAX, f64::MIN), |(a, b), &value| (a.min(value), b.max(value)));
    let mut svg = Document::new(WIDTH, height, title);
    let side = Number(step);
    for y in 0..down {
        for x in 0..across {
            let share = if most > least { (at(x, y) - least) / (most - least) } else { 0.0 };
            let (red, green, blue) = colour(share);
            let (left, top) = (Number(x as f64 * step), Number(y as f64 * step));
            svg.push(format_args!(
                "<rect x=\"{left}\" y=\"{top}\" width=\"{side}\" height=\"{side}\" \
                 fill=\"rgb({red},{green},{blue})\"/>\n"
            ));
        }
    }
    svg.finish()
}

pub(crate) fn points(title: &str, points: &[(f64, f64)]) -> String {
    let reach = points
        .iter()
        .map(|(x, y)| x.abs().max(y.abs()))
        .filter(|reach| reach.is_finite())
        .fold(1e-9, f64::max);
    let scale = |value: f64| (value / reach + 1.0) * WIDTH / 2.0;
    let mut svg = Document::new(WIDTH, WIDTH, title);
    svg.push(format_args!("<rect width=\"{WIDTH}\" height=\"{WIDTH}\" fill=\"#10131a\"/>\n"));
    for &(x, y) in points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
        let (x, y) = (Number(scale(x)), Number(scale(y)));
        svg.push(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"1.1\" fill=\"#ffd27f\"/>\n"));
    }
    svg.finish()
}

/// A round trip through places of a square that begins at 0, 0.
pub(crate) fn trip(title: &str, places: &[(f64, f64)]) -> String {
    let reach = places.iter().map(|(x, y)| x.max(*y)).fold(1e-9, f64::max);
    let scale = |value: f64| Number(20.0 + value / reach * (WIDTH - 40.0));
    let mut svg = Document::new(WIDTH, WIDTH, title);
    svg.push(format_args!("<rect width=\"{WIDTH}\" height=\"{WIDTH}\" fill=\"#10131a\"/>\n"));
    for (at, &(x, y)) in places.iter().enumerate() {
        let (next_x, next_y) = places[(at + 1) % places.len()];
        let (x, y) = (scale(x), scale(y));
        svg.push(format_args!(
            "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{}\" stroke=\"#7fb2ff\"/>\n\
             <circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"#ffd27f\"/>\n",
            scale(next_x),
            scale(next_y)
        ));
    }
    svg.finish()
}

/// From dark blue over red to bright yellow.
fn colour(share: f64) -> (u8, u8, u8) {
    let mix = |from: f64, to: f64, share: f64| (from + (to - from) * share.clamp(0.0, 1.0)) as u8;
    if share < 0.5 {
        (mix(20.0, 190.0, share * 2.0), mix(24.0, 50.0, share * 2.0), mix(82.0, 70.0, share * 2.0))
    } else {
        let share = share * 2.0 - 1.0;
        (mix(190.0, 255.0, share), mix(50.0, 240.0, share), mix(70.0, 130.0, share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_a_square_for_each_value_and_points_are_inside() {
        let svg = field("t", &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 3);
        assert_eq!(svg.matches("<rect").count(), 6);
        assert!(svg.contains("rgb(20,24,82)") && svg.contains("rgb(255,240,130)"), "{svg}");
        let svg = points("t", &[(-2.0, 0.0), (2.0, 1.0)]);
        assert!(
            svg.contains(r#"cx="0" cy="300""#) && svg.contains(r#"cx="600" cy="450""#),
            "{svg}"
        );
        assert_eq!(field("t", &[], 0).matches("<rect").count(), 0);
        let svg = trip("t", &[(0.0, 0.0), (2.0, 0.0), (0.0, 2.0)]);
        assert!(svg.contains(r#"x1="20" y1="580" x2="20" y2="20""#), "{svg}");
    }
}
