//! `ut-decode generate`: synthetic events and the detector they belong to, with faults if asked
//! for.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use ut_data::detector::BankVersion;
use ut_data::input::{
    Bank, EventHeader, Events, GENERATED_MASK, InputPart, MdfWriter, MepWriter, WriteError,
    checksum, kind,
};
use ut_data::synth::corrupt::{Corruptor, FileFault, Ledger, LedgerEntry, Packing, Payload};
use ut_data::synth::{self, Generator, Plant, Profile};
use ut_files::NewFile;

use crate::args::{bank_format, one_of};
use crate::output::{
    cannot_write, count, is_broken_pipe, number, print, write_failure, write_json,
};
use crate::paths::Protected;
use crate::progress::Progress;
use crate::{Failure, usage};

const PACKET_EVENTS: u64 = 100;

/// Size in bytes of the pages at which packets begin.
const PAGE: usize = 4096;

/// Make synthetic events: an MDF file and the tables of the detector that it belongs to.
///
/// Writes events.mdf, boards.bin and geometry.bin into a directory. The same options give the same
/// bytes. The events and their banks are marked as generated, so that `decode` uses the synthetic
/// detector for them.
///
/// With --corrupt, faults.json lists the faults that were made, the banks that are incomplete
/// because of them, and the report that a decoder must give. A faults.json of an earlier run is
/// removed first.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Profile: how busy the events are.
    #[arg(long, default_value = "pp-nominal", value_parser = one_of!(Profile::ALL, Profile::name))]
    profile: Profile,
    /// Bank format: v4 (clusters, bank version 3) or v5 (strips of six lanes, bank version 4).
    #[arg(long = "bank-format", alias = "format", value_name = "FORMAT", default_value = "v5", value_parser = bank_format())]
    format: BankVersion,
    /// Number of events.
    #[arg(
        long = "n-events",
        alias = "events",
        value_name = "N",
        default_value_t = 100
    )]
    events: u64,
    /// Seed: another seed gives other events.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Version of the geometry file: 0 has the slopes dx/dy by layer, 1 by sector.
    #[arg(long, value_name = "V", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=1))]
    geometry_version: u16,
    /// Write MEP packets, events.mep, instead of events.mdf.
    #[arg(long)]
    mep: bool,
    /// Compress each event in blocks, as ROOT does (blocks: zlib, zstd and lz4 in turn), or the
    /// whole file (zstd, to events.mdf.zst or events.mep.zst).
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(["blocks", "zstd"]).map(|how| packing(&how)))]
    pack: Option<Packing>,
    /// Make faults of these kinds, each with its chance, from 0 to 1. Faults of banks, by their
    /// counters (docs/policy.md): wrong_version, unknown_board, repeated_board, truncated,
    /// unconnected_hits, in v5 also short, bad_header, unsorted_lanes. Of events: surplus_banks, in
    /// MDF also checksum, bank_magic, bank_size, bank_beyond, with --pack blocks also block. Of
    /// sources of MEP packets: fragments. Of the file: cut, in its last event, with --pack zstd
    /// also stream.
    #[arg(long, value_name = "KIND=RATE,…", value_delimiter = ',', value_parser = rate)]
    corrupt: Vec<(FileFault, f64)>,
    /// Let parts fail, from an event on or in a range of events, or in every Nth of them. sector=N,
    /// strips of it (sector=N/FIRST-LAST), lane=BOARD.LANE, board=N or all: dead, quiet (half of
    /// the hits are lost), hot (one more hit per event), half (of the charge), weak (0.8 of the
    /// charge), noise (four more hits of little charge per event), stuck (a bit of each charge is
    /// set) or full (each charge is 31). board=N: missing, repeat (the same bank again and again),
    /// error (UTError), truncated or version. all: busy (twice the hits) or fade (to half). odin:
    /// none, short, layout (of an unknown version), run, number (repeated), crossing or type. For
    /// tests, and to train shifters.
    #[arg(
        long,
        value_name = "PART:WHAT[/N][@EVENT[-EVENT]],…",
        value_delimiter = ','
    )]
    plant: Vec<Plant>,
    /// Directory to write to, created if missing; `-` writes the events alone to standard output,
    /// as MDF.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
}

fn packing(how: &str) -> Packing {
    if how == "zstd" {
        Packing::Zstd
    } else {
        Packing::Blocks
    }
}

/// Number of bytes of an event in a block, so few that banks lie across blocks.
const BLOCK: usize = 4096;

