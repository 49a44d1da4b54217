"""The whole workflow as one chain of command lines, each step the one that the step before named."""

import json
import shutil
import unittest

import lab
from lab import LabTest


class Chain(LabTest):
    def state(self, target, *more):
        check = self.record("promotion-check", "--target", target, "--preset", "smoke", *more)
        return check["state"], check["answer"]

    def orchestrate(self, *source):
        return self.record("orchestrate", *source, "--workspace-root", "ws")

    def next_step(self, plan):
        steps = [step for step in plan["steps"] if step["state"] == "next"]
        self.assertEqual(len(steps), 1, plan["steps"])
        return steps[0]["command"].removeprefix(f"kernel-lab --ledger {self.ledger} ")

    def test_from_profile_to_promotion_check(self):
        told = self.lab("--engine", "cpu", "profile", "--preset", "smoke", "--top-k", "4", "--output", "p.json")
        self.assertEqual((told.returncode, told.stdout.splitlines()[0]), (0, "p.json"), told.stderr)
        profile = json.loads((self.folder / "p.json").read_text())
        self.assert_valid(profile)
        self.assertEqual([c["rank"] for c in profile["candidates"]], [1, 2, 3, 4])
        scores = [c["score"] for c in profile["candidates"]]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertEqual({c["answer"] for c in profile["candidates"]}, {"needs-capture"})
        target = profile["candidates"][0]["target"]

        plan = self.orchestrate("--profile", "p.json")
        self.assertEqual((plan["level"], plan["answer"], plan["candidate"]["target"]), ("candidate", "needs-capture", target))
        self.assertIn("capture --preset smoke", self.next_step(plan))

        made = self.record("extract", "--profile", "p.json", "--workspace", f"ws/{target}", "--rank", "1")
        context = json.loads((self.folder / "ws" / target / "workspace.json").read_text())["context"]
        self.assertEqual((context["preset"], context["rank"], context["score"]), ("smoke", 1, scores[0]))
        self.assertTrue(context["rationale"] and context["category"])
        self.assertEqual(made["target"], target)
        kernel = self.folder / "ws" / target / "kernel.cpp"
        kernel.write_text(kernel.read_text() + "\n// a candidate of its own\n")

        benched = json.loads(self.lab("--json", "bench", "--workspace", f"ws/{target}", "--quick").stdout)
        self.assertIn(benched["status"], ("improved", "equivalent", "regressed", "inconclusive"), benched["reason"])
        self.assertEqual(self.record("verify", "--workspace", f"ws/{target}", "--quick")["status"], "ok")
        self.assertEqual(self.state(target), ("verified-only", "needs-capture"))
        plan = self.orchestrate("--profile", "p.json")
        self.assertEqual(plan["level"], "verified-only")
        self.assertEqual(self.folder / plan["workspace"], self.folder / "ws" / target)

        metadata = "t/smoke.metadata.json"
        captured = self.record("capture", "--workspace", f"ws/{target}", "--output", "t/smoke", "--quick")
        self.assertEqual(captured["bench"]["status"], benched["status"])
        plan = self.orchestrate("--profile", "p.json", "--trace-metadata", metadata)
        self.assertEqual(plan["level"], "promotion-ready")
        commands = [step["command"] for step in plan["steps"]]
        self.assertTrue(any("review-trace" in command for command in commands), commands)
        self.assertTrue(any(f"integration-ab --workspace {plan['workspace']}" in command for command in commands), commands)

        self.lab("integration-ab", "--workspace", f"ws/{target}", "--time-budget", "0.3", "--benchmark-skip-eval", "--no-checkpoint")
        tested = self.ledger_lines()[-1]
        self.assertEqual(tested["event_type"], "integration-ab")
        state, answer = self.state(target, "--workspace", f"ws/{target}")
        expected = {"validated": "integration-validated", "regressed": "integration-regressed", "mixed": "integration-mixed",
                    "equivalent": "integration-equivalent", "inconclusive": "integration-tested"}
        self.assertEqual(state, expected[tested["status"]])
        self.assertNotEqual(answer, "needs-capture")

    def test_each_step_is_the_one_that_the_plan_names(self):
        done = []
        self.record("profile", "--preset", "smoke", "--output", "p.json")
        for wanted in ("capture", "trace-profile", "auto-review", "deep-profile", "extract"):
            plan = self.orchestrate("--profile", "p.json")
            if wanted == "deep-profile" and plan["answer"] != "needs-deep-profile":
                continue  # a share below 10 %
            command = self.next_step(plan).split()
            self.assertEqual(command[0], wanted, (done, plan["steps"]))
            more = ["--quick"] if wanted == "capture" else []
            code = {"deep-profile": (0, 5)}.get(wanted, (0,))  # without ceilings: insufficient-metrics
            told = self.lab(*command, *more)
            self.assertIn(told.returncode, code, (command, told.stdout, told.stderr))
            done.append(wanted)
            if told.returncode != 0:
                break

    def test_a_trace_profile_ranks_by_what_was_seen_and_a_review_moves_it(self):
        self.record("capture", "--preset", "smoke", "--output", "t/smoke", "--quick")
        record = self.record("trace-profile", "--metadata", "t/smoke.metadata.json")
        self.assertEqual(json.loads((self.folder / "t/smoke.trace-profile.json").read_text()), record)
        self.assertEqual(record["candidates"], sorted(record["candidates"], key=lambda c: -c["score"]))
        for c in record["candidates"]:
            self.assertEqual(c["share"], record["seam_share"][c["seam"]])
            self.assertEqual(c["share_from"], "range")
            self.assertNotEqual(c["answer"], "needs-trace-profile")  # this record counts already
        self.assertGreater(sum(record["seam_share"].values()), 0)
        event = self.ledger_lines()[-1]
        self.assertEqual((event["event_type"], event["preset"], event["status"]), ("trace-profile", "smoke", "ok"))

        first = record["candidates"][0]["target"]
        judged = self.record("auto-review", "--trace-profile", "t/smoke.trace-profile.json")
        self.assertEqual(set(judged["relevance"]), {c["target"] for c in record["candidates"]})
        self.assertGreater(judged["confidence"], 0.5)
        self.record("review-trace", "--target", first, "--metadata", "t/smoke.metadata.json", "--relevance", "none", "--notes", "<b>no</b>")
        again = self.record("trace-profile", "--metadata", "t/smoke.metadata.json", "--output", "again.json")
        # A newer trace takes a judgement of none back only where it shows a clearly larger share.
        self.assertNotEqual(again["candidates"][0]["target"], first)
        moves = self.record("promotion-check", "--target", first, "--preset", "smoke")["moves"]
        self.assertIn("it stays demoted because a person judged its relevance none", moves[-1])
        ranked = self.record("profile", "--preset", "smoke")
        here = next(c for c in ranked["candidates"] if c["target"] == first)
        self.assertGreater(here["rank"], 1)
        self.assertIn("a person judged it none", here["moved_by"][0])

    def test_without_the_tool_everything_says_so_and_asks_for_a_capture(self):
        metadata = "t/x.metadata.json"
        self.assertEqual(self.record("capture", "--preset", "smoke", "--output", "t/x", "--tool", "nsys", exit_code=5)["status"], "missing-tool")
        profile = self.record("trace-profile", "--metadata", metadata, exit_code=5)
        self.assertEqual((profile["status"], profile["candidates"]), ("capture-unavailable", []))
        self.assertIn("missing-tool", profile["reason"])
        review = self.record("auto-review", "--trace-profile", "t/x.trace-profile.json", exit_code=5)
        self.assertEqual(review["status"], "insufficient-trace-data")
        self.record("profile", "--preset", "smoke", "--output", "p.json")
        plan = self.orchestrate("--profile", "p.json", "--trace-metadata", metadata)
        self.assertEqual((plan["level"], plan["answer"]), ("candidate", "needs-capture"))
        self.assertTrue(self.next_step(plan).startswith("capture "))
        target = plan["candidate"]["target"]
        self.assertEqual(self.state(target), ("no-evidence", "needs-capture"))
        shutil.copytree(lab.SOURCE / "targets" / target, self.folder / "untouched")
        self.record("extract", "--profile", "p.json", "--workspace", "ws/c")
        kernel = self.folder / "ws/c/kernel.cpp"
        kernel.write_text(kernel.read_text() + "\n// another\n")
        self.record("verify", "--workspace", "ws/c", "--quick")
        plan = self.orchestrate("--profile", "p.json", "--trace-metadata", metadata)
        self.assertEqual((plan["level"], plan["answer"]), ("verified-only", "needs-capture"))


