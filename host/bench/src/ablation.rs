//! The ladder of Allen merge request !1663: how much each optimisation gains over the previous
//! rung. A GPU times all rungs in interleaved rounds; without a GPU the executor counts their work.
//! The figures that the merge request published are listed for comparison.
//!
//! A rung is the production kernel with one switch after the other turned back, and not old code:
//! so the rungs share everything but the optimisation in question, and their hits are compared with
//! the reference before anything is timed. The published numbers are rates of a whole trigger
//! sequence, of which the decoding is a part, on one model of GPU; they show the order of the
//! steps, and their factors cannot be compared with factors of the decoding alone.

use std::time::Duration;

use serde::Serialize;
use ut_kernels::switches::Switches;

use super::chip::{Chip, Filled};
use super::modes::{KernelTime, Mode, OnGpu, kernel_passes};
use super::sample::{Expected, Sample};
use super::timing::{BLOCK, measure, repetition};
use super::work::{METRICS, Work};
use super::{Change, Spread};
use ut_data::detector::{BankVersion, DetectorTables};
use ut_data::error::with_causes;
use ut_data::input::Layout;
use ut_decoders::cuda::CudaConfig;
use ut_decoders::emulated::EmulatedConfig;
use ut_decoders::parameters::Parameters;
use ut_decoders::{DecodeError, DecodeOptions, Pipeline};

/// Number of rungs.
pub const RUNGS: usize = 7;

/// A step of the table in Allen merge request !1663: the rate of Allen's sequence
/// `trackmatching_veloscifi_and_utdecoding` on an RTX A5000, of which the decoding is a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Published {
    /// Label of the row: the change that the row adds, or the base of the table.
    pub step: &'static str,
    /// Our rung that ends there; `None` before the ladder begins.
    pub rung: Option<&'static str>,
    /// Rate in events per second.
    pub events_per_second: u32,
}

const fn step(step: &'static str, rung: Option<&'static str>, events_per_second: u32) -> Published {
    Published {
        step,
        rung,
        events_per_second,
    }
}

/// Table published in the merge request; each row adds one step to the previous row.
///
/// From the first rung to the last the whole sequence gains 6.2 %, 195,834 over 184,450. A step of
/// the decoding alone is larger, because the rest of the sequence does not change.
pub const PUBLISHED: [Published; 9] = [
    step("2024-patches", None, 172_169),
    step("+ !1509", None, 188_003),
    step("+ !1444 (clustering)", Some("board-table"), 184_450),
    step(
        "board table replaced by a map from sourceID to geometry",
        Some("flat-map"),
        187_189,
    ),
    step("zero suppression", Some("zero-suppression"), 188_366),
    step("warp atomics", Some("warp-atomics"), 188_801),
    step("binned by size", Some("binned"), 190_724),
    step(
        "16-bit clustering registers, no layer loop",
        Some("narrow-sums"),
        191_284,
    ),
    step("opportunistic looping", Some("opportunistic"), 195_834),
];

/// Returns the published rate at a rung of ours, and its change to the rung before in %.
pub fn published(rung: &str) -> Option<(u32, Option<f64>)> {
    let place = PUBLISHED.iter().position(|step| step.rung == Some(rung))?;
    let rate = PUBLISHED[place].events_per_second;
    // Nothing of ours is before the first rung.
    let before = place
        .checked_sub(1)
        .map(|before| PUBLISHED[before])
        .filter(|before| before.rung.is_some());
    Some((
        rate,
        before.map(|before| percent(f64::from(before.events_per_second), f64::from(rate))),
    ))
}

fn percent(before: f64, after: f64) -> f64 {
    if before == 0.0 {
        if after == 0.0 { 0.0 } else { f64::INFINITY }
    } else {
        100.0 * (after / before - 1.0)
    }
}

/// Resources of a rung's kernel on an architecture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelResources {
    /// Name of the kernel, without the rung.
    pub kernel: String,
    /// Number of threads per block.
    pub threads: u32,
    /// Number of registers per thread.
    pub registers: u32,
    /// Number of bytes of shared memory per block.
    pub shared: u32,
    /// Warps of a multiprocessor that are occupied, 0…1.
    pub occupancy: f32,
    /// Resource that runs out first: `threads`, `warps`, `blocks`, `registers` or `shared`.
    pub limit: String,
}

/// The counted work of a rung.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountedWork {
    /// Means over the events, by name, in the order of [`METRICS`].
    pub per_event: Vec<(String, f64)>,
    /// Changes to the rung before in %, in the same order; empty for the first rung. `None` where
    /// there was nothing.
    pub change_percent: Vec<(String, Option<f64>)>,
    /// Share of lanes that idled while their warp accessed global memory, 0…1.
    pub idle_share: f64,
    /// Mean number of lanes that took part in a collective.
    pub lanes_per_collective: f64,
    /// Mean number of lanes that an atomic served: the atomics of the same rung with one for each
    /// lane, over its own.
    pub lanes_per_atomic: f64,
    /// Bytes between global memory and the multiprocessors, without the tables that all events
    /// share, over the bytes in and out.
    pub traffic: f64,
    /// The same with each sector counted once per launch: see [`Work::distinct_traffic`].
    pub distinct_traffic: f64,
    /// `per_event` kernel by kernel.
    pub kernels: Vec<(String, Vec<(String, f64)>)>,
}

