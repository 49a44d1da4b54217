"""Captures and traces as a user meets them: files, verdicts, and what bad input is told."""

import gzip
import json
import signal
import sqlite3
import subprocess
import time
import unittest

from lab import ENVIRONMENT, HOME, LabTest


class Captures(LabTest):
    def capture(self, *more, exit_code=0, **options):
        return self.record("capture", "--output", "t/smoke", "--preset", "smoke", "--quick", *more,
                           exit_code=exit_code, **options)

    def test_a_capture_is_a_trace_its_metadata_and_a_line_in_the_ledger(self):
        record = self.capture("--include-eval")
        self.assertEqual(record["status"], "ok")
        self.assertEqual(json.loads((self.folder / "t/smoke.metadata.json").read_text()), record)
        self.assertEqual(record["steps"], 8)
        self.assertGreater(record["covered_share"], 0.9)
        self.assertGreater(record["evaluation"]["val_bpb"], 0)
        event = self.ledger_lines()[-1]
        self.assertEqual((event["event_type"], event["status"]), ("capture", "ok"))
        self.assertEqual(event["identity"], record["identity"])
        for part in ("seams", "trainer", "fingerprint_class"):
            self.assertTrue(event["identity"][part], part)

        with sqlite3.connect(self.folder / "t/smoke.sqlite") as trace:
            names = [row[0] for row in trace.execute(
                "SELECT value FROM NVTX_EVENTS JOIN StringIds ON textId = id WHERE category = 2")]
            self.assertEqual(names.count("loss_prelude/forward"), 8)
            self.assertIn(("KERNEL_LAB_PRESET", "smoke"), list(trace.execute("SELECT * FROM META_DATA_EXPORT")))

        summary = self.record("trace", "summary", "t/smoke.sqlite", "--kernels")
        self.assertEqual(summary["steps"], 8)
        self.assertEqual(summary["window_ns"], record["window_ns"])
        self.assertEqual(summary["bottleneck"]["label"], "kernel-dominated")
        self.assertEqual(summary["unknown_share"], 0)
        seams = {seam["seam"]: seam for seam in summary["seams"]}
        self.assertEqual(seams["rmsnorm"]["calls"], {"backward": 48, "forward": 48})
        split = summary["bottleneck"]["split"]
        self.assertEqual(sum(ns for part, ns in split.items() if part != "whole_ns"), split["whole_ns"])
        self.assertIn("bottleneck", self.lab("trace", "summary", "t/smoke.sqlite").stdout)

        exported = self.record("trace", "export", "t/smoke.sqlite")
        events = json.loads((self.folder / "t/smoke.json").read_text())["traceEvents"]
        self.assertEqual(sum(event["ph"] == "X" for event in events), exported["events"])
        self.assertEqual(exported["events"], record["ranges"] + 8)

    def test_a_workspaces_kernel_is_captured_in_its_seam(self):
        workspace = self.workspace()
        kernel = workspace / "kernel.cpp"
        kernel.write_text(kernel.read_text() + "\n// another\n")
        record = self.record("capture", "--workspace", "mine", "--output", "t", "--quick")
        self.assertEqual((record["status"], record["seam"], record["target"]), ("ok",) + ("activation_pointwise",) * 2)
        self.assertEqual(record["libraries"]["activation_pointwise"]["source_hash"], record["identity"]["kernel"])
        self.assertIsNone(record["bench"])

    def test_overrides_reach_the_trainer_and_make_another_identity(self):
        plain = self.capture()
        record = self.capture("--set", "rows=2")
        self.assertEqual(record["trainer_start"]["config"]["rows"], 2)
        self.assertNotEqual(record["identity"]["trainer"], plain["identity"]["trainer"])
        for setting, words in (("rowz=2", ("rowz", "rows")), ("rows=0", ("rows is 0",)), ("rows=many", ("many",))):
            kept = self.ledger_bytes()
            self.assert_refused(self.lab("capture", "--output", "t/x", "--preset", "smoke", "--set", setting), 2, *words)
            self.assertEqual(self.ledger_bytes(), kept)
        self.assert_refused(self.lab("capture", "--output", "t/x", "--preset", "smoke", "--set", "rows"), 2, "FIELD=VALUE")

    def test_what_is_not_built_says_so_and_leaves_metadata(self):
        record = self.capture("--tool", "nsys", exit_code=5)
        self.assertEqual(record["status"], "missing-tool")
        self.assertEqual(json.loads((self.folder / "t/smoke.metadata.json").read_text()), record)
        self.assertEqual(self.ledger_lines()[-1]["status"], "missing-tool")
        other = self.record("--engine", "cuda", "capture", "--output", "t/gpu", "--preset", "gpu-small", exit_code=5)
        self.assertIn(other["status"], ("missing-tool", "missing-runtime"))
        self.assertTrue((self.folder / "t/gpu.metadata.json").exists())

    def test_another_trainer_is_captured_and_filed_under_its_name(self):
        record = self.record("capture", "--output", "t/other", "--preset", "smoke", "--quick", "--", str(HOME / "bin/kernel-lab-train"))
        self.assertEqual((record["status"], record["preset"]), ("ok", "external:kernel-lab-train"))
        self.assertEqual(record["plan"]["preset"], "smoke")
        self.assertEqual(self.ledger_lines()[-1]["preset"], "external:kernel-lab-train")
        many = self.lab("capture", "--output", "t/x", "--", str(HOME / "bin/kernel-lab-train"))
        self.assert_refused(many, 2, "--preset")
        self.assert_refused(self.lab("capture", "--output", "t/x", "--", "sleep", "1"), 3, "docs/trainer-protocol.md")
        self.assert_refused(self.lab("capture", "--output", "t/x", "--", "./no-such-trainer"), 5, "no-such-trainer")

    def test_verify_judges_a_kernel_on_what_the_trainer_passed(self):
        record = self.capture("--tensors")
        files = [self.folder / file["path"] for file in record["tensor_files"]]
        self.assertTrue(all(file.exists() for file in files))
        self.assertIn("activation_pointwise.0.safetensors", [file.name for file in files])
        self.workspace()
        plain = self.record("verify", "--workspace", "mine", "--quick", "--preset", "smoke")
        real = self.record("verify", "--workspace", "mine", "--quick", "--preset", "smoke", "--tensors", "t/smoke.tensors")
        self.assertEqual((real["status"], real["cases_run"]), ("ok", plain["cases_run"] + 1))
        self.assertNotEqual(real["identity"]["case_plan"], plain["identity"]["case_plan"])

        mine = self.folder / "t/smoke.tensors/mine.txt"
        mine.write_text("a note")
        self.assertEqual(self.capture()["tensor_files"], [])
        self.assertEqual(list(mine.parent.iterdir()), [mine])
        self.assert_refused(self.lab("verify", "--workspace", "mine", "--tensors", "t/smoke.tensors"), 2, "holds no captured tensors")
        self.assert_refused(self.lab("verify", "--workspace", "mine", "--tensors", "t/nowhere"), 2, "t/nowhere")

    def test_a_prefix_that_cannot_be_written_and_one_that_is_missing(self):
        self.assert_refused(self.lab("capture", "--output", "/proc/nowhere/t", "--preset", "smoke"), 1, "/proc/nowhere")
        self.assert_refused(self.lab("capture", "--preset", "smoke"), 2, "--output")

    def test_a_full_disk_keeps_no_trace_without_its_metadata(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", disk], capture_output=True).returncode != 0:
            self.skipTest("no right to mount a small file system")
        self.addCleanup(subprocess.run, ["umount", disk])
        done = self.lab("capture", "--output", "disk/t", "--preset", "smoke", "--quick")
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left on device", done.stdout + done.stderr)
        self.assertIn("free some space", done.stdout + done.stderr)
        self.assertLessEqual({path.name for path in disk.iterdir()}, {"t.metadata.json"})

    def test_an_interrupt_leaves_the_earlier_capture_as_it_was(self):
        self.capture()
        before = {path: path.read_bytes() for path in (self.folder / "t").iterdir()}
        running = subprocess.Popen(self.command("capture", "--output", "t/smoke", "--preset", "smoke", "--steps", "5000"),
                                   cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a shell's & ignores it
        time.sleep(4)
        running.send_signal(signal.SIGINT)
        self.assertNotEqual(running.wait(timeout=20), 0)
        self.assertEqual({path: path.read_bytes() for path in (self.folder / "t").iterdir()}, before)


class Imports(LabTest):
    KINETO = json.dumps({"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 3}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "ts": 1, "dur": 0.25, "args": {"correlation": 3}},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 5, "tid": 5, "ts": 0, "dur": 9}]})

    def test_a_trace_of_another_tool_becomes_our_file_and_says_the_same(self):
        (self.folder / "run.json.gz").write_bytes(gzip.compress(self.KINETO.encode()))
        record = self.record("trace", "import", "run.json.gz")
        self.assertEqual((record["format"], record["kernels"], record["calls"], record["steps"], record["gaps"]), ("kineto", 1, 1, 1, []))
        self.assertEqual(record["imported"], "run.sqlite")
        theirs, ours = self.record("trace", "summary", "run.json.gz"), self.record("trace", "summary", "run.sqlite")
        for field in ("window_ns", "steps", "devices", "host", "bottleneck"):
            self.assertEqual(theirs[field], ours[field], field)
        self.assert_refused(self.lab("trace", "import", "run.json.gz"), 2, "run.sqlite exists")
        self.assertIn("holds 1 kernels", self.lab("trace", "import", "run.json.gz", "--output", "again.sqlite").stdout)

    def test_without_device_work_the_answer_is_not_ok(self):
        (self.folder / "host.json").write_text(json.dumps({"traceEvents": [
            {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 5, "tid": 5, "ts": 0, "dur": 9}]}))
        self.assertEqual(self.record("trace", "import", "host.json", exit_code=5)["status"], "insufficient-trace-data")
        self.assertEqual(self.record("trace", "summary", "host.json", exit_code=5)["status"], "insufficient-trace-data")


class Differences(LabTest):
    def kineto(self, name, kernels, step_us=None):
        """One kernel of each name and duration in µs, back to back; a step of `step_us`, if any."""
        events, at = [], 0
        for i, (kernel, duration) in enumerate(kernels):
            events.append({"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": at, "dur": duration,
                           "args": {"device": 0, "stream": 7, "correlation": i}})
            at += duration
        if step_us:
            events.append({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 5, "tid": 5, "ts": 0, "dur": step_us})
        (self.folder / name).write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))

    def setUp(self):
        super().setUp()
        self.kineto("a.json", [("gemm_nn", 40), ("softmax_forward", 20)], 100)
        self.kineto("b.json", [("gemm_nn", 40), ("layer_norm_kernel", 10)], 80)

    def test_two_traces_of_any_format_say_what_grew_and_what_shrank(self):
        record = self.record("trace", "diff", "a.json", "b.json")
        self.assertEqual((record["per"], record["before_ns"], record["after_ns"], record["change_ns"]), ("step", 100_000, 80_000, -20_000))
        families = {f["name"]: (f["held_by"], f["change_ns"]) for f in record["families"]}
        self.assertEqual(families, {"matmul": ("both", 0), "softmax": ("before", -20_000), "norm": ("after", 10_000)})
        self.assertEqual(record["grew"], ["norm +10 µs"])
        self.assertEqual(record["before"]["file"], "a.json")
        self.assertEqual(self.ledger_lines(), [])
        told = self.lab("trace", "diff", "a.json", "b.json")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("verdict: a step went from 0.100 ms to 0.080 ms (-20.00 %); grew: norm +10 µs", told.stdout)

        self.lab("trace", "import", "a.json", "--output", "a.sqlite")
        mixed = self.record("trace", "diff", "a.json", "a.sqlite")
        self.assertEqual([f["change_ns"] for f in mixed["families"] + mixed["parts"]], [0] * 4)
        self.assertIn("different formats: kineto and kernel-lab", mixed["notes"][0])

    def test_without_steps_it_is_per_window(self):
        self.kineto("c.json", [("gemm_nn", 40)])
        record = self.record("trace", "diff", "a.json", "c.json")
        self.assertEqual(record["per"], "window")
        self.assertIn("per window, because one has no steps: 1 and 0 steps", record["notes"])

    def test_bad_input_is_told_as_by_summary(self):
        self.assert_refused(self.lab("trace", "diff", "a.json", "absent"), 2, "absent")
        self.assert_refused(self.lab("trace", "diff", "a.json"), 2, "after")
        (self.folder / "x").write_bytes(b"")
        self.assert_refused(self.lab("trace", "diff", "x", "a.json"), 5, "x", "is empty")
        self.kineto("host.json", [], 9)
        record = self.record("trace", "diff", "a.json", "host.json", exit_code=5)
        self.assertEqual(record["status"], "insufficient-trace-data")
        self.assertIn("host.json", record["reason"])


class BadTraces(LabTest):
    def summary(self, content, exit_code, *words):
        (self.folder / "x").write_bytes(content)
        self.assert_refused(self.lab("trace", "summary", "x"), exit_code, "x", *words)

    def test_each_is_named(self):
        self.assert_refused(self.lab("trace", "summary", "absent"), 2, "absent")
        self.summary(b"", 5, "is empty")
        self.summary(b"\x7fELF and so on", 2, "begins with")
        self.summary(b"SQLite format 3\0 and nothing of it", 5, "cannot be opened")
        with sqlite3.connect(self.folder / "empty.sqlite") as database:
            database.execute("CREATE TABLE unrelated (a)")
        self.assert_refused(self.lab("trace", "summary", "empty.sqlite"), 5, "no kernels, no calls and no ranges")
        self.assert_refused(self.lab("trace"), 2, "summary")


if __name__ == "__main__":
    unittest.main(verbosity=2)
