"""Tests of the sample run."""

import gzip
import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import count_tokens
from jaato_gc_formats import check_request, from_messages
from jaato_gc_lab import sample_conversation, sample_path

GENERATOR = Path(__file__).parents[1] / "tools" / "make_sample.py"


def content() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(gzip.decompress(sample_path().read_bytes()))
    return data


@pytest.mark.skipif(not GENERATOR.is_file(), reason="tools/make_sample.py is missing")
def test_sample_run_is_the_output_of_its_generator() -> None:
    spec = importlib.util.spec_from_file_location("make_sample", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)

    assert content() == generator.make()


def test_sample_run_is_valid_and_long_enough() -> None:
    sample = sample_conversation()

    assert sample.problems == []
    assert check_request(from_messages(sample.messages), "anthropic") == []
    assert 150 <= len(sample.messages) <= 250
    assert 60_000 <= count_tokens(sample.messages) <= 80_000
    assert sum(message.opens_turn for message in sample.messages) >= 8
    assert sample_path().stat().st_size < 60_000


def test_sample_run_has_repeated_reads_failing_tests_and_failed_edits() -> None:
    blocks = [
        block
        for message in content()["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    reads = Counter(block["input"]["path"] for block in blocks if block.get("name") == "read_file")

    assert sum(count > 1 for count in reads.values()) >= 5
    assert any("FAILED" in block.get("content", "") for block in blocks)
    assert any(block.get("is_error") for block in blocks)
    assert max(len(block.get("content", "")) for block in blocks) > 5_000
