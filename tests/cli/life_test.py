"""A kernel's life by the verbs, in a scratch copy of the targets, with every record checked."""

import hashlib
import json
import re
import resource
import shutil
import unittest
from pathlib import Path

import lab
from lab import LabTest, pointwise_kernel


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Life(LabTest):
    def setUp(self):
        super().setUp()
        self.targets = self.folder / "targets"  # found from the working folder, before the installed ones
        shutil.copytree(lab.SOURCE / "targets", self.targets)
        self.champion = self.targets / "activation_pointwise" / "kernel.cpp"

    def test_from_init_to_promote_and_back(self):
        made = self.record("init", "--target", "relu_squared", "--workspace", "mine", "--preset", "smoke")
        kernel = self.folder / "mine" / "kernel.cpp"
        self.assertEqual((made["target"], made["made"]["kernel_file"]), ("activation_pointwise", "kernel.cpp"))
        self.assertEqual(kernel.read_bytes(), self.champion.read_bytes())
        self.assert_matches_schema(json.loads((self.folder / "mine" / "workspace.json").read_text()))
        original = kernel.read_text()
        candidate = pointwise_kernel("")
        kernel.write_text(candidate)

        verified = self.record("verify", "--workspace", "mine", "--quick")
        self.assertEqual(verified["kernel_hash"], hashlib.sha256(candidate.encode()).hexdigest())
        benched = self.lab("--json", "bench", "--workspace", "mine", "--quick", "--seed", "5")
        bench = json.loads(benched.stdout)
        self.assert_valid(bench)
        exit_codes = {"improved": 0, "equivalent": 0, "regressed": 3, "inconclusive": 4}
        self.assertEqual(benched.returncode, exit_codes[bench["status"]], bench["reason"])
        self.assertEqual((bench["seed"], bench["preset"]), (5, "smoke"))
        samples = self.ledger.parent / "samples"
        kept = [path for path in samples.rglob("*") if path.is_file()]
        self.assertIn(bench["samples_file"], [hashlib.sha256(path.read_bytes()).hexdigest() for path in kept])

        check = self.record("promotion-check", "--target", "activation_pointwise", "--workspace", "mine")
        self.assertNotEqual(check["answer"], "ready-to-promote")
        required = self.record("promotion-check", "--target", "activation_pointwise", "--workspace", "mine",
                               "--require", "integration-validated", exit_code=3)
        self.assertEqual(required["status"], "refused")
        markdown = self.lab("evidence", "--target", "activation_pointwise", "--workspace", "mine", "--format", "md").stdout
        self.assertTrue(markdown.startswith("# activation_pointwise on cpu\n"))
        self.assertIn("| verify | **ok** |", markdown)

        before = tree(self.targets)
        refused = self.record("promote", "--workspace", "mine", "--apply", exit_code=3)
        self.assertEqual(refused["status"], "refused")
        self.assertIsNone(refused["provenance"])
        ready = self.record("promote", "--workspace", "mine", "--force", "--why", "a test of the tool")
        self.assertEqual(ready["status"], "patch-ready")
        self.assertEqual(tree(self.targets), before)
        self.assertNotIn("became the champion", Path(ready["report"]).read_text())
        shown = self.lab("promote", "--workspace", "mine", "--preset", "smoke", "--force", "--why", "it's a test").stdout
        self.assertIn("promote --workspace mine --preset smoke --apply --force --why 'it'\\''s a test'\n", shown)

        done = self.record("promote", "--workspace", "mine", "--apply", "--force", "--why", "a test of the tool")
        self.assertEqual(done["status"], "promoted")
        page = Path(done["report"]).read_text()
        self.assertIn(self.ledger.parent / "reports", Path(done["report"]).parents)
        self.assertIn("How this kernel became the champion", page)
        self.assertIn("a test of the tool", page)
        after = tree(self.targets)
        changed = {name for name in before | after if before.get(name) != after.get(name)}
        self.assertEqual(changed, {"activation_pointwise/kernel.cpp", "activation_pointwise/provenance.json"})
        self.assertEqual(after["activation_pointwise/kernel.cpp"].decode(), candidate)
        provenance = json.loads(after["activation_pointwise/provenance.json"])
        self.assert_matches_schema(provenance)
        entry = provenance["champions"]["kernel.cpp"]
        self.assertTrue(entry["forced"])
        self.assertEqual(entry["why"], "a test of the tool")
        self.assertEqual(self.ledger_lines()[-1]["event_type"], "promotion")
        self.assertEqual(self.record("promotion-check", "--target", "activation_pointwise", "--workspace", "mine")["answer"],
                         "already-champion")

        self.after_the_promotion(kernel, original, candidate)

    def after_the_promotion(self, kernel, original, candidate):
        history = self.record("history", "--workspace", "mine")
        self.assertEqual([source["kernel"] for source in history["sources"]], [history["present"]])
        self.assertTrue(history["sources"][0]["is_champion"])
        self.assertEqual(self.record("diff", "--workspace", "mine")["patch"], "")
        kernel.write_text(candidate + "\n// one line more\n")
        diff = self.record("diff", "--workspace", "mine", history["present"][:8], "workspace")
        self.assertEqual((diff["lines_added"], diff["lines_removed"]), (2, 0))
        restored = self.record("restore", "--workspace", "mine", history["present"][:8])
        self.assertEqual(restored["kernel"], history["present"])
        self.assertEqual(kernel.read_text(), candidate)
        kernel.unlink()
        self.record("restore", "--workspace", "mine", history["present"][:8])
        self.assertEqual(kernel.read_text(), candidate)
        self.assert_refused(self.lab("restore", "--workspace", "mine", "feedbeefcafe"), 2, "feedbeefcafe")

    def test_a_failing_candidate_cannot_be_forced(self):
        self.workspace("wrong", kernel=pointwise_kernel("v.out[0] += 1;"))
        before = tree(self.targets)
        record = self.record("promote", "--workspace", "wrong", "--apply", "--force", "--why", "hope", exit_code=3)
        self.assertEqual(record["status"], "mismatch")
        self.assertEqual(tree(self.targets), before)


