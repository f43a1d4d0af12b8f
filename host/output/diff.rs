//! Two files of hits, hit by hit: which events, which hits, and which columns differ, and by how much.
//!
//! Events are matched by their file and by their number in it, which rises. Files are matched by name where both tables have
//! names and share one, else by their place among those that have hits. Inside an event, hits are matched by LHCbID; where an id
//! comes several times, in the order in which it comes. Floats are equal when their bits are. Memory: one event of each file.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use super::read::{Cell, EventOfFile, FileKey, HitReader, ReadColumn, ReadError, Values};
use crate::detector::{LhcbId, N_LAYERS};

/// How often hits of one layer are in A and B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerDiff {
    /// In both, with equal values.
    pub same: u64,
    /// In both, with other values.
    pub different: u64,
    /// Only in A.
    pub only_a: u64,
    /// Only in B.
    pub only_b: u64,
}

/// How a column differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnDiff {
    /// The column.
    pub column: ReadColumn,
    /// Hits in which it differs.
    pub hits: u64,
    /// Of them, those in which only one file has a value.
    pub nulls: u64,
    /// The largest difference of two values.
    pub most: f64,
    /// Of floats, in units in the last place.
    pub most_ulps: u64,
}

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// File, and event in the file.
    pub place: (u64, u64),
    /// The LHCbID of the hit, as the file has it; `None`: the whole event.
    pub id: Option<Cell>,
    /// What it is.
    pub what: What,
}

/// What can differ.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// So many hits, or the hit, only in A.
    OnlyA(usize),
    /// Only in B.
    OnlyB(usize),
    /// The event's hits come in another order.
    Order,
    /// A column has these values in A and B.
    Value(ReadColumn, Cell, Cell),
}

/// What [`diff`] found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// Events with hits, in both, without any difference.
    pub same_events: u64,
    /// In both, with some.
    pub different_events: u64,
    /// Only in A.
    pub only_a_events: u64,
    /// Only in B.
    pub only_b_events: u64,
    /// In both, with the hits that are in both in another order.
    pub other_order_events: u64,
    /// By layer; the last are ids that do not name the UT.
    pub layers: [LayerDiff; N_LAYERS + 1],
    /// Files whose events are in A and in B. A new one begins where the name changes, and where event numbers fall.
    pub files: [u64; 2],
    /// Whether a file of A or B began where event numbers fall.
    pub fell: bool,
    /// The columns that were compared, beside event and id.
    pub columns: Vec<ColumnDiff>,
    /// Columns that only A, or only B has.
    pub only_in: [Vec<&'static str>; 2],
    /// The first differences.
    pub first: Vec<Difference>,
}

/// What to compare, and what to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffOptions {
    /// Hits in another order do not count as a difference.
    pub any_order: bool,
    /// Differences that are kept one by one.
    pub first: usize,
}

impl Diff {
    /// Whether there is no difference in what was compared.
    pub fn is_same(&self) -> bool {
        self.different_events + self.only_a_events + self.only_b_events == 0
    }
}

/// Compares two files.
///
/// # Errors
/// When one cannot be read, or has the same files as the other in another order.
pub fn diff(a: &mut HitReader, b: &mut HitReader, options: DiffOptions) -> Result<Diff, ReadError> {
    let (ours, theirs) = (a.columns().to_vec(), b.columns().to_vec());
    let without = |some: &[ReadColumn], others: &[ReadColumn]| {
        some.iter().filter(|column| !others.contains(column)).map(|column| column.name).collect()
    };
    let place = |columns: &[ReadColumn], name: &str| columns.iter().position(|column| column.name == name);
    let mut compared: Vec<(usize, usize)> = Vec::new();
    let mut columns = Vec::new();
    for (i, &column) in ours.iter().enumerate() {
        if let Some(other) = place(&theirs, column.name).filter(|_| !["event", "lhcb_id"].contains(&column.name)) {
            compared.push((i, other));
            columns.push(ColumnDiff { column, hits: 0, nulls: 0, most: 0.0, most_ulps: 0 });
        }
    }
    let mut this = Comparison {
        ids: [&ours, &theirs].map(|columns| place(columns, "lhcb_id").unwrap_or_default()),
        compared,
        options,
        diff: Diff { columns, only_in: [without(&ours, &theirs), without(&theirs, &ours)], ..Diff::default() },
    };
    let (mut event_a, mut event_b) = (EventOfFile::default(), EventOfFile::default());
    let (mut has_a, mut has_b) = (a.next_event(&mut event_a)?, b.next_event(&mut event_b)?);
    let mut files = Files { by_name: a.has_names() && b.has_names(), all: None };
    while has_a || has_b {
        let order = match (has_a, has_b) {
            (true, true) => match files.order(a, b)? {
                Some(order) => order.then(event_a.place.1.cmp(&event_b.place.1)),
                None => event_a.place.cmp(&event_b.place),
            },
            (true, false) => Ordering::Less,
            _ => Ordering::Greater,
        };
        match order {
            Ordering::Less => this.alone(&event_a, 0),
            Ordering::Greater => this.alone(&event_b, 1),
            Ordering::Equal => this.event(&event_a, &event_b),
        }
        if order.is_le() {
            has_a = a.next_event(&mut event_a)?;
        }
        if order.is_ge() {
            has_b = b.next_event(&mut event_b)?;
        }
    }
    this.diff.files = [a.n_files(), b.n_files()];
    this.diff.fell = a.has_fallen() || b.has_fallen();
    Ok(this.diff)
}

