//! Selected events of a batch, as bits: the list may be in any order, but hits come event by event.

use ut_data::DecodeError;
use ut_data::input::BatchView;

/// One bit per event, in memory that is reused.
#[derive(Debug, Default)]
pub struct Selection {
    words: Vec<u64>,
}

impl Selection {
    /// Returns the selected events of a batch; `None` for all.
    ///
    /// # Errors
    /// If the list names an event that the batch does not have, or there is no memory for the bits.
    pub fn of(&mut self, batch: &BatchView<'_>) -> Result<Option<Selected<'_>>, DecodeError> {
        let Some(list) = batch.selected else {
            return Ok(None);
        };
        let (events, words) = (batch.n_events, batch.n_events.div_ceil(64));
        self.words.clear();
        self.words
            .try_reserve_exact(words)
            .map_err(|_| DecodeError::NoMemory {
                events,
                bytes: words * size_of::<u64>(),
            })?;
        self.words.resize(words, 0);
        for (place, &event) in list.iter().enumerate() {
            if event as usize >= events {
                return Err(DecodeError::NoSuchEvent {
                    place,
                    event,
                    events,
                });
            }
            self.words[event as usize / 64] |= 1 << (event % 64);
        }
        Ok(Some(Selected { words: &self.words }))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Selected<'a> {
    words: &'a [u64],
}

impl Selected<'_> {
    pub fn has(self, event: usize) -> bool {
        self.words
            .get(event / 64)
            .is_some_and(|word| word >> (event % 64) & 1 == 1)
    }
}
