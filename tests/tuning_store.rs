//! The store: what is found again, by whom, and what becomes of a file that is killed, shared, old, damaged or foreign.
#![cfg(feature = "tuning")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;
use ut_decoding::tuning::space::Space;
use ut_decoding::tuning::store::contents::Prune;
use ut_decoding::tuning::store::layers::{Layers, Locations};
use ut_decoding::tuning::store::{
    Contender, DeviceIdentity, Evidence, Matching, Observation, Origin, Plan, Recorder, Relaxed, Store, StoreError,
    Task, TunableIdentity, Workload,
};
use ut_decoding::tuning::synthetic::Synthetic;
use ut_decoding::tuning::{Config, Device, Failure, FailureKind, Outcome, Value};

struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("tune.sqlite")
    }

    fn store(&self) -> Store {
        Store::open(&self.file()).unwrap()
    }
}

fn h200() -> DeviceIdentity {
    DeviceIdentity {
        name: "NVIDIA H200".to_owned(),
        uuid: "GPU-1".to_owned(),
        compute_capability: "9.0".to_owned(),
        sm_count: 132,
        driver: "580.1".to_owned(),
        runtime: "13.0".to_owned(),
        platform: "CUDA".to_owned(),
    }
}

fn space() -> Space {
    let names = ["block", "mode"].map(str::to_owned);
    let rows: Vec<Vec<Value>> =
        [32, 64, 128].iter().flat_map(|&b| ["a", "b"].map(|mode| vec![Value::Int(b), Value::from(mode)])).collect();
    Space::recorded(&names, &rows).unwrap().0
}

fn config(block: i64, mode: &str) -> Config {
    Config(vec![Value::Int(block), Value::from(mode)])
}

fn plan() -> Plan {
    Plan { strategy: "random".to_owned(), seed: 7, budget: "10 evaluations".to_owned() }
}

fn times(config: Config, times: &[f64]) -> Observation {
    Observation { config, launches: times.len(), outcome: Outcome::Times(times.to_vec()), took_ms: 1.5 }
}

fn evidence(config: Config, time_ms: f64) -> Evidence {
    Evidence {
        chosen: Contender { config, time_ms, interval_ms: Some((time_ms * 0.9, time_ms * 1.1)), samples: 5 },
        default: None,
        runner_up: None,
        tried: 3,
        failed: 1,
        valid: 6,
        launches: 15,
        stopped: "the budget".to_owned(),
        expected_gain: Some(0.01),
        verdict: "better".to_owned(),
    }
}

type Change = fn(&mut DeviceIdentity);

/// Everything a task needs, to be changed one thing at a time.
#[derive(Clone)]
struct Key {
    device: DeviceIdentity,
    tunable: TunableIdentity,
    workload: Workload,
    space: Space,
}

impl Key {
    fn new() -> Self {
        let workload = Workload::new().with("events", 1000).unwrap().with("layout", "mep").unwrap();
        Self { device: h200(), tunable: TunableIdentity::new("decode", 3), workload, space: space() }
    }

    fn task(&self) -> Task<'_> {
        Task { device: &self.device, tunable: &self.tunable, workload: &self.workload, space: &self.space }
    }

    /// Decides for a configuration.
    fn decided(&self, store: &mut Store, block: i64) -> i64 {
        let mut run = store.begin(&self.task(), &plan()).unwrap();
        store.record(&mut run, &times(config(block, "a"), &[1.0, 1.25])).unwrap();
        let id = run.id();
        store.decide(run, &evidence(config(block, "a"), 1.0)).unwrap();
        id
    }

    /// What is found first: its block, and what was relaxed.
    fn found(&self, store: &Store, matching: Matching) -> Option<(Value, Vec<Relaxed>)> {
        let found = store.find(&self.task(), matching).unwrap().into_iter().next()?;
        Some((found.config.0[0].clone(), found.relaxed))
    }
}

