//! Conventions of every command: wrong usage, settings, colours, quiet and verbose, Ctrl-C.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{
    ONE_HIT, bank, empty, end, event, json_of, run_to, sample, says, tool, write,
};

#[test]
fn a_usage_error_names_the_subcommand_and_what_to_type() {
    let directory = &empty();
    for (args, parts) in [
        ("decode", &["Usage: ut-decode decode"][..]),
        ("decod a", &["'decode'"]),
        ("generate -o a --profile pp-nominel", &["'pp-nominal'"]),
        (
            "decode a.mdf --set cpu.smid=auto",
            &["Usage: ut-decode decode", "it has cpu.simd"],
        ),
        ("sweep --axis bach=1", &["Usage: ut-decode sweep", "batch"]),
        ("tune run --budget soon", &["10min"]),
    ] {
        let (_, err) = run_to(2, directory, args);
        for part in parts {
            assert!(err.contains(part), "{part}: {err}");
        }
    }
}

#[test]
fn settings_stand_in_for_options_and_options_win() {
    let directory = &sample();
    let provenance = |args: &str| -> Value {
        let mut tool = tool(directory, (args, "--json -"));
        let (out, _) = end(0, tool.env("UT_DECODE_CONFIG", "settings/my.toml"));
        serde_json::from_str::<Value>(&out).unwrap()["provenance"].clone()
    };
    std::fs::create_dir(directory.join("settings")).unwrap();
    let tables = "boards = \"../boards.bin\"\ngeometry = \"../geometry.bin\"\n";
    write(
        directory,
        "settings/my.toml",
        format!("{tables}grouping = \"unique-x\"\nflip = 512\n").as_bytes(),
    );
    // Generated events belong to the embedded detector, whatever the settings say.
    let found = provenance("decode events.mdf");
    assert_eq!(
        (&found["grouping"], &found["flip"]),
        (&"unique-x".into(), &"512".into())
    );
    assert_eq!(found["boards"], "embedded synthetic detector");
    write(directory, "measured.mdf", &event(&[bank(0, &ONE_HIT)]));
    assert_eq!(
        provenance("decode measured.mdf")["boards"],
        "settings/../boards.bin"
    );
    let found = provenance("decode measured.mdf --flip 511 --grouping y-rows");
    assert_eq!(
        (&found["grouping"], &found["flip"]),
        (&"y-rows".into(), &"511".into())
    );
    // In the current folder it is found by its name; an unknown key is named.
    write(directory, "ut-decode.toml", b"fliq = 511");
    let fails = || {
        end(
            1,
            tool(directory, "decode events.mdf").env_remove("UT_DECODE_CONFIG"),
        )
        .1
    };
    let err = fails();
    assert!(
        err.contains("ut-decode.toml") && err.contains("`fliq`"),
        "{err}"
    );
    for (text, part) in [
        ("boards = \"b\"", "boards and geometry belong together"),
        ("flip = 513", "flip must be 511 or 512, not 513"),
        ("threads = 2000", "at most 1024"),
        ("threads = -1", "threads"),
        ("grouping = \"rows\"", "y-rows"),
        ("flip 512", "expected"),
        ("tune = \"always\"", "first-use"),
    ] {
        write(directory, "ut-decode.toml", text.as_bytes());
        let err = fails();
        assert!(err.contains(part), "{text}: {err}");
    }
    // Settings that cannot be read are not passed over.
    std::fs::remove_file(directory.join("ut-decode.toml")).unwrap();
    std::os::unix::fs::symlink("nowhere.toml", directory.join("ut-decode.toml")).unwrap();
    let err = fails();
    assert!(
        err.contains("cannot read the settings in ut-decode.toml"),
        "{err}"
    );
    says(
        1,
        directory,
        "decode events.mdf --config absent.toml",
        "absent.toml",
    );
}

#[test]
fn colours_are_for_terminals_unless_asked_for() {
    let directory = &empty();
    let coloured = |variable: &str| {
        tool(directory, "decode absent.mdf")
            .env(variable, "1")
            .output()
            .unwrap()
            .stderr
            .contains(&0x1B)
    };
    let [plain, forced, never] = ["NOTHING", "CLICOLOR_FORCE", "NO_COLOR"].map(coloured);
    assert!(!plain && forced && !never);
}

#[test]
fn quiet_keeps_results_warnings_and_errors_and_verbose_adds_details() {
    let directory = &sample();
    let (_, err) = run_to(0, directory, "decode events.mdf --json - -q");
    assert_eq!(err, "");
    let (json, err) = json_of(0, directory, "-v decode events.mdf");
    assert_eq!(json["events"], 5);
    assert!(
        err.contains("tables: the embedded synthetic detector") && err.contains("took "),
        "{err}"
    );
    let (_, err) = run_to(1, directory, "decode absent.mdf -q");
    assert!(err.starts_with("error: "), "{err}");
    run_to(2, directory, "decode events.mdf -q -v");
}

#[test]
#[cfg(target_os = "linux")]
fn ctrl_c_ends_a_command_says_so_and_leaves_nothing_half_written() {
    use std::os::unix::process::ExitStatusExt as _;

    let directory = &empty();
    // A script that runs the tests in the background has them ignore Ctrl-C; the tool would inherit
    // that.
    let mut tool = Command::new("env");
    tool.args([
        "--default-signal=INT",
        env!("CARGO_BIN_EXE_ut-decode"),
        "generate",
        "--events",
        "100000000",
    ]);
    let mut running = tool
        .args(["-o", "."])
        .current_dir(directory)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let files = || std::fs::read_dir(directory).unwrap().count();
    // Three files: the two tables and the events, all unfinished.
    while files() < 3 {
        assert!(running.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = running.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stopped"));
    assert_eq!(files(), 0);
}
