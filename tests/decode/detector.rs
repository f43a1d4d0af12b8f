//! Detector tables: the real files, and every way in which a file can be wrong.
//!
//! Tables are read once and trusted by every kernel from then on: an index out of range here would
//! be an access out of bounds on the device, and a NaN would be a hit that no comparison can sort.
//! So a table is refused with the field, the slot and the byte, and the tests compute these bytes
//! by themselves. A boards file is a count, a version, one word per board and eight arrays with one
//! word per lane. A geometry file is a count and a version in two bytes each, and then ten arrays
//! with one word per sector, the first strips first; version 1 adds an eleventh, the slopes.

use ut_decoding::detector::{
    BankVersion, Boards, DetectorTables, Geometry, Grouping, LANES_PER_BOARD, Lane, N_SECTORS,
    Slot, TablesError, sector_id, sectors_of_layer,
};
use ut_decoding::synth;

use crate::suite::data::needed;

const BOARDS: [(&str, BankVersion, usize, usize); 2] = [
    ("ut_boards_v4_240.bin", BankVersion::V4, 240, 1048),
    ("ut_boards_v5_216.bin", BankVersion::V5, 216, 1192),
];
const GEOMETRIES: [(&str, usize); 2] =
    [("ut_geometry_2018.bin", 0), ("ut_geometry_sim10.bin", 524)];

#[test]
#[ignore = "needs the real events: UT_DECODE_DATA"]
fn real_boards_are_read_and_written_back() {
    for (file, version, n_boards, n_lanes) in BOARDS {
        let path = needed(&format!("tables/{file}"));
        let boards = Boards::read(&path).unwrap();
        assert_eq!(boards.version, version);
        assert_eq!(boards.n_boards(), n_boards);
        assert_eq!(
            boards
                .lanes
                .iter()
                .filter(|lane| lane.is_connected())
                .count(),
            n_lanes
        );
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(boards.to_bytes(), bytes);
        let copy = tempfile::NamedTempFile::new().unwrap();
        boards.write(copy.path()).unwrap();
        assert_eq!(std::fs::read(copy.path()).unwrap(), bytes);
    }
}

#[test]
#[ignore = "needs the real events: UT_DECODE_DATA"]
fn real_boards_fit_only_the_geometry_of_their_format() {
    for (b, (boards, ..)) in BOARDS.into_iter().enumerate() {
        for (g, (geometry, _)) in GEOMETRIES.into_iter().enumerate() {
            let [boards, geometry] =
                [boards, geometry].map(|file| needed(&format!("tables/{file}")));
            let (boards, geometry) = (
                Boards::read(boards).unwrap(),
                Geometry::read(geometry).unwrap(),
            );
            let made = DetectorTables::new(boards.clone(), geometry.clone(), Grouping::YRows);
            assert_eq!(made.is_ok(), b == g, "{made:?}");
            assert!(DetectorTables::trusting(boards, geometry, Grouping::YRows).is_ok());
        }
    }
}

#[test]
fn a_geometry_that_contradicts_the_boards_is_refused_unless_it_is_trusted() {
    type Change = fn(&mut Geometry);
    // Each limit has a case on either side: a sector may be off by 3 mm in x but not by 20 mm, and
    // a pitch by 1 % but not by 3 %.
    let cases: [(BankVersion, Change, &str); 12] = [
        (BankVersion::V5, |_| {}, ""),
        (BankVersion::V4, |_| {}, ""),
        (
            BankVersion::V5,
            |geometry| geometry.sectors[3].p0_x += 3.0,
            "",
        ),
        (
            BankVersion::V5,
            |geometry| geometry.sectors[3].p0_x += 20.0,
            "sector 3 is 20 mm in x from the place",
        ),
        (
            BankVersion::V5,
            |geometry| geometry.sectors[5].pitch *= 1.01,
            "",
        ),
        (
            BankVersion::V5,
            |geometry| geometry.sectors[5].pitch *= 1.03,
            "sector 5 has a pitch of",
        ),
        (
            BankVersion::V5,
            |geometry| geometry.sectors[3].p0_x += 60.0,
            "sector 3 is at",
        ),
        (
            BankVersion::V5,
            |geometry| geometry.sectors[900].p0_y += 60.0,
            "sector 900 is at",
        ),
        (
            BankVersion::V5,
            |geometry| geometry.sectors[7].p0_z *= -1.0,
            "1 sectors would have",
        ),
        (
            BankVersion::V4,
            |geometry| geometry.sectors[7].p0_z *= -1.0,
            "it marks 1 sectors as flipped",
        ),
        (
            BankVersion::V5,
            |geometry| geometry.sectors[248].p0_z = 2300.0,
            "sector 248 is at |z| = 2300 mm",
        ),
        (
            BankVersion::V5,
            |geometry| geometry.sectors[3].p0_z *= 2.0,
            "sector 3 is at |z| = ",
        ),
    ];
    for (version, change, part) in cases {
        let (boards, mut geometry) = synth::detector(version, 1);
        change(&mut geometry);
        let error = DetectorTables::new(boards.clone(), geometry.clone(), Grouping::YRows).err();
        let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(
            text.contains(part) && error.is_none() == part.is_empty(),
            "{part}: {text}"
        );
        let trusted = DetectorTables::trusting(boards, geometry, Grouping::YRows).unwrap();
        assert_eq!(
            (trusted.is_trusted(), trusted.check_fit().is_err()),
            (true, !part.is_empty())
        );
    }
}

