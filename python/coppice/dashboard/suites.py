"""Which models there are, and which of them a command asks for."""

import fnmatch
import importlib

SUITES = {"own": "own", "huggingface": "huggingface", "families": "families", "timm": "vision",
          "torchbench": "torchbench"}


def all_models(suites=SUITES):
    """In the order of the lists. The packages that they come from are not imported."""
    return [model for suite in suites
            for model in importlib.import_module(
                f"coppice.dashboard.{SUITES[suite]}").models()]


def chosen(models, names):
    """Those that are named, by suite, by name, or by either with "*"; without names all. Errors:
    ValueError for a name that nothing has."""
    if not names:
        return list(models)
    found = {}
    for name in names:
        known = [model for model in models
                 if any(fnmatch.fnmatchcase(text, name)
                        for text in (model.suite, model.name, model.key))]
        if not known:
            raise ValueError(f"no suite or model is called {name}; suites are "
                             f"{', '.join(SUITES)}, and --list has all models")
        found.update((model.key, model) for model in known)
    return [model for model in models if model.key in found]
