//! Targets for text that people and programs write for the tuner and the tool.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tuner::chain::file::ChainFile;
use tuner::chain::{Chain, Member};
use tuner::expression::Expr;
use tuner::store::{DeviceIdentity, Finding, Plan, Store, Task, TunableIdentity, Workload};
use tuner::{Outcome, Space, SpaceBuilder, from_fn};
use tuner_score::interchange::{import, read_recording};
use ut_decoding::cli::config;
use ut_decoding::detector::Mask;
use ut_decoding::{BankVersion, DetectorTables, Grouping, synth};

use crate::{Bytes, file_of};

/// Maximum number of combinations of a space. Building a larger space would take minutes.
const MOST_COMBINATIONS: u64 = 1 << 16;

/// Writes the file of a store, and removes the logs that an earlier store left.
fn store_of(bytes: &[u8]) -> PathBuf {
    let path = file_of("store.db", bytes);
    for log in ["-wal", "-shm", "-journal"] {
        _ = std::fs::remove_file(format!("{}{log}", path.display()));
    }
    path
}

/// Calls `with` with the task of the runs in [`STORE`].
fn with_task<T>(with: impl FnOnce(&Task<'_>) -> T) -> T {
    let (device, tunable) = (
        DeviceIdentity::named("a GPU", "CUDA"),
        TunableIdentity::new("decode", 1),
    );
    let (workload, space) = (
        Workload::new().with("events", 1000).expect("it is finite"),
        space(),
    );
    with(&Task {
        device: &device,
        tunable: &tunable,
        workload: &workload,
        space: &space,
    })
}

/// Bytes of a store with a decided run and an unfinished one.
static STORE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let path = store_of(b"");
    let mut store = Store::open(&path).expect("a new store");
    with_task(|task| {
        let [default, other] = [0, 1].map(|index| task.space.config(index));
        let finding = Finding {
            plan: Plan {
                strategy: "random".to_owned(),
                ..Plan::default()
            },
            default: default.clone(),
            proposed: default.clone(),
            samples: vec![(default, vec![1.0, 1.25]), (other, vec![2.0, 0.1])],
            failed: Vec::new(),
            comparison: None,
            launches: 4,
            stopped: "the work ended".to_owned(),
        };
        store.keep(task, &finding).expect("it can be kept");
        drop(store.begin(task, &finding.plan).expect("it can be begun"));
    });
    drop(store);
    std::fs::read(path).expect("the store is there")
});

/// Imports a text into a store, or reads a store in which bytes were changed.
pub fn store(data: &[u8]) {
    let mut bytes = Bytes(data);
    let how = bytes.u8();
    if how & 1 == 1 {
        return import_twice(bytes.0);
    }
    let mut file = STORE.clone();
    while !bytes.0.is_empty() {
        let (place, n) = (
            usize::from(bytes.u16()) % file.len(),
            usize::from(bytes.u8() % 9),
        );
        file[place..]
            .iter_mut()
            .zip(bytes.take(n))
            .for_each(|(to, from)| *to = *from);
        if n == 8 && how & 2 != 0 {
            file.truncate(place.max(1));
        }
    }
    let path = store_of(&file);
    let opened = if how & 4 == 0 {
        Store::open_existing(&path)
    } else {
        Store::open(&path)
    };
    let Ok(store) = opened else { return };
    // Each input is read in one way only: all ways would take several times as long.
    if how >> 3 & 1 == 0 {
        for run in store.runs().unwrap_or_default() {
            _ = (
                store.run_record(run.record.run),
                store.observations(run.record.run),
            );
        }
    } else {
        _ = with_task(|task| store.find(task).map(|found| found.len()));
    }
}

/// Imports a recording; importing it again must change nothing.
fn import_twice(data: &[u8]) {
    let Ok(recording) = read_recording(&file_of("import", data)) else {
        return;
    };
    let mut store = Store::open(&store_of(b"")).expect("an empty store");
    if import(&mut store, &recording).is_ok() {
        assert_eq!(
            import(&mut store, &recording).expect("it is there already"),
            0
        );
        assert_eq!(store.runs().expect("it was written").len(), 1);
    }
}

fn space() -> Space {
    let text = "[[parameter]]\nname = \"block\"\nvalues = [32, 64]\n[[parameter]]\nname = \"mode\"\nvalues = [\"a\", \"b\"]\n";
    tuner::parse_toml(text)
        .expect("a sound space")
        .build()
        .expect("a sound space")
}

/// Reads a text as mask, expression, space, chain, recording or settings, as its first byte says.
pub fn text(data: &[u8]) {
    let Some((&what, data)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match what % 7 {
        0 => mask(text),
        1 => expression(text),
        2 => {
            let is_small =
                |of: &SpaceBuilder| of.combinations().is_none_or(|n| n <= MOST_COMBINATIONS);
            _ = tuner::parse_toml(text)
                .ok()
                .filter(is_small)
                .map(|of| of.build());
        }
        3 => {
            let Ok(file) = ChainFile::read(&file_of("chain.toml", data)) else {
                return;
            };
            let member = |name: &'static str| Member {
                name: name.to_owned(),
                prefix: name.to_owned(),
                device: Box::new(from_fn(name, |_, launches| {
                    Outcome::Times(vec![1.0; launches])
                })),
                space: space(),
                default: None,
                apart: name == "b",
            };
            if let Ok(chain) = Chain::new(["a", "b"].map(member).into(), &file, &BTreeMap::new()) {
                chain
                    .groups()
                    .iter()
                    .for_each(|group| _ = chain.space_of(group));
            }
        }
        4 => _ = read_recording(&file_of("recording", data)),
        _ => _ = config::parse(text, Path::new("folder")),
    }
}

fn mask(text: &str) {
    static TABLES: LazyLock<DetectorTables> = LazyLock::new(|| {
        let (boards, geometry) = synth::detector(BankVersion::V5, 1);
        DetectorTables::new(boards, geometry, Grouping::YRows)
            .expect("the synthetic detector is sound")
    });
    if let Ok(mask) = Mask::parse(text, &TABLES) {
        // Testing all channels would take long.
        let listed = (0..1 << 21)
            .step_by(61)
            .filter(|channel| mask.contains(3 << 28 | channel))
            .count();
        assert!(listed as u64 <= mask.n_strips(), "strips of the mask");
    }
}

fn expression(text: &str) {
    let named = |name: &str| {
        ["a", "b"]
            .iter()
            .position(|known| *known == name)
            .map(Expr::Slot)
    };
    let Ok(parsed) = Expr::parse(text, &named) else {
        return;
    };
    for values in [[0, 1], [7, -3], [i64::MAX, i64::MIN]] {
        _ = parsed.evaluate(&values.map(Into::into));
    }
}
