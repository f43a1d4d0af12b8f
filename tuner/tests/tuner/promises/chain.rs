//! ALICE's promises about chains of kernels, and parameters for each kind of data (L1, L2, L4, L6,
//! L8).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use tuner::chain::Member;
use tuner::chain::tune::{
    AllTuning, ChainTuning, ForAll, Settings, Subject, tune_chain, tune_for_all,
};

use crate::chain::{chain, kernel, space};
use crate::prelude::*;
use crate::store::Folder;

/// Makes a kernel whose times are a function of its parameters.
fn timed(
    name: &str,
    parameters: &[&str],
    time: impl Fn(&[i64]) -> f64 + Send + 'static,
) -> Member<'static> {
    let mut member = kernel(name, parameters, 4);
    member.device = Box::new(made(move |config: &Config, launches| {
        let time = time(&numbers(config));
        if time.is_finite() {
            Times(vec![time; launches])
        } else {
            Failed(failed("too wide"))
        }
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

/// Tunes a chain, whose groups must have so many configurations.
fn tuned(members: Vec<Member<'static>>, file: &str, configurations: &[usize]) -> ChainTuning {
    let (mut subject, folder) = (subject(members, file, ""), Folder::new());
    let mut store = folder.store();
    let tuning = tune_chain(&mut subject, &mut store, &settings(None), &mut |_, _, _| {
        true
    });
    let tuning = tuning.unwrap();
    let found = tuning.groups.iter().map(|group| group.configurations);
    assert!(
        found.eq(configurations.iter().copied()),
        "{:?}",
        tuning.groups
    );
    tuning
}

/// Tunes for each of two workloads, and for both.
fn tune_two(
    time: fn(bool, &[i64]) -> f64,
    for_all: Option<ForAll>,
) -> (Vec<ChainTuning>, AllTuning, Folder) {
    let (folder, settings) = (Folder::new(), settings(for_all));
    let mut store = folder.store();
    let one = |lead: bool| vec![timed("k", &["width"], move |x| time(lead, x))];
    let mut subjects =
        [("pp", false), ("PbPb", true)].map(|(load, lead)| subject(one(lead), "", load));
    let mut tune =
        |subject| tune_chain(subject, &mut store, &settings, &mut |_, _, _| true).unwrap();
    let tunings: Vec<ChainTuning> = subjects.iter_mut().map(&mut tune).collect();
    let any = Workload::new();
    let all = tune_for_all(&mut subjects, &tunings, &any, &mut store, &settings, |_| ());
    (tunings, all.unwrap(), folder)
}

/// Returns what a later process finds for a workload.
fn found(folder: &Folder, load: Option<&str>) -> Option<Config> {
    let mut key = Key::of(space(&["k.width"], 4));
    "chain".clone_into(&mut key.tunable.name);
    if let Some(load) = load {
        key.workload = key.workload.with("workload", load).unwrap();
    }
    let found = folder.locations().find(&key.task()).unwrap();
    found.into_iter().next().map(|found| found.config)
}

// "Kernels that run alone are tuned one by one, each with a space of its own."
#[test]
fn l1_kernels_that_run_alone_are_tuned_one_by_one_each_in_its_own_space() {
    let cluster = |x: &[i64]| 1.0 + (x[0] - 3).abs() as f64 + (x[1] - 2).abs() as f64;
    let kernels = vec![
        timed("cluster", &["block", "grid"], cluster),
        timed("sort", &["width"], |x| 5.0 - x[0] as f64),
    ];
    let tuning = tuned(kernels, "", &[16, 4]);
    let of = tuning
        .groups
        .iter()
        .map(|g| (g.group.as_str(), g.parameters.len()));
    assert!(of.eq([("cluster", 2), ("sort", 1)]));
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
    let tuning = tuned(kernels, file, &[16]);
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
    let one = tuned(vec![at("k@a", 2, "k"), at("k@b", 4, "k")], "", &[4]);
    assert_eq!(
        (&one.parameters[..], one.chosen.0.len()),
        (&["k.width".to_owned()][..], 1)
    );
    assert_ne!(one.chosen, ints(&[1]));
    let each = tuned(vec![at("k@a", 2, "k@a"), at("k@b", 4, "k@b")], "", &[4, 4]);
    assert_eq!(each.chosen, ints(&[2, 4]));
}

// "Sets of parameters for each kind of data and rate; one for all."
#[test]
fn l4_each_workload_has_its_set_and_one_is_chosen_for_all() {
    // pp likes 2, PbPb likes 4; 3 is nearly as good for both and the default good for none.
    fn time(lead: bool, x: &[i64]) -> f64 {
        [[8.0, 4.0, 4.2, 7.0], [8.0, 7.0, 4.2, 4.0]][usize::from(lead)][x[0] as usize - 1]
    }
    let (tunings, all, folder) = tune_two(time, Some(ForAll::Mean));
    for (tuning, (load, best)) in tunings.iter().zip([("pp", 2), ("PbPb", 4)]) {
        assert_eq!(tuning.chosen, ints(&[best]));
        assert_eq!(found(&folder, Some(load)), Some(ints(&[best])));
    }
    // What each costs on the other is measured; the one for all is kept by itself.
    assert_eq!(all.matrix.sets, [1, 2, 4].map(|set| ints(&[set])));
    assert_eq!(all.matrix.times[1], [Some(4.0), Some(7.0)]);
    assert_eq!(all.of_workload, [1, 2]);
    says(all.kept.unwrap(), "better than the default");
    assert!([2, 4].contains(&number(&found(&folder, None).unwrap())));
    // Without the option none is kept for all.
    let (_, all, folder) = tune_two(time, None);
    assert_eq!((all.kept, found(&folder, None)), (None, None));
}

// "The best sets are put in and the whole chain is measured again."
#[test]
fn l6_only_the_whole_chain_with_the_best_sets_put_in_decides() {
    // Right behind a wide `a`, a wide `b` takes `both`; in the search of its group it runs alone.
    let tuned = |both: f64| {
        let ran = Arc::new(AtomicI64::new(1));
        let before = Arc::clone(&ran);
        let a = timed("a", &["width"], move |x| {
            ran.store(x[0], Relaxed);
            5.0 - x[0] as f64
        });
        let b = timed("b", &["width"], move |x| {
            let wide = before.swap(1, Relaxed) > 1 && x[0] > 1;
            if wide { both } else { 5.0 - x[0] as f64 }
        });
        tuned(vec![a, b], "", &[4, 4])
    };
    for (both, side, chosen) in [(1.0, Side::B, [4, 4]), (90.0, Side::A, [1, 1])] {
        let tuning = tuned(both);
        let verdict = tuning.comparison.unwrap().judgement.verdict;
        assert_eq!((verdict, tuning.chosen), (Better(side), ints(&chosen)));
        assert_eq!(
            (tuning.proposed, tuning.default),
            (ints(&[4, 4]), ints(&[1, 1]))
        );
    }
    let fails = tuned(f64::INFINITY);
    let said = fails.failure.unwrap().message;
    assert_eq!(
        (said.as_str(), &fails.chosen),
        ("b: too wide", &fails.default)
    );
    // A chain that fails with its defaults is an error.
    let mut fails = subject(vec![timed("a", &["width"], |_| f64::NAN)], "", "");
    let folder = Folder::new();
    let mut store = folder.store();
    let fails = tune_chain(&mut fails, &mut store, &settings(None), &mut |_, _, _| true);
    says(fails.unwrap_err(), "too wide");
}

#[test]
fn a_chain_that_keeps_its_default_counts_the_launches_of_the_whole() {
    let mut subject = subject(vec![timed("a", &["width"], |x| x[0] as f64)], "", "");
    let folder = Folder::new();
    let mut store = folder.store();
    let tuning = tune_chain(&mut subject, &mut store, &settings(None), &mut |_, _, _| {
        true
    });
    let (run, _) = tuning.unwrap().kept.unwrap();
    let decision = store.run_record(run).unwrap().decision.unwrap();
    assert_eq!((decision.launches, decision.chosen.samples), (5, 5));
    assert_eq!(decision.stopped, "every group kept its default");
}

// "Parameters shared by kernels or programs of a chain, and constraints across them."
#[test]
fn l8_kernels_that_share_a_layout_never_differ_in_it() {
    // Each is fastest with another layout; together the second one is best.
    let kernels = || {
        let cluster = |x: &[i64]| [5.0, 2.0, 1.0, 9.0][x[0] as usize - 1] / x[1] as f64;
        vec![
            timed("cluster", &["layout", "width"], cluster),
            timed("sort", &["layout"], |x| {
                [1.0, 1.1, 8.0, 9.0][x[0] as usize - 1]
            }),
        ]
    };
    let file = "[[shared]]\nname = \"layout\"\nparameters = [\"cluster.layout\", \"sort.layout\"]";
    let tuning = tuned(kernels(), file, &[16]);
    assert_eq!(tuning.parameters, ["layout", "cluster.width"]);
    assert_eq!(tuning.chosen, ints(&[2, 4]));
    // Without it they would differ.
    assert_eq!(tuned(kernels(), "", &[16, 4]).chosen, ints(&[3, 4, 1]));
}

#[test]
fn l8_constraints_reach_across_kernels_and_know_the_workload() {
    let kernels = [("a", "x"), ("b", "y")]
        .map(|(name, parameter)| timed(name, &[parameter], |x| 9.0 - x[0] as f64));
    // `strips` is 3 in this workload.
    let file = "[[constraint]]\nwhen = \"a.x * b.y <= 2 * strips\"";
    let chosen = numbers(&tuned(kernels.into(), file, &[10]).chosen);
    assert!(
        chosen[0] * chosen[1] <= 6 && chosen[0] + chosen[1] == 5,
        "{chosen:?}"
    );
}
