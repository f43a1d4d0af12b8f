//! Random batches through every backend for as long as one likes: `tests/soak.sh SECONDS`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use crate::suite::backends::{compare, decode};
use crate::suite::events::{Event, allen_batch, fits_mep, generated_as, mep_batch};
use crate::suite::nasty;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::synth::Profile;
use ut_decoding::{DecodeOptions, DetectorTables, EventBatch, Grouping};

/// What the process may have grown by when it has decoded all batches again, in kB. Between batches nothing is kept.
const GROWTH_KB: u64 = 16 << 10;

fn detectors() -> Vec<DetectorTables> {
    let all = [BankVersion::V4, BankVersion::V5].map(|version| {
        [Grouping::UniqueX, Grouping::YRows].map(|grouping| {
            let (boards, geometry) = ut_decoding::synth::detector(version, 1);
            DetectorTables::new(boards, geometry, grouping).expect("a good detector")
        })
    });
    all.into_iter().flatten().collect()
}

/// Everything that is random about a batch, from its number.
struct Lot(TestRunner);

impl Lot {
    fn new(seed: u64, number: u64) -> Self {
        let seed: Vec<u8> = [seed, number, 0, 0].into_iter().flat_map(u64::to_le_bytes).collect();
        Self(TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &seed)))
    }

    fn draw<S: Strategy>(&mut self, strategy: &S) -> S::Value {
        strategy.new_tree(&mut self.0).expect("nothing is filtered").current()
    }
}

/// Decodes batch `number` on every backend; gives a digest of the reference's hits and report.
fn round(detectors: &[DetectorTables], seed: u64, number: u64) -> u64 {
    let mut lot = Lot::new(seed, number);
    let tables = &detectors[lot.draw(&(0..detectors.len()))];
    let (boards, version) = (tables.boards(), tables.boards().version);
    let options: DecodeOptions = lot.draw(&nasty::options());
    let n = lot.draw(&(0usize..12));
    let events: Vec<Event> = match lot.draw(&(0..4)) {
        0 => lot.draw(&nasty::events(boards, 0..n + 1)),
        1 => lot.draw(&nasty::aligned_events(boards, 0..n + 1)),
        2 => lot.draw(&nasty::good_events(boards, 0..n + 1)),
        _ => {
            let profile = Profile::ALL[lot.draw(&(0..Profile::ALL.len()))];
            generated_as(profile, version, number, n / 3)
        }
    };
    let is_mep = fits_mep(&events) && lot.draw(&(0..2)) == 0;
    let mut batch: EventBatch = if is_mep { mep_batch(&events) } else { allen_batch(&events) };
    if lot.draw(&(0..3)) == 0 {
        let corruptions = lot.draw(&nasty::corruptions());
        nasty::corrupt(&mut batch, &corruptions);
    }
    if let Err(difference) = compare(tables, options, batch.view()) {
        panic!("batch {number} of seed {seed}: {difference}");
    }
    let (hits, report) = decode(&mut ReferenceDecoder::new(tables, options), tables, batch.view());
    let mut digest = DefaultHasher::new();
    (hits.id(), hits.offsets()).hash(&mut digest);
    for column in [hits.x_at_y_eq0(), hits.y_begin(), hits.z_at_y_eq0()] {
        for x in column {
            x.to_bits().hash(&mut digest);
        }
    }
    for event in &report.events {
        event.counts.hash(&mut digest);
    }
    digest.finish()
}

/// Memory of this process, in kB.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

#[test]
#[ignore = "takes as long as UT_DECODE_SOAK_SECONDS says: tests/soak.sh"]
fn random_batches_give_the_same_on_every_backend_and_again_and_take_no_more_memory() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = number("UT_DECODE_SOAK_SECONDS").unwrap_or(60);
    let seed = number("UT_DECODE_SOAK_SEED").unwrap_or(1);
    let detectors = detectors();
    let (begun, half) = (Instant::now(), Duration::from_secs(seconds) / 2);
    let mut digests = Vec::new();
    while begun.elapsed() < half {
        digests.push(round(&detectors, seed, digests.len() as u64));
    }
    let once = resident_kb();
    // Again, the last first: what came before a batch does not matter.
    for (i, digest) in digests.iter().enumerate().rev() {
        assert_eq!(round(&detectors, seed, i as u64), *digest, "batch {i} of seed {seed}, the second time");
    }
    let now = resident_kb();
    println!("{} batches of seed {seed}, twice, in {:?}: {once} kB, then {now} kB", digests.len(), begun.elapsed());
    assert!(now > 0 && now <= once + GROWTH_KB, "from {once} kB to {now} kB");
}
