//! ALICE's promises about chains of kernels, and parameters for each kind of data (L1, L2, L4, L6,
//! L8).

use tempfile::TempDir;
use tuner::chain::Member;
use tuner::chain::tune::{
    AllTuning, ChainTuning, ForAll, Settings, Subject, tune_chain, tune_for_all,
};
use tuner::compare::Plan;
use tuner::store::{DeviceIdentity, Locations, Store, Task, TunableIdentity, Workload};
use tuner::verdict::{Method, Rules, Side, Verdict};
use tuner::watch::{NoWatch, Watch};
use tuner::{Config, Error, Failure, FailureKind, Outcome, SpaceBuilder, Value};

use crate::chain::{chain, ints, kernel};
use crate::made;

/// Makes a kernel whose times are a function of its parameters.
fn timed(
    name: &str,
    parameters: &[&str],
    time: impl Fn(&[i64]) -> f64 + Send + 'static,
) -> Member<'static> {
    let mut member = kernel(name, parameters, 4);
    member.device = Box::new(made(move |config: &Config, launches| {
        let int = |value: &Value| {
            if let Value::Int(number) = value {
                *number
            } else {
                panic!("{value:?}")
            }
        };
        let time = time(&config.0.iter().map(int).collect::<Vec<_>>());
        if time.is_finite() {
            return Outcome::Times(vec![time; launches]);
        }
        Outcome::Failed(Failure {
            kind: FailureKind::Launch,
            message: "too wide".to_owned(),
        })
    }));
    member
}

fn settings(for_all: Option<ForAll>) -> Settings<'static> {
    let rules = Rules {
        method: Method::Alice,
        ..Rules::default()
    };
    Settings {
        plan: Plan {
            rules,
            rounds: 2,
            ..Plan::default()
        },
        budget: "evaluations=100".parse().unwrap(),
        rounds: 3,
        for_all,
        watch: &|| Box::new(NoWatch) as Box<dyn Watch>,
    }
}

struct Bench {
    store: Store,
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            store: Store::open(&folder.path().join("tune.sqlite")).unwrap(),
            folder,
        }
    }

    fn subject(members: Vec<Member<'static>>, file: &str, load: &str) -> Subject<'static> {
        Subject {
            chain: chain(members, file).unwrap(),
            load: load.to_owned(),
            weight: 1.0,
            device: DeviceIdentity::named("made", "test"),
            tunable: TunableIdentity::new("chain", 1),
            workload: Workload::new().with("workload", load).unwrap(),
            sample: String::new(),
            space: None,
        }
    }

    fn tune(&mut self, members: Vec<Member<'static>>, file: &str) -> Result<ChainTuning, Error> {
        let mut subject = Self::subject(members, file, "");
        tune_chain(
            &mut subject,
            &mut self.store,
            &settings(None),
            &mut |_, _, _| true,
        )
    }

    /// Tunes for each of two workloads, and for both.
    fn tune_two(
        &mut self,
        time: fn(bool, &[i64]) -> f64,
        for_all: Option<ForAll>,
    ) -> (Vec<ChainTuning>, AllTuning) {
        let one = |lead: bool| vec![timed("k", &["width"], move |x| time(lead, x))];
        let mut subjects =
            [("pp", false), ("PbPb", true)].map(|(load, lead)| Self::subject(one(lead), "", load));
        let settings = settings(for_all);
        let tunings: Vec<ChainTuning> = subjects
            .iter_mut()
            .map(|subject| {
                tune_chain(subject, &mut self.store, &settings, &mut |_, _, _| true).unwrap()
            })
            .collect();
        let any = Workload::new();
        let all = tune_for_all(
            &mut subjects,
            &tunings,
            &any,
            &mut self.store,
            &settings,
            |_| (),
        )
        .unwrap();
        (tunings, all)
    }

    /// Returns what a later process finds for a workload.
    fn found(&self, load: Option<&str>) -> Option<Config> {
        let device = DeviceIdentity::named("made", "test");
        let workload = load.map_or_else(Workload::new, |load| {
            Workload::new().with("workload", load).unwrap()
        });
        let space = SpaceBuilder::new()
            .range("k.width", 1, 4, 1)
            .build()
            .unwrap();
        let task = Task {
            device: &device,
            tunable: &TunableIdentity::new("chain", 1),
            workload: &workload,
            space: &space,
        };
        let locations = Locations {
            user: self.folder.path().join("tune.sqlite"),
        };
        locations
            .find(&task)
            .unwrap()
            .into_iter()
            .next()
            .map(|found| found.config)
    }
}

