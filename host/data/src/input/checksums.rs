//! The checksums of several events, side by side.
//!
//! Each byte of an event needs the sum of those before it, so a core waits for itself. Thirty-two
//! events, one in each element of a vector, do not wait for each other; with sixteen a CPU with
//! AVX-512 still waits.
//!
//! Events differ in length. Each vector element works on its own event, and all advance by as many
//! words as the shortest remaining piece has; then the elements that are done take the next events.
//! Sorted by length, the events in the elements are of similar length, so that this happens seldom.
//! When no more than two elements are busy, the rest is done one by one.

use super::mdf_format::Checksum;

/// Number of events at a time.
const ELEMENTS: usize = 32;

pub fn checksums<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, sums: &mut Vec<u32>) {
    let first = sums.len();
    let mut pieces: Vec<(usize, &[u8])> = pieces.into_iter().enumerate().collect();
    sums.resize(first + pieces.len(), 0);
    // The longest first, so that all elements end at about the same time.
    pieces.sort_by_key(|(_, piece)| std::cmp::Reverse(piece.len()));
    let mut pieces = pieces.into_iter();
    let mut state = [Checksum::default(); ELEMENTS];
    // The rest of the current pieces, in words, then in bytes, and the place of their sum.
    let mut slots: [ChecksumSlot<'a>; ELEMENTS] = [ChecksumSlot::default(); ELEMENTS];
    loop {
        let mut busy = 0;
        for (slot, sum) in slots.iter_mut().zip(&mut state) {
            while slot.words.is_empty() {
                if let Some(place) = slot.place.take() {
                    sum.add(slot.tail);
                    sums[first + place] = sum.value();
                }
                let Some((place, piece)) = pieces.next() else {
                    break;
                };
                let (words, tail) = piece.as_chunks();
                *slot = ChecksumSlot {
                    words,
                    tail,
                    place: Some(place),
                };
                *sum = Checksum::default();
            }
            busy += usize::from(!slot.words.is_empty());
        }
        let Some(n) = slots
            .iter()
            .map(|slot| slot.words.len())
            .filter(|&n| n > 0)
            .min()
        else {
            return;
        };
        if busy <= 2 {
            for (slot, sum) in slots.iter_mut().zip(&mut state) {
                sum.add(slot.words.as_flattened());
                slot.words = &[];
            }
            continue;
        }
        // An idle element goes along with a busy one; its sum is not looked at.
        let any = slots
            .iter()
            .find(|slot| !slot.words.is_empty())
            .map_or(&[][..], |slot| slot.words);
        let words = slots.each_ref().map(|slot| {
            if slot.words.is_empty() {
                &any[..n]
            } else {
                &slot.words[..n]
            }
        });
        Checksum::add_words(&mut state, words);
        for slot in &mut slots {
            slot.words = slot.words.get(n..).unwrap_or_default();
        }
    }
}

#[derive(Clone, Copy, Default)]
struct ChecksumSlot<'a> {
    words: &'a [[u8; 4]],
    tail: &'a [u8],
    place: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::checksums;
    use crate::input::checksum;

    #[test]
    fn every_checksum_covers_only_its_own_piece() {
        let bytes: Vec<u8> = (0..9000u32)
            .map(|i| (i.wrapping_mul(2654435761) >> 13) as u8)
            .collect();
        for n in [0, 1, 2, 3, 7, 8, 31, 32, 33, 90] {
            let pieces: Vec<&[u8]> = (0..n)
                .map(|i: usize| &bytes[i..i + (i * 1237 % 301) * (i % 3)])
                .collect();
            let mut sums = vec![1];
            checksums(pieces.iter().copied(), &mut sums);
            let alone: Vec<u32> = pieces.iter().map(|piece| checksum(piece)).collect();
            assert_eq!((sums[0], &sums[1..]), (1, &alone[..]), "{n} pieces");
        }
    }
}
