//! MEP packets, as the event builder writes them: bank-major, a fragment without a header for each
//! event.
//!
//! A packet consists of multi-fragment packets (MFPs), one per source. The MFPs of the UT and of
//! ODIN are kept as they are read, and the others are skipped. A batch in MEP layout points into
//! those bytes: no payload is copied. Of a large packet in a file only the headers are read at
//! first; the threads that decode it read a slice of its events each.
//!
//! # What a wrong number costs
//!
//! A packet states sizes and offsets in several places, and any of them may be wrong. Where the
//! damage lies decides what is lost:
//!
//! | wrong | lost |
//! | --- | --- |
//! | the packet's header, or the order of the MFPs' offsets | the file from this packet on |
//! | magic number, size, sourceID, or fragment sizes of an MFP | this source in this packet |
//! | first event or number of events of an MFP | this source in this packet |

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Read};

use super::Damage;
use super::event::kind;
use super::file_at::fill;
use super::mdf_format::{u16_at, u32_at};
use super::pool::PooledBuffer;

/// First half-word of a packet.
pub(super) const MAGIC: u16 = 0xCEFA;
/// First half-word of a multi-fragment packet.
pub(super) const MFP_MAGIC: u16 = 0x40CE;
/// Number of bytes of a packet's header, before its sourceIDs.
pub(super) const HEADER: usize = 8;
/// Number of bytes of an MFP's header, before its types.
pub(super) const MFP_HEADER: usize = 20;
/// Size in bytes of the page to whose end zeros between packets go.
pub(super) const PAGE: u64 = 4096;
/// Maximum logarithm to base 2 of the bytes to which fragments are padded.
const MAX_ALIGN: u8 = 12;

/// Number of bytes to request at once: a few more than the longest tables of an MFP.
const AT_ONCE: u64 = 1 << 18;

/// A packet of a file with more bytes is read in slices.
///
/// Up to this size a packet is read at once: a request for each source would take longer than to
/// read the sources that are skipped.
const SLICED: u64 = 4 << 20;

/// Maximum memory of the tables of fragments, 7 bytes each: a small compressed file can claim any
/// number.
const MOST_TABLES: u64 = 512 << 20;
const BYTES_OF_FRAGMENT: u64 = 7;

/// Skips bytes of an input without reading them.
pub(super) type Pass<R> = fn(&mut R, u64) -> io::Result<()>;

/// Reason that a packet cannot be read.
#[derive(Debug)]
pub(super) enum PacketError {
    /// The system cannot read.
    Read(io::Error),
    /// Bytes that are not a packet. `byte` counts from the packet's beginning.
    Bad { byte: u64, what: String },
}

impl From<io::Error> for PacketError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Sender {
    pub source_id: u32,
    pub version: u8,
    pub types: Vec<u8>,
    pub sizes: Vec<u16>,
    /// Byte at which the fragments begin: of `raw`, or of the packet where they were left in the
    /// file.
    pub begin: u64,
    /// Byte of the packet at which they begin, wherever they are now.
    pub in_packet: u64,
    /// Beginning of each fragment, from there.
    pub starts: Vec<u32>,
}

/// A packet: consecutive events of all sources.
#[derive(Debug, Default)]
pub struct Packet {
    /// The payloads, or the whole packet; nothing if they were left in the file.
    pub raw: PooledBuffer,
    pub left: bool,
    /// Size of the payloads in bytes, where each source is padded to a multiple of 4.
    pub kept: u64,
    /// Number of bytes of memory for the tables of its fragments.
    tables: u64,
    pub n_events: usize,
    pub first: u64,
    pub ut: Vec<Sender>,
    pub odin: Vec<Sender>,
    /// Number of banks of each event that are not the UT's.
    pub others: u32,
    pub damage: Option<Box<Damage>>,
    /// Size of the packet in the file, in bytes.
    pub bytes: u64,
}

enum MfpKind {
    Ut,
    Odin,
    Skipped,
}

