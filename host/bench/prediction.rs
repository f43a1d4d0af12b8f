//! How fast the kernels could be on a card, from what was counted of them without one: bounds, not measurements
//! (`docs/prediction.md`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::decoder::occupancy::Architecture;
use crate::decoder::ptx::{KernelUse, Resources, ResourcesError};

/// Data sheets, by the name on the command line.
const CARDS: &str = include_str!("cards.toml");

/// What the interpreter of the tests counted; `docs/fused.md` says how.
const COUNTED: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/ptx/counts.json"));

/// Warp instructions that a multiprocessor issues in a cycle.
const ISSUED_A_CYCLE: f64 = 4.0;

/// Bytes of a sector.
const SECTOR: f64 = 32.0;

/// Cycles from a load of global memory to its use, where nothing else is said.
const LATENCY_CYCLES: f64 = 650.0;

/// Cycles between two instructions of a warp, where nothing else is said.
const CYCLES_PER_INSTRUCTION: f64 = 4.0;

/// What a prediction needs to know of a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// What it is called.
    pub name: String,
    /// Architecture, as `ptxas` names it: one for which the kernels are assembled.
    pub arch: String,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Their clock, MHz.
    pub clock_mhz: f64,
    /// Bandwidth of the memory, 10⁹ bytes a second.
    pub bandwidth_gb_s: f64,
    /// Cycles from a load of global memory to its use.
    #[serde(default = "latency_cycles")]
    pub latency_cycles: f64,
    /// Cycles between two instructions of a warp.
    #[serde(default = "cycles_per_instruction")]
    pub cycles_per_instruction: f64,
}

const fn latency_cycles() -> f64 {
    LATENCY_CYCLES
}

const fn cycles_per_instruction() -> f64 {
    CYCLES_PER_INSTRUCTION
}

impl Card {
    /// The data sheets that are there, by name.
    pub fn known() -> BTreeMap<String, Self> {
        toml::from_str(CARDS).unwrap_or_default()
    }

    /// What a file says.
    ///
    /// # Errors
    /// When it is not such a file, or its numbers are of no card.
    pub fn parse(text: &str) -> Result<Self, String> {
        let card: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        card.check()?;
        Ok(card)
    }

    /// A card of which a measurement tells.
    ///
    /// # Errors
    /// What it does not tell.
    pub fn of_measured(gpu: &MeasuredGpu) -> Result<Self, String> {
        let missing = |what: &str| format!("the measurement does not tell the {what} of {}", gpu.name);
        let capability = gpu.capability.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (major, minor): (u32, u32) = capability.ok_or_else(|| missing("compute capability"))?;
        let number = 10_u32.saturating_mul(major).saturating_add(minor);
        let arch = Architecture::newest_up_to(number).ok_or_else(|| missing("architecture"))?;
        let card = Self {
            name: gpu.name.clone(),
            arch: arch.name.to_owned(),
            multiprocessors: u32::try_from(gpu.multiprocessors).unwrap_or(0),
            clock_mhz: gpu.max_clock_mhz.ok_or_else(|| missing("clock"))?,
            bandwidth_gb_s: gpu.peak_bandwidth.ok_or_else(|| missing("bandwidth"))? * 1e-9,
            latency_cycles: LATENCY_CYCLES,
            cycles_per_instruction: CYCLES_PER_INSTRUCTION,
        };
        card.check()?;
        Ok(card)
    }

    fn check(&self) -> Result<(), String> {
        let archs = Architecture::ALL.map(|arch| arch.name);
        if !archs.contains(&self.arch.as_str()) {
            return Err(format!("arch is one of {}, not {:?}", archs.join(", "), self.arch));
        }
        let numbers = [
            ("multiprocessors", f64::from(self.multiprocessors), 1.0..=4096.0),
            ("clock_mhz", self.clock_mhz, 1.0..=1e5),
            ("bandwidth_gb_s", self.bandwidth_gb_s, 1.0..=1e6),
            ("latency_cycles", self.latency_cycles, 1.0..=1e5),
            ("cycles_per_instruction", self.cycles_per_instruction, 1.0..=1e3),
        ];
        match numbers.into_iter().find(|(_, number, range)| !range.contains(number)) {
            Some((name, number, range)) => {
                Err(format!("{name} must be between {} and {}, not {number}", range.start(), range.end()))
            }
            None => Ok(()),
        }
    }
}

