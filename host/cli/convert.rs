//! `ut-decode convert`: between MDF files and Allen-layout dumps.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::detector::BankVersion;
use crate::input::{Bank, EventHeader, Events, Format, MdfWriter, RawEvent, WriteError, kind, write_allen_dump};
use crate::output::NewFile;

use crate::cli::args::bank_format;
use crate::cli::output::{cannot_write, print, write_failure};
use crate::cli::paths::same_file;
use crate::cli::progress::Progress;
use crate::cli::{Failure, usage};

/// Convert MDF files into Allen-layout dumps, or dumps into an MDF file.
///
/// When the output ends in .mdf, the events of all inputs go into that file; otherwise it is a directory, and each event
/// becomes a file <run>_<event>.bin in it. A dump holds less than MDF: what is lost, or has to be made up, is said.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// MDF files, or Allen-layout dumps.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// An MDF file (ends in .mdf), or a directory for dumps.
    #[arg(long, short, value_name = "PATH")]
    output: PathBuf,
    /// Format of the banks in the dumps, which do not say it themselves: needed to make MDF of them.
    #[arg(long, value_parser = bank_format())]
    format: Option<BankVersion>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let to_mdf = args.output.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("mdf"));
    if to_mdf && args.format.is_none() {
        usage("to make MDF of dumps, say the format of their banks: --format v4 or --format v5");
    }
    let mut events = Events::new(&args.files);
    let mut progress = Progress::new(events.total_bytes(), "converting {wide_bar} {bytes}/{total_bytes}, {eta} left");
    let said = match args.format.filter(|_| to_mdf) {
        Some(format) => into_mdf(&mut events, &args.output, format, &mut progress)?,
        None => into_dumps(&mut events, &args.files, &args.output, &mut progress)?,
    };
    drop(progress);
    print(&said)?;
    Ok(())
}

/// What went into dumps, and what did not.
#[derive(Default)]
struct Lost {
    events: u64,
    damaged: u64,
    other_banks: u64,
    error_banks: u64,
    padded: u64,
    unnumbered: u64,
    generated: u64,
    versions: HashSet<u8>,
}

fn into_dumps(
    events: &mut Events,
    inputs: &[PathBuf],
    directory: &Path,
    progress: &mut Progress,
) -> Result<String, Failure> {
    std::fs::create_dir_all(directory).map_err(|error| cannot_write(directory, &error))?;
    let mut lost = Lost::default();
    let mut written = HashSet::new();
    while let Some(event) = next(events, Format::Mdf, progress)? {
        let name = format!("{}_{}.bin", event.run.unwrap_or_default(), event.number.unwrap_or(lost.events));
        let path = directory.join(&name);
        if !written.insert(name) {
            let other = "is the name of two events of the input: convert files with the same run and event numbers into \
                         different directories";
            return Err(format!("{} {other}", path.display()).into());
        }
        let banks = event.banks().filter(|bank| kind::is_decoded(bank.kind));
        lost.add(&event, banks.clone());
        if let Some(damage) = event.damage {
            progress.say(&format!("warning: {}: {damage}; the rest of the event is left out", event.place()));
        }
        if let Some(input) = inputs.iter().find(|input| same_file(input, &path)) {
            return Err(format!("{} is an input: {} would be lost", path.display(), input.display()).into());
        }
        let mut file = NewFile::create(path)?;
        write_allen_dump(&mut file, banks).map_err(|error| file.cannot(error))?;
        file.finish()?;
    }
    Ok(lost.text(directory))
}