/// Header of an MFP, as far as it is needed.
struct MfpHeader {
    /// Number of fragments.
    n: usize,
    /// Size in bytes, header and tables included.
    size: u64,
    first: u64,
    /// Logarithm to base 2 of the bytes to which fragments are padded.
    align: u8,
    version: u8,
}

impl MfpHeader {
    /// Reads and checks the header of an MFP that should be of `source_id`, with at most `room`
    /// bytes.
    ///
    /// # Errors
    /// If the header is wrong; the error says what.
    fn of(head: &[u8], source_id: u16, room: u64) -> Result<Self, String> {
        let magic = u16_at(head, 0);
        if magic != MFP_MAGIC {
            return Err(format!(
                "it begins with 0x{magic:04x} instead of 0x{MFP_MAGIC:04x}"
            ));
        }
        let mfp = Self {
            n: usize::from(u16_at(head, 2)),
            size: u64::from(u32_at(head, 4)),
            first: u64::from(u32_at(head, 12)) << 32 | u64::from(u32_at(head, 8)),
            align: head[18],
            version: head[19],
        };
        let (own_id, tables) = (u16_at(head, 16), tables_of(mfp.n));
        let Self { size, align, .. } = mfp;
        if size < tables as u64 || size > room {
            return Err(format!(
                "its size is {size} bytes; its tables take {tables}, and {room} are there"
            ));
        }
        if own_id != source_id {
            return Err(format!("it names sourceID 0x{own_id:04x}"));
        }
        if align > MAX_ALIGN {
            return Err(format!(
                "its fragments are padded to 2^{align} bytes; at most 2^{MAX_ALIGN} are possible"
            ));
        }
        Ok(mfp)
    }
}

/// An MFP with its first event and the number of its events.
struct Source {
    fate: MfpKind,
    sender: Sender,
    events: (u64, usize),
}

/// Returns the first event and the number of events that most MFPs state, so that one wrong header
/// costs one source. In a tie the larger number wins, so that lost events are counted.
fn agreed(found: &[Option<Source>]) -> (u64, usize) {
    let mut votes = BTreeMap::<_, usize>::new();
    for source in found.iter().flatten() {
        *votes.entry(source.events).or_default() += 1;
    }
    votes
        .into_iter()
        .max_by_key(|&((first, n), votes)| (votes, n, Reverse(first)))
        .map_or((0, 0), |(events, _)| events)
}

/// Input that counts its bytes and reports an early end.
struct CountedInput<'r, R> {
    input: &'r mut R,
    at: u64,
    limit: u64,
    pass: Option<Pass<R>>,
}

impl<R: Read> CountedInput<'_, R> {
    /// Appends `n` bytes to `to`, which grows no faster than they arrive unless they are few.
    fn append(&mut self, n: u64, to: &mut Vec<u8>) -> Result<(), PacketError> {
        if n > AT_ONCE {
            let read = self.input.by_ref().take(n).read_to_end(to)? as u64;
            return self.passed(read, n);
        }
        let before = to.len();
        to.resize(before + n as usize, 0);
        let read = fill(&mut to[before..], |rest, _| self.input.read(rest))?;
        to.truncate(before + read);
        self.passed(read as u64, n)
    }

    fn skip(&mut self, n: u64) -> Result<(), PacketError> {
        let passed = match self.pass {
            Some(pass) => pass(self.input, n).map(|()| n),
            None => io::copy(&mut self.input.by_ref().take(n), &mut io::sink()),
        };
        self.passed(passed?, n)
    }

    fn passed(&mut self, read: u64, wanted: u64) -> Result<(), PacketError> {
        self.at += read;
        if read < wanted {
            Err(cut(self.at, wanted - read))
        } else {
            Ok(())
        }
    }
}

/// Returns the size in bytes of the header and the tables of an MFP with `n` events.
const fn tables_of(n: usize) -> usize {
    MFP_HEADER + n.next_multiple_of(4) + (2 * n).next_multiple_of(4)
}

/// Collects `items`, or fails where memory runs out: the tables of a packet can take gigabytes.
fn collected<T>(items: impl ExactSizeIterator<Item = T>) -> io::Result<Vec<T>> {
    let mut all = Vec::new();
    all.try_reserve_exact(items.len())
        .map_err(|_| io::ErrorKind::OutOfMemory)?;
    all.extend(items);
    Ok(all)
}

