//! MDF as bytes: constants, checksum, and fields that readers and the writer share
//! (`docs/format.md`, "MDF files").

/// Number of bytes of the event header: three sizes, checksum, compression, header type, data type,
/// spare.
pub(super) const HEADER: usize = 20;
/// First byte that the checksum covers.
pub(super) const CHECKED_FROM: usize = 16;
/// First half-word of every bank.
pub(super) const MAGIC: u16 = 0xCBCB;
/// Number of bytes of a bank's header.
pub(super) const BANK_HEADER: usize = 8;
/// The data type of events that hold raw banks.
pub(super) const RAW_BANKS: u8 = 1;

/// Returns the checksum of an event, over its bytes from 16 on (`docs/format.md`): each taken as
/// signed, all modulo 2³².
pub fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = Checksum::default();
    sum.add(bytes);
    sum.value()
}

/// The checksum of bytes that come in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum(u32);

impl Checksum {
    /// Adds `bytes`.
    pub fn add(&mut self, bytes: &[u8]) {
        let mut h = self.0;
        for &byte in bytes {
            h = h.wrapping_add(i32::from(byte as i8) as u32);
            h = h.wrapping_add(h << 10);
            h ^= h >> 6;
        }
        self.0 = h;
    }

    /// Adds words to several sums at once, the same number of words to each.
    pub(super) fn add_words<const N: usize>(sums: &mut [Self; N], words: [&[[u8; 4]]; N]) {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                // SAFETY:
                // - the CPU has the instructions: the line above checks it.
                return unsafe { add_words_avx512(sums, words) };
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY:
                // - the CPU has the instructions: the line above checks it.
                return unsafe { add_words_avx2(sums, words) };
            }
        }
        add_words(sums, words);
    }

    /// Returns the checksum of the bytes added so far.
    pub const fn value(self) -> u32 {
        let mut h = self.0;
        h = h.wrapping_add(h << 3);
        h ^= h >> 11;
        h.wrapping_add(h << 15)
    }
}

/// [`Checksum::add_words`], compiled for the instructions of its caller.
#[allow(
    clippy::inline_always,
    reason = "it is compiled with the instructions of its caller only where it is part of it"
)]
#[inline(always)]
fn add_words<const N: usize>(sums: &mut [Checksum; N], words: [&[[u8; 4]]; N]) {
    let n = words[0].len();
    // Cut to one length once, so that the loop need not ask.
    let words = words.map(|words| &words[..n]);
    let mut h = sums.map(|sum| sum.0);
    let mut rows = [[0; N]; 2];
    let fetch = |row: &mut [u32; N], i: usize| {
        // By reference: to copy all the slices for each row would cost more than the sums.
        for (to, words) in row.iter_mut().zip(&words) {
            *to = words.get(i).map_or(0, |word| u32::from_le_bytes(*word));
        }
    };
    fetch(&mut rows[0], 0);
    for i in 0..n {
        // Added in the next turn: the sums need not wait for words that are on their way into a
        // vector.
        fetch(&mut rows[(i + 1) % 2], i + 1);
        let word = &rows[i % 2];
        for byte in 0..4 {
            for (h, word) in h.iter_mut().zip(word) {
                let signed = ((word << (24 - 8 * byte)) as i32 >> 24) as u32;
                // (h + signed) + (h + signed << 10), with as little as can be behind `h`.
                let sum = h
                    .wrapping_add(signed.wrapping_add(signed << 10))
                    .wrapping_add(*h << 10);
                *h = sum ^ sum >> 6;
            }
        }
    }
    *sums = h.map(Checksum);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn add_words_avx512<const N: usize>(sums: &mut [Checksum; N], words: [&[[u8; 4]]; N]) {
    add_words(sums, words);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_words_avx2<const N: usize>(sums: &mut [Checksum; N], words: [&[[u8; 4]]; N]) {
    add_words(sums, words);
}

/// Returns the size in bytes of the sub-header that a header type announces.
pub(super) const fn sub_header_bytes(header_type: u8) -> u32 {
    4 * (header_type & 0xF) as u32
}

/// Returns the little-endian u32 at a position that the caller has checked.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::{Checksum, add_words};

    #[test]
    fn simultaneous_sums_equal_sequential_sums_at_every_level_of_this_cpu() {
        let bytes: Vec<u8> = (0..4000u32)
            .map(|i| (i.wrapping_mul(2654435761) >> 13) as u8)
            .collect();
        for n in [0, 1, 2, 101] {
            let words: [&[[u8; 4]]; 32] = std::array::from_fn(|i| &bytes[i..].as_chunks().0[..n]);
            let mut alone = [Checksum(7); 32];
            for (sum, words) in alone.iter_mut().zip(words) {
                sum.add(words.as_flattened());
            }
            let found = |add: fn(&mut [Checksum; 32], [&[[u8; 4]]; 32])| {
                let mut sums = [Checksum(7); 32];
                add(&mut sums, words);
                sums.map(|sum| sum.0)
            };
            let expected = alone.map(|sum| sum.0);
            assert_eq!(found(add_words), expected, "portable, {n} words");
            assert_eq!(
                found(Checksum::add_words),
                expected,
                "the widest, {n} words"
            );
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY:
                // - the CPU has the instructions: the line above checks it.
                let sums = found(|sums, words| unsafe { super::add_words_avx2(sums, words) });
                assert_eq!(sums, expected, "{n} words");
            }
        }
    }
}