impl Lost {
    fn add<'a>(&mut self, event: &RawEvent<'_>, banks: impl Iterator<Item = Bank<'a>>) {
        self.events += 1;
        self.damaged += u64::from(event.damage.is_some());
        self.other_banks += event.entries.iter().filter(|bank| !kind::is_decoded(bank.kind)).count() as u64;
        self.unnumbered += u64::from(event.run.is_none() || event.number.is_none());
        self.generated += u64::from(event.is_generated());
        for bank in banks {
            self.error_banks += u64::from(bank.kind == kind::UT_ERROR);
            self.padded += u64::from(!bank.payload.len().is_multiple_of(4));
            self.versions.extend(bank.version);
        }
    }

    fn text(&self, directory: &Path) -> String {
        let mut versions: Vec<_> = self.versions.iter().map(u8::to_string).collect();
        versions.sort();
        let mut lines = vec![
            format!("{}: {} events, one a file", directory.display(), self.events),
            "A dump holds sourceIDs and payloads of UT banks. Not in it:".to_owned(),
        ];
        if !versions.is_empty() {
            lines.push(format!("  the version of the banks, {}: remember it", versions.join(" and ")));
        }
        for (n, what) in [
            (self.other_banks, "banks that are not decoded (of other types than UT and UTError)"),
            (self.error_banks, "banks of type UTError, which are UT banks in the dump"),
            (self.padded, "payload lengths that are no multiples of 4: padded with zeros"),
            (self.unnumbered, "events without run or event number, named by their place in the input instead"),
            (self.generated, "marks of generated events: decode with --boards and --geometry"),
            (self.damaged, "events that were damaged, from the damage on"),
            (self.events, "trigger masks, bunch and orbit numbers, checksums"),
        ] {
            if n > 0 {
                lines.push(format!("  {n} {what}"));
            }
        }
        lines.join("\n") + "\n"
    }
}

fn into_mdf(events: &mut Events, path: &Path, format: BankVersion, progress: &mut Progress) -> Result<String, Failure> {
    let mut writer = MdfWriter::new(NewFile::create(path)?);
    let (mut n, mut unnumbered) = (0, 0);
    let result = loop {
        let event = match next(events, Format::AllenDump, progress) {
            Ok(Some(event)) => event,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        if let Some(damage) = event.damage {
            progress.say(&format!("warning: {}: {damage}; the rest of the event is left out", event.place()));
        }
        let header = EventHeader { trigger_mask: [0; 4], run: event.run.unwrap_or_default(), number: event.number };
        let banks = event.banks().map(|bank| Bank { version: Some(format.byte()), ..bank });
        match writer.write(&header, banks) {
            Ok(()) => {}
            Err(error @ WriteError::Io(_)) => return Err(write_failure(path, error)),
            Err(error) => break Err(format!("{}: {error}", event.place()).into()),
        }
        n += 1;
        unnumbered += u64::from(event.number.is_none());
    };
    if n > 0 || result.is_ok() {
        // What came before an input that cannot be read is kept.
        writer.into_inner().finish()?;
    }
    if result.is_err() && n > 0 {
        progress.say(&format!("warning: {} is incomplete: it holds the first {n} events", path.display()));
    }
    result?;
    let mut lines = vec![
        format!("{}: {n} events, banks of type UT and version {} ({})", path.display(), format.byte(), format.name()),
        "Made up: trigger mask, bunch and orbit number are 0; an ODIN bank holds run and event number.".to_owned(),
    ];
    if unnumbered > 0 {
        lines.push(format!("{unnumbered} events have no numbers in their file's name: 0 for the run, no ODIN bank."));
    }
    Ok(lines.join("\n") + "\n")
}

/// The next event, which must come from a file of the format that there is something to do with.
fn next<'a>(events: &'a mut Events, wanted: Format, progress: &mut Progress) -> Result<Option<RawEvent<'a>>, Failure> {
    progress.set(events.bytes_read());
    let Some(event) = events.next_event()? else {
        return Ok(None);
    };
    if event.format != wanted {
        let output = match wanted {
            Format::Mdf => "dumps, and the output is a directory; to make MDF, let it end in .mdf",
            Format::AllenDump => "MDF, and the output ends in .mdf; to make dumps, name a directory",
        };
        let file = event.file.display();
        return Err(format!("{file}: nothing to convert: the input is {output}").into());
    }
    Ok(Some(event))
}
