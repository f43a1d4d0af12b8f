//! Measures every combination of the values of some parameters, in rounds.
//!
//! Each round visits every point, in an order that is drawn for that round. Slow changes of the
//! machine affect all points of a round alike, so that a round is a block of any comparison.
//!
//! A visit makes a new decoder, warms it up, and times one repetition. The first hits and reports
//! of a point are compared with the reference's; a point with other bits is excluded and named. The
//! `emulated` backend counts the work in place of time, once, since counts do not vary.
//!
//! The modules follow the way of a sweep: `axis` reads the values from the command line, `plan`
//! combines them and leaves out points that cannot run, this module visits the points, `report`
//! compares them with the default, and `page` draws them.

pub mod axis;
mod page;
pub mod plan;
pub mod report;

use chacha20::ChaCha8Rng;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;

use self::plan::{Plan, Point};
use super::decoding::{expected, laid_out, variant};
use super::modes::Mode;
use super::sample::Expected;
use super::timing::REPETITION;
use super::work::{METRICS, Work};
use ut_data::detector::DetectorTables;
use ut_data::error::with_causes;
use ut_data::input::{EventBatch, Layout};
use ut_decoders::emulated::EmulatedConfig;
use ut_decoders::{Backend, DecodeError, DecodeOptions};

/// Result of a visit: events per second, or on the emulated backend the counts of [`METRICS`]. The
/// error is the reason that there is none.
pub type Outcome = Result<Vec<f64>, String>;

/// Sweep: the points to measure, and how.
pub struct Sweep<'a> {
    /// Backend to measure.
    pub backend: Backend,
    /// Tables of the detector.
    pub tables: &'a DetectorTables,
    /// Clustering options.
    pub options: DecodeOptions,
    /// Points to measure.
    pub plan: &'a Plan,
    /// Number of rounds. Counted work needs one.
    pub rounds: usize,
    /// Seed of the orders.
    pub seed: u64,
    /// Events that are decoded again and again.
    pub events: &'a [EventBatch],
    /// Number of events in a pass, repeated if there are fewer. If a full batch has more, it is the
    /// pass, except for counted work.
    pub wanted: usize,
    /// Measurement mode on a GPU.
    pub mode: Mode,
}

