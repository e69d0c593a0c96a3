#!/usr/bin/env python3
"""Goal: kernel_package.schema.json takes what the reader takes, and refuses the shapes that it
refuses. Method: the manifest that has everything and its patches, which manifest_test.cc puts to
the reader; each bad one says whether a schema can find it ("schema") or only a reader ("reader").

    schema_test.py
"""

import copy
import json
import pathlib
import re
import sys

import jsonschema

HERE = pathlib.Path(__file__).resolve().parent
SCHEMA = HERE.parent.parent / "runtime" / "package" / "kernel_package.schema.json"
FORMAT = HERE.parent.parent / "runtime" / "package" / "FORMAT.md"


def apply(patch, document):
    """A JSON Patch of the operations add, remove and replace."""
    document = copy.deepcopy(document)
    for operation in patch:
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        ]
        place = document
        for part in parents:
            place = place[int(part) if isinstance(place, list) else part]
        if isinstance(place, list):
            last = int(last)
        if operation["op"] == "remove":
            del place[last]
        elif operation["op"] == "add" and isinstance(place, list):
            place.insert(last, operation["value"])
        else:
            place[last] = operation["value"]
    return document


def example():
    """The manifest of FORMAT.md, with digests of full length."""
    text = re.search(r"```json\n(.*?)```", FORMAT.read_text(encoding="utf-8"), re.S).group(1)
    return json.loads(re.sub(r'"([0-9a-f]{4})\.\.\."', lambda m: f'"{m.group(1) * 16}"', text))


def main():
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    full = json.loads((HERE / "fixtures" / "manifest.json").read_text(encoding="utf-8"))
    cases = json.loads((HERE / "fixtures" / "cases.json").read_text(encoding="utf-8"))
    good = [("the manifest that has everything", full, True), ("FORMAT.md's", example(), True)]
    # A later minor version has a schema of its own.
    good += [
        (case["name"], apply(case["patch"], full), "schema" not in case) for case in cases["good"]
    ]
    bad = [
        (case["name"], apply(case["patch"], full), case["found_by"] == "reader")
        for case in cases["bad"]
    ]
    failures = 0
    for name, manifest, expected in good + bad:
        errors = list(validator.iter_errors(manifest))
        if (not errors) != expected:
            failures += 1
            print(f"{name}: {'refused' if errors else 'taken'}, against what the case says")
            for error in errors[:1]:
                print(f"    {error.json_path}: {error.message[:200]}")
    refused = sum(not expected for _, _, expected in good + bad)
    count = len(good) + len(bad)
    print(f"schema_test.py: {count} manifests, {refused} to refuse, {failures} wrong")
    return 1 if failures or refused < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
