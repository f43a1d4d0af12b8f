//! Sound inputs of each target, to begin with: what the project's own writers make, so that a fuzzer need not find out by
//! itself what a file looks like.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tuner::store::{DeviceIdentity, Observation, Plan, Store, Task, TunableIdentity, Workload};
use tuner::{Failure, FailureKind, Outcome, Space, interchange};
use ut_decoding::cli::report::{Detector, Gatherer, Sums};
use ut_decoding::input::{
    EventHeader, GENERATED_MASK, InputPart, MdfWriter, MepWriter, Select, kind, to_mep, write_allen_dump,
};
use ut_decoding::synth::{Generator, Profile};
use ut_decoding::views::Against;
use ut_decoding::{
    Bank, BankVersion, BatchBuilder, BatchView, DecodeOptions, DetectorTables, EventBatch, EventMeta, Grouping, synth,
};

/// The space of the store below.
pub fn space() -> Space {
    let text = "[[parameter]]\nname = \"block\"\nvalues = [32, 64]\n\n[[parameter]]\nname = \"mode\"\nvalues = [\"a\", \"b\"]\n";
    tuner::parse_toml(text).expect("a sound space").build().expect("a sound space")
}

/// What the store below was tuned for.
pub fn workload() -> Workload {
    Workload::new().with("events", 5).expect("a finite number").at("here")
}

/// The bytes of a store with a decided run, one that is not finished, and a pin.
pub fn store() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store.db");
    let (space, device) = (space(), DeviceIdentity::named("a device", "a platform"));
    let (tunable, workload) = (TunableIdentity::new("kernel", 1), workload());
    let task = Task { tunable: &tunable, workload: &workload, device: &device, space: &space };
    let mut store = Store::open(&path).expect("a new store");
    let failure = Failure { kind: FailureKind::TimeOut, message: "too slow".to_owned() };
    let outcomes = [Outcome::Times(vec![1.0, 1.25]), Outcome::Failed(failure)];
    for is_decided in [true, false] {
        let seed = u64::from(is_decided);
        let plan = Plan { strategy: "random".to_owned(), seed, budget: "10 evaluations".to_owned() };
        let mut run = store.begin(&task, &plan).expect("a new run");
        for (i, outcome) in outcomes.iter().cloned().enumerate() {
            let of_both_goals = vec![vec![1.0, 1.25], vec![2.0, 2.5]];
            let parts = if is_decided && i == 0 { of_both_goals } else { Vec::new() };
            let observation = Observation { config: space.config(i), launches: 2, outcome, took_ms: 3.5, parts };
            store.record(&mut run, &observation).expect("the store takes it");
        }
        if is_decided {
            let id = run.id();
            let evidence = serde_json::from_str(include_str!("evidence.json")).expect("sound evidence");
            store.decide(run, &evidence).expect("the store takes it");
            store.pin(id, &space.config(0), "a reason").expect("the store takes it");
        }
    }
    // The last connection that is closed merges the log.
    drop(store);
    std::fs::read(path).expect("the store is there")
}

/// The sums of a few events, as JSON.
pub fn sums() -> Value {
    let (boards, geometry) = synth::detector(BankVersion::V5, 1);
    let tables = DetectorTables::new(boards, geometry, Grouping::YRows).expect("a sound detector");
    let detector = Arc::new(Detector { tables, boards: None, geometry: None });
    let options = DecodeOptions::default();
    let (threads, against) = (1, Against::Number);
    let tables = &detector.tables;
    let gatherer = Gatherer { tables, options, threads, against, check: true, keep_going: false, first_place: 0 };
    let part = InputPart::memory("x.mdf", mdf(BankVersion::V5, 3, 0));
    let gathered = gatherer.gather(&[part], &Select::default(), |_, _| true).expect("there is memory");
    let sums = Sums::new(&[PathBuf::from("x.mdf")], Arc::clone(&detector), options, gathered);
    let json = zstd::decode_all(&sums.to_bytes().expect("there is memory")[..]).expect("they are compressed");
    serde_json::from_slice(&json).expect("they are JSON")
}

type Banks = Vec<(u16, Vec<u8>)>;

