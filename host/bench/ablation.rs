//! The ladder of Allen merge request !1663: what each optimisation is worth, each on top of the one before.
//!
//! Beyond its last step, four more lead to the kernel that does everything in one launch. On a GPU the rungs of the
//! merge request are timed in interleaved rounds. Without one the executor counts their work; the figures of the
//! merge request stand beside it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use ut_kernels::switches::{BatchLayout, Switches};

use super::contest::{Variant, measure};
use super::sample::{Expected, Sample};
use super::work::{METRICS, Work};
use super::{Change, Spread};
use crate::backend::emulated::EmulatedConfig;
use crate::backend::launch::LaunchParams;
use crate::backend::ptx::{Kernel, Resources, Unit};
use crate::backend::{DecodeError, DecodeOptions, Decoder, Pipeline};
use crate::detector::{BankVersion, DetectorTables};
use crate::input::Layout;

/// A step of the merge request's table (spec section 5): events a second of Allen's sequence
/// `trackmatching_veloscifi_and_utdecoding` on an RTX A5000, of which the decoding is a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Published {
    /// What was added.
    pub step: &'static str,
    /// Our rung that ends there; `None`: before the ladder begins.
    pub rung: Option<&'static str>,
    /// Events a second.
    pub events_per_second: u32,
}

/// The merge request's table, each step on top of the one before.
pub const PUBLISHED: [Published; 9] = [
    Published { step: "2024-patches", rung: None, events_per_second: 172_169 },
    Published { step: "+ !1509", rung: None, events_per_second: 188_003 },
    Published { step: "+ !1444 (clustering)", rung: Some("board-table"), events_per_second: 184_450 },
    Published {
        step: "board table replaced by a map from sourceID to geometry",
        rung: Some("flat-map"),
        events_per_second: 187_189,
    },
    Published { step: "zero suppression", rung: Some("zero-suppression"), events_per_second: 188_366 },
    Published { step: "warp atomics", rung: Some("warp-atomics"), events_per_second: 188_801 },
    Published { step: "binned by size", rung: Some("binned"), events_per_second: 190_724 },
    Published {
        step: "16-bit clustering registers, no layer loop",
        rung: Some("narrow-sums"),
        events_per_second: 191_284,
    },
    Published { step: "opportunistic looping", rung: Some("opportunistic"), events_per_second: 195_834 },
];

/// The published rate at a rung of ours, and its change to the rung before in %.
pub fn published(rung: &str) -> Option<(u32, Option<f64>)> {
    let place = PUBLISHED.iter().position(|step| step.rung == Some(rung))?;
    let rate = PUBLISHED[place].events_per_second;
    // The first rung stands on nothing of ours.
    let before = place.checked_sub(1).map(|before| PUBLISHED[before]).filter(|before| before.rung.is_some());
    Some((rate, before.map(|before| percent(f64::from(before.events_per_second), f64::from(rate)))))
}

fn percent(before: f64, after: f64) -> f64 {
    if before == 0.0 { if after == 0.0 { 0.0 } else { f64::INFINITY } } else { 100.0 * (after / before - 1.0) }
}

/// What a kernel of a rung uses on an architecture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelResources {
    /// The kernel.
    pub kernel: String,
    /// Threads of a block, by the launch parameters.
    pub threads: u32,
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of shared memory a block.
    pub shared: u32,
    /// Warps of a multiprocessor that are occupied, 0…1.
    pub occupancy: f32,
    /// What limits them.
    pub limit: String,
}

/// The counted work of a rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedWork {
    /// Means over the events, by name, in the order of [`METRICS`].
    pub per_event: Vec<(String, f64)>,
    /// Changes to the rung before in %, in the same order; empty for the first rung. `None` where there was nothing.
    pub change_percent: Vec<(String, Option<f64>)>,
    /// Share of lanes that sat idle while their warp accessed global memory, 0…1.
    pub idle_share: f64,
    /// Lanes that took part in a collective, in the mean.
    pub lanes_per_collective: f64,
    /// Lanes that an atomic served, in the mean: the atomics that the same rung needs when each lane has its own, over
    /// those that it needs. `None` for the one launch, which cannot do without.
    pub lanes_per_atomic: Option<f64>,
    /// Bytes that move between global memory and the multiprocessors, over the bytes in and out; without the tables that
    /// all events share.
    pub traffic: f64,
    /// `per_event` kernel by kernel.
    pub kernels: Vec<(String, Vec<(String, f64)>)>,
}

/// The measured rate of a rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRate {
    /// Events a second.
    pub events_per_second: Spread,
    /// The change to the rung before.
    pub change: Option<Change>,
    /// The change to the first rung.
    pub change_to_first: Option<Change>,
}

