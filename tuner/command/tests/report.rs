//! Reports: complete and self-contained for any tuning. The package of pages checks the markup.

use tuner::compare::{Plan, decide};
use tuner::objective::Objective;
use tuner::online::grid;
use tuner::store::Observation;
use tuner::watch::NoWatch;
use tuner::{Config, Device, Failure, FailureKind, Outcome, Value, from_fn};

use tuner_command::report::{Report, Summary};

/// Checks that nothing is fetched or run, and no number is missing.
fn check(html: &str) {
    // Behind the page's content are the data of the charts and the script.
    let content = html
        .split("<script")
        .next()
        .unwrap()
        .replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for word in [
        "http://",
        "https://",
        "src=",
        "url(",
        "@import",
        "javascript:",
        "NaN",
        "inf\"",
    ] {
        assert!(!content.contains(word), "{word}");
    }
}

fn measured(config: Config, outcome: Outcome) -> Observation {
    Observation {
        config,
        launches: 1,
        outcome,
        took_ms: 1.0,
    }
}

fn parameters() -> Vec<(String, Vec<Value>)> {
    vec![
        ("block".into(), [32, 64, 128].map(Value::Int).to_vec()),
        (
            "a<b>&\"c\"".into(),
            ["x", "<script>alert(1)</script>"]
                .map(|t| Value::Text(t.into()))
                .to_vec(),
        ),
        ("sorted".into(), vec![Value::Bool(false), Value::Bool(true)]),
    ]
}

fn all_configs() -> Vec<Config> {
    let parameters = parameters();
    let dimensions: Vec<(&str, Vec<Value>)> = parameters
        .iter()
        .map(|(name, values)| (name.as_str(), values.clone()))
        .collect();
    grid(&dimensions, |_| true).unwrap()
}

fn synthetic() -> impl Device {
    let mut chance = 0.3_f64;
    from_fn("made", move |config, launches| {
        let (Value::Int(block), sorted) = (&config.0[0], config.0[2] == Value::Bool(true)) else {
            panic!()
        };
        if *block == 32 && sorted {
            let message = "needs \"more\" <shared> memory, now".into();
            return Outcome::Failed(Failure {
                kind: FailureKind::Launch,
                message,
            });
        }
        let mut one = || {
            chance = (chance * 7.3 + 0.41).fract();
            100.0 / *block as f64 * (1.0 + 0.01 * chance) + if sorted { 0.3 } else { 0.0 }
        };
        Outcome::Times((0..launches).map(|_| one()).collect())
    })
}

fn tuned() -> Report {
    let mut device = synthetic();
    let evaluate = |config: Config| measured(config.clone(), device.measure(&config, 5));
    let evaluations: Vec<Observation> = all_configs().into_iter().map(evaluate).collect();
    let default = all_configs()[0].clone();
    let decision = decide(
        &mut device,
        &default,
        &all_configs()[1..],
        &Plan::default(),
        &mut NoWatch,
    );
    Report {
        title: "decode & <sort>".into(),
        device: "a \"device\"".into(),
        facts: vec![("strategy".into(), "everything".into())],
        parameters: parameters(),
        default: Some(default),
        evaluations,
        searched: None,
        decisions: vec![decision],
        objective: Objective::Time,
    }
}

#[test]
fn a_page_has_every_section() {
    let report = tuned();
    let html = report.html();
    check(&html);
    for part in [
        "decode &amp; &lt;sort&gt;",
        "Decisions",
        "Best so far",
        "Importance of the parameters",
        "Main effects",
        "Pairs of parameters",
        "Failures",
        "&lt;script&gt;",
        "better than the default, and again on fresh samples",
        "confirmation",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // Three pairs of three parameters.
    assert_eq!(html.matches("\"heat\":{").count(), 3);
    assert!(html.contains("&lt;script&gt;alert(1)") && !html.contains("<script>alert(1)"));
}

#[test]
fn json_holds_every_evaluation() {
    let report = tuned();
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    let back: Report = serde_json::from_value(json["report"].clone()).unwrap();
    assert_eq!(back.evaluations, report.evaluations);
    assert_eq!(json["summary"]["importance"][0]["parameter"], "block");
    assert_eq!(json["summary"]["failures"]["launch"], 2);
    assert_eq!(back.decisions.len(), 1);
}

#[test]
fn final_measurements_do_not_rank_configurations_but_are_recorded() {
    let mut report = tuned();
    report.searched = Some(report.evaluations.len());
    let before = report.summary();
    let config = all_configs()[0].clone();
    report
        .evaluations
        .push(measured(config, Outcome::Times(vec![1e-3])));
    assert_eq!(report.summary(), before);
    let html = report.html();
    assert!(
        html.contains("; 1 more measurements, of races and final rounds")
            && html.contains("best of the search")
    );
    check(&html);
}

#[test]
fn tunings_with_no_one_or_only_failed_configurations_have_a_page() {
    let failed = || {
        Outcome::Failed(Failure {
            kind: FailureKind::Compile,
            message: "no".into(),
        })
    };
    let one = |outcome| measured(all_configs()[0].clone(), outcome);
    for outcomes in [
        vec![],
        vec![failed()],
        vec![Outcome::Times(vec![])],
        vec![Outcome::Times(vec![1.0])],
        vec![Outcome::Times(vec![1.0, 1.0]), failed()],
        vec![Outcome::Times(vec![f64::NAN, 0.0, -1.0])],
    ] {
        let evaluations: Vec<Observation> = outcomes.into_iter().map(one).collect();
        let report = Report {
            title: "small".into(),
            parameters: parameters(),
            evaluations,
            ..Report::default()
        };
        check(&report.html());
        report.json().unwrap();
    }
    check(&Report::default().html());
}

#[test]
fn files_of_a_report_replace_the_files_of_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let first = Report {
        title: "first".into(),
        ..Report::default()
    };
    let paths = first.write(folder.path(), "run").unwrap();
    let before = folder.path().join("before");
    std::fs::hard_link(&paths[0], &before).unwrap();
    Report {
        title: "second".into(),
        ..Report::default()
    }
    .write(folder.path(), "run")
    .unwrap();
    assert_eq!(std::fs::read_to_string(before).unwrap(), first.html());
    assert!(
        std::fs::read_to_string(&paths[0])
            .unwrap()
            .contains("second")
    );
    // A folder in the way of a file is an error, and no file is left.
    std::fs::create_dir(folder.path().join("other.html")).unwrap();
    assert!(first.write(folder.path(), "other").is_err());
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        paths.len() + 2
    );
}