#[test]
fn what_was_measured_and_decided_is_there_after_opening_again() {
    let folder = Folder::new();
    let key = Key::new();
    let observations = [
        times(config(32, "a"), &[0.1, f64::MIN_POSITIVE, 1e300]),
        Observation {
            config: config(64, "b"),
            launches: 3,
            outcome: Outcome::Failed(Failure { kind: FailureKind::WrongResult, message: "hit 3, ü".to_owned() }),
            took_ms: 0.0,
        },
        times(config(32, "a"), &[]),
    ];
    let id = {
        let mut store = folder.store();
        let mut run = store.begin(&key.task(), &plan()).unwrap();
        for observation in &observations {
            store.record(&mut run, observation).unwrap();
        }
        let id = run.id();
        store.decide(run, &evidence(config(32, "a"), 0.1)).unwrap();
        id
    };
    let store = Store::open_read_only(&folder.file()).unwrap();
    assert_eq!(store.observations(id).unwrap(), observations);
    let record = store.run_record(id).unwrap();
    assert_eq!((record.device, record.tunable, record.workload), (key.device, key.tunable, key.workload));
    assert_eq!(record.plan, plan());
    assert_eq!(record.decision, Some(evidence(config(32, "a"), 0.1)));
    assert!(store.lock_files().is_empty(), "a run that is over leaves no lock");
}

#[test]
fn exact_wants_everything_the_same_and_ignores_the_uuid() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = Key::new();
    key.decided(&mut store, 64);
    let mut twin = key.clone();
    twin.device.uuid = "GPU-2".to_owned();
    assert_eq!(twin.found(&store, Matching::Exact), Some((Value::Int(64), vec![])));
    let changes: [fn(&mut Key); 7] = [
        |key| key.device.driver = "581".to_owned(),
        |key| key.device.runtime = "13.1".to_owned(),
        |key| key.device.platform = "HIP".to_owned(),
        |key| key.device.name = "NVIDIA H100".to_owned(),
        |key| key.device.sm_count = 66,
        |key| key.device.compute_capability = "10.0".to_owned(),
        |key| key.workload = key.workload.clone().with("events", 2000).unwrap(),
    ];
    for change in changes {
        let mut other = key.clone();
        change(&mut other);
        assert_eq!(other.found(&store, Matching::Exact), None);
    }
}

#[test]
fn nearest_relaxes_driver_then_runtime_and_platform_then_device_then_capability_and_says_so() {
    let steps: [(u8, Change); 4] = [
        (4, |device| {
            device.name = "NVIDIA A100".to_owned();
            device.compute_capability = "8.0".to_owned();
        }),
        (3, |device| device.name = "NVIDIA H100".to_owned()),
        (2, |device| device.runtime = "12.8".to_owned()),
        (1, |device| device.driver = "575".to_owned()),
    ];
    let folder = Folder::new();
    let mut store = folder.store();
    let here = Key::new();
    // The farthest first, each nearer one then takes its place; the newest is never what decides.
    let mut blocks = [32, 64, 128].into_iter().cycle();
    for (step, change) in steps {
        let mut other = here.clone();
        change(&mut other.device);
        let block = blocks.next().unwrap();
        other.decided(&mut store, block);
        let found = store.find(&here.task(), Matching::Nearest).unwrap();
        assert_eq!(found[0].config, config(block, "a"), "step {step}");
        assert_eq!(found[0].step(), step);
        assert_eq!(found[0].relaxed.last().unwrap().step(), step);
        assert!(found.windows(2).all(|pair| pair[0].step() <= pair[1].step()));
    }
    let words = store.find(&here.task(), Matching::Nearest).unwrap()[0].relaxed[0].to_string();
    assert_eq!(words, "driver 575 instead of 580.1");
    // A nearer one that is older still comes first, and an exact one before all.
    here.decided(&mut store, 128);
    let mut far = here.clone();
    far.device.name = "NVIDIA H100".to_owned();
    far.decided(&mut store, 32);
    assert_eq!(here.found(&store, Matching::Nearest), Some((Value::Int(128), vec![])));
}

#[test]
fn of_equally_near_results_the_newest_counts() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = Key::new();
    for block in [32, 128, 64] {
        key.decided(&mut store, block);
        assert_eq!(key.found(&store, Matching::Exact).unwrap().0, Value::Int(block));
    }
}

#[test]
fn another_version_or_other_code_is_never_found_and_stays_in_the_store() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = Key::new();
    key.decided(&mut store, 64);
    let mut newer = key.clone();
    newer.tunable.version += 1;
    let mut recoded = key.clone();
    recoded.tunable.kernel_hash = "abc".to_owned();
    for other in [&newer, &recoded] {
        assert_eq!(other.found(&store, Matching::Nearest), None);
    }
    newer.decided(&mut store, 32);
    let runs = store.runs().unwrap();
    assert_eq!(runs.iter().map(|run| run.retired).collect::<Vec<_>>(), [true, false]);
    assert!(key.found(&store, Matching::Exact).is_some());
}

