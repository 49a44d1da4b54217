"""verify --champions: every champion of an installation of three targets."""

import shutil
import signal
import subprocess
import unittest

import lab
from lab import LabTest

KEYS = ["activation_pointwise", "launch_fusion", "rmsnorm"]


class Champions(LabTest):
    def setUp(self):
        super().setUp()
        home = self.folder / "home"
        share = home / "share" / "kernel-lab"
        (share / "targets").mkdir(parents=True)
        (home / "bin").symlink_to(lab.HOME / "bin")
        for part in ("include", "presets", "examples"):
            (share / part).symlink_to(lab.HOME / "share" / "kernel-lab" / part)
        for key in KEYS:
            shutil.copytree(lab.HOME / "share" / "kernel-lab" / "targets" / key, share / "targets" / key)
        self.targets = share / "targets"
        self.environment = dict(lab.ENVIRONMENT, KERNEL_LAB_HOME=str(home))

    def lab(self, *verb, timeout=240, **options):
        return subprocess.run(self.command(*verb), cwd=self.folder, env=self.environment, timeout=timeout,
                              capture_output=True, text=True, **options)

    def champions(self, *flags, exit_code=0):
        return self.record("verify", "--champions", "--preset", "smoke", *flags, exit_code=exit_code)

    def statuses(self, record):
        return {r["target"]: r["status"] for r in record["records"]}

    def break_kernel(self, key, old, new):
        path = self.targets / key / "kernel.cpp"
        good = path.read_text()
        self.assertIn(old, good)
        path.write_text(good.replace(old, new))
        return path, good

    def test_each_has_a_line_and_a_place_in_the_ledger(self):
        done = self.lab("verify", "--champions", "--preset", "smoke")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines[:3]], KEYS)
        self.assertEqual(lines[3], "verdict: 3 of 3 champions on cpu pass")
        self.assertEqual([line["target"] for line in self.ledger_lines()], KEYS)

    def test_one_that_fails_is_named_and_the_others_are_judged(self):
        path, good = self.break_kernel("activation_pointwise", "return v * v;", "return v * v + v;")
        _, _ = self.break_kernel("launch_fusion", "return kl::ok();", "return kl::ok()")
        record = self.champions(exit_code=3)
        self.assertEqual(self.statuses(record), dict(zip(KEYS, ["mismatch", "build-failed", "ok"])))
        self.assertEqual(record["status"], "mismatch")
        self.assertIn("activation_pointwise", record["reason"])
        # Mended, and begun again: what has passed is left out, what failed or changed is not.
        path.write_text(good)
        again = self.champions("--resume", exit_code=3)
        self.assertEqual(self.statuses(again), dict(zip(KEYS, ["ok", "build-failed", "ok"])))
        self.assertEqual(again["on_file"], ["rmsnorm"])
        # A longer case list has not been passed yet.
        self.assertEqual(self.champions("--resume", "--full", "--target", "rmsnorm")["on_file"], [])

    def test_a_target_that_cannot_be_judged_does_not_end_the_run(self):
        (self.targets / "activation_pointwise" / "oracle.cpp").write_text("nonsense\n")
        record = self.champions(exit_code=2)
        self.assertEqual(self.statuses(record), dict(zip(KEYS, ["unsupported-target", "ok", "ok"])))

    def test_one_target_alone(self):
        self.assertEqual(self.statuses(self.champions("--target", "norm")), {"rmsnorm": "ok"})
        self.assert_refused(self.lab("verify", "--champions", "--target", "rmsnrm"), 2, "did you mean rmsnorm")
        self.assert_refused(self.lab("verify", "--workspace", "w", "--target", "rmsnorm"), 2, "--champions")
        (self.targets / "rmsnorm" / "kernel.cpp").unlink()
        self.assert_refused(self.lab("verify", "--champions", "--target", "rmsnorm"), 5, "kernel.cpp")

    def test_killed_and_begun_again_judges_the_rest(self):
        process = subprocess.Popen(self.command("verify", "--champions", "--preset", "smoke"), cwd=self.folder,
                                   env=self.environment, stdout=subprocess.PIPE, text=True)
        self.assertIn(KEYS[0], process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        self.assert_no_worker_left()
        on_file = [line["target"] for line in self.ledger_lines()]
        self.assertEqual(on_file[:1], KEYS[:1])
        record = self.champions("--resume")
        self.assertEqual(record["on_file"], on_file)
        self.assertEqual(sorted(self.statuses(record)), KEYS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
