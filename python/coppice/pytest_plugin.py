"""The plug-in of pytest: `pytest --coppice` runs the Triton kernels of tests on the emulator.

Without --coppice it does nothing, and imports nothing. docs/how-to/pytest.md shows it in use.
"""

import pytest

PLUGIN = "coppice.triton.testing"  # The name of what runs tests, where it does.
NEEDING = ("coppice_capability", "coppice_seeds", "coppice_seed", "coppice_autotune")


def pytest_addoption(parser):
    group = parser.getgroup("coppice", "Triton kernels without a GPU")
    group.addoption("--coppice", action="store_true",
                    help="run Triton kernels on coppice's emulator, each test on a device of its "
                         "own; a finding fails the test")
    group.addoption("--coppice-capability", type=int, metavar="N",
                    help="the compute capability to compile for: 80 (default), 86, 89 or 90")
    group.addoption("--coppice-seeds", type=int, metavar="N",
                    help="run each test N times, each time with blocks and warps in a new order")
    group.addoption("--coppice-seed", type=int, metavar="N",
                    help="the seed of the first order (default: 1)")
    group.addoption("--coppice-autotune", choices=("first", "compare"),
                    help="what @triton.autotune does: take the first configuration that fits, or "
                         "run all and fail if their results differ")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Begins early, because test files and conftest.py look for a GPU when they are imported."""
    begin(early_config, early_config.known_args_namespace)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Does the same if the plug-in was loaded too late for the hook above, for example by -p in a
    process of xdist."""
    begin(config, config.option)


def begin(config, options):
    if config.pluginmanager.hasplugin(PLUGIN):
        return
    given = {name: value for name in NEEDING if (value := getattr(options, name)) is not None}
    if not options.coppice:
        for name in given:
            raise pytest.UsageError(f"--{name.replace('_', '-')} needs --coppice")
        return
    try:
        from coppice.triton.testing import Testing
    except ImportError as error:
        raise pytest.UsageError(f"--coppice needs Triton and PyTorch: {error}") from error
    given = {name.removeprefix("coppice_"): value for name, value in given.items()}
    for name in ("seeds", "seed"):
        if given.get(name, 1) < 1:
            raise pytest.UsageError(f"--coppice-{name}: {given[name]} is less than 1")
    testing = Testing(config, **given)
    config.add_cleanup(testing.close)
    config.pluginmanager.register(testing, PLUGIN)