#[test]
fn keys_are_numbers_strings_enums_and_the_place_of_the_call() {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "lowercase")]
    enum Layout {
        Mep,
        Allen,
    }
    let folder = Folder::new();
    let mut store = folder.store();
    let with = |workload: Workload| Key { workload, ..Key::new() };
    let base = || Workload::new().with("n", 5).unwrap().with("x", 0.5).unwrap();
    let workloads = [
        base(),
        base().with_enum("layout", &Layout::Mep).unwrap(),
        base().with_enum("layout", &Layout::Allen).unwrap(),
        base().with("layout", 1).unwrap(),
        base().with("layout", true).unwrap(),
        base().at("first kernel"),
        base().at_caller(),
        base().at_caller(),
        base().with("n", 5.0).unwrap(),
    ];
    for (at, workload) in workloads.iter().enumerate() {
        let key = with(workload.clone());
        assert_eq!(key.found(&store, Matching::Nearest), None, "{at}: {workload}");
        key.decided(&mut store, 32);
    }
    // The order in which keys are given does not matter.
    let turned = Workload::new().with("x", 0.5).unwrap().with("n", 5).unwrap();
    assert!(with(turned).found(&store, Matching::Exact).is_some());
    assert!(workloads[6].place().starts_with("tests/tuning_store.rs:"), "{}", workloads[6].place());
    assert!(Workload::new().with("x", f64::NAN).is_err());
    assert!(Workload::new().with_enum("x", &vec![1]).is_err());
}

#[test]
fn a_configuration_is_found_by_the_names_of_its_parameters_and_only_if_the_space_still_has_it() {
    let folder = Folder::new();
    let mut store = folder.store();
    Key::new().decided(&mut store, 64);
    let recorded = |names: [&str; 2], rows: &[[Value; 2]]| {
        let rows: Vec<Vec<Value>> = rows.iter().map(|row| row.to_vec()).collect();
        Key { space: Space::recorded(&names.map(str::to_owned), &rows).unwrap().0, ..Key::new() }
    };
    let (a, b) = (Value::from("a"), Value::from("b"));
    let turned = recorded(["mode", "block"], &[[a.clone(), Value::Int(64)], [b.clone(), Value::Int(32)]]);
    let found = store.find(&turned.task(), Matching::Exact).unwrap();
    assert_eq!(found[0].config, Config(vec![a.clone(), Value::Int(64)]));
    let without = recorded(["mode", "block"], &[[a.clone(), Value::Int(32)], [b, Value::Int(64)]]);
    assert!(store.find(&without.task(), Matching::Exact).unwrap().is_empty());
    let renamed = recorded(["mode", "blocks"], &[[a, Value::Int(64)]]);
    assert!(store.find(&renamed.task(), Matching::Exact).unwrap().is_empty());
}

#[test]
fn a_pin_comes_before_what_was_measured_and_outlives_the_driver_but_not_the_device() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = Key::new();
    let run = key.decided(&mut store, 64);
    store.pin(run, &config(128, "b"), "asked by the shift").unwrap();
    assert!(matches!(store.pin(run, &config(127, "b"), ""), Err(StoreError::Missing { .. })));
    store.pin(run, &config(32, "b"), "asked again").unwrap();
    let mut updated = key.clone();
    updated.device.driver = "600".to_owned();
    updated.decided(&mut store, 128);
    for key in [&key, &updated] {
        let found = store.find(&key.task(), Matching::Exact).unwrap();
        assert_eq!(found[0].config, config(32, "b"));
        assert_eq!(found[0].origin, Origin::Pinned { reason: "asked again".to_owned() });
    }
    let mut other = key.clone();
    other.device.name = "NVIDIA H100".to_owned();
    assert!(matches!(store.find(&other.task(), Matching::Nearest).unwrap()[0].origin, Origin::Decided { .. }));
    let pins = store.pins().unwrap();
    assert_eq!(pins.len(), 1);
    store.unpin(pins[0].pin).unwrap();
    assert!(matches!(store.unpin(pins[0].pin), Err(StoreError::Missing { .. })));
    assert_eq!(key.found(&store, Matching::Exact).unwrap().0, Value::Int(64));
}

