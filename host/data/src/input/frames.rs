//! Files of events or packets, cut into them: no size is believed before the bytes are there.
//!
//! On a regular file a size is compared with the file's length first; on a pipe the buffer grows
//! with the bytes that arrive.
//!
//! An event that claims 3 GiB in a file of 1 MiB is an error before any memory is reserved. On a
//! pipe the length is unknown, and the same claim costs only as much memory as bytes really come.
//! In either case the message names file, event and byte, and the events before stay valid.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::path::PathBuf;

use super::event::Format;
use super::file_at::{Bytes, FileAt};
use super::mdf_format::{
    CHECKED_FROM, Checksum, HEADER, RAW_BANKS, checksum, sub_header_bytes, u32_at,
};
use super::packet::{PAGE, Packet, PacketError, Pass};
use super::pool::BufferPool;
use super::recognise::Input;
use super::room::make_room;
use super::{Damage, InputError, Place, unpack};

/// The data type of MDF events that hold a MEP packet.
const MEP_PACKET: u8 = 2;

/// Maximum size of a packet that was compressed.
const MAX_PACKET: usize = 1 << 30;

/// Bytes of a file of events or packets.
#[derive(Debug)]
pub enum Source {
    /// Any input, read from its beginning to its end.
    Stream(BufReader<Input>),
    /// Events of a regular file, which can be read many at once.
    Events(BufReader<Bytes>),
    /// Packets of a regular file, in which their payloads can be left.
    Packets(Bytes),
}

impl Source {
    pub fn pass(&mut self, n: u64) -> io::Result<()> {
        match self {
            Self::Stream(input) => io::copy(&mut input.take(n), &mut io::sink()).map(|_| ()),
            Self::Events(input) => {
                let buffered = input
                    .buffer()
                    .len()
                    .min(usize::try_from(n).unwrap_or(usize::MAX));
                input.consume(buffered);
                input.get_mut().pass(n - buffered as u64);
                Ok(())
            }
            Self::Packets(input) => {
                input.pass(n);
                Ok(())
            }
        }
    }
}

impl Read for Source {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stream(input) => input.read(bytes),
            Self::Events(input) => input.read(bytes),
            Self::Packets(input) => input.read(bytes),
        }
    }
}

#[derive(Debug)]
pub enum Frame {
    End,
    /// An MDF event; its bytes were appended.
    Event,
    /// A packet, and the file if its payloads were left there.
    Packet(Packet, Option<FileAt>),
}

#[derive(Debug)]
pub struct Frames {
    input: Source,
    file: PathBuf,
    format: Format,
    length: Option<u64>,
    /// Byte at which the next event or packet begins.
    position: u64,
    /// Byte at which the last event or packet began.
    pub last: u64,
    /// Number of events of the file before the next event.
    pub events: u64,
    ended: bool,
    /// Compares the checksums of packets. The caller compares the checksums of events.
    pub check: bool,
    /// Skips unwanted bytes: bodies of events, and payloads of packets.
    pass: Option<Pass<Source>>,
    /// Buffers of packets.
    pub pool: BufferPool,
    scratch: Vec<u8>,
}

impl Frames {
    /// Reads `input`, MDF or packets. `path` is what messages call it; `length` its bytes, where
    /// that is known.
    pub fn new(
        input: Source,
        path: impl Into<PathBuf>,
        length: Option<u64>,
        format: Format,
    ) -> Self {
        Self {
            input,
            file: path.into(),
            format,
            length,
            position: 0,
            last: 0,
            events: 0,
            ended: false,
            check: true,
            pass: None,
            pool: BufferPool::default(),
            scratch: Vec::new(),
        }
    }

    /// Begins at a byte of the file before which there are `events` events.
    pub const fn begin_at(&mut self, byte: u64, events: u64) {
        (self.position, self.last, self.events) = (byte, byte, events);
    }

    /// Skips the bodies of events, after their headers, and leaves the payloads of large packets in
    /// the file.
    pub fn pass_bodies(&mut self) {
        self.pass = Some(Source::pass);
    }

