//! Pictures of fixed sizes.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::status::{Predicted, Status};
use super::view::draw;
use crate::base::Device;
use crate::base::progress::Task;
use crate::runtime::MemoryStats;
use crate::train::metric::Scores;
use crate::train::record::{Phase, Record, StepRecord};

fn record(phase: Phase, step: u64, values: &[(&str, f64)]) -> Record {
    let values = values.iter().map(|(name, value)| (name.to_string(), *value)).collect();
    Record { phase, epoch: step / 10, step, seconds: 0.0, scores: Scores { values, ..Scores::default() } }
}

/// A training of which half is over, a step each tenth of a second.
fn half(began: Instant) -> Status {
    let mut status = Status::new("handwritten digits", began);
    for step in 1..=150 {
        let made = StepRecord {
            epoch: (step - 1) / 10,
            step,
            epochs: 30,
            steps: 300,
            samples: 100,
            device: Device::cpu(),
        };
        status.step(&made, began + Duration::from_millis(100 * step));
        let loss = 2.3 * (-(step as f64) / 40.0).exp() + 0.05;
        if step % 5 == 0 {
            status.record(&record(
                Phase::Train,
                step,
                &[("loss", loss), ("lr", 1e-3), ("grad_norm", 2.0 * loss)],
            ));
        }
        if step % 10 == 0 {
            let accuracy = 1.0 - 0.35 * loss;
            status.record(&record(Phase::Validation, step, &[("loss", loss + 0.1), ("accuracy", accuracy)]));
        }
    }
    let memory =
        MemoryStats { allocated: 3 << 20, reserved: 8 << 20, peak: 5 << 20, limit: u64::MAX, allocations: 9 };
    status.memory = Some(memory);
    status.predicted = Some(Predicted { kernels: 25, bytes: 12 << 20, peak: 4 << 20, seconds: Some(8.5e-4) });
    status
}

fn terminal(status: &Status, now: Instant, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a buffer");
    terminal.draw(|frame| draw(frame, status, now)).expect("a picture");
    terminal
}

fn lines(status: &Status, now: Instant, width: u16, height: u16) -> Vec<String> {
    let terminal = terminal(status, now, width, height);
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(row).collect()
}

#[test]
fn a_picture_tells_how_far_it_is_what_it_takes_and_what_plans_predict() {
    let began = Instant::now();
    let (status, now) = (half(began), began + Duration::from_secs(15));
    let lines = lines(&status, now, 80, 24);
    println!("{}", lines.join("\n"));
    assert!(lines[0].starts_with(" handwritten digits ") && lines[0].ends_with(" epoch 15 of 30 on cpu "));
    assert!(lines[1].starts_with(" step 150 of 300 ━"), "{}", lines[1]);
    assert!(lines[1].ends_with("─  50 %  0:15 elapsed, 0:15 left "), "{}", lines[1]);
    assert!(lines[20].starts_with(" speed   10.0 steps/s · 1.0 k samples/s · 100.0 ms a step"));
    assert!(lines[21].starts_with(" memory  3.0 MiB · peak 5.0 MiB · 8.0 MiB reserved"));
    assert!(lines[22].starts_with(" plan    ≥ 850.0 us a step · 25 kernels · 12.0 MiB moved · peak 4.0 MiB"));
    let all = lines.join("\n");
    // Four charts in two rows, the loss first, with the last values.
    assert!(lines[2].starts_with("┌ loss ") && lines[2].contains("┐┌ accuracy ──"));
    assert!(lines[11].starts_with("┌ grad_norm ──") && lines[11].contains("┐┌ lr ──"));
    assert!(lines[2].contains(" train 0.1041 validation 0.2041 ┐"), "{}", lines[2]);
    assert!(all.contains("step 5 ") && all.contains("150│"), "axes have their steps");
}

#[test]
fn a_large_picture_has_room_for_all_and_small_ones_for_what_counts() {
    let began = Instant::now();
    let (status, now) = (half(began), began + Duration::from_secs(15));
    let large = lines(&status, now, 120, 40).join("\n");
    println!("{large}");
    for name in ["loss", "accuracy", "grad_norm", "lr"] {
        assert!(large.contains(&format!("┌ {name} ─")), "{name}");
    }
    let small = lines(&status, now, 34, 8).join("\n");
    assert!(small.contains("step 150 of 300") && small.contains("loss train 0.1041"), "{small}");
}

#[test]
fn before_the_first_record_it_says_what_it_waits_for() {
    let began = Instant::now();
    let mut status = Status::new("training", began);
    let shows = |status: &Status, text: &str| {
        let lines = lines(status, began, 80, 24).join("\n");
        assert!(lines.contains(text), "{lines}");
    };
    shows(&status, "loading the first batch");
    status.task = Some((Task::Compile, 12, 40));
    shows(&status, "compiling: 12 of 40");
    shows(&status, "speed   not known yet");
}

#[test]
fn no_size_and_no_number_is_too_odd() {
    let began = Instant::now();
    let mut odd = Status::new("a very long title indeed, longer than most terminals are wide", began);
    let made =
        StepRecord { epoch: 0, step: 7, epochs: u64::MAX, steps: 0, samples: 0, device: Device::cpu() };
    odd.step(&made, began);
    let values = [("loss", f64::NAN), ("huge", 1e300), ("tiny", -1e-300), ("inf", f64::INFINITY), ("0", 0.0)];
    odd.record(&record(Phase::Train, 7, &values));
    for status in [&odd, &half(began), &Status::new("", began)] {
        for (width, height) in [(1, 1), (2, 3), (10, 40), (36, 10), (37, 11), (79, 15), (200, 3), (300, 100)]
        {
            terminal(status, began, width, height);
        }
    }
}

#[test]
fn training_and_validation_differ_in_color() {
    let began = Instant::now();
    let terminal = terminal(&half(began), began, 80, 24);
    let colors: Vec<Color> = terminal.backend().buffer().content().iter().map(|cell| cell.fg).collect();
    assert!([Color::Cyan, Color::Magenta].iter().all(|color| colors.contains(color)));
    // All else is in the terminal's own color.
    assert!(colors.iter().all(|color| [Color::Cyan, Color::Magenta, Color::Reset].contains(color)));
}

#[test]
fn a_long_curve_is_thinned_out_and_keeps_its_shape() {
    let mut status = Status::new("long", Instant::now());
    (0..100_000).for_each(|step| status.record(&record(Phase::Train, step, &[("loss", step as f64)])));
    let points = &status.curves[0].points;
    assert!(points.len() < 4096, "{}", points.len());
    assert!(points.iter().all(|(step, value)| step == value) && points.is_sorted_by(|a, b| a.0 < b.0));
}
