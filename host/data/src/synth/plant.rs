//! Parts of the synthetic detector that fail, for those who learn to see it and for tests of what finds it.

use std::ops::RangeInclusive;
use std::str::FromStr;

use super::encode::Strip;
use super::spectra::Dice;
use crate::detector::{N_SECTORS, STRIPS_PER_SECTOR};

/// A failing part, as `sector=112:dead@12000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plant {
    /// The part.
    pub part: Part,
    /// What is wrong with it.
    pub ailment: Ailment,
    /// Events in which it is.
    pub events: RangeInclusive<u64>,
}

/// Part of the detector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Strips of a sector: all, a chip's, or one.
    Sector(u16, RangeInclusive<u16>),
    /// All that a board reads.
    Board(u8),
}

/// Ways in which a part fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ailment {
    /// It has no hits.
    Dead,
    /// It loses half of its hits.
    Quiet,
    /// It has one more hit an event, of an ordinary charge.
    Hot,
    /// Its charges are halved.
    Half,
    /// It has four more hits an event, of little charge.
    Noise,
}

impl Ailment {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Dead, Self::Quiet, Self::Hot, Self::Half, Self::Noise];

    /// Returns its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Quiet => "quiet",
            Self::Hot => "hot",
            Self::Half => "half",
            Self::Noise => "noise",
        }
    }

    /// Changes those of a sector's strips that are the part's.
    pub(super) fn act(self, strips: &mut Vec<Strip>, part: &RangeInclusive<u16>, dice: &mut Dice) {
        let mut add = |n: u32, adc: &dyn Fn(&mut Dice) -> u8| {
            for _ in 0..n {
                let strip = part.start() + dice.below(u32::from(part.end() - part.start()) + 1) as u16;
                strips.push((strip, adc(dice)));
            }
        };
        match self {
            Self::Dead => strips.retain(|(strip, _)| !part.contains(strip)),
            Self::Quiet => strips.retain(|(strip, _)| !part.contains(strip) || dice.below(2) == 0),
            Self::Half => {
                for (_, adc) in strips.iter_mut().filter(|(strip, _)| part.contains(strip)) {
                    *adc = (*adc / 2).max(1);
                }
            }
            Self::Hot => add(1, &|dice| dice.adc(1)),
            Self::Noise => add(4, &|dice| 1 + dice.below(3) as u8),
        }
        // Stable: a strip that had a hit keeps it.
        strips.sort_by_key(|&(strip, _)| strip);
        strips.dedup_by_key(|&mut (strip, _)| strip);
    }
}

/// Parses `FIRST-LAST`, or `N` for both; `open` is the last one if it is missing.
fn range<T: FromStr + Copy + PartialOrd>(text: &str, open: Option<T>, most: T) -> Option<RangeInclusive<T>> {
    let number = |text: &str| text.parse().ok().filter(|&n: &T| n <= most);
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, open.or_else(|| number(text))?),
    };
    (first <= last).then_some(first..=last)
}

impl FromStr for Plant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            format!(
                "{text:?} is not as sector=112:dead@12000, sector=112/0-127:half or board=17:quiet@100-200, with one of {}",
                Ailment::ALL.map(Ailment::name).join(", ")
            )
        };
        let parse = || {
            let (part, rest) = text.split_once(':')?;
            let (ailment, events) = rest.split_once('@').unwrap_or((rest, "0"));
            let part = match part.split_once('=')? {
                ("sector", sector) => {
                    let (sector, strips) = sector.split_once('/').unwrap_or((sector, "0-511"));
                    let sector = sector.parse().ok().filter(|&sector| usize::from(sector) < N_SECTORS)?;
                    Part::Sector(sector, range(strips, None, STRIPS_PER_SECTOR as u16 - 1)?)
                }
                ("board", board) => Part::Board(board.parse().ok()?),
                _ => return None,
            };
            let ailment = Ailment::ALL.into_iter().find(|other| other.name() == ailment)?;
            Some(Self { part, ailment, events: range(events, Some(u64::MAX), u64::MAX)? })
        };
        parse().ok_or_else(form)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ailment, Part, Plant};
    use crate::detector::BankVersion;
    use crate::synth::{Generator, Profile, cabling};

    #[test]
    fn plants_are_read_as_they_are_meant() {
        let all = 0..=u64::MAX;
        for (text, part, ailment, events) in [
            ("sector=112:dead@12000", Part::Sector(112, 0..=511), Ailment::Dead, 12_000..=u64::MAX),
            ("sector=1047/128-255:half@3-4", Part::Sector(1047, 128..=255), Ailment::Half, 3..=4),
            ("sector=0/511:hot", Part::Sector(0, 511..=511), Ailment::Hot, all.clone()),
            ("board=17:quiet", Part::Board(17), Ailment::Quiet, all),
        ] {
            assert_eq!(text.parse(), Ok(Plant { part, ailment, events }));
        }
        for wrong in [
            "",
            "sector=112",
            "sector=1048:dead",
            "sector=1:ded",
            "sector=1/9-8:dead",
            "sector=1/512:dead",
            "board=x:dead",
            "lane=1:dead",
            "sector=1:dead@",
            "sector=1:dead@5-4",
            "board=256:dead",
        ] {
            let error = wrong.parse::<Plant>().unwrap_err();
            assert!(error.contains("dead, quiet, hot, half, noise"), "{wrong}: {error}");
        }
    }

    #[test]
    fn planted_parts_fail_in_their_events_and_no_other_part_does() {
        let (seed, version) = (3, BankVersion::V5);
        let healthy = Generator::new(Profile::PpNominal, version, seed);
        let boards = cabling::boards(version);
        for what in [
            "sector=112:dead@5-6",
            "sector=112/0-127:noise@5-6",
            "board=7:half@5-6",
            "board=7:quiet@5-6",
            "board=7:hot@5-6",
        ] {
            let plant: Plant = what.parse().unwrap();
            let sick = healthy.clone().plant(vec![plant.clone()]);
            let mut differ = 0;
            for event in 4..8 {
                let (a, b) = (healthy.event(event), sick.event(event));
                for (board, (a, b)) in a.banks.iter().zip(&b.banks).enumerate() {
                    let lanes = &boards.lanes[6 * board..][..6];
                    let is_of_part = match plant.part {
                        Part::Board(of) => board == usize::from(of),
                        Part::Sector(of, _) => lanes.iter().any(|lane| crate::detector::sector_id(lane) == Some(of)),
                    };
                    differ += usize::from(a != b);
                    assert!(
                        a == b || plant.events.contains(&event) && is_of_part,
                        "{what}, event {event}, board {board}"
                    );
                }
            }
            assert!(differ > 0, "{what}");
        }
    }
}
