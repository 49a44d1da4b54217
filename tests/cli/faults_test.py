"""Kernels that misbehave: each ends with a named status, and nothing is left running."""

import unittest

import lab
from lab import LabTest, pointwise_kernel

CLONE = """
namespace {
// fork without a symbol: the call number of fork in assembly.
[[maybe_unused]] long raw_fork() {
  long result = 57;
  asm volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
  return result;
}
}  // namespace
"""

# What it does, its work, what stands before it, statuses and rules that name it.
KERNELS = [
    ("crashes", "__builtin_trap();", "", ["execution-failed"], ["crash"]),
    ("reads null", "[[maybe_unused]] const float out_of_reach = *static_cast<volatile float*>(nullptr);", "",
     ["execution-failed", "rejected"], ["crash", "out-of-bounds"]),
    ("writes past the end", "static_cast<volatile float*>(v.out)[v.n] = 0;", "", ["rejected"], ["out-of-bounds"]),
    ("prints a gigabyte",
     "static const char line[1 << 20] = {}; for (int i = 0; i < 1024; ++i) fwrite(line, 1, sizeof line, stdout);",
     "#include <cstdio>", ["execution-failed"], ["output-flood"]),
    ("forks by name", "if (fork() == 0) for (;;) pause();", "#include <unistd.h>", ["rejected"],
     ["forbidden-symbol"]),
    ("forks by number", "if (raw_fork() == 0) for (;;) {}", CLONE, ["rejected"],
     ["forbidden-syscall", "child-process"]),
    ("counts its calls", "static int calls = 0; if (++calls % 977 == 0) return kl::ok();", "", ["rejected"],
     ["writable-static"]),
    ("calls exit", "std::exit(0);", "#include <cstdlib>", ["rejected"], ["forbidden-symbol"]),
    ("leaves a thread", "std::thread([] { for (;;) {} }).detach();", "#include <thread>", ["rejected"],
     ["forbidden-symbol"]),
    ("sets flush-to-zero", "_mm_setcsr(_mm_getcsr() | 0x8040u);", "#include <immintrin.h>", ["rejected"],
     ["floating-point-state"]),
]


class MisbehavingKernels(LabTest):
    def verify(self, name, work, before, exit_code=3):
        workspace = self.workspace(name.replace(" ", "-"), kernel=pointwise_kernel(work, before))
        return self.record("verify", "--workspace", workspace.name, "--seed", "7", exit_code=exit_code)

    def test_each_is_named_and_nothing_is_left_running(self):
        for name, work, before, statuses, rules in KERNELS:
            with self.subTest(kernel=name):
                record = self.verify(name, work, before)
                self.assertIn(record["status"], statuses, record["reason"])
                self.assertIn(record["rule"], rules, record["proof"])
                self.assertTrue(record["proof"])
                self.assert_no_worker_left()
                self.assertEqual(self.ledger_lines()[-1]["status"], record["status"])

    def test_the_honest_twin_passes(self):
        record = self.verify("honest", "", "", exit_code=0)
        self.assertEqual((record["status"], record["cases_run"]), ("ok", record["cases_planned"]))

    def test_one_that_hangs_is_stopped_at_the_call_limit(self):
        record = self.verify("hangs", "for (volatile bool more = true; more;) {}", "")
        self.assertEqual((record["status"], record["rule"]), ("timed-out", "hang"))
        self.assert_no_worker_left()

    def test_bench_says_the_same_when_verify_is_left_out(self):
        self.workspace("crash", kernel=pointwise_kernel("__builtin_trap();"))
        record = self.record("bench", "--workspace", "crash", "--quick", "--unverified", exit_code=3)
        self.assertEqual((record["schema"], record["status"]), ("bench", "execution-failed"))
        self.assertTrue(record["rule"] and record["proof"])
        self.assert_no_worker_left()

    def test_bench_verifies_first_and_stops_there(self):
        self.workspace("wrong", kernel=pointwise_kernel("v.out[0] += 1;"))
        record = self.record("bench", "--workspace", "wrong", "--quick", exit_code=3)
        self.assertEqual((record["schema"], record["status"]), ("verify", "mismatch"))
        self.assertEqual([line["event_type"] for line in self.ledger_lines()], ["verify"])


class WrongKernels(LabTest):
    def test_the_element_and_its_bound_are_shown_and_the_seed_replays_it(self):
        self.workspace(kernel=pointwise_kernel("v.out[v.n - 1] += 1;"))
        first = self.record("verify", "--workspace", "mine", "--seed", "42", exit_code=3)
        self.assertEqual((first["status"], first["seed"]), ("mismatch", 42))
        failing = first["failing"]
        self.assertGreater(abs(failing["got"] - failing["expected"]), failing["bound"])
        again = self.record("verify", "--workspace", "mine", "--seed", "42", exit_code=3)
        self.assertEqual(again["failing"], failing)
        other = self.record("verify", "--workspace", "mine", exit_code=3)
        self.assertNotEqual(other["seed"], 42)
        text = self.lab("verify", "--workspace", "mine", "--seed", "42").stdout
        self.assertIn("allowed ±", text)
        self.assertIn("verdict: mismatch: ", text)
        self.assertIn("next: kernel-lab ", text)

    def test_one_that_does_not_compile_gets_the_compilers_own_message_with_the_path(self):
        self.workspace(kernel=pointwise_kernel("return nonsense;"))
        done = self.lab("verify", "--workspace", "mine")
        self.assertEqual(done.returncode, 3)
        self.assertIn("build-failed", done.stdout)
        self.assertIn("nonsense", done.stdout)
        self.assertIn("was not declared in this scope", done.stdout)
        self.assertRegex(done.stdout, r"mine/kernel\.cpp:\d+:\d+: error: ")
        record = self.record("verify", "--workspace", "mine", exit_code=3)
        self.assertEqual(record["status"], "build-failed")
        self.assertIn("was not declared in this scope", record["reason"])
        self.assertEqual(self.record("bench", "--workspace", "mine", "--quick", exit_code=3)["status"],
                         "build-failed")

    def test_a_thousand_errors_are_trimmed(self):
        self.workspace(kernel=pointwise_kernel("".join(f"nonsense{i};\n" for i in range(1000))))
        record = self.record("verify", "--workspace", "mine", exit_code=3)
        self.assertEqual(record["status"], "build-failed")
        self.assertLess(len(record["reason"]), 20_000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
