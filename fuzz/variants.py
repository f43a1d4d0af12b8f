"""Writes systematic variants of texts: what a fuzzer that changes bytes hardly ever hits upon.

variants.py OUT FILE…    in each FILE every token is replaced by values of every kind and by every other word of the file, dropped,
                         and doubled; lists and objects are repeated and get unknown members; lines are moved, dropped and doubled

`fuzz/run.sh variants TARGET` makes those of a target's seeds, and keeps the ones that reach new edges. src/text.rs makes such
changes at random while the fuzzer runs.
"""

import hashlib
import re
import sys
from pathlib import Path

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|[-+]?\d[-+\w.:]*|[A-Za-z_][\w.-]*|[ \t]+|.', re.S)
PAIRS = {"{": "}", "[": "]"}
DEEP, LONG, MOST_BYTES = 140, 200, 4096
NUMBERS = """0 -0 1 -1 7 64 255 256 65535 65536 4294967295 4294967296 9223372036854775807 9223372036854775808
    -9223372036854775808 -9223372036854775809 18446744073709551615 18446744073709551616 1.5 -0.25 1e300 1e-300 1e999 -1e999 0.1e1
    1E+2 123456789012345678901234567890.5e-10 .5 5. 01 1e 1e+ - --1 +1 0x1f 0o17 0b11 1_000 nan -nan inf +inf 1979-05-27 07:32:00
    1979-05-27T07:32:00Z""".split() + ["1" + "0" * 400, "0." + "0" * 400 + "1"]
WORDS = ["null", "true", "false", "tru", "nul", "1 x", '"a" "b"', "", ",", ":", "=", "}", "]", "[", "{", "# c", "\n", "\r\n"]
TEXTS = ['""', '"a"', '"-1"', '"64"', '"1.5"', '"nan"', '"a,b"', '"a=1"', '"a=1,b=2"', '"@"', '"é"', '"' + "x" * 300 + '"', r'"\n"',
         r'"\u0041"', r'"\ud83d\ude00"', r'"\ud800"', r'"\ud800\u0041"', r'"\x"', r'"\u00"', r'"\U0001F600"', r'"\b\f\r\t\/\\\""',
         '"\x01"', '"unclosed', "'a'", "'''a'''", '"""a\nb"""']
LISTS = ["[]", "[1]", "[1, 2]", '["a"]', '["a", "b"]', "[null]", '[true, 1.5, "x"]', "[[1]]", "[[]]", "[{}]", "[1,]", "[,]", "[1 2]",
         "[1", "[" * DEEP + "]" * DEEP, f"[{', '.join(map(str, range(LONG)))}]"]
LINES = ["[x]\n", "[[x]]\n", "[a.b]\n", "[[a.b]]\n", "x = 1\n", "a.b.c = 1\n", '"a b" = 1\n']


def objects(key, sign):
    """Objects whose members are written as `key` says, with `sign` before the value."""
    def of(members):
        return "{" + ", ".join(f"{key(name)}{sign}{value}" for name, value in members) + "}"
    names = [f"k{i:03}" for i in range(LONG)]
    yield from (of([]), of([("a", 1)]), of([("a", 1), ("a", 2)]), of([("a", "{}")]), of([("a", "")]), "{" + key("a") + "}")
    yield from (of([("a", 1)])[:-1] + ",}", f"{{{key('a')}{sign}1 {key('b')}{sign}2}}")
    yield of([("x", 1.5), ("y", '"z"'), ("w", "[1]"), ("v", "null")])
    yield of((name, 1) for name in names)
    yield of((name, 1) for name in reversed(names))
    yield f"{{{key('a')}{sign}" * DEEP + "1" + "}" * DEEP


OBJECTS = [*objects('"{}"'.format, ": "), *objects("{}".format, " = ")]
VALUES = [*NUMBERS, *WORDS, *TEXTS, *LISTS, *OBJECTS, *LINES]


def end_of(tokens, i):
    """Where the list or object ends that begins at `i`."""
    level = 0
    for j in range(i, len(tokens)):
        level += (tokens[j] in PAIRS) - (tokens[j] in PAIRS.values())
        if level == 0:
            return j
    return len(tokens)


def variants(text):
    tokens = TOKEN.findall(text)
    words = sorted({token for token in tokens if token.strip() and token not in "{}[],:="})
    for i, token in enumerate(tokens):
        if not token.strip(" \t"):
            continue
        before, after = "".join(tokens[:i]), "".join(tokens[i + 1:])
        yield from (before + value + after for value in [*VALUES, *words, f"{token} {token}"])
        yield from (before, before + token)
        if token in PAIRS:
            end = end_of(tokens, i)
            inside, rest = "".join(tokens[i + 1:end]), "".join(tokens[end:])
            yield from (before + value + rest[1:] for value in VALUES)
            yield from (before + token + ",".join([inside] * times) + rest for times in (2, 5, 12, 13, 40, 100, 300))
            for member in ('"unknown": 1', '"unknown": [{"a": []}]', "unknown = 1"):
                comma = "," if inside.strip() else ""
                yield before + token + member + comma + inside + rest
                yield before + token + inside + comma + member + rest
    lines = text.split("\n")
    for i, line in enumerate(lines):
        others = lines[:i] + lines[i + 1:]
        yield "\n".join(others)
        yield "\n".join(lines[:i] + lines[i:] * 30)
        yield from ("\n".join(others[:j] + [line] + others[j:]) for j in range(len(lines)))
        yield "\n".join(lines[:i] + [line] + lines[i:])
    yield from ("\ufeff" + text, text.replace("\n", "\r\n"), text.replace(" ", "\t"), text + "\0", text * 2, f" {text}", f"{text} x")


def text(file):
    # Bytes that are no text stay as they are.
    return Path(file).read_bytes().decode("utf-8", "surrogateescape")


if __name__ == "__main__":
    out, *files = sys.argv[1:]
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for variant in (variant for file in files for variant in variants(text(file))):
        content = variant.encode("utf-8", "surrogateescape")
        if len(content) <= MOST_BYTES:
            (out / hashlib.sha1(content).hexdigest()).write_bytes(content)
