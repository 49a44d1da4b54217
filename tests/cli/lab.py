"""Runs kernel-lab as a user would, in a folder of the test's own, and judges its answers."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

import jsonschema

SOURCE = pathlib.Path(__file__).resolve().parents[2]
HOME = pathlib.Path(os.environ.get("KERNEL_LAB_HOME", SOURCE / "build"))
KERNEL_LAB = HOME / "bin" / "kernel-lab"

ENVIRONMENT = dict(os.environ, KERNEL_LAB_HOME=str(HOME))
# A BLAS pinned by the caller would make another machine class.
ENVIRONMENT.pop("OPENBLAS_CORETYPE", None)
# Tells the workers started from here from those of others: of all the environment a worker is given
# only where to look for libraries, here also in a folder that does not exist.
TAG = f"/kernel-lab-cli-{os.getpid()}"
ENVIRONMENT["LD_LIBRARY_PATH"] = ":".join(filter(None, [ENVIRONMENT.get("LD_LIBRARY_PATH"), TAG]))


def strict(schema):
    """The schema with no field allowed that it does not describe."""
    if isinstance(schema, dict):
        schema = {key: strict(value) for key, value in schema.items()}
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    elif isinstance(schema, list):
        schema = [strict(value) for value in schema]
    return schema


def read_schemas():
    folder = SOURCE / "docs" / "schemas"
    return {path.name.removesuffix(".schema.json"): json.loads(path.read_text())
            for path in folder.glob("*.schema.json")}


SCHEMAS = read_schemas()


def workers():
    """Process ids of running workers that this test program started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            program = os.readlink(entry / "exe")
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if program.endswith("/kernel-lab-worker") and TAG.encode() in environment:
            found.append(int(entry.name))
    return found


class LabTest(unittest.TestCase):
    """A scratch folder with a ledger; `lab` runs a verb there."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kernel-lab-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.ledger = self.folder / "results" / "ledger.jsonl"

    def command(self, *verb):
        return [str(KERNEL_LAB), "--ledger", str(self.ledger), *map(str, verb)]

    def lab(self, *verb, timeout=240, **options):
        return subprocess.run(self.command(*verb), cwd=self.folder, env=ENVIRONMENT, timeout=timeout,
                              capture_output=True, text=True, **options)

    def record(self, *verb, exit_code=0, **options):
        """The verb's record: one object alone on stdout, keys sorted, valid against its schema."""
        done = self.lab("--json", *verb, **options)
        self.assertEqual(done.returncode, exit_code, (verb, done.stdout[-2000:], done.stderr[-2000:]))
        self.assertEqual(done.stdout.count("\n"), 1, done.stdout[:2000])
        record = json.loads(done.stdout)
        self.assert_sorted(record)
        self.assert_valid(record)
        return record

    def assert_matches_schema(self, content):
        self.assertIn(content["schema"], SCHEMAS)
        self.assertIsInstance(content["schema_version"], int)
        jsonschema.validate(content, strict(SCHEMAS[content["schema"]]))

    def assert_valid(self, record):
        self.assert_matches_schema(record)
        self.assertIn("status", record)

    def assert_sorted(self, value):
        if isinstance(value, dict):
            self.assertEqual(list(value), sorted(value))
            for item in value.values():
                self.assert_sorted(item)
        elif isinstance(value, list):
            for item in value:
                self.assert_sorted(item)

    def assert_refused(self, done, exit_code, *words):
        """A person is told what happened and what to do, on stderr; stdout stays empty."""
        self.assertEqual(done.returncode, exit_code, (done.args, done.stdout[-1000:], done.stderr[-1000:]))
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertIn("→", done.stderr)

    def workspace(self, name="mine", target="activation_pointwise", kernel=None):
        made = self.lab("init", "--target", target, "--workspace", name, "--preset", "smoke")
        self.assertEqual(made.returncode, 0, made.stderr)
        folder = self.folder / name
        if kernel is not None:
            (folder / "kernel.cpp").write_text(kernel)
        return folder

    def ledger_bytes(self):
        return self.ledger.read_bytes() if self.ledger.exists() else b""

    def ledger_lines(self):
        return [json.loads(line) for line in self.ledger_bytes().splitlines()]

    def assert_no_worker_left(self):
        end = time.monotonic() + 5
        while workers() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(workers(), [])


def pointwise_kernel(work, before=""):
    """A kernel of activation_pointwise that does `work` around honest results."""
    return (SOURCE / "tests/cheats/pointwise.inc").read_text() + f"""
{before}
namespace {{
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {{
  const View v = view(plan, call);
  honest(v);
  {work}
  return kl::ok();
}}
}}  // namespace
KL_EXPORT_POINTWISE(no_bytes, no_bytes);
"""
