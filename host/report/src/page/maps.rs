//! Maps of the four layers, seen along the beam: hits, charge, dead and hot sectors.

use chart_page::{Areas, Chart, Page, Shading, Sign};

use super::Run;
use super::names::{LAYERS, lane, lanes_of_sectors, sector, short};
use crate::{
    CHIP, Difference, MARKED, Outlier, OutlierKind, OutlierPart, SectorShape, mean_charge, shapes,
};
use ut_data::DetectorTables;
use ut_data::detector::{N_LAYERS, N_SECTORS, STRIPS_PER_SECTOR, sectors_of_layer};

/// Heights of a map, alone and in a row of three, CSS pixels.
const HEIGHTS: (u32, u32) = (470, 330);

/// Largest factor from the middle value to the ends of the colours, even with a stray hit in a dead
/// sector.
const FAR: f64 = 10.0;

const SEEN: &str = "Seen along the beam, as particles fly: +x, the A side, is on the left. Strips have their true lengths and \
                    widths; grey: none.";

struct MapOf {
    /// Name of the file, also for screen readers.
    name: String,
    /// Title after the layer's name.
    title: String,
    unit: &'static str,
    shading: Shading,
    range: Option<(f64, f64)>,
    /// Values by sector, or by chip.
    values: Vec<f64>,
    /// Lines below the sector's name, as the values; empty for the value.
    hover: Vec<String>,
    /// Groups of sectors that stand out.
    marks: Vec<(String, Sign, Vec<usize>)>,
}

/// Names the sectors on the page, with the board and lane that read them.
pub fn name_sectors(page: &mut Page, tables: &DetectorTables) {
    let lanes = lanes_of_sectors(tables);
    let name = |(number, slots): (usize, &Vec<usize>)| {
        let boards: Vec<String> = slots.iter().map(|&slot| lane(slot)).collect();
        format!("{}\n{}", sector(number, slots, tables), boards.join(", "))
    };
    page.name_keys((0..).zip(lanes.iter().enumerate().map(name)));
}

fn chart(map: &MapOf, shapes: &[SectorShape], layer: usize, height: u32) -> Chart {
    let of_layer = sectors_of_layer(layer);
    let parts = (map.values.len() / N_SECTORS).max(1);
    let values = of_layer.start * parts..of_layer.end * parts;
    let corners =
        |corners: [(f32, f32); 4]| corners.map(|(x, y)| (f64::from(x), f64::from(y))).to_vec();
    let outlines = shapes[of_layer.clone()]
        .iter()
        .flat_map(|shape| shape.parts(parts));
    let marks = map.marks.iter().map(|(name, sign, which)| {
        let here = which.iter().filter(|sector| of_layer.contains(sector));
        (
            name.clone(),
            *sign,
            here.map(|sector| sector - of_layer.start)
                .collect::<Vec<_>>(),
        )
    });
    let areas = Areas {
        outlines: outlines.map(corners).collect(),
        values: map.values[values.clone()].to_vec(),
        hover: map.hover.get(values).unwrap_or_default().to_vec(),
        unit: map.unit.to_owned(),
        shading: map.shading,
        range: map.range.or_else(|| range(&map.values, FAR)),
        marks: marks.filter(|(_, _, which)| !which.is_empty()).collect(),
        room: ends(shapes),
        first_key: of_layer.start as u64,
        parts: (parts > 1).then_some(("chip", parts)),
        sides: ["A side", "C side"],
    };
    Chart::new(&format!("{} {}", map.name, LAYERS[layer]), "x, mm", "y, mm")
        .title(&format!("{}{}", LAYERS[layer], map.title))
        .height(height)
        .areas(areas)
}

