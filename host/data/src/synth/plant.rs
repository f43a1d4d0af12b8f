//! Parts of the synthetic detector that fail, for those who learn to see it and for tests of what
//! finds it.
//!
//! A description is `PART[/STRIPS]:AILMENT[/EVERY][@EVENTS]`. `lane=4.1/0-63:hot/10@500-999` adds a
//! hit to one of the first 64 strips of lane 1 of board 4, in the events 500, 510, … and 990.
//!
//! A planted fault of a sector, lane or board leaves the strips of all other parts as they are:
//! each plant draws from separate random numbers, and not from the event's. So a comparison of two
//! files of one seed shows the fault and nothing else. (In v4 banks the neighbour sums change, too;
//! no decoder reads them.)

use std::ops::RangeInclusive;
use std::str::FromStr;

use super::corrupt::Payload;
use super::encode::Strip;
use super::spectra::Dice;
use crate::detector::{BankVersion, LANES_PER_BOARD, STRIPS_PER_SECTOR, parse_board, parse_sector};
use crate::input::kind;
use crate::named;

/// A part that fails in some events; as `sector=112/0-127:dead@12000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plant {
    /// The part.
    pub part: Part,
    /// Strips of each of its sectors.
    pub strips: RangeInclusive<u16>,
    /// Kind of failure.
    pub ailment: Ailment,
    /// Number of events of which the first fails: 1 if all do.
    pub every: u64,
    /// Events in which the part fails.
    pub events: RangeInclusive<u64>,
}

/// Part of the detector or of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Sector id, 0…1047.
    Sector(u16),
    /// Board, and its lane, 0…5.
    Lane(u16, u16),
    /// Board.
    Board(u16),
    /// The whole detector.
    All,
    /// The ODIN bank.
    Odin,
}

/// Ways in which parts fail.
///
/// The order is by the parts that can fail, and matters: sectors and lanes, then boards, then the
/// whole detector, then ODIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ailment {
    /// The strips have no hits.
    Dead,
    /// The strips lose half of their clusters.
    Quiet,
    /// The strips have one more hit per event, of an ordinary charge.
    Hot,
    /// The charges of the strips are halved.
    Half,
    /// The charges of the strips are 0.8 of what they were.
    Weak,
    /// The strips of each sector have four more hits per event, of little charge.
    Noise,
    /// One bit of each charge, 4, is always set.
    Stuck,
    /// Each charge is the highest, 31.
    Full,
    /// The board sends no bank.
    Missing,
    /// The board sends the bank of the event before the first failing one.
    Repeat,
    /// The bank says that the board reported an error.
    Error,
    /// The bank lacks its second half.
    Truncated,
    /// The bank has the version of another format.
    Version,
    /// The events have twice as many hits.
    Busy,
    /// The events have fewer and fewer hits: in the last one half as many.
    Fade,
    /// There is no ODIN bank.
    None,
    /// The ODIN bank ends after the run number.
    Short,
    /// The ODIN bank has a version that no one knows.
    Layout,
    /// The run number belongs to the next run.
    Run,
    /// Odd events have the number of the event before.
    Number,
    /// The bunch crossing is not one of the LHC's.
    Crossing,
    /// The type of the crossing is another one than in the other events.
    Type,
}

named!("ailment" Ailment: Dead "dead", Quiet "quiet", Hot "hot", Half "half", Weak "weak", Noise "noise",
    Stuck "stuck", Full "full", Missing "missing", Repeat "repeat", Error "error", Truncated "truncated",
    Version "version", Busy "busy", Fade "fade", None "none", Short "short", Layout "layout", Run "run",
    Number "number", Crossing "crossing", Type "type");

impl Ailment {
    /// Returns true if a part can fail in this way.
    fn is_of(self, part: Part) -> bool {
        match self as usize {
            n if n < Self::Missing as usize => part != Part::Odin,
            n if n < Self::Busy as usize => matches!(part, Part::Board(_) | Part::All),
            n if n < Self::None as usize => part == Part::All,
            _ => part == Part::Odin,
        }
    }

