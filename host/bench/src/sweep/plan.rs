//! The points of a sweep: every combination of the axes' values, without those that cannot run.

use serde::Serialize;

use super::axis::Axis;
use ut_decoders::{Backend, Parameters};

/// Maximum number of points of a sweep, including skipped ones. At a tenth of a second for each
/// visit, without warming up, a round over so large a sweep takes almost three hours.
const MAX_POINTS: usize = 100_000;

/// Maximum size in bytes of the batches of a point; each thread has one. Batches of 4096 events
/// with 22 kB each on 64 threads would have 5.8 GB, and are left out.
const MAX_BYTES: f64 = 4e9;

/// Combination that is not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Value of each axis, in their order.
    pub values: Vec<u32>,
    /// Reason that the combination cannot run.
    pub reason: String,
}

/// Point that is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Value of each axis, in their order.
    pub values: Vec<u32>,
    /// All parameters of the point.
    pub parameters: Parameters,
}

/// Points of a sweep.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Axes of the sweep, with their values.
    pub axes: Vec<Axis>,
    /// Points to run, in the order of the axes, the last axis fastest; the default is among them,
    /// last if no axis has it.
    pub points: Vec<Point>,
    /// Combinations that cannot run, with the reasons.
    pub skipped: Vec<Skipped>,
    /// Index of the default among the points.
    pub default: usize,
}

impl Plan {
    /// Plans `axes` and the default; `base` has the values of the other parameters. The error is a
    /// message.
    pub fn new(
        axes: Vec<Axis>,
        base: &Parameters,
        backend: Backend,
        bytes_per_event: f64,
    ) -> Result<Self, String> {
        let combinations = axes.iter().try_fold(1usize, |product, axis| {
            product.checked_mul(axis.values.len())
        });
        if combinations.is_none_or(|combinations| combinations > MAX_POINTS) {
            return Err(format!(
                "the axes have more than {MAX_POINTS} combinations: take fewer values"
            ));
        }
        if let Some(reason) = refuse(base, backend, bytes_per_event) {
            return Err(format!("the default itself cannot run: {reason}"));
        }
        let mut combinations: Vec<Vec<u32>> = vec![Vec::new()];
        for axis in &axes {
            let with = |begin: &Vec<u32>| {
                axis.values
                    .iter()
                    .map(|&value| [&begin[..], &[value]].concat())
                    .collect()
            };
            combinations = combinations
                .iter()
                .flat_map(|begin| -> Vec<Vec<u32>> { with(begin) })
                .collect();
        }
        let (mut points, mut skipped) = (Vec::new(), Vec::new());
        for values in combinations {
            let mut parameters = *base;
            let set = |(axis, &value): (&Axis, &u32)| parameters.put_value(axis.parameter, value);
            let refused = axes.iter().zip(&values).try_for_each(set).err();
            let refused = refused.map(|error| error.to_string());
            match refused.or_else(|| refuse(&parameters, backend, bytes_per_event)) {
                Some(reason) => skipped.push(Skipped { values, reason }),
                None => points.push(Point { values, parameters }),
            }
        }
        if let (true, Some(first)) = (points.is_empty(), skipped.first()) {
            return Err(format!(
                "every combination of the axes is skipped; the first because {}",
                first.reason
            ));
        }
        let values: Vec<u32> = axes
            .iter()
            .map(|axis| base.get(axis.parameter.name))
            .collect();
        let default = points
            .iter()
            .position(|point| point.values == values)
            .unwrap_or_else(|| {
                points.push(Point {
                    values,
                    parameters: *base,
                });
                points.len() - 1
            });
        Ok(Self {
            axes,
            points,
            skipped,
            default,
        })
    }
}

/// Returns the reason why a point cannot run; `None` if it can.
fn refuse(parameters: &Parameters, backend: Backend, bytes_per_event: f64) -> Option<String> {
    if let Err(error) = parameters.validate() {
        return Some(error.to_string());
    }
    let bytes =
        f64::from(parameters.batch()) * bytes_per_event * parameters.decoders(backend) as f64;
    if bytes > MAX_BYTES {
        let (gigabytes, most) = (bytes * 1e-9, MAX_BYTES * 1e-9);
        return Some(format!(
            "its batches take {gigabytes:.1} GB of memory, above the limit of {most:.1} GB"
        ));
    }
    let simd = parameters.simd();
    let lacks = backend == Backend::Cpu && simd.resolve().is_none();
    lacks.then(|| format!("this CPU has no {} instructions", simd.name()))
}

#[cfg(test)]
mod tests {
    use super::super::axis::parse_all;
    use super::*;
    use ut_data::Layout;

    fn plan(backend: Backend, axes: &[&str]) -> Result<Plan, String> {
        let base = Parameters::default().with_batches(1000, Layout::Allen);
        Plan::new(parse_all(backend, axes).unwrap(), &base, backend, 1e4)
    }

    fn values(plan: &Plan) -> Vec<&[u32]> {
        plan.points
            .iter()
            .map(|point| point.values.as_slice())
            .collect()
    }

    #[test]
    fn every_combination_is_a_point_and_the_last_axis_varies_fastest() {
        let plan = plan(Backend::Emulated, &["count.bins=8,16", "batch=10,1000"]).unwrap();
        assert_eq!(values(&plan), [[8, 10], [8, 1000], [16, 10], [16, 1000]]);
        assert_eq!((plan.default, &plan.skipped[..]), (3, &[][..]));
        assert_eq!(
            (
                plan.points[1].parameters.count_bins(),
                plan.points[2].parameters.batch()
            ),
            (8, 10)
        );
    }

    #[test]
    fn impossible_points_are_skipped_with_a_reason_and_the_default_always_runs() {
        let plan = plan(
            Backend::Emulated,
            &["cluster.block_x=16,32,2048", "cluster.block_y=1,8"],
        )
        .unwrap();
        assert_eq!(values(&plan), [&[16, 8][..], &[32, 1], &[32, 8], &[32, 4]]);
        assert_eq!(plan.default, 3);
        let reasons: Vec<&str> = plan
            .skipped
            .iter()
            .map(|skipped| skipped.reason.as_str())
            .collect();
        assert!(
            reasons.len() == 3
                && reasons[0].contains("16 x 1 threads")
                && reasons[1].contains("2048"),
            "{reasons:?}"
        );
    }

    #[test]
    fn batches_that_would_not_fit_into_memory_are_skipped() {
        let plan = plan(Backend::Cpu, &["batch=1000,1000001", "threads=1,1000"]).unwrap();
        assert_eq!(values(&plan), [[1000, 1]]);
        assert!(
            plan.skipped[0].reason.contains("10.0 GB"),
            "{:?}",
            plan.skipped
        );
    }

    #[test]
    fn a_plan_with_no_point_or_too_many_is_an_error() {
        for (axes, part) in [
            (
                &["batch=1:1000:1", "count.block_x=1:1000:1"][..],
                "more than 100000 combinations",
            ),
            (
                &["count.block_x=33"],
                "every combination of the axes is skipped",
            ),
        ] {
            assert!(
                plan(Backend::Emulated, axes).unwrap_err().contains(part),
                "{part}"
            );
        }
    }
}
