//! An operation is tuned when a machine first uses it, as katsdpsigproc does.

use std::process::Child;

use tuner::store::{DeviceIdentity, Locations, Matching};
use tuner::{
    Config, Named, Operation, Source, Space, SpaceBuilder, Tuned, Value, forced, stub, tuned,
};

use crate::store::Folder;
use crate::store::processes::helper;

const TILES: [i64; 4] = [8, 16, 32, 64];

/// Device, space, and a folder for the store.
struct Machine {
    device: DeviceIdentity,
    space: Space,
    folder: Folder,
}

fn config(tile: i64) -> Config {
    Config(vec![Value::Int(tile)])
}

impl Machine {
    fn new() -> Self {
        let device = DeviceIdentity {
            driver: "580.1".to_owned(),
            ..DeviceIdentity::named("NVIDIA H200", "CUDA")
        };
        Self {
            device,
            space: SpaceBuilder::new().ints("tile", TILES).build().unwrap(),
            folder: Folder::new(),
        }
    }

    fn operation(&self) -> Operation<'_> {
        Operation {
            stores: Some(Locations {
                user: self.folder.path("tune.sqlite"),
            }),
            ..Operation::new("promises", "transpose", 1, &self.device, &self.space)
        }
    }
}

/// Answers with the number of launches; `best` is the fastest tile, and a tile of 0 fails.
fn answer(operation: &Operation<'_>, best: i64) -> (Tuned, usize) {
    let mut launches = 0;
    let answer = tuned(operation, |config: &Named| {
        launches += 1;
        Ok::<_, String>(Some(1.0 + (config.int("tile") - best).abs() as f64))
    });
    (answer.unwrap(), launches)
}

/// Tile and number of launches.
fn tile(operation: &Operation<'_>, best: i64) -> (i64, bool) {
    let (answer, launches) = answer(operation, best);
    (answer.config.int("tile"), launches > 0)
}

#[test]
fn k1_the_first_use_tunes_and_the_next_process_finds_the_result() {
    // Transparent: constructing an operation tunes it the first time; the result is in SQLite, for
    // the next process.
    let machine = Machine::new();
    let file = machine.folder.path("tune.sqlite");
    let process = || said(helper(ASKED, &file, |_| ()));
    let first = process();
    assert!(
        first.starts_with("tile=16 after ") && first.ends_with(": tuned now"),
        "{first}"
    );
    assert!(
        std::fs::read(&file)
            .unwrap()
            .starts_with(b"SQLite format 3")
    );
    assert!(process().starts_with("tile=16 after 0: tuned 20"));
    assert_eq!(tile(&machine.operation(), 64), (16, false));
}

#[test]
fn k2_another_driver_platform_or_device_is_tuned_anew() {
    // Results belong to device, platform and driver version: another one is tuned anew, never
    // silently reused.
    let mut machine = Machine::new();
    assert_eq!(tile(&machine.operation(), 16), (16, true));
    let known = machine.device.clone();
    for device in [
        DeviceIdentity {
            driver: "590.2".to_owned(),
            ..known.clone()
        },
        DeviceIdentity {
            platform: "OpenCL".to_owned(),
            ..known.clone()
        },
        DeviceIdentity {
            name: "NVIDIA H100".to_owned(),
            ..known.clone()
        },
    ] {
        machine.device = device;
        assert_eq!(
            tile(&machine.operation(), 64),
            (64, true),
            "{}",
            machine.device
        );
        assert_eq!(
            tile(&machine.operation(), 8),
            (64, false),
            "{}",
            machine.device
        );
    }
    machine.device = known;
    assert_eq!(
        tile(&machine.operation(), 64),
        (16, false),
        "its own result is still there"
    );
}

#[test]
fn k3_arguments_are_part_of_the_key() {
    // Arguments of the operation (numbers, strings, enumerations) are part of the key.
    #[derive(Debug)]
    enum Layout {
        Row,
        Column,
    }
    let machine = Machine::new();
    let mut best = 8;
    for rows in [1024, 4096] {
        for scalar in ["float", "double"] {
            for layout in [Layout::Row, Layout::Column] {
                let mut operation = machine.operation();
                let arguments = operation
                    .arguments
                    .with("rows", rows)
                    .unwrap()
                    .with("scalar", scalar)
                    .unwrap();
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
                best = TILES[(TILES.iter().position(|tile| *tile == best).unwrap() + 1) % 4];
            }
        }
    }
}

