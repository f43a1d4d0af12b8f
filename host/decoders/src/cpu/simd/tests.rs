//! Every level against the trait's docs, element by element.

use chacha20::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};

use super::{LANE_BITS, Portable, REVERSE, Simd};
#[cfg(target_arch = "x86_64")]
use crate::cpu::level::Simd as Level;

/// Rounds of random elements.
const ROUNDS: usize = if cfg!(miri) { 2 } else { 200 };

/// Makes random elements below 2^`bits`, some of them at the ends and some repeated.
fn elements<S: Simd>(random: &mut ChaCha8Rng, bits: u32) -> Vec<u32> {
    let most = u32::MAX >> (32 - bits);
    let element = |_| match random.random_range(0..6) {
        0 => 0,
        1 => most,
        2 => random.random_range(0..4) & most,
        _ => random.next_u32() & most,
    };
    (0..S::ELEMENTS).map(element).collect()
}

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

fn bits_of(lanes: impl Iterator<Item = bool>) -> u32 {
    lanes.enumerate().map(|(i, set)| u32::from(set) << i).sum()
}

/// One operation on two vectors: what it made, and what it should have made of each pair of elements.
macro_rules! same {
    ($s:expr, $name:literal, $a:expr, $b:expr, $made:expr, $lane:expr) => {{
        let lane: fn(u32, u32) -> u32 = $lane;
        let expected: Vec<u32> = $a.iter().zip($b).map(|(&a, &b)| lane(a, b)).collect();
        assert_eq!(store($s, $made), expected, "{} of {:x?} and {:x?}", $name, $a, $b);
    }};
}

fn words_of<S: Simd>(s: S, random: &mut ChaCha8Rng) {
    let (a, b) = (&elements::<S>(random, 32), &elements::<S>(random, 32));
    let (va, vb) = (load(s, a), load(s, b));
    same!(s, "add", a, b, s.add(va, vb), u32::wrapping_add);
    same!(s, "sub", a, b, s.sub(va, vb), u32::wrapping_sub);
    same!(s, "and", a, b, s.and(va, vb), |a, b| a & b);
    same!(s, "xor", a, b, s.xor(va, vb), |a, b| a ^ b);
    same!(s, "shl", a, b, s.shl::<9>(va), |a, _| a << 9);
    same!(s, "shr", a, b, s.shr::<23>(va), |a, _| a >> 23);
    same!(s, "spread_sign", a, b, s.spread_sign(va), |a, _| if a >> 31 == 0 { 0 } else { u32::MAX });
    let last = vec![a[S::ELEMENTS - 1]; S::ELEMENTS];
    assert_eq!(store(s, s.spread_last(va)), last);
    assert_eq!(store(s, s.splat(b[0])), vec![b[0]; S::ELEMENTS]);
    let sums = a.iter().scan(0u32, |sum, &a| {
        *sum = sum.wrapping_add(a);
        Some(*sum)
    });
    assert_eq!(store(s, s.prefix_sum(va)), sums.collect::<Vec<_>>());
    let shifted: Vec<u32> = b[S::ELEMENTS - 1..].iter().chain(a).copied().take(S::ELEMENTS).collect();
    assert_eq!(store(s, s.shift_in(vb, va)), shifted);
    let equal = bits_of(a.iter().zip(b).map(|(a, b)| a == b));
    assert_eq!(s.eq(va, vb), equal);

    let bits = random.next_u32() & (u32::MAX >> (32 - S::ELEMENTS));
    let named = |i: &usize| bits >> i & 1 != 0;
    let kept: Vec<u32> = (0..S::ELEMENTS).map(|i| if named(&i) { a[i] } else { 0 }).collect();
    assert_eq!(store(s, s.keep(va, bits)), kept);
    let mut compressed = vec![7; S::ELEMENTS];
    // SAFETY: a vector of words.
    unsafe { s.compress_store(compressed.as_mut_ptr(), va, bits) };
    let expected: Vec<u32> = (0..S::ELEMENTS).filter(named).map(|i| a[i]).collect();
    assert_eq!(compressed[..expected.len()], expected);
    let mut some = vec![7; S::ELEMENTS];
    // SAFETY: a vector of words.
    unsafe { s.store_some(some.as_mut_ptr(), va, bits) };
    assert_eq!(some, (0..S::ELEMENTS).map(|i| if named(&i) { a[i] } else { 7 }).collect::<Vec<_>>());
    same!(s, "min", a, b, s.min(va, vb), u32::min);
    same!(s, "max", a, b, s.max(va, vb), u32::max);

    let (a, b) = (&elements::<S>(random, 31), &elements::<S>(random, 31));
    let (va, vb) = (load(s, a), load(s, b));
    assert_eq!(s.le(va, vb), bits_of(a.iter().zip(b).map(|(a, b)| a <= b)));
    let (a, b) = (&elements::<S>(random, 15), &elements::<S>(random, 15));
    same!(s, "mul_small", a, b, s.mul_small(load(s, a), load(s, b)), |a, b| a * b);

    let window: Vec<u32> = (0..64).map(|_| random.next_u32()).collect();
    let index: Vec<u32> = (0..S::ELEMENTS).map(|_| random.random_range(0..S::WINDOW.min(64))).collect();
    let found: Vec<u32> = index.iter().map(|&i| window[i as usize]).collect();
    // SAFETY: a window is there.
    assert_eq!(store(s, unsafe { s.lookup_window(window.as_ptr(), load(s, &index)) }), found);
    // SAFETY: the words that are named are there.
    assert_eq!(store(s, unsafe { s.lookup(window.as_ptr(), load(s, &index)) }), found);
    // The other bits of an index do not count.
    let far: Vec<u32> = index.iter().map(|&i| i.wrapping_sub(S::WINDOW)).collect();
    // SAFETY: a window is there.
    assert_eq!(store(s, unsafe { s.lookup_window(window.as_ptr(), load(s, &far)) }), found);
    let twice: Vec<u32> = window[..8].iter().chain(&window[..8]).copied().collect();
    let in_8: Vec<u32> = a.iter().map(|&i| twice[i as usize % 16]).collect();
    // SAFETY: 16 words are there.
    assert_eq!(store(s, unsafe { s.lookup_8(twice.as_ptr(), load(s, a)) }), in_8);
    let in_16: Vec<u32> = a.iter().map(|&i| window[i as usize % 16]).collect();
    // SAFETY: 16 words are there.
    assert_eq!(store(s, unsafe { s.lookup_16(window.as_ptr(), load(s, a)) }), in_16);
}

