"""What the tests of the package share: a lab of two machines, and no control process but their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import vink

pytest_plugins = ["pytester"]


def two(**options: object) -> vink.Lab:
    """Two machines at a wire."""
    lab = vink.Lab(time="virtual", seed=1, **options)  # type: ignore[arg-type]
    lab.wire(lab.machine("a"), lab.machine("b"), delay="100ms")
    return lab


@pytest.fixture
def lab() -> Iterator[vink.Lab]:
    """Two machines at a wire of 100 ms, in virtual time."""
    with two() as made:
        yield made
