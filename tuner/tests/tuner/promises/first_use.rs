//! An operation is tuned when a machine first uses it, as katsdpsigproc does.

use tuner::store::Matching;
use tuner::{Named, Operation, Source, Tuned, forced, stub, tuned};

use crate::prelude::*;
use crate::store::Folder;
use crate::store::processes::{asked, helper, printed};

const TILES: [i64; 4] = [8, 16, 32, 64];

/// Device, space, and a folder for the store.
pub struct Machine {
    pub key: Key,
    pub folder: Folder,
}

fn config(tile: i64) -> Config {
    ints(&[tile])
}

impl Machine {
    pub fn new() -> Self {
        let space = SpaceBuilder::new().ints("tile", TILES).build().unwrap();
        let mut machine = Self {
            key: Key::of(space),
            folder: Folder::new(),
        };
        machine.become_device("NVIDIA H200", "CUDA", "580.1");
        machine
    }

    /// Replaces the device.
    pub fn become_device(&mut self, name: &str, platform: &str, driver: &str) {
        self.key.device = DeviceIdentity::named(name, platform);
        driver.clone_into(&mut self.key.device.driver);
    }

    pub fn operation(&self) -> Operation<'_> {
        Operation {
            stores: Some(self.folder.locations()),
            ..Operation::new(
                "promises",
                "transpose",
                1,
                &self.key.device,
                &self.key.space,
            )
        }
    }

    /// Says what another process answers.
    fn said(&self, environment: &[(&str, &str)]) -> String {
        answer_of(helper(ASKED, &self.folder.file(), environment))
    }
}

/// Answers with the number of launches; `best` is the fastest tile.
fn answer(operation: &Operation<'_>, best: i64) -> (Tuned, usize) {
    let mut launches = 0;
    let answer = tuned(operation, |config: &Named| {
        launches += 1;
        Ok::<_, String>(Some(1.0 + (config.int("tile") - best).abs() as f64))
    });
    (answer.unwrap(), launches)
}

/// Tile, and true if it was measured.
pub fn tile(operation: &Operation<'_>, best: i64) -> (i64, bool) {
    let (answer, launches) = answer(operation, best);
    (answer.config.int("tile"), launches > 0)
}

#[track_caller]
fn is_tuned(said: &str) {
    assert!(
        said.starts_with("tile=16 after ") && said.ends_with(": tuned now"),
        "{said}"
    );
}

#[test]
fn k1_the_first_use_tunes_and_the_next_process_finds_the_result() {
    // Transparent: constructing an operation tunes it the first time; the result is in SQLite, for
    // the next process.
    let machine = Machine::new();
    is_tuned(&machine.said(&[]));
    assert!(
        std::fs::read(machine.folder.file())
            .unwrap()
            .starts_with(b"SQLite format 3")
    );
    assert!(machine.said(&[]).starts_with("tile=16 after 0: tuned 20"));
    assert_eq!(tile(&machine.operation(), 64), (16, false));
}

#[test]
fn k2_another_driver_platform_or_device_is_tuned_anew() {
    // Results belong to device, platform and driver version: another one is tuned anew, never
    // silently reused.
    let mut machine = Machine::new();
    assert_eq!(tile(&machine.operation(), 16), (16, true));
    for (name, platform, driver) in [
        ("NVIDIA H200", "CUDA", "590.2"),
        ("NVIDIA H200", "OpenCL", "580.1"),
        ("NVIDIA H100", "CUDA", "580.1"),
    ] {
        machine.become_device(name, platform, driver);
        assert_eq!(
            tile(&machine.operation(), 64),
            (64, true),
            "{}",
            machine.key.device
        );
        assert_eq!(
            tile(&machine.operation(), 8),
            (64, false),
            "{}",
            machine.key.device
        );
    }
    machine.become_device("NVIDIA H200", "CUDA", "580.1");
    assert_eq!(
        tile(&machine.operation(), 64),
        (16, false),
        "its own result is still there"
    );
}

#[test]
fn k3_arguments_are_part_of_the_key() {
    // Arguments of the operation (numbers, strings, enumerations) are part of the key.
    #[derive(Clone, Copy, Debug)]
    enum Layout {
        Row,
        Column,
    }
    let machine = Machine::new();
    let all = [1024, 4096].into_iter().flat_map(|rows| {
        ["float", "double"].into_iter().flat_map(move |scalar| {
            [Layout::Row, Layout::Column].map(move |layout| (rows, scalar, layout))
        })
    });
    for ((rows, scalar, layout), best) in all.zip(TILES.into_iter().cycle()) {
        let mut operation = machine.operation();
        let arguments = operation.arguments.with("rows", rows).unwrap();
        let arguments = arguments.with("scalar", scalar).unwrap();
        operation.arguments = arguments.with("layout", format!("{layout:?}")).unwrap();
        assert_eq!(
            tile(&operation, best),
            (best, true),
            "{}",
            operation.arguments
        );
        assert_eq!(
            tile(&operation, 0),
            (best, false),
            "{}",
            operation.arguments
        );
    }
}