#[test]
fn pruning_removes_what_is_asked_and_nothing_that_is_still_measured() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = Key::new();
    let mut newer = key.clone();
    newer.tunable.version += 1;
    let mut other = key.clone();
    other.tunable.name = "sort".to_owned();
    let (old, new, sort) = (key.decided(&mut store, 32), newer.decided(&mut store, 64), other.decided(&mut store, 128));
    let unfinished = store.begin(&newer.task(), &plan()).unwrap();
    assert_eq!(store.prune(&Prune { retired: true, ..Prune::default() }).unwrap(), [old]);
    assert_eq!(store.prune(&Prune { unfinished: true, ..Prune::default() }).unwrap(), [0; 0]);
    let id = unfinished.id();
    drop(unfinished);
    assert_eq!(store.prune(&Prune { unfinished: true, ..Prune::default() }).unwrap(), [id]);
    assert_eq!(store.prune(&Prune { older_than_days: Some(1), ..Prune::default() }).unwrap(), [0; 0]);
    assert_eq!(store.prune(&Prune { tunable: Some("sort".to_owned()), ..Prune::default() }).unwrap(), [sort]);
    assert!(matches!(store.prune(&Prune { runs: vec![old], ..Prune::default() }), Err(StoreError::Missing { .. })));
    assert_eq!(store.prune(&Prune { runs: vec![new], ..Prune::default() }).unwrap(), [new]);
    assert!(store.runs().unwrap().is_empty() && store.lock_files().is_empty());
    let connection = Connection::open(folder.file()).unwrap();
    for table in ["devices", "tunables", "spaces", "workloads", "runs", "configurations", "measurements", "decisions"] {
        let rows: i64 = connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

#[test]
fn what_cannot_be_stored_exactly_is_refused() {
    let folder = Folder::new();
    let mut store = folder.store();
    let key = Key::new();
    let mut run = store.begin(&key.task(), &plan()).unwrap();
    for observation in [
        times(config(32, "a"), &[1.0, f64::NAN]),
        times(Config(vec![Value::Float(f64::INFINITY), Value::from("a")]), &[1.0]),
        Observation { took_ms: f64::NAN, ..times(config(32, "a"), &[1.0]) },
    ] {
        assert!(matches!(store.record(&mut run, &observation), Err(StoreError::BadKey { .. })));
    }
    assert_eq!(run.measurements(), 0);
}

// ---- layers ----

#[test]
fn the_shipped_store_answers_where_the_users_has_nothing_as_near_and_is_never_written() {
    let (users, shipped) = (Folder::new(), Folder::new());
    let key = Key::new();
    key.decided(&mut shipped.store(), 128);
    let before = std::fs::read(shipped.file()).unwrap();
    let locations =
        |user: &Folder| Locations { user: user.file(), shipped: Some(shipped.file()), matching: Matching::Nearest };
    let first = |layers: &Layers| layers.find(&key.task()).unwrap()[0].clone();
    let layers = Layers::open(locations(&users)).unwrap();
    assert_eq!(first(&layers).config, config(128, "a"));
    assert_eq!(first(&layers).file, shipped.file());
    assert!(!users.file().exists(), "looking makes no store");
    // The user's, but farther.
    let mut far = key.clone();
    far.device.driver = "1".to_owned();
    far.decided(&mut users.store(), 32);
    let mut layers = Layers::open(locations(&users)).unwrap();
    assert_eq!(first(&layers).config, config(128, "a"));
    // The user's, as near.
    key.decided(layers.writable().unwrap(), 64);
    assert_eq!(first(&layers).config, config(64, "a"));
    assert_eq!(std::fs::read(shipped.file()).unwrap(), before);
    assert!(matches!(
        Store::open_read_only(&shipped.file()).unwrap().begin(&key.task(), &plan()),
        Err(StoreError::CannotOpen { .. })
    ));
}

#[cfg(unix)]
#[test]
fn a_shipped_store_may_lie_in_a_folder_that_nobody_may_write() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let key = Key::new();
    key.decided(&mut folder.store(), 128);
    let set = |mode| std::fs::set_permissions(folder.folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o555);
    let found = Store::open_read_only(&folder.file()).map(|store| key.found(&store, Matching::Exact));
    set(0o755);
    assert_eq!(found.unwrap().unwrap().0, Value::Int(128));
}

