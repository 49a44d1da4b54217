"""Completions and the manual page, asked of the shells and of the formatters that are here."""

import re
import shutil
import subprocess
import unittest

import lab
from lab import LabTest


def needs(tool):
    return unittest.skipUnless(shutil.which(tool), f"{tool} is not installed")


class Completions(LabTest):
    # What was typed, what must be among the proposals, what must not.
    TYPED = [
        (["ver"], ["verify"], ["bench"]),
        (["--engine", "c"], ["cpu", "cuda"], []),
        (["verify", "--wor"], ["--workspace"], ["--against"]),
        (["bench", "--against", ""], ["champion", "reference", "vendor"], ["--workspace"]),
        (["--ledger", "x", "bench", "--ag"], ["--against"], []),
        (["init", "--target", "rms"], ["rmsnorm"], ["softmax"]),
        (["ledger", ""], ["check", "merge"], []),
        (["completions", ""], ["zsh"], []),
    ]

    def shell(self, *command):
        environment = dict(lab.ENVIRONMENT, PATH=f"{lab.KERNEL_LAB.parent}:{lab.ENVIRONMENT['PATH']}", HOME=str(self.folder))
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stderr, "", command)
        return done.stdout.split("\n")

    def check(self, propose, typed=TYPED):
        for words, wanted, unwanted in typed:
            with self.subTest(words=words):
                proposed = propose(words)
                for word in wanted:
                    self.assertIn(word, proposed)
                for word in unwanted:
                    self.assertNotIn(word, proposed)

    def script(self, shell):
        text = self.lab("completions", shell).stdout
        (self.folder / shell).write_text(text)
        return self.folder / shell

    def test_bash(self):
        script = self.script("bash")

        def propose(words):
            line = " ".join(f"'{word}'" for word in ["kernel-lab", *words])
            return self.shell("bash", "--norc", "-c", f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; "
                                                      "_kernel_lab; printf '%s\\n' \"${COMPREPLY[@]}\"")
        (self.folder / "mine").mkdir()
        (self.folder / "mine.txt").write_text("")
        self.check(propose, self.TYPED[:-1] + [(["verify", "--workspace", "mi"], ["mine"], ["mine.txt"]),
                                               (["ledger", "merge", "mine.t"], ["mine.txt"], [])])

    @needs("fish")
    def test_fish(self):
        script = self.script("fish")

        def propose(words):
            line = " ".join(["kernel-lab", *words])
            proposed = self.shell("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'")
            return [entry.split("\t")[0] for entry in proposed]
        self.check(propose)

    @needs("zsh")
    def test_zsh(self):
        script = self.script("zsh")
        self.shell("zsh", "-f", "-n", str(script))
        # The completion system needs a terminal; what it is told is looked at instead.
        stub = ("compdef() {}; _describe() { eval print -l \\$$2; }; _files() { print files; }; "
                "_arguments() { print -l -- \"$@\"; state=$STATE; return 1; }; "
                f"source {script}; STATE=verb words=(kernel-lab); _kernel_lab; "
                "STATE=flags words=(bench); _kernel_lab")
        told = "\n".join(self.shell("zsh", "-f", "-c", stub))
        self.assertIn("verify:is the kernel right?", told)
        self.assertIn("--against[champion, reference or vendor]:TEXT:(champion reference vendor)", told)
        self.assertIn("--workspace[workspace folder]:DIR:_files -/", told)

    def test_an_unknown_shell_is_refused(self):
        self.assert_refused(self.lab("completions", "tcsh"), 2, "tcsh")


class Manual(LabTest):
    def test_it_has_every_verb_and_flag_and_its_examples_parse(self):
        text = self.record("man")["text"].replace("\\-", "-")  # refused when an example does not parse
        helped = self.lab("--help").stdout
        verbs = re.findall(r"^  ([a-z-]+) +\S", helped.split("Subcommands:")[1].split("Examples:")[0], re.M)
        self.assertGreater(len(verbs), 15)
        for verb in verbs:
            self.assertIn(f".SS {verb}\n", text)
            for flag in re.findall(r"^  (?:-\w,)?(--[a-z-]+)", self.lab(verb, "--help").stdout, re.M):
                self.assertIn(f"\\fB{flag}\\fR", text)

    @needs("groff")
    def test_groff_has_no_complaint(self):
        page = self.lab("man").stdout
        done = subprocess.run(["groff", "-man", "-Kutf8", "-Tutf8", "-ww"], input=page, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("verify", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
