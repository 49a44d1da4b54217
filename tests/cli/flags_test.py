"""Values that no flag can take, flags that contradict each other, records that are none, and next commands to paste."""

import json
import re
import shlex
import subprocess
import unittest

import lab
from lab import LabTest

# A verb with what it needs, up to the flag whose value is tried.
SECONDS = [["integration-ab", "--workspace", "w", "--time-budget"], ["integration-suite", "--workspace", "w", "--time-budget"],
           ["capture", "--output", "t", "--time-budget"], ["deep-profile", "--trace-profile", "t", "--time-budget"]]
SEEDS = [["verify", "--workspace", "w", "--seed"], ["bench", "--workspace", "w", "--seed"], ["capture", "--output", "t", "--seed"],
         ["integration-ab", "--workspace", "w", "--seed"]]
COUNTS = [["ledger", "show", "--newest"], ["profile", "--top-k"], ["extract", "--profile", "p", "--workspace", "w", "--rank"],
          ["orchestrate", "--profile", "p", "--workspace-root", "r", "--rank"], ["deep-profile", "--trace-profile", "t", "--rank"],
          ["integration-ab", "--workspace", "w", "--steps"], ["integration-ab", "--workspace", "w", "--pairs"],
          ["integration-ab", "--workspace", "w", "--repeats"], ["capture", "--output", "t", "--steps"]]

EMPTY = [["verify", "--workspace", ""], ["init", "--target", "", "--workspace", "w"], ["--engine", "", "list-targets"],
         ["--targets", "", "list-targets"], ["--output", "", "list-targets"],
         ["verify", "--workspace", "w", "--preset", ""], ["integration-ab", "--workspace", "w", "--trainer", ""],
         ["promotion-check", "--target", "rmsnorm", "--preset", ""], ["diff", "--workspace", "w", ""], ["trace", "summary", ""]]

CONTRADICTIONS = [["verify", "--workspace", "w", "--champions"], ["capture", "--output", "t", "--quick", "--steps", "5"],
                  ["capture", "--output", "t", "--quick", "--time-budget", "5"],
                  ["integration-ab", "--workspace", "w", "--pairs", "8", "--repeats", "4"],
                  ["integration-ab", "--workspace", "w", "--steps", "50", "--time-budget", "4"],
                  ["trace-profile", "--metadata", "m", "--trace", "t"], ["trace-profile", "--metadata", "m", "--preset", "smoke"],
                  ["orchestrate", "--profile", "p", "--trace-profile", "t", "--workspace-root", "r"]]


class Values(LabTest):
    def refused(self, words, *named):
        done = self.lab(*words)
        self.assert_refused(done, 2, *named)
        self.assertLess(len(done.stderr), 500)
        self.assertEqual(self.record(*words, exit_code=2)["status"], "usage")

    def test_seconds_are_a_number_of_them(self):
        for verb in SECONDS:
            for value in ("nan", "inf", "1e308", "0", "-1", "1s"):
                with self.subTest(verb=verb, value=value):
                    self.refused([*verb, value], "--time-budget", value)

    def test_a_seed_is_a_whole_number_that_fits(self):
        for verb in SEEDS:
            for value in ("-1", "18446744073709551616", "1.5", "0x10"):
                with self.subTest(verb=verb, value=value):
                    self.refused([*verb, value], "--seed", value)

    def test_counts_are_whole_and_in_range(self):
        for verb in COUNTS:
            for value in ("-1", "1e3", "many", "9" * 300):
                with self.subTest(verb=verb, value=value[:20]):
                    self.refused([*verb, value], verb[-1], value[:20])

    def test_an_empty_value_is_no_way_to_leave_a_flag_out(self):
        for words in EMPTY:
            with self.subTest(words=words):
                self.refused(words, "empty value")

    def test_contradictory_flags_are_not_ignored(self):
        for words in CONTRADICTIONS:
            with self.subTest(words=words):
                self.refused(words)

    def test_a_path_longer_than_the_system_takes(self):
        for words in (["--targets", "x" * 5000, "list-targets"], ["verify", "--workspace", "x" * 5000],
                      ["auto-review", "--trace-profile", "x" * 5000]):
            record = self.record(*words, exit_code=2)
            self.assertIn(record["status"], ("usage", "invalid-workspace"))
        self.record("--ledger", "x" * 5000, "calibrate", "--quick", "--preset", "smokee", exit_code=2)

    def test_a_flag_of_another_program_is_not_the_labs(self):
        done = self.lab("capture", "--output", "t", "--", "/nowhere/trainer", "--json")
        self.assertEqual((done.stdout, "/nowhere/trainer" in done.stderr), ("", True), done)


class Trainer(LabTest):
    """kernel-lab-train judges its command line as kernel-lab does."""

    def test_values_that_no_flag_can_take(self):
        for words in (["--time", "nan"], ["--time", "1e308"], ["--time", "0"], ["--steps", "2.5"], ["--steps", "-1"],
                      ["--steps", "9" * 300], ["train", "--checkpoint-every", "0"], ["--preset", ""], ["--set", "rows=2.5"],
                      ["--set", "seed=many"], ["--stpes", "3"], ["trian"], ["eval"], ["curve", "a", "b"]):
            with self.subTest(words=words):
                done = subprocess.run([str(lab.HOME / "bin/kernel-lab-train"), *words], cwd=self.folder, env=lab.ENVIRONMENT,
                                      timeout=60, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr[-500:])
                self.assertEqual(len(done.stderr.splitlines()), 2, done.stderr)  # what is wrong, and a remedy
                self.assertLess(len(done.stderr), 500)
        self.assertEqual(list(self.folder.iterdir()), [])


