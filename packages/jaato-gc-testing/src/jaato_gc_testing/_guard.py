"""The guard of the suites: a check can't be switched off without a reason."""


def refuse_silent_overrides(suite: type, subclass: type) -> None:
    """Raises a TypeError if a subclass overrides a check without ``xfail`` and a reason."""
    for name in dir(suite):
        if not name.startswith("test_"):
            continue
        check = getattr(subclass, name, None)
        if check is getattr(suite, name):
            continue
        marks = [mark for mark in getattr(check, "pytestmark", ()) if mark.name == "xfail"]
        if not any(mark.kwargs.get("reason") for mark in marks):
            raise TypeError(
                f"{subclass.__name__} overrides {name}: a check can be overridden only with "
                '@pytest.mark.xfail(reason="…")'
            )
