//! Every level against what the trait's docs say, lane by lane.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::portable::Portable;
use super::{LANE_BITS, Simd, lane_ends_by_words};
use crate::decoder::cpu::Simd as Asked;
use crate::decoder::cpu::lanes::{HEADS_PER_BOARD, V5_HEADS};
use crate::detector::LANES_PER_BOARD;

/// Rounds of random lanes.
const ROUNDS: usize = 200;

/// Random lanes below 2^`bits`, with some that lie at the ends and some that repeat.
fn lanes<S: Simd>(random: &mut ChaCha8Rng, bits: u32) -> Vec<u32> {
    let most = u32::MAX >> (32 - bits);
    let lane = |_| match random.random_range(0..6) {
        0 => 0,
        1 => most,
        2 => random.random_range(0..4) & most,
        _ => random.next_u32() & most,
    };
    (0..S::LANES).map(lane).collect()
}

fn load<S: Simd>(words: &[u32]) -> S::U {
    assert_eq!(words.len(), S::LANES);
    // SAFETY: as many words as lanes; the CPU was asked for its instructions, see `checked`.
    unsafe { S::load(words.as_ptr()) }
}

fn store<S: Simd>(v: S::U) -> Vec<u32> {
    let mut words = vec![0; S::LANES];
    // SAFETY: as many words as lanes.
    unsafe { S::store(words.as_mut_ptr(), v) };
    words
}

fn bits_of(lanes: impl Iterator<Item = bool>) -> u32 {
    lanes.enumerate().map(|(i, set)| u32::from(set) << i).sum()
}

/// One operation on two vectors: what it made, and what it should have made of each pair of lanes.
macro_rules! same {
    ($s:ty, $name:literal, $a:expr, $b:expr, $made:expr, $lane:expr) => {{
        let lane: fn(u32, u32) -> u32 = $lane;
        let expected: Vec<u32> = $a.iter().zip($b).map(|(&a, &b)| lane(a, b)).collect();
        assert_eq!(store::<$s>($made), expected, "{} of {:x?} and {:x?}", $name, $a, $b);
    }};
}

fn words_of<S: Simd>(random: &mut ChaCha8Rng) {
    let (a, b) = (&lanes::<S>(random, 32), &lanes::<S>(random, 32));
    let (va, vb) = (load::<S>(a), load::<S>(b));
    // SAFETY: the CPU was asked for its instructions; ranges are as the trait's docs ask.
    unsafe {
        same!(S, "add", a, b, S::add(va, vb), u32::wrapping_add);
        same!(S, "sub", a, b, S::sub(va, vb), u32::wrapping_sub);
        same!(S, "and", a, b, S::and(va, vb), |a, b| a & b);
        same!(S, "xor", a, b, S::xor(va, vb), |a, b| a ^ b);
        same!(S, "shl", a, b, S::shl::<9>(va), |a, _| a << 9);
        same!(S, "shr", a, b, S::shr::<23>(va), |a, _| a >> 23);
        same!(S, "spread_sign", a, b, S::spread_sign(va), |a, _| if a >> 31 == 0 { 0 } else { u32::MAX });
        let last = vec![a[S::LANES - 1]; S::LANES];
        assert_eq!(store::<S>(S::spread_last(va)), last);
        assert_eq!(store::<S>(S::splat(b[0])), vec![b[0]; S::LANES]);
        let sums = a.iter().scan(0u32, |sum, &a| {
            *sum = sum.wrapping_add(a);
            Some(*sum)
        });
        assert_eq!(store::<S>(S::prefix_sum(va)), sums.collect::<Vec<_>>());
        let shifted: Vec<u32> = b[S::LANES - 1..].iter().chain(a).copied().take(S::LANES).collect();
        assert_eq!(store::<S>(S::shift_in(vb, va)), shifted);
        let equal = bits_of(a.iter().zip(b).map(|(a, b)| a == b));
        assert_eq!(S::eq(va, vb), equal);

        let bits = random.next_u32() & (u32::MAX >> (32 - S::LANES));
        let named = |i: &usize| bits >> i & 1 != 0;
        let kept: Vec<u32> = (0..S::LANES).map(|i| if named(&i) { a[i] } else { 0 }).collect();
        assert_eq!(store::<S>(S::keep(va, bits)), kept);
        let mut compressed = vec![7; S::LANES];
        S::compress_store(compressed.as_mut_ptr(), va, bits);
        let expected: Vec<u32> = (0..S::LANES).filter(named).map(|i| a[i]).collect();
        assert_eq!(compressed[..expected.len()], expected);
        let mut some = vec![7; S::LANES];
        S::store_some(some.as_mut_ptr(), va, bits);
        assert_eq!(some, (0..S::LANES).map(|i| if named(&i) { a[i] } else { 7 }).collect::<Vec<_>>());
        same!(S, "min", a, b, S::min(va, vb), u32::min);

        let (a, b) = (&lanes::<S>(random, 31), &lanes::<S>(random, 31));
        let (va, vb) = (load::<S>(a), load::<S>(b));
        assert_eq!(S::le(va, vb), bits_of(a.iter().zip(b).map(|(a, b)| a <= b)));
        let (a, b) = (&lanes::<S>(random, 15), &lanes::<S>(random, 15));
        same!(S, "mul_small", a, b, S::mul_small(load::<S>(a), load::<S>(b)), |a, b| a * b);

        let window: Vec<u32> = (0..64).map(|_| random.next_u32()).collect();
        let index: Vec<u32> = (0..S::LANES).map(|_| random.random_range(0..S::WINDOW.min(64))).collect();
        let found: Vec<u32> = index.iter().map(|&i| window[i as usize]).collect();
        assert_eq!(store::<S>(S::lookup_window(window.as_ptr(), load::<S>(&index))), found);
        assert_eq!(store::<S>(S::lookup(window.as_ptr(), load::<S>(&index))), found);
        // The other bits of an index do not count.
        let far: Vec<u32> = index.iter().map(|&i| i.wrapping_sub(S::WINDOW)).collect();
        assert_eq!(store::<S>(S::lookup_window(window.as_ptr(), load::<S>(&far))), found);
    }
}

