//! Problems met while reading files into batches.

use std::collections::BTreeMap;
use std::path::Path;

use super::event::{Maker, kind};
use super::versions::{FileVersions, Stranger};
use super::{Damage, Odin, Place, RawEvent};
use crate::detector::{DetectorTables, Makers};

/// Number of events whose damage [`Seen`] keeps in words.
const MAX_DAMAGES: usize = 16;

/// Problems met while reading files into batches, and counts by which the events are judged.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Number of events.
    pub events: u64,
    /// The versions of the files that have banks to decode.
    pub files: Vec<FileVersions>,
    /// Number of events with banks to decode that `ut-decode generate` made.
    pub generated: u64,
    /// Number of events with banks to decode that do not bear the mark of `ut-decode generate`.
    pub measured: u64,
    /// Of these, the events that are visibly of another maker: by the mark of a trigger, or by
    /// banks without the mark of `ut-decode generate` where there is no place for a trigger's.
    pub foreign: u64,
    /// Damage of the first few damaged events.
    pub damages: Vec<(Place, Damage)>,
    /// Banks that say that a board of the UT failed, by type.
    pub error_banks: BTreeMap<u8, u64>,
    /// Number of events that were looked at where events are chosen by number or by ODIN's facts.
    pub examined: u64,
    /// Examined events with an event number.
    pub with_number: u64,
    /// Examined events with a time.
    pub with_time: u64,
    /// Examined events with a type of bunch crossing.
    pub with_crossing: u64,
    /// Damaged events that were left out because a run or number was asked for and theirs is
    /// unknown.
    pub unidentified: u64,
}

impl Seen {
    /// Checks that the events belong to the tables.
    ///
    /// # Errors
    /// - If a file has banks, and none of the boards' version: the first such file.
    /// - Unless the tables are [trusted](DetectorTables::is_trusted): if the events or the tables
    ///   are synthetic, and the others are not. Events whose origin cannot be seen belong to any
    ///   detector but the synthetic one.
    pub fn check(&self, tables: &DetectorTables) -> Result<(), Stranger> {
        self.check_makers(tables)?;
        self.files.iter().try_for_each(|file| file.check(tables))
    }

    /// Checks what can be said before all events were seen: who made them, and which format the
    /// banks of dumps have.
    ///
    /// # Errors
    /// Same errors as [`Self::check`], but for files that say the versions of their banks.
    pub fn check_makers(&self, tables: &DetectorTables) -> Result<(), Stranger> {
        let mut dumps = self
            .files
            .iter()
            .filter(|file| file.versions.contains_key(&None));
        dumps.try_for_each(|file| file.check(tables))?;
        let what = match tables.makers() {
            Makers::Synthetic if self.measured > 0 => measured(self.measured),
            Makers::SyntheticOrUnknown | Makers::Unknown if self.foreign > 0 => {
                measured(self.foreign)
            }
            Makers::Detector | Makers::Unknown if self.generated > 0 => format!(
                "ut-decode generate made {} of the events: they belong to its synthetic detector, \
                 but these are the tables of another",
                self.generated
            ),
            _ => return Ok(()),
        };
        Err(Stranger { file: None, what })
    }

