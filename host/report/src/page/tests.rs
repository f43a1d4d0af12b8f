//! The page of sums that are made up, so that every number, sign and word on it is known.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::names::{lanes_of_sectors, sector as sector_name, short, whole};
use super::{About, Drawing, Run, html, text};
use crate::{
    Against, CHIPS_PER_SECTOR, Detector, Difference, Gathered, N_CHIPS, Outlier, OutlierKind,
    OutlierPart as Part, RunView, Sums, TroubleSum, Verdicts, When, Window, chips_of_lanes,
    mean_charge, shapes,
};
use ut_data::detector::{BankVersion, Lane, N_SECTORS, sectors_of_layer};
use ut_data::hits::Repeats;
use ut_data::input::Seen;
use ut_data::{Count, DecodeOptions, DetectorTables, Grouping, synth};

const EVENTS: u64 = 100;

/// Sectors without a hit, with few hits, and read by no lane.
const EMPTY: usize = 300;
const FEW: usize = 301;
const UNREAD: usize = 700;

fn hits(sector: usize) -> u64 {
    match sector {
        EMPTY | UNREAD => 0,
        FEW => 3,
        _ => 100 + sector as u64 % 97,
    }
}

/// Charge of a sector and the sum of its squares: the mean is much the same, but for a few sectors
/// with a large error.
fn charge(sector: usize) -> (u64, u64) {
    let n = hits(sector);
    if sector % 80 == 7 {
        // The error of this mean is large: a few hits have 90 000.
        return (n * 900, 2 * n * 900 * 90_000);
    }
    let mean = 20 + sector as u64 % 5;
    (n * mean, n * mean * mean)
}

fn detector() -> Detector {
    let (mut boards, geometry) = synth::detector(BankVersion::V5, 1);
    let tables = DetectorTables::new(boards.clone(), geometry.clone(), Grouping::YRows).unwrap();
    for &slot in &lanes_of_sectors(&tables)[UNREAD] {
        boards.lanes[slot] = Lane::default();
    }
    let tables = DetectorTables::new(boards, geometry, Grouping::YRows).unwrap();
    let lanes = lanes_of_sectors(&tables);
    assert!(lanes[UNREAD].is_empty());
    assert!(
        lanes
            .iter()
            .flatten()
            .all(|&slot| tables.boards().lanes[slot] != Lane::default()),
        "no lane, no sector"
    );
    Detector {
        tables,
        boards: None,
        geometry: None,
    }
}

fn of_two_lanes(tables: &DetectorTables) -> (usize, [usize; 2]) {
    let lanes = lanes_of_sectors(tables);
    let sector = (500..N_SECTORS)
        .find(|&sector| lanes[sector].len() == 2)
        .unwrap();
    (sector, [lanes[sector][0], lanes[sector][1]])
}

fn view(tables: &DetectorTables) -> RunView {
    let mut view = RunView::new(tables, Against::Number);
    view.events = EVENTS;
    for sector in 0..N_SECTORS {
        view.strips[512 * sector + sector % 512] = hits(sector);
        (view.charge[sector], view.charge_squares[sector]) = charge(sector);
        view.hits += hits(sector);
    }
    view.clusters = view.hits;
    for (count, n) in [
        (Count::Strips, 4000),
        (Count::Banks, 2100),
        (Count::BadHeader, 7),
        (Count::UnconnectedHits, 30),
    ] {
        view.counts[count as usize] = n;
    }
    let trouble = |kind: Count, board, count, first| {
        ((kind as usize, Some(board)), TroubleSum { count, first })
    };
    view.troubles = [
        trouble(Count::BadHeader, 3, 6, 12),
        trouble(Count::BadHeader, 4, 1, 2),
        trouble(Count::UnconnectedHits, 5, 30, 41),
    ]
    .into();
    view.error_banks = [((68, 0x2801), 2), ((92, 0x2c02), 5)].into();
    view.runs = [(7, 60), (9, 40)].into();
    view
}

