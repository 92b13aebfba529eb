//! `vink plot`: columns of files as lines in a picture, SVG or PNG.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plotters::coord::Shift;
use plotters::prelude::*;
use vink_series::{Cell, Format, Table};

use crate::failure::Failure;
use crate::picture;

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Files of rows: CSV with a line of names at its head, JSON lines (.jsonl), or Parquet; several are drawn into one picture
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The column that goes to the right; the first one otherwise
    #[arg(long, value_name = "COLUMN")]
    x: Option<String>,
    /// A column to be drawn; may be repeated; every other one with numbers otherwise
    #[arg(long, value_name = "COLUMN")]
    y: Vec<String>,
    /// What stands above it
    #[arg(long, value_name = "TEXT", default_value = "")]
    title: String,
    /// What stands beside the vertical axis
    #[arg(long, value_name = "TEXT", default_value = "")]
    unit: String,
    /// Draw steps, or points, in the place of lines
    #[arg(long, value_enum, default_value = "lines")]
    style: Style,
    /// The picture's size in pixels
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "900x420", value_parser = size)]
    size: (u32, u32),
    /// The picture: .svg or .png
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// How values are joined.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Style {
    /// By straight lines
    Lines,
    /// Each holds until the next one
    Steps,
    /// Not at all
    Points,
}

/// A column of a file: its name in the picture, and its points.
#[derive(Debug, PartialEq)]
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Draws the picture.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut lines = Vec::new();
    for path in &arguments.files {
        let several = arguments.files.len() > 1;
        let bytes =
            std::fs::read(path).map_err(Failure::host(format!("reading {}", path.display())))?;
        let wrong = |error: String| Failure::Other(format!("{}: {error}", path.display()));
        let table = vink_series::read(format(path), &bytes);
        let table = table.map_err(|error| wrong(error.to_string()))?;
        let read = columns(&table, arguments.x.as_deref(), &arguments.y).map_err(wrong)?;
        for mut line in read {
            if several {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                line.name = format!("{stem} {}", line.name);
            }
            lines.push(line);
        }
    }
    let output = &arguments.output;
    let drawn = match output.extension().is_some_and(|ending| ending == "png") {
        true => picture::png(output, arguments.size, |area| draw(&lines, arguments, area)),
        false => {
            let area = SVGBackend::new(output, arguments.size).into_drawing_area();
            draw(&lines, arguments, &area)
        }
    };
    drawn.map_err(|error| Failure::Other(format!("drawing {}: {error}", output.display())))?;
    Ok(ExitCode::SUCCESS)
}

/// By its ending; others are CSV.
fn format(path: &Path) -> Format {
    Format::of(path).unwrap_or(Format::Csv)
}

/// The columns `y` (all with numbers but `x`, if there are none) over the column `x` (the first, if there is none).
/// Cells that are empty are left out.
fn columns(table: &Table, x: Option<&str>, y: &[String]) -> Result<Vec<Line>, String> {
    let column = |name: &str| {
        let place = table.names.iter().position(|its| its == name);
        place.ok_or_else(|| {
            let all = table.names.join(", ");
            format!("there is no column {name:?}: its columns are {all}")
        })
    };
    let x = x.map_or(Ok(0), column)?;
    let has_numbers = |i: &usize| {
        let mut rows = table.rows.iter();
        rows.any(|row| matches!(row[*i], Cell::Number(_)))
    };
    let chosen: Vec<usize> = if y.is_empty() {
        let all = (0..table.names.len()).filter(|i| *i != x);
        all.filter(has_numbers).collect()
    } else {
        y.iter()
            .map(|name| column(name))
            .collect::<Result<_, _>>()?
    };
    let mut lines: Vec<Line> = chosen
        .iter()
        .map(|i| Line {
            name: table.names[*i].clone(),
            points: Vec::new(),
        })
        .collect();
    for (at, row) in table.rows.iter().enumerate() {
        let number = |i: usize| match &row[i] {
            Cell::Empty => Ok(None),
            Cell::Number(number) => Ok(Some(*number)),
            Cell::Text(text) => {
                let line = table.lines.get(at).copied().unwrap_or_default();
                Err(format!("line {line}: {text:?} is not a number"))
            }
        };
        let Some(at) = number(x)? else { continue };
        for (line, i) in lines.iter_mut().zip(&chosen) {
            if let Some(value) = number(*i)? {
                line.points.push((at, value));
            }
        }
    }
    if lines.iter().all(|line| line.points.is_empty()) {
        return Err("there is nothing to draw in it".to_owned());
    }
    Ok(lines)
}

