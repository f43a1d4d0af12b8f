//! What the programs keep in files and read again: stores, sums of a report, settings, parameter sets.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use serde_json::{Value, json};
use tuner::interchange::{read_import, store_json};
use tuner::store::contents::Prune;
use tuner::store::{DeviceIdentity, Matching, Store, Task, TunableIdentity};
use tuner::workloads::Features;
use ut_decoding::bench::tunable;
use ut_decoding::cli::config;
use ut_decoding::cli::decode::sets::Sets;
use ut_decoding::cli::report::Sums;
use ut_decoding::decoder::Backend;

use crate::{Bytes, file_of, seeds};

/// A store in a file, without what the one before left beside it.
fn store_of(name: &str, file: &[u8]) -> PathBuf {
    let path = file_of(name, file);
    for rest in ["-wal", "-shm", "-journal"] {
        let _ = std::fs::remove_file(Path::new(&format!("{}{rest}", path.display())));
    }
    path
}

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
    let path = store_of("store.db", &file);
    let opened = if how & 4 == 0 { Store::open_read_only(&path) } else { Store::open(&path) };
    let Ok(mut store) = opened else { return };
    // One thing an input: all of them would take several times as long.
    match how >> 3 & 3 {
        0 => {
            for run in store.runs().unwrap_or_default() {
                let _ = store.run_record(run.record.run);
                let _ = store.observations(run.record.run);
            }
        }
        1 => {
            let (space, device) = (seeds::space(), DeviceIdentity::named("a device", "a platform"));
            let (tunable, workload) = (TunableIdentity::new("kernel", 1), seeds::workload());
            let task = Task { tunable: &tunable, workload: &workload, device: &device, space: &space };
            for matching in [Matching::Exact, Matching::Nearest] {
                let _ = store.find(&task, matching);
            }
        }
        2 => {
            if let Ok(export) = store_json::export(&store, &[]) {
                let _ = serde_json::to_string(&export);
            }
        }
        _ => {
            if how & 4 != 0 {
                let _ = store.prune(&Prune { unfinished: true, ..Prune::default() });
            }
        }
    }
}

/// What other programs and other machines measured, taken into a store.
pub fn import(data: &[u8]) {
    static EMPTY: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let path = file_of("empty.db", b"");
        drop(Store::open(&path).expect("a new store"));
        std::fs::read(path).expect("the store is there")
    });
    let Ok(read) = read_import(&file_of("import", data)) else { return };
    let mut store = Store::open(&store_of("into.db", &EMPTY)).expect("an empty store");
    let Ok(taken) = store.import(&read.runs) else { return };
    // What was imported can be exported, and importing that changes nothing.
    let again = store_json::export(&store, &[]).expect("what was taken is read");
    let mut text = Vec::new();
    store_json::write(&again, &mut text).expect("memory takes it");
    let text = String::from_utf8(text).expect("JSON is text");
    let parsed = store_json::parse(&text).expect("what is written is read");
    assert_eq!(taken.runs, parsed.runs.len());
    let twice = store.import(&parsed.runs).expect("it is there already");
    assert_eq!((twice.runs, twice.measurements), (0, 0));
}

/// The sums of a report with changes: numbers, words, lists. What is taken is added to others, or to itself.
pub fn sums(data: &[u8]) {
    static SUMS: LazyLock<([(String, Node); 2], Sums)> = LazyLock::new(|| {
        let plain = seeds::sums();
        let mut of_part = plain.clone();
        let known = json!({"i": 2, "section": [0, 900, 3], "events": 3, "hits": 700, "numbers": [0, 2]});
        of_part["parts"] = json!([[{"n": 4, "selection": "", "inputs": [["x.mdf", 900]]}, [known]]]);
        let texts = [plain, of_part].map(|value| {
            let mut text = String::new();
            let nodes = Node::write(&value, &mut text);
            (text, nodes)
        });
        let [sums, _] =
            texts.each_ref().map(|(text, _)| Sums::from_bytes(&packed(text)[..], "x").expect("they are sound"));
        (texts, sums)
    });
    let mut bytes = Bytes(data);
    let how = bytes.u8();
    if how & 1 == 1 {
        let _ = Sums::from_bytes(bytes.0, "x");
        return;
    }
    let (texts, whole) = &*SUMS;
    // What is of a part is not added to itself.
    let (text, nodes) = &texts[usize::from(how & 8 != 0)];
    let mut changes = Vec::new();
    while !bytes.is_empty() {
        changes.push(nodes.change(text, &mut bytes));
    }
    // Of changes that touch each other, the first.
    changes.sort_by_key(|(at, _)| at.start);
    let (mut changed, mut end) = (String::new(), 0);
    for (at, new) in changes {
        if at.start >= end {
            changed.extend([&text[end..at.start], &new]);
            end = at.end;
        }
    }
    changed.push_str(&text[end..]);
    let Ok(mut sums) = Sums::from_bytes(&packed(&changed)[..], "x") else { return };
    let itself = (how & 2 != 0).then(|| sums.clone());
    let _ = sums.add(itself.as_ref().unwrap_or(whole));
    let _ = (sums.wrong_version(), sums.troubles());
    if how & 4 != 0 {
        let again = sums.to_bytes().expect("memory takes it");
        Sums::from_bytes(&again[..], "x").expect("what is written is read again");
    }
}