// ---- files that are not what they should be ----

/// All errors of opening, and that they leave the file as it was.
fn refused(file: &Path) -> [StoreError; 2] {
    let before = std::fs::read(file).unwrap();
    let errors =
        [Store::open_waiting(file, Duration::from_millis(50)).unwrap_err(), Store::open_read_only(file).unwrap_err()];
    assert_eq!(std::fs::read(file).unwrap(), before, "the file was changed");
    for error in &errors {
        assert!(error.to_string().starts_with(&file.display().to_string()), "{error}");
    }
    errors
}

#[test]
fn a_file_that_is_no_store_is_left_alone() {
    let folder = Folder::new();
    let file = folder.file();
    for content in [&b"x"[..], b"# my notes\n", &[0; 4096]] {
        std::fs::write(&file, content).unwrap();
        assert!(refused(&file).iter().all(|error| matches!(error, StoreError::Foreign { .. })));
    }
}

#[test]
fn another_programs_database_is_left_alone_with_its_journals() {
    for (id, wal) in [(0, false), (0x1234, false), (0, true)] {
        let folder = Folder::new();
        let file = folder.file();
        let connection = Connection::open(&file).unwrap();
        if wal {
            connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        }
        connection.execute_batch("CREATE TABLE notes (text); INSERT INTO notes VALUES ('dear diary')").unwrap();
        connection.pragma_update(None, "application_id", id).unwrap();
        let log = folder.folder.path().join("tune.sqlite-wal");
        let before = std::fs::read(&log).ok();
        assert!(refused(&file).iter().all(|error| matches!(error, StoreError::Foreign { .. })));
        assert_eq!(std::fs::read(&log).ok(), before);
    }
}

#[test]
fn a_newer_schema_is_left_alone() {
    let folder = Folder::new();
    drop(folder.store());
    let connection = Connection::open(folder.file()).unwrap();
    connection.pragma_update(None, "user_version", 1000).unwrap();
    drop(connection);
    let errors = refused(&folder.file());
    assert!(errors.iter().all(|error| matches!(error, StoreError::Newer { found: 1000, .. })), "{errors:?}");
}

#[test]
fn a_damaged_file_is_refused_and_left_alone() {
    let folder = Folder::new();
    let key = Key::new();
    for _ in 0..40 {
        key.decided(&mut folder.store(), 64);
    }
    let whole = std::fs::read(folder.file()).unwrap();
    assert!(!folder.folder.path().join("tune.sqlite-wal").exists());
    let file = folder.file();
    let mut errors = 0;
    for cut in [whole.len() - 4096, whole.len() / 2, 4096, 1000, 200] {
        std::fs::write(&file, &whole[..cut]).unwrap();
        let error = Store::open(&file).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Foreign { .. }), "cut to {cut}: {error}");
        assert_eq!(std::fs::read(&file).unwrap(), &whole[..cut]);
    }
    // Whatever page is overwritten: an error, or (a free or unused place) a store; never a panic, and never a change.
    for page in 0..whole.len() / 4096 {
        let mut damaged = whole.clone();
        damaged[page * 4096 + 100..(page + 1) * 4096].fill(0xa5);
        std::fs::write(&file, &damaged).unwrap();
        if let Err(error) = Store::open(&file).and_then(|store| store.runs()) {
            assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Foreign { .. }), "page {page}: {error}");
            assert_eq!(std::fs::read(&file).unwrap(), damaged);
            errors += 1;
        }
    }
    assert!(errors > whole.len() / 4096 / 2, "{errors}");
}

#[test]
fn a_locked_file_is_an_error_that_says_so_and_works_again_afterwards() {
    let folder = Folder::new();
    let key = Key::new();
    key.decided(&mut folder.store(), 64);
    let holder = Connection::open(folder.file()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut store = Store::open_waiting(&folder.file(), Duration::from_millis(30)).unwrap();
    let error = store.begin(&key.task(), &plan()).unwrap_err();
    assert!(matches!(error, StoreError::Locked { waited_ms: 30, .. }), "{error}");
    assert!(key.found(&store, Matching::Exact).is_some(), "readers do not wait for a writer");
    holder.execute_batch("COMMIT").unwrap();
    key.decided(&mut store, 32);
}

#[test]
fn folders_are_made_and_what_cannot_be_made_is_said() {
    let folder = Folder::new();
    let deep = folder.folder.path().join("a/b/tune.sqlite");
    drop(Store::open(&deep).unwrap());
    std::fs::write(folder.folder.path().join("plain"), "").unwrap();
    let error = Store::open(&folder.folder.path().join("plain/tune.sqlite")).unwrap_err();
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error}");
    assert!(matches!(Store::open_read_only(&folder.file()), Err(StoreError::Missing { .. })));
    // An empty file is what a program that was killed at once leaves.
    std::fs::write(folder.file(), "").unwrap();
    drop(folder.store());
}

