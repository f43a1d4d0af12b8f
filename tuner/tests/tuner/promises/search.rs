//! Searches and decisions, as ALICE asks for them.

use super::first_use::{Machine, tile};
use crate::prelude::*;
use crate::session::{Place, tuned};

#[test]
fn l5_the_default_is_left_only_where_the_interval_excludes_it_and_of_several_for_the_smallest_mean()
{
    // The default is left only where the 95 % interval of the difference excludes it; of several,
    // the smallest mean.
    let rules = Rules {
        method: Method::Alice,
        ..Rules::default()
    };
    let noise = |i: u32| f64::from(i * 7 % 5) * 0.01;
    // Ten samples of spread 1.5 % each: the interval is ±1.3 %.
    for (by, verdict) in [
        (0.995, Same),
        (0.97, Better(Side::B)),
        (1.03, Better(Side::A)),
    ] {
        let one = |i: u32| block(&[1.0 + noise(i)], &[by + noise(i + 3)]);
        let blocks: Vec<Block> = (0..10).map(one).collect();
        assert_eq!(judge(&blocks, &rules.fixed(10)).verdict, verdict, "{by}");
    }
    // Configurations 1 and 2 are both faster than the default, 2 is the fastest; 3 is slower.
    for method in [Method::Alice, Method::Blocks] {
        let mut launches = 0_u32;
        let mut device = made(|config, _| {
            launches += 1;
            let time = [1.0, 0.95, 0.9, 1.1][number(config) as usize];
            Times(vec![time + 0.1 * noise(launches)])
        });
        let rules = Rules {
            method,
            looks: vec![10],
            ..Rules::default()
        };
        let plan = Plan {
            rules,
            rounds: 4,
            ..Plan::default()
        };
        // The second time the default stays.
        for (default, others) in [(0, [1, 2, 3]), (2, [0, 1, 3])] {
            let others = others.map(|other| ints(&[other]));
            let decision = decide(&mut device, &ints(&[default]), &others, &plan, &mut NoWatch);
            assert_eq!(decision.chosen, ints(&[2]), "{method:?}");
        }
    }
}

#[test]
fn l7_there_are_grid_random_and_bayesian_search() {
    // Grid, random and Bayesian search: all find a configuration near the optimum, the grid the
    // optimum itself.
    let place = Place::new("seed=3,fail=0.1");
    let optimum = place.true_ms(&place.optimum());
    for (kind, budget, most) in [
        (StrategyKind::Exhaustive, 1152, 1.0),
        (StrategyKind::Random, 300, 1.3),
        (StrategyKind::Bayesian, 100, 1.1),
    ] {
        let session = place.session(kind, &budget.to_string());
        let found = tuned(&session, &mut place.synthetic.clone()).evidence;
        let time = place.true_ms(&found.chosen.config);
        assert!(
            time <= most * optimum,
            "{kind}: {time} instead of {optimum}"
        );
        assert_eq!(found.tried, budget, "{kind}");
    }
}

#[test]
fn l9_the_parameters_of_another_gpu_are_never_used_silently() {
    // The parameters of another GPU are never used silently.
    let mut machine = Machine::new();
    for (gpu, best, found) in [
        ("NVIDIA A100", 64, (64, true)),
        ("NVIDIA H200", 16, (16, true)),
        ("NVIDIA A100", 8, (64, false)),
        ("NVIDIA H200", 8, (16, false)),
    ] {
        machine.become_device(gpu, "CUDA", "580.1");
        assert_eq!(tile(&machine.operation(), best), found, "{gpu}");
    }
    // A store that is copied to another machine says whose results it has.
    machine.become_device("NVIDIA L4", "CUDA", "580.1");
    machine.key.tunable.name = "transpose".to_owned();
    let found = machine.folder.store().find(&machine.key.task()).unwrap();
    assert_eq!(found.len(), 2);
    for found in found {
        assert!(found.step() > 0);
        says(found.in_words(), "instead of NVIDIA L4");
    }
}
