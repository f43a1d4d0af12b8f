//! The account of loss: how much of the data that was there did not become hits, or became hits
//! that cannot be trusted.
//!
//! The two kinds are counted together, since both mean that the result is not what the detector
//! measured. Banks that were dropped (a wrong version, a truncated payload) are missing hits; banks
//! with unsorted strips, or banks of a board that came twice, give hits that may be wrong. Each
//! lost bank, strip or cluster has one cause, so that the causes add up to the loss.

use std::fmt;

use bytemuck::{Pod, Zeroable};

use super::{Count, EventReport};
use crate::input::EventMeta;

/// Reason why data were lost, or why their hits cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// Banks of an event whose checksum does not match.
    Checksum,
    /// Banks of an event or packet that was given up because its container contradicts itself.
    Damage,
    /// Banks of another version than the tables.
    WrongVersion,
    /// Banks shorter than their contents.
    Truncated,
    /// Banks with a lane count of 255.
    BadHeader,
    /// Banks of a board that the tables do not have.
    UnknownBoard,
    /// Banks more than boards, and banks of a board that had sent one already.
    Repeated,
    /// Banks with a lane whose strips do not ascend.
    UnsortedLane,
    /// Banks of a board that reported an error, and banks in place of a fragment that the read-out
    /// lost.
    Error,
    /// Strips on a lane that nothing is connected to.
    UnconnectedLane,
    /// Clusters without charge.
    ZeroCharge,
}

/// Number of causes.
const N_CAUSES: usize = 11;

impl Cause {
    /// All causes.
    pub const ALL: [Self; N_CAUSES] = [
        Self::Checksum,
        Self::Damage,
        Self::WrongVersion,
        Self::Truncated,
        Self::BadHeader,
        Self::UnknownBoard,
        Self::Repeated,
        Self::UnsortedLane,
        Self::Error,
        Self::UnconnectedLane,
        Self::ZeroCharge,
    ];

    /// Returns the name in JSON and Python.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Checksum => "checksum",
            Self::Damage => "damage",
            Self::WrongVersion => "wrong_version",
            Self::Truncated => "truncated",
            Self::BadHeader => "bad_header",
            Self::UnknownBoard => "unknown_board",
            Self::Repeated => "repeated",
            Self::UnsortedLane => "unsorted_lane",
            Self::Error => "error",
            Self::UnconnectedLane => "unconnected_lane",
            Self::ZeroCharge => "zero_charge",
        }
    }

    /// Returns a description in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Checksum => "wrong checksum",
            Self::Damage => "damaged event",
            Self::WrongVersion => "wrong version",
            Self::Truncated => "short or truncated",
            Self::BadHeader => "bad header",
            Self::UnknownBoard => "unknown board",
            Self::Repeated => "surplus or repeated bank",
            Self::UnsortedLane => "unsorted lane",
            Self::Error => "board reported in error",
            Self::UnconnectedLane => "unconnected lane",
            Self::ZeroCharge => "zero charge",
        }
    }
}

/// Number of lost things, with the number of all things.
///
/// ```
/// use ut_data::hits::LostPart;
///
/// assert_eq!(LostPart { lost: 54, of: 216 }.share(), 0.25);
/// assert_eq!(LostPart::default().share(), 0.0);
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct LostPart {
    /// Number of lost things.
    pub lost: u64,
    /// Number of all things, including lost ones.
    pub of: u64,
}

impl LostPart {
    /// Returns the lost share, 0 to 1; 0 of nothing.
    pub fn share(self) -> f64 {
        if self.lost == 0 {
            0.0
        } else {
            self.lost as f64 / self.of as f64
        }
    }

    fn add(&mut self, lost: u64, of: u64) {
        self.lost += lost.min(of);
        self.of += of;
    }
}

/// Account of what was there and what was lost (`docs/policy.md`, "Loss"); accounts of parts of a
/// job add up.
///
/// An event is lost if none of its UT banks was decoded. A bank is lost if it gives no hits because
/// of a fault, or hits that cannot be trusted. Masked strips, banks of other types, clusters above
/// the maximum size and events without UT banks are not loss.
///
/// ```
/// use ut_data::hits::{Cause, Count, EventReport, Loss};
/// use ut_data::EventMeta;
///
/// let mut report = EventReport::default();
/// report.add(Count::Banks, 3);
/// report.add(Count::Truncated, 1);
/// let loss = Loss::of_event(&report, &EventMeta::default(), 40);
/// assert_eq!(loss.to_string(), "1 of 4 banks (25 %): short or truncated");
/// assert_eq!((loss.share(), loss.by(Cause::Truncated)), (0.25, 1));
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Loss {
    /// Events with UT banks.
    pub events: LostPart,
    /// UT banks.
    pub banks: LostPart,
    /// Strips (v5) or cluster words (v4) of the decoded banks.
    pub strips: LostPart,
    /// Clusters of the strips.
    pub clusters: LostPart,
    by_cause: [u64; N_CAUSES],
}

