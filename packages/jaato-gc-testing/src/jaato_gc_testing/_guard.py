"""No check of a suite is switched off in silence."""


def refuse_silent_overrides(suite: type, subclass: type) -> None:
    """Let a subclass override a suite's checks only with ``xfail`` and a reason."""
    for name in dir(suite):
        if not name.startswith("test_"):
            continue
        check = getattr(subclass, name, None)
        if check is getattr(suite, name):
            continue
        marks = [mark for mark in getattr(check, "pytestmark", ()) if mark.name == "xfail"]
        if not any(mark.kwargs.get("reason") for mark in marks):
            raise TypeError(
                f"{subclass.__name__} overrides {name}: a check may only be overridden with "
                '@pytest.mark.xfail(reason="…")'
            )
