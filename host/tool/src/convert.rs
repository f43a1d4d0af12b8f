//! `ut-decode convert`: between MDF files and Allen-layout dumps.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use ut_data::detector::BankVersion;
use ut_data::input::{
    Bank, Damage, EventHeader, Events, Format, MdfWriter, MepWriter, RawEvent, WriteError, kind,
    write_allen_dump,
};
use ut_files::NewFile;

use crate::args::bank_format;
use crate::inputs::InputArgs;
use crate::output::{cannot_write, count, is_stdout, print, write_failure};
use crate::paths::Protected;
use crate::progress::Progress;
use crate::{Failure, usage};

/// Convert between MDF, MEP packets and Allen-layout dumps; unpack and pack.
///
/// The extension of the output decides what is written: one file with the events of all inputs
/// (.mdf, .mdf.zst, .mep), or otherwise a directory with a dump RUN_EVENT.bin for each event. The
/// command says what such an output lacks or makes up. From MDF to MDF a damaged event is copied
/// byte for byte; any other output cannot hold the damage, and the command fails.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A file that ends in .mdf, .mdf.zst or .mep, or a directory for dumps.
    #[arg(long, short, value_name = "PATH")]
    output: PathBuf,
    /// Format of the banks in dumps, which do not record it: required to convert dumps into
    /// anything else.
    #[arg(long = "bank-format", alias = "format", value_name = "FORMAT", value_parser = bank_format())]
    format: Option<BankVersion>,
    /// Leave out and count damaged events.
    #[arg(long)]
    drop_damaged: bool,
    /// Number of events in a MEP packet.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..))]
    packet_events: u16,
    #[command(flatten)]
    inputs: InputArgs,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let kind = Kind::of(&args.output);
    let files = args.inputs.expand()?;
    Protected::inputs(&files).refuse(&args.output);
    let mut events = args.inputs.events(&files)?;
    let mut progress = Progress::new(
        events.total_bytes(),
        "converting {wide_bar} {bytes}/{total_bytes}, {eta} left",
    );
    let (changes, what) = match kind {
        Some(kind) => into_file(&mut events, args, kind, &mut progress)?,
        None => into_dumps(&mut events, &files, args, &mut progress)?,
    };
    drop(progress);
    print(&changes.text(&args.output, &what))?;
    let trouble = (changes.dropped + changes.copied > 0).then_some("events are damaged");
    args.inputs.end(&events, &files, trouble)
}

/// Number of events written, and facts of the inputs that the output lacks.
#[derive(Default)]
struct Changes {
    events: u64,
    dropped: u64,
    copied: u64,
    no_banks: u64,
    versions: BTreeSet<u8>,
}

fn into_dumps(
    events: &mut Events,
    inputs: &[PathBuf],
    args: &Args,
    progress: &mut Progress,
) -> Result<(Changes, String), Failure> {
    let directory = &args.output;
    std::fs::create_dir_all(directory).map_err(|error| cannot_write(directory, &error))?;
    let mut changes = Changes::default();
    let (mut written, inputs) = (HashSet::new(), Protected::inputs(inputs));
    loop {
        progress.set(events.bytes_read());
        let Some((event, origin)) = events.next_with_origin()? else {
            break;
        };
        if event.format == Format::AllenDump {
            let what = "nothing to convert: the input is dumps, and the output is a directory";
            return Err(format!(
                "{}: {what}; to make MDF, let it end in .mdf",
                event.file.display()
            )
            .into());
        }
        if let Some(damage) = event.damage {
            changes.drop(args, &event, damage, progress)?;
            continue;
        }
        let name = format!(
            "{}_{}.bin",
            event.run.unwrap_or_default(),
            event.number.unwrap_or(origin.place)
        );
        let path = directory.join(&name);
        if !written.insert(name) {
            let other = "is the name of two events of the input: convert files with the same run and event numbers into \
                         different directories";
            return Err(format!("{} {other}", path.display()).into());
        }
        let banks = event.banks().filter(|bank| kind::is_decoded(bank.kind));
        changes.add(&event);
        inputs.check(&path)?;
        let mut file = NewFile::create(path)?;
        write_allen_dump(&mut file, banks).map_err(|error| file.cannot(error))?;
        file.finish()?;
    }
    let versions: Vec<String> = changes.versions.iter().map(u8::to_string).collect();
    let versions = if versions.is_empty() {
        "unknown".to_owned()
    } else {
        versions.join(" and ")
    };
    let what = format!(
        "a dump holds one event, with sourceIDs and payloads of its UT and UTError banks: keep a note of their version, \
         {versions}, and of the tables. Where the input has no run, its name has run 0; without an event number, its place"
    );
    Ok((changes, what))
}

