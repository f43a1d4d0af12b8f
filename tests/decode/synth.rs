//! The synthetic detector and its events against the figures that they have to match.

use std::collections::BTreeMap;

use ut_decoding::detector::{BankVersion, Boards, Geometry, LANES_PER_BOARD, sector_id};
use ut_decoding::synth::{self, Generator, Profile, SynthEvent};

use crate::suite::data::needed;

#[test]
#[ignore = "needs the real events: UT_DECODE_DATA"]
fn synthetic_sectors_are_where_real_sectors_are() {
    let real = Geometry::read(needed("tables/ut_geometry_sim10.bin")).unwrap();
    for version in [0, 1] {
        let (_, synthetic) = synth::detector(BankVersion::V5, version);
        assert_eq!(synthetic.version, version);
        for (id, (s, r)) in synthetic.sectors.iter().zip(&real.sectors).enumerate() {
            for (name, s, r, tolerance) in [
                ("p0X", s.p0_x, r.p0_x, 0.05),
                ("p0Y", s.p0_y, r.p0_y, 0.05),
                ("p0Z", s.p0_z, r.p0_z, 0.05),
                ("dy", s.dy, r.dy, 1e-4),
                ("pitch", s.pitch, r.pitch, 1e-6),
                ("dp0diX", s.dp0di_x, r.dp0di_x, 1e-6),
                ("dp0diY", s.dp0di_y, r.dp0di_y, 1e-6),
                ("dp0diZ", s.dp0di_z, r.dp0di_z, 0.0),
                ("cos", s.cos, r.cos, 1e-6),
                ("dxDy", s.dx_dy, r.dx_dy, 1e-6),
            ] {
                assert!(
                    (s - r).abs() <= tolerance,
                    "{name} of sector {id}: {s}, really {r}"
                );
            }
            assert_eq!(s.first_strip, r.first_strip, "first strip of sector {id}");
            assert_eq!(s.is_flipped(), r.is_flipped(), "flip of sector {id}");
        }
        assert_eq!(
            synthetic.sectors.iter().filter(|s| s.is_flipped()).count(),
            524
        );
    }
}

/// Sector → lanes that read it.
fn lanes_of_sectors(boards: &Boards) -> BTreeMap<u16, Vec<u32>> {
    let mut lanes: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for lane in boards.lanes.iter().filter(|lane| lane.is_connected()) {
        lanes
            .entry(sector_id(lane).unwrap())
            .or_default()
            .push(lane.chan_id);
    }
    lanes
}

/// Adds up to the real detector: two lanes read each of 144 sectors, a half each, and one lane
/// reads each of the other 904, which makes 904 + 2 * 144 = 1,192 lanes. The second half has bit 8
/// of its channel set, as its strips begin at 256.
#[test]
fn on_v5_boards_one_lane_or_two_half_lanes_read_every_sector() {
    let (boards, _) = synth::detector(BankVersion::V5, 0);
    boards.validate("synthetic").unwrap();
    assert_eq!(boards.n_boards(), 216);
    let lanes = lanes_of_sectors(&boards);
    assert_eq!(lanes.len(), 1048);
    assert_eq!(lanes.values().map(Vec::len).sum::<usize>(), 1192);
    let two: Vec<_> = lanes.values().filter(|lanes| lanes.len() == 2).collect();
    assert_eq!(two.len(), 144);
    assert!(
        two.iter()
            .all(|lanes| lanes[0] & 0x100 == 0 && lanes[1] == lanes[0] | 0x100)
    );
    assert!(
        lanes
            .values()
            .filter(|lanes| lanes.len() == 1)
            .all(|lanes| lanes[0].trailing_zeros() >= 9)
    );
}

#[test]
fn v4_boards_read_every_sector_once_with_180_of_240_ids() {
    let (boards, _) = synth::detector(BankVersion::V4, 0);
    boards.validate("synthetic").unwrap();
    assert_eq!(boards.n_boards(), 240);
    assert_eq!(
        boards
            .strips_per_hybrid
            .iter()
            .filter(|&&strips| strips == 512)
            .count(),
        180
    );
    let lanes = lanes_of_sectors(&boards);
    assert_eq!(lanes.len(), 1048);
    assert!(lanes.values().all(|lanes| lanes.len() == 1));
    for (board, lanes) in boards.lanes.chunks(LANES_PER_BOARD).enumerate() {
        assert_eq!(
            lanes[0].is_connected(),
            boards.strips_per_hybrid[board] == 512
        );
    }
}

/// Reads the hits of the lanes of a v5 payload, as plainly as possible.
fn v5_lanes(payload: &[u8]) -> [Vec<(u16, u16)>; 6] {
    std::array::from_fn(|lane| {
        (0..usize::from(payload[[4, 5, 6, 7, 0, 1][lane]]))
            .map(|i| {
                let at = 8 + 2 * (16 * (i / 2) + 2 * (5 - lane) + i % 2);
                let word = u16::from_le_bytes([payload[at], payload[at + 1]]);
                (word >> 5, word & 31)
            })
            .collect()
    })
}

/// Sums over generated events, from the bytes of their banks and not from the library's decoder, so
/// that a mistake that decoder and generator share shows here.
#[derive(Default)]
struct Figures {
    events: f64,
    strips: f64,
    clusters: f64,
    lanes: f64,
    bytes: f64,
    adc: f64,
    strips_of_events: Vec<usize>,
    lane_hits: BTreeMap<usize, f64>,
    sizes: BTreeMap<usize, f64>,
}

