//! The points of a sweep: every combination of the axes' values, without those that cannot run.

use serde::{Deserialize, Serialize};

use super::axis::Axis;
use crate::chip::{Chip, Filled};
use tuner::{Config, Space, SpaceBuilder, SpaceError, Value};
use ut_data::detector::DetectorTables;
use ut_decoders::ptx::Unit;
use ut_decoders::{Backend, Parameters, Pipeline};

/// Most points of a sweep, including skipped ones.
pub const MAX_POINTS: usize = 100_000;

/// Limits of the points beside the parameters' own ranges.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Limits<'a> {
    pub backend: Backend,
    /// Tables of the detector, whose boards and groups decide the shared memory.
    pub tables: &'a DetectorTables,
    /// Multiprocessor whose registers and shared memory the blocks must fit; only for device kernels.
    pub chip: &'a Chip,
    /// Mean bytes of an event.
    pub bytes_per_event: f64,
    /// Most bytes of a batch; each thread has one.
    pub max_bytes: f64,
}

impl Limits<'_> {
    /// Returns the reason why a point cannot run; `None` if it can.
    pub fn refuse(&self, parameters: &Parameters) -> Option<String> {
        if let Err(error) = parameters.validate() {
            return Some(error.to_string());
        }
        let bytes = f64::from(parameters.batch()) * self.bytes_per_event * parameters.decoders(self.backend) as f64;
        if bytes > self.max_bytes {
            let (gigabytes, most) = (bytes * 1e-9, self.max_bytes * 1e-9);
            return Some(format!("its batches take {gigabytes:.1} GB of memory, above the limit of {most:.1} GB"));
        }
        match self.backend {
            Backend::Reference => None,
            Backend::Cpu => {
                let simd = parameters.simd();
                simd.resolve().is_none().then(|| format!("this CPU has no {} instructions", simd.name()))
            }
            Backend::Emulated | Backend::Cuda => self.refuse_launch(parameters),
        }
    }

    /// Compares each kernel's block and resources with those of a multiprocessor.
    fn refuse_launch(&self, parameters: &Parameters) -> Option<String> {
        let layout = parameters.layout();
        let unit = match parameters.pipeline() {
            Pipeline::Fused => Unit::fused(self.tables.boards().version, layout),
            Pipeline::Allen => Unit::production(self.tables.boards().version, layout),
        };
        let filled = self.chip.filled(unit.name, *parameters, self.tables);
        let refused = filled.into_iter().find(|of| of.occupancy.blocks == 0)?;
        let Filled { kernel, threads, registers, shared, occupancy } = refused;
        Some(format!(
            "{}: a block of {threads} threads with {registers} registers and {shared} bytes of shared memory does not fit \
             on {} ({})",
            kernel.name(),
            self.chip.name,
            occupancy.limit.name()
        ))
    }
}

/// A combination that is not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Skipped {
    pub values: Vec<u32>,
    pub reason: String,
}

/// A point that is run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Point {
    pub values: Vec<u32>,
    pub parameters: Parameters,
    /// True if it combines values of the axes; the default also runs if it does not.
    pub on_grid: bool,
}

/// Points of a sweep.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Plan {
    pub axes: Vec<Axis>,
    /// Points to run, in the order of the axes, the last axis fastest.
    pub points: Vec<Point>,
    pub skipped: Vec<Skipped>,
    /// Index of the default among the points.
    pub default: usize,
    /// The points as the tuner's space.
    pub space: Space,
    /// Index of the point of each configuration of the space.
    pub places: Vec<usize>,
}

/// Reason why there is no plan.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum PlanError {
    #[error("a sweep needs an axis")]
    NoAxis,
    #[error("the axes have {0} combinations, more than {MAX_POINTS}: take fewer values")]
    TooMany(usize),
    #[error("the default itself cannot run: {0}")]
    Default(String),
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error("every combination of the axes is skipped; the first because {0}")]
    AllSkipped(String),
}