    /// Changes the hits of a sector on the strips of `part`.
    pub(super) fn act(self, strips: &mut Vec<Strip>, part: &RangeInclusive<u16>, dice: &mut Dice) {
        let width = u32::from(part.end() - part.start()) + 1;
        let any_strip = |dice: &mut Dice| part.start() + dice.below(width) as u16;
        let mut charge = |change: &dyn Fn(u8) -> u8| {
            strips
                .iter_mut()
                .filter(|(strip, _)| part.contains(strip))
                .for_each(|(_, adc)| *adc = change(*adc));
        };
        match self {
            Self::Dead => strips.retain(|(strip, _)| !part.contains(strip)),
            Self::Quiet => {
                // Neighbouring strips are one hit, which stays or goes.
                let (mut last, mut stays) = (None, true);
                strips.retain(|&(strip, _)| {
                    if !part.contains(&strip) {
                        return true;
                    }
                    if last.replace(strip).is_none_or(|last| last + 1 != strip) {
                        stays = dice.below(2) == 0;
                    }
                    stays
                });
            }
            Self::Half => charge(&|adc| (adc / 2).max(1)),
            Self::Weak => charge(&|adc| (adc * 4 / 5).max(1)),
            Self::Stuck => charge(&|adc| adc | 4),
            Self::Full => charge(&|_| 31),
            Self::Hot => strips.push((any_strip(dice), dice.adc(1))),
            Self::Noise => {
                strips.extend((0..4).map(|_| (any_strip(dice), 1 + dice.below(3) as u8)));
            }
            _ => {}
        }
        // Stable: a strip that had a hit keeps it.
        strips.sort_by_key(|&(strip, _)| strip);
        strips.dedup_by_key(|&mut (strip, _)| strip);
    }

    /// Changes a bank of a format; `before` is the payload that was sent before the failure.
    /// Returns false if the bank is not sent at all.
    pub(super) fn spoil(self, bank: &mut Payload, format: BankVersion, before: Vec<u8>) -> bool {
        match self {
            Self::Repeat => bank.bytes = before,
            Self::Error => bank.kind = kind::UT_ERROR,
            Self::Truncated => bank.bytes.truncate(bank.bytes.len() / 2),
            Self::Version => {
                let other = if format == BankVersion::V5 {
                    BankVersion::V4
                } else {
                    BankVersion::V5
                };
                bank.version = other.byte();
            }
            _ => {}
        }
        self != Self::Missing
    }
}

impl Plant {
    /// Returns true if the part fails in this event.
    pub fn fails_in(&self, event: u64) -> bool {
        self.events.contains(&event) && (event - self.events.start()).is_multiple_of(self.every)
    }

    /// Returns the factor by which the failure multiplies the hits per event.
    pub(super) fn activity(&self, event: u64) -> f64 {
        match self.ailment {
            Ailment::Busy => 2.0,
            Ailment::Fade => {
                let (first, last) = (*self.events.start() as f64, *self.events.end() as f64);
                1.0 - 0.5 * (event as f64 - first) / (last - first).max(1.0)
            }
            _ => 1.0,
        }
    }
}

/// Parses `FIRST-LAST`, or `N` for both; a missing last one is `open`.
fn range<T: FromStr + Copy + PartialOrd>(
    text: &str,
    open: Option<T>,
    most: T,
) -> Option<RangeInclusive<T>> {
    let number = |text: &str| text.parse().ok().filter(|&n: &T| n <= most);
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, open.or_else(|| number(text))?),
    };
    (first <= last).then_some(first..=last)
}

impl FromStr for Part {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let board = |text: &str| {
            let board = parse_board(text).ok().filter(|&n| n < BOARDS);
            board.map(|n| n as u16).ok_or(())
        };
        match text.split_once('=') {
            None if text == "all" => Ok(Self::All),
            None if text == "odin" => Ok(Self::Odin),
            Some(("sector", n)) => Ok(Self::Sector(parse_sector(n).map_err(|_| ())?)),
            Some(("board", n)) => Ok(Self::Board(board(n)?)),
            Some(("lane", of)) => {
                let (of_board, lane) = of.split_once('.').ok_or(())?;
                let lane: u16 = lane.parse().map_err(|_| ())?;
                let is_there = usize::from(lane) < LANES_PER_BOARD;
                Ok(Self::Lane(
                    board(of_board)?,
                    is_there.then_some(lane).ok_or(())?,
                ))
            }
            _ => Err(()),
        }
    }
}