/// The UT banks of a generated event: `n` of them, or all.
fn banks(version: BankVersion, event: u64, n: usize) -> Banks {
    let mut banks = Generator::new(Profile::ALL[0], version, 1).event(event).banks;
    if n > 0 {
        banks.truncate(n);
    }
    banks
}

fn mdf(version: BankVersion, n_events: u64, n_banks: usize) -> Vec<u8> {
    let mut writer = MdfWriter::new(Vec::new());
    for e in 0..n_events {
        let banks = banks(version, e, n_banks);
        let bank = |(source_id, payload)| Bank { kind: kind::UT, version: Some(version.byte()), source_id, payload };
        let header = EventHeader { run: 5, number: Some(e), trigger_mask: GENERATED_MASK };
        let banks = banks.iter().map(|(source_id, payload)| bank((u32::from(*source_id), &payload[..])));
        writer.write(&header, banks).expect("memory takes it");
    }
    writer.into_inner()
}

fn mep(version: BankVersion) -> Vec<u8> {
    let mut writer = MepWriter::new(Vec::new(), 2);
    for e in 0..3 {
        let banks = banks(version, e, 3);
        let bank = |(source_id, payload)| Bank { kind: kind::UT, version: Some(version.byte()), source_id, payload };
        let banks = banks.iter().map(|(source_id, payload)| bank((u32::from(*source_id), &payload[..])));
        writer.write(e, banks).expect("memory takes it");
    }
    writer.finish().expect("memory takes it")
}

/// A batch of two generated events of four banks.
fn batch(version: BankVersion) -> EventBatch {
    let (mut builder, mut batch) = (BatchBuilder::new(), EventBatch::default());
    for e in 0..2 {
        let banks = banks(version, e, 4);
        let bank = |(source_id, payload)| Bank { kind: kind::UT, version: Some(version.byte()), source_id, payload };
        let banks = banks.iter().map(|(source_id, payload)| bank((u32::from(*source_id), &payload[..])));
        builder.push(EventMeta::default(), banks).expect("there is room");
    }
    builder.finish(&mut batch);
    batch
}