#[test]
fn k4_a_configuration_given_by_the_user_overrides_everything() {
    // A configuration given by the user overrides everything.
    let machine = Machine::new();
    let operation = Operation {
        given: Some(config(48)),
        ..machine.operation()
    };
    let (given, launches) = answer(&operation, 16);
    // Neither the space, nor force, nor a stored result counts.
    assert_eq!(
        (given.config.int("tile"), given.source, launches),
        (48, Source::Given, 0)
    );
    assert_eq!(forced(|| tile(&operation, 16)), (48, false));
    tile(&machine.operation(), 16);
    assert_eq!(tile(&operation, 16), (48, false));
    let two = Operation {
        given: Some(Config(vec![Value::Int(1); 2])),
        ..machine.operation()
    };
    let error = tuned(&two, |_| Ok::<_, String>(None))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("has 2 values, the space 1 parameters"),
        "{error}"
    );
}

#[test]
fn k5_tests_get_a_given_value_and_can_force_a_tuning_without_the_store() {
    // In tests the tuner answers with a given value at once; a test can force it to run, without
    // the store.
    let machine = Machine::new();
    let file = machine.folder.path("tune.sqlite");
    let stubbed = |how: &str| {
        said(helper(ASKED, &file, |command| {
            _ = command.env("PROMISES_STUB", how);
        }))
    };
    assert_eq!(stubbed("test"), "tile=32 after 0: the value for tests");
    let tuned = stubbed("force");
    assert!(
        tuned.starts_with("tile=16 after ") && tuned.ends_with(": tuned now"),
        "{tuned}"
    );
    assert!(!file.exists(), "nothing was kept");
    // What a store knows does not count either.
    tile(&machine.operation(), 8);
    assert_eq!(stubbed("test"), "tile=32 after 0: the value for tests");
    assert!(stubbed("force").starts_with("tile=16 after "));
    assert_eq!(tile(&machine.operation(), 64), (8, false));
}

#[test]
fn k6_combinations_that_fail_or_are_skipped_cost_nothing_and_the_last_error_is_told() {
    // A combination can be skipped; one that fails is skipped, including the first; if all fail,
    // the last error is reported.
    let machine = Machine::new();
    let first_fails = |config: &Named| match config.int("tile") {
        8 => Err("8 is too small".to_owned()),
        16 => Ok(None),
        tile => Ok(Some(tile as f64)),
    };
    let best = tuned(&machine.operation(), first_fails).unwrap();
    assert_eq!((best.config.int("tile"), best.source), (32, Source::Tuned));
    assert_eq!(
        tuned(&machine.operation(), first_fails)
            .unwrap()
            .config
            .int("tile"),
        32
    );
    // The default may fail, too.
    let machine = Machine::new();
    let operation = Operation {
        default: Some(config(8)),
        ..machine.operation()
    };
    assert_eq!(
        tuned(&operation, first_fails).unwrap().config.int("tile"),
        32
    );
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
    let version = |version| Operation {
        version,
        ..machine.operation()
    };
    assert_eq!(tile(&version(1), 16), (16, true));
    assert_eq!(tile(&version(2), 64), (64, true));
    assert_eq!(tile(&version(1), 8), (16, false));
    assert_eq!(tile(&version(2), 8), (64, false));
}