/// Error of a packet that ends at byte `byte`, `left` bytes early.
pub(super) fn cut(byte: u64, left: u64) -> PacketError {
    PacketError::Bad {
        byte,
        what: format!("the packet ends here, {left} bytes early: truncated?"),
    }
}

impl Packet {
    /// Reads the next packet, of at most `limit` bytes, of which `begin` are read already, into the
    /// buffer `raw`. Where there is a way to `pass` them, the payloads of a large packet are left:
    /// see [`Self::load`].
    pub(super) fn read<R: Read>(
        mut raw: PooledBuffer,
        begin: &[u8],
        input: &mut R,
        limit: u64,
        pass: Option<Pass<R>>,
    ) -> Result<Self, PacketError> {
        raw.clear();
        let mut this = Self {
            raw,
            ..Self::default()
        };
        let mut cursor = CountedInput {
            input,
            at: begin.len() as u64,
            limit,
            pass: None,
        };
        let mut head = begin.to_vec();
        cursor.append(HEADER as u64 - cursor.at, &mut head)?;
        let bad = |byte: usize, what: String| {
            Err(PacketError::Bad {
                byte: byte as u64,
                what,
            })
        };
        if u16_at(&head, 0) != MAGIC {
            return bad(
                0,
                format!(
                    "it begins with 0x{:04x} instead of 0x{MAGIC:04x}",
                    u16_at(&head, 0)
                ),
            );
        }
        let n = usize::from(u16_at(&head, 2));
        let total = 4 * u64::from(u32_at(&head, 4));
        let tables = HEADER + 2 * n.next_multiple_of(2) + 4 * n;
        if total < tables as u64 || total > cursor.limit {
            let limit = cursor.limit;
            let room = if limit == u64::MAX {
                String::new()
            } else {
                format!(", and {limit} bytes are there")
            };
            return bad(
                4,
                format!("its size is {total} bytes; its header and tables take {tables}{room}"),
            );
        }
        let tables = (tables - HEADER) as u64;
        if pass.is_some() && total <= SLICED {
            // At once, as it is: to ask for each part of it would take longer than to read it.
            let mut raw = std::mem::take(&mut this.raw);
            raw.extend(&head);
            cursor.append(total - HEADER as u64, &mut raw)?;
            let pass: Pass<&[u8]> = |bytes, n| {
                *bytes = bytes.get(n as usize..).unwrap_or_default();
                Ok(())
            };
            let mut bytes = &raw[HEADER..];
            let mut cursor = CountedInput {
                input: &mut bytes,
                at: HEADER as u64,
                limit,
                pass: Some(pass),
            };
            cursor.append(tables, &mut head)?;
            this.read_sources(&mut cursor, &head, (n, total))?;
            this.raw = raw;
            return Ok(this);
        }
        (this.left, cursor.pass) = (pass.is_some(), pass);
        cursor.append(tables, &mut head)?;
        this.read_sources(&mut cursor, &head, (n, total))?;
        Ok(this)
    }

