import inspect

import pytest

from jaato_gc.deprecation import deprecated_since


class Shop:
    def sell(self, count: int, *, price: float = 1.0) -> float:
        """Returns the total."""
        return count * price

    @deprecated_since("0.2", "use Shop.sell")
    def vend(self, count: int, *, price: float = 1.0) -> float:
        """Returns the total."""
        return self.sell(count, price=price)


def test_a_deprecated_method_works_and_its_warning_names_version_and_replacement() -> None:
    with pytest.warns(DeprecationWarning, match=r"Shop\.vend") as warned:
        total = Shop().vend(2, price=1.5)

    assert total == 3.0
    [warning] = warned
    assert str(warning.message) == (
        "jaato-gc 0.2 deprecates Shop.vend, and 1.0 removes it: use Shop.sell"
    )


def test_the_warning_of_a_deprecated_method_names_the_place_that_calls_it() -> None:
    with pytest.warns(DeprecationWarning, match=r"Shop\.vend") as warned:
        Shop().vend(1)

    assert [warning.filename for warning in warned] == [__file__]


def test_a_deprecated_method_keeps_its_signature_and_docstring() -> None:
    assert inspect.signature(Shop.vend) == inspect.signature(Shop.sell)
    assert Shop.vend.__doc__ == Shop.sell.__doc__
