"""The launches of the CUDA fixtures, as fixture_launches.py has them."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))

import fixture_launches
import references

fixtures = fixture_launches.Fixtures(HERE.parent / "fixtures" / "cuda.tar.xz", references)
FIXTURES = fixtures.folder
draw = fixture_launches.draw
read_all, read, run = fixtures.read_all, fixtures.read, fixtures.run
differences = fixtures.differences