impl Sweep<'_> {
    /// Returns the number of visits.
    pub fn visits(&self) -> usize {
        self.plan.points.len() * self.rounds
    }

    /// Visits all points. After each visit, calls `after` with the number of
    /// [`visits`](Self::visits) that are done, and with the outcomes of each point so far, round by
    /// round. A point that fails is not visited again.
    ///
    /// # Errors
    /// If the reference, the default point or `after` fails. The failure of another point is an
    /// outcome.
    pub fn run<E: From<String>>(
        &self,
        mut after: impl FnMut(usize, &[Vec<Outcome>]) -> Result<(), E>,
    ) -> Result<Vec<Vec<Outcome>>, E> {
        let points = &self.plan.points;
        let mut references: Vec<(Layout, Expected)> = Vec::new();
        for layout in points.iter().map(|point| point.parameters.layout()) {
            if references.iter().all(|(other, _)| *other != layout) {
                references.push((
                    layout,
                    expected(self.events, layout, self.tables, self.options)?,
                ));
            }
        }
        let visit = |point: &Point, check: bool| {
            let expected = references
                .iter()
                .find(|(layout, _)| *layout == point.parameters.layout());
            self.visit(point, expected.map(|(_, expected)| expected), check)
        };
        // Nothing can be compared with a default that fails. This visit is a test and does not
        // count.
        visit(&points[self.plan.default], true)
            .map_err(|error| format!("the default fails: {error}"))?;
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); points.len()];
        let mut order: Vec<usize> = (0..points.len()).collect();
        for round in 0..self.rounds {
            order.shuffle(&mut random);
            for (visited, &place) in order.iter().enumerate() {
                if outcomes[place].last().is_none_or(Result::is_ok) {
                    outcomes[place].push(visit(&points[place], round == 0));
                }
                after(round * points.len() + visited + 1, &outcomes)?;
            }
        }
        Ok(outcomes)
    }

    /// Measures a point once; compares its hits with the expected ones if `check`, and always where
    /// work is counted.
    fn visit(&self, point: &Point, expected: Option<&Expected>, check: bool) -> Outcome {
        let parameters = &point.parameters;
        let words = |error: DecodeError| with_causes(&error);
        let other = |difference| format!("its hits differ from the reference: {difference}");
        let is_counted = self.backend == Backend::Emulated;
        let wanted = if is_counted {
            self.wanted
        } else {
            self.wanted.max(parameters.batch() as usize)
        };
        let sample = laid_out(parameters, self.events, wanted)?;
        let of = (self.tables, self.options);
        if let (true, Some(expected)) = (is_counted, expected) {
            let config = EmulatedConfig::of(parameters);
            let work = Work::count(&sample, of.0, of.1, config, expected)
                .map_err(words)?
                .map_err(other)?;
            return Ok(METRICS
                .iter()
                .map(|metric| work.per_event(metric))
                .collect());
        }
        let expected = expected.filter(|_| check);
        let variant = variant(self.backend, self.mode, parameters, &sample, of, expected);
        let variant = variant.map_err(words)?.map_err(other)?.warmed(REPETITION);
        Ok(vec![
            variant
                .and_then(|mut variant| variant.repetition())
                .map_err(words)?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Sample, synthetic};
    use super::axis::parse_all;
    use super::*;
    use ut_data::Grouping;
    use ut_data::detector::BankVersion;
    use ut_data::synth::Profile;
    use ut_decoders::Parameters;

    fn with_sweep(backend: Backend, axes: &[&str], rounds: usize, test: impl Fn(&Sweep<'_>)) {
        let tables = ut_data::synth::tables(BankVersion::V5, Grouping::default());
        let base = Parameters::default().with_batches(3, Layout::Allen);
        let plan = Plan::new(parse_all(backend, axes).unwrap(), &base, backend, 1e4).unwrap();
        test(&Sweep {
            backend,
            tables: &tables,
            options: DecodeOptions::default(),
            plan: &plan,
            rounds,
            seed: 7,
            events: &[synthetic(Profile::PpLow, 3)],
            wanted: 3,
            mode: Mode::DeviceResident,
        });
    }

    #[test]
    fn each_point_is_visited_once_per_round_and_counts_never_vary() {
        with_sweep(
            Backend::Emulated,
            &["count.block_x=32,64,96,128", "batch=1,3"],
            3,
            |sweep| {
                let all = || {
                    let mut visits = Vec::new();
                    let outcomes = sweep.run(|visited, _| -> Result<(), String> {
                        visits.push(visited);
                        Ok(())
                    });
                    assert!(visits.into_iter().eq(1..=sweep.visits()));
                    outcomes.unwrap()
                };
                let outcomes = all();
                assert_eq!(outcomes.len(), 8);
                assert!(
                    outcomes
                        .iter()
                        .all(|rounds| rounds.len() == 3 && rounds[0] == rounds[2]),
                    "{outcomes:?}"
                );
                assert_eq!(outcomes[0][0].as_ref().map(Vec::len), Ok(METRICS.len()));
                assert_eq!(all(), outcomes);
            },
        );
    }

    #[test]
    fn results_of_an_unexpected_sample_are_an_error() {
        with_sweep(Backend::Cpu, &["batch=3"], 1, |sweep| {
            let mut other = Sample::of(sweep.events, 3, 3);
            other.batches[0].raw.fill(0xFF);
            let expected = Expected::of(&other, sweep.tables, sweep.options).unwrap();
            for check in [true, false] {
                let outcome = sweep.visit(&sweep.plan.points[0], Some(&expected), check);
                let wrong = matches!(&outcome, Err(error) if error.starts_with("its hits differ"));
                assert_eq!(wrong, check, "{outcome:?}");
            }
        });
    }
}