class BadInput(LabTest):
    def refused(self, *verb, words, exit_code=2):
        before = self.ledger_bytes()
        self.assert_refused(self.lab(*verb), exit_code, *words)
        self.assertEqual(self.ledger_bytes(), before)

    def test_profiles(self):
        self.record("profile", "--preset", "smoke", "--top-k", "3", "--output", "p.json")
        whole = (self.folder / "p.json").read_text()
        (self.folder / "cut.json").write_text(whole[:len(whole) // 2])
        (self.folder / "empty.json").write_text("")
        (self.folder / "list.json").write_text("[1, 2]")
        (self.folder / "binary.json").write_bytes(b"\x80\x00\xff")
        (self.folder / "foreign.json").write_text(json.dumps(json.loads(whole) | {"schema": "bench"}))
        (self.folder / "torn.json").write_text(json.dumps(json.loads(whole) | {"candidates": [{"rank": "one"}]}))
        (self.folder / "gone.json").write_text(whole.replace(json.loads(whole)["candidates"][0]["target"], "no_such_target"))
        consumers = {"extract": ("--profile", "--workspace", "w"), "orchestrate": ("--profile", "--workspace-root", "ws"),
                     "auto-review": ("--trace-profile",), "deep-profile": ("--trace-profile",)}
        for verb, (flag, *more) in consumers.items():
            for file in ("absent.json", "cut.json", "empty.json", "list.json", "binary.json", "foreign.json", "torn.json"):
                with self.subTest(verb=verb, file=file):
                    self.refused(verb, flag, file, *more, words=[file])
        self.refused("auto-review", "--trace-profile", "p.json", words=["p.json", "trace-profile"])
        self.refused("deep-profile", "--trace-profile", "p.json", words=["p.json", "trace-profile"])
        for verb in ("extract", "orchestrate"):
            flag, *more = consumers[verb]
            self.refused(verb, flag, "p.json", *more, "--rank", "4", words=["rank 4", "1 to 3"])
            self.refused(verb, flag, "p.json", *more, "--rank", "0", words=["--rank"])
            self.refused(verb, flag, "gone.json", *more, words=["no_such_target"])
        self.refused("orchestrate", "--workspace-root", "ws", words=["--profile", "--trace-profile"])
        self.refused("profile", "--preset", "smok", words=["smok", "smoke"])
        self.refused("profile", "--preset", "smoke", "--output", "/proc/nowhere/p.json", words=["/proc/nowhere"], exit_code=1)
        self.assertFalse((self.folder / "w").exists())

    def test_metadata_and_traces(self):
        self.record("capture", "--preset", "smoke", "--output", "t/smoke", "--quick")
        whole = (self.folder / "t/smoke.metadata.json").read_text()
        (self.folder / "cut.json").write_text(whole[:200])
        (self.folder / "foreign.json").write_text(json.dumps(json.loads(whole) | {"schema": "bench"}))
        for file in ("absent.json", "cut.json", "foreign.json"):
            self.refused("trace-profile", "--metadata", file, words=[file])
            self.refused("review-trace", "--target", "rmsnorm", "--metadata", file, "--relevance", "low", words=[file])
        self.refused("trace-profile", words=["--metadata", "--trace"])
        self.refused("trace-profile", "--trace", "absent", words=["absent"])
        (self.folder / "junk").write_bytes(b"\x7fELF")
        self.refused("trace-profile", "--trace", "junk", words=["junk"])
        self.refused("review-trace", "--target", "rmsnorm", "--metadata", "t/smoke.metadata.json", "--relevance", "lots", words=["lots"])
        self.refused("review-trace", "--target", "rmsnrm", "--metadata", "t/smoke.metadata.json", "--relevance", "low", words=["rmsnorm"])
        (self.folder / "t/smoke.sqlite").unlink()
        self.refused("trace-profile", "--metadata", "t/smoke.metadata.json", words=["smoke.sqlite"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
