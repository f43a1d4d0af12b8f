"""Writes systematic inputs of the targets whose bytes are changes of a whole, as variants.py does for those that read text.

changes.py OUT store STORE.DB    each value of each row replaced by values of every kind, also of another type; rows dropped and
                                 doubled; tables, columns and indices dropped; other versions of the schema
changes.py OUT sums SUMS.JSON    each member of each object, and the first, second and last of each list, changed in every way

`fuzz/run.sh variants store` and `… sums` make them of what the seeds change, and keep those that reach new edges.
"""

import hashlib
import itertools
import json
import sqlite3
import struct
import sys
from pathlib import Path

from variants import variants

MOST_BYTES = PAGE = 4096
NUMBERS = [-(2**63), -1, 0, 1, 2, 3, 4, 255, 2**31, 2**32, 2**53, 2**63 - 1, -1.0, 0.5, 1e-300, 1e300, float("inf")]
TEXTS = ["", "a", "null", "{}", "[]", "[1]", "[[1, 2], [3, 4]]", '{"a": 1}', '{"a": [1.5, "b", true, null]}', "x" * 1500, "a\0b", "é",
         "compile", "launch", "time-out", "wrong-result", "constraint", "declined", "2026-01-02T03:04:05.678Z"]
TIMES = [[], [0.0], [-1.0], [1.0], [float("nan")], [float("inf")], [1e300, 1e300], [1e-300], [1.0] * 100]
BLOBS = [struct.pack(f"<{len(times)}d", *times) for times in TIMES] + [b"\0", b"\0" * 7, b"\0" * 9, b"\xff" * 16]
HOW_STORE = [4 * writable + 8 * then for writable in (0, 1) for then in range(4)]
HOW_SUMS = [2 * to_itself + 4 * written + 8 * of_part for to_itself in (0, 1) for written in (0, 1) for of_part in (0, 1)]


def patches(before, after):
    """What the target `store` takes: places, and up to eight bytes for each. `None` where it is too much."""
    if len(before) != len(after):
        return None
    out, at = bytearray(), 0
    while at < len(before):
        if before[at:at + 64] == after[at:at + 64]:
            at += 64
        elif before[at] == after[at]:
            at += 1
        else:
            piece = after[at:at + 8]
            out += struct.pack("<HB", at % 65536, len(piece)) + piece if at < 65536 else b"\0" * MOST_BYTES
            at += 8
        if len(out) >= MOST_BYTES:
            return None
    return bytes(out)


def without_log(base):
    """Bytes 18 and 19 say that there is a write-ahead log beside the file: in memory there is none."""
    return base[:18] + b"\1\1" + base[20:]


def opened(base):
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(base)
    db.executescript("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
    return db


def lax(base):
    """The same store, but its columns take values of any type; and the pages that this has changed."""
    db = opened(base)
    db.execute("PRAGMA writable_schema = ON")
    for word, instead in (("STRICT, ", ""), ("STRICT", ""), ("IS NOT NULL", "NOTNULL"), ("NOT NULL", "")):
        db.execute("UPDATE sqlite_master SET sql = replace(sql, ?, ?)", (word, instead))
    changed = db.serialize()
    n = len(base) // PAGE
    return changed, [page for page in range(n) if base[page * PAGE:][:PAGE] != changed[page * PAGE:][:PAGE]]


def statements(base):
    """SQL that changes the store, one change each, and the values in it."""
    db = opened(base)
    tables = [name for name, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
    for table in tables:
        rows = db.execute(f"SELECT * FROM {table}")
        columns = [column for column, *_ in rows.description]
        this = " AND ".join(f"{column} IS ?" for column in columns)
        others = ", ".join(column for column in columns if column != "id")
        for row in rows.fetchall():
            for column, value in zip(columns, row):
                news = [None, *NUMBERS, *TEXTS, *BLOBS, *(variants(value) if isinstance(value, str) else [])]
                yield from ((f"UPDATE {table} SET {column} = ? WHERE {this}", (new, *row)) for new in news)
            yield f"DELETE FROM {table} WHERE {this}", row
            yield f"INSERT INTO {table} ({others}) SELECT {others} FROM {table} WHERE {this}", row
        yield f"DELETE FROM {table}", ()
        yield f"DROP TABLE {table}", ()
        yield f"ALTER TABLE {table} RENAME TO other", ()
        for column in columns:
            yield f"ALTER TABLE {table} RENAME COLUMN {column} TO other", ()
            yield f"ALTER TABLE {table} DROP COLUMN {column}", ()
    for pragma, value in itertools.product(("user_version", "application_id"), (-1, 0, 1, 2, 3, 4, 5, 2**31 - 1)):
        yield f"PRAGMA {pragma} = {value}", ()


def of_store(file):
    base = without_log(file.read_bytes())
    # Files from outside need not keep what the schema says, of types for example. Pages of the schema stay as they were.
    of_any_type, schema = lax(base)
    for statement, values in statements(base):
        is_update = statement.startswith("UPDATE")
        db = opened(of_any_type if is_update else base)
        try:
            db.execute(statement, values)
        except (sqlite3.Error, OverflowError, UnicodeEncodeError):
            continue
        after = bytearray(db.serialize())
        for page in schema if is_update else []:
            after[page * PAGE:(page + 1) * PAGE] = base[page * PAGE:(page + 1) * PAGE]
        if change := patches(base, bytes(after)):
            yield from (bytes([how]) + change for how in HOW_STORE)


def of_sums(file):
    def places(value, path):
        """The bytes that lead to each value."""
        yield path, value
        if isinstance(value, dict):
            # The members are in the order of their names.
            for i, key in enumerate(sorted(value)):
                yield from places(value[key], path + bytes([i]))
        elif isinstance(value, list):
            for i in sorted({0, 1, min(len(value) - 1, 65535)} & set(range(len(value)))):
                yield from places(value[i], path + b"\0" + struct.pack("<H", i))

    changes = [bytes([240 + kind]) for kind in (0, 2, 3, 5, 6)] + [b"\xf1" + bytes([n]) for n in (1, 2, 255)]
    changes += [b"\xf4" + struct.pack("<I", n) for n in (1, 3, 255, 65536, 2**31)]
    changes += [b"\xf7" + text.ljust(15, b"a") for text in (b"", b"-", b"\xff", b"2026-01-01T00:00")]
    of_lists = [b"\xc8" + struct.pack("<H", n) for n in (0, 1, 2, 1000)] + [bytes([220, n]) for n in (1, 2, 255)]
    for path, value in places(json.loads(file.read_text()), b""):
        for change in changes + of_lists * isinstance(value, list):
            yield from (bytes([how]) + path + change for how in HOW_SUMS)


out, target, file = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
out.mkdir(parents=True, exist_ok=True)
for content in {"store": of_store, "sums": of_sums}[target](file):
    if len(content) <= MOST_BYTES:
        (out / hashlib.sha1(content).hexdigest()).write_bytes(content)