    /// Reads the next event or packet. After an error, the file has ended.
    pub fn next(&mut self, data: &mut Vec<u8>) -> Result<Frame, InputError> {
        if self.ended {
            return Ok(Frame::End);
        }
        // Ended until the frame is whole.
        self.ended = true;
        let begin = data.len();
        self.last = self.position;
        let frame = match self.format {
            _ if self.is_at_end() => Ok(Frame::End),
            Format::Mep => self.next_packet(),
            Format::Mdf | Format::AllenDump => self.next_event(data),
        };
        match &frame {
            Ok(Frame::Event) => {
                self.position += u64::from(u32_at(&data[begin..], 0));
                self.events += 1;
            }
            Ok(Frame::Packet(packet, _)) => self.events += packet.n_events as u64,
            Ok(Frame::End) => {
                let left = self
                    .length
                    .map_or(0, |length| length.saturating_sub(self.position));
                let what =
                    || format!("the file ends here, but had {left} more bytes when it was opened");
                return if left == 0 {
                    frame
                } else {
                    Err(self.place().bad(what()))
                };
            }
            Err(_) => data.truncate(begin),
        }
        self.ended = frame.is_err();
        frame
    }

    /// Returns true if all was read that the file had when it was opened; more may have been
    /// appended.
    fn is_at_end(&self) -> bool {
        self.length == Some(self.position)
    }

    fn place(&self) -> Place {
        Place {
            file: self.file.clone(),
            event: self.events,
            byte: self.position,
        }
    }

    /// Returns the error for an event of `size` bytes when only `left` bytes of the file remain.
    fn beyond(&self, size: u32, left: u64) -> InputError {
        let what = format!(
            "an event size of {size} bytes reaches beyond the file, which has {left} bytes from there"
        );
        self.place().bad(what + ": truncated?")
    }

    /// Appends up to `n` bytes; the buffer grows no faster than bytes arrive.
    fn append(&mut self, n: u64, data: &mut Vec<u8>) -> Result<(), InputError> {
        let read = self.input.by_ref().take(n).read_to_end(data);
        read.map_err(|source| InputError::Read {
            place: self.place(),
            source,
        })?;
        Ok(())
    }

    fn next_event(&mut self, data: &mut Vec<u8>) -> Result<Frame, InputError> {
        let begin = data.len();
        self.append(HEADER as u64, data)?;
        let header = &data[begin..];
        let there = header.len();
        if there == 0 {
            return Ok(Frame::End);
        }
        if there < 12 {
            let what = format!(
                "the file ends after {there} of the 12 bytes of the event's size words: truncated?"
            );
            return Err(self.place().bad(what));
        }
        let sizes = [0, 4, 8].map(|at| u32_at(header, at));
        let size = sizes[0];
        if sizes != [size; 3] {
            let [a, b, c] = sizes;
            let what =
                format!("the three size words differ ({a}, {b}, {c}): not an MDF file, or damaged");
            return Err(self.place().bad(what));
        }
        let too_small = |headers| {
            format!("an event size of {size} bytes is less than the {headers} bytes of its headers")
        };
        if (size as usize) < HEADER {
            return Err(self.place().bad(too_small(HEADER as u32)));
        }
        let left = self
            .length
            .map(|length| length.saturating_sub(self.position));
        if there < HEADER || left.is_some_and(|left| left < u64::from(size)) {
            return Err(self.beyond(size, left.unwrap_or(there as u64)));
        }
        let stored = u32_at(header, 12);
        let [compression, header_type, data_type] = [header[16], header[17], header[18]];
        let is_packet = data_type == MEP_PACKET;
        if !is_packet && data_type != RAW_BANKS {
            let what = format!(
                "data type {data_type}; only 1 (raw banks) and 2 (a MEP packet) can be read"
            );
            return Err(self.place().bad(what));
        }
        let headers = HEADER as u32 + sub_header_bytes(header_type);
        if size < headers {
            return Err(self.place().bad(too_small(headers)));
        }
        if is_packet {
            if compression != 0 {
                return self.packed_packet(size, headers, stored, data);
            }
            self.append(u64::from(headers) - HEADER as u64, data)?;
            let mut sum = Checksum::default();
            sum.add(&data[begin + CHECKED_FROM..]);
            data.truncate(begin);
            return self.packet_of_event(size, headers, stored, sum);
        }
        if let Some(pass) = self.pass {
            let passed = pass(&mut self.input, u64::from(size) - HEADER as u64);
            return passed
                .map(|()| Frame::Event)
                .map_err(|source| InputError::Read {
                    place: self.place(),
                    source,
                });
        }
        self.append(u64::from(size) - HEADER as u64, data)?;
        let there = data.len() - begin;
        if there < size as usize {
            return Err(self.beyond(size, there as u64));
        }
        if compression != 0 && unpack::is_xz(&data[begin + headers as usize..]) {
            return Err(self
                .place()
                .bad("an event compressed with xz, which cannot be read"));
        }
        Ok(Frame::Event)
    }

