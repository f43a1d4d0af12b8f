//! Files that `install.sh` installs, whatever the folders are called.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

#[test]
fn a_folder_of_any_name_and_libraries_from_a_relative_one_are_taken() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("install");
    let prefix = folder.join(r"a&b|c\d e");
    std::fs::create_dir_all(folder.join("built")).expect("room for libraries");
    for library in ["libut_decoding_c.so", "libut_decoding_c.a"] {
        std::fs::write(folder.join("built").join(library), "").expect("room for a library");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
    let install = |prefix: &Path, destdir: &str| {
        let mut install = Command::new("sh");
        install.arg(&script).arg(prefix).current_dir(&folder).env("BUILT", "built").env_remove("LIBDIR");
        install.env("DESTDIR", destdir).output().expect("there is a shell")
    };
    let output = install(&prefix, "");
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(prefix.join("lib/pkgconfig/ut_decoding.pc")).expect("it is installed");
    // pkg-config takes a space for the end of an option.
    let place = prefix.canonicalize().expect("it is there").display().to_string();
    let expected = format!("prefix={}", place.replace('\\', r"\\").replace(' ', r"\ "));
    assert_eq!(text.lines().next(), Some(&*expected));
    assert!(prefix.join("lib/libut_decoding.so.1").is_file() && prefix.join("lib/libut_decoding.a").is_file());

    // For a package: below another root, with the names that hold where it is unpacked.
    let output = install(Path::new("/opt/ut"), "root");
    assert!(output.status.success(), "{output:?}");
    let text =
        std::fs::read_to_string(folder.join("root/opt/ut/lib/pkgconfig/ut_decoding.pc")).expect("it is installed");
    assert_eq!(text.lines().next(), Some("prefix=/opt/ut"));
    assert!(folder.join("root/opt/ut/include/ut_decoding.hpp").is_file());
    assert_eq!(install(Path::new("opt"), "root").status.code(), Some(2), "a relative prefix below a root");
}
