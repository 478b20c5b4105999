//! The picture: status, curves, speeds, memory, what plans predict.

use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph};

use crate::plan::report::{bytes, count, grouped};
use crate::plan::roofline::Seconds;
use crate::train::dashboard::axis::axis;
use crate::train::dashboard::status::{Curve, Status};
use crate::train::record::{Phase, short};

/// Of ANSI's colors, those that are legible on light and on dark.
fn color(phase: Phase) -> Color {
    match phase {
        Phase::Train => Color::Cyan,
        Phase::Validation => Color::Magenta,
    }
}

/// Cells that a chart needs.
const CHART: (u16, u16) = (36, 8);

pub(super) fn draw(frame: &mut Frame<'_>, status: &Status, now: Instant) {
    let area = frame.area();
    let facts = facts(status);
    let below = if area.height >= 16 { facts.len() as u16 + 1 } else { 0 };
    let rows = [Constraint::Length(1), Constraint::Length(1), Constraint::Min(0), Constraint::Length(below)];
    let [top, bar, middle, bottom] = Layout::vertical(rows).areas(area);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(top);
    frame.render_widget(Line::from(format!(" {}", status.title)).bold(), left);
    frame.render_widget(Line::from(place(status)).alignment(Alignment::Right), right);
    frame.render_widget(progress(status, now, bar.width), bar);
    charts(frame, status, middle);
    if below > 0 {
        let keys = Line::from(" q plain lines   Ctrl-C interrupt").dim();
        frame.render_widget(Paragraph::new(facts.into_iter().chain([keys]).collect::<Vec<_>>()), bottom);
    }
}

/// How far the training is.
fn place(status: &Status) -> String {
    let Some(step) = status.step else { return "before the first step ".into() };
    let (epoch, epochs) = (step.epoch + 1, step.epochs);
    let epochs = if epochs == u64::MAX { String::new() } else { format!(" of {}", grouped(epochs)) };
    format!("epoch {}{epochs} on {} ", grouped(epoch), step.device)
}

/// The share of steps made, as a bar, between their numbers and the times.
fn progress(status: &Status, now: Instant, width: u16) -> Line<'static> {
    let (step, steps) = status.step.map_or((0, 0), |step| (step.step, step.steps));
    let share = if steps > 0 { (step as f64 / steps as f64).min(1.0) } else { 0.0 };
    let gone = clock(now.duration_since(status.began));
    let left = status.left().map_or(String::new(), |left| format!(", {} left", clock(left)));
    let before = format!(" step {} of {} ", grouped(step), grouped(steps));
    let after = format!(" {:3.0} %  {gone} elapsed{left} ", 100.0 * share);
    let room = usize::from(width).saturating_sub(before.chars().count() + after.chars().count());
    let done = (share * room as f64).round() as usize;
    Line::from(vec![
        Span::raw(before),
        Span::styled("━".repeat(done), color(Phase::Train)),
        Span::raw("─".repeat(room - done)).dim(),
        Span::raw(after),
    ])
}

/// Hours, minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

fn charts(frame: &mut Frame<'_>, status: &Status, area: Rect) {
    let charts = status.charts();
    if charts.is_empty() || area.width < CHART.0 || area.height < CHART.1 {
        return frame.render_widget(Paragraph::new(instead(status, &charts)).centered(), area);
    }
    let (columns, rows) = grid(charts.len(), area);
    let even = |count: usize| vec![Constraint::Fill(1); count];
    let rows = Layout::vertical(even(rows)).split(area);
    let places = rows.iter().flat_map(|row| Layout::horizontal(even(columns)).split(*row).to_vec());
    charts.iter().zip(places).for_each(|((name, curves), place)| chart(frame, name, curves, place));
}

/// Columns and rows for so many charts: as even as there is room for.
fn grid(charts: usize, area: Rect) -> (usize, usize) {
    let room = |cells: u16, each: u16| usize::from(cells / each).clamp(1, 3);
    let (most_columns, most_rows) = (room(area.width, CHART.0), room(area.height, CHART.1));
    let rows = |columns: usize| charts.div_ceil(columns);
    let fitting = (1..=most_columns).rev().filter(|&columns| rows(columns) <= most_rows);
    let even =
        fitting.min_by_key(|&columns| (columns * rows(columns) - charts, columns.abs_diff(rows(columns))));
    even.map_or((most_columns, most_rows), |columns| (columns, rows(columns)))
}