    /// Reads the packet that is the body of an MDF event of `size` bytes, of which `headers` are
    /// read.
    fn packet_of_event(
        &mut self,
        size: u32,
        headers: u32,
        stored: u32,
        sum: Checksum,
    ) -> Result<Frame, InputError> {
        let place = self.place();
        let body = u64::from(size - headers);
        let sum = (self.check && stored != 0).then_some(sum);
        let mut input = Summed {
            input: self.input.by_ref().take(body),
            sum,
        };
        let packet = Packet::read(self.pool.take(), &[], &mut input, body, None);
        let mut packet = packet.map_err(|error| of_packet(&place, error))?;
        let mut zeros = Zeros(true);
        let rest = io::copy(&mut input, &mut zeros);
        let rest = rest.map_err(|source| InputError::Read {
            place: place.clone(),
            source,
        })?;
        if packet.bytes + rest < body {
            let left = u64::from(headers) + packet.bytes + rest;
            return Err(self.beyond(size, left));
        }
        if !zeros.0 {
            return Err(behind_packet(place, packet.bytes));
        }
        if let Some(computed) = input
            .sum
            .map(Checksum::value)
            .filter(|&computed| computed != stored)
        {
            packet.give_up(Damage::checksum(stored, computed));
        }
        self.position += u64::from(size);
        Ok(Frame::Packet(packet, None))
    }

    /// Reads the compressed packet that is the body of an MDF event of `size` bytes, of which the
    /// headers before the sub-header are at the end of `data`.
    fn packed_packet(
        &mut self,
        size: u32,
        headers: u32,
        stored: u32,
        data: &mut Vec<u8>,
    ) -> Result<Frame, InputError> {
        let place = self.place();
        let begin = data.len() - HEADER;
        self.append(u64::from(size) - HEADER as u64, data)?;
        let event = &data[begin..];
        if event.len() < size as usize {
            return Err(self.beyond(size, event.len() as u64));
        }
        let body = &event[headers as usize..];
        if unpack::is_xz(body) {
            return Err(place.bad("a MEP packet compressed with xz, which cannot be read"));
        }
        let mut unpacked = Vec::new();
        if let Err(what) = unpack::unpack(body, headers as usize, MAX_PACKET, &mut unpacked) {
            return Err(place.bad(format!("a compressed MEP packet: {what}")));
        }
        let packet = Packet::read(
            self.pool.take(),
            &[],
            &mut &unpacked[..],
            unpacked.len() as u64,
            None,
        );
        let mut packet = packet.map_err(|error| of_packet(&place, error))?;
        if unpacked[packet.bytes as usize..]
            .iter()
            .any(|&byte| byte != 0)
        {
            return Err(behind_packet(place, packet.bytes));
        }
        let computed = (self.check && stored != 0).then(|| checksum(&event[CHECKED_FROM..]));
        if let Some(computed) = computed.filter(|&computed| computed != stored) {
            packet.give_up(Damage::checksum(stored, computed));
        }
        data.truncate(begin);
        self.position += u64::from(size);
        Ok(Frame::Packet(packet, None))
    }

