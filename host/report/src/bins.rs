//! Bins over numbers whose range is not known beforehand: bins double their width when there are
//! too many.
//!
//! A bin of width 2^s holds the keys that agree in all but their last s bits. The width is the
//! smallest for which the bins are no more than [`MOST`]: it depends on the keys alone, so that
//! merging is associative and commutative.
//!
//! For example, event numbers 0 to 127 have bins of width 1. When number 128 comes, neighbouring
//! bins are joined to 64 bins of width 2, and the new number gets bin 64. Bins of two machines, one
//! of width 4 and one of width 16, are merged at width 16 or more: because widths are powers of two
//! and bins begin at multiples of their width, each narrow bin falls into one wide bin as a whole.
//! No number is ever divided between bins.

use std::ops::AddAssign;

/// Largest number of bins.
pub const MOST: usize = 128;

/// Consecutive bins of the same width.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Bins<T> {
    /// A bin is 2 to this power wide.
    shift: u32,
    /// Number of the first bin: its least key, divided by the width.
    first: u64,
    row: Vec<T>,
}

impl<T: Default + for<'a> AddAssign<&'a T>> Bins<T> {
    /// Returns the bin of a key.
    pub fn at(&mut self, key: u64) -> &mut T {
        self.cover(0, key, key);
        let place = (key >> self.shift) - self.first;
        &mut self.row[place as usize]
    }

    /// Adds other bins, each of which falls into one bin as a whole.
    pub fn merge(&mut self, other: &Self) {
        if other.row.is_empty() {
            return;
        }
        let keys = |number: u64| number << other.shift;
        self.cover(
            other.shift,
            keys(other.first),
            keys(other.first + (other.row.len() as u64 - 1)),
        );
        for (i, bin) in other.row.iter().enumerate() {
            let place = (keys(other.first + i as u64) >> self.shift) - self.first;
            self.row[place as usize] += bin;
        }
    }

    /// Makes the bins at least 2^`shift` wide, and adds bins until both keys have one.
    fn cover(&mut self, shift: u32, least: u64, greatest: u64) {
        let (mut least, mut greatest) = (least, greatest);
        if self.row.is_empty() {
            (self.shift, self.first) = (shift, least >> shift);
        } else {
            least = least.min(self.first << self.shift);
            greatest = greatest.max((self.first + (self.row.len() as u64 - 1)) << self.shift);
        }
        let mut wide = self.shift.max(shift);
        while (greatest >> wide) - (least >> wide) >= MOST as u64 {
            wide += 1;
        }
        if wide > self.shift {
            let old = std::mem::take(&mut self.row);
            let first = self.first >> (wide - self.shift);
            for (i, bin) in old.iter().enumerate() {
                let place = (((self.first + i as u64) >> (wide - self.shift)) - first) as usize;
                if self.row.len() <= place {
                    self.row.resize_with(place + 1, T::default);
                }
                self.row[place] += bin;
            }
            (self.shift, self.first) = (wide, first);
        }
        let (first, last) = (least >> self.shift, greatest >> self.shift);
        if first < self.first {
            let missing = (self.first - first) as usize;
            self.row.splice(0..0, (0..missing).map(|_| T::default()));
            self.first = first;
        }
        let needed = (last - self.first + 1) as usize;
        if self.row.len() < needed {
            self.row.resize_with(needed, T::default);
        }
    }
}

impl<T> Bins<T> {
    /// Returns the width as a power of 2, the number of the first bin, and the number of bins.
    pub(super) const fn place(&self) -> (u32, u64, usize) {
        (self.shift, self.first, self.row.len())
    }

    /// Returns the number of keys in a bin.
    pub const fn width(&self) -> u64 {
        1 << self.shift
    }

    /// Iterates over the bins with their least keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, &T)> {
        self.row
            .iter()
            .enumerate()
            .map(|(i, bin)| ((self.first + i as u64) << self.shift, bin))
    }

    /// Returns the number of bins.
    pub const fn len(&self) -> usize {
        self.row.len()
    }

    /// Returns true if nothing was counted.
    pub const fn is_empty(&self) -> bool {
        self.row.is_empty()
    }
}

/// Returns the least and the greatest of two pairs.
pub fn both(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (one, other) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::{Bins, MOST};

    fn of(keys: &[u64]) -> Bins<u64> {
        let mut bins = Bins::default();
        for &key in keys {
            *bins.at(key) += 1;
        }
        bins
    }

    fn merged(parts: &[&[u64]]) -> Bins<u64> {
        let mut all = Bins::default();
        for part in parts {
            all.merge(&of(part));
        }
        all
    }

    #[test]
    fn bins_depend_only_on_the_keys_and_not_on_order_or_merging() {
        let sets: [&[u64]; 6] = [
            &[],
            &[7],
            &[0, 1, 2, 127],
            &[130, 3, 3, 128],
            &[u64::MAX, 0, 1 << 40],
            &[1 << 20, (1 << 20) + 127, (1 << 20) + 128],
        ];
        for a in sets {
            for b in sets {
                for c in sets {
                    let all = [a, b, c].concat();
                    let backwards: Vec<u64> = all.iter().rev().copied().collect();
                    let expected = of(&all);
                    assert_eq!(of(&backwards), expected, "{all:?}");
                    assert_eq!(merged(&[a, b, c]), expected, "{all:?}");
                    let mut right = of(a);
                    right.merge(&merged(&[c, b]));
                    assert_eq!(right, expected, "{all:?}");
                    assert!(expected.len() <= MOST);
                    assert_eq!(
                        expected.iter().map(|(_, n)| n).sum::<u64>(),
                        all.len() as u64
                    );
                }
            }
        }
    }
}