#[test]
fn k4_a_configuration_given_by_the_user_overrides_everything() {
    // A configuration given by the user overrides everything.
    let machine = Machine::new();
    let given = |config| Operation {
        given: Some(config),
        ..machine.operation()
    };
    let operation = given(config(48));
    let (found, launches) = answer(&operation, 16);
    // Neither the space, nor force, nor a stored result counts.
    assert_eq!(
        (found.config.int("tile"), found.source, launches),
        (48, Source::Given, 0)
    );
    assert_eq!(forced(|| tile(&operation, 16)), (48, false));
    tile(&machine.operation(), 16);
    assert_eq!(tile(&operation, 16), (48, false));
    let two = tuned(&given(ints(&[1, 1])), |_| Ok::<_, String>(None));
    says(two.unwrap_err(), "has 2 values, the space 1 parameters");
}

#[test]
fn k5_tests_get_a_given_value_and_can_force_a_tuning_without_the_store() {
    // In tests the tuner answers with a given value at once; a test can force it to run, without
    // the store.
    let machine = Machine::new();
    let stubbed = |how: &str| machine.said(&[("PROMISES_STUB", how)]);
    assert_eq!(stubbed("test"), "tile=32 after 0: the value for tests");
    is_tuned(&stubbed("force"));
    assert!(!machine.folder.file().exists(), "nothing was kept");
    // What a store knows does not count either.
    tile(&machine.operation(), 8);
    assert_eq!(stubbed("test"), "tile=32 after 0: the value for tests");
    is_tuned(&stubbed("force"));
    assert_eq!(tile(&machine.operation(), 64), (8, false));
}

#[test]
fn k6_combinations_that_fail_or_are_skipped_cost_nothing_and_the_last_error_is_returned() {
    // A combination can be skipped; one that fails is skipped, including the first; if all fail,
    // the last error is reported.
    let first_fails = |config: &Named| match config.int("tile") {
        8 => Err("8 is too small".to_owned()),
        16 => Ok(None),
        tile => Ok(Some(tile as f64)),
    };
    // The default may fail, too.
    for default in [None, Some(config(8))] {
        let machine = Machine::new();
        let operation = Operation {
            default,
            ..machine.operation()
        };
        let best = tuned(&operation, first_fails).unwrap();
        assert_eq!((best.config.int("tile"), best.source), (32, Source::Tuned));
        assert_eq!(
            tuned(&operation, first_fails).unwrap().config.int("tile"),
            32
        );
    }
    let machine = Machine::new();
    let mut last = String::new();
    let all = |config: &Named| {
        last = format!("{config} does not launch");
        Err::<Option<f64>, _>(last.clone())
    };
    let error = tuned(&machine.operation(), all).unwrap_err().to_string();
    assert!(
        error.contains("all 4 configurations") && error.ends_with(&last),
        "{error}"
    );
    // An error is nothing to keep: when it works, it is tuned.
    assert_eq!(tile(&machine.operation(), 64), (64, true));
}

#[test]
fn k7_results_of_another_version_stay_and_are_used_again_on_going_back() {
    // A version of the operation: results of another version stay and are used again on going back.
    let machine = Machine::new();
    for (version, best, found) in [
        (1, 16, (16, true)),
        (2, 64, (64, true)),
        (1, 8, (16, false)),
        (2, 8, (64, false)),
    ] {
        assert_eq!(
            tile(
                &Operation {
                    version,
                    ..machine.operation()
                },
                best
            ),
            found
        );
    }
}

