"""A user with a trace of their own trainer, and nothing else: ranked targets, a split, and the next command."""

import gzip
import json
import os
import pathlib
import shlex
import shutil
import sqlite3
import unittest

from lab import LabTest

# Kernels of a step: name, duration in us, and the operator that launched it. A pause of 30 us ends the step.
STEP = [
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>", 300, "aten::mm"),
    ("triton_per_fused__to_copy_mean_mul_pow_rms_norm_rsqrt_3", 120, "triton_per_fused__to_copy_mean_mul_pow_rms_norm_rsqrt_3"),
    ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>", 80, "aten::_softmax"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >", 40, "aten::add"),
] * 5
STEPS = 6
PAUSE_US = 30


def steps():
    """(step, begin and end of each kernel) in us, six steps one after the other."""
    now = 1000
    for _ in range(STEPS):
        begin, kernels = now, []
        for name, us, operator in STEP:
            kernels.append((name, operator, now, now + us))
            now += us
        now += PAUSE_US
        yield begin, now, kernels


def kineto(scale=1):
    """`scale` makes the norms longer."""
    events, correlation, shift = [], 1, 0
    for number, (begin, end, kernels) in enumerate(steps()):
        first = begin + shift
        for name, operator, start, stop in kernels:
            longer = (scale - 1) * (stop - start) if "norm" in name else 0
            call = {"correlation": correlation, "External id": correlation}
            events.append({"ph": "X", "cat": "cpu_op", "name": operator, "pid": 5, "tid": 5, "ts": start + shift - 60, "dur": 20,
                           "args": {"External id": correlation}})
            events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "ts": start + shift - 55, "dur": 4,
                           "args": call})
            events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start + shift, "dur": stop - start + longer,
                           "args": dict(call, device=0, stream=7)})
            correlation += 1
            shift += longer
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 5, "tid": 5, "ts": first,
                       "dur": end + shift - first})
    return json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "a card"}], "traceEvents": events})


def nsys(path):
    process = 41 << 24
    names = {name: i for i, name in enumerate(dict.fromkeys(["cudaLaunchKernel_v7000"] + [kernel[0] for kernel in STEP]))}
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(i, name) for name, i in names.items()])
        db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER,"
                   "globalPid INTEGER, demangledName INTEGER, shortName INTEGER)")
        db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER)")
        correlation = 1
        for _, _, kernels in steps():
            for name, _, start, stop in kernels:
                db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, ?, ?, ?, ?)",
                           (start * 1000, stop * 1000, correlation, process, names[name], names[name]))
                db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 0)",
                           ((start - 55) * 1000, (start - 51) * 1000, process + 7, correlation))
                correlation += 1