/// As the targets `batch` take it.
fn of_batch(choice: u16, batch: BatchView<'_>) -> Vec<u8> {
    let mut bytes = choice.to_le_bytes().to_vec();
    for words in [batch.offsets, batch.sizes, batch.types, batch.versions.unwrap_or_default()] {
        bytes.push(words.len() as u8);
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    bytes.extend(batch.raw);
    bytes
}

/// As the targets `banks` take it.
fn of_banks(choice: u16, version: BankVersion) -> Vec<u8> {
    let mut bytes = choice.to_le_bytes().to_vec();
    for e in 0..2 {
        let banks = banks(version, e, 5);
        bytes.push(banks.len() as u8);
        for (source_id, payload) in banks {
            bytes.push(0);
            bytes.extend(source_id.to_le_bytes());
            bytes.push((payload.len() / 4).min(255) as u8);
            bytes.extend(&payload[..payload.len() / 4 * 4]);
        }
    }
    bytes
}

/// As the target `blocks` takes it.
fn of_blocks(how: u8, content: &[u8], packed: &[u8]) -> Vec<u8> {
    let mut bytes = vec![how];
    bytes.extend((content.len() as u16).to_le_bytes());
    bytes.extend((packed.len() as u16).to_le_bytes());
    bytes.extend(packed);
    bytes
}

/// A stored block of zlib.
fn zlib(content: &[u8]) -> Vec<u8> {
    let n = content.len() as u16;
    let mut bytes = vec![0x78, 1, 1];
    bytes.extend(n.to_le_bytes());
    bytes.extend((!n).to_le_bytes());
    bytes.extend(content);
    let (mut a, mut b) = (1u32, 0);
    for &byte in content {
        a = (a + u32::from(byte)) % 65521;
        b = (b + a) % 65521;
    }
    bytes.extend((b << 16 | a).to_be_bytes());
    bytes
}

/// All, by target.
pub fn all() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let (v4, v5) = (BankVersion::V4, BankVersion::V5);
    let of_both = |make: &dyn Fn(BankVersion) -> Vec<u8>| vec![make(v5), make(v4)];
    let mdf_of = |n_banks| move |version| mdf(version, 2, n_banks);
    // One bank of one event, behind the headers.
    let body = mdf(v5, 1, 1).split_off(48);
    let blocks = vec![
        of_blocks(0, &body, &zlib(&body)),
        of_blocks(1, &body, &zstd::bulk::compress(&body, 1).expect("memory takes it")),
        // Literals only.
        of_blocks(2, &body[..14], &[&[14 << 4], &body[..14]].concat()),
    ];
    let mut dump = Vec::new();
    let of_dump = banks(v5, 0, 3);
    let bank = |(source_id, payload)| Bank { kind: kind::UT, version: None, source_id, payload };
    let of_dump = of_dump.iter().map(|(source_id, payload)| bank((u32::from(*source_id), &payload[..])));
    write_allen_dump(&mut dump, of_dump).expect("memory takes it");
    dump.resize(dump.len().next_multiple_of(4), 0);
    let packed = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).expect("memory takes it");
    let gzip = |bytes: &[u8]| {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(bytes).and_then(|()| writer.finish()).expect("memory takes it")
    };
    let files = vec![mdf(v5, 2, 3), packed(&mdf(v5, 2, 3)), mep(v5), packed(&mep(v4)), gzip(&mdf(v4, 2, 2)), dump];
    let mut batches = Vec::new();
    for (choice, version) in [(0x100 | 1 << 11, v5), (0x101 | 1 << 11, v4)] {
        batches.push(of_batch(choice, batch(version).view()));
        batches.extend(
            to_mep(batch(version).view())
                .expect("a good batch")
                .iter()
                .map(|mep| of_batch(choice | 1 << 10, mep.view())),
        );
    }
    let of_c = |version: BankVersion, choice: u16, batch: BatchView<'_>| {
        let mut bytes = (choice | u16::from(version == v4)).to_le_bytes().to_vec();
        for words in [batch.offsets, batch.sizes, batch.types, batch.versions.unwrap_or_default(), &[1, 0]] {
            bytes.push(words.len() as u8);
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes.extend([0, 2, 0]);
        bytes.extend(batch.raw);
        bytes
    };
    let mut c_batches = Vec::new();
    for version in [v5, v4] {
        let allen = batch(version);
        // Without a list, and with one.
        c_batches.extend([8, 4].map(|choice| of_c(version, choice, allen.view())));
        for mep in to_mep(allen.view()).expect("a good batch") {
            c_batches.push(of_c(version, 8 | 2, mep.view()));
        }
    }
    let text = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store.db");
    std::fs::write(&path, store()).expect("a file");
    let opened = Store::open_read_only(&path).expect("a store");
    let export = interchange::store_json::export(&opened, &[]).expect("a store with a run");
    let export_text = serde_json::to_string(&export).expect("JSON");
    let recording = interchange::store_json::recording_of_export(&export, None).expect("a run with times");
    let mut t4 = Vec::new();
    interchange::t4::write(&recording, &mut t4).expect("memory takes it");
    let cache = r#"{"device_name": "d", "kernel_name": "k", "tune_params_keys": ["x", "y"], "tune_params": {"x": [1, 2],
        "y": [3]}, "objective": "time", "cache": {"1,3": {"x": 1, "y": 3, "time": 1.5, "times": [1.0, 2.0]},
        "2,3": {"x": 2, "y": 3, "time": "CompilationFailedConfig"}}}"#;
    let recorded = "# kernel=k; device=d; problem_size=7; fixed={\"z\": 4}\nx,y,status,mean_ms,median_ms,min_ms,sd_ms,n,compile_ms\n1,3,ok,1.5,1.4,1.3,0.1,7,90\n\
                    2,3,compile,,,,,,\n";
    let recordings = [text(&[cache, &cache[..cache.len() - 60], recorded, &export_text]), vec![t4]].concat();
    vec![
        ("banks", vec![of_banks(0x100, v5), of_banks(0x101, v4), of_banks(0x1ff & !1, v5)]),
        (
            "banks-emulated",
            (0..8).map(|of| of_banks(0x100 | of & 1 | of >> 1 << 12, [v5, v4][usize::from(of & 1)])).collect(),
        ),
        ("batch", batches.clone()),
        ("batch-emulated", {
            let fused = batches.iter().map(|batch| [&[batch[0], batch[1] | 0x10], &batch[2..]].concat());
            fused.chain(batches.clone()).collect()
        }),
        ("c-batch", c_batches),
        ("file", files),
        ("mdf", of_both(&mdf_of(3))),
        ("blocks", blocks),
        ("packets", of_both(&mep)),
        ("tables", vec![vec![0, 0, 1, 0, 0, 0, 0, 0], vec![1, 1, 9, 0, 1, 2, 3, 4]]),
        (
            "mask",
            text(&[
                "board 0x2c03 lane 2 # c\nboard 0\nsector 531 strips 0-15,200\nlhcbid 0x30001234,805320000-805320015\n",
                "# nothing\n",
            ]),
        ),
        (
            "expression",
            text(&[
                "a * b <= 1024 and (a % 32 == 0 or b in [1, 2, 4])",
                "max(a, b) // 3 ** 2 - -1 != 0x1f if a else not b",
            ]),
        ),
        (
            "space",
            text(&[
                "[[parameter]]\nname = \"a\"\npowers_of_two = [2, 64]\n\n[[parameter]]\nname = \"b\"\nvalues = [1, 2]\n\n\
                 [[constraint]]\nname = \"c\"\nwhen = \"b <= a\"\n\n[default]\na = 2\nb = 1\n",
                "[constants]\nitems = 500000\n\n[[parameter]]\nname = \"a\"\nrange = { from = 32, to = 96, step = 32 }\n\n\
                 [[derived]]\nname = \"grid\"\nvalue = \"items // a\"\n\n[[constraint]]\nwhen = \"grid >= 108\"\n\n\
                 [limits]\nthreads_per_block = 64\nshared_bytes = 49152\nregisters_per_block = 65536\nwarp = 32\n\n\
                 [footprint]\nthreads = \"a\"\nshared_bytes = \"4 * a\"\nregisters_per_thread = \"8\"\n",
                r#"{"ConfigurationSpace": {"TuningParameters": [{"Name": "x", "Type": "int", "Values": "[1, 2]"}],
                   "Conditions": [{"Expression": "x > 1", "Parameters": ["x"]}]}}"#,
                r#"{"ConfigurationSpace": {"TuningParameters": [{"Name": "x", "Type": "uint", "Values": "list(range(2, 9, 2))"},
                   {"Name": "b", "Type": "bool", "Values": "[True, 0]"}, {"Name": "f", "Type": "float", "Values":
                   "[0.5 * i for i in range(4) if i % 2]"}, {"Name": "s", "Type": "string", "Values": "['p'] + ['q']"}]}}"#,
            ]),
        ),
        (
            "chain",
            text(&[
                "[default]\nblock = 64\n\n[[group]]\nname = \"g\"\ntogether = [\"block\", \"mode\"]\nconcurrent = true\n",
                "[[kernel]]\nname = \"k\"\ndevice = \"synthetic:seed=1\"\ndefault = { block = 32 }\n",
            ]),
        ),
        ("recording", recordings.clone()),
        ("import", recordings),
        (
            "store",
            [0, 4, 8, 16, 28].into_iter().flat_map(|how| [vec![how], vec![how | 2, 0, 16, 4, 1, 2, 3, 4]]).collect(),
        ),
        ("sums", vec![vec![4], vec![2, 9, 3, 2], vec![0, 9, 12, 7, 1, 0]]),
        (
            "settings",
            text(&["boards = \"b.bin\"\ngeometry = \"/g.bin\"\ngrouping = \"unique-x\"\nflip = 511\nthreads = 3\n"]),
        ),
        (
            "sets",
            text(&[
                r#"{"sets": {"backend": "cpu", "device": "@", "of": [{"workload": "low", "looks": {"hits_per_event": 100.0},
                   "parameters": "cpu.chunk=4,batch=64"}, {"workload": "high", "looks": {"hits_per_event": 900.0, "a": 1.5},
                   "parameters": "threads=2,simd=scalar,layout=mep"}]}}"#,
                r#"{"sets": {"backend": "emulated", "device": "@", "of": [{"workload": "w", "looks": {},
                   "parameters": "pipeline=fused,fused.block_x=64"}]}}"#,
                r#"{"sets": {"backend": "cpu", "device": "x", "of": []}}"#,
            ]),
        ),
    ]
}