#[test]
#[ignore = "needs the real events: UT_DECODE_DATA"]
fn real_geometries_are_read_and_written_back_and_have_84_groups_in_unique_x() {
    for (file, flipped) in GEOMETRIES {
        let path = needed(&format!("tables/{file}"));
        let geometry = Geometry::read(&path).unwrap();
        assert_eq!(geometry.version, 0);
        assert_eq!(
            geometry
                .sectors
                .iter()
                .filter(|sector| sector.is_flipped())
                .count(),
            flipped
        );
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(geometry.to_bytes(), bytes);
        // Version 1 adds the slopes.
        let newer = Geometry {
            version: 1,
            ..geometry.clone()
        };
        assert_eq!(newer.to_bytes().len(), bytes.len() + 4 * N_SECTORS);
        assert_eq!(Geometry::parse(&newer.to_bytes(), "newer").unwrap(), newer);
        for (layer, slope) in [0.0, 0.08748867, -0.08748867, 0.0].into_iter().enumerate() {
            assert!(
                geometry.sectors[sectors_of_layer(layer)]
                    .iter()
                    .all(|sector| sector.dx_dy == slope)
            );
        }
        let (groups, n_groups) = Grouping::UniqueX.groups(&geometry);
        assert_eq!(n_groups, 84);
        for (layer, range) in [0..20, 20..40, 40..62, 62..84].into_iter().enumerate() {
            let groups = &groups[sectors_of_layer(layer)];
            assert!(range.clone().all(|group| groups.contains(&group)));
            assert!(
                groups.iter().all(|group| range.contains(group)),
                "layer {layer}"
            );
        }
    }
}

#[test]
fn y_rows_have_18_groups_per_layer_at_rising_y() {
    let (_, geometry) = synth::detector(BankVersion::V5, 0);
    let (groups, n_groups) = Grouping::YRows.groups(&geometry);
    assert_eq!(n_groups, 72);
    for layer in 0..4 {
        for id in sectors_of_layer(layer) {
            let group = usize::from(groups[id]).checked_sub(18 * layer).unwrap();
            let row = match group {
                0..14 => -670.1 + 95.6 * group as f32,
                14..18 => -96.5 + 47.8 * (group - 14) as f32,
                _ => panic!("sector {id} is in group {} of layer {layer}", groups[id]),
            };
            assert!(
                (geometry.sectors[id].p0_y - row).abs() < 20.0,
                "sector {id}"
            );
        }
    }
}

/// Moves two sectors away from all others, which are at x = 0. At 20 and 40 mm they are linked by
/// steps of exactly 20 mm, and the layer is one group. At 40.01 mm the last step is 20.01 mm, so
/// sector 7 begins a group, and every group from the next layer on (sector 248) has a number one
/// higher.
#[test]
fn a_gap_of_exactly_20_mm_in_x_starts_no_group() {
    let (_, mut geometry) = synth::detector(BankVersion::V5, 0);
    assert_eq!(Grouping::UniqueX.groups(&geometry).1, 84);
    for sector in &mut geometry.sectors {
        sector.p0_x = 0.0;
    }
    assert_eq!(Grouping::UniqueX.groups(&geometry).1, 4);
    geometry.sectors[5].p0_x = 20.0;
    geometry.sectors[7].p0_x = 40.0;
    assert_eq!(Grouping::UniqueX.groups(&geometry).1, 4);
    geometry.sectors[7].p0_x = 40.01;
    let (groups, n_groups) = Grouping::UniqueX.groups(&geometry);
    assert_eq!(
        (n_groups, groups[5], groups[7], groups[247], groups[248]),
        (5, 0, 1, 0, 2)
    );
}

