"""Runs the command `coppice` that is installed with the package."""

import os
import pathlib
import sys


def main():
    command = pathlib.Path(__file__).with_name("coppice")
    if not command.is_file():
        print(f"coppice: there is no command next to {__file__}; run `pip install coppice-command`",
              file=sys.stderr)
        return 2
    own = {"COPPICE_PYTHON": sys.executable}  # For what the command runs in Python.
    return os.execve(command, [str(command), *sys.argv[1:]], {**own, **os.environ})


if __name__ == "__main__":
    sys.exit(main())
