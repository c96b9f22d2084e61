"""How amounts, sizes, times and shares are written for people, in messages and on pages.

`1.5 cores`, `512 MB`, `16 GB memory`, `2 GPUs`, `2 h 5 min`, `32 MiB`, `37%`. What is compared with another
value is exact: `amount` takes a larger unit only where at most three decimals say the same. `rounded` is for
figures that change all the time. Tables have the unit in the head of a column, and numbers by `plain`.
Numbers with their nouns are `plural`'s.
"""

from __future__ import annotations

from peloton.model.plural import plural

_MILLI = 1000
_MB_SIZES = ((1024**2, "TB"), (1024, "GB"))
_BYTE_SIZES = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))
_SPANS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_SHORT_SECONDS = 10
"""Below, a duration has decimals."""
_UNITS = {
    "cpu": ("core", "cores"),
    "revocable cpu": ("revocable core", "revocable cores"),
    "gpu": ("GPU", "GPUs"),
    "ports": ("port", "ports"),
}
"""Of one, and of any other number."""
_IN_MB = ("memory", "disk")
_OF_MESOS = {"cpus": "cpu", "mem": "memory", "gpus": "gpu"}


def plain(value: float) -> str:
    """Return a number to thousandths, without an exponent and for programs: 0.5, 104857600."""
    return _without_zeros(f"{value:.3f}")


def number(value: float) -> str:
    """Return a number to thousandths for people: 0.5, 104,857,600."""
    return _without_zeros(f"{value:,.3f}")


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".")


def amount(value: float, kind: str) -> str:
    """Return an amount of a kind (in cores, MB, MB or GPUs) with its unit, exactly: `1.5 cores`, `3 GB`."""
    kind = _OF_MESOS.get(kind, kind)
    if kind in _IN_MB:
        return _exact_mb(round(value * _MILLI))
    one, many = _UNITS.get(kind, ("", ""))
    return f"{number(value)} {one if value == 1 else many}".rstrip()


def _exact_mb(thousandths: int) -> str:
    for size, unit in _MB_SIZES:
        if abs(thousandths) >= size * _MILLI and not thousandths % size:
            return f"{number(thousandths / size / _MILLI)} {unit}"
    return f"{number(thousandths / _MILLI)} MB"


def amount_of(value: float, kind: str) -> str:
    """Return an amount with its unit and its kind, where the unit leaves that open: `512 MB memory`."""
    kind = _OF_MESOS.get(kind, kind)
    return f"{amount(value, kind)} {kind}" if kind in _IN_MB else amount(value, kind)


def rounded(value: float, kind: str) -> str:
    """Return an amount of a kind with its unit, to two decimals: `1.27 GB`."""
    divisor, unit = scale_of(value, kind)
    return f"{short(value / divisor)} {unit}".rstrip()


def part_of(value: float, whole: float, kind: str) -> str:
    """Return a part of an amount, rounded and both in the same unit: `0.25 of 2 GB`."""
    divisor, unit = scale_of(max(abs(value), abs(whole)), kind)
    return f"{short(value / divisor)} of {short(whole / divisor)} {unit}".rstrip()


def scale_of(value: float, kind: str) -> tuple[float, str]:
    """Return by what an amount of a kind is divided to be shown rounded, and the unit."""
    if kind in _IN_MB:
        return next(((size, unit) for size, unit in _MB_SIZES if abs(value) >= size), (1.0, "MB"))
    one, many = _UNITS.get(kind, ("", ""))
    return 1.0, one if value == 1 else many


def short(value: float) -> str:
    """Return a number with about three digits, whole numbers with all: `1.27`, `12.7`, `1,234`."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return _without_zeros(f"{value:,.{1 if abs(value) >= 10 else 2}f}")


def byte_size(count: int) -> str:
    """Return a number of bytes, exactly: `32 MiB`, `1,000 bytes`."""
    for divisor, unit in _BYTE_SIZES:
        if abs(count) >= divisor and not count * _MILLI % divisor:
            return f"{number(count / divisor)} {unit}"
    return plural(count, "byte")


def duration(seconds: float) -> str:
    """Return a time span by its two largest units: `2 h 5 min`, `0.25 s`."""
    if abs(seconds) < _SHORT_SECONDS:
        return f"{_without_zeros(f'{seconds:.2f}')} s"
    rest, parts = round(seconds), list[str]()
    for span, unit in _SPANS:
        whole, rest = divmod(rest, span)
        if whole:
            parts.append(f"{whole} {unit}")
        if len(parts) == 2 or (parts and not whole):
            break
    return " ".join(parts)


def elapsed(seconds: float) -> str:
    """Return a measured time span in whole seconds and above: `12 s`, `2 h 5 min`."""
    return duration(round(seconds))


def percent(value: float, whole: float = 1.0) -> str:
    """Return a part of a whole as `37%`; a dash where there is no whole."""
    return f"{100 * value / whole:.0f}%" if whole else "–"