// "Kernels that run alone are tuned one by one, each with a space of its own."
#[test]
fn l1_kernels_that_run_alone_are_tuned_one_by_one_each_in_its_own_space() {
    let kernels = vec![
        timed("cluster", &["block", "grid"], |x| {
            1.0 + (x[0] - 3).abs() as f64 + (x[1] - 2).abs() as f64
        }),
        timed("sort", &["width"], |x| 5.0 - x[0] as f64),
    ];
    let tuning = Bench::new().tune(kernels, "").unwrap();
    let of: Vec<_> = tuning
        .groups
        .iter()
        .map(|g| (g.group.as_str(), g.configurations, g.parameters.len()))
        .collect();
    assert_eq!(of, [("cluster", 16, 2), ("sort", 4, 1)]);
    assert_eq!(tuning.chosen, ints(&[3, 2, 4]));
}

// "Kernels that run at the same time are tuned as a group; both the kernel's and the step's time
// are shown."
#[test]
fn l2_concurrent_kernels_are_tuned_on_the_time_of_their_step_and_both_times_are_shown() {
    // Alone, the scan is fastest with 4; in the step it need only be as fast as the clusters.
    let kernels = vec![
        timed("cluster", &["width"], |x| 9.0 - x[0] as f64),
        timed("scan", &["width"], |x| if x[0] == 4 { 1.0 } else { 4.0 }),
    ];
    let file = "[[group]]\nname = \"first\"\ntogether = [\"cluster\", \"scan\"]\nconcurrent = true";
    let tuning = Bench::new().tune(kernels, file).unwrap();
    assert_eq!(
        (tuning.groups.len(), tuning.groups[0].configurations),
        (1, 16)
    );
    assert_eq!(tuning.groups[0].decision.chosen.time_ms, 5.0);
    let [cluster, scan, step] = &tuning.times[..] else {
        panic!("{:?}", tuning.times)
    };
    assert_eq!(*cluster, ("cluster".to_owned(), Some(8.0), Some(5.0)));
    assert_eq!((scan.0.as_str(), scan.1), ("scan", Some(4.0)));
    assert_eq!(
        *step,
        ("step of cluster, scan".to_owned(), Some(8.0), Some(5.0))
    );
}

// "A kernel that runs several times in a chain has one set, or one per place."
#[test]
fn l2_a_kernel_that_runs_at_several_places_has_one_set_or_one_for_each() {
    let at = |place: &str, best: i64, prefix: &str| {
        let mut member = timed(place, &["width"], move |x| 1.0 + (x[0] - best).abs() as f64);
        prefix.clone_into(&mut member.prefix);
        member
    };
    // The places like 2 and 4; one set for both is best where their sum is, and 3 is as good as
    // any.
    let one = Bench::new()
        .tune(vec![at("k@a", 2, "k"), at("k@b", 4, "k")], "")
        .unwrap();
    assert_eq!(
        (one.parameters.clone(), one.chosen.0.len()),
        (vec!["k.width".to_owned()], 1)
    );
    assert!(one.chosen != ints(&[1]), "{:?}", one.chosen);
    let each = Bench::new()
        .tune(vec![at("k@a", 2, "k@a"), at("k@b", 4, "k@b")], "")
        .unwrap();
    assert_eq!((each.groups.len(), each.chosen), (2, ints(&[2, 4])));
}

// "Sets of parameters for each kind of data and rate; one for all."
#[test]
fn l4_each_workload_has_its_set_and_one_is_chosen_for_all() {
    // pp likes 2, PbPb likes 4; 3 is nearly as good for both and the default good for none.
    fn time(lead: bool, x: &[i64]) -> f64 {
        if lead {
            [8.0, 7.0, 4.2, 4.0][x[0] as usize - 1]
        } else {
            [8.0, 4.0, 4.2, 7.0][x[0] as usize - 1]
        }
    }
    let mut bench = Bench::new();
    let (tunings, all) = bench.tune_two(time, Some(ForAll::Mean));
    assert_eq!(
        [&tunings[0].chosen, &tunings[1].chosen],
        [&ints(&[2]), &ints(&[4])]
    );
    assert_eq!(
        (bench.found(Some("pp")), bench.found(Some("PbPb"))),
        (Some(ints(&[2])), Some(ints(&[4])))
    );
    // What each costs on the other is measured; the one for all is kept by itself.
    assert_eq!(all.matrix.sets, [ints(&[1]), ints(&[2]), ints(&[4])]);
    assert_eq!(all.matrix.times[1], [Some(4.0), Some(7.0)]);
    assert_eq!(all.of_workload, [1, 2]);
    assert!(all.kept.unwrap().contains("better than the default"));
    assert!([Some(ints(&[2])), Some(ints(&[4]))].contains(&bench.found(None)));
    // Without the option none is kept for all.
    let mut bench = Bench::new();
    let (_, all) = bench.tune_two(time, None);
    assert_eq!((all.kept, bench.found(None)), (None, None));
}

