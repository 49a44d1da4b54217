"""What is typed wrong: near matches, exit code 2, and the same as one object under --json."""

import os
import pty
import shutil
import subprocess
import unittest

import lab
from lab import LabTest

VERBS = ["auto-review", "bench", "calibrate", "capture", "completions", "deep-profile", "diff", "doctor", "evidence", "extract",
         "history", "init", "integration-ab", "integration-suite", "ledger", "list-targets", "man", "new-target", "orchestrate",
         "profile", "promote", "promotion-check", "restore", "review-trace", "tour", "trace", "trace-profile", "trainer", "verify", "watch"]

# Command line, the word that was meant.
WRONG_WORDS = [
    (["verfy"], "verify"),
    (["ledgr"], "ledger"),
    (["init", "--target", "rmsnrm", "--workspace", "w"], "rmsnorm"),
    (["init", "--target", "rmsnorm", "--workspace", "w", "--preset", "smokee"], "smoke"),
    (["promotion-check", "--target", "los_prelude"], "loss_prelude"),
    (["evidence", "--target", "rmsnorm", "--preset", "cpu-balancd"], "cpu-balanced"),
    (["--engine", "cpuu", "list-targets"], "cpu"),
    (["verify", "--workspce", "w"], "--workspace"),
    (["bench", "--workspace", "w", "--quik"], "--quick"),
    (["list-targets", "--jsn"], "--json"),
    (["ledger", "chek"], "check"),
    (["ledger", "show", "--newst", "3"], "--newest"),
]


class WrongWords(LabTest):
    def test_every_wrong_word_is_answered_with_the_near_one(self):
        for words, meant in WRONG_WORDS:
            with self.subTest(words=words):
                self.assert_refused(self.lab(*words), 2, f"did you mean {meant}")

    def test_the_same_as_one_json_object(self):
        for words, meant in WRONG_WORDS:
            with self.subTest(words=words):
                record = self.record(*words, exit_code=2)
                self.assertEqual(record["schema"], "error")
                self.assertIn(record["status"], ("usage", "unsupported-target"))
                self.assertIn(meant, record["remedy"])

    def test_a_word_near_nothing_gets_the_list(self):
        self.assert_refused(self.lab("--engine", "zzzzzz", "list-targets"), 2, "cpu", "cuda")

    def test_missing_and_contradictory_flags(self):
        for words, named in [(["verify"], "workspace"), (["init", "--target", "rmsnorm"], "--workspace"),
                             (["bench", "--workspace", "w", "--quick", "--full"], "--full"),
                             (["verify", "--workspace", "w", "--seed", "soon"], "--seed"),
                             (["promote"], "--workspace"), (["ledger"], "check"), (["promotion-check"], "--workspace"), (["evidence"], "--target"),
                             (["promote", "--workspace", "w", "--force"], "--why"),
                             (["--targets", "nowhere", "list-targets"], "nowhere"),
                             (["integration-ab", "--workspace", "w", "--pairs", "0"], "--pairs")]:
            with self.subTest(words=words):
                self.assert_refused(self.lab(*words), 2, named)
                self.assertEqual(self.record(*words, exit_code=2)["status"], "usage")

    def test_no_verb_shows_the_help_and_is_a_usage_error(self):
        done = self.lab()
        self.assertEqual(done.returncode, 2)
        self.assertIn("Examples:", done.stdout)