#[test]
fn pairs_of_very_many_values_have_no_map_and_the_page_says_so() {
    let many: Vec<Value> = (0..900).map(Value::Int).collect();
    let few = vec![Value::Bool(false), Value::Bool(true)];
    let config = |i: i64| {
        Config(vec![
            Value::Int(i % 3),
            Value::Int(i),
            Value::Bool(i % 2 == 0),
        ])
    };
    let one = |i: i64| measured(config(i), Outcome::Times(vec![1.0 + i as f64]));
    let parameters = vec![
        ("a".into(), many.clone()),
        ("b".into(), many),
        ("c".into(), few),
    ];
    let report = Report {
        parameters,
        evaluations: (0..6).map(one).collect(),
        ..Report::default()
    };
    let html = report.html();
    check(&html);
    assert!(html.contains("Not shown: 1 of 3 pairs."));
    assert_eq!(html.matches("\"heat\":{").count(), 2);
    assert!(html.len() < 7_000_000, "{} bytes", html.len());
}

/// Makes a search over two parameters with three values each, whose log times are given by `log`.
fn searched(n: usize, log: impl Fn(usize, usize, usize) -> f64) -> Summary {
    let one = |i: usize| {
        let (a, b) = (i % 3, i / 3 % 3);
        let config = Config([a, b].map(|value| Value::Int(value as i64)).to_vec());
        let outcome = Outcome::Times(vec![log(a, b, i / 9).exp()]);
        Observation {
            config,
            launches: 1,
            outcome,
            took_ms: 0.0,
        }
    };
    let values: Vec<Value> = (0..3).map(Value::Int).collect();
    let parameters = vec![("a".to_owned(), values.clone()), ("b".to_owned(), values)];
    Report {
        parameters,
        evaluations: (0..n).map(one).collect(),
        ..Report::default()
    }
    .summary()
}

#[test]
fn a_small_effect_is_shown_next_to_a_dominant_one() {
    let summary = searched(9, |a, b, _| 5.0 * a as f64 + 0.13 * b as f64);
    let [a, b] = &summary.importance[..] else {
        panic!()
    };
    assert!(
        a.parameter == "a" && a.share > Some(0.99) && b.share < Some(0.01),
        "{summary:?}"
    );
    assert!(
        (b.range.unwrap() - 0.297).abs() < 0.001,
        "30 % of the time: {b:?}"
    );
    assert!(
        summary.together < Some(1e-9) && summary.interactions.is_empty(),
        "{summary:?}"
    );
}

#[test]
fn values_that_are_fast_only_together_are_an_interaction() {
    let summary = searched(18, |a, b, _| if a == b { 0.0 } else { 1.0 });
    assert!(
        summary.importance.iter().all(|of| of.share < Some(0.01)),
        "{summary:?}"
    );
    assert!(summary.together > Some(0.99), "{summary:?}");
    assert_eq!(summary.interactions[0].parameters, ["a", "b"]);
    assert!(summary.interactions[0].share > 0.99, "{summary:?}");
}

#[test]
fn noise_is_no_effect_and_few_configurations_show_nothing() {
    let noise =
        |a: usize, b: usize, i: usize| ((a * 7919 + b * 104_729 + i * 1_299_709) % 97) as f64;
    let summary = searched(180, noise);
    assert!(
        summary.importance.iter().all(|of| of.share < Some(0.1)),
        "{summary:?}"
    );
    let summary = searched(2, |a, _, _| a as f64);
    assert!(
        summary
            .importance
            .iter()
            .all(|of| of.share.is_none() && of.range.is_none()),
        "{summary:?}"
    );
    assert_eq!((summary.together, summary.interactions.len()), (None, 0));
    assert_eq!(searched(0, |_, _, _| 0.0).together, None);
    // Equal times: nothing matters.
    assert_eq!(searched(9, |_, _, _| 1.0).importance[0].share, None);
}
