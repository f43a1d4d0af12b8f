//! ODIN banks: when and why an event was taken (`docs/format.md`, "ODIN banks").
//!
//! ODIN is LHCb's readout supervisor: it decides which crossings are read out, and sends a bank
//! that says so with each event. Run and event number, time, bunch crossing and trigger type come
//! from there. A bank of an unknown version has none of these; a bank that is too short may still
//! have the numbers.

use super::mdf_format::u32_at;
use crate::named;

/// Facts in an ODIN bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Odin {
    /// Version of the bank. The layouts of 6 and 7 are known.
    pub version: u8,
    /// Run and event number; `None` if the layout is not known, or the bank ends before them.
    pub numbers: Option<(u32, u64)>,
    /// Everything else; `None` if the layout is not known, or the bank is too short.
    pub facts: Option<OdinFacts>,
}

/// Time, place in the LHC's orbit and trigger of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OdinFacts {
    /// UTC in microseconds since 1970; `None` where ODIN had no time, as in simulation.
    pub time: Option<u64>,
    /// Bunch crossing of the orbit, 0…3563.
    pub bcid: u16,
    /// Bunches that crossed.
    pub crossing: Crossing,
    /// Type of the trigger, a number of ODIN's.
    pub trigger_type: u8,
    /// Bits of the event type.
    pub event_type: u16,
    /// Orbit of the LHC, counted within the run.
    pub orbit: u32,
    /// Trigger configuration key.
    pub tck: u32,
    /// Place in a time alignment event (TAE): the central event or a neighbour; `None` if neither.
    pub tae: Option<Tae>,
}

/// Bunches that crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Crossing {
    /// No bunch.
    NoBeam,
    /// Only a bunch of beam 1.
    Beam1,
    /// Only a bunch of beam 2.
    Beam2,
    /// Bunches of both beams.
    BeamCrossing,
}

// In the order of ODIN's numbers.
named!("crossing" Crossing: NoBeam "no-beam", Beam1 "beam1", Beam2 "beam2", BeamCrossing "beam-crossing");

/// Part that an event has in a time alignment event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tae {
    /// The crossing that was triggered.
    Central,
    /// A crossing before or after it.
    Neighbour,
}

named!("part" Tae: Central "central", Neighbour "neighbour");

/// Number of bytes of an ODIN bank of either version.
const WHOLE: usize = 40;

/// The time of an ODIN that has none.
const NO_TIME: u64 = 0xD0DD_0D00_0000_0000;

impl Odin {
    /// Reads a bank; `None` without a version byte.
    pub fn of(version: Option<u8>, payload: &[u8]) -> Option<Self> {
        let version = version?;
        let has = |bytes: usize| payload.len() >= bytes;
        let word = |i: usize| u32_at(payload, 4 * i);
        let (low, high) = (
            |low, high| u64::from(word(high)) << 32 | u64::from(word(low)),
            |high| word(high),
        );
        let bits = |word: u32, from: u32, n: u32| word >> from & ((1 << n) - 1);
        let crossing = |word: u32, from| Crossing::ALL[bits(word, from, 2) as usize];
        let time = |time: u64| Some(time).filter(|&time| time != 0 && time != NO_TIME);
        let (numbers, facts) = match version {
            6 => {
                let facts = has(WHOLE).then(|| {
                    let w = word(8);
                    OdinFacts {
                        time: time(low(6, 5)),
                        bcid: bits(w, 0, 12) as u16,
                        crossing: crossing(w, 22),
                        trigger_type: bits(w, 16, 3) as u8,
                        event_type: word(1) as u16,
                        orbit: word(2),
                        tck: word(9),
                        // The neighbours lie in the same event: only the central one's bank is
                        // read.
                        tae: (bits(w, 12, 3) > 0).then_some(Tae::Central),
                    }
                });
                (has(20).then(|| (high(0), low(4, 3))), facts)
            }
            7 => {
                let facts = has(WHOLE).then(|| {
                    let w = word(6);
                    let (is_central, is_part) =
                        (bits(w, 15, 1) > 0, bits(w, 16, 6) > 0 || bits(w, 27, 1) > 0);
                    OdinFacts {
                        time: time(low(2, 3)),
                        bcid: bits(w, 0, 12) as u16,
                        crossing: crossing(w, 12),
                        trigger_type: bits(w, 23, 4) as u8,
                        event_type: word(1) as u16,
                        orbit: word(7),
                        tck: word(4),
                        tae: if is_central {
                            Some(Tae::Central)
                        } else {
                            is_part.then_some(Tae::Neighbour)
                        },
                    }
                });
                (has(WHOLE).then(|| (high(0), low(8, 9))), facts)
            }
            _ => (None, None),
        };
        Some(Self {
            version,
            numbers,
            facts,
        })
    }
}