#[test]
fn k8_the_environment_asks_for_the_nearest_match_and_names_the_store() {
    // An environment variable asks for the nearest match (ignoring driver, then platform, then
    // device), returned without tuning; optionally it is first measured against the default. Any
    // other value means exact. Another variable names the store.
    let mut machine = Machine::new();
    let file = machine.folder.path("tune.sqlite");
    // The operation asks for driver 580.1; nearer results come later, so that not the newest is
    // taken.
    let here = machine.device.clone();
    for (tile_here, device) in [
        (
            8,
            DeviceIdentity {
                name: "NVIDIA H100".to_owned(),
                ..here.clone()
            },
        ),
        (
            32,
            DeviceIdentity {
                platform: "OpenCL".to_owned(),
                ..here.clone()
            },
        ),
        (
            64,
            DeviceIdentity {
                driver: "1".to_owned(),
                ..here
            },
        ),
    ] {
        machine.device = device;
        tile(&machine.operation(), tile_here);
        let nearest = said(helper(ASKED, &file, |command| {
            _ = command.env("PROMISES_TUNE_MATCH", "nearest");
        }));
        assert!(
            nearest.starts_with(&format!("tile={tile_here} after 0: ")),
            "{nearest}"
        );
        assert!(
            nearest.contains(" instead of "),
            "it admits what differs: {nearest}"
        );
    }
    // The helper's default is 8: 64 takes 49 ms, 8 takes 9 ms. It is slower, as 32 is; 8 is no
    // slower than itself.
    let checked = said(helper(ASKED, &file, |command| {
        _ = command.env("PROMISES_TUNE_MATCH", "nearest-checked");
    }));
    assert!(
        checked.starts_with("tile=8 after ") && checked.contains("H100 instead of"),
        "{checked}"
    );
    for value in ["exact", "", "Nearest", "closest"] {
        let copy = machine.folder.path(&format!("{value}.sqlite"));
        std::fs::copy(&file, &copy).unwrap();
        let exact = said(helper(ASKED, &copy, |command| {
            _ = command.env("PROMISES_TUNE_MATCH", value);
        }));
        assert!(
            exact.starts_with("tile=16 after ") && exact.ends_with(": tuned now"),
            "{value}: {exact}"
        );
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
fn k9_each_is_measured_several_times_by_the_time_that_the_caller_takes() {
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
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let of_events = if at == 2 { 1.0 } else { 1.5 };
        Ok::<_, String>(Some(if launches[at] == 1 {
            100.0 * of_events
        } else {
            of_events
        }))
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
    let machine = Machine::new();
    let file = machine.folder.path("tune.sqlite");
    let both = [(); 3].map(|()| {
        helper(ASKED, &file, |command| {
            _ = command.env("PROMISES_SLOW", "1");
        })
    });
    let said = both.map(said);
    assert!(
        said.iter().all(|said| said.starts_with("tile=16 after ")),
        "{said:?}"
    );
    assert_eq!(
        said.iter()
            .filter(|said| said.ends_with(": tuned now"))
            .count(),
        1,
        "{said:?}"
    );
    assert_eq!(
        said.iter()
            .filter(|said| said.contains(" after 0: "))
            .count(),
        2,
        "{said:?}"
    );
}

const ASKED: &str = "promises::first_use::asks_in_another_process";

/// Says what a process answered.
fn said(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let line = text
        .lines()
        .find_map(|line| line.split_once("answer: "))
        .map(|(_, answer)| answer);
    line.unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// Asks for a tile, of which 16 is the fastest, if it is the other process of a test; else does
/// nothing.
#[test]
#[ignore = "started by another test, in a process of its own"]
fn asks_in_another_process() {
    let Some(file) = std::env::var_os("TUNING_STORE_HELPER") else {
        return;
    };
    let machine = Machine::new();
    let mut operation = Operation {
        default: Some(config(8)),
        test: Some(config(32)),
        stores: Some(Locations { user: file.into() }),
        ..machine.operation()
    };
    operation.matching = Matching::choose("promises");
    let slow = std::env::var_os("PROMISES_SLOW").is_some();
    let mut launches = 0;
    let mut ask = || {
        tuned(&operation, |config| {
            launches += 1;
            if slow {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            Ok::<_, String>(Some(1.0 + (config.int("tile") - 16).abs() as f64))
        })
        .unwrap()
    };
    let answer = match std::env::var("PROMISES_STUB").as_deref() {
        Ok("force") => {
            stub();
            forced(ask)
        }
        Ok(_) => {
            stub();
            ask()
        }
        Err(_) => ask(),
    };
    let answer = answer.to_string();
    let (config, origin) = answer.split_once(": ").unwrap();
    println!("answer: {config} after {launches}: {origin}");
}