impl Figures {
    fn of(events: impl Iterator<Item = SynthEvent>) -> Self {
        let mut f = Self::default();
        for event in events {
            f.events += 1.0;
            let mut strips = 0;
            for (_, payload) in &event.banks {
                f.bytes += payload.len() as f64;
                for hits in v5_lanes(payload).iter().filter(|hits| !hits.is_empty()) {
                    f.lanes += 1.0;
                    strips += hits.len();
                    *f.lane_hits.entry(hits.len()).or_default() += 1.0;
                    f.adc += hits.iter().map(|&(_, adc)| f64::from(adc)).sum::<f64>();
                    for cluster in hits.chunk_by(|a, b| a.0 + 1 == b.0) {
                        f.clusters += 1.0;
                        *f.sizes.entry(cluster.len()).or_default() += 1.0;
                    }
                }
            }
            f.strips += strips as f64;
            f.strips_of_events.push(strips);
        }
        f
    }

    fn percent(of: &BTreeMap<usize, f64>, range: std::ops::RangeInclusive<usize>) -> f64 {
        100.0 * of.range(range).map(|(_, n)| n).sum::<f64>() / of.values().sum::<f64>()
    }
}

#[test]
fn nominal_events_have_the_figures_of_minimum_bias_events() {
    for seed in [1, 2] {
        let f = Figures::of(Generator::new(Profile::PpNominal, BankVersion::V5, seed).take(300));
        let rows = [
            ("strips", f.strips / f.events, 1705.0, 0.05 * 1705.0),
            ("clusters", f.clusters / f.events, 1132.0, 0.05 * 1132.0),
            ("lanes with hits", f.lanes / f.events, 604.0, 0.05 * 604.0),
            ("bytes of payload", f.bytes / f.events, 16.1e3, 0.1 * 16.1e3),
            ("mean ADC", f.adc / f.strips, 18.0, 1.5),
            (
                "% of lanes with 1 hit",
                Figures::percent(&f.lane_hits, 1..=1),
                40.0,
                3.0,
            ),
            (
                "% of lanes with 2 hits",
                Figures::percent(&f.lane_hits, 2..=2),
                23.0,
                3.0,
            ),
            (
                "% of lanes with 3 hits",
                Figures::percent(&f.lane_hits, 3..=3),
                13.0,
                3.0,
            ),
            (
                "% of lanes with 4 hits",
                Figures::percent(&f.lane_hits, 4..=4),
                8.0,
                3.0,
            ),
            (
                "% of lanes with 5 hits",
                Figures::percent(&f.lane_hits, 5..=5),
                5.0,
                3.0,
            ),
            (
                "% of lanes with 16 hits or more",
                Figures::percent(&f.lane_hits, 16..=254),
                1.0,
                0.7,
            ),
            (
                "% of clusters of 1 strip",
                Figures::percent(&f.sizes, 1..=1),
                74.0,
                3.0,
            ),
            (
                "% of clusters of 2 strips",
                Figures::percent(&f.sizes, 2..=2),
                17.0,
                3.0,
            ),
            (
                "% of clusters of 3 strips",
                Figures::percent(&f.sizes, 3..=3),
                5.0,
                3.0,
            ),
            (
                "% of clusters of 4 strips or more",
                Figures::percent(&f.sizes, 4..=512),
                4.0,
                3.0,
            ),
        ];
        for (name, value, wanted, tolerance) in rows {
            assert!(
                (value - wanted).abs() <= tolerance,
                "seed {seed}: {name}: {value}, not {wanted}"
            );
        }
        let (least, most) = (
            f.strips_of_events.iter().min().unwrap(),
            f.strips_of_events.iter().max().unwrap(),
        );
        assert!(
            (300..=700).contains(least) && (2800..=4500).contains(most),
            "strips of an event: {least}–{most}"
        );
        let largest = *f.sizes.last_key_value().unwrap().0;
        assert!((50..=100).contains(&largest), "largest cluster: {largest}");
    }
}

#[test]
fn profiles_have_the_documented_mean_strip_counts() {
    for (profile, wanted) in [
        (Profile::PpLow, 603.0),
        (Profile::PpNominal, 1716.0),
        (Profile::PpHigh, 4189.0),
        (Profile::PbpbLow, 5930.0),
        (Profile::PbpbHigh, 19864.0),
    ] {
        let f = Figures::of(Generator::new(profile, BankVersion::V5, 1).take(150));
        assert!(
            (f.strips / f.events / wanted - 1.0).abs() < 0.05,
            "{profile}: {} strips",
            f.strips / f.events
        );
    }
}

#[test]
fn events_depend_on_seed_and_index_alone() {
    for version in [BankVersion::V4, BankVersion::V5] {
        let generator = Generator::new(Profile::PpLow, version, 9);
        let in_order: Vec<_> = generator.clone().take(4).collect();
        let backwards: Vec<_> = (0..4).rev().map(|i| generator.event(i)).collect();
        assert!(in_order.iter().eq(backwards.iter().rev()));
        assert_ne!(in_order[0].banks, in_order[1].banks);
        assert_ne!(
            in_order[0].banks,
            Generator::new(Profile::PpLow, version, 10).event(0).banks
        );
        assert_eq!(in_order[3].event, 3);
    }
}
