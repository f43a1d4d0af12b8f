//! Values in command lines.

use tuner::program::Template;

use crate::prelude::*;

#[test]
fn places_are_filled_and_doubled_braces_stay() {
    let values = [("tile", "32".to_owned()), ("flag", "a b's".to_owned())];
    let fill = |text: &str| Template::new(text).fill(&values);
    assert_eq!(
        fill("./mm --tile {tile} --flag={flag}"),
        r"./mm --tile 32 --flag='a b'\''s'"
    );
    assert_eq!(
        fill("awk '{{print $1}}' {tile}{tile}"),
        "awk '{print $1}' 3232"
    );
    assert_eq!(fill(""), "");
}

/// Lets the shell itself print each value, inside every kind of quotes.
#[cfg(unix)]
#[test]
fn a_value_is_inserted_literally_everywhere_and_never_run_as_a_command() {
    let contexts = [
        ("{x}", "{x}"),
        ("a'-{x}-'b", "a-{x}-b"),
        ("\"a {x} b\"", "a {x} b"),
        ("\"$(printf %s {x})\"", "{x}"),
        ("\"$(printf %s \"<{x}>\")\"", "<{x}>"),
        ("$(printf %s '{x}' | wc -c | tr -d ' ') \"{x}\"", ""),
        ("(echo) \"{x}\"", ""),
        ("it\\'s{x}", "it's{x}"),
        ("\"\\\"{x}\"", "\"{x}"),
    ];
    for value in [
        "32",
        "-O2 -g",
        "$(touch /nonexistent/x)`id`",
        "it's \"so\"",
        "a;b&c|d\\",
        "\\\\\"'",
        "",
        "$HOME\n*",
    ] {
        for (context, text) in contexts.iter().filter(|(_, text)| !text.is_empty()) {
            let line =
                Template::new(&format!("printf '%s!' {context}")).fill(&[("x", value.to_owned())]);
            let said = std::process::Command::new("sh")
                .arg("-c")
                .arg(&line)
                .output()
                .unwrap();
            let expected = text.replace("{x}", value) + "!";
            assert_eq!(String::from_utf8_lossy(&said.stdout), expected, "{line}");
        }
    }
    // A number in arithmetic is a number.
    let line =
        Template::new("echo $(( 100 + 10 * ({x} - 2) << {x} ))").fill(&[("x", "3".to_owned())]);
    assert_eq!(line, "echo $(( 100 + 10 * (3 - 2) << 3 ))");
}

#[test]
fn placeholders_where_a_value_has_no_meaning_are_refused() {
    for (text, place) in [
        ("echo ${x}", "behind a $"),
        ("echo \"cost: ${x}\"", "behind a $"),
        ("echo \\{x}", "behind a backslash"),
        ("echo `echo {x}`", "in backquotes"),
        ("echo ${{y:-{x}}}", "in ${...}"),
        ("cat <<E\n{x}\nE", "in a here-document"),
        ("true # with {x}", "in a comment"),
        (
            "echo \"$(case a in a) echo {x};; esac)\"",
            "in a case inside $(...)",
        ),
        ("echo $'{x}'", "in $'...'"),
    ] {
        let refused = Template::new(text).validate(&["x"]).unwrap_err();
        says(&refused, place);
        says(refused, "write $TUNE_x");
    }
    for text in [
        "case {x} in 3|7) exit;; *) echo {x};; esac",
        "echo a#{x} '$'{x} '# {x}'",
        "true # don't\necho {x}",
    ] {
        assert_eq!(Template::new(text).validate(&["x"]), Ok(()), "{text}");
    }
}