fn floats_of<S: Simd>(s: S, random: &mut ChaCha8Rng) {
    let mut floats = || -> Vec<u32> {
        let float = |_| match random.random_range(0..8) {
            0 => f32::NAN,
            1 => -0.0,
            _ => random.random_range(-1000.0..1000.0f32),
        };
        (0..S::ELEMENTS).map(float).map(f32::to_bits).collect()
    };
    let (a, b) = (&floats(), &floats());
    let (va, vb) = (s.float_of(load(s, a)), s.float_of(load(s, b)));
    let numbers = |a: u32, b: u32| (f32::from_bits(a), f32::from_bits(b));
    let check = |name: &str, made: S::F, lane: fn(f32, f32) -> f32| {
        for ((made, &a), &b) in store(s, s.bits(made)).into_iter().zip(a).zip(b) {
            let (a, b) = numbers(a, b);
            let expected = lane(a, b);
            // Any NaN will do.
            let same = made == expected.to_bits() || f32::from_bits(made).is_nan() && expected.is_nan();
            assert!(same, "{name} of {a} and {b}: {made:x}");
        }
    };
    check("add_f", s.add_f(va, vb), |a, b| a + b);
    check("sub_f", s.sub_f(va, vb), |a, b| a - b);
    check("mul_f", s.mul_f(va, vb), |a, b| a * b);
    check("div_f", s.div_f(va, vb), |a, b| a / b);
    check("splat_f", s.splat_f(0.1), |_, _| 0.1);
    same!(s, "select_by_sign", a, b, s.bits(s.select_by_sign(load(s, a), va, vb)), |a, b| {
        if a >> 31 == 0 { b } else { a }
    });
    let less = |(&a, &b): (&u32, &u32)| f32::from_bits(a) < f32::from_bits(b);
    assert_eq!(s.not_less(va, vb), bits_of(a.iter().zip(b).map(|pair| !less(pair))));

    let whole = &elements::<S>(random, 24);
    same!(s, "to_float", whole, whole, s.bits(s.to_float(load(s, whole))), |a, _| (a as f32).to_bits());
    let parts: Vec<u32> =
        whole.iter().map(|&a| (a as f32 + random.random_range(0.0..1.0f32)).min(16_777_215.0).to_bits()).collect();
    let made = s.truncate(s.float_of(load(s, &parts)));
    same!(s, "truncate", &parts, &parts, made, |a, _| f32::from_bits(a) as u32);
}

