"""Runs the models of PyTorch's dashboards with `torch.compile(backend="coppice")` and with eager
PyTorch.

    python -m coppice.dashboard [SUITE|MODEL...]

Each model is small, has random weights, and runs in a process of its own. It gets one line of JSON,
whose fields lines.py describes; a page shows all lines.

    suites.py      the models there are: own.py, huggingface.py, families.py, vision.py,
                   torchbench.py
    measure.py     runs one model in this process: its results, its graphs, its costs
    distances.py   how far results are from the right ones
    runs.py        runs tasks in processes with a time limit; estimates how long the others take
    lines.py       the lines of results, and files of them
    page.py        the page
"""