/// One rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// Its name.
    pub rung: String,
    /// Counted, on `emulated`.
    pub work: Option<CountedWork>,
    /// Measured, on a GPU.
    pub measured: Option<MeasuredRate>,
    /// Registers and occupancy by kernel; empty where the rung is not among the committed PTX.
    pub resources: Vec<KernelResources>,
    /// The merge request's rate on an RTX A5000, events a second of the whole sequence.
    pub published_events_per_second: Option<u32>,
    /// Its change to the step before, in %.
    pub published_change_percent: Option<f64>,
}

/// What the ladder is climbed with.
#[derive(Clone, Copy, Debug)]
pub struct Ladder<'a> {
    /// The events.
    pub sample: &'a Sample,
    /// The detector.
    pub tables: &'a DetectorTables,
    /// Clustering.
    pub options: DecodeOptions,
    /// Launch parameters of all rungs.
    pub launch: LaunchParams,
    /// Architecture of which registers and occupancy are told.
    pub arch: &'a str,
}

/// Why the ladder was not climbed.
#[derive(Debug, thiserror::Error)]
pub enum AblationError {
    /// A decoder failed.
    #[error("rung {rung}")]
    Decode {
        /// Which rung.
        rung: &'static str,
        /// Why.
        source: DecodeError,
    },
    /// A rung gives other bits.
    #[error("rung {rung} gives other bits than the reference: {difference}")]
    Wrong {
        /// Which rung.
        rung: &'static str,
        /// What differs first.
        difference: String,
    },
    /// The reference failed.
    #[error("the reference")]
    Reference(#[source] DecodeError),
    /// A backend that has rungs failed while they were measured.
    #[error("measuring")]
    Measure(#[source] DecodeError),
}

/// Makes the decoder of a rung, by its number: how a GPU backend plugs in.
pub type RungDecoder<'a> = dyn Fn(usize, Switches) -> Result<Box<dyn Decoder>, DecodeError> + 'a;

impl Ladder<'_> {
    fn layout(&self) -> BatchLayout {
        match self.sample.batches.first().map(|batch| batch.layout) {
            Some(Layout::Mep) => BatchLayout::Mep,
            _ => BatchLayout::Allen,
        }
    }

    fn rungs(&self) -> [(&'static str, Switches); 7] {
        Switches::ladder(self.tables.boards.version, self.layout())
    }

    /// The steps from the last rung of the seven launches to the one: what is kept in shared memory, and whether the
    /// hits of each event are counted by a launch before.
    fn fused_rungs(&self) -> [(&'static str, LaunchParams); 4] {
        let with = |settings: &[(&str, u32)]| {
            let mut launch = self.launch;
            for (name, value) in settings {
                // Valid: a knob's own smallest or largest value.
                let _ = launch.set(name, *value);
            }
            launch
        };
        [
            ("one-launch", with(&[("fused.tile", 0), ("fused.stage", 0), ("fused.count_first", 1)])),
            ("look-back", with(&[("fused.tile", 0), ("fused.stage", 0), ("fused.count_first", 0)])),
            ("clusters-kept", with(&[("fused.stage", 0), ("fused.count_first", 0)])),
            ("bytes-staged", with(&[("fused.count_first", 0)])),
        ]
    }

    /// How many rungs are counted.
    pub const COUNTED: usize = 11;

    fn expected(&self) -> Result<Expected, AblationError> {
        Expected::of(self.sample, self.tables, self.options).map_err(AblationError::Reference)
    }

    /// Counts the work of every rung. `tick` is told how many rungs are done.
    ///
    /// # Errors
    /// When a rung cannot be run, or gives other bits than the reference.
    pub fn count(&self, mut tick: impl FnMut(usize)) -> Result<Vec<Rung>, AblationError> {
        let expected = self.expected()?;
        let resources = Resources::committed().ok();
        let mut rungs: Vec<Rung> = Vec::new();
        for (i, (name, switches)) in self.rungs().into_iter().enumerate() {
            let config = EmulatedConfig { launch: self.launch, switches, ..EmulatedConfig::default() };
            let config = EmulatedConfig { pipeline: Pipeline::Allen, ..config };
            let work = self.work_of(name, config, &expected)?;
            let plain = if switches.warp_atomics {
                let switches = Switches { warp_atomics: false, ..switches };
                Some(self.work_of(name, EmulatedConfig { switches, ..config }, &expected)?)
            } else {
                Some(work.clone())
            };
            let before = rungs.last().and_then(|rung| rung.work.as_ref());
            let counted = counted(&work, plain.as_ref(), before);
            let resources = resources.as_ref().map(|resources| self.resources(i, resources));
            rungs.push(rung(name, resources, Some(counted), None));
            tick(rungs.len());
        }
        for (name, launch) in self.fused_rungs() {
            let config = EmulatedConfig { pipeline: Pipeline::Fused, launch, ..EmulatedConfig::default() };
            let work = self.work_of(name, config, &expected)?;
            let before = rungs.last().and_then(|rung| rung.work.as_ref());
            let counted = counted(&work, None, before);
            let resources = resources.as_ref().map(|resources| self.fused_resources(&launch, resources));
            rungs.push(rung(name, resources, Some(counted), None));
            tick(rungs.len());
        }
        Ok(rungs)
    }

    fn work_of(&self, rung: &'static str, config: EmulatedConfig, expected: &Expected) -> Result<Work, AblationError> {
        Work::count(self.sample, self.tables, self.options, config, expected)
            .map_err(|source| AblationError::Decode { rung, source })?
            .map_err(|difference| AblationError::Wrong { rung, difference })
    }

    /// Measures every rung with decoders that `decoder` makes, interleaved, for `duration` altogether.
    ///
    /// # Errors
    /// When a rung cannot be run, or gives other bits than the reference.
    pub fn measure(
        &self,
        decoder: &RungDecoder<'_>,
        duration: Duration,
        tick: impl FnMut(Duration),
    ) -> Result<Vec<Rung>, AblationError> {
        let expected = self.expected()?;
        let resources = Resources::committed().ok();
        let mut variants = Vec::new();
        for (i, (rung, switches)) in self.rungs().into_iter().enumerate() {
            let make = || decoder(i, switches);
            let variant = Variant::checked(self.sample, self.tables, 1, make, Some(&expected))
                .map_err(|source| AblationError::Decode { rung, source })?
                .map_err(|difference| AblationError::Wrong { rung, difference })?;
            variants.push(variant);
        }
        let rates = measure(&mut variants, duration, tick).map_err(AblationError::Measure)?;
        let of = |(i, (name, _)): (usize, (&'static str, Switches))| {
            let change = |before: usize| Change::between(&rates[before], &rates[i]).filter(|_| i > 0);
            let measured = MeasuredRate {
                events_per_second: Spread::of(&rates[i]),
                change: change(i.saturating_sub(1)),
                change_to_first: change(0),
            };
            rung(name, resources.as_ref().map(|resources| self.resources(i, resources)), None, Some(measured))
        };
        Ok(self.rungs().into_iter().enumerate().map(of).collect())
    }

    /// Registers and occupancy of a rung; only v5 in Allen layout was compiled rung by rung.
    fn resources(&self, i: usize, resources: &Resources) -> Vec<KernelResources> {
        let version = self.tables.boards.version;
        if version != BankVersion::V5 || self.layout() != BatchLayout::Allen {
            return Vec::new();
        }
        let variant = format!("v5_allen__rung{i}");
        Kernel::ALLEN.into_iter().filter_map(|kernel| self.use_of(kernel, &variant, &self.launch, resources)).collect()
    }

    /// Registers and occupancy of a rung of the one launch.
    fn fused_resources(&self, launch: &LaunchParams, resources: &Resources) -> Vec<KernelResources> {
        let unit = Unit::fused(self.tables.boards.version, self.layout());
        let kernels = if launch.fused_count_first() { &Kernel::FUSED[..] } else { &[Kernel::Fused] };
        kernels.iter().filter_map(|&kernel| self.use_of(kernel, unit.name, launch, resources)).collect()
    }

    fn use_of(
        &self,
        kernel: Kernel,
        variant: &str,
        launch: &LaunchParams,
        resources: &Resources,
    ) -> Option<KernelResources> {
        let (n_boards, n_groups) = (self.tables.boards.n_boards() as u32, self.tables.n_groups as u32);
        let usage = resources.of(kernel, variant, self.arch)?;
        let threads = threads(kernel, launch);
        let shared = kernel.shared_bytes(self.tables.boards.version, n_boards, n_groups, launch.fused_room());
        let occupancy = usage.occupancy(threads, shared)?;
        Some(KernelResources {
            kernel: kernel.name().to_owned(),
            threads,
            registers: usage.registers,
            shared: usage.shared + shared,
            occupancy: occupancy.share,
            limit: occupancy.limit.name().to_owned(),
        })
    }
}

fn rung(
    name: &str,
    resources: Option<Vec<KernelResources>>,
    work: Option<CountedWork>,
    measured: Option<MeasuredRate>,
) -> Rung {
    let published = published(name);
    Rung {
        rung: name.to_owned(),
        work,
        measured,
        resources: resources.unwrap_or_default(),
        published_events_per_second: published.map(|(rate, _)| rate),
        published_change_percent: published.and_then(|(_, change)| change),
    }
}

/// Threads of a kernel's block.
pub const fn threads(kernel: Kernel, launch: &LaunchParams) -> u32 {
    match kernel {
        Kernel::CountHits => launch.count_block_x(),
        Kernel::PrefixSumTiles | Kernel::PrefixSumOffsets => launch.scan_block_x(),
        Kernel::ClusterAndPredecode => {
            let (x, y) = launch.cluster_block();
            x * y
        }
        Kernel::CompressAndMakeKeys => launch.compress_block_x(),
        Kernel::FindPermutation => launch.sort_block_x(),
        Kernel::DecodeInOrder => launch.decode_block_x(),
        Kernel::CountClusters | Kernel::Fused => launch.fused_block_x(),
    }
}

/// `plain`: the same work with an atomic for each lane; `None` where there is no such thing.
fn counted(work: &Work, plain: Option<&Work>, before: Option<&CountedWork>) -> CountedWork {
    let per_event: Vec<(String, f64)> =
        METRICS.iter().map(|metric| (metric.name.to_owned(), work.per_event(metric))).collect();
    let change_percent = before.map_or_else(Vec::new, |before| {
        let change = |((name, after), (_, before)): (&(String, f64), &(String, f64))| {
            (name.clone(), Some(percent(*before, *after)).filter(|change| change.is_finite()))
        };
        per_event.iter().zip(&before.per_event).map(change).collect()
    });
    let atomics = |work: &Work| (work.total.shared_atomics + work.total.global_atomics) as f64;
    let ratio = |over: f64, under: f64| if under == 0.0 { 0.0 } else { over / under };
    let kernel = |(name, stats): &(&str, _)| {
        let counts = METRICS.iter().map(|metric| (metric.name.to_owned(), work.of_event((metric.of)(stats))));
        ((*name).to_owned(), counts.collect())
    };
    CountedWork {
        per_event,
        change_percent,
        idle_share: work.total.idle_share(),
        lanes_per_collective: ratio(work.total.collective_lanes as f64, work.total.collectives as f64),
        lanes_per_atomic: plain.map(|plain| ratio(atomics(plain), atomics(work))),
        traffic: work.traffic(),
        kernels: work.kernels.iter().map(kernel).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rung_has_its_published_step_and_the_steps_are_in_its_order() {
        let rungs = Switches::ladder(BankVersion::V5, BatchLayout::Allen);
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

    #[test]
    fn rungs_that_are_measured_have_a_rate_and_a_change_to_the_rung_before() {
        let (boards, geometry) = crate::synth::detector(BankVersion::V5, 1);
        let tables = DetectorTables::new(boards, geometry, crate::Grouping::YRows).unwrap();
        let mut builder = crate::input::BatchBuilder::new();
        builder.push(crate::input::EventMeta::default(), []).unwrap();
        let mut events = crate::input::EventBatch::default();
        builder.finish(&mut events);
        let ladder = Ladder {
            sample: &Sample::of(&[events], 1, 1),
            tables: &tables,
            options: DecodeOptions::default(),
            launch: LaunchParams::default(),
            arch: "sm_86",
        };
        let asked = std::cell::RefCell::new(Vec::new());
        let decoder = |i: usize, switches: Switches| {
            asked.borrow_mut().push((i, switches.opportunistic));
            crate::Backend::Cpu.decoder(&tables, DecodeOptions::default(), 1)
        };
        let rungs = ladder.measure(&decoder, Duration::ZERO, |_| ()).unwrap();
        assert_eq!(*asked.borrow(), (0..7).map(|i| (i, i == 6)).collect::<Vec<_>>());
        for (i, rung) in rungs.iter().enumerate() {
            let measured = rung.measured.as_ref().unwrap();
            assert!(measured.events_per_second.median > 0.0 && rung.work.is_none());
            assert_eq!(measured.change.is_some(), i > 0);
            assert!(measured.change.as_ref().is_none_or(|change| change.blocks == 3));
            assert_eq!(rung.resources.len(), 7);
        }
        let refuse = |_, _| Err(DecodeError::Device { backend: "cuda", message: "no GPU".to_owned() });
        let error = ladder.measure(&refuse, Duration::ZERO, |_| ()).unwrap_err();
        assert_eq!(error.to_string(), "rung board-table");
    }
}
