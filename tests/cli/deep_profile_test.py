"""deep-profile as a user meets it: a diagnosis with its metrics, and what bad input is told."""

import json
import unittest

from lab import LabTest


class DeepProfiles(LabTest):
    written = None  # a trace-profile with two candidates

    def profile(self, name="t/smoke.trace-profile.json", **fields):
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        if not self.written:
            self.record("capture", "--preset", "smoke", "--output", "made/smoke", "--quick")
            self.written = self.record("trace-profile", "--metadata", "made/smoke.metadata.json")
            rows = {row["target"]: row for row in self.written["candidates"]}
            self.written["candidates"] = [rows["rmsnorm"] | {"rank": 1}, rows["activation_pointwise"] | {"rank": 2}]
        content = self.written | fields
        file.write_text(json.dumps(content))
        return name

    def deep_profile(self, *more, exit_code=0):
        return self.record("deep-profile", "--trace-profile", self.profile(), "--time-budget", "0.3", *more, exit_code=exit_code)

    def test_without_ceilings_the_metrics_do_not_suffice_and_calibrate_is_the_remedy(self):
        record = self.deep_profile(exit_code=5)
        self.assertEqual((record["status"], record["diagnosis"]), ("insufficient-metrics", ""))
        self.assertIn("calibrate", record["remedy"])
        self.assertEqual(json.loads((self.folder / "t/smoke.deep-profile-rmsnorm.json").read_text()), record)

    def test_a_diagnosis_has_its_metrics_and_is_in_the_ledger(self):
        self.record("calibrate", "--quick", "--preset", "smoke")
        record = self.deep_profile("--rank", "2", "--output", "d/deep.json")
        self.assertEqual((record["status"], record["target"], record["preset"]), ("ok", "activation_pointwise", "smoke"))
        self.assertEqual(record["output_file"], str(self.folder / "d/deep.json"))
        self.assertEqual(json.loads((self.folder / "d/deep.json").read_text()), record)
        self.assertIn(record["method"], ("perf-counters", "roofline"))
        self.assertTrue(0 < record["confidence"] <= 1)
        self.assertGreater(record["calls"], 0)
        metrics = {metric["name"]: metric for metric in record["metrics"]}
        # Beside other work calibrate may find a ceiling below what the kernel then reaches: no value, and the reason says so.
        bandwidth = metrics["bandwidth"]
        self.assertTrue((bandwidth["value"] or 0) > 0 or "impossible" in bandwidth["reason"], bandwidth)
        for metric in metrics.values():
            self.assertEqual(metric["value"] is None, metric["state"] == "missing", metric)
            self.assertEqual(bool(metric["reason"]), metric["state"] != "used", metric)
        event = self.ledger_lines()[-1]
        self.assertEqual((event["event_type"], event["status"], event["target"]), ("deep-profile", "ok", "activation_pointwise"))
        self.assertEqual(event["details"]["record"], record)
        for part in ("seams", "trainer", "fingerprint_class"):
            self.assertTrue(event["identity"][part], part)
        by_name = self.deep_profile("--target", "activation_pointwise")
        self.assertTrue(by_name["output_file"].endswith("t/smoke.deep-profile-activation_pointwise.json"))

    def test_bad_input_is_named(self):
        def refused(*words, file=None, more=()):
            done = self.lab("deep-profile", "--trace-profile", file or self.profile(), *more)
            self.assert_refused(done, 2, *words)

        refused("nowhere.json", file="nowhere.json")
        (self.folder / "cut.json").write_text('{"schema": "trace-pro')
        refused("cut.json", file="cut.json")
        refused("capture", file=self.profile("foreign.json", schema="capture"))
        refused("trace-profile", file=self.profile("list.json", candidates="none"))
        refused("preset", file=self.profile("other.json", preset=""))
        refused("rank 9", "1 to 2", more=("--rank", "9"))
        refused("softmax", more=("--target", "softmax"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
