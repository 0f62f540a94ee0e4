"""Figures in few characters, the same on a terminal and on a page."""


def number(value: float) -> str:
    """A whole number: ``12,345``."""
    return f"{value:,.0f}"


def short(tokens: float) -> str:
    """Tokens in three digits or so: ``950``, ``8.2k``, ``128k``, ``1.25M``."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= 0.9995 * unit:
            return f"{tokens / unit:.3g}{name}" if tokens < 999.5 * unit else number(tokens / unit)
    return number(tokens)


def counted(count: int, noun: str) -> str:
    """A count with its noun: ``1 request``, ``3 strategies``."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count:,} {noun if count == 1 else plural}"
