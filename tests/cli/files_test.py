"""Workspaces, disks and ledgers that are not as they should be, and commands that are killed."""

import fcntl
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import time
import unittest

import lab
from lab import LabTest, pointwise_kernel


class Workspaces(LabTest):
    def refused_with_ledger_unchanged(self, *verb, exit_code=2, words=(), **options):
        before = self.ledger_bytes()
        self.assert_refused(self.lab(*verb, **options), exit_code, *words)
        self.assertEqual(self.ledger_bytes(), before)
        return self.record(*verb, exit_code=exit_code, **options)

    def test_a_moved_workspace_works(self):
        self.workspace()
        (self.folder / "mine").rename(self.folder / "moved")
        self.assertEqual(self.record("verify", "--workspace", "moved")["status"], "ok")

    def test_the_target_of_a_workspace_need_not_be_named(self):
        self.workspace()
        for verb in ("promotion-check", "evidence"):
            self.assertEqual(self.record(verb, "--workspace", "mine", "--preset", "smoke")["target"], "activation_pointwise")
        self.assert_refused(self.lab("evidence", "--workspace", "mine", "--target", "rmsnorm"), 2, "a workspace of activation_pointwise")

    def test_a_folder_that_is_no_workspace(self):
        (self.folder / "empty").mkdir()
        for name in ("nowhere", "empty"):
            for verb in (["verify"], ["bench"], ["history"], ["diff"], ["promote"], ["integration-ab"]):
                record = self.refused_with_ledger_unchanged(*verb, "--workspace", name, words=[name])
                self.assertEqual(record["status"], "invalid-workspace")

    def test_a_target_without_a_seam_needs_an_adapter_whatever_was_asked(self):
        made = self.lab("init", "--target", "layernorm", "--workspace", "norm")
        self.assertEqual(made.returncode, 0, made.stderr)
        for preset in ([], ["--preset", "smoke"]):
            result = self.lab("integration-ab", "--workspace", "norm", *preset)
            self.assertEqual(result.returncode, 5, result.stderr)
            self.assertIn("needs-integration-adapter", result.stdout + result.stderr)

    def test_edited_metadata(self):
        workspace = self.workspace()
        path = workspace / "workspace.json"
        text = path.read_text()
        edits = {"another target": text.replace("activation_pointwise", "rmsnorm"), "half a file": text[: len(text) // 2],
                 "no object": "[]", "empty": "",
                 "another champion": text.replace(json.loads(text)["champion_hash"], "0" * 64)}
        for name, edited in edits.items():
            with self.subTest(edit=name):
                path.write_text(edited)
                record = self.refused_with_ledger_unchanged("verify", "--workspace", "mine", words=["workspace.json"])
                self.assertEqual(record["status"], "invalid-workspace")

    def test_a_missing_kernel_file(self):
        workspace = self.workspace()
        (workspace / "kernel.cpp").unlink()
        record = self.refused_with_ledger_unchanged("verify", "--workspace", "mine", words=["kernel.cpp"])
        self.assertEqual(record["status"], "invalid-workspace")

    def test_init_into_a_folder_in_use(self):
        folder = self.folder / "full"
        folder.mkdir()
        (folder / "notes.txt").write_text("mine")
        self.refused_with_ledger_unchanged("init", "--target", "rmsnorm", "--workspace", "full", words=["not empty"])
        self.assertEqual([path.name for path in folder.iterdir()], ["notes.txt"])
        self.workspace("twice")
        self.refused_with_ledger_unchanged("init", "--target", "rmsnorm", "--workspace", "twice",
                                           words=["workspace already"])

    def test_a_folder_that_cannot_be_written(self):
        locked = self.folder / "locked"
        locked.mkdir()
        self.addCleanup(locked.chmod, 0o700)
        options = {}
        if os.getuid() == 0:  # root passes permissions by: another user, who can reach the rest
            self.folder.chmod(0o777)
            options["user"] = 65534
        locked.chmod(0o500)
        done = self.lab("init", "--target", "rmsnorm", "--workspace", "locked/mine", **options)
        if "Permission denied" in done.stderr and "kernel-lab:" not in done.stderr:
            self.skipTest("another user cannot run the build: " + done.stderr)
        self.assert_refused(done, 5, "locked")
        self.assertEqual(list(locked.iterdir()), [])

    def test_a_ledger_that_cannot_be_written(self):
        self.workspace()
        (self.folder / "file").write_text("")
        verb = [str(lab.KERNEL_LAB), "--ledger", "file/ledger.jsonl", "--json", "verify", "--workspace", "mine"]
        done = subprocess.run(verb, cwd=self.folder, env=lab.ENVIRONMENT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assert_valid(json.loads(done.stdout))


class FullDisk(LabTest):
    """The ledger's folder has no room: an error, and not a byte of the ledger changed."""

    def check(self, **options):
        self.workspace()
        self.assertEqual(self.lab("verify", "--workspace", "mine").returncode, 0)
        before = self.ledger_bytes()
        full = self.fill()
        done = self.lab("--json", "verify", "--workspace", "mine", **full, **options)
        record = json.loads(done.stdout)
        self.assert_valid(record)
        self.assertEqual((done.returncode, record["status"]), (1, "error"), record)
        self.assertTrue(record["reason"] and record["remedy"], record)
        self.assertEqual(self.ledger_bytes(), before)
        self.assertEqual(self.record("ledger", "check")["lines"], 1)

    def test_a_file_system_without_room(self):
        disk = self.folder / "results"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest("no file system can be mounted here: " + mounted.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)])

        def fill():
            with open(disk / "ballast", "wb", buffering=0) as ballast:
                try:
                    while ballast.write(b"x" * 4096) > 0:
                        pass
                except OSError:
                    pass
            return {}

        self.fill = fill
        self.check()

    def test_a_limit_on_the_size_of_files(self):
        def fill():
            limit = self.ledger.stat().st_size + 100

            def limited():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            return {"preexec_fn": limited}

        self.fill = fill
        self.check()