/// From the smallest to the largest value; not empty.
fn range(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    if high > low {
        (low, high)
    } else {
        (low, low + 1.0)
    }
}

fn draw<B: DrawingBackend>(
    lines: &[Line],
    arguments: &Arguments,
    area: &DrawingArea<B, Shift>,
) -> Result<(), Box<dyn std::error::Error>>
where
    B::ErrorType: 'static,
{
    let all = lines.iter().flat_map(|line| line.points.iter());
    let (left, right) = range(all.clone().map(|p| p.0));
    let (low, high) = range(all.map(|p| p.1));
    // Quantities are seen against zero.
    let bottom = low.min(0.0);
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(&arguments.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(64)
        .build_cartesian_2d(left..right, bottom..high + (high - bottom) * 0.05)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(arguments.x.clone().unwrap_or_else(|| "time".to_owned()))
        .y_desc(&arguments.unit)
        .draw()?;
    for (i, line) in lines.iter().enumerate() {
        let color = Palette99::pick(i).to_rgba();
        let series = match arguments.style {
            Style::Points => chart.draw_series(
                line.points
                    .iter()
                    .map(|point| Circle::new(*point, 2, color.filled())),
            )?,
            Style::Lines => {
                chart.draw_series(LineSeries::new(line.points.iter().copied(), color))?
            }
            Style::Steps => chart.draw_series(LineSeries::new(steps(&line.points), color))?,
        };
        series
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

/// Each value again where the next one begins.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut steps = Vec::with_capacity(2 * points.len());
    for (i, point) in points.iter().enumerate() {
        if i > 0 {
            steps.push((point.0, points[i - 1].1));
        }
        steps.push(*point);
    }
    steps
}

/// `WIDTHxHEIGHT`.
fn size(text: &str) -> Result<(u32, u32), String> {
    let read = || {
        let (width, height) = text.split_once('x')?;
        Some((width.parse().ok()?, height.parse().ok()?))
    };
    read()
        .filter(|(w, h)| (100..=10_000).contains(w) && (100..=10_000).contains(h))
        .ok_or_else(|| "write it like 900x420, from 100 to 10000 each".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, x: Option<&str>, y: &[String]) -> Result<Vec<Line>, String> {
        let table = vink_series::read(Format::Csv, text.as_bytes());
        super::columns(&table.map_err(|error| error.to_string())?, x, y)
    }

    const TEXT: &str = "time,cwnd,rtt\n0,10,\n1,20,5.5\n";

    #[test]
    fn columns() {
        let lines = read(TEXT, None, &[]).unwrap();
        assert_eq!(lines[0].points, [(0.0, 10.0), (1.0, 20.0)]);
        assert_eq!(lines[1].points, [(1.0, 5.5)]);
        let lines = read(TEXT, Some("rtt"), &["cwnd".to_owned()]).unwrap();
        assert_eq!(lines[0].points, [(5.5, 20.0)]);
    }

    #[test]
    fn mistakes_are_named() {
        let error = read(TEXT, Some("when"), &[]).unwrap_err();
        assert!(error.contains("its columns are time, cwnd, rtt"), "{error}");
        assert!(read("t,x\n1,lots\n", None, &[]).is_err());
        let error = read("t,x\n1,lots\n", None, &["x".to_owned()]).unwrap_err();
        assert!(
            error.contains("line 2") && error.contains("lots"),
            "{error}"
        );
        assert!(read("t,x\n", None, &[]).is_err());
        assert!(read("", None, &[]).is_err());
        assert!(size("900").is_err() && size("1x1").is_err());
    }

    #[test]
    fn steps_hold() {
        let steps = steps(&[(0.0, 1.0), (2.0, 3.0)]);
        assert_eq!(steps, [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0)]);
    }
}
