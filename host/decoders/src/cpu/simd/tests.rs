//! The operations of every level that are more than an instruction, against the trait's docs.

use chacha20::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};

use super::{LANE_BITS, Portable, REVERSE, Simd};
#[cfg(target_arch = "x86_64")]
use crate::cpu::level::Simd as Level;

/// Number of rounds of random elements.
const ROUNDS: usize = if cfg!(miri) { 2 } else { 200 };

fn load<S: Simd>(s: S, words: &[u32]) -> S::U {
    assert_eq!(words.len(), S::ELEMENTS);
    // SAFETY: as many words as elements.
    unsafe { s.load(words.as_ptr()) }
}

fn store<S: Simd>(s: S, v: S::U) -> Vec<u32> {
    let mut words = vec![0; S::ELEMENTS];
    // SAFETY: as many words as elements.
    unsafe { s.store(words.as_mut_ptr(), v) };
    words
}

fn words_of<S: Simd>(s: S, random: &mut ChaCha8Rng) {
    let mut elements = || {
        (0..S::ELEMENTS)
            .map(|_| random.next_u32())
            .collect::<Vec<_>>()
    };
    let (a, b) = (&elements(), &elements());
    let (va, vb) = (load(s, a), load(s, b));
    let sums = a.iter().scan(0u32, |sum, &a| {
        *sum = sum.wrapping_add(a);
        Some(*sum)
    });
    assert_eq!(store(s, s.prefix_sum(va)), sums.collect::<Vec<_>>());
    let shifted: Vec<u32> = b[S::ELEMENTS - 1..]
        .iter()
        .chain(a)
        .copied()
        .take(S::ELEMENTS)
        .collect();
    assert_eq!(store(s, s.shift_in(vb, va)), shifted);
    let bits = random.next_u32() & (u32::MAX >> (32 - S::ELEMENTS));
    let named = |i: &usize| bits >> i & 1 != 0;
    let kept: Vec<u32> = (0..S::ELEMENTS)
        .map(|i| if named(&i) { a[i] } else { 0 })
        .collect();
    assert_eq!(store(s, s.keep(va, bits)), kept);
    let mut compressed = vec![7; S::ELEMENTS];
    // SAFETY: a vector of words.
    unsafe { s.compress_store(compressed.as_mut_ptr(), va, bits) };
    let expected: Vec<u32> = (0..S::ELEMENTS).filter(named).map(|i| a[i]).collect();
    assert_eq!(compressed[..expected.len()], expected);
    let mut some = vec![7; S::ELEMENTS];
    // SAFETY: a vector of words.
    unsafe { s.store_some(some.as_mut_ptr(), va, bits) };
    assert_eq!(
        some,
        (0..S::ELEMENTS)
            .map(|i| if named(&i) { a[i] } else { 7 })
            .collect::<Vec<_>>()
    );
    let window: Vec<u32> = (0..64).map(|_| random.next_u32()).collect();
    let index: Vec<u32> = (0..S::ELEMENTS)
        .map(|_| random.random_range(0..S::WINDOW.min(64)))
        .collect();
    let found: Vec<u32> = index.iter().map(|&i| window[i as usize]).collect();
    // SAFETY: a window is there.
    let read = unsafe { s.lookup_window(window.as_ptr(), load(s, &index)) };
    assert_eq!(store(s, read), found);
    // SAFETY: the words that are named are there.
    let read = unsafe { s.lookup(window.as_ptr(), load(s, &index)) };
    assert_eq!(store(s, read), found);
    // The other bits of an index do not count.
    let far: Vec<u32> = index.iter().map(|&i| i.wrapping_sub(S::WINDOW)).collect();
    // SAFETY: a window is there.
    let read = unsafe { s.lookup_window(window.as_ptr(), load(s, &far)) };
    assert_eq!(store(s, read), found);
    let twice: Vec<u32> = window[..8].iter().chain(&window[..8]).copied().collect();
    let in_8: Vec<u32> = a.iter().map(|&i| twice[i as usize % 16]).collect();
    // SAFETY: 16 words are there.
    let read = unsafe { s.lookup_8(twice.as_ptr(), load(s, a)) };
    assert_eq!(store(s, read), in_8);
    let in_16: Vec<u32> = a.iter().map(|&i| window[i as usize % 16]).collect();
    // SAFETY: 16 words are there.
    let read = unsafe { s.lookup_16(window.as_ptr(), load(s, a)) };
    assert_eq!(store(s, read), in_16);
}

