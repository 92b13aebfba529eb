//! `vink plot`: columns of files as lines in an SVG picture.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plotters::coord::Shift;
use plotters::prelude::*;
use vink_timeseries::{Cell, Format, Table};

use crate::cli_error::CliError;

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
    /// The picture, an SVG
    #[arg(short, long, value_name = "FILE", value_parser = svg)]
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
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let mut lines = Vec::new();
    let mut x = arguments.x.clone();
    for path in &arguments.files {
        let several = arguments.files.len() > 1;
        let bytes = vink_spec::read_file(path, vink_spec::LARGEST_FILE)
            .map_err(CliError::host(format!("reading {}", path.display())))?;
        let wrong = |error: String| CliError::Other(format!("{}: {error}", path.display()));
        let table = vink_timeseries::read(format(path), &bytes);
        let table = table.map_err(|error| wrong(error.to_string()))?;
        x = x.or_else(|| table.names.first().cloned());
        let read = columns(&table, arguments.x.as_deref(), &arguments.y).map_err(wrong)?;
        for mut line in read {
            if several {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                line.name = format!("{stem} {}", line.name);
            }
            lines.push(line);
        }
    }
    let x = x.unwrap_or_default();
    if x == TIME {
        from_the_start(&mut lines);
    }
    let output = &arguments.output;
    let area = SVGBackend::new(output, arguments.size).into_drawing_area();
    draw(&lines, arguments, &x, &area)
        .map_err(|error| CliError::Other(format!("drawing {}: {error}", output.display())))?;
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
            if let Some(value) = number(*i)?.filter(|value| value.is_finite()) {
                line.points.push((at, value));
            }
        }
    }
    if lines.iter().all(|line| line.points.is_empty()) {
        return Err("there is nothing to draw in it".to_owned());
    }
    Ok(lines)
}

/// Has the first point at 0: a kernel's clock began when it booted, which says nothing about what was looked at.
fn from_the_start(lines: &mut [Line]) {
    let all = lines.iter().flat_map(|line| line.points.iter());
    let first = all.map(|point| point.0).fold(f64::INFINITY, f64::min);
    for point in lines.iter_mut().flat_map(|line| line.points.iter_mut()) {
        point.0 -= first;
    }
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

/// The column that is a time in seconds, which is drawn from its first value on.
const TIME: &str = "time";
/// Pixels of the axes' letters.
const LETTERS: u32 = 12;
/// What a power of 1000 is called, from the smallest.
const PREFIXES: [(i32, &str); 9] = [
    (-12, "p"),
    (-9, "n"),
    (-6, "µ"),
    (-3, "m"),
    (0, ""),
    (3, "k"),
    (6, "M"),
    (9, "G"),
    (12, "T"),
];

/// An axis: what part of it is seen, and how its numbers are written.
struct Axis {
    from: f64,
    to: f64,
    /// Behind each number.
    prefix: &'static str,
    /// What a number with the prefix is.
    unit: f64,
}

impl Axis {
    fn new(from: f64, to: f64) -> Axis {
        let largest = from.abs().max(to.abs());
        // A number that is short anyhow needs none.
        let power = match largest {
            0.01..10_000.0 => 0,
            _ => (largest.log10() / 3.0).floor() as i32 * 3,
        };
        let known = PREFIXES.iter().rev().find(|(its, _)| *its <= power);
        let (power, prefix) = *known.unwrap_or(&PREFIXES[0]);
        Axis {
            from,
            to,
            prefix,
            unit: 10f64.powi(power),
        }
    }

    /// A number at the axis: as many digits as tell it from its neighbours.
    fn label(&self, value: f64) -> String {
        let step = (self.to - self.from) / self.unit / 100.0;
        let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        let text = format!("{:.digits$}", value / self.unit);
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => &text,
        };
        match text {
            "0" | "-0" => "0".to_owned(),
            text => format!("{text}{}", self.prefix),
        }
    }

    /// How many pixels the widest of some labels has, at most.
    fn width(&self, count: usize) -> u32 {
        let points = plotters::coord::types::RangedCoordf64::from(self.from..self.to);
        let labels = points
            .key_points(count)
            .into_iter()
            .map(|at| self.label(at));
        let longest = labels.map(|label| label.chars().count()).max();
        // No digit of a usual font is wider than two thirds of its height.
        longest.unwrap_or(1) as u32 * LETTERS * 2 / 3
    }
}