fn in_blocks(event: &[u8], number: u64) -> Vec<u8> {
    let body = 20 + 4 * usize::from(event[17] & 0xf);
    let mut packed = event[..body].to_vec();
    packed[16] = 1;
    for (i, content) in event[body..].chunks(BLOCK).enumerate() {
        let (name, data) = match (number + i as u64) % 3 {
            0 => (b"ZL\x08", zlib(content)),
            1 => (
                b"ZS\x01",
                zstd::bulk::compress(content, 3).unwrap_or_default(),
            ),
            _ => {
                let data = lz4_flex::block::compress(content);
                (
                    b"L4\x01",
                    [
                        &twox_hash::XxHash64::oneshot(0, &data).to_be_bytes()[..],
                        &data,
                    ]
                    .concat(),
                )
            }
        };
        packed.extend(name);
        for size in [data.len(), content.len()] {
            packed.extend(&(size as u32).to_le_bytes()[..3]);
        }
        packed.extend(data);
    }
    for at in [0, 4, 8] {
        let size = packed.len() as u32;
        packed[at..at + 4].copy_from_slice(&size.to_le_bytes());
    }
    let sum = checksum(&packed[16..]);
    packed[12..16].copy_from_slice(&sum.to_le_bytes());
    packed
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    // Memory takes everything.
    packed
        .write_all(content)
        .and_then(|()| packed.finish())
        .unwrap_or_default()
}

fn rate(text: &str) -> Result<(FileFault, f64), String> {
    let (name, rate) = text.split_once('=').ok_or("expected KIND=RATE")?;
    let names = || FileFault::ALL.map(FileFault::name).join(", ");
    let fault = FileFault::ALL
        .into_iter()
        .find(|fault| fault.name() == name);
    let fault = fault.ok_or_else(|| format!("there is no fault {name}; there are {}", names()))?;
    let rate: f64 = rate
        .parse()
        .map_err(|_| format!("{rate} is not a number"))?;
    if (0.0..=1.0).contains(&rate) {
        Ok((fault, rate))
    } else {
        Err("a rate is from 0 to 1".to_owned())
    }
}

struct Maker<'a> {
    args: &'a Args,
    generator: Generator,
    corruptor: Corruptor,
    payload: usize,
}