/// Returns the corners of what all layers need, so that all have one scale.
///
/// They are symmetric about the beam, so that it is in the middle of every map.
fn ends(shapes: &[SectorShape]) -> Vec<(f64, f64)> {
    let corners = shapes
        .iter()
        .flat_map(|shape| shape.corners)
        .map(|(x, y)| (f64::from(x), f64::from(y)));
    let far = corners.fold((0.0, 0.0), |(x, y): (f64, f64), corner| {
        (x.max(corner.0.abs()), y.max(corner.1.abs()))
    });
    vec![(-far.0, -far.1), far]
}

/// Returns the ends of 98 % of the values, at most a factor `far` from the middle one.
///
/// Of 1048 values the ten lowest and the ten highest do not count: one hot sector would otherwise
/// make all others look alike. The limit `far` is for the other case, many values far from the
/// middle.
fn range(values: &[f64], far: f64) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = values
        .iter()
        .copied()
        .filter(|value| value.is_finite() && *value > 0.0)
        .collect();
    values.sort_by(f64::total_cmp);
    let (n, middle) = (values.len(), *values.get(values.len() / 2)?);
    Some((
        values[n / 100].max(middle / far),
        values[n - 1 - n / 100].min(middle * far),
    ))
}

/// Returns the sectors with an outlier, by kind.
fn marks(run: &Run<'_>) -> Vec<(String, Sign, Vec<usize>)> {
    let tables = &run.sums.detector.tables;
    let marked = |name: &str, sign, is: &dyn Fn(&Outlier) -> bool| {
        let of_kind = run.verdicts.outliers.iter().filter(|outlier| is(outlier));
        let mut sectors: Vec<usize> = of_kind
            .flat_map(|outlier| outlier.sectors(tables))
            .collect();
        sectors.sort_unstable();
        sectors.dedup();
        (name.to_owned(), sign, sectors)
    };
    let is_strip = |of: &Outlier| of.part == OutlierPart::Strip;
    let dead =
        |of: &Outlier| matches!(of.kind, OutlierKind::Dead | OutlierKind::Silent) && !is_strip(of);
    vec![
        marked("dead", Sign::Cross, &dead),
        marked("quiet", Sign::Down, &|of| of.kind == OutlierKind::Quiet),
        marked("hot", Sign::Up, &|of| {
            matches!(of.kind, OutlierKind::Hot | OutlierKind::Noisy) && !is_strip(of)
        }),
        marked("hot strip", Sign::Circle, &|of| {
            of.kind == OutlierKind::Hot && is_strip(of)
        }),
    ]
}

/// Maps the hits per event of each `strips` strips.
fn hits(run: &Run<'_>, strips: usize) -> MapOf {
    let view = &run.sums.view;
    let rate = |of: &[u64]| of.iter().sum::<u64>() as f64 / view.events.max(1) as f64;
    let values = view.strips.chunks(strips).map(rate).collect();
    let (name, title) = (format!("hits{}", run.of("of")), String::new());
    MapOf {
        name,
        title,
        unit: "hits per event",
        shading: Shading::Log,
        range: None,
        values,
        hover: Vec::new(),
        marks: Vec::new(),
    }
}

fn charge(run: &Run<'_>) -> MapOf {
    let view = &run.sums.view;
    let charge: Vec<(f64, f64)> = (0..N_SECTORS)
        .map(|sector| mean_charge(view, sector))
        .collect();
    let hover = |s: usize| {
        let (mean, error) = charge[s];
        let error = if error.is_finite() {
            format!(" ± {}", short(error))
        } else {
            String::new()
        };
        format!(
            "mean charge {}{error} ADC, {} hits",
            short(mean),
            view.hits_of_sector(s)
        )
    };
    let hover = (0..N_SECTORS).map(hover).collect();
    MapOf {
        name: format!("mean charge{}", run.of("of")),
        title: String::new(),
        unit: "mean ΣADC of a cluster",
        shading: Shading::Linear,
        range: charge_range(&charge),
        values: charge.iter().map(|(mean, _)| *mean).collect(),
        hover,
        marks: Vec::new(),
    }
}