class Killed(LabTest):
    def test_kill_at_any_moment_loses_nothing_and_leaves_nothing(self):
        self.workspace()
        self.assertEqual(self.lab("verify", "--workspace", "mine").returncode, 0)
        draw = random.Random(20261201)
        acknowledged = len(self.ledger_lines())
        verbs = [["verify", "--workspace", "mine"], ["bench", "--workspace", "mine", "--quick"]]
        for turn in range(10):
            process = subprocess.Popen(self.command("--json", *verbs[turn % 2]), cwd=self.folder, env=lab.ENVIRONMENT,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            time.sleep(draw.uniform(0.02, 1.2))
            process.kill()
            answer = process.communicate()[0]
            acknowledged += answer.endswith(b"\n")
            self.assert_no_worker_left()
            health = self.record("ledger", "check")
            self.assertEqual(health["status"], "ok", health)
            self.assertGreaterEqual(health["lines"], acknowledged)
        self.assertEqual(self.record("verify", "--workspace", "mine")["status"], "ok")

    def test_an_interrupt_leaves_nothing_running(self):
        self.workspace()
        process = subprocess.Popen(self.command("bench", "--workspace", "mine", "--unverified"), cwd=self.folder,
                                   env=lab.ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not lab.workers() and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        self.assertNotEqual(process.wait(timeout=30), 0)
        self.assert_no_worker_left()

    def trainer_folders(self):
        return sorted(path.name for path in self.scratch.iterdir() if path.name.startswith("kernel-lab-"))

    def interrupted(self, number):
        """calibrate --aa, ended by a signal as soon as a trainer runs."""
        running = subprocess.Popen(self.command("calibrate", "--quick", "--aa", "--preset", "smoke"), cwd=self.folder,
                                   env=dict(lab.ENVIRONMENT, TMPDIR=str(self.scratch)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a shell's & ignores it
        end = time.monotonic() + 100
        while not any(path.startswith("kernel-lab-turns") for path in self.trainer_folders()) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertTrue(self.trainer_folders())
        running.send_signal(number)
        self.assertEqual(running.wait(timeout=30), -number)

    def test_an_interrupted_trainer_run_leaves_no_folder(self):
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                self.interrupted(number)
                end = time.monotonic() + 10
                while self.trainer_folders() and time.monotonic() < end:
                    time.sleep(0.05)
                self.assertEqual(self.trainer_folders(), [])
                self.assertEqual(self.ledger_bytes(), b"")

    def test_the_next_run_removes_what_a_killed_one_left(self):
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        self.interrupted(signal.SIGKILL)
        left = self.trainer_folders()
        used = self.scratch / "kernel-lab-leg-living"
        used.mkdir()
        lock = os.open(used, os.O_RDONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in (*left, used.name):
            os.utime(self.scratch / name, (1, 1))
        subprocess.run(self.command("capture", "--output", "t/x", "--preset", "smoke", "--steps", "1"), cwd=self.folder,
                       env=dict(lab.ENVIRONMENT, TMPDIR=str(self.scratch)), capture_output=True, timeout=100)
        self.assertEqual(self.trainer_folders(), [used.name])

    def test_two_at_once_on_one_ledger_both_complete(self):
        self.workspace("one")
        self.workspace("two", kernel=pointwise_kernel(""))
        processes = [subprocess.Popen(self.command("--json", "verify", "--workspace", name), cwd=self.folder,
                                      env=lab.ENVIRONMENT, stdout=subprocess.PIPE, text=True) for name in ("one", "two")]
        records = [json.loads(process.communicate()[0]) for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0])
        self.assertEqual({line["identity"]["kernel"] for line in self.ledger_lines()},
                         {record["kernel_hash"] for record in records})
        self.assertEqual(len(self.ledger_lines()), 2)


class Ledgers(LabTest):
    def setUp(self):
        super().setUp()
        self.workspace()
        self.assertEqual(self.lab("verify", "--workspace", "mine").returncode, 0)
        self.good = self.ledger_bytes()
        old = {key: value for key, value in json.loads(self.good).items() if key not in ("id", "identity")}
        old["ledger_schema_version"] = 1
        self.old = json.dumps(old, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        newer = json.dumps(dict(old, ledger_schema_version=99), sort_keys=True, separators=(",", ":")).encode() + b"\n"
        altered = self.good.replace(b'"status":"ok"', b'"status":"mismatch"')
        self.assertNotEqual(altered, self.good)
        self.bad = self.old + newer + b'{"no":"event"}\n' + altered
        self.ledger.write_bytes(self.good + self.bad + self.good[:200])  # the last one torn

    def test_check_counts_each_kind_and_show_uses_the_rest(self):
        health = self.record("ledger", "check", exit_code=3)
        self.assertEqual([health[key] for key in ("lines", "torn", "corrupt", "altered", "unknown_versions", "unidentified")],
                         [6, 1, 1, 1, 1, 1])
        shown = self.record("ledger", "show", "--newest", "0")
        self.assertEqual(len(shown["events"]), 2)
        self.assertEqual(shown["health"]["torn"], 1)
        text = self.lab("ledger", "check")
        self.assertEqual(text.returncode, 3)
        self.assertIn("next: kernel-lab ", text.stdout)
        self.assertIn("ledger check --repair", text.stdout)

    def test_an_append_after_a_torn_line_is_whole(self):
        self.assertEqual(self.lab("verify", "--workspace", "mine").returncode, 0)
        health = self.record("ledger", "check", exit_code=3)
        self.assertEqual((health["lines"], health["torn"] + health["corrupt"]), (7, 2))
        self.assertEqual(len(self.record("ledger", "show", "--event", "verify", "--status", "ok")["events"]), 3)

    def test_version_1_is_shown_and_promotes_nothing(self):
        self.ledger.write_bytes(self.old)
        record = self.record("promotion-check", "--target", "activation_pointwise", "--workspace", "mine", "--preset", "smoke")
        self.assertEqual(len(record["unidentified"]), 1)
        self.assertEqual(record["state"], "no-evidence")

    def test_repair_moves_what_is_bad_and_keeps_the_rest(self):
        repair = self.record("ledger", "check", "--repair")
        self.assertEqual((repair["kept"], repair["quarantined"]), (3, 3))
        self.assertTrue(self.ledger_bytes().startswith(self.good + self.old))
        self.assertTrue(pathlib.Path(repair["quarantine"]).exists())

    def test_merge_is_the_union_and_stats_count_it(self):
        other = self.folder / "other.jsonl"
        shutil.copy(self.ledger, other)
        self.ledger.write_bytes(self.good)
        merged = self.record("ledger", "merge", other)
        self.assertEqual((merged["events"], merged["duplicates"]), (3, 1))
        self.assertEqual(self.record("ledger", "merge", other)["events"], 3)
        stats = self.record("ledger", "stats")
        self.assertEqual(stats["by_event_type"], {"verify": 2})
        self.assertEqual(stats["health"]["unknown_versions"], 1)
        self.assert_refused(self.lab("ledger", "merge", "nowhere.jsonl"), 2, "nowhere.jsonl")

    def test_a_file_of_another_program_is_no_ledger(self):
        other = self.folder / "notes.txt"
        other.write_text("one line\n{\"two\": 2}\n")
        before = self.ledger_bytes()
        self.assert_refused(self.lab("ledger", "merge", other), 2, "notes.txt is no ledger")
        self.assertEqual(self.ledger_bytes(), before)
        self.ledger = other
        for sub in (["check"], ["check", "--repair"], ["stats"]):
            done = self.lab("ledger", *sub)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn("is no ledger", done.stderr)
        self.assertEqual(other.read_text(), "one line\n{\"two\": 2}\n")

    def test_a_ledger_that_is_not_there_has_no_stats(self):
        self.ledger.unlink()
        for sub in (["check"], ["stats"]):
            self.assert_refused(self.lab("ledger", *sub), 2, self.ledger.name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