fn lanes_of_banks<S: Simd>(s: S, random: &mut ChaCha8Rng) {
    let counts: [u8; 64] = std::array::from_fn(|_| random.random_range(0..12) * u8::from(random.random_bool(0.7)));
    let bits = |is_set: fn(u8) -> bool| counts.iter().enumerate().map(|(i, &n)| u64::from(is_set(n)) << i).sum::<u64>();
    assert_eq!(s.count_bits(&counts, 4), (bits(|n| n != 0), bits(|n| n > 4)));
    assert_eq!(s.count_bits(&counts, 8), (bits(|n| n != 0), bits(|n| n > 8)));

    let bits: u64 = random.random();
    let expected: Vec<u16> = (0..64).filter(|i| bits >> i & 1 != 0).map(|i| 100 + i).collect();
    let mut places = [0u16; 64];
    // SAFETY: 64 places.
    let n = unsafe { s.list_bits(bits, 100, places.as_mut_ptr()) };
    assert_eq!(places[..n], expected);
    // SAFETY: 64 places.
    let n = unsafe { s.list_few_bits(bits, 100, places.as_mut_ptr()) };
    assert_eq!(places[..n], expected);

    let mut words: [u16; 254 + 33] = std::array::from_fn(|_| random.random());
    let n_sorted = if random.random_bool(0.7) { 254 } else { random.random_range(0..254) };
    words[..n_sorted].sort_by_key(|word| word & LANE_BITS);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let n = random.random_range(0..=254);
    for n in (0..=34).chain([n]) {
        // Lanes 6 and 7 do not exist.
        let existing = |ends: u64| ends & ((1 << 48) - 1);
        let lanes = words[..n].iter().map(|word| (word & LANE_BITS) >> 11);
        let ends = (0..8).map(|lane| (lanes.clone().filter(|&of| of <= lane).count() as u64) << (8 * lane)).sum();
        // SAFETY: the words are there, and 66 bytes more.
        let (made, sorted) = unsafe { s.lane_ends(bytes.as_ptr(), n) };
        assert_eq!(sorted, lanes.is_sorted(), "{n} of {words:x?}");
        if sorted {
            assert_eq!(existing(made), existing(ends), "{n} of {words:x?}");
        }
    }
}

/// Words whose lanes fall once, at any place in a vector or between two.
fn lanes_with_one_fall<S: Simd>(s: S) {
    for fall in 1..=64 {
        let words: [u16; 80 + 33] = std::array::from_fn(|i| if i < fall { 3 << 11 } else { 1 << 11 });
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for n in [fall, fall + 1, 80] {
            // SAFETY: the words are there, and 66 bytes more.
            let (_, sorted) = unsafe { s.lane_ends(bytes.as_ptr(), n) };
            assert_eq!(sorted, n == fall, "{n} words, of which the lane falls at {fall}");
        }
    }
}

/// A lane's hits in pairs of 16 bits, `STRIDE` bytes apart, copied in both directions.
fn lanes_of_hits<S: Simd, const STRIDE: usize>(s: S, random: &mut ChaCha8Rng) {
    let bytes: [u8; 2048] = std::array::from_fn(|_| random.random());
    let (mask, xor) = (random.next_u32(), random.next_u32());
    let start = usize::from(S::start::<STRIDE>());
    for n in 0..=32 {
        let place = |hit: usize| STRIDE * (hit / 2) + 2 * (hit % 2);
        let hit = |hit| u32::from(u16::from_le_bytes([bytes[place(hit)], bytes[place(hit) + 1]])) & mask ^ xor;
        let forwards: Vec<u32> = (0..n).map(hit).collect();
        let backwards: Vec<u32> = forwards.iter().rev().copied().collect();
        for (expected, direction) in [(&forwards, 0), (&backwards, REVERSE)] {
            let mut made = [7; 64];
            if n > 4 && n <= S::BLOCK {
                // SAFETY: eight pairs; 64 words.
                unsafe { s.copy_block::<STRIDE>(bytes.as_ptr(), n, direction, mask, xor, made.as_mut_ptr()) };
                assert_eq!(made[..n], expected[..], "{n} hits, direction {direction}");
                assert_eq!(made[n..], [7; 64][n..], "{n} hits, direction {direction}");
            }
            if n == 0 || n > start && direction == REVERSE {
                continue;
            }
            let mut made = [7; 9];
            // SAFETY: four pairs; eight words.
            unsafe { s.copy_start::<STRIDE>(bytes.as_ptr(), n as u8, direction, mask, xor, made.as_mut_ptr()) };
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
        floats_of(s, &mut random);
        lanes_of_banks(s, &mut random);
        lanes_of_hits::<S, 4>(s, &mut random);
        lanes_of_hits::<S, 32>(s, &mut random);
    }
}

#[test]
fn every_level_that_the_cpu_has_does_what_the_trait_says() {
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
