"""Reads the timeline of a GPU, whichever profiler wrote it."""

from coppice.prof import kineto, nsys
from coppice.prof.command import Refused
from coppice.prof.timelines import FORMATS, graph_option

SQLITE = b"SQLite format 3\0"


def read(path):
    """Raises Refused if the file is no timeline, or has no kernels."""
    try:
        with open(path, "rb") as file:
            head = file.read(len(SQLITE))
            timeline = nsys.read(path) if head == SQLITE else kineto.read(path, head, file)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}; {FORMATS}") from error
    if not timeline.kernels:
        raise Refused(f"{path}: {why_none(timeline)}")
    return timeline


def why_none(timeline):
    if timeline.left_out:
        return (f"all of its {timeline.left_out} kernels have times that are not valid; {FORMATS}")
    if timeline.whole_graphs:
        return f"it has graphs, but not their kernels; {graph_option()}"
    return ("it has no kernels; record CUDA's activities: ProfilerActivity.CUDA, or nsys profile "
            "--trace cuda")