    /// Reads the `n` MFPs of a packet of `total` bytes.
    fn read_sources<R: Read>(
        &mut self,
        cursor: &mut CountedInput<'_, R>,
        head: &[u8],
        (n, total): (usize, u64),
    ) -> Result<(), PacketError> {
        let bad = |byte: usize, what: String| {
            Err(PacketError::Bad {
                byte: byte as u64,
                what,
            })
        };
        let source = |i: usize| u16_at(head, HEADER + 2 * i);
        let offset =
            |i: usize| 4 * u64::from(u32_at(head, HEADER + 2 * n.next_multiple_of(2) + 4 * i));
        // MFPs lie in the order of their offsets, which need not be the order of the table. The
        // input may be a pipe, so that they are read in the order in which they lie.
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|&i| offset(i));
        let mut found: Vec<Option<Source>> = (0..n).map(|_| None).collect();
        let mut first_bad: Option<(usize, String)> = None;
        let mut foreseen = 0;
        for (place, &i) in order.iter().enumerate() {
            let end = order.get(place + 1).map_or(total, |&next| offset(next));
            let begin = offset(i);
            let Some(gap) = begin
                .checked_sub(cursor.at)
                .filter(|_| begin <= end && end <= total)
            else {
                return bad(
                    HEADER,
                    format!(
                        "MFP {i} is out of order or too long: byte {begin} to {end} of {total}"
                    ),
                );
            };
            cursor.skip(gap)?;
            match self.read_source(cursor, end - begin, source(i), foreseen)? {
                Ok(source) => {
                    foreseen = source.events.1;
                    found[i] = Some(source);
                }
                Err(what) => _ = first_bad.get_or_insert((i, what)),
            }
            let rest = end.saturating_sub(cursor.at);
            cursor.skip(rest)?;
        }
        let rest = total - cursor.at.min(total);
        cursor.skip(rest)?;
        self.bytes = total;
        (self.first, self.n_events) = agreed(&found);
        let mut lost = 0;
        for (i, found) in found.into_iter().enumerate() {
            let is_of_ut = matches!(source(i) >> 11, 5 | 6);
            let Some(Source {
                fate,
                sender,
                events: (first, n),
            }) = found
            else {
                lost += usize::from(is_of_ut);
                continue;
            };
            if (first, n) != (self.first, self.n_events) {
                lost += usize::from(is_of_ut);
                let what = format!(
                    "it has {n} events from {first}; other MFPs have {} from {}",
                    self.n_events, self.first
                );
                first_bad.get_or_insert((i, what));
                continue;
            }
            self.others += u32::from(!matches!(fate, MfpKind::Ut));
            match fate {
                MfpKind::Ut => self.ut.push(sender),
                MfpKind::Odin => self.odin.push(sender),
                MfpKind::Skipped => {}
            }
        }
        let Some((mfp, what)) = first_bad else {
            return Ok(());
        };
        let what = format!(
            "MFP {mfp} of the packet, sourceID 0x{:04x}: {what}",
            source(mfp)
        );
        if self.n_events == 0 {
            return bad(
                offset(mfp) as usize,
                what + "; the number of lost events is unknown",
            );
        }
        let damage = Damage::of_event(what + "; the board is left out of the packet's events");
        self.damage = Some(Box::new(damage.losing(lost)));
        Ok(())
    }

    /// Reads an MFP of at most `room` bytes and probably `foreseen` events; `Ok(Err)` if its
    /// fragments are unclear.
    fn read_source<R: Read>(
        &mut self,
        cursor: &mut CountedInput<'_, R>,
        room: u64,
        source_id: u16,
        foreseen: usize,
    ) -> Result<Result<Source, String>, PacketError> {
        if room < MFP_HEADER as u64 {
            return Ok(Err(format!(
                "it has {room} bytes, fewer than its header, which takes {MFP_HEADER}"
            )));
        }
        // With its tables, where it can be foreseen how long those are: to ask twice costs more
        // than to read.
        let mut head = Vec::new();
        cursor.append((tables_of(foreseen) as u64).min(room), &mut head)?;
        let mfp = match MfpHeader::of(&head, source_id, room) {
            Ok(mfp) => mfp,
            Err(what) => return Ok(Err(what)),
        };
        let (n, tables) = (mfp.n, tables_of(mfp.n));
        cursor.append(tables.saturating_sub(head.len()) as u64, &mut head)?;
        // An MFP with fewer events than foreseen has shorter tables: what was read beyond them is
        // data.
        let mut beyond = head.split_off(tables);
        let begin = cursor.at - beyond.len() as u64;
        let types = collected(head[MFP_HEADER..MFP_HEADER + n].iter().copied())?;
        let sizes_at = MFP_HEADER + n.next_multiple_of(4);
        let sizes = head[sizes_at..].as_chunks().0.iter().take(n);
        let sizes = collected(sizes.map(|size| u16::from_le_bytes(*size)))?;
        // The top five bits of a sourceID name the detector; 5 and 6 are the two sides of the UT.
        // The type of the fragments counts as well, so that UT banks under other sourceIDs are
        // found, too.
        let is_ut = matches!(source_id >> 11, 5 | 6) || types.iter().any(|&kind| kind::is_ut(kind));
        let is_odin = types.contains(&kind::ODIN);
        let sender = Sender {
            source_id: u32::from(source_id),
            version: mfp.version,
            ..Sender::default()
        };
        if !is_ut && !is_odin {
            return Ok(Ok(Source {
                fate: MfpKind::Skipped,
                sender,
                events: (mfp.first, n),
            }));
        }
        if !self.count_tables(n) {
            return Ok(Err(format!(
                "the tables of the packet's fragments take more than {} MiB",
                MOST_TABLES >> 20
            )));
        }
        let unit = 1u64 << mfp.align;
        let pad = |size: u16| (u64::from(size) + unit - 1) & !(unit - 1);
        let mut padded = 0;
        let starts = sizes.iter().map(|&size| {
            let this = padded as u32;
            padded += pad(size);
            this
        });
        let starts = collected(starts)?;
        let last = sizes.last().map_or(0, |&size| pad(size) - u64::from(size));
        let data = mfp.size - tables as u64;
        // The tables may be padded as fragments are, and the last fragment need not be.
        let front = (tables as u64).next_multiple_of(unit) - tables as u64;
        let fits = |front: &u64| {
            data.checked_sub(*front)
                .is_some_and(|left| left == padded || left == padded - last)
        };
        let Some(front) = [0, front].into_iter().find(fits) else {
            return Ok(Err(format!(
                "its fragments take {padded} bytes, but it has {data}"
            )));
        };
        // The next source begins at a multiple of 4 again: kernels read words.
        let kept = self.kept + data.next_multiple_of(4);
        if kept > u64::from(u32::MAX) {
            return Ok(Err(
                "the packet's fragments exceed 4 GiB, and offsets have 32 bits".to_owned(),
            ));
        }
        let in_packet = front + begin;
        let begin = if cursor.pass.is_some() {
            in_packet
        } else {
            front + self.kept
        };
        self.kept = kept;
        beyond.truncate(data as usize);
        let rest = data - beyond.len() as u64;
        if cursor.pass.is_some() {
            cursor.skip(rest)?;
        } else {
            self.raw.extend(beyond);
            cursor.append(rest, &mut self.raw)?;
            self.raw.resize(kept as usize, 0);
        }
        let fate = if is_ut { MfpKind::Ut } else { MfpKind::Odin };
        Ok(Ok(Source {
            fate,
            sender: Sender {
                types,
                sizes,
                begin,
                in_packet,
                starts,
                ..sender
            },
            events: (mfp.first, n),
        }))
    }

    /// Adds the tables of `n` more fragments to the total, or returns false if they are too many.
    const fn count_tables(&mut self, n: usize) -> bool {
        let tables = self.tables + BYTES_OF_FRAGMENT * n as u64;
        let fits = tables <= MOST_TABLES;
        if fits {
            self.tables = tables;
        }
        fits
    }

    /// Gives up all banks of the packet.
    pub(super) fn give_up(&mut self, damage: Damage) {
        let lost = self.ut.len()
            + self
                .damage
                .as_ref()
                .map_or(0, |damage| damage.lost_banks as usize);
        let damage = damage.losing(lost);
        self.ut.clear();
        self.odin.clear();
        self.damage = Some(Box::new(damage));
    }

    /// Returns the number of banks of an event that were skipped.
    pub(super) fn skipped(&self) -> u32 {
        self.others - self.odin.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Packet;

    #[test]
    fn tables_of_fragments_are_bounded_even_in_a_small_file() {
        let mut packet = Packet::default();
        let n = 0xFFFF;
        let kept = (0..65535).filter(|_| packet.count_tables(n)).count();
        // 512 MiB, 7 bytes per fragment.
        assert_eq!(kept, (512 << 20) / (7 * n));
        assert!(packet.count_tables(1));
    }
}