/// What was counted of a kind of events in a pipeline and layout.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Counted {
    /// Which events.
    pub events: String,
    /// `Allen` or `Mep`.
    pub layout: String,
    /// The pipeline.
    pub pipeline: String,
    /// Kernel by kernel, of a mean event.
    pub kernels: Vec<CountedKernel>,
}

/// What was counted of a kernel, for a mean event.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CountedKernel {
    /// Entry point.
    pub kernel: String,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block that the launch gives.
    pub shared_bytes: u32,
    /// Instructions that its warps issue.
    pub issued: f64,
    /// The critical path of its blocks, in sum.
    pub path: f64,
    /// Sectors that memory must bring and take.
    pub fresh: f64,
    /// Latencies of global memory that its blocks wait for, one after another: the sum.
    pub waits: f64,
}

#[derive(Deserialize)]
struct Rows {
    rows: Vec<Counted>,
}

/// Why there is no prediction.
#[derive(Debug, thiserror::Error)]
pub enum PredictionError {
    /// The committed counts are damaged.
    #[error("kernels/ptx/counts.json")]
    Damaged(#[from] serde_json::Error),
    /// The committed figures of the assembler are damaged.
    #[error(transparent)]
    Resources(#[from] ResourcesError),
    /// The two do not go together.
    #[error("kernels/ptx/resources.json has no {kernel} for {arch}: kernels/ptx/counts.json is older or newer")]
    NoKernel {
        /// Entry point.
        kernel: String,
        /// Architecture.
        arch: String,
    },
}

/// Events a second that a card could decode, by what would hold it back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Which events.
    pub events: String,
    /// `allen` or `mep`.
    pub layout: String,
    /// The pipeline.
    pub pipeline: String,
    /// If there were nothing but the instructions to issue.
    pub instructions: f64,
    /// If there were nothing but the bytes to move.
    pub bandwidth: f64,
    /// If each block waited only for its own loads and instructions, one after another.
    pub latency: f64,
    /// If the three did not overlap at all.
    pub low: f64,
    /// If they overlapped wholly: in each kernel the slowest of the three alone.
    pub high: f64,
    /// Which of the three allows the fewest events.
    pub limit: &'static str,
}

impl Prediction {
    /// Of everything that was counted.
    ///
    /// # Errors
    /// When the committed files are damaged.
    pub fn all(card: &Card) -> Result<Vec<Self>, PredictionError> {
        let resources = Resources::committed()?;
        let Rows { rows } = serde_json::from_str(COUNTED)?;
        rows.iter().map(|row| Self::of(card, row, &resources)).collect()
    }

    fn of(card: &Card, row: &Counted, resources: &Resources) -> Result<Self, PredictionError> {
        let (mut sums, mut low, mut high) = ([0.0; 3], 0.0, 0.0);
        for kernel in &row.kernels {
            let usage = resources.kernels.iter().find(|of| of.kernel == kernel.kernel && of.arch == card.arch);
            let seconds = usage
                .and_then(|usage| seconds(card, kernel, usage))
                .ok_or_else(|| PredictionError::NoKernel { kernel: kernel.kernel.clone(), arch: card.arch.clone() })?;
            sums.iter_mut().zip(seconds).for_each(|(sum, of)| *sum += of);
            low += seconds.iter().sum::<f64>();
            high += seconds.into_iter().fold(0.0, f64::max);
        }
        let [instructions, bandwidth, latency] = sums.map(f64::recip);
        let names = ["instructions", "bandwidth", "latency"];
        let slowest = sums.into_iter().zip(names).max_by(|a, b| a.0.total_cmp(&b.0));
        Ok(Self {
            events: row.events.clone(),
            layout: row.layout.to_lowercase(),
            pipeline: row.pipeline.clone(),
            instructions,
            bandwidth,
            latency,
            low: low.recip(),
            high: high.recip(),
            limit: slowest.map_or(names[0], |(_, name)| name),
        })
    }
}

/// Seconds an event that a kernel takes, by instructions, by bandwidth, by latency. `None` where no block fits.
fn seconds(card: &Card, kernel: &CountedKernel, usage: &KernelUse) -> Option<[f64; 3]> {
    let blocks = usage.occupancy(kernel.threads, kernel.shared_bytes).map(|of| of.blocks).filter(|&n| n > 0)?;
    let cycles = 1e6 * card.clock_mhz * f64::from(card.multiprocessors);
    let of_block = kernel.waits * card.latency_cycles + kernel.path * card.cycles_per_instruction;
    Some([
        kernel.issued / ISSUED_A_CYCLE / cycles,
        kernel.fresh * SECTOR / (1e9 * card.bandwidth_gb_s),
        of_block / f64::from(blocks) / cycles,
    ])
}

/// What `ut-decode throughput --backend cuda --json` says, as far as it is compared.
#[derive(Clone, Debug, Deserialize)]
pub struct Measured {
    /// The events, in words.
    pub sample: String,
    /// `allen` or `mep`.
    pub layout: String,
    /// Version byte of the banks' format.
    pub bank_version: u8,
    environment: MeasuredEnvironment,
    #[serde(flatten)]
    one: Option<MeasuredBatch>,
    #[serde(default)]
    batches: Vec<MeasuredBatch>,
}

#[derive(Clone, Debug, Deserialize)]
struct MeasuredEnvironment {
    gpu: Option<MeasuredGpu>,
}

/// The GPU of a measurement.
#[derive(Clone, Debug, Deserialize)]
pub struct MeasuredGpu {
    name: String,
    capability: String,
    multiprocessors: i64,
    max_clock_mhz: Option<f64>,
    peak_bandwidth: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
struct MeasuredBatch {
    batch: u64,
    #[serde(default)]
    modes: Vec<MeasuredMode>,
    #[serde(default)]
    kernels: Vec<MeasuredKernel>,
}

#[derive(Clone, Debug, Deserialize)]
struct MeasuredMode {
    mode: String,
    events_per_second: MeasuredSpread,
}

#[derive(Clone, Debug, Deserialize)]
struct MeasuredSpread {
    median: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct MeasuredKernel {
    kernel: String,
}

/// A measured rate beside the prediction of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Which events were measured.
    pub sample: String,
    /// Events of a batch.
    pub batch: u64,
    /// Events a second, batches and hits lying on the device, in the median.
    pub measured: f64,
    /// What was predicted for the GPU that measured.
    pub predicted: Prediction,
}

impl Measured {
    /// The GPU, if it was one.
    pub const fn gpu(&self) -> Option<&MeasuredGpu> {
        self.environment.gpu.as_ref()
    }