/// Number of the [numbers](Loss::numbers) of a [`Loss`].
pub const N_LOSS: usize = 8 + N_CAUSES;

impl Loss {
    /// Returns the account of an event with this report and `hits` hits, before a mask.
    pub fn of_event(report: &EventReport, meta: &EventMeta, hits: u64) -> Self {
        let mut loss = Self::default();
        let n = |count: Count| u64::from(report.get(count));
        let decoded = n(Count::Banks);
        // Banks that give no hits.
        let gone = [
            (
                if meta.bad_checksum {
                    Cause::Checksum
                } else {
                    Cause::Damage
                },
                u64::from(meta.lost_banks),
            ),
            (Cause::WrongVersion, n(Count::WrongVersion)),
            (Cause::Truncated, n(Count::Short) + n(Count::Truncated)),
            (Cause::BadHeader, n(Count::BadHeader)),
            (Cause::UnknownBoard, n(Count::UnknownBoard)),
            (Cause::Repeated, n(Count::SurplusBanks)),
            (Cause::Error, u64::from(meta.lost_fragments)),
        ];
        let mut lost = 0;
        for (cause, banks) in gone {
            loss.by_cause[cause as usize] += banks;
            lost += banks;
        }
        let mut there = decoded + lost;
        // The event ended early, and the number of its banks is unknown: count one.
        let unknown = n(Count::BrokenEvent) > 0 && meta.lost_banks == 0;
        if unknown {
            loss.by_cause[Cause::Damage as usize] += 1;
            (lost, there) = (lost + 1, there + 1);
        }
        // Decoded banks whose hits cannot be trusted; one that is here for several reasons counts
        // for the first.
        let mut left = decoded;
        for (cause, banks) in [
            (Cause::Error, u64::from(meta.error_banks)),
            (Cause::Repeated, n(Count::RepeatedBoard)),
            (Cause::UnsortedLane, n(Count::UnsortedLanes)),
        ] {
            let banks = banks.min(left);
            loss.by_cause[cause as usize] += banks;
            left -= banks;
        }
        loss.banks.add(lost + decoded - left, there);
        loss.events
            .add(u64::from(decoded == 0), u64::from(there > 0));
        let unconnected = n(Count::UnconnectedHits);
        loss.by_cause[Cause::UnconnectedLane as usize] = unconnected;
        loss.strips.add(unconnected, n(Count::Strips) + unconnected);
        let without_charge = n(Count::ZeroChargeClusters);
        loss.by_cause[Cause::ZeroCharge as usize] = without_charge;
        loss.clusters.add(without_charge, hits + without_charge);
        loss
    }

    /// Adds the account of other events.
    pub fn merge(&mut self, other: &Self) {
        let (mut numbers, theirs) = (self.numbers(), other.numbers());
        numbers
            .iter_mut()
            .zip(theirs)
            .for_each(|(mine, theirs)| *mine = mine.saturating_add(theirs));
        *self = Self::of_numbers(numbers);
    }

    /// Returns what was lost for this cause: clusters for [`Cause::ZeroCharge`], strips for
    /// [`Cause::UnconnectedLane`], banks for the others.
    pub const fn by(&self, cause: Cause) -> u64 {
        self.by_cause[cause as usize]
    }

    /// Returns the account as numbers, which add up as accounts do: lost events, events, lost
    /// banks, banks, lost strips, strips, lost clusters, clusters, then what was lost for each of
    /// [`Cause::ALL`].
    pub fn numbers(&self) -> [u64; N_LOSS] {
        bytemuck::cast(*self)
    }

    /// Returns the account of its [numbers](Self::numbers).
    pub fn of_numbers(numbers: [u64; N_LOSS]) -> Self {
        bytemuck::cast(numbers)
    }

