"""Number formats that the terminal output and the report share."""


def number(value: float) -> str:
    """Formats a number without decimals: ``12,345``."""
    return f"{value:,.0f}"


def short(tokens: float) -> str:
    """Formats a token count with about three digits: ``950``, ``8.2k``, ``128k``, ``1.25M``."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= 0.9995 * unit:
            return f"{tokens / unit:.3g}{name}" if tokens < 999.5 * unit else number(tokens / unit)
    return number(tokens)


def counted(count: int, noun: str) -> str:
    """Formats a count with its noun: ``1 replay``, ``3 strategies``."""
    has_ies = noun.endswith("y") and noun[-2] not in "aeiou"
    plural = noun[:-1] + "ies" if has_ies else noun + "s"
    return f"{count:,} {noun if count == 1 else plural}"
