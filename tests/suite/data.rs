//! Real events with their tables and expected hits, which are not part of the repository.

use std::path::PathBuf;

use ut_decoding::detector::{Boards, Geometry};
use ut_decoding::{DetectorTables, Grouping, UtHits};

use super::events::{Bank, Event};

/// Returns the path of a file of the shared data; panics if it does not exist. Only for tests that
/// are ignored by default, since the data may be absent.
#[track_caller]
pub fn needed(path: &str) -> PathBuf {
    let root = std::env::var_os("UT_DECODE_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let path = root.join(path);
    assert!(
        path.exists(),
        "{} is not there: UT_DECODE_DATA says where the real events are",
        path.display()
    );
    path
}

/// One of the two real detectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Real {
    V4,
    V5,
}

impl Real {
    /// Returns the tables of the real detector and the UT banks of its events; panics if they do
    /// not exist. Only for tests that are ignored by default.
    #[track_caller]
    pub fn needed(self, grouping: Grouping) -> (DetectorTables, Vec<Event>) {
        (self.tables(grouping), self.events())
    }

    fn tables(self, grouping: Grouping) -> DetectorTables {
        let (boards, geometry) = match self {
            Self::V4 => ("tables/ut_boards_v4_240.bin", "tables/ut_geometry_2018.bin"),
            Self::V5 => (
                "tables/ut_boards_v5_216.bin",
                "tables/ut_geometry_sim10.bin",
            ),
        };
        let boards = Boards::read(needed(boards)).expect("the boards are good");
        let geometry = Geometry::read(needed(geometry)).expect("the geometry is good");
        DetectorTables::new(boards, geometry, grouping).expect("boards and geometry go together")
    }

    fn events(self) -> Vec<Event> {
        let path = needed(match self {
            Self::V4 => "minibrunel/MiniBrunel_2018_minbias_10events.mdf",
            Self::V5 => "v5/ut_v5_minbias_20events.mdf",
        });
        let events = read_mdf(&std::fs::read(path).expect("the file can be read"));
        events
            .into_iter()
            .map(|event| event.into_iter().filter(|bank| bank.kind == 66).collect())
            .collect()
    }
}

/// Reads the banks of an undamaged MDF file.
fn read_mdf(mut bytes: &[u8]) -> Vec<Event> {
    let u16_at = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let size = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        let (mut event, rest) = bytes.split_at(size);
        bytes = rest;
        event = &event[20 + 4 * usize::from(event[17] & 0xF)..];
        let mut banks = Vec::new();
        while !event.is_empty() {
            assert_eq!(u16_at(event, 0), 0xCBCB, "bank magic");
            let size = usize::from(u16_at(event, 2));
            banks.push(Bank {
                kind: event[4],
                version: event[5],
                source_id: u16_at(event, 6),
                payload: event[8..size].to_vec(),
            });
            event = &event[size.next_multiple_of(4)..];
        }
        events.push(banks);
    }
    events
}

/// Hit of a file of expected hits, with floats as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub event: usize,
    pub group: usize,
    pub id: u32,
    /// x, z, yBegin, yEnd, dxDy, weight.
    pub floats: [u32; 6],
}

/// Reads a file of expected hits.
#[track_caller]
pub fn expected(name: &str) -> Vec<Row> {
    let text =
        std::fs::read_to_string(needed(&format!("expected/{name}"))).expect("the file can be read");
    let float = |field: &str| field.parse::<f32>().expect("a float").to_bits();
    let rows = text.lines().skip(1).map(|line| {
        let f: Vec<&str> = line.split(',').collect();
        Row {
            event: f[0].parse().expect("an event"),
            group: f[1].parse().expect("a group"),
            id: f[2].parse().expect("an id"),
            floats: [
                float(f[3]),
                float(f[4]),
                float(f[5]),
                float(f[6]),
                float(f[7]),
                float(f[8]),
            ],
        }
    });
    rows.collect()
}

/// Returns decoded hits in the form of expected hits.
pub fn rows(hits: &UtHits) -> Vec<Row> {
    let mut rows = Vec::with_capacity(hits.len());
    for event in 0..hits.n_events() {
        for group in 0..hits.n_groups() {
            for i in hits.range(event, group) {
                let floats = [
                    hits.x_at_y_eq0(),
                    hits.z_at_y_eq0(),
                    hits.y_begin(),
                    hits.y_end(),
                    hits.dx_dy(),
                    hits.weight(),
                ];
                rows.push(Row {
                    event,
                    group,
                    id: hits.id()[i],
                    floats: floats.map(|array| array[i].to_bits()),
                });
            }
        }
    }
    rows
}