fn packed(text: &str) -> Vec<u8> {
    zstd::bulk::compress(text.as_bytes(), 1).expect("memory takes it")
}

/// A value of a JSON text: where it is, and what is in it. To make all of the text anew for each input would take most of
/// the time.
struct Node {
    at: Range<usize>,
    members: Vec<Node>,
    is_list: bool,
}

impl Node {
    /// Appends `value` to `text`.
    fn write(value: &Value, text: &mut String) -> Self {
        let (start, mut members) = (text.len(), Vec::new());
        let mut after_comma = |text: &mut String, key: Option<&str>, value| {
            if !members.is_empty() {
                text.push(',');
            }
            if let Some(key) = key {
                text.extend(["\"", key, "\":"]);
            }
            members.push(Self::write(value, text));
        };
        match value {
            Value::Object(of) => {
                text.push('{');
                for (key, value) in of {
                    after_comma(text, Some(key), value);
                }
                text.push('}');
            }
            Value::Array(of) => {
                text.push('[');
                for value in of {
                    after_comma(text, None, value);
                }
                text.push(']');
            }
            _ => text.push_str(&value.to_string()),
        }
        Self { at: start..text.len(), members, is_list: value.is_array() }
    }

    /// Goes down to a value that the next bytes choose, and gives its place and what it becomes.
    fn change(&self, text: &str, bytes: &mut Bytes<'_>) -> (Range<usize>, String) {
        let (choice, n) = (bytes.u8(), self.members.len());
        if n > 0 && choice < 200 {
            let place = if self.is_list { usize::from(bytes.u16()) } else { usize::from(choice) };
            return self.members[place % n].change(text, bytes);
        }
        let new = match choice & 7 {
            // A list with fewer members, or with the last one often.
            _ if self.is_list && n > 0 && choice < 220 => {
                let left = usize::from(bytes.u16()).min(n);
                text[self.at.start..left.checked_sub(1).map_or(self.at.start + 1, |last| self.members[last].at.end)]
                    .to_owned()
                    + "]"
            }
            _ if self.is_list && n > 0 && choice < 240 => {
                let last = format!(",{}", &text[self.members[n - 1].at.clone()]);
                format!("{}{}]", &text[self.at.start..self.at.end - 1], last.repeat(usize::from(bytes.u8())))
            }
            0 => u64::MAX.to_string(),
            1 => (u64::MAX / u64::from(bytes.u8().max(1))).to_string(),
            2 => "0".to_owned(),
            3 => "-1".to_owned(),
            4 => bytes.u32().to_string(),
            5 => "null".to_owned(),
            6 => "1e300".to_owned(),
            _ => Value::from(String::from_utf8_lossy(bytes.take(usize::from(choice >> 4)))).to_string(),
        };
        (self.at.clone(), new)
    }
}

/// `ut-decode.toml`.
pub fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = config::parse(text, Path::new("folder"));
}

/// The sets of several workloads. Those of another machine are refused at once: `@` becomes the name of this one.
pub fn sets(data: &[u8]) {
    static HERE: LazyLock<String> = LazyLock::new(|| {
        let here = tunable::device(Backend::Cpu).expect("there is a CPU").name;
        Value::from(here).to_string().trim_matches('"').to_owned()
    });
    let file = file_of("sets.json", String::from_utf8_lossy(data).replace('@', &HERE).as_bytes());
    for backend in [Backend::Cpu, Backend::Emulated] {
        let Ok(sets) = Sets::read(&file, backend) else { continue };
        for hits in [0.0, 100.0, 1e300] {
            let set = sets.current();
            let _ = sets.configuration(set);
            sets.look(set, &Features::from([("hits_per_event", hits)]));
        }
        let _ = (sets.news(), sets.json());
    }
}
