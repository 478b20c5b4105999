//! Curves as drawings.

use std::fmt::Write;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 26.0;

/// The values of a number by step, in one phase.
pub struct Curve {
    /// `train` or `validation`.
    pub phase: &'static str,
    /// Step and value, which is finite.
    pub points: Vec<(u64, f64)>,
}

/// Where the axes begin and end.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    fn of(curves: &[Curve]) -> Frame {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), v| (least.min(v), most.max(v)))
        };
        let (x, y) = (range(&mut points().map(|p| p.0 as f64)), range(&mut points().map(|p| p.1)));
        // From zero where that is near.
        let y = if y.0 >= 0.0 && y.0 < 0.5 * y.1 { (0.0, y.1) } else { y };
        let wide = |(from, to): (f64, f64)| if to > from { (from, to) } else { (from - 0.5, to + 0.5) };
        Frame { x: wide(x), y: wide(y) }
    }
    fn x(&self, step: f64) -> f64 {
        LEFT + (step - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }
    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (value - self.y.0) / (self.y.1 - self.y.0) * (HEIGHT - TOP - BOTTOM)
    }
}

/// About `count` round numbers of a range, with their texts.
fn ticks((from, to): (f64, f64), count: f64) -> Vec<(f64, String)> {
    let rough = (to - from) / count;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = step.into_iter().find(|&step| step >= rough).unwrap_or(rough);
    let digits = (-power.log10()).max(0.0) as usize;
    let text = |tick: f64| match format!("{tick:.digits$}") {
        // Without the zeros that a small number begins with.
        text if digits > 3 => text.parse().map_or(text, |tick: f64| format!("{tick:e}")),
        text => text,
    };
    let first = (from / step - 1e-9).ceil() as i64;
    let values = (first..).map(|i| i as f64 * step).take_while(|&tick| tick <= to + 1e-9 * step);
    values.map(|tick| (tick, text(tick))).collect()
}

/// The drawing of curves over the step.
pub fn draw(name: &str, curves: &[Curve]) -> String {
    let frame = Frame::of(curves);
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{name} by step\">");
    let (edge, base) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for (tick, label) in ticks(frame.y, 4.0) {
        let y = frame.y(tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{edge}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    for (tick, label) in ticks(frame.x, 6.0).into_iter().filter(|(tick, _)| tick.fract() == 0.0) {
        let x = frame.x(tick);
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", base + 18.0);
    }
    let _ = write!(svg, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{edge}\" y1=\"{base}\" y2=\"{base}\"/>");
    curves.iter().for_each(|curve| svg += &line(&frame, curve));
    svg + "</svg>"
}

fn line(frame: &Frame, curve: &Curve) -> String {
    let place = |&(step, value): &(u64, f64)| (frame.x(step as f64), frame.y(value));
    let points: Vec<String> = curve.points.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let mut text =
        format!("<g class=\"{}\"><polyline class=\"curve\" points=\"{}\"/>", curve.phase, points.join(" "));
    // What can be pointed at, unless there are too many.
    if curve.points.len() <= 200 {
        for point in &curve.points {
            let ((x, y), (step, value)) = (place(point), point);
            let _ = write!(
                text,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"><title>{}, step {step}: {value}</title></circle>",
                curve.phase
            );
        }
    }
    text + "</g>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let texts = |range| ticks(range, 4.0).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts((0.0, 1.0)), ["0.0", "0.5", "1.0"]);
        assert_eq!(texts((3.0, 47.0)), ["20", "40"]);
        assert_eq!(texts((0.002994, 0.003)), ["2.994e-3", "2.996e-3", "2.998e-3", "3e-3"]);
    }

    #[test]
    fn a_curve_of_one_point_is_drawn() {
        let curve = Curve { phase: "train", points: vec![(3, 0.25)] };
        assert!(draw("loss", &[curve]).contains("<title>train, step 3: 0.25</title>"));
    }
}
