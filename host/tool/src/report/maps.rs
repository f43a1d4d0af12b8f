//! Maps of the four layers, seen along the beam: hits, their charge, and what is dead or hot.

use chart_page::{Areas, Chart, Page, Shading, Sign};

use super::names::{LAYERS, lane, lanes_of_sectors, mounted, short};
use super::run::Run;
use crate::detector::Detector;
use ut_data::detector::{LANES_PER_BOARD, N_LAYERS, N_SECTORS, sectors_of_layer};
use ut_report::{OutlierKind, SectorShape, mean_charge, shapes};

/// Height of a map, CSS pixels.
const HEIGHT: u32 = 470;

/// What is drawn of a sector.
pub struct MapOf<'a> {
    /// Of the file, and for those who hear it.
    pub name: String,
    pub unit: &'static str,
    pub shading: Shading,
    pub range: Option<(f64, f64)>,
    /// By sector.
    pub values: Vec<f64>,
    /// By sector: lines below the sector's name.
    pub hover: &'a dyn Fn(usize) -> String,
    /// Groups of sectors that stand out.
    pub marks: Vec<(String, Sign, Vec<usize>)>,
}

/// What maps need of the detector.
pub struct Drawing {
    shapes: Vec<SectorShape>,
}

impl Drawing {
    /// Also names the sectors on the page.
    pub fn new(page: &mut Page, detector: &Detector) -> Self {
        let tables = &detector.tables;
        let lanes = lanes_of_sectors(tables);
        let name = |sector: usize| match &lanes[sector][..] {
            [] => format!("sector {sector}, which no lane reads"),
            slots => {
                let lanes: Vec<String> = slots.iter().map(|&slot| lane(slot)).collect();
                format!("{}\n{}", mounted(&tables.boards().lanes[slots[0]]), lanes.join(", "))
            }
        };
        page.name_keys((0..N_SECTORS).map(|sector| (sector as u64, name(sector))));
        Self { shapes: shapes(tables) }
    }

    /// The four layers.
    pub fn charts(&self, map: &MapOf<'_>) -> Vec<Chart> {
        let range = map.range.or_else(|| ends(&map.values, map.shading));
        let chart = |layer: usize| {
            let of_layer = sectors_of_layer(layer);
            let corners = |sector: usize| {
                let corner = |&(x, y): &(f32, f32)| (f64::from(x), f64::from(y));
                self.shapes[sector].corners.iter().map(corner).collect::<Vec<_>>()
            };
            let marks = map.marks.iter().map(|(name, sign, which)| {
                let here = which.iter().filter(|sector| of_layer.contains(sector));
                (name.clone(), *sign, here.map(|sector| sector - of_layer.start).collect::<Vec<_>>())
            });
            let areas = Areas {
                outlines: of_layer.clone().map(corners).collect(),
                values: map.values[of_layer.clone()].to_vec(),
                hover: of_layer.clone().map(map.hover).collect(),
                unit: map.unit.to_owned(),
                shading: map.shading,
                range,
                marks: marks.filter(|(_, _, which)| !which.is_empty()).collect(),
                keys: of_layer.clone().map(|sector| sector as u64).collect(),
            };
            let description = format!("Map of layer {}: {}, {}", LAYERS[layer], map.name, map.unit);
            Chart::new(&format!("{} {}", map.name, LAYERS[layer]), "x, mm", "y, mm")
                .title(LAYERS[layer])
                .describe(&description)
                .height(HEIGHT)
                .areas(areas)
        };
        (0..N_LAYERS).map(chart).collect()
    }
}

/// The ends of the colours for all layers together.
fn ends(values: &[f64], shading: Shading) -> Option<(f64, f64)> {
    let values =
        values.iter().copied().filter(|value| value.is_finite() && (*value > 0.0 || shading == Shading::Linear));
    let (low, high) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max));
    (low <= high).then_some((low, high))
}

/// Sectors of which some lane stands out in one way.
fn marked(run: &Run<'_>, kind: OutlierKind) -> Vec<usize> {
    let of_kind = run.verdicts.outliers.iter().filter(|outlier| outlier.kind == kind);
    let mut sectors: Vec<usize> = of_kind.filter_map(|outlier| outlier.sector).collect();
    sectors.sort_unstable();
    sectors.dedup();
    sectors
}

