//! The examples of `docs/format.md`, read from the page itself, against the reference: the page is
//! the contract, so what it says by way of example must be what the oracle does.

use ut_decoding::decoder::Count;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::{BankVersion, Boards, Geometry, Lane, sector_id};
use ut_decoding::input::{Events, to_allen, to_mep};
use ut_decoding::{
    BatchReport, BatchView, DecodeOptions, DetectorTables, EventBatch, Grouping, UtHits,
};

use super::fixtures::fixture;
use crate::suite::backends::{decode, up_to};
use crate::suite::events::{Bank, allen_batch, tables, v5, v5_lane, v5_payload};

const PAGE: &str = include_str!("../../docs/format.md");

/// Returns the part of the page below a heading, up to the next heading of the same level.
fn section(heading: &str) -> &'static str {
    let (_, rest) = PAGE
        .split_once(&format!("\n## {heading}\n"))
        .expect("the page has the section");
    rest.split("\n## ").next().expect("a first part")
}

/// Returns the bytes of an indented dump, whose lines have an offset, up to sixteen bytes, and
/// remarks.
fn dump(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("    ")) {
        let mut words = line.split_whitespace();
        let Some(Ok(offset)) = words.next().map(|word| usize::from_str_radix(word, 16)) else {
            continue;
        };
        let row = words.take(16).map_while(|word| {
            u8::from_str_radix(word, 16)
                .ok()
                .filter(|_| word.len() == 2)
        });
        assert_eq!(offset, bytes.len(), "{line}");
        bytes.extend(row);
    }
    bytes
}

/// Returns the cells of the table with this head, row by row.
fn rows(text: &'static str, head: &str) -> Vec<Vec<&'static str>> {
    let (_, rest) = text.split_once(head).expect("the section has the table");
    let table = rest
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    table
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

fn float(cell: &str) -> f32 {
    cell.replace('−', "-")
        .parse()
        .unwrap_or_else(|_| panic!("{cell:?} is a number"))
}

fn hex(cell: &str) -> u32 {
    u32::from_str_radix(cell.strip_prefix("0x").expect("0x"), 16).expect("hexadecimal")
}

/// Reads the page's file of one event into a batch.
fn event() -> EventBatch {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("example.mdf");
    std::fs::write(&path, dump(section("A worked example"))).unwrap();
    to_allen(Events::new([path]).next_batch(10).unwrap().unwrap().0).unwrap()
}

fn of_reference(
    tables: &DetectorTables,
    options: DecodeOptions,
    batch: BatchView<'_>,
) -> (UtHits, BatchReport) {
    decode(&mut ReferenceDecoder::new(tables, options), tables, batch)
}

/// Makes a detector whose sector on lane `lane` of board 0 has strip `n` at x = `n`; also returns
/// this lane.
fn ruler(version: BankVersion, lane: usize) -> (DetectorTables, Lane) {
    let (boards, mut geometry) = ut_decoding::synth::detector(version, 1);
    let lane = boards.lanes[lane];
    let sector =
        &mut geometry.sectors[usize::from(sector_id(&lane).expect("the lane is connected"))];
    (sector.p0_x, sector.dp0di_x, sector.first_strip) = (0.0, 1.0, 1);
    sector.p0_z = sector.p0_z.abs();
    (
        DetectorTables::trusting(boards, geometry, Grouping::YRows).expect("a good detector"),
        lane,
    )
}

#[test]
fn the_file_gives_the_hits_that_the_page_works_out() {
    let text = section("A worked example");
    assert_eq!(dump(text).len(), 88);
    let read = |name: &str| fixture(&format!("v5/{name}"));
    let (boards, geometry) = (
        Boards::read(read("boards.bin")).unwrap(),
        Geometry::read(read("geometry.bin")).unwrap(),
    );
    let tables = DetectorTables::new(boards, geometry, Grouping::YRows).unwrap();
    for row in rows(text, "| slot | chanID |") {
        let slot: usize = row[0].parse().unwrap();
        let lane = &tables.boards().lanes[slot];
        let id = sector_id(lane).unwrap();
        assert_eq!(
            (lane.chan_id, id.to_string()),
            (hex(row[1]), row[2].to_owned())
        );
        assert_eq!(tables.groups()[usize::from(id)].to_string(), row[3]);
        let sector = &tables.geometry().sectors[usize::from(id)];
        assert_eq!(sector.p0_z < 0.0, row[4] == "yes");
        let values = [
            sector.p0_x,
            sector.p0_y,
            sector.p0_z,
            sector.dp0di_x,
            sector.dy,
            sector.pitch,
        ];
        assert_eq!(
            values,
            [5, 6, 7, 8, 9, 10].map(|cell| float(row[cell])),
            "slot {slot}"
        );
    }
    let batch = event();
    for part in [vec![batch.clone()], to_mep(batch.view()).unwrap()] {
        let (hits, report) = of_reference(&tables, DecodeOptions::default(), part[0].view());
        let expected = rows(text, "| group | LHCbID |");
        assert_eq!(
            (hits.len(), expected.len(), report.has_trouble()),
            (2, 2, false)
        );
        for (i, row) in expected.iter().enumerate() {
            assert_eq!(
                hits.range(0, row[0].parse().unwrap()),
                i..i + 1,
                "the hit is alone in its group"
            );
            assert_eq!(hits.id()[i], hex(row[1]));
            let columns = [
                hits.x_at_y_eq0(),
                hits.z_at_y_eq0(),
                hits.y_begin(),
                hits.y_end(),
                hits.dx_dy(),
                hits.weight(),
            ];
            assert_eq!(
                columns.map(|column| column[i]),
                [3, 4, 5, 6, 7, 8].map(|cell| float(row[cell])),
                "hit {i}"
            );
        }
    }
}

#[test]
fn the_v5_payload_of_the_page_is_in_the_file_and_has_its_hits() {
    let payload = dump(section("v5 banks"));
    assert_eq!(payload, dump(section("A worked example"))[56..]);
    let mut lanes: [Vec<(u16, u8)>; 6] = Default::default();
    lanes[0] = vec![(10, 5), (11, 15)];
    lanes[4] = vec![(300, 31)];
    let mut made = v5_payload(&lanes);
    // Two bytes of the header are for other information; the page has zeros there, and leaves out
    // the end of the last row, which belongs to no lane.
    made[2..4].fill(0);
    made.truncate(made.len() - 8);
    assert_eq!(payload, made);
}

#[test]
fn the_v4_payload_is_one_cluster_at_17_75() {
    let (_, rest) = section("v4 banks")
        .split_once("The payload `")
        .expect("the example");
    let text = rest.split('`').next().unwrap();
    let payload: Vec<u8> = text
        .split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    let (tables, lane) = ruler(BankVersion::V4, 1);
    let batch = allen_batch(&[vec![Bank::new(BankVersion::V4, 0, payload)]]);
    let (hits, report) = of_reference(&tables, DecodeOptions::default(), batch.view());
    assert_eq!(
        (hits.x_at_y_eq0(), hits.id()),
        (&[17.75][..], &[3 << 28 | (lane.chan_id + 18 - 1)][..])
    );
    assert!(!report.has_trouble());
}

#[test]
fn lanes_are_clustered_as_in_the_table() {
    let pairs = |text: &str| -> Vec<(u32, u32)> {
        let inner = text
            .split('(')
            .skip(1)
            .map(|part| part.split(')').next().unwrap());
        let pair = |part: &str| {
            part.split_once(", ")
                .map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap()))
        };
        inner.map(|part| pair(part).unwrap()).collect()
    };
    let (tables, lane) = ruler(BankVersion::V5, 0);
    let all = rows(section("Clustering"), "| lane | clusters as");
    assert_eq!(all.len(), 4);
    for row in all {
        let strips = row[0].split("), ").map(|hit| {
            let (strip, adc) = hit.trim_end_matches(')').split_once(" (").unwrap();
            (strip.parse().unwrap(), adc.parse().unwrap())
        });
        let batch = allen_batch(&[vec![v5(0, &v5_lane(0, strips))]]);
        let (dropped, cut) = row[1].split_once(';').unwrap_or((row[1], row[1]));
        for (save_above_max, clusters) in [(false, dropped), (true, cut)] {
            let options = up_to(2).with_save_above_max(save_above_max);
            let (hits, _) = of_reference(&tables, options, batch.view());
            let mut expected: Vec<(f32, u32)> = pairs(clusters)
                .into_iter()
                .map(|(sum, weight)| {
                    let strip = (sum + weight / 2) / weight;
                    (
                        sum as f32 / weight as f32,
                        3 << 28 | ((lane.chan_id & !0x1FF) + strip),
                    )
                })
                .collect();
            expected.sort_by(|a, b| a.partial_cmp(b).unwrap());
            let found: Vec<(f32, u32)> = hits
                .x_at_y_eq0()
                .iter()
                .copied()
                .zip(hits.id().iter().copied())
                .collect();
            assert_eq!(found, expected, "{row:?}, save_above_max {save_above_max}");
        }
    }
}

