"""Fails where modules of a package use each other in a circle: run from the top of the checkout.

A module is a file or folder of a package's `src`. A file uses a module if it names a path into it (`crate::`, `super::`). A
module and those inside it may use each other; its siblings may not use it in return. The executor of `simt` is one machine in
several files, and excepted.
"""

import pathlib
import re
import sys

EXCEPTED = {"simt/src/executor"}


def modules_of(source):
    """Maps each module's path, such as ("input", "mdf"), to its text without comments and unit tests."""
    found = {}
    for file in sorted(source.rglob("*.rs")):
        path = file.relative_to(source).with_suffix("").parts
        if path[-1] in ("tests", "main"):
            continue
        text = re.split(r"#\[cfg\((?:test|all\(test.*)\)\]\nmod ", re.sub(r"//.*", "", file.read_text()))[0]
        found[() if path == ("lib",) else path[:-1] if path[-1] == "mod" else path] = text
    return found


def targets(module, text, modules):
    """Yields the modules that a module names."""
    for path in re.findall(r"\b((?:crate|super|self)(?:::\w+)+(?:::\{[^;]*?\})?)", text):
        head, *rest = re.sub(r"::\{.*", "", path, flags=re.S).split("::")
        base = [()] if head == "crate" else [module if head == "self" else module[:-1]]
        while rest and rest[0] == "super":
            base, rest = [base[0][:-1]], rest[1:]
        names = re.findall(r"\w+", path.split("{", 1)[1]) if "{" in path else [None]
        for name in names:
            target = base[0] + tuple(rest) + ((name,) if name else ())
            while target and target not in modules:
                target = target[:-1]
            if target and target != module:
                yield target


def circles(source):
    """Yields pairs of sibling modules that reach each other."""
    modules = modules_of(source)
    for parent in {module[:-1] for module in modules if module} | {()}:
        depth = len(parent)
        uses = {}
        for module, text in modules.items():
            if len(module) > depth and module[:depth] == parent:
                for target in targets(module, text, modules):
                    if len(target) > depth and target[:depth] == parent and target[depth] != module[depth]:
                        uses.setdefault(module[depth], {}).setdefault(target[depth], "::".join(module))
        reach = {one: set(to) for one, to in uses.items()}
        for _ in reach:
            for to in reach.values():
                to |= {far for near in [*to] for far in reach.get(near, ())}
        for one in sorted(reach):
            for other in sorted(uses[one]):
                if one in reach.get(other, ()):
                    yield f"{source}/{'/'.join(parent)}: {one} uses {other} (in {uses[one][other]}), and {other} comes back to {one}"


found = []
for manifest in sorted(pathlib.Path().glob("**/Cargo.toml")):
    source = manifest.parent / "src"
    if "target" not in manifest.parts and source.is_dir():
        found += [one for one in circles(source) if not any(one.startswith(f"{name}:") for name in EXCEPTED)]
print("\n".join(found) or "no module uses another one in a circle")
sys.exit(bool(found))