#[test]
fn tables_hold_the_inputs_of_the_hit_formulas() {
    let (boards, geometry) = synth::detector(BankVersion::V5, 1);
    let tables = DetectorTables::new(boards.clone(), geometry.clone(), Grouping::YRows).unwrap();
    assert_eq!(tables.slots().len(), 216 * LANES_PER_BOARD);
    for (slot, lane) in tables.slots().iter().zip(&boards.lanes) {
        if lane.is_connected() {
            assert_eq!(slot.chan_id, lane.chan_id);
            assert_eq!(Some(slot.sector), sector_id(lane));
            assert_eq!(slot.group, tables.groups()[usize::from(slot.sector)]);
        } else {
            assert_eq!(*slot, Slot::default());
        }
    }
    for (constants, sector) in tables.sectors().iter().zip(&geometry.sectors) {
        assert_eq!(constants.p0_z, sector.p0_z.abs());
        assert_eq!(constants.flipped, u32::from(sector.p0_z < 0.0));
        assert_eq!(
            constants.weight.to_bits(),
            (12.0_f32 / (sector.pitch * sector.pitch)).to_bits()
        );
        assert_eq!((constants.dx_dy, constants.first_strip), (sector.dx_dy, 1));
    }
    assert_eq!(
        tables
            .sectors()
            .iter()
            .map(|sector| sector.flipped)
            .sum::<u32>(),
        524
    );
}

#[test]
fn the_first_of_several_lanes_with_the_same_strips_counts() {
    let (mut boards, geometry) = synth::detector(BankVersion::V5, 1);
    let free: Vec<usize> = (0..boards.lanes.len())
        .filter(|&slot| !boards.lanes[slot].is_connected())
        .collect();
    // Two copies of a lane that reads half a sector, one of which is on an earlier board.
    let half = (free[0] + 6..boards.lanes.len())
        .find(|&slot| boards.lanes[slot].chan_id & 256 != 0)
        .unwrap();
    let (before, behind) = (free[0], *free.last().unwrap());
    assert!(before / 6 < half / 6 && half / 6 < behind / 6);
    (boards.lanes[before], boards.lanes[behind]) = (boards.lanes[half], boards.lanes[half]);
    let sector = usize::from(sector_id(&boards.lanes[half]).unwrap());
    for (off, expected) in [
        (&[][..], before),
        (&[before], half),
        (&[before, half], behind),
        (&[half], before),
        (&[before, half, behind], before),
    ] {
        let mut boards = boards.clone();
        for slot in off {
            boards.strips_per_hybrid[slot / 6] = 0;
        }
        let tables = DetectorTables::trusting(boards, geometry.clone(), Grouping::YRows).unwrap();
        let lane = tables.places()[sector].lane_of(300).unwrap();
        assert_eq!(
            usize::from(lane.board) * 6 + usize::from(lane.lane),
            expected,
            "{off:?} are off"
        );
    }
}

/// Byte offset of lane array `array` (0 sector … 7 chanID) and `slot` in a boards file.
fn lane_at(boards: &Boards, array: usize, slot: usize) -> usize {
    8 + 4 * (boards.n_boards() + array * boards.lanes.len() + slot)
}

fn with_word(bytes: &[u8], at: usize, word: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    bytes
}

fn assert_bad(error: &TablesError, wanted_field: &str, wanted_offset: usize) {
    assert_eq!(
        (error.file(), error.byte()),
        ("t", Some(wanted_offset as u64)),
        "{error}"
    );
    let place = format!("t: {wanted_field} at byte {wanted_offset} is ");
    assert!(error.to_string().starts_with(&place), "{error}");
}

/// Parses a file of boards or of a geometry.
type Parse = fn(&[u8]) -> Result<(), TablesError>;