impl Plan {
    /// Plans `axes` and the default; `base` has the values of the other parameters.
    pub fn new(axes: Vec<Axis>, base: &Parameters, limits: &Limits<'_>) -> Result<Self, PlanError> {
        let combinations =
            axes.iter().try_fold(1usize, |product, axis| product.checked_mul(axis.values.len())).unwrap_or(usize::MAX);
        if axes.is_empty() {
            return Err(PlanError::NoAxis);
        }
        if combinations > MAX_POINTS {
            return Err(PlanError::TooMany(combinations));
        }
        if let Some(reason) = limits.refuse(base) {
            return Err(PlanError::Default(reason));
        }
        let (mut points, mut skipped) = (Vec::new(), Vec::new());
        let ints = |axis: &Axis| axis.values.iter().map(|&value| i64::from(value)).collect::<Vec<_>>();
        let space = axes.iter().fold(SpaceBuilder::new(), |space, axis| space.ints(&axis.name, ints(axis))).build()?;
        for index in 0..space.len() {
            let values = values_of(&space.config(index));
            let mut parameters = *base;
            let set =
                |(axis, &value): (&Axis, &u32)| parameters.put_value(limits.backend.parameter(&axis.name)?, value);
            let refused = axes.iter().zip(&values).try_for_each(set).err();
            match refused.map(|error| error.to_string()).or_else(|| limits.refuse(&parameters)) {
                Some(reason) => skipped.push(Skipped { values, reason }),
                None => points.push(Point { values, parameters, on_grid: true }),
            }
        }
        if points.is_empty() {
            return Err(PlanError::AllSkipped(skipped.first().map_or_else(String::new, |first| first.reason.clone())));
        }
        let values: Vec<u32> = axes.iter().map(|axis| base.get(&axis.name)).collect();
        let default = points.iter().position(|point| point.values == values).unwrap_or_else(|| {
            points.push(Point { values, parameters: *base, on_grid: false });
            points.len() - 1
        });
        let names: Vec<String> = axes.iter().map(|axis| axis.name.clone()).collect();
        let rows: Vec<Vec<Value>> = points.iter().map(|point| config_of(&point.values).0).collect();
        let (space, indices) = Space::recorded(&names, &rows)?;
        let mut places = vec![0; points.len()];
        for (place, index) in indices.into_iter().enumerate() {
            places[index] = place;
        }
        Ok(Self { axes, points, skipped, default, space, places })
    }

    /// Finds the point of a configuration of the space.
    pub fn point_of(&self, config: &Config) -> Option<&Point> {
        Some(&self.points[self.places[self.space.index_of(config)?]])
    }
}

/// Makes a configuration of the axes' values.
pub fn config_of(values: &[u32]) -> Config {
    Config(values.iter().map(|&value| Value::Int(i64::from(value))).collect())
}