/// Returns a time in microseconds since 1970 as ISO 8601 has it, as `2026-02-03T04:05:06.000007Z`.
pub fn utc(time: u64) -> String {
    let (seconds, micros) = (time / 1_000_000, time % 1_000_000);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Counts years that begin in March, so that the leap day comes last, in cycles of 400 years.
    let z = days + 719_468;
    let (cycle, of_cycle) = (z / 146_097, z % 146_097);
    let year = (of_cycle - of_cycle / 1_460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * cycle + year + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Returns the microseconds since 1970 of a UTC time such as `2026-02-03`, `2026-02-03T04:05` or
/// `2026-02-03T04:05:06`.
pub fn from_utc(text: &str) -> Option<u64> {
    let (date, clock) = text
        .strip_suffix('Z')
        .unwrap_or(text)
        .split_once('T')
        .unwrap_or((text, "00:00"));
    let numbers = |text: &str, separator| {
        let part = |part: &str| {
            part.bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| part.parse::<u64>().ok())?
        };
        text.split(separator)
            .map(part)
            .collect::<Option<Vec<u64>>>()
    };
    let (&[year @ 1970..=9999, month @ 1..=12, day @ 1..=31], clock) =
        (&numbers(date, '-')?[..], numbers(clock, ':')?)
    else {
        return None;
    };
    let (&[hour @ 0..=23, minute @ 0..=59] | &[hour @ 0..=23, minute @ 0..=59, 0..=59]) =
        &clock[..]
    else {
        return None;
    };
    let second = clock.get(2).copied().unwrap_or_default();
    // Years that begin in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days =
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    let time = 1_000_000 * (86_400 * days + 3_600 * hour + 60 * minute + second);
    // The 31st of a month of 30 days is the first of the next.
    utc(time)[8..10]
        .parse()
        .is_ok_and(|there: u64| there == day)
        .then_some(time)
}

#[cfg(test)]
mod tests {
    use super::{Crossing, Odin, OdinFacts, Tae, from_utc, utc};

    fn bank(words: [u32; 10]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_bank_that_ends_before_its_numbers_has_none() {
        let bank: Vec<u8> = (0..40).collect();
        let (run, six, seven) = (0x0302_0100, 0x0F0E_0D0C_1312_1110, 0x2726_2524_2322_2120);
        for (version, needed, number) in [(6, 20, six), (7, 40, seven)] {
            for n in 0..=bank.len() {
                let odin = Odin::of(Some(version), &bank[..n]).unwrap();
                assert_eq!(
                    odin.numbers,
                    (n >= needed).then_some((run, number)),
                    "version {version}, {n} bytes"
                );
                assert_eq!(
                    odin.facts.is_some(),
                    n >= 40,
                    "version {version}, {n} bytes"
                );
            }
        }
        for version in [5, 8] {
            assert_eq!(
                Odin::of(Some(version), &bank),
                Some(Odin {
                    version,
                    numbers: None,
                    facts: None
                })
            );
        }
        assert_eq!(Odin::of(None, &bank), None);
    }

    #[test]
    fn each_version_has_its_facts_where_lhcb_puts_them() {
        let time = 1_722_513_600_000_123u64;
        let (high, low) = ((time >> 32) as u32, time as u32);
        let facts = OdinFacts {
            time: Some(time),
            bcid: 3563,
            crossing: Crossing::Beam2,
            trigger_type: 5,
            event_type: 0x8004,
            orbit: 77,
            tck: 0x1000_10AB,
            tae: None,
        };
        let six = |word: u32| {
            bank([
                1,
                0x0003_8004,
                77,
                0,
                9,
                high,
                low,
                0xFFFF_FFFF,
                word,
                0x1000_10AB,
            ])
        };
        let seven = |word: u32| {
            bank([
                1,
                0x0003_8004,
                low,
                high,
                0x1000_10AB,
                0xFFFF_FFFF,
                word,
                77,
                9,
                0,
            ])
        };
        let of_six = 0xDEB | 5 << 16 | 2 << 22 | 0xFF << 24;
        let of_seven = 0xDEB | 2 << 12 | 1 << 14 | 1 << 22 | 5 << 23 | 0xF << 28;
        for (version, payload, tae) in [
            (6, six(of_six), None),
            (6, six(of_six | 3 << 12), Some(Tae::Central)),
            (7, seven(of_seven), None),
            (7, seven(of_seven | 1 << 15 | 1 << 16), Some(Tae::Central)),
            (7, seven(of_seven | 1 << 27), Some(Tae::Neighbour)),
            (7, seven(of_seven | 63 << 16), Some(Tae::Neighbour)),
        ] {
            let odin = Odin::of(Some(version), &payload).unwrap();
            assert_eq!(odin.numbers, Some((1, 9)), "version {version}");
            assert_eq!(
                odin.facts,
                Some(OdinFacts { tae, ..facts }),
                "version {version}"
            );
        }
        // MiniBrunel's: simulation has no time.
        let facts = Odin::of(
            Some(6),
            &bank([6_718_861, 0, 0, 0, 6001, 0, 0, 0, 0x88C2_0000, 0]),
        )
        .unwrap()
        .facts
        .unwrap();
        assert_eq!(
            (facts.time, facts.crossing, facts.trigger_type),
            (None, Crossing::BeamCrossing, 2)
        );
    }

    #[test]
    fn times_are_written_as_dates() {
        for (time, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399_999_999, "2000-02-28T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_722_513_600_000_123, "2024-08-01T12:00:00.000123Z"),
            (1_798_761_599_000_000, "2026-12-31T23:59:59.000000Z"),
        ] {
            assert_eq!(utc(time), expected);
            assert_eq!(
                from_utc(&expected[..19]),
                Some(time / 1_000_000 * 1_000_000)
            );
        }
        assert_eq!(from_utc("2024-08-01"), from_utc("2024-8-1T0:00Z"));
        let wrong = ",2024,2024-08,1969-12-31,2023-02-29,2024-04-31,2024-00-01,2024-13-01,2024-08-01T24:00,2024-08-01T12,\
            2024-08-01T1:2:3:4,2024-08-01T12:00:60,2024-08-01T,+2024-1-1,2024-08-01-1";
        for wrong in wrong.split(',') {
            assert_eq!(from_utc(wrong), None, "{wrong}");
        }
    }
}
