//! The committed PTX of the fused pipeline, run on a machine that understands it: the same bits as the reference.
//!
//! Blocks run one after the other, in turned orders: the block that another looks back at has ended. What happens while
//! blocks wait for each other is the executor's to test.

use super::decoder::PtxDecoder;
use crate::suite::backends::decode;
use crate::suite::data::{Real, rows};
use crate::suite::events::{Event, allen_batch, fits_mep, mep_batch};
use crate::suite::nasty;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use ut_decoding::decoder::launch::LaunchParams;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::synth::{self, Generator, Profile};
use ut_decoding::{BatchView, DecodeOptions, DetectorTables, Grouping};

fn params(assignments: &[&str]) -> LaunchParams {
    let mut params = LaunchParams::default();
    for assignment in assignments {
        params.set_from(assignment).expect("a valid assignment");
    }
    params
}

fn compare(
    tables: &DetectorTables,
    options: DecodeOptions,
    params: LaunchParams,
    batch: BatchView<'_>,
    turn: u32,
) -> Result<(), String> {
    let (expected, expected_report) = decode(&mut ReferenceDecoder::new(tables, options), tables, batch);
    let (hits, report) = decode(&mut PtxDecoder::fused(tables, options, params, turn), tables, batch);
    let case = format!("{options:?}, {:?}, turn {turn}", batch.layout);
    if report.events != expected_report.events {
        return Err(format!("{case}: {:?}\nand not\n{:?}", report.events, expected_report.events));
    }
    if hits.offsets() != expected.offsets() || rows(&hits) != rows(&expected) {
        return Err(format!("{case}: hits differ"));
    }
    Ok(())
}

/// Tables and events of both formats: made up, and real as far as the shared data are there.
fn detectors() -> impl Iterator<Item = (DetectorTables, Vec<Event>)> {
    let made_up = [BankVersion::V4, BankVersion::V5].into_iter().map(|version| {
        let (boards, geometry) = synth::detector(version, 1);
        let bank =
            |(source_id, payload)| crate::suite::events::Bank { kind: 66, version: version.byte(), source_id, payload };
        let events = Generator::new(Profile::PpNominal, version, 1).take(3);
        let events = events.map(|event| event.banks.into_iter().map(bank).collect()).collect();
        let tables = DetectorTables::new(boards, geometry, Grouping::UniqueX).expect("they go together");
        (tables, events)
    });
    let real = [Real::V4, Real::V5].into_iter();
    made_up.chain(real.filter_map(|real| Some((real.tables(Grouping::YRows)?, real.events()?))))
}

#[test]
fn events_come_out_as_from_the_reference_whatever_is_kept() {
    let assignments: [&[&str]; 3] = [
        &[],
        &["fused.block_x=64", "fused.tile=0", "fused.stage=0"],
        &["fused.block_x=1024", "fused.tile=768", "fused.stage=2048", "fused.count_first=1", "scan.block_x=32"],
    ];
    for (tables, events) in detectors() {
        let events = &events[..3];
        assert!(fits_mep(events), "one sequence of sourceIDs");
        for (turn, assignments) in assignments.into_iter().enumerate() {
            let (params, options) = (params(assignments), DecodeOptions::default());
            compare(&tables, options, params, allen_batch(events).view(), turn as u32).unwrap();
            compare(&tables, options, params, mep_batch(&events[1..]).view(), 5).unwrap();
        }
    }
}

#[test]
fn nasty_and_corrupted_events_do_what_the_reference_does_and_nothing_out_of_bounds() {
    for (tables, _) in detectors().take(2) {
        let config = Config { cases: 16, failure_persistence: None, ..Config::default() };
        let strategy = (nasty::aligned_events(tables.boards(), 1..4), nasty::corruptions(), nasty::options());
        let result = TestRunner::new(config).run(&strategy, |(events, corruptions, options)| {
            for mut batch in [allen_batch(&events), mep_batch(&events)] {
                nasty::corrupt(&mut batch, &corruptions);
                for assignments in
                    [&["fused.block_x=96"][..], &["fused.block_x=32", "fused.tile=64", "fused.stage=512"]]
                {
                    let params = params(assignments);
                    compare(&tables, options, params, batch.view(), 3).map_err(TestCaseError::fail)?;
                }
            }
            Ok(())
        });
        assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}
