//! The fuzzer's mutations of text: each kind is made, any bytes are taken, and nothing is written past the end of the buffer.

use std::collections::BTreeSet;

use ut_fuzz::text::mutate;

/// Every text that 20,000 seeds make of `text` and pieces of `other`.
fn made(text: &str, other: &str) -> BTreeSet<String> {
    let mut out = [0; 4096];
    let one = |seed| {
        let n = mutate(text.as_bytes(), other.as_bytes(), seed, &mut out);
        String::from_utf8(out[..n].to_vec()).expect("the pieces are whole")
    };
    (0..20_000).map(one).collect()
}

#[test]
fn tokens_lists_members_and_lines_are_replaced_dropped_copied_repeated_and_wrapped() {
    let made = made("a = [1, 2]\nb = 'x + y'\n", "z");
    for wanted in [
        "a = null\nb = 'x + y'\n",
        "a = z\nb = 'x + y'\n",
        "a = [ 2]\nb = 'x + y'\n",
        "b = 'x + y'\n",
        "a = [z,1, 2]\nb = 'x + y'\n",
        "a = [1, 2, 2]\nb = 'x + y'\n",
        "a = [[1, 2]]\nb = 'x + y'\n",
        "a = [1, 2]\nb = 'x + z'\n",
        "a = [1, 2]\nb = '(x) + y'\n",
    ] {
        assert!(made.contains(wanted), "{wanted:?} is not made");
    }
}

#[test]
fn any_bytes_can_be_mutated_and_what_has_no_room_is_not_written() {
    let texts: [&[u8]; 9] = [b"", b" ", b"\"", b"'", b"''", b"\"\\", b"]", b"[", b"\xff\0\"\xfe\\\"\n\xc3"];
    for text in texts {
        for seed in 0..2000 {
            let mut out = [7; 64];
            let n = mutate(text, b"}\"", seed, &mut out[..60]);
            assert!(n <= 60 && out[60..] == [7; 4]);
            assert_eq!(mutate(b"ab", text, seed, &mut []), 0);
        }
    }
}
