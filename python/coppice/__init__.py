"""coppice from Python: `coppice.export` makes kernel packages."""
