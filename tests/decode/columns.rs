//! Clusters and detector columns of hits, and hits one by one: against an example worked out by
//! hand.

use std::collections::BTreeMap;

use crate::suite::backends::{backends, gives_clusters};
use crate::suite::events::{
    Bank, Event, allen_batch, generated, tables, tables_in, v4_payload, v5_payload,
};
use ut_decoding::decoder::Hit;
use ut_decoding::detector::{BankVersion, SectorPlace, Slot};
use ut_decoding::output::{DetectorColumn, NULL};
use ut_decoding::{
    BatchReport, BatchView, DecodeError, DecodeOptions, DetectorTables, Grouping, LhcbId, UtHits,
};

/// Decodes a batch with clusters on each backend that supports them, and checks that the hits are
/// equal.
fn decode(tables: &DetectorTables, options: DecodeOptions, batch: BatchView<'_>) -> UtHits {
    let mut first: Option<UtHits> = None;
    for (name, make) in backends()
        .into_iter()
        .filter(|(name, _)| gives_clusters(name))
    {
        let mut hits = UtHits::with_capacity(batch.n_events, tables.n_groups(), batch.max_hits())
            .with_clusters();
        make(tables, options)
            .decode(batch, &mut hits, &mut BatchReport::new())
            .expect("it fits");
        let first = first.get_or_insert_with(|| hits.clone());
        assert!(*first == hits, "{name}");
    }
    first.expect("a backend")
}

/// Returns the board and the lane of a v5 lane that reads a whole sector, and of one that reads the
/// second half of a sector.
fn whole_and_half(tables: &DetectorTables) -> [(u16, usize); 2] {
    let slot = |test: fn(&SectorPlace, u32) -> bool| {
        let of_slot = |slot: usize| tables.places()[usize::from(tables.slots()[slot].sector)];
        let connected = |slot: &usize| tables.slots()[*slot].is_connected();
        let mut slots = (0..tables.slots().len()).filter(connected);
        let slot = slots
            .find(|&slot| test(&of_slot(slot), tables.slots()[slot].chan_id))
            .expect("there is one");
        ((slot / 6) as u16, slot % 6)
    };
    [
        slot(|place, _| place.lanes[0] == place.lanes[1]),
        slot(|_, chan_id| chan_id & 0x100 != 0),
    ]
}

#[test]
fn a_bank_gives_the_columns_worked_out_by_hand() {
    let tables = tables(BankVersion::V5);
    let [whole, half] = whole_and_half(&tables);
    // Cluster of three: Σ 8 + 16 + 4 = 28, mean (10·8 + 11·16 + 12·4) / 28 = 304 / 28 = 10.86,
    // rounded 11; one of one.
    let of_whole = vec![(10, 8), (11, 16), (12, 4), (20, 31)];
    // Two: Σ 1 + 2 = 3, mean (400 + 802) / 3 = 400.67, rounded 401. The last two strips, both
    // without neighbours.
    let of_half = vec![(400, 1), (401, 2), (509, 3), (511, 5)];
    let expected = [
        (whole, vec![(11, 28, 3, 10), (20, 31, 1, 20)]),
        (
            half,
            vec![(401, 3, 2, 400), (509, 3, 1, 509), (511, 5, 1, 511)],
        ),
    ];
    let mut events: BTreeMap<u16, [Vec<(u16, u8)>; 6]> = BTreeMap::new();
    for ((board, lane), strips) in [(whole, of_whole), (half, of_half)] {
        events.entry(board).or_default()[lane] = strips;
    }
    let event: Event = events
        .iter()
        .map(|(&board, lanes)| Bank::new(BankVersion::V5, board, v5_payload(lanes)))
        .collect();
    let hits = decode(
        &tables,
        DecodeOptions::default(),
        allen_batch(&[event]).view(),
    );
    assert_eq!(hits.len(), 5);
    let columns: BTreeMap<_, _> = DetectorColumn::ALL
        .map(|column| (column.name(), column.values(&tables, &hits)))
        .into();
    for ((board, lane), clusters) in expected {
        let wired = tables.boards().lanes[usize::from(board) * 6 + lane];
        for (strip, charge, n_strips, first_strip) in clusters {
            let i = (0..5)
                .find(|&i| columns["strip"][i] == strip)
                .expect("the cluster's strip");
            let got = |name: &str| columns[name][i];
            assert_eq!(
                [got("charge"), got("n_strips"), got("first_strip")],
                [charge, n_strips, first_strip]
            );
            assert_eq!((got("board"), usize::from(got("lane"))), (board, lane));
            let place = ["sector", "module", "face", "stave", "layer", "side"]
                .map(|name| u32::from(got(name)));
            assert_eq!(
                place,
                [
                    wired.sector,
                    wired.module,
                    wired.face,
                    wired.stave,
                    wired.layer,
                    wired.side
                ]
            );
            let sector = ut_decoding::detector::sector_id(&wired).expect("a sector");
            assert_eq!(got("sector_id"), sector);
            assert_eq!(
                got("flipped") == 1,
                tables.geometry().sectors[usize::from(sector)].p0_z < 0.0
            );
            let Hit { id, cluster, .. } = hits.hit(i);
            let cluster = cluster.expect("it was asked for");
            assert_eq!(
                (cluster.charge(), u16::from(cluster.n_strips())),
                (charge, n_strips)
            );
            assert_eq!(cluster.first_strip(), first_strip);
            assert!(id.is_ut() && id.channel().strip() == strip, "{id:?}");
        }
    }
}

