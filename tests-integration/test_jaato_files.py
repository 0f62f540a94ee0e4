"""Files of jaato-server with the strategies of this project: only their type has to be changed."""

import json
from pathlib import Path
from typing import Any

import pytest

from jaato_gc import GCSession, discover_gc_plugins, load_gc_from_file
from jaato_gc.plugin import GCStrategy

EVERY_KEY: dict[str, Any] = {
    "threshold_percent": 75.0,
    "target_percent": 55.0,
    "pressure_percent": 0,
    "preserve_recent_turns": 4,
    "notify_on_gc": False,
    "summarize_middle_turns": 10,
    "max_turns": None,
    "plugin_config": {},
    "media_bytes_threshold": 8388608,
    "evict_consumed_media": True,
    "media_evict_mime_prefixes": ["audio/"],
}
MEDIA = "media_bytes_threshold, evict_consumed_media, media_evict_mime_prefixes"


@pytest.mark.parametrize("strategy", sorted(discover_gc_plugins()))
def test_a_file_with_every_key_configures_a_session_with_any_strategy(
    strategy: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "gc.json"
    file.write_text(json.dumps({"type": strategy, **EVERY_KEY}), encoding="utf-8")

    loaded = load_gc_from_file(file)
    assert loaded
    session = GCSession(summarizer=lambda text: text[:20])
    session.set_gc_plugin(*loaded)

    assert isinstance(session.strategy, GCStrategy)
    assert session.strategy.name == strategy
    assert not session.strategy.settings.notify_on_gc
    assert session.config.threshold_percent == 75.0
    assert session.config.target_percent == 55.0
    assert session.config.preserve_recent_turns == 4
    assert session.config.continuous_mode
    [message] = caplog.messages
    ignored = MEDIA if strategy == "gc_hybrid" else f"{MEDIA}, summarize_middle_turns"
    assert message.endswith(f"no effect with {strategy} and can be removed: {ignored}")


def test_a_file_with_a_type_alone_notifies_the_model(tmp_path: Path) -> None:
    file = tmp_path / "gc.json"
    file.write_text('{"type": "budget"}', encoding="utf-8")

    loaded = load_gc_from_file(file)

    assert loaded
    assert isinstance(loaded[0], GCStrategy)
    assert loaded[0].settings.notify_on_gc