    /// Returns the largest of the lost shares of events, banks, strips and clusters, 0 to 1.
    pub fn share(&self) -> f64 {
        [self.events, self.banks, self.strips, self.clusters]
            .into_iter()
            .map(LostPart::share)
            .fold(0.0, f64::max)
    }

    /// Returns true if no more was lost than was there, as in the account of any data.
    pub fn is_sound(&self) -> bool {
        [self.events, self.banks, self.strips, self.clusters]
            .into_iter()
            .all(|part| part.lost <= part.of)
    }

    /// Returns true if nothing was lost.
    pub const fn is_none(&self) -> bool {
        self.events.lost + self.banks.lost + self.strips.lost + self.clusters.lost == 0
    }

    /// Returns the parts that were lost, largest share first.
    fn parts(&self) -> impl Iterator<Item = (LostPart, &'static str, &'static [Cause])> {
        let (of_banks, [unconnected, zero_charge]) = Cause::ALL.split_at(N_CAUSES - 2) else {
            return Vec::new().into_iter();
        };
        let mut parts = vec![
            (self.banks, "bank", of_banks),
            (self.strips, "strip", std::slice::from_ref(unconnected)),
            (self.clusters, "cluster", std::slice::from_ref(zero_charge)),
        ];
        // Mostly the banks say it already.
        if self.events.share() > self.banks.share() {
            parts.insert(0, (self.events, "event", of_banks));
        }
        parts.retain(|(part, ..)| part.lost > 0);
        parts.sort_by(|(a, ..), (b, ..)| b.share().total_cmp(&a.share()));
        parts.into_iter()
    }
}

/// As `4,320 of 4,320 banks (100 %): wrong checksum`, or `nothing`.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("nothing");
        }
        for (i, (part, what, causes)) in self.parts().enumerate() {
            let more = if i > 0 { "; " } else { "" };
            let plural = if part.of == 1 { "" } else { "s" };
            write!(
                f,
                "{more}{} of {} {what}{plural} ({})",
                whole(part.lost),
                whole(part.of),
                percent(part)
            )?;
            let mut causes: Vec<Cause> = causes
                .iter()
                .copied()
                .filter(|&cause| self.by(cause) > 0)
                .collect();
            causes.sort_by_key(|&cause| std::cmp::Reverse(self.by(cause)));
            for (i, cause) in causes.iter().enumerate() {
                let number = if causes.len() == 1 {
                    String::new()
                } else {
                    format!("{} ", whole(self.by(*cause)))
                };
                write!(
                    f,
                    "{}{number}{}",
                    if i == 0 { ": " } else { ", " },
                    cause.meaning()
                )?;
            }
        }
        Ok(())
    }
}

/// Returns a share in per cent that is 0 or 100 only if it is exactly that.
pub(super) fn percent(part: LostPart) -> String {
    let percent = 100.0 * part.share();
    match percent {
        _ if part.lost == part.of => "100 %".to_owned(),
        0.0..0.01 => "under 0.01 %".to_owned(),
        0.01..1.0 => format!("{percent:.2} %"),
        1.0..10.0 => format!("{percent:.1} %"),
        10.0..99.0 => format!("{percent:.0} %"),
        _ => format!("{:.2} %", percent.min(99.99)),
    }
}