/// Returns the ends of the colours: few hits must not stretch them, nor chance fill them where
/// sectors are alike.
fn charge_range(charge: &[(f64, f64)]) -> Option<(f64, f64)> {
    let known: Vec<f64> = charge
        .iter()
        .filter(|(mean, error)| *error < 0.2 * mean)
        .map(|(mean, _)| *mean)
        .collect();
    let ((low, high), (middle, _)) = (range(&known, FAR)?, range(&known, 1.0)?);
    Some((low.min(0.8 * middle), high.max(1.2 * middle)))
}

pub fn sections(page: &mut Page, tables: &DetectorTables, run: &Run<'_>) {
    let (view, shapes) = (&run.sums.view, shapes(tables));
    let draw = |page: &mut Page, map: &MapOf| {
        page.large_charts(
            &(0..N_LAYERS)
                .map(|layer| chart(map, &shapes, layer, HEIGHTS.0))
                .collect::<Vec<_>>(),
        );
    };
    page.heading("Hits of each chip");
    draw(page, &hits(run, CHIP));
    page.note(&format!(
        "{SEEN} The colours are logarithmic, the same for all layers; they end at {FAR} times the \
         median chip's hits."
    ));
    page.heading("Dead, quiet and hot sectors");
    let expected = &run.verdicts.expected;
    let ratio = |s: usize| match expected[s] {
        Some(expected) if expected > 0.0 => view.hits_of_sector(s) as f64 / expected,
        _ => f64::NAN,
    };
    let hover = |s: usize| match expected[s] {
        Some(expected) => format!(
            "{} hits, {} expected{}",
            view.hits_of_sector(s),
            short(expected),
            if run.verdicts.judged[s] {
                ""
            } else {
                "\ntoo few to tell a dead lane from chance"
            }
        ),
        None => "nothing to compare with".to_owned(),
    };
    draw(
        page,
        &MapOf {
            name: "hits to expectation".to_owned(),
            title: String::new(),
            unit: "hits / expected",
            shading: Shading::Ratio,
            range: Some((0.25, 4.0)),
            values: (0..N_SECTORS).map(ratio).collect(),
            hover: (0..N_SECTORS).map(hover).collect(),
            marks: marks(run),
        },
    );
    page.note("Blue: fewer hits than at the mirrored places of the detector; red: more. Signs mark what the rules call dead, quiet or hot.");
    page.heading("Mean charge of each sector");
    if view.clusters == 0 {
        page.text("These banks do not say the charge of a hit.");
        return;
    }
    draw(page, &charge(run));
    page.note(
        "ΣADC of a hit's strips. The colours reach at least a fifth to either side of the \
        median, and far enough for all but one sector in a hundred on either side and sectors with \
        few hits.",
    );
}

/// Draws the maps of a run, of its reference, and of one by the other, side by side.
pub fn beside(
    page: &mut Page,
    tables: &DetectorTables,
    a: &Run<'_>,
    b: &Run<'_>,
    differences: &[Difference],
) {
    hits_beside(page, tables, [a, b], differences);
    charge_beside(page, tables, [a, b], differences);
}

/// Draws two maps and their ratio in rows of three.
fn in_threes((page, tables): (&mut Page, &DetectorTables), [a, b]: [MapOf; 2], ratio: MapOf) {
    let shapes = shapes(tables);
    let maps = [
        MapOf {
            title: ": A".to_owned(),
            ..a
        },
        MapOf {
            title: ": B".to_owned(),
            ..b
        },
        ratio,
    ];
    let layer = |layer: usize| maps.iter().map(move |map| (map, layer));
    let charts = (0..N_LAYERS)
        .flat_map(layer)
        .map(|(map, layer)| chart(map, &shapes, layer, HEIGHTS.1));
    page.charts_in_threes(&charts.collect::<Vec<_>>());
}

/// Returns a group of marked sectors.
fn marked(
    name: &str,
    sign: Sign,
    differences: &[Difference],
    pick: impl Fn(&Difference) -> bool,
) -> (String, Sign, Vec<usize>) {
    let picked = differences.iter().filter(|d| pick(d));
    (
        format!("{name}, {MARKED} σ"),
        sign,
        picked.map(|d| d.sector).collect(),
    )
}