fn sums(detector: &Arc<Detector>, view: RunView) -> Sums {
    let files: Vec<PathBuf> = (0..22).map(|i| format!("f{i}.mdf").into()).collect();
    let gathered = Gathered {
        view,
        seen: Seen::default(),
        losses: BTreeMap::new(),
        repeats: Repeats::default(),
        failures: Vec::new(),
    };
    let mut sums = Sums::new(
        &files,
        Arc::clone(detector),
        DecodeOptions::default(),
        gathered,
    );
    sums.measured = 1;
    sums.failures.push("f3.mdf: truncated".to_owned());
    sums
}

fn outlier(kind: OutlierKind, slot: usize, tables: &DetectorTables) -> Outlier {
    let sector = usize::from(tables.slots()[slot].sector);
    Outlier::of_lane(kind, slot, sector, (12_345_678.0, 24.68), 6.7)
}

/// Makes verdicts on a dead lane (of `EMPTY`), two hot lanes of one sector, a hot strip in sector
/// 20, and a board that was silent.
fn verdicts(tables: &DetectorTables) -> Verdicts {
    let lanes = lanes_of_sectors(tables);
    let (_, two) = of_two_lanes(tables);
    let window = Window {
        numbers: (64, 127),
        times: Some((1_722_513_600_000_000, 1_722_513_601_500_000)),
    };
    let silent = Outlier {
        part: Part::Board,
        lane: None,
        sector: None,
        when: When::In(vec![window]),
        ..outlier(OutlierKind::Silent, lanes[40][0], tables)
    };
    let mut outliers = vec![silent, outlier(OutlierKind::Dead, lanes[EMPTY][0], tables)];
    outliers.extend(two.map(|slot| outlier(OutlierKind::Hot, slot, tables)));
    let strip = Outlier {
        part: Part::Strip,
        strips: Some((77, 77)),
        ..outlier(OutlierKind::Hot, lanes[20][0], tables)
    };
    outliers.push(strip);
    let mut expected: Vec<Option<f64>> = (0..N_SECTORS)
        .map(|sector| Some(hits(sector) as f64 / 2.0 + 40.0))
        .collect();
    (expected[UNREAD], expected[21]) = (None, Some(0.0));
    let judged = (0..N_SECTORS)
        .map(|sector| sector != FEW && sector != UNREAD)
        .collect();
    Verdicts {
        outliers,
        expected,
        judged,
        known: Vec::new(),
        spread: [0.05, 0.08],
    }
}

fn html_of(sums: &Sums, verdicts: &Verdicts) -> String {
    let run = Run {
        name: "f0.mdf".to_owned(),
        letter: "",
        sums,
        verdicts,
    };
    html(
        &Drawing {
            run,
            reference: None,
        },
        &About::default(),
    )
}

fn charts(html: &str) -> Vec<Value> {
    let data = html
        .split("<script type=\"application/json\" id=\"data-")
        .skip(1);
    let text = data.map(|part| {
        part.split_once('>')
            .unwrap()
            .1
            .split("</script>")
            .next()
            .unwrap()
    });
    text.map(|text| serde_json::from_str(text).unwrap())
        .collect()
}

/// Returns the number of each sector from the four maps, or `None` if it has none. Checks that each
/// sector is at its place.
fn by_sector(maps: &[Value], tables: &DetectorTables) -> Vec<Option<f64>> {
    by_area(maps, tables, 1)
}

/// The number of each of the `n` parts of each sector.
fn by_area(maps: &[Value], tables: &DetectorTables, n: usize) -> Vec<Option<f64>> {
    let shapes = shapes(tables);
    let mut numbers = Vec::new();
    for (layer, map) in maps.iter().enumerate() {
        let sectors: Vec<usize> = sectors_of_layer(layer).collect();
        assert_eq!(map["map"]["key"], json!(sectors[0]));
        let corners = sectors.iter().flat_map(|&sector| shapes[sector].parts(n));
        for (i, corners) in corners.enumerate() {
            let sector = sectors[i / n];
            let x = corners
                .iter()
                .map(|corner| f64::from(corner.0))
                .sum::<f64>()
                / corners.len() as f64;
            assert!(
                (map["map"]["at"][i][0].as_f64().unwrap() - x).abs() < 0.51,
                "{sector}"
            );
            numbers.push(map["map"]["values"][i].as_f64());
        }
    }
    numbers
}