#[test]
fn source_ids_map_to_the_boards_of_the_page() {
    let tables = tables(BankVersion::V5);
    let payload = dump(section("v5 banks"));
    let ids = |source_id| {
        let batch = allen_batch(&[vec![v5(source_id, &payload)]]);
        let (hits, report) = of_reference(&tables, DecodeOptions::default(), batch.view());
        (hits.id().to_vec(), report.total(Count::UnknownBoard))
    };
    let of_board = |board: usize| tables.boards().lanes[6 * board].chan_id & !0x1FF;
    for (source_id, board) in [(0x2801, 0), (0, 0), (0x2C01, 1)] {
        assert!(
            ids(source_id)
                .0
                .contains(&(3 << 28 | (of_board(board) + 11))),
            "{source_id:#x}"
        );
    }
    assert_eq!(ids(0x2800), (vec![], 1));
}

#[test]
fn the_arrays_of_a_batch_agree_with_the_table() {
    let text = section("Batches in memory");
    let allen = event();
    let mep = to_mep(allen.view()).unwrap().remove(0);
    let payload = dump(section("v5 banks"));
    for (column, batch) in [(1, &allen), (2, &mep)] {
        for row in rows(text, "| array | Allen layout |") {
            let cell = row[column];
            if row[0] == "`raw`" {
                let head = cell
                    .split('`')
                    .nth(1)
                    .unwrap_or_default()
                    .split_whitespace();
                let mut bytes: Vec<u8> = head
                    .map(|byte| u8::from_str_radix(byte, 16).unwrap())
                    .collect();
                bytes.extend(&payload);
                assert_eq!(batch.raw, bytes);
                continue;
            }
            let number = |word: &str| {
                word.strip_prefix("0x")
                    .map_or_else(|| word.parse().unwrap(), |_| hex(word))
            };
            let words: Vec<u32> = cell.split(", ").map(number).collect();
            let found = match row[0] {
                "`offsets`" => &batch.offsets,
                "`sizes`" => &batch.sizes,
                "`types`" => &batch.types,
                "`versions`" => batch.versions.as_ref().unwrap(),
                other => panic!("an array {other}"),
            };
            // A closing offset may follow.
            assert_eq!(found[..words.len()], words, "{}", row[0]);
        }
    }
}
