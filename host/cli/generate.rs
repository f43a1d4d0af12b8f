//! `ut-decode generate`: synthetic events and the detector they belong to.

use std::path::PathBuf;

use crate::detector::BankVersion;
use crate::input::{Bank, EventHeader, GENERATED_MASK, MdfWriter, kind};
use crate::output::NewFile;
use crate::synth::{self, Generator, Profile};
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::cli::Failure;
use crate::cli::args::{bank_format, one_of};
use crate::cli::output::{cannot_write, print, write_failure, write_file};
use crate::cli::progress::Progress;

/// Make synthetic events: an MDF file and the tables of the detector that it belongs to.
///
/// Writes events.mdf, boards.bin and geometry.bin into a directory. The same options give the same bytes. The events are
/// marked as generated in their trigger mask, so that `decode` knows that they belong to the embedded detector.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How busy the events are.
    #[arg(long, default_value = "pp-nominal", value_parser = one_of!(Profile::ALL, Profile::name))]
    profile: Profile,
    /// Bank format: v4 (clusters, bank version 3) or v5 (strips of six lanes, bank version 4).
    #[arg(long, default_value = "v5", value_parser = bank_format())]
    format: BankVersion,
    /// How many.
    #[arg(long, value_name = "N", default_value_t = 100)]
    events: u64,
    /// Another seed, other events.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Version of the geometry file: 0 has the slopes dx/dy by layer, 1 by sector.
    #[arg(long, value_name = "V", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=1))]
    geometry_version: u16,
    /// Directory to write to; made if it is not there.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.output).map_err(|error| cannot_write(&args.output, &error))?;
    let [mdf, boards, geometry] = ["events.mdf", "boards.bin", "geometry.bin"].map(|name| args.output.join(name));
    let detector = synth::detector(args.format, args.geometry_version);
    write_file(&boards, detector.0.to_bytes())?;
    write_file(&geometry, detector.1.to_bytes())?;
    let mut writer = MdfWriter::new(NewFile::create(&mdf)?);
    let mut progress = Progress::new(args.events, "generating {wide_bar} {pos}/{len} events, {eta} left");
    let mut bytes = 0;
    let generator = Generator::new(args.profile, args.format, args.seed);
    for index in 0..args.events {
        progress.set(index);
        let event = generator.event(index);
        let header = EventHeader { trigger_mask: GENERATED_MASK, run: event.run, number: Some(event.event) };
        let banks = event.banks.iter().map(|(source_id, payload)| Bank {
            kind: kind::UT,
            version: Some(args.format.byte()),
            source_id: u32::from(*source_id),
            payload,
        });
        bytes += banks.clone().map(|bank| bank.payload.len()).sum::<usize>();
        writer.write(&header, banks).map_err(|error| write_failure(&mdf, error))?;
    }
    writer.into_inner().finish()?;
    drop(progress);
    let mean = bytes as f64 / (args.events.max(1) as f64);
    print(&format!(
        "{}: {} {} events of profile {}, seed {}, {mean:.0} bytes of UT payload an event in the mean\n{}\n{}\n",
        mdf.display(),
        args.events,
        args.format.name(),
        args.profile.name(),
        args.seed,
        boards.display(),
        geometry.display(),
    ))?;
    Ok(())
}
