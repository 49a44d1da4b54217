"""A target of the user's own: made, edited, wrong in every way it can be, and verified."""

import os
import shutil
import unittest

from lab import LabTest

SIGNATURES = [
    "y[N,C] = f(x[N,C], g[N,C])",
    "y[N,M], m[N] = mix(x[N,K], w[M,K], scale)",
    "loss[1] = total(x[B,T,3])",
]


class OwnTarget(LabTest):
    def make(self, key="own", signature=SIGNATURES[0]):
        made = self.record("new-target", "--key", key, "--from", signature, "--dir", "my")
        self.assertEqual(sorted(made["files"]), ["README.md", "kernel.cpp", "oracle.cpp", "reference.cpp", "spec.toml"])
        return self.folder / "my" / key

    def workspace_of(self, key="own", name="mine"):
        done = self.lab("--targets", "my", "init", "--target", key, "--workspace", name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return name

    def verify(self, exit_code, name="mine", *flags):
        return self.record("--targets", "my", "verify", "--workspace", name, *flags, exit_code=exit_code)


class Scaffolds(OwnTarget):
    def test_a_placeholder_of_any_signature_verifies_as_it_is(self):
        for i, signature in enumerate(SIGNATURES):
            with self.subTest(signature=signature):
                folder = self.make(f"own{i}", signature)
                self.assertEqual(self.verify(0, self.workspace_of(f"own{i}", f"w{i}"))["status"], "ok")
                for name in ("README.md", "spec.toml", "oracle.cpp", "reference.cpp", "kernel.cpp"):
                    self.assertIn("PLACEHOLDER", (folder / name).read_text())

    def test_copies_verify_as_they_are(self):
        for like in ("activation_pointwise", "norm", "reduce"):
            with self.subTest(like=like):
                made = self.record("new-target", "--key", f"my_{like}", "--like", like, "--dir", "my")
                self.assertEqual(self.verify(0, self.workspace_of(f"my_{like}", f"w-{like}"))["status"], "ok")
                self.assertEqual(made["like"], like)

    def test_the_folder_targets_is_found_unasked(self):
        done = self.lab("new-target", "--key", "own", "--like", "activation_pointwise")
        self.assertIn("next: kernel-lab --ledger", done.stdout)
        self.assertNotIn("--targets", done.stdout)
        self.assertEqual(self.lab("init", "--target", "own", "--workspace", "mine").returncode, 0)

    def test_the_next_command_names_the_folder(self):
        done = self.lab("new-target", "--key", "own", "--like", "activation_pointwise", "--dir", "my")
        self.assertIn(" --targets my init --target own ", done.stdout)


class WrongWords(OwnTarget):
    def test_what_is_asked_wrong_is_refused_and_leaves_nothing(self):
        (self.folder / "file").write_text("")
        (self.folder / "my" / "there").mkdir(parents=True)
        like = ["--like", "activation_pointwise", "--dir", "my"]
        for words, named in [
            (["--key", "rmsnorm", *like], "'rmsnorm' is taken"),
            (["--key", "norm", *like], "'norm' is taken"),
            (["--key", "Own-Key", *like], "'Own-Key' cannot be the key"),
            (["--key", "", *like], "--key is given an empty value"),
            (["--key", "there", *like], "there exists already"),
            (["--key", "own", "--like", "rmsnrm"], "did you mean rmsnorm"),
            (["--key", "own", "--like", "rmsnorm", "--dir", "file"], "file is not a folder"),
            (["--key", "own"], "--like TARGET"),
            (["--key", "own", *like, "--from", SIGNATURES[0]], "excludes"),
            (["--key", "own", "--from", "y[N] = f(x[N)"], "column 13"),
        ]:
            with self.subTest(words=words):
                self.assert_refused(self.lab("new-target", *words), 2, named)
                self.assertFalse((self.folder / "my" / "own").exists())
        self.assertEqual(list((self.folder / "my" / "there").iterdir()), [])

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_a_folder_of_others_is_a_matter_of_permission(self):
        (self.folder / "theirs").mkdir(mode=0o555)
        self.assert_refused(self.lab("new-target", "--key", "own", "--from", SIGNATURES[0], "--dir", "theirs"), 5, "theirs")


class BrokenOnes(OwnTarget):
    """Each from the same good folder, after a workspace was made from it."""

    def setUp(self):
        super().setUp()
        self.target = self.make()
        self.workspace_of()
        shutil.copytree(self.target, self.folder / "good")

    def edit(self, name, old, new):
        text = (self.folder / "good" / name).read_text()
        self.assertIn(old, text)
        shutil.copytree(self.folder / "good", self.target, dirs_exist_ok=True)
        (self.target / name).write_text(text.replace(old, new))

    def test_a_broken_spec_is_named_by_file_line_and_column(self):
        self.edit("spec.toml", 'maths = "exact-reorder"', 'maths = "exactly"')
        record = self.verify(2)
        self.assertRegex(record["reason"], r"own/spec\.toml:6:9: 'maths' is 'exactly'")
        self.assertIn("exact-reorder", record["reason"])

    def test_an_oracle_that_does_not_compile_is_not_the_kernels_fault(self):
        self.edit("oracle.cpp", "R sum = R(0.0);", "R sum = nothing;")
        record = self.verify(2)
        self.assertEqual(record["status"], "unsupported-target")
        self.assertRegex(record["reason"], r"my/own/oracle\.cpp:\d+:\d+: error: 'nothing'")
        self.assertIn("oracle.cpp", record["remedy"])

    def test_an_oracle_of_another_target(self):
        self.edit("oracle.cpp", 'KL_EXPORT_ORACLE("own"', 'KL_EXPORT_ORACLE("other"')
        self.assertEqual(self.verify(2)["status"], "unsupported-target")

    def test_a_case_list_with_nothing_in_it(self):
        spec = (self.folder / "good" / "spec.toml").read_text()
        listed = spec[spec.index("quick = ["):spec.index("full = [")]
        self.edit("spec.toml", listed, "quick = []\n")
        self.assertRegex(self.verify(2)["reason"], r"spec\.toml:\d+:\d+: cases\.quick lists no case")
        # Cases in which every kernel is right by luck decide nothing either.
        self.edit("spec.toml", listed, "quick = [{ N = 1, C = 1 }]\n")
        self.assertIn("no strong case", self.verify(2)["reason"])

    def test_no_starter_says_which_file_to_write(self):
        (self.target / "kernel.cpp").unlink()
        for verb in (["init", "--target", "own", "--workspace", "other"], ["verify", "--workspace", "mine"]):
            record = self.record("--targets", "my", *verb, exit_code=5)
            self.assertEqual(record["status"], "starter-unavailable")
            self.assertIn("my/own/kernel.cpp", record["remedy"])
        listed = self.record("--targets", "my", "list-targets")["targets"]
        self.assertEqual([t["status"] for t in listed if t["key"] == "own"], ["no-starter"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