    /// Returns what was wrong with the first damaged events, in words.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let damages = self.damages.iter().map(|(place, damage)| {
            // Other messages say it already.
            let cost = if damage.bank.is_some() {
                "; the rest of the event is given up"
            } else {
                ""
            };
            format!("{place}: {damage}{cost}")
        });
        let unidentified = match self.unidentified {
            0 => None,
            1 => Some("1 damaged event was left out: its run or number is unknown".to_owned()),
            n => Some(format!(
                "{n} damaged events were left out: their run or number is unknown"
            )),
        };
        damages.chain(unidentified)
    }

    /// Adds the findings in later events.
    pub fn merge(&mut self, later: Self) {
        self.events += later.events;
        self.generated += later.generated;
        self.measured += later.measured;
        self.foreign += later.foreign;
        self.unidentified += later.unidentified;
        self.examined += later.examined;
        self.with_number += later.with_number;
        self.with_time += later.with_time;
        self.with_crossing += later.with_crossing;
        for (kind, n) in later.error_banks {
            *self.error_banks.entry(kind).or_default() += n;
        }
        for file in later.files {
            let Some(last) = self.files.last_mut().filter(|last| last.file == file.file) else {
                self.files.push(file);
                continue;
            };
            last.merge(&file);
        }
        let room = MAX_DAMAGES - self.damages.len().min(MAX_DAMAGES);
        self.damages.extend(later.damages.into_iter().take(room));
    }

    /// Adds undamaged events of `file`, with the makers of the events that have banks to decode;
    /// `banks` counts the banks by version.
    pub(super) fn add_all(
        &mut self,
        file: &Path,
        events: u64,
        makers: &[Maker],
        banks: &[(Option<u8>, u64)],
    ) {
        self.events += events;
        for &maker in makers {
            self.add_maker(maker);
        }
        if !makers.is_empty() {
            let mut file = self.versions_of(file);
            for &(version, n) in banks {
                file.add(version, n);
            }
            self.files.push(file);
        }
    }

    fn add_maker(&mut self, maker: Maker) {
        *(if maker == Maker::Generate {
            &mut self.generated
        } else {
            &mut self.measured
        }) += 1;
        self.foreign += u64::from(maker == Maker::Other);
    }

    /// Returns the versions of the banks of a file so far, taken out of the list if the file is the
    /// last entry.
    fn versions_of(&mut self, file: &Path) -> FileVersions {
        let known = self.files.pop_if(|last| last.file == file);
        known.unwrap_or_else(|| FileVersions::new(file))
    }

    pub(super) fn add_error_bank(&mut self, kind: u8, source_id: u32) {
        if kind::is_error(kind, source_id) {
            *self.error_banks.entry(kind).or_default() += 1;
        }
    }

    pub(super) fn add(&mut self, event: &RawEvent<'_>) {
        self.events += 1;
        for bank in event.entries {
            self.add_error_bank(bank.kind, bank.source_id);
        }
        let mut banks = event
            .entries
            .iter()
            .filter(|bank| kind::is_decoded(bank.kind))
            .peekable();
        if banks.peek().is_some() {
            self.add_maker(event.maker());
            let mut file = self.versions_of(event.file);
            // Neighbours have the same version: count them together.
            let (mut last, mut n) = (None, 0);
            for bank in banks {
                if last != bank.version {
                    file.add(last, n);
                    (last, n) = (bank.version, 0);
                }
                n += 1;
            }
            file.add(last, n);
            if last.is_none() {
                event
                    .banks()
                    .filter(|bank| kind::is_decoded(bank.kind))
                    .for_each(|bank| file.look(bank.payload));
            }
            self.files.push(file);
        }
        if let Some(damage) = event.damage {
            self.add_damage(damage, || event.place());
        }
    }

    /// Notes the facts of an event by which events are chosen.
    pub(super) fn examine(&mut self, number: Option<u64>, odin: Option<Odin>) {
        let facts = odin.and_then(|odin| odin.facts);
        self.examined += 1;
        self.with_number += u64::from(number.is_some());
        self.with_time += u64::from(facts.is_some_and(|facts| facts.time.is_some()));
        self.with_crossing += u64::from(facts.is_some());
    }

    /// Notes a damaged event that was left out: see [`Self::unidentified`].
    pub(super) fn leave_out(&mut self, damage: &Damage, place: impl FnOnce() -> Place) {
        self.unidentified += 1;
        self.add_damage(damage, place);
    }

    fn add_damage(&mut self, damage: &Damage, place: impl FnOnce() -> Place) {
        if self.damages.len() < MAX_DAMAGES {
            self.damages.push((place(), damage.clone()));
        }
    }
}

fn measured(events: u64) -> String {
    format!(
        "as far as can be seen, ut-decode generate did not make {events} of the events: their hits would be at the places \
         of an invented detector"
    )
}
