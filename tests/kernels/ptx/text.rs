//! Checks of the committed PTX: it was made from the sources, and contains nothing that makes a bad
//! kernel.
//!
//! No compiler is needed, except by the ignored tests, which rebuild and assemble it.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use simt::ptx::{ARCHS, Compiler, KernelCrate, Ptxas, TARGET, check, header_field};
use ut_decoding::decoder::ptx::{Kernel, Resources, Unit};
use ut_kernels::detector::BankVersion;
use ut_kernels::ptx::{MAX_REGISTERS, UNITS};
use ut_kernels::switches::{Layout, Switches};

/// Returns every entry point that must exist, with its module.
fn shipped() -> Vec<(Unit, String)> {
    let mut all = Vec::new();
    for unit in Unit::PRODUCTION {
        all.extend(Kernel::ALLEN.map(|kernel| (unit, kernel.entry(unit.name))));
        all.push((unit, Kernel::CountHits.entry(&unit.bins8())));
    }
    for rung in 0..Switches::ladder(BankVersion::V5, Layout::Allen).len() {
        let variant = format!("v5_allen__rung{rung}");
        all.extend(Kernel::ALLEN.map(|kernel| (Unit::LADDER, kernel.entry(&variant))));
    }
    all.push((Unit::LADDER, Kernel::ClusterAndPredecode.entry(Unit::WIDE)));
    for unit in Unit::RANKED {
        all.extend(
            unit.kernels()
                .iter()
                .map(|kernel| (unit, kernel.entry(unit.name))),
        );
    }
    all
}

/// Returns the entry points of a PTX text, each with its instructions.
fn entries(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    for part in text.split(".visible .entry ").skip(1) {
        let name = part.split('(').next().unwrap();
        let body = part
            .split_once("\n{")
            .unwrap()
            .1
            .split("\n}")
            .next()
            .unwrap();
        // Predicates, declarations, labels and comments are left out; two instructions may share a
        // line.
        let lines = body
            .lines()
            .flat_map(|line| line.split_inclusive(';'))
            .map(str::trim);
        let lines = lines.map(|line| {
            if line.starts_with('@') {
                line.split_once(' ').unwrap().1.trim()
            } else {
                line
            }
        });
        let is_instruction =
            |line: &&str| line.ends_with(';') && !line.starts_with(['.', '{', '$']);
        found.push((name, lines.filter(is_instruction).collect()));
    }
    found
}

/// Describes everything in a PTX text that a kernel must not contain.
fn faults(text: &str) -> String {
    let mut faults = String::new();
    for finding in check(text, &[]) {
        _ = writeln!(faults, "{finding}");
    }
    let mut fault = |what: &str, line: &str| _ = writeln!(faults, "{what}: {}", line.trim());
    if !text.contains(&format!("\n.target {TARGET}\n")) {
        fault("not for", TARGET);
    }
    for (_, instructions) in entries(text) {
        for line in instructions {
            let name = line.split_whitespace().next().unwrap();
            if name.starts_with("activemask") {
                fault("a mask by luck", line);
            }
            let is_f32_arithmetic = ["add.", "sub.", "mul.", "div.", "fma.", "mad.", "sqrt."]
                .iter()
                .any(|prefix| name.starts_with(prefix) && name.ends_with("f32"));
            // Without the rounding spelt out the assembler may contract; nothing else gives the
            // CPU's bits.
            if is_f32_arithmetic
                && !["add.rn.f32", "sub.rn.f32", "mul.rn.f32", "div.rn.f32"].contains(&name)
            {
                fault("not the CPU's arithmetic", line);
            }
        }
    }
    faults
}

#[test]
fn every_unit_has_exactly_its_kernels() {
    for unit in Unit::all() {
        let mut expected: Vec<_> = shipped()
            .into_iter()
            .filter(|of| of.0 == unit)
            .map(|of| of.1)
            .collect();
        let mut found: Vec<_> = entries(unit.text)
            .into_iter()
            .map(|(name, _)| name.to_owned())
            .collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{}", unit.name);
        assert_eq!(header_field(unit.text, "unit"), Some(unit.name));
        assert_eq!(header_field(unit.text, "target"), Some(TARGET));
    }
    assert_eq!(Unit::all().map(|unit| unit.name).collect::<Vec<_>>(), UNITS);
}

#[test]
fn kernels_have_no_calls_no_local_or_generic_memory_and_exact_floats() {
    for unit in Unit::all() {
        assert_eq!(faults(unit.text), "", "{}", unit.name);
    }
}

#[test]
fn the_clustering_kernel_has_three_barriers() {
    for unit in Unit::RANKED {
        let entry = Kernel::Cluster.entry(unit.name);
        let (_, body) = entries(unit.text)
            .into_iter()
            .find(|(name, _)| *name == entry)
            .unwrap();
        assert_eq!(
            body.iter()
                .filter(|line| line.starts_with("bar.sync"))
                .count(),
            3,
            "{entry}"
        );
    }
}