    /// The rates by size of batch, each beside what was predicted for such events; none where such were not counted.
    pub fn compare(&self, predictions: &[Prediction]) -> Vec<Compared> {
        let compare = |batch: &MeasuredBatch| {
            let is_fused = batch.kernels.iter().any(|of| of.kernel == "fused");
            let pipeline = if is_fused { "fused" } else { "allen" };
            let mode = batch.modes.iter().find(|of| of.mode == "device-resident")?;
            let predicted = predictions.iter().find(|of| {
                let is_v4 = of.events.ends_with("v4");
                of.pipeline == pipeline
                    && of.layout == self.layout
                    && self.sample.contains(&of.events)
                    && is_v4 == (self.bank_version < 4)
            })?;
            Some(Compared {
                sample: self.sample.clone(),
                batch: batch.batch,
                measured: mode.events_per_second.median,
                predicted: predicted.clone(),
            })
        };
        self.one.iter().chain(&self.batches).filter_map(compare).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a5000() -> Card {
        Card::known().remove("a5000").expect("a data sheet")
    }

    #[test]
    fn every_data_sheet_is_of_a_card_for_which_the_kernels_are_assembled() {
        let known = Card::known();
        assert_eq!(known.keys().collect::<Vec<_>>(), ["a100", "a5000", "h100", "h200", "l40s", "rtx4090"]);
        for card in known.values() {
            card.check().unwrap();
            let predictions = Prediction::all(card).unwrap();
            assert!(!predictions.is_empty());
            for of in predictions {
                let least = of.instructions.min(of.bandwidth).min(of.latency);
                assert!(0.0 < of.low && of.low < of.high && of.high <= least * 1.000_001, "{of:?}");
                let limits = [("instructions", of.instructions), ("bandwidth", of.bandwidth), ("latency", of.latency)];
                assert!(limits.contains(&(of.limit, least)), "{of:?}");
            }
        }
    }

    #[test]
    fn the_three_bounds_are_what_one_works_out_by_hand() {
        let counted = CountedKernel {
            kernel: "fused__v5_allen_fused".to_owned(),
            threads: 256,
            shared_bytes: 20 << 10,
            issued: 64.0 * 4.0 * 100.0,
            path: 350.0,
            fresh: 24.0,
            waits: 4.0,
        };
        let usage = KernelUse {
            unit: String::new(),
            kernel: counted.kernel.clone(),
            arch: "sm_86".to_owned(),
            registers: 64,
            stack: 0,
            spill_stores: 0,
            spill_loads: 0,
            shared: 0,
            barriers: 1,
        };
        let card = Card { clock_mhz: 1000.0, bandwidth_gb_s: 768.0, ..a5000() };
        // 100 cycles; 768 bytes; 4 · 650 + 350 · 4 = 4000 cycles of a block, four of which fit on each of 64.
        let [instructions, bandwidth, latency] = seconds(&card, &counted, &usage).unwrap();
        let is = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-12;
        assert!(is(instructions, 100e-9) && is(bandwidth, 1e-9) && is(latency, 4000.0 / 4.0 / 64.0 * 1e-9));
        assert_eq!(seconds(&card, &CountedKernel { shared_bytes: 1 << 20, ..counted }, &usage), None);
    }

    #[test]
    fn a_file_with_numbers_of_ones_own_is_read_and_one_of_no_card_refused() {
        let good = "name = \"x\"\narch = \"sm_89\"\nmultiprocessors = 58\nclock_mhz = 2475\nbandwidth_gb_s = 504\n";
        let card = Card::parse(good).unwrap();
        assert_eq!((card.multiprocessors, card.latency_cycles, card.cycles_per_instruction), (58, 650.0, 4.0));
        assert_eq!(Card::parse(&(good.to_owned() + "latency_cycles = 500")).unwrap().latency_cycles, 500.0);
        for (from, to, part) in [
            ("sm_89", "sm_70", "arch is one of sm_80, sm_86, sm_89, sm_90"),
            ("= 58", "= 0", "multiprocessors must be between 1 and 4096, not 0"),
            ("= 58", "= -1", "invalid value"),
            ("2475", "nan", "clock_mhz must be between"),
            ("504", "inf", "bandwidth_gb_s must be between"),
            ("name", "title", "unknown field"),
        ] {
            let error = Card::parse(&good.replace(from, to)).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_measurement_is_compared_with_events_of_its_kind_alone() {
        let measured = |sample: &str, kernel: &str| -> Measured {
            let json = serde_json::json!({
                "sample": sample, "layout": "mep", "bank_version": 4,
                "environment": { "gpu": { "name": "GPU", "capability": "8.6", "multiprocessors": 64,
                    "max_clock_mhz": 1695.0, "peak_bandwidth": 768e9 } },
                "batches": [
                    { "batch": 10, "modes": [], "kernels": [] },
                    { "batch": 1000, "kernels": [{ "kernel": kernel }],
                      "modes": [{ "mode": "device-resident", "events_per_second": { "median": 1e6 } }] },
                ],
            });
            serde_json::from_value(json).unwrap()
        };
        let of = measured("embedded pp-nominal v5 events, seed 1", "fused");
        let card = Card::of_measured(of.gpu().unwrap()).unwrap();
        assert_eq!(Card { name: "RTX A5000".to_owned(), ..card.clone() }, a5000());
        let predictions = Prediction::all(&card).unwrap();
        let found = of.compare(&predictions);
        assert_eq!(found.len(), 1);
        let Compared { batch, measured: rate, predicted, .. } = &found[0];
        let what = (predicted.events.as_str(), predicted.layout.as_str(), predicted.pipeline.as_str());
        assert_eq!((*batch, *rate, what), (1000, 1e6, ("pp-nominal", "mep", "fused")));
        let seven = measured("embedded pp-nominal v5 events, seed 1", "count_hits").compare(&predictions);
        assert_eq!(seven[0].predicted.pipeline, "allen");
        assert_eq!(measured("run.mdf", "fused").compare(&predictions), []);
    }

    #[test]
    fn what_a_measurement_does_not_tell_of_its_gpu_is_named() {
        let gpu = MeasuredGpu {
            name: "GPU".to_owned(),
            capability: "9.0".to_owned(),
            multiprocessors: 132,
            max_clock_mhz: Some(1980.0),
            peak_bandwidth: Some(3.35e12),
        };
        assert_eq!(Card::of_measured(&gpu).unwrap().arch, "sm_90");
        for (gpu, part) in [
            (MeasuredGpu { capability: "?".to_owned(), ..gpu.clone() }, "compute capability"),
            (MeasuredGpu { capability: "7.0".to_owned(), ..gpu.clone() }, "architecture"),
            (MeasuredGpu { max_clock_mhz: None, ..gpu.clone() }, "clock"),
            (MeasuredGpu { peak_bandwidth: None, ..gpu.clone() }, "bandwidth"),
            (MeasuredGpu { multiprocessors: -1, ..gpu }, "multiprocessors"),
        ] {
            let error = Card::of_measured(&gpu).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