class Help(LabTest):
    def test_a_verb_of_a_verb_shows_its_own_examples(self):
        for verb, own in (("ledger", ("check", "show", "merge", "stats")), ("trace", ("import", "summary", "export", "diff")),
                          ("trainer", ("check",))):
            for name in own:
                with self.subTest(verb=verb, name=name):
                    text = self.lab(verb, name, "--help").stdout
                    examples = text[text.index("Examples:"):].splitlines()[1:]
                    self.assertTrue(examples, text)
                    for example in examples:
                        self.assertIn(f"kernel-lab {verb} {name}", example)

    def test_the_help_named_in_an_error_is_the_one_that_helps(self):
        self.assert_refused(self.lab("ledger", "check", "twice"), 2, "see kernel-lab ledger check --help")

    def test_defaults_are_shown(self):
        for verb, flag, default in (("profile", "--top-k", "10"), ("capture", "--time-budget", "20"), ("deep-profile", "--time-budget", "5"),
                                    ("extract", "--rank", "1"), ("bench", "--against", "champion"), ("evidence", "--format", "text"),
                                    ("integration-ab", "--trainer", "builtin"), ("capture", "--tool", "own"), ("verify", "--device", "auto")):
            with self.subTest(verb=verb, flag=flag):
                self.assertRegex(self.lab(verb, "--help").stdout, rf"{flag} \S*.*={default}\b")


class Records(LabTest):
    READERS = [("profile", ["extract", "--workspace", "w", "--profile"]), ("profile", ["orchestrate", "--workspace-root", "r", "--profile"]),
               ("trace-profile", ["orchestrate", "--workspace-root", "r", "--trace-profile"]),
               ("trace-profile", ["auto-review", "--trace-profile"]), ("trace-profile", ["deep-profile", "--trace-profile"]),
               ("capture", ["trace-profile", "--metadata"]),
               ("capture", ["review-trace", "--target", "rmsnorm", "--relevance", "low", "--metadata"]),
               ("deep-profile", ["review-trace", "--target", "rmsnorm", "--relevance", "low", "--deep-profile"]),
               ("trace-profile", ["review-trace", "--target", "rmsnorm", "--relevance", "low", "--trace-profile"])]

    def file(self, content):
        path = self.folder / "record.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def test_what_is_no_record_of_the_kind_is_named_and_nothing_is_kept(self):
        for schema, verb in self.READERS:
            good = {"schema": schema, "schema_version": 1, "status": "ok", "engine": "cpu", "preset": "smoke", "target": "rmsnorm"}
            wrong = {"engine": 5, "target": [], "preset": {}, "status": 7, "identity": "none", "schema": "bench", "schema_version": 99,
                     "reason": 1}
            files = [dict(good, **{field: value}) for field, value in wrong.items()]
            files += [dict(good, status="splendid"), [good], "null", "", json.dumps(good)[:-20], "\x00\x01", '{"schema": ["capture"]}']
            for content in files:
                with self.subTest(verb=verb, content=content):
                    record = self.record(*verb, self.file(content), exit_code=2)
                    self.assertEqual(record["status"], "usage")
                    self.assertIn("record.json", record["reason"])
                    self.assertTrue(record["remedy"])
            with self.subTest(verb=verb, content="no file"):
                self.assertEqual(self.record(*verb, "missing.json", exit_code=2)["status"], "usage")
        self.assertFalse(self.ledger.exists())

    def test_metadata_of_orchestrate_is_judged_like_any_other(self):
        self.lab("profile", "--preset", "smoke", "--output", "p.json")
        plan = ["orchestrate", "--profile", "p.json", "--workspace-root", "r", "--trace-metadata"]
        self.record(*plan, self.file({"schema": "capture", "schema_version": 1, "status": "ok"}))
        self.record(*plan, self.file({"schema": "capture", "schema_version": 1, "status": {}}), exit_code=2)
        self.record(*plan, self.file({"schema": "capture", "schema_version": 2, "status": "ok"}), exit_code=2)

    def test_a_root_for_workspaces_that_is_a_file(self):
        self.lab("profile", "--preset", "smoke", "--output", "p.json")
        (self.folder / "file").write_text("")
        self.assert_refused(self.lab("orchestrate", "--profile", "p.json", "--workspace-root", "file"), 2, "not a folder")


class NextCommands(LabTest):
    def next_of(self, *verb):
        done = self.lab(*verb)
        self.assertIn("next: ", done.stdout, (done.stdout, done.stderr))
        line = re.sub(r"   \(.*\)$", "", done.stdout.split("next: ")[-1].strip())
        return shlex.split(line)

    def test_a_folder_with_a_space_is_one_word_of_the_next_command(self):
        spaced = str(self.folder / "my work")
        for verb in (["init", "--target", "activation_pointwise", "--workspace", spaced, "--preset", "smoke"],
                     ["history", "--workspace", spaced], ["verify", "--workspace", spaced, "--quick"], ["history", "--workspace", spaced]):
            with self.subTest(verb=verb):
                self.assertIn(spaced, self.next_of(*verb))

    def test_global_flags_are_repeated_and_quoted(self):
        (self.folder / "my targets").mkdir()
        words = self.next_of("--engine", "cpu", "--targets", "my targets", "list-targets")
        self.assertEqual(words[words.index("--targets") + 1], "my targets")
        self.assertEqual(words[words.index("--engine") + 1], "cpu")


if __name__ == "__main__":
    unittest.main(verbosity=2)
