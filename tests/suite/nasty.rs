//! Strategies for damaged events, and for batches that contradict themselves.
//!
//! A nasty event is a list of mostly good banks with every corruption of the policy table: other
//! types and versions, sourceIDs of no board, repeated boards, truncated payloads, wrong counts,
//! lanes that are unsorted, repeated, full, or not connected, clusters without charge, and clusters
//! of every size.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use ut_decoding::detector::{BankVersion, Boards};
use ut_decoding::{EventBatch, EventMeta};

use super::events::{Bank, Event, v4_payload, v5_payload};

/// Runs `test` on `cases` cases of `strategy`, or on more if `PROPTEST_CASES` says so. Shrinks a
/// failing case, and panics with it.
pub fn check<S: Strategy>(strategy: &S, cases: u32, test: impl Fn(S::Value) -> Result<(), String>) {
    let wanted =
        std::env::var("PROPTEST_CASES").map_or(0, |cases| cases.parse().expect("a number"));
    let config = Config {
        cases: cases.max(wanted),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let result =
        TestRunner::new(config).run(strategy, |case| test(case).map_err(TestCaseError::fail));
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// Returns a strategy for the hits of a v5 lane, sorted or not, up to the maximum of 254.
fn lane() -> impl Strategy<Value = Vec<(u16, u8)>> {
    let adc = prop_oneof![8 => 1u8..32, 1 => Just(0u8), 1 => Just(31u8)];
    let adc = adc.boxed();
    prop_oneof![
        20 => Just(Vec::new()),
        20 => steps((1u16..300).boxed(), adc.clone(), 4),
        10 => steps(select(vec![1u16, 1, 1, 1, 2, 3, 9]).boxed(), adc.clone(), 40),
        3 => steps(Just(1).boxed(), adc.clone(), 254),
        3 => steps(Just(1).boxed(), Just(0).boxed(), 9),
        3 => steps(select(vec![0u16, 1, 1, 1, 2]).boxed(), adc.clone(), 60),
        3 => vec((0u16..512, adc.clone()), 0..20),
        1 => (0u16..=2).prop_map(|first| (first..first + 254).map(|i| (2 * i, 31)).collect()),
        1 => vec((0u16..512, adc), 254),
        1 => vec(Just((511, 31)), 254),
    ]
}

/// Returns a strategy for good v5 payloads, some with bytes after the last row.
fn good_v5() -> impl Strategy<Value = Vec<u8>> {
    let tail = prop_oneof![9 => Just(Vec::new()), 1 => vec(any::<u8>(), 0..70)];
    ([lane(), lane(), lane(), lane(), lane(), lane()], tail).prop_map(|(lanes, tail)| {
        let mut payload = v5_payload(&lanes);
        payload.extend(tail);
        payload
    })
}

/// Returns a strategy for good v4 payloads: sorted, unsorted and repeated clusters. A lane index
/// may be 6 or 7.
fn good_v4() -> impl Strategy<Value = Vec<u8>> {
    let sorted = vec(any::<u16>(), 0..12).prop_map(|mut words| {
        words.sort_by_key(|word| word >> 2 & 0xFFF);
        words
    });
    let few_channels = vec(
        (0u16..4, 509u16..516).prop_map(|(fraction, channel)| fraction | channel << 2),
        0..30,
    );
    let words = prop_oneof![8 => sorted, 2 => vec(any::<u16>(), 0..20), 1 => few_channels, 1 => vec(any::<u16>(), 300)];
    (words, vec(any::<u8>(), 0..9), any::<u16>()).prop_map(|(words, tail, flags)| {
        let mut payload = v4_payload(&words);
        payload[2..4].copy_from_slice(&flags.to_le_bytes());
        payload.extend(tail);
        payload
    })
}

fn payload(version: BankVersion) -> BoxedStrategy<Vec<u8>> {
    let good = match version {
        BankVersion::V4 => good_v4().boxed(),
        BankVersion::V5 => good_v5().boxed(),
    };
    let cut = (good.clone(), any::<Index>()).prop_map(|(mut payload, end)| {
        payload.truncate(end.index(payload.len() + 1));
        payload
    });
    let lying = (
        good.clone(),
        0usize..8,
        prop_oneof![1 => Just(255u8), 1 => any::<u8>()],
    )
        .prop_map(|(mut payload, at, byte)| {
            if let Some(place) = payload.get_mut(at) {
                *place = byte;
            }
            payload
        });
    prop_oneof![
        30 => good,
        1 => cut,
        1 => lying,
        1 => vec(any::<u8>(), 0..120),
        1 => Just(Vec::new()),
        1 => vec(Just(0u8), 0..40),
    ]
    .boxed()
}

/// Returns a strategy for sourceIDs: boards of the table in both encodings, and some of no board.
fn source_id(boards: &Boards) -> BoxedStrategy<u16> {
    let used: Vec<u16> = (0..boards.strips_per_hybrid.len())
        .filter(|&b| boards.strips_per_hybrid[b] > 0)
        .map(|b| b as u16)
        .collect();
    let n_boards = boards.strips_per_hybrid.len() as u16;
    prop_oneof![
        20 => select(used.clone()),
        20 => select(used).prop_map(|board| 5 << 11 | (board & 1) << 10 | (board / 2 + 1)),
        1 => 0..n_boards + 4,
        1 => any::<u16>(),
        1 => Just(5 << 11),
    ]
    .boxed()
}

fn bank(
    version: BankVersion,
    source_id: impl Strategy<Value = u16>,
) -> impl Strategy<Value = Bank> {
    let kind =
        prop_oneof![40 => Just(66u8), 5 => Just(68u8), 1 => select(vec![67u8, 69, 16, 0, 255])];
    let byte = prop_oneof![40 => Just(version.byte()), 1 => any::<u8>(), 1 => select(vec![3u8, 4])];
    (kind, byte, source_id, payload(version)).prop_map(|(kind, version, source_id, payload)| Bank {
        kind,
        version,
        source_id,
        payload,
    })
}

/// Returns a strategy for nasty events with independent sequences of sourceIDs.
pub fn events(boards: &Boards, n_events: std::ops::Range<usize>) -> BoxedStrategy<Vec<Event>> {
    let version = boards.version;
    let few = vec(bank(version, source_id(boards)), 0..10);
    let many = vec(bank(version, source_id(boards)), 200..260);
    vec(prop_oneof![12 => few, 1 => many], n_events).boxed()
}

/// Returns a strategy for nasty events with a common sequence of sourceIDs, as a MEP batch needs.
pub fn aligned_events(
    boards: &Boards,
    n_events: std::ops::Range<usize>,
) -> BoxedStrategy<Vec<Event>> {
    let version = boards.version;
    prop_oneof![12 => vec(source_id(boards), 0..10), 1 => vec(source_id(boards), 200..260)]
        .prop_flat_map(move |ids| {
            let event: Vec<_> = ids
                .into_iter()
                .map(|id| bank(version, Just(id)).boxed())
                .collect();
            vec(event, n_events.clone())
        })
        .boxed()
}

/// Returns a strategy for events without trouble that are unusual in other ways: empty events and
/// banks, missing boards, boards in any order, lanes from empty to full, clusters without charge
/// and of every size.
pub fn good_events(boards: &Boards, n_events: std::ops::Range<usize>) -> BoxedStrategy<Vec<Event>> {
    let version = boards.version;
    let used: Vec<usize> = (0..boards.strips_per_hybrid.len())
        .filter(|&b| boards.strips_per_hybrid[b] > 0)
        .collect();
    let bank = |connected: [bool; 6]| match version {
        BankVersion::V5 => {
            let lanes = connected.map(|connected| {
                if connected {
                    good_lane().boxed()
                } else {
                    Just(Vec::new()).boxed()
                }
            });
            lanes.prop_map(|lanes| v5_payload(&lanes)).boxed()
        }
        BankVersion::V4 => vec(0u16..6 << 11, 0..16)
            .prop_map(move |mut words| {
                words.retain(|word| connected[usize::from(word >> 11)]);
                words.sort_unstable();
                v4_payload(&words)
            })
            .boxed(),
    };
    let banks: Vec<(u16, BoxedStrategy<Vec<u8>>)> = used
        .iter()
        .map(|&board| {
            let lanes = &boards.lanes[6 * board..][..6];
            let connected = std::array::from_fn(|lane| lanes[lane].chan_id != 0);
            let id = if board % 3 == 0 {
                5 << 11 | (board & 1) << 10 | (board / 2 + 1)
            } else {
                board
            };
            (id as u16, bank(connected))
        })
        .collect();
    prop_oneof![
        4 => proptest::sample::subsequence(banks.clone(), 0..12).prop_shuffle(),
        1 => proptest::sample::subsequence(banks.clone(), 0..=banks.len()).prop_shuffle(),
        1 => Just(banks),
    ]
    .prop_flat_map(move |banks| {
        let event: Vec<_> = banks
            .into_iter()
            .map(|(source_id, payload)| {
                payload
                    .prop_map(move |payload| Bank {
                        kind: 66,
                        version: version.byte(),
                        source_id,
                        payload,
                    })
                    .boxed()
            })
            .collect();
        vec(event, n_events.clone())
    })
    .boxed()
}

/// Returns a strategy for v5 lanes with ascending strips.
fn good_lane() -> impl Strategy<Value = Vec<(u16, u8)>> {
    prop_oneof![
        10 => Just(Vec::new()),
        10 => steps((1u16..300).boxed(), (1u8..32).boxed(), 4),
        10 => steps(select(vec![1u16, 1, 1, 2, 3, 50]).boxed(), (1u8..32).boxed(), 30),
        1 => steps(select(vec![1u16, 1, 1, 2, 3, 50]).boxed(), (0u8..3).boxed(), 30),
        1 => steps(select(vec![1u16, 1, 1, 1, 2]).boxed(), Just(31).boxed(), 253),
        1 => (0u16..=258).prop_map(|first| (first..first + 254).map(|strip| (strip, 31)).collect()),
    ]
}

/// Returns a strategy for lanes of up to `longest` + 1 hits with these steps from strip to strip.
fn steps(
    step: BoxedStrategy<u16>,
    adc: BoxedStrategy<u8>,
    longest: usize,
) -> impl Strategy<Value = Vec<(u16, u8)>> {
    (0u16..512, vec((step, adc), 0..=longest)).prop_map(|(mut strip, steps)| {
        let mut lane = Vec::new();
        for (step, adc) in steps {
            lane.push((strip, adc));
            strip += step;
            if strip > 511 {
                break;
            }
        }
        lane
    })
}

/// Change to a batch, which may make the batch contradict itself.
#[derive(Clone, Debug)]
pub enum Corruption {
    /// A bit of `raw` is flipped; a small index hits a table of banks.
    RawBit(Index, u8),
    /// A word at the start of an event's block gets a new value.
    TableWord(Index, u8, u32),
    /// A word of `offsets`, `sizes`, `types` or `versions` gets a new value.
    Word(u8, Index, u32),
    /// A bit of such a word is flipped.
    WordBit(u8, Index, u8),
    /// `raw` or one of the tables ends early.
    Cut(u8, Index),
    /// The batch has no versions.
    NoVersions,
    /// The container was damaged, or had banks of other detectors.
    Meta(Index, u32, bool),
}

/// Returns a strategy for up to two corruptions.
pub fn corruptions() -> impl Strategy<Value = Vec<Corruption>> {
    let value = || {
        prop_oneof![
            any::<u32>(),
            0u32..600,
            Just(u32::MAX),
            Just(0),
            (0u32..9).prop_map(|n| u32::MAX - n)
        ]
    };
    let one = prop_oneof![
        3 => (any::<Index>(), 0u8..8).prop_map(|(i, bit)| Corruption::RawBit(i, bit)),
        3 => (any::<Index>(), 0u8..12, value()).prop_map(|(i, word, value)| Corruption::TableWord(i, word, value)),
        3 => (0u8..4, any::<Index>(), value()).prop_map(|(table, i, value)| Corruption::Word(table, i, value)),
        3 => (0u8..4, any::<Index>(), 0u8..32).prop_map(|(table, i, bit)| Corruption::WordBit(table, i, bit)),
        2 => (0u8..5, any::<Index>()).prop_map(|(table, i)| Corruption::Cut(table, i)),
        1 => Just(Corruption::NoVersions),
        1 => (any::<Index>(), 0u32..5, any::<bool>()).prop_map(|(i, banks, broken)| Corruption::Meta(i, banks, broken)),
    ];
    vec(one, 0..3)
}

fn table(batch: &mut EventBatch, which: u8) -> &mut Vec<u32> {
    match which {
        0 => &mut batch.offsets,
        1 => &mut batch.sizes,
        2 => &mut batch.types,
        _ => batch.versions.get_or_insert_default(),
    }
}

/// Applies the corruptions in order.
pub fn corrupt(batch: &mut EventBatch, corruptions: &[Corruption]) {
    for corruption in corruptions {
        match corruption {
            Corruption::RawBit(i, bit) => {
                if !batch.raw.is_empty() {
                    let at = i.index(batch.raw.len());
                    batch.raw[at] ^= 1 << bit;
                }
            }
            Corruption::TableWord(i, word, value) => {
                if batch.n_events > 0 {
                    let at = batch
                        .offsets
                        .get(i.index(batch.n_events))
                        .map_or(0, |&at| at as usize)
                        + 4 * usize::from(*word);
                    if let Some(bytes) = batch.raw.get_mut(at..at.saturating_add(4)) {
                        bytes.copy_from_slice(&value.to_le_bytes());
                    }
                }
            }
            Corruption::Word(which, i, value) => {
                let table = table(batch, *which);
                if !table.is_empty() {
                    let at = i.index(table.len());
                    table[at] = *value;
                }
            }
            Corruption::WordBit(which, i, bit) => {
                let table = table(batch, *which);
                if !table.is_empty() {
                    let at = i.index(table.len());
                    table[at] ^= 1 << bit;
                }
            }
            Corruption::Cut(4, i) => {
                let len = i.index(batch.raw.len() + 1);
                batch.raw.truncate(len);
            }
            Corruption::Cut(which, i) => {
                let table = table(batch, *which);
                let len = i.index(table.len() + 1);
                table.truncate(len);
            }
            Corruption::NoVersions => batch.versions = None,
            Corruption::Meta(i, other_banks, broken) => {
                if batch.n_events > 0 {
                    batch.meta.resize(batch.n_events, EventMeta::default());
                    let meta = &mut batch.meta[i.index(batch.n_events)];
                    (meta.other_banks, meta.broken) = (*other_banks, *broken);
                }
            }
        }
    }
}

/// Returns a strategy for arbitrary clustering options, in which small maximum sizes are more
/// frequent than large ones.
pub fn options() -> impl Strategy<Value = ut_decoding::DecodeOptions> {
    use ut_decoding::{Flip, Position};
    let max = prop_oneof![4 => Just(128u32), 2 => Just(4), 4 => 1u32..10, 2 => 200u32..260, 1 => Just(u32::MAX)];
    let position = select(vec![Position::Adc, Position::Geometric]);
    let flip = select(vec![Flip::From512, Flip::From511]);
    (
        prop::bool::weighted(0.8),
        position,
        max,
        any::<bool>(),
        flip,
    )
        .prop_map(|(clustering, position, max, save, flip)| {
            let options = super::backends::up_to(max)
                .with_clustering(clustering)
                .with_position(position);
            options.with_save_above_max(save).with_flip(flip)
        })
}