#[test]
fn k8_the_environment_asks_for_the_nearest_match_and_names_the_store() {
    // An environment variable asks for the nearest match (ignoring driver, then platform, then
    // device), returned without tuning; optionally it is first measured against the default. Any
    // other value means exact. Another variable names the store.
    let mut machine = Machine::new();
    let matching = "PROMISES_TUNE_MATCH";
    // The operation asks for driver 580.1; nearer results come later, so that not the newest is
    // taken.
    for (tile_here, name, platform, driver) in [
        (8, "NVIDIA H100", "CUDA", "580.1"),
        (32, "NVIDIA H200", "OpenCL", "580.1"),
        (64, "NVIDIA H200", "CUDA", "1"),
    ] {
        machine.become_device(name, platform, driver);
        tile(&machine.operation(), tile_here);
        let nearest = machine.said(&[(matching, "nearest")]);
        assert!(
            nearest.starts_with(&format!("tile={tile_here} after 0: ")),
            "{nearest}"
        );
        // It admits what differs.
        says(nearest, " instead of ");
    }
    // The helper's default is 8: 64 takes 49 ms, 8 takes 9 ms. It is slower, as 32 is; 8 is no
    // slower than itself.
    let checked = machine.said(&[(matching, "nearest-checked")]);
    assert!(checked.starts_with("tile=8 after "), "{checked}");
    says(checked, "H100 instead of");
    for value in ["exact", "", "Nearest", "closest"] {
        let copy = machine.folder.path(&format!("{value}.sqlite"));
        std::fs::copy(machine.folder.file(), &copy).unwrap();
        is_tuned(&answer_of(helper(ASKED, &copy, &[(matching, value)])));
    }
    // The operation can say it as well.
    let near = Operation {
        matching: Matching::Nearest,
        version: 2,
        ..machine.operation()
    };
    assert_eq!(tile(&near, 32), (32, true), "nothing is near: it is tuned");
}

#[test]
fn k9_each_is_measured_several_times_with_the_callers_times() {
    // Each measured several times, by the device's events on a GPU. Here the events are numbers: a
    // launch that takes long by the clock of the CPU is fast by the clock of the device, and one
    // slow first launch does not count.
    let machine = Machine::new();
    let mut launches = [0_usize; 4];
    let best = tuned(&machine.operation(), |config| {
        let at = TILES
            .iter()
            .position(|tile| *tile == config.int("tile"))
            .unwrap();
        launches[at] += 1;
        if at == 2 {
            std::thread::sleep(Duration::from_millis(2));
        }
        let of_events = if at == 2 { 1.0 } else { 1.5 };
        let first = if launches[at] == 1 { 100.0 } else { 1.0 };
        Ok::<_, String>(Some(first * of_events))
    });
    assert_eq!(best.unwrap().config.int("tile"), TILES[2]);
    assert!(
        launches.iter().all(|launches| *launches >= 3),
        "{launches:?}"
    );
}

#[test]
fn k10_the_key_is_the_name_of_the_operation_and_two_processes_tune_once() {
    // Keyed by the operation's name, not by a line number; two processes at once tune once.
    let machine = Machine::new();
    let other = Operation {
        name: "reduce",
        ..machine.operation()
    };
    assert_eq!(tile(&machine.operation(), 16), (16, true));
    assert_eq!(
        tile(&machine.operation(), 64),
        (16, false),
        "from another line"
    );
    assert_eq!(tile(&other, 64), (64, true));
    let file = Machine::new().folder;
    let all = [(); 3].map(|()| helper(ASKED, &file.file(), &[("PROMISES_SLOW", "1")]));
    let mut said = all.map(answer_of);
    said.sort_by_key(|said| said.ends_with(": tuned now"));
    assert!(
        said[..2]
            .iter()
            .all(|said| said.starts_with("tile=16 after 0: ")),
        "{said:?}"
    );
    is_tuned(&said[2]);
}

const ASKED: &str = "promises::first_use::helper_that_asks";

/// Says what a process answered.
fn answer_of(child: std::process::Child) -> String {
    let text = printed(child);
    let line = text.lines().find_map(|line| line.split_once("answer: "));
    line.unwrap_or_else(|| panic!("{text}")).1.to_owned()
}

/// Asks for a tile, of which 16 is the fastest, as the other process of a test.
#[test]
#[ignore = "started by another test, in a process of its own"]
fn helper_that_asks() {
    let user = asked().expect("another test starts this one");
    let machine = Machine::new();
    let operation = Operation {
        default: Some(config(8)),
        test: Some(config(32)),
        stores: Some(Locations { user }),
        matching: Matching::choose("promises"),
        ..machine.operation()
    };
    let slow = std::env::var_os("PROMISES_SLOW").is_some();
    let mut launches = 0;
    let mut ask = || {
        let answer = tuned(&operation, |config| {
            launches += 1;
            std::thread::sleep(Duration::from_millis(slow.into()));
            Ok::<_, String>(Some(1.0 + (config.int("tile") - 16).abs() as f64))
        });
        answer.unwrap()
    };
    let how = std::env::var("PROMISES_STUB").ok();
    if how.is_some() {
        stub();
    }
    let answer = if how.as_deref() == Some("force") {
        forced(ask)
    } else {
        ask()
    }
    .to_string();
    let (config, origin) = answer.split_once(": ").unwrap();
    println!("answer: {config} after {launches}: {origin}");
}