impl Changes {
    fn add(&mut self, event: &RawEvent<'_>) {
        self.events += 1;
        let decoded = event.banks().filter(|bank| kind::is_decoded(bank.kind));
        self.versions
            .extend(decoded.filter_map(|bank| bank.version));
    }

    /// Leaves a damaged event out if that was asked for.
    fn drop(
        &mut self,
        args: &Args,
        event: &RawEvent<'_>,
        damage: &Damage,
        progress: &Progress,
    ) -> Result<(), Failure> {
        if !args.drop_damaged {
            let remedy = "--drop-damaged leaves damaged events out; from MDF to MDF they are copied as they are";
            return Err(format!(
                "{}: {damage}; the output would hide that: {remedy}",
                event.place()
            )
            .into());
        }
        self.dropped += 1;
        progress.say(&format!(
            "warning: {}: {damage}; the event is left out",
            event.place()
        ));
        Ok(())
    }

    /// Returns how much was written where; `what` says what such an output lacks or makes up.
    fn text(&self, path: &Path, what: &str) -> String {
        let mut text = format!(
            "{}: {}\n  {what}\n",
            path.display(),
            count(self.events, "event")
        );
        for (n, what, of, why) in [
            (
                self.no_banks,
                "left out",
                "event without banks",
                ", a packet cannot hold it",
            ),
            (self.dropped, "left out", "damaged event", ""),
            (self.copied, "copied as they are", "damaged event", ""),
        ] {
            if n > 0 {
                let _ = writeln!(text, "  {what}: {}{why}", count(n, of));
            }
        }
        text
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mdf,
    MdfZst,
    Mep,
}

impl Kind {
    /// Returns the kind of a name, `None` for a directory; ends the program if convert makes no
    /// such file.
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let kinds = [
            (".mdf", Self::Mdf),
            (".raw", Self::Mdf),
            (".mdf.zst", Self::MdfZst),
            (".mep", Self::Mep),
        ];
        let kind = kinds
            .into_iter()
            .find_map(|(ending, kind)| name.ends_with(ending).then_some(kind));
        if is_stdout(path) {
            usage("--output -: convert writes to files only");
        }
        if kind.is_some() {
            return kind;
        }
        if [".zst", ".gz"].iter().any(|ending| name.ends_with(ending)) {
            usage(&format!(
                "--output {}: the only compressed output is .mdf.zst",
                path.display()
            ));
        }
        let is_folder = path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
        if path.extension().is_some() && !is_folder {
            usage(&format!(
                "--output {}: convert makes .mdf, .mdf.zst and .mep files, and folders of dumps; the name of a new folder with a \
                 dot in it ends in /",
                path.display()
            ));
        }
        None
    }
}

enum Writer {
    Mdf(MdfWriter<NewFile>),
    MdfZst(MdfWriter<zstd::Encoder<'static, NewFile>>),
    Mep(MepWriter<NewFile>),
}

impl Writer {
    fn create(args: &Args, kind: Kind) -> Result<Self, Failure> {
        let file = NewFile::create(&args.output)?;
        Ok(match kind {
            Kind::Mdf => Self::Mdf(MdfWriter::new(file)),
            Kind::MdfZst => {
                let encoder = zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL).and_then(
                    |mut encoder| {
                        encoder.include_checksum(true)?;
                        Ok(encoder)
                    },
                );
                Self::MdfZst(MdfWriter::new(
                    encoder.map_err(|error| cannot_write(&args.output, &error))?,
                ))
            }
            Kind::Mep => Self::Mep(MepWriter::new(file, usize::from(args.packet_events))),
        })
    }

    /// Writes an event; `place` numbers one without a number.
    fn write(
        &mut self,
        event: &RawEvent<'_>,
        place: u64,
        format: Option<BankVersion>,
    ) -> Result<(), WriteError> {
        let (header, banks) = for_mdf(event, format);
        match self {
            Self::Mdf(writer) => writer.write(&header, banks),
            Self::MdfZst(writer) => writer.write(&header, banks),
            Self::Mep(writer) => writer.write(event.number.unwrap_or(place), banks),
        }
    }

