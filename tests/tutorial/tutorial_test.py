"""Usage: tutorial_test.py TUTORIAL.md BUILD_DIR
Installs the build, writes the files of the tutorial and runs its commands in a scratch folder, and holds what they
print against what the tutorial shows: numbers may differ, `…` stands for any lines."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

FENCE = re.compile(r"(?:^`(?P<path>[^`\n]+)`\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"[-+±]?\d[\d,.]*(e[-+]?\d+)?")


def steps(document):
    """("file", path, text) and ("run", command, shown lines), in the document's order."""
    for block in FENCE.finditer(document):
        if block["kind"] != "sh":
            assert block["path"], f"a block of {block['kind']} without the name of its file"
            yield "file", block["path"], block["text"]
            continue
        lines = block["text"].splitlines()
        assert lines[0].startswith("$ "), lines[0]
        starts = [i for i, line in enumerate(lines) if line.startswith("$ ")] + [len(lines)]
        for begin, end in zip(starts, starts[1:]):
            yield "run", lines[begin][2:], lines[begin + 1:end]


def matches(shown, printed):
    """Line by line, with numbers masked; `…` takes as many lines as it needs."""
    if not shown:
        return not printed
    if shown[0] == "…":
        return any(matches(shown[1:], printed[skip:]) for skip in range(len(printed) + 1))
    masked = [NUMBER.sub("#", line.rstrip()) for line in (shown[0], printed[0])] if printed else ["", None]
    return masked[0] == masked[1] and matches(shown[1:], printed[1:])


def follow(document, folder, environment, report=print):
    """What differs, or None."""
    code = 0
    for kind, name, content in steps(document):
        if kind == "file":
            path = folder / name
            assert path.parent.is_dir(), f"{name}: its folder is not there"
            path.write_text(content)
            continue
        begun = time.monotonic()
        done = subprocess.run(["bash", "-c", f"(exit {code}); {name}"], cwd=folder, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        report(f"{time.monotonic() - begun:6.2f} s  {name}")
        code = done.returncode
        if not matches(content, done.stdout.splitlines()):
            return "\n".join([f"$ {name}", "--- shown", *content, "--- printed", done.stdout])
    return None


def main():
    document = pathlib.Path(sys.argv[1]).read_text()
    with tempfile.TemporaryDirectory(prefix="kernel-lab-tutorial-") as scratch:
        root = pathlib.Path(scratch)
        subprocess.run(["cmake", "--install", sys.argv[2], "--prefix", str(root / "installed")], check=True,
                       stdout=subprocess.DEVNULL)
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("KERNEL_LAB_", "OPENBLAS_"))}
        environment["PATH"] = f"{root / 'installed' / 'bin'}:{environment['PATH']}"
        environment["KERNEL_LAB_CACHE"] = str(root / "cache")
        (root / "work").mkdir()
        differs = follow(document, root / "work", environment)
        assert differs is None, differs
        # The test itself can fail: a promise of another verdict is noticed, and so is one of no output.
        for wrong in (document.replace("verdict: mismatch", "verdict: ok"), document.replace("$ echo $?\n3", "$ echo $?\n")):
            shutil.rmtree(root / "work")
            (root / "work").mkdir()
            assert follow(wrong, root / "work", environment, lambda _: None), "a wrong tutorial passed"
    print("the tutorial does what it says")


main()