fn floats_of<S: Simd>(random: &mut ChaCha8Rng) {
    let mut floats = || -> Vec<u32> {
        let float = |_| match random.random_range(0..8) {
            0 => f32::NAN,
            1 => -0.0,
            _ => random.random_range(-1000.0..1000.0f32),
        };
        (0..S::LANES).map(float).map(f32::to_bits).collect()
    };
    let (a, b) = (&floats(), &floats());
    // SAFETY: as above.
    unsafe {
        let (va, vb) = (S::from_bits(load::<S>(a)), S::from_bits(load::<S>(b)));
        let numbers = |a: u32, b: u32| (f32::from_bits(a), f32::from_bits(b));
        let check = |name: &str, made: S::F, lane: fn(f32, f32) -> f32| {
            for ((made, &a), &b) in store::<S>(S::bits(made)).into_iter().zip(a).zip(b) {
                let (a, b) = numbers(a, b);
                let expected = lane(a, b);
                // Which of the NaNs it is, is nobody's concern.
                let same = made == expected.to_bits() || f32::from_bits(made).is_nan() && expected.is_nan();
                assert!(same, "{name} of {a} and {b}: {made:x}");
            }
        };
        check("add_f", S::add_f(va, vb), |a, b| a + b);
        check("sub_f", S::sub_f(va, vb), |a, b| a - b);
        check("mul_f", S::mul_f(va, vb), |a, b| a * b);
        check("div_f", S::div_f(va, vb), |a, b| a / b);
        check("splat_f", S::splat_f(0.1), |_, _| 0.1);
        same!(S, "select_by_sign", a, b, S::bits(S::select_by_sign(load::<S>(a), va, vb)), |a, b| {
            if a >> 31 == 0 { b } else { a }
        });
        let less = |(&a, &b): (&u32, &u32)| f32::from_bits(a) < f32::from_bits(b);
        assert_eq!(S::not_less(va, vb), bits_of(a.iter().zip(b).map(|pair| !less(pair))));

        let whole = &lanes::<S>(random, 24);
        same!(S, "to_float", whole, whole, S::bits(S::to_float(load::<S>(whole))), |a, _| (a as f32).to_bits());
        let parts: Vec<u32> =
            whole.iter().map(|&a| (a as f32 + random.random_range(0.0..1.0f32)).min(16_777_215.0).to_bits()).collect();
        let made = S::truncate(S::from_bits(load::<S>(&parts)));
        same!(S, "truncate", &parts, &parts, made, |a, _| f32::from_bits(a) as u32);
    }
}

fn lanes_of_banks<S: Simd>(random: &mut ChaCha8Rng) {
    let counts: [u8; 64] = std::array::from_fn(|_| random.random_range(0..8) * u8::from(random.random_bool(0.7)));
    let hits: [u8; 2048] = std::array::from_fn(|_| random.random());
    let (mask, xor) = (random.next_u32(), random.next_u32());
    // SAFETY: 64 counts; 66 bytes of words; the longest lane reaches 32 * 16 + 4 bytes, and what `copy_lane` may read more is there.
    unsafe {
        assert_eq!(S::count_bits(counts.as_ptr()), Portable::count_bits(counts.as_ptr()));
        let bits = random.random();
        let mut places = [[0u16; 64]; 2];
        let n = S::list_bits(bits, 100, places[0].as_mut_ptr());
        assert_eq!(n, Portable::list_bits(bits, 100, places[1].as_mut_ptr()));
        assert_eq!(places[0][..n], places[1][..n]);
        let mut words: [u16; 33] = std::array::from_fn(|_| random.random());
        if random.random_bool(0.7) {
            words.sort_by_key(|word| word & LANE_BITS);
        }
        for n in 0..=32 {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            // Lanes 6 and 7 do not exist: which of the two it is, is nobody's concern.
            let existing = |ends: Option<u64>| ends.map(|ends| ends & !(0xFF << 48));
            let expected = lane_ends_by_words(bytes.as_ptr(), n);
            assert_eq!(existing(S::lane_ends(bytes.as_ptr(), n)), existing(expected), "{words:x?}");
        }
        for (n, backwards) in (0..=32).flat_map(|n| [(n, 0), (n, -1)]) {
            let (mut made, mut expected) = ([7; 64], [7; 64]);
            S::copy_lane::<32>(hits.as_ptr(), n, backwards, mask, xor, made.as_mut_ptr());
            Portable::copy_lane::<32>(hits.as_ptr(), n, backwards, mask, xor, expected.as_mut_ptr());
            assert_eq!(made, expected, "{n} hits, backwards: {backwards}");
        }
        heads::<S>(random);
    }
}