impl Maker<'_> {
    /// Returns an MDF event, with faults in its banks if `damage`, and the sourceIDs of its UT
    /// banks.
    fn event(&mut self, index: u64, damage: bool) -> Result<(Vec<u8>, Vec<u16>), WriteError> {
        let event = self.generator.event(index);
        let version = self.args.format.byte();
        let payloads = event.banks.into_iter().map(|(source_id, bytes)| Payload {
            source_id,
            kind: kind::UT,
            version,
            bytes,
        });
        let mut payloads: Vec<Payload> = payloads.collect();
        self.generator.spoil(index, &mut payloads);
        let sources = payloads.iter().map(|bank| bank.source_id).collect();
        if damage {
            self.corruptor.banks(index, &mut payloads);
        }
        self.payload += payloads.iter().map(|bank| bank.bytes.len()).sum::<usize>();
        let header = EventHeader {
            trigger_mask: GENERATED_MASK,
            run: event.run,
            number: None,
        };
        let mut writer = MdfWriter::new(Vec::new());
        let banks = payloads.iter().map(|bank| Bank {
            kind: bank.kind,
            version: Some(bank.version),
            source_id: u32::from(bank.source_id),
            payload: &bank.bytes,
        });
        let odin = event.odin.as_ref().map(|(version, payload)| Bank {
            kind: kind::ODIN,
            version: Some(*version),
            source_id: 0,
            payload,
        });
        writer.write(&header, odin.into_iter().chain(banks))?;
        Ok((writer.into_inner(), sources))
    }

    /// Returns an MDF event with the faults drawn for it.
    fn mdf(&mut self, index: u64, end: Option<FileFault>) -> Result<Vec<u8>, WriteError> {
        let frame = self.corruptor.frame(index).filter(|_| end.is_none());
        let (mut bytes, sources) = self.event(index, end.is_none() && frame.is_none())?;
        let (before, after) = (
            frame.filter(|f| !f.is_of_packed_event()),
            frame.filter(|f| f.is_of_packed_event()),
        );
        if let Some(fault) = before {
            self.corruptor
                .damage_frame(index, fault, &mut bytes, &sources);
        }
        let whole = bytes;
        bytes = if self.args.pack == Some(Packing::Blocks) {
            in_blocks(&whole, index)
        } else {
            whole.clone()
        };
        match after {
            Some(FileFault::Block) => self
                .corruptor
                .damage_block(index, &mut bytes, &whole, &sources),
            Some(fault) => self
                .corruptor
                .damage_frame(index, fault, &mut bytes, &sources),
            None => {}
        }
        self.end(index, 1, end, &mut bytes);
        Ok(bytes)
    }

    /// Returns a packet, or several where faults change the sources.
    fn packet(
        &mut self,
        first: u64,
        n: u64,
        end: Option<FileFault>,
    ) -> Result<Vec<u8>, WriteError> {
        let mut writer = MepWriter::new(Vec::new(), n as usize);
        let n_sources = self.generator.event(first).banks.len();
        let chosen = if end.is_some() {
            Vec::new()
        } else {
            self.corruptor.sources(first, n_sources)
        };
        let mut all = Vec::new();
        for index in first..first + n {
            let (bytes, sources) = self.event(index, end.is_none() && chosen.is_empty())?;
            all = sources;
            let mut events = Events::new([InputPart::memory("a generated event", bytes)]);
            if let Ok(Some(event)) = events.next_event() {
                writer.write(index, event.banks())?;
            }
        }
        let mut bytes = writer.finish()?;
        if !chosen.is_empty() {
            // The MFP of ODIN is the first.
            all.insert(0, 0);
            let mfps: Vec<usize> = chosen.into_iter().map(|source| source + 1).collect();
            self.corruptor
                .damage_packet(first, n, &mut bytes, &all, &mfps);
        }
        self.end(first, n, end, &mut bytes);
        Ok(bytes)
    }

    /// Cuts and compresses the bytes as the fault and the options say; counts events that stay
    /// whole.
    fn end(&mut self, event: u64, n: u64, end: Option<FileFault>, bytes: &mut Vec<u8>) {
        if end == Some(FileFault::Cut) {
            bytes.truncate(bytes.len() / 3);
        }
        if self.args.pack == Some(Packing::Zstd) {
            // Each call makes a separate frame: a stream may have any number of frames.
            *bytes = zstd::bulk::compress(bytes, 3).unwrap_or_default();
        }
        if end == Some(FileFault::Stream) {
            bytes.truncate(bytes.len() / 2);
        }
        match end {
            Some(fault) => self.corruptor.note(
                LedgerEntry {
                    event,
                    fault,
                    banks: Vec::new(),
                },
                0,
            ),
            None => self.corruptor.readable(n),
        }
    }

    fn write(&mut self, path: &Path, progress: &mut Progress) -> Result<(), Failure> {
        let mut file = NewFile::create(path)?;
        let end = self.corruptor.end().filter(|_| self.args.events > 0);
        let (mut index, mut written) = (0, 0_usize);
        while index < self.args.events {
            progress.set(index);
            let last = end.filter(|_| index == self.args.events - 1);
            let n = if last.is_some() || !self.args.mep {
                1
            } else {
                (self.args.events - u64::from(end.is_some()) - index).min(PACKET_EVENTS)
            };
            let bytes = if self.args.mep {
                self.packet(index, n, last)
            } else {
                self.mdf(index, last)
            };
            let bytes = bytes.map_err(|error| write_failure(path, error))?;
            // (Compressed, a packet's place in the file says nothing.)
            if self.args.mep && self.args.pack.is_none() {
                let zeros = written.next_multiple_of(PAGE) - written;
                file.write_all(&vec![0; zeros])
                    .map_err(|error| file.cannot(error))?;
                written += zeros;
            }
            file.write_all(&bytes).map_err(|error| file.cannot(error))?;
            written += bytes.len();
            index += n;
        }
        Ok(file.finish()?)
    }
}

fn faults(ledger: &Ledger) -> Value {
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in &ledger.entries {
        *faults.entry(entry.fault.name()).or_default() += 1;
    }
    let entries: Vec<Value> = ledger
        .entries
        .iter()
        .map(
            |LedgerEntry {
                 event,
                 fault,
                 banks,
             }| json!({ "event": event, "fault": fault.name(), "banks": banks }),
        )
        .collect();
    json!({ "events": ledger.events, "report": ledger.report, "faults": faults, "entries": entries })
}

/// Writes the events and the tables. All appear at the end: an end before it leaves neither.
fn write_with_tables(
    maker: &mut Maker<'_>,
    events: &Path,
    tables: [(&PathBuf, Vec<u8>); 2],
    progress: &mut Progress,
) -> Result<(), Failure> {
    let mut unfinished = Vec::new();
    for (path, bytes) in tables {
        let mut file = NewFile::create(path)?;
        file.write_all(&bytes).map_err(|error| file.cannot(error))?;
        unfinished.push(file);
    }
    maker.write(events, progress)?;
    for file in unfinished {
        file.finish()?;
    }
    Ok(())
}