// ---- processes ----

/// This test program again, as another process that runs one of the helpers below.
fn helper(name: &str, file: &Path, extra: &[(&str, String)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env("TUNING_STORE_HELPER", file)
        .envs(extra.iter().map(|(name, value)| (*name, value.as_str())))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// The store that a helper is to use; nothing if this is no helper.
fn asked() -> Option<PathBuf> {
    std::env::var_os("TUNING_STORE_HELPER").map(PathBuf::from)
}

const STEPS: usize = 120;

fn synthetic_key() -> (Key, Synthetic) {
    let synthetic = Synthetic::new("seed=11,noise=0.05,outliers=0.02,fail=0.1,wrong=0.05".parse().unwrap());
    let key = Key { space: synthetic.space().clone(), ..Key::new() };
    (key, synthetic)
}

/// Proposals that depend on every bit of everything observed before.
fn next(seed: u64, seen: &[Outcome], configurations: usize) -> usize {
    let mut hash = seed;
    for byte in seen.iter().flat_map(|outcome| serde_json::to_vec(outcome).unwrap()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }
    (hash % configurations as u64) as usize
}

/// A device whose samples do not depend on what it measured before, as a real one's hardly do.
struct Fresh(Synthetic);

impl Device for Fresh {
    fn name(&self) -> String {
        self.0.name()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        std::thread::sleep(Duration::from_micros(300));
        self.0.clone().measure(config, launches)
    }
}

/// Tunes, continuing what is unfinished; says every completed measurement.
fn tune(file: &Path, mut said: impl FnMut(usize)) -> Vec<Outcome> {
    let (key, synthetic) = synthetic_key();
    let mut device = Fresh(synthetic);
    let mut store = Store::open(file).unwrap();
    let mut recorder = Recorder::start(&mut device, &mut store, &key.task(), &plan(), false).unwrap();
    let mut seen = Vec::new();
    while seen.len() < STEPS {
        let config = key.space.config(next(plan().seed, &seen, key.space.len()));
        let live = recorder.is_live();
        seen.push(recorder.measure(&config, 3));
        if let Some(error) = recorder.take_error() {
            panic!("{error}");
        }
        if live {
            said(seen.len());
        }
    }
    recorder.finish(Some(&evidence(key.space.config(0), 1.0))).unwrap();
    seen
}

#[test]
fn helper_that_tunes() {
    if let Some(file) = asked() {
        tune(&file, |done| println!("\ndone {done}"));
        println!("\nfinished");
    }
}

#[test]
fn killed_at_random_moments_no_completed_measurement_is_lost_and_it_goes_on_as_if_nothing_had_been() {
    if asked().is_some() {
        return;
    }
    let undisturbed = tune(&Folder::new().file(), |_| {});
    let mut random = 12345u64;
    let mut kills = 0;
    while kills < 200 {
        let folder = Folder::new();
        let mut done = 0;
        loop {
            let mut child = helper("helper_that_tunes", &folder.file(), &[]);
            let output = BufReader::new(child.stdout.take().unwrap());
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let microseconds = (random >> 33) % 30_000;
            let killer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(microseconds));
                child.kill().unwrap();
                child.wait().unwrap()
            });
            let mut finished = false;
            for line in output.lines().map_while(Result::ok) {
                finished |= line == "finished";
                if let Some(number) = line.strip_prefix("done ").and_then(|number| number.parse().ok()) {
                    done = number;
                }
            }
            killer.join().unwrap();
            if !folder.file().exists() {
                kills += 1;
                continue;
            }
            let store = folder.store();
            let runs = store.runs().unwrap();
            assert!(runs.len() <= 1, "it was begun anew");
            let Some(run) = runs.first() else {
                assert_eq!(done, 0);
                kills += 1;
                continue;
            };
            let kept = store.observations(run.record.run).unwrap();
            assert!(kept.len() >= done, "{done} were done and {} kept", kept.len());
            for (kept, undisturbed) in kept.iter().zip(&undisturbed) {
                assert_eq!(&kept.outcome, undisturbed);
            }
            if finished || run.record.finished.is_some() {
                assert_eq!(kept.len(), STEPS);
                break;
            }
            kills += 1;
        }
    }
}

