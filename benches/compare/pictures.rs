//! The results as pictures, in SVG: bars, distributions, lines.

use std::error::Error;

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::rounds::Plan;
use crate::stats::{Spread, percentile};

/// Bars that share a scale, each with its name.
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) bars: Vec<(String, f64)>,
}

/// Single measurements, in order.
pub(crate) struct Curve {
    pub(crate) name: String,
    /// Its place among the colours.
    pub(crate) colour: usize,
    pub(crate) values: Vec<f64>,
}

/// A measure that depends on a number.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, Spread)>,
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

const WIDTH: u32 = 860;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 44, 52);
const FAINT: RGBColor = RGBColor(208, 212, 218);
/// The first is Redislock's; told apart by people who see colours differently, too.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(120, 120, 120),
    RGBColor(86, 180, 233),
];

fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}

/// Draws a picture into the folder for results, under its title.
fn draw(plan: &Plan, name: &str, title: &str, height: u32, body: impl FnOnce(&Canvas<'_>) -> Drawn) {
    let path = plan.folder.join(name).with_extension("svg");
    let drawn = || -> Drawn {
        let canvas = SVGBackend::new(&path, (WIDTH, height)).into_drawing_area();
        canvas.fill(&WHITE)?;
        let style = (FONT, 17).into_font().color(&INK);
        body(&canvas.titled(&format!("{title} ({})", plan.caption), style)?.margin(4, 8, 12, 16))?;
        canvas.present()?;
        Ok(())
    };
    drawn().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Each group in its own scale.
pub(crate) fn bars(plan: &Plan, name: &str, title: &str, groups: &[Group]) {
    const BAR: i32 = 26;
    const HEAD: i32 = 30;
    const LABELS: i32 = 300;
    let rows: usize = groups.iter().map(|group| group.bars.len()).sum();
    let height = 50 + BAR * rows as i32 + HEAD * groups.len() as i32;
    draw(plan, name, title, height.unsigned_abs(), |canvas| {
        let text = |size: i32| (FONT, size).into_font().color(&INK);
        let space = f64::from(WIDTH.cast_signed() - LABELS - 110);
        let mut y = 4;
        for group in groups {
            let heading = text(14).pos(Pos::new(HPos::Left, VPos::Center));
            canvas.draw(&Text::new(group.title.clone(), (4, y + HEAD / 2), heading))?;
            y += HEAD;
            let longest = group.bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
            for (place, (name, value)) in group.bars.iter().enumerate() {
                let end = LABELS + (space * value / longest) as i32;
                let middle = y + BAR / 2;
                let right = text(13).pos(Pos::new(HPos::Right, VPos::Center));
                canvas.draw(&Text::new(name.clone(), (LABELS - 8, middle), right))?;
                let fill = if place == 0 { colour(0) } else { colour(4) };
                canvas.draw(&Rectangle::new([(LABELS, y + 4), (end, y + BAR - 4)], fill.filled()))?;
                let left = text(13).pos(Pos::new(HPos::Left, VPos::Center));
                canvas.draw(&Text::new(Spread::one(*value).to_string(), (end + 6, middle), left))?;
                y += BAR;
            }
        }
        Ok(())
    });
}

/// How many of a hundred are at most so long.
pub(crate) fn distributions(plan: &Plan, name: &str, title: &str, unit: &str, curves: &[Curve]) {
    let ends = |of: fn(f64, f64) -> f64, percent| {
        curves.iter().map(|curve| percentile(&curve.values, percent)).reduce(of).expect("a curve")
    };
    let (low, high) = (ends(f64::min, 0.0).max(0.01), ends(f64::max, 100.0));
    draw(plan, name, title, 420, |canvas| {
        let mut chart = ChartBuilder::on(canvas)
            .x_label_area_size(42)
            .y_label_area_size(52)
            .build_cartesian_2d((low * 0.8..high * 1.2).log_scale(), 0.0..100.0)?;
        mesh(&mut chart, unit, "% within this time", true)?;
        for curve in curves {
            let points = (0..=400).map(|step| {
                let percent = f64::from(step) / 4.0;
                (percentile(&curve.values, percent).max(low), percent)
            });
            line(&mut chart, &curve.name, curve.colour, 0, points)?;
        }
        legend(&mut chart, SeriesLabelPosition::LowerRight)
    });
}

/// A measure against a number that grows tenfold at each step, by orders of magnitude, at least two of them; the bars go from
/// the least to the most of the rounds.
pub(crate) fn lines(plan: &Plan, name: &str, title: &str, of: &str, unit: &str, lines: &[Line]) {
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = points().map(|(_, spread)| spread.max).fold(0.0, f64::max);
    let least = points().map(|(_, spread)| spread.min).fold(most / 100.0, f64::min);
    let (first, last) =
        points().fold((f64::MAX, 0.0_f64), |(first, last), (x, _)| (first.min(*x), last.max(*x)));
    draw(plan, name, title, 380, |canvas| {
        let mut chart =
            ChartBuilder::on(canvas).x_label_area_size(42).y_label_area_size(70).build_cartesian_2d(
                (first * 0.8..last * 1.25).log_scale(),
                (least * 0.8..most * 4.0).log_scale(),
            )?;
        mesh(&mut chart, of, unit, false)?;
        for (place, Line { name, points }) in lines.iter().enumerate() {
            let medians = points.iter().map(|(x, spread)| (*x, spread.median));
            line(&mut chart, name, place, 3, medians)?;
            chart.draw_series(points.iter().map(|(x, spread)| {
                PathElement::new([(*x, spread.min), (*x, spread.max)], colour(place).stroke_width(1))
            }))?;
        }
        legend(&mut chart, SeriesLabelPosition::UpperLeft)
    });
}

type Chart<'a, X, Y> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>;

fn mesh<'a, X, Y>(chart: &mut Chart<'a, X, Y>, x: &str, y: &str, lines_of_x: bool) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut mesh = chart.configure_mesh();
    if !lines_of_x {
        mesh.disable_x_mesh();
    }
    mesh.bold_line_style(FAINT)
        .light_line_style(FAINT.mix(0.3))
        .max_light_lines(2)
        .axis_style(INK)
        .label_style((FONT, 13).into_font().color(&INK))
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .x_desc(x)
        .y_desc(y)
        .draw()?;
    Ok(())
}

/// A line with its place in the legend, and with points of that size.
fn line<'a, X, Y>(
    chart: &mut Chart<'a, X, Y>,
    name: &str,
    place: usize,
    points: u32,
    values: impl Iterator<Item = (f64, f64)>,
) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    let style = colour(place).stroke_width(2);
    chart
        .draw_series(LineSeries::new(values, style).point_size(points))?
        .label(name)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    Ok(())
}

fn legend<'a, C: CoordTranslate>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, C>,
    position: SeriesLabelPosition,
) -> Drawn {
    chart
        .configure_series_labels()
        .position(position)
        .margin(10)
        .background_style(WHITE.mix(0.85))
        .border_style(FAINT)
        .label_font((FONT, 13).into_font().color(&INK))
        .draw()?;
    Ok(())
}

/// A number on an axis: "0.1", "20", "1,000".
pub(crate) fn short(value: f64) -> String {
    if value < 1.0 {
        return format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').into();
    }
    let digits = format!("{value:.0}");
    let threes: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    threes.join(",")
}