class Imported(LabTest):
    def write(self, name, text):
        (self.folder / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())

    def next_command(self, done):
        """The command that an answer for people ends with, as words after the global flags."""
        line = [line for line in done.stdout.splitlines() if "kernel-lab --ledger" in line or "kernel-lab --engine" in line][-1]
        words = shlex.split(line[line.index("kernel-lab "):])[1:]
        while words[0] in ("--ledger", "--engine"):
            words = words[2:]
        return words

    def follow(self, words, exit_code=0):
        done = self.lab(*words)
        self.assertEqual(done.returncode, exit_code, (words, done.stdout[-2000:], done.stderr[-2000:]))
        return done

    def walk(self, trace, preset, verify=False):
        """trace-profile → auto-review → orchestrate → extract → evidence → promotion-check, each as the one before it says."""
        told = self.follow(["trace-profile", "--trace", trace])
        self.assertIn(f"filed under {preset}", told.stdout)
        self.assertIn("bottleneck:", told.stdout)
        profile = json.loads(pathlib.Path(self.ledger_lines()[-1]["details"]["record"]["output_file"]).read_text())
        self.assert_valid(profile)
        self.assertEqual((profile["preset"], profile["status"], profile["attributed_by"]), (preset, "ok", "families"))
        self.assertEqual(len(profile["trace_hash"]), 64)
        candidates = profile["candidates"]
        self.assertTrue(candidates)
        self.assertEqual([c["score"] for c in candidates], sorted((c["score"] for c in candidates), reverse=True))
        for c in candidates:
            self.assertAlmostEqual(c["gain_bound"], min(1, c["share"] + c["credited_share"]))
            self.assertIsNone(c["floor_ns"])
            self.assertTrue(c["floor_unknown"])
            if c["share"] > 0:
                self.assertEqual(profile["seam_share"][c["target"]], c["share"])

        reviewed = self.follow(self.next_command(told))
        self.assertIn("confidence", reviewed.stdout)
        self.assertEqual(self.ledger_lines()[-1]["preset"], preset)
        planned = self.follow(self.next_command(reviewed))
        record = self.record(*self.next_command(reviewed))
        target = record["target"]
        self.assertEqual((record["preset"], record["level"]), (preset, "trace-backed"))
        words = self.next_command(planned)
        self.assertEqual(words[0], "extract", planned.stdout)
        self.follow(words)
        workspace = words[words.index("--workspace") + 1]
        context = json.loads((self.folder / workspace / "workspace.json").read_text())["context"]
        self.assertEqual(context["preset"], preset)

        for form in ("text", "md", "html"):
            page = self.follow(["evidence", "--target", target, "--preset", preset, "--format", form]).stdout
            self.assertIn(preset, page)
            self.assertNotIn("capture --preset external", page)
            self.assertNotIn(f"integration-ab --workspace workspaces/{target} --preset external", page)
        check = self.record("promotion-check", "--target", target, "--workspace", workspace, "--preset", preset)
        self.assertEqual((check["answer"], check["state"]), ("already-champion", "trace-backed"))
        if verify:
            kernel = self.folder / workspace / "kernel.cpp"
            kernel.write_text(kernel.read_text() + "\n// a candidate of its own\n")
            check = self.record("promotion-check", "--target", target, "--workspace", workspace, "--preset", preset)
            self.assertEqual(check["answer"], "needs-verify")
            verified = self.follow(shlex.split(check["next"]["command"])[3:] + ["--quick"])
            stand_in = self.follow(self.next_command(verified))
            self.assertIn("cannot run the traced program", stand_in.stdout)
            told = self.follow(self.next_command(stand_in))
            self.assertIn("preset smoke", told.stdout)
        return target, workspace, profile

    def test_a_pytorch_trace(self):
        self.write("run.pt.trace.json.gz", kineto())
        target, workspace, profile = self.walk("run.pt.trace.json.gz", "external:run.pt.trace", verify=True)
        whole = sum(us for _, us, _ in STEP) + PAUSE_US
        shares = {c["target"]: c["share"] for c in profile["candidates"]}
        self.assertAlmostEqual(shares["matmul_epilogue"], 1500 / whole, places=6)
        self.assertAlmostEqual(shares["rmsnorm"], 600 / whole, places=6)
        self.assertAlmostEqual(shares["softmax"], 400 / whole, places=6)
        self.assertEqual(profile["summary"]["bottleneck"]["label"], "kernel-dominated")
        self.assertEqual(profile["summary"]["steps"], STEPS)

        # What the lab cannot do for a program that it cannot run says so, and what to do instead.
        before = self.ledger_bytes()
        self.assert_refused(self.lab("integration-ab", "--workspace", workspace), 5, "external:run.pt.trace", "--preset smoke", "trainer-protocol")
        self.assert_refused(self.lab("bench", "--workspace", workspace), 2, "external:run.pt.trace", "--preset smoke")
        self.assert_refused(self.lab("capture", "--preset", "external:run", "--output", "t/x"), 2, "external:run", "--preset smoke")
        self.assert_refused(self.lab("profile", "--preset", "external:run"), 2, "external:run")
        self.assert_refused(self.lab("promotion-check", "--target", target, "--preset", "external:a b"), 2, "external:a_b")
        self.assert_refused(self.lab("promotion-check", "--target", target, "--preset", "extrenal:run"), 2, "extrenal:run")
        self.assert_refused(self.lab("trace-profile", "--trace", "run.pt.trace.json.gz", "--preset", "smok"), 2, "smok", "smoke")
        self.assertEqual(self.ledger_bytes(), before)
        refused = self.record("promote", "--workspace", workspace, exit_code=3)
        self.assertEqual((refused["status"], refused["answer"]), ("refused", "needs-integration-adapter"))

    def test_time_outside_kernels_is_credited(self):
        # Ten adds of 4 us, 6 us apart, each launched just before; then a copy that nothing hides.
        events = [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 5, "tid": 5, "ts": 0, "dur": 200}]
        for i in range(10):
            events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "ts": 10 * i, "dur": 4, "args": {"correlation": i}})
            events.append({"ph": "X", "cat": "kernel", "name": STEP[3][0], "pid": 0, "tid": 7, "ts": 10 * i + 5, "dur": 4,
                           "args": {"device": 0, "stream": 7, "correlation": i}})
        events.append({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 8, "ts": 120, "dur": 30, "args": {"device": 0, "stream": 8}})
        self.write("eager.json", json.dumps({"schemaVersion": 1, "traceEvents": events}))
        told = self.lab("trace-profile", "--trace", "eager.json")
        self.assertIn("credited: launch_fusion with 27.00 %: 1 run of 10 short pointwise kernels", told.stdout)
        profile = json.loads((self.folder / "eager.trace-profile.json").read_text())
        self.assert_valid(profile)
        self.assertEqual({o["name"]: o["gain_ns"] for o in profile["summary"]["opportunities"]},
                         {"launch_fusion": 54_000, "whole_step_capture": 59_000, "data_movement": 30_000})
        by_target = {c["target"]: c for c in profile["candidates"]}
        self.assertEqual(profile["candidates"][0]["target"], "launch_fusion")
        self.assertAlmostEqual(by_target["launch_fusion"]["gain_bound"], 0.20 + 0.27)
        self.assertAlmostEqual(by_target["data_movement"]["gain_bound"], 0.15)
        self.assertNotIn("data_movement", profile["seam_share"])
        self.follow(self.next_command(told))

    def test_a_part_of_a_trace(self):
        self.write("run.pt.trace.json.gz", kineto())
        profile = self.record("trace-profile", "--trace", "run.pt.trace.json.gz", "--window", "2:3")
        self.assertEqual((profile["summary"]["steps"], profile["summary"]["window"]), (2, "2:3"))
        self.assertEqual(self.record("trace", "summary", "run.pt.trace.json.gz", "--window", ":3ms")["steps"], 1)
        self.assert_refused(self.lab("trace-profile", "--trace", "run.pt.trace.json.gz", "--window", "7:9"), 2, "6 steps", "1 to 6")
        self.assert_refused(self.lab("trace", "summary", "run.pt.trace.json.gz", "--window", "all"), 2, "all", "3:8")

    def test_an_nsys_trace(self):
        nsys(self.folder / "run.sqlite")
        _, _, profile = self.walk("run.sqlite", "external:run")
        self.assertEqual(profile["summary"]["format"], "nsys")
        self.assertIn("matmul", {f["family"] for f in profile["summary"]["families"]})

    def test_an_engine_that_is_not_here_ranks_all_the_same(self):
        nsys(self.folder / "run.sqlite")
        record = self.record("--engine", "cuda", "trace-profile", "--trace", "run.sqlite")
        self.assertEqual((record["engine"], record["preset"]), ("cuda", "external:run"))
        first = next(c for c in record["candidates"] if c["target"] == "rmsnorm")
        self.record("--engine", "cuda", "auto-review", "--trace-profile", "run.trace-profile.json")
        plan = self.record("--engine", "cuda", "orchestrate", "--trace-profile", "run.trace-profile.json", "--workspace-root", "ws",
                           "--rank", first["rank"])
        self.assertEqual(plan["level"], "trace-backed")
        # A build without the engine does not know its kernels' files.
        ready = first["starter"] == "starter-ready"
        self.record("--engine", "cuda", "extract", "--profile", "run.trace-profile.json", "--workspace", "ws/rmsnorm", "--rank", first["rank"],
                    exit_code=0 if ready else 5)
        check = self.record("--engine", "cuda", "promotion-check", "--target", "rmsnorm", "--preset", "external:run")
        self.assertEqual(check["state"], "trace-backed")
        self.assertEqual(self.record("promotion-check", "--target", "rmsnorm", "--preset", "external:run")["answer"], "needs-trace-profile")

    def test_a_name_that_a_shell_would_read(self):
        name = "it's my run; $(touch owned) (1).json"
        self.write(name, kineto())
        told = self.follow(["trace-profile", "--trace", name])
        reviewed = self.follow(self.next_command(told))
        planned = self.follow(self.next_command(reviewed))
        words = self.next_command(planned)
        self.assertIn("it's my run; $(touch owned) (1).trace-profile.json", words)
        self.follow(words)
        self.assertEqual(self.ledger_lines()[-1]["preset"], "external:it_s_my_run____touch_owned___1_")
        self.assertFalse((self.folder / "owned").exists())

    def test_two_files_of_one_name_and_a_share_that_grew(self):
        self.write("run.json", kineto())
        (self.folder / "later").mkdir()
        self.write("later/run.json", kineto(scale=3))
        first = self.record("trace-profile", "--trace", "run.json")
        again = self.lab("trace-profile", "--trace", "run.json")
        self.assertNotIn("held", again.stderr)
        self.record("auto-review", "--trace-profile", "run.trace-profile.json")
        # A person's judgement of an imported trace: the trace-profile is what was looked at.
        self.record("review-trace", "--target", "rmsnorm", "--trace-profile", "run.trace-profile.json", "--relevance", "none", "--notes", "soon gone")
        told = self.follow(["promotion-check", "--target", "rmsnorm", "--preset", "external:run"]).stdout
        self.assertIn("a person judged its relevance none", told)
        same = self.record("trace-profile", "--trace", "run.json")
        norm = next(c for c in same["candidates"] if c["target"] == "rmsnorm")
        self.assertIn("a person judged it none (x 0.1)", norm["moved_by"])
        self.assertLess(norm["score"], next(c for c in first["candidates"] if c["target"] == "rmsnorm")["score"])

        newer = self.lab("trace-profile", "--trace", "later/run.json")
        self.assertEqual(newer.returncode, 0, newer.stderr)
        self.assertIn("external:run held run.json", newer.stderr)
        self.assertIn(first["trace_hash"][:12], newer.stderr)
        record = json.loads((self.folder / "later/run.trace-profile.json").read_text())
        norm = next(c for c in record["candidates"] if c["target"] == "rmsnorm")
        self.assertEqual(norm["moved_by"], [])
        for verb in (["promotion-check"], ["evidence"], ["evidence", "--format", "md"], ["evidence", "--format", "html"]):
            text = self.follow(verb + ["--target", "rmsnorm", "--preset", "external:run"]).stdout
            self.assertIn("the target is back", text, verb)
        other = self.record("trace-profile", "--trace", "later/run.json", "--preset", "external:other")
        self.assertEqual(other["preset"], "external:other")

    def test_under_a_preset_of_the_labs_trainer(self):
        self.write("run.json", kineto())
        record = self.record("trace-profile", "--trace", "run.json", "--preset", "smoke")
        self.assertEqual((record["preset"], record["attributed_by"]), ("smoke", "families"))
        check = self.record("promotion-check", "--target", "rmsnorm", "--preset", "smoke")
        self.assertAlmostEqual(check["seam_share"], record["seam_share"]["rmsnorm"])

    def test_a_trace_that_says_nothing_of_kernels(self):
        self.write("host.json", json.dumps({"traceEvents": [
            {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 5, "tid": 5, "ts": 0, "dur": 9}]}))
        self.assertEqual(self.record("trace-profile", "--trace", "host.json", exit_code=5)["status"], "insufficient-trace-data")
        self.write("odd.json", json.dumps({"traceEvents": [
            {"ph": "X", "cat": "kernel", "name": "Kernel2", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {"device": 0, "stream": 7}}]}))
        odd = self.record("trace-profile", "--trace", "odd.json", exit_code=5)
        self.assertEqual(odd["status"], "insufficient-trace-data")
        self.assertIn("trace summary odd.json --kernels", odd["remedy"])
        review = self.record("auto-review", "--trace-profile", "odd.trace-profile.json", exit_code=5)
        self.assertEqual(review["status"], "insufficient-trace-data")

    def test_real_traces(self):
        samples = os.environ.get("KERNEL_LAB_SAMPLES")
        if not samples:
            self.skipTest("KERNEL_LAB_SAMPLES is not set: set it to the folder that holds kineto/ and nsys/")
        for number, (file, preset) in enumerate((("kineto/TL_h100_gaunernst.json.gz", "external:TL_h100_gaunernst"),
                                                 ("nsys/nsysai_healthy_1pct.sqlite", "external:nsysai_healthy_1pct"))):
            with self.subTest(file=file):
                folder = self.folder / str(number)
                folder.mkdir()
                trace = shutil.copy(pathlib.Path(samples) / file, folder)
                shutil.rmtree(self.folder / "workspaces", ignore_errors=True)
                self.walk(str(pathlib.Path(trace).relative_to(self.folder)), preset)


if __name__ == "__main__":
    unittest.main(verbosity=2)