#[test]
fn v4_banks_have_no_clusters_and_all_other_columns() {
    let tables = tables(BankVersion::V4);
    let slot = tables
        .slots()
        .iter()
        .position(Slot::is_connected)
        .expect("a connected lane");
    let payload = v4_payload(&[((512 * (slot % 6) + 77) as u16) << 2 | 3]);
    let events = [vec![Bank::new(BankVersion::V4, (slot / 6) as u16, payload)]];
    let hits = decode(
        &tables,
        DecodeOptions::default(),
        allen_batch(&events).view(),
    );
    assert!(hits.len() == 1 && hits.clusters().is_none());
    assert_eq!(hits.hit(0).cluster, None);
    for column in DetectorColumn::ALL {
        let values = column.values(&tables, &hits);
        assert_eq!(
            values == [NULL],
            column.needs_clusters(),
            "{}",
            column.name()
        );
    }
    assert_eq!(DetectorColumn::Strip.values(&tables, &hits), [77]);
    assert_eq!(
        DetectorColumn::Board.values(&tables, &hits),
        [(slot / 6) as u16]
    );
    assert_eq!(
        DetectorColumn::Lane.values(&tables, &hits),
        [(slot % 6) as u16]
    );
}

#[test]
fn backends_without_clusters_name_the_backends_that_have_them() {
    let tables = tables(BankVersion::V5);
    let batch = allen_batch(&generated(BankVersion::V5, 1));
    let mut refused = 0;
    for (name, make) in backends()
        .into_iter()
        .filter(|(name, _)| !gives_clusters(name))
    {
        let mut hits =
            UtHits::with_capacity(1, tables.n_groups(), batch.view().max_hits()).with_clusters();
        let result = make(&tables, DecodeOptions::default()).decode(
            batch.view(),
            &mut hits,
            &mut BatchReport::new(),
        );
        let Err(error @ DecodeError::NoClusters) = result else {
            panic!("{name}: {result:?}")
        };
        assert!(error.to_string().contains("reference and cpu"), "{error}");
        refused += 1;
    }
    assert!(refused > 0, "the emulated backend is always there");
}

#[test]
fn hits_come_by_event_by_layer_and_by_group() {
    for grouping in Grouping::ALL {
        let tables = tables_in(BankVersion::V5, grouping);
        let batch = allen_batch(&generated(BankVersion::V5, 3));
        let hits = decode(&tables, DecodeOptions::default(), batch.view());
        assert_eq!(hits.iter().len(), hits.len());
        assert!(
            hits.iter()
                .rev()
                .map(|hit| hit.id)
                .eq((0..hits.len()).rev().map(|i| LhcbId(hits.id()[i])))
        );
        let mut all = Vec::new();
        for event in 0..hits.n_events() {
            let of_event: Vec<Hit> = hits.of_event(event).collect();
            let by_layer: Vec<Hit> = (0..4)
                .flat_map(|layer| hits.of_layer(event, layer, &tables))
                .collect();
            let by_group: Vec<Hit> = (0..tables.n_groups())
                .flat_map(|group| hits.of_group(event, group))
                .collect();
            assert!(of_event == by_layer && of_event == by_group);
            for layer in 0..4 {
                let mut of_layer = hits.of_layer(event, layer, &tables);
                assert!(
                    of_layer.len() > 0
                        && of_layer.all(|hit| usize::from(hit.id.channel().layer()) == layer)
                );
            }
            all.extend(of_event);
        }
        assert!(all.into_iter().eq(hits.iter()));
        let layers = tables.layers();
        assert_eq!(
            (layers.len(), layers[0], layers[layers.len() - 1]),
            (tables.n_groups(), 0, 3)
        );
        assert!((0..4).all(|layer| {
            tables
                .groups_of_layer(layer)
                .all(|group| layers[group] == layer)
        }));
        assert!(tables.groups_of_layer(4).is_empty());
    }
}