    fn copy(&mut self, event: &[u8]) -> io::Result<()> {
        match self {
            Self::Mdf(writer) => writer.copy(event),
            Self::MdfZst(writer) => writer.copy(event),
            Self::Mep(_) => Err(io::Error::other("a packet cannot hold a damaged event")),
        }
    }

    fn finish(self, path: &Path) -> Result<(), Failure> {
        let cannot = |error| cannot_write(path, &error);
        let file = match self {
            Self::Mdf(writer) => writer.into_inner(),
            Self::MdfZst(writer) => writer.into_inner().finish().map_err(cannot)?,
            Self::Mep(writer) => writer.finish().map_err(cannot)?,
        };
        Ok(file.finish()?)
    }
}

/// Returns header and banks of an event for an MDF file; banks without a format get `format`.
pub fn for_mdf<'a>(
    event: &RawEvent<'a>,
    format: Option<BankVersion>,
) -> (
    EventHeader,
    impl Iterator<Item = Bank<'a>> + Clone + use<'a>,
) {
    let header = EventHeader {
        trigger_mask: event.trigger_mask.unwrap_or_default(),
        run: event.run.unwrap_or_default(),
        number: event.number.filter(|_| !has_odin(event)),
    };
    let version = format.map(BankVersion::byte);
    (
        header,
        event.banks().map(move |bank| Bank {
            version: bank.version.or(version),
            ..bank
        }),
    )
}

fn has_odin(event: &RawEvent<'_>) -> bool {
    event.entries.iter().any(|bank| bank.kind == kind::ODIN)
}

/// Fails if no event could have been selected.
fn impossible(args: &Args, events: &Events) -> Result<(), Failure> {
    let why = args.inputs.select.impossible(events.seen());
    why.map_or(Ok(()), |why| Err(why.into()))
}

fn into_file(
    events: &mut Events,
    args: &Args,
    kind: Kind,
    progress: &mut Progress,
) -> Result<(Changes, String), Failure> {
    let path = &args.output;
    let mut writer = Writer::create(args, kind)?;
    let mut changes = Changes::default();
    let result: Result<(), Failure> = loop {
        progress.set(events.bytes_read());
        let (event, origin) = match events.next_with_origin() {
            Ok(Some(found)) => found,
            // What could not be selected is not written as an empty file.
            Ok(None) => break impossible(args, events),
            Err(error) => break Err(error.into()),
        };
        if event.format == Format::AllenDump && args.format.is_none() {
            usage(
                "dumps do not say the format of their banks: --bank-format v4 or --bank-format v5",
            );
        }
        if let Some(damage) = event.damage {
            if args.drop_damaged || event.format != Format::Mdf || kind == Kind::Mep {
                if let Err(error) = changes.drop(args, &event, damage, progress) {
                    break Err(error);
                }
                continue;
            }
            progress.say(&format!(
                "warning: {}: {damage}; the event is copied as it is",
                event.place()
            ));
            writer
                .copy(event.stored)
                .map_err(|error| cannot_write(path, &error))?;
            changes.copied += 1;
            changes.add(&event);
            continue;
        }
        match writer.write(&event, origin.place, args.format) {
            Ok(()) => changes.add(&event),
            Err(WriteError::NoBanks) => changes.no_banks += 1,
            Err(error @ WriteError::Io(_)) => return Err(write_failure(path, error)),
            Err(error) => break Err(format!("{}: {error}", event.place()).into()),
        }
    };
    if changes.events > 0 || result.is_ok() {
        // Events before an input that cannot be read are kept.
        writer.finish(path)?;
    }
    if (result.is_err() || events.failures().1 > 0) && changes.events > 0 {
        let first = if result.is_err() { "the first " } else { "" };
        let n = count(changes.events, "event");
        progress.say(&format!(
            "warning: {} is incomplete: it holds {first}{n}",
            path.display()
        ));
    }
    result?;
    let what = match kind {
        Kind::Mep => {
            "MEP packets have run numbers only in ODIN banks, and no trigger masks; a missing event number becomes its place"
        }
        Kind::Mdf | Kind::MdfZst => {
            "missing trigger masks and runs are written as 0; an event with a number and no ODIN bank gets one"
        }
    };
    let of_dumps = if args.format.is_some() {
        "; banks of dumps are of type UT, and of the format that was given"
    } else {
        ""
    };
    Ok((changes, format!("{what}{of_dumps}")))
}
