//! The hit-parallel pipeline: how many events its first kernel decodes, and bugs planted into it.

mod suite;

use suite::backends::decode;
use suite::data::Real;
use suite::events::{allen_batch, mep_batch};
use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::emulated::{EmulatedConfig, EmulatedDecoder};
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::{DecodeOptions, Grouping};

fn config(seed: u64, settings: &[&str]) -> EmulatedConfig {
    let mut config = EmulatedConfig { pipeline: Pipeline::Fused, schedule_seed: seed, ..EmulatedConfig::default() };
    for setting in settings {
        config.launch.set_from(setting).expect("a valid setting");
    }
    config
}

#[test]
fn real_events_are_ordinary_whatever_the_window() {
    for real in [Real::V5, Real::V4] {
        let (Some(tables), Some(events)) = (real.tables(Grouping::YRows), real.events()) else { continue };
        let options = DecodeOptions::default();
        for (seed, settings) in [&[][..], &["fused.strips=256"], &["fused.block_x=64", "fused.strips=512"]].into_iter().enumerate() {
            for batch in [allen_batch(&events[..3]), mep_batch(&events[3..5])] {
                let mut reference = ReferenceDecoder::new(&tables, options);
                let expected = decode(&mut reference, &tables, batch.view());
                let mut decoder = EmulatedDecoder::new(&tables, options, config(seed as u64, settings)).unwrap();
                let got = decode(&mut decoder, &tables, batch.view());
                assert_eq!(got.1.events, expected.1.events, "{real:?} {settings:?} {:?}", batch.layout);
                assert_eq!(got.0.offsets(), expected.0.offsets(), "{real:?} {settings:?}");
                assert_eq!(got.0.id(), expected.0.id(), "{real:?} {settings:?}");
                assert!(got.0 == expected.0, "{real:?} {settings:?}");
                // The second kernel has nothing to do, but for groups that the warps of small windows cannot sort.
                let others = decoder.stats().iter().find(|(name, _)| *name == "decode_others").expect("it ran").1;
                assert!(others.barriers == 0 || settings.iter().any(|setting| setting.contains("strips")), "{real:?}");
            }
        }
    }
}