    /// Reads the next packet of a file of packets, after zeros up to the end of a page.
    fn next_packet(&mut self) -> Result<Frame, InputError> {
        self.scratch.clear();
        let mut scratch = std::mem::take(&mut self.scratch);
        self.append(1, &mut scratch)?;
        if scratch == [0] {
            let pad = self.position.next_multiple_of(PAGE) - self.position;
            self.append(pad.max(1) - 1, &mut scratch)?;
            if scratch.iter().any(|&byte| byte != 0) {
                return Err(in_packet(
                    self.place(),
                    0,
                    "bytes that are neither zeros nor a packet",
                ));
            }
            self.position += scratch.len() as u64;
            self.last = self.position;
            scratch.clear();
            self.append(1, &mut scratch)?;
        }
        let place = self.place();
        if scratch.is_empty() || self.is_at_end() {
            return Ok(Frame::End);
        }
        let limit = self
            .length
            .map_or(u64::MAX, |length| length.saturating_sub(self.position));
        let packet = Packet::read(
            self.pool.take(),
            &scratch,
            &mut self.input,
            limit,
            self.pass,
        );
        let packet = packet.map_err(|error| of_packet(&place, error))?;
        self.position += packet.bytes;
        self.scratch = scratch;
        let file = match &self.input {
            Source::Packets(bytes) if packet.left => Some(bytes.file.clone()),
            _ => None,
        };
        Ok(Frame::Packet(packet, file))
    }

    /// Reads about `n` bytes of the file at once into `data`, from byte `at` on, and cuts them into
    /// events until `take` returns `false`. `take` gets the event's number in the file, its first
    /// byte there, and its bytes in `data`. Anything that is not a whole, plain event (an error, a
    /// packet, an event cut by the end of the block) is left for [`Self::next`], as all is that
    /// does not come from [`Source::Events`]. Returns the end of the last event in `data`.
    pub fn next_block(
        &mut self,
        (at, n): (usize, usize),
        data: &mut Vec<u8>,
        mut take: impl FnMut(u64, u64, Range<usize>) -> bool,
    ) -> usize {
        let input = match &mut self.input {
            Source::Events(input) if !self.ended => input,
            _ => return at,
        };
        if data.len() < at + n {
            make_room(data, at + n - data.len());
            data.resize(at + n, 0);
        }
        let buffered = input.buffer().len();
        input.consume(buffered);
        let bytes = input.get_mut();
        bytes.step_back(buffered);
        let Ok(n) = bytes.read(&mut data[at..at + n]) else {
            return at;
        };
        let (mut next, end) = (at, at + n);
        while let Some(size) = whole_event(&data[next..end]) {
            let (event, bytes) = (self.events, next..next + size);
            next = bytes.end;
            self.last = self.position;
            self.position += size as u64;
            self.events += 1;
            if !take(event, self.last, bytes) {
                break;
            }
        }
        bytes.step_back(end - next);
        next
    }
}

/// Returns the size of the event at the beginning of `bytes`, if the event is complete, has banks,
/// and is not compressed.
fn whole_event(bytes: &[u8]) -> Option<usize> {
    let header = bytes.first_chunk::<HEADER>()?;
    let size = u32_at(header, 0);
    let [compression, header_type, data_type] = [header[16], header[17], header[18]];
    let headers = HEADER + sub_header_bytes(header_type) as usize;
    let event = bytes
        .get(..size as usize)
        .filter(|event| event.len() >= headers)?;
    let is_plain =
        header[..4] == header[4..8] && header[..4] == header[8..12] && data_type == RAW_BANKS;
    (is_plain && compression == 0).then_some(event.len())
}

pub(super) fn of_packet(place: &Place, error: PacketError) -> InputError {
    match error {
        PacketError::Read(source) => InputError::Read {
            place: place.clone(),
            source,
        },
        PacketError::Bad { byte, what } => in_packet(place.clone(), byte, &what),
    }
}

fn in_packet(place: Place, byte: u64, what: &str) -> InputError {
    place.bad(format!("in a MEP packet at its byte {byte}: {what}"))
}

/// Returns the error for an event that extends beyond its packet, which ends at byte `byte`. The
/// number of events lost there is unknown.
fn behind_packet(place: Place, byte: u64) -> InputError {
    in_packet(
        place,
        byte,
        "the packet ends here, and its MDF event goes on with bytes that are not zeros",
    )
}

/// Checks that all bytes written to it are zeros.
struct Zeros(bool);

impl Write for Zeros {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 &= bytes.iter().all(|&byte| byte == 0);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Adds what passes to a checksum.
struct Summed<R> {
    input: R,
    sum: Option<Checksum>,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(bytes)?;
        if let Some(sum) = &mut self.sum {
            sum.add(&bytes[..n]);
        }
        Ok(n)
    }
}