#[test]
fn the_last_rung_of_the_ladder_is_production() {
    let production = Unit::production(BankVersion::V5, Layout::Allen);
    for kernel in Kernel::ALLEN {
        let body = |unit: Unit, variant: &str| {
            let entry = kernel.entry(variant);
            let found = entries(unit.text)
                .into_iter()
                .find(|(name, _)| *name == entry)
                .unwrap()
                .1;
            // Labels are numbered through the file, parameters named for the entry.
            let plain = |line: &str| {
                line.replace(&entry, "")
                    .split("$L__BB")
                    .next()
                    .unwrap()
                    .to_owned()
            };
            found.into_iter().map(plain).collect::<Vec<_>>()
        };
        assert_eq!(
            body(Unit::LADDER, "v5_allen__rung6"),
            body(production, "v5_allen"),
            "{}",
            kernel.name()
        );
    }
}

#[test]
fn each_check_finds_its_fault() {
    let text = Unit::PRODUCTION[0].text;
    let planted = |line: &str| {
        let doctored = text.replacen("\tret;", &format!("\t{line}\n\tret;"), 1);
        assert_ne!(doctored, text);
        faults(&doctored)
    };
    assert_eq!(planted("add.rn.f32 \t%f1, %f2, %f3;"), "");
    assert!(planted("fma.rn.f32 \t%f1, %f2, %f3, %f4;").contains("arithmetic"));
    assert!(planted("@%p1 mul.f32 \t%f1, %f2, %f3;").contains("arithmetic"));
    assert!(planted("div.approx.f32 \t%f1, %f2, %f3;").contains("arithmetic"));
    assert!(planted("ld.b32 \t%r1, [%rd1];").contains("generic"));
    assert!(planted("@%p1 st.u16 \t[%rd1], %rs1;").contains("generic"));
    assert!(planted("st.local.b64 \t[%rd1+8], 6;").contains("local memory"));
    assert!(planted("call.uni _panic, (param0);").contains("a call"));
    assert!(planted("trap; exit;").contains("panic"));
    assert!(planted("activemask.b32 \t%r1;").contains("luck"));
    let declared = |line: &str| {
        faults(&text.replacen(".address_size 64", &format!(".address_size 64\n{line}"), 1))
    };
    assert!(declared(".global .align 16 .b8 tile[512];").contains("table in global"));
    assert!(declared(".shared .align 16 .b8 tile[512];").contains("shared array"));
    assert!(declared(".func helper(").contains("a call"));
    assert!(faults(&text.replace("\n.target sm_75\n", "\n.target sm_90\n")).contains("sm_75"));
}

#[test]
fn the_hash_depends_on_every_name_and_byte_of_the_sources_only() {
    let root = tempfile::tempdir().unwrap();
    let sources = root.path().join("src");
    std::fs::create_dir_all(sources.join("bank")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(sources.join(name), text).unwrap();
    let kernels = KernelCrate {
        name: "test",
        folder: root.path(),
        dependencies: &[],
        simt: None,
        max_registers: &[],
        rebuild: "",
    };
    let hash = || kernels.source_hash().unwrap();
    write("lib.rs", "pub mod bank;");
    write("bank/mod.rs", "");
    let first = hash();
    write("notes.txt", "not a source");
    assert_eq!(hash(), first);
    write("bank/mod.rs", "\n");
    let second = hash();
    assert_ne!(second, first);
    std::fs::rename(sources.join("bank/mod.rs"), sources.join("bank.rs")).unwrap();
    let third = hash();
    assert!(third != first && third != second);
    // What one file loses the next one gains.
    write("bank.rs", "");
    write("lib.rs", "\npub mod bank;");
    assert_ne!(hash(), third);
    write("lib.rs", "pub mod bank;");
    write("bank.rs", "\n");
    assert_eq!(hash(), third);
    // The sources of a dependency count, too.
    let shared = tempfile::tempdir().unwrap();
    let with_shared = || {
        KernelCrate {
            dependencies: &[("shared", shared.path())],
            ..kernels
        }
        .source_hash()
    };
    std::fs::create_dir(shared.path().join("src")).unwrap();
    std::fs::write(shared.path().join("src/lib.rs"), "").unwrap();
    let fourth = with_shared();
    assert_ne!(fourth, Ok(hash()));
    std::fs::write(shared.path().join("src/lib.rs"), "\n").unwrap();
    assert_ne!(with_shared(), fourth);
}

#[test]
fn header_fields_are_read_up_to_the_first_other_line() {
    let text = "// Made by hand\n// unit: one\n// compiler: rustc 1: two\n//\n// target: sm_10\n";
    assert_eq!(header_field(text, "unit"), Some("one"));
    assert_eq!(header_field(text, "compiler"), Some("rustc 1: two"));
    assert_eq!(header_field(text, "target"), None);
    assert_eq!(header_field("", "unit"), None);
}

#[test]
#[ignore = "needs the compiler that made the PTX: kernels/install-ptx-tools.sh installs it, .ci/run compares all files"]
fn rebuilding_gives_the_committed_ptx() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiler = Compiler::find("UT_DECODE_PTX_RUSTC").expect("a compiler for PTX");
    let kernels = KernelCrate {
        name: "ut_kernels",
        folder: &root.join("kernels"),
        dependencies: &[("ut_format", &root.join("kernels/format"))],
        simt: Some(&root.join("simt")),
        max_registers: MAX_REGISTERS,
        rebuild: "UT_DECODE_BUILD_PTX=1 cargo build",
    };
    let hash = kernels.source_hash().expect("the sources can be read");
    for unit in Unit::all() {
        assert_eq!(
            header_field(unit.text, "compiler"),
            Some(compiler.version.as_str()),
            "{}",
            unit.name
        );
        assert_eq!(
            header_field(unit.text, "sources"),
            Some(hash.as_str()),
            "{}",
            unit.name
        );
        let made = compiler
            .compile(&kernels, unit.name, Path::new(env!("CARGO_TARGET_TMPDIR")))
            .unwrap();
        assert!(made == unit.text, "{} comes out differently", unit.name);
    }
}