fn hits_beside(
    page: &mut Page,
    tables: &DetectorTables,
    [a, b]: [&Run<'_>; 2],
    differences: &[Difference],
) {
    page.heading("Hits of each sector: A, B, and A by B");
    let both = [a, b].map(|run| hits(run, STRIPS_PER_SECTOR as usize));
    let common = range(
        &both
            .iter()
            .flat_map(|map| map.values.clone())
            .collect::<Vec<_>>(),
        FAR,
    );
    let [of_a, of_b] = both;
    let hover = |d: &Difference| {
        let [in_a, in_b] = d.hits.map(short);
        format!(
            "{in_a} and {in_b} hits per event\nA by B, as shares: {}, {} σ",
            short(d.ratio),
            short(d.sigmas)
        )
    };
    in_threes(
        (page, tables),
        [
            MapOf {
                range: common,
                marks: marks(a),
                ..of_a
            },
            MapOf {
                range: common,
                marks: marks(b),
                ..of_b
            },
        ],
        MapOf {
            name: "hits in A by B".to_owned(),
            title: ": A by B".to_owned(),
            unit: "share of the hits, A by B",
            shading: Shading::Ratio,
            range: Some((0.5, 2.0)),
            values: differences.iter().map(|d| d.ratio).collect(),
            hover: differences.iter().map(hover).collect(),
            marks: vec![
                marked("more", Sign::Up, differences, |d| {
                    d.is_marked() && d.sigmas > 0.0
                }),
                marked("fewer", Sign::Down, differences, |d| {
                    d.is_marked() && d.sigmas < 0.0
                }),
            ],
        },
    );
    page.note(&format!(
        "{SEEN} A by B: blue: fewer hits in A than in B, the reference; red: more; as shares: the median of all sectors is 1, \
         however much busier one run is. σ is the standard deviation of a sector's hits \
         from event to event."
    ));
}

fn charge_beside(
    page: &mut Page,
    tables: &DetectorTables,
    [a, b]: [&Run<'_>; 2],
    differences: &[Difference],
) {
    page.heading("Mean charge of each sector: A, B, and A by B");
    if a.sums.view.clusters == 0 && b.sums.view.clusters == 0 {
        page.text("These banks do not say the charge of a hit.");
        return;
    }
    let known = |run: &Run<'_>| {
        (0..N_SECTORS)
            .map(|s| mean_charge(&run.sums.view, s))
            .collect::<Vec<_>>()
    };
    let common = charge_range(&[known(a), known(b)].concat());
    let map = |run| MapOf {
        range: common,
        hover: Vec::new(),
        ..charge(run)
    };
    let hover = |d: &Difference| {
        let few = if d.charge_sigmas.is_finite() {
            format!("{} σ", short(d.charge_sigmas))
        } else {
            "too few hits".to_owned()
        };
        format!(
            "mean charge {} and {}, {few}",
            short(d.charge[0]),
            short(d.charge[1])
        )
    };
    let ratio = |d: &Difference| {
        if d.charge_sigmas.is_finite() {
            d.charge[0] / d.charge[1]
        } else {
            f64::NAN
        }
    };
    in_threes(
        (page, tables),
        [map(a), map(b)],
        MapOf {
            name: "mean charge in A by B".to_owned(),
            title: ": A by B".to_owned(),
            unit: "mean charge, A by B",
            shading: Shading::Ratio,
            range: Some((0.8, 1.25)),
            values: differences.iter().map(ratio).collect(),
            hover: differences.iter().map(hover).collect(),
            marks: vec![marked(
                "charge",
                Sign::Circle,
                differences,
                Difference::is_charge_marked,
            )],
        },
    );
    page.note("ΣADC of a hit's strips. A sector with few hits in one of the runs is not compared.");
}
