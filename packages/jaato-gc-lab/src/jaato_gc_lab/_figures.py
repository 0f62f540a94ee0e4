"""Number formats that the terminal output and the report share."""

from time import perf_counter


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


def percent(share: float | None) -> str:
    """Formats a fraction as a percentage: ``61%``, with one decimal below 10%, or a dash."""
    if share is None:
        return "-"
    digits = 1 if 0 < abs(share) < 0.0995 else 0
    return f"{share * 100:.{digits}f}%"


def money(amount: float) -> str:
    """Formats an amount without its currency, with more decimals for small amounts."""
    digits = next(
        (digits for least, digits in ((1000, 0), (0.1, 2), (0.01, 3)) if amount >= least), 4
    )
    return f"{amount:,.{digits if amount else 2}f}"


def seconds(value: float) -> str:
    """Formats a duration: ``1.4ms``, ``310ms``, ``3.2s``, ``4min``."""
    if value >= 120:
        return f"{value / 60:.0f}min"
    if value >= 1:
        return f"{value:.1f}s"
    return f"{value * 1000:.1f}ms" if 0 < value < 0.01 else f"{value * 1000:.0f}ms"


def since(started: float) -> str:
    """Formats the time since a moment of `time.perf_counter`."""
    return seconds(perf_counter() - started)
