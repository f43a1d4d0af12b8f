//! Parts of the synthetic detector that fail, for those who learn to see it and for tests of what finds it.

use std::ops::RangeInclusive;
use std::str::FromStr;

use super::encode::Strip;
use super::spectra::Dice;
use crate::detector::{N_SECTORS, STRIPS_PER_SECTOR};
use crate::named;

/// Strips of a sector that fail: all, a chip's, or one; as `sector=112:dead@12000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plant {
    /// Sector id, 0…1047.
    pub sector: u16,
    /// The strips.
    pub strips: RangeInclusive<u16>,
    /// Kind of failure.
    pub ailment: Ailment,
    /// Events in which the strips fail.
    pub events: RangeInclusive<u64>,
}

/// Ways in which strips fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ailment {
    /// The strips have no hits.
    Dead,
    /// The strips lose half of their hits.
    Quiet,
    /// The strips have one more hit an event, of an ordinary charge.
    Hot,
    /// The charges of the strips are halved.
    Half,
    /// The strips have four more hits an event, of little charge.
    Noise,
}

named!("ailment" Ailment: Dead "dead", Quiet "quiet", Hot "hot", Half "half", Noise "noise");

impl Ailment {
    /// Changes the hits of a sector on the strips of `part`.
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

/// Parses `FIRST-LAST`, or `N` for both; a missing last one is `open`.
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
        let names = Ailment::NAMES.join(", ");
        let form = || format!("{text:?} is not as sector=112:dead@12000 or sector=112/0-127:half@100-200: {names}");
        let parse = || {
            let (part, rest) = text.strip_prefix("sector=")?.split_once(':')?;
            let (ailment, events) = rest.split_once('@').unwrap_or((rest, "0"));
            let (sector, strips) = part.split_once('/').unwrap_or((part, "0-511"));
            Some(Self {
                sector: sector.parse().ok().filter(|&sector| usize::from(sector) < N_SECTORS)?,
                strips: range(strips, None, STRIPS_PER_SECTOR as u16 - 1)?,
                ailment: ailment.parse().ok()?,
                events: range(events, Some(u64::MAX), u64::MAX)?,
            })
        };
        parse().ok_or_else(form)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ailment, Plant};
    use crate::detector::{BankVersion, sector_id};
    use crate::synth::{Generator, Profile, cabling};

    #[test]
    fn plants_are_read_as_they_are_meant() {
        for (text, sector, strips, ailment, events) in [
            ("sector=112:dead@12000", 112, 0..=511, Ailment::Dead, 12_000..=u64::MAX),
            ("sector=1047/128-255:half@3-4", 1047, 128..=255, Ailment::Half, 3..=4),
            ("sector=0/511:hot", 0, 511..=511, Ailment::Hot, 0..=u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Plant { sector, strips, ailment, events }));
        }
        let wrong = "sector=112,sector=1048:dead,sector=1:ded,sector=1/9-8:dead,sector=1/512:dead,lane=1:dead,sector=1:dead@,,sector=1:dead@5-4";
        for wrong in wrong.split(',') {
            let error = wrong.parse::<Plant>().unwrap_err();
            assert!(error.contains("dead, quiet, hot, half, noise"), "{wrong}: {error}");
        }
    }

    #[test]
    fn planted_strips_fail_in_their_events_and_no_others_do() {
        let healthy = Generator::new(Profile::PpNominal, BankVersion::V5, 3);
        let boards = cabling::boards(BankVersion::V5);
        for what in ["112:dead@50-69", "112/0-127:noise@50-69", "112:half@50-69", "112:quiet@50-69", "112:hot@50-69"] {
            let sick = healthy.clone().plant(vec![format!("sector={what}").parse().unwrap()]);
            let mut differ = 0;
            for event in 40..80 {
                let (healthy, sick) = (healthy.event(event), sick.event(event));
                for (board, _) in healthy.banks.iter().zip(&sick.banks).enumerate().filter(|(_, (a, b))| a != b) {
                    differ += 1;
                    let of_part = boards.lanes[6 * board..][..6].iter().any(|lane| sector_id(lane) == Some(112));
                    assert!((50..70).contains(&event) && of_part, "{what}, event {event}, board {board}");
                }
            }
            assert!(differ > 0, "{what}");
        }
    }
}