fn marked(maps: &[Value], name: &str) -> Vec<usize> {
    let of_layer = |(layer, map): (usize, &Value)| {
        let marks = map["map"]["marks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|mark| mark["name"] == name);
        let which = marks.flat_map(|mark| mark["which"].as_array().unwrap());
        which
            .map(|i| sectors_of_layer(layer).start + i.as_u64().unwrap() as usize)
            .collect::<Vec<_>>()
    };
    maps.iter().enumerate().flat_map(of_layer).collect()
}

/// Returns the rows of the table with this name: true if the row stands out, and its cells.
fn rows(html: &str, name: &str) -> Vec<(bool, Vec<String>)> {
    let table = html
        .split(&format!("aria-label=\"{name}\""))
        .nth(1)
        .unwrap_or_else(|| panic!("{name}"));
    let body = table
        .split("<tbody>")
        .nth(1)
        .unwrap()
        .split("</tbody>")
        .next()
        .unwrap();
    let row = |row: &str| {
        let cells = row
            .split("<td")
            .skip(1)
            .map(|cell| cell.split_once('>').unwrap().1.split('<').next().unwrap());
        (
            row.starts_with(" class=\"marked\""),
            cells.map(str::to_owned).collect(),
        )
    };
    body.split("<tr").skip(1).map(row).collect()
}

#[test]
fn maps_show_every_sector_and_mark_outliers() {
    let detector = Arc::new(detector());
    let tables = &detector.tables;
    let sums = sums(&detector, view(tables));
    let verdicts = verdicts(tables);
    let html = html_of(&sums, &verdicts);
    let charts = charts(&html);
    // Maps have four digits.
    let near = |a: f64, b: f64| (a - b).abs() <= 5e-4 * b.abs();
    let ends = |map: &Value, low: f64, high: f64| {
        let [from, to] = [0, 1].map(|end| map["map"]["ends"][end].as_f64().unwrap());
        assert!(near(from, low) && near(to, high), "{from} {to}");
    };

    // Particles that fly along the beam see the A side on the left.
    assert_eq!(
        (
            html.matches("← A side").count(),
            html.matches("C side →").count()
        ),
        (12, 12)
    );
    let lanes = &tables.boards().lanes;
    let a = lanes
        .iter()
        .position(|lane| lane.is_connected() && lane.side == 1 && lane.stave == 4)
        .unwrap();
    assert!(
        shapes(tables)[usize::from(tables.slots()[a].sector)]
            .middle()
            .0
            > 0.0
    );
    for map in &charts[..12] {
        let [left, right] = [0, 1].map(|end| map["frames"][0][1][end].as_f64().unwrap());
        assert!(left > 700.0 && right < -700.0, "x from {left} to {right}");
    }

    let maps = &charts[..4];
    for (chip, number) in by_area(maps, tables, CHIPS_PER_SECTOR).iter().enumerate() {
        let sector = chip / CHIPS_PER_SECTOR;
        // All hits of a sector are on one strip.
        let n = if chip % CHIPS_PER_SECTOR == sector % 512 / 128 {
            hits(sector)
        } else {
            0
        };
        assert!(near(number.unwrap(), n as f64 / EVENTS as f64), "{chip}");
    }
    // The three hits of one sector do not stretch the colours.
    for map in maps {
        ends(map, 1.0f64.log10(), 1.95f64.log10());
    }

    let maps = &charts[4..8];
    let numbers = by_sector(maps, tables);
    for (sector, number) in numbers.iter().enumerate() {
        let expected = verdicts.expected[sector].filter(|expected| *expected > 0.0);
        assert_eq!(number.is_some(), expected.is_some(), "{sector}");
        assert!(
            number.is_none_or(|number| near(number, hits(sector) as f64 / expected.unwrap())),
            "{sector}"
        );
    }
    let (two, _) = of_two_lanes(tables);
    // The silent board's sectors, too.
    let mut dead = [verdicts.outliers[0].sectors(tables), vec![EMPTY]].concat();
    dead.sort_unstable();
    for (name, sectors) in [
        ("dead", dead),
        ("hot", vec![two]),
        ("hot strip", vec![20]),
        ("quiet", vec![]),
    ] {
        assert_eq!(marked(maps, name), sectors, "{name}");
    }
    let hover = |sector: usize| {
        let layer = (0..4)
            .find(|&layer| sectors_of_layer(layer).contains(&sector))
            .unwrap();
        maps[layer]["map"]["hover"][sector - sectors_of_layer(layer).start]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(
        hover(FEW).contains("too few to tell") && !hover(20).contains("too few"),
        "{}",
        hover(20)
    );
    assert!(hover(UNREAD).contains("nothing to compare with"));
    // Sectors are named by what a mask takes.
    assert!(html.contains(&format!(
        "\"{UNREAD}\":\"sector {UNREAD} (which no lane reads)"
    )));
    let lane = lanes_of_sectors(tables)[20][0];
    let name = format!(
        "{}\\nboard {} lane {}",
        sector_name(20, &[lane], tables),
        lane / 6,
        lane % 6
    );
    assert!(
        html.contains(&format!("\"20\":\"{name}\"")) && name.starts_with("sector 20 (UTaX "),
        "{name}"
    );

    let maps = &charts[8..12];
    let numbers = by_sector(maps, tables);
    for (sector, number) in numbers.iter().enumerate() {
        assert_eq!(number.is_some(), hits(sector) > 0);
        assert!(
            number.is_none_or(|number| near(number, mean_charge(&sums.view, sector).0)),
            "{sector}"
        );
    }
    // A fifth to either side of 22; the sectors with 900, which are not well known, do not count.
    for map in maps {
        ends(map, 17.6, 26.4);
    }
}

#[test]
fn the_facts_and_troubles_come_from_the_sums() {
    let detector = Arc::new(detector());
    let tables = &detector.tables;
    let sums = sums(&detector, view(tables));
    let html = html_of(&sums, &verdicts(tables));
    let hits = sums.view.hits;
    for (name, value) in [
        ("runs", "7, 9".to_owned()),
        (
            "hits",
            format!("{}, {} per event", whole(hits), short(hits as f64 / 100.0)),
        ),
        ("strips read", "4,000, 40.0 per event".to_owned()),
        ("troubles", "7 bad_header, 30 unconnected_hits".to_owned()),
        ("error banks", "7".to_owned()),
    ] {
        assert!(
            html.contains(&format!("<dt>{name}</dt><dd>{value}</dd>")),
            "{name}"
        );
    }
    assert!(html.contains("f19.mdf and 2 more</dd>"));
    assert!(html.contains("<p>Incomplete: f3.mdf: truncated.</p>"));
    assert!(html.contains("1 of 1,047 sectors have so few hits expected"));
    let first = |table: &str, n: usize| {
        let rows = rows(&html, table).into_iter().map(|(_, mut cells)| {
            cells.truncate(n);
            cells
        });
        rows.collect::<Vec<_>>()
    };
    assert_eq!(
        first("Troubles", 4),
        [
            ["unconnected_hits", "30", "1", "41"],
            ["bad_header", "7", "2", "2"]
        ]
    );
    let by_board = [
        ["5", "unconnected_hits", "30", "41"],
        ["3", "bad_header", "6", "12"],
        ["4", "bad_header", "1", "2"],
    ];
    assert_eq!(first("Troubles by board", 4), by_board);
    let banks = rows(&html, "Error banks by board");
    assert_eq!(
        banks[0].1[1..],
        ["0x2c02", "DaqErrorFragmentMissing", "92", "5"]
    );
    assert_eq!(banks[1].1[1..], ["0x2801", "UTError", "68", "2"]);
    let standing_out = rows(&html, "What stands out");
    assert_eq!(standing_out.len(), 5);
    assert_eq!(
        standing_out[4].1[2..],
        ["throughout the run", "12,345,678", "24.7", "6.70"]
    );
    let when = "between events 64 and 127 (12:00:00.00 to 12:00:01.50)";
    assert_eq!(standing_out[0].1[0], "silent board");
    assert_eq!(standing_out[0].1[2], when);
    // The findings come before their provenance.
    assert!(
        html.find("What stands out") < html.find("Distributions")
            && html.contains("<summary>Files, tables and options")
    );
}

#[test]
fn distributions_are_shares_in_per_cent_and_have_gaps_where_there_is_nothing() {
    let detector = Arc::new(detector());
    let mut view = view(&detector.tables);
    (view.charge_of_layer[1][1], view.charge_of_layer[1][3]) = (30, 10);
    (view.size_of_layer[2][1], view.size_of_layer[2][2]) = (500, 1500);
    let (sums, verdicts) = (sums(&detector, view), verdicts(&detector.tables));
    let charts = charts(&html_of(&sums, &verdicts));
    let values = |title: &str, layer: usize| {
        let chart = charts.iter().find(|chart| chart["title"] == title).unwrap();
        chart["series"][layer]["y"].clone()
    };
    // An axis of logarithms has no 0.
    assert_eq!(values("Charge", 1), json!([null, 75.0, null, 25.0]));
    assert_eq!(values("Charge", 0), json!([null, null, null, null]));
    assert_eq!(values("Cluster size", 2), json!([25.0, 75.0, null]));
}

#[test]
fn pictures_against_the_event_number_have_the_rates_of_each_bin() {
    let detector = Arc::new(detector());
    let tables = &detector.tables;
    let mut view = view(tables);
    let slot = lanes_of_sectors(tables)[0][0];
    let chips = chips_of_lanes(tables);
    // Four events in each bin but the third, which is empty; the lane of the first layer falls
    // silent.
    for (number, hits) in [(40, 12), (41, 8), (43, 0)] {
        let span = view.spans.at(number);
        (span.events, span.chips) = (4, vec![0; N_CHIPS]);
        span.numbers = Some((number, number));
        (
            span.chips[chips[slot].start],
            span.chips[CHIPS_PER_SECTOR * sectors_of_layer(2).start],
        ) = (hits, 2);
        span.counts = vec![0; view.counts.len()];
        span.counts[Count::BadHeader as usize] = 1;
        span.error_banks = 2;
    }
    let (sums, verdicts) = (sums(&detector, view), verdicts(tables));
    let html = html_of(&sums, &verdicts);
    assert!(html.contains("<p>Left out here: 88 events without event number.</p>"));
    assert!(html.contains("There are several runs here"));
    assert!(html.contains("<dt>event numbers</dt><dd>40 to 43</dd>"));
    let charts = charts(&html);
    let titled = |title: &str| {
        let chart = charts.iter().find(|chart| chart["title"] == title);
        chart.unwrap_or_else(|| panic!("{title}"))
    };
    let hits = &titled("Hits of the layers")["series"];
    assert_eq!(hits[0]["x"], json!([40.0, 41.0, 42.0, 43.0, 44.0]));
    assert_eq!(hits[0]["y"], json!([3.0, 2.0, null, 0.0]));
    assert_eq!(hits[2]["y"], json!([0.5, 0.5, null, 0.5]));
    assert_eq!(hits[1]["y"], json!([0.0, 0.0, null, 0.0]));
    assert_eq!(
        titled("Events")["series"][0]["y"],
        json!([4.0, 4.0, 0.0, 4.0])
    );
    let troubles = &titled("Troubles")["series"];
    let named = |name: &str| {
        troubles
            .as_array()
            .unwrap()
            .iter()
            .find(|trace| trace["name"] == name)
            .unwrap()
    };
    assert_eq!(named("bad_header")["y"], json!([0.25, 0.25, null, 0.25]));
    assert_eq!(named("unconnected_hits")["y"], json!([0.0, 0.0, null, 0.0]));
    assert_eq!(named("error banks")["y"], json!([0.5, 0.5, null, 0.5]));
    assert_eq!(
        troubles.as_array().unwrap().len(),
        3,
        "no other kind occurred"
    );
    let boards = titled("Hits of every board");
    let board = (slot / 6).to_string();
    let row = boards["names"]["y"]
        .as_array()
        .unwrap()
        .iter()
        .position(|name| *name == board)
        .unwrap();
    assert_eq!(boards["names"]["x"], json!(["40", "41", "42", "43"]));
    // The usual rate is the upper quartile: three hits per event.
    assert_eq!(
        boards["heat"]["values"][row],
        json!([1.0, 0.667, null, 0.0])
    );
}

#[test]
fn differences_are_marked_and_listed_largest_first() {
    let detector = Arc::new(detector());
    let tables = &detector.tables;
    let (of_a, mut of_b) = (verdicts(tables), verdicts(tables));
    of_b.outliers.clear();
    let [first, second] = [view(tables), view(tables)].map(|view| sums(&detector, view));
    let mut differences: Vec<Difference> = (0..N_SECTORS)
        .map(|sector| Difference {
            sector,
            hits: [1.0, 2.0],
            ratio: 1.0 + sector as f64 / 1000.0,
            sigmas: 0.001 * sector as f64,
            charge: [20.0, 21.0],
            charge_sigmas: 0.0,
        })
        .collect();
    (
        differences[10].sigmas,
        differences[11].sigmas,
        differences[13].sigmas,
    ) = (6.0, -7.0, f64::NAN);
    (
        differences[12].charge_sigmas,
        differences[14].charge_sigmas,
        differences[15].sigmas,
    ) = (5.5, f64::NAN, 4.9);
    (differences[10].hits[1], differences[10].ratio) = (0.0, f64::INFINITY);
    let drawing = |differences| {
        let run = |letter: &'static str, sums, verdicts| Run {
            name: format!("run {letter}"),
            letter,
            sums,
            verdicts,
        };
        let reference = Some((run("B", &second, &of_b), differences));
        Drawing {
            run: run("A", &first, &of_a),
            reference,
        }
    };
    let both = drawing(&differences[..]);
    let html = html(&both, &About::default());
    assert!(html.contains(
        "1 sector with a larger share of the hits in A, 1 sector with a smaller one, 1 sector with another mean charge."
    ));
    let listed = rows(&html, "Sectors that differ");
    let column = |i: usize| {
        listed
            .iter()
            .map(|(_, cells)| cells[i].as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (column(3), column(4)),
        (vec!["1.01", "∞", "1.01"], vec!["-7.00", "6.00", "0.01"])
    );
    assert!(listed.iter().all(|(stands_out, _)| *stands_out));
    assert_eq!(listed[1].1[1..3], ["1.00", "0"]);
    // The terminal names the same differences, and the outliers of either run.
    let said = text(&both);
    assert!(
        said.contains("A is run A, B run B: 3 sectors differ by 5 σ or more:\n  sector 11 ("),
        "{said}"
    );
    assert!(
        said.starts_with("5 things stand out in A:")
            && said.contains("\nNothing stands out in B\n"),
        "{said}"
    );
    // A, B and one by the other stand side by side, layer by layer; then charge in the same way.
    let charts = charts(&html);
    let titles: Vec<_> = charts[..4]
        .iter()
        .map(|chart| chart["title"].as_str().unwrap())
        .collect();
    assert_eq!(titles, ["UTaX: A", "UTaX: B", "UTaX: A by B", "UTaU: A"]);
    let column = |i: usize| {
        charts[..12]
            .iter()
            .skip(i)
            .step_by(3)
            .cloned()
            .collect::<Vec<_>>()
    };
    let maps = column(2);
    let numbers = by_sector(&maps, tables);
    let known = |sector: &usize| *sector != 10;
    assert!(
        (0..N_SECTORS)
            .filter(known)
            .all(|s| (numbers[s].unwrap() - differences[s].ratio).abs() < 1e-5)
    );
    assert_eq!(
        (
            &maps[0]["map"]["values"][10],
            marked(&column(0), "dead").contains(&EMPTY)
        ),
        (&json!("∞"), true)
    );
    assert_eq!(
        (marked(&maps, "more, 5 σ"), marked(&maps, "fewer, 5 σ")),
        (vec![10], vec![11])
    );
}

#[test]
fn sums_that_would_overflow_stay_unchanged() {
    let detector = Arc::new(detector());
    let sound = sums(&detector, view(&detector.tables)).to_bytes().unwrap();
    let text = String::from_utf8(zstd::decode_all(&sound[..]).unwrap()).unwrap();
    let (format, json) = text.split_once('\n').unwrap();
    let mut json: Value = serde_json::from_str(json).unwrap();
    json["view"]["hits"] = (1_u64 << 54).into();
    let packed = zstd::bulk::compress(format!("{format}\n{json}").as_bytes(), 1).unwrap();
    let mut sums = Sums::from_bytes(&packed[..], "x").unwrap();
    let before = sums.to_bytes().unwrap();
    let error = sums.add(&sums.clone()).unwrap_err().to_string();
    assert!(error.contains("too large to add"), "{error}");
    assert!(sums.to_bytes().unwrap() == before);
}