/// Number of boards of the synthetic detector, used or not, in the format that has more.
const BOARDS: u32 = 240;

impl FromStr for Plant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            format!(
                "{text:?} is not as sector=112:dead@12000, sector=112/0-127:half@100-200, board=4:error/7, lane=4.1:hot, \
                 all:busy@100-120 or odin:none, of {}",
                Ailment::NAMES.join(", ")
            )
        };
        let parse = || {
            let (part, rest) = text.split_once(':')?;
            let (what, events) = rest.split_once('@').unwrap_or((rest, "0"));
            let (ailment, every) = what.split_once('/').unwrap_or((what, "1"));
            let (part, strips) = part.split_once('/').unwrap_or((part, "0-511"));
            let (part, ailment): (Part, Ailment) = (part.parse().ok()?, ailment.parse().ok()?);
            let events = range(events, Some(u64::MAX), u64::MAX)?;
            let is_whole = ailment == Ailment::Fade && *events.end() == u64::MAX;
            (ailment.is_of(part) && !is_whole).then_some(())?;
            Some(Self {
                part,
                strips: range(strips, None, STRIPS_PER_SECTOR as u16 - 1)?,
                ailment,
                every: every.parse().ok().filter(|&every| every > 0)?,
                events,
            })
        };
        parse().ok_or_else(form)
    }
}

#[cfg(test)]
mod tests {
    use ut_format::bank::COUNT_BYTES;

    use super::{Ailment, Part, Plant};
    use crate::detector::{BankVersion, sector_id};
    use crate::input::{Crossing, Odin};
    use crate::synth::corrupt::Payload;
    use crate::synth::{Generator, Profile, cabling};

    fn sick(plant: &str) -> Generator {
        Generator::new(Profile::PpNominal, BankVersion::V5, 3).plant(vec![plant.parse().unwrap()])
    }

    #[test]
    fn planted_faults_are_parsed() {
        for (text, part, strips, ailment, every, events) in [
            (
                "sector=112:dead@12000",
                Part::Sector(112),
                0..=511,
                Ailment::Dead,
                1,
                12_000..=u64::MAX,
            ),
            (
                "sector=1047/128-255:half@3-4",
                Part::Sector(1047),
                128..=255,
                Ailment::Half,
                1,
                3..=4,
            ),
            (
                "lane=12.5/511:hot",
                Part::Lane(12, 5),
                511..=511,
                Ailment::Hot,
                1,
                0..=u64::MAX,
            ),
            (
                "board=4:error/7@2",
                Part::Board(4),
                0..=511,
                Ailment::Error,
                7,
                2..=u64::MAX,
            ),
            (
                "all:fade@0-99",
                Part::All,
                0..=511,
                Ailment::Fade,
                1,
                0..=99,
            ),
            (
                "odin:none",
                Part::Odin,
                0..=511,
                Ailment::None,
                1,
                0..=u64::MAX,
            ),
        ] {
            assert_eq!(
                text.parse(),
                Ok(Plant {
                    part,
                    strips,
                    ailment,
                    every,
                    events
                })
            );
        }
        let wrong = "sector=112,sector=1048:dead,sector=1:ded,sector=1/9-8:dead,sector=1/512:dead,lane=1:dead,sector=1:dead@,,\
            sector=1:dead@5-4,sector=1:missing,odin:dead,board=240:dead,lane=1.6:dead,board=1:error/0,all:fade,board=1:busy";
        for wrong in wrong.split(',') {
            let error = wrong.parse::<Plant>().unwrap_err();
            assert!(
                error.contains("dead, quiet, hot, half, weak, noise"),
                "{wrong}: {error}"
            );
        }
    }