class Manners(LabTest):
    def test_the_help_of_every_verb_has_examples(self):
        top = self.lab("--help").stdout
        for verb in VERBS:
            with self.subTest(verb=verb):
                self.assertIn(f"  {verb} ", top)
                done = self.lab(verb, "--help")
                self.assertEqual(done.returncode, 0)
                self.assertIn("Examples:\n  kernel-lab ", done.stdout)
        listed = [line.split()[0] for line in top.split("Subcommands:")[1].split("Examples:")[0].splitlines()
                  if line.startswith("  ") and not line.startswith("   ")]
        self.assertEqual(sorted(listed), VERBS)

    def test_output_writes_the_record_and_prints_the_path_alone(self):
        done = self.lab("--output", "targets.json", "list-targets")
        self.assertEqual((done.returncode, done.stdout), (0, "targets.json\n"))
        record = lab.json.loads((self.folder / "targets.json").read_text())
        self.assert_valid(record)
        self.assert_sorted(record)

    def test_output_that_cannot_be_written_is_an_error(self):
        (self.folder / "file").write_text("")
        done = self.lab("--output", "file/targets.json", "list-targets")
        self.assert_refused(done, 1, "file")

    def on_a_terminal(self, *verb, **environment):
        leader, follower = pty.openpty()
        process = subprocess.Popen(self.command(*verb), cwd=self.folder, env=dict(lab.ENVIRONMENT, **environment),
                                   stdout=follower, stderr=follower, stdin=follower)
        os.close(follower)
        text = b""
        try:
            while chunk := os.read(leader, 4096):
                text += chunk
        except OSError:
            pass  # the terminal is gone with its last writer
        process.wait()
        os.close(leader)
        return text

    def test_decoration_only_on_a_terminal(self):
        self.assertNotIn("\x1b", self.lab("list-targets").stdout)
        self.assertNotIn("\x1b", self.lab("--color", "never", "list-targets").stdout)
        self.assertIn("\x1b[", self.lab("--color", "always", "list-targets").stdout)
        self.assertNotIn("\x1b", self.lab("--color", "always", "--json", "list-targets").stdout)
        self.assertIn(b"\x1b[", self.on_a_terminal("list-targets"))
        self.assertNotIn(b"\x1b", self.on_a_terminal("list-targets", NO_COLOR="1"))
        self.assertNotIn(b"\x1b", self.on_a_terminal("--json", "--quiet", "list-targets"))

    def test_a_reader_that_leaves_does_not_kill_it(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(self.command("list-targets"), cwd=self.folder, env=lab.ENVIRONMENT, stdout=writer,
                              stderr=subprocess.PIPE)
        os.close(writer)
        self.assertEqual(done.returncode, 1)


class OtherEngines(LabTest):
    def test_listing_works_without_the_device(self):
        record = self.record("--engine", "cuda", "list-targets")
        self.assertEqual(record["engine"], "cuda")
        self.assertGreaterEqual(len(record["targets"]), 3)

    def test_the_list_of_engines_says_what_is_missing(self):
        engines = {line["engine"]: line for line in self.record("--list-engines")["engines"]}
        self.assertEqual(engines["cpu"]["status"], "ok")
        self.assertEqual(engines["cuda"]["status"], "missing-runtime")
        self.assertTrue(engines["cuda"]["reason"] and engines["cuda"]["remedy"])

    def test_what_needs_the_device_is_unavailable_here(self):
        self.workspace()
        before = self.ledger_bytes()
        for verb in (["calibrate"], ["verify", "--champions"], ["doctor"]):
            with self.subTest(verb=verb):
                record = self.record("--engine", "cuda", *verb, exit_code=5)
                self.assertIn(record["status"], ("missing-runtime", "missing-tool", "starter-unavailable"))
                self.assertTrue(record["reason"] and record["remedy"])
        for verb in ("verify", "bench", "integration-ab"):
            with self.subTest(verb=verb):
                record = self.record("--engine", "cuda", verb, "--workspace", "mine", exit_code=5)
                self.assertEqual(record["status"], "missing-runtime")
        self.assertEqual(self.ledger_bytes(), before)

    def test_a_workspace_is_made_where_its_engine_cannot_run(self):
        done = self.lab("--engine", "cuda", "init", "--target", "rmsnorm", "--workspace", "on-cuda")
        if done.returncode == 5:  # built without the toolkit: the engine compiles nothing
            self.assertFalse((self.folder / "on-cuda").exists())
            return
        self.assertTrue((self.folder / "on-cuda" / "kernel.cu").exists())
        record = self.record("verify", "--workspace", "on-cuda", exit_code=5)
        self.assertEqual(record["status"], "missing-runtime")

    def test_a_device_this_engine_does_not_have(self):
        self.workspace()
        record = self.record("verify", "--workspace", "mine", "--device", "cuda", exit_code=2)
        self.assertEqual((record["status"], record["remedy"]), ("usage", "use --engine cuda"))


class PathsOfPresets(LabTest):
    def test_list_targets_says_which_seams_a_preset_runs_shadows_or_has_not(self):
        record = self.record("list-targets", "--preset", "smoke", "--status")
        self.assertEqual(record["preset"], "smoke")
        targets = {target["key"]: target for target in record["targets"]}
        self.assertEqual(targets["rmsnorm"]["path"], "runs")
        self.assertEqual(targets["softmax"]["path"], "shadowed")
        self.assertEqual(targets["softmax"]["opened_by"], {"attention": "parts"})
        self.assertEqual(targets["layernorm"]["path"], "")
        self.assertIn("softmax (shadowed)", self.lab("list-targets", "--preset", "smoke").stdout)
        self.assert_refused(self.lab("list-targets", "--preset", "smok"), 2, "smoke")
        notes = self.record("promotion-check", "--target", "softmax", "--preset", "smoke")["notes"]
        self.assertTrue(any(note.startswith("shadowed: preset smoke") for note in notes), notes)


class BrokenTargets(LabTest):
    def test_a_broken_spec_is_named_by_line_and_column_and_the_others_still_listed(self):
        shutil.copytree(lab.SOURCE / "targets" / "rmsnorm", self.folder / "own" / "crooked")
        spec = self.folder / "own" / "crooked" / "spec.toml"
        lines = spec.read_text().splitlines()
        lines[1] = "aliases = [unquoted"
        spec.write_text("\n".join(lines))
        record = self.record("--targets", self.folder / "own", "list-targets")
        self.assertEqual(len(record["broken"]), 1)
        self.assertRegex(record["broken"][0]["reason"], r"crooked/spec\.toml.*line 2, column \d+|spec\.toml:2:\d+")
        self.assertIn("rmsnorm", [target["key"] for target in record["targets"]])
        text = self.lab("--targets", self.folder / "own", "list-targets").stdout
        self.assertIn("broken: ", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
