"""All models, and those that a command selects."""

import fnmatch
import importlib

SUITES = {"own": "own", "huggingface": "huggingface", "families": "families", "timm": "vision",
          "torchbench": "torchbench"}


def all_models(suites=SUITES):
    """All models, in the order of the lists. Does not import the packages that they come from."""
    return [model for suite in suites
            for model in importlib.import_module(
                f"coppice.dashboard.{SUITES[suite]}").models()]


def chosen(models, names):
    """The models that `names` selects by suite or by name, both with "*" as a wildcard; all if
    there are no names. Errors: ValueError for a name that matches nothing."""
    if not names:
        return list(models)
    found = {}
    for name in names:
        known = [model for model in models
                 if any(fnmatch.fnmatchcase(text, name)
                        for text in (model.suite, model.name, model.key))]
        if not known:
            raise ValueError(f"no suite or model is called {name}; the suites are "
                             f"{', '.join(SUITES)}, and --list shows all models")
        found.update((model.key, model) for model in known)
    return [model for model in models if model.key in found]
