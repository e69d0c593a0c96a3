"""What a process of a check has said: whether it succeeded, and a note of one line.

A judge sees the exit code, or None if the process was ended, and the output; it returns a status
and a note, which is empty if there is nothing to say.
"""

import contextlib
import json
import re
from typing import Tuple

OK, FAILED, SKIPPED = "ok", "failed", "skipped"
Verdict = Tuple[str, str]  # Status and note.


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "no output"


def json_of(text, **options):
    """The first JSON object that begins a line of `text`, or None; `options` are JSONDecoder's."""
    for start in re.finditer(r"^\{", text, re.MULTILINE):
        with contextlib.suppress(ValueError):
            return json.JSONDecoder(**options).raw_decode(text[start.start():])[0]
    return None


def judge_exit(code, text):
    if code is None:
        return FAILED, last_line(text) if text.strip() else ""
    return (OK, last_line(text)) if code == 0 else (FAILED, f"exit code {code}: {last_line(text)}")


def unfinished_tests(text):
    """What became of the tests of a program that did not come to its summary; empty if none ran."""
    outcomes = {outcome: set(re.findall(rf"^\[ +{outcome} +\] ([^\s,]+)", text, re.MULTILINE))
                for outcome in ("RUN", "OK", "FAILED", "SKIPPED")}
    running = outcomes.pop("RUN") - set().union(*outcomes.values())
    passed, failed, skipped = map(len, outcomes.values())
    note = f"{passed} passed, {failed} failed, {skipped} skipped"
    return f"{note}, in {', '.join(running)}" if running else note if any(outcomes.values()) else ""


def judge_gtest(code, text):
    def count(outcome):
        found = re.findall(rf"^\[  {outcome} +\] (\d+) tests?", text, re.MULTILINE)
        return int(found[-1]) if found else 0

    passed, failed, skipped = count("PASSED"), count("FAILED"), count("SKIPPED")
    note = f"{passed} passed, {failed} failed, {skipped} skipped"
    if code is None:
        return FAILED, unfinished_tests(text)
    if code != 0:
        note = note if failed else unfinished_tests(text) or last_line(text)
        return FAILED, note if failed else f"exit code {code}: {note}"
    return (OK, note) if passed else (FAILED, f"no test ran: {note}")


def judge_suite(code, text):
    """One suite of many: all of its cases may be none for this driver."""
    status, note = judge_gtest(code, text)
    skipped = code == 0 and re.search(r"^no test ran: 0 passed, 0 failed, [1-9]", note)
    return (SKIPPED, note) if skipped else (status, note)


def judge_report(*keys):
    """A JSON object is printed, whatever the exit code; the note quotes `keys` of it."""

    def judge(code, text):
        report = json_of(text)
        if report is None:
            return judge_exit(code, text) if code is None else (
                FAILED, f"exit code {code}: {last_line(text)}")
        return judge_exit(code, ", ".join(f"{key} {report[key]}" for key in keys))

    return judge


def judge_dispatch(code, text):
    cases = (json_of(text) or {}).get("cases", [])
    costs = [f"{case['name']} {case['overhead_ns_p50']:.0f} ns" for case in cases]
    return judge_exit(code, ", ".join(costs) or text)


def judge_table(path):
    """Success also writes a table."""

    def judge(code, text):
        if code:
            return judge_exit(code, text)
        lines = len(path.read_text().splitlines()) if path.is_file() else 0
        if code is None:
            return FAILED, f"{lines} lines so far" if lines else ""
        return (OK, f"{lines} lines") if lines else (FAILED, f"it wrote no {path.name}")

    return judge


def judge_memcheck(code, text):
    if "Device not supported" in text:
        return SKIPPED, "compute-sanitizer does not support this device"
    if code is None:
        return FAILED, unfinished_tests(text)
    summaries = re.findall(r"ERROR SUMMARY: .*", text)
    note = summaries[-1] if summaries else last_line(text)
    return (OK, note) if code == 0 and summaries else (FAILED, f"exit code {code}: {note}")


def judge_reference(code, text):
    """PyTorch's side of the package; a machine without PyTorch has none."""
    absent = re.search(r"No module named '(torch|numpy)'", text)
    if absent:
        return SKIPPED, f"{absent.group(1)} is not installed"
    return judge_report("max_error", "rows", "wrong_tokens")(code, text)


def judge_unittest(code, text):
    """Tests of Python that need PyTorch and coppice; a machine may have neither."""
    absent = re.search(r"No module named '(torch|triton|coppice)[.\w]*'", text)
    if absent:
        return SKIPPED, f"{absent.group(1)} is not installed"
    ran = re.search(r"^Ran (\d+) tests?", text, re.MULTILINE)
    counts = re.search(r"^(?:OK|FAILED) \((.*)\)", text, re.MULTILINE)
    if code is None:
        return judge_exit(code, text)
    if ran is None:
        return FAILED, f"exit code {code}: no test ran: {last_line(text)}"
    note = f"{ran.group(1)} ran{f', {counts.group(1)}' if counts else ''}"
    return (OK, note) if code == 0 else (FAILED, f"exit code {code}: {note}")
