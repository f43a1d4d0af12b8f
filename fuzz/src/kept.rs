//! What the programs keep in files and read again: stores, sums of a report, settings, parameter sets.

use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;
use tuner::store::contents::Prune;
use tuner::store::{DeviceIdentity, Matching, Store, Task, TunableIdentity, Workload};
use ut_decoding::cli::config;
use ut_decoding::cli::decode::sets::Sets;
use ut_decoding::cli::report::Sums;
use ut_decoding::decoder::Backend;

use crate::{Bytes, file_of, seeds};

/// A store with changes: bytes replaced, and cut; or whatever file.
pub fn store(data: &[u8]) {
    static STORE: OnceLock<Vec<u8>> = OnceLock::new();
    let mut bytes = Bytes(data);
    let how = bytes.u8();
    let file = if how & 1 == 0 {
        let mut file = STORE.get_or_init(seeds::store).clone();
        while !bytes.is_empty() {
            let place = usize::from(bytes.u16()) % file.len();
            let n = usize::from(bytes.u8() % 9);
            for (to, from) in file[place..].iter_mut().zip(bytes.take(n)) {
                *to = *from;
            }
            if n == 8 && how & 2 != 0 {
                file.truncate(place.max(1));
            }
        }
        file
    } else {
        bytes.0.to_vec()
    };
    let path = file_of("store.db", &file);
    for rest in ["-wal", "-shm", "-journal"] {
        let _ = std::fs::remove_file(Path::new(&format!("{}{rest}", path.display())));
    }
    let opened = if how & 4 == 0 { Store::open_read_only(&path) } else { Store::open(&path) };
    let Ok(mut store) = opened else { return };
    for run in store.runs().unwrap_or_default() {
        let _ = store.run_record(run.record.run);
        let _ = store.observations(run.record.run);
    }
    let _ = store.pins();
    let (space, device) = (seeds::space(), DeviceIdentity::named("a device", "a platform"));
    let (tunable, workload) = (TunableIdentity::new("kernel", 1), Workload::new());
    let task = Task { tunable: &tunable, workload: &workload, device: &device, space: &space };
    for matching in [Matching::Exact, Matching::Nearest] {
        let _ = store.find(&task, matching);
    }
    if let Ok(export) = tuner::interchange::store_json::export(&store, &[]) {
        let _ = serde_json::to_string(&export);
    }
    if how & 4 != 0 {
        let _ = store.prune(&Prune { unfinished: true, ..Prune::default() });
    }
}

/// The sums of a report with changes: numbers, words, lists. What is taken is added to others and to itself.
pub fn sums(data: &[u8]) {
    static SUMS: OnceLock<Value> = OnceLock::new();
    let mut bytes = Bytes(data);
    if bytes.u8() & 1 == 1 {
        let _ = Sums::from_bytes(bytes.0, "x");
        return;
    }
    let whole = SUMS.get_or_init(seeds::sums);
    let mut changed = whole.clone();
    while !bytes.is_empty() {
        change(&mut changed, &mut bytes);
    }
    let packed =
        |value: &Value| zstd::bulk::compress(&serde_json::to_vec(value).expect("JSON"), 1).expect("memory takes it");
    let Ok(mut sums) = Sums::from_bytes(&packed(&changed)[..], "x") else { return };
    let whole = Sums::from_bytes(&packed(whole)[..], "x").expect("they are sound");
    let _ = sums.add(&whole);
    let itself = sums.clone();
    let _ = sums.add(&itself);
    let _ = (sums.wrong_version(), sums.troubles());
    let again = sums.to_bytes().expect("memory takes it");
    Sums::from_bytes(&again[..], "x").expect("what is written is read again");
}

/// Goes down to a member that the next bytes choose, and changes it.
fn change(value: &mut Value, bytes: &mut Bytes<'_>) {
    let choice = bytes.u8();
    match value {
        Value::Object(members) if choice != 255 => {
            let n = members.len().max(1);
            match members.values_mut().nth(usize::from(choice) % n) {
                Some(member) => change(member, bytes),
                None => *value = Value::Null,
            }
        }
        Value::Array(members) if choice < 200 && !members.is_empty() => {
            let place = usize::from(bytes.u16()) % members.len();
            change(&mut members[place], bytes);
        }
        Value::Array(members) if choice < 220 => members.truncate(usize::from(bytes.u16())),
        Value::Array(members) if choice < 240 => {
            if let Some(last) = members.last().cloned() {
                members.resize(members.len() + usize::from(bytes.u8()), last);
            }
        }
        _ => {
            *value = match choice & 7 {
                0 => u64::MAX.into(),
                1 => (u64::MAX / u64::from(bytes.u8().max(1))).into(),
                2 => 0.into(),
                3 => (-1).into(),
                4 => bytes.u32().into(),
                5 => Value::Null,
                6 => 1e300.into(),
                _ => String::from_utf8_lossy(bytes.take(usize::from(choice >> 4))).into_owned().into(),
            }
        }
    }
}

/// `ut-decode.toml`.
pub fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = config::parse(text, Path::new("folder"));
}

/// The sets of several workloads.
pub fn sets(data: &[u8]) {
    for backend in [Backend::Cpu, Backend::Emulated] {
        let _ = Sets::read(&file_of("sets.json", data), backend).map(|sets| (sets.current(), sets.news(), sets.json()));
    }
}
