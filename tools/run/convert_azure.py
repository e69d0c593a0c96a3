#!/usr/bin/env python3
"""Turns an Azure LLM inference trace into one that `coppice run` reads.

  convert_azure.py RAW > TRACE

RAW is a file of https://github.com/Azure/AzurePublicDataset (© Microsoft, CC-BY-4.0) with the
columns TIMESTAMP, ContextTokens and GeneratedTokens, as data/AzureLLMInferenceTrace_conv.csv and
data/AzureLLMInferenceTrace_code.csv have them. TRACE has one row per request: seconds since the
first one, tokens of its prompt, tokens of its answer.

Exit codes: 0 success; 1 RAW cannot be read or is no such trace, and nothing is written; 2 wrong
arguments.
"""

import argparse
import csv
import datetime
import re
import sys

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
HEADER = "arrival_seconds,input_tokens,output_tokens"
# A second has seven digits behind it, six, or none; a zone is there since 2024.
TIME = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(\.\d{1,6})?\d*(Z|[+-]\d\d:\d\d)?")


def time_of(text):
    """Errors: ValueError  it is no time."""
    match = TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time; give one as 2024-05-10 00:00:01.5+00:00")
    day, fraction, zone = match.groups(default="")
    return datetime.datetime.fromisoformat(
        f"{day}{(fraction or '.').ljust(7, '0')}"
        f"{'+00:00' if zone in ('', 'Z') else zone}")


def converted(lines):
    """The lines of the trace. Errors: ValueError  `line: what`, for what is no row of Azure's."""
    rows = csv.DictReader(lines)
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise ValueError(f"1: there is no column {missing[0]}; give a file of AzurePublicDataset")
    trace, first = [HEADER], None
    for row in rows:
        try:
            time = time_of(row["TIMESTAMP"] or "")
            first = first or time
            seconds = (time - first).total_seconds()
            trace.append(f"{seconds:.6f},{int(row['ContextTokens'])},{int(row['GeneratedTokens'])}")
        except (TypeError, ValueError) as error:
            raise ValueError(f"{rows.line_num}: {error}") from None
    if first is None:
        raise ValueError("1: there is a header and no request")
    return trace


def main(arguments):
    parser = argparse.ArgumentParser(prog="convert_azure.py", description=__doc__,
                                     allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", metavar="RAW")
    options = parser.parse_args(arguments)
    try:
        with open(options.raw, encoding="utf-8", newline="") as lines:
            trace = converted(lines)
    except OSError as error:
        print(f"convert_azure.py: {options.raw}: {error.strerror}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"convert_azure.py: {options.raw}:{error}", file=sys.stderr)
        return 1
    print("\n".join(trace))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