class EveryRecord(LabTest):
    def test_of_the_verbs_that_need_no_workspace(self):
        self.assertEqual(self.record("list-targets")["schema"], "target-list")
        self.assertEqual(self.record("--list-engines")["schema"], "engine-list")
        self.assertEqual(self.record("evidence", "--target", "norm", "--preset", "smoke")["state"], "no-evidence")
        self.assertEqual(self.record("ledger", "show")["events"], [])
        self.assertGreater(self.record("list-targets")["wall_seconds"], 0)

    def test_of_a_ledger_that_is_not_there(self):
        for verb in (["check"], ["check", "--repair"]):
            record = self.record("ledger", *verb, exit_code=2)
            self.assertIn(str(self.ledger), record["reason"])
        self.assertFalse(self.ledger.exists())

    def test_of_doctor(self):
        done = self.lab("--json", "doctor")
        record = json.loads(done.stdout)
        self.assert_valid(record)
        self.assertEqual(done.returncode, 0 if record["status"] == "ok" else 5, record["reason"])
        self.assertIn("engine cpu", record["sections"])
        for section, lines in record["sections"].items():
            for line in lines:
                self.assertTrue(line["status"] == "ok" or line["remedy"] or section == "timing", line)
        self.assertIn("results", [line["name"] for line in record["sections"]["files"]])

    def test_of_a_doctor_where_results_cannot_be_kept(self):
        self.ledger = Path("/proc/nowhere/ledger.jsonl")
        done = self.lab("--json", "doctor")
        record = json.loads(done.stdout)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/proc/nowhere", record["reason"])
        self.assertIn("--ledger", record["remedy"])

    def test_of_verify_champions(self):
        record = self.record("verify", "--champions", "--preset", "smoke")
        self.assertGreaterEqual(len(record["records"]), 3)
        self.assertEqual({one["status"] for one in record["records"]}, {"ok"})

    def test_a_preset_that_cannot_run_here_is_refused_before_anything_is_measured(self):
        for preset, code, words in (("smok", 2, ("smok", "smoke")), ("upstream", 5, ("upstream", "cuda"))):
            for more in ([], ["--aa"]):
                with self.subTest(preset=preset, more=more):
                    done = self.lab("--engine", "cpu", "calibrate", "--quick", "--preset", preset, *more, timeout=20)
                    self.assert_refused(done, code, *words)
                    self.assertNotIn("copy bandwidth", done.stderr)
        # A trainer that may not use memory.
        tight = self.lab("calibrate", "--quick", "--preset", "cpu-strong",
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (800 << 20, 800 << 20)))
        self.assertNotEqual(tight.returncode, 0)
        self.assertIn("cpu-strong", tight.stderr)
        self.assertEqual(self.ledger_bytes(), b"")

    def test_a_named_calibration_is_the_default_and_tells_its_stages(self):
        before = self.lab("profile")
        self.assertIn("no calibrated default preset", before.stderr)
        done = self.lab("calibrate", "--quick", "--preset", "smoke")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("verdict:"), 1, done.stdout)
        for stage in ("does preset smoke run here?", "copy bandwidth"):
            self.assertEqual(done.stderr.count(stage), 1, done.stderr)
        self.assertNotIn("no calibrated default preset", self.lab("profile").stderr)
        self.assertEqual(self.lab("--quiet", "calibrate", "--quick", "--preset", "smoke").stderr, "")

    def test_of_calibrate(self):
        record = self.record("calibrate", "--quick", "--preset", "smoke")
        self.assertEqual(record["schema"], "calibration")
        self.assertTrue(record["ceilings"])
        self.assertGreater(record["device"]["fp32_tflop_per_s"], 0)
        self.assertEqual([line["event_type"] for line in self.ledger_lines()], ["calibration"])

    def test_of_integration_ab(self):
        self.workspace()
        unverified = self.record("integration-ab", "--workspace", "mine", exit_code=3)
        self.assertEqual(unverified["status"], "refused")
        self.assertEqual(self.lab("verify", "--workspace", "mine").returncode, 0)
        done = self.lab("integration-ab", "--workspace", "mine", "--steps", "3", "--pairs", "4", "--benchmark-skip-eval", "--no-checkpoint",
                        timeout=540)  # beside other work its steps take many times as long
        record = self.ledger_lines()[-1]["details"]["record"]
        self.assert_valid(record)
        # An A/B that comes next is asked the way that this one was.
        following = done.stdout.splitlines()[-1]
        self.assertTrue(following.startswith("next: "), following)
        if "integration-ab" in following:
            for flag in ("--preset smoke", "--steps 3", "--no-checkpoint", "--benchmark-skip-eval"):
                self.assertIn(flag, following)
            told = re.search(r"would decide: --pairs (\d+)", done.stdout)
            if told:
                self.assertIn(f"--pairs {told[1]} ", following)
        exit_codes = {"validated": 0, "equivalent": 3, "mixed": 3, "regressed": 3, "inconclusive": 4}
        self.assertEqual(done.returncode, exit_codes[record["status"]], record["reason"])
        self.assertEqual(self.ledger_lines()[-1]["event_type"], "integration-ab")

    def test_what_could_never_start_leaves_no_line(self):
        self.workspace()
        self.assertEqual(self.lab("verify", "--workspace", "mine", "--quick").returncode, 0)
        plain = self.folder / "not-executable"
        plain.write_text("#!/bin/sh\n")
        kept = self.ledger_bytes()
        ab = ("integration-ab", "--workspace", "mine", "--steps", "3", "--pairs", "4")
        for trainer, code, word in (("", 2, "--trainer"), ("/bin/true", 5, "/bin/true"), ("/nonexistent", 5, "/nonexistent"),
                                    (str(plain), 5, "not-executable"), ("no-such-program", 5, "no-such-program")):
            for verb in (ab, ("integration-suite", *ab[1:], "--presets", "smoke")):
                with self.subTest(verb=verb[0], trainer=trainer):
                    self.assert_refused(self.lab(*verb, "--trainer", trainer), code, word)
                    self.assertEqual(self.ledger_bytes(), kept)
        foreign = self.lab("--engine", "cpu", *ab, "--preset", "upstream")
        self.assert_refused(foreign, 5, "upstream", "cuda", "smoke")
        self.assertEqual(self.ledger_bytes(), kept)

    def test_of_integration_suite(self):
        self.workspace()
        suite = ("integration-suite", "--workspace", "mine", "--presets", "smoke", "--steps", "3", "--pairs", "4",
                 "--benchmark-skip-eval", "--no-checkpoint")
        self.assertEqual(self.record(*suite, exit_code=3)["status"], "refused")
        self.assertEqual(self.lab("verify", "--workspace", "mine").returncode, 0)
        done = self.lab("--json", *suite)
        record = json.loads(done.stdout)
        self.assert_valid(record)
        exit_codes = {"validated": 0, "equivalent": 3, "mixed": 3, "regressed": 3, "inconclusive": 4}
        self.assertEqual(done.returncode, exit_codes[record["status"]], record["reason"])
        self.assertEqual([row["preset"] for row in record["rows"]], ["smoke"])
        ab, event = self.ledger_lines()[-2:]
        self.assertEqual((ab["event_type"], ab["preset"]), ("integration-ab", "smoke"))
        self.assertEqual((event["event_type"], event["preset"]), ("integration-suite", ""))
        self.assertEqual(event["details"]["record"]["rows"][0]["event"], ab["id"])
        self.assertEqual(event["details"]["record"]["records"], [])
        self.assert_refused(self.lab("integration-suite", "--workspace", "mine", "--presets", "smok"), 2, "smok", "smoke")


if __name__ == "__main__":
    unittest.main(verbosity=2)
