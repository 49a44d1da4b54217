"""watch, driven by real saves; its answers are those of verify and bench, and so is what it records."""

import os
import signal
import subprocess
import threading
import time
import unittest

import lab
from lab import LabTest, pointwise_kernel


class Watched(LabTest):
    def start(self, *flags):
        process = subprocess.Popen(self.command(*flags), cwd=self.folder, env=lab.ENVIRONMENT, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.printed = ""
        self.seen = 0

        def read():
            for line in process.stdout:
                self.printed += line

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.process = process

    def expect(self, *texts, seconds=120):
        """Each text in turn, behind what was expected before."""
        end = time.monotonic() + seconds
        for text in texts:
            while (at := self.printed.find(text, self.seen)) < 0:
                self.assertLess(time.monotonic(), end, f"no '{text}' in:\n{self.printed[self.seen:]}")
                self.assertIsNone(self.process.poll(), f"ended before '{text}':\n{self.printed[self.seen:]}")
                time.sleep(0.02)
            self.seen = at + len(text)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        self.assertEqual(self.process.wait(timeout=30), 0, self.printed)
        self.reader.join(5)
        self.assert_no_worker_left()

    def save_by_rename(self, path, text):
        beside = path.with_suffix(".tmp")
        beside.write_text(text)
        os.replace(beside, path)

    def verdicts(self, event_type="verify"):
        return [line["status"] for line in self.ledger_lines() if line["event_type"] == event_type]


class OwnTarget(Watched):
    """A target without a place in the trainer: verify alone, a second a round."""

    def setUp(self):
        super().setUp()
        made = self.lab("new-target", "--key", "own", "--from", "y[N,C] = f(x[N,C])")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(self.lab("init", "--target", "own", "--workspace", "mine").returncode, 0)
        self.kernel = self.folder / "mine" / "kernel.cpp"
        self.good = self.kernel.read_text()
        self.wrong = self.good.replace("2.0f *", "2.5f *")

    def test_every_kind_of_save_gets_its_verdict_and_ctrl_c_ends_it(self):
        self.start("watch", "--workspace", "mine")
        self.expect("watching mine/kernel.cpp", "compiled in", "verify   ok", "not timed: own has no", "  1  ")
        self.kernel.write_text(self.good.replace("return kl::ok();", "return kl::ok()"))
        self.expect("verify   build-failed", "error:")
        self.save_by_rename(self.kernel, self.wrong)
        self.expect("verify   mismatch: y of forward is wrong at")
        self.kernel.unlink()
        self.expect("mine/kernel.cpp cannot be read: waiting for it to come back")
        self.kernel.write_text(self.good)
        self.expect("verify   ok")
        os.rename(self.kernel, self.folder / "mine" / "kernel.cpp~")  # as vim does
        self.kernel.write_text(self.wrong)
        self.expect("verify   mismatch")
        time.sleep(0.5)  # the table of that round
        os.utime(self.kernel)
        self.kernel.write_text(self.wrong)  # nothing new
        time.sleep(1)
        self.interrupt()
        self.assertIn("5 saves judged", self.printed[self.seen:])
        self.assertEqual(self.verdicts(), ["ok", "build-failed", "mismatch", "ok", "mismatch"])
        self.assertEqual(self.lab("ledger", "check").returncode, 0)

    def test_a_save_while_one_is_judged_takes_its_place(self):
        self.start("watch", "--workspace", "mine")
        self.expect("verify   ok")
        for i in range(5):
            self.kernel.write_text(self.wrong + f"// {i}\n")
            time.sleep(0.25)
        self.kernel.write_text(self.good + "// the last\n")
        self.expect("verify   ok")
        self.interrupt()
        self.assertLess(len(self.verdicts()), 7)
        self.assertEqual(self.verdicts()[-1], "ok")

    def test_one_object_under_json(self):
        self.start("--json", "watch", "--workspace", "mine")
        end = time.monotonic() + 60
        while not self.ledger_lines() and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.5)
        self.interrupt()
        record = lab.json.loads(self.printed)
        self.assert_valid(record)
        self.assertEqual([(r["verify"], r["bench"]) for r in record["rounds"]], [("ok", None)])

    def test_a_workspace_that_goes_away_ends_it(self):
        self.start("watch", "--workspace", "mine")
        self.expect("verify   ok")
        time.sleep(0.5)
        os.rename(self.folder / "mine", self.folder / "elsewhere")
        self.assertEqual(self.process.wait(timeout=30), 2)

    def test_what_is_no_workspace_is_refused(self):
        self.assert_refused(self.lab("watch", "--workspace", "nowhere"), 2, "nowhere")


class WithBench(Watched):
    def test_saves_are_timed_and_the_best_is_kept_in_sight(self):
        folder = self.workspace(kernel=pointwise_kernel(""))
        self.start("watch", "--workspace", "mine", "--preset", "smoke")
        self.expect("verify   ok", "bench    ", "against the champion", "best so far", seconds=240)
        (folder / "kernel.cpp").write_text(pointwise_kernel("v.out[0] = 1e30f;"))
        self.expect("verify   mismatch", "best so far")
        (folder / "kernel.cpp").write_text(pointwise_kernel("") + "// again\n")
        self.expect("verify   ok")
        end = time.monotonic() + 60
        while not lab.workers() and time.monotonic() < end:
            time.sleep(0.02)
        self.interrupt()  # in the middle of a bench
        self.assertEqual(self.verdicts(), ["ok", "mismatch", "ok"])
        self.assertEqual(len(self.verdicts("bench")), 1)
        self.assertIn("best ", self.printed[self.seen:])
        self.assertIn("restore --workspace mine", self.printed[self.seen:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
