//! The check that every decoder makes of a batch before it decodes it.

use std::ops::ControlFlow;

use super::DecodeError;
use crate::detector::{BankVersion, DetectorTables};
use crate::input::{Bank, BatchView, Layout, MANY, each_bank, kind, shape_of, version_in_words};

/// Facts of a detector's tables with which every decoder checks a batch before it decodes it.
#[derive(Clone, Copy, Debug)]
pub struct BatchCheck {
    version: BankVersion,
    is_trusted: bool,
}

impl BatchCheck {
    /// Takes the facts from the tables.
    pub const fn new(tables: &DetectorTables) -> Self {
        Self {
            version: tables.boards().version,
            is_trusted: tables.is_trusted(),
        }
    }

    /// Checks that a batch belongs to the tables, unless it [is checked](BatchView::checked).
    ///
    /// # Errors
    /// - [`DecodeError::OtherVersion`] if every bank has another version than the tables. Where the
    ///   banks do not say their versions, and unless the tables are
    ///   [trusted](DetectorTables::is_trusted): if at least four have a size that only the other
    ///   format has, and none a size that only the tables' format has.
    /// - [`DecodeError::NoBanks`] if there are bytes, but no event has a bank, and the other layout
    ///   is meant.
    pub fn check(self, batch: &BatchView<'_>) -> Result<(), DecodeError> {
        if batch.checked || batch.n_events == 0 {
            return Ok(());
        }
        // A bank that clearly fits ends the search, and nearly always the first bank does.
        let (mut banks, mut undecided, mut of_other_sizes, mut other) = (0u64, 0u64, 0u64, None);
        let reads_sizes = batch.versions.is_none() && !self.is_trusted;
        let fits = any_bank(batch, |bank| {
            banks += 1;
            if !kind::is_decoded(bank.kind) {
                return false;
            }
            if let Some(version) = bank
                .version
                .filter(|&version| version != self.version.byte())
            {
                other = Some(version);
                return false;
            }
            match shape_of(bank.payload).filter(|_| reads_sizes) {
                Some(found) if found != self.version => of_other_sizes += 1,
                found => {
                    undecided += 1;
                    return found.is_some() || !reads_sizes;
                }
            }
            false
        });
        if fits {
            return Ok(());
        }
        let refuse = |what: String| {
            Err(DecodeError::OtherVersion {
                what,
                table: self.version,
            })
        };
        if let Some(version) = other.filter(|_| undecided + of_other_sizes == 0) {
            let version = version_in_words(version);
            return refuse(format!(
                "no UT bank of the batch has the tables' version, one has version {version}"
            ));
        }
        if of_other_sizes >= MANY {
            let other = if self.version == BankVersion::V4 {
                BankVersion::V5
            } else {
                BankVersion::V4
            };
            return refuse(format!(
                "the UT banks of the batch have sizes of format {}",
                other.name()
            ));
        }
        let meant = if batch.layout == Layout::Mep {
            Layout::Allen
        } else {
            Layout::Mep
        };
        let is_empty_mep = batch.layout == Layout::Mep
            && batch.offsets.first() == Some(&0)
            && !batch.raw.is_empty();
        if banks == 0
            && (is_empty_mep
                || any_bank(
                    &BatchView {
                        layout: meant,
                        ..*batch
                    },
                    |_| true,
                ))
        {
            return Err(DecodeError::NoBanks {
                bytes: batch.raw.len(),
                layout: batch.layout,
            });
        }
        Ok(())
    }
}

/// Returns true if `wanted` is true for a bank of the events to decode.
fn any_bank<'a>(batch: &BatchView<'a>, mut wanted: impl FnMut(Bank<'a>) -> bool) -> bool {
    let mut any = |event: usize| {
        let mut found = false;
        // The decoder reports damaged events.
        let _ = each_bank(*batch, batch.first_event.saturating_add(event), |bank| {
            found = wanted(bank);
            if found {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        found
    };
    match batch.selected {
        Some(selected) => selected.iter().any(|&event| any(event as usize)),
        None => (0..batch.n_events).any(any),
    }
}