fn lanes_of_banks<S: Simd>(s: S, random: &mut ChaCha8Rng) {
    let counts: [u8; 64] =
        std::array::from_fn(|_| random.random_range(0..12) * u8::from(random.random_bool(0.7)));
    let bits = |is_set: fn(u8) -> bool| {
        counts
            .iter()
            .enumerate()
            .map(|(i, &n)| u64::from(is_set(n)) << i)
            .sum::<u64>()
    };
    assert_eq!(
        s.count_bits(&counts, 4),
        (bits(|n| n != 0), bits(|n| n > 4))
    );
    assert_eq!(
        s.count_bits(&counts, 8),
        (bits(|n| n != 0), bits(|n| n > 8))
    );

    let bits: u64 = random.random();
    let expected: Vec<u16> = (0..64)
        .filter(|i| bits >> i & 1 != 0)
        .map(|i| 100 + i)
        .collect();
    let mut places = [0u16; 64];
    // SAFETY: 64 places.
    let n = unsafe { s.list_bits(bits, 100, places.as_mut_ptr()) };
    assert_eq!(places[..n], expected);
    // SAFETY: 64 places.
    let n = unsafe { s.list_few_bits(bits, 100, places.as_mut_ptr()) };
    assert_eq!(places[..n], expected);

    let mut words: [u16; 254 + 33] = std::array::from_fn(|_| random.random());
    let n_sorted = if random.random_bool(0.7) {
        254
    } else {
        random.random_range(0..254)
    };
    words[..n_sorted].sort_by_key(|word| word & LANE_BITS);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let n = random.random_range(0..=254);
    for n in (0..=34).chain([n]) {
        // Lanes 6 and 7 do not exist.
        let existing = |ends: u64| ends & ((1 << 48) - 1);
        let lanes = words[..n].iter().map(|word| (word & LANE_BITS) >> 11);
        let ends = (0..8)
            .map(|lane| (lanes.clone().filter(|&of| of <= lane).count() as u64) << (8 * lane))
            .sum();
        // SAFETY: the words are there, and 66 bytes more.
        let (made, sorted) = unsafe { s.lane_ends(bytes.as_ptr(), n) };
        assert_eq!(sorted, lanes.is_sorted(), "{n} of {words:x?}");
        if sorted {
            assert_eq!(existing(made), existing(ends), "{n} of {words:x?}");
        }
    }
}

/// Tests words whose lanes fall once, at any place in a vector or between two vectors.
fn lanes_with_one_fall<S: Simd>(s: S) {
    for fall in 1..=64 {
        let words: [u16; 80 + 33] =
            std::array::from_fn(|i| if i < fall { 3 << 11 } else { 1 << 11 });
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for n in [fall, fall + 1, 80] {
            // SAFETY: the words are there, and 66 bytes more.
            let (_, sorted) = unsafe { s.lane_ends(bytes.as_ptr(), n) };
            assert_eq!(
                sorted,
                n == fall,
                "{n} words, of which the lane falls at {fall}"
            );
        }
    }
}

/// Copies the hits of a lane, in pairs of 16 bits `STRIDE` bytes apart, in both directions.
fn lanes_of_hits<S: Simd, const STRIDE: usize>(s: S, random: &mut ChaCha8Rng) {
    let bytes: [u8; 2048] = std::array::from_fn(|_| random.random());
    let (mask, xor) = (random.next_u32(), random.next_u32());
    let start = usize::from(S::start::<STRIDE>());
    for n in 0..=32 {
        let place = |hit: usize| STRIDE * (hit / 2) + 2 * (hit % 2);
        let hit = |hit| {
            u32::from(u16::from_le_bytes([
                bytes[place(hit)],
                bytes[place(hit) + 1],
            ])) & mask
                ^ xor
        };
        let forwards: Vec<u32> = (0..n).map(hit).collect();
        let backwards: Vec<u32> = forwards.iter().rev().copied().collect();
        for (expected, direction) in [(&forwards, 0), (&backwards, REVERSE)] {
            let mut made = [7; 64];
            if n > 4 && n <= S::BLOCK {
                // SAFETY: eight pairs; 64 words.
                unsafe {
                    s.copy_block::<STRIDE>(
                        bytes.as_ptr(),
                        n,
                        direction,
                        mask,
                        xor,
                        made.as_mut_ptr(),
                    );
                };
                assert_eq!(made[..n], expected[..], "{n} hits, direction {direction}");
                assert_eq!(made[n..], [7; 64][n..], "{n} hits, direction {direction}");
            }
            if n == 0 || n > start && direction == REVERSE {
                continue;
            }
            let mut made = [7; 9];
            // SAFETY: four pairs; eight words.
            unsafe {
                s.copy_start::<STRIDE>(
                    bytes.as_ptr(),
                    n as u8,
                    direction,
                    mask,
                    xor,
                    made.as_mut_ptr(),
                );
            };
            let n = n.min(start);
            assert_eq!(made[..n], expected[..n], "{n} hits, direction {direction}");
            assert_eq!(made[start], 7);
        }
    }
}

fn checked<S: Simd>(s: S) {
    lanes_with_one_fall(s);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..ROUNDS {
        words_of(s, &mut random);
        lanes_of_banks(s, &mut random);
        lanes_of_hits::<S, 4>(s, &mut random);
        lanes_of_hits::<S, 32>(s, &mut random);
    }
}

#[test]
fn every_simd_level_of_this_cpu_agrees_with_the_trait() {
    // SAFETY: it needs nothing of the CPU.
    checked(unsafe { Portable::new() });
    #[cfg(target_arch = "x86_64")]
    {
        if Level::Avx2.resolve().is_some() {
            // SAFETY: the CPU has the instructions, as just checked.
            checked(unsafe { super::Avx2::new() });
        }
        if Level::Avx512.resolve().is_some() {
            // SAFETY: the CPU has the instructions, as just checked.
            checked(unsafe { super::Avx512::new() });
        }
    }
}