/// Measured rate of a rung.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredRate {
    /// Spread of the rate over the interleaved rounds.
    pub events_per_second: Spread,
    /// Change from the previous rung; `None` for the first rung.
    pub change: Option<Change>,
    /// Change from the first rung; `None` for the first rung itself.
    pub change_to_first: Option<Change>,
    /// On a GPU, its kernels by name, by the device's own clock, on one stream.
    pub kernels: Vec<KernelTime>,
}

/// One rung.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rung {
    /// Name of the rung.
    pub rung: String,
    /// Counted, on `emulated`.
    pub work: Option<CountedWork>,
    /// Measured, on a GPU.
    pub measured: Option<MeasuredRate>,
    /// Registers and occupancy by kernel; empty if the rung is not among the committed PTX.
    pub resources: Vec<KernelResources>,
    /// Rate in the merge request, events per second of the whole sequence on an RTX A5000.
    pub published_events_per_second: Option<u32>,
    /// Change to the step before, in %.
    pub published_change_percent: Option<f64>,
}

/// Settings of an ablation.
#[derive(Clone, Copy, Debug)]
pub struct Ladder<'a> {
    /// Batches on which every rung is checked, and counted or measured.
    pub sample: &'a Sample,
    /// Detector tables of the sample, whose bank format the rungs decode.
    pub tables: &'a DetectorTables,
    /// Options of decoding, the same for all rungs.
    pub options: DecodeOptions,
    /// Launch parameters of all rungs; the pipeline among them is ignored.
    pub launch: Parameters,
    /// Architecture of the registers and the occupancy.
    pub chip: &'a Chip,
}

/// Returns the measurement of a rung, or an error that names the rung.
fn of_rung<T>(rung: &str, found: Result<Result<T, String>, DecodeError>) -> Result<T, String> {
    let found = found.map_err(|error| format!("rung {rung}: {}", with_causes(&error)))?;
    found.map_err(|difference| format!("rung {rung} differs from the reference: {difference}"))
}