/// Ends the program if a fault or a packing is asked for that this container cannot have.
fn check(args: &Args) {
    for &(fault, _) in &args.corrupt {
        if !fault.is_possible(args.format, args.mep, args.pack.unwrap_or_default()) {
            let container = match (args.mep, args.pack.unwrap_or_default()) {
                (true, Packing::Zstd) => "MEP packets in a zstd stream",
                (true, _) => "MEP packets",
                (false, Packing::None) => "MDF events",
                (false, Packing::Blocks) => "MDF events in blocks",
                (false, Packing::Zstd) => "MDF events in a zstd stream",
            };
            usage(&format!(
                "{container} with {} banks cannot have the fault {}",
                args.format.name(),
                fault.name()
            ));
        }
    }
    if args.mep && args.pack == Some(Packing::Blocks) {
        usage("--pack blocks compresses MDF events, but --mep writes none");
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    check(args);
    let piped = args.output.as_os_str() == "-";
    if piped && (args.mep || !args.corrupt.is_empty()) {
        usage("--mep and --corrupt make further files, for which --output has to be a directory");
    }
    let detector = synth::detector(args.format, args.geometry_version);
    let mut progress = Progress::new(
        args.events,
        "generating {wide_bar} {pos}/{len} events, {eta} left",
    );
    let mut maker = Maker {
        args,
        generator: Generator::new(args.profile, args.format, args.seed).plant(args.plant.clone()),
        corruptor: Corruptor::new(args.corrupt.clone(), detector.0.clone(), args.seed),
        payload: 0,
    };
    if let Some(place) = maker.generator.idle_plant() {
        usage(&format!(
            "--plant: failure {} would change nothing: its lanes are not connected, or do not read these strips",
            place + 1
        ));
    }
    if piped {
        return match maker.write(&args.output, &mut progress) {
            // A reader that has seen enough is not a failure.
            Err(error) if is_broken_pipe(error.as_ref()) => Ok(()),
            written => written,
        };
    }
    std::fs::create_dir_all(&args.output).map_err(|error| cannot_write(&args.output, &error))?;
    let name = match (args.mep, args.pack) {
        (false, Some(Packing::Zstd)) => "events.mdf.zst",
        (false, _) => "events.mdf",
        (true, Some(Packing::Zstd)) => "events.mep.zst",
        (true, _) => "events.mep",
    };
    let [events, boards, geometry, json] =
        [name, "boards.bin", "geometry.bin", "faults.json"].map(|name| args.output.join(name));
    let mut protected = Protected::default();
    protected.add_unnamed();
    let tables = [
        (&boards, detector.0.to_bytes()),
        (&geometry, detector.1.to_bytes()),
    ];
    // The settings may name the tables that an earlier run made: to write the same bytes again does
    // no harm.
    let is_there = |file: &Path, bytes: &[u8]| {
        file.metadata()
            .is_ok_and(|there| there.len() == bytes.len() as u64)
            && std::fs::read(file).is_ok_and(|there| there == bytes)
    };
    let others = tables
        .iter()
        .filter(|(file, bytes)| !is_there(file, bytes))
        .map(|(file, _)| *file);
    for file in others.chain([&events, &json]) {
        protected.refuse(file);
    }
    // Before anything is written: if this run is killed, the old list must not lie next to the new
    // events.
    if let Err(error) = std::fs::remove_file(&json)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(format!("cannot remove {}: {error}", json.display()).into());
    }
    write_with_tables(&mut maker, &events, tables, &mut progress)?;
    drop(progress);
    let mean = maker.payload as f64 / (args.events.max(1) as f64);
    let ledger = maker.corruptor.into_ledger();
    let made = if args.corrupt.is_empty() {
        String::new()
    } else {
        write_json(&json, &faults(&ledger))?;
        format!(
            "{}: {}\n",
            json.display(),
            count(ledger.entries.len(), "fault")
        )
    };
    print(&format!(
        "{}: {} of profile {}, seed {}, {} bytes of UT payload per event on average\n{}\n{}\n{made}",
        events.display(),
        count(args.events, &format!("{} event", args.format.name())),
        args.profile.name(),
        args.seed,
        number(mean.round() as u64),
        boards.display(),
        geometry.display(),
    ))?;
    Ok(())
}