    #[test]
    fn planted_strips_fail_in_their_events_and_no_others_do() {
        let healthy = Generator::new(Profile::PpNominal, BankVersion::V5, 3);
        let boards = cabling::boards(BankVersion::V5);
        let ailments = [
            "dead", "noise", "half", "quiet", "hot", "weak", "stuck", "full",
        ];
        for what in ailments.map(|what| format!("sector=112/0-127:{what}@50-69")) {
            let sick = sick(&what);
            let mut differ = 0;
            for event in 40..80 {
                let (healthy, sick) = (healthy.event(event), sick.event(event));
                for (board, _) in healthy
                    .banks
                    .iter()
                    .zip(&sick.banks)
                    .enumerate()
                    .filter(|(_, (a, b))| a != b)
                {
                    differ += 1;
                    let of_part = boards.lanes[6 * board..][..6]
                        .iter()
                        .any(|lane| sector_id(lane) == Some(112));
                    assert!(
                        (50..70).contains(&event) && of_part,
                        "{what}, event {event}, board {board}"
                    );
                }
            }
            assert!(differ > 0, "{what}");
        }
    }

    #[test]
    fn a_lane_that_fails_is_a_part_of_its_board() {
        let healthy = Generator::new(Profile::PpNominal, BankVersion::V5, 3);
        for what in ["lane=0.2:dead", "board=0:dead"] {
            let (healthy, sick) = (healthy.event(0), sick(what).event(0));
            assert_eq!(
                healthy
                    .banks
                    .iter()
                    .zip(&sick.banks)
                    .filter(|(a, b)| a != b)
                    .count(),
                1,
                "{what}"
            );
            let counts = |bank: &[u8]| COUNT_BYTES.map(|at| bank[at]);
            let (before, after) = (counts(&healthy.banks[0].1), counts(&sick.banks[0].1));
            let expected = if what.starts_with("lane") {
                before.map(|n| if n == before[2] { 0 } else { n })
            } else {
                [0; 6]
            };
            assert!(
                after == expected && before[2] > 0,
                "{what}: {before:?} {after:?}"
            );
        }
    }

    #[test]
    fn boards_fail_in_the_way_that_is_asked_for() {
        let spoiled = |what: &str, event: u64| {
            let generator = sick(&format!("board=7:{what}"));
            let bank = |(source_id, bytes)| Payload {
                source_id,
                kind: 66,
                version: 4,
                bytes,
            };
            let mut banks: Vec<Payload> =
                generator.event(event).banks.into_iter().map(bank).collect();
            generator.spoil(event, &mut banks);
            banks
        };
        let whole = spoiled("error@9", 8);
        assert_eq!(spoiled("missing@9", 8), whole);
        assert_eq!(spoiled("missing", 8).len(), whole.len() - 1);
        let bank = |what: &str, event| spoiled(what, event)[7].clone();
        assert_eq!(
            (
                bank("error/7@1", 8).kind,
                bank("error/7@1", 9).kind,
                bank("version", 8).version
            ),
            (68, 66, 3)
        );
        assert_eq!(
            bank("truncated", 8).bytes,
            whole[7].bytes[..whole[7].bytes.len() / 2]
        );
        assert!(bank("repeat@9", 9) == whole[7] && bank("repeat@9", 30) == whole[7]);
    }

    #[test]
    fn odin_gives_times_orbits_and_crossings_until_it_fails() {
        let generator = Generator::new(Profile::PpLow, BankVersion::V5, 3);
        let odin = |generator: &Generator, event| {
            let (version, bytes) = generator.event(event).odin?;
            Odin::of(Some(version), &bytes)
        };
        let facts = |event| odin(&generator, event).unwrap().facts.unwrap();
        for event in 1..200 {
            let (before, after) = (facts(event - 1), facts(event));
            assert!(before.time.unwrap() < after.time.unwrap() && before.orbit < after.orbit);
            assert!((1..=3564).contains(&after.bcid) && after.crossing == Crossing::BeamCrossing);
        }
        let fails = |what: &str| odin(&sick(&format!("odin:{what}@5")), 5);
        assert_eq!(
            (fails("none"), fails("short").unwrap().numbers),
            (None, None)
        );
        assert!(fails("layout").unwrap().version > 7);
        assert_eq!(
            fails("run").unwrap().numbers.unwrap().0,
            odin(&generator, 5).unwrap().numbers.unwrap().0 + 1
        );
        assert_eq!(fails("number").unwrap().numbers.unwrap().1, 4);
        assert!(fails("crossing").unwrap().facts.unwrap().bcid > 3564);
        assert_ne!(
            fails("type").unwrap().facts.unwrap().crossing,
            Crossing::BeamCrossing
        );
    }
}
