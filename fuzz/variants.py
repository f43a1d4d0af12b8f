"""Writes systematic variants of texts: what a fuzzer that changes bytes hardly ever hits upon.

variants.py OUT FILE…    in each FILE every token is replaced by values of every kind and by every other word of the file, dropped,
                         and doubled; strings are escaped, and become members with a value; lists and objects are repeated and
                         get unknown members; members come first or last; objects become lists of their values, whole, cut, or
                         with a value of another kind; lines are moved, dropped and doubled

`fuzz/run.sh variants TARGET` makes those of a target's seeds, and keeps the ones that reach new edges. src/text.rs makes such
changes at random while the fuzzer runs.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|[-+]?\d[-+\w.:]*|[A-Za-z_][\w.-]*|[ \t]+|.', re.S)
PAIRS = {"{": "}", "[": "]"}
MOST_BYTES = 4096
# text.rs reads the same list, and adds long and deeply nested values of its own.
VALUES = json.loads((Path(__file__).parent / "words/values.json").read_text())
NAMES = [f"k{i:03}" for i in range(200)]
VALUES += ["1" + "0" * 400, "0." + "0" * 400 + "1", '"' + "x" * 300 + '"', "[" * 140 + "]" * 140, str(list(range(200)))]
for key in ('"{}": ', "{} = "):
    VALUES += ["{" + ", ".join(key.format(name) + "1" for name in names) + "}" for names in (NAMES, NAMES[::-1])]
    VALUES.append(("{" + key.format("a")) * 140 + "1" + "}" * 140)


def end_of(tokens, i):
    """Where the list or object ends that begins at `i`."""
    level = 0
    for j in range(i, len(tokens)):
        level += (tokens[j] in PAIRS) - (tokens[j] in PAIRS.values())
        if level == 0:
            return j
    return len(tokens)


def members_of(tokens):
    """The members of an object, each as two texts: its name, and its value with the sign before it; `tokens` are those between
    its brackets."""
    members, level = [["", ""]], 0
    for token in tokens:
        level += (token in PAIRS) - (token in PAIRS.values())
        if level == 0 and token == ",":
            members.append(["", ""])
        else:
            members[-1][bool(members[-1][1]) or level == 0 and token in ":="] += token
    return [member for member in members if member[1]]


def variants(text):
    tokens = TOKEN.findall(text)
    words = sorted({token for token in tokens if token.strip() and token not in "{}[],:="})
    for i, token in enumerate(tokens):
        if not token.strip(" \t"):
            continue
        before, after = "".join(tokens[:i]), "".join(tokens[i + 1:])
        yield from (before + value + after for value in [*VALUES, *words, f"{token} {token}"])
        yield from (before, before + token)
        if token[0] == '"':
            # Serde reads a string with escapes, and an enum's variant with content, with separate code.
            escaped = '"' + "".join(f"\\u{ord(letter):04x}" for letter in token[1:-1] if ord(letter) < 0x10000) + '"'
            forms = [escaped, *(f"{{{token}: {content}}}" for content in ("null", "{}", "[]", "1")), f"[{token}]"]
            yield from (before + form + after for form in forms)
        if token in PAIRS:
            end = end_of(tokens, i)
            inside, rest = "".join(tokens[i + 1:end]), "".join(tokens[end:])
            yield from (before + value + rest[1:] for value in VALUES)
            yield from (before + token + ",".join([inside] * times) + rest for times in (2, 5, 12, 13, 40, 100, 300))
            for member in ('"unknown": 1', '"unknown": [{"a": []}]', "unknown = 1"):
                comma = "," if inside.strip() else ""
                yield before + token + member + comma + inside + rest
                yield before + token + inside + comma + member + rest
        if token == "{":
            members = members_of(tokens[i + 1:end])
            # An enum's content may come before its tag.
            for j, member in enumerate(members):
                others = members[:j] + members[j + 1:]
                for order in ([member, *others], [*others, member]):
                    yield before + "{" + ",".join(name + value for name, value in order) + rest
            # Serde takes a struct from a list, too, with separate code.
            values = [value[1:] for _, value in members]
            for n in range(len(values) + 1):
                lists = [values[:n], values[:n] + ["1"] + values[n:]]
                lists += [values[:n] + [value] + values[n + 1:] for value in ("null", "{}", "-1", "1.5", '"a"', "[]", "x", "")]
                yield from (before + "[" + ",".join(of) + "]" + rest[1:] for of in lists)
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