const PARSE: [Parse; 2] = [
    |bytes| Boards::parse(bytes, "t").map(|_| ()),
    |bytes| Geometry::parse(bytes, "t").map(|_| ()),
];

#[test]
fn every_truncation_and_every_surplus_byte_of_a_file_is_an_error() {
    for (version, geometry_version) in [(BankVersion::V4, 0), (BankVersion::V5, 1)] {
        let (boards, geometry) = synth::detector(version, geometry_version);
        for (bytes, parse) in [boards.to_bytes(), geometry.to_bytes()]
            .into_iter()
            .zip(PARSE)
        {
            for len in
                (0..bytes.len())
                    .step_by(997)
                    .chain([0, 1, 3, 4, 5, 7, 8, 9, bytes.len() - 1])
            {
                let error = parse(&bytes[..len]).unwrap_err();
                assert!(
                    error
                        .to_string()
                        .contains(&format!("too short: it ends at byte {len};")),
                    "{error}"
                );
            }
            for surplus in [1, 5] {
                let error = parse(&[&bytes[..], &vec![0; surplus]].concat()).unwrap_err();
                assert_eq!(error.byte(), Some(bytes.len() as u64));
                assert!(
                    error
                        .to_string()
                        .contains(&format!("{surplus} bytes too many")),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn impossible_counts_and_versions_are_errors() {
    let (boards, geometry) = synth::detector(BankVersion::V5, 0);
    let (boards, geometry) = (boards.to_bytes(), geometry.to_bytes());
    // Boards have a word for each, a geometry a half-word.
    let of_boards = |at, word| Boards::parse(&with_word(&boards, at, word), "t").unwrap_err();
    let of_geometry = |word| Geometry::parse(&with_word(&geometry, 0, word), "t").unwrap_err();
    for count in [0, 241, 1 << 16, u32::MAX] {
        assert_bad(&of_boards(0, count), "n_boards", 0);
    }
    for count in [0, 1, 1047, 1049, 0xFFFF] {
        assert_bad(&of_geometry(count), "n_sectors", 0);
    }
    for version in [0, 2, 5, 255, 0x104, u32::MAX] {
        assert_bad(&of_boards(4, version), "version", 4);
    }
    for version in [2, 3, 0xFFFF] {
        assert_bad(&of_geometry(0x418 | version << 16), "version", 2);
    }
    // Version 1 needs the slopes.
    let lengths = [
        (of_boards(0, 217), "too short"),
        (of_boards(0, 215), "too many"),
    ];
    for (error, what) in lengths
        .into_iter()
        .chain([(of_geometry(0x418 | 1 << 16), "too short")])
    {
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn hybrids_have_512_strips_or_none() {
    let bytes = synth::detector(BankVersion::V4, 0).0.to_bytes();
    for strips in [1, 256, 511, 513, u32::MAX] {
        assert_bad(
            &Boards::parse(&with_word(&bytes, 8 + 4 * 7, strips), "t").unwrap_err(),
            "stripsPerHybrid[7]",
            36,
        );
    }
    // A board that is switched off keeps its cables.
    assert_eq!(
        Boards::parse(&with_word(&bytes, 8 + 4 * 7, 0), "t")
            .unwrap()
            .strips_per_hybrid[7],
        0
    );
}

#[test]
fn lanes_to_sectors_that_do_not_exist_are_errors() {
    let (boards, _) = synth::detector(BankVersion::V5, 0);
    let bytes = boards.to_bytes();
    let slot = boards
        .lanes
        .iter()
        .position(|lane| lane.is_connected() && lane.stave == 5)
        .unwrap();
    for (array, name, value) in [
        (0, "sector", 2),
        (0, "sector", 1),
        (1, "module", 8),
        (2, "face", 2),
        (3, "stave", 9),
        (4, "layer", 4),
        (5, "side", 2),
        (6, "type", 1),
        (7, "chanID", 1),
        (3, "stave", u32::MAX),
    ] {
        let at = lane_at(&boards, array, slot);
        let error = Boards::parse(&with_word(&bytes, at, value), "t").unwrap_err();
        assert_bad(&error, &format!("{name}[{slot}]"), at);
    }
    // The first two layers have eight staves in a half, the others nine.
    let slot = boards
        .lanes
        .iter()
        .position(|lane| lane.is_connected() && lane.layer == 1 && lane.stave == 5)
        .unwrap();
    let at = lane_at(&boards, 3, slot);
    assert_bad(
        &Boards::parse(&with_word(&bytes, at, 8), "t").unwrap_err(),
        &format!("stave[{slot}]"),
        at,
    );
    // A lane without a channel is all zeros.
    let slot = boards
        .lanes
        .iter()
        .position(|lane| !lane.is_connected())
        .unwrap();
    let at = lane_at(&boards, 3, slot);
    assert_bad(
        &Boards::parse(&with_word(&bytes, at, 3), "t").unwrap_err(),
        &format!("stave[{slot}]"),
        at,
    );
}

#[test]
fn channels_that_contradict_the_other_fields_are_errors() {
    let (boards, _) = synth::detector(BankVersion::V5, 0);
    let slot = boards.lanes.iter().position(Lane::is_connected).unwrap();
    let at = lane_at(&boards, 7, slot);
    for bit in (0..32).filter(|&bit| bit != 8) {
        let chan_id = boards.lanes[slot].chan_id ^ 1 << bit;
        let error = Boards::parse(&with_word(&boards.to_bytes(), at, chan_id), "t").unwrap_err();
        assert_bad(&error, &format!("chanID[{slot}]"), at);
    }
    // v5 has half-sectors, v4 has not.
    let mut half = boards.clone();
    half.lanes[slot].chan_id ^= 0x100;
    half.validate("t").unwrap();
    let (mut v4, _) = synth::detector(BankVersion::V4, 0);
    v4.lanes[0].chan_id |= 0x100;
    assert_bad(
        &v4.validate("t").unwrap_err(),
        "chanID[0]",
        lane_at(&v4, 7, 0),
    );
}

#[test]
fn geometries_without_finite_hits_are_errors() {
    let names = [
        "pitch", "dy", "dp0diX", "dp0diY", "dp0diZ", "p0X", "p0Y", "p0Z", "cos", "dxDy",
    ];
    let bytes = synth::detector(BankVersion::V5, 1).1.to_bytes();
    for (i, name) in names.into_iter().enumerate() {
        for value in [
            f32::NAN,
            -f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MAX,
            f32::MIN,
        ] {
            for sector in [0, 17, 1047] {
                let at = 4 + 4 * ((i + 1) * N_SECTORS + sector);
                let error =
                    Geometry::parse(&with_word(&bytes, at, value.to_bits()), "t").unwrap_err();
                assert_bad(&error, &format!("{name}[{sector}]"), at);
            }
        }
    }
    // The weight is 12/pitch².
    let at = 4 + 4 * (N_SECTORS + 3);
    // A pitch of 1e-30 would have a weight of 1.2e61, above the largest `f32`, and 1e30 a weight
    // that becomes 0.
    for pitch in [0.0, -0.0, -0.19, 1e-30, f32::MIN_POSITIVE, 1e30_f32] {
        assert_bad(
            &Geometry::parse(&with_word(&bytes, at, pitch.to_bits()), "t").unwrap_err(),
            "pitch[3]",
            at,
        );
    }
    for first_strip in [513, u32::MAX] {
        assert_bad(
            &Geometry::parse(&with_word(&bytes, 16, first_strip), "t").unwrap_err(),
            "firstStrip[3]",
            16,
        );
    }
}

#[test]
fn tables_made_by_hand_are_checked_too() {
    let (boards, geometry) = synth::detector(BankVersion::V5, 1);
    let mut short = boards.clone();
    short.lanes.pop();
    let error = DetectorTables::new(short.clone(), geometry.clone(), Grouping::YRows).unwrap_err();
    assert!(
        error.file() == "boards" && error.to_string().contains("is 1295"),
        "{error}"
    );
    let mut nan = geometry.clone();
    nan.sectors[3].p0_x = f32::NAN;
    let error = DetectorTables::new(boards.clone(), nan.clone(), Grouping::UniqueX).unwrap_err();
    assert!(error.file() == "geometry", "{error}");
    let mut few = geometry;
    few.sectors.truncate(5);
    assert!(DetectorTables::new(boards, few, Grouping::YRows).is_err());
    // Nor are they written.
    let directory = tempfile::tempdir().unwrap();
    assert!(short.write(directory.path().join("b")).is_err());
    assert!(nan.write(directory.path().join("g")).is_err());
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
}