fn draw(
    lines: &[Line],
    arguments: &Arguments,
    x: &str,
    area: &DrawingArea<SVGBackend<'_>, Shift>,
) -> Result<(), Box<dyn std::error::Error>> {
    let all = lines.iter().flat_map(|line| line.points.iter());
    let (left, right) = range(all.clone().map(|p| p.0));
    let (low, high) = range(all.map(|p| p.1));
    // Quantities are seen against zero, with some room beyond them.
    let room = (high.max(0.0) - low.min(0.0)) * 0.05;
    let bottom = if low < 0.0 { low - room } else { 0.0 };
    let top = if high > 0.0 { high + room } else { 0.0 };
    let (across, up) = (Axis::new(left, right), Axis::new(bottom, top));
    let (columns, rows) = (
        arguments.size.0 as usize / 90 + 1,
        arguments.size.1 as usize / 40 + 1,
    );
    let what = match x {
        TIME => "time (s)",
        x => x,
    };
    let beside = if arguments.unit.is_empty() {
        0
    } else {
        2 * LETTERS
    };
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(&arguments.title, ("sans-serif", 18))
        .margin(LETTERS)
        .margin_right(LETTERS + across.width(columns) / 2)
        .x_label_area_size(3 * LETTERS)
        .y_label_area_size(up.width(rows) + LETTERS + beside)
        .build_cartesian_2d(left..right, bottom..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", LETTERS))
        .x_labels(columns)
        .y_labels(rows)
        .x_label_formatter(&|at| across.label(*at))
        .y_label_formatter(&|at| up.label(*at))
        .x_desc(what)
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

/// A file whose ending does not promise another kind of picture.
fn svg(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(ending) if ending != "svg" => Err(format!(
            "vink plot draws SVG: write {}, and convert that (rsvg-convert, inkscape)",
            path.with_extension("svg").display()
        )),
        _ => Ok(path),
    }
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
        let table = vink_timeseries::read(Format::Csv, text.as_bytes());
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
    fn pictures_are_svg() {
        assert_eq!(svg("a/b.svg"), Ok(PathBuf::from("a/b.svg")));
        assert!(svg("/dev/stdout").is_ok());
        assert!(svg("b.png").unwrap_err().contains("write b.svg"));
    }

    #[test]
    fn labels() {
        for (from, to, value, label) in [
            (0.0, 10.0, 2.5, "2.5"),
            (0.0, 10.0, -0.0, "0"),
            (0.0, 9_000.0, 4_000.0, "4000"),
            (0.0, 20_000.0, 15_000.0, "15k"),
            (0.0, 3e6, 2.5e6, "2.5M"),
            (0.0, 3.2e9, 3e9, "3G"),
            (-2e6, 1e6, -1.5e6, "-1.5M"),
            (0.0, 0.5, 0.25, "0.25"),
            (0.0, 0.002, 0.0015, "1.5m"),
            (0.0, 4e-7, 2e-7, "200n"),
            (1e6, 1e6 + 1.0, 1_000_000.5, "1.0000005M"),
            (0.0, 1e20, 5e19, "50000000T"),
        ] {
            assert_eq!(Axis::new(from, to).label(value), label, "{from} to {to}");
        }
        // Room for all of them, however long they are.
        assert!(Axis::new(-9.5e6, 0.0).width(10) >= "-8M".len() as u32 * 7);
    }

    #[test]
    fn times_begin_at_0() {
        let mut lines = read("time,a\n7887.5,1\n7888.5,2\n", None, &[]).unwrap();
        from_the_start(&mut lines);
        assert_eq!(lines[0].points, [(0.0, 1.0), (1.0, 2.0)]);
    }

    #[test]
    fn steps_hold() {
        let steps = steps(&[(0.0, 1.0), (2.0, 3.0)]);
        assert_eq!(steps, [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0)]);
    }
}