/// What there is to say without a chart.
fn instead(status: &Status, charts: &[(&str, Vec<&Curve>)]) -> Vec<Line<'static>> {
    let last = |(name, curves): &(&str, Vec<&Curve>)| {
        let mut spans = vec![Span::raw(name.to_string())];
        spans.extend(curves.iter().map(|curve| value(curve)));
        Line::from(spans)
    };
    let waiting = match status.task {
        Some((task, done, all)) => format!("{task}: {} of {}", grouped(done), grouped(all)),
        None if status.step.is_none() => "loading the first batch".into(),
        None => "no loss has been read yet".into(),
    };
    let waiting = charts.is_empty().then(|| Line::from(waiting).dim());
    charts.iter().map(last).chain(waiting).collect()
}

/// The last value of a curve, in its color.
fn value(curve: &Curve) -> Span<'static> {
    Span::styled(format!(" {} {}", curve.phase.name(), short(curve.last)), color(curve.phase))
}

fn chart(frame: &mut Frame<'_>, name: &str, curves: &[&Curve], area: Rect) {
    let inside = area.height.saturating_sub(2);
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let (y_bounds, y_labels) = axis(points().map(|point| point.1), usize::from(inside / 2).clamp(2, 5));
    let width = y_labels.iter().map(String::len).max().unwrap_or(0);
    let y_labels = y_labels.into_iter().map(|label| Line::from(format!("{label:>width$}")).dim());
    let (first, last) =
        points().fold((f64::INFINITY, 0f64), |(a, b), point| (a.min(point.0), b.max(point.0)));
    let first = if first < last { first } else { last - 1.0 };
    let steps = [first, ((first + last) / 2.0).round(), last].map(|step| grouped(step.max(0.0) as u64));
    let [from, middle, to] = steps;
    let x_labels = [format!("step {from}"), middle, to].map(|label| Line::from(label).dim());
    let sets = curves.iter().map(|curve| {
        let set = Dataset::default().graph_type(GraphType::Line).marker(Marker::Braille);
        set.style(color(curve.phase)).data(&curve.points)
    });
    let values = curves.iter().map(|curve| value(curve)).chain([Span::raw(" ")]);
    let values = Line::from(values.collect::<Vec<_>>()).right_aligned();
    let block = Block::bordered().border_style(Style::new().dim());
    let block = block.title_top(Line::from(format!(" {name} ")).bold()).title_top(values);
    let axes = Style::new().dim();
    let chart = Chart::new(sets.collect())
        .block(block)
        .legend_position(None)
        .x_axis(Axis::default().bounds([first, last]).labels(x_labels).style(axes))
        .y_axis(Axis::default().bounds(y_bounds).labels(y_labels).style(axes));
    frame.render_widget(chart, area);
}

/// Speeds, memory and predictions, a line each.
fn facts(status: &Status) -> Vec<Line<'static>> {
    let line = |name: &str, facts: Vec<String>| {
        let facts = if facts.is_empty() { "not known yet".into() } else { facts.join(" · ") };
        Line::from(vec![Span::raw(format!(" {name:<8}")).bold(), Span::raw(facts)])
    };
    let speed = status.speed().map_or_else(Vec::new, |speed| {
        let rate = |rate: f64, of: &str| {
            let rate = if rate < 100.0 {
                format!("{rate:.1} ")
            } else {
                format!("{} ", count(rate as u64).trim_end())
            };
            format!("{rate}{of}/s")
        };
        let each = format!("{} a step", Seconds(1.0 / speed.steps));
        vec![rate(speed.steps, "steps"), rate(speed.samples, "samples"), each]
    });
    let memory = status.memory.map_or_else(Vec::new, |memory| {
        let limit = (memory.limit < u64::MAX).then(|| format!("of {}", bytes(memory.limit)));
        let now = [bytes(memory.allocated), format!("peak {}", bytes(memory.peak))];
        now.into_iter().chain([format!("{} reserved", bytes(memory.reserved))]).chain(limit).collect()
    });
    let plan = status.predicted.map_or_else(Vec::new, |plan| {
        let time = plan.seconds.map(|seconds| format!("≥ {} a step", Seconds(seconds)));
        let kernels = format!("{} kernels", grouped(plan.kernels));
        let bytes = [format!("{} moved", bytes(plan.bytes)), format!("peak {}", bytes(plan.peak))];
        time.into_iter().chain([kernels]).chain(bytes).collect()
    });
    vec![line("speed", speed), line("memory", memory), line("plan", plan)]
}