impl Ladder<'_> {
    fn layout(&self) -> Layout {
        self.sample
            .batches
            .first()
            .map(|batch| batch.layout)
            .unwrap_or_default()
    }

    fn rungs(&self) -> [(&'static str, Switches); RUNGS] {
        Switches::ladder(self.tables.boards().version, self.layout())
    }

    fn expected(&self) -> Result<Expected, String> {
        let expected = Expected::of(self.sample, self.tables, self.options);
        expected.map_err(|error| format!("the reference: {}", with_causes(&error)))
    }

    /// Counts the work of every rung. `tick` is called with the number of rungs done.
    pub fn count(&self, mut tick: impl FnMut(usize)) -> Result<Vec<Rung>, String> {
        let expected = self.expected()?;
        let mut rungs: Vec<Rung> = Vec::new();
        for (i, (name, switches)) in self.rungs().into_iter().enumerate() {
            let config = EmulatedConfig::of(&self.launch.with_pipeline(Pipeline::Allen))
                .with_switches(switches);
            let work = self.work_of(name, config, &expected)?;
            let plain = if switches.warp_atomics {
                let switches = Switches {
                    warp_atomics: false,
                    ..switches
                };
                self.work_of(name, config.with_switches(switches), &expected)?
            } else {
                work.clone()
            };
            let before = rungs.last().and_then(|rung| rung.work.as_ref());
            let counted = counted(&work, &plain, before);
            rungs.push(rung(name, self.resources(i), Some(counted), None));
            tick(rungs.len());
        }
        Ok(rungs)
    }

    fn work_of(
        &self,
        rung: &str,
        config: EmulatedConfig,
        expected: &Expected,
    ) -> Result<Work, String> {
        of_rung(
            rung,
            Work::count(self.sample, self.tables, self.options, config, expected),
        )
    }

    /// Measures the kernels of every rung on a GPU, device-resident, on `streams` streams,
    /// interleaved, for `duration` in all; then each kernel by the device's own clock.
    ///
    /// # Errors
    /// If a rung fails or decodes other bits, and for other samples than v5 banks in Allen layout,
    /// for which the rungs were compiled; with a message.
    pub fn measure(
        &self,
        streams: usize,
        duration: Duration,
        tick: impl FnMut(Duration),
    ) -> Result<Vec<Rung>, String> {
        if !self.is_compiled() {
            return Err(
                "the rungs were compiled for v5 banks in Allen layout: take such a sample, or --backend emulated"
                    .to_owned(),
            );
        }
        let rungs = self.rungs();
        let config = |i| {
            CudaConfig::of(&self.launch)
                .with_pipeline(Pipeline::Allen)
                .with_rung(rung_variant(i))
        };
        let configs: [CudaConfig; RUNGS] = std::array::from_fn(config);
        let Self {
            sample,
            tables,
            options,
            ..
        } = *self;
        let gpu = |i: usize| OnGpu {
            sample,
            tables,
            options,
            config: &configs[i],
            streams,
        };
        let expected = self.expected()?;
        let measuring = |error: DecodeError| format!("measuring: {}", with_causes(&error));
        let mut variants = Vec::new();
        for (i, (name, _)) in rungs.into_iter().enumerate() {
            let variant = of_rung(name, gpu(i).variant(Mode::DeviceResident, Some(&expected)))?;
            variants.push(variant.warmed(repetition(duration)).map_err(measuring)?);
        }
        let rates = measure(&mut variants, duration, tick).map_err(measuring)?;
        let of = |(i, (name, _)): (usize, (&'static str, Switches))| {
            let change = |before: usize| {
                Change::between(&rates[before], &rates[i], BLOCK, RUNGS - 1).filter(|_| i > 0)
            };
            let measured = MeasuredRate {
                events_per_second: Spread::of(&rates[i]),
                change: change(i.saturating_sub(1)),
                change_to_first: change(0),
                kernels: gpu(i)
                    .kernel_times(kernel_passes(duration))
                    .map_err(measuring)?,
            };
            Ok(rung(name, self.resources(i), None, Some(measured)))
        };
        rungs.into_iter().enumerate().map(of).collect()
    }

    /// Returns true if the rungs were compiled for this sample.
    pub fn is_compiled(&self) -> bool {
        self.tables.boards().version == BankVersion::V5 && self.layout() == Layout::Allen
    }

    /// Registers and occupancy of a rung, if it was compiled.
    fn resources(&self, i: usize) -> Vec<KernelResources> {
        if !self.is_compiled() {
            return Vec::new();
        }
        let filled = self.chip.filled(&rung_variant(i), self.launch, self.tables);
        let of = |Filled {
                      kernel,
                      threads,
                      registers,
                      shared,
                      occupancy,
                  }: Filled| KernelResources {
            kernel: kernel.name().to_owned(),
            threads,
            registers,
            shared,
            occupancy: occupancy.share,
            limit: occupancy.limit.name().to_owned(),
        };
        filled.into_iter().map(of).collect()
    }
}

fn rung(
    name: &str,
    resources: Vec<KernelResources>,
    work: Option<CountedWork>,
    measured: Option<MeasuredRate>,
) -> Rung {
    let published = published(name);
    Rung {
        rung: name.to_owned(),
        work,
        measured,
        resources,
        published_events_per_second: published.map(|(rate, _)| rate),
        published_change_percent: published.and_then(|(_, change)| change),
    }
}

/// Variant of [`Unit::LADDER`](ut_decoders::ptx::Unit::LADDER) for rung `i`.
pub fn rung_variant(i: usize) -> String {
    format!("v5_allen__rung{i}")
}

/// Summarises the work of a rung; `plain`: the same with an atomic for each lane.
fn counted(work: &Work, plain: &Work, before: Option<&CountedWork>) -> CountedWork {
    let per_event: Vec<(String, f64)> = METRICS
        .iter()
        .map(|metric| (metric.name.to_owned(), work.per_event(metric)))
        .collect();
    let change_percent = before.map_or_else(Vec::new, |before| {
        let change = |((name, after), (_, before)): (&(String, f64), &(String, f64))| {
            (
                name.clone(),
                Some(percent(*before, *after)).filter(|change| change.is_finite()),
            )
        };
        per_event
            .iter()
            .zip(&before.per_event)
            .map(change)
            .collect()
    });
    let atomics = |work: &Work| (work.total.shared_atomics + work.total.global_atomics) as f64;
    let ratio = |over: f64, under: f64| if under == 0.0 { 0.0 } else { over / under };
    let kernel = |(name, stats): &(&str, _)| {
        let counts = METRICS
            .iter()
            .map(|metric| (metric.name.to_owned(), work.of_event((metric.of)(stats))));
        ((*name).to_owned(), counts.collect())
    };
    CountedWork {
        per_event,
        change_percent,
        idle_share: work.total.idle_share(),
        lanes_per_collective: ratio(
            work.total.collective_lanes as f64,
            work.total.collectives as f64,
        ),
        lanes_per_atomic: ratio(atomics(plain), atomics(work)),
        traffic: work.traffic(),
        distinct_traffic: work.distinct_traffic(),
        kernels: work.kernels.iter().map(kernel).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rung_has_its_published_step_in_order() {
        let rungs = Switches::ladder(BankVersion::V5, Layout::Allen);
        let steps: Vec<&str> = PUBLISHED.iter().filter_map(|step| step.rung).collect();
        assert_eq!(steps, rungs.map(|(name, _)| name));
        assert_eq!(published("board-table"), Some((184_450, None)));
        let (rate, change) = published("opportunistic").unwrap();
        assert_eq!(rate, 195_834);
        assert!((change.unwrap() - 2.3787).abs() < 1e-3, "{change:?}");
        assert_eq!(published("wings"), None);
    }

    #[test]
    fn a_change_from_nothing_is_not_a_number() {
        assert_eq!(percent(0.0, 0.0), 0.0);
        assert!(percent(0.0, 1.0).is_infinite());
        assert_eq!(percent(2.0, 1.0), -50.0);
    }
}
