//! `ut-decode kernels`: resources of the kernels.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use ut_data::detector::BankVersion;
use ut_decoders::occupancy::Architecture;
use ut_decoders::ptx::{Kernel, KernelUse, Resources, Unit};

use crate::Failure;
use crate::output::{print_beside, write_json};
use crate::table::table;

const BLOCKS: [u32; 8] = [32, 64, 96, 128, 192, 256, 512, 1024];

/// Sector groups of the finest grouping: the most shared memory.
const GROUPS: u32 = 84;

/// Show registers, spills, shared memory, barriers and occupancy of the kernels.
///
/// For each kernel and architecture: registers per thread, bytes spilled to local memory, bytes of
/// shared memory per block, hardware barriers, and how full a multiprocessor gets with blocks of
/// each size. No GPU is needed: the figures come from NVIDIA's assembler, and occupancy follows
/// from them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show this module of kernels; may be given several times.
    #[arg(long, value_name = "NAME", default_value = "v5_allen", value_parser = unit_names())]
    unit: Vec<String>,
    /// Show this architecture; may be given several times [default: all].
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Architecture::ALL.map(|arch| arch.name)))]
    arch: Vec<String>,
    /// Ask the installed ptxas instead of showing the recorded values.
    #[arg(long)]
    measure: bool,
    /// Write the figures as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn unit_names() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(Unit::all().map(|unit| unit.name).chain(["all"]))
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let resources = if args.measure {
        Resources::measured()?
    } else {
        Resources::committed()?
    };
    let wanted = |name: &str, names: &[String]| names.iter().any(|n| n == name || n == "all");
    let units: Vec<_> = Unit::all()
        .filter(|unit| wanted(unit.name, &args.unit))
        .collect();
    let archs: Vec<_> = Architecture::ALL
        .into_iter()
        .filter(|a| args.arch.is_empty() || wanted(a.name, &args.arch))
        .collect();
    let source = if args.measure {
        "measured with"
    } else {
        "on record, from"
    };
    let mut text = format!("{source} ptxas {}\n", resources.ptxas);
    let mut rows = Vec::new();
    for unit in units {
        let boards = match unit.version {
            BankVersion::V4 => 240,
            BankVersion::V5 => 216,
        };
        let head = ["kernel", "arch", "regs", "spilled", "shared", "barriers"].map(str::to_owned);
        let mut lines = vec![
            head.into_iter()
                .chain(BLOCKS.map(|threads| threads.to_string()))
                .collect(),
        ];
        for (kernel, variant) in kernels(&unit) {
            let shared = kernel.shared_bytes(unit.version, boards, GROUPS);
            for arch in &archs {
                let Some(figures) = resources.of(kernel, &variant, arch.name) else {
                    return Err(format!(
                        "no figures for {} on {}",
                        kernel.entry(&variant),
                        arch.name
                    )
                    .into());
                };
                lines.push(row(figures, kernel, &variant, shared));
                rows.push(row_json(figures, shared));
            }
        }
        let _ = write!(
            text,
            "\n{} ({boards} boards, {GROUPS} groups), on the right: occupancy in % by threads per \
             block\n{}",
            unit.name,
            table(&lines)
        );
    }
    text.push_str(FOOTNOTE);
    if let Some(path) = &args.json {
        let value = json!({ "ptxas": resources.ptxas, "measured": args.measure, "groups": GROUPS, "kernels": rows });
        write_json(path, &value)?;
    }
    print_beside(args.json.as_deref(), &text)?;
    Ok(())
}

/// Returns kernels and variants of a module, variants of a kernel side by side.
fn kernels(unit: &Unit) -> Vec<(Kernel, String)> {
    let mut all = Vec::new();
    for &kernel in unit.kernels() {
        if *unit == Unit::LADDER {
            let rungs = ut_kernels::switches::Switches::ladder(unit.version, unit.layout).len();
            all.extend((0..rungs).map(|rung| (kernel, format!("v5_allen__rung{rung}"))));
        } else {
            all.push((kernel, unit.name.to_owned()));
        }
        match kernel {
            Kernel::CountHits if *unit != Unit::LADDER => all.push((kernel, unit.bins8())),
            // Clustering does not depend on the layout.
            Kernel::ClusterAndPredecode if unit.version == BankVersion::V5 => {
                all.push((kernel, Unit::WIDE.to_owned()));
            }
            _ => {}
        }
    }
    all
}

fn remark(variant: &str) -> String {
    match variant.split_once("__") {
        Some((_, "wide")) => " (32-bit sums)".to_owned(),
        Some((_, "bins8")) => " (8 size classes)".to_owned(),
        Some((_, rung)) => format!(" ({rung})"),
        None => String::new(),
    }
}

fn row(of: &KernelUse, kernel: Kernel, variant: &str, shared: u32) -> Vec<String> {
    let cell = |threads| match of.occupancy(threads, shared) {
        Some(occupancy) => {
            let limit = if occupancy.share >= 1.0 {
                ""
            } else {
                &occupancy.limit.name()[..1]
            };
            format!("{:.0}{limit}", 100.0 * occupancy.share)
        }
        None => "?".to_owned(),
    };
    let numbers = [
        of.registers,
        of.spill_stores + of.spill_loads + of.stack,
        of.shared + shared,
        of.barriers,
    ]
    .map(|n| n.to_string());
    let names = [
        format!("{}{}", kernel.name(), remark(variant)),
        of.arch.clone(),
    ];
    names
        .into_iter()
        .chain(numbers)
        .chain(BLOCKS.map(cell))
        .collect()
}

const FOOTNOTE: &str = "\nBelow 100 a letter says what runs out first: w warp slots, b block slots, r registers, s shared memory.\n";

fn row_json(of: &KernelUse, shared: u32) -> Value {
    let occupancy: Vec<_> = (1..=32)
        .map(|warps| 32 * warps)
        .filter_map(|threads| Some((threads, of.occupancy(threads, shared)?)))
        .map(|(threads, o)| {
            json!({ "threads": threads, "blocks": o.blocks, "warps": o.warps, "share": o.share, "limit": o.limit.name() })
        })
        .collect();
    json!({
        "unit": of.unit,
        "kernel": of.kernel,
        "arch": of.arch,
        "registers": of.registers,
        "stack": of.stack,
        "spill_stores": of.spill_stores,
        "spill_loads": of.spill_loads,
        "static_shared": of.shared,
        "dynamic_shared": shared,
        "barriers": of.barriers,
        "occupancy": occupancy,
    })
}
