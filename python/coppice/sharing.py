"""How copy and pickle treat objects that own something of a device."""


class Shared:
    """copy.copy returns the object itself. deepcopy and pickle raise TypeError: a second object
    would end what the first one needs."""

    def __copy__(self):
        return self

    def __reduce_ex__(self, protocol):
        raise TypeError(f"coppice.{type(self).__name__}: it belongs to a device of this process, "
                        "and cannot be pickled or deep-copied; copy.copy() shares it")