fn values_of(config: &Config) -> Vec<u32> {
    let value = |value: &Value| if let Value::Int(value) = value { *value as u32 } else { 0 };
    config.0.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::super::axis::parse_all;
    use super::*;
    use ut_data::detector::BankVersion;
    use ut_data::{Grouping, Layout};
    use ut_decoders::occupancy::Architecture;

    fn plan(backend: Backend, axes: &[&str]) -> Result<Plan, PlanError> {
        let tables = DetectorTables::synthetic(BankVersion::V5, Grouping::default());
        let limits = Limits {
            backend,
            tables: &tables,
            chip: &Chip::of(Architecture::named("sm_86").unwrap()),
            bytes_per_event: 1e4,
            max_bytes: 1e9,
        };
        let base = Parameters::default().with_batches(1000, Layout::Allen);
        Plan::new(parse_all(backend, axes).unwrap(), &base, &limits)
    }

    fn values(plan: &Plan) -> Vec<&[u32]> {
        plan.points.iter().map(|point| point.values.as_slice()).collect()
    }

    #[test]
    fn every_combination_is_a_point_and_the_last_axis_is_the_fastest() {
        let plan = plan(Backend::Emulated, &["count.bins=8,16", "batch=10,1000"]).unwrap();
        assert_eq!(values(&plan), [[8, 10], [8, 1000], [16, 10], [16, 1000]]);
        assert_eq!(plan.default, 3);
        assert_eq!(plan.points[1].parameters.count_bins(), 8);
        assert_eq!(plan.points[2].parameters.batch(), 10);
        assert_eq!(plan.skipped, []);
    }

    #[test]
    fn the_default_is_run_even_when_no_axis_has_it() {
        let plan = plan(Backend::Emulated, &["count.block_x=32,64"]).unwrap();
        assert_eq!(values(&plan), [[32], [64], [128]]);
        assert_eq!((plan.default, plan.points[2].on_grid, plan.points[0].on_grid), (2, false, true));
    }

    #[test]
    fn what_cannot_run_is_skipped_with_the_reason() {
        let plan = plan(Backend::Emulated, &["cluster.block_x=16,32,256,2048", "cluster.block_y=1,8"]).unwrap();
        assert_eq!(values(&plan), [&[16, 8][..], &[32, 1], &[32, 8], &[256, 1], &[32, 4]]);
        let reasons: Vec<(&[u32], &str)> =
            plan.skipped.iter().map(|s| (s.values.as_slice(), s.reason.as_str())).collect();
        let block = |x, y| {
            format!(
                "a block of {x} x {y} threads (cluster.block_x, cluster.block_y) must be a multiple of 32 and at most 1024"
            )
        };
        assert_eq!(reasons[0], (&[16, 1][..], block(16, 1).as_str()));
        assert_eq!(reasons[1], (&[256, 8][..], block(256, 8).as_str()));
        assert!(reasons[2].1.contains("2048") && reasons[2].1.contains("1024"), "{reasons:?}");
        assert_eq!(reasons.len(), 4);
    }

    #[test]
    fn launches_are_held_against_the_chip_that_is_given() {
        let tables = DetectorTables::synthetic(BankVersion::V5, Grouping::default());
        let plan = |warps: u32, axis: &str| {
            let mut chip = Chip::of(Architecture::named("sm_90").unwrap());
            (chip.name, chip.architecture.warps) = ("Small GPU".to_owned(), warps);
            let limits =
                Limits { backend: Backend::Cuda, tables: &tables, chip: &chip, bytes_per_event: 1e4, max_bytes: 1e9 };
            Plan::new(parse_all(Backend::Cuda, &[axis]).unwrap(), &Parameters::default(), &limits)
        };
        let PlanError::Default(reason) = plan(4, "count.block_x=32").unwrap_err() else { panic!("256 threads fit") };
        assert!(reason.contains("does not fit on Small GPU (warps)"), "{reason}");
        let found = plan(8, "count.block_x=64,256,512").unwrap();
        assert_eq!(values(&found), [[64], [256], [128]]);
        assert!(found.skipped[0].reason.contains("count_hits: a block of 512 threads"), "{:?}", found.skipped);
        assert_eq!(values(&plan(16, "count.block_x=64,256,512").unwrap()), [[64], [256], [512], [128]]);
    }

    #[test]
    fn batches_that_would_not_fit_into_memory_are_skipped() {
        let plan = plan(Backend::Cpu, &["batch=1000,100001", "threads=1,1000"]).unwrap();
        assert_eq!(values(&plan), [[1000, 1]]);
        assert!(plan.skipped[0].reason.contains("10.0 GB"), "{:?}", plan.skipped);
    }

    #[test]
    fn a_plan_without_points_or_with_too_many_is_none() {
        assert!(matches!(plan(Backend::Emulated, &[]), Err(PlanError::NoAxis)));
        let many = plan(Backend::Emulated, &["batch=1:1000", "count.block_x=1:1000"]);
        assert!(matches!(many, Err(PlanError::TooMany(1_000_000))));
        assert!(matches!(plan(Backend::Emulated, &["count.block_x=33"]), Err(PlanError::AllSkipped(_))));
    }
}
