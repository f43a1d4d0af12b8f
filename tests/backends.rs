//! One suite for all decoders: whatever is tested here is tested on every backend of `suite::backends::backends`.

mod suite;

use std::num::NonZeroU32;

use suite::backends::{backends, decode};
use suite::data::{Real, expected, rows};
use suite::events::{allen_batch, fits_mep, mep_batch};
use ut_decoding::backend::Kind;
use ut_decoding::{DecodeOptions, Flip, Grouping, Position};

fn up_to(max: u32) -> DecodeOptions {
    DecodeOptions { max_cluster_size: NonZeroU32::new(max).expect("not 0"), ..DecodeOptions::default() }
}

#[test]
fn real_events_give_the_expected_bits() {
    let plain = DecodeOptions::default();
    let files = [
        (Real::V4, 0..3, Grouping::YRows, plain, "v4_events0-2_y-rows.csv"),
        (Real::V4, 0..3, Grouping::UniqueX, plain, "v4_events0-2_unique-x.csv"),
        (Real::V5, 0..3, Grouping::YRows, plain, "v5_events0-2_y-rows.csv"),
        (Real::V5, 0..3, Grouping::UniqueX, plain, "v5_events0-2_unique-x.csv"),
        (
            Real::V5,
            0..1,
            Grouping::YRows,
            DecodeOptions { flip: Flip::From511, ..plain },
            "v5_event0_flip511_y-rows.csv",
        ),
        (
            Real::V5,
            0..1,
            Grouping::YRows,
            DecodeOptions { position: Position::Geometric, ..plain },
            "v5_event0_geometric_y-rows.csv",
        ),
        (Real::V5, 0..1, Grouping::YRows, up_to(4), "v5_event0_max4_y-rows.csv"),
        (
            Real::V5,
            0..1,
            Grouping::YRows,
            DecodeOptions { save_above_max: true, ..up_to(4) },
            "v5_event0_max4_saveabove_y-rows.csv",
        ),
        (
            Real::V5,
            0..1,
            Grouping::YRows,
            DecodeOptions { clustering: false, ..plain },
            "v5_event0_unclustered_y-rows.csv",
        ),
    ];
    for (real, range, grouping, options, name) in files {
        let (Some(tables), Some(events), Some(expected)) = (real.tables(grouping), real.events(), expected(name))
        else {
            return;
        };
        let events = &events[range];
        assert!(fits_mep(events), "real events have one sequence of sourceIDs");
        for batch in [allen_batch(events), mep_batch(events)] {
            for (backend, make) in backends() {
                let (hits, report) = decode(&mut *make(&tables, options), &tables, batch.view());
                let got = rows(&hits);
                if let Some(i) = (0..got.len().max(expected.len())).find(|&i| got.get(i) != expected.get(i)) {
                    panic!(
                        "{backend}, {:?}, {name}, row {i}: {:?} and not {:?}",
                        batch.layout,
                        got.get(i),
                        expected.get(i)
                    );
                }
                assert!(!report.has_trouble(), "{backend}: {:?}", report.totals(Kind::Trouble).collect::<Vec<_>>());
            }
        }
    }
}