#[test]
#[ignore = "needs ptxas: kernels/install-ptx-tools.sh installs it, .ci/run compares all files"]
fn ptxas_reports_the_committed_resources() {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/ptx-tools/bin");
    let ptxas = Ptxas::find("UT_DECODE_PTXAS", &installed).expect("ptxas");
    let committed = Resources::committed().unwrap();
    assert_eq!(ptxas.version().unwrap(), committed.ptxas);
    // One module is enough to see that the figures belong to the PTX; the build compares all.
    let unit = Unit::ranked(BankVersion::V5, Layout::Allen);
    for arch in ARCHS {
        let measured = ptxas
            .assemble(unit.text, arch, Path::new(env!("CARGO_TARGET_TMPDIR")))
            .unwrap();
        assert_eq!(measured.len(), unit.kernels().len());
        for usage in measured {
            let (kernel, variant) = Kernel::of_entry(&usage.kernel).unwrap();
            let expected = committed.of(kernel, variant, arch).unwrap();
            assert_eq!(
                (usage.registers, usage.shared, usage.barriers),
                (expected.registers, expected.shared, expected.barriers)
            );
        }
    }
}

/// Runs `ut-decode kernels`, which must end with `code`; returns what it printed.
fn kernels(code: i32, args: &[&str]) -> String {
    let mut tool = std::process::Command::new(env!("CARGO_BIN_EXE_ut-decode"));
    let output = tool.arg("kernels").args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn recorded_resources_are_printed_as_json_with_the_occupancy() {
    let value: Value =
        serde_json::from_str(&kernels(0, &["--arch", "sm_86", "--json", "-"])).unwrap();
    let rows = value["kernels"].as_array().unwrap();
    // One row per kernel, and two more for variants: the counting kernel with 8 size classes, and
    // the clustering kernel with 32-bit sums.
    assert_eq!(rows.len(), Kernel::ALLEN.len() + 2);
    let committed = Resources::committed().unwrap();
    let expected = committed
        .of(Kernel::ClusterAndPredecode, "v5_allen", "sm_86")
        .unwrap();
    let row = rows
        .iter()
        .find(|row| row["kernel"] == expected.kernel.as_str())
        .unwrap();
    assert_eq!(row["registers"], expected.registers);
    let shared = Kernel::ClusterAndPredecode.shared_bytes(BankVersion::V5, 216, 84);
    assert_eq!(row["dynamic_shared"], shared);
    let of_128 = row["occupancy"]
        .as_array()
        .unwrap()
        .iter()
        .find(|o| o["threads"] == 128)
        .unwrap();
    assert_eq!(
        of_128["blocks"],
        expected.occupancy(128, shared).unwrap().blocks
    );
    assert!(
        rows.iter()
            .any(|row| row["kernel"] == "cluster_and_predecode__v5_allen__wide")
    );
}

#[test]
fn every_module_and_every_rung_can_be_shown() {
    let text = kernels(0, &["--unit", "all"]);
    for what in [
        "v4_allen (240 boards",
        "v5_mep (216 boards",
        "v5_allen_ranked (216 boards",
        "(rung0)",
        "(rung6)",
        "(32-bit sums)",
        "sm_75",
        "sm_100",
    ] {
        assert!(text.contains(what), "{what}");
    }
    kernels(2, &["--unit", "v6_allen"]);
}