// "The best sets are put in and the whole chain is measured again."
#[test]
fn l6_only_the_whole_chain_with_the_best_sets_put_in_decides() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};
    // Right behind a wide `a`, a wide `b` takes `both`; in the search of its group it runs alone.
    let tuned = |both: f64| {
        let ran = Arc::new(AtomicI64::new(1));
        let before = Arc::clone(&ran);
        let a = timed("a", &["width"], move |x| {
            ran.store(x[0], Ordering::Relaxed);
            5.0 - x[0] as f64
        });
        let b = timed("b", &["width"], move |x| {
            let wide = before.swap(1, Ordering::Relaxed) > 1 && x[0] > 1;
            if wide { both } else { 5.0 - x[0] as f64 }
        });
        Bench::new().tune(vec![a, b], "").unwrap()
    };
    let good = tuned(1.0);
    assert_eq!(
        (good.comparison.unwrap().judgement.verdict, good.chosen),
        (Verdict::Better(Side::B), ints(&[4, 4]))
    );
    let bad = tuned(90.0);
    assert_eq!((&bad.proposed, &bad.chosen), (&ints(&[4, 4]), &bad.default));
    assert_eq!(
        bad.comparison.unwrap().judgement.verdict,
        Verdict::Better(Side::A)
    );
    let fails = tuned(f64::INFINITY);
    assert_eq!(
        (fails.failure.unwrap().message.as_str(), &fails.chosen),
        ("b: too wide", &fails.default)
    );
    // A chain that fails with its defaults is an error.
    let fails = Bench::new().tune(vec![timed("a", &["width"], |_| f64::NAN)], "");
    assert!(fails.unwrap_err().to_string().contains("too wide"));
}

// "Parameters shared by kernels or programs of a chain, and constraints across them."
#[test]
fn l8_kernels_that_share_a_layout_never_differ_in_it() {
    // Each is fastest with another layout; together the second one is best.
    let kernels = || {
        vec![
            timed("cluster", &["layout", "width"], |x| {
                [5.0, 2.0, 1.0, 9.0][x[0] as usize - 1] / x[1] as f64
            }),
            timed("sort", &["layout"], |x| {
                [1.0, 1.1, 8.0, 9.0][x[0] as usize - 1]
            }),
        ]
    };
    let file = "[[shared]]\nname = \"layout\"\nparameters = [\"cluster.layout\", \"sort.layout\"]";
    let tuning = Bench::new().tune(kernels(), file).unwrap();
    assert_eq!(tuning.parameters, ["layout", "cluster.width"]);
    assert_eq!(
        (tuning.groups.len(), tuning.groups[0].configurations),
        (1, 16)
    );
    assert_eq!(tuning.chosen, ints(&[2, 4]));
    // Without it they would differ.
    assert_eq!(
        Bench::new().tune(kernels(), "").unwrap().chosen,
        ints(&[3, 4, 1])
    );
}

#[test]
fn l8_constraints_reach_across_kernels_and_know_the_workload() {
    let kernels = vec![
        timed("a", &["x"], |x| 9.0 - x[0] as f64),
        timed("b", &["y"], |y| 9.0 - y[0] as f64),
    ];
    // `strips` is 3 in this workload.
    let tuning = Bench::new()
        .tune(
            kernels,
            "[[constraint]]\nwhen = \"a.x * b.y <= 2 * strips\"",
        )
        .unwrap();
    assert_eq!(
        (tuning.groups.len(), tuning.groups[0].configurations),
        (1, 10)
    );
    let Value::Int(x) = tuning.chosen.0[0] else {
        panic!()
    };
    let Value::Int(y) = tuning.chosen.0[1] else {
        panic!()
    };
    assert!(x * y <= 6 && x + y == 5, "{:?}", tuning.chosen);
}