/// How the files of two tables go together.
struct Files {
    by_name: bool,
    /// All files of A and of B by name, once they are needed.
    all: Option<[HashMap<Arc<[u8]>, u64>; 2]>,
}

impl Files {
    /// Whether the file of A's event comes before that of B's; `None` where their places say it.
    fn order(&mut self, a: &HitReader, b: &HitReader) -> Result<Option<Ordering>, ReadError> {
        if !self.by_name {
            return Ok(None);
        }
        let (of_a, of_b) = (a.file(), b.file());
        if of_a == of_b {
            return Ok(Some(Ordering::Equal));
        }
        // The other one is done with a file that it has reached.
        if b.has_reached(of_a) {
            return Ok(Some(Ordering::Less));
        }
        if a.has_reached(of_b) {
            return Ok(Some(Ordering::Greater));
        }
        let [all_a, all_b] = &*match &mut self.all {
            Some(all) => all,
            None => self.all.insert([a.all_files()?, b.all_files()?]),
        };
        if !all_a.keys().any(|name| all_b.contains_key(name)) {
            // The same events under other names, or nothing that belongs together.
            self.by_name = false;
            return Ok(None);
        }
        let holds = |all: &HashMap<Arc<[u8]>, u64>, (name, before): &FileKey| all.get(name).is_some_and(|n| n > before);
        match (holds(all_b, of_a), holds(all_a, of_b)) {
            (false, _) => Ok(Some(Ordering::Less)),
            (true, false) => Ok(Some(Ordering::Greater)),
            (true, true) => {
                let [of_a, of_b] = [of_a, of_b].map(|(name, _)| String::from_utf8_lossy(name));
                let what = format!(
                    "file {of_b} comes before {of_a}, but after it in {}; both need the same order",
                    a.path().display()
                );
                Err(ReadError::Content { file: b.path().display().to_string(), what })
            }
        }
    }
}

struct Comparison {
    /// The columns of ids in A and B.
    ids: [usize; 2],
    /// Those that are compared, in A and B.
    compared: Vec<(usize, usize)>,
    options: DiffOptions,
    diff: Diff,
}

impl Comparison {
    /// An event that only one file has.
    fn alone(&mut self, event: &EventOfFile, side: usize) {
        let ids = &event.columns[self.ids[side]];
        for id in ids {
            self.count(*id, |layer| if side == 0 { &mut layer.only_a } else { &mut layer.only_b });
        }
        let (events, what) = match side {
            0 => (&mut self.diff.only_a_events, What::OnlyA(ids.len())),
            _ => (&mut self.diff.only_b_events, What::OnlyB(ids.len())),
        };
        *events += 1;
        self.note(event.place, None, what);
    }

