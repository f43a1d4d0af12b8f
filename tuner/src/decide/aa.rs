//! The A/A test: a configuration against itself.
//!
//! It answers two questions before a comparison made here is believed: how often does this machine, now, call equals
//! different; and how small a difference could it show in a given time.

use crate::compare::{Dropped, Plan, measure_block, warm_up};
use crate::statistics::{effective_count, mean, student_critical, variance};
use crate::verdict::{Block, Judgement, Method, Rules, Verdict, judge};
use crate::watch::Watch;
use crate::{Config, Device, Failure};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Blocks of one imagined comparison.
const BLOCKS: usize = 10;
/// Imagined comparisons. Each takes blocks in succession and gives the names A and B to the two halves of every pair of
/// rounds again at random: between equals every naming was equally likely.
const COMPARISONS: usize = 1000;
/// Blocks of which nothing could be used, after which the test gives up if there was never another.
const SPOILT: usize = 4;
/// Chance of finding a difference that is called the smallest.
const POWER: f64 = 0.9;

/// Shares of imagined comparisons of equals that were called different, 0..=1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FalseAlarms {
    /// With the rules that were asked for.
    pub rules: f64,
    /// The same without the zone of indifference.
    pub without_zone: f64,
    /// With ALICE's rule.
    pub alice: f64,
}

/// The smallest difference that a comparison of some length shows in nine of ten cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Smallest {
    /// Length of the comparison, s.
    pub seconds: f64,
    /// Blocks it has.
    pub blocks: usize,
    /// The difference, relative; never below the zone of indifference.
    pub difference: f64,
}

/// What an A/A test found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AaReport {
    /// The verdict on all blocks: anything but "same" or "cannot tell" is an alarm.
    pub judgement: Judgement,
    /// Share of false alarms; none with fewer than ten usable blocks.
    pub false_alarms: Option<FalseAlarms>,
    /// Smallest differences; empty with fewer than ten usable blocks.
    pub smallest: Vec<Smallest>,
    /// How long the measurement took, s.
    pub seconds: f64,
    /// Mean time of a launch, ms.
    pub mean_ms: f64,
    /// Standard deviation of the difference of A and B between blocks, relative.
    pub spread: f64,
}

/// Measures `config` against itself for `duration`, and at least ten blocks; less where the first blocks show that every
/// sample has to be discarded.
///
/// # Errors
/// When the configuration cannot be measured.
pub fn aa_test(
    device: &mut dyn Device,
    config: &Config,
    plan: &Plan,
    watch: &mut dyn Watch,
    duration: Duration,
    mut tick: impl FnMut(Duration),
) -> Result<AaReport, Failure> {
    warm_up(device, config, plan.warm_up)?;
    let mut lot = ChaCha8Rng::seed_from_u64(plan.seed);
    let mut blocks = Vec::new();
    let start = Instant::now();
    while blocks.len() < BLOCKS || start.elapsed() < duration {
        let measured = measure_block(device, &[config, config], plan, watch, &mut lot);
        blocks.push(Block::from(measured.map_err(|Dropped { failure, .. }| failure)?));
        tick(start.elapsed());
        if blocks.len() >= SPOILT && blocks.iter().all(|block: &Block| block.a.is_empty()) {
            break;
        }
    }
    Ok(report(&blocks, &plan.rules, start.elapsed().as_secs_f64()))
}

/// What `blocks` of a configuration against itself say; measuring them took `seconds`.
pub fn report(blocks: &[Block], rules: &Rules, seconds: f64) -> AaReport {
    let good: Vec<&Block> = blocks.iter().filter(|block| !block.a.is_empty() && !block.b.is_empty()).collect();
    let differences: Vec<f64> = good.iter().map(|block| mean(&block.b).ln() - mean(&block.a).ln()).collect();
    let launches: Vec<f64> = good.iter().flat_map(|block| block.a.iter().chain(&block.b)).copied().collect();
    // Correlated blocks teach less, and will in the comparisons to come.
    let worth = effective_count(&differences) / differences.len().max(1) as f64;
    let spread = variance(&differences).sqrt();
    let enough = good.len() >= BLOCKS;
    let a_block = seconds / blocks.len().max(1) as f64;
    let smallest = |seconds: f64| {
        let count = ((seconds / a_block) as usize).max(4);
        let freedom = (count as f64 * worth - 1.0).max(1.0);
        let level = 1.0 - rules.confidence;
        let reach = student_critical(level, freedom) + student_critical(2.0 * (1.0 - POWER), freedom);
        let difference = (reach * spread / (count as f64 * worth).sqrt()).exp_m1().max(rules.indifference);
        Smallest { seconds, blocks: count, difference }
    };
    AaReport {
        judgement: judge(blocks, &rules.fixed(blocks.len())),
        false_alarms: enough.then(|| false_alarms(&good, rules)),
        smallest: if enough { [1.0, 3.0, 10.0, 30.0, 100.0].map(smallest).to_vec() } else { Vec::new() },
        seconds,
        mean_ms: mean(&launches),
        spread,
    }
}

fn false_alarms(blocks: &[&Block], rules: &Rules) -> FalseAlarms {
    let mut lot = ChaCha8Rng::seed_from_u64(1);
    let with_zone = rules.fixed(BLOCKS);
    let without = Rules { indifference: 0.0, ..with_zone.clone() };
    let alice = Rules { method: Method::Alice, ..with_zone.clone() };
    let mut counts = [0_usize; 3];
    for _ in 0..COMPARISONS {
        let start = lot.random_range(0..=blocks.len() - BLOCKS);
        let renamed: Vec<Block> = blocks[start..start + BLOCKS].iter().map(|block| rename(block, &mut lot)).collect();
        for (count, rules) in counts.iter_mut().zip([&with_zone, &without, &alice]) {
            *count += usize::from(matches!(judge(&renamed, rules).verdict, Verdict::Better(_)));
        }
    }
    let [rules, without_zone, alice] = counts.map(|count| count as f64 / COMPARISONS as f64);
    FalseAlarms { rules, without_zone, alice }
}

/// The block with A and B of each pair of rounds exchanged or not, at random.
fn rename(block: &Block, lot: &mut ChaCha8Rng) -> Block {
    let mut renamed = block.clone();
    for (a, b) in renamed.a.chunks_mut(2).zip(renamed.b.chunks_mut(2)) {
        if lot.random::<bool>() && a.len() == b.len() {
            a.swap_with_slice(b);
        }
    }
    renamed
}