/// Returns a number with thousands separators.
pub fn whole(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<_> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(String::from_utf8_lossy)
        .collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::{Cause, Count, EventMeta, EventReport, Loss};

    fn event(counts: &[(Count, u32)], meta: EventMeta, hits: u64) -> Loss {
        let mut report = EventReport::default();
        for &(count, n) in counts {
            report.add(count, n);
        }
        Loss::of_event(&report, &meta, hits)
    }

    #[test]
    fn undamaged_events_and_events_without_ut_banks_are_no_loss() {
        let none = EventMeta::default();
        let loss = event(
            &[
                (Count::Banks, 216),
                (Count::Strips, 9),
                (Count::OversizedClusters, 3),
            ],
            none,
            2,
        );
        assert!(loss.is_none() && loss.share() == 0.0);
        assert_eq!(
            (loss.events.of, loss.banks.of, loss.to_string()),
            (1, 216, "nothing".to_owned())
        );
        assert_eq!(event(&[(Count::OtherTypes, 7)], none, 0), Loss::default());
    }

    #[test]
    fn an_event_is_lost_if_none_of_its_banks_was_decoded() {
        let of_reader = EventMeta {
            lost_banks: 216,
            bad_checksum: true,
            broken: true,
            ..EventMeta::default()
        };
        let mut loss = event(&[(Count::BrokenEvent, 1)], of_reader, 0);
        assert_eq!(
            (loss.events.lost, loss.banks.lost, loss.banks.of),
            (1, 216, 216)
        );
        for _ in 1..20 {
            loss.merge(&event(&[(Count::BrokenEvent, 1)], of_reader, 0));
        }
        assert_eq!(
            loss.to_string(),
            "4,320 of 4,320 banks (100 %): wrong checksum"
        );
        let loss = event(
            &[(Count::Banks, 3), (Count::BrokenEvent, 1)],
            EventMeta::default(),
            1,
        );
        assert_eq!((loss.events.lost, loss.events.of), (0, 1));
        assert_eq!(loss.to_string(), "1 of 4 banks (25 %): damaged event");
    }

    #[test]
    fn each_fault_counter_is_loss_with_its_cause() {
        let lost = |count, hits| {
            let loss = event(
                &[(Count::Banks, 10), (Count::Strips, 30), (count, 2)],
                EventMeta::default(),
                hits,
            );
            let found: Vec<Cause> = Cause::ALL
                .into_iter()
                .filter(|&cause| loss.by(cause) > 0)
                .collect();
            assert_eq!(found.len(), 1, "{count:?}");
            (found[0], loss.by(found[0]), loss.to_string())
        };
        let of_banks = [
            (Count::WrongVersion, Cause::WrongVersion, "wrong version"),
            (Count::Short, Cause::Truncated, "short or truncated"),
            (Count::Truncated, Cause::Truncated, "short or truncated"),
            (Count::BadHeader, Cause::BadHeader, "bad header"),
            (Count::UnknownBoard, Cause::UnknownBoard, "unknown board"),
            (
                Count::SurplusBanks,
                Cause::Repeated,
                "surplus or repeated bank",
            ),
        ];
        for (count, cause, words) in of_banks {
            assert_eq!(
                lost(count, 30),
                (cause, 2, format!("2 of 12 banks (17 %): {words}"))
            );
        }
        // These banks are decoded all the same.
        for (count, cause, words) in [
            (
                Count::RepeatedBoard,
                Cause::Repeated,
                "surplus or repeated bank",
            ),
            (Count::UnsortedLanes, Cause::UnsortedLane, "unsorted lane"),
        ] {
            assert_eq!(
                lost(count, 30),
                (cause, 2, format!("2 of 10 banks (20 %): {words}"))
            );
        }
        let (cause, _, text) = lost(Count::UnconnectedHits, 30);
        assert_eq!(
            (cause, &text[..]),
            (
                Cause::UnconnectedLane,
                "2 of 32 strips (6.2 %): unconnected lane"
            )
        );
        let (cause, _, text) = lost(Count::ZeroChargeClusters, 0);
        assert_eq!(
            (cause, &text[..]),
            (Cause::ZeroCharge, "2 of 2 clusters (100 %): zero charge")
        );
    }

    #[test]
    fn a_bank_with_several_faults_is_lost_once() {
        let meta = EventMeta {
            error_banks: 3,
            lost_fragments: 1,
            ..EventMeta::default()
        };
        let loss = event(
            &[
                (Count::Banks, 4),
                (Count::UnsortedLanes, 9),
                (Count::BadHeader, 1),
            ],
            meta,
            5,
        );
        assert_eq!((loss.banks.lost, loss.banks.of), (6, 6));
        let words = "4 board reported in error, 1 bad header, 1 unsorted lane";
        assert_eq!(loss.to_string(), format!("6 of 6 banks (100 %): {words}"));
        let most = event(
            &Count::ALL.map(|count| (count, u32::MAX)),
            EventMeta::default(),
            u64::MAX / 2,
        );
        assert!(most.share() <= 1.0);
    }

    #[test]
    fn only_exact_shares_are_written_as_0_or_100_percent() {
        let share = |lost, banks| {
            event(
                &[(Count::Banks, banks), (Count::BadHeader, lost)],
                EventMeta::default(),
                0,
            )
        };
        assert!(share(1, 1_000_000).to_string().contains("(under 0.01 %)"));
        assert!(share(1_000_000, 1).to_string().contains("(99.99 %)"));
        assert!(share(1, 0).to_string().contains("1 of 1 bank (100 %)"));
    }
}