    /// An event that both have.
    fn event(&mut self, a: &EventOfFile, b: &EventOfFile) {
        let (ids_a, ids_b) = (&a.columns[self.ids[0]], &b.columns[self.ids[1]]);
        let mut same = true;
        let mut pairs = Vec::with_capacity(ids_a.len());
        // If the order is to be ignored, hits with the same id are sorted by their values.
        let values = if self.options.any_order { &self.compared[..] } else { &[] };
        if ids_a == ids_b && values.iter().all(|&(in_a, in_b)| a.columns[in_a] == b.columns[in_b]) {
            pairs.extend((0..ids_a.len()).map(|i| (i, i)));
        } else {
            let sorted = |event: &EventOfFile, side: usize| {
                let columns = values.iter().map(|&(in_a, in_b)| [in_a, in_b][side]);
                let columns: Vec<&[Cell]> =
                    std::iter::once(self.ids[side]).chain(columns).map(|column| &event.columns[column][..]).collect();
                let mut order: Vec<usize> = (0..columns[0].len()).collect();
                let of = |i: usize| columns.iter().map(move |column| column[i]);
                order.sort_by(|&i, &j| of(i).cmp(of(j)));
                order
            };
            let (order_a, order_b) = (sorted(a, 0), sorted(b, 1));
            let (mut of_a, mut of_b) = (order_a.iter().peekable(), order_b.iter().peekable());
            loop {
                let order = match (of_a.peek(), of_b.peek()) {
                    (Some(&&i), Some(&&j)) => ids_a[i].cmp(&ids_b[j]),
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (None, None) => break,
                };
                let i = if order.is_le() { of_a.next() } else { None };
                let j = if order.is_ge() { of_b.next() } else { None };
                match (i, j) {
                    (Some(&i), Some(&j)) => pairs.push((i, j)),
                    (Some(&i), None) => {
                        same = false;
                        self.count(ids_a[i], |layer| &mut layer.only_a);
                        self.note(a.place, Some(ids_a[i]), What::OnlyA(1));
                    }
                    (None, Some(&j)) => {
                        same = false;
                        self.count(ids_b[j], |layer| &mut layer.only_b);
                        self.note(a.place, Some(ids_b[j]), What::OnlyB(1));
                    }
                    (None, None) => {}
                }
            }
            pairs.sort_unstable();
            if pairs.windows(2).any(|pair| pair[0].1 > pair[1].1) {
                self.diff.other_order_events += 1;
                if !self.options.any_order {
                    same = false;
                    self.note(a.place, None, What::Order);
                }
            }
        }
        for (i, j) in pairs {
            let mut equal = true;
            for at in 0..self.compared.len() {
                let (in_a, in_b) = self.compared[at];
                let (value_a, value_b) = (a.columns[in_a][i], b.columns[in_b][j]);
                if value_a != value_b {
                    equal = false;
                    let column = &mut self.diff.columns[at];
                    column.add(value_a, value_b);
                    let column = column.column;
                    self.note(a.place, Some(ids_a[i]), What::Value(column, value_a, value_b));
                }
            }
            same &= equal;
            self.count(ids_a[i], |layer| if equal { &mut layer.same } else { &mut layer.different });
        }
        *(if same { &mut self.diff.same_events } else { &mut self.diff.different_events }) += 1;
    }

    fn count(&mut self, id: Cell, what: impl Fn(&mut LayerDiff) -> &mut u64) {
        let id = id.and_then(|id| u32::try_from(id).ok()).map(LhcbId).filter(|id| id.is_ut());
        let layer = id.map_or(N_LAYERS, |id| usize::from(id.channel().layer()));
        *what(&mut self.diff.layers[layer]) += 1;
    }

    fn note(&mut self, place: (u64, u64), id: Option<Cell>, what: What) {
        if self.diff.first.len() < self.options.first {
            self.diff.first.push(Difference { place, id, what });
        }
    }
}

impl ColumnDiff {
    fn add(&mut self, a: Cell, b: Cell) {
        self.hits += 1;
        let (Some(a), Some(b)) = (a, b) else {
            self.nulls += 1;
            return;
        };
        match self.column.values {
            Values::Integers => self.most = self.most.max(a.abs_diff(b) as f64),
            Values::Floats => {
                let [a, b] = [a, b].map(|bits| f32::from_bits(bits as u32));
                let by = (f64::from(a) - f64::from(b)).abs();
                // One of them is not a number: nothing is as far away.
                self.most = self.most.max(if by.is_nan() { f64::INFINITY } else { by });
                self.most_ulps = self.most_ulps.max(order(a).abs_diff(order(b)));
            }
        }
    }
}

/// Floats as integers that are as far apart as there are floats between them.
fn order(value: f32) -> i64 {
    let bits = i64::from(value.to_bits());
    if value.is_sign_negative() { -(bits & 0x7FFF_FFFF) } else { bits }
}
