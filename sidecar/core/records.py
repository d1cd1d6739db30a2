"""Records with slots: the part of `dataclasses` that the looks need, without what importing that costs.

A supervisor that waits in silence for hours judges a few records a minute. `dataclasses` brings re, inspect, ast and
tokenize along: 3 MB of its 12, and 17 ms. The type checker is given the real one (see sidecar.core.evidence), so what
is written there must mean the same in both; a test compares them.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Missing:
    """Stands for an argument that was not given, where the default is made anew each time."""


_MISSING = _Missing()


class _Made:
    def __init__(self, factory: "Callable[[], Any]") -> None:
        self.factory = factory


def field(*, default_factory: "Callable[[], Any]") -> "Any":
    """A default that is made for each record."""
    return _Made(default_factory)


def dataclass(*, slots: bool, frozen: bool = False) -> "Callable[[type], type]":
    """A class of annotated fields -> the same with __init__, __slots__, __eq__, __repr__ and __match_args__.

    `slots` must be True; there is no inheritance of fields.
    """
    assert slots

    def make(cls: type) -> type:
        names = tuple(cls.__annotations__)
        defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        kept = {
            name: value
            for name, value in cls.__dict__.items()
            if name not in defaults and name not in ("__dict__", "__weakref__")
        }
        body = {**kept, **_methods(names, defaults, frozen=frozen), "__slots__": names, "__match_args__": names}
        made = type(cls)(cls.__name__, cls.__bases__, body)
        made.__qualname__ = cls.__qualname__
        return made

    return make


def replace(record: "Any", **changes: "Any") -> "Any":
    """A copy with some fields changed."""
    return type(record)(**{name: changes.get(name, getattr(record, name)) for name in record.__slots__})


def _methods(names: tuple[str, ...], defaults: "dict[str, Any]", *, frozen: bool) -> "dict[str, Any]":
    scope: dict[str, Any] = {"_missing": _MISSING, "_set": object.__setattr__}
    arguments, lines = ["self"], []
    for name in names:
        value = name
        if name not in defaults:
            arguments.append(name)
        elif isinstance(defaults[name], _Made):
            scope[f"_made_{name}"] = defaults[name].factory
            arguments.append(f"{name}=_missing")
            value = f"_made_{name}() if {name} is _missing else {name}"
        else:
            scope[f"_default_{name}"] = defaults[name]
            arguments.append(f"{name}=_default_{name}")
        lines.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    exec("\n".join([f"def __init__({', '.join(arguments)}):", *lines]), scope)  # noqa: S102 - names of our own fields

    def values(record: object) -> "tuple[Any, ...]":
        return tuple(getattr(record, name) for name in names)

    def equals(self: object, other: object) -> bool:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def shown(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def refuse(self: object, name: str, value: object = None) -> None:
        raise AttributeError(f"cannot change {name!r} of a frozen record")

    methods: dict[str, Any] = {"__init__": scope["__init__"], "__eq__": equals, "__repr__": shown, "__hash__": None}
    if frozen:
        methods |= {"__hash__": lambda self: hash(values(self)), "__setattr__": refuse, "__delattr__": refuse}
    return methods