#[test]
fn helper_that_writes() {
    let Some(file) = asked() else { return };
    let number: i64 = std::env::var("TUNING_STORE_NUMBER").unwrap().parse().unwrap();
    let mut key = Key::new();
    key.workload = key.workload.with("process", number).unwrap();
    let mut store = Store::open(&file).unwrap();
    let mut run = store.begin(&key.task(), &plan()).unwrap();
    for at in 0..50 {
        store.record(&mut run, &times(config(32, "b"), &[number as f64, f64::from(at)])).unwrap();
    }
    store.decide(run, &evidence(config(32, "b"), 1.0)).unwrap();
}

#[test]
fn eight_processes_write_one_new_store_at_once() {
    if asked().is_some() {
        return;
    }
    let folder = Folder::new();
    let start =
        |number: i64| helper("helper_that_writes", &folder.file(), &[("TUNING_STORE_NUMBER", number.to_string())]);
    let children: Vec<Child> = (0..8).map(start).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let store = folder.store();
    let runs = store.runs().unwrap();
    assert_eq!(runs.len(), 8);
    for run in runs {
        let number = match run.record.workload.keys()["process"] {
            Value::Int(number) => number as f64,
            ref other => panic!("{other}"),
        };
        let kept = store.observations(run.record.run).unwrap();
        let expected: Vec<Observation> = (0..50).map(|at| times(config(32, "b"), &[number, f64::from(at)])).collect();
        assert_eq!(kept, expected);
    }
}

/// A device that nobody may ask.
struct Never;
impl Device for Never {
    fn name(&self) -> String {
        "never".to_owned()
    }
    fn measure(&mut self, config: &Config, _: usize) -> Outcome {
        panic!("{config:?} is measured again")
    }
}

#[test]
fn a_run_that_a_living_process_continues_is_not_taken_and_a_hang_is_remembered() {
    let folder = Folder::new();
    let key = Key::new();
    let (mut one, mut other) = (folder.store(), folder.store());
    let mut run = one.begin(&key.task(), &plan()).unwrap();
    let hang = Failure { kind: FailureKind::TimeOut, message: "killed after 3 s".to_owned() };
    let observation =
        Observation { config: config(64, "b"), launches: 1, outcome: Outcome::Failed(hang.clone()), took_ms: 3000.0 };
    one.record(&mut run, &observation).unwrap();
    assert!(other.resume(&key.task(), &plan()).unwrap().is_none());
    let another = Plan { seed: 8, ..plan() };
    drop(run);
    assert!(other.resume(&key.task(), &another).unwrap().is_none());
    let (_, observations) = other.resume(&key.task(), &plan()).unwrap().unwrap();
    assert_eq!(observations, [observation]);

    let mut never = Never;
    let mut recorder = Recorder::start(&mut never, &mut one, &key.task(), &another, true).unwrap();
    assert_eq!(recorder.measure(&config(64, "b"), 5), Outcome::Failed(hang));
}

#[test]
fn a_run_that_another_version_would_continue_otherwise_is_not_mixed() {
    let folder = Folder::new();
    let key = Key::new();
    let mut store = folder.store();
    let mut run = store.begin(&key.task(), &plan()).unwrap();
    store.record(&mut run, &times(config(32, "a"), &[1.0])).unwrap();
    drop(run);
    let mut synthetic = Synthetic::new("".parse().unwrap());
    let mut recorder = Recorder::start(&mut synthetic, &mut store, &key.task(), &plan(), false).unwrap();
    assert_eq!(recorder.resumed(), 1);
    assert!(matches!(recorder.measure(&config(64, "a"), 1), Outcome::Failed(_)));
    let error = recorder.finish(None).unwrap_err();
    assert!(error.to_string().contains("begin a fresh run"), "{error}");
    assert_eq!(store.observations(1).unwrap().len(), 1);
}