/// The hits of a lane in the direction in which they are wanted, as a head holds them.
fn head(hits: &[u16], reversed: bool) -> Vec<u16> {
    if reversed { hits.iter().rev().copied().collect() } else { hits.to_vec() }
}

fn heads<S: Simd>(random: &mut ChaCha8Rng) {
    let reversed: u8 = random.random();
    let mut made = [0u64; HEADS_PER_BOARD];
    let hits_of = |head: u64, n: usize| (0..n).map(|i| (head >> (16 * i)) as u16).collect::<Vec<_>>();
    let (mask, xor) = (random.next_u32(), random.next_u32());

    let mut payload: [u8; 64] = std::array::from_fn(|_| random.random());
    for byte in [4, 5, 6, 7, 0, 1] {
        payload[byte] = random.random_range(0..6);
    }
    // SAFETY: 64 bytes; eight heads; four words.
    unsafe {
        S::v5_heads(payload.as_ptr(), reversed, made.as_mut_ptr());
        for (lane, byte) in [4, 5, 6, 7, 0, 1].into_iter().enumerate() {
            let n = usize::from(payload[byte]);
            if n > 4 {
                continue;
            }
            let place = |hit: usize| 32 * (hit / 2) + 8 + 4 * (LANES_PER_BOARD - 1 - lane) + 2 * (hit % 2);
            let hits: Vec<u16> =
                (0..n).map(|hit| u16::from_le_bytes([payload[place(hit)], payload[place(hit) + 1]])).collect();
            let at = usize::from(V5_HEADS[lane]);
            assert_eq!(hits_of(made[at], n), head(&hits, reversed >> at & 1 != 0), "lane {lane}, {n} hits");
            let mut words = [7; 4];
            S::copy_head(&raw const made[at], mask, xor, words.as_mut_ptr());
            let expected: Vec<u32> = hits_of(made[at], 4).iter().map(|&hit| u32::from(hit) & mask ^ xor).collect();
            assert_eq!(words, *expected);
        }
    }

    let counts: [u8; LANES_PER_BOARD] = std::array::from_fn(|_| random.random_range(0..=9));
    let words: [u16; 64] = std::array::from_fn(|_| random.random());
    let (mut n, mut ends) = (0, 0);
    for (lane, &count) in counts.iter().enumerate() {
        n += usize::from(count);
        ends |= (n as u64) << (8 * lane);
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    // SAFETY: 64 words, of which no more than 54 are named.
    unsafe { S::v4_heads(bytes.as_ptr(), n, ends | (n as u64) << 48 | (n as u64) << 56, reversed, made.as_mut_ptr()) };
    let mut begin = 0;
    for (lane, &count) in counts.iter().enumerate() {
        let hits = &words[begin..begin + usize::from(count)];
        begin += hits.len();
        if hits.len() <= 4 {
            assert_eq!(
                hits_of(made[lane], hits.len()),
                head(hits, reversed >> lane & 1 != 0),
                "lane {lane} of {counts:?}"
            );
        }
    }
}

/// All of it at one level, if this CPU has it.
fn checked<S: Simd>(asked: Asked) {
    if asked.resolve().is_none() {
        eprintln!("SKIPPED: this CPU has no {asked:?}");
        return;
    }
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..ROUNDS {
        words_of::<S>(&mut random);
        floats_of::<S>(&mut random);
        lanes_of_banks::<S>(&mut random);
    }
}

#[test]
fn the_portable_level_does_what_the_trait_says() {
    checked::<Portable>(Asked::Scalar);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_avx2_level_does_what_the_trait_says() {
    checked::<super::avx2::Avx2>(Asked::Avx2);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_avx512_level_does_what_the_trait_says() {
    checked::<super::avx512::Avx512>(Asked::Avx512);
}

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
#[test]
fn the_neon_level_does_what_the_trait_says() {
    checked::<super::neon::Neon>(Asked::Neon);
}
