//! `ut-decode tune aa-test`: a configuration against itself.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::bench::Machine;
use crate::bench::decoding::{name, parse};
use crate::decoder::Backend;
use serde_json::json;
use tuner::aa::aa_test;
use tuner::verdict::Verdict;

use crate::cli::args::{one_of, seconds};
use crate::cli::output::{print_beside, write_json};
use crate::cli::progress::Progress;
use crate::cli::trial::{RuleArgs, SampleArgs, evidence, trouble};
use crate::cli::{Failure, usage};
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Compare a configuration with itself: can differences be trusted on this machine, now?
///
/// Prints how often equal configurations would be called different, and the smallest difference that a comparison of 1
/// to 100 seconds would show nine times out of ten. Run it before tuning, on the machine you tune for. The exit code is 4
/// if it cannot tell.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Parameters of the decoder, as for `compare` (batch=512,cpu.simd=avx2); what is not named has its default.
    #[arg(long, value_name = "PARAMETERS", default_value = "", hide_default_value = true)]
    parameters: String,
    /// The decoder to configure.
    #[arg(long, default_value = "cpu", value_parser = one_of!(Backend::ALL, Backend::name))]
    backend: Backend,
    /// How long to measure, in seconds; at least ten blocks are measured.
    #[arg(long, value_name = "S", default_value_t = 20.0)]
    duration: f64,
    /// Write the result as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    sample: SampleArgs,
}

pub fn run(args: &Args) -> Result<u8, Failure> {
    let duration = seconds(args.duration).unwrap_or_else(|error| usage(&format!("--duration {error}")));
    let config = parse(args.backend, &args.parameters).unwrap_or_else(|error| usage(&error.to_string()));
    let plan = args.rules.plan(15, &[10]);
    let mut watch = args.rules.watch(args.backend);
    let (detector, events, source) = args.sample.load()?;
    let mut device = args.sample.device(args.backend, &detector, events);
    let mut progress = Progress::new(duration.as_millis() as u64, "measuring {wide_bar} {eta} left");
    let tick = |elapsed: Duration| progress.set(elapsed.as_millis() as u64);
    let report = aa_test(&mut device, &config, &plan, &mut *watch, duration, tick);
    drop(progress);
    let report = report.map_err(|failure| format!("{}: {}", name(args.backend, &config), failure.message))?;
    let machine = Machine::this();
    if let Some(path) = &args.json {
        let value = json!({
            "sample": source, "backend": args.backend, "config": name(args.backend, &config), "plan": plan, "machine": machine, "result": report,
        });
        write_json(path, &value)?;
    }
    // Where every sample was discarded there is no time.
    let mean = if report.mean_ms.is_finite() { format!("{:.3} ms", report.mean_ms) } else { "unknown".to_owned() };
    let mut text = format!(
        "sample              {source}\nconfiguration       {}, {mean} for 1000 events\nmeasured            {:.1} s\n",
        name(args.backend, &config),
        report.seconds
    );
    text += &evidence(&report.judgement);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "verdict             {}", report.judgement.verdict);
    match report.false_alarms {
        Some(alarms) => {
            let share = |x: f64| format!("{:.1} %", 100.0 * x);
            let _ = writeln!(
                text,
                "false alarms        {} of comparisons of 10 blocks ({} without the zone of indifference; {} by ALICE's rule)",
                share(alarms.rules),
                share(alarms.without_zone),
                share(alarms.alice)
            );
        }
        None => text += "false alarms        unknown: fewer than ten blocks were usable\n",
    }
    for smallest in &report.smallest {
        let _ = writeln!(
            text,
            "shown in {:>5} s    {:.3} % ({} blocks)",
            smallest.seconds,
            100.0 * smallest.difference,
            smallest.blocks
        );
    }
    text += &trouble(&mut *watch, &report.judgement);
    if !machine.optimised {
        text += "note                built without optimisation: for numbers that count, cargo run --release\n";
    }
    print_beside(args.json.as_deref(), &text)?;
    // As `compare`: what cannot be told has an exit code of its own.
    Ok(match report.judgement.verdict {
        Verdict::CannotTell(_) => 4,
        _ => 0,
    })
}
