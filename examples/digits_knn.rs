//! Recognises handwritten digits by their nearest neighbour: one matmul, one
//! argmin, real data.

use std::fmt::Write as _;
use std::io::Read;
use std::path::PathBuf;

use clap::Parser;
use flate2::read::GzDecoder;
use kiln::prelude::*;
use plotters::prelude::*;

const PIXELS: usize = 64;
const REFERENCES: usize = 1000;

/// Classifies the last 797 of 1,797 handwritten digits by the nearest of the
/// first 1,000, and prints the plan that does it.
#[derive(Parser)]
struct Arguments {
    /// Device to run on: cpu, cuda:0, wgpu:0.
    #[arg(long, env = "KILN_DEVICE", default_value = "cpu")]
    device: Device,
    /// Writes the confusion matrix as an SVG picture to this file.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() {
    if let Err(error) = run(&Arguments::parse()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let digits = Digits::load()?;
    let (references, queries) = digits.images.split_at(REFERENCES * PIXELS);
    let (known, expected) = digits.labels.split_at(REFERENCES);

    let references = Tensor::from_vec(references.to_vec(), [REFERENCES, PIXELS], arguments.device) / 16.0;
    let queries = Tensor::from_vec(queries.to_vec(), [expected.len(), PIXELS], arguments.device) / 16.0;
    let nearest = nearest(&queries, &references);

    println!("{}", nearest.plan()?);
    let nearest: Vec<i64> = nearest.to_vec()?;

    let found: Vec<usize> = nearest.iter().map(|&index| known[index as usize]).collect();
    let correct = found.iter().zip(expected).filter(|(found, expected)| found == expected).count();
    println!("correct {correct} of {}", expected.len());
    if let Some(path) = &arguments.out {
        draw(path, &confusion(&found, expected))?;
        println!("confusion matrix: {}", path.display());
    }
    Ok(())
}

/// For each query, the index of the reference at the least squared distance:
/// |q|^2 - 2 q.r + |r|^2, whose first term is the same for all references.
fn nearest(queries: &Tensor, references: &Tensor) -> Tensor {
    let lengths = (references * references).sum(1);
    let distances = lengths - queries.matmul(&references.t()) * 2.0;
    distances.argmin(1)
}

struct Digits {
    images: Vec<f32>,
    labels: Vec<usize>,
}

impl Digits {
    fn load() -> Result<Digits, Box<dyn std::error::Error>> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits.csv.gz");
        let mut text = String::new();
        GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
        let mut digits = Digits { images: Vec::new(), labels: Vec::new() };
        for line in text.lines() {
            let numbers = line.split(',').map(str::parse).collect::<Result<Vec<f32>, _>>()?;
            let (pixels, label) = numbers.split_at(PIXELS);
            digits.images.extend_from_slice(pixels);
            digits.labels.push(label[0] as usize);
        }
        Ok(digits)
    }
}

/// How often each digit (row) was taken for each digit (column).
fn confusion(found: &[usize], expected: &[usize]) -> [[usize; 10]; 10] {
    let mut counts = [[0; 10]; 10];
    found.iter().zip(expected).for_each(|(&found, &expected)| counts[expected][found] += 1);
    counts
}

fn draw(path: &PathBuf, counts: &[[usize; 10]; 10]) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(path, (520, 540)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("digit (down) taken for digit (across)", ("sans-serif", 18))
        .margin(16)
        .x_label_area_size(28)
        .y_label_area_size(28)
        .build_cartesian_2d((0..9usize).into_segmented(), (0..9usize).into_segmented())?;
    chart.configure_mesh().disable_mesh().draw()?;
    for (digit, row) in counts.iter().enumerate() {
        let most = row.iter().copied().max().unwrap_or(1).max(1);
        for (taken, &count) in row.iter().enumerate() {
            let shade = 255 - (200 * count / most) as u8;
            let corners = [
                (SegmentValue::Exact(taken), SegmentValue::Exact(digit)),
                (SegmentValue::Exact(taken + 1), SegmentValue::Exact(digit + 1)),
            ];
            chart.draw_series([Rectangle::new(corners, RGBColor(shade, shade, 255).filled())])?;
            let mut label = String::new();
            write!(label, "{count}")?;
            let centre = (SegmentValue::CenterOf(taken), SegmentValue::CenterOf(digit));
            chart.draw_series([Text::new(label, centre, ("sans-serif", 13))])?;
        }
    }
    area.present()?;
    Ok(())
}