/// The sections with maps.
pub fn sections(page: &mut Page, detector: &Detector, runs: &[&Run<'_>]) {
    let drawing = Drawing::new(page, detector);
    let of = |run: &Run<'_>| if runs.len() > 1 { format!(" of {}", run.name) } else { String::new() };
    let per_event = |run: &Run<'_>| -> Vec<f64> {
        let view = &run.gathered.view;
        (0..N_SECTORS).map(|s| view.hits_of_sector(s) as f64 / view.events.max(1) as f64).collect()
    };
    let both: Vec<f64> = runs.iter().flat_map(|run| per_event(run)).collect();
    let range = ends(&both, Shading::Log);
    for run in runs {
        let view = &run.gathered.view;
        page.heading(&format!("Hits of each sector{}", of(run)));
        let values = per_event(run);
        let hover = |s: usize| format!("{} hits, {} an event", view.hits_of_sector(s), short(values[s]));
        page.large_charts(&drawing.charts(&MapOf {
            name: format!("hits{}", of(run)),
            unit: "hits an event",
            shading: Shading::Log,
            range,
            values: values.clone(),
            hover: &hover,
            marks: Vec::new(),
        }));
        page.note("x and y as in the geometry, the strips' true lengths and widths; grey: no hit. The colours are logarithmic, the same for all layers.");
    }
    for run in runs {
        let view = &run.gathered.view;
        page.heading(&format!("Dead, quiet and hot sectors{}", of(run)));
        let expected = &run.verdicts.expected;
        let ratio = |s: usize| match expected[s] {
            Some(expected) if expected > 0.0 => view.hits_of_sector(s) as f64 / expected,
            _ => f64::NAN,
        };
        let values = (0..N_SECTORS).map(ratio).collect();
        let hover = |s: usize| match expected[s] {
            Some(expected) => format!(
                "{} hits, {} expected{}",
                view.hits_of_sector(s),
                short(expected),
                if run.verdicts.judged[s] { "" } else { "\ntoo few to tell a dead lane from chance" }
            ),
            None => "nothing to compare with".to_owned(),
        };
        page.large_charts(&drawing.charts(&MapOf {
            name: format!("hits to expectation{}", of(run)),
            unit: "hits / expected",
            shading: Shading::Ratio,
            range: Some((0.25, 4.0)),
            values,
            hover: &hover,
            marks: vec![
                ("dead".to_owned(), Sign::Cross, marked(run, OutlierKind::DeadLane)),
                ("quiet".to_owned(), Sign::Down, marked(run, OutlierKind::QuietLane)),
                ("hot".to_owned(), Sign::Up, marked(run, OutlierKind::HotLane)),
                ("hot strip".to_owned(), Sign::Circle, marked(run, OutlierKind::HotStrip)),
            ],
        }));
        page.note("Blue: fewer hits than at the mirrored places of the detector; red: more. Signs mark what the rules above call dead, quiet or hot.");
    }
    for run in runs {
        let view = &run.gathered.view;
        page.heading(&format!("Mean charge of each sector{}", of(run)));
        if view.clusters == 0 {
            page.text("These banks do not say the charge of a hit.");
            continue;
        }
        let charge: Vec<(f64, f64)> = (0..N_SECTORS).map(|sector| mean_charge(view, sector)).collect();
        let hover = |s: usize| {
            format!("mean charge {} ± {} ADC, {} hits", short(charge[s].0), short(charge[s].1), view.hits_of_sector(s))
        };
        // A few hits say little, and must not stretch the colours; nor must chance fill them where all are alike.
        let mut known: Vec<f64> =
            charge.iter().filter(|(mean, error)| *error < 0.2 * mean).map(|(mean, _)| *mean).collect();
        known.sort_by(f64::total_cmp);
        let range = known.get(known.len() / 2).map(|middle| {
            let (low, high) = (known[known.len() / 100], known[known.len() - 1 - known.len() / 100]);
            (low.min(0.8 * middle), high.max(1.2 * middle))
        });
        page.large_charts(&drawing.charts(&MapOf {
            name: format!("mean charge{}", of(run)),
            unit: "mean ΣADC of a cluster",
            shading: Shading::Linear,
            range,
            values: charge.iter().map(|(mean, _)| *mean).collect(),
            hover: &hover,
            marks: Vec::new(),
        }));
        page.note("ΣADC of a hit's strips. The colours reach a fifth to either side of the middle at least; beyond, they leave out one sector in a hundred on either side, and those with few hits.");
    }
}

/// All sectors in a table.
pub fn table(page: &mut Page, detector: &Detector, runs: &[&Run<'_>]) {
    let tables = &detector.tables;
    let lanes = lanes_of_sectors(tables);
    for run in runs {
        let view = &run.gathered.view;
        let of = if runs.len() > 1 { format!(" of {}", run.name) } else { String::new() };
        page.begin_details(&format!("All sectors{of}, as a table"));
        let head = [
            "layer",
            "side",
            "stave",
            "face",
            "module",
            "sector",
            "boards and lanes",
            "hits",
            "an event",
            "by expected",
            "mean charge",
            "mean size",
            "remark",
        ]
        .map(str::to_owned);
        let rows = (0..N_SECTORS).map(|s| {
            let hits = view.hits_of_sector(s);
            let mut row = match lanes[s].first().map(|&slot| tables.boards().lanes[slot]) {
                Some(lane) => vec![
                    LAYERS[lane.layer as usize % N_LAYERS].to_owned(),
                    if lane.side == 1 { "A" } else { "C" }.to_owned(),
                    lane.stave.to_string(),
                    lane.face.to_string(),
                    lane.module.to_string(),
                    lane.sector.to_string(),
                ],
                None => vec![String::new(); 6],
            };
            let slots = lanes[s].iter().map(|slot| format!("{}.{}", slot / LANES_PER_BOARD, slot % LANES_PER_BOARD));
            let ratio = run.verdicts.expected[s].filter(|e| *e > 0.0).map_or(f64::NAN, |e| hits as f64 / e);
            let size = if view.clusters > 0 && hits > 0 { view.sizes[s] as f64 / hits as f64 } else { f64::NAN };
            let mut remarks: Vec<&str> =
                run.verdicts.outliers.iter().filter(|o| o.sector == Some(s)).map(|o| o.kind.name()).collect();
            remarks.dedup();
            row.extend([
                slots.collect::<Vec<_>>().join(", "),
                hits.to_string(),
                short(hits as f64 / view.events.max(1) as f64),
                short(ratio),
                short(mean_charge(view, s).0),
                short(size),
                remarks.join(", "),
            ]);
            (!remarks.is_empty(), row)
        });
        page.named_table(&format!("All sectors{of}"), &head, rows);
        page.end_details();
    }
}
