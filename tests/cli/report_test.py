"""The report that `evidence --format html` and `--format md` write: its structure, read by a real parser."""

import re
import unittest
import xml.etree.ElementTree as xml

from lab import LabTest, SOURCE

SECTIONS = ["state", "trainer", "bench", "roofline", "share", "history", "provenance"]
NUMBER = re.compile(r"[+-]?\d[\d,.]*")


def text_of(element):
    return " ".join("".join(element.itertext()).split())


class Report(LabTest):
    def page(self, *flags):
        made = self.lab("evidence", "--target", "activation_pointwise", "--preset", "smoke", "--format", "html", *flags)
        self.assertEqual(made.returncode, 0, made.stderr)
        return made.stdout

    def sections(self, page):
        body = xml.fromstring(page.removeprefix("<!DOCTYPE html>\n")).find("body/main")
        return {section.get("id"): section for section in body}

    def assert_stands_alone(self, page):
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        for word in ("http:", "https:", "<script", "url(", "@import", "<link", "<iframe", "javascript:"):
            self.assertNotIn(word, page.lower())
        root = xml.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
        for element in root.iter():
            self.assertNotIn("src", element.attrib)
            self.assertFalse([name for name in element.attrib if name.startswith("on")], element.attrib)
            self.assertTrue(element.get("href", "#").startswith("#"))
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        self.assertEqual(len(ids), len(set(ids)))
        for link in root.iter("a"):
            self.assertIn(link.get("href").removeprefix("#"), ids)

    def assert_drawings_have_words_and_numbers(self, section):
        cells = " ".join(text_of(cell) for cell in section.iter("td"))
        for figure in section.iter("figure"):
            drawing = figure.find("svg")
            self.assertEqual(drawing.get("role"), "img")
            self.assertTrue(drawing.get("aria-label"))
            self.assertTrue(text_of(figure.find("figcaption")))
            marks = list(drawing.iter("title"))
            self.assertTrue(marks, "an empty drawing")
            for mark in marks:
                label, _, numbers = text_of(mark).rpartition(": ")
                for number in NUMBER.findall(numbers):
                    self.assertIn(number.strip(".,"), cells, text_of(mark))

    def test_without_evidence_each_section_says_so_and_names_a_command(self):
        page = self.page()
        self.assert_stands_alone(page)
        sections = self.sections(page)
        self.assertEqual(list(sections), SECTIONS)
        for name, section in sections.items():
            self.assertEqual(list(section.iter("svg")), [], name)
            self.assertTrue([code for code in section.iter("pre") if text_of(code).startswith("kernel-lab")], name)

    def test_a_bench_is_drawn_and_its_numbers_are_in_tables(self):
        self.workspace("a <script> & 'b'", kernel=(SOURCE / "targets/activation_pointwise/reference.cpp").read_text())
        folder = str(self.folder / "a <script> & 'b'")
        for verb in ("verify", "bench"):
            done = self.lab(verb, "--workspace", folder, "--quick")
            self.assertIn("verdict:", done.stdout, done.stderr)
        page = self.page("--workspace", folder)
        self.assert_stands_alone(page)
        sections = self.sections(page)
        self.assertEqual(list(sections), SECTIONS)
        self.assertEqual(len(list(sections["bench"].iter("svg"))), 2)
        for section in sections.values():
            self.assert_drawings_have_words_and_numbers(section)
        markdown = self.lab("evidence", "--target", "activation_pointwise", "--workspace", folder, "--format", "md").stdout
        self.assertEqual([line for line in markdown.splitlines() if line.startswith("## ")],
                         ["## " + text_of(section.find("h2")) for section in sections.values()])
        self.assertNotIn("<script", re.sub(r"`[^`\n]*`", "", markdown))  # in code it is text

    def test_output_takes_the_report_and_json_stays_the_record(self):
        file = self.folder / "report.html"
        made = self.lab("evidence", "--target", "activation_pointwise", "--preset", "smoke", "--format", "html", "--output", file)
        self.assertEqual(made.stdout, f"{file}\n")
        self.assert_stands_alone(file.read_text())
        record = self.record("evidence", "--target", "activation_pointwise", "--preset", "smoke", "--format", "html")
        self.assertEqual(record["schema"], "assessment")


if __name__ == "__main__":
    unittest.main()
